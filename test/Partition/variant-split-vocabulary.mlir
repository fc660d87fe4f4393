// RUN: kerf-opt --kerf-partition --kerf-verify-partitioned %s | FileCheck %s

// Each rank knows half of the vocabulary, from its first entry on. The maximum
// is one message, the sum of exponentials and the target's logit are another.
// CHECK-LABEL: spmd.program @loss
// CHECK:       spmd.func @prologue
// CHECK-DAG:     %[[AT:.*]] = spmd.offset [tp * 8]
// CHECK:         %[[X:.*]] = kerf.exp {{.*}} : tensor<4x8xf32>
// CHECK:         %[[M:.*]] = kerf.reduce max %[[X]] dims [1]
// CHECK:         spmd.all_reduce max %[[M]] over [tp] : tensor<4xf32>
// CHECK:         kerf.iota dim 1 offset %[[AT]] : tensor<4x8xi32>
// CHECK:         %[[BOTH:.*]] = kerf.concat dim 0 {{.*}} : tensor<1x4xf32>, tensor<1x4xf32>
// CHECK:         spmd.all_reduce sum %[[BOTH]] over [tp] : tensor<2x4xf32>
// CHECK-NOT:     spmd.all_reduce
// CHECK-NOT:     kerf.cross_entropy
// CHECK:       spmd.return
kerf.model @loss(%x: tensor<4x16xf32>, %t: tensor<4xi32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %e = kerf.exp %x {kerf.assign = #kerf.assign<s = [tp]>} : tensor<4x16xf32>
  %n = kerf.count_valid %t : tensor<4xi32>
  %l = kerf.cross_entropy %e, %t normalizer %n {kerf.assign = #kerf.assign<v = [tp], variant = [split_vocabulary]>} : tensor<4x16xf32>, tensor<4xi32>
  kerf.return %l : tensor<f32>
}

// Narrow logits are widened for each reader: between the messages they lie in
// memory as they are.
// CHECK-LABEL: spmd.program @narrow
// CHECK:         %[[X:.*]] = kerf.exp {{.*}} : tensor<4x8xbf16>
// CHECK:         %[[FIRST:.*]] = kerf.cast %[[X]] : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK:         kerf.reduce max %[[FIRST]] dims [1]
// CHECK-NOT:     %[[FIRST]]
// CHECK:         %[[SECOND:.*]] = kerf.cast %[[X]] : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK:         kerf.sub %[[SECOND]],
// CHECK:         %[[THIRD:.*]] = kerf.cast %[[X]] : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK:         kerf.select {{.*}}, %[[THIRD]],
kerf.model @narrow(%x: tensor<4x16xbf16>, %t: tensor<4xi32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %e = kerf.exp %x {kerf.assign = #kerf.assign<s = [tp]>} : tensor<4x16xbf16>
  %n = kerf.count_valid %t : tensor<4xi32>
  %l = kerf.cross_entropy %e, %t normalizer %n {kerf.assign = #kerf.assign<v = [tp], variant = [split_vocabulary]>} : tensor<4x16xbf16>, tensor<4xi32>
  kerf.return %l : tensor<f32>
}
