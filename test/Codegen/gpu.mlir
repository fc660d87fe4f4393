// Kernels for GPUs, in sizes that take every way through the emitter: who
// computes a row, chunks of partial sums, tails. Also run on the simulator.
// RUN: kerf-kernels %s --gpu sm_90 --ptx - | FileCheck %s
// RUN: kerf-kernels %s --gpu sm_80 --ptx - | FileCheck %s --check-prefix=OLD
// RUN: kerf-kernels %s | FileCheck %s --check-prefix=CPU

// CPU: vectors: ok
// CPU-NOT: WRONG
// CPU: empty_sums: ok

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
// A maximum is one instruction, and so is most of exp.
// CHECK-DAG: max.NaN.f32
// CHECK-DAG: ex2.approx.ftz.f32
// Rounding to bf16 is one instruction.
// CHECK-DAG: cvt.rn.bf16x2.f32
// OLD-DAG: cvt.rn.bf16x2.f32
// The assembler is told the size of blocks and what they may take.
// CHECK-DAG: .reqntid 256
// CHECK-DAG: .maxnreg 255
// Each quarter of a multiprocessor serves whole warps: 9 take the room of 12.
// CHECK: .reqntid 288
// CHECK-NEXT: .maxnreg 168

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

// Operands that are read across their rows: a thread has a square of elements.
exec.kernel @turned_float8(%x: tensor<512x256xbf16> {test.range = [-3.0, 3.0]}, %u: tensor<f32> {test.range = [0.5, 2.0]}) -> tensor<256x512xf8E4M3FN> {
  %t = kerf.transpose %x perm [1, 0] : tensor<512x256xbf16>
  %w = kerf.cast %t : tensor<256x512xbf16> -> tensor<256x512xf32>
  %b = kerf.broadcast %u dims [] : tensor<f32> -> tensor<256x512xf32>
  %s = kerf.mul %w, %b : tensor<256x512xf32>
  %q = kerf.cast %s : tensor<256x512xf32> -> tensor<256x512xf8E4M3FN>
  exec.yield %q : tensor<256x512xf8E4M3FN>
}
// Numbers that are no multiples of a block's, in batches; squares of four, of two.
exec.kernel @turned(%x: tensor<136x1032xbf16>) -> tensor<1032x136xbf16> {
  %t = kerf.transpose %x perm [1, 0] : tensor<136x1032xbf16>
  exec.yield %t : tensor<1032x136xbf16>
}
exec.kernel @turned_batches(%x: tensor<3x40x72xf32>) -> tensor<3x72x40xf32> {
  %t = kerf.transpose %x perm [0, 2, 1] : tensor<3x40x72xf32>
  exec.yield %t : tensor<3x72x40xf32>
}
exec.kernel @turned_fours(%x: tensor<36x60xbf16>) -> tensor<60x36xf32> {
  %t = kerf.transpose %x perm [1, 0] : tensor<36x60xbf16>
  %y = kerf.cast %t : tensor<60x36xbf16> -> tensor<60x36xf32>
  exec.yield %y : tensor<60x36xf32>
}
exec.kernel @turned_twos(%x: tensor<2x50x34xbf16>) -> tensor<2x34x50xbf16> {
  %t = kerf.transpose %x perm [0, 2, 1] : tensor<2x50x34xbf16>
  exec.yield %t : tensor<2x34x50xbf16>
}
exec.kernel @turned_wide(%x: tensor<24x70xf64>) -> tensor<70x24xf64> {
  %t = kerf.transpose %x perm [1, 0] : tensor<24x70xf64>
  exec.yield %t : tensor<70x24xf64>
}
exec.kernel @turned_odd(%x: tensor<3x17x65xbf16>) -> tensor<3x65x17xbf16> {
  %t = kerf.transpose %x perm [0, 2, 1] : tensor<3x17x65xbf16>
  exec.yield %t : tensor<3x65x17xbf16>
}
// Few squares along the result's rows; a dimension between both.
exec.kernel @turned_flat(%x: tensor<16x1024xbf16>) -> tensor<1024x16xbf16> {
  %t = kerf.transpose %x perm [1, 0] : tensor<16x1024xbf16>
  exec.yield %t : tensor<1024x16xbf16>
}
exec.kernel @turned_around(%x: tensor<2x64x3x40xbf16>) -> tensor<2x40x3x64xbf16> {
  %t = kerf.transpose %x perm [0, 3, 2, 1] : tensor<2x64x3x40xbf16>
  exec.yield %t : tensor<2x40x3x64xbf16>
}
// Beside operands that are not turned: of the same shape, spread both ways, and
// the same one.
exec.kernel @turned_beside(%x: tensor<64x96xbf16>, %y: tensor<96x64xf32>, %c: tensor<96xf32>, %r: tensor<64xbf16>) -> tensor<96x64xbf16> {
  %t = kerf.transpose %x perm [1, 0] : tensor<64x96xbf16>
  %w = kerf.cast %t : tensor<96x64xbf16> -> tensor<96x64xf32>
  %c2 = kerf.broadcast %c dims [0] : tensor<96xf32> -> tensor<96x64xf32>
  %r2 = kerf.broadcast %r dims [1] : tensor<64xbf16> -> tensor<96x64xbf16>
  %r3 = kerf.cast %r2 : tensor<96x64xbf16> -> tensor<96x64xf32>
  %a = kerf.mul %w, %y : tensor<96x64xf32>
  %b = kerf.add %a, %c2 : tensor<96x64xf32>
  %d = kerf.sub %b, %r3 : tensor<96x64xf32>
  %z = kerf.cast %d : tensor<96x64xf32> -> tensor<96x64xbf16>
  exec.yield %z : tensor<96x64xbf16>
}
exec.kernel @turned_onto_itself(%x: tensor<80x80xf32>) -> tensor<80x80xf32> {
  %t = kerf.transpose %x perm [1, 0] : tensor<80x80xf32>
  %y = kerf.add %x, %t : tensor<80x80xf32>
  exec.yield %y : tensor<80x80xf32>
}
exec.kernel @turned_in_place(%x: tensor<48x64xf32>, %y: tensor<64x48xf32>) -> tensor<64x48xf32> attributes {inplace = [[0, 1]]} {
  %t = kerf.transpose %x perm [1, 0] : tensor<48x64xf32>
  %z = kerf.sub %y, %t : tensor<64x48xf32>
  exec.yield %z : tensor<64x48xf32>
}
// Two of them, too many for squares of eight; of different rows, for none.
exec.kernel @turned_twice(%x: tensor<64x96xf32>, %y: tensor<64x96xf32>) -> tensor<96x64xbf16> {
  %s = kerf.transpose %x perm [1, 0] : tensor<64x96xf32>
  %t = kerf.transpose %y perm [1, 0] : tensor<64x96xf32>
  %w = kerf.logistic %s : tensor<96x64xf32>
  %a = kerf.mul %w, %t : tensor<96x64xf32>
  %z = kerf.cast %a : tensor<96x64xf32> -> tensor<96x64xbf16>
  exec.yield %z : tensor<96x64xbf16>
}
exec.kernel @turned_two_ways(%x: tensor<16x8x24xf32>, %y: tensor<24x16x8xf32>) -> tensor<8x24x16xf32> {
  %s = kerf.transpose %x perm [1, 2, 0] : tensor<16x8x24xf32>
  %t = kerf.transpose %y perm [2, 0, 1] : tensor<24x16x8xf32>
  %z = kerf.add %s, %t : tensor<8x24x16xf32>
  exec.yield %z : tensor<8x24x16xf32>
}
// Rows of other shapes, and such that a vector crosses; columns from an odd one on.
exec.kernel @turned_tokens(%x: tensor<4x24x64xbf16>) -> tensor<64x4x24xbf16> {
  %r = kerf.reshape %x : tensor<4x24x64xbf16> -> tensor<96x64xbf16>
  %t = kerf.transpose %r perm [1, 0] : tensor<96x64xbf16>
  %y = kerf.reshape %t : tensor<64x96xbf16> -> tensor<64x4x24xbf16>
  exec.yield %y : tensor<64x4x24xbf16>
}
exec.kernel @turned_across(%x: tensor<4x6x64xbf16>) -> tensor<64x24xbf16> {
  %s = kerf.transpose %x perm [1, 0, 2] : tensor<4x6x64xbf16>
  %r = kerf.reshape %s : tensor<6x4x64xbf16> -> tensor<24x64xbf16>
  %t = kerf.transpose %r perm [1, 0] : tensor<24x64xbf16>
  exec.yield %t : tensor<64x24xbf16>
}
exec.kernel @turned_slice(%x: tensor<70x80xbf16>) -> tensor<64x64xbf16> {
  %s = kerf.slice %x offsets [5, 11] sizes [64, 64] : tensor<70x80xbf16>
  %t = kerf.transpose %s perm [1, 0] : tensor<64x64xbf16>
  exec.yield %t : tensor<64x64xbf16>
}
exec.kernel @turned_odd_rows(%x: tensor<64x75xbf16>) -> tensor<64x64xbf16> {
  %s = kerf.slice %x offsets [0, 8] sizes [64, 64] : tensor<64x75xbf16>
  %t = kerf.transpose %s perm [1, 0] : tensor<64x64xbf16>
  exec.yield %t : tensor<64x64xbf16>
}
// Two results, of one shape and of two; beside other parts.
exec.kernel @turned_results(%x: tensor<64x80xbf16>) -> (tensor<80x64xbf16>, tensor<80x64xf32>) {
  %t = kerf.transpose %x perm [1, 0] : tensor<64x80xbf16>
  %y = kerf.neg %t : tensor<80x64xbf16>
  %w = kerf.cast %t : tensor<80x64xbf16> -> tensor<80x64xf32>
  exec.yield %y, %w : tensor<80x64xbf16>, tensor<80x64xf32>
}
exec.kernel @turned_and_not(%x: tensor<64x80xbf16>) -> (tensor<80x64xbf16>, tensor<64x80xbf16>) {
  %t = kerf.transpose %x perm [1, 0] : tensor<64x80xbf16>
  %y = kerf.neg %x : tensor<64x80xbf16>
  exec.yield %t, %y : tensor<80x64xbf16>, tensor<64x80xbf16>
}
exec.kernel @turned_part(%x: tensor<64x80xbf16>, %y: tensor<5x2304xf32>) -> (tensor<5x2304xf32>, tensor<80x64xbf16>) {
  %s = kerf.softmax %y : tensor<5x2304xf32>
  %t = kerf.transpose %x perm [1, 0] : tensor<64x80xbf16>
  exec.yield %s, %t : tensor<5x2304xf32>, tensor<80x64xbf16>
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
// Eight or four threads for a row; rows that leave part of a warp idle have all.
exec.kernel @row_of_eight(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %y = kerf.softmax %x : tensor<64x64xf32>
  exec.yield %y : tensor<64x64xf32>
}
exec.kernel @row_of_four(%x: tensor<24x40xbf16>) -> (tensor<24x40xbf16>, tensor<24xf32>) {
  %w = kerf.cast %x : tensor<24x40xbf16> -> tensor<24x40xf32>
  %m = kerf.reduce max %w dims [1] : tensor<24x40xf32>
  %y = kerf.softmax %x : tensor<24x40xbf16>
  exec.yield %y, %m : tensor<24x40xbf16>, tensor<24xf32>
}
exec.kernel @row_of_eight_in_place(%x: tensor<20x64xf32>) -> tensor<20x64xf32> attributes {inplace = [[0, 0]]} {
  %s = kerf.reduce sum %x dims [1] : tensor<20x64xf32>
  %b = kerf.broadcast %s dims [0] : tensor<20xf32> -> tensor<20x64xf32>
  %y = kerf.mul %x, %b : tensor<20x64xf32>
  exec.yield %y : tensor<20x64xf32>
}
exec.kernel @rows_odd(%x: tensor<7x64xf32>) -> tensor<7x64xf32> {
  %y = kerf.softmax %x : tensor<7x64xf32>
  exec.yield %y : tensor<7x64xf32>
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
// The maximum and the sum of exponentials below it in one loop: the maximum grows
// all along the row, falls, and is masked at first.
exec.kernel @row_that_grows(%x: tensor<3x5008xf32> {test.range = [0.0, 1.0]}) -> tensor<3x5008xf32> {
  %i = kerf.iota dim 1 : tensor<3x5008xi32>
  %n = kerf.cast %i : tensor<3x5008xi32> -> tensor<3x5008xf32>
  %c = kerf.constant dense<0.05> : tensor<3x5008xf32>
  %up = kerf.mul %n, %c : tensor<3x5008xf32>
  %z = kerf.add %x, %up : tensor<3x5008xf32>
  %y = kerf.softmax %z : tensor<3x5008xf32>
  exec.yield %y : tensor<3x5008xf32>
}
exec.kernel @row_that_falls(%x: tensor<3x5008xbf16> {test.range = [0.0, 1.0]}) -> tensor<3x5008xf32> {
  %i = kerf.iota dim 1 : tensor<3x5008xi32>
  %n = kerf.cast %i : tensor<3x5008xi32> -> tensor<3x5008xf32>
  %c = kerf.constant dense<-0.05> : tensor<3x5008xf32>
  %down = kerf.mul %n, %c : tensor<3x5008xf32>
  %w = kerf.cast %x : tensor<3x5008xbf16> -> tensor<3x5008xf32>
  %z = kerf.add %w, %down : tensor<3x5008xf32>
  %y = kerf.softmax %z : tensor<3x5008xf32>
  exec.yield %y : tensor<3x5008xf32>
}
exec.kernel @row_that_begins_masked(%x: tensor<2x40960xf32>) -> tensor<2x40960xf32> {
  %i = kerf.iota dim 1 : tensor<2x40960xi32>
  %c = kerf.constant dense<40003> : tensor<2x40960xi32>
  %open = kerf.compare gt %i, %c : tensor<2x40960xi32>
  %none = kerf.constant dense<0xFF800000> : tensor<2x40960xf32>
  %z = kerf.select %open, %x, %none : tensor<2x40960xf32>
  %y = kerf.softmax %z : tensor<2x40960xf32>
  exec.yield %y : tensor<2x40960xf32>
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
// No two tokens have one row: rows without any, tokens without a row, one row for
// each block and many, what is there already, columns that no vector divides.
exec.kernel @placed(%x: tensor<500x48xf32>) -> tensor<990x48xf32> {
  %i = kerf.iota dim 0 : tensor<500xi32>
  %two = kerf.constant dense<2> : tensor<500xi32>
  %four = kerf.constant dense<4> : tensor<500xi32>
  %d = kerf.mul %i, %two : tensor<500xi32>
  %r = kerf.sub %d, %four : tensor<500xi32>
  %y = kerf.scatter_add %x, %r {distinct} : tensor<500x48xf32>, tensor<500xi32> -> tensor<990x48xf32>
  exec.yield %y : tensor<990x48xf32>
}
exec.kernel @placed_few(%x: tensor<3000x1024xbf16>) -> tensor<40x1024xbf16> {
  %i = kerf.iota dim 0 : tensor<3000xi32>
  %last = kerf.constant dense<2990> : tensor<3000xi32>
  %r = kerf.sub %last, %i : tensor<3000xi32>
  %y = kerf.scatter_add %x, %r {distinct} : tensor<3000x1024xbf16>, tensor<3000xi32> -> tensor<40x1024xbf16>
  exec.yield %y : tensor<40x1024xbf16>
}
exec.kernel @placed_into(%x: tensor<50x65xf32>, %z: tensor<90x65xf32>) -> tensor<90x65xf32> attributes {inplace = [[0, 1]]} {
  %i = kerf.iota dim 0 : tensor<50xi32>
  %r = kerf.add %i, %i : tensor<50xi32>
  %y = kerf.scatter_add %x, %r {distinct} : tensor<50x65xf32>, tensor<50xi32> -> tensor<90x65xf32>
  %w = kerf.add %z, %y : tensor<90x65xf32>
  exec.yield %w : tensor<90x65xf32>
}
// Sums of rows that no power of two deals out: five narrow vectors a thread.
exec.kernel @odd_chunks(%x: tensor<700x1600xbf16>, %d: tensor<700x1600xbf16>, %g: tensor<1600xf32>) -> (tensor<700x1600xbf16>, tensor<1600xf32>, tensor<1600xf32>) {
  %dx = kerf.layer_norm_backward %x, %g, %d eps 1.0e-5 : tensor<700x1600xbf16>, tensor<1600xf32>
  %dg = kerf.layer_norm_weight_gradient %x, %d eps 1.0e-5 : tensor<700x1600xbf16> -> tensor<1600xf32>
  %w = kerf.cast %d : tensor<700x1600xbf16> -> tensor<700x1600xf32>
  %db = kerf.reduce sum %w dims [0] : tensor<700x1600xf32>
  exec.yield %dx, %dg, %db : tensor<700x1600xbf16>, tensor<1600xf32>, tensor<1600xf32>
}
// Rows of experts: a sum is made where its rows are looked up, and the residual is
// added to what they sum to; slots of one table for three groups.
exec.kernel @looked_up(%a: tensor<2x24x40xbf16>, %b: tensor<2x24x40xbf16>, %i: tensor<3x8x2xi32> {test.range = [-1, 48]}, %w: tensor<3x8x2xf32>, %x: tensor<3x8x40xbf16>) -> tensor<3x8x40xbf16> {
  %r = kerf.add %a, %b : tensor<2x24x40xbf16>
  %one = kerf.reshape %r : tensor<2x24x40xbf16> -> tensor<1x48x40xbf16>
  %c = kerf.combine %one, %i weights %w : tensor<3x8x2xf32> : tensor<1x48x40xbf16>, tensor<3x8x2xi32>
  %y = kerf.add %x, %c : tensor<3x8x40xbf16>
  exec.yield %y : tensor<3x8x40xbf16>
}
exec.kernel @joint_slots(%e: tensor<3x16xi32> {test.range = [0, 4]}) -> (tensor<3x16xi32>, tensor<3x4xi32>) {
  %spread = kerf.broadcast %e dims [0, 1] : tensor<3x16xi32> -> tensor<3x16x4xi32>
  %number = kerf.iota dim 2 : tensor<3x16x4xi32>
  %is = kerf.compare eq %spread, %number : tensor<3x16x4xi32>
  %hot = kerf.cast %is : tensor<3x16x4xi1> -> tensor<3x16x4xi32>
  %before = kerf.cumsum %hot dim 1 : tensor<3x16x4xi32>
  %own = kerf.mul %hot, %before : tensor<3x16x4xi32>
  %rank = kerf.reduce sum %own dims [2] : tensor<3x16x4xi32>
  %sizes = kerf.reduce sum %hot dims [1] : tensor<3x16x4xi32>
  %total = kerf.reduce sum %sizes dims [0] : tensor<3x4xi32>
  %lower = kerf.cumsum %total dim 0 : tensor<4xi32>
  %earlier = kerf.cumsum %sizes dim 0 : tensor<3x4xi32>
  %lower2 = kerf.broadcast %lower dims [1] : tensor<4xi32> -> tensor<3x4xi32>
  %start = kerf.add %earlier, %lower2 : tensor<3x4xi32>
  %start2 = kerf.broadcast %start dims [0, 2] : tensor<3x4xi32> -> tensor<3x16x4xi32>
  %first = kerf.mul %hot, %start2 : tensor<3x16x4xi32>
  %begin = kerf.reduce sum %first dims [2] : tensor<3x16x4xi32>
  %slot = kerf.add %begin, %rank : tensor<3x16xi32>
  exec.yield %slot, %start : tensor<3x16xi32>, tensor<3x4xi32>
}
// Short sums of other rows than the result's.
exec.kernel @route_of_few(%l: tensor<2x50x8xbf16>, %e: tensor<2x50x3xi32> {test.range = [0, 8]}, %d: tensor<2x50x3xf32>) -> tensor<2x50x8xbf16> {
  %y = kerf.route_backward %l, %e, %d renormalize : tensor<2x50x8xbf16>, tensor<2x50x3xi32>, tensor<2x50x3xf32>
  exec.yield %y : tensor<2x50x8xbf16>
}
exec.kernel @route_of_sixteen(%l: tensor<1x33x16xf32>, %e: tensor<1x33x5xi32> {test.range = [0, 16]}, %d: tensor<1x33x5xf32>) -> tensor<1x33x16xf32> {
  %y = kerf.route_backward %l, %e, %d renormalize : tensor<1x33x16xf32>, tensor<1x33x5xi32>, tensor<1x33x5xf32>
  exec.yield %y : tensor<1x33x16xf32>
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

// Rows with padding after column 1027 and a target, which need not be a column:
// the loop is cut where padding begins, the target is read by itself.
exec.kernel @padded_loss(%x: tensor<5x1032xbf16>, %i: tensor<5xi32> {test.range = [-300, 1032]}) -> (tensor<5xf32>, tensor<5x1032xbf16>) {
  %end = kerf.constant dense<1027> : tensor<5x1032xi32>
  %none = kerf.constant dense<0xFF80> : tensor<5x1032xbf16>
  %zero = kerf.constant dense<0.0> : tensor<5x1032xf32>
  %one = kerf.constant dense<1.0> : tensor<5x1032xf32>
  %column = kerf.iota dim 1 : tensor<5x1032xi32>
  %isReal = kerf.compare lt %column, %end : tensor<5x1032xi32>
  %logits = kerf.select %isReal, %x, %none : tensor<5x1032xbf16>
  %wide = kerf.cast %logits : tensor<5x1032xbf16> -> tensor<5x1032xf32>
  %most = kerf.reduce max %wide dims [1] : tensor<5x1032xf32>
  %most2 = kerf.broadcast %most dims [0] : tensor<5xf32> -> tensor<5x1032xf32>
  %less = kerf.sub %wide, %most2 : tensor<5x1032xf32>
  %power = kerf.exp %less : tensor<5x1032xf32>
  %sum = kerf.reduce sum %power dims [1] : tensor<5x1032xf32>
  %target = kerf.broadcast %i dims [0] : tensor<5xi32> -> tensor<5x1032xi32>
  %isTarget = kerf.compare eq %column, %target : tensor<5x1032xi32>
  %own = kerf.select %isTarget, %less, %zero : tensor<5x1032xf32>
  %picked = kerf.reduce sum %own dims [1] : tensor<5x1032xf32>
  %log = kerf.log %sum : tensor<5xf32>
  %loss = kerf.sub %log, %picked : tensor<5xf32>
  %sum2 = kerf.broadcast %sum dims [0] : tensor<5xf32> -> tensor<5x1032xf32>
  %part = kerf.div %power, %sum2 : tensor<5x1032xf32>
  %hot = kerf.select %isTarget, %one, %zero : tensor<5x1032xf32>
  %gradient = kerf.sub %part, %hot : tensor<5x1032xf32>
  %narrow = kerf.cast %gradient : tensor<5x1032xf32> -> tensor<5x1032xbf16>
  exec.yield %loss, %narrow : tensor<5xf32>, tensor<5x1032xbf16>
}
// A loss over rows that do not fit registers: the row is read for the maximum, the
// sum and the target at once, and overwritten by its gradient.
exec.kernel @long_loss(%x: tensor<3x5008xbf16>, %i: tensor<3xi32> {test.range = [-30, 5008]}) -> (tensor<3xf32>, tensor<3x5008xbf16>) attributes {inplace = [[1, 0]]} {
  %end = kerf.constant dense<4999> : tensor<3x5008xi32>
  %none = kerf.constant dense<0xFF80> : tensor<3x5008xbf16>
  %zero = kerf.constant dense<0.0> : tensor<3x5008xf32>
  %column = kerf.iota dim 1 : tensor<3x5008xi32>
  %isReal = kerf.compare lt %column, %end : tensor<3x5008xi32>
  %logits = kerf.select %isReal, %x, %none : tensor<3x5008xbf16>
  %wide = kerf.cast %logits : tensor<3x5008xbf16> -> tensor<3x5008xf32>
  %most = kerf.reduce max %wide dims [1] : tensor<3x5008xf32>
  %most2 = kerf.broadcast %most dims [0] : tensor<3xf32> -> tensor<3x5008xf32>
  %less = kerf.sub %wide, %most2 : tensor<3x5008xf32>
  %power = kerf.exp %less : tensor<3x5008xf32>
  %sum = kerf.reduce sum %power dims [1] : tensor<3x5008xf32>
  %target = kerf.broadcast %i dims [0] : tensor<3xi32> -> tensor<3x5008xi32>
  %isTarget = kerf.compare eq %column, %target : tensor<3x5008xi32>
  %own = kerf.select %isTarget, %wide, %zero : tensor<3x5008xf32>
  %picked = kerf.reduce sum %own dims [1] : tensor<3x5008xf32>
  %log = kerf.log %sum : tensor<3xf32>
  %lse = kerf.add %most, %log : tensor<3xf32>
  %loss = kerf.sub %lse, %picked : tensor<3xf32>
  %lse2 = kerf.broadcast %lse dims [0] : tensor<3xf32> -> tensor<3x5008xf32>
  %below = kerf.sub %wide, %lse2 : tensor<3x5008xf32>
  %part = kerf.exp %below : tensor<3x5008xf32>
  %hot = kerf.cast %isTarget : tensor<3x5008xi1> -> tensor<3x5008xf32>
  %gradient = kerf.sub %part, %hot : tensor<3x5008xf32>
  %narrow = kerf.cast %gradient : tensor<3x5008xf32> -> tensor<3x5008xbf16>
  exec.yield %loss, %narrow : tensor<3xf32>, tensor<3x5008xbf16>
}
exec.kernel @pick_alone(%x: tensor<40x77xf32>, %i: tensor<40xi32> {test.range = [-20, 90]}) -> tensor<40xf32> {
  %zero = kerf.constant dense<0.0> : tensor<40x77xf32>
  %column = kerf.iota dim 1 : tensor<40x77xi32>
  %target = kerf.broadcast %i dims [0] : tensor<40xi32> -> tensor<40x77xi32>
  %isTarget = kerf.compare eq %target, %column : tensor<40x77xi32>
  %own = kerf.select %isTarget, %x, %zero : tensor<40x77xf32>
  %picked = kerf.reduce sum %own dims [1] : tensor<40x77xf32>
  exec.yield %picked : tensor<40xf32>
}
// All threads of the block, or of the warp, read what one of them overwrites.
exec.kernel @pick_in_place(%x: tensor<3x2304xf32>, %i: tensor<3xi32> {test.range = [0, 2304]}) -> tensor<3x2304xf32> attributes {inplace = [[0, 0]]} {
  %zero = kerf.constant dense<0.0> : tensor<3x2304xf32>
  %column = kerf.iota dim 1 : tensor<3x2304xi32>
  %target = kerf.broadcast %i dims [0] : tensor<3xi32> -> tensor<3x2304xi32>
  %isTarget = kerf.compare eq %column, %target : tensor<3x2304xi32>
  %own = kerf.select %isTarget, %x, %zero : tensor<3x2304xf32>
  %picked = kerf.reduce sum %own dims [1] : tensor<3x2304xf32>
  %all = kerf.broadcast %picked dims [0] : tensor<3xf32> -> tensor<3x2304xf32>
  %y = kerf.sub %x, %all : tensor<3x2304xf32>
  exec.yield %y : tensor<3x2304xf32>
}
exec.kernel @pick_in_place_warp(%x: tensor<9x128xf32>, %i: tensor<9xi32> {test.range = [0, 128]}) -> tensor<9x128xf32> attributes {inplace = [[0, 0]]} {
  %zero = kerf.constant dense<0.0> : tensor<9x128xf32>
  %column = kerf.iota dim 1 : tensor<9x128xi32>
  %target = kerf.broadcast %i dims [0] : tensor<9xi32> -> tensor<9x128xi32>
  %isTarget = kerf.compare eq %column, %target : tensor<9x128xi32>
  %own = kerf.select %isTarget, %x, %zero : tensor<9x128xf32>
  %picked = kerf.reduce sum %own dims [1] : tensor<9x128xf32>
  %all = kerf.broadcast %picked dims [0] : tensor<9xf32> -> tensor<9x128xf32>
  %y = kerf.sub %x, %all : tensor<9x128xf32>
  exec.yield %y : tensor<9x128xf32>
}

// Few sums of many addends: a block's warps share them. What follows a sum, and
// a sum of sums.
exec.kernel @few_sums(%x: tensor<200x96xf32>, %y: tensor<96x96xf32>, %z: tensor<2x48xf32>) -> (tensor<2x48xf32>, tensor<96xbf16>) {
  %a = kerf.reduce sum %x dims [0] : tensor<200x96xf32>
  %b = kerf.reshape %a : tensor<96xf32> -> tensor<2x48xf32>
  %c = kerf.add %b, %z : tensor<2x48xf32>
  %d = kerf.reduce max %y dims [0] : tensor<96x96xf32>
  %e = kerf.mul %a, %d : tensor<96xf32>
  %f = kerf.cast %e : tensor<96xf32> -> tensor<96xbf16>
  exec.yield %c, %f : tensor<2x48xf32>, tensor<96xbf16>
}
exec.kernel @few_sums_nested(%x: tensor<70x6x64xf32>) -> tensor<64xf32> {
  %a = kerf.reduce sum %x dims [1] : tensor<70x6x64xf32>
  %b = kerf.mul %a, %a : tensor<70x64xf32>
  %c = kerf.reduce sum %b dims [0] : tensor<70x64xf32>
  exec.yield %c : tensor<64xf32>
}
exec.kernel @few_sums_odd(%x: tensor<200x90xf32>) -> tensor<90xf32> {
  %a = kerf.reduce sum %x dims [0] : tensor<200x90xf32>
  exec.yield %a : tensor<90xf32>
}

// One row of a table in place; one row beside many, which only its block may
// compute.
exec.kernel @one_row(%x: tensor<100x256xf32>, %i: tensor<100xi32> {test.range = [-3, 6]}, %z: tensor<1x256xf32>) -> tensor<1x256xf32> attributes {inplace = [[0, 2]]} {
  %y = kerf.scatter_add %x, %i : tensor<100x256xf32>, tensor<100xi32> -> tensor<1x256xf32>
  %s = kerf.add %z, %y : tensor<1x256xf32>
  exec.yield %s : tensor<1x256xf32>
}
exec.kernel @one_row_part(%a: tensor<1x2304xf32>, %b: tensor<200x64xf32>) -> (tensor<1x2304xf32>, tensor<200x64xf32>) attributes {inplace = [[0, 0]]} {
  %s = kerf.softmax %a : tensor<1x2304xf32>
  %t = kerf.softmax %b : tensor<200x64xf32>
  exec.yield %s, %t : tensor<1x2304xf32>, tensor<200x64xf32>
}

// No sums, of no elements.
exec.kernel @empty_sums(%x: tensor<64x0x4xf32>) -> tensor<8x4xf32> {
  %s = kerf.reduce sum %x dims [0] : tensor<64x0x4xf32>
  %y = kerf.pad %s low [0, 0] high [8, 0] : tensor<0x4xf32>
  exec.yield %y : tensor<8x4xf32>
}

// Few rows, of 288 vectors.
exec.kernel @nine_warps(%x: tensor<4x2304xbf16>) -> tensor<4x2304xbf16> {
  %w = kerf.cast %x : tensor<4x2304xbf16> -> tensor<4x2304xf32>
  %s = kerf.reduce sum %w dims [1] : tensor<4x2304xf32>
  %b = kerf.broadcast %s dims [0] : tensor<4xf32> -> tensor<4x2304xf32>
  %z = kerf.add %w, %b : tensor<4x2304xf32>
  %y = kerf.cast %z : tensor<4x2304xf32> -> tensor<4x2304xbf16>
  exec.yield %y : tensor<4x2304xbf16>
}
