// RUN: kerf-opt %s --split-input-file --verify-diagnostics

// What only the generic form, other dialects or odd attributes can say, and no
// pass may meet.

// Values that are no tensors, made by an op of another dialect.
kerf.model @model_c6(%x: tensor<4xf32>) {
  // expected-error@+1 {{'builtin.unrealized_conversion_cast' op makes 'index', expected a tensor of}}
  %t = builtin.unrealized_conversion_cast %x : tensor<4xf32> to index
  %s = kerf.reduce sum %x dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}

// -----

// A body that no pass looks into.
kerf.model @model_c6() {
  %s = kerf.constant dense<1.0> : tensor<f32>
  // expected-error@+1 {{'builtin.module' op has a body, expected that of 'kerf.repeat' only inside a 'kerf.model'}}
  builtin.module {}
  kerf.return %s : tensor<f32>
}

// -----

// A model in a model.
kerf.model @outer() {
  %s = kerf.constant dense<1.0> : tensor<f32>
  // expected-error@+1 {{'kerf.model' op symbol's parent must have the SymbolTable trait}}
  kerf.model @inner() {
    %l = kerf.constant dense<1.0> : tensor<f32>
    kerf.return %l : tensor<f32>
  }
  kerf.return %s : tensor<f32>
}

// -----

// Two models of one name.
// expected-note@+1 {{see existing symbol definition here}}
kerf.model @m() {
  %s = kerf.constant dense<1.0> : tensor<f32>
  kerf.return %s : tensor<f32>
}
// expected-error@+1 {{redefinition of symbol named 'm'}}
kerf.model @m() {
  %s = kerf.constant dense<1.0> : tensor<f32>
  kerf.return %s : tensor<f32>
}

// -----

// Elements that are not in the text.
// expected-error@+1 {{'kerf.constant' op expected a dense<...> value, found sparse<0, 1.000000e+00> : tensor<4xf32>}}
%sparse = kerf.constant sparse<[[0]], [1.0]> : tensor<4xf32>

// -----

// expected-error@+1 {{'kerf.constant' op expected a dense<...> value, found dense_resource<__elided__> : tensor<4xf32>}}
%elided = kerf.constant dense_resource<__elided__> : tensor<4xf32>

// -----

// expected-error@+1 {{elements hex data size is invalid for provided type}}
%hex = kerf.constant dense<"0x00"> : tensor<4xf32>

// -----

// A yield whose segments reach beyond its operands, read while parsing.
kerf.model @segments(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected a body that ends in a 'kerf.yield'}}
  %r:2 = kerf.repeat %i = 0 to 3 (%h = %x : tensor<4xf32>) {
    "kerf.yield"(%h) <{operandSegmentSizes = array<i32: 5, 7>}> : (tensor<4xf32>) -> ()
  }
  %s = kerf.reduce sum %x dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}

// -----

// A repeat without a body.
kerf.model @no_body() {
  // expected-error@+1 {{'kerf.repeat' op region #0 ('body') failed to verify constraint: region with 1 blocks}}
  "kerf.repeat"() <{start = 0 : i64, end = 3 : i64, operandSegmentSizes = array<i32: 0, 0>}> ({}) : () -> ()
  %s = kerf.constant dense<1.0> : tensor<f32>
  kerf.return %s : tensor<f32>
}

// -----

// A body without a yield.
kerf.model @no_yield() {
  // expected-error@+1 {{'kerf.repeat' op expects a non-empty block}}
  "kerf.repeat"() <{start = 0 : i64, end = 3 : i64, operandSegmentSizes = array<i32: 0, 0>}> ({^bb0(%i: tensor<i32>):}) : () -> ()
  %s = kerf.constant dense<1.0> : tensor<f32>
  kerf.return %s : tensor<f32>
}

// -----

// No letters, though scalars need none.
%w = kerf.constant dense<2.0> : tensor<f32>
// expected-error@+1 {{'kerf.einsum' op equation "zzz" expected "lhs,rhs->out" with one letter per dimension}}
%e = kerf.einsum "zzz" %w, %w : tensor<f32>, tensor<f32> -> tensor<f32>

// -----

// A size of 0 is a size.
kerf.model @einsum_c2(%x: tensor<0xf32>, %y: tensor<5xf32>) {
  // expected-error@+1 {{'kerf.einsum' op letter 'a' has sizes 0 and 5}}
  %a = kerf.einsum "a,a->a" %x, %y : tensor<0xf32>, tensor<5xf32> -> tensor<5xf32>
  %s = kerf.reduce sum %a dims [0] : tensor<5xf32>
  kerf.return %s : tensor<f32>
}

// -----

// A scalar has no rows.
%x = kerf.constant dense<1.0> : tensor<f32>
// expected-error@+1 {{'kerf.softmax_backward' op expected rank >= 1, found a scalar}}
%y = kerf.softmax_backward %x, %x : tensor<f32>

// -----

// An end is missing.
kerf.model @update_c2(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %w = kerf.param "w" init<ones> : tensor<4xf32>
  %s = kerf.reduce sum %w dims [0] : tensor<4xf32>
  // expected-error@+1 {{'kerf.update' op expected 'start' and 'end' both or neither}}
  "kerf.update"(%w, %lr, %t) <{name = "w{i}", operandSegmentSizes = array<i32: 1, 0, 1, 1, 0>, start = 0 : i64, rule = #kerf.sgd<>}> : (tensor<4xf32>, tensor<f32>, tensor<i32>) -> ()
  kerf.return %s : tensor<f32>
}
