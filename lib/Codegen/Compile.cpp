//===- Compile.cpp - all kernels of a module as one image -----------------===//

#include "Machine.h"
#include "Parts.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Support/Gpus.h"

#include "llvm/ADT/StringExtras.h"

#include <atomic>
#include <limits>
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
  llvm::SmallVector<char, 0> object; ///< for a CPU
  std::string ptx;                   ///< for a GPU
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

static std::string symbolOf(uint64_t hash) {
  return "k" + llvm::utohexstr(hash, /*LowerCase=*/true, 16);
}

static void describe(CompiledKernel &result, exec::KernelOp kernel) {
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

static void describeForGpu(CompiledKernel &result, exec::KernelOp kernel,
                           const GpuTarget &target) {
  GpuParts gpu = gpuPartsOf(kernel, target.processors);
  for (const Part &part : gpu.parts)
    result.units += part.units();
  result.threads = gpu.threads;
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
  if (auto error = emitKernel(job.kernel, partsOf(job.kernel), *module,
                              job.result.symbol, codeOptionsFor(target))) {
    job.error = *error;
    return;
  }
  auto object =
      makeObject(*module, target, job.result.symbol, options.dumpTo, job.error);
  if (succeeded(object))
    job.object = std::move(*object);
}

static void compile(Job &job, const GpuTarget &target,
                    const CompileOptions &options, MLIRContext &context) {
  auto module =
      OwningOpRef<ModuleOp>(ModuleOp::create(UnknownLoc::get(&context)));
  GpuParts gpu = gpuPartsOf(job.kernel, target.processors);
  // Every GPU from sm_80 on rounds to bf16.
  CodeOptions code{gpu.maxLanes, /*hasBf16=*/true, gpu.threads,
                   hasFloat8(target.name)};
  if (auto error =
          emitKernel(job.kernel, gpu.parts, *module, job.result.symbol, code)) {
    job.error = *error;
    return;
  }
  auto ptx = makePtx(*module, target, job.result.symbol, gpu.threads,
                     gpu.registers, options.dumpTo, job.error);
  if (succeeded(ptx))
    job.ptx = std::move(*ptx);
}

template <typename Target>
static void compileAll(std::vector<Job> &jobs, const Target &target,
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

/// Fails with a diagnostic if a launch cannot have so many blocks or arguments.
static LogicalResult checkLaunch(exec::KernelOp kernel,
                                 const CompiledKernel &described) {
  // 4 KiB of parameters, before PTX 8.1.
  constexpr int64_t mostArguments = 4096 / sizeof(uint64_t);
  if (described.argumentCount > mostArguments)
    return kernel.emitOpError()
           << "has " << described.argumentCount
           << " arguments and results, a kernel of a GPU has at most "
           << mostArguments;
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (described.units <= most)
    return success();
  auto diagnostic = kernel.emitOpError()
                    << "has " << described.units
                    << " blocks, a launch of a GPU has at most " << most;
  diagnostic.attachNote()
      << "split the tensors over more ranks, or take smaller "
         "micro-batches";
  return failure();
}

/// The kernels of a module, each content once, sorted by symbol.
static std::vector<Job> jobsOf(Operation *module, CompiledKernels &all) {
  std::map<std::string, exec::KernelOp> bySymbol;
  llvm::SmallVector<std::string> symbols;
  module->walk([&](exec::KernelOp kernel) {
    symbols.push_back(symbolOf(kernelHash(kernel)));
    bySymbol.try_emplace(symbols.back(), kernel);
  });
  std::vector<Job> jobs;
  std::map<std::string, size_t> positions;
  for (auto &[symbol, kernel] : bySymbol) {
    positions[symbol] = jobs.size();
    Operation *own = ownOpOf(kernel);
    Job job;
    job.kernel = kernel;
    job.own = own ? getOwnKernel(own) : std::nullopt;
    job.result.hash = kernelHash(kernel);
    job.result.symbol = symbol;
    job.result.argumentCount =
        kernel.getArgumentTypes().size() + kernel.getResultTypes().size();
    jobs.push_back(std::move(job));
  }
  for (const std::string &symbol : symbols)
    all.kernelOf.push_back(positions[symbol]);
  return jobs;
}

/// Takes over what the jobs describe. Fails with a diagnostic if one did.
static LogicalResult collect(std::vector<Job> &jobs, CompiledKernels &all) {
  for (Job &job : jobs) {
    if (!job.error.empty())
      return (job.own ? ownOpOf(job.kernel) : job.kernel.getOperation())
          ->emitOpError(job.error);
    all.kernels.push_back(job.result);
  }
  return success();
}

FailureOr<CompiledKernels> kerf::compileKernels(Operation *module,
                                                const CpuTarget &target,
                                                const CompileOptions &options) {
  CompiledKernels all;
  std::vector<Job> jobs = jobsOf(module, all);
  for (Job &job : jobs) {
    describe(job.result, job.kernel);
    if (failed(checkUnits(job.kernel, job.result)))
      return failure();
  }
  compileAll(jobs, target, options);
  if (failed(collect(jobs, all)))
    return failure();
  all.features = target.features;
  if (jobs.empty())
    return all;
  std::vector<llvm::SmallVector<char, 0>> objects;
  for (Job &job : jobs)
    objects.push_back(std::move(job.object));
  std::string error;
  FailureOr<std::string> image = linkShared(objects, error);
  if (failed(image))
    return module->emitOpError(error);
  all.image = std::move(*image);
  return all;
}

/// The number before `word` in a line; 0 if there is none.
static uint32_t numberBefore(llvm::StringRef line, llvm::StringRef word) {
  llvm::StringRef text = line.take_front(line.find(word)).rtrim();
  size_t begin = text.find_last_not_of("0123456789");
  uint32_t number = 0;
  if (!line.contains(word) ||
      text.drop_front(begin + 1).getAsInteger(10, number))
    return 0;
  return number;
}

/// Takes over what ptxas said with `-v`: for each kernel a line that names it,
/// then lines about it.
static void readUsage(llvm::StringRef messages,
                      std::vector<CompiledKernel> &kernels) {
  CompiledKernel *kernel = nullptr;
  llvm::SmallVector<llvm::StringRef> lines;
  messages.split(lines, '\n');
  for (llvm::StringRef line : lines) {
    if (line.contains("Compiling entry function")) {
      llvm::StringRef symbol = line.split('\'').second.split('\'').first;
      auto *found = llvm::find_if(
          llvm::MutableArrayRef(kernels),
          [&](const CompiledKernel &each) { return each.symbol == symbol; });
      kernel = found == kernels.data() + kernels.size() ? nullptr : found;
    }
    if (!kernel)
      continue;
    if (line.contains("spill stores"))
      kernel->spilledBytes = numberBefore(line, " bytes spill stores");
    if (line.contains("Used ")) {
      kernel->registers = numberBefore(line, " registers");
      kernel->sharedBytes = numberBefore(line, " bytes smem");
    }
  }
}

FailureOr<CompiledKernels> kerf::compileKernels(Operation *module,
                                                const GpuTarget &target,
                                                const CompileOptions &options) {
  CompiledKernels all;
  std::vector<Job> jobs = jobsOf(module, all);
  for (Job &job : jobs) {
    if (job.own)
      return ownOpOf(job.kernel)->emitOpError()
             << "brings a kernel for CPUs, which a GPU cannot run: compile "
                "with '--target=cpu', or give the op a decomposition";
    describeForGpu(job.result, job.kernel, target);
    if (failed(checkLaunch(job.kernel, job.result)))
      return failure();
  }
  compileAll(jobs, target, options);
  if (failed(collect(jobs, all)))
    return failure();
  all.features = {target.name};
  if (jobs.empty())
    return all;
  std::vector<std::string> modules;
  for (Job &job : jobs)
    modules.push_back(std::move(job.ptx));
  all.ptx = joinPtx(modules);
  if (target.ptxas.empty())
    return all;
  std::string error;
  FailureOr<Assembled> assembled = assemble(all.ptx, target, error);
  if (failed(assembled)) {
    auto diagnostic = module->emitError(error);
    diagnostic.attachNote() << "set KERF_PTXAS to another ptxas, or to nothing "
                               "to ship PTX alone";
    return failure();
  }
  all.image = std::move(assembled->cubin);
  readUsage(assembled->messages, all.kernels);
  return all;
}
