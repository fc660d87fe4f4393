// RUN: kerf-opt %s --kerf-build-commands --kerf-place-memory --kerf-verify-memory --split-input-file | FileCheck %s

// A carried value that is stacked lives in the stack, which gets one more place:
// iteration i reads place i and writes place i + 1. The initial value is computed
// in the first place. Only the last value, which is in the stack too, is copied.
// CHECK-LABEL: exec.program @stack arena 384 lower_bound 384
spmd.program @stack over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<16xf32> sharded [[]] : tensor<16xf32>
  spmd.buffer @saved slot : tensor<3x16xf32>
  spmd.output @y last : tensor<16xf32>
  // CHECK: exec.buffer "saved" class 4 at 64 bytes 256 live [0, 3]
  // CHECK: exec.func @forward {
  spmd.func @forward() {
    %x = spmd.read @x : tensor<16xf32>
    // CHECK-NEXT: launch @k0 "fused" [] [#exec.arena<read f32 0 bytes 64>, #exec.arena<write f32 64 bytes 64>]
    %x0 = spmd.fused (%a = %x : tensor<16xf32>) -> (tensor<16xf32>) {
      %e = kerf.exp %a : tensor<16xf32>
      spmd.yield %e : tensor<16xf32>
    }
    // CHECK-NEXT: exec.loop 0 to 3 {
    // CHECK-NEXT: launch @k1 "fused" [] [#exec.arena<read f32 64 iter 64 bytes 64>, #exec.arena<write f32 128 iter 64 bytes 64>]
    // CHECK-NEXT: }
    %r:2 = kerf.repeat %i = 0 to 3 (%h = %x0 : tensor<16xf32>) {
      %t = spmd.fused (%a = %h : tensor<16xf32>) -> (tensor<16xf32>) {
        %e = kerf.tanh %a : tensor<16xf32>
        spmd.yield %e : tensor<16xf32>
      }
      kerf.yield %t stack(%h) : tensor<16xf32>, tensor<16xf32>
    }
    // CHECK-NEXT: copy "copy" [64] [#exec.arena<read f32 256 bytes 64>, #exec.arena<write f32 320 bytes 64>]
    // CHECK-NEXT: }
    spmd.write %r#1 to @saved : tensor<3x16xf32>
    spmd.write %r#0 to @y : tensor<16xf32>
    spmd.return
  }
  // CHECK: exec.func @backward {
  spmd.func @backward() {
    // CHECK-NEXT: launch @k2 "fused" [] [#exec.arena<read f32 64 bytes 192>, #exec.arena<write f32 320 bytes 64>]
    %s = spmd.read @saved : tensor<3x16xf32>
    %u = spmd.fused (%a = %s : tensor<3x16xf32>) -> (tensor<16xf32>) {
      %e = kerf.reduce sum %a dims [0] : tensor<3x16xf32>
      spmd.yield %e : tensor<16xf32>
    }
    spmd.write %u to @y : tensor<16xf32>
    spmd.return
  }
  // CHECK: exec.schedule "train" {
  // CHECK-NEXT: exec.call @forward
  // CHECK-NEXT: exec.call @backward
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @backward micro 0
  }
}

// -----

// A carried value that is not stacked is computed in place where nothing reads
// the old one later; else at the side, and copied at the end of an iteration.
// CHECK-LABEL: exec.program @carry
spmd.program @carry over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<16xf32> sharded [[]] : tensor<16xf32>
  spmd.output @y last : tensor<16xf32>
  spmd.output @z last : tensor<16xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<16xf32>
    // The input is no place of its own: it is copied to both.
    // CHECK: exec.func @forward {
    // CHECK-NEXT: copy "copy" [64] [#exec.arena<read f32 0 bytes 64>, #exec.arena<write f32 [[H:[0-9]+]] bytes 64>]
    // CHECK-NEXT: copy "copy" [64] [#exec.arena<read f32 0 bytes 64>, #exec.arena<write f32 [[G:[0-9]+]] bytes 64>]
    // CHECK-NEXT: exec.loop 0 to 3 {
    // CHECK-NEXT: launch @k0 "fused" [] [#exec.arena<read f32 [[G]] bytes 64>, #exec.arena<write f32 [[T:[0-9]+]] bytes 64>]
    // CHECK-NEXT: launch @k1 "fused" [] [#exec.arena<read f32 [[H]] bytes 64>, #exec.arena<read f32 [[G]] bytes 64>, #exec.arena<write f32 [[U:[0-9]+]] bytes 64>]
    // CHECK-NEXT: launch @k2 "fused" [] [#exec.arena<read f32 [[U]] bytes 64>, #exec.arena<write f32 [[H]] bytes 64>]
    // CHECK-NEXT: copy "copy" [64] [#exec.arena<read f32 [[T]] bytes 64>, #exec.arena<write f32 [[G]] bytes 64>]
    // CHECK-NEXT: }
    %r:2 = kerf.repeat %i = 0 to 3 (%h = %x : tensor<16xf32>, %g = %x : tensor<16xf32>) {
      %t = spmd.fused (%a = %g : tensor<16xf32>) -> (tensor<16xf32>) {
        %e = kerf.tanh %a : tensor<16xf32>
        spmd.yield %e : tensor<16xf32>
      }
      %u = spmd.fused (%a = %h : tensor<16xf32>, %b = %g : tensor<16xf32>) -> (tensor<16xf32>) {
        %e = kerf.mul %a, %b : tensor<16xf32>
        spmd.yield %e : tensor<16xf32>
      }
      %v = spmd.fused (%a = %u : tensor<16xf32>) -> (tensor<16xf32>) {
        %e = kerf.exp %a : tensor<16xf32>
        spmd.yield %e : tensor<16xf32>
      }
      kerf.yield %v, %t : tensor<16xf32>, tensor<16xf32>
    }
    spmd.write %r#0 to @y : tensor<16xf32>
    spmd.write %r#1 to @z : tensor<16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// A view has no buffer: it is read and written where its base is.
// CHECK-LABEL: exec.program @views
spmd.program @views over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<32xf32>
  spmd.func @forward() {
    // CHECK-NOT: exec.buffer "reshape"
    // CHECK: exec.func @forward {
    // CHECK-NEXT: launch @k0 "fused" [] [#exec.arena<read f32 0 bytes 128>, #exec.arena<write f32 128 bytes 128>]
    // CHECK-NEXT: }
    %x = spmd.read @x : tensor<4x8xf32>
    %v = kerf.reshape %x : tensor<4x8xf32> -> tensor<2x16xf32>
    %e = spmd.fused (%a = %v : tensor<2x16xf32>) -> (tensor<2x16xf32>) {
      %e = kerf.exp %a : tensor<2x16xf32>
      spmd.yield %e : tensor<2x16xf32>
    }
    %y = kerf.reshape %e : tensor<2x16xf32> -> tensor<32xf32>
    spmd.write %y to @y : tensor<32xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// How far dimensions of size 1 are apart says nothing: rows of the only plane.
// CHECK-LABEL: exec.program @plane
spmd.program @plane over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<1x4x8xf32> sharded [[], [], []] : tensor<1x4x8xf32>
  spmd.output @y last : tensor<2x8xf32>
  spmd.func @forward() {
    // CHECK: launch @k0 "fused" [] [#exec.arena<read f32 {{[0-9]+}} bytes 64>, #exec.arena<write f32 {{[0-9]+}} bytes 64>]
    %x = spmd.read @x : tensor<1x4x8xf32>
    %s = kerf.slice %x offsets [0, 1, 0] sizes [1, 2, 8] : tensor<1x4x8xf32>
    %v = kerf.reshape %s : tensor<1x2x8xf32> -> tensor<2x8xf32>
    %e = spmd.fused (%a = %v : tensor<2x8xf32>) -> (tensor<2x8xf32>) {
      %e = kerf.exp %a : tensor<2x8xf32>
      spmd.yield %e : tensor<2x8xf32>
    }
    spmd.write %e to @y : tensor<2x8xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// Parts of a tensor that attention reads are addresses with strides; what a
// library needs is a buffer that lives during its command.
// CHECK-LABEL: exec.program @strides
spmd.program @strides over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x8x96xf32> sharded [[], [], []] : tensor<2x8x96xf32>
  spmd.output @y last : tensor<2x8x4x8xf32>
  spmd.func @forward() {
    // CHECK: exec.buffer "attention" class 6 at {{[0-9]+}} bytes {{[0-9]+}} live [0, 0]
    // CHECK: exec.func @forward {
    // CHECK-NEXT: attention "attention"
    // CHECK-SAME: [#exec.arena<read f32 0 bytes {{[0-9]+}}>, #exec.arena<read f32 128 bytes {{[0-9]+}}>, #exec.arena<read f32 256 bytes {{[0-9]+}}>,
    %x = spmd.read @x : tensor<2x8x96xf32>
    %q = kerf.slice %x offsets [0, 0, 0] sizes [2, 8, 32] : tensor<2x8x96xf32>
    %k = kerf.slice %x offsets [0, 0, 32] sizes [2, 8, 32] : tensor<2x8x96xf32>
    %v = kerf.slice %x offsets [0, 0, 64] sizes [2, 8, 32] : tensor<2x8x96xf32>
    %qh = kerf.reshape %q : tensor<2x8x32xf32> -> tensor<2x8x4x8xf32>
    %kh = kerf.reshape %k : tensor<2x8x32xf32> -> tensor<2x8x4x8xf32>
    %vh = kerf.reshape %v : tensor<2x8x32xf32> -> tensor<2x8x4x8xf32>
    %y = kerf.attention %qh, %kh, %vh causal : tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>
    spmd.write %y to @y : tensor<2x8x4x8xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// A value of one iteration shares its bytes with others of the iteration that
// are dead, and lives for its commands alone.
// CHECK-LABEL: exec.program @temporaries
spmd.program @temporaries over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<16xf32> sharded [[]] : tensor<16xf32>
  spmd.output @y last : tensor<16xf32>
  spmd.func @forward() {
    // Commands: 0 copy of the input, 1 exp, 2 tanh, 3 sin, 4 cos, 5 copy.
    // CHECK-DAG: exec.buffer "fused" class 5 at [[A:[0-9]+]] bytes 64 live [1, 2]
    // CHECK-DAG: exec.buffer "fused" class 5 at {{[0-9]+}} bytes 64 live [2, 3]
    // CHECK-DAG: exec.buffer "fused" class 5 at [[A]] bytes 64 live [3, 4]
    // CHECK-DAG: exec.buffer "repeat" class 5 at {{[0-9]+}} bytes 64 live [0, 5]
    // CHECK: exec.func @forward {
    %x = spmd.read @x : tensor<16xf32>
    %r = kerf.repeat %i = 0 to 3 (%h = %x : tensor<16xf32>) {
      %t = spmd.fused (%a = %h : tensor<16xf32>) -> (tensor<16xf32>) {
        %e = kerf.exp %a : tensor<16xf32>
        spmd.yield %e : tensor<16xf32>
      }
      %u = spmd.fused (%a = %t : tensor<16xf32>) -> (tensor<16xf32>) {
        %e = kerf.tanh %a : tensor<16xf32>
        spmd.yield %e : tensor<16xf32>
      }
      %v = spmd.fused (%a = %u : tensor<16xf32>) -> (tensor<16xf32>) {
        %e = kerf.sin %a : tensor<16xf32>
        spmd.yield %e : tensor<16xf32>
      }
      %w = spmd.fused (%a = %v : tensor<16xf32>) -> (tensor<16xf32>) {
        %e = kerf.cos %a : tensor<16xf32>
        spmd.yield %e : tensor<16xf32>
      }
      kerf.yield %w : tensor<16xf32>
    }
    spmd.write %r to @y : tensor<16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// A slot buffer has a copy for each micro-batch in flight; an input is read at
// the micro-batch; the first call of a step sets a sum, the others add to it.
// CHECK-LABEL: exec.program @slots
spmd.program @slots over <> micro_batches 3 slots 2 {
  spmd.input @x global tensor<6x16xf32> sharded [[micro], []] : tensor<2x16xf32>
  spmd.buffer @saved slot : tensor<2x16xf32>
  spmd.buffer @sum step : tensor<2x16xf32>
  spmd.output @y last : tensor<2x16xf32>
  // CHECK: exec.buffer "saved" class 4 at [[SAVED:[0-9]+]] bytes 256 live
  // CHECK: exec.buffer "sum" class 3 at [[SUM:[0-9]+]] bytes 128 live
  // CHECK: exec.func @forward {
  spmd.func @forward() {
    // CHECK-NEXT: launch @k0 "fused" [] [#exec.arena<read f32 0 slot 128 of 3 bytes 128>, #exec.arena<write f32 [[SAVED]] slot 128 of 2 bytes 128>]
    %x = spmd.read @x : tensor<2x16xf32>
    %e = spmd.fused (%a = %x : tensor<2x16xf32>) -> (tensor<2x16xf32>) {
      %e = kerf.exp %a : tensor<2x16xf32>
      spmd.yield %e : tensor<2x16xf32>
    }
    spmd.write %e to @saved : tensor<2x16xf32>
    spmd.return
  }
  // CHECK: exec.func @backward {
  spmd.func @backward() {
    // CHECK-NEXT: copy "copy" [128] [#exec.arena<read f32 [[SAVED]] slot 128 of 2 bytes 128>, #exec.arena<write f32 [[SUM]] bytes 128>] when 1
    // CHECK-NEXT: launch @k1 "accumulate" [] [#exec.arena<read f32 [[SUM]] bytes 128>, #exec.arena<read f32 [[SAVED]] slot 128 of 2 bytes 128>, #exec.arena<write f32 [[SUM]] bytes 128>] when 2
    %s = spmd.read @saved : tensor<2x16xf32>
    spmd.accumulate %s into @sum : tensor<2x16xf32>
    spmd.return
  }
  spmd.func @update() {
    %s = spmd.read @sum : tensor<2x16xf32>
    spmd.write %s to @y : tensor<2x16xf32>
    spmd.return
  }
  // CHECK: exec.schedule "train" {
  spmd.schedule "train" {
    // CHECK-NEXT: exec.call @forward{{$}}
    spmd.call @forward micro 0
    // CHECK-NEXT: exec.call @forward micro 1
    spmd.call @forward micro 1
    spmd.call @backward micro 0
    // CHECK: exec.call @forward micro 2{{$}}
    spmd.call @forward micro 2
    spmd.call @backward micro 1
    spmd.call @backward micro 2
    spmd.call @update
  }
}

// -----

// Equal kernels are one, whatever their ops are called.
// CHECK-LABEL: exec.program @equal
spmd.program @equal over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<16xf32> sharded [[]] : tensor<16xf32>
  spmd.output @y last : tensor<16xf32>
  spmd.func @forward() {
    // CHECK-COUNT-1: exec.kernel
    // CHECK-NOT: exec.kernel
    // CHECK: launch @k0
    // CHECK: launch @k0
    %x = spmd.read @x : tensor<16xf32>
    %t = spmd.fused (%a = %x : tensor<16xf32>) -> (tensor<16xf32>) {
      %e = kerf.exp %a : tensor<16xf32>
      spmd.yield %e : tensor<16xf32>
    }
    %u = spmd.fused (%b = %t : tensor<16xf32>) -> (tensor<16xf32>) {
      %f = kerf.exp %b : tensor<16xf32>
      spmd.yield %f : tensor<16xf32>
    }
    spmd.write %u to @y : tensor<16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// A parameter lies with all of its layers, beside its master and state, which
// the update overwrites.
// CHECK-LABEL: exec.program @params
spmd.program @params over <> micro_batches 1 slots 1 {
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  spmd.input @g global tensor<2x16xf32> sharded [[], []] : tensor<2x16xf32>
  // CHECK: exec.param "h.{i}.w"[0 to 2] {{.*}} at 256 by 32 master f32 at 320 by 64 states [{at = 448 : i64, by = 64 : i64, name = "momentum", type = f32}]
  spmd.param "h.{i}.w" [0 to 2] global tensor<16xbf16> sharded [[]] rule #kerf.sgd<momentum = 0.9> init <ones> master f32 : tensor<16xbf16>
  // CHECK: exec.func @update {
  spmd.func @update() {
    // CHECK-NEXT: launch @k0 "update" [] [#exec.arena<read f32 320 bytes 128>,
    // CHECK-SAME: #exec.arena<write f32 320 bytes 128>, #exec.arena<write f32 448 bytes 128>, #exec.arena<write bf16 256 bytes 64>]
    %g = spmd.read @g : tensor<2x16xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    kerf.update "h.{i}.w"[0 to 2] rule #kerf.sgd<momentum = 0.9> by %g rate %rate step %step : tensor<2x16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}

// -----

// A step around a ring has a place of its own for what arrives, also where the
// loop carries it on: it is copied when all have read what was there.
// CHECK-LABEL: exec.program @ring
spmd.program @ring over <dp = 2, cp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xbf16> sharded [[], []] : tensor<4x8xbf16>
  spmd.output @y last : tensor<4x8xbf16>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xbf16>
    // CHECK: exec.loop 0 to 2 {
    // CHECK-NEXT: rotate "rotate" [2, 1, 32] [#exec.arena<read bf16 [[H:[0-9]+]] bytes 64>, #exec.arena<write bf16 [[N:[0-9]+]] bytes 64>]
    // CHECK-NEXT: copy "copy" [64] [#exec.arena<read bf16 [[N]] bytes 64>, #exec.arena<write bf16 [[H]] bytes 64>]
    %r = kerf.repeat %i = 0 to 2 (%h = %x : tensor<4x8xbf16>) {
      %n = spmd.rotate %h over [cp] : tensor<4x8xbf16>
      kerf.yield %n : tensor<4x8xbf16>
    }
    spmd.write %r to @y : tensor<4x8xbf16>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// A collective begins before its wait: while it runs, what is carried is still
// read, so its result has a place of its own and is copied when all is done.
// CHECK-LABEL: exec.program @started
spmd.program @started over <dp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x4xf32> sharded [[], []] : tensor<4x4xf32>
  spmd.output @y last : tensor<4x4xf32>
  spmd.output @z last : tensor<2x4x4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x4xf32>
    // CHECK: exec.loop 0 to 2 {
    // CHECK-NEXT: matmul "matmul" [{{.*}}] [#exec.arena<read f32 [[H:[0-9]+]] bytes 64>
    // CHECK-NEXT: all_reduce "all_reduce" [{{.*}}] [{{.*}}, #exec.arena<write f32 [[S:[0-9]+]] bytes 64>] when 8
    // CHECK-NEXT: matmul "matmul" [{{.*}}] [#exec.arena<read f32 [[H]] bytes 64>
    // CHECK-NEXT: wait
    // CHECK-NEXT: copy "copy" [64] [#exec.arena<read f32 [[S]] bytes 64>, #exec.arena<write f32 [[H]] bytes 64>]
    %r:2 = kerf.repeat %i = 0 to 2 (%h = %x : tensor<4x4xf32>) {
      %a = kerf.matmul %h, %h : tensor<4x4xf32>, tensor<4x4xf32>
      %s = spmd.all_reduce sum %a over [dp] : tensor<4x4xf32>
      %b = kerf.matmul %h, %a : tensor<4x4xf32>, tensor<4x4xf32>
      %w = spmd.wait %s keeps %a : tensor<4x4xf32>, tensor<4x4xf32>
      kerf.yield %w stack(%b) : tensor<4x4xf32>, tensor<4x4xf32>
    }
    spmd.write %r#0 to @y : tensor<4x4xf32>
    spmd.write %r#1 to @z : tensor<2x4x4xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// What is placed already stays as it is.
// CHECK-LABEL: exec.program @placed arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
// CHECK-NEXT: exec.output "loss" f32 at 0
// CHECK-NEXT: }
exec.program @placed arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.output "loss" f32 at 0
}

// -----

// A function that continues another one always adds: a matmul in the sum itself, others behind it.
// CHECK-LABEL: exec.program @continues
spmd.program @continues over <> micro_batches 2 slots 1 {
  spmd.input @x global tensor<32x16xf32> sharded [[micro], []] : tensor<16x16xf32>
  spmd.output @y sum : tensor<16x16xf32>
  spmd.output @z sum : tensor<16x16xf32>
  // CHECK: exec.func @backward {
  // CHECK-NEXT: matmul "matmul" [{{.*}}, 0, 0, 0] {{.*}} when 1
  // CHECK-NEXT: matmul "matmul" [{{.*}}, 1, 0, 0] {{.*}} when 2
  // CHECK-NEXT: copy {{.*}} when 1
  // CHECK-NEXT: launch @k0 "accumulate" {{.*}} when 2
  // CHECK-NEXT: }
  spmd.func @backward() {
    %x = spmd.read @x : tensor<16x16xf32>
    %y = kerf.matmul %x, %x : tensor<16x16xf32>, tensor<16x16xf32>
    spmd.accumulate %y into @y : tensor<16x16xf32>
    spmd.accumulate %x into @z : tensor<16x16xf32>
    spmd.return
  }
  // CHECK: exec.func @backward_last {
  // CHECK-NEXT: matmul "matmul" [{{.*}}, 1, 0, 0] {{\[[^]]*\]$}}
  // CHECK-NEXT: launch @k0 "accumulate" [] {{\[[^]]*\]$}}
  // CHECK-NEXT: }
  spmd.func @backward_last() continues @backward {
    %x = spmd.read @x : tensor<16x16xf32>
    %y = kerf.matmul %x, %x : tensor<16x16xf32>, tensor<16x16xf32>
    spmd.accumulate %y into @y : tensor<16x16xf32>
    spmd.accumulate %x into @z : tensor<16x16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @backward micro 0
    spmd.call @backward_last micro 1
  }
}

// -----

// The gradient of experts' weights, too, is summed where the sum is, layer by layer: no second stack of gradients.
// CHECK-LABEL: exec.program @experts
spmd.program @experts over <> micro_batches 2 slots 1 {
  spmd.input @x global tensor<4x6x8xf32> sharded [[micro], [], []] : tensor<2x6x8xf32>
  spmd.input @n global tensor<4x3xi32> sharded [[micro], []] : tensor<2x3xi32>
  // CHECK: exec.buffer "g" class 3 at [[G:[0-9]+]] bytes 1536 live
  spmd.buffer @g step : tensor<2x3x8x8xf32>
  // CHECK: exec.func @backward {
  // CHECK-NEXT: exec.loop 0 to 2 {
  // CHECK-NEXT: grouped_matmul "grouped_matmul" [{{.*}}, 0] [{{.*}}, #exec.arena<write f32 [[G]] iter 768 bytes 768>, #exec.arena<{{[^>]*}}>] when 1
  // CHECK-NEXT: grouped_matmul "grouped_matmul" [{{.*}}, 1] [{{.*}}, #exec.arena<write f32 [[G]] iter 768 bytes 768>, #exec.arena<{{[^>]*}}>] when 2
  // CHECK-NEXT: }
  // CHECK-NEXT: }
  spmd.func @backward() {
    %x = spmd.read @x : tensor<2x6x8xf32>
    %n = spmd.read @n : tensor<2x3xi32>
    %g = kerf.repeat %i = 0 to 2 () {
      %d = kerf.grouped_weight_gradient %x, %x, %n : tensor<2x6x8xf32>, tensor<2x6x8xf32>, tensor<2x3xi32> -> tensor<3x8x8xf32>
      kerf.yield stack(%d) : tensor<3x8x8xf32>
    }
    spmd.accumulate %g into @g : tensor<2x3x8x8xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @backward micro 0
    spmd.call @backward micro 1
  }
}

// -----

// A gradient is summed over ranks in its place: in a stack, too. Not so what is added to a layer that the function
// reads from the same place.
// CHECK-LABEL: exec.program @sums
spmd.program @sums over <dp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<16x16xf32> sharded [[], []] : tensor<16x16xf32>
  spmd.buffer @g step : tensor<2x16x16xf32>
  spmd.buffer @h step : tensor<2x16x16xf32>
  spmd.output @y last : tensor<2x16x16xf32>
  // CHECK: exec.buffer "g" class 3 at [[G:[0-9]+]] bytes 2048
  // CHECK: exec.buffer "h" class 3 at [[H:[0-9]+]] bytes 2048
  // CHECK: exec.func @backward {
  // CHECK: matmul {{.*}} #exec.arena<write f32 [[G]] iter 1024 bytes 1024>
  // CHECK-NEXT: all_reduce "all_reduce" [{{.*}}] [#exec.arena<read f32 [[G]] iter 1024 bytes 1024>, #exec.arena<write f32 [[G]] iter 1024 bytes 1024>]
  spmd.func @backward() {
    %x = spmd.read @x : tensor<16x16xf32>
    %r = kerf.repeat reverse %i = 0 to 2 () {
      %p = kerf.matmul %x, %x : tensor<16x16xf32>, tensor<16x16xf32>
      %s = spmd.all_reduce sum %p over [dp] : tensor<16x16xf32>
      kerf.yield stack(%s) : tensor<16x16xf32>
    }
    spmd.write %r to @g : tensor<2x16x16xf32>
    spmd.write %r to @h : tensor<2x16x16xf32>
    spmd.return
  }
  // CHECK: exec.func @weights {
  // CHECK: launch {{.*}} [#exec.arena<read f32 [[H]] iter 1024 bytes 1024>, #exec.arena<write f32 [[T:[0-9]+]] bytes 1024>]
  // CHECK-NEXT: all_reduce "all_reduce" [{{.*}}] [#exec.arena<read f32 [[T]] bytes 1024>, #exec.arena<write f32 [[H]] iter 1024 bytes 1024>]
  spmd.func @weights() {
    %h = spmd.read @h : tensor<2x16x16xf32>
    %r = kerf.repeat reverse %i = 0 to 2 () slices(%l = %h : tensor<2x16x16xf32>) {
      %p = spmd.fused (%a = %l : tensor<16x16xf32>) -> (tensor<16x16xf32>) {
        %e = kerf.exp %a : tensor<16x16xf32>
        spmd.yield %e : tensor<16x16xf32>
      }
      %s = spmd.all_reduce sum %p over [dp] : tensor<16x16xf32>
      kerf.yield stack(%s) : tensor<16x16xf32>
    }
    spmd.write %r to @h : tensor<2x16x16xf32>
    spmd.return
  }
  spmd.func @update() {
    %g = spmd.read @g : tensor<2x16x16xf32>
    spmd.write %g to @y : tensor<2x16x16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @backward micro 0
    spmd.call @weights micro 0
    spmd.call @update
  }
}
