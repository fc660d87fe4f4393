//===- Passes.td - reading and checking models ----------------------------===//

#ifndef KERF_INGEST_PASSES_TD
#define KERF_INGEST_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyIngestPass : Pass<"kerf-verify-ingest", "::mlir::ModuleOp"> {
  let summary = "Check the contract after ingest";
  let description = [{
    The module holds one or more `kerf.model`; every tensor has a static shape
    of at most 2^48 elements; every compute op states its factors, and they
    match its shapes; no op has an attribute that means nothing (a misspelt one);
    no two draws of random numbers are equal (an op in a repeat has `layer`, ops
    have names of their own); nothing is there for the interpreter only
    (`kerf.check_close`).
  }];
}

def DumpFactorsPass : Pass<"kerf-dump-factors", "::mlir::ModuleOp"> {
  let summary = "Print the factors of every op, as remarks";
  let description = [{
    One remark per op: its factors with sizes and kinds, the factors of each
    dimension of operands and results, variants and maps.
  }];
}

#endif // KERF_INGEST_PASSES_TD
