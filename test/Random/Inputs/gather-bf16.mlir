// fuse=1 precision=bf16 threads=2
// The gradient of a gather's table is an f32 sum of bf16 rows.
kerf.model @m(tokens %tokens: tensor<2x3xi32>, targets %targets: tensor<2x3xi32>) attributes {optimizer = #kerf.sgd<momentum = 0.9>} {
  %wte = kerf.param "wte" init<normal, 0.4> : tensor<16x4xf32>
  %x = kerf.gather %wte, %tokens : tensor<16x4xf32>, tensor<2x3xi32>
  %l = kerf.linear %x, %wte : tensor<2x3x4xf32>, tensor<16x4xf32>
  %n = kerf.count_valid %targets : tensor<2x3xi32>
  %loss = kerf.cross_entropy %l, %targets normalizer %n : tensor<2x3x16xf32>, tensor<2x3xi32>
  kerf.return %loss : tensor<f32>
}
