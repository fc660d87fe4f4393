// RUN: kerf-opt %s --kerf-build-commands --kerf-place-memory --kerf-verify-memory --split-input-file | FileCheck %s

// State in blocks of 8, in two pieces of whole blocks: 24 elements are 3 blocks, so a
// piece has 2, and the last one of the second is padding. One kernel, all in place.
// CHECK-LABEL: exec.program @blocks arena
spmd.program @blocks over <dp = 2> micro_batches 1 slots 1 {
  // CHECK-NEXT: exec.param "w"[0 to 1] tensor<3x8xf32> local tensor<3x8xf32> sharded {{\[\[}}], []] state over ["dp"] granule 8 init <ones> at 0 by 128 states
  // CHECK-SAME: [{at = 128 : i64, by = 16 : i64, name = "m", type = i8}, {at = 192 : i64, by = 16 : i64, name = "v", type = i8}, {at = 256 : i64, block = 8 : i64, by = 8 : i64, name = "m_max", type = f32}, {at = 320 : i64, block = 8 : i64, by = 8 : i64, name = "v_max", type = f32}]
  spmd.param "w" global tensor<3x8xf32> sharded [[], []] state over [dp] rule #kerf.adamw_8bit<block = 8, min_elements = 0> init <ones> : tensor<3x8xf32>
  spmd.input @g global tensor<32xf32> sharded [[dp]] : tensor<16xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  // CHECK: attributes {inplace = {{\[\[}}0, 0], [1, 4], [2, 5], [3, 6], [4, 7]]}
  // CHECK: exec.func @update {
  // CHECK-NEXT: take "take" [1, 2, 64]
  // CHECK-NEXT: launch @k0 "update"
  // CHECK-NEXT: all_gather "gather_param" [1, 0, 1, 16]
  // CHECK-NEXT: }
  spmd.func @update() {
    %g = spmd.read @g : tensor<16xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    kerf.update "w" rule #kerf.adamw_8bit<block = 8, min_elements = 0> by %g rate %rate step %step : tensor<16xf32>
    spmd.gather_param "w"
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}

// -----

// Rows are cut over tp: sums of columns and of all elements, not of rows, are made on all
// tensor ranks. Each round of sums needs those before: the mean of the new rows, then the
// size of the update. The last kernel writes rows and columns beside the old ones, which
// all elements of the parameter read.
// CHECK-LABEL: exec.program @sums arena
spmd.program @sums over <dp = 2, tp = 2> micro_batches 1 slots 1 {
  // CHECK-NEXT: exec.param "h.{i}.w"[0 to 4] tensor<6x8xf32> local tensor<3x8xf32> sharded {{\[\[}}"tp"], []] init <ones> at 0 by 96 states
  // CHECK-SAME: [{at = 384 : i64, by = 12 : i64, name = "row_var", type = f32, without = 1 : i64}, {at = 448 : i64, by = 32 : i64, name = "col_var", type = f32, without = 2 : i64}]
  spmd.param "h.{i}.w" [0 to 4] global tensor<6x8xf32> sharded [[tp], []] rule #kerf.adafactor<> init <ones> : tensor<3x8xf32>
  spmd.input @g global tensor<2x3x8xf32> sharded [[], [], []] : tensor<2x3x8xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  // CHECK: attributes {inplace = {{\[\[}}0, 0]]}
  // CHECK: exec.func @update {
  // CHECK-NEXT: launch @k0 "update"
  // CHECK-SAME: #exec.arena<write f32 [[ROWS:[0-9]+]] bytes 24>, #exec.arena<write f32 [[COLUMNS:[0-9]+]] bytes 64>, #exec.arena<write f32 [[SIZE:[0-9]+]] bytes 8>]
  // CHECK-NEXT: all_reduce "update" [2, 0, 0, 16] [#exec.arena<read f32 [[COLUMNS]] bytes 64>, #exec.arena<write f32 [[COLUMNS]] bytes 64>]
  // CHECK-NEXT: all_reduce "update" [2, 0, 0, 2] [#exec.arena<read f32 [[SIZE]] bytes 8>
  // CHECK-NEXT: launch @k1 "update"
  // CHECK-SAME: #exec.arena<write f32 [[MEAN:[0-9]+]] bytes 8>]
  // CHECK-NEXT: all_reduce "update" [2, 0, 0, 2] [#exec.arena<read f32 [[MEAN]] bytes 8>
  // CHECK-NEXT: launch @k2 "update"
  // CHECK-NEXT: all_reduce "update" [2, 0, 0, 2]
  // CHECK-NEXT: launch @k3 "update" [] [#exec.arena<read f32 192 bytes 192>
  // CHECK-SAME: #exec.arena<write f32 192 bytes 192>, #exec.arena<write f32 [[NEWROWS:[0-9]+]] bytes 24>, #exec.arena<write f32 [[NEWCOLUMNS:[0-9]+]] bytes 64>]
  // CHECK-NEXT: copy "copy" [24] [#exec.arena<read f32 [[NEWROWS]] bytes 24>, #exec.arena<write f32 408 bytes 24>]
  // CHECK-NEXT: copy "copy" [64] [#exec.arena<read f32 [[NEWCOLUMNS]] bytes 64>, #exec.arena<write f32 512 bytes 64>]
  // CHECK-NEXT: }
  spmd.func @update() {
    %g = spmd.read @g : tensor<2x3x8xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    kerf.update "h.{i}.w"[2 to 4] rule #kerf.adafactor<> by %g rate %rate step %step : tensor<2x3x8xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}

// -----

// Matmuls are library calls, in a loop over layers. Rows are cut over tp: their matmul with
// themselves is summed, and both matmuls with it are smaller than its square. A whole matrix has the
// square of the smaller one of both matmuls, and a polynomial of it.
// CHECK-LABEL: exec.program @matmuls arena
spmd.program @matmuls over <dp = 2, tp = 2> micro_batches 1 slots 1 {
  spmd.param "h.{i}.w" [0 to 4] global tensor<6x8xf32> sharded [[tp], []] rule #kerf.muon<steps = 2> init <ones> : tensor<3x8xf32>
  spmd.param "v" global tensor<12x4xf32> sharded [[], []] rule #kerf.muon<steps = 1> init <ones> : tensor<12x4xf32>
  spmd.input @g global tensor<2x3x8xf32> sharded [[], [], []] : tensor<2x3x8xf32>
  spmd.input @h global tensor<12x4xf32> sharded [[], []] : tensor<12x4xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  // CHECK: exec.func @update {
  // CHECK-NEXT: exec.loop 0 to 2 {
  // CHECK-NEXT: launch @k0 "update" [] [#exec.arena<read f32 {{[0-9]+}} iter 96 bytes 96>, #exec.arena<read f32 {{[0-9]+}} iter 96 bytes 96>, #exec.arena<write f32 [[X:[0-9]+]] bytes 96>]
  // CHECK-NEXT: matmul "matmul" [0, 0, 0, 1, 8, 8, 3, {{.*}}#exec.arena<read f32 [[X]] bytes 96>, #exec.arena<read f32 [[X]] bytes 96>, #exec.arena<write f32 [[G:[0-9]+]] bytes 256>
  // CHECK-NEXT: all_reduce "update" [2, 0, 0, 64] [#exec.arena<read f32 [[G]] bytes 256>, #exec.arena<write f32 [[G]] bytes 256>]
  // CHECK-NEXT: launch @k1 "update" [] [#exec.arena<read f32 [[G]] bytes 256>, #exec.arena<write f32 [[TRACE:[0-9]+]] bytes 4>]
  // CHECK-NEXT: launch @k2 "update" [] [#exec.arena<read f32 [[G]] bytes 256>, #exec.arena<read f32 [[TRACE]] bytes 4>, #exec.arena<write f32 [[SCALED:[0-9]+]] bytes 256>]
  // CHECK-NEXT: matmul "matmul" [0, 0, 0, 1, 3, 8, 8, {{.*}}#exec.arena<read f32 [[X]] bytes 96>, #exec.arena<read f32 [[SCALED]] bytes 256>, #exec.arena<write f32 [[GX:[0-9]+]] bytes 96>
  // CHECK-NEXT: launch @k3 "update" [] [#exec.arena<read f32 [[X]] bytes 96>, #exec.arena<read f32 [[GX]] bytes 96>
  // CHECK-NEXT: matmul "matmul" [0, 0, 0, 1, 3, 8, 8
  // CHECK-NEXT: launch @k4 "update"
  // CHECK-NEXT: matmul "matmul" [0, 0, 0, 1, 8, 8, 3
  // CHECK-NEXT: all_reduce "update" [2, 0, 0, 64]
  // CHECK-NEXT: matmul
  // CHECK-NEXT: launch @k3 "update"
  // CHECK-NEXT: matmul
  // CHECK-NEXT: launch @k5 "update" [] [#exec.arena<read f32 192 iter 96 bytes 96>
  // CHECK-SAME: #exec.arena<write f32 192 iter 96 bytes 96>, #exec.arena<write f32 {{[0-9]+}} iter 96 bytes 96>]
  // CHECK-NEXT: }
  // CHECK-NEXT: launch @k6 "update"
  // CHECK-NEXT: matmul "matmul" [0, 0, 0, 1, 4, 4, 12
  // CHECK-NEXT: launch @k7 "update"
  // CHECK-NEXT: launch @k8 "update"
  // CHECK-NEXT: matmul "matmul" [0, 0, 0, 1, 4, 4, 4
  // CHECK-NEXT: launch @k9 "update"
  // CHECK-NEXT: matmul "matmul" [0, 0, 0, 1, 12, 4, 4
  // CHECK-NEXT: launch @k10 "update"
  // CHECK-NEXT: }
  spmd.func @update() {
    %g = spmd.read @g : tensor<2x3x8xf32>
    %h = spmd.read @h : tensor<12x4xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    kerf.update "h.{i}.w"[2 to 4] rule #kerf.muon<steps = 2> by %g rate %rate step %step : tensor<2x3x8xf32>
    kerf.update "v" rule #kerf.muon<steps = 1> by %h rate %rate step %step : tensor<12x4xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}
