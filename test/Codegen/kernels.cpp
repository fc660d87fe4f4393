//===- kernels.cpp - runs generated kernels and compares ------------------===//
//
//   kerf-kernels FILE.mlir [--cpu NAME] [--bench] [--threads N] [--tolerance X]
//                [--dump FOLDER] [--plugin FILE] [--elements] [--print]
//                [--no-split] [--gpu NAME] [--ptx FILE]
//
// For each exec.kernel of the file, whose body may have high-level ops: splits
// it, compiles it, runs it on seeded inputs and compares each result with the
// op-by-op evaluation in f64. Results start as NaN patterns. Runs again with
// the units cut at odd places: every bit must be the same. With --bench prints
// times instead of comparing, with --print the kernels and values of each
// launch. With --gpu kernels are for that GPU and run on the first one; with
// --ptx their code is written instead.
//
//===----------------------------------------------------------------------===//

#include "GpuDriver.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Codegen/Codegen.h"
#include "kerf/Dialect/Kerf/Decompose.h"
#include "kerf/Dialect/Kerf/Random.h"
#include "kerf/Pipeline/Stages.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace mlir;
using namespace kerf;

namespace {
struct Options {
  std::string path, cpu = "native", gpu, ptx, dumpTo;
  std::vector<std::string> plugins; ///< dialects
  double tolerance = 2e-5;
  bool bench = false;
  bool print = false;    ///< the launches instead of running them
  bool noSplit = false;  ///< compile kernels as they are
  bool elements = false; ///< errors are relative to each element
  unsigned threads = 2;
};

using Bytes = std::vector<char>;

/// A kernel with all that running it needs.
struct Case {
  std::string name;
  OwningOpRef<ModuleOp> original; ///< for the evaluation
  SplitKernel split;
};
} // namespace

static Options options;

//===----------------------------------------------------------------------===//
// Tensors as bytes
//===----------------------------------------------------------------------===//

static int64_t elementBytes(Type type) {
  return type.isInteger(1) ? 1 : type.getIntOrFloatBitWidth() / 8;
}

static int64_t bytesOf(RankedTensorType type) {
  return type.getNumElements() * elementBytes(type.getElementType());
}

template <typename T> static void put(char *to, T value) {
  std::memcpy(to, &value, sizeof value);
}
template <typename T> static T get(const char *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

static Bytes pack(const HostTensor &tensor) {
  Type type = tensor.type.getElementType();
  Bytes bytes(bytesOf(tensor.type));
  char *to = bytes.data();
  for (double x : tensor.data) {
    if (type.isF64())
      put(to, x);
    else if (type.isF32())
      put(to, static_cast<float>(x));
    else if (type.isInteger(32))
      put(to, static_cast<int32_t>(x));
    else if (type.isInteger(8))
      put(to, static_cast<int8_t>(x));
    else if (type.isInteger(1))
      put(to, static_cast<char>(x != 0));
    else {
      bool loses;
      llvm::APFloat number(x);
      number.convert(cast<FloatType>(type).getFloatSemantics(),
                     llvm::APFloat::rmNearestTiesToEven, &loses);
      put(to, static_cast<uint16_t>(number.bitcastToAPInt().getZExtValue()));
    }
    to += elementBytes(type);
  }
  return bytes;
}

static HostTensor unpack(RankedTensorType type, const Bytes &bytes) {
  HostTensor tensor(type);
  Type element = type.getElementType();
  const char *from = bytes.data();
  for (double &x : tensor.data) {
    if (element.isF64())
      x = get<double>(from);
    else if (element.isF32())
      x = get<float>(from);
    else if (element.isInteger(32))
      x = get<int32_t>(from);
    else if (element.isInteger(8))
      x = get<int8_t>(from);
    else if (element.isInteger(1))
      x = *from;
    else {
      llvm::APFloat number(cast<FloatType>(element).getFloatSemantics(),
                           llvm::APInt(16, get<uint16_t>(from)));
      bool loses;
      number.convert(llvm::APFloat::IEEEdouble(),
                     llvm::APFloat::rmNearestTiesToEven, &loses);
      x = number.convertToDouble();
    }
    from += elementBytes(element);
  }
  return tensor;
}

/// Inputs by seed. Argument attributes choose: `test.range = [low, high]` for
/// uniform numbers (or integers, high excluded), `test.value` for one number.
static HostTensor makeInput(exec::KernelOp kernel, unsigned argument) {
  auto type = cast<RankedTensorType>(kernel.getArgumentTypes()[argument]);
  HostTensor tensor(type);
  uint64_t stream = randomStream(1, argument, 0, kernel.getSymName());
  Type element = type.getElementType();
  double low = 0, high = isa<FloatType>(element) ? 0 : 8;
  auto number = [](Attribute attribute) {
    if (auto real = dyn_cast<FloatAttr>(attribute))
      return real.getValueAsDouble();
    return double(cast<IntegerAttr>(attribute).getInt());
  };
  if (auto range = kernel.getArgAttrOfType<ArrayAttr>(argument, "test.range")) {
    low = number(range[0]);
    high = number(range[1]);
  }
  Attribute value = kernel.getArgAttr(argument, "test.value");
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double x = low < high ? low + (high - low) * uniformAt(stream, i)
                          : normalAt(stream, i);
    if (value)
      x = number(value);
    else if (element.isInteger(1))
      x = uniformAt(stream, i) < 0.5;
    else if (!isa<FloatType>(element))
      x = std::floor(x);
    tensor.data[i] = roundToType(x, element, false);
  }
  return tensor;
}

//===----------------------------------------------------------------------===//
// Evaluation op by op
//===----------------------------------------------------------------------===//

static std::vector<HostTensor> evaluate(exec::KernelOp kernel,
                                        llvm::ArrayRef<HostTensor> inputs) {
  llvm::DenseMap<Value, HostTensor> values;
  for (auto [argument, input] :
       llvm::zip(kernel.getBody().getArguments(), inputs))
    values[argument] = input;
  for (Operation &op : kernel.getBody().front()) {
    auto plain = dyn_cast<EvaluateOpInterface>(op);
    if (!plain)
      continue;
    std::vector<HostTensor> operands;
    llvm::SmallVector<const HostTensor *> pointers;
    for (Value operand : op.getOperands())
      pointers.push_back(&values[operand]);
    llvm::SmallVector<HostTensor> results;
    for (Value result : op.getResults())
      results.emplace_back(typeOf(result));
    plain.evaluate(pointers, results);
    for (auto [value, tensor] : llvm::zip(op.getResults(), results)) {
      for (double &x : tensor.data)
        x = roundToType(x, tensor.type.getElementType(),
                        /*f64Compute=*/!isFloat8(tensor.type));
      values[value] = std::move(tensor);
    }
  }
  std::vector<HostTensor> results;
  for (Value value : kernel.getYield().getValues()) {
    results.push_back(values[value]);
    for (double &x : results.back().data)
      x = roundToType(x, typeOf(value).getElementType(), false);
  }
  return results;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static void *loadImage(const std::string &image) {
  int file = memfd_create("kernels", 0);
  if (file < 0 || write(file, image.data(), image.size()) !=
                      static_cast<ssize_t>(image.size()))
    return nullptr;
  std::string path = "/proc/self/fd/" + std::to_string(file);
  void *handle = dlopen(path.c_str(), RTLD_NOW);
  if (!handle)
    llvm::errs() << "dlopen: " << dlerror() << '\n';
  return handle;
}

namespace {
struct Loaded {
  CompiledKernels kernels;
  std::vector<kerf_kernel_fn> functions;
  std::unique_ptr<GpuDriver> gpu; ///< that runs them instead
  llvm::DenseMap<Operation *, size_t> numberOf;
};
enum class Cut { None, Odd, Backwards };
} // namespace

static void launch(kerf_kernel_fn function, void *const *arguments,
                   int64_t units, Cut cut) {
  if (cut == Cut::None)
    return function(arguments, 0, units);
  if (cut == Cut::Odd) {
    for (int64_t at = 0, step = 1; at < units; at += step, step = step * 3 % 17)
      function(arguments, at, std::min(at + step, units));
    return;
  }
  for (int64_t at = units; at > 0; --at)
    function(arguments, at - 1, at);
}

static void fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << '\n';
  std::exit(1);
}

/// Runs a kernel on a GPU.
static void launchOnGpu(const Loaded &loaded, exec::KernelOp kernel,
                        llvm::ArrayRef<int64_t> values,
                        std::vector<Bytes> &buffers) {
  size_t inputs = kernel.getArgumentTypes().size();
  std::vector<Bytes *> arguments;
  std::vector<Bytes> own(buffers); // what each value had before
  for (auto [i, value] : llvm::enumerate(values)) {
    int64_t shared = i < inputs ? -1 : kernel.getInplaceArgument(i - inputs);
    arguments.push_back(&own[shared < 0 ? value : values[shared]]);
  }
  std::string error;
  if (!loaded.gpu->launch(
          loaded.kernels.kernels[loaded.numberOf.lookup(kernel)], arguments,
          error))
    fail(kernel.getSymName() + ": " + error);
  for (auto [i, value] : llvm::enumerate(values))
    if (i >= inputs)
      buffers[value] = *arguments[i];
}

/// Runs all launches; returns the buffers of all values.
static std::vector<Bytes> run(const Loaded &loaded, const Case &test,
                              const std::vector<Bytes> &inputs, Cut cut) {
  std::vector<Bytes> buffers = inputs;
  for (const KernelLaunch &step : test.split.launches) {
    std::vector<void *> arguments;
    exec::KernelOp kernel = step.kernel;
    for (auto [i, value] : llvm::enumerate(step.values)) {
      if (static_cast<size_t>(value) >= buffers.size())
        buffers.resize(value + 1);
      if (i < kernel.getArgumentTypes().size())
        continue;
      unsigned result = i - kernel.getArgumentTypes().size();
      auto type = cast<RankedTensorType>(kernel.getResultTypes()[result]);
      int64_t shared = kernel.getInplaceArgument(result);
      // A byte more on each side is watched.
      buffers[value] = shared >= 0 ? buffers[step.values[shared]]
                                   : Bytes(bytesOf(type), char(0xff));
    }
    if (loaded.gpu) {
      launchOnGpu(loaded, kernel, step.values, buffers);
      continue;
    }
    std::vector<Bytes> guarded;
    for (int64_t value : step.values) {
      Bytes bytes(64, char(0x5a));
      bytes.insert(bytes.end(), buffers[value].begin(), buffers[value].end());
      bytes.resize(bytes.size() + 64, char(0x5a));
      guarded.push_back(std::move(bytes));
    }
    for (auto [i, bytes] : llvm::enumerate(guarded)) {
      int64_t shared =
          i < kernel.getArgumentTypes().size()
              ? -1
              : kernel.getInplaceArgument(i - kernel.getArgumentTypes().size());
      arguments.push_back((shared >= 0 ? guarded[shared] : bytes).data() + 64);
    }
    size_t number = loaded.numberOf.lookup(kernel);
    launch(loaded.functions[number], arguments.data(),
           loaded.kernels.kernels[number].units, cut);
    for (auto [i, value] : llvm::enumerate(step.values)) {
      const char *data = static_cast<const char *>(arguments[i]);
      for (int64_t j = 1; j <= 64; ++j)
        if (data[-j] != 0x5a || data[buffers[value].size() + j - 1] != 0x5a) {
          llvm::errs() << test.name << ": wrote outside of argument " << i
                       << '\n';
          std::exit(1);
        }
      if (i >= kernel.getArgumentTypes().size())
        std::copy_n(data, buffers[value].size(), buffers[value].begin());
    }
  }
  return buffers;
}

//===----------------------------------------------------------------------===//
// Comparing
//===----------------------------------------------------------------------===//

/// Relative error of a tensor: the largest difference over the largest
/// magnitude. Not finite numbers must agree.
static double errorOf(const HostTensor &actual, const HostTensor &expected) {
  double scale = 1e-30, difference = 0;
  for (double x : expected.data)
    if (std::isfinite(x))
      scale = std::max(scale, std::abs(x));
  for (int64_t i = 0; i < actual.size(); ++i) {
    double a = actual.data[i], e = expected.data[i];
    if (a == e || (std::isnan(a) && std::isnan(e)) ||
        static_cast<float>(a) == static_cast<float>(e))
      continue;
    double d = std::abs(a - e);
    // What exp has below the normal numbers is 0 on a GPU.
    if (!options.gpu.empty() && a == 0 && std::abs(e) < 0x1p-126)
      d = 0;
    if (options.elements) // below the normal numbers absolutely
      d *= scale / std::max(std::abs(e), 1.2e-38);
    difference = std::max(difference, std::isfinite(d) ? d : INFINITY);
  }
  return difference / scale;
}

static double toleranceOf(RankedTensorType type) {
  Type element = type.getElementType();
  if (isa<IntegerType>(element))
    return 0;
  if (element.isBF16())
    return 0.0045;
  return element.isF16() ? 0.0007 : options.tolerance;
}

static bool check(const Loaded &loaded, Case &test) {
  auto kernel = *test.original->getOps<exec::KernelOp>().begin();
  std::vector<HostTensor> inputs;
  std::vector<Bytes> bytes;
  for (unsigned i = 0; i < kernel.getArgumentTypes().size(); ++i) {
    inputs.push_back(makeInput(kernel, i));
    bytes.push_back(pack(inputs.back()));
  }
  std::vector<HostTensor> expected = evaluate(kernel, inputs);
  std::vector<Bytes> whole = run(loaded, test, bytes, Cut::None);
  bool isRight = true;
  double worst = 0;
  for (Cut cut : {Cut::Odd, Cut::Backwards})
    if (!loaded.gpu && run(loaded, test, bytes, cut) != whole) {
      llvm::errs() << test.name << ": another split of the units, other bits\n";
      isRight = false;
    }
  for (auto [i, tensor] : llvm::enumerate(expected)) {
    HostTensor actual = unpack(tensor.type, whole[inputs.size() + i]);
    double error = errorOf(actual, tensor);
    worst = std::max(worst, error);
    if (error <= toleranceOf(tensor.type))
      continue;
    isRight = false;
    llvm::errs() << test.name << ": result " << i << " has error " << error
                 << "; first elements";
    for (int64_t j = 0, shown = 0; j < tensor.size() && shown < 4; ++j)
      if (!(std::abs(actual.data[j] - tensor.data[j]) <
            toleranceOf(tensor.type) + 1e-9)) {
        llvm::errs() << " [" << j << "] " << actual.data[j] << " for "
                     << tensor.data[j];
        ++shown;
      }
    llvm::errs() << '\n';
  }
  llvm::outs() << test.name << ": " << (isRight ? "ok" : "WRONG") << ", "
               << test.split.launches.size() << " launches, error "
               << llvm::format("%.1e", worst) << '\n';
  return isRight;
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

static double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Runs a launch on the threads, pieces handed out by a counter.
static void launchParallel(const CompiledKernel &kernel, kerf_kernel_fn f,
                           void *const *arguments) {
  std::atomic<int64_t> next = 0;
  auto work = [&] {
    for (int64_t at = next.fetch_add(kernel.grain); at < kernel.units;
         at = next.fetch_add(kernel.grain))
      f(arguments, at, std::min(at + kernel.grain, kernel.units));
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < options.threads; ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
}

static void bench(const Loaded &loaded, Case &test) {
  auto kernel = *test.original->getOps<exec::KernelOp>().begin();
  std::vector<char *> buffers;
  double bytes = 0;
  auto add = [&](RankedTensorType type) {
    int64_t size = bytesOf(type);
    auto *data =
        static_cast<char *>(std::aligned_alloc(64, (size + 127) / 64 * 64));
    std::memset(data, 0, size);
    buffers.push_back(data);
    return size;
  };
  for (unsigned i = 0; i < kernel.getArgumentTypes().size(); ++i) {
    Bytes input = pack(makeInput(kernel, i));
    bytes += add(cast<RankedTensorType>(kernel.getArgumentTypes()[i]));
    std::memcpy(buffers.back(), input.data(), input.size());
  }
  for (Type type : kernel.getResultTypes())
    bytes += add(cast<RankedTensorType>(type));
  for (RankedTensorType type : test.split.temporaries)
    add(type);
  std::vector<double> times;
  for (int round = 0; round < 22; ++round) {
    double start = now();
    for (const KernelLaunch &step : test.split.launches) {
      std::vector<void *> arguments;
      for (int64_t value : step.values)
        arguments.push_back(buffers[value]);
      size_t number = loaded.numberOf.lookup(step.kernel);
      launchParallel(loaded.kernels.kernels[number], loaded.functions[number],
                     arguments.data());
    }
    times.push_back(now() - start);
  }
  // The first runs touch the pages.
  std::sort(times.begin() + 2, times.end());
  double median = times[2 + (times.size() - 2) / 2], best = times[2];
  llvm::outs() << llvm::format(
      "%-26s %9.3f ms %8.1f GB/s   best %9.3f ms %8.1f GB/s\n",
      test.name.c_str(), median * 1e3, bytes / median * 1e-9, best * 1e3,
      bytes / best * 1e-9);
  for (char *buffer : buffers)
    std::free(buffer);
}

//===----------------------------------------------------------------------===//
// Main
//===----------------------------------------------------------------------===//

static std::vector<Case> splitAll(ModuleOp module) {
  std::vector<Case> cases;
  llvm::SmallVector<exec::KernelOp> kernels(module.getOps<exec::KernelOp>());
  for (exec::KernelOp kernel : kernels) {
    Case test;
    test.name = kernel.getSymName().str();
    test.original = ModuleOp::create(kernel.getLoc());
    test.original->push_back(kernel->clone());
    if (!options.noSplit)
      test.split = splitKernel(kernel, {/*forGpu=*/!options.gpu.empty()});
    cases.push_back(std::move(test));
  }
  return cases;
}

/// The launches as text: values by number, then the kernel.
static void print(std::vector<Case> &cases) {
  for (Case &test : cases)
    for (KernelLaunch &launch : test.split.launches) {
      llvm::outs() << "launch";
      for (int64_t value : launch.values)
        llvm::outs() << ' ' << value;
      llvm::outs() << '\n' << launch.kernel << '\n';
    }
}

/// Loads the compiled kernels into this process.
static void loadOnCpu(Loaded &loaded) {
  void *handle =
      loaded.kernels.image.empty() ? nullptr : loadImage(loaded.kernels.image);
  for (const CompiledKernel &kernel : loaded.kernels.kernels) {
    auto f = reinterpret_cast<kerf_kernel_fn>(
        handle ? dlsym(handle, kernel.symbol.c_str()) : nullptr);
    if (!f)
      fail("no symbol '" + kernel.symbol + "'");
    loaded.functions.push_back(f);
  }
}

static void loadOnGpu(Loaded &loaded) {
  std::string error;
  loaded.gpu = GpuDriver::open(error);
  if (!loaded.gpu || !loaded.gpu->load(loaded.kernels, error))
    fail(error);
}

static bool compile(ModuleOp module, Loaded &loaded) {
  std::string error;
  CompileOptions compileOptions;
  compileOptions.dumpTo = options.dumpTo;
  compileOptions.threads = options.gpu.empty() ? 1 : options.threads;
  double start = now();
  auto compileFor = [&](auto target) -> FailureOr<CompiledKernels> {
    if (failed(target))
      fail(error);
    return compileKernels(module, *target, compileOptions);
  };
  auto kernels = options.gpu.empty()
                     ? compileFor(resolveCpu(options.cpu, error))
                     : compileFor(resolveGpu(options.gpu, error));
  if (failed(kernels))
    return false;
  loaded.kernels = std::move(*kernels);
  llvm::errs() << loaded.kernels.kernels.size() << " kernels compiled in "
               << llvm::format("%.2f s, %zu bytes\n", now() - start,
                               loaded.kernels.image.size());
  size_t i = 0;
  module.walk([&](exec::KernelOp kernel) {
    loaded.numberOf[kernel] = loaded.kernels.kernelOf[i++];
  });
  return true;
}

/// Writes the code of a GPU's kernels.
static bool writePtx(const Loaded &loaded) {
  std::error_code code;
  llvm::raw_fd_ostream os(options.ptx, code);
  os << loaded.kernels.ptx;
  return !code;
}

static bool readArguments(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    bool hasNext = i + 1 < argc;
    if (word == "--bench")
      options.bench = true;
    else if (word == "--print")
      options.print = true;
    else if (word == "--no-split")
      options.noSplit = true;
    else if (word == "--elements")
      options.elements = true;
    else if (word == "--cpu" && hasNext)
      options.cpu = argv[++i];
    else if (word == "--gpu" && hasNext)
      options.gpu = argv[++i];
    else if (word == "--ptx" && hasNext)
      options.ptx = argv[++i];
    else if (word == "--threads" && hasNext)
      options.threads = std::atoi(argv[++i]);
    else if (word == "--tolerance" && hasNext)
      options.tolerance = std::atof(argv[++i]);
    else if (word == "--dump" && hasNext)
      options.dumpTo = argv[++i];
    else if (word == "--plugin" && hasNext)
      options.plugins.push_back(argv[++i]);
    else if (options.path.empty())
      options.path = word;
    else
      return false;
  }
  return !options.path.empty();
}

int main(int argc, char **argv) {
  if (!readArguments(argc, argv)) {
    llvm::errs() << "usage: kerf-kernels FILE [--cpu NAME] [--bench] "
                    "[--threads N] [--tolerance X] [--dump FOLDER] "
                    "[--plugin FILE] [--elements] [--print] [--no-split] "
                    "[--gpu NAME] [--ptx FILE]\n";
    return 1;
  }
  DialectRegistry registry;
  registry.insert<KerfDialect, exec::ExecDialect>();
  if (failed(loadPlugins(options.plugins, registry)))
    return 1;
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  // High-level ops are refused in kernels: they are decomposed before.
  auto module = parseSourceFile<ModuleOp>(
      options.path, sources,
      ParserConfig(&context, /*verifyAfterParse=*/false));
  if (!module)
    return 1;
  decomposeAll(*module);
  if (failed(verify(*module)))
    return 1;
  std::vector<Case> cases = splitAll(*module);
  if (options.print) {
    print(cases);
    return 0;
  }
  Loaded loaded;
  if (!compile(*module, loaded))
    return 1;
  if (!options.ptx.empty())
    return writePtx(loaded) ? 0 : 1;
  if (options.gpu.empty())
    loadOnCpu(loaded);
  else
    loadOnGpu(loaded);
  bool isRight = true;
  for (Case &test : cases) {
    if (options.bench)
      bench(loaded, test);
    else
      isRight &= check(loaded, test);
  }
  return isRight ? 0 : 1;
}
