//===- SpmdRankOps.td - what functions do besides computing ---------------===//

#ifndef SPMD_RANK_OPS_TD
#define SPMD_RANK_OPS_TD

include "kerf/Dialect/Spmd/SpmdOpBase.td"

//===----------------------------------------------------------------------===//
// Inputs, buffers and outputs
//===----------------------------------------------------------------------===//

def Spmd_ReadOp : Spmd_Op<"read", [MemoryEffects<[MemRead]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Read an input or a buffer";
  let description = [{
    Of an input: the part of the present micro-batch, or, where the type is that
    of the whole step, all micro-batches of this rank. Of a slot buffer: the copy
    of the present micro-batch.

    Life: made by `kerf-partition`; an address after memory is placed.

    Constraints:
    (C1) the name is an input or a buffer of the program, of this type.

    ```mlir
    spmd.program @p over <> micro_batches 1 slots 1 {
      spmd.input @x global tensor<4xf32> sharded [[]] : tensor<4xf32>
      spmd.func @forward() {
        %x = spmd.read @x : tensor<4xf32>
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$source);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($result)";
}

class Spmd_Store<string mnemonic> : Spmd_Op<mnemonic, [MemoryEffects<[MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let arguments = (ins Kerf_Tensor:$value, FlatSymbolRefAttr:$target);
}

def Spmd_WriteOp : Spmd_Store<"write"> {
  let summary = "Write a value to a buffer or an output";
  let description = [{
    Life: as `spmd.read`.

    Constraints:
    (C1) the name is a buffer or an output of the program, of this type.

    ```mlir
    spmd.program @p over <> micro_batches 1 slots 1 {
      spmd.output @norm last : tensor<f32>
      spmd.func @update() {
        %x = kerf.constant dense<1.0> : tensor<f32>
        spmd.write %x to @norm : tensor<f32>
        spmd.return
      }
    }
    ```
  }];
  let assemblyFormat = "$value `to` $target attr-dict `:` type($value)";
}

def Spmd_AccumulateOp : Spmd_Store<"accumulate"> {
  let summary = "Add a value to a buffer or an output";
  let description = [{
    The first call of the function in a schedule sets the target, later calls add
    to it: the sum over the micro-batches.

    Life: as `spmd.read`.

    Constraints:
    (C1) the name is a step buffer or a `sum` output of the program, of this type.

    ```mlir
    spmd.program @p over <> micro_batches 2 slots 1 {
      spmd.output @loss sum : tensor<f32>
      spmd.func @forward() {
        %x = kerf.constant dense<1.0> : tensor<f32>
        spmd.accumulate %x into @loss : tensor<f32>
        spmd.return
      }
    }
    ```
  }];
  let assemblyFormat = "$value `into` $target attr-dict `:` type($value)";
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

def Spmd_AllReduceOp : Spmd_Collective<"all_reduce", [SameOperandsAndResultType]> {
  let summary = "Combine values over ranks; every rank gets the result";
  let description = [{
    `y = sum over ranks of x` (or the maximum), element by element.

    Life: made by `kerf-partition` from pending sums.

    Constraints:
    (C1) the axes are axes of the mesh, each at most once, at least one.

    ```mlir
    spmd.program @p over <dp = 2> micro_batches 1 slots 1 {
      spmd.func @update() {
        %x = kerf.constant dense<1.0> : tensor<4xf32>
        %y = spmd.all_reduce sum %x over [dp] : tensor<4xf32>
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins Kerf_ReduceKindAttr:$kind, Kerf_Number:$x, Spmd_Axes:$axes);
  let results = (outs Kerf_Number:$result);
  let assemblyFormat = "`` $kind $x `over` custom<Axes>($axes) attr-dict `:` type($x)";
}

def Spmd_AllGatherOp : Spmd_Collective<"all_gather"> {
  let summary = "Put the parts of all ranks together along a dimension";
  let description = [{
    The part of the rank at place r comes r-th.

    Life: made by `kerf-partition` where a split dimension is needed whole.

    Constraints:
    (C1) as `spmd.all_reduce`; the dimension exists. // all_gather_c1
    (C2) the result is larger by the number of ranks in that dimension alone.

    ```mlir
    spmd.program @p over <tp = 2> micro_batches 1 slots 1 {
      spmd.func @forward() {
        %x = kerf.constant dense<1.0> : tensor<4x8xf32>
        %y = spmd.all_gather %x dim 1 over [tp] : tensor<4x8xf32> -> tensor<4x16xf32>
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins Kerf_Tensor:$x, Kerf_I64Attr:$dim, Spmd_Axes:$axes);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = [{
    $x `dim` $dim `over` custom<Axes>($axes) attr-dict `:` type($x) `->` type($result)
  }];
}

def Spmd_ReduceScatterOp : Spmd_Collective<"reduce_scatter"> {
  let summary = "Combine values over ranks; every rank gets its part";
  let description = [{
    All-reduce, then the r-th part along a dimension for the rank at place r.

    Life: made by `kerf-partition` from a pending sum that is needed in parts.

    Constraints:
    (C1) as `spmd.all_gather`. // reduce_scatter_c1
    (C2) the result is smaller by the number of ranks in that dimension alone.

    ```mlir
    spmd.program @p over <tp = 2> micro_batches 1 slots 1 {
      spmd.func @forward() {
        %x = kerf.constant dense<1.0> : tensor<4x16xf32>
        %y = spmd.reduce_scatter sum %x dim 1 over [tp] : tensor<4x16xf32> -> tensor<4x8xf32>
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins Kerf_ReduceKindAttr:$kind, Kerf_Number:$x, Kerf_I64Attr:$dim,
    Spmd_Axes:$axes);
  let results = (outs Kerf_Number:$result);
  let assemblyFormat = [{
    `` $kind $x `dim` $dim `over` custom<Axes>($axes) attr-dict `:` type($x) `->` type($result)
  }];
}

def Spmd_AllToAllOp : Spmd_Collective<"all_to_all"> {
  let summary = "Split one dimension instead of another";
  let description = [{
    Part r of dimension `split` goes to the rank at place r; what arrives is put
    together along dimension `concat` by sender.

    Life: made by `kerf-partition` where a split moves from one dimension to another.

    Constraints:
    (C1) as `spmd.all_gather`, for two different dimensions. // all_to_all_c1
    (C2) the result is smaller in `split` and larger in `concat` by the number of
    ranks, and the same elsewhere.

    ```mlir
    spmd.program @p over <tp = 2> micro_batches 1 slots 1 {
      spmd.func @forward() {
        %x = kerf.constant dense<1.0> : tensor<4x16xf32>
        %y = spmd.all_to_all %x split 1 concat 0 over [tp] : tensor<4x16xf32> -> tensor<8x8xf32>
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins Kerf_Tensor:$x, Kerf_I64Attr:$split, Kerf_I64Attr:$concat,
    Spmd_Axes:$axes);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = [{
    $x `split` $split `concat` $concat `over` custom<Axes>($axes) attr-dict
    `:` type($x) `->` type($result)
  }];
}

def Spmd_SliceOwnOp : Spmd_Collective<"slice_own"> {
  let summary = "Take this rank's part of a value that all ranks hold";
  let description = [{
    The r-th part along a dimension, r being the rank's place. No communication.
    `micro` may be among the axes: the part of the present micro-batch.

    Life: made by `kerf-partition` where a whole dimension is needed in parts.

    Constraints:
    (C1) as `spmd.all_gather`; `micro` is an axis too. // slice_own_c1
    (C2) the result is smaller by the number of parts in that dimension alone.

    ```mlir
    spmd.program @p over <tp = 2> micro_batches 1 slots 1 {
      spmd.func @forward() {
        %x = kerf.constant dense<1.0> : tensor<4x16xf32>
        %y = spmd.slice_own %x dim 1 over [tp] : tensor<4x16xf32> -> tensor<4x8xf32>
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins Kerf_Tensor:$x, Kerf_I64Attr:$dim, Spmd_Axes:$axes);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = [{
    $x `dim` $dim `over` custom<Axes>($axes) attr-dict `:` type($x) `->` type($result)
  }];
}

def Spmd_RotateOp : Spmd_Collective<"rotate", [SameOperandsAndResultType]> {
  let summary = "Take the value of the next rank";
  let description = [{
    The rank at place r of n gets what the rank at place (r + 1) mod n has: a
    step around a ring.

    Life: made by `kerf-partition` for variants such as ring attention.

    Constraints:
    (C1) as `spmd.all_reduce`. // rotate_c1

    ```mlir
    spmd.program @p over <cp = 2> micro_batches 1 slots 1 {
      spmd.func @forward() {
        %x = kerf.constant dense<1.0> : tensor<4xf32>
        %y = spmd.rotate %x over [cp] : tensor<4xf32>
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins Kerf_Tensor:$x, Spmd_Axes:$axes);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = "$x `over` custom<Axes>($axes) attr-dict `:` type($x)";
}

def Spmd_WaitOp : Spmd_Op<"wait", [Pure, AllTypesMatch<["started", "result"]>]> {
  let summary = "Wait for a collective that was started before";
  let description = [{
    The result of the collective that made `started`. A collective whose result
    is read by a wait alone is *started* where it stands and done where the wait
    stands; ops in between compute while it is under way. `kept` is what the
    collective reads: it stays unchanged until then.

    Life: made by `kerf-overlap-collectives`; two commands of one exchange after
    memory is placed.

    Constraints:
    (C1) `started` is the result of a collective of the same block, which nothing
    else reads, and `kept` is its operand; no repeat stands in between. // wait_c1

    ```mlir
    spmd.program @p over <dp = 2> micro_batches 1 slots 1 {
      spmd.func @update() {
        %x = kerf.constant dense<1.0> : tensor<4xf32>
        %s = spmd.all_reduce sum %x over [dp] : tensor<4xf32>
        %z = kerf.add %x, %x : tensor<4xf32>
        %y = spmd.wait %s keeps %x : tensor<4xf32>, tensor<4xf32>
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins Kerf_Tensor:$started, Kerf_Tensor:$kept);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = [{
    $started `keeps` $kept attr-dict `:` type($started) `,` type($kept)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Between stages
//===----------------------------------------------------------------------===//

def Spmd_SendOp : Spmd_Op<"send", [MemoryEffects<[MemWrite]>]> {
  let summary = "Send a value to another stage";
  let description = [{
    To the rank of stage `to` that has the same coordinates otherwise. The
    messages of a channel (sender, receiver and name) arrive in the order in which
    they are sent. A channel holds a few messages (`capacity` of the schedule);
    when it is full the sender waits.

    Life: made by `kerf-partition` where a value is made in one stage and read in
    another.

    Constraints:
    (C1) the stage exists and is another one. // send_c1

    ```mlir
    spmd.program @p over <pp = 2> micro_batches 1 slots 1 {
      spmd.func @forward() {
        %x = kerf.constant dense<1.0> : tensor<4xf32>
        spmd.send %x to 1 on "forward" : tensor<4xf32>
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins Kerf_Tensor:$value, Kerf_I64Attr:$to, StrAttr:$channel);
  let assemblyFormat = "$value `to` $to `on` $channel attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Spmd_RecvOp : Spmd_Op<"recv", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Receive a value from another stage";
  let description = [{
    The next message of the channel; see `spmd.send`.

    Life: as `spmd.send`.

    Constraints:
    (C1) the stage exists and is another one. // recv_c1

    ```mlir
    spmd.program @p over <pp = 2> stage 1 micro_batches 1 slots 1 {
      spmd.func @forward() {
        %x = spmd.recv from 0 on "forward" : tensor<4xf32>
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins Kerf_I64Attr:$from, StrAttr:$channel);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = "`from` $from `on` $channel attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

def Spmd_StopIfOp : Spmd_Op<"stop_if", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "End the step with an error where a number is above zero";
  let description = [{
    The error is `text`, followed by the number, rounded up to two digits behind
    the point. Nothing that comes later in the schedule runs.

    Life: made by `kerf-partition` before the update, of a number that all ranks
    hold.

    Constraints:
    (C1) the number is of type f32. // stop_if_c1

    ```mlir
    spmd.program @p over <> micro_batches 1 slots 1 {
      spmd.func @update() {
        %x = kerf.constant dense<0.0> : tensor<f32>
        spmd.stop_if %x "the room is too small, this step needs" : tensor<f32>
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins Kerf_F32Scalar:$x, StrAttr:$text);
  let assemblyFormat = "$x $text attr-dict `:` type($x)";
}

//===----------------------------------------------------------------------===//
// State in pieces
//===----------------------------------------------------------------------===//

def Spmd_GatherParamOp : Spmd_Op<"gather_param", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Put the updated pieces of a parameter together";
  let description = [{
    After the updates of a parameter whose state is stored in pieces and whose weights
    do not: every rank of `state over` gets the pieces of all.

    Life: made by `kerf-partition` after the `kerf.update` of such a parameter.

    Constraints:
    (C1) the program declares the parameter, with `state` and without `weights`.

    ```mlir
    spmd.program @p over <dp = 2> micro_batches 1 slots 1 {
      spmd.param "w" global tensor<5xf32> sharded [[]] state over [dp] rule #kerf.sgd<> init <ones> : tensor<5xf32>
      spmd.func @update() {
        spmd.gather_param "w"
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<Kerf_I64Attr>:$start,
    OptionalAttr<Kerf_I64Attr>:$end);
  let assemblyFormat = "$name (`[` $start^ `to` $end `]`)? attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

def Spmd_OffsetOp : Spmd_Op<"offset", [Pure]> {
  let summary = "Compute the first global index of a part";
  let description = [{
    The sum over the listed axes of coordinate * stride; the coordinate along
    `micro` is the number of the present micro-batch. `start` is added; with
    `modulo` it is the rest of that, which is not negative: the place of keys
    that went around a ring.

    Life: made by `kerf-partition` for ops that read global indices, with `start`
    and `modulo` by `kerf-fold-offsets`; a number that the runtime computes after
    memory is placed.

    Constraints:
    (C1) the axes are axes of the mesh or `micro`, each at most once, with one
    stride each.
    (C2) the modulus is positive.

    ```mlir
    spmd.program @p over <dp = 2> micro_batches 2 slots 1 {
      spmd.func @forward() {
        %first = spmd.offset [dp * 4, micro * 2]
        %next = spmd.offset [dp * 4] start 4 modulo 8
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins Spmd_Axes:$axes, DenseI64ArrayAttr:$strides,
    OptionalAttr<I64Attr>:$start, OptionalAttr<I64Attr>:$modulo);
  let results = (outs Kerf_I32Scalar:$result);
  let assemblyFormat = "custom<Strides>($axes, $strides) (`start` $start^)? (`modulo` $modulo^)? attr-dict";
  let builders = [OpBuilder<(ins "::mlir::ArrayAttr":$axes, "::llvm::ArrayRef<int64_t>":$strides), [{
    auto i32 = ::mlir::RankedTensorType::get({}, $_builder.getI32Type());
    build($_builder, $_state, i32, axes, $_builder.getDenseI64ArrayAttr(strides), {}, {});
  }]>];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Fusion
//===----------------------------------------------------------------------===//

def Spmd_FusedOp : Spmd_Op<"fused", [IsolatedFromAbove, SingleBlock, Pure]> {
  let summary = "Compute plain ops as one kernel";
  let description = [{
    The body's plain `kerf` ops on the operands, its yield as results.

    Life: made by fusion; becomes a kernel.

    Constraints:
    (C1) the body takes one value per operand, of its type.
    (C2) the body ends in a `spmd.yield` of the results' types.

    ```mlir
    %x = kerf.constant dense<1.0> : tensor<4xf32>
    %y = spmd.fused (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
      %e = kerf.exp %a : tensor<4xf32>
      %s = kerf.add %e, %a : tensor<4xf32>
      spmd.yield %s : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Kerf_Tensor>:$inputs);
  let results = (outs Variadic<Kerf_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
}

def Spmd_FusedMatmulOp
    : Spmd_Op<"fused_matmul", [IsolatedFromAbove, SingleBlock, Pure]> {
  let summary = "Compute a matmul and its epilogue by one library call";
  let description = [{
    The body's ops on the operands, its yield as results. The body is a matmul
    `p` (`kerf.linear`, `kerf.matmul` or `kerf.einsum`) and one of

    - a tanh `kerf.gelu` of `p`; yields it, and `p` too where that is read;
    - a tanh `kerf.gelu_backward` of which `p` is the gradient; yields it, and
      the sum of its rows (the gradient of a bias) where that is read;
    - the sum of the rows of one operand of `p`, of its type or cast; yields `p`
      and the sum;
    - a `kerf.mul` of `p` by one or two f32 scalars from outside, multiplied with
      each other, cast to the type of `p` and broadcast; yields it.

    Scalars are powers of two (`kerf.unit`), so that where and in which order a
    device multiplies by them changes no digit. A sum of rows is over all dimensions but the last. The first result is the
    matrix that the call writes.

    Life: made by `kerf-fuse-epilogues`; becomes a matmul with an epilogue.

    Constraints:
    (C1) the body takes one value per operand, of its type.
    (C2) the body ends in a `spmd.yield` of the results' types.
    (C3) the body is a matmul with one of the epilogues above.

    ```mlir
    %x = kerf.constant dense<1.0> : tensor<4x8xf32>
    %w = kerf.constant dense<1.0> : tensor<16x8xf32>
    %y = spmd.fused_matmul (%a = %x : tensor<4x8xf32>, %b = %w : tensor<16x8xf32>) -> (tensor<4x16xf32>) {
      %p = kerf.linear %a, %b : tensor<4x8xf32>, tensor<16x8xf32>
      %g = kerf.gelu tanh %p : tensor<4x16xf32>
      spmd.yield %g : tensor<4x16xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Kerf_Tensor>:$inputs);
  let results = (outs Variadic<Kerf_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The ops of the body; `matmul` is null in one that breaks (C3).
    ::kerf::spmd::MatmulParts getParts();
  }];
}

def Spmd_YieldOp
    : Spmd_Op<"yield", [Pure, Terminator,
                        ParentOneOf<["FusedOp", "FusedMatmulOp"]>]> {
  let summary = "Give the results of a fused region";
  let description = [{
    Life: as the op around it.

    Constraints:
    (C1) stands at the end of a `spmd.fused` or a `spmd.fused_matmul`. // yield_c1

    ```mlir
    %x = kerf.constant dense<1.0> : tensor<4xf32>
    %y = spmd.fused (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
      spmd.yield %a : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Kerf_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // SPMD_RANK_OPS_TD
