// Casts to 8-bit floats and units, as the interpreter rounds.
// RUN: kerf-kernels %s --tolerance 0 --elements | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v2 --tolerance 0 --elements | FileCheck %s
// CHECK-COUNT-7: ok,
// CHECK-NOT: {{ok|WRONG}}

exec.kernel @e4m3(%x: tensor<1003xf32> {test.range = [-500.0, 500.0]}) -> tensor<1003xf32> {
  %q = kerf.cast %x : tensor<1003xf32> -> tensor<1003xf8E4M3FN>
  %y = kerf.cast %q : tensor<1003xf8E4M3FN> -> tensor<1003xf32>
  exec.yield %y : tensor<1003xf32>
}
// Below the smallest normal number, and around it.
exec.kernel @e4m3_small(%x: tensor<1003xf32> {test.range = [-0.02, 0.02]}) -> tensor<1003xf32> {
  %q = kerf.cast %x : tensor<1003xf32> -> tensor<1003xf8E4M3FN>
  %y = kerf.cast %q : tensor<1003xf8E4M3FN> -> tensor<1003xf32>
  exec.yield %y : tensor<1003xf32>
}
exec.kernel @e5m2(%x: tensor<1003xf32> {test.range = [-60000.0, 60000.0]}) -> tensor<1003xf32> {
  %q = kerf.cast %x : tensor<1003xf32> -> tensor<1003xf8E5M2>
  %y = kerf.cast %q : tensor<1003xf8E5M2> -> tensor<1003xf32>
  exec.yield %y : tensor<1003xf32>
}
exec.kernel @e5m2_small(%x: tensor<1003xf32> {test.range = [-1.0e-4, 1.0e-4]}) -> tensor<1003xf32> {
  %q = kerf.cast %x : tensor<1003xf32> -> tensor<1003xf8E5M2>
  %y = kerf.cast %q : tensor<1003xf8E5M2> -> tensor<1003xf32>
  exec.yield %y : tensor<1003xf32>
}
// Halves of a digit, infinities and zeros of both signs; also of a constant.
exec.kernel @ties(%one: tensor<8xf32> {test.value = 1.0}) -> (tensor<8xf32>, tensor<8xf32>) {
  %c = kerf.constant dense<[1.0625, -1.1875, 0x7F800000, 0xFF800000, -0.0, 0.0009765625, 0.0029296875, 464.0]>
      : tensor<8xf32>
  %x = kerf.mul %c, %one : tensor<8xf32>
  %q = kerf.cast %x : tensor<8xf32> -> tensor<8xf8E4M3FN>
  %y = kerf.cast %q : tensor<8xf8E4M3FN> -> tensor<8xf32>
  %p = kerf.cast %c : tensor<8xf32> -> tensor<8xf8E5M2>
  %z = kerf.cast %p : tensor<8xf8E5M2> -> tensor<8xf32>
  exec.yield %y, %z : tensor<8xf32>, tensor<8xf32>
}
exec.kernel @unit(%x: tensor<5x67xbf16> {test.range = [-3.0, 3.0]}) -> tensor<f32> {
  %u = kerf.unit %x of f8E4M3FN : tensor<5x67xbf16>
  exec.yield %u : tensor<f32>
}
// A value and its transposed copy, in its unit.
exec.kernel @quantize(%x: tensor<16x48xf32> {test.range = [-3.0, 3.0]}, %u: tensor<f32> {test.value = 0.0078125})
    -> tensor<48x16xf32> {
  %v = kerf.power_of_two %u : tensor<f32>
  %w = kerf.broadcast %v dims [] : tensor<f32> -> tensor<48x16xf32>
  %t = kerf.transpose %x perm [1, 0] : tensor<16x48xf32>
  %s = kerf.div %t, %w : tensor<48x16xf32>
  %q = kerf.cast %s : tensor<48x16xf32> -> tensor<48x16xf8E4M3FN>
  %y = kerf.cast %q : tensor<48x16xf8E4M3FN> -> tensor<48x16xf32>
  exec.yield %y : tensor<48x16xf32>
}
