//===- Report.cpp - a program's time for people and as JSON ---------------===//

#include "kerf/ProgramTime/ProgramTime.h"

#include "kerf/Artifact/Check.h"
#include "kerf/Support/Counts.h"
#include "kerf/Support/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace kerf;
using json::Value;

llvm::StringRef kerf::nameOf(WorkPart part) {
  static const llvm::StringRef names[] = {"matmul", "attention", "memory_bound",
                                          "update"};
  return names[size_t(part)];
}

double StageTime::computeSec() const {
  double sum = 0;
  for (double sec : workSec)
    sum += sec;
  return sum;
}

double StageTime::exposedSec() const {
  double sum = 0;
  for (const CollectiveTime &row : collectives)
    sum += row.exposedSec;
  return sum;
}

double StageTime::messageSec() const {
  double sum = 0;
  for (const MessageTime &row : messages)
    sum += row.exposedSec;
  return sum;
}

//===----------------------------------------------------------------------===//
// The cluster
//===----------------------------------------------------------------------===//

static std::string targetOf(const Device &device) {
  return device.target == BackendTarget::Cpu ? "cpu" : "cuda " + device.arch;
}

std::string kerf::checkCluster(const ArtifactData &data,
                               const Machine &machine) {
  const Device &device = machine.device;
  std::string target = data.strings.get(data.meta.target).str();
  std::string own = target == "cuda"
                        ? target + " " + data.strings.get(data.meta.cpu).str()
                        : target;
  if (device.target == BackendTarget::None)
    return "compiled for " + own + ", and cluster '" + machine.name +
           "' has no backend; take the cluster that it was compiled for";
  if (own != targetOf(device))
    return "compiled for " + own + ", and cluster '" + machine.name +
           "' has devices for " + targetOf(device) +
           "; compile it with --cluster of this one";
  auto ranks = int64_t(data.meta.world_size);
  int64_t devices = machine.withDevices(ranks).describedDevices();
  if (devices < ranks)
    return "compiled for " + countOf(double(ranks), "rank") +
           ", and cluster '" + machine.name + "' describes " +
           countOf(double(devices), "device") +
           " without a network; give it tiers, or compile with --devices=" +
           std::to_string(devices);
  return "";
}

//===----------------------------------------------------------------------===//
// Means
//===----------------------------------------------------------------------===//

/// The mean of all stages. Kernels are added up, and exchanges are those of all
/// stages with their part of the mean's seconds.
static StageTime meanOf(const ProgramTime &time) {
  StageTime mean;
  double part = 1 / double(time.stages.size());
  for (const StageTime &stage : time.stages) {
    for (size_t p = 0; p < kWorkParts; ++p)
      mean.workSec[p] += part * stage.workSec[p];
    mean.launchSec += part * stage.launchSec;
    mean.sendSec += part * stage.sendSec;
    mean.idleSec += part * stage.idleSec;
    mean.kernels += stage.kernels;
    mean.collectives.insert(mean.collectives.end(), stage.collectives.begin(),
                            stage.collectives.end());
    mean.messages.insert(mean.messages.end(), stage.messages.begin(),
                         stage.messages.end());
  }
  for (CollectiveTime &row : mean.collectives)
    row.exposedSec *= part;
  for (MessageTime &row : mean.messages)
    row.exposedSec *= part;
  return mean;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string secText(double sec) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (sec >= 1)
    os << llvm::format("%.3f s", sec);
  else if (sec >= 1e-3)
    os << llvm::format("%.2f ms", sec * 1e3);
  else
    os << llvm::format("%.1f us", sec * 1e6);
  return text;
}

/// "1.25 GB".
static std::string bytesText(double bytes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (bytes >= 1e9)
    os << llvm::format("%.2f GB", bytes * 1e-9);
  else if (bytes >= 1e6)
    os << llvm::format("%.2f MB", bytes * 1e-6);
  else
    os << llvm::format("%.1f kB", bytes * 1e-3);
  return text;
}

static void printPart(llvm::raw_ostream &os, llvm::StringRef name, double sec,
                      double stepSec) {
  if (sec > 0)
    os << "  " << llvm::left_justify(name, 26)
       << llvm::right_justify(secText(sec), 11)
       << llvm::format("%7.1f %%\n", 100 * sec / stepSec);
}

static void printParts(llvm::raw_ostream &os, const StageTime &mean,
                       double stepSec) {
  static const llvm::StringRef names[] = {"matmuls", "attention",
                                          "memory-bound kernels", "update"};
  for (size_t p = 0; p < kWorkParts; ++p)
    printPart(os, names[p], mean.workSec[p], stepSec);
  printPart(os, "launches", mean.launchSec, stepSec);
  printPart(os, "exposed collectives", mean.exposedSec(), stepSec);
  printPart(os, "messages", mean.messageSec(), stepSec);
  printPart(os, "copies of messages", mean.sendSec, stepSec);
  printPart(os, "idle", mean.idleSec, stepSec);
}

/// Calls and bytes in columns.
static void printSent(llvm::raw_ostream &os, double calls, double bytes,
                      double sec) {
  os << llvm::format("%10.1f", calls)
     << llvm::right_justify(bytesText(bytes), 12)
     << llvm::right_justify(secText(sec), 12);
}

/// What is sent, and beside it what was planned.
static void printExchanges(llvm::raw_ostream &os, const Comparison &compared) {
  if (compared.rows.empty())
    return;
  os << "\nexchanges of a rank, mean of the stages\n"
     << "  kind           over             calls       bytes     seconds"
        "     exposed";
  if (compared.planned)
    os << "   planned       bytes     seconds";
  os << '\n';
  for (const ExchangeRow &row : compared.rows) {
    os << "  " << llvm::left_justify(row.kind, 15)
       << llvm::left_justify(row.axes, 12);
    printSent(os, row.calls, row.bytes, row.sec);
    os << llvm::right_justify(secText(row.exposedSec), 12);
    if (compared.planned)
      printSent(os, row.plannedCalls, row.plannedBytes, row.plannedSec);
    os << '\n';
  }
}

/// The kernels of the critical stage that take most.
static void printKernels(llvm::raw_ostream &os, const ProgramTime &time) {
  constexpr size_t kMost = 12;
  const StageTime &stage = time.stages[time.critical];
  if (stage.kernelTimes.empty())
    return;
  os << "\nkernels that take most";
  if (time.stages.size() > 1)
    os << ", of stage " << time.critical;
  os << "\n  function    calls     seconds  part of step  what\n";
  for (const KernelTime &row :
       llvm::ArrayRef(stage.kernelTimes)
           .take_front(std::min(kMost, stage.kernelTimes.size())))
    os << "  " << llvm::left_justify(row.func, 10)
       << llvm::format("%7lld", (long long)row.calls)
       << llvm::right_justify(secText(row.sec), 12)
       << llvm::format("%12.1f %%  ", 100 * row.sec / time.stepSec) << row.name
       << '\n';
}

/// "planned 30.92 s; the program takes 0.5 % more".
static void printPlanned(llvm::raw_ostream &os, const Comparison &compared,
                         const Machine &machine, double stepSec) {
  if (!compared.planned)
    return;
  const PlannedTime &planned = *compared.planned;
  os << "\nplanned " << secText(planned.stepSec);
  if (planned.cluster != machine.name) {
    os << " on " << planned.cluster << '\n';
    return;
  }
  double more = 100 * (stepSec / planned.stepSec - 1);
  os << "; the program takes " << llvm::format("%.1f %% ", std::abs(more))
     << (more < 0 ? "less\n" : "more\n");
}

/// What a stage does, without its number.
static std::string stageText(const StageTime &stage) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::right_justify(secText(stage.computeSec()), 12)
     << llvm::right_justify(secText(stage.exposedSec()), 13)
     << llvm::right_justify(secText(stage.messageSec() + stage.sendSec), 13)
     << llvm::right_justify(secText(stage.idleSec), 12);
  return text;
}

/// A line for each run of stages that do the same.
static void printStages(llvm::raw_ostream &os, const ProgramTime &time) {
  size_t count = time.stages.size();
  if (count == 1)
    return;
  os << "\n  stages        compute  collectives     messages        idle\n";
  for (size_t first = 0, next = 0; first < count; first = next) {
    std::string text = stageText(time.stages[first]);
    while (next < count && stageText(time.stages[next]) == text)
      ++next;
    std::string numbers = std::to_string(first);
    if (next - first > 1)
      numbers += ".." + std::to_string(next - 1);
    bool isCritical = time.critical >= first && time.critical < next;
    os << "  " << llvm::left_justify(numbers, 8) << text
       << (isCritical ? "  critical" : "") << '\n';
  }
}

std::string kerf::printText(const ArtifactData &data, const Machine &machine,
                            const ProgramTime &time) {
  std::string text;
  llvm::raw_string_ostream os(text);
  StageTime mean = meanOf(time);
  auto stages = double(time.stages.size());
  os << "program of '" << data.strings.get(data.meta.model) << "' on "
     << machine.name << ": " << countOf(data.meta.world_size, "rank") << ", "
     << countOf(stages, "stage") << ", "
     << countOf(data.meta.micro_batches, "micro-batch", "es") << '\n'
     << "step  " << secText(time.stepSec) << ", "
     << groupDigits(double(mean.kernels) / stages)
     << " kernels of a rank; mean of the stages:\n";
  printParts(os, mean, time.stepSec);
  Comparison compared = compareWithPlan(data, time);
  printExchanges(os, compared);
  printKernels(os, time);
  printStages(os, time);
  printPlanned(os, compared, machine, time.stepSec);
  return text;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static Value jsonOf(const CollectiveTime &row) {
  Value value = Value::makeObject();
  value.set("kind", Value::fromString(row.kind));
  value.set("axes", Value::fromString(row.axes));
  value.set("calls", Value::fromInteger(row.calls));
  value.set("bytes", Value::fromNumber(row.bytes));
  value.set("sec", Value::fromNumber(row.sec));
  value.set("exposed_sec", Value::fromNumber(row.exposedSec));
  return value;
}

static Value jsonOf(const MessageTime &row) {
  Value value = Value::makeObject();
  value.set("channel", Value::fromString(row.channel));
  value.set("calls", Value::fromInteger(row.calls));
  value.set("bytes", Value::fromNumber(row.bytes));
  value.set("sec", Value::fromNumber(row.sec));
  value.set("exposed_sec", Value::fromNumber(row.exposedSec));
  return value;
}

static Value jsonOf(const KernelTime &row) {
  Value value = Value::makeObject();
  value.set("function", Value::fromString(row.func));
  value.set("name", Value::fromString(row.name));
  value.set("part", Value::fromString(nameOf(row.part).str()));
  value.set("calls", Value::fromInteger(row.calls));
  value.set("sec", Value::fromNumber(row.sec));
  return value;
}

static Value jsonOf(const StageTime &stage) {
  Value value = Value::makeObject(), work = Value::makeObject();
  for (size_t p = 0; p < kWorkParts; ++p)
    work.set(nameOf(WorkPart(p)), Value::fromNumber(stage.workSec[p]));
  value.set("compute_sec", std::move(work));
  value.set("kernels", Value::fromInteger(stage.kernels));
  value.set("launch_sec", Value::fromNumber(stage.launchSec));
  value.set("send_sec", Value::fromNumber(stage.sendSec));
  value.set("idle_sec", Value::fromNumber(stage.idleSec));
  Value collectives = Value::makeArray(), messages = Value::makeArray();
  for (const CollectiveTime &row : stage.collectives)
    collectives.array.push_back(jsonOf(row));
  for (const MessageTime &row : stage.messages)
    messages.array.push_back(jsonOf(row));
  value.set("collectives", std::move(collectives));
  value.set("messages", std::move(messages));
  Value kernels = Value::makeArray();
  for (const KernelTime &row : stage.kernelTimes)
    kernels.array.push_back(jsonOf(row));
  value.set("kernel_times", std::move(kernels));
  return value;
}

static Value jsonOf(const ExchangeRow &row) {
  Value value = Value::makeObject();
  value.set("kind", Value::fromString(row.kind));
  value.set("axes", Value::fromString(row.axes));
  for (auto [name, number] : {std::pair{"calls", row.calls},
                              {"bytes", row.bytes},
                              {"sec", row.sec},
                              {"exposed_sec", row.exposedSec},
                              {"planned_calls", row.plannedCalls},
                              {"planned_bytes", row.plannedBytes},
                              {"planned_sec", row.plannedSec}})
    value.set(name, Value::fromNumber(number));
  return value;
}

std::string kerf::printJson(const ArtifactData &data, const ProgramTime &time) {
  Value value = Value::makeObject(), stages = Value::makeArray();
  Value exchanges = Value::makeArray();
  for (const StageTime &stage : time.stages)
    stages.array.push_back(jsonOf(stage));
  Comparison compared = compareWithPlan(data, time);
  for (const ExchangeRow &row : compared.rows)
    exchanges.array.push_back(jsonOf(row));
  value.set("step_sec", Value::fromNumber(time.stepSec));
  if (compared.planned)
    value.set("planned_step_sec", Value::fromNumber(compared.planned->stepSec));
  value.set("exchanges", std::move(exchanges));
  value.set("critical_stage", Value::fromInteger(int64_t(time.critical)));
  value.set("stages", std::move(stages));
  return json::print(value) + "\n";
}
