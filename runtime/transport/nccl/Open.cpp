//===- Open.cpp - the libraries of NCCL and the driver --------------------===//

#include "Nccl.h"

#include "kerf/Artifact/Format.h"

#include "../../devices/cuda/Driver.h"

#include <algorithm>

using namespace kerf::runtime;
using namespace kerf::runtime::nccl;

DataType kerf::runtime::nccl::typeOf(uint32_t dtype) {
  switch (dtype) {
  case KERF_F32:
    return kFloat32;
  case KERF_BF16:
    return kBfloat16;
  case KERF_F16:
    return kFloat16;
  case KERF_I32:
    return kInt32;
  case KERF_F64:
    return kFloat64;
  case KERF_I8:
    return kInt8;
  default:
    return kUint8;
  }
}

const char *kerf::runtime::nccl::typeName(DataType type) {
  switch (type) {
  case kFloat32:
    return "f32";
  case kBfloat16:
    return "bf16";
  case kFloat16:
    return "f16";
  case kInt32:
    return "i32";
  case kFloat64:
    return "f64";
  case kInt8:
    return "i8";
  default:
    return "u8";
  }
}

uint64_t kerf::runtime::nccl::typeBytes(DataType type) {
  switch (type) {
  case kFloat32:
  case kInt32:
    return 4;
  case kBfloat16:
  case kFloat16:
    return 2;
  case kFloat64:
    return 8;
  default:
    return 1;
  }
}

//===----------------------------------------------------------------------===//
// NCCL
//===----------------------------------------------------------------------===//

// X(result, member, exported name, arguments)
#define KERF_NCCL(X)                                                           \
  X(Result, getVersion, ncclGetVersion, (int *version))                        \
  X(const char *, getErrorString, ncclGetErrorString, (Result result))         \
  X(const char *, getLastError, ncclGetLastError, (Comm comm))                 \
  X(Result, getUniqueId, ncclGetUniqueId, (UniqueId * id))                     \
  X(Result, commInitRankConfig, ncclCommInitRankConfig,                        \
    (Comm * comm, int size, UniqueId id, int rank, Config *config))            \
  X(Result, commSplit, ncclCommSplit,                                          \
    (Comm comm, int color, int key, Comm *part, Config *config))               \
  X(Result, commGetAsyncError, ncclCommGetAsyncError,                          \
    (Comm comm, Result * error))                                               \
  X(Result, commDestroy, ncclCommDestroy, (Comm comm))                         \
  X(Result, commAbort, ncclCommAbort, (Comm comm))                             \
  X(Result, groupStart, ncclGroupStart, ())                                    \
  X(Result, groupEnd, ncclGroupEnd, ())                                        \
  X(Result, allReduce, ncclAllReduce,                                          \
    (const void *source, void *destination, size_t count, DataType type,       \
     Reduction reduction, Comm comm, Stream stream))                           \
  X(Result, allGather, ncclAllGather,                                          \
    (const void *source, void *destination, size_t count, DataType type,       \
     Comm comm, Stream stream))                                                \
  X(Result, reduceScatter, ncclReduceScatter,                                  \
    (const void *source, void *destination, size_t count, DataType type,       \
     Reduction reduction, Comm comm, Stream stream))                           \
  X(Result, send, ncclSend,                                                    \
    (const void *data, size_t count, DataType type, int peer, Comm comm,       \
     Stream stream))                                                           \
  X(Result, receive, ncclRecv,                                                 \
    (void *data, size_t count, DataType type, int peer, Comm comm,             \
     Stream stream))

namespace {
/// The functions of an opened libnccl.
struct NcclTable {
#define KERF_NCCL_MEMBER(result, member, name, arguments)                      \
  result(*member) arguments;
  KERF_NCCL(KERF_NCCL_MEMBER)
#undef KERF_NCCL_MEMBER
  kerf::cuda::Library library;

  Status open() {
    std::vector<kerf::cuda::Symbol> symbols = {
#define KERF_NCCL_SYMBOL(result, member, name, arguments)                      \
  {#name, reinterpret_cast<void **>(&member)},
        KERF_NCCL(KERF_NCCL_SYMBOL)
#undef KERF_NCCL_SYMBOL
    };
    if (library.open({"libnccl.so.2", "libnccl.so"}) &&
        kerf::cuda::findSymbols(library, symbols))
      return {};
    return failure(KERF_UNSUPPORTED,
                   "%s; install NCCL 2.18 or later (Ubuntu: libnccl2; pip: "
                   "nvidia-nccl-cu13, for drivers before 580 "
                   "nvidia-nccl-cu12) or set KERF_CUDA_PATH to its folder",
                   library.failure.c_str());
  }
};

class LibraryNccl : public Nccl {
public:
  NcclTable table;

  Result getUniqueId(UniqueId &id) override { return table.getUniqueId(&id); }
  Result initRank(Comm &comm, int size, const UniqueId &id, int rank,
                  const Config &config) override {
    Config own = config;
    return table.commInitRankConfig(&comm, size, id, rank, &own);
  }
  Result split(Comm comm, int color, int key, Comm &part,
               const Config &config) override {
    Config own = config;
    return table.commSplit(comm, color, key, &part, &own);
  }
  Result getAsyncError(Comm comm, Result &error) override {
    return table.commGetAsyncError(comm, &error);
  }
  Result destroy(Comm comm) override { return table.commDestroy(comm); }
  Result abort(Comm comm) override { return table.commAbort(comm); }
  Result groupStart() override { return table.groupStart(); }
  Result groupEnd() override { return table.groupEnd(); }
  Result allReduce(const void *source, void *destination, uint64_t count,
                   DataType type, Reduction reduction, Comm comm,
                   Stream stream) override {
    return table.allReduce(source, destination, count, type, reduction, comm,
                           stream);
  }
  Result allGather(const void *source, void *destination, uint64_t count,
                   DataType type, Comm comm, Stream stream) override {
    return table.allGather(source, destination, count, type, comm, stream);
  }
  Result reduceScatter(const void *source, void *destination, uint64_t count,
                       DataType type, Reduction reduction, Comm comm,
                       Stream stream) override {
    return table.reduceScatter(source, destination, count, type, reduction,
                               comm, stream);
  }
  Result send(const void *data, uint64_t count, DataType type, int peer,
              Comm comm, Stream stream) override {
    return table.send(data, count, type, peer, comm, stream);
  }
  Result receive(void *data, uint64_t count, DataType type, int peer, Comm comm,
                 Stream stream) override {
    return table.receive(data, count, type, peer, comm, stream);
  }
  std::string text(Result result, Comm comm) const override {
    const char *meaning = table.getErrorString(result);
    const char *last = table.getLastError(comm);
    std::string text = meaning ? meaning : "unknown error";
    return last && *last ? text + " (" + last + ")" : text;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Driver
//===----------------------------------------------------------------------===//

// X(member, exported name, arguments). All return a CUresult, 0 when all is
// well.
#define KERF_NCCL_GPU(X)                                                       \
  X(getErrorString, cuGetErrorString, (int error, const char **text))          \
  X(streamCreate, cuStreamCreate, (Stream * stream, unsigned flags))           \
  X(streamDestroy, cuStreamDestroy_v2, (Stream stream))                        \
  X(streamQuery, cuStreamQuery, (Stream stream))                               \
  X(streamWaitEvent, cuStreamWaitEvent,                                        \
    (Stream stream, Event event, unsigned flags))                              \
  X(streamWriteValue, cuStreamWriteValue32_v2,                                 \
    (Stream stream, unsigned long long address, uint32_t value,                \
     unsigned flags))                                                          \
  X(eventCreate, cuEventCreate, (Event * event, unsigned flags))               \
  X(eventDestroy, cuEventDestroy_v2, (Event event))                            \
  X(eventRecord, cuEventRecord, (Event event, Stream stream))                  \
  X(copyOnDevice, cuMemcpyDtoDAsync_v2,                                        \
    (unsigned long long to, unsigned long long from, size_t bytes,             \
     Stream stream))                                                           \
  X(copy2D, cuMemcpy2DAsync_v2,                                                \
    (const kerf::cuda::CUDA_MEMCPY2D *copy, Stream stream))                    \
  X(hostAlloc, cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))  \
  X(hostFree, cuMemFreeHost, (void *memory))                                   \
  X(hostAddress, cuMemHostGetDevicePointer_v2,                                 \
    (unsigned long long *address, void *memory, unsigned flags))

namespace {
class LibraryGpu : public Gpu {
public:
#define KERF_NCCL_GPU_MEMBER(member, name, arguments) int(*member) arguments;
  KERF_NCCL_GPU(KERF_NCCL_GPU_MEMBER)
#undef KERF_NCCL_GPU_MEMBER
  kerf::cuda::Library library;

  Status open() {
    std::vector<kerf::cuda::Symbol> symbols = {
#define KERF_NCCL_GPU_SYMBOL(member, name, arguments)                          \
  {#name, reinterpret_cast<void **>(&member)},
        KERF_NCCL_GPU(KERF_NCCL_GPU_SYMBOL)
#undef KERF_NCCL_GPU_SYMBOL
    };
    if (library.open({"libcuda.so.1"}) &&
        kerf::cuda::findSymbols(library, symbols))
      return {};
    return failure(KERF_UNSUPPORTED, "no CUDA driver: %s",
                   library.failure.c_str());
  }

  Status makeStream(Stream &stream) override {
    return check(streamCreate(&stream, kerf::cuda::CU_STREAM_NON_BLOCKING),
                 "cuStreamCreate");
  }
  void freeStream(Stream stream) override { streamDestroy(stream); }
  Status makeEvent(Event &event) override {
    return check(eventCreate(&event, kerf::cuda::CU_EVENT_DISABLE_TIMING),
                 "cuEventCreate");
  }
  void freeEvent(Event event) override { eventDestroy(event); }
  Status record(Event event, Stream stream) override {
    return check(eventRecord(event, stream), "cuEventRecord");
  }
  Status wait(Stream stream, Event event) override {
    return check(streamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
  }
  Status copy(void *destination, const void *source, uint64_t bytes,
              Stream stream) override {
    return check(copyOnDevice(reinterpret_cast<uintptr_t>(destination),
                              reinterpret_cast<uintptr_t>(source), bytes,
                              stream),
                 "cuMemcpyDtoDAsync");
  }
  Status copyRows(const Pitched<void> &to, const Pitched<const void> &from,
                  uint64_t bytes, uint64_t rows, Stream stream) override {
    kerf::cuda::CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = copy.dstMemoryType = kerf::cuda::CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = reinterpret_cast<uintptr_t>(from.first);
    copy.srcPitch = from.pitchBytes;
    copy.dstDevice = reinterpret_cast<uintptr_t>(to.first);
    copy.dstPitch = to.pitchBytes;
    copy.WidthInBytes = bytes;
    copy.Height = rows;
    return check(copy2D(&copy, stream), "cuMemcpy2DAsync");
  }
  Status look(Stream stream, bool &isDone) override {
    int result = streamQuery(stream);
    isDone = result != kerf::cuda::CUDA_ERROR_NOT_READY;
    return isDone ? check(result, "a step") : Status();
  }

  Status makeWords(uint32_t count, uint32_t *&words) override {
    constexpr unsigned flags = kerf::cuda::CU_MEMHOSTALLOC_PORTABLE |
                               kerf::cuda::CU_MEMHOSTALLOC_DEVICEMAP;
    void *memory = nullptr;
    Status status = check(hostAlloc(&memory, count * sizeof(uint32_t), flags),
                          "cuMemHostAlloc");
    unsigned long long address = 0;
    if (!status.failed())
      status =
          check(hostAddress(&address, memory, 0), "cuMemHostGetDevicePointer");
    if (status.failed() && memory)
      hostFree(memory);
    if (status.failed())
      return status;
    words = static_cast<uint32_t *>(memory);
    std::fill(words, words + count, 0u);
    shift = address - reinterpret_cast<uintptr_t>(memory);
    return {};
  }
  void freeWords(uint32_t *words) override { hostFree(words); }
  Status write(uint32_t *word, uint32_t value, Stream stream) override {
    return check(streamWriteValue(stream,
                                  reinterpret_cast<uintptr_t>(word) + shift,
                                  value, 0),
                 "cuStreamWriteValue32");
  }

private:
  Status check(int result, const char *what) {
    if (result == 0)
      return {};
    const char *text = nullptr;
    getErrorString(result, &text);
    return failure(KERF_FAILED, "%s: %s", what, text ? text : "unknown error");
  }

  /// From the host's address of the words to the device's.
  uint64_t shift = 0;
};
} // namespace

Status kerf::runtime::nccl::openNccl(std::unique_ptr<Nccl> &nccl,
                                     std::unique_ptr<Gpu> &gpu) {
  auto library = std::make_unique<LibraryNccl>();
  auto driver = std::make_unique<LibraryGpu>();
  Status status = driver->open();
  if (!status.failed())
    status = library->table.open();
  if (status.failed())
    return status;
  nccl = std::move(library);
  gpu = std::move(driver);
  return {};
}

Status kerf::runtime::nccl::describeNccl(std::string &text) {
  NcclTable table;
  Status status = table.open();
  int version = 0;
  if (!status.failed() && table.getVersion(&version) != kSuccess)
    status = failure(KERF_FAILED, "'%s' does not tell its version",
                     table.library.path.c_str());
  if (status.failed())
    return status;
  // 2.18.3 is 21803.
  text = "NCCL " + std::to_string(version / 10000) + "." +
         std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100) + " (" + table.library.path + ")";
  return {};
}
