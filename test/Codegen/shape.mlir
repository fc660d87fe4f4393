// Ops that move elements, alone and combined.
// RUN: kerf-kernels %s | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v2 | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v3 | FileCheck %s
// CHECK-COUNT-71: ok,
// CHECK-NOT: {{ok|WRONG}}

exec.kernel @broadcast_f32_0(%x: tensor<16xf32>) -> (tensor<4x16xf32>) {
  %y = kerf.broadcast %x dims [1] : tensor<16xf32> -> tensor<4x16xf32>
  exec.yield %y : tensor<4x16xf32>
}

exec.kernel @broadcast_f32_1(%x: tensor<7xf32>) -> (tensor<7x5xf32>) {
  %y = kerf.broadcast %x dims [0] : tensor<7xf32> -> tensor<7x5xf32>
  exec.yield %y : tensor<7x5xf32>
}

exec.kernel @broadcast_f32_2(%x: tensor<3x65xf32>) -> (tensor<3x2x65xf32>) {
  %y = kerf.broadcast %x dims [0, 2] : tensor<3x65xf32> -> tensor<3x2x65xf32>
  exec.yield %y : tensor<3x2x65xf32>
}

exec.kernel @broadcast_f32_3(%x: tensor<f32>) -> (tensor<9xf32>) {
  %y = kerf.broadcast %x dims [] : tensor<f32> -> tensor<9xf32>
  exec.yield %y : tensor<9xf32>
}

exec.kernel @broadcast_f32_4(%x: tensor<1x64xf32>) -> (tensor<1x3x64xf32>) {
  %y = kerf.broadcast %x dims [0, 2] : tensor<1x64xf32> -> tensor<1x3x64xf32>
  exec.yield %y : tensor<1x3x64xf32>
}

exec.kernel @broadcast_f32_5(%x: tensor<33xf32>) -> (tensor<2x33x3xf32>) {
  %y = kerf.broadcast %x dims [1] : tensor<33xf32> -> tensor<2x33x3xf32>
  exec.yield %y : tensor<2x33x3xf32>
}

exec.kernel @broadcast_i32_6(%x: tensor<16xi32>) -> (tensor<4x16xi32>) {
  %y = kerf.broadcast %x dims [1] : tensor<16xi32> -> tensor<4x16xi32>
  exec.yield %y : tensor<4x16xi32>
}

exec.kernel @broadcast_i32_7(%x: tensor<7xi32>) -> (tensor<7x5xi32>) {
  %y = kerf.broadcast %x dims [0] : tensor<7xi32> -> tensor<7x5xi32>
  exec.yield %y : tensor<7x5xi32>
}

exec.kernel @broadcast_i32_8(%x: tensor<3x65xi32>) -> (tensor<3x2x65xi32>) {
  %y = kerf.broadcast %x dims [0, 2] : tensor<3x65xi32> -> tensor<3x2x65xi32>
  exec.yield %y : tensor<3x2x65xi32>
}

exec.kernel @broadcast_i32_9(%x: tensor<i32>) -> (tensor<9xi32>) {
  %y = kerf.broadcast %x dims [] : tensor<i32> -> tensor<9xi32>
  exec.yield %y : tensor<9xi32>
}

exec.kernel @broadcast_i32_10(%x: tensor<1x64xi32>) -> (tensor<1x3x64xi32>) {
  %y = kerf.broadcast %x dims [0, 2] : tensor<1x64xi32> -> tensor<1x3x64xi32>
  exec.yield %y : tensor<1x3x64xi32>
}

exec.kernel @broadcast_i32_11(%x: tensor<33xi32>) -> (tensor<2x33x3xi32>) {
  %y = kerf.broadcast %x dims [1] : tensor<33xi32> -> tensor<2x33x3xi32>
  exec.yield %y : tensor<2x33x3xi32>
}

exec.kernel @broadcast_bf16_12(%x: tensor<16xbf16>) -> (tensor<4x16xbf16>) {
  %y = kerf.broadcast %x dims [1] : tensor<16xbf16> -> tensor<4x16xbf16>
  exec.yield %y : tensor<4x16xbf16>
}

exec.kernel @broadcast_bf16_13(%x: tensor<7xbf16>) -> (tensor<7x5xbf16>) {
  %y = kerf.broadcast %x dims [0] : tensor<7xbf16> -> tensor<7x5xbf16>
  exec.yield %y : tensor<7x5xbf16>
}

exec.kernel @broadcast_bf16_14(%x: tensor<3x65xbf16>) -> (tensor<3x2x65xbf16>) {
  %y = kerf.broadcast %x dims [0, 2] : tensor<3x65xbf16> -> tensor<3x2x65xbf16>
  exec.yield %y : tensor<3x2x65xbf16>
}

exec.kernel @broadcast_bf16_15(%x: tensor<bf16>) -> (tensor<9xbf16>) {
  %y = kerf.broadcast %x dims [] : tensor<bf16> -> tensor<9xbf16>
  exec.yield %y : tensor<9xbf16>
}

exec.kernel @broadcast_bf16_16(%x: tensor<1x64xbf16>) -> (tensor<1x3x64xbf16>) {
  %y = kerf.broadcast %x dims [0, 2] : tensor<1x64xbf16> -> tensor<1x3x64xbf16>
  exec.yield %y : tensor<1x3x64xbf16>
}

exec.kernel @broadcast_bf16_17(%x: tensor<33xbf16>) -> (tensor<2x33x3xbf16>) {
  %y = kerf.broadcast %x dims [1] : tensor<33xbf16> -> tensor<2x33x3xbf16>
  exec.yield %y : tensor<2x33x3xbf16>
}

exec.kernel @reshape_18(%x: tensor<4x6xf32>, %z: tensor<4x2x3xf32>) -> (tensor<4x2x3xf32>) {
  %y = kerf.reshape %x : tensor<4x6xf32> -> tensor<4x2x3xf32>
  %w = kerf.mul %y, %z : tensor<4x2x3xf32>
  exec.yield %w : tensor<4x2x3xf32>
}

exec.kernel @reshape_19(%x: tensor<2x3x64xf32>, %z: tensor<6x64xf32>) -> (tensor<6x64xf32>) {
  %y = kerf.reshape %x : tensor<2x3x64xf32> -> tensor<6x64xf32>
  %w = kerf.mul %y, %z : tensor<6x64xf32>
  exec.yield %w : tensor<6x64xf32>
}

exec.kernel @reshape_20(%x: tensor<12x5xf32>, %z: tensor<5x12xf32>) -> (tensor<5x12xf32>) {
  %y = kerf.reshape %x : tensor<12x5xf32> -> tensor<5x12xf32>
  %w = kerf.mul %y, %z : tensor<5x12xf32>
  exec.yield %w : tensor<5x12xf32>
}

exec.kernel @reshape_21(%x: tensor<1x7x1xf32>, %z: tensor<7xf32>) -> (tensor<7xf32>) {
  %y = kerf.reshape %x : tensor<1x7x1xf32> -> tensor<7xf32>
  %w = kerf.mul %y, %z : tensor<7xf32>
  exec.yield %w : tensor<7xf32>
}

exec.kernel @reshape_22(%x: tensor<8x96xf32>, %z: tensor<8x12x8xf32>) -> (tensor<8x12x8xf32>) {
  %y = kerf.reshape %x : tensor<8x96xf32> -> tensor<8x12x8xf32>
  %w = kerf.mul %y, %z : tensor<8x12x8xf32>
  exec.yield %w : tensor<8x12x8xf32>
}

exec.kernel @reshape_23(%x: tensor<130xf32>, %z: tensor<2x65xf32>) -> (tensor<2x65xf32>) {
  %y = kerf.reshape %x : tensor<130xf32> -> tensor<2x65xf32>
  %w = kerf.mul %y, %z : tensor<2x65xf32>
  exec.yield %w : tensor<2x65xf32>
}

exec.kernel @transpose_24(%x: tensor<4x6xf32>) -> (tensor<6x4xf32>) {
  %y = kerf.transpose %x perm [1, 0] : tensor<4x6xf32>
  exec.yield %y : tensor<6x4xf32>
}

exec.kernel @transpose_25(%x: tensor<4x6xbf16>) -> (tensor<6x4xbf16>) {
  %y = kerf.transpose %x perm [1, 0] : tensor<4x6xbf16>
  exec.yield %y : tensor<6x4xbf16>
}

exec.kernel @transpose_26(%x: tensor<2x5x3x64xf32>) -> (tensor<2x3x5x64xf32>) {
  %y = kerf.transpose %x perm [0, 2, 1, 3] : tensor<2x5x3x64xf32>
  exec.yield %y : tensor<2x3x5x64xf32>
}

exec.kernel @transpose_27(%x: tensor<2x5x3x64xbf16>) -> (tensor<2x3x5x64xbf16>) {
  %y = kerf.transpose %x perm [0, 2, 1, 3] : tensor<2x5x3x64xbf16>
  exec.yield %y : tensor<2x3x5x64xbf16>
}

exec.kernel @transpose_28(%x: tensor<3x17x33xf32>) -> (tensor<33x3x17xf32>) {
  %y = kerf.transpose %x perm [2, 0, 1] : tensor<3x17x33xf32>
  exec.yield %y : tensor<33x3x17xf32>
}

exec.kernel @transpose_29(%x: tensor<3x17x33xbf16>) -> (tensor<33x3x17xbf16>) {
  %y = kerf.transpose %x perm [2, 0, 1] : tensor<3x17x33xbf16>
  exec.yield %y : tensor<33x3x17xbf16>
}

exec.kernel @transpose_30(%x: tensor<2x64x65xf32>) -> (tensor<2x65x64xf32>) {
  %y = kerf.transpose %x perm [0, 2, 1] : tensor<2x64x65xf32>
  exec.yield %y : tensor<2x65x64xf32>
}

exec.kernel @transpose_31(%x: tensor<2x64x65xbf16>) -> (tensor<2x65x64xbf16>) {
  %y = kerf.transpose %x perm [0, 2, 1] : tensor<2x64x65xbf16>
  exec.yield %y : tensor<2x65x64xbf16>
}

exec.kernel @slice_32(%x: tensor<4x6xf32>) -> (tensor<4x2xf32>) {
  %y = kerf.slice %x offsets [0, 2] sizes [4, 2] : tensor<4x6xf32>
  exec.yield %y : tensor<4x2xf32>
}

exec.kernel @pad_33(%x: tensor<4x2xf32>) -> (tensor<4x6xf32>) {
  %y = kerf.pad %x low [0, 2] high [0, 2] : tensor<4x2xf32>
  exec.yield %y : tensor<4x6xf32>
}

exec.kernel @slice_34(%x: tensor<4x6xbf16>) -> (tensor<4x2xbf16>) {
  %y = kerf.slice %x offsets [0, 2] sizes [4, 2] : tensor<4x6xbf16>
  exec.yield %y : tensor<4x2xbf16>
}

exec.kernel @pad_35(%x: tensor<4x2xbf16>) -> (tensor<4x6xbf16>) {
  %y = kerf.pad %x low [0, 2] high [0, 2] : tensor<4x2xbf16>
  exec.yield %y : tensor<4x6xbf16>
}

exec.kernel @slice_36(%x: tensor<2x8x96xf32>) -> (tensor<2x8x32xf32>) {
  %y = kerf.slice %x offsets [0, 0, 32] sizes [2, 8, 32] : tensor<2x8x96xf32>
  exec.yield %y : tensor<2x8x32xf32>
}

exec.kernel @pad_37(%x: tensor<2x8x32xf32>) -> (tensor<2x8x96xf32>) {
  %y = kerf.pad %x low [0, 0, 32] high [0, 0, 32] : tensor<2x8x32xf32>
  exec.yield %y : tensor<2x8x96xf32>
}

exec.kernel @slice_38(%x: tensor<2x8x96xbf16>) -> (tensor<2x8x32xbf16>) {
  %y = kerf.slice %x offsets [0, 0, 32] sizes [2, 8, 32] : tensor<2x8x96xbf16>
  exec.yield %y : tensor<2x8x32xbf16>
}

exec.kernel @pad_39(%x: tensor<2x8x32xbf16>) -> (tensor<2x8x96xbf16>) {
  %y = kerf.pad %x low [0, 0, 32] high [0, 0, 32] : tensor<2x8x32xbf16>
  exec.yield %y : tensor<2x8x96xbf16>
}

exec.kernel @slice_40(%x: tensor<5x70xf32>) -> (tensor<3x65xf32>) {
  %y = kerf.slice %x offsets [1, 3] sizes [3, 65] : tensor<5x70xf32>
  exec.yield %y : tensor<3x65xf32>
}

exec.kernel @pad_41(%x: tensor<3x65xf32>) -> (tensor<5x70xf32>) {
  %y = kerf.pad %x low [1, 3] high [1, 2] : tensor<3x65xf32>
  exec.yield %y : tensor<5x70xf32>
}

exec.kernel @slice_42(%x: tensor<5x70xbf16>) -> (tensor<3x65xbf16>) {
  %y = kerf.slice %x offsets [1, 3] sizes [3, 65] : tensor<5x70xbf16>
  exec.yield %y : tensor<3x65xbf16>
}

exec.kernel @pad_43(%x: tensor<3x65xbf16>) -> (tensor<5x70xbf16>) {
  %y = kerf.pad %x low [1, 3] high [1, 2] : tensor<3x65xbf16>
  exec.yield %y : tensor<5x70xbf16>
}

exec.kernel @pad_sum(%a: tensor<2x8x32xf32>, %b: tensor<2x8x32xf32>, %c: tensor<2x8x32xf32>) -> (tensor<2x8x96xf32>) {
  %p0 = kerf.pad %a low [0, 0, 0] high [0, 0, 64] : tensor<2x8x32xf32>
  %p1 = kerf.pad %b low [0, 0, 32] high [0, 0, 32] : tensor<2x8x32xf32>
  %p2 = kerf.pad %c low [0, 0, 64] high [0, 0, 0] : tensor<2x8x32xf32>
  %s = kerf.add %p0, %p1 : tensor<2x8x96xf32>
  %t = kerf.add %s, %p2 : tensor<2x8x96xf32>
  exec.yield %t : tensor<2x8x96xf32>
}

exec.kernel @concat_45(%x0: tensor<4x2xf32>, %x1: tensor<3x2xf32>) -> (tensor<7x2xf32>) {
  %y = kerf.concat dim 0 %x0, %x1 : tensor<4x2xf32>, tensor<3x2xf32>
  exec.yield %y : tensor<7x2xf32>
}

exec.kernel @concat_46(%x0: tensor<4x2xi32>, %x1: tensor<3x2xi32>) -> (tensor<7x2xi32>) {
  %y = kerf.concat dim 0 %x0, %x1 : tensor<4x2xi32>, tensor<3x2xi32>
  exec.yield %y : tensor<7x2xi32>
}

exec.kernel @concat_47(%x0: tensor<4x32xf32>, %x1: tensor<4x32xf32>) -> (tensor<4x64xf32>) {
  %y = kerf.concat dim 1 %x0, %x1 : tensor<4x32xf32>, tensor<4x32xf32>
  exec.yield %y : tensor<4x64xf32>
}

exec.kernel @concat_48(%x0: tensor<4x32xi32>, %x1: tensor<4x32xi32>) -> (tensor<4x64xi32>) {
  %y = kerf.concat dim 1 %x0, %x1 : tensor<4x32xi32>, tensor<4x32xi32>
  exec.yield %y : tensor<4x64xi32>
}

exec.kernel @concat_49(%x0: tensor<3x5xf32>, %x1: tensor<3x64xf32>, %x2: tensor<3x1xf32>) -> (tensor<3x70xf32>) {
  %y = kerf.concat dim 1 %x0, %x1, %x2 : tensor<3x5xf32>, tensor<3x64xf32>, tensor<3x1xf32>
  exec.yield %y : tensor<3x70xf32>
}

exec.kernel @concat_50(%x0: tensor<3x5xi32>, %x1: tensor<3x64xi32>, %x2: tensor<3x1xi32>) -> (tensor<3x70xi32>) {
  %y = kerf.concat dim 1 %x0, %x1, %x2 : tensor<3x5xi32>, tensor<3x64xi32>, tensor<3x1xi32>
  exec.yield %y : tensor<3x70xi32>
}

exec.kernel @concat_51(%x0: tensor<2x3x32xf32>, %x1: tensor<2x3x64xf32>) -> (tensor<2x3x96xf32>) {
  %y = kerf.concat dim 2 %x0, %x1 : tensor<2x3x32xf32>, tensor<2x3x64xf32>
  exec.yield %y : tensor<2x3x96xf32>
}

exec.kernel @concat_52(%x0: tensor<2x3x32xi32>, %x1: tensor<2x3x64xi32>) -> (tensor<2x3x96xi32>) {
  %y = kerf.concat dim 2 %x0, %x1 : tensor<2x3x32xi32>, tensor<2x3x64xi32>
  exec.yield %y : tensor<2x3x96xi32>
}

exec.kernel @iota(%o: tensor<i32> {test.value = 5}) -> (tensor<2x70xi32>, tensor<2x70xi32>) {
  %y = kerf.iota dim 1 offset %o : tensor<2x70xi32>
  %z = kerf.iota dim 0 : tensor<2x70xi32>
  exec.yield %y, %z : tensor<2x70xi32>, tensor<2x70xi32>
}

exec.kernel @constants() -> (tensor<3xf32>, tensor<5xi1>, tensor<2x2xi32>, tensor<2xf32>, tensor<2xf64>) {
  %y = kerf.constant dense<[1.5, -2.0, 0.1]> : tensor<3xf32>
  %z = kerf.constant dense<true> : tensor<5xi1>
  %w = kerf.constant dense<[[1, 2], [3, -4]]> : tensor<2x2xi32>
  %a = kerf.constant dense<[0.1, 0.2]> : tensor<2xf64>
  %b = kerf.cast %a : tensor<2xf64> -> tensor<2xf32>
  exec.yield %y, %z, %w, %b, %a : tensor<3xf32>, tensor<5xi1>, tensor<2x2xi32>, tensor<2xf32>, tensor<2xf64>
}

exec.kernel @random(%s: tensor<i32>, %t: tensor<i32>) -> (tensor<3x65xf32>, tensor<3x65xf32>) {
  %u = kerf.random_uniform "drop" seed %s step %t : tensor<3x65xf32>
  %v = kerf.random_uniform "drop" seed %s step %t layer %t offsets(%s, %t) global [40, 80] : tensor<3x65xf32>
  exec.yield %u, %v : tensor<3x65xf32>, tensor<3x65xf32>
}

exec.kernel @gather_f32(%x: tensor<32x65xf32>, %i: tensor<3x5xi32> {test.range = [-3, 35]}) -> (tensor<3x5x65xf32>) {
  %y = kerf.gather %x, %i : tensor<32x65xf32>, tensor<3x5xi32>
  exec.yield %y : tensor<3x5x65xf32>
}

exec.kernel @gather_bf16(%x: tensor<32x65xbf16>, %i: tensor<3x5xi32> {test.range = [-3, 35]}) -> (tensor<3x5x65xbf16>) {
  %y = kerf.gather %x, %i : tensor<32x65xbf16>, tensor<3x5xi32>
  exec.yield %y : tensor<3x5x65xbf16>
}

exec.kernel @gather_i32(%x: tensor<32x65xi32>, %i: tensor<3x5xi32> {test.range = [-3, 35]}) -> (tensor<3x5x65xi32>) {
  %y = kerf.gather %x, %i : tensor<32x65xi32>, tensor<3x5xi32>
  exec.yield %y : tensor<3x5x65xi32>
}

exec.kernel @gather_scalars(%x: tensor<32xf32>, %i: tensor<70xi32> {test.range = [-3, 35]}) -> (tensor<70xf32>) {
  %y = kerf.gather %x, %i : tensor<32xf32>, tensor<70xi32>
  exec.yield %y : tensor<70xf32>
}

exec.kernel @gather_computed(%x: tensor<32x16xf32>, %i: tensor<9xi32> {test.range = [0, 32]}) -> (tensor<9x16xf32>) {
  %e = kerf.exp %x : tensor<32x16xf32>
  %j = kerf.add %i, %i : tensor<9xi32>
  %y = kerf.gather %e, %j : tensor<32x16xf32>, tensor<9xi32>
  exec.yield %y : tensor<9x16xf32>
}

exec.kernel @scatter_f32_32(%x: tensor<100x65xf32>, %i: tensor<100xi32> {test.range = [-2, 34]}) -> (tensor<32x65xf32>) {
  %y = kerf.scatter_add %x, %i : tensor<100x65xf32>, tensor<100xi32> -> tensor<32x65xf32>
  exec.yield %y : tensor<32x65xf32>
}

exec.kernel @scatter_f32_3(%x: tensor<50x16xf32>, %i: tensor<50xi32> {test.range = [-2, 5]}) -> (tensor<3x16xf32>) {
  %y = kerf.scatter_add %x, %i : tensor<50x16xf32>, tensor<50xi32> -> tensor<3x16xf32>
  exec.yield %y : tensor<3x16xf32>
}

exec.kernel @scatter_f32_1000(%x: tensor<7x64xf32>, %i: tensor<7xi32> {test.range = [-2, 1002]}) -> (tensor<1000x64xf32>) {
  %y = kerf.scatter_add %x, %i : tensor<7x64xf32>, tensor<7xi32> -> tensor<1000x64xf32>
  exec.yield %y : tensor<1000x64xf32>
}

exec.kernel @scatter_f32_5(%x: tensor<3x1xf32>, %i: tensor<3xi32> {test.range = [-2, 7]}) -> (tensor<5x1xf32>) {
  %y = kerf.scatter_add %x, %i : tensor<3x1xf32>, tensor<3xi32> -> tensor<5x1xf32>
  exec.yield %y : tensor<5x1xf32>
}

exec.kernel @scatter_i32_32(%x: tensor<100x65xi32>, %i: tensor<100xi32> {test.range = [-2, 34]}) -> (tensor<32x65xi32>) {
  %y = kerf.scatter_add %x, %i : tensor<100x65xi32>, tensor<100xi32> -> tensor<32x65xi32>
  exec.yield %y : tensor<32x65xi32>
}

exec.kernel @scatter_i32_3(%x: tensor<50x16xi32>, %i: tensor<50xi32> {test.range = [-2, 5]}) -> (tensor<3x16xi32>) {
  %y = kerf.scatter_add %x, %i : tensor<50x16xi32>, tensor<50xi32> -> tensor<3x16xi32>
  exec.yield %y : tensor<3x16xi32>
}

exec.kernel @scatter_i32_1000(%x: tensor<7x64xi32>, %i: tensor<7xi32> {test.range = [-2, 1002]}) -> (tensor<1000x64xi32>) {
  %y = kerf.scatter_add %x, %i : tensor<7x64xi32>, tensor<7xi32> -> tensor<1000x64xi32>
  exec.yield %y : tensor<1000x64xi32>
}

exec.kernel @scatter_i32_5(%x: tensor<3x1xi32>, %i: tensor<3xi32> {test.range = [-2, 7]}) -> (tensor<5x1xi32>) {
  %y = kerf.scatter_add %x, %i : tensor<3x1xi32>, tensor<3xi32> -> tensor<5x1xi32>
  exec.yield %y : tensor<5x1xi32>
}

exec.kernel @scatter_into(%x: tensor<50x65xf32>, %i: tensor<50xi32> {test.range = [0, 9]}, %z: tensor<9x65xf32>) -> (tensor<9x65xf32>) attributes {inplace = [[0, 2]]} {
  %y = kerf.scatter_add %x, %i : tensor<50x65xf32>, tensor<50xi32> -> tensor<9x65xf32>
  %w = kerf.add %z, %y : tensor<9x65xf32>
  exec.yield %w : tensor<9x65xf32>
}

exec.kernel @scatter_used(%x: tensor<50x65xf32>, %i: tensor<50xi32> {test.range = [0, 9]}) -> (tensor<9x65xf32>) {
  %y = kerf.scatter_add %x, %i : tensor<50x65xf32>, tensor<50xi32> -> tensor<9x65xf32>
  %w = kerf.exp %y : tensor<9x65xf32>
  exec.yield %w : tensor<9x65xf32>
}
