// Attention against central differences.
//
// RUN: kerf-inspect gradcheck %s --samples=64

// As many key heads as query heads.
kerf.model @multi_head() {
  %q = kerf.param "q" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %k = kerf.param "k" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %y = kerf.attention %q, %k, %v : tensor<2x3x4x2xf32>, tensor<2x3x4x2xf32>, tensor<2x3x4x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// Later keys are hidden.
kerf.model @causal() {
  %q = kerf.param "q" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %k = kerf.param "k" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %y = kerf.attention %q, %k, %v causal
      : tensor<2x3x4x2xf32>, tensor<2x3x4x2xf32>, tensor<2x3x4x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// Two query heads read one key head.
kerf.model @grouped() {
  %q = kerf.param "q" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %k = kerf.param "k" init<normal, 0.5> : tensor<2x3x2x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<2x3x2x2xf32>
  %y = kerf.attention %q, %k, %v causal
      : tensor<2x3x4x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// All query heads read one key head.
kerf.model @multi_query() {
  %q = kerf.param "q" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %k = kerf.param "k" init<normal, 0.5> : tensor<2x3x1x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<2x3x1x2xf32>
  %y = kerf.attention %q, %k, %v : tensor<2x3x4x2xf32>, tensor<2x3x1x2xf32>, tensor<2x3x1x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// Keys far behind are hidden.
kerf.model @window() {
  %q = kerf.param "q" init<normal, 0.5> : tensor<1x4x2x2xf32>
  %k = kerf.param "k" init<normal, 0.5> : tensor<1x4x2x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<1x4x2x2xf32>
  %y = kerf.attention %q, %k, %v causal window 2
      : tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<1x4x2x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<1x4x2x2xf32>
  %bent = kerf.tanh %mixed : tensor<1x4x2x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<1x4x2x2xf32>
  kerf.return %loss : tensor<f32>
}

// A scale of its own.
kerf.model @scale() {
  %q = kerf.param "q" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %k = kerf.param "k" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %y = kerf.attention %q, %k, %v causal scale 2.0
      : tensor<2x3x4x2xf32>, tensor<2x3x4x2xf32>, tensor<2x3x4x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// Values wider than keys.
kerf.model @wide_values() {
  %q = kerf.param "q" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %k = kerf.param "k" init<normal, 0.5> : tensor<2x3x2x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<2x3x2x3xf32>
  %y = kerf.attention %q, %k, %v causal
      : tensor<2x3x4x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x3xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4x3xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4x3xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4x3xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x4x3xf32>
  kerf.return %loss : tensor<f32>
}

// More keys than queries.
kerf.model @cross() {
  %q = kerf.param "q" init<normal, 0.5> : tensor<1x2x2x2xf32>
  %k = kerf.param "k" init<normal, 0.5> : tensor<1x4x2x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<1x4x2x2xf32>
  %y = kerf.attention %q, %k, %v : tensor<1x2x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<1x2x2x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<1x2x2x2xf32>
  %bent = kerf.tanh %mixed : tensor<1x2x2x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<1x2x2x2xf32>
  kerf.return %loss : tensor<f32>
}

// Other documents are hidden.
kerf.model @segments(segments %s: tensor<2x4xi32>) {
  %q = kerf.param "q" init<normal, 0.5> : tensor<2x4x2x2xf32>
  %k = kerf.param "k" init<normal, 0.5> : tensor<2x4x1x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<2x4x1x2xf32>
  %y = kerf.attention %q, %k, %v causal segments(%s, %s : tensor<2x4xi32>, tensor<2x4xi32>)
      : tensor<2x4x2x2xf32>, tensor<2x4x1x2xf32>, tensor<2x4x1x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x4x2x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x4x2x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x4x2x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x4x2x2xf32>
  kerf.return %loss : tensor<f32>
}

// One query sees nothing.
kerf.model @no_visible_key() {
  %q = kerf.param "q" init<normal, 0.5> : tensor<1x3x2x2xf32>
  %k = kerf.param "k" init<normal, 0.5> : tensor<1x3x2x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<1x3x2x2xf32>
  %sq = kerf.constant dense<[[0, 1, 2]]> : tensor<1x3xi32>
  %sk = kerf.constant dense<[[0, 2, 2]]> : tensor<1x3xi32>
  %y = kerf.attention %q, %k, %v segments(%sq, %sk : tensor<1x3xi32>, tensor<1x3xi32>)
      : tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<1x3x2x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<1x3x2x2xf32>
  %bent = kerf.tanh %mixed : tensor<1x3x2x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<1x3x2x2xf32>
  kerf.return %loss : tensor<f32>
}

// The gradient draws the mask again.
kerf.model @dropout(seed %seed: tensor<i32>) {
  %q = kerf.param "q" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %k = kerf.param "k" init<normal, 0.5> : tensor<2x3x2x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<2x3x2x2xf32>
  %y = kerf.attention %q, %k, %v causal dropout 0.25 "drop" seed %seed step %seed
      : tensor<2x3x4x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// A shard of the queries and of the batch, with dropout.
kerf.model @offsets(seed %seed: tensor<i32>) {
  %q = kerf.param "q" init<normal, 0.5> : tensor<2x2x4x2xf32>
  %k = kerf.param "k" init<normal, 0.5> : tensor<2x3x2x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<2x3x2x2xf32>
  %zero = kerf.constant dense<0> : tensor<i32>
  %one = kerf.constant dense<1> : tensor<i32>
  %two = kerf.constant dense<2> : tensor<i32>
  %y = kerf.attention %q, %k, %v causal window 2 offsets(%one, %zero, %two, %one) global [4, 4, 8, 8]
      dropout 0.25 "drop" seed %seed step %one layer %two
          : tensor<2x2x4x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x2x4x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x2x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x2x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x2x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// One value is query, key and value.
kerf.model @self() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<1x3x2x2xf32>
  %y = kerf.attention %x, %x, %x causal
      : tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<1x3x2x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<1x3x2x2xf32>
  %bent = kerf.tanh %mixed : tensor<1x3x2x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<1x3x2x2xf32>
  kerf.return %loss : tensor<f32>
}

// The model asks for the log-sum-exp itself, without using it in the loss.
kerf.model @with_lse() {
  %x = kerf.param "x" init<normal, 0.5> : tensor<1x3x2x2xf32>
  %y, %l = kerf.attention %x, %x, %x causal lse
      : tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<1x3x2x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<1x3x2x2xf32>
  %bent = kerf.tanh %mixed : tensor<1x3x2x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<1x3x2x2xf32>
  kerf.return %loss : tensor<f32>
}

// Only the values are trainable.
kerf.model @values_only() {
  %x = kerf.param "x" init<normal, 0.5> frozen : tensor<1x3x2x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<1x3x2x2xf32>
  %y = kerf.attention %x, %x, %v causal
      : tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<1x3x2x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<1x3x2x2xf32>
  %bent = kerf.tanh %mixed : tensor<1x3x2x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<1x3x2x2xf32>
  kerf.return %loss : tensor<f32>
}

// Scores are bounded.
kerf.model @softcap() {
  %q = kerf.param "q" init<normal, 0.8> : tensor<2x3x4x2xf32>
  %k = kerf.param "k" init<normal, 0.8> : tensor<2x3x4x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %y = kerf.attention %q, %k, %v softcap 0.5
      : tensor<2x3x4x2xf32>, tensor<2x3x4x2xf32>, tensor<2x3x4x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// The same under masks.
kerf.model @softcap_grouped() {
  %q = kerf.param "q" init<normal, 0.8> : tensor<2x3x4x2xf32>
  %k = kerf.param "k" init<normal, 0.8> : tensor<2x3x2x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<2x3x2x2xf32>
  %y = kerf.attention %q, %k, %v causal window 2 scale 1.5 softcap 0.7
      : tensor<2x3x4x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4x2xf32>
  %mixed = kerf.mul %y, %mix : tensor<2x3x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// Heads attend to nothing, too.
kerf.model @sink() {
  %q = kerf.param "q" init<normal, 0.8> : tensor<2x3x4x2xf32>
  %k = kerf.param "k" init<normal, 0.8> : tensor<2x3x4x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<2x3x4x2xf32>
  %y, %l = kerf.attention %q, %k, %v causal lse
      : tensor<2x3x4x2xf32>, tensor<2x3x4x2xf32>, tensor<2x3x4x2xf32>
  %s = kerf.param "s" init<normal, 0.7> : tensor<4xf32>
  %z, %m = kerf.attention_sink %y, %l, %s : tensor<2x3x4x2xf32>, tensor<2x4x3xf32>, tensor<4xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4x2xf32>
  %mixed = kerf.mul %z, %mix : tensor<2x3x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x4x2xf32>
  kerf.return %loss : tensor<f32>
}

// Key heads are shared, scores bounded, and the result without sinks is read, too.
kerf.model @sink_grouped() {
  %q = kerf.param "q" init<normal, 0.8> : tensor<2x3x4x2xf32>
  %k = kerf.param "k" init<normal, 0.8> : tensor<2x3x2x2xf32>
  %v = kerf.param "v" init<normal, 0.5> : tensor<2x3x2x2xf32>
  %y, %l = kerf.attention %q, %k, %v causal softcap 0.8 lse
      : tensor<2x3x4x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>
  %s = kerf.param "s" init<normal, 0.7> : tensor<4xf32>
  %z, %m = kerf.attention_sink %y, %l, %s : tensor<2x3x4x2xf32>, tensor<2x4x3xf32>, tensor<4xf32>
  %both = kerf.add %y, %z : tensor<2x3x4x2xf32>
  %mix = kerf.param "mix" init<normal, 0.5> frozen : tensor<2x3x4x2xf32>
  %mixed = kerf.mul %both, %mix : tensor<2x3x4x2xf32>
  %bent = kerf.tanh %mixed : tensor<2x3x4x2xf32>
  %loss = kerf.reduce sum %bent dims [0, 1, 2, 3] : tensor<2x3x4x2xf32>
  kerf.return %loss : tensor<f32>
}
