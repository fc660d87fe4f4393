// Ops that move and combine elements against central differences.
//
// RUN: kerf-inspect gradcheck %s --samples=64

// A new first and a new middle dimension; the gradient is summed along them.
kerf.model @broadcast() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<3xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<2x4xf32>
  %r = kerf.broadcast %a dims [1] : tensor<3xf32> -> tensor<2x3x4xf32>
  %m = kerf.broadcast %b dims [0, 2] : tensor<2x4xf32> -> tensor<2x3x4xf32>
  %y = kerf.mul %r, %m : tensor<2x3x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x4xf32>
  kerf.return %loss : tensor<f32>
}

// Row-major order is kept on the way back.
kerf.model @reshape() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x6xf32>
  %y = kerf.reshape %a : tensor<2x6xf32> -> tensor<3x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x4xf32>
  %bent = kerf.tanh %mixed : tensor<3x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<3x4xf32>
  kerf.return %loss : tensor<f32>
}

// A permutation that is not its own inverse.
kerf.model @transpose() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3x4xf32>
  %y = kerf.transpose %a perm [2, 0, 1] : tensor<2x3x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<4x2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<4x2x3xf32>
  %bent = kerf.tanh %mixed : tensor<4x2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<4x2x3xf32>
  kerf.return %loss : tensor<f32>
}

// What the box leaves out has gradient 0.
kerf.model @slice() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<4x5xf32>
  %y = kerf.slice %a offsets [1, 2] sizes [2, 3] : tensor<4x5xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Overlapping boxes add up.
kerf.model @slices() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<4x5xf32>
  %0 = kerf.slice %a offsets [0, 0] sizes [3, 5] : tensor<4x5xf32>
  %1 = kerf.slice %a offsets [1, 0] sizes [3, 5] : tensor<4x5xf32>
  %y = kerf.mul %0, %1 : tensor<3x5xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x5xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x5xf32>
  %bent = kerf.tanh %mixed : tensor<3x5xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<3x5xf32>
  kerf.return %loss : tensor<f32>
}

// Zeros around hand nothing back.
kerf.model @pad() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3xf32>
  %y = kerf.pad %a low [1, 0] high [0, 2] : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x5xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x5xf32>
  %bent = kerf.tanh %mixed : tensor<3x5xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<3x5xf32>
  kerf.return %loss : tensor<f32>
}

// Three operands, one twice, one frozen.
kerf.model @concat() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<2x1xf32>
  %c = kerf.param "c" init<normal, 0.5> frozen : tensor<2x2xf32>
  %y = kerf.concat dim 1 %a, %b, %c, %a
      : tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x2xf32>, tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x9xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x9xf32>
  %bent = kerf.tanh %mixed : tensor<2x9xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x9xf32>
  kerf.return %loss : tensor<f32>
}

// A linear map.
kerf.model @einsum_linear() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3x4xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<5x4xf32>
  %y = kerf.einsum "bsk,nk->bsn" %a, %b : tensor<2x3x4xf32>, tensor<5x4xf32> -> tensor<2x3x5xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x5xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x5xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x5xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x5xf32>
  kerf.return %loss : tensor<f32>
}

// A batch of matmuls with a transposed result.
kerf.model @einsum_batched() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3x4xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<2x4x2xf32>
  %y = kerf.einsum "bmk,bkn->nbm" %a, %b : tensor<2x3x4xf32>, tensor<2x4x2xf32> -> tensor<2x2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x2x3xf32>
  kerf.return %loss : tensor<f32>
}

// No letter is summed.
kerf.model @einsum_outer() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<3xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<4xf32>
  %y = kerf.einsum "i,j->ji" %a, %b : tensor<3xf32>, tensor<4xf32> -> tensor<4x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<4x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<4x3xf32>
  %bent = kerf.tanh %mixed : tensor<4x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<4x3xf32>
  kerf.return %loss : tensor<f32>
}

// Letters in both operands and the result.
kerf.model @einsum_pointwise() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<3x4xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<3x4xf32>
  %y = kerf.einsum "ij,ij->i" %a, %b : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3xf32>
  %mixed = kerf.mul %y, %mix : tensor<3xf32>
  %bent = kerf.tanh %mixed : tensor<3xf32>
  %loss = kerf.reduce sum %bent dims [0] : tensor<3xf32>
  kerf.return %loss : tensor<f32>
}

// All letters are summed.
kerf.model @einsum_scalar() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<3x4xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<4x3xf32>
  %y = kerf.einsum "ij,ji->" %a, %b : tensor<3x4xf32>, tensor<4x3xf32> -> tensor<f32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<f32>
  %mixed = kerf.mul %y, %mix : tensor<f32>
  %bent = kerf.tanh %mixed : tensor<f32>
  %loss = kerf.reduce sum %bent dims [] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// One value as both operands.
kerf.model @einsum_square() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<3x4xf32>
  %y = kerf.einsum "mk,nk->mn" %a, %a : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x3xf32>
  %bent = kerf.tanh %mixed : tensor<3x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<3x3xf32>
  kerf.return %loss : tensor<f32>
}

// Along the middle, and along no dimension.
kerf.model @reduce_sum() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3x4xf32>
  %0 = kerf.reduce sum %a dims [1] : tensor<2x3x4xf32>
  %y = kerf.reduce sum %0 dims [] : tensor<2x4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x4xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x4xf32>
  %bent = kerf.tanh %mixed : tensor<2x4xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// The gradient goes to the maximum.
kerf.model @reduce_max() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3x4xf32>
  %0 = kerf.reduce max %a dims [0, 2] : tensor<2x3x4xf32>
  %1 = kerf.reduce max %a dims [1] : tensor<2x3x4xf32>
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<3xf32>
  %mixed0 = kerf.mul %0, %mix0 : tensor<3xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<3xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<3xf32>
  %mix1 = kerf.param "mix1" init<normal, 0.5> frozen : tensor<2x4xf32>
  %mixed1 = kerf.mul %1, %mix1 : tensor<2x4xf32>
  %bent1 = kerf.tanh %mixed1 : tensor<2x4xf32>
  %loss1 = kerf.reduce sum %bent1 dims [0, 1] : tensor<2x4xf32>
  %loss = kerf.add %loss0, %loss1 : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The gradient goes to the elements that are found.
kerf.model @top_k() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<3x5xf32>
  %y, %i = kerf.top_k %a k 2 : tensor<3x5xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x2xf32>
  %bent = kerf.tanh %mixed : tensor<3x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<3x2xf32>
  kerf.return %loss : tensor<f32>
}

// Rows that are looked up twice add up; indices outside the table give nothing.
kerf.model @gather() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<4x3xf32>
  %i = kerf.constant dense<[[2, 0, 2], [4, -1, 3]]> : tensor<2x3xi32>
  %y = kerf.gather %a, %i : tensor<4x3xf32>, tensor<2x3xi32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<2x3x3xf32>
  kerf.return %loss : tensor<f32>
}

// Rows of one index share a gradient; indices outside the table have none.
kerf.model @scatter_add() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3x2xf32>
  %i = kerf.constant dense<[[2, 0, 2], [4, -1, 3]]> : tensor<2x3xi32>
  %y = kerf.scatter_add %a, %i : tensor<2x3x2xf32>, tensor<2x3xi32> -> tensor<4x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<4x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<4x2xf32>
  %bent = kerf.tanh %mixed : tensor<4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<4x2xf32>
  kerf.return %loss : tensor<f32>
}

// An element goes into all sums behind it, with a dimension after that of the sum.
kerf.model @cumsum() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<3x4x2xf32>
  %y = kerf.cumsum %a dim 1 : tensor<3x4x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<3x4x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<3x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<3x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2] : tensor<3x4x2xf32>
  kerf.return %loss : tensor<f32>
}
