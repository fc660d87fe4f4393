#include "kerf/Artifact/Format.h"
#include "kerf/Memory/Passes.h"

namespace kerf {
#define GEN_PASS_DEF_VERIFYMEMORYPASS
#include "kerf/Memory/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Operands of every launch against its kernel.
static LogicalResult checkLaunches(exec::ProgramOp program) {
  WalkResult result = program.walk([&](exec::CommandOp command) {
    if (!command.getKernel())
      return WalkResult::advance();
    auto kernel = dyn_cast_or_null<exec::KernelOp>(
        SymbolTable::lookupSymbolIn(program, command.getKernelAttr()));
    if (!kernel) {
      command.emitOpError()
          << "launches unknown kernel '" << *command.getKernel() << "'";
      return WalkResult::interrupt();
    }
    size_t expected =
        kernel.getArgumentTypes().size() + kernel.getResultTypes().size();
    if (command.getOperandRefs().size() != expected) {
      command.emitOpError()
          << "has " << command.getOperandRefs().size() << " operands, kernel '"
          << *command.getKernel() << "' takes " << expected;
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

static bool shareBytes(exec::BufferOp a, exec::BufferOp b) {
  return a.getOffset() < b.getOffset() + b.getBytes() &&
         b.getOffset() < a.getOffset() + a.getBytes();
}

/// A time at which both hold something, or nothing.
static std::optional<int64_t> commonTime(llvm::ArrayRef<int64_t> a,
                                         llvm::ArrayRef<int64_t> b) {
  if (a.empty() || b.empty()) // Always.
    return a.empty() ? (b.empty() ? 0 : b[0]) : a[0];
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    int64_t first = std::max(a[i], b[j]);
    if (first <= std::min(a[i + 1], b[j + 1]))
      return first;
    (a[i + 1] < b[j + 1] ? i : j) += 2;
  }
  return std::nullopt;
}

/// All placed buffers lie in the arena; no two that share bytes live at one
/// time. An empty one shares nothing.
static LogicalResult checkBuffers(exec::ProgramOp program) {
  llvm::SmallVector<exec::BufferOp> buffers(
      program.getBody().getOps<exec::BufferOp>());
  int64_t arena = program.getArena();
  for (exec::BufferOp buffer : buffers) {
    int64_t offset = buffer.getOffset(), bytes = buffer.getBytes();
    if (offset < 0 || bytes < 0 || offset > arena || bytes > arena - offset)
      return buffer.emitOpError()
             << "\"" << buffer.getName() << "\" lies outside the arena of "
             << arena << " bytes";
  }
  for (auto [i, a] : llvm::enumerate(buffers))
    for (exec::BufferOp b : llvm::ArrayRef(buffers).drop_front(i + 1)) {
      if (!shareBytes(a, b))
        continue;
      std::optional<int64_t> time = commonTime(a.getLive(), b.getLive());
      if (!time)
        continue;
      InFlightDiagnostic error = b.emitOpError()
                                 << "\"" << b.getName() << "\" overlaps \""
                                 << a.getName() << "\" at command " << *time;
      error.attachNote(a.getLoc()) << "\"" << a.getName() << "\" is here";
      return error;
    }
  return success();
}

namespace {
struct VerifyMemory : kerf::impl::VerifyMemoryPassBase<VerifyMemory> {
  void runOnOperation() override {
    for (Operation &op : *getOperation().getBody()) {
      auto program = dyn_cast<exec::ProgramOp>(op);
      if (!program) {
        op.emitOpError("is left after memory, expected 'exec.program'");
        return signalPassFailure();
      }
      if (failed(checkLaunches(program)) || failed(checkBuffers(program)))
        return signalPassFailure();
    }
  }
};
} // namespace
