// RUN: kerf-opt --split-input-file --kerf-partition --kerf-verify-partitioned %s | FileCheck %s

// Without a capacity: all ranks get all tokens, and find their own rows by the
// sizes of the experts before theirs. Tables have room for all rows; what comes
// back is a part of a sum.
// CHECK-LABEL: spmd.program @ragged
// CHECK:       spmd.func @prologue
// CHECK:         %[[SLOTS:.*]], %[[SIZES:.*]] = kerf.assign_slots
// CHECK:         %[[TOKENS:.*]] = spmd.all_gather %{{.*}} dim 0 over [ep] : tensor<1x8x16xf32> -> tensor<2x8x16xf32>
// CHECK:         %[[OWN:.*]] = spmd.slice_own %[[SIZES]] dim 1 over [ep] : tensor<2x4xi32> -> tensor<2x2xi32>
// CHECK:         %[[MINE:.*]] = kerf.select {{.*}} : tensor<2x8x2xi32>
// CHECK:         kerf.dispatch %[[TOKENS]], %[[MINE]] : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<2x16x16xf32>
// CHECK:         kerf.param "w" {{.*}} : tensor<2x32x16xf32>
// CHECK:         %[[Y:.*]] = kerf.grouped_matmul {{.*}} : tensor<2x16x16xf32>, tensor<2x32x16xf32>, tensor<2x2xi32>
// CHECK:         kerf.silu %[[Y]] : tensor<2x16x32xf32>
// CHECK:         %[[PART:.*]] = kerf.combine {{.*}} : tensor<2x16x32xf32>, tensor<2x8x2xi32>
// CHECK:         spmd.reduce_scatter sum %[[PART]] dim 0 over [ep] : tensor<2x8x32xf32> -> tensor<1x8x32xf32>
kerf.model @ragged(%x: tensor<2x8x16xf32>, %e: tensor<2x8x2xi32>) attributes {
    plan = #kerf.plan<mesh = <ep = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %w = kerf.param "w" init<normal, 0.02> {kerf.assign = #kerf.assign<b = [ep]>} : tensor<4x32x16xf32>
  %h = kerf.exp %x {kerf.assign = #kerf.assign<b = [ep]>} : tensor<2x8x16xf32>
  %s, %n = kerf.assign_slots %e count 4 group 1 : tensor<2x8x2xi32>
  %r = kerf.dispatch %h, %s sizes %n : tensor<2x4xi32> {kerf.assign = #kerf.assign<r = [ep], routed>} : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<2x16x16xf32>
  %y = kerf.grouped_matmul %r, %w, %n {kerf.assign = #kerf.assign<r = [ep], e = [ep], routed>} : tensor<2x16x16xf32>, tensor<4x32x16xf32>, tensor<2x4xi32>
  %a = kerf.silu %y {kerf.assign = #kerf.assign<s = [ep]>} : tensor<2x16x32xf32>
  %c = kerf.combine %a, %s sizes %n : tensor<2x4xi32> {kerf.assign = #kerf.assign<r = [ep], routed>} : tensor<2x16x32xf32>, tensor<2x8x2xi32>
  %o = kerf.neg %c {kerf.assign = #kerf.assign<b = [ep]>} : tensor<2x8x32xf32>
  %l = kerf.reduce sum %o dims [0, 1, 2] {kerf.assign = #kerf.assign<b = [ep]>} : tensor<2x8x32xf32>
  kerf.return %l : tensor<f32>
}

// -----

// With a capacity a rank's rows are a range, found by its place alone.
// CHECK-LABEL: spmd.program @capacity
// CHECK:       spmd.func @prologue
// CHECK:         %[[PLACE:.*]] = spmd.offset [ep * 1]
// CHECK:         kerf.mul %[[PLACE]]
// CHECK:         %[[MINE:.*]] = kerf.select {{.*}} : tensor<2x8x2xi32>
// CHECK:         kerf.dispatch %{{.*}}, %[[MINE]] : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<2x6x16xf32>
// CHECK:         kerf.grouped_matmul {{.*}} capacity 3 : tensor<2x6x16xf32>, tensor<2x32x16xf32>, tensor<2x2xi32>
kerf.model @capacity(%x: tensor<2x8x16xf32>, %e: tensor<2x8x2xi32>) attributes {
    plan = #kerf.plan<mesh = <ep = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %w = kerf.param "w" init<normal, 0.02> {kerf.assign = #kerf.assign<b = [ep]>} : tensor<4x32x16xf32>
  %h = kerf.exp %x : tensor<2x8x16xf32>
  %s, %n = kerf.assign_slots %e count 4 group 1 capacity 3 : tensor<2x8x2xi32>
  %r = kerf.dispatch %h, %s {kerf.assign = #kerf.assign<r = [ep], routed>} : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<2x12x16xf32>
  %y = kerf.grouped_matmul %r, %w, %n capacity 3 {kerf.assign = #kerf.assign<e = [ep]>} : tensor<2x12x16xf32>, tensor<4x32x16xf32>, tensor<2x4xi32>
  %c = kerf.combine %y, %s {kerf.assign = #kerf.assign<r = [ep], routed>} : tensor<2x12x32xf32>, tensor<2x8x2xi32>
  %l = kerf.reduce sum %c dims [0, 1, 2] : tensor<2x8x32xf32>
  kerf.return %l : tensor<f32>
}
