// RUN: kerf-opt --kerf-differentiate --split-input-file --verify-diagnostics %s | FileCheck %s

// A repeat gets a reverse one, paired with it, that reads stacks of the forward values it
// needs; parameters are read again. The gradients of each iteration's parameters are
// stacks, those of a tied parameter are summed. Clipping appends the norm to the returned
// values; groups set the decay.

// CHECK-LABEL: kerf.model @decoder
// CHECK-SAME: learning_rate %[[RATE:.*]]: tensor<f32>, step %[[STEP:.*]]: tensor<i32>
// CHECK: %[[WTE:.*]] = kerf.param "wte"
// CHECK-SAME: kerf.phase = #kerf.phase<forward 0>
// CHECK: %[[X:.*]] = kerf.embedding
// CHECK: %[[Y:.*]]:3 = kerf.repeat %{{.*}} = 0 to 3 (%[[H:.*]] = %[[X]] : tensor<2x4x4xf32>) pair [[PAIR:[0-9]+]]
// CHECK: %[[U:.*]] = kerf.linear %[[H]]
// CHECK-SAME: #kerf.phase<forward [[LINEAR:[0-9]+]]>
// CHECK: %[[A:.*]] = kerf.gelu tanh %[[U]]
// CHECK-SAME: #kerf.phase<forward [[GELU:[0-9]+]]>
// CHECK: kerf.yield %[[A]] stack(%[[U]], %[[H]])
// CHECK: kerf.linear %[[Y]]#0, %[[WTE]]
// CHECK: %[[LOSS:.*]] = kerf.cross_entropy
// CHECK: %[[ONE:.*]] = kerf.constant
// CHECK-SAME: #kerf.phase<input_gradient -1>
// CHECK: %[[DLOGITS:.*]] = kerf.cross_entropy_backward %{{.*}}, %{{.*}}, %[[ONE]]
// CHECK: %[[DY:.*]] = kerf.einsum "bsn,nk->bsk" %[[DLOGITS]], %[[WTE]]
// CHECK-SAME: #kerf.phase<input_gradient
// CHECK: %[[DHEAD:.*]] = kerf.einsum "bsn,bsk->nk" %[[DLOGITS]], %[[Y]]#0
// CHECK-SAME: #kerf.phase<weight_gradient
// CHECK: %[[D:.*]]:3 = kerf.repeat reverse %{{.*}} = 0 to 3 (%[[DH:.*]] = %[[DY]] : tensor<2x4x4xf32>)
// CHECK-SAME: slices(%[[SU:.*]] = %[[Y]]#1 : tensor<3x2x4x4xf32>, %[[SH:.*]] = %[[Y]]#2 : tensor<3x2x4x4xf32>) pair [[PAIR]]
// CHECK: %[[W:.*]] = kerf.param "h.{i}.w"
// CHECK: %[[DU:.*]] = kerf.gelu_backward tanh %[[SU]], %[[DH]]
// CHECK-SAME: #kerf.phase<input_gradient [[GELU]]>
// CHECK: %[[DX:.*]] = kerf.einsum "bsn,nk->bsk" %[[DU]], %[[W]]
// CHECK-SAME: #kerf.phase<input_gradient [[LINEAR]]>
// CHECK: %[[DW:.*]] = kerf.einsum "bsn,bsk->nk" %[[DU]], %[[SH]]
// CHECK-SAME: #kerf.phase<weight_gradient [[LINEAR]]>
// CHECK: %[[DB:.*]] = kerf.reduce sum %[[DU]] dims [0, 1]
// CHECK-SAME: #kerf.phase<weight_gradient [[LINEAR]]>
// CHECK: kerf.yield %[[DX]] stack(%[[DW]], %[[DB]])
// CHECK: %[[DTABLE:.*]] = kerf.embedding_gradient %[[D]]#0, %{{.*}} padding 3
// CHECK: %[[DWTE:.*]] = kerf.add %[[DHEAD]], %[[DTABLE]]
// CHECK-SAME: #kerf.phase<weight_gradient
// CHECK: %[[NORM:.*]] = kerf.global_norm %[[D]]#1, %[[D]]#2, %[[DWTE]]
// CHECK-SAME: #kerf.phase<update -1>
// CHECK: %[[CLIP:.*]] = kerf.clip_factor %[[NORM]] max 1.0
// CHECK: kerf.update "h.{i}.w"[0 to 3] rule #kerf.adamw<weight_decay = 0.1> by %[[D]]#1 scale %[[CLIP]] rate %[[RATE]] step %[[STEP]]
// CHECK: kerf.update "h.{i}.b"[0 to 3] rule #kerf.adamw<> by %[[D]]#2 scale %[[CLIP]] rate %[[RATE]] times 5.0{{0*}}e-01 step %[[STEP]]
// CHECK: kerf.update "wte" rule #kerf.adamw<weight_decay = 0.1> by %[[DWTE]]
// CHECK: kerf.return %[[LOSS]], %[[NORM]]
kerf.model @decoder(tokens %t: tensor<2x4xi32>, targets %u: tensor<2x4xi32>)
    attributes {optimizer = #kerf.adamw<weight_decay = 0.1>, clip_norm = 1.0,
                groups = [#kerf.group<match = "*.b", weight_decay = 0.0, rate_scale = 0.5>]} {
  %wte = kerf.param "wte" init<normal, 0.5> : tensor<6x4xf32>
  %x = kerf.embedding %t, %wte padding 3 : tensor<2x4xi32>, tensor<6x4xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x4x4xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<4x4xf32>
    %b = kerf.param "h.{i}.b" init<zeros> : tensor<4xf32>
    %0 = kerf.linear %h, %w bias %b : tensor<2x4x4xf32>, tensor<4x4xf32>, tensor<4xf32>
    %1 = kerf.gelu tanh %0 : tensor<2x4x4xf32>
    kerf.yield %1 : tensor<2x4x4xf32>
  }
  %l = kerf.linear %y, %wte : tensor<2x4x4xf32>, tensor<6x4xf32>
  %n = kerf.count_valid %u : tensor<2x4xi32>
  %loss = kerf.cross_entropy %l, %u normalizer %n : tensor<2x4x6xf32>, tensor<2x4xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// In place of a gradient a router's bias has the load of its experts: no part of the
// norm, nor scaled by it, for a rule of its own.

// CHECK-LABEL: kerf.model @balance
// CHECK: %[[W:.*]], %[[E:.*]] = kerf.route
// CHECK-DAG: %[[DX:.*]] = kerf.route_backward %{{.*}}, %[[E]], %{{.*}} renormalize sigmoid scale 2.5
// CHECK-DAG: %[[LOAD:.*]] = kerf.expert_load %[[E]] {{.*}}#kerf.phase<weight_gradient
// CHECK: %[[NORM:.*]] = kerf.global_norm %[[DX]] {{.*}} : tensor<1x2x4xf32>
// CHECK: %[[CLIP:.*]] = kerf.clip_factor %[[NORM]]
// CHECK-DAG: kerf.update "x" rule #kerf.adamw<> by %[[DX]] scale %[[CLIP]]
// CHECK-DAG: kerf.update "bias" rule #kerf.balance<rate = 0.001, target = 1.0> by %[[LOAD]] rate
kerf.model @balance() attributes {optimizer = #kerf.adamw<>, clip_norm = 1.0,
    groups = [#kerf.group<match = "bias", weight_decay = 0.1, rule = #kerf.balance<rate = 0.001, target = 1.0>>]} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<1x2x4xf32>
  %b = kerf.param "bias" init<zeros> : tensor<4xf32>
  %w, %e = kerf.route %x k 2 renormalize sigmoid scale 2.5 bias %b : tensor<4xf32> : tensor<1x2x4xf32>
  %t = kerf.tanh %w : tensor<1x2x2xf32>
  %s = kerf.reduce sum %t dims [0, 1, 2] : tensor<1x2x2xf32>
  kerf.return %s : tensor<f32>
}

// -----

// The gradient of attention needs its log-sum-exp: the forward op is replaced.

// CHECK-LABEL: kerf.model @attention
// CHECK: %[[Y:.*]], %[[LSE:.*]] = kerf.attention {{.*}} causal lse
// CHECK-NOT: kerf.attention %
// CHECK: kerf.attention_backward {{.*}} from %[[Y]], %[[LSE]]
kerf.model @attention() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<ones> : tensor<1x2x1x2xf32>
  %y = kerf.attention %x, %x, %x causal : tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>
  %s = kerf.reduce sum %y dims [0, 1, 2, 3] : tensor<1x2x1x2xf32>
  kerf.return %s : tensor<f32>
}

// -----

// A parameter that the iterations share is summed in a carried value; frozen parameters
// get neither gradient nor update; without a limit nothing is clipped.

// CHECK-LABEL: kerf.model @shared
// CHECK: kerf.repeat reverse
// CHECK-SAME: (%{{.*}} = %{{.*}} : tensor<2xf32>, %[[SUM:.*]] = %{{.*}} : tensor<2xf32>)
// CHECK: %[[NEXT:.*]] = kerf.add %[[SUM]], %{{.*}}#kerf.phase<weight_gradient -1>
// CHECK: kerf.yield %{{.*}}, %[[NEXT]]
// CHECK-NOT: kerf.clip_factor
// CHECK: kerf.update "w" rule #kerf.sgd<momentum = 0.9> by %{{[0-9]+}}#1 rate
// CHECK-NOT: kerf.update "f"
// CHECK: kerf.return %{{[^,]*}} {
kerf.model @shared(%x: tensor<2xf32>) attributes {optimizer = #kerf.sgd<momentum = 0.9>, clip_norm = 0.0} {
  %v = kerf.param "v" init<ones> : tensor<2xf32>
  %y = kerf.repeat %i = 0 to 2 (%h = %v : tensor<2xf32>) {
    %w = kerf.param "w" init<ones> : tensor<2xf32>
    %f = kerf.param "f" init<ones> frozen : tensor<2xf32>
    %0 = kerf.mul %h, %w : tensor<2xf32>
    %1 = kerf.mul %0, %f : tensor<2xf32>
    kerf.yield %1 : tensor<2xf32>
  }
  %s = kerf.reduce sum %y dims [0] : tensor<2xf32>
  kerf.return %s : tensor<f32>
}

// -----

// Without trainable parameters there is nothing to do but to number the ops.

// CHECK-LABEL: kerf.model @nothing_to_train
// CHECK-NEXT: kerf.param "w" init<ones> frozen {kerf.phase = #kerf.phase<forward 0>}
// CHECK-NEXT: kerf.return {{.*}}#kerf.phase<forward 1>
kerf.model @nothing_to_train() attributes {optimizer = #kerf.sgd<>, clip_norm = 1.0} {
  %w = kerf.param "w" init<ones> frozen : tensor<f32>
  kerf.return %w : tensor<f32>
}

// -----

// expected-error @below {{has no optimizer}}
// expected-note @below {{write attributes {optimizer = #kerf.adamw<>} after its inputs}}
kerf.model @no_optimizer() {
  %w = kerf.param "w" init<ones> : tensor<f32>
  kerf.return %w : tensor<f32>
}

// -----

kerf.model @unused_parameter() attributes {optimizer = #kerf.sgd<>} {
  %w = kerf.param "w" init<ones> : tensor<f32>
  // expected-error @below {{"v" is trainable but does not reach the loss}}
  // expected-note @below {{remove it, or mark it 'frozen'}}
  %v = kerf.param "v" init<ones> : tensor<f32>
  kerf.return %w : tensor<f32>
}

// -----

// Some iterations of a parameter reach the loss, others do not.

kerf.model @unused_iterations() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<ones> : tensor<f32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) {
    %w = kerf.param "h.{i}.w" init<ones> : tensor<f32>
    %n = kerf.mul %h, %w : tensor<f32>
    kerf.yield %n : tensor<f32>
  }
  %z = kerf.repeat %i = 3 to 5 (%h = %y : tensor<f32>) {
    // expected-error @below {{"h.{i}.w" is trainable but does not reach the loss}}
    // expected-note @below {{remove it, or mark it 'frozen'}}
    %w = kerf.param "h.{i}.w" init<ones> : tensor<f32>
    %n = kerf.mul %h, %w : tensor<f32>
    kerf.yield %n : tensor<f32>
  }
  kerf.return %y : tensor<f32>
}

// -----

kerf.model @no_gradient() attributes {optimizer = #kerf.sgd<>} {
  %w = kerf.param "w" init<ones> : tensor<f32>
  // expected-error @below {{has no gradient, but a trainable parameter reaches the loss through it}}
  // expected-note @below {{mark the parameters before it 'frozen', or use an op with a gradient}}
  %p = kerf.pow %w, %w : tensor<f32>
  kerf.return %p : tensor<f32>
}

// -----

kerf.model @log_sum_exp() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<ones> : tensor<1x2x1x2xf32>
  // expected-error @below {{has no gradient through its log-sum-exp}}
  // expected-note @below {{it can only be returned, as a metric}}
  %y, %l = kerf.attention %x, %x, %x lse : tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>
  %s = kerf.reduce sum %l dims [0, 1, 2] : tensor<1x1x2xf32>
  kerf.return %s : tensor<f32>
}

// -----

// One parameter under two names would get two updates, each by a part of its gradient.

kerf.model @two_names() attributes {optimizer = #kerf.sgd<>} {
  // expected-note @below {{another read of it is "h.1.w"; one parameter has one gradient, so read it under one name, in the same iterations}}
  %x = kerf.param "h.1.w" init<ones> : tensor<f32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) {
    // expected-error @below {{reads parameter "h.1.w" as "h.{i}.w" of iterations 0 to 3}}
    %w = kerf.param "h.{i}.w" init<ones> : tensor<f32>
    %n = kerf.mul %h, %w : tensor<f32>
    kerf.yield %n : tensor<f32>
  }
  kerf.return %y : tensor<f32>
}

// -----

kerf.model @two_forms() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<ones> : tensor<f32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) {
    // expected-note @below {{another read of it is "h.{i}.w" of iterations 0 to 3}}
    %w = kerf.param "h.{i}.w" init<ones> : tensor<f32>
    // expected-error @below {{reads parameter "h.1.w" as "h.{i+1}.w" of iterations 0 to 3}}
    %v = kerf.param "h.{i+1}.w" init<ones> : tensor<f32>
    %m = kerf.mul %h, %w : tensor<f32>
    %n = kerf.mul %m, %v : tensor<f32>
    kerf.yield %n : tensor<f32>
  }
  kerf.return %y : tensor<f32>
}

// -----

kerf.model @overlapping_iterations() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<ones> : tensor<f32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) {
    // expected-note @below {{another read of it is "h.{i}.w" of iterations 0 to 3}}
    %w = kerf.param "h.{i}.w" init<ones> : tensor<f32>
    %n = kerf.mul %h, %w : tensor<f32>
    kerf.yield %n : tensor<f32>
  }
  %z = kerf.repeat %i = 1 to 4 (%h = %y : tensor<f32>) {
    // expected-error @below {{reads parameter "h.1.w" as "h.{i}.w" of iterations 1 to 4}}
    %w = kerf.param "h.{i}.w" init<ones> : tensor<f32>
    %n = kerf.mul %h, %w : tensor<f32>
    kerf.yield %n : tensor<f32>
  }
  kerf.return %z : tensor<f32>
}

// -----

kerf.model @stacked_expert() attributes {optimizer = #kerf.sgd<>} {
  // expected-note @below {{another read of it is "experts.{e}.w"}}
  %w = kerf.param "experts.{e}.w" init<ones> : tensor<2x2xf32>
  // expected-error @below {{reads parameter "experts.1.w" as "experts.1.w"}}
  %v = kerf.param "experts.1.w" init<ones> : tensor<2xf32>
  %s = kerf.reduce sum %w dims [0] : tensor<2x2xf32>
  %p = kerf.mul %s, %v : tensor<2xf32>
  %loss = kerf.reduce sum %p dims [0] : tensor<2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Frozen parameters may be read under any name.

// CHECK-LABEL: kerf.model @frozen_names
// CHECK: kerf.update "x"
kerf.model @frozen_names() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<ones> : tensor<f32>
  %f = kerf.param "h.1.w" init<ones> frozen : tensor<f32>
  %m = kerf.mul %x, %f : tensor<f32>
  %y = kerf.repeat %i = 0 to 3 (%h = %m : tensor<f32>) {
    %w = kerf.param "h.{i}.w" init<ones> frozen : tensor<f32>
    %n = kerf.mul %h, %w : tensor<f32>
    kerf.yield %n : tensor<f32>
  }
  kerf.return %y : tensor<f32>
}

// -----

kerf.model @twice(learning_rate %r: tensor<f32>, step %t: tensor<i32>) attributes {optimizer = #kerf.sgd<>} {
  %w = kerf.param "w" init<ones> : tensor<f32>
  // expected-error @below {{is part of a training step: the model is differentiated already}}
  kerf.update "w" rule #kerf.sgd<> by %w rate %r step %t : tensor<f32>
  kerf.return %w : tensor<f32>
}

// -----

// A value that the model stacks itself and the gradient needs is stacked once.

// CHECK-LABEL: kerf.model @stacks_once
// CHECK: %[[R:.*]]:2 = kerf.repeat %i = 0 to 3
// CHECK: %[[E:.*]] = kerf.exp
// CHECK: kerf.yield %[[E]] stack(%[[E]]) {{.*}} : tensor<2xf32>, tensor<2xf32>
// CHECK: kerf.repeat reverse {{.*}} slices(%{{.*}} = %{{.*}} : tensor<3x2xf32>, %{{.*}} = %[[R]]#1 : tensor<3x2xf32>)
kerf.model @stacks_once() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<ones> : tensor<2xf32>
  %y, %all = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2xf32>) {
    %e = kerf.exp %h : tensor<2xf32>
    kerf.yield %e stack(%e) : tensor<2xf32>, tensor<2xf32>
  }
  %s = kerf.reduce sum %all dims [0, 1] : tensor<3x2xf32>
  kerf.return %s : tensor<f32>
}
