// RUN: kerf-opt %s --split-input-file --kerf-raise | FileCheck %s

// Scores under a soft cap, then masked.
// CHECK-LABEL: @softcap
// CHECK: kerf.attention %{{.*}} causal scale 1.000000e+00 softcap 4.000000e+00
// CHECK-NOT: kerf.softmax
kerf.model @softcap() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x8xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x8xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x8xf32>
  %s = kerf.einsum "bqhd,bkhd->bhqk" %q, %k : tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32> -> tensor<2x3x4x4xf32>
  %third = kerf.constant dense<0.25> : tensor<2x3x4x4xf32>
  %cap = kerf.constant dense<4.0> : tensor<2x3x4x4xf32>
  %small = kerf.mul %s, %third : tensor<2x3x4x4xf32>
  %bent = kerf.tanh %small : tensor<2x3x4x4xf32>
  %capped = kerf.mul %bent, %cap : tensor<2x3x4x4xf32>
  %row = kerf.iota dim 2 : tensor<2x3x4x4xi32>
  %column = kerf.iota dim 3 : tensor<2x3x4x4xi32>
  %seen = kerf.compare le %column, %row : tensor<2x3x4x4xi32>
  %low = kerf.constant dense<-1.0e30> : tensor<2x3x4x4xf32>
  %masked = kerf.select %seen, %capped, %low : tensor<2x3x4x4xf32>
  %p = kerf.softmax %masked : tensor<2x3x4x4xf32>
  %y = kerf.einsum "bhqk,bkhd->bqhd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x3x8xf32> -> tensor<2x4x3x8xf32>
  %z = kerf.mul %y, %y : tensor<2x4x3x8xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2, 3] : tensor<2x4x3x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A mask under the cap leaves what it hides some weight.
// CHECK-LABEL: @mask_under_cap
// CHECK-NOT: kerf.attention
// CHECK: kerf.softmax
kerf.model @mask_under_cap() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x8xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x8xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x8xf32>
  %s = kerf.einsum "bqhd,bkhd->bhqk" %q, %k : tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32> -> tensor<2x3x4x4xf32>
  %row = kerf.iota dim 2 : tensor<2x3x4x4xi32>
  %column = kerf.iota dim 3 : tensor<2x3x4x4xi32>
  %seen = kerf.compare le %column, %row : tensor<2x3x4x4xi32>
  %low = kerf.constant dense<-1.0e30> : tensor<2x3x4x4xf32>
  %masked = kerf.select %seen, %s, %low : tensor<2x3x4x4xf32>
  %third = kerf.constant dense<0.25> : tensor<2x3x4x4xf32>
  %cap = kerf.constant dense<4.0> : tensor<2x3x4x4xf32>
  %small = kerf.mul %masked, %third : tensor<2x3x4x4xf32>
  %bent = kerf.tanh %small : tensor<2x3x4x4xf32>
  %capped = kerf.mul %bent, %cap : tensor<2x3x4x4xf32>
  %p = kerf.softmax %capped : tensor<2x3x4x4xf32>
  %y = kerf.einsum "bhqk,bkhd->bqhd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x3x8xf32> -> tensor<2x4x3x8xf32>
  %z = kerf.mul %y, %y : tensor<2x4x3x8xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2, 3] : tensor<2x4x3x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Each head may attend to nothing, by one more score.
// CHECK-LABEL: @sinks
// CHECK: %[[S:.*]] = kerf.param "sinks"
// CHECK: %[[Y:.*]], %[[L:.*]] = kerf.attention %{{.*}} causal scale 1.000000e+00 lse
// CHECK: kerf.attention_sink %[[Y]], %[[L]], %[[S]]
// CHECK-NOT: kerf.softmax
kerf.model @sinks() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x8xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x8xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x8xf32>
  %s = kerf.einsum "bqhd,bkhd->bhqk" %q, %k : tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32> -> tensor<2x3x4x4xf32>
  %row = kerf.iota dim 2 : tensor<2x3x4x4xi32>
  %column = kerf.iota dim 3 : tensor<2x3x4x4xi32>
  %seen = kerf.compare le %column, %row : tensor<2x3x4x4xi32>
  %low = kerf.constant dense<-1.0e30> : tensor<2x3x4x4xf32>
  %masked = kerf.select %seen, %s, %low : tensor<2x3x4x4xf32>
  %sinks = kerf.param "sinks" init<normal, 1.0> : tensor<3xf32>
  %spread = kerf.broadcast %sinks dims [1] : tensor<3xf32> -> tensor<2x3x4x1xf32>
  %all = kerf.concat dim 3 %masked, %spread : tensor<2x3x4x4xf32>, tensor<2x3x4x1xf32>
  %top = kerf.reduce max %all dims [3] : tensor<2x3x4x5xf32>
  %tops = kerf.broadcast %top dims [0, 1, 2] : tensor<2x3x4xf32> -> tensor<2x3x4x5xf32>
  %low1 = kerf.sub %all, %tops : tensor<2x3x4x5xf32>
  %p1 = kerf.softmax %low1 : tensor<2x3x4x5xf32>
  %p = kerf.slice %p1 offsets [0, 0, 0, 0] sizes [2, 3, 4, 4] : tensor<2x3x4x5xf32>
  %y = kerf.einsum "bhqk,bkhd->bqhd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x3x8xf32> -> tensor<2x4x3x8xf32>
  %z = kerf.mul %y, %y : tensor<2x4x3x8xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2, 3] : tensor<2x4x3x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// One more score of each query is no number of a head.
// CHECK-LABEL: @score_of_queries
// CHECK-NOT: kerf.attention
// CHECK: kerf.softmax
kerf.model @score_of_queries() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x8xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x8xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x8xf32>
  %s = kerf.einsum "bqhd,bkhd->bhqk" %q, %k : tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32> -> tensor<2x3x4x4xf32>
  %row = kerf.iota dim 2 : tensor<2x3x4x4xi32>
  %column = kerf.iota dim 3 : tensor<2x3x4x4xi32>
  %seen = kerf.compare le %column, %row : tensor<2x3x4x4xi32>
  %low = kerf.constant dense<-1.0e30> : tensor<2x3x4x4xf32>
  %masked = kerf.select %seen, %s, %low : tensor<2x3x4x4xf32>
  %sinks = kerf.param "sinks" init<normal, 1.0> : tensor<4xf32>
  %spread = kerf.broadcast %sinks dims [2] : tensor<4xf32> -> tensor<2x3x4x1xf32>
  %all = kerf.concat dim 3 %masked, %spread : tensor<2x3x4x4xf32>, tensor<2x3x4x1xf32>
  %top = kerf.reduce max %all dims [3] : tensor<2x3x4x5xf32>
  %tops = kerf.broadcast %top dims [0, 1, 2] : tensor<2x3x4xf32> -> tensor<2x3x4x5xf32>
  %low1 = kerf.sub %all, %tops : tensor<2x3x4x5xf32>
  %p1 = kerf.softmax %low1 : tensor<2x3x4x5xf32>
  %p = kerf.slice %p1 offsets [0, 0, 0, 0] sizes [2, 3, 4, 4] : tensor<2x3x4x5xf32>
  %y = kerf.einsum "bhqk,bkhd->bqhd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x3x8xf32> -> tensor<2x4x3x8xf32>
  %z = kerf.mul %y, %y : tensor<2x4x3x8xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2, 3] : tensor<2x4x3x8xf32>
  kerf.return %loss : tensor<f32>
}
