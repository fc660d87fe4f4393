// RUN: kerf-opt --kerf-interpret=steps=2 --split-input-file --verify-diagnostics %s | FileCheck %s

// The stages of a pipeline run together: the first one sends 2 x for both micro-batches, the
// second one adds up the sums. x is 3 at the first step and gets 0.25 less.

// CHECK-LABEL: spmd.program @first over
// CHECK: spmd.send
// expected-remark @below {{step 1 loss 12}}
// expected-remark @below {{step 2 loss 11}}
spmd.program @first over <pp = 2> micro_batches 2 slots 1 {
  spmd.param "x" global tensor<f32> sharded [] rule #kerf.sgd<> init <constant, 3.0> : tensor<f32>
  spmd.func @forward() {
    %x = kerf.param "x" init<constant, 3.0> : tensor<f32>
    %y = kerf.add %x, %x : tensor<f32>
    spmd.send %y to 1 on "forward" : tensor<f32>
    spmd.return
  }
  spmd.func @update() {
    %g = spmd.recv from 1 on "backward" : tensor<f32>
    %rate = kerf.constant dense<0.5> : tensor<f32>
    %step = kerf.constant dense<1> : tensor<i32>
    kerf.update "x" rule #kerf.sgd<> by %g rate %rate step %step : tensor<f32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    spmd.call @update
  }
}
spmd.program @second over <pp = 2> stage 1 micro_batches 2 slots 1 {
  spmd.output @loss sum : tensor<f32>
  spmd.func @forward() {
    %y = spmd.recv from 0 on "forward" : tensor<f32>
    spmd.accumulate %y into @loss : tensor<f32>
    spmd.return
  }
  spmd.func @backward() {
    %g = kerf.constant dense<0.5> : tensor<f32>
    spmd.send %g to 0 on "backward" : tensor<f32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    spmd.call @backward
  }
}

// -----

// Stages that wait for each other for ever are named.

// expected-error @below {{never ends: no stage can go on}}
spmd.program @first over <pp = 2> micro_batches 1 slots 1 {
  spmd.func @forward() {
    // expected-note @below {{stage 0 waits for a message of stage 1 on "backward"}}
    %x = spmd.recv from 1 on "backward" : tensor<f32>
    spmd.send %x to 1 on "forward" : tensor<f32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward
  }
}
spmd.program @second over <pp = 2> stage 1 micro_batches 1 slots 1 {
  spmd.output @loss last : tensor<f32>
  spmd.func @forward() {
    // expected-note @below {{stage 1 waits for a message of stage 0 on "forward"}}
    %x = spmd.recv from 0 on "forward" : tensor<f32>
    spmd.write %x to @loss : tensor<f32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward
  }
}

// -----

// A program must say what there is to report.

// expected-error @below {{has no output}}
spmd.program @silent over <> micro_batches 1 slots 1 {
}

// -----

// A function that continues another one adds to what that has set: 1 + 2.

// expected-remark @below {{step 1 loss 3}}
// expected-remark @below {{step 2 loss 3}}
spmd.program @continues over <> micro_batches 2 slots 1 {
  spmd.output @loss sum : tensor<f32>
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<f32>
    spmd.accumulate %x into @loss : tensor<f32>
    spmd.return
  }
  spmd.func @forward_last() continues @forward {
    %x = kerf.constant dense<2.0> : tensor<f32>
    spmd.accumulate %x into @loss : tensor<f32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward_last micro 1
  }
}
