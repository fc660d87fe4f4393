// RUN: kerf-opt %s --allow-unregistered-dialect | kerf-opt --allow-unregistered-dialect | FileCheck %s
// RUN: kerf-opt %s --allow-unregistered-dialect --mlir-print-op-generic | kerf-opt --allow-unregistered-dialect | FileCheck %s

// CHECK: plan = #kerf.plan<mesh = <dp = 2, tp = 4>, micro_batches = 2, schedule = "1f1b", recompute = none>
kerf.model @none(%x: tensor<8x4xf32>) attributes {
    plan = #kerf.plan<mesh = <dp = 2, tp = 4>, micro_batches = 2, schedule = "1f1b", recompute = none>} {
  // CHECK: kerf.assign = #kerf.assign<b = [dp, micro], s = [tp]>
  %y = kerf.exp %x {kerf.assign = #kerf.assign<b = [dp, micro], s = [tp]>} : tensor<8x4xf32>
  // CHECK: kerf.assign = #kerf.assign<b = [dp], pending = [tp, micro]>
  %n = kerf.neg %y {kerf.assign = #kerf.assign<b = [dp], pending = [tp, micro]>} : tensor<8x4xf32>
  // CHECK: kerf.assign = #kerf.assign<pending = [tp]>
  %m = kerf.neg %n {kerf.assign = #kerf.assign<pending = [tp]>} : tensor<8x4xf32>
  // CHECK: kerf.assign = #kerf.assign<>
  %s = kerf.reduce sum %m dims [0, 1] {kerf.assign = #kerf.assign<>} : tensor<8x4xf32>
  kerf.return %s : tensor<f32>
}

// CHECK: plan = #kerf.plan<mesh = <>, micro_batches = 1, schedule = "gpipe", recompute = full>
kerf.model @full(%x: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <>, micro_batches = 1, schedule = "gpipe", recompute = full>} {
  kerf.return %x : tensor<f32>
}

// CHECK: plan = #kerf.plan<mesh = <"my axis" = 2>, micro_batches = 1, schedule = "1f1b", recompute = [3, 7]>
kerf.model @listed(%x: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <"my axis" = 2>, micro_batches = 1, schedule = "1f1b", recompute = [3, 7]>} {
  kerf.return %x : tensor<f32>
}

// CHECK: plan = #kerf.plan<mesh = <pp = 2, dp = 2>, micro_batches = 4, schedule = "interleaved", recompute = [3], chunks = 2, zero = 3, shard_group = 2,
// CHECK-SAME: stages = {{\[\[}}embedding x 1, layer x 3], [layer x 4], ["my kind" x 1], [layer x 2 recompute [], head x 1]]>
kerf.model @staged(%x: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <pp = 2, dp = 2>, micro_batches = 4, schedule = "interleaved", recompute = [3],
                      zero = 3, shard_group = 2, chunks = 2,
                      stages = [[embedding x 1, layer x 3], [layer x 4], ["my kind" x 1], [layer x 2 recompute [], head x 1]]>} {
  // CHECK: kerf.constant {kerf.assign = #kerf.assign<v = [tp], pending = [dp], variant = [split_vocabulary]>}
  %c = kerf.constant {kerf.assign = #kerf.assign<v = [tp], pending = [dp], variant = [split_vocabulary]>} dense<1.0> : tensor<f32>
  kerf.return %x : tensor<f32>
}

// CHECK: plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 4, schedule = "zb-h1", recompute = none, defer = 0, zero = 1>
kerf.model @deferring(%x: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 4, schedule = "zb-h1", recompute = none, zero = 1, defer = 0>} {
  kerf.return %x : tensor<f32>
}

// CHECK: plan = #kerf.plan<mesh = <ep = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, moe_buffer = 1.25>
kerf.model @exchanging(%x: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <ep = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, moe_buffer = 1.25>} {
  kerf.return %x : tensor<f32>
}

// CHECK: ways = #kerf.assign<n = [tp], blocks = 3, routed>
"test.use"() {ways = #kerf.assign<routed, n = [tp], blocks = 3>} : () -> ()

// CHECK: runs = #kerf.layers<layer x 2 recompute [1]>
"test.use"() {runs = #kerf.layers<layer x 2 recompute [1]>} : () -> ()
