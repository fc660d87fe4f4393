// RUN: kerf-opt %s --split-input-file --verify-diagnostics

// A token chooses at most all experts.
kerf.model @route_c1(%l: tensor<2x8x4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.route' expected logits of rank 3 and 1 <= k <= experts, found 'tensor<2x8x4xf32>' and k 5}}
  %w, %e = kerf.route %l k 5 : tensor<2x8x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Logits are by sequence, token and expert.
kerf.model @route_rank(%l: tensor<16x4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.route' expected logits of rank 3 and 1 <= k <= experts, found 'tensor<16x4xf32>' and k 2}}
  %w, %e = kerf.route %l k 2 : tensor<16x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Each expert has a bias.
kerf.model @route_c2(%l: tensor<2x8x4xf32>, %b: tensor<5xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.route' expected a bias of shape [4], found 'tensor<5xf32>'}}
  %w, %e = kerf.route %l k 2 bias %b : tensor<5xf32> : tensor<2x8x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The two best experts of a group speak for it, and k experts are to choose from.
kerf.model @route_c3(%l: tensor<2x8x8xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.route' expected groups of 2 or more of 8 experts, of which the best have 3, found groups 4 best 1}}
  %w, %e = kerf.route %l k 3 groups 4 best 1 : tensor<2x8x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A group of one expert has no second.
kerf.model @route_groups(%l: tensor<2x8x8xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.route' expected groups of 2 or more of 8 experts, of which the best have 3, found groups 8 best 4}}
  %w, %e = kerf.route %l k 3 groups 8 best 4 : tensor<2x8x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A scale of zero would leave nothing of the experts.
kerf.model @route_c4(%l: tensor<2x8x8xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.route' expected a finite scale > 0, found 0.000000e+00}}
  %w, %e = kerf.route %l k 3 scale 0.0 : tensor<2x8x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Loads are a vector.
kerf.model @expert_load_c1(%e: tensor<2x8x2xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{expected experts of rank 3 and a result of rank 1, found 'tensor<2x8x2xi32>' and 'tensor<2x4xf32>'}}
  %n = kerf.expert_load %e : tensor<2x8x2xi32> -> tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Each choice has a gradient.
kerf.model @route_backward_c1(%l: tensor<2x8x4xf32>, %e: tensor<2x8x2xi32>, %d: tensor<2x8x3xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.route_backward' expected experts and weights [B,S,k] of logits [B,S,E], found 'tensor<2x8x2xi32>', 'tensor<2x8x3xf32>' and 'tensor<2x8x4xf32>'}}
  %r = kerf.route_backward %l, %e, %d : tensor<2x8x4xf32>, tensor<2x8x2xi32>, tensor<2x8x3xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Logits and choices are of the same tokens.
kerf.model @load_balance_loss_c1(%l: tensor<2x8x4xf32>, %e: tensor<2x7x2xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.load_balance_loss' expected logits [B,S,E] and experts [B,S,k], found 'tensor<2x8x4xf32>' and 'tensor<2x7x2xi32>'}}
  %r = kerf.load_balance_loss %l, %e group 1 : tensor<2x8x4xf32>, tensor<2x7x2xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// Groups are whole sequences.
kerf.model @load_balance_loss_c2(%l: tensor<2x8x4xf32>, %e: tensor<2x8x2xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.load_balance_loss' expected a group >= 1 that divides 2, found 3}}
  %r = kerf.load_balance_loss %l, %e group 3 : tensor<2x8x4xf32>, tensor<2x8x2xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// Logits and choices are of the same tokens in the gradient too.
kerf.model @load_balance_loss_backward_c1(%l: tensor<2x8x4xf32>, %e: tensor<8x2xi32>, %d: tensor<f32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.load_balance_loss_backward' expected logits [B,S,E] and experts [B,S,k], found 'tensor<2x8x4xf32>' and 'tensor<8x2xi32>'}}
  %r = kerf.load_balance_loss_backward %l, %e, %d group 1 : tensor<2x8x4xf32>, tensor<8x2xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// A group has at least one sequence.
kerf.model @load_balance_loss_backward_group(%l: tensor<2x8x4xf32>, %e: tensor<2x8x2xi32>, %d: tensor<f32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.load_balance_loss_backward' expected a group >= 1 that divides 2, found 0}}
  %r = kerf.load_balance_loss_backward %l, %e, %d group 0 : tensor<2x8x4xf32>, tensor<2x8x2xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// Choices are by sequence, token and rank.
kerf.model @assign_slots_c1(%e: tensor<16x2xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.assign_slots' expected experts of rank 3, found 'tensor<16x2xi32>'}}
  %s, %n = kerf.assign_slots %e count 4 group 1 : tensor<16x2xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// Groups are whole sequences.
kerf.model @assign_slots_c2(%e: tensor<2x8x2xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.assign_slots' expected a group >= 1 that divides 2, a count >= 1 and a capacity >= 1, found group 4, count 4 and capacity 1}}
  %s, %n = kerf.assign_slots %e count 4 group 4 : tensor<2x8x2xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// An expert takes at least one token.
kerf.model @assign_slots_capacity(%e: tensor<2x8x2xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.assign_slots' expected a group >= 1 that divides 2, a count >= 1 and a capacity >= 1, found group 1, count 4 and capacity 0}}
  %s, %n = kerf.assign_slots %e count 4 group 1 capacity 0 : tensor<2x8x2xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// There is at least one expert.
kerf.model @assign_slots_count(%e: tensor<2x8x2xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.assign_slots' expected a group >= 1 that divides 2, a count >= 1 and a capacity >= 1, found group 1, count 0 and capacity 1}}
  %s, %n = kerf.assign_slots %e count 0 group 1 : tensor<2x8x2xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// Tables have the tokens' length of row.
kerf.model @dispatch_c1(%x: tensor<2x8x16xf32>, %s: tensor<2x8x2xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.dispatch' op expected x [B,S,D], slots and weights [B,S,k], sizes [G,E] and result [G,R,D] with G dividing B, found 'tensor<2x8x16xf32>', 'tensor<2x8x2xi32>' and 'tensor<2x16x8xf32>'}}
  %r = kerf.dispatch %x, %s : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<2x16x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Each choice has a weight.
kerf.model @dispatch_weights(%x: tensor<2x8x16xf32>, %s: tensor<2x8x2xi32>, %w: tensor<2x8xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.dispatch' op expected x [B,S,D], slots and weights [B,S,k], sizes [G,E] and result [G,R,D] with G dividing B, found 'tensor<2x8x16xf32>', 'tensor<2x8x2xi32>' and 'tensor<2x16x16xf32>'}}
  %r = kerf.dispatch %x, %s weights %w : tensor<2x8xf32> : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<2x16x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Sizes are counted by group.
kerf.model @dispatch_sizes(%x: tensor<2x8x16xf32>, %s: tensor<2x8x2xi32>, %n: tensor<1x4xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.dispatch' op expected x [B,S,D], slots and weights [B,S,k], sizes [G,E] and result [G,R,D] with G dividing B, found 'tensor<2x8x16xf32>', 'tensor<2x8x2xi32>' and 'tensor<2x16x16xf32>'}}
  %r = kerf.dispatch %x, %s sizes %n : tensor<1x4xi32> : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<2x16x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Groups divide the sequences.
kerf.model @combine_c1(%x: tensor<3x16x16xf32>, %s: tensor<2x8x2xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.combine' expected rows [G,R,D], slots and weights [B,S,k] and sizes [G,E] with G dividing B, found 'tensor<3x16x16xf32>' and 'tensor<2x8x2xi32>'}}
  %y = kerf.combine %x, %s : tensor<3x16x16xf32>, tensor<2x8x2xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// Each choice has a weight in a combine too.
kerf.model @combine_weights(%x: tensor<2x16x16xf32>, %s: tensor<2x8x2xi32>, %w: tensor<2x8x1xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.combine' expected rows [G,R,D], slots and weights [B,S,k] and sizes [G,E] with G dividing B, found 'tensor<2x16x16xf32>' and 'tensor<2x8x2xi32>'}}
  %y = kerf.combine %x, %s weights %w : tensor<2x8x1xf32> : tensor<2x16x16xf32>, tensor<2x8x2xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// Rows and gradients are of one length.
kerf.model @combine_weight_gradient_c1(%x: tensor<2x16x16xf32>, %s: tensor<2x8x2xi32>, %dy: tensor<2x8x8xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.combine_weight_gradient' expected rows [G,R,D], slots [B,S,k], dy [B,S,D] and sizes [G,E], found 'tensor<2x16x16xf32>', 'tensor<2x8x2xi32>' and 'tensor<2x8x8xf32>'}}
  %d = kerf.combine_weight_gradient %x, %s, %dy : tensor<2x16x16xf32>, tensor<2x8x2xi32>, tensor<2x8x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Rows fit the experts' weights.
kerf.model @grouped_matmul_c1(%x: tensor<2x16x16xf32>, %w: tensor<4x32x8xf32>, %n: tensor<2x4xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.grouped_matmul' expected x [G,R,K], weight [E,N,K] and sizes [G,E], found 'tensor<2x16x16xf32>', 'tensor<4x32x8xf32>' and 'tensor<2x4xi32>'}}
  %y = kerf.grouped_matmul %x, %w, %n : tensor<2x16x16xf32>, tensor<4x32x8xf32>, tensor<2x4xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// Experts own all rows between them.
kerf.model @grouped_matmul_c2(%x: tensor<2x16x8xf32>, %w: tensor<4x32x8xf32>, %n: tensor<2x4xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.grouped_matmul' expected 4 experts with capacity 5 to own 16 rows}}
  %y = kerf.grouped_matmul %x, %w, %n capacity 5 : tensor<2x16x8xf32>, tensor<4x32x8xf32>, tensor<2x4xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// The gradient is shaped as the weights.
kerf.model @grouped_weight_gradient_c1(%dy: tensor<2x16x32xf32>, %x: tensor<2x16x8xf32>, %n: tensor<2x4xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.grouped_weight_gradient' op expected dy [G,R,N], x [G,R,K], sizes [G,E] and result [E,N,K], found 'tensor<2x16x32xf32>', 'tensor<2x16x8xf32>', 'tensor<2x4xi32>' and 'tensor<4x8x32xf32>'}}
  %d = kerf.grouped_weight_gradient %dy, %x, %n : tensor<2x16x32xf32>, tensor<2x16x8xf32>, tensor<2x4xi32> -> tensor<4x8x32xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Experts own all rows between them in the gradient too.
kerf.model @grouped_weight_gradient_c2(%dy: tensor<2x16x32xf32>, %x: tensor<2x16x8xf32>, %n: tensor<2x4xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.grouped_weight_gradient' op expected 4 experts with capacity 3 to own 16 rows}}
  %d = kerf.grouped_weight_gradient %dy, %x, %n capacity 3 : tensor<2x16x32xf32>, tensor<2x16x8xf32>, tensor<2x4xi32> -> tensor<4x32x8xf32>
  kerf.return %loss : tensor<f32>
}
