// RUN: kerf-opt %s --kerf-verify-ingest --split-input-file --verify-diagnostics --allow-unregistered-dialect

// A model that is within the contract passes: two models, a repeat, and a tensor of 2^48 elements.
kerf.model @passes(%x: tensor<2xf32>, %big: tensor<65536x65536x65536xi1>) {
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2xf32>) {
    %e = kerf.exp %h : tensor<2xf32>
    kerf.yield %e : tensor<2xf32>
  }
  %loss = kerf.reduce sum %y dims [0] : tensor<2xf32>
  kerf.return %loss : tensor<f32>
}
kerf.model @passes_too(%loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// The interpreter's checks do not stay in a model.
kerf.model @check(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.check_close' op is for the interpreter only; remove it}}
  kerf.check_close %loss, %loss within 0.0 : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// Inputs are not larger than 2^48 elements.
// expected-error @+1 {{input of 'tensor<65536x65536x65537xf32>', expected at most 2^48 elements}}
kerf.model @large_input(%x: tensor<65536x65536x65537xf32>, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// Results are not larger either, those inside a repeat included.
kerf.model @large_result(%x: tensor<65536x65536xf32>, %loss: tensor<f32>) {
  kerf.repeat %i = 0 to 3 () {
    // expected-error @+1 {{'kerf.broadcast' op makes 'tensor<65536x65536x65537xf32>', expected at most 2^48 elements}}
    %y = kerf.broadcast %x dims [0, 1] : tensor<65536x65536xf32> -> tensor<65536x65536x65537xf32>
    kerf.yield
  }
  kerf.return %loss : tensor<f32>
}

// -----

// Stacks are not larger either.
kerf.model @large_stack(%x: tensor<65536x65536xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.repeat' op makes 'tensor<65537x65536x65536xf32>', expected at most 2^48 elements}}
  %y = kerf.repeat %i = 0 to 65537 () {
    kerf.yield stack(%x) : tensor<65536x65536xf32>
  }
  kerf.return %loss : tensor<f32>
}

// -----

// Products of sizes that overflow are found.
// expected-error @+1 {{input of 'tensor<4294967296x4294967296x4294967296xf32>', expected at most 2^48 elements}}
kerf.model @overflow(%x: tensor<4294967296x4294967296x4294967296xf32>, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// No dimension hides behind an empty one.
// expected-error @+1 {{input of 'tensor<0x9223372036854775807xf32>', expected at most 2^48 elements}}
kerf.model @empty(%x: tensor<0x9223372036854775807xf32>, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// There is no step without data or with empty weights.
// expected-error @+1 {{input of 'tensor<0x4xf32>', expected sizes of at least 1}}
kerf.model @no_rows(%x: tensor<0x4xf32>, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

kerf.model @no_weights(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op of 'tensor<4x0xf32>', expected sizes of at least 1}}
  %w = kerf.param "w" init<zeros> : tensor<4x0xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Every op states its factors.
kerf.model @foreign(%loss: tensor<f32>) {
  // expected-error @+1 {{'test.op' op does not state its factors}}
  %x = "test.op"(%loss) : (tensor<f32>) -> tensor<f32>
  kerf.return %x : tensor<f32>
}

// -----

// There is a model.
// expected-error @+1 {{expected a 'kerf.model' in the module}}
module {
}

// -----

// Random numbers inside a repeat need the iteration.

kerf.model @same_mask(%x: tensor<2xf32>, seed %seed: tensor<i32>, step %step: tensor<i32>) {
  %y = kerf.repeat %i = 0 to 2 (%h = %x : tensor<2xf32>) {
    // expected-error @below {{"drop" draws the same numbers in every iteration; add 'layer' with the iteration number}}
    %d = kerf.dropout %h rate 0.5 "drop" seed %seed step %step : tensor<2xf32>
    kerf.yield %d : tensor<2xf32>
  }
  %s = kerf.reduce sum %y dims [0] : tensor<2xf32>
  kerf.return %s : tensor<f32>
}

// -----

// Two draws of one name would be equal.

kerf.model @same_name(%x: tensor<2xf32>, seed %seed: tensor<i32>, step %step: tensor<i32>) {
  // expected-note @below {{that op is here; give each a name of its own}}
  %d = kerf.dropout %x rate 0.5 "drop" seed %seed step %step : tensor<2xf32>
  // expected-error @below {{"drop" draws the same numbers as another op}}
  %e = kerf.dropout %d rate 0.5 "drop" seed %seed step %step : tensor<2xf32>
  %s = kerf.reduce sum %e dims [0] : tensor<2xf32>
  kerf.return %s : tensor<f32>
}
