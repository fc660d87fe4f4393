// fuse=1 precision=bf16 threads=1
// The element that is the maximum must equal it after rounding to bf16.
kerf.model @m(tokens %tokens: tensor<8x7xi32>, targets %targets: tensor<8x7xi32>) attributes {optimizer = #kerf.adamw<weight_decay = 0.1, eps = 1.0e-3>} {
  %v2 = kerf.param "wte.33x2xf32" init<normal, 0.4> : tensor<33x2xf32>
  %v3 = kerf.embedding %tokens, %v2 : tensor<8x7xi32>, tensor<33x2xf32>
  %s = kerf.param "s" init<normal, 0.4> : tensor<8x7x2xf32>
  %v32 = kerf.mul %v3, %s : tensor<8x7x2xf32>
  %v34 = kerf.reduce max %v32 dims [0, 1, 2] : tensor<8x7x2xf32>
  %v36 = kerf.broadcast %v34 dims [] : tensor<f32> -> tensor<8x7x2xf32>
  %v37 = kerf.add %v3, %v36 : tensor<8x7x2xf32>
  %v100 = kerf.linear %v37, %v2 : tensor<8x7x2xf32>, tensor<33x2xf32>
  %v103 = kerf.count_valid %targets : tensor<8x7xi32>
  %v104 = kerf.cross_entropy %v100, %targets normalizer %v103 z_loss 1.0e-2 : tensor<8x7x33xf32>, tensor<8x7xi32>
  kerf.return %v104, %v103 : tensor<f32>, tensor<f32>
}
