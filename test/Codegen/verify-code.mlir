// RUN: kerf-opt %s --kerf-verify-code --split-input-file --verify-diagnostics

// All of a kernel's code is known.
exec.program @units arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  // expected-error@+2 {{'exec.kernel' op has no machine code}}
  // expected-note@+1 {{run 'kerf-generate-code' first}}
  exec.kernel @k0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {code = {symbol = "k", grain = 1 : i64}} {
    exec.yield %x : tensor<4xf32>
  }
  exec.image "f0VMRg=="
}

// -----

// A program comes with its shared object.
// expected-error@+2 {{'exec.program' op has no 'exec.image'}}
// expected-note@+1 {{run 'kerf-generate-code' first}}
exec.program @image arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {code = {symbol = "k", units = 1 : i64, grain = 1 : i64}} {
    exec.yield %x : tensor<4xf32>
  }
}

// -----

exec.program @good arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {code = {symbol = "k", units = 1 : i64, grain = 1 : i64}} {
    exec.yield %x : tensor<4xf32>
  }
  exec.image "f0VMRg=="
}

// -----

// The shared object of all programs stands in the first, though that needs none.
exec.program @first arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.image "f0VMRg=="
}
exec.program @second arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {code = {symbol = "k", units = 1 : i64, grain = 1 : i64}} {
    exec.yield %x : tensor<4xf32>
  }
}

// -----

exec.program @first arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {code = {symbol = "k", units = 1 : i64, grain = 1 : i64}} {
    exec.yield %x : tensor<4xf32>
  }
  exec.image "f0VMRg=="
}
// expected-error@+2 {{'exec.program' op has an 'exec.image', expected one in the first program alone}}
// expected-note@+1 {{run 'kerf-generate-code' first}}
exec.program @second arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {code = {symbol = "k", units = 1 : i64, grain = 1 : i64}} {
    exec.yield %x : tensor<4xf32>
  }
  exec.image "f0VMRg=="
}

// -----

// expected-error@+2 {{'exec.program' op has no 'exec.image'}}
// expected-note@+1 {{run 'kerf-generate-code' first}}
exec.program @first arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
}
exec.program @second arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {code = {symbol = "k", units = 1 : i64, grain = 1 : i64}} {
    exec.yield %x : tensor<4xf32>
  }
}
