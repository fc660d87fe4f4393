// The layers of examples/models/palm-540b in sizes for the interpreter, and the optimizer
// of the reference cases.
kerf.model @palm(tokens %tokens: tensor<2x12xi32>, targets %targets: tensor<2x12xi32>)
    attributes {optimizer = #kerf.adamw<beta2 = 0.95, weight_decay = 0.1>, clip_norm = 1.0,
                groups = [#kerf.group<match = "*norm.weight", weight_decay = 0.0>]} {
  %embed = kerf.param "palm.embed_tokens.weight" init<normal, 1.0> : tensor<24x16xf32>
  %x0 = kerf.embedding %tokens, %embed : tensor<2x12xi32>, tensor<24x16xf32>

  %x = kerf.repeat %i = 0 to 2 (%h = %x0 : tensor<2x12x16xf32>) {
    %g = kerf.param "palm.layers.{i}.norm.weight" init<ones> : tensor<16xf32>
    %n = kerf.layer_norm %h, %g : tensor<2x12x16xf32>, tensor<16xf32>

    // 3 heads of 4 channels read one head of keys and values.
    %wq = kerf.param "palm.layers.{i}.attn.q.weight" init<normal, 0.25> : tensor<12x16xf32>
    %wk = kerf.param "palm.layers.{i}.attn.k.weight" init<normal, 0.25> : tensor<4x16xf32>
    %wv = kerf.param "palm.layers.{i}.attn.v.weight" init<normal, 0.25> : tensor<4x16xf32>
    %wo = kerf.param "palm.layers.{i}.attn.o.weight" init<normal, 0.288675135> : tensor<16x12xf32>
    %q = kerf.linear %n, %wq : tensor<2x12x16xf32>, tensor<12x16xf32>
    %k = kerf.linear %n, %wk : tensor<2x12x16xf32>, tensor<4x16xf32>
    %v = kerf.linear %n, %wv : tensor<2x12x16xf32>, tensor<4x16xf32>
    %qh = kerf.reshape %q : tensor<2x12x12xf32> -> tensor<2x12x3x4xf32>
    %kh = kerf.reshape %k : tensor<2x12x4xf32> -> tensor<2x12x1x4xf32>
    %vh = kerf.reshape %v : tensor<2x12x4xf32> -> tensor<2x12x1x4xf32>
    %qr = kerf.rope %qh theta 10000.0 : tensor<2x12x3x4xf32>
    %kr = kerf.rope %kh theta 10000.0 : tensor<2x12x1x4xf32>
    %ah = kerf.attention %qr, %kr, %vh causal
        : tensor<2x12x3x4xf32>, tensor<2x12x1x4xf32>, tensor<2x12x1x4xf32>
    %a = kerf.reshape %ah : tensor<2x12x3x4xf32> -> tensor<2x12x12xf32>
    %o = kerf.linear %a, %wo : tensor<2x12x12xf32>, tensor<16x12xf32>

    // A gated MLP, 20 wide.
    %wg = kerf.param "palm.layers.{i}.mlp.gate.weight" init<normal, 0.25> : tensor<20x16xf32>
    %wu = kerf.param "palm.layers.{i}.mlp.up.weight" init<normal, 0.25> : tensor<20x16xf32>
    %wd = kerf.param "palm.layers.{i}.mlp.down.weight" init<normal, 0.223606798> : tensor<16x20xf32>
    %gate = kerf.linear %n, %wg : tensor<2x12x16xf32>, tensor<20x16xf32>
    %up = kerf.linear %n, %wu : tensor<2x12x16xf32>, tensor<20x16xf32>
    %s = kerf.swiglu %gate, %up : tensor<2x12x20xf32>
    %d = kerf.linear %s, %wd : tensor<2x12x20xf32>, tensor<16x20xf32>

    // The outputs are added first: tensor ranks that hold parts of both sum once.
    %both = kerf.add %o, %d : tensor<2x12x16xf32>
    %y = kerf.add %h, %both : tensor<2x12x16xf32>
    kerf.yield %y : tensor<2x12x16xf32>
  }

  %gf = kerf.param "palm.norm.weight" init<ones> : tensor<16xf32>
  // 1 / sqrt(16) of the logits, here of the gain that all of them have.
  %c = kerf.constant dense<0.25> : tensor<f32>
  %cs = kerf.broadcast %c dims [] : tensor<f32> -> tensor<16xf32>
  %gc = kerf.mul %gf, %cs : tensor<16xf32>
  %nf = kerf.layer_norm %x, %gc : tensor<2x12x16xf32>, tensor<16xf32>
  %logits = kerf.linear %nf, %embed : tensor<2x12x16xf32>, tensor<24x16xf32>
  %count = kerf.count_valid %targets : tensor<2x12xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %count z_loss 1.0e-4
      : tensor<2x12x24xf32>, tensor<2x12xi32>
  kerf.return %loss : tensor<f32>
}
