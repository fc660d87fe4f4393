// RUN: kerf-opt %s --kerf-outline-kernels --kerf-fuse-groups --kerf-verify-fused --split-input-file | FileCheck %s

// A collective stands between two kernels that read capped logits: both cap
// them, and only the matmul's result lies in memory.
// CHECK-LABEL: spmd.program @capped
spmd.program @capped over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xbf16> sharded [[], []] : tensor<4x8xbf16>
  spmd.input @w global tensor<8x8xbf16> sharded [[], []] : tensor<8x8xbf16>
  spmd.output @y last : tensor<4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xbf16>
    %w = spmd.read @w : tensor<8x8xbf16>
    // CHECK: %[[L:.*]] = kerf.linear
    // CHECK: %[[M:.*]] = spmd.fused (%{{.*}} = %[[L]] : tensor<4x8xbf16>) -> (tensor<4xf32>)
    // CHECK: kerf.tanh
    // CHECK: kerf.reduce max
    // CHECK: %[[R:.*]] = spmd.all_reduce max %[[M]]
    // CHECK: spmd.fused (%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (tensor<4x8xf32>)
    // CHECK: kerf.tanh
    // CHECK: kerf.exp
    // CHECK-NOT: spmd.fused
    %l = kerf.linear %x, %w : tensor<4x8xbf16>, tensor<8x8xbf16>
    %t = kerf.tanh %l : tensor<4x8xbf16>
    %f = kerf.cast %t : tensor<4x8xbf16> -> tensor<4x8xf32>
    %m = kerf.reduce max %f dims [1] : tensor<4x8xf32>
    %r = spmd.all_reduce max %m over [tp] : tensor<4xf32>
    %b = kerf.broadcast %r dims [0] : tensor<4xf32> -> tensor<4x8xf32>
    %s = kerf.sub %f, %b : tensor<4x8xf32>
    %y = kerf.exp %s : tensor<4x8xf32>
    spmd.write %y to @y : tensor<4x8xf32>
    spmd.return
  }
}

// -----

// What is made of rows is handed on: its kernel would read the rows twice.
// CHECK-LABEL: spmd.program @rows
spmd.program @rows over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    // CHECK: spmd.fused {{.*}} -> (tensor<4x8xf32>, tensor<4xf32>)
    // CHECK: spmd.all_reduce
    // CHECK: spmd.fused
    // CHECK-NOT: kerf.reduce
    %t = kerf.softmax %x : tensor<4x8xf32>
    %m = kerf.reduce max %t dims [1] : tensor<4x8xf32>
    %r = spmd.all_reduce max %m over [tp] : tensor<4xf32>
    %b = kerf.broadcast %r dims [0] : tensor<4xf32> -> tensor<4x8xf32>
    %y = kerf.sub %t, %b : tensor<4x8xf32>
    spmd.write %y to @y : tensor<4x8xf32>
    spmd.return
  }
}
