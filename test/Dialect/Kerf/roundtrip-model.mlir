// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt --mlir-print-op-generic %s | kerf-opt | FileCheck %s

// Every role, and an input without one.
// CHECK-LABEL: kerf.model @roles(
// CHECK-SAME: tokens %[[TOKENS:.*]]: tensor<2x8xi32>, targets %[[TARGETS:.*]]: tensor<2x8xi32>, segments %[[SEGMENTS:.*]]: tensor<2x8xi32>, positions %[[POSITIONS:.*]]: tensor<2x8xi32>, seed %[[SEED:.*]]: tensor<i32>, step %[[STEP:.*]]: tensor<i32>, learning_rate %[[LEARNING_RATE:.*]]: tensor<f32>, %[[MASK:.*]]: tensor<2x8xi1>) {
kerf.model @roles(tokens %tokens: tensor<2x8xi32>, targets %targets: tensor<2x8xi32>,
                  segments %segments: tensor<2x8xi32>, positions %positions: tensor<2x8xi32>,
                  seed %seed: tensor<i32>, step %step: tensor<i32>,
                  learning_rate %learning_rate: tensor<f32>, %mask: tensor<2x8xi1>) {
  // CHECK: %[[LOSS:.*]] = kerf.constant dense<0.000000e+00> : tensor<f32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  // CHECK: %[[METRIC:.*]] = kerf.count_valid %[[TARGETS]] : tensor<2x8xi32>
  %metric = kerf.count_valid %targets : tensor<2x8xi32>
  // CHECK: kerf.return %[[LOSS]], %[[METRIC]], %[[MASK]] : tensor<f32>, tensor<f32>, tensor<2x8xi1>
  kerf.return %loss, %metric, %mask : tensor<f32>, tensor<f32>, tensor<2x8xi1>
}

// What is returned may say which layers it counts.
// CHECK-LABEL: kerf.model @counts(
kerf.model @counts(%loss: tensor<f32>, %load: tensor<2x4xf32>) {
  // CHECK: kerf.return %{{.*}}, %{{.*}} names ["", "expert_load h.{i}.mlp 1 to 3"] : tensor<f32>, tensor<2x4xf32>
  kerf.return %loss, %load names ["", "expert_load h.{i}.mlp 1 to 3"] : tensor<f32>, tensor<2x4xf32>
}

// The attributes of a model; numbers print as short as they read back.
// CHECK-LABEL: kerf.model @adamw(
// CHECK-SAME: ) attributes {{[{]}}
// CHECK-NEXT: clip_norm = 1.000000e+00 : f64,
// CHECK-NEXT: groups = [#kerf.group<match = "*.bias", weight_decay = 0.0>, #kerf.group<match = "h.?.w", weight_decay = 0.01, rate_scale = 0.1>, #kerf.group<match = "*.e", weight_decay = 0.0, rule = #kerf.balance<rate = 0.001, target = 8.0>>],
// CHECK-NEXT: optimizer = #kerf.adamw<beta1 = 0.8, beta2 = 0.95, eps = 1.0e-06, weight_decay = 0.1>
// CHECK-NEXT: } {
kerf.model @adamw() attributes {
    clip_norm = 1.0,
    groups = [#kerf.group<match = "*.bias", weight_decay = 0>,
              #kerf.group<match = "h.?.w", weight_decay = 0.01, rate_scale = 0.1>,
              #kerf.group<match = "*.e", weight_decay = 0, rule = #kerf.balance<rate = 1.0e-3, target = 8>>],
    optimizer = #kerf.adamw<beta1 = 0.8, beta2 = 0.95, eps = 1.0e-6, weight_decay = 0.1>} {
  // CHECK: %[[LOSS:.*]] = kerf.constant dense<0.000000e+00> : tensor<f32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Rules with nothing but defaults, and with everything; a scalar f64 loss.
// CHECK-LABEL: kerf.model @rules(
// CHECK-SAME: %[[A:.*]]: tensor<f64>) attributes {{[{]}}
// CHECK-NEXT: a.adamw = #kerf.adamw<>,
// CHECK-NEXT: a.all = #kerf.sgd<momentum = 0.9, nesterov = true, weight_decay = 0.01>,
// CHECK-NEXT: a.bits = #kerf.adamw_8bit<beta2 = 0.95, block = 64>,
// CHECK-NEXT: a.lion = #kerf.lion<beta1 = 0.95, beta2 = 0.98, weight_decay = 1.0>,
// CHECK-NEXT: a.muon = #kerf.muon<>,
// CHECK-NEXT: a.muons = #kerf.muon<momentum = 0.9, nesterov = false, steps = 6, a = 2.0, b = -1.5, c = 0.5, eps = 1.0e-08, adjust = original, weight_decay = 0.1>,
// CHECK-NEXT: optimizer = #kerf.sgd<>
// CHECK-NEXT: } {
kerf.model @rules(%a: tensor<f64>) attributes {
    a.all = #kerf.sgd<momentum = 0.9, nesterov = true, weight_decay = 1.0e-2>,
    a.bits = #kerf.adamw_8bit<beta2 = 0.95, block = 64, min_elements = 4096>,
    a.lion = #kerf.lion<beta1 = 0.95, beta2 = 0.98, weight_decay = 1.0>,
    a.muon = #kerf.muon<momentum = 0.95, adjust = match_rms_adamw>,
    a.muons = #kerf.muon<momentum = 0.9, nesterov = false, steps = 6, a = 2.0, b = -1.5,
                         c = 0.5, eps = 1.0e-8, adjust = original, weight_decay = 0.1>,
    a.adamw = #kerf.adamw<>, optimizer = #kerf.sgd<>} {
  // CHECK: kerf.return %[[A]] : tensor<f64>
  kerf.return %a : tensor<f64>
}

// Each kind of initial values, and each clause of a parameter.
// CHECK-LABEL: kerf.model @params(
// CHECK-SAME: ) {
kerf.model @params() {
  // CHECK: %[[ZEROS:.*]] = kerf.param "zeros" init<zeros> : tensor<4xf32>
  %zeros = kerf.param "zeros" init<zeros> : tensor<4xf32>
  // CHECK: %[[ONES:.*]] = kerf.param "ones" init<ones> frozen : tensor<4xf32>
  %ones = kerf.param "ones" init<ones> frozen : tensor<4xf32>
  // CHECK: %[[CONSTANT:.*]] = kerf.param "constant" init<constant, -0.5> : tensor<4xf64>
  %constant = kerf.param "constant" init<constant, -0.5> : tensor<4xf64>
  // CHECK: %[[NORMAL:.*]] = kerf.param "normal" init<normal, 0.02> master f32 : tensor<4xbf16>
  %normal = kerf.param "normal" init<normal, 2.0e-2> master f32 : tensor<4xbf16>
  // CHECK: %[[UNIFORM:.*]] = kerf.param "uniform" init<uniform, 0.125> frozen master f64 : tensor<4xf16>
  %uniform = kerf.param "uniform" init<uniform, 0.125> frozen master f64 : tensor<4xf16>
  // CHECK: %[[EXPERTS:.*]] = kerf.param "experts.{e}.w1.weight" init<normal, 0.02> : tensor<8x4x2xf32>
  %experts = kerf.param "experts.{e}.w1.weight" init<normal, 0.02> : tensor<8x4x2xf32>
  // CHECK: %[[AGAIN:.*]] = kerf.param "zeros" init<zeros> : tensor<4xf32>
  %again = kerf.param "zeros" init<zeros> : tensor<4xf32>
  // CHECK: %[[LOSS:.*]] = kerf.constant dense<0.000000e+00> : tensor<f32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Names of parameters in a repeat: every form of {i}, also with {e}.
// CHECK-LABEL: kerf.model @names(
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>) {
kerf.model @names(%x: tensor<2xf32>) {
  // CHECK: %[[Y:.*]] = kerf.repeat %[[I:.*]] = 0 to 4 (%[[H:.*]] = %[[X]] : tensor<2xf32>) {
  %y = kerf.repeat %i = 0 to 4 (%h = %x : tensor<2xf32>) {
    // CHECK: %[[P0:.*]] = kerf.param "h.{i}.w" init<ones> : tensor<2xf32>
    %p0 = kerf.param "h.{i}.w" init<ones> : tensor<2xf32>
    // CHECK: %[[P1:.*]] = kerf.param "h.{2*i}.w" init<ones> : tensor<2xf32>
    %p1 = kerf.param "h.{2*i}.w" init<ones> : tensor<2xf32>
    // CHECK: %[[P2:.*]] = kerf.param "h.{i+1}.w" init<ones> : tensor<2xf32>
    %p2 = kerf.param "h.{i+1}.w" init<ones> : tensor<2xf32>
    // CHECK: %[[P3:.*]] = kerf.param "h.{2*i+1}.w" init<ones> : tensor<2xf32>
    %p3 = kerf.param "h.{2*i+1}.w" init<ones> : tensor<2xf32>
    // CHECK: %[[P4:.*]] = kerf.param "h.{i}.e.{e}.w" init<ones> : tensor<2xf32>
    %p4 = kerf.param "h.{i}.e.{e}.w" init<ones> : tensor<2xf32>
    // CHECK: %[[P5:.*]] = kerf.param "shared" init<ones> : tensor<2xf32>
    %p5 = kerf.param "shared" init<ones> : tensor<2xf32>
    // CHECK: kerf.yield %[[H]] : tensor<2xf32>
    kerf.yield %h : tensor<2xf32>
  }
  // CHECK: %[[LOSS:.*]] = kerf.reduce sum %[[Y]] dims [0] : tensor<2xf32>
  %loss = kerf.reduce sum %y dims [0] : tensor<2xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A repeat with every clause, and the reverse repeat of the same pair.
// CHECK-LABEL: kerf.model @repeats(
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>, %[[YS:.*]]: tensor<3x2xf32>, %[[ZS:.*]]: tensor<3xi32>) {
kerf.model @repeats(%x: tensor<2xf32>, %ys: tensor<3x2xf32>, %zs: tensor<3xi32>) {
  // CHECK: %[[LAST:.*]]:3 = kerf.repeat %[[I:.*]] = 2 to 5 (%[[H:.*]] = %[[X]] : tensor<2xf32>) slices(%[[Y:.*]] = %[[YS]] : tensor<3x2xf32>, %[[Z:.*]] = %[[ZS]] : tensor<3xi32>) pair 7 {
  %last, %all, %index = kerf.repeat %i = 2 to 5 (%h = %x : tensor<2xf32>)
      slices(%y = %ys : tensor<3x2xf32>, %z = %zs : tensor<3xi32>) pair 7 {
    // CHECK: %[[N:.*]] = kerf.mul %[[H]], %[[Y]] : tensor<2xf32>
    %n = kerf.mul %h, %y : tensor<2xf32>
    // CHECK: kerf.yield %[[N]] stack(%[[N]], %[[I]]) : tensor<2xf32>, tensor<2xf32>, tensor<i32>
    kerf.yield %n stack(%n, %i) : tensor<2xf32>, tensor<2xf32>, tensor<i32>
  }
  // CHECK: %[[BACK:.*]] = kerf.repeat reverse %[[J:.*]] = 2 to 5 (%[[G:.*]] = %[[LAST]]#0 : tensor<2xf32>) slices(%[[S:.*]] = %[[LAST]]#1 : tensor<3x2xf32>) pair 7 {
  %back = kerf.repeat reverse %j = 2 to 5 (%g = %last : tensor<2xf32>)
      slices(%s = %all : tensor<3x2xf32>) pair 7 {
    // CHECK: %[[M:.*]] = kerf.mul %[[G]], %[[S]] : tensor<2xf32>
    %m = kerf.mul %g, %s : tensor<2xf32>
    // CHECK: kerf.yield %[[M]] : tensor<2xf32>
    kerf.yield %m : tensor<2xf32>
  }
  // CHECK: %[[LOSS:.*]] = kerf.reduce sum %[[BACK]] dims [0] : tensor<2xf32>
  %loss = kerf.reduce sum %back dims [0] : tensor<2xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A repeat that carries nothing, one that only stacks, and one with two values.
// CHECK-LABEL: kerf.model @bare(
// CHECK-SAME: %[[X:.*]]: tensor<f32>, %[[C:.*]]: tensor<2xi1>) {
kerf.model @bare(%x: tensor<f32>, %c: tensor<2xi1>) {
  // CHECK: kerf.repeat %[[I:.*]] = 0 to 1 () {
  kerf.repeat %i = 0 to 1 () {
    // CHECK: kerf.yield
    kerf.yield
  }
  // CHECK: %[[STACK:.*]] = kerf.repeat %[[J:.*]] = 0 to 2 () {
  %stack = kerf.repeat %j = 0 to 2 () {
    // CHECK: kerf.yield stack(%[[C]]) : tensor<2xi1>
    kerf.yield stack(%c) : tensor<2xi1>
  }
  // CHECK: %[[A:.*]]:2 = kerf.repeat %[[K:.*]] = 0 to 2 (%[[P:.*]] = %[[X]] : tensor<f32>, %[[Q:.*]] = %[[C]] : tensor<2xi1>) {
  %a, %b = kerf.repeat %k = 0 to 2 (%p = %x : tensor<f32>, %q = %c : tensor<2xi1>) {
    // CHECK: kerf.yield %[[P]], %[[Q]] : tensor<f32>, tensor<2xi1>
    kerf.yield %p, %q : tensor<f32>, tensor<2xi1>
  }
  // CHECK: kerf.return %[[A]]#0 : tensor<f32>
  kerf.return %a : tensor<f32>
}

// Phases are kept on every op, the terminators and the repeat included.
// CHECK-LABEL: kerf.model @phases(
// CHECK-SAME: %[[X:.*]]: tensor<f32>) {
kerf.model @phases(%x: tensor<f32>) {
  // CHECK: %[[Y:.*]] = kerf.repeat %[[I:.*]] = 0 to 2 (%[[H:.*]] = %[[X]] : tensor<f32>) attributes {kerf.phase = #kerf.phase<forward 0>} {
  %y = kerf.repeat %i = 0 to 2 (%h = %x : tensor<f32>) attributes {kerf.phase = #kerf.phase<forward 0>} {
    // CHECK: %[[E:.*]] = kerf.exp %[[H]] {kerf.phase = #kerf.phase<forward 1>} : tensor<f32>
    %e = kerf.exp %h {kerf.phase = #kerf.phase<forward 1>} : tensor<f32>
    // CHECK: kerf.yield %[[E]] {kerf.phase = #kerf.phase<forward 2>} : tensor<f32>
    kerf.yield %e {kerf.phase = #kerf.phase<forward 2>} : tensor<f32>
  }
  // CHECK: %[[N:.*]] = kerf.neg %[[Y]] {kerf.phase = #kerf.phase<input_gradient -1>} : tensor<f32>
  %n = kerf.neg %y {kerf.phase = #kerf.phase<input_gradient -1>} : tensor<f32>
  // CHECK: %[[M:.*]] = kerf.neg %[[Y]] {kerf.phase = #kerf.phase<weight_gradient 3>} : tensor<f32>
  %m = kerf.neg %y {kerf.phase = #kerf.phase<weight_gradient 3>} : tensor<f32>
  // CHECK: %[[U:.*]] = kerf.neg %[[Y]] {kerf.phase = #kerf.phase<update 4>} : tensor<f32>
  %u = kerf.neg %y {kerf.phase = #kerf.phase<update 4>} : tensor<f32>
  // CHECK: kerf.return %[[Y]] : tensor<f32>
  kerf.return %y : tensor<f32>
}

// Clipping, and an update with every clause.
// CHECK-LABEL: kerf.model @updates(
// CHECK-SAME: learning_rate %[[LEARNING_RATE:.*]]: tensor<f32>, step %[[STEP:.*]]: tensor<i32>, %[[GS:.*]]: tensor<3x4xf32>) {
kerf.model @updates(learning_rate %learning_rate: tensor<f32>, step %step: tensor<i32>, %gs: tensor<3x4xf32>) {
  // CHECK: %[[W:.*]] = kerf.param "w" init<ones> : tensor<4xf32>
  %w = kerf.param "w" init<ones> : tensor<4xf32>
  // CHECK: %[[V:.*]] = kerf.param "v" init<ones> master f32 : tensor<4xbf16>
  %v = kerf.param "v" init<ones> master f32 : tensor<4xbf16>
  // CHECK: kerf.repeat %[[I:.*]] = 1 to 4 () {
  kerf.repeat %i = 1 to 4 () {
    // CHECK: %[[L:.*]] = kerf.param "h.{i}.w" init<ones> : tensor<4xf32>
    %l = kerf.param "h.{i}.w" init<ones> : tensor<4xf32>
    // CHECK: kerf.yield
    kerf.yield
  }
  // CHECK: %[[G:.*]] = kerf.constant dense<1.000000e+00> : tensor<4xf32>
  %g = kerf.constant dense<1.0> : tensor<4xf32>
  // CHECK: %[[NORM:.*]] = kerf.global_norm %[[G]], %[[GS]] : tensor<4xf32>, tensor<3x4xf32>
  %norm = kerf.global_norm %g, %gs : tensor<4xf32>, tensor<3x4xf32>
  // CHECK: %[[CLIP:.*]] = kerf.clip_factor %[[NORM]] max 1.000000e+00
  %clip = kerf.clip_factor %norm max 1.0
  // CHECK: %[[COUNTS:.*]] = kerf.compare lt %[[NORM]], %[[CLIP]] : tensor<f32>
  %counts = kerf.compare lt %norm, %clip : tensor<f32>
  // CHECK: kerf.update "w" rule #kerf.sgd<momentum = 0.9> by %[[G]] rate %[[LEARNING_RATE]] step %[[STEP]] : tensor<4xf32>
  kerf.update "w" rule #kerf.sgd<momentum = 0.9> by %g rate %learning_rate step %step : tensor<4xf32>
  // CHECK: kerf.update "v" rule #kerf.adamw<> by %[[G]] scale %[[CLIP]] rate %[[LEARNING_RATE]] times 5.000000e-01 step %[[STEP]] if %[[COUNTS]] into bf16 : tensor<4xf32>
  kerf.update "v" rule #kerf.adamw<> by %g scale %clip rate %learning_rate times 0.5 step %step if %counts into bf16 : tensor<4xf32>
  // CHECK: kerf.update "h.{i}.w"[1 to 4] rule #kerf.sgd<> by %[[GS]] rate %[[LEARNING_RATE]] step %[[STEP]] if %[[COUNTS]] : tensor<3x4xf32>
  kerf.update "h.{i}.w" [1 to 4] rule #kerf.sgd<> by %gs rate %learning_rate step %step if %counts : tensor<3x4xf32>
  // CHECK: %[[LOSS:.*]] = kerf.constant dense<0.000000e+00> : tensor<f32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The interpreter's check.
// CHECK-LABEL: kerf.model @checks(
// CHECK-SAME: %[[X:.*]]: tensor<f32>) {
kerf.model @checks(%x: tensor<f32>) {
  // CHECK: kerf.check_close %[[X]], %[[X]] within 9.9999999999999995E-7 : tensor<f32>
  kerf.check_close %x, %x within 1.0e-6 : tensor<f32>
  // CHECK: kerf.return %[[X]] : tensor<f32>
  kerf.return %x : tensor<f32>
}
