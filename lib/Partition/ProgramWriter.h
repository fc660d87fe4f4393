//===- ProgramWriter.h - the program of one stage -------------------------===//

#ifndef KERF_LIB_PARTITION_PROGRAMWRITER_H
#define KERF_LIB_PARTITION_PROGRAMWRITER_H

#include "Placement.h"
#include "StatePieces.h"
#include "Writer.h"

#include "mlir/IR/IRMapping.h"

namespace kerf {

/// The step of a model, planned and placed.
struct PlacedModel {
  ModelOp model;
  PlannedModel plan;
  Placement placement;

  PlacedModel(ModelOp model, PlannedModel planned, bool evaluating)
      : model(model), plan(std::move(planned)),
        placement(model, plan, evaluating) {}
};

/// Writes the program of one stage.
class ProgramWriter {
public:
  /// `evaluation` is a copy of the model; `origins` maps its values to the
  /// model's.
  ProgramWriter(PlacedModel &training, PlacedModel &evaluation,
                const mlir::IRMapping &origins, const StatePieces &pieces,
                int64_t stage)
      : training(training), evaluation(evaluation), origins(origins),
        pieces(pieces), stage(stage), now(&training) {}

  void run();

private:
  // ProgramWriter.cpp
  void declareInputs();
  void declareParams();
  void dropUnread();
  FunctionWriter &functionOf(Part part);
  Part partOf(mlir::Operation *op) { return now->placement.partOf(op, stage); }
  bool evaluating() const { return now == &evaluation; }
  /// True for gradients that leave the backward functions in pieces.
  bool scattersEarly(mlir::Value gradient) const;
  bool isPipeline() const { return now->placement.stages() > 1; }
  bool exchangesRowsIn(mlir::Operation *scope) const;
  bool mayLackRoom() const;
  void declareMoeNeed();
  void checkMoeNeed(PartKind kind);
  const PlanAxes &axes() const { return training.plan.axes; }
  /// The layout in which an op of the present model reads an operand.
  const Layout &needOf(mlir::OpOperand &use) {
    const OpLayouts &layouts = now->plan.ops.find(use.getOwner())->second;
    return layouts.operands[use.getOperandNumber()];
  }

  // Outputs.cpp
  void writeOutputs();
  Layout partLayout(unsigned index);
  AxisList sumsAtEnd(unsigned index);
  void writeOutput(mlir::Value value, unsigned index);
  mlir::Value partAtEnd(unsigned index, mlir::OpBuilder &builder);
  void writeSums(llvm::ArrayRef<unsigned> indices, const AxisList &sums,
                 mlir::OpBuilder &builder);
  void writeFinish();
  spmd::OutputOp outputFor(unsigned index, bool sum);
  spmd::BufferOp partFor(spmd::OutputOp output);

  // Values.cpp
  void readInput(mlir::BlockArgument input, Part part);
  spmd::BufferOp store(mlir::Value value, const Layout &layout, Part from,
                       bool isStep, bool sum);
  mlir::Value originOf(mlir::Value value, Part from);
  spmd::BufferOp bufferFor(mlir::Value value, Part from, Part to);
  void passOn(mlir::Value value, Part from, Part to);
  void bring(mlir::Value value, Part part);
  bool followsSoon(mlir::Operation *reader, mlir::Operation *later, Part part);
  mlir::OpOperand *sharedBy(mlir::Value value, const Layout &need, Part part,
                            mlir::Operation *reader);
  mlir::Value use(mlir::Value value, const Layout &need, Part part,
                  mlir::OpBuilder &builder, mlir::Operation *reader);
  bool convertsOnce(mlir::Value value, const Layout &need, Part part);
  void bringConverted(mlir::Value value, const Layout &need, Part part,
                      mlir::Operation *reader);
  mlir::Value usePiece(mlir::Value gradient, Part part,
                       mlir::OpBuilder &builder, mlir::Operation *reader);
  LocalValue makePiece(mlir::Value gradient, const LocalValue &local,
                       FunctionWriter &function, mlir::OpBuilder &builder,
                       mlir::Operation *reader);
  void receive();
  void send();
  void sendForUpdate(const Crossing &crossing);

  // WriteOps.cpp
  void writeOps();
  void writeOp(mlir::Operation *op, FunctionWriter &function, Part part,
               mlir::OpBuilder &builder);
  void writeRepeat(RepeatOp repeat, FunctionWriter &function, Part part,
                   mlir::OpBuilder &builder);
  void writeYield(RepeatOp repeat, RepeatOp made, FunctionWriter &function,
                  Part part, mlir::OpBuilder &inside);
  void writeNorm(mlir::Operation *op, FunctionWriter &function, Part part,
                 mlir::OpBuilder &builder);
  void writeUpdate(UpdateOp update, FunctionWriter &function, Part part,
                   mlir::OpBuilder &builder);
  mlir::Operation *writeParam(ParamOp param, FunctionWriter &function,
                              mlir::OpBuilder &builder);
  mlir::Operation *cloneLocal(mlir::Operation *op,
                              llvm::ArrayRef<mlir::Value> operands,
                              FunctionWriter &function,
                              mlir::OpBuilder &builder);
  bool waitsForUpdate(mlir::Operation *op);

  PlacedModel &training, &evaluation;
  const mlir::IRMapping &origins;
  const StatePieces &pieces;
  int64_t stage;
  PlacedModel *now; ///< the one that is being written
  spmd::ProgramOp program;
  llvm::SmallVector<spmd::InputOp> inputs;
  std::map<Part, FunctionWriter> functions;
  /// Buffers that hold a value, by who reads them: the update, or others.
  llvm::DenseMap<mlir::Value,
                 llvm::SmallVector<std::pair<bool, spmd::BufferOp>, 1>>
      buffers;
  /// Buffers that hold a parameter in another layout than it is stored in.
  llvm::DenseMap<mlir::Attribute,
                 llvm::SmallVector<std::pair<Layout, spmd::BufferOp>, 1>>
      convertedParams;
  /// Parts in which values of other stages arrive.
  llvm::DenseMap<mlir::Value, Part> arrives;
  int64_t saved = 0;
};

} // namespace kerf

#endif // KERF_LIB_PARTITION_PROGRAMWRITER_H
