//===- Passes.td - machine code -------------------------------------------===//

#ifndef KERF_CODEGEN_PASSES_TD
#define KERF_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def GenerateCodePass : Pass<"kerf-generate-code", "::mlir::ModuleOp"> {
  let summary = "Compile the kernels of programs for a CPU";
  let description = [{
    Adds the shared object of the kernels of all programs as `exec.image`s to the
    first one, and to each kernel its symbol, number of units and grain. Kernels of
    equal content are compiled once, whichever programs they are in. `cpu` is `native`, a level
    (`x86-64-v3`: AVX2, `x86-64-v4`: AVX-512) or a name that LLVM knows.
  }];
  let options = [
    Option<"cpu", "cpu", "std::string", "\"native\"", "CPU that kernels are made for">,
    Option<"threads", "threads", "unsigned", "2", "threads that compile">,
  ];
}

def VerifyCodePass : Pass<"kerf-verify-code", "::mlir::ModuleOp"> {
  let summary = "Check the contract after codegen";
  let description = [{
    Every kernel has the symbol, units and grain of its code; if there is one, the
    first program has an image, and no other has. That the image is sound and has
    these symbols, the runtime checks.
  }];
}

#endif // KERF_CODEGEN_PASSES_TD
