// RUN: kerf-opt %s --kerf-build-commands --kerf-place-memory --split-input-file --verify-diagnostics

// An op that is no kernel has no command.
spmd.program @unfused over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4xf32> sharded [[]] : tensor<4xf32>
  spmd.output @y last : tensor<4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4xf32>
    // expected-error@+1 {{'kerf.exp' op has no command, expected a kernel, a library op or communication}}
    %y = kerf.exp %x : tensor<4xf32>
    spmd.write %y to @y : tensor<4xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// CPUs have no matmuls with gelu.
spmd.program @epilogue over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<8x8xf32> sharded [[], []] : tensor<8x8xf32>
  spmd.output @y last : tensor<8x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<8x8xf32>
    // expected-error@+1 {{'spmd.fused_matmul' op is not for target cpu; run the stage fuse for this target}}
    %y = spmd.fused_matmul (%a = %x : tensor<8x8xf32>) -> (tensor<8x8xf32>) {
      %p = kerf.linear %a, %a : tensor<8x8xf32>, tensor<8x8xf32>
      %g = kerf.gelu tanh %p : tensor<8x8xf32>
      spmd.yield %g : tensor<8x8xf32>
    }
    spmd.write %y to @y : tensor<8x8xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// A reshape of a part that is not evenly apart cannot be an address.
spmd.program @uneven over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<16xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    %s = kerf.slice %x offsets [0, 2] sizes [4, 4] : tensor<4x8xf32>
    // expected-error@+1 {{'kerf.reshape' op is no view: its elements are not evenly apart}}
    %y = kerf.reshape %s : tensor<4x4xf32> -> tensor<16xf32>
    spmd.write %y to @y : tensor<16xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// Ranks of a group are counted with the first axis slowest.
spmd.program @order over <dp = 2, tp = 2> micro_batches 1 slots 1 {
  spmd.output @y last : tensor<4xf32>
  spmd.func @forward() {
    %x = spmd.fused () -> (tensor<4xf32>) {
      %c = kerf.constant dense<1.0> : tensor<4xf32>
      spmd.yield %c : tensor<4xf32>
    }
    // expected-error@+2 {{'spmd.all_reduce' op expected axes in the order of the mesh}}
    // expected-note@+1 {{the mesh is}}
    %y = spmd.all_reduce sum %x over [tp, dp] : tensor<4xf32>
    spmd.write %y to @y : tensor<4xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// Copies are enough for what the schedule keeps: with 2, the third forward
// overwrites what the first backward reads.
// expected-error@+1 {{'exec.program' op has 2 slots of @saved, but micro-batches 0 and 2 would be in one of them at one time}}
spmd.program @crowded over <> micro_batches 3 slots 2 {
  spmd.buffer @saved slot : tensor<4xf32>
  spmd.output @y last : tensor<4xf32>
  spmd.func @forward() {
    %x = spmd.fused () -> (tensor<4xf32>) {
      %c = kerf.constant dense<1.0> : tensor<4xf32>
      spmd.yield %c : tensor<4xf32>
    }
    spmd.write %x to @saved : tensor<4xf32>
    spmd.return
  }
  spmd.func @backward() {
    %x = spmd.read @saved : tensor<4xf32>
    spmd.write %x to @y : tensor<4xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    spmd.call @forward micro 2
    spmd.call @backward micro 0
    spmd.call @backward micro 1
    spmd.call @backward micro 2
  }
}

// -----

// More copies than micro-batches hold nothing.
spmd.program @idle over <> micro_batches 2 slots 2 {
  // expected-error@+1 {{'spmd.buffer' op expected 1 to 2 slots, found 3}}
  spmd.buffer @a slot {slots = 3 : i64} : tensor<4xf32>
}

// -----

// The other ranks must get the updated piece.
spmd.program @ungathered over <dp = 2> micro_batches 1 slots 1 {
  spmd.param "w" global tensor<8xf32> sharded [[]] state over [dp] rule #kerf.sgd<> init <ones> : tensor<8xf32>
  spmd.input @g global tensor<4xf32> sharded [[]] : tensor<4xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  spmd.func @update() {
    %g = spmd.read @g : tensor<4xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    // expected-error@+1 {{'kerf.update' op updates a piece of "w", which no 'spmd.gather_param' of its function puts together}}
    kerf.update "w" rule #kerf.sgd<> by %g rate %rate step %step : tensor<4xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}

// -----

// A gather puts together what an update made.
spmd.program @idle_gather over <dp = 2> micro_batches 1 slots 1 {
  spmd.param "w" global tensor<8xf32> sharded [[]] state over [dp] rule #kerf.sgd<> init <ones> : tensor<8xf32>
  spmd.input @g global tensor<4xf32> sharded [[]] : tensor<4xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  spmd.func @update() {
    %g = spmd.read @g : tensor<4xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    // expected-error@+1 {{'spmd.gather_param' op of "w" [0 to 1] follows no 'kerf.update' of these in its function}}
    spmd.gather_param "w"
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}

// -----

// An update has the gradient of what it updates: of the piece.
spmd.program @whole_gradient over <dp = 2> micro_batches 1 slots 1 {
  spmd.param "w" global tensor<8xf32> sharded [[]] state over [dp] rule #kerf.sgd<> init <ones> : tensor<8xf32>
  spmd.input @g global tensor<8xf32> sharded [[]] : tensor<8xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  spmd.func @update() {
    %g = spmd.read @g : tensor<8xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    // expected-error@+1 {{'kerf.update' op of "w" expected a gradient of type 'tensor<4xf32>', found 'tensor<8xf32>'}}
    kerf.update "w" rule #kerf.sgd<> by %g rate %rate step %step : tensor<8xf32>
    spmd.gather_param "w"
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}

// -----

// Places are counted with the first axis slowest here too.
spmd.program @piece_order over <dp = 2, cp = 2> micro_batches 1 slots 1 {
  spmd.param "w" global tensor<8xf32> sharded [[]] state over [cp, dp] rule #kerf.sgd<> init <ones> : tensor<8xf32>
  spmd.input @g global tensor<2xf32> sharded [[]] : tensor<2xf32>
  spmd.input @rate role "learning_rate" global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step role "step" global tensor<i32> sharded [] : tensor<i32>
  spmd.func @update() {
    %g = spmd.read @g : tensor<2xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    kerf.update "w" rule #kerf.sgd<> by %g rate %rate step %step : tensor<2xf32>
    // expected-error@+2 {{'spmd.gather_param' op expected axes in the order of the mesh}}
    // expected-note@+1 {{the mesh is}}
    spmd.gather_param "w"
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}

// -----

// A loop reads the layers of one declaration: it does not cross chunks.
spmd.program @crosses over <> micro_batches 1 slots 1 {
  // expected-note@+1 {{this one ends at 2}}
  spmd.param "h.{i}.w" [0 to 2] global tensor<4xf32> sharded [[]] init <ones> frozen : tensor<4xf32>
  spmd.param "h.{i}.w" [2 to 4] global tensor<4xf32> sharded [[]] init <ones> frozen : tensor<4xf32>
  spmd.input @x global tensor<4xf32> sharded [[]] : tensor<4xf32>
  spmd.output @y last : tensor<4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4xf32>
    %r = kerf.repeat %i = 1 to 3 (%h = %x : tensor<4xf32>) {
      // expected-error@+1 {{'kerf.param' op of "h.{i}.w" [1 to 3], which no 'spmd.param' covers}}
      %w = kerf.param "h.{i}.w" init<ones> frozen : tensor<4xf32>
      kerf.yield %w : tensor<4xf32>
    }
    spmd.write %r to @y : tensor<4xf32>
    spmd.return
  }
}

// -----

// A read has the type that is declared.
spmd.program @read_type over <> micro_batches 1 slots 1 {
  spmd.param "w" global tensor<4xf32> sharded [[]] init <ones> frozen : tensor<4xf32>
  spmd.output @y last : tensor<2xf32>
  spmd.func @forward() {
    // expected-error@+1 {{'kerf.param' op of "w" expected 'tensor<4xf32>', found 'tensor<2xf32>'}}
    %w = kerf.param "w" init<ones> frozen : tensor<2xf32>
    spmd.write %w to @y : tensor<2xf32>
    spmd.return
  }
}

// -----

// Bytes are sent as they lie: columns of a matrix are not adjacent.
spmd.program @columns over <pp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    %s = kerf.slice %x offsets [0, 0] sizes [4, 4] : tensor<4x8xf32>
    // expected-error@+1 {{'spmd.send' op reads or writes a view whose elements are not adjacent}}
    spmd.send %s to 1 on "forward" : tensor<4x4xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}

// -----

// Columns beside a value need a copy, which is a kernel's work.
spmd.program @beside over <> micro_batches 1 slots 1 {
  spmd.param "w" global tensor<4x4xf32> sharded [[], []] init <ones> frozen : tensor<4x4xf32>
  spmd.func @forward() {
    %w = kerf.param "w" init<ones> frozen : tensor<4x4xf32>
    // expected-error@+1 {{'kerf.pad' op is no view: expected rows after a value that begins its buffer, else a kernel}}
    %p = kerf.pad %w low [0, 0] high [0, 2] : tensor<4x4xf32>
    spmd.return
  }
}

// -----

// Buffers that lie apart, one of which has its place.
exec.program @mixed arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 128, 0, 0] {
  exec.buffer "a" class 5 at 0 bytes 64 scope function copies 1 live []
  // expected-error@+1 {{has its place already, others have a scope}}
  exec.buffer "b" class 5 at 64 bytes 64 live [0, 1]
}

// -----

exec.program @overlap arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 128, 0, 0] {
  exec.buffer "a" class 5 at 0 bytes 64 scope function copies 1 live []
  // expected-error@+1 {{shares bytes with the one before it}}
  exec.buffer "b" class 5 at 32 bytes 64 scope function copies 1 live []
}

// -----

exec.program @nowhere arena 192 lower_bound 192 classes [0, 0, 0, 0, 0, 64, 0, 0] {
  exec.buffer "a" class 5 at 0 bytes 64 scope function copies 1 live []
  exec.func @update {
    // expected-error@+1 {{names address 128, which is in no buffer}}
    exec.command zero "a" [4] [#exec.arena<write f32 128 bytes 4>]
  }
}
