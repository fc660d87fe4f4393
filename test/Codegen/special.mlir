// Infinities, NaN, zeros and denormal numbers; results in memory of arguments.
// RUN: kerf-kernels %s | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v2 | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v3 | FileCheck %s
// CHECK-COUNT-15: ok,
// CHECK-NOT: {{ok|WRONG}}

exec.kernel @exp() -> (tensor<11xf32>) {
  %x = kerf.constant dense<[0x7F800000, 0xFF800000, 0x7FC00000, 0.0, -0.0, 1.0e-40, 3.0e38, -3.0e38, 100.0, -100.0, -1.0]> : tensor<11xf32>
  %y = kerf.exp %x : tensor<11xf32>
  exec.yield %y : tensor<11xf32>
}

exec.kernel @log() -> (tensor<11xf32>) {
  %x = kerf.constant dense<[0x7F800000, 0xFF800000, 0x7FC00000, 0.0, -0.0, 1.0e-40, 3.0e38, -3.0e38, 100.0, -100.0, -1.0]> : tensor<11xf32>
  %y = kerf.log %x : tensor<11xf32>
  exec.yield %y : tensor<11xf32>
}

exec.kernel @tanh() -> (tensor<11xf32>) {
  %x = kerf.constant dense<[0x7F800000, 0xFF800000, 0x7FC00000, 0.0, -0.0, 1.0e-40, 3.0e38, -3.0e38, 100.0, -100.0, -1.0]> : tensor<11xf32>
  %y = kerf.tanh %x : tensor<11xf32>
  exec.yield %y : tensor<11xf32>
}

exec.kernel @erf() -> (tensor<11xf32>) {
  %x = kerf.constant dense<[0x7F800000, 0xFF800000, 0x7FC00000, 0.0, -0.0, 1.0e-40, 3.0e38, -3.0e38, 100.0, -100.0, -1.0]> : tensor<11xf32>
  %y = kerf.erf %x : tensor<11xf32>
  exec.yield %y : tensor<11xf32>
}

exec.kernel @sqrt() -> (tensor<11xf32>) {
  %x = kerf.constant dense<[0x7F800000, 0xFF800000, 0x7FC00000, 0.0, -0.0, 1.0e-40, 3.0e38, -3.0e38, 100.0, -100.0, -1.0]> : tensor<11xf32>
  %y = kerf.sqrt %x : tensor<11xf32>
  exec.yield %y : tensor<11xf32>
}

exec.kernel @rsqrt() -> (tensor<11xf32>) {
  %x = kerf.constant dense<[0x7F800000, 0xFF800000, 0x7FC00000, 0.0, -0.0, 1.0e-40, 3.0e38, -3.0e38, 100.0, -100.0, -1.0]> : tensor<11xf32>
  %y = kerf.rsqrt %x : tensor<11xf32>
  exec.yield %y : tensor<11xf32>
}

exec.kernel @logistic() -> (tensor<11xf32>) {
  %x = kerf.constant dense<[0x7F800000, 0xFF800000, 0x7FC00000, 0.0, -0.0, 1.0e-40, 3.0e38, -3.0e38, 100.0, -100.0, -1.0]> : tensor<11xf32>
  %y = kerf.logistic %x : tensor<11xf32>
  exec.yield %y : tensor<11xf32>
}

exec.kernel @max_min() -> (tensor<11xf32>, tensor<11xf32>, tensor<11xf32>, tensor<f32>) {
  %x = kerf.constant dense<[0x7F800000, 0xFF800000, 0x7FC00000, 0.0, -0.0, 1.0e-40, 3.0e38, -3.0e38, 100.0, -100.0, -1.0]> : tensor<11xf32>
  %o = kerf.constant dense<1.0> : tensor<11xf32>
  %n = kerf.constant dense<0x7FC00000> : tensor<11xf32>
  %y = kerf.max %x, %o : tensor<11xf32>
  %z = kerf.min %o, %x : tensor<11xf32>
  %p = kerf.max %o, %n : tensor<11xf32>
  %q = kerf.reduce max %x dims [0] : tensor<11xf32>
  exec.yield %y, %z, %p, %q : tensor<11xf32>, tensor<11xf32>, tensor<11xf32>, tensor<f32>
}

exec.kernel @round_bf16(%x: tensor<3000xf32>) -> (tensor<11xbf16>, tensor<3000xbf16>) {
  %s = kerf.constant dense<[0x7F800000, 0xFF800000, 0x7FC00000, 0.0, -0.0, 1.0e-40, 3.0e38, -3.0e38, 100.0, -100.0, -1.0]> : tensor<11xf32>
  %c = kerf.cast %s : tensor<11xf32> -> tensor<11xbf16>
  %d = kerf.cast %x : tensor<3000xf32> -> tensor<3000xbf16>
  exec.yield %c, %d : tensor<11xbf16>, tensor<3000xbf16>
}

exec.kernel @divide_integers(%x: tensor<100xi32> {test.range = [-9, 9]}, %y: tensor<100xi32> {test.range = [-3, 3]}) -> (tensor<100xi32>) {
  %z = kerf.div %x, %y : tensor<100xi32>
  exec.yield %z : tensor<100xi32>
}

exec.kernel @top_k_nan() -> (tensor<8xf32>, tensor<8xi32>) {
  %x = kerf.constant dense<[0x7F800000, 0xFF800000, 0x7FC00000, 0.0, -0.0, 1.0e-40, 3.0e38, -3.0e38, 100.0, -100.0, -1.0]> : tensor<11xf32>
  %y, %i = kerf.top_k %x k 8 : tensor<11xf32>
  exec.yield %y, %i : tensor<8xf32>, tensor<8xi32>
}

// All threads of a row's block, or warp, read the element that one of them
// overwrites.
exec.kernel @overwrites_of_block(%g: tensor<4x4096xf32>, %v: tensor<4xf32>) -> (tensor<4x4096xf32>, tensor<4xf32>) attributes {inplace = [[1, 1]]} {
  %b = kerf.broadcast %v dims [0] : tensor<4xf32> -> tensor<4x4096xf32>
  %u = kerf.mul %g, %b : tensor<4x4096xf32>
  %s = kerf.reduce sum %g dims [1] : tensor<4x4096xf32>
  %n = kerf.add %s, %v : tensor<4xf32>
  exec.yield %u, %n : tensor<4x4096xf32>, tensor<4xf32>
}
exec.kernel @overwrites_first(%g: tensor<4x4096xf32>, %v: tensor<4xf32>) -> (tensor<4xf32>, tensor<4x4096xf32>) attributes {inplace = [[0, 1]]} {
  %b = kerf.broadcast %v dims [0] : tensor<4xf32> -> tensor<4x4096xf32>
  %u = kerf.mul %g, %b : tensor<4x4096xf32>
  %s = kerf.reduce sum %g dims [1] : tensor<4x4096xf32>
  %n = kerf.add %s, %v : tensor<4xf32>
  exec.yield %n, %u : tensor<4xf32>, tensor<4x4096xf32>
}
exec.kernel @overwrites_of_warp(%g: tensor<9x100xf32>, %v: tensor<9xf32>) -> (tensor<9x100xf32>, tensor<9xf32>) attributes {inplace = [[1, 1]]} {
  %b = kerf.broadcast %v dims [0] : tensor<9xf32> -> tensor<9x100xf32>
  %u = kerf.mul %g, %b : tensor<9x100xf32>
  %s = kerf.reduce sum %g dims [1] : tensor<9x100xf32>
  %n = kerf.add %s, %v : tensor<9xf32>
  exec.yield %u, %n : tensor<9x100xf32>, tensor<9xf32>
}
// Sums take four columns at a time, what is written one: lanes overwrite what
// others have read.
exec.kernel @overwrites_other_lanes(%x: tensor<9x100xf32>, %z: tensor<9x33xf32>) -> tensor<9x100xf32> attributes {inplace = [[0, 0]]} {
  %p = kerf.pad %z low [0, 0] high [0, 67] : tensor<9x33xf32>
  %s = kerf.reduce sum %x dims [1] : tensor<9x100xf32>
  %b = kerf.broadcast %s dims [0] : tensor<9xf32> -> tensor<9x100xf32>
  %n = kerf.mul %x, %b : tensor<9x100xf32>
  %y = kerf.add %n, %p : tensor<9x100xf32>
  exec.yield %y : tensor<9x100xf32>
}
