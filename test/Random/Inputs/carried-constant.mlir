// fuse=1 recompute=none threads=1
// A carried value that stays as it is, saved for the backward pass.
kerf.model @m(tokens %tokens: tensor<2x7xi32>, targets %targets: tensor<2x7xi32>) attributes {optimizer = #kerf.sgd<>} {
  %rows = kerf.iota dim 0 : tensor<2x7xi32>
  %wte = kerf.param "wte" init<normal, 0.4> : tensor<16x1xf32>
  %x = kerf.embedding %tokens, %wte : tensor<2x7xi32>, tensor<16x1xf32>
  %y, %same = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x7x1xf32>, %index = %rows : tensor<2x7xi32>) {
    %table = kerf.param "table" init<normal, 0.4> : tensor<16x1xf32>
    %row = kerf.gather %table, %index : tensor<16x1xf32>, tensor<2x7xi32>
    %next = kerf.mul %h, %row : tensor<2x7x1xf32>
    kerf.yield %next, %index : tensor<2x7x1xf32>, tensor<2x7xi32>
  }
  %l = kerf.linear %y, %wte : tensor<2x7x1xf32>, tensor<16x1xf32>
  %n = kerf.count_valid %targets : tensor<2x7xi32>
  %loss = kerf.cross_entropy %l, %targets normalizer %n : tensor<2x7x16xf32>, tensor<2x7xi32>
  %metric = kerf.reduce sum %y dims [0, 1, 2] : tensor<2x7x1xf32>
  kerf.return %loss, %metric : tensor<f32>, tensor<f32>
}
