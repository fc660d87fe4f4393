//===- Passes.td - machine code -------------------------------------------===//

#ifndef KERF_CODEGEN_PASSES_TD
#define KERF_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def GenerateCodePass : Pass<"kerf-generate-code", "::mlir::ModuleOp"> {
  let summary = "Compile the kernels of programs for a processor";
  let description = [{
    Adds the shared object of the kernels of all programs as `exec.image`s to the
    first one, and to each kernel its symbol, number of units and grain. Kernels of
    equal content are compiled once, whichever programs they are in. `cpu` is `native`, a level
    (`x86-64-v3`: AVX2, `x86-64-v4`: AVX-512) or a name that LLVM knows.

    With target `cuda` kernels are made for `gpu` (`sm_80`, ..., `sm_120`): PTX text, and a
    cubin where `ptxas` is found (`KERF_PTXAS`, `PATH`, `CUDA_HOME`). Each kernel then
    has the threads of a block, too.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"", "cpu or cuda">,
    Option<"cpu", "cpu", "std::string", "\"native\"", "CPU that kernels are made for">,
    Option<"gpu", "gpu", "std::string", "\"sm_90\"", "GPU that kernels are made for">,
    Option<"threads", "threads", "unsigned", "2", "threads that compile">,
    Option<"report", "report", "bool", "false",
           "remark what each kernel of a GPU takes">,
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
