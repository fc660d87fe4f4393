//===- InspectArtifact.cpp - kerf-inspect on compiled files ---------------===//

#include "Inspect.h"

#include "kerf/Artifact/Dump.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error() << message << '\n';
  return 1;
}

std::optional<int> kerf::inspectArtifact(llvm::StringRef command,
                                         llvm::StringRef path) {
  using Dump = void (*)(const ArtifactData &, llvm::raw_ostream &);
  Dump dump = llvm::StringSwitch<Dump>(command)
                  .Case("program", dumpProgram)
                  .Case("memory", dumpMemory)
                  .Case("kernels", dumpKernels)
                  .Case("params", dumpParams)
                  .Case("plan", dumpPlan)
                  .Default(nullptr);
  // `params` is of both kinds of files; text comes through a pipe, too, and can
  // be read once only.
  bool isBoth = command == "params";
  if (!dump || (isBoth && path == "-"))
    return std::nullopt;
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/false,
                                                   /*NullTerminator=*/false);
  if (!buffer)
    return isBoth
               ? std::nullopt
               : std::optional<int>(fail("cannot read '" + path +
                                         "': " + buffer.getError().message()));
  llvm::StringRef bytes = (*buffer)->getBuffer();
  if (isBoth && !isArtifact(bytes))
    return std::nullopt;
  ArtifactData data;
  std::string error;
  if (llvm::failed(readArtifact(bytes, data, error)))
    return fail(path + ": " + error);
  dump(data, llvm::outs());
  return 0;
}
