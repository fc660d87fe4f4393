//===- View.h - ops that compute nothing ----------------------------------===//

#ifndef KERF_INTERFACES_VIEW_H
#define KERF_INTERFACES_VIEW_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>

namespace kerf {

/// Where an op that computes nothing takes its elements from.
enum class ViewKind : unsigned {
  Rename = 1, ///< the same elements in the same row-major order
  Part = 2,   ///< a box of the operand
  Pad = 4,    ///< the operand is a box of the result, zeros are around it
  Join = 8,   ///< operands after each other along a dimension
  Turn = 16,  ///< dimensions in another order
  Repeat = 32 ///< repeated along dimensions that the operand has not
};

/// Facts of such an op; sizes are those of its operands and result.
struct View {
  ViewKind kind;
  /// Part: where the box begins in the operand. Pad: where it begins in the
  /// result. One entry per dimension.
  llvm::SmallVector<int64_t, 4> offsets = {};
  /// Turn: the operand's dimension that each of the result's is. Repeat: the
  /// result's dimension that each of the operand's is. Join: the dimension.
  llvm::SmallVector<int64_t, 4> dims = {};

  /// True where operand and result begin with the same element.
  bool isAtStart() const {
    return llvm::all_of(offsets, [](int64_t offset) { return offset == 0; });
  }
};

/// What the op is as a view; nothing for an op that computes, or for null.
std::optional<View> viewOf(mlir::Operation *op);

/// True for a view of one of these kinds: `isView(op, ViewKind::Rename,
/// ViewKind::Part)`. False for null.
bool isView(mlir::Operation *op, unsigned kinds);
template <typename... Kinds>
bool isView(mlir::Operation *op, ViewKind first, Kinds... others) {
  return isView(
      op, (static_cast<unsigned>(first) | ... | static_cast<unsigned>(others)));
}
/// The same of what makes the value.
template <typename... Kinds> bool isView(mlir::Value value, Kinds... kinds) {
  return isView(value.getDefiningOp(), kinds...);
}

/// The first value that `value` is a renaming of: itself if it is none.
mlir::Value withoutRenames(mlir::Value value);

} // namespace kerf

#endif // KERF_INTERFACES_VIEW_H
