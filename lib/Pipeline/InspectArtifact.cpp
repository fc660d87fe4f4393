//===- InspectArtifact.cpp - kerf-inspect on compiled files ---------------===//

#include "Fail.h"
#include "Inspect.h"

#include "kerf/Artifact/Dump.h"
#include "kerf/PlanIR/PlanFile.h"
#include "kerf/Support/Input.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;

std::optional<int> kerf::inspectArtifact(llvm::StringRef command,
                                         llvm::StringRef path) {
  using Dump = void (*)(const ArtifactData &, llvm::raw_ostream &);
  Dump dump = llvm::StringSwitch<Dump>(command)
                  .Case("program", dumpProgram)
                  .Case("memory", dumpMemory)
                  .Case("kernels", dumpKernels)
                  .Case("ptx", dumpPtx)
                  .Case("params", dumpParams)
                  .Case("plan", dumpPlan)
                  .Default(nullptr);
  // `params` is of both kinds of files; text comes through a pipe, too, and can
  // be read once only.
  bool isBoth = command == "params";
  if (!dump || (isBoth && !llvm::sys::fs::is_regular_file(path)))
    return std::nullopt;
  auto buffer = readFileOrStdin(path);
  if (!buffer) {
    std::string why = toString(buffer.takeError());
    return isBoth
               ? std::nullopt
               : std::optional<int>(fail("cannot read '" + path + "': " + why));
  }
  llvm::StringRef bytes = (*buffer)->getBuffer();
  if (isBoth && !isArtifact(bytes))
    return std::nullopt;
  ArtifactData data;
  std::string error;
  if (llvm::failed(readArtifact(bytes, data, error)))
    return fail(path + ": " + error);
  if (command == "ptx" && data.ptx.empty())
    return fail(path + ": compiled for '" + data.strings.get(data.meta.target) +
                "', expected a file for cuda, which alone holds PTX");
  dump(data, llvm::outs());
  return 0;
}

namespace {
struct PlanText {
  std::string text;
  uint64_t program = 0; ///< of the compiled file that has it; 0: a plan's text
};
} // namespace

/// The plan in a compiled file, or the text of a plan.
static std::optional<PlanText> readPlan(llvm::StringRef path) {
  auto buffer = readFileOrStdin(path);
  if (!buffer) {
    fail("cannot read '" + path + "': " + toString(buffer.takeError()));
    return std::nullopt;
  }
  llvm::StringRef bytes = (*buffer)->getBuffer();
  if (!isArtifact(bytes))
    return PlanText{bytes.str()};
  ArtifactData data;
  std::string error;
  if (succeeded(readArtifact(bytes, data, error)))
    return PlanText{data.plan, data.meta.input_hash};
  fail(path + ": " + error);
  return std::nullopt;
}

int kerf::inspectPlans(llvm::StringRef pathA, llvm::StringRef pathB) {
  auto a = readPlan(pathA);
  auto b = a ? readPlan(pathB) : std::nullopt;
  if (!b)
    return 1;
  std::string error;
  auto text = comparePlans(a->text, pathA, b->text, pathB, error);
  if (!text) {
    llvm::errs() << error << '\n';
    return 1;
  }
  if (!text->empty()) {
    llvm::outs() << *text;
    return 0;
  }
  llvm::outs() << "the plans say the same\n";
  // Optimizer, number types and rates are the model's.
  if (a->program && b->program && a->program != b->program)
    llvm::outs() << "the programs differ: another model (its optimizer, too), "
                    "option or version of the compiler\n";
  return 0;
}
