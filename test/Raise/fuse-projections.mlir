// RUN: kerf-opt %s --kerf-fuse-projections --split-input-file | FileCheck %s

// Weights of one shape become a stack, under the words in which their names
// differ; biases stay. A weight of another shape stays apart.

// CHECK-LABEL: kerf.model @qkv
// CHECK: %[[Q:.*]] = kerf.param "h.{i}.q_proj.weight"
// CHECK: kerf.linear %[[X:.*]], %[[Q]]
// CHECK: %[[B:.*]] = kerf.param "h.{i}.k_proj.bias"
// CHECK: %[[W:.*]] = kerf.param "h.{i}.{k,v}_proj.weight" init<normal, 0.02> : tensor<2x4x8xf32>
// CHECK: %[[Y:.*]] = kerf.einsum "abk,pnk->abpn" %[[X]], %[[W]] : tensor<2x3x8xf32>, tensor<2x4x8xf32> -> tensor<2x3x2x4xf32>
// CHECK: %[[K0:.*]] = kerf.slice %[[Y]] offsets [0, 0, 0, 0] {{.*}} : tensor<2x3x2x4xf32>
// CHECK: %[[K1:.*]] = kerf.reshape %[[K0]] : tensor<2x3x1x4xf32> -> tensor<2x3x4xf32>
// CHECK: %[[BB:.*]] = kerf.broadcast %[[B]]
// CHECK: kerf.add %[[K1]], %[[BB]]
// CHECK: kerf.slice %[[Y]] offsets [0, 0, 1, 0]
// CHECK-NOT: kerf.linear
kerf.model @qkv(%x: tensor<2x3x8xf32>) attributes {optimizer = #kerf.sgd<momentum = 0.0, nesterov = false, weight_decay = 0.0>} {
  %y = kerf.repeat %i = 0 to 2 (%h = %x : tensor<2x3x8xf32>) {
    %wq = kerf.param "h.{i}.q_proj.weight" init<normal, 0.02> : tensor<8x8xf32>
    %q = kerf.linear %h, %wq : tensor<2x3x8xf32>, tensor<8x8xf32>
    %wk = kerf.param "h.{i}.k_proj.weight" init<normal, 0.02> : tensor<4x8xf32>
    %bk = kerf.param "h.{i}.k_proj.bias" init<zeros> : tensor<4xf32>
    %k = kerf.linear %h, %wk bias %bk : tensor<2x3x8xf32>, tensor<4x8xf32>, tensor<4xf32>
    %wv = kerf.param "h.{i}.v_proj.weight" init<normal, 0.02> : tensor<4x8xf32>
    %v = kerf.linear %h, %wv : tensor<2x3x8xf32>, tensor<4x8xf32>
    %kv = kerf.concat dim 2 %k, %v : tensor<2x3x4xf32>, tensor<2x3x4xf32>
    %s = kerf.add %q, %kv : tensor<2x3x8xf32>
    kerf.yield %s : tensor<2x3x8xf32>
  }
  %l = kerf.reduce sum %y dims [0, 1, 2] : tensor<2x3x8xf32>
  kerf.return %l : tensor<f32>
}

// -----

// All three of one shape; whole words.

// CHECK-LABEL: kerf.model @words
// CHECK: kerf.param "attention.{query,key,value}.weight" init<normal, 0.02> : tensor<3x8x8xf32>
// CHECK-NOT: kerf.param
kerf.model @words(%x: tensor<3x8xf32>) attributes {optimizer = #kerf.sgd<momentum = 0.0, nesterov = false, weight_decay = 0.0>} {
  %wq = kerf.param "attention.query.weight" init<normal, 0.02> : tensor<8x8xf32>
  %wk = kerf.param "attention.key.weight" init<normal, 0.02> : tensor<8x8xf32>
  %wv = kerf.param "attention.value.weight" init<normal, 0.02> : tensor<8x8xf32>
  %q = kerf.linear %x, %wq : tensor<3x8xf32>, tensor<8x8xf32>
  %k = kerf.linear %x, %wk : tensor<3x8xf32>, tensor<8x8xf32>
  %v = kerf.linear %x, %wv : tensor<3x8xf32>, tensor<8x8xf32>
  %a = kerf.mul %q, %k : tensor<3x8xf32>
  %b = kerf.mul %a, %v : tensor<3x8xf32>
  %l = kerf.reduce sum %b dims [0, 1] : tensor<3x8xf32>
  kerf.return %l : tensor<f32>
}

// -----

// What stays: a weight that is read twice, one that is frozen, one with a group
// of its own, one of another input, one of another first value; names that
// differ in more than one word.

// CHECK-LABEL: kerf.model @apart
// CHECK-NOT: {{[a-z],[a-z]}}
// CHECK: kerf.return
kerf.model @apart(%x: tensor<3x8xf32>) attributes {
    optimizer = #kerf.sgd<momentum = 0.0, nesterov = false, weight_decay = 0.0>,
    groups = [#kerf.group<match = "own.*", weight_decay = 0.1>]} {
  %w0 = kerf.param "twice.weight" init<normal, 0.02> : tensor<8x8xf32>
  %w1 = kerf.param "frozen.weight" init<normal, 0.02> frozen : tensor<8x8xf32>
  %w2 = kerf.param "own.weight" init<normal, 0.02> : tensor<8x8xf32>
  %w3 = kerf.param "other.weight" init<normal, 0.03> : tensor<8x8xf32>
  %w4 = kerf.param "free.weight" init<normal, 0.02> : tensor<8x8xf32>
  %y0 = kerf.linear %x, %w0 : tensor<3x8xf32>, tensor<8x8xf32>
  %y1 = kerf.linear %x, %w1 : tensor<3x8xf32>, tensor<8x8xf32>
  %y2 = kerf.linear %x, %w2 : tensor<3x8xf32>, tensor<8x8xf32>
  %y3 = kerf.linear %x, %w3 : tensor<3x8xf32>, tensor<8x8xf32>
  %y4 = kerf.linear %x, %w4 : tensor<3x8xf32>, tensor<8x8xf32>
  %w5 = kerf.param "a.b.weight" init<normal, 0.02> : tensor<8x8xf32>
  %y5 = kerf.linear %x, %w5 : tensor<3x8xf32>, tensor<8x8xf32>
  %z = kerf.linear %y0, %w0 : tensor<3x8xf32>, tensor<8x8xf32>
  %s1 = kerf.mul %y1, %y2 : tensor<3x8xf32>
  %s2 = kerf.mul %y3, %y4 : tensor<3x8xf32>
  %s3 = kerf.mul %s1, %s2 : tensor<3x8xf32>
  %s4 = kerf.mul %s3, %z : tensor<3x8xf32>
  %s5 = kerf.mul %s4, %y5 : tensor<3x8xf32>
  %l = kerf.reduce sum %s5 dims [0, 1] : tensor<3x8xf32>
  kerf.return %l : tensor<f32>
}
