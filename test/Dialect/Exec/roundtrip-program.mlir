// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt %s --mlir-print-op-generic | kerf-opt | FileCheck %s

// A program of all its ops comes back as it was.
// CHECK-LABEL: exec.program @all arena 1024 lower_bound 960 classes [256, 64, 64, 64, 256, 64, 64, 64] attributes {micro_batches = 2 : i64} {
exec.program @all arena 1024 lower_bound 960 classes [256, 64, 64, 64, 256, 64, 64, 64]
    attributes {micro_batches = 2} {
  // CHECK-NEXT: exec.param "h.{i}.w"[0 to 2] tensor<4x8xbf16> local tensor<4x4xbf16> sharded {{\[\[}}], ["tp"]] init <normal, 0.02> at 0 by 32 master f32 at 64 by 64 states [{at = 192 : i64, by = 64 : i64, name = "m", type = f32}]
  exec.param "h.{i}.w" [0 to 2] tensor<4x8xbf16> local tensor<4x4xbf16> sharded [[], ["tp"]] init <normal, 0.02> at 0 by 32 master f32 at 64 by 64 states [{name = "m", type = f32, at = 192, by = 64}]
  // CHECK-NEXT: exec.param "g"[0 to 1] tensor<4xf32> local tensor<4xf32> sharded {{\[\[}}]] init <ones> frozen at 320 by 16
  exec.param "g" [0 to 1] tensor<4xf32> local tensor<4xf32> sharded [[]] init <ones> frozen at 320 by 16
  // CHECK-NEXT: exec.param "qkv"[0 to 1] tensor<12x4xf32> local tensor<6x4xf32> sharded {{\[\[}}"tp"], []] blocks [3, 1] state over ["dp", "cp"] init <normal, 0.02> at 640 by 96 states [{at = 768 : i64, by = 24 : i64, name = "m", type = f32}]
  exec.param "qkv" [0 to 1] tensor<12x4xf32> local tensor<6x4xf32> sharded [["tp"], []] blocks [3, 1] state over ["dp", "cp"] init <normal, 0.02> at 640 by 96 states [{name = "m", type = f32, at = 768, by = 24}]
  // CHECK-NEXT: exec.param "codes"[0 to 1] tensor<4x32xf32> local tensor<4x32xf32> sharded {{\[\[}}], []] state over ["dp"] granule 16 init <ones> at 0 by 512 states [{at = 512 : i64, by = 64 : i64, name = "m", type = i8}, {at = 576 : i64, block = 16 : i64, by = 16 : i64, name = "m_max", type = f32}]
  exec.param "codes" [0 to 1] tensor<4x32xf32> local tensor<4x32xf32> sharded [[], []] state over ["dp"] granule 16 init <ones> at 0 by 512 states [{name = "m", type = i8, at = 512, by = 64}, {name = "m_max", type = f32, block = 16, at = 576, by = 16}]
  // CHECK-NEXT: exec.param "z"[0 to 1] tensor<5xf32> local tensor<5xf32> sharded {{\[\[}}]] state over ["dp"] weights over ["dp"] init <ones> at 320 by 12
  exec.param "z" [0 to 1] tensor<5xf32> local tensor<5xf32> sharded [[]] state over ["dp"] weights over ["dp"] init <ones> at 320 by 12
  // CHECK-NEXT: exec.channel "forward" from 0 to 1 bytes 64 holds 2
  exec.channel "forward" from 0 to 1 bytes 64 holds 2
  // CHECK-NEXT: exec.input "tokens" role "tokens" tensor<2x8xi32> local tensor<2x8xi32> sharded {{\[\[}}"dp", "micro"], []] at 384
  exec.input "tokens" role "tokens" tensor<2x8xi32> local tensor<2x8xi32> sharded [["dp", "micro"], []] at 384
  // CHECK-NEXT: exec.output "loss" f32 at 448
  exec.output "loss" f32 at 448
  // CHECK-NEXT: exec.buffer "h" class 4 at 512 bytes 256 live [0, 3, 7, 9]
  exec.buffer "h" class 4 at 512 bytes 256 live [0, 3, 7, 9]
  // CHECK-NEXT: exec.buffer "g" class 0 at 320 bytes 16 live []
  exec.buffer "g" class 0 at 320 bytes 16 live []
  // CHECK-NEXT: exec.image "f0VMRg=="
  exec.image "f0VMRg=="
  // CHECK-NEXT: exec.kernel @k0(%arg0: tensor<4xf32>) -> tensor<4xf32>
  exec.kernel @k0(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = kerf.exp %x : tensor<4xf32>
    exec.yield %y : tensor<4xf32>
  }
  // CHECK: exec.func @forward {
  exec.func @forward {
    // CHECK-NEXT: exec.command all_reduce "loss" [1, 0, 0, 1] [#exec.arena<update f32 448 bytes 4>, #exec.arena<write f32 448 bytes 4>] when 4
    exec.command all_reduce "loss" [1, 0, 0, 1] [#exec.arena<update f32 448 bytes 4>, #exec.arena<write f32 448 bytes 4>] when 4
    // CHECK-NEXT: exec.loop 0 to 2 {
    exec.loop 0 to 2 {
      // CHECK-NEXT: exec.command launch @k0 "exp" [] [#exec.arena<read f32 512 iter 16 slot 64 of 2 bytes 16>, #exec.arena<write f32 576 bytes 16>]
      exec.command launch @k0 "exp" [] [#exec.arena<read f32 512 iter 16 slot 64 of 2 bytes 16>, #exec.arena<write f32 576 bytes 16>]
      // CHECK-NEXT: exec.command take "part" [1, 2, 16] [#exec.arena<read f32 512 bytes 32>, #exec.arena<write f32 640 bytes 16>, #exec.scalar<0 iter 0 micro 1 axes[2, 1]>]
      exec.command take "part" [1, 2, 16] [#exec.arena<read f32 512 bytes 32>, #exec.arena<write f32 640 bytes 16>, #exec.scalar<0 iter 0 micro 1 axes [2, 1]>]
    }
    // CHECK: exec.loop reverse 0 to 2 {
    exec.loop reverse 0 to 2 {
      // CHECK-NEXT: exec.command copy "copy" [32] [#exec.arena<read i32 384 slot 32 of 2 bytes 32>, #exec.arena<write i32 512 bytes 32>] of "weight_gradient 3"
      exec.command copy "copy" [32] [#exec.arena<read i32 384 slot 32 of 2 bytes 32>, #exec.arena<write i32 512 bytes 32>] of "weight_gradient 3"
    }
    // CHECK: exec.command rotate "rotate" [1, 0, 4] [#exec.arena<read f32 512 bytes 16>, #exec.arena<write f32 576 bytes 16>]
    exec.command rotate "rotate" [1, 0, 4] [#exec.arena<read f32 512 bytes 16>, #exec.arena<write f32 576 bytes 16>]
    // CHECK-NEXT: exec.command send "send" [0, 64] [#exec.arena<read f32 512 bytes 64>]
    exec.command send "send" [0, 64] [#exec.arena<read f32 512 bytes 64>]
    // CHECK-NEXT: exec.command receive "receive" [0, 64] [#exec.arena<write f32 512 bytes 64>]
    exec.command receive "receive" [0, 64] [#exec.arena<write f32 512 bytes 64>]
    // CHECK-NEXT: exec.command zero "none" [0] [#exec.absent]
    exec.command zero "none" [0] [#exec.absent]
  }
  // CHECK: exec.schedule "train" {
  exec.schedule "train" {
    // CHECK-NEXT: exec.call @forward{{$}}
    exec.call @forward
    // CHECK-NEXT: exec.call @forward micro 1
    exec.call @forward micro 1
  }
}
