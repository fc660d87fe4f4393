// RUN: kerf-opt %s --split-input-file --kerf-raise | FileCheck %s

// DeepSeek-V3's router as PyTorch writes it: of the two best of four groups by
// logistic functions and biases, that are not trained, the three largest.
// CHECK-LABEL: @groups
// CHECK: %[[B:.*]] = kerf.param "bias" init<zeros> frozen : tensor<8xf32>
// CHECK: %[[W:.*]], %[[E:.*]] = kerf.route %{{.*}} k 3 renormalize sigmoid groups 4 best 2 scale 2.5{{.*}} bias %[[B]] : tensor<8xf32> : tensor<2x4x8xf32>
// CHECK-NOT: kerf.top_k
// CHECK: kerf.cast %[[E]]
kerf.model @groups(tokens %tokens: tensor<2x4xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<9x8xf32>
  %gate = kerf.param "gate" init<normal, 1.0> : tensor<8x8xf32>
  %bias = kerf.param "bias" init<zeros> frozen : tensor<8xf32>
  %x = kerf.embedding %tokens, %e : tensor<2x4xi32>, tensor<9x8xf32>
  %flat = kerf.reshape %x : tensor<2x4x8xf32> -> tensor<8x8xf32>
  %l = kerf.linear %flat, %gate : tensor<8x8xf32>, tensor<8x8xf32>
  %p = kerf.logistic %l : tensor<8x8xf32>
  %wide = kerf.broadcast %bias dims [1] : tensor<8xf32> -> tensor<8x8xf32>
  %c = kerf.add %p, %wide : tensor<8x8xf32>
  %parts = kerf.reshape %c : tensor<8x8xf32> -> tensor<8x4x2xf32>
  %two, %twoAt = kerf.top_k %parts k 2 : tensor<8x4x2xf32>
  %scores = kerf.reduce sum %two dims [2] : tensor<8x4x2xf32>
  %best, %bestAt = kerf.top_k %scores k 2 : tensor<8x4xf32>
  %groupNumber = kerf.iota dim 0 : tensor<4xi32>
  %b0 = kerf.broadcast %bestAt dims [0, 1] : tensor<8x2xi32> -> tensor<8x2x4xi32>
  %b1 = kerf.broadcast %groupNumber dims [2] : tensor<4xi32> -> tensor<8x2x4xi32>
  %isBest = kerf.compare eq %b0, %b1 : tensor<8x2x4xi32>
  %mark = kerf.cast %isBest : tensor<8x2x4xi1> -> tensor<8x2x4xf32>
  %marks = kerf.reduce max %mark dims [1] : tensor<8x2x4xf32>
  %zero = kerf.constant dense<0.0> : tensor<8x4xf32>
  %one = kerf.constant dense<1.0> : tensor<8x4xf32>
  %some = kerf.compare gt %marks, %zero : tensor<8x4xf32>
  %mask = kerf.select %some, %one, %zero : tensor<8x4xf32>
  %spread = kerf.broadcast %mask dims [0, 1] : tensor<8x4xf32> -> tensor<8x4x2xf32>
  %each = kerf.reshape %spread : tensor<8x4x2xf32> -> tensor<8x8xf32>
  %zeros = kerf.constant dense<0.0> : tensor<8x8xf32>
  %shown = kerf.compare ne %each, %zeros : tensor<8x8xf32>
  %true = kerf.constant dense<true> : tensor<8x8xi1>
  %false = kerf.constant dense<false> : tensor<8x8xi1>
  %hidden = kerf.select %shown, %false, %true : tensor<8x8xi1>
  %never = kerf.constant dense<0xFF800000> : tensor<8x8xf32>
  %left = kerf.select %hidden, %never, %c : tensor<8x8xf32>
  %v, %i = kerf.top_k %left k 3 : tensor<8x8xf32>
  %expertNumber = kerf.iota dim 0 : tensor<8xi32>
  %i0 = kerf.broadcast %i dims [0, 1] : tensor<8x3xi32> -> tensor<8x3x8xi32>
  %i1 = kerf.broadcast %expertNumber dims [2] : tensor<8xi32> -> tensor<8x3x8xi32>
  %isChosen = kerf.compare eq %i0, %i1 : tensor<8x3x8xi32>
  %each3 = kerf.broadcast %p dims [0, 2] : tensor<8x8xf32> -> tensor<8x3x8xf32>
  %none = kerf.constant dense<0.0> : tensor<8x3x8xf32>
  %taken = kerf.select %isChosen, %each3, %none : tensor<8x3x8xf32>
  %w = kerf.reduce sum %taken dims [2] : tensor<8x3x8xf32>
  %sum = kerf.reduce sum %w dims [1] : tensor<8x3xf32>
  %small = kerf.constant dense<1.0e-20> : tensor<8xf32>
  %above = kerf.add %sum, %small : tensor<8xf32>
  %sums = kerf.broadcast %above dims [0] : tensor<8xf32> -> tensor<8x3xf32>
  %share = kerf.div %w, %sums : tensor<8x3xf32>
  %factor = kerf.constant dense<2.5> : tensor<8x3xf32>
  %weights = kerf.mul %share, %factor : tensor<8x3xf32>
  %number = kerf.cast %i : tensor<8x3xi32> -> tensor<8x3xf32>
  %both = kerf.mul %weights, %number : tensor<8x3xf32>
  %loss = kerf.reduce sum %both dims [0, 1] : tensor<8x3xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// DeepSeek-V2's: groups by their largest, whose other experts get nothing; what
// is left is weights at once.
// CHECK-LABEL: @by_largest
// CHECK: kerf.route %{{.*}} k 2 groups 3 best 1 by_largest : tensor<2x4x6xf32>
// CHECK-NOT: kerf.top_k
kerf.model @by_largest() {
  %l = kerf.param "l" init<normal, 1.0> : tensor<2x4x6xf32>
  %p = kerf.softmax %l : tensor<2x4x6xf32>
  %parts = kerf.reshape %p : tensor<2x4x6xf32> -> tensor<8x3x2xf32>
  %scores = kerf.reduce max %parts dims [2] : tensor<8x3x2xf32>
  %best, %bestAt = kerf.top_k %scores k 1 : tensor<8x3xf32>
  %groupNumber = kerf.iota dim 2 : tensor<8x1x3xi32>
  %b0 = kerf.broadcast %bestAt dims [0, 1] : tensor<8x1xi32> -> tensor<8x1x3xi32>
  %isBest = kerf.compare eq %b0, %groupNumber : tensor<8x1x3xi32>
  %mark = kerf.cast %isBest : tensor<8x1x3xi1> -> tensor<8x1x3xf32>
  %marks = kerf.reduce max %mark dims [1] : tensor<8x1x3xf32>
  %zero = kerf.constant dense<0.0> : tensor<8x3xf32>
  %some = kerf.compare gt %marks, %zero : tensor<8x3xf32>
  %spread = kerf.broadcast %some dims [0, 1] : tensor<8x3xi1> -> tensor<8x3x2xi1>
  %each = kerf.reshape %spread : tensor<8x3x2xi1> -> tensor<8x6xi1>
  %flat = kerf.reshape %p : tensor<2x4x6xf32> -> tensor<8x6xf32>
  %zeros = kerf.constant dense<0.0> : tensor<8x6xf32>
  %left = kerf.select %each, %flat, %zeros : tensor<8x6xf32>
  %v, %i = kerf.top_k %left k 2 : tensor<8x6xf32>
  %number = kerf.cast %i : tensor<8x2xi32> -> tensor<8x2xf32>
  %both = kerf.mul %v, %number : tensor<8x2xf32>
  %loss = kerf.reduce sum %both dims [0, 1] : tensor<8x2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A softmax of the largest logits (GPT-OSS, Granite): weights that add up to 1.
// CHECK-LABEL: @later
// CHECK: %[[W:.*]], %[[E:.*]] = kerf.route %{{.*}} k 2 renormalize : tensor<2x4x6xf32>
// CHECK: %[[V:.*]], %[[F:.*]] = kerf.route %{{.*}} k 2 sigmoid : tensor<2x4x6xf32>
// CHECK-NOT: kerf.softmax
// CHECK-NOT: kerf.logistic
kerf.model @later() {
  %l = kerf.param "l" init<normal, 1.0> : tensor<2x4x6xf32>
  %flat = kerf.reshape %l : tensor<2x4x6xf32> -> tensor<8x6xf32>
  %v, %i = kerf.top_k %flat k 2 : tensor<8x6xf32>
  %w = kerf.softmax %v : tensor<8x2xf32>
  %number = kerf.cast %i : tensor<8x2xi32> -> tensor<8x2xf32>
  %both = kerf.mul %w, %number : tensor<8x2xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x4x6xf32>
  %u, %j = kerf.top_k %k k 2 : tensor<2x4x6xf32>
  %s = kerf.logistic %u : tensor<2x4x2xf32>
  %n = kerf.cast %j : tensor<2x4x2xi32> -> tensor<2x4x2xf32>
  %other = kerf.mul %s, %n : tensor<2x4x2xf32>
  %a = kerf.reduce sum %both dims [0, 1] : tensor<8x2xf32>
  %b = kerf.reduce sum %other dims [0, 1, 2] : tensor<2x4x2xf32>
  %loss = kerf.add %a, %b : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// A bias that is trained has no gradient here: a route would give it a load.
// CHECK-LABEL: @trained
// CHECK-NOT: kerf.route
kerf.model @trained() {
  %l = kerf.param "l" init<normal, 1.0> : tensor<2x4x6xf32>
  %bias = kerf.param "bias" init<zeros> : tensor<6xf32>
  %p = kerf.logistic %l : tensor<2x4x6xf32>
  %wide = kerf.broadcast %bias dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %c = kerf.add %p, %wide : tensor<2x4x6xf32>
  %v, %i = kerf.top_k %c k 2 : tensor<2x4x6xf32>
  %number = kerf.cast %i : tensor<2x4x2xi32> -> tensor<2x4x2xf32>
  %loss = kerf.reduce sum %number dims [0, 1, 2] : tensor<2x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Values with a bias are no weights.
// CHECK-LABEL: @biased
// CHECK-NOT: kerf.route
kerf.model @biased() {
  %l = kerf.param "l" init<normal, 1.0> : tensor<2x4x6xf32>
  %bias = kerf.param "bias" init<zeros> frozen : tensor<6xf32>
  %p = kerf.logistic %l : tensor<2x4x6xf32>
  %wide = kerf.broadcast %bias dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %c = kerf.add %p, %wide : tensor<2x4x6xf32>
  %v, %i = kerf.top_k %c k 2 : tensor<2x4x6xf32>
  %loss = kerf.reduce sum %v dims [0, 1, 2] : tensor<2x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Groups of neighbours alone: here a group is every third expert.
// CHECK-LABEL: @strided
// CHECK: kerf.top_k %{{.*}} k 2 : tensor<8x6xf32>
kerf.model @strided() {
  %l = kerf.param "l" init<normal, 1.0> : tensor<2x4x6xf32>
  %p = kerf.softmax %l : tensor<2x4x6xf32>
  %parts = kerf.reshape %p : tensor<2x4x6xf32> -> tensor<8x2x3xf32>
  %scores = kerf.reduce max %parts dims [1] : tensor<8x2x3xf32>
  %best, %bestAt = kerf.top_k %scores k 1 : tensor<8x3xf32>
  %groupNumber = kerf.iota dim 2 : tensor<8x1x3xi32>
  %b0 = kerf.broadcast %bestAt dims [0, 1] : tensor<8x1xi32> -> tensor<8x1x3xi32>
  %isBest = kerf.compare eq %b0, %groupNumber : tensor<8x1x3xi32>
  %mark = kerf.cast %isBest : tensor<8x1x3xi1> -> tensor<8x1x3xf32>
  %marks = kerf.reduce max %mark dims [1] : tensor<8x1x3xf32>
  %zero = kerf.constant dense<0.0> : tensor<8x3xf32>
  %some = kerf.compare gt %marks, %zero : tensor<8x3xf32>
  %spread = kerf.broadcast %some dims [0, 2] : tensor<8x3xi1> -> tensor<8x2x3xi1>
  %each = kerf.reshape %spread : tensor<8x2x3xi1> -> tensor<8x6xi1>
  %flat = kerf.reshape %p : tensor<2x4x6xf32> -> tensor<8x6xf32>
  %zeros = kerf.constant dense<0.0> : tensor<8x6xf32>
  %left = kerf.select %each, %flat, %zeros : tensor<8x6xf32>
  %v, %i = kerf.top_k %left k 2 : tensor<8x6xf32>
  %loss = kerf.reduce sum %v dims [0, 1] : tensor<8x2xf32>
  kerf.return %loss : tensor<f32>
}
