//===- Nccl.h - the part of NCCL and of CUDA that is used -----------------===//
//
// Own declarations, so that no header of NVIDIA is needed to build: numbers and
// types as NVIDIA's "NCCL API" documents them, of version 2.18 (which has
// ncclCommSplit) and as later ones keep them. The transport calls NCCL and the
// driver through two classes, so that the same code talks to the libraries
// (Open.cpp) and to a dry run that writes the calls down (Dry.cpp).
// test/Runtime/vendor_headers.py compares the declarations here and in Open.cpp
// with nccl.h and cuda.h where those are installed.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_NCCL_NCCL_H
#define KERF_RUNTIME_TRANSPORT_NCCL_NCCL_H

#include "Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>

struct ncclComm;
struct CUstream_st;
struct CUevent_st;

namespace kerf::runtime::nccl {

using Comm = ncclComm *;
using Stream = CUstream_st *;
using Event = CUevent_st *;

enum Result : int {
  kSuccess = 0,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum DataType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};

enum Reduction : int { kSum = 0, kMax = 2 };

/// Of a rank that is in none of the communicators that a split makes.
constexpr int kNoColor = -1;

/// What ranks need to find each other; made by one of them.
struct UniqueId {
  char bytes[128];
};

/// ncclConfig_t of NCCL 2.18; later versions take it as it is.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = 1; ///< 0: calls return kInProgress and are polled
  int cgaClusterSize = INT32_MIN, minCtas = INT32_MIN, maxCtas = INT32_MIN;
  const char *netName = nullptr;
  int splitShare = INT32_MIN;
  int unused = INT32_MIN; ///< later versions have a field in this place
};

/// The type of NCCL for a dtype of a file.
DataType typeOf(uint32_t dtype);
/// "f32"; "u8" for bytes.
const char *typeName(DataType type);
uint64_t typeBytes(DataType type);

/// The calls of NCCL that the transport makes. Sizes are in elements, peers
/// are places in the communicator.
class Nccl {
public:
  virtual ~Nccl() = default;

  virtual Result getUniqueId(UniqueId &id) = 0;
  virtual Result initRank(Comm &comm, int size, const UniqueId &id, int rank,
                          const Config &config) = 0;
  virtual Result split(Comm comm, int color, int key, Comm &part,
                       const Config &config) = 0;
  virtual Result getAsyncError(Comm comm, Result &error) = 0;
  virtual Result destroy(Comm comm) = 0;
  virtual Result abort(Comm comm) = 0;

  virtual Result groupStart() = 0;
  virtual Result groupEnd() = 0;
  virtual Result allReduce(const void *source, void *destination,
                           uint64_t count, DataType type, Reduction reduction,
                           Comm comm, Stream stream) = 0;
  virtual Result allGather(const void *source, void *destination,
                           uint64_t count, DataType type, Comm comm,
                           Stream stream) = 0;
  /// `count` elements of the destination.
  virtual Result reduceScatter(const void *source, void *destination,
                               uint64_t count, DataType type,
                               Reduction reduction, Comm comm,
                               Stream stream) = 0;
  virtual Result send(const void *data, uint64_t count, DataType type, int peer,
                      Comm comm, Stream stream) = 0;
  virtual Result receive(void *data, uint64_t count, DataType type, int peer,
                         Comm comm, Stream stream) = 0;

  /// What a result means, with what the library knows of the last failure.
  virtual std::string text(Result result, Comm comm) const = 0;
};

/// Rows that begin `pitchBytes` behind each other.
template <typename Byte> struct Pitched {
  Byte *first;
  uint64_t pitchBytes;
};

/// The calls of the driver that the transport makes besides those of the
/// device. The device's context is current.
class Gpu {
public:
  virtual ~Gpu() = default;

  virtual Status makeStream(Stream &stream) = 0;
  virtual void freeStream(Stream stream) = 0;
  virtual Status makeEvent(Event &event) = 0;
  virtual void freeEvent(Event event) = 0;
  /// `event` stands for what is on `stream` so far.
  virtual Status record(Event event, Stream stream) = 0;
  /// What comes on `stream` waits for `event` as it was recorded last.
  virtual Status wait(Stream stream, Event event) = 0;
  virtual Status copy(void *destination, const void *source, uint64_t bytes,
                      Stream stream) = 0;
  /// Copies `rows` rows of `bytes` bytes.
  virtual Status copyRows(const Pitched<void> &to,
                          const Pitched<const void> &from, uint64_t bytes,
                          uint64_t rows, Stream stream) = 0;
  /// Is all that is on `stream` done? Fails with what went wrong in it.
  virtual Status look(Stream stream, bool &isDone) = 0;

  /// Zero words that the host reads while the device writes them.
  virtual Status makeWords(uint32_t count, uint32_t *&words) = 0;
  virtual void freeWords(uint32_t *words) = 0;
  /// Sets a word of `makeWords` when the stream comes there.
  virtual Status write(uint32_t *word, uint32_t value, Stream stream) = 0;
};

/// Opens libnccl and libcuda where devices/cuda/Library.h looks for them. Fails
/// with what was looked for where, and what helps.
Status openNccl(std::unique_ptr<Nccl> &nccl, std::unique_ptr<Gpu> &gpu);

/// "NCCL 2.28.9 (/usr/lib/libnccl.so.2)". Fails as `openNccl`, but needs no
/// driver.
Status describeNccl(std::string &text);

} // namespace kerf::runtime::nccl

#endif // KERF_RUNTIME_TRANSPORT_NCCL_NCCL_H
