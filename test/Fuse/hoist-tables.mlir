// RUN: kerf-opt %s --kerf-outline-kernels --kerf-hoist-tables --kerf-verify-fused --split-input-file | FileCheck %s

// Cosines and sines of a function's layers, and of the inverse rotation in another
// function, are made once by the prologue; the kernels have no sine left.
// CHECK-LABEL: spmd.program @rope
// CHECK: spmd.buffer @table0 step : tensor<16x8xf32>
// CHECK: spmd.buffer @table1 step : tensor<16x8xf32>
// CHECK-NOT: spmd.buffer
// CHECK: spmd.func @prologue
// CHECK: %[[T:.*]]:2 = spmd.fused () -> (tensor<16x8xf32>, tensor<16x8xf32>) attributes {kerf.phase = #kerf.phase<forward 3>, spmd.kind = "tables"}
// CHECK-DAG: kerf.cos
// CHECK-DAG: kerf.sin
// CHECK: spmd.write %[[T]]#0 to @table0
// CHECK: spmd.write %[[T]]#1 to @table1
// CHECK: spmd.func @forward
// CHECK-DAG: %[[A:.*]] = spmd.read @table0
// CHECK-DAG: %[[B:.*]] = spmd.read @table1
// CHECK: kerf.repeat
// CHECK: spmd.fused ({{.*}} = %[[A]] : tensor<16x8xf32>, {{.*}} = %[[B]] : tensor<16x8xf32>)
// CHECK: spmd.fused ({{.*}} = %[[A]] : tensor<16x8xf32>, {{.*}} = %[[B]] : tensor<16x8xf32>)
// CHECK-NOT: kerf.sin
// CHECK: spmd.func @backward
// CHECK-DAG: spmd.read @table0
// CHECK-DAG: spmd.read @table1
// CHECK: kerf.neg
// CHECK-NOT: kerf.sin
spmd.program @rope over <> micro_batches 1 slots 1 {
  spmd.input @q global tensor<2x16x4x16xf32> sharded [[], [], [], []] : tensor<2x16x4x16xf32>
  spmd.input @k global tensor<2x16x2x16xf32> sharded [[], [], [], []] : tensor<2x16x2x16xf32>
  spmd.output @y last : tensor<2x16x4x16xf32>
  spmd.output @dy last : tensor<2x16x4x16xf32>
  spmd.func @prologue() {
    spmd.return
  }
  spmd.func @forward() {
    %q = spmd.read @q : tensor<2x16x4x16xf32>
    %k = spmd.read @k : tensor<2x16x2x16xf32>
    %last, %other = kerf.repeat %i = 0 to 3 (%h = %q : tensor<2x16x4x16xf32>, %g = %k : tensor<2x16x2x16xf32>) {
      %a = kerf.rope %h theta 10000.0 {kerf.phase = #kerf.phase<forward 3>} : tensor<2x16x4x16xf32>
      %b = kerf.rope %g theta 10000.0 {kerf.phase = #kerf.phase<forward 4>} : tensor<2x16x2x16xf32>
      kerf.yield %a, %b : tensor<2x16x4x16xf32>, tensor<2x16x2x16xf32>
    }
    spmd.write %last to @y : tensor<2x16x4x16xf32>
    spmd.return
  }
  spmd.func @backward() {
    %q = spmd.read @q : tensor<2x16x4x16xf32>
    %a = kerf.rope %q theta 10000.0 inverse : tensor<2x16x4x16xf32>
    spmd.write %a to @dy : tensor<2x16x4x16xf32>
    spmd.return
  }
}

// -----

// Other frequencies are another pair of tables; the place of a rank is read by the
// prologue, too.
// CHECK-LABEL: spmd.program @places
// CHECK-COUNT-4: spmd.buffer @table{{[0-3]}} step : tensor<8x8xf32>
// CHECK: spmd.func @prologue
// CHECK: %[[O:.*]] = spmd.offset [cp * 8]
// CHECK: spmd.fused ({{.*}} = %[[O]] : tensor<i32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>)
// CHECK: spmd.func @forward
// CHECK-NOT: spmd.offset
// CHECK-NOT: kerf.sin
spmd.program @places over <cp = 2> micro_batches 1 slots 1 {
  spmd.input @q global tensor<2x16x4x16xf32> sharded [[], [cp], [], []] : tensor<2x8x4x16xf32>
  spmd.output @y last : tensor<2x8x4x16xf32>
  spmd.func @prologue() {
    spmd.return
  }
  spmd.func @forward() {
    %q = spmd.read @q : tensor<2x8x4x16xf32>
    %o = spmd.offset [cp * 8]
    %a = kerf.rope %q theta 10000.0 offset %o : tensor<2x8x4x16xf32>
    %b = kerf.rope %a theta 500.0 : tensor<2x8x4x16xf32>
    spmd.write %b to @y : tensor<2x8x4x16xf32>
    spmd.return
  }
}

// -----

// Positions that are data make no table, and a table that is as large as what it is
// read for stays where it is.
// CHECK-LABEL: spmd.program @data
// CHECK-NOT: spmd.buffer
// CHECK: spmd.func @prologue
// CHECK-NEXT: spmd.return
spmd.program @data over <> micro_batches 1 slots 1 {
  spmd.input @q global tensor<2x16x4x16xf32> sharded [[], [], [], []] : tensor<2x16x4x16xf32>
  spmd.input @one global tensor<1x16x1x16xf32> sharded [[], [], [], []] : tensor<1x16x1x16xf32>
  spmd.input @at global tensor<2x16xi32> sharded [[], []] : tensor<2x16xi32>
  spmd.output @y last : tensor<2x16x4x16xf32>
  spmd.output @z last : tensor<1x16x1x16xf32>
  spmd.func @prologue() {
    spmd.return
  }
  spmd.func @forward() {
    %q = spmd.read @q : tensor<2x16x4x16xf32>
    %one = spmd.read @one : tensor<1x16x1x16xf32>
    %at = spmd.read @at : tensor<2x16xi32>
    %a = kerf.rope %q theta 10000.0 positions %at : tensor<2x16xi32> : tensor<2x16x4x16xf32>
    %b = kerf.rope %one theta 10000.0 : tensor<1x16x1x16xf32>
    spmd.write %a to @y : tensor<2x16x4x16xf32>
    spmd.write %b to @z : tensor<1x16x1x16xf32>
    spmd.return
  }
}
