// An op of elements that no stage knows is part of a kernel with its neighbours, trains, and is cut over ranks.

// RUN: kerf-inspect --load-dialect-plugin=%test_plugin gradcheck %s --samples=16 | FileCheck %s --check-prefix=GRAD
// RUN: kerfc --load-dialect-plugin=%test_plugin %s --cluster=%source_root/examples/clusters/this-machine.yaml --devices=2 --pin=dp=2 --stop-after=fuse | FileCheck %s --check-prefix=FUSED
// RUN: kerfc --load-dialect-plugin=%test_plugin %s --cluster=%source_root/examples/clusters/this-machine.yaml --devices=2 --pin=dp=2 -o %t.kerf 2>&1 | FileCheck %s --check-prefix=TWIN
// RUN: kerf-run %t.kerf --data=%s --steps=2 --lr=0.1 | FileCheck %s --check-prefix=TRAINED

// GRAD: ok {{.*}} w
// FUSED: spmd.fused {{.*}}spmd.kind = "softsign+mul"
// FUSED-NEXT: %[[Y:.*]] = kerf_test.softsign
// FUSED-NEXT: kerf.mul %[[Y]]
// TWIN: its twin trains as on one rank
// TRAINED: iteration {{ *}}1/{{.*}}loss
// TRAINED: iteration {{ *}}2/{{.*}}loss
kerf.model @signs(tokens %tokens: tensor<4x8xi32>, targets %targets: tensor<4x8xi32>) attributes {optimizer = #kerf.sgd<>} {
  %w = kerf.param "w" init<normal, 0.5> : tensor<256x16xf32>
  %x = kerf.embedding %tokens, %w : tensor<4x8xi32>, tensor<256x16xf32>
  %g = kerf_test.softsign %x : tensor<4x8x16xf32>
  %y = kerf.mul %g, %x : tensor<4x8x16xf32>
  %logits = kerf.linear %y, %w : tensor<4x8x16xf32>, tensor<256x16xf32>
  %count = kerf.count_valid %targets : tensor<4x8xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %count : tensor<4x8x256xf32>, tensor<4x8xi32>
  kerf.return %loss : tensor<f32>
}
