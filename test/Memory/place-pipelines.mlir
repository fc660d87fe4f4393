// RUN: kerf-opt %s --kerf-build-commands --kerf-place-memory --kerf-verify-memory | FileCheck %s

// Two stages hand over an activation and its gradient. A message is sent from
// where it lies and received where it is wanted, here a slot buffer; channels are
// declared at both ends, and numbered by first use in each program. Stage 1 of 2
// x 2 ranks has the flops of its two ranks: 2 (multiply, add) * 4 * 8 * 8 for each
// of 3 micro-batches and 2 ranks; stage 0 has no matmul.
// CHECK-LABEL: exec.program @stage0
// CHECK-SAME: matmul_flops = 0.000000e+00 : f64
// CHECK-SAME: slots = 2 : i64, stage = 0 : i64
// CHECK-NEXT: exec.input "x"
// CHECK-NEXT: exec.channel "forward" from 0 to 1 bytes 128 holds 2
// CHECK-NEXT: exec.channel "backward" from 1 to 0 bytes 256 holds 2
spmd.program @stage0 over <pp = 2, dp = 2> micro_batches 3 slots 2 attributes {channel_capacity = 2 : i64} {
  spmd.input @x global tensor<24x8xf32> sharded [[dp, micro], []] : tensor<4x8xf32>
  spmd.buffer @saved slot : tensor<4x8xf32>
  spmd.buffer @sum step : tensor<8x8xf32>
  // CHECK: exec.buffer "saved" class 4 at [[SAVED:[0-9]+]] bytes 256 live
  // CHECK: exec.buffer "sum" class 3 at [[SUM:[0-9]+]] bytes 256 live
  // CHECK: exec.buffer "recv" class 5 at [[GRADIENT:[0-9]+]] bytes 256 live
  // CHECK: exec.func @forward {
  spmd.func @forward() {
    // CHECK-NEXT: launch @k0 "fused" [] [#exec.arena<read f32 0 slot 128 of 3 bytes 128>, #exec.arena<write f32 [[SAVED]] slot 128 of 2 bytes 128>]
    // CHECK-NEXT: send "send" [0, 128] [#exec.arena<read f32 [[SAVED]] slot 128 of 2 bytes 128>]
    %x = spmd.read @x : tensor<4x8xf32>
    %e = spmd.fused (%a = %x : tensor<4x8xf32>) -> (tensor<4x8xf32>) {
      %e = kerf.exp %a : tensor<4x8xf32>
      spmd.yield %e : tensor<4x8xf32>
    }
    spmd.send %e to 1 on "forward" : tensor<4x8xf32>
    spmd.write %e to @saved : tensor<4x8xf32>
    spmd.return
  }
  // CHECK: exec.func @backward {
  spmd.func @backward() {
    // CHECK-NEXT: receive "receive" [1, 256] [#exec.arena<write f32 [[GRADIENT]] bytes 256>]
    %g = spmd.recv from 1 on "backward" : tensor<8x8xf32>
    %s = spmd.read @saved : tensor<4x8xf32>
    %u = spmd.fused (%a = %g : tensor<8x8xf32>, %b = %s : tensor<4x8xf32>) -> (tensor<8x8xf32>) {
      %c = kerf.reduce sum %b dims [0, 1] : tensor<4x8xf32>
      %d = kerf.broadcast %c dims [] : tensor<f32> -> tensor<8x8xf32>
      %e = kerf.mul %a, %d : tensor<8x8xf32>
      spmd.yield %e : tensor<8x8xf32>
    }
    spmd.accumulate %u into @sum : tensor<8x8xf32>
    spmd.return
  }
  // 1F1B: a forward ahead. Slots count per micro-batch.
  // CHECK: exec.schedule "train" {
  // CHECK-NEXT: exec.call @forward{{$}}
  // CHECK-NEXT: exec.call @forward micro 1
  // CHECK-NEXT: exec.call @backward{{$}}
  // CHECK-NEXT: exec.call @forward micro 2{{$}}
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    spmd.call @backward micro 0
    spmd.call @forward micro 2
    spmd.call @backward micro 1
    spmd.call @backward micro 2
  }
}
// A norm over all stages is an all-reduce over all axes.
// CHECK-LABEL: exec.program @stage1
// CHECK-SAME: matmul_flops = 3.072000e+03 : f64
// CHECK-SAME: slots = 1 : i64, stage = 1 : i64
// CHECK-NEXT: exec.channel "forward" from 0 to 1 bytes 128 holds 2
// CHECK-NEXT: exec.channel "backward" from 1 to 0 bytes 256 holds 2
// CHECK-NEXT: exec.output "norm"
spmd.program @stage1 over <pp = 2, dp = 2> stage 1 micro_batches 3 slots 1 attributes {channel_capacity = 2 : i64} {
  spmd.output @norm last : tensor<f32>
  spmd.buffer @saved slot : tensor<4x8xf32>
  // CHECK: exec.buffer "saved" class 4 at [[SAVED:[0-9]+]] bytes 128 live
  // CHECK: exec.func @forward {
  spmd.func @forward() {
    // CHECK-NEXT: receive "receive" [0, 128] [#exec.arena<write f32 [[SAVED]] bytes 128>]
    // CHECK-NEXT: }
    %x = spmd.recv from 0 on "forward" : tensor<4x8xf32>
    spmd.write %x to @saved : tensor<4x8xf32>
    spmd.return
  }
  // CHECK: exec.func @backward {
  spmd.func @backward() {
    // CHECK-NEXT: matmul "matmul"
    // CHECK-SAME: #exec.arena<write f32 [[Y:[0-9]+]] bytes 256>
    // CHECK-NEXT: send "send" [1, 256] [#exec.arena<read f32 [[Y]] bytes 256>]
    %s = spmd.read @saved : tensor<4x8xf32>
    %y = kerf.einsum "bd,be->de" %s, %s : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
    spmd.send %y to 0 on "backward" : tensor<8x8xf32>
    spmd.return
  }
  // CHECK: exec.func @finish {
  spmd.func @finish() {
    // CHECK: all_reduce "all_reduce" [3, 0, 0, 1]
    %x = spmd.fused () -> (tensor<f32>) {
      %c = kerf.constant dense<1.0> : tensor<f32>
      spmd.yield %c : tensor<f32>
    }
    %n = spmd.all_reduce sum %x over [pp, dp] : tensor<f32>
    spmd.write %n to @norm : tensor<f32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @backward micro 0
    spmd.call @forward micro 1
    spmd.call @backward micro 1
    spmd.call @forward micro 2
    spmd.call @backward micro 2
    spmd.call @finish
  }
}
