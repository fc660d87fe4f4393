//===- Survivors.cpp ------------------------------------------------------===//

#include "Survivors.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

using namespace kerf;

int64_t kerf::lostAtOnce(const Machine &machine, int64_t devices) {
  int64_t unit = machine.tiers.empty() ? 1 : machine.tiers.front().size;
  return unit < devices ? unit : 1;
}

std::string kerf::survivorName(llvm::StringRef output, int64_t ranks) {
  llvm::SmallString<128> name(output);
  llvm::sys::path::replace_extension(name, "");
  name += "-" + std::to_string(ranks);
  name += llvm::sys::path::extension(output);
  return name.str().str();
}
