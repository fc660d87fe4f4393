// Update rules and the global norm.
// RUN: kerf-kernels %s | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v2 | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v3 | FileCheck %s
// CHECK-COUNT-3: ok,
// CHECK-NOT: {{ok|WRONG}}

exec.kernel @adamw(%p: tensor<33x65xf32>, %g: tensor<33x65xf32>, %m: tensor<33x65xf32>, %v: tensor<33x65xf32> {test.range = [0.0, 1.0]}, %rate: tensor<f32> {test.value = 0.001}, %step: tensor<i32> {test.value = 3}, %scale: tensor<f32> {test.value = 0.5}) -> (tensor<33x65xf32>, tensor<33x65xf32>, tensor<33x65xf32>) attributes {inplace = [[0, 0], [1, 2], [2, 3]]} {
  %b10 = kerf.constant dense<0.9> : tensor<33x65xf64>
  %b1 = kerf.cast %b10 : tensor<33x65xf64> -> tensor<33x65xf32>
  %c10 = kerf.constant dense<0.1> : tensor<33x65xf64>
  %c1 = kerf.cast %c10 : tensor<33x65xf64> -> tensor<33x65xf32>
  %b20 = kerf.constant dense<0.95> : tensor<33x65xf64>
  %b2 = kerf.cast %b20 : tensor<33x65xf64> -> tensor<33x65xf32>
  %c20 = kerf.constant dense<0.05> : tensor<33x65xf64>
  %c2 = kerf.cast %c20 : tensor<33x65xf64> -> tensor<33x65xf32>
  %eps0 = kerf.constant dense<1.0e-8> : tensor<33x65xf64>
  %eps = kerf.cast %eps0 : tensor<33x65xf64> -> tensor<33x65xf32>
  %sb = kerf.broadcast %scale dims [] : tensor<f32> -> tensor<33x65xf32>
  %gs = kerf.mul %g, %sb : tensor<33x65xf32>
  %m1 = kerf.mul %m, %b1 : tensor<33x65xf32>
  %m2 = kerf.mul %gs, %c1 : tensor<33x65xf32>
  %nm = kerf.add %m1, %m2 : tensor<33x65xf32>
  %g2 = kerf.mul %gs, %gs : tensor<33x65xf32>
  %v1 = kerf.mul %v, %b2 : tensor<33x65xf32>
  %v2 = kerf.mul %g2, %c2 : tensor<33x65xf32>
  %nv = kerf.add %v1, %v2 : tensor<33x65xf32>
  %st = kerf.cast %step : tensor<i32> -> tensor<f64>
  %one = kerf.constant dense<1.0> : tensor<f64>
  %e1 = kerf.constant dense<0.9> : tensor<f64>
  %p1 = kerf.pow %e1, %st : tensor<f64>
  %q1 = kerf.sub %one, %p1 : tensor<f64>
  %k1 = kerf.cast %q1 : tensor<f64> -> tensor<f32>
  %e2 = kerf.constant dense<0.95> : tensor<f64>
  %p2 = kerf.pow %e2, %st : tensor<f64>
  %q2 = kerf.sub %one, %p2 : tensor<f64>
  %k2 = kerf.cast %q2 : tensor<f64> -> tensor<f32>
  %rt = kerf.sqrt %k2 : tensor<f32>
  %rb = kerf.broadcast %rt dims [] : tensor<f32> -> tensor<33x65xf32>
  %ra = kerf.div %rate, %k1 : tensor<f32>
  %rab = kerf.broadcast %ra dims [] : tensor<f32> -> tensor<33x65xf32>
  %sv = kerf.sqrt %nv : tensor<33x65xf32>
  %sd = kerf.div %sv, %rb : tensor<33x65xf32>
  %den = kerf.add %sd, %eps : tensor<33x65xf32>
  %wd0 = kerf.constant dense<0.1> : tensor<f64>
  %wd = kerf.cast %wd0 : tensor<f64> -> tensor<f32>
  %rw = kerf.mul %rate, %wd : tensor<f32>
  %ones = kerf.constant dense<1.0> : tensor<f32>
  %keep = kerf.sub %ones, %rw : tensor<f32>
  %kb = kerf.broadcast %keep dims [] : tensor<f32> -> tensor<33x65xf32>
  %kept = kerf.mul %p, %kb : tensor<33x65xf32>
  %up = kerf.div %nm, %den : tensor<33x65xf32>
  %u2 = kerf.mul %rab, %up : tensor<33x65xf32>
  %np = kerf.sub %kept, %u2 : tensor<33x65xf32>
  exec.yield %np, %nm, %nv : tensor<33x65xf32>, tensor<33x65xf32>, tensor<33x65xf32>
}

exec.kernel @adamw_large(%p: tensor<100x768xf32>, %g: tensor<100x768xf32>, %m: tensor<100x768xf32>, %v: tensor<100x768xf32> {test.range = [0.0, 1.0]}, %rate: tensor<f32> {test.value = 0.001}, %step: tensor<i32> {test.value = 3}, %scale: tensor<f32> {test.value = 0.5}) -> (tensor<100x768xf32>, tensor<100x768xf32>, tensor<100x768xf32>) attributes {inplace = [[0, 0], [1, 2], [2, 3]]} {
  %b10 = kerf.constant dense<0.9> : tensor<100x768xf64>
  %b1 = kerf.cast %b10 : tensor<100x768xf64> -> tensor<100x768xf32>
  %c10 = kerf.constant dense<0.1> : tensor<100x768xf64>
  %c1 = kerf.cast %c10 : tensor<100x768xf64> -> tensor<100x768xf32>
  %b20 = kerf.constant dense<0.95> : tensor<100x768xf64>
  %b2 = kerf.cast %b20 : tensor<100x768xf64> -> tensor<100x768xf32>
  %c20 = kerf.constant dense<0.05> : tensor<100x768xf64>
  %c2 = kerf.cast %c20 : tensor<100x768xf64> -> tensor<100x768xf32>
  %eps0 = kerf.constant dense<1.0e-8> : tensor<100x768xf64>
  %eps = kerf.cast %eps0 : tensor<100x768xf64> -> tensor<100x768xf32>
  %sb = kerf.broadcast %scale dims [] : tensor<f32> -> tensor<100x768xf32>
  %gs = kerf.mul %g, %sb : tensor<100x768xf32>
  %m1 = kerf.mul %m, %b1 : tensor<100x768xf32>
  %m2 = kerf.mul %gs, %c1 : tensor<100x768xf32>
  %nm = kerf.add %m1, %m2 : tensor<100x768xf32>
  %g2 = kerf.mul %gs, %gs : tensor<100x768xf32>
  %v1 = kerf.mul %v, %b2 : tensor<100x768xf32>
  %v2 = kerf.mul %g2, %c2 : tensor<100x768xf32>
  %nv = kerf.add %v1, %v2 : tensor<100x768xf32>
  %st = kerf.cast %step : tensor<i32> -> tensor<f64>
  %one = kerf.constant dense<1.0> : tensor<f64>
  %e1 = kerf.constant dense<0.9> : tensor<f64>
  %p1 = kerf.pow %e1, %st : tensor<f64>
  %q1 = kerf.sub %one, %p1 : tensor<f64>
  %k1 = kerf.cast %q1 : tensor<f64> -> tensor<f32>
  %e2 = kerf.constant dense<0.95> : tensor<f64>
  %p2 = kerf.pow %e2, %st : tensor<f64>
  %q2 = kerf.sub %one, %p2 : tensor<f64>
  %k2 = kerf.cast %q2 : tensor<f64> -> tensor<f32>
  %rt = kerf.sqrt %k2 : tensor<f32>
  %rb = kerf.broadcast %rt dims [] : tensor<f32> -> tensor<100x768xf32>
  %ra = kerf.div %rate, %k1 : tensor<f32>
  %rab = kerf.broadcast %ra dims [] : tensor<f32> -> tensor<100x768xf32>
  %sv = kerf.sqrt %nv : tensor<100x768xf32>
  %sd = kerf.div %sv, %rb : tensor<100x768xf32>
  %den = kerf.add %sd, %eps : tensor<100x768xf32>
  %wd0 = kerf.constant dense<0.1> : tensor<f64>
  %wd = kerf.cast %wd0 : tensor<f64> -> tensor<f32>
  %rw = kerf.mul %rate, %wd : tensor<f32>
  %ones = kerf.constant dense<1.0> : tensor<f32>
  %keep = kerf.sub %ones, %rw : tensor<f32>
  %kb = kerf.broadcast %keep dims [] : tensor<f32> -> tensor<100x768xf32>
  %kept = kerf.mul %p, %kb : tensor<100x768xf32>
  %up = kerf.div %nm, %den : tensor<100x768xf32>
  %u2 = kerf.mul %rab, %up : tensor<100x768xf32>
  %np = kerf.sub %kept, %u2 : tensor<100x768xf32>
  exec.yield %np, %nm, %nv : tensor<100x768xf32>, tensor<100x768xf32>, tensor<100x768xf32>
}

exec.kernel @global_norm(%g0: tensor<4x32xf32>, %g1: tensor<100x768xf32>, %g2: tensor<7xf32>, %g3: tensor<3x50x65xf32>) -> (tensor<f32>, tensor<f32>) {
  %q0 = kerf.mul %g0, %g0 : tensor<4x32xf32>
  %s0 = kerf.reduce sum %q0 dims [0, 1] : tensor<4x32xf32>
  %q1 = kerf.mul %g1, %g1 : tensor<100x768xf32>
  %s1 = kerf.reduce sum %q1 dims [0, 1] : tensor<100x768xf32>
  %a1 = kerf.add %s0, %s1 : tensor<f32>
  %q2 = kerf.mul %g2, %g2 : tensor<7xf32>
  %s2 = kerf.reduce sum %q2 dims [0] : tensor<7xf32>
  %a2 = kerf.add %a1, %s2 : tensor<f32>
  %q3 = kerf.mul %g3, %g3 : tensor<3x50x65xf32>
  %s3 = kerf.reduce sum %q3 dims [0, 1, 2] : tensor<3x50x65xf32>
  %a3 = kerf.add %a2, %s3 : tensor<f32>
  %norm = kerf.sqrt %a3 : tensor<f32>
  %one = kerf.constant dense<1.0> : tensor<f32>
  %inv = kerf.div %one, %norm : tensor<f32>
  %clip = kerf.min %inv, %one : tensor<f32>
  exec.yield %norm, %clip : tensor<f32>, tensor<f32>
}
