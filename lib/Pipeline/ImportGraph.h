//===- ImportGraph.h - models that come as graphs ---------------*- C++ -*-===//

#ifndef KERF_LIB_PIPELINE_IMPORTGRAPH_H
#define KERF_LIB_PIPELINE_IMPORTGRAPH_H

#include "kerf/Ingest/Import.h"
#include "kerf/Stablehlo/Stablehlo.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace kerf {

/// True for the text of a model in the dialect, as exporters write it, or of a
/// function that JAX lowered.
bool isGraph(llvm::StringRef path, llvm::StringRef text);

/// How far a graph is brought to the form of models that configs give.
struct GraphOptions {
  bool raises = true;    ///< layers are recognized in plain ops
  bool rolls = true;     ///< layers that repeat become loops
  bool explains = false; ///< remarks say what was not recognized, and why
  /// What a lowered function does not say.
  StablehloOptions stablehlo;
  ImportOptions optimizer;
};

/// Parses a graph or a lowered function, raises and rolls it, and calls `write`
/// with the result. Returns an exit status, after messages on standard error.
int importGraph(std::unique_ptr<llvm::MemoryBuffer> buffer,
                const GraphOptions &options,
                llvm::function_ref<int(mlir::ModuleOp)> write);

} // namespace kerf

#endif // KERF_LIB_PIPELINE_IMPORTGRAPH_H
