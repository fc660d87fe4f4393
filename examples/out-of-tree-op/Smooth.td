#ifndef SMOOTH_TD
#define SMOOTH_TD

include "kerf/Dialect/Kerf/KerfOpBase.td"
include "kerf/Interfaces/KernelInterface.td"

def Smooth_Dialect : Dialect {
  let name = "smooth";
  let cppNamespace = "::smooth";
}

class Smooth_Op<string mnemonic, list<Trait> traits = []>
    : Op<Smooth_Dialect, mnemonic, [Pure, SameOperandsAndResultType, Kerf_Factors,
        Kerf_Cost, Kerf_Decompose, Kerf_Kernel] # traits>;

def Smooth_SquareplusOp : Smooth_Op<"squareplus", [Kerf_Gradient]> {
  let summary = "y = (x + sqrt(x^2 + 4)) / 2 (Barron, 2021)";
  let arguments = (ins Kerf_Float:$x);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

def Smooth_SquareplusBackwardOp : Smooth_Op<"squareplus_backward"> {
  let summary = "dx = (1 + x / sqrt(x^2 + 4)) / 2 dy";
  let arguments = (ins Kerf_Float:$x, Kerf_Float:$dy);
  let results = (outs Kerf_Float:$dx);
  let assemblyFormat = "$x `,` $dy attr-dict `:` type($dx)";
}

#endif // SMOOTH_TD
