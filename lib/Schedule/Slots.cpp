//===- Slots.cpp - copies of slot buffers ---------------------------------===//
//
// Problem: how many copies does a buffer need that one call writes and a later
// one reads, with calls for other micro-batches between them?
//
// Idea: micro-batch m takes copy m mod n, and calls of a function come in the
// order of the micro-batches. So when m is written, all from the oldest one
// that is still to be read up to m must have places of their own.
//
// Example, 1F1B, first of three stages: F0 F1 F2 B0 F3 B1 ...: when F2 writes,
// 0 is still to be read: 3 copies. When F3 writes, 1 is the oldest: 3 again.
//
// Cost: one visit per call and buffer.
//
//===----------------------------------------------------------------------===//

#include "Slots.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kerf;

namespace {
/// Calls that touch one buffer.
struct Use {
  int64_t micro;
  bool writes;
};
} // namespace

/// Copies that these calls need, in their order.
static int64_t copiesOf(llvm::ArrayRef<Use> uses) {
  llvm::DenseMap<int64_t, size_t> lastUse;
  for (auto [at, use] : llvm::enumerate(uses))
    lastUse[use.micro] = at;
  int64_t most = 1, oldest = 0;
  for (auto [at, use] : llvm::enumerate(uses)) {
    if (!use.writes)
      continue;
    while (oldest < use.micro && lastUse.lookup(oldest) <= at)
      ++oldest;
    most = std::max(most, use.micro - oldest + 1);
  }
  return most;
}

/// The slot buffer that an op reads or writes; null for others.
static spmd::BufferOp bufferOf(spmd::ProgramOp program, Operation *op) {
  if (!isa<spmd::ReadOp, spmd::WriteOp>(op))
    return {};
  auto name = op->getAttrOfType<FlatSymbolRefAttr>(
      isa<spmd::ReadOp>(op) ? "source" : "target");
  auto buffer = dyn_cast_or_null<spmd::BufferOp>(
      SymbolTable::lookupSymbolIn(program, name.getValue()));
  bool isSlot = buffer && buffer.getKind() == spmd::BufferKind::Slot;
  return isSlot ? buffer : spmd::BufferOp();
}

void kerf::setSlots(spmd::ProgramOp program) {
  spmd::ScheduleOp schedule = program.getSchedule("train");
  if (!schedule)
    return;
  // Buffers of each function, and whether it writes them.
  llvm::MapVector<StringAttr, llvm::MapVector<Operation *, bool>> touched;
  for (auto func : program.getBody().getOps<spmd::FuncOp>()) {
    auto &own = touched[func.getSymNameAttr()];
    func.walk([&](Operation *op) {
      if (spmd::BufferOp buffer = bufferOf(program, op))
        own[buffer] |= isa<spmd::WriteOp>(op);
    });
  }
  llvm::MapVector<Operation *, llvm::SmallVector<Use>> uses;
  for (auto call : schedule.getBody().getOps<spmd::CallOp>())
    for (auto &[buffer, writes] : touched[call.getCalleeAttr().getAttr()])
      uses[buffer].push_back({int64_t(call.getMicro().value_or(0)), writes});
  llvm::MapVector<Operation *, int64_t> copies;
  int64_t most = 1;
  for (auto &[buffer, list] : uses)
    most = std::max(most, copies[buffer] = copiesOf(list));
  program.setSlots(most);
  OpBuilder builder(program.getContext());
  for (auto [buffer, own] : copies)
    if (own < most)
      buffer->setAttr("slots", builder.getI64IntegerAttr(own));
}
