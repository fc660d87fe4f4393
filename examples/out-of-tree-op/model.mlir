// A language model of two layers that work on each token alone, with squareplus.
kerf.model @smooth(tokens %tokens: tensor<4x16xi32>, targets %targets: tensor<4x16xi32>)
    attributes {optimizer = #kerf.adamw<>} {
  %embed = kerf.param "embed.weight" init<normal, 0.02> : tensor<256x32xf32>
  %x0 = kerf.embedding %tokens, %embed : tensor<4x16xi32>, tensor<256x32xf32>
  %x = kerf.repeat %i = 0 to 2 (%h = %x0 : tensor<4x16x32xf32>) {
    %gain = kerf.param "h.{i}.norm.weight" init<ones> : tensor<32xf32>
    %up = kerf.param "h.{i}.up.weight" init<normal, 0.2> : tensor<128x32xf32>
    %down = kerf.param "h.{i}.down.weight" init<normal, 0.1> : tensor<32x128xf32>
    %n = kerf.rms_norm %h, %gain : tensor<4x16x32xf32>, tensor<32xf32>
    %u = kerf.linear %n, %up : tensor<4x16x32xf32>, tensor<128x32xf32>
    %a = smooth.squareplus %u : tensor<4x16x128xf32>
    %d = kerf.linear %a, %down : tensor<4x16x128xf32>, tensor<32x128xf32>
    %y = kerf.add %h, %d : tensor<4x16x32xf32>
    kerf.yield %y : tensor<4x16x32xf32>
  }
  %logits = kerf.linear %x, %embed : tensor<4x16x32xf32>, tensor<256x32xf32>
  %count = kerf.count_valid %targets : tensor<4x16xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %count
      : tensor<4x16x256xf32>, tensor<4x16xi32>
  kerf.return %loss : tensor<f32>
}
