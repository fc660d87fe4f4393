//===- Messages.cpp - do the stages of a pipeline wait for each other? ----===//
//
// Problem: each stage has an order of its own; a message that is awaited before
// it can be sent stops the step, on hundreds of ranks.
//
// Idea: all that can stop is sending, receiving and what all stages do
// together, and the order of these does not depend on data. So simulating them
// once, at compile time, proves the absence of deadlocks: whichever stage can
// go on does, until all are at the end or none can.
//
// Example: stages that send before they receive, channels that keep nothing:
// both would wait. With one message kept both go on.
//
//===----------------------------------------------------------------------===//

#include "Messages.h"

#include <deque>
#include <map>
#include <vector>

using namespace mlir;
using namespace kerf;

namespace {
/// Something that a stage may have to wait for.
struct Event {
  Operation *op;
  spmd::CallOp call;
};

struct StageCursor {
  std::vector<Event> events;
  size_t next = 0;
  bool isDone() const { return next == events.size(); }
  Operation *op() const { return events[next].op; }
};

/// Sender, receiver, name.
using Key = std::tuple<int64_t, int64_t, std::string>;

class Simulation {
public:
  Simulation(const StagePrograms &programs, llvm::StringRef schedule,
             int64_t capacity)
      : capacity(capacity) {
    for (spmd::ProgramOp program : programs)
      addCursor(program, schedule);
  }

  LogicalResult run(std::string &error, Operation *&at);

private:
  void addCursor(spmd::ProgramOp program, llvm::StringRef schedule);
  bool goOn(int64_t stage, std::string &error);
  bool combine();
  std::string waitsFor(int64_t stage);

  int64_t capacity;
  std::vector<StageCursor> cursors;
  std::map<Key, std::deque<Type>> channels;
};
} // namespace

/// True for collectives in which all stages take part.
static bool joinsStages(Operation *op) {
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  return axes && !isa<spmd::OffsetOp>(op) &&
         llvm::is_contained(axes,
                            StringAttr::get(op->getContext(), kPipelineAxis));
}

void Simulation::addCursor(spmd::ProgramOp program, llvm::StringRef schedule) {
  StageCursor &cursor = cursors.emplace_back();
  spmd::ScheduleOp calls = program.getSchedule(schedule);
  if (!calls)
    return;
  llvm::DenseMap<Operation *, llvm::SmallVector<Operation *, 4>> known;
  SymbolTable symbols(program);
  for (auto call : calls.getBody().getOps<spmd::CallOp>()) {
    Operation *func = symbols.lookup(call.getCallee());
    auto [entry, isNew] = known.try_emplace(func);
    if (isNew)
      func->walk([&, &ops = entry->second](Operation *op) {
        if (isa<spmd::SendOp, spmd::RecvOp>(op) || joinsStages(op))
          ops.push_back(op);
      });
    for (Operation *op : entry->second)
      cursor.events.push_back({op, call});
  }
}

static Key keyOf(int64_t stage, Operation *op) {
  if (auto send = dyn_cast<spmd::SendOp>(op))
    return {stage, int64_t(send.getTo()), send.getChannel().str()};
  auto receive = cast<spmd::RecvOp>(op);
  return {int64_t(receive.getFrom()), stage, receive.getChannel().str()};
}

/// Lets a stage go on as far as it can without the others; false if not at all.
bool Simulation::goOn(int64_t stage, std::string &error) {
  StageCursor &cursor = cursors[stage];
  size_t before = cursor.next;
  for (; !cursor.isDone(); ++cursor.next) {
    Operation *op = cursor.op();
    if (!isa<spmd::SendOp, spmd::RecvOp>(op))
      break;
    std::deque<Type> &channel = channels[keyOf(stage, op)];
    if (auto send = dyn_cast<spmd::SendOp>(op)) {
      if (int64_t(channel.size()) >= capacity)
        break;
      channel.push_back(send.getValue().getType());
      continue;
    }
    if (channel.empty())
      break;
    Type expected = op->getResult(0).getType();
    if (channel.front() != expected) {
      llvm::raw_string_ostream(error)
          << "receives " << channel.front() << " where it expects " << expected
          << ": the stages send and receive in different orders";
      return false;
    }
    channel.pop_front();
  }
  return cursor.next != before;
}

/// What all stages do together goes on when all are there.
bool Simulation::combine() {
  for (const StageCursor &cursor : cursors)
    if (cursor.isDone() || !joinsStages(cursor.op()) ||
        cursor.op()->getName() != cursors[0].op()->getName() ||
        cursor.op()->getOperand(0).getType() !=
            cursors[0].op()->getOperand(0).getType())
      return false;
  for (StageCursor &cursor : cursors)
    ++cursor.next;
  return true;
}

std::string Simulation::waitsFor(int64_t stage) {
  Event &event = cursors[stage].events[cursors[stage].next];
  std::string text = "stage " + std::to_string(stage) + " waits in @" +
                     event.call.getCallee().str();
  if (event.call.getMicro())
    text += " of micro-batch " + std::to_string(*event.call.getMicro());
  if (!isa<spmd::SendOp, spmd::RecvOp>(event.op))
    return text + " for all stages to combine a value";
  auto [from, to, name] = keyOf(stage, event.op);
  if (isa<spmd::RecvOp>(event.op))
    return text + " for a message of stage " + std::to_string(from) + " on \"" +
           name + "\"";
  return text + " to send to stage " + std::to_string(to) + " on \"" + name +
         "\", which keeps " + std::to_string(capacity) + " messages";
}

LogicalResult Simulation::run(std::string &error, Operation *&at) {
  for (bool moves = true; moves;) {
    moves = false;
    for (size_t stage = 0; stage < cursors.size(); ++stage) {
      moves |= goOn(stage, error);
      if (!error.empty()) {
        at = cursors[stage].op();
        return failure();
      }
    }
    moves |= combine();
  }
  for (size_t stage = 0; stage < cursors.size(); ++stage)
    if (!cursors[stage].isDone()) {
      if (error.empty())
        at = cursors[stage].events[cursors[stage].next].call;
      error += (error.empty() ? "" : "; ") + waitsFor(stage);
    }
  for (const auto &[key, messages] : channels)
    if (error.empty() && !messages.empty()) {
      at = cursors[std::get<0>(key)].events.back().call;
      error = "stage " + std::to_string(std::get<1>(key)) +
              " never receives a message of stage " +
              std::to_string(std::get<0>(key)) + " on \"" + std::get<2>(key) +
              "\"";
    }
  return success(error.empty());
}

LogicalResult kerf::simulateMessages(const StagePrograms &programs,
                                     llvm::StringRef schedule, int64_t capacity,
                                     std::string &error, Operation *&at) {
  error.clear();
  return Simulation(programs, schedule, capacity).run(error, at);
}
