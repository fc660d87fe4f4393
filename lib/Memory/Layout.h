//===- Layout.h - when buffers live and where they are placed -------------===//

#ifndef KERF_LIB_MEMORY_LAYOUT_H
#define KERF_LIB_MEMORY_LAYOUT_H

#include "Commands.h"

#include "kerf/Memory/Place.h"

namespace kerf {

/// The arena: an offset for every buffer that is used, -1 for others.
struct ArenaLayout {
  std::vector<int64_t> offsets;
  /// Intervals of commands; none: always.
  std::vector<llvm::SmallVector<LifeInterval>> lives;
  std::vector<int64_t> slotStrides; ///< bytes; 0 unless of slot scope
  int64_t sizeBytes = 0;
  int64_t lowerBoundBytes = 0;
  /// Largest sum of each class at one time.
  llvm::SmallVector<int64_t> classBytes;
};

/// Places all buffers of a program whose calls are known. Fails where a slot
/// buffer has too few copies.
mlir::FailureOr<ArenaLayout> layOut(spmd::ProgramOp program,
                                    const StorageMap &map,
                                    llvm::ArrayRef<PlannedFunc> funcs);

} // namespace kerf

#endif // KERF_LIB_MEMORY_LAYOUT_H
