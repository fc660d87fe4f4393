//===- Compile.cpp - all kernels of a module as one image -----------------===//

#include "Machine.h"
#include "Parts.h"

#include "kerf/Artifact/Format.h"

#include "llvm/ADT/StringExtras.h"

#include <atomic>
#include <map>
#include <thread>

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

namespace {
/// Kernels of one content.
struct Job {
  exec::KernelOp kernel;
  std::optional<KernelCode> own; ///< that its op brought along
  CompiledKernel result;
  llvm::SmallVector<char, 0> object;
  std::string error;
};
} // namespace

/// Lanes of f32 that a vector of code has: a few registers, so that there is
/// independent work, but not so many that they spill.
static CodeOptions codeOptionsFor(const CpuTarget &target) {
  CodeOptions options;
  options.maxLanes =
      target.vectorBytes / 4 * (target.vectorBytes == 64 ? 4 : 2);
  options.hasBf16 = llvm::is_contained(target.features, "avx512bf16");
  return options;
}

/// The op of a kernel that brings its own code; null otherwise.
static Operation *ownOpOf(exec::KernelOp kernel) {
  return getOwnKernelOp(kernel.getBody().front());
}

static void describe(CompiledKernel &result, exec::KernelOp kernel) {
  result.hash = kernelHash(kernel);
  result.symbol = "k" + llvm::utohexstr(result.hash, /*LowerCase=*/true, 16);
  result.argumentCount =
      kernel.getArgumentTypes().size() + kernel.getResultTypes().size();
  if (Operation *op = ownOpOf(kernel)) {
    KernelCode own = *getOwnKernel(op);
    result.units = own.units;
    result.grain = own.grain;
    return;
  }
  for (const Part &part : partsOf(kernel)) {
    result.units += part.units();
    result.grain = std::max(result.grain, part.grain);
  }
}

static void compile(Job &job, const CpuTarget &target,
                    const CompileOptions &options, MLIRContext &context) {
  if (job.own) {
    auto object = makeOwnObject(*job.own, target, job.result.symbol,
                                options.dumpTo, job.error);
    if (succeeded(object))
      job.object = std::move(*object);
    return;
  }
  auto module =
      OwningOpRef<ModuleOp>(ModuleOp::create(UnknownLoc::get(&context)));
  if (auto error = emitKernel(job.kernel, *module, job.result.symbol,
                              codeOptionsFor(target))) {
    job.error = *error;
    return;
  }
  auto object =
      makeObject(*module, target, job.result.symbol, options.dumpTo, job.error);
  if (succeeded(object))
    job.object = std::move(*object);
}

static void compileAll(std::vector<Job> &jobs, const CpuTarget &target,
                       const CompileOptions &options) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    auto context = makeCodeContext();
    for (size_t i = next++; i < jobs.size(); i = next++)
      compile(jobs[i], target, options, *context);
  };
  std::vector<std::thread> threads;
  size_t count = std::min<size_t>(options.threads, jobs.size());
  for (size_t i = 1; i < count; ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
}

/// Fails with a diagnostic if a kernel's own numbers make no sense.
static LogicalResult checkUnits(exec::KernelOp kernel,
                                const CompiledKernel &described) {
  if (described.units >= 0 && described.grain >= 1)
    return success();
  return ownOpOf(kernel)->emitOpError()
         << "brings a kernel with " << described.units << " units of grain "
         << described.grain << ", expected at least 0 and 1";
}

FailureOr<CompiledKernels> kerf::compileKernels(Operation *module,
                                                const CpuTarget &target,
                                                const CompileOptions &options) {
  CompiledKernels all;
  std::map<std::string, exec::KernelOp> bySymbol;
  llvm::SmallVector<std::string> symbols;
  module->walk([&](exec::KernelOp kernel) {
    CompiledKernel described;
    described.hash = kernelHash(kernel);
    describe(described, kernel);
    bySymbol.try_emplace(described.symbol, kernel);
    symbols.push_back(described.symbol);
  });
  std::vector<Job> jobs;
  std::map<std::string, size_t> positions;
  for (auto &[symbol, kernel] : bySymbol) {
    positions[symbol] = jobs.size();
    Operation *own = ownOpOf(kernel);
    jobs.push_back(
        {kernel, own ? getOwnKernel(own) : std::nullopt, {}, {}, {}});
    describe(jobs.back().result, kernel);
    if (failed(checkUnits(kernel, jobs.back().result)))
      return failure();
  }
  compileAll(jobs, target, options);
  std::vector<llvm::SmallVector<char, 0>> objects;
  for (Job &job : jobs) {
    if (!job.error.empty())
      return (job.own ? ownOpOf(job.kernel) : job.kernel.getOperation())
          ->emitOpError(job.error);
    all.kernels.push_back(job.result);
    objects.push_back(std::move(job.object));
  }
  for (const std::string &symbol : symbols)
    all.kernelOf.push_back(positions[symbol]);
  all.features = target.features;
  if (jobs.empty())
    return all;
  std::string error;
  FailureOr<std::string> image = linkShared(objects, error);
  if (failed(image))
    return module->emitOpError(error);
  all.image = std::move(*image);
  return all;
}
