//===- Machine.h - from code to a shared object ---------------------------===//

#ifndef KERF_CODEGEN_MACHINE_H
#define KERF_CODEGEN_MACHINE_H

#include "kerf/Codegen/Codegen.h"
#include "kerf/Interfaces/KernelInterface.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Target/TargetMachine.h"

namespace kerf::codegen {

/// A context that has the dialects of generated code.
std::unique_ptr<mlir::MLIRContext> makeCodeContext();

/// Lowers a module of loops to LLVM IR, optimizes it and makes an object file.
/// With `dumpTo`, writes the optimized IR to `<dumpTo>/<name>.ll`.
mlir::FailureOr<llvm::SmallVector<char, 0>>
makeObject(mlir::ModuleOp module, const CpuTarget &target, llvm::StringRef name,
           llvm::StringRef dumpTo, std::string &error);

/// As `makeObject`, of a kernel that an op brought along. `error` is what to
/// say of that op.
mlir::FailureOr<llvm::SmallVector<char, 0>>
makeOwnObject(const KernelCode &kernel, const CpuTarget &target,
              llvm::StringRef symbol, llvm::StringRef dumpTo,
              std::string &error);

/// The module of such a kernel, checked, with the symbol as its only function
/// that others see; null and `error` if something is wrong with it.
std::unique_ptr<llvm::Module> readOwnKernel(const KernelCode &kernel,
                                            llvm::LLVMContext &context,
                                            const llvm::TargetMachine &machine,
                                            llvm::StringRef symbol,
                                            std::string &error);

/// Links object files into one shared object. Symbols that they lack are looked
/// up when it is loaded (functions of the C library's math part).
mlir::FailureOr<std::string>
linkShared(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects,
           std::string &error);

} // namespace kerf::codegen

#endif // KERF_CODEGEN_MACHINE_H
