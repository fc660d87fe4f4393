// RUN: kerf-opt %s --canonicalize | FileCheck %s

// A cast to the same type is its operand.
// CHECK-LABEL: kerf.model @cast_to_same(
// CHECK-SAME: %[[X:.*]]: tensor<f32>)
kerf.model @cast_to_same(%x: tensor<f32>) {
  // CHECK-NEXT: kerf.return %[[X]]
  %y = kerf.cast %x : tensor<f32> -> tensor<f32>
  kerf.return %y : tensor<f32>
}

// A cast to another type stays, and so does a round trip through a narrower one.
// CHECK-LABEL: kerf.model @cast_to_other(
// CHECK-SAME: %[[X:.*]]: tensor<f32>)
kerf.model @cast_to_other(%x: tensor<f32>) {
  // CHECK-NEXT: %[[Y:.*]] = kerf.cast %[[X]] : tensor<f32> -> tensor<bf16>
  // CHECK-NEXT: %[[Z:.*]] = kerf.cast %[[Y]] : tensor<bf16> -> tensor<f32>
  // CHECK-NEXT: kerf.return %[[Z]]
  %y = kerf.cast %x : tensor<f32> -> tensor<bf16>
  %z = kerf.cast %y : tensor<bf16> -> tensor<f32>
  kerf.return %z : tensor<f32>
}

// A reshape to the same shape is its operand.
// CHECK-LABEL: kerf.model @reshape_to_same(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>, %[[LOSS:.*]]: tensor<f32>)
kerf.model @reshape_to_same(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // CHECK-NEXT: kerf.return %[[LOSS]], %[[X]]
  %y = kerf.reshape %x : tensor<4x6xf32> -> tensor<4x6xf32>
  kerf.return %loss, %y : tensor<f32>, tensor<4x6xf32>
}

// A reshape to another shape stays.
// CHECK-LABEL: kerf.model @reshape_to_other(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>, %[[LOSS:.*]]: tensor<f32>)
kerf.model @reshape_to_other(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // CHECK-NEXT: %[[Y:.*]] = kerf.reshape %[[X]] : tensor<4x6xf32> -> tensor<24xf32>
  // CHECK-NEXT: kerf.return %[[LOSS]], %[[Y]]
  %y = kerf.reshape %x : tensor<4x6xf32> -> tensor<24xf32>
  kerf.return %loss, %y : tensor<f32>, tensor<24xf32>
}

// A slice that is the whole is its operand.
// CHECK-LABEL: kerf.model @slice_of_whole(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>, %[[LOSS:.*]]: tensor<f32>)
kerf.model @slice_of_whole(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // CHECK-NEXT: kerf.return %[[LOSS]], %[[X]]
  %y = kerf.slice %x offsets [0, 0] sizes [4, 6] : tensor<4x6xf32>
  kerf.return %loss, %y : tensor<f32>, tensor<4x6xf32>
}

// A slice that is one operand of a concatenation is that operand, not one of the same type.
// CHECK-LABEL: kerf.model @slice_of_concat(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>, %[[Y:.*]]: tensor<4x6xf32>, %[[LOSS:.*]]: tensor<f32>)
kerf.model @slice_of_concat(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>, %loss: tensor<f32>) {
  // CHECK-NEXT: kerf.return %[[LOSS]], %[[X]], %[[Y]]
  %z = kerf.concat dim 1 %x, %y : tensor<4x6xf32>, tensor<4x6xf32>
  %a = kerf.slice %z offsets [0, 0] sizes [4, 6] : tensor<4x12xf32>
  %b = kerf.slice %z offsets [0, 6] sizes [4, 6] : tensor<4x12xf32>
  kerf.return %loss, %a, %b : tensor<f32>, tensor<4x6xf32>, tensor<4x6xf32>
}

// A slice that is shifted, or of fewer rows, stays.
// CHECK-LABEL: kerf.model @slice_across_concat(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>, %[[LOSS:.*]]: tensor<f32>)
kerf.model @slice_across_concat(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // CHECK-NEXT: %[[Z:.*]] = kerf.concat dim 1 %[[X]], %[[X]]
  // CHECK-NEXT: %[[A:.*]] = kerf.slice %[[Z]] offsets [0, 1] sizes [4, 6]
  // CHECK-NEXT: %[[B:.*]] = kerf.slice %[[Z]] offsets [1, 6] sizes [3, 6]
  // CHECK-NEXT: kerf.return %[[LOSS]], %[[A]], %[[B]]
  %z = kerf.concat dim 1 %x, %x : tensor<4x6xf32>, tensor<4x6xf32>
  %a = kerf.slice %z offsets [0, 1] sizes [4, 6] : tensor<4x12xf32>
  %b = kerf.slice %z offsets [1, 6] sizes [3, 6] : tensor<4x12xf32>
  kerf.return %loss, %a, %b : tensor<f32>, tensor<4x6xf32>, tensor<3x6xf32>
}

// A concatenation of one tensor is the tensor.
// CHECK-LABEL: kerf.model @concat_of_one(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>, %[[LOSS:.*]]: tensor<f32>)
kerf.model @concat_of_one(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // CHECK-NEXT: kerf.return %[[LOSS]], %[[X]]
  %y = kerf.concat dim 0 %x : tensor<4x6xf32>
  kerf.return %loss, %y : tensor<f32>, tensor<4x6xf32>
}

// Equal constants are one, and what nobody reads is gone, a repeat included.
// CHECK-LABEL: kerf.model @constants(
kerf.model @constants(%x: tensor<2xf32>) {
  // CHECK-NEXT: %[[C:.*]] = kerf.constant dense<5.000000e-01> : tensor<f32>
  // CHECK-NEXT: kerf.return %[[C]], %[[C]]
  %a = kerf.constant dense<0.5> : tensor<f32>
  %b = kerf.constant dense<0.5> : tensor<f32>
  %e = kerf.exp %x : tensor<2xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2xf32>) {
    kerf.yield %h : tensor<2xf32>
  }
  kerf.return %a, %b : tensor<f32>, tensor<f32>
}

// Updates and checks have effects and stay.
// CHECK-LABEL: kerf.model @effects(
// CHECK: kerf.update "w"
// CHECK: kerf.check_close
kerf.model @effects(learning_rate %rate: tensor<f32>, step %step: tensor<i32>) {
  %w = kerf.param "w" init<ones> : tensor<4xf32>
  %g = kerf.constant dense<1.0> : tensor<4xf32>
  kerf.update "w" rule #kerf.sgd<> by %g rate %rate step %step : tensor<4xf32>
  kerf.check_close %w, %g within 0.0 : tensor<4xf32>
  kerf.return %rate : tensor<f32>
}
