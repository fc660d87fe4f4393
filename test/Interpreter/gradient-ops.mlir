// RUN: kerf-inspect interpret %s
// RUN: kerf-inspect interpret %s --compute=f64

// Vectors of one token add up, those of the padding id do not; a shard has the slice.
kerf.model @embedding_gradient() {
  %dy = kerf.constant dense<
      [[[1.125, 0.375], [0.875, -1.625], [0.5, 1.875]],
       [[-0.25, -1.5], [1.875, 0.75], [-1.25, 0.75]]]> : tensor<2x3x2xf32>
  %ids = kerf.constant dense<[[3, 0, 3], [1, 3, 2]]> : tensor<2x3xi32>
  %d = kerf.embedding_gradient %dy, %ids : tensor<2x3x2xf32>, tensor<2x3xi32> -> tensor<4x2xf32>
  %d_e = kerf.constant dense<[[0.875, -1.625], [-0.25, -1.5], [-1.25, 0.75], [3.5, 3.0]]>
      : tensor<4x2xf32>
  kerf.check_close %d, %d_e within 1.0e-6 : tensor<4x2xf32>

  %p = kerf.embedding_gradient %dy, %ids padding 3
      : tensor<2x3x2xf32>, tensor<2x3xi32> -> tensor<4x2xf32>
  %p_e = kerf.constant dense<[[0.875, -1.625], [-0.25, -1.5], [-1.25, 0.75], [0.0, 0.0]]>
      : tensor<4x2xf32>
  kerf.check_close %p, %p_e within 1.0e-6 : tensor<4x2xf32>

  %two = kerf.constant dense<2> : tensor<i32>
  %high = kerf.slice %p offsets [2, 0] sizes [2, 2] : tensor<4x2xf32>
  %shard = kerf.embedding_gradient %dy, %ids offset %two padding 3
      : tensor<2x3x2xf32>, tensor<2x3xi32> -> tensor<2x2xf32>
  kerf.check_close %shard, %high within 0.0 : tensor<2x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Gradients of norms by input and by gain.
kerf.model @norms() {
  %x = kerf.constant dense<
      [[[2.0, -1.125, 1.375, 0.75], [-1.125, -1.25, 1.875, -0.625]],
       [[-0.25, 0.625, -0.25, -2.0], [-1.0, -0.125, 1.0, 0.375]]]> : tensor<2x2x4xf32>
  %g = kerf.constant dense<[-0.25, -1.25, 1.125, -1.25]> : tensor<4xf32>
  %dy = kerf.constant dense<
      [[[-1.25, -1.375, 0.625, -0.875], [-2.0, -1.25, 1.625, 0.875]],
       [[0.375, -0.375, 1.25, -1.0], [0.5, -2.0, 0.625, 1.875]]]> : tensor<2x2x4xf32>
  %layer = kerf.layer_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<2x2x4xf32>, tensor<4xf32>
  %layer_e = kerf.constant dense<
      [[[-0.083522254, -0.050106168, 0.016702056, 0.11692637],
        [0.089979361, 0.96541035, 0.25935315, -1.3147429]],
       [[-0.82278802, 0.048293918, 0.75033979, 0.024154304],
        [-0.69945463, 3.1174418, 0.95513653, -3.3731237]]]> : tensor<2x2x4xf32>
  kerf.check_close %layer, %layer_e within 1.0e-6 : tensor<2x2x4xf32>

  %layer_g = kerf.layer_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<2x2x4xf32> -> tensor<4xf32>
  %layer_g_e = kerf.constant dense<[-0.64425525, 3.2433409, 4.1879882, 2.1693995]> : tensor<4xf32>
  kerf.check_close %layer_g, %layer_g_e within 1.0e-6 : tensor<4xf32>

  %layer_eps = kerf.layer_norm_backward %x, %g, %dy eps 0.5 : tensor<2x2x4xf32>, tensor<4xf32>
  %layer_eps_e = kerf.constant dense<
      [[[-0.17863781, 0.11787584, -0.039291946, 0.10005392],
        [0.027274264, 0.78407138, 0.35753927, -1.1688849]],
       [[-0.68092663, -0.061370052, 0.58266887, 0.15962781],
        [-0.4065069, 2.2585197, 0.60169048, -2.4537033]]]> : tensor<2x2x4xf32>
  kerf.check_close %layer_eps, %layer_eps_e within 1.0e-6 : tensor<2x2x4xf32>

  %layer_eps_g = kerf.layer_norm_weight_gradient %x, %dy eps 0.5
      : tensor<2x2x4xf32> -> tensor<4xf32>
  %layer_eps_g_e = kerf.constant dense<[-0.43327923, 2.7445277, 3.507456, 1.6584849]>
      : tensor<4xf32>
  kerf.check_close %layer_eps_g, %layer_eps_g_e within 1.0e-6 : tensor<4xf32>

  %rms = kerf.rms_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<2x2x4xf32>, tensor<4xf32>
  %rms_e = kerf.constant dense<
      [[[0.13570511, 1.2874862, 0.44479734, 0.75388958],
        [0.5907852, 1.4324706, 1.0665189, -0.72880956]],
       [[-0.22033166, 0.77141641, 1.1914268, 0.11969131],
        [-0.39971249, 3.3763117, 1.1871175, -3.1061338]]]> : tensor<2x2x4xf32>
  kerf.check_close %rms, %rms_e within 1.0e-6 : tensor<2x2x4xf32>

  %rms_g = kerf.rms_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<2x2x4xf32> -> tensor<4xf32>
  %rms_g_e = kerf.constant dense<[-0.8348604, 2.4376685, 3.5239703, 1.9461118]> : tensor<4xf32>
  kerf.check_close %rms_g, %rms_g_e within 1.0e-6 : tensor<4xf32>

  %rms_eps = kerf.rms_norm_backward %x, %g, %dy eps 0.5 : tensor<2x2x4xf32>, tensor<4xf32>
  %rms_eps_e = kerf.constant dense<
      [[[0.13730743, 1.1381851, 0.40765157, 0.67799571],
        [0.47745105, 1.2119286, 1.0053313, -0.66290052]],
       [[-0.14967034, 0.55781415, 1.0256147, 0.36968399],
        [-0.20837517, 2.4418389, 0.77552906, -2.2671173]]]> : tensor<2x2x4xf32>
  kerf.check_close %rms_eps, %rms_eps_e within 1.0e-6 : tensor<2x2x4xf32>

  %rms_eps_g = kerf.rms_norm_weight_gradient %x, %dy eps 0.5 : tensor<2x2x4xf32> -> tensor<4xf32>
  %rms_eps_g_e = kerf.constant dense<[-0.6451829, 2.1113894, 2.9815184, 1.4657313]> : tensor<4xf32>
  kerf.check_close %rms_eps_g, %rms_eps_g_e within 1.0e-6 : tensor<4xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Gradients of activations on both sides of zero.
kerf.model @activations() {
  %x = kerf.constant dense<[-3.0, -1.0, -0.125, 0.0, 0.5, 2.0]> : tensor<6xf32>
  %u = kerf.constant dense<[0.875, -1.75, 0.375, -0.75, 1.625, -1.875]> : tensor<6xf32>
  %dy = kerf.constant dense<[-2.0, -1.625, -0.625, 1.5, 0.25, 0.625]> : tensor<6xf32>
  %exact = kerf.gelu_backward exact %x, %dy : tensor<6xf32>
  %exact_e = kerf.constant dense<
      [0.023891294, 0.13538764, -0.25048879, 0.75, 0.21687378, 0.67826988]>
      : tensor<6xf32>
  kerf.check_close %exact, %exact_e within 1.0e-6 : tensor<6xf32>

  %tanh = kerf.gelu_backward tanh %x, %dy : tensor<6xf32>
  %tanh_e = kerf.constant dense<
      [0.023168333, 0.13481664, -0.25049037, 0.75, 0.21684248, 0.67881204]>
      : tensor<6xf32>
  kerf.check_close %tanh, %tanh_e within 1.0e-6 : tensor<6xf32>

  %silu = kerf.silu_backward %x, %dy : tensor<6xf32>
  %silu_e = kerf.constant dense<
      [0.17620821, -0.11753542, -0.27353899, 0.75, 0.1849903, 0.68174016]>
      : tensor<6xf32>
  kerf.check_close %silu, %silu_e within 1.0e-6 : tensor<6xf32>

  %relu2 = kerf.squared_relu_backward %x, %dy : tensor<6xf32>
  %relu2_e = kerf.constant dense<[0.0, 0.0, 0.0, 0.0, 0.25, 2.5]> : tensor<6xf32>
  kerf.check_close %relu2, %relu2_e within 1.0e-6 : tensor<6xf32>

  %gate, %up = kerf.swiglu_backward %x, %u, %dy : tensor<6xf32>
  %gate_e = kerf.constant dense<
      [0.15418219, 0.20568698, -0.10257712, -0.5625, 0.30060923, -1.2782628]>
      : tensor<6xf32>
  kerf.check_close %gate, %gate_e within 1.0e-6 : tensor<6xf32>
  %up_e = kerf.constant dense<[0.28455524, 0.43702981, 0.036624268, 0.0, 0.077807416, 1.1009963]>
      : tensor<6xf32>
  kerf.check_close %up, %up_e within 1.0e-6 : tensor<6xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The gradient of a softmax from its result.
kerf.model @softmax_backward() {
  %x = kerf.constant dense<[[-1.875, -1.25, -0.5, 0.5], [1.0, 0.25, -0.875, -1.25]]>
      : tensor<2x4xf32>
  %dy = kerf.constant dense<[[-0.375, -1.0, 1.0, 1.625], [1.25, -1.5, 1.125, -2.0]]>
      : tensor<2x4xf32>
  %y = kerf.softmax %x : tensor<2x4xf32>
  %d = kerf.softmax_backward %y, %dy : tensor<2x4xf32>
  %d_e = kerf.constant dense<
      [[-0.083445024, -0.22233667, -0.020589877, 0.32637157],
       [0.55416995, -0.48861422, 0.073911326, -0.13946705]]> : tensor<2x4xf32>
  kerf.check_close %d, %d_e within 1.0e-6 : tensor<2x4xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Rows of ignored targets have gradient 0.
kerf.model @cross_entropy_backward() {
  %x = kerf.constant dense<
      [[[-1.5, 0.75, -0.75, 1.25, 0.75],
        [0.5, 0.375, 1.625, 1.375, -1.875],
        [2.0, -0.25, -0.875, 1.5, 1.625]],
       [[1.125, 0.875, -2.0, -0.875, 1.25],
        [2.0, -0.875, 1.0, -1.5, 1.0],
        [-0.625, -1.75, -1.25, 0.25, -0.125]]]> : tensor<2x3x5xf32>
  %t = kerf.constant dense<[[4, -100, 0], [2, 2, -100]]> : tensor<2x3xi32>
  %dy = kerf.constant dense<0.5> : tensor<f32>
  %n = kerf.count_valid %t : tensor<2x3xi32>
  %d = kerf.cross_entropy_backward %x, %t, %dy normalizer %n : tensor<2x3x5xf32>, tensor<2x3xi32>
  %d_e = kerf.constant dense<
      [[[0.0033125654, 0.031428746, 0.0070127011, 0.051817242, -0.093571254],
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [-0.074096676, 0.0053651709, 0.002871769, 0.030874427, 0.034985309]],
       [[0.04043709, 0.031492437, -0.12322332, 0.005472565, 0.045821226],
        [0.068591908, 0.0038696906, -0.099766447, 0.0020712961, 0.025233553],
        [0.0, 0.0, 0.0, 0.0, 0.0]]]> : tensor<2x3x5xf32>
  kerf.check_close %d, %d_e within 1.0e-6 : tensor<2x3x5xf32>

  %z = kerf.cross_entropy_backward %x, %t, %dy normalizer %n z_loss 0.125
      : tensor<2x3x5xf32>, tensor<2x3xi32>
  %z_e = kerf.constant dense<
      [[[0.0050769958, 0.048169195, 0.010748, 0.079417576, -0.076830805],
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [-0.037212311, 0.0092527543, 0.0049526425, 0.053245925, 0.060335537]],
       [[0.063219006, 0.049235011, -0.12222235, 0.0085557621, 0.071636519],
        [0.11317903, 0.0063851242, -0.08336376, 0.0034177107, 0.04163624],
        [0.0, 0.0, 0.0, 0.0, 0.0]]]> : tensor<2x3x5xf32>
  kerf.check_close %z, %z_e within 1.0e-6 : tensor<2x3x5xf32>

  %u = kerf.constant dense<[[4, 0, 0], [2, 2, 0]]> : tensor<2x3xi32>
  %i = kerf.cross_entropy_backward %x, %u, %dy normalizer %n ignore 0
      : tensor<2x3x5xf32>, tensor<2x3xi32>
  %i_e = kerf.constant dense<
      [[[0.0033125654, 0.031428746, 0.0070127011, 0.051817242, -0.093571254],
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0]],
       [[0.04043709, 0.031492437, -0.12322332, 0.005472565, 0.045821226],
        [0.068591908, 0.0038696906, -0.099766447, 0.0020712961, 0.025233553],
        [0.0, 0.0, 0.0, 0.0, 0.0]]]> : tensor<2x3x5xf32>
  kerf.check_close %i, %i_e within 1.0e-6 : tensor<2x3x5xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A shard of the vocabulary subtracts 1 at the targets that it holds.
kerf.model @cross_entropy_backward_shard() {
  %x = kerf.constant dense<
      [[[1.25, 0.75], [1.375, -1.875], [1.5, 1.625]],
       [[-0.875, 1.25], [-1.5, 1.0], [0.25, -0.125]]]> : tensor<2x3x2xf32>
  %t = kerf.constant dense<[[4, -100, 0], [2, 2, -100]]> : tensor<2x3xi32>
  %three = kerf.constant dense<3> : tensor<i32>
  %one = kerf.constant dense<1.0> : tensor<f32>
  %d = kerf.cross_entropy_backward %x, %t, %one normalizer %one offset %three
      : tensor<2x3x2xf32>, tensor<2x3xi32>
  %d_e = kerf.constant dense<
      [[[0.62245933, -0.62245933], [0.0, 0.0], [0.46879063, 0.53120937]],
       [[0.10669059, 0.89330941], [0.07585818, 0.92414182], [0.0, 0.0]]]> : tensor<2x3x2xf32>
  kerf.check_close %d, %d_e within 1.0e-6 : tensor<2x3x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Every key visible to every query.
kerf.model @attention_backward() {
  %q = kerf.constant dense<
      [[[[0.75, -0.625], [0.375, -0.5]],
        [[1.125, -2.0], [0.375, 0.375]],
        [[-1.75, 1.0], [0.5, 1.75]]]]> : tensor<1x3x2x2xf32>
  %k = kerf.constant dense<
      [[[[-1.25, -0.25], [1.5, 1.75]],
        [[0.75, -0.625], [1.0, -0.125]],
        [[0.125, 0.75], [1.75, -2.0]]]]> : tensor<1x3x2x2xf32>
  %v = kerf.constant dense<
      [[[[0.75, 1.625], [-0.5, -1.0]],
        [[0.25, -1.875], [1.25, 0.0]],
        [[0.625, 1.125], [-1.875, -1.25]]]]> : tensor<1x3x2x2xf32>
  %dy = kerf.constant dense<
      [[[[-0.375, 0.5], [-0.5, -0.875]],
        [[-1.875, -0.25], [1.75, -1.875]],
        [[0.375, -1.125], [1.875, 1.25]]]]> : tensor<1x3x2x2xf32>
  %y, %l = kerf.attention %q, %k, %v lse
      : tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>
  %dq, %dk, %dv = kerf.attention_backward %q, %k, %v from %y, %l, %dy
     
          : tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32> from tensor<1x3x2x2xf32>, tensor<1x2x3xf32>
  %dq_e = kerf.constant dense<
      [[[[-0.31927078, 0.21918215], [0.25064245, -0.65946344]],
        [[0.2518171, -0.12213165], [-0.19047736, 0.5554433]],
        [[0.27311705, -0.0021554014], [-0.11780854, -0.33929911]]]]> : tensor<1x3x2x2xf32>
  kerf.check_close %dq, %dq_e within 1.0e-6 : tensor<1x3x2x2xf32>
  %dk_e = kerf.constant dense<
      [[[[0.22963718, -0.0091872429], [-0.095844163, -0.34017229]],
        [[-0.18938011, -0.069768582], [0.080404537, 0.650611]],
        [[-0.040257073, 0.078955825], [0.015439626, -0.31043871]]]]> : tensor<1x3x2x2xf32>
  kerf.check_close %dk, %dk_e within 1.0e-6 : tensor<1x3x2x2xf32>
  %dv_e = kerf.constant dense<
      [[[[0.0098649542, -0.72198034], [2.5489398, 0.041117831]],
        [[-1.7593512, 0.039074558], [0.49838601, -0.64508747]],
        [[-0.12551374, -0.19209421], [0.077674231, -0.89603036]]]]> : tensor<1x3x2x2xf32>
  kerf.check_close %dv, %dv_e within 1.0e-6 : tensor<1x3x2x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Grouped heads, causal; values wider than keys.
kerf.model @attention_backward_causal() {
  %q = kerf.constant dense<
      [[[[-1.125, 1.875], [-0.75, 0.75], [-1.0, -0.875], [-1.75, -0.875]],
        [[-0.375, -1.875], [-2.0, -2.0], [1.5, -0.375], [1.625, -0.125]],
        [[0.25, -0.5], [1.125, -0.625], [1.25, -0.375], [-1.5, -0.375]]]]>
      : tensor<1x3x4x2xf32>
  %k = kerf.constant dense<
      [[[[-1.875, -0.5], [-0.5, 0.875]],
        [[2.0, -1.375], [0.375, 1.375]],
        [[0.75, -1.125], [-0.375, 1.75]]]]> : tensor<1x3x2x2xf32>
  %v = kerf.constant dense<
      [[[[0.125, 0.75, -0.75], [1.125, 0.25, 1.125]],
        [[-0.875, -1.125, -1.25], [0.375, -1.625, -0.625]],
        [[0.625, -0.875, -1.0], [-1.125, -0.125, 1.0]]]]> : tensor<1x3x2x3xf32>
  %dy = kerf.constant dense<
      [[[[-1.0, 0.125, 2.0], [0.0, -0.875, 1.375], [1.625, 1.0, -0.75], [0.0, -0.75, 1.75]],
        [[-2.0, 1.5, -1.0],
         [-1.375, 1.375, 1.125],
         [-1.875, -0.875, -1.625],
         [1.0, 1.625, -0.875]],
        [[-0.625, -1.875, -1.625],
         [-1.75, 0.875, -1.125],
         [-0.125, -0.875, 0.125],
         [0.25, -0.625, -1.0]]]]> : tensor<1x3x4x3xf32>
  %y, %l = kerf.attention %q, %k, %v causal scale 0.25 lse
      : tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x3xf32>
  %dq, %dk, %dv = kerf.attention_backward %q, %k, %v from %y, %l, %dy causal scale 0.25
     
          : tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x3xf32> from tensor<1x3x4x3xf32>, tensor<1x4x3xf32>
  %dq_e = kerf.constant dense<
      [[[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]],
        [[-0.075642035, 0.017080459],
         [-0.25510743, 0.057604904],
         [0.31585609, 0.1804892],
         [-0.12039166, -0.068795235]],
        [[0.76682353, -0.17357847],
         [0.12798427, -0.024289384],
         [0.062152077, 0.025023773],
         [0.11209643, 0.004474864]]]]> : tensor<1x3x4x2xf32>
  kerf.check_close %dq, %dq_e within 1.0e-6 : tensor<1x3x4x2xf32>
  %dk_e = kerf.constant dense<
      [[[[-0.17481391, -0.075372217], [-0.2958459, 0.16481725]],
        [[0.33230584, -0.0073682583], [0.20094987, -0.19751749]],
        [[-0.15749194, 0.082740475], [0.094896029, 0.032700239]]]]> : tensor<1x3x2x2xf32>
  kerf.check_close %dk, %dk_e within 1.0e-6 : tensor<1x3x2x2xf32>
  %dv_e = kerf.constant dense<
      [[[[-3.5304183, 0.72946826, 3.1992436], [1.2928221, 0.033439109, -0.4136012]],
        [[-2.4030097, 0.74142875, -1.5025776], [-0.46617795, -0.058415974, -1.6561437]],
        [[-0.81657201, -0.34589701, -0.94666598], [0.048355881, -0.47502314, -0.30525513]]]]>
      : tensor<1x3x2x3xf32>
  kerf.check_close %dv, %dv_e within 1.0e-6 : tensor<1x3x2x3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// One key head, window and segments.
kerf.model @attention_backward_masks() {
  %q = kerf.constant dense<
      [[[[1.625, 1.75], [-0.125, -0.375]],
        [[0.125, 0.125], [1.875, -0.25]],
        [[-0.625, 1.75], [0.625, -1.5]]]]> : tensor<1x3x2x2xf32>
  %k = kerf.constant dense<[[[[0.25, 1.25]], [[0.25, -1.0]], [[-0.5, 0.875]]]]>
      : tensor<1x3x1x2xf32>
  %v = kerf.constant dense<[[[[0.25, -1.875]], [[-0.75, 1.0]], [[-1.75, -0.375]]]]>
      : tensor<1x3x1x2xf32>
  %dy = kerf.constant dense<
      [[[[0.25, -0.75], [0.75, -1.75]],
        [[1.75, 1.0], [1.5, 0.125]],
        [[-0.125, -0.75], [-1.625, 0.125]]]]> : tensor<1x3x2x2xf32>
  %s = kerf.constant dense<[[0, 0, 1]]> : tensor<1x3xi32>
  %y, %l = kerf.attention %q, %k, %v causal window 2
      segments(%s, %s : tensor<1x3xi32>, tensor<1x3xi32>) lse
      : tensor<1x3x2x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>
  %dq, %dk, %dv = kerf.attention_backward %q, %k, %v from %y, %l, %dy causal window 2
      segments(%s, %s : tensor<1x3xi32>, tensor<1x3xi32>)
     
          : tensor<1x3x2x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32> from tensor<1x3x2x2xf32>, tensor<1x2x3xf32>
  %dq_e = kerf.constant dense<
      [[[[0.0, 0.0], [0.0, 0.0]],
        [[2.0816682e-17, -0.4430706], [-6.9388939e-18, 0.43620011]],
        [[0.0, 0.0], [0.0, 0.0]]]]> : tensor<1x3x2x2xf32>
  kerf.check_close %dq, %dq_e within 1.0e-6 : tensor<1x3x2x2xf32>
  %dk_e = kerf.constant dense<
      [[[[0.33888506, -0.073081713]], [[-0.33888506, 0.073081713]], [[0.0, 0.0]]]]>
      : tensor<1x3x1x2xf32>
  kerf.check_close %dk, %dk_e within 1.0e-6 : tensor<1x3x1x2xf32>
  %dv_e = kerf.constant dense<
      [[[[2.5645021, -1.9002131]], [[1.6854979, 0.52521307]], [[-1.75, -0.625]]]]>
      : tensor<1x3x1x2xf32>
  kerf.check_close %dv, %dv_e within 1.0e-6 : tensor<1x3x1x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A row without a visible key has gradient 0 and hands none on.
kerf.model @attention_backward_no_key() {
  %q = kerf.constant dense<[[[[-0.75, 1.5]], [[-1.375, -1.875]], [[1.125, 1.875]]]]>
      : tensor<1x3x1x2xf32>
  %k = kerf.constant dense<[[[[-0.25, 1.5]], [[0.875, 1.125]], [[0.375, 0.0]]]]>
      : tensor<1x3x1x2xf32>
  %v = kerf.constant dense<[[[[0.5, 1.125]], [[1.75, 1.5]], [[0.875, 1.75]]]]> : tensor<1x3x1x2xf32>
  %dy = kerf.constant dense<[[[[-1.875, -2.0]], [[-1.0, -2.0]], [[0.25, -1.25]]]]>
      : tensor<1x3x1x2xf32>
  %sq = kerf.constant dense<[[0, 1, 2]]> : tensor<1x3xi32>
  %sk = kerf.constant dense<[[0, 2, 2]]> : tensor<1x3xi32>
  %y, %l = kerf.attention %q, %k, %v segments(%sq, %sk : tensor<1x3xi32>, tensor<1x3xi32>) lse
      : tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>
  %dq, %dk, %dv = kerf.attention_backward %q, %k, %v from %y, %l, %dy segments(%sq, %sk
      : tensor<1x3xi32>, tensor<1x3xi32>)
     
          : tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32> from tensor<1x3x1x2xf32>, tensor<1x1x3xf32>
  %dq_e = kerf.constant dense<[[[[0.0, 0.0]], [[0.0, 0.0]], [[0.021426756, 0.048210202]]]]>
      : tensor<1x3x1x2xf32>
  kerf.check_close %dq, %dq_e within 1.0e-6 : tensor<1x3x1x2xf32>
  %dk_e = kerf.constant dense<
      [[[[0.0, 0.0]], [[0.048210202, 0.080350336]], [[-0.048210202, -0.080350336]]]]>
      : tensor<1x3x1x2xf32>
  kerf.check_close %dk, %dk_e within 1.0e-6 : tensor<1x3x1x2xf32>
  %dv_e = kerf.constant dense<
      [[[[-1.875, -2.0]], [[0.21716895, -1.0858448]], [[0.032831049, -0.16415525]]]]>
      : tensor<1x3x1x2xf32>
  kerf.check_close %dv, %dv_e within 1.0e-6 : tensor<1x3x1x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The gradient draws the mask of the forward pass again.
kerf.model @attention_backward_dropout() {
  %q = kerf.constant dense<
      [[[[1.5, -1.625], [1.125, -1.75]],
        [[1.75, -0.5], [-0.875, -0.75]],
        [[0.875, 1.5], [0.625, -1.375]]]]> : tensor<1x3x2x2xf32>
  %k = kerf.constant dense<
      [[[[-0.5, 0.0], [-0.875, 1.75]],
        [[0.875, 0.75], [-1.0, 0.125]],
        [[-1.125, -0.75], [1.125, -1.0]]]]> : tensor<1x3x2x2xf32>
  %v = kerf.constant dense<
      [[[[0.75, -1.0], [1.125, -1.375]],
        [[1.5, -1.75], [-1.125, 0.625]],
        [[-0.625, -1.375], [-1.375, 0.125]]]]> : tensor<1x3x2x2xf32>
  %dy = kerf.constant dense<
      [[[[-0.75, 1.625], [1.0, 0.0]],
        [[0.625, -1.125], [-0.25, 1.25]],
        [[1.625, -1.375], [-0.75, 1.125]]]]> : tensor<1x3x2x2xf32>
  %seed = kerf.constant dense<5> : tensor<i32>
  %step = kerf.constant dense<9> : tensor<i32>
  %y, %l = kerf.attention %q, %k, %v causal dropout 0.25 "drop" seed %seed step %step lse
      : tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>
  %dq, %dk, %dv = kerf.attention_backward %q, %k, %v from %y, %l, %dy causal dropout 0.25 "drop" seed %seed step %step
     
          : tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32> from tensor<1x3x2x2xf32>, tensor<1x2x3xf32>
  %dq_e = kerf.constant dense<
      [[[[0.0, 0.0], [0.0, 0.0]],
        [[0.26408307, 0.14404531], [-0.025302898, -0.32893768]],
        [[1.0508695, 0.62847789], [-0.30238822, 0.15323919]]]]> : tensor<1x3x2x2xf32>
  kerf.check_close %dq, %dq_e within 1.0e-6 : tensor<1x3x2x2xf32>
  %dk_e = kerf.constant dense<
      [[[[-0.83286998, -0.75556565], [0.17458925, 0.15738567]],
        [[0.95109995, 0.95824561], [-0.08580042, -0.35272109]],
        [[-0.11822998, -0.20267996], [-0.088788827, 0.19533542]]]]> : tensor<1x3x2x2xf32>
  kerf.check_close %dk, %dk_e within 1.0e-6 : tensor<1x3x2x2xf32>
  %dv_e = kerf.constant dense<
      [[[[-0.83990224, 1.8784907], [1.3333333, 0.0]],
        [[2.4039652, -2.6762876], [-0.35258268, 1.3676177]],
        [[0.10229607, -0.086558212], [0.0, 0.0]]]]> : tensor<1x3x2x2xf32>
  kerf.check_close %dv, %dv_e within 1.0e-6 : tensor<1x3x2x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The choice is constant; gradients flow through the probabilities.
kerf.model @routing() {
  %x = kerf.constant dense<
      [[[-0.875, -0.59375, -1.5625, 1.390625],
        [-1.5, 0.78125, -1.5625, -0.984375],
        [1.75, -1.46875, 1.1875, -1.109375]],
       [[1.25, -0.59375, 0.1875, 1.265625],
        [-1.625, -0.46875, 1.6875, -0.984375],
        [0.25, 1.65625, 0.9375, 1.640625]]]> : tensor<2x3x4xf32>
  %e = kerf.constant dense<[[[3, 1], [1, 3], [0, 2]], [[3, 0], [2, 1], [1, 3]]]> : tensor<2x3x2xi32>
  %dw = kerf.constant dense<
      [[[0.25, 0.625], [-1.75, 1.75], [-0.375, 0.125]],
       [[0.125, -0.75], [1.875, 0.625], [0.125, -1.375]]]> : tensor<2x3x2xf32>
  %d = kerf.route_backward %x, %e, %dw : tensor<2x3x4xf32>, tensor<2x3x2xi32>, tensor<2x3x2xf32>
  %d_e = kerf.constant dense<
      [[[-0.02083588, 0.038823439, -0.010476939, -0.0075106196],
        [0.079046122, -0.5043402, 0.074256959, 0.35103712],
        [-0.11563862, 0.004372707, 0.1050023, 0.0062636136]],
       [[-0.19952767, 0.015528506, 0.033917375, 0.15008179],
        [-0.047554806, -0.09188981, 0.22968778, -0.090243164],
        [0.040790593, 0.2124591, 0.08112178, -0.33437147]]]> : tensor<2x3x4xf32>
  kerf.check_close %d, %d_e within 1.0e-6 : tensor<2x3x4xf32>

  %r = kerf.route_backward %x, %e, %dw renormalize
      : tensor<2x3x4xf32>, tensor<2x3x2xi32>, tensor<2x3x2xf32>
  %r_e = kerf.constant dense<
      [[[2.783404e-18, 0.039842898, 1.3995834e-18, -0.039842898],
        [-1.2425082e-17, -0.43661017, -1.1672284e-17, 0.43661017],
        [-0.11561128, -1.332095e-18, 0.11561128, -1.908138e-18]],
       [[-0.21873665, -1.7429898e-18, -3.8070396e-18, 0.21873665],
        [8.6918978e-18, -0.11623106, 0.11623106, 1.6494324e-17],
        [-5.0069941e-18, 0.37497711, -9.9575968e-18, -0.37497711]]]> : tensor<2x3x4xf32>
  kerf.check_close %r, %r_e within 1.0e-6 : tensor<2x3x4xf32>

  %logits = kerf.constant dense<
      [[[1.25, -1.375, 1.75, 1.625, 0.5, -0.25],
        [0.625, -1.75, 1.0, 0.375, 2.0, -1.5],
        [1.125, -1.125, 1.875, 1.5, -0.625, 0.875]]]> : tensor<1x3x6xf32>
  %c = kerf.constant dense<[[[0, 3, 1], [4, 0, 1], [0, 1, 3]]]> : tensor<1x3x3xi32>
  %dc = kerf.constant dense<[[[0.25, 0.625, -0.5], [-1.75, 1.75, 0.125], [-0.375, 0.125, 1.0]]]>
      : tensor<1x3x3xf32>
  %sigmoid = kerf.route_backward %logits, %c, %dc sigmoid
      : tensor<1x3x6xf32>, tensor<1x3x3xi32>, tensor<1x3x3xf32>
  %sigmoid_e = kerf.constant dense<
      [[[0.0432762, -0.08054232, 0.0, 0.08590675, 0.0, 0.0],
        [0.39741048, 0.01576615, 0.0, 0.0, -0.18373877, 0.0],
        [-0.06938188, 0.02312729, 0.0, 0.14914645, 0.0, 0.0]]]> : tensor<1x3x6xf32>
  kerf.check_close %sigmoid, %sigmoid_e within 1.0e-6 : tensor<1x3x6xf32>
  %scaled = kerf.route_backward %logits, %c, %dc renormalize sigmoid scale 2.5
      : tensor<1x3x6xf32>, tensor<1x3x3xi32>, tensor<1x3x3xf32>
  %scaled_e = kerf.constant dense<
      [[[-0.02128434, -0.18625314, 0.0, 0.05411264, 0.0, 0.0],
        [0.66834083, 0.06624, 0.0, 0.0, -0.23777606, 0.0],
        [-0.17455606, -0.04731344, 0.0, 0.14136162, 0.0, 0.0]]]> : tensor<1x3x6xf32>
  kerf.check_close %scaled, %scaled_e within 1.0e-6 : tensor<1x3x6xf32>

  %dy = kerf.constant dense<0.5> : tensor<f32>
  // Two groups: half of dy for each gives the gradient of their mean.
  %half = kerf.constant dense<0.25> : tensor<f32>
  %one = kerf.load_balance_loss_backward %x, %e, %half group 1 : tensor<2x3x4xf32>, tensor<2x3x2xi32>
  %one_e = kerf.constant dense<
      [[[-0.0078392867, 0.0014237873, -0.0039418409, 0.01035734],
        [-0.0070904501, 0.01174242, -0.0066608614, 0.0020088912],
        [-0.0038903961, 0.0025106857, -0.0022166809, 0.0035963912]],
       [[-0.020547777, 0.0037264057, -0.0071011217, 0.023922493],
        [-0.00050164924, 0.0089371488, -0.013772115, 0.0053366153],
        [-0.0073202872, 0.011024669, -0.01455813, 0.010853748]]]> : tensor<2x3x4xf32>
  kerf.check_close %one, %one_e within 1.0e-6 : tensor<2x3x4xf32>

  %two = kerf.load_balance_loss_backward %x, %e, %dy group 2 : tensor<2x3x4xf32>, tensor<2x3x2xi32>
  %two_e = kerf.constant dense<
      [[[-0.0078392867, 0.0014237873, -0.0039418409, 0.01035734],
        [-0.0070904501, 0.01174242, -0.0066608614, 0.0020088912],
        [-0.0038903961, 0.0025106857, -0.0022166809, 0.0035963912]],
       [[-0.020547777, 0.0037264057, -0.0071011217, 0.023922493],
        [-0.00050164924, 0.0089371488, -0.013772115, 0.0053366153],
        [-0.0073202872, 0.011024669, -0.01455813, 0.010853748]]]> : tensor<2x3x4xf32>
  kerf.check_close %two, %two_e within 1.0e-6 : tensor<2x3x4xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Gradients by the weights of a combine and of a grouped matmul.
kerf.model @experts() {
  %rows = kerf.constant dense<
      [[[0.875, 0.625],
        [1.75, 0.25],
        [-0.625, 0.5],
        [-1.375, -1.125],
        [0.25, 0.625],
        [1.875, -1.875]]]> : tensor<1x6x2xf32>
  %s = kerf.constant dense<[[[2, 1], [0, -1], [3, 5]], [[-1, -1], [4, -1], [-1, -1]]]>
      : tensor<2x3x2xi32>
  %dy = kerf.constant dense<
      [[[1.5, -0.375], [-1.875, -0.375], [0.375, -0.5]],
       [[-0.625, 1.25], [-0.25, 1.875], [-1.0, -1.625]]]> : tensor<2x3x2xf32>
  %d = kerf.combine_weight_gradient %rows, %s, %dy
      : tensor<1x6x2xf32>, tensor<2x3x2xi32>, tensor<2x3x2xf32>
  %d_e = kerf.constant dense<
      [[[-1.125, 2.53125], [-1.875, 0.0], [0.046875, 1.640625]],
       [[0.0, 0.0], [1.109375, 0.0], [0.0, 0.0]]]> : tensor<2x3x2xf32>
  kerf.check_close %d, %d_e within 1.0e-6 : tensor<2x3x2xf32>

  %x = kerf.constant dense<
      [[[-0.125, 0.875], [-0.625, -1.0], [0.25, 1.25], [0.25, 0.375]],
       [[-0.375, 0.625], [1.0, -1.625], [1.875, -0.25], [-0.125, 0.0]]]> : tensor<2x4x2xf32>
  %dr = kerf.constant dense<
      [[[0.875, -0.125, 0.375], [-0.75, -1.0, 0.0], [-1.5, -1.875, 0.875], [-1.375, 0.5, 1.625]],
       [[1.375, -1.625, -0.125],
        [0.25, -0.625, -0.5],
        [1.875, -1.375, 1.375],
        [1.125, -1.25, -0.5]]]> : tensor<2x4x3xf32>
  %n = kerf.constant dense<[[1, 3], [2, 1]]> : tensor<2x2xi32>
  %m = kerf.constant dense<[[1, 2], [0, 2]]> : tensor<2x2xi32>
  %a = kerf.grouped_weight_gradient %dr, %x, %n
      : tensor<2x4x3xf32>, tensor<2x4x2xf32>, tensor<2x2xi32> -> tensor<2x3x2xf32>
  %a_e = kerf.constant dense<
      [[[-0.375, 1.21875], [0.0, -0.109375], [-0.5, 1.0625]],
       [[3.265625, -2.109375], [-2.296875, -0.8125], [3.203125, 1.359375]]]>
      : tensor<2x3x2xf32>
  kerf.check_close %a, %a_e within 1.0e-6 : tensor<2x3x2xf32>

  %b = kerf.grouped_weight_gradient %dr, %x, %m capacity 2
      : tensor<2x4x3xf32>, tensor<2x4x2xf32>, tensor<2x2xi32> -> tensor<2x3x2xf32>
  %b_e = kerf.constant dense<
      [[[-0.109375, 0.765625], [0.015625, -0.109375], [-0.046875, 0.328125]],
       [[2.65625, -2.859375], [-2.765625, -1.8125], [3.265625, 1.359375]]]>
      : tensor<2x3x2xf32>
  kerf.check_close %b, %b_e within 1.0e-6 : tensor<2x3x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
