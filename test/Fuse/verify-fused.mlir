// RUN: kerf-opt %s --kerf-verify-fused --split-input-file --verify-diagnostics

// A compute op outside a kernel has no code.
spmd.program @left over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4xf32> sharded [[]] : tensor<4xf32>
  spmd.output @y last : tensor<4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4xf32>
    // expected-error@+2 {{'kerf.exp' op is left after fuse, expected a kernel, a library op or a view}}
    // expected-note@+1 {{run 'kerf-outline-kernels' first}}
    %y = kerf.exp %x : tensor<4xf32>
    spmd.write %y to @y : tensor<4xf32>
    spmd.return
  }
}

// -----

// A kernel holds plain ops.
spmd.program @inside over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    %y = spmd.fused (%a = %x : tensor<4x8xf32>) -> (tensor<4x8xf32>) {
      // expected-error@+1 {{'kerf.softmax' op inside a kernel is not a plain op}}
      %e = kerf.softmax %a : tensor<4x8xf32>
      spmd.yield %e : tensor<4x8xf32>
    }
    spmd.write %y to @y : tensor<4x8xf32>
    spmd.return
  }
}

// -----

// Kernels, library ops and views meet the contract.
spmd.program @good over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<2x2x4x2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    %e = spmd.fused (%a = %x : tensor<4x8xf32>) -> (tensor<4x8xf32>) {
      %e = kerf.exp %a : tensor<4x8xf32>
      spmd.yield %e : tensor<4x8xf32>
    }
    %m = kerf.einsum "bd,cd->bc" %e, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
    %l = kerf.linear %m, %m : tensor<4x4xf32>, tensor<4x4xf32>
    %r = kerf.reshape %e : tensor<4x8xf32> -> tensor<2x2x4x2xf32>
    spmd.write %r to @y : tensor<2x2x4x2xf32>
    spmd.return
  }
}
