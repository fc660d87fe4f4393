// RUN: kerf-opt --kerf-differentiate --kerf-precision=policy=bf16 --kerf-verify-precision %s | FileCheck %s

// Numbers that are made of codes have the type of weights, in the forward pass and where
// they are recomputed; scales stay f32. Nothing frozen has a master.

// CHECK-LABEL: kerf.model @codes
// CHECK: kerf.repeat
// CHECK: kerf.param "h.{i}.w" init<nf4> frozen {{.*}} : tensor<64x32xi8>
// CHECK: kerf.param "h.{i}.w.absmax" init<ones> frozen {{.*}} : tensor<64x1xf32>
// CHECK: kerf.dequantize {{.*}} -> tensor<64x64xbf16>
// CHECK: kerf.param "h.{i}.g" init<ones> frozen {{.*}} : tensor<64xbf16>
// CHECK: kerf.repeat reverse
// CHECK: kerf.param "h.{i}.w.absmax" {{.*}} : tensor<64x1xf32>
// CHECK: kerf.dequantize {{.*}} -> tensor<64x64xbf16>
// CHECK-NOT: master
kerf.model @codes(%x: tensor<2x64xf32>) attributes {optimizer = #kerf.sgd<>} {
  %b = kerf.param "b" init<zeros> : tensor<2x64xf32>
  %h0 = kerf.add %x, %b : tensor<2x64xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %h0 : tensor<2x64xf32>) {
    %c = kerf.param "h.{i}.w" init<nf4> frozen : tensor<64x32xi8>
    %s = kerf.param "h.{i}.w.absmax" init<ones> frozen : tensor<64x1xf32>
    %w = kerf.dequantize %c, %s : tensor<64x32xi8>, tensor<64x1xf32> -> tensor<64x64xf32>
    %u = kerf.linear %h, %w : tensor<2x64xf32>, tensor<64x64xf32>
    %g = kerf.param "h.{i}.g" init<ones> frozen : tensor<64xf32>
    %n = kerf.rms_norm %u, %g : tensor<2x64xf32>, tensor<64xf32>
    kerf.yield %n : tensor<2x64xf32>
  }
  %loss = kerf.reduce sum %y dims [0, 1] : tensor<2x64xf32>
  kerf.return %loss : tensor<f32>
}
