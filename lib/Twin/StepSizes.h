//===- StepSizes.h - the sizes of a step and what its plan asks of them ---===//

#ifndef KERF_LIB_TWIN_STEPSIZES_H
#define KERF_LIB_TWIN_STEPSIZES_H

#include "Sizes.h"
#include "SmallPlan.h"

#include "kerf/Sharding/Layout.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace kerf {

/// The factor that is split in blocks.
struct BlockSplit {
  unsigned factor;
  int64_t outer; ///< blocks of the factor itself
  /// Factors before it in the dimension in which they make the most blocks.
  llvm::SmallVector<unsigned, 2> before;
};

/// What an assignment in blocks splits; none where it has one block.
std::optional<BlockSplit> blocksOf(const Factors &facts,
                                   const Assignment &assignment,
                                   const PlanAxes &axes);

/// Collects the sizes of a planned step, then tells the small ones.
class StepSizes : public NewSizes {
public:
  /// Reads the model's sizes and chooses those that `plan` allows. Fails with a
  /// diagnostic for an assignment that is none.
  mlir::LogicalResult choose(ModelOp model, const SmallPlan &plan);

  /// The small size of a dimension.
  int64_t small(mlir::Value value, unsigned dim) const;
  /// The small size of an op's factor, by its place.
  int64_t small(mlir::Operation *op, unsigned factor) const;
  /// An offset along a dimension of a window that is no block.
  int64_t smallOffset(mlir::Value value, unsigned dim, int64_t offset) const;
  /// The layers of a repeat.
  int64_t small(RepeatOp repeat) const;

  int64_t of(mlir::Operation *op, SizeName size) const override {
    return size.value ? small(size.value, size.index) : small(op, size.index);
  }
  int64_t offset(mlir::Value value, unsigned dim,
                 int64_t offset) const override {
    return smallOffset(value, dim, offset);
  }

private:
  using Word = Sizes::Word;

  Word &dimsOf(mlir::Value value);
  void unify(mlir::Value a, mlir::Value b);
  /// A stack's dimensions but the first are those of a slice.
  void unifySlice(mlir::Value stack, mlir::Value slice, unsigned layers);
  void readRepeat(RepeatOp repeat);
  void readParam(mlir::Operation *op, llvm::StringRef name, mlir::Value value,
                 bool isStack);
  mlir::LogicalResult readOp(mlir::Operation *op);
  mlir::LogicalResult readAssignment(mlir::Operation *op, const Factors &facts,
                                     llvm::ArrayRef<unsigned> factors);
  void demand(mlir::Operation *op, const Factors &facts,
              llvm::ArrayRef<unsigned> factors);
  void readWindow(mlir::Operation *op, const Factors &facts,
                  llvm::ArrayRef<unsigned> factors,
                  llvm::ArrayRef<int64_t> offsets);
  void readJoin(mlir::Operation *op, unsigned dim);

  std::optional<PlanAxes> axes, smallAxes;
  Sizes sizes;
  llvm::DenseMap<mlir::Value, Word> dims;
  llvm::DenseMap<mlir::Operation *, Word> factorsOf;
  llvm::DenseMap<mlir::Operation *, unsigned> layersOf;
  llvm::DenseMap<int64_t, unsigned> layersOfPair;
  llvm::StringMap<Word> params;
};

} // namespace kerf

#endif // KERF_LIB_TWIN_STEPSIZES_H
