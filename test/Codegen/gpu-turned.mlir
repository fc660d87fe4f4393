// A matrix that is read across its rows, in 8-bit floats and times a factor: a
// thread has 8 x 8 elements. Eight reads of 16 bytes, eight writes of 8, and the
// factor. Also run on the simulator, in gpu.mlir.
// RUN: kerf-kernels %s --gpu sm_90 --ptx - | FileCheck %s

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
