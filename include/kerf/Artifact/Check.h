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

  /// Records [first, first + number), which exist.
  Table slice(uint32_t first, uint32_t number) const {
    return {data + first, number};
  }
};

/// The tables of a file. They point into its bytes.
struct View {
  const kerf_header *header = nullptr;
  const kerf_meta *meta = nullptr;
  /// Of a view of one program (`programView`), else null.
  const kerf_program *program = nullptr;
  std::string_view strings, image, ptx, plan, sampler;
  Table<kerf_axis> axes;
  Table<kerf_group> groups;
  Table<kerf_program> programs;
  Table<kerf_channel> channels;
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
/// string, group and channel exists, layouts agree with the mesh, programs
/// share the records out among them and agree on what they have in common, and
/// every operand stays in the arena of its program for all iterations, slots
/// and micro-batches. Otherwise one line without the file's name: "not a
/// compiled file of Kerf", "written by format 2, ...", "truncated: ...",
/// "damaged: ...".
///
/// What a device can judge better is left to it: attributes of matmuls
/// and attention against their operands, and the kernels, which are code.
[[nodiscard]] std::string checkArtifact(const void *bytes, uint64_t size,
                                        View &view);

/// The checksum that belongs into the header of a file of at least
/// sizeof(kerf_header) bytes.
uint64_t checksumOf(const void *bytes, uint64_t size);

/// The tables of program `number` alone: params, inputs, outputs, buffers,
/// channels, funcs and calls are its own, so that calls and commands index
/// them. The others are those of the file.
View programView(const View &file, uint32_t number);

/// Elements of one piece of a shard of `elements`, padding among them; all of
/// them where the layout has no pieces.
int64_t pieceElements(const View &view, const kerf_layout &layout,
                      int64_t elements);

/// How the master of a parameter, but for its type, and a state lie.
kerf_layout stateLayout(const kerf_param &param);
kerf_layout stateLayout(const kerf_param &param, const kerf_state &state);

/// Bytes that a rank has of a tensor, the padding of its piece among them, and
/// of the whole one; false when they overflow int64_t.
[[nodiscard]] bool localBytes(const View &view, const kerf_layout &layout,
                              int64_t &bytes);
[[nodiscard]] bool globalBytes(const kerf_layout &layout, int64_t &bytes);

/// Has a stage nothing but the parameter: is it updated elsewhere, or never?
inline bool isBare(const kerf_param &param) {
  return param.master_dtype == KERF_NONE && param.state_count == 0;
}

/// Position of `rank` on each axis; entries behind the last axis are 0.
void coordinatesOf(const View &view, uint32_t rank,
                   uint32_t coordinates[KERF_MAX_AXES]);
/// The rank at this position.
uint32_t rankAt(const View &view, const uint32_t coordinates[KERF_MAX_AXES]);

/// The program that `rank` runs: its coordinate on the pipeline's axis.
uint32_t programOf(const View &view, uint32_t rank);
/// The rank of `program` that has the other coordinates of `rank`.
uint32_t rankOfProgram(const View &view, uint32_t rank, uint32_t program);

/// Number of the part that a rank at `coordinates` has of dimension `d`.
int64_t partOf(const View &view, const kerf_layout &layout, uint32_t d,
               const uint32_t coordinates[KERF_MAX_AXES]);

/// Ranks of the group that `rank` is in, by coordinates: member number `n`.
uint32_t groupMember(const View &view, const kerf_group &group, uint32_t rank,
                     uint32_t n);

/// A parameter's name: {i} and {a*i+b} are replaced; unless `member` is
/// negative, {e} by it and {k,v} by the name of that number. A pattern that is
/// none is returned as it is.
std::string expandName(std::string_view pattern, int64_t iteration,
                       int64_t member = -1);

/// Which holes a pattern has; `valid` is false for other braces and for more
/// than one place of a stack.
struct NameHoles {
  bool valid = true, iteration = false, stack = false;
  /// Of {k,v}: 2; 0 for {e}, which any number of tensors has.
  int64_t names = 0;
};
NameHoles holesOf(std::string_view pattern);

/// Names of enumerators for people: "f32", "all_reduce", "activations"; "?"
/// for what does not exist.
const char *dtypeName(uint32_t dtype);
const char *opcodeName(uint32_t opcode);
/// Does a command send to another stage, or receive from one?
bool isMessage(uint32_t opcode);
/// Does it combine data of a group of ranks?
bool isCollective(uint32_t opcode);
const char *bufferClassName(uint32_t bufferClass);
const char *roleName(uint32_t role);

} // namespace kerf::artifact

#endif // KERF_ARTIFACT_CHECK_H
