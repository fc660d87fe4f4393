// RUN: kerf-inspect interpret %s
// RUN: kerf-inspect interpret %s --compute=f64

// Functions of one operand.
kerf.model @one_operand() {
  %x = kerf.constant dense<[-1.5, -0.25, 0.0, 0.5, 2.0, 3.25]> : tensor<6xf32>
  %p = kerf.constant dense<[0.125, 0.5, 1.0, 2.0, 3.5, 9.0]> : tensor<6xf32>
  %neg = kerf.neg %x : tensor<6xf32>
  %neg_e = kerf.constant dense<[1.5, 0.25, -0.0, -0.5, -2.0, -3.25]> : tensor<6xf32>
  kerf.check_close %neg, %neg_e within 1.0e-6 : tensor<6xf32>

  %exp = kerf.exp %x : tensor<6xf32>
  %exp_e = kerf.constant dense<[0.22313016, 0.77880078, 1.0, 1.6487213, 7.3890561, 25.79034]>
      : tensor<6xf32>
  kerf.check_close %exp, %exp_e within 1.0e-6 : tensor<6xf32>

  %log = kerf.log %p : tensor<6xf32>
  %log_e = kerf.constant dense<[-2.0794415, -0.69314718, 0.0, 0.69314718, 1.252763, 2.1972246]>
      : tensor<6xf32>
  kerf.check_close %log, %log_e within 1.0e-6 : tensor<6xf32>

  %sqrt = kerf.sqrt %p : tensor<6xf32>
  %sqrt_e = kerf.constant dense<[0.35355339, 0.70710678, 1.0, 1.4142136, 1.8708287, 3.0]>
      : tensor<6xf32>
  kerf.check_close %sqrt, %sqrt_e within 1.0e-6 : tensor<6xf32>

  %rsqrt = kerf.rsqrt %p : tensor<6xf32>
  %rsqrt_e = kerf.constant dense<[2.8284271, 1.4142136, 1.0, 0.70710678, 0.53452248, 0.33333333]>
      : tensor<6xf32>
  kerf.check_close %rsqrt, %rsqrt_e within 1.0e-6 : tensor<6xf32>

  %tanh = kerf.tanh %x : tensor<6xf32>
  %tanh_e = kerf.constant dense<
      [-0.90514825, -0.24491866, 0.0, 0.46211716, 0.96402758, 0.99699764]>
      : tensor<6xf32>
  kerf.check_close %tanh, %tanh_e within 1.0e-6 : tensor<6xf32>

  %erf = kerf.erf %x : tensor<6xf32>
  %erf_e = kerf.constant dense<[-0.96610515, -0.27632639, 0.0, 0.52049988, 0.99532227, 0.9999957]>
      : tensor<6xf32>
  kerf.check_close %erf, %erf_e within 1.0e-6 : tensor<6xf32>

  %sin = kerf.sin %x : tensor<6xf32>
  %sin_e = kerf.constant dense<
      [-0.99749499, -0.24740396, 0.0, 0.47942554, 0.90929743, -0.10819513]>
      : tensor<6xf32>
  kerf.check_close %sin, %sin_e within 1.0e-6 : tensor<6xf32>

  %cos = kerf.cos %x : tensor<6xf32>
  %cos_e = kerf.constant dense<
      [0.070737202, 0.96891242, 1.0, 0.87758256, -0.41614684, -0.99412968]>
      : tensor<6xf32>
  kerf.check_close %cos, %cos_e within 1.0e-6 : tensor<6xf32>

  %logistic = kerf.logistic %x : tensor<6xf32>
  %logistic_e = kerf.constant dense<
      [0.18242552, 0.4378235, 0.5, 0.62245933, 0.88079708, 0.96267311]>
      : tensor<6xf32>
  kerf.check_close %logistic, %logistic_e within 1.0e-6 : tensor<6xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Far from zero the saturating functions reach their limits, without NaN.
kerf.model @saturated() {
  %x = kerf.constant dense<[-200.0, 200.0]> : tensor<2xf32>
  %logistic = kerf.logistic %x : tensor<2xf32>
  %logistic_e = kerf.constant dense<[0.0, 1.0]> : tensor<2xf32>
  kerf.check_close %logistic, %logistic_e within 1.0e-6 : tensor<2xf32>

  %tanh = kerf.tanh %x : tensor<2xf32>
  %tanh_e = kerf.constant dense<[-1.0, 1.0]> : tensor<2xf32>
  kerf.check_close %tanh, %tanh_e within 1.0e-6 : tensor<2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Functions of two operands.
kerf.model @two_operands() {
  %a = kerf.constant dense<[-1.5, 0.25, 2.0, 3.0]> : tensor<4xf32>
  %b = kerf.constant dense<[0.5, -2.0, 2.0, -0.125]> : tensor<4xf32>
  %add = kerf.add %a, %b : tensor<4xf32>
  %add_e = kerf.constant dense<[-1.0, -1.75, 4.0, 2.875]> : tensor<4xf32>
  kerf.check_close %add, %add_e within 1.0e-6 : tensor<4xf32>

  %sub = kerf.sub %a, %b : tensor<4xf32>
  %sub_e = kerf.constant dense<[-2.0, 2.25, 0.0, 3.125]> : tensor<4xf32>
  kerf.check_close %sub, %sub_e within 1.0e-6 : tensor<4xf32>

  %mul = kerf.mul %a, %b : tensor<4xf32>
  %mul_e = kerf.constant dense<[-0.75, -0.5, 4.0, -0.375]> : tensor<4xf32>
  kerf.check_close %mul, %mul_e within 1.0e-6 : tensor<4xf32>

  %div = kerf.div %a, %b : tensor<4xf32>
  %div_e = kerf.constant dense<[-3.0, -0.125, 1.0, -24.0]> : tensor<4xf32>
  kerf.check_close %div, %div_e within 1.0e-6 : tensor<4xf32>

  %max = kerf.max %a, %b : tensor<4xf32>
  %max_e = kerf.constant dense<[0.5, 0.25, 2.0, 3.0]> : tensor<4xf32>
  kerf.check_close %max, %max_e within 1.0e-6 : tensor<4xf32>

  %min = kerf.min %a, %b : tensor<4xf32>
  %min_e = kerf.constant dense<[-1.5, -2.0, 2.0, -0.125]> : tensor<4xf32>
  kerf.check_close %min, %min_e within 1.0e-6 : tensor<4xf32>

  %base = kerf.constant dense<[1.5, 2.25, 4.0, -2.0]> : tensor<4xf32>
  %power = kerf.constant dense<[2.0, 0.5, -1.0, 3.0]> : tensor<4xf32>
  %pow = kerf.pow %base, %power : tensor<4xf32>
  %pow_e = kerf.constant dense<[2.25, 1.5, 0.25, -8.0]> : tensor<4xf32>
  kerf.check_close %pow, %pow_e within 1.0e-6 : tensor<4xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Integers divide towards minus infinity; by zero they give zero.
kerf.model @integers() {
  %a = kerf.constant dense<[7, -7, 7, -7, 6]> : tensor<5xi32>
  %b = kerf.constant dense<[2, 2, -2, -2, 0]> : tensor<5xi32>
  %add = kerf.add %a, %b : tensor<5xi32>
  %add_e = kerf.constant dense<[9, -5, 5, -9, 6]> : tensor<5xi32>
  kerf.check_close %add, %add_e within 0.0 : tensor<5xi32>

  %sub = kerf.sub %a, %b : tensor<5xi32>
  %sub_e = kerf.constant dense<[5, -9, 9, -5, 6]> : tensor<5xi32>
  kerf.check_close %sub, %sub_e within 0.0 : tensor<5xi32>

  %mul = kerf.mul %a, %b : tensor<5xi32>
  %mul_e = kerf.constant dense<[14, -14, -14, 14, 0]> : tensor<5xi32>
  kerf.check_close %mul, %mul_e within 0.0 : tensor<5xi32>

  %div = kerf.div %a, %b : tensor<5xi32>
  %div_e = kerf.constant dense<[3, -4, -4, 3, 0]> : tensor<5xi32>
  kerf.check_close %div, %div_e within 0.0 : tensor<5xi32>

  %max = kerf.max %a, %b : tensor<5xi32>
  %max_e = kerf.constant dense<[7, 2, 7, -2, 6]> : tensor<5xi32>
  kerf.check_close %max, %max_e within 0.0 : tensor<5xi32>

  %min = kerf.min %a, %b : tensor<5xi32>
  %min_e = kerf.constant dense<[2, -7, -2, -7, 0]> : tensor<5xi32>
  kerf.check_close %min, %min_e within 0.0 : tensor<5xi32>

  %base = kerf.constant dense<[2, -3, 10, 7]> : tensor<4xi32>
  %power = kerf.constant dense<[10, 3, 0, 1]> : tensor<4xi32>
  %pow = kerf.pow %base, %power : tensor<4xi32>
  %pow_e = kerf.constant dense<[1024, -27, 1, 7]> : tensor<4xi32>
  kerf.check_close %pow, %pow_e within 0.0 : tensor<4xi32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Integers wrap to 32 bits.
kerf.model @wrap() {
  %a = kerf.constant dense<[2147483647, -2147483648, 65537, 123456789]> : tensor<4xi32>
  %b = kerf.constant dense<[1, -1, 65537, 987654321]> : tensor<4xi32>
  %add = kerf.add %a, %b : tensor<4xi32>
  %add_e = kerf.constant dense<[-2147483648, 2147483647, 131074, 1111111110]> : tensor<4xi32>
  kerf.check_close %add, %add_e within 0.0 : tensor<4xi32>

  %sub = kerf.sub %a, %b : tensor<4xi32>
  %sub_e = kerf.constant dense<[2147483646, -2147483647, 0, -864197532]> : tensor<4xi32>
  kerf.check_close %sub, %sub_e within 0.0 : tensor<4xi32>

  %mul = kerf.mul %a, %b : tensor<4xi32>
  %mul_e = kerf.constant dense<[2147483647, -2147483648, 131073, -67153019]> : tensor<4xi32>
  kerf.check_close %mul, %mul_e within 0.0 : tensor<4xi32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A NaN on either side is the maximum and the minimum; it compares as in IEEE 754.
kerf.model @not_a_number() {
  %a = kerf.constant dense<[0x7FC00000, 1.0, 0x7FC00000, -3.0]> : tensor<4xf32>
  %b = kerf.constant dense<[1.0, 0x7FC00000, 0x7FC00000, 2.0]> : tensor<4xf32>
  %max = kerf.max %a, %b : tensor<4xf32>
  %max_e = kerf.constant dense<[0x7FC00000, 0x7FC00000, 0x7FC00000, 2.0]> : tensor<4xf32>
  kerf.check_close %max, %max_e within 0.0 : tensor<4xf32>

  %min = kerf.min %a, %b : tensor<4xf32>
  %min_e = kerf.constant dense<[0x7FC00000, 0x7FC00000, 0x7FC00000, -3.0]> : tensor<4xf32>
  kerf.check_close %min, %min_e within 0.0 : tensor<4xf32>

  %largest = kerf.reduce max %a dims [0] : tensor<4xf32>
  %largest_e = kerf.constant dense<0x7FC00000> : tensor<f32>
  kerf.check_close %largest, %largest_e within 0.0 : tensor<f32>

  %last = kerf.reduce max %b dims [0] : tensor<4xf32>
  %last_e = kerf.constant dense<0x7FC00000> : tensor<f32>
  kerf.check_close %last, %last_e within 0.0 : tensor<f32>

  %eq = kerf.compare eq %a, %b : tensor<4xf32>
  %eq_e = kerf.constant dense<false> : tensor<4xi1>
  kerf.check_close %eq, %eq_e within 0.0 : tensor<4xi1>

  %ne = kerf.compare ne %a, %b : tensor<4xf32>
  %ne_e = kerf.constant dense<true> : tensor<4xi1>
  kerf.check_close %ne, %ne_e within 0.0 : tensor<4xi1>

  %lt = kerf.compare lt %a, %b : tensor<4xf32>
  %lt_e = kerf.constant dense<[false, false, false, true]> : tensor<4xi1>
  kerf.check_close %lt, %lt_e within 0.0 : tensor<4xi1>

  %ge = kerf.compare ge %a, %b : tensor<4xf32>
  %ge_e = kerf.constant dense<false> : tensor<4xi1>
  kerf.check_close %ge, %ge_e within 0.0 : tensor<4xi1>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The six order relations, on integers and floats.
kerf.model @compare() {
  %a = kerf.constant dense<[1, 2, 3]> : tensor<3xi32>
  %b = kerf.constant dense<2> : tensor<3xi32>
  %x = kerf.constant dense<[-0.5, 0.5, 1.5]> : tensor<3xf32>
  %y = kerf.constant dense<0.5> : tensor<3xf32>
  %i_eq = kerf.compare eq %a, %b : tensor<3xi32>
  %i_eq_e = kerf.constant dense<[false, true, false]> : tensor<3xi1>
  kerf.check_close %i_eq, %i_eq_e within 0.0 : tensor<3xi1>

  %f_eq = kerf.compare eq %x, %y : tensor<3xf32>
  kerf.check_close %f_eq, %i_eq_e within 0.0 : tensor<3xi1>

  %i_ne = kerf.compare ne %a, %b : tensor<3xi32>
  %i_ne_e = kerf.constant dense<[true, false, true]> : tensor<3xi1>
  kerf.check_close %i_ne, %i_ne_e within 0.0 : tensor<3xi1>

  %f_ne = kerf.compare ne %x, %y : tensor<3xf32>
  kerf.check_close %f_ne, %i_ne_e within 0.0 : tensor<3xi1>

  %i_lt = kerf.compare lt %a, %b : tensor<3xi32>
  %i_lt_e = kerf.constant dense<[true, false, false]> : tensor<3xi1>
  kerf.check_close %i_lt, %i_lt_e within 0.0 : tensor<3xi1>

  %f_lt = kerf.compare lt %x, %y : tensor<3xf32>
  kerf.check_close %f_lt, %i_lt_e within 0.0 : tensor<3xi1>

  %i_le = kerf.compare le %a, %b : tensor<3xi32>
  %i_le_e = kerf.constant dense<[true, true, false]> : tensor<3xi1>
  kerf.check_close %i_le, %i_le_e within 0.0 : tensor<3xi1>

  %f_le = kerf.compare le %x, %y : tensor<3xf32>
  kerf.check_close %f_le, %i_le_e within 0.0 : tensor<3xi1>

  %i_gt = kerf.compare gt %a, %b : tensor<3xi32>
  %i_gt_e = kerf.constant dense<[false, false, true]> : tensor<3xi1>
  kerf.check_close %i_gt, %i_gt_e within 0.0 : tensor<3xi1>

  %f_gt = kerf.compare gt %x, %y : tensor<3xf32>
  kerf.check_close %f_gt, %i_gt_e within 0.0 : tensor<3xi1>

  %i_ge = kerf.compare ge %a, %b : tensor<3xi32>
  %i_ge_e = kerf.constant dense<[false, true, true]> : tensor<3xi1>
  kerf.check_close %i_ge, %i_ge_e within 0.0 : tensor<3xi1>

  %f_ge = kerf.compare ge %x, %y : tensor<3xf32>
  kerf.check_close %f_ge, %i_ge_e within 0.0 : tensor<3xi1>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The choice that is not taken does not matter, not even a NaN.
kerf.model @select() {
  %c = kerf.constant dense<[true, false, false, true]> : tensor<4xi1>
  %a = kerf.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %b = kerf.constant dense<[-1.0, 0x7FC00000, -3.0, 0x7FC00000]> : tensor<4xf32>
  %y = kerf.select %c, %a, %b : tensor<4xf32>
  %y_e = kerf.constant dense<[1.0, 0x7FC00000, -3.0, 4.0]> : tensor<4xf32>
  kerf.check_close %y, %y_e within 0.0 : tensor<4xf32>

  %i = kerf.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %j = kerf.constant dense<[5, 6, 7, 8]> : tensor<4xi32>
  %k = kerf.select %c, %i, %j : tensor<4xi32>
  %k_e = kerf.constant dense<[1, 6, 7, 4]> : tensor<4xi32>
  kerf.check_close %k, %k_e within 0.0 : tensor<4xi32>

  %n = kerf.constant dense<[false, true, false, false]> : tensor<4xi1>
  %d = kerf.select %c, %c, %n : tensor<4xi1>
  %d_e = kerf.constant dense<[true, true, false, true]> : tensor<4xi1>
  kerf.check_close %d, %d_e within 0.0 : tensor<4xi1>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Floats become integers towards zero, and true where they are not zero.
kerf.model @cast() {
  %x = kerf.constant dense<[-2.75, -0.5, 0.0, 0.5, 2.75]> : tensor<5xf32>
  %i = kerf.cast %x : tensor<5xf32> -> tensor<5xi32>
  %i_e = kerf.constant dense<[-2, 0, 0, 0, 2]> : tensor<5xi32>
  kerf.check_close %i, %i_e within 0.0 : tensor<5xi32>

  %t = kerf.cast %x : tensor<5xf32> -> tensor<5xi1>
  %t_e = kerf.constant dense<[true, true, false, true, true]> : tensor<5xi1>
  kerf.check_close %t, %t_e within 0.0 : tensor<5xi1>

  %f = kerf.cast %t : tensor<5xi1> -> tensor<5xf32>
  %f_e = kerf.constant dense<[1.0, 1.0, 0.0, 1.0, 1.0]> : tensor<5xf32>
  kerf.check_close %f, %f_e within 0.0 : tensor<5xf32>

  %n = kerf.cast %t : tensor<5xi1> -> tensor<5xi32>
  %n_e = kerf.constant dense<[1, 1, 0, 1, 1]> : tensor<5xi32>
  kerf.check_close %n, %n_e within 0.0 : tensor<5xi32>

  %b = kerf.cast %i : tensor<5xi32> -> tensor<5xbf16>
  %b_e = kerf.constant dense<[-2.0, -0.0, 0.0, 0.0, 2.0]> : tensor<5xbf16>
  kerf.check_close %b, %b_e within 0.0 : tensor<5xbf16>

  %k = kerf.constant dense<[-129, -128, 127, 128, 511]> : tensor<5xi32>
  %c = kerf.cast %k : tensor<5xi32> -> tensor<5xi8>
  %c_e = kerf.constant dense<[127, -128, 127, -128, -1]> : tensor<5xi8>
  kerf.check_close %c, %c_e within 0.0 : tensor<5xi8>
  %s = kerf.cast %c : tensor<5xi8> -> tensor<5xf32>
  %s_e = kerf.constant dense<[127.0, -128.0, 127.0, -128.0, -1.0]> : tensor<5xf32>
  kerf.check_close %s, %s_e within 0.0 : tensor<5xf32>

  %w = kerf.cast %x : tensor<5xf32> -> tensor<5xf64>
  %w_e = kerf.constant dense<[-2.75, -0.5, 0.0, 0.5, 2.75]> : tensor<5xf64>
  kerf.check_close %w, %w_e within 0.0 : tensor<5xf64>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
