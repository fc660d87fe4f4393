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

void Alternatives::noteBound(const Shape &shape, double bound) {
  for (const auto &value : valuesOf(shape)) {
    Track &track = tracks[value];
    track.bound = std::min(track.bound, bound);
  }
}

bool Alternatives::improves(const OuterChoice &outer,
                            std::pair<double, double> value) const {
  return llvm::any_of(valuesOf(outer), [&](const auto &own) {
    auto at = tracks.find(own);
    return at == tracks.end() || value < at->second.value;
  });
}

void Alternatives::noteLeaf(const OuterChoice &outer,
                            std::pair<double, double> value, size_t leaf) {
  for (const auto &own : valuesOf(outer)) {
    Track &track = tracks[own];
    if (value < track.value) {
      track.value = value;
      track.leaf = leaf;
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

/// Of plans that take so long at least, where bounds are strict: they hold for
/// all layouts, whatever bytes the parameters of a layer take.
static std::string whyUntried(double boundSec, double bestSec, bool isStrict) {
  if (boundSec < bestSec * (1 - 1e-9))
    return "open: takes " + report::seconds(boundSec) +
           " at least; --prove looks further";
  return isStrict ? "no faster: proven by lower bounds, without a try"
                  : "no faster by lower bounds, which are not strict here";
}

std::vector<Alternative> Alternatives::list(Searcher &searcher,
                                            const PlanPoint &best) {
  auto chosen = valuesOf(best.outer);
  std::vector<Alternative> result;
  for (const auto &[key, track] : tracks) {
    if (llvm::is_contained(chosen, key))
      continue;
    Alternative &alternative = result.emplace_back();
    alternative.what = pinText(key.first, key.second);
    if (track.evaluated()) {
      alternative.plan = searcher.planOf(searcher.evaluated[track.leaf]);
      alternative.why =
          llvm::formatv("{0:f1} % slower",
                        (alternative.plan->stepSec / best.stepSec - 1) * 100);
    } else if (track.bound < HUGE_VAL && track.bound >= kLongestSec) {
      alternative.why = "not possible: some layer cannot be cut so";
    } else if (track.bound < HUGE_VAL) {
      const Certificate &certificate = searcher.certificate;
      alternative.why =
          whyUntried(std::max(track.bound, certificate.boundSec), best.stepSec,
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
