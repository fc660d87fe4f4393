// RUN: kerf-import %s | FileCheck %s

// A scalar is no row of a router: values times their variance, as PyTorch's export has it.
// CHECK: kerf.reduce sum %{{.*}} dims [0, 1, 2]
// CHECK-NOT: kerf.route
kerf.model @m(tokens %tokens: tensor<2x8xi32>, targets %targets: tensor<2x8xi32>)
    attributes {optimizer = #kerf.sgd<>, clip_norm = 1000000000.0} {
  %e_weight = kerf.param "e.weight" init<normal, 1.02> : tensor<32x16xf32>
  %h_weight = kerf.param "h.weight" init<uniform, 0.252> : tensor<32x16xf32>
  %v = kerf.embedding %tokens, %e_weight : tensor<2x8xi32>, tensor<32x16xf32>
  %v_1 = kerf.reduce sum %v dims [0, 1, 2] : tensor<2x8x16xf32>
  %v_2 = kerf.reshape %v_1 : tensor<f32> -> tensor<1x1x1xf32>
  %c = kerf.constant dense<0.00390625> : tensor<f32>
  %c_1 = kerf.constant dense<0.00390625> : tensor<1x1x1xf32>
  %v_3 = kerf.mul %v_2, %c_1 : tensor<1x1x1xf32>
  %v_4 = kerf.reshape %v_3 : tensor<1x1x1xf32> -> tensor<f32>
  %v_5 = kerf.broadcast %v_4 dims [] : tensor<f32> -> tensor<2x8x16xf32>
  %v_6 = kerf.sub %v, %v_5 : tensor<2x8x16xf32>
  %v_7 = kerf.mul %v_6, %v_6 : tensor<2x8x16xf32>
  %v_8 = kerf.reduce sum %v_7 dims [0, 1, 2] : tensor<2x8x16xf32>
  %c_2 = kerf.constant dense<0.00392156862745098> : tensor<f64>
  %c_3 = kerf.cast %c_2 : tensor<f64> -> tensor<f32>
  %v_9 = kerf.mul %v_8, %c_3 : tensor<f32>
  %v_10 = kerf.broadcast %v_9 dims [] : tensor<f32> -> tensor<2x8x16xf32>
  %v_11 = kerf.mul %v, %v_10 : tensor<2x8x16xf32>
  %v_12 = kerf.linear %v_11, %h_weight : tensor<2x8x16xf32>, tensor<32x16xf32>
  %v_13 = kerf.reshape %v_12 : tensor<2x8x32xf32> -> tensor<16x32xf32>
  %v_14 = kerf.reshape %targets : tensor<2x8xi32> -> tensor<16xi32>
  %count = kerf.count_valid %v_14 : tensor<16xi32>
  %loss = kerf.cross_entropy %v_13, %v_14 normalizer %count : tensor<16x32xf32>, tensor<16xi32>
  kerf.return %loss : tensor<f32>
}
