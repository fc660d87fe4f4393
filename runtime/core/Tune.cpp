//===- Tune.cpp - timing the algorithms of a file's matmuls ---------------===//
//
// A matmul needs neither other ranks nor what the rest of the step computes:
// so each stage's matmuls are prepared alone, on an arena of its size, and the
// device times its library's algorithms on the operands' own places in it.
//
//===----------------------------------------------------------------------===//

#include "Artifact.h"
#include "Plugin.h"
#include "Status.h"

#include <chrono>
#include <set>
#include <string>
#include <vector>

using namespace kerf::artifact;
using namespace kerf::runtime;

namespace {
class Tuner {
public:
  explicit Tuner(const kerf_artifact &artifact) : artifact(artifact) {}
  ~Tuner() {
    if (device)
      api->destroy(device);
  }
  Tuner(const Tuner &) = delete;

  Status open(const kerf_session_options &options, kerf_device_facts *facts);
  Status tuneAll(double budgetSec, double limitSec, kerf_tuned_fn take,
                 void *user);

private:
  Status tuneProgram(const View &view);
  Status tuneCommand(const View &view, uint32_t index);
  Status tuneStep(kerf_step *step, const View &view, uint32_t index);

  const kerf_artifact &artifact;
  const kerf_device_api *api = nullptr;
  kerf_device *device = nullptr;
  char *arena = nullptr; ///< of the program at hand
  double budgetSec = 0;
  std::chrono::steady_clock::time_point end; ///< no matmul starts after it
  kerf_tuned_fn take = nullptr;
  void *user = nullptr;
  std::set<std::string> done; ///< matmuls
};
} // namespace

Status Tuner::open(const kerf_session_options &options,
                   kerf_device_facts *facts) {
  const View &view = artifact.view;
  std::string name =
      options.device ? options.device : view.string(view.meta->target);
  Status status = openDevice(name, options.plugin_path, api);
  if (status.failed())
    return status;
  if (!api->tune)
    return failure(KERF_UNSUPPORTED,
                   "the device '%s' has no algorithms to choose from: only "
                   "files for GPUs are tuned",
                   name.c_str());
  kerf_device_options deviceOptions = {};
  deviceOptions.max_workers = view.meta->max_workers;
  deviceOptions.tunes = 1;
  char error[512] = "";
  if (auto result = api->create(&deviceOptions, &device, error, sizeof error))
    return failure(statusOf(result), "device '%s': %s", name.c_str(), error);
  api->facts(device, facts);
  return {};
}

Status Tuner::tuneStep(kerf_step *step, const View &view, uint32_t index) {
  const kerf_command &command = view.commands[index];
  char error[512] = "";
  kerf_tuned tuned;
  if (api->tune(step, nullptr, 0, &tuned, error, sizeof error))
    return failure(KERF_FAILED, "%s", error);
  if (!tuned.matmul[0] || !done.insert(tuned.matmul).second)
    return {};
  if (std::chrono::steady_clock::now() >= end) {
    take(user, &tuned);
    return {};
  }
  std::vector<void *> pointers;
  for (uint32_t n = 0; n < command.operand_count; ++n) {
    const kerf_operand &operand = view.operands[command.first_operand + n];
    pointers.push_back(operand.kind == KERF_ARENA ? arena + operand.offset
                                                  : nullptr);
  }
  if (api->tune(step, pointers.data(), budgetSec, &tuned, error, sizeof error))
    return failure(KERF_FAILED, "'%s': %s", view.string(command.name), error);
  take(user, &tuned);
  return {};
}

Status Tuner::tuneCommand(const View &view, uint32_t index) {
  const kerf_command &command = view.commands[index];
  kerf_step_info info = {};
  info.command = &command;
  info.operands = view.operands.data + command.first_operand;
  info.attrs = view.attrs.data + command.first_attr;
  info.name = view.string(command.name);
  kerf_step *step = nullptr;
  char error[512] = "";
  if (auto result = api->prepare(device, &info, &step, error, sizeof error))
    return failure(statusOf(result), "command %u, '%s': %s", index, info.name,
                   error);
  Status status = tuneStep(step, view, index);
  api->destroy_step(step);
  return status;
}

Status Tuner::tuneProgram(const View &view) {
  uint64_t bytes = view.program->arena_bytes;
  Status status = allocateArena(*api, device, bytes, arena);
  if (status.failed())
    return status;
  for (const kerf_func &func : view.funcs)
    for (uint32_t n = 0; n < func.command_count && !status.failed(); ++n) {
      uint32_t index = func.first_command + n;
      if (view.commands[index].opcode == KERF_OP_MATMUL)
        status = tuneCommand(view, index);
    }
  api->free(device, arena, bytes);
  return status;
}

Status Tuner::tuneAll(double budget, double limitSec, kerf_tuned_fn taker,
                      void *its) {
  budgetSec = budget;
  end = std::chrono::steady_clock::now() +
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(
            std::chrono::duration<double>(limitSec));
  take = taker;
  user = its;
  Status status;
  for (uint32_t p = 0; p < artifact.view.programs.count && !status.failed();
       ++p)
    status = tuneProgram(programView(artifact.view, p));
  return status;
}

kerf_status kerf_tune(const kerf_artifact *artifact,
                      const kerf_session_options *options, double budgetSec,
                      double limitSec, kerf_tuned_fn take, void *user,
                      kerf_device_facts *facts, kerf_error *error) {
  Tuner tuner(*artifact);
  Status status = tuner.open(*options, facts);
  if (!status.failed())
    status = tuner.tuneAll(budgetSec, limitSec, take, user);
  if (status.failed())
    status.message = artifact->name + ": " + status.message;
  return status.report(error);
}
