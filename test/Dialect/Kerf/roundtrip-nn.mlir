// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt --mlir-print-op-generic %s | kerf-opt | FileCheck %s

// Embeddings, plain and as a shard of the vocabulary.
// CHECK-LABEL: kerf.model @embeddings(
// CHECK-SAME: tokens %[[TOKENS:.*]]: tensor<2x8xi32>, %[[TABLE:.*]]: tensor<32x16xbf16>, %[[AT:.*]]: tensor<i32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @embeddings(tokens %tokens: tensor<2x8xi32>, %table: tensor<32x16xbf16>, %at: tensor<i32>, %loss: tensor<f32>) {
  // CHECK: %[[PLAIN:.*]] = kerf.embedding %[[TOKENS]], %[[TABLE]] : tensor<2x8xi32>, tensor<32x16xbf16>
  %plain = kerf.embedding %tokens, %table : tensor<2x8xi32>, tensor<32x16xbf16>
  // CHECK: %[[ALL:.*]] = kerf.embedding %[[TOKENS]], %[[TABLE]] offset %[[AT]] padding 0 : tensor<2x8xi32>, tensor<32x16xbf16>
  %all = kerf.embedding %tokens, %table offset %at padding 0 : tensor<2x8xi32>, tensor<32x16xbf16>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Matmuls with and without bias, and of both orientations.
// CHECK-LABEL: kerf.model @matmuls(
// CHECK-SAME: %[[X:.*]]: tensor<2x8x16xf32>, %[[W:.*]]: tensor<32x16xf32>, %[[T:.*]]: tensor<16x32xf32>, %[[B:.*]]: tensor<32xf32>, %[[RHS:.*]]: tensor<2x16x32xf32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @matmuls(%x: tensor<2x8x16xf32>, %w: tensor<32x16xf32>, %t: tensor<16x32xf32>, %b: tensor<32xf32>,
                    %rhs: tensor<2x16x32xf32>, %loss: tensor<f32>) {
  // CHECK: %[[LINEAR:.*]] = kerf.linear %[[X]], %[[W]] : tensor<2x8x16xf32>, tensor<32x16xf32>
  %linear = kerf.linear %x, %w : tensor<2x8x16xf32>, tensor<32x16xf32>
  // CHECK: %[[BIASED:.*]] = kerf.linear %[[X]], %[[W]] bias %[[B]] : tensor<2x8x16xf32>, tensor<32x16xf32>, tensor<32xf32>
  %biased = kerf.linear %x, %w bias %b : tensor<2x8x16xf32>, tensor<32x16xf32>, tensor<32xf32>
  // CHECK: %[[CONV:.*]] = kerf.linear %[[X]], %[[T]] transposed : tensor<2x8x16xf32>, tensor<16x32xf32>
  %conv = kerf.linear %x, %t transposed : tensor<2x8x16xf32>, tensor<16x32xf32>
  // CHECK: %[[BOTH:.*]] = kerf.linear %[[X]], %[[T]] bias %[[B]] transposed : tensor<2x8x16xf32>, tensor<16x32xf32>, tensor<32xf32>
  %both = kerf.linear %x, %t bias %b transposed : tensor<2x8x16xf32>, tensor<16x32xf32>, tensor<32xf32>
  // CHECK: %[[MATMUL:.*]] = kerf.matmul %[[X]], %[[RHS]] : tensor<2x8x16xf32>, tensor<2x16x32xf32>
  %matmul = kerf.matmul %x, %rhs : tensor<2x8x16xf32>, tensor<2x16x32xf32>
  // CHECK: %[[ADDED:.*]] = kerf.matmul %[[X]], %[[RHS]] bias %[[B]] : tensor<2x8x16xf32>, tensor<2x16x32xf32>, tensor<32xf32>
  %added = kerf.matmul %x, %rhs bias %b : tensor<2x8x16xf32>, tensor<2x16x32xf32>, tensor<32xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Norms; the default eps is not printed.
// CHECK-LABEL: kerf.model @norms(
// CHECK-SAME: %[[X:.*]]: tensor<2x8x16xf32>, %[[G:.*]]: tensor<16xf32>, %[[B:.*]]: tensor<16xf32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @norms(%x: tensor<2x8x16xf32>, %g: tensor<16xf32>, %b: tensor<16xf32>, %loss: tensor<f32>) {
  // CHECK: %[[LAYER:.*]] = kerf.layer_norm %[[X]], %[[G]] : tensor<2x8x16xf32>, tensor<16xf32>
  %layer = kerf.layer_norm %x, %g : tensor<2x8x16xf32>, tensor<16xf32>
  // CHECK: %[[SAME:.*]] = kerf.layer_norm %[[X]], %[[G]] : tensor<2x8x16xf32>, tensor<16xf32>
  %same = kerf.layer_norm %x, %g eps 1.0e-5 : tensor<2x8x16xf32>, tensor<16xf32>
  // CHECK: %[[ALL:.*]] = kerf.layer_norm %[[X]], %[[G]] bias %[[B]] eps 9.9999999999999995E-7 : tensor<2x8x16xf32>, tensor<16xf32>, tensor<16xf32>
  %all = kerf.layer_norm %x, %g bias %b eps 1.0e-6 : tensor<2x8x16xf32>, tensor<16xf32>, tensor<16xf32>
  // CHECK: %[[RMS:.*]] = kerf.rms_norm %[[X]], %[[G]] : tensor<2x8x16xf32>, tensor<16xf32>
  %rms = kerf.rms_norm %x, %g : tensor<2x8x16xf32>, tensor<16xf32>
  // CHECK: %[[EPS:.*]] = kerf.rms_norm %[[X]], %[[G]] eps 9.9999999999999995E-7 : tensor<2x8x16xf32>, tensor<16xf32>
  %eps = kerf.rms_norm %x, %g eps 1.0e-6 : tensor<2x8x16xf32>, tensor<16xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Attention: bare, with each clause, and with all of them.
// CHECK-LABEL: kerf.model @attentions(
// CHECK-SAME: %[[Q:.*]]: tensor<2x8x4x16xf32>, %[[K:.*]]: tensor<2x8x2x16xf32>, %[[V:.*]]: tensor<2x8x2x4xf32>, segments %[[SEGMENTS:.*]]: tensor<2x8xi32>, seed %[[SEED:.*]]: tensor<i32>, step %[[STEP:.*]]: tensor<i32>, %[[AT:.*]]: tensor<i32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @attentions(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %v: tensor<2x8x2x4xf32>,
                       segments %segments: tensor<2x8xi32>, seed %seed: tensor<i32>, step %step: tensor<i32>,
                       %at: tensor<i32>, %loss: tensor<f32>) {
  // CHECK: %[[BARE:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  %bare = kerf.attention %q, %k, %v : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  // CHECK: %[[WINDOW:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] causal window 4 scale 2.500000e-01 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  %window = kerf.attention %q, %k, %v causal window 4 scale 2.500000e-01 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  // CHECK: %[[DROPPED:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] dropout 1.000000e-01 "attn" seed %[[SEED]] step %[[STEP]] : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  %dropped = kerf.attention %q, %k, %v dropout 0.1 "attn" seed %seed step %step : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  // CHECK: %[[SUMS:.*]], %[[LSE:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] lse : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  %sums, %lse = kerf.attention %q, %k, %v lse : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  // CHECK: %[[Y:.*]], %[[L:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] causal window 4 scale 2.500000e-01 segments(%[[SEGMENTS]], %[[SEGMENTS]] : tensor<2x8xi32>, tensor<2x8xi32>) offsets(%[[AT]], %[[AT]], %[[AT]], %[[AT]]) global [4, 8, 16, 16] dropout 1.000000e-01 "attn" seed %[[SEED]] step %[[STEP]] layer %[[AT]] lse : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  %y, %l = kerf.attention %q, %k, %v causal window 4 scale 0.25 segments(%segments, %segments : tensor<2x8xi32>, tensor<2x8xi32>) offsets(%at, %at, %at, %at) global [4, 8, 16, 16] dropout 0.1 "attn" seed %seed step %step layer %at lse : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  // CHECK: %[[CAPPED:.*]], %[[CL:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] causal scale 2.500000e-01 softcap 5.000000e+01 lse : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  %capped, %cl = kerf.attention %q, %k, %v causal scale 0.25 softcap 50.0 lse : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  // CHECK: kerf.attention_sink %[[CAPPED]], %[[CL]], %{{.*}} : tensor<2x8x4x4xf32>, tensor<2x4x8xf32>, tensor<4xf32>
  %sink = kerf.constant dense<0.5> : tensor<4xf32>
  %z, %zl = kerf.attention_sink %capped, %cl, %sink : tensor<2x8x4x4xf32>, tensor<2x4x8xf32>, tensor<4xf32>
  // CHECK: kerf.attention %[[Q]], %[[K]], %[[V]] causal zigzag <2 x 2 along [2, 3]> : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  %ordered = kerf.attention %q, %k, %v causal zigzag <2 x 2 along [2, 3]> : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Rotary embeddings with both scalings.
// CHECK-LABEL: kerf.model @ropes(
// CHECK-SAME: %[[X:.*]]: tensor<2x8x4x16xf32>, positions %[[POSITIONS:.*]]: tensor<2x8xi32>, %[[AT:.*]]: tensor<i32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @ropes(%x: tensor<2x8x4x16xf32>, positions %positions: tensor<2x8xi32>, %at: tensor<i32>, %loss: tensor<f32>) {
  // CHECK: %[[BARE:.*]] = kerf.rope %[[X]] theta 1.000000e+04 : tensor<2x8x4x16xf32>
  %bare = kerf.rope %x theta 10000.0 : tensor<2x8x4x16xf32>
  // CHECK: %[[LINEAR:.*]] = kerf.rope %[[X]] theta 1.000000e+04 scaling(#kerf.rope_linear<factor = 2.0>) offset %[[AT]] : tensor<2x8x4x16xf32>
  %linear = kerf.rope %x theta 10000.0 scaling(#kerf.rope_linear<factor = 2>) offset %at : tensor<2x8x4x16xf32>
  // CHECK: kerf.rope %[[X]] theta 1.000000e+04 interleaved inverse : tensor<2x8x4x16xf32>
  %pairs = kerf.rope %x theta 10000.0 interleaved inverse : tensor<2x8x4x16xf32>
  // CHECK: %[[ALL:.*]] = kerf.rope %[[X]] theta 5.000000e+05 scaling(#kerf.rope_llama3<factor = 8.0, low = 1.0, high = 4.0, original = 8192.0>) inverse positions %[[POSITIONS]] : tensor<2x8xi32> offset %[[AT]] : tensor<2x8x4x16xf32>
  %all = kerf.rope %x theta 500000.0 scaling(#kerf.rope_llama3<factor = 8.0, low = 1.0, high = 4.0, original = 8192.0>) inverse positions %positions : tensor<2x8xi32> offset %at : tensor<2x8x4x16xf32>
  // CHECK: kerf.rope %[[X]] theta 1.000000e+04 scaling(#kerf.rope_yarn<factor = 4.0, low = 1.5, high = 6.0, magnitude = 1.138629436111989>) : tensor<2x8x4x16xf32>
  %yarn = kerf.rope %x theta 10000.0 scaling(#kerf.rope_yarn<factor = 4.0, low = 1.5, high = 6.0, magnitude = 1.138629436111989>) : tensor<2x8x4x16xf32>
  // CHECK: kerf.rope %[[X]] theta 1.000000e+00 scaling(#kerf.rope_table<frequencies = [1.000000e+00, 5.000000e-01, 2.000000e-01, 1.000000e-01, 5.000000e-02, 2.000000e-02, 1.000000e-02, 5.000000e-03]>) : tensor<2x8x4x16xf32>
  %listed = kerf.rope %x theta 1.0 scaling(#kerf.rope_table<frequencies = [1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005]>) : tensor<2x8x4x16xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Activations.
// CHECK-LABEL: kerf.model @activations(
// CHECK-SAME: %[[X:.*]]: tensor<2x8xf32>, %[[U:.*]]: tensor<2x8xf32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @activations(%x: tensor<2x8xf32>, %u: tensor<2x8xf32>, %loss: tensor<f32>) {
  // CHECK: %[[EXACT:.*]] = kerf.gelu exact %[[X]] : tensor<2x8xf32>
  %exact = kerf.gelu exact %x : tensor<2x8xf32>
  // CHECK: %[[TANH:.*]] = kerf.gelu tanh %[[X]] : tensor<2x8xf32>
  %tanh = kerf.gelu tanh %x : tensor<2x8xf32>
  // CHECK: %[[SILU:.*]] = kerf.silu %[[X]] : tensor<2x8xf32>
  %silu = kerf.silu %x : tensor<2x8xf32>
  // CHECK: %[[RELU2:.*]] = kerf.squared_relu %[[X]] : tensor<2x8xf32>
  %relu2 = kerf.squared_relu %x : tensor<2x8xf32>
  // CHECK: %[[SWIGLU:.*]] = kerf.swiglu %[[X]], %[[U]] : tensor<2x8xf32>
  %swiglu = kerf.swiglu %x, %u : tensor<2x8xf32>
  // CHECK: %[[SOFTMAX:.*]] = kerf.softmax %[[X]] : tensor<2x8xf32>
  %softmax = kerf.softmax %x : tensor<2x8xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Dropout, whole and of a shard.
// CHECK-LABEL: kerf.model @dropouts(
// CHECK-SAME: %[[X:.*]]: tensor<2x8xf32>, seed %[[SEED:.*]]: tensor<i32>, step %[[STEP:.*]]: tensor<i32>, %[[AT:.*]]: tensor<i32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @dropouts(%x: tensor<2x8xf32>, seed %seed: tensor<i32>, step %step: tensor<i32>, %at: tensor<i32>, %loss: tensor<f32>) {
  // CHECK: %[[BARE:.*]] = kerf.dropout %[[X]] rate 1.000000e-01 "drop" seed %[[SEED]] step %[[STEP]] : tensor<2x8xf32>
  %bare = kerf.dropout %x rate 0.1 "drop" seed %seed step %step : tensor<2x8xf32>
  // CHECK: %[[ALL:.*]] = kerf.dropout %[[X]] rate 1.000000e-01 "drop" seed %[[SEED]] step %[[STEP]] layer %[[AT]] offsets(%[[AT]], %[[AT]]) global [4, 8] : tensor<2x8xf32>
  %all = kerf.dropout %x rate 0.1 "drop" seed %seed step %step layer %at offsets(%at, %at) global [4, 8] : tensor<2x8xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The loss; defaults are not printed.
// CHECK-LABEL: kerf.model @losses(
// CHECK-SAME: %[[X:.*]]: tensor<2x8x32xbf16>, targets %[[TARGETS:.*]]: tensor<2x8xi32>, %[[AT:.*]]: tensor<i32>) {
kerf.model @losses(%x: tensor<2x8x32xbf16>, targets %targets: tensor<2x8xi32>, %at: tensor<i32>) {
  // CHECK: %[[COUNT:.*]] = kerf.count_valid %[[TARGETS]] : tensor<2x8xi32>
  %count = kerf.count_valid %targets : tensor<2x8xi32>
  // CHECK: %[[OTHERS:.*]] = kerf.count_valid %[[TARGETS]] ignore 0 : tensor<2x8xi32>
  %others = kerf.count_valid %targets ignore 0 : tensor<2x8xi32>
  // CHECK: %[[BARE:.*]] = kerf.cross_entropy %[[X]], %[[TARGETS]] normalizer %[[COUNT]] : tensor<2x8x32xbf16>, tensor<2x8xi32>
  %bare = kerf.cross_entropy %x, %targets normalizer %count : tensor<2x8x32xbf16>, tensor<2x8xi32>
  // CHECK: %[[SAME:.*]] = kerf.cross_entropy %[[X]], %[[TARGETS]] normalizer %[[COUNT]] : tensor<2x8x32xbf16>, tensor<2x8xi32>
  %same = kerf.cross_entropy %x, %targets normalizer %count ignore -100 z_loss 0.0 : tensor<2x8x32xbf16>, tensor<2x8xi32>
  // CHECK: %[[ALL:.*]] = kerf.cross_entropy %[[X]], %[[TARGETS]] normalizer %[[OTHERS]] ignore 0 z_loss 1.000000e-04 offset %[[AT]] : tensor<2x8x32xbf16>, tensor<2x8xi32>
  %all = kerf.cross_entropy %x, %targets normalizer %others ignore 0 z_loss 1.0e-4 offset %at : tensor<2x8x32xbf16>, tensor<2x8xi32>
  // CHECK: kerf.return %[[BARE]], %[[ALL]] : tensor<f32>, tensor<f32>
  kerf.return %bare, %all : tensor<f32>, tensor<f32>
}

// Weights in 4-bit codes.
// CHECK-LABEL: kerf.model @codes(
// CHECK-SAME: %[[LOSS:.*]]: tensor<f32>) attributes {adapter = "{}"} {
kerf.model @codes(%loss: tensor<f32>) attributes {adapter = "{}"} {
  // CHECK: %[[CODES:.*]] = kerf.param "w" init<nf4> frozen : tensor<4x64xi8>
  %codes = kerf.param "w" init<nf4> frozen : tensor<4x64xi8>
  // CHECK: %[[SCALES:.*]] = kerf.param "w.absmax" init<ones> frozen : tensor<4x2xf32>
  %scales = kerf.param "w.absmax" init<ones> frozen : tensor<4x2xf32>
  // CHECK: kerf.dequantize %[[CODES]], %[[SCALES]] : tensor<4x64xi8>, tensor<4x2xf32> -> tensor<4x128xbf16>
  %w = kerf.dequantize %codes, %scales : tensor<4x64xi8>, tensor<4x2xf32> -> tensor<4x128xbf16>
  kerf.return %loss : tensor<f32>
}
