// Reductions and their relatives; large ones take two launches.
// RUN: kerf-kernels %s | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v2 | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v3 | FileCheck %s
// CHECK-COUNT-104: ok,
// CHECK-NOT: {{ok|WRONG}}

exec.kernel @sum_f32_0(%x: tensor<4x6xf32>) -> (tensor<4xf32>) {
  %y = kerf.reduce sum %x dims [1] : tensor<4x6xf32>
  exec.yield %y : tensor<4xf32>
}

exec.kernel @max_f32_1(%x: tensor<4x6xf32>) -> (tensor<4xf32>) {
  %y = kerf.reduce max %x dims [1] : tensor<4x6xf32>
  exec.yield %y : tensor<4xf32>
}

exec.kernel @sum_f32_2(%x: tensor<5x768xf32>) -> (tensor<5xf32>) {
  %y = kerf.reduce sum %x dims [1] : tensor<5x768xf32>
  exec.yield %y : tensor<5xf32>
}

exec.kernel @max_f32_3(%x: tensor<5x768xf32>) -> (tensor<5xf32>) {
  %y = kerf.reduce max %x dims [1] : tensor<5x768xf32>
  exec.yield %y : tensor<5xf32>
}

exec.kernel @sum_f32_4(%x: tensor<3x50257xf32>) -> (tensor<3xf32>) {
  %y = kerf.reduce sum %x dims [1] : tensor<3x50257xf32>
  exec.yield %y : tensor<3xf32>
}

exec.kernel @max_f32_5(%x: tensor<3x50257xf32>) -> (tensor<3xf32>) {
  %y = kerf.reduce max %x dims [1] : tensor<3x50257xf32>
  exec.yield %y : tensor<3xf32>
}

exec.kernel @sum_f32_6(%x: tensor<3x1733xf32>) -> (tensor<1733xf32>) {
  %y = kerf.reduce sum %x dims [0] : tensor<3x1733xf32>
  exec.yield %y : tensor<1733xf32>
}

exec.kernel @max_f32_7(%x: tensor<3x1733xf32>) -> (tensor<1733xf32>) {
  %y = kerf.reduce max %x dims [0] : tensor<3x1733xf32>
  exec.yield %y : tensor<1733xf32>
}

exec.kernel @sum_f32_8(%x: tensor<2x5x65xf32>) -> (tensor<65xf32>) {
  %y = kerf.reduce sum %x dims [0, 1] : tensor<2x5x65xf32>
  exec.yield %y : tensor<65xf32>
}

exec.kernel @max_f32_9(%x: tensor<2x5x65xf32>) -> (tensor<65xf32>) {
  %y = kerf.reduce max %x dims [0, 1] : tensor<2x5x65xf32>
  exec.yield %y : tensor<65xf32>
}

exec.kernel @sum_f32_10(%x: tensor<2x3x64xf32>) -> (tensor<2x64xf32>) {
  %y = kerf.reduce sum %x dims [1] : tensor<2x3x64xf32>
  exec.yield %y : tensor<2x64xf32>
}

exec.kernel @max_f32_11(%x: tensor<2x3x64xf32>) -> (tensor<2x64xf32>) {
  %y = kerf.reduce max %x dims [1] : tensor<2x3x64xf32>
  exec.yield %y : tensor<2x64xf32>
}

exec.kernel @sum_f32_12(%x: tensor<3x16x5xf32>) -> (tensor<3xf32>) {
  %y = kerf.reduce sum %x dims [1, 2] : tensor<3x16x5xf32>
  exec.yield %y : tensor<3xf32>
}

exec.kernel @max_f32_13(%x: tensor<3x16x5xf32>) -> (tensor<3xf32>) {
  %y = kerf.reduce max %x dims [1, 2] : tensor<3x16x5xf32>
  exec.yield %y : tensor<3xf32>
}

exec.kernel @sum_f32_14(%x: tensor<2x3x7x65xf32>) -> (tensor<2x65xf32>) {
  %y = kerf.reduce sum %x dims [1, 2] : tensor<2x3x7x65xf32>
  exec.yield %y : tensor<2x65xf32>
}

exec.kernel @max_f32_15(%x: tensor<2x3x7x65xf32>) -> (tensor<2x65xf32>) {
  %y = kerf.reduce max %x dims [1, 2] : tensor<2x3x7x65xf32>
  exec.yield %y : tensor<2x65xf32>
}

exec.kernel @sum_f32_16(%x: tensor<7xf32>) -> (tensor<f32>) {
  %y = kerf.reduce sum %x dims [0] : tensor<7xf32>
  exec.yield %y : tensor<f32>
}

exec.kernel @max_f32_17(%x: tensor<7xf32>) -> (tensor<f32>) {
  %y = kerf.reduce max %x dims [0] : tensor<7xf32>
  exec.yield %y : tensor<f32>
}

exec.kernel @sum_f32_18(%x: tensor<3x1xf32>) -> (tensor<3xf32>) {
  %y = kerf.reduce sum %x dims [1] : tensor<3x1xf32>
  exec.yield %y : tensor<3xf32>
}

exec.kernel @max_f32_19(%x: tensor<3x1xf32>) -> (tensor<3xf32>) {
  %y = kerf.reduce max %x dims [1] : tensor<3x1xf32>
  exec.yield %y : tensor<3xf32>
}

exec.kernel @sum_bf16_20(%x: tensor<4x6xbf16>) -> (tensor<4xbf16>) {
  %y = kerf.reduce sum %x dims [1] : tensor<4x6xbf16>
  exec.yield %y : tensor<4xbf16>
}

exec.kernel @sum_bf16_21(%x: tensor<5x768xbf16>) -> (tensor<5xbf16>) {
  %y = kerf.reduce sum %x dims [1] : tensor<5x768xbf16>
  exec.yield %y : tensor<5xbf16>
}

exec.kernel @sum_bf16_22(%x: tensor<3x1733xbf16>) -> (tensor<1733xbf16>) {
  %y = kerf.reduce sum %x dims [0] : tensor<3x1733xbf16>
  exec.yield %y : tensor<1733xbf16>
}

exec.kernel @sum_bf16_23(%x: tensor<2x5x65xbf16>) -> (tensor<65xbf16>) {
  %y = kerf.reduce sum %x dims [0, 1] : tensor<2x5x65xbf16>
  exec.yield %y : tensor<65xbf16>
}

exec.kernel @sum_bf16_24(%x: tensor<2x3x64xbf16>) -> (tensor<2x64xbf16>) {
  %y = kerf.reduce sum %x dims [1] : tensor<2x3x64xbf16>
  exec.yield %y : tensor<2x64xbf16>
}

exec.kernel @sum_bf16_25(%x: tensor<3x16x5xbf16>) -> (tensor<3xbf16>) {
  %y = kerf.reduce sum %x dims [1, 2] : tensor<3x16x5xbf16>
  exec.yield %y : tensor<3xbf16>
}

exec.kernel @sum_bf16_26(%x: tensor<2x3x7x65xbf16>) -> (tensor<2x65xbf16>) {
  %y = kerf.reduce sum %x dims [1, 2] : tensor<2x3x7x65xbf16>
  exec.yield %y : tensor<2x65xbf16>
}

exec.kernel @sum_bf16_27(%x: tensor<7xbf16>) -> (tensor<bf16>) {
  %y = kerf.reduce sum %x dims [0] : tensor<7xbf16>
  exec.yield %y : tensor<bf16>
}

exec.kernel @sum_bf16_28(%x: tensor<3x1xbf16>) -> (tensor<3xbf16>) {
  %y = kerf.reduce sum %x dims [1] : tensor<3x1xbf16>
  exec.yield %y : tensor<3xbf16>
}

exec.kernel @sum_i32_29(%x: tensor<4x6xi32>) -> (tensor<4xi32>) {
  %y = kerf.reduce sum %x dims [1] : tensor<4x6xi32>
  exec.yield %y : tensor<4xi32>
}

exec.kernel @max_i32_30(%x: tensor<4x6xi32>) -> (tensor<4xi32>) {
  %y = kerf.reduce max %x dims [1] : tensor<4x6xi32>
  exec.yield %y : tensor<4xi32>
}

exec.kernel @sum_i32_31(%x: tensor<5x768xi32>) -> (tensor<5xi32>) {
  %y = kerf.reduce sum %x dims [1] : tensor<5x768xi32>
  exec.yield %y : tensor<5xi32>
}

exec.kernel @max_i32_32(%x: tensor<5x768xi32>) -> (tensor<5xi32>) {
  %y = kerf.reduce max %x dims [1] : tensor<5x768xi32>
  exec.yield %y : tensor<5xi32>
}

exec.kernel @sum_i32_33(%x: tensor<3x1733xi32>) -> (tensor<1733xi32>) {
  %y = kerf.reduce sum %x dims [0] : tensor<3x1733xi32>
  exec.yield %y : tensor<1733xi32>
}

exec.kernel @max_i32_34(%x: tensor<3x1733xi32>) -> (tensor<1733xi32>) {
  %y = kerf.reduce max %x dims [0] : tensor<3x1733xi32>
  exec.yield %y : tensor<1733xi32>
}

exec.kernel @sum_i32_35(%x: tensor<2x5x65xi32>) -> (tensor<65xi32>) {
  %y = kerf.reduce sum %x dims [0, 1] : tensor<2x5x65xi32>
  exec.yield %y : tensor<65xi32>
}

exec.kernel @max_i32_36(%x: tensor<2x5x65xi32>) -> (tensor<65xi32>) {
  %y = kerf.reduce max %x dims [0, 1] : tensor<2x5x65xi32>
  exec.yield %y : tensor<65xi32>
}

exec.kernel @sum_i32_37(%x: tensor<2x3x64xi32>) -> (tensor<2x64xi32>) {
  %y = kerf.reduce sum %x dims [1] : tensor<2x3x64xi32>
  exec.yield %y : tensor<2x64xi32>
}

exec.kernel @max_i32_38(%x: tensor<2x3x64xi32>) -> (tensor<2x64xi32>) {
  %y = kerf.reduce max %x dims [1] : tensor<2x3x64xi32>
  exec.yield %y : tensor<2x64xi32>
}

exec.kernel @sum_i32_39(%x: tensor<3x16x5xi32>) -> (tensor<3xi32>) {
  %y = kerf.reduce sum %x dims [1, 2] : tensor<3x16x5xi32>
  exec.yield %y : tensor<3xi32>
}

exec.kernel @max_i32_40(%x: tensor<3x16x5xi32>) -> (tensor<3xi32>) {
  %y = kerf.reduce max %x dims [1, 2] : tensor<3x16x5xi32>
  exec.yield %y : tensor<3xi32>
}

exec.kernel @sum_i32_41(%x: tensor<2x3x7x65xi32>) -> (tensor<2x65xi32>) {
  %y = kerf.reduce sum %x dims [1, 2] : tensor<2x3x7x65xi32>
  exec.yield %y : tensor<2x65xi32>
}

exec.kernel @max_i32_42(%x: tensor<2x3x7x65xi32>) -> (tensor<2x65xi32>) {
  %y = kerf.reduce max %x dims [1, 2] : tensor<2x3x7x65xi32>
  exec.yield %y : tensor<2x65xi32>
}

exec.kernel @sum_i32_43(%x: tensor<7xi32>) -> (tensor<i32>) {
  %y = kerf.reduce sum %x dims [0] : tensor<7xi32>
  exec.yield %y : tensor<i32>
}

exec.kernel @max_i32_44(%x: tensor<7xi32>) -> (tensor<i32>) {
  %y = kerf.reduce max %x dims [0] : tensor<7xi32>
  exec.yield %y : tensor<i32>
}

exec.kernel @sum_i32_45(%x: tensor<3x1xi32>) -> (tensor<3xi32>) {
  %y = kerf.reduce sum %x dims [1] : tensor<3x1xi32>
  exec.yield %y : tensor<3xi32>
}

exec.kernel @max_i32_46(%x: tensor<3x1xi32>) -> (tensor<3xi32>) {
  %y = kerf.reduce max %x dims [1] : tensor<3x1xi32>
  exec.yield %y : tensor<3xi32>
}

exec.kernel @sum_f64_47(%x: tensor<4x6xf64>) -> (tensor<4xf64>) {
  %y = kerf.reduce sum %x dims [1] : tensor<4x6xf64>
  exec.yield %y : tensor<4xf64>
}

exec.kernel @sum_f64_48(%x: tensor<5x768xf64>) -> (tensor<5xf64>) {
  %y = kerf.reduce sum %x dims [1] : tensor<5x768xf64>
  exec.yield %y : tensor<5xf64>
}

exec.kernel @sum_f64_49(%x: tensor<3x1733xf64>) -> (tensor<1733xf64>) {
  %y = kerf.reduce sum %x dims [0] : tensor<3x1733xf64>
  exec.yield %y : tensor<1733xf64>
}

exec.kernel @sum_f64_50(%x: tensor<2x5x65xf64>) -> (tensor<65xf64>) {
  %y = kerf.reduce sum %x dims [0, 1] : tensor<2x5x65xf64>
  exec.yield %y : tensor<65xf64>
}

exec.kernel @sum_f64_51(%x: tensor<2x3x64xf64>) -> (tensor<2x64xf64>) {
  %y = kerf.reduce sum %x dims [1] : tensor<2x3x64xf64>
  exec.yield %y : tensor<2x64xf64>
}

exec.kernel @sum_f64_52(%x: tensor<3x16x5xf64>) -> (tensor<3xf64>) {
  %y = kerf.reduce sum %x dims [1, 2] : tensor<3x16x5xf64>
  exec.yield %y : tensor<3xf64>
}

exec.kernel @sum_f64_53(%x: tensor<2x3x7x65xf64>) -> (tensor<2x65xf64>) {
  %y = kerf.reduce sum %x dims [1, 2] : tensor<2x3x7x65xf64>
  exec.yield %y : tensor<2x65xf64>
}

exec.kernel @sum_f64_54(%x: tensor<7xf64>) -> (tensor<f64>) {
  %y = kerf.reduce sum %x dims [0] : tensor<7xf64>
  exec.yield %y : tensor<f64>
}

exec.kernel @sum_f64_55(%x: tensor<3x1xf64>) -> (tensor<3xf64>) {
  %y = kerf.reduce sum %x dims [1] : tensor<3x1xf64>
  exec.yield %y : tensor<3xf64>
}

exec.kernel @sum_large_f32_56(%x: tensor<100x700xf32>) -> (tensor<f32>) {
  %w = kerf.mul %x, %x : tensor<100x700xf32>
  %y = kerf.reduce sum %w dims [0, 1] : tensor<100x700xf32>
  exec.yield %y : tensor<f32>
}

exec.kernel @sum_large_bf16_57(%x: tensor<100x700xbf16>) -> (tensor<bf16>) {
  %w = kerf.mul %x, %x : tensor<100x700xbf16>
  %y = kerf.reduce sum %w dims [0, 1] : tensor<100x700xbf16>
  exec.yield %y : tensor<bf16>
}

exec.kernel @max_large_f32_58(%x: tensor<100x700xf32>) -> (tensor<f32>) {
  %w = kerf.mul %x, %x : tensor<100x700xf32>
  %y = kerf.reduce max %w dims [0, 1] : tensor<100x700xf32>
  exec.yield %y : tensor<f32>
}

exec.kernel @max_large_bf16_59(%x: tensor<100x700xbf16>) -> (tensor<bf16>) {
  %w = kerf.mul %x, %x : tensor<100x700xbf16>
  %y = kerf.reduce max %w dims [0, 1] : tensor<100x700xbf16>
  exec.yield %y : tensor<bf16>
}

exec.kernel @sum_large_f32_60(%x: tensor<2x1000x65xf32>) -> (tensor<65xf32>) {
  %w = kerf.mul %x, %x : tensor<2x1000x65xf32>
  %y = kerf.reduce sum %w dims [0, 1] : tensor<2x1000x65xf32>
  exec.yield %y : tensor<65xf32>
}

exec.kernel @sum_large_bf16_61(%x: tensor<2x1000x65xbf16>) -> (tensor<65xbf16>) {
  %w = kerf.mul %x, %x : tensor<2x1000x65xbf16>
  %y = kerf.reduce sum %w dims [0, 1] : tensor<2x1000x65xbf16>
  exec.yield %y : tensor<65xbf16>
}

exec.kernel @max_large_f32_62(%x: tensor<2x1000x65xf32>) -> (tensor<65xf32>) {
  %w = kerf.mul %x, %x : tensor<2x1000x65xf32>
  %y = kerf.reduce max %w dims [0, 1] : tensor<2x1000x65xf32>
  exec.yield %y : tensor<65xf32>
}

exec.kernel @max_large_bf16_63(%x: tensor<2x1000x65xbf16>) -> (tensor<65xbf16>) {
  %w = kerf.mul %x, %x : tensor<2x1000x65xbf16>
  %y = kerf.reduce max %w dims [0, 1] : tensor<2x1000x65xbf16>
  exec.yield %y : tensor<65xbf16>
}

exec.kernel @sum_large_f32_64(%x: tensor<40000xf32>) -> (tensor<f32>) {
  %w = kerf.mul %x, %x : tensor<40000xf32>
  %y = kerf.reduce sum %w dims [0] : tensor<40000xf32>
  exec.yield %y : tensor<f32>
}

exec.kernel @sum_large_bf16_65(%x: tensor<40000xbf16>) -> (tensor<bf16>) {
  %w = kerf.mul %x, %x : tensor<40000xbf16>
  %y = kerf.reduce sum %w dims [0] : tensor<40000xbf16>
  exec.yield %y : tensor<bf16>
}

exec.kernel @max_large_f32_66(%x: tensor<40000xf32>) -> (tensor<f32>) {
  %w = kerf.mul %x, %x : tensor<40000xf32>
  %y = kerf.reduce max %w dims [0] : tensor<40000xf32>
  exec.yield %y : tensor<f32>
}

exec.kernel @max_large_bf16_67(%x: tensor<40000xbf16>) -> (tensor<bf16>) {
  %w = kerf.mul %x, %x : tensor<40000xbf16>
  %y = kerf.reduce max %w dims [0] : tensor<40000xbf16>
  exec.yield %y : tensor<bf16>
}

exec.kernel @sum_large_f32_68(%x: tensor<300x333xf32>) -> (tensor<333xf32>) {
  %w = kerf.mul %x, %x : tensor<300x333xf32>
  %y = kerf.reduce sum %w dims [0] : tensor<300x333xf32>
  exec.yield %y : tensor<333xf32>
}

exec.kernel @sum_large_bf16_69(%x: tensor<300x333xbf16>) -> (tensor<333xbf16>) {
  %w = kerf.mul %x, %x : tensor<300x333xbf16>
  %y = kerf.reduce sum %w dims [0] : tensor<300x333xbf16>
  exec.yield %y : tensor<333xbf16>
}

exec.kernel @max_large_f32_70(%x: tensor<300x333xf32>) -> (tensor<333xf32>) {
  %w = kerf.mul %x, %x : tensor<300x333xf32>
  %y = kerf.reduce max %w dims [0] : tensor<300x333xf32>
  exec.yield %y : tensor<333xf32>
}

exec.kernel @max_large_bf16_71(%x: tensor<300x333xbf16>) -> (tensor<333xbf16>) {
  %w = kerf.mul %x, %x : tensor<300x333xbf16>
  %y = kerf.reduce max %w dims [0] : tensor<300x333xbf16>
  exec.yield %y : tensor<333xbf16>
}

exec.kernel @sum_large_f32_72(%x: tensor<33000x3xf32>) -> (tensor<3xf32>) {
  %w = kerf.mul %x, %x : tensor<33000x3xf32>
  %y = kerf.reduce sum %w dims [0] : tensor<33000x3xf32>
  exec.yield %y : tensor<3xf32>
}

exec.kernel @sum_large_bf16_73(%x: tensor<33000x3xbf16>) -> (tensor<3xbf16>) {
  %w = kerf.mul %x, %x : tensor<33000x3xbf16>
  %y = kerf.reduce sum %w dims [0] : tensor<33000x3xbf16>
  exec.yield %y : tensor<3xbf16>
}

exec.kernel @max_large_f32_74(%x: tensor<33000x3xf32>) -> (tensor<3xf32>) {
  %w = kerf.mul %x, %x : tensor<33000x3xf32>
  %y = kerf.reduce max %w dims [0] : tensor<33000x3xf32>
  exec.yield %y : tensor<3xf32>
}

exec.kernel @max_large_bf16_75(%x: tensor<33000x3xbf16>) -> (tensor<3xbf16>) {
  %w = kerf.mul %x, %x : tensor<33000x3xbf16>
  %y = kerf.reduce max %w dims [0] : tensor<33000x3xbf16>
  exec.yield %y : tensor<3xbf16>
}

exec.kernel @cumsum_f32_76(%x: tensor<4x65xf32>) -> (tensor<4x65xf32>) {
  %y = kerf.cumsum %x dim 1 : tensor<4x65xf32>
  exec.yield %y : tensor<4x65xf32>
}

exec.kernel @cumsum_i32_77(%x: tensor<4x65xi32>) -> (tensor<4x65xi32>) {
  %y = kerf.cumsum %x dim 1 : tensor<4x65xi32>
  exec.yield %y : tensor<4x65xi32>
}

exec.kernel @cumsum_f32_78(%x: tensor<3x50x8xf32>) -> (tensor<3x50x8xf32>) {
  %y = kerf.cumsum %x dim 1 : tensor<3x50x8xf32>
  exec.yield %y : tensor<3x50x8xf32>
}

exec.kernel @cumsum_i32_79(%x: tensor<3x50x8xi32>) -> (tensor<3x50x8xi32>) {
  %y = kerf.cumsum %x dim 1 : tensor<3x50x8xi32>
  exec.yield %y : tensor<3x50x8xi32>
}

exec.kernel @cumsum_f32_80(%x: tensor<20xf32>) -> (tensor<20xf32>) {
  %y = kerf.cumsum %x dim 0 : tensor<20xf32>
  exec.yield %y : tensor<20xf32>
}

exec.kernel @cumsum_i32_81(%x: tensor<20xi32>) -> (tensor<20xi32>) {
  %y = kerf.cumsum %x dim 0 : tensor<20xi32>
  exec.yield %y : tensor<20xi32>
}

exec.kernel @cumsum_f32_82(%x: tensor<2x3x5xf32>) -> (tensor<2x3x5xf32>) {
  %y = kerf.cumsum %x dim 2 : tensor<2x3x5xf32>
  exec.yield %y : tensor<2x3x5xf32>
}

exec.kernel @cumsum_i32_83(%x: tensor<2x3x5xi32>) -> (tensor<2x3x5xi32>) {
  %y = kerf.cumsum %x dim 2 : tensor<2x3x5xi32>
  exec.yield %y : tensor<2x3x5xi32>
}

exec.kernel @top_k_f32_84(%x: tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>) {
  %y, %i = kerf.top_k %x k 2 : tensor<4x6xf32>
  exec.yield %y, %i : tensor<4x2xf32>, tensor<4x2xi32>
}

exec.kernel @top_k_bf16_85(%x: tensor<4x6xbf16>) -> (tensor<4x2xbf16>, tensor<4x2xi32>) {
  %y, %i = kerf.top_k %x k 2 : tensor<4x6xbf16>
  exec.yield %y, %i : tensor<4x2xbf16>, tensor<4x2xi32>
}

exec.kernel @top_k_f32_86(%x: tensor<3x5x65xf32>) -> (tensor<3x5x8xf32>, tensor<3x5x8xi32>) {
  %y, %i = kerf.top_k %x k 8 : tensor<3x5x65xf32>
  exec.yield %y, %i : tensor<3x5x8xf32>, tensor<3x5x8xi32>
}

exec.kernel @top_k_bf16_87(%x: tensor<3x5x65xbf16>) -> (tensor<3x5x8xbf16>, tensor<3x5x8xi32>) {
  %y, %i = kerf.top_k %x k 8 : tensor<3x5x65xbf16>
  exec.yield %y, %i : tensor<3x5x8xbf16>, tensor<3x5x8xi32>
}

exec.kernel @top_k_f32_88(%x: tensor<7xf32>) -> (tensor<3xf32>, tensor<3xi32>) {
  %y, %i = kerf.top_k %x k 3 : tensor<7xf32>
  exec.yield %y, %i : tensor<3xf32>, tensor<3xi32>
}

exec.kernel @top_k_bf16_89(%x: tensor<7xbf16>) -> (tensor<3xbf16>, tensor<3xi32>) {
  %y, %i = kerf.top_k %x k 3 : tensor<7xbf16>
  exec.yield %y, %i : tensor<3xbf16>, tensor<3xi32>
}

exec.kernel @top_k_f32_90(%x: tensor<9x1xf32>) -> (tensor<9x1xf32>, tensor<9x1xi32>) {
  %y, %i = kerf.top_k %x k 1 : tensor<9x1xf32>
  exec.yield %y, %i : tensor<9x1xf32>, tensor<9x1xi32>
}

exec.kernel @top_k_bf16_91(%x: tensor<9x1xbf16>) -> (tensor<9x1xbf16>, tensor<9x1xi32>) {
  %y, %i = kerf.top_k %x k 1 : tensor<9x1xbf16>
  exec.yield %y, %i : tensor<9x1xbf16>, tensor<9x1xi32>
}

exec.kernel @top_k_ties(%x: tensor<40x9xf32> {test.range = [0, 3]}) -> (tensor<40x4xi32>) {
  %n = kerf.cast %x : tensor<40x9xf32> -> tensor<40x9xi32>
  %f = kerf.cast %n : tensor<40x9xi32> -> tensor<40x9xf32>
  %y, %i = kerf.top_k %f k 4 : tensor<40x9xf32>
  exec.yield %i : tensor<40x4xi32>
}

exec.kernel @einsum_f32_93(%x: tensor<2x8x16xf32>, %y: tensor<32x16xf32>) -> (tensor<2x8x32xf32>) {
  %z = kerf.einsum "bsk,nk->bsn" %x, %y : tensor<2x8x16xf32>, tensor<32x16xf32> -> tensor<2x8x32xf32>
  exec.yield %z : tensor<2x8x32xf32>
}

exec.kernel @einsum_bf16_94(%x: tensor<2x8x16xbf16>, %y: tensor<32x16xbf16>) -> (tensor<2x8x32xbf16>) {
  %z = kerf.einsum "bsk,nk->bsn" %x, %y : tensor<2x8x16xbf16>, tensor<32x16xbf16> -> tensor<2x8x32xbf16>
  exec.yield %z : tensor<2x8x32xbf16>
}

exec.kernel @einsum_f32_95(%x: tensor<2x8x16xf32>, %y: tensor<16x33xf32>) -> (tensor<2x8x33xf32>) {
  %z = kerf.einsum "bsk,kn->bsn" %x, %y : tensor<2x8x16xf32>, tensor<16x33xf32> -> tensor<2x8x33xf32>
  exec.yield %z : tensor<2x8x33xf32>
}

exec.kernel @einsum_bf16_96(%x: tensor<2x8x16xbf16>, %y: tensor<16x33xbf16>) -> (tensor<2x8x33xbf16>) {
  %z = kerf.einsum "bsk,kn->bsn" %x, %y : tensor<2x8x16xbf16>, tensor<16x33xbf16> -> tensor<2x8x33xbf16>
  exec.yield %z : tensor<2x8x33xbf16>
}

exec.kernel @einsum_f32_97(%x: tensor<2x3x5xf32>, %y: tensor<2x3x4xf32>) -> (tensor<2x3x4x5xf32>) {
  %z = kerf.einsum "grk,gre->grek" %x, %y : tensor<2x3x5xf32>, tensor<2x3x4xf32> -> tensor<2x3x4x5xf32>
  exec.yield %z : tensor<2x3x4x5xf32>
}

exec.kernel @einsum_bf16_98(%x: tensor<2x3x5xbf16>, %y: tensor<2x3x4xbf16>) -> (tensor<2x3x4x5xbf16>) {
  %z = kerf.einsum "grk,gre->grek" %x, %y : tensor<2x3x5xbf16>, tensor<2x3x4xbf16> -> tensor<2x3x4x5xbf16>
  exec.yield %z : tensor<2x3x4x5xbf16>
}

exec.kernel @einsum_f32_99(%x: tensor<2x9x7xf32>, %y: tensor<2x9x65xf32>) -> (tensor<7x65xf32>) {
  %z = kerf.einsum "bsn,bsk->nk" %x, %y : tensor<2x9x7xf32>, tensor<2x9x65xf32> -> tensor<7x65xf32>
  exec.yield %z : tensor<7x65xf32>
}

exec.kernel @einsum_bf16_100(%x: tensor<2x9x7xbf16>, %y: tensor<2x9x65xbf16>) -> (tensor<7x65xbf16>) {
  %z = kerf.einsum "bsn,bsk->nk" %x, %y : tensor<2x9x7xbf16>, tensor<2x9x65xbf16> -> tensor<7x65xbf16>
  exec.yield %z : tensor<7x65xbf16>
}

exec.kernel @partial(%x: tensor<10x7x65xf32>) -> (tensor<8x65xf32>, tensor<36x1xf32>) {
  %y = exec.partial_reduce sum %x by 9 : tensor<10x7x65xf32> -> tensor<8x65xf32>
  %z = exec.partial_reduce max %x by 128 : tensor<10x7x65xf32> -> tensor<36x1xf32>
  exec.yield %y, %z : tensor<8x65xf32>, tensor<36x1xf32>
}

exec.kernel @mean_of_all_subtracted(%x: tensor<5x70xf32>) -> (tensor<5x70xf32>) {
  %s = kerf.reduce sum %x dims [0, 1] : tensor<5x70xf32>
  %b = kerf.broadcast %s dims [] : tensor<f32> -> tensor<5x70xf32>
  %y = kerf.sub %x, %b : tensor<5x70xf32>
  exec.yield %y : tensor<5x70xf32>
}

exec.kernel @column_norm(%x: tensor<50x70xf32>) -> (tensor<50x70xf32>) {
  %q = kerf.mul %x, %x : tensor<50x70xf32>
  %s = kerf.reduce sum %q dims [0] : tensor<50x70xf32>
  %b = kerf.broadcast %s dims [1] : tensor<70xf32> -> tensor<50x70xf32>
  %y = kerf.div %x, %b : tensor<50x70xf32>
  exec.yield %y : tensor<50x70xf32>
}
