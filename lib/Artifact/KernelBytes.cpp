//===- KernelBytes.cpp - what a kernel leaves alone of its operands -------===//
//
// Problem: a command's operands are ranges, and a kernel may touch a part: rows
// that it looks up or adds to, columns that it slices.
// Idea: of each argument count the elements that the ops that read it ask for.
//
//   a slice of one third of the columns, and nothing else: two thirds are
//   untouched.
//
//===----------------------------------------------------------------------===//

#include "KernelBytes.h"

#include "kerf/Dialect/Kerf/Kerf.h"

using namespace mlir;
using namespace kerf;

/// Elements of a value that its readers ask for.
static int64_t elementsAsked(Value value) {
  int64_t asked = 0;
  for (Operation *user : value.getUsers()) {
    auto gather = dyn_cast<GatherOp>(user);
    if (isConversion(user) || isView(user, ViewKind::Part, ViewKind::Rename))
      asked += elementsAsked(user->getResult(0));
    else if (gather && gather.getTable() == value)
      asked += elementCount(gather.getResult());
    else
      return elementCount(value);
  }
  return std::min(asked, elementCount(value));
}

/// Elements of the rows that are added to `table`, which the sum replaces; none
/// if `result` is no such sum.
static std::optional<int64_t> elementsAdded(Value result, Value table) {
  auto add = result.getDefiningOp<AddOp>();
  if (!add || !table.hasOneUse())
    return std::nullopt;
  for (unsigned i : {0, 1})
    if (auto scatter = add->getOperand(i).getDefiningOp<ScatterAddOp>();
        scatter && add->getOperand(1 - i) == table)
      return std::min(elementCount(scatter.getX()), elementCount(table));
  return std::nullopt;
}

int64_t kerf::untouchedBytes(exec::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  Operation *yield = body.getTerminator();
  llvm::SmallVector<int64_t> left;
  for (BlockArgument argument : body.getArguments())
    left.push_back(elementCount(argument) - elementsAsked(argument));
  int64_t bits = 0;
  auto addLeft = [&](Value value, int64_t elements) {
    auto type = cast<RankedTensorType>(value.getType());
    // A truth takes a byte.
    bits += elements * std::max(type.getElementTypeBitWidth(), 8u);
  };
  for (auto [n, sum] : llvm::enumerate(yield->getOperands())) {
    int64_t input = kernel.getInplaceArgument(n);
    if (input < 0)
      continue;
    Value table = body.getArgument(input);
    if (auto added = elementsAdded(sum, table)) {
      left[input] = elementCount(table) - *added;
      addLeft(sum, left[input]);
    }
  }
  for (auto [argument, elements] : llvm::zip_equal(body.getArguments(), left))
    addLeft(argument, elements);
  return bits / 8;
}
