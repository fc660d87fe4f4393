// Two stages as one file: kernels, tables and channels of both.
// RUN: kerfc %s --start-after=codegen -o %t.kerf
// RUN: kerf-inspect program %t.kerf | FileCheck %s
// RUN: kerf-inspect params %t.kerf | FileCheck %s --check-prefix=PARAMS
// RUN: kerf-inspect memory %t.kerf | FileCheck %s --check-prefix=MEMORY

// Facts of the step stand on one of the programs; operations add up.

// CHECK: model 'two' for cpu x86-64-v2
// CHECK-NEXT: 4 ranks: pp = 2 dp = 2; 2 micro-batches in 2 stages; 6 commands
// CHECK: stage 0 'two_0': arena of 256 bytes, 2 slots
// CHECK-NEXT: channel 'forward' to 1: messages of up to 16 bytes, holds 2
// CHECK: step: 2 calls
// CHECK: function forward:
// CHECK-NEXT: 0 rotate = rotate over dp (2 ranks) f32 count 4
// CHECK-NEXT: 1 send = send 'forward' to 1 bytes 16
// CHECK: stage 1 'two_1': arena of 128 bytes, 1 slot
// CHECK-NEXT: channel 'forward' from 0
// CHECK: step: 2 calls
// CHECK-NEXT: 2 forward micro-batch 0 first{{$}}
// CHECK: evaluation: 1 calls
// CHECK: 3 receive = receive 'forward' from 0 bytes 16
// CHECK-NEXT: 4 total = all_reduce over pp dp (4 ranks) f32 sum count 1

// PARAMS: stage 0 'two_0'
// PARAMS-NEXT: h.{i}.w: i = 0 .. 1 of [6 = 3 x 2 / dp, 2] f32 ones at 0 + 64 i
// PARAMS: stage 1 'two_1'
// PARAMS-NEXT: h.{i}.w: i = 2 of [3] bf16 zeros in pieces over dp at 0, master f32 at 64, m f32 at 72
// PARAMS-NEXT: 27 parameters

// MEMORY: stage 1 'two_1'
// MEMORY-NEXT: arena: 128 bytes

module {
  exec.program @two_0 arena 256 lower_bound 256 classes [128, 0, 0, 0, 0, 0, 0, 128] attributes {
      stage = 0 : i64, slots = 2 : i64, matmul_flops = 2.0 : f64} {
    exec.param "h.{i}.w" [0 to 2] tensor<6x2xf32> local tensor<3x2xf32> sharded [["dp"], []] blocks [3, 1] init <ones> at 0 by 64
    exec.output "loss" f32 at 128
    exec.channel "forward" from 0 to 1 bytes 16 holds 2
    exec.func @forward {
      exec.command rotate "rotate" [2, 0, 4] [#exec.arena<read f32 192 bytes 16>, #exec.arena<write f32 208 bytes 16>]
      exec.command send "send" [0, 16] [#exec.arena<read f32 208 bytes 16>]
      exec.command all_reduce "total" [3, 0, 0, 1] [#exec.arena<read f32 192 bytes 4>, #exec.arena<write f32 128 bytes 4>]
    }
    exec.schedule "train" {
      exec.call @forward
      exec.call @forward micro 1
    }
  }
  exec.program @two_1 arena 128 lower_bound 128 classes [64, 0, 0, 0, 0, 0, 0, 64] attributes {
      stage = 1 : i64, model = "two", mesh = #kerf.mesh<pp = 2, dp = 2>, micro_batches = 2 : i64,
      slots = 1 : i64, workers = 1 : i64, cpu = "x86-64-v2", matmul_flops = 1.0 : f64} {
    exec.param "h.{i}.w" [2 to 3] tensor<3xbf16> local tensor<3xbf16> sharded [[]] state over ["dp"] weights over ["dp"] init <zeros> at 0 by 4 master f32 at 64 by 8 states [{name = "m", type = f32, at = 72 : i64, by = 8 : i64}]
    exec.output "loss" f32 at 80
    exec.channel "forward" from 0 to 1 bytes 16 holds 2
    exec.func @forward {
      exec.command receive "receive" [0, 16] [#exec.arena<write f32 96 bytes 16>]
      exec.command all_reduce "total" [3, 0, 0, 1] [#exec.arena<read f32 96 bytes 4>, #exec.arena<write f32 80 bytes 4>]
    }
    exec.func @evaluate {
      exec.command zero "loss" [4] [#exec.arena<write f32 80 bytes 4>]
    }
    exec.schedule "train" {
      exec.call @forward
      exec.call @forward micro 1
    }
    exec.schedule "evaluate" {
      exec.call @evaluate
    }
  }
}
