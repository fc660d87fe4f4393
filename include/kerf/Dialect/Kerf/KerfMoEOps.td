//===- KerfMoEOps.td - mixtures of experts --------------------------------===//
//
// Tokens x `[B,S,D]` are routed to k of E experts. A *group* is a number of
// whole sequences; G = B / group. Slots are rows of a group's table of R rows:
// without a capacity R = group S k and rows are sorted by expert, so that no
// token is ever dropped; with a capacity C, R = E C and expert e owns the rows
// [e C, (e+1) C).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_MOE_OPS_TD
#define KERF_MOE_OPS_TD

include "kerf/Dialect/Kerf/KerfOpBase.td"

def Kerf_RouteOp : Kerf_InferredOp<"route", [Kerf_Gradient, Kerf_Cost, Kerf_OwnLoops, Kerf_DemandResize, Kerf_Precision]> {
  let summary = "Choose experts for each token and weigh them";
  let description = [{
    `p = softmax(logits)` in f32 at least, with `sigmoid` the logistic function of
    each logit; the k most probable experts of each token (ties: the lower number)
    and their p, divided by their sum (with `sigmoid` plus 1e-20) with
    `renormalize`, times `scale`. Results: weights `[B,S,k]` f32 and experts
    `[B,S,k]` i32.

    The choice, not the weights, is by p plus `bias` `[E]`, and `groups g best n`
    limits it to the n of g equal groups of neighbouring experts whose two largest
    together are largest (DeepSeek-V3 report, 2.1.2), or with `by_largest` whose
    largest one is (DeepSeek-V2 report, 2.2.2). In place of a gradient the
    bias gets the `expert_load`.

    Life: written by the user or the importer; fused into a row kernel.

    Constraints:
    (C1) the logits have rank 3, and 1 <= k <= E.
    (C2) the bias is `[E]`.
    (C3) `groups` divides E into groups of 2 or more, `best` comes with it and lies
    from 1 to `groups`, and the best groups have k experts.
    (C4) `scale` is a finite number > 0.

    ```mlir
    %l = kerf.constant dense<0.5> : tensor<2x8x4xf32>
    %w, %e = kerf.route %l k 2 renormalize : tensor<2x8x4xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$logits, Optional<Kerf_Float>:$bias, Kerf_I64Attr:$k,
    UnitAttr:$renormalize, UnitAttr:$sigmoid, OptionalAttr<Kerf_I64Attr>:$groups,
    OptionalAttr<Kerf_I64Attr>:$best, UnitAttr:$by_largest, OptionalAttr<F64Attr>:$scale);
  let results = (outs Kerf_Float:$weights, Kerf_Int:$experts);
  let assemblyFormat = [{
    $logits `k` $k (`renormalize` $renormalize^)? (`sigmoid` $sigmoid^)?
    (`groups` $groups^ `best` $best)? (`by_largest` $by_largest^)? (`scale` $scale^)? (`bias` $bias^ `:` type($bias))?
    attr-dict `:` type($logits)
  }];
}

def Kerf_RouteBackwardOp : Kerf_InferredOp<"route_backward", [Kerf_Cost, Kerf_OwnLoops]> {
  let summary = "Compute the logits' gradient of a routing";
  let description = [{
    The choice is constant; the gradient flows through the chosen probabilities.
    `renormalize`, `sigmoid` and `scale` are those of the `route`.

    Life: made by `kerf-differentiate`; fused into a row kernel.

    Constraints:
    (C1) experts and dweights are `[B,S,k]` of logits `[B,S,E]`.

    ```mlir
    %l = kerf.constant dense<0.5> : tensor<2x8x4xf32>
    %w, %e = kerf.route %l k 2 renormalize : tensor<2x8x4xf32>
    %d = kerf.route_backward %l, %e, %w renormalize : tensor<2x8x4xf32>, tensor<2x8x2xi32>, tensor<2x8x2xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$logits, Kerf_Int:$experts, Kerf_Float:$dweights,
    UnitAttr:$renormalize, UnitAttr:$sigmoid, OptionalAttr<F64Attr>:$scale);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $logits `,` $experts `,` $dweights (`renormalize` $renormalize^)? (`sigmoid` $sigmoid^)?
    (`scale` $scale^)? attr-dict `:` type($logits) `,` type($experts) `,` type($dweights)
  }];
}

def Kerf_ExpertLoadOp : Kerf_Op<"expert_load", [Pure, Kerf_Demand, Kerf_Factors, Kerf_PointwiseCost, Kerf_Decompose]> {
  let summary = "Count the choices of each expert";
  let description = [{
    `y[e]` is the number of (b,s,j) with `experts[b,s,j] = e`.

    Life: made by `kerf-differentiate` for the bias of a `route`.

    Constraints:
    (C1) the experts have rank 3 and the result rank 1.

    ```mlir
    %l = kerf.constant dense<0.5> : tensor<2x8x4xf32>
    %w, %e = kerf.route %l k 2 : tensor<2x8x4xf32>
    %n = kerf.expert_load %e : tensor<2x8x2xi32> -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Kerf_Int:$experts);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$experts attr-dict `:` type($experts) `->` type($result)";
  let hasVerifier = 1;
}

def Kerf_LoadBalanceLossOp : Kerf_Op<"load_balance_loss", [Pure, Kerf_Resize, Kerf_Factors, Kerf_Variant, Kerf_Gradient, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Penalize uneven use of experts";
  let description = [{
    With T tokens in a group, `f_e` = (choices of expert e) / T and `P_e` the mean
    probability of e: `E sum_e f_e P_e` (Fedus et al. 2021, summed over the k
    choices as in Hugging Face), summed over the groups: a mean is the user's
    division by their global number, so that splits and micro-batches are exact.
    `group` counts sequences (rows of B).

    Life: written by the user or the importer; a split inside a group reduces its
    counts and means.

    Constraints:
    (C1) logits `[B,S,E]` and experts `[B,S,k]` agree in B and S.
    (C2) the group is >= 1 and divides B.

    ```mlir
    %l = kerf.constant dense<0.5> : tensor<2x8x4xf32>
    %w, %e = kerf.route %l k 2 : tensor<2x8x4xf32>
    %a = kerf.load_balance_loss %l, %e group 1 : tensor<2x8x4xf32>, tensor<2x8x2xi32>
    ```
  }];
  let arguments = (ins Kerf_Float:$logits, Kerf_Int:$experts, Kerf_I64Attr:$group);
  let results = (outs Kerf_F32Scalar:$result);
  let assemblyFormat = "$logits `,` $experts `group` $group attr-dict `:` type($logits) `,` type($experts)";
  let hasVerifier = 1;
}

def Kerf_LoadBalanceLossBackwardOp : Kerf_InferredOp<"load_balance_loss_backward", [Kerf_Resize, Kerf_Variant, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Compute the logits' gradient of a load-balance loss";
  let description = [{
    `f_e` is constant; the gradient flows through the mean probabilities.

    Life: made by `kerf-differentiate`; fused into a row kernel.

    Constraints:
    (C1) logits and experts agree as in `load_balance_loss`.

    ```mlir
    %l = kerf.constant dense<0.5> : tensor<2x8x4xf32>
    %w, %e = kerf.route %l k 2 : tensor<2x8x4xf32>
    %one = kerf.constant dense<1.0> : tensor<f32>
    %d = kerf.load_balance_loss_backward %l, %e, %one group 1 : tensor<2x8x4xf32>, tensor<2x8x2xi32>
    ```
  }];
  let arguments = (ins Kerf_Float:$logits, Kerf_Int:$experts, Kerf_F32Scalar:$dy, Kerf_I64Attr:$group);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$logits `,` $experts `,` $dy `group` $group attr-dict `:` type($logits) `,` type($experts)";
}

def Kerf_AssignSlotsOp : Kerf_InferredOp<"assign_slots", [Kerf_DemandResize, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Give each choice of a token its row in its group's table";
  let description = [{
    Choices are ranked within (group, expert): all first choices in token order,
    then all second choices, and so on. Choice of rank r of expert e gets slot
    `start_e + r`, start_e = the number of choices of lower experts; with a
    capacity C slot `e C + r`, or -1 (dropped) where r >= C. Results: slots
    `[B,S,k]` and sizes `[G,E]`, the rows in use of each expert.

    Life: written by the user or the importer; integers only, no gradient.

    Constraints:
    (C1) experts have rank 3.
    (C2) the group is >= 1 and divides B; `count` (E) is >= 1; the capacity is >= 1.

    ```mlir
    %e = kerf.constant dense<1> : tensor<2x8x2xi32>
    %s, %n = kerf.assign_slots %e count 4 group 1 : tensor<2x8x2xi32>
    ```
  }];
  let arguments = (ins Kerf_Int:$experts, Kerf_I64Attr:$count, Kerf_I64Attr:$group, OptionalAttr<Kerf_I64Attr>:$capacity);
  let results = (outs Kerf_Int:$slots, Kerf_Int:$sizes);
  let assemblyFormat = "$experts `count` $count `group` $group (`capacity` $capacity^)? attr-dict `:` type($experts)";
}

def Kerf_DispatchOp : Kerf_Op<"dispatch", [Pure, AttrSizedOperandSegments, Kerf_Demand, Kerf_Variant, Kerf_Factors, Kerf_Gradient, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Send tokens to their rows";
  let description = [{
    `y[g,r,:] = sum over (b,s,j) of group g with slots[b,s,j] = r of
    weights[b,s,j] x[b,s,:]`, weights 1 when absent. Rows nobody has are zero.

    `sizes` are those of `assign_slots`, for tables without a capacity: which rows
    are whose is then known where experts are split, and every rank makes the rows
    of its own. The result does not depend on them.

    Life: written by the user or the importer; where experts are split, on tokens
    that all of their ranks have, or, by the variant `all_to_all`, on those of
    each rank, whose rows are exchanged.

    Constraints:
    (C1) x is `[B,S,D]`, slots and weights `[B,S,k]`, the result `[G,R,D]` with
    G dividing B; sizes are `[G,E]`.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x8x16xf32>
    %e = kerf.constant dense<1> : tensor<2x8x2xi32>
    %s, %n = kerf.assign_slots %e count 4 group 1 : tensor<2x8x2xi32>
    %r = kerf.dispatch %x, %s : tensor<2x8x16xf32>, tensor<2x8x2xi32> -> tensor<2x16x16xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$x, Kerf_Int:$slots, Optional<Kerf_Float>:$weights,
    Optional<Kerf_Int>:$sizes);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $x `,` $slots (`weights` $weights^ `:` type($weights))?
    (`sizes` $sizes^ `:` type($sizes))? attr-dict
    `:` type($x) `,` type($slots) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Kerf_CombineOp : Kerf_InferredOp<"combine", [AttrSizedOperandSegments, Kerf_Demand, Kerf_Variant, Kerf_Gradient, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Bring rows back to their tokens and add them";
  let description = [{
    `y[b,s,:] = sum_j weights[b,s,j] rows[g, slots[b,s,j], :]`, weights 1 when
    absent, dropped choices zero. `sizes` as in `dispatch`, whose transpose it is.

    Life: written by the user or the importer; where experts are split, a sum over
    their ranks is left, or rows are exchanged.

    Constraints:
    (C1) rows are `[G,R,D]`, slots and weights `[B,S,k]` with G dividing B; sizes
    are `[G,E]`.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x16x16xf32>
    %e = kerf.constant dense<1> : tensor<2x8x2xi32>
    %s, %n = kerf.assign_slots %e count 4 group 1 : tensor<2x8x2xi32>
    %y = kerf.combine %x, %s : tensor<2x16x16xf32>, tensor<2x8x2xi32>
    ```
  }];
  let arguments = (ins Kerf_Float:$rows, Kerf_Int:$slots, Optional<Kerf_Float>:$weights,
    Optional<Kerf_Int>:$sizes);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $rows `,` $slots (`weights` $weights^ `:` type($weights))?
    (`sizes` $sizes^ `:` type($sizes))? attr-dict
    `:` type($rows) `,` type($slots)
  }];
}

def Kerf_CombineWeightGradientOp : Kerf_InferredOp<"combine_weight_gradient", [Kerf_Demand, Kerf_Variant, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Compute the gradient of the weights of a combine";
  let description = [{
    `dw[b,s,j] = sum_d dy[b,s,d] rows[g, slots[b,s,j], d]`, f32, 0 where dropped.
    `sizes` as in `dispatch`.

    Life: made by `kerf-differentiate`.

    Constraints:
    (C1) shapes agree as in `combine`.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x16x16xf32>
    %e = kerf.constant dense<1> : tensor<2x8x2xi32>
    %s, %n = kerf.assign_slots %e count 4 group 1 : tensor<2x8x2xi32>
    %dy = kerf.constant dense<0.5> : tensor<2x8x16xf32>
    %d = kerf.combine_weight_gradient %x, %s, %dy : tensor<2x16x16xf32>, tensor<2x8x2xi32>, tensor<2x8x16xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$rows, Kerf_Int:$slots, Kerf_Float:$dy, Optional<Kerf_Int>:$sizes);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $rows `,` $slots `,` $dy (`sizes` $sizes^ `:` type($sizes))? attr-dict
    `:` type($rows) `,` type($slots) `,` type($dy)
  }];
}

def Kerf_GroupedMatmulOp : Kerf_InferredOp<"grouped_matmul", [Kerf_Library, Kerf_Resize, Kerf_Variant, Kerf_Gradient, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Multiply each row by the weight of its expert";
  let description = [{
    `y[g,r,n] = sum_k x[g,r,k] w[e(g,r),n,k]`, e(g,r) the expert that owns row r;
    `transposed`: `y[g,r,k] = sum_n x[g,r,n] w[e(g,r),n,k]`. Rows beyond the sizes
    are zero. `capacity` as in `assign_slots`.

    Life: written by the user or the importer; a grouped library matmul.

    Constraints:
    (C1) x is `[G,R,*]`, the weight `[E,N,K]`, sizes `[G,E]`; inner dimensions
    agree.
    (C2) with a capacity C, R = E C.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x16x16xf32>
    %w = kerf.param "experts.{e}.w1.weight" init<normal, 0.02> : tensor<4x32x16xf32>
    %n = kerf.constant dense<4> : tensor<2x4xi32>
    %y = kerf.grouped_matmul %x, %w, %n : tensor<2x16x16xf32>, tensor<4x32x16xf32>, tensor<2x4xi32>
    ```
  }];
  let arguments = (ins Kerf_Float:$x, Kerf_Float:$weight, Kerf_Int:$sizes,
                       OptionalAttr<Kerf_I64Attr>:$capacity, UnitAttr:$transposed);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $x `,` $weight `,` $sizes (`capacity` $capacity^)? (`transposed` $transposed^)?
    attr-dict `:` type($x) `,` type($weight) `,` type($sizes)
  }];
}

def Kerf_GroupedWeightGradientOp : Kerf_Op<"grouped_weight_gradient", [Kerf_Library, Kerf_Resize, Pure, Kerf_Variant, Kerf_Factors, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Compute the weight gradient of a grouped matmul";
  let description = [{
    `dw[e,n,k] = sum over rows (g,r) of expert e of dy[g,r,n] x[g,r,k]`.

    Life: made by `kerf-differentiate`; a grouped library matmul.

    Constraints:
    (C1) dy `[G,R,N]`, x `[G,R,K]` and sizes `[G,E]` agree with the result `[E,N,K]`.
    (C2) with a capacity C, R = E C.

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<2x16x16xf32>
    %dy = kerf.constant dense<0.5> : tensor<2x16x32xf32>
    %n = kerf.constant dense<4> : tensor<2x4xi32>
    %d = kerf.grouped_weight_gradient %dy, %x, %n : tensor<2x16x32xf32>, tensor<2x16x16xf32>, tensor<2x4xi32> -> tensor<4x32x16xf32>
    ```
  }];
  let arguments = (ins Kerf_Float:$dy, Kerf_Float:$x, Kerf_Int:$sizes, OptionalAttr<Kerf_I64Attr>:$capacity);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = [{
    $dy `,` $x `,` $sizes (`capacity` $capacity^)? attr-dict
    `:` type($dy) `,` type($x) `,` type($sizes) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // KERF_MOE_OPS_TD
