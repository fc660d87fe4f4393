//===- Counts.h - whole numbers as people read them -----------------------===//

#ifndef KERF_SUPPORT_COUNTS_H
#define KERF_SUPPORT_COUNTS_H

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace kerf {

/// 124439808.5 -> "124,439,808". `number` is rounded down.
std::string groupDigits(double number);

/// (1, "rank") -> "1 rank", (4, "rank") -> "4 ranks", (2, "batch", "es") ->
/// "2 batches".
std::string countOf(double number, llvm::StringRef noun,
                    llvm::StringRef plural = "s");

/// "1.5T", "300 B" (billions), "20M", "50k", "2e12" -> a number; none where it
/// is no finite number above 0.
std::optional<double> readCount(llvm::StringRef text);
/// "30d", "1.5 h", "90 min", "2 weeks", "1 year" -> seconds; none where it is
/// no duration above 0. A number alone is none.
std::optional<double> readDuration(llvm::StringRef text);

} // namespace kerf

#endif // KERF_SUPPORT_COUNTS_H
