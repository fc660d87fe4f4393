// RUN: kerf-inspect interpret %s
// RUN: kerf-inspect interpret %s --compute=f64

// Iterations see their slice, and stack their value, at i - start.
kerf.model @forward() {
  %x = kerf.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %ys = kerf.constant dense<[[2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]> : tensor<3x2xf32>
  %last, %all, %index = kerf.repeat %i = 2 to 5 (%h = %x : tensor<2xf32>) slices(%y = %ys
      : tensor<3x2xf32>) {
    %p = kerf.mul %h, %h : tensor<2xf32>
    %n = kerf.sub %p, %y : tensor<2xf32>
    kerf.yield %n stack(%n, %i) : tensor<2xf32>, tensor<2xf32>, tensor<i32>
  }
  %last_e = kerf.constant dense<[3.0, 9.0]> : tensor<2xf32>
  kerf.check_close %last, %last_e within 0.0 : tensor<2xf32>
  %all_e = kerf.constant dense<[[-1.0, 1.0], [-3.0, -4.0], [3.0, 9.0]]> : tensor<3x2xf32>
  kerf.check_close %all, %all_e within 0.0 : tensor<3x2xf32>
  %index_e = kerf.constant dense<[2, 3, 4]> : tensor<3xi32>
  kerf.check_close %index, %index_e within 0.0 : tensor<3xi32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A reverse repeat starts at its last iteration; slices and stacks keep their places.
kerf.model @reverse() {
  %x = kerf.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %ys = kerf.constant dense<[[2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]> : tensor<3x2xf32>
  %last, %all, %index = kerf.repeat reverse %i = 2 to 5 (%h = %x : tensor<2xf32>) slices(%y = %ys
      : tensor<3x2xf32>) {
    %p = kerf.mul %h, %h : tensor<2xf32>
    %n = kerf.sub %p, %y : tensor<2xf32>
    kerf.yield %n stack(%n, %i) : tensor<2xf32>, tensor<2xf32>, tensor<i32>
  }
  %last_e = kerf.constant dense<[439.0, 13.0]> : tensor<2xf32>
  kerf.check_close %last, %last_e within 0.0 : tensor<2xf32>
  %all_e = kerf.constant dense<[[439.0, 13.0], [21.0, 4.0], [-5.0, -3.0]]> : tensor<3x2xf32>
  kerf.check_close %all, %all_e within 0.0 : tensor<3x2xf32>
  %index_e = kerf.constant dense<[2, 3, 4]> : tensor<3xi32>
  kerf.check_close %index, %index_e within 0.0 : tensor<3xi32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Carried values take their next value all at once (Fibonacci numbers).
kerf.model @swap() {
  %a = kerf.constant dense<1.0> : tensor<f32>
  %b = kerf.constant dense<1.0> : tensor<f32>
  %x, %y = kerf.repeat %i = 0 to 6 (%p = %a : tensor<f32>, %q = %b : tensor<f32>) {
    %s = kerf.add %p, %q : tensor<f32>
    kerf.yield %q, %s : tensor<f32>, tensor<f32>
  }
  %x_e = kerf.constant dense<13.0> : tensor<f32>
  kerf.check_close %x, %x_e within 0.0 : tensor<f32>
  %y_e = kerf.constant dense<21.0> : tensor<f32>
  kerf.check_close %y, %y_e within 0.0 : tensor<f32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Each iteration has the parameter of its own name; one without an iteration in its name
// is shared.
kerf.model @parameters() {
  %own, %next, %far, %shared = kerf.repeat %i = 1 to 3 () {
    %a = kerf.param "h.{i}.a" init<normal, 0.5> : tensor<2xf32>
    %b = kerf.param "h.{i+1}.b" init<normal, 0.5> : tensor<2xf32>
    %c = kerf.param "h.{2*i+1}.c" init<normal, 0.5> : tensor<2xf32>
    %d = kerf.param "d" init<normal, 0.5> : tensor<2xf32>
    kerf.yield stack(%a, %b, %c, %d) : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  %own_e = kerf.constant dense<[[0.51287321, -0.68624629], [-0.10052665, -0.82061165]]>
      : tensor<2x2xf32>
  kerf.check_close %own, %own_e within 1.0e-6 : tensor<2x2xf32>
  %next_e = kerf.constant dense<[[0.1299553, 0.086105503], [-0.11976022, -0.0355588]]>
      : tensor<2x2xf32>
  kerf.check_close %next, %next_e within 1.0e-6 : tensor<2x2xf32>
  %far_e = kerf.constant dense<[[0.16110188, -0.2656717], [0.67003007, 0.76132638]]>
      : tensor<2x2xf32>
  kerf.check_close %far, %far_e within 1.0e-6 : tensor<2x2xf32>
  %shared_e = kerf.constant dense<[[0.22272748, -0.25292139], [0.22272748, -0.25292139]]>
      : tensor<2x2xf32>
  kerf.check_close %shared, %shared_e within 1.0e-6 : tensor<2x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Stacked experts start as the tensors of the checkpoint do, each from its own name.
kerf.model @experts() {
  %e = kerf.param "experts.{e}.w" init<normal, 0.5> : tensor<2x2x2xf32>
  %e_e = kerf.constant dense<
      [[[0.34050193, 1.2338776], [-0.55559978, -0.91735522]],
       [[0.42146594, -0.19342903], [-1.2831649, -0.047246987]]]> : tensor<2x2x2xf32>
  kerf.check_close %e, %e_e within 1.0e-6 : tensor<2x2x2xf32>

  %both = kerf.repeat %i = 0 to 2 () {
    %w = kerf.param "h.{i}.experts.{e}.w" init<normal, 0.5> : tensor<2x2xf32>
    kerf.yield stack(%w) : tensor<2x2xf32>
  }
  %both_e = kerf.constant dense<
      [[[-0.40349146, 0.61799925], [0.12215719, -0.48863384]],
       [[0.06583775, -0.76330746], [0.17363375, 0.53314874]]]> : tensor<2x2x2xf32>
  kerf.check_close %both, %both_e within 1.0e-6 : tensor<2x2x2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The kinds of initial values; frozen parameters have them too.
kerf.model @initial_values() {
  %u = kerf.param "u" init<uniform, 0.5> : tensor<3xf32>
  %u_e = kerf.constant dense<[-0.0095734596, -0.30454069, 0.13058585]> : tensor<3xf32>
  kerf.check_close %u, %u_e within 1.0e-6 : tensor<3xf32>

  %c = kerf.param "c" init<constant, -0.25> : tensor<3xf32>
  %c_e = kerf.constant dense<-0.25> : tensor<3xf32>
  kerf.check_close %c, %c_e within 1.0e-6 : tensor<3xf32>

  %z = kerf.param "z" init<zeros> : tensor<3xf32>
  %z_e = kerf.constant dense<0.0> : tensor<3xf32>
  kerf.check_close %z, %z_e within 1.0e-6 : tensor<3xf32>

  %o = kerf.param "o" init<ones> frozen : tensor<3xf32>
  %o_e = kerf.constant dense<1.0> : tensor<3xf32>
  kerf.check_close %o, %o_e within 1.0e-6 : tensor<3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
