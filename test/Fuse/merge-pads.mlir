// RUN: kerf-opt %s --kerf-merge-pads | FileCheck %s

// Three parts that tile a dimension, in any order.
// CHECK-LABEL: kerf.model @tiles
kerf.model @tiles(%a: tensor<2x3xf32>, %b: tensor<2x1xf32>, %c: tensor<2x4xf32>) {
  // CHECK: %[[C:.*]] = kerf.concat dim 1 %{{.*}}, %{{.*}}, %{{.*}} {kerf.phase = #kerf.phase<input_gradient 3>} : tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x4xf32>
  // CHECK-NOT: kerf.pad
  // CHECK: kerf.reduce sum %[[C]]
  %pb = kerf.pad %b low [0, 3] high [0, 4] : tensor<2x1xf32>
  %pa = kerf.pad %a low [0, 0] high [0, 5] : tensor<2x3xf32>
  %pc = kerf.pad %c low [0, 4] high [0, 0] : tensor<2x4xf32>
  %s = kerf.add %pb, %pa : tensor<2x8xf32>
  %t = kerf.add %s, %pc {kerf.phase = #kerf.phase<input_gradient 3>} : tensor<2x8xf32>
  %loss = kerf.reduce sum %t dims [0, 1] : tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// A gap between the parts, parts that overlap, and parts along two dimensions
// stay sums.
// CHECK-LABEL: kerf.model @keeps
kerf.model @keeps(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>, %c: tensor<1x8xf32>) {
  // CHECK-NOT: kerf.concat
  // CHECK-COUNT-3: kerf.add
  %pa = kerf.pad %a low [0, 0] high [0, 5] : tensor<2x3xf32>
  %gap = kerf.pad %b low [0, 4] high [0, 0] : tensor<2x4xf32>
  %s = kerf.add %pa, %gap : tensor<2x8xf32>
  %pb = kerf.pad %b low [0, 2] high [0, 2] : tensor<2x4xf32>
  %t = kerf.add %pa, %pb : tensor<2x8xf32>
  %pc = kerf.pad %c low [1, 0] high [0, 0] : tensor<1x8xf32>
  %u = kerf.add %pa, %pc : tensor<2x8xf32>
  %v = kerf.concat dim 0 %s, %t, %u : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
  %loss = kerf.reduce sum %v dims [0, 1] : tensor<6x8xf32>
  kerf.return %loss : tensor<f32>
}

// A partial sum that something else reads too is kept.
// CHECK-LABEL: kerf.model @read_twice
kerf.model @read_twice(%a: tensor<3xf32>, %b: tensor<1xf32>, %c: tensor<4xf32>) {
  // CHECK: %[[S:.*]] = kerf.add
  // CHECK: kerf.add %[[S]]
  %pa = kerf.pad %a low [0] high [5] : tensor<3xf32>
  %pb = kerf.pad %b low [3] high [4] : tensor<1xf32>
  %pc = kerf.pad %c low [4] high [0] : tensor<4xf32>
  %s = kerf.add %pa, %pb : tensor<8xf32>
  %t = kerf.add %s, %pc : tensor<8xf32>
  %u = kerf.mul %t, %s : tensor<8xf32>
  %loss = kerf.reduce sum %u dims [0] : tensor<8xf32>
  kerf.return %loss : tensor<f32>
}
