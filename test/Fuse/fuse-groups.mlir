// RUN: kerf-opt %s --kerf-outline-kernels --kerf-fuse-groups --kerf-verify-fused --split-input-file | FileCheck %s

// A producer and its reader over the same rows are one kernel; the value between
// them is no result.
// CHECK-LABEL: spmd.program @chain
spmd.program @chain over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    // CHECK: %[[Y:.*]] = spmd.fused (%[[A:.*]] = %{{.*}} : tensor<4x8xf32>) -> (tensor<4x8xf32>) attributes {{.*}}spmd.kind = "softmax+add"
    // CHECK: kerf.exp
    // CHECK: kerf.add %{{.*}}, %[[A]]
    // CHECK-NEXT: spmd.yield
    // CHECK-NOT: spmd.fused
    %s = kerf.softmax %x : tensor<4x8xf32>
    %y = kerf.add %s, %x : tensor<4x8xf32>
    spmd.write %y to @y : tensor<4x8xf32>
    spmd.return
  }
}

// -----

// Two readers of one tensor share a kernel, which reads it once. Both results
// are read outside.
// CHECK-LABEL: spmd.program @siblings
spmd.program @siblings over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.output @z last : tensor<4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    // CHECK: %[[R:.*]]:2 = spmd.fused (%[[A:.*]] = %{{.*}} : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    // CHECK-DAG: kerf.exp %[[A]]
    // CHECK-DAG: kerf.tanh %[[A]]
    // CHECK: spmd.yield
    // CHECK-NOT: spmd.fused
    %y = kerf.exp %x : tensor<4x8xf32>
    %z = kerf.tanh %x : tensor<4x8xf32>
    spmd.write %y to @y : tensor<4x8xf32>
    spmd.write %z to @z : tensor<4x8xf32>
    spmd.return
  }
}

// -----

// Equal ops of the members are computed once.
// CHECK-LABEL: spmd.program @common
spmd.program @common over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    // CHECK-COUNT-1: kerf.reduce max
    // CHECK-NOT: kerf.reduce max
    // CHECK: spmd.return
    %a = kerf.softmax %x : tensor<4x8xf32>
    %b = kerf.softmax %x : tensor<4x8xf32>
    %y = kerf.add %a, %b : tensor<4x8xf32>
    spmd.write %y to @y : tensor<4x8xf32>
    spmd.return
  }
}

// -----

// Nothing is joined across a library op, and nothing that would have to come
// both before and after one.
// CHECK-LABEL: spmd.program @library
spmd.program @library over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<8x8xf32> sharded [[], []] : tensor<8x8xf32>
  spmd.output @y last : tensor<8x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<8x8xf32>
    // CHECK: %[[E:.*]] = spmd.fused
    // CHECK: %[[M:.*]] = kerf.matmul %[[E]]
    // CHECK: spmd.fused ({{.*}} = %[[M]] : {{.*}} = %[[E]] :
    %e = kerf.exp %x : tensor<8x8xf32>
    %m = kerf.matmul %e, %x : tensor<8x8xf32>, tensor<8x8xf32>
    %y = kerf.add %m, %e : tensor<8x8xf32>
    spmd.write %y to @y : tensor<8x8xf32>
    spmd.return
  }
}

// -----

// A sum over all rows ends a kernel: its readers need it complete.
// CHECK-LABEL: spmd.program @columns
spmd.program @columns over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    // CHECK: %[[S:.*]] = spmd.fused
    // CHECK: kerf.reduce sum
    // CHECK: spmd.fused ({{.*}} = %[[S]] : tensor<8xf32>
    %s = kerf.reduce sum %x dims [0] : tensor<4x8xf32>
    %b = kerf.broadcast %s dims [1] : tensor<8xf32> -> tensor<4x8xf32>
    %y = kerf.mul %x, %b : tensor<4x8xf32>
    spmd.write %y to @y : tensor<4x8xf32>
    spmd.return
  }
}

// -----

// Kernels over different rows stay apart, and so do the bodies of layers and
// what is around them.
// CHECK-LABEL: spmd.program @apart
spmd.program @apart over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x4xf32>
  spmd.output @z last : tensor<4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    // CHECK: spmd.fused {{.*}} attributes {{.*}}"exp"
    // CHECK: spmd.fused {{.*}} attributes {{.*}}"slice"
    // CHECK: kerf.repeat
    // CHECK: spmd.fused {{.*}} attributes {{.*}}"tanh"
    %e = kerf.exp %x : tensor<4x8xf32>
    %y = kerf.slice %e offsets [0, 4] sizes [4, 4] : tensor<4x8xf32>
    %z = kerf.repeat %i = 0 to 2 (%h = %e : tensor<4x8xf32>) {
      %t = kerf.tanh %h : tensor<4x8xf32>
      kerf.yield %t : tensor<4x8xf32>
    }
    spmd.write %y to @y : tensor<4x4xf32>
    spmd.write %z to @z : tensor<4x8xf32>
    spmd.return
  }
}

// -----

// The kernel of the first and the last op stands where the first stood, and what
// the last reads comes before it. But collectives of several stages keep their
// order, which those of the other stages have too.
// CHECK-LABEL: spmd.program @between_stages
spmd.program @between_stages over <pp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.output @z last : tensor<4x8xf32>
  spmd.func @finish() {
    %x = spmd.read @x : tensor<4x8xf32>
    // CHECK: spmd.all_reduce sum
    // CHECK-NEXT: spmd.all_reduce max
    // CHECK-NEXT: spmd.fused
    // CHECK-NOT: spmd.fused
    %e = kerf.exp %x : tensor<4x8xf32>
    %s = spmd.all_reduce sum %x over [pp] : tensor<4x8xf32>
    %m = spmd.all_reduce max %x over [pp] : tensor<4x8xf32>
    %y = kerf.add %e, %m : tensor<4x8xf32>
    spmd.write %y to @y : tensor<4x8xf32>
    spmd.write %s to @z : tensor<4x8xf32>
    spmd.return
  }
}

// -----

// Messages keep their order too.
// CHECK-LABEL: spmd.program @messages
spmd.program @messages over <pp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    // CHECK: spmd.send %{{.*}} to 1 on "forward"
    // CHECK-NEXT: spmd.recv from 1 on "backward"
    // CHECK-NEXT: spmd.fused
    // CHECK-NOT: spmd.fused
    %e = kerf.exp %x : tensor<4x8xf32>
    spmd.send %x to 1 on "forward" : tensor<4x8xf32>
    %g = spmd.recv from 1 on "backward" : tensor<4x8xf32>
    %y = kerf.add %e, %g : tensor<4x8xf32>
    spmd.write %y to @y : tensor<4x8xf32>
    spmd.return
  }
}

// -----

// What turns its operand joins kernels of the turned shape: only an address is
// another. The matmul of 8-bit floats gets its copy in one pass.
// CHECK-LABEL: spmd.program @turned
spmd.program @turned over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xbf16> sharded [[], []] : tensor<4x8xbf16>
  spmd.output @y last : tensor<8x4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xbf16>
    // CHECK: spmd.fused (%[[A:.*]] = %{{.*}} : tensor<4x8xbf16>) -> (tensor<8x4xf32>) attributes {spmd.kind = "transpose+mul+cast"}
    // CHECK-NEXT: %[[T:.*]] = kerf.transpose %[[A]] perm [1, 0]
    // CHECK-NEXT: %[[M:.*]] = kerf.mul %[[T]], %[[T]]
    // CHECK-NEXT: kerf.cast %[[M]]
    // CHECK-NOT: spmd.fused
    %t = kerf.transpose %x perm [1, 0] : tensor<4x8xbf16>
    %m = kerf.mul %t, %t : tensor<8x4xbf16>
    %y = kerf.cast %m : tensor<8x4xbf16> -> tensor<8x4xf32>
    spmd.write %y to @y : tensor<8x4xf32>
    spmd.return
  }
}

// -----

// What makes the operand does not join, though the shape be the same turned, nor
// do kernels with sums of rows or columns.
// CHECK-LABEL: spmd.program @not_turned
spmd.program @not_turned over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<8x8xf32> sharded [[], []] : tensor<8x8xf32>
  spmd.output @y last : tensor<8x8xf32>
  spmd.output @z last : tensor<8x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<8x8xf32>
    // CHECK: spmd.fused {{.*}} attributes {spmd.kind = "exp"}
    // CHECK: spmd.fused {{.*}} attributes {spmd.kind = "transpose"}
    // CHECK: spmd.fused {{.*}} attributes {spmd.kind = "softmax"}
    // CHECK-NOT: spmd.fused
    %e = kerf.exp %x : tensor<8x8xf32>
    %t = kerf.transpose %e perm [1, 0] : tensor<8x8xf32>
    %s = kerf.softmax %t : tensor<8x8xf32>
    spmd.write %t to @y : tensor<8x8xf32>
    spmd.write %s to @z : tensor<8x8xf32>
    spmd.return
  }
}

// -----

// Slices that a kernel does by itself are addresses: halves of interleaved
// pairs, behind reshapes, are one kernel with what combines them.
// CHECK-LABEL: spmd.program @halves
spmd.program @halves over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8x2xf32> sharded [[], [], []] : tensor<4x8x2xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8x2xf32>
    // CHECK: spmd.fused (%{{.*}} = %{{.*}} : tensor<4x8x2xf32>) -> (tensor<4x8xf32>)
    // CHECK-NOT: spmd.fused
    %a = spmd.fused (%v = %x : tensor<4x8x2xf32>) -> (tensor<4x8xf32>) {
      %s = kerf.slice %v offsets [0, 0, 0] sizes [4, 8, 1] : tensor<4x8x2xf32>
      %r = kerf.reshape %s : tensor<4x8x1xf32> -> tensor<4x8xf32>
      %e = kerf.exp %r : tensor<4x8xf32>
      spmd.yield %e : tensor<4x8xf32>
    }
    %b = spmd.fused (%v = %x : tensor<4x8x2xf32>) -> (tensor<4x8xf32>) {
      %s = kerf.slice %v offsets [0, 0, 1] sizes [4, 8, 1] : tensor<4x8x2xf32>
      %r = kerf.reshape %s : tensor<4x8x1xf32> -> tensor<4x8xf32>
      %e = kerf.tanh %r : tensor<4x8xf32>
      spmd.yield %e : tensor<4x8xf32>
    }
    %y = kerf.mul %a, %b : tensor<4x8xf32>
    spmd.write %y to @y : tensor<4x8xf32>
    spmd.return
  }
}
