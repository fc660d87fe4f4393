// What code generation refuses.
// RUN: split-file %s %t
// RUN: not kerf-kernels %t/unsplit.mlir --no-split 2>&1 | FileCheck %s --check-prefix=UNSPLIT
// RUN: not kerf-kernels %t/inplace.mlir 2>&1 | FileCheck %s --check-prefix=INPLACE
// RUN: not kerf-kernels %t/order.mlir 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not kerf-kernels %t/inplace.mlir --cpu x86-65 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: not kerf-kernels %t/inplace.mlir --cpu core2 2>&1 | FileCheck %s --check-prefix=OLD
// What no GPU can launch.
// RUN: not kerf-kernels %t/blocks.mlir --gpu sm_90 --ptx - 2>&1 | FileCheck %s --check-prefix=BLOCKS
// RUN: %python %S/Inputs/many.py sums 200 > %t/sums.mlir
// RUN: not kerf-kernels %t/sums.mlir --gpu sm_90 --ptx - 2>&1 | FileCheck %s --check-prefix=SHARED
// RUN: %python %S/Inputs/many.py results 512 > %t/results.mlir
// RUN: not kerf-kernels %t/results.mlir --gpu sm_90 --ptx - 2>&1 | FileCheck %s --check-prefix=ARGUMENTS

// BLOCKS: blocks.mlir:1:1: error: 'exec.kernel' op has 8589934592 blocks, a launch of a GPU has at most 2147483647
// BLOCKS: note: split the tensors over more ranks, or take smaller micro-batches
// SHARED: sums.mlir:1:1: error: 'exec.kernel' op takes 51200 bytes of shared memory per block, a GPU has 49152: fuse fewer sums into it
// ARGUMENTS: results.mlir:1:1: error: 'exec.kernel' op has 513 arguments and results, a kernel of a GPU has at most 512
// UNSPLIT: unsplit.mlir:2:1: error: 'exec.kernel' op cannot be computed by one launch: split it first; the result of 'kerf.cumsum' is needed by another op
// INPLACE: inplace.mlir:3:1: error: 'exec.kernel' op result 0 cannot overwrite argument 0: other elements of it are read after the write
// ORDER: order.mlir:3:1: error: 'exec.kernel' op result 0 cannot overwrite argument 1: other elements of it are read after the write
// CPU: error: unknown CPU 'x86-65', expected 'native', 'x86-64-v2', 'x86-64-v3', 'x86-64-v4' or a 64-bit x86 CPU as LLVM names it
// OLD: error: CPU 'core2' lacks 'popcnt', expected at least those of 'x86-64-v2'

//--- blocks.mlir
exec.kernel @blocks(%x: tensor<8796093022208xf32>) -> tensor<8796093022208xf32> {
  %y = kerf.exp %x : tensor<8796093022208xf32>
  exec.yield %y : tensor<8796093022208xf32>
}

//--- unsplit.mlir
// A running sum is stored before another op reads it.
exec.kernel @sums(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = kerf.cumsum %x dim 0 : tensor<8xf32>
  %y = kerf.exp %s : tensor<8xf32>
  exec.yield %y : tensor<8xf32>
}

//--- inplace.mlir
// Transposing in place would read elements that were overwritten.

exec.kernel @transpose(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {inplace = [[0, 0]]} {
  %y = kerf.transpose %x perm [1, 0] : tensor<4x4xf32>
  exec.yield %y : tensor<4x4xf32>
}

//--- order.mlir
// The columns of u come after the sums and read what these overwrote.

exec.kernel @sums_first(%g: tensor<4x4096xf32>, %v: tensor<4xf32>) -> (tensor<4xf32>, tensor<4x4096xf32>) attributes {inplace = [[0, 1]]} {
  %s = kerf.reduce sum %g dims [1] : tensor<4x4096xf32>
  %b = kerf.broadcast %v dims [0] : tensor<4xf32> -> tensor<4x4096xf32>
  %u = kerf.mul %g, %b : tensor<4x4096xf32>
  exec.yield %s, %u : tensor<4xf32>, tensor<4x4096xf32>
}
