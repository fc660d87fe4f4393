//===- GroupBuilder.h - communication inside one op -----------------------===//

#ifndef KERF_LIB_PARTITION_GROUPBUILDER_H
#define KERF_LIB_PARTITION_GROUPBUILDER_H

#include "Writer.h"

#include "kerf/Interfaces/Interfaces.h"

namespace kerf {

/// The buffer for the largest `moe_buffer` that any rows of a step have needed;
/// 0 where the plan's is enough.
constexpr llvm::StringLiteral kMoeNeed = "moe_need";

/// Builds collectives over the axes that split the factors of one op, at the
/// insertion point of `builder`, in the function that is being written.
class GroupBuilder final : public CollectiveBuilder {
public:
  GroupBuilder(mlir::OpBuilder &builder, mlir::Location loc,
               FunctionWriter &function, const PlanAxes &axes,
               const Assignment &assignment)
      : ops(builder), loc(loc), function(function), axes(axes),
        assignment(assignment) {}

  mlir::OpBuilder &builder() override { return ops; }
  int64_t ranksOf(unsigned factor) override;
  mlir::Value placeOf(unsigned factor) override;
  mlir::Value sum(mlir::Value x, unsigned factor) override;
  mlir::Value max(mlir::Value x, unsigned factor) override;
  mlir::Value gather(mlir::Value x, int64_t dim, unsigned factor) override;
  mlir::Value scatterSum(mlir::Value x, int64_t dim, unsigned factor) override;
  mlir::Value take(mlir::Value x, int64_t dim, unsigned factor) override;
  mlir::Value exchange(mlir::Value x, int64_t split, int64_t concat,
                       unsigned factor) override;
  mlir::Value rotate(mlir::Value x, unsigned factor) override;
  double moeBuffer() override { return axes.moeBuffer(); }
  void needMoeBuffer(mlir::Value x) override;

private:
  /// Axes of ranks that split a factor; micro-batches are no group.
  AxisList axesOf(unsigned factor) const;
  mlir::Value step(mlir::Value x, ConversionStep::Kind kind, AxisList list,
                   int64_t dim, int64_t concat = 0,
                   ReduceKind reduce = ReduceKind::Sum);
  mlir::Value reduce(mlir::Value x, unsigned factor, ReduceKind kind);

  mlir::OpBuilder &ops;
  mlir::Location loc;
  FunctionWriter &function;
  const PlanAxes &axes;
  const Assignment &assignment;
};

} // namespace kerf

#endif // KERF_LIB_PARTITION_GROUPBUILDER_H
