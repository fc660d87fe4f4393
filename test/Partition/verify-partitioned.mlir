// RUN: kerf-opt --split-input-file --verify-diagnostics --kerf-verify-partitioned %s

// expected-error @below {{is no 'spmd.program' yet; run 'kerf-partition'}}
kerf.model @left(%x: tensor<f32>) {
  kerf.return %x : tensor<f32>
}

// -----

spmd.program @not_declared over <> micro_batches 1 slots 1 {
  spmd.func @forward() {
    // expected-error @below {{of "w", which the program does not declare}}
    %w = kerf.param "w" init<ones> : tensor<4xf32>
    spmd.return
  }
}

// -----

spmd.program @other_type over <tp = 2> micro_batches 1 slots 1 {
  // expected-note @below {{as it is declared}}
  spmd.param "w" global tensor<4xf32> sharded [[tp]] init <ones> frozen : tensor<2xf32>
  spmd.func @forward() {
    // expected-error @below {{of "w" expected 'tensor<2xf32>', found 'tensor<4xf32>'}}
    %w = kerf.param "w" init<ones> frozen : tensor<4xf32>
    spmd.return
  }
}

// -----

spmd.program @other_rule over <> micro_batches 1 slots 1 {
  // expected-note @below {{as it is declared}}
  spmd.param "w" global tensor<4xf32> sharded [[]] rule #kerf.sgd<> init <ones> : tensor<4xf32>
  spmd.func @update() {
    %g = kerf.constant dense<0.0> : tensor<4xf32>
    %r = kerf.constant dense<0.0> : tensor<f32>
    %t = kerf.constant dense<1> : tensor<i32>
    // expected-error @below {{of "w" does not match the declared shard, rule or range}}
    kerf.update "w" rule #kerf.adamw<> by %g rate %r step %t : tensor<4xf32>
    spmd.return
  }
}

// -----

spmd.program @assigned over <tp = 2> micro_batches 1 slots 1 {
  spmd.func @update() {
    // expected-error @below {{has a 'kerf.assign', which partition removes}}
    %g = kerf.constant {kerf.assign = #kerf.assign<b = [tp]>} dense<0.0> : tensor<4xf32>
    spmd.return
  }
}
