//===- KerfGradientOps.td - gradients of layers as ops of their own -------===//

#ifndef KERF_GRADIENT_OPS_TD
#define KERF_GRADIENT_OPS_TD

include "kerf/Dialect/Kerf/KerfOpBase.td"

/// `dx` from an operand and the gradient of the result, all of one type.
class Kerf_ActivationBackwardOp<string mnemonic>
    : Kerf_Op<mnemonic, [Pure, SameOperandsAndResultType, Kerf_Factors, Kerf_Cost, Kerf_Decompose]> {
  let arguments = (ins Kerf_Float:$x, Kerf_Float:$dy);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x `,` $dy attr-dict `:` type($result)";
}

def Kerf_EmbeddingGradientOp : Kerf_Op<"embedding_gradient", [Kerf_Offsets, Pure, Kerf_Factors, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Add the gradients of looked-up vectors into the table's";
  let description = [{
    `dtable[v,:] = sum of dy[b,s,:] over ids[b,s] - offset = v`, without those
    whose id is `padding`.

    Life: made by `kerf-differentiate`.

    Constraints:
    (C1) dy has the shape of ids and a row of the table.

    ```mlir
    %ids = kerf.constant dense<3> : tensor<2x8xi32>
    %dy = kerf.constant dense<0.5> : tensor<2x8x16xf32>
    %d = kerf.embedding_gradient %dy, %ids : tensor<2x8x16xf32>, tensor<2x8xi32> -> tensor<32x16xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$dy, Kerf_Int:$ids, Optional<Kerf_I32Scalar>:$offset,
                       OptionalAttr<Kerf_I64Attr>:$padding);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$dy `,` $ids (`offset` $offset^)? (`padding` $padding^)? attr-dict `:` type($dy) `,` type($ids) `->` type($result)";
  let hasVerifier = 1;
}

class Kerf_NormBackwardOp<string mnemonic>
    : Kerf_Op<mnemonic, [Pure, AllTypesMatch<["x", "dy", "result"]>, Kerf_Factors, Kerf_Cost, Kerf_Decompose]> {
  let arguments = (ins Kerf_Float:$x, Kerf_Float:$gain, Kerf_Float:$dy, F64Attr:$eps);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x `,` $gain `,` $dy `eps` $eps attr-dict `:` type($x) `,` type($gain)";
  let hasVerifier = 1;
}

class Kerf_NormWeightGradientOp<string mnemonic>
    : Kerf_Op<mnemonic, [Pure, AllTypesMatch<["x", "dy"]>, Kerf_Factors, Kerf_Cost, Kerf_Decompose]> {
  let arguments = (ins Kerf_Float:$x, Kerf_Float:$dy, F64Attr:$eps);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x `,` $dy `eps` $eps attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}

def Kerf_LayerNormBackwardOp : Kerf_NormBackwardOp<"layer_norm_backward"> {
  let summary = "Compute the input gradient of a layer norm";
  let description = [{
    With `n = (x - mean) r`, `r = 1/sqrt(var + eps)`, `u = dy g`:
    `dx = r (u - mean(u) - n mean(u n))`.

    Life: made by `kerf-differentiate`; fused into a row kernel.

    Constraints:
    (C1) the gain has one entry per element of a row.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x16xf32>
    %g = kerf.constant dense<0.5> : tensor<16xf32>
    %d = kerf.layer_norm_backward %x, %g, %x eps 1.0e-5 : tensor<2x16xf32>, tensor<16xf32>
    ```
  }];
}

def Kerf_LayerNormWeightGradientOp : Kerf_NormWeightGradientOp<"layer_norm_weight_gradient"> {
  let summary = "Compute the gain gradient of a layer norm";
  let description = [{
    `dg = sum over rows of dy (x - mean) / sqrt(var + eps)`.

    Life: made by `kerf-differentiate`; fused into a column reduction.

    Constraints:
    (C1) the result has one entry per element of a row.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x16xf32>
    %d = kerf.layer_norm_weight_gradient %x, %x eps 1.0e-5 : tensor<2x16xf32> -> tensor<16xf32>
    ```
  }];
}

def Kerf_RmsNormBackwardOp : Kerf_NormBackwardOp<"rms_norm_backward"> {
  let summary = "Compute the input gradient of an rms norm";
  let description = [{
    With `r = 1/sqrt(mean(x^2) + eps)`, `u = dy g`: `dx = r u - x r^3 mean(u x)`.

    Life: made by `kerf-differentiate`; fused into a row kernel.

    Constraints:
    (C1) the gain has one entry per element of a row.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x16xf32>
    %g = kerf.constant dense<0.5> : tensor<16xf32>
    %d = kerf.rms_norm_backward %x, %g, %x eps 1.0e-5 : tensor<2x16xf32>, tensor<16xf32>
    ```
  }];
}

def Kerf_RmsNormWeightGradientOp : Kerf_NormWeightGradientOp<"rms_norm_weight_gradient"> {
  let summary = "Compute the gain gradient of an rms norm";
  let description = [{
    `dg = sum over rows of dy x / sqrt(mean(x^2) + eps)`.

    Life: made by `kerf-differentiate`; fused into a column reduction.

    Constraints:
    (C1) the result has one entry per element of a row.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x16xf32>
    %d = kerf.rms_norm_weight_gradient %x, %x eps 1.0e-5 : tensor<2x16xf32> -> tensor<16xf32>
    ```
  }];
}

def Kerf_AttentionBackwardOp : Kerf_AttentionBase<"attention_backward", [Kerf_Offsets, AllTypesMatch<["y", "dy"]>]> {
  let summary = "Compute the gradients of attention";
  let description = [{
    From the operands, result y, `lse` and dy of an `attention`, with p made
    again as `exp(s - lse)` and p' after dropout:

        dv = p'^T dy,  dp = dropout(dy v^T),  ds = p (dp - sum_d dy y)
        dq = scale ds k,  dk = scale ds^T q, summed over the heads of a group

    With `softcap c`, ds is also multiplied by `1 - (s/c)^2`. With the y and the
    `lse` of an `attention_sink` these are the gradients of both ops.

    Life: made by `kerf-differentiate`; a flash-attention kernel.

    Constraints:
    (C1) the constraints of `attention` hold.
    (C2) y and dy have the type of the attention's result; lse is `[B,H,Sq]`.

    ```mlir
    %q = kerf.constant dense<0.5> : tensor<2x8x4x16xf32>
    %y, %l = kerf.attention %q, %q, %q causal lse : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>
    %dq, %dk, %dv = kerf.attention_backward %q, %q, %q from %y, %l, %y causal
        : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32> from tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
    ```
  }];
  let arguments = !con(shared, (ins Kerf_Float:$y, Kerf_Float:$log_sum_exp, Kerf_Float:$dy,
                                      OptionalAttr<Kerf_ZigzagAttr>:$zigzag));
  let results = (outs Kerf_Float:$dq, Kerf_Float:$dk, Kerf_Float:$dv);
  let assemblyFormat = [{
    $q `,` $k `,` $v `from` $y `,` $log_sum_exp `,` $dy
    (`causal` $causal^)? (`window` $window^)? (`scale` $scale^)? (`softcap` $softcap^)?
    (`segments` `(` $segments^ `:` type($segments) `)`)? (`offsets` `(` $offsets^ `)`)?
    (`global` $global^)? (`zigzag` $zigzag^)?
    (`dropout` $dropout^ $name `seed` $seed `step` $step (`layer` $layer^)?)?
    attr-dict `:` type($q) `,` type($k) `,` type($v) `from` type($y) `,` type($log_sum_exp)
  }];
}

def Kerf_GeluBackwardOp : Kerf_Op<"gelu_backward", [Pure, SameOperandsAndResultType,
    Kerf_Factors, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Compute the gradient of a gelu";
  let description = [{
    `dx = dy y'(x)`; exact: `y' = Phi(x) + x phi(x)`; tanh: with `u = sqrt(2/pi)
    (x + 0.044715 x^3)`, `y' = (1 + tanh u)/2 + x/2 (1 - tanh^2 u) u'`.

    Life: made by `kerf-differentiate`; fused, or a matmul epilogue.

    Constraints:
    (C1) operands and result have one float type. // gelu_backward_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8xf32>
    %d = kerf.gelu_backward tanh %x, %x : tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Kerf_GeluKindAttr:$kind, Kerf_Float:$x, Kerf_Float:$dy);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "`` $kind $x `,` $dy attr-dict `:` type($result)";
}

def Kerf_SiluBackwardOp : Kerf_ActivationBackwardOp<"silu_backward"> {
  let summary = "Compute the gradient of a silu";
  let description = [{
    With `s = 1/(1 + e^-x)`: `dx = dy s (1 + x (1 - s))`.

    Life: made by `kerf-differentiate`; fused.

    Constraints:
    (C1) operands and result have one float type. // silu_backward_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8xf32>
    %d = kerf.silu_backward %x, %x : tensor<2x8xf32>
    ```
  }];
}

def Kerf_SquaredReluBackwardOp : Kerf_ActivationBackwardOp<"squared_relu_backward"> {
  let summary = "Compute the gradient of a squared rectifier";
  let description = [{
    `dx = 2 dy max(x, 0)`.

    Life: made by `kerf-differentiate`; fused.

    Constraints:
    (C1) operands and result have one float type. // squared_relu_backward_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8xf32>
    %d = kerf.squared_relu_backward %x, %x : tensor<2x8xf32>
    ```
  }];
}

def Kerf_SwigluBackwardOp : Kerf_Op<"swiglu_backward", [Pure, SameOperandsAndResultType,
    Kerf_Factors, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Compute the gradients of a swiglu";
  let description = [{
    `dgate = silu_backward(gate, dy up)`, `dup = dy silu(gate)`.

    Life: made by `kerf-differentiate`; fused.

    Constraints:
    (C1) operands and results have one float type. // swiglu_backward_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8xf32>
    %dg, %du = kerf.swiglu_backward %x, %x, %x : tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$gate, Kerf_Float:$up, Kerf_Float:$dy);
  let results = (outs Kerf_Float:$dgate, Kerf_Float:$dup);
  let assemblyFormat = "$gate `,` $up `,` $dy attr-dict `:` type($dgate)";
}

def Kerf_SoftmaxBackwardOp : Kerf_Op<"softmax_backward", [Pure, SameOperandsAndResultType,
    Kerf_Factors, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Compute the gradient of a softmax";
  let description = [{
    From the result y: `dx = y (dy - sum(dy y))` over the last dimension.

    Life: made by `kerf-differentiate`; fused into a row kernel.

    Constraints:
    (C1) operands and result have one float type. // softmax_backward_c1
    (C2) the rank is at least 1.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8xf32>
    %d = kerf.softmax_backward %x, %x : tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$y, Kerf_Float:$dy);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$y `,` $dy attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Kerf_CrossEntropyBackwardOp : Kerf_InferredOp<"cross_entropy_backward", [Kerf_Localize, Kerf_Variant, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Compute the logits' gradient of a cross entropy";
  let description = [{
    `dlogits[v] = dy/normalizer (p_v (1 + 2 z_loss l) - [v = target])` in rows
    whose target is not ignored, else 0; p the softmax, l as in `cross_entropy`.

    Life: made by `kerf-differentiate`; fused into a row kernel.

    Constraints:
    (C1) targets have the shape of the logits' rows.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8x32xf32>
    %t = kerf.constant dense<3> : tensor<2x8xi32>
    %n = kerf.count_valid %t : tensor<2x8xi32>
    %one = kerf.constant dense<1.0> : tensor<f32>
    %d = kerf.cross_entropy_backward %x, %t, %one normalizer %n : tensor<2x8x32xf32>, tensor<2x8xi32>
    ```
  }];
  let arguments = (ins Kerf_Float:$logits, Kerf_Int:$targets, Kerf_F32Scalar:$dy,
    Kerf_F32Scalar:$normalizer, Optional<Kerf_I32Scalar>:$offset,
    DefaultValuedAttr<SI64Attr, "-100">:$ignore, DefaultValuedAttr<F64Attr, "0.0">:$z_loss);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $logits `,` $targets `,` $dy `normalizer` $normalizer (`ignore` $ignore^)?
    (`z_loss` $z_loss^)? (`offset` $offset^)? attr-dict `:` type($logits) `,` type($targets)
  }];
}

#endif // KERF_GRADIENT_OPS_TD
