//===- ExecAttrs.td - opcodes and operands of commands --------------------===//

#ifndef EXEC_ATTRS_TD
#define EXEC_ATTRS_TD

include "kerf/Dialect/Exec/ExecDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

// In the order of kerf_opcode.
def Exec_Opcode : I32EnumAttr<"Opcode", "what a command does", [
  I32EnumAttrCase<"Launch", 0, "launch">,
  I32EnumAttrCase<"Matmul", 1, "matmul">,
  I32EnumAttrCase<"Attention", 2, "attention">,
  I32EnumAttrCase<"AttentionBackward", 3, "attention_backward">,
  I32EnumAttrCase<"GroupedMatmul", 4, "grouped_matmul">,
  I32EnumAttrCase<"Copy", 5, "copy">,
  I32EnumAttrCase<"Zero", 6, "zero">,
  I32EnumAttrCase<"Loop", 7, "loop">,
  I32EnumAttrCase<"AllReduce", 8, "all_reduce">,
  I32EnumAttrCase<"AllGather", 9, "all_gather">,
  I32EnumAttrCase<"ReduceScatter", 10, "reduce_scatter">,
  I32EnumAttrCase<"AllToAll", 11, "all_to_all">,
  I32EnumAttrCase<"Take", 12, "take">,
  I32EnumAttrCase<"Rotate", 13, "rotate">,
  I32EnumAttrCase<"Send", 14, "send">,
  I32EnumAttrCase<"Receive", 15, "receive">,
  I32EnumAttrCase<"Wait", 16, "wait">,
  I32EnumAttrCase<"StopIf", 17, "stop_if">,
]> {
  let cppNamespace = "::kerf::exec";
  let genSpecializedAttr = 0;
}
def Exec_OpcodeAttr : EnumAttr<Exec_Dialect, Exec_Opcode, "opcode">;

def Exec_BufferScope : I32EnumAttr<"BufferScope", "when a buffer holds something", [
  I32EnumAttrCase<"Always", 0, "always">,
  I32EnumAttrCase<"Step", 1, "step">,
  I32EnumAttrCase<"Slot", 2, "slot">,
  I32EnumAttrCase<"Function", 3, "function">,
]> {
  let cppNamespace = "::kerf::exec";
  let genSpecializedAttr = 0;
}
def Exec_BufferScopeAttr : EnumAttr<Exec_Dialect, Exec_BufferScope, "scope">;

def Exec_ArenaAttr : AttrDef<Exec_Dialect, "Arena"> {
  let mnemonic = "arena";
  let summary = "A range of the arena that a command reads or writes";
  let description = [{
    `#exec.arena<read f32 4096 iter 512 slot 64 of 3 bytes 2048>`: `bytes` from
    `offset + i * iter + slot * (m mod 3)` for iteration i and micro-batch m:
    there are 3 copies, 64 bytes apart. Access is `read`, `write` or `update`.
  }];
  let parameters = (ins "int64_t":$access, "::mlir::Type":$type, "int64_t":$offset,
    "int64_t":$iter, "int64_t":$slot, "int64_t":$copies, "int64_t":$bytes);
  let hasCustomAssemblyFormat = 1;
}

def Exec_ScalarAttr : AttrDef<Exec_Dialect, "Scalar"> {
  let mnemonic = "scalar";
  let summary = "A small integer that the runtime computes";
  let description = [{
    `constant + iteration * i + micro * m + sum of axes[a] * coordinate a`, and
    of that the rest modulo `modulo` where it is positive.
  }];
  let parameters = (ins "int64_t":$constant, "int64_t":$iteration, "int64_t":$micro,
    OptionalArrayRefParameter<"int64_t">:$axes, DefaultValuedParameter<"int64_t", "0">:$modulo);
  let assemblyFormat = [{
    `<` $constant `iter` $iteration `micro` $micro (`axes` `[` $axes^ `]`)? (`modulo` $modulo^)? `>`
  }];
}

def Exec_AbsentAttr : AttrDef<Exec_Dialect, "Absent"> {
  let mnemonic = "absent";
  let summary = "An operand that is not there";
}

#endif // EXEC_ATTRS_TD
