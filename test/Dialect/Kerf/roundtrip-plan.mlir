// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt %s --mlir-print-op-generic | kerf-opt | FileCheck %s

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
