//===- KerfModelOps.td - models, parameters, repeats, updates -------------===//

#ifndef KERF_MODEL_OPS_TD
#define KERF_MODEL_OPS_TD

include "kerf/Dialect/Kerf/KerfOpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/OpAsmInterface.td"

def Kerf_ModelOp : Kerf_Op<"model", [IsolatedFromAbove, Symbol,
    SingleBlock, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "Define a model: the loss of one step over the global batch";
  let description = [{
    The body computes the loss from the inputs and the parameters; its
    `kerf.return` gives the scalar loss first, then any metrics. An input may
    carry a role: `tokens`, `targets`, `segments` (document number of each
    token), `positions` (of each token in its document), `seed`, `step` (1 for
    the first), `learning_rate`, `loss_scale` (factor on the loss before it is
    differentiated). Inputs without a role are plain data.

    Attributes: `optimizer` (an update rule), `groups` (array of `#kerf.group`),
    `clip_norm` (largest global norm of the gradient, 0 or absent for none),
    `plan` (`#kerf.plan`: how the step is distributed), `zigzag` (`#kerf.zigzag`
    along [1]: `tokens`, `targets`, `segments` and `positions` come in this order),
    `adapter` (what the trainable parameters are as an adapter: the text of a
    `peft` library's `adapter_config.json`), `config` (the text of the
    `config.json` that the model was imported from, which is written beside its
    weights).

    Life: written by the user or `kerf-import`; `kerf-differentiate` appends the
    backward pass and the updates; partition removes it.

    Constraints:
    (C1) every role is one of those above and appears at most once.
    (C2) `seed` and `step` are `tensor<i32>`, `learning_rate` and `loss_scale`
    `tensor<f32>`, `tokens`, `targets`, `segments` and `positions` i32 tensors.
    (C3) the first returned value is a scalar float, the loss.
    (C4) params of one name agree in type, initializer, `frozen` and `master`.
    (C5) `clip_norm` is a finite number >= 0, `groups` an array of `#kerf.group`,
    `optimizer` an update rule.
    (C6) all values in the body are tensors, and no op but `kerf.repeat` has a
    body of its own. Ops of other dialects may stand in it.
    (C7) `plan` is a `#kerf.plan`.
    (C8) `zigzag` is along [1], with as many rows as those inputs have there.
    (C9) `adapter` and `config` are strings.

    ```mlir
    kerf.model @mean(%x: tensor<4xf32>) {
      %s = kerf.reduce sum %x dims [0] : tensor<4xf32>
      kerf.return %s : tensor<f32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$roles);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The input with this role, or null.
    ::mlir::BlockArgument getInput(::llvm::StringRef role);
    /// Adds an input with this role (or returns the one there is).
    ::mlir::BlockArgument getOrAddInput(::llvm::StringRef role, ::mlir::Type type);
    ::kerf::ReturnOp getReturn();
  }];
}

def Kerf_ReturnOp : Kerf_Op<"return", [Pure, Terminator, HasParent<"ModelOp">]> {
  let summary = "Return the loss, then metrics";
  let description = [{
    Values that are parts of sums over tokens, as the loss is, come out added up
    over all ranks and micro-batches. `names` say what a value counts, for those
    who log a run; a value without a name, or with an empty one, goes by its
    place. `expert_load model.layers.{i}.mlp 0 to 4`: the choices `[4,E]` of each
    expert in layers 0 to 3; `expert_rows ...`: those of them that got a row.

    Life: as `kerf.model`; `kerf-insert-expert-loads` adds values.

    Constraints:
    (C1) stands at the end of a `kerf.model`. // return_c1
    (C2) there are at most as many names as values; each is empty or of the form
    above, with as many values for each layer, and none but the empty one comes
    twice.

    ```mlir
    kerf.model @zero(%counts: tensor<4x8xf32>) {
      %loss = kerf.constant dense<0.0> : tensor<f32>
      kerf.return %loss, %counts names ["", "expert_load layers.{i}.mlp 0 to 4"] : tensor<f32>, tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Kerf_Tensor>:$values, OptionalAttr<StrArrayAttr>:$names);
  let builders = [OpBuilder<(ins "::mlir::ValueRange":$values), [{
    build($_builder, $_state, values, ::mlir::ArrayAttr());
  }]>];
  let assemblyFormat = "$values (`names` $names^)? attr-dict `:` type($values)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What output `index` of a step is called: `loss`, `grad_norm`, its name,
    /// or `metric<index>`.
    std::string getOutputName(unsigned index);
  }];
}

def Kerf_ParamOp : Kerf_Op<"param", [Pure, Kerf_Factors, Kerf_PointwiseCost]> {
  let summary = "Read a parameter as it is at the start of the step";
  let description = [{
    The name is the Hugging Face checkpoint name, the shape and orientation too.
    Inside a `kerf.repeat`, `{i}` stands for the iteration (also `{2*i}`,
    `{i+1}`, `{2*i+1}`): one parameter per iteration; without it all iterations
    share one. A stack is several checkpoint tensors along dimension 0: those
    of `experts.{e}.w1.weight : tensor<8x...>` have the numbers 0 to 7, those of
    `{gate,up}_proj.weight : tensor<2x...>` the names in braces.

    `frozen` parameters get no gradient and no update. `master` is the type of
    the copy that the optimizer updates, where it differs from the parameter's.

    Life: written by the user or the importer; `kerf-precision` sets `master`;
    `spmd` programs keep it as the read of a shard.

    Constraints:
    (C1) the name is not empty, has balanced braces, and only `{i}` forms and
    at most one stack inside them.
    (C2) `{i}` appears only inside a `kerf.repeat`.
    (C3) a stack has rank >= 1; in a model one of names has their number as
    dimension 0.
    (C4) `master` is f64, f32, bf16 or f16.
    (C5) i8 stands with `init<nf4>`, and `frozen` without `master`.

    ```mlir
    kerf.model @m() {
      %w = kerf.param "w" init<normal, 0.02> : tensor<4xf32>
      %f = kerf.param "f" init<ones> frozen : tensor<4xf32>
      %p = kerf.mul %w, %f : tensor<4xf32>
      %s = kerf.reduce sum %p dims [0] : tensor<4xf32>
      kerf.return %s : tensor<f32>
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, Kerf_InitAttr:$init, UnitAttr:$frozen,
                       OptionalAttr<TypeAttr>:$master);
  let results = (outs Kerf_TensorOf<[F64, F32, BF16, F16, I8]>:$result);
  let assemblyFormat = [{
    $name `init` `` $init (`frozen` $frozen^)? (`master` $master^)? attr-dict
    `:` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// True when each iteration of the enclosing repeat has its own parameter.
    bool isPerIteration();
  }];
}

def Kerf_RepeatOp : Kerf_Op<"repeat", [AttrSizedOperandSegments, SingleBlock,
    RecursiveMemoryEffects,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "Repeat a layer: a counted loop over values";
  let description = [{
    Runs the body for i = start, ..., end-1 (`reverse`: end-1, ..., start).
    Values in `( )` are carried: the body's yield gives their next value and the
    results their last. Values in `slices( )` have a leading dimension of
    `end - start`; iteration i sees slice `i - start`. Values in the yield's
    `stack( )` become results with such a leading dimension, element `i - start`
    from iteration i. The first body argument is the iteration number.

    `pair` numbers a forward repeat and the reverse repeat made for it; passes
    that split one split the other.

    Life: written by the user or the importer; differentiation adds stacks to it
    and makes the reverse one; `kerf-split-repeat` splits it; partition turns it
    into counted loops of `spmd` functions.

    Constraints:
    (C1) 0 <= start < end.
    (C2) each slice operand has leading dimension `end - start`.
    (C3) the yield's carried values have the types of the carried operands.
    (C4) a repeat is not inside another repeat.
    (C5) the body takes the iteration number, then one value per carried operand
    and one per slice.

    ```mlir
    kerf.model @powers(%x: tensor<2xf32>, %ys: tensor<3x2xf32>) {
      %last, %all = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2xf32>) slices(%y = %ys : tensor<3x2xf32>) {
        %n = kerf.mul %h, %y : tensor<2xf32>
        kerf.yield %n stack(%n) : tensor<2xf32>, tensor<2xf32>
      }
      %s = kerf.reduce sum %last dims [0] : tensor<2xf32>
      kerf.return %s : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Variadic<Kerf_Tensor>:$inits,
                       Variadic<Kerf_Tensor>:$slices, Kerf_I64Attr:$start,
                       Kerf_I64Attr:$end, UnitAttr:$reverse,
                       OptionalAttr<Kerf_I64Attr>:$pair);
  let results = (outs Variadic<Kerf_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getCount() { return getEnd() - getStart(); }
    ::mlir::BlockArgument getIndex() { return getBody().getArgument(0); }
    ::mlir::Block::BlockArgListType getCarryArgs() {
      return getBody().getArguments().slice(1, getInits().size());
    }
    ::mlir::Block::BlockArgListType getSliceArgs() {
      return getBody().getArguments().drop_front(1 + getInits().size());
    }
    ::mlir::ResultRange getCarryResults() { return getResults().take_front(getInits().size()); }
    ::mlir::ResultRange getStackResults() { return getResults().drop_front(getInits().size()); }
    ::kerf::YieldOp getYield();
    /// Result types that follow from the body's yield.
    ::llvm::SmallVector<::mlir::Type> inferResultTypes();
  }];
}

def Kerf_YieldOp : Kerf_Op<"yield", [Pure, Terminator, AttrSizedOperandSegments,
                                    HasParent<"RepeatOp">]> {
  let summary = "Give the next carried values and the values to stack";
  let description = [{
    Life: as `kerf.repeat`.

    Constraints:
    (C1) stands at the end of a `kerf.repeat`. // yield_c1

    ```mlir
    kerf.model @m(%x: tensor<2xf32>) {
      %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2xf32>) {
        %n = kerf.exp %h : tensor<2xf32>
        kerf.yield %n : tensor<2xf32>
      }
      %s = kerf.reduce sum %y dims [0] : tensor<2xf32>
      kerf.return %s : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Variadic<Kerf_Tensor>:$carried, Variadic<Kerf_Tensor>:$stacked);
  let hasCustomAssemblyFormat = 1;
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

def Kerf_GlobalNormOp : Kerf_Op<"global_norm", [Pure, Kerf_Factors, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Compute the Euclidean norm of all gradients together";
  let description = [{
    `sqrt(sum over all operands of the sum of their squares)`.

    Life: made by `kerf-differentiate` where the model clips or scales its loss;
    partition turns it into local sums and one all-reduce that counts every element once.

    Constraints:
    (C1) there is at least one operand.

    ```mlir
    %0 = kerf.param "a" init<ones> : tensor<4xf32>
    %1 = kerf.global_norm %0, %0 : tensor<4xf32>, tensor<4xf32>
    ```
  }];
  let arguments = (ins Variadic<Kerf_Float>:$gradients);
  let results = (outs Kerf_F32Scalar:$result);
  let assemblyFormat = "$gradients attr-dict `:` type($gradients)";
  let hasVerifier = 1;
}

def Kerf_ClipFactorOp : Kerf_Op<"clip_factor", [Pure, Kerf_Factors, Kerf_PointwiseCost,
    Kerf_Decompose]> {
  let summary = "Compute the factor that clips gradients to a global norm";
  let description = [{
    `min(1, max_norm / (norm + 1e-6))`, as `torch.nn.utils.clip_grad_norm_`.

    Life: made by `kerf-differentiate`, fused into the update.

    Constraints:
    (C1) `max` is a finite number > 0.

    ```mlir
    %norm = kerf.constant dense<3.0> : tensor<f32>
    %c = kerf.clip_factor %norm max 1.0
    ```
  }];
  let arguments = (ins Kerf_F32Scalar:$norm, F64Attr:$max);
  let results = (outs Kerf_F32Scalar:$result);
  let assemblyFormat = "$norm `max` $max attr-dict";
  let hasVerifier = 1;
}

def Kerf_UpdateOp : Kerf_Op<"update", [
    AttrSizedOperandSegments, MemoryEffects<[MemWrite]>, Kerf_Factors, Kerf_Cost]> {
  let summary = "Update a parameter from its gradient";
  let description = [{
    Applies the rule to the parameter, its optimizer state and `scale *
    gradient`. The state is named `<parameter>.<state>`, its shapes and types
    are what the rule says (`getStates`). With `[start to end]` the gradient is a stack
    over the iterations of a repeat, and the parameters of all of them are
    updated. `master` is the type of the copy that is updated, where it differs
    from the parameter's: the parameter is then the rounded master. Where the
    condition of `if` is false, parameter, master and state keep their values,
    whatever the gradient is.

    This is the only op with an effect; every parameter is read before it is
    updated.

    Life: made by `kerf-differentiate`; becomes the `update` function of `spmd`.

    Constraints:
    (C1) a parameter of this name, not frozen, is read in the model; its type is
    the gradient's (less the stacked dimension) with the element type of
    `param_type`.
    (C2) with `[start to end]` the name has `{i}` and the gradient a leading
    dimension of `end - start`; without, it has no `{i}`.
    (C3) each parameter is updated at most once.
    (C4) the rule is an optimizer rule. // update_c4
    (C5) in a model, the rule can update parameters of this shape. // update_c5

    ```mlir
    kerf.model @m(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
      %w = kerf.param "w" init<ones> : tensor<4xf32>
      %s = kerf.reduce sum %w dims [0] : tensor<4xf32>
      %g = kerf.constant dense<1.0> : tensor<4xf32>
      kerf.update "w" rule #kerf.sgd<momentum = 0.9> by %g rate %lr step %t : tensor<4xf32>
      kerf.return %s : tensor<f32>
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<Kerf_I64Attr>:$start,
    OptionalAttr<Kerf_I64Attr>:$end, Kerf_Float:$gradient,
    Optional<Kerf_F32Scalar>:$scale, Kerf_F32Scalar:$rate, Kerf_I32Scalar:$step,
    Optional<Kerf_BoolScalar>:$condition,
    Kerf_OptimizerRule:$rule, DefaultValuedAttr<F64Attr, "1.0">:$rate_scale,
    OptionalAttr<TypeAttr>:$param_type);
  let assemblyFormat = [{
    $name (`[` $start^ `to` $end `]`)? `rule` $rule `by` $gradient (`scale` $scale^)?
    `rate` $rate (`times` $rate_scale^)? `step` $step (`if` $condition^)?
    (`into` $param_type^)?
    attr-dict `:` type($gradient)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What the rule keeps of each parameter, if the gradient is not split.
    ::llvm::SmallVector<::kerf::StateTensor> getStates();
  }];
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

def Kerf_CheckCloseOp : Kerf_Op<"check_close", [SameTypeOperands, MemoryEffects<[MemWrite]>]> {
  let summary = "Check in the interpreter that two tensors agree";
  let description = [{
    `max|actual - expected| <= tolerance * max(1, max|expected|)`; a NaN on one
    side only disagrees. The interpreter reports the first differing element
    and fails; every other stage refuses the op.

    Life: written by tests; gone before ingest ends.

    Constraints:
    (C1) both operands have one type. // check_close_c1
    (C2) the tolerance is a finite number >= 0.

    ```mlir
    %a = kerf.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = kerf.exp %a : tensor<2xf32>
    %e = kerf.constant dense<[2.7182817, 7.389056]> : tensor<2xf32>
    kerf.check_close %b, %e within 1.0e-6 : tensor<2xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$actual, Kerf_Tensor:$expected, F64Attr:$tolerance);
  let assemblyFormat = "$actual `,` $expected `within` $tolerance attr-dict `:` type($actual)";
  let hasVerifier = 1;
}

#endif // KERF_MODEL_OPS_TD
