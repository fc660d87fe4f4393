// RUN: kerf-opt %s --kerf-split-shard-axis --split-input-file | FileCheck %s

// The inner part of the axis that a group of 2 ends in has an axis of its own, and
// ops that are cut along the whole are cut along both.

// CHECK-LABEL: kerf.model @split
// CHECK: mesh = <dp = 4, dp.shard = 2, tp = 2>
// CHECK: kerf.exp {{.*}}b = [dp, dp.shard]
kerf.model @split(%x: tensor<16xf32>) attributes {
    plan = #kerf.plan<mesh = <dp = 8, tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, zero = 2, shard_group = 2>} {
  %e = kerf.exp %x {kerf.assign = #kerf.assign<b = [dp]>} : tensor<16xf32>
  %s = kerf.reduce sum %e dims [0] : tensor<16xf32>
  kerf.return %s : tensor<f32>
}

// -----

// A group of whole axes, and no group: nothing changes.

// CHECK-LABEL: kerf.model @whole
// CHECK: mesh = <dp = 4, cp = 2>
kerf.model @whole(%x: tensor<16xf32>) attributes {
    plan = #kerf.plan<mesh = <dp = 4, cp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, zero = 2, shard_group = 2>} {
  %s = kerf.reduce sum %x dims [0] : tensor<16xf32>
  kerf.return %s : tensor<f32>
}
