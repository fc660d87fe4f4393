// RUN: kerf-opt %s --kerf-verify-memory --split-input-file --verify-diagnostics

// Programs of tensors are gone.
// expected-error@+1 {{'spmd.program' op is left after memory, expected 'exec.program'}}
spmd.program @left over <> micro_batches 1 slots 1 {
}

// -----

// A launch needs its kernel.
exec.program @kernel arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.func @forward {
    // expected-error@+1 {{launches unknown kernel 'k0'}}
    exec.command launch @k0 "exp" [] []
  }
}

// -----

// It takes an operand for each argument and each result.
exec.program @operands arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k0(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = kerf.exp %x : tensor<4xf32>
    exec.yield %y : tensor<4xf32>
  }
  exec.func @forward {
    // expected-error@+1 {{has 1 operands, kernel 'k0' takes 2}}
    exec.command launch @k0 "exp" [] [#exec.arena<read f32 0 bytes 16>]
  }
}

// -----

// A buffer ends inside the arena.
exec.program @outside arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] {
  // expected-error@+1 {{"h" lies outside the arena of 64 bytes}}
  exec.buffer "h" class 5 at 32 bytes 64 live [0, 1]
}

// -----

// Two buffers that live at one time have no byte in common; the second lives of
// these two meet.
exec.program @overlap arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 64, 0, 0] {
  // expected-note@+1 {{"a" is here}}
  exec.buffer "a" class 5 at 0 bytes 64 live [0, 1, 6, 8]
  // expected-error@+1 {{"b" overlaps "a" at command 8}}
  exec.buffer "b" class 5 at 32 bytes 64 live [2, 4, 8, 9]
}

// -----

// A buffer without lives lives always.
exec.program @always arena 128 lower_bound 128 classes [64, 0, 0, 0, 0, 64, 0, 0] {
  // expected-note@+1 {{"w" is here}}
  exec.buffer "w" class 0 at 0 bytes 64 live []
  // expected-error@+1 {{"h" overlaps "w" at command 3}}
  exec.buffer "h" class 5 at 0 bytes 64 live [3, 3]
}

// -----

// Lives that interleave may share bytes, neighbours in memory may live together.
exec.program @good arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 128, 0, 0] {
  exec.buffer "a" class 5 at 0 bytes 64 live [0, 1, 6, 8]
  exec.buffer "b" class 5 at 0 bytes 64 live [2, 5, 9, 9]
  exec.buffer "c" class 5 at 64 bytes 64 live [0, 9]
}

// -----

// A message has a channel of its program.
exec.program @lost arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] attributes {stage = 0 : i64} {
  exec.func @forward {
    // expected-error@+1 {{of stage 0 fits no channel of its program: [0, 64]}}
    exec.command send "send" [0, 64] [#exec.arena<read f32 0 bytes 64>]
  }
}

// -----

// It goes the way that the channel does.
exec.program @stage0 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] {
  exec.channel "forward" from 0 to 1 bytes 64 holds 1
  exec.func @forward {
    // expected-error@+1 {{of stage 0 fits no channel of its program: [0, 64]}}
    exec.command receive "receive" [0, 64] [#exec.arena<write f32 0 bytes 64>]
  }
}

// -----

// It is no longer than the channel allows.
exec.program @stage0 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] {
  exec.channel "forward" from 0 to 1 bytes 32 holds 1
  exec.func @forward {
    // expected-error@+1 {{of stage 0 fits no channel of its program: [0, 64]}}
    exec.command send "send" [0, 64] [#exec.arena<read f32 0 bytes 64>]
  }
}

// -----

// Both ends say the same of a channel.
exec.program @stage0 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] {
  // expected-error@+1 {{"forward" has no equal at the other end, stage 1}}
  exec.channel "forward" from 0 to 1 bytes 64 holds 1
}
exec.program @stage1 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] {
  // expected-note@+1 {{its other end is here}}
  exec.channel "forward" from 0 to 1 bytes 64 holds 2
}

// -----

// Both ends know it: a channel of another name is another one.
exec.program @stage0 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] {
  // expected-error@+1 {{"forward" has no equal at the other end, stage 1}}
  exec.channel "forward" from 0 to 1 bytes 64 holds 1
}
exec.program @stage1 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] {
  exec.channel "update" from 0 to 1 bytes 64 holds 1
}

// -----

// A channel of a program begins or ends there.
exec.program @stage0 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] {
  // expected-error@+1 {{"forward" from 1 to 2 does not join stage 0 with one of the 3}}
  exec.channel "forward" from 1 to 2 bytes 64 holds 1
}
exec.program @stage1 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] {
}
exec.program @stage2 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] {
}

// -----

// Programs come in the order of the stages.
exec.program @stage0 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] attributes {stage = 0 : i64} {
}
// expected-error@+1 {{'exec.program' op of stage 2 is number 1 of the programs}}
exec.program @stage2 arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] attributes {stage = 2 : i64} {
}

// -----

// Stage 0 begins another model.
exec.program @one arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] attributes {stage = 0 : i64} {
}
exec.program @other arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] attributes {stage = 0 : i64} {
}
