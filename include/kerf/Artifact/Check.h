//===- Check.h - is this file a compiled program? -------------------------===//
//
// The one place that knows which files are sound. Compiler (before it writes,
// and to print) and runtime (before it runs) use it, so it needs neither LLVM
// nor exceptions. Everything behind `checkArtifact` may index without looking.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_ARTIFACT_CHECK_H
#define KERF_ARTIFACT_CHECK_H

#include "kerf/Artifact/Format.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace kerf::artifact {

/// The records of one section, in the bytes of the file.
template <typename Record> struct Table {
  const Record *data = nullptr;
  uint32_t count = 0;

  const Record &operator[](uint32_t i) const { return data[i]; }
  const Record *begin() const { return data; }
  const Record *end() const { return data + count; }
};

/// The tables of a file. They point into its bytes.
struct View {
  const kerf_header *header = nullptr;
  const kerf_meta *meta = nullptr;
  std::string_view strings, image, plan;
  Table<kerf_axis> axes;
  Table<kerf_group> groups;
  Table<kerf_param> params;
  Table<kerf_state> states;
  Table<kerf_input> inputs;
  Table<kerf_output> outputs;
  Table<kerf_buffer> buffers;
  Table<kerf_func> funcs;
  Table<kerf_call> calls;
  Table<kerf_command> commands;
  Table<kerf_operand> operands;
  Table<kerf_scalar> scalars;
  Table<int64_t> attrs;
  Table<kerf_kernel> kernels;

  /// The string at `offset`; "" when there is none.
  const char *string(uint32_t offset) const {
    return offset < strings.size() ? strings.data() + offset : "";
  }
};

/// Checks `size` bytes at `bytes` (aligned to 8) and fills `view`. Returns ""
/// when the file is sound: every section and record lies in it, every index,
/// string and group exists, layouts agree with the mesh, and every operand
/// stays in the arena for all iterations, slots and micro-batches. Otherwise
/// one line without the file's name: "not a compiled file of Kerf",
/// "written by format 2, ...", "truncated: ...", "damaged: ...".
///
/// What a device can judge better is left to it: attributes of matrix products
/// and attention against their operands, and the kernels, which are code.
[[nodiscard]] std::string checkArtifact(const void *bytes, uint64_t size,
                                        View &view);

/// The checksum that belongs into the header of a file of at least
/// sizeof(kerf_header) bytes.
uint64_t checksumOf(const void *bytes, uint64_t size);

/// Bytes of a shard and of a whole tensor; false when they overflow int64_t.
[[nodiscard]] bool localBytes(const kerf_layout &layout, int64_t &bytes);
[[nodiscard]] bool globalBytes(const kerf_layout &layout, int64_t &bytes);

/// Position of `rank` on each axis; entries behind the last axis are 0.
void coordinatesOf(const View &view, uint32_t rank,
                   uint32_t coordinates[KERF_MAX_AXES]);

/// First global index of the shard of `rank` in each dimension.
void shardStart(const View &view, const kerf_layout &layout, uint32_t rank,
                int64_t start[KERF_MAX_RANK]);

/// Ranks of the group that `rank` is in, by coordinates: member number `n`.
uint32_t groupMember(const View &view, const kerf_group &group, uint32_t rank,
                     uint32_t n);

/// A parameter's name: {i} and {a*i+b} are replaced; {e} by `expert` unless it
/// is negative. A pattern that is none is returned as it is.
std::string expandName(std::string_view pattern, int64_t iteration,
                       int64_t expert = -1);

/// Which holes a pattern has; `valid` is false for other braces and for more
/// than one {e}.
struct NameHoles {
  bool valid = true, iteration = false, expert = false;
};
NameHoles holesOf(std::string_view pattern);

/// Names of enumerators for people: "f32", "all_reduce", "activations"; "?"
/// for what does not exist.
const char *dtypeName(uint32_t dtype);
const char *opcodeName(uint32_t opcode);
const char *bufferClassName(uint32_t bufferClass);
const char *roleName(uint32_t role);

} // namespace kerf::artifact

#endif // KERF_ARTIFACT_CHECK_H
