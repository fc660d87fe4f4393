#include "kerf/Support/Nearest.h"

#include <algorithm>

llvm::StringRef kerf::nearestWord(llvm::ArrayRef<llvm::StringRef> words,
                                  llvm::StringRef word) {
  unsigned best = std::max<size_t>(2, word.size() / 3) + 1;
  llvm::StringRef nearest;
  if (word.size() > 64) // These cost time.
    return nearest;
  for (llvm::StringRef known : words) {
    unsigned distance =
        word.edit_distance(known, /*AllowReplacements=*/true, best);
    if (!known.empty() && distance < best) {
      best = distance;
      nearest = known;
    }
  }
  return nearest;
}
