// RUN: kerf-opt --kerf-verify-precision --split-input-file --verify-diagnostics %s

// What the precision pass makes passes.
// RUN: kerf-opt --kerf-differentiate --kerf-precision=policy=bf16 --kerf-verify-precision \
// RUN:   %S/../Differentiate/Inputs/decoder.mlir -o %t

// Frozen 16-bit parameters need no master, f32 ones neither.
kerf.model @no_master_needed(learning_rate %r: tensor<f32>, step %t: tensor<i32>) {
  %f = kerf.param "f" init<ones> frozen : tensor<bf16>
  %w = kerf.param "w" init<ones> : tensor<f32>
  kerf.update "w" rule #kerf.sgd<> by %w rate %r step %t : tensor<f32>
  kerf.return %w : tensor<f32>
}

// -----

kerf.model @no_master() {
  // expected-error @below {{"w" of 'bf16' is trainable but has no master}}
  %w = kerf.param "w" init<ones> : tensor<bf16>
  kerf.return %w : tensor<bf16>
}

// -----

// An update reads a gradient of the type that it updates.

kerf.model @narrow_gradient(learning_rate %r: tensor<f32>, step %t: tensor<i32>) {
  %w = kerf.param "w" init<ones> master f32 : tensor<bf16>
  // expected-error @below {{expected a gradient of 'f32', found 'bf16'}}
  kerf.update "w" rule #kerf.sgd<> by %w rate %r step %t : tensor<bf16>
  kerf.return %w : tensor<bf16>
}
