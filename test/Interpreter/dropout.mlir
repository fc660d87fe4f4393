// RUN: kerf-inspect interpret %s
// RUN: kerf-inspect interpret %s --compute=f64

// The mask is a function of seed, step, layer and name; kept elements are scaled.
kerf.model @masks() {
  %x = kerf.constant dense<
      [[2.25, 1.75, 2.5, 2.25],
       [2.5, 2.125, 2.5, 2.25],
       [1.25, 1.5, 1.375, 2.625],
       [1.625, 1.5, 2.25, 2.25]]> : tensor<4x4xf32>
  %seed = kerf.constant dense<3> : tensor<i32>
  %step = kerf.constant dense<7> : tensor<i32>
  %layer = kerf.constant dense<2> : tensor<i32>
  %y = kerf.dropout %x rate 0.25 "drop" seed %seed step %step : tensor<4x4xf32>
  %y_e = kerf.constant dense<
      [[3.0, 2.3333333, 0.0, 0.0],
       [3.3333333, 2.8333333, 3.3333333, 0.0],
       [1.6666667, 2.0, 1.8333333, 3.5],
       [0.0, 2.0, 3.0, 0.0]]> : tensor<4x4xf32>
  kerf.check_close %y, %y_e within 1.0e-6 : tensor<4x4xf32>

  %l = kerf.dropout %x rate 0.25 "drop" seed %seed step %step layer %layer : tensor<4x4xf32>
  %l_e = kerf.constant dense<
      [[3.0, 2.3333333, 3.3333333, 3.0],
       [0.0, 2.8333333, 3.3333333, 3.0],
       [1.6666667, 0.0, 0.0, 3.5],
       [2.1666667, 2.0, 3.0, 3.0]]> : tensor<4x4xf32>
  kerf.check_close %l, %l_e within 1.0e-6 : tensor<4x4xf32>

  %n = kerf.dropout %x rate 0.5 "other" seed %step step %seed : tensor<4x4xf32>
  %n_e = kerf.constant dense<
      [[4.5, 3.5, 0.0, 0.0], [5.0, 0.0, 0.0, 0.0], [2.5, 3.0, 0.0, 5.25], [0.0, 3.0, 0.0, 0.0]]>
      : tensor<4x4xf32>
  kerf.check_close %n, %n_e within 1.0e-6 : tensor<4x4xf32>

  %z = kerf.dropout %x rate 0.0 "drop" seed %seed step %step : tensor<4x4xf32>
  kerf.check_close %z, %x within 0.0 : tensor<4x4xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A shard, with its offsets and the global shape, has the slice of the whole mask.
kerf.model @shard() {
  %x = kerf.constant dense<
      [[2.25, 1.75, 2.5, 2.25],
       [2.5, 2.125, 2.5, 2.25],
       [1.25, 1.5, 1.375, 2.625],
       [1.625, 1.5, 2.25, 2.25]]> : tensor<4x4xf32>
  %seed = kerf.constant dense<3> : tensor<i32>
  %row = kerf.constant dense<2> : tensor<i32>
  %column = kerf.constant dense<1> : tensor<i32>
  %y = kerf.dropout %x rate 0.5 "drop" seed %seed step %seed : tensor<4x4xf32>
  %part = kerf.slice %y offsets [2, 1] sizes [2, 3] : tensor<4x4xf32>
  %cut = kerf.slice %x offsets [2, 1] sizes [2, 3] : tensor<4x4xf32>
  %shard = kerf.dropout %cut rate 0.5 "drop" seed %seed step %seed offsets(%row, %column) global [4, 4]
      : tensor<2x3xf32>
  kerf.check_close %shard, %part within 0.0 : tensor<2x3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Each layer of a repeat has a mask of its own.
kerf.model @layers() {
  %x = kerf.constant dense<1.0> : tensor<8xf32>
  %seed = kerf.constant dense<3> : tensor<i32>
  %step = kerf.constant dense<7> : tensor<i32>
  %all = kerf.repeat %i = 0 to 2 () {
    %y = kerf.dropout %x rate 0.5 "h" seed %seed step %step layer %i : tensor<8xf32>
    kerf.yield stack(%y) : tensor<8xf32>
  }
  %all_e = kerf.constant dense<
      [[0.0, 0.0, 0.0, 2.0, 2.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 2.0]]>
      : tensor<2x8xf32>
  kerf.check_close %all, %all_e within 1.0e-6 : tensor<2x8xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
