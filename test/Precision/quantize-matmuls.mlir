// RUN: kerf-opt --kerf-differentiate --kerf-precision=policy=bf16 --kerf-quantize-matmuls --kerf-verify-precision %s | FileCheck %s

// In 8 bits a model trains nearly the same, and not exactly; wider matmuls of the same operands change nothing.
// RUN: kerf-opt --kerf-differentiate --kerf-precision=policy=bf16 %s -o %t.bf16.mlir
// RUN: kerf-opt --kerf-quantize-matmuls %t.bf16.mlir -o %t.fp8.mlir
// RUN: kerf-opt --kerf-widen-matmuls=all=true %t.fp8.mlir -o %t.wide.mlir
// RUN: kerf-inspect interpret %t.bf16.mlir --steps=4 > %t.bf16
// RUN: kerf-inspect interpret %t.fp8.mlir --steps=4 > %t.fp8
// RUN: kerf-inspect interpret %t.wide.mlir --steps=4 > %t.wide
// RUN: %python %S/Inputs/close.py %t.bf16 %t.fp8
// RUN: diff %t.fp8 %t.wide
// RUN: FileCheck %s --check-prefix=WIDE < %t.wide.mlir
// WIDE-NOT: kerf.einsum {{.*}}xf8

// Sizes of 16 are multiplied in 8 bits anyway, where no device is named.
// RUN: kerf-opt --kerf-widen-matmuls %t.fp8.mlir | diff %t.fp8.mlir -

// A layer in 8 bits, beside one whose weight has 8 rows; the head is outside.
// CHECK-LABEL: kerf.model @layers
// CHECK: kerf.repeat
// CHECK: %[[X:.*]] = kerf.rms_norm
// CHECK: %[[W:.*]] = kerf.param "h.{i}.w"
// CHECK: %[[B:.*]] = kerf.param "h.{i}.b"
// CHECK: %[[UX:.*]] = kerf.unit %[[X]] of f8E4M3FN {{.*}} : tensor<2x8x16xbf16>
// CHECK: %[[NX:.*]] = kerf.cast %[[UX]] {{.*}} : tensor<f32> -> tensor<bf16>
// CHECK: %[[IX:.*]] = kerf.div %{{.*}}, %[[NX]]
// CHECK: %[[FX:.*]] = kerf.broadcast %[[IX]]
// CHECK: %[[SX:.*]] = kerf.mul %[[X]], %[[FX]]
// CHECK: %[[QX:.*]] = kerf.cast %[[SX]] {{.*}} -> tensor<2x8x16xf8E4M3FN>
// CHECK: %[[UW:.*]] = kerf.unit %[[W]] of f8E4M3FN {{.*}} : tensor<16x32xbf16>
// CHECK: %[[NW:.*]] = kerf.cast %[[UW]]
// CHECK: %[[T:.*]] = kerf.transpose %[[W]] perm [1, 0]
// CHECK: %[[SW:.*]] = kerf.mul %[[T]]
// CHECK: %[[QW:.*]] = kerf.cast %[[SW]] {{.*}} -> tensor<32x16xf8E4M3FN>
// CHECK: %[[Y:.*]] = kerf.einsum "bsk,nk->bsn" %[[QX]], %[[QW]] {{.*}}phase<forward [[N:[0-9]+]]>{{.*}} -> tensor<2x8x32xbf16>
// CHECK: %[[U:.*]] = kerf.mul %[[NX]], %[[NW]] {{.*}} : tensor<bf16>
// CHECK: %[[FU:.*]] = kerf.broadcast %[[U]]
// CHECK: %[[Z:.*]] = kerf.mul %[[Y]], %[[FU]]
// CHECK: %[[C:.*]] = kerf.broadcast %[[B]]
// CHECK: kerf.add %[[Z]], %[[C]] {{.*}} : tensor<2x8x32xbf16>
// CHECK: kerf.linear {{.*}} : tensor<2x8x32xbf16>, tensor<8x32xbf16>
// CHECK: kerf.linear {{.*}} : tensor<2x8x8xbf16>, tensor<16x8xbf16>
// Units of the input and of the weight are kept for the backward pass.
// CHECK: kerf.yield {{.*}} stack({{.*}}%[[UX]], %[[UW]])
// CHECK: kerf.linear {{.*}} : tensor<2x8x16xbf16>, tensor<16x16xbf16>

// Gradients of results are f8E5M2; one unit serves both of their matmuls. Those of weights stay f32.
// CHECK: kerf.repeat reverse {{.*}}[[KX:%[a-z0-9]+]] = %{{[0-9]+#[0-9]+}} : tensor<2xf32>, [[KW:%[a-z0-9]+]] = %{{[0-9]+#[0-9]+}} : tensor<2xf32>)
// CHECK: kerf.unit {{.*}} of f8E5M2
// CHECK-NOT: kerf.unit
// CHECK: kerf.power_of_two [[KW]]
// CHECK-NOT: kerf.unit
// CHECK: kerf.einsum "bsn,kn->bsk" {{.*}}phase<input_gradient [[N]]>{{.*}} : tensor<2x8x32xf8E5M2>, tensor<16x32xf8E4M3FN> -> tensor<2x8x16xbf16>
// CHECK-NOT: kerf.unit
// CHECK: kerf.power_of_two [[KX]]
// CHECK: kerf.einsum "nbs,kbs->kn" {{.*}}phase<weight_gradient [[N]]>{{.*}} : tensor<32x2x8xf8E5M2>, tensor<16x2x8xf8E4M3FN> -> tensor<16x32xf32>
kerf.model @layers(tokens %t: tensor<2x8xi32>, targets %u: tensor<2x8xi32>) attributes {optimizer = #kerf.adamw<>} {
  %wte = kerf.param "wte" init<normal, 0.5> : tensor<16x16xf32>
  %x = kerf.embedding %t, %wte : tensor<2x8xi32>, tensor<16x16xf32>
  %y = kerf.repeat %i = 0 to 2 (%h = %x : tensor<2x8x16xf32>) {
    %g = kerf.param "h.{i}.g" init<ones> : tensor<16xf32>
    %n = kerf.rms_norm %h, %g : tensor<2x8x16xf32>, tensor<16xf32>
    %w = kerf.param "h.{i}.w" init<normal, 0.3> : tensor<16x32xf32>
    %b = kerf.param "h.{i}.b" init<normal, 0.3> : tensor<32xf32>
    %a = kerf.linear %n, %w bias %b transposed : tensor<2x8x16xf32>, tensor<16x32xf32>, tensor<32xf32>
    %s = kerf.silu %a : tensor<2x8x32xf32>
    %v = kerf.param "h.{i}.v" init<normal, 0.3> : tensor<8x32xf32>
    %c = kerf.linear %s, %v : tensor<2x8x32xf32>, tensor<8x32xf32>
    %o = kerf.param "h.{i}.o" init<normal, 0.3> : tensor<16x8xf32>
    %d = kerf.linear %c, %o : tensor<2x8x8xf32>, tensor<16x8xf32>
    %r = kerf.add %h, %d : tensor<2x8x16xf32>
    kerf.yield %r : tensor<2x8x16xf32>
  }
  %l = kerf.linear %y, %wte : tensor<2x8x16xf32>, tensor<16x16xf32>
  %k = kerf.count_valid %u : tensor<2x8xi32>
  %loss = kerf.cross_entropy %l, %u normalizer %k : tensor<2x8x16xf32>, tensor<2x8xi32>
  kerf.return %loss : tensor<f32>
}
