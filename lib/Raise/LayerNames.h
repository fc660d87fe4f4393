//===- LayerNames.h - the numbers of layers in names of parameters --------===//

#ifndef KERF_LIB_RAISE_LAYERNAMES_H
#define KERF_LIB_RAISE_LAYERNAMES_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kerf {

/// Parameters `PREFIX number SUFFIX` of at least two numbers: layers.
class Stack {
public:
  Stack(std::string prefix, std::set<int64_t> numbers)
      : start(std::move(prefix)), numbers(std::move(numbers)) {}

  const std::string &prefix() const { return start; }

  /// The number of the layer that a name is of.
  std::optional<int64_t> numberOf(llvm::StringRef name) const;
  /// True where `later` is `name` but for its number, which is `by` more.
  bool isLater(llvm::StringRef name, llvm::StringRef later, int64_t by) const;
  /// The name of a loop's parameter: `h.{2*i+1}.weight` for period 2 and
  /// offset 1.
  std::string templateOf(llvm::StringRef name, int64_t period,
                         int64_t offset) const;
  /// A name for all numbers: `h.drop`, and of layer 1 of a period `h.1.drop`.
  std::string withoutNumber(llvm::StringRef name, int64_t layer,
                            int64_t period) const;

private:
  llvm::StringRef suffixOf(llvm::StringRef name) const;

  std::string start;
  std::set<int64_t> numbers;
};

/// The stacks of a model's parameters, those with most parameters first. A
/// number inside another stack's suffix (experts of a layer) makes none.
std::vector<Stack> findStacks(ModelOp model);

} // namespace kerf

#endif // KERF_LIB_RAISE_LAYERNAMES_H
