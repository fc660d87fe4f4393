// RUN: kerf-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(freeze-parameters{name=embed})' %s | FileCheck %s
// RUN: kerf-opt --load-pass-plugin=%plugin --freeze-parameters=name=embed %s | FileCheck %s
// RUN: kerfc --load-pass-plugin=%plugin --run-after='ingest:freeze-parameters{name=embed}' %s | FileCheck %s --check-prefix=STEP
// RUN: not kerfc --load-pass-plugin=%plugin --run-after='ingest:freeze-parameters{name=nothing}' %s 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not kerfc --load-pass-plugin=%plugin --run-after='ingest:freeze-parameters{name=w}' %s 2>&1 | FileCheck %s --check-prefix=ALL

// CHECK: kerf.param "embed.w" init<ones> frozen
// CHECK: kerf.param "out.w" init<ones> :

// In the step only the other one is updated.
// STEP-NOT: kerf.update "embed.w"
// STEP: kerf.update "out.w"
// STEP-NOT: kerf.update "embed.w"

// NONE: freeze.mlir:[[#@LINE+3]]:1: error: 'kerf.model' op has no parameter with 'nothing'
// ALL: freeze.mlir:[[#@LINE+2]]:1: error: 'kerf.model' op has nothing left to train

kerf.model @twice() attributes {optimizer = #kerf.sgd<>} {
  %a = kerf.param "embed.w" init<ones> : tensor<4xf32>
  %b = kerf.param "out.w" init<ones> : tensor<4xf32>
  %p = kerf.mul %a, %b : tensor<4xf32>
  %loss = kerf.reduce sum %p dims [0] : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}
