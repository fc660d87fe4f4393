// RUN: kerf-opt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect

// A model ends in its return, not in another terminator.
// expected-error @+1 {{'kerf.model' op expected a 'kerf.return' at its end}}
kerf.model @model_end(%loss: tensor<f32>) {
  "test.end"(%loss) : (tensor<f32>) -> ()
}

// -----

// A repeat in its generic form ends in its yield too.
kerf.model @repeat_end(%x: tensor<f32>) {
  // expected-error @+1 {{'kerf.repeat' op expected a 'kerf.yield' at the end of its body}}
  "kerf.repeat"() <{end = 3 : i64, operandSegmentSizes = array<i32: 0, 0>, start = 0 : i64}> ({
  ^bb0(%i: tensor<i32>):
    "test.end"() : () -> ()
  }) : () -> ()
  kerf.return %x : tensor<f32>
}

// -----

// Only tensors are yielded.
kerf.model @yield_of_index(%x: tensor<f32>) {
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) {
    %z = "test.source"() : () -> index
    // expected-error @+1 {{custom op 'kerf.yield' expected a tensor of f64, f32, bf16, f16, i32, i8 or i1 with static shape, rank <= 16 and no encoding, found 'index'}}
    kerf.yield %z : index
  }
  kerf.return %x : tensor<f32>
}

// -----

// That holds for a generic yield too.
kerf.model @generic_yield_of_index(%x: tensor<f32>) {
  // expected-error @+1 {{custom op 'kerf.repeat' expected a body that ends in a 'kerf.yield' of tensors}}
  %y = kerf.repeat %i = 0 to 3 () {
    %z = "test.source"() : () -> index
    "kerf.yield"(%z) <{operandSegmentSizes = array<i32: 0, 1>}> : (index) -> ()
  }
  kerf.return %x : tensor<f32>
}
