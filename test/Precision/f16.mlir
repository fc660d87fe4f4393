// RUN: kerf-opt --kerf-differentiate=scale-loss --kerf-precision=policy=f16 --kerf-verify-precision %s | FileCheck %s

// f16 without a scaled loss would lose gradients.
// RUN: kerf-opt --kerf-differentiate %s -o %t.plain.mlir
// RUN: not kerf-opt --kerf-precision=policy=f16 %t.plain.mlir 2>&1 | FileCheck %s --check-prefix=PLAIN
// PLAIN: error: 'kerf.model' op of f16 needs a scaled loss
// PLAIN: note: differentiate it with 'scale-loss'

// In f16 a model trains nearly the same, and not exactly.
// RUN: kerf-opt --kerf-differentiate %S/../Differentiate/Inputs/decoder.mlir -o %t.f32.mlir
// RUN: kerf-opt --kerf-differentiate=scale-loss --kerf-precision=policy=f16 --kerf-verify-precision \
// RUN:   --kerf-verify-differentiated %S/../Differentiate/Inputs/decoder.mlir -o %t.f16.mlir
// RUN: kerf-inspect interpret %t.f32.mlir --steps=4 > %t.f32
// RUN: kerf-inspect interpret %t.f16.mlir --steps=4 > %t.f16
// RUN: %python %S/Inputs/close.py %t.f32 %t.f16

// As bf16: weights and activations are f16; the loss, its scale, weight gradients, norm and masters f32.

// CHECK-LABEL: kerf.model @mlp
// CHECK-SAME: loss_scale %[[S:loss_scale]]: tensor<f32>
// CHECK: kerf.param "wte" init<normal, 0.5> master f32 {{.*}} : tensor<6x4xf16>
// CHECK: kerf.linear {{.*}} : tensor<2x3x4xf16>, tensor<6x4xf16>
// CHECK: %[[LOSS:.*]] = kerf.cross_entropy {{.*}} : tensor<2x3x6xf16>
// CHECK: kerf.cross_entropy_backward {{.*}}%[[S]]{{.*}} : tensor<2x3x6xf16>
// CHECK: %[[DHEAD:.*]] = kerf.einsum {{.*}}weight_gradient{{.*}} -> tensor<6x4xf32>
// CHECK: %[[NORM:.*]] = kerf.global_norm {{.*}} : tensor<6x4xf32>
// CHECK: kerf.div %[[NORM]], %[[S]] {{.*}} : tensor<f32>
// CHECK: kerf.update "wte" {{.*}} into f16 {{.*}} : tensor<6x4xf32>
// CHECK: kerf.return %[[LOSS]], {{.*}} : tensor<f32>, tensor<f32>
kerf.model @mlp(tokens %t: tensor<2x3xi32>, targets %u: tensor<2x3xi32>) attributes {optimizer = #kerf.adamw<>} {
  %wte = kerf.param "wte" init<normal, 0.5> : tensor<6x4xf32>
  %x = kerf.embedding %t, %wte : tensor<2x3xi32>, tensor<6x4xf32>
  %l = kerf.linear %x, %wte : tensor<2x3x4xf32>, tensor<6x4xf32>
  %n = kerf.count_valid %u : tensor<2x3xi32>
  %loss = kerf.cross_entropy %l, %u normalizer %n : tensor<2x3x6xf32>, tensor<2x3xi32>
  kerf.return %loss : tensor<f32>
}
