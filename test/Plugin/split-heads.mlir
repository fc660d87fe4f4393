// A view that no stage knows is a view: it becomes no kernel and no command, and matmuls and attention read through it.

// RUN: kerf-inspect --load-dialect-plugin=%test_plugin gradcheck %s --samples=16 | FileCheck %s --check-prefix=GRAD
// RUN: kerfc --load-dialect-plugin=%test_plugin %s --cluster=%source_root/examples/clusters/this-machine.yaml --devices=2 --pin=tp=2 --stop-after=fuse | FileCheck %s --check-prefix=FUSED
// RUN: kerfc --load-dialect-plugin=%test_plugin %s --cluster=%source_root/examples/clusters/this-machine.yaml --devices=2 --pin=tp=2 -o %t.kerf 2>&1 | FileCheck %s --check-prefix=TWIN
// RUN: kerf-inspect program %t.kerf | FileCheck %s --check-prefix=COMMANDS
// RUN: kerf-run %t.kerf --data=%s --steps=2 --lr=0.1 | FileCheck %s --check-prefix=TRAINED

// GRAD: ok {{.*}} q
// GRAD: ok {{.*}} w
// Between two library calls, in no kernel: only the address is another.
// FUSED: kerf.linear
// FUSED-NEXT: kerf_test.split_heads
// TWIN: its twin trains as on one rank
// COMMANDS-NOT: split_heads
// COMMANDS: attention
// COMMANDS-NOT: split_heads
// TRAINED: iteration {{ *}}1/{{.*}}loss
// TRAINED: iteration {{ *}}2/{{.*}}loss
kerf.model @heads(tokens %tokens: tensor<4x8xi32>, targets %targets: tensor<4x8xi32>) attributes {optimizer = #kerf.sgd<>} {
  %w = kerf.param "w" init<normal, 0.5> : tensor<256x16xf32>
  %wq = kerf.param "q" init<normal, 0.5> : tensor<16x16xf32>
  %x = kerf.embedding %tokens, %w : tensor<4x8xi32>, tensor<256x16xf32>
  %q = kerf.linear %x, %wq : tensor<4x8x16xf32>, tensor<16x16xf32>
  %heads = kerf_test.split_heads %q : tensor<4x8x16xf32> -> tensor<4x8x4x4xf32>
  %a = kerf.attention %heads, %heads, %heads causal : tensor<4x8x4x4xf32>, tensor<4x8x4x4xf32>, tensor<4x8x4x4xf32>
  %y = kerf.reshape %a : tensor<4x8x4x4xf32> -> tensor<4x8x16xf32>
  %logits = kerf.linear %y, %w : tensor<4x8x16xf32>, tensor<256x16xf32>
  %count = kerf.count_valid %targets : tensor<4x8xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %count : tensor<4x8x256xf32>, tensor<4x8xi32>
  kerf.return %loss : tensor<f32>
}
