//===- CheckFiles.cpp - files of kerfc that cannot be read or written -----===//
//
// Told before anything is planned or trained, which may take long.
//
//===----------------------------------------------------------------------===//

#include "CompilerOptions.h"

#include "kerf/Support/Output.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"

using namespace kerf;

std::string kerf::findMissingFile(const CompilerOptions &options) {
  if (!options.plan.empty() && options.plan != "-" &&
      !llvm::sys::fs::exists(options.plan))
    return "cannot read plan '" + options.plan + "': No such file or directory";
  const PlanOptions &planner = options.planner;
  for (const std::string &path :
       {options.output.getValue(), planner.html.getValue(),
        planner.svg.getValue(), planner.explainJson.getValue()})
    if (std::string missing = checkFolderOf(path); !missing.empty())
      return "cannot write '" + path + "': " + missing;
  return "";
}

void kerf::noteIr(const CompilerOptions &options) {
  llvm::StringRef extension =
      llvm::sys::path::extension(options.output.getValue());
  bool isAsked = options.emit.getNumOccurrences() || !options.stopAfter.empty();
  if (options.output.getNumOccurrences() && !isAsked && !extension.empty() &&
      extension != ".mlir" && extension != ".kerf")
    llvm::WithColor::note() << "'" << options.output
                            << "' will have IR; a name that ends in .kerf has "
                               "compiled programs\n";
}
