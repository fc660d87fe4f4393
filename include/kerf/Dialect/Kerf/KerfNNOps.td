//===- KerfNNOps.td - the layers of a Transformer -------------------------===//

#ifndef KERF_NN_OPS_TD
#define KERF_NN_OPS_TD

include "kerf/Dialect/Kerf/KerfOpBase.td"

/// A layer: inferred types, meaning by decomposition, gradient, cost facts.
class Kerf_LayerOp<string mnemonic, list<Trait> traits = []>
    : Kerf_InferredOp<mnemonic, traits # [Kerf_Gradient, Kerf_Cost, Kerf_Decompose]>;

/// An element-wise layer.
class Kerf_ActivationOp<string mnemonic>
    : Kerf_Op<mnemonic, [Pure, SameOperandsAndResultType, Kerf_Factors,
                         Kerf_Gradient, Kerf_Cost, Kerf_Decompose]>;

//===----------------------------------------------------------------------===//
// Embedding and matmuls
//===----------------------------------------------------------------------===//

def Kerf_EmbeddingOp : Kerf_LayerOp<"embedding", [Kerf_Offsets, Kerf_Demand]> {
  let summary = "Look up the vectors of tokens";
  let description = [{
    `y[b,s,:] = table[ids[b,s] - offset, :]`, zeros where that row is outside the
    table. `offset` is the first vocabulary row of a shard. Looking up the id
    `padding` gives its row no gradient (`torch.nn.Embedding`'s `padding_idx`).

    Life: written by the user or the importer; lives on in `spmd`.

    Constraints:
    (C1) the table has rank 2.

    ```mlir
    %ids = kerf.constant dense<3> : tensor<2x8xi32>
    %wte = kerf.param "wte.weight" init<normal, 0.02> : tensor<32x16xf32>
    %x = kerf.embedding %ids, %wte : tensor<2x8xi32>, tensor<32x16xf32>
    ```
  }];
  let arguments = (ins Kerf_Int:$ids, Kerf_Float:$table, Optional<Kerf_I32Scalar>:$offset,
                       OptionalAttr<Kerf_I64Attr>:$padding);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$ids `,` $table (`offset` $offset^)? (`padding` $padding^)? attr-dict `:` type($ids) `,` type($table)";
}

def Kerf_LinearOp : Kerf_LayerOp<"linear", [Kerf_Library]> {
  let summary = "Multiply rows by a weight matrix";
  let description = [{
    `y[...,n] = sum_k x[...,k] w[n,k] + b[n]`, the weight as in `torch.nn.Linear`;
    `transposed`: the weight is `[k,n]`, as in GPT-2's `Conv1D`.

    Life: written by the user or the importer; lives on in `spmd`, a library
    matmul with the bias in its epilogue.

    Constraints:
    (C1) x has rank 1 to 8, the weight rank 2.
    (C2) the inner dimensions agree.
    (C3) the bias has one entry per output.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8x16xf32>
    %w = kerf.param "w" init<normal, 0.02> : tensor<32x16xf32>
    %b = kerf.param "b" init<zeros> : tensor<32xf32>
    %y = kerf.linear %x, %w bias %b : tensor<2x8x16xf32>, tensor<32x16xf32>, tensor<32xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$x, Kerf_Float:$weight, Optional<Kerf_Float>:$bias,
                       UnitAttr:$transposed);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $x `,` $weight (`bias` $bias^)? (`transposed` $transposed^)? attr-dict
    `:` type($x) `,` type($weight) (`,` type($bias)^)?
  }];
}

def Kerf_MatmulOp : Kerf_LayerOp<"matmul", [Kerf_Library]> {
  let summary = "Multiply matrices";
  let description = [{
    `y[...,m,n] = sum_k a[...,m,k] b[...,k,n] + bias[n]`; leading dimensions are
    a batch.

    Life: as `linear`.

    Constraints:
    (C1) both operands have one rank of 2 to 8 and equal leading dimensions.
    (C2) the inner dimensions agree.
    (C3) the bias has one entry per column.

    ```mlir
    %a = kerf.constant dense<0.5> : tensor<2x8x16xf32>
    %b = kerf.constant dense<0.5> : tensor<2x16x4xf32>
    %y = kerf.matmul %a, %b : tensor<2x8x16xf32>, tensor<2x16x4xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$lhs, Kerf_Float:$rhs, Optional<Kerf_Float>:$bias);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`bias` $bias^)? attr-dict
    `:` type($lhs) `,` type($rhs) (`,` type($bias)^)?
  }];
}

def Kerf_DequantizeOp : Kerf_Op<"dequantize", [Pure, Kerf_Demand, Kerf_Factors, Kerf_Cost,
    Kerf_Decompose, Kerf_Precision]> {
  let summary = "Make numbers of 4-bit codes and the scales of their blocks";
  let description = [{
    `w[...,k] = nf4[c[...,k]] s[...,k/64]`: blocks of 64 along the last dimension
    have one scale. `nf4` is the table of 16 numbers from -1 to 1 of Dettmers et al.
    2023, appendix E. A byte holds two codes: byte j of a block's 32 is `16 c + d - 128`
    for the codes c of number j and d of number 32 + j. Scales stay f32 under a policy
    of precision.

    Codes are constant: there is no gradient. A frozen weight that is kept so takes
    0.5625 bytes per number; the reverse body makes its numbers again.

    Life: written by the user or the importer; lives on in `spmd`, a kernel.

    Constraints:
    (C1) codes, scales and result have one rank >= 1 and equal leading dimensions.
    (C2) the last dimension of the result is twice that of the codes and 64 times
    that of the scales.

    ```mlir
    %c = kerf.param "w.weight" init<nf4> frozen : tensor<32x64xi8>
    %s = kerf.param "w.weight.absmax" init<constant, 0.04> frozen : tensor<32x2xf32>
    %w = kerf.dequantize %c, %s : tensor<32x64xi8>, tensor<32x2xf32> -> tensor<32x128xf32>
    ```
  }];
  let arguments = (ins Kerf_TensorOf<[I8]>:$codes, Kerf_Float:$scales);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $codes `,` $scales attr-dict `:` type($codes) `,` type($scales) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Numbers that share a scale.
    static constexpr int64_t kBlock = 64;
    /// Root of the mean square of the table: the standard deviation of numbers
    /// of scale 1 whose codes are all equally likely.
    static double getSpread();
  }];
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

def Kerf_LayerNormOp : Kerf_LayerOp<"layer_norm"> {
  let summary = "Normalize rows to mean 0 and variance 1";
  let description = [{
    `y = (x - mean) / sqrt(var + eps) g + b` over the last dimension, with the
    biased variance; statistics in f32 at least.

    Life: written by the user or the importer; lives on in `spmd`; fused with
    its neighbours.

    Constraints:
    (C1) x has rank >= 1; gain and bias have one entry per element of a row.
    (C2) eps >= 0.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8x16xf32>
    %g = kerf.param "g" init<ones> : tensor<16xf32>
    %b = kerf.param "b" init<zeros> : tensor<16xf32>
    %y = kerf.layer_norm %x, %g bias %b : tensor<2x8x16xf32>, tensor<16xf32>, tensor<16xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$x, Kerf_Float:$gain, Optional<Kerf_Float>:$bias,
                       DefaultValuedAttr<F64Attr, "1e-5">:$eps);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $x `,` $gain (`bias` $bias^)? (`eps` $eps^)? attr-dict
    `:` type($x) `,` type($gain) (`,` type($bias)^)?
  }];
}

def Kerf_RmsNormOp : Kerf_LayerOp<"rms_norm"> {
  let summary = "Normalize rows to root mean square 1";
  let description = [{
    `y = x / sqrt(mean(x^2) + eps) g` over the last dimension (Zhang and Sennrich
    2019); statistics in f32 at least.

    Life: as `layer_norm`.

    Constraints:
    (C1) x has rank >= 1; the gain has one entry per element of a row.
    (C2) eps >= 0.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8x16xf32>
    %g = kerf.param "g" init<ones> : tensor<16xf32>
    %y = kerf.rms_norm %x, %g eps 1.0e-6 : tensor<2x8x16xf32>, tensor<16xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$x, Kerf_Float:$gain, DefaultValuedAttr<F64Attr, "1e-5">:$eps);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x `,` $gain (`eps` $eps^)? attr-dict `:` type($x) `,` type($gain)";
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def Kerf_AttentionOp : Kerf_AttentionBase<"attention", [Kerf_Offsets, Kerf_Gradient]> {
  let summary = "Attend: weigh values by the softmax of query-key products";
  let description = [{
    With q `[B,Sq,H,D]`, k `[B,Sk,G,D]`, v `[B,Sk,G,Dv]`, G dividing H (H = G:
    multi-head, G = 1: multi-query), head h reading key head `h div (H/G)`:

        s[b,h,i,j] = scale sum_d q[b,i,h,d] k[b,j,h div (H/G),d]
        p[b,h,i,:] = dropout(softmax of s[b,h,i,:] over the visible j)
        y[b,i,h,:] = sum_j p[b,h,i,j] v[b,j,h div (H/G),:]

    `scale` defaults to `1/sqrt(D)`; `softcap c` puts `c tanh(s/c)` in place of s
    (Gemma 2). With global positions i and j, `causal`
    hides j > i, `window w` hides j <= i - w, `segments(q, k)` (two `[B,S]` document numbers)
    hides other documents. `offsets(b, h, q, k)` are the first global batch row,
    head, query and key of a shard and `global` the whole `[B,H,Sq,Sk]`. Dropout
    draws by (seed, step, layer, name, global index). With `zigzag` the
    positions of queries and keys are those of their global rows in that order,
    along dimensions 2 and 3 of the scores. `lse` adds the result
    `[B,H,Sq]`: the f32 logarithm of the sum of exponentials. A row without a
    visible key gives zeros.

    Life: written by the user or the importer; differentiation adds `lse`; a
    flash-attention kernel, never an S x S buffer.

    Constraints:
    (C1) q, k and v have rank 4 and agree in B; k and v agree in Sk and G; q and
    k in D.
    (C2) G divides H.
    (C3) the window is >= 1 and comes with `causal`.
    (C4) `segments` are absent, or `[B,Sq]` and `[B,Sk]`; `offsets` absent or
    four; `global` absent or four sizes not below the local ones.
    (C5) dropout lies in [0, 1) and comes with name, seed and step.
    (C6) `zigzag` is along [2, 3] and has as many rows as there are queries and
    keys in all.
    (C7) the softcap is above 0.

    ```mlir
    %q = kerf.constant dense<0.5> : tensor<2x8x4x16xf32>
    %k = kerf.constant dense<0.5> : tensor<2x8x2x16xf32>
    %y = kerf.attention %q, %k, %k causal : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
    ```
  }];
  let arguments = !con(shared, (ins UnitAttr:$lse, OptionalAttr<Kerf_ZigzagAttr>:$zigzag));
  let results = (outs Kerf_Float:$result, Optional<Kerf_Float>:$log_sum_exp);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`causal` $causal^)? (`window` $window^)? (`scale` $scale^)?
    (`softcap` $softcap^)?
    (`segments` `(` $segments^ `:` type($segments) `)`)? (`offsets` `(` $offsets^ `)`)?
    (`global` $global^)? (`zigzag` $zigzag^)?
    (`dropout` $dropout^ $name `seed` $seed `step` $step (`layer` $layer^)?)?
    (`lse` $lse^)? attr-dict `:` type($q) `,` type($k) `,` type($v)
  }];
}

def Kerf_AttentionSinkOp : Kerf_LayerOp<"attention_sink"> {
  let summary = "Let each head of an attention attend to nothing, too";
  let description = [{
    Every row of the softmax gets one more score, the head's sink, that weighs no
    value (gpt-oss). From the results y `[B,Sq,H,Dv]` and `lse` `[B,H,Sq]` of an
    `attention`, and a sink `[H]`:

        l[b,h,i]   = log(e^lse[b,h,i] + e^sink[h])
        z[b,i,h,:] = e^(lse[b,h,i] - l[b,h,i]) y[b,i,h,:]

    The second result is l. The gradient is that of the attention from z and l,
    and `-sum_bi e^(sink[h] - l) sum_d dz z` of the sink; for it, y and `lse` must
    be results of one `attention`, and l must not be used.

    Life: written by the user or the importer; fused with its neighbours.

    Constraints:
    (C1) y is `[B,Sq,H,Dv]`, the `lse` `[B,H,Sq]` in f32 (f64 for f64), the sink
    `[H]`.

    ```mlir
    %q = kerf.constant dense<0.5> : tensor<2x8x4x16xf32>
    %s = kerf.param "sinks" init<zeros> : tensor<4xf32>
    %y, %l = kerf.attention %q, %q, %q causal lse : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>
    %z, %m = kerf.attention_sink %y, %l, %s : tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<4xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$y, Kerf_Float:$log_sum_exp, Kerf_Float:$sink);
  let results = (outs Kerf_Float:$result, Kerf_Float:$all_log_sum_exp);
  let assemblyFormat = [{
    $y `,` $log_sum_exp `,` $sink attr-dict `:` type($y) `,` type($log_sum_exp) `,` type($sink)
  }];
}

def Kerf_RopeOp : Kerf_InferredOp<"rope", [Kerf_Offsets, Kerf_RowOrder, Kerf_Resize, AttrSizedOperandSegments,
    Kerf_Gradient, Kerf_Cost, Kerf_OwnLoops]> {
  let summary = "Rotate pairs of channels by position";
  let description = [{
    Rotary embedding (Su et al. 2021) of x `[B,S,H,D]` in the half-split form of
    Hugging Face: for j < D/2, with angle `a = position theta^(-2j/D)`,

        y[..,j]       = x[..,j] cos a - x[..,j+D/2] sin a
        y[..,j+D/2]   = x[..,j+D/2] cos a + x[..,j] sin a

    `interleaved` pairs the neighbours 2j and 2j+1 instead.
    The position is `positions[b,s]` if given, else `offset + s`, with `zigzag`
    the position of that row. `scaling`
    changes the frequencies. `inverse` is the transpose: it rotates back (and
    multiplies by the scaling's magnitude again). Angles in f32 at
    least.

    Life: written by the user or the importer; fused into kernels.

    Constraints:
    (C1) x has rank 4 and an even last dimension.
    (C2) positions are `[B,S]`.
    (C3) theta > 0, and the scaling is one of `#kerf.rope_llama3`,
    `#kerf.rope_linear`, `#kerf.rope_yarn`, `#kerf.rope_table`.
    (C4) `zigzag` is along [1] and comes without positions.
    (C5) a `#kerf.rope_table` has a frequency for each pair of channels.

    ```mlir
    %q = kerf.constant dense<0.5> : tensor<2x8x4x16xf32>
    %y = kerf.rope %q theta 10000.0 : tensor<2x8x4x16xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$x, Optional<Kerf_Int>:$positions,
    Optional<Kerf_I32Scalar>:$offset, F64Attr:$theta, OptionalAttr<Kerf_RopeScalingKind>:$scaling,
    UnitAttr:$inverse, OptionalAttr<Kerf_ZigzagAttr>:$zigzag, UnitAttr:$interleaved);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $x `theta` $theta (`scaling` `(` $scaling^ `)`)? (`interleaved` $interleaved^)?
    (`inverse` $inverse^)?
    (`positions` $positions^ `:` type($positions))? (`offset` $offset^)?
    (`zigzag` $zigzag^)? attr-dict `:` type($x)
  }];
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

def Kerf_GeluOp : Kerf_ActivationOp<"gelu"> {
  let summary = "Apply the Gaussian error linear unit";
  let description = [{
    `exact`: `x/2 (1 + erf(x/sqrt 2))`; `tanh`: `x/2 (1 + tanh(sqrt(2/pi) (x +
    0.044715 x^3)))` (Hendrycks and Gimpel 2016).

    Life: written by the user or the importer; fused, or a matmul epilogue.

    Constraints:
    (C1) operand and result have one float type. // gelu_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8xf32>
    %y = kerf.gelu tanh %x : tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Kerf_GeluKindAttr:$kind, Kerf_Float:$x);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "`` $kind $x attr-dict `:` type($result)";
}

def Kerf_SiluOp : Kerf_ActivationOp<"silu"> {
  let summary = "Apply the sigmoid linear unit";
  let description = [{
    `y = x / (1 + e^-x)`.

    Life: as `gelu`.

    Constraints:
    (C1) operand and result have one float type. // silu_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8xf32>
    %y = kerf.silu %x : tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$x);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

def Kerf_SquaredReluOp : Kerf_ActivationOp<"squared_relu"> {
  let summary = "Apply the squared rectifier";
  let description = [{
    `y = max(x, 0)^2` (So et al. 2021).

    Life: as `gelu`.

    Constraints:
    (C1) operand and result have one float type. // squared_relu_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8xf32>
    %y = kerf.squared_relu %x : tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$x);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

def Kerf_SwigluOp : Kerf_ActivationOp<"swiglu"> {
  let summary = "Gate by a sigmoid linear unit";
  let description = [{
    `y = silu(gate) up` (Shazeer 2020).

    Life: as `gelu`.

    Constraints:
    (C1) operands and result have one float type. // swiglu_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8xf32>
    %y = kerf.swiglu %x, %x : tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$gate, Kerf_Float:$up);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$gate `,` $up attr-dict `:` type($result)";
}

def Kerf_SoftmaxOp : Kerf_ActivationOp<"softmax"> {
  let summary = "Turn rows into probabilities";
  let description = [{
    `y = e^(x - max x) / sum e^(x - max x)` over the last dimension, in f32 at
    least.

    Life: written by the user; fused into row kernels.

    Constraints:
    (C1) operand and result have one float type. // softmax_c1
    (C2) the rank is >= 1.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8xf32>
    %y = kerf.softmax %x : tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$x);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Kerf_DropoutOp : Kerf_Op<"dropout", [Kerf_Offsets, Kerf_RowOrder, Pure, AttrSizedOperandSegments,
    AllTypesMatch<["x", "result"]>, Kerf_Factors, Kerf_Gradient, Kerf_PointwiseCost, Kerf_Decompose]> {
  let summary = "Zero elements at random by counter";
  let description = [{
    `y = u < rate ? 0 : x / (1 - rate)` with u uniform by (seed, step, layer,
    name, global index): the same mask in every layout, and in the gradient.
    `offsets`, `global` and `zigzag` as in `random_uniform`.

    Life: written by the user or the importer; fused; absent from evaluation.

    Constraints:
    (C1) the rate lies in [0, 1).
    (C2) `offsets` are absent or one per dimension, and `global` has one size
    per dimension not below the local one.
    (C3) `zigzag` is along dimensions of x with its number of rows in all.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8xf32>
    %seed = kerf.constant dense<1> : tensor<i32>
    %y = kerf.dropout %x rate 0.1 "drop" seed %seed step %seed : tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$x, F64Attr:$rate, StrAttr:$name, Kerf_I32Scalar:$seed,
    Kerf_I32Scalar:$step, Optional<Kerf_I32Scalar>:$layer,
    Variadic<Kerf_I32Scalar>:$offsets, OptionalAttr<DenseI64ArrayAttr>:$global,
    OptionalAttr<Kerf_ZigzagAttr>:$zigzag);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $x `rate` $rate $name `seed` $seed `step` $step (`layer` $layer^)?
    (`offsets` `(` $offsets^ `)`)? (`global` $global^)? (`zigzag` $zigzag^)? attr-dict `:` type($x)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

def Kerf_CountValidOp : Kerf_Op<"count_valid", [Pure, Kerf_Factors, Kerf_PointwiseCost, Kerf_Decompose]> {
  let summary = "Count the targets that are not ignored";
  let description = [{
    The number of targets that differ from `ignore` (default -100), as
    `tensor<f32>`: the normalizer of the loss over the global batch.

    Life: written by the user or the importer; computed once per step, before
    the micro-batches.

    Constraints: none

    ```mlir
    %t = kerf.constant dense<3> : tensor<2x8xi32>
    %n = kerf.count_valid %t : tensor<2x8xi32>
    ```
  }];
  let arguments = (ins Kerf_Int:$targets, DefaultValuedAttr<SI64Attr, "-100">:$ignore);
  let results = (outs Kerf_F32Scalar:$result);
  let assemblyFormat = "$targets (`ignore` $ignore^)? attr-dict `:` type($targets)";
}

def Kerf_CrossEntropyOp : Kerf_Op<"cross_entropy", [Kerf_Localize, Kerf_Variant, Pure, Kerf_Factors, Kerf_Gradient, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Score predicted distributions against target tokens";
  let description = [{
    With `l = ln sum_v e^logits[...,v]`:

        loss = sum over targets t != ignore of (l - logits[t] + z_loss l^2) / normalizer

    in f32 at least; a normalizer of 0 (no valid target) counts as 1. `offset` is
    the first vocabulary entry of a shard.

    Life: written by the user or the importer; fused into a row kernel.

    Constraints:
    (C1) targets have the shape of the logits' rows.
    (C2) z_loss is finite and >= 0.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8x32xf32>
    %t = kerf.constant dense<3> : tensor<2x8xi32>
    %n = kerf.count_valid %t : tensor<2x8xi32>
    %loss = kerf.cross_entropy %x, %t normalizer %n : tensor<2x8x32xf32>, tensor<2x8xi32>
    ```
  }];
  let arguments = (ins Kerf_Float:$logits, Kerf_Int:$targets, Kerf_F32Scalar:$normalizer,
    Optional<Kerf_I32Scalar>:$offset, DefaultValuedAttr<SI64Attr, "-100">:$ignore,
    DefaultValuedAttr<F64Attr, "0.0">:$z_loss);
  let results = (outs Kerf_F32Scalar:$result);
  let assemblyFormat = [{
    $logits `,` $targets `normalizer` $normalizer (`ignore` $ignore^)? (`z_loss` $z_loss^)?
    (`offset` $offset^)? attr-dict `:` type($logits) `,` type($targets)
  }];
  let hasVerifier = 1;
}

#endif // KERF_NN_OPS_TD
