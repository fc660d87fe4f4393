// A model with much that constants make: a squared ReLU through a maximum, a
// factor by position, a soft cap of the logits, a factor by word.
kerf.model @constants(tokens %tokens: tensor<256x2048xi32>, targets %targets: tensor<256x2048xi32>)
    attributes {optimizer = #kerf.adamw<>, clip_norm = 1.0} {
  %embed = kerf.param "embed.weight" init<normal, 0.02> : tensor<32000x768xf32>
  %x0 = kerf.embedding %tokens, %embed : tensor<256x2048xi32>, tensor<32000x768xf32>
  %x = kerf.repeat %i = 0 to 4 (%h = %x0 : tensor<256x2048x768xf32>) {
    %wu = kerf.param "h.{i}.up.weight" init<normal, 0.02> : tensor<3072x768xf32>
    %wd = kerf.param "h.{i}.down.weight" init<normal, 0.02> : tensor<768x3072xf32>
    %u = kerf.linear %h, %wu : tensor<256x2048x768xf32>, tensor<3072x768xf32>
    %zero = kerf.constant dense<0.0> : tensor<f32>
    %zeros = kerf.broadcast %zero dims [] : tensor<f32> -> tensor<256x2048x3072xf32>
    %r = kerf.max %u, %zeros : tensor<256x2048x3072xf32>
    %s = kerf.mul %r, %r : tensor<256x2048x3072xf32>
    %place = kerf.iota dim 0 : tensor<2048xi32>
    %angle = kerf.cast %place : tensor<2048xi32> -> tensor<2048xf32>
    %wave = kerf.cos %angle : tensor<2048xf32>
    %waves = kerf.broadcast %wave dims [1] : tensor<2048xf32> -> tensor<256x2048x3072xf32>
    %p = kerf.mul %s, %waves : tensor<256x2048x3072xf32>
    %d = kerf.linear %p, %wd : tensor<256x2048x3072xf32>, tensor<768x3072xf32>
    %next = kerf.add %h, %d : tensor<256x2048x768xf32>
    kerf.yield %next : tensor<256x2048x768xf32>
  }
  %head = kerf.param "head.weight" init<normal, 0.02> : tensor<32000x768xf32>
  %l = kerf.linear %x, %head : tensor<256x2048x768xf32>, tensor<32000x768xf32>
  %cap = kerf.constant dense<30.0> : tensor<f32>
  %caps = kerf.broadcast %cap dims [] : tensor<f32> -> tensor<256x2048x32000xf32>
  %part = kerf.div %l, %caps : tensor<256x2048x32000xf32>
  %bent = kerf.tanh %part : tensor<256x2048x32000xf32>
  %capped = kerf.mul %bent, %caps : tensor<256x2048x32000xf32>
  %word = kerf.iota dim 0 : tensor<32000xi32>
  %phase = kerf.cast %word : tensor<32000xi32> -> tensor<32000xf32>
  %turn = kerf.cos %phase : tensor<32000xf32>
  %turns = kerf.broadcast %turn dims [2] : tensor<32000xf32> -> tensor<256x2048x32000xf32>
  %logits = kerf.mul %capped, %turns : tensor<256x2048x32000xf32>
  %count = kerf.count_valid %targets : tensor<256x2048xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %count
      : tensor<256x2048x32000xf32>, tensor<256x2048xi32>
  kerf.return %loss : tensor<f32>
}
