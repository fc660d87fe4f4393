// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt --mlir-print-op-generic %s | kerf-opt | FileCheck %s

// Ops that make tensors of nothing, with every clause.
// CHECK-LABEL: kerf.model @sources(
// CHECK-SAME: seed %[[SEED:.*]]: tensor<i32>, step %[[STEP:.*]]: tensor<i32>, %[[AT:.*]]: tensor<i32>) {
kerf.model @sources(seed %seed: tensor<i32>, step %step: tensor<i32>, %at: tensor<i32>) {
  // CHECK: %[[SCALAR:.*]] = kerf.constant dense<5.000000e-01> : tensor<f32>
  %scalar = kerf.constant dense<0.5> : tensor<f32>
  // CHECK: %[[BOOLS:.*]] = kerf.constant dense<[true, false]> : tensor<2xi1>
  %bools = kerf.constant dense<[true, false]> : tensor<2xi1>
  // CHECK: %[[INTS:.*]] = kerf.constant {kerf.phase = #kerf.phase<forward 0>} dense<[1, -2]> : tensor<2xi32>
  %ints = kerf.constant {kerf.phase = #kerf.phase<forward 0>} dense<[1, -2]> : tensor<2xi32>
  // CHECK: %[[IOTA:.*]] = kerf.iota dim 1 : tensor<2x8xi32>
  %iota = kerf.iota dim 1 : tensor<2x8xi32>
  // CHECK: %[[PART:.*]] = kerf.iota dim 0 offset %[[AT]] : tensor<4xi32>
  %part = kerf.iota dim 0 offset %at : tensor<4xi32>
  // CHECK: %[[RANDOM:.*]] = kerf.random_uniform "drop" seed %[[SEED]] step %[[STEP]] : tensor<2x8xf32>
  %random = kerf.random_uniform "drop" seed %seed step %step : tensor<2x8xf32>
  // CHECK: %[[SHARD:.*]] = kerf.random_uniform "drop" seed %[[SEED]] step %[[STEP]] layer %[[AT]] offsets(%[[AT]], %[[AT]]) global [4, 8] : tensor<2x8xf16>
  %shard = kerf.random_uniform "drop" seed %seed step %step layer %at offsets(%at, %at) global [4, 8] : tensor<2x8xf16>
  // CHECK: kerf.return %[[SCALAR]] : tensor<f32>
  kerf.return %scalar : tensor<f32>
}

// Ops that change the shape.
// CHECK-LABEL: kerf.model @shapes(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>, %[[M:.*]]: tensor<2xi1>) {
kerf.model @shapes(%x: tensor<4x6xf32>, %m: tensor<2xi1>) {
  // CHECK: %[[BROADCAST:.*]] = kerf.broadcast %[[X]] dims [0, 2] : tensor<4x6xf32> -> tensor<4x3x6xf32>
  %broadcast = kerf.broadcast %x dims [0, 2] : tensor<4x6xf32> -> tensor<4x3x6xf32>
  // CHECK: %[[ALL:.*]] = kerf.broadcast %[[M]] dims [1] : tensor<2xi1> -> tensor<3x2xi1>
  %all = kerf.broadcast %m dims [1] : tensor<2xi1> -> tensor<3x2xi1>
  // CHECK: %[[RESHAPE:.*]] = kerf.reshape %[[X]] : tensor<4x6xf32> -> tensor<4x2x3xf32>
  %reshape = kerf.reshape %x : tensor<4x6xf32> -> tensor<4x2x3xf32>
  // CHECK: %[[TRANSPOSE:.*]] = kerf.transpose %[[X]] perm [1, 0] : tensor<4x6xf32>
  %transpose = kerf.transpose %x perm [1, 0] : tensor<4x6xf32>
  // CHECK: %[[SLICE:.*]] = kerf.slice %[[X]] offsets [0, 2] sizes [4, 3] : tensor<4x6xf32>
  %slice = kerf.slice %x offsets [0, 2] sizes [4, 3] : tensor<4x6xf32>
  // CHECK: %[[PAD:.*]] = kerf.pad %[[X]] low [0, 2] high [1, 0] : tensor<4x6xf32>
  %pad = kerf.pad %x low [0, 2] high [1, 0] : tensor<4x6xf32>
  // CHECK: %[[CONCAT:.*]] = kerf.concat dim 1 %[[X]], %[[SLICE]], %[[X]] : tensor<4x6xf32>, tensor<4x3xf32>, tensor<4x6xf32>
  %concat = kerf.concat dim 1 %x, %slice, %x : tensor<4x6xf32>, tensor<4x3xf32>, tensor<4x6xf32>
  // CHECK: %[[LONG:.*]] = kerf.concat dim 1 %[[CONCAT]] : tensor<4x15xf32>
  %long = kerf.concat dim 1 %concat : tensor<4x15xf32>
  // CHECK: %[[LOSS:.*]] = kerf.reduce sum %[[X]] dims [0, 1] : tensor<4x6xf32>
  %loss = kerf.reduce sum %x dims [0, 1] : tensor<4x6xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Scalars have no dimensions to name.
// CHECK-LABEL: kerf.model @scalars(
// CHECK-SAME: %[[X:.*]]: tensor<f32>) {
kerf.model @scalars(%x: tensor<f32>) {
  // CHECK: %[[BROADCAST:.*]] = kerf.broadcast %[[X]] dims [] : tensor<f32> -> tensor<2xf32>
  %broadcast = kerf.broadcast %x dims [] : tensor<f32> -> tensor<2xf32>
  // CHECK: %[[RESHAPE:.*]] = kerf.reshape %[[X]] : tensor<f32> -> tensor<1x1xf32>
  %reshape = kerf.reshape %x : tensor<f32> -> tensor<1x1xf32>
  // CHECK: %[[TRANSPOSE:.*]] = kerf.transpose %[[X]] perm [] : tensor<f32>
  %transpose = kerf.transpose %x perm [] : tensor<f32>
  // CHECK: %[[SLICE:.*]] = kerf.slice %[[X]] offsets [] sizes [] : tensor<f32>
  %slice = kerf.slice %x offsets [] sizes [] : tensor<f32>
  // CHECK: %[[PAD:.*]] = kerf.pad %[[X]] low [] high [] : tensor<f32>
  %pad = kerf.pad %x low [] high [] : tensor<f32>
  // CHECK: %[[REDUCE:.*]] = kerf.reduce sum %[[X]] dims [] : tensor<f32>
  %reduce = kerf.reduce sum %x dims [] : tensor<f32>
  // CHECK: kerf.return %[[X]] : tensor<f32>
  kerf.return %x : tensor<f32>
}

// Ops that combine elements.
// CHECK-LABEL: kerf.model @combinations(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>, %[[W:.*]]: tensor<5x6xbf16>, %[[INDEX:.*]]: tensor<2x3xi32>) {
kerf.model @combinations(%x: tensor<4x6xf32>, %w: tensor<5x6xbf16>, %index: tensor<2x3xi32>) {
  // CHECK: %[[EINSUM:.*]] = kerf.einsum "bk,nk->nb" %[[X]], %[[W]] : tensor<4x6xf32>, tensor<5x6xbf16> -> tensor<5x4xf64>
  %einsum = kerf.einsum "bk,nk->nb" %x, %w : tensor<4x6xf32>, tensor<5x6xbf16> -> tensor<5x4xf64>
  // CHECK: %[[SUM:.*]] = kerf.reduce sum %[[X]] dims [0, 1] : tensor<4x6xf32>
  %sum = kerf.reduce sum %x dims [0, 1] : tensor<4x6xf32>
  // CHECK: kerf.unit %[[X]] of f8E5M2 : tensor<4x6xf32>
  %unit = kerf.unit %x of f8E5M2 : tensor<4x6xf32>
  // CHECK: %[[MAX:.*]] = kerf.reduce max %[[X]] dims [1] : tensor<4x6xf32>
  %max = kerf.reduce max %x dims [1] : tensor<4x6xf32>
  // CHECK: %[[CUMSUM:.*]] = kerf.cumsum %[[X]] dim 1 : tensor<4x6xf32>
  %cumsum = kerf.cumsum %x dim 1 : tensor<4x6xf32>
  // CHECK: %[[VALUES:.*]], %[[INDICES:.*]] = kerf.top_k %[[X]] k 2 : tensor<4x6xf32>
  %values, %indices = kerf.top_k %x k 2 : tensor<4x6xf32>
  // CHECK: %[[GATHER:.*]] = kerf.gather %[[X]], %[[INDEX]] : tensor<4x6xf32>, tensor<2x3xi32>
  %gather = kerf.gather %x, %index : tensor<4x6xf32>, tensor<2x3xi32>
  // CHECK: %[[SCATTER:.*]] = kerf.scatter_add %[[GATHER]], %[[INDEX]] : tensor<2x3x6xf32>, tensor<2x3xi32> -> tensor<4x6xf32>
  %scatter = kerf.scatter_add %gather, %index : tensor<2x3x6xf32>, tensor<2x3xi32> -> tensor<4x6xf32>
  // CHECK: kerf.return %[[SUM]] : tensor<f32>
  kerf.return %sum : tensor<f32>
}
