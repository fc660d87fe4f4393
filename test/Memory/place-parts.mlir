// RUN: kerf-opt %s --kerf-build-commands --kerf-place-memory --kerf-verify-memory | FileCheck %s

// Rows in the middle of the only sequence lie one after the other: a rank takes its
// channels of them where they are. How far a second sequence would be says nothing.
// CHECK-LABEL: exec.program @parts arena
// CHECK: exec.func @forward {
// CHECK-NEXT: take "take" [4, 2, 8] [#exec.arena<read f32 16 bytes 64>, #exec.arena<write f32 {{[0-9]+}} bytes 32>, #exec.scalar<0 iter 0 micro 0 axes[1]>]
spmd.program @parts over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<1x6x4xf32> sharded [[], [], []] : tensor<1x6x4xf32>
  spmd.output @y last : tensor<1x4x2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<1x6x4xf32>
    %rows = kerf.slice %x offsets [0, 1, 0] sizes [1, 4, 4] : tensor<1x6x4xf32>
    %own = spmd.slice_own %rows dim 2 over [tp] : tensor<1x4x4xf32> -> tensor<1x4x2xf32>
    spmd.write %own to @y : tensor<1x4x2xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward
  }
}
