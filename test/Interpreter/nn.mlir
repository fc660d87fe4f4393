// RUN: kerf-inspect interpret %s
// RUN: kerf-inspect interpret %s --compute=f64

// The sum over shards of the vocabulary is the embedding; padding changes the gradient
// only.
kerf.model @embedding() {
  %ids = kerf.constant dense<[[5, 0, 2], [2, 3, 1]]> : tensor<2x3xi32>
  %table = kerf.constant dense<
      [[0.5, 1.625],
       [1.125, -1.125],
       [-0.75, 1.5],
       [-2.0, 1.25],
       [1.25, -0.125],
       [-0.75, -0.875]]> : tensor<6x2xf32>
  %y = kerf.embedding %ids, %table : tensor<2x3xi32>, tensor<6x2xf32>
  %y_e = kerf.constant dense<
      [[[-0.75, -0.875], [0.5, 1.625], [-0.75, 1.5]],
       [[-0.75, 1.5], [-2.0, 1.25], [1.125, -1.125]]]> : tensor<2x3x2xf32>
  kerf.check_close %y, %y_e within 0.0 : tensor<2x3x2xf32>

  %three = kerf.constant dense<3> : tensor<i32>
  %low = kerf.slice %table offsets [0, 0] sizes [3, 2] : tensor<6x2xf32>
  %high = kerf.slice %table offsets [3, 0] sizes [3, 2] : tensor<6x2xf32>
  %y0 = kerf.embedding %ids, %low : tensor<2x3xi32>, tensor<3x2xf32>
  %y1 = kerf.embedding %ids, %high offset %three : tensor<2x3xi32>, tensor<3x2xf32>
  %sum = kerf.add %y0, %y1 : tensor<2x3x2xf32>
  kerf.check_close %sum, %y within 0.0 : tensor<2x3x2xf32>

  %p = kerf.embedding %ids, %table padding 2 : tensor<2x3xi32>, tensor<6x2xf32>
  kerf.check_close %p, %y within 0.0 : tensor<2x3x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Weights are [n, k], transposed ones [k, n].
kerf.model @linear() {
  %x = kerf.constant dense<
      [[[-1.0, -0.25, 0.0], [0.25, 2.0, 1.125]], [[0.5, 2.0, -1.125], [-1.375, 0.5, -1.875]]]>
      : tensor<2x2x3xf32>
  %w = kerf.constant dense<
      [[-1.875, 0.0, -0.125], [1.625, 0.5, 0.0], [0.0, -1.0, -2.0], [-1.25, 0.75, -1.25]]>
      : tensor<4x3xf32>
  %b = kerf.constant dense<[-0.5, -2.0, 1.375, -1.375]> : tensor<4xf32>
  %y = kerf.linear %x, %w : tensor<2x2x3xf32>, tensor<4x3xf32>
  %y_e = kerf.constant dense<
      [[[1.875, -1.75, 0.25, 1.0625], [-0.609375, 1.40625, -4.25, -0.21875]],
       [[-0.796875, 1.8125, 0.25, 2.28125], [2.8125, -1.984375, 3.25, 4.4375]]]>
      : tensor<2x2x4xf32>
  kerf.check_close %y, %y_e within 1.0e-6 : tensor<2x2x4xf32>

  %z = kerf.linear %x, %w bias %b : tensor<2x2x3xf32>, tensor<4x3xf32>, tensor<4xf32>
  %z_e = kerf.constant dense<
      [[[1.375, -3.75, 1.625, -0.3125], [-1.109375, -0.59375, -2.875, -1.59375]],
       [[-1.296875, -0.1875, 1.625, 0.90625], [2.3125, -3.984375, 4.625, 3.0625]]]>
      : tensor<2x2x4xf32>
  kerf.check_close %z, %z_e within 1.0e-6 : tensor<2x2x4xf32>

  %wt = kerf.transpose %w perm [1, 0] : tensor<4x3xf32>
  %t = kerf.linear %x, %wt bias %b transposed : tensor<2x2x3xf32>, tensor<3x4xf32>, tensor<4xf32>
  kerf.check_close %t, %z_e within 1.0e-6 : tensor<2x2x4xf32>

  %row = kerf.slice %x offsets [0, 1, 0] sizes [1, 1, 3] : tensor<2x2x3xf32>
  %v = kerf.reshape %row : tensor<1x1x3xf32> -> tensor<3xf32>
  %u = kerf.linear %v, %w : tensor<3xf32>, tensor<4x3xf32>
  %u_e = kerf.constant dense<[-0.609375, 1.40625, -4.25, -0.21875]> : tensor<4xf32>
  kerf.check_close %u, %u_e within 1.0e-6 : tensor<4xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Leading dimensions are a batch.
kerf.model @matmul() {
  %a = kerf.constant dense<
      [[[-0.875, 1.5, 0.0], [1.375, 0.5, 1.0]], [[-1.625, 0.125, 0.0], [1.5, -0.5, 0.375]]]>
      : tensor<2x2x3xf32>
  %b = kerf.constant dense<
      [[[-1.75, -0.5], [-0.75, -1.375], [1.25, -0.5]],
       [[1.875, 0.375], [0.375, 0.5], [0.75, -1.375]]]> : tensor<2x3x2xf32>
  %bias = kerf.constant dense<[-0.25, -1.0]> : tensor<2xf32>
  %y = kerf.matmul %a, %b : tensor<2x2x3xf32>, tensor<2x3x2xf32>
  %y_e = kerf.constant dense<
      [[[0.40625, -1.625], [-1.53125, -1.875]], [[-3.0, -0.546875], [2.90625, -0.203125]]]>
      : tensor<2x2x2xf32>
  kerf.check_close %y, %y_e within 1.0e-6 : tensor<2x2x2xf32>

  %z = kerf.matmul %a, %b bias %bias : tensor<2x2x3xf32>, tensor<2x3x2xf32>, tensor<2xf32>
  %z_e = kerf.constant dense<
      [[[0.15625, -2.625], [-1.78125, -2.875]], [[-3.25, -1.546875], [2.65625, -1.203125]]]>
      : tensor<2x2x2xf32>
  kerf.check_close %z, %z_e within 1.0e-6 : tensor<2x2x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Norms over the last dimension; a constant row has no direction, the bias is left.
kerf.model @norms() {
  %x = kerf.constant dense<
      [[[-0.375, -1.625, 1.875, -1.125], [0.625, -0.75, 1.5, 0.625]],
       [[-1.5, 1.375, 1.75, 1.625], [0.25, -1.375, -1.25, 1.75]]]> : tensor<2x2x4xf32>
  %g = kerf.constant dense<[0.25, -1.25, 1.5, 0.625]> : tensor<4xf32>
  %b = kerf.constant dense<[0.25, -0.5, -0.375, -1.0]> : tensor<4xf32>
  %y = kerf.layer_norm %x, %g : tensor<2x2x4xf32>, tensor<4xf32>
  %y_e = kerf.constant dense<
      [[[-0.011668968, 1.2252417, 2.4504833, -0.37924147],
        [0.038807227, 1.9403614, 1.8627469, 0.097018068]],
       [[-0.43081425, -0.52396328, 1.0479266, 0.37841793],
        [0.079791904, 1.1968786, -1.2889461, 0.93602041]]]> : tensor<2x2x4xf32>
  kerf.check_close %y, %y_e within 1.0e-6 : tensor<2x2x4xf32>

  %z = kerf.layer_norm %x, %g bias %b eps 0.5 : tensor<2x2x4xf32>, tensor<4xf32>, tensor<4xf32>
  %z_e = kerf.constant dense<
      [[[0.2396814, 0.58345345, 1.7919069, -1.3353546],
        [0.27916059, 0.95802961, 1.0247084, -0.92709852]],
       [[-0.13113961, -0.96354817, 0.55209635, -0.66521521],
        [0.31975148, 0.54627225, -1.5017547, -0.18176144]]]> : tensor<2x2x4xf32>
  kerf.check_close %z, %z_e within 1.0e-6 : tensor<2x2x4xf32>

  %r = kerf.rms_norm %x, %g : tensor<2x2x4xf32>, tensor<4xf32>
  %r_e = kerf.constant dense<
      [[[-0.068181638, 1.4772688, 2.0454491, -0.51136228],
        [0.1648442, 0.98906521, 2.3737565, 0.4121105]],
       [[-0.23904524, -1.095624, 1.6733167, 0.64741418],
        [0.04873687, 1.3402639, -1.4621061, 0.85289522]]]> : tensor<2x2x4xf32>
  kerf.check_close %r, %r_e within 1.0e-6 : tensor<2x2x4xf32>

  %s = kerf.rms_norm %x, %g eps 0.5 : tensor<2x2x4xf32>, tensor<4xf32>
  %s_e = kerf.constant dense<
      [[[-0.060633906, 1.3137346, 1.8190172, -0.4547543],
        [0.13212911, 0.79277463, 1.9026591, 0.33032276]],
       [[-0.21792981, -0.99884498, 1.5255087, 0.59022658],
        [0.04267896, 1.1736714, -1.2803688, 0.7468818]]]> : tensor<2x2x4xf32>
  kerf.check_close %s, %s_e within 1.0e-6 : tensor<2x2x4xf32>

  %flat = kerf.constant dense<1.5> : tensor<4xf32>
  %f = kerf.layer_norm %flat, %g bias %b : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  %f_e = kerf.constant dense<[0.25, -0.5, -0.375, -1.0]> : tensor<4xf32>
  kerf.check_close %f, %f_e within 1.0e-6 : tensor<4xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The second half of the sequence, with its offset, is the slice of the whole; given
// positions need no order and replace the offset; the inverse rotates back.
kerf.model @rope() {
  %x = kerf.constant dense<
      [[[[-1.875, 1.5, -0.125, 0.25], [-0.75, 1.0, -1.875, -0.5]],
        [[-1.875, -1.5, 1.875, 0.625], [-0.25, 0.125, 1.5, -0.625]],
        [[0.375, 0.75, -0.625, 0.125], [1.0, 1.625, -1.375, 1.75]],
        [[-2.0, 1.0, 1.25, -1.5], [-0.375, 1.25, -2.0, 0.5]]],
       [[[1.125, 0.0, 0.875, -1.125], [-1.25, -0.5, -1.25, -0.625]],
        [[1.75, 0.25, -0.625, -0.875], [1.75, -0.25, 1.875, 0.0]],
        [[0.125, 1.625, 1.0, 0.375], [-0.25, 1.5, -0.375, 1.75]],
        [[-1.75, -0.25, 0.125, 1.75], [-1.0, 1.25, 0.75, 0.875]]]]> : tensor<2x4x2x4xf32>
  %y = kerf.rope %x theta 10000.0 : tensor<2x4x2x4xf32>
  %y_e = kerf.constant dense<
      [[[[-1.875, 1.5, -0.125, 0.25], [-0.75, 1.0, -1.875, -0.5]],
        [[-2.5908249, -1.5061749, -0.56469127, 0.609969],
         [-1.3972821, 0.13124365, 0.60008571, -0.62371877]],
        [[0.41225583, 0.74735017, 0.60107831, 0.139974],
         [0.83413713, 1.5896773, 1.4814993, 1.7821478]],
        [[1.803585, 1.0445433, -1.5197306, -1.4693296],
         [0.6534872, 1.2344398, 1.927065, 0.53726939]]],
       [[[1.125, 0.0, 0.875, -1.125], [-1.25, -0.5, -1.25, -0.625]],
        [[1.4714484, 0.25873735, 1.1348853, -0.87245629],
         [-0.63222906, -0.2499875, 2.485641, -0.0024999583]],
        [[-0.96131578, 1.6171755, -0.30248466, 0.40742284],
         [0.44502324, 1.4647023, -0.071269293, 1.779648]],
        [[1.7148469, -0.30237963, -0.37070908, 1.7417137],
         [0.88415249, 1.2231915, -0.88361438, 0.91210065]]]]> : tensor<2x4x2x4xf32>
  kerf.check_close %y, %y_e within 1.0e-6 : tensor<2x4x2x4xf32>

  %pairs = kerf.constant dense<[[[[0.5, -1.0, 0.25, 1.5]], [[1.0, 2.0, -0.75, 0.5]]]]>
      : tensor<1x2x1x4xf32>
  %turned = kerf.rope %pairs theta 100.0 interleaved : tensor<1x2x1x4xf32>
  %turned_e = kerf.constant dense<
      [[[[0.5, -1.0, 0.25, 1.5]], [[-1.142639664, 1.922075597, -0.796169832, 0.42262702]]]]>
      : tensor<1x2x1x4xf32>
  kerf.check_close %turned, %turned_e within 1.0e-6 : tensor<1x2x1x4xf32>
  %pairs_back = kerf.rope %turned theta 100.0 interleaved inverse : tensor<1x2x1x4xf32>
  kerf.check_close %pairs_back, %pairs within 1.0e-6 : tensor<1x2x1x4xf32>
  %back = kerf.rope %y theta 10000.0 inverse : tensor<2x4x2x4xf32>
  kerf.check_close %back, %x within 1.0e-6 : tensor<2x4x2x4xf32>

  %two = kerf.constant dense<2> : tensor<i32>
  %half = kerf.slice %x offsets [0, 2, 0, 0] sizes [2, 2, 2, 4] : tensor<2x4x2x4xf32>
  %shard = kerf.rope %half theta 10000.0 offset %two : tensor<2x2x2x4xf32>
  %part = kerf.slice %y offsets [0, 2, 0, 0] sizes [2, 2, 2, 4] : tensor<2x4x2x4xf32>
  kerf.check_close %shard, %part within 0.0 : tensor<2x2x2x4xf32>

  %positions = kerf.constant dense<[[0, 1, 0, 1], [3, 0, 7, 2]]> : tensor<2x4xi32>
  %p = kerf.rope %x theta 100.0 positions %positions : tensor<2x4xi32> : tensor<2x4x2x4xf32>
  %p_e = kerf.constant dense<
      [[[[-1.875, 1.5, -0.125, 0.25], [-0.75, 1.0, -1.875, -0.5]],
        [[-2.5908249, -1.5549021, -0.56469127, 0.47212748],
         [-1.3972821, 0.18677141, 0.60008571, -0.60939843]],
        [[0.375, 0.75, -0.625, 0.125], [1.0, 1.625, -1.375, 1.75]],
        [[-2.1324433, 1.1447543, -1.0075641, -1.3926728],
         [1.4803286, 1.1938385, -1.3961562, 0.62229385]]],
       [[[-1.2372216, 0.33246023, -0.70748343, -1.0747536],
         [1.4138906, -0.29296812, 1.0610906, -0.74484541]],
        [[1.75, 0.25, -0.625, -0.875], [1.75, -0.25, 1.875, 0.0]],
        [[-0.56274882, 1.0012869, 0.83602558, 1.3336696],
         [0.057894411, 0.019882328, -0.44696, 2.3048004]],
        [[0.61459479, -0.59268797, -1.6432889, 1.6654492],
         [-0.26582623, 1.0512476, -1.2214076, 1.1058949]]]]> : tensor<2x4x2x4xf32>
  kerf.check_close %p, %p_e within 1.0e-6 : tensor<2x4x2x4xf32>

  %o = kerf.rope %x theta 100.0 positions %positions : tensor<2x4xi32> offset %two
      : tensor<2x4x2x4xf32>
  kerf.check_close %o, %p within 0.0 : tensor<2x4x2x4xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Scaled frequencies; the llama3 rule meets a short, two middle and a long wavelength.
kerf.model @rope_scaling() {
  %x = kerf.constant dense<
      [[[[0.5, 1.875, -0.625, -0.375, -1.25, -1.75, -1.125, 1.625]],
        [[1.375, -1.5, 0.375, -0.125, 0.375, 0.625, -0.75, 1.875]],
        [[-0.125, 0.5, 0.5, -1.25, -1.75, -0.375, 1.0, 1.25]]]]> : tensor<1x3x1x8xf32>
  %five = kerf.constant dense<5> : tensor<i32>
  %l = kerf.rope %x theta 100.0 scaling(#kerf.rope_linear<factor = 4.0>) offset %five
      : tensor<1x3x1x8xf32>
  %l_e = kerf.constant dense<
      [[[[1.343892, 2.4042872, -0.47986446, -0.43892411, 0.080339357, -0.89304416, -1.1941441,
          1.6089113]],
        [[-0.27679697, -1.619861, 0.48286776, -0.21376512, 1.3980821, -0.12913331, -0.68553901,
          1.866964]],
        [[1.7442562, 0.6224647, 0.31825513, -1.317226, 0.18893235, -0.05623791, 1.0717806,
          1.1789469]]]]> : tensor<1x3x1x8xf32>
  kerf.check_close %l, %l_e within 1.0e-6 : tensor<1x3x1x8xf32>

  %y = kerf.rope %x theta 100.0
      scaling(#kerf.rope_llama3<factor = 8.0, low = 1.0, high = 4.0, original = 64.0>)
      offset %five : tensor<1x3x1x8xf32>
  %y_e = kerf.constant dense<
      [[[[-1.0568243, 2.2855259, -0.55036085, -0.40704155, -0.83403987, 1.1638283, -1.163337,
          1.6172715]],
        [[1.425015, -0.77803942, 0.43248268, -0.16943021, -0.024132453, -1.4266323, -0.71838968,
          1.8715083]],
        [[1.0554888, 0.30161649, 0.40674869, -1.2841045, -1.4014523, 0.54740523, 1.0414199,
          1.2149385]]]]> : tensor<1x3x1x8xf32>
  kerf.check_close %y, %y_e within 1.0e-6 : tensor<1x3x1x8xf32>

  // Yarn: pair 0 stays, 1 and 2 are between, 3 is divided; all get longer.
  %n = kerf.rope %x theta 100.0
      scaling(#kerf.rope_yarn<factor = 4.0, low = 0.5, high = 2.5, magnitude = 1.25>)
      offset %five : tensor<1x3x1x8xf32>
  %n_e = kerf.constant dense<
      [[[[-1.3210303, 2.7600529, -0.45746268, -0.54865514, -1.0425498, 1.631082, -1.5422771,
          2.0111391]],
        [[1.7812687, -0.8356332, 0.69596986, -0.26720639, -0.030165566, -1.8514032, -0.78374662,
          2.333705]],
        [[1.319361, 0.31552969, 0.21906271, -1.6465324, -1.7518153, 0.71469754, 1.3802668,
          1.4736836]]]]> : tensor<1x3x1x8xf32>
  kerf.check_close %n, %n_e within 1.0e-6 : tensor<1x3x1x8xf32>
  // A list, theta is not read: the frequencies and the magnitude of the yarn above.
  %listed = kerf.rope %x theta 7.0
      scaling(#kerf.rope_table<frequencies = [1.0, 0.2569350598886808, 0.043750000000000004, 0.007905694150420948], magnitude = 1.25>)
      offset %five : tensor<1x3x1x8xf32>
  kerf.check_close %listed, %n_e within 1.0e-5 : tensor<1x3x1x8xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Activations on both sides of zero.
kerf.model @activations() {
  %x = kerf.constant dense<[-3.0, -1.0, -0.125, 0.0, 0.5, 2.0]> : tensor<6xf32>
  %u = kerf.constant dense<[0.875, -1.5, 1.625, 1.25, 1.5, 0.125]> : tensor<6xf32>
  %exact = kerf.gelu exact %x : tensor<6xf32>
  %exact_e = kerf.constant dense<
      [-0.0040496941, -0.15865525, -0.056282722, 0.0, 0.34573123, 1.9544997]>
      : tensor<6xf32>
  kerf.check_close %exact, %exact_e within 1.0e-6 : tensor<6xf32>

  %tanh = kerf.gelu tanh %x : tensor<6xf32>
  %tanh_e = kerf.constant dense<
      [-0.0036373921, -0.15880801, -0.056282801, 0.0, 0.34571401, 1.9545977]>
      : tensor<6xf32>
  kerf.check_close %tanh, %tanh_e within 1.0e-6 : tensor<6xf32>

  %silu = kerf.silu %x : tensor<6xf32>
  %silu_e = kerf.constant dense<
      [-0.14227762, -0.26894142, -0.058598828, 0.0, 0.31122967, 1.7615942]>
      : tensor<6xf32>
  kerf.check_close %silu, %silu_e within 1.0e-6 : tensor<6xf32>

  %relu2 = kerf.squared_relu %x : tensor<6xf32>
  %relu2_e = kerf.constant dense<[0.0, 0.0, 0.0, 0.0, 0.25, 4.0]> : tensor<6xf32>
  kerf.check_close %relu2, %relu2_e within 1.0e-6 : tensor<6xf32>

  %swiglu = kerf.swiglu %x, %u : tensor<6xf32>
  %swiglu_e = kerf.constant dense<
      [-0.12449292, 0.40341213, -0.095223096, 0.0, 0.4668445, 0.22019927]>
      : tensor<6xf32>
  kerf.check_close %swiglu, %swiglu_e within 1.0e-6 : tensor<6xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Large logits do not overflow.
kerf.model @softmax() {
  %x = kerf.constant dense<[[1.0, 2.0, -1.0], [1000.0, 1000.0, -1000.0], [0.0, 0.0, 0.0]]>
      : tensor<3x3xf32>
  %y = kerf.softmax %x : tensor<3x3xf32>
  %y_e = kerf.constant dense<
      [[0.25949646, 0.70538451, 0.035119027],
       [0.5, 0.5, 0.0],
       [0.33333333, 0.33333333, 0.33333333]]> : tensor<3x3xf32>
  kerf.check_close %y, %y_e within 1.0e-6 : tensor<3x3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Ignored targets count neither in the sum nor in the normalizer; without any valid target
// the loss is 0. The z-loss is the square of the log-sum-exp.
kerf.model @cross_entropy() {
  %x = kerf.constant dense<
      [[[1.625, -1.875, -1.875, -1.875, -1.0],
        [-1.0, -1.25, 0.25, -1.875, 0.375],
        [-1.375, 0.75, -1.875, -0.75, 1.75]],
       [[0.125, 1.25, 0.625, 0.5, -1.25],
        [0.25, -1.875, 1.25, 1.875, 1.375],
        [-1.75, -0.625, -0.75, -1.5, 0.5]]]> : tensor<2x3x5xf32>
  %t = kerf.constant dense<[[4, -100, 0], [2, 2, -100]]> : tensor<2x3xi32>
  %n = kerf.count_valid %t : tensor<2x3xi32>
  %n_e = kerf.constant dense<4.0> : tensor<f32>
  kerf.check_close %n, %n_e within 0.0 : tensor<f32>

  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x3x5xf32>, tensor<2x3xi32>
  %l_e = kerf.constant dense<2.3277854> : tensor<f32>
  kerf.check_close %l, %l_e within 1.0e-6 : tensor<f32>

  %z = kerf.cross_entropy %x, %t normalizer %n z_loss 0.125 : tensor<2x3x5xf32>, tensor<2x3xi32>
  %z_e = kerf.constant dense<2.9490427> : tensor<f32>
  kerf.check_close %z, %z_e within 1.0e-6 : tensor<f32>

  %two = kerf.constant dense<2.0> : tensor<f32>
  %u = kerf.constant dense<[[4, 0, 0], [2, 2, 0]]> : tensor<2x3xi32>
  %m = kerf.count_valid %u ignore 0 : tensor<2x3xi32>
  %m_e = kerf.constant dense<3.0> : tensor<f32>
  kerf.check_close %m, %m_e within 0.0 : tensor<f32>

  %i = kerf.cross_entropy %x, %u normalizer %two ignore 0 : tensor<2x3x5xf32>, tensor<2x3xi32>
  %i_e = kerf.constant dense<2.8835347> : tensor<f32>
  kerf.check_close %i, %i_e within 1.0e-6 : tensor<f32>

  %none = kerf.constant dense<-100> : tensor<2x3xi32>
  %one = kerf.count_valid %none : tensor<2x3xi32>
  %one_e = kerf.constant dense<0.0> : tensor<f32>
  kerf.check_close %one, %one_e within 0.0 : tensor<f32>

  %zero = kerf.cross_entropy %x, %none normalizer %one : tensor<2x3x5xf32>, tensor<2x3xi32>
  %zero_e = kerf.constant dense<0.0> : tensor<f32>
  kerf.check_close %zero, %zero_e within 0.0 : tensor<f32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A shard of the vocabulary holds the logits of some targets only.
kerf.model @cross_entropy_shard() {
  %x = kerf.constant dense<
      [[[-1.875, -1.0], [-1.875, 0.375], [-0.75, 1.75]],
       [[0.5, -1.25], [1.875, 1.375], [-1.5, 0.5]]]> : tensor<2x3x2xf32>
  %t = kerf.constant dense<[[4, -100, 0], [2, 2, -100]]> : tensor<2x3xi32>
  %three = kerf.constant dense<3> : tensor<i32>
  %n = kerf.constant dense<1.0> : tensor<f32>
  %l = kerf.cross_entropy %x, %t normalizer %n offset %three : tensor<2x3x2xf32>, tensor<2x3xi32>
  %l_e = kerf.constant dense<5.1866354> : tensor<f32>
  kerf.check_close %l, %l_e within 1.0e-6 : tensor<f32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
