//===- ExecProgramOps.td - what the runtime executes ----------------------===//

#ifndef EXEC_PROGRAM_OPS_TD
#define EXEC_PROGRAM_OPS_TD

include "kerf/Dialect/Exec/ExecAttrs.td"
include "kerf/Dialect/Kerf/KerfOpBase.td"
include "mlir/IR/SymbolInterfaces.td"

def Exec_ProgramOp : Exec_Op<"program", [IsolatedFromAbove, Symbol, SymbolTable,
    NoTerminator, SingleBlock]> {
  let summary = "Hold the program of every rank";
  let description = [{
    Tables (parameters, inputs, outputs, placed buffers), kernels, functions and
    schedules, 1:1 with the artifact (`kerf/Artifact/Format.h`). `arena` is the
    size in bytes of the one arena, `lower_bound` the largest live set. Of a
    pipeline there is one program per stage, in order.

    Life: made by `kerf-build-commands`, with buffers that share no bytes;
    `kerf-place-memory` makes the arena small; written into the artifact.

    Constraints:
    (C1) `arena` >= `lower_bound` >= 0, and both are multiples of 64.
    (C2) `classes` has one number of bytes per class of buffer (8).
    (C3) every operand of a command lies inside the arena.

    ```mlir
    exec.program @nothing arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
      exec.output "loss" f32 at 0
      exec.func @update {
        exec.command zero "loss" [4] [#exec.arena<write f32 0 bytes 4>]
      }
      exec.schedule "train" {
        exec.call @update
      }
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Kerf_I64Attr:$arena, Kerf_I64Attr:$lower_bound,
    DenseI64ArrayAttr:$classes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `arena` $arena `lower_bound` $lower_bound `classes` $classes
    attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

def Exec_ParamOp : Exec_Op<"param", [HasParent<"ProgramOp">]> {
  let summary = "Place a parameter, its master and its optimizer state";
  let description = [{
    Parameter i of [start, end) of the pattern lies at `at + i * by` bytes. The
    global tensor is split dimension by dimension over the named axes, in `blocks`
    where a dimension is made of several. `local` is that shard. With `state over`
    masters and states, with `weights over` the parameter too, are pieces of the
    flattened shard, each of a multiple of `granule` elements: see `spmd.param`. A
    state with a `block` has one element for so many neighbours of the last
    dimension; one with a `without` lacks that dimension, counted from the last, 1.

    Life: as `exec.program`.

    Constraints:
    (C1) the types are tensors of one rank; `sharded` has one list of axis names per
    dimension.
    (C2) each of `states` is `{name, type, at, by}`, with a `block` of 2 to 2^20 or
    none, or a `without` from 1 to the rank; `granule` is 1 to 2^20.
    (C3) `blocks` has one number per dimension, which divides the local size.
    (C4) `state over` and `weights over` name axes that split no dimension; the
    second needs the first, of the same axes.

    ```mlir
    exec.program @p arena 256 lower_bound 256 classes [256, 0, 0, 0, 0, 0, 0, 0] {
      exec.param "h.{i}.w" [0 to 2] tensor<4x8xf32> local tensor<4x8xf32> sharded [[], []] init <normal, 0.02> at 0 by 128
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, Kerf_I64Attr:$start, Kerf_I64Attr:$end, TypeAttr:$global_type,
    TypeAttr:$local_type, ArrayAttr:$sharded, OptionalAttr<DenseI64ArrayAttr>:$blocks,
    OptionalAttr<ArrayAttr>:$state_axes, OptionalAttr<ArrayAttr>:$weight_axes,
    OptionalAttr<Kerf_I64Attr>:$granule,
    Kerf_InitAttr:$init, UnitAttr:$frozen, Kerf_I64Attr:$offset, Kerf_I64Attr:$stride, OptionalAttr<TypeAttr>:$master_type,
    OptionalAttr<Kerf_I64Attr>:$master_offset, OptionalAttr<Kerf_I64Attr>:$master_stride,
    OptionalAttr<ArrayAttr>:$states);
  let assemblyFormat = [{
    $name `[` $start `to` $end `]` $global_type `local` $local_type `sharded` $sharded
    (`blocks` $blocks^)? (`state` `over` $state_axes^)?
    (`weights` `over` $weight_axes^)? (`granule` $granule^)?
    `init` $init (`frozen` $frozen^)? `at` $offset `by` $stride
    (`master` $master_type^ `at` $master_offset `by` $master_stride)?
    (`states` $states^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_InputOp : Exec_Op<"input", [HasParent<"ProgramOp">]> {
  let summary = "Place an input of the step";
  let description = [{
    The rank's part, all micro-batches one after the other. `zigzag` as of
    `spmd.input`.

    Life: as `exec.program`.

    Constraints:
    (C1) the types are tensors of one rank; `sharded` has one list of axis names per
    dimension.

    ```mlir
    exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
      exec.input "tokens" role "tokens" tensor<2x8xi32> local tensor<2x8xi32> sharded [[], []] at 0
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, StrAttr:$role, TypeAttr:$global_type, TypeAttr:$local_type,
    ArrayAttr:$sharded, Kerf_I64Attr:$offset, OptionalAttr<Kerf_ZigzagAttr>:$zigzag);
  let assemblyFormat = [{
    $name `role` $role $global_type `local` $local_type `sharded` $sharded `at` $offset
    (`zigzag` $zigzag^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_ChannelOp : Exec_Op<"channel", [HasParent<"ProgramOp">]> {
  let summary = "Declare messages from stage to stage";
  let description = [{
    A channel is known by its name, sender and receiver. `bytes` is the largest
    message that this program sends or receives on it, `holds` how many messages
    it keeps before the sender waits. Both ends declare it alike; commands name it
    by its place among the channels of their program.

    Life: as `exec.program`.

    Constraints:
    (C1) `holds` >= 1, and the stages differ.

    ```mlir
    exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
      exec.channel "forward" from 0 to 1 bytes 4096 holds 1
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, Kerf_I64Attr:$from, Kerf_I64Attr:$to, Kerf_I64Attr:$bytes,
    Kerf_I64Attr:$holds);
  let assemblyFormat = "$name `from` $from `to` $to `bytes` $bytes `holds` $holds attr-dict";
  let hasVerifier = 1;
}

def Exec_OutputOp : Exec_Op<"output", [HasParent<"ProgramOp">]> {
  let summary = "Place a result of the step";
  let description = [{
    The type is that of a scalar, or a tensor's, whose elements lie row by row.

    Life: as `exec.program`.

    Constraints: none

    ```mlir
    exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
      exec.output "loss" f32 at 0
      exec.output "counts" tensor<4x3xf32> at 8
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, TypeAttr:$type, Kerf_I64Attr:$offset);
  let assemblyFormat = "$name $type `at` $offset attr-dict";
}

def Exec_BufferOp : Exec_Op<"buffer", [HasParent<"ProgramOp">]> {
  let summary = "Tell where a buffer was placed and when it lives";
  let description = [{
    For `kerf-place-memory`, its check and people: nothing executes it. `live` are the
    closed intervals in which it holds something, `[first, last, first, last]`,
    in commands of the schedules, where calls count once that differ in nothing
    that lives; none: always.

    Before it is placed a buffer has a `scope`, which says what its contents are
    for: `always`; `step`, from its first write in a step to its last read; `slot`,
    the same for each micro-batch, of which number m has copy m mod `copies`;
    `function`, within a call. `bytes` are those of all copies.

    Life: made by `kerf-build-commands`; `kerf-place-memory` finds its place and
    removes it if nothing uses it.

    Constraints:
    (C1) `live` is pairs first <= last, in order and apart.
    (C2) `copies` is positive and divides `bytes`; it stands with `scope`.

    ```mlir
    exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 64, 0, 0] {
      exec.buffer "h" class 5 at 0 bytes 64 live [3, 7]
    }
    exec.program @apart arena 320 lower_bound 320 classes [0, 0, 0, 0, 0, 192, 0, 0] {
      exec.buffer "h" class 5 at 0 bytes 192 scope slot copies 3 live []
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, Kerf_I64Attr:$buffer_class, Kerf_I64Attr:$offset, Kerf_I64Attr:$bytes,
    DenseI64ArrayAttr:$live, OptionalAttr<Exec_BufferScopeAttr>:$scope,
    OptionalAttr<Kerf_I64Attr>:$copies);
  let assemblyFormat = [{
    $name `class` $buffer_class `at` $offset `bytes` $bytes
    (`scope` $scope^ `copies` $copies)? `live` $live attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_ImageOp : Exec_Op<"image", [HasParent<"ProgramOp">]> {
  let summary = "Hold a piece of the machine code of all kernels";
  let description = [{
    The pieces in order are a shared object (ELF), in base64; of programs for GPUs a
    cubin. With `ptx` they are the same kernels as PTX text.

    Life: made by `kerf-generate-code`; written into the artifact.

    Constraints: none

    ```mlir
    exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
      exec.image "f0VMRg=="
    }
    ```
  }];
  let arguments = (ins StrAttr:$base64, UnitAttr:$ptx);
  let assemblyFormat = "(`ptx` $ptx^)? $base64 attr-dict";
}

def Exec_FuncOp : Exec_Op<"func", [HasParent<"ProgramOp">, Symbol, NoTerminator,
    SingleBlock]> {
  let summary = "List commands";
  let description = [{
    Life: as `exec.program`.

    Constraints:
    (C1) holds only `exec.command` and `exec.loop`.

    ```mlir
    exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
      exec.func @update {
        exec.command zero "loss" [4] [#exec.arena<write f32 0 bytes 4>]
      }
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $body attr-dict";
  let hasRegionVerifier = 1;
}

def Exec_LoopOp : Exec_Op<"loop", [HasParent<"FuncOp">, NoTerminator, SingleBlock]> {
  let summary = "Run commands for each layer";
  let description = [{
    Iterations i = start, ..., end-1, or from the end with `reverse`. An
    operand's address moves by its iteration stride.

    Life: as `exec.program`.

    Constraints:
    (C1) 0 <= start < end.
    (C2) holds only `exec.command`.

    ```mlir
    exec.program @p arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 128, 0, 0] {
      exec.func @forward {
        exec.loop 0 to 2 {
          exec.command zero "h" [64] [#exec.arena<write f32 0 iter 64 bytes 64>]
        }
      }
    }
    ```
  }];
  let arguments = (ins Kerf_I64Attr:$start, Kerf_I64Attr:$end, UnitAttr:$reverse);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let assemblyFormat = "(`reverse` $reverse^)? $start `to` $end $body attr-dict";
}

def Exec_CommandOp : Exec_Op<"command", [ParentOneOf<["FuncOp", "LoopOp"]>]> {
  let summary = "Do one thing: launch a kernel, call a library, copy, communicate";
  let description = [{
    The attributes and operands of each opcode are listed in
    `kerf/Artifact/Format.h`. `when` is a mask of `kerf_command_flags`. `of` is the
    phase of the op that the command comes from: `forward 12`.

    Life: as `exec.program`.

    Constraints:
    (C1) `launch` names a kernel, others do not.
    (C2) a loop is `exec.loop`, no command.
    (C3) its operands are ranges of the arena, scalars or absent.

    ```mlir
    exec.program @p arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 128, 0, 0] {
      exec.func @forward {
        exec.command copy "h" [64] [#exec.arena<read f32 0 bytes 64>, #exec.arena<write f32 64 bytes 64>]
      }
    }
    ```
  }];
  let arguments = (ins Exec_OpcodeAttr:$opcode, OptionalAttr<FlatSymbolRefAttr>:$kernel,
    StrAttr:$name, DenseI64ArrayAttr:$values, ArrayAttr:$operand_refs,
    DefaultValuedAttr<Kerf_I64Attr, "0">:$when, OptionalAttr<StrAttr>:$origin);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Checks that all operands lie inside an arena of that many bytes.
    ::llvm::LogicalResult verifyInside(int64_t arenaBytes);
  }];
  let assemblyFormat = [{
    `` $opcode ($kernel^)? $name $values $operand_refs (`when` $when^)? (`of` $origin^)?
    attr-dict
  }];
}

def Exec_ScheduleOp : Exec_Op<"schedule", [HasParent<"ProgramOp">, NoTerminator,
    SingleBlock]> {
  let summary = "List the calls of a step";
  let description = [{
    `train` is an optimizer step, `evaluate` the loss alone.

    Life: as `exec.program`.

    Constraints:
    (C1) the name is `train` or `evaluate`.

    ```mlir
    exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
      exec.func @update {
      }
      exec.schedule "train" {
        exec.call @update
      }
    }
    ```
  }];
  let arguments = (ins StrAttr:$name);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let assemblyFormat = "$name $body attr-dict";
}

def Exec_CallOp : Exec_Op<"call", [HasParent<"ScheduleOp">]> {
  let summary = "Call a function for a micro-batch";
  let description = [{
    Life: as `exec.program`.

    Constraints:
    (C1) the function exists.

    ```mlir
    exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
      exec.func @update {
      }
      exec.schedule "train" {
        exec.call @update
      }
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, DefaultValuedAttr<Kerf_I64Attr, "0">:$micro);
  let hasVerifier = 1;
  let assemblyFormat = "$callee (`micro` $micro^)? attr-dict";
}

#endif // EXEC_PROGRAM_OPS_TD
