// RUN: kerf-opt %s --split-input-file --kerf-roll --mlir-print-op-on-diagnostic=false 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=TOLD --input-file=%t

// Three layers that are alike. Each reads what its neighbour made, its own
// parameters, and a table of positions, which is made in each.
// TOLD: remark: rolled layers h.0 to 2
// CHECK-LABEL: @alike
// CHECK: %[[X:.*]] = kerf.embedding
// CHECK: %[[Y:.*]] = kerf.repeat %[[I:.*]] = 0 to 3 (%[[H:.*]] = %[[X]] : tensor<2x4xf32>) {
// CHECK: %[[W:.*]] = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<4x4xf32>
// CHECK: %[[L:.*]] = kerf.linear %[[H]], %[[W]]
// CHECK: %[[D:.*]] = kerf.dropout %[[L]] rate 1.000000e-01 "h.drop" seed %seed step %step layer %[[I]]
// CHECK: %[[I:.*]] = kerf.iota dim 1
// CHECK: %[[POSITIONS:.*]] = kerf.cast %[[I]]
// CHECK: %[[S:.*]] = kerf.mul %[[D]], %[[POSITIONS]]
// CHECK: %[[R:.*]] = kerf.add %[[S]], %[[H]]
// CHECK: kerf.yield %[[R]]
// CHECK: kerf.exp %[[Y]]
kerf.model @alike(tokens %tokens: tensor<2xi32>, seed %seed: tensor<i32>, step %step: tensor<i32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x4xf32>
  %scale = kerf.param "scale" init<ones> : tensor<f32>
  %w0 = kerf.param "h.0.w" init<normal, 0.5> : tensor<4x4xf32>
  %w1 = kerf.param "h.1.w" init<normal, 0.5> : tensor<4x4xf32>
  %w2 = kerf.param "h.2.w" init<normal, 0.5> : tensor<4x4xf32>
  %x = kerf.embedding %tokens, %e : tensor<2xi32>, tensor<8x4xf32>
  %l0 = kerf.linear %x, %w0 : tensor<2x4xf32>, tensor<4x4xf32>
  %d0 = kerf.dropout %l0 rate 0.1 "h.0.drop" seed %seed step %step : tensor<2x4xf32>
  %i = kerf.iota dim 1 : tensor<2x4xi32>
  %p = kerf.cast %i : tensor<2x4xi32> -> tensor<2x4xf32>
  %s0 = kerf.mul %d0, %p : tensor<2x4xf32>
  %y0 = kerf.add %s0, %x : tensor<2x4xf32>
  %l1 = kerf.linear %y0, %w1 : tensor<2x4xf32>, tensor<4x4xf32>
  %d1 = kerf.dropout %l1 rate 0.1 "h.1.drop" seed %seed step %step : tensor<2x4xf32>
  %s1 = kerf.mul %d1, %p : tensor<2x4xf32>
  %y1 = kerf.add %s1, %y0 : tensor<2x4xf32>
  %l2 = kerf.linear %y1, %w2 : tensor<2x4xf32>, tensor<4x4xf32>
  %d2 = kerf.dropout %l2 rate 0.1 "h.2.drop" seed %seed step %step : tensor<2x4xf32>
  %s2 = kerf.mul %d2, %p : tensor<2x4xf32>
  %y2 = kerf.add %s2, %y1 : tensor<2x4xf32>
  %z = kerf.exp %y2 : tensor<2x4xf32>
  %sums = kerf.reduce sum %z dims [0, 1] : tensor<2x4xf32>
  %loss = kerf.mul %sums, %scale : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// A first layer of its own, then two kinds that take turns; numbers begin at 1.
// TOLD: remark: rolled layers layers.2 to 5 in steps of 2
// CHECK-LABEL: @kinds
// CHECK: kerf.param "layers.1.w" init<normal, 1.0> : tensor<4x4xf32>
// CHECK: kerf.linear
// CHECK: kerf.repeat %{{.*}} = 1 to 3
// CHECK: kerf.param "layers.{2*i}.w"
// CHECK: kerf.exp
// CHECK: kerf.param "layers.{2*i+1}.w"
// CHECK: kerf.tanh
kerf.model @kinds(%x: tensor<2x4xf32>) {
  %w1 = kerf.param "layers.1.w" init<normal, 1.0> : tensor<4x4xf32>
  %w2 = kerf.param "layers.2.w" init<normal, 1.0> : tensor<4x4xf32>
  %w3 = kerf.param "layers.3.w" init<normal, 1.0> : tensor<4x4xf32>
  %w4 = kerf.param "layers.4.w" init<normal, 1.0> : tensor<4x4xf32>
  %w5 = kerf.param "layers.5.w" init<normal, 1.0> : tensor<4x4xf32>
  %a1 = kerf.linear %x, %w1 : tensor<2x4xf32>, tensor<4x4xf32>
  %b1 = kerf.sin %a1 : tensor<2x4xf32>
  %a2 = kerf.linear %b1, %w2 : tensor<2x4xf32>, tensor<4x4xf32>
  %b2 = kerf.exp %a2 : tensor<2x4xf32>
  %a3 = kerf.linear %b2, %w3 : tensor<2x4xf32>, tensor<4x4xf32>
  %b3 = kerf.tanh %a3 : tensor<2x4xf32>
  %a4 = kerf.linear %b3, %w4 : tensor<2x4xf32>, tensor<4x4xf32>
  %b4 = kerf.exp %a4 : tensor<2x4xf32>
  %a5 = kerf.linear %b4, %w5 : tensor<2x4xf32>, tensor<4x4xf32>
  %b5 = kerf.tanh %a5 : tensor<2x4xf32>
  %loss = kerf.reduce sum %b5 dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// What leaves a layer in the middle (the loss reads layer 0), initial values that
// differ, and a skip over two layers keep layers apart.
// TOLD-NOT: remark
// CHECK-LABEL: @tapped
// CHECK-NOT: kerf.repeat
kerf.model @tapped(%x: tensor<2x4xf32>) {
  %w0 = kerf.param "h.0.w" init<normal, 1.0> : tensor<4x4xf32>
  %w1 = kerf.param "h.1.w" init<normal, 1.0> : tensor<4x4xf32>
  %y0 = kerf.linear %x, %w0 : tensor<2x4xf32>, tensor<4x4xf32>
  %y1 = kerf.linear %y0, %w1 : tensor<2x4xf32>, tensor<4x4xf32>
  %both = kerf.mul %y0, %y1 : tensor<2x4xf32>
  %loss = kerf.reduce sum %both dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: @unlike
// CHECK-NOT: kerf.repeat
kerf.model @unlike(%x: tensor<2x4xf32>) {
  %w0 = kerf.param "h.0.w" init<normal, 1.0> : tensor<4x4xf32>
  %w1 = kerf.param "h.1.w" init<normal, 0.5> : tensor<4x4xf32>
  %y0 = kerf.linear %x, %w0 : tensor<2x4xf32>, tensor<4x4xf32>
  %y1 = kerf.linear %y0, %w1 : tensor<2x4xf32>, tensor<4x4xf32>
  %loss = kerf.reduce sum %y1 dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: @skip
// CHECK-NOT: kerf.repeat
kerf.model @skip(%x: tensor<2x4xf32>) {
  %w0 = kerf.param "h.0.w" init<normal, 1.0> : tensor<4x4xf32>
  %w1 = kerf.param "h.1.w" init<normal, 1.0> : tensor<4x4xf32>
  %w2 = kerf.param "h.2.w" init<normal, 1.0> : tensor<4x4xf32>
  %a0 = kerf.linear %x, %w0 : tensor<2x4xf32>, tensor<4x4xf32>
  %y0 = kerf.add %a0, %x : tensor<2x4xf32>
  %a1 = kerf.linear %y0, %w1 : tensor<2x4xf32>, tensor<4x4xf32>
  %y1 = kerf.add %a1, %x : tensor<2x4xf32>
  %a2 = kerf.linear %y1, %w2 : tensor<2x4xf32>, tensor<4x4xf32>
  %y2 = kerf.add %a2, %y0 : tensor<2x4xf32>
  %loss = kerf.reduce sum %y2 dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A value that is handed on first and read by all layers besides is carried
// twice: once it changes, once it stays.
// TOLD: remark: rolled layers h.0 to 2
// CHECK-LABEL: @reminded
// CHECK: %[[X:.*]] = kerf.embedding
// CHECK: kerf.repeat %{{.*}} = 0 to 3 (%[[H:.*]] = %[[X]] : tensor<2x4xf32>, %[[X0:.*]] = %[[X]] : tensor<2x4xf32>) {
// CHECK: %[[L:.*]] = kerf.linear %[[H]]
// CHECK: %[[A:.*]] = kerf.add %[[L]], %[[X0]]
// CHECK: kerf.yield %[[A]], %[[X0]]
kerf.model @reminded(tokens %tokens: tensor<2xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x4xf32>
  %w0 = kerf.param "h.0.w" init<normal, 1.0> : tensor<4x4xf32>
  %w1 = kerf.param "h.1.w" init<normal, 1.0> : tensor<4x4xf32>
  %w2 = kerf.param "h.2.w" init<normal, 1.0> : tensor<4x4xf32>
  %x = kerf.embedding %tokens, %e : tensor<2xi32>, tensor<8x4xf32>
  %a0 = kerf.linear %x, %w0 : tensor<2x4xf32>, tensor<4x4xf32>
  %y0 = kerf.add %a0, %x : tensor<2x4xf32>
  %a1 = kerf.linear %y0, %w1 : tensor<2x4xf32>, tensor<4x4xf32>
  %y1 = kerf.add %a1, %x : tensor<2x4xf32>
  %a2 = kerf.linear %y1, %w2 : tensor<2x4xf32>, tensor<4x4xf32>
  %y2 = kerf.add %a2, %x : tensor<2x4xf32>
  %loss = kerf.reduce sum %y2 dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A third layer that reads its neighbour where the others read the same value
// is another layer.
// TOLD: remark: rolled layers h.0 to 1
// CHECK-LABEL: @other_third
// CHECK: %[[W:.*]] = kerf.param "h.2.w"
// CHECK: %[[Y:[0-9]+]]:2 = kerf.repeat %{{.*}} = 0 to 2
// CHECK: %[[A:.*]] = kerf.linear %[[Y]]#0, %[[W]]
// CHECK: kerf.add %[[A]], %[[Y]]#0
kerf.model @other_third(tokens %tokens: tensor<2xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x4xf32>
  %w0 = kerf.param "h.0.w" init<normal, 1.0> : tensor<4x4xf32>
  %w1 = kerf.param "h.1.w" init<normal, 1.0> : tensor<4x4xf32>
  %w2 = kerf.param "h.2.w" init<normal, 1.0> : tensor<4x4xf32>
  %x = kerf.embedding %tokens, %e : tensor<2xi32>, tensor<8x4xf32>
  %a0 = kerf.linear %x, %w0 : tensor<2x4xf32>, tensor<4x4xf32>
  %y0 = kerf.add %a0, %x : tensor<2x4xf32>
  %a1 = kerf.linear %y0, %w1 : tensor<2x4xf32>, tensor<4x4xf32>
  %y1 = kerf.add %a1, %x : tensor<2x4xf32>
  %a2 = kerf.linear %y1, %w2 : tensor<2x4xf32>, tensor<4x4xf32>
  %y2 = kerf.add %a2, %y1 : tensor<2x4xf32>
  %loss = kerf.reduce sum %y2 dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Layers that groups name one by one stay in a group, under the loop's name.
// TOLD: remark: rolled layers h.0 to 2
// CHECK-LABEL: @named_groups
// CHECK: groups = [#kerf.group<match = "h.{i}.w", weight_decay = 0.5>, #kerf.group<match = "h.0.w"
// CHECK: kerf.repeat
kerf.model @named_groups(tokens %tokens: tensor<2xi32>) attributes {optimizer = #kerf.sgd<>, groups = [#kerf.group<match = "h.0.w", weight_decay = 0.5>, #kerf.group<match = "h.1.w", weight_decay = 0.5>, #kerf.group<match = "h.2.w", weight_decay = 0.5>]} {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x4xf32>
  %w0 = kerf.param "h.0.w" init<normal, 1.0> : tensor<4x4xf32>
  %w1 = kerf.param "h.1.w" init<normal, 1.0> : tensor<4x4xf32>
  %w2 = kerf.param "h.2.w" init<normal, 1.0> : tensor<4x4xf32>
  %y = kerf.embedding %tokens, %e : tensor<2xi32>, tensor<8x4xf32>
  %y0 = kerf.linear %y, %w0 : tensor<2x4xf32>, tensor<4x4xf32>
  %y1 = kerf.linear %y0, %w1 : tensor<2x4xf32>, tensor<4x4xf32>
  %y2 = kerf.linear %y1, %w2 : tensor<2x4xf32>, tensor<4x4xf32>
  %loss = kerf.reduce sum %y2 dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Layers with rules of their own are no loop: the first two are one here.
// TOLD: remark: rolled layers h.0 to 1
// CHECK-LABEL: @own_rule
// CHECK: groups = [#kerf.group<match = "h.2.*", weight_decay = 0.0, rate_scale = 2.0>, #kerf.group<match = "h.*"
// CHECK: kerf.param "h.2.w"
// CHECK: kerf.repeat %{{.*}} = 0 to 2
kerf.model @own_rule(tokens %tokens: tensor<2xi32>) attributes {optimizer = #kerf.sgd<>, groups = [#kerf.group<match = "h.2.*", weight_decay = 0.0, rate_scale = 2.0>, #kerf.group<match = "h.*", weight_decay = 0.5>]} {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x4xf32>
  %w0 = kerf.param "h.0.w" init<normal, 1.0> : tensor<4x4xf32>
  %w1 = kerf.param "h.1.w" init<normal, 1.0> : tensor<4x4xf32>
  %w2 = kerf.param "h.2.w" init<normal, 1.0> : tensor<4x4xf32>
  %y = kerf.embedding %tokens, %e : tensor<2xi32>, tensor<8x4xf32>
  %y0 = kerf.linear %y, %w0 : tensor<2x4xf32>, tensor<4x4xf32>
  %y1 = kerf.linear %y0, %w1 : tensor<2x4xf32>, tensor<4x4xf32>
  %y2 = kerf.linear %y1, %w2 : tensor<2x4xf32>, tensor<4x4xf32>
  %loss = kerf.reduce sum %y2 dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// What is summed over layers behind them is handed on by layers, from 0 on.
// CHECK-LABEL: @tails
// CHECK-DAG: %[[ZERO:.*]] = kerf.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK: %[[R:.*]]:2 = kerf.repeat %{{.*}} = 0 to 3 (%[[X:.*]] = %{{.*}} : tensor<4x4xf32>, %[[SUM:.*]] = %[[ZERO]] : tensor<4xf32>) {
// CHECK: %[[Y:.*]] = kerf.linear %[[X]]
// CHECK: %[[NEXT:.*]] = kerf.add %[[X]], %[[Y]]
// CHECK: %[[ROWS:.*]] = kerf.reduce sum %[[Y]] dims [1]
// CHECK: %[[SUMS:.*]] = kerf.add %[[SUM]], %[[ROWS]]
// CHECK: kerf.yield %[[NEXT]], %[[SUMS]]
// CHECK: kerf.reduce sum %[[R]]#1
kerf.model @tails() {
  %x0 = kerf.param "x" init<normal, 1.0> : tensor<4x4xf32>
  %w0 = kerf.param "h.0.w" init<normal, 1.0> : tensor<4x4xf32>
  %y0 = kerf.linear %x0, %w0 : tensor<4x4xf32>, tensor<4x4xf32>
  %x1 = kerf.add %x0, %y0 : tensor<4x4xf32>
  %w1 = kerf.param "h.1.w" init<normal, 1.0> : tensor<4x4xf32>
  %y1 = kerf.linear %x1, %w1 : tensor<4x4xf32>, tensor<4x4xf32>
  %x2 = kerf.add %x1, %y1 : tensor<4x4xf32>
  %w2 = kerf.param "h.2.w" init<normal, 1.0> : tensor<4x4xf32>
  %y2 = kerf.linear %x2, %w2 : tensor<4x4xf32>, tensor<4x4xf32>
  %x3 = kerf.add %x2, %y2 : tensor<4x4xf32>
  %z = kerf.reduce sum %x3 dims [0, 1] : tensor<4x4xf32>
  %s0 = kerf.reduce sum %y0 dims [1] : tensor<4x4xf32>
  %s1 = kerf.reduce sum %y1 dims [1] : tensor<4x4xf32>
  %t1 = kerf.add %s0, %s1 : tensor<4xf32>
  %s2 = kerf.reduce sum %y2 dims [1] : tensor<4x4xf32>
  %t2 = kerf.add %t1, %s2 : tensor<4xf32>
  %t = kerf.reduce sum %t2 dims [0] : tensor<4xf32>
  %loss = kerf.add %z, %t : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// A sum of some layers' values alone is none of all layers: they stay flat.
// CHECK-LABEL: @some
// CHECK-NOT: kerf.repeat
kerf.model @some() {
  %x0 = kerf.param "x" init<normal, 1.0> : tensor<4x4xf32>
  %w0 = kerf.param "h.0.w" init<normal, 1.0> : tensor<4x4xf32>
  %y0 = kerf.linear %x0, %w0 : tensor<4x4xf32>, tensor<4x4xf32>
  %x1 = kerf.add %x0, %y0 : tensor<4x4xf32>
  %w1 = kerf.param "h.1.w" init<normal, 1.0> : tensor<4x4xf32>
  %y1 = kerf.linear %x1, %w1 : tensor<4x4xf32>, tensor<4x4xf32>
  %x2 = kerf.add %x1, %y1 : tensor<4x4xf32>
  %w2 = kerf.param "h.2.w" init<normal, 1.0> : tensor<4x4xf32>
  %y2 = kerf.linear %x2, %w2 : tensor<4x4xf32>, tensor<4x4xf32>
  %x3 = kerf.add %x2, %y2 : tensor<4x4xf32>
  %z = kerf.reduce sum %x3 dims [0, 1] : tensor<4x4xf32>
  %s0 = kerf.reduce sum %y0 dims [0, 1] : tensor<4x4xf32>
  %s1 = kerf.reduce sum %y1 dims [0, 1] : tensor<4x4xf32>
  %t = kerf.mul %s0, %s1 : tensor<f32>
  %loss = kerf.add %z, %t : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// Two kinds of layers one after the other are two loops, and one before them a loop of its own.
// TOLD: remark: rolled layers h.1 to 2, h.3 to 5
// CHECK-LABEL: @kinds
// CHECK: kerf.repeat %{{.*}} = 0 to 1 (%[[X:.*]] = %{{.*}} : tensor<4x4xf32>)
// CHECK: kerf.tanh
// CHECK: kerf.repeat %{{.*}} = 1 to 3 (
// CHECK: kerf.exp
// CHECK: kerf.repeat %{{.*}} = 3 to 6 (
// CHECK: kerf.neg
kerf.model @kinds() {
  %x0 = kerf.param "x" init<normal, 1.0> : tensor<4x4xf32>
  %y0 = kerf.exp %x0 : tensor<4x4xf32>
  %w0 = kerf.param "h.0.w" init<normal, 1.0> : tensor<4x4xf32>
  %l0 = kerf.linear %y0, %w0 : tensor<4x4xf32>, tensor<4x4xf32>
  %y1 = kerf.tanh %l0 : tensor<4x4xf32>
  %w1 = kerf.param "h.1.w" init<normal, 1.0> : tensor<4x4xf32>
  %l1 = kerf.linear %y1, %w1 : tensor<4x4xf32>, tensor<4x4xf32>
  %y2 = kerf.exp %l1 : tensor<4x4xf32>
  %w2 = kerf.param "h.2.w" init<normal, 1.0> : tensor<4x4xf32>
  %l2 = kerf.linear %y2, %w2 : tensor<4x4xf32>, tensor<4x4xf32>
  %y3 = kerf.exp %l2 : tensor<4x4xf32>
  %w3 = kerf.param "h.3.w" init<normal, 1.0> : tensor<4x4xf32>
  %l3 = kerf.linear %y3, %w3 : tensor<4x4xf32>, tensor<4x4xf32>
  %y4 = kerf.neg %l3 : tensor<4x4xf32>
  %w4 = kerf.param "h.4.w" init<normal, 1.0> : tensor<4x4xf32>
  %l4 = kerf.linear %y4, %w4 : tensor<4x4xf32>, tensor<4x4xf32>
  %y5 = kerf.neg %l4 : tensor<4x4xf32>
  %w5 = kerf.param "h.5.w" init<normal, 1.0> : tensor<4x4xf32>
  %l5 = kerf.linear %y5, %w5 : tensor<4x4xf32>, tensor<4x4xf32>
  %y6 = kerf.neg %l5 : tensor<4x4xf32>
  %loss = kerf.reduce sum %y6 dims [0, 1] : tensor<4x4xf32>
  kerf.return %loss : tensor<f32>
}
