//===- Buffers.h - arguments of a kernel, from the command line -----------===//

#ifndef KERF_SIMULATOR_BUFFERS_H
#define KERF_SIMULATOR_BUFFERS_H

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::sim {

/// An argument: memory, or a value where `address` is 0.
struct Argument {
  std::string type;           ///< f32 f64 bf16 f16 i8..i64 u8..u64
  uint64_t count = 0;         ///< elements; 0: a value
  uint64_t address = 0;       ///< in device memory
  std::vector<uint8_t> bytes; ///< as made
};

/// "TYPE=VALUE" or "TYPE:COUNT[=zero|iota|random[:SEED]|file:PATH|V,V,...]".
/// Memory without a value is 0xFF. Throws std::string with what is wrong.
Argument parseArgument(const std::string &text);

/// Element `index` for people; floats with as many digits as they have.
std::string printElement(const Argument &argument,
                         const std::vector<uint8_t> &bytes, uint64_t index);

} // namespace kerf::sim

#endif // KERF_SIMULATOR_BUFFERS_H
