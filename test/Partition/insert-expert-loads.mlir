// RUN: kerf-opt %s --kerf-insert-expert-loads --split-input-file | FileCheck %s

// Without a capacity the sizes are what was chosen: of a repeat they are stacked,
// after what it stacks already. The name is that of the layers' weights.
// CHECK-LABEL: kerf.model @layers
// CHECK: %[[Y:.*]]:3 = kerf.repeat %{{.*}} = 2 to 4
// CHECK: %[[S:.*]], %[[N:.*]] = kerf.assign_slots
// CHECK-NEXT: %[[F:.*]] = kerf.cast %[[N]] {kerf.phase = #kerf.phase<forward 3>} : tensor<2x4xi32> -> tensor<2x4xf32>
// CHECK-NEXT: %[[L:.*]] = kerf.reduce sum %[[F]] dims [0] {kerf.phase = #kerf.phase<forward 3>} : tensor<2x4xf32>
// CHECK-NOT: kerf.expert_load
// CHECK: kerf.yield %{{.*}} stack(%[[S]], %[[L]])
// CHECK: kerf.return %{{.*}}, %[[Y]]#2 names ["", "expert_load h.{i}.moe 2 to 4"] : tensor<f32>, tensor<2x4xf32>
kerf.model @layers(%x: tensor<2x8x16xf32>, %e: tensor<2x8x2xi32>, %loss: tensor<f32>) {
  %y, %all = kerf.repeat %i = 2 to 4 (%h = %x : tensor<2x8x16xf32>) {
    %s, %n = kerf.assign_slots %e count 4 group 1 {kerf.phase = #kerf.phase<forward 3>} : tensor<2x8x2xi32>
    %r = kerf.dispatch %h, %s : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<2x16x16xf32>
    %w = kerf.param "h.{i}.moe.experts.{e}.weight" init<ones> : tensor<4x16x16xf32>
    %v = kerf.cast %w : tensor<4x16x16xf32> -> tensor<4x16x16xbf16>
    %b = kerf.cast %r : tensor<2x16x16xf32> -> tensor<2x16x16xbf16>
    %m = kerf.grouped_matmul %b, %v, %n : tensor<2x16x16xbf16>, tensor<4x16x16xbf16>, tensor<2x4xi32>
    %d = kerf.cast %m : tensor<2x16x16xbf16> -> tensor<2x16x16xf32>
    %c = kerf.combine %d, %s : tensor<2x16x16xf32>, tensor<2x8x2xi32>
    kerf.yield %c stack(%s) : tensor<2x8x16xf32>, tensor<2x8x2xi32>
  }
  kerf.return %loss : tensor<f32>
}

// -----

// With a capacity the sizes are what got a row, and choices are counted. Outside of
// repeats nothing is stacked; layers of one name get others.
// CHECK-LABEL: kerf.model @capacity
// CHECK: %{{.*}}, %[[N:.*]] = kerf.assign_slots
// CHECK: %[[R:.*]] = kerf.reduce sum
// CHECK: %[[L:.*]] = kerf.expert_load %{{.*}} {kerf.phase = #kerf.phase<forward 0>} : tensor<2x8x2xi32> -> tensor<4xf32>
// CHECK: kerf.assign_slots
// CHECK: kerf.return %{{.*}}, %[[L]], %[[R]], %{{.*}}, %{{.*}} names ["", "expert_load experts 0 to 1", "expert_rows experts 0 to 1", "expert_load experts.2 0 to 1", "expert_rows experts.2 0 to 1"]
kerf.model @capacity(%e: tensor<2x8x2xi32>, %loss: tensor<f32>) {
  %s, %n = kerf.assign_slots %e count 4 group 1 capacity 3 {kerf.phase = #kerf.phase<forward 0>} : tensor<2x8x2xi32>
  %t, %m = kerf.assign_slots %e count 4 group 1 capacity 3 {kerf.phase = #kerf.phase<forward 1>} : tensor<2x8x2xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// What is computed again is not counted again, nor is what has no step.
// CHECK-LABEL: kerf.model @nothing
// CHECK-NOT: kerf.reduce
// CHECK: kerf.return %{{.*}} : tensor<f32>
kerf.model @nothing(%e: tensor<2x8x2xi32>, %loss: tensor<f32>) {
  %s, %n = kerf.assign_slots %e count 4 group 1 {kerf.phase = #kerf.phase<input_gradient 0>, kerf.recomputed} : tensor<2x8x2xi32>
  %t, %m = kerf.assign_slots %e count 4 group 1 : tensor<2x8x2xi32>
  kerf.return %loss : tensor<f32>
}
