// Layers against central differences.
//
// RUN: kerf-inspect gradcheck %s --samples=64

// Tokens that occur twice.
kerf.model @embedding(tokens %t: tensor<2x4xi32>) {
  %table = kerf.param "table" init<normal, 0.5> : tensor<5x3xf32>
  %y = kerf.embedding %t, %table : tensor<2x4xi32>, tensor<5x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x4x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x4x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x4x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x4x3xf32>
  kerf.return %loss : tensor<f32>
}

// A shard of the vocabulary; other tokens have no row in it.
kerf.model @embedding_offset() {
  %table = kerf.param "table" init<normal, 0.5> : tensor<3x3xf32>
  %two = kerf.constant dense<2> : tensor<i32>
  %t = kerf.constant dense<[[0, 2, 4, 1], [5, 2, 3, 3]]> : tensor<2x4xi32>
  %y = kerf.embedding %t, %table offset %two : tensor<2x4xi32>, tensor<3x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x4x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x4x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x4x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x4x3xf32>
  kerf.return %loss : tensor<f32>
}

// Input and weight.
kerf.model @linear() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x2x3xf32>
  %w = kerf.param "w" init<normal, 0.5> : tensor<4x3xf32>
  %y = kerf.linear %x, %w : tensor<2x2x3xf32>, tensor<4x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x2x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x2x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x2x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// A bias.
kerf.model @linear_bias() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x2x3xf32>
  %w = kerf.param "w" init<normal, 0.5> : tensor<4x3xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<4xf32>
  %y = kerf.linear %x, %w bias %b : tensor<2x2x3xf32>, tensor<4x3xf32>, tensor<4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x2x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x2x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x2x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// A weight [k, n], with bias.
kerf.model @linear_transposed() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x2x3xf32>
  %w = kerf.param "w" init<normal, 0.5> : tensor<3x4xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<4xf32>
  %y = kerf.linear %x, %w bias %b transposed : tensor<2x2x3xf32>, tensor<3x4xf32>, tensor<4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x2x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x2x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x2x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// An input of rank 1, and only the weight trainable.
kerf.model @linear_vector() {
  %x = kerf.param "x" init<normal, 0.5> frozen : tensor<3xf32>
  %w = kerf.param "w" init<normal, 0.5> : tensor<4x3xf32>
  %y = kerf.linear %x, %w : tensor<3xf32>, tensor<4x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<4xf32>
  %mixed = kerf.mul %y, %mix : tensor<4xf32>
  %bent = kerf.tanh %mixed : tensor<4xf32>
  %loss = kerf.reduce sum %bent dims [0] : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// A batch, with bias.
kerf.model @matmul() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x2x3xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<2x3x4xf32>
  %c = kerf.param "c" init<normal, 0.5> : tensor<4xf32>
  %y = kerf.matmul %a, %b bias %c : tensor<2x2x3xf32>, tensor<2x3x4xf32>, tensor<4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x2x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x2x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x2x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// The default epsilon.
kerf.model @layer_norm() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x4xf32>
  %g = kerf.param "g" init<normal, 0.5> : tensor<4xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<4xf32>
  %y = kerf.layer_norm %x, %g bias %b : tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x4xf32>
  kerf.return %loss : tensor<f32>
}

// A large epsilon.
kerf.model @layer_norm_eps() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x4xf32>
  %g = kerf.param "g" init<normal, 0.5> : tensor<4xf32>
  %y = kerf.layer_norm %x, %g eps 0.5 : tensor<2x3x4xf32>, tensor<4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x4xf32>
  kerf.return %loss : tensor<f32>
}

// The default epsilon.
kerf.model @rms_norm() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x4xf32>
  %g = kerf.param "g" init<normal, 0.5> : tensor<4xf32>
  %y = kerf.rms_norm %x, %g : tensor<2x3x4xf32>, tensor<4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x4xf32>
  kerf.return %loss : tensor<f32>
}

// A large epsilon.
kerf.model @rms_norm_eps() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x4xf32>
  %g = kerf.param "g" init<normal, 0.5> : tensor<4xf32>
  %y = kerf.rms_norm %x, %g eps 0.5 : tensor<2x3x4xf32>, tensor<4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x4xf32>
  kerf.return %loss : tensor<f32>
}

// Plain frequencies.
kerf.model @rope() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x2x4xf32>
  %y = kerf.rope %x theta 100.0 : tensor<2x3x2x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x2x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x2x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x2x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// Rotating back.
kerf.model @rope_inverse() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x2x4xf32>
  %y = kerf.rope %x theta 100.0 inverse : tensor<2x3x2x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x2x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x2x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x2x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// Linear scaling.
kerf.model @rope_linear() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x2x4xf32>
  %y = kerf.rope %x theta 100.0 scaling(#kerf.rope_linear<factor = 4.0>) : tensor<2x3x2x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x2x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x2x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x2x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// The llama3 rule.
kerf.model @rope_llama3() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x2x4xf32>
  %y = kerf.rope %x theta 100.0 scaling(#kerf.rope_llama3<factor = 8.0, low = 1.0, high = 4.0, original = 16.0>)
      : tensor<2x3x2x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x2x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x2x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x2x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// Yarn, whose transpose is no inverse.
kerf.model @rope_yarn() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x2x4xf32>
  %y = kerf.rope %x theta 100.0
      scaling(#kerf.rope_yarn<factor = 4.0, low = 0.0, high = 3.0, magnitude = 1.5>)
      : tensor<2x3x2x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x2x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x2x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x2x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// Given positions.
kerf.model @rope_positions(positions %p: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x2x4xf32>
  %y = kerf.rope %x theta 100.0 positions %p : tensor<2x3xi32> : tensor<2x3x2x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x2x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x2x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x2x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// A shard of the sequence.
kerf.model @rope_offset() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x2x4xf32>
  %five = kerf.constant dense<5> : tensor<i32>
  %y = kerf.rope %x theta 100.0 offset %five : tensor<2x3x2x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x2x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x2x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x2x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// The exact gelu.
kerf.model @gelu_exact() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %y = kerf.gelu exact %x : tensor<3x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x4xf32>
  %bent = kerf.tanh %mixed : tensor<3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<3x4xf32>
  kerf.return %loss : tensor<f32>
}

// The tanh form.
kerf.model @gelu_tanh() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %y = kerf.gelu tanh %x : tensor<3x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x4xf32>
  %bent = kerf.tanh %mixed : tensor<3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<3x4xf32>
  kerf.return %loss : tensor<f32>
}

// x times its logistic.
kerf.model @silu() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %y = kerf.silu %x : tensor<3x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x4xf32>
  %bent = kerf.tanh %mixed : tensor<3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<3x4xf32>
  kerf.return %loss : tensor<f32>
}

// Numbers on both sides of zero.
kerf.model @squared_relu() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %y = kerf.squared_relu %x : tensor<3x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x4xf32>
  %bent = kerf.tanh %mixed : tensor<3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<3x4xf32>
  kerf.return %loss : tensor<f32>
}

// Rows of probabilities.
kerf.model @softmax() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %y = kerf.softmax %x : tensor<3x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x4xf32>
  %bent = kerf.tanh %mixed : tensor<3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<3x4xf32>
  kerf.return %loss : tensor<f32>
}

// Gate and value.
kerf.model @swiglu() {
  %g = kerf.param "g" init<normal, 0.5> : tensor<3x4xf32>
  %u = kerf.param "u" init<normal, 0.5> : tensor<3x4xf32>
  %y = kerf.swiglu %g, %u : tensor<3x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x4xf32>
  %bent = kerf.tanh %mixed : tensor<3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<3x4xf32>
  kerf.return %loss : tensor<f32>
}

// The gradient draws the mask again.
kerf.model @dropout(seed %seed: tensor<i32>) {
  %x = kerf.param "x" init<normal, 0.5> : tensor<3x4xf32>
  %step = kerf.constant dense<7> : tensor<i32>
  %y = kerf.dropout %x rate 0.25 "drop" seed %seed step %step layer %step : tensor<3x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x4xf32>
  %bent = kerf.tanh %mixed : tensor<3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<3x4xf32>
  kerf.return %loss : tensor<f32>
}

// Rate 0 is the identity.
kerf.model @dropout_none(seed %seed: tensor<i32>) {
  %x = kerf.param "x" init<normal, 0.5> : tensor<3x4xf32>
  %y = kerf.dropout %x rate 0.0 "drop" seed %seed step %seed : tensor<3x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x4xf32>
  %bent = kerf.tanh %mixed : tensor<3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<3x4xf32>
  kerf.return %loss : tensor<f32>
}

// Some targets are ignored.
kerf.model @cross_entropy() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %t = kerf.constant dense<[[4, -100, 0], [2, 2, -100]]> : tensor<2x3xi32>
  %n = kerf.count_valid %t : tensor<2x3xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x3x5xf32>, tensor<2x3xi32>
  %loss = kerf.mul %l, %l : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// With z-loss.
kerf.model @cross_entropy_z_loss() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %t = kerf.constant dense<[[4, -100, 0], [2, 2, -100]]> : tensor<2x3xi32>
  %n = kerf.count_valid %t : tensor<2x3xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n z_loss 0.125 : tensor<2x3x5xf32>, tensor<2x3xi32>
  %loss = kerf.mul %l, %l : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Another number is ignored.
kerf.model @cross_entropy_ignore() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %t = kerf.constant dense<[[4, 2, 0], [1, 2, 3]]> : tensor<2x3xi32>
  %n = kerf.count_valid %t : tensor<2x3xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n ignore 2 : tensor<2x3x5xf32>, tensor<2x3xi32>
  %loss = kerf.mul %l, %l : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A shard of the vocabulary, without the row of some targets.
kerf.model @cross_entropy_offset() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %t = kerf.constant dense<[[4, 1, 0], [6, -100, 7]]> : tensor<2x3xi32>
  %n = kerf.count_valid %t : tensor<2x3xi32>
  %two = kerf.constant dense<2> : tensor<i32>
  %l = kerf.cross_entropy %x, %t normalizer %n offset %two : tensor<2x3x5xf32>, tensor<2x3xi32>
  %loss = kerf.mul %l, %l : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The normalizer depends on a parameter, too.
kerf.model @cross_entropy_normalizer() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %t = kerf.constant dense<[[4, -100, 0], [2, 2, -100]]> : tensor<2x3xi32>
  %n = kerf.count_valid %t : tensor<2x3xi32>
  %w = kerf.param "w" init<normal, 0.5> : tensor<f32>
  %e = kerf.exp %w : tensor<f32>
  %l = kerf.cross_entropy %x, %t normalizer %e : tensor<2x3x5xf32>, tensor<2x3xi32>
  %loss = kerf.mul %l, %l : tensor<f32>
  kerf.return %loss : tensor<f32>
}
