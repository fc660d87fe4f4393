#include "Cuts.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

std::string Cut::print() const {
  std::string text = op;
  for (const auto &[factor, count] : factors) {
    text += " " + factor + " " + std::to_string(count);
    if (factor == inBlocks)
      text += " of " + std::to_string(blocks) + " blocks";
  }
  if (pending > 0)
    text += " pending " + std::to_string(pending);
  for (const std::string &variant : variants)
    text += " variant " + variant;
  return routed ? text + " routed" : text;
}

std::optional<Cut> Cut::parse(llvm::StringRef line) {
  llvm::SmallVector<llvm::StringRef> words;
  line.trim().split(words, ' ', -1, /*KeepEmpty=*/false);
  if (words.empty())
    return std::nullopt;
  Cut cut;
  cut.op = words[0].str();
  auto number = [&](size_t at, int64_t &count) {
    return at < words.size() && !words[at].getAsInteger(10, count);
  };
  for (size_t i = 1; i < words.size();) {
    if (words[i] == "routed") {
      cut.routed = true;
      ++i;
    } else if (words[i] == "variant" && i + 1 < words.size()) {
      cut.variants.push_back(words[i + 1].str());
      i += 2;
    } else if (words[i] == "pending" && number(i + 1, cut.pending)) {
      i += 2;
    } else if (words[i] == "of" && number(i + 1, cut.blocks) && i > 1) {
      cut.inBlocks = words[i - 2].str();
      i += 3;
    } else if (number(i + 1, cut.factors[words[i].str()])) {
      i += 2;
    } else {
      return std::nullopt;
    }
  }
  return cut;
}

/// Parts of a fused matmul are blocks, or the heads of a model, of which tiny
/// models have so many.
static constexpr int64_t kMostBlocks = 4;

std::optional<Cut> kerf::test::cutOf(Operation *op, const PlanAxes &axes) {
  auto iface = dyn_cast<FactorOpInterface>(op);
  if (!iface || isSource(op) || isa<UpdateOp>(op))
    return std::nullopt;
  Factors facts = iface.getFactors();
  auto assignment = getAssignment(op, facts, axes);
  if (failed(assignment) || sumsSquares(facts))
    return std::nullopt;
  Cut cut;
  cut.op = op->getName().stripDialect().str();
  std::optional<unsigned> tensor = axes.find(kTensorAxis);
  for (auto [factor, list] :
       llvm::zip_equal(facts.factors, assignment->factors)) {
    if (list.empty())
      continue;
    cut.factors[factor.name] = int64_t(list.size());
    if (assignment->blocks > 1 && tensor && llvm::is_contained(list, *tensor)) {
      cut.inBlocks = factor.name;
      cut.blocks = std::min(assignment->blocks, kMostBlocks);
    }
  }
  cut.pending = int64_t(assignment->pending.size());
  cut.routed = assignment->routed;
  for (unsigned variant : assignment->variants)
    cut.variants.push_back(facts.variants[variant].name);
  if (cut.factors.empty() && cut.pending == 0)
    return std::nullopt;
  return cut;
}

std::set<std::string> kerf::test::cutsIn(ModuleOp module) {
  std::set<std::string> cuts;
  for (ModelOp model : module.getOps<ModelOp>()) {
    PlanAxes axes(getPlan(model));
    model.getBody().walk([&](Operation *op) {
      if (auto cut = cutOf(op, axes))
        cuts.insert(cut->print());
    });
  }
  return cuts;
}
