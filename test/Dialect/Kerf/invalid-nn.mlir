// RUN: kerf-opt %s --split-input-file --verify-diagnostics

// A vocabulary is a matrix.
kerf.model @embedding_c1(%i: tensor<2x8xi32>, %t: tensor<32xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.embedding' expected a table of rank 2, found 'tensor<32xf32>'}}
  %x = kerf.embedding %i, %t : tensor<2x8xi32>, tensor<32xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A weight is a matrix.
kerf.model @linear_c1(%x: tensor<2x8x16xf32>, %w: tensor<16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.linear' expected x of rank 1 to 8 and a weight of rank 2, found 'tensor<2x8x16xf32>' and 'tensor<16xf32>'}}
  %y = kerf.linear %x, %w : tensor<2x8x16xf32>, tensor<16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A scalar has no rows to multiply.
kerf.model @linear_scalar(%x: tensor<f32>, %w: tensor<16x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.linear' expected x of rank 1 to 8 and a weight of rank 2, found 'tensor<f32>' and 'tensor<16x16xf32>'}}
  %y = kerf.linear %x, %w : tensor<f32>, tensor<16x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Rows fit the weight.
kerf.model @linear_c2(%x: tensor<2x8x16xf32>, %w: tensor<16x32xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.linear' expected inner dimension 16 (rows of 'tensor<2x8x16xf32>'), found 32 in weight 'tensor<16x32xf32>'}}
  %y = kerf.linear %x, %w : tensor<2x8x16xf32>, tensor<16x32xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Rows fit the transposed weight.
kerf.model @linear_transposed(%x: tensor<2x8x16xf32>, %w: tensor<32x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.linear' expected inner dimension 16 (rows of 'tensor<2x8x16xf32>'), found 32 in weight 'tensor<32x16xf32>'}}
  %y = kerf.linear %x, %w transposed : tensor<2x8x16xf32>, tensor<32x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The bias fits the outputs.
kerf.model @linear_c3(%x: tensor<2x8x16xf32>, %w: tensor<32x16xf32>, %b: tensor<16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.linear' expected a bias of 32 entries, found 'tensor<16xf32>'}}
  %y = kerf.linear %x, %w bias %b : tensor<2x8x16xf32>, tensor<32x16xf32>, tensor<16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Both operands have the same batch.
kerf.model @matmul_c1(%x: tensor<2x8x16xf32>, %w: tensor<3x16x4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.matmul' expected operands of one rank 2 to 8 and equal leading dimensions, found 'tensor<2x8x16xf32>' and 'tensor<3x16x4xf32>'}}
  %y = kerf.matmul %x, %w : tensor<2x8x16xf32>, tensor<3x16x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Vectors are no matrices.
kerf.model @matmul_vectors(%x: tensor<16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.matmul' expected operands of one rank 2 to 8 and equal leading dimensions, found 'tensor<16xf32>' and 'tensor<16xf32>'}}
  %y = kerf.matmul %x, %x : tensor<16xf32>, tensor<16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Columns fit rows.
kerf.model @matmul_c2(%x: tensor<2x8x16xf32>, %w: tensor<2x4x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.matmul' expected inner dimension 16, found 4}}
  %y = kerf.matmul %x, %w : tensor<2x8x16xf32>, tensor<2x4x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The bias fits the columns.
kerf.model @matmul_c3(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %b: tensor<8xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.matmul' expected a bias of 4 entries, found 'tensor<8xf32>'}}
  %y = kerf.matmul %x, %w bias %b : tensor<8x16xf32>, tensor<16x4xf32>, tensor<8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The bias fits the rows.
kerf.model @layer_norm_c1(%x: tensor<2x16xf32>, %g: tensor<16xf32>, %b: tensor<2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.layer_norm' expected a gain or bias with one entry per element of a row of 'tensor<2x16xf32>', found 'tensor<2xf32>'}}
  %y = kerf.layer_norm %x, %g bias %b : tensor<2x16xf32>, tensor<16xf32>, tensor<2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// An eps is not negative.
kerf.model @layer_norm_c2(%x: tensor<2x16xf32>, %g: tensor<16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.layer_norm' expected a finite eps >= 0, found -1.000000e-05}}
  %y = kerf.layer_norm %x, %g eps -1.0e-5 : tensor<2x16xf32>, tensor<16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The gain fits the rows.
kerf.model @rms_norm_c1(%x: tensor<2x16xf32>, %g: tensor<1x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.rms_norm' expected a gain or bias with one entry per element of a row of 'tensor<2x16xf32>', found 'tensor<1x16xf32>'}}
  %y = kerf.rms_norm %x, %g : tensor<2x16xf32>, tensor<1x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A scalar has no rows to normalize.
kerf.model @rms_norm_scalar(%x: tensor<f32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.rms_norm' expected a gain or bias with one entry per element of a row of 'tensor<f32>', found 'tensor<f32>'}}
  %y = kerf.rms_norm %x, %x : tensor<f32>, tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// An eps is a number.
kerf.model @rms_norm_c2(%x: tensor<2x16xf32>, %g: tensor<16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.rms_norm' expected a finite eps >= 0, found nan}}
  %y = kerf.rms_norm %x, %g eps 0x7FF8000000000000 : tensor<2x16xf32>, tensor<16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Queries have four dimensions.
kerf.model @attention_c1(%q: tensor<2x8x16xf32>, %k: tensor<2x8x2x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected q, k and v of rank 4, found 'tensor<2x8x16xf32>', 'tensor<2x8x2x16xf32>' and 'tensor<2x8x2x16xf32>'}}
  %y = kerf.attention %q, %k, %k : tensor<2x8x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Queries and keys are of one batch.
kerf.model @attention_batch(%q: tensor<2x8x4x16xf32>, %k: tensor<3x8x2x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected q, k and v that agree in their batch, found 'tensor<2x8x4x16xf32>', 'tensor<3x8x2x16xf32>' and 'tensor<3x8x2x16xf32>'}}
  %y = kerf.attention %q, %k, %k : tensor<2x8x4x16xf32>, tensor<3x8x2x16xf32>, tensor<3x8x2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Each key has a value.
kerf.model @attention_values(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %v: tensor<2x7x2x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected k and v that agree in sequence and heads, found 'tensor<2x8x4x16xf32>', 'tensor<2x8x2x16xf32>' and 'tensor<2x7x2x16xf32>'}}
  %y = kerf.attention %q, %k, %v : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x7x2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Queries and keys are multiplied, so they are of one length.
kerf.model @attention_channels(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x8xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected q and k that agree in their last dimension, found 'tensor<2x8x4x16xf32>', 'tensor<2x8x2x8xf32>' and 'tensor<2x8x2x8xf32>'}}
  %y = kerf.attention %q, %k, %k : tensor<2x8x4x16xf32>, tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Query heads share key heads evenly.
kerf.model @attention_c2(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x3x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected key heads that divide the query heads, found 'tensor<2x8x4x16xf32>', 'tensor<2x8x3x16xf32>' and 'tensor<2x8x3x16xf32>'}}
  %y = kerf.attention %q, %k, %k : tensor<2x8x4x16xf32>, tensor<2x8x3x16xf32>, tensor<2x8x3x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A window looks back only.
kerf.model @attention_c3(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected a window >= 1 with 'causal', found 4 without it}}
  %y = kerf.attention %q, %k, %k window 4 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A window sees at least the token itself.
kerf.model @attention_window(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected a window >= 1 with 'causal', found 0 with it}}
  %y = kerf.attention %q, %k, %k causal window 0 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A window does not look ahead.
kerf.model @attention_negative_window(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected a window >= 1 with 'causal', found -4 with it}}
  %y = kerf.attention %q, %k, %k causal window -4 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Segments number queries and keys.
kerf.model @attention_c4(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %s: tensor<2x8xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected segments [B,Sq] and [B,Sk] of 'tensor<2x8x4x16xf32>' and 'tensor<2x8x2x16xf32>', found 'tensor<2x8xi32>'}}
  %y = kerf.attention %q, %k, %k segments(%s : tensor<2x8xi32>) : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// There are four offsets.
kerf.model @attention_offsets(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %at: tensor<i32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected four offsets and four global sizes not below the local ones}}
  %y = kerf.attention %q, %k, %k offsets(%at, %at) : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The global shape is not smaller than the local one.
kerf.model @attention_global(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected four offsets and four global sizes not below the local ones}}
  %y = kerf.attention %q, %k, %k global [2, 4, 8, 7] : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Not everything can be dropped.
kerf.model @attention_c5(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %s: tensor<i32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected dropout in [0, 1) with name, seed and step, found rate 1.000000e+00}}
  %y = kerf.attention %q, %k, %k dropout 1.0 "attn" seed %s step %s : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A cap of 0 would leave nothing.
kerf.model @attention_c7(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected a finite softcap > 0, found 0.000000e+00}}
  %y = kerf.attention %q, %k, %k softcap 0.0 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A sink for each query head.
kerf.model @attention_sink_c1(%y: tensor<2x8x4x16xf32>, %l: tensor<2x4x8xf32>, %s: tensor<2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention_sink' expected y [B,Sq,H,Dv], its lse [B,H,Sq] and a sink [H], found 'tensor<2x8x4x16xf32>', 'tensor<2x4x8xf32>' and 'tensor<2xf32>'}}
  %z, %m = kerf.attention_sink %y, %l, %s : tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Dropout needs its random numbers.
kerf.model @attention_seed(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %loss: tensor<f32>) {
  // expected-error @+2 {{'kerf.attention' expected dropout in [0, 1) with name, seed and step, found rate 1.000000e-01}}
  // expected-error @+1 {{'kerf.attention' op failed to infer returned types}}
  %y = "kerf.attention"(%q, %k, %k) <{dropout = 0.1 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0>}> : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) -> tensor<2x8x4x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Rotary embeddings turn pairs of channels.
kerf.model @rope_c1(%x: tensor<2x8x4x15xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.rope' expected x of rank 4 with an even last dimension, found 'tensor<2x8x4x15xf32>'}}
  %y = kerf.rope %x theta 10000.0 : tensor<2x8x4x15xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// There is one position per token.
kerf.model @rope_c2(%x: tensor<2x8x4x16xf32>, %p: tensor<8xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.rope' expected positions of shape [2, 8], found 'tensor<8xi32>'}}
  %y = kerf.rope %x theta 10000.0 positions %p : tensor<8xi32> : tensor<2x8x4x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Not all queries and keys are in the order.
kerf.model @attention_c6(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.attention' expected a zigzag along [2, 3] of all queries and keys, found #kerf.zigzag<2 x 4 along [2, 3]>}}
  %y = kerf.attention %q, %k, %k causal zigzag <2 x 4 along [2, 3]> : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Scores have queries and keys as their last two dimensions.
kerf.model @attention_c6_dims(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{expected a zigzag along [2, 3] of all queries and keys, found #kerf.zigzag<2 x 2 along [1]>}}
  %y = kerf.attention %q, %k, %k causal zigzag <2 x 2 along [1]> : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Positions come from one place.
kerf.model @rope_c4(%x: tensor<2x8x4x16xf32>, positions %p: tensor<2x8xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.rope' expected a zigzag along [1] of its rows and no positions, found #kerf.zigzag<2 x 2 along [1]>}}
  %y = kerf.rope %x theta 10000.0 positions %p : tensor<2x8xi32> zigzag <2 x 2 along [1]> : tensor<2x8x4x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

kerf.model @rope_c5(%x: tensor<2x8x4x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.rope' expected 8 frequencies, found 2}}
  %y = kerf.rope %x theta 1.0 scaling(#kerf.rope_table<frequencies = [1.0, 0.5]>) : tensor<2x8x4x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Theta is a base of powers.
kerf.model @rope_c3(%x: tensor<2x8x4x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.rope' expected a finite theta > 0, found 0.000000e+00}}
  %y = kerf.rope %x theta 0.0 : tensor<2x8x4x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A scaling of rotary frequencies is one of two.
kerf.model @rope_scaling(%x: tensor<2x8x4x16xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.rope' op attribute 'scaling' failed to satisfy constraint: rope scaling (#kerf.rope_llama3, #kerf.rope_linear, #kerf.rope_yarn or #kerf.rope_table)}}
  %y = kerf.rope %x theta 10000.0 scaling(2.0) : tensor<2x8x4x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of gelu has the operand's type.
kerf.model @gelu_c1(%x: tensor<2x8xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.gelu' op requires the same type for all operands and results}}
  %y = "kerf.gelu"(%x) <{kind = #kerf<gelu_kind tanh>}> : (tensor<2x8xf32>) -> tensor<2x8xf64>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of silu has the operand's type.
kerf.model @silu_c1(%x: tensor<2x8xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.silu' op requires the same type for all operands and results}}
  %y = "kerf.silu"(%x) : (tensor<2x8xf32>) -> tensor<2x8xf64>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of squared_relu has the operand's type.
kerf.model @squared_relu_c1(%x: tensor<2x8xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.squared_relu' op requires the same type for all operands and results}}
  %y = "kerf.squared_relu"(%x) : (tensor<2x8xf32>) -> tensor<2x8xf64>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of softmax has the operand's type.
kerf.model @softmax_c1(%x: tensor<2x8xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.softmax' op requires the same type for all operands and results}}
  %y = "kerf.softmax"(%x) : (tensor<2x8xf32>) -> tensor<2x8xf64>
  kerf.return %loss : tensor<f32>
}

// -----

// A gelu is one of two forms.
kerf.model @gelu_form(%x: tensor<2x8xf32>, %loss: tensor<f32>) {
  // expected-error @+2 {{custom op 'kerf.gelu' expected ::kerf::GeluKind to be one of: exact, tanh}}
  // expected-error @+1 {{custom op 'kerf.gelu' failed to parse Kerf_GeluKindAttr parameter 'value' which is to be a `::kerf::GeluKind`}}
  %y = kerf.gelu fast %x : tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Gate and up have one type.
kerf.model @swiglu_c1(%x: tensor<2x8xf32>, %u: tensor<2x9xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.swiglu' op requires the same type for all operands and results}}
  %y = "kerf.swiglu"(%x, %u) : (tensor<2x8xf32>, tensor<2x9xf32>) -> tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A scalar has no rows.
kerf.model @softmax_c2(%x: tensor<f32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.softmax' op expected rank >= 1, found a scalar}}
  %y = kerf.softmax %x : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// Rates below 0 drop nothing.
kerf.model @dropout_c1(%x: tensor<2x8xf32>, %s: tensor<i32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.dropout' op expected a rate in [0, 1), found -1.000000e-01}}
  %y = kerf.dropout %x rate -0.1 "drop" seed %s step %s : tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Eight rows are not twelve.
kerf.model @dropout_c3(%x: tensor<2x8xf32>, %s: tensor<i32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.dropout' op expected a zigzag along dimensions of all its 12 rows, found #kerf.zigzag<2 x 3 along [1]> of [2, 8]}}
  %y = kerf.dropout %x rate 0.1 "drop" seed %s step %s zigzag <2 x 3 along [1]> : tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// There is one offset per dimension.
kerf.model @dropout_c2(%x: tensor<2x8xf32>, %s: tensor<i32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.dropout' op expected no offsets or 2, found 1}}
  %y = kerf.dropout %x rate 0.1 "drop" seed %s step %s offsets(%s) : tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The global shape is not smaller than the local one.
kerf.model @dropout_global(%x: tensor<2x8xf32>, %s: tensor<i32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.dropout' op expected a global shape not below [2, 8], found [1, 8]}}
  %y = kerf.dropout %x rate 0.1 "drop" seed %s step %s global [1, 8] : tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Each row of logits has a target.
kerf.model @cross_entropy_c1(%x: tensor<2x8x32xf32>, %t: tensor<2x7xi32>, %n: tensor<f32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.cross_entropy' op expected one target per row of logits 'tensor<2x8x32xf32>', found 'tensor<2x7xi32>'}}
  %y = kerf.cross_entropy %x, %t normalizer %n : tensor<2x8x32xf32>, tensor<2x7xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// A penalty is not negative.
kerf.model @cross_entropy_c2(%x: tensor<2x8x32xf32>, %t: tensor<2x8xi32>, %n: tensor<f32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.cross_entropy' op expected a finite z_loss >= 0, found -1.000000e+00}}
  %y = kerf.cross_entropy %x, %t normalizer %n z_loss -1.0 : tensor<2x8x32xf32>, tensor<2x8xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// Targets are integers.
kerf.model @count_of_floats(%t: tensor<2x8xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.count_valid' op operand #0 must be plain tensor (static shape, rank <= 16, no encoding) of 32-bit signless integer values, but got 'tensor<2x8xf32>'}}
  %n = kerf.count_valid %t : tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Codes, scales and numbers have the same rows.
kerf.model @dequantize_c1(%c: tensor<4x64xi8>, %s: tensor<2x2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.dequantize' op expected codes, scales and result of one rank >= 1 and with equal leading dimensions, found 'tensor<4x64xi8>', 'tensor<2x2xf32>' and 'tensor<4x128xf32>'}}
  %w = kerf.dequantize %c, %s : tensor<4x64xi8>, tensor<2x2xf32> -> tensor<4x128xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A scale has 32 bytes of codes, of 64 numbers.
kerf.model @dequantize_c2(%c: tensor<4x64xi8>, %s: tensor<4x1xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.dequantize' op expected 32 bytes of codes and 64 numbers per scale, found 64 bytes, 1 scales and 128 numbers}}
  %w = kerf.dequantize %c, %s : tensor<4x64xi8>, tensor<4x1xf32> -> tensor<4x128xf32>
  kerf.return %loss : tensor<f32>
}
