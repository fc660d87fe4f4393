// A residual block, twice, and a loss: what a plan can be tried on.
kerf.model @mlp(tokens %tokens: tensor<4x8xi32>, targets %targets: tensor<4x8xi32>)
    attributes {optimizer = #kerf.sgd<>, clip_norm = 1.0} {
  %wte = kerf.param "wte" init<normal, 0.02> : tensor<16x8xf32>
  %x0 = kerf.embedding %tokens, %wte : tensor<4x8xi32>, tensor<16x8xf32>
  %x = kerf.repeat %i = 0 to 2 (%h = %x0 : tensor<4x8x8xf32>) {
    %g = kerf.param "h.{i}.norm" init<ones> : tensor<8xf32>
    %up = kerf.param "h.{i}.up" init<normal, 0.02> : tensor<16x8xf32>
    %down = kerf.param "h.{i}.down" init<normal, 0.02> : tensor<8x16xf32>
    %n = kerf.rms_norm %h, %g : tensor<4x8x8xf32>, tensor<8xf32>
    %u = kerf.linear %n, %up : tensor<4x8x8xf32>, tensor<16x8xf32>
    %a = kerf.gelu tanh %u : tensor<4x8x16xf32>
    %d = kerf.linear %a, %down : tensor<4x8x16xf32>, tensor<8x16xf32>
    %y = kerf.add %h, %d : tensor<4x8x8xf32>
    kerf.yield %y : tensor<4x8x8xf32>
  }
  %logits = kerf.linear %x, %wte : tensor<4x8x8xf32>, tensor<16x8xf32>
  %n = kerf.count_valid %targets : tensor<4x8xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %n : tensor<4x8x16xf32>, tensor<4x8xi32>
  kerf.return %loss : tensor<f32>
}
