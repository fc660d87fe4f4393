//===- Report.cpp - figures as text and as JSON ---------------------------===//

#include "Report.h"

#include "Fit.h"

#include "kerf/Support/Json.h"

#include "llvm/Support/FormatVariadic.h"

using namespace kerf;
using namespace kerf::validate;
using llvm::formatv;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string percent(double part) {
  return formatv("{0,7:F1}", part * 100).str();
}

static std::string number(const std::optional<double> &value) {
  return value ? formatv("{0,7:F3}", *value).str() : "      -";
}

static std::string printTimes(const SourceFigures &figures) {
  std::string text;
  for (int setting = 0; setting < kSettings; ++setting) {
    const TimeFigures &times = figures.times[setting];
    if (times.errors.count == 0)
      continue;
    text +=
        formatv("  {0,-16}{1,6}", kSettingNames[setting], times.errors.count)
            .str();
    for (double part : {times.errors.mean, times.errors.median,
                        times.errors.p90, times.errors.max, times.errors.bias})
      text += percent(part);
    text += number(times.rank) + number(times.rankInside);
    text += formatv("{0,7}", times.regret.groups).str();
    text += percent(times.regret.mean) + percent(times.regret.max) + "\n";
  }
  if (text.empty())
    return text;
  return "  step time         rows  mean% median   p90%   max%  bias%   rank "
         "inside  jobs regret%   max%\n" +
         text;
}

static std::string printMemory(const SourceFigures &figures) {
  std::string text;
  const ErrorFigures &memory = figures.memory;
  if (memory.count)
    text += formatv("  memory          {0,6}", memory.count).str() +
            percent(memory.mean) + percent(memory.median) +
            percent(memory.p90) + percent(memory.max) + percent(memory.bias) +
            "\n";
  const FitFigures &fits = figures.fits;
  if (fits.failed)
    text += formatv("  out of memory: {0} of {1} foreseen ({2:F1} %)\n",
                    fits.foreseen, fits.failed, 100 * fits.recall())
                .str();
  if (fits.ran)
    text += formatv("  ran: {0} of {1} said not to fit ({2:F1} %)\n",
                    fits.falseAlarms, fits.ran, 100 * fits.alarmRate())
                .str();
  return text;
}

std::string
kerf::validate::printFigures(const std::vector<SourceFigures> &allFigures) {
  std::string text;
  for (const SourceFigures &figures : allFigures) {
    text += formatv("{0}: {1} rows, {2} used\n", figures.source, figures.rows,
                    figures.used)
                .str();
    for (const auto &[reason, count] : figures.leftOut)
      text += formatv("  left out {0,4}  {1}\n", count, reason).str();
    text += printTimes(figures) + printMemory(figures) + "\n";
  }
  return text;
}

static std::string printRow(const JudgedJob &judged) {
  const Row &row = *judged.job.row;
  std::string text =
      formatv("{0,-28} {1,-18} n{2} tp{3} pp{4} dp{5} mb{6} m{7}", row.place(),
              row.modelName, row.devices.value_or(0), row.tp.value_or(0),
              row.pp.value_or(0), row.dp.value_or(0),
              row.microBatch.value_or(0), microBatchesOf(row))
          .str();
  if (!judged.isUsed())
    return text + " | left out: " + judged.job.leftOut + "\n";
  if (judged.job.measuredSec) {
    text += formatv(" | {0:F4} s", *judged.job.measuredSec).str();
    for (int setting = 0; setting < kSettings; ++setting)
      if (judged.stepSec[setting])
        text +=
            formatv(
                " {0} {1:F4} ({2:F1} %)", kSettingNames[setting],
                *judged.stepSec[setting],
                100 * (*judged.stepSec[setting] / *judged.job.measuredSec - 1))
                .str();
  }
  text += formatv(" | {0} {1:F2} GB", row.isOutOfMemory() ? "oom" : "fits",
                  judged.untuned.totalBytes / 1e9)
              .str();
  if (row.memoryGb)
    text += formatv(" stated {0:F2} predicted {1:F2}", *row.memoryGb,
                    judged.untuned.statedBytes / 1e9)
                .str();
  return text + "\n";
}

std::string kerf::validate::printRows(const std::vector<JudgedJob> &jobs) {
  std::string text;
  for (const JudgedJob &judged : jobs)
    text += printRow(judged);
  return text;
}

std::string kerf::validate::printCalibrations(
    const std::vector<Calibration> &calibrations) {
  std::string text;
  for (const Calibration &one : calibrations) {
    const Profile &p = one.profile;
    text += formatv("{0} on {1}, {2} ({3} runs): matmul {4:F3}, attention "
                    "{5:F3}, floor {6:F2} + {7:F2} ms, tensor overlap {8:F2}, "
                    "data overlap {9:F2}, bubble {10:F2}, step {11:F3} s\n",
                    one.runtime, one.machine, kSettingNames[one.setting],
                    one.runs, p.matmul, p.attention, p.leastForwardSec * 1e3,
                    p.leastBackwardSec * 1e3, p.tensorOverlap,
                    p.gradientOverlap, p.bubble, p.stepSec)
                .str();
  }
  return text;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static json::Value real(double value) { return json::Value::fromNumber(value); }
static json::Value count(int64_t value) {
  return json::Value::fromInteger(value);
}

static json::Value jsonOf(const ErrorFigures &errors) {
  json::Value object = json::Value::makeObject();
  object.set("rows", count(errors.count));
  object.set("mean", real(errors.mean));
  object.set("median", real(errors.median));
  object.set("p90", real(errors.p90));
  object.set("max", real(errors.max));
  object.set("bias", real(errors.bias));
  return object;
}

static json::Value jsonOf(const TimeFigures &times) {
  json::Value object = jsonOf(times.errors);
  object.set("rank", times.rank ? real(*times.rank) : json::Value());
  object.set("rank_inside",
             times.rankInside ? real(*times.rankInside) : json::Value());
  object.set("contests", count(times.regret.groups));
  object.set("regret_mean", real(times.regret.mean));
  object.set("regret_max", real(times.regret.max));
  return object;
}

static json::Value jsonOf(const FitFigures &fits) {
  json::Value object = json::Value::makeObject();
  object.set("failed", count(fits.failed));
  object.set("foreseen", count(fits.foreseen));
  object.set("ran", count(fits.ran));
  object.set("false_alarms", count(fits.falseAlarms));
  object.set("recall", fits.failed ? real(fits.recall()) : json::Value());
  object.set("alarm_rate", fits.ran ? real(fits.alarmRate()) : json::Value());
  return object;
}

static json::Value jsonOf(const SourceFigures &figures) {
  json::Value object = json::Value::makeObject();
  object.set("source", json::Value::fromString(figures.source));
  object.set("rows", count(figures.rows));
  object.set("used", count(figures.used));
  json::Value reasons = json::Value::makeObject();
  for (const auto &[reason, rows] : figures.leftOut)
    reasons.set(reason, count(rows));
  object.set("left_out", reasons);
  json::Value settings = json::Value::makeObject();
  for (int setting = 0; setting < kSettings; ++setting)
    settings.set(kSettingNames[setting], jsonOf(figures.times[setting]));
  object.set("settings", settings);
  object.set("memory", jsonOf(figures.memory));
  object.set("out_of_memory", jsonOf(figures.fits));
  return object;
}

static json::Value jsonOf(const JudgedJob &judged) {
  json::Value object = json::Value::makeObject();
  const Row &row = *judged.job.row;
  object.set("place", json::Value::fromString(row.place()));
  object.set("source", json::Value::fromString(judged.job.source));
  object.set("left_out", json::Value::fromString(judged.job.leftOut));
  if (!judged.isUsed())
    return object;
  if (judged.job.measuredSec)
    object.set("measured_s", real(*judged.job.measuredSec));
  for (int setting = 0; setting < kSettings; ++setting)
    if (judged.stepSec[setting])
      object.set(kSettingNames[setting], real(*judged.stepSec[setting]));
  object.set("memory_bytes", real(judged.untuned.totalBytes));
  object.set("out_of_memory", json::Value::fromBool(row.isOutOfMemory()));
  return object;
}

static json::Value jsonOf(const Calibration &calibration) {
  json::Value object = json::Value::makeObject();
  object.set("runtime", json::Value::fromString(calibration.runtime));
  object.set("machine", json::Value::fromString(calibration.machine));
  object.set("setting",
             json::Value::fromString(kSettingNames[calibration.setting]));
  object.set("runs", count(calibration.runs));
  json::Value offsets = json::Value::makeObject();
  for (size_t p = 0; p < calibration.offsets.size(); ++p)
    offsets.set(fittedParameters()[p].name, real(calibration.offsets[p]));
  object.set("offsets", offsets);
  return object;
}

std::string
kerf::validate::printJson(const std::vector<SourceFigures> &figures,
                          const std::vector<Calibration> &calibrations,
                          const std::vector<JudgedJob> *rows) {
  json::Value object = json::Value::makeObject();
  json::Value sources = json::Value::makeArray();
  for (const SourceFigures &source : figures)
    sources.array.push_back(jsonOf(source));
  object.set("sources", sources);
  json::Value found = json::Value::makeArray();
  for (const Calibration &calibration : calibrations)
    found.array.push_back(jsonOf(calibration));
  object.set("calibrations", found);
  if (rows) {
    json::Value lines = json::Value::makeArray();
    for (const JudgedJob &judged : *rows)
      lines.array.push_back(jsonOf(judged));
    object.set("rows", lines);
  }
  return json::print(object) + "\n";
}
