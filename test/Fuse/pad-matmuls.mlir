// RUN: kerf-opt %s --kerf-pad-matmuls --split-input-file | FileCheck %s
// RUN: kerf-opt %s --kerf-pad-matmuls --kerf-interpret --split-input-file -o /dev/null

// Logits over 37 words get 40 columns: the weight has rows of zeros at the end, the loss
// sees -inf, its gradient is zero there, and the weight's gradient is the first rows of a
// longer one. The same behind transposes, which cannot be wider, has the same values.
// CHECK-LABEL: kerf.model @loss
kerf.model @loss(%t: tensor<2x4xi32>) {
  %x = kerf.param "x" init<normal, 1.0> : tensor<2x4x6xf32>
  // CHECK: %[[W:.*]] = kerf.param "w"
  %w = kerf.param "w" init<normal, 1.0> : tensor<37x6xf32>
  %n = kerf.count_valid %t : tensor<2x4xi32>
  %one = kerf.constant dense<1.0> : tensor<f32>
  // CHECK: %[[P:.*]] = kerf.pad %[[W]] low [0, 0] high [3, 0] {kerf.phase = #kerf.phase<forward 1>} : tensor<37x6xf32>
  // CHECK: %[[L:.*]] = kerf.linear %{{.*}}, %[[P]] {kerf.phase = #kerf.phase<forward 1>, spmd.padded = array<i64: 37, 40>} : tensor<2x4x6xf32>, tensor<40x6xf32>
  %l = kerf.linear %x, %w {kerf.phase = #kerf.phase<forward 1>} : tensor<2x4x6xf32>, tensor<37x6xf32>
  // CHECK: %[[I:.*]] = kerf.iota dim 2 : tensor<2x4x40xi32>
  // CHECK: %[[C:.*]] = kerf.constant dense<37> : tensor<2x4x40xi32>
  // CHECK: %[[IN:.*]] = kerf.compare lt %[[I]], %[[C]]
  // CHECK: %[[LOW:.*]] = kerf.constant dense<0xFF800000> : tensor<2x4x40xf32>
  // CHECK: %[[M:.*]] = kerf.select %[[IN]], %[[L]], %[[LOW]]
  // CHECK: kerf.cross_entropy %[[M]],
  %loss = kerf.cross_entropy %l, %t normalizer %n : tensor<2x4x37xf32>, tensor<2x4xi32>
  // CHECK: %[[M2:.*]] = kerf.select %{{.*}}, %[[L]], %
  // CHECK: %[[D:.*]] = kerf.cross_entropy_backward %[[M2]],
  %d = kerf.cross_entropy_backward %l, %t, %one normalizer %n : tensor<2x4x37xf32>, tensor<2x4xi32>
  // CHECK: kerf.einsum "bsn,nk->bsk" %[[D]], %[[P]] {{.*}} -> tensor<2x4x6xf32>
  %dx = kerf.einsum "bsn,nk->bsk" %d, %w : tensor<2x4x37xf32>, tensor<37x6xf32> -> tensor<2x4x6xf32>
  // CHECK: %[[DW:.*]] = kerf.einsum "bsn,bsk->nk" %[[D]], %{{.*}} -> tensor<40x6xf32>
  // CHECK: kerf.slice %[[DW]] offsets [0, 0] sizes [37, 6] : tensor<40x6xf32>
  %dw = kerf.einsum "bsn,bsk->nk" %d, %x : tensor<2x4x37xf32>, tensor<2x4x6xf32> -> tensor<37x6xf32>

  // CHECK: kerf.linear {{.*}} : tensor<2x4x6xf32>, tensor<37x6xf32>
  %narrow = kerf.linear %x, %w : tensor<2x4x6xf32>, tensor<37x6xf32>
  %turned = kerf.transpose %narrow perm [2, 0, 1] : tensor<2x4x37xf32>
  %l2 = kerf.transpose %turned perm [1, 2, 0] : tensor<37x2x4xf32>
  %loss2 = kerf.cross_entropy %l2, %t normalizer %n : tensor<2x4x37xf32>, tensor<2x4xi32>
  %d2 = kerf.cross_entropy_backward %l2, %t, %one normalizer %n : tensor<2x4x37xf32>, tensor<2x4xi32>
  %dx2 = kerf.einsum "bsn,nk->bsk" %d2, %w : tensor<2x4x37xf32>, tensor<37x6xf32> -> tensor<2x4x6xf32>
  %dw2 = kerf.einsum "bsn,bsk->nk" %d2, %x : tensor<2x4x37xf32>, tensor<2x4x6xf32> -> tensor<37x6xf32>
  kerf.check_close %loss, %loss2 within 1.0e-6 : tensor<f32>
  kerf.check_close %dx, %dx2 within 1.0e-6 : tensor<2x4x6xf32>
  kerf.check_close %dw, %dw2 within 1.0e-6 : tensor<37x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The same in plain ops, of a shard of the vocabulary: a target of the next shard hits a
// new column, whose entry no sum and no matmul may see. All logits are far below the new
// columns' 0, whose exponentials are infinite: times the weight's zeros they would be no
// number.
// CHECK-LABEL: kerf.model @shard
kerf.model @shard() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<8x6xf32>
  %w = kerf.param "w" init<normal, 1.0> : tensor<37x6xf32>
  %b = kerf.param "b" init<constant, -200.0> : tensor<37xf32>
  %t = kerf.constant dense<[0, 36, 37, 38, 39, 40, 5, 6]> : tensor<8xi32>
  %zero = kerf.constant dense<0.0> : tensor<8x37xf32>
  %offset = kerf.constant dense<0> : tensor<i32>
  // CHECK: kerf.pad %{{.*}} low [0] high [3] : tensor<37xf32>
  // CHECK: %[[L:.*]] = kerf.linear {{.*}} : tensor<8x6xf32>, tensor<40x6xf32>, tensor<40xf32>
  %l = kerf.linear %x, %w bias %b : tensor<8x6xf32>, tensor<37x6xf32>, tensor<37xf32>
  // CHECK: %[[LOW:.*]] = kerf.constant dense<0xFF800000>
  // CHECK: %[[M:.*]] = kerf.select %{{.*}}, %[[L]], %[[LOW]]
  // CHECK: kerf.reduce max %[[M]]
  %max = kerf.reduce max %l dims [1] : tensor<8x37xf32>
  %maxes = kerf.broadcast %max dims [0] : tensor<8xf32> -> tensor<8x37xf32>
  // CHECK: kerf.sub %[[L]],
  %below = kerf.sub %l, %maxes : tensor<8x37xf32>
  // CHECK: %[[E:.*]] = kerf.exp
  %e = kerf.exp %below : tensor<8x37xf32>
  // CHECK: %[[S:.*]] = kerf.select %{{.*}}, %[[E]], %
  // CHECK: kerf.reduce sum %[[S]]
  %sum = kerf.reduce sum %e dims [1] : tensor<8x37xf32>
  %i = kerf.iota dim 1 offset %offset : tensor<8x37xi32>
  %ts = kerf.broadcast %t dims [0] : tensor<8xi32> -> tensor<8x37xi32>
  %hit = kerf.compare eq %i, %ts : tensor<8x37xi32>
  // CHECK: %[[H:.*]] = kerf.select %{{.*}}, %[[L]], %
  // CHECK: %[[HM:.*]] = kerf.select %{{.*}}, %[[H]], %
  // CHECK: kerf.reduce sum %[[HM]]
  %taken = kerf.select %hit, %l, %zero : tensor<8x37xf32>
  %target = kerf.reduce sum %taken dims [1] : tensor<8x37xf32>
  %one = kerf.cast %hit : tensor<8x37xi1> -> tensor<8x37xf32>
  // CHECK: %[[D:.*]] = kerf.sub
  // CHECK: %[[Z:.*]] = kerf.select %{{.*}}, %[[D]], %
  // CHECK: kerf.einsum "sn,nk->sk" %[[Z]],
  // CHECK: kerf.einsum "sn,sk->nk" %[[Z]],
  %d = kerf.sub %e, %one : tensor<8x37xf32>
  %dx = kerf.einsum "sn,nk->sk" %d, %w : tensor<8x37xf32>, tensor<37x6xf32> -> tensor<8x6xf32>
  %dw = kerf.einsum "sn,sk->nk" %d, %x : tensor<8x37xf32>, tensor<8x6xf32> -> tensor<37x6xf32>
  // CHECK: %[[B:.*]] = kerf.reduce sum %[[D]] dims [0] : tensor<8x40xf32>
  // CHECK: kerf.slice %[[B]] offsets [0] sizes [37] : tensor<40xf32>
  %db = kerf.reduce sum %d dims [0] : tensor<8x37xf32>

  %narrow = kerf.linear %x, %w bias %b : tensor<8x6xf32>, tensor<37x6xf32>, tensor<37xf32>
  %turned = kerf.transpose %narrow perm [1, 0] : tensor<8x37xf32>
  %l2 = kerf.transpose %turned perm [1, 0] : tensor<37x8xf32>
  %max2 = kerf.reduce max %l2 dims [1] : tensor<8x37xf32>
  %maxes2 = kerf.broadcast %max2 dims [0] : tensor<8xf32> -> tensor<8x37xf32>
  %below2 = kerf.sub %l2, %maxes2 : tensor<8x37xf32>
  %e2 = kerf.exp %below2 : tensor<8x37xf32>
  %sum2 = kerf.reduce sum %e2 dims [1] : tensor<8x37xf32>
  %i2 = kerf.iota dim 1 offset %offset : tensor<8x37xi32>
  %hit2 = kerf.compare eq %i2, %ts : tensor<8x37xi32>
  %taken2 = kerf.select %hit2, %l2, %zero : tensor<8x37xf32>
  %target2 = kerf.reduce sum %taken2 dims [1] : tensor<8x37xf32>
  %one2 = kerf.cast %hit2 : tensor<8x37xi1> -> tensor<8x37xf32>
  %d2 = kerf.sub %e2, %one2 : tensor<8x37xf32>
  %dx2 = kerf.einsum "sn,nk->sk" %d2, %w : tensor<8x37xf32>, tensor<37x6xf32> -> tensor<8x6xf32>
  %dw2 = kerf.einsum "sn,sk->nk" %d2, %x : tensor<8x37xf32>, tensor<8x6xf32> -> tensor<37x6xf32>
  %db2 = kerf.reduce sum %d2 dims [0] : tensor<8x37xf32>
  kerf.check_close %max, %max2 within 1.0e-6 : tensor<8xf32>
  kerf.check_close %sum, %sum2 within 1.0e-6 : tensor<8xf32>
  kerf.check_close %target, %target2 within 1.0e-6 : tensor<8xf32>
  kerf.check_close %dx, %dx2 within 1.0e-6 : tensor<8x6xf32>
  kerf.check_close %dw, %dw2 within 1.0e-6 : tensor<37x6xf32>
  kerf.check_close %db, %db2 within 1.0e-6 : tensor<37xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// Rows of 16 bytes, rows of less than a line and results of one row stay; so does a
// matmul whose reader needs the rows as they are.
// CHECK-LABEL: kerf.model @stays
// CHECK-NOT: kerf.pad
kerf.model @stays() {
  %x = kerf.param "x" init<ones> : tensor<8x6xf32>
  %row = kerf.param "row" init<ones> : tensor<1x6xf32>
  %w = kerf.param "w" init<ones> : tensor<37x6xf32>
  %even = kerf.param "even" init<ones> : tensor<36x6xf32>
  %short = kerf.param "short" init<ones> : tensor<31x6xf32>
  %a = kerf.linear %x, %even : tensor<8x6xf32>, tensor<36x6xf32>
  %b = kerf.linear %x, %short : tensor<8x6xf32>, tensor<31x6xf32>
  %c = kerf.linear %row, %w : tensor<1x6xf32>, tensor<37x6xf32>
  %d = kerf.linear %x, %w : tensor<8x6xf32>, tensor<37x6xf32>
  %e = kerf.softmax %d : tensor<8x37xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// A weight that is no parameter is copied to be longer: not where that costs more than a
// quarter of the result.
// CHECK-LABEL: kerf.model @made
kerf.model @made() {
  %x = kerf.param "x" init<ones> : tensor<64x4xf32>
  %few = kerf.param "few" init<ones> : tensor<8x4xf32>
  %m = kerf.param "m" init<ones> : tensor<37x4xf32>
  %w = kerf.transpose %m perm [0, 1] : tensor<37x4xf32>
  // CHECK: kerf.linear {{.*}} : tensor<64x4xf32>, tensor<40x4xf32>
  // CHECK: kerf.linear {{.*}} : tensor<8x4xf32>, tensor<37x4xf32>
  %a = kerf.linear %x, %w : tensor<64x4xf32>, tensor<37x4xf32>
  %b = kerf.linear %few, %w : tensor<8x4xf32>, tensor<37x4xf32>
  %s = kerf.reduce sum %a dims [0, 1] : tensor<64x37xf32>
  %t = kerf.reduce sum %b dims [0, 1] : tensor<8x37xf32>
  %loss = kerf.add %s, %t : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// A matmul that is widened in two dimensions: as many of its elements as in both mean
// something.
// CHECK-LABEL: kerf.model @twice
kerf.model @twice() {
  %x = kerf.param "x" init<ones> : tensor<64x6xf32>
  %w = kerf.param "w" init<ones> : tensor<37x6xf32>
  %v = kerf.param "v" init<ones> : tensor<45x6xf32>
  %b = kerf.linear %x, %v : tensor<64x6xf32>, tensor<45x6xf32>
  %a = kerf.linear %x, %w : tensor<64x6xf32>, tensor<37x6xf32>
  // CHECK: kerf.einsum "sa,sb->ab" {{.*}} {spmd.padded = array<i64: 1665, 1920>} : tensor<64x40xf32>, tensor<64x48xf32> -> tensor<40x48xf32>
  %c = kerf.einsum "sa,sb->ab" %a, %b : tensor<64x37xf32>, tensor<64x45xf32> -> tensor<37x45xf32>
  %loss = kerf.reduce sum %c dims [0, 1] : tensor<37x45xf32>
  kerf.return %loss : tensor<f32>
}
