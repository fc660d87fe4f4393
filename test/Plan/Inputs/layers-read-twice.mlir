kerf.model @layers_read_twice(tokens %t: tensor<4x8xi32>, targets %y: tensor<4x8xi32>)
    attributes {optimizer = #kerf.adamw<weight_decay = 0.1>, clip_norm = 1.0} {
  %e = kerf.param "emb" init<normal, 0.2> : tensor<64x16xf32>
  %x = kerf.embedding %t, %e : tensor<4x8xi32>, tensor<64x16xf32>
  %h = kerf.repeat %i = 0 to 2 (%h0 = %x : tensor<4x8x16xf32>) {
    %w = kerf.param "l.{i}" init<normal, 0.2> : tensor<16x16xf32>
    %u = kerf.linear %h0, %w : tensor<4x8x16xf32>, tensor<16x16xf32>
    %h1 = kerf.tanh %u : tensor<4x8x16xf32>
    kerf.yield %h1 : tensor<4x8x16xf32>
  }
  %h2 = kerf.repeat %i = 0 to 2 (%h0 = %h : tensor<4x8x16xf32>) {
    %w = kerf.param "l.{i}" init<normal, 0.2> : tensor<16x16xf32>
    %u = kerf.linear %h0, %w : tensor<4x8x16xf32>, tensor<16x16xf32>
    %h1 = kerf.tanh %u : tensor<4x8x16xf32>
    kerf.yield %h1 : tensor<4x8x16xf32>
  }
  %l = kerf.linear %h2, %e : tensor<4x8x16xf32>, tensor<64x16xf32>
  %n = kerf.count_valid %y : tensor<4x8xi32>
  %loss = kerf.cross_entropy %l, %y normalizer %n : tensor<4x8x64xf32>, tensor<4x8xi32>
  kerf.return %loss : tensor<f32>
}
