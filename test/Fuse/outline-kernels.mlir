// RUN: kerf-opt %s --kerf-outline-kernels --kerf-verify-fused | FileCheck %s

// An op that no library computes becomes a kernel of its decomposition; a
// contraction and its bias stay one library op.
// CHECK-LABEL: spmd.program @softmax
spmd.program @softmax over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.param "w" global tensor<8x8xf32> sharded [[], []] init <ones> frozen : tensor<8x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.func @forward() {
    // CHECK: %[[X:.*]] = spmd.read @x
    %x = spmd.read @x : tensor<4x8xf32>
    %w = kerf.param "w" init<ones> frozen : tensor<8x8xf32>
    // CHECK: %[[L:.*]] = kerf.linear %[[X]]
    %l = kerf.linear %x, %w : tensor<4x8xf32>, tensor<8x8xf32>
    // CHECK: %[[Y:.*]] = spmd.fused (%[[A:.*]] = %[[L]] : tensor<4x8xf32>) -> (tensor<4x8xf32>) attributes {kerf.phase = #kerf.phase<forward 3>, spmd.kind = "softmax"} {
    // CHECK-NEXT: kerf.reduce max %[[A]]
    // CHECK-NOT: kerf.softmax
    // CHECK-NOT: kerf.phase
    // CHECK: spmd.yield
    %y = kerf.softmax %l {kerf.phase = #kerf.phase<forward 3>} : tensor<4x8xf32>
    // CHECK: spmd.write %[[Y]] to @y
    spmd.write %y to @y : tensor<4x8xf32>
    spmd.return
  }
}

// A constant is recomputed in each kernel that reads it; one that a library op
// reads is a kernel itself. One that nobody reads is gone.
// CHECK-LABEL: spmd.program @constants
spmd.program @constants over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.output @z last : tensor<4x8xf32>
  spmd.func @forward() {
    // CHECK: %[[X:.*]] = spmd.read @x
    // CHECK-NOT: dense<3.0
    %unread = kerf.constant dense<3.0> : tensor<f32>
    %x = spmd.read @x : tensor<4x8xf32>
    // CHECK: %[[C:.*]] = spmd.fused () -> (tensor<8x8xf32>)
    // CHECK-NEXT: kerf.constant dense<5.0{{.*}}> : tensor<8x8xf32>
    %c = kerf.constant dense<5.0> : tensor<8x8xf32>
    %half = kerf.constant dense<0.5> : tensor<4x8xf32>
    // CHECK: spmd.fused (%[[A:.*]] = %[[X]] : tensor<4x8xf32>)
    // CHECK-NEXT: %[[H:.*]] = kerf.constant dense<5.0{{.*}}e-01>
    // CHECK-NEXT: kerf.mul %[[A]], %[[H]]
    %y = kerf.mul %x, %half : tensor<4x8xf32>
    // CHECK: kerf.linear %[[X]], %[[C]]
    %l = kerf.linear %x, %c : tensor<4x8xf32>, tensor<8x8xf32>
    // CHECK: spmd.fused (%[[B:.*]] = %{{.*}} : tensor<4x8xf32>)
    // CHECK-NEXT: %[[I:.*]] = kerf.constant dense<5.0{{.*}}e-01>
    // CHECK-NEXT: kerf.mul %[[B]], %[[I]]
    %z = kerf.mul %l, %half : tensor<4x8xf32>
    spmd.write %y to @y : tensor<4x8xf32>
    spmd.write %z to @z : tensor<4x8xf32>
    spmd.return
  }
}

// The inverse of a unit is recomputed where it is read, and is no kernel; one of
// a number that may be anything is one.
// CHECK-LABEL: spmd.program @units
spmd.program @units over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xbf16> sharded [[], []] : tensor<4x8xbf16>
  spmd.input @s global tensor<f32> sharded [] : tensor<f32>
  spmd.output @y last : tensor<4x8xbf16>
  spmd.output @z last : tensor<4x8xbf16>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xbf16>
    %s = spmd.read @s : tensor<f32>
    // CHECK: %[[U:.*]] = spmd.fused {{.*}} -> (tensor<f32>) attributes {spmd.kind = "unit"}
    %u = kerf.unit %x of f8E4M3FN : tensor<4x8xbf16>
    %one = kerf.constant dense<1.0> : tensor<bf16>
    %narrow = kerf.cast %u : tensor<f32> -> tensor<bf16>
    %inverse = kerf.div %one, %narrow : tensor<bf16>
    // CHECK: %[[F:.*]] = spmd.fused (%[[A:.*]] = %[[U]] : tensor<f32>) -> (tensor<4x8xbf16>) attributes {spmd.kind = "broadcast"}
    // CHECK: %[[N:.*]] = kerf.cast %[[A]]
    // CHECK: %[[I:.*]] = kerf.div %{{.*}}, %[[N]]
    // CHECK-NEXT: kerf.broadcast %[[I]]
    %f = kerf.broadcast %inverse dims [] : tensor<bf16> -> tensor<4x8xbf16>
    // CHECK: spmd.fused {{.*}} -> (tensor<bf16>) attributes {spmd.kind = "cast"}
    // CHECK: spmd.fused {{.*}} -> (tensor<bf16>) attributes {spmd.kind = "div"}
    %other = kerf.cast %s : tensor<f32> -> tensor<bf16>
    %part = kerf.div %one, %other : tensor<bf16>
    %g = kerf.broadcast %part dims [] : tensor<bf16> -> tensor<4x8xbf16>
    spmd.write %f to @y : tensor<4x8xbf16>
    spmd.write %g to @z : tensor<4x8xbf16>
    spmd.return
  }
}

// Views that attention takes with strides are no kernels, nor is attention. The
// same slice for another reader is one.
// CHECK-LABEL: spmd.program @views
spmd.program @views over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x8x96xf32> sharded [[], [], []] : tensor<2x8x96xf32>
  spmd.output @y last : tensor<2x8x4x8xf32>
  spmd.output @z last : tensor<2x8x32xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x8x96xf32>
    // CHECK: kerf.slice
    // CHECK-NOT: spmd.fused
    // CHECK: kerf.attention
    %q = kerf.slice %x offsets [0, 0, 0] sizes [2, 8, 32] : tensor<2x8x96xf32>
    %k = kerf.slice %x offsets [0, 0, 32] sizes [2, 8, 32] : tensor<2x8x96xf32>
    %v = kerf.slice %x offsets [0, 0, 64] sizes [2, 8, 32] : tensor<2x8x96xf32>
    %qh = kerf.reshape %q : tensor<2x8x32xf32> -> tensor<2x8x4x8xf32>
    %kh = kerf.reshape %k : tensor<2x8x32xf32> -> tensor<2x8x4x8xf32>
    %vh = kerf.reshape %v : tensor<2x8x32xf32> -> tensor<2x8x4x8xf32>
    %y = kerf.attention %qh, %kh, %vh causal : tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>
    // CHECK: spmd.fused
    // CHECK-NEXT: kerf.slice
    %z = kerf.slice %x offsets [0, 0, 0] sizes [2, 8, 32] : tensor<2x8x96xf32>
    spmd.write %y to @y : tensor<2x8x4x8xf32>
    spmd.write %z to @z : tensor<2x8x32xf32>
    spmd.return
  }
}

// What is a kernel already stays as it is, and so does a program without ops.
// CHECK-LABEL: spmd.program @done
spmd.program @done over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4xf32> sharded [[]] : tensor<4xf32>
  spmd.output @y last : tensor<4xf32>
  spmd.func @forward() {
    // CHECK: spmd.read
    // CHECK-NEXT: spmd.fused (%[[A:.*]] = %{{.*}} : tensor<4xf32>) -> (tensor<4xf32>) {
    // CHECK-NEXT: kerf.exp %[[A]]
    // CHECK-NEXT: spmd.yield
    // CHECK-NEXT: }
    // CHECK-NEXT: spmd.write
    %x = spmd.read @x : tensor<4xf32>
    %y = spmd.fused (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
      %e = kerf.exp %a : tensor<4xf32>
      spmd.yield %e : tensor<4xf32>
    }
    spmd.write %y to @y : tensor<4xf32>
    spmd.return
  }
}

// A slice whose elements lie together is a view for every reader: a gathered
// weight without its padding, some rows of a table. Columns are copied.
// CHECK-LABEL: spmd.program @adjacent
spmd.program @adjacent over <dp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<3xf32> sharded [[]] : tensor<3xf32>
  spmd.input @t global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<5xf32>
  spmd.output @r last : tensor<1x8xf32>
  spmd.output @c last : tensor<4x2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<3xf32>
    %t = spmd.read @t : tensor<4x8xf32>
    %f = spmd.all_gather %x dim 0 over [dp] : tensor<3xf32> -> tensor<6xf32>
    // CHECK: %[[S:.*]] = kerf.slice %{{.*}} offsets [0] sizes [5]
    // CHECK-NEXT: spmd.fused (%{{.*}} = %[[S]] : tensor<5xf32>)
    %s = kerf.slice %f offsets [0] sizes [5] : tensor<6xf32>
    %y = kerf.exp %s : tensor<5xf32>
    // CHECK: %[[R:.*]] = kerf.slice %{{.*}} offsets [2, 0] sizes [1, 8]
    // CHECK-NEXT: spmd.fused (%{{.*}} = %{{.*}} : tensor<4x8xf32>)
    // CHECK-NEXT: kerf.slice %{{.*}} offsets [0, 3] sizes [4, 2]
    %r = kerf.slice %t offsets [2, 0] sizes [1, 8] : tensor<4x8xf32>
    %c = kerf.slice %t offsets [0, 3] sizes [4, 2] : tensor<4x8xf32>
    spmd.write %y to @y : tensor<5xf32>
    // CHECK: spmd.write %[[R]] to @r
    spmd.write %r to @r : tensor<1x8xf32>
    spmd.write %c to @c : tensor<4x2xf32>
    spmd.return
  }
}
