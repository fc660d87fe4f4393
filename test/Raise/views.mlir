// RUN: kerf-opt %s --split-input-file --kerf-raise | FileCheck %s

// Elements of transposes: one transpose of elements.
// CHECK-LABEL: @elements(
// CHECK: %[[C:.*]] = kerf.constant dense<2.000000e+00> : tensor<3x4xf32>
// CHECK-NEXT: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<3x4xf32>
// CHECK-NEXT: %[[ADD:.*]] = kerf.add %[[X]], %[[V]] : tensor<3x4xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[ADD]], %[[C]] : tensor<3x4xf32>
// CHECK-NEXT: %[[EXP:.*]] = kerf.exp %[[MUL]] : tensor<3x4xf32>
// CHECK-NEXT: %[[TRANSPOSE:.*]] = kerf.transpose %[[EXP]] perm [1, 0] : tensor<3x4xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[TRANSPOSE]] : tensor<4x3xf32> -> tensor<2x6xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x6xf32>
// CHECK-NEXT: %[[MUL2:.*]] = kerf.mul %[[RESHAPE]], %[[PLACE]] : tensor<2x6xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL2]] dims [0, 1] : tensor<2x6xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @elements() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<3x4xf32>
  %a = kerf.transpose %x perm [1, 0] : tensor<3x4xf32>
  %b = kerf.transpose %v perm [1, 0] : tensor<3x4xf32>
  %c = kerf.add %a, %b : tensor<4x3xf32>
  %two = kerf.constant dense<2.0> : tensor<4x3xf32>
  %d = kerf.mul %c, %two : tensor<4x3xf32>
  %e = kerf.exp %d : tensor<4x3xf32>
  %y = kerf.reshape %e : tensor<4x3xf32> -> tensor<2x6xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x6xf32>
  %placed = kerf.mul %y, %place : tensor<2x6xf32>
  %loss = kerf.reduce sum %placed dims [0, 1] : tensor<2x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Of two permutations there is none.
// CHECK-LABEL: @other_perm(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<3x3x3xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<3x3x3xf32>
// CHECK-NEXT: %[[TRANSPOSE:.*]] = kerf.transpose %[[X]] perm [1, 0, 2] : tensor<3x3x3xf32>
// CHECK-NEXT: %[[TRANSPOSE2:.*]] = kerf.transpose %[[V]] perm [2, 1, 0] : tensor<3x3x3xf32>
// CHECK-NEXT: %[[ADD:.*]] = kerf.add %[[TRANSPOSE]], %[[TRANSPOSE2]] : tensor<3x3x3xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[ADD]] : tensor<3x3x3xf32> -> tensor<9x3xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<9x3xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RESHAPE]], %[[PLACE]] : tensor<9x3xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1] : tensor<9x3xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @other_perm() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x3x3xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<3x3x3xf32>
  %a = kerf.transpose %x perm [1, 0, 2] : tensor<3x3x3xf32>
  %b = kerf.transpose %v perm [2, 1, 0] : tensor<3x3x3xf32>
  %c = kerf.add %a, %b : tensor<3x3x3xf32>
  %y = kerf.reshape %c : tensor<3x3x3xf32> -> tensor<9x3xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<9x3xf32>
  %placed = kerf.mul %y, %place : tensor<9x3xf32>
  %loss = kerf.reduce sum %placed dims [0, 1] : tensor<9x3xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A softmax is no op of elements: its rows are the last dimension.
// CHECK-LABEL: @rows_softmax(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
// CHECK-NEXT: %[[TRANSPOSE:.*]] = kerf.transpose %[[X]] perm [1, 0] : tensor<3x4xf32>
// CHECK-NEXT: %[[SOFTMAX:.*]] = kerf.softmax %[[TRANSPOSE]] : tensor<4x3xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[SOFTMAX]] : tensor<4x3xf32> -> tensor<2x6xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x6xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RESHAPE]], %[[PLACE]] : tensor<2x6xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1] : tensor<2x6xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @rows_softmax() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %a = kerf.transpose %x perm [1, 0] : tensor<3x4xf32>
  %p = kerf.softmax %a : tensor<4x3xf32>
  %y = kerf.reshape %p : tensor<4x3xf32> -> tensor<2x6xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x6xf32>
  %placed = kerf.mul %y, %place : tensor<2x6xf32>
  %loss = kerf.reduce sum %placed dims [0, 1] : tensor<2x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Sums and maxima of a transpose: what is left is permuted, if more than one
// dimension is.
// CHECK-LABEL: @sum(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<3x4x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[X]] dims [0] : tensor<3x4x5xf32>
// CHECK-NEXT: %[[TRANSPOSE:.*]] = kerf.transpose %[[SUM]] perm [1, 0] : tensor<4x5xf32>
// CHECK-NEXT: %[[LARGEST:.*]] = kerf.reduce max %[[X]] dims [1, 2] : tensor<3x4x5xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[TRANSPOSE]] : tensor<5x4xf32> -> tensor<20xf32>
// CHECK-NEXT: %[[PLACE0:.*]] = kerf.param "place0" init<normal, 1.0> : tensor<20xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RESHAPE]], %[[PLACE0]] : tensor<20xf32>
// CHECK-NEXT: %[[SUM2:.*]] = kerf.reduce sum %[[MUL]] dims [0] : tensor<20xf32>
// CHECK-NEXT: %[[PLACE1:.*]] = kerf.param "place1" init<normal, 1.0> : tensor<3xf32>
// CHECK-NEXT: %[[MUL2:.*]] = kerf.mul %[[LARGEST]], %[[PLACE1]] : tensor<3xf32>
// CHECK-NEXT: %[[SUM3:.*]] = kerf.reduce sum %[[MUL2]] dims [0] : tensor<3xf32>
// CHECK-NEXT: kerf.return %[[SUM2]], %[[SUM3]] : tensor<f32>, tensor<f32>
kerf.model @sum() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4x5xf32>
  %a = kerf.transpose %x perm [2, 0, 1] : tensor<3x4x5xf32>
  %s = kerf.reduce sum %a dims [1] : tensor<5x3x4xf32>
  %m = kerf.reduce max %a dims [0, 2] : tensor<5x3x4xf32>
  %y = kerf.reshape %s : tensor<5x4xf32> -> tensor<20xf32>
  %place0 = kerf.param "place0" init<normal, 1.0> : tensor<20xf32>
  %placed0 = kerf.mul %y, %place0 : tensor<20xf32>
  %loss0 = kerf.reduce sum %placed0 dims [0] : tensor<20xf32>
  %place1 = kerf.param "place1" init<normal, 1.0> : tensor<3xf32>
  %placed1 = kerf.mul %m, %place1 : tensor<3xf32>
  %loss1 = kerf.reduce sum %placed1 dims [0] : tensor<3xf32>
  kerf.return %loss0, %loss1 : tensor<f32>, tensor<f32>
}

// -----

// Transposes around an op cancel, and its other operand gets one.
// CHECK-LABEL: @around(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<4x3xf32>
// CHECK-NEXT: %[[TRANSPOSE:.*]] = kerf.transpose %[[V]] perm [1, 0] : tensor<4x3xf32>
// CHECK-NEXT: %[[ADD:.*]] = kerf.add %[[X]], %[[TRANSPOSE]] : tensor<3x4xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[ADD]] : tensor<3x4xf32> -> tensor<12xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<12xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RESHAPE]], %[[PLACE]] : tensor<12xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0] : tensor<12xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @around() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<4x3xf32>
  %a = kerf.transpose %x perm [1, 0] : tensor<3x4xf32>
  %c = kerf.add %a, %v : tensor<4x3xf32>
  %d = kerf.transpose %c perm [1, 0] : tensor<4x3xf32>
  %y = kerf.reshape %d : tensor<3x4xf32> -> tensor<12xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<12xf32>
  %placed = kerf.mul %y, %place : tensor<12xf32>
  %loss = kerf.reduce sum %placed dims [0] : tensor<12xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Where others read the op they stay.
// CHECK-LABEL: @around_read(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<4x3xf32>
// CHECK-NEXT: %[[TRANSPOSE:.*]] = kerf.transpose %[[X]] perm [1, 0] : tensor<3x4xf32>
// CHECK-NEXT: %[[ADD:.*]] = kerf.add %[[TRANSPOSE]], %[[V]] : tensor<4x3xf32>
// CHECK-NEXT: %[[TRANSPOSE2:.*]] = kerf.transpose %[[ADD]] perm [1, 0] : tensor<4x3xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[TRANSPOSE2]] : tensor<3x4xf32> -> tensor<12xf32>
// CHECK-NEXT: %[[RESHAPE2:.*]] = kerf.reshape %[[ADD]] : tensor<4x3xf32> -> tensor<12xf32>
// CHECK-NEXT: %[[PLACE0:.*]] = kerf.param "place0" init<normal, 1.0> : tensor<12xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RESHAPE]], %[[PLACE0]] : tensor<12xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0] : tensor<12xf32>
// CHECK-NEXT: %[[PLACE1:.*]] = kerf.param "place1" init<normal, 1.0> : tensor<12xf32>
// CHECK-NEXT: %[[MUL2:.*]] = kerf.mul %[[RESHAPE2]], %[[PLACE1]] : tensor<12xf32>
// CHECK-NEXT: %[[SUM2:.*]] = kerf.reduce sum %[[MUL2]] dims [0] : tensor<12xf32>
// CHECK-NEXT: kerf.return %[[SUM]], %[[SUM2]] : tensor<f32>, tensor<f32>
kerf.model @around_read() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<4x3xf32>
  %a = kerf.transpose %x perm [1, 0] : tensor<3x4xf32>
  %c = kerf.add %a, %v : tensor<4x3xf32>
  %d = kerf.transpose %c perm [1, 0] : tensor<4x3xf32>
  %y = kerf.reshape %d : tensor<3x4xf32> -> tensor<12xf32>
  %z = kerf.reshape %c : tensor<4x3xf32> -> tensor<12xf32>
  %place0 = kerf.param "place0" init<normal, 1.0> : tensor<12xf32>
  %placed0 = kerf.mul %y, %place0 : tensor<12xf32>
  %loss0 = kerf.reduce sum %placed0 dims [0] : tensor<12xf32>
  %place1 = kerf.param "place1" init<normal, 1.0> : tensor<12xf32>
  %placed1 = kerf.mul %z, %place1 : tensor<12xf32>
  %loss1 = kerf.reduce sum %placed1 dims [0] : tensor<12xf32>
  kerf.return %loss0, %loss1 : tensor<f32>, tensor<f32>
}

// -----

// A transpose of new dimensions alone is another broadcast.
// CHECK-LABEL: @repeated(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
// CHECK-NEXT: %[[BROADCAST:.*]] = kerf.broadcast %[[X]] dims [1, 3] : tensor<3x4xf32> -> tensor<5x3x2x4xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[BROADCAST]] : tensor<5x3x2x4xf32> -> tensor<120xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<120xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RESHAPE]], %[[PLACE]] : tensor<120xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0] : tensor<120xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @repeated() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %a = kerf.broadcast %x dims [1, 3] : tensor<3x4xf32> -> tensor<2x3x5x4xf32>
  %b = kerf.transpose %a perm [2, 1, 0, 3] : tensor<2x3x5x4xf32>
  %y = kerf.reshape %b : tensor<5x3x2x4xf32> -> tensor<120xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<120xf32>
  %placed = kerf.mul %y, %place : tensor<120xf32>
  %loss = kerf.reduce sum %placed dims [0] : tensor<120xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// One that swaps those of the operand is left.
// CHECK-LABEL: @repeated_turned(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
// CHECK-NEXT: %[[BROADCAST:.*]] = kerf.broadcast %[[X]] dims [0, 2] : tensor<3x4xf32> -> tensor<3x5x4xf32>
// CHECK-NEXT: %[[TRANSPOSE:.*]] = kerf.transpose %[[BROADCAST]] perm [2, 1, 0] : tensor<3x5x4xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[TRANSPOSE]] : tensor<4x5x3xf32> -> tensor<60xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<60xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RESHAPE]], %[[PLACE]] : tensor<60xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0] : tensor<60xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @repeated_turned() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %a = kerf.broadcast %x dims [0, 2] : tensor<3x4xf32> -> tensor<3x5x4xf32>
  %b = kerf.transpose %a perm [2, 1, 0] : tensor<3x5x4xf32>
  %y = kerf.reshape %b : tensor<4x5x3xf32> -> tensor<60xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<60xf32>
  %placed = kerf.mul %y, %place : tensor<60xf32>
  %loss = kerf.reduce sum %placed dims [0] : tensor<60xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Dimensions of size 1 are added behind a transpose.
// CHECK-LABEL: @added(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
// CHECK-NEXT: %[[TRANSPOSE:.*]] = kerf.transpose %[[X]] perm [1, 0] : tensor<3x4xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[TRANSPOSE]] : tensor<4x3xf32> -> tensor<2x6xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x6xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RESHAPE]], %[[PLACE]] : tensor<2x6xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1] : tensor<2x6xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @added() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %a = kerf.reshape %x : tensor<3x4xf32> -> tensor<3x1x4xf32>
  %b = kerf.transpose %a perm [2, 1, 0] : tensor<3x1x4xf32>
  %y = kerf.reshape %b : tensor<4x1x3xf32> -> tensor<2x6xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x6xf32>
  %placed = kerf.mul %y, %place : tensor<2x6xf32>
  %loss = kerf.reduce sum %placed dims [0, 1] : tensor<2x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Transposes that are joined are one.
// CHECK-LABEL: @joined(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<3x2xf32>
// CHECK-NEXT: %[[CONCAT:.*]] = kerf.concat dim 1 %[[X]], %[[V]] : tensor<3x4xf32>, tensor<3x2xf32>
// CHECK-NEXT: %[[TRANSPOSE:.*]] = kerf.transpose %[[CONCAT]] perm [1, 0] : tensor<3x6xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[TRANSPOSE]] : tensor<6x3xf32> -> tensor<9x2xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<9x2xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RESHAPE]], %[[PLACE]] : tensor<9x2xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1] : tensor<9x2xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @joined() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<3x2xf32>
  %a = kerf.transpose %x perm [1, 0] : tensor<3x4xf32>
  %b = kerf.transpose %v perm [1, 0] : tensor<3x2xf32>
  %c = kerf.concat dim 0 %a, %b : tensor<4x3xf32>, tensor<2x3xf32>
  %y = kerf.reshape %c : tensor<6x3xf32> -> tensor<9x2xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<9x2xf32>
  %placed = kerf.mul %y, %place : tensor<9x2xf32>
  %loss = kerf.reduce sum %placed dims [0, 1] : tensor<9x2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// With what is none they stay.
// CHECK-LABEL: @joined_other(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<2x3xf32>
// CHECK-NEXT: %[[TRANSPOSE:.*]] = kerf.transpose %[[X]] perm [1, 0] : tensor<3x4xf32>
// CHECK-NEXT: %[[CONCAT:.*]] = kerf.concat dim 0 %[[TRANSPOSE]], %[[V]] : tensor<4x3xf32>, tensor<2x3xf32>
// CHECK-NEXT: %[[RESHAPE:.*]] = kerf.reshape %[[CONCAT]] : tensor<6x3xf32> -> tensor<9x2xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<9x2xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RESHAPE]], %[[PLACE]] : tensor<9x2xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1] : tensor<9x2xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @joined_other() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<2x3xf32>
  %a = kerf.transpose %x perm [1, 0] : tensor<3x4xf32>
  %c = kerf.concat dim 0 %a, %v : tensor<4x3xf32>, tensor<2x3xf32>
  %y = kerf.reshape %c : tensor<6x3xf32> -> tensor<9x2xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<9x2xf32>
  %placed = kerf.mul %y, %place : tensor<9x2xf32>
  %loss = kerf.reduce sum %placed dims [0, 1] : tensor<9x2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Matmuls with transposed weights are those with the weights.
// CHECK-LABEL: @weights(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
// CHECK-NEXT: %[[W:.*]] = kerf.param "w" init<normal, 1.0> : tensor<4x6xf32>
// CHECK-NEXT: %[[U:.*]] = kerf.param "u" init<normal, 1.0> : tensor<4x6xf32>
// CHECK-NEXT: %[[LINEAR:.*]] = kerf.linear %[[X]], %[[W]] transposed : tensor<3x4xf32>, tensor<4x6xf32>
// CHECK-NEXT: %[[LINEAR2:.*]] = kerf.linear %[[LINEAR]], %[[U]] : tensor<3x6xf32>, tensor<4x6xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<3x4xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[LINEAR2]], %[[PLACE]] : tensor<3x4xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1] : tensor<3x4xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @weights() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<3x4xf32>
  %w = kerf.param "w" init<normal, 1.0> : tensor<4x6xf32>
  %u = kerf.param "u" init<normal, 1.0> : tensor<4x6xf32>
  %wt = kerf.transpose %w perm [1, 0] : tensor<4x6xf32>
  %a = kerf.linear %x, %wt : tensor<3x4xf32>, tensor<6x4xf32>
  %ut = kerf.transpose %u perm [1, 0] : tensor<4x6xf32>
  %b = kerf.linear %a, %ut transposed : tensor<3x6xf32>, tensor<6x4xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<3x4xf32>
  %placed = kerf.mul %b, %place : tensor<3x4xf32>
  %loss = kerf.reduce sum %placed dims [0, 1] : tensor<3x4xf32>
  kerf.return %loss : tensor<f32>
}
