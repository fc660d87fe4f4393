// Parameters at the start of each step against torch.optim; a step reads its gradient and
// its expected values from tables.
//
// RUN: kerf-inspect interpret %s --steps=4 --rate=0.125
// RUN: kerf-inspect interpret %s --steps=4 --rate=0.125 --compute=f64

// The defaults.
kerf.model @adamw(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %gradients = kerf.constant dense<
      [[1.25, 1.25, 0.0], [-0.875, -1.75, -0.5], [-0.375, -1.875, -1.75], [2.0, 0.625, -1.0]]>
      : tensor<4x3xf32>
  %expected = kerf.constant dense<
      [[0.75, 0.75, 0.75],
       [0.625, 0.625, 0.75],
       [0.60975437, 0.65203711, 0.8430171],
       [0.61738357, 0.72028119, 0.93954332]]> : tensor<4x3xf32>
  %one = kerf.constant dense<1> : tensor<i32>
  %row = kerf.sub %t, %one : tensor<i32>
  %g = kerf.gather %gradients, %row : tensor<4x3xf32>, tensor<i32>
  %e = kerf.gather %expected, %row : tensor<4x3xf32>, tensor<i32>
  %w = kerf.param "w" init<constant, 0.75> : tensor<3xf32>
  kerf.check_close %w, %e within 1.0e-6 : tensor<3xf32>

  kerf.update "w" rule #kerf.adamw<>
      by %g rate %lr step %t : tensor<3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Every number of the rule.
kerf.model @adamw_options(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %gradients = kerf.constant dense<
      [[1.25, 1.25, 0.0], [-0.875, -1.75, -0.5], [-0.375, -1.875, -1.75], [2.0, 0.625, -1.0]]>
      : tensor<4x3xf32>
  %expected = kerf.constant dense<
      [[0.75, 0.75, 0.75],
       [0.63727679, 0.63727679, 0.7265625],
       [0.63078362, 0.66297078, 0.75131568],
       [0.63792096, 0.7213547, 0.81259371]]> : tensor<4x3xf32>
  %one = kerf.constant dense<1> : tensor<i32>
  %row = kerf.sub %t, %one : tensor<i32>
  %g = kerf.gather %gradients, %row : tensor<4x3xf32>, tensor<i32>
  %e = kerf.gather %expected, %row : tensor<4x3xf32>, tensor<i32>
  %w = kerf.param "w" init<constant, 0.75> : tensor<3xf32>
  kerf.check_close %w, %e within 1.0e-6 : tensor<3xf32>

  kerf.update "w" rule #kerf.adamw<beta1 = 0.5, beta2 = 0.75, eps = 0.5, weight_decay = 0.25>
      by %g rate %lr step %t : tensor<3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Without momentum there is no state.
kerf.model @sgd(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %gradients = kerf.constant dense<
      [[1.25, 1.25, 0.0], [-0.875, -1.75, -0.5], [-0.375, -1.875, -1.75], [2.0, 0.625, -1.0]]>
      : tensor<4x3xf32>
  %expected = kerf.constant dense<
      [[0.75, 0.75, 0.75],
       [0.59375, 0.59375, 0.75],
       [0.703125, 0.8125, 0.8125],
       [0.75, 1.046875, 1.03125]]> : tensor<4x3xf32>
  %one = kerf.constant dense<1> : tensor<i32>
  %row = kerf.sub %t, %one : tensor<i32>
  %g = kerf.gather %gradients, %row : tensor<4x3xf32>, tensor<i32>
  %e = kerf.gather %expected, %row : tensor<4x3xf32>, tensor<i32>
  %w = kerf.param "w" init<constant, 0.75> : tensor<3xf32>
  kerf.check_close %w, %e within 1.0e-6 : tensor<3xf32>

  kerf.update "w" rule #kerf.sgd<>
      by %g rate %lr step %t : tensor<3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Weight decay is decoupled from the gradient.
kerf.model @sgd_decay(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %gradients = kerf.constant dense<
      [[1.25, 1.25, 0.0], [-0.875, -1.75, -0.5], [-0.375, -1.875, -1.75], [2.0, 0.625, -1.0]]>
      : tensor<4x3xf32>
  %expected = kerf.constant dense<
      [[0.75, 0.75, 0.75],
       [0.5703125, 0.5703125, 0.7265625],
       [0.66186523, 0.77124023, 0.76635742],
       [0.68805695, 0.98151398, 0.96115875]]> : tensor<4x3xf32>
  %one = kerf.constant dense<1> : tensor<i32>
  %row = kerf.sub %t, %one : tensor<i32>
  %g = kerf.gather %gradients, %row : tensor<4x3xf32>, tensor<i32>
  %e = kerf.gather %expected, %row : tensor<4x3xf32>, tensor<i32>
  %w = kerf.param "w" init<constant, 0.75> : tensor<3xf32>
  kerf.check_close %w, %e within 1.0e-6 : tensor<3xf32>

  kerf.update "w" rule #kerf.sgd<weight_decay = 0.25>
      by %g rate %lr step %t : tensor<3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Momentum, with decay.
kerf.model @sgd_momentum(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %gradients = kerf.constant dense<
      [[1.25, 1.25, 0.0], [-0.875, -1.75, -0.5], [-0.375, -1.875, -1.75], [2.0, 0.625, -1.0]]>
      : tensor<4x3xf32>
  %expected = kerf.constant dense<
      [[0.75, 0.75, 0.75],
       [0.5703125, 0.5703125, 0.7265625],
       [0.54467773, 0.65405273, 0.76635742],
       [0.56867218, 0.94416046, 1.0080338]]> : tensor<4x3xf32>
  %one = kerf.constant dense<1> : tensor<i32>
  %row = kerf.sub %t, %one : tensor<i32>
  %g = kerf.gather %gradients, %row : tensor<4x3xf32>, tensor<i32>
  %e = kerf.gather %expected, %row : tensor<4x3xf32>, tensor<i32>
  %w = kerf.param "w" init<constant, 0.75> : tensor<3xf32>
  kerf.check_close %w, %e within 1.0e-6 : tensor<3xf32>

  kerf.update "w" rule #kerf.sgd<momentum = 0.75, weight_decay = 0.25>
      by %g rate %lr step %t : tensor<3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Nesterov's momentum.
kerf.model @sgd_nesterov(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %gradients = kerf.constant dense<
      [[1.25, 1.25, 0.0], [-0.875, -1.75, -0.5], [-0.375, -1.875, -1.75], [2.0, 0.625, -1.0]]>
      : tensor<4x3xf32>
  %expected = kerf.constant dense<
      [[0.75, 0.75, 0.75],
       [0.4765625, 0.4765625, 0.75],
       [0.58007812, 0.77148438, 0.859375],
       [0.65771484, 1.2387695, 1.2773438]]> : tensor<4x3xf32>
  %one = kerf.constant dense<1> : tensor<i32>
  %row = kerf.sub %t, %one : tensor<i32>
  %g = kerf.gather %gradients, %row : tensor<4x3xf32>, tensor<i32>
  %e = kerf.gather %expected, %row : tensor<4x3xf32>, tensor<i32>
  %w = kerf.param "w" init<constant, 0.75> : tensor<3xf32>
  kerf.check_close %w, %e within 1.0e-6 : tensor<3xf32>

  kerf.update "w" rule #kerf.sgd<momentum = 0.75, nesterov = true>
      by %g rate %lr step %t : tensor<3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A group's factor on the learning rate.
kerf.model @rate_scale(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %gradients = kerf.constant dense<
      [[1.25, 1.25, 0.0], [-0.875, -1.75, -0.5], [-0.375, -1.875, -1.75], [2.0, 0.625, -1.0]]>
      : tensor<4x3xf32>
  %expected = kerf.constant dense<
      [[0.75, 0.75, 0.75],
       [0.67578125, 0.67578125, 0.73828125],
       [0.65759935, 0.67874073, 0.77325416],
       [0.65113896, 0.70225744, 0.80943517]]> : tensor<4x3xf32>
  %one = kerf.constant dense<1> : tensor<i32>
  %row = kerf.sub %t, %one : tensor<i32>
  %g = kerf.gather %gradients, %row : tensor<4x3xf32>, tensor<i32>
  %e = kerf.gather %expected, %row : tensor<4x3xf32>, tensor<i32>
  %w = kerf.param "w" init<constant, 0.75> : tensor<3xf32>
  kerf.check_close %w, %e within 1.0e-6 : tensor<3xf32>

  kerf.update "w" rule #kerf.adamw<weight_decay = 0.25>
      by %g rate %lr times 0.5 step %t : tensor<3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A factor on the gradient, as clipping gives one.
kerf.model @scale(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %gradients = kerf.constant dense<
      [[1.25, 1.25, 0.0], [-0.875, -1.75, -0.5], [-0.375, -1.875, -1.75], [2.0, 0.625, -1.0]]>
      : tensor<4x3xf32>
  %expected = kerf.constant dense<
      [[0.75, 0.75, 0.75],
       [0.671875, 0.671875, 0.75],
       [0.66796875, 0.72265625, 0.78125],
       [0.68847656, 0.87792969, 0.9140625]]> : tensor<4x3xf32>
  %one = kerf.constant dense<1> : tensor<i32>
  %row = kerf.sub %t, %one : tensor<i32>
  %g = kerf.gather %gradients, %row : tensor<4x3xf32>, tensor<i32>
  %e = kerf.gather %expected, %row : tensor<4x3xf32>, tensor<i32>
  %w = kerf.param "w" init<constant, 0.75> : tensor<3xf32>
  kerf.check_close %w, %e within 1.0e-6 : tensor<3xf32>

  %half = kerf.constant dense<0.5> : tensor<f32>
  kerf.update "w" rule #kerf.sgd<momentum = 0.75>
      by %g scale %half rate %lr step %t : tensor<3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A stacked gradient updates the parameter of each iteration.
kerf.model @stack(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %gradients = kerf.constant dense<[[1.0, 2.0], [-0.5, 4.0], [0.25, 0.0]]> : tensor<3x2xf32>
  %all = kerf.repeat %i = 1 to 4 () {
    %w = kerf.param "h.{i}.w" init<constant, 0.75> : tensor<2xf32>
    kerf.yield stack(%w) : tensor<2xf32>
  }
  %f = kerf.cast %t : tensor<i32> -> tensor<f32>
  %one = kerf.constant dense<1.0> : tensor<f32>
  %steps = kerf.sub %f, %one : tensor<f32>
  %change = kerf.constant dense<[[-0.125, -0.25], [0.0625, -0.5], [-0.03125, -0.0]]>
      : tensor<3x2xf32>
  %many = kerf.broadcast %steps dims [] : tensor<f32> -> tensor<3x2xf32>
  %moved = kerf.mul %many, %change : tensor<3x2xf32>
  %start = kerf.constant dense<0.75> : tensor<3x2xf32>
  %e = kerf.add %start, %moved : tensor<3x2xf32>
  kerf.check_close %all, %e within 1.0e-6 : tensor<3x2xf32>

  kerf.update "h.{i}.w" [1 to 4] rule #kerf.sgd<> by %gradients rate %lr step %t : tensor<3x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Steps too small for bf16 add up in the f32 master.
kerf.model @master(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %gradients = kerf.constant dense<
      [[1.0, -0.5, 1.5], [1.0, -0.5, 1.5], [1.0, -0.5, 1.5], [1.0, -0.5, 1.5]]>
      : tensor<4x3xf32>
  %expected = kerf.constant dense<
      [[0.75, 0.75, 0.75],
       [0.74902344, 0.75048828, 0.74853516],
       [0.74804688, 0.75097656, 0.74707031],
       [0.74707031, 0.75146484, 0.74560547]]> : tensor<4x3xf32>
  %one = kerf.constant dense<1> : tensor<i32>
  %row = kerf.sub %t, %one : tensor<i32>
  %g = kerf.gather %gradients, %row : tensor<4x3xf32>, tensor<i32>
  %e = kerf.gather %expected, %row : tensor<4x3xf32>, tensor<i32>
  %w = kerf.param "w" init<constant, 0.75> master f32 : tensor<3xbf16>
  %rounded = kerf.cast %e : tensor<3xf32> -> tensor<3xbf16>
  kerf.check_close %w, %rounded within 0.0 : tensor<3xbf16>

  kerf.update "w" rule #kerf.sgd<>
      by %g rate %lr times 0.0078125 step %t into bf16 : tensor<3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A step whose gradient overflows leaves parameter, master, state: then the run goes on as
// if it had not been (@sgd_momentum).
kerf.model @skipped(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %gradients = kerf.constant dense<
      [[1.25, 1.25, 0.0], [1.0, 0x7F800000, 0.0], [-0.875, -1.75, -0.5], [2.0, 0.625, -1.0]]>
      : tensor<4x3xf32>
  %expected = kerf.constant dense<
      [[0.75, 0.75, 0.75],
       [0.5703125, 0.5703125, 0.7265625],
       [0.5703125, 0.5703125, 0.7265625],
       [0.54467773, 0.65405273, 0.76635742]]> : tensor<4x3xf32>
  %one = kerf.constant dense<1> : tensor<i32>
  %row = kerf.sub %t, %one : tensor<i32>
  %g = kerf.gather %gradients, %row : tensor<4x3xf32>, tensor<i32>
  %e = kerf.gather %expected, %row : tensor<4x3xf32>, tensor<i32>
  %w = kerf.param "w" init<constant, 0.75> : tensor<3xf32>
  kerf.check_close %w, %e within 1.0e-6 : tensor<3xf32>
  %h = kerf.param "h" init<constant, 0.75> master f32 : tensor<3xbf16>
  %rounded = kerf.cast %e : tensor<3xf32> -> tensor<3xbf16>
  kerf.check_close %h, %rounded within 0.0 : tensor<3xbf16>

  %norm = kerf.global_norm %g : tensor<3xf32>
  %inf = kerf.constant dense<0x7F800000> : tensor<f32>
  %counts = kerf.compare lt %norm, %inf : tensor<f32>
  kerf.update "w" rule #kerf.sgd<momentum = 0.75, weight_decay = 0.25>
      by %g rate %lr step %t if %counts : tensor<3xf32>
  kerf.update "h" rule #kerf.sgd<momentum = 0.75, weight_decay = 0.25>
      by %g rate %lr step %t if %counts into bf16 : tensor<3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The norm over all gradients, and the factor that brings it down to the limit.
kerf.model @clipping(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %a = kerf.constant dense<[[-0.25, 1.875, 1.625], [1.375, -0.375, 0.0]]> : tensor<2x3xf32>
  %b = kerf.constant dense<[0.75, -1.75, 0.25, -0.875]> : tensor<4xf32>
  %n = kerf.global_norm %a, %b : tensor<2x3xf32>, tensor<4xf32>
  %n_e = kerf.constant dense<3.5641444> : tensor<f32>
  kerf.check_close %n, %n_e within 1.0e-6 : tensor<f32>

  %c = kerf.clip_factor %n max 1.0
  %c_e = kerf.constant dense<0.28057217> : tensor<f32>
  kerf.check_close %c, %c_e within 1.0e-6 : tensor<f32>

  %one = kerf.clip_factor %n max 100.0
  %one_e = kerf.constant dense<1.0> : tensor<f32>
  kerf.check_close %one, %one_e within 1.0e-6 : tensor<f32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
