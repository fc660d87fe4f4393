// RUN: kerf-opt --kerf-differentiate --kerf-verify-differentiated --split-input-file %s | FileCheck %s
// RUN: kerf-opt --kerf-differentiate --kerf-recompute-views --kerf-verify-differentiated --split-input-file %s | FileCheck %s
// RUN: kerf-opt --kerf-differentiate --kerf-recompute=values=selective --kerf-verify-differentiated --split-input-file %s | FileCheck %s
// RUN: kerf-opt --kerf-differentiate --kerf-recompute=values=6 --kerf-verify-differentiated --split-input-file %s | FileCheck %s

// A frozen weight gets no gradient; its numbers are recomputed of its codes in the reverse
// body, just before they are read, and are never stacked.

// CHECK-LABEL: kerf.model @codes
// CHECK: kerf.repeat %{{.*}} (%[[H:.*]] = %{{.*}} : tensor<2x64xf32>)
// CHECK: kerf.dequantize
// CHECK: kerf.yield %{{.*}}{{( stack\(.*\) )?.*}}
// CHECK-NOT: tensor<3x64x64xf32>
// CHECK: kerf.repeat reverse
// CHECK: %[[C:.*]] = kerf.param "h.{i}.w" init<nf4> frozen
// CHECK: %[[W:.*]] = kerf.dequantize %[[C]], {{.*}}kerf.recomputed
// CHECK-NEXT: kerf.einsum {{.*}} %{{.*}}, %[[W]]
// CHECK: kerf.yield
// CHECK-NOT: kerf.update "h.{i}.w"
// CHECK: kerf.update "x"
// CHECK-NOT: kerf.update "h.{i}.w"
kerf.model @codes() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x64xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x64xf32>) {
    %c = kerf.param "h.{i}.w" init<nf4> frozen : tensor<64x32xi8>
    %s = kerf.param "h.{i}.w.absmax" init<ones> frozen : tensor<64x1xf32>
    %w = kerf.dequantize %c, %s : tensor<64x32xi8>, tensor<64x1xf32> -> tensor<64x64xf32>
    %u = kerf.linear %h, %w : tensor<2x64xf32>, tensor<64x64xf32>
    %n = kerf.sin %u : tensor<2x64xf32>
    kerf.yield %n : tensor<2x64xf32>
  }
  %loss = kerf.reduce sum %y dims [0, 1] : tensor<2x64xf32>
  kerf.return %loss : tensor<f32>
}
