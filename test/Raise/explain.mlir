// RUN: kerf-opt %s --split-input-file --kerf-raise=explain --mlir-print-op-on-diagnostic=false -o %t 2>%t.told
// RUN: FileCheck %s --input-file=%t.told --implicit-check-not="is left plain"

// A window without a causal mask.
// CHECK: remark: attention is left plain: it has a window or chunks without a causal mask
// CHECK: remark: the loss is left plain: it is no sum or mean over rows of a cross entropy
kerf.model @window_alone() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x6x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x2x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x2x5xf32>
  %q5 = kerf.reshape %q : tensor<2x4x6x5xf32> -> tensor<2x4x2x3x5xf32>
  %s = kerf.einsum "btngd,bsnd->bngts" %q5, %k : tensor<2x4x2x3x5xf32>, tensor<2x4x2x5xf32> -> tensor<2x2x3x4x4xf32>
  %c = kerf.constant dense<0.5> : tensor<2x2x3x4x4xf32>
  %scaled = kerf.mul %s, %c : tensor<2x2x3x4x4xf32>
  %low = kerf.constant dense<-1.0e30> : tensor<2x2x3x4x4xf32>
  %row = kerf.iota dim 0 : tensor<4x4xi32>
  %column = kerf.iota dim 1 : tensor<4x4xi32>
  %two = kerf.constant dense<2> : tensor<4x4xi32>
  %first = kerf.sub %row, %two : tensor<4x4xi32>
  %seen = kerf.compare ge %column, %first : tensor<4x4xi32>
  %mask = kerf.broadcast %seen dims [3, 4] : tensor<4x4xi1> -> tensor<2x2x3x4x4xi1>
  %masked = kerf.select %mask, %scaled, %low : tensor<2x2x3x4x4xf32>
  %p = kerf.softmax %masked : tensor<2x2x3x4x4xf32>
  %o = kerf.einsum "bngts,bsnd->btngd" %p, %v : tensor<2x2x3x4x4xf32>, tensor<2x4x2x5xf32> -> tensor<2x4x2x3x5xf32>
  %y = kerf.reshape %o : tensor<2x4x2x3x5xf32> -> tensor<2x4x6x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x6x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x6x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x6x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A mask of heads and keys.
// CHECK: remark: attention is left plain: its mask is none of the causal, window, chunk and document masks
// CHECK: remark: the loss is left plain: it is no sum or mean over rows of a cross entropy
kerf.model @mask_of_heads() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x4x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x4x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x4x5xf32>
  %s = kerf.einsum "bqnd,bknd->bnqk" %q, %k : tensor<2x4x4x5xf32>, tensor<2x4x4x5xf32> -> tensor<2x4x4x4xf32>
  %head = kerf.iota dim 1 : tensor<2x4x4x4xi32>
  %column = kerf.iota dim 3 : tensor<2x4x4x4xi32>
  %seen = kerf.compare le %column, %head : tensor<2x4x4x4xi32>
  %low = kerf.constant dense<-1.0e30> : tensor<2x4x4x4xf32>
  %masked = kerf.select %seen, %s, %low : tensor<2x4x4x4xf32>
  %p = kerf.softmax %masked : tensor<2x4x4x4xf32>
  %y = kerf.einsum "bnqk,bknd->bqnd" %p, %v : tensor<2x4x4x4xf32>, tensor<2x4x4x5xf32> -> tensor<2x4x4x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x4x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x4x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x4x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A matmul that sums heads.
// CHECK: remark: attention is left plain: its matmuls have other dimensions than those of queries, keys and values
// CHECK: remark: the loss is left plain: it is no sum or mean over rows of a cross entropy
kerf.model @summed_heads() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %s = kerf.einsum "bqnd,bknd->bnqk" %q, %k : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x3x4x4xf32>
  %p = kerf.softmax %s : tensor<2x3x4x4xf32>
  %y = kerf.einsum "bnqk,bknd->bqd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2] : tensor<2x4x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Scores that something else is made of.
// CHECK: remark: attention is left plain: 'kerf.sin' stands between the scores and the softmax
// CHECK: remark: the loss is left plain: it is no sum or mean over rows of a cross entropy
kerf.model @bias() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %s = kerf.einsum "bqnd,bknd->bnqk" %q, %k : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x3x4x4xf32>
  %t = kerf.sin %s : tensor<2x3x4x4xf32>
  %p = kerf.softmax %t : tensor<2x3x4x4xf32>
  %y = kerf.einsum "bnqk,bknd->bqnd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x3x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Scores that a parameter is added to.
// CHECK: remark: attention is left plain: 'kerf.add' stands between the scores and the softmax
// CHECK: remark: the loss is left plain: it is no sum or mean over rows of a cross entropy
kerf.model @summand() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %s = kerf.einsum "bqnd,bknd->bnqk" %q, %k : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x3x4x4xf32>
  %bias = kerf.param "bias" init<normal, 1.0> : tensor<2x3x4x4xf32>
  %t = kerf.add %s, %bias : tensor<2x3x4x4xf32>
  %p = kerf.softmax %t : tensor<2x3x4x4xf32>
  %y = kerf.einsum "bnqk,bknd->bqnd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x3x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Nothing is told of an attention that was found.
// CHECK: remark: raised plain ops to 1 attention
// CHECK: remark: the loss is left plain: it is no sum or mean over rows of a cross entropy
kerf.model @any_letters() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %s = kerf.einsum "adbc,aebc->abde" %q, %k : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x3x4x4xf32>
  %c = kerf.constant dense<0.25> : tensor<2x3x4x4xf32>
  %scaled = kerf.mul %s, %c : tensor<2x3x4x4xf32>
  %row = kerf.iota dim 0 : tensor<4x4xi32>
  %column = kerf.iota dim 1 : tensor<4x4xi32>
  %seen = kerf.compare le %column, %row : tensor<4x4xi32>
  %mask = kerf.broadcast %seen dims [2, 3] : tensor<4x4xi1> -> tensor<2x3x4x4xi1>
  %low = kerf.constant dense<0xFF800000> : tensor<2x3x4x4xf32>
  %masked = kerf.select %mask, %scaled, %low : tensor<2x3x4x4xf32>
  %p = kerf.softmax %masked : tensor<2x3x4x4xf32>
  %o = kerf.einsum "acbd,abec->abde" %v, %p : tensor<2x4x3x5xf32>, tensor<2x3x4x4xf32> -> tensor<2x3x5x4xf32>
  %y = kerf.transpose %o perm [0, 3, 1, 2] : tensor<2x3x5x4xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x3x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Nor of a loss.
// CHECK: remark: raised plain ops to 1 cross_entropy
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
