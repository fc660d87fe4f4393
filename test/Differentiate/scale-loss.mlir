// A loss that is scaled: gradients come times the scale and leave the step without it.

// RUN: kerf-opt --kerf-differentiate=scale-loss --kerf-verify-differentiated --split-input-file %s | FileCheck %s

// All of it is exact for a power of two (the interpreter takes 1024): scaled, a model trains with the same bits.
// RUN: kerf-opt --kerf-differentiate %S/Inputs/decoder.mlir -o %t.plain.mlir
// RUN: kerf-opt --kerf-differentiate=scale-loss %S/Inputs/decoder.mlir -o %t.scaled.mlir
// RUN: kerf-inspect interpret %t.plain.mlir --steps=3 > %t.plain
// RUN: kerf-inspect interpret %t.scaled.mlir --steps=3 | diff %t.plain -
// RUN: grep -q 'grad norm 51' %t.plain

// The scale is the gradient of the loss; norm, clipping and updates see what is left without
// it; updates take place where the norm is finite. Each tells its phase.

// CHECK-LABEL: kerf.model @clipped(
// CHECK-SAME: loss_scale %[[S:loss_scale]]: tensor<f32>
// CHECK-NOT: dense<1.000000e+00> : tensor<f32>
// CHECK: kerf.broadcast %[[S]] {{.*}} : tensor<f32> -> tensor<4xf32>
// CHECK: %[[SCALED:.*]] = kerf.global_norm %{{.*}} {kerf.phase = #kerf.phase<update -1>} : tensor<4xf32>
// CHECK: %[[INF:.*]] = kerf.constant {kerf.phase = #kerf.phase<update -1>} dense<0x7F800000>
// CHECK: %[[COUNTS:.*]] = kerf.compare lt %[[SCALED]], %[[INF]] {kerf.phase = #kerf.phase<update -1>}
// CHECK: %[[NORM:.*]] = kerf.div %[[SCALED]], %[[S]] {kerf.phase = #kerf.phase<update -1>}
// CHECK: %[[CLIP:.*]] = kerf.clip_factor %[[NORM]] max 5.000000e-01
// CHECK: %[[FACTOR:.*]] = kerf.div %[[CLIP]], %[[S]] {kerf.phase = #kerf.phase<update -1>}
// CHECK: kerf.update "w" {{.*}} scale %[[FACTOR]] {{.*}} if %[[COUNTS]]
// CHECK: kerf.return %{{.*}}, %[[NORM]]
kerf.model @clipped() attributes {optimizer = #kerf.adamw<>, clip_norm = 0.5} {
  %w = kerf.param "w" init<ones> : tensor<4xf32>
  %e = kerf.exp %w : tensor<4xf32>
  %loss = kerf.reduce sum %e dims [0] : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Without clipping there is a norm all the same: it tells whether gradients overflow.

// CHECK-LABEL: kerf.model @unclipped(
// CHECK: %[[SCALED:.*]] = kerf.global_norm
// CHECK: %[[COUNTS:.*]] = kerf.compare lt %[[SCALED]]
// CHECK: %[[NORM:.*]] = kerf.div %[[SCALED]], %[[S:.*]] {
// CHECK-NOT: kerf.clip_factor
// CHECK: %[[FACTOR:.*]] = kerf.div %{{.*}}, %[[S]] {
// CHECK: kerf.update "w" {{.*}} scale %[[FACTOR]] {{.*}} if %[[COUNTS]]
// CHECK: kerf.return %{{.*}}, %[[NORM]]
kerf.model @unclipped() attributes {optimizer = #kerf.sgd<>} {
  %w = kerf.param "w" init<ones> : tensor<4xf32>
  %e = kerf.exp %w : tensor<4xf32>
  %loss = kerf.reduce sum %e dims [0] : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}
