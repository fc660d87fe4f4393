// RUN: kerf-opt --split-input-file --verify-diagnostics --kerf-verify-plan %s

// A planned step passes.
// RUN: kerfc %S/Inputs/mlp.mlir --plan=%S/Inputs/megatron.json --stop-after=plan | kerf-opt --kerf-verify-plan -o %t

// expected-error @below {{has no 'plan'; run 'kerf-propagate-plan'}}
kerf.model @no_plan(%x: tensor<f32>) {
  kerf.return %x : tensor<f32>
}

// -----

kerf.model @no_factor(%x: tensor<4xf32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  // expected-error @below {{is assigned factor 'q', which it does not have}}
  // expected-note @below {{its factors are b=4}}
  %y = kerf.exp %x {kerf.assign = #kerf.assign<q = [tp]>} : tensor<4xf32>
  %s = kerf.reduce sum %y dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}

// -----

kerf.model @no_axis(%x: tensor<4xf32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  // expected-error @below {{is assigned 'b' to axis "dp", which the plan's mesh lacks}}
  %y = kerf.exp %x {kerf.assign = #kerf.assign<b = [dp]>} : tensor<4xf32>
  %s = kerf.reduce sum %y dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}

// -----

kerf.model @uneven(%x: tensor<5xf32>, %z: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  // expected-error @below {{cannot be split as assigned: factor 'b' of size 5 does not divide into 2 parts over [tp]}}
  %y = kerf.exp %x {kerf.assign = #kerf.assign<b = [tp]>} : tensor<5xf32>
  kerf.return %z : tensor<f32>
}

// -----

kerf.model @whole(%x: tensor<4x4xf32>, %z: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %e = kerf.exp %x : tensor<4x4xf32>
  // expected-error @below {{cannot be split as assigned: factor 'v' must stay whole}}
  // expected-note @below {{its factors are}}
  %y = kerf.softmax %e {kerf.assign = #kerf.assign<v = [tp]>} : tensor<4x4xf32>
  kerf.return %z : tensor<f32>
}

// -----

kerf.model @variant(%x: tensor<4x16xf32>, %t: tensor<4xi32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %e = kerf.exp %x : tensor<4x16xf32>
  %u = kerf.add %t, %t : tensor<4xi32>
  %n = kerf.count_valid %u : tensor<4xi32>
  // expected-error @below {{factor 'v' can be split by the variant 'split_vocabulary' only, which the assignment does not name}}
  // expected-note @below {{its factors are}}
  %l = kerf.cross_entropy %e, %u normalizer %n {kerf.assign = #kerf.assign<v = [tp]>} : tensor<4x16xf32>, tensor<4xi32>
  kerf.return %l : tensor<f32>
}

// -----

// Heads are major to their channels: parts of channels are no ranges.
kerf.model @minor(%x: tensor<4x6xf32>, %z: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %e = kerf.exp %x : tensor<4x6xf32>
  // expected-error @below {{factor 'r1' is a minor part of a dimension: its parts are no contiguous ranges}}
  // expected-note @below {{its factors are}}
  %y = kerf.reshape %e {kerf.assign = #kerf.assign<r1 = [tp]>} : tensor<4x6xf32> -> tensor<24xf32>
  kerf.return %z : tensor<f32>
}

// -----

kerf.model @twice(%x: tensor<4x4xf32>, %z: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %e = kerf.exp %x : tensor<4x4xf32>
  // expected-error @below {{axis 'tp' is used twice}}
  // expected-note @below {{its factors are}}
  %y = kerf.neg %e {kerf.assign = #kerf.assign<b = [tp], s = [tp]>} : tensor<4x4xf32>
  kerf.return %z : tensor<f32>
}

// -----

kerf.model @no_sum(%x: tensor<4xf32>, %z: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %e = kerf.exp %x : tensor<4xf32>
  // expected-error @below {{no sum over 'tp' arrives at the operands it is linear in}}
  // expected-note @below {{its factors are}}
  %y = kerf.neg %e {kerf.assign = #kerf.assign<pending = [tp]>} : tensor<4xf32>
  kerf.return %z : tensor<f32>
}

// -----

// exp of a sum over micro-batches is not the sum of exps.
kerf.model @micro_sum(%x: tensor<4xf32>) attributes {
    plan = #kerf.plan<mesh = <>, micro_batches = 2, schedule = "1f1b", recompute = none>} {
  %p = kerf.reduce sum %x dims [0] {kerf.assign = #kerf.assign<b = [micro]>} : tensor<4xf32>
  // expected-error @below {{cannot get operand 0: a sum over all micro-batches is needed within one of them}}
  // expected-note @below {{it arrives as [] sum [micro] and is needed as []}}
  %y = kerf.exp %p : tensor<f32>
  kerf.return %y : tensor<f32>
}

// -----

// A unit is that of a micro-batch: scaling what is summed over them is fine, the unit itself does not leave it,
// nor what follows from it, through layers too.
kerf.model @micro_unit(%x: tensor<4xbf16>) attributes {
    plan = #kerf.plan<mesh = <>, micro_batches = 2, schedule = "1f1b", recompute = none>} {
  // expected-note @below {{it is measured in a micro-batch here; use it there, on what is split by 'micro' or summed over it, or plan one micro-batch}}
  %u = kerf.unit %x of f8E4M3FN {kerf.assign = #kerf.assign<b = [micro]>} : tensor<4xbf16>
  %p = kerf.reduce sum %x dims [0] {kerf.assign = #kerf.assign<b = [micro]>} : tensor<4xbf16>
  %v = kerf.cast %u : tensor<f32> -> tensor<bf16>
  %s = kerf.mul %p, %v {kerf.assign = #kerf.assign<pending = [micro]>} : tensor<bf16>
  %last = kerf.repeat %i = 0 to 2 (%h = %v : tensor<bf16>) {
    %n = kerf.neg %h : tensor<bf16>
    kerf.yield %n : tensor<bf16>
  }
  // expected-error @below {{runs once per step, and reads what each micro-batch has its own of}}
  kerf.return %s, %last : tensor<bf16>, tensor<bf16>
}

// -----

// So too where one layer measures it and a later one reads it.
kerf.model @micro_unit_carried(%x: tensor<4xbf16>, %one: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <>, micro_batches = 2, schedule = "1f1b", recompute = none>} {
  %p = kerf.reduce sum %x dims [0] {kerf.assign = #kerf.assign<b = [micro]>} : tensor<4xbf16>
  %last, %first, %late = kerf.repeat %i = 0 to 4 (%h = %one : tensor<f32>, %k = %one : tensor<f32>, %l = %one : tensor<f32>) {
    // expected-note @below {{it is measured in a micro-batch here}}
    %u = kerf.unit %x of f8E4M3FN {kerf.assign = #kerf.assign<b = [micro]>} : tensor<4xbf16>
    %n = kerf.neg %k : tensor<f32>
    kerf.yield %u, %h, %n : tensor<f32>, tensor<f32>, tensor<f32>
  }
  // expected-error @below {{runs once per step, and reads what each micro-batch has its own of}}
  kerf.return %p, %late : tensor<bf16>, tensor<f32>
}

// -----

kerf.model @micro_whole(%x: tensor<4xf32>) attributes {
    plan = #kerf.plan<mesh = <>, micro_batches = 2, schedule = "1f1b", recompute = none>} {
  %e = kerf.exp %x {kerf.assign = #kerf.assign<b = [micro]>} : tensor<4xf32>
  // expected-error @below {{cannot get operand 0: a value that is split by micro-batches is needed whole}}
  // expected-note @below {{it arrives as [[micro]] and is needed as [[]]}}
  // expected-note @below {{a rule that splits it, too: {"op": "reduce", "factors": {"}}
  %s = kerf.reduce sum %e dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}

// -----

// Only the last axes of a cut can be gathered.
kerf.model @micro_last(%x: tensor<8xf32>) attributes {
    plan = #kerf.plan<mesh = <ep = 2>, micro_batches = 2, schedule = "1f1b", recompute = none>} {
  %e = kerf.exp %x {kerf.assign = #kerf.assign<b = [ep, micro]>} : tensor<8xf32>
  // expected-error @below {{cannot get operand 0: micro-batches cannot be gathered: up to 'micro' both splits are by the same axes, others come after it}}
  // expected-note @below {{it arrives as [[ep, micro]] and is needed as [[micro]]}}
  %y = kerf.exp %e {kerf.assign = #kerf.assign<b = [micro]>} : tensor<8xf32>
  %s = kerf.reduce sum %y dims [0] {kerf.assign = #kerf.assign<b = [micro]>} : tensor<8xf32>
  kerf.return %s : tensor<f32>
}

// -----

kerf.model @micro_inside( // expected-error @below {{input is split as [[], [micro]], expected 'micro' on dimension 0 only}}
    %x: tensor<4x4xf32>, %z: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <>, micro_batches = 2, schedule = "1f1b", recompute = none>} {
  %e = kerf.exp %x {kerf.assign = #kerf.assign<s = [micro]>} : tensor<4x4xf32>
  kerf.return %z : tensor<f32>
}

// -----

kerf.model @reads_disagree() attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  // expected-note @below {{other read is here}}
  %a = kerf.param "w" init<ones> {kerf.assign = #kerf.assign<b = [tp]>} : tensor<4xf32>
  // expected-error @below {{"w" is stored as [[]] here and as [[tp]] elsewhere}}
  %b = kerf.param "w" init<ones> : tensor<4xf32>
  %z = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %z : tensor<f32>
}

// -----

kerf.model @param_of_micro() attributes {
    plan = #kerf.plan<mesh = <>, micro_batches = 2, schedule = "1f1b", recompute = none>} {
  // expected-error @below {{"w" is split by micro-batches; parameters are not}}
  %a = kerf.param "w" init<ones> {kerf.assign = #kerf.assign<b = [micro]>} : tensor<4xf32>
  %z = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %z : tensor<f32>
}

// -----

kerf.model @gradient_disagrees(learning_rate %r: tensor<f32>, step %t: tensor<i32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  // expected-note @below {{as the parameter is stored}}
  %a = kerf.param "w" init<ones> {kerf.assign = #kerf.assign<b = [tp]>} : tensor<4xf32>
  %g = kerf.constant dense<0.0> : tensor<4xf32>
  // expected-error @below {{splits the gradient of "w" as [[]], expected [[tp]]}}
  kerf.update "w" rule #kerf.sgd<> by %g rate %r step %t {kerf.phase = #kerf.phase<update -1>} : tensor<4xf32>
  %z = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %z : tensor<f32>
}

// -----

// Micro-batches that cut nothing.
// expected-error @below {{is planned in 4 micro-batches, and no op is split by 'micro'}}
// expected-note @below {{split the batch where the tokens enter, as with {"op": "embedding", "factors": {"b": ["micro"]}}}}
kerf.model @micro_nothing(%x: tensor<4xf32>) attributes {
    plan = #kerf.plan<mesh = <>, micro_batches = 4, schedule = "1f1b", recompute = none>} {
  %s = kerf.reduce sum %x dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}

// -----

// A variant that is named may be used; whether programs do it is another question.
kerf.model @named_variant(%x: tensor<4x16xf32>, %t: tensor<4xi32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %e = kerf.exp %x {kerf.assign = #kerf.assign<s = [tp]>} : tensor<4x16xf32>
  %u = kerf.add %t, %t : tensor<4xi32>
  %n = kerf.count_valid %u : tensor<4xi32>
  %l = kerf.cross_entropy %e, %u normalizer %n {kerf.assign = #kerf.assign<v = [tp], variant = [split_vocabulary]>} : tensor<4x16xf32>, tensor<4xi32>
  kerf.return %l : tensor<f32>
}

// -----

kerf.model @no_variant(%x: tensor<4xf32>, %z: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  // expected-error @below {{is assigned the variant "ring", which it lacks}}
  %y = kerf.exp %x {kerf.assign = #kerf.assign<b = [tp], variant = [ring]>} : tensor<4xf32>
  kerf.return %z : tensor<f32>
}

// -----

// Ring attention moves keys past the queries of every rank: both are cut alike.
kerf.model @half_a_ring(%q: tensor<2x8x4x8xf32>, %z: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <cp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %k = kerf.exp %q : tensor<2x8x4x8xf32>
  // expected-error @below {{the variant 'ring' splits factors 'q' and 'k' by the same axes}}
  // expected-note @below {{its factors are}}
  %o = kerf.attention %k, %k, %k causal {kerf.assign = #kerf.assign<k = [cp], variant = [ring]>} : tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>
  kerf.return %z : tensor<f32>
}

// -----

// Rows reach their owners in one way.
kerf.model @two_ways(%x: tensor<4x2x3xf32>, %slots: tensor<4x2x2xi32>, %sizes: tensor<4x4xi32>, %z: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <ep = 2, tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  // expected-error @below {{cannot be split as assigned: rows are exchanged by the variant 'all_to_all' and gathered as 'routed', expected one of the two}}
  %rows = kerf.dispatch %x, %slots sizes %sizes : tensor<4x4xi32> {kerf.assign = #kerf.assign<g = [tp, ep], r = [tp, ep], variant = [all_to_all], routed>} : tensor<4x2x3xf32>, tensor<4x2x2xi32> -> tensor<4x4x3xf32>
  kerf.return %z : tensor<f32>
}

// -----

// What depends on inputs alone is made once per step, its sums, too.
kerf.model @sum_of_inputs(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %z: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %s = kerf.reduce sum %x dims [0] {kerf.assign = #kerf.assign<b = [tp]>} : tensor<2x4xf32>
  // expected-error @below {{cannot be split as assigned: no sum over 'tp' arrives at the operands it is linear in; leave 'tp' out of what is pending here, or split what its operand is summed over by it}}
  // expected-note @below {{its factors are}}
  %y = kerf.mul %s, %w {kerf.assign = #kerf.assign<pending = [tp]>, kerf.phase = #kerf.phase<input_gradient 1>} : tensor<4xf32>
  kerf.return %z : tensor<f32>
}
