//===- Cuts.h - how plans cut ops, whatever the sizes ---------------------===//
//
// A cut is what an assignment says of an op without names and sizes of axes:
// how many axes cut each factor, and in which way. So a cut of a large model is
// that of a tiny one, which can be run.
//
//   linear b 2 n 1 of 3 blocks
//   dispatch g 1 r 1 routed
//   attention q 1 k 1 variant ring
//   add b 2 pending 1
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TEST_RANDOM_CUTS_H
#define KERF_TEST_RANDOM_CUTS_H

#include "kerf/Sharding/Layout.h"

#include <map>
#include <optional>
#include <set>

namespace kerf::test {

struct Cut {
  std::string op;                         ///< "linear"
  std::map<std::string, int64_t> factors; ///< how many axes cut each
  std::string inBlocks; ///< the factor that is cut in blocks, or ""
  int64_t blocks = 1, pending = 0;
  bool routed = false;
  std::vector<std::string> variants;

  std::string print() const;
  /// Reads what `print` wrote; nothing of other text.
  static std::optional<Cut> parse(llvm::StringRef line);
};

/// The cut of an op of a planned step. Nothing where the op is whole, has no
/// part in the forward and backward pass (updates and their norms), or is made
/// as its readers ask (parameters, constants).
std::optional<Cut> cutOf(mlir::Operation *op, const PlanAxes &axes);

/// The cuts of all ops of planned models, as text.
std::set<std::string> cutsIn(mlir::ModuleOp module);

} // namespace kerf::test

#endif // KERF_TEST_RANDOM_CUTS_H
