// RUN: kerf-opt %s --split-input-file --kerf-raise | FileCheck %s

// A causal mask of positions, scores in two einsums, heads repeated for groups.
// CHECK-LABEL: @causal
// CHECK: %[[Q:.*]] = kerf.param "q"
// CHECK: %[[K:.*]] = kerf.param "k"
// CHECK: %[[V:.*]] = kerf.param "v"
// CHECK: kerf.attention %[[Q]], %[[K]], %[[V]] causal scale 2.500000e-01 : tensor<2x4x4x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>
// CHECK-NOT: kerf.softmax
kerf.model @causal() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x4x8xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x2x8xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x2x8xf32>
  %kg = kerf.broadcast %k dims [0, 1, 2, 4] : tensor<2x4x2x8xf32> -> tensor<2x4x2x2x8xf32>
  %kh = kerf.reshape %kg : tensor<2x4x2x2x8xf32> -> tensor<2x4x4x8xf32>
  %vg = kerf.broadcast %v dims [0, 1, 2, 4] : tensor<2x4x2x8xf32> -> tensor<2x4x2x2x8xf32>
  %vh = kerf.reshape %vg : tensor<2x4x2x2x8xf32> -> tensor<2x4x4x8xf32>
  %s = kerf.einsum "bqhd,bkhd->bhqk" %q, %kh : tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32> -> tensor<2x4x4x4xf32>
  %c = kerf.constant dense<0.25> : tensor<2x4x4x4xf32>
  %scaled = kerf.mul %s, %c : tensor<2x4x4x4xf32>
  %row = kerf.iota dim 0 : tensor<4x4xi32>
  %column = kerf.iota dim 1 : tensor<4x4xi32>
  %seen = kerf.compare le %column, %row : tensor<4x4xi32>
  %mask = kerf.broadcast %seen dims [2, 3] : tensor<4x4xi1> -> tensor<2x4x4x4xi1>
  %low = kerf.constant dense<0xFF800000> : tensor<2x4x4x4xf32>
  %masked = kerf.select %mask, %scaled, %low : tensor<2x4x4x4xf32>
  %p = kerf.softmax %masked : tensor<2x4x4x4xf32>
  %y = kerf.einsum "bhqk,bkhd->bqhd" %p, %vh : tensor<2x4x4x4xf32>, tensor<2x4x4x8xf32> -> tensor<2x4x4x8xf32>
  %z = kerf.mul %y, %y : tensor<2x4x4x8xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2, 3] : tensor<2x4x4x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A window, by a mask of what is hidden that is added; matrices with heads in front.
// CHECK-LABEL: @window
// CHECK: kerf.attention %{{.*}} causal window 3 scale 1.000000e+00
// CHECK-NOT: kerf.softmax
kerf.model @window() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x2x6x4xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x2x6x4xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x2x6x4xf32>
  %kt = kerf.transpose %k perm [0, 1, 3, 2] : tensor<2x2x6x4xf32>
  %s = kerf.matmul %q, %kt : tensor<2x2x6x4xf32>, tensor<2x2x4x6xf32>
  %row = kerf.iota dim 0 : tensor<6x6xi32>
  %column = kerf.iota dim 1 : tensor<6x6xi32>
  %behind = kerf.sub %row, %column : tensor<6x6xi32>
  %three = kerf.constant dense<3> : tensor<6x6xi32>
  %far = kerf.compare ge %behind, %three : tensor<6x6xi32>
  %ahead = kerf.compare gt %column, %row : tensor<6x6xi32>
  %true = kerf.constant dense<true> : tensor<6x6xi1>
  %hidden = kerf.select %far, %true, %ahead : tensor<6x6xi1>
  %low = kerf.constant dense<-1.0e9> : tensor<6x6xf32>
  %none = kerf.constant dense<0.0> : tensor<6x6xf32>
  %plane = kerf.select %hidden, %low, %none : tensor<6x6xf32>
  %mask = kerf.broadcast %plane dims [2, 3] : tensor<6x6xf32> -> tensor<2x2x6x6xf32>
  %masked = kerf.add %s, %mask : tensor<2x2x6x6xf32>
  %p = kerf.softmax %masked : tensor<2x2x6x6xf32>
  %y = kerf.matmul %p, %v : tensor<2x2x6x6xf32>, tensor<2x2x6x4xf32>
  %z = kerf.mul %y, %y : tensor<2x2x6x4xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2, 3] : tensor<2x2x6x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Documents of their own.
// CHECK-LABEL: @documents
// CHECK: kerf.attention %{{.*}} causal scale 1.000000e+00 segments(%segments, %segments : tensor<2x6xi32>, tensor<2x6xi32>)
kerf.model @documents(segments %segments: tensor<2x6xi32>) {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x2x6x4xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x2x6x4xf32>
  %kt = kerf.transpose %k perm [0, 1, 3, 2] : tensor<2x2x6x4xf32>
  %s = kerf.matmul %q, %kt : tensor<2x2x6x4xf32>, tensor<2x2x4x6xf32>
  %row = kerf.iota dim 2 : tensor<2x2x6x6xi32>
  %column = kerf.iota dim 3 : tensor<2x2x6x6xi32>
  %seen = kerf.compare ge %row, %column : tensor<2x2x6x6xi32>
  %a = kerf.broadcast %segments dims [0, 2] : tensor<2x6xi32> -> tensor<2x2x6x6xi32>
  %b = kerf.broadcast %segments dims [0, 3] : tensor<2x6xi32> -> tensor<2x2x6x6xi32>
  %one = kerf.compare eq %a, %b : tensor<2x2x6x6xi32>
  %false = kerf.constant dense<false> : tensor<2x2x6x6xi1>
  %both = kerf.select %one, %seen, %false : tensor<2x2x6x6xi1>
  %low = kerf.constant dense<-1.0e9> : tensor<2x2x6x6xf32>
  %masked = kerf.select %both, %s, %low : tensor<2x2x6x6xf32>
  %p = kerf.softmax %masked : tensor<2x2x6x6xf32>
  %y = kerf.matmul %p, %k : tensor<2x2x6x6xf32>, tensor<2x2x6x4xf32>
  %z = kerf.mul %y, %y : tensor<2x2x6x4xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2, 3] : tensor<2x2x6x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// What the op has no word for stays plain: a mask of later tokens, a bias by
// the square of a distance, a mask that a softmax still
// sees, and one that lies half a position lower.
// CHECK-LABEL: @others
// CHECK-COUNT-4: kerf.softmax
// CHECK-NOT: kerf.attention
kerf.model @others() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x2x6x4xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x2x6x4xf32>
  %kt = kerf.transpose %k perm [0, 1, 3, 2] : tensor<2x2x6x4xf32>
  %s = kerf.matmul %q, %kt : tensor<2x2x6x4xf32>, tensor<2x2x4x6xf32>
  %row = kerf.iota dim 2 : tensor<2x2x6x6xi32>
  %column = kerf.iota dim 3 : tensor<2x2x6x6xi32>
  %later = kerf.compare ge %column, %row : tensor<2x2x6x6xi32>
  %low = kerf.constant dense<-1.0e9> : tensor<2x2x6x6xf32>
  %m1 = kerf.select %later, %s, %low : tensor<2x2x6x6xf32>
  %p1 = kerf.softmax %m1 : tensor<2x2x6x6xf32>
  %y1 = kerf.matmul %p1, %k : tensor<2x2x6x6xf32>, tensor<2x2x6x4xf32>
  %distance = kerf.sub %column, %row : tensor<2x2x6x6xi32>
  %far = kerf.cast %distance : tensor<2x2x6x6xi32> -> tensor<2x2x6x6xf32>
  %bias = kerf.mul %far, %far : tensor<2x2x6x6xf32>
  %m2 = kerf.add %s, %bias : tensor<2x2x6x6xf32>
  %p2 = kerf.softmax %m2 : tensor<2x2x6x6xf32>
  %y2 = kerf.matmul %p2, %y1 : tensor<2x2x6x6xf32>, tensor<2x2x6x4xf32>
  %seen = kerf.compare le %column, %row : tensor<2x2x6x6xi32>
  %mild = kerf.constant dense<-5.0> : tensor<2x2x6x6xf32>
  %m3 = kerf.select %seen, %s, %mild : tensor<2x2x6x6xf32>
  %p3 = kerf.softmax %m3 : tensor<2x2x6x6xf32>
  %y3 = kerf.matmul %p3, %y2 : tensor<2x2x6x6xf32>, tensor<2x2x6x4xf32>
  %fc = kerf.cast %column : tensor<2x2x6x6xi32> -> tensor<2x2x6x6xf32>
  %fr = kerf.cast %row : tensor<2x2x6x6xi32> -> tensor<2x2x6x6xf32>
  %half = kerf.constant dense<-0.5> : tensor<2x2x6x6xf32>
  %lower = kerf.add %fr, %half : tensor<2x2x6x6xf32>
  %before = kerf.compare le %fc, %lower : tensor<2x2x6x6xf32>
  %m4 = kerf.select %before, %s, %low : tensor<2x2x6x6xf32>
  %p4 = kerf.softmax %m4 : tensor<2x2x6x6xf32>
  %y4 = kerf.matmul %p4, %y3 : tensor<2x2x6x6xf32>, tensor<2x2x6x4xf32>
  %z = kerf.mul %y4, %y4 : tensor<2x2x6x4xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2, 3] : tensor<2x2x6x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Five letters: queries in groups of heads, as jax.nn.dot_product_attention
// lowers them.
// CHECK-LABEL: @five_letters(
// CHECK: %[[Q:.*]] = kerf.param "q" init<normal, 1.0> : tensor<2x4x6x5xf32>
// CHECK-NEXT: %[[K:.*]] = kerf.param "k" init<normal, 1.0> : tensor<2x4x2x5xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<2x4x2x5xf32>
// CHECK-NEXT: %[[ATTENTION:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] causal scale 5.000000e-01 : tensor<2x4x6x5xf32>, tensor<2x4x2x5xf32>, tensor<2x4x2x5xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x6x5xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[ATTENTION]], %[[PLACE]] : tensor<2x4x6x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2, 3] : tensor<2x4x6x5xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @five_letters() {
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
  %seen = kerf.compare le %column, %row : tensor<4x4xi32>
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

// The same without a mask.
// CHECK-LABEL: @five_letters_all(
// CHECK: %[[Q:.*]] = kerf.param "q" init<normal, 1.0> : tensor<2x4x6x5xf32>
// CHECK-NEXT: %[[K:.*]] = kerf.param "k" init<normal, 1.0> : tensor<2x4x2x5xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<2x4x2x5xf32>
// CHECK-NEXT: %[[ATTENTION:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] scale 5.000000e-01 : tensor<2x4x6x5xf32>, tensor<2x4x2x5xf32>, tensor<2x4x2x5xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x6x5xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[ATTENTION]], %[[PLACE]] : tensor<2x4x6x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2, 3] : tensor<2x4x6x5xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @five_letters_all() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x6x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x2x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x2x5xf32>
  %q5 = kerf.reshape %q : tensor<2x4x6x5xf32> -> tensor<2x4x2x3x5xf32>
  %s = kerf.einsum "btngd,bsnd->bngts" %q5, %k : tensor<2x4x2x3x5xf32>, tensor<2x4x2x5xf32> -> tensor<2x2x3x4x4xf32>
  %c = kerf.constant dense<0.5> : tensor<2x2x3x4x4xf32>
  %scaled = kerf.mul %s, %c : tensor<2x2x3x4x4xf32>
  %low = kerf.constant dense<-1.0e30> : tensor<2x2x3x4x4xf32>
  %p = kerf.softmax %scaled : tensor<2x2x3x4x4xf32>
  %o = kerf.einsum "bngts,bsnd->btngd" %p, %v : tensor<2x2x3x4x4xf32>, tensor<2x4x2x5xf32> -> tensor<2x4x2x3x5xf32>
  %y = kerf.reshape %o : tensor<2x4x2x3x5xf32> -> tensor<2x4x6x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x6x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x6x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x6x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Letters of any kind, the values on the left of the second matmul.
// CHECK-LABEL: @any_letters(
// CHECK: %[[Q:.*]] = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[K:.*]] = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[ATTENTION:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] causal scale 2.500000e-01 : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[ATTENTION]], %[[PLACE]] : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
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

// Scores that are transposed on their way, with keys on the left.
// CHECK-LABEL: @turned_scores(
// CHECK: %[[Q:.*]] = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[K:.*]] = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[ATTENTION:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] causal scale 1.000000e+00 : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[ATTENTION]], %[[PLACE]] : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @turned_scores() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %s = kerf.einsum "bknd,bqnd->bknq" %k, %q : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x4xf32>
  %t = kerf.transpose %s perm [0, 2, 3, 1] : tensor<2x4x3x4xf32>
  %row = kerf.iota dim 0 : tensor<4x4xi32>
  %column = kerf.iota dim 1 : tensor<4x4xi32>
  %seen = kerf.compare le %column, %row : tensor<4x4xi32>
  %mask = kerf.broadcast %seen dims [2, 3] : tensor<4x4xi1> -> tensor<2x3x4x4xi1>
  %low = kerf.constant dense<-1.0e30> : tensor<2x3x4x4xf32>
  %masked = kerf.select %mask, %t, %low : tensor<2x3x4x4xf32>
  %p = kerf.softmax %masked : tensor<2x3x4x4xf32>
  %y = kerf.einsum "bnqk,bknd->bqnd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x3x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A mask of keys and queries, transposed.
// CHECK-LABEL: @mask_order(
// CHECK: %[[Q:.*]] = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[K:.*]] = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[ATTENTION:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] causal scale 1.000000e+00 : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[ATTENTION]], %[[PLACE]] : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @mask_order() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %s = kerf.einsum "bqnd,bknd->bnqk" %q, %k : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x3x4x4xf32>
  %column = kerf.iota dim 0 : tensor<4x4xi32>
  %row = kerf.iota dim 1 : tensor<4x4xi32>
  %seen = kerf.compare ge %row, %column : tensor<4x4xi32>
  %plane = kerf.transpose %seen perm [1, 0] : tensor<4x4xi1>
  %mask = kerf.broadcast %plane dims [2, 3] : tensor<4x4xi1> -> tensor<2x3x4x4xi1>
  %low = kerf.constant dense<-1.0e30> : tensor<2x3x4x4xf32>
  %masked = kerf.select %mask, %s, %low : tensor<2x3x4x4xf32>
  %p = kerf.softmax %masked : tensor<2x3x4x4xf32>
  %y = kerf.einsum "bnqk,bknd->bqnd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x3x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A mask before scores are transposed.
// CHECK-LABEL: @mask_before(
// CHECK: %[[Q:.*]] = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[K:.*]] = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[ATTENTION:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] causal scale 1.000000e+00 : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[ATTENTION]], %[[PLACE]] : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @mask_before() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %s = kerf.einsum "bqnd,bknd->bqnk" %q, %k : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x4xf32>
  %row = kerf.iota dim 1 : tensor<2x4x3x4xi32>
  %column = kerf.iota dim 3 : tensor<2x4x3x4xi32>
  %seen = kerf.compare le %column, %row : tensor<2x4x3x4xi32>
  %low = kerf.constant dense<-1.0e30> : tensor<2x4x3x4xf32>
  %masked = kerf.select %seen, %s, %low : tensor<2x4x3x4xf32>
  %t = kerf.transpose %masked perm [0, 2, 1, 3] : tensor<2x4x3x4xf32>
  %p = kerf.softmax %t : tensor<2x3x4x4xf32>
  %y = kerf.einsum "bnqk,bknd->bqnd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x3x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A window as a bias and a causal mask, one after the other.
// CHECK-LABEL: @two_masks(
// CHECK: %[[Q:.*]] = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[K:.*]] = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[ATTENTION:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] causal window 2 scale 1.000000e+00 : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[ATTENTION]], %[[PLACE]] : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @two_masks() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %s = kerf.einsum "bqnd,bknd->bnqk" %q, %k : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x3x4x4xf32>
  %row = kerf.iota dim 0 : tensor<4x4xi32>
  %column = kerf.iota dim 1 : tensor<4x4xi32>
  %seen = kerf.compare le %column, %row : tensor<4x4xi32>
  %two = kerf.constant dense<2> : tensor<4x4xi32>
  %first = kerf.sub %row, %two : tensor<4x4xi32>
  %near = kerf.compare gt %column, %first : tensor<4x4xi32>
  %none = kerf.constant dense<0.0> : tensor<4x4xf32>
  %far = kerf.constant dense<-1.0e30> : tensor<4x4xf32>
  %plane = kerf.select %near, %none, %far : tensor<4x4xf32>
  %bias = kerf.broadcast %plane dims [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %mask = kerf.broadcast %seen dims [2, 3] : tensor<4x4xi1> -> tensor<2x3x4x4xi1>
  %low = kerf.constant dense<-1.0e30> : tensor<2x3x4x4xf32>
  %biased = kerf.add %bias, %s : tensor<2x3x4x4xf32>
  %masked = kerf.select %mask, %biased, %low : tensor<2x3x4x4xf32>
  %p = kerf.softmax %masked : tensor<2x3x4x4xf32>
  %y = kerf.einsum "bnqk,bknd->bqnd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x3x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Without a batch, heads are that.
// CHECK-LABEL: @no_batch(
// CHECK: %[[Q:.*]] = kerf.param "q" init<normal, 1.0> : tensor<4x3x5xf32>
// CHECK-NEXT: %[[K:.*]] = kerf.param "k" init<normal, 1.0> : tensor<4x3x5xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<4x3x5xf32>
// CHECK-NEXT: %[[TRANSPOSE:.*]] = kerf.transpose %[[Q]] perm [1, 0, 2] : tensor<4x3x5xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[TRANSPOSE]] : tensor<3x4x5xf32> -> tensor<3x4x1x5xf32>
// CHECK-NEXT: %[[TRANSPOSE2:.*]] = kerf.transpose %[[K]] perm [1, 0, 2] : tensor<4x3x5xf32>
// CHECK-NEXT: %[[RESHAPE2:.*]] = kerf.reshape %[[TRANSPOSE2]] : tensor<3x4x5xf32> -> tensor<3x4x1x5xf32>
// CHECK-NEXT: %[[TRANSPOSE3:.*]] = kerf.transpose %[[V]] perm [1, 0, 2] : tensor<4x3x5xf32>
// CHECK-NEXT: %[[RESHAPE3:.*]] = kerf.reshape %[[TRANSPOSE3]] : tensor<3x4x5xf32> -> tensor<3x4x1x5xf32>
// CHECK-NEXT: %[[ATTENTION:.*]] = kerf.attention %[[RESHAPE]], %[[RESHAPE2]], %[[RESHAPE3]] scale 1.000000e+00 : tensor<3x4x1x5xf32>, tensor<3x4x1x5xf32>, tensor<3x4x1x5xf32>
// CHECK-NEXT: %[[RESHAPE4:.*]] = kerf.reshape %[[ATTENTION]] : tensor<3x4x1x5xf32> -> tensor<3x4x5xf32>
// CHECK-NEXT: %[[TRANSPOSE4:.*]] = kerf.transpose %[[RESHAPE4]] perm [1, 0, 2] : tensor<3x4x5xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<4x3x5xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[TRANSPOSE4]], %[[PLACE]] : tensor<4x3x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2] : tensor<4x3x5xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @no_batch() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<4x3x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<4x3x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<4x3x5xf32>
  %s = kerf.einsum "qnd,knd->nqk" %q, %k : tensor<4x3x5xf32>, tensor<4x3x5xf32> -> tensor<3x4x4xf32>
  %p = kerf.softmax %s : tensor<3x4x4xf32>
  %y = kerf.einsum "nqk,knd->qnd" %p, %v : tensor<3x4x4xf32>, tensor<4x3x5xf32> -> tensor<4x3x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<4x3x5xf32>
  %placed = kerf.mul %y, %place : tensor<4x3x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2] : tensor<4x3x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// One head, which has no dimension.
// CHECK-LABEL: @one_head(
// CHECK: %[[Q:.*]] = kerf.param "q" init<normal, 1.0> : tensor<2x4x5xf32>
// CHECK-NEXT: %[[K:.*]] = kerf.param "k" init<normal, 1.0> : tensor<2x4x5xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<2x4x5xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[Q]] : tensor<2x4x5xf32> -> tensor<2x4x1x5xf32>
// CHECK-NEXT: %[[RESHAPE2:.*]] = kerf.reshape %[[K]] : tensor<2x4x5xf32> -> tensor<2x4x1x5xf32>
// CHECK-NEXT: %[[RESHAPE3:.*]] = kerf.reshape %[[V]] : tensor<2x4x5xf32> -> tensor<2x4x1x5xf32>
// CHECK-NEXT: %[[ATTENTION:.*]] = kerf.attention %[[RESHAPE]], %[[RESHAPE2]], %[[RESHAPE3]] causal scale 1.000000e+00 : tensor<2x4x1x5xf32>, tensor<2x4x1x5xf32>, tensor<2x4x1x5xf32>
// CHECK-NEXT: %[[RESHAPE4:.*]] = kerf.reshape %[[ATTENTION]] : tensor<2x4x1x5xf32> -> tensor<2x4x5xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x5xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RESHAPE4]], %[[PLACE]] : tensor<2x4x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2] : tensor<2x4x5xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @one_head() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x5xf32>
  %s = kerf.einsum "bqd,bkd->bqk" %q, %k : tensor<2x4x5xf32>, tensor<2x4x5xf32> -> tensor<2x4x4xf32>
  %row = kerf.iota dim 1 : tensor<2x4x4xi32>
  %column = kerf.iota dim 2 : tensor<2x4x4xi32>
  %seen = kerf.compare le %column, %row : tensor<2x4x4xi32>
  %low = kerf.constant dense<-1.0e30> : tensor<2x4x4xf32>
  %masked = kerf.select %seen, %s, %low : tensor<2x4x4xf32>
  %p = kerf.softmax %masked : tensor<2x4x4xf32>
  %y = kerf.einsum "bqk,bkd->bqd" %p, %v : tensor<2x4x4xf32>, tensor<2x4x5xf32> -> tensor<2x4x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2] : tensor<2x4x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// All heads of queries read the same keys.
// CHECK-LABEL: @shared_keys(
// CHECK: %[[Q:.*]] = kerf.param "q" init<normal, 1.0> : tensor<2x4x6x5xf32>
// CHECK-NEXT: %[[K:.*]] = kerf.param "k" init<normal, 1.0> : tensor<2x4x5xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<2x4x5xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[K]] : tensor<2x4x5xf32> -> tensor<2x4x1x5xf32>
// CHECK-NEXT: %[[RESHAPE2:.*]] = kerf.reshape %[[V]] : tensor<2x4x5xf32> -> tensor<2x4x1x5xf32>
// CHECK-NEXT: %[[ATTENTION:.*]] = kerf.attention %[[Q]], %[[RESHAPE]], %[[RESHAPE2]] causal scale 1.000000e+00 : tensor<2x4x6x5xf32>, tensor<2x4x1x5xf32>, tensor<2x4x1x5xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x6x5xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[ATTENTION]], %[[PLACE]] : tensor<2x4x6x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2, 3] : tensor<2x4x6x5xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @shared_keys() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x6x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x5xf32>
  %s = kerf.einsum "bqhd,bkd->bhqk" %q, %k : tensor<2x4x6x5xf32>, tensor<2x4x5xf32> -> tensor<2x6x4x4xf32>
  %row = kerf.iota dim 0 : tensor<4x4xi32>
  %column = kerf.iota dim 1 : tensor<4x4xi32>
  %seen = kerf.compare le %column, %row : tensor<4x4xi32>
  %mask = kerf.broadcast %seen dims [2, 3] : tensor<4x4xi1> -> tensor<2x6x4x4xi1>
  %low = kerf.constant dense<-1.0e30> : tensor<2x6x4x4xf32>
  %masked = kerf.select %mask, %s, %low : tensor<2x6x4x4xf32>
  %p = kerf.softmax %masked : tensor<2x6x4x4xf32>
  %y = kerf.einsum "bhqk,bkd->bqhd" %p, %v : tensor<2x6x4x4xf32>, tensor<2x4x5xf32> -> tensor<2x4x6x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x6x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x6x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x6x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Weights that are repeated for a dimension that scores have not: no attention.
// CHECK-LABEL: @repeated(
// CHECK-NOT: kerf.attention
// CHECK: kerf.return
kerf.model @repeated() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x5xf32>
  %s = kerf.einsum "bqd,bkd->bqk" %q, %k : tensor<2x4x5xf32>, tensor<2x4x5xf32> -> tensor<2x4x4xf32>
  %p = kerf.softmax %s : tensor<2x4x4xf32>
  %pp = kerf.broadcast %p dims [0, 2, 3] : tensor<2x4x4xf32> -> tensor<2x3x4x4xf32>
  %y = kerf.einsum "bhqk,bkd->bhqd" %pp, %v : tensor<2x3x4x4xf32>, tensor<2x4x5xf32> -> tensor<2x3x4x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x3x4x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x3x4x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x3x4x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Nor are scores that are.
// CHECK-LABEL: @repeated_scores(
// CHECK-NOT: kerf.attention
// CHECK: kerf.return
kerf.model @repeated_scores() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x5xf32>
  %s = kerf.einsum "bqd,bkd->bqk" %q, %k : tensor<2x4x5xf32>, tensor<2x4x5xf32> -> tensor<2x4x4xf32>
  %ss = kerf.broadcast %s dims [0, 2, 3] : tensor<2x4x4xf32> -> tensor<2x3x4x4xf32>
  %p = kerf.softmax %ss : tensor<2x3x4x4xf32>
  %y = kerf.einsum "bhqk,bkd->bhqd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x5xf32> -> tensor<2x3x4x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x3x4x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x3x4x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x3x4x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A window without a causal mask is another op.
// CHECK-LABEL: @window_alone(
// CHECK-NOT: kerf.attention
// CHECK: kerf.return
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

// A mask of heads and keys is not causal.
// CHECK-LABEL: @mask_of_heads(
// CHECK-NOT: kerf.attention
// CHECK: kerf.return
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

// A softmax over queries, whose weights sum keys, is none.
// CHECK-LABEL: @other_axis(
// CHECK-NOT: kerf.attention
// CHECK: kerf.return
kerf.model @other_axis() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %s = kerf.einsum "bqnd,bknd->bnkq" %q, %k : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x3x4x4xf32>
  %p = kerf.softmax %s : tensor<2x3x4x4xf32>
  %y = kerf.einsum "bnkq,bknd->bqnd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x3x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Nor is a matmul that sums heads.
// CHECK-LABEL: @summed_heads(
// CHECK-NOT: kerf.attention
// CHECK: kerf.return
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

// Documents of their own, with groups of heads.
// CHECK-LABEL: @grouped_documents(
// CHECK: %[[Q:.*]] = kerf.param "q" init<normal, 1.0> : tensor<2x4x6x5xf32>
// CHECK-NEXT: %[[K:.*]] = kerf.param "k" init<normal, 1.0> : tensor<2x4x2x5xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<2x4x2x5xf32>
// CHECK-NEXT: %[[ATTENTION:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] causal scale 1.000000e+00 segments(%segments, %segments : tensor<2x4xi32>, tensor<2x4xi32>) : tensor<2x4x6x5xf32>, tensor<2x4x2x5xf32>, tensor<2x4x2x5xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x6x5xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[ATTENTION]], %[[PLACE]] : tensor<2x4x6x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2, 3] : tensor<2x4x6x5xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @grouped_documents(segments %segments: tensor<2x4xi32>) {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x6x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x2x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x2x5xf32>
  %q5 = kerf.reshape %q : tensor<2x4x6x5xf32> -> tensor<2x4x2x3x5xf32>
  %s = kerf.einsum "btngd,bsnd->bngts" %q5, %k : tensor<2x4x2x3x5xf32>, tensor<2x4x2x5xf32> -> tensor<2x2x3x4x4xf32>
  %a = kerf.broadcast %segments dims [0, 3] : tensor<2x4xi32> -> tensor<2x2x3x4x4xi32>
  %b = kerf.broadcast %segments dims [0, 4] : tensor<2x4xi32> -> tensor<2x2x3x4x4xi32>
  %same = kerf.compare eq %a, %b : tensor<2x2x3x4x4xi32>
  %row = kerf.iota dim 0 : tensor<4x4xi32>
  %column = kerf.iota dim 1 : tensor<4x4xi32>
  %seen = kerf.compare le %column, %row : tensor<4x4xi32>
  %past = kerf.broadcast %seen dims [3, 4] : tensor<4x4xi1> -> tensor<2x2x3x4x4xi1>
  %no = kerf.constant dense<false> : tensor<2x2x3x4x4xi1>
  %mask = kerf.select %past, %same, %no : tensor<2x2x3x4x4xi1>
  %low = kerf.constant dense<-1.0e30> : tensor<2x2x3x4x4xf32>
  %masked = kerf.select %mask, %s, %low : tensor<2x2x3x4x4xf32>
  %p = kerf.softmax %masked : tensor<2x2x3x4x4xf32>
  %o = kerf.einsum "bngts,bsnd->btngd" %p, %v : tensor<2x2x3x4x4xf32>, tensor<2x4x2x5xf32> -> tensor<2x4x2x3x5xf32>
  %y = kerf.reshape %o : tensor<2x4x2x3x5xf32> -> tensor<2x4x6x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x6x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x6x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x6x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Documents whose batch is not that of the scores are no mask.
// CHECK-LABEL: @crossed_documents(
// CHECK-NOT: kerf.attention
// CHECK: kerf.return
kerf.model @crossed_documents(segments %segments: tensor<4x4xi32>) {
  %q = kerf.param "q" init<normal, 1.0> : tensor<4x4x3x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<4x4x3x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<4x4x3x5xf32>
  %s = kerf.einsum "bqnd,bknd->bnqk" %q, %k : tensor<4x4x3x5xf32>, tensor<4x4x3x5xf32> -> tensor<4x3x4x4xf32>
  %a = kerf.broadcast %segments dims [0, 2] : tensor<4x4xi32> -> tensor<4x3x4x4xi32>
  %t = kerf.transpose %segments perm [1, 0] : tensor<4x4xi32>
  %b = kerf.broadcast %t dims [0, 3] : tensor<4x4xi32> -> tensor<4x3x4x4xi32>
  %same = kerf.compare eq %a, %b : tensor<4x3x4x4xi32>
  %low = kerf.constant dense<-1.0e30> : tensor<4x3x4x4xf32>
  %masked = kerf.select %same, %s, %low : tensor<4x3x4x4xf32>
  %p = kerf.softmax %masked : tensor<4x3x4x4xf32>
  %y = kerf.einsum "bnqk,bknd->bqnd" %p, %v : tensor<4x3x4x4xf32>, tensor<4x4x3x5xf32> -> tensor<4x4x3x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<4x4x3x5xf32>
  %placed = kerf.mul %y, %place : tensor<4x4x3x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<4x4x3x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A softmax that is spelled out.
// CHECK-LABEL: @spelled_softmax(
// CHECK: %[[Q:.*]] = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[K:.*]] = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[ATTENTION:.*]] = kerf.attention %[[Q]], %[[K]], %[[V]] causal scale 1.000000e+00 : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[ATTENTION]], %[[PLACE]] : tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @spelled_softmax() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %s = kerf.einsum "bqnd,bknd->bnqk" %q, %k : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x3x4x4xf32>
  %row = kerf.iota dim 0 : tensor<4x4xi32>
  %column = kerf.iota dim 1 : tensor<4x4xi32>
  %seen = kerf.compare le %column, %row : tensor<4x4xi32>
  %mask = kerf.broadcast %seen dims [2, 3] : tensor<4x4xi1> -> tensor<2x3x4x4xi1>
  %low = kerf.constant dense<-1.0e30> : tensor<2x3x4x4xf32>
  %x = kerf.select %mask, %s, %low : tensor<2x3x4x4xf32>
  %m = kerf.reduce max %x dims [3] : tensor<2x3x4x4xf32>
  %ms = kerf.broadcast %m dims [0, 1, 2] : tensor<2x3x4xf32> -> tensor<2x3x4x4xf32>
  %d = kerf.sub %x, %ms : tensor<2x3x4x4xf32>
  %e = kerf.exp %d : tensor<2x3x4x4xf32>
  %sum = kerf.reduce sum %e dims [3] : tensor<2x3x4x4xf32>
  %sums = kerf.broadcast %sum dims [0, 1, 2] : tensor<2x3x4xf32> -> tensor<2x3x4x4xf32>
  %p = kerf.div %e, %sums : tensor<2x3x4x4xf32>
  %y = kerf.einsum "bnqk,bknd->bqnd" %p, %v : tensor<2x3x4x4xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x3x5xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x3x5xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x4x3x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A mask of numbers: scores are multiplied by it, and what it hides is added.
// CHECK-LABEL: @numbers
// CHECK-COUNT-2: kerf.attention {{.*}} causal scale 1.000000e+00
// CHECK-NOT: kerf.softmax
kerf.model @numbers() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x6x2x4xf32>
  %s = kerf.einsum "bqhd,bkhd->bhqk" %q, %q : tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32> -> tensor<2x2x6x6xf32>
  %row = kerf.iota dim 0 : tensor<6x6xi32>
  %column = kerf.iota dim 1 : tensor<6x6xi32>
  %seen = kerf.compare le %column, %row : tensor<6x6xi32>
  %m = kerf.cast %seen : tensor<6x6xi1> -> tensor<6x6xf32>
  %one = kerf.constant dense<1.0> : tensor<6x6xf32>
  %rest = kerf.sub %one, %m : tensor<6x6xf32>
  %far = kerf.constant dense<1.0e10> : tensor<6x6xf32>
  %large = kerf.mul %rest, %far : tensor<6x6xf32>
  %mask = kerf.broadcast %m dims [2, 3] : tensor<6x6xf32> -> tensor<2x2x6x6xf32>
  %hidden = kerf.broadcast %large dims [2, 3] : tensor<6x6xf32> -> tensor<2x2x6x6xf32>
  %shown = kerf.mul %s, %mask : tensor<2x2x6x6xf32>
  %masked = kerf.sub %shown, %hidden : tensor<2x2x6x6xf32>
  %p = kerf.softmax %masked : tensor<2x2x6x6xf32>
  %y = kerf.einsum "bhqk,bkhd->bqhd" %p, %q : tensor<2x2x6x6xf32>, tensor<2x6x2x4xf32> -> tensor<2x6x2x4xf32>
  %t = kerf.einsum "bqhd,bkhd->bhqk" %y, %q : tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32> -> tensor<2x2x6x6xf32>
  %low = kerf.neg %hidden : tensor<2x2x6x6xf32>
  %masked2 = kerf.add %low, %t : tensor<2x2x6x6xf32>
  %p2 = kerf.softmax %masked2 : tensor<2x2x6x6xf32>
  %y2 = kerf.einsum "bhqk,bkhd->bqhd" %p2, %q : tensor<2x2x6x6xf32>, tensor<2x6x2x4xf32> -> tensor<2x6x2x4xf32>
  %loss = kerf.reduce sum %y2 dims [0, 1, 2, 3] : tensor<2x6x2x4xf32>
  kerf.return %loss : tensor<f32>
}
