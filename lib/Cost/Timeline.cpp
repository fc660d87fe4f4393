//===- Timeline.cpp - simulates one step ----------------------------------===//
//
// Problem: each stage takes its tasks in a fixed order; a task waits for the
// micro-batch from the neighbour, for its weights and for its engine. When does
// the step end?
//
// Idea: as orders are fixed, every time is the largest of the times it waits
// for, plus a duration, whatever the order in which we work them out. So we go
// round the stages and simulate each as far as its inputs have arrived. A stage
// owns its three engines, and sends leave in the order of its tasks, so that no
// queue of events is needed. Cost: a few operations per task.
//
// Per task, with traffic g (weights) and r (gradients) of which the part o is
// hidden:
//   gather    link from max(link free, engine free), for g
//   start     max(arrival, engine free + (1 - o) g)
//   end       max(start + duration, end of gather)
//   gradient  link from max(link free, start) for r, until end + (1 - o) r or
//   later engine    free at end + (1 - o) r
//
//===----------------------------------------------------------------------===//

#include "kerf/Cost/Timeline.h"

#include <algorithm>
#include <cassert>
#include <tuple>

using namespace kerf;

llvm::StringRef kerf::nameOf(EventKind kind) {
  static const llvm::StringRef names[] = {
      "forward", "backward",      "weight gradient", "send",
      "gather",  "gradient sync", "weight gather",   "update"};
  return names[size_t(kind)];
}

llvm::StringRef kerf::nameOf(Engine engine) {
  static const llvm::StringRef names[] = {"compute", "pipeline link",
                                          "data link"};
  return names[size_t(engine)];
}

namespace {
constexpr double kNotArrived = -1;

struct StageState {
  std::vector<Task> order;
  size_t next = 0;
  double computeEnd = 0; ///< of the last task
  double engineFree = 0; ///< computeEnd, or until gradients have left
  double dataFree = 0;   ///< data link
  double sendFree = 0;   ///< pipeline link
  double lastStart = 0;  ///< of the last task's compute
  double busy = 0, exposed = 0;
};

/// What the tasks of one kind cost on one chunk.
struct TaskWork {
  double sec, gatherSec, gradientSec;
};

class Simulator {
public:
  Simulator(const StepWork &work, bool keepEvents)
      : work(work), stages(int64_t(work.stages.size())), keepEvents(keepEvents),
        states(work.stages.size()) {}

  Timeline simulate();

private:
  void prepare();
  bool advance(int64_t stage);
  double arrivalOf(int64_t stage, const Task &task) const;
  TaskWork workOf(int64_t stage, const Task &task) const;
  void run(int64_t stage, const Task &task, double arrival);
  void sendGradients(int64_t stage, const Task &task, double sec);
  void handOver(int64_t stage, const Task &task);
  double finish(int64_t stage);
  Timeline collect(double end);
  void note(EventKind kind, Engine engine, int64_t stage, const Task *task,
            double start, double end);

  double &slot(std::vector<double> &arrivals, int64_t virtualStage,
               int64_t microBatch) {
    return arrivals[size_t(virtualStage * work.microBatches + microBatch)];
  }

  const StepWork &work;
  int64_t stages;
  bool keepEvents;
  std::vector<StageState> states;
  /// When the input of a forward (backward) arrives, by virtual stage
  /// chunk x stages + stage and micro-batch.
  std::vector<double> forwardArrival, backwardArrival;
  std::vector<Event> events;
};
} // namespace

void Simulator::note(EventKind kind, Engine engine, int64_t stage,
                     const Task *task, double start, double end) {
  if (!keepEvents)
    return;
  Event event{kind, engine, int(stage), 0, -1, start, end};
  if (task) {
    event.chunk = task->chunk;
    event.microBatch = task->microBatch;
  }
  events.push_back(event);
}

void Simulator::prepare() {
  int64_t virtualStages = stages * work.chunks;
  size_t slots = size_t(virtualStages * work.microBatches);
  forwardArrival.assign(slots, kNotArrived);
  backwardArrival.assign(slots, kNotArrived);
  for (int64_t m = 0; m < work.microBatches; ++m) {
    slot(forwardArrival, 0, m) = 0;
    slot(backwardArrival, virtualStages - 1, m) = 0;
  }
  for (int64_t s = 0; s < stages; ++s)
    states[s].order = stageOrder(work.pipelining(), s);
}

double Simulator::arrivalOf(int64_t stage, const Task &task) const {
  if (task.kind == EventKind::WeightGradient)
    return 0;
  const std::vector<double> &arrivals =
      task.kind == EventKind::Forward ? forwardArrival : backwardArrival;
  return arrivals[size_t((task.chunk * stages + stage) * work.microBatches +
                         task.microBatch)];
}

TaskWork Simulator::workOf(int64_t stage, const Task &task) const {
  const ChunkWork &chunk = work.stages[size_t(stage)].chunks[task.chunk];
  bool split = splitsWeightGradient(work.schedule);
  if (task.kind == EventKind::Forward)
    return {chunk.forwardSec, chunk.forwardGatherSec, 0};
  if (task.kind == EventKind::WeightGradient)
    return {chunk.weightGradientSec, 0, chunk.gradientSec};
  if (split)
    return {chunk.backwardSec - chunk.weightGradientSec,
            chunk.backwardGatherSec, 0};
  return {chunk.backwardSec, chunk.backwardGatherSec, chunk.gradientSec};
}

/// Simulates the tasks of a stage whose inputs have arrived; false if none has.
bool Simulator::advance(int64_t stage) {
  StageState &state = states[size_t(stage)];
  size_t before = state.next;
  for (; state.next < state.order.size(); ++state.next) {
    const Task &task = state.order[state.next];
    double arrival = arrivalOf(stage, task);
    if (arrival == kNotArrived)
      break;
    run(stage, task, arrival);
  }
  return state.next != before;
}

void Simulator::run(int64_t stage, const Task &task, double arrival) {
  StageState &state = states[size_t(stage)];
  TaskWork cost = workOf(stage, task);
  double start = std::max(arrival, state.engineFree);
  double gathered = 0;
  if (cost.gatherSec > 0) {
    double from = std::max(state.dataFree, state.engineFree);
    gathered = state.dataFree = from + cost.gatherSec;
    start = std::max(arrival, state.engineFree +
                                  (1 - work.weightOverlap) * cost.gatherSec);
    note(EventKind::Gather, Engine::DataLink, stage, &task, from, gathered);
  }
  double end = std::max(start + cost.sec, gathered);
  double idleUntil = std::max(arrival, state.computeEnd);
  state.exposed += (start - idleUntil) + (end - start - cost.sec);
  state.busy += cost.sec;
  state.lastStart = start;
  state.computeEnd = state.engineFree = end;
  note(task.kind, Engine::Compute, stage, &task, start, end);
  if (cost.gradientSec > 0) {
    sendGradients(stage, task, cost.gradientSec);
    state.engineFree = end + (1 - work.gradientOverlap) * cost.gradientSec;
  }
  handOver(stage, task);
}

/// Gradients of the last task leave, the hidden part of them before its end if
/// the link is free and the task long enough.
void Simulator::sendGradients(int64_t stage, const Task &task, double sec) {
  StageState &state = states[size_t(stage)];
  double begin = std::max(state.dataFree, state.lastStart);
  state.dataFree = std::max(begin + sec, state.computeEnd +
                                             (1 - work.gradientOverlap) * sec);
  note(EventKind::GradientSync, Engine::DataLink, stage, &task,
       state.dataFree - sec, state.dataFree);
}

/// Sends the result of the last task to the stage that needs it.
void Simulator::handOver(int64_t stage, const Task &task) {
  if (task.kind == EventKind::WeightGradient)
    return;
  bool forward = task.kind == EventKind::Forward;
  int64_t target = task.chunk * stages + stage + (forward ? 1 : -1);
  if (target < 0 || target >= stages * work.chunks)
    return;
  StageState &state = states[size_t(stage)];
  double arrival = state.computeEnd;
  // Over the border behind the stage or before it; that before the first stage
  // is the last one.
  int64_t border = forward ? stage : (stage + stages - 1) % stages;
  double sec = stages > 1 ? work.sendOver(static_cast<size_t>(border)) : 0;
  if (sec > 0) {
    double start = std::max(state.sendFree, state.computeEnd);
    arrival = state.sendFree = start + sec;
    note(EventKind::Send, Engine::PipeLink, stage, &task, start, arrival);
  }
  slot(forward ? forwardArrival : backwardArrival, target, task.microBatch) =
      arrival;
}

/// Gradient sync, update and weights; the time at which the stage is done.
double Simulator::finish(int64_t stage) {
  StageState &state = states[size_t(stage)];
  const StageWork &own = work.stages[size_t(stage)];
  if (own.gradientSyncSec > 0)
    sendGradients(stage, {EventKind::Backward, 0, -1}, own.gradientSyncSec);
  double start = std::max(state.engineFree, state.dataFree);
  double end = start + own.updateSec;
  if (own.updateSec > 0)
    note(EventKind::Update, Engine::Compute, stage, nullptr, start, end);
  double visible =
      own.weightGatherSec - std::min(work.updatedOverlap * own.weightGatherSec,
                                     own.chunks.front().forwardSec);
  if (visible > 0)
    note(EventKind::WeightGather, Engine::DataLink, stage, nullptr, end,
         end + visible);
  state.exposed += start - state.computeEnd + visible;
  state.busy += own.updateSec;
  return end + visible;
}

Timeline Simulator::collect(double end) {
  Timeline timeline;
  double own = 0;
  for (const StageState &state : states) {
    timeline.busySec.push_back(state.busy);
    timeline.exposedDataSec.push_back(state.exposed);
    own = std::max(own, state.busy + state.exposed);
  }
  // Sums of the same terms in another order may differ in the last digits.
  timeline.bubbleSec = work.bubble * std::max(0.0, end - own);
  timeline.totalSec = own + timeline.bubbleSec + work.constantSec;
  std::sort(events.begin(), events.end(), [](const Event &a, const Event &b) {
    return std::tie(a.startSec, a.stage, a.engine, a.endSec, a.kind, a.chunk,
                    a.microBatch) < std::tie(b.startSec, b.stage, b.engine,
                                             b.endSec, b.kind, b.chunk,
                                             b.microBatch);
  });
  timeline.events = std::move(events);
  return timeline;
}

Timeline Simulator::simulate() {
  prepare();
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t s = 0; s < stages; ++s)
      moved |= advance(s);
  }
  double end = 0;
  for (int64_t s = 0; s < stages; ++s) {
    assert(states[size_t(s)].next == states[size_t(s)].order.size() &&
           "stages wait for each other");
    end = std::max(end, finish(s));
  }
  return collect(end);
}

Timeline kerf::simulate(const StepWork &work, bool keepEvents) {
  assert(work.check().empty() && "the step cannot be simulated");
  return Simulator(work, keepEvents).simulate();
}
