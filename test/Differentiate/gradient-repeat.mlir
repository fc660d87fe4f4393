// Repeats against central differences; written out, the same.
//
// RUN: kerf-inspect gradcheck %s --samples=64
// RUN: kerf-opt --kerf-unroll-repeat %s | kerf-inspect gradcheck - --samples=64

// Parameters of each iteration, one shared by all, and the first carried value.
kerf.model @own_and_shared() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x3xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<3x3xf32>
    %b = kerf.param "b" init<normal, 0.5> : tensor<3xf32>
    %u = kerf.linear %h, %w bias %b : tensor<2x3xf32>, tensor<3x3xf32>, tensor<3xf32>
    %a = kerf.tanh %u : tensor<2x3xf32>
    %n = kerf.add %h, %a : tensor<2x3xf32>
    kerf.yield %n : tensor<2x3xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed0 = kerf.mul %y, %mix0 : tensor<2x3xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<2x3xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss0 : tensor<f32>
}

// The shared parameter and the iteration's own are read twice in the body.
kerf.model @shared_twice() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<3xf32>
  %y = kerf.repeat %i = 2 to 5 (%h = %x : tensor<3xf32>) {
    %a = kerf.param "a" init<normal, 0.5> : tensor<3xf32>
    %b = kerf.param "a" init<normal, 0.5> : tensor<3xf32>
    %c = kerf.param "h.{i}.c" init<normal, 0.5> : tensor<3xf32>
    %d = kerf.param "h.{i}.c" init<normal, 0.5> : tensor<3xf32>
    %0 = kerf.mul %h, %a : tensor<3xf32>
    %1 = kerf.add %0, %b : tensor<3xf32>
    %2 = kerf.mul %1, %c : tensor<3xf32>
    %3 = kerf.sub %2, %d : tensor<3xf32>
    %4 = kerf.tanh %3 : tensor<3xf32>
    kerf.yield %4 : tensor<3xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<3xf32>
  %mixed0 = kerf.mul %y, %mix0 : tensor<3xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<3xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<3xf32>
  kerf.return %loss0 : tensor<f32>
}

// Values from outside: one that depends on a parameter, a parameter itself, a frozen one.
kerf.model @captured() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<3xf32>
  %w = kerf.param "w" init<normal, 0.5> : tensor<3xf32>
  %f = kerf.param "f" init<normal, 0.5> frozen : tensor<3xf32>
  %e = kerf.exp %w : tensor<3xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<3xf32>) {
    %0 = kerf.mul %h, %e : tensor<3xf32>
    %1 = kerf.mul %0, %w : tensor<3xf32>
    %2 = kerf.add %1, %f : tensor<3xf32>
    %3 = kerf.tanh %2 : tensor<3xf32>
    kerf.yield %3 : tensor<3xf32>
  }
  %z = kerf.mul %y, %e : tensor<3xf32>
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<3xf32>
  %mixed0 = kerf.mul %z, %mix0 : tensor<3xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<3xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<3xf32>
  kerf.return %loss0 : tensor<f32>
}

// Stacked results reach the loss beside the carried one; one value is yielded as both.
kerf.model @stacked() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<3xf32>
  %y, %all, %other = kerf.repeat %i = 0 to 3 (%h = %x : tensor<3xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<3xf32>
    %m = kerf.mul %h, %w : tensor<3xf32>
    %n = kerf.sin %m : tensor<3xf32>
    %o = kerf.exp %m : tensor<3xf32>
    kerf.yield %n stack(%n, %o) : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<3xf32>
  %mixed0 = kerf.mul %y, %mix0 : tensor<3xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<3xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<3xf32>
  %mix1 = kerf.param "mix1" init<normal, 0.5> frozen : tensor<3x3xf32>
  %mixed1 = kerf.mul %all, %mix1 : tensor<3x3xf32>
  %bent1 = kerf.tanh %mixed1 : tensor<3x3xf32>
  %loss1 = kerf.reduce sum %bent1 dims [0, 1] : tensor<3x3xf32>
  %mix2 = kerf.param "mix2" init<normal, 0.5> frozen : tensor<3x3xf32>
  %mixed2 = kerf.mul %other, %mix2 : tensor<3x3xf32>
  %bent2 = kerf.tanh %mixed2 : tensor<3x3xf32>
  %loss2 = kerf.reduce sum %bent2 dims [0, 1] : tensor<3x3xf32>
  %sum1 = kerf.add %loss0, %loss1 : tensor<f32>
  %loss = kerf.add %sum1, %loss2 : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Only a stack reaches the loss; another one and the carried value do not.
kerf.model @stacked_only() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<3xf32>
  %y, %all, %other = kerf.repeat %i = 0 to 3 (%h = %x : tensor<3xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<3xf32>
    %m = kerf.mul %h, %w : tensor<3xf32>
    %n = kerf.sin %m : tensor<3xf32>
    %o = kerf.exp %m : tensor<3xf32>
    kerf.yield %n stack(%n, %o) : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<3x3xf32>
  %mixed0 = kerf.mul %other, %mix0 : tensor<3x3xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<3x3xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0, 1] : tensor<3x3xf32>
  kerf.return %loss0 : tensor<f32>
}

// Iterations read slices of a parameter, of a computed stack and of a frozen one.
kerf.model @slices() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2xf32>
  %ws = kerf.param "ws" init<normal, 0.5> : tensor<3x2xf32>
  %fs = kerf.param "fs" init<normal, 0.5> frozen : tensor<3x2xf32>
  %es = kerf.exp %ws : tensor<3x2xf32>
  %y = kerf.repeat %i = 4 to 7 (%h = %x : tensor<2xf32>)
      slices(%w = %ws : tensor<3x2xf32>, %e = %es : tensor<3x2xf32>, %f = %fs : tensor<3x2xf32>) {
    %0 = kerf.mul %h, %w : tensor<2xf32>
    %1 = kerf.mul %0, %e : tensor<2xf32>
    %2 = kerf.add %1, %f : tensor<2xf32>
    %3 = kerf.mul %2, %e : tensor<2xf32>
    kerf.yield %3 : tensor<2xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<2xf32>
  %mixed0 = kerf.mul %y, %mix0 : tensor<2xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<2xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<2xf32>
  kerf.return %loss0 : tensor<f32>
}

// One stack is sliced twice.
kerf.model @same_slices() {
  %ws = kerf.param "ws" init<normal, 0.5> : tensor<3x2xf32>
  %first = kerf.constant dense<[0.5, -1.5]> : tensor<2xf32>
  %y, %all = kerf.repeat %i = 0 to 3 (%h = %first : tensor<2xf32>)
      slices(%w = %ws : tensor<3x2xf32>, %v = %ws : tensor<3x2xf32>) {
    %0 = kerf.mul %h, %w : tensor<2xf32>
    %1 = kerf.tanh %0 : tensor<2xf32>
    %2 = kerf.mul %1, %v : tensor<2xf32>
    kerf.yield %2 stack(%1) : tensor<2xf32>, tensor<2xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<2xf32>
  %mixed0 = kerf.mul %y, %mix0 : tensor<2xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<2xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<2xf32>
  %mix1 = kerf.param "mix1" init<normal, 0.5> frozen : tensor<3x2xf32>
  %mixed1 = kerf.mul %all, %mix1 : tensor<3x2xf32>
  %bent1 = kerf.tanh %mixed1 : tensor<3x2xf32>
  %loss1 = kerf.reduce sum %bent1 dims [0, 1] : tensor<3x2xf32>
  %loss = kerf.add %loss0, %loss1 : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A model may hold a reverse repeat itself.
kerf.model @reverse() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2xf32>
  %ws = kerf.param "ws" init<normal, 0.5> : tensor<3x2xf32>
  %y, %all = kerf.repeat reverse %i = 1 to 4 (%h = %x : tensor<2xf32>) slices(%w = %ws
      : tensor<3x2xf32>) {
    %v = kerf.param "h.{i}.v" init<normal, 0.5> : tensor<2xf32>
    %0 = kerf.mul %h, %w : tensor<2xf32>
    %1 = kerf.sub %0, %v : tensor<2xf32>
    %2 = kerf.tanh %1 : tensor<2xf32>
    kerf.yield %2 stack(%0) : tensor<2xf32>, tensor<2xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<2xf32>
  %mixed0 = kerf.mul %y, %mix0 : tensor<2xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<2xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<2xf32>
  %mix1 = kerf.param "mix1" init<normal, 0.5> frozen : tensor<3x2xf32>
  %mixed1 = kerf.mul %all, %mix1 : tensor<3x2xf32>
  %bent1 = kerf.tanh %mixed1 : tensor<3x2xf32>
  %loss1 = kerf.reduce sum %bent1 dims [0, 1] : tensor<3x2xf32>
  %loss = kerf.add %loss0, %loss1 : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Repeats after each other: one's stack is the other's slices, its result the other's
// captured value; they share a parameter, with each other and with an op outside.
kerf.model @chain() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2xf32>
  %s = kerf.param "s" init<normal, 0.5> : tensor<2xf32>
  %y, %all = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2xf32>) {
    %s1 = kerf.param "s" init<normal, 0.5> : tensor<2xf32>
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<2xf32>
    %0 = kerf.mul %h, %s1 : tensor<2xf32>
    %1 = kerf.add %0, %w : tensor<2xf32>
    kerf.yield %1 stack(%0) : tensor<2xf32>, tensor<2xf32>
  }
  %z = kerf.repeat %i = 0 to 3 (%h = %s : tensor<2xf32>) slices(%a = %all : tensor<3x2xf32>) {
    %s2 = kerf.param "s" init<normal, 0.5> : tensor<2xf32>
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<2xf32>
    %0 = kerf.mul %h, %a : tensor<2xf32>
    %1 = kerf.mul %w, %y : tensor<2xf32>
    %2 = kerf.add %0, %1 : tensor<2xf32>
    %3 = kerf.mul %2, %s2 : tensor<2xf32>
    kerf.yield %3 : tensor<2xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<2xf32>
  %mixed0 = kerf.mul %z, %mix0 : tensor<2xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<2xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<2xf32>
  kerf.return %loss0 : tensor<f32>
}

// Two repeats cover the iterations of one pattern.
kerf.model @neighbours() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2xf32>
  %y = kerf.repeat %i = 0 to 2 (%h = %x : tensor<2xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<2xf32>
    %0 = kerf.mul %h, %w : tensor<2xf32>
    kerf.yield %0 : tensor<2xf32>
  }
  %z = kerf.repeat %i = 2 to 5 (%h = %y : tensor<2xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<2xf32>
    %0 = kerf.add %h, %w : tensor<2xf32>
    %1 = kerf.tanh %0 : tensor<2xf32>
    kerf.yield %1 : tensor<2xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<2xf32>
  %mixed0 = kerf.mul %z, %mix0 : tensor<2xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<2xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<2xf32>
  kerf.return %loss0 : tensor<f32>
}

// Carried values change places, one passes through, one is an integer.
kerf.model @swapped() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<2xf32>
  %c = kerf.param "c" init<normal, 0.5> : tensor<2xf32>
  %zero = kerf.constant dense<0> : tensor<i32>
  %x, %y, %z, %n = kerf.repeat %i = 0 to 3
      (%p = %a : tensor<2xf32>, %q = %b : tensor<2xf32>, %r = %c : tensor<2xf32>, %k = %zero
          : tensor<i32>) {
    %0 = kerf.mul %p, %r : tensor<2xf32>
    %f = kerf.cast %k : tensor<i32> -> tensor<f32>
    %g = kerf.broadcast %f dims [] : tensor<f32> -> tensor<2xf32>
    %1 = kerf.add %0, %g : tensor<2xf32>
    %j = kerf.add %k, %i : tensor<i32>
    kerf.yield %q, %1, %r, %j : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<i32>
  }
  %s = kerf.mul %x, %z : tensor<2xf32>
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<2xf32>
  %mixed0 = kerf.mul %s, %mix0 : tensor<2xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<2xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<2xf32>
  %mix1 = kerf.param "mix1" init<normal, 0.5> frozen : tensor<2xf32>
  %mixed1 = kerf.mul %y, %mix1 : tensor<2xf32>
  %bent1 = kerf.tanh %mixed1 : tensor<2xf32>
  %loss1 = kerf.reduce sum %bent1 dims [0] : tensor<2xf32>
  %loss = kerf.add %loss0, %loss1 : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A carried value that nobody reads after the repeat, but the other one in it.
kerf.model @unused_result() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<2xf32>
  %x, %y = kerf.repeat %i = 0 to 3 (%p = %a : tensor<2xf32>, %q = %b : tensor<2xf32>) {
    %0 = kerf.sin %p : tensor<2xf32>
    %1 = kerf.mul %p, %q : tensor<2xf32>
    kerf.yield %0, %1 : tensor<2xf32>, tensor<2xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<2xf32>
  %mixed0 = kerf.mul %y, %mix0 : tensor<2xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<2xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<2xf32>
  kerf.return %loss0 : tensor<f32>
}

// One iteration; the iteration number is a factor.
kerf.model @single() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2xf32>
  %y = kerf.repeat %i = 3 to 4 (%h = %x : tensor<2xf32>) {
    %f = kerf.cast %i : tensor<i32> -> tensor<f32>
    %g = kerf.broadcast %f dims [] : tensor<f32> -> tensor<2xf32>
    %w = kerf.param "h.{2*i+1}.w" init<normal, 0.5> : tensor<2xf32>
    %0 = kerf.mul %h, %w : tensor<2xf32>
    %1 = kerf.mul %0, %g : tensor<2xf32>
    kerf.yield %1 : tensor<2xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<2xf32>
  %mixed0 = kerf.mul %y, %mix0 : tensor<2xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<2xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<2xf32>
  kerf.return %loss0 : tensor<f32>
}

// Nothing in the repeat is trainable, or what enters it is not.
kerf.model @frozen_layers() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2xf32>
  %f = kerf.param "f" init<normal, 0.5> frozen : tensor<2xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2xf32>) {
    %w = kerf.param "a.{i}.w" init<normal, 0.5> frozen : tensor<2xf32>
    %0 = kerf.mul %h, %w : tensor<2xf32>
    %1 = kerf.tanh %0 : tensor<2xf32>
    kerf.yield %1 : tensor<2xf32>
  }
  %z = kerf.repeat %i = 0 to 3 (%h = %f : tensor<2xf32>) {
    %w = kerf.param "b.{i}.w" init<normal, 0.5> : tensor<2xf32>
    %0 = kerf.mul %h, %w : tensor<2xf32>
    %1 = kerf.sin %0 : tensor<2xf32>
    kerf.yield %1 : tensor<2xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<2xf32>
  %mixed0 = kerf.mul %y, %mix0 : tensor<2xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<2xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<2xf32>
  %mix1 = kerf.param "mix1" init<normal, 0.5> frozen : tensor<2xf32>
  %mixed1 = kerf.mul %z, %mix1 : tensor<2xf32>
  %bent1 = kerf.tanh %mixed1 : tensor<2xf32>
  %loss1 = kerf.reduce sum %bent1 dims [0] : tensor<2xf32>
  %loss = kerf.add %loss0, %loss1 : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// The carried value becomes trainable inside the repeat, through the second slot.
kerf.model @only_later() {
  %f = kerf.param "f" init<normal, 0.5> frozen : tensor<2xf32>
  %x, %y = kerf.repeat %i = 0 to 3 (%p = %f : tensor<2xf32>, %q = %f : tensor<2xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<2xf32>
    %0 = kerf.mul %q, %w : tensor<2xf32>
    %1 = kerf.sin %p : tensor<2xf32>
    kerf.yield %0, %1 : tensor<2xf32>, tensor<2xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<2xf32>
  %mixed0 = kerf.mul %x, %mix0 : tensor<2xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<2xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0] : tensor<2xf32>
  %mix1 = kerf.param "mix1" init<normal, 0.5> frozen : tensor<2xf32>
  %mixed1 = kerf.mul %y, %mix1 : tensor<2xf32>
  %bent1 = kerf.tanh %mixed1 : tensor<2xf32>
  %loss1 = kerf.reduce sum %bent1 dims [0] : tensor<2xf32>
  %loss = kerf.add %loss0, %loss1 : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Experts of each iteration.
kerf.model @experts() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<1x4x2xf32>
  %n = kerf.constant dense<[[1, 3]]> : tensor<1x2xi32>
  %y = kerf.repeat %i = 0 to 2 (%h = %x : tensor<1x4x2xf32>) {
    %w = kerf.param "h.{i}.experts.{e}.w" init<normal, 0.5> : tensor<2x2x2xf32>
    %0 = kerf.grouped_matmul %h, %w, %n : tensor<1x4x2xf32>, tensor<2x2x2xf32>, tensor<1x2xi32>
    %1 = kerf.add %h, %0 : tensor<1x4x2xf32>
    kerf.yield %1 : tensor<1x4x2xf32>
  }
  %mix0 = kerf.param "mix0" init<normal, 0.5> frozen : tensor<1x4x2xf32>
  %mixed0 = kerf.mul %y, %mix0 : tensor<1x4x2xf32>
  %bent0 = kerf.tanh %mixed0 : tensor<1x4x2xf32>
  %loss0 = kerf.reduce sum %bent0 dims [0, 1, 2] : tensor<1x4x2xf32>
  kerf.return %loss0 : tensor<f32>
}

// A decoder with tied embeddings, attention and dropout in the repeat.
kerf.model @decoder(tokens %t: tensor<2x3xi32>, targets %u: tensor<2x3xi32>, seed %seed: tensor<i32>) {
  %wte = kerf.param "wte" init<normal, 0.5> : tensor<6x4xf32>
  %x = kerf.embedding %t, %wte : tensor<2x3xi32>, tensor<6x4xf32>
  %y = kerf.repeat %i = 0 to 2 (%h = %x : tensor<2x3x4xf32>) {
    %g = kerf.param "h.{i}.norm" init<normal, 0.5> : tensor<4xf32>
    %wq = kerf.param "h.{i}.q" init<normal, 0.5> : tensor<4x4xf32>
    %wk = kerf.param "h.{i}.k" init<normal, 0.5> : tensor<2x4xf32>
    %n = kerf.rms_norm %h, %g : tensor<2x3x4xf32>, tensor<4xf32>
    %q0 = kerf.linear %n, %wq : tensor<2x3x4xf32>, tensor<4x4xf32>
    %k0 = kerf.linear %n, %wk : tensor<2x3x4xf32>, tensor<2x4xf32>
    %q1 = kerf.reshape %q0 : tensor<2x3x4xf32> -> tensor<2x3x2x2xf32>
    %k1 = kerf.reshape %k0 : tensor<2x3x2xf32> -> tensor<2x3x1x2xf32>
    %q = kerf.rope %q1 theta 100.0 : tensor<2x3x2x2xf32>
    %k = kerf.rope %k1 theta 100.0 : tensor<2x3x1x2xf32>
    %a = kerf.attention %q, %k, %k1 causal dropout 0.25 "attn" seed %seed step %seed layer %i
        : tensor<2x3x2x2xf32>, tensor<2x3x1x2xf32>, tensor<2x3x1x2xf32>
    %r = kerf.reshape %a : tensor<2x3x2x2xf32> -> tensor<2x3x4xf32>
    %d = kerf.dropout %r rate 0.25 "resid" seed %seed step %seed layer %i : tensor<2x3x4xf32>
    %s = kerf.add %h, %d : tensor<2x3x4xf32>
    kerf.yield %s : tensor<2x3x4xf32>
  }
  %logits = kerf.linear %y, %wte : tensor<2x3x4xf32>, tensor<6x4xf32>
  %n = kerf.count_valid %u : tensor<2x3xi32>
  %loss = kerf.cross_entropy %logits, %u normalizer %n z_loss 0.125
      : tensor<2x3x6xf32>, tensor<2x3xi32>
  kerf.return %loss : tensor<f32>
}
