// Kernels for GPUs, in sizes that take every way through the emitter: who
// computes a row, chunks of partial sums, tails. Also run on the simulator.
// RUN: kerf-kernels %s --gpu sm_90 --ptx - | FileCheck %s
// RUN: kerf-kernels %s --gpu sm_80 --ptx - | FileCheck %s --check-prefix=OLD
// RUN: kerf-kernels %s | FileCheck %s --check-prefix=CPU

// CPU: vectors: ok
// CPU-NOT: WRONG
// CPU: wide: ok

// One module: one header.
// CHECK: .version 8.0
// CHECK: .target sm_90
// CHECK-NOT: .version
// OLD: .target sm_80
// What does not divide the work ends in scalar accesses; nothing is masked.
// CHECK-DAG: ld.global.nc.v4.b32
// CHECK-DAG: st.global.v4.b32
// CHECK-DAG: ld.global.nc.b32
// CHECK-DAG: st.global.b32
// Rows: shuffles, then shared memory and a barrier.
// CHECK-DAG: shfl.sync.bfly.b32
// CHECK-DAG: bar{{.*}}.sync
// CHECK-DAG: .shared .align 16 .b8 k{{[0-9a-f]+}}_shared0[{{[0-9]+}}]
// Rounding to bf16 is one instruction.
// CHECK-DAG: cvt.rn.bf16x2.f32
// OLD-DAG: cvt.rn.bf16x2.f32
// The assembler is told the size of blocks and what they may take.
// CHECK-DAG: .reqntid 256
// CHECK-DAG: .maxnreg 255

exec.kernel @vectors(%x: tensor<2048xf32>, %y: tensor<2048xf32>) -> tensor<2048xf32> {
  %z = kerf.add %x, %y : tensor<2048xf32>
  exec.yield %z : tensor<2048xf32>
}
exec.kernel @tail(%x: tensor<4099xbf16>, %y: tensor<4099xbf16>) -> tensor<4099xbf16> {
  %z = kerf.mul %x, %y : tensor<4099xbf16>
  exec.yield %z : tensor<4099xbf16>
}
// Two vectors of a thread are one where bf16 meets f32.
exec.kernel @mixed(%x: tensor<3x1000xbf16>, %y: tensor<3x1000xf32>) -> tensor<3x1000xf32> {
  %w = kerf.cast %x : tensor<3x1000xbf16> -> tensor<3x1000xf32>
  %z = kerf.add %w, %y : tensor<3x1000xf32>
  exec.yield %z : tensor<3x1000xf32>
}
// Lanes cannot cross a row of 33.
exec.kernel @across(%x: tensor<64x33xf32>) -> tensor<33x64xf32> {
  %z = kerf.transpose %x perm [1, 0] : tensor<64x33xf32>
  exec.yield %z : tensor<33x64xf32>
}

// A row per thread, per warp, per block: with all vectors of a row in registers
// and with a loop.
exec.kernel @row_of_thread(%x: tensor<201x8xf32>) -> tensor<201x8xf32> {
  %y = kerf.softmax %x : tensor<201x8xf32>
  exec.yield %y : tensor<201x8xf32>
}
exec.kernel @row_of_warp(%x: tensor<9x100xf32>) -> tensor<9x100xf32> {
  %y = kerf.softmax %x : tensor<9x100xf32>
  exec.yield %y : tensor<9x100xf32>
}
exec.kernel @row_of_block(%x: tensor<5x2304xbf16>) -> tensor<5x2304xbf16> {
  %y = kerf.softmax %x : tensor<5x2304xbf16>
  exec.yield %y : tensor<5x2304xbf16>
}
exec.kernel @odd_row(%x: tensor<2x5003xf32>) -> tensor<2x5003xf32> {
  %y = kerf.softmax %x : tensor<2x5003xf32>
  exec.yield %y : tensor<2x5003xf32>
}
exec.kernel @long_row(%x: tensor<2x65536xbf16>) -> tensor<2x65536xbf16> {
  %y = kerf.softmax %x : tensor<2x65536xbf16>
  exec.yield %y : tensor<2x65536xbf16>
}
exec.kernel @integers(%x: tensor<4x600xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %s = kerf.reduce sum %x dims [1] : tensor<4x600xi32>
  %m = kerf.reduce max %x dims [1] : tensor<4x600xi32>
  exec.yield %s, %m : tensor<4xi32>, tensor<4xi32>
}
exec.kernel @wide_sums(%x: tensor<3x700xf64>) -> tensor<3xf64> {
  %s = kerf.reduce sum %x dims [1] : tensor<3x700xf64>
  exec.yield %s : tensor<3xf64>
}

// Sums over rows: threads walk down their columns.
exec.kernel @down(%x: tensor<300x768xbf16>) -> tensor<768xbf16> {
  %y = kerf.reduce sum %x dims [0] : tensor<300x768xbf16>
  exec.yield %y : tensor<768xbf16>
}
exec.kernel @down_odd(%x: tensor<1000x77xf32>) -> tensor<77xf32> {
  %y = kerf.reduce sum %x dims [0] : tensor<1000x77xf32>
  exec.yield %y : tensor<77xf32>
}
exec.kernel @down_max(%x: tensor<2000x36xf32>) -> tensor<36xf32> {
  %y = kerf.reduce max %x dims [0] : tensor<2000x36xf32>
  exec.yield %y : tensor<36xf32>
}
exec.kernel @all(%x: tensor<37x2001xf32>) -> (tensor<f32>, tensor<f32>) {
  %y = kerf.reduce sum %x dims [0, 1] : tensor<37x2001xf32>
  %m = kerf.reduce max %x dims [0, 1] : tensor<37x2001xf32>
  exec.yield %y, %m : tensor<f32>, tensor<f32>
}
// Sums of chunks whose rows must be known first: rows of warps, of blocks, and
// rows that divide among neither.
exec.kernel @chunks_of_warps(%x: tensor<70x512xbf16>, %g: tensor<512xbf16>, %dy: tensor<70x512xbf16>) -> (tensor<70x512xbf16>, tensor<512xbf16>, tensor<512xbf16>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<70x512xbf16>, tensor<512xbf16>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<70x512xbf16> -> tensor<512xbf16>
  %db = kerf.reduce sum %dy dims [0] : tensor<70x512xbf16>
  exec.yield %dx, %dg, %db : tensor<70x512xbf16>, tensor<512xbf16>, tensor<512xbf16>
}
exec.kernel @chunks_of_blocks(%x: tensor<40x1536xf32>, %g: tensor<1536xf32>, %dy: tensor<40x1536xf32>) -> (tensor<40x1536xf32>, tensor<1536xf32>, tensor<1536xf32>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<40x1536xf32>, tensor<1536xf32>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<40x1536xf32> -> tensor<1536xf32>
  %db = kerf.reduce sum %dy dims [0] : tensor<40x1536xf32>
  exec.yield %dx, %dg, %db : tensor<40x1536xf32>, tensor<1536xf32>, tensor<1536xf32>
}
exec.kernel @chunks_odd(%x: tensor<40x333xf32>, %g: tensor<333xf32>, %dy: tensor<40x333xf32>) -> (tensor<40x333xf32>, tensor<333xf32>, tensor<333xf32>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<40x333xf32>, tensor<333xf32>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<40x333xf32> -> tensor<333xf32>
  %db = kerf.reduce sum %dy dims [0] : tensor<40x333xf32>
  exec.yield %dx, %dg, %db : tensor<40x333xf32>, tensor<333xf32>, tensor<333xf32>
}

// Largest elements by warps, equal ones too; running sums by threads and by
// blocks; a table whose rows are searched for 32 at a time.
exec.kernel @largest(%x: tensor<30x100xf32>) -> (tensor<30x6xf32>, tensor<30x6xi32>) {
  %v, %i = kerf.top_k %x k 6 : tensor<30x100xf32>
  exec.yield %v, %i : tensor<30x6xf32>, tensor<30x6xi32>
}
exec.kernel @largest_equal(%x: tensor<7x64xbf16> {test.range = [0.0, 0.02]}) -> (tensor<7x9xbf16>, tensor<7x9xi32>) {
  %v, %i = kerf.top_k %x k 9 : tensor<7x64xbf16>
  exec.yield %v, %i : tensor<7x9xbf16>, tensor<7x9xi32>
}
exec.kernel @running(%x: tensor<1000x8xi32>) -> tensor<1000x8xi32> {
  %y = kerf.cumsum %x dim 0 : tensor<1000x8xi32>
  exec.yield %y : tensor<1000x8xi32>
}
exec.kernel @running_short(%x: tensor<100x40xf32>) -> tensor<100x40xf32> {
  %y = kerf.cumsum %x dim 1 : tensor<100x40xf32>
  exec.yield %y : tensor<100x40xf32>
}
exec.kernel @table(%x: tensor<500x48xf32>, %i: tensor<500xi32> {test.range = [-3, 1100]}) -> tensor<1030x48xf32> {
  %y = kerf.scatter_add %x, %i : tensor<500x48xf32>, tensor<500xi32> -> tensor<1030x48xf32>
  exec.yield %y : tensor<1030x48xf32>
}
// Parts of different kinds share a launch.
exec.kernel @parts(%x: tensor<20x300xf32>, %y: tensor<7000xf32>, %i: tensor<90xi32> {test.range = [0, 50]}, %z: tensor<90x16xf32>) -> (tensor<20x300xf32>, tensor<7000xf32>, tensor<50x16xf32>) {
  %a = kerf.softmax %x : tensor<20x300xf32>
  %b = kerf.exp %y : tensor<7000xf32>
  %c = kerf.scatter_add %z, %i : tensor<90x16xf32>, tensor<90xi32> -> tensor<50x16xf32>
  exec.yield %a, %b, %c : tensor<20x300xf32>, tensor<7000xf32>, tensor<50x16xf32>
}
// Functions of f64 have code of their own.
exec.kernel @wide(%x: tensor<500xf64> {test.range = [-7.0, 7.0]}) -> (tensor<500xf64>, tensor<500xf64>, tensor<500xf64>, tensor<500xf64>) {
  %a = kerf.exp %x : tensor<500xf64>
  %b = kerf.erf %x : tensor<500xf64>
  %c = kerf.tanh %x : tensor<500xf64>
  %d = kerf.sin %x : tensor<500xf64>
  exec.yield %a, %b, %c, %d : tensor<500xf64>, tensor<500xf64>, tensor<500xf64>, tensor<500xf64>
}
