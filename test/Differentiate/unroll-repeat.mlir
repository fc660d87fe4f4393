// RUN: kerf-opt --kerf-unroll-repeat --split-input-file --verify-diagnostics %s | FileCheck %s

// Written out, a model trains the same.
// RUN: kerf-opt --kerf-differentiate %S/Inputs/decoder.mlir \
// RUN:   | kerf-inspect interpret - --steps=4 --compute=f64 > %t.repeat
// RUN: kerf-opt --kerf-unroll-repeat --kerf-differentiate %S/Inputs/decoder.mlir \
// RUN:   | kerf-inspect interpret - --steps=4 --compute=f64 | diff %t.repeat -

// Each iteration reads the parameter of its name, its number and its slice.

// CHECK-LABEL: kerf.model @forward
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2xf32>, %[[YS:[a-z0-9]+]]: tensor<2x2xf32>
// CHECK: %[[I3:.*]] = kerf.constant dense<3>
// CHECK: %[[S0:.*]] = kerf.slice %[[YS]] offsets [0, 0] sizes [1, 2]
// CHECK: %[[Y0:.*]] = kerf.reshape %[[S0]]
// CHECK: %[[W3:.*]] = kerf.param "h.3.w"
// CHECK: %[[E3:.*]] = kerf.param "experts.{e}.w.4"
// CHECK: %[[A:.*]] = kerf.mul %[[X]], %[[Y0]]
// CHECK: %[[B:.*]] = kerf.mul %[[A]], %[[W3]]
// CHECK: %[[N0:.*]] = kerf.reshape %[[I3]]
// CHECK: %[[I4:.*]] = kerf.constant dense<4>
// CHECK: kerf.slice %[[YS]] offsets [1, 0] sizes [1, 2]
// CHECK: %[[W4:.*]] = kerf.param "h.4.w"
// CHECK: kerf.param "experts.{e}.w.5"
// CHECK: %[[C:.*]] = kerf.mul %[[B]], %{{.*}}
// CHECK: %[[D:.*]] = kerf.mul %[[C]], %[[W4]]
// CHECK: %[[N1:.*]] = kerf.reshape %[[I4]]
// CHECK: kerf.concat dim 0 %[[N0]], %[[N1]]
// CHECK: kerf.reduce sum %[[D]]
kerf.model @forward(%x: tensor<2xf32>, %ys: tensor<2x2xf32>) {
  %last, %all = kerf.repeat %i = 3 to 5 (%h = %x : tensor<2xf32>) slices(%y = %ys : tensor<2x2xf32>) {
    %w = kerf.param "h.{i}.w" init<ones> : tensor<2xf32>
    %e = kerf.param "experts.{e}.w.{i+1}" init<ones> : tensor<2x2xf32>
    %0 = kerf.mul %h, %y : tensor<2xf32>
    %1 = kerf.mul %0, %w : tensor<2xf32>
    kerf.yield %1 stack(%i) : tensor<2xf32>, tensor<i32>
  }
  %s = kerf.reduce sum %last dims [0] : tensor<2xf32>
  kerf.return %s, %all : tensor<f32>, tensor<2xi32>
}

// -----

// A reverse repeat starts at its last iteration; stacks keep their order.

// CHECK-LABEL: kerf.model @reverse
// CHECK: %[[W1:.*]] = kerf.param "h.1.w"
// CHECK: %[[A:.*]] = kerf.mul %{{.*}}, %[[W1]]
// CHECK: %[[SA:.*]] = kerf.reshape %[[A]]
// CHECK: %[[W0:.*]] = kerf.param "h.0.w"
// CHECK: %[[B:.*]] = kerf.mul %[[A]], %[[W0]]
// CHECK: %[[SB:.*]] = kerf.reshape %[[B]]
// CHECK: kerf.concat dim 0 %[[SB]], %[[SA]]
kerf.model @reverse(%x: tensor<f32>) {
  %last, %all = kerf.repeat reverse %i = 0 to 2 (%h = %x : tensor<f32>) {
    %w = kerf.param "h.{i}.w" init<ones> : tensor<f32>
    %n = kerf.mul %h, %w : tensor<f32>
    kerf.yield %n stack(%n) : tensor<f32>, tensor<f32>
  }
  kerf.return %last, %all : tensor<f32>, tensor<2xf32>
}

// -----

// CHECK-LABEL: kerf.model @no_repeat
// CHECK-NEXT: kerf.exp
// CHECK-NEXT: kerf.return
kerf.model @no_repeat(%x: tensor<f32>) {
  %y = kerf.exp %x : tensor<f32>
  kerf.return %y : tensor<f32>
}

// -----

kerf.model @training_step(learning_rate %r: tensor<f32>, step %t: tensor<i32>) {
  %gs = kerf.constant dense<1.0> : tensor<2xf32>
  %s = kerf.constant dense<0.0> : tensor<f32>
  %y = kerf.repeat %i = 0 to 2 (%h = %s : tensor<f32>) {
    %w = kerf.param "h.{i}.w" init<ones> : tensor<f32>
    %n = kerf.add %h, %w : tensor<f32>
    kerf.yield %n : tensor<f32>
  }
  // expected-error @below {{is part of a training step: unroll repeats before differentiation}}
  kerf.update "h.{i}.w" [0 to 2] rule #kerf.sgd<> by %gs rate %r step %t : tensor<2xf32>
  kerf.return %y : tensor<f32>
}

// -----

kerf.model @too_long(%x: tensor<f32>) {
  // expected-error @below {{of 1000000 iterations of 3 ops would unroll to more than 262144 ops}}
  %y = kerf.repeat %i = 0 to 1000000 (%h = %x : tensor<f32>) {
    %n = kerf.exp %h : tensor<f32>
    kerf.yield %n : tensor<f32>
  }
  kerf.return %y : tensor<f32>
}
