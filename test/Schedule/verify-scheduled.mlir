// RUN: kerf-opt --split-input-file --verify-diagnostics --kerf-verify-scheduled %s

// expected-error @below {{has no schedule; run 'kerf-order-micro-batches'}}
spmd.program @none over <> micro_batches 1 slots 1 {
}

// -----

spmd.program @not_written over <> micro_batches 1 slots 1 {
  spmd.buffer @b step : tensor<f32>
  spmd.func @update() {
    %x = spmd.read @b : tensor<f32>
    spmd.return
  }
  spmd.schedule "train" {
    // expected-error @below {{reads @b, which no call before it writes}}
    spmd.call @update
  }
}

// -----

// expected-note @below {{the program has 1 slots; forward of a micro-batch may run only when its slot is free}}
spmd.program @slot_taken over <> micro_batches 2 slots 1 {
  spmd.buffer @b slot : tensor<f32>
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<f32>
    spmd.write %x to @b : tensor<f32>
    spmd.return
  }
  spmd.func @backward() {
    %x = spmd.read @b : tensor<f32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    // expected-error @below {{reads @b, whose slot holds micro-batch 1}}
    spmd.call @backward micro 0
    spmd.call @backward micro 1
  }
}

// -----

// A function and one that continues it are called once for every micro-batch together.
spmd.program @continued over <> micro_batches 2 slots 1 {
  spmd.func @forward() {
    spmd.return
  }
  spmd.func @forward_last() continues @forward {
    spmd.return
  }
  // expected-error @below {{"train" expected one call of @forward per micro-batch, or one for the step}}
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    spmd.call @forward_last micro 1
  }
}

// -----

spmd.program @continues_nothing over <> micro_batches 2 slots 1 {
  spmd.func @forward() {
    spmd.return
  }
  spmd.func @forward_last() continues @forward {
    spmd.return
  }
  spmd.schedule "train" {
    // expected-error @below {{continues @forward, which no call before it begins}}
    spmd.call @forward_last micro 1
    spmd.call @forward micro 0
  }
}

// -----

spmd.program @missing over <> micro_batches 2 slots 1 {
  spmd.func @forward() {
    spmd.return
  }
  // expected-error @below {{"train" expected one call of @forward per micro-batch, or one for the step}}
  spmd.schedule "train" {
    spmd.call @forward micro 1
  }
}
