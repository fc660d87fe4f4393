// PaLM 540B, written by hand.
//
// Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways" (arXiv
// 2204.02311), section 2: 118 layers of width 18432, 48 heads of 256
// channels, a vocabulary of 256,000, 2,048 sequences of 2,048 tokens a step at last.
// No matmul and no norm has a bias. Attention and MLP of a layer read one norm:
//     y = x + MLP(LayerNorm(x)) + Attention(LayerNorm(x))
// All query heads share one head of keys and values. The table of the embedding
// is the head's, too: drawn with deviation 1, so logits are divided by
// sqrt(18432). Matmuls are drawn with deviation 1 / sqrt(inputs). Each token
// adds 1e-4 ln(Z)^2 to the loss. The paper's Adafactor is not factorized: two
// numbers per weight, as in AdamW.
kerf.model @palm(tokens %tokens: tensor<2048x2048xi32>, targets %targets: tensor<2048x2048xi32>)
    attributes {optimizer = #kerf.adamw<beta2 = 0.99, weight_decay = 0.1>, clip_norm = 1.0,
                groups = [#kerf.group<match = "*norm.weight", weight_decay = 0.0>]} {
  %embed = kerf.param "palm.embed_tokens.weight" init<normal, 1.0> : tensor<256000x18432xf32>
  %x0 = kerf.embedding %tokens, %embed : tensor<2048x2048xi32>, tensor<256000x18432xf32>

  %x = kerf.repeat %i = 0 to 118 (%h = %x0 : tensor<2048x2048x18432xf32>) {
    %g = kerf.param "palm.layers.{i}.norm.weight" init<ones> : tensor<18432xf32>
    %n = kerf.layer_norm %h, %g : tensor<2048x2048x18432xf32>, tensor<18432xf32>

    // 48 heads of 256 channels read one head of keys and values.
    %wq = kerf.param "palm.layers.{i}.attn.q.weight" init<normal, 0.007365696> : tensor<12288x18432xf32>
    %wk = kerf.param "palm.layers.{i}.attn.k.weight" init<normal, 0.007365696> : tensor<256x18432xf32>
    %wv = kerf.param "palm.layers.{i}.attn.v.weight" init<normal, 0.007365696> : tensor<256x18432xf32>
    %wo = kerf.param "palm.layers.{i}.attn.o.weight" init<normal, 0.009021098> : tensor<18432x12288xf32>
    %q = kerf.linear %n, %wq : tensor<2048x2048x18432xf32>, tensor<12288x18432xf32>
    %k = kerf.linear %n, %wk : tensor<2048x2048x18432xf32>, tensor<256x18432xf32>
    %v = kerf.linear %n, %wv : tensor<2048x2048x18432xf32>, tensor<256x18432xf32>
    %qh = kerf.reshape %q : tensor<2048x2048x12288xf32> -> tensor<2048x2048x48x256xf32>
    %kh = kerf.reshape %k : tensor<2048x2048x256xf32> -> tensor<2048x2048x1x256xf32>
    %vh = kerf.reshape %v : tensor<2048x2048x256xf32> -> tensor<2048x2048x1x256xf32>
    %qr = kerf.rope %qh theta 10000.0 : tensor<2048x2048x48x256xf32>
    %kr = kerf.rope %kh theta 10000.0 : tensor<2048x2048x1x256xf32>
    %ah = kerf.attention %qr, %kr, %vh causal
        : tensor<2048x2048x48x256xf32>, tensor<2048x2048x1x256xf32>, tensor<2048x2048x1x256xf32>
    %a = kerf.reshape %ah : tensor<2048x2048x48x256xf32> -> tensor<2048x2048x12288xf32>
    %o = kerf.linear %a, %wo : tensor<2048x2048x12288xf32>, tensor<18432x12288xf32>

    // A gated MLP, 73728 = 4 x 18432 wide.
    %wg = kerf.param "palm.layers.{i}.mlp.gate.weight" init<normal, 0.007365696> : tensor<73728x18432xf32>
    %wu = kerf.param "palm.layers.{i}.mlp.up.weight" init<normal, 0.007365696> : tensor<73728x18432xf32>
    %wd = kerf.param "palm.layers.{i}.mlp.down.weight" init<normal, 0.003682848> : tensor<18432x73728xf32>
    %gate = kerf.linear %n, %wg : tensor<2048x2048x18432xf32>, tensor<73728x18432xf32>
    %up = kerf.linear %n, %wu : tensor<2048x2048x18432xf32>, tensor<73728x18432xf32>
    %s = kerf.swiglu %gate, %up : tensor<2048x2048x73728xf32>
    %d = kerf.linear %s, %wd : tensor<2048x2048x73728xf32>, tensor<18432x73728xf32>

    // The outputs are added first: tensor ranks that hold parts of both sum once.
    %both = kerf.add %o, %d : tensor<2048x2048x18432xf32>
    %y = kerf.add %h, %both : tensor<2048x2048x18432xf32>
    kerf.yield %y : tensor<2048x2048x18432xf32>
  }

  %gf = kerf.param "palm.norm.weight" init<ones> : tensor<18432xf32>
  // 1 / sqrt(18432) of the logits, here of the gain that all of them have.
  %c = kerf.constant dense<0.007365696> : tensor<f32>
  %cs = kerf.broadcast %c dims [] : tensor<f32> -> tensor<18432xf32>
  %gc = kerf.mul %gf, %cs : tensor<18432xf32>
  %nf = kerf.layer_norm %x, %gc : tensor<2048x2048x18432xf32>, tensor<18432xf32>
  %logits = kerf.linear %nf, %embed : tensor<2048x2048x18432xf32>, tensor<256000x18432xf32>
  %count = kerf.count_valid %targets : tensor<2048x2048xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %count z_loss 1.0e-4
      : tensor<2048x2048x256000xf32>, tensor<2048x2048xi32>
  kerf.return %loss : tensor<f32>
}
