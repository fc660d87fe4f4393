//===- Graphs.cpp - recorded training steps -------------------------------===//
//
// To enqueue some thousands of commands takes the host longer than a fast
// device needs for them. A device that can record what is enqueued does so with
// the second training step (the first one has made all that is made once), and
// replays it from then on. A recording is right for every later step: operands
// are addresses that depend on calls and iterations alone, scalars likewise,
// and what changes from step to step (samples, the step's number, seed,
// learning rate, loss scale) lies in the arena.
//
// The host must read a number at KERF_OP_STOP_IF, so there the recording is
// split. A step beside which a snapshot is copied runs command by command: it
// waits where it writes what is copied. So it does on all ranks, also on those
// that copy nothing: what is recorded of an exchange must be on all.
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include <algorithm>
#include <utility>

using namespace kerf::artifact;
using namespace kerf::runtime;

/// Does a training step of this rank talk to others?
static bool hasExchanges(const View &view) {
  for (uint32_t c = 0; c < view.program->train_calls; ++c) {
    const kerf_func &func = view.funcs[view.calls[c].func];
    for (uint32_t n = 0; n < func.command_count; ++n)
      if (isExchange(view.commands[func.first_command + n].opcode))
        return true;
  }
  return false;
}

/// What is looked at command by command is run so.
bool kerf_session::mayRecord() const {
  return (api->flags & KERF_DEVICE_GRAPHS) && !noGraphs && !checkNans &&
         !profile && !isTracing &&
         (transport->recordable() || !hasExchanges(view));
}

Status kerf_session::beginPart() {
  // A recording knows nothing of what is under way when it begins.
  if (Status status = transport->join(); status.failed())
    return status;
  char error[512] = "";
  if (api->begin_graph(device, error, sizeof error))
    return failure(KERF_FAILED, "cannot record the step: %s", error);
  isRecording = true;
  return {};
}

/// Runs what was recorded since `beginPart`, and the command behind it.
Status kerf_session::endPart(uint32_t stop, const void *number) {
  // What was started must be joined before a recording ends.
  Status status = settle();
  if (!status.failed())
    status = transport->join();
  if (status.failed())
    return status;
  isRecording = false;
  char error[512] = "";
  kerf_graph *graph = nullptr;
  if (api->end_graph(device, &graph, error, sizeof error))
    return failure(KERF_FAILED, "cannot record the step: %s", error);
  parts.push_back({graph, stop, number});
  if (api->launch_graph(device, graph, error, sizeof error))
    return failure(KERF_FAILED, "cannot run what was recorded: %s", error);
  if (stop == KERF_NONE)
    return {};
  status = stopIf(stop, number);
  return status.failed() ? status : beginPart();
}

/// Records the step and runs it part by part.
Status kerf_session::record() {
  Status status = beginPart();
  if (!status.failed())
    status = runAll(0, view.program->train_calls);
  if (!status.failed())
    status = endPart(KERF_NONE, nullptr);
  if (status.failed())
    dropParts();
  if (status.failed() && status.code == KERF_FAILED)
    status.message += "; KERF_NO_GRAPH=1 runs without recording";
  return status;
}

Status kerf_session::replay() {
  // By value: a transport that fails drops them.
  for (Part part : parts) {
    char error[512] = "";
    if (api->launch_graph(device, part.graph, error, sizeof error))
      return failure(KERF_FAILED, "cannot run what was recorded: %s", error);
    if (part.stop == KERF_NONE)
      continue;
    progress.store(part.stop, std::memory_order_relaxed);
    transport->enter(part.stop);
    Status status = stopIf(part.stop, part.number);
    if (status.failed())
      return describeFailure(part.stop, std::move(status));
  }
  return {};
}

void kerf_session::dropParts() {
  if (std::exchange(isRecording, false))
    api->end_graph(device, nullptr, nullptr, 0);
  for (const Part &part : parts)
    api->destroy_graph(part.graph);
  parts.clear();
}

Status kerf_session::runStep() {
  uint32_t end = view.program->train_calls;
  bool isBeside = std::exchange(isBesideSnapshot, false);
  if (!hasStepped || isBeside || !broken.empty() || !mayRecord()) {
    Status status = runCalls(0, end);
    hasStepped = !status.failed();
    return status;
  }
  marked = 0;
  timed.clear();
  return finishRun(parts.empty() ? record() : replay());
}
