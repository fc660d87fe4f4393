//===- SpmdProgramOps.td - programs, their state, functions and calls -----===//

#ifndef SPMD_PROGRAM_OPS_TD
#define SPMD_PROGRAM_OPS_TD

include "kerf/Dialect/Spmd/SpmdOpBase.td"

def Spmd_ProgramOp : Spmd_Op<"program", [IsolatedFromAbove, Symbol, SymbolTable,
    NoTerminator, SingleBlock]> {
  let summary = "Hold what every rank of a mesh does in a step";
  let description = [{
    Declarations (inputs, parameters, buffers, outputs), functions and schedules.
    `micro_batches` is how many a step has, `slots` how many are in flight at
    once: micro-batch m uses copy `m mod slots` of the slot buffers.

    Of a pipeline there is one program per stage, in order, over the same mesh;
    `stage s` is run by the ranks whose coordinate along `pp` is s. Messages
    between them are `spmd.send` and `spmd.recv`.

    Life: made by `kerf-partition`; `kerf-build-commands` turns it into
    `exec.program`.

    Constraints:
    (C1) 1 <= `slots` <= `micro_batches`.
    (C2) its body holds ops of this dialect that declare, define or schedule.
    (C3) with an axis `pp` of more than one rank `stage` is given and below its
    size; else it is 0.

    ```mlir
    spmd.program @nothing over <> micro_batches 1 slots 1 {
      spmd.func @update() {
        spmd.return
      }
      spmd.schedule "train" {
        spmd.call @update
      }
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Kerf_MeshAttr:$mesh,
    DefaultValuedAttr<Kerf_I64Attr, "0">:$stage, Kerf_I64Attr:$micro_batches,
    Kerf_I64Attr:$slots);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `over` $mesh (`stage` $stage^)? `micro_batches` $micro_batches `slots` $slots
    attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Size of an axis of the mesh, or of `micro`; 0 if there is none.
    int64_t getAxisSize(::llvm::StringRef axis);
    /// Product of the sizes of axes (`StringAttr`s).
    int64_t getAxesSize(::mlir::ArrayAttr axes);
    /// The schedule of this name, or null.
    ::kerf::spmd::ScheduleOp getSchedule(::llvm::StringRef name);
    /// The declaration that a `kerf.param` or `kerf.update` of this name means,
    /// at an iteration where the name has one; or null. Stages with several
    /// chunks have one declaration per chunk.
    ::kerf::spmd::ParamOp getParam(::llvm::StringRef name, int64_t iteration = 0);
    /// Number of stages: the size of `pp`, or 1.
    int64_t getStageCount();
    /// Ranks that run this program, ascending.
    ::llvm::SmallVector<int64_t> getRanks();
  }];
}

def Spmd_InputOp : Spmd_ProgramPart<"input", [Symbol]> {
  let summary = "Declare an input of a step";
  let description = [{
    The type is that of the part which one micro-batch of one rank has. `sharded` says
    by which axes each dimension of the global tensor is split. An input that is not
    split by `micro` is the same in every micro-batch. `vocabulary`: integer
    elements are below it. With `zigzag` the rows of dimension 1 are put in that
    order before they are split.

    Life: as `spmd.program`.

    Constraints:
    (C1) `sharded` has one list per dimension, of axes that exist; no axis is in it
    twice; the sizes divide; the type is the local one.
    (C2) `micro` splits dimension 0 only, and as its last axis.
    (C3) `zigzag` is along [1], of which it has the rows.

    ```mlir
    spmd.program @p over <dp = 2> micro_batches 2 slots 1 {
      spmd.input @tokens role "tokens" global tensor<8x16xi32> sharded [[dp, micro], []] vocabulary 256 : tensor<2x16xi32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DefaultValuedAttr<StrAttr, "\"\"">:$role,
    TypeAttr:$global, Spmd_Sharded:$sharded, OptionalAttr<Kerf_I64Attr>:$vocabulary, TypeAttr:$type,
    OptionalAttr<Kerf_ZigzagAttr>:$zigzag);
  let assemblyFormat = [{
    $sym_name (`role` $role^)? `global` $global `sharded` custom<Sharded>($sharded)
    (`vocabulary` $vocabulary^)? (`zigzag` $zigzag^)? attr-dict `:` $type
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getLocalType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
    /// The type of all micro-batches of a rank together, one after the other.
    ::mlir::RankedTensorType getStepType();
    bool isSplitByMicro();
  }];
}

def Spmd_ParamOp : Spmd_ProgramPart<"param"> {
  let summary = "Declare a parameter and where it is stored";
  let description = [{
    The shard that a rank holds, and the rule that updates it: the master and the
    optimizer state are split as the parameter. With `[start to end]` the pattern
    stands for one parameter per iteration. `kerf.param` and `kerf.update` in
    functions name it.

    `state over [dp]`: masters and optimizer state rest in pieces (ZeRO 1, 2): of
    the local shard, flattened and padded with zeros to a multiple of the n ranks,
    the rank at place r has the r-th of n pieces, which are whole blocks where the
    rule has state in blocks. `weights over [dp]`: so does the parameter (ZeRO 3),
    whose type is then that of the piece; `kerf.param` reads the piece. `blocks [1, 3]`: a dimension is made of so many equal blocks, each
    of which is split: the thirds of a fused query-key-value weight.

    Life: as `spmd.program`.

    Constraints:
    (C1) `sharded` as for `spmd.input`; `micro` splits nothing.
    (C2) `[start to end]` stands with a name that has an `{i}`, and
    0 <= start < end.
    (C3) the rule is an optimizer rule; a frozen parameter has none. // param_c3
    (C4) `state` and `weights` name axes of the mesh that are not in `sharded`;
    `weights` needs the same `state`.
    (C5) `blocks` has one number per dimension, which divides the local size.
    (C6) the split leaves the blocks of the rule's state whole.
    (C7) the rule can update the part that a rank has.

    ```mlir
    spmd.program @p over <tp = 2> micro_batches 1 slots 1 {
      spmd.param "h.{i}.w" [0 to 4] global tensor<32x96xf32> sharded [[], [tp]] rule #kerf.adamw<> init <normal, 0.02> : tensor<32x48xf32>
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<Kerf_I64Attr>:$start,
    OptionalAttr<Kerf_I64Attr>:$end, TypeAttr:$global, Spmd_Sharded:$sharded,
    OptionalAttr<DenseI64ArrayAttr>:$blocks, OptionalAttr<Spmd_Axes>:$state_axes,
    OptionalAttr<Spmd_Axes>:$weight_axes, Kerf_InitAttr:$init,
    UnitAttr:$frozen, OptionalAttr<TypeAttr>:$master,
    OptionalAttr<Kerf_OptimizerRule>:$rule, TypeAttr:$type);
  let assemblyFormat = [{
    $name (`[` $start^ `to` $end `]`)? `global` $global `sharded` custom<Sharded>($sharded)
    (`blocks` $blocks^)? (`state` `over` custom<Axes>($state_axes)^)?
    (`weights` `over` custom<Axes>($weight_axes)^)? (`rule` $rule^)? `init` $init (`frozen` $frozen^)? (`master` $master^)?
    attr-dict `:` $type
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// As it is stored: a piece with `weights`.
    ::mlir::RankedTensorType getLocalType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
    /// The shard before it is split in pieces.
    ::mlir::RankedTensorType getShardType();
    /// What the rule keeps; nothing without a rule.
    ::llvm::SmallVector<::kerf::StateTensor> getStates();
    /// Elements of a piece of masters and optimizer state; 0 without `state`.
    int64_t getPieceSize();
    /// The shard, or, with `state`, the piece: what an update works on.
    ::mlir::RankedTensorType getStateType();
  }];
}

def Spmd_BufferOp : Spmd_ProgramPart<"buffer", [Symbol]> {
  let summary = "Declare a tensor that functions hand over";
  let description = [{
    `slot`: one copy per micro-batch in flight; `step`: one for the step.

    Life: made by `kerf-partition` where a value is made in one function and
    read in another; placed in memory with its lifetime.

    Constraints:
    (C1) the type is a tensor of static shape.

    ```mlir
    spmd.program @p over <> micro_batches 1 slots 1 {
      spmd.buffer @saved0 slot : tensor<4x2x8x32xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Spmd_BufferKindAttr:$kind, TypeAttr:$type);
  let assemblyFormat = "$sym_name `` $kind attr-dict `:` $type";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getLocalType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

def Spmd_OutputOp : Spmd_ProgramPart<"output", [Symbol]> {
  let summary = "Declare a value that a step returns";
  let description = [{
    `sum`: added up over the micro-batches; `last`: written once. The loss is
    `@loss`, the norm of the gradient `@grad_norm`; others are called as
    `kerf.return` says. Every rank holds the whole value. `label` is what people
    read.

    Life: as `spmd.program`.

    Constraints:
    (C1) the type is a tensor of static shape.

    ```mlir
    spmd.program @p over <> micro_batches 1 slots 1 {
      spmd.output @loss sum : tensor<f32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Spmd_OutputKindAttr:$kind,
    OptionalAttr<StrAttr>:$label, TypeAttr:$type);
  let assemblyFormat = "$sym_name `` $kind (`label` $label^)? attr-dict `:` $type";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getLocalType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

def Spmd_FuncOp : Spmd_ProgramPart<"func", [Symbol, IsolatedFromAbove, SingleBlock,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Define what a rank computes in one call";
  let description = [{
    `kerf` compute ops on local types and ops of this dialect. `prologue` and
    `update` run once per step, `forward`, `backward` and `evaluate` once per
    micro-batch.

    `continues @backward`: takes the place of that function for micro-batches after
    its first, and adds to what it accumulates into.

    Life: as `spmd.program`.

    Constraints:
    (C1) the body takes no arguments and ends in `spmd.return`.
    (C2) what it continues is a function of the program that continues none.
    (C3) what it accumulates into is stored by the function that it continues.

    ```mlir
    spmd.program @p over <> micro_batches 2 slots 1 {
      spmd.func @forward() {
        spmd.return
      }
      spmd.func @forward_last() continues @forward {
        spmd.return
      }
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<FlatSymbolRefAttr>:$continues);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `(` `)` (`continues` $continues^)? attr-dict-with-keyword $body
  }];
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name), [{
    build($_builder, $_state, name, ::mlir::FlatSymbolRefAttr());
  }]>];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The function that it is, or continues, as schedules count calls.
    ::llvm::StringRef getCounted() {
      return getContinues().value_or(getSymName());
    }
  }];
}

def Spmd_ReturnOp : Spmd_Op<"return", [Pure, Terminator, HasParent<"FuncOp">]> {
  let summary = "End a function";
  let description = [{
    Life: as `spmd.func`.

    Constraints:
    (C1) stands at the end of a `spmd.func`. // return_c1

    ```mlir
    spmd.program @p over <> micro_batches 1 slots 1 {
      spmd.func @forward() {
        spmd.return
      }
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Spmd_ScheduleOp : Spmd_ProgramPart<"schedule", [NoTerminator, SingleBlock]> {
  let summary = "List the calls of a step in order";
  let description = [{
    `"train"` is one training step, `"evaluate"` the loss without an update. The
    first call of a function in a schedule sets what it accumulates into; later
    calls, and calls of a function that continues it, add.

    Life: made by `kerf-order-micro-batches`.

    Constraints:
    (C1) holds `spmd.call` only.

    ```mlir
    spmd.program @p over <> micro_batches 2 slots 1 {
      spmd.func @forward() {
        spmd.return
      }
      spmd.schedule "train" {
        spmd.call @forward micro 0
        spmd.call @forward micro 1
      }
    }
    ```
  }];
  let arguments = (ins StrAttr:$name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def Spmd_CallOp : Spmd_Op<"call", [HasParent<"ScheduleOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Run a function for a micro-batch, or once for the step";
  let description = [{
    Life: as `spmd.schedule`.

    Constraints:
    (C1) the function exists.
    (C2) the micro-batch is one of the program's.

    ```mlir
    spmd.program @p over <> micro_batches 1 slots 1 {
      spmd.func @update() {
        spmd.return
      }
      spmd.schedule "train" {
        spmd.call @update
      }
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, OptionalAttr<Kerf_I64Attr>:$micro);
  let assemblyFormat = "$callee (`micro` $micro^)? attr-dict";
}

#endif // SPMD_PROGRAM_OPS_TD
