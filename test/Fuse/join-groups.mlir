// RUN: kerf-opt %s --kerf-join-groups --split-input-file | FileCheck %s

// Two groups of a sequence each have one table: the readers, over a loop's stack and
// a buffer, see one group, whose sizes are the first row of what was kept.
// CHECK-LABEL: spmd.program @experts
// CHECK: spmd.func @forward
// CHECK: %[[S:.*]]:2 = spmd.fused {{.*}} -> (tensor<2x4x2xi32>, tensor<2x3xi32>) attributes {kerf.phase = #kerf.phase<forward 26>, spmd.kind = "assign_slots"}
// CHECK-DAG: kerf.cumsum %{{.*}} dim 1 : tensor<2x8x3xi32>
// CHECK-DAG: kerf.cumsum %{{.*}} dim 0 : tensor<2x3xi32>
// CHECK-DAG: kerf.cumsum %{{.*}} dim 0 : tensor<3xi32>
// CHECK: %[[N:.*]] = kerf.slice %[[S]]#1 offsets [0, 0] sizes [1, 3]
// CHECK: kerf.dispatch %{{.*}}, %[[S]]#0 sizes %[[N]] {{.*}} -> tensor<1x16x8xf32>
// CHECK: %[[R:.*]] = kerf.reshape %{{.*}} : tensor<1x16x8xf32> -> tensor<2x8x8xf32>
// CHECK: %[[J:.*]] = kerf.reshape %[[R]] : tensor<2x8x8xf32> -> tensor<1x16x8xf32>
// CHECK: kerf.grouped_matmul %[[J]], {{.*}} : tensor<1x16x8xf32>, tensor<3x8x8xf32>, tensor<1x3xi32>
// CHECK: kerf.combine {{.*}} : tensor<1x16x8xf32>, tensor<2x4x2xi32>
// CHECK: kerf.yield {{.*}} stack({{.*}}) : tensor<2x4x8xf32>, tensor<2x4x2xi32>, tensor<2x3xi32>
// CHECK: spmd.func @backward
// CHECK: kerf.combine_weight_gradient {{.*}} : tensor<1x16x8xf32>, tensor<2x4x2xi32>, tensor<2x4x8xf32>
// CHECK: kerf.grouped_weight_gradient {{.*}} : tensor<1x16x8xf32>, tensor<1x16x8xf32>, tensor<1x3xi32> -> tensor<3x8x8xf32>
spmd.program @experts over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x4x8xf32> sharded [[], [], []] : tensor<2x4x8xf32>
  spmd.input @e global tensor<2x4x2xi32> sharded [[], [], []] : tensor<2x4x2xi32>
  spmd.input @w global tensor<3x8x8xf32> sharded [[], [], []] : tensor<3x8x8xf32>
  spmd.buffer @slots slot : tensor<2x2x4x2xi32>
  spmd.buffer @sizes slot : tensor<2x2x3xi32>
  spmd.output @y last : tensor<2x4x8xf32>
  spmd.output @dw last : tensor<2x4x2xf32>
  spmd.output @dv last : tensor<3x8x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x4x8xf32>
    %e = spmd.read @e : tensor<2x4x2xi32>
    %w = spmd.read @w : tensor<3x8x8xf32>
    %y, %all, %each = kerf.repeat %i = 0 to 2 (%h = %x : tensor<2x4x8xf32>) {
      %s, %n = kerf.assign_slots %e count 3 group 1 {kerf.phase = #kerf.phase<forward 26>} : tensor<2x4x2xi32>
      %r = kerf.dispatch %h, %s sizes %n : tensor<2x3xi32> : tensor<2x4x8xf32>, tensor<2x4x2xi32> -> tensor<2x8x8xf32>
      %m = kerf.grouped_matmul %r, %w, %n : tensor<2x8x8xf32>, tensor<3x8x8xf32>, tensor<2x3xi32>
      %c = kerf.combine %m, %s : tensor<2x8x8xf32>, tensor<2x4x2xi32>
      kerf.yield %c stack(%s, %n) : tensor<2x4x8xf32>, tensor<2x4x2xi32>, tensor<2x3xi32>
    }
    spmd.write %y to @y : tensor<2x4x8xf32>
    spmd.write %all to @slots : tensor<2x2x4x2xi32>
    spmd.write %each to @sizes : tensor<2x2x3xi32>
    spmd.return
  }
  spmd.func @backward() {
    %x = spmd.read @x : tensor<2x4x8xf32>
    %all = spmd.read @slots : tensor<2x2x4x2xi32>
    %each = spmd.read @sizes : tensor<2x2x3xi32>
    %r = kerf.constant dense<1.0> : tensor<2x8x8xf32>
    %a, %b = kerf.repeat %i = 0 to 2 () slices(%s = %all : tensor<2x2x4x2xi32>, %n = %each : tensor<2x2x3xi32>) {
      %dw = kerf.combine_weight_gradient %r, %s, %x : tensor<2x8x8xf32>, tensor<2x4x2xi32>, tensor<2x4x8xf32>
      %dv = kerf.grouped_weight_gradient %r, %r, %n : tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x3xi32> -> tensor<3x8x8xf32>
      kerf.yield stack(%dw, %dv) : tensor<2x4x2xf32>, tensor<3x8x8xf32>
    }
    %dw = kerf.reduce sum %a dims [0] : tensor<2x2x4x2xf32>
    %dv = kerf.reduce sum %b dims [0] : tensor<2x3x8x8xf32>
    spmd.write %dw to @dw : tensor<2x4x2xf32>
    spmd.write %dv to @dv : tensor<3x8x8xf32>
    spmd.return
  }
}

// -----

// Who sums sizes over the groups, for the log, gets the same sums of the first row
// and zeros.
// CHECK-LABEL: spmd.program @counted
// CHECK: %[[S:.*]]:2 = spmd.fused
// CHECK: %[[F:.*]] = kerf.cast %[[S]]#1 : tensor<2x3xi32> -> tensor<2x3xf32>
// CHECK: kerf.reduce sum %[[F]] dims [0] : tensor<2x3xf32>
// CHECK: kerf.dispatch {{.*}} -> tensor<1x16x8xf32>
spmd.program @counted over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x4x8xf32> sharded [[], [], []] : tensor<2x4x8xf32>
  spmd.input @e global tensor<2x4x2xi32> sharded [[], [], []] : tensor<2x4x2xi32>
  spmd.output @y last : tensor<2x4x8xf32>
  spmd.output @load last : tensor<3xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x4x8xf32>
    %e = spmd.read @e : tensor<2x4x2xi32>
    %s, %n = kerf.assign_slots %e count 3 group 1 : tensor<2x4x2xi32>
    %f = kerf.cast %n : tensor<2x3xi32> -> tensor<2x3xf32>
    %l = kerf.reduce sum %f dims [0] : tensor<2x3xf32>
    spmd.write %l to @load : tensor<3xf32>
    %r = kerf.dispatch %x, %s sizes %n : tensor<2x3xi32> : tensor<2x4x8xf32>, tensor<2x4x2xi32> -> tensor<2x8x8xf32>
    %c = kerf.combine %r, %s : tensor<2x8x8xf32>, tensor<2x4x2xi32>
    spmd.write %c to @y : tensor<2x4x8xf32>
    spmd.return
  }
}

// -----

// Where sizes are read by something else (here a rank's part of the experts), groups
// keep their tables.
// CHECK-LABEL: spmd.program @cut
// CHECK: kerf.assign_slots
// CHECK: kerf.grouped_matmul {{.*}} : tensor<2x8x8xf32>, tensor<1x8x8xf32>, tensor<2x1xi32>
spmd.program @cut over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x4x8xf32> sharded [[], [], []] : tensor<2x4x8xf32>
  spmd.input @e global tensor<2x4x2xi32> sharded [[], [], []] : tensor<2x4x2xi32>
  spmd.input @w global tensor<1x8x8xf32> sharded [[], [], []] : tensor<1x8x8xf32>
  spmd.output @y last : tensor<2x4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x4x8xf32>
    %e = spmd.read @e : tensor<2x4x2xi32>
    %w = spmd.read @w : tensor<1x8x8xf32>
    %s, %n = kerf.assign_slots %e count 3 group 1 : tensor<2x4x2xi32>
    %r = kerf.dispatch %x, %s : tensor<2x4x8xf32>, tensor<2x4x2xi32> -> tensor<2x8x8xf32>
    %own = kerf.slice %n offsets [0, 0] sizes [2, 1] : tensor<2x3xi32>
    %m = kerf.grouped_matmul %r, %w, %own : tensor<2x8x8xf32>, tensor<1x8x8xf32>, tensor<2x1xi32>
    %c = kerf.combine %m, %s : tensor<2x8x8xf32>, tensor<2x4x2xi32>
    spmd.write %c to @y : tensor<2x4x8xf32>
    spmd.return
  }
}

// -----

// So they do with a capacity, whose places are a group's; where slots come from
// elsewhere; and where sizes are a result of the step.
// CHECK-LABEL: spmd.program @capacity
// CHECK: kerf.assign_slots
// CHECK: kerf.dispatch {{.*}} -> tensor<2x12x8xf32>
// CHECK-LABEL: spmd.program @given
// CHECK: kerf.assign_slots
// CHECK: kerf.combine {{.*}} : tensor<2x8x8xf32>, tensor<2x4x2xi32>
// CHECK-LABEL: spmd.program @told
// CHECK: kerf.assign_slots
spmd.program @capacity over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x4x8xf32> sharded [[], [], []] : tensor<2x4x8xf32>
  spmd.input @e global tensor<2x4x2xi32> sharded [[], [], []] : tensor<2x4x2xi32>
  spmd.output @y last : tensor<2x12x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x4x8xf32>
    %e = spmd.read @e : tensor<2x4x2xi32>
    %s, %n = kerf.assign_slots %e count 3 group 1 capacity 4 : tensor<2x4x2xi32>
    %r = kerf.dispatch %x, %s : tensor<2x4x8xf32>, tensor<2x4x2xi32> -> tensor<2x12x8xf32>
    spmd.write %r to @y : tensor<2x12x8xf32>
    spmd.return
  }
}
spmd.program @given over <> micro_batches 1 slots 1 {
  spmd.input @r global tensor<2x8x8xf32> sharded [[], [], []] : tensor<2x8x8xf32>
  spmd.input @e global tensor<2x4x2xi32> sharded [[], [], []] : tensor<2x4x2xi32>
  spmd.input @s global tensor<2x4x2xi32> sharded [[], [], []] : tensor<2x4x2xi32>
  spmd.output @y last : tensor<2x4x8xf32>
  spmd.func @forward() {
    %r = spmd.read @r : tensor<2x8x8xf32>
    %e = spmd.read @e : tensor<2x4x2xi32>
    %s = spmd.read @s : tensor<2x4x2xi32>
    %own, %n = kerf.assign_slots %e count 3 group 1 : tensor<2x4x2xi32>
    %c = kerf.combine %r, %s : tensor<2x8x8xf32>, tensor<2x4x2xi32>
    spmd.write %c to @y : tensor<2x4x8xf32>
    spmd.return
  }
}
spmd.program @told over <> micro_batches 1 slots 1 {
  spmd.input @e global tensor<2x4x2xi32> sharded [[], [], []] : tensor<2x4x2xi32>
  spmd.output @n last : tensor<2x3xi32>
  spmd.func @forward() {
    %e = spmd.read @e : tensor<2x4x2xi32>
    %s, %n = kerf.assign_slots %e count 3 group 1 : tensor<2x4x2xi32>
    spmd.write %n to @n : tensor<2x3xi32>
    spmd.return
  }
}
