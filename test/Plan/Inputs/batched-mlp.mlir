// Every head has weights of its own: matmuls with a batch, which libraries do
// not end in gelu.
kerf.model @batched_mlp(tokens %tokens: tensor<8x16xi32>, targets %targets: tensor<8x16xi32>) attributes {
    optimizer = #kerf.adamw<weight_decay = 0.1>} {
  %table = kerf.param "wte" init<normal, 0.02> : tensor<64x64xf32>
  %x0 = kerf.embedding %tokens, %table : tensor<8x16xi32>, tensor<64x64xf32>
  %x1 = kerf.repeat %i = 0 to 2 (%x = %x0 : tensor<8x16x64xf32>) {
    %up = kerf.param "h.{i}.up" init<normal, 0.02> : tensor<4x16x64xf32>
    %down = kerf.param "h.{i}.down" init<normal, 0.02> : tensor<4x64x16xf32>
    %heads = kerf.reshape %x : tensor<8x16x64xf32> -> tensor<8x16x4x16xf32>
    %h = kerf.einsum "bsnd,ndf->bsnf" %heads, %up : tensor<8x16x4x16xf32>, tensor<4x16x64xf32> -> tensor<8x16x4x64xf32>
    %g = kerf.gelu tanh %h : tensor<8x16x4x64xf32>
    %y = kerf.einsum "bsnf,nfd->bsnd" %g, %down : tensor<8x16x4x64xf32>, tensor<4x64x16xf32> -> tensor<8x16x4x16xf32>
    %flat = kerf.reshape %y : tensor<8x16x4x16xf32> -> tensor<8x16x64xf32>
    %sum = kerf.add %x, %flat : tensor<8x16x64xf32>
    kerf.yield %sum : tensor<8x16x64xf32>
  }
  %logits = kerf.linear %x1, %table : tensor<8x16x64xf32>, tensor<64x64xf32>
  %valid = kerf.count_valid %targets : tensor<8x16xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %valid : tensor<8x16x64xf32>, tensor<8x16xi32>
  kerf.return %loss : tensor<f32>
}
