//===- InspectTime.cpp - kerf-inspect time --------------------------------===//

#include "Fail.h"
#include "Inspect.h"

#include "kerf/Plan/SolvePlan.h"
#include "kerf/ProgramTime/ProgramTime.h"
#include "kerf/Report/MachineCheck.h"
#include "kerf/Support/Input.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;

/// Reads a compiled file, or says why not.
static std::string readProgram(llvm::StringRef path, ArtifactData &data) {
  auto buffer = readFileOrStdin(path);
  if (!buffer)
    return "cannot read '" + path.str() + "': " + toString(buffer.takeError());
  std::string error;
  if (succeeded(readArtifact((*buffer)->getBuffer(), data, error)))
    return "";
  return path.str() + ": " + error;
}

std::optional<ProgramTime> kerf::timeFile(llvm::StringRef path,
                                          const InspectOptions &options,
                                          bool keepEvents, ArtifactData &data,
                                          Machine &machine) {
  auto refuse = [](const llvm::Twine &message) {
    fail(message);
    return std::nullopt;
  };
  if (std::string error = readProgram(path, data); !error.empty())
    return refuse(error);
  mlir::MLIRContext context;
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler printer(sources, &context);
  auto cluster = readCluster(&context, options.cluster);
  if (failed(cluster))
    return std::nullopt;
  machine = std::move(*cluster);
  std::string error = checkCluster(data, machine);
  if (!error.empty())
    return refuse(path + ": " + error);
  auto time = timeProgram(data, machine, {}, keepEvents, error);
  if (!time)
    return refuse(path + ": " + error);
  return time;
}

int kerf::inspectTime(llvm::StringRef path, const InspectOptions &options) {
  if (options.cluster.empty())
    return fail("'time' needs --cluster=FILE, or a name that kerfc "
                "--cluster=list prints");
  ArtifactData data;
  Machine machine;
  auto time = timeFile(path, options, !options.trace.empty(), data, machine);
  if (!time)
    return 1;
  if (!options.trace.empty() &&
      failed(writeText(options.trace, traceOf(time->timeline))))
    return 1;
  llvm::outs() << (options.json ? printJson(data, *time)
                                : printText(data, machine, *time));
  return 0;
}

int kerf::inspectClusters(llvm::StringRef described, llvm::StringRef measured) {
  mlir::MLIRContext context;
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler printer(sources, &context);
  auto first = readCluster(&context, described);
  if (failed(first))
    return 1;
  if (measured.empty()) {
    llvm::outs() << describeCluster(*first);
    return 0;
  }
  auto second = readCluster(&context, measured);
  if (failed(second))
    return 1;
  int worse = 0;
  llvm::outs() << printFigures(*first, *second, measured.str(), worse);
  return worse > 0;
}
