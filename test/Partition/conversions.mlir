// RUN: kerf-opt --split-input-file --kerf-partition --kerf-verify-partitioned %s | FileCheck %s

// Each kind of step between two layouts.

// From a dimension to another one: an exchange.
// CHECK-LABEL: spmd.program @exchange
// CHECK:         %[[A:.*]] = kerf.exp {{.*}} : tensor<2x4xf32>
// CHECK:         %[[B:.*]] = spmd.all_to_all %[[A]] split 1 concat 0 over [tp] : tensor<2x4xf32> -> tensor<4x2xf32>
// CHECK:         kerf.neg %[[B]]
kerf.model @exchange(%x: tensor<4x4xf32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %a = kerf.exp %x {kerf.assign = #kerf.assign<b = [tp]>} : tensor<4x4xf32>
  %b = kerf.neg %a {kerf.assign = #kerf.assign<s = [tp]>} : tensor<4x4xf32>
  %s = kerf.reduce sum %b dims [0, 1] {kerf.assign = #kerf.assign<s = [tp]>} : tensor<4x4xf32>
  kerf.return %s : tensor<f32>
}

// -----

// Of two axes the faster one goes: gathered alone. A whole value is cut at no cost,
// once for both of its readers.
// CHECK-LABEL: spmd.program @gather
// CHECK:         %[[A:.*]] = kerf.exp {{.*}} : tensor<2xf32>
// CHECK:         %[[G:.*]] = spmd.all_gather %[[A]] dim 0 over [tp] : tensor<2xf32> -> tensor<4xf32>
// CHECK:         %[[N:.*]] = kerf.neg %[[G]]
// CHECK:         %[[W:.*]] = spmd.all_gather %[[N]] dim 0 over [dp] : tensor<4xf32> -> tensor<8xf32>
// CHECK:         %[[H:.*]] = kerf.exp %[[W]] : tensor<8xf32>
// CHECK:         %[[O:.*]] = spmd.slice_own %[[H]] dim 0 over [tp] : tensor<8xf32> -> tensor<4xf32>
// CHECK:         kerf.tanh %[[O]]
// CHECK-NOT:     spmd.slice_own
// CHECK:         kerf.neg %[[O]]
kerf.model @gather(%x: tensor<8xf32>) attributes {
    plan = #kerf.plan<mesh = <dp = 2, tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %a = kerf.exp %x {kerf.assign = #kerf.assign<b = [dp, tp]>} : tensor<8xf32>
  %b = kerf.neg %a {kerf.assign = #kerf.assign<b = [dp]>} : tensor<8xf32>
  %c = kerf.exp %b : tensor<8xf32>
  %d = kerf.tanh %c {kerf.assign = #kerf.assign<b = [tp]>} : tensor<8xf32>
  %e = kerf.neg %c {kerf.assign = #kerf.assign<b = [tp]>} : tensor<8xf32>
  %p = kerf.mul %d, %e {kerf.assign = #kerf.assign<b = [tp]>} : tensor<8xf32>
  %s = kerf.reduce sum %p dims [0] {kerf.assign = #kerf.assign<b = [tp]>} : tensor<8xf32>
  kerf.return %s : tensor<f32>
}

// -----

// Maxima too; axes of one rank cut nothing.
// CHECK-LABEL: spmd.program @maximum
// CHECK:         %[[M:.*]] = kerf.reduce max %{{.*}} dims [0] : tensor<4x4xf32>
// CHECK:         spmd.all_reduce max %[[M]] over [tp] : tensor<4xf32>
// CHECK-NOT:     over [pp
kerf.model @maximum(%x: tensor<8x4xf32>) attributes {
    plan = #kerf.plan<mesh = <pp = 1, tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %m = kerf.reduce max %x dims [0] {kerf.assign = #kerf.assign<b = [pp, tp]>} : tensor<8x4xf32>
  %s = kerf.reduce sum %m dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}

// -----

// What does not change in a repeat is converted before it.
// CHECK-LABEL: spmd.program @outside
// CHECK:         %[[A:.*]] = kerf.exp
// CHECK:         %[[G:.*]] = spmd.all_gather %[[A]]
// CHECK:         kerf.repeat
// CHECK-NOT:       spmd.all_gather
// CHECK:           kerf.mul %{{.*}}, %[[G]]
kerf.model @outside(%x: tensor<8xf32>, %h0: tensor<8xf32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %a = kerf.exp %x {kerf.assign = #kerf.assign<b = [tp]>} : tensor<8xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %h0 : tensor<8xf32>) {
    %n = kerf.mul %h, %a : tensor<8xf32>
    kerf.yield %n : tensor<8xf32>
  }
  %s = kerf.reduce sum %y dims [0] : tensor<8xf32>
  kerf.return %s : tensor<f32>
}

// -----

// A carried sum that begins as zero may stay a sum of parts.
// CHECK-LABEL: spmd.program @carried_sum
// CHECK:         kerf.repeat
// CHECK-NOT:       spmd.all_reduce
// CHECK:           kerf.add
// CHECK:         spmd.all_reduce sum %{{.*}} over [tp] : tensor<f32>
kerf.model @carried_sum(%x: tensor<8xf32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %z = kerf.constant dense<0.0> : tensor<f32>
  %y = kerf.repeat %i = 0 to 3 (%h = %z : tensor<f32>) {
    %s = kerf.reduce sum %x dims [0] {kerf.assign = #kerf.assign<b = [tp]>} : tensor<8xf32>
    %n = kerf.add %h, %s {kerf.assign = #kerf.assign<pending = [tp]>} : tensor<f32>
    kerf.yield %n : tensor<f32>
  }
  kerf.return %y : tensor<f32>
}

// -----

// Parts that do not lie in the order of the mesh are gathered axis by axis.
// CHECK-LABEL: spmd.program @other_order
// CHECK:         %[[A:.*]] = kerf.exp {{.*}} : tensor<2xf32>
// CHECK:         %[[G:.*]] = spmd.all_gather %[[A]] dim 0 over [dp] : tensor<2xf32> -> tensor<4xf32>
// CHECK:         spmd.all_gather %[[G]] dim 0 over [tp] : tensor<4xf32> -> tensor<8xf32>
kerf.model @other_order(%x: tensor<8xf32>) attributes {
    plan = #kerf.plan<mesh = <dp = 2, tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %a = kerf.exp %x {kerf.assign = #kerf.assign<b = [tp, dp]>} : tensor<8xf32>
  %s = kerf.reduce sum %a dims [0] : tensor<8xf32>
  kerf.return %s : tensor<f32>
}
