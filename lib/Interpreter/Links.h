//===- Links.h - what stages of a pipeline exchange -----------------------===//
//
// Channels for messages, one per sender, receiver and name, and meetings for
// collectives over the pipeline's axis: the n-th of each stage is the same one.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_INTERPRETER_LINKS_H
#define KERF_LIB_INTERPRETER_LINKS_H

#include "Shards.h"

#include <deque>
#include <map>
#include <optional>

namespace kerf {

class Links {
public:
  /// One program per stage, in order. A channel keeps `holds` messages, any
  /// number if that is 0.
  Links(llvm::ArrayRef<spmd::ProgramOp> programs, int64_t holds);

  /// Puts a value into its channel; false when that is full.
  bool send(spmd::SendOp send, const Ranks &value);
  /// Takes the next message, by ranks of the receiver; nothing when there is
  /// none. Fails when it has another type.
  mlir::FailureOr<std::optional<Ranks>> receive(spmd::RecvOp recv);
  /// Brings a stage's operands of a collective to the others; nothing until
  /// all stages have come, then the operands of all ranks. Fails when another
  /// stage has come with another op.
  mlir::FailureOr<std::optional<Ranks>> meet(mlir::Operation &op,
                                             const Ranks &own);

  /// Fails when a message was not received.
  mlir::LogicalResult checkDone();

private:
  struct Meeting {
    llvm::SmallVector<mlir::Operation *> ops; ///< by stage, null: not there yet
    Ranks values;
  };
  using Key = std::tuple<int64_t, int64_t, std::string>;
  using Channel = std::deque<std::pair<spmd::SendOp, Ranks>>;

  std::vector<llvm::SmallVector<int64_t>> ranks; ///< of each stage
  int64_t rankCount, holds;
  std::map<Key, Channel> channels; ///< by sender, receiver and name
  std::vector<Meeting> meetings;
  llvm::SmallVector<size_t> met; ///< by each stage
};

} // namespace kerf

#endif // KERF_LIB_INTERPRETER_LINKS_H
