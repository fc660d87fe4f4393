// RUN: kerf-opt --kerf-verify-differentiated --split-input-file --verify-diagnostics %s

// What differentiation makes passes, and what the split passes make of it.
// RUN: kerf-opt --kerf-differentiate --kerf-verify-differentiated %S/Inputs/decoder.mlir -o %t
// RUN: kerf-opt --kerf-split-repeat=at=2 --kerf-split-weight-gradient --kerf-verify-differentiated %t -o %t.split

// A step without trainable parameters needs no updates.
kerf.model @nothing_to_train() {
  %w = kerf.param "w" init<ones> frozen {kerf.phase = #kerf.phase<forward 0>} : tensor<f32>
  kerf.return %w {kerf.phase = #kerf.phase<forward 1>} : tensor<f32>
}

// -----

kerf.model @no_update() {
  // expected-error @below {{"w" is trainable but has no update}}
  %w = kerf.param "w" init<ones> {kerf.phase = #kerf.phase<forward 0>} : tensor<f32>
  kerf.return %w {kerf.phase = #kerf.phase<forward 1>} : tensor<f32>
}

// -----

// Iteration 1 has no update.

kerf.model @no_update_of_one(learning_rate %r: tensor<f32>, step %t: tensor<i32>) {
  %g = kerf.constant {kerf.phase = #kerf.phase<weight_gradient -1>} dense<1.0> : tensor<1xf32>
  %x = kerf.constant {kerf.phase = #kerf.phase<forward 0>} dense<1.0> : tensor<f32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) attributes {kerf.phase = #kerf.phase<forward 1>} {
    // expected-error @below {{"h.{i}.w" is trainable but has no update for some iterations}}
    %w = kerf.param "h.{i}.w" init<ones> {kerf.phase = #kerf.phase<forward 2>} : tensor<f32>
    %n = kerf.mul %h, %w {kerf.phase = #kerf.phase<forward 3>} : tensor<f32>
    kerf.yield %n {kerf.phase = #kerf.phase<forward 4>} : tensor<f32>
  }
  kerf.update "h.{i}.w" [0 to 1] rule #kerf.sgd<> by %g rate %r step %t {kerf.phase = #kerf.phase<update -1>} : tensor<1xf32>
  kerf.update "h.{i}.w" [2 to 3] rule #kerf.sgd<> by %g rate %r step %t {kerf.phase = #kerf.phase<update -1>} : tensor<1xf32>
  kerf.return %y {kerf.phase = #kerf.phase<forward 5>} : tensor<f32>
}

// -----

kerf.model @no_phase() {
  // expected-error @below {{has no 'kerf.phase'}}
  %w = kerf.constant dense<1.0> : tensor<f32>
  kerf.return %w {kerf.phase = #kerf.phase<forward 1>} : tensor<f32>
}

// -----

kerf.model @no_forward_op() {
  // expected-error @below {{belongs to forward op 3, which does not exist}}
  %w = kerf.constant {kerf.phase = #kerf.phase<input_gradient 3>} dense<1.0> : tensor<f32>
  kerf.return %w {kerf.phase = #kerf.phase<forward 1>} : tensor<f32>
}

// -----

kerf.model @check() {
  %w = kerf.constant {kerf.phase = #kerf.phase<forward 0>} dense<1.0> : tensor<f32>
  // expected-error @below {{is for the interpreter only; remove it}}
  kerf.check_close %w, %w within 0.0 {kerf.phase = #kerf.phase<forward 1>} : tensor<f32>
  kerf.return %w {kerf.phase = #kerf.phase<forward 2>} : tensor<f32>
}
