//===- StageState.h - parameters and optimizer state on virtual ranks -----===//

#ifndef KERF_LIB_INTERPRETER_STAGESTATE_H
#define KERF_LIB_INTERPRETER_STAGESTATE_H

#include "Shards.h"
#include "Updates.h"

#include "kerf/Interpreter/Interpreter.h"

#include <map>

namespace kerf {

/// The values of one op's operands on the ranks of a stage; those of an operand
/// that is not there are empty.
struct UpdateOperands {
  Ranks gradient, scale, rate, step, condition;
};

/// What the ranks of a stage hold of the parameters that its program declares.
class StageState {
public:
  StageState(spmd::ProgramOp program, const InterpreterOptions &options,
             UpdateRules &rules)
      : program(program), options(options), rules(rules) {}

  /// Shards the global state; parameters that are not in it yet get their
  /// initial values there. Fails for state over the axis of the pipeline, and
  /// where a parameter has another shape than `state` knows.
  mlir::LogicalResult shard(TrainingState &state);
  /// Puts parameters, masters, optimizer state, and the gradients that updates
  /// took, together in `state`, which must agree where it holds them already.
  mlir::LogicalResult join(TrainingState &state) const;

  /// What ranks read at an iteration.
  mlir::FailureOr<Ranks> read(ParamOp read, int64_t iteration) const;
  mlir::LogicalResult update(UpdateOp update, const UpdateOperands &operands);
  /// Gives all ranks the pieces of the ones that updated them.
  mlir::LogicalResult gather(spmd::GatherParamOp gather);

private:
  /// By expanded name, then by rank of the mesh; no type where a rank has none.
  using Shards = std::map<std::string, std::vector<HostTensor>>;

  mlir::LogicalResult joinOne(spmd::ParamOp param, const std::string &name,
                              TrainingState &state) const;
  mlir::LogicalResult updateOne(UpdateOp update, int64_t iteration,
                                const UpdateOperands &operands);
  UpdateRules::Operands operandsOf(UpdateOp update, spmd::ParamOp param,
                                   const std::string &name, int64_t rank,
                                   const UpdateOperands &operands);
  void keepUpdate(spmd::ParamOp param, const std::string &name, int64_t rank,
                  llvm::ArrayRef<HostTensor> results);
  void updateRanks(UpdateOp update, spmd::ParamOp param,
                   const std::string &name, const UpdateOperands &operands);

  mutable spmd::ProgramOp program;
  InterpreterOptions options;
  UpdateRules &rules;
  Shards params, masters, optimizer, gradients;
};

} // namespace kerf

#endif // KERF_LIB_INTERPRETER_STAGESTATE_H
