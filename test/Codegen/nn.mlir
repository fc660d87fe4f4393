// Layers, decomposed: each is one kernel, or what splitting makes of it.
// RUN: kerf-kernels %s | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v2 | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v3 | FileCheck %s
// CHECK-COUNT-97: ok,
// CHECK-NOT: {{ok|WRONG}}

exec.kernel @layer_norm_f32_1(%x: tensor<2x8x1xf32>, %g: tensor<1xf32>, %b: tensor<1xf32>) -> (tensor<2x8x1xf32>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<2x8x1xf32>, tensor<1xf32>, tensor<1xf32>
  exec.yield %y : tensor<2x8x1xf32>
}

exec.kernel @layer_norm_backward_f32_1(%x: tensor<2x8x1xf32>, %g: tensor<1xf32>, %dy: tensor<2x8x1xf32>) -> (tensor<2x8x1xf32>, tensor<1xf32>, tensor<1xf32>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<2x8x1xf32>, tensor<1xf32>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<2x8x1xf32> -> tensor<1xf32>
  %db = kerf.reduce sum %dy dims [0, 1] : tensor<2x8x1xf32>
  exec.yield %dx, %dg, %db : tensor<2x8x1xf32>, tensor<1xf32>, tensor<1xf32>
}

exec.kernel @softmax_f32_1(%x: tensor<2x8x1xf32>) -> (tensor<2x8x1xf32>) {
  %y = kerf.softmax %x : tensor<2x8x1xf32>
  exec.yield %y : tensor<2x8x1xf32>
}

exec.kernel @gelu_f32_1(%x: tensor<2x8x1xf32>, %dy: tensor<2x8x1xf32>) -> (tensor<2x8x1xf32>, tensor<2x8x1xf32>, tensor<2x8x1xf32>, tensor<2x8x1xf32>) {
  %y = kerf.gelu tanh %x : tensor<2x8x1xf32>
  %z = kerf.gelu exact %x : tensor<2x8x1xf32>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<2x8x1xf32>
  %q = kerf.gelu_backward exact %x, %dy : tensor<2x8x1xf32>
  exec.yield %y, %z, %d, %q : tensor<2x8x1xf32>, tensor<2x8x1xf32>, tensor<2x8x1xf32>, tensor<2x8x1xf32>
}

exec.kernel @layer_norm_f32_3(%x: tensor<3x3xf32>, %g: tensor<3xf32>, %b: tensor<3xf32>) -> (tensor<3x3xf32>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<3x3xf32>, tensor<3xf32>, tensor<3xf32>
  exec.yield %y : tensor<3x3xf32>
}

exec.kernel @layer_norm_backward_f32_3(%x: tensor<3x3xf32>, %g: tensor<3xf32>, %dy: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<3x3xf32>, tensor<3xf32>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<3x3xf32> -> tensor<3xf32>
  %db = kerf.reduce sum %dy dims [0] : tensor<3x3xf32>
  exec.yield %dx, %dg, %db : tensor<3x3xf32>, tensor<3xf32>, tensor<3xf32>
}

exec.kernel @softmax_f32_3(%x: tensor<3x3xf32>) -> (tensor<3x3xf32>) {
  %y = kerf.softmax %x : tensor<3x3xf32>
  exec.yield %y : tensor<3x3xf32>
}

exec.kernel @gelu_f32_3(%x: tensor<3x3xf32>, %dy: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>) {
  %y = kerf.gelu tanh %x : tensor<3x3xf32>
  %z = kerf.gelu exact %x : tensor<3x3xf32>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<3x3xf32>
  %q = kerf.gelu_backward exact %x, %dy : tensor<3x3xf32>
  exec.yield %y, %z, %d, %q : tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
}

exec.kernel @layer_norm_f32_16(%x: tensor<2x5x16xf32>, %g: tensor<16xf32>, %b: tensor<16xf32>) -> (tensor<2x5x16xf32>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<2x5x16xf32>, tensor<16xf32>, tensor<16xf32>
  exec.yield %y : tensor<2x5x16xf32>
}

exec.kernel @layer_norm_backward_f32_16(%x: tensor<2x5x16xf32>, %g: tensor<16xf32>, %dy: tensor<2x5x16xf32>) -> (tensor<2x5x16xf32>, tensor<16xf32>, tensor<16xf32>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<2x5x16xf32>, tensor<16xf32>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<2x5x16xf32> -> tensor<16xf32>
  %db = kerf.reduce sum %dy dims [0, 1] : tensor<2x5x16xf32>
  exec.yield %dx, %dg, %db : tensor<2x5x16xf32>, tensor<16xf32>, tensor<16xf32>
}

exec.kernel @softmax_f32_16(%x: tensor<2x5x16xf32>) -> (tensor<2x5x16xf32>) {
  %y = kerf.softmax %x : tensor<2x5x16xf32>
  exec.yield %y : tensor<2x5x16xf32>
}

exec.kernel @gelu_f32_16(%x: tensor<2x5x16xf32>, %dy: tensor<2x5x16xf32>) -> (tensor<2x5x16xf32>, tensor<2x5x16xf32>, tensor<2x5x16xf32>, tensor<2x5x16xf32>) {
  %y = kerf.gelu tanh %x : tensor<2x5x16xf32>
  %z = kerf.gelu exact %x : tensor<2x5x16xf32>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<2x5x16xf32>
  %q = kerf.gelu_backward exact %x, %dy : tensor<2x5x16xf32>
  exec.yield %y, %z, %d, %q : tensor<2x5x16xf32>, tensor<2x5x16xf32>, tensor<2x5x16xf32>, tensor<2x5x16xf32>
}

exec.kernel @layer_norm_f32_63(%x: tensor<7x63xf32>, %g: tensor<63xf32>, %b: tensor<63xf32>) -> (tensor<7x63xf32>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<7x63xf32>, tensor<63xf32>, tensor<63xf32>
  exec.yield %y : tensor<7x63xf32>
}

exec.kernel @layer_norm_backward_f32_63(%x: tensor<7x63xf32>, %g: tensor<63xf32>, %dy: tensor<7x63xf32>) -> (tensor<7x63xf32>, tensor<63xf32>, tensor<63xf32>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<7x63xf32>, tensor<63xf32>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<7x63xf32> -> tensor<63xf32>
  %db = kerf.reduce sum %dy dims [0] : tensor<7x63xf32>
  exec.yield %dx, %dg, %db : tensor<7x63xf32>, tensor<63xf32>, tensor<63xf32>
}

exec.kernel @softmax_f32_63(%x: tensor<7x63xf32>) -> (tensor<7x63xf32>) {
  %y = kerf.softmax %x : tensor<7x63xf32>
  exec.yield %y : tensor<7x63xf32>
}

exec.kernel @gelu_f32_63(%x: tensor<7x63xf32>, %dy: tensor<7x63xf32>) -> (tensor<7x63xf32>, tensor<7x63xf32>, tensor<7x63xf32>, tensor<7x63xf32>) {
  %y = kerf.gelu tanh %x : tensor<7x63xf32>
  %z = kerf.gelu exact %x : tensor<7x63xf32>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<7x63xf32>
  %q = kerf.gelu_backward exact %x, %dy : tensor<7x63xf32>
  exec.yield %y, %z, %d, %q : tensor<7x63xf32>, tensor<7x63xf32>, tensor<7x63xf32>, tensor<7x63xf32>
}

exec.kernel @layer_norm_f32_64(%x: tensor<2x3x64xf32>, %g: tensor<64xf32>, %b: tensor<64xf32>) -> (tensor<2x3x64xf32>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<2x3x64xf32>, tensor<64xf32>, tensor<64xf32>
  exec.yield %y : tensor<2x3x64xf32>
}

exec.kernel @layer_norm_backward_f32_64(%x: tensor<2x3x64xf32>, %g: tensor<64xf32>, %dy: tensor<2x3x64xf32>) -> (tensor<2x3x64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<2x3x64xf32>, tensor<64xf32>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<2x3x64xf32> -> tensor<64xf32>
  %db = kerf.reduce sum %dy dims [0, 1] : tensor<2x3x64xf32>
  exec.yield %dx, %dg, %db : tensor<2x3x64xf32>, tensor<64xf32>, tensor<64xf32>
}

exec.kernel @softmax_f32_64(%x: tensor<2x3x64xf32>) -> (tensor<2x3x64xf32>) {
  %y = kerf.softmax %x : tensor<2x3x64xf32>
  exec.yield %y : tensor<2x3x64xf32>
}

exec.kernel @gelu_f32_64(%x: tensor<2x3x64xf32>, %dy: tensor<2x3x64xf32>) -> (tensor<2x3x64xf32>, tensor<2x3x64xf32>, tensor<2x3x64xf32>, tensor<2x3x64xf32>) {
  %y = kerf.gelu tanh %x : tensor<2x3x64xf32>
  %z = kerf.gelu exact %x : tensor<2x3x64xf32>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<2x3x64xf32>
  %q = kerf.gelu_backward exact %x, %dy : tensor<2x3x64xf32>
  exec.yield %y, %z, %d, %q : tensor<2x3x64xf32>, tensor<2x3x64xf32>, tensor<2x3x64xf32>, tensor<2x3x64xf32>
}

exec.kernel @layer_norm_f32_65(%x: tensor<5x65xf32>, %g: tensor<65xf32>, %b: tensor<65xf32>) -> (tensor<5x65xf32>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<5x65xf32>, tensor<65xf32>, tensor<65xf32>
  exec.yield %y : tensor<5x65xf32>
}

exec.kernel @layer_norm_backward_f32_65(%x: tensor<5x65xf32>, %g: tensor<65xf32>, %dy: tensor<5x65xf32>) -> (tensor<5x65xf32>, tensor<65xf32>, tensor<65xf32>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<5x65xf32>, tensor<65xf32>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<5x65xf32> -> tensor<65xf32>
  %db = kerf.reduce sum %dy dims [0] : tensor<5x65xf32>
  exec.yield %dx, %dg, %db : tensor<5x65xf32>, tensor<65xf32>, tensor<65xf32>
}

exec.kernel @softmax_f32_65(%x: tensor<5x65xf32>) -> (tensor<5x65xf32>) {
  %y = kerf.softmax %x : tensor<5x65xf32>
  exec.yield %y : tensor<5x65xf32>
}

exec.kernel @gelu_f32_65(%x: tensor<5x65xf32>, %dy: tensor<5x65xf32>) -> (tensor<5x65xf32>, tensor<5x65xf32>, tensor<5x65xf32>, tensor<5x65xf32>) {
  %y = kerf.gelu tanh %x : tensor<5x65xf32>
  %z = kerf.gelu exact %x : tensor<5x65xf32>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<5x65xf32>
  %q = kerf.gelu_backward exact %x, %dy : tensor<5x65xf32>
  exec.yield %y, %z, %d, %q : tensor<5x65xf32>, tensor<5x65xf32>, tensor<5x65xf32>, tensor<5x65xf32>
}

exec.kernel @layer_norm_f32_768(%x: tensor<2x40x768xf32>, %g: tensor<768xf32>, %b: tensor<768xf32>) -> (tensor<2x40x768xf32>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<2x40x768xf32>, tensor<768xf32>, tensor<768xf32>
  exec.yield %y : tensor<2x40x768xf32>
}

exec.kernel @layer_norm_backward_f32_768(%x: tensor<2x40x768xf32>, %g: tensor<768xf32>, %dy: tensor<2x40x768xf32>) -> (tensor<2x40x768xf32>, tensor<768xf32>, tensor<768xf32>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<2x40x768xf32>, tensor<768xf32>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<2x40x768xf32> -> tensor<768xf32>
  %db = kerf.reduce sum %dy dims [0, 1] : tensor<2x40x768xf32>
  exec.yield %dx, %dg, %db : tensor<2x40x768xf32>, tensor<768xf32>, tensor<768xf32>
}

exec.kernel @softmax_f32_768(%x: tensor<2x40x768xf32>) -> (tensor<2x40x768xf32>) {
  %y = kerf.softmax %x : tensor<2x40x768xf32>
  exec.yield %y : tensor<2x40x768xf32>
}

exec.kernel @gelu_f32_768(%x: tensor<2x40x768xf32>, %dy: tensor<2x40x768xf32>) -> (tensor<2x40x768xf32>, tensor<2x40x768xf32>, tensor<2x40x768xf32>, tensor<2x40x768xf32>) {
  %y = kerf.gelu tanh %x : tensor<2x40x768xf32>
  %z = kerf.gelu exact %x : tensor<2x40x768xf32>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<2x40x768xf32>
  %q = kerf.gelu_backward exact %x, %dy : tensor<2x40x768xf32>
  exec.yield %y, %z, %d, %q : tensor<2x40x768xf32>, tensor<2x40x768xf32>, tensor<2x40x768xf32>, tensor<2x40x768xf32>
}

exec.kernel @layer_norm_f32_1733(%x: tensor<3x1733xf32>, %g: tensor<1733xf32>, %b: tensor<1733xf32>) -> (tensor<3x1733xf32>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<3x1733xf32>, tensor<1733xf32>, tensor<1733xf32>
  exec.yield %y : tensor<3x1733xf32>
}

exec.kernel @layer_norm_backward_f32_1733(%x: tensor<3x1733xf32>, %g: tensor<1733xf32>, %dy: tensor<3x1733xf32>) -> (tensor<3x1733xf32>, tensor<1733xf32>, tensor<1733xf32>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<3x1733xf32>, tensor<1733xf32>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<3x1733xf32> -> tensor<1733xf32>
  %db = kerf.reduce sum %dy dims [0] : tensor<3x1733xf32>
  exec.yield %dx, %dg, %db : tensor<3x1733xf32>, tensor<1733xf32>, tensor<1733xf32>
}

exec.kernel @softmax_f32_1733(%x: tensor<3x1733xf32>) -> (tensor<3x1733xf32>) {
  %y = kerf.softmax %x : tensor<3x1733xf32>
  exec.yield %y : tensor<3x1733xf32>
}

exec.kernel @gelu_f32_1733(%x: tensor<3x1733xf32>, %dy: tensor<3x1733xf32>) -> (tensor<3x1733xf32>, tensor<3x1733xf32>, tensor<3x1733xf32>, tensor<3x1733xf32>) {
  %y = kerf.gelu tanh %x : tensor<3x1733xf32>
  %z = kerf.gelu exact %x : tensor<3x1733xf32>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<3x1733xf32>
  %q = kerf.gelu_backward exact %x, %dy : tensor<3x1733xf32>
  exec.yield %y, %z, %d, %q : tensor<3x1733xf32>, tensor<3x1733xf32>, tensor<3x1733xf32>, tensor<3x1733xf32>
}

exec.kernel @rms_norm_f32(%x: tensor<2x40x65xf32>, %g: tensor<65xf32>) -> (tensor<2x40x65xf32>) {
  %y = kerf.rms_norm %x, %g eps 1.0e-6 : tensor<2x40x65xf32>, tensor<65xf32>
  exec.yield %y : tensor<2x40x65xf32>
}

exec.kernel @rms_norm_backward_f32(%x: tensor<2x40x65xf32>, %g: tensor<65xf32>, %dy: tensor<2x40x65xf32>, %r: tensor<2x40x65xf32>) -> (tensor<2x40x65xf32>, tensor<65xf32>) attributes {inplace = [[0, 3]]} {
  %dx = kerf.rms_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<2x40x65xf32>, tensor<65xf32>
  %dg = kerf.rms_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<2x40x65xf32> -> tensor<65xf32>
  %s = kerf.add %dx, %r : tensor<2x40x65xf32>
  exec.yield %s, %dg : tensor<2x40x65xf32>, tensor<65xf32>
}

exec.kernel @softmax_backward_f32(%y: tensor<2x40x65xf32> {test.range = [0.0, 0.1]}, %dy: tensor<2x40x65xf32>) -> (tensor<2x40x65xf32>) {
  %d = kerf.softmax_backward %y, %dy : tensor<2x40x65xf32>
  exec.yield %d : tensor<2x40x65xf32>
}

exec.kernel @swiglu_f32(%x: tensor<2x40x65xf32>, %u: tensor<2x40x65xf32>, %dy: tensor<2x40x65xf32>) -> (tensor<2x40x65xf32>, tensor<2x40x65xf32>, tensor<2x40x65xf32>, tensor<2x40x65xf32>, tensor<2x40x65xf32>, tensor<2x40x65xf32>, tensor<2x40x65xf32>) {
  %y = kerf.swiglu %x, %u : tensor<2x40x65xf32>
  %dg, %du = kerf.swiglu_backward %x, %u, %dy : tensor<2x40x65xf32>
  %s = kerf.silu %x : tensor<2x40x65xf32>
  %t = kerf.silu_backward %x, %dy : tensor<2x40x65xf32>
  %q = kerf.squared_relu %x : tensor<2x40x65xf32>
  %r = kerf.squared_relu_backward %x, %dy : tensor<2x40x65xf32>
  exec.yield %y, %dg, %du, %s, %t, %q, %r : tensor<2x40x65xf32>, tensor<2x40x65xf32>, tensor<2x40x65xf32>, tensor<2x40x65xf32>, tensor<2x40x65xf32>, tensor<2x40x65xf32>, tensor<2x40x65xf32>
}

exec.kernel @rope_f32(%x: tensor<2x9x3x16xf32>) -> (tensor<2x9x3x16xf32>) {
  %y = kerf.rope %x theta 10000.0 : tensor<2x9x3x16xf32>
  exec.yield %y : tensor<2x9x3x16xf32>
}

exec.kernel @rope_positions_f32(%x: tensor<2x9x3x64xf32>, %p: tensor<2x9xi32> {test.range = [0, 100]}) -> (tensor<2x9x3x64xf32>) {
  %y = kerf.rope %x theta 10000.0 inverse positions %p : tensor<2x9xi32> : tensor<2x9x3x64xf32>
  exec.yield %y : tensor<2x9x3x64xf32>
}

exec.kernel @cross_entropy_f32_16(%x: tensor<2x9x16xf32>, %t: tensor<2x9xi32> {test.range = [0, 16]}) -> (tensor<f32>, tensor<f32>) {
  %n = kerf.count_valid %t : tensor<2x9xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x9x16xf32>, tensor<2x9xi32>
  exec.yield %l, %n : tensor<f32>, tensor<f32>
}

exec.kernel @cross_entropy_backward_f32_16(%x: tensor<2x9x16xf32>, %t: tensor<2x9xi32> {test.range = [0, 16]}, %one: tensor<f32> {test.value = 1.0}, %n: tensor<f32> {test.value = 18.0}) -> (tensor<2x9x16xf32>, tensor<f32>) attributes {inplace = [[0, 0]]} {
  %d = kerf.cross_entropy_backward %x, %t, %one normalizer %n : tensor<2x9x16xf32>, tensor<2x9xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x9x16xf32>, tensor<2x9xi32>
  exec.yield %d, %l : tensor<2x9x16xf32>, tensor<f32>
}

exec.kernel @cross_entropy_f32_63(%x: tensor<2x9x63xf32>, %t: tensor<2x9xi32> {test.range = [0, 63]}) -> (tensor<f32>, tensor<f32>) {
  %n = kerf.count_valid %t : tensor<2x9xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x9x63xf32>, tensor<2x9xi32>
  exec.yield %l, %n : tensor<f32>, tensor<f32>
}

exec.kernel @cross_entropy_backward_f32_63(%x: tensor<2x9x63xf32>, %t: tensor<2x9xi32> {test.range = [0, 63]}, %one: tensor<f32> {test.value = 1.0}, %n: tensor<f32> {test.value = 18.0}) -> (tensor<2x9x63xf32>, tensor<f32>) attributes {inplace = [[0, 0]]} {
  %d = kerf.cross_entropy_backward %x, %t, %one normalizer %n : tensor<2x9x63xf32>, tensor<2x9xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x9x63xf32>, tensor<2x9xi32>
  exec.yield %d, %l : tensor<2x9x63xf32>, tensor<f32>
}

exec.kernel @cross_entropy_f32_1000(%x: tensor<2x9x1000xf32>, %t: tensor<2x9xi32> {test.range = [0, 1000]}) -> (tensor<f32>, tensor<f32>) {
  %n = kerf.count_valid %t : tensor<2x9xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x9x1000xf32>, tensor<2x9xi32>
  exec.yield %l, %n : tensor<f32>, tensor<f32>
}

exec.kernel @cross_entropy_backward_f32_1000(%x: tensor<2x9x1000xf32>, %t: tensor<2x9xi32> {test.range = [0, 1000]}, %one: tensor<f32> {test.value = 1.0}, %n: tensor<f32> {test.value = 18.0}) -> (tensor<2x9x1000xf32>, tensor<f32>) attributes {inplace = [[0, 0]]} {
  %d = kerf.cross_entropy_backward %x, %t, %one normalizer %n : tensor<2x9x1000xf32>, tensor<2x9xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x9x1000xf32>, tensor<2x9xi32>
  exec.yield %d, %l : tensor<2x9x1000xf32>, tensor<f32>
}

exec.kernel @dropout_add_f32(%x: tensor<2x40x65xf32>, %r: tensor<2x40x65xf32>, %s: tensor<i32>, %t: tensor<i32>) -> (tensor<2x40x65xf32>) {
  %d = kerf.dropout %x rate 0.1 "drop" seed %s step %t : tensor<2x40x65xf32>
  %y = kerf.add %d, %r : tensor<2x40x65xf32>
  exec.yield %y : tensor<2x40x65xf32>
}

exec.kernel @dropout_add_norm_f32(%x: tensor<2x40x65xf32>, %r: tensor<2x40x65xf32>, %s: tensor<i32>, %t: tensor<i32>, %g: tensor<65xf32>) -> (tensor<2x40x65xf32>, tensor<2x40x65xf32>) attributes {inplace = [[0, 1]]} {
  %d = kerf.dropout %x rate 0.1 "drop" seed %s step %t : tensor<2x40x65xf32>
  %y = kerf.add %d, %r : tensor<2x40x65xf32>
  %n = kerf.layer_norm %y, %g bias %g : tensor<2x40x65xf32>, tensor<65xf32>, tensor<65xf32>
  exec.yield %y, %n : tensor<2x40x65xf32>, tensor<2x40x65xf32>
}

exec.kernel @embedding_f32(%w: tensor<32x65xf32>, %p: tensor<40x65xf32>, %t: tensor<2x40xi32> {test.range = [0, 32]}) -> (tensor<2x40x65xf32>) {
  %y = kerf.embedding %t, %w : tensor<2x40xi32>, tensor<32x65xf32>
  %i = kerf.iota dim 0 : tensor<40xi32>
  %q = kerf.embedding %i, %p : tensor<40xi32>, tensor<40x65xf32>
  %b = kerf.broadcast %q dims [1, 2] : tensor<40x65xf32> -> tensor<2x40x65xf32>
  %z = kerf.add %y, %b : tensor<2x40x65xf32>
  exec.yield %z : tensor<2x40x65xf32>
}

exec.kernel @embedding_gradient_f32(%dy: tensor<2x40x65xf32>, %t: tensor<2x40xi32> {test.range = [0, 32]}) -> (tensor<32x65xf32>) {
  %d = kerf.embedding_gradient %dy, %t : tensor<2x40x65xf32>, tensor<2x40xi32> -> tensor<32x65xf32>
  exec.yield %d : tensor<32x65xf32>
}

exec.kernel @layer_norm_bf16_1(%x: tensor<2x8x1xbf16>, %g: tensor<1xbf16>, %b: tensor<1xbf16>) -> (tensor<2x8x1xbf16>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<2x8x1xbf16>, tensor<1xbf16>, tensor<1xbf16>
  exec.yield %y : tensor<2x8x1xbf16>
}

exec.kernel @layer_norm_backward_bf16_1(%x: tensor<2x8x1xbf16>, %g: tensor<1xbf16>, %dy: tensor<2x8x1xbf16>) -> (tensor<2x8x1xbf16>, tensor<1xbf16>, tensor<1xbf16>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<2x8x1xbf16>, tensor<1xbf16>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<2x8x1xbf16> -> tensor<1xbf16>
  %db = kerf.reduce sum %dy dims [0, 1] : tensor<2x8x1xbf16>
  exec.yield %dx, %dg, %db : tensor<2x8x1xbf16>, tensor<1xbf16>, tensor<1xbf16>
}

exec.kernel @softmax_bf16_1(%x: tensor<2x8x1xbf16>) -> (tensor<2x8x1xbf16>) {
  %y = kerf.softmax %x : tensor<2x8x1xbf16>
  exec.yield %y : tensor<2x8x1xbf16>
}

exec.kernel @gelu_bf16_1(%x: tensor<2x8x1xbf16>, %dy: tensor<2x8x1xbf16>) -> (tensor<2x8x1xbf16>, tensor<2x8x1xbf16>, tensor<2x8x1xbf16>, tensor<2x8x1xbf16>) {
  %y = kerf.gelu tanh %x : tensor<2x8x1xbf16>
  %z = kerf.gelu exact %x : tensor<2x8x1xbf16>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<2x8x1xbf16>
  %q = kerf.gelu_backward exact %x, %dy : tensor<2x8x1xbf16>
  exec.yield %y, %z, %d, %q : tensor<2x8x1xbf16>, tensor<2x8x1xbf16>, tensor<2x8x1xbf16>, tensor<2x8x1xbf16>
}

exec.kernel @layer_norm_bf16_3(%x: tensor<3x3xbf16>, %g: tensor<3xbf16>, %b: tensor<3xbf16>) -> (tensor<3x3xbf16>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<3x3xbf16>, tensor<3xbf16>, tensor<3xbf16>
  exec.yield %y : tensor<3x3xbf16>
}

exec.kernel @layer_norm_backward_bf16_3(%x: tensor<3x3xbf16>, %g: tensor<3xbf16>, %dy: tensor<3x3xbf16>) -> (tensor<3x3xbf16>, tensor<3xbf16>, tensor<3xbf16>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<3x3xbf16>, tensor<3xbf16>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<3x3xbf16> -> tensor<3xbf16>
  %db = kerf.reduce sum %dy dims [0] : tensor<3x3xbf16>
  exec.yield %dx, %dg, %db : tensor<3x3xbf16>, tensor<3xbf16>, tensor<3xbf16>
}

exec.kernel @softmax_bf16_3(%x: tensor<3x3xbf16>) -> (tensor<3x3xbf16>) {
  %y = kerf.softmax %x : tensor<3x3xbf16>
  exec.yield %y : tensor<3x3xbf16>
}

exec.kernel @gelu_bf16_3(%x: tensor<3x3xbf16>, %dy: tensor<3x3xbf16>) -> (tensor<3x3xbf16>, tensor<3x3xbf16>, tensor<3x3xbf16>, tensor<3x3xbf16>) {
  %y = kerf.gelu tanh %x : tensor<3x3xbf16>
  %z = kerf.gelu exact %x : tensor<3x3xbf16>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<3x3xbf16>
  %q = kerf.gelu_backward exact %x, %dy : tensor<3x3xbf16>
  exec.yield %y, %z, %d, %q : tensor<3x3xbf16>, tensor<3x3xbf16>, tensor<3x3xbf16>, tensor<3x3xbf16>
}

exec.kernel @layer_norm_bf16_16(%x: tensor<2x5x16xbf16>, %g: tensor<16xbf16>, %b: tensor<16xbf16>) -> (tensor<2x5x16xbf16>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<2x5x16xbf16>, tensor<16xbf16>, tensor<16xbf16>
  exec.yield %y : tensor<2x5x16xbf16>
}

exec.kernel @layer_norm_backward_bf16_16(%x: tensor<2x5x16xbf16>, %g: tensor<16xbf16>, %dy: tensor<2x5x16xbf16>) -> (tensor<2x5x16xbf16>, tensor<16xbf16>, tensor<16xbf16>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<2x5x16xbf16>, tensor<16xbf16>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<2x5x16xbf16> -> tensor<16xbf16>
  %db = kerf.reduce sum %dy dims [0, 1] : tensor<2x5x16xbf16>
  exec.yield %dx, %dg, %db : tensor<2x5x16xbf16>, tensor<16xbf16>, tensor<16xbf16>
}

exec.kernel @softmax_bf16_16(%x: tensor<2x5x16xbf16>) -> (tensor<2x5x16xbf16>) {
  %y = kerf.softmax %x : tensor<2x5x16xbf16>
  exec.yield %y : tensor<2x5x16xbf16>
}

exec.kernel @gelu_bf16_16(%x: tensor<2x5x16xbf16>, %dy: tensor<2x5x16xbf16>) -> (tensor<2x5x16xbf16>, tensor<2x5x16xbf16>, tensor<2x5x16xbf16>, tensor<2x5x16xbf16>) {
  %y = kerf.gelu tanh %x : tensor<2x5x16xbf16>
  %z = kerf.gelu exact %x : tensor<2x5x16xbf16>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<2x5x16xbf16>
  %q = kerf.gelu_backward exact %x, %dy : tensor<2x5x16xbf16>
  exec.yield %y, %z, %d, %q : tensor<2x5x16xbf16>, tensor<2x5x16xbf16>, tensor<2x5x16xbf16>, tensor<2x5x16xbf16>
}

exec.kernel @layer_norm_bf16_63(%x: tensor<7x63xbf16>, %g: tensor<63xbf16>, %b: tensor<63xbf16>) -> (tensor<7x63xbf16>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<7x63xbf16>, tensor<63xbf16>, tensor<63xbf16>
  exec.yield %y : tensor<7x63xbf16>
}

exec.kernel @layer_norm_backward_bf16_63(%x: tensor<7x63xbf16>, %g: tensor<63xbf16>, %dy: tensor<7x63xbf16>) -> (tensor<7x63xbf16>, tensor<63xbf16>, tensor<63xbf16>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<7x63xbf16>, tensor<63xbf16>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<7x63xbf16> -> tensor<63xbf16>
  %db = kerf.reduce sum %dy dims [0] : tensor<7x63xbf16>
  exec.yield %dx, %dg, %db : tensor<7x63xbf16>, tensor<63xbf16>, tensor<63xbf16>
}

exec.kernel @softmax_bf16_63(%x: tensor<7x63xbf16>) -> (tensor<7x63xbf16>) {
  %y = kerf.softmax %x : tensor<7x63xbf16>
  exec.yield %y : tensor<7x63xbf16>
}

exec.kernel @gelu_bf16_63(%x: tensor<7x63xbf16>, %dy: tensor<7x63xbf16>) -> (tensor<7x63xbf16>, tensor<7x63xbf16>, tensor<7x63xbf16>, tensor<7x63xbf16>) {
  %y = kerf.gelu tanh %x : tensor<7x63xbf16>
  %z = kerf.gelu exact %x : tensor<7x63xbf16>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<7x63xbf16>
  %q = kerf.gelu_backward exact %x, %dy : tensor<7x63xbf16>
  exec.yield %y, %z, %d, %q : tensor<7x63xbf16>, tensor<7x63xbf16>, tensor<7x63xbf16>, tensor<7x63xbf16>
}

exec.kernel @layer_norm_bf16_64(%x: tensor<2x3x64xbf16>, %g: tensor<64xbf16>, %b: tensor<64xbf16>) -> (tensor<2x3x64xbf16>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<2x3x64xbf16>, tensor<64xbf16>, tensor<64xbf16>
  exec.yield %y : tensor<2x3x64xbf16>
}

exec.kernel @layer_norm_backward_bf16_64(%x: tensor<2x3x64xbf16>, %g: tensor<64xbf16>, %dy: tensor<2x3x64xbf16>) -> (tensor<2x3x64xbf16>, tensor<64xbf16>, tensor<64xbf16>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<2x3x64xbf16>, tensor<64xbf16>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<2x3x64xbf16> -> tensor<64xbf16>
  %db = kerf.reduce sum %dy dims [0, 1] : tensor<2x3x64xbf16>
  exec.yield %dx, %dg, %db : tensor<2x3x64xbf16>, tensor<64xbf16>, tensor<64xbf16>
}

exec.kernel @softmax_bf16_64(%x: tensor<2x3x64xbf16>) -> (tensor<2x3x64xbf16>) {
  %y = kerf.softmax %x : tensor<2x3x64xbf16>
  exec.yield %y : tensor<2x3x64xbf16>
}

exec.kernel @gelu_bf16_64(%x: tensor<2x3x64xbf16>, %dy: tensor<2x3x64xbf16>) -> (tensor<2x3x64xbf16>, tensor<2x3x64xbf16>, tensor<2x3x64xbf16>, tensor<2x3x64xbf16>) {
  %y = kerf.gelu tanh %x : tensor<2x3x64xbf16>
  %z = kerf.gelu exact %x : tensor<2x3x64xbf16>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<2x3x64xbf16>
  %q = kerf.gelu_backward exact %x, %dy : tensor<2x3x64xbf16>
  exec.yield %y, %z, %d, %q : tensor<2x3x64xbf16>, tensor<2x3x64xbf16>, tensor<2x3x64xbf16>, tensor<2x3x64xbf16>
}

exec.kernel @layer_norm_bf16_65(%x: tensor<5x65xbf16>, %g: tensor<65xbf16>, %b: tensor<65xbf16>) -> (tensor<5x65xbf16>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<5x65xbf16>, tensor<65xbf16>, tensor<65xbf16>
  exec.yield %y : tensor<5x65xbf16>
}

exec.kernel @layer_norm_backward_bf16_65(%x: tensor<5x65xbf16>, %g: tensor<65xbf16>, %dy: tensor<5x65xbf16>) -> (tensor<5x65xbf16>, tensor<65xbf16>, tensor<65xbf16>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<5x65xbf16>, tensor<65xbf16>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<5x65xbf16> -> tensor<65xbf16>
  %db = kerf.reduce sum %dy dims [0] : tensor<5x65xbf16>
  exec.yield %dx, %dg, %db : tensor<5x65xbf16>, tensor<65xbf16>, tensor<65xbf16>
}

exec.kernel @softmax_bf16_65(%x: tensor<5x65xbf16>) -> (tensor<5x65xbf16>) {
  %y = kerf.softmax %x : tensor<5x65xbf16>
  exec.yield %y : tensor<5x65xbf16>
}

exec.kernel @gelu_bf16_65(%x: tensor<5x65xbf16>, %dy: tensor<5x65xbf16>) -> (tensor<5x65xbf16>, tensor<5x65xbf16>, tensor<5x65xbf16>, tensor<5x65xbf16>) {
  %y = kerf.gelu tanh %x : tensor<5x65xbf16>
  %z = kerf.gelu exact %x : tensor<5x65xbf16>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<5x65xbf16>
  %q = kerf.gelu_backward exact %x, %dy : tensor<5x65xbf16>
  exec.yield %y, %z, %d, %q : tensor<5x65xbf16>, tensor<5x65xbf16>, tensor<5x65xbf16>, tensor<5x65xbf16>
}

exec.kernel @layer_norm_bf16_768(%x: tensor<2x40x768xbf16>, %g: tensor<768xbf16>, %b: tensor<768xbf16>) -> (tensor<2x40x768xbf16>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<2x40x768xbf16>, tensor<768xbf16>, tensor<768xbf16>
  exec.yield %y : tensor<2x40x768xbf16>
}

exec.kernel @layer_norm_backward_bf16_768(%x: tensor<2x40x768xbf16>, %g: tensor<768xbf16>, %dy: tensor<2x40x768xbf16>) -> (tensor<2x40x768xbf16>, tensor<768xbf16>, tensor<768xbf16>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<2x40x768xbf16>, tensor<768xbf16>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<2x40x768xbf16> -> tensor<768xbf16>
  %db = kerf.reduce sum %dy dims [0, 1] : tensor<2x40x768xbf16>
  exec.yield %dx, %dg, %db : tensor<2x40x768xbf16>, tensor<768xbf16>, tensor<768xbf16>
}

exec.kernel @softmax_bf16_768(%x: tensor<2x40x768xbf16>) -> (tensor<2x40x768xbf16>) {
  %y = kerf.softmax %x : tensor<2x40x768xbf16>
  exec.yield %y : tensor<2x40x768xbf16>
}

exec.kernel @gelu_bf16_768(%x: tensor<2x40x768xbf16>, %dy: tensor<2x40x768xbf16>) -> (tensor<2x40x768xbf16>, tensor<2x40x768xbf16>, tensor<2x40x768xbf16>, tensor<2x40x768xbf16>) {
  %y = kerf.gelu tanh %x : tensor<2x40x768xbf16>
  %z = kerf.gelu exact %x : tensor<2x40x768xbf16>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<2x40x768xbf16>
  %q = kerf.gelu_backward exact %x, %dy : tensor<2x40x768xbf16>
  exec.yield %y, %z, %d, %q : tensor<2x40x768xbf16>, tensor<2x40x768xbf16>, tensor<2x40x768xbf16>, tensor<2x40x768xbf16>
}

exec.kernel @layer_norm_bf16_1733(%x: tensor<3x1733xbf16>, %g: tensor<1733xbf16>, %b: tensor<1733xbf16>) -> (tensor<3x1733xbf16>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<3x1733xbf16>, tensor<1733xbf16>, tensor<1733xbf16>
  exec.yield %y : tensor<3x1733xbf16>
}

exec.kernel @layer_norm_backward_bf16_1733(%x: tensor<3x1733xbf16>, %g: tensor<1733xbf16>, %dy: tensor<3x1733xbf16>) -> (tensor<3x1733xbf16>, tensor<1733xbf16>, tensor<1733xbf16>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<3x1733xbf16>, tensor<1733xbf16>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<3x1733xbf16> -> tensor<1733xbf16>
  %db = kerf.reduce sum %dy dims [0] : tensor<3x1733xbf16>
  exec.yield %dx, %dg, %db : tensor<3x1733xbf16>, tensor<1733xbf16>, tensor<1733xbf16>
}

exec.kernel @softmax_bf16_1733(%x: tensor<3x1733xbf16>) -> (tensor<3x1733xbf16>) {
  %y = kerf.softmax %x : tensor<3x1733xbf16>
  exec.yield %y : tensor<3x1733xbf16>
}

exec.kernel @gelu_bf16_1733(%x: tensor<3x1733xbf16>, %dy: tensor<3x1733xbf16>) -> (tensor<3x1733xbf16>, tensor<3x1733xbf16>, tensor<3x1733xbf16>, tensor<3x1733xbf16>) {
  %y = kerf.gelu tanh %x : tensor<3x1733xbf16>
  %z = kerf.gelu exact %x : tensor<3x1733xbf16>
  %d = kerf.gelu_backward tanh %x, %dy : tensor<3x1733xbf16>
  %q = kerf.gelu_backward exact %x, %dy : tensor<3x1733xbf16>
  exec.yield %y, %z, %d, %q : tensor<3x1733xbf16>, tensor<3x1733xbf16>, tensor<3x1733xbf16>, tensor<3x1733xbf16>
}

exec.kernel @rms_norm_bf16(%x: tensor<2x40x65xbf16>, %g: tensor<65xbf16>) -> (tensor<2x40x65xbf16>) {
  %y = kerf.rms_norm %x, %g eps 1.0e-6 : tensor<2x40x65xbf16>, tensor<65xbf16>
  exec.yield %y : tensor<2x40x65xbf16>
}

exec.kernel @rms_norm_backward_bf16(%x: tensor<2x40x65xbf16>, %g: tensor<65xbf16>, %dy: tensor<2x40x65xbf16>, %r: tensor<2x40x65xbf16>) -> (tensor<2x40x65xbf16>, tensor<65xbf16>) attributes {inplace = [[0, 3]]} {
  %dx = kerf.rms_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<2x40x65xbf16>, tensor<65xbf16>
  %dg = kerf.rms_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<2x40x65xbf16> -> tensor<65xbf16>
  %s = kerf.add %dx, %r : tensor<2x40x65xbf16>
  exec.yield %s, %dg : tensor<2x40x65xbf16>, tensor<65xbf16>
}

exec.kernel @softmax_backward_bf16(%y: tensor<2x40x65xbf16> {test.range = [0.0, 0.1]}, %dy: tensor<2x40x65xbf16>) -> (tensor<2x40x65xbf16>) {
  %d = kerf.softmax_backward %y, %dy : tensor<2x40x65xbf16>
  exec.yield %d : tensor<2x40x65xbf16>
}

exec.kernel @swiglu_bf16(%x: tensor<2x40x65xbf16>, %u: tensor<2x40x65xbf16>, %dy: tensor<2x40x65xbf16>) -> (tensor<2x40x65xbf16>, tensor<2x40x65xbf16>, tensor<2x40x65xbf16>, tensor<2x40x65xbf16>, tensor<2x40x65xbf16>, tensor<2x40x65xbf16>, tensor<2x40x65xbf16>) {
  %y = kerf.swiglu %x, %u : tensor<2x40x65xbf16>
  %dg, %du = kerf.swiglu_backward %x, %u, %dy : tensor<2x40x65xbf16>
  %s = kerf.silu %x : tensor<2x40x65xbf16>
  %t = kerf.silu_backward %x, %dy : tensor<2x40x65xbf16>
  %q = kerf.squared_relu %x : tensor<2x40x65xbf16>
  %r = kerf.squared_relu_backward %x, %dy : tensor<2x40x65xbf16>
  exec.yield %y, %dg, %du, %s, %t, %q, %r : tensor<2x40x65xbf16>, tensor<2x40x65xbf16>, tensor<2x40x65xbf16>, tensor<2x40x65xbf16>, tensor<2x40x65xbf16>, tensor<2x40x65xbf16>, tensor<2x40x65xbf16>
}

exec.kernel @rope_bf16(%x: tensor<2x9x3x16xbf16>) -> (tensor<2x9x3x16xbf16>) {
  %y = kerf.rope %x theta 10000.0 : tensor<2x9x3x16xbf16>
  exec.yield %y : tensor<2x9x3x16xbf16>
}

exec.kernel @rope_positions_bf16(%x: tensor<2x9x3x64xbf16>, %p: tensor<2x9xi32> {test.range = [0, 100]}) -> (tensor<2x9x3x64xbf16>) {
  %y = kerf.rope %x theta 10000.0 inverse positions %p : tensor<2x9xi32> : tensor<2x9x3x64xbf16>
  exec.yield %y : tensor<2x9x3x64xbf16>
}

exec.kernel @cross_entropy_bf16_16(%x: tensor<2x9x16xbf16>, %t: tensor<2x9xi32> {test.range = [0, 16]}) -> (tensor<f32>, tensor<f32>) {
  %n = kerf.count_valid %t : tensor<2x9xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x9x16xbf16>, tensor<2x9xi32>
  exec.yield %l, %n : tensor<f32>, tensor<f32>
}

exec.kernel @cross_entropy_backward_bf16_16(%x: tensor<2x9x16xbf16>, %t: tensor<2x9xi32> {test.range = [0, 16]}, %one: tensor<f32> {test.value = 1.0}, %n: tensor<f32> {test.value = 18.0}) -> (tensor<2x9x16xbf16>, tensor<f32>) attributes {inplace = [[0, 0]]} {
  %d = kerf.cross_entropy_backward %x, %t, %one normalizer %n : tensor<2x9x16xbf16>, tensor<2x9xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x9x16xbf16>, tensor<2x9xi32>
  exec.yield %d, %l : tensor<2x9x16xbf16>, tensor<f32>
}

exec.kernel @cross_entropy_bf16_63(%x: tensor<2x9x63xbf16>, %t: tensor<2x9xi32> {test.range = [0, 63]}) -> (tensor<f32>, tensor<f32>) {
  %n = kerf.count_valid %t : tensor<2x9xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x9x63xbf16>, tensor<2x9xi32>
  exec.yield %l, %n : tensor<f32>, tensor<f32>
}

exec.kernel @cross_entropy_backward_bf16_63(%x: tensor<2x9x63xbf16>, %t: tensor<2x9xi32> {test.range = [0, 63]}, %one: tensor<f32> {test.value = 1.0}, %n: tensor<f32> {test.value = 18.0}) -> (tensor<2x9x63xbf16>, tensor<f32>) attributes {inplace = [[0, 0]]} {
  %d = kerf.cross_entropy_backward %x, %t, %one normalizer %n : tensor<2x9x63xbf16>, tensor<2x9xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x9x63xbf16>, tensor<2x9xi32>
  exec.yield %d, %l : tensor<2x9x63xbf16>, tensor<f32>
}

exec.kernel @cross_entropy_bf16_1000(%x: tensor<2x9x1000xbf16>, %t: tensor<2x9xi32> {test.range = [0, 1000]}) -> (tensor<f32>, tensor<f32>) {
  %n = kerf.count_valid %t : tensor<2x9xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x9x1000xbf16>, tensor<2x9xi32>
  exec.yield %l, %n : tensor<f32>, tensor<f32>
}

exec.kernel @cross_entropy_backward_bf16_1000(%x: tensor<2x9x1000xbf16>, %t: tensor<2x9xi32> {test.range = [0, 1000]}, %one: tensor<f32> {test.value = 1.0}, %n: tensor<f32> {test.value = 18.0}) -> (tensor<2x9x1000xbf16>, tensor<f32>) attributes {inplace = [[0, 0]]} {
  %d = kerf.cross_entropy_backward %x, %t, %one normalizer %n : tensor<2x9x1000xbf16>, tensor<2x9xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x9x1000xbf16>, tensor<2x9xi32>
  exec.yield %d, %l : tensor<2x9x1000xbf16>, tensor<f32>
}

exec.kernel @dropout_add_bf16(%x: tensor<2x40x65xbf16>, %r: tensor<2x40x65xbf16>, %s: tensor<i32>, %t: tensor<i32>) -> (tensor<2x40x65xbf16>) {
  %d = kerf.dropout %x rate 0.1 "drop" seed %s step %t : tensor<2x40x65xbf16>
  %y = kerf.add %d, %r : tensor<2x40x65xbf16>
  exec.yield %y : tensor<2x40x65xbf16>
}

exec.kernel @dropout_add_norm_bf16(%x: tensor<2x40x65xbf16>, %r: tensor<2x40x65xbf16>, %s: tensor<i32>, %t: tensor<i32>, %g: tensor<65xbf16>) -> (tensor<2x40x65xbf16>, tensor<2x40x65xbf16>) attributes {inplace = [[0, 1]]} {
  %d = kerf.dropout %x rate 0.1 "drop" seed %s step %t : tensor<2x40x65xbf16>
  %y = kerf.add %d, %r : tensor<2x40x65xbf16>
  %n = kerf.layer_norm %y, %g bias %g : tensor<2x40x65xbf16>, tensor<65xbf16>, tensor<65xbf16>
  exec.yield %y, %n : tensor<2x40x65xbf16>, tensor<2x40x65xbf16>
}

exec.kernel @embedding_bf16(%w: tensor<32x65xbf16>, %p: tensor<40x65xbf16>, %t: tensor<2x40xi32> {test.range = [0, 32]}) -> (tensor<2x40x65xbf16>) {
  %y = kerf.embedding %t, %w : tensor<2x40xi32>, tensor<32x65xbf16>
  %i = kerf.iota dim 0 : tensor<40xi32>
  %q = kerf.embedding %i, %p : tensor<40xi32>, tensor<40x65xbf16>
  %b = kerf.broadcast %q dims [1, 2] : tensor<40x65xbf16> -> tensor<2x40x65xbf16>
  %z = kerf.add %y, %b : tensor<2x40x65xbf16>
  exec.yield %z : tensor<2x40x65xbf16>
}

exec.kernel @embedding_gradient_bf16(%dy: tensor<2x40x65xbf16>, %t: tensor<2x40xi32> {test.range = [0, 32]}) -> (tensor<32x65xbf16>) {
  %d = kerf.embedding_gradient %dy, %t : tensor<2x40x65xbf16>, tensor<2x40xi32> -> tensor<32x65xbf16>
  exec.yield %d : tensor<32x65xbf16>
}

exec.kernel @attention_small(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x4x16xf32>, %v: tensor<2x8x4x16xf32>) -> (tensor<2x8x4x16xf32>) {
  %y = kerf.attention %q, %k, %v causal : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>
  exec.yield %y : tensor<2x8x4x16xf32>
}
