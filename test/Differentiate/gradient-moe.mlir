// Mixtures of experts against central differences.
//
// RUN: kerf-inspect gradcheck %s --samples=64

// Chosen probabilities.
kerf.model @route() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x4xf32>
  %w, %e = kerf.route %x k 2 : tensor<2x3x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x2xf32>
  %mixed = kerf.mul %w, %mix : tensor<2x3x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x2xf32>
  kerf.return %loss : tensor<f32>
}

// Weights that add up to 1.
kerf.model @route_renormalize() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x4xf32>
  %w, %e = kerf.route %x k 2 renormalize : tensor<2x3x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x2xf32>
  %mixed = kerf.mul %w, %mix : tensor<2x3x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x2xf32>
  kerf.return %loss : tensor<f32>
}

// Sigmoids with a bias that is frozen, from the best groups.
kerf.model @route_sigmoid() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x6xf32>
  %bias = kerf.param "bias" init<normal, 0.5> frozen : tensor<6xf32>
  %w, %e = kerf.route %x k 3 renormalize sigmoid groups 3 best 2 scale 2.5 bias %bias : tensor<6xf32>
      : tensor<2x3x6xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x3xf32>
  %mixed = kerf.mul %w, %mix : tensor<2x3x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x3xf32>
  kerf.return %loss : tensor<f32>
}

// Groups of 1 sequence.
kerf.model @load_balance_loss_1() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x4xf32>
  %w, %e = kerf.route %x k 2 : tensor<2x3x4xf32>
  %l = kerf.load_balance_loss %x, %e group 1 : tensor<2x3x4xf32>, tensor<2x3x2xi32>
  %loss = kerf.mul %l, %l : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Groups of 2 sequences.
kerf.model @load_balance_loss_2() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x3x4xf32>
  %w, %e = kerf.route %x k 2 : tensor<2x3x4xf32>
  %l = kerf.load_balance_loss %x, %e group 2 : tensor<2x3x4xf32>, tensor<2x3x2xi32>
  %loss = kerf.mul %l, %l : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Each token as it is.
kerf.model @dispatch() {
  %e = kerf.constant dense<[[[1, 0], [0, 1], [1, 2]], [[1, 2], [2, 1], [1, 0]]]> : tensor<2x3x2xi32>
  %s, %n = kerf.assign_slots %e count 3 group 1 : tensor<2x3x2xi32>
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x2xf32>
  %y = kerf.dispatch %x, %s : tensor<2x3x2xf32>, tensor<2x3x2xi32> -> tensor<2x6x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x6x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x6x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x6x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x6x2xf32>
  kerf.return %loss : tensor<f32>
}

// Each row as it is.
kerf.model @combine() {
  %e = kerf.constant dense<[[[1, 0], [0, 1], [1, 2]], [[1, 2], [2, 1], [1, 0]]]> : tensor<2x3x2xi32>
  %s, %n = kerf.assign_slots %e count 3 group 1 : tensor<2x3x2xi32>
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x6x2xf32>
  %y = kerf.combine %x, %s : tensor<2x6x2xf32>, tensor<2x3x2xi32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x2xf32>
  kerf.return %loss : tensor<f32>
}

// Each token with a weight.
kerf.model @dispatch_weights() {
  %e = kerf.constant dense<[[[1, 0], [0, 1], [1, 2]], [[1, 2], [2, 1], [1, 0]]]> : tensor<2x3x2xi32>
  %s, %n = kerf.assign_slots %e count 3 group 1 : tensor<2x3x2xi32>
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x2xf32>
  %w = kerf.param "w" init<normal, 0.5> : tensor<2x3x2xf32>
  %y = kerf.dispatch %x, %s weights %w : tensor<2x3x2xf32>
      : tensor<2x3x2xf32>, tensor<2x3x2xi32> -> tensor<2x6x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x6x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x6x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x6x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x6x2xf32>
  kerf.return %loss : tensor<f32>
}

// Each row with a weight.
kerf.model @combine_weights() {
  %e = kerf.constant dense<[[[1, 0], [0, 1], [1, 2]], [[1, 2], [2, 1], [1, 0]]]> : tensor<2x3x2xi32>
  %s, %n = kerf.assign_slots %e count 3 group 1 : tensor<2x3x2xi32>
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x6x2xf32>
  %w = kerf.param "w" init<normal, 0.5> : tensor<2x3x2xf32>
  %y = kerf.combine %x, %s weights %w : tensor<2x3x2xf32> : tensor<2x6x2xf32>, tensor<2x3x2xi32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x2xf32>
  kerf.return %loss : tensor<f32>
}

// Each token as it is. Some choices are dropped.
kerf.model @dispatch_capacity() {
  %e = kerf.constant dense<[[[1, 0], [0, 1], [1, 2]], [[1, 2], [2, 1], [1, 0]]]> : tensor<2x3x2xi32>
  %s, %n = kerf.assign_slots %e count 3 group 2 capacity 2 : tensor<2x3x2xi32>
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x2xf32>
  %y = kerf.dispatch %x, %s : tensor<2x3x2xf32>, tensor<2x3x2xi32> -> tensor<1x6x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<1x6x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<1x6x2xf32>
  %bent = kerf.tanh %mixed : tensor<1x6x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<1x6x2xf32>
  kerf.return %loss : tensor<f32>
}

// Each row as it is. Some choices are dropped.
kerf.model @combine_capacity() {
  %e = kerf.constant dense<[[[1, 0], [0, 1], [1, 2]], [[1, 2], [2, 1], [1, 0]]]> : tensor<2x3x2xi32>
  %s, %n = kerf.assign_slots %e count 3 group 2 capacity 2 : tensor<2x3x2xi32>
  %x = kerf.param "x" init<normal, 0.5> : tensor<1x6x2xf32>
  %y = kerf.combine %x, %s : tensor<1x6x2xf32>, tensor<2x3x2xi32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x2xf32>
  kerf.return %loss : tensor<f32>
}

// Each token with a weight. Some choices are dropped.
kerf.model @dispatch_capacity_weights() {
  %e = kerf.constant dense<[[[1, 0], [0, 1], [1, 2]], [[1, 2], [2, 1], [1, 0]]]> : tensor<2x3x2xi32>
  %s, %n = kerf.assign_slots %e count 3 group 2 capacity 2 : tensor<2x3x2xi32>
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x2xf32>
  %w = kerf.param "w" init<normal, 0.5> : tensor<2x3x2xf32>
  %y = kerf.dispatch %x, %s weights %w : tensor<2x3x2xf32>
      : tensor<2x3x2xf32>, tensor<2x3x2xi32> -> tensor<1x6x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<1x6x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<1x6x2xf32>
  %bent = kerf.tanh %mixed : tensor<1x6x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<1x6x2xf32>
  kerf.return %loss : tensor<f32>
}

// Each row with a weight. Some choices are dropped.
kerf.model @combine_capacity_weights() {
  %e = kerf.constant dense<[[[1, 0], [0, 1], [1, 2]], [[1, 2], [2, 1], [1, 0]]]> : tensor<2x3x2xi32>
  %s, %n = kerf.assign_slots %e count 3 group 2 capacity 2 : tensor<2x3x2xi32>
  %x = kerf.param "x" init<normal, 0.5> : tensor<1x6x2xf32>
  %w = kerf.param "w" init<normal, 0.5> : tensor<2x3x2xf32>
  %y = kerf.combine %x, %s weights %w : tensor<2x3x2xf32> : tensor<1x6x2xf32>, tensor<2x3x2xi32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x2xf32>
  kerf.return %loss : tensor<f32>
}

// Rows sorted by expert, the last of a group of nobody.
kerf.model @grouped_matmul() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x4x2xf32>
  %w = kerf.param "experts.{e}.w" init<normal, 0.5> : tensor<2x3x2xf32>
  %n = kerf.constant dense<[[1, 3], [2, 1]]> : tensor<2x2xi32>
  %y = kerf.grouped_matmul %x, %w, %n : tensor<2x4x2xf32>, tensor<2x3x2xf32>, tensor<2x2xi32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x4x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x4x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x4x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x4x3xf32>
  kerf.return %loss : tensor<f32>
}

// The weight as [n, k].
kerf.model @grouped_matmul_transposed() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x4x3xf32>
  %w = kerf.param "experts.{e}.w" init<normal, 0.5> : tensor<2x3x2xf32>
  %n = kerf.constant dense<[[1, 3], [2, 1]]> : tensor<2x2xi32>
  %y = kerf.grouped_matmul %x, %w, %n transposed
      : tensor<2x4x3xf32>, tensor<2x3x2xf32>, tensor<2x2xi32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x4x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// Each expert owns two rows.
kerf.model @grouped_matmul_capacity() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x4x2xf32>
  %w = kerf.param "experts.{e}.w" init<normal, 0.5> : tensor<2x3x2xf32>
  %n = kerf.constant dense<[[1, 2], [0, 2]]> : tensor<2x2xi32>
  %y = kerf.grouped_matmul %x, %w, %n capacity 2
      : tensor<2x4x2xf32>, tensor<2x3x2xf32>, tensor<2x2xi32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x4x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x4x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x4x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x4x3xf32>
  kerf.return %loss : tensor<f32>
}

// Both.
kerf.model @grouped_matmul_capacity_transposed() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x4x3xf32>
  %w = kerf.param "experts.{e}.w" init<normal, 0.5> : tensor<2x3x2xf32>
  %n = kerf.constant dense<[[1, 2], [0, 2]]> : tensor<2x2xi32>
  %y = kerf.grouped_matmul %x, %w, %n capacity 2 transposed
      : tensor<2x4x3xf32>, tensor<2x3x2xf32>, tensor<2x2xi32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x4x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// A whole layer of experts without dropping.
kerf.model @layer() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x4xf32>
  %r = kerf.param "router" init<normal, 1.0> : tensor<3x4xf32>
  %g = kerf.param "experts.{e}.gate" init<normal, 0.5> : tensor<3x5x4xf32>
  %u = kerf.param "experts.{e}.up" init<normal, 0.5> : tensor<3x5x4xf32>
  %d = kerf.param "experts.{e}.down" init<normal, 0.5> : tensor<3x4x5xf32>
  %logits = kerf.linear %x, %r : tensor<2x3x4xf32>, tensor<3x4xf32>
  %w, %e = kerf.route %logits k 2 renormalize : tensor<2x3x3xf32>
  %s, %n = kerf.assign_slots %e count 3 group 2 : tensor<2x3x2xi32>
  %rows = kerf.dispatch %x, %s : tensor<2x3x4xf32>, tensor<2x3x2xi32> -> tensor<1x12x4xf32>
  %gate = kerf.grouped_matmul %rows, %g, %n : tensor<1x12x4xf32>, tensor<3x5x4xf32>, tensor<1x3xi32>
  %up = kerf.grouped_matmul %rows, %u, %n : tensor<1x12x4xf32>, tensor<3x5x4xf32>, tensor<1x3xi32>
  %a = kerf.swiglu %gate, %up : tensor<1x12x5xf32>
  %down = kerf.grouped_matmul %a, %d, %n : tensor<1x12x5xf32>, tensor<3x4x5xf32>, tensor<1x3xi32>
  %y = kerf.combine %down, %s weights %w : tensor<2x3x2xf32> : tensor<1x12x4xf32>, tensor<2x3x2xi32>
  %l = kerf.load_balance_loss %logits, %e group 2 : tensor<2x3x3xf32>, tensor<2x3x2xi32>
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<2x3x4xf32>
  %mixed0 = kerf.mul %y, %mix0 : tensor<2x3x4xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<2x3x4xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0, 1, 2] : tensor<2x3x4xf32>
  %mix1 = kerf.param "mix1" init<normal, 0.5> frozen : tensor<f32>
  %mixed1 = kerf.mul %l, %mix1 : tensor<f32>
  %bent1 = kerf.tanh %mixed1 : tensor<f32>
  %loss1 = kerf.reduce sum %bent1 dims [] : tensor<f32>
  %loss = kerf.add %loss0, %loss1 : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A whole layer of experts where choices are dropped.
kerf.model @layer_capacity() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3x4xf32>
  %r = kerf.param "router" init<normal, 1.0> : tensor<3x4xf32>
  %g = kerf.param "experts.{e}.gate" init<normal, 0.5> : tensor<3x5x4xf32>
  %u = kerf.param "experts.{e}.up" init<normal, 0.5> : tensor<3x5x4xf32>
  %d = kerf.param "experts.{e}.down" init<normal, 0.5> : tensor<3x4x5xf32>
  %logits = kerf.linear %x, %r : tensor<2x3x4xf32>, tensor<3x4xf32>
  %w, %e = kerf.route %logits k 2 renormalize : tensor<2x3x3xf32>
  %s, %n = kerf.assign_slots %e count 3 group 2 capacity 3 : tensor<2x3x2xi32>
  %rows = kerf.dispatch %x, %s : tensor<2x3x4xf32>, tensor<2x3x2xi32> -> tensor<1x9x4xf32>
  %gate = kerf.grouped_matmul %rows, %g, %n capacity 3
      : tensor<1x9x4xf32>, tensor<3x5x4xf32>, tensor<1x3xi32>
  %up = kerf.grouped_matmul %rows, %u, %n capacity 3
      : tensor<1x9x4xf32>, tensor<3x5x4xf32>, tensor<1x3xi32>
  %a = kerf.swiglu %gate, %up : tensor<1x9x5xf32>
  %down = kerf.grouped_matmul %a, %d, %n capacity 3
      : tensor<1x9x5xf32>, tensor<3x4x5xf32>, tensor<1x3xi32>
  %y = kerf.combine %down, %s weights %w : tensor<2x3x2xf32> : tensor<1x9x4xf32>, tensor<2x3x2xi32>
  %l = kerf.load_balance_loss %logits, %e group 2 : tensor<2x3x3xf32>, tensor<2x3x2xi32>
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<2x3x4xf32>
  %mixed0 = kerf.mul %y, %mix0 : tensor<2x3x4xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<2x3x4xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0, 1, 2] : tensor<2x3x4xf32>
  %mix1 = kerf.param "mix1" init<normal, 0.5> frozen : tensor<f32>
  %mixed1 = kerf.mul %l, %mix1 : tensor<f32>
  %bent1 = kerf.tanh %mixed1 : tensor<f32>
  %loss1 = kerf.reduce sum %bent1 dims [] : tensor<f32>
  %loss = kerf.add %loss0, %loss1 : tensor<f32>
  kerf.return %loss : tensor<f32>
}
