#include "RankOrder.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

namespace {
using Channel = std::tuple<int64_t, int64_t, llvm::StringRef>;
/// Ends of a channel by function.
template <typename Op>
using Ends = llvm::MapVector<Operation *, llvm::SmallVector<Op, 1>>;
} // namespace

Messages kerf::matchMessages(ModuleOp module) {
  std::map<Channel, Ends<spmd::SendOp>> sends;
  std::map<Channel, Ends<spmd::RecvOp>> receives;
  for (auto program : module.getOps<spmd::ProgramOp>()) {
    auto stage = int64_t(program.getStage());
    program.walk([&](spmd::SendOp op) {
      sends[{stage, op.getTo(), op.getChannel()}]
           [op->getParentOfType<spmd::FuncOp>()]
               .push_back(op);
    });
    program.walk([&](spmd::RecvOp op) {
      receives[{op.getFrom(), stage, op.getChannel()}]
              [op->getParentOfType<spmd::FuncOp>()]
                  .push_back(op);
    });
  }
  Messages messages;
  for (auto &[channel, to] : receives) {
    auto &from = sends[channel];
    if (from.size() != to.size())
      continue;
    for (auto [sender, receiver] : llvm::zip(from, to))
      for (auto [send, receive] : llvm::zip(sender.second, receiver.second))
        messages[receive] = send;
  }
  return messages;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

RankOrder::RankOrder(ModuleOp module, const RankKnowledge &knowledge)
    : knowledge(knowledge) {
  auto note = [&](Operation *op, llvm::StringRef target) {
    writers[{op->getParentOfType<spmd::ProgramOp>(), target}].push_back(
        op->getParentOfType<spmd::FuncOp>());
  };
  module.walk([&](spmd::FuncOp func) { left.push_back(func); });
  module.walk([&](spmd::WriteOp op) { note(op, op.getTarget()); });
  module.walk([&](spmd::AccumulateOp op) { note(op, op.getTarget()); });
}

/// A function that continues another may leave a buffer in another state: who
/// reads it comes later.
bool RankOrder::isWritten(spmd::FuncOp func, const Buffer &buffer) const {
  auto known = writers.find(buffer);
  if (known == writers.end())
    return true;
  bool waits = llvm::any_of(known->second, [&](spmd::FuncOp writer) {
    return writer.getContinues() && writer != func && !func.getContinues() &&
           llvm::is_contained(left, writer);
  });
  return !waits && knowledge.buffers.count(buffer);
}

bool RankOrder::isReady(spmd::FuncOp func) const {
  auto isKnown = [&](Operation *op) {
    if (auto read = dyn_cast<spmd::ReadOp>(op))
      return isWritten(func, {func->getParentOp(), read.getSource()});
    auto match = knowledge.messages.find(op);
    return match == knowledge.messages.end() ||
           knowledge.sent.count(match->second) > 0;
  };
  return llvm::all_of(func.getBody().front(),
                      [&](Operation &op) { return isKnown(&op); });
}

spmd::FuncOp RankOrder::next() {
  if (left.empty())
    return {};
  auto ready =
      llvm::find_if(left, [&](spmd::FuncOp func) { return isReady(func); });
  if (ready == left.end()) // They wait for each other: not followed.
    ready = left.begin();
  spmd::FuncOp func = *ready;
  left.erase(ready);
  return func;
}
