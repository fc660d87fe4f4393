// RUN: kerf-opt %s --kerf-build-commands --kerf-verify-memory | FileCheck %s --check-prefix=APART
// RUN: kerf-opt %s --kerf-build-commands --kerf-place-memory --kerf-verify-memory | FileCheck %s --check-prefix=PLACED

// Commands come first, on buffers that share nothing: a whole program in an arena
// that is too large. Then buffers that never live together get the same bytes.

// APART: exec.program @chain arena [[ARENA:[0-9]+]] lower_bound [[ARENA]]
// APART-DAG: exec.buffer "y" {{.*}} scope always copies 1 live []
// APART-DAG: exec.buffer "saved" {{.*}} bytes 512 scope slot copies 2 live []
// APART-DAG: exec.buffer {{.*}} scope function copies 1 live []

// PLACED: exec.program @chain arena
// PLACED-NOT: scope
// PLACED: exec.buffer "saved" {{.*}} bytes 512 live [
// PLACED-NOT: scope
spmd.program @chain over <> micro_batches 2 slots 2 {
  spmd.input @x global tensor<16x8xf32> sharded [[micro], []] : tensor<8x8xf32>
  spmd.buffer @saved slot : tensor<8x8xf32>
  spmd.output @y last : tensor<8x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<8x8xf32>
    %a = kerf.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32>
    %b = kerf.matmul %a, %x : tensor<8x8xf32>, tensor<8x8xf32>
    %c = kerf.matmul %b, %x : tensor<8x8xf32>, tensor<8x8xf32>
    %d = kerf.matmul %c, %x : tensor<8x8xf32>, tensor<8x8xf32>
    spmd.write %d to @saved : tensor<8x8xf32>
    spmd.return
  }
  spmd.func @backward() {
    %s = spmd.read @saved : tensor<8x8xf32>
    %z = kerf.matmul %s, %s : tensor<8x8xf32>, tensor<8x8xf32>
    spmd.write %z to @y : tensor<8x8xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    spmd.call @backward micro 0
    spmd.call @backward micro 1
  }
}
