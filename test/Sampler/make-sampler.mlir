// RUN: kerfc %s --emit=sampler | FileCheck %s
// RUN: kerfc %s --emit=sampler | kerfc - --stop-after=ingest -o /dev/null
// RUN: kerfc %s --start-after=ingest --emit=sampler | FileCheck %s

// In place of the loss stands a choice among the logits of the position whose target is asked for. Dropout, the loss that
// balances experts, and what it is summed up in are gone; rows are cut into micro-batches of one.

// CHECK: kerf.model @m(tokens %tokens: tensor<4x8xi32>, targets %targets: tensor<4x8xi32>
// CHECK-SAME: learning_rate %learning_rate: tensor<f32>)
// CHECK-NOT: adapter
// CHECK: plan = #kerf.plan<mesh = <>, micro_batches = 4
// CHECK: %[[TABLE:.*]] = kerf.param "table" init<normal, 0.02> frozen : tensor<32x16xf32>
// CHECK: kerf.embedding %tokens, %[[TABLE]] {kerf.assign = #kerf.assign<b = [micro]>}
// CHECK-NOT: kerf.dropout
// CHECK: kerf.repeat
// CHECK-NOT: kerf.mul
// CHECK: kerf.yield
// CHECK: %[[LOGITS:.*]] = kerf.linear
// CHECK: %[[ASKED:.*]] = kerf.compare ge %targets
// CHECK: %[[PICKED:.*]] = kerf.select %{{.*}}, %[[LOGITS]], %{{.*}} : tensor<4x8x32xf32>
// CHECK: %[[X:.*]] = kerf.reduce sum %[[PICKED]] dims [1]
// CHECK: kerf.reduce max %[[X]] dims [1]
// CHECK: kerf.broadcast %learning_rate dims []
// CHECK: %[[SCALED:.*]] = kerf.div
// CHECK: %[[WEIGHTS:.*]] = kerf.exp %[[SCALED]]
// CHECK: kerf.cumsum %[[WEIGHTS]] dim 1
// CHECK: kerf.compare le
// CHECK-NOT: kerf.cross_entropy
// CHECK: kerf.return %{{.*}} : tensor<f32>
kerf.model @m(tokens %tokens: tensor<4x8xi32>, targets %targets: tensor<4x8xi32>, seed %seed: tensor<i32>,
              step %step: tensor<i32>) attributes {optimizer = #kerf.adamw<>, clip_norm = 1.0} {
  %table = kerf.param "table" init<normal, 0.02> : tensor<32x16xf32>
  %embedded = kerf.embedding %tokens, %table : tensor<4x8xi32>, tensor<32x16xf32>
  %dropped = kerf.dropout %embedded rate 0.1 "drop" seed %seed step %step : tensor<4x8x16xf32>
  %zero = kerf.constant dense<0.0> : tensor<f32>
  %out, %sum = kerf.repeat %i = 0 to 2 (%x = %dropped : tensor<4x8x16xf32>, %s = %zero : tensor<f32>) {
    %w = kerf.param "h.{i}.weight" init<normal, 0.02> : tensor<16x16xf32>
    %y = kerf.linear %x, %w : tensor<4x8x16xf32>, tensor<16x16xf32>
    %square = kerf.mul %y, %y : tensor<4x8x16xf32>
    %own = kerf.reduce sum %square dims [0, 1, 2] : tensor<4x8x16xf32>
    %both = kerf.add %s, %own : tensor<f32>
    kerf.yield %y, %both : tensor<4x8x16xf32>, tensor<f32>
  }
  %logits = kerf.linear %out, %table : tensor<4x8x16xf32>, tensor<32x16xf32>
  %n = kerf.count_valid %targets : tensor<4x8xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %n : tensor<4x8x32xf32>, tensor<4x8xi32>
  %all = kerf.add %loss, %sum : tensor<f32>
  kerf.return %all : tensor<f32>
}
