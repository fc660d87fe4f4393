// fuse=1 recompute=none threads=1
// Carried values that become views of one another.
kerf.model @m(tokens %tokens: tensor<2x3xi32>, targets %targets: tensor<2x3xi32>) attributes {optimizer = #kerf.sgd<momentum = 0.9>} {
  %wte = kerf.param "wte" init<normal, 0.4> : tensor<16x4xf32>
  %x = kerf.embedding %tokens, %wte : tensor<2x3xi32>, tensor<16x4xf32>
  %flat = kerf.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %flat2 = kerf.tanh %flat : tensor<6x4xf32>
  %y, %z = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x3x4xf32>, %last = %flat2 : tensor<6x4xf32>) {
    %a = kerf.reshape %last : tensor<6x4xf32> -> tensor<2x3x4xf32>
    %b = kerf.reshape %h : tensor<2x3x4xf32> -> tensor<6x4xf32>
    kerf.yield %a, %b : tensor<2x3x4xf32>, tensor<6x4xf32>
  }
  %w = kerf.reshape %z : tensor<6x4xf32> -> tensor<2x3x4xf32>
  %s = kerf.sin %w : tensor<2x3x4xf32>
  %v = kerf.add %s, %y : tensor<2x3x4xf32>
  %l = kerf.linear %v, %wte : tensor<2x3x4xf32>, tensor<16x4xf32>
  %n = kerf.count_valid %targets : tensor<2x3xi32>
  %loss = kerf.cross_entropy %l, %targets normalizer %n : tensor<2x3x16xf32>, tensor<2x3xi32>
  kerf.return %loss : tensor<f32>
}
