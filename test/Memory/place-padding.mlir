// RUN: kerf-opt %s --kerf-build-commands --kerf-place-memory --kerf-verify-memory --split-input-file | FileCheck %s

// A parameter with more rows is its own buffer, which has room for them; they are set to
// zero before they are read. What is stored keeps its size. The prefix of a matmul that is
// written to a named buffer is computed there, and the buffer has room for the rest.
// CHECK-LABEL: exec.program @step
// CHECK: exec.param "w"[0 to 1] tensor<37x6xf32> local tensor<37x6xf32> sharded {{.*}} at [[W:[0-9]+]] by 888
spmd.program @step over <> micro_batches 1 slots 1 {
  spmd.param "w" global tensor<37x6xf32> sharded [[], []] rule #kerf.sgd<> init <normal, 1.0> : tensor<37x6xf32>
  spmd.input @x global tensor<16x6xf32> sharded [[], []] : tensor<16x6xf32>
  spmd.buffer @g step : tensor<37x6xf32>
  // CHECK-DAG: exec.buffer "w" class 0 at [[W]] bytes 960
  // CHECK-DAG: exec.buffer "g" class {{.*}} at [[G:[0-9]+]] bytes 960
  // CHECK: exec.func @backward {
  spmd.func @backward() {
    %x = spmd.read @x : tensor<16x6xf32>
    %w = kerf.param "w" init<normal, 1.0> : tensor<37x6xf32>
    // CHECK-NEXT: zero "zero" [72] [#exec.arena<write f32 {{[0-9]+}} bytes 72>]
    %p = kerf.pad %w low [0, 0] high [3, 0] : tensor<37x6xf32>
    // CHECK-NEXT: matmul "matmul" [0, 0, 0, 1, 16, 40, 6, {{.*}}#exec.arena<read f32 [[W]] bytes 960>
    %l = kerf.linear %x, %p : tensor<16x6xf32>, tensor<40x6xf32>
    // CHECK-NEXT: matmul "matmul" [0, 0, 0, 1, 40, 6, 16, {{.*}}#exec.arena<write f32 [[G]] bytes 960>
    %d = kerf.einsum "sn,sk->nk" %l, %x : tensor<16x40xf32>, tensor<16x6xf32> -> tensor<40x6xf32>
    // CHECK-NEXT: }
    %g = kerf.slice %d offsets [0, 0] sizes [37, 6] : tensor<40x6xf32>
    spmd.write %g to @g : tensor<37x6xf32>
    spmd.return
  }
  spmd.func @update() {
    %g = spmd.read @g : tensor<37x6xf32>
    %r = spmd.fused () -> (tensor<f32>) {
      %c = kerf.constant dense<0.5> : tensor<f32>
      spmd.yield %c : tensor<f32>
    }
    %s = spmd.fused () -> (tensor<i32>) {
      %c = kerf.constant dense<1> : tensor<i32>
      spmd.yield %c : tensor<i32>
    }
    kerf.update "w" rule #kerf.sgd<> by %g rate %r step %s : tensor<37x6xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @backward micro 0
    spmd.call @update
  }
}

// -----

// Over micro-batches, the longer matmul adds up in the buffer itself.
// CHECK-LABEL: exec.program @sum
spmd.program @sum over <> micro_batches 2 slots 1 {
  spmd.input @x global tensor<32x6xf32> sharded [["micro"], []] : tensor<16x6xf32>
  spmd.input @d global tensor<32x40xf32> sharded [["micro"], []] : tensor<16x40xf32>
  // CHECK: exec.buffer "g" class {{.*}} at [[G:[0-9]+]] bytes 960
  spmd.buffer @g step : tensor<37x6xf32>
  spmd.output @y last : tensor<37x6xf32>
  // CHECK: exec.func @backward {
  spmd.func @backward() {
    %x = spmd.read @x : tensor<16x6xf32>
    %d = spmd.read @d : tensor<16x40xf32>
    // CHECK-NEXT: matmul {{.*}}#exec.arena<write f32 [[G]] bytes 960>
    // CHECK-NEXT: matmul {{.*}}#exec.arena<write f32 [[G]] bytes 960>
    // CHECK-NEXT: }
    %e = kerf.einsum "sn,sk->nk" %d, %x : tensor<16x40xf32>, tensor<16x6xf32> -> tensor<40x6xf32>
    %s = kerf.slice %e offsets [0, 0] sizes [37, 6] : tensor<40x6xf32>
    spmd.accumulate %s into @g : tensor<37x6xf32>
    spmd.return
  }
  spmd.func @update() {
    %g = spmd.read @g : tensor<37x6xf32>
    spmd.write %g to @y : tensor<37x6xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @backward micro 0
    spmd.call @backward micro 1
    spmd.call @update
  }
}

// -----

// In a stack there is no room for the rest of a longer matmul: the prefix is copied to
// its place, in steps of its own size, and a kernel adds up the stack. A part of a matmul
// that cannot be is no part.
// CHECK-LABEL: exec.program @stack
spmd.program @stack over <> micro_batches 2 slots 1 {
  spmd.input @x global tensor<32x6xf32> sharded [["micro"], []] : tensor<16x6xf32>
  spmd.input @d global tensor<32x40xf32> sharded [["micro"], []] : tensor<16x40xf32>
  spmd.buffer @g step : tensor<3x37x6xf32>
  spmd.output @y last : tensor<3x37x6xf32>
  // CHECK: exec.func @backward {
  spmd.func @backward() {
    %x = spmd.read @x : tensor<16x6xf32>
    %d = spmd.read @d : tensor<16x40xf32>
    // CHECK: matmul "matmul" [{{.*}}, 0, 0, 0] [{{.*}}#exec.arena<write f32 [[E:[0-9]+]] bytes 960>
    // CHECK-NOT: matmul
    // CHECK: copy {{.*}}#exec.arena<read f32 [[E]] bytes 888>, #exec.arena<write f32 {{[0-9]+}} iter 888
    // CHECK: launch {{.*}} "accumulate"
    %r = kerf.repeat reverse %i = 0 to 3 () {
      %e = kerf.einsum "sn,sk->nk" %d, %x {spmd.padded = array<i64: 0>} : tensor<16x40xf32>, tensor<16x6xf32> -> tensor<40x6xf32>
      %s = kerf.slice %e offsets [0, 0] sizes [37, 6] : tensor<40x6xf32>
      kerf.yield stack(%s) : tensor<37x6xf32>
    }
    spmd.accumulate %r into @g : tensor<3x37x6xf32>
    spmd.return
  }
  spmd.func @update() {
    %g = spmd.read @g : tensor<3x37x6xf32>
    spmd.write %g to @y : tensor<3x37x6xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @backward micro 0
    spmd.call @backward micro 1
    spmd.call @update
  }
}
