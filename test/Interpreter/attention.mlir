// RUN: kerf-inspect interpret %s
// RUN: kerf-inspect interpret %s --compute=f64

// As many key heads as query heads; the log-sum-exp is per head and query.
kerf.model @multi_head() {
  %q = kerf.constant dense<
      [[[[0.5, 1.625, 1.125, -1.125], [-0.75, 1.5, -2.0, 1.25]],
        [[1.25, -0.125, -0.75, -0.875], [-1.0, -0.25, 0.0, 0.25]],
        [[2.0, 1.125, 0.5, 2.0], [-1.125, -1.375, 0.5, -1.875]]],
       [[[-1.875, 0.0, -0.125, 1.625], [0.5, 0.0, 0.0, -1.0]],
        [[-2.0, -1.25, 0.75, -1.25], [-0.5, -2.0, 1.375, -1.375]],
        [[-0.875, 1.5, 0.0, 1.375], [0.5, 1.0, -1.625, 0.125]]]]> : tensor<2x3x2x4xf32>
  %k = kerf.constant dense<
      [[[[0.0, 1.5, -0.5, 0.375], [-1.75, -0.5, -0.75, -1.375]],
        [[1.25, -0.5, 1.875, 0.375], [0.375, 0.5, 0.75, -1.375]],
        [[-0.25, -1.0, -0.375, -1.625], [1.875, -1.125, 0.625, -0.75]]],
       [[[1.5, 0.625, -1.5, 1.375], [1.75, 1.625, 0.25, -1.375]],
        [[-1.25, 1.75, 0.25, -1.25], [1.5, 0.625, 0.25, -0.5]],
        [[-0.375, -1.0, -1.875, 1.5], [-0.125, 0.25, -0.75, 1.0]]]]> : tensor<2x3x2x4xf32>
  %v = kerf.constant dense<
      [[[[-1.875, -0.5, -1.875, -1.5], [1.875, 0.625, -0.25, 0.125]],
        [[1.5, -0.625, 0.375, 0.75], [-0.625, 0.125, 1.0, 1.625]],
        [[-1.375, 1.75, -2.0, 1.0], [1.25, -1.5, -0.375, 1.25]]],
       [[[-2.0, 0.5, 1.125, 0.0], [0.875, -1.125, -1.25, -0.5]],
        [[-1.25, -0.625, 1.75, 0.25], [-0.625, -0.875, 1.75, -0.25]],
        [[1.875, 0.0, 0.125, 1.625], [1.0, 0.375, -0.25, 1.5]]]]> : tensor<2x3x2x4xf32>
  %y = kerf.attention %q, %k, %v : tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>
  %y_e = kerf.constant dense<
      [[[[-0.36995708, -0.17574087, -0.94841386, -0.13369789],
         [1.4273726, 0.44112067, -0.046826207, 0.42895913]],
        [[-0.81276918, 0.66692233, -1.4105607, 0.36025929],
         [1.2855369, 0.25192789, -0.011088938, 0.57437019]],
        [[0.37880515, -0.56383689, -0.37643079, 0.02129246],
         [1.40227, 0.30266332, -0.063464202, 0.49405952]]],
       [[[0.95565274, -0.041748221, 0.48992093, 1.2294046],
         [0.38209513, -0.88136109, -0.13146032, -0.20326912]],
        [[-0.7691624, -0.51504315, 1.4889871, 0.46243376],
         [0.15747494, -0.71091239, 0.427105, 0.010909567]],
        [[-0.7388628, -0.098571287, 1.1465112, 0.50151692],
         [0.54506368, -0.55400274, -0.1660113, 0.24064368]]]]> : tensor<2x3x2x4xf32>
  kerf.check_close %y, %y_e within 1.0e-6 : tensor<2x3x2x4xf32>

  %c = kerf.attention %q, %k, %v causal
      : tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>
  %c_e = kerf.constant dense<
      [[[[-1.875, -0.5, -1.875, -1.5], [1.875, 0.625, -0.25, 0.125]],
        [[-0.17431667, -0.56298827, -0.74121112, -0.36621112],
         [1.2907341, 0.50814682, 0.042132946, 0.47555954]],
        [[0.37880515, -0.56383689, -0.37643079, 0.02129246],
         [1.40227, 0.30266332, -0.063464202, 0.49405952]]],
       [[[-2.0, 0.5, 1.125, 0.0], [0.875, -1.125, -1.25, -0.5]],
        [[-1.2596159, -0.61057613, 1.7419867, 0.2467947],
         [-0.04485483, -0.97169086, 0.58970966, -0.34669086]],
        [[-0.7388628, -0.098571287, 1.1465112, 0.50151692],
         [0.54506368, -0.55400274, -0.1660113, 0.24064368]]]]> : tensor<2x3x2x4xf32>
  kerf.check_close %c, %c_e within 1.0e-6 : tensor<2x3x2x4xf32>

  %s = kerf.attention %q, %k, %v causal scale 0.25
      : tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>
  %s_e = kerf.constant dense<
      [[[[-1.875, -0.5, -1.875, -1.5], [1.875, 0.625, -0.25, 0.125]],
        [[-0.18090824, -0.56274414, -0.74560549, -0.37060549],
         [0.98556277, 0.44711255, 0.19471862, 0.65866234]],
        [[0.018950035, -0.42747634, -0.6411918, -0.10110227],
         [1.1122018, 0.047935264, 0.038538605, 0.74186833]]],
       [[[-2.0, 0.5, 1.125, 0.0], [0.875, -1.125, -1.25, -0.5]],
        [[-1.3267285, -0.5099072, 1.6860596, 0.22442382],
         [0.038954746, -0.98565912, 0.42209051, -0.36065912]],
        [[-0.60559479, -0.068851028, 1.0747705, 0.56034726],
         [0.4835038, -0.54559586, -0.044414626, 0.24844133]]]]> : tensor<2x3x2x4xf32>
  kerf.check_close %s, %s_e within 1.0e-6 : tensor<2x3x2x4xf32>

  %n, %l = kerf.attention %q, %k, %v lse
      : tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>
  kerf.check_close %n, %y within 0.0 : tensor<2x3x2x4xf32>
  %l_e = kerf.constant dense<
      [[[1.6148322, 1.3894113, 2.2181976], [0.41322536, 1.1683103, 2.7506003]],
       [[1.9987085, 1.2143064, 1.8583059], [1.7113323, 0.21985935, 1.8465167]]]>
      : tensor<2x2x3xf32>
  kerf.check_close %l, %l_e within 1.0e-6 : tensor<2x2x3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Query heads that share key heads, all or in groups; values wider than keys.
kerf.model @grouped() {
  %q = kerf.constant dense<
      [[[[-0.375, 1.75], [-1.75, -0.25], [0.125, 1.75], [-1.0, 1.25]],
        [[0.75, 0.875], [0.5, 1.875], [-0.625, -0.375], [-1.25, -1.75]],
        [[-1.125, 1.625], [1.375, -1.5], [0.375, -0.125], [0.375, 0.625]]]]>
      : tensor<1x3x4x2xf32>
  %k = kerf.constant dense<
      [[[[-0.75, 1.875], [-0.125, 0.5]],
        [[0.5, -1.25], [-1.75, -0.375]],
        [[1.0, 1.25], [0.875, -1.5]]]]> : tensor<1x3x2x2xf32>
  %v = kerf.constant dense<
      [[[[1.625, 1.25, 1.5], [0.125, 1.625, -1.875]],
        [[-1.875, -1.875, -1.0], [-1.0, -1.25, 0.25]],
        [[-1.875, 0.375, -1.375], [0.75, -1.875, -0.75]]]]> : tensor<1x3x2x3xf32>
  %y = kerf.attention %q, %k, %v causal
      : tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x3xf32>
  %y_e = kerf.constant dense<
      [[[[1.625, 1.25, 1.5], [1.625, 1.25, 1.5], [0.125, 1.625, -1.875], [0.125, 1.625, -1.875]],
        [[0.85794856, 0.56513264, 0.95210611],
         [1.5406594, 1.1746959, 1.4397567],
         [-0.68629411, -0.44830716, -0.34255557],
         [-0.91615126, -1.0357199, 0.091619048]],
        [[1.2184925, 1.1280842, 1.1694647],
         [-1.8414709, -1.6157779, -1.0142649],
         [0.18097635, -0.66598457, -0.87977984],
         [0.044180142, 0.031914083, -1.0951831]]]]> : tensor<1x3x4x3xf32>
  kerf.check_close %y, %y_e within 1.0e-6 : tensor<1x3x4x3xf32>

  %w = kerf.constant dense<
      [[[[1.75, 0.125], [1.25, 0.625]],
        [[0.5, -1.25], [0.25, -1.875]],
        [[1.25, 1.875], [1.375, -1.75]]]]> : tensor<1x3x2x2xf32>
  %t = kerf.attention %q, %k, %w causal
      : tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>
  %t_e = kerf.constant dense<
      [[[[1.75, 0.125], [1.75, 0.125], [1.25, 0.625], [1.25, 0.625]],
        [[1.4760531, -0.17634164],
         [1.7198783, 0.091866179],
         [0.52884968, -1.1778758],
         [0.32453221, -1.6886695]],
        [[1.6851645, 0.30007459],
         [0.58840316, -0.9183758],
         [1.0941571, -1.0479475],
         [1.0610404, -0.57845266]]]]> : tensor<1x3x4x2xf32>
  kerf.check_close %t, %t_e within 1.0e-6 : tensor<1x3x4x2xf32>

  %k1 = kerf.slice %k offsets [0, 0, 0, 0] sizes [1, 3, 1, 2] : tensor<1x3x2x2xf32>
  %v1 = kerf.slice %w offsets [0, 0, 0, 0] sizes [1, 3, 1, 2] : tensor<1x3x2x2xf32>
  %one = kerf.attention %q, %k1, %v1 causal
      : tensor<1x3x4x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>
  %one_e = kerf.constant dense<
      [[[[1.75, 0.125], [1.75, 0.125], [1.75, 0.125], [1.75, 0.125]],
        [[1.4760531, -0.17634164],
         [1.7198783, 0.091866179],
         [1.0392279, -0.65684932],
         [0.57425614, -1.1683182]],
        [[1.6851645, 0.30007459],
         [0.58840316, -0.9183758],
         [1.0558186, 0.21725899],
         [1.3428717, 0.7626347]]]]> : tensor<1x3x4x2xf32>
  kerf.check_close %one, %one_e within 1.0e-6 : tensor<1x3x4x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// More keys than queries.
kerf.model @cross() {
  %q = kerf.constant dense<[[[[-0.625, -0.75]], [[-1.5, 0.5]]]]> : tensor<1x2x1x2xf32>
  %k = kerf.constant dense<[[[[1.25, -0.75]], [[1.5, 1.25]], [[-1.5, 1.125]], [[1.5, -1.25]]]]>
      : tensor<1x4x1x2xf32>
  %v = kerf.constant dense<[[[[0.25, 0.5]], [[0.375, -1.625]], [[0.625, 0.5]], [[1.25, 1.25]]]]>
      : tensor<1x4x1x2xf32>
  %y = kerf.attention %q, %k, %v : tensor<1x2x1x2xf32>, tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>
  %y_e = kerf.constant dense<[[[[0.69938405, 0.55817788]], [[0.61572791, 0.4277097]]]]>
      : tensor<1x2x1x2xf32>
  kerf.check_close %y, %y_e within 1.0e-6 : tensor<1x2x1x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A window hides keys far behind, segments hide other documents, both together hide either.
kerf.model @masks() {
  %q = kerf.constant dense<
      [[[[-0.75, 0.875], [1.5, 1.625]],
        [[-1.375, -1.875], [0.625, -1.125]],
        [[0.25, 1.75], [-0.5, -1.0]],
        [[-0.125, 0.625], [-1.625, -0.5]],
        [[-1.5, 0.625], [1.375, -0.5]]],
       [[[-0.5, 0.125], [-1.125, -1.0]],
        [[-0.625, -0.125], [-1.625, 1.0]],
        [[0.375, -0.75], [-1.75, 1.0]],
        [[-1.5, -1.5], [-1.5, -1.625]],
        [[1.625, -0.875], [-0.75, 1.375]]]]> : tensor<2x5x2x2xf32>
  %k = kerf.constant dense<
      [[[[0.5, -1.25]], [[-0.25, 1.5]], [[-0.5, 0.875]], [[-1.625, 0.875]], [[1.125, 1.25]]],
       [[[0.75, -0.5]], [[-1.75, 0.125]], [[1.0, -1.25]], [[-0.875, 0.125]], [[1.0, 1.625]]]]>
      : tensor<2x5x1x2xf32>
  %v = kerf.constant dense<
      [[[[-1.5, -1.25]], [[1.25, 0.625]], [[0.875, 2.0]], [[1.75, 1.375]], [[1.125, -0.375]]],
       [[[0.625, -1.25]], [[1.0, 1.0]], [[0.875, -0.25]], [[-0.5, -0.375]], [[-1.875, 1.375]]]]>
      : tensor<2x5x1x2xf32>
  %s = kerf.constant dense<[[0, 0, 1, 1, 1], [4, 4, 4, 4, 2]]> : tensor<2x5xi32>
  %w = kerf.attention %q, %k, %v causal window 2
      : tensor<2x5x2x2xf32>, tensor<2x5x1x2xf32>, tensor<2x5x1x2xf32>
  %w_e = kerf.constant dense<
      [[[[-1.5, -1.25], [-1.5, -1.25]],
        [[-1.3588465, -1.153759], [-1.2950364, -1.1102521]],
        [[1.1351469, 1.0461281], [1.013915, 1.4906451]],
        [[1.3342339, 1.6719758], [1.5615253, 1.5096248]],
        [[1.7124842, 1.2699558], [1.1706389, -0.24721102]]],
       [[[0.625, -1.25], [0.625, -1.25]],
        [[0.90276262, 0.41657571], [0.98684689, 0.92108135]],
        [[0.89858887, -0.014111277], [0.99844639, 0.98446386]],
        [[0.009354868, -0.32869501], [0.048901137, -0.3250999]],
        [[-1.5631305, 0.97807519], [-1.3442113, 0.69945075]]]]> : tensor<2x5x2x2xf32>
  kerf.check_close %w, %w_e within 1.0e-6 : tensor<2x5x2x2xf32>

  %one = kerf.attention %q, %k, %v causal window 1
      : tensor<2x5x2x2xf32>, tensor<2x5x1x2xf32>, tensor<2x5x1x2xf32>
  %one_e = kerf.constant dense<
      [[[[-1.5, -1.25], [-1.5, -1.25]],
        [[1.25, 0.625], [1.25, 0.625]],
        [[0.875, 2.0], [0.875, 2.0]],
        [[1.75, 1.375], [1.75, 1.375]],
        [[1.125, -0.375], [1.125, -0.375]]],
       [[[0.625, -1.25], [0.625, -1.25]],
        [[1.0, 1.0], [1.0, 1.0]],
        [[0.875, -0.25], [0.875, -0.25]],
        [[-0.5, -0.375], [-0.5, -0.375]],
        [[-1.875, 1.375], [-1.875, 1.375]]]]> : tensor<2x5x2x2xf32>
  kerf.check_close %one, %one_e within 1.0e-6 : tensor<2x5x2x2xf32>

  %d = kerf.attention %q, %k, %v segments(%s, %s : tensor<2x5xi32>, tensor<2x5xi32>)
      : tensor<2x5x2x2xf32>, tensor<2x5x1x2xf32>, tensor<2x5x1x2xf32>
  %d_e = kerf.constant dense<
      [[[[0.94977607, 0.42030186], [1.0136956, 0.46388333]],
        [[-1.3588465, -1.153759], [-1.2950364, -1.1102521]],
        [[1.1915794, 0.59199609], [1.357952, 1.3302349]],
        [[1.2658245, 1.0027133], [1.549158, 1.4562308]],
        [[1.5267212, 1.4318875], [1.1177216, 0.15502402]]],
       [[[0.4758342, 0.061929024], [0.56936858, 0.23541403]],
        [[0.49579833, 0.094715743], [0.6020031, 0.57346597]],
        [[0.62834547, -0.42387605], [0.62293776, 0.60376242]],
        [[0.61844089, 0.35274561], [0.62274737, 0.3357829]],
        [[-1.875, 1.375], [-1.875, 1.375]]]]> : tensor<2x5x2x2xf32>
  kerf.check_close %d, %d_e within 1.0e-6 : tensor<2x5x2x2xf32>

  %cd = kerf.attention %q, %k, %v causal window 2
      segments(%s, %s : tensor<2x5xi32>, tensor<2x5xi32>)
      : tensor<2x5x2x2xf32>, tensor<2x5x1x2xf32>, tensor<2x5x1x2xf32>
  %cd_e = kerf.constant dense<
      [[[[-1.5, -1.25], [-1.5, -1.25]],
        [[-1.3588465, -1.153759], [-1.2950364, -1.1102521]],
        [[0.875, 2.0], [0.875, 2.0]],
        [[1.3342339, 1.6719758], [1.5615253, 1.5096248]],
        [[1.7124842, 1.2699558], [1.1706389, -0.24721102]]],
       [[[0.625, -1.25], [0.625, -1.25]],
        [[0.90276262, 0.41657571], [0.98684689, 0.92108135]],
        [[0.89858887, -0.014111277], [0.99844639, 0.98446386]],
        [[0.009354868, -0.32869501], [0.048901137, -0.3250999]],
        [[-1.875, 1.375], [-1.875, 1.375]]]]> : tensor<2x5x2x2xf32>
  kerf.check_close %cd, %cd_e within 1.0e-6 : tensor<2x5x2x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A row without a visible key gives zeros.
kerf.model @no_visible_key() {
  %q = kerf.constant dense<
      [[[[0.125, -0.5], [0.25, 0.875]],
        [[-0.5, 1.375], [1.625, -0.5]],
        [[-1.5, 1.0], [2.0, -1.375]]]]> : tensor<1x3x2x2xf32>
  %k = kerf.constant dense<
      [[[[0.875, 1.25], [1.625, -1.5]],
        [[-1.625, 2.0], [-1.5, -1.25]],
        [[0.25, -0.25], [1.0, -1.25]]]]> : tensor<1x3x2x2xf32>
  %v = kerf.constant dense<
      [[[[1.625, -1.125], [1.125, -1.75]],
        [[-0.125, -1.875], [-0.75, -0.75]],
        [[0.875, -0.125], [-1.75, 2.0]]]]> : tensor<1x3x2x2xf32>
  %sq = kerf.constant dense<[[0, 1, 2]]> : tensor<1x3xi32>
  %sk = kerf.constant dense<[[0, 2, 2]]> : tensor<1x3xi32>
  %y = kerf.attention %q, %k, %v segments(%sq, %sk : tensor<1x3xi32>, tensor<1x3xi32>)
      : tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>
  %y_e = kerf.constant dense<
      [[[[1.625, -1.125], [1.125, -1.75]],
        [[0.0, 0.0], [0.0, 0.0]],
        [[-0.097873107, -1.8275279], [-1.7216821, 1.9221257]]]]> : tensor<1x3x2x2xf32>
  kerf.check_close %y, %y_e within 1.0e-6 : tensor<1x3x2x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Probabilities are dropped by global [b, h, q, k], after the softmax.
kerf.model @dropout() {
  %q = kerf.constant dense<
      [[[[1.5, 1.625], [-1.0, -0.375], [-1.125, -1.5], [-1.875, 0.0]],
        [[-1.5, -1.25], [1.5, -0.125], [-1.25, 0.625], [-0.875, 0.125]],
        [[-0.875, 0.125], [0.5, 0.125], [-0.375, 1.125], [1.5, -1.25]]],
       [[[-1.5, -1.5], [1.875, 1.75], [-1.125, 1.875], [-1.125, 0.0]],
        [[0.0, 1.625], [-1.875, -0.75], [0.375, -1.75], [-1.0, -0.125]],
        [[1.5, 1.0], [1.375, 1.0], [0.875, 1.375], [0.75, 1.0]]]]> : tensor<2x3x4x2xf32>
  %k = kerf.constant dense<
      [[[[-0.75, -1.375], [1.0, -1.375]],
        [[1.625, 0.375], [-0.625, 1.75]],
        [[-1.375, 0.0], [-1.625, 1.875]]],
       [[[0.25, 1.25], [-0.875, 1.25]],
        [[0.75, 0.625], [1.75, -0.25]],
        [[-0.375, 0.75], [1.375, -0.625]]]]> : tensor<2x3x2x2xf32>
  %v = kerf.constant dense<
      [[[[0.625, -1.125], [0.25, 1.125]],
        [[-1.75, 0.875], [-2.0, 1.875]],
        [[-0.125, -0.375], [0.875, 0.125]]],
       [[[0.875, -1.625], [0.25, 0.25]],
        [[1.75, -1.875], [-0.25, 0.5]],
        [[0.25, -1.75], [0.375, -1.125]]]]> : tensor<2x3x2x2xf32>
  %seed = kerf.constant dense<5> : tensor<i32>
  %step = kerf.constant dense<9> : tensor<i32>
  %layer = kerf.constant dense<1> : tensor<i32>
  %y = kerf.attention %q, %k, %v causal dropout 0.25 "attn.drop" seed %seed step %step layer %layer
      : tensor<2x3x4x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>
  %y_e = kerf.constant dense<
      [[[[0.83333333, -1.5], [0.83333333, -1.5], [0.0, 0.0], [0.33333333, 1.5]],
        [[0.77994629, -1.4550425],
         [0.071607407, -0.12889333],
         [-2.4974899, 2.4436077],
         [-2.0872728, 1.9568182]],
        [[-0.023987702, -0.68849008],
         [-1.1877767, 0.35880859],
         [-0.3884052, 1.1311532],
         [0.30288733, 1.5065147]]],
       [[[0.0, 0.0], [1.1666667, -2.1666667], [0.33333333, 0.33333333], [0.0, 0.0]],
        [[1.5490992, -2.2759331],
         [1.6542007, -2.3059621],
         [-0.28514805, 0.64257403],
         [0.28286282, 0.28286282]],
        [[1.513936, -1.9955709],
         [1.5376882, -2.3364355],
         [-0.021229766, 0.39579388],
         [0.093892091, -0.015831107]]]]> : tensor<2x3x4x2xf32>
  kerf.check_close %y, %y_e within 1.0e-6 : tensor<2x3x4x2xf32>

  %z = kerf.attention %q, %k, %v causal dropout 0.0 "attn.drop" seed %seed step %step
      : tensor<2x3x4x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>
  %w = kerf.attention %q, %k, %v causal
      : tensor<2x3x4x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>
  kerf.check_close %z, %w within 0.0 : tensor<2x3x4x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A shard of the queries, of the heads or of the batch gives the slice of the whole.
kerf.model @shards() {
  %q = kerf.constant dense<
      [[[[-1.25, 1.5], [-1.25, -0.125], [1.0, 0.875], [0.25, 1.25]],
        [[-0.125, 0.5], [1.25, 0.75], [0.625, -0.375], [0.25, -0.375]],
        [[1.0, -0.5], [-0.125, 1.0], [0.0, -0.625], [1.25, -0.5]],
        [[1.375, 1.125], [-0.25, 0.875], [-1.875, -0.5], [1.5, 0.375]]],
       [[[0.25, 0.625], [0.75, 0.375], [-0.375, -1.25], [-0.875, -0.875]],
        [[-0.25, 2.0], [-0.625, -0.25], [-0.5, 0.375], [1.75, 1.5]],
        [[-0.5, -0.875], [1.5, 0.0], [0.75, -1.75], [1.5, -0.75]],
        [[0.0, -1.25], [-0.375, 1.25], [1.25, -0.125], [1.125, -0.125]]]]>
      : tensor<2x4x4x2xf32>
  %k = kerf.constant dense<
      [[[[-0.5, 0.125], [-1.25, -0.75]],
        [[0.875, 1.125], [-1.75, 0.875]],
        [[1.25, -0.25], [-1.75, 0.75]],
        [[-1.0, 0.625], [-0.5, 0.5]]],
       [[[-1.0, -0.125], [0.125, 0.5]],
        [[-1.125, 1.875], [-0.875, -0.75]],
        [[-1.0, -1.75], [-0.25, 1.125]],
        [[0.875, -1.25], [-1.5, -0.75]]]]> : tensor<2x4x2x2xf32>
  %v = kerf.constant dense<
      [[[[1.125, 0.0], [1.75, 0.625]],
        [[0.5, 1.125], [1.0, -0.625]],
        [[-1.0, -0.25], [0.0, -1.375]],
        [[-0.25, 0.5], [-1.5, -1.5]]],
       [[[-1.25, -0.875], [1.875, -1.875]],
        [[-1.25, -1.375], [-0.125, -2.0]],
        [[-0.125, -1.375], [-0.875, 1.125]],
        [[-1.25, 0.5], [-0.375, -0.375]]]]> : tensor<2x4x2x2xf32>
  %zero = kerf.constant dense<0> : tensor<i32>
  %one = kerf.constant dense<1> : tensor<i32>
  %two = kerf.constant dense<2> : tensor<i32>
  %y = kerf.attention %q, %k, %v causal window 3 dropout 0.25 "drop" seed %one step %two
      : tensor<2x4x4x2xf32>, tensor<2x4x2x2xf32>, tensor<2x4x2x2xf32>
  %q_q = kerf.slice %q offsets [0, 2, 0, 0] sizes [2, 2, 4, 2] : tensor<2x4x4x2xf32>
  %y_q = kerf.slice %y offsets [0, 2, 0, 0] sizes [2, 2, 4, 2] : tensor<2x4x4x2xf32>
  %queries = kerf.attention %q_q, %k, %v causal window 3 offsets(%zero, %zero, %two, %zero)
      global [2, 4, 4, 4] dropout 0.25 "drop" seed %one step %two
      : tensor<2x2x4x2xf32>, tensor<2x4x2x2xf32>, tensor<2x4x2x2xf32>
  kerf.check_close %queries, %y_q within 1.0e-6 : tensor<2x2x4x2xf32>

  %q_h = kerf.slice %q offsets [0, 0, 2, 0] sizes [2, 4, 2, 2] : tensor<2x4x4x2xf32>
  %k_h = kerf.slice %k offsets [0, 0, 1, 0] sizes [2, 4, 1, 2] : tensor<2x4x2x2xf32>
  %v_h = kerf.slice %v offsets [0, 0, 1, 0] sizes [2, 4, 1, 2] : tensor<2x4x2x2xf32>
  %y_h = kerf.slice %y offsets [0, 0, 2, 0] sizes [2, 4, 2, 2] : tensor<2x4x4x2xf32>
  %heads = kerf.attention %q_h, %k_h, %v_h causal window 3 offsets(%zero, %two, %zero, %zero)
      global [2, 4, 4, 4] dropout 0.25 "drop" seed %one step %two
      : tensor<2x4x2x2xf32>, tensor<2x4x1x2xf32>, tensor<2x4x1x2xf32>
  kerf.check_close %heads, %y_h within 1.0e-6 : tensor<2x4x2x2xf32>

  %q_b = kerf.slice %q offsets [1, 0, 0, 0] sizes [1, 4, 4, 2] : tensor<2x4x4x2xf32>
  %k_b = kerf.slice %k offsets [1, 0, 0, 0] sizes [1, 4, 2, 2] : tensor<2x4x2x2xf32>
  %v_b = kerf.slice %v offsets [1, 0, 0, 0] sizes [1, 4, 2, 2] : tensor<2x4x2x2xf32>
  %y_b = kerf.slice %y offsets [1, 0, 0, 0] sizes [1, 4, 4, 2] : tensor<2x4x4x2xf32>
  %rows = kerf.attention %q_b, %k_b, %v_b causal window 3 offsets(%one, %zero, %zero, %zero)
      global [2, 4, 4, 4] dropout 0.25 "drop" seed %one step %two
      : tensor<1x4x4x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>
  kerf.check_close %rows, %y_b within 1.0e-6 : tensor<1x4x4x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Shards of the keys merge by their log-sum-exps; one that a query sees nothing of has
// weight 0.
kerf.model @key_shards() {
  %q = kerf.constant dense<
      [[[[-1.25, 1.5], [-1.25, -0.125], [1.0, 0.875], [0.25, 1.25]],
        [[-0.125, 0.5], [1.25, 0.75], [0.625, -0.375], [0.25, -0.375]],
        [[1.0, -0.5], [-0.125, 1.0], [0.0, -0.625], [1.25, -0.5]],
        [[1.375, 1.125], [-0.25, 0.875], [-1.875, -0.5], [1.5, 0.375]]],
       [[[0.25, 0.625], [0.75, 0.375], [-0.375, -1.25], [-0.875, -0.875]],
        [[-0.25, 2.0], [-0.625, -0.25], [-0.5, 0.375], [1.75, 1.5]],
        [[-0.5, -0.875], [1.5, 0.0], [0.75, -1.75], [1.5, -0.75]],
        [[0.0, -1.25], [-0.375, 1.25], [1.25, -0.125], [1.125, -0.125]]]]>
      : tensor<2x4x4x2xf32>
  %k = kerf.constant dense<
      [[[[-0.5, 0.125], [-1.25, -0.75]],
        [[0.875, 1.125], [-1.75, 0.875]],
        [[1.25, -0.25], [-1.75, 0.75]],
        [[-1.0, 0.625], [-0.5, 0.5]]],
       [[[-1.0, -0.125], [0.125, 0.5]],
        [[-1.125, 1.875], [-0.875, -0.75]],
        [[-1.0, -1.75], [-0.25, 1.125]],
        [[0.875, -1.25], [-1.5, -0.75]]]]> : tensor<2x4x2x2xf32>
  %v = kerf.constant dense<
      [[[[1.125, 0.0], [1.75, 0.625]],
        [[0.5, 1.125], [1.0, -0.625]],
        [[-1.0, -0.25], [0.0, -1.375]],
        [[-0.25, 0.5], [-1.5, -1.5]]],
       [[[-1.25, -0.875], [1.875, -1.875]],
        [[-1.25, -1.375], [-0.125, -2.0]],
        [[-0.125, -1.375], [-0.875, 1.125]],
        [[-1.25, 0.5], [-0.375, -0.375]]]]> : tensor<2x4x2x2xf32>
  %zero = kerf.constant dense<0> : tensor<i32>
  %two = kerf.constant dense<2> : tensor<i32>
  %y, %l = kerf.attention %q, %k, %v causal lse
      : tensor<2x4x4x2xf32>, tensor<2x4x2x2xf32>, tensor<2x4x2x2xf32>
  %k_a = kerf.slice %k offsets [0, 0, 0, 0] sizes [2, 2, 2, 2] : tensor<2x4x2x2xf32>
  %v_a = kerf.slice %v offsets [0, 0, 0, 0] sizes [2, 2, 2, 2] : tensor<2x4x2x2xf32>
  %y_a, %l_a = kerf.attention %q, %k_a, %v_a causal offsets(%zero, %zero, %zero, %zero)
      global [2, 4, 4, 4] lse : tensor<2x4x4x2xf32>, tensor<2x2x2x2xf32>, tensor<2x2x2x2xf32>
  %k_b = kerf.slice %k offsets [0, 2, 0, 0] sizes [2, 2, 2, 2] : tensor<2x4x2x2xf32>
  %v_b = kerf.slice %v offsets [0, 2, 0, 0] sizes [2, 2, 2, 2] : tensor<2x4x2x2xf32>
  %y_b, %l_b = kerf.attention %q, %k_b, %v_b causal offsets(%zero, %zero, %zero, %two)
      global [2, 4, 4, 4] lse : tensor<2x4x4x2xf32>, tensor<2x2x2x2xf32>, tensor<2x2x2x2xf32>
  %ea = kerf.exp %l_a : tensor<2x4x4xf32>
  %eb = kerf.exp %l_b : tensor<2x4x4xf32>
  %e = kerf.add %ea, %eb : tensor<2x4x4xf32>
  %sum = kerf.log %e : tensor<2x4x4xf32>
  kerf.check_close %sum, %l within 1.0e-6 : tensor<2x4x4xf32>

  %p_a = kerf.div %ea, %e : tensor<2x4x4xf32>
  %t_a = kerf.transpose %p_a perm [0, 2, 1] : tensor<2x4x4xf32>
  %f_a = kerf.broadcast %t_a dims [0, 1, 2] : tensor<2x4x4xf32> -> tensor<2x4x4x2xf32>
  %w_a = kerf.mul %f_a, %y_a : tensor<2x4x4x2xf32>
  %p_b = kerf.div %eb, %e : tensor<2x4x4xf32>
  %t_b = kerf.transpose %p_b perm [0, 2, 1] : tensor<2x4x4xf32>
  %f_b = kerf.broadcast %t_b dims [0, 1, 2] : tensor<2x4x4xf32> -> tensor<2x4x4x2xf32>
  %w_b = kerf.mul %f_b, %y_b : tensor<2x4x4x2xf32>
  %merged = kerf.add %w_a, %w_b : tensor<2x4x4x2xf32>
  kerf.check_close %merged, %y within 1.0e-6 : tensor<2x4x4x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
