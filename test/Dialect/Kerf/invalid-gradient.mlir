// RUN: kerf-opt %s --split-input-file --verify-diagnostics

// Each token has a gradient.
kerf.model @embedding_gradient_c1(%dy: tensor<2x8x16xf32>, %i: tensor<2x7xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.embedding_gradient' op expected one row of 'tensor<32x16xf32>' per entry of 'tensor<2x7xi32>', found 'tensor<2x8x16xf32>'}}
  %d = kerf.embedding_gradient %dy, %i : tensor<2x8x16xf32>, tensor<2x7xi32> -> tensor<32x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The gain fits the rows.
kerf.model @layer_norm_backward_c1(%x: tensor<2x16xf32>, %g: tensor<2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.layer_norm_backward' op expected one entry per element of a row of 'tensor<2x16xf32>', found 'tensor<2xf32>'}}
  %d = kerf.layer_norm_backward %x, %g, %x eps 1.0e-5 : tensor<2x16xf32>, tensor<2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The gain's gradient fits the rows.
kerf.model @layer_norm_weight_gradient_c1(%x: tensor<2x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.layer_norm_weight_gradient' op expected one entry per element of a row of 'tensor<2x16xf32>', found 'tensor<2x16xf32>'}}
  %d = kerf.layer_norm_weight_gradient %x, %x eps 1.0e-5 : tensor<2x16xf32> -> tensor<2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The gain fits the rows.
kerf.model @rms_norm_backward_c1(%x: tensor<2x16xf32>, %g: tensor<2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.rms_norm_backward' op expected one entry per element of a row of 'tensor<2x16xf32>', found 'tensor<2xf32>'}}
  %d = kerf.rms_norm_backward %x, %g, %x eps 1.0e-5 : tensor<2x16xf32>, tensor<2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The gain's gradient fits the rows.
kerf.model @rms_norm_weight_gradient_c1(%x: tensor<2x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.rms_norm_weight_gradient' op expected one entry per element of a row of 'tensor<2x16xf32>', found 'tensor<2x16xf32>'}}
  %d = kerf.rms_norm_weight_gradient %x, %x eps 1.0e-5 : tensor<2x16xf32> -> tensor<2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The constraints of attention hold for its gradient.
kerf.model @attention_backward_c1(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x3x16xf32>, %l: tensor<2x4x8xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention_backward' expected key heads that divide the query heads, found 'tensor<2x8x4x16xf32>', 'tensor<2x8x3x16xf32>' and 'tensor<2x8x3x16xf32>'}}
  %dq, %dk, %dv = kerf.attention_backward %q, %k, %k from %q, %l, %q
      : tensor<2x8x4x16xf32>, tensor<2x8x3x16xf32>, tensor<2x8x3x16xf32> from tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The sums of exponentials are one per head and query.
kerf.model @attention_backward_c2(%q: tensor<2x8x4x16xf32>, %l: tensor<2x8x4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention_backward' expected y of 'tensor<2x8x4x16xf32>' and lse of 'tensor<2x4x8xf32>', found 'tensor<2x8x4x16xf32>' and 'tensor<2x8x4xf32>'}}
  %dq, %dk, %dv = kerf.attention_backward %q, %q, %q from %q, %l, %q
      : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32> from tensor<2x8x4x16xf32>, tensor<2x8x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Operands and result of gelu_backward have one type.
kerf.model @gelu_backward_c1(%x: tensor<2x8xf32>, %dy: tensor<8x2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.gelu_backward' op requires the same type for all operands and results}}
  %d = "kerf.gelu_backward"(%x, %dy) <{kind = #kerf<gelu_kind tanh>}> : (tensor<2x8xf32>, tensor<8x2xf32>) -> tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Operands and result of silu_backward have one type.
kerf.model @silu_backward_c1(%x: tensor<2x8xf32>, %dy: tensor<8x2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.silu_backward' op requires the same type for all operands and results}}
  %d = "kerf.silu_backward"(%x, %dy) : (tensor<2x8xf32>, tensor<8x2xf32>) -> tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Operands and result of squared_relu_backward have one type.
kerf.model @squared_relu_backward_c1(%x: tensor<2x8xf32>, %dy: tensor<8x2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.squared_relu_backward' op requires the same type for all operands and results}}
  %d = "kerf.squared_relu_backward"(%x, %dy) : (tensor<2x8xf32>, tensor<8x2xf32>) -> tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Operands and result of softmax_backward have one type.
kerf.model @softmax_backward_c1(%x: tensor<2x8xf32>, %dy: tensor<8x2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.softmax_backward' op requires the same type for all operands and results}}
  %d = "kerf.softmax_backward"(%x, %dy) : (tensor<2x8xf32>, tensor<8x2xf32>) -> tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Operands and results of swiglu_backward have one type.
kerf.model @swiglu_backward_c1(%x: tensor<2x8xf32>, %dy: tensor<2x8xbf16>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.swiglu_backward' op requires the same type for all operands and results}}
  %dg, %du = "kerf.swiglu_backward"(%x, %x, %dy) : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xbf16>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  kerf.return %loss : tensor<f32>
}

// -----

// A scalar has no rows.
kerf.model @softmax_backward_c2(%x: tensor<f32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.softmax_backward' op expected rank >= 1, found a scalar}}
  %d = kerf.softmax_backward %x, %x : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// Each row of logits has a target.
kerf.model @cross_entropy_backward_c1(%x: tensor<2x8x32xf32>, %t: tensor<2x8x1xi32>, %n: tensor<f32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.cross_entropy_backward' expected one target per row of logits 'tensor<2x8x32xf32>', found 'tensor<2x8x1xi32>'}}
  %d = kerf.cross_entropy_backward %x, %t, %n normalizer %n : tensor<2x8x32xf32>, tensor<2x8x1xi32>
  kerf.return %loss : tensor<f32>
}
