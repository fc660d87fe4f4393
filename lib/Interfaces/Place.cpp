//===- Place.cpp - where an op stands in its source -----------------------===//

#include "kerf/Interfaces/Place.h"

#include "llvm/Support/Path.h"

using namespace mlir;

std::string kerf::placeOf(Location location) {
  FileLineColLoc found;
  location->walk([&](Location part) {
    found = dyn_cast<FileLineColLoc>(part);
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (!found || found.getLine() == 0)
    return "";
  llvm::StringRef file = llvm::sys::path::filename(found.getFilename());
  std::string line = std::to_string(found.getLine());
  return file.empty() || file == "-" || file.starts_with("<")
             ? "line " + line
             : file.str() + ":" + line;
}
