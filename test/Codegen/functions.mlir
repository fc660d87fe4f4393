// Functions of f32: relative errors of elements over their ranges.
// RUN: kerf-kernels %s --elements --tolerance 4e-7 | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v2 --elements --tolerance 4e-7 | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v3 --elements --tolerance 4e-7 | FileCheck %s
// CHECK-COUNT-22: ok,
// CHECK-NOT: {{ok|WRONG}}

exec.kernel @exp_0(%x: tensor<20011xf32> {test.range = [-87.0, 88.5]}) -> (tensor<20011xf32>) {
  %y = kerf.exp %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @exp_1(%x: tensor<20011xf32> {test.range = [-1.0, 1.0]}) -> (tensor<20011xf32>) {
  %y = kerf.exp %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @exp_2(%x: tensor<20011xf32> {test.range = [-104.0, -86.0]}) -> (tensor<20011xf32>) {
  %y = kerf.exp %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @exp_3(%x: tensor<20011xf32> {test.range = [88.0, 100.0]}) -> (tensor<20011xf32>) {
  %y = kerf.exp %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @log_0(%x: tensor<20011xf32> {test.range = [1.0e-38, 1.0e-30]}) -> (tensor<20011xf32>) {
  %y = kerf.log %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @log_1(%x: tensor<20011xf32> {test.range = [0.5, 2.0]}) -> (tensor<20011xf32>) {
  %y = kerf.log %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @log_2(%x: tensor<20011xf32> {test.range = [1.0, 1.0e+30]}) -> (tensor<20011xf32>) {
  %y = kerf.log %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @log_3(%x: tensor<20011xf32> {test.range = [1.0e-45, 1.0e-39]}) -> (tensor<20011xf32>) {
  %y = kerf.log %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @tanh_0(%x: tensor<20011xf32> {test.range = [-1.0, 1.0]}) -> (tensor<20011xf32>) {
  %y = kerf.tanh %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @tanh_1(%x: tensor<20011xf32> {test.range = [-12.0, 12.0]}) -> (tensor<20011xf32>) {
  %y = kerf.tanh %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @tanh_2(%x: tensor<20011xf32> {test.range = [-0.001, 0.001]}) -> (tensor<20011xf32>) {
  %y = kerf.tanh %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @erf_0(%x: tensor<20011xf32> {test.range = [-1.0, 1.0]}) -> (tensor<20011xf32>) {
  %y = kerf.erf %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @erf_1(%x: tensor<20011xf32> {test.range = [-6.0, 6.0]}) -> (tensor<20011xf32>) {
  %y = kerf.erf %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @erf_2(%x: tensor<20011xf32> {test.range = [-0.0001, 0.0001]}) -> (tensor<20011xf32>) {
  %y = kerf.erf %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @rsqrt_0(%x: tensor<20011xf32> {test.range = [1.0e-30, 1.0e+30]}) -> (tensor<20011xf32>) {
  %y = kerf.rsqrt %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @rsqrt_1(%x: tensor<20011xf32> {test.range = [0.1, 9.0]}) -> (tensor<20011xf32>) {
  %y = kerf.rsqrt %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @sqrt_0(%x: tensor<20011xf32> {test.range = [0.0, 9.0]}) -> (tensor<20011xf32>) {
  %y = kerf.sqrt %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @logistic_0(%x: tensor<20011xf32> {test.range = [-80.0, 80.0]}) -> (tensor<20011xf32>) {
  %y = kerf.logistic %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @sin_0(%x: tensor<20011xf32> {test.range = [-3.0, 3.0]}) -> (tensor<20011xf32>) {
  %y = kerf.sin %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @sin_1(%x: tensor<20011xf32> {test.range = [4.0, 6.0]}) -> (tensor<20011xf32>) {
  %y = kerf.sin %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @cos_0(%x: tensor<20011xf32> {test.range = [-1.5, 1.5]}) -> (tensor<20011xf32>) {
  %y = kerf.cos %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}

exec.kernel @cos_1(%x: tensor<20011xf32> {test.range = [2.0, 4.0]}) -> (tensor<20011xf32>) {
  %y = kerf.cos %x : tensor<20011xf32>
  exec.yield %y : tensor<20011xf32>
}
