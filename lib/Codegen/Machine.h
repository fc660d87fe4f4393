//===- Machine.h - from code to a shared object ---------------------------===//

#ifndef KERF_CODEGEN_MACHINE_H
#define KERF_CODEGEN_MACHINE_H

#include "kerf/Codegen/Codegen.h"
#include "kerf/Interfaces/KernelInterface.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Target/TargetMachine.h"

namespace kerf::codegen {

//===--- CPUs -------------------------------------------------------------===//

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

//===--- GPUs -------------------------------------------------------------===//

/// Lowers a module of loops to PTX. The function `symbol` is a kernel with
/// blocks of `threads` threads that have `registers` at most. `dumpTo` as of
/// `makeObject`.
mlir::FailureOr<std::string> makePtx(mlir::ModuleOp module,
                                     const GpuTarget &target,
                                     llvm::StringRef symbol, int64_t threads,
                                     int64_t registers, llvm::StringRef dumpTo,
                                     std::string &error);

/// One PTX module that has what each of the modules has. Names differ.
std::string joinPtx(llvm::ArrayRef<std::string> modules);

/// What the assembler made of a PTX module, and what it said of it.
struct Assembled {
  std::string cubin, messages;
};
/// Runs `target.ptxas`. On failure sets `error`.
mlir::FailureOr<Assembled>
assemble(llvm::StringRef ptx, const GpuTarget &target, std::string &error);

//===--- Both -------------------------------------------------------------===//

/// Who wrote a module.
enum class Author {
  Kerf, ///< loops are in vectors already, and long enough
  User, ///< plain code
};

/// A module of loops as LLVM IR; null and `error` if that fails.
std::unique_ptr<llvm::Module>
toLLVM(mlir::ModuleOp module, llvm::LLVMContext &context, std::string &error);
void optimize(llvm::Module &module, llvm::TargetMachine &machine,
              Author author);
/// Writes the module to `<folder>/<name>.ll`.
void dump(llvm::Module &module, llvm::StringRef folder, llvm::StringRef name);

/// Links object files into one shared object. Symbols that they lack are looked
/// up when it is loaded (functions of the C library's math part).
mlir::FailureOr<std::string>
linkShared(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects,
           std::string &error);

} // namespace kerf::codegen

#endif // KERF_CODEGEN_MACHINE_H
