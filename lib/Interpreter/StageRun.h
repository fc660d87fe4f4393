//===- StageRun.h - one stage's program on its virtual ranks --------------===//
//
// The ranks of a stage run in lockstep, op by op: a collective sees the values
// of all of them. A stage stops where it has to wait for another one and goes
// on there later: where it stands is a stack of frames, one per repeat.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_INTERPRETER_STAGERUN_H
#define KERF_LIB_INTERPRETER_STAGERUN_H

#include "Links.h"
#include "StageState.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"

namespace kerf {

class StageRun {
public:
  /// Prepares a schedule of a decomposed program.
  StageRun(spmd::ScheduleOp schedule, const InterpreterOptions &options,
           UpdateRules &rules, Links &links);

  /// Gives the ranks their parts of a declared input. Fails for another type.
  mlir::LogicalResult setInput(spmd::InputOp input, const HostTensor &global);
  /// Runs until the schedule ends or the next op has to wait. Returns how many
  /// ops ran. Fails, with a diagnostic, where an op has no meaning.
  mlir::FailureOr<int64_t> advance();
  bool hasEnded() const { return frames.empty() && nextCall == calls.size(); }
  /// The op that has to wait, after `advance`; null after the end.
  mlir::Operation *getWaiting() const;
  /// What an output holds after the end; no type when it was not written.
  /// Fails when ranks differ.
  mlir::FailureOr<HostTensor> getOutput(spmd::OutputOp output) const;

  StageState state;

private:
  mlir::SymbolTable symbols;

  /// A block that is being run: of a function, or of a repeat.
  struct Frame {
    mlir::Block *block;
    mlir::Block::iterator next;
    int64_t iteration = 0; ///< that parameters are read for
    // Of a repeat.
    RepeatOp repeat = {};
    int64_t done = 0; ///< iterations
    llvm::SmallVector<Ranks> carried = {};
    /// By result, then by place in the stack.
    std::vector<llvm::SmallVector<Ranks>> stacked = {};
  };
  struct Stored {
    Ranks value;
    int64_t micro; ///< micro-batch that wrote it
  };

  void startCall();
  void startRepeat(RepeatOp repeat);
  void startIteration(Frame &frame);
  void endBlock();
  void endIteration(Frame &frame);
  void endRepeat(Frame &frame);

  /// Runs an op that is no repeat; false when it has to wait.
  mlir::FailureOr<bool> runOp(mlir::Operation &op, int64_t iteration);
  mlir::FailureOr<bool> runReceive(spmd::RecvOp recv);
  mlir::FailureOr<bool> runCollective(mlir::Operation &op);
  mlir::LogicalResult runLocal(mlir::Operation &op, int64_t iteration);
  mlir::LogicalResult runPlain(EvaluateOpInterface op);
  /// Runs the body of a fused op or a matmul.
  mlir::LogicalResult runBody(mlir::Operation *fused);
  mlir::LogicalResult runRead(spmd::ReadOp read);
  mlir::LogicalResult runUpdate(UpdateOp update);
  mlir::LogicalResult runStopIf(spmd::StopIfOp stop);
  void runStore(mlir::Operation &op);

  Place placeOf(int64_t rank) const { return {program, rank, micro}; }
  std::pair<std::string, int64_t> slotOf(llvm::StringRef name) const;
  Ranks each(llvm::function_ref<HostTensor(int64_t rank)> body) const {
    return makeRanks(program, body);
  }

  mutable spmd::ProgramOp program;
  InterpreterOptions options;
  Links &links;
  std::map<std::string, Ranks> inputs; ///< all micro-batches of each rank
  std::map<std::pair<std::string, int64_t>, Stored> buffers; ///< by slot

  llvm::SmallVector<spmd::CallOp> calls;
  size_t nextCall = 0;
  llvm::StringSet<> called; ///< functions
  // Of the present call.
  int64_t micro = 0;
  bool isFirst = true;
  std::vector<Frame> frames;
  llvm::DenseMap<mlir::Value, Ranks> env;
};

} // namespace kerf

#endif // KERF_LIB_INTERPRETER_STAGERUN_H
