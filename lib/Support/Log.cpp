//===- Log.cpp - what components say of their decisions -------------------===//

#include "kerf/Support/Log.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Debug.h"

using namespace kerf;

/// In the order of the stages.
static constexpr llvm::StringLiteral kNames[] = {
    "ingest",    "differentiate", "precision", "search", "layer",  "plan",
    "recompute", "partition",     "schedule",  "fuse",   "memory", "codegen"};

llvm::ArrayRef<llvm::StringLiteral> kerf::logNames() { return kNames; }

std::string kerf::describeLogOption() {
  return "Say on standard error what these decide, one line each: " +
         llvm::join(logNames(), ", ") + ", or all";
}

bool kerf::enableLogs(llvm::ArrayRef<std::string> names, std::string &error) {
  std::vector<const char *> chosen;
  for (const std::string &name : names) {
    const auto *found = llvm::find(kNames, llvm::StringRef(name));
    if (found != std::end(kNames))
      chosen.push_back(found->data());
    else if (name == "all")
      llvm::append_range(chosen, llvm::map_range(kNames, [](auto known) {
                           return known.data();
                         }));
    else {
      error = "--log does not know '" + name + "', only " +
              llvm::join(logNames(), ", ") + " and all";
      return false;
    }
  }
#ifdef NDEBUG
  if (!chosen.empty()) {
    error = "--log needs a build without NDEBUG";
    return false;
  }
#else
  if (!chosen.empty()) {
    llvm::DebugFlag = true;
    llvm::setCurrentDebugTypes(chosen.data(), chosen.size());
  }
#endif
  return true;
}
