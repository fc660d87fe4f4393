// RUN: kerf-opt --kerf-differentiate --kerf-split-weight-gradient --split-input-file %s | FileCheck %s
// RUN: kerf-opt --kerf-differentiate --kerf-recompute-views --kerf-split-weight-gradient --split-input-file %s | FileCheck %s --check-prefix=VIEWS

// A training step computes the same, also cut and with bf16.
// RUN: kerf-opt --kerf-differentiate %S/Inputs/decoder.mlir -o %t.step.mlir
// RUN: kerf-inspect interpret %t.step.mlir --steps=4 --compute=f64 > %t.whole
// RUN: kerf-opt --kerf-split-weight-gradient --kerf-verify-differentiated %t.step.mlir -o %t.split.mlir
// RUN: kerf-inspect interpret %t.split.mlir --steps=4 --compute=f64 | diff %t.whole -
// RUN: kerf-opt --kerf-split-weight-gradient --kerf-split-repeat=at=2 --kerf-verify-differentiated %t.step.mlir \
// RUN:   | kerf-inspect interpret - --steps=4 --compute=f64 | diff %t.whole -
// RUN: kerf-opt --kerf-split-repeat=at=2 --kerf-split-weight-gradient --kerf-verify-differentiated %t.step.mlir \
// RUN:   | kerf-inspect interpret - --steps=4 --compute=f64 | diff %t.whole -
// RUN: kerf-opt --kerf-precision=policy=bf16 %t.step.mlir -o %t.bf16.mlir
// RUN: kerf-inspect interpret %t.bf16.mlir --steps=4 > %t.bf16
// RUN: kerf-opt --kerf-split-weight-gradient --kerf-verify-precision %t.bf16.mlir \
// RUN:   | kerf-inspect interpret - --steps=4 | diff %t.bf16 -

// Without a backward pass there is nothing to move.
// RUN: kerf-opt --kerf-split-weight-gradient %S/Inputs/decoder.mlir -o %t.forward.mlir
// RUN: kerf-opt %S/Inputs/decoder.mlir | diff %t.forward.mlir -

// The first repeat carries the input gradient and stacks it; the second one, without
// carried values, reads that stack and the activations.

// CHECK-LABEL: kerf.model @mlp
// CHECK: %[[F:.*]]:3 = kerf.repeat %{{.*}} = 0 to 3
// CHECK: %[[I:.*]]:2 = kerf.repeat reverse %{{.*}} = 0 to 3 (%[[DY:.*]] = %{{.*}} : tensor<2x4xf32>) slices(%[[A:.*]] = %[[F]]#1 : tensor<3x2x4xf32>) pair [[PAIR:[0-9]+]]
// CHECK-SAME: #kerf.phase<input_gradient
// CHECK-DAG: %[[W:.*]] = kerf.param "h.{i}.w"
// CHECK-DAG: %[[DU:.*]] = kerf.silu_backward %[[A]], %[[DY]]
// CHECK: %[[DX:.*]] = kerf.einsum "bn,nk->bk" %[[DU]], %[[W]]
// CHECK-NEXT: kerf.yield %[[DX]] stack(%[[DU]])
// CHECK: %[[G:.*]] = kerf.repeat reverse %{{.*}} = 0 to 3 () slices(%[[H:.*]] = %[[F]]#2 : tensor<3x2x4xf32>, %[[D:.*]] = %[[I]]#1 : tensor<3x2x4xf32>) pair [[PAIR]]
// CHECK-SAME: #kerf.phase<weight_gradient
// CHECK: %[[DW:.*]] = kerf.einsum "bn,bk->nk" %[[D]], %[[H]]
// CHECK-NEXT: kerf.yield stack(%[[DW]])
// CHECK: kerf.update "h.{i}.w"[0 to 3] rule #kerf.sgd<> by %[[G]]
// CHECK: kerf.update "x" rule #kerf.sgd<> by %[[I]]#0
kerf.model @mlp() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x4xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x4xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<4x4xf32>
    %0 = kerf.linear %h, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = kerf.silu %0 : tensor<2x4xf32>
    kerf.yield %1 : tensor<2x4xf32>
  }
  %loss = kerf.reduce sum %y dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Layers without parameters have no weight gradient to move.

// CHECK-LABEL: kerf.model @no_parameters
// CHECK: kerf.repeat reverse
// CHECK-NOT: kerf.repeat
kerf.model @no_parameters() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<4xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<4xf32>) {
    %n = kerf.silu %h : tensor<4xf32>
    kerf.yield %n : tensor<4xf32>
  }
  %loss = kerf.reduce sum %y dims [0] : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Matmuls are deferred, and what reads nothing but their factors: the sum over
// rows that is a bias' gradient. The norm's weight gradient would keep two more
// tensors: it stays.

// CHECK-LABEL: kerf.model @norm
// CHECK: %[[F:.*]]:4 = kerf.repeat
// CHECK: %[[I:.*]]:3 = kerf.repeat reverse
// CHECK: %[[DU:.*]] = kerf.reshape
// CHECK: kerf.reshape
// CHECK: kerf.rms_norm_backward
// CHECK: %[[DG:.*]] = kerf.rms_norm_weight_gradient
// CHECK-NEXT: kerf.yield {{.*}} stack(%[[DG]],
// CHECK: kerf.repeat reverse %{{.*}} = 0 to 3 () slices(%[[N:.*]] = %[[F]]#2 : tensor<3x2x3x4xf32>, %[[D:.*]] = %[[I]]#2 : tensor<3x2x3x4xf32>)
// CHECK-NEXT: %[[DW:.*]] = kerf.einsum "bsn,bsk->nk" %[[D]], %[[N]]
// CHECK-NEXT: %[[DB:.*]] = kerf.reduce sum %[[D]] dims [0, 1]
// CHECK-NEXT: kerf.yield stack(%[[DW]], %[[DB]])
kerf.model @norm() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x4xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x3x4xf32>) {
    %g = kerf.param "h.{i}.g" init<ones> : tensor<4xf32>
    %n = kerf.rms_norm %h, %g : tensor<2x3x4xf32>, tensor<4xf32>
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<4x4xf32>
    %b = kerf.param "h.{i}.b" init<zeros> : tensor<4xf32>
    %0 = kerf.linear %n, %w bias %b : tensor<2x3x4xf32>, tensor<4x4xf32>, tensor<4xf32>
    %1 = kerf.reshape %0 : tensor<2x3x4xf32> -> tensor<2x3x2x2xf32>
    %2 = kerf.silu %1 : tensor<2x3x2x2xf32>
    %3 = kerf.reshape %2 : tensor<2x3x2x2xf32> -> tensor<2x3x4xf32>
    kerf.yield %3 : tensor<2x3x4xf32>
  }
  %loss = kerf.reduce sum %y dims [0, 1, 2] : tensor<2x3x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A view of what the forward pass has kept is recomputed, not handed over.

// VIEWS-LABEL: kerf.model @heads
// VIEWS: kerf.repeat reverse
// VIEWS: kerf.repeat reverse %{{.*}} () slices(%[[K:.*]] = %{{.*}} : tensor<3x2x3x2x2xf32>, %[[D:.*]] = %{{.*}} : tensor<3x2x3x4xf32>)
// VIEWS-NEXT: %[[V:.*]] = kerf.reshape %[[K]]
// VIEWS-NEXT: kerf.einsum "bsn,bsk->nk" %[[D]], %[[V]]
kerf.model @heads() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x4xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x3x4xf32>) {
    %0 = kerf.reshape %h : tensor<2x3x4xf32> -> tensor<2x3x2x2xf32>
    %1 = kerf.exp %0 : tensor<2x3x2x2xf32>
    %2 = kerf.reshape %1 : tensor<2x3x2x2xf32> -> tensor<2x3x4xf32>
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<4x4xf32>
    %3 = kerf.linear %2, %w : tensor<2x3x4xf32>, tensor<4x4xf32>
    kerf.yield %3 : tensor<2x3x4xf32>
  }
  %loss = kerf.reduce sum %y dims [0, 1, 2] : tensor<2x3x4xf32>
  kerf.return %loss : tensor<f32>
}
