//===- DryRun.cpp - the calls of NCCL of a compiled file ------------------===//

#include "Dry.h"
#include "Session.h"
#include "Watch.h"

#include <algorithm>

using namespace kerf::artifact;
using namespace kerf::runtime;
using namespace kerf::runtime::nccl;

/// Runs a training step and an evaluation of a rank, or, before the plan is
/// made, notes its groups.
static Status walk(const kerf_artifact &artifact, DryJob &job, uint32_t rank) {
  kerf_session session(artifact);
  session.api = job.api();
  session.device = job.device(rank);
  session.transport = job.transport(rank);
  kerf_session_options options;
  kerf_session_options_init(&options);
  options.rank = int32_t(rank);
  bool isPlanned = !job.plan.empty();
  Status status = session.create(options);
  if (!isPlanned && status.code == KERF_UNSUPPORTED)
    return {};
  uint32_t trained = status.failed() ? 0 : session.view.program->train_calls;
  if (!status.failed())
    status = session.runCalls(0, trained);
  if (!status.failed())
    status = session.runCalls(trained, session.view.calls.count);
  job.finish(rank);
  return status;
}

static Status walkAll(const kerf_artifact &artifact, Job &job) {
  uint32_t size = artifact.view.meta->world_size;
  DryJob dry(size);
  Status status;
  for (bool isPlanned : {false, true}) {
    for (uint32_t rank = 0; rank < size && !status.failed(); ++rank)
      status = walk(artifact, dry, rank);
    if (!isPlanned && !status.failed())
      status = dry.planAll();
  }
  if (!status.failed())
    job = dry.take();
  job.nameCommand = [&view = artifact.view](uint32_t, uint32_t command) {
    if (command >= view.commands.count)
      return std::string("outside of a step");
    const kerf_command &found = view.commands[command];
    std::string text = std::string("'") + view.string(found.name) + "' (" +
                       opcodeName(found.opcode);
    if (found.location != KERF_NONE)
      text += std::string(", ") + view.string(found.location);
    return text + ")";
  };
  return status;
}

namespace {
/// Where lines go.
struct Printer {
  kerf_line_fn print;
  void *user;
  void operator()(const std::string &line) const {
    if (print)
      print(user, line.c_str());
  }
};
} // namespace

static std::string describeRanks(std::vector<uint32_t> ranks) {
  std::string order;
  if (!std::is_sorted(ranks.begin(), ranks.end()))
    for (uint32_t rank : ranks)
      order += (order.empty() ? "" : ", ") + std::to_string(rank);
  return order.empty() ? listRanks(ranks) : "ranks " + order;
}

static void printJob(const Job &job, int32_t only, const Printer &print) {
  for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    if (only >= 0 && rank != uint32_t(only))
      continue;
    for (const Membership &own : job.ranks[rank].comms)
      if (only >= 0 || own.place == 0)
        print("comm " + std::to_string(own.comm) + ": " +
              describeRanks(job.members[own.comm]));
  }
  for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    uint32_t number = 0;
    for (const Call &call : job.lists[job.ranks[rank].list])
      if (*functionName(call.kind) && (only < 0 || rank == uint32_t(only)))
        print(lineOf(job, rank, number++, call));
  }
}

static Status dryRun(const kerf_artifact &artifact, int32_t only,
                     const Printer &print) {
  uint32_t size = artifact.view.meta->world_size;
  if (only >= 0 && uint32_t(only) >= size)
    return failure(KERF_INVALID, "no rank %d in a file for %u", only, size);
  Job job;
  Status status = walkAll(artifact, job);
  if (status.failed())
    return status;
  printJob(job, only, print);
  Counts counts;
  status = checkCalls(job, counts);
  if (status.failed())
    return status;
  print("checked: " + std::to_string(size) + " ranks, " +
        std::to_string(job.members.size()) + " communicators, " +
        std::to_string(counts.calls) +
        " calls: " + std::to_string(counts.collectives) + " collectives and " +
        std::to_string(counts.messages) +
        " messages find their partners, nothing hangs");
  return {};
}

kerf_status kerf_dry_nccl(const kerf_artifact *artifact, int32_t rank,
                          kerf_line_fn print, void *user, kerf_error *error) {
  Status status = dryRun(*artifact, rank, {print, user});
  if (status.failed())
    status.message = artifact->name + ": " + status.message;
  return status.report(error);
}
