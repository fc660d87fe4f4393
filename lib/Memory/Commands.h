//===- Commands.h - commands before their buffers have offsets ------------===//

#ifndef KERF_LIB_MEMORY_COMMANDS_H
#define KERF_LIB_MEMORY_COMMANDS_H

#include "Storage.h"

#include "kerf/Artifact/Workspace.h"
#include "kerf/Dialect/Exec/Exec.h"

namespace kerf {

/// A range of a buffer, or a scalar, or nothing.
struct PlannedOperand {
  int64_t buffer = -1; ///< -1: `other` holds the operand
  int64_t access = 0;  ///< kerf_access
  mlir::Type element;
  int64_t offset = 0, iter = 0, micro = 0, bytes = 0;
  mlir::Attribute other; ///< `exec.scalar` or `exec.absent`
};

struct PlannedCommand {
  exec::Opcode opcode;
  mlir::FlatSymbolRefAttr kernel;
  std::string name;
  std::string origin; ///< phase of the op it comes from; may be empty
  mlir::Location loc;
  llvm::SmallVector<int64_t> values;
  llvm::SmallVector<PlannedOperand> operands;
  int64_t when = 0; ///< kerf_command_flags
  /// Loop the command is in, an index into `loops`, or -1.
  int64_t loop = -1;
};

struct PlannedLoop {
  int64_t start, end;
  bool reverse;
};

/// The commands of a function; those of one loop are neighbours.
struct PlannedFunc {
  std::string name;
  std::vector<PlannedCommand> commands;
  std::vector<PlannedLoop> loops;
};

/// Messages of one name from one stage to another.
struct PlannedChannel {
  std::string name;
  int64_t from, to;
  int64_t bytes = 0; ///< of the largest message

  bool isSame(llvm::StringRef otherName, int64_t otherFrom,
              int64_t otherTo) const {
    return name == otherName && from == otherFrom && to == otherTo;
  }
};

/// What all functions of a program do.
struct PlannedProgram {
  std::vector<PlannedFunc> funcs;
  /// In order of first use; commands name them by position.
  std::vector<PlannedChannel> channels;
};

/// Options of the lowering to commands.
struct MemoryOptions {
  kerf_target target = KERF_TARGET_CPU; ///< whose library calls
  int64_t workers = 8;                  ///< of a CPU, for workspaces
};

/// Writes the commands of every function. Kernels are added to `program`, equal
/// ones once; buffers for temporaries and workspaces to `map`.
mlir::FailureOr<PlannedProgram> planCommands(spmd::ProgramOp source,
                                             exec::ProgramOp program,
                                             StorageMap &map,
                                             const MemoryOptions &options);

} // namespace kerf

#endif // KERF_LIB_MEMORY_COMMANDS_H
