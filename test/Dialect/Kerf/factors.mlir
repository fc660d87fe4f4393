// RUN: kerf-opt %s --kerf-dump-factors --verify-diagnostics
// RUN: kerf-opt %s --kerf-verify-ingest -o /dev/null

// Sources may be cut anywhere, but the elements of a constant only when they are equal.
kerf.model @sources(seed %seed: tensor<i32>, step %step: tensor<i32>, %at: tensor<i32>) {
  // expected-remark-re @+1 {{{{^}}b=4 s=6 :  -> [b, s]{{$}}}}
  %param = kerf.param "w" init<ones> : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 :  -> [b, s]{{$}}}}
  %splat = kerf.constant dense<0.5> : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=2(whole) :  -> [b]{{$}}}}
  %table = kerf.constant dense<[1, 2]> : tensor<2xi32>
  // expected-remark-re @+1 {{{{^}}:  -> []{{$}}}}
  %scalar = kerf.constant dense<0.5> : tensor<f32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 : [] -> [b, s]{{$}}}}
  %iota = kerf.iota dim 1 offset %at : tensor<2x8xi32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 : [], [], [], [], [] -> [b, s]{{$}}}}
  %random = kerf.random_uniform "drop" seed %seed step %step layer %at offsets(%at, %at) global [4, 8] : tensor<2x8xf32>
  kerf.return %scalar : tensor<f32>
}

// Element-wise ops are cut anywhere. A pending sum passes through a matmul by either operand,
// through a sum by both at once, and through no other function of two.
kerf.model @pointwise(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>, %n: tensor<2xi32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s] -> [b, s] linear in 0{{$}}}}
  %neg = kerf.neg %x : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s] -> [b, s] linear in 0{{$}}}}
  %stop = kerf.stop_gradient %x : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s] -> [b, s]{{$}}}}
  %exp = kerf.exp %x : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s] -> [b, s]{{$}}}}
  %log = kerf.log %x : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s] -> [b, s]{{$}}}}
  %sqrt = kerf.sqrt %x : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s] -> [b, s]{{$}}}}
  %power = kerf.power_of_two %x : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s] -> [b, s]{{$}}}}
  %rsqrt = kerf.rsqrt %x : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s] -> [b, s]{{$}}}}
  %tanh = kerf.tanh %x : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s] -> [b, s]{{$}}}}
  %erf = kerf.erf %x : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s] -> [b, s]{{$}}}}
  %sin = kerf.sin %x : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s] -> [b, s]{{$}}}}
  %cos = kerf.cos %x : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s] -> [b, s]{{$}}}}
  %logistic = kerf.logistic %x : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s], [b, s] -> [b, s] jointly linear in 0,1{{$}}}}
  %add = kerf.add %x, %y : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s], [b, s] -> [b, s] jointly linear in 0,1{{$}}}}
  %sub = kerf.sub %x, %y : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s], [b, s] -> [b, s] linear in 0,1{{$}}}}
  %mul = kerf.mul %x, %y : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s], [b, s] -> [b, s] linear in 0{{$}}}}
  %div = kerf.div %x, %y : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s], [b, s] -> [b, s]{{$}}}}
  %max = kerf.max %x, %y : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s], [b, s] -> [b, s]{{$}}}}
  %min = kerf.min %x, %y : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s], [b, s] -> [b, s]{{$}}}}
  %pow = kerf.pow %x, %y : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s], [b, s] -> [b, s]{{$}}}}
  %lt = kerf.compare lt %x, %y : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s], [b, s], [b, s] -> [b, s] jointly linear in 1,2{{$}}}}
  %select = kerf.select %lt, %x, %y : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}: [], [] -> [] jointly linear in 0,1{{$}}}}
  %scalars = kerf.add %loss, %loss : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// What rounds to integers, or to 8 bits, is not linear.
kerf.model @rounding(%x: tensor<4xf32>, %n: tensor<4xi32>, %c: tensor<4xi1>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=4 : [b] -> [b] linear in 0{{$}}}}
  %narrow = kerf.cast %x : tensor<4xf32> -> tensor<4xbf16>
  // expected-remark-re @+1 {{{{^}}b=4 : [b] -> [b]{{$}}}}
  %truncated = kerf.cast %x : tensor<4xf32> -> tensor<4xi32>
  // expected-remark-re @+1 {{{{^}}b=4 : [b] -> [b]{{$}}}}
  %float8 = kerf.cast %x : tensor<4xf32> -> tensor<4xf8E4M3FN>
  // expected-remark-re @+1 {{{{^}}b=4 : [b] -> [b]{{$}}}}
  %truth = kerf.cast %n : tensor<4xi32> -> tensor<4xi1>
  // expected-remark-re @+1 {{{{^}}b=4 : [b], [b] -> [b]{{$}}}}
  %floor = kerf.div %n, %n : tensor<4xi32>
  // expected-remark-re @+1 {{{{^}}b=4 : [b], [b] -> [b] jointly linear in 0,1{{$}}}}
  %sum = kerf.add %n, %n : tensor<4xi32>
  kerf.return %loss : tensor<f32>
}

// New dimensions of a broadcast are cut freely; a transpose permutes factors.
kerf.model @broadcasts(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=4 x=6 s=3 : [b, x] -> [b, s, x] linear in 0{{$}}}}
  %broadcast = kerf.broadcast %x dims [0, 2] : tensor<4x6xf32> -> tensor<4x3x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6 : [b, s] -> [s, b] linear in 0{{$}}}}
  %transpose = kerf.transpose %x perm [1, 0] : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// A reshape splits and merges factors from the left; what does not match stays whole.
kerf.model @reshapes(%x: tensor<2x12x4xf32>, %y: tensor<8x1x4xf32>, %z: tensor<2x6x5xf32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=0(whole) s=4(whole) :  -> [b, s]{{$}}}}
  %e = kerf.constant dense<> : tensor<0x4xf32>
  // expected-remark-re @+1 {{{{^}}r0=2 r1=3 r2=4 r3=4 : [r0, r1*r2, r3] -> [r0, r1, r2, r3] linear in 0{{$}}}}
  %split = kerf.reshape %x : tensor<2x12x4xf32> -> tensor<2x3x4x4xf32>
  // expected-remark-re @+1 {{{{^}}r0=2 r1=12 r2=4 : [r0, r1, r2] -> [r0*r1, r2] linear in 0{{$}}}}
  %merge = kerf.reshape %x : tensor<2x12x4xf32> -> tensor<24x4xf32>
  // expected-remark-re @+1 {{{{^}}r0=2 r1=4 r2=4 : [r0*r1, , r2] -> [r0, r1*r2] linear in 0{{$}}}}
  %both = kerf.reshape %y : tensor<8x1x4xf32> -> tensor<2x16xf32>
  // expected-remark-re @+1 {{{{^}}r0=2 x1=6(whole) x2=5(whole) y1=5(whole) y2=6(whole) : [r0, x1, x2] -> [r0, y1, y2] linear in 0{{$}}}}
  %unlike = kerf.reshape %z : tensor<2x6x5xf32> -> tensor<2x5x6xf32>
  // expected-remark-re @+1 {{{{^}}r0=2 r1=3 r2=2 r3=5 : [r0, r1*r2, r3] -> [r0, r1, r2*r3] linear in 0{{$}}}}
  %partly = kerf.reshape %z : tensor<2x6x5xf32> -> tensor<2x3x10xf32>
  // expected-remark-re @+1 {{{{^}}r0=2 r1=2 r2=3 r3=5 : [r0, r1*r2, r3] -> [r0*r1, r2*r3] linear in 0{{$}}}}
  %lost = kerf.reshape %z : tensor<2x6x5xf32> -> tensor<4x15xf32>
  // expected-remark-re @+1 {{{{^}}x0=0(whole) x1=4(whole) y0=0(whole) y1=2(whole) y2=2(whole) : [x0, x1] -> [y0, y1, y2] linear in 0{{$}}}}
  %empty = kerf.reshape %e : tensor<0x4xf32> -> tensor<0x2x2xf32>
  // expected-remark-re @+1 {{{{^}}: [] -> [, ] linear in 0{{$}}}}
  %one = kerf.reshape %loss : tensor<f32> -> tensor<1x1xf32>
  kerf.return %loss : tensor<f32>
}

// Windows are cut only along dimensions that they take whole, and joins across the join only.
kerf.model @windows(%x: tensor<4x6xf32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=4 sx=6(whole) sy=3(whole) : [b, sx] -> [b, sy] linear in 0{{$}}}}
  %slice = kerf.slice %x offsets [0, 2] sizes [4, 3] : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 sx=6(whole) sy=9(whole) : [b, sx] -> [b, sy] linear in 0{{$}}}}
  %pad = kerf.pad %x low [0, 2] high [0, 1] : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=9(whole) s0=6(whole) s1=3(whole) : [b, s0], [b, s1] -> [b, s] jointly linear in 0,1{{$}}}}
  %concat = kerf.concat dim 1 %x, %slice : tensor<4x6xf32>, tensor<4x3xf32>
  kerf.return %loss : tensor<f32>
}

// Contracted and reduced dimensions are sums, or maxima; order within a row needs the whole row.
kerf.model @combinations(%x: tensor<4x6xf32>, %w: tensor<5x6xf32>, %index: tensor<2x3xi32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=4 k=6(sum) n=5 : [b, k], [n, k] -> [n, b] linear in 0,1{{$}}}}
  %einsum = kerf.einsum "bk,nk->nb" %x, %w : tensor<4x6xf32>, tensor<5x6xf32> -> tensor<5x4xf32>
  // expected-remark-re @+1 {{{{^}}b=4(sum) s=6 : [b, s] -> [s] linear in 0{{$}}}}
  %sum = kerf.reduce sum %x dims [0] : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4(max) s=6(max) : [b, s] -> []{{$}}}}
  %max = kerf.reduce max %x dims [0, 1] : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4(max) s=6(max) : [b, s] -> []{{$}}}}
  %unit = kerf.unit %x of f8E4M3FN : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 s=6(whole) : [b, s] -> [b, s] linear in 0{{$}}}}
  %cumsum = kerf.cumsum %x dim 1 : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}b=4 e=6(whole) k=2(whole) : [b, e] -> [b, k], [b, k]{{$}}}}
  %values, %indices = kerf.top_k %x k 2 : tensor<4x6xf32>
  // expected-remark-re @+1 {{{{^}}v=4(whole) d=6 b=2 s=3 : [v, d], [b, s] -> [b, s, d] linear in 0{{$}}}}
  %gather = kerf.gather %x, %index : tensor<4x6xf32>, tensor<2x3xi32>
  // expected-remark-re @+1 {{{{^}}b=2(sum) s=3(sum) d=6 v=4(whole) : [b, s, d], [b, s] -> [v, d] linear in 0{{$}}}}
  %scatter = kerf.scatter_add %gather, %index : tensor<2x3x6xf32>, tensor<2x3xi32> -> tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// A shard of the vocabulary gives zeros for other shards' tokens: a sum.
kerf.model @embeddings(tokens %tokens: tensor<2x8xi32>, %table: tensor<32x16xf32>, %dy: tensor<2x8x16xf32>, %at: tensor<i32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=2 s=8 v=32(sum) d=16 : [b, s], [v, d] -> [b, s, d] linear in 1{{$}}}}
  %plain = kerf.embedding %tokens, %table : tensor<2x8xi32>, tensor<32x16xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 v=32(sum) d=16 : [b, s], [v, d], [] -> [b, s, d] linear in 1{{$}}}}
  %shard = kerf.embedding %tokens, %table offset %at padding 0 : tensor<2x8xi32>, tensor<32x16xf32>
  // expected-remark-re @+1 {{{{^}}b=2(sum) s=8(sum) d=16 v=32 : [b, s, d], [b, s] -> [v, d] linear in 0{{$}}}}
  %gradient = kerf.embedding_gradient %dy, %tokens : tensor<2x8x16xf32>, tensor<2x8xi32> -> tensor<32x16xf32>
  // expected-remark-re @+1 {{{{^}}b=2(sum) s=8(sum) d=16 v=32 : [b, s, d], [b, s], [] -> [v, d] linear in 0{{$}}}}
  %part = kerf.embedding_gradient %dy, %tokens offset %at : tensor<2x8x16xf32>, tensor<2x8xi32> -> tensor<32x16xf32>
  kerf.return %loss : tensor<f32>
}

// Each part of a sum would add the bias, so a biased matmul sums before it.
kerf.model @matmuls(%x: tensor<2x8x16xf32>, %w: tensor<32x16xf32>, %t: tensor<16x32xf32>, %b: tensor<32xf32>,
                    %rhs: tensor<2x16x32xf32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=2 s=8 k=16(sum) n=32 : [b, s, k], [n, k] -> [b, s, n] linear in 0,1{{$}}}}
  %linear = kerf.linear %x, %w : tensor<2x8x16xf32>, tensor<32x16xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 k=16(whole) n=32 : [b, s, k], [n, k], [n] -> [b, s, n] variant bias_after_sum(k){{$}}}}
  %biased = kerf.linear %x, %w bias %b : tensor<2x8x16xf32>, tensor<32x16xf32>, tensor<32xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 k=16(sum) n=32 : [b, s, k], [k, n] -> [b, s, n] linear in 0,1{{$}}}}
  %conv = kerf.linear %x, %t transposed : tensor<2x8x16xf32>, tensor<16x32xf32>
  // expected-remark-re @+1 {{{{^}}b=2 m=8 k=16(sum) n=32 : [b, m, k], [b, k, n] -> [b, m, n] linear in 0,1{{$}}}}
  %matmul = kerf.matmul %x, %rhs : tensor<2x8x16xf32>, tensor<2x16x32xf32>
  // expected-remark-re @+1 {{{{^}}b=2 m=8 k=16(whole) n=32 : [b, m, k], [b, k, n], [n] -> [b, m, n] variant bias_after_sum(k){{$}}}}
  %added = kerf.matmul %x, %rhs bias %b : tensor<2x8x16xf32>, tensor<2x16x32xf32>, tensor<32xf32>
  kerf.return %loss : tensor<f32>
}

// Rows of norms are whole; gradients of their gains sum over the rows.
kerf.model @norms(%x: tensor<2x8x16xf32>, %g: tensor<16xf32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=2 s=8 d=16(whole) : [b, s, d], [d], [d] -> [b, s, d]{{$}}}}
  %layer = kerf.layer_norm %x, %g bias %g : tensor<2x8x16xf32>, tensor<16xf32>, tensor<16xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 d=16(whole) : [b, s, d], [d] -> [b, s, d] linear in 1{{$}}}}
  %rms = kerf.rms_norm %x, %g : tensor<2x8x16xf32>, tensor<16xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 d=16(whole) : [b, s, d], [d], [b, s, d] -> [b, s, d] linear in 2{{$}}}}
  %dlayer = kerf.layer_norm_backward %x, %g, %x eps 1.0e-5 : tensor<2x8x16xf32>, tensor<16xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 d=16(whole) : [b, s, d], [d], [b, s, d] -> [b, s, d] linear in 2{{$}}}}
  %drms = kerf.rms_norm_backward %x, %g, %x eps 1.0e-5 : tensor<2x8x16xf32>, tensor<16xf32>
  // expected-remark-re @+1 {{{{^}}b=2(sum) s=8(sum) d=16(whole) : [b, s, d], [b, s, d] -> [d] linear in 1{{$}}}}
  %glayer = kerf.layer_norm_weight_gradient %x, %x eps 1.0e-5 : tensor<2x8x16xf32> -> tensor<16xf32>
  // expected-remark-re @+1 {{{{^}}b=2(sum) s=8(sum) d=16(whole) : [b, s, d], [b, s, d] -> [d] linear in 1{{$}}}}
  %grms = kerf.rms_norm_weight_gradient %x, %x eps 1.0e-5 : tensor<2x8x16xf32> -> tensor<16xf32>
  kerf.return %loss : tensor<f32>
}

// Query heads are groups times heads of a group; keys are cut with queries in a ring only.
// The gradients of keys and values sum over queries and over the heads of a group.
kerf.model @attentions(%q: tensor<2x8x4x16xf32>, %k: tensor<2x6x2x16xf32>, %v: tensor<2x6x2x4xf32>,
                       segments %s: tensor<2x8xi32>, %t: tensor<2x6xi32>, seed %seed: tensor<i32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=2 g=2 r=2 q=8 k=6(whole) d=16(whole) e=4 : [b, q, g*r, d], [b, k, g, d], [b, k, g, e] -> [b, q, g*r, e] linear in 2 variant ring together(q,k){{$}}}}
  %bare = kerf.attention %q, %k, %v : tensor<2x8x4x16xf32>, tensor<2x6x2x16xf32>, tensor<2x6x2x4xf32>
  // expected-remark-re @+1 {{{{^}}b=2 g=2 r=2(whole) q=8 k=6(whole) d=16(whole) e=4 : [b, q, g*r, d], [b, k, g, d], [b, k, g, e], [b, q], [b, k], [], [] -> [b, q, g*r, e], [b, g*r, q] variant ring together(q,k){{$}}}}
  %y, %lse = kerf.attention %q, %k, %v segments(%s, %t : tensor<2x8xi32>, tensor<2x6xi32>) dropout 0.1 "attn" seed %seed step %seed lse : tensor<2x8x4x16xf32>, tensor<2x6x2x16xf32>, tensor<2x6x2x4xf32>
  // expected-remark-re @+1 {{{{^}}b=2 g=2 r=2(sum) q=8(sum) k=6(whole) d=16(whole) e=4(sum) : [b, q, g*r, d], [b, k, g, d], [b, k, g, e], [b, q, g*r, e], [b, g*r, q], [b, q, g*r, e] -> [b, q, g*r, d], [b, k, g, d], [b, k, g, e] linear in 5 variant ring together(q,k){{$}}}}
  %dq, %dk, %dv = kerf.attention_backward %q, %k, %v from %y, %lse, %y : tensor<2x8x4x16xf32>, tensor<2x6x2x16xf32>, tensor<2x6x2x4xf32> from tensor<2x8x4x4xf32>, tensor<2x4x8xf32>
  kerf.return %loss : tensor<f32>
}

// Rotary embeddings turn pairs of channels of a whole head.
kerf.model @ropes(%x: tensor<2x8x4x16xf32>, positions %p: tensor<2x8xi32>, %at: tensor<i32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=2 s=8 h=4 d=16(whole) : [b, s, h, d] -> [b, s, h, d] linear in 0{{$}}}}
  %bare = kerf.rope %x theta 10000.0 : tensor<2x8x4x16xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 h=4 d=16(whole) : [b, s, h, d], [b, s], [] -> [b, s, h, d] linear in 0{{$}}}}
  %all = kerf.rope %x theta 10000.0 positions %p : tensor<2x8xi32> offset %at : tensor<2x8x4x16xf32>
  kerf.return %loss : tensor<f32>
}

// Activations are linear in what a gate or a curve is multiplied with.
kerf.model @activations(%x: tensor<2x8xf32>, seed %seed: tensor<i32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=2 s=8 : [b, s] -> [b, s]{{$}}}}
  %gelu = kerf.gelu tanh %x : tensor<2x8xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 : [b, s] -> [b, s]{{$}}}}
  %silu = kerf.silu %x : tensor<2x8xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 : [b, s] -> [b, s]{{$}}}}
  %relu2 = kerf.squared_relu %x : tensor<2x8xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 : [b, s], [b, s] -> [b, s] linear in 1{{$}}}}
  %swiglu = kerf.swiglu %x, %x : tensor<2x8xf32>
  // expected-remark-re @+1 {{{{^}}b=2 v=8(whole) : [b, v] -> [b, v]{{$}}}}
  %softmax = kerf.softmax %x : tensor<2x8xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 : [b, s], [], [], [] -> [b, s] linear in 0{{$}}}}
  %dropout = kerf.dropout %x rate 0.1 "drop" seed %seed step %seed layer %seed : tensor<2x8xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 : [b, s], [b, s] -> [b, s] linear in 1{{$}}}}
  %dgelu = kerf.gelu_backward tanh %x, %x : tensor<2x8xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 : [b, s], [b, s] -> [b, s] linear in 1{{$}}}}
  %dsilu = kerf.silu_backward %x, %x : tensor<2x8xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 : [b, s], [b, s] -> [b, s] linear in 1{{$}}}}
  %drelu2 = kerf.squared_relu_backward %x, %x : tensor<2x8xf32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 : [b, s], [b, s], [b, s] -> [b, s], [b, s] linear in 2{{$}}}}
  %dgate, %dup = kerf.swiglu_backward %x, %x, %x : tensor<2x8xf32>
  // expected-remark-re @+1 {{{{^}}b=2 v=8(whole) : [b, v], [b, v] -> [b, v] linear in 1{{$}}}}
  %dsoftmax = kerf.softmax_backward %x, %x : tensor<2x8xf32>
  kerf.return %loss : tensor<f32>
}

// The loss sums over tokens; the vocabulary is cut with the op's own reductions.
// "At least 1" holds for the whole count, so counts are summed before it.
kerf.model @losses(%x: tensor<2x8x32xf32>, targets %t: tensor<2x8xi32>, %at: tensor<i32>) {
  // expected-remark-re @+1 {{{{^}}b=2(sum) s=8(sum) : [b, s] -> []{{$}}}}
  %count = kerf.count_valid %t : tensor<2x8xi32>
  // expected-remark-re @+1 {{{{^}}b=2(sum) s=8(sum) v=32(whole) : [b, s, v], [b, s], [], [] -> [] variant split_vocabulary(v){{$}}}}
  %loss = kerf.cross_entropy %x, %t normalizer %count offset %at : tensor<2x8x32xf32>, tensor<2x8xi32>
  // expected-remark-re @+1 {{{{^}}b=2 s=8 v=32(whole) : [b, s, v], [b, s], [], [] -> [b, s, v] linear in 2 variant split_vocabulary(v){{$}}}}
  %gradient = kerf.cross_entropy_backward %x, %t, %loss normalizer %count : tensor<2x8x32xf32>, tensor<2x8xi32>
  kerf.return %loss : tensor<f32>
}

// Choices need all experts; averages over groups are the op's own business.
kerf.model @routes(%l: tensor<6x8x4xf32>, %b: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=6 s=8 e=4(whole) k=2(whole) : [b, s, e] -> [b, s, k], [b, s, k]{{$}}}}
  %w, %e = kerf.route %l k 2 : tensor<6x8x4xf32>
  // expected-remark-re @+1 {{{{^}}b=6 s=8 e=4(whole) k=2(whole) : [b, s, e], [b, s, k], [b, s, k] -> [b, s, e] linear in 2{{$}}}}
  %d = kerf.route_backward %l, %e, %w : tensor<6x8x4xf32>, tensor<6x8x2xi32>, tensor<6x8x2xf32>
  // expected-remark-re @+1 {{{{^}}b=6 s=8 e=4(whole) k=2(whole) : [b, s, e], [e] -> [b, s, k], [b, s, k]{{$}}}}
  %v, %f = kerf.route %l k 2 sigmoid bias %b : tensor<4xf32> : tensor<6x8x4xf32>
  // expected-remark-re @+1 {{{{^}}b=6(sum) s=8(sum) k=2(whole) e=4(whole) : [b, s, k] -> [e]{{$}}}}
  %load = kerf.expert_load %e : tensor<6x8x2xi32> -> tensor<4xf32>
  // expected-remark-re @+1 {{{{^}}g=3(sum) n=2(whole) s=8(whole) e=4(whole) k=2(whole) : [g*n, s, e], [g*n, s, k] -> [] variant reduce_group(n,s){{$}}}}
  %balance = kerf.load_balance_loss %l, %e group 2 : tensor<6x8x4xf32>, tensor<6x8x2xi32>
  // expected-remark-re @+1 {{{{^}}g=3(sum) n=2(whole) s=8(whole) e=4(whole) k=2(whole) : [g*n, s, e], [g*n, s, k], [] -> [g*n, s, e] linear in 2 variant reduce_group(n,s){{$}}}}
  %dbalance = kerf.load_balance_loss_backward %l, %e, %loss group 2 : tensor<6x8x4xf32>, tensor<6x8x2xi32>
  kerf.return %loss : tensor<f32>
}

// Tokens go to rows by slots: maps. Groups are independent of each other.
kerf.model @tables(%x: tensor<6x8x16xf32>, %e: tensor<6x8x2xi32>, %w: tensor<6x8x2xf32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}b=0(whole) s=8(whole) x=2(whole) :  -> [b, s, x]{{$}}}}
  %none = kerf.constant dense<> : tensor<0x8x2xi32>
  // expected-remark-re @+1 {{{{^}}g=3 n=2(whole) s=8(whole) k=2(whole) e=4(whole) : [g*n, s, k] -> [g*n, s, k], [g, e]{{$}}}}
  %slots, %sizes = kerf.assign_slots %e count 4 group 2 : tensor<6x8x2xi32>
  // expected-remark-re @+1 {{{{^}}g=0 n=0(whole) s=8(whole) k=2(whole) e=4(whole) : [g*n, s, k] -> [g*n, s, k], [g, e]{{$}}}}
  %nothing, %zero = kerf.assign_slots %none count 4 group 2 : tensor<0x8x2xi32>
  // expected-remark-re @+1 {{{{^}}g=3 n=2(sum) s=8(sum) k=2(sum) r=32(whole) d=16 : [g*n, s, d], [g*n, s, k] -> [g, r, d] linear in 0 map n,s,k->r by operand 1{{$}}}}
  %rows = kerf.dispatch %x, %slots : tensor<6x8x16xf32>, tensor<6x8x2xi32> -> tensor<3x32x16xf32>
  // expected-remark-re @+1 {{{{^}}g=3 n=2(sum) s=8(sum) k=2(sum) r=32(whole) d=16 : [g*n, s, d], [g*n, s, k], [g*n, s, k] -> [g, r, d] linear in 0 map n,s,k->r by operand 1{{$}}}}
  %weighed = kerf.dispatch %x, %slots weights %w : tensor<6x8x2xf32> : tensor<6x8x16xf32>, tensor<6x8x2xi32> -> tensor<3x32x16xf32>
  // expected-remark-re @+1 {{{{^}}g=3 n=2 s=8 k=2(sum) r=32(whole) d=16 : [g, r, d], [g*n, s, k] -> [g*n, s, d] linear in 0 map r->n,s,k by operand 1{{$}}}}
  %y = kerf.combine %rows, %slots : tensor<3x32x16xf32>, tensor<6x8x2xi32>
  // expected-remark-re @+1 {{{{^}}g=3 n=2 s=8 k=2(sum) r=32(whole) d=16 : [g, r, d], [g*n, s, k], [g*n, s, k] -> [g*n, s, d] linear in 0 map r->n,s,k by operand 1{{$}}}}
  %z = kerf.combine %rows, %slots weights %w : tensor<6x8x2xf32> : tensor<3x32x16xf32>, tensor<6x8x2xi32>
  // expected-remark-re @+1 {{{{^}}g=3 n=2 s=8 k=2 r=32(whole) d=16(sum) : [g, r, d], [g*n, s, k], [g*n, s, d] -> [g*n, s, k] linear in 0 map r->n,s,k by operand 1{{$}}}}
  %dw = kerf.combine_weight_gradient %rows, %slots, %x : tensor<3x32x16xf32>, tensor<6x8x2xi32>, tensor<6x8x16xf32>
  // expected-remark-re @+1 {{{{^}}g=3 n=2(sum) s=8(sum) k=2(sum) r=32(whole) d=16 e=4(whole) : [g*n, s, d], [g*n, s, k], [g, e] -> [g, r, d] linear in 0 variant all_to_all exchanges(g,r) map n,s,k->r by operand 1 ragged r{{$}}}}
  %sized = kerf.dispatch %x, %slots sizes %sizes : tensor<3x4xi32> : tensor<6x8x16xf32>, tensor<6x8x2xi32> -> tensor<3x32x16xf32>
  // expected-remark-re @+1 {{{{^}}g=3 n=2 s=8 k=2(sum) r=32(whole) d=16 e=4(whole) : [g, r, d], [g*n, s, k], [g*n, s, k], [g, e] -> [g*n, s, d] linear in 0 variant all_to_all exchanges(g,r) map r->n,s,k by operand 1 ragged r{{$}}}}
  %both = kerf.combine %rows, %slots weights %w : tensor<6x8x2xf32> sizes %sizes : tensor<3x4xi32> : tensor<3x32x16xf32>, tensor<6x8x2xi32>
  // expected-remark-re @+1 {{{{^}}g=3 n=2 s=8 k=2 r=32(whole) d=16(sum) e=4(whole) : [g, r, d], [g*n, s, k], [g*n, s, d], [g, e] -> [g*n, s, k] linear in 0 variant all_to_all exchanges(g,r) map r->n,s,k by operand 1 ragged r{{$}}}}
  %dsized = kerf.combine_weight_gradient %rows, %slots, %x sizes %sizes : tensor<3x4xi32> : tensor<3x32x16xf32>, tensor<6x8x2xi32>, tensor<6x8x16xf32>
  kerf.return %loss : tensor<f32>
}

// With a capacity, experts own fixed rows and are cut with them; without, rows are sent to experts.
kerf.model @experts(%x: tensor<2x16x8xf32>, %y: tensor<2x16x32xf32>, %w: tensor<4x32x8xf32>, %n: tensor<2x4xi32>, %loss: tensor<f32>) {
  // expected-remark-re @+1 {{{{^}}g=2 e=4(whole) r=16(whole) n=32 k=8(sum) : [g, r, k], [e, n, k], [g, e] -> [g, r, n] linear in 0,1 variant all_to_all together exchanges(r,e) map r->e by operand 2 ragged r{{$}}}}
  %free = kerf.grouped_matmul %x, %w, %n : tensor<2x16x8xf32>, tensor<4x32x8xf32>, tensor<2x4xi32>
  // expected-remark-re @+1 {{{{^}}g=2 e=4 c=4(whole) n=32 k=8(sum) : [g, e*c, k], [e, n, k], [g, e] -> [g, e*c, n] linear in 0,1{{$}}}}
  %fixed = kerf.grouped_matmul %x, %w, %n capacity 4 : tensor<2x16x8xf32>, tensor<4x32x8xf32>, tensor<2x4xi32>
  // expected-remark-re @+1 {{{{^}}g=2 e=4 c=4(whole) n=32(sum) k=8 : [g, e*c, n], [e, n, k], [g, e] -> [g, e*c, k] linear in 0,1{{$}}}}
  %back = kerf.grouped_matmul %y, %w, %n capacity 4 transposed : tensor<2x16x32xf32>, tensor<4x32x8xf32>, tensor<2x4xi32>
  // expected-remark-re @+1 {{{{^}}g=2(sum) e=4(whole) r=16(whole) n=32 k=8 : [g, r, n], [g, r, k], [g, e] -> [e, n, k] linear in 0,1 variant all_to_all together exchanges(r,e) map r->e by operand 2 ragged r{{$}}}}
  %dfree = kerf.grouped_weight_gradient %y, %x, %n : tensor<2x16x32xf32>, tensor<2x16x8xf32>, tensor<2x4xi32> -> tensor<4x32x8xf32>
  // expected-remark-re @+1 {{{{^}}g=2(sum) e=4 c=4(whole) n=32 k=8 : [g, e*c, n], [g, e*c, k], [g, e] -> [e, n, k] linear in 0,1{{$}}}}
  %dfixed = kerf.grouped_weight_gradient %y, %x, %n capacity 4 : tensor<2x16x32xf32>, tensor<2x16x8xf32>, tensor<2x4xi32> -> tensor<4x32x8xf32>
  kerf.return %loss : tensor<f32>
}

// The norm sums squares before its root; an update is element by element, each element once.
kerf.model @updates(learning_rate %rate: tensor<f32>, step %step: tensor<i32>, %gs: tensor<3x4xf32>) {
  kerf.repeat %i = 0 to 3 () {
    // expected-remark-re @+1 {{{{^}}b=4 :  -> [b]{{$}}}}
    %w = kerf.param "h.{i}.w" init<ones> : tensor<4xf32>
    kerf.yield
  }
  // expected-remark-re @+1 {{{{^}}g0_0=3(whole) g0_1=4(whole) : [g0_0, g0_1], [] -> [] variant sum_squares(g0_0,g0_1){{$}}}}
  %norm = kerf.global_norm %gs, %rate : tensor<3x4xf32>, tensor<f32>
  // expected-remark-re @+1 {{{{^}}: [] -> []{{$}}}}
  %clip = kerf.clip_factor %norm max 1.0
  // expected-remark-re @+1 {{{{^}}g0=3 g1=4 : [g0, g1], [], [], [] -> {{$}}}}
  kerf.update "h.{i}.w" [0 to 3] rule #kerf.adamw<> by %gs scale %clip rate %rate step %step : tensor<3x4xf32>
  kerf.return %rate : tensor<f32>
}
