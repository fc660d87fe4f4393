// RUN: kerfc %S/Inputs/mlp.mlir --plan=%S/Inputs/megatron.json --stop-after=plan -o %t.plan.mlir
// RUN: FileCheck %s --check-prefix=STEP < %t.plan.mlir
// RUN: kerf-opt --split-input-file --kerf-propagate-plan %s | FileCheck %s

// Three rules make a Megatron block with sequence parallelism: parameters rest as
// the matmuls use them, the norm and the residual stay cut by rows, and the
// backward pass follows.
// STEP:       kerf.param "wte" {{.*}} {kerf.assign = #kerf.assign<>,
// STEP:       kerf.param "h.{i}.up" {{.*}} {kerf.assign = #kerf.assign<b = [tp]>,
// STEP:       kerf.param "h.{i}.down" {{.*}} {kerf.assign = #kerf.assign<s = [tp]>,
// STEP:       kerf.rms_norm {{.*}}#kerf.assign<b = [dp, micro], s = [tp]>,
// STEP:       kerf.gelu {{.*}}#kerf.assign<b = [dp, micro], x = [tp]>,
// STEP:       kerf.add {{.*}}#kerf.assign<b = [dp, micro], s = [tp]>, kerf.phase = #kerf.phase<forward 10>
// STEP:       kerf.linear {{.*}}#kerf.assign<b = [dp, micro], s = [tp]>, kerf.phase = #kerf.phase<forward 12>
// The count of targets is one of the whole batch: not cut by micro-batches.
// STEP:       kerf.count_valid {{.*}}#kerf.assign<b = [dp], s = [tp]>
// STEP:       kerf.repeat reverse
// STEP:       kerf.einsum "bsn,nk->bsk" {{.*}}b = [dp, micro], k = [tp]>, kerf.phase = #kerf.phase<input_gradient 9>
// STEP:       kerf.einsum "bsn,bsk->nk" {{.*}}b = [dp, micro], k = [tp]>, kerf.phase = #kerf.phase<weight_gradient 9>
// STEP:       kerf.rms_norm_backward {{.*}}b = [dp, micro], s = [tp]>
// Sums of the whole batch wait: the tied gradients are added before the reduction.
// STEP:       kerf.add {{.*}}#kerf.assign<pending = [dp, tp, micro]>, kerf.phase = #kerf.phase<weight_gradient 1>
// STEP:       kerf.global_norm {{.*}}#kerf.assign<g1_1 = [tp], g2_2 = [tp]>
// STEP:       kerf.update "h.{i}.up"[0 to 2] {{.*}}#kerf.assign<g1 = [tp]>

// A model without a plan gets the trivial one, and nothing is cut.
// CHECK-LABEL: kerf.model @trivial
// CHECK-SAME:  plan = #kerf.plan<mesh = <>, micro_batches = 1, schedule = "1f1b", recompute = none>
kerf.model @trivial(%x: tensor<4xf32>) {
  // CHECK: kerf.exp %{{.*}} {kerf.assign = #kerf.assign<>}
  %e = kerf.exp %x : tensor<4xf32>
  %s = kerf.reduce sum %e dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}

// -----

// A pending sum is scattered onto the dimension that its reader's other operand is
// cut in, here behind an op.
// CHECK-LABEL: kerf.model @look_ahead
kerf.model @look_ahead(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %r: tensor<8x6xf32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %a = kerf.exp %r {kerf.assign = #kerf.assign<b = [tp]>} : tensor<8x6xf32>
  %p = kerf.einsum "bk,kn->bn" %x, %w {kerf.assign = #kerf.assign<k = [tp]>} : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  // CHECK: kerf.neg %{{.*}} {kerf.assign = #kerf.assign<b = [tp]>}
  %n = kerf.neg %p : tensor<8x6xf32>
  // CHECK: kerf.mul %{{.*}} {kerf.assign = #kerf.assign<b = [tp]>}
  %y = kerf.mul %n, %a : tensor<8x6xf32>
  %s = kerf.reduce sum %y dims [0, 1] : tensor<8x6xf32>
  kerf.return %s : tensor<f32>
}

// -----

// What an op reads only to combine it with another value is split by the same axes in
// the same order: micro-batches of it could not be gathered.
// CHECK-LABEL: kerf.model @same_order
kerf.model @same_order(%x: tensor<8x4xf32>) attributes {
    plan = #kerf.plan<mesh = <ep = 2>, micro_batches = 2, schedule = "1f1b", recompute = none>} {
  %a = kerf.exp %x {kerf.assign = #kerf.assign<b = [micro, ep]>} : tensor<8x4xf32>
  %c = kerf.constant dense<2.0> : tensor<8x4xbf16>
  // CHECK: kerf.cast %{{.*}} {kerf.assign = #kerf.assign<b = [micro, ep]>}
  %d = kerf.cast %c : tensor<8x4xbf16> -> tensor<8x4xf32>
  // CHECK: kerf.mul %{{.*}} {kerf.assign = #kerf.assign<b = [micro, ep]>}
  %y = kerf.mul %a, %d : tensor<8x4xf32>
  %s = kerf.reduce sum %y dims [0, 1] : tensor<8x4xf32>
  kerf.return %s : tensor<f32>
}
