// A small Transformer language model, written by hand. docs/a-model-by-hand.md
// explains it line by line.
kerf.model @hand(tokens %tokens: tensor<2x8xi32>, targets %targets: tensor<2x8xi32>)
    attributes {optimizer = #kerf.adamw<weight_decay = 0.1>, clip_norm = 1.0,
                groups = [#kerf.group<match = "*norm.weight", weight_decay = 0.0>]} {
  %embed = kerf.param "embed.weight" init<normal, 0.02> : tensor<64x32xf32>
  %x0 = kerf.embedding %tokens, %embed : tensor<2x8xi32>, tensor<64x32xf32>

  %x = kerf.repeat %i = 0 to 2 (%h = %x0 : tensor<2x8x32xf32>) {
    // Attention: 4 query heads and 2 key-value heads of 8 channels.
    %g1 = kerf.param "layers.{i}.attn_norm.weight" init<ones> : tensor<32xf32>
    %wq = kerf.param "layers.{i}.attn.q.weight" init<normal, 0.02> : tensor<32x32xf32>
    %wk = kerf.param "layers.{i}.attn.k.weight" init<normal, 0.02> : tensor<16x32xf32>
    %wv = kerf.param "layers.{i}.attn.v.weight" init<normal, 0.02> : tensor<16x32xf32>
    %wo = kerf.param "layers.{i}.attn.o.weight" init<normal, 0.02> : tensor<32x32xf32>
    %n1 = kerf.rms_norm %h, %g1 : tensor<2x8x32xf32>, tensor<32xf32>
    %q = kerf.linear %n1, %wq : tensor<2x8x32xf32>, tensor<32x32xf32>
    %k = kerf.linear %n1, %wk : tensor<2x8x32xf32>, tensor<16x32xf32>
    %v = kerf.linear %n1, %wv : tensor<2x8x32xf32>, tensor<16x32xf32>
    %qh = kerf.reshape %q : tensor<2x8x32xf32> -> tensor<2x8x4x8xf32>
    %kh = kerf.reshape %k : tensor<2x8x16xf32> -> tensor<2x8x2x8xf32>
    %vh = kerf.reshape %v : tensor<2x8x16xf32> -> tensor<2x8x2x8xf32>
    %qr = kerf.rope %qh theta 10000.0 : tensor<2x8x4x8xf32>
    %kr = kerf.rope %kh theta 10000.0 : tensor<2x8x2x8xf32>
    %ah = kerf.attention %qr, %kr, %vh causal
        : tensor<2x8x4x8xf32>, tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>
    %a = kerf.reshape %ah : tensor<2x8x4x8xf32> -> tensor<2x8x32xf32>
    %o = kerf.linear %a, %wo : tensor<2x8x32xf32>, tensor<32x32xf32>
    %h1 = kerf.add %h, %o : tensor<2x8x32xf32>

    // MLP: a gated one, 64 wide.
    %g2 = kerf.param "layers.{i}.mlp_norm.weight" init<ones> : tensor<32xf32>
    %wg = kerf.param "layers.{i}.mlp.gate.weight" init<normal, 0.02> : tensor<64x32xf32>
    %wu = kerf.param "layers.{i}.mlp.up.weight" init<normal, 0.02> : tensor<64x32xf32>
    %wd = kerf.param "layers.{i}.mlp.down.weight" init<normal, 0.02> : tensor<32x64xf32>
    %n2 = kerf.rms_norm %h1, %g2 : tensor<2x8x32xf32>, tensor<32xf32>
    %gate = kerf.linear %n2, %wg : tensor<2x8x32xf32>, tensor<64x32xf32>
    %up = kerf.linear %n2, %wu : tensor<2x8x32xf32>, tensor<64x32xf32>
    %s = kerf.swiglu %gate, %up : tensor<2x8x64xf32>
    %d = kerf.linear %s, %wd : tensor<2x8x64xf32>, tensor<32x64xf32>
    %h2 = kerf.add %h1, %d : tensor<2x8x32xf32>
    kerf.yield %h2 : tensor<2x8x32xf32>
  }

  %g = kerf.param "norm.weight" init<ones> : tensor<32xf32>
  %n = kerf.rms_norm %x, %g : tensor<2x8x32xf32>, tensor<32xf32>
  %logits = kerf.linear %n, %embed : tensor<2x8x32xf32>, tensor<64x32xf32>
  %count = kerf.count_valid %targets : tensor<2x8xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %count
      : tensor<2x8x64xf32>, tensor<2x8xi32>
  kerf.return %loss : tensor<f32>
}
