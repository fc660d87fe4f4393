// RUN: kerf-opt --kerf-decompose --split-input-file %s | FileCheck %s

// A whole training step decomposes into ops with a meaning of their own, and means the same.
// RUN: kerf-opt --kerf-differentiate %S/../Differentiate/Inputs/decoder.mlir -o %t.step.mlir
// RUN: kerf-opt --kerf-decompose %t.step.mlir -o %t.plain.mlir
// RUN: FileCheck %s --check-prefix=PLAIN < %t.plain.mlir
// RUN: kerf-inspect interpret %t.step.mlir --steps=3 | grep -o "loss [^ ]*" > %t.losses
// RUN: kerf-inspect interpret %t.plain.mlir --steps=3 | grep -o "loss [^ ]*" | diff %t.losses -

// PLAIN-NOT: kerf.{{linear|rms_norm|attention|rope|embedding|cross_entropy|count_valid|global_norm|clip_factor}}
// PLAIN: kerf.update

// The new ops keep the phase of the op.

// CHECK-LABEL: kerf.model @silu
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32>
// CHECK-NEXT: %[[S:.*]] = kerf.logistic %[[X]] {kerf.phase = #kerf.phase<forward 7>}
// CHECK-NEXT: %[[Y:.*]] = kerf.mul %[[X]], %[[S]] {kerf.phase = #kerf.phase<forward 7>}
// CHECK-NEXT: kerf.reduce sum %[[Y]]
kerf.model @silu(%x: tensor<4xf32>) {
  %y = kerf.silu %x {kerf.phase = #kerf.phase<forward 7>} : tensor<4xf32>
  %s = kerf.reduce sum %y dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}

// -----

// An op may decompose into ops that decompose again, also inside a repeat.

// CHECK-LABEL: kerf.model @route
// CHECK: kerf.repeat
// CHECK-NOT: kerf.{{route|softmax}}
// CHECK: kerf.exp
// CHECK: kerf.top_k
// CHECK: kerf.yield
kerf.model @route(%x: tensor<1x2x4xf32>) {
  %ws = kerf.repeat %i = 0 to 2 () {
    %w, %e = kerf.route %x k 2 : tensor<1x2x4xf32>
    kerf.yield stack(%w) : tensor<1x2x2xf32>
  }
  %s = kerf.reduce sum %ws dims [0, 1, 2, 3] : tensor<2x1x2x2xf32>
  kerf.return %s : tensor<f32>
}

// -----

// Plain ops stay as they are.

// CHECK-LABEL: kerf.model @plain
// CHECK-NEXT: kerf.exp %{{[a-z0-9]+}} : tensor<f32>
// CHECK-NEXT: kerf.return
kerf.model @plain(%x: tensor<f32>) {
  %y = kerf.exp %x : tensor<f32>
  kerf.return %y : tensor<f32>
}
