// RUN: kerf-opt %s --kerf-build-commands --kerf-place-memory --kerf-verify-memory --split-input-file | FileCheck %s

// 1F1B over 4 stages, 5 micro-batches: stage s keeps 4 - s of them, and that many
// copies of what its backward reads are placed.
// CHECK-LABEL: exec.program @stage0
// CHECK: exec.buffer "saved" class 4 at {{[0-9]+}} bytes 256 live
spmd.program @stage0 over <pp = 4> stage 0 micro_batches 5 slots 4 {
  spmd.buffer @saved slot : tensor<16xf32>
  spmd.func @forward() {
    %x = spmd.fused () -> (tensor<16xf32>) {
      %c = kerf.constant dense<1.0> : tensor<16xf32>
      spmd.yield %c : tensor<16xf32>
    }
    spmd.send %x to 1 on "forward" : tensor<16xf32>
    spmd.write %x to @saved : tensor<16xf32>
    spmd.return
  }
  spmd.func @backward() {
    %s = spmd.read @saved : tensor<16xf32>
    %g = spmd.recv from 1 on "backward" : tensor<16xf32>
    %y = spmd.fused (%a = %s : tensor<16xf32>, %b = %g : tensor<16xf32>) -> (tensor<16xf32>) {
      %c = kerf.mul %a, %b : tensor<16xf32>
      spmd.yield %c : tensor<16xf32>
    }
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    spmd.call @forward micro 2
    spmd.call @forward micro 3
    spmd.call @backward micro 0
    spmd.call @forward micro 4
    spmd.call @backward micro 1
    spmd.call @backward micro 2
    spmd.call @backward micro 3
    spmd.call @backward micro 4
  }
}
// CHECK-LABEL: exec.program @stage1
// CHECK: exec.buffer "saved" class 4 at {{[0-9]+}} bytes 192 live
spmd.program @stage1 over <pp = 4> stage 1 micro_batches 5 slots 3 {
  spmd.buffer @saved slot : tensor<16xf32>
  spmd.func @forward() {
    %x = spmd.recv from 0 on "forward" : tensor<16xf32>
    spmd.send %x to 2 on "forward" : tensor<16xf32>
    spmd.write %x to @saved : tensor<16xf32>
    spmd.return
  }
  spmd.func @backward() {
    %s = spmd.read @saved : tensor<16xf32>
    %g = spmd.recv from 2 on "backward" : tensor<16xf32>
    %y = spmd.fused (%a = %s : tensor<16xf32>, %b = %g : tensor<16xf32>) -> (tensor<16xf32>) {
      %c = kerf.mul %a, %b : tensor<16xf32>
      spmd.yield %c : tensor<16xf32>
    }
    spmd.send %y to 0 on "backward" : tensor<16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    spmd.call @forward micro 2
    spmd.call @backward micro 0
    spmd.call @forward micro 3
    spmd.call @backward micro 1
    spmd.call @forward micro 4
    spmd.call @backward micro 2
    spmd.call @backward micro 3
    spmd.call @backward micro 4
  }
}
// CHECK-LABEL: exec.program @stage2
// CHECK: exec.buffer "saved" class 4 at {{[0-9]+}} bytes 128 live
spmd.program @stage2 over <pp = 4> stage 2 micro_batches 5 slots 2 {
  spmd.buffer @saved slot : tensor<16xf32>
  spmd.func @forward() {
    %x = spmd.recv from 1 on "forward" : tensor<16xf32>
    spmd.send %x to 3 on "forward" : tensor<16xf32>
    spmd.write %x to @saved : tensor<16xf32>
    spmd.return
  }
  spmd.func @backward() {
    %s = spmd.read @saved : tensor<16xf32>
    %g = spmd.recv from 3 on "backward" : tensor<16xf32>
    %y = spmd.fused (%a = %s : tensor<16xf32>, %b = %g : tensor<16xf32>) -> (tensor<16xf32>) {
      %c = kerf.mul %a, %b : tensor<16xf32>
      spmd.yield %c : tensor<16xf32>
    }
    spmd.send %y to 1 on "backward" : tensor<16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    spmd.call @backward micro 0
    spmd.call @forward micro 2
    spmd.call @backward micro 1
    spmd.call @forward micro 3
    spmd.call @backward micro 2
    spmd.call @forward micro 4
    spmd.call @backward micro 3
    spmd.call @backward micro 4
  }
}
// CHECK-LABEL: exec.program @stage3
// CHECK: exec.buffer "saved" class 4 at {{[0-9]+}} bytes 64 live
spmd.program @stage3 over <pp = 4> stage 3 micro_batches 5 slots 1 {
  spmd.buffer @saved slot : tensor<16xf32>
  spmd.func @forward() {
    %x = spmd.recv from 2 on "forward" : tensor<16xf32>
    spmd.write %x to @saved : tensor<16xf32>
    spmd.return
  }
  spmd.func @backward() {
    %s = spmd.read @saved : tensor<16xf32>
    %y = spmd.fused (%a = %s : tensor<16xf32>) -> (tensor<16xf32>) {
      %c = kerf.exp %a : tensor<16xf32>
      spmd.yield %c : tensor<16xf32>
    }
    spmd.send %y to 2 on "backward" : tensor<16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @backward micro 0
    spmd.call @forward micro 1
    spmd.call @backward micro 1
    spmd.call @forward micro 2
    spmd.call @backward micro 2
    spmd.call @forward micro 3
    spmd.call @backward micro 3
    spmd.call @forward micro 4
    spmd.call @backward micro 4
  }
}

// -----

// A temporary of forward is dead before its micro-batch's copy is written, but
// lies beside the copies of the others; it shares its bytes with one of backward.
// 4 * 128 bytes of copies, 128 of temporaries, 128 of the input of each of 8
// micro-batches, 128 of the output.
// CHECK-LABEL: exec.program @temporaries arena 1792 lower_bound 1792
spmd.program @temporaries over <> micro_batches 8 slots 4 {
  spmd.input @x global tensor<32x8xf32> sharded [[micro], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.buffer @saved slot : tensor<4x8xf32>
  // CHECK: exec.buffer "saved" class 4 at {{[0-9]+}} bytes 512 live
  // CHECK: exec.buffer "fused" class 5 at [[T:[0-9]+]] bytes 128 live
  // CHECK: exec.buffer "fused" class 5 at [[T]] bytes 128 live
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    %t = spmd.fused (%a = %x : tensor<4x8xf32>) -> (tensor<4x8xf32>) {
      %e = kerf.exp %a : tensor<4x8xf32>
      spmd.yield %e : tensor<4x8xf32>
    }
    %u = spmd.fused (%a = %t : tensor<4x8xf32>) -> (tensor<4x8xf32>) {
      %e = kerf.tanh %a : tensor<4x8xf32>
      spmd.yield %e : tensor<4x8xf32>
    }
    spmd.write %u to @saved : tensor<4x8xf32>
    spmd.return
  }
  spmd.func @backward() {
    %s = spmd.read @saved : tensor<4x8xf32>
    %g = spmd.fused (%a = %s : tensor<4x8xf32>) -> (tensor<4x8xf32>) {
      %e = kerf.sin %a : tensor<4x8xf32>
      spmd.yield %e : tensor<4x8xf32>
    }
    %h = spmd.fused (%a = %s : tensor<4x8xf32>, %b = %g : tensor<4x8xf32>) -> (tensor<4x8xf32>) {
      %e = kerf.add %a, %b : tensor<4x8xf32>
      spmd.yield %e : tensor<4x8xf32>
    }
    spmd.write %h to @y : tensor<4x8xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    spmd.call @forward micro 2
    spmd.call @forward micro 3
    spmd.call @backward micro 0
    spmd.call @forward micro 4
    spmd.call @backward micro 1
    spmd.call @forward micro 5
    spmd.call @backward micro 2
    spmd.call @forward micro 6
    spmd.call @backward micro 3
    spmd.call @forward micro 7
    spmd.call @backward micro 4
    spmd.call @backward micro 5
    spmd.call @backward micro 6
    spmd.call @backward micro 7
  }
}

// -----

// Interleaved, two chunks: each has as many copies as it needs. The program's
// number is the largest.
// CHECK-LABEL: exec.program @chunks
// CHECK-SAME: slots = 3 : i64
spmd.program @chunks over <> micro_batches 4 slots 2 {
  spmd.buffer @saved slot {slots = 3 : i64} : tensor<16xf32>
  spmd.buffer @saved_1 slot {slots = 1 : i64} : tensor<16xf32>
  // CHECK: exec.buffer "saved" class 4 at {{[0-9]+}} bytes 192 live
  // CHECK: exec.buffer "saved_1" class 4 at {{[0-9]+}} bytes 64 live
  spmd.func @forward() {
    %t = spmd.fused () -> (tensor<16xf32>) {
      %c = kerf.constant dense<1.0> : tensor<16xf32>
      spmd.yield %c : tensor<16xf32>
    }
    spmd.write %t to @saved : tensor<16xf32>
    spmd.return
  }
  spmd.func @forward_1() {
    %t = spmd.fused () -> (tensor<16xf32>) {
      %c = kerf.constant dense<2.0> : tensor<16xf32>
      spmd.yield %c : tensor<16xf32>
    }
    spmd.write %t to @saved_1 : tensor<16xf32>
    spmd.return
  }
  spmd.func @backward() {
    %s = spmd.read @saved : tensor<16xf32>
    %t = spmd.fused (%a = %s : tensor<16xf32>) -> (tensor<16xf32>) {
      %e = kerf.exp %a : tensor<16xf32>
      spmd.yield %e : tensor<16xf32>
    }
    spmd.return
  }
  spmd.func @backward_1() {
    %s = spmd.read @saved_1 : tensor<16xf32>
    %t = spmd.fused (%a = %s : tensor<16xf32>) -> (tensor<16xf32>) {
      %e = kerf.exp %a : tensor<16xf32>
      spmd.yield %e : tensor<16xf32>
    }
    spmd.return
  }
  spmd.func @update() {
    spmd.return
  }
  // CHECK: exec.schedule "train" {
  // CHECK-NEXT: exec.call @forward{{$}}
  // CHECK-NEXT: exec.call @forward micro 1
  // CHECK-NEXT: exec.call @forward micro 2
  // CHECK-NEXT: exec.call @forward_1{{$}}
  // CHECK-NEXT: exec.call @backward_1{{$}}
  // CHECK-NEXT: exec.call @forward_1 micro 1{{$}}
  // CHECK-NEXT: exec.call @backward_1 micro 1{{$}}
  // CHECK-NEXT: exec.call @backward{{$}}
  // CHECK-NEXT: exec.call @forward micro 3{{$}}
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    spmd.call @forward micro 2
    spmd.call @forward_1 micro 0
    spmd.call @backward_1 micro 0
    spmd.call @forward_1 micro 1
    spmd.call @backward_1 micro 1
    spmd.call @backward micro 0
    spmd.call @forward micro 3
    spmd.call @update
  }
}

// -----

// Zero-bubble: the deferred weight gradient reads what the forward saved, which
// therefore lives longer than what the backward reads alone: 3 copies of the one,
// 2 of the other. One function writes both.
// CHECK-LABEL: exec.program @zero_bubble
spmd.program @zero_bubble over <> micro_batches 4 slots 3 {
  spmd.buffer @saved slot : tensor<16xf32>
  spmd.buffer @mask slot {slots = 2 : i64} : tensor<16xf32>
  spmd.buffer @sum step : tensor<16xf32>
  // CHECK: exec.buffer "saved" class 4 at {{[0-9]+}} bytes 192 live
  // CHECK: exec.buffer "mask" class 4 at {{[0-9]+}} bytes 128 live
  // CHECK: exec.func @forward
  // CHECK-NEXT: write f32 {{[0-9]+}} slot 64 of 3 bytes 64>, #exec.arena<write f32 {{[0-9]+}} slot 64 of 2 bytes 64>
  spmd.func @forward() {
    %t:2 = spmd.fused () -> (tensor<16xf32>, tensor<16xf32>) {
      %c = kerf.constant dense<1.0> : tensor<16xf32>
      %d = kerf.constant dense<2.0> : tensor<16xf32>
      spmd.yield %c, %d : tensor<16xf32>, tensor<16xf32>
    }
    spmd.write %t#0 to @saved : tensor<16xf32>
    spmd.write %t#1 to @mask : tensor<16xf32>
    spmd.return
  }
  spmd.func @backward() {
    %s = spmd.read @mask : tensor<16xf32>
    %t = spmd.fused (%a = %s : tensor<16xf32>) -> (tensor<16xf32>) {
      %e = kerf.exp %a : tensor<16xf32>
      spmd.yield %e : tensor<16xf32>
    }
    spmd.return
  }
  spmd.func @weights() {
    %s = spmd.read @saved : tensor<16xf32>
    spmd.accumulate %s into @sum : tensor<16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    spmd.call @backward micro 0
    spmd.call @forward micro 2
    spmd.call @backward micro 1
    spmd.call @weights micro 0
    spmd.call @forward micro 3
    spmd.call @backward micro 2
    spmd.call @weights micro 1
    spmd.call @backward micro 3
    spmd.call @weights micro 2
    spmd.call @weights micro 3
  }
}
