//===- EqualRuns.cpp - one kind for runs of equal layers ------------------===//
//
// Problem: models whose layers take turns (gemma 3: five with a window, one
// without) have a repeat for each run of them. A kind for each is searched as
// if they were unlike: 21 tables of layouts, and splits into stages by each.
//
// Idea: kinds are equal when they are so but for names that people read and for
// the numbers of their ops, which a constant parts. Then they become one; each
// run keeps the constant, so that ops of the IR find their layer.
//
// Example: runs "layer 1" (ops 10 to 30), "layer 2" (31 to 50), "layer 3" (51
// to 71, as the first): kinds "layer 1" and "layer 2", the third run has kind
// "layer 1" and shift 41.
//
// Cost: each kind is compared with each kind that stays.
//
//===----------------------------------------------------------------------===//

#include "kerf/Step/LayerModel.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;

/// The least number of a kind's ops; 0 where none has one.
static int64_t firstNumber(const LayerKind &kind) {
  int64_t first = -1;
  for (const LayerOp &op : kind.ops)
    if (op.number >= 0 && (first < 0 || op.number < first))
      first = op.number;
  return std::max<int64_t>(first, 0);
}

/// The kind without names that people read, numbers counted from its first op.
static LayerKind withoutNames(LayerKind kind) {
  int64_t first = firstNumber(kind);
  kind.name.clear();
  for (LayerOp &op : kind.ops) {
    op.place.clear();
    if (op.number >= 0)
      op.number -= static_cast<int>(first);
  }
  for (LayerValue &value : kind.values)
    if (value.param < 0)
      value.name.clear();
  return kind;
}

namespace {
/// A kind that stays.
struct Known {
  int kind;
  LayerKind bare;
  std::string rules;
};
} // namespace

void kerf::joinEqualRuns(StepModel &step, llvm::ArrayRef<std::string> rules) {
  std::vector<LayerKind> kinds;
  std::vector<Known> known;
  int names = 0;
  bool isOne = llvm::count_if(step.runs, [](const LayerRun &run) {
                 return run.repeat >= 0;
               }) == 1;
  for (auto [run, own] : llvm::zip_equal(step.runs, rules)) {
    LayerKind &kind = step.kinds[run.kind];
    if (run.repeat >= 0) {
      LayerKind bare = withoutNames(kind);
      auto isEqual = [&](const Known &other) { return other.bare == bare; };
      auto same = llvm::find_if(known, isEqual);
      kind.name = isOne                 ? "layer"
                  : same != known.end() ? kinds[same->kind].name
                                        : "layer " + std::to_string(++names);
      while (same != known.end() && same->rules != own)
        same = std::find_if(same + 1, known.end(), isEqual);
      if (same != known.end()) {
        run.shift = firstNumber(kind) - firstNumber(kinds[same->kind]);
        run.kind = same->kind;
        continue;
      }
      known.push_back({static_cast<int>(kinds.size()), std::move(bare), own});
    }
    kinds.push_back(std::move(kind));
    run.kind = static_cast<int>(kinds.size()) - 1;
  }
  step.kinds = std::move(kinds);
}
