// RUN: kerf-opt %s --split-input-file --verify-diagnostics

// A constant has the type of its value.
kerf.model @constant_c1(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.constant' op failed to verify that all of {value, result} have same type}}
  %x = "kerf.constant"() <{value = dense<0.5> : tensor<4xf32>}> : () -> tensor<2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Only the dimension that is counted may be in another order.
kerf.model @iota_c1_order(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.iota' op expected a zigzag along [1] of at least 8 rows, found #kerf.zigzag<2 x 2 along [0]>}}
  %x = kerf.iota dim 1 zigzag <2 x 2 along [0]> : tensor<8x8xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// The index runs along a dimension of the result.
kerf.model @iota_c1(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.iota' op expected dim in [0, 2), found 2}}
  %x = kerf.iota dim 2 : tensor<2x8xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// Dimensions are not counted from the end.
kerf.model @iota_negative(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.iota' op expected dim in [0, 2), found -1}}
  %x = kerf.iota dim -1 : tensor<2x8xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// A scalar has no dimension to run along.
kerf.model @iota_scalar(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.iota' op expected dim in [0, 0), found 0}}
  %x = kerf.iota dim 0 : tensor<i32>
  kerf.return %loss : tensor<f32>
}

// -----

// The global shape is not smaller than the local one.
kerf.model @random_uniform_c1(%s: tensor<i32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.random_uniform' op expected a global shape not below [2, 8], found [4, 7]}}
  %x = kerf.random_uniform "drop" seed %s step %s global [4, 7] : tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The global shape has the rank of the local one.
kerf.model @random_uniform_rank(%s: tensor<i32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.random_uniform' op expected a global shape not below [2, 8], found [16]}}
  %x = kerf.random_uniform "drop" seed %s step %s global [16] : tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// There is no third dimension.
kerf.model @random_uniform_c3(%s: tensor<i32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.random_uniform' op expected a zigzag along dimensions of all its 8 rows, found #kerf.zigzag<2 x 2 along [2]> of [2, 8]}}
  %x = kerf.random_uniform "drop" seed %s step %s zigzag <2 x 2 along [2]> : tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// There is one offset per dimension.
kerf.model @random_uniform_c2(%s: tensor<i32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.random_uniform' op expected no offsets or 2, found 1}}
  %x = kerf.random_uniform "drop" seed %s step %s offsets(%s) : tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Each operand dimension needs a dimension of the result.
kerf.model @broadcast_c1(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.broadcast' op expected one ascending dimension of the result per operand dimension, found [1]}}
  %y = kerf.broadcast %x dims [1] : tensor<4x6xf32> -> tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A broadcast does not transpose.
kerf.model @broadcast_descending(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.broadcast' op expected one ascending dimension of the result per operand dimension, found [1, 0]}}
  %y = kerf.broadcast %x dims [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A broadcast does not repeat a dimension of size 1.
kerf.model @broadcast_c2(%x: tensor<1xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.broadcast' op expected size 1 in result dimension 1, found 4}}
  %y = kerf.broadcast %x dims [1] : tensor<1xf32> -> tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A broadcast does not cast.
kerf.model @broadcast_cast(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.broadcast' op expected element type 'f32', found 'bf16'}}
  %y = kerf.broadcast %x dims [1] : tensor<4xf32> -> tensor<2x4xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// A reshape keeps the number of elements.
kerf.model @reshape_c1(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.reshape' op expected equally many elements of one type, found 'tensor<4x6xf32>' and 'tensor<5x5xf32>'}}
  %y = kerf.reshape %x : tensor<4x6xf32> -> tensor<5x5xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A reshape does not cast.
kerf.model @reshape_cast(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.reshape' op expected equally many elements of one type, found 'tensor<4x6xf32>' and 'tensor<24xi32>'}}
  %y = kerf.reshape %x : tensor<4x6xf32> -> tensor<24xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// A permutation names each dimension once.
kerf.model @transpose_c1(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.transpose' expected a permutation of the dimensions of 'tensor<4x6xf32>', found perm [1, 1]}}
  %y = kerf.transpose %x perm [1, 1] : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A permutation names no dimension that is not there.
kerf.model @transpose_outside(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.transpose' expected a permutation of the dimensions of 'tensor<4x6xf32>', found perm [0, 1, 2]}}
  %y = kerf.transpose %x perm [0, 1, 2] : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The box ends inside the operand.
kerf.model @slice_c1(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.slice' expected a box inside 'tensor<4x6xf32>', found offsets [0, 4] and sizes [4, 3]}}
  %y = kerf.slice %x offsets [0, 4] sizes [4, 3] : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// There is one size per dimension.
kerf.model @slice_rank(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.slice' expected a box inside 'tensor<4x6xf32>', found offsets [0, 0] and sizes [4]}}
  %y = kerf.slice %x offsets [0, 0] sizes [4] : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Far offsets do not wrap around.
kerf.model @slice_overflow(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.slice' expected a box inside 'tensor<4x6xf32>', found offsets [0, 9223372036854775807] and sizes [4, 2]}}
  %y = kerf.slice %x offsets [0, 9223372036854775807] sizes [4, 2] : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A pad does not cut.
kerf.model @pad_c1(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.pad' expected one low and high >= 0 per dimension of 'tensor<4x6xf32>', found low [0, -1] and high [0, 0]}}
  %y = kerf.pad %x low [0, -1] high [0, 0] : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// There is one low and one high per dimension.
kerf.model @pad_rank(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.pad' expected one low and high >= 0 per dimension of 'tensor<4x6xf32>', found low [0] and high [0, 0]}}
  %y = kerf.pad %x low [0] high [0, 0] : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A concatenation joins something.
kerf.model @concat_c1(%loss: tensor<f32>) {
  // expected-error @+2 {{'kerf.concat' expected an operand}}
  // expected-error @+1 {{'kerf.concat' op failed to infer returned types}}
  %y = "kerf.concat"() <{dim = 0 : i64}> : () -> tensor<0xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A concatenation is along a dimension.
kerf.model @concat_dim(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.concat' expected a dimension of 'tensor<4x6xf32>', found dim [2]}}
  %y = kerf.concat dim 2 %x, %x : tensor<4x6xf32>, tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Operands of a concatenation agree in the other dimensions.
kerf.model @concat_c2(%x: tensor<4x6xf32>, %z: tensor<5x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.concat' expected operands that agree but in dimension 1, found 'tensor<4x6xf32>' and 'tensor<5x6xf32>'}}
  %y = kerf.concat dim 1 %x, %z : tensor<4x6xf32>, tensor<5x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A concatenation does not cast.
kerf.model @concat_cast(%x: tensor<4x6xf32>, %z: tensor<4x6xbf16>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.concat' expected operands that agree but in dimension 1, found 'tensor<4x6xf32>' and 'tensor<4x6xbf16>'}}
  %y = kerf.concat dim 1 %x, %z : tensor<4x6xf32>, tensor<4x6xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// An equation has one letter per dimension.
kerf.model @einsum_c1(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.einsum' op equation "bk,n->bn" expected "lhs,rhs->out" with one letter per dimension, none twice in a term}}
  %y = kerf.einsum "bk,n->bn" %x, %x : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// An equation takes no diagonal.
kerf.model @einsum_diagonal(%x: tensor<4x4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.einsum' op equation "bb,bk->bk" expected "lhs,rhs->out" with one letter per dimension, none twice in a term}}
  %y = kerf.einsum "bb,bk->bk" %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// An equation has an arrow.
kerf.model @einsum_arrow(%x: tensor<4x4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.einsum' op equation "bk,kn" expected "lhs,rhs->out" with one letter per dimension, none twice in a term}}
  %y = kerf.einsum "bk,kn" %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// An equation has lower-case letters.
kerf.model @einsum_letters(%x: tensor<4x4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.einsum' op equation "bK,Kn->bn" expected "lhs,rhs->out" with one letter per dimension, none twice in a term}}
  %y = kerf.einsum "bK,Kn->bn" %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A letter has one size.
kerf.model @einsum_c2(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.einsum' op letter 'k' has sizes 6 and 4}}
  %y = kerf.einsum "bk,kn->bn" %x, %x : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A letter of one operand alone must reach the result.
kerf.model @einsum_c3(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.einsum' op equation "bk,nj->bn" has a letter in one term only}}
  %y = kerf.einsum "bk,nj->bn" %x, %x : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// 8-bit floats are not mixed with others.
kerf.model @einsum_c4(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  %q = kerf.cast %x : tensor<4x6xf32> -> tensor<4x6xf8E5M2>
  // expected-error @+1 {{'kerf.einsum' op expected two operands of 8-bit floats or none, found 'tensor<4x6xf8E5M2>' and 'tensor<4x6xf32>'}}
  %y = kerf.einsum "bk,nk->bn" %q, %x : tensor<4x6xf8E5M2>, tensor<4x6xf32> -> tensor<4x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A unit is that of a type of 8-bit floats.
kerf.model @unit_c1(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.unit' op expected the unit of f8E4M3FN or f8E5M2, found 'bf16'}}
  %u = kerf.unit %x of bf16 : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A letter of the result comes from an operand.
kerf.model @einsum_new(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.einsum' op equation "bk,nk->bz" has a letter in one term only}}
  %y = kerf.einsum "bk,nk->bz" %x, %x : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Reduced dimensions ascend.
kerf.model @reduce_c1(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.reduce' expected ascending dimensions of 'tensor<4x6xf32>', found dims [1, 0]}}
  %y = kerf.reduce sum %x dims [1, 0] : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Reduced dimensions are there.
kerf.model @reduce_outside(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.reduce' expected ascending dimensions of 'tensor<4x6xf32>', found dims [2]}}
  %y = kerf.reduce max %x dims [2] : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A prefix sum runs along a dimension.
kerf.model @cumsum_c1(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.cumsum' expected a dimension of 'tensor<4x6xf32>', found dim [-1]}}
  %y = kerf.cumsum %x dim -1 : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A row has at least k elements.
kerf.model @top_k_c1(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.top_k' expected 1 <= k <= the last dimension of 'tensor<4x6xf32>', found k [7]}}
  %v, %i = kerf.top_k %x k 7 : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A scalar has no rows.
kerf.model @top_k_scalar(%x: tensor<f32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.top_k' expected 1 <= k <= the last dimension of 'tensor<f32>', found k [1]}}
  %v, %i = kerf.top_k %x k 1 : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// A table has rows.
kerf.model @gather_c1(%x: tensor<f32>, %i: tensor<4xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.gather' expected a table of rank >= 1, found 'tensor<f32>'}}
  %y = kerf.gather %x, %i : tensor<f32>, tensor<4xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// Rows to add have the shape of the index and of a row.
kerf.model @scatter_add_c1(%x: tensor<4x16xf32>, %i: tensor<5xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.scatter_add' op expected rows of 'tensor<32x16xf32>' for index 'tensor<5xi32>', found 'tensor<4x16xf32>'}}
  %y = kerf.scatter_add %x, %i : tensor<4x16xf32>, tensor<5xi32> -> tensor<32x16xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A table to add into has rows.
kerf.model @scatter_add_scalar(%x: tensor<4xf32>, %i: tensor<4xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.scatter_add' op expected rows of 'tensor<f32>' for index 'tensor<4xi32>', found 'tensor<4xf32>'}}
  %y = kerf.scatter_add %x, %i : tensor<4xf32>, tensor<4xi32> -> tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// All elements of a constant are in the text.
kerf.model @constant_c2(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.constant' op expected a dense<...> value, found dense_resource<elsewhere> : tensor<4xf32>}}
  %x = kerf.constant dense_resource<elsewhere> : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}
