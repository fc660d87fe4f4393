//===- SearchCheck.cpp - what is wrong with a problem and its pins --------===//
//
// Problem: pins that leave no choice. Which of them are at fault, and what
// would be legal?
//
// Idea: a pin is at fault alone when no shape has one of its values with all
// other pins left out. When none is, they clash: name the arithmetic.
//
//===----------------------------------------------------------------------===//

#include "SearchDetail.h"

#include "kerf/Search/Pins.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <set>

using namespace kerf;
using namespace kerf::search_detail;

namespace {
/// A pin on a number of a shape.
struct ShapePin {
  const char *key;
  std::vector<int64_t> Pins::*list;
  int64_t (*value)(const Shape &);
};
const ShapePin kShapePins[] = {
    {"tp", &Pins::tp, [](const Shape &s) { return s.tp; }},
    {"cp", &Pins::cp, [](const Shape &s) { return s.cp; }},
    {"ep", &Pins::ep, [](const Shape &s) { return s.ep; }},
    {"pp", &Pins::pp, [](const Shape &s) { return s.pp; }},
    {"dp", &Pins::dp, [](const Shape &s) { return s.dp; }},
    {"mb", &Pins::microBatch, [](const Shape &s) { return s.microBatch; }},
    {"m", &Pins::microBatches, [](const Shape &s) { return s.microBatches; }},
    {"devices", &Pins::devices,
     [](const Shape &s) { return s.outer().ranks(); }}};
} // namespace

/// At most a dozen of the values around `near`, as text.
static std::string listOf(const std::set<int64_t> &values, int64_t near) {
  constexpr size_t kMost = 12;
  std::vector<int64_t> sorted(values.begin(), values.end());
  llvm::sort(sorted, [&](int64_t a, int64_t b) {
    return std::make_pair(std::abs(a - near), a) <
           std::make_pair(std::abs(b - near), b);
  });
  bool isTruncated = sorted.size() > kMost;
  sorted.resize(std::min(sorted.size(), kMost));
  int64_t nearest = sorted.front();
  llvm::sort(sorted);
  std::string text;
  for (int64_t value : sorted)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text + (isTruncated ? ", ..." : "") + "; the nearest is " +
         std::to_string(nearest);
}

/// Pins that no shape can meet, even alone.
static void checkAlone(const SearchProblem &problem,
                       std::vector<std::string> &errors) {
  for (const ShapePin &pin : kShapePins) {
    const std::vector<int64_t> &wanted = problem.pins.*pin.list;
    if (wanted.empty())
      continue;
    SearchProblem alone = problem;
    alone.pins = Pins();
    alone.pins.*pin.list = wanted;
    if (!shapesOf(alone).empty())
      continue;
    alone.pins = Pins();
    std::set<int64_t> legal;
    for (const Shape &shape : shapesOf(alone))
      legal.insert(pin.value(shape));
    if (!legal.empty())
      errors.push_back(llvm::formatv("{0}={1} is not possible: expected one "
                                     "of {2}",
                                     pin.key, wanted.front(),
                                     listOf(legal, wanted.front())));
  }
}

static void checkStages(const SearchProblem &problem,
                        std::vector<std::string> &errors) {
  const std::vector<int64_t> &counts = problem.pins.stageLayers;
  if (counts.empty())
    return;
  int64_t sum = 0;
  for (int64_t count : counts)
    sum += count;
  if (sum != layersOf(problem))
    errors.push_back(llvm::formatv("layers: the stages have {0} layers, "
                                   "expected {1}",
                                   sum, layersOf(problem)));
  auto stages = static_cast<int64_t>(counts.size());
  if (!allows(problem.pins, "pp", problem.pins.pp, stages))
    errors.push_back(llvm::formatv(
        "layers: {0} stages are listed, which pp does not allow", stages));
}

/// Whether ranks of some shape can form a shard group that `isWanted` says.
static bool canForm(const SearchProblem &problem,
                    const std::vector<Shape> &shapes,
                    llvm::function_ref<bool(const OuterChoice &)> isWanted) {
  return llvm::any_of(shapes, [&](const Shape &shape) {
    OuterChoice outer = shape.outer();
    return llvm::any_of(ordersOf(problem, shape), [&](auto &order) {
      outer.order = order;
      return isWanted(outer);
    });
  });
}

/// A shard group that data and context ranks can never form: without it state
/// would stay whole, and nobody would be told.
static bool checkShardGroup(const SearchProblem &problem,
                            const std::vector<Shape> &shapes,
                            std::vector<std::string> &errors) {
  const std::vector<int64_t> &wanted = problem.pins.shardGroup;
  bool staysWhole = problem.pins.zero == std::vector<int64_t>{0};
  if (wanted.empty() || llvm::is_contained(wanted, 1) || staysWhole)
    return true;
  auto isMet = [&](const OuterChoice &outer) {
    return llvm::any_of(wanted,
                        [&](int64_t group) { return canShard(outer, group); });
  };
  if (canForm(problem, shapes, isMet))
    return true;
  std::set<int64_t> legal, seen;
  for (const Shape &shape : shapes)
    if (int64_t all = shape.outer().dp * shape.outer().cp;
        seen.insert(all).second)
      for (int64_t group = 2; group <= all; ++group)
        if (all % group == 0)
          legal.insert(group);
  std::erase_if(legal, [&](int64_t group) {
    return !canForm(problem, shapes, [&](const OuterChoice &outer) {
      return canShard(outer, group);
    });
  });
  if (legal.empty())
    return true;
  errors.push_back(
      llvm::formatv("shard={0} is not possible: expected one of {1}",
                    wanted.front(), listOf(legal, wanted.front())));
  return false;
}

/// All pins together.
static void checkTogether(const SearchProblem &problem,
                          std::vector<std::string> &errors) {
  std::vector<Shape> shapes = shapesOf(problem);
  if (shapes.empty()) {
    std::string wrong = llvm::formatv(
        "the pins {0} leave nothing: tp x cp x pp x dp must be at most {1} "
        "devices, dp x mb x m the batch ({2}), ep divide dp",
        printPins(problem.pins), problem.machine->describedDevices(),
        problem.batch);
    for (const auto &[feature, reason] : problem.pins.excluded)
      wrong += "; not searched: " + feature + ", since " + reason;
    errors.push_back(wrong);
    return;
  }
  if (llvm::all_of(shapes, [&](const Shape &shape) {
        return schedulesOf(problem, shape).empty();
      }))
    errors.push_back("no schedule is left: 'interleaved' needs pp > 1, v > 1, "
                     "a layer per chunk, and micro-batches in multiples of pp; "
                     "all others have v=1");
  if (!checkShardGroup(problem, shapes, errors))
    return;
  auto isSharded = [&](const Shape &shape) {
    OuterChoice outer = shape.outer();
    return llvm::any_of(ordersOf(problem, shape), [&](auto &order) {
      outer.order = order;
      return !stateShardingsOf(problem, outer).empty();
    });
  };
  if (llvm::none_of(shapes, isSharded))
    errors.push_back("no way to shard state is left: a shard group must be a "
                     "part of the data and context ranks");
}

std::vector<std::string> SearchProblem::check() const {
  std::vector<std::string> errors;
  if (!machine || !tables)
    return {"no machine, or no tables"};
  size_t least = 1 + hasEmbedding + hasHead;
  if (runs.size() < least || layersOf(*this) < 1)
    return {"the step has no layers"};
  if (batch < 1 || sequence < 1)
    return {"the step has no tokens"};
  for (int64_t zero : pins.zero)
    if (zero < 0 || zero > 3)
      errors.push_back(llvm::formatv("zero={0}: expected 0, 1, 2 or 3", zero));
  if (!pins.order.empty() && pins.order.size() != 4)
    errors.push_back("order: expected the four axes tp, cp, dp and pp");
  if (!pins.recompute.empty() && pins.recompute != "none" &&
      pins.recompute != "full" && pins.recompute != "selective")
    errors.push_back("recompute='" + pins.recompute +
                     "': expected none, selective or full");
  checkAlone(*this, errors);
  checkStages(*this, errors);
  if (errors.empty())
    checkTogether(*this, errors);
  return errors;
}
