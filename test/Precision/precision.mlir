// RUN: kerf-opt --kerf-differentiate --kerf-precision=policy=bf16 --kerf-verify-precision --split-input-file %s \
// RUN:   | FileCheck %s

// f32, the default, leaves a step as it is.
// RUN: kerf-opt --kerf-differentiate %S/../Differentiate/Inputs/decoder.mlir -o %t.f32.mlir
// RUN: kerf-opt --kerf-precision %t.f32.mlir | diff %t.f32.mlir -
// RUN: kerf-opt --kerf-precision=policy=f32 %t.f32.mlir | diff %t.f32.mlir -

// RUN: not kerf-opt --kerf-precision=policy=fp8 %t.f32.mlir 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: unknown precision 'fp8', expected f32, bf16 or f16

// In bf16 a model trains nearly the same, and not exactly.
// RUN: kerf-opt --kerf-precision=policy=bf16 --kerf-verify-precision --kerf-verify-differentiated %t.f32.mlir -o %t.bf16.mlir
// RUN: kerf-inspect interpret %t.f32.mlir --steps=4 > %t.f32
// RUN: kerf-inspect interpret %t.bf16.mlir --steps=4 > %t.bf16
// RUN: %python %S/Inputs/close.py %t.f32 %t.bf16

// Parameters, activations and their gradients are bf16; weight gradients and the loss stay
// f32, and so do the masters that updates read.

// CHECK-LABEL: kerf.model @mlp
// CHECK: %[[WTE:.*]] = kerf.param "wte" init<normal, 0.5> master f32 {{.*}} : tensor<6x4xbf16>
// CHECK: kerf.repeat {{.*}} : tensor<2x3x4xbf16>)
// CHECK: kerf.param "h.{i}.w" init<normal, 0.5> master f32 {{.*}} : tensor<4x4xbf16>
// CHECK: kerf.param "f" init<ones> frozen {{.*}} : tensor<4xbf16>
// CHECK: kerf.linear {{.*}} : tensor<2x3x4xbf16>, tensor<4x4xbf16>, tensor<4xbf16>
// CHECK: kerf.rms_norm {{.*}} : tensor<2x3x4xbf16>, tensor<4xbf16>
// CHECK: %[[LOSS:.*]] = kerf.cross_entropy {{.*}} : tensor<2x3x6xbf16>
// CHECK: kerf.cross_entropy_backward {{.*}} : tensor<2x3x6xbf16>
// CHECK: %[[DHEAD:.*]] = kerf.einsum {{.*}}weight_gradient{{.*}} -> tensor<6x4xf32>
// CHECK: %[[D:.*]]:3 = kerf.repeat reverse
// CHECK: kerf.rms_norm_backward {{.*}} : tensor<2x3x4xbf16>
// CHECK: kerf.einsum {{.*}}weight_gradient{{.*}} : tensor<2x3x4xbf16>, tensor<2x3x4xbf16> -> tensor<4x4xf32>
// CHECK: %[[DU:.*]] = kerf.cast %{{.*}} : tensor<2x3x4xbf16> -> tensor<2x3x4xf32>
// CHECK: kerf.reduce sum %[[DU]]
// CHECK: kerf.yield {{.*}} : tensor<2x3x4xbf16>, tensor<4x4xf32>, tensor<4xf32>
// CHECK: %[[DTABLE:.*]] = kerf.embedding_gradient {{.*}} -> tensor<6x4xf32>
// CHECK: kerf.add %[[DHEAD]], %[[DTABLE]] {{.*}} : tensor<6x4xf32>
// CHECK: kerf.update "h.{i}.w"[0 to 2] {{.*}} into bf16 {{.*}} : tensor<2x4x4xf32>
// CHECK: kerf.return %[[LOSS]] {{.*}} : tensor<f32>
kerf.model @mlp(tokens %t: tensor<2x3xi32>, targets %u: tensor<2x3xi32>) attributes {optimizer = #kerf.adamw<>} {
  %wte = kerf.param "wte" init<normal, 0.5> : tensor<6x4xf32>
  %x = kerf.embedding %t, %wte : tensor<2x3xi32>, tensor<6x4xf32>
  %y = kerf.repeat %i = 0 to 2 (%h = %x : tensor<2x3x4xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<4x4xf32>
    %b = kerf.param "h.{i}.b" init<zeros> : tensor<4xf32>
    %f = kerf.param "f" init<ones> frozen : tensor<4xf32>
    %0 = kerf.linear %h, %w bias %b : tensor<2x3x4xf32>, tensor<4x4xf32>, tensor<4xf32>
    %1 = kerf.rms_norm %0, %f : tensor<2x3x4xf32>, tensor<4xf32>
    kerf.yield %1 : tensor<2x3x4xf32>
  }
  %l = kerf.linear %y, %wte : tensor<2x3x4xf32>, tensor<6x4xf32>
  %n = kerf.count_valid %u : tensor<2x3xi32>
  %loss = kerf.cross_entropy %l, %u normalizer %n : tensor<2x3x6xf32>, tensor<2x3xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// What an op defines to be f32 stays f32 on its way to the gradient, through the stacks of
// a repeat, too: log-sum-exps and routing weights.

// CHECK-LABEL: kerf.model @kept
// CHECK: kerf.repeat
// CHECK: %[[Y:.*]], %[[LSE:.*]] = kerf.attention {{.*}} lse
// CHECK: %[[W:.*]], %{{.*}} = kerf.route
// CHECK: kerf.combine {{.*}} weights %[[W]] : tensor<1x2x1xf32>
// CHECK: kerf.yield {{.*}}%[[LSE]]
// CHECK: kerf.repeat reverse {{.*}} : tensor<2x1x2x2xf32>
// CHECK: kerf.attention_backward {{.*}} from tensor<1x2x2x2xbf16>, tensor<1x2x2xf32>
kerf.model @kept() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<1x2x4xf32>
  %y = kerf.repeat %i = 0 to 2 (%h = %x : tensor<1x2x4xf32>) {
    %q = kerf.reshape %h : tensor<1x2x4xf32> -> tensor<1x2x2x2xf32>
    %a = kerf.attention %q, %q, %q causal : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
    %z = kerf.reshape %a : tensor<1x2x2x2xf32> -> tensor<1x2x4xf32>
    %w, %e = kerf.route %z k 1 : tensor<1x2x4xf32>
    %s, %n = kerf.assign_slots %e count 4 group 1 : tensor<1x2x1xi32>
    %rows = kerf.dispatch %z, %s : tensor<1x2x4xf32>, tensor<1x2x1xi32> -> tensor<1x2x4xf32>
    %c = kerf.combine %rows, %s weights %w : tensor<1x2x1xf32> : tensor<1x2x4xf32>, tensor<1x2x1xi32>
    kerf.yield %c : tensor<1x2x4xf32>
  }
  %loss = kerf.reduce sum %y dims [0, 1, 2] : tensor<1x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A router of sigmoids has its logits in f32, as sums of bf16 matmuls, and a bias that is
// f32, as its steps are small: it needs no master.

// CHECK-LABEL: kerf.model @router
// CHECK: %[[X:.*]] = kerf.embedding {{.*}} : tensor<1x2xi32>, tensor<8x4xbf16>
// CHECK: %[[W:.*]] = kerf.param "w" {{.*}} : tensor<4x4xbf16>
// CHECK: %[[B:.*]] = kerf.param "bias" init<zeros> {kerf.phase = #kerf.phase<{{[^>]*}}>} : tensor<4xf32>
// CHECK: %[[L:.*]] = kerf.einsum "bsk,nk->bsn" %[[X]], %[[W]] {{.*}} : tensor<1x2x4xbf16>, tensor<4x4xbf16> -> tensor<1x2x4xf32>
// CHECK: kerf.route %[[L]] k 2 sigmoid bias %[[B]] : tensor<4xf32> {{.*}} : tensor<1x2x4xf32>
// CHECK: %[[D:.*]] = kerf.route_backward %[[L]], {{.*}} : tensor<1x2x4xf32>
// CHECK: %[[DOWN:.*]] = kerf.cast %[[D]] {{.*}} : tensor<1x2x4xf32> -> tensor<1x2x4xbf16>
// CHECK: kerf.einsum "bsn,nk->bsk" %[[DOWN]], %[[W]] {{.*}} -> tensor<1x2x4xbf16>
// CHECK: kerf.update "bias" {{.*}} step %step {{{.*}}} : tensor<4xf32>
kerf.model @router(tokens %tokens: tensor<1x2xi32>) attributes {optimizer = #kerf.sgd<>} {
  %table = kerf.param "x" init<normal, 0.5> : tensor<8x4xf32>
  %p = kerf.embedding %tokens, %table : tensor<1x2xi32>, tensor<8x4xf32>
  %w = kerf.param "w" init<normal, 0.5> : tensor<4x4xf32>
  %b = kerf.param "bias" init<zeros> : tensor<4xf32>
  %l = kerf.einsum "bsk,nk->bsn" %p, %w : tensor<1x2x4xf32>, tensor<4x4xf32> -> tensor<1x2x4xf32>
  %c, %e = kerf.route %l k 2 sigmoid bias %b : tensor<4xf32> : tensor<1x2x4xf32>
  %t = kerf.tanh %c : tensor<1x2x2xf32>
  %loss = kerf.reduce sum %t dims [0, 1, 2] : tensor<1x2x2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Scalars keep their type; a sum that makes one, and what meets one, goes up to f32.

// CHECK-LABEL: kerf.model @scalars
// CHECK: %[[T:.*]] = kerf.param "temperature" init<ones> {{.*}} : tensor<f32>
// CHECK: %[[UP:.*]] = kerf.cast %{{.*}} : tensor<4xbf16> -> tensor<4xf32>
// CHECK: %[[SUM:.*]] = kerf.reduce sum %[[UP]] {{.*}} : tensor<4xf32>
// CHECK: kerf.mul %[[SUM]], %[[T]] {{.*}} : tensor<f32>
// CHECK-DAG: kerf.update "temperature" {{.*}} step %step {{{.*}}} : tensor<f32>
// CHECK-DAG: kerf.update "x" {{.*}} into bf16 {{.*}} : tensor<4xf32>
kerf.model @scalars() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<ones> : tensor<4xf32>
  %t = kerf.param "temperature" init<ones> : tensor<f32>
  %s = kerf.reduce sum %x dims [0] : tensor<4xf32>
  %loss = kerf.mul %s, %t : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// Gradients of values that are made of parameters alone are sums of f32: ops that want
// one type go up.

// CHECK-LABEL: kerf.model @weights_of_weights
// CHECK: kerf.layer_norm_weight_gradient {{.*}} : tensor<2x4xf32> -> tensor<4xf32>
// CHECK: kerf.update "g" {{.*}} into bf16 {{.*}} : tensor<4xf32>
kerf.model @weights_of_weights() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x4xf32>
  %g = kerf.param "g" init<ones> : tensor<4xf32>
  %y = kerf.layer_norm %x, %g : tensor<2x4xf32>, tensor<4xf32>
  %t = kerf.tanh %y : tensor<2x4xf32>
  %loss = kerf.reduce sum %t dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Other types than f32 are none of its business.

// CHECK-LABEL: kerf.model @wide
// CHECK: kerf.param "x" init<ones> {{.*}} : tensor<4xf64>
// CHECK: kerf.update "x" {{.*}} step %step {{{.*}}} : tensor<4xf64>
kerf.model @wide() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<ones> : tensor<4xf64>
  %loss = kerf.reduce sum %x dims [0] : tensor<4xf64>
  kerf.return %loss : tensor<f64>
}
