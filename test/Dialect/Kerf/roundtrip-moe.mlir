// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt --mlir-print-op-generic %s | kerf-opt | FileCheck %s

// Routing and its gradient.
// CHECK-LABEL: kerf.model @routes(
// CHECK-SAME: %[[LOGITS:.*]]: tensor<2x8x4xbf16>, %[[DW:.*]]: tensor<2x8x2xf32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @routes(%logits: tensor<2x8x4xbf16>, %dw: tensor<2x8x2xf32>, %loss: tensor<f32>) {
  // CHECK: %[[W:.*]], %[[E:.*]] = kerf.route %[[LOGITS]] k 2 : tensor<2x8x4xbf16>
  %w, %e = kerf.route %logits k 2 : tensor<2x8x4xbf16>
  // CHECK: %[[V:.*]], %[[F:.*]] = kerf.route %[[LOGITS]] k 2 renormalize : tensor<2x8x4xbf16>
  %v, %f = kerf.route %logits k 2 renormalize : tensor<2x8x4xbf16>
  // CHECK: %[[BIAS:.*]] = kerf.constant
  %bias = kerf.constant dense<0.5> : tensor<4xf32>
  // CHECK: kerf.route %[[LOGITS]] k 2 renormalize sigmoid groups 2 best 1 scale 2.500000e+00 bias %[[BIAS]] : tensor<4xf32> : tensor<2x8x4xbf16>
  %b, %c = kerf.route %logits k 2 renormalize sigmoid groups 2 best 1 scale 2.5 bias %bias : tensor<4xf32> : tensor<2x8x4xbf16>
  // CHECK: kerf.expert_load %{{.*}} : tensor<2x8x2xi32> -> tensor<4xf32>
  %n = kerf.expert_load %c : tensor<2x8x2xi32> -> tensor<4xf32>
  // CHECK: kerf.route_backward %[[LOGITS]], %{{.*}}, %[[DW]] renormalize sigmoid scale 2.500000e+00 : tensor<2x8x4xbf16>, tensor<2x8x2xi32>, tensor<2x8x2xf32>
  %a = kerf.route_backward %logits, %c, %dw renormalize sigmoid scale 2.5 : tensor<2x8x4xbf16>, tensor<2x8x2xi32>, tensor<2x8x2xf32>
  // CHECK: %[[D:.*]] = kerf.route_backward %[[LOGITS]], %[[E]], %[[DW]] : tensor<2x8x4xbf16>, tensor<2x8x2xi32>, tensor<2x8x2xf32>
  %d = kerf.route_backward %logits, %e, %dw : tensor<2x8x4xbf16>, tensor<2x8x2xi32>, tensor<2x8x2xf32>
  // CHECK: %[[G:.*]] = kerf.route_backward %[[LOGITS]], %[[F]], %[[DW]] renormalize : tensor<2x8x4xbf16>, tensor<2x8x2xi32>, tensor<2x8x2xf32>
  %g = kerf.route_backward %logits, %f, %dw renormalize : tensor<2x8x4xbf16>, tensor<2x8x2xi32>, tensor<2x8x2xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The load-balance loss and its gradient.
// CHECK-LABEL: kerf.model @balance(
// CHECK-SAME: %[[LOGITS:.*]]: tensor<2x8x4xf32>, %[[E:.*]]: tensor<2x8x2xi32>, %[[DY:.*]]: tensor<f32>) {
kerf.model @balance(%logits: tensor<2x8x4xf32>, %e: tensor<2x8x2xi32>, %dy: tensor<f32>) {
  // CHECK: %[[LOSS:.*]] = kerf.load_balance_loss %[[LOGITS]], %[[E]] group 2 : tensor<2x8x4xf32>, tensor<2x8x2xi32>
  %loss = kerf.load_balance_loss %logits, %e group 2 : tensor<2x8x4xf32>, tensor<2x8x2xi32>
  // CHECK: %[[D:.*]] = kerf.load_balance_loss_backward %[[LOGITS]], %[[E]], %[[DY]] group 2 : tensor<2x8x4xf32>, tensor<2x8x2xi32>
  %d = kerf.load_balance_loss_backward %logits, %e, %dy group 2 : tensor<2x8x4xf32>, tensor<2x8x2xi32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Rows of tables: assigned, filled and brought back, with and without capacity and weights.
// CHECK-LABEL: kerf.model @tables(
// CHECK-SAME: %[[X:.*]]: tensor<2x8x16xf32>, %[[E:.*]]: tensor<2x8x2xi32>, %[[W:.*]]: tensor<2x8x2xf32>, %[[DY:.*]]: tensor<2x8x16xf32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @tables(%x: tensor<2x8x16xf32>, %e: tensor<2x8x2xi32>, %w: tensor<2x8x2xf32>, %dy: tensor<2x8x16xf32>, %loss: tensor<f32>) {
  // CHECK: %[[SLOTS:.*]], %[[SIZES:.*]] = kerf.assign_slots %[[E]] count 4 group 1 : tensor<2x8x2xi32>
  %slots, %sizes = kerf.assign_slots %e count 4 group 1 : tensor<2x8x2xi32>
  // CHECK: %[[CAPPED:.*]], %[[USED:.*]] = kerf.assign_slots %[[E]] count 4 group 2 capacity 6 : tensor<2x8x2xi32>
  %capped, %used = kerf.assign_slots %e count 4 group 2 capacity 6 : tensor<2x8x2xi32>
  // CHECK: %[[ROWS:.*]] = kerf.dispatch %[[X]], %[[SLOTS]] : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<2x16x16xf32>
  %rows = kerf.dispatch %x, %slots : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<2x16x16xf32>
  // CHECK: %[[WEIGHED:.*]] = kerf.dispatch %[[X]], %[[CAPPED]] weights %[[W]] : tensor<2x8x2xf32> : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<1x24x16xf32>
  %weighed = kerf.dispatch %x, %capped weights %w : tensor<2x8x2xf32> : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<1x24x16xf32>
  // CHECK: %[[Y:.*]] = kerf.combine %[[ROWS]], %[[SLOTS]] : tensor<2x16x16xf32>, tensor<2x8x2xi32>
  %y = kerf.combine %rows, %slots : tensor<2x16x16xf32>, tensor<2x8x2xi32>
  // CHECK: %[[Z:.*]] = kerf.combine %[[WEIGHED]], %[[CAPPED]] weights %[[W]] : tensor<2x8x2xf32> : tensor<1x24x16xf32>, tensor<2x8x2xi32>
  %z = kerf.combine %weighed, %capped weights %w : tensor<2x8x2xf32> : tensor<1x24x16xf32>, tensor<2x8x2xi32>
  // CHECK: %[[DW:.*]] = kerf.combine_weight_gradient %[[ROWS]], %[[SLOTS]], %[[DY]] : tensor<2x16x16xf32>, tensor<2x8x2xi32>, tensor<2x8x16xf32>
  %dw = kerf.combine_weight_gradient %rows, %slots, %dy : tensor<2x16x16xf32>, tensor<2x8x2xi32>, tensor<2x8x16xf32>
  // CHECK: kerf.dispatch %[[X]], %[[SLOTS]] sizes %[[SIZES]] : tensor<2x4xi32> : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<2x16x16xf32>
  %sized = kerf.dispatch %x, %slots sizes %sizes : tensor<2x4xi32> : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<2x16x16xf32>
  // CHECK: kerf.combine %[[ROWS]], %[[SLOTS]] weights %[[W]] : tensor<2x8x2xf32> sizes %[[SIZES]] : tensor<2x4xi32> : tensor<2x16x16xf32>, tensor<2x8x2xi32>
  %both = kerf.combine %rows, %slots weights %w : tensor<2x8x2xf32> sizes %sizes : tensor<2x4xi32> : tensor<2x16x16xf32>, tensor<2x8x2xi32>
  // CHECK: kerf.combine_weight_gradient %[[ROWS]], %[[SLOTS]], %[[DY]] sizes %[[SIZES]] : tensor<2x4xi32> : tensor<2x16x16xf32>, tensor<2x8x2xi32>, tensor<2x8x16xf32>
  %dsized = kerf.combine_weight_gradient %rows, %slots, %dy sizes %sizes : tensor<2x4xi32> : tensor<2x16x16xf32>, tensor<2x8x2xi32>, tensor<2x8x16xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Matmuls by expert and their weights' gradients.
// CHECK-LABEL: kerf.model @experts(
// CHECK-SAME: %[[X:.*]]: tensor<2x16x8xf32>, %[[Y:.*]]: tensor<2x16x32xf32>, %[[W:.*]]: tensor<4x32x8xf32>, %[[N:.*]]: tensor<2x4xi32>, %[[LOSS:.*]]: tensor<f32>) {
kerf.model @experts(%x: tensor<2x16x8xf32>, %y: tensor<2x16x32xf32>, %w: tensor<4x32x8xf32>, %n: tensor<2x4xi32>, %loss: tensor<f32>) {
  // CHECK: %[[BARE:.*]] = kerf.grouped_matmul %[[X]], %[[W]], %[[N]] : tensor<2x16x8xf32>, tensor<4x32x8xf32>, tensor<2x4xi32>
  %bare = kerf.grouped_matmul %x, %w, %n : tensor<2x16x8xf32>, tensor<4x32x8xf32>, tensor<2x4xi32>
  // CHECK: %[[ALL:.*]] = kerf.grouped_matmul %[[Y]], %[[W]], %[[N]] capacity 4 transposed : tensor<2x16x32xf32>, tensor<4x32x8xf32>, tensor<2x4xi32>
  %all = kerf.grouped_matmul %y, %w, %n capacity 4 transposed : tensor<2x16x32xf32>, tensor<4x32x8xf32>, tensor<2x4xi32>
  // CHECK: %[[DW:.*]] = kerf.grouped_weight_gradient %[[Y]], %[[X]], %[[N]] : tensor<2x16x32xf32>, tensor<2x16x8xf32>, tensor<2x4xi32> -> tensor<4x32x8xf32>
  %dw = kerf.grouped_weight_gradient %y, %x, %n : tensor<2x16x32xf32>, tensor<2x16x8xf32>, tensor<2x4xi32> -> tensor<4x32x8xf32>
  // CHECK: %[[DC:.*]] = kerf.grouped_weight_gradient %[[Y]], %[[X]], %[[N]] capacity 4 : tensor<2x16x32xf32>, tensor<2x16x8xf32>, tensor<2x4xi32> -> tensor<4x32x8xf32>
  %dc = kerf.grouped_weight_gradient %y, %x, %n capacity 4 : tensor<2x16x32xf32>, tensor<2x16x8xf32>, tensor<2x4xi32> -> tensor<4x32x8xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}
