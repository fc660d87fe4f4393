// RUN: kerf-inspect interpret %s
// RUN: kerf-inspect interpret %s --compute=f64

// Positions of the rows of two ranks with two chunks of three each, and of the
// second rank's alone.
kerf.model @positions() {
  %all = kerf.iota dim 0 zigzag <2 x 3 along [0]> : tensor<12xi32>
  %all_e = kerf.constant dense<[0, 1, 2, 9, 10, 11, 3, 4, 5, 6, 7, 8]> : tensor<12xi32>
  kerf.check_close %all, %all_e within 0.0 : tensor<12xi32>
  %six = kerf.constant dense<6> : tensor<i32>
  %part = kerf.iota dim 1 offset %six zigzag <2 x 3 along [1]> : tensor<2x6xi32>
  %part_e = kerf.constant dense<[[3, 4, 5, 6, 7, 8], [3, 4, 5, 6, 7, 8]]> : tensor<2x6xi32>
  kerf.check_close %part, %part_e within 0.0 : tensor<2x6xi32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Random factors belong to positions: dropping rows in order gives the rows, in
// order, of what is dropped without it; so does the part of the second rank.
kerf.model @dropped() {
  %seed = kerf.constant dense<7> : tensor<i32>
  %step = kerf.constant dense<3> : tensor<i32>
  %ones = kerf.constant dense<1.0> : tensor<8x4xf32>
  %y = kerf.dropout %ones rate 0.5 "drop" seed %seed step %step : tensor<8x4xf32>
  %positions = kerf.constant dense<[0, 1, 6, 7, 2, 3, 4, 5]> : tensor<8xi32>
  %y_e = kerf.embedding %positions, %y : tensor<8xi32>, tensor<8x4xf32>
  %z = kerf.dropout %ones rate 0.5 "drop" seed %seed step %step zigzag <2 x 2 along [0]> : tensor<8x4xf32>
  kerf.check_close %z, %y_e within 0.0 : tensor<8x4xf32>
  %four = kerf.constant dense<4> : tensor<i32>
  %zero = kerf.constant dense<0> : tensor<i32>
  %half = kerf.constant dense<1.0> : tensor<4x4xf32>
  %part = kerf.dropout %half rate 0.5 "drop" seed %seed step %step offsets(%four, %zero) global [8, 4] zigzag <2 x 2 along [0]> : tensor<4x4xf32>
  %part_e = kerf.slice %y_e offsets [4, 0] sizes [4, 4] : tensor<8x4xf32>
  kerf.check_close %part, %part_e within 0.0 : tensor<4x4xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Rope and attention, with a window and dropout, of rows in order are those of
// the rows by position, in order; so is one rank's part of the queries.
kerf.model @attended() {
  %seed = kerf.constant dense<7> : tensor<i32>
  %step = kerf.constant dense<3> : tensor<i32>
  %numbers = kerf.random_uniform "x" seed %seed step %step : tensor<8x8xf32>
  %positions = kerf.constant dense<[0, 1, 6, 7, 2, 3, 4, 5]> : tensor<8xi32>
  %x = kerf.reshape %numbers : tensor<8x8xf32> -> tensor<1x8x2x4xf32>
  %q = kerf.rope %x theta 100.0 : tensor<1x8x2x4xf32>
  %y = kerf.attention %q, %q, %x causal window 5 dropout 0.25 "attn" seed %seed step %step : tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>
  %flat = kerf.reshape %y : tensor<1x8x2x4xf32> -> tensor<8x8xf32>
  %y_e = kerf.embedding %positions, %flat : tensor<8xi32>, tensor<8x8xf32>
  %ordered = kerf.embedding %positions, %numbers : tensor<8xi32>, tensor<8x8xf32>
  %ox = kerf.reshape %ordered : tensor<8x8xf32> -> tensor<1x8x2x4xf32>
  %oq = kerf.rope %ox theta 100.0 zigzag <2 x 2 along [1]> : tensor<1x8x2x4xf32>
  %oy = kerf.attention %oq, %oq, %ox causal window 5 zigzag <2 x 2 along [2, 3]> dropout 0.25 "attn" seed %seed step %step : tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>
  %oflat = kerf.reshape %oy : tensor<1x8x2x4xf32> -> tensor<8x8xf32>
  kerf.check_close %oflat, %y_e within 1.0e-6 : tensor<8x8xf32>
  %four = kerf.constant dense<4> : tensor<i32>
  %zero = kerf.constant dense<0> : tensor<i32>
  %own = kerf.slice %oq offsets [0, 4, 0, 0] sizes [1, 4, 2, 4] : tensor<1x8x2x4xf32>
  %part = kerf.attention %own, %oq, %ox causal window 5 offsets(%zero, %zero, %four, %zero) global [1, 2, 8, 8] zigzag <2 x 2 along [2, 3]> dropout 0.25 "attn" seed %seed step %step : tensor<1x4x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>
  %pflat = kerf.reshape %part : tensor<1x4x2x4xf32> -> tensor<4x8xf32>
  %part_e = kerf.slice %y_e offsets [4, 0] sizes [4, 8] : tensor<8x8xf32>
  kerf.check_close %pflat, %part_e within 1.0e-6 : tensor<4x8xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
