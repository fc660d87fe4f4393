// RUN: kerf-opt %s --kerf-outline-kernels --kerf-absorb-moves --kerf-verify-fused --split-input-file | FileCheck %s

// A rotation of some channels: slices, the rotation and the concatenation are
// one kernel, which reads x once.
// CHECK-LABEL: spmd.program @partial_rope
spmd.program @partial_rope over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<1x4x2x8xf32> sharded [[], [], [], []] : tensor<1x4x2x8xf32>
  spmd.output @y last : tensor<1x4x2x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<1x4x2x8xf32>
    // CHECK: spmd.read
    // CHECK-NEXT: spmd.fused (%{{.*}} = %{{.*}} : tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>) attributes {{.*}}spmd.kind = "slice+rope+concat"
    // CHECK-NOT: spmd.fused
    %a = kerf.slice %x offsets [0, 0, 0, 0] sizes [1, 4, 2, 4] : tensor<1x4x2x8xf32>
    %b = kerf.rope %a theta 10000.0 : tensor<1x4x2x4xf32>
    %c = kerf.slice %x offsets [0, 0, 0, 4] sizes [1, 4, 2, 4] : tensor<1x4x2x8xf32>
    %y = kerf.concat dim 3 %b, %c : tensor<1x4x2x4xf32>, tensor<1x4x2x4xf32>
    spmd.write %y to @y : tensor<1x4x2x8xf32>
    spmd.return
  }
}

// -----

// A slice of a slice, behind a reshape.
// CHECK-LABEL: spmd.program @behind_views
spmd.program @behind_views over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x12xf32> sharded [[], []] : tensor<4x12xf32>
  spmd.output @y last : tensor<4x2x2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x12xf32>
    // CHECK: spmd.fused {{.*}}spmd.kind = "slice+exp"
    // CHECK: kerf.slice
    // CHECK: kerf.slice
    // CHECK: kerf.reshape
    // CHECK: kerf.exp
    // CHECK-NOT: spmd.fused
    %a = kerf.slice %x offsets [0, 4] sizes [4, 8] : tensor<4x12xf32>
    %b = kerf.slice %a offsets [0, 2] sizes [4, 4] : tensor<4x8xf32>
    %c = kerf.reshape %b : tensor<4x4xf32> -> tensor<4x2x2xf32>
    %y = kerf.exp %c : tensor<4x2x2xf32>
    spmd.write %y to @y : tensor<4x2x2xf32>
    spmd.return
  }
}

// -----

// A slice that is kept is a copy, and who else reads it reads the copy.
// CHECK-LABEL: spmd.program @kept
spmd.program @kept over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x4xf32>
  spmd.output @z last : tensor<4x4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    // CHECK: spmd.fused {{.*}}spmd.kind = "slice"
    // CHECK: spmd.fused {{.*}}spmd.kind = "exp"
    %a = kerf.slice %x offsets [0, 4] sizes [4, 4] : tensor<4x8xf32>
    %y = kerf.exp %a : tensor<4x4xf32>
    spmd.write %a to @z : tensor<4x4xf32>
    spmd.write %y to @y : tensor<4x4xf32>
    spmd.return
  }
}

// -----

// A part that is a sum of rows, or that something else reads too, is made
// apart.
// CHECK-LABEL: spmd.program @apart
spmd.program @apart over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x24xf32>
  spmd.output @z last : tensor<4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    // CHECK-DAG: spmd.fused {{.*}}spmd.kind = "softmax"
    // CHECK-DAG: spmd.fused {{.*}}spmd.kind = "exp"
    // CHECK: spmd.fused {{.*}}spmd.kind = "tanh+concat"
    %a = kerf.softmax %x : tensor<4x8xf32>
    %b = kerf.exp %x : tensor<4x8xf32>
    %c = kerf.tanh %x : tensor<4x8xf32>
    %y = kerf.concat dim 1 %a, %b, %c : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
    spmd.write %b to @z : tensor<4x8xf32>
    spmd.write %y to @y : tensor<4x24xf32>
    spmd.return
  }
}

// -----

// What makes an absorbed part is absorbed in its turn: the gradient of values
// that are clamped, which knows by another slice where it flows.
// CHECK-LABEL: spmd.program @makers_of_makers
spmd.program @makers_of_makers over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    // CHECK: spmd.fused {{.*}}spmd.kind = "slice+compare+select+concat"
    // CHECK-NOT: spmd.fused
    %a = kerf.slice %x offsets [0, 0] sizes [4, 4] : tensor<4x8xf32>
    %b = kerf.slice %x offsets [0, 4] sizes [4, 4] : tensor<4x8xf32>
    %seven = kerf.constant dense<7.0> : tensor<4x4xf32>
    %flows = kerf.compare le %a, %seven : tensor<4x4xf32>
    %c = kerf.select %flows, %b, %seven : tensor<4x4xf32>
    %y = kerf.concat dim 1 %b, %c : tensor<4x4xf32>, tensor<4x4xf32>
    spmd.write %y to @y : tensor<4x8xf32>
    spmd.return
  }
}
