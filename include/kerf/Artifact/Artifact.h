//===- Artifact.h - the compiled file as plain data -----------------------===//
//
// What the last stages of the compiler fill and `kerf-inspect` prints. Records
// are those of Format.h; offsets of strings come from `strings.intern`.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_ARTIFACT_ARTIFACT_H
#define KERF_ARTIFACT_ARTIFACT_H

#include "kerf/Artifact/Format.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"

#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace kerf {

/// NUL-terminated strings, each stored once, in order of first use.
class StringPool {
public:
  StringPool() = default;
  /// The pool of a file; `bytes` ends with a NUL, if it is not empty.
  explicit StringPool(llvm::StringRef bytes);

  /// Offset of `text`, which must hold no NUL.
  uint32_t intern(llvm::StringRef text);
  /// The string at `offset`; "" for KERF_NONE and for what is out of range.
  llvm::StringRef get(uint32_t offset) const;
  const std::string &bytes() const { return text; }

private:
  std::string text;
  llvm::StringMap<uint32_t> offsets;
};

/// A whole file. `commands` of function f are those from its `first_command`;
/// functions tile the commands in order, and programs the tables that are
/// theirs.
struct ArtifactData {
  StringPool strings;
  kerf_meta meta = {};
  std::vector<kerf_axis> axes;
  std::vector<kerf_group> groups;
  std::vector<kerf_program> programs;
  std::vector<kerf_channel> channels;
  std::vector<kerf_param> params;
  std::vector<kerf_state> states;
  std::vector<kerf_input> inputs;
  std::vector<kerf_output> outputs;
  std::vector<kerf_buffer> buffers;
  std::vector<kerf_func> funcs;
  std::vector<kerf_call> calls;
  std::vector<kerf_command> commands;
  std::vector<kerf_operand> operands;
  std::vector<kerf_scalar> scalars;
  std::vector<int64_t> attrs;
  std::vector<kerf_kernel> kernels;
  std::string image;   ///< ELF shared object; of "cuda" a cubin, or empty
  std::string ptx;     ///< of "cuda"
  std::string plan;    ///< JSON
  std::string sampler; ///< a whole file, which has none itself; or empty

  /// Appends a command with its operands and attributes. `location` may be
  /// KERF_NONE. Returns its index.
  uint32_t addCommand(uint32_t opcode, uint32_t flags, uint32_t name,
                      uint32_t location, llvm::ArrayRef<kerf_operand> operands,
                      llvm::ArrayRef<int64_t> attrs);
  /// Appends an output that is one number.
  void addScalarOutput(llvm::StringRef name, uint32_t dtype, int64_t offset);
  /// Starts a function, which gets all commands that are added until the next
  /// call or `endFunc`. Returns its place in the program.
  uint32_t beginFunc(llvm::StringRef name);
  void endFunc();
  /// Starts a program, which gets all records that are added until
  /// `endProgram`. That may be called again when more were added.
  kerf_program &beginProgram(llvm::StringRef name);
  void endProgram();
};

/// A layout in one piece: local is global.
kerf_layout wholeLayout(llvm::ArrayRef<int64_t> shape, uint32_t dtype);

/// An operand in the arena. Strides are set by the caller.
kerf_operand arenaOperand(int64_t offset, int64_t bytes, uint32_t dtype,
                          uint32_t access);

/// Writes the file: the same bytes for the same data. Fails, and writes
/// nothing, when a runtime would refuse it; `error` says why.
[[nodiscard]] llvm::LogicalResult writeArtifact(const ArtifactData &data,
                                                llvm::raw_ostream &os,
                                                std::string &error);

/// Does the file start like an artifact? Tells it from MLIR text.
bool isArtifact(llvm::StringRef bytes);

/// Reads a file that the checker finds sound; else `error` is one line without
/// the file's name.
[[nodiscard]] llvm::LogicalResult
readArtifact(llvm::StringRef bytes, ArtifactData &data, std::string &error);

} // namespace kerf

#endif // KERF_ARTIFACT_ARTIFACT_H
