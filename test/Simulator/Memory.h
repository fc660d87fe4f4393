//===- Memory.h - the device memory of the simulator ----------------------===//
//
// Device memory is host memory behind addresses that no host pointer has:
// a host access to one faults, and a host pointer is in no allocation.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SIMULATOR_MEMORY_H
#define KERF_SIMULATOR_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace kerf::sim {

/// Results of the driver API that the simulator gives; values of cuda.h.
enum Status {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  InvalidPtx = 218,
  UnsupportedPtx = 222,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  LaunchTimeout = 702,
  AssertFailed = 710,
  IllegalInstruction = 715,
  MisalignedAddress = 716,
  LaunchFailed = 719,
  NotSupported = 801,
  CaptureUnsupported = 900,
  CaptureInvalidated = 901,
  CaptureUnmatched = 903,
  CaptureUnjoined = 904,
  CaptureIsolation = 905,
  CaptureImplicit = 906,
};

/// What stops a kernel or a call. `text` is for people.
struct Trap {
  Status status;
  std::string text;
};

/// Addresses of the generic space. Global memory is [globalBase, sharedBase).
inline constexpr uint64_t globalBase = 1ull << 56;
inline constexpr uint64_t sharedBase = 1ull << 60;
inline constexpr uint64_t localBase = 1ull << 61;

/// One allocation: addresses [begin, end).
struct Range {
  uint64_t begin = 0, end = 0;
  uint8_t *host = nullptr; ///< of `begin`
  /// Who wrote each byte last (see Race.h); null until that is checked.
  std::unique_ptr<uint64_t[]> writers;
};

/// All allocations of the device.
class Memory {
public:
  ~Memory();

  /// `bytes` > 0, aligned to 512, filled with 0xFF (NaN in every format), or 0
  /// where `limit` would be passed.
  uint64_t allocate(uint64_t bytes);
  /// False where `address` begins no allocation.
  bool release(uint64_t address);

  /// The allocation that begins last at or below `address`, or null.
  Range *below(uint64_t address);
  /// The allocation that holds `address`, or null. Valid until a release.
  Range *find(uint64_t address);
  /// Host memory of [address, address + bytes), or null where it is not inside
  /// one allocation. `bytes` may be 0.
  uint8_t *host(uint64_t address, uint64_t bytes);

  /// Counts changes: a range found at another count may be gone.
  uint64_t generation() const { return changes; }
  uint64_t used() const { return usedBytes; }
  uint64_t limit() const { return limitBytes; }

private:
  friend Memory &memory();
  Memory();
  std::map<uint64_t, Range> ranges; ///< by begin
  uint64_t usedBytes = 0, limitBytes, changes = 0;
};

/// The one of this process. KERF_SIM_MEMORY is its size in MiB (4096).
Memory &memory();

/// "0x100007f..., 12 bytes past the end of an allocation of 64 bytes": what an
/// address is near to.
std::string describeAddress(uint64_t address);

} // namespace kerf::sim

#endif // KERF_SIMULATOR_MEMORY_H
