//===- KerfPointwiseOps.td - element-wise plain ops -----------------------===//

#ifndef KERF_POINTWISE_OPS_TD
#define KERF_POINTWISE_OPS_TD

include "kerf/Dialect/Kerf/KerfOpBase.td"

//===----------------------------------------------------------------------===//
// One operand
//===----------------------------------------------------------------------===//

class Kerf_UnaryOp<string mnemonic>
    : Kerf_Op<mnemonic, [Pure, SameOperandsAndResultType, Kerf_Factors,
                         Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate, Kerf_Function]> {
  let arguments = (ins Kerf_Float:$x);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

def Kerf_NegOp : Kerf_UnaryOp<"neg"> {
  let summary = "Negate elements";
  let description = [{
    `y = -x`, element by element.

    Life: written by the user or a decomposition; fused into kernels.

    Constraints:
    (C1) operand and result have one float type. // neg_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.neg %x : tensor<4xf32>
    ```
  }];
}

def Kerf_StopGradientOp : Kerf_Op<"stop_gradient", [Pure, SameOperandsAndResultType, Kerf_Factors,
    Kerf_NoGradient, Kerf_PointwiseCost, Kerf_Evaluate, Kerf_Scalar]> {
  let summary = "Take elements as constants";
  let description = [{
    `y = x`, and the gradient of x is 0: `detach` of PyTorch, `stop_gradient`
    of JAX.

    Life: written by the user or an import; its operand takes its place when
    gradients have been built.

    Constraints:
    (C1) operand and result have one float type. // stop_gradient_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.stop_gradient %x : tensor<4xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$x);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

def Kerf_ExpOp : Kerf_UnaryOp<"exp"> {
  let summary = "Raise e to elements";
  let description = [{
    `y = e^x`, element by element.

    Life: written by the user or a decomposition; fused into kernels.

    Constraints:
    (C1) operand and result have one float type. // exp_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.exp %x : tensor<4xf32>
    ```
  }];
}

def Kerf_LogOp : Kerf_UnaryOp<"log"> {
  let summary = "Take the natural logarithm";
  let description = [{
    `y = ln x`, element by element.

    Life: written by the user or a decomposition; fused into kernels.

    Constraints:
    (C1) operand and result have one float type. // log_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.log %x : tensor<4xf32>
    ```
  }];
}

def Kerf_SqrtOp : Kerf_UnaryOp<"sqrt"> {
  let summary = "Take the square root";
  let description = [{
    `y = sqrt(x)`, element by element.

    Life: written by the user or a decomposition; fused into kernels.

    Constraints:
    (C1) operand and result have one float type. // sqrt_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.sqrt %x : tensor<4xf32>
    ```
  }];
}

def Kerf_RsqrtOp : Kerf_UnaryOp<"rsqrt"> {
  let summary = "Take the reciprocal square root";
  let description = [{
    `y = 1 / sqrt(x)`, element by element.

    Life: written by the user or a decomposition; fused into kernels.

    Constraints:
    (C1) operand and result have one float type. // rsqrt_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.rsqrt %x : tensor<4xf32>
    ```
  }];
}

def Kerf_TanhOp : Kerf_UnaryOp<"tanh"> {
  let summary = "Take the hyperbolic tangent";
  let description = [{
    `y = tanh x`, element by element.

    Life: written by the user or a decomposition; fused into kernels.

    Constraints:
    (C1) operand and result have one float type. // tanh_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.tanh %x : tensor<4xf32>
    ```
  }];
}

def Kerf_ErfOp : Kerf_UnaryOp<"erf"> {
  let summary = "Evaluate the error function";
  let description = [{
    `y = erf x`, element by element.

    Life: written by the user or a decomposition; fused into kernels.

    Constraints:
    (C1) operand and result have one float type. // erf_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.erf %x : tensor<4xf32>
    ```
  }];
}

def Kerf_SinOp : Kerf_UnaryOp<"sin"> {
  let summary = "Take the sine";
  let description = [{
    `y = sin x`, element by element.

    Life: written by the user or a decomposition; fused into kernels.

    Constraints:
    (C1) operand and result have one float type. // sin_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.sin %x : tensor<4xf32>
    ```
  }];
}

def Kerf_CosOp : Kerf_UnaryOp<"cos"> {
  let summary = "Take the cosine";
  let description = [{
    `y = cos x`, element by element.

    Life: written by the user or a decomposition; fused into kernels.

    Constraints:
    (C1) operand and result have one float type. // cos_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.cos %x : tensor<4xf32>
    ```
  }];
}

def Kerf_PowerOfTwoOp : Kerf_Op<"power_of_two", [Pure, SameOperandsAndResultType, Kerf_Factors,
    Kerf_PointwiseCost, Kerf_Evaluate, Kerf_Scalar]> {
  let summary = "Round magnitudes up to powers of two";
  let description = [{
    `y` is the smallest power of two that is not below `|x|`, element by element,
    but from 2^-126 to 2^127; 2^127 for NaN. Division by it changes exponents only.

    Life: written by the user, or made by `kerf-quantize-matmuls`; fused into
    kernels.

    Constraints:
    (C1) operand and result have one type, of f32.

    ```mlir
    %x = kerf.constant dense<0.3> : tensor<4xf32>
    %y = kerf.power_of_two %x : tensor<4xf32>
    ```
  }];
  let arguments = (ins Kerf_TensorOf<[F32]>:$x);
  let results = (outs Kerf_TensorOf<[F32]>:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

def Kerf_LogisticOp : Kerf_UnaryOp<"logistic"> {
  let summary = "Apply the logistic function";
  let description = [{
    `y = 1 / (1 + e^-x)`, element by element.

    Life: written by the user or a decomposition; fused into kernels.

    Constraints:
    (C1) operand and result have one float type. // logistic_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.logistic %x : tensor<4xf32>
    ```
  }];
}

//===----------------------------------------------------------------------===//
// Two operands
//===----------------------------------------------------------------------===//

class Kerf_BinaryOp<string mnemonic, list<Trait> traits = []>
    : Kerf_Op<mnemonic, traits # [Pure, SameOperandsAndResultType, Kerf_Factors,
                                  Kerf_PointwiseCost, Kerf_Evaluate, Kerf_Function]> {
  let arguments = (ins Kerf_Number:$lhs, Kerf_Number:$rhs);
  let results = (outs Kerf_Number:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Kerf_AddOp : Kerf_BinaryOp<"add", [Kerf_Gradient]> {
  let summary = "Add elements";
  let description = [{
    `y = a + b`, element by element.

    Life: written by the user, differentiation or a decomposition; fused into
    kernels.

    Constraints:
    (C1) operands and result have one type of f64, f32, bf16, f16 or i32. // add_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.add %x, %x : tensor<4xf32>
    ```
  }];
}

def Kerf_SubOp : Kerf_BinaryOp<"sub", [Kerf_Gradient]> {
  let summary = "Subtract elements";
  let description = [{
    `y = a - b`, element by element.

    Life: written by the user, differentiation or a decomposition; fused into
    kernels.

    Constraints:
    (C1) operands and result have one type of f64, f32, bf16, f16 or i32. // sub_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.sub %x, %x : tensor<4xf32>
    ```
  }];
}

def Kerf_MulOp : Kerf_BinaryOp<"mul", [Kerf_Gradient]> {
  let summary = "Multiply elements";
  let description = [{
    `y = a b`, element by element.

    Life: written by the user, differentiation or a decomposition; fused into
    kernels.

    Constraints:
    (C1) operands and result have one type of f64, f32, bf16, f16 or i32. // mul_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.mul %x, %x : tensor<4xf32>
    ```
  }];
}

def Kerf_DivOp : Kerf_BinaryOp<"div", [Kerf_Gradient]> {
  let summary = "Divide elements";
  let description = [{
    `y = a / b (integers: rounded towards minus infinity)`, element by element.

    Life: written by the user, differentiation or a decomposition; fused into
    kernels.

    Constraints:
    (C1) operands and result have one type of f64, f32, bf16, f16 or i32. // div_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.div %x, %x : tensor<4xf32>
    ```
  }];
}

class Kerf_ChoiceOp<string mnemonic> : Kerf_BinaryOp<mnemonic, [Kerf_Gradient]> {
  let arguments = (ins Kerf_Number:$lhs, Kerf_Number:$rhs, UnitAttr:$share_ties);
}

def Kerf_MaxOp : Kerf_ChoiceOp<"max"> {
  let summary = "Take the larger element";
  let description = [{
    `y = max(a, b)`, element by element. Where both are equal the gradient goes to the left operand, or half of it to
    each with `share_ties`, as in JAX and in PyTorch's maximum. So `max 0, x` has slope 0 at 0, `max x, 0` slope 1.

    Life: written by the user, differentiation or a decomposition; fused into
    kernels.

    Constraints:
    (C1) operands and result have one type of f64, f32, bf16, f16 or i32. // max_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.max %x, %x : tensor<4xf32>
    %z = kerf.max %x, %y {share_ties} : tensor<4xf32>
    ```
  }];
}

def Kerf_MinOp : Kerf_ChoiceOp<"min"> {
  let summary = "Take the smaller element";
  let description = [{
    `y = min(a, b)`, element by element. Where both are equal the gradient goes to the left operand, or half of it to
    each with `share_ties`, as in JAX and in PyTorch's minimum. So `min 0, x` has slope 0 at 0, `min x, 0` slope 1.

    Life: written by the user, differentiation or a decomposition; fused into
    kernels.

    Constraints:
    (C1) operands and result have one type of f64, f32, bf16, f16 or i32. // min_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.min %x, %x : tensor<4xf32>
    %z = kerf.min %x, %y {share_ties} : tensor<4xf32>
    ```
  }];
}

def Kerf_PowOp : Kerf_BinaryOp<"pow"> {
  let summary = "Raise elements to powers";
  let description = [{
    `y = a^b`, element by element. Has no gradient: it serves update rules.

    Life: made by update rules.

    Constraints:
    (C1) operands and result have one type of f64, f32, bf16, f16 or i32. // pow_c1

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.pow %x, %x : tensor<4xf32>
    ```
  }];
}

//===----------------------------------------------------------------------===//
// Choice and types
//===----------------------------------------------------------------------===//

def Kerf_CompareOp : Kerf_InferredOp<"compare", [SameTypeOperands, Kerf_PointwiseCost, Kerf_Evaluate, Kerf_Scalar]> {
  let summary = "Compare elements";
  let description = [{
    `y = a R b` with R one of eq, ne, lt, le, gt, ge; an i1 tensor.

    Life: written by the user or a decomposition; fused into kernels.

    Constraints:
    (C1) both operands have one type. // compare_c1

    ```mlir
    %x = kerf.iota dim 0 : tensor<4xi32>
    %y = kerf.compare lt %x, %x : tensor<4xi32>
    ```
  }];
  let arguments = (ins Kerf_CompareKindAttr:$kind, Kerf_Number:$lhs, Kerf_Number:$rhs);
  let results = (outs Kerf_Bool:$result);
  let assemblyFormat = "`` $kind $lhs `,` $rhs attr-dict `:` type($lhs)";
}

def Kerf_SelectOp : Kerf_InferredOp<"select", [Kerf_Gradient, Kerf_PointwiseCost,
    Kerf_Evaluate, Kerf_Scalar, AllTypesMatch<["on_true", "on_false"]>]> {
  let summary = "Choose elements by a condition";
  let description = [{
    `y = c ? a : b`, element by element.

    Life: written by the user or a decomposition; fused into kernels.

    Constraints:
    (C1) condition and choices have one shape.
    (C2) both choices have one type. // select_c2

    ```mlir
    %x = kerf.iota dim 0 : tensor<4xi32>
    %c = kerf.compare lt %x, %x : tensor<4xi32>
    %y = kerf.select %c, %x, %x : tensor<4xi32>
    ```
  }];
  let arguments = (ins Kerf_Bool:$condition, Kerf_Tensor:$on_true, Kerf_Tensor:$on_false);
  let results = (outs Kerf_Tensor:$result);
  let hasCustomAssemblyFormat = 1;
}

def Kerf_CastOp : Kerf_Op<"cast", [Pure, SameOperandsAndResultShape, Kerf_Factors,
    Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate, Kerf_Conversion]> {
  let summary = "Change the element type";
  let description = [{
    To the nearest value, ties to even; floats to integers towards zero; to i1:
    is not zero; integers to i8: the number of the lowest 8 bits. What is too large
    for an 8-bit float, infinities too, becomes its largest number: 448 of
    `f8E4M3FN`, 57344 of `f8E5M2`.

    Life: written by the user, a decomposition or `kerf-precision`; fused.

    Constraints:
    (C1) operand and result have one shape. // cast_c1

    ```mlir
    %x = kerf.iota dim 0 : tensor<4xi32>
    %y = kerf.cast %x : tensor<4xi32> -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$x);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

#endif // KERF_POINTWISE_OPS_TD
