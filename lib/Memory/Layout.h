//===- Layout.h - when buffers live and where they are placed -------------===//

#ifndef KERF_LIB_MEMORY_LAYOUT_H
#define KERF_LIB_MEMORY_LAYOUT_H

#include "Storage.h"

#include "kerf/Dialect/Exec/Exec.h"
#include "kerf/Memory/Place.h"

namespace kerf {

/// What a command does with a buffer.
struct BufferUse {
  unsigned buffer = 0;
  int64_t access = 0; ///< kerf_access
  bool moves = false; ///< from iteration to iteration
};

/// The commands of a function, as far as buffers are concerned.
struct FuncUses {
  struct Command {
    int64_t loop = -1; ///< number of the loop that it is in; -1: none
    llvm::SmallVector<BufferUse> uses;
  };
  std::string name;
  std::vector<Command> commands;
};

/// The arena: an offset for every buffer that is used, -1 for others.
struct ArenaLayout {
  std::vector<int64_t> offsets;
  /// Intervals of commands; none: always.
  std::vector<llvm::SmallVector<LifeInterval>> lives;
  int64_t sizeBytes = 0;
  int64_t lowerBoundBytes = 0;
  /// Largest sum of each class at one time.
  llvm::SmallVector<int64_t> classBytes;
};

/// Places the buffers of a program whose functions use them so. Fails where a
/// slot buffer has too few copies.
mlir::FailureOr<ArenaLayout> layOut(exec::ProgramOp program,
                                    llvm::ArrayRef<Buffer> buffers,
                                    llvm::ArrayRef<FuncUses> funcs);

} // namespace kerf

#endif // KERF_LIB_MEMORY_LAYOUT_H
