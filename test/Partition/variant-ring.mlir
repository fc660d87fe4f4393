// RUN: kerf-opt --split-input-file --kerf-partition --kerf-verify-partitioned %s | FileCheck %s

// As many key heads as heads: keys and values go round, and each block knows
// where its keys begin; two results are merged.
// CHECK-LABEL: spmd.program @ring
// CHECK:       spmd.func @prologue
// CHECK-DAG:     %[[PLACE:.*]] = spmd.offset [cp * 1]
// CHECK-DAG:     %[[OWN:.*]] = spmd.offset [cp * 4]
// CHECK:         %[[K:.*]] = kerf.exp {{.*}} : tensor<1x4x2x8xf32>
// CHECK:         kerf.attention %{{.*}}, %[[K]], %[[K]] causal offsets(%{{.*}}, %{{.*}}, %[[OWN]], %[[OWN]]) global [1, 2, 8, 8] lse
// CHECK:         %[[K1:.*]] = spmd.rotate %[[K]] over [cp]
// CHECK:         %[[V1:.*]] = spmd.rotate %[[K]] over [cp]
// CHECK:         %[[NEXT:.*]] = kerf.add %[[PLACE]]
// CHECK:         kerf.attention %{{.*}}, %[[K1]], %[[V1]] causal offsets(%{{.*}}, %{{.*}}, %[[OWN]], %{{.*}}) global [1, 2, 8, 8] lse
// CHECK:         kerf.max {{.*}} : tensor<1x2x4xf32>
// CHECK-NOT:     spmd.rotate
// CHECK:       spmd.return
kerf.model @ring(%x: tensor<1x8x2x8xf32>) attributes {
    plan = #kerf.plan<mesh = <cp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %q = kerf.exp %x {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x2x8xf32>
  %y = kerf.attention %q, %q, %q causal {kerf.assign = #kerf.assign<q = [cp], k = [cp], variant = [ring]>} : tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>
  %s = kerf.reduce sum %y dims [0, 1, 2, 3] {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x2x8xf32>
  kerf.return %s : tensor<f32>
}

// -----

// One key head for two: all keys are no more than the rank's queries.
// CHECK-LABEL: spmd.program @gathered
// CHECK:       spmd.func @prologue
// CHECK:         %[[K:.*]] = kerf.neg {{.*}} : tensor<1x4x1x8xf32>
// CHECK:         %[[ALLK:.*]] = spmd.all_gather %[[K]] dim 1 over [cp]
// CHECK:         %[[ALLV:.*]] = spmd.all_gather %[[K]] dim 1 over [cp]
// CHECK:         kerf.attention %{{.*}}, %[[ALLK]], %[[ALLV]] causal {{.*}} : tensor<1x4x2x8xf32>, tensor<1x8x1x8xf32>, tensor<1x8x1x8xf32>
// CHECK-NOT:     spmd.rotate
kerf.model @gathered(%x: tensor<1x8x2x8xf32>, %z: tensor<1x8x1x8xf32>) attributes {
    plan = #kerf.plan<mesh = <cp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %q = kerf.exp %x {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x2x8xf32>
  %k = kerf.neg %z {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x1x8xf32>
  %y = kerf.attention %q, %k, %k causal {kerf.assign = #kerf.assign<q = [cp], k = [cp], variant = [ring]>} : tensor<1x8x2x8xf32>, tensor<1x8x1x8xf32>, tensor<1x8x1x8xf32>
  %s = kerf.reduce sum %y dims [0, 1, 2, 3] {kerf.assign = #kerf.assign<s = [cp]>} : tensor<1x8x2x8xf32>
  kerf.return %s : tensor<f32>
}

// -----

// Batch rows and heads are cut. A mask reads positions alone, which are whole:
// the op is told no offsets, and a library may compute it.
// CHECK-LABEL: spmd.program @rows_and_heads
// CHECK:         kerf.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} causal : tensor<1x8x1x8xf32>
kerf.model @rows_and_heads(%x: tensor<2x8x2x8xf32>) attributes {
    plan = #kerf.plan<mesh = <dp = 2, tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %q = kerf.exp %x {kerf.assign = #kerf.assign<b = [dp], x = [tp]>} : tensor<2x8x2x8xf32>
  %y = kerf.attention %q, %q, %q causal {kerf.assign = #kerf.assign<b = [dp], g = [tp]>} : tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>
  %s = kerf.reduce sum %y dims [0, 1, 2, 3] {kerf.assign = #kerf.assign<b = [dp], x = [tp]>} : tensor<2x8x2x8xf32>
  kerf.return %s : tensor<f32>
}
