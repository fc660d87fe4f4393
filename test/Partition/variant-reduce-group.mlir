// RUN: kerf-opt --kerf-partition --kerf-verify-partitioned %s | FileCheck %s

// Two groups of two sequences whose tokens are cut: each rank counts its own
// choices and sums its own probabilities; the loss has those of all.
// CHECK-LABEL: spmd.program @balance
// CHECK:       spmd.func @prologue
// CHECK:         %[[P:.*]] = kerf.softmax {{.*}} : tensor<4x4x4xf32>
// CHECK:         %[[COUNT:.*]] = kerf.reduce sum %{{.*}} dims [1, 2]
// CHECK:         spmd.all_reduce sum %[[COUNT]] over [sp] : tensor<2x4xf32>
// CHECK:         %[[SUM:.*]] = kerf.reduce sum %{{.*}} dims [1] : tensor<2x8x4xf32>
// CHECK:         spmd.all_reduce sum %[[SUM]] over [sp] : tensor<2x4xf32>
// CHECK-NOT:     spmd.all_reduce
// CHECK:       spmd.return
kerf.model @balance(%x: tensor<4x8x4xf32>) attributes {
    plan = #kerf.plan<mesh = <sp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %l = kerf.exp %x {kerf.assign = #kerf.assign<s = [sp]>} : tensor<4x8x4xf32>
  %w, %e = kerf.route %l k 2 {kerf.assign = #kerf.assign<s = [sp]>} : tensor<4x8x4xf32>
  %b = kerf.load_balance_loss %l, %e group 2 {kerf.assign = #kerf.assign<s = [sp], variant = [reduce_group]>} : tensor<4x8x4xf32>, tensor<4x8x2xi32>
  kerf.return %b : tensor<f32>
}
