// RUN: kerf-opt %s --split-input-file --verify-diagnostics

// Arguments are tensors.
// expected-error@+1 {{expected plain tensors, found 'f32'}}
exec.kernel @kernel_c1(%x: f32) {
  exec.yield
}

// -----

// High-level ops are decomposed before.
exec.kernel @kernel_c2(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  // expected-error@+1 {{in a kernel, expected a plain op, one that evaluates, or a single op that brings its own kernel}}
  %y = kerf.softmax %x : tensor<2x8xf32>
  exec.yield %y : tensor<2x8xf32>
}

// -----

// A kernel has as many results as its yield has values.
exec.kernel @kernel_c3(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-error@+1 {{expected values of the kernel's result types 'tensor<4xf32>', 'tensor<4xf32>', found 'tensor<4xf32>'}}
  exec.yield %x : tensor<4xf32>
}

// -----

// A yield has the kernel's result types.
exec.kernel @yield_c1(%x: tensor<4xf32>) -> tensor<4xi32> {
  // expected-error@+1 {{expected values of the kernel's result types 'tensor<4xi32>', found 'tensor<4xf32>'}}
  exec.yield %x : tensor<4xf32>
}

// -----

// There is no argument 1.
// expected-error@+1 {{expected 'inplace' to pair results with arguments of one type, found [0, 1]}}
exec.kernel @kernel_c4(%x: tensor<4xf32>) -> tensor<4xf32> attributes {inplace = [[0, 1]]} {
  exec.yield %x : tensor<4xf32>
}

// -----

// A buffer keeps its type.
// expected-error@+1 {{expected 'inplace' to pair results with arguments of one type, found [0, 0]}}
exec.kernel @kernel_c4_types(%x: tensor<2xf32>) -> tensor<2xi32> attributes {inplace = [[0, 0]]} {
  %y = kerf.cast %x : tensor<2xf32> -> tensor<2xi32>
  exec.yield %y : tensor<2xi32>
}

// -----

// One buffer cannot hold two results.
// expected-error@+1 {{expected 'inplace' to pair results with arguments of one type, found [1, 0]}}
exec.kernel @kernel_c4_twice(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) attributes {inplace = [[0, 0], [1, 0]]} {
  exec.yield %x, %x : tensor<2xf32>, tensor<2xf32>
}

// -----

// Partial sums are rows.
exec.kernel @partial_reduce_c1(%x: tensor<4x6xf32>) -> tensor<6xf32> {
  // expected-error@+1 {{expected a result of chunks x columns, found 'tensor<6xf32>'}}
  %y = exec.partial_reduce sum %x by 2 : tensor<4x6xf32> -> tensor<6xf32>
  exec.yield %y : tensor<6xf32>
}

// -----

// Four rows are two chunks of two.
exec.kernel @partial_reduce_c2(%x: tensor<4x6xf32>) -> tensor<3x6xf32> {
  // expected-error@+1 {{expected chunks of 2 rows whose columns divide the elements of 'tensor<4x6xf32>', found 'tensor<3x6xf32>'}}
  %y = exec.partial_reduce sum %x by 2 : tensor<4x6xf32> -> tensor<3x6xf32>
  exec.yield %y : tensor<3x6xf32>
}

// -----

// Sums have the type of what is summed.
exec.kernel @partial_reduce_c3(%x: tensor<4x6xf32>) -> tensor<2x6xbf16> {
  // expected-error@+1 {{expected one element type, found 'tensor<4x6xf32>' and 'tensor<2x6xbf16>'}}
  %y = exec.partial_reduce sum %x by 2 : tensor<4x6xf32> -> tensor<2x6xbf16>
  exec.yield %y : tensor<2x6xbf16>
}
