// RUN: kerf-inspect interpret %s
// RUN: kerf-inspect interpret %s --compute=f64

// Constants in their spellings.
kerf.model @constant() {
  %splat = kerf.constant dense<0.5> : tensor<2x2xf32>
  %list = kerf.constant dense<[[0.5, 0.5], [0.5, 0.5]]> : tensor<2x2xf32>
  kerf.check_close %splat, %list within 0.0 : tensor<2x2xf32>

  %hex = kerf.constant dense<0x3F000000> : tensor<2x2xf32>
  kerf.check_close %hex, %list within 0.0 : tensor<2x2xf32>

  %true = kerf.constant dense<true> : tensor<2xi1>
  %one = kerf.cast %true : tensor<2xi1> -> tensor<2xf32>
  %one_e = kerf.constant dense<1.0> : tensor<2xf32>
  kerf.check_close %one, %one_e within 0.0 : tensor<2xf32>

  %minus = kerf.constant dense<[-1, -2]> : tensor<2xi32>
  %float = kerf.cast %minus : tensor<2xi32> -> tensor<2xf32>
  %float_e = kerf.constant dense<[-1.0, -2.0]> : tensor<2xf32>
  kerf.check_close %float, %float_e within 0.0 : tensor<2xf32>

  %half = kerf.constant dense<[0.5, -2.0]> : tensor<2xf16>
  %wide = kerf.cast %half : tensor<2xf16> -> tensor<2xf32>
  %wide_e = kerf.constant dense<[0.5, -2.0]> : tensor<2xf32>
  kerf.check_close %wide, %wide_e within 0.0 : tensor<2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// An iota of a shard, with its offset, is the slice of the whole.
kerf.model @iota() {
  %rows = kerf.iota dim 0 : tensor<2x3xi32>
  %rows_e = kerf.constant dense<[[0, 0, 0], [1, 1, 1]]> : tensor<2x3xi32>
  kerf.check_close %rows, %rows_e within 0.0 : tensor<2x3xi32>

  %columns = kerf.iota dim 1 : tensor<2x3xi32>
  %columns_e = kerf.constant dense<[[0, 1, 2], [0, 1, 2]]> : tensor<2x3xi32>
  kerf.check_close %columns, %columns_e within 0.0 : tensor<2x3xi32>

  %half = kerf.slice %columns offsets [0, 1] sizes [2, 2] : tensor<2x3xi32>
  %first = kerf.constant dense<1> : tensor<i32>
  %shard = kerf.iota dim 1 offset %first : tensor<2x2xi32>
  kerf.check_close %shard, %half within 0.0 : tensor<2x2xi32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// New dimensions before, after and between the old ones.
kerf.model @broadcast() {
  %x = kerf.constant dense<[0.5, 1.625, 1.125]> : tensor<3xf32>
  %columns = kerf.broadcast %x dims [1] : tensor<3xf32> -> tensor<2x3xf32>
  %columns_e = kerf.constant dense<[[0.5, 1.625, 1.125], [0.5, 1.625, 1.125]]> : tensor<2x3xf32>
  kerf.check_close %columns, %columns_e within 0.0 : tensor<2x3xf32>

  %rows = kerf.broadcast %x dims [0] : tensor<3xf32> -> tensor<3x2xf32>
  %rows_e = kerf.constant dense<[[0.5, 0.5], [1.625, 1.625], [1.125, 1.125]]> : tensor<3x2xf32>
  kerf.check_close %rows, %rows_e within 0.0 : tensor<3x2xf32>

  %m = kerf.constant dense<[[-1.125, -0.75], [1.5, -2.0]]> : tensor<2x2xf32>
  %middle = kerf.broadcast %m dims [0, 2] : tensor<2x2xf32> -> tensor<2x3x2xf32>
  %middle_e = kerf.constant dense<
      [[[-1.125, -0.75], [-1.125, -0.75], [-1.125, -0.75]],
       [[1.5, -2.0], [1.5, -2.0], [1.5, -2.0]]]> : tensor<2x3x2xf32>
  kerf.check_close %middle, %middle_e within 0.0 : tensor<2x3x2xf32>

  %s = kerf.constant dense<1.5> : tensor<f32>
  %all = kerf.broadcast %s dims [] : tensor<f32> -> tensor<2xf32>
  %all_e = kerf.constant dense<1.5> : tensor<2xf32>
  kerf.check_close %all, %all_e within 0.0 : tensor<2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Ops that only move elements.
kerf.model @move() {
  %x = kerf.constant dense<
      [[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]],
       [[12.0, 13.0, 14.0, 15.0], [16.0, 17.0, 18.0, 19.0], [20.0, 21.0, 22.0, 23.0]]]>
      : tensor<2x3x4xf32>
  %r = kerf.reshape %x : tensor<2x3x4xf32> -> tensor<4x6xf32>
  %r_e = kerf.constant dense<
      [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
       [6.0, 7.0, 8.0, 9.0, 10.0, 11.0],
       [12.0, 13.0, 14.0, 15.0, 16.0, 17.0],
       [18.0, 19.0, 20.0, 21.0, 22.0, 23.0]]> : tensor<4x6xf32>
  kerf.check_close %r, %r_e within 0.0 : tensor<4x6xf32>

  %t = kerf.transpose %x perm [2, 0, 1] : tensor<2x3x4xf32>
  %t_e = kerf.constant dense<
      [[[0.0, 4.0, 8.0], [12.0, 16.0, 20.0]],
       [[1.0, 5.0, 9.0], [13.0, 17.0, 21.0]],
       [[2.0, 6.0, 10.0], [14.0, 18.0, 22.0]],
       [[3.0, 7.0, 11.0], [15.0, 19.0, 23.0]]]> : tensor<4x2x3xf32>
  kerf.check_close %t, %t_e within 0.0 : tensor<4x2x3xf32>

  %s = kerf.slice %x offsets [1, 0, 2] sizes [1, 2, 2] : tensor<2x3x4xf32>
  %s_e = kerf.constant dense<[[[14.0, 15.0], [18.0, 19.0]]]> : tensor<1x2x2xf32>
  kerf.check_close %s, %s_e within 0.0 : tensor<1x2x2xf32>

  %p = kerf.pad %s low [1, 0, 2] high [0, 1, 0] : tensor<1x2x2xf32>
  %p_e = kerf.constant dense<
      [[[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]],
       [[0.0, 0.0, 14.0, 15.0], [0.0, 0.0, 18.0, 19.0], [0.0, 0.0, 0.0, 0.0]]]>
      : tensor<2x3x4xf32>
  kerf.check_close %p, %p_e within 0.0 : tensor<2x3x4xf32>

  %u = kerf.slice %x offsets [0, 0, 0] sizes [2, 1, 4] : tensor<2x3x4xf32>
  %joined = kerf.concat dim 1 %x, %u, %u : tensor<2x3x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>
  %joined_e = kerf.constant dense<
      [[[0.0, 1.0, 2.0, 3.0],
        [4.0, 5.0, 6.0, 7.0],
        [8.0, 9.0, 10.0, 11.0],
        [0.0, 1.0, 2.0, 3.0],
        [0.0, 1.0, 2.0, 3.0]],
       [[12.0, 13.0, 14.0, 15.0],
        [16.0, 17.0, 18.0, 19.0],
        [20.0, 21.0, 22.0, 23.0],
        [12.0, 13.0, 14.0, 15.0],
        [12.0, 13.0, 14.0, 15.0]]]> : tensor<2x5x4xf32>
  kerf.check_close %joined, %joined_e within 0.0 : tensor<2x5x4xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Matmuls with and without batch, sums over several letters, an outer product.
kerf.model @einsum() {
  %x = kerf.constant dense<
      [[[1.25, 1.25, -0.125, -0.75], [-0.875, -1.0, -0.25, 0.0], [0.25, 2.0, 1.125, 0.5]],
       [[2.0, -1.125, -1.375, 0.5], [-1.875, -1.875, 0.0, -0.125], [1.625, 0.5, 0.0, 0.0]]]>
      : tensor<2x3x4xf32>
  %w = kerf.constant dense<
      [[-1.0, -2.0, -1.25, 0.75],
       [-1.25, -0.5, -2.0, 1.375],
       [-1.375, -0.875, 1.5, 0.0],
       [1.375, 0.5, 1.0, -1.625],
       [0.125, 0.0, 1.5, -0.5]]> : tensor<5x4xf32>
  %linear = kerf.einsum "bsk,nk->bsn" %x, %w
      : tensor<2x3x4xf32>, tensor<5x4xf32> -> tensor<2x3x5xf32>
  %linear_e = kerf.constant dense<
      [[[-4.15625, -2.96875, -3.0, 3.4375, 0.34375],
        [3.1875, 2.09375, 1.703125, -1.953125, -0.484375],
        [-5.28125, -2.875, -0.40625, 1.65625, 1.46875]],
       [[2.34375, 1.5, -3.828125, 0.0, -2.0625],
        [5.53125, 3.109375, 4.21875, -3.3125, -0.171875],
        [-2.625, -2.28125, -2.671875, 2.484375, 0.203125]]]> : tensor<2x3x5xf32>
  kerf.check_close %linear, %linear_e within 1.0e-6 : tensor<2x3x5xf32>

  %flipped = kerf.einsum "bsk,nk->nsb" %x, %w
      : tensor<2x3x4xf32>, tensor<5x4xf32> -> tensor<5x3x2xf32>
  %flipped_e = kerf.constant dense<
      [[[-4.15625, 2.34375], [3.1875, 5.53125], [-5.28125, -2.625]],
       [[-2.96875, 1.5], [2.09375, 3.109375], [-2.875, -2.28125]],
       [[-3.0, -3.828125], [1.703125, 4.21875], [-0.40625, -2.671875]],
       [[3.4375, 0.0], [-1.953125, -3.3125], [1.65625, 2.484375]],
       [[0.34375, -2.0625], [-0.484375, -0.171875], [1.46875, 0.203125]]]> : tensor<5x3x2xf32>
  kerf.check_close %flipped, %flipped_e within 1.0e-6 : tensor<5x3x2xf32>

  %y = kerf.constant dense<
      [[[0.375, -1.75, -0.5, -0.75], [-1.375, 1.25, -0.5, 1.875], [0.375, 0.375, 0.5, 0.75]],
       [[-1.375, -0.25, -1.0, -0.375],
        [-1.625, 1.875, -1.125, 0.625],
        [-0.75, 1.5, 0.625, -1.5]]]> : tensor<2x3x4xf32>
  %batched = kerf.einsum "bsk,btk->bst" %x, %y
      : tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<2x3x3xf32>
  %batched_e = kerf.constant dense<
      [[[-1.09375, -1.5, 0.3125], [1.546875, 0.078125, -0.828125], [-4.34375, 2.53125, 1.78125]],
       [[-1.28125, -3.5, -4.796875],
        [3.09375, -0.546875, -1.21875],
        [-2.359375, -1.703125, -0.46875]]]> : tensor<2x3x3xf32>
  kerf.check_close %batched, %batched_e within 1.0e-6 : tensor<2x3x3xf32>

  %two = kerf.einsum "bsk,bsn->kn" %x, %y : tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<4x4xf32>
  %two_e = kerf.constant dense<
      [[0.84375, -4.765625, 1.0625, -6.75],
       [6.8125, -5.171875, 4.421875, -2.8125],
       [2.609375, 0.671875, 2.125, 0.984375],
       [-0.578125, 1.140625, 0.265625, 0.671875]]> : tensor<4x4xf32>
  kerf.check_close %two, %two_e within 1.0e-6 : tensor<4x4xf32>

  %all = kerf.einsum "bsk,bsk->" %x, %y : tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<f32>
  %all_e = kerf.constant dense<-1.53125> : tensor<f32>
  kerf.check_close %all, %all_e within 1.0e-6 : tensor<f32>

  %u = kerf.constant dense<[1.375, 1.75]> : tensor<2xf32>
  %v = kerf.constant dense<[1.625, 0.25, -1.375]> : tensor<3xf32>
  %outer = kerf.einsum "i,j->ji" %u, %v : tensor<2xf32>, tensor<3xf32> -> tensor<3x2xf32>
  %outer_e = kerf.constant dense<[[2.234375, 2.84375], [0.34375, 0.4375], [-1.890625, -2.40625]]>
      : tensor<3x2xf32>
  kerf.check_close %outer, %outer_e within 1.0e-6 : tensor<3x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Sums and maxima along inner, outer, several, all and no dimensions.
kerf.model @reduce() {
  %x = kerf.constant dense<
      [[[-1.25, 1.75, 0.25, -1.25], [1.5, 0.625, 0.25, -0.5], [-0.375, -1.0, -1.875, 1.5]],
       [[-0.125, 0.25, -0.75, 1.0], [-1.875, -0.5, -1.875, -1.5], [1.875, 0.625, -0.25, 0.125]]]>
      : tensor<2x3x4xf32>
  %sum_inner = kerf.reduce sum %x dims [2] : tensor<2x3x4xf32>
  %sum_inner_e = kerf.constant dense<[[-0.5, 1.875, -1.75], [0.375, -5.75, 2.375]]>
      : tensor<2x3xf32>
  kerf.check_close %sum_inner, %sum_inner_e within 1.0e-6 : tensor<2x3xf32>

  %max_inner = kerf.reduce max %x dims [2] : tensor<2x3x4xf32>
  %max_inner_e = kerf.constant dense<[[1.75, 1.5, 1.5], [1.0, -0.5, 1.875]]> : tensor<2x3xf32>
  kerf.check_close %max_inner, %max_inner_e within 0.0 : tensor<2x3xf32>

  %sum_outer = kerf.reduce sum %x dims [0] : tensor<2x3x4xf32>
  %sum_outer_e = kerf.constant dense<
      [[-1.375, 2.0, -0.5, -0.25], [-0.375, 0.125, -1.625, -2.0], [1.5, -0.375, -2.125, 1.625]]>
      : tensor<3x4xf32>
  kerf.check_close %sum_outer, %sum_outer_e within 1.0e-6 : tensor<3x4xf32>

  %max_outer = kerf.reduce max %x dims [0] : tensor<2x3x4xf32>
  %max_outer_e = kerf.constant dense<
      [[-0.125, 1.75, 0.25, 1.0], [1.5, 0.625, 0.25, -0.5], [1.875, 0.625, -0.25, 1.5]]>
      : tensor<3x4xf32>
  kerf.check_close %max_outer, %max_outer_e within 0.0 : tensor<3x4xf32>

  %sum_both = kerf.reduce sum %x dims [0, 2] : tensor<2x3x4xf32>
  %sum_both_e = kerf.constant dense<[-0.125, -3.875, 0.625]> : tensor<3xf32>
  kerf.check_close %sum_both, %sum_both_e within 1.0e-6 : tensor<3xf32>

  %max_both = kerf.reduce max %x dims [0, 2] : tensor<2x3x4xf32>
  %max_both_e = kerf.constant dense<[1.75, 1.5, 1.875]> : tensor<3xf32>
  kerf.check_close %max_both, %max_both_e within 0.0 : tensor<3xf32>

  %sum_every = kerf.reduce sum %x dims [0, 1, 2] : tensor<2x3x4xf32>
  %sum_every_e = kerf.constant dense<-3.375> : tensor<f32>
  kerf.check_close %sum_every, %sum_every_e within 1.0e-6 : tensor<f32>

  %max_every = kerf.reduce max %x dims [0, 1, 2] : tensor<2x3x4xf32>
  %max_every_e = kerf.constant dense<1.875> : tensor<f32>
  kerf.check_close %max_every, %max_every_e within 0.0 : tensor<f32>

  %sum_none = kerf.reduce sum %x dims [] : tensor<2x3x4xf32>
  %sum_none_e = kerf.constant dense<
      [[[-1.25, 1.75, 0.25, -1.25], [1.5, 0.625, 0.25, -0.5], [-0.375, -1.0, -1.875, 1.5]],
       [[-0.125, 0.25, -0.75, 1.0], [-1.875, -0.5, -1.875, -1.5], [1.875, 0.625, -0.25, 0.125]]]>
      : tensor<2x3x4xf32>
  kerf.check_close %sum_none, %sum_none_e within 1.0e-6 : tensor<2x3x4xf32>

  %i = kerf.constant dense<[[-1, 3, 1], [-2, -5, 0]]> : tensor<2x3xi32>
  %isum = kerf.reduce sum %i dims [1] : tensor<2x3xi32>
  %isum_e = kerf.constant dense<[3, -7]> : tensor<2xi32>
  kerf.check_close %isum, %isum_e within 0.0 : tensor<2xi32>

  %imax = kerf.reduce max %i dims [0] : tensor<2x3xi32>
  %imax_e = kerf.constant dense<[-1, 3, 1]> : tensor<3xi32>
  kerf.check_close %imax, %imax_e within 0.0 : tensor<3xi32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Prefix sums leave out the element itself.
kerf.model @cumsum() {
  %i = kerf.constant dense<[[1, 3, 4, 1], [4, 2, 2, 3], [3, 4, 4, 0]]> : tensor<3x4xi32>
  %down = kerf.cumsum %i dim 0 : tensor<3x4xi32>
  %down_e = kerf.constant dense<[[0, 0, 0, 0], [1, 3, 4, 1], [5, 5, 6, 4]]> : tensor<3x4xi32>
  kerf.check_close %down, %down_e within 0.0 : tensor<3x4xi32>

  %along = kerf.cumsum %i dim 1 : tensor<3x4xi32>
  %along_e = kerf.constant dense<[[0, 1, 4, 8], [0, 4, 6, 8], [0, 3, 7, 11]]> : tensor<3x4xi32>
  kerf.check_close %along, %along_e within 0.0 : tensor<3x4xi32>

  %x = kerf.constant dense<[1.75, -2.0, 1.0]> : tensor<3xf32>
  %f = kerf.cumsum %x dim 0 : tensor<3xf32>
  %f_e = kerf.constant dense<[0.0, 1.75, -0.25]> : tensor<3xf32>
  kerf.check_close %f, %f_e within 1.0e-6 : tensor<3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Of equal elements the one of lower index comes first.
kerf.model @top_k() {
  %x = kerf.constant dense<[[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0], [-1.0, 5.0, -2.0, 5.0]]>
      : tensor<3x4xf32>
  %v, %i = kerf.top_k %x k 3 : tensor<3x4xf32>
  %v_e = kerf.constant dense<[[3.0, 3.0, 2.0], [0.0, 0.0, 0.0], [5.0, 5.0, -1.0]]> : tensor<3x3xf32>
  kerf.check_close %v, %v_e within 0.0 : tensor<3x3xf32>
  %i_e = kerf.constant dense<[[1, 2, 3], [0, 1, 2], [1, 3, 0]]> : tensor<3x3xi32>
  kerf.check_close %i, %i_e within 0.0 : tensor<3x3xi32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Indices outside the table give zeros.
kerf.model @gather() {
  %table = kerf.constant dense<[[1.25, -1.5], [-0.375, 1.25], [-2.0, 0.5], [1.125, 0.0]]>
      : tensor<4x2xf32>
  %i = kerf.constant dense<[[3, 0], [-1, 4]]> : tensor<2x2xi32>
  %y = kerf.gather %table, %i : tensor<4x2xf32>, tensor<2x2xi32>
  %y_e = kerf.constant dense<[[[1.125, 0.0], [1.25, -1.5]], [[0.0, 0.0], [0.0, 0.0]]]>
      : tensor<2x2x2xf32>
  kerf.check_close %y, %y_e within 0.0 : tensor<2x2x2xf32>

  %numbers = kerf.constant dense<[10, 20, 30]> : tensor<3xi32>
  %n = kerf.gather %numbers, %i : tensor<3xi32>, tensor<2x2xi32>
  %n_e = kerf.constant dense<[[0, 10], [0, 0]]> : tensor<2x2xi32>
  kerf.check_close %n, %n_e within 0.0 : tensor<2x2xi32>

  %one = kerf.constant dense<1> : tensor<i32>
  %row = kerf.gather %table, %one : tensor<4x2xf32>, tensor<i32>
  %row_e = kerf.constant dense<[-0.375, 1.25]> : tensor<2xf32>
  kerf.check_close %row, %row_e within 0.0 : tensor<2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Rows of one index add up; indices outside the table are ignored.
kerf.model @scatter_add() {
  %x = kerf.constant dense<
      [[[0.875, -1.125], [-1.25, -0.5], [-1.25, -0.625]],
       [[1.75, 0.25], [-0.625, -0.875], [1.75, -0.25]]]> : tensor<2x3x2xf32>
  %i = kerf.constant dense<[[1, 3, 1], [-1, 0, 4]]> : tensor<2x3xi32>
  %y = kerf.scatter_add %x, %i : tensor<2x3x2xf32>, tensor<2x3xi32> -> tensor<4x2xf32>
  %y_e = kerf.constant dense<[[-0.625, -0.875], [-0.375, -1.75], [0.0, 0.0], [-1.25, -0.5]]>
      : tensor<4x2xf32>
  kerf.check_close %y, %y_e within 0.0 : tensor<4x2xf32>

  %ones = kerf.constant dense<1> : tensor<2x3xi32>
  %count = kerf.scatter_add %ones, %i : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<4xi32>
  %count_e = kerf.constant dense<[1, 2, 0, 1]> : tensor<4xi32>
  kerf.check_close %count, %count_e within 0.0 : tensor<4xi32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Numbers depend on seed, step, layer, name and global index only: a shard draws the
// slice of the whole.
kerf.model @random_uniform() {
  %seed = kerf.constant dense<11> : tensor<i32>
  %step = kerf.constant dense<5> : tensor<i32>
  %layer = kerf.constant dense<2> : tensor<i32>
  %u = kerf.random_uniform "drop" seed %seed step %step : tensor<2x3xf32>
  %u_e = kerf.constant dense<
      [[0.64152783, 0.013527274, 0.064535022], [0.28696358, 0.079279602, 0.67490584]]>
      : tensor<2x3xf32>
  kerf.check_close %u, %u_e within 1.0e-6 : tensor<2x3xf32>

  %l = kerf.random_uniform "drop" seed %seed step %step layer %layer : tensor<2x3xf32>
  %l_e = kerf.constant dense<
      [[0.17523962, 0.21532971, 0.93015736], [0.83743447, 0.60626686, 0.36174935]]>
      : tensor<2x3xf32>
  kerf.check_close %l, %l_e within 1.0e-6 : tensor<2x3xf32>

  %one = kerf.constant dense<1> : tensor<i32>
  %shard = kerf.random_uniform "drop" seed %seed step %step offsets(%one, %one) global [2, 3]
      : tensor<1x2xf32>
  %part = kerf.slice %u offsets [1, 1] sizes [1, 2] : tensor<2x3xf32>
  kerf.check_close %shard, %part within 0.0 : tensor<1x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
