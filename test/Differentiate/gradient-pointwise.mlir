// Element-wise ops against central differences.
//
// RUN: kerf-inspect gradcheck %s --samples=64

// Any number.
kerf.model @neg() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  %y = kerf.neg %x : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Any number.
kerf.model @exp() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  %y = kerf.exp %x : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Any number.
kerf.model @tanh() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  %y = kerf.tanh %x : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Any number.
kerf.model @erf() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  %y = kerf.erf %x : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Any number.
kerf.model @sin() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  %y = kerf.sin %x : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Any number.
kerf.model @cos() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  %y = kerf.cos %x : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Any number.
kerf.model @logistic() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  %y = kerf.logistic %x : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Positive numbers.
kerf.model @log() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  %one = kerf.constant dense<1.0> : tensor<2x3xf32>
  %square = kerf.mul %x, %x : tensor<2x3xf32>
  %p = kerf.add %square, %one : tensor<2x3xf32>
  %y = kerf.log %p : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Positive numbers.
kerf.model @sqrt() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  %one = kerf.constant dense<1.0> : tensor<2x3xf32>
  %square = kerf.mul %x, %x : tensor<2x3xf32>
  %p = kerf.add %square, %one : tensor<2x3xf32>
  %y = kerf.sqrt %p : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Positive numbers.
kerf.model @rsqrt() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x3xf32>
  %one = kerf.constant dense<1.0> : tensor<2x3xf32>
  %square = kerf.mul %x, %x : tensor<2x3xf32>
  %p = kerf.add %square, %one : tensor<2x3xf32>
  %y = kerf.rsqrt %p : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Both operands, and one value as both.
kerf.model @add() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<2x3xf32>
  %ab = kerf.add %a, %b : tensor<2x3xf32>
  %aa = kerf.add %ab, %ab : tensor<2x3xf32>
  %y = kerf.add %ab, %aa : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Both operands, and one value as both.
kerf.model @sub() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<2x3xf32>
  %ab = kerf.sub %a, %b : tensor<2x3xf32>
  %aa = kerf.sub %ab, %ab : tensor<2x3xf32>
  %y = kerf.add %ab, %aa : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Both operands, and one value as both.
kerf.model @mul() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<2x3xf32>
  %ab = kerf.mul %a, %b : tensor<2x3xf32>
  %aa = kerf.mul %ab, %ab : tensor<2x3xf32>
  %y = kerf.add %ab, %aa : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// A divisor away from zero.
kerf.model @div() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<2x3xf32>
  %e = kerf.exp %b : tensor<2x3xf32>
  %y = kerf.div %a, %e : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// The gradient goes to the operand that is taken.
kerf.model @max() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<2x3xf32>
  %y = kerf.max %a, %b : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// The gradient goes to the operand that is taken.
kerf.model @min() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<2x3xf32>
  %y = kerf.min %a, %b : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Of equal values each has half of it, as central differences find.
kerf.model @ties() {
  %a = kerf.param "a" init<ones> : tensor<2x3xf32>
  %b = kerf.param "b" init<ones> : tensor<2x3xf32>
  %c = kerf.param "c" init<normal, 0.5> : tensor<2x3xf32>
  %larger = kerf.max %a, %b {share_ties} : tensor<2x3xf32>
  %smaller = kerf.min %b, %a {share_ties} : tensor<2x3xf32>
  %sum = kerf.add %larger, %smaller : tensor<2x3xf32>
  %y = kerf.max %sum, %c {share_ties} : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %again = kerf.mul %mixed, %larger : tensor<2x3xf32>
  %bent = kerf.tanh %again : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// The gradient goes to the choice that is taken.
kerf.model @select() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3xf32>
  %b = kerf.param "b" init<normal, 0.5> : tensor<2x3xf32>
  %c = kerf.param "c" init<normal, 0.5> frozen : tensor<2x3xf32>
  %zero = kerf.constant dense<0.0> : tensor<2x3xf32>
  %is = kerf.compare gt %c, %zero : tensor<2x3xf32>
  %y = kerf.select %is, %a, %b : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// The gradient is cast back.
kerf.model @cast() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3xf32>
  %w = kerf.cast %a : tensor<2x3xf32> -> tensor<2x3xf64>
  %s = kerf.mul %w, %w : tensor<2x3xf64>
  %y = kerf.cast %s : tensor<2x3xf64> -> tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}

// Only one operand of each op is trainable.
kerf.model @one_side() {
  %a = kerf.param "a" init<normal, 0.5> : tensor<2x3xf32>
  %f = kerf.param "f" init<normal, 0.5> frozen : tensor<2x3xf32>
  %e = kerf.exp %f : tensor<2x3xf32>
  %0 = kerf.add %f, %a : tensor<2x3xf32>
  %1 = kerf.sub %f, %0 : tensor<2x3xf32>
  %2 = kerf.mul %f, %1 : tensor<2x3xf32>
  %3 = kerf.div %2, %e : tensor<2x3xf32>
  %4 = kerf.max %f, %3 : tensor<2x3xf32>
  %y = kerf.add %4, %3 : tensor<2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1] : tensor<2x3xf32>
  kerf.return %loss : tensor<f32>
}
