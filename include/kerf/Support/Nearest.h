//===- Nearest.h - what a misspelt word may have meant --------------------===//

#ifndef KERF_SUPPORT_NEAREST_H
#define KERF_SUPPORT_NEAREST_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace kerf {

/// Of some words the one with the fewest letters to change, add or remove, the
/// first of several; "" where more than a third of `word` is other, or `word`
/// has over 64 letters. Refers to the text of `words`.
llvm::StringRef nearestWord(llvm::ArrayRef<llvm::StringRef> words,
                            llvm::StringRef word);

} // namespace kerf

#endif // KERF_SUPPORT_NEAREST_H
