//===- RankOrder.h - in which order functions hand values over ------------===//

#ifndef KERF_LIB_PARTITION_RANKORDER_H
#define KERF_LIB_PARTITION_RANKORDER_H

#include "RankRules.h"

#include <map>

namespace kerf {

/// The send of which a receive takes the message.
using Messages = llvm::DenseMap<mlir::Operation *, spmd::SendOp>;

/// Functions send and receive in one order: the n-th of a channel's senders
/// sends to the n-th of its receivers.
Messages matchMessages(mlir::ModuleOp module);

/// What is known of the programs of a module.
struct RankKnowledge {
  Messages messages;
  llvm::DenseMap<mlir::Operation *, RankState> sent;
  /// By program and name.
  std::map<std::pair<mlir::Operation *, llvm::StringRef>, RankState> buffers;
};

/// The functions that are left, and what they write.
class RankOrder {
public:
  RankOrder(mlir::ModuleOp module, const RankKnowledge &knowledge);
  /// The next whose buffers and messages are known; null at the end.
  spmd::FuncOp next();

private:
  using Buffer = std::pair<mlir::Operation *, llvm::StringRef>;
  bool isReady(spmd::FuncOp func) const;
  bool isWritten(spmd::FuncOp func, const Buffer &buffer) const;

  const RankKnowledge &knowledge;
  std::vector<spmd::FuncOp> left;
  std::map<Buffer, llvm::SmallVector<spmd::FuncOp, 1>> writers;
};

} // namespace kerf

#endif // KERF_LIB_PARTITION_RANKORDER_H
