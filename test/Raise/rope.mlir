// RUN: kerf-opt %s --split-input-file --kerf-raise | FileCheck %s

// x cos + turn(x) sin, halves, heads in front of positions; frequencies of theta 100.
// CHECK-LABEL: @halves
// CHECK: %[[T:.*]] = kerf.transpose %{{.*}} perm [0, 2, 1, 3]
// CHECK: %[[R:.*]] = kerf.rope %[[T]] theta 1.000000e+02 : tensor<2x6x3x4xf32>
// CHECK: kerf.transpose %[[R]] perm [0, 2, 1, 3]
// CHECK-NOT: kerf.cos
kerf.model @halves() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x6x4xf32>
  %f = kerf.constant dense<[1.0, 0.1]> : tensor<2xf64>
  %i = kerf.iota dim 0 : tensor<6x2xi32>
  %p = kerf.cast %i : tensor<6x2xi32> -> tensor<6x2xf64>
  %fs = kerf.broadcast %f dims [1] : tensor<2xf64> -> tensor<6x2xf64>
  %half = kerf.mul %p, %fs : tensor<6x2xf64>
  %wide = kerf.concat dim 1 %half, %half : tensor<6x2xf64>, tensor<6x2xf64>
  %angles = kerf.cast %wide : tensor<6x4xf64> -> tensor<6x4xf32>
  %cos = kerf.cos %angles : tensor<6x4xf32>
  %sin = kerf.sin %angles : tensor<6x4xf32>
  %c = kerf.broadcast %cos dims [2, 3] : tensor<6x4xf32> -> tensor<2x3x6x4xf32>
  %s = kerf.broadcast %sin dims [2, 3] : tensor<6x4xf32> -> tensor<2x3x6x4xf32>
  %a = kerf.slice %x offsets [0, 0, 0, 0] sizes [2, 3, 6, 2] : tensor<2x3x6x4xf32>
  %b = kerf.slice %x offsets [0, 0, 0, 2] sizes [2, 3, 6, 2] : tensor<2x3x6x4xf32>
  %nb = kerf.neg %b : tensor<2x3x6x2xf32>
  %turned = kerf.concat dim 3 %nb, %a : tensor<2x3x6x2xf32>, tensor<2x3x6x2xf32>
  %straight = kerf.mul %x, %c : tensor<2x3x6x4xf32>
  %across = kerf.mul %turned, %s : tensor<2x3x6x4xf32>
  %y = kerf.add %straight, %across : tensor<2x3x6x4xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x3x6x4xf32>
  %z = kerf.mul %y, %place : tensor<2x3x6x4xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2, 3] : tensor<2x3x6x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// (first cos - second sin, second cos + first sin), neighbours; frequencies of
// no theta and a magnitude are kept as a list.
// CHECK-LABEL: @neighbours
// CHECK: kerf.rope %{{.*}} theta 1.000000e+00 scaling(#kerf.rope_table<frequencies = [5.000000e-01, 3.000000e-01], magnitude = 2.0>) interleaved : tensor<2x6x3x4xf32>
// CHECK-NOT: kerf.cos
kerf.model @neighbours() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x6x3x4xf32>
  %f = kerf.constant dense<[0.5, 0.3]> : tensor<2xf64>
  %i = kerf.iota dim 0 : tensor<6x2xi32>
  %p = kerf.cast %i : tensor<6x2xi32> -> tensor<6x2xf64>
  %fs = kerf.broadcast %f dims [1] : tensor<2xf64> -> tensor<6x2xf64>
  %wide = kerf.mul %p, %fs : tensor<6x2xf64>
  %angles = kerf.cast %wide : tensor<6x2xf64> -> tensor<6x2xf32>
  %two = kerf.constant dense<2.0> : tensor<6x2xf32>
  %c0 = kerf.cos %angles : tensor<6x2xf32>
  %s0 = kerf.sin %angles : tensor<6x2xf32>
  %cos = kerf.mul %c0, %two : tensor<6x2xf32>
  %sin = kerf.mul %s0, %two : tensor<6x2xf32>
  %c = kerf.broadcast %cos dims [1, 3] : tensor<6x2xf32> -> tensor<2x6x3x2xf32>
  %s = kerf.broadcast %sin dims [1, 3] : tensor<6x2xf32> -> tensor<2x6x3x2xf32>
  %pairs = kerf.reshape %x : tensor<2x6x3x4xf32> -> tensor<2x6x3x2x2xf32>
  %a1 = kerf.slice %pairs offsets [0, 0, 0, 0, 0] sizes [2, 6, 3, 2, 1] : tensor<2x6x3x2x2xf32>
  %b1 = kerf.slice %pairs offsets [0, 0, 0, 0, 1] sizes [2, 6, 3, 2, 1] : tensor<2x6x3x2x2xf32>
  %a = kerf.reshape %a1 : tensor<2x6x3x2x1xf32> -> tensor<2x6x3x2xf32>
  %b = kerf.reshape %b1 : tensor<2x6x3x2x1xf32> -> tensor<2x6x3x2xf32>
  %ac = kerf.mul %a, %c : tensor<2x6x3x2xf32>
  %bs = kerf.mul %b, %s : tensor<2x6x3x2xf32>
  %bc = kerf.mul %b, %c : tensor<2x6x3x2xf32>
  %as = kerf.mul %a, %s : tensor<2x6x3x2xf32>
  %first = kerf.sub %ac, %bs : tensor<2x6x3x2xf32>
  %second = kerf.add %bc, %as : tensor<2x6x3x2xf32>
  %f1 = kerf.reshape %first : tensor<2x6x3x2xf32> -> tensor<2x6x3x2x1xf32>
  %s1 = kerf.reshape %second : tensor<2x6x3x2xf32> -> tensor<2x6x3x2x1xf32>
  %joined = kerf.concat dim 4 %f1, %s1 : tensor<2x6x3x2x1xf32>, tensor<2x6x3x2x1xf32>
  %y = kerf.reshape %joined : tensor<2x6x3x2x2xf32> -> tensor<2x6x3x4xf32>
  %z = kerf.exp %y : tensor<2x6x3x4xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2, 3] : tensor<2x6x3x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Angles that are not position times frequency (here squares of positions), and
// a turn the other way, are no rotary embedding.
// CHECK-LABEL: @not_rope
// CHECK-NOT: kerf.rope
kerf.model @not_rope() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x6x3x4xf32>
  %i = kerf.iota dim 0 : tensor<6x4xi32>
  %p = kerf.cast %i : tensor<6x4xi32> -> tensor<6x4xf32>
  %pp = kerf.mul %p, %p : tensor<6x4xf32>
  %cos = kerf.cos %pp : tensor<6x4xf32>
  %sin = kerf.sin %pp : tensor<6x4xf32>
  %c = kerf.broadcast %cos dims [1, 3] : tensor<6x4xf32> -> tensor<2x6x3x4xf32>
  %s = kerf.broadcast %sin dims [1, 3] : tensor<6x4xf32> -> tensor<2x6x3x4xf32>
  %a = kerf.slice %x offsets [0, 0, 0, 0] sizes [2, 6, 3, 2] : tensor<2x6x3x4xf32>
  %b = kerf.slice %x offsets [0, 0, 0, 2] sizes [2, 6, 3, 2] : tensor<2x6x3x4xf32>
  %nb = kerf.neg %b : tensor<2x6x3x2xf32>
  %turned = kerf.concat dim 3 %nb, %a : tensor<2x6x3x2xf32>, tensor<2x6x3x2xf32>
  %straight = kerf.mul %x, %c : tensor<2x6x3x4xf32>
  %across = kerf.mul %turned, %s : tensor<2x6x3x4xf32>
  %y = kerf.add %straight, %across : tensor<2x6x3x4xf32>
  %cos1 = kerf.cos %p : tensor<6x4xf32>
  %sin1 = kerf.sin %p : tensor<6x4xf32>
  %c1 = kerf.broadcast %cos1 dims [1, 3] : tensor<6x4xf32> -> tensor<2x6x3x4xf32>
  %s1 = kerf.broadcast %sin1 dims [1, 3] : tensor<6x4xf32> -> tensor<2x6x3x4xf32>
  %na = kerf.neg %a : tensor<2x6x3x2xf32>
  %other = kerf.concat dim 3 %b, %na : tensor<2x6x3x2xf32>, tensor<2x6x3x2xf32>
  %straight1 = kerf.mul %x, %c1 : tensor<2x6x3x4xf32>
  %across1 = kerf.mul %other, %s1 : tensor<2x6x3x4xf32>
  %y1 = kerf.add %straight1, %across1 : tensor<2x6x3x4xf32>
  %both = kerf.mul %y, %y1 : tensor<2x6x3x4xf32>
  %loss = kerf.reduce sum %both dims [0, 1, 2, 3] : tensor<2x6x3x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Transposed after its channels were taken apart: positions are the second
// dimension before.
// CHECK-LABEL: @transposed(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<2x6x3x4xf32>
// CHECK-NEXT: %[[ROPE:.*]] = kerf.rope %[[X]] theta 1.000000e+02 : tensor<2x6x3x4xf32>
// CHECK-NEXT: %[[TRANSPOSE:.*]] = kerf.transpose %[[ROPE]] perm [0, 2, 1, 3] : tensor<2x6x3x4xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x3x6x4xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[TRANSPOSE]], %[[PLACE]] : tensor<2x3x6x4xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2, 3] : tensor<2x3x6x4xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @transposed() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x6x3x4xf32>
  %f = kerf.constant dense<[1.0, 0.1]> : tensor<2xf64>
  %i = kerf.iota dim 0 : tensor<6x2xi32>
  %at = kerf.cast %i : tensor<6x2xi32> -> tensor<6x2xf64>
  %fs = kerf.broadcast %f dims [1] : tensor<2xf64> -> tensor<6x2xf64>
  %wide = kerf.mul %at, %fs : tensor<6x2xf64>
  %both = kerf.concat dim 1 %wide, %wide : tensor<6x2xf64>, tensor<6x2xf64>
  %angles = kerf.cast %both : tensor<6x4xf64> -> tensor<6x4xf32>
  %cos = kerf.cos %angles : tensor<6x4xf32>
  %sin = kerf.sin %angles : tensor<6x4xf32>
  %c = kerf.broadcast %cos dims [2, 3] : tensor<6x4xf32> -> tensor<2x3x6x4xf32>
  %s = kerf.broadcast %sin dims [2, 3] : tensor<6x4xf32> -> tensor<2x3x6x4xf32>
  %a = kerf.slice %x offsets [0, 0, 0, 0] sizes [2, 6, 3, 2] : tensor<2x6x3x4xf32>
  %b = kerf.slice %x offsets [0, 0, 0, 2] sizes [2, 6, 3, 2] : tensor<2x6x3x4xf32>
  %nb = kerf.neg %b : tensor<2x6x3x2xf32>
  %turned = kerf.concat dim 3 %nb, %a : tensor<2x6x3x2xf32>, tensor<2x6x3x2xf32>
  %tt = kerf.transpose %turned perm [0, 2, 1, 3] : tensor<2x6x3x4xf32>
  %xt = kerf.transpose %x perm [0, 2, 1, 3] : tensor<2x6x3x4xf32>
  %straight = kerf.mul %xt, %c : tensor<2x3x6x4xf32>
  %across = kerf.mul %tt, %s : tensor<2x3x6x4xf32>
  %y = kerf.add %straight, %across : tensor<2x3x6x4xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x3x6x4xf32>
  %placed = kerf.mul %y, %place : tensor<2x3x6x4xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x3x6x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Heads in groups are heads.
// CHECK-LABEL: @groups(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<2x6x3x2x4xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[X]] : tensor<2x6x3x2x4xf32> -> tensor<2x6x6x4xf32>
// CHECK-NEXT: %[[ROPE:.*]] = kerf.rope %[[RESHAPE]] theta 1.000000e+02 : tensor<2x6x6x4xf32>
// CHECK-NEXT: %[[RESHAPE2:.*]] = kerf.reshape %[[ROPE]] : tensor<2x6x6x4xf32> -> tensor<2x6x3x2x4xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x6x3x2x4xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RESHAPE2]], %[[PLACE]] : tensor<2x6x3x2x4xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2, 3, 4] : tensor<2x6x3x2x4xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @groups() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x6x3x2x4xf32>
  %f = kerf.constant dense<[1.0, 0.1]> : tensor<2xf64>
  %i = kerf.iota dim 0 : tensor<6x2xi32>
  %at = kerf.cast %i : tensor<6x2xi32> -> tensor<6x2xf64>
  %fs = kerf.broadcast %f dims [1] : tensor<2xf64> -> tensor<6x2xf64>
  %wide = kerf.mul %at, %fs : tensor<6x2xf64>
  %angles = kerf.cast %wide : tensor<6x2xf64> -> tensor<6x2xf32>
  %cos = kerf.cos %angles : tensor<6x2xf32>
  %sin = kerf.sin %angles : tensor<6x2xf32>
  %c = kerf.broadcast %cos dims [1, 4] : tensor<6x2xf32> -> tensor<2x6x3x2x2xf32>
  %s = kerf.broadcast %sin dims [1, 4] : tensor<6x2xf32> -> tensor<2x6x3x2x2xf32>
  %a = kerf.slice %x offsets [0, 0, 0, 0, 0] sizes [2, 6, 3, 2, 2] : tensor<2x6x3x2x4xf32>
  %b = kerf.slice %x offsets [0, 0, 0, 0, 2] sizes [2, 6, 3, 2, 2] : tensor<2x6x3x2x4xf32>
  %ac = kerf.mul %a, %c : tensor<2x6x3x2x2xf32>
  %bs = kerf.mul %b, %s : tensor<2x6x3x2x2xf32>
  %first = kerf.sub %ac, %bs : tensor<2x6x3x2x2xf32>
  %bc = kerf.mul %b, %c : tensor<2x6x3x2x2xf32>
  %as = kerf.mul %a, %s : tensor<2x6x3x2x2xf32>
  %second = kerf.add %bc, %as : tensor<2x6x3x2x2xf32>
  %y = kerf.concat dim 4 %first, %second : tensor<2x6x3x2x2xf32>, tensor<2x6x3x2x2xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x6x3x2x4xf32>
  %placed = kerf.mul %y, %place : tensor<2x6x3x2x4xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3, 4] : tensor<2x6x3x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Channels without heads have one.
// CHECK-LABEL: @no_heads(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<2x6x4xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[X]] : tensor<2x6x4xf32> -> tensor<2x6x1x4xf32>
// CHECK-NEXT: %[[ROPE:.*]] = kerf.rope %[[RESHAPE]] theta 1.000000e+02 : tensor<2x6x1x4xf32>
// CHECK-NEXT: %[[RESHAPE2:.*]] = kerf.reshape %[[ROPE]] : tensor<2x6x1x4xf32> -> tensor<2x6x4xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x6x4xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RESHAPE2]], %[[PLACE]] : tensor<2x6x4xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2] : tensor<2x6x4xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @no_heads() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x6x4xf32>
  %f = kerf.constant dense<[1.0, 0.1]> : tensor<2xf64>
  %i = kerf.iota dim 0 : tensor<6x2xi32>
  %at = kerf.cast %i : tensor<6x2xi32> -> tensor<6x2xf64>
  %fs = kerf.broadcast %f dims [1] : tensor<2xf64> -> tensor<6x2xf64>
  %wide = kerf.mul %at, %fs : tensor<6x2xf64>
  %angles = kerf.cast %wide : tensor<6x2xf64> -> tensor<6x2xf32>
  %cos = kerf.cos %angles : tensor<6x2xf32>
  %sin = kerf.sin %angles : tensor<6x2xf32>
  %c = kerf.broadcast %cos dims [1, 2] : tensor<6x2xf32> -> tensor<2x6x2xf32>
  %s = kerf.broadcast %sin dims [1, 2] : tensor<6x2xf32> -> tensor<2x6x2xf32>
  %a = kerf.slice %x offsets [0, 0, 0] sizes [2, 6, 2] : tensor<2x6x4xf32>
  %b = kerf.slice %x offsets [0, 0, 2] sizes [2, 6, 2] : tensor<2x6x4xf32>
  %ac = kerf.mul %a, %c : tensor<2x6x2xf32>
  %bs = kerf.mul %b, %s : tensor<2x6x2xf32>
  %first = kerf.sub %ac, %bs : tensor<2x6x2xf32>
  %bc = kerf.mul %b, %c : tensor<2x6x2xf32>
  %as = kerf.mul %a, %s : tensor<2x6x2xf32>
  %second = kerf.add %as, %bc : tensor<2x6x2xf32>
  %y = kerf.concat dim 2 %first, %second : tensor<2x6x2xf32>, tensor<2x6x2xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x6x4xf32>
  %placed = kerf.mul %y, %place : tensor<2x6x4xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2] : tensor<2x6x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Cosines of positions with sines of heads turn nothing.
// CHECK-LABEL: @over_heads(
// CHECK-NOT: kerf.rope
// CHECK: kerf.return
kerf.model @over_heads() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x6x6x4xf32>
  %f = kerf.constant dense<[1.0, 0.1]> : tensor<2xf64>
  %i = kerf.iota dim 0 : tensor<6x2xi32>
  %at = kerf.cast %i : tensor<6x2xi32> -> tensor<6x2xf64>
  %fs = kerf.broadcast %f dims [1] : tensor<2xf64> -> tensor<6x2xf64>
  %wide = kerf.mul %at, %fs : tensor<6x2xf64>
  %angles = kerf.cast %wide : tensor<6x2xf64> -> tensor<6x2xf32>
  %cos = kerf.cos %angles : tensor<6x2xf32>
  %sin = kerf.sin %angles : tensor<6x2xf32>
  %c = kerf.broadcast %cos dims [1, 3] : tensor<6x2xf32> -> tensor<2x6x6x2xf32>
  %s = kerf.broadcast %sin dims [2, 3] : tensor<6x2xf32> -> tensor<2x6x6x2xf32>
  %a = kerf.slice %x offsets [0, 0, 0, 0] sizes [2, 6, 6, 2] : tensor<2x6x6x4xf32>
  %b = kerf.slice %x offsets [0, 0, 0, 2] sizes [2, 6, 6, 2] : tensor<2x6x6x4xf32>
  %ac = kerf.mul %a, %c : tensor<2x6x6x2xf32>
  %bs = kerf.mul %b, %s : tensor<2x6x6x2xf32>
  %first = kerf.sub %ac, %bs : tensor<2x6x6x2xf32>
  %bc = kerf.mul %b, %c : tensor<2x6x6x2xf32>
  %as = kerf.mul %a, %s : tensor<2x6x6x2xf32>
  %second = kerf.add %as, %bc : tensor<2x6x6x2xf32>
  %y = kerf.concat dim 3 %first, %second : tensor<2x6x6x2xf32>, tensor<2x6x6x2xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x6x6x4xf32>
  %placed = kerf.mul %y, %place : tensor<2x6x6x4xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x6x6x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Nor does one of which a half is transposed.
// CHECK-LABEL: @half_transposed(
// CHECK-NOT: kerf.rope
// CHECK: kerf.return
kerf.model @half_transposed() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x6x6x4xf32>
  %f = kerf.constant dense<[1.0, 0.1]> : tensor<2xf64>
  %i = kerf.iota dim 0 : tensor<6x2xi32>
  %at = kerf.cast %i : tensor<6x2xi32> -> tensor<6x2xf64>
  %fs = kerf.broadcast %f dims [1] : tensor<2xf64> -> tensor<6x2xf64>
  %wide = kerf.mul %at, %fs : tensor<6x2xf64>
  %both = kerf.concat dim 1 %wide, %wide : tensor<6x2xf64>, tensor<6x2xf64>
  %angles = kerf.cast %both : tensor<6x4xf64> -> tensor<6x4xf32>
  %cos = kerf.cos %angles : tensor<6x4xf32>
  %sin = kerf.sin %angles : tensor<6x4xf32>
  %c = kerf.broadcast %cos dims [2, 3] : tensor<6x4xf32> -> tensor<2x6x6x4xf32>
  %s = kerf.broadcast %sin dims [2, 3] : tensor<6x4xf32> -> tensor<2x6x6x4xf32>
  %a = kerf.slice %x offsets [0, 0, 0, 0] sizes [2, 6, 6, 2] : tensor<2x6x6x4xf32>
  %b = kerf.slice %x offsets [0, 0, 0, 2] sizes [2, 6, 6, 2] : tensor<2x6x6x4xf32>
  %nb = kerf.neg %b : tensor<2x6x6x2xf32>
  %turned = kerf.concat dim 3 %nb, %a : tensor<2x6x6x2xf32>, tensor<2x6x6x2xf32>
  %tt = kerf.transpose %turned perm [0, 2, 1, 3] : tensor<2x6x6x4xf32>
  %straight = kerf.mul %x, %c : tensor<2x6x6x4xf32>
  %across = kerf.mul %tt, %s : tensor<2x6x6x4xf32>
  %y = kerf.add %straight, %across : tensor<2x6x6x4xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x6x6x4xf32>
  %placed = kerf.mul %y, %place : tensor<2x6x6x4xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2, 3] : tensor<2x6x6x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Neighbours are turned and handed on as halves. Queries and keys of one matmul both are, which it does not see; values
// are read in their order.
// CHECK-LABEL: @halves_of_neighbours
// CHECK: %[[X:.*]] = kerf.param "x"
// CHECK: %[[T:.*]] = kerf.rope %[[X]] theta {{.*}} interleaved
// CHECK: %[[P:.*]] = kerf.reshape %[[T]] : tensor<2x6x3x4xf32> -> tensor<2x6x3x2x2xf32>
// CHECK: %[[H:.*]] = kerf.transpose %[[P]] perm [0, 1, 2, 4, 3]
// CHECK: %[[V:.*]] = kerf.reshape %[[H]] : tensor<2x6x3x2x2xf32> -> tensor<2x6x3x4xf32>
// CHECK: kerf.attention %[[T]], %[[T]], %[[V]] causal
kerf.model @halves_of_neighbours() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x6x3x4xf32>
  %f = kerf.constant dense<[1.0, 0.01]> : tensor<2xf64>
  %i = kerf.iota dim 0 : tensor<6x2xi32>
  %p = kerf.cast %i : tensor<6x2xi32> -> tensor<6x2xf64>
  %fs = kerf.broadcast %f dims [1] : tensor<2xf64> -> tensor<6x2xf64>
  %wide = kerf.mul %p, %fs : tensor<6x2xf64>
  %angles = kerf.cast %wide : tensor<6x2xf64> -> tensor<6x2xf32>
  %cos = kerf.cos %angles : tensor<6x2xf32>
  %sin = kerf.sin %angles : tensor<6x2xf32>
  %c = kerf.broadcast %cos dims [1, 3] : tensor<6x2xf32> -> tensor<2x6x3x2xf32>
  %s = kerf.broadcast %sin dims [1, 3] : tensor<6x2xf32> -> tensor<2x6x3x2xf32>
  %qpairs = kerf.reshape %x : tensor<2x6x3x4xf32> -> tensor<2x6x3x2x2xf32>
  %qa1 = kerf.slice %qpairs offsets [0, 0, 0, 0, 0] sizes [2, 6, 3, 2, 1] : tensor<2x6x3x2x2xf32>
  %qb1 = kerf.slice %qpairs offsets [0, 0, 0, 0, 1] sizes [2, 6, 3, 2, 1] : tensor<2x6x3x2x2xf32>
  %qa = kerf.reshape %qa1 : tensor<2x6x3x2x1xf32> -> tensor<2x6x3x2xf32>
  %qb = kerf.reshape %qb1 : tensor<2x6x3x2x1xf32> -> tensor<2x6x3x2xf32>
  %qac = kerf.mul %qa, %c : tensor<2x6x3x2xf32>
  %qbs = kerf.mul %qb, %s : tensor<2x6x3x2xf32>
  %qfirst = kerf.sub %qac, %qbs : tensor<2x6x3x2xf32>
  %qbc = kerf.mul %qb, %c : tensor<2x6x3x2xf32>
  %qas = kerf.mul %qa, %s : tensor<2x6x3x2xf32>
  %qsecond = kerf.add %qbc, %qas : tensor<2x6x3x2xf32>
  %q = kerf.concat dim 3 %qfirst, %qsecond : tensor<2x6x3x2xf32>, tensor<2x6x3x2xf32>
  %y = kerf.attention %q, %q, %q causal : tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>
  %loss = kerf.reduce sum %y dims [0, 1, 2, 3] : tensor<2x6x3x4xf32>
  kerf.return %loss : tensor<f32>
}
