// RUN: kerf-opt %s --kerf-place-memory --split-input-file --verify-diagnostics

// An op that is no kernel has no command.
spmd.program @unfused over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4xf32> cut [[]] : tensor<4xf32>
  spmd.output @y last : tensor<4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4xf32>
    // expected-error@+1 {{'kerf.exp' op has no command, expected a kernel, a library op or a collective}}
    %y = kerf.exp %x : tensor<4xf32>
    spmd.write %y to @y : tensor<4xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// A reshape of a part that is not evenly apart cannot be an address.
spmd.program @uneven over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> cut [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<16xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    %s = kerf.slice %x offsets [0, 2] sizes [4, 4] : tensor<4x8xf32>
    // expected-error@+1 {{'kerf.reshape' op is no view: its elements are not evenly apart}}
    %y = kerf.reshape %s : tensor<4x4xf32> -> tensor<16xf32>
    spmd.write %y to @y : tensor<16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// Ranks of a group are counted with the first axis slowest.
spmd.program @order over <dp = 2, tp = 2> micro_batches 1 slots 1 {
  spmd.output @y last : tensor<4xf32>
  spmd.func @forward() {
    %x = spmd.fused () -> (tensor<4xf32>) {
      %c = kerf.constant dense<1.0> : tensor<4xf32>
      spmd.yield %c : tensor<4xf32>
    }
    // expected-error@+2 {{'spmd.all_reduce' op expected axes in the order of the mesh}}
    // expected-note@+1 {{the mesh is}}
    %y = spmd.all_reduce sum %x over [tp, dp] : tensor<4xf32>
    spmd.write %y to @y : tensor<4xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}
