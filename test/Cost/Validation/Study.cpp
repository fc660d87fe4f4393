//===- Study.cpp - predictions of all rows under three settings -----------===//

#include "Study.h"

#include "Fit.h"
#include "Sample.h"

#include "kerf/Cost/Profiles.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;
using namespace kerf::validate;

const std::array<const char *, kSettings> kerf::validate::kSettingNames = {
    "untuned", "other machines", "tuned"};

/// Rows that one calibration may use.
static constexpr size_t kMostRuns = 20;
/// From other machines, where several are put together.
static constexpr size_t kMostPooled = 40;
/// Fewer explain nothing.
static constexpr size_t kLeastRuns = 3;

namespace {
/// Calibrates and predicts; jobs by number.
class Judge {
public:
  Judge(std::vector<JudgedJob> &jobs, std::vector<Calibration> &calibrations)
      : jobs(jobs), calibrations(calibrations) {}
  void run();

private:
  using Numbers = std::vector<size_t>;
  using Group = std::pair<std::string, std::string>; ///< runtime, machine

  std::vector<JudgedJob> &jobs;
  std::vector<Calibration> &calibrations;
  std::map<Group, Numbers> groups, samples;

  static Profile prior(const Job &job) { return *profileNamed(job.runtime); }
  void predictUntuned(JudgedJob &judged);
  Numbers sampleOf(const Numbers &from, size_t count) const;
  std::vector<double> calibrateOn(const Numbers &numbers) const;
  bool areOfOneRuntime(const Numbers &numbers) const;
  void calibrateAndPredict(const Group &group, const Numbers &runs,
                           const Numbers &predicted, Setting setting);
  Numbers runsOfOthers(const Group &group) const;
};
} // namespace

void Judge::predictUntuned(JudgedJob &judged) {
  if (!judged.isUsed())
    return;
  judged.untuned = predict(judged.job, prior(judged.job));
  judged.job.leftOut = judged.untuned.error;
  if (judged.isUsed() && judged.job.measuredSec)
    judged.stepSec[Untuned] = judged.untuned.stepSec;
}

Judge::Numbers Judge::sampleOf(const Numbers &from, size_t count) const {
  std::vector<std::vector<double>> points;
  for (size_t i : from)
    points.push_back(featuresOf(*jobs[i].job.row));
  Numbers sample;
  for (size_t i : farthestPoints(points, count))
    sample.push_back(from[i]);
  return sample;
}

std::vector<double> Judge::calibrateOn(const Numbers &numbers) const {
  std::vector<CalibrationRun> runs;
  for (size_t i : numbers) {
    const Job &job = jobs[i].job;
    runs.push_back({prior(job), *job.measuredSec, [&job](const Profile &p) {
                      return predict(job, p).stepSec;
                    }});
  }
  // What several runtimes have in common are kernels.
  return areOfOneRuntime(numbers) ? calibrate(runs)
                                  : calibrate(runs, kKernelRates);
}

bool Judge::areOfOneRuntime(const Numbers &numbers) const {
  return llvm::all_of(numbers, [&](size_t i) {
    return jobs[i].job.runtime == jobs[numbers.front()].job.runtime;
  });
}

/// What may be calibrated on without a run of the group's device.
Judge::Numbers Judge::runsOfOthers(const Group &group) const {
  auto deviceOf = [&](const Group &any) {
    return deviceName(*jobs[groups.at(any).front()].job.row);
  };
  Numbers same, all;
  for (const auto &[other, sample] : samples) {
    if (deviceOf(other) == deviceOf(group))
      continue;
    all.insert(all.end(), sample.begin(), sample.end());
    if (other.first == group.first)
      same.insert(same.end(), sample.begin(), sample.end());
  }
  return sampleOf(same.size() >= kLeastRuns ? same : all, kMostPooled);
}

void Judge::calibrateAndPredict(const Group &group, const Numbers &runs,
                                const Numbers &predicted, Setting setting) {
  if (runs.size() < kLeastRuns)
    return;
  Calibration found = {group.first, group.second,      setting,
                       runs.size(), calibrateOn(runs), Profile()};
  for (size_t i : predicted) {
    const Job &job = jobs[i].job;
    found.profile = moved(prior(job), found.offsets);
    jobs[i].stepSec[setting] = predict(job, found.profile).stepSec;
  }
  calibrations.push_back(found);
}

void Judge::run() {
  for (size_t i = 0; i < jobs.size(); ++i) {
    predictUntuned(jobs[i]);
    const Job &job = jobs[i].job;
    if (jobs[i].isUsed() && job.measuredSec)
      groups[{job.runtime, job.machine}].push_back(i);
  }
  for (const auto &[group, numbers] : groups)
    samples[group] = sampleOf(numbers, std::min(kMostRuns, numbers.size() / 2));
  for (const auto &[group, numbers] : groups) {
    calibrateAndPredict(group, runsOfOthers(group), numbers, OtherMachines);
    const Numbers &sample = samples[group];
    Numbers rest;
    for (size_t i : numbers)
      if (!std::binary_search(sample.begin(), sample.end(), i))
        rest.push_back(i);
    calibrateAndPredict(group, sample, rest, Tuned);
  }
}

std::vector<JudgedJob>
kerf::validate::judge(std::vector<Job> jobs,
                      std::vector<Calibration> &calibrations) {
  std::vector<JudgedJob> judged;
  for (Job &job : jobs)
    judged.push_back({std::move(job), {}, {}});
  Judge(judged, calibrations).run();
  return judged;
}

//===----------------------------------------------------------------------===//
// Figures
//===----------------------------------------------------------------------===//

/// Runs that do the same work on the same cluster.
static std::string contestOf(const Job &job) {
  const Row &row = *job.row;
  std::string name = job.source + "|" + job.machine + "|" + row.precision;
  for (const std::optional<int64_t> &size :
       {row.layers, row.hidden, row.heads, row.ffn, row.vocab, row.sequence,
        row.globalBatch, row.devices})
    name += "|" + std::to_string(size.value_or(0));
  return name;
}

/// What a planner would choose, kernels where the row names them
/// ("kernel=...").
static std::string layoutOf(const Row &row) {
  std::string name = row.recompute + "|" + row.schedule;
  llvm::StringRef notes = row.notes;
  if (notes.starts_with("kernel="))
    name += notes.split('.').first.str();
  for (const std::optional<int64_t> &number :
       {row.tp, row.pp, row.dp, row.cp, row.ep, row.zero, row.chunks,
        row.microBatch})
    name += "|" + std::to_string(number.value_or(0));
  for (const std::optional<bool> &flag : {row.sequenceParallel, row.flash})
    name += flag.value_or(false) ? "|1" : "|0";
  return name;
}

static TimeFigures timesOf(const std::vector<const JudgedJob *> &jobs,
                           Setting setting) {
  std::vector<Pair> pairs;
  std::vector<Contestant> contestants;
  for (const JudgedJob *judged : jobs)
    if (judged->stepSec[setting]) {
      pairs.push_back({*judged->stepSec[setting], *judged->job.measuredSec});
      contestants.push_back(
          {contestOf(judged->job), layoutOf(*judged->job.row), pairs.back()});
    }
  return {errorFigures(pairs), rankCorrelation(pairs),
          groupedRankCorrelation(contestants, 4), regretFigures(contestants)};
}

static SourceFigures figuresOf(const std::string &source,
                               const std::vector<const JudgedJob *> &jobs) {
  SourceFigures figures;
  figures.source = source;
  std::vector<const JudgedJob *> used;
  std::vector<Pair> memory;
  for (const JudgedJob *judged : jobs) {
    ++figures.rows;
    if (!judged->isUsed()) {
      ++figures.leftOut[judged->job.leftOut];
      continue;
    }
    used.push_back(judged);
    const Row &row = *judged->job.row;
    if (row.memoryGb && *row.memoryGb > 0 && !row.isOutOfMemory())
      memory.push_back({judged->untuned.statedBytes, *row.memoryGb * 1e9});
    if (row.phase != "analytic")
      figures.fits.add(row.isOutOfMemory(),
                       judged->untuned.totalBytes >
                           judged->job.cluster.device.memoryBytes);
  }
  figures.used = used.size();
  for (int setting = 0; setting < kSettings; ++setting)
    figures.times[setting] = timesOf(used, static_cast<Setting>(setting));
  figures.memory = errorFigures(memory);
  return figures;
}

std::vector<SourceFigures>
kerf::validate::figuresOf(const std::vector<JudgedJob> &jobs) {
  std::map<std::string, std::vector<const JudgedJob *>> sources;
  std::vector<const JudgedJob *> all;
  for (const JudgedJob &judged : jobs) {
    sources[judged.job.source].push_back(&judged);
    all.push_back(&judged);
  }
  std::vector<SourceFigures> figures;
  for (const auto &[source, own] : sources)
    figures.push_back(::figuresOf(source, own));
  if (sources.size() > 1)
    figures.push_back(::figuresOf("all", all));
  return figures;
}
