// RUN: kerf-opt %s --kerf-build-commands --kerf-place-memory --kerf-verify-memory --split-input-file | FileCheck %s

// State in pieces of 3 of 5 elements, without a master (ZeRO 1): the weight has
// room for both pieces, 24 bytes. A rank takes its piece, updates it at the side,
// and all gather the new pieces in place.
// CHECK-LABEL: exec.program @state arena
spmd.program @state over <dp = 2> micro_batches 1 slots 1 {
  // CHECK-NEXT: exec.param "w"[0 to 1] tensor<5xf32> local tensor<5xf32> sharded {{\[\[}}]] state over ["dp"] init <ones> at 0 by 24 states [{at = 64 : i64, by = 12 : i64, name = "momentum", type = f32}]
  spmd.param "w" global tensor<5xf32> sharded [[]] state over [dp] rule #kerf.sgd<momentum = 0.9> init <ones> : tensor<5xf32>
  spmd.input @g global tensor<6xf32> sharded [[dp]] : tensor<3xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  // CHECK: exec.buffer "w" class 0 at 0 bytes 24 live []
  // CHECK: exec.buffer "w.momentum" class 2 at 64 bytes 12 live []
  // CHECK: exec.buffer "w.piece" class 5 at [[P:[0-9]+]] bytes 12 live [0, 2]
  // CHECK: exec.func @update {
  // CHECK-NEXT: take "take" [1, 2, 12] [#exec.arena<read f32 0 bytes 24>, #exec.arena<write f32 [[P]] bytes 12>, #exec.scalar<0 iter 0 micro 0 axes[1]>]
  // CHECK-NEXT: launch @k0 "update" [] [#exec.arena<read f32 [[P]] bytes 12>, #exec.arena<read f32 128 bytes 12>,
  // CHECK-SAME: #exec.arena<read f32 64 bytes 12>, #exec.arena<write f32 [[P]] bytes 12>, #exec.arena<write f32 64 bytes 12>]
  // CHECK-NEXT: all_gather "gather_param" [1, 0, 1, 3] [#exec.arena<read f32 [[P]] bytes 12>, #exec.arena<write f32 0 bytes 24>]
  // CHECK-NEXT: }
  spmd.func @update() {
    %g = spmd.read @g : tensor<3xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    kerf.update "w" rule #kerf.sgd<momentum = 0.9> by %g rate %rate step %step : tensor<3xf32>
    spmd.gather_param "w"
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}

// -----

// With a master only pieces of that are kept; the update rounds to a piece of the
// weight. Of 4 layers of 2 x 3 elements, cut over tp, in pieces of 2 (3 / 2, up),
// the last two: they begin 2 * 4 elements of bf16 into the weight, and the places
// of tp and dp are told apart.
// CHECK-LABEL: exec.program @master arena
spmd.program @master over <dp = 2, tp = 2> micro_batches 1 slots 1 {
  // CHECK-NEXT: exec.param "h.{i}.w"[0 to 4] tensor<2x3xbf16> local tensor<1x3xbf16> sharded {{\[\[}}"tp"], []] state over ["dp"] init <ones> at 0 by 8 master f32 at 64 by 8 states [{at = 128 : i64, by = 8 : i64, name = "momentum", type = f32}]
  spmd.param "h.{i}.w" [0 to 4] global tensor<2x3xbf16> sharded [[tp], []] state over [dp] rule #kerf.sgd<momentum = 0.9> init <ones> master f32 : tensor<1x3xbf16>
  spmd.input @g global tensor<2x4xf32> sharded [[], [dp]] : tensor<2x2xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  // CHECK: exec.buffer "h.{i}.w" class 0 at 0 bytes 32 live []
  // CHECK: exec.buffer "h.{i}.w" class 1 at 64 bytes 32 live []
  // CHECK: exec.buffer "h.{i}.w.piece" class 5 at [[P:[0-9]+]] bytes 8 live [0, 1]
  // CHECK: exec.func @update {
  // CHECK-NEXT: launch @k0 "update" [] [#exec.arena<read f32 80 bytes 16>,
  // CHECK-SAME: #exec.arena<write f32 80 bytes 16>, #exec.arena<write f32 144 bytes 16>, #exec.arena<write bf16 [[P]] bytes 8>]
  // CHECK-NEXT: all_gather "gather_param" [1, 1, 2, 2] [#exec.arena<read bf16 [[P]] bytes 8>, #exec.arena<write bf16 16 bytes 16>]
  // CHECK-NEXT: }
  spmd.func @update() {
    %g = spmd.read @g : tensor<2x2xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    kerf.update "h.{i}.w"[2 to 4] rule #kerf.sgd<momentum = 0.9> by %g rate %rate step %step into bf16 : tensor<2x2xf32>
    spmd.gather_param "h.{i}.w" [2 to 4]
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}

// -----

// Layers of a weight in pieces lie apart by their padded size, and are read at
// the size that they have.
// CHECK-LABEL: exec.program @padded arena
spmd.program @padded over <dp = 2> micro_batches 1 slots 1 {
  // CHECK-NEXT: exec.param "h.{i}.w"[2 to 4] {{.*}} at 0 by 24
  spmd.param "h.{i}.w" [2 to 4] global tensor<5xf32> sharded [[]] state over [dp] rule #kerf.sgd<> init <ones> : tensor<5xf32>
  spmd.input @x global tensor<5xf32> sharded [[]] : tensor<5xf32>
  spmd.output @y last : tensor<5xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<5xf32>
    // CHECK: exec.loop 2 to 4 {
    // CHECK-NEXT: launch @k0 "fused" [] [#exec.arena<read f32 {{[0-9]+}} bytes 20>, #exec.arena<read f32 -48 iter 24 bytes 20>,
    %r = kerf.repeat %i = 2 to 4 (%h = %x : tensor<5xf32>) {
      %w = kerf.param "h.{i}.w" init<ones> : tensor<5xf32>
      %t = spmd.fused (%a = %h : tensor<5xf32>, %b = %w : tensor<5xf32>) -> (tensor<5xf32>) {
        %m = kerf.mul %a, %b : tensor<5xf32>
        spmd.yield %m : tensor<5xf32>
      }
      kerf.yield %t : tensor<5xf32>
    }
    spmd.write %r to @y : tensor<5xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// The weight is stored in pieces too (ZeRO 3): the update works in place, forward
// gathers a layer at a time, and the gathered layer without its padding is a view.
// CHECK-LABEL: exec.program @weights arena
spmd.program @weights over <dp = 2> micro_batches 1 slots 1 {
  // CHECK-NEXT: exec.param "h.{i}.w"[0 to 2] tensor<1x5xf32> local tensor<1x5xf32> sharded {{\[\[}}], []] state over ["dp"] weights over ["dp"] init <ones> at 0 by 12 states [{at = 64 : i64, by = 12 : i64, name = "momentum", type = f32}]
  spmd.param "h.{i}.w" [0 to 2] global tensor<1x5xf32> sharded [[], []] state over [dp] weights over [dp] rule #kerf.sgd<momentum = 0.9> init <ones> : tensor<3xf32>
  spmd.input @x global tensor<1x5xf32> sharded [[], []] : tensor<1x5xf32>
  spmd.input @g global tensor<2x6xf32> sharded [[], [dp]] : tensor<2x3xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  spmd.output @y last : tensor<1x5xf32>
  // CHECK: exec.func @forward {
  spmd.func @forward() {
    %x = spmd.read @x : tensor<1x5xf32>
    // CHECK: exec.loop 0 to 2 {
    // CHECK-NEXT: all_gather "all_gather" [1, 0, 1, 3] [#exec.arena<read f32 0 iter 12 bytes 12>, #exec.arena<write f32 [[W:[0-9]+]] bytes 24>]
    // CHECK-NEXT: launch @k0 "fused" [] [#exec.arena<read f32 {{[0-9]+}} bytes 20>, #exec.arena<read f32 [[W]] bytes 20>,
    %r = kerf.repeat %i = 0 to 2 (%h = %x : tensor<1x5xf32>) {
      %p = kerf.param "h.{i}.w" init<ones> : tensor<3xf32>
      %f = spmd.all_gather %p dim 0 over [dp] : tensor<3xf32> -> tensor<6xf32>
      %s = kerf.slice %f offsets [0] sizes [5] : tensor<6xf32>
      %w = kerf.reshape %s : tensor<5xf32> -> tensor<1x5xf32>
      %t = spmd.fused (%a = %h : tensor<1x5xf32>, %b = %w : tensor<1x5xf32>) -> (tensor<1x5xf32>) {
        %m = kerf.mul %a, %b : tensor<1x5xf32>
        spmd.yield %m : tensor<1x5xf32>
      }
      kerf.yield %t : tensor<1x5xf32>
    }
    spmd.write %r to @y : tensor<1x5xf32>
    spmd.return
  }
  // CHECK: exec.func @update {
  // CHECK-NEXT: launch @k1 "update" [] [#exec.arena<read f32 0 bytes 24>,
  // CHECK-SAME: #exec.arena<write f32 0 bytes 24>, #exec.arena<write f32 64 bytes 24>]
  // CHECK-NEXT: }
  spmd.func @update() {
    %g = spmd.read @g : tensor<2x3xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    kerf.update "h.{i}.w"[0 to 2] rule #kerf.sgd<momentum = 0.9> by %g rate %rate step %step : tensor<2x3xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @update
  }
}

// -----

// A gradient becomes pieces by reduce-scatter of its padded rows; two axes count
// with the first one slowest: the scalar of the piece is 2 * dp + cp.
// CHECK-LABEL: exec.program @two_axes arena
spmd.program @two_axes over <dp = 2, cp = 2> micro_batches 1 slots 1 {
  spmd.param "w" global tensor<8xf32> sharded [[]] state over [dp, cp] rule #kerf.sgd<> init <ones> : tensor<8xf32>
  spmd.buffer @g step : tensor<8xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  // CHECK: exec.func @backward {
  spmd.func @backward() {
    %x = spmd.fused () -> (tensor<8xf32>) {
      %c = kerf.constant dense<1.0> : tensor<8xf32>
      spmd.yield %c : tensor<8xf32>
    }
    spmd.write %x to @g : tensor<8xf32>
    spmd.return
  }
  // CHECK: exec.func @update {
  // CHECK-NEXT: reduce_scatter "reduce_scatter" [3, 0, 0, 1, 2]
  // CHECK-NEXT: take "take" [1, 4, 8] [{{.*}} #exec.scalar<0 iter 0 micro 0 axes[2, 1]>]
  // CHECK-NEXT: launch @k1 "update"
  // CHECK-NEXT: all_gather "gather_param" [3, 0, 1, 2]
  spmd.func @update() {
    %g = spmd.read @g : tensor<8xf32>
    %p = spmd.reduce_scatter sum %g dim 0 over [dp, cp] : tensor<8xf32> -> tensor<2xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    kerf.update "w" rule #kerf.sgd<> by %p rate %rate step %step : tensor<2xf32>
    spmd.gather_param "w"
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @backward micro 0
    spmd.call @update
  }
}

// -----

// Blocks are for those who fill and read the parameter from outside.
// CHECK-LABEL: exec.program @blocks arena
spmd.program @blocks over <tp = 2> micro_batches 1 slots 1 {
  // CHECK-NEXT: exec.param "qkv"[0 to 1] tensor<4x12xf32> local tensor<4x6xf32> sharded {{\[\[}}], ["tp"]] blocks [1, 3] init <ones> frozen at 0 by 96
  spmd.param "qkv" global tensor<4x12xf32> sharded [[], [tp]] blocks [1, 3] init <ones> frozen : tensor<4x6xf32>
}

// -----

// A stage of two chunks has two declarations of one pattern; each loop reads the
// one that covers its layers.
// CHECK-LABEL: exec.program @chunks arena
spmd.program @chunks over <pp = 2> micro_batches 1 slots 1 {
  // CHECK-NEXT: exec.param "h.{i}.w"[0 to 2] {{.*}} at 0 by 64
  // CHECK-NEXT: exec.param "h.{i}.w"[4 to 6] {{.*}} at 128 by 64
  spmd.param "h.{i}.w" [0 to 2] global tensor<16xf32> sharded [[]] init <ones> frozen : tensor<16xf32>
  spmd.param "h.{i}.w" [4 to 6] global tensor<16xf32> sharded [[]] init <ones> frozen : tensor<16xf32>
  spmd.input @x global tensor<16xf32> sharded [[]] : tensor<16xf32>
  spmd.output @y last : tensor<16xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<16xf32>
    // CHECK: exec.loop 0 to 2 {
    // CHECK-NEXT: launch @k0 "fused" [] [{{[^,]*}}, #exec.arena<read f32 0 iter 64 bytes 64>,
    %r = kerf.repeat %i = 0 to 2 (%h = %x : tensor<16xf32>) {
      %w = kerf.param "h.{i}.w" init<ones> frozen : tensor<16xf32>
      %t = spmd.fused (%a = %h : tensor<16xf32>, %b = %w : tensor<16xf32>) -> (tensor<16xf32>) {
        %m = kerf.mul %a, %b : tensor<16xf32>
        spmd.yield %m : tensor<16xf32>
      }
      kerf.yield %t : tensor<16xf32>
    }
    // CHECK: exec.loop 4 to 6 {
    // CHECK-NEXT: launch @k0 "fused" [] [{{[^,]*}}, #exec.arena<read f32 -128 iter 64 bytes 64>,
    %s = kerf.repeat %i = 4 to 6 (%h = %r : tensor<16xf32>) {
      %w = kerf.param "h.{i}.w" init<ones> frozen : tensor<16xf32>
      %t = spmd.fused (%a = %h : tensor<16xf32>, %b = %w : tensor<16xf32>) -> (tensor<16xf32>) {
        %m = kerf.mul %a, %b : tensor<16xf32>
        spmd.yield %m : tensor<16xf32>
      }
      kerf.yield %t : tensor<16xf32>
    }
    spmd.write %s to @y : tensor<16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}
