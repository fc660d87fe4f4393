//===- Modules.cpp - loading PTX and launching its kernels ----------------===//

#include "State.h"

#include <cstdlib>
#include <cstring>

using namespace kerf::sim;

/// PTX only: machine code cannot be interpreted, as on a GPU of another kind.
static std::shared_ptr<Program> loadImage(const void *image) {
  require(image, InvalidValue, "no image");
  uint32_t magic = 0;
  memcpy(&magic, image, sizeof magic);
  bool isBinary = magic == 0x464C457F /* ELF */ || magic == 0xBA55ED50 ||
                  magic == 0x466243B1 /* several binaries */;
  require(!isBinary, NoBinaryForGpu, "machine code is not simulated");
  return loadPtx(static_cast<const char *>(image));
}

/// "sm_90a" to 90.
static void checkTarget(const Program &program) {
  int capability = 0, wanted = atoi(program.target.c_str() + 3);
  cuDeviceGetAttribute(&capability,
                       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  int minor = 0;
  cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
  capability = capability * 10 + minor;
  bool isExact = !program.target.empty() && program.target.back() == 'a';
  require(wanted <= capability && (!isExact || wanted == capability),
          InvalidPtx,
          "the PTX is for " + program.target + ", the device is sm_" +
              std::to_string(capability));
}

/// The driver that introduced a version of PTX, as its manual's release notes
/// list them: PTX 7.x came with CUDA 11.x, 8.0 to 8.5 with 12.0 to 12.5.
static int driverOf(const Program &program) {
  int major = atoi(program.version.c_str());
  size_t point = program.version.find('.');
  int minor = point == std::string::npos
                  ? 0
                  : atoi(program.version.c_str() + point + 1);
  bool isLater = major == 8 && minor > 5; // 8.6 to 8.8: 12.7 to 12.9
  return 1000 * (major + 4) + 10 * (minor + isLater);
}

static void checkVersion(const Program &program) {
  int driver = 0;
  cuDriverGetVersion(&driver);
  require(driverOf(program) <= driver, UnsupportedPtx,
          "the PTX is of version " + program.version + ", the driver of CUDA " +
              std::to_string(driver / 1000) + "." +
              std::to_string(driver % 1000 / 10));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values) {
  char *log = nullptr;
  size_t logBytes = 0;
  for (unsigned at = 0; at < count; ++at)
    if (options[at] == CU_JIT_ERROR_LOG_BUFFER)
      log = static_cast<char *>(values[at]);
    else if (options[at] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      logBytes = reinterpret_cast<uintptr_t>(values[at]);
  return call("cuModuleLoadData", true, [&] {
    forbidInCapture("cuModuleLoadData");
    try {
      auto made = std::make_unique<CUmod_st>();
      made->program = loadImage(image);
      checkVersion(*made->program);
      checkTarget(*made->program);
      *module = made.release();
      state().modules.insert(*module);
    } catch (const Trap &trap) {
      if (log && logBytes)
        snprintf(log, logBytes, "simulator: %s", trap.text.c_str());
      throw;
    }
  });
}
CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}
CUresult cuModuleUnload(CUmodule module) {
  return call("cuModuleUnload", true, [&] {
    forbidInCapture("cuModuleUnload");
    finishAll();
    require(state().modules.erase(module), InvalidHandle, "no such module");
    delete module;
  });
}

static void requireModule(CUmodule module) {
  require(state().modules.count(module), InvalidHandle, "no such module");
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                             const char *name) {
  return call("cuModuleGetFunction", true, [&] {
    requireModule(module);
    const Entry *entry = module->program->find(name);
    require(entry, NotFound, std::string("no kernel '") + name + "'");
    std::unique_ptr<CUfunc_st> &known = module->functions[name];
    if (!known)
      known.reset(new CUfunc_st{module, entry});
    *function = known.get();
  });
}
CUresult cuModuleGetGlobal(CUdeviceptr *address, size_t *bytes, CUmodule module,
                           const char *name) {
  return call("cuModuleGetGlobal", true, [&] {
    requireModule(module);
    auto found = module->program->globals.find(name);
    require(found != module->program->globals.end(), NotFound,
            std::string("no variable '") + name + "'");
    if (address)
      *address = found->second.first;
    if (bytes)
      *bytes = found->second.second;
  });
}

/// Bytes of dynamic shared memory that a launch may ask for.
static uint32_t dynamicLimit(const CUfunc_st &function) {
  uint32_t fixed = function.entry->sharedBytes, standard = 48 * 1024;
  return std::max(function.dynamicLimit,
                  fixed < standard ? standard - fixed : 0);
}

/// Threads of a block that a multiprocessor has registers for, if each takes as
/// many as its text allows. Each quarter of them serves whole warps: a block of
/// 9 warps takes the room of 12 (seen on an H100).
static uint32_t threadsByRegisters(uint32_t registers) {
  constexpr uint32_t ofQuarter = 65536 / 4, quarters = 4, warp = 32;
  uint32_t ofWarp = (registers + 7) / 8 * 8 * warp;
  return ofWarp ? ofQuarter / ofWarp * quarters * warp : UINT32_MAX;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                            CUfunction function) {
  return call("cuFuncGetAttribute", true, [&] {
    const Entry &entry = *function->entry;
    uint32_t most =
        entry.maxThreads[0] * entry.maxThreads[1] * entry.maxThreads[2];
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value =
          std::min(most ? most : 1024, threadsByRegisters(entry.maxRegisters));
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = entry.sharedBytes;
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = entry.localBytes;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 0; // nobody has assigned them
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = dynamicLimit(*function);
      break;
    default:
      require(false, InvalidValue, "the attribute is not simulated");
    }
  });
}
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset,
                            size_t *bytes) {
  return call("cuFuncGetParamInfo", true, [&] {
    const std::vector<Variable> &params = function->entry->params;
    require(index < params.size(), InvalidValue, "no such parameter");
    *offset = params[index].offset;
    if (bytes)
      *bytes = params[index].bytes;
  });
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                            int value) {
  return call("cuFuncSetAttribute", true, [&] {
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
      return; // a hint
    require(value >= 0 && value + function->entry->sharedBytes <= 227 * 1024,
            InvalidValue, "more shared memory than a block can have");
    function->dynamicLimit = value;
  });
}

// ---- Launches ---------------------------------------------------------------

static std::vector<uint8_t> packParams(const Entry &entry, void **arguments,
                                       void **extra) {
  std::vector<uint8_t> params(entry.paramBytes);
  if (arguments) {
    for (size_t at = 0; at < entry.params.size(); ++at) {
      const Variable &param = entry.params[at];
      require(arguments[at], InvalidValue,
              "argument " + std::to_string(at) + " is null");
      memcpy(params.data() + param.offset, arguments[at], param.bytes);
    }
    return params;
  }
  const void *buffer = nullptr;
  size_t bytes = 0;
  for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2)
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = *static_cast<size_t *>(extra[1]);
  require(params.empty() || buffer, InvalidValue, "no arguments");
  // As driver 580: too few are not told.
  require(bytes <= params.size(), LaunchOutOfResources,
          "more arguments than the kernel has");
  if (!params.empty())
    memcpy(params.data(), buffer, bytes);
  return params;
}

/// To load a kernel a driver may allocate and wait, which captures forbid.
static void requireLoaded(CUfunc_st &function, const CUstream_st &stream) {
  if (!stream.capture)
    function.isLoaded = true;
  if (function.isLoaded)
    return;
  stream.capture->isInvalid = true;
  throw Trap{CaptureUnsupported, "'" + function.entry->name +
                                     "' runs for the first time in a capture"};
}

CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY,
                        unsigned gridZ, unsigned blockX, unsigned blockY,
                        unsigned blockZ, unsigned sharedBytes, CUstream stream,
                        void **arguments, void **extra) {
  return call("cuLaunchKernel", true, [&] {
    require(function && state().modules.count(function->module), InvalidHandle,
            "no such kernel");
    const Entry *entry = function->entry;
    require(sharedBytes <= dynamicLimit(*function), InvalidValue,
            "more dynamic shared memory than cuFuncSetAttribute has allowed");
    Extent grid{gridX, gridY, gridZ}, threads{blockX, blockY, blockZ};
    checkLaunch(*entry, grid, threads, sharedBytes + entry->sharedBytes);
    std::vector<uint8_t> params = packParams(*entry, arguments, extra);
    CUstream_st &which = streamOf(stream);
    requireLoaded(*function, which);
    enqueue(which, [=, program = function->module->program,
                    params = std::move(params)] {
      launch(*program, *entry, grid, threads, sharedBytes, params);
    });
  });
}
