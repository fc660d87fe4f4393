//===- Mutate.h - mistakes in the programs of ranks -----------------------===//
//
// A mistake is made at a place of a module of scheduled programs, in what the
// schedule "train" calls. The IR stays valid.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TEST_RANDOM_MUTATE_H
#define KERF_TEST_RANDOM_MUTATE_H

#include "kerf/Dialect/Spmd/Spmd.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace kerf::test {

enum class Mistake {
  DropCollective,  ///< the own value stands for that of the group
  WrongGroup,      ///< other axes of the same number of ranks
  WrongFactor,     ///< N, 1/N or 2 times a value
  SwapShards,      ///< a neighbour's part, piece, or order of parts
  StaleMicro,      ///< the value of another micro-batch, or only the last
  DropGatherParam, ///< updated pieces stay where they are
  DropMessage,     ///< zeros stand for what is received
  WrongOffset,     ///< global indices of another part
  NormAlone,       ///< the norm of the gradient without a group
};
inline constexpr Mistake kMistakes[] = {
    Mistake::DropCollective, Mistake::WrongGroup,  Mistake::WrongFactor,
    Mistake::SwapShards,     Mistake::StaleMicro,  Mistake::DropGatherParam,
    Mistake::DropMessage,    Mistake::WrongOffset, Mistake::NormAlone};

/// `dropped collective`, ...
llvm::StringRef describeMistake(Mistake mistake);

/// How a micro-batch is mistaken for another one.
enum Stale {
  Overwrite,   ///< the last value stands for the sum
  RunAnother,  ///< all calls for a micro-batch are for the next one
  CallAnother, ///< one call is
  ReceiveLate, ///< what came for the call before is used
  OneCopy      ///< all slots of a buffer are one
};

/// Where a mistake can be made.
struct Site {
  Mistake mistake;
  mlir::Operation *op;
  int64_t variant = 0;       ///< which of the kind, see the mistake
  mlir::ArrayAttr axes = {}; ///< wrong ones
};

/// All places of all mistakes, in the order of the programs.
std::vector<Site> findSites(mlir::ModuleOp programs);

/// Why a mistake changes nothing, whatever the data; empty when it does.
std::string whyEquivalent(const Site &site);

/// Makes a mistake.
void makeMistake(const Site &site);

/// The ops that are to be changed with one over the axis of the pipeline: that
/// of the same number in each stage. Of other ops: the op alone.
llvm::SmallVector<mlir::Operation *> getPartners(mlir::Operation *op);

/// The `spmd.recv` that takes all messages of a `spmd.send` in training, and no
/// others; or null.
mlir::Operation *findReceive(mlir::Operation *send);

} // namespace kerf::test

#endif // KERF_TEST_RANDOM_MUTATE_H
