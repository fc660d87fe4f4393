//===- SpmdAttrs.td - enums of programs -----------------------------------===//

#ifndef SPMD_ATTRS_TD
#define SPMD_ATTRS_TD

// Includes no other dialect: enums are generated from all that is included.
include "kerf/Dialect/Spmd/SpmdDialect.td"
include "mlir/IR/EnumAttr.td"

class Spmd_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::kerf::spmd";
  let genSpecializedAttr = 0;
}

def Spmd_BufferKind : Spmd_Enum<"BufferKind", "how often a buffer exists", [
  I32EnumAttrCase<"Step", 0, "step">,
  I32EnumAttrCase<"Slot", 1, "slot">,
]>;
def Spmd_BufferKindAttr : EnumAttr<Spmd_Dialect, Spmd_BufferKind, "buffer_kind">;

def Spmd_OutputKind : Spmd_Enum<"OutputKind", "what an output holds after a step", [
  I32EnumAttrCase<"Sum", 0, "sum">,
  I32EnumAttrCase<"Last", 1, "last">,
]>;
def Spmd_OutputKindAttr : EnumAttr<Spmd_Dialect, Spmd_OutputKind, "output_kind">;

#endif // SPMD_ATTRS_TD
