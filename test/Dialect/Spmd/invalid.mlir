// RUN: kerf-opt --split-input-file --verify-diagnostics %s

// expected-error @below {{expected 1 <= slots <= micro_batches, found 3 and 2}}
spmd.program @program_c1 over <dp = 2, tp = 2> micro_batches 2 slots 3 {
}

// -----

spmd.program @program_c2 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{stands directly in a 'spmd.program', expected declarations, functions and schedules}}
  %x = kerf.constant dense<1.0> : tensor<f32>
}

// -----

spmd.program @input_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{expected one list of axes per dimension of}}
  spmd.input @x global tensor<8x4xf32> sharded [[dp]] : tensor<4x4xf32>
}

// -----

spmd.program @input_c1_axis over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{expected axes of the mesh #kerf.mesh<dp = 2, tp = 2>, found 'pp'}}
  spmd.input @x global tensor<8xf32> sharded [[pp]] : tensor<8xf32>
}

// -----

spmd.program @input_c1_twice over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{has axis 'dp' twice}}
  spmd.input @x global tensor<8x8xf32> sharded [[dp], [dp]] : tensor<4x4xf32>
}

// -----

spmd.program @input_c1_divide over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{splits a dimension of 7 into 2 parts, which does not divide it}}
  spmd.input @x global tensor<7xf32> sharded [[dp]] : tensor<3xf32>
}

// -----

spmd.program @input_c1_type over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{expected local type 'tensor<4xf32>', found 'tensor<8xf32>'}}
  spmd.input @x global tensor<8xf32> sharded [[dp]] : tensor<8xf32>
}

// -----

spmd.program @input_c2 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{expected 'micro' as the last axis of dimension 0}}
  spmd.input @x global tensor<8x4xf32> sharded [[], [micro]] : tensor<8x2xf32>
}

// -----

spmd.program @input_c2_last over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{expected 'micro' as the last axis of dimension 0}}
  spmd.input @x global tensor<8xf32> sharded [[micro, dp]] : tensor<2xf32>
}

// -----

spmd.program @input_c3 over <cp = 2> micro_batches 1 slots 1 {
  // expected-error @below {{expected a zigzag along [1] of 'tensor<8x12xi32>', found #kerf.zigzag<2 x 2 along [1]>}}
  spmd.input @x global tensor<8x12xi32> sharded [[], [cp]] zigzag <2 x 2 along [1]> : tensor<8x6xi32>
}

// -----

spmd.program @param_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{found 'micro'}}
  spmd.param "w" global tensor<8xf32> sharded [[micro]] init <ones> : tensor<4xf32>
}

// -----

spmd.program @param_c2 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{expected [start to end] with an {i} in its name, 0 <= start < end, or neither}}
  spmd.param "h.{i}.w" global tensor<8xf32> sharded [[]] init <ones> : tensor<8xf32>
}

// -----

spmd.program @param_c3 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{is frozen and has an update rule}}
  spmd.param "w" global tensor<8xf32> sharded [[]] rule #kerf.sgd<> init <ones> frozen : tensor<8xf32>
}

// -----

spmd.program @buffer_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{expected a tensor of static shape}}
  spmd.buffer @b step : tensor<?xf32>
}

// -----

spmd.program @output_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{expected a tensor of static shape}}
  spmd.output @b sum : tensor<?xf32>
}

// -----

spmd.program @func_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{expected a body without arguments that ends in 'spmd.return'}}
  "spmd.func"() <{sym_name = "f"}> ({
  ^bb0(%x: tensor<f32>):
    spmd.return
  }) : () -> ()
}

// -----

spmd.program @func_c2 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @f() {
    spmd.return
  }
  spmd.func @g() continues @f {
    spmd.return
  }
  // expected-error @below {{continues @g, expected a function of the program that continues none}}
  spmd.func @h() continues @g {
    spmd.return
  }
}

// -----

// What the first function writes or adds to may be added to.
spmd.program @func_c3 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.buffer @written step : tensor<4xf32>
  spmd.buffer @added step : tensor<4xf32>
  spmd.output @loss sum : tensor<4xf32>
  spmd.func @f() {
    %x = kerf.constant dense<1.0> : tensor<4xf32>
    spmd.write %x to @written : tensor<4xf32>
    spmd.accumulate %x into @added : tensor<4xf32>
    spmd.return
  }
  spmd.func @g() continues @f {
    %x = kerf.constant dense<1.0> : tensor<4xf32>
    spmd.accumulate %x into @written : tensor<4xf32>
    spmd.accumulate %x into @added : tensor<4xf32>
    // expected-error @below {{into @loss, which @f, continued by @g, does not store to}}
    spmd.accumulate %x into @loss : tensor<4xf32>
    spmd.return
  }
}

// -----

spmd.program @return_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.schedule "train" {
    // expected-error @below {{'spmd.return' op expects parent op 'spmd.func'}}
    spmd.return
  }
}

// -----

spmd.program @schedule_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.schedule "train" {
    // expected-error @below {{stands in a 'spmd.schedule', expected 'spmd.call'}}
    %x = kerf.constant dense<1.0> : tensor<f32>
  }
}

// -----

spmd.program @call_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.schedule "train" {
    // expected-error @below {{of @nothing, which is no function of the program}}
    spmd.call @nothing
  }
}

// -----

spmd.program @call_c2 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    
    spmd.return
  }
  spmd.schedule "train" {
    // expected-error @below {{expected a micro-batch below 2, found 2}}
    spmd.call @forward micro 2
  }
}

// -----

spmd.program @read_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.input @in global tensor<8xf32> sharded [[]] : tensor<8xf32>
  spmd.buffer @slot slot : tensor<4x16xf32>
  spmd.buffer @step step : tensor<8xf32>
  spmd.output @out last : tensor<4x16xf32>
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{of @out, which is no input or buffer of type 'tensor<4x16xf32>'}}
    %y = spmd.read @out : tensor<4x16xf32>
    spmd.return
  }
}

// -----

spmd.program @read_c1_type over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.input @in global tensor<8xf32> sharded [[]] : tensor<8xf32>
  spmd.buffer @slot slot : tensor<4x16xf32>
  spmd.buffer @step step : tensor<8xf32>
  spmd.output @out last : tensor<4x16xf32>
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{of @in, which is no input or buffer of type 'tensor<4xf32>'}}
    %y = spmd.read @in : tensor<4xf32>
    spmd.return
  }
}

// -----

spmd.program @write_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.input @in global tensor<8xf32> sharded [[]] : tensor<8xf32>
  spmd.buffer @slot slot : tensor<4x16xf32>
  spmd.buffer @step step : tensor<8xf32>
  spmd.output @out last : tensor<4x16xf32>
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{to @in, which is no buffer or output of type 'tensor<4x16xf32>'}}
    spmd.write %x to @in : tensor<4x16xf32>
    spmd.return
  }
}

// -----

spmd.program @accumulate_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.input @in global tensor<8xf32> sharded [[]] : tensor<8xf32>
  spmd.buffer @slot slot : tensor<4x16xf32>
  spmd.buffer @step step : tensor<8xf32>
  spmd.output @out last : tensor<4x16xf32>
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{into @slot, which is no step buffer or 'sum' output of type}}
    spmd.accumulate %x into @slot : tensor<4x16xf32>
    spmd.return
  }
}

// -----

spmd.program @accumulate_c1_last over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.input @in global tensor<8xf32> sharded [[]] : tensor<8xf32>
  spmd.buffer @slot slot : tensor<4x16xf32>
  spmd.buffer @step step : tensor<8xf32>
  spmd.output @out last : tensor<4x16xf32>
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{into @out, which is no step buffer or 'sum' output of type}}
    spmd.accumulate %x into @out : tensor<4x16xf32>
    spmd.return
  }
}

// -----

spmd.program @all_reduce_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{found 'micro'}}
    %y = spmd.all_reduce sum %x over [micro] : tensor<4x16xf32>
    spmd.return
  }
}

// -----

spmd.program @all_reduce_c1_none over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{expected at least one axis}}
    %y = spmd.all_reduce sum %x over [] : tensor<4x16xf32>
    spmd.return
  }
}

// -----

spmd.program @all_gather_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{expected a dimension in [0, 2), found 2}}
    %y = spmd.all_gather %x dim 2 over [tp] : tensor<4x16xf32> -> tensor<8x16xf32>
    spmd.return
  }
}

// -----

spmd.program @all_gather_c2 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{expected a result of dimension 0 times 2 over 1}}
    %y = spmd.all_gather %x dim 0 over [tp] : tensor<4x16xf32> -> tensor<16x16xf32>
    spmd.return
  }
}

// -----

spmd.program @reduce_scatter_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{expected a dimension in [0, 2), found -1}}
    %y = spmd.reduce_scatter sum %x dim -1 over [tp] : tensor<4x16xf32> -> tensor<2x16xf32>
    spmd.return
  }
}

// -----

spmd.program @reduce_scatter_c2 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{expected a result of dimension 0 times 1 over 2}}
    %y = spmd.reduce_scatter sum %x dim 0 over [tp] : tensor<4x16xf32> -> tensor<4x16xf32>
    spmd.return
  }
}

// -----

spmd.program @all_to_all_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{expected two different dimensions, found 1 twice}}
    %y = spmd.all_to_all %x split 1 concat 1 over [tp] : tensor<4x16xf32> -> tensor<4x16xf32>
    spmd.return
  }
}

// -----

spmd.program @all_to_all_c2 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{expected a result of type 'tensor<8x8xf32>', found 'tensor<2x32xf32>'}}
    %y = spmd.all_to_all %x split 1 concat 0 over [tp] : tensor<4x16xf32> -> tensor<2x32xf32>
    spmd.return
  }
}

// -----

spmd.program @slice_own_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{has axis 'tp' twice}}
    %y = spmd.slice_own %x dim 0 over [tp, tp] : tensor<4x16xf32> -> tensor<1x16xf32>
    spmd.return
  }
}

// -----

spmd.program @slice_own_c2 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{expected a result of dimension 0 times 1 over 2}}
    %y = spmd.slice_own %x dim 0 over [tp] : tensor<4x16xf32> -> tensor<4x16xf32>
    spmd.return
  }
}

// -----

spmd.program @offset_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{expected one stride per axis, found 2 of 1}}
    %y = "spmd.offset"() {axes = ["dp"], strides = array<i64: 1, 2>} : () -> tensor<i32>
    spmd.return
  }
}

// -----

spmd.program @offset_c1_axis over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{found 'pp'}}
    %y = spmd.offset [pp * 2]
    spmd.return
  }
}

// -----

spmd.program @offset_c2 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    // expected-error @below {{expected a positive modulus, found 0}}
    %y = spmd.offset [dp * 2] modulo 0
    spmd.return
  }
}

// -----

spmd.program @fused_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{expected a body that takes the operands}}
    %y = "spmd.fused"(%x) ({
    ^bb0(%a: tensor<4xf32>):
      spmd.yield %a : tensor<4xf32>
    }) : (tensor<4x16xf32>) -> tensor<4xf32>
    spmd.return
  }
}

// -----

spmd.program @fused_c2 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{expected a 'spmd.yield' of the results' types at the end of its body}}
    %y = spmd.fused (%a = %x : tensor<4x16xf32>) -> (tensor<4xf32>) {
      spmd.yield %a : tensor<4x16xf32>
    }
    spmd.return
  }
}

// -----

spmd.program @yield_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    // expected-error @below {{'spmd.yield' op expects parent op to be one of 'spmd.fused, spmd.fused_matmul'}}
    spmd.yield
  }
}

// -----

spmd.program @fused_matmul_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{expected a body that takes the operands}}
    %y = "spmd.fused_matmul"(%x) ({
    ^bb0(%a: tensor<4xf32>):
      spmd.yield %a : tensor<4xf32>
    }) : (tensor<4x16xf32>) -> tensor<4xf32>
    spmd.return
  }
}

// -----

spmd.program @fused_matmul_c2 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{expected a 'spmd.yield' of the results' types at the end of its body}}
    %y = spmd.fused_matmul (%a = %x : tensor<4x16xf32>) -> (tensor<4xf32>) {
      spmd.yield %a : tensor<4x16xf32>
    }
    spmd.return
  }
}

// -----

// An activation that no library call has.
spmd.program @fused_matmul_c3 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<16x16xf32>
    // expected-error @below {{expected a body of one matmul and its epilogue: a tanh gelu, a tanh gelu_backward with or without the sum of its rows, the sum of the rows of one factor, or a matmul by f32 scalars; as results the matrix, then what else is read}}
    %y = spmd.fused_matmul (%a = %x : tensor<16x16xf32>) -> (tensor<16x16xf32>) {
      %p = kerf.linear %a, %a : tensor<16x16xf32>, tensor<16x16xf32>
      %g = kerf.gelu exact %p : tensor<16x16xf32>
      spmd.yield %g : tensor<16x16xf32>
    }
    spmd.return
  }
}

// -----

// A scalar of another type than f32: a device reads f32.
spmd.program @matmul_c3_scalar over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<16x16xbf16>
    %u = kerf.constant dense<0.5> : tensor<bf16>
    // expected-error @below {{expected a body of one matmul and its epilogue}}
    %y = spmd.fused_matmul (%a = %x : tensor<16x16xbf16>, %s = %u : tensor<bf16>) -> (tensor<16x16xbf16>) {
      %p = kerf.linear %a, %a : tensor<16x16xbf16>, tensor<16x16xbf16>
      %b = kerf.broadcast %s dims [] : tensor<bf16> -> tensor<16x16xbf16>
      %m = kerf.mul %p, %b : tensor<16x16xbf16>
      spmd.yield %m : tensor<16x16xbf16>
    }
    spmd.return
  }
}

// -----

// More scalars than a call takes.
spmd.program @matmul_c3_scalars over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<16x16xf32>
    %u = kerf.constant dense<0.5> : tensor<f32>
    // expected-error @below {{expected a body of one matmul and its epilogue}}
    %y = spmd.fused_matmul (%a = %x : tensor<16x16xf32>, %s = %u : tensor<f32>) -> (tensor<16x16xf32>) {
      %p = kerf.linear %a, %a : tensor<16x16xf32>, tensor<16x16xf32>
      %s2 = kerf.mul %s, %s : tensor<f32>
      %s3 = kerf.mul %s2, %s : tensor<f32>
      %b = kerf.broadcast %s3 dims [] : tensor<f32> -> tensor<16x16xf32>
      %m = kerf.mul %p, %b : tensor<16x16xf32>
      spmd.yield %m : tensor<16x16xf32>
    }
    spmd.return
  }
}

// -----

// A factor per column.
spmd.program @matmul_c3_factor over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<16x16xf32>
    %u = kerf.constant dense<0.5> : tensor<16xf32>
    // expected-error @below {{expected a body of one matmul and its epilogue}}
    %y = spmd.fused_matmul (%a = %x : tensor<16x16xf32>, %s = %u : tensor<16xf32>) -> (tensor<16x16xf32>) {
      %p = kerf.linear %a, %a : tensor<16x16xf32>, tensor<16x16xf32>
      %b = kerf.broadcast %s dims [1] : tensor<16xf32> -> tensor<16x16xf32>
      %m = kerf.mul %p, %b : tensor<16x16xf32>
      spmd.yield %m : tensor<16x16xf32>
    }
    spmd.return
  }
}

// -----

// The sum of what is no factor.
spmd.program @matmul_c3_sum over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<16x16xf32>
    // expected-error @below {{expected a body of one matmul and its epilogue}}
    %y:2 = spmd.fused_matmul (%a = %x : tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16xf32>) {
      %p = kerf.linear %a, %a : tensor<16x16xf32>, tensor<16x16xf32>
      %s = kerf.reduce sum %p dims [0] : tensor<16x16xf32>
      spmd.yield %p, %s : tensor<16x16xf32>, tensor<16xf32>
    }
    spmd.return
  }
}

// -----

// The sum of rows that the matmul does not add up over.
spmd.program @matmul_c3_rows over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<16x16xf32>
    // expected-error @below {{expected a body of one matmul and its epilogue}}
    %y:2 = spmd.fused_matmul (%a = %x : tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16xf32>) {
      %p = kerf.linear %a, %a : tensor<16x16xf32>, tensor<16x16xf32>
      %s = kerf.reduce sum %a dims [0] : tensor<16x16xf32>
      spmd.yield %p, %s : tensor<16x16xf32>, tensor<16xf32>
    }
    spmd.return
  }
}

// -----

// A factor that the body makes.
spmd.program @matmul_c3_inner over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<1x16xf32>
    // expected-error @below {{expected a body of one matmul and its epilogue}}
    %y:2 = spmd.fused_matmul (%a = %x : tensor<1x16xf32>) -> (tensor<1xf32>, tensor<16xf32>) {
      %s = kerf.reduce sum %a dims [0] : tensor<1x16xf32>
      %p = kerf.einsum "sn,n->s" %a, %s : tensor<1x16xf32>, tensor<16xf32> -> tensor<1xf32>
      spmd.yield %p, %s : tensor<1xf32>, tensor<16xf32>
    }
    spmd.return
  }
}

// -----

// Gelu in a type that libraries have none for.
spmd.program @matmul_c3_f64 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<16x16xf64>
    // expected-error @below {{expected a body of one matmul and its epilogue}}
    %y = spmd.fused_matmul (%a = %x : tensor<16x16xf64>) -> (tensor<16x16xf64>) {
      %p = kerf.linear %a, %a : tensor<16x16xf64>, tensor<16x16xf64>
      %g = kerf.gelu tanh %p : tensor<16x16xf64>
      spmd.yield %g : tensor<16x16xf64>
    }
    spmd.return
  }
}

// -----

// A matmul of a batch.
spmd.program @matmul_c3_batch over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<2x16x16xf32>
    // expected-error @below {{expected a body of one matmul and its epilogue}}
    %y = spmd.fused_matmul (%a = %x : tensor<2x16x16xf32>) -> (tensor<2x16x16xf32>) {
      %p = kerf.matmul %a, %a : tensor<2x16x16xf32>, tensor<2x16x16xf32>
      %g = kerf.gelu tanh %p : tensor<2x16x16xf32>
      spmd.yield %g : tensor<2x16x16xf32>
    }
    spmd.return
  }
}

// -----

// expected-error @below {{expected a stage below 2, found 2}}
spmd.program @program_c3 over <pp = 2> stage 2 micro_batches 2 slots 1 {
}

// -----

// expected-error @below {{expected a stage below 1, found 1}}
spmd.program @program_c3_single over <dp = 2> stage 1 micro_batches 2 slots 1 {
}

// -----

spmd.program @param_c4 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{expected 'weights' over the axes of 'state'}}
  spmd.param "w" global tensor<5xf32> sharded [[]] weights over [dp] init <ones> : tensor<5xf32>
}

// -----

spmd.program @param_c4_cut over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{is stored in pieces over "tp", which splits a dimension already}}
  spmd.param "w" global tensor<4xf32> sharded [[tp]] state over [tp] init <ones> : tensor<2xf32>
}

// -----

spmd.program @param_c4_type over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{expected the type of a piece, 'tensor<3xf32>', found 'tensor<5xf32>'}}
  spmd.param "w" global tensor<5xf32> sharded [[]] state over [dp] weights over [dp] init <ones> : tensor<5xf32>
}

// -----

spmd.program @param_c5 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{expected 'blocks' with one number per dimension, which divides the local size}}
  spmd.param "w" global tensor<12xf32> sharded [[tp]] blocks [4] init <ones> : tensor<6xf32>
}

// -----

spmd.program @param_c6 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{"w" is split into 24 neighbours of its last dimension, which are no whole blocks of 16 of its optimizer state; choose a smaller block}}
  spmd.param "w" global tensor<4x48xf32> sharded [[], [tp]] rule #kerf.adamw_8bit<block = 16, min_elements = 0> init <ones> : tensor<4x24xf32>
}

// -----

// The thirds of a row are whole blocks, their halves are not.
spmd.program @param_c6_blocks over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // expected-error @below {{"w" is split into 8 neighbours of its last dimension}}
  spmd.param "w" global tensor<4x48xf32> sharded [[], [tp]] blocks [1, 3] rule #kerf.adamw_8bit<block = 16, min_elements = 0> init <ones> : tensor<4x24xf32>
}

// -----

// Muon has sums over one of both dimensions.
spmd.program @param_c7 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.param "experts" global tensor<4x6x8xf32> sharded [[dp], [tp], []] rule #kerf.muon<> init <ones> : tensor<2x3x8xf32>
  // expected-error @below {{"w" expected matrices that are split along one dimension, which #kerf.muon<> updates, found 'tensor<3x4xf32>' of 'tensor<6x8xf32>'; choose another layout or another optimizer}}
  spmd.param "w" global tensor<6x8xf32> sharded [[dp], [tp]] rule #kerf.muon<> init <ones> : tensor<3x4xf32>
}

// -----

spmd.program @rotate_c1 over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4x16xf32>
    // expected-error @below {{found 'cp'}}
    %y = spmd.rotate %x over [cp] : tensor<4x16xf32>
    spmd.return
  }
}

// -----

spmd.program @wait_c1 over <dp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4xf32>
    // expected-error @below {{expected the result of a collective of its block}}
    %y = spmd.wait %x keeps %x : tensor<4xf32>, tensor<4xf32>
    spmd.return
  }
}

// -----

spmd.program @wait_c1_readers over <dp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4xf32>
    %s = spmd.all_reduce sum %x over [dp] : tensor<4xf32>
    // expected-error @below {{expected a result that nothing else reads}}
    %y = spmd.wait %s keeps %x : tensor<4xf32>, tensor<4xf32>
    %z = kerf.neg %s : tensor<4xf32>
    spmd.return
  }
}

// -----

spmd.program @wait_c1_kept over <dp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4xf32>
    %s = spmd.all_reduce sum %x over [dp] : tensor<4xf32>
    %z = kerf.neg %x : tensor<4xf32>
    // expected-error @below {{keeps another value than its collective reads}}
    %y = spmd.wait %s keeps %z : tensor<4xf32>, tensor<4xf32>
    spmd.return
  }
}

// -----

spmd.program @wait_c1_repeat over <dp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4xf32>
    %s = spmd.all_reduce sum %x over [dp] : tensor<4xf32>
    %z = kerf.repeat %i = 0 to 2 (%h = %x : tensor<4xf32>) {
      kerf.yield %h : tensor<4xf32>
    }
    // expected-error @below {{expected no 'kerf.repeat' since its collective}}
    %y = spmd.wait %s keeps %x : tensor<4xf32>, tensor<4xf32>
    spmd.return
  }
}

// -----

spmd.program @stop_if_c1 over <dp = 2> micro_batches 2 slots 1 {
  spmd.func @update() {
    %x = kerf.constant dense<1> : tensor<i32>
    // expected-error @below {{must be tensor<f32>, but got 'tensor<i32>'}}
    spmd.stop_if %x "too small" : tensor<i32>
    spmd.return
  }
}

// -----

spmd.program @send_c1 over <pp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    %x = kerf.constant dense<1.0> : tensor<4xf32>
    // expected-error @below {{expected another stage below 2, found 0}}
    spmd.send %x to 0 on "forward" : tensor<4xf32>
    spmd.return
  }
}

// -----

spmd.program @recv_c1 over <pp = 2> micro_batches 2 slots 1 {
  spmd.func @forward() {
    // expected-error @below {{expected another stage below 2, found 2}}
    %x = spmd.recv from 2 on "forward" : tensor<4xf32>
    spmd.return
  }
}

// -----

spmd.program @gather_param_c1 over <dp = 2> micro_batches 2 slots 1 {
  spmd.param "w" global tensor<5xf32> sharded [[]] init <ones> : tensor<5xf32>
  spmd.func @update() {
    // expected-error @below {{of "w", which is declared as no parameter with 'state' and without 'weights'}}
    spmd.gather_param "w"
    spmd.return
  }
}
