//===- KerfTensorOps.td - plain ops that move and combine elements --------===//

#ifndef KERF_TENSOR_OPS_TD
#define KERF_TENSOR_OPS_TD

include "kerf/Dialect/Kerf/KerfOpBase.td"

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

def Kerf_ConstantOp : Kerf_Op<"constant", [Kerf_Localize, Kerf_Demand, Pure, ConstantLike, AllTypesMatch<["value", "result"]>,
    Kerf_Factors, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Make a constant";
  let description = [{
    Life: written by the user, differentiation or a decomposition; folded into
    kernels.

    Constraints:
    (C1) the result has the type of the value. // constant_c1
    (C2) the value is `dense<...>`: all its elements are in the text.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4xf32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasVerifier = 1;
  let hasFolder = 1;
  let builders = [
    /// A tensor of `type` whose elements are all `value`.
    OpBuilder<(ins "::mlir::Type":$type, "double":$value)>,
  ];
}

def Kerf_IotaOp : Kerf_Op<"iota", [Kerf_Offsets, Kerf_RowOrder, Pure, Kerf_Factors, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Make the index along a dimension";
  let description = [{
    `y[..., j, ...] = j + offset`, j the index along `dim`; with `zigzag` the
    position of that row.

    Life: written by the user or a decomposition; fused into kernels.

    Constraints:
    (C1) `dim` is a dimension of the result, the one that `zigzag` is along.

    ```mlir
    %pos = kerf.iota dim 1 : tensor<2x8xi32>
    ```
  }];
  let arguments = (ins Kerf_I64Attr:$dim, Optional<Kerf_I32Scalar>:$offset,
                       OptionalAttr<Kerf_ZigzagAttr>:$zigzag);
  let results = (outs Kerf_Int:$result);
  let assemblyFormat = "`dim` $dim (`offset` $offset^)? (`zigzag` $zigzag^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Kerf_RandomUniformOp : Kerf_Op<"random_uniform", [Kerf_Offsets, Kerf_RowOrder, Pure, AttrSizedOperandSegments,
    Kerf_Factors, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Make uniform random numbers by counter";
  let description = [{
    Numbers in [0, 1), a function of (seed, step, layer, name, global index)
    alone: `kerf/Dialect/Kerf/Random.h`. The global index of an element is its
    index plus `offsets`, in a tensor of shape `global` (default: the result's),
    so that every layout draws the same numbers. Along the dimensions of `zigzag`
    it counts positions, not rows.

    Life: made by the decomposition of dropout; fused into kernels.

    Constraints:
    (C1) `global` has the result's rank and no dimension smaller than the
    result's.
    (C2) `offsets` are absent or one per dimension.
    (C3) `zigzag` is along dimensions of the result with its number of rows in all.

    ```mlir
    %seed = kerf.constant dense<1> : tensor<i32>
    %u = kerf.random_uniform "drop" seed %seed step %seed layer %seed : tensor<2x8xf32>
    ```
  }];
  let arguments = (ins StrAttr:$name, Kerf_I32Scalar:$seed, Kerf_I32Scalar:$step,
    Optional<Kerf_I32Scalar>:$layer, Variadic<Kerf_I32Scalar>:$offsets,
    OptionalAttr<DenseI64ArrayAttr>:$global, OptionalAttr<Kerf_ZigzagAttr>:$zigzag);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $name `seed` $seed `step` $step (`layer` $layer^)? (`offsets` `(` $offsets^ `)`)?
    (`global` $global^)? (`zigzag` $zigzag^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

def Kerf_BroadcastOp : Kerf_Op<"broadcast", [Kerf_View, Pure, Kerf_Factors, Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Repeat a tensor along new dimensions";
  let description = [{
    Operand dimension i becomes result dimension `dims[i]`; the result does not
    depend on the other dimensions.

    Life: written by the user, differentiation or a decomposition; fused.

    Constraints:
    (C1) `dims` has one entry per operand dimension, ascending, within the
    result's rank.
    (C2) sizes agree along `dims`, and element types agree.

    ```mlir
    %b = kerf.constant dense<0.5> : tensor<4xf32>
    %y = kerf.broadcast %b dims [1] : tensor<4xf32> -> tensor<2x4xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = "$x `dims` $dims attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}

def Kerf_ReshapeOp : Kerf_Op<"reshape", [Kerf_View, Pure, Kerf_Factors, Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Give the same elements another shape";
  let description = [{
    Row-major order is kept.

    Life: written by the user, differentiation or a decomposition; a view.

    Constraints:
    (C1) operand and result have equally many elements of one type.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4x6xf32>
    %y = kerf.reshape %x : tensor<4x6xf32> -> tensor<4x2x3xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$x);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Kerf_TransposeOp : Kerf_InferredOp<"transpose", [Kerf_View, Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Permute dimensions";
  let description = [{
    Result dimension i is operand dimension `perm[i]`.

    Life: written by the user, differentiation or a decomposition; a view where
    the reader allows one.

    Constraints:
    (C1) `perm` is a permutation of the operand's dimensions.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4x6xf32>
    %y = kerf.transpose %x perm [1, 0] : tensor<4x6xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$x, DenseI64ArrayAttr:$perm);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = "$x `perm` $perm attr-dict `:` type($x)";
}

def Kerf_SliceOp : Kerf_InferredOp<"slice", [Kerf_View, Kerf_Localize, Kerf_Resize, Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Take a box out of a tensor";
  let description = [{
    `y[i] = x[i + offsets]` for i in a box of shape `sizes`.

    Life: written by the user, differentiation or a decomposition; a view.

    Constraints:
    (C1) offsets and sizes have one entry per dimension and the box lies inside
    the operand.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4x6xf32>
    %y = kerf.slice %x offsets [0, 2] sizes [4, 2] : tensor<4x6xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$x, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$sizes);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = "$x `offsets` $offsets `sizes` $sizes attr-dict `:` type($x)";
  let hasFolder = 1;
}

def Kerf_PadOp : Kerf_InferredOp<"pad", [Kerf_View, Kerf_Localize, Kerf_Resize, Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Surround a tensor with zeros";
  let description = [{
    `low[i]` zeros before and `high[i]` after dimension i.

    Life: made by differentiation (gradient of a slice); a partial write.

    Constraints:
    (C1) `low` and `high` have one entry >= 0 per dimension.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4x2xf32>
    %y = kerf.pad %x low [0, 2] high [0, 2] : tensor<4x2xf32>
    ```
  }];
  let arguments = (ins Kerf_Number:$x, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high);
  let results = (outs Kerf_Number:$result);
  let assemblyFormat = "$x `low` $low `high` $high attr-dict `:` type($x)";
}

def Kerf_ConcatOp : Kerf_InferredOp<"concat", [Kerf_View, Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Join tensors along a dimension";
  let description = [{
    Life: written by the user, or by `kerf-split-repeat` between the halves of a
    repeat and their readers.

    Constraints:
    (C1) at least one operand; `dim` is one of its dimensions.
    (C2) operands agree in element type and in all dimensions but `dim`.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4x2xf32>
    %y = kerf.concat dim 0 %x, %x : tensor<4x2xf32>, tensor<4x2xf32>
    ```
  }];
  let arguments = (ins Kerf_I64Attr:$dim, Variadic<Kerf_Tensor>:$inputs);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = "`dim` $dim $inputs attr-dict `:` type($inputs)";
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Combination
//===----------------------------------------------------------------------===//

def Kerf_EinsumOp : Kerf_Op<"einsum", [Kerf_Library, Pure, Kerf_Factors, Kerf_Gradient, Kerf_Cost, Kerf_Evaluate]> {
  let summary = "Contract two tensors";
  let description = [{
    `y[out] = sum over the letters not in out of a[lhs] b[rhs]`, one letter per
    dimension: `"bsk,nk->bsn"`. Every matmul is one. Sums are taken in f32 at
    least, whatever the operands' types. 8-bit floats can be multiplied by their
    kind only.

    Life: written by the user, differentiation or a decomposition; a library
    matmul.

    Constraints:
    (C1) the equation has the form `lhs,rhs->out` of lower-case letters, one per
    dimension, none twice in a term.
    (C2) a letter has one size.
    (C3) each letter of `out` is in `lhs` or `rhs`; a letter of `lhs` or `rhs`
    alone is in `out`.
    (C4) both operands are of 8-bit floats, or none.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8x16xf32>
    %w = kerf.constant dense<0.5> : tensor<32x16xf32>
    %y = kerf.einsum "bsk,nk->bsn" %x, %w : tensor<2x8x16xf32>, tensor<32x16xf32> -> tensor<2x8x32xf32>
    ```
  }];
  let arguments = (ins StrAttr:$equation, Kerf_MatmulFloat:$lhs, Kerf_MatmulFloat:$rhs);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$equation $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

def Kerf_ReduceOp : Kerf_InferredOp<"reduce", [Kerf_Gradient, Kerf_Cost, Kerf_Evaluate]> {
  let summary = "Sum, or take the maximum, along dimensions";
  let description = [{
    The result lacks the dimensions `dims`. The gradient of `max` goes to every
    element that equals the maximum, divided by their number.

    Life: written by the user, differentiation or a decomposition; fused.

    Constraints:
    (C1) `dims` are ascending dimensions of the operand.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4x6xf32>
    %y = kerf.reduce sum %x dims [0] : tensor<4x6xf32>
    ```
  }];
  let arguments = (ins Kerf_ReduceKindAttr:$kind, Kerf_Number:$x, DenseI64ArrayAttr:$dims);
  let results = (outs Kerf_Number:$result);
  let assemblyFormat = "`` $kind $x `dims` $dims attr-dict `:` type($x)";
}

def Kerf_UnitOp : Kerf_Op<"unit", [Pure, Kerf_Factors, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Choose the unit in which 8-bit floats hold a tensor";
  let description = [{
    `u = power_of_two(max |x| / largest)` over all elements, as `tensor<f32>`, where
    `largest` is that of the type `of`: `x / u` fits the type and nearly fills it.

    Parts on several devices have one unit, the largest of theirs. A micro-batch has
    its own: what is measured in it leaves no micro-batch.

    Life: made by `kerf-quantize-matmuls`; a kernel, and an all-reduce of one
    number where the operand is split.

    Constraints:
    (C1) `of` is f8E4M3FN or f8E5M2.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4x6xf32>
    %u = kerf.unit %x of f8E4M3FN : tensor<4x6xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$x, TypeAttr:$of);
  let results = (outs Kerf_F32Scalar:$result);
  let assemblyFormat = "$x `of` $of attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def Kerf_CumsumOp : Kerf_InferredOp<"cumsum", [Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Sum elements before an index";
  let description = [{
    Exclusive prefix sum along `dim`: `y[j] = sum of x[0..j-1]`.

    Life: made by the decomposition of `assign_slots`.

    Constraints:
    (C1) `dim` is a dimension of the operand.

    ```mlir
    %x = kerf.iota dim 0 : tensor<4xi32>
    %y = kerf.cumsum %x dim 0 : tensor<4xi32>
    ```
  }];
  let arguments = (ins Kerf_Number:$x, Kerf_I64Attr:$dim);
  let results = (outs Kerf_Number:$result);
  let assemblyFormat = "$x `dim` $dim attr-dict `:` type($x)";
}

def Kerf_TopKOp : Kerf_InferredOp<"top_k", [Kerf_Resize, Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Find the largest elements of each row";
  let description = [{
    The k largest elements along the last dimension, largest first, and their
    indices; of equal elements the one of lower index comes first.

    Life: made by the decomposition of `route`.

    Constraints:
    (C1) 1 <= k <= the last dimension.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4x6xf32>
    %y, %i = kerf.top_k %x k 2 : tensor<4x6xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$x, Kerf_I64Attr:$k);
  let results = (outs Kerf_Float:$values, Kerf_Int:$indices);
  let assemblyFormat = "$x `k` $k attr-dict `:` type($x)";
}

def Kerf_GatherOp : Kerf_InferredOp<"gather", [Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Look up rows by index";
  let description = [{
    `y[i..., :] = table[index[i...], :]`; a row of zeros where the index is
    negative or not below the number of rows.

    Life: made by decompositions of embedding and dispatch.

    Constraints:
    (C1) the table has rank >= 1.

    ```mlir
    %t = kerf.constant dense<0.5> : tensor<32x16xf32>
    %i = kerf.iota dim 0 : tensor<4xi32>
    %y = kerf.gather %t, %i : tensor<32x16xf32>, tensor<4xi32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$table, Kerf_Int:$index);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = "$table `,` $index attr-dict `:` type($table) `,` type($index)";
}

def Kerf_ScatterAddOp : Kerf_Op<"scatter_add", [Pure, Kerf_Factors, Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Add rows into a table of zeros by index";
  let description = [{
    `y[r, :] = sum of x[i..., :] over the i with index[i...] = r`; indices
    outside the table are ignored. The transpose of `gather`. With `distinct`
    no two indices that are in the table are equal: rows are only put there. If
    some are equal, one of their rows is.

    Life: made by decompositions of gradients and of dispatch.

    Constraints:
    (C1) the leading dimensions of x are the index's shape, the others those of
    a row of the result.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4x16xf32>
    %i = kerf.iota dim 0 : tensor<4xi32>
    %y = kerf.scatter_add %x, %i : tensor<4x16xf32>, tensor<4xi32> -> tensor<32x16xf32>
    ```
  }];
  let arguments = (ins Kerf_Number:$x, Kerf_Int:$index, UnitAttr:$distinct);
  let results = (outs Kerf_Number:$result);
  let assemblyFormat = "$x `,` $index attr-dict `:` type($x) `,` type($index) `->` type($result)";
  let hasVerifier = 1;
}

#endif // KERF_TENSOR_OPS_TD
