//===- Log.cpp - what a run tells while it trains -------------------------===//

#include "kerf/Train/Log.h"

#include "kerf/Train/Text.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

static long long asLong(int64_t value) { return value; }

WaitRecord
kerf::runtime::summarizeWaits(const std::vector<std::array<double, 3>> &ranks) {
  WaitRecord record;
  WaitRange *ranges[] = {&record.data, &record.communication, &record.barrier};
  for (int i = 0; i < 3; ++i) {
    auto [least, most] = std::minmax_element(
        ranks.begin(), ranks.end(),
        [i](const auto &a, const auto &b) { return a[i] < b[i]; });
    *ranges[i] = {(*least)[i], (*most)[i]};
  }
  auto waited = [](const auto &rank) { return rank[1] + rank[2]; };
  record.slowestRank = std::min_element(ranks.begin(), ranks.end(),
                                        [&](const auto &a, const auto &b) {
                                          return waited(a) < waited(b);
                                        }) -
                       ranks.begin();
  return record;
}

/// As `pattern` says, or nan, inf, -inf: printf has signs of nan and capitals.
static std::string number(const char *pattern, double value) {
  if (std::isfinite(value))
    return format(pattern, value);
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

/// "data wait (ms): 0.1-0.2".
static std::string waitField(const char *name, const WaitRange &range) {
  return format("%s (ms): %.1f-%.1f", name, 1e3 * range.least,
                1e3 * range.most);
}

static std::string waitJson(const char *name, const WaitRange &range) {
  return format(", \"%s\": [%.4f, %.4f]", name, 1e3 * range.least,
                1e3 * range.most);
}

/// Fields with " |" behind each, in lines of at most 118 columns; the second
/// line and those after it begin with five spaces.
static std::string layOut(const std::vector<std::string> &fields) {
  constexpr size_t columns = 118;
  std::string text, line;
  for (const std::string &field : fields) {
    if (!line.empty() && line.size() + field.size() + 3 > columns) {
      text += line + "\n";
      line = "    ";
    }
    line += (line.empty() ? "" : " ") + field + " |";
  }
  return text + line;
}

std::string kerf::runtime::formatStep(const StepRecord &r) {
  std::vector<std::string> fields = {
      format(" iteration %8lld/%8lld", asLong(r.step), asLong(r.steps)),
      format("consumed samples: %12lld", asLong(r.consumedSamples)),
      "loss: " + number("%.6E", r.loss)};
  auto add = [&](const std::string &field) { fields.push_back(field); };
  if (r.gradNorm)
    add("grad norm: " + number("%.3f", *r.gradNorm));
  if (r.lossScale) {
    add(format("loss scale: %.1f", *r.lossScale));
    add(format("skipped iterations: %lld", asLong(r.skippedSteps)));
  }
  add(format("elapsed time per iteration (ms): %.1f", r.elapsedMs));
  add(format("tokens/s/device: %.1f", r.tokensPerSecond));
  add(format("TFLOP/s/device: %.4g", r.tflops));
  if (r.mfu)
    add(format("MFU: %.1f%%", 100 * *r.mfu));
  add(format("learning rate: %.6E", r.learningRate));
  if (r.experts)
    for (const std::string &field : expertFields(*r.experts))
      add(field);
  if (r.waits && r.ranks > 1) {
    add(waitField("data wait", r.waits->data));
    add(waitField("exposed communication", r.waits->communication));
    add(waitField("barrier wait", r.waits->barrier));
    add(format("slowest rank: %lld", asLong(r.waits->slowestRank)));
  }
  add(format("peak memory (MB): %.1f", r.peakMemoryMb));
  return layOut(fields);
}

/// Exact: reading the text gives the same double.
static std::string jsonNumber(double value) {
  return std::isfinite(value) ? format("%.17g", value) : "null";
}

std::string kerf::runtime::formatStepJson(const StepRecord &r) {
  std::string text =
      format("{\"iteration\": %lld, \"iterations\": %lld, "
             "\"consumed_samples\": %lld, \"elapsed_ms\": %.3f, "
             "\"tokens_per_second_per_device\": %.3f, "
             "\"tflops_per_device\": %.6g",
             asLong(r.step), asLong(r.steps), asLong(r.consumedSamples),
             r.elapsedMs, r.tokensPerSecond, r.tflops);
  if (r.mfu)
    text += format(", \"mfu\": %.6g", *r.mfu);
  text += ", \"learning_rate\": " + jsonNumber(r.learningRate) +
          ", \"loss\": " + jsonNumber(r.loss);
  if (r.gradNorm)
    text += ", \"grad_norm\": " + jsonNumber(*r.gradNorm);
  if (r.lossScale)
    text += ", \"loss_scale\": " + jsonNumber(*r.lossScale) +
            format(", \"skipped_iterations\": %lld", asLong(r.skippedSteps));
  if (r.experts)
    text += ", " + formatExpertsJson(*r.experts);
  if (r.waits)
    text += waitJson("data_wait_ms", r.waits->data) +
            waitJson("exposed_communication_ms", r.waits->communication) +
            waitJson("barrier_wait_ms", r.waits->barrier) +
            format(", \"slowest_rank\": %lld", asLong(r.waits->slowestRank));
  return text + format(", \"peak_memory_mb\": %.1f}", r.peakMemoryMb);
}

std::string kerf::runtime::formatHeldout(const HeldoutRecord &r) {
  return format(" held-out loss at iteration %lld/%lld: ", asLong(r.step),
                asLong(r.steps)) +
         number("%.6E", r.loss) +
         " | PPL: " + number("%.4g", std::exp(r.loss)) +
         format(" | samples: %lld |", asLong(r.samples));
}

std::string kerf::runtime::formatHeldoutJson(const HeldoutRecord &r) {
  return format("{\"iteration\": %lld, \"iterations\": %lld, "
                "\"heldout_samples\": %lld, \"heldout_loss\": ",
                asLong(r.step), asLong(r.steps), asLong(r.samples)) +
         jsonNumber(r.loss) + "}";
}

std::vector<Scalar> kerf::runtime::stepScalars(const StepRecord &r) {
  std::vector<Scalar> scalars = {
      {"train/loss", r.loss},
      {"train/learning_rate", r.learningRate},
      {"train/tokens_per_second",
       r.tokensPerSecond * static_cast<double>(r.ranks)}};
  if (r.gradNorm)
    scalars.push_back({"train/grad_norm", *r.gradNorm});
  if (r.lossScale)
    scalars.insert(scalars.end(), {{"train/loss_scale", *r.lossScale},
                                   {"train/skipped_iterations",
                                    static_cast<double>(r.skippedSteps)}});
  if (!r.experts)
    return scalars;
  const ExpertLoad &load = r.experts->all;
  scalars.insert(scalars.end(), {{"train/expert_load_max", load.most},
                                 {"train/expert_load_min", load.least}});
  if (load.dropped)
    scalars.push_back({"train/dropped_rows", *load.dropped});
  return scalars;
}

std::vector<Scalar> kerf::runtime::heldoutScalars(const HeldoutRecord &r) {
  return {{"eval/loss", r.loss}};
}

/// "2.05 s", "3.1 ms".
static std::string shortTime(double seconds) {
  return seconds < 1 ? format("%.1f ms", 1e3 * seconds)
                     : format("%.2f s", seconds);
}

LoadRecord
kerf::runtime::summarizeLoads(const std::vector<std::array<double, 3>> &ranks) {
  LoadRecord record;
  for (auto [needed, read, seconds] : ranks) {
    record.needed += static_cast<uint64_t>(needed);
    record.read += static_cast<uint64_t>(read);
    record.most = std::max(record.most, needed > 0 ? read / needed : 1);
    record.seconds = std::max(record.seconds, seconds);
  }
  return record;
}

std::string kerf::runtime::formatLoad(const LoadRecord &r) {
  double part = static_cast<double>(r.read) /
                static_cast<double>(std::max<uint64_t>(r.needed, 1));
  return "  state       " + formatBytes(r.read) + " read in " +
         shortTime(r.seconds) +
         format(", %.3f times what the ranks store", part);
}

std::string kerf::runtime::formatLoadJson(const LoadRecord &r) {
  return format("{\"loaded_bytes\": %llu, \"needed_bytes\": %llu, "
                "\"most_read\": %.6g, \"load_ms\": %.3f, \"loaded_from\": ",
                static_cast<unsigned long long>(r.read),
                static_cast<unsigned long long>(r.needed), r.most,
                1e3 * r.seconds) +
         jsonQuote(r.path) + "}";
}

std::string kerf::runtime::describeStop(int signal, int64_t step,
                                        int64_t steps) {
  return format(" ended by signal %d (%s) after step %lld of %lld", signal,
                strsignal(signal), asLong(step), asLong(steps));
}

std::string kerf::runtime::formatSave(const SaveRecord &r) {
  double rate = static_cast<double>(r.bytes) / std::max(r.writeSec, 1e-9);
  return format(" saved the state of step %lld in ", asLong(r.step)) +
         quote(r.path) + ": " + formatBytes(r.bytes) + ", copied in " +
         shortTime(r.copySec) + ", written in " + shortTime(r.writeSec) +
         format(" (%.3g GB/s)", rate * 1e-9) + ", training waited " +
         shortTime(r.stallSec);
}

std::string kerf::runtime::formatSaveJson(const SaveRecord &r) {
  return format("{\"saved_iteration\": %lld, \"iteration\": %lld, "
                "\"saved_bytes\": %llu, \"save_copy_ms\": %.3f, "
                "\"save_write_ms\": %.3f, \"save_stall_ms\": %.3f, "
                "\"saved_in\": ",
                asLong(r.step), asLong(r.now),
                static_cast<unsigned long long>(r.bytes), 1e3 * r.copySec,
                1e3 * r.writeSec, 1e3 * r.stallSec) +
         jsonQuote(r.path) + "}";
}

std::string kerf::runtime::formatCopyJson(const SaveRecord &r) {
  return format("{\"copied_iteration\": %lld, \"iteration\": %lld, "
                "\"copied_bytes\": %llu, \"copy_write_ms\": %.3f, "
                "\"copy_stall_ms\": %.3f}",
                asLong(r.step), asLong(r.now),
                static_cast<unsigned long long>(r.bytes), 1e3 * r.writeSec,
                1e3 * r.stallSec);
}

std::vector<Scalar> kerf::runtime::saveScalars(const SaveRecord &r) {
  return {{"save/stall_ms", 1e3 * r.stallSec},
          {"save/write_ms", 1e3 * r.writeSec},
          {"save/gigabytes_per_second",
           static_cast<double>(r.bytes) / std::max(r.writeSec, 1e-9) * 1e-9}};
}

std::string kerf::runtime::formatProgress(int64_t step, int64_t steps,
                                          double loss, double secondsLeft,
                                          int width) {
  auto full = static_cast<int>(steps > 0 ? width * step / steps : width);
  std::string bar(std::clamp(full, 0, width), '#');
  bar.resize(width, '-');
  return format("[%s] %lld/%lld  loss %.4f  ", bar.c_str(), asLong(step),
                asLong(steps), loss) +
         formatDuration(secondsLeft) + " left";
}

//===----------------------------------------------------------------------===//
// Log
//===----------------------------------------------------------------------===//

Log::Log(bool isSilent)
    : isSilent(isSilent), hasBar(!isSilent && isatty(STDERR_FILENO)) {}

Log::~Log() {
  finish();
  if (jsonFile)
    std::fclose(jsonFile);
}

bool Log::openJson(const std::string &path, bool isResumed,
                   std::string &error) {
  if (isSilent)
    return true;
  jsonFile = std::fopen(path.c_str(), isResumed ? "ae" : "we");
  jsonPath = path;
  if (jsonFile)
    return true;
  error = "cannot write " + quote(path) + ": " + std::strerror(errno);
  return false;
}

void Log::json(const std::string &text) {
  if (!jsonFile)
    return;
  struct stat before{};
  fstat(fileno(jsonFile), &before);
  if (std::fprintf(jsonFile, "%s\n", text.c_str()) >= 0 &&
      std::fflush(jsonFile) == 0)
    return;
  std::string problem = std::strerror(errno);
  // Whole lines alone stay, also of a file that somebody renamed; closing
  // writes what is left of the line.
  int file = dup(fileno(jsonFile));
  std::fclose(jsonFile);
  jsonFile = nullptr;
  bool isTruncated =
      !S_ISREG(before.st_mode) || ftruncate(file, before.st_size) == 0;
  close(file);
  line("  note        cannot write " + quote(jsonPath) + ": " + problem +
       "; no JSON lines from here on" +
       (isTruncated ? "" : ", and the last one is not whole"));
}

bool Log::openEvents(const std::string &folder, int64_t firstStep,
                     std::string &error) {
  return isSilent || events.emplace().open(folder, firstStep, error);
}

void Log::event(int64_t step, const std::vector<Scalar> &scalars) {
  std::string error;
  if (events && !events->write(step, scalars, error))
    line("  note        " + error + "; no events from here on");
}

void Log::clearBar() {
  if (isBarShown)
    std::fputs("\r\033[K", stderr);
  isBarShown = false;
}

void Log::line(const std::string &text) {
  if (isSilent)
    return;
  clearBar();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void Log::begin(const std::vector<std::string> &lines,
                const std::string &text) {
  for (const std::string &each : lines)
    line(each);
  json(text);
}

void Log::step(const StepRecord &record, bool hasLine) {
  if (isSilent)
    return;
  if (hasLine)
    line(formatStep(record));
  json(formatStepJson(record));
  event(record.step, stepScalars(record));
  if (!hasBar)
    return;
  if (barFirstStep == 0) {
    barStart = now() - record.elapsedMs / 1000;
    barFirstStep = record.step;
  }
  auto done = static_cast<double>(record.step - barFirstStep + 1);
  double left = (now() - barStart) / done *
                static_cast<double>(record.steps - record.step);
  clearBar();
  std::fputs(
      formatProgress(record.step, record.steps, record.loss, left, 30).c_str(),
      stderr);
  isBarShown = true;
}

void Log::heldout(const HeldoutRecord &record) {
  line(formatHeldout(record));
  json(formatHeldoutJson(record));
  event(record.step, heldoutScalars(record));
}

void Log::load(const LoadRecord &record) {
  line(formatLoad(record));
  json(formatLoadJson(record));
}

void Log::save(const SaveRecord &record) {
  line(formatSave(record));
  json(formatSaveJson(record));
  event(record.now, saveScalars(record));
}

void Log::copy(const SaveRecord &record) { json(formatCopyJson(record)); }

void Log::slow(const SlowRank &found, const std::string &machine,
               int64_t step) {
  line(formatSlowRank(found, machine));
  json(formatSlowRankJson(found, machine, step));
}

void Log::slowLink(const SlowLink &found, const std::vector<std::string> &names,
                   int64_t step) {
  line(formatSlowLink(found, names));
  json(formatSlowLinkJson(found, names, step));
}

void Log::finish() { clearBar(); }

double kerf::runtime::now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

double kerf::runtime::peakMemoryMb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}
