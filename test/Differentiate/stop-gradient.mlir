// RUN: kerf-opt %s --kerf-differentiate --split-input-file --verify-diagnostics | FileCheck %s

// Of x + constant(tanh(x) - x) the gradient is that of x alone: tanh has none, and is
// what the loss adds.
// CHECK-LABEL: kerf.model @straight
// CHECK: %[[X:.*]] = kerf.param "x"
// CHECK: %[[TANH:.*]] = kerf.tanh %[[X]]
// CHECK: %[[REST:.*]] = kerf.sub %[[TANH]], %[[X]]
// CHECK: %[[Y:.*]] = kerf.add %[[X]], %[[REST]]
// CHECK: kerf.reduce sum %[[Y]]
// CHECK-NOT: kerf.stop_gradient
// CHECK-NOT: kerf.mul
// CHECK: %[[DX:.*]] = kerf.broadcast
// CHECK-NOT: kerf.mul
// CHECK: kerf.update "x" {{.*}} by %[[DX]]
kerf.model @straight() attributes {clip_norm = 0.0 : f64, optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  %t = kerf.tanh %x : tensor<2x3xf32>
  %d = kerf.sub %t, %x : tensor<2x3xf32>
  %c = kerf.stop_gradient %d : tensor<2x3xf32>
  %y = kerf.add %x, %c : tensor<2x3xf32>
  %loss = kerf.reduce sum %y dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// In a loop: what is carried is differentiated, the constant is not.
// CHECK-LABEL: kerf.model @loop
// CHECK-NOT: kerf.stop_gradient
// CHECK: kerf.repeat reverse
// CHECK-NOT: kerf.tanh
// CHECK: kerf.update "w.
kerf.model @loop() attributes {clip_norm = 0.0 : f64, optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  %y = kerf.repeat %i = 0 to 2 (%h = %x : tensor<2x3xf32>) {
    %w = kerf.param "w.{i}" init<normal, 0.5> : tensor<2x3xf32>
    %p = kerf.mul %h, %w : tensor<2x3xf32>
    %t = kerf.tanh %p : tensor<2x3xf32>
    %c = kerf.stop_gradient %t : tensor<2x3xf32>
    %next = kerf.add %p, %c : tensor<2x3xf32>
    kerf.yield %next : tensor<2x3xf32>
  }
  %loss = kerf.reduce sum %y dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// What is read as a constant alone is not trained.
kerf.model @unreached() attributes {clip_norm = 0.0 : f64, optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  // expected-error @+2 {{"w" is trainable but does not reach the loss}}
  // expected-note @+1 {{remove it, or mark it 'frozen'}}
  %w = kerf.param "w" init<normal, 0.5> : tensor<2x3xf32>
  %c = kerf.stop_gradient %w : tensor<2x3xf32>
  %y = kerf.mul %x, %c : tensor<2x3xf32>
  %loss = kerf.reduce sum %y dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}
