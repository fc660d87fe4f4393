// RUN: kerf-opt %s --split-input-file --verify-diagnostics

// The arena is a multiple of 64 bytes.
// expected-error@+1 {{expected arena >= lower_bound >= 0, multiples of 64, found 100 and 64}}
exec.program @program_c1 arena 100 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
}

// -----

// No arena is below its lower bound.
// expected-error@+1 {{expected arena >= lower_bound >= 0, multiples of 64, found 64 and 128}}
exec.program @program_c1_bound arena 64 lower_bound 128 classes [0, 0, 0, 0, 0, 0, 0, 0] {
}

// -----

// There are eight classes of buffers.
// expected-error@+1 {{expected 8 classes, found 7}}
exec.program @program_c2 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0] {
}

// -----

// The last byte counts.
exec.program @program_c3 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  exec.func @forward {
    // expected-error@+1 {{operand [4, 68) lies outside the arena of 64 bytes}}
    exec.command zero "h" [64] [#exec.arena<write f32 4 bytes 64>]
  }
}

// -----

// So does the last iteration.
exec.program @program_c3_loop arena 192 lower_bound 192 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  exec.func @forward {
    exec.loop 1 to 4 {
      // expected-error@+1 {{operand [64, 256) lies outside the arena of 192 bytes}}
      exec.command zero "h" [64] [#exec.arena<write f32 0 iter 64 bytes 64>]
    }
  }
}

// -----

// Each dimension is cut by a list of axes, maybe an empty one.
exec.program @param_c1 arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected one list of axes per dimension of 'tensor<4x8xf32>', found [[]]}}
  exec.param "w" [0 to 1] tensor<4x8xf32> local tensor<4x8xf32> sharded [[]] init <zeros> at 0 by 128
}

// -----

// A part has the rank of the whole.
exec.program @param_c1_rank arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected tensors of one rank, found 'tensor<4x8xf32>' and 'tensor<32xf32>'}}
  exec.param "w" [0 to 1] tensor<4x8xf32> local tensor<32xf32> sharded [[], []] init <zeros> at 0 by 128
}

// -----

// A state without an address.
exec.program @param_c2 arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected states {name, type, at, by}, with a block of 2 or more or without a dimension, found [{by = 64 : i64, name = "m", type = f32}]}}
  exec.param "w" [0 to 1] tensor<4xf32> local tensor<4xf32> sharded [[]] init <zeros> at 0 by 64 states [{name = "m", type = f32, by = 64}]
}

// -----

// A block of one element is the state itself.
exec.program @param_c2_block arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected states {name, type, at, by}, with a block of 2 or more or without a dimension, found}}
  exec.param "w" [0 to 1] tensor<4xf32> local tensor<4xf32> sharded [[]] init <zeros> at 0 by 64 states [{name = "m", type = f32, at = 64, by = 64, block = 1}]
}

// -----

// Pieces of more than 2^20 elements would be padding.
exec.program @param_c2_granule arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected a granule from 1 to 1048576, found 4294967552}}
  exec.param "w" [0 to 1] tensor<4xf32> local tensor<4xf32> sharded [[]] state over ["dp"] granule 4294967552 init <zeros> at 0 by 64
}

// -----

// A dimension is made of blocks of one size.
exec.program @param_c3 arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected 'blocks' with one number per dimension, which divides the local size, found [1, 3]}}
  exec.param "w" [0 to 1] tensor<4x16xf32> local tensor<4x8xf32> sharded [[], ["tp"]] blocks [1, 3] init <zeros> at 0 by 128
}

// -----

// Every dimension has blocks, if only one.
exec.program @param_c3_rank arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected 'blocks' with one number per dimension, which divides the local size, found [2]}}
  exec.param "w" [0 to 1] tensor<4x8xf32> local tensor<4x8xf32> sharded [[], []] blocks [2] init <zeros> at 0 by 128
}

// -----

// An axis cuts a dimension or the flattened shard, not both.
exec.program @param_c4 arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected 'state' over names of axes that split no dimension, found "tp"}}
  exec.param "w" [0 to 1] tensor<4x16xf32> local tensor<4x8xf32> sharded [[], ["tp"]] state over ["dp", "tp"] init <zeros> at 0 by 128
}

// -----

// Weights in pieces have their state in the same pieces.
exec.program @param_c4_weights arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected 'weights' over the axes of 'state'}}
  exec.param "w" [0 to 1] tensor<4x8xf32> local tensor<4x8xf32> sharded [[], []] weights over ["dp"] init <zeros> at 0 by 64
}

// -----

// A channel leads to another stage.
exec.program @channel_c1 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected two stages and at least one message, found 1, 1 and 2}}
  exec.channel "forward" from 1 to 1 bytes 64 holds 2
}

// -----

// It has room for a message.
exec.program @channel_c1_holds arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected two stages and at least one message, found 0, 1 and 0}}
  exec.channel "forward" from 0 to 1 bytes 64 holds 0
}

// -----

// Axes are names.
exec.program @input_c1 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected one list of axes per dimension of 'tensor<4xi32>', found [[1]]}}
  exec.input "tokens" role "tokens" tensor<4xi32> local tensor<4xi32> sharded [[1]] at 0
}

// -----

// Intervals come in order.
exec.program @buffer_c1 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected pairs first <= last, in order, found [5, 7, 3, 4]}}
  exec.buffer "h" class 5 at 0 bytes 64 live [5, 7, 3, 4]
}

// -----

// An interval has two ends.
exec.program @buffer_c1_odd arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected pairs first <= last, in order, found [5]}}
  exec.buffer "h" class 5 at 0 bytes 64 live [5]
}

// -----

// Copies are of one size.
exec.program @buffer_c2 arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected copies beside a scope, which divide its 64 bytes}}
  exec.buffer "h" class 5 at 0 bytes 64 scope slot copies 3 live []
}

// -----

// Values are computed in kernels.
exec.program @func_c1 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  exec.func @forward {
    // expected-error@+1 {{does not belong into a function, expected 'exec.command' or 'exec.loop'}}
    %x = kerf.constant dense<0.5> : tensor<4xf32>
  }
}

// -----

// A loop has an iteration.
exec.program @loop_c1 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  exec.func @forward {
    // expected-error@+1 {{expected 0 <= start < end, found 2 and 2}}
    exec.loop 2 to 2 {
    }
  }
}

// -----

// Loops are not nested: there is one iteration number.
exec.program @loop_c2 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  exec.func @forward {
    exec.loop 0 to 2 {
      // expected-error@+1 {{'exec.loop' op expects parent op 'exec.func'}}
      exec.loop 0 to 2 {
      }
    }
  }
}

// -----

// Nor do they hold anything but commands.
exec.program @loop_c2_kernel arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  exec.func @forward {
    exec.loop 0 to 2 {
      // expected-error@+1 {{does not belong into a loop, expected 'exec.command'}}
      %x = kerf.constant dense<0.5> : tensor<4xf32>
    }
  }
}

// -----

// A launch without a kernel.
exec.program @command_c1 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  exec.func @forward {
    // expected-error@+1 {{expected a kernel exactly for 'launch'}}
    exec.command launch "h" [] []
  }
}

// -----

// A loop is an op of its own.
exec.program @command_c2 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  exec.func @forward {
    // expected-error@+1 {{expected 'exec.loop' for a loop}}
    exec.command loop "h" [0, 2, 0, 1] []
  }
}

// -----

// An operand is a place, not a number.
exec.program @command_c3 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  exec.func @forward {
    // expected-error@+1 {{expected operands '#exec.arena', '#exec.scalar' or '#exec.absent', found 7 : i64}}
    exec.command zero "h" [64] [7]
  }
}

// -----

// An operand says what is done with it.
exec.program @arena_access arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  exec.func @forward {
    // expected-error@+1 {{expected read, write or update, found 'keep'}}
    exec.command zero "h" [64] [#exec.arena<keep f32 0 bytes 64>]
  }
}

// -----

// There are two schedules.
exec.program @schedule_c1 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  // expected-error@+1 {{expected 'train' or 'evaluate', found 'test'}}
  exec.schedule "test" {
  }
}

// -----

// A call needs its function.
exec.program @call_c1 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 0] {
  exec.schedule "train" {
    // expected-error@+1 {{calls unknown function 'forward'}}
    exec.call @forward
  }
}
