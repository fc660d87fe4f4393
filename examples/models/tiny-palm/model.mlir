// A small model with the layers of examples/models/palm-540b.
//
// Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways" (arXiv
// 2204.02311), section 2: heads whose channels together are fewer than
// the width, as there.
// No matmul and no norm has a bias. Attention and MLP of a layer read one norm:
//     y = x + MLP(LayerNorm(x)) + Attention(LayerNorm(x))
// All query heads share one head of keys and values. The table of the embedding
// is the head's, too: drawn with deviation 1, so logits are divided by
// sqrt(32). Matmuls are drawn with deviation 1 / sqrt(inputs). Each token
// adds 1e-4 ln(Z)^2 to the loss. The paper's Adafactor is not factorized: two
// numbers per weight, as in AdamW.
kerf.model @palm(tokens %tokens: tensor<8x16xi32>, targets %targets: tensor<8x16xi32>)
    attributes {optimizer = #kerf.adamw<beta2 = 0.99, weight_decay = 0.1>, clip_norm = 1.0,
                groups = [#kerf.group<match = "*norm.weight", weight_decay = 0.0>]} {
  %embed = kerf.param "palm.embed_tokens.weight" init<normal, 1.0> : tensor<96x32xf32>
  %x0 = kerf.embedding %tokens, %embed : tensor<8x16xi32>, tensor<96x32xf32>

  %x = kerf.repeat %i = 0 to 4 (%h = %x0 : tensor<8x16x32xf32>) {
    %g = kerf.param "palm.layers.{i}.norm.weight" init<ones> : tensor<32xf32>
    %n = kerf.layer_norm %h, %g : tensor<8x16x32xf32>, tensor<32xf32>

    // 4 heads of 6 channels read one head of keys and values.
    %wq = kerf.param "palm.layers.{i}.attn.q.weight" init<normal, 0.176776695> : tensor<24x32xf32>
    %wk = kerf.param "palm.layers.{i}.attn.k.weight" init<normal, 0.176776695> : tensor<6x32xf32>
    %wv = kerf.param "palm.layers.{i}.attn.v.weight" init<normal, 0.176776695> : tensor<6x32xf32>
    %wo = kerf.param "palm.layers.{i}.attn.o.weight" init<normal, 0.204124145> : tensor<32x24xf32>
    %q = kerf.linear %n, %wq : tensor<8x16x32xf32>, tensor<24x32xf32>
    %k = kerf.linear %n, %wk : tensor<8x16x32xf32>, tensor<6x32xf32>
    %v = kerf.linear %n, %wv : tensor<8x16x32xf32>, tensor<6x32xf32>
    %qh = kerf.reshape %q : tensor<8x16x24xf32> -> tensor<8x16x4x6xf32>
    %kh = kerf.reshape %k : tensor<8x16x6xf32> -> tensor<8x16x1x6xf32>
    %vh = kerf.reshape %v : tensor<8x16x6xf32> -> tensor<8x16x1x6xf32>
    %qr = kerf.rope %qh theta 10000.0 : tensor<8x16x4x6xf32>
    %kr = kerf.rope %kh theta 10000.0 : tensor<8x16x1x6xf32>
    %ah = kerf.attention %qr, %kr, %vh causal
        : tensor<8x16x4x6xf32>, tensor<8x16x1x6xf32>, tensor<8x16x1x6xf32>
    %a = kerf.reshape %ah : tensor<8x16x4x6xf32> -> tensor<8x16x24xf32>
    %o = kerf.linear %a, %wo : tensor<8x16x24xf32>, tensor<32x24xf32>

    // A gated MLP, 128 = 4 x 32 wide.
    %wg = kerf.param "palm.layers.{i}.mlp.gate.weight" init<normal, 0.176776695> : tensor<128x32xf32>
    %wu = kerf.param "palm.layers.{i}.mlp.up.weight" init<normal, 0.176776695> : tensor<128x32xf32>
    %wd = kerf.param "palm.layers.{i}.mlp.down.weight" init<normal, 0.088388348> : tensor<32x128xf32>
    %gate = kerf.linear %n, %wg : tensor<8x16x32xf32>, tensor<128x32xf32>
    %up = kerf.linear %n, %wu : tensor<8x16x32xf32>, tensor<128x32xf32>
    %s = kerf.swiglu %gate, %up : tensor<8x16x128xf32>
    %d = kerf.linear %s, %wd : tensor<8x16x128xf32>, tensor<32x128xf32>

    // The outputs are added first: tensor ranks that hold parts of both sum once.
    %both = kerf.add %o, %d : tensor<8x16x32xf32>
    %y = kerf.add %h, %both : tensor<8x16x32xf32>
    kerf.yield %y : tensor<8x16x32xf32>
  }

  %gf = kerf.param "palm.norm.weight" init<ones> : tensor<32xf32>
  // 1 / sqrt(32) of the logits, here of the gain that all of them have.
  %c = kerf.constant dense<0.176776695> : tensor<f32>
  %cs = kerf.broadcast %c dims [] : tensor<f32> -> tensor<32xf32>
  %gc = kerf.mul %gf, %cs : tensor<32xf32>
  %nf = kerf.layer_norm %x, %gc : tensor<8x16x32xf32>, tensor<32xf32>
  %logits = kerf.linear %nf, %embed : tensor<8x16x32xf32>, tensor<96x32xf32>
  %count = kerf.count_valid %targets : tensor<8x16xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %count z_loss 1.0e-4
      : tensor<8x16x96xf32>, tensor<8x16xi32>
  kerf.return %loss : tensor<f32>
}
