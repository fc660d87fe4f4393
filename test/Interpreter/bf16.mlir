// RUN: kerf-inspect interpret %s

// Every result is rounded to the nearest bf16, ties to even: small steps are lost.
kerf.model @rounding() {
  %x = kerf.constant dense<[1.0, 1.0, 1.0, 256.0]> : tensor<4xbf16>
  %y = kerf.constant dense<[0.001953125, 0.00390625, 0.01171875, 1.0]> : tensor<4xbf16>
  %s = kerf.add %x, %y : tensor<4xbf16>
  %s_e = kerf.constant dense<[1.0, 1.0, 1.015625, 256.0]> : tensor<4xbf16>
  kerf.check_close %s, %s_e within 0.0 : tensor<4xbf16>

  %p = kerf.constant dense<[1.5, 1.0078125, 3.0, 0.10009766]> : tensor<4xbf16>
  %pp = kerf.mul %p, %p : tensor<4xbf16>
  %pp_e = kerf.constant dense<[2.25, 1.015625, 9.0, 0.010009766]> : tensor<4xbf16>
  kerf.check_close %pp, %pp_e within 0.0 : tensor<4xbf16>

  %e = kerf.exp %p : tensor<4xbf16>
  %e_e = kerf.constant dense<[4.46875, 2.734375, 20.125, 1.1015625]> : tensor<4xbf16>
  kerf.check_close %e, %e_e within 0.0 : tensor<4xbf16>

  %t = kerf.add %s, %y : tensor<4xbf16>
  %t_e = kerf.constant dense<[1.0, 1.0, 1.03125, 256.0]> : tensor<4xbf16>
  kerf.check_close %t, %t_e within 0.0 : tensor<4xbf16>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Sums are taken in f32 at least and rounded once; a bias is added before that.
kerf.model @sums() {
  %x = kerf.constant dense<1.0> : tensor<1x300xbf16>
  %y = kerf.einsum "mk,nk->mn" %x, %x : tensor<1x300xbf16>, tensor<1x300xbf16> -> tensor<1x1xf32>
  %y_e = kerf.constant dense<[[300.0]]> : tensor<1x1xf32>
  kerf.check_close %y, %y_e within 0.0 : tensor<1x1xf32>

  %z = kerf.einsum "mk,nk->mn" %x, %x : tensor<1x300xbf16>, tensor<1x300xbf16> -> tensor<1x1xbf16>
  %z_e = kerf.constant dense<[[300.0]]> : tensor<1x1xbf16>
  kerf.check_close %z, %z_e within 0.0 : tensor<1x1xbf16>

  %r = kerf.reduce sum %x dims [1] : tensor<1x300xbf16>
  %r_e = kerf.constant dense<[300.0]> : tensor<1xbf16>
  kerf.check_close %r, %r_e within 0.0 : tensor<1xbf16>

  %odd = kerf.slice %x offsets [0, 0] sizes [1, 299] : tensor<1x300xbf16>
  %b = kerf.constant dense<[-0.5]> : tensor<1xbf16>
  %l = kerf.linear %odd, %odd bias %b : tensor<1x299xbf16>, tensor<1x299xbf16>, tensor<1xbf16>
  %l_e = kerf.constant dense<[[298.0]]> : tensor<1x1xbf16>
  kerf.check_close %l, %l_e within 0.0 : tensor<1x1xbf16>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Layers compute in f32 and round their result once.
kerf.model @layers() {
  %x = kerf.constant dense<
      [[1.5, -1.75, 0.75, 1.5, -1.125, 1.625, 1.5, -1.875],
       [0.875, -2.0, 0.0, -0.25, -1.125, -0.75, 1.25, -0.75]]> : tensor<2x8xbf16>
  %g = kerf.constant dense<[-1.375, 0.75, -0.25, 1.25, -1.0, -0.75, 1.25, 0.0]> : tensor<8xbf16>
  %ln = kerf.layer_norm %x, %g : tensor<2x8xbf16>, tensor<8xbf16>
  %ln_e = kerf.constant dense<
      [[-1.15625, -1.03125, -0.082519531, 1.0546875, 0.94921875, -0.6953125, 1.0546875, 0.0],
       [-1.6953125, -1.2578125, -0.086914062, 0.11816406, 0.7890625, 0.30859375, 2.015625, 0.0]]>
      : tensor<2x8xbf16>
  kerf.check_close %ln, %ln_e within 0.0 : tensor<2x8xbf16>

  %rn = kerf.rms_norm %x, %g : tensor<2x8xbf16>, tensor<8xbf16>
  %rn_e = kerf.constant dense<
      [[-1.3828125, -0.87890625, -0.12597656, 1.2578125, 0.75390625, -0.81640625, 1.2578125, -0.0],
       [-1.1484375, -1.4296875, -0.0, -0.29882812, 1.0703125, 0.53515625, 1.4921875, -0.0]]>
      : tensor<2x8xbf16>
  kerf.check_close %rn, %rn_e within 0.0 : tensor<2x8xbf16>

  %sm = kerf.softmax %x : tensor<2x8xbf16>
  %sm_e = kerf.constant dense<
      [[0.2109375, 0.0081787109, 0.099609375, 0.2109375, 0.015258789, 0.23828125, 0.2109375,
        0.0072021484],
       [0.26367188, 0.014892578, 0.11035156, 0.0859375, 0.035888672, 0.052001953, 0.38476562,
        0.052001953]]> : tensor<2x8xbf16>
  kerf.check_close %sm, %sm_e within 0.0 : tensor<2x8xbf16>

  %ge = kerf.gelu tanh %x : tensor<2x8xbf16>
  %ge_e = kerf.constant dense<
      [[1.3984375, -0.0703125, 0.578125, 1.3984375, -0.14648438, 1.5390625, 1.3984375,
        -0.056884766],
       [0.70703125, -0.045410156, 0.0, -0.10009766, -0.14648438, -0.16992188, 1.1171875,
        -0.16992188]]> : tensor<2x8xbf16>
  kerf.check_close %ge, %ge_e within 0.0 : tensor<2x8xbf16>

  %si = kerf.silu %x : tensor<2x8xbf16>
  %si_e = kerf.constant dense<
      [[1.2265625, -0.25976562, 0.5078125, 1.2265625, -0.27539062, 1.359375, 1.2265625,
        -0.24902344],
       [0.6171875, -0.23828125, 0.0, -0.109375, -0.27539062, -0.24023438, 0.97265625, -0.24023438]]>
      : tensor<2x8xbf16>
  kerf.check_close %si, %si_e within 0.0 : tensor<2x8xbf16>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The loss and the log-sum-exp stay f32.
kerf.model @kept_in_f32() {
  %x = kerf.constant dense<[[0.0, -1.0, -2.0, 1.75, -1.625], [1.375, -0.5, 1.75, -0.375, 1.75]]>
      : tensor<2x5xbf16>
  %t = kerf.constant dense<[3, 0]> : tensor<2xi32>
  %n = kerf.count_valid %t : tensor<2xi32>
  %l = kerf.cross_entropy %x, %t normalizer %n : tensor<2x5xbf16>, tensor<2xi32>
  %l_e = kerf.constant dense<0.85136522> : tensor<f32>
  kerf.check_close %l, %l_e within 1.0e-6 : tensor<f32>

  %q = kerf.constant dense<
      [[[[0.25, -1.0], [1.0, 0.75]],
        [[0.75, -0.125], [-1.125, 0.625]],
        [[-1.625, 0.75], [0.5, -0.5]]]]> : tensor<1x3x2x2xbf16>
  %k = kerf.constant dense<
      [[[[1.25, -1.25], [-0.5, 1.25]],
        [[-0.5, 0.875], [0.5, 1.75]],
        [[2.0, 0.875], [1.25, -1.375]]]]> : tensor<1x3x2x2xbf16>
  %v = kerf.constant dense<
      [[[[0.875, 1.375], [-0.375, 0.25]],
        [[-0.125, 1.875], [-0.75, -0.375]],
        [[-2.0, -0.375], [0.5, 1.75]]]]> : tensor<1x3x2x2xbf16>
  %y, %lse = kerf.attention %q, %k, %v causal lse
      : tensor<1x3x2x2xbf16>, tensor<1x3x2x2xbf16>, tensor<1x3x2x2xbf16>
  %y_e = kerf.constant dense<
      [[[[0.875, 1.375], [-0.375, 0.25]],
        [[0.62890625, 1.5], [-0.51171875, 0.024902344]],
        [[-0.18164062, 1.7421875], [0.15625, 1.1640625]]]]> : tensor<1x3x2x2xbf16>
  kerf.check_close %y, %y_e within 0.0 : tensor<1x3x2x2xbf16>
  %lse_e = kerf.constant dense<
      [[[1.1048543, 1.0567854, 1.1338089], [0.30935922, 1.3967643, 1.3113184]]]>
      : tensor<1x2x3xf32>
  kerf.check_close %lse, %lse_e within 1.0e-6 : tensor<1x2x3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
