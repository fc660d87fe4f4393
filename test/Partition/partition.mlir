// RUN: kerfc %S/../Plan/Inputs/mlp.mlir --plan=%S/../Plan/Inputs/megatron.json --stop-after=partition -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: kerf-opt %t.mlir --kerf-verify-partitioned -o %t.same.mlir

// Four ranks, two micro-batches: column- and row-parallel matmuls, the rows in
// between cut over the same axis.

// CHECK-LABEL: spmd.program @mlp over <dp = 2, tp = 2> micro_batches 2 slots 1
// CHECK:       spmd.input @tokens role "tokens" global tensor<4x8xi32> sharded {{\[\[}}dp, micro], [tp]] vocabulary 16 : tensor<1x4xi32>
// CHECK:       spmd.input @learning_rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
// CHECK:       spmd.param "wte" global tensor<16x8xf32> sharded {{\[\[}}], []] rule #kerf.sgd<> init <normal, 0.02> : tensor<16x8xf32>
// CHECK:       spmd.param "h.{i}.up"[0 to 2] global tensor<16x8xf32> sharded {{\[\[}}tp], []]
// CHECK:       spmd.param "h.{i}.down"[0 to 2] global tensor<8x16xf32> sharded {{\[\[}}], [tp]]
// CHECK:       spmd.buffer @[[NORM:.*]] step : tensor<f32>
// CHECK:       spmd.buffer @[[ROWS:.*]] slot : tensor<2x1x4x8xf32>
// CHECK:       spmd.output @loss last : tensor<f32>
// CHECK:       spmd.output @grad_norm last label "grad norm" : tensor<f32>

// The count of targets: over all micro-batches of this rank, then over the ranks.
// CHECK-LABEL: spmd.func @prologue
// CHECK:         %[[T:.*]] = spmd.read @targets : tensor<2x4xi32>
// CHECK:         %[[C:.*]] = kerf.count_valid %[[T]]
// CHECK:         %[[N:.*]] = spmd.all_reduce sum %[[C]] over [dp, tp]
// CHECK:         spmd.write %[[N]] to @[[NORM]]

// CHECK-LABEL: spmd.func @forward
// CHECK:         spmd.read @tokens : tensor<1x4xi32>
// CHECK:         kerf.repeat
// CHECK:           %[[G:.*]] = spmd.all_gather %{{.*}} dim 1 over [tp] {{.*}} : tensor<1x4x8xf32> -> tensor<1x8x8xf32>
// CHECK:           kerf.linear %[[G]]
// CHECK:           %[[D:.*]] = kerf.linear
// CHECK:           spmd.reduce_scatter sum %[[D]] dim 1 over [tp] {{.*}} : tensor<1x8x8xf32> -> tensor<1x4x8xf32>
// Stacked is what the op made, not what its reader got.
// CHECK:           kerf.yield {{.*}} : tensor<1x4x8xf32>, tensor<1x8x8xf32>, tensor<1x8x8xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>

// The head and the loss belong to the backward function. What several readers
// need is gathered once. Gradients stay sums over the data axis.
// CHECK-LABEL: spmd.func @backward
// CHECK:         kerf.cross_entropy
// CHECK-NOT:     spmd.all_reduce {{.*}} : tensor<f32>
// CHECK:         spmd.accumulate %{{.*}} into @loss.part
// CHECK:         kerf.repeat reverse
// CHECK:           %[[DY:.*]] = spmd.all_gather
// CHECK:           kerf.einsum "bsn,nk->bsk" %[[DY]]
// CHECK:           kerf.einsum "bsn,bsk->nk" %[[DY]]
// CHECK-NOT:     spmd.all_reduce {{.*}}8x8xf32
// CHECK:         spmd.accumulate %{{.*}} into @

// Each gradient is reduced over the axes it is a sum over, once; its norm counts
// every element once.
// CHECK-LABEL: spmd.func @update
// CHECK:         spmd.all_reduce sum %{{.*}} over [dp, tp] {{.*}} : tensor<2x8xf32>
// CHECK:         spmd.all_reduce sum %{{.*}} over [dp] {{.*}} : tensor<2x8x8xf32>
// CHECK:         %[[WHOLE:.*]] = kerf.global_norm
// CHECK:         %[[SQUARE:.*]] = kerf.mul %[[WHOLE]], %[[WHOLE]]
// CHECK:         %[[PART:.*]] = kerf.global_norm
// CHECK:         %[[OWN:.*]] = kerf.mul %[[PART]], %[[PART]]
// CHECK:         %[[ALL:.*]] = spmd.all_reduce sum %[[OWN]] over [tp]
// CHECK:         %[[SUM:.*]] = kerf.add %[[SQUARE]], %[[ALL]]
// CHECK:         %[[ROOT:.*]] = kerf.sqrt %[[SUM]]
// CHECK:         spmd.write %[[ROOT]] to @grad_norm
// CHECK:         kerf.update "h.{i}.up"[0 to 2] {{.*}} : tensor<2x8x8xf32>

// Ranks have added up the losses of all micro-batches: one sum is left.
// CHECK-LABEL: spmd.func @finish
// CHECK:         %[[PART:.*]] = spmd.read @loss.part
// CHECK:         %[[L:.*]] = spmd.all_reduce sum %[[PART]] over [dp, tp] : tensor<f32>
// CHECK:         spmd.write %[[L]] to @loss

// Nothing is stacked for an evaluation.
// CHECK-LABEL: spmd.func @evaluate
// CHECK:         spmd.read @[[NORM]] : tensor<f32>
// CHECK:         kerf.yield %{{[^,]*}} {{.*}} : tensor<1x4x8xf32>
// CHECK:         spmd.accumulate %{{.*}} into @loss.part
// CHECK-LABEL: spmd.func @finish_evaluation
// CHECK:         spmd.all_reduce sum %{{.*}} over [dp, tp] : tensor<f32>
// CHECK-NOT:     kerf.model
