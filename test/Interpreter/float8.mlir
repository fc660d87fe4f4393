// RUN: kerf-inspect interpret %s

// To f8E4M3FN: halves of the last digit go to even, what is too large becomes
// 448, and below 2^-6 numbers are multiples of 2^-9.
kerf.model @e4m3() {
  %x = kerf.constant dense<[0.3, 1.0625, 1.1875, -1.1875, 447.0, 464.0, 1.0e9, -1.0e9, 0x7F800000,
                            0.0146484375, 0.001953125, 0.0009765625, 0.0029296875, -0.0009]> : tensor<14xf32>
  %q = kerf.cast %x : tensor<14xf32> -> tensor<14xf8E4M3FN>
  %y = kerf.cast %q : tensor<14xf8E4M3FN> -> tensor<14xf32>
  %e = kerf.constant dense<[0.3125, 1.0, 1.25, -1.25, 448.0, 448.0, 448.0, -448.0, 448.0,
                            0.015625, 0.001953125, 0.0, 0.00390625, 0.0]> : tensor<14xf32>
  kerf.check_close %y, %e within 0.0 : tensor<14xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// To f8E5M2: one digit less, from 2^-16 to 57344.
kerf.model @e5m2() {
  %x = kerf.constant dense<[0.3, 1.125, 1.375, -1.375, 60000.0, 1.0e9, -1.0e9,
                            1.52587890625e-05, 7.62939453125e-06, 2.288818359375e-05]> : tensor<10xf32>
  %q = kerf.cast %x : tensor<10xf32> -> tensor<10xf8E5M2>
  %y = kerf.cast %q : tensor<10xf8E5M2> -> tensor<10xf32>
  %e = kerf.constant dense<[0.3125, 1.0, 1.5, -1.5, 57344.0, 57344.0, -57344.0,
                            1.52587890625e-05, 0.0, 3.0517578125e-05]> : tensor<10xf32>
  kerf.check_close %y, %e within 0.0 : tensor<10xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The next power of two, between those of f32.
kerf.model @power_of_two() {
  %x = kerf.constant dense<[0.3, 1.0, 1.0000001, -3.0, 0.0, 0x7F800000, 0x7FC00000, 3.0e38]> : tensor<8xf32>
  %y = kerf.power_of_two %x : tensor<8xf32>
  %e = kerf.constant dense<[0.5, 1.0, 2.0, 4.0, 1.17549435e-38, 1.70141183e+38, 1.70141183e+38, 1.70141183e+38]>
      : tensor<8xf32>
  kerf.check_close %y, %e within 0.0 : tensor<8xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// 448 is the largest number of f8E4M3FN, 57344 of f8E5M2.
kerf.model @unit() {
  %x = kerf.constant dense<[[1.0, -448.0], [3.0, 0.0]]> : tensor<2x2xf32>
  %y = kerf.unit %x of f8E4M3FN : tensor<2x2xf32>
  %y_e = kerf.constant dense<1.0> : tensor<f32>
  kerf.check_close %y, %y_e within 0.0 : tensor<f32>
  %z = kerf.unit %x of f8E5M2 : tensor<2x2xf32>
  %z_e = kerf.constant dense<0.0078125> : tensor<f32>
  kerf.check_close %z, %z_e within 0.0 : tensor<f32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Matmuls of 8-bit floats are summed in f32.
kerf.model @matmul() {
  %x = kerf.constant dense<[[1.0, 0.3], [2.0, -448.0]]> : tensor<2x2xf32>
  %a = kerf.cast %x : tensor<2x2xf32> -> tensor<2x2xf8E4M3FN>
  %b = kerf.cast %x : tensor<2x2xf32> -> tensor<2x2xf8E5M2>
  %y = kerf.einsum "mk,nk->mn" %a, %b : tensor<2x2xf8E4M3FN>, tensor<2x2xf8E5M2> -> tensor<2x2xf32>
  %e = kerf.constant dense<[[1.09765625, -138.0], [-138.0, 200708.0]]> : tensor<2x2xf32>
  kerf.check_close %y, %e within 0.0 : tensor<2x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
