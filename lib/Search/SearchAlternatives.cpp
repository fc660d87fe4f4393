//===- SearchAlternatives.cpp - the best plan per value of a decision -----===//
//
// What a person asks of a plan: why not tp = 4? Recorded while searching, from
// what is evaluated anyway; of values that never came up it is told whether
// lower bounds exclude them.
//
//===----------------------------------------------------------------------===//

#include "SearchRun.h"
#include "kerf/Support/Screen.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace kerf;
using namespace kerf::search_detail;

namespace {
enum Decision {
  Tensor,
  Context,
  Expert,
  Pipeline,
  MicroBatch,
  Zero,
  Chunks,
  Scheme,
  kDecisions
};
constexpr const char *kNames[kDecisions] = {"tp", "cp",   "ep", "pp",
                                            "mb", "zero", "v",  "schedule"};
} // namespace

static std::vector<std::pair<int, int64_t>> valuesOf(const Shape &shape) {
  return {{Tensor, shape.tp},
          {Context, shape.cp},
          {Expert, shape.ep},
          {Pipeline, shape.pp},
          {MicroBatch, shape.microBatch}};
}

static std::vector<std::pair<int, int64_t>> valuesOf(const OuterChoice &outer) {
  return {{Tensor, outer.tp},
          {Context, outer.cp},
          {Expert, outer.ep},
          {Pipeline, outer.pp},
          {MicroBatch, outer.microBatch},
          {Zero, outer.zero},
          {Chunks, outer.chunks},
          {Scheme, static_cast<int64_t>(outer.schedule)}};
}

void Alternatives::noteMisfit(const Shape &shape, double bytes) {
  for (const auto &value : valuesOf(shape)) {
    Track &track = tracks[value];
    track.bytes = std::min(track.bytes, bytes);
  }
}

void Alternatives::noteBound(const Shape &shape, const LowerBound &bound) {
  for (const auto &value : valuesOf(shape))
    if (Track &track = tracks[value]; bound.sec < track.bound.sec)
      track.bound = bound;
}

/// Keeps the few with the lowest guesses.
static void keepFew(std::vector<OpenPart> &parts, const OpenPart &part,
                    size_t most) {
  if (parts.size() == most && part.guess >= parts.back().guess)
    return;
  auto at = llvm::upper_bound(parts, part, [](const auto &a, const auto &b) {
    return a.guess < b.guess;
  });
  parts.insert(at, part);
  if (parts.size() > most)
    parts.pop_back();
}

void Alternatives::noteGuess(const Shape &shape, const OpenPart &part) {
  constexpr size_t kFew = 6;
  for (const auto &value : valuesOf(shape)) {
    Track &track = tracks[value];
    keepFew(part.level == Level::Shape ? track.shapes : track.nodes, part,
            kFew);
  }
}

/// Guesses of one schedule are off in the same way, so that all of another one
/// would lie behind them.
void Alternatives::noteGuess(const OuterChoice &outer,
                             const OpenPart &candidate) {
  constexpr size_t kFewOfSchedule = 4;
  for (const auto &value : valuesOf(outer))
    keepFew(tracks[value].candidates[outer.schedule], candidate,
            kFewOfSchedule);
}

std::vector<OpenPart> Alternatives::Track::guessed(Level level) const {
  if (level != Level::Candidate)
    return level == Level::Shape ? shapes : nodes;
  std::vector<OpenPart> all;
  for (const auto &[schedule, parts] : candidates)
    llvm::append_range(all, parts);
  return all;
}

std::vector<Alternatives::Promise> Alternatives::promises(const PlanPoint &best,
                                                          Level level) const {
  auto chosen = valuesOf(best.outer);
  std::vector<Promise> found;
  for (const auto &[key, track] : tracks)
    if (track.evaluated() && !llvm::is_contained(chosen, key))
      for (const OpenPart &part : track.guessed(level))
        if (part.bound < track.seconds() &&
            part.guess < track.seconds() * (1 + kGuessSlack))
          found.push_back({part, track.seconds()});
  llvm::sort(found, [](const Promise &a, const Promise &b) {
    auto rank = [](const Promise &own) {
      const OpenPart &part = own.part;
      return std::make_tuple(part.guess, part.index, part.sharding,
                             part.schedule, part.layouts, -own.listedSec);
    };
    return rank(a) < rank(b);
  });
  return found;
}

void Alternatives::simulate(Searcher &searcher) {
  for (auto &[key, track] : tracks)
    if (track.evaluated() && track.value.first == HUGE_VAL)
      track.value.first =
          searcher.planOf(searcher.evaluated[track.candidate]).stepSec;
}

bool Alternatives::improves(const OuterChoice &outer,
                            std::pair<double, double> value) const {
  return llvm::any_of(valuesOf(outer), [&](const auto &own) {
    auto at = tracks.find(own);
    return at == tracks.end() || value < at->second.value;
  });
}

void Alternatives::noteCandidate(const OuterChoice &outer,
                                 std::pair<double, double> value,
                                 size_t candidate) {
  for (const auto &own : valuesOf(outer)) {
    Track &track = tracks[own];
    if (value < track.value) {
      track.value = value;
      track.candidate = candidate;
    }
  }
}

/// Bounds of what no layout does are larger than any step (LayerBounds.cpp).
static constexpr double kLongestSec = 1e9;

static std::string pinText(int decision, int64_t value) {
  std::string text = kNames[decision];
  return text + "=" +
         (decision == Scheme
              ? kerf::nameOf(static_cast<ScheduleKind>(value)).str()
              : std::to_string(value));
}

/// "3.210 s, of it 3.100 s compute and traffic inside layers and 110 ms filling
/// the pipeline".
static std::string boundWords(const LowerBound &bound) {
  std::string text = report::seconds(bound.sec);
  const char *layers =
      bound.traffic ? "compute and traffic inside layers" : "compute";
  if (bound.layerSec >= 0.99 * bound.sec)
    return text + " of " + layers;
  double rest = bound.sec - bound.layerSec;
  return text + ", of it " + report::seconds(bound.layerSec) + " " + layers +
         " and " + report::seconds(rest) +
         (bound.dataSec > 0 ? " traffic of gradients"
                            : " filling the pipeline");
}

/// Of plans that no layout was tried of. Bounds are strict where they hold for
/// all layouts, whatever bytes the parameters of a layer take.
static std::string whyUntried(const LowerBound &bound, double provenSec,
                              double bestSec, bool isStrict) {
  double sec = std::max(bound.sec, provenSec);
  if (sec < bestSec * (1 - 1e-9))
    return "open: " + report::percent(1 - sec / bestSec) +
           " faster at most (lower bound " + report::seconds(sec) +
           "); --prove looks further";
  if (!isStrict)
    return "no faster by lower bounds, which are not strict here";
  double more = bound.sec / bestSec - 1;
  if (more < 0)
    return "no faster: each plan with it has a lower bound of at least " +
           report::seconds(bestSec);
  std::string slower = more < 5e-4
                           ? "no faster"
                           : "at least " + report::percent(more) + " slower";
  return slower + ": lower bound " + boundWords(bound);
}

std::vector<Alternative> Alternatives::list(Searcher &searcher,
                                            const PlanPoint &best) {
  auto chosen = valuesOf(best.outer);
  std::vector<Alternative> result;
  for (const auto &[key, track] : tracks) {
    if (llvm::is_contained(chosen, key) || !track.isKnown())
      continue;
    Alternative &alternative = result.emplace_back();
    alternative.what = pinText(key.first, key.second);
    if (track.evaluated()) {
      alternative.plan = searcher.planOf(searcher.evaluated[track.candidate]);
      alternative.why =
          llvm::formatv("{0:f1} % slower",
                        (alternative.plan->stepSec / best.stepSec - 1) * 100);
    } else if (track.bound.sec < HUGE_VAL && track.bound.sec >= kLongestSec) {
      alternative.why = "not possible: some layer cannot be split so";
    } else if (track.bound.sec < HUGE_VAL) {
      const Certificate &certificate = searcher.certificate;
      alternative.boundSec = std::max(track.bound.sec, certificate.boundSec);
      alternative.why =
          whyUntried(track.bound, certificate.boundSec, best.stepSec,
                     certificate.allLayouts && !certificate.isMixed);
    } else if (track.bytes <= capacityBytes(searcher.problem)) {
      alternative.why = "does not fit: some stage is too large in every split";
    } else {
      alternative.why = "does not fit: needs at least " +
                        formatBytes(track.bytes) + " per device";
    }
  }
  // Those with a plan first, the fastest of them first; then by decision.
  std::vector<Alternative> sorted;
  std::vector<size_t> order(result.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  auto rank = [&](size_t i) {
    return std::make_pair(result[i].plan ? result[i].plan->stepSec : HUGE_VAL,
                          i);
  };
  llvm::sort(order, [&](size_t a, size_t b) { return rank(a) < rank(b); });
  for (size_t i : order)
    sorted.push_back(std::move(result[i]));
  return sorted;
}
