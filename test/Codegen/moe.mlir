// Mixtures of experts, decomposed.
// RUN: kerf-kernels %s | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v2 | FileCheck %s
// RUN: kerf-kernels %s --cpu x86-64-v3 | FileCheck %s
// CHECK-COUNT-9: ok,
// CHECK-NOT: {{ok|WRONG}}

exec.kernel @route(%l: tensor<2x24x8xf32>) -> (tensor<2x24x2xf32>, tensor<2x24x2xi32>) {
  %w, %e = kerf.route %l k 2 renormalize : tensor<2x24x8xf32>
  exec.yield %w, %e : tensor<2x24x2xf32>, tensor<2x24x2xi32>
}

exec.kernel @route_plain(%l: tensor<2x24x8xf32>) -> (tensor<2x24x2xf32>, tensor<2x24x2xi32>) {
  %w, %e = kerf.route %l k 2 : tensor<2x24x8xf32>
  exec.yield %w, %e : tensor<2x24x2xf32>, tensor<2x24x2xi32>
}

exec.kernel @route_backward(%l: tensor<2x24x8xf32>, %e: tensor<2x24x2xi32>, %d: tensor<2x24x2xf32>) -> (tensor<2x24x8xf32>) {
  %y = kerf.route_backward %l, %e, %d renormalize : tensor<2x24x8xf32>, tensor<2x24x2xi32>, tensor<2x24x2xf32>
  exec.yield %y : tensor<2x24x8xf32>
}

exec.kernel @load_balance(%l: tensor<2x24x8xf32>, %e: tensor<2x24x2xi32>, %one: tensor<f32> {test.value = 0.7}) -> (tensor<f32>, tensor<2x24x8xf32>) {
  %a = kerf.load_balance_loss %l, %e group 1 : tensor<2x24x8xf32>, tensor<2x24x2xi32>
  %d = kerf.load_balance_loss_backward %l, %e, %one group 1 : tensor<2x24x8xf32>, tensor<2x24x2xi32>
  exec.yield %a, %d : tensor<f32>, tensor<2x24x8xf32>
}

exec.kernel @assign_slots(%e: tensor<2x24x2xi32>) -> (tensor<2x24x2xi32>, tensor<2x8xi32>) {
  %s, %n = kerf.assign_slots %e count 8 group 1 : tensor<2x24x2xi32>
  exec.yield %s, %n : tensor<2x24x2xi32>, tensor<2x8xi32>
}

exec.kernel @assign_slots_capacity(%e: tensor<2x24x2xi32>) -> (tensor<2x24x2xi32>, tensor<1x8xi32>) {
  %s, %n = kerf.assign_slots %e count 8 group 2 capacity 5 : tensor<2x24x2xi32>
  exec.yield %s, %n : tensor<2x24x2xi32>, tensor<1x8xi32>
}

// Slots are all different; some choices have none.
exec.kernel @dispatch(%x: tensor<2x24x65xf32>) -> (tensor<2x48x65xf32>) {
  %s = kerf.constant dense<
    [[[11, -1], [9, 40], [26, 32], [43, 21], [46, 37], [-1, 45], [38, 42], [25, 28], [17, 19], [14, -1], [2, 27],
    [12, -1], [-1, 13], [-1, 35], [0, 36], [18, 6], [24, 47], [30, 23], [7, 10], [3, 15], [29, 1], [33, 41], [44,
    22], [16, 39]], [[18, 25], [-1, 41], [46, 14], [-1, 10], [26, 3], [47, 2], [34, 29], [7, 32], [39, 28], [-1,
    17], [24, 12], [31, -1], [40, 8], [1, 5], [35, -1], [15, 11], [20, 30], [36, 22], [43, -1], [44, 42], [0, 37],
    [38, 19], [21, 4], [16, 9]]]> : tensor<2x24x2xi32>
  %r = kerf.dispatch %x, %s : tensor<2x24x65xf32>, tensor<2x24x2xi32> -> tensor<2x48x65xf32>
  exec.yield %r : tensor<2x48x65xf32>
}

exec.kernel @combine(%x: tensor<2x48x65xf32>, %s: tensor<2x24x2xi32> {test.range = [-1, 48]}, %dy: tensor<2x24x65xf32>) -> (tensor<2x24x65xf32>, tensor<2x24x2xf32>) {
  %y = kerf.combine %x, %s : tensor<2x48x65xf32>, tensor<2x24x2xi32>
  %d = kerf.combine_weight_gradient %x, %s, %dy : tensor<2x48x65xf32>, tensor<2x24x2xi32>, tensor<2x24x65xf32>
  exec.yield %y, %d : tensor<2x24x65xf32>, tensor<2x24x2xf32>
}

exec.kernel @grouped_matmul(%x: tensor<2x16x16xf32>, %w: tensor<4x32x16xf32>, %n: tensor<2x4xi32> {test.range = [0, 5]}) -> (tensor<2x16x32xf32>) {
  %y = kerf.grouped_matmul %x, %w, %n : tensor<2x16x16xf32>, tensor<4x32x16xf32>, tensor<2x4xi32>
  exec.yield %y : tensor<2x16x32xf32>
}
