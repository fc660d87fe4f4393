//===- StateTensor.h - what an optimizer keeps beside a parameter ---------===//

#ifndef KERF_INTERFACES_STATETENSOR_H
#define KERF_INTERFACES_STATETENSOR_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"

namespace kerf {

/// Most elements of a block: pieces are whole blocks, so larger ones would be
/// mostly padding. Files keep to it (`KERF_MAX_GRANULE`).
constexpr int64_t kLargestBlock = 1 << 20;

/// A state tensor of an update rule, for one parameter. It is shaped like the
/// parameter, and sharded like it, but for:
struct StateTensor {
  llvm::StringRef name; ///< "m"; the tensor is `<parameter>.m`
  /// Null: the type that the update computes in.
  mlir::Type element{};
  /// One element stands for so many neighbours of the last dimension.
  int64_t block = 1;
  /// It lacks this dimension of the parameter, counted from the last, 1; 0:
  /// none.
  int64_t without = 0;
};

/// Type of the state for a parameter, a part of it or a stack of such:
/// `updated` is the type that the update computes in.
mlir::RankedTensorType stateType(const StateTensor &state,
                                 mlir::RankedTensorType updated);

/// Bytes of all the state of such a parameter, part or stack.
int64_t bytesOf(llvm::ArrayRef<StateTensor> states,
                mlir::RankedTensorType updated);

/// A multiple of so many neighbours of the last dimension must stay together
/// where the parameter is sharded: the largest block.
int64_t granuleOf(llvm::ArrayRef<StateTensor> states);

/// Elements of each of `ranks` equal pieces, whole granules, that have room for
/// so many.
int64_t pieceSize(int64_t elements, int64_t ranks, int64_t granule);

} // namespace kerf

#endif // KERF_INTERFACES_STATETENSOR_H
