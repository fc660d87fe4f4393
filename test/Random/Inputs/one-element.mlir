// fuse=1 recompute=none threads=1
// One token of one channel: all kernels have one element, of several ranks.
kerf.model @m(tokens %tokens: tensor<1x1xi32>, targets %targets: tensor<1x1xi32>) attributes {optimizer = #kerf.adamw<eps = 1.0e-2>, clip_norm = 1.0} {
  %wte = kerf.param "wte" init<normal, 0.4> : tensor<130x1xf32>
  %x = kerf.embedding %tokens, %wte : tensor<1x1xi32>, tensor<130x1xf32>
  %y, %z = kerf.repeat reverse %i = 0 to 3 (%h = %x : tensor<1x1x1xf32>, %p = %x : tensor<1x1x1xf32>) {
    %g = kerf.param "h.{i}.g" init<normal, 0.4> : tensor<1xf32>
    %norm = kerf.layer_norm %h, %g eps 1.0e-2 : tensor<1x1x1xf32>, tensor<1xf32>
    %row = kerf.param "h.{i}.row" init<normal, 0.4> : tensor<1xf32>
    %wide = kerf.broadcast %row dims [2] : tensor<1xf32> -> tensor<1x1x1xf32>
    %next = kerf.add %norm, %wide : tensor<1x1x1xf32>
    kerf.yield %next, %next : tensor<1x1x1xf32>, tensor<1x1x1xf32>
  }
  %head = kerf.param "head" init<normal, 0.4> : tensor<130x1xf32>
  %l = kerf.linear %y, %head : tensor<1x1x1xf32>, tensor<130x1xf32>
  %n = kerf.count_valid %targets : tensor<1x1xi32>
  %ce = kerf.cross_entropy %l, %targets normalizer %n z_loss 1.0e-2 : tensor<1x1x130xf32>, tensor<1x1xi32>
  %rest = kerf.reduce sum %x dims [0, 1, 2] : tensor<1x1x1xf32>
  %loss = kerf.add %ce, %rest : tensor<f32>
  kerf.return %loss, %ce : tensor<f32>, tensor<f32>
}
