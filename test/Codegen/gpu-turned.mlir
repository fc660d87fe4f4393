// A matrix that is read across its rows, in 8-bit floats and times a factor: a
// thread has 8 x 8 elements. Eight reads of 16 bytes, eight writes of 8, and the
// factor. Also run on the simulator, in gpu.mlir.
// RUN: kerf-kernels %s --gpu sm_90 --ptx - | FileCheck %s

// Its copy in the matrix's own order, too: the matrix is still read once. That kernel is the first.
// CHECK: .entry
// CHECK: ld.global.nc.v4.b32
// CHECK: ld.global.nc.b32
// CHECK-COUNT-7: ld.global.nc.v4.b32
// CHECK-NOT: ld.global{{.*}}v
// CHECK-COUNT-16: st.global.v4.b16
// CHECK-NOT: {{(ld|st).global}}
// CHECK: .entry
// CHECK-COUNT-8: ld.global.nc.v4.b32
// CHECK-NOT: ld.global{{.*}}v
// CHECK-COUNT-8: st.global.v4.b16
// CHECK-NOT: {{(ld|st).global}}
exec.kernel @turned_float8(%x: tensor<512x256xbf16> {test.range = [-3.0, 3.0]}, %u: tensor<f32> {test.range = [0.5, 2.0]}) -> tensor<256x512xf8E4M3FN> {
  %t = kerf.transpose %x perm [1, 0] : tensor<512x256xbf16>
  %w = kerf.cast %t : tensor<256x512xbf16> -> tensor<256x512xf32>
  %b = kerf.broadcast %u dims [] : tensor<f32> -> tensor<256x512xf32>
  %s = kerf.mul %w, %b : tensor<256x512xf32>
  %q = kerf.cast %s : tensor<256x512xf32> -> tensor<256x512xf8E4M3FN>
  exec.yield %q : tensor<256x512xf8E4M3FN>
}

exec.kernel @both_float8(%x: tensor<2x256x256xbf16> {test.range = [-3.0, 3.0]}, %u: tensor<f32> {test.range = [0.5, 2.0]}) -> (tensor<2x256x256xf8E4M3FN>, tensor<256x2x256xf8E4M3FN>) {
  %w = kerf.cast %x : tensor<2x256x256xbf16> -> tensor<2x256x256xf32>
  %b = kerf.broadcast %u dims [] : tensor<f32> -> tensor<2x256x256xf32>
  %s = kerf.mul %w, %b : tensor<2x256x256xf32>
  %q = kerf.cast %s : tensor<2x256x256xf32> -> tensor<2x256x256xf8E4M3FN>
  %t = kerf.transpose %x perm [2, 0, 1] : tensor<2x256x256xbf16>
  %c = kerf.cast %t : tensor<256x2x256xbf16> -> tensor<256x2x256xf32>
  %d = kerf.broadcast %u dims [] : tensor<f32> -> tensor<256x2x256xf32>
  %e = kerf.mul %c, %d : tensor<256x2x256xf32>
  %f = kerf.cast %e : tensor<256x2x256xf32> -> tensor<256x2x256xf8E4M3FN>
  exec.yield %q, %f : tensor<2x256x256xf8E4M3FN>, tensor<256x2x256xf8E4M3FN>
}
