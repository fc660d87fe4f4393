#include "kerf/Interfaces/Factors.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace kerf;

unsigned Factors::add(llvm::StringRef name, int64_t size, FactorKind kind) {
  factors.push_back({name.str(), size, kind});
  return factors.size() - 1;
}

bool kerf::hasFactor(const TensorFactors &dims, unsigned factor) {
  return llvm::any_of(dims, [factor](const DimFactors &dim) {
    return llvm::is_contained(dim, factor);
  });
}

std::string kerf::leadingLabels(int64_t count) {
  // The field's letters first; then those no op uses for its own dimensions.
  static constexpr llvm::StringLiteral letters = "bsxyzwutABCDEFGH";
  return letters.take_front(count).str();
}

Factors kerf::labelledFactors(Operation *op, Positions positions,
                              llvm::ArrayRef<std::string> operands,
                              llvm::ArrayRef<std::string> results,
                              llvm::ArrayRef<unsigned> linear,
                              llvm::StringRef whole) {
  Factors facts(positions);
  auto dimensions = [&](llvm::StringRef labels, Type type) {
    TensorFactors tensor;
    llvm::ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
    assert(labels.size() == shape.size() && "one label per dimension");
    for (auto [letter, size] : llvm::zip(labels, shape)) {
      auto *known = llvm::find_if(
          facts.factors, [&](const Factor &f) { return f.name[0] == letter; });
      unsigned index = known - facts.factors.begin();
      if (known == facts.factors.end()) {
        bool inResult = llvm::any_of(results, [&](const std::string &r) {
          return r.find(letter) != std::string::npos;
        });
        FactorKind kind = inResult ? FactorKind::Parallel : FactorKind::Sum;
        if (whole.contains(letter))
          kind = FactorKind::Whole;
        index = facts.add(std::string(1, letter), size, kind);
      }
      tensor.push_back({index});
    }
    return tensor;
  };
  for (auto [labels, type] : llvm::zip_equal(operands, op->getOperandTypes()))
    facts.operands.push_back(dimensions(labels, type));
  for (auto [labels, type] : llvm::zip_equal(results, op->getResultTypes()))
    facts.results.push_back(dimensions(labels, type));
  facts.linearOperands.assign(linear.begin(), linear.end());
  return facts;
}

Factors kerf::pointwiseFactors(Operation *op, Positions positions,
                               llvm::ArrayRef<unsigned> linear) {
  auto labels = [](Type type) {
    return leadingLabels(cast<RankedTensorType>(type).getRank());
  };
  auto operands = llvm::map_to_vector(op->getOperandTypes(), labels);
  auto results = llvm::map_to_vector(op->getResultTypes(), labels);
  return labelledFactors(op, positions, operands, results, linear);
}

static LogicalResult verifyTensor(Operation *op, const Factors &facts,
                                  const TensorFactors &dims, Type type,
                                  llvm::StringRef what, unsigned number) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() != static_cast<int64_t>(dims.size()))
    return op->emitOpError()
           << "has factors for " << dims.size() << " dimensions of " << what
           << ' ' << number << ", which is " << type;
  for (auto [d, dim] : llvm::enumerate(dims)) {
    int64_t product = 1;
    for (unsigned factor : dim)
      product *= facts.factors[factor].size;
    if (product != tensor.getDimSize(d))
      return op->emitOpError()
             << "has factors of size " << product << " for dimension " << d
             << " of " << what << ' ' << number << ", which has size "
             << tensor.getDimSize(d);
  }
  return success();
}

LogicalResult kerf::verifyFactors(Operation *op, const Factors &facts) {
  if (facts.positions != Positions::Ignored && !facts.readsPositions())
    return op->emitOpError("does not say whether it reads positions");
  if (facts.operands.size() != op->getNumOperands() ||
      facts.results.size() != op->getNumResults())
    return op->emitOpError("has factors for another number of operands or "
                           "results");
  for (unsigned factor : facts.placed)
    if (factor >= facts.factors.size() || !facts.readsPositions())
      return op->emitOpError("names positions that it does not read");
  for (unsigned i = 0; i < facts.operands.size(); ++i)
    if (failed(verifyTensor(op, facts, facts.operands[i],
                            op->getOperand(i).getType(), "operand", i)))
      return failure();
  for (unsigned i = 0; i < facts.results.size(); ++i)
    if (failed(verifyTensor(op, facts, facts.results[i],
                            op->getResult(i).getType(), "result", i)))
      return failure();
  return success();
}

static llvm::StringRef kindSuffix(FactorKind kind) {
  switch (kind) {
  case FactorKind::Parallel:
    return "";
  case FactorKind::Sum:
    return "(sum)";
  case FactorKind::Max:
    return "(max)";
  case FactorKind::Whole:
    return "(whole)";
  }
  llvm_unreachable("covered switch");
}

static void printTensor(llvm::raw_ostream &os, const Factors &facts,
                        const TensorFactors &dims) {
  os << '[';
  llvm::interleaveComma(dims, os, [&](const DimFactors &dim) {
    llvm::interleave(
        dim, os, [&](unsigned f) { os << facts.factors[f].name; }, "*");
  });
  os << ']';
}

void kerf::printFactors(llvm::raw_ostream &os, const Factors &facts) {
  for (const Factor &factor : facts.factors)
    os << factor.name << '=' << factor.size << kindSuffix(factor.kind) << ' ';
  os << ": ";
  llvm::interleaveComma(facts.operands, os, [&](const TensorFactors &dims) {
    printTensor(os, facts, dims);
  });
  os << " -> ";
  llvm::interleaveComma(facts.results, os, [&](const TensorFactors &dims) {
    printTensor(os, facts, dims);
  });
  auto names = [&](llvm::ArrayRef<unsigned> factors) {
    llvm::interleave(
        factors, os, [&](unsigned f) { os << facts.factors[f].name; }, ",");
  };
  if (!facts.linearOperands.empty()) {
    os << (facts.jointly ? " jointly" : "") << " linear in ";
    llvm::interleave(facts.linearOperands, os, ",");
  }
  for (const FactorVariant &variant : facts.variants) {
    os << " variant " << variant.name << (variant.together ? " together" : "")
       << (variant.exchanges ? " exchanges" : "") << "(";
    names(variant.factors);
    os << ")";
  }
  for (const FactorMap &map : facts.maps) {
    os << " map ";
    names(map.from);
    os << "->";
    names(map.to);
    os << " by operand " << map.index;
    if (map.ragged >= 0)
      os << " ragged " << facts.factors[map.ragged].name;
  }
}
