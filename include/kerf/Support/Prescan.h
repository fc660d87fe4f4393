//===- Prescan.h - Check text before MLIR parses it -------------*- C++ -*-===//
//
// The MLIR parser recurses once per bracket and overflows the stack on text
// like 200,000 times '[', the printer on attributes made deep by aliases. Tools
// call `prescanText` first and parse only what it lets pass.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SUPPORT_PRESCAN_H
#define KERF_SUPPORT_PRESCAN_H

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace kerf {

/// What is wrong and where. Lines and columns start at 1, columns count bytes.
struct PrescanError {
  int line = 1;
  int column = 1;
  std::string message;
};

/// Looks over MLIR assembly `text` in linear time. Returns nothing when it is
/// fit for the parser, else the first reason why it is not:
/// - brackets (), [], {}, <> nested deeper than `maxDepth`; the position is
///   that of the first bracket too many. Comments, strings and the arrows and
///   comparisons '->', '<=', '>=' do not count.
/// - a word (name, number or shape) of more than 1024 bytes.
/// - an affine map of more than 4096 bytes.
/// - an attribute or type alias that is nested deeper than `maxDepth` or stands
///   for more than 1 MiB of text, with the aliases in it put in; uses of
///   aliases that stand for more than 64 MiB together.
/// - a NUL byte, anywhere.
/// - MLIR bytecode (magic "ML\xefR"), which is not checked well enough by its
///   reader to be taken from strangers.
/// Unbalanced brackets are left to the parser, which says it better.
[[nodiscard]] std::optional<PrescanError> prescanText(llvm::StringRef text,
                                                      int maxDepth = 256);

} // namespace kerf

#endif // KERF_SUPPORT_PRESCAN_H
