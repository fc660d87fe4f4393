// Kernels of GPT-2 124M at 4 x 512 tokens, for kernels.sh.

exec.kernel @copy_38m(%x: tensor<38597376xf32> {test.value = 1.0}) -> (tensor<38597376xf32>) {
  exec.yield %x : tensor<38597376xf32>
}

exec.kernel @copy_1m(%x: tensor<4x512x768xf32>) -> (tensor<4x512x768xf32>) {
  exec.yield %x : tensor<4x512x768xf32>
}

exec.kernel @layer_norm(%x: tensor<4x512x768xf32>, %g: tensor<768xf32>, %b: tensor<768xf32>) -> (tensor<4x512x768xf32>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<4x512x768xf32>, tensor<768xf32>, tensor<768xf32>
  exec.yield %y : tensor<4x512x768xf32>
}

exec.kernel @layer_norm_backward(%x: tensor<4x512x768xf32>, %g: tensor<768xf32>, %dy: tensor<4x512x768xf32>) -> (tensor<4x512x768xf32>, tensor<768xf32>, tensor<768xf32>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<4x512x768xf32>, tensor<768xf32>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<4x512x768xf32> -> tensor<768xf32>
  %db = kerf.reduce sum %dy dims [0, 1] : tensor<4x512x768xf32>
  exec.yield %dx, %dg, %db : tensor<4x512x768xf32>, tensor<768xf32>, tensor<768xf32>
}

exec.kernel @gelu(%x: tensor<4x512x3072xf32>) -> (tensor<4x512x3072xf32>) {
  %y = kerf.gelu tanh %x : tensor<4x512x3072xf32>
  exec.yield %y : tensor<4x512x3072xf32>
}

exec.kernel @gelu_exact(%x: tensor<4x512x3072xf32>) -> (tensor<4x512x3072xf32>) {
  %y = kerf.gelu exact %x : tensor<4x512x3072xf32>
  exec.yield %y : tensor<4x512x3072xf32>
}

exec.kernel @gelu_backward(%x: tensor<4x512x3072xf32>, %dy: tensor<4x512x3072xf32>) -> (tensor<4x512x3072xf32>) {
  %y = kerf.gelu_backward tanh %x, %dy : tensor<4x512x3072xf32>
  exec.yield %y : tensor<4x512x3072xf32>
}

exec.kernel @bias_gradient(%dy: tensor<4x512x3072xf32>) -> (tensor<3072xf32>) {
  %y = kerf.reduce sum %dy dims [0, 1] : tensor<4x512x3072xf32>
  exec.yield %y : tensor<3072xf32>
}

exec.kernel @dropout_add(%x: tensor<4x512x768xf32>, %r: tensor<4x512x768xf32>, %s: tensor<i32>, %t: tensor<i32>) -> (tensor<4x512x768xf32>) {
  %d = kerf.dropout %x rate 0.1 "drop" seed %s step %t : tensor<4x512x768xf32>
  %y = kerf.add %d, %r : tensor<4x512x768xf32>
  exec.yield %y : tensor<4x512x768xf32>
}

exec.kernel @cross_entropy(%x: tensor<4x512x50257xf32>, %t: tensor<4x512xi32> {test.range = [0, 50257]}, %n: tensor<f32> {test.value = 2048.0}) -> (tensor<f32>) {
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<4x512x50257xf32>, tensor<4x512xi32>
  exec.yield %l : tensor<f32>
}

exec.kernel @cross_entropy_backward(%x: tensor<4x512x50257xf32>, %t: tensor<4x512xi32> {test.range = [0, 50257]}, %one: tensor<f32> {test.value = 1.0}, %n: tensor<f32> {test.value = 2048.0}) -> (tensor<4x512x50257xf32>, tensor<f32>) attributes {inplace = [[0, 0]]} {
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<4x512x50257xf32>, tensor<4x512xi32>
  %d = kerf.cross_entropy_backward %x, %t, %one normalizer %n : tensor<4x512x50257xf32>, tensor<4x512xi32>
  exec.yield %d, %l : tensor<4x512x50257xf32>, tensor<f32>
}

exec.kernel @adamw(%p: tensor<50257x768xf32>, %g: tensor<50257x768xf32>, %m: tensor<50257x768xf32>, %v: tensor<50257x768xf32> {test.range = [0.0, 1.0]}, %rate: tensor<f32> {test.value = 0.001}, %step: tensor<i32> {test.value = 3}, %scale: tensor<f32> {test.value = 0.5}) -> (tensor<50257x768xf32>, tensor<50257x768xf32>, tensor<50257x768xf32>) attributes {inplace = [[0, 0], [1, 2], [2, 3]]} {
  %b10 = kerf.constant dense<0.9> : tensor<50257x768xf64>
  %b1 = kerf.cast %b10 : tensor<50257x768xf64> -> tensor<50257x768xf32>
  %c10 = kerf.constant dense<0.1> : tensor<50257x768xf64>
  %c1 = kerf.cast %c10 : tensor<50257x768xf64> -> tensor<50257x768xf32>
  %b20 = kerf.constant dense<0.95> : tensor<50257x768xf64>
  %b2 = kerf.cast %b20 : tensor<50257x768xf64> -> tensor<50257x768xf32>
  %c20 = kerf.constant dense<0.05> : tensor<50257x768xf64>
  %c2 = kerf.cast %c20 : tensor<50257x768xf64> -> tensor<50257x768xf32>
  %eps0 = kerf.constant dense<1.0e-8> : tensor<50257x768xf64>
  %eps = kerf.cast %eps0 : tensor<50257x768xf64> -> tensor<50257x768xf32>
  %sb = kerf.broadcast %scale dims [] : tensor<f32> -> tensor<50257x768xf32>
  %gs = kerf.mul %g, %sb : tensor<50257x768xf32>
  %m1 = kerf.mul %m, %b1 : tensor<50257x768xf32>
  %m2 = kerf.mul %gs, %c1 : tensor<50257x768xf32>
  %nm = kerf.add %m1, %m2 : tensor<50257x768xf32>
  %g2 = kerf.mul %gs, %gs : tensor<50257x768xf32>
  %v1 = kerf.mul %v, %b2 : tensor<50257x768xf32>
  %v2 = kerf.mul %g2, %c2 : tensor<50257x768xf32>
  %nv = kerf.add %v1, %v2 : tensor<50257x768xf32>
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
  %rb = kerf.broadcast %rt dims [] : tensor<f32> -> tensor<50257x768xf32>
  %ra = kerf.div %rate, %k1 : tensor<f32>
  %rab = kerf.broadcast %ra dims [] : tensor<f32> -> tensor<50257x768xf32>
  %sv = kerf.sqrt %nv : tensor<50257x768xf32>
  %sd = kerf.div %sv, %rb : tensor<50257x768xf32>
  %den = kerf.add %sd, %eps : tensor<50257x768xf32>
  %wd0 = kerf.constant dense<0.1> : tensor<f64>
  %wd = kerf.cast %wd0 : tensor<f64> -> tensor<f32>
  %rw = kerf.mul %rate, %wd : tensor<f32>
  %ones = kerf.constant dense<1.0> : tensor<f32>
  %keep = kerf.sub %ones, %rw : tensor<f32>
  %kb = kerf.broadcast %keep dims [] : tensor<f32> -> tensor<50257x768xf32>
  %kept = kerf.mul %p, %kb : tensor<50257x768xf32>
  %up = kerf.div %nm, %den : tensor<50257x768xf32>
  %u2 = kerf.mul %rab, %up : tensor<50257x768xf32>
  %np = kerf.sub %kept, %u2 : tensor<50257x768xf32>
  exec.yield %np, %nm, %nv : tensor<50257x768xf32>, tensor<50257x768xf32>, tensor<50257x768xf32>
}

exec.kernel @global_norm(%g: tensor<50257x768xf32>) -> (tensor<f32>) {
  %q = kerf.mul %g, %g : tensor<50257x768xf32>
  %s = kerf.reduce sum %q dims [0, 1] : tensor<50257x768xf32>
  %n = kerf.sqrt %s : tensor<f32>
  exec.yield %n : tensor<f32>
}

exec.kernel @embedding(%w: tensor<50257x768xf32>, %t: tensor<4x512xi32> {test.range = [0, 50257]}) -> (tensor<4x512x768xf32>) {
  %y = kerf.embedding %t, %w : tensor<4x512xi32>, tensor<50257x768xf32>
  exec.yield %y : tensor<4x512x768xf32>
}

exec.kernel @embedding_gradient(%dy: tensor<4x512x768xf32>, %t: tensor<4x512xi32> {test.range = [0, 50257]}) -> (tensor<50257x768xf32>) {
  %d = kerf.embedding_gradient %dy, %t : tensor<4x512x768xf32>, tensor<4x512xi32> -> tensor<50257x768xf32>
  exec.yield %d : tensor<50257x768xf32>
}

exec.kernel @rope(%x: tensor<4x512x12x64xf32>) -> (tensor<4x512x12x64xf32>) {
  %y = kerf.rope %x theta 10000.0 : tensor<4x512x12x64xf32>
  exec.yield %y : tensor<4x512x12x64xf32>
}

exec.kernel @layer_norm_bf16(%x: tensor<4x512x768xbf16>, %g: tensor<768xbf16>, %b: tensor<768xbf16>) -> (tensor<4x512x768xbf16>) {
  %y = kerf.layer_norm %x, %g bias %b : tensor<4x512x768xbf16>, tensor<768xbf16>, tensor<768xbf16>
  exec.yield %y : tensor<4x512x768xbf16>
}

exec.kernel @layer_norm_backward_bf16(%x: tensor<4x512x768xbf16>, %g: tensor<768xbf16>, %dy: tensor<4x512x768xbf16>) -> (tensor<4x512x768xbf16>, tensor<768xbf16>, tensor<768xbf16>) {
  %dx = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<4x512x768xbf16>, tensor<768xbf16>
  %dg = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<4x512x768xbf16> -> tensor<768xbf16>
  %db = kerf.reduce sum %dy dims [0, 1] : tensor<4x512x768xbf16>
  exec.yield %dx, %dg, %db : tensor<4x512x768xbf16>, tensor<768xbf16>, tensor<768xbf16>
}

exec.kernel @gelu_bf16(%x: tensor<4x512x3072xbf16>) -> (tensor<4x512x3072xbf16>) {
  %y = kerf.gelu tanh %x : tensor<4x512x3072xbf16>
  exec.yield %y : tensor<4x512x3072xbf16>
}

exec.kernel @gelu_backward_bf16(%x: tensor<4x512x3072xbf16>, %dy: tensor<4x512x3072xbf16>) -> (tensor<4x512x3072xbf16>) {
  %y = kerf.gelu_backward tanh %x, %dy : tensor<4x512x3072xbf16>
  exec.yield %y : tensor<4x512x3072xbf16>
}

exec.kernel @swiglu_bf16(%x: tensor<4x512x3072xbf16>, %u: tensor<4x512x3072xbf16>) -> (tensor<4x512x3072xbf16>) {
  %y = kerf.swiglu %x, %u : tensor<4x512x3072xbf16>
  exec.yield %y : tensor<4x512x3072xbf16>
}

exec.kernel @rope_bf16(%x: tensor<4x512x12x64xbf16>) -> (tensor<4x512x12x64xbf16>) {
  %y = kerf.rope %x theta 10000.0 : tensor<4x512x12x64xbf16>
  exec.yield %y : tensor<4x512x12x64xbf16>
}
