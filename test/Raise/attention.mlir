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
// distance, a mask that a softmax still
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
  %bias = kerf.cast %distance : tensor<2x2x6x6xi32> -> tensor<2x2x6x6xf32>
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
