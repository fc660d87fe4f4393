// RUN: kerfc %s --stop-after=partition | FileCheck %s

// One rank: no collective, no offset; without a repeat the backward function begins
// with the gradients. An evaluation has no dropout and keeps no log-sum-exp.

// CHECK-LABEL: spmd.program @attend over <> micro_batches 1 slots 1
// CHECK-NOT:   spmd.all_
// CHECK-NOT:   spmd.offset
// CHECK-LABEL: spmd.func @forward
// CHECK:         kerf.dropout
// CHECK:         kerf.attention {{.*}}dropout{{.*}} lse
// CHECK:         kerf.reduce
// CHECK-LABEL: spmd.func @backward
// CHECK-NOT:     kerf.reduce
// CHECK:         kerf.attention_backward
// CHECK-LABEL: spmd.func @update
// CHECK:         kerf.update "w"
// CHECK-LABEL: spmd.func @evaluate
// CHECK-NOT:     kerf.dropout
// CHECK:         kerf.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} causal {{[{]|:}}
// CHECK:         spmd.write %{{.*}} to @loss
kerf.model @attend(%x: tensor<2x4x2x4xf32>, seed %seed: tensor<i32>, step %step: tensor<i32>)
    attributes {optimizer = #kerf.sgd<>} {
  %w = kerf.param "w" init<normal, 0.02> : tensor<2x4x2x4xf32>
  %p = kerf.mul %x, %w : tensor<2x4x2x4xf32>
  %d = kerf.dropout %p rate 0.1 "drop" seed %seed step %step : tensor<2x4x2x4xf32>
  %a = kerf.attention %d, %d, %d causal dropout 0.1 "attn" seed %seed step %step : tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>
  %s = kerf.reduce sum %a dims [0, 1, 2, 3] : tensor<2x4x2x4xf32>
  kerf.return %s : tensor<f32>
}
