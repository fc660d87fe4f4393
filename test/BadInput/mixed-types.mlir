// RUN: kerf-opt --kerf-differentiate %s | FileCheck %s
// RUN: kerf-inspect gradcheck %s | FileCheck %s --check-prefix=GRADIENTS

// Experts in f64 whose routing weights are f32: the gradient of the weights
// comes in the rows' type and is cast.

// CHECK: %[[DW:.*]] = kerf.combine_weight_gradient
// CHECK-NEXT: kerf.cast %[[DW]] {{.*}}: tensor<2x4x2xf64> -> tensor<2x4x2xf32>
// GRADIENTS: ok {{.*}} logits
kerf.model @mixed() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.1> : tensor<2x4x8xf64>
  %logits = kerf.param "logits" init<normal, 0.1> : tensor<2x4x3xf32>
  %weights, %experts = kerf.route %logits k 2 : tensor<2x4x3xf32>
  %slots, %sizes = kerf.assign_slots %experts count 3 group 1 : tensor<2x4x2xi32>
  %rows = kerf.dispatch %x, %slots : tensor<2x4x8xf64>, tensor<2x4x2xi32> -> tensor<2x8x8xf64>
  %y = kerf.combine %rows, %slots weights %weights : tensor<2x4x2xf32> : tensor<2x8x8xf64>, tensor<2x4x2xi32>
  %loss = kerf.reduce sum %y dims [0, 1, 2] : tensor<2x4x8xf64>
  kerf.return %loss : tensor<f64>
}
