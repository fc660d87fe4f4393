//===- Writer.h - one function of a program being written -----------------===//

#ifndef KERF_LIB_PARTITION_WRITER_H
#define KERF_LIB_PARTITION_WRITER_H

#include "kerf/Dialect/Spmd/Spmd.h"
#include "kerf/Sharding/Layout.h"

#include "mlir/IR/Builders.h"

namespace kerf {

/// A value as it lies in a function.
struct LocalValue {
  mlir::Value value;
  Layout layout;
  bool isPiece = false; ///< of a gradient: flat, see StatePieces.h
};

/// Writes the body of one `spmd.func`: knows the local form of each global
/// value and makes other forms on demand, once.
class FunctionWriter {
public:
  FunctionWriter(spmd::FuncOp func, const PlanAxes &axes)
      : func(func), axes(axes) {}

  spmd::FuncOp getFunc() const { return func; }
  bool has(mlir::Value global) const { return locals.count(global) > 0; }
  const LocalValue &get(mlir::Value global) const {
    return locals.find(global)->second;
  }
  void define(mlir::Value global, mlir::Value local, const Layout &layout,
              bool isPiece = false) {
    locals[global] = {local, layout, isPiece};
  }

  /// The local form of `global` in a layout, at the place of `reader`, the
  /// collectives that it takes before `builder`'s insertion point (or before
  /// the repeat around it, if the value comes from outside). It must be
  /// possible.
  mlir::Value convert(mlir::OpBuilder &builder, mlir::Value global,
                      const Layout &layout, mlir::Operation *reader);

  /// True where `convert` would have to ask other ranks.
  bool exchangesFor(mlir::Value global, const Layout &layout) const;
  /// Makes a converted form known that another function made.
  void addConverted(mlir::Value global, mlir::Value local,
                    const Layout &layout) {
    converted[global].push_back({local, layout});
  }

  mlir::Value makeNumber(mlir::OpBuilder &builder, mlir::Value global,
                         const Layout &layout, mlir::Operation *reader);
  /// The same for a local form that is not known by a global value; nothing is
  /// remembered.
  mlir::Value convertFrom(mlir::OpBuilder &builder, const LocalValue &from,
                          const Layout &layout, mlir::Operation *reader);

  /// A builder at the end of the function's head: reads, sources, offsets.
  mlir::OpBuilder atHead();
  /// What was made with `atHead` stays before what comes next.
  void endHead(mlir::Operation *last) { head = last; }
  /// A builder at the end of the function.
  mlir::OpBuilder atEnd();

  /// First global index of this rank's and micro-batch's part along axes, of
  /// `localSize` elements each. Null for no axes.
  mlir::Value offset(llvm::ArrayRef<unsigned> list, int64_t localSize);

  /// The repeat whose body is being written, and its original; or null.
  RepeatOp repeat, original;

  /// One collective on a local value.
  mlir::Value buildStep(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value value, const ConversionStep &step);

private:
  mlir::Value buildStepInBlocks(mlir::OpBuilder &builder, mlir::Location loc,
                                mlir::Value value, const ConversionStep &step);

  spmd::FuncOp func;
  const PlanAxes &axes;
  mlir::Operation *head = nullptr;
  llvm::DenseMap<mlir::Value, LocalValue> locals;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<LocalValue, 1>> converted;
  llvm::SmallVector<spmd::OffsetOp> offsets;
};

/// True where ranks get from one layout to another without each other.
bool isLocal(const Layout &from, const Layout &to, const PlanAxes &axes);

/// `[dp, micro]` as attribute.
mlir::ArrayAttr axesAttr(mlir::MLIRContext *context, const PlanAxes &axes,
                         llvm::ArrayRef<unsigned> list);

/// The op before a builder's insertion point; null at the start of a block.
mlir::Operation *opBefore(const mlir::OpBuilder &builder);

/// Gives what lies between `before`, as `opBefore` gave it, and the builder's
/// insertion point the phase of the op that it was made for.
void setPhases(mlir::Operation *before, const mlir::OpBuilder &builder,
               mlir::Operation *madeFor);

} // namespace kerf

#endif // KERF_LIB_PARTITION_WRITER_H
