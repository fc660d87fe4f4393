// RUN: kerf-opt %s --kerf-build-commands --kerf-place-memory --kerf-verify-memory --split-input-file | FileCheck %s

// An update that may not take place reads its condition, a byte, and chooses: where it is
// false, master and state stay, and the weight is rounded from the master as it was.
// CHECK-LABEL: exec.program @skipped arena
// CHECK: exec.kernel @[[UPDATE:k1]](%[[W:.*]]: tensor<4xf32>, %[[G:.*]]: tensor<4xf32>, %{{.*}}: tensor<f32>, %{{.*}}: tensor<i32>, %[[OK:.*]]: tensor<i1>, %[[M:.*]]: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf16>)
// CHECK: %[[ALL:.*]] = kerf.broadcast %[[OK]] dims [] : tensor<i1> -> tensor<4xi1>
// CHECK: %[[NEW:.*]] = kerf.select %[[ALL]], %{{.*}}, %[[W]] : tensor<4xf32>
// CHECK: %[[STATE:.*]] = kerf.select %{{.*}}, %{{.*}}, %[[M]] : tensor<4xf32>
// CHECK: %[[ROUNDED:.*]] = kerf.cast %[[NEW]] : tensor<4xf32> -> tensor<4xf16>
// CHECK: exec.yield %[[NEW]], %[[STATE]], %[[ROUNDED]]
// CHECK: exec.func @update {
// CHECK: launch @k0 {{.*}}#exec.arena<write i1 [[C:[0-9]+]] bytes 1>]
// CHECK: launch @[[UPDATE]] "update" [] [{{.*}}#exec.arena<read i1 [[C]] bytes 1>
spmd.program @skipped over <> micro_batches 1 slots 1 {
  spmd.param "w" global tensor<4xf16> sharded [[]] rule #kerf.sgd<momentum = 0.9> init <ones> master f32 : tensor<4xf16>
  spmd.input @g global tensor<4xf32> sharded [[]] : tensor<4xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  spmd.input @norm global tensor<f32> sharded [] : tensor<f32>
  spmd.func @update() {
    %g = spmd.read @g : tensor<4xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    %norm = spmd.read @norm : tensor<f32>
    %ok = spmd.fused (%n = %norm : tensor<f32>) -> (tensor<i1>) {
      %inf = kerf.constant dense<0x7F800000> : tensor<f32>
      %c = kerf.compare lt %n, %inf : tensor<f32>
      spmd.yield %c : tensor<i1>
    }
    kerf.update "w" rule #kerf.sgd<momentum = 0.9> by %g rate %rate step %step if %ok into f16 : tensor<4xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}

// -----

// State in blocks stays, too, where the condition is false: codes and the largest of each block.
// CHECK-LABEL: exec.program @blocks arena
// CHECK: exec.kernel @k0(%[[W:.*]]: tensor<2x8xf32>, %{{.*}}: tensor<2x8xf32>, %{{.*}}: tensor<f32>, %{{.*}}: tensor<i32>, %[[OK:.*]]: tensor<i1>, %[[M:.*]]: tensor<2x8xi8>, %[[V:.*]]: tensor<2x8xi8>, %[[MMAX:.*]]: tensor<2x1xf32>, %[[VMAX:.*]]: tensor<2x1xf32>)
// CHECK: %[[ALL:.*]] = kerf.broadcast %[[OK]] dims [] : tensor<i1> -> tensor<2x8xi1>
// CHECK-NEXT: %[[NEW:.*]] = kerf.select %[[ALL]], %{{.*}}, %[[W]] : tensor<2x8xf32>
// CHECK: %[[NEWM:.*]] = kerf.select %{{.*}}, %{{.*}}, %[[M]] : tensor<2x8xi8>
// CHECK: %[[NEWV:.*]] = kerf.select %{{.*}}, %{{.*}}, %[[V]] : tensor<2x8xi8>
// CHECK: %[[BLOCKS:.*]] = kerf.broadcast %[[OK]] dims [] : tensor<i1> -> tensor<2x1xi1>
// CHECK-NEXT: %[[NEWMMAX:.*]] = kerf.select %[[BLOCKS]], %{{.*}}, %[[MMAX]] : tensor<2x1xf32>
// CHECK: %[[NEWVMAX:.*]] = kerf.select %{{.*}}, %{{.*}}, %[[VMAX]] : tensor<2x1xf32>
// CHECK: %[[ROUNDED:.*]] = kerf.cast %[[NEW]] : tensor<2x8xf32> -> tensor<2x8xf16>
// CHECK: exec.yield %[[NEW]], %[[NEWM]], %[[NEWV]], %[[NEWMMAX]], %[[NEWVMAX]], %[[ROUNDED]]
spmd.program @blocks over <> micro_batches 1 slots 1 {
  spmd.param "w" global tensor<2x8xf16> sharded [[], []] rule #kerf.adamw_8bit<block = 8, min_elements = 0> init <ones> master f32 : tensor<2x8xf16>
  spmd.input @g global tensor<2x8xf32> sharded [[], []] : tensor<2x8xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  spmd.input @finite global tensor<i1> sharded [] : tensor<i1>
  spmd.func @update() {
    %g = spmd.read @g : tensor<2x8xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    %ok = spmd.read @finite : tensor<i1>
    kerf.update "w" rule #kerf.adamw_8bit<block = 8, min_elements = 0> by %g rate %rate step %step if %ok into f16 : tensor<2x8xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}

// -----

// Sums are made in any case; the last kernel chooses, also of the rows and columns that are
// copied over the old ones after it.
// CHECK-LABEL: exec.program @sums arena
// CHECK: exec.kernel @k3(%[[W:.*]]: tensor<2x8xf32>, %{{.*}}: tensor<2x8xf32>, %{{.*}}: tensor<f32>, %{{.*}}: tensor<i32>, %[[OK:.*]]: tensor<i1>, %[[ROWS:.*]]: tensor<2xf32>, %[[COLUMNS:.*]]: tensor<8xf32>, %{{.*}}: tensor<2xf32>
// CHECK: %[[ALL:.*]] = kerf.broadcast %[[OK]] dims [] : tensor<i1> -> tensor<2x8xi1>
// CHECK-NEXT: %[[NEW:.*]] = kerf.select %[[ALL]], %{{.*}}, %[[W]] : tensor<2x8xf32>
// CHECK: %[[NEWROWS:.*]] = kerf.select %{{.*}}, %{{.*}}, %[[ROWS]] : tensor<2xf32>
// CHECK: %[[NEWCOLUMNS:.*]] = kerf.select %{{.*}}, %{{.*}}, %[[COLUMNS]] : tensor<8xf32>
// CHECK: %[[ROUNDED:.*]] = kerf.cast %[[NEW]] : tensor<2x8xf32> -> tensor<2x8xf16>
// CHECK: exec.yield %[[NEW]], %[[NEWROWS]], %[[NEWCOLUMNS]], %[[ROUNDED]]
// CHECK: exec.func @update {
// CHECK: copy "copy" [8]
// CHECK: copy "copy" [32]
spmd.program @sums over <> micro_batches 1 slots 1 {
  spmd.param "w" global tensor<2x8xf16> sharded [[], []] rule #kerf.adafactor<> init <ones> master f32 : tensor<2x8xf16>
  spmd.input @g global tensor<2x8xf32> sharded [[], []] : tensor<2x8xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  spmd.input @finite global tensor<i1> sharded [] : tensor<i1>
  spmd.func @update() {
    %g = spmd.read @g : tensor<2x8xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    %ok = spmd.read @finite : tensor<i1>
    kerf.update "w" rule #kerf.adafactor<> by %g rate %rate step %step if %ok into f16 : tensor<2x8xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}
