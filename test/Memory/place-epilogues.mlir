// RUN: kerf-opt %s --kerf-build-commands=target=cuda --kerf-place-memory --kerf-verify-memory --split-input-file | FileCheck %s

// A matmul with gelu gets its bias and writes two matrices; without a bias and
// with one matrix the operands are absent or left out.
// CHECK-LABEL: exec.program @gelu
spmd.program @gelu over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.input @w global tensor<16x8xf32> sharded [[], []] : tensor<16x8xf32>
  spmd.input @b global tensor<16xf32> sharded [[]] : tensor<16xf32>
  spmd.output @h last : tensor<4x16xf32>
  spmd.output @g last : tensor<4x16xf32>
  spmd.output @d last : tensor<4x16xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    %w = spmd.read @w : tensor<16x8xf32>
    %b = spmd.read @b : tensor<16xf32>
    // Epilogue 5: gelu_aux_bias, a bias of f32.
    // CHECK: matmul "matmul" [0, 0, 0, 1, 4, 16, 8, {{.*}}, 0, 5, 0] [#exec.arena<read f32 {{[0-9]+}} bytes 128>, #exec.arena<read f32 {{[0-9]+}} bytes 512>, #exec.arena<write f32 [[G:[0-9]+]] bytes 256>, #exec.absent, #exec.arena<read f32 {{[0-9]+}} bytes 64>, #exec.arena<write f32 [[H:[0-9]+]] bytes 256>]
    %p:2 = spmd.fused_matmul (%xa = %x : tensor<4x8xf32>, %wa = %w : tensor<16x8xf32>, %ba = %b : tensor<16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
      %l = kerf.linear %xa, %wa bias %ba : tensor<4x8xf32>, tensor<16x8xf32>, tensor<16xf32>
      %e = kerf.gelu tanh %l : tensor<4x16xf32>
      spmd.yield %e, %l : tensor<4x16xf32>, tensor<4x16xf32>
    }
    // Epilogue 6: dgelu, which reads aux.
    // CHECK-NEXT: matmul "matmul" [0, 0, 0, 1, 4, 16, 8, {{.*}}, 0, 6, 0] [{{.*}}, #exec.arena<write f32 {{[0-9]+}} bytes 256>, #exec.absent, #exec.absent, #exec.arena<read f32 [[H]] bytes 256>]
    %d = spmd.fused_matmul (%xa = %x : tensor<4x8xf32>, %wa = %w : tensor<16x8xf32>, %ha = %p#1 : tensor<4x16xf32>) -> (tensor<4x16xf32>) {
      %l = kerf.linear %xa, %wa : tensor<4x8xf32>, tensor<16x8xf32>
      %e = kerf.gelu_backward tanh %ha, %l : tensor<4x16xf32>
      spmd.yield %e : tensor<4x16xf32>
    }
    spmd.write %p#0 to @g : tensor<4x16xf32>
    spmd.write %p#1 to @h : tensor<4x16xf32>
    spmd.write %d to @d : tensor<4x16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// Over micro-batches the gradient of a weight is summed by its matmul, which
// sets it in the first; the gradient of the bias beside it is set in each, and a
// kernel adds it up.
// CHECK-LABEL: exec.program @sums
spmd.program @sums over <> micro_batches 2 slots 1 {
  spmd.input @x global tensor<8x8xf32> sharded [[micro], []] : tensor<4x8xf32>
  spmd.input @dy global tensor<8x16xf32> sharded [[micro], []] : tensor<4x16xf32>
  spmd.buffer @w step : tensor<8x16xf32>
  spmd.buffer @b step : tensor<16xf32>
  spmd.output @dw last : tensor<8x16xf32>
  spmd.output @db last : tensor<16xf32>
  spmd.func @backward() {
    %x = spmd.read @x : tensor<4x8xf32>
    %dy = spmd.read @dy : tensor<4x16xf32>
    // CHECK: matmul "matmul" [0, 0, 0, 1, 8, 16, 4, {{.*}}, 0, 9, 0] [{{.*}}, #exec.arena<write f32 [[W:[0-9]+]] bytes 512>, #exec.absent, #exec.arena<write f32 [[B:[0-9]+]] bytes 64>] when 1
    // CHECK-NEXT: matmul "matmul" [0, 0, 0, 1, 8, 16, 4, {{.*}}, 1, 9, 0] [{{.*}}, #exec.arena<write f32 [[W]] bytes 512>, #exec.absent, #exec.arena<write f32 [[B]] bytes 64>] when 2
    %p:2 = spmd.fused_matmul (%d = %dy : tensor<4x16xf32>, %a = %x : tensor<4x8xf32>) -> (tensor<8x16xf32>, tensor<16xf32>) {
      %w = kerf.einsum "sn,sk->kn" %d, %a : tensor<4x16xf32>, tensor<4x8xf32> -> tensor<8x16xf32>
      %s = kerf.reduce sum %d dims [0] : tensor<4x16xf32>
      spmd.yield %w, %s : tensor<8x16xf32>, tensor<16xf32>
    }
    // CHECK-NEXT: copy "copy" [64] [#exec.arena<read f32 [[B]] bytes 64>, #exec.arena<write f32 [[SUM:[0-9]+]] bytes 64>] when 1
    // CHECK-NEXT: launch {{.*}} "accumulate" [] [#exec.arena<read f32 [[SUM]] bytes 64>, #exec.arena<read f32 [[B]] bytes 64>, #exec.arena<write f32 [[SUM]] bytes 64>] when 2
    spmd.accumulate %p#0 into @w : tensor<8x16xf32>
    spmd.accumulate %p#1 into @b : tensor<16xf32>
    spmd.return
  }
  spmd.func @update() {
    %w = spmd.read @w : tensor<8x16xf32>
    %b = spmd.read @b : tensor<16xf32>
    spmd.write %w to @dw : tensor<8x16xf32>
    spmd.write %b to @db : tensor<16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @backward micro 0
    spmd.call @backward micro 1
    spmd.call @update
  }
}

// -----

// What ends in a gelu or its gradient is no sum that its call could add to.
// CHECK-LABEL: exec.program @gelu_sums
spmd.program @gelu_sums over <> micro_batches 2 slots 1 {
  spmd.input @x global tensor<8x8xf32> sharded [[micro], []] : tensor<4x8xf32>
  spmd.input @h global tensor<8x8xf32> sharded [[micro], []] : tensor<4x8xf32>
  spmd.input @v global tensor<8x8xf32> sharded [[], []] : tensor<8x8xf32>
  spmd.buffer @s step : tensor<4x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.func @backward() {
    %x = spmd.read @x : tensor<4x8xf32>
    %h = spmd.read @h : tensor<4x8xf32>
    %v = spmd.read @v : tensor<8x8xf32>
    // CHECK: matmul {{.*}}, 0, 6, 0] {{.*}}bytes 128>]{{$}}
    // CHECK-NEXT: copy "copy"
    // CHECK-NEXT: launch {{.*}} "accumulate"
    %p = spmd.fused_matmul (%a = %x : tensor<4x8xf32>, %w = %v : tensor<8x8xf32>, %b = %h : tensor<4x8xf32>) -> (tensor<4x8xf32>) {
      %e = kerf.einsum "sn,nk->sk" %a, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
      %g = kerf.gelu_backward tanh %b, %e : tensor<4x8xf32>
      spmd.yield %g : tensor<4x8xf32>
    }
    spmd.accumulate %p into @s : tensor<4x8xf32>
    spmd.return
  }
  spmd.func @update() {
    %s = spmd.read @s : tensor<4x8xf32>
    spmd.write %s to @y : tensor<4x8xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @backward micro 0
    spmd.call @backward micro 1
    spmd.call @update
  }
}

// -----

// Units are read by the matmul that they scale, bias and aux are absent; over
// micro-batches it adds up scaled matmuls where the gradient lies.
// CHECK-LABEL: exec.program @scale
spmd.program @scale over <> micro_batches 2 slots 1 {
  spmd.input @x global tensor<32x16xf8E4M3FN> sharded [[micro], []] : tensor<16x16xf8E4M3FN>
  spmd.input @w global tensor<16x16xf8E5M2> sharded [[], []] : tensor<16x16xf8E5M2>
  spmd.input @u global tensor<f32> sharded [] : tensor<f32>
  spmd.input @v global tensor<f32> sharded [] : tensor<f32>
  spmd.buffer @s step : tensor<16x16xf32>
  spmd.output @y last : tensor<16x16xf32>
  spmd.func @backward() {
    %x = spmd.read @x : tensor<16x16xf8E4M3FN>
    %w = spmd.read @w : tensor<16x16xf8E5M2>
    %u = spmd.read @u : tensor<f32>
    %v = spmd.read @v : tensor<f32>
    // Epilogue 10: scale.
    // CHECK: matmul "matmul" [7, 8, 0, 1, 16, 16, 16, {{.*}}, 0, 10, 0] [#exec.arena<read f8E4M3FN {{.*}}>, #exec.arena<read f8E5M2 {{.*}}>, #exec.arena<write f32 [[S:[0-9]+]] bytes 1024>, #exec.absent, #exec.absent, #exec.absent, #exec.arena<read f32 [[U:[0-9]+]] bytes 4>, #exec.arena<read f32 [[V:[0-9]+]] bytes 4>] when 1
    // CHECK-NEXT: matmul "matmul" [7, 8, 0, 1, 16, 16, 16, {{.*}}, 1, 10, 0] [{{.*}}, #exec.arena<write f32 [[S]] bytes 1024>, #exec.absent, #exec.absent, #exec.absent, #exec.arena<read f32 [[U]] bytes 4>, #exec.arena<read f32 [[V]] bytes 4>] when 2
    // CHECK-NOT: launch
    %p = spmd.fused_matmul (%a = %x : tensor<16x16xf8E4M3FN>, %b = %w : tensor<16x16xf8E5M2>, %c = %u : tensor<f32>, %d = %v : tensor<f32>) -> (tensor<16x16xf32>) {
      %e = kerf.einsum "mk,nk->mn" %a, %b : tensor<16x16xf8E4M3FN>, tensor<16x16xf8E5M2> -> tensor<16x16xf32>
      %f = kerf.mul %c, %d : tensor<f32>
      %g = kerf.broadcast %f dims [] : tensor<f32> -> tensor<16x16xf32>
      %h = kerf.mul %e, %g : tensor<16x16xf32>
      spmd.yield %h : tensor<16x16xf32>
    }
    spmd.accumulate %p into @s : tensor<16x16xf32>
    spmd.return
  }
  spmd.func @update() {
    %s = spmd.read @s : tensor<16x16xf32>
    spmd.write %s to @y : tensor<16x16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @backward micro 0
    spmd.call @backward micro 1
    spmd.call @update
  }
}
