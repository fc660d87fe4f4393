// A decoder of four layers with tied embeddings, a shared parameter, a value from outside
// and stacked results: all that a repeat may hand over.
kerf.model @decoder(seed %seed: tensor<i32>)
    attributes {optimizer = #kerf.adamw<weight_decay = 0.1>, clip_norm = 0.5} {
  %t = kerf.constant dense<[[5, 0, 2], [2, 2, 4]]> : tensor<2x3xi32>
  %u = kerf.constant dense<[[0, 2, -100], [1, 3, 3]]> : tensor<2x3xi32>
  %wte = kerf.param "wte" init<normal, 0.5> : tensor<6x4xf32>
  %scale = kerf.param "scale" init<normal, 0.5> : tensor<4xf32>
  %outside = kerf.exp %scale : tensor<4xf32>
  %rates = kerf.param "rates" init<normal, 0.5> : tensor<4x4xf32>
  %x = kerf.embedding %t, %wte : tensor<2x3xi32>, tensor<6x4xf32>
  %y, %norms = kerf.repeat %i = 0 to 4 (%h = %x : tensor<2x3x4xf32>) slices(%rate = %rates : tensor<4x4xf32>) {
    %g = kerf.param "norm" init<normal, 0.5> : tensor<4xf32>
    %wq = kerf.param "h.{i}.q" init<normal, 0.5> : tensor<4x4xf32>
    %wk = kerf.param "h.{i}.k" init<normal, 0.5> : tensor<2x4xf32>
    %b = kerf.param "h.{i}.b" init<normal, 0.5> : tensor<4xf32>
    %n = kerf.rms_norm %h, %g : tensor<2x3x4xf32>, tensor<4xf32>
    %q0 = kerf.linear %n, %wq bias %b : tensor<2x3x4xf32>, tensor<4x4xf32>, tensor<4xf32>
    %k0 = kerf.linear %n, %wk : tensor<2x3x4xf32>, tensor<2x4xf32>
    %q1 = kerf.reshape %q0 : tensor<2x3x4xf32> -> tensor<2x3x2x2xf32>
    %k1 = kerf.reshape %k0 : tensor<2x3x2xf32> -> tensor<2x3x1x2xf32>
    %q = kerf.rope %q1 theta 100.0 : tensor<2x3x2x2xf32>
    %k = kerf.rope %k1 theta 100.0 : tensor<2x3x1x2xf32>
    %a = kerf.attention %q, %k, %k1 causal dropout 0.25 "attn" seed %seed step %seed layer %i
        : tensor<2x3x2x2xf32>, tensor<2x3x1x2xf32>, tensor<2x3x1x2xf32>
    %r = kerf.reshape %a : tensor<2x3x2x2xf32> -> tensor<2x3x4xf32>
    %0 = kerf.mul %outside, %rate : tensor<4xf32>
    %1 = kerf.broadcast %0 dims [2] : tensor<4xf32> -> tensor<2x3x4xf32>
    %2 = kerf.mul %r, %1 : tensor<2x3x4xf32>
    %s = kerf.add %h, %2 : tensor<2x3x4xf32>
    kerf.yield %s stack(%n) : tensor<2x3x4xf32>, tensor<2x3x4xf32>
  }
  %logits = kerf.linear %y, %wte : tensor<2x3x4xf32>, tensor<6x4xf32>
  %n = kerf.count_valid %u : tensor<2x3xi32>
  %ce = kerf.cross_entropy %logits, %u normalizer %n : tensor<2x3x6xf32>, tensor<2x3xi32>
  %square = kerf.mul %norms, %norms : tensor<4x2x3x4xf32>
  %penalty = kerf.reduce sum %square dims [0, 1, 2, 3] : tensor<4x2x3x4xf32>
  %loss = kerf.add %ce, %penalty : tensor<f32>
  kerf.return %loss : tensor<f32>
}
