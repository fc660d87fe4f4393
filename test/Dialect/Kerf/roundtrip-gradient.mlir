// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt --mlir-print-op-generic %s | kerf-opt | FileCheck %s

// The gradient of an embedding, plain and of a shard of the vocabulary.
// CHECK-LABEL: kerf.model @embeddings(
// CHECK-SAME: %[[DY:.*]]: tensor<2x8x16xf32>, tokens %[[TOKENS:.*]]: tensor<2x8xi32>, %[[AT:.*]]: tensor<i32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @embeddings(%dy: tensor<2x8x16xf32>, tokens %tokens: tensor<2x8xi32>, %at: tensor<i32>, %loss: tensor<f32>) {
  // CHECK: %[[BARE:.*]] = kerf.embedding_gradient %[[DY]], %[[TOKENS]] : tensor<2x8x16xf32>, tensor<2x8xi32> -> tensor<32x16xf32>
  %bare = kerf.embedding_gradient %dy, %tokens : tensor<2x8x16xf32>, tensor<2x8xi32> -> tensor<32x16xf32>
  // CHECK: %[[ALL:.*]] = kerf.embedding_gradient %[[DY]], %[[TOKENS]] offset %[[AT]] padding 0 : tensor<2x8x16xf32>, tensor<2x8xi32> -> tensor<32x16xf32>
  %all = kerf.embedding_gradient %dy, %tokens offset %at padding 0 : tensor<2x8x16xf32>, tensor<2x8xi32> -> tensor<32x16xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Gradients of norms.
// CHECK-LABEL: kerf.model @norms(
// CHECK-SAME: %[[X:.*]]: tensor<2x16xf32>, %[[G:.*]]: tensor<16xf32>, %[[DY:.*]]: tensor<2x16xf32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @norms(%x: tensor<2x16xf32>, %g: tensor<16xf32>, %dy: tensor<2x16xf32>, %loss: tensor<f32>) {
  // CHECK: %[[LAYER:.*]] = kerf.layer_norm_backward %[[X]], %[[G]], %[[DY]] eps 1.000000e-05 : tensor<2x16xf32>, tensor<16xf32>
  %layer = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<2x16xf32>, tensor<16xf32>
  // CHECK: %[[GAIN:.*]] = kerf.layer_norm_weight_gradient %[[X]], %[[DY]] eps 1.000000e-05 : tensor<2x16xf32> -> tensor<16xf32>
  %gain = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<2x16xf32> -> tensor<16xf32>
  // CHECK: %[[RMS:.*]] = kerf.rms_norm_backward %[[X]], %[[G]], %[[DY]] eps 9.9999999999999995E-7 : tensor<2x16xf32>, tensor<16xf32>
  %rms = kerf.rms_norm_backward %x, %g, %dy eps 1.0e-6 : tensor<2x16xf32>, tensor<16xf32>
  // CHECK: %[[RMSGAIN:.*]] = kerf.rms_norm_weight_gradient %[[X]], %[[DY]] eps 9.9999999999999995E-7 : tensor<2x16xf32> -> tensor<16xf32>
  %rmsgain = kerf.rms_norm_weight_gradient %x, %dy eps 1.0e-6 : tensor<2x16xf32> -> tensor<16xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The gradient of attention: bare, and with every clause.
// CHECK-LABEL: kerf.model @attentions(
// CHECK-SAME: %[[Q:.*]]: tensor<2x8x4x16xf32>, %[[K:.*]]: tensor<2x8x2x16xf32>, %[[V:.*]]: tensor<2x8x2x4xf32>, %[[Y:.*]]: tensor<2x8x4x4xf32>, %[[LSE:.*]]: tensor<2x4x8xf32>, %[[DY:.*]]: tensor<2x8x4x4xf32>, segments %[[SEGMENTS:.*]]: tensor<2x8xi32>, seed %[[SEED:.*]]: tensor<i32>, step %[[STEP:.*]]: tensor<i32>, %[[AT:.*]]: tensor<i32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @attentions(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %v: tensor<2x8x2x4xf32>,
                       %y: tensor<2x8x4x4xf32>, %lse: tensor<2x4x8xf32>, %dy: tensor<2x8x4x4xf32>,
                       segments %segments: tensor<2x8xi32>, seed %seed: tensor<i32>, step %step: tensor<i32>,
                       %at: tensor<i32>, %loss: tensor<f32>) {
  // CHECK: %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = kerf.attention_backward %[[Q]], %[[K]], %[[V]] from %[[Y]], %[[LSE]], %[[DY]] : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32> from tensor<2x8x4x4xf32>, tensor<2x4x8xf32>
  %dq, %dk, %dv = kerf.attention_backward %q, %k, %v from %y, %lse, %dy : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32> from tensor<2x8x4x4xf32>, tensor<2x4x8xf32>
  // CHECK: %[[EQ:.*]], %[[EK:.*]], %[[EV:.*]] = kerf.attention_backward %[[Q]], %[[K]], %[[V]] from %[[Y]], %[[LSE]], %[[DY]] causal window 4 scale 2.500000e-01 segments(%[[SEGMENTS]], %[[SEGMENTS]] : tensor<2x8xi32>, tensor<2x8xi32>) offsets(%[[AT]], %[[AT]], %[[AT]], %[[AT]]) global [4, 8, 16, 16] dropout 1.000000e-01 "attn" seed %[[SEED]] step %[[STEP]] layer %[[AT]] : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32> from tensor<2x8x4x4xf32>, tensor<2x4x8xf32>
  %eq, %ek, %ev = kerf.attention_backward %q, %k, %v from %y, %lse, %dy causal window 4 scale 0.25 segments(%segments, %segments : tensor<2x8xi32>, tensor<2x8xi32>) offsets(%at, %at, %at, %at) global [4, 8, 16, 16] dropout 0.1 "attn" seed %seed step %step layer %at : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x4xf32> from tensor<2x8x4x4xf32>, tensor<2x4x8xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Gradients of activations.
// CHECK-LABEL: kerf.model @activations(
// CHECK-SAME: %[[X:.*]]: tensor<2x8xf32>, %[[U:.*]]: tensor<2x8xf32>, %[[DY:.*]]: tensor<2x8xf32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @activations(%x: tensor<2x8xf32>, %u: tensor<2x8xf32>, %dy: tensor<2x8xf32>, %loss: tensor<f32>) {
  // CHECK: %[[EXACT:.*]] = kerf.gelu_backward exact %[[X]], %[[DY]] : tensor<2x8xf32>
  %exact = kerf.gelu_backward exact %x, %dy : tensor<2x8xf32>
  // CHECK: %[[TANH:.*]] = kerf.gelu_backward tanh %[[X]], %[[DY]] : tensor<2x8xf32>
  %tanh = kerf.gelu_backward tanh %x, %dy : tensor<2x8xf32>
  // CHECK: %[[SILU:.*]] = kerf.silu_backward %[[X]], %[[DY]] : tensor<2x8xf32>
  %silu = kerf.silu_backward %x, %dy : tensor<2x8xf32>
  // CHECK: %[[RELU2:.*]] = kerf.squared_relu_backward %[[X]], %[[DY]] : tensor<2x8xf32>
  %relu2 = kerf.squared_relu_backward %x, %dy : tensor<2x8xf32>
  // CHECK: %[[DGATE:.*]], %[[DUP:.*]] = kerf.swiglu_backward %[[X]], %[[U]], %[[DY]] : tensor<2x8xf32>
  %dgate, %dup = kerf.swiglu_backward %x, %u, %dy : tensor<2x8xf32>
  // CHECK: %[[SOFTMAX:.*]] = kerf.softmax_backward %[[X]], %[[DY]] : tensor<2x8xf32>
  %softmax = kerf.softmax_backward %x, %dy : tensor<2x8xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The gradient of the loss; defaults are not printed.
// CHECK-LABEL: kerf.model @losses(
// CHECK-SAME: %[[X:.*]]: tensor<2x8x32xf32>, targets %[[TARGETS:.*]]: tensor<2x8xi32>, %[[DY:.*]]: tensor<f32>, %[[COUNT:.*]]: tensor<f32>, %[[AT:.*]]: tensor<i32>) {
kerf.model @losses(%x: tensor<2x8x32xf32>, targets %targets: tensor<2x8xi32>, %dy: tensor<f32>, %count: tensor<f32>, %at: tensor<i32>) {
  // CHECK: %[[BARE:.*]] = kerf.cross_entropy_backward %[[X]], %[[TARGETS]], %[[DY]] normalizer %[[COUNT]] : tensor<2x8x32xf32>, tensor<2x8xi32>
  %bare = kerf.cross_entropy_backward %x, %targets, %dy normalizer %count : tensor<2x8x32xf32>, tensor<2x8xi32>
  // CHECK: %[[ALL:.*]] = kerf.cross_entropy_backward %[[X]], %[[TARGETS]], %[[DY]] normalizer %[[COUNT]] ignore 0 z_loss 1.000000e-04 offset %[[AT]] : tensor<2x8x32xf32>, tensor<2x8xi32>
  %all = kerf.cross_entropy_backward %x, %targets, %dy normalizer %count ignore 0 z_loss 1.0e-4 offset %at : tensor<2x8x32xf32>, tensor<2x8xi32>
  // CHECK: kerf.return %[[DY]] : tensor<f32>
  kerf.return %dy : tensor<f32>
}
