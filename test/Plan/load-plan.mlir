// RUN: kerf-opt %s --kerf-load-plan=file=%S/Inputs/row.json | FileCheck %s

// The first rule that matches an op counts. A matmul whose sum is cut adds its
// bias after the sum; ops that no rule matches are left alone.
// CHECK-LABEL: kerf.model @bias
// CHECK-SAME:  plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 3, schedule = "gpipe", recompute = [1, 4]>
// CHECK:       %[[B:.*]] = kerf.param "b" init<zeros> {kerf.phase = #kerf.phase<forward 1>}
// CHECK:       %[[P:.*]] = kerf.linear %{{.*}}, %{{.*}} {kerf.assign = #kerf.assign<k = [tp]>, kerf.phase = #kerf.phase<forward 2>}
// CHECK:       %[[R:.*]] = kerf.broadcast %[[B]] dims [1] {kerf.phase = #kerf.phase<forward 2>}
// CHECK:       kerf.add %[[P]], %[[R]] {kerf.assign = #kerf.assign<b = [micro]>, kerf.phase = #kerf.phase<forward 2>}
// CHECK:       kerf.exp %{{.*}} {kerf.assign = #kerf.assign<s = [tp]>, kerf.phase = #kerf.phase<forward 3>}
kerf.model @bias(%x: tensor<6x4xf32>) {
  %w = kerf.param "h.w" init<ones> {kerf.phase = #kerf.phase<forward 0>} : tensor<8x4xf32>
  %b = kerf.param "b" init<zeros> {kerf.phase = #kerf.phase<forward 1>} : tensor<8xf32>
  %y = kerf.linear %x, %w bias %b {kerf.phase = #kerf.phase<forward 2>} : tensor<6x4xf32>, tensor<8x4xf32>, tensor<8xf32>
  %e = kerf.exp %y {kerf.phase = #kerf.phase<forward 3>} : tensor<6x8xf32>
  %s = kerf.reduce sum %e dims [0, 1] {kerf.phase = #kerf.phase<forward 4>} : tensor<6x8xf32>
  kerf.return %s {kerf.phase = #kerf.phase<forward 5>} : tensor<f32>
}
