#include "Links.h"

using namespace mlir;
using namespace kerf;

static int64_t stageOf(Operation *op) {
  return op->getParentOfType<spmd::ProgramOp>().getStage();
}

Links::Links(llvm::ArrayRef<spmd::ProgramOp> programs, int64_t holds)
    : holds(holds), met(programs.size(), 0) {
  spmd::ProgramOp first = programs.front();
  rankCount = first.getMesh().getRankCount();
  for (spmd::ProgramOp program : programs)
    ranks.push_back(program.getRanks());
}

bool Links::send(spmd::SendOp send, const Ranks &value) {
  Channel &channel =
      channels[{stageOf(send), send.getTo(), send.getChannel().str()}];
  if (holds && static_cast<int64_t>(channel.size()) >= holds)
    return false;
  channel.emplace_back(send, value);
  return true;
}

FailureOr<std::optional<Ranks>> Links::receive(spmd::RecvOp recv) {
  int64_t from = recv.getFrom(), to = stageOf(recv);
  Channel &channel = channels[{from, to, recv.getChannel().str()}];
  if (channel.empty())
    return std::optional<Ranks>();
  auto [send, sent] = channel.front();
  if (send.getValue().getType() != recv.getResult().getType()) {
    auto diagnostic = recv.emitOpError()
                      << "on \"" << recv.getChannel() << "\" expected "
                      << recv.getResult().getType() << ", found "
                      << send.getValue().getType();
    diagnostic.attachNote(send.getLoc()) << "as it is sent by stage " << from;
    return diagnostic;
  }
  channel.pop_front();
  // Ranks ascend: the i-th of each stage has the same coordinates otherwise.
  Ranks received(rankCount);
  for (auto [source, target] : llvm::zip_equal(ranks[from], ranks[to]))
    received[target] = sent[source];
  return std::optional(std::move(received));
}

/// True when two stages do the same together.
static bool isSame(Operation *a, Operation *b) {
  return a->getName() == b->getName() &&
         a->getPropertiesAsAttribute() == b->getPropertiesAsAttribute() &&
         a->getOperandTypes() == b->getOperandTypes() &&
         a->getResultTypes() == b->getResultTypes();
}

FailureOr<std::optional<Ranks>> Links::meet(Operation &op, const Ranks &own) {
  int64_t stage = stageOf(&op);
  if (met[stage] == meetings.size()) {
    meetings.emplace_back();
    meetings.back().ops.resize(ranks.size(), nullptr);
    meetings.back().values.resize(rankCount);
  }
  Meeting &meeting = meetings[met[stage]];
  meeting.ops[stage] = &op;
  for (int64_t rank : ranks[stage])
    meeting.values[rank] = own[rank];
  for (Operation *other : meeting.ops) {
    if (!other || isSame(&op, other))
      continue;
    auto diagnostic = op.emitOpError()
                      << "of stage " << stage << " meets another op of stage "
                      << stageOf(other);
    diagnostic.attachNote(other->getLoc()) << "which is '" << *other << "'";
    return diagnostic;
  }
  if (llvm::is_contained(meeting.ops, nullptr))
    return std::optional<Ranks>();
  ++met[stage];
  return std::optional(meeting.values);
}

LogicalResult Links::checkDone() {
  for (auto &[key, channel] : channels)
    if (!channel.empty())
      return channel.front().first.emitOpError()
             << "on \"" << std::get<2>(key) << "\": stage " << std::get<1>(key)
             << " ends without receiving the message";
  return success();
}
