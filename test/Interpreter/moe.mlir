// RUN: kerf-inspect interpret %s
// RUN: kerf-inspect interpret %s --compute=f64

// Weights are probabilities, or renormalized over the chosen; ties go to the lower number.
kerf.model @route() {
  %x = kerf.constant dense<
      [[[1.25, -1.375, 1.75, 1.625], [0.625, -1.75, 1.0, 0.375], [1.125, -1.125, 1.875, 1.5]],
       [[-1.5, -0.75, -1.875, 1.375], [1.625, 2.0, 0.5, 0.625], [0.75, 0.25, 1.75, 0.375]]]>
      : tensor<2x3x4xf32>
  %w, %e = kerf.route %x k 2 : tensor<2x3x4xf32>
  %w_e = kerf.constant dense<
      [[[0.39479432, 0.34840477], [0.43735376, 0.30058855], [0.45260278, 0.31106904]],
       [[0.82330051, 0.098329224], [0.46226549, 0.31771012], [0.5423437, 0.1995171]]]>
      : tensor<2x3x2xf32>
  kerf.check_close %w, %w_e within 1.0e-6 : tensor<2x3x2xf32>
  %e_e = kerf.constant dense<[[[2, 3], [2, 0], [2, 3]], [[3, 1], [1, 0], [2, 0]]]>
      : tensor<2x3x2xi32>
  kerf.check_close %e, %e_e within 0.0 : tensor<2x3x2xi32>

  %r, %f = kerf.route %x k 2 renormalize : tensor<2x3x4xf32>
  %r_e = kerf.constant dense<
      [[[0.53120937, 0.46879063], [0.5926666, 0.4073334], [0.5926666, 0.4073334]],
       [[0.89330941, 0.10669059], [0.5926666, 0.4073334], [0.73105858, 0.26894142]]]>
      : tensor<2x3x2xf32>
  kerf.check_close %r, %r_e within 1.0e-6 : tensor<2x3x2xf32>
  kerf.check_close %f, %e within 0.0 : tensor<2x3x2xi32>

  %tie = kerf.constant dense<[[[1.0, 2.0, 2.0, 2.0]]]> : tensor<1x1x4xf32>
  %tw, %te = kerf.route %tie k 2 : tensor<1x1x4xf32>
  %te_e = kerf.constant dense<[[[1, 2]]]> : tensor<1x1x2xi32>
  kerf.check_close %te, %te_e within 0.0 : tensor<1x1x2xi32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Each sigmoid by itself; a bias and the best groups decide who is chosen, not the
// weights. The load counts choices.
kerf.model @route_sigmoid() {
  %x = kerf.constant dense<
      [[[1.25, -1.375, 1.75, 1.625, 0.5, -0.25],
        [0.625, -1.75, 1.0, 0.375, 2.0, -1.5],
        [1.125, -1.125, 1.875, 1.5, -0.625, 0.875]]]> : tensor<1x3x6xf32>
  %w, %e = kerf.route %x k 2 sigmoid : tensor<1x3x6xf32>
  %w_e = kerf.constant dense<
      [[[0.8519528, 0.83548354], [0.88079708, 0.73105858], [0.86703576, 0.81757448]]]>
      : tensor<1x3x2xf32>
  kerf.check_close %w, %w_e within 1.0e-6 : tensor<1x3x2xf32>
  %e_e = kerf.constant dense<[[[2, 3], [4, 2], [2, 3]]]> : tensor<1x3x2xi32>
  kerf.check_close %e, %e_e within 0.0 : tensor<1x3x2xi32>

  %bias = kerf.constant dense<[0.0, 0.5, -0.25, -0.125, 0.25, 0.0]> : tensor<6xf32>
  %v, %f = kerf.route %x k 3 renormalize sigmoid groups 3 best 2 scale 2.5 bias %bias : tensor<6xf32>
      : tensor<1x3x6xf32>
  %v_e = kerf.constant dense<
      [[[1.0708990, 1.1510596, 0.27804144], [1.3105546, 0.96916319, 0.22028222],
        [1.0383550, 0.33710450, 1.1245405]]]> : tensor<1x3x3xf32>
  kerf.check_close %v, %v_e within 1.0e-6 : tensor<1x3x3xf32>
  %f_e = kerf.constant dense<[[[0, 3, 1], [4, 0, 1], [0, 1, 3]]]> : tensor<1x3x3xi32>
  kerf.check_close %f, %f_e within 0.0 : tensor<1x3x3xi32>

  %load = kerf.expert_load %f : tensor<1x3x3xi32> -> tensor<6xf32>
  %load_e = kerf.constant dense<[3.0, 3.0, 0.0, 2.0, 1.0, 0.0]> : tensor<6xf32>
  kerf.check_close %load, %load_e within 0.0 : tensor<6xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Sigmoids that are all zero are divided by no zero.
kerf.model @route_sigmoid_zero() {
  %x = kerf.constant dense<-1000.0> : tensor<1x1x3xf32>
  %w, %e = kerf.route %x k 2 renormalize sigmoid : tensor<1x1x3xf32>
  %w_e = kerf.constant dense<0.0> : tensor<1x1x2xf32>
  kerf.check_close %w, %w_e within 0.0 : tensor<1x1x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The loss is per group, then summed; even probabilities give the number of choices.
kerf.model @load_balance_loss() {
  %x = kerf.constant dense<
      [[[1.25, -1.375, 1.75, 1.625], [0.625, -1.75, 1.0, 0.375], [1.125, -1.125, 1.875, 1.5]],
       [[-1.5, -0.75, -1.875, 1.375], [1.625, 2.0, 0.5, 0.625], [0.75, 0.25, 1.75, 0.375]]]>
      : tensor<2x3x4xf32>
  %w, %e = kerf.route %x k 2 : tensor<2x3x4xf32>
  %one = kerf.load_balance_loss %x, %e group 1 : tensor<2x3x4xf32>, tensor<2x3x2xi32>
  %one_e = kerf.constant dense<4.7291194> : tensor<f32>
  kerf.check_close %one, %one_e within 1.0e-6 : tensor<f32>

  %two = kerf.load_balance_loss %x, %e group 2 : tensor<2x3x4xf32>, tensor<2x3x2xi32>
  %two_e = kerf.constant dense<2.1347461> : tensor<f32>
  kerf.check_close %two, %two_e within 1.0e-6 : tensor<f32>

  %even = kerf.constant dense<0.0> : tensor<2x3x4xf32>
  %experts = kerf.constant dense<[[[0], [1], [2]], [[3], [0], [1]]]> : tensor<2x3x1xi32>
  %best = kerf.load_balance_loss %even, %experts group 2 : tensor<2x3x4xf32>, tensor<2x3x1xi32>
  %best_e = kerf.constant dense<1.0> : tensor<f32>
  kerf.check_close %best, %best_e within 1.0e-6 : tensor<f32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Without a capacity rows are sorted by expert and nobody is dropped; with one, first
// choices of all tokens come before second choices, and what does not fit is -1.
kerf.model @assign_slots() {
  %e = kerf.constant dense<[[[1, 0], [0, 1], [1, 2]], [[1, 2], [2, 1], [1, 0]]]> : tensor<2x3x2xi32>
  %s, %sn = kerf.assign_slots %e count 3 group 1 : tensor<2x3x2xi32>
  %s_e = kerf.constant dense<[[[2, 1], [0, 4], [3, 5]], [[1, 5], [4, 3], [2, 0]]]>
      : tensor<2x3x2xi32>
  kerf.check_close %s, %s_e within 0.0 : tensor<2x3x2xi32>
  %sn_e = kerf.constant dense<[[2, 3, 1], [1, 3, 2]]> : tensor<2x3xi32>
  kerf.check_close %sn, %sn_e within 0.0 : tensor<2x3xi32>

  %t, %tn = kerf.assign_slots %e count 3 group 2 : tensor<2x3x2xi32>
  %t_e = kerf.constant dense<[[[3, 1], [0, 7], [4, 10]], [[5, 11], [9, 8], [6, 2]]]>
      : tensor<2x3x2xi32>
  kerf.check_close %t, %t_e within 0.0 : tensor<2x3x2xi32>
  %tn_e = kerf.constant dense<[[3, 6, 3]]> : tensor<1x3xi32>
  kerf.check_close %tn, %tn_e within 0.0 : tensor<1x3xi32>

  %u, %un = kerf.assign_slots %e count 3 group 1 capacity 2 : tensor<2x3x2xi32>
  %u_e = kerf.constant dense<[[[2, 1], [0, -1], [3, 4]], [[2, 5], [4, -1], [3, 0]]]>
      : tensor<2x3x2xi32>
  kerf.check_close %u, %u_e within 0.0 : tensor<2x3x2xi32>
  %un_e = kerf.constant dense<[[2, 2, 1], [1, 2, 2]]> : tensor<2x3xi32>
  kerf.check_close %un, %un_e within 0.0 : tensor<2x3xi32>

  %v, %vn = kerf.assign_slots %e count 3 group 2 capacity 2 : tensor<2x3x2xi32>
  %v_e = kerf.constant dense<[[[2, 1], [0, -1], [3, 5]], [[-1, -1], [4, -1], [-1, -1]]]>
      : tensor<2x3x2xi32>
  kerf.check_close %v, %v_e within 0.0 : tensor<2x3x2xi32>
  %vn_e = kerf.constant dense<2> : tensor<1x3xi32>
  kerf.check_close %vn, %vn_e within 0.0 : tensor<1x3xi32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Tables of one sequence and of two; with a capacity dropped choices are absent and rows
// of nobody are zero.
kerf.model @dispatch_and_combine() {
  %x = kerf.constant dense<
      [[[-0.625, 0.0], [-1.875, 0.875], [0.75, -0.375]],
       [[1.375, 1.0], [-0.625, -1.75], [-1.5, -1.25]]]> : tensor<2x3x2xf32>
  %w = kerf.constant dense<
      [[[-0.75, -0.25], [1.75, -0.875], [1.625, 0.75]],
       [[1.375, -0.375], [-2.0, 1.125], [-1.0, -1.375]]]> : tensor<2x3x2xf32>
  %s = kerf.constant dense<[[[2, 1], [0, 4], [3, 5]], [[1, 5], [4, 3], [2, 0]]]> : tensor<2x3x2xi32>
  %t = kerf.constant dense<[[[2, 1], [0, -1], [3, 5]], [[-1, -1], [4, -1], [-1, -1]]]>
      : tensor<2x3x2xi32>
  %a = kerf.dispatch %x, %s : tensor<2x3x2xf32>, tensor<2x3x2xi32> -> tensor<2x6x2xf32>
  %a_e = kerf.constant dense<
      [[[-1.875, 0.875],
        [-0.625, 0.0],
        [-0.625, 0.0],
        [0.75, -0.375],
        [-1.875, 0.875],
        [0.75, -0.375]],
       [[-1.5, -1.25],
        [1.375, 1.0],
        [-1.5, -1.25],
        [-0.625, -1.75],
        [-0.625, -1.75],
        [1.375, 1.0]]]> : tensor<2x6x2xf32>
  kerf.check_close %a, %a_e within 1.0e-6 : tensor<2x6x2xf32>

  %aw = kerf.dispatch %x, %s weights %w : tensor<2x3x2xf32>
      : tensor<2x3x2xf32>, tensor<2x3x2xi32> -> tensor<2x6x2xf32>
  %aw_e = kerf.constant dense<
      [[[-3.28125, 1.53125],
        [0.15625, 0.0],
        [0.46875, 0.0],
        [1.21875, -0.609375],
        [1.640625, -0.765625],
        [0.5625, -0.28125]],
       [[2.0625, 1.71875],
        [1.890625, 1.375],
        [1.5, 1.25],
        [-0.703125, -1.96875],
        [1.25, 3.5],
        [-0.515625, -0.375]]]> : tensor<2x6x2xf32>
  kerf.check_close %aw, %aw_e within 1.0e-6 : tensor<2x6x2xf32>

  %a_rows = kerf.constant dense<
      [[[1.25, 0.75],
        [-1.125, -0.875],
        [1.75, -0.875],
        [0.75, -1.5],
        [1.25, -1.5],
        [0.125, -1.875]],
       [[0.25, 1.375],
        [-1.625, -0.875],
        [1.0, 0.375],
        [-0.75, 0.5],
        [-0.125, 1.5],
        [-0.875, 1.0]]]> : tensor<2x6x2xf32>
  %ac = kerf.combine %a_rows, %s : tensor<2x6x2xf32>, tensor<2x3x2xi32>
  %ac_e = kerf.constant dense<
      [[[0.625, -1.75], [2.5, -0.75], [0.875, -3.375]],
       [[-2.5, 0.125], [-0.875, 2.0], [1.25, 1.75]]]> : tensor<2x3x2xf32>
  kerf.check_close %ac, %ac_e within 1.0e-6 : tensor<2x3x2xf32>

  %acw = kerf.combine %a_rows, %s weights %w : tensor<2x3x2xf32>
      : tensor<2x6x2xf32>, tensor<2x3x2xi32>
  %acw_e = kerf.constant dense<
      [[[-1.03125, 0.875], [1.09375, 2.625], [1.3125, -3.84375]],
       [[-1.90625, -1.578125], [-0.59375, -2.4375], [-1.34375, -2.265625]]]>
      : tensor<2x3x2xf32>
  kerf.check_close %acw, %acw_e within 1.0e-6 : tensor<2x3x2xf32>

  %b = kerf.dispatch %x, %t : tensor<2x3x2xf32>, tensor<2x3x2xi32> -> tensor<1x6x2xf32>
  %b_e = kerf.constant dense<
      [[[-1.875, 0.875],
        [-0.625, 0.0],
        [-0.625, 0.0],
        [0.75, -0.375],
        [-0.625, -1.75],
        [0.75, -0.375]]]> : tensor<1x6x2xf32>
  kerf.check_close %b, %b_e within 1.0e-6 : tensor<1x6x2xf32>

  %bw = kerf.dispatch %x, %t weights %w : tensor<2x3x2xf32>
      : tensor<2x3x2xf32>, tensor<2x3x2xi32> -> tensor<1x6x2xf32>
  %bw_e = kerf.constant dense<
      [[[-3.28125, 1.53125],
        [0.15625, 0.0],
        [0.46875, 0.0],
        [1.21875, -0.609375],
        [1.25, 3.5],
        [0.5625, -0.28125]]]> : tensor<1x6x2xf32>
  kerf.check_close %bw, %bw_e within 1.0e-6 : tensor<1x6x2xf32>

  %b_rows = kerf.constant dense<
      [[[0.5, 1.0],
        [-0.5, 0.875],
        [0.75, -0.5],
        [-1.875, 1.875],
        [0.875, -1.125],
        [0.875, -0.875]]]> : tensor<1x6x2xf32>
  %bc = kerf.combine %b_rows, %t : tensor<1x6x2xf32>, tensor<2x3x2xi32>
  %bc_e = kerf.constant dense<
      [[[0.25, 0.375], [0.5, 1.0], [-1.0, 1.0]], [[0.0, 0.0], [0.875, -1.125], [0.0, 0.0]]]>
      : tensor<2x3x2xf32>
  kerf.check_close %bc, %bc_e within 1.0e-6 : tensor<2x3x2xf32>

  %bcw = kerf.combine %b_rows, %t weights %w : tensor<2x3x2xf32>
      : tensor<1x6x2xf32>, tensor<2x3x2xi32>
  %bcw_e = kerf.constant dense<
      [[[-0.4375, 0.15625], [0.875, 1.75], [-2.390625, 2.390625]],
       [[0.0, 0.0], [-1.75, 2.25], [0.0, 0.0]]]> : tensor<2x3x2xf32>
  kerf.check_close %bcw, %bcw_e within 1.0e-6 : tensor<2x3x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Each row meets the weight of its expert; rows beyond the sizes are zero.
kerf.model @grouped_matmul() {
  %x = kerf.constant dense<
      [[[-0.125, 1.5], [-0.25, -0.875], [-0.75, -1.75], [-1.125, -0.875]],
       [[-1.25, -1.75], [-0.125, -1.125], [1.0, 1.75], [-0.875, 0.25]]]> : tensor<2x4x2xf32>
  %y = kerf.constant dense<
      [[[-0.5, 1.0, -1.75],
        [-1.0, 1.25, -0.125],
        [-0.125, 1.875, -0.75],
        [-1.875, -0.375, -1.375]],
       [[-1.625, 0.25, 1.875], [0.375, 0.625, -0.75], [0.25, 1.0, 0.375], [1.25, 0.25, -1.25]]]>
      : tensor<2x4x3xf32>
  %w = kerf.constant dense<
      [[[0.0, -1.75], [-1.5, 1.5], [-0.125, 1.25]], [[-1.75, 0.375], [1.5, 1.5], [-2.0, 0.125]]]>
      : tensor<2x3x2xf32>
  %n = kerf.constant dense<[[1, 3], [2, 1]]> : tensor<2x2xi32>
  %m = kerf.constant dense<[[1, 2], [0, 2]]> : tensor<2x2xi32>
  %a = kerf.grouped_matmul %x, %w, %n : tensor<2x4x2xf32>, tensor<2x3x2xf32>, tensor<2x2xi32>
  %a_e = kerf.constant dense<
      [[[-2.625, 2.4375, 1.890625],
        [0.109375, -1.6875, 0.390625],
        [0.65625, -3.75, 1.28125],
        [1.640625, -3.0, 2.140625]],
       [[3.0625, -0.75, -2.03125],
        [1.96875, -1.5, -1.390625],
        [-1.09375, 4.125, -1.78125],
        [0.0, 0.0, 0.0]]]> : tensor<2x4x3xf32>
  kerf.check_close %a, %a_e within 1.0e-6 : tensor<2x4x3xf32>

  %b = kerf.grouped_matmul %y, %w, %n transposed
      : tensor<2x4x3xf32>, tensor<2x3x2xf32>, tensor<2x2xi32>
  %b_e = kerf.constant dense<
      [[[-1.28125, 0.1875], [3.875, 1.484375], [4.53125, 2.671875], [5.46875, -1.4375]],
       [[-0.609375, 5.5625], [-0.84375, -0.65625], [0.3125, 1.640625], [0.0, 0.0]]]>
      : tensor<2x4x2xf32>
  kerf.check_close %b, %b_e within 1.0e-6 : tensor<2x4x2xf32>

  %c = kerf.grouped_matmul %x, %w, %m capacity 2
      : tensor<2x4x2xf32>, tensor<2x3x2xf32>, tensor<2x2xi32>
  %c_e = kerf.constant dense<
      [[[-2.625, 2.4375, 1.890625],
        [0.0, 0.0, 0.0],
        [0.65625, -3.75, 1.28125],
        [1.640625, -3.0, 2.140625]],
       [[0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [-1.09375, 4.125, -1.78125],
        [1.625, -0.9375, 1.78125]]]> : tensor<2x4x3xf32>
  kerf.check_close %c, %c_e within 1.0e-6 : tensor<2x4x3xf32>

  %d = kerf.grouped_matmul %y, %w, %m capacity 2 transposed
      : tensor<2x4x3xf32>, tensor<2x3x2xf32>, tensor<2x2xi32>
  %d_e = kerf.constant dense<
      [[[-1.28125, 0.1875], [0.0, 0.0], [4.53125, 2.671875], [5.46875, -1.4375]],
       [[0.0, 0.0], [0.0, 0.0], [0.3125, 1.640625], [0.6875, 0.6875]]]> : tensor<2x4x2xf32>
  kerf.check_close %d, %d_e within 1.0e-6 : tensor<2x4x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
