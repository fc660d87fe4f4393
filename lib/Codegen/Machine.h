//===- Machine.h - from loops to a shared object --------------------------===//

#ifndef KERF_CODEGEN_MACHINE_H
#define KERF_CODEGEN_MACHINE_H

#include "kerf/Codegen/Codegen.h"

#include "llvm/ADT/SmallVector.h"

namespace kerf::codegen {

/// A context that has the dialects of generated code.
std::unique_ptr<mlir::MLIRContext> makeCodeContext();

/// Lowers a module of loops to LLVM IR, optimizes it and makes an object file.
/// With `dumpTo`, writes the optimized IR to `<dumpTo>/<name>.ll`.
mlir::FailureOr<llvm::SmallVector<char, 0>>
makeObject(mlir::ModuleOp module, const CpuTarget &target, llvm::StringRef name,
           llvm::StringRef dumpTo, std::string &error);

/// Links object files into one shared object. Symbols that they lack are looked
/// up when it is loaded (functions of the C library's math part).
mlir::FailureOr<std::string>
linkShared(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects,
           std::string &error);

} // namespace kerf::codegen

#endif // KERF_CODEGEN_MACHINE_H
