//===- RecordedSums.h - the sums inside an update, as arguments -----------===//

#ifndef KERF_DIALECT_KERF_RECORDEDSUMS_H
#define KERF_DIALECT_KERF_RECORDEDSUMS_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// Takes the rank's part of each sum, which a plain op makes, and stands for
/// the whole sum by a new argument of the block that the update is built in.
class RecordedSums : public UpdateSums {
public:
  struct Sum {
    mlir::Value part;
    mlir::Value total;
    /// Dimensions of the parameter, counted from the last, 1.
    llvm::SmallVector<int64_t> of;
  };
  std::vector<Sum> sums;

  /// `whole`: of the parameter.
  RecordedSums(mlir::OpBuilder &builder, llvm::ArrayRef<int64_t> whole)
      : builder(builder), whole(whole) {}

  llvm::ArrayRef<int64_t> shape() override { return whole; }
  mlir::Value total(mlir::Value part, llvm::ArrayRef<int64_t> of) override {
    mlir::Value total =
        builder.getInsertionBlock()->addArgument(part.getType(), part.getLoc());
    sums.push_back({part, total, llvm::SmallVector<int64_t>(of)});
    return total;
  }
  mlir::Value sum(mlir::Value x, llvm::ArrayRef<int64_t> dims,
                  llvm::ArrayRef<int64_t> of) override {
    return total(
        ReduceOp::create(builder, x.getLoc(), ReduceKind::Sum, x, dims), of);
  }

private:
  mlir::OpBuilder &builder;
  llvm::SmallVector<int64_t> whole;
};

} // namespace kerf

#endif // KERF_DIALECT_KERF_RECORDEDSUMS_H
