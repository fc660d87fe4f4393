//===- TestOps.td - ops that no stage knows -------------------------------===//

#ifndef KERF_TEST_OPS_TD
#define KERF_TEST_OPS_TD

include "kerf/Dialect/Kerf/KerfOpBase.td"
include "kerf/Interfaces/KernelInterface.td"

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

def Test_SoftsignOp : Op<Test_Dialect, "softsign", [Pure,
    SameOperandsAndResultType, Kerf_Factors, Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate, Kerf_Scalar]> {
  let summary = "y = x / (1 + |x|), element by element, inside kernels with its neighbours";
  let arguments = (ins Kerf_Float:$x);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

def Test_SplitHeadsOp : Op<Test_Dialect, "split_heads", [Pure, Kerf_View, Kerf_Factors,
    Kerf_Gradient, Kerf_PointwiseCost, Kerf_Evaluate]> {
  let summary = "Channels [b,s,d] as heads [b,s,h,d/h]: the same elements in the same order";
  let arguments = (ins Kerf_Float:$x);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
}

def Test_ReverseRowsOp : Op<Test_Dialect, "reverse_rows", [Pure,
    SameOperandsAndResultType, Kerf_Evaluate, Kerf_Kernel]> {
  let summary = "Reverse the order in the last dimension, by a kernel of its own";
  let arguments = (ins Kerf_Float:$x);
  let results = (outs Kerf_Float:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

def Test_CodeOp : Op<Test_Dialect, "code", [Pure, Kerf_Kernel]> {
  let summary = "Run any code as a kernel";
  let arguments = (ins Variadic<Kerf_Float>:$inputs, StrAttr:$code,
    DefaultValuedAttr<I64Attr, "1">:$units, DefaultValuedAttr<I64Attr, "1">:$grain,
    OptionalAttr<StrAttr>:$size);
  let results = (outs Variadic<Kerf_Float>:$results);
  let assemblyFormat = "$inputs $code attr-dict `:` functional-type($inputs, $results)";
}

#endif // KERF_TEST_OPS_TD
