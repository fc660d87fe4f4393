// RUN: kerf-opt --split-input-file --kerf-order-context --verify-diagnostics %s | FileCheck %s

// Tokens give the rows of the sum, the sum those of the broadcast table, and
// that those of the index: it makes positions. So do rope and dropout; the op
// on a parameter of as many rows as there are positions does not.
// CHECK-LABEL: kerf.model @told
// CHECK:         zigzag = #kerf.zigzag<2 x 2 along [1]>
// CHECK:         kerf.iota dim 0 zigzag <2 x 2 along [0]> : tensor<8xi32>
// CHECK:         kerf.dropout %{{.*}} zigzag <2 x 2 along [1]>
// CHECK:         kerf.rope %{{.*}} zigzag <2 x 2 along [1]>
// CHECK:         kerf.attention %{{.*}} causal zigzag <2 x 2 along [2, 3]>
// CHECK:         kerf.iota dim 0 : tensor<8xi32>
kerf.model @told(tokens %t: tensor<1x8xi32>, seed %seed: tensor<i32>, step %step: tensor<i32>) attributes {
    plan = #kerf.plan<mesh = <cp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %wte = kerf.param "wte" init<normal, 0.02> : tensor<32x16xf32>
  %wpe = kerf.param "wpe" init<normal, 0.02> : tensor<64x16xf32>
  %e = kerf.embedding %t, %wte {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8xi32>, tensor<32x16xf32>
  %i = kerf.iota dim 0 : tensor<8xi32>
  %p = kerf.embedding %i, %wpe : tensor<8xi32>, tensor<64x16xf32>
  %b = kerf.broadcast %p dims [1, 2] : tensor<8x16xf32> -> tensor<1x8x16xf32>
  %x = kerf.add %e, %b {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x16xf32>
  %d = kerf.dropout %x rate 0.1 "drop" seed %seed step %step {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x16xf32>
  %h = kerf.reshape %d {kerf.assign = #kerf.assign<r1 = [cp]>} : tensor<1x8x16xf32> -> tensor<1x8x2x8xf32>
  %q = kerf.rope %h theta 10000.0 {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x2x8xf32>
  %y = kerf.attention %q, %q, %h causal {kerf.assign = #kerf.assign<q = [cp], k = [cp], variant = [ring]>} : tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>
  %s = kerf.reduce sum %y dims [0, 1, 2, 3] {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x2x8xf32>
  %j = kerf.iota dim 0 : tensor<8xi32>
  %n = kerf.cast %j : tensor<8xi32> -> tensor<8xf32>
  %o = kerf.reduce sum %n dims [0] : tensor<8xf32>
  %l = kerf.add %s, %o : tensor<f32>
  kerf.return %l : tensor<f32>
}

// -----

// Rows keep their order where the plan says so.
// CHECK-LABEL: kerf.model @plain
// CHECK-NOT:     zigzag
kerf.model @plain(tokens %t: tensor<1x8xi32>) attributes {
    plan = #kerf.plan<mesh = <cp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, cp_order = "plain">} {
  %wte = kerf.param "wte" init<normal, 0.02> : tensor<32x16xf32>
  %e = kerf.embedding %t, %wte {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8xi32>, tensor<32x16xf32>
  %h = kerf.reshape %e {kerf.assign = #kerf.assign<r1 = [cp]>} : tensor<1x8x16xf32> -> tensor<1x8x2x8xf32>
  %y = kerf.attention %h, %h, %h causal {kerf.assign = #kerf.assign<q = [cp], k = [cp], variant = [ring]>} : tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>
  %s = kerf.reduce sum %y dims [0, 1, 2, 3] {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x2x8xf32>
  kerf.return %s : tensor<f32>
}

// -----

// Nothing is unequal where every query sees every key, or the sequence is
// whole.
// CHECK-LABEL: kerf.model @equal
// CHECK-NOT:     zigzag
kerf.model @equal(tokens %t: tensor<1x8xi32>) attributes {
    plan = #kerf.plan<mesh = <cp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %wte = kerf.param "wte" init<normal, 0.02> : tensor<32x16xf32>
  %e = kerf.embedding %t, %wte {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8xi32>, tensor<32x16xf32>
  %h = kerf.reshape %e {kerf.assign = #kerf.assign<r1 = [cp]>} : tensor<1x8x16xf32> -> tensor<1x8x2x8xf32>
  %y = kerf.attention %h, %h, %h {kerf.assign = #kerf.assign<q = [cp], k = [cp], variant = [ring]>} : tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>
  %z = kerf.attention %y, %y, %y causal : tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>
  %s = kerf.reduce sum %z dims [0, 1, 2, 3] : tensor<1x8x2x8xf32>
  kerf.return %s : tensor<f32>
}

// -----

// Two ranks of two chunks each do not divide six positions.
// CHECK-LABEL: kerf.model @odd
// CHECK-NOT:     zigzag
kerf.model @odd(tokens %t: tensor<1x6xi32>) attributes {
    plan = #kerf.plan<mesh = <cp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %wte = kerf.param "wte" init<normal, 0.02> : tensor<32x16xf32>
  %e = kerf.embedding %t, %wte {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x6xi32>, tensor<32x16xf32>
  %h = kerf.reshape %e {kerf.assign = #kerf.assign<r1 = [cp]>} : tensor<1x6x16xf32> -> tensor<1x6x2x8xf32>
  // expected-remark @below {{ranks that share a sequence have unequal causal work}}
  // expected-note @below {{the order of positions stays: 'kerf.attention' has 6 positions, which 4 does not divide}}
  %y = kerf.attention %h, %h, %h causal {kerf.assign = #kerf.assign<q = [cp], k = [cp], variant = [ring]>} : tensor<1x6x2x8xf32>, tensor<1x6x2x8xf32>, tensor<1x6x2x8xf32>
  %s = kerf.reduce sum %y dims [0, 1, 2, 3] {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x6x2x8xf32>
  kerf.return %s : tensor<f32>
}

// -----

// The tokens that have no room are the last ones of their sequence.
// CHECK-LABEL: kerf.model @dropping
// CHECK-NOT:     zigzag
kerf.model @dropping(tokens %t: tensor<1x8xi32>) attributes {
    plan = #kerf.plan<mesh = <cp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %wte = kerf.param "wte" init<normal, 0.02> : tensor<32x16xf32>
  %e = kerf.embedding %t, %wte {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8xi32>, tensor<32x16xf32>
  %w, %c = kerf.route %e k 2 : tensor<1x8x16xf32>
  // expected-note @below {{the order of positions stays: 'kerf.assign_slots' drops tokens by their order}}
  %slots, %sizes = kerf.assign_slots %c count 16 group 1 capacity 2 : tensor<1x8x2xi32>
  %r = kerf.dispatch %e, %slots : tensor<1x8x16xf32>, tensor<1x8x2xi32> -> tensor<1x32x16xf32>
  %m = kerf.combine %r, %slots weights %w : tensor<1x8x2xf32> : tensor<1x32x16xf32>, tensor<1x8x2xi32>
  %h = kerf.reshape %m {kerf.assign = #kerf.assign<r1 = [cp]>} : tensor<1x8x16xf32> -> tensor<1x8x2x8xf32>
  // expected-remark @below {{ranks that share a sequence have unequal causal work}}
  %y = kerf.attention %h, %h, %h causal {kerf.assign = #kerf.assign<q = [cp], k = [cp], variant = [ring]>} : tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>
  %s = kerf.reduce sum %y dims [0, 1, 2, 3] {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x2x8xf32>
  kerf.return %s : tensor<f32>
}

// -----

// Without a capacity nobody is dropped, and rows of the table may stand in any
// order.
// CHECK-LABEL: kerf.model @routed
// CHECK:         kerf.attention %{{.*}} causal zigzag
kerf.model @routed(tokens %t: tensor<1x8xi32>) attributes {
    plan = #kerf.plan<mesh = <cp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %wte = kerf.param "wte" init<normal, 0.02> : tensor<32x16xf32>
  %e = kerf.embedding %t, %wte {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8xi32>, tensor<32x16xf32>
  %w, %c = kerf.route %e k 2 : tensor<1x8x16xf32>
  %slots, %sizes = kerf.assign_slots %c count 16 group 1 : tensor<1x8x2xi32>
  %r = kerf.dispatch %e, %slots : tensor<1x8x16xf32>, tensor<1x8x2xi32> -> tensor<1x16x16xf32>
  %m = kerf.combine %r, %slots weights %w : tensor<1x8x2xf32> : tensor<1x16x16xf32>, tensor<1x8x2xi32>
  %h = kerf.reshape %m {kerf.assign = #kerf.assign<r1 = [cp]>} : tensor<1x8x16xf32> -> tensor<1x8x2x8xf32>
  %y = kerf.attention %h, %h, %h causal {kerf.assign = #kerf.assign<q = [cp], k = [cp], variant = [ring]>} : tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>
  %s = kerf.reduce sum %y dims [0, 1, 2, 3] {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x2x8xf32>
  kerf.return %s : tensor<f32>
}

// -----

// A parameter has an entry per position: adding it to rows in another order
// would mean another model.
// CHECK-LABEL: kerf.model @table
// CHECK-NOT:     zigzag
kerf.model @table(tokens %t: tensor<1x8xi32>) attributes {
    plan = #kerf.plan<mesh = <cp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %wte = kerf.param "wte" init<normal, 0.02> : tensor<32x16xf32>
  // expected-note @below {{the order of positions stays: 'kerf.param' has an entry per position}}
  %wpe = kerf.param "wpe" init<normal, 0.02> : tensor<8x16xf32>
  %e = kerf.embedding %t, %wte {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8xi32>, tensor<32x16xf32>
  %b = kerf.broadcast %wpe dims [1, 2] : tensor<8x16xf32> -> tensor<1x8x16xf32>
  %x = kerf.add %e, %b {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x16xf32>
  %h = kerf.reshape %x {kerf.assign = #kerf.assign<r1 = [cp]>} : tensor<1x8x16xf32> -> tensor<1x8x2x8xf32>
  // expected-remark @below {{ranks that share a sequence have unequal causal work}}
  %y = kerf.attention %h, %h, %h causal {kerf.assign = #kerf.assign<q = [cp], k = [cp], variant = [ring]>} : tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>
  %s = kerf.reduce sum %y dims [0, 1, 2, 3] {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x2x8xf32>
  kerf.return %s : tensor<f32>
}

// -----

// The first half of every sequence is a part by position.
// CHECK-LABEL: kerf.model @half
// CHECK-NOT:     zigzag
kerf.model @half(tokens %t: tensor<1x8xi32>) attributes {
    plan = #kerf.plan<mesh = <cp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %wte = kerf.param "wte" init<normal, 0.02> : tensor<32x16xf32>
  %e = kerf.embedding %t, %wte {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8xi32>, tensor<32x16xf32>
  %h = kerf.reshape %e {kerf.assign = #kerf.assign<r1 = [cp]>} : tensor<1x8x16xf32> -> tensor<1x8x2x8xf32>
  // expected-remark @below {{ranks that share a sequence have unequal causal work}}
  %y = kerf.attention %h, %h, %h causal {kerf.assign = #kerf.assign<q = [cp], k = [cp], variant = [ring]>} : tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>
  // expected-note @below {{the order of positions stays: 'kerf.slice' splits the sequence in another way}}
  %f = kerf.slice %y offsets [0, 0, 0, 0] sizes [1, 4, 2, 8] : tensor<1x8x2x8xf32>
  %s = kerf.reduce sum %f dims [0, 1, 2, 3] : tensor<1x4x2x8xf32>
  kerf.return %s : tensor<f32>
}

// -----

// Where attentions are cut in two ways, parts of both have equal work: those of
// two ranks are two of the parts of four.
// CHECK-LABEL: kerf.model @both
// CHECK:         zigzag = #kerf.zigzag<4 x 1 along [1]>
// CHECK-COUNT-2: kerf.attention %{{.*}} causal zigzag <4 x 1 along [2, 3]>
kerf.model @both(tokens %t: tensor<1x8xi32>) attributes {
    plan = #kerf.plan<mesh = <cp = 2, tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %wte = kerf.param "wte" init<normal, 0.02> : tensor<32x16xf32>
  %e = kerf.embedding %t, %wte {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8xi32>, tensor<32x16xf32>
  %h = kerf.reshape %e {kerf.assign = #kerf.assign<r1 = [cp]>} : tensor<1x8x16xf32> -> tensor<1x8x2x8xf32>
  %y = kerf.attention %h, %h, %h causal {kerf.assign = #kerf.assign<q = [cp], k = [cp], variant = [ring]>} : tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>
  %z = kerf.attention %y, %y, %y causal {kerf.assign = #kerf.assign<q = [cp, tp]>} : tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>
  %s = kerf.reduce sum %z dims [0, 1, 2, 3] : tensor<1x8x2x8xf32>
  kerf.return %s : tensor<f32>
}
