//===- SpmdOpBase.td - classes shared by the op files ---------------------===//

#ifndef SPMD_OP_BASE_TD
#define SPMD_OP_BASE_TD

include "kerf/Dialect/Kerf/KerfOpBase.td"
include "kerf/Dialect/Spmd/SpmdAttrs.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

class Spmd_Op<string mnemonic, list<Trait> traits = []>
    : Op<Spmd_Dialect, mnemonic, traits>;

/// What stands directly in a program.
class Spmd_ProgramPart<string mnemonic, list<Trait> traits = []>
    : Spmd_Op<mnemonic, [HasParent<"ProgramOp">] # traits>;

/// Names of axes, `[dp, micro]`.
def Spmd_Axes : TypedArrayAttrBase<StrAttr, "names of axes">;
/// One list of axes per dimension, `[[dp, micro], []]`.
def Spmd_Sharded : TypedArrayAttrBase<TypedArrayAttrBase<StrAttr, "names of axes">,
    "names of axes per dimension">;

/// Communication among the ranks that differ in `axes` alone. All of them
/// take part; a rank's place is its coordinates, the first axis slowest.
class Spmd_Collective<string mnemonic, list<Trait> traits = []>
    : Spmd_Op<mnemonic, [Pure] # traits> {
  let hasVerifier = 1;
}

#endif // SPMD_OP_BASE_TD
