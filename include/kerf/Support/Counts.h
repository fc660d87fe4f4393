//===- Counts.h - whole numbers as people read them -----------------------===//

#ifndef KERF_SUPPORT_COUNTS_H
#define KERF_SUPPORT_COUNTS_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace kerf {

/// 124439808.5 -> "124,439,808". `number` is rounded down.
std::string groupDigits(double number);

/// (1, "rank") -> "1 rank", (4, "rank") -> "4 ranks", (2, "batch", "es") ->
/// "2 batches".
std::string countOf(double number, llvm::StringRef noun,
                    llvm::StringRef plural = "s");

} // namespace kerf

#endif // KERF_SUPPORT_COUNTS_H
