// Element-wise ops alone, at odd sizes.
// RUN: kerf-kernels %s | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v2 | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v3 | FileCheck %s
// CHECK-COUNT-119: ok,
// CHECK-NOT: {{ok|WRONG}}

exec.kernel @neg_f32_1(%x: tensor<1xf32> {test.range = [-3.0, 3.0]}) -> (tensor<1xf32>) {
  %y = kerf.neg %x : tensor<1xf32>
  exec.yield %y : tensor<1xf32>
}

exec.kernel @neg_f32_63(%x: tensor<63xf32> {test.range = [-3.0, 3.0]}) -> (tensor<63xf32>) {
  %y = kerf.neg %x : tensor<63xf32>
  exec.yield %y : tensor<63xf32>
}

exec.kernel @neg_bf16_3(%x: tensor<3xbf16> {test.range = [-3.0, 3.0]}) -> (tensor<3xbf16>) {
  %y = kerf.neg %x : tensor<3xbf16>
  exec.yield %y : tensor<3xbf16>
}

exec.kernel @neg_f64_3(%x: tensor<3xf64> {test.range = [-3.0, 3.0]}) -> (tensor<3xf64>) {
  %y = kerf.neg %x : tensor<3xf64>
  exec.yield %y : tensor<3xf64>
}

exec.kernel @exp_f32_3(%x: tensor<3xf32> {test.range = [-20.0, 20.0]}) -> (tensor<3xf32>) {
  %y = kerf.exp %x : tensor<3xf32>
  exec.yield %y : tensor<3xf32>
}

exec.kernel @exp_f32_2_65(%x: tensor<2x65xf32> {test.range = [-20.0, 20.0]}) -> (tensor<2x65xf32>) {
  %y = kerf.exp %x : tensor<2x65xf32>
  exec.yield %y : tensor<2x65xf32>
}

exec.kernel @exp_bf16_16(%x: tensor<16xbf16> {test.range = [-20.0, 20.0]}) -> (tensor<16xbf16>) {
  %y = kerf.exp %x : tensor<16xbf16>
  exec.yield %y : tensor<16xbf16>
}

exec.kernel @exp_f64_16(%x: tensor<16xf64> {test.range = [-20.0, 20.0]}) -> (tensor<16xf64>) {
  %y = kerf.exp %x : tensor<16xf64>
  exec.yield %y : tensor<16xf64>
}

exec.kernel @log_f32_16(%x: tensor<16xf32> {test.range = [0.001, 50.0]}) -> (tensor<16xf32>) {
  %y = kerf.log %x : tensor<16xf32>
  exec.yield %y : tensor<16xf32>
}

exec.kernel @log_f32_5_768(%x: tensor<5x768xf32> {test.range = [0.001, 50.0]}) -> (tensor<5x768xf32>) {
  %y = kerf.log %x : tensor<5x768xf32>
  exec.yield %y : tensor<5x768xf32>
}

exec.kernel @log_bf16_63(%x: tensor<63xbf16> {test.range = [0.001, 50.0]}) -> (tensor<63xbf16>) {
  %y = kerf.log %x : tensor<63xbf16>
  exec.yield %y : tensor<63xbf16>
}

exec.kernel @log_f64_63(%x: tensor<63xf64> {test.range = [0.001, 50.0]}) -> (tensor<63xf64>) {
  %y = kerf.log %x : tensor<63xf64>
  exec.yield %y : tensor<63xf64>
}

exec.kernel @sqrt_f32_63(%x: tensor<63xf32> {test.range = [0.0, 9.0]}) -> (tensor<63xf32>) {
  %y = kerf.sqrt %x : tensor<63xf32>
  exec.yield %y : tensor<63xf32>
}

exec.kernel @sqrt_f32_3_1733(%x: tensor<3x1733xf32> {test.range = [0.0, 9.0]}) -> (tensor<3x1733xf32>) {
  %y = kerf.sqrt %x : tensor<3x1733xf32>
  exec.yield %y : tensor<3x1733xf32>
}

exec.kernel @sqrt_bf16_2_65(%x: tensor<2x65xbf16> {test.range = [0.0, 9.0]}) -> (tensor<2x65xbf16>) {
  %y = kerf.sqrt %x : tensor<2x65xbf16>
  exec.yield %y : tensor<2x65xbf16>
}

exec.kernel @sqrt_f64_2_65(%x: tensor<2x65xf64> {test.range = [0.0, 9.0]}) -> (tensor<2x65xf64>) {
  %y = kerf.sqrt %x : tensor<2x65xf64>
  exec.yield %y : tensor<2x65xf64>
}

exec.kernel @rsqrt_f32_2_65(%x: tensor<2x65xf32> {test.range = [0.01, 9.0]}) -> (tensor<2x65xf32>) {
  %y = kerf.rsqrt %x : tensor<2x65xf32>
  exec.yield %y : tensor<2x65xf32>
}

exec.kernel @rsqrt_f32_1(%x: tensor<1xf32> {test.range = [0.01, 9.0]}) -> (tensor<1xf32>) {
  %y = kerf.rsqrt %x : tensor<1xf32>
  exec.yield %y : tensor<1xf32>
}

exec.kernel @rsqrt_bf16_5_768(%x: tensor<5x768xbf16> {test.range = [0.01, 9.0]}) -> (tensor<5x768xbf16>) {
  %y = kerf.rsqrt %x : tensor<5x768xbf16>
  exec.yield %y : tensor<5x768xbf16>
}

exec.kernel @rsqrt_f64_5_768(%x: tensor<5x768xf64> {test.range = [0.01, 9.0]}) -> (tensor<5x768xf64>) {
  %y = kerf.rsqrt %x : tensor<5x768xf64>
  exec.yield %y : tensor<5x768xf64>
}

exec.kernel @tanh_f32_5_768(%x: tensor<5x768xf32> {test.range = [-6.0, 6.0]}) -> (tensor<5x768xf32>) {
  %y = kerf.tanh %x : tensor<5x768xf32>
  exec.yield %y : tensor<5x768xf32>
}

exec.kernel @tanh_f32_3(%x: tensor<3xf32> {test.range = [-6.0, 6.0]}) -> (tensor<3xf32>) {
  %y = kerf.tanh %x : tensor<3xf32>
  exec.yield %y : tensor<3xf32>
}

exec.kernel @tanh_bf16_3_1733(%x: tensor<3x1733xbf16> {test.range = [-6.0, 6.0]}) -> (tensor<3x1733xbf16>) {
  %y = kerf.tanh %x : tensor<3x1733xbf16>
  exec.yield %y : tensor<3x1733xbf16>
}

exec.kernel @tanh_f64_3_1733(%x: tensor<3x1733xf64> {test.range = [-6.0, 6.0]}) -> (tensor<3x1733xf64>) {
  %y = kerf.tanh %x : tensor<3x1733xf64>
  exec.yield %y : tensor<3x1733xf64>
}

exec.kernel @erf_f32_3_1733(%x: tensor<3x1733xf32> {test.range = [-5.0, 5.0]}) -> (tensor<3x1733xf32>) {
  %y = kerf.erf %x : tensor<3x1733xf32>
  exec.yield %y : tensor<3x1733xf32>
}

exec.kernel @erf_f32_16(%x: tensor<16xf32> {test.range = [-5.0, 5.0]}) -> (tensor<16xf32>) {
  %y = kerf.erf %x : tensor<16xf32>
  exec.yield %y : tensor<16xf32>
}

exec.kernel @erf_bf16_1(%x: tensor<1xbf16> {test.range = [-5.0, 5.0]}) -> (tensor<1xbf16>) {
  %y = kerf.erf %x : tensor<1xbf16>
  exec.yield %y : tensor<1xbf16>
}

exec.kernel @erf_f64_1(%x: tensor<1xf64> {test.range = [-5.0, 5.0]}) -> (tensor<1xf64>) {
  %y = kerf.erf %x : tensor<1xf64>
  exec.yield %y : tensor<1xf64>
}

exec.kernel @sin_f32_1(%x: tensor<1xf32> {test.range = [-100.0, 100.0]}) -> (tensor<1xf32>) {
  %y = kerf.sin %x : tensor<1xf32>
  exec.yield %y : tensor<1xf32>
}

exec.kernel @sin_f32_63(%x: tensor<63xf32> {test.range = [-100.0, 100.0]}) -> (tensor<63xf32>) {
  %y = kerf.sin %x : tensor<63xf32>
  exec.yield %y : tensor<63xf32>
}

exec.kernel @sin_bf16_3(%x: tensor<3xbf16> {test.range = [-100.0, 100.0]}) -> (tensor<3xbf16>) {
  %y = kerf.sin %x : tensor<3xbf16>
  exec.yield %y : tensor<3xbf16>
}

exec.kernel @sin_f64_3(%x: tensor<3xf64> {test.range = [-100.0, 100.0]}) -> (tensor<3xf64>) {
  %y = kerf.sin %x : tensor<3xf64>
  exec.yield %y : tensor<3xf64>
}

exec.kernel @cos_f32_3(%x: tensor<3xf32> {test.range = [-100.0, 100.0]}) -> (tensor<3xf32>) {
  %y = kerf.cos %x : tensor<3xf32>
  exec.yield %y : tensor<3xf32>
}

exec.kernel @cos_f32_2_65(%x: tensor<2x65xf32> {test.range = [-100.0, 100.0]}) -> (tensor<2x65xf32>) {
  %y = kerf.cos %x : tensor<2x65xf32>
  exec.yield %y : tensor<2x65xf32>
}

exec.kernel @cos_bf16_16(%x: tensor<16xbf16> {test.range = [-100.0, 100.0]}) -> (tensor<16xbf16>) {
  %y = kerf.cos %x : tensor<16xbf16>
  exec.yield %y : tensor<16xbf16>
}

exec.kernel @cos_f64_16(%x: tensor<16xf64> {test.range = [-100.0, 100.0]}) -> (tensor<16xf64>) {
  %y = kerf.cos %x : tensor<16xf64>
  exec.yield %y : tensor<16xf64>
}

exec.kernel @logistic_f32_16(%x: tensor<16xf32> {test.range = [-10.0, 10.0]}) -> (tensor<16xf32>) {
  %y = kerf.logistic %x : tensor<16xf32>
  exec.yield %y : tensor<16xf32>
}

exec.kernel @logistic_f32_5_768(%x: tensor<5x768xf32> {test.range = [-10.0, 10.0]}) -> (tensor<5x768xf32>) {
  %y = kerf.logistic %x : tensor<5x768xf32>
  exec.yield %y : tensor<5x768xf32>
}

exec.kernel @logistic_bf16_63(%x: tensor<63xbf16> {test.range = [-10.0, 10.0]}) -> (tensor<63xbf16>) {
  %y = kerf.logistic %x : tensor<63xbf16>
  exec.yield %y : tensor<63xbf16>
}

exec.kernel @logistic_f64_63(%x: tensor<63xf64> {test.range = [-10.0, 10.0]}) -> (tensor<63xf64>) {
  %y = kerf.logistic %x : tensor<63xf64>
  exec.yield %y : tensor<63xf64>
}

exec.kernel @add_f32(%x: tensor<16xf32> {test.range = [0.1, 4.0]}, %y: tensor<16xf32> {test.range = [0.1, 4.0]}) -> (tensor<16xf32>) {
  %z = kerf.add %x, %y : tensor<16xf32>
  exec.yield %z : tensor<16xf32>
}

exec.kernel @add_bf16(%x: tensor<16xbf16> {test.range = [0.1, 4.0]}, %y: tensor<16xbf16> {test.range = [0.1, 4.0]}) -> (tensor<16xbf16>) {
  %z = kerf.add %x, %y : tensor<16xbf16>
  exec.yield %z : tensor<16xbf16>
}

exec.kernel @add_f64(%x: tensor<16xf64> {test.range = [0.1, 4.0]}, %y: tensor<16xf64> {test.range = [0.1, 4.0]}) -> (tensor<16xf64>) {
  %z = kerf.add %x, %y : tensor<16xf64>
  exec.yield %z : tensor<16xf64>
}

exec.kernel @add_i32(%x: tensor<16xi32> {test.range = [-5, 7]}, %y: tensor<16xi32> {test.range = [-5, 7]}) -> (tensor<16xi32>) {
  %z = kerf.add %x, %y : tensor<16xi32>
  exec.yield %z : tensor<16xi32>
}

exec.kernel @sub_f32(%x: tensor<63xf32> {test.range = [0.1, 4.0]}, %y: tensor<63xf32> {test.range = [0.1, 4.0]}) -> (tensor<63xf32>) {
  %z = kerf.sub %x, %y : tensor<63xf32>
  exec.yield %z : tensor<63xf32>
}

exec.kernel @sub_bf16(%x: tensor<63xbf16> {test.range = [0.1, 4.0]}, %y: tensor<63xbf16> {test.range = [0.1, 4.0]}) -> (tensor<63xbf16>) {
  %z = kerf.sub %x, %y : tensor<63xbf16>
  exec.yield %z : tensor<63xbf16>
}

exec.kernel @sub_f64(%x: tensor<63xf64> {test.range = [0.1, 4.0]}, %y: tensor<63xf64> {test.range = [0.1, 4.0]}) -> (tensor<63xf64>) {
  %z = kerf.sub %x, %y : tensor<63xf64>
  exec.yield %z : tensor<63xf64>
}

exec.kernel @sub_i32(%x: tensor<63xi32> {test.range = [-5, 7]}, %y: tensor<63xi32> {test.range = [-5, 7]}) -> (tensor<63xi32>) {
  %z = kerf.sub %x, %y : tensor<63xi32>
  exec.yield %z : tensor<63xi32>
}

exec.kernel @mul_f32(%x: tensor<2x65xf32> {test.range = [0.1, 4.0]}, %y: tensor<2x65xf32> {test.range = [0.1, 4.0]}) -> (tensor<2x65xf32>) {
  %z = kerf.mul %x, %y : tensor<2x65xf32>
  exec.yield %z : tensor<2x65xf32>
}

exec.kernel @mul_bf16(%x: tensor<2x65xbf16> {test.range = [0.1, 4.0]}, %y: tensor<2x65xbf16> {test.range = [0.1, 4.0]}) -> (tensor<2x65xbf16>) {
  %z = kerf.mul %x, %y : tensor<2x65xbf16>
  exec.yield %z : tensor<2x65xbf16>
}

exec.kernel @mul_f64(%x: tensor<2x65xf64> {test.range = [0.1, 4.0]}, %y: tensor<2x65xf64> {test.range = [0.1, 4.0]}) -> (tensor<2x65xf64>) {
  %z = kerf.mul %x, %y : tensor<2x65xf64>
  exec.yield %z : tensor<2x65xf64>
}

exec.kernel @mul_i32(%x: tensor<2x65xi32> {test.range = [-5, 7]}, %y: tensor<2x65xi32> {test.range = [-5, 7]}) -> (tensor<2x65xi32>) {
  %z = kerf.mul %x, %y : tensor<2x65xi32>
  exec.yield %z : tensor<2x65xi32>
}

exec.kernel @div_f32(%x: tensor<5x768xf32> {test.range = [0.1, 4.0]}, %y: tensor<5x768xf32> {test.range = [0.1, 4.0]}) -> (tensor<5x768xf32>) {
  %z = kerf.div %x, %y : tensor<5x768xf32>
  exec.yield %z : tensor<5x768xf32>
}

exec.kernel @div_bf16(%x: tensor<5x768xbf16> {test.range = [0.1, 4.0]}, %y: tensor<5x768xbf16> {test.range = [0.1, 4.0]}) -> (tensor<5x768xbf16>) {
  %z = kerf.div %x, %y : tensor<5x768xbf16>
  exec.yield %z : tensor<5x768xbf16>
}

exec.kernel @div_f64(%x: tensor<5x768xf64> {test.range = [0.1, 4.0]}, %y: tensor<5x768xf64> {test.range = [0.1, 4.0]}) -> (tensor<5x768xf64>) {
  %z = kerf.div %x, %y : tensor<5x768xf64>
  exec.yield %z : tensor<5x768xf64>
}

exec.kernel @div_i32(%x: tensor<5x768xi32> {test.range = [-5, 7]}, %y: tensor<5x768xi32> {test.range = [-5, 7]}) -> (tensor<5x768xi32>) {
  %z = kerf.div %x, %y : tensor<5x768xi32>
  exec.yield %z : tensor<5x768xi32>
}

exec.kernel @max_f32(%x: tensor<3x1733xf32> {test.range = [0.1, 4.0]}, %y: tensor<3x1733xf32> {test.range = [0.1, 4.0]}) -> (tensor<3x1733xf32>) {
  %z = kerf.max %x, %y : tensor<3x1733xf32>
  exec.yield %z : tensor<3x1733xf32>
}

exec.kernel @max_bf16(%x: tensor<3x1733xbf16> {test.range = [0.1, 4.0]}, %y: tensor<3x1733xbf16> {test.range = [0.1, 4.0]}) -> (tensor<3x1733xbf16>) {
  %z = kerf.max %x, %y : tensor<3x1733xbf16>
  exec.yield %z : tensor<3x1733xbf16>
}

exec.kernel @max_f64(%x: tensor<3x1733xf64> {test.range = [0.1, 4.0]}, %y: tensor<3x1733xf64> {test.range = [0.1, 4.0]}) -> (tensor<3x1733xf64>) {
  %z = kerf.max %x, %y : tensor<3x1733xf64>
  exec.yield %z : tensor<3x1733xf64>
}

exec.kernel @max_i32(%x: tensor<3x1733xi32> {test.range = [-5, 7]}, %y: tensor<3x1733xi32> {test.range = [-5, 7]}) -> (tensor<3x1733xi32>) {
  %z = kerf.max %x, %y : tensor<3x1733xi32>
  exec.yield %z : tensor<3x1733xi32>
}

exec.kernel @min_f32(%x: tensor<1xf32> {test.range = [0.1, 4.0]}, %y: tensor<1xf32> {test.range = [0.1, 4.0]}) -> (tensor<1xf32>) {
  %z = kerf.min %x, %y : tensor<1xf32>
  exec.yield %z : tensor<1xf32>
}

exec.kernel @min_bf16(%x: tensor<1xbf16> {test.range = [0.1, 4.0]}, %y: tensor<1xbf16> {test.range = [0.1, 4.0]}) -> (tensor<1xbf16>) {
  %z = kerf.min %x, %y : tensor<1xbf16>
  exec.yield %z : tensor<1xbf16>
}

exec.kernel @min_f64(%x: tensor<1xf64> {test.range = [0.1, 4.0]}, %y: tensor<1xf64> {test.range = [0.1, 4.0]}) -> (tensor<1xf64>) {
  %z = kerf.min %x, %y : tensor<1xf64>
  exec.yield %z : tensor<1xf64>
}

exec.kernel @min_i32(%x: tensor<1xi32> {test.range = [-5, 7]}, %y: tensor<1xi32> {test.range = [-5, 7]}) -> (tensor<1xi32>) {
  %z = kerf.min %x, %y : tensor<1xi32>
  exec.yield %z : tensor<1xi32>
}

exec.kernel @pow_f32(%x: tensor<3xf32> {test.range = [0.1, 4.0]}, %y: tensor<3xf32> {test.range = [0.1, 4.0]}) -> (tensor<3xf32>) {
  %z = kerf.pow %x, %y : tensor<3xf32>
  exec.yield %z : tensor<3xf32>
}

exec.kernel @pow_bf16(%x: tensor<3xbf16> {test.range = [0.1, 4.0]}, %y: tensor<3xbf16> {test.range = [0.1, 4.0]}) -> (tensor<3xbf16>) {
  %z = kerf.pow %x, %y : tensor<3xbf16>
  exec.yield %z : tensor<3xbf16>
}

exec.kernel @pow_f64(%x: tensor<3xf64> {test.range = [0.1, 4.0]}, %y: tensor<3xf64> {test.range = [0.1, 4.0]}) -> (tensor<3xf64>) {
  %z = kerf.pow %x, %y : tensor<3xf64>
  exec.yield %z : tensor<3xf64>
}

exec.kernel @pow_i32(%x: tensor<3xi32> {test.range = [1, 5]}, %y: tensor<3xi32> {test.range = [1, 5]}) -> (tensor<3xi32>) {
  %z = kerf.pow %x, %y : tensor<3xi32>
  exec.yield %z : tensor<3xi32>
}

exec.kernel @compare_eq_f32(%x: tensor<3x33xf32>, %y: tensor<3x33xf32>) -> (tensor<3x33xi1>) {
  %z = kerf.compare eq %x, %y : tensor<3x33xf32>
  exec.yield %z : tensor<3x33xi1>
}

exec.kernel @compare_eq_i32(%x: tensor<3x33xi32> {test.range = [0, 3]}, %y: tensor<3x33xi32> {test.range = [0, 3]}) -> (tensor<3x33xi1>) {
  %z = kerf.compare eq %x, %y : tensor<3x33xi32>
  exec.yield %z : tensor<3x33xi1>
}

exec.kernel @compare_ne_f32(%x: tensor<3x33xf32>, %y: tensor<3x33xf32>) -> (tensor<3x33xi1>) {
  %z = kerf.compare ne %x, %y : tensor<3x33xf32>
  exec.yield %z : tensor<3x33xi1>
}

exec.kernel @compare_ne_i32(%x: tensor<3x33xi32> {test.range = [0, 3]}, %y: tensor<3x33xi32> {test.range = [0, 3]}) -> (tensor<3x33xi1>) {
  %z = kerf.compare ne %x, %y : tensor<3x33xi32>
  exec.yield %z : tensor<3x33xi1>
}

exec.kernel @compare_lt_f32(%x: tensor<3x33xf32>, %y: tensor<3x33xf32>) -> (tensor<3x33xi1>) {
  %z = kerf.compare lt %x, %y : tensor<3x33xf32>
  exec.yield %z : tensor<3x33xi1>
}

exec.kernel @compare_lt_i32(%x: tensor<3x33xi32> {test.range = [0, 3]}, %y: tensor<3x33xi32> {test.range = [0, 3]}) -> (tensor<3x33xi1>) {
  %z = kerf.compare lt %x, %y : tensor<3x33xi32>
  exec.yield %z : tensor<3x33xi1>
}

exec.kernel @compare_le_f32(%x: tensor<3x33xf32>, %y: tensor<3x33xf32>) -> (tensor<3x33xi1>) {
  %z = kerf.compare le %x, %y : tensor<3x33xf32>
  exec.yield %z : tensor<3x33xi1>
}

exec.kernel @compare_le_i32(%x: tensor<3x33xi32> {test.range = [0, 3]}, %y: tensor<3x33xi32> {test.range = [0, 3]}) -> (tensor<3x33xi1>) {
  %z = kerf.compare le %x, %y : tensor<3x33xi32>
  exec.yield %z : tensor<3x33xi1>
}

exec.kernel @compare_gt_f32(%x: tensor<3x33xf32>, %y: tensor<3x33xf32>) -> (tensor<3x33xi1>) {
  %z = kerf.compare gt %x, %y : tensor<3x33xf32>
  exec.yield %z : tensor<3x33xi1>
}

exec.kernel @compare_gt_i32(%x: tensor<3x33xi32> {test.range = [0, 3]}, %y: tensor<3x33xi32> {test.range = [0, 3]}) -> (tensor<3x33xi1>) {
  %z = kerf.compare gt %x, %y : tensor<3x33xi32>
  exec.yield %z : tensor<3x33xi1>
}

exec.kernel @compare_ge_f32(%x: tensor<3x33xf32>, %y: tensor<3x33xf32>) -> (tensor<3x33xi1>) {
  %z = kerf.compare ge %x, %y : tensor<3x33xf32>
  exec.yield %z : tensor<3x33xi1>
}

exec.kernel @compare_ge_i32(%x: tensor<3x33xi32> {test.range = [0, 3]}, %y: tensor<3x33xi32> {test.range = [0, 3]}) -> (tensor<3x33xi1>) {
  %z = kerf.compare ge %x, %y : tensor<3x33xi32>
  exec.yield %z : tensor<3x33xi1>
}

exec.kernel @select_f32(%c: tensor<3x67xi1>, %x: tensor<3x67xf32>, %y: tensor<3x67xf32>) -> (tensor<3x67xf32>) {
  %z = kerf.select %c, %x, %y : tensor<3x67xf32>
  exec.yield %z : tensor<3x67xf32>
}

exec.kernel @select_i32(%c: tensor<3x67xi1>, %x: tensor<3x67xi32>, %y: tensor<3x67xi32>) -> (tensor<3x67xi32>) {
  %z = kerf.select %c, %x, %y : tensor<3x67xi32>
  exec.yield %z : tensor<3x67xi32>
}

exec.kernel @select_bf16(%c: tensor<3x67xi1>, %x: tensor<3x67xbf16>, %y: tensor<3x67xbf16>) -> (tensor<3x67xbf16>) {
  %z = kerf.select %c, %x, %y : tensor<3x67xbf16>
  exec.yield %z : tensor<3x67xbf16>
}

exec.kernel @select_i1(%c: tensor<3x67xi1>, %x: tensor<3x67xi1>, %y: tensor<3x67xi1>) -> (tensor<3x67xi1>) {
  %z = kerf.select %c, %x, %y : tensor<3x67xi1>
  exec.yield %z : tensor<3x67xi1>
}

exec.kernel @cast_f64_f32(%x: tensor<5x13xf64> {test.range = [-9.0, 9.0]}) -> (tensor<5x13xf32>) {
  %y = kerf.cast %x : tensor<5x13xf64> -> tensor<5x13xf32>
  exec.yield %y : tensor<5x13xf32>
}

exec.kernel @cast_f64_bf16(%x: tensor<5x13xf64> {test.range = [-9.0, 9.0]}) -> (tensor<5x13xbf16>) {
  %y = kerf.cast %x : tensor<5x13xf64> -> tensor<5x13xbf16>
  exec.yield %y : tensor<5x13xbf16>
}

exec.kernel @cast_f64_i32(%x: tensor<5x13xf64> {test.range = [-9.0, 9.0]}) -> (tensor<5x13xi32>) {
  %y = kerf.cast %x : tensor<5x13xf64> -> tensor<5x13xi32>
  exec.yield %y : tensor<5x13xi32>
}

exec.kernel @cast_f64_i1(%x: tensor<5x13xf64> {test.range = [-9.0, 9.0]}) -> (tensor<5x13xi1>) {
  %y = kerf.cast %x : tensor<5x13xf64> -> tensor<5x13xi1>
  exec.yield %y : tensor<5x13xi1>
}

exec.kernel @cast_f32_f64(%x: tensor<5x13xf32> {test.range = [-9.0, 9.0]}) -> (tensor<5x13xf64>) {
  %y = kerf.cast %x : tensor<5x13xf32> -> tensor<5x13xf64>
  exec.yield %y : tensor<5x13xf64>
}

exec.kernel @cast_f32_bf16(%x: tensor<5x13xf32> {test.range = [-9.0, 9.0]}) -> (tensor<5x13xbf16>) {
  %y = kerf.cast %x : tensor<5x13xf32> -> tensor<5x13xbf16>
  exec.yield %y : tensor<5x13xbf16>
}

exec.kernel @cast_f32_i32(%x: tensor<5x13xf32> {test.range = [-9.0, 9.0]}) -> (tensor<5x13xi32>) {
  %y = kerf.cast %x : tensor<5x13xf32> -> tensor<5x13xi32>
  exec.yield %y : tensor<5x13xi32>
}

exec.kernel @cast_f32_i1(%x: tensor<5x13xf32> {test.range = [-9.0, 9.0]}) -> (tensor<5x13xi1>) {
  %y = kerf.cast %x : tensor<5x13xf32> -> tensor<5x13xi1>
  exec.yield %y : tensor<5x13xi1>
}

exec.kernel @cast_bf16_f64(%x: tensor<5x13xbf16> {test.range = [-9.0, 9.0]}) -> (tensor<5x13xf64>) {
  %y = kerf.cast %x : tensor<5x13xbf16> -> tensor<5x13xf64>
  exec.yield %y : tensor<5x13xf64>
}

exec.kernel @cast_bf16_f32(%x: tensor<5x13xbf16> {test.range = [-9.0, 9.0]}) -> (tensor<5x13xf32>) {
  %y = kerf.cast %x : tensor<5x13xbf16> -> tensor<5x13xf32>
  exec.yield %y : tensor<5x13xf32>
}

exec.kernel @cast_bf16_i32(%x: tensor<5x13xbf16> {test.range = [-9.0, 9.0]}) -> (tensor<5x13xi32>) {
  %y = kerf.cast %x : tensor<5x13xbf16> -> tensor<5x13xi32>
  exec.yield %y : tensor<5x13xi32>
}

exec.kernel @cast_bf16_i1(%x: tensor<5x13xbf16> {test.range = [-9.0, 9.0]}) -> (tensor<5x13xi1>) {
  %y = kerf.cast %x : tensor<5x13xbf16> -> tensor<5x13xi1>
  exec.yield %y : tensor<5x13xi1>
}

exec.kernel @cast_i32_f64(%x: tensor<5x13xi32> {test.range = [-2, 3]}) -> (tensor<5x13xf64>) {
  %y = kerf.cast %x : tensor<5x13xi32> -> tensor<5x13xf64>
  exec.yield %y : tensor<5x13xf64>
}

exec.kernel @cast_i32_f32(%x: tensor<5x13xi32> {test.range = [-2, 3]}) -> (tensor<5x13xf32>) {
  %y = kerf.cast %x : tensor<5x13xi32> -> tensor<5x13xf32>
  exec.yield %y : tensor<5x13xf32>
}

exec.kernel @cast_i32_bf16(%x: tensor<5x13xi32> {test.range = [-2, 3]}) -> (tensor<5x13xbf16>) {
  %y = kerf.cast %x : tensor<5x13xi32> -> tensor<5x13xbf16>
  exec.yield %y : tensor<5x13xbf16>
}

exec.kernel @cast_i32_i1(%x: tensor<5x13xi32> {test.range = [-2, 3]}) -> (tensor<5x13xi1>) {
  %y = kerf.cast %x : tensor<5x13xi32> -> tensor<5x13xi1>
  exec.yield %y : tensor<5x13xi1>
}

exec.kernel @cast_i1_f64(%x: tensor<5x13xi1>) -> (tensor<5x13xf64>) {
  %y = kerf.cast %x : tensor<5x13xi1> -> tensor<5x13xf64>
  exec.yield %y : tensor<5x13xf64>
}

exec.kernel @cast_i1_f32(%x: tensor<5x13xi1>) -> (tensor<5x13xf32>) {
  %y = kerf.cast %x : tensor<5x13xi1> -> tensor<5x13xf32>
  exec.yield %y : tensor<5x13xf32>
}

exec.kernel @cast_i1_bf16(%x: tensor<5x13xi1>) -> (tensor<5x13xbf16>) {
  %y = kerf.cast %x : tensor<5x13xi1> -> tensor<5x13xbf16>
  exec.yield %y : tensor<5x13xbf16>
}

exec.kernel @cast_i1_i32(%x: tensor<5x13xi1>) -> (tensor<5x13xi32>) {
  %y = kerf.cast %x : tensor<5x13xi1> -> tensor<5x13xi32>
  exec.yield %y : tensor<5x13xi32>
}

exec.kernel @in_place(%x: tensor<1000xf32>, %y: tensor<1000xf32>) -> (tensor<1000xf32>) attributes {inplace = [[0, 1]]} {
  %z = kerf.add %x, %y : tensor<1000xf32>
  exec.yield %z : tensor<1000xf32>
}

exec.kernel @two_sizes(%x: tensor<1000xf32>, %s: tensor<f32>, %y: tensor<3x7xf32>) -> (tensor<1000xf32>, tensor<3x7xf32>, tensor<f32>, tensor<1000xf32>) {
  %b = kerf.broadcast %s dims [] : tensor<f32> -> tensor<1000xf32>
  %z = kerf.mul %x, %b : tensor<1000xf32>
  %q = kerf.sqrt %s : tensor<f32>
  %n = kerf.neg %y : tensor<3x7xf32>
  exec.yield %z, %n, %q, %x : tensor<1000xf32>, tensor<3x7xf32>, tensor<f32>, tensor<1000xf32>
}

exec.kernel @cast_f32_i8(%x: tensor<5x13xf32> {test.range = [-127.0, 127.0]}) -> (tensor<5x13xi8>) {
  %y = kerf.cast %x : tensor<5x13xf32> -> tensor<5x13xi8>
  exec.yield %y : tensor<5x13xi8>
}

exec.kernel @cast_i8_f32(%x: tensor<5x13xi8> {test.range = [-128, 128]}) -> (tensor<5x13xf32>) {
  %y = kerf.cast %x : tensor<5x13xi8> -> tensor<5x13xf32>
  exec.yield %y : tensor<5x13xf32>
}

exec.kernel @cast_i8_bf16(%x: tensor<5x13xi8> {test.range = [-128, 128]}) -> (tensor<5x13xbf16>) {
  %y = kerf.cast %x : tensor<5x13xi8> -> tensor<5x13xbf16>
  exec.yield %y : tensor<5x13xbf16>
}

exec.kernel @cast_i8_i32(%x: tensor<5x13xi8> {test.range = [-128, 128]}) -> (tensor<5x13xi32>) {
  %y = kerf.cast %x : tensor<5x13xi8> -> tensor<5x13xi32>
  exec.yield %y : tensor<5x13xi32>
}

exec.kernel @cast_i8_i1(%x: tensor<5x13xi8> {test.range = [-2, 2]}) -> (tensor<5x13xi1>) {
  %y = kerf.cast %x : tensor<5x13xi8> -> tensor<5x13xi1>
  exec.yield %y : tensor<5x13xi1>
}

exec.kernel @cast_i1_i8(%x: tensor<5x13xi1> {test.range = [0, 2]}) -> (tensor<5x13xi8>) {
  %y = kerf.cast %x : tensor<5x13xi1> -> tensor<5x13xi8>
  exec.yield %y : tensor<5x13xi8>
}

// The lowest 8 bits stay.
exec.kernel @cast_i32_i8(%x: tensor<5x13xi32> {test.range = [-1000, 1000]}) -> (tensor<5x13xi8>) {
  %y = kerf.cast %x : tensor<5x13xi32> -> tensor<5x13xi8>
  exec.yield %y : tensor<5x13xi8>
}

exec.kernel @select_i8(%c: tensor<5x13xi1>, %x: tensor<5x13xi8> {test.range = [-128, 128]}) -> (tensor<5x13xi8>) {
  %k = kerf.constant dense<-7> : tensor<5x13xi8>
  %y = kerf.select %c, %x, %k : tensor<5x13xi8>
  exec.yield %y : tensor<5x13xi8>
}

// A table of codes, read by column and by row.
exec.kernel @table_i8(%x: tensor<3x4xi8> {test.range = [-128, 128]}) -> (tensor<4x6xi8>) {
  %k = kerf.constant dense<[[-128, 127, 0], [1, -1, 5], [9, 8, 7], [-9, -8, -7]]> : tensor<4x3xi8>
  %t = kerf.transpose %x perm [1, 0] : tensor<3x4xi8>
  %y = kerf.concat dim 1 %t, %k : tensor<4x3xi8>, tensor<4x3xi8>
  exec.yield %y : tensor<4x6xi8>
}

// Numbers of f16 are f32 between load and store.
exec.kernel @exp_f16_65(%x: tensor<65xf16> {test.range = [-10.0, 10.0]}) -> (tensor<65xf16>) {
  %y = kerf.exp %x : tensor<65xf16>
  exec.yield %y : tensor<65xf16>
}

exec.kernel @cast_f32_f16(%x: tensor<3x63xf32> {test.range = [-60000.0, 60000.0]}) -> (tensor<3x63xf16>) {
  %y = kerf.cast %x : tensor<3x63xf32> -> tensor<3x63xf16>
  exec.yield %y : tensor<3x63xf16>
}

exec.kernel @mul_f16_f32(%x: tensor<2x768xf16> {test.range = [-3.0, 3.0]}, %s: tensor<f32> {test.range = [1.0, 2.0]}) -> (tensor<2x768xf32>) {
  %w = kerf.cast %x : tensor<2x768xf16> -> tensor<2x768xf32>
  %b = kerf.broadcast %s dims [] : tensor<f32> -> tensor<2x768xf32>
  %y = kerf.mul %w, %b : tensor<2x768xf32>
  exec.yield %y : tensor<2x768xf32>
}

// What an update that may not take place does: one condition for all elements.
exec.kernel @select_by_scalar(%c: tensor<i1>, %x: tensor<5x13xf32> {test.range = [-3.0, 3.0]}, %y: tensor<5x13xf32> {test.range = [-3.0, 3.0]}) -> (tensor<5x13xf32>, tensor<5x13xf16>) {
  %all = kerf.broadcast %c dims [] : tensor<i1> -> tensor<5x13xi1>
  %z = kerf.select %all, %x, %y : tensor<5x13xf32>
  %h = kerf.cast %z : tensor<5x13xf32> -> tensor<5x13xf16>
  exec.yield %z, %h : tensor<5x13xf32>, tensor<5x13xf16>
}
