// RUN: kerf-opt %s --kerf-outline-kernels --split-input-file | FileCheck %s --check-prefix=FUSED
// RUN: kerf-opt %s --kerf-outline-kernels --kerf-build-commands --kerf-place-memory --kerf-verify-memory --split-input-file | FileCheck %s

// The last micro-batch sums a gradient over ranks layer by layer. What earlier ones have summed is in the buffer, and
// the matmul adds to it there: no kernel, and no buffer of its own.
// FUSED-LABEL: spmd.program @layers
// FUSED:       spmd.func @backward_last
// FUSED:         kerf.einsum
// FUSED-NEXT:    kerf.add
// FUSED-NEXT:    spmd.all_reduce
// CHECK-LABEL: exec.program @layers
// CHECK:       exec.buffer "g" class {{.*}} at [[G:[0-9]+]] bytes 2880
// CHECK:       exec.func @backward_last {
// CHECK-NEXT:    exec.loop reverse 0 to 3
// CHECK-NEXT:      matmul "matmul" [{{.*}}, 1, 0, 0] {{.*}}#exec.arena<write f32 [[G]] iter 960 bytes 960>
// CHECK-NEXT:      all_reduce
// CHECK-NOT:     launch
// CHECK:       exec.func @update
spmd.program @layers over <dp = 2> micro_batches 2 slots 1 {
  spmd.input @x global tensor<32x6xf32> sharded [["micro"], []] : tensor<16x6xf32>
  spmd.input @d global tensor<32x40xf32> sharded [["micro"], []] : tensor<16x40xf32>
  spmd.buffer @g step : tensor<3x40x6xf32>
  spmd.output @y last : tensor<3x40x6xf32>
  spmd.func @backward() {
    %x = spmd.read @x : tensor<16x6xf32>
    %d = spmd.read @d : tensor<16x40xf32>
    %r = kerf.repeat reverse %i = 0 to 3 () {
      %e = kerf.einsum "sn,sk->nk" %d, %x : tensor<16x40xf32>, tensor<16x6xf32> -> tensor<40x6xf32>
      kerf.yield stack(%e) : tensor<40x6xf32>
    }
    spmd.accumulate %r into @g : tensor<3x40x6xf32>
    spmd.return
  }
  spmd.func @backward_last() continues @backward {
    %x = spmd.read @x : tensor<16x6xf32>
    %d = spmd.read @d : tensor<16x40xf32>
    %g = spmd.read @g : tensor<3x40x6xf32>
    %r = kerf.repeat reverse %i = 0 to 3 () slices(%p = %g : tensor<3x40x6xf32>) {
      %e = kerf.einsum "sn,sk->nk" %d, %x : tensor<16x40xf32>, tensor<16x6xf32> -> tensor<40x6xf32>
      %s = kerf.add %p, %e : tensor<40x6xf32>
      %t = spmd.all_reduce sum %s over [dp] : tensor<40x6xf32>
      kerf.yield stack(%t) : tensor<40x6xf32>
    }
    spmd.write %r to @g : tensor<3x40x6xf32>
    spmd.return
  }
  spmd.func @update() {
    %g = spmd.read @g : tensor<3x40x6xf32>
    spmd.write %g to @y : tensor<3x40x6xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @backward micro 0
    spmd.call @backward_last micro 1
    spmd.call @update
  }
}

// -----

// Padding wants a copy of the sum: a kernel adds. So it does where something else reads the gradient.
// FUSED-LABEL: spmd.program @kernels
// FUSED:       spmd.func @backward_last
// FUSED:         kerf.einsum
// FUSED:         spmd.fused
// FUSED:           kerf.add
// FUSED:         kerf.einsum
// FUSED:         spmd.fused
// FUSED:           kerf.add
// CHECK-LABEL: exec.program @kernels
// CHECK:       exec.func @backward_last {
// CHECK:         matmul
// CHECK:         launch
// CHECK:         matmul
// CHECK:         launch
spmd.program @kernels over <dp = 2> micro_batches 2 slots 1 {
  spmd.input @x global tensor<32x5xf32> sharded [["micro"], []] : tensor<16x5xf32>
  spmd.input @d global tensor<32x13xf32> sharded [["micro"], []] : tensor<16x13xf32>
  spmd.buffer @g step : tensor<3x13x5xf32>
  spmd.buffer @h step : tensor<3x13x5xf32>
  spmd.buffer @pieces step : tensor<3x33xf32>
  spmd.output @y last : tensor<3x33xf32>
  spmd.output @z last : tensor<3x13x5xf32>
  spmd.func @backward() {
    %x = spmd.read @x : tensor<16x5xf32>
    %d = spmd.read @d : tensor<16x13xf32>
    %r:2 = kerf.repeat reverse %i = 0 to 3 () {
      %e = kerf.einsum "sn,sk->nk" %d, %x : tensor<16x13xf32>, tensor<16x5xf32> -> tensor<13x5xf32>
      %f = kerf.einsum "sn,sk->nk" %d, %x : tensor<16x13xf32>, tensor<16x5xf32> -> tensor<13x5xf32>
      kerf.yield stack(%e, %f) : tensor<13x5xf32>, tensor<13x5xf32>
    }
    spmd.accumulate %r#0 into @g : tensor<3x13x5xf32>
    spmd.accumulate %r#1 into @h : tensor<3x13x5xf32>
    spmd.return
  }
  spmd.func @backward_last() continues @backward {
    %x = spmd.read @x : tensor<16x5xf32>
    %d = spmd.read @d : tensor<16x13xf32>
    %g = spmd.read @g : tensor<3x13x5xf32>
    %h = spmd.read @h : tensor<3x13x5xf32>
    %r:3 = kerf.repeat reverse %i = 0 to 3 () slices(%p = %g : tensor<3x13x5xf32>, %q = %h : tensor<3x13x5xf32>) {
      %e = kerf.einsum "sn,sk->nk" %d, %x : tensor<16x13xf32>, tensor<16x5xf32> -> tensor<13x5xf32>
      %s = kerf.add %p, %e : tensor<13x5xf32>
      %flat = kerf.reshape %s : tensor<13x5xf32> -> tensor<65xf32>
      %long = kerf.pad %flat low [0] high [1] : tensor<65xf32>
      %t = spmd.reduce_scatter sum %long dim 0 over [dp] : tensor<66xf32> -> tensor<33xf32>
      %f = kerf.einsum "sn,sk->nk" %d, %x : tensor<16x13xf32>, tensor<16x5xf32> -> tensor<13x5xf32>
      %u = kerf.add %q, %f : tensor<13x5xf32>
      %v = spmd.all_reduce sum %u over [dp] : tensor<13x5xf32>
      kerf.yield stack(%t, %v, %f) : tensor<33xf32>, tensor<13x5xf32>, tensor<13x5xf32>
    }
    spmd.write %r#0 to @pieces : tensor<3x33xf32>
    spmd.write %r#1 to @h : tensor<3x13x5xf32>
    spmd.write %r#2 to @z : tensor<3x13x5xf32>
    spmd.return
  }
  spmd.func @update() {
    %g = spmd.read @pieces : tensor<3x33xf32>
    spmd.write %g to @y : tensor<3x33xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @backward micro 0
    spmd.call @backward_last micro 1
    spmd.call @update
  }
}

// -----

// A gradient whose pieces are padded has room for that where it is made.
// FUSED-LABEL: spmd.program @padded
// FUSED-NOT:   spmd.fused
// FUSED:       spmd.schedule
// CHECK-LABEL: exec.program @padded
// CHECK:       exec.func @backward {
// CHECK-NEXT:    matmul "matmul" {{.*}}#exec.arena<write f32 [[AT:[0-9]+]] bytes 260>
// CHECK-NEXT:    zero "zero" [4]
// CHECK-NEXT:    reduce_scatter {{.*}}#exec.arena<read f32 [[AT]] bytes 264>
spmd.program @padded over <dp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<32x5xf32> sharded [["dp"], []] : tensor<16x5xf32>
  spmd.input @d global tensor<32x13xf32> sharded [["dp"], []] : tensor<16x13xf32>
  spmd.output @y last : tensor<33xf32>
  spmd.func @backward() {
    %x = spmd.read @x : tensor<16x5xf32>
    %d = spmd.read @d : tensor<16x13xf32>
    %e = kerf.einsum "sn,sk->nk" %d, %x : tensor<16x13xf32>, tensor<16x5xf32> -> tensor<13x5xf32>
    %flat = kerf.reshape %e : tensor<13x5xf32> -> tensor<65xf32>
    %long = kerf.pad %flat low [0] high [1] : tensor<65xf32>
    %t = spmd.reduce_scatter sum %long dim 0 over [dp] : tensor<66xf32> -> tensor<33xf32>
    spmd.write %t to @y : tensor<33xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @backward micro 0
  }
}
