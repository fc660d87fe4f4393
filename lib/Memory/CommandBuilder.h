//===- CommandBuilder.h - turns ops into commands -------------------------===//

#ifndef KERF_LIB_MEMORY_COMMANDBUILDER_H
#define KERF_LIB_MEMORY_COMMANDBUILDER_H

#include "Commands.h"

#include "kerf/Dialect/Kerf/RecordedSums.h"

#include <map>

namespace kerf {

/// Pieces of a weight that an update of this rank made, until they are
/// gathered.
struct UpdatedPieces {
  unsigned buffer; ///< `[iterations, piece]`
  int64_t end;     ///< of the iterations
  UpdateOp update;
  bool isGathered = false;
};

struct UpdateBody;

/// State while the commands of one program are written.
struct CommandBuilder {
  spmd::ProgramOp source;
  exec::ProgramOp program;
  StorageMap &map;
  const MemoryOptions &options;
  PlannedFunc *func = nullptr;
  bool continues = false; ///< the function: what it adds to is set already
  int64_t loop = -1;
  std::vector<PlannedChannel> channels{};
  /// Kernels of the program by content.
  llvm::DenseMap<uint64_t, mlir::FlatSymbolRefAttr> kernels{};
  /// Of the present function, by declaration and first iteration.
  std::map<std::pair<mlir::Operation *, int64_t>, UpdatedPieces> pieces{};

  /// Commands of the present function that start a collective.
  llvm::DenseMap<mlir::Operation *, size_t> started{};

  mlir::LogicalResult buildFunc(spmd::FuncOp op);

  // Operands.
  PlannedOperand operand(mlir::Value value, int64_t access);
  PlannedOperand at(const Storage &storage, mlir::RankedTensorType type,
                    int64_t access);
  PlannedOperand absent();
  PlannedOperand scalar(mlir::Value value);
  PlannedOperand optional(mlir::Value value);
  PlannedOperand workspace(int64_t bytes, llvm::StringRef name);
  /// What the target's device needs for a library call.
  int64_t workspaceBytes(exec::Opcode opcode,
                         llvm::ArrayRef<int64_t> values) const;
  const Strides &stridesOf(mlir::Value value) {
    return map.values[value].strides;
  }

  PlannedCommand &add(exec::Opcode opcode, mlir::Operation *op,
                      llvm::StringRef name,
                      llvm::ArrayRef<int64_t> values = {});
  void copy(mlir::Operation *op, PlannedOperand from, PlannedOperand to,
            int64_t when = 0);

  // Ops.
  mlir::LogicalResult buildBlock(mlir::Block &block);
  mlir::LogicalResult buildOp(mlir::Operation &op);
  mlir::LogicalResult buildRepeat(RepeatOp repeat);
  void zeroPadding(mlir::Operation *pad);
  mlir::LogicalResult buildFused(spmd::FusedOp fused);
  mlir::LogicalResult buildUpdate(UpdateOp update);
  exec::KernelOp makeKernelOf(mlir::Location loc,
                              llvm::ArrayRef<mlir::Value> inputs,
                              llvm::ArrayRef<mlir::Value> results);
  void addTotal(UpdateOp update, spmd::ParamOp param,
                const RecordedSums::Sum &sum, PlannedOperand part);
  struct UpdatePlaces;
  void addRoom(UpdateOp update, mlir::Value value, UpdatePlaces &places);
  mlir::LogicalResult buildRounds(UpdateOp update, spmd::ParamOp param,
                                  UpdateBody &body, UpdatePlaces &places);
  llvm::SmallVector<PlannedOperand> argumentsOf(UpdateOp update,
                                                const StorageMap::Param &param,
                                                PlannedOperand weight);
  void buildResults(UpdateOp update, const StorageMap::Param &param,
                    const UpdateBody &body, const UpdatePlaces &places,
                    PlannedOperand weight);
  PlannedOperand weightOf(UpdateOp update, const StorageMap::Param &param);
  mlir::LogicalResult buildAccumulate(spmd::AccumulateOp accumulate);
  /// Copies what a kernel computes to the end of `kernel`, whose first
  /// arguments are its operands; its results there.
  static llvm::SmallVector<mlir::Value> cloneBody(spmd::FusedOp fused,
                                                  exec::KernelOp kernel);
  void buildTable(spmd::AccumulateOp accumulate, const Storage &target);
  void addUp(spmd::AccumulateOp accumulate, mlir::Value value,
             const Storage &target);
  mlir::LogicalResult buildCall(mlir::Operation *op, LibraryCall call);
  mlir::LogicalResult buildMatmul(mlir::Operation *op);
  mlir::LogicalResult buildFusedMatmul(spmd::FusedMatmulOp op);
  struct Epilogue;
  mlir::LogicalResult addMatmul(mlir::Operation *op, mlir::Operation *matmul,
                                llvm::ArrayRef<mlir::Value> operands,
                                const Epilogue &epilogue);
  void addMatmulCommand(exec::Opcode opcode, mlir::Operation *op,
                        llvm::SmallVector<int64_t> values,
                        llvm::ArrayRef<PlannedOperand> operands,
                        unsigned accumulate);
  mlir::LogicalResult buildAttention(mlir::Operation *op);
  mlir::LogicalResult buildGroupedMatmul(mlir::Operation *op);

  // Communication.
  mlir::LogicalResult buildCommunication(mlir::Operation *op);
  mlir::LogicalResult buildCollective(mlir::Operation *op);
  mlir::LogicalResult buildExchange(mlir::Operation *op);
  mlir::LogicalResult buildWait(spmd::WaitOp wait);
  mlir::LogicalResult buildTake(spmd::SliceOwnOp slice);
  mlir::LogicalResult buildAllToAll(spmd::AllToAllOp op, int64_t mask);
  mlir::LogicalResult buildMessage(mlir::Operation *op, mlir::Value value,
                                   PlannedChannel channel);
  mlir::LogicalResult buildGatherParam(spmd::GatherParamOp gather);
  mlir::LogicalResult checkGathered();
  /// Bits of the axes, which must be in the order of the mesh.
  mlir::FailureOr<int64_t> maskOf(mlir::Operation *op, mlir::ArrayAttr axes);
  /// This rank's place among those that differ in `axes`, as a scalar.
  PlannedOperand placeIn(mlir::ArrayAttr axes);

  /// Launches a kernel (split if it needs several launches) on these operands:
  /// inputs, then results. Takes the kernel over.
  void launch(exec::KernelOp kernel, llvm::ArrayRef<PlannedOperand> operands,
              mlir::Operation *op, llvm::StringRef name, int64_t when = 0);
  /// An empty kernel in the program.
  exec::KernelOp makeKernel(mlir::Location loc, mlir::TypeRange arguments,
                            mlir::TypeRange results);
  mlir::FlatSymbolRefAttr intern(exec::KernelOp kernel);
};

using exec::dtypeOf;

} // namespace kerf

#endif // KERF_LIB_MEMORY_COMMANDBUILDER_H
