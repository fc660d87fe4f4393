//===- TestOps.td - an op that no stage knows -----------------------------===//

#ifndef KERF_TEST_OPS_TD
#define KERF_TEST_OPS_TD

include "kerf/Dialect/Kerf/KerfOpBase.td"

def Test_Dialect : Dialect {
  let name = "kerf_test";
  let cppNamespace = "::kerf_test";
}

def Test_SoftplusGateOp : Op<Test_Dialect, "softplus_gate", [Pure,
    SameOperandsAndResultType, Kerf_Factors, Kerf_Gradient, Kerf_Cost, Kerf_Decompose]> {
  let summary = "Gate by a softplus: y = x ln(1 + e^gate)";
  let arguments = (ins Kerf_Float:$x, Kerf_Float:$gate);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x `,` $gate attr-dict `:` type($result)";
}

#endif // KERF_TEST_OPS_TD
