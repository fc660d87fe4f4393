// RUN: kerf-opt --split-input-file --verify-diagnostics --kerf-verify-partitioned %s

// What each op needs is there: nothing is said.
spmd.program @sound over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.input @x global tensor<8x4xf32> sharded [[dp, micro], []] : tensor<2x4xf32>
  spmd.param "up" global tensor<6x4xf32> sharded [[tp], []] rule #kerf.sgd<> init <ones> : tensor<3x4xf32>
  spmd.param "down" global tensor<4x6xf32> sharded [[], [tp]] init <ones> frozen : tensor<4x3xf32>
  spmd.buffer @gradient step : tensor<3x4xf32>
  spmd.buffer @loss.part step : tensor<f32>
  spmd.output @loss last : tensor<f32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x4xf32>
    %up = kerf.param "up" init<ones> : tensor<3x4xf32>
    %down = kerf.param "down" init<ones> frozen : tensor<4x3xf32>
    %h = kerf.linear %x, %up : tensor<2x4xf32>, tensor<3x4xf32>
    %a = kerf.gelu tanh %h : tensor<2x3xf32>
    %p = kerf.linear %a, %down : tensor<2x3xf32>, tensor<4x3xf32>
    %y = spmd.all_reduce sum %p over [tp] : tensor<2x4xf32>
    %s = kerf.reduce sum %y dims [0, 1] : tensor<2x4xf32>
    spmd.accumulate %s into @loss.part : tensor<f32>
    %g = kerf.einsum "bn,bk->nk" %a, %x : tensor<2x3xf32>, tensor<2x4xf32> -> tensor<3x4xf32>
    spmd.accumulate %g into @gradient : tensor<3x4xf32>
    spmd.return
  }
  spmd.func @update() {
    %g = spmd.read @gradient : tensor<3x4xf32>
    %r = kerf.constant dense<0.0> : tensor<f32>
    %t = kerf.constant dense<1> : tensor<i32>
    %whole = spmd.all_reduce sum %g over [dp] : tensor<3x4xf32>
    kerf.update "up" rule #kerf.sgd<> by %whole rate %r step %t : tensor<3x4xf32>
    spmd.return
  }
  spmd.func @finish() {
    %part = spmd.read @loss.part : tensor<f32>
    %loss = spmd.all_reduce sum %part over [dp] : tensor<f32>
    spmd.write %loss to @loss : tensor<f32>
    spmd.return
  }
}

// -----

// What is equal along a dimension at first may be cut in later iterations.
spmd.program @becomes_cut over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2xf32> sharded [[]] : tensor<2xf32>
  spmd.param "w" global tensor<2x8xf32> sharded [[], [tp]] init <ones> frozen : tensor<2x4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2xf32>
    %first = kerf.broadcast %x dims [0] : tensor<2xf32> -> tensor<2x4xf32>
    %y = kerf.repeat %i = 0 to 2 (%a = %first : tensor<2x4xf32>) {
      %w = kerf.param "w" init<ones> frozen : tensor<2x4xf32>
      %s = kerf.add %a, %w : tensor<2x4xf32>
      kerf.yield %s : tensor<2x4xf32>
    }
    spmd.return
  }
}

// -----

// The sum of equal values is n times as much.
spmd.program @sum_of_equal over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4xf32> sharded [[]] : tensor<4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4xf32>
    // expected-error @below {{'spmd.all_reduce' op over 'tp' operand #0 is the same on all ranks, expected a sum that is still to be made}}
    %y = spmd.all_reduce sum %x over [tp] : tensor<4xf32>
    spmd.return
  }
}

// -----

// A maximum of parts is none of the whole.
spmd.program @maximum_of_parts over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4xf32> sharded [[tp]] : tensor<2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2xf32>
    // expected-error @below {{over 'tp' operand #0 is split along dimension 0, expected a maximum that is still to be made}}
    %y = spmd.all_reduce max %x over [tp] : tensor<2xf32>
    spmd.return
  }
}

// -----

// The function of a sum is no sum of functions.
spmd.program @dropped_sum over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x4xf32> sharded [[], [tp]] : tensor<2x2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x2xf32>
    %s = kerf.reduce sum %x dims [1] : tensor<2x2xf32>
    // expected-error @below {{over 'tp' operand #0 is a sum that is still to be made, expected it made, since the op is not linear in it}}
    %y = kerf.exp %s : tensor<2xf32>
    spmd.return
  }
}

// -----

// Of a maximum that is still to be made only maxima are taken.
spmd.program @dropped_maximum over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x4xf32> sharded [[], [tp]] : tensor<2x2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x2xf32>
    %m = kerf.reduce max %x dims [1] : tensor<2x2xf32>
    // expected-error @below {{over 'tp' operand #0 is a maximum that is still to be made, expected it made}}
    %y = kerf.neg %m : tensor<2xf32>
    spmd.return
  }
}

// -----

// Every rank would add the addend.
spmd.program @addend over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x4xf32> sharded [[], [tp]] : tensor<2x2xf32>
  spmd.input @y global tensor<2xf32> sharded [[]] : tensor<2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x2xf32>
    %y = spmd.read @y : tensor<2xf32>
    %s = kerf.reduce sum %x dims [1] : tensor<2x2xf32>
    // expected-error @below {{over 'tp' operand #1 is the same on all ranks, expected a sum that is still to be made, as operand #0}}
    %z = kerf.add %s, %y : tensor<2xf32>
    spmd.return
  }
}

// -----

// A product of two sums is no sum of products.
spmd.program @product_of_sums over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x4xf32> sharded [[], [tp]] : tensor<2x2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x2xf32>
    %s = kerf.reduce sum %x dims [1] : tensor<2x2xf32>
    // expected-error @below {{over 'tp' operand #1 is a sum that is still to be made, expected it made, as operand #0 is a sum that is still to be made}}
    %z = kerf.mul %s, %s : tensor<2xf32>
    spmd.return
  }
}

// -----

// A sum is multiplied by all of a weight.
spmd.program @sum_by_part over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x4x3xf32> sharded [[], [tp], []] : tensor<2x2x3xf32>
  spmd.param "w" global tensor<8x3xf32> sharded [[tp], []] init <ones> frozen : tensor<4x3xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x2x3xf32>
    %w = kerf.param "w" init<ones> frozen : tensor<4x3xf32>
    %s = kerf.reduce sum %x dims [1] : tensor<2x2x3xf32>
    // expected-error @below {{over 'tp' operand #1 is split along dimension 0, expected the same on all ranks, as operand #0 is a sum that is still to be made}}
    %y = kerf.linear %s, %w : tensor<2x3xf32>, tensor<4x3xf32>
    spmd.return
  }
}

// -----

// Rows of a softmax are whole.
spmd.program @part_of_a_row over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x4xf32> sharded [[], [tp]] : tensor<2x2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x2xf32>
    // expected-error @below {{over 'tp' operand #0 is split along dimension 1, expected it whole}}
    %y = kerf.softmax %x : tensor<2x2xf32>
    spmd.return
  }
}

// -----

// Dimensions of one factor are cut alike.
spmd.program @other_parts over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x2xf32> sharded [[], []] : tensor<2x2xf32>
  spmd.param "w" global tensor<8x4xf32> sharded [[], [tp]] init <ones> frozen : tensor<8x2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x2xf32>
    %w = kerf.param "w" init<ones> frozen : tensor<8x2xf32>
    // expected-error @below {{over 'tp' dimension 1 of operand #1 is split [tp][2], expected [2] as of operand #0}}
    %y = kerf.linear %x, %w : tensor<2x2xf32>, tensor<8x2xf32>
    spmd.return
  }
}

// -----

// Parts of blocks are no range.
spmd.program @blocks over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x12xf32> sharded [[], [tp]] : tensor<2x6xf32>
  spmd.param "w" global tensor<8x12xf32> sharded [[], [tp]] blocks [1, 3] init <ones> frozen : tensor<8x6xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x6xf32>
    %w = kerf.param "w" init<ones> frozen : tensor<8x6xf32>
    // expected-error @below {{dimension 1 of operand #1 is split [3][tp][2], expected [tp][6] as of operand #0}}
    %y = kerf.linear %x, %w : tensor<2x6xf32>, tensor<8x6xf32>
    spmd.return
  }
}

// -----

// Equal values are no parts.
spmd.program @gathered_twice over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4xf32> sharded [[]] : tensor<4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4xf32>
    // expected-error @below {{over 'tp' operand #0 is the same on all ranks, expected split along dimension 0}}
    %y = spmd.all_gather %x dim 0 over [tp] : tensor<4xf32> -> tensor<8xf32>
    spmd.return
  }
}

// -----

// Sums are no parts.
spmd.program @gathered_sum over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x4xf32> sharded [[], [tp]] : tensor<2x2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x2xf32>
    %s = kerf.reduce sum %x dims [1] : tensor<2x2xf32>
    // expected-error @below {{over 'tp' operand #0 is a sum that is still to be made, expected parts}}
    %y = spmd.all_gather %s dim 0 over [tp] : tensor<2xf32> -> tensor<4xf32>
    spmd.return
  }
}

// -----

// The blocks of a fused weight come together one by one.
spmd.program @order over <tp = 2> micro_batches 1 slots 1 {
  spmd.param "w" global tensor<12xf32> sharded [[tp]] blocks [3] init <ones> frozen : tensor<6xf32>
  spmd.func @forward() {
    %w = kerf.param "w" init<ones> frozen : tensor<6xf32>
    // expected-error @below {{puts parts of dimension 0 together, which is split [3][tp][2], in another order}}
    %y = spmd.all_gather %w dim 0 over [tp] : tensor<6xf32> -> tensor<12xf32>
    spmd.return
  }
}

// -----

// A part has no part of another rank's.
spmd.program @sliced_twice over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x4xf32> sharded [[tp], []] : tensor<2x4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x4xf32>
    // expected-error @below {{over 'tp' operand #0 is split along dimension 0, expected the same on all ranks}}
    %y = spmd.slice_own %x dim 1 over [tp] : tensor<2x4xf32> -> tensor<2x2xf32>
    spmd.return
  }
}

// -----

// An exchange moves a cut that is there.
spmd.program @exchange over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x4xf32> sharded [[tp], []] : tensor<2x4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x4xf32>
    // expected-error @below {{over 'tp' operand #0 is split along dimension 0, expected split along dimension 1}}
    %y = spmd.all_to_all %x split 0 concat 1 over [tp] : tensor<2x4xf32> -> tensor<1x8xf32>
    spmd.return
  }
}

// -----

// A part is told where it begins.
spmd.program @place over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @ids global tensor<3xi32> sharded [[]] vocabulary 8 : tensor<3xi32>
  spmd.param "w" global tensor<8x4xf32> sharded [[tp], []] init <ones> frozen : tensor<4x4xf32>
  spmd.func @forward() {
    %ids = spmd.read @ids : tensor<3xi32>
    %w = kerf.param "w" init<ones> frozen : tensor<4x4xf32>
    %at = spmd.offset [tp * 2]
    // expected-error @below {{is told the place of a dimension that is split [tp][4], found [tp][4]}}
    %y = kerf.embedding %ids, %w offset %at : tensor<3xi32>, tensor<4x4xf32>
    spmd.return
  }
}

// -----

// Of a ring all parts count.
spmd.program @ring over <cp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<1x4x2x4xf32> sharded [[], [cp], [], []] : tensor<1x2x2x4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<1x2x2x4xf32>
    %next = spmd.rotate %x over [cp] : tensor<1x2x2x4xf32>
    %own = kerf.attention %x, %x, %x : tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>
    %other = kerf.attention %x, %next, %next : tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>
    %all = kerf.add %own, %other : tensor<1x2x2x4xf32>
    %fine = kerf.softmax %all : tensor<1x2x2x4xf32>
    // expected-error @below {{over 'cp' operand #0 is made of some parts of the ring, expected all parts of the ring}}
    %y = kerf.softmax %own : tensor<1x2x2x4xf32>
    spmd.return
  }
}

// -----

// A part of a ring is not kept.
spmd.program @kept_part over <cp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<1x4x2x4xf32> sharded [[], [cp], [], []] : tensor<1x2x2x4xf32>
  spmd.buffer @b step : tensor<1x2x2x4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<1x2x2x4xf32>
    %own = kerf.attention %x, %x, %x : tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>
    // expected-error @below {{over 'cp' operand #0 is made of some parts of the ring, expected the whole}}
    spmd.write %own to @b : tensor<1x2x2x4xf32>
    spmd.return
  }
}

// -----

// Slots of all rows want the rows of all experts.
spmd.program @rows over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @rows global tensor<1x8x4xf32> sharded [[], [tp], []] : tensor<1x4x4xf32>
  spmd.input @slots global tensor<1x8x1xi32> sharded [[], [], []] vocabulary 8 : tensor<1x8x1xi32>
  spmd.func @forward() {
    %rows = spmd.read @rows : tensor<1x4x4xf32>
    %slots = spmd.read @slots : tensor<1x8x1xi32>
    // expected-error @below {{over 'tp' operand #0 is split along dimension 1, expected all rows, as the slots are those of all}}
    %y = kerf.combine %rows, %slots : tensor<1x4x4xf32>, tensor<1x8x1xi32>
    spmd.return
  }
}

// -----

// What owners bring back adds up, also of tokens that another axis cuts.
spmd.program @rows_of_owners over <tp = 2, cp = 2> micro_batches 1 slots 1 {
  spmd.input @rows global tensor<1x8x4xf32> sharded [[], [tp], []] : tensor<1x4x4xf32>
  spmd.input @slots global tensor<1x8x1xi32> sharded [[], [cp], []] vocabulary 8 : tensor<1x4x1xi32>
  spmd.func @forward() {
    %rows = spmd.read @rows : tensor<1x4x4xf32>
    %slots = spmd.read @slots : tensor<1x4x1xi32>
    %first = spmd.offset [tp * 4]
    %firsts = kerf.broadcast %first dims [] : tensor<i32> -> tensor<1x4x1xi32>
    %own = kerf.sub %slots, %firsts : tensor<1x4x1xi32>
    %y = kerf.combine %rows, %own : tensor<1x4x4xf32>, tensor<1x4x1xi32>
    // expected-error @below {{over 'tp' operand #0 is a sum that is still to be made, expected it made, since the op is not linear in it}}
    %z = kerf.exp %y : tensor<1x4x4xf32>
    spmd.return
  }
}

// -----

// Ranks take the rows of their experts out of all tokens.
spmd.program @tokens over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<1x8x4xf32> sharded [[], [tp], []] : tensor<1x4x4xf32>
  spmd.input @slots global tensor<1x4x1xi32> sharded [[], [], []] vocabulary 8 : tensor<1x4x1xi32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<1x4x4xf32>
    %slots = spmd.read @slots : tensor<1x4x1xi32>
    %first = spmd.offset [tp * 4]
    %firsts = kerf.broadcast %first dims [] : tensor<i32> -> tensor<1x4x1xi32>
    %own = kerf.sub %slots, %firsts : tensor<1x4x1xi32>
    // expected-error @below {{over 'tp' operand #0 is split along dimension 1, expected all tokens, as the slots are those of all}}
    %y = kerf.dispatch %x, %own : tensor<1x4x4xf32>, tensor<1x4x1xi32> -> tensor<1x4x4xf32>
    spmd.return
  }
}

// -----

// Rows of some experts, sizes of all.
spmd.program @sizes over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @rows global tensor<1x8x4xf32> sharded [[], [tp], []] : tensor<1x4x4xf32>
  spmd.input @sizes global tensor<1x2xi32> sharded [[], []] vocabulary 8 : tensor<1x2xi32>
  spmd.param "w" global tensor<2x3x4xf32> sharded [[], [], []] init <ones> frozen : tensor<2x3x4xf32>
  spmd.func @forward() {
    %rows = spmd.read @rows : tensor<1x4x4xf32>
    %sizes = spmd.read @sizes : tensor<1x2xi32>
    %w = kerf.param "w" init<ones> frozen : tensor<2x3x4xf32>
    // expected-error @below {{over 'tp' operand #0 is split along dimension 1, expected the rows of all experts, as the sizes are}}
    %y = kerf.grouped_matmul %rows, %w, %sizes : tensor<1x4x4xf32>, tensor<2x3x4xf32>, tensor<1x2xi32>
    spmd.return
  }
}

// -----

// Weights of some experts, rows of all.
spmd.program @experts over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @rows global tensor<1x4x4xf32> sharded [[], [], []] : tensor<1x4x4xf32>
  spmd.input @sizes global tensor<1x4xi32> sharded [[], [tp]] vocabulary 8 : tensor<1x2xi32>
  spmd.param "w" global tensor<4x3x4xf32> sharded [[tp], [], []] init <ones> frozen : tensor<2x3x4xf32>
  spmd.func @forward() {
    %rows = spmd.read @rows : tensor<1x4x4xf32>
    %sizes = spmd.read @sizes : tensor<1x2xi32>
    %w = kerf.param "w" init<ones> frozen : tensor<2x3x4xf32>
    // expected-error @below {{over 'tp' operand #1 is split along dimension 0, expected all experts, as the rows are those of all}}
    %y = kerf.grouped_matmul %rows, %w, %sizes : tensor<1x4x4xf32>, tensor<2x3x4xf32>, tensor<1x2xi32>
    spmd.return
  }
}

// -----

// The last micro-batch is not their sum.
spmd.program @last_micro over <> micro_batches 2 slots 1 {
  spmd.input @x global tensor<4xf32> sharded [[micro]] : tensor<2xf32>
  spmd.buffer @sum step : tensor<f32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2xf32>
    %s = kerf.reduce sum %x dims [0] : tensor<2xf32>
    // expected-error @below {{over 'micro' operand #0 is a sum that is still to be made, expected the same in all of them, or to be added}}
    spmd.write %s to @sum : tensor<f32>
    spmd.return
  }
}

// -----

// What no micro-batch changes is added once.
spmd.program @added_often over <> micro_batches 2 slots 1 {
  spmd.input @x global tensor<2xf32> sharded [[]] : tensor<2xf32>
  spmd.buffer @sum step : tensor<2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2xf32>
    // expected-error @below {{over 'micro' operand #0 is the same on all ranks, expected a sum that is still to be made}}
    spmd.accumulate %x into @sum : tensor<2xf32>
    spmd.return
  }
}

// -----

// A buffer is in one state, whoever writes it.
spmd.program @two_states over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4xf32> sharded [[tp]] : tensor<2xf32>
  spmd.input @y global tensor<2xf32> sharded [[]] : tensor<2xf32>
  spmd.buffer @b step : tensor<2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2xf32>
    %y = spmd.read @y : tensor<2xf32>
    spmd.write %x to @b : tensor<2xf32>
    // expected-error @below {{over 'tp' operand #0 is the same on all ranks, expected split along dimension 0, as what "b" holds}}
    spmd.write %y to @b : tensor<2xf32>
    spmd.return
  }
}

// -----

// The same cut at another place is another state.
spmd.program @two_orders over <dp = 2, tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<8xf32> sharded [[dp, tp]] : tensor<2xf32>
  spmd.input @y global tensor<8xf32> sharded [[tp, dp]] : tensor<2xf32>
  spmd.buffer @b step : tensor<2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2xf32>
    %y = spmd.read @y : tensor<2xf32>
    spmd.write %x to @b : tensor<2xf32>
    // expected-error @below {{of dimension 0 split [tp][dp][2], expected [dp][tp][2], as what "b" holds}}
    spmd.write %y to @b : tensor<2xf32>
    spmd.return
  }
}

// -----

// What is carried comes as it left.
spmd.program @carried over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4xf32> sharded [[]] : tensor<4xf32>
  spmd.param "w" global tensor<4x8xf32> sharded [[], [tp]] init <ones> frozen : tensor<4x4xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4xf32>
    %y = kerf.repeat %i = 0 to 2 (%a = %x : tensor<4xf32>) {
      %w = kerf.param "w" init<ones> frozen : tensor<4x4xf32>
      %s = kerf.reduce sum %w dims [1] : tensor<4x4xf32>
      // expected-error @below {{over 'tp' operand #0 is a sum that is still to be made, expected the same on all ranks, as it came}}
      kerf.yield %s : tensor<4xf32>
    }
    spmd.return
  }
}

// -----

// Gradients are added up before an update.
spmd.program @gradient_of_part over <dp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x3xf32> sharded [[dp], []] : tensor<2x3xf32>
  spmd.param "w" global tensor<3xf32> sharded [[]] rule #kerf.sgd<> init <ones> : tensor<3xf32>
  spmd.func @update() {
    %x = spmd.read @x : tensor<2x3xf32>
    %g = kerf.reduce sum %x dims [0] : tensor<2x3xf32>
    %r = kerf.constant dense<0.0> : tensor<f32>
    %t = kerf.constant dense<1> : tensor<i32>
    // expected-error @below {{over 'dp' operand #0 is a sum that is still to be made, expected it made}}
    kerf.update "w" rule #kerf.sgd<> by %g rate %r step %t : tensor<3xf32>
    spmd.return
  }
}

// -----

// Copies of a parameter are changed alike.
spmd.program @gradients_differ over <dp = 2> micro_batches 1 slots 1 {
  spmd.input @g global tensor<6xf32> sharded [[dp]] : tensor<3xf32>
  spmd.param "w" global tensor<3xf32> sharded [[]] rule #kerf.sgd<> init <ones> : tensor<3xf32>
  spmd.func @update() {
    %g = spmd.read @g : tensor<3xf32>
    %r = kerf.constant dense<0.0> : tensor<f32>
    %t = kerf.constant dense<1> : tensor<i32>
    // expected-error @below {{over 'dp' operand #0 is split along dimension 0, expected the same on all ranks, as "w" is declared}}
    kerf.update "w" rule #kerf.sgd<> by %g rate %r step %t : tensor<3xf32>
    spmd.return
  }
}

// -----

// The gradient of a shard is a shard.
spmd.program @shard over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @g global tensor<3xf32> sharded [[]] : tensor<3xf32>
  spmd.param "w" global tensor<6xf32> sharded [[tp]] rule #kerf.sgd<> init <ones> : tensor<3xf32>
  spmd.func @update() {
    %g = spmd.read @g : tensor<3xf32>
    %r = kerf.constant dense<0.0> : tensor<f32>
    %t = kerf.constant dense<1> : tensor<i32>
    // expected-error @below {{over 'tp' operand #0 is the same on all ranks, expected a part, as "w" is declared}}
    kerf.update "w" rule #kerf.sgd<> by %g rate %r step %t : tensor<3xf32>
    spmd.return
  }
}

// -----

// Its dimensions are cut as the parameter's.
spmd.program @other_dimension over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @g global tensor<6xf32> sharded [[tp]] : tensor<3xf32>
  spmd.param "w" global tensor<6xf32> sharded [[tp]] blocks [3] rule #kerf.sgd<> init <ones> : tensor<3xf32>
  spmd.func @update() {
    %g = spmd.read @g : tensor<3xf32>
    %r = kerf.constant dense<0.0> : tensor<f32>
    %t = kerf.constant dense<1> : tensor<i32>
    // expected-error @below {{of "w" gets dimension 0 split [tp][3], expected [3][tp] as it is declared}}
    kerf.update "w" rule #kerf.sgd<> by %g rate %r step %t : tensor<3xf32>
    spmd.return
  }
}

// -----

// The part of another rank does not change this one's.
spmd.program @other_rank over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @g global tensor<6xf32> sharded [[tp]] : tensor<3xf32>
  spmd.param "w" global tensor<6xf32> sharded [[tp]] rule #kerf.sgd<> init <ones> : tensor<3xf32>
  spmd.func @update() {
    %g = spmd.read @g : tensor<3xf32>
    %next = spmd.rotate %g over [tp] : tensor<3xf32>
    %r = kerf.constant dense<0.0> : tensor<f32>
    %t = kerf.constant dense<1> : tensor<i32>
    // expected-error @below {{over 'tp' operand #0 is split along dimension 0, expected this rank's, not another's}}
    kerf.update "w" rule #kerf.sgd<> by %next rate %r step %t : tensor<3xf32>
    spmd.return
  }
}

// -----

// Pieces that are updated get to the weights.
spmd.program @pieces over <dp = 2> micro_batches 1 slots 1 {
  spmd.input @g global tensor<6xf32> sharded [[dp]] : tensor<3xf32>
  spmd.param "w" global tensor<6xf32> sharded [[]] state over [dp] rule #kerf.sgd<> init <ones> : tensor<6xf32>
  spmd.func @update() {
    %g = spmd.read @g : tensor<3xf32>
    %r = kerf.constant dense<0.0> : tensor<f32>
    %t = kerf.constant dense<1> : tensor<i32>
    // expected-error @below {{of "w" changes pieces, expected a 'spmd.gather_param' that puts them together}}
    kerf.update "w" rule #kerf.sgd<> by %g rate %r step %t : tensor<3xf32>
    spmd.return
  }
}

// -----

// The norm is that of all gradients: parts add their squares.
spmd.program @norm over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @g global tensor<6xf32> sharded [[tp]] : tensor<3xf32>
  spmd.output @grad_norm last : tensor<f32>
  spmd.func @update() {
    %g = spmd.read @g : tensor<3xf32>
    %n = kerf.global_norm %g : tensor<3xf32>
    %squares = kerf.mul %n, %n : tensor<f32>
    %all = spmd.all_reduce sum %squares over [tp] : tensor<f32>
    %whole = kerf.sqrt %all : tensor<f32>
    spmd.write %whole to @grad_norm : tensor<f32>
    // expected-error @below {{over 'tp' operand #0 is the norm of a part, expected that of the whole}}
    %c = kerf.clip_factor %n max 1.0
    spmd.return
  }
}

// -----

// Gradients that all ranks have are not counted beside parts.
spmd.program @norm_of_both over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @g global tensor<6xf32> sharded [[tp]] : tensor<3xf32>
  spmd.input @h global tensor<3xf32> sharded [[]] : tensor<3xf32>
  spmd.func @update() {
    %g = spmd.read @g : tensor<3xf32>
    %h = spmd.read @h : tensor<3xf32>
    // expected-error @below {{over 'tp' operand #1 is the same on all ranks, expected a part, as operand #0}}
    %n = kerf.global_norm %g, %h : tensor<3xf32>, tensor<3xf32>
    spmd.return
  }
}

// -----

// Every rank holds the whole of an output.
spmd.program @output over <dp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4xf32> sharded [[dp]] : tensor<2xf32>
  spmd.output @loss last : tensor<f32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2xf32>
    %s = kerf.reduce sum %x dims [0] : tensor<2xf32>
    // expected-error @below {{over 'dp' operand #0 is a sum that is still to be made, expected the same on all ranks}}
    spmd.write %s to @loss : tensor<f32>
    spmd.return
  }
}

// -----

// So does every stage.
spmd.program @stage0 over <pp = 2> stage 0 micro_batches 1 slots 1 {
  spmd.param "w" global tensor<f32> sharded [] init <ones> frozen : tensor<f32>
  spmd.output @loss last : tensor<f32>
  spmd.func @forward() {
    %w = kerf.param "w" init<ones> frozen : tensor<f32>
    // expected-error @below {{over 'pp' operand #0 is each rank's own, expected the same on all ranks}}
    spmd.write %w to @loss : tensor<f32>
    spmd.return
  }
}

// -----

// A message arrives as it was sent.
spmd.program @sender over <pp = 2, tp = 2> stage 0 micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x4xf32> sharded [[], [tp]] : tensor<2x2xf32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x2xf32>
    %s = kerf.reduce sum %x dims [1] : tensor<2x2xf32>
    spmd.send %s to 1 on "forward" : tensor<2xf32>
    spmd.return
  }
}
spmd.program @receiver over <pp = 2, tp = 2> stage 1 micro_batches 1 slots 1 {
  spmd.func @forward() {
    %s = spmd.recv from 0 on "forward" : tensor<2xf32>
    // expected-error @below {{over 'tp' operand #0 is a sum that is still to be made, expected it made, since the op is not linear in it}}
    %y = kerf.exp %s : tensor<2xf32>
    spmd.return
  }
}
