// RUN: kerf-opt %s --split-input-file --kerf-order-micro-batches --kerf-verify-scheduled | FileCheck %s --check-prefixes=CHECK,ALTERNATE
// RUN: kerf-opt %s --split-input-file --kerf-order-micro-batches=schedule=gpipe --kerf-verify-scheduled | FileCheck %s --check-prefixes=CHECK,GPIPE
// RUN: not kerf-opt %s --kerf-order-micro-batches=schedule=none 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: unknown schedule 'none', expected gpipe, 1f1b, interleaved or zb-h1

// All forwards first takes a slot per micro-batch.
// ALTERNATE-LABEL: spmd.program @step over <> micro_batches 2 slots 1
// GPIPE-LABEL:     spmd.program @step over <> micro_batches 2 slots 2
// CHECK:           spmd.schedule "train" {
// CHECK-NEXT:        spmd.call @prologue
// CHECK-NEXT:        spmd.call @forward micro 0
// GPIPE-NEXT:        spmd.call @forward micro 1
// ALTERNATE-NEXT:    spmd.call @backward micro 0
// ALTERNATE-NEXT:    spmd.call @forward micro 1
// GPIPE-NEXT:        spmd.call @backward micro 0
// CHECK-NEXT:        spmd.call @backward micro 1
// CHECK-NEXT:        spmd.call @update
// CHECK-NEXT:      }
// CHECK-NEXT:      spmd.schedule "evaluate" {
// CHECK-NEXT:        spmd.call @prologue
// CHECK-NEXT:        spmd.call @evaluate micro 0
// CHECK-NEXT:        spmd.call @evaluate micro 1
spmd.program @step over <> micro_batches 2 slots 1 {
  spmd.buffer @b slot : tensor<f32>
  spmd.func @prologue() {
    spmd.return
  }
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<f32>
    spmd.write %x to @b : tensor<f32>
    spmd.return
  }
  spmd.func @backward() {
    %x = spmd.read @b : tensor<f32>
    spmd.return
  }
  spmd.func @update() {
    spmd.return
  }
  spmd.func @evaluate() {
    spmd.return
  }
}

// -----

// Functions that are not there are not called; a schedule that is there is kept.
// CHECK-LABEL: spmd.program @kept
// CHECK:       spmd.schedule "train" {
// CHECK-NEXT:  }
// CHECK-NEXT:  spmd.schedule "evaluate" {
// CHECK-NEXT:    spmd.call @evaluate micro 0
// CHECK-NEXT:  }
spmd.program @kept over <> micro_batches 1 slots 1 {
  spmd.func @evaluate() {
    spmd.return
  }
  spmd.schedule "train" {
  }
}
