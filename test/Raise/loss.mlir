// RUN: kerf-opt %s --split-input-file --kerf-raise | FileCheck %s

// The element of a log-softmax that targets choose, and the mean over all rows:
// one of targets that count.
// CHECK-LABEL: @log_softmax(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
// CHECK-NEXT: %[[COUNT_VALID:.*]] = kerf.count_valid %targets : tensor<2x3xi32>
// CHECK-NEXT: %[[CROSS_ENTROPY:.*]] = kerf.cross_entropy %[[X]], %targets normalizer %[[COUNT_VALID]] : tensor<2x3x5xf32>, tensor<2x3xi32>
// CHECK-NEXT: kerf.return %[[CROSS_ENTROPY]] : tensor<f32>
kerf.model @log_softmax(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %ls = kerf.broadcast %l dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %p = kerf.sub %d, %ls : tensor<2x3x5xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %p, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %rows = kerf.neg %picked : tensor<2x3xf32>
  %total = kerf.reduce sum %rows dims [0, 1] : tensor<2x3xf32>
  %count = kerf.constant dense<6.0> : tensor<f32>
  %loss = kerf.div %total, %count : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// log(sum(exp(x))), with the largest taken off and added again, less the
// element that is chosen.
// CHECK-LABEL: @difference(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
// CHECK-NEXT: %[[COUNT_VALID:.*]] = kerf.count_valid %targets : tensor<2x3xi32>
// CHECK-NEXT: %[[CROSS_ENTROPY:.*]] = kerf.cross_entropy %[[X]], %targets normalizer %[[COUNT_VALID]] : tensor<2x3x5xf32>, tensor<2x3xi32>
// CHECK-NEXT: kerf.return %[[CROSS_ENTROPY]] : tensor<f32>
kerf.model @difference(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %sum = kerf.add %l, %m : tensor<2x3xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %x, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %rows = kerf.sub %sum, %picked : tensor<2x3xf32>
  %total = kerf.reduce sum %rows dims [0, 1] : tensor<2x3xf32>
  %count = kerf.constant dense<6.0> : tensor<f32>
  %loss = kerf.div %total, %count : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// Nothing taken off, the sign turned, and a plain sum: its factor stands
// behind.
// CHECK-LABEL: @unshifted(
// CHECK: %[[C:.*]] = kerf.constant dense<-1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[C2:.*]] = kerf.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
// CHECK-NEXT: %[[CROSS_ENTROPY:.*]] = kerf.cross_entropy %[[X]], %targets normalizer %[[C2]] : tensor<2x3x5xf32>, tensor<2x3xi32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[CROSS_ENTROPY]], %[[C]] : tensor<f32>
// CHECK-NEXT: kerf.return %[[MUL]] : tensor<f32>
kerf.model @unshifted(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %e = kerf.exp %x : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %x, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %rows = kerf.sub %picked, %l : tensor<2x3xf32>
  %total = kerf.reduce sum %rows dims [0, 1] : tensor<2x3xf32>
  kerf.return %total : tensor<f32>
}

// -----

// A product with a one-hot row, and the sum of all rows: no factor.
// CHECK-LABEL: @one_hot(
// CHECK: %[[C:.*]] = kerf.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
// CHECK-NEXT: %[[CROSS_ENTROPY:.*]] = kerf.cross_entropy %[[X]], %targets normalizer %[[C]] : tensor<2x3x5xf32>, tensor<2x3xi32>
// CHECK-NEXT: kerf.return %[[CROSS_ENTROPY]] : tensor<f32>
kerf.model @one_hot(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %ls = kerf.broadcast %l dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %p = kerf.sub %d, %ls : tensor<2x3x5xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %ones = kerf.cast %chosen : tensor<2x3x5xi1> -> tensor<2x3x5xf32>
  %kept = kerf.mul %ones, %p : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %total = kerf.reduce sum %picked dims [0, 1] : tensor<2x3xf32>
  %loss = kerf.neg %total : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// The mean of a sequence, then of the batch.
// CHECK-LABEL: @mean_of_means(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
// CHECK-NEXT: %[[COUNT_VALID:.*]] = kerf.count_valid %targets : tensor<2x3xi32>
// CHECK-NEXT: %[[CROSS_ENTROPY:.*]] = kerf.cross_entropy %[[X]], %targets normalizer %[[COUNT_VALID]] : tensor<2x3x5xf32>, tensor<2x3xi32>
// CHECK-NEXT: kerf.return %[[CROSS_ENTROPY]] : tensor<f32>
kerf.model @mean_of_means(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %ls = kerf.broadcast %l dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %p = kerf.sub %d, %ls : tensor<2x3x5xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %p, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %rows = kerf.neg %picked : tensor<2x3xf32>
  %a = kerf.reduce sum %rows dims [1] : tensor<2x3xf32>
  %three = kerf.constant dense<3.0> : tensor<2xf32>
  %b = kerf.div %a, %three : tensor<2xf32>
  %c = kerf.reduce sum %b dims [0] : tensor<2xf32>
  %half = kerf.constant dense<0.5> : tensor<f32>
  %loss = kerf.mul %c, %half : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// Rows that are flattened, with the factor before the sum.
// CHECK-LABEL: @flat(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<6x5xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %targets : tensor<2x3xi32> -> tensor<6xi32>
// CHECK-NEXT: %[[COUNT_VALID:.*]] = kerf.count_valid %targets : tensor<2x3xi32>
// CHECK-NEXT: %[[CROSS_ENTROPY:.*]] = kerf.cross_entropy %[[X]], %[[RESHAPE]] normalizer %[[COUNT_VALID]] : tensor<6x5xf32>, tensor<6xi32>
// CHECK-NEXT: kerf.return %[[CROSS_ENTROPY]] : tensor<f32>
kerf.model @flat(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<6x5xf32>
  %t = kerf.reshape %targets : tensor<2x3xi32> -> tensor<6xi32>
  %m = kerf.reduce max %x dims [1] : tensor<6x5xf32>
  %ms = kerf.broadcast %m dims [0] : tensor<6xf32> -> tensor<6x5xf32>
  %d = kerf.sub %x, %ms : tensor<6x5xf32>
  %e = kerf.exp %d : tensor<6x5xf32>
  %s = kerf.reduce sum %e dims [1] : tensor<6x5xf32>
  %l = kerf.log %s : tensor<6xf32>
  %ls = kerf.broadcast %l dims [0] : tensor<6xf32> -> tensor<6x5xf32>
  %p = kerf.sub %d, %ls : tensor<6x5xf32>
  %column = kerf.iota dim 1 : tensor<6x5xi32>
  %index = kerf.broadcast %t dims [0] : tensor<6xi32> -> tensor<6x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<6x5xi32>
  %none = kerf.constant dense<0.0> : tensor<6x5xf32>
  %kept = kerf.select %chosen, %p, %none : tensor<6x5xf32>
  %picked = kerf.reduce sum %kept dims [1] : tensor<6x5xf32>
  %w = kerf.constant dense<-0.16666666666666666> : tensor<6xf32>
  %rows = kerf.mul %picked, %w : tensor<6xf32>
  %loss = kerf.reduce sum %rows dims [0] : tensor<6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A loss that others read, and that something is added to.
// CHECK-LABEL: @with_penalty(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
// CHECK-NEXT: %[[COUNT_VALID:.*]] = kerf.count_valid %targets : tensor<2x3xi32>
// CHECK-NEXT: %[[CROSS_ENTROPY:.*]] = kerf.cross_entropy %[[X]], %targets normalizer %[[COUNT_VALID]] : tensor<2x3x5xf32>, tensor<2x3xi32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[X]], %[[X]] : tensor<2x3x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2] : tensor<2x3x5xf32>
// CHECK-NEXT: %[[ADD:.*]] = kerf.add %[[CROSS_ENTROPY]], %[[SUM]] : tensor<f32>
// CHECK-NEXT: kerf.return %[[ADD]], %[[CROSS_ENTROPY]] : tensor<f32>, tensor<f32>
kerf.model @with_penalty(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %ls = kerf.broadcast %l dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %p = kerf.sub %d, %ls : tensor<2x3x5xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %p, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %rows = kerf.neg %picked : tensor<2x3xf32>
  %total = kerf.reduce sum %rows dims [0, 1] : tensor<2x3xf32>
  %sixth = kerf.constant dense<0.16666666666666666> : tensor<f32>
  %mean = kerf.mul %total, %sixth : tensor<f32>
  %sq = kerf.mul %x, %x : tensor<2x3x5xf32>
  %norm = kerf.reduce sum %sq dims [0, 1, 2] : tensor<2x3x5xf32>
  %loss = kerf.add %mean, %norm : tensor<f32>
  kerf.return %loss, %mean : tensor<f32>, tensor<f32>
}

// -----

// A sum with weights is left as it is.
// CHECK-LABEL: @weighted(
// CHECK-NOT: kerf.cross_entropy
// CHECK: kerf.return
kerf.model @weighted(targets %targets: tensor<2x3xi32>, segments %segments: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %ls = kerf.broadcast %l dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %p = kerf.sub %d, %ls : tensor<2x3x5xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %p, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %weights = kerf.cast %segments : tensor<2x3xi32> -> tensor<2x3xf32>
  %rows = kerf.mul %picked, %weights : tensor<2x3xf32>
  %total = kerf.reduce sum %rows dims [0, 1] : tensor<2x3xf32>
  %count = kerf.constant dense<6.0> : tensor<f32>
  %loss = kerf.div %total, %count : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// So is one whose targets are transposed.
// CHECK-LABEL: @turned(
// CHECK-NOT: kerf.cross_entropy
// CHECK: kerf.return
kerf.model @turned(targets %targets: tensor<3x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<3x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<3x3xf32> -> tensor<3x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<3x3x5xf32>
  %e = kerf.exp %d : tensor<3x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<3x3x5xf32>
  %l = kerf.log %s : tensor<3x3xf32>
  %ls = kerf.broadcast %l dims [0, 1] : tensor<3x3xf32> -> tensor<3x3x5xf32>
  %p = kerf.sub %d, %ls : tensor<3x3x5xf32>
  %t = kerf.transpose %targets perm [1, 0] : tensor<3x3xi32>
  %column = kerf.iota dim 2 : tensor<3x3x5xi32>
  %index = kerf.broadcast %t dims [0, 1] : tensor<3x3xi32> -> tensor<3x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<3x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<3x3x5xf32>
  %kept = kerf.select %chosen, %p, %none : tensor<3x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<3x3x5xf32>
  %total = kerf.reduce sum %picked dims [0, 1] : tensor<3x3xf32>
  %count = kerf.constant dense<-9.0> : tensor<f32>
  %loss = kerf.div %total, %count : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// And one that picks from other rows than those whose exponentials are summed.
// CHECK-LABEL: @other_rows(
// CHECK-NOT: kerf.cross_entropy
// CHECK: kerf.return
kerf.model @other_rows(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %v dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %v, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %sum = kerf.add %l, %m : tensor<2x3xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %x, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %rows = kerf.sub %sum, %picked : tensor<2x3xf32>
  %total = kerf.reduce sum %rows dims [0, 1] : tensor<2x3xf32>
  %count = kerf.constant dense<6.0> : tensor<f32>
  %loss = kerf.div %total, %count : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// And one whose sums of sequences are not added.
// CHECK-LABEL: @parts(
// CHECK-NOT: kerf.cross_entropy
// CHECK: kerf.return
kerf.model @parts(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %ls = kerf.broadcast %l dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %p = kerf.sub %d, %ls : tensor<2x3x5xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %p, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %a = kerf.reduce sum %picked dims [1] : tensor<2x3xf32>
  %b = kerf.mul %a, %a : tensor<2xf32>
  %loss = kerf.reduce sum %b dims [0] : tensor<2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// And one that picks several of a row.
// CHECK-LABEL: @not_eq(
// CHECK-NOT: kerf.cross_entropy
// CHECK: kerf.return
kerf.model @not_eq(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %ls = kerf.broadcast %l dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %p = kerf.sub %d, %ls : tensor<2x3x5xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare le %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %p, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %total = kerf.reduce sum %picked dims [0, 1] : tensor<2x3xf32>
  %count = kerf.constant dense<-6.0> : tensor<f32>
  %loss = kerf.div %total, %count : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// And one whose targets are the same for all sequences.
// CHECK-LABEL: @one_target(
// CHECK-NOT: kerf.cross_entropy
// CHECK: kerf.return
kerf.model @one_target(targets %targets: tensor<3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %ls = kerf.broadcast %l dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %p = kerf.sub %d, %ls : tensor<2x3x5xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [1] : tensor<3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %p, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %total = kerf.reduce sum %picked dims [0, 1] : tensor<2x3xf32>
  %count = kerf.constant dense<-6.0> : tensor<f32>
  %loss = kerf.div %total, %count : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// Losses of rows that are repeated count as often.
// CHECK-LABEL: @repeated_rows
// CHECK-NOT: kerf.cross_entropy
kerf.model @repeated_rows(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %ls = kerf.broadcast %l dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %p = kerf.sub %d, %ls : tensor<2x3x5xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %p, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %many = kerf.broadcast %picked dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x4xf32>
  %total = kerf.reduce sum %many dims [0, 1, 2] : tensor<2x3x4xf32>
  %loss = kerf.neg %total : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// A one-hot row of a number that was computed may be empty: the loss of that
// row is 0 there.
// CHECK-LABEL: @computed_index
// CHECK-NOT: kerf.cross_entropy
kerf.model @computed_index(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %ls = kerf.broadcast %l dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %p = kerf.sub %d, %ls : tensor<2x3x5xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %one = kerf.constant dense<1> : tensor<2x3xi32>
  %before = kerf.sub %targets, %one : tensor<2x3xi32>
  %index = kerf.broadcast %before dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %p, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %total = kerf.reduce sum %picked dims [0, 1] : tensor<2x3xf32>
  %loss = kerf.neg %total : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// Rows that a condition leaves out are targets that do not count: the mean is
// one of the others.
// CHECK-LABEL: @left_out(
// CHECK-DAG: %[[PAD:.*]] = kerf.constant dense<0> : tensor<2x3xi32>
// CHECK-DAG: %[[IGNORED:.*]] = kerf.constant dense<-100> : tensor<2x3xi32>
// CHECK: %[[COUNTS:.*]] = kerf.compare ne %targets, %[[PAD]] : tensor<2x3xi32>
// CHECK: %[[TARGETS:.*]] = kerf.select %[[COUNTS]], %targets, %[[IGNORED]] : tensor<2x3xi32>
// CHECK: %[[COUNT:.*]] = kerf.count_valid %[[TARGETS]] : tensor<2x3xi32>
// CHECK: %[[LOSS:.*]] = kerf.cross_entropy %{{.*}}, %[[TARGETS]] normalizer %[[COUNT]]
// CHECK: kerf.return %[[LOSS]]
kerf.model @left_out(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %ls = kerf.broadcast %l dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %p = kerf.sub %d, %ls : tensor<2x3x5xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %p, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %rows = kerf.neg %picked : tensor<2x3xf32>
  %pad = kerf.constant dense<0> : tensor<2x3xi32>
  %counts = kerf.compare ne %targets, %pad : tensor<2x3xi32>
  %weight = kerf.cast %counts : tensor<2x3xi1> -> tensor<2x3xf32>
  %weighted = kerf.mul %rows, %weight : tensor<2x3xf32>
  %total = kerf.reduce sum %weighted dims [0, 1] : tensor<2x3xf32>
  %sum = kerf.reduce sum %weight dims [0, 1] : tensor<2x3xf32>
  %one = kerf.constant dense<1.0> : tensor<f32>
  %count = kerf.max %sum, %one : tensor<f32>
  %loss = kerf.div %total, %count : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// Divided by the number of all rows it is that sum; and what is divided by
// another sum of weights is no mean of these.
// CHECK-LABEL: @weighted_sums(
// CHECK-NOT: kerf.count_valid
// CHECK: kerf.cross_entropy
// CHECK-NOT: kerf.count_valid
// CHECK: kerf.div
kerf.model @weighted_sums(targets %targets: tensor<2x3xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x5xf32>
  %m = kerf.reduce max %x dims [2] : tensor<2x3x5xf32>
  %ms = kerf.broadcast %m dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x5xf32>
  %e = kerf.exp %d : tensor<2x3x5xf32>
  %s = kerf.reduce sum %e dims [2] : tensor<2x3x5xf32>
  %l = kerf.log %s : tensor<2x3xf32>
  %ls = kerf.broadcast %l dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x5xf32>
  %p = kerf.sub %d, %ls : tensor<2x3x5xf32>
  %column = kerf.iota dim 2 : tensor<2x3x5xi32>
  %index = kerf.broadcast %targets dims [0, 1] : tensor<2x3xi32> -> tensor<2x3x5xi32>
  %chosen = kerf.compare eq %index, %column : tensor<2x3x5xi32>
  %none = kerf.constant dense<0.0> : tensor<2x3x5xf32>
  %kept = kerf.select %chosen, %p, %none : tensor<2x3x5xf32>
  %picked = kerf.reduce sum %kept dims [2] : tensor<2x3x5xf32>
  %rows = kerf.neg %picked : tensor<2x3xf32>
  %pad = kerf.constant dense<0> : tensor<2x3xi32>
  %counts = kerf.compare ne %targets, %pad : tensor<2x3xi32>
  %weight = kerf.cast %counts : tensor<2x3xi1> -> tensor<2x3xf32>
  %weighted = kerf.mul %rows, %weight : tensor<2x3xf32>
  %total = kerf.reduce sum %weighted dims [0, 1] : tensor<2x3xf32>
  %four = kerf.constant dense<4> : tensor<2x3xi32>
  %small = kerf.compare lt %targets, %four : tensor<2x3xi32>
  %other = kerf.cast %small : tensor<2x3xi1> -> tensor<2x3xf32>
  %sum = kerf.reduce sum %other dims [0, 1] : tensor<2x3xf32>
  %six = kerf.constant dense<6.0> : tensor<f32>
  %part = kerf.div %total, %six : tensor<f32>
  %loss = kerf.div %part, %sum : tensor<f32>
  kerf.return %loss : tensor<f32>
}
