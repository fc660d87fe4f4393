//===- Storage.h - where values lie ---------------------------------------===//
//
// Before buffers have offsets: which buffer each value of a program is in, and
// at which place of it.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_MEMORY_STORAGE_H
#define KERF_LIB_MEMORY_STORAGE_H

#include "kerf/Artifact/Format.h"
#include "kerf/Dialect/Exec/Exec.h"
#include "kerf/Dialect/Kerf/MatmulForm.h"
#include "kerf/Dialect/Spmd/Spmd.h"

#include "llvm/ADT/MapVector.h"

#include <string>
#include <vector>

namespace kerf {

using exec::BufferScope;

/// A piece of the arena to be placed.
struct Buffer {
  std::string name;
  kerf_buffer_class bufferClass;
  BufferScope scope;
  int64_t bytes = 0;  ///< of one copy
  int64_t copies = 1; ///< of slot scope: micro-batch m has number m mod copies
  /// Of the op that makes what it has room for.
  std::optional<mlir::Location> loc = {};

  /// Bytes from one copy to the next; 0 where micro-batches have none.
  int64_t slotStride() const;
  int64_t allBytes() const {
    return copies > 1 ? copies * slotStride() : bytes;
  }
};

/// A tensor inside a buffer. The address of element (0, ..., 0) is
/// `offset + i * iter` bytes, i being the iteration of the enclosing repeat.
struct Storage {
  unsigned buffer = 0;
  int64_t offset = 0;
  int64_t iter = 0;
  Strides strides; ///< elements
  /// Bytes from one micro-batch of an input to the next.
  int64_t micro = 0;

  /// True where elements lie one after the other; how far the only index of a
  /// dimension would be from a next one says nothing.
  bool isDense(llvm::ArrayRef<int64_t> shape) const {
    Strides dense = denseStrides(shape);
    if (strides.size() != dense.size())
      return false;
    for (size_t d = 0; d < shape.size(); ++d)
      if (shape[d] != 1 && strides[d] != dense[d])
        return false;
    return true;
  }
};

/// Bytes of one element; an i1 takes a byte.
int64_t elementBytes(mlir::Type type);
/// Bytes of a dense tensor.
int64_t denseBytes(mlir::Type type);
/// Bytes from the first to the last element of a strided tensor.
int64_t spanBytes(mlir::RankedTensorType type, const Strides &strides);

/// How the carried values of a repeat move from one iteration to the next.
struct Carry {
  Storage now;  ///< what the body's argument reads
  Storage next; ///< where the body's yield puts its value
  /// The value must be copied to `next` at the end of an iteration.
  bool copyNext = false;
  /// The initial value must be copied to its place before the loop.
  bool copyInit = false;
  Storage init;   ///< the place of the initial value
  Storage result; ///< the place of the last value
};

/// Copies that a terminator must make because values were computed elsewhere.
struct StackCopy {
  mlir::Value value;
  Storage to;
};

/// Where all values of a program are.
struct StorageMap {
  std::vector<Buffer> buffers;
  llvm::DenseMap<mlir::Value, Storage> values;
  llvm::DenseMap<mlir::Operation *, std::vector<Carry>> carries;
  llvm::DenseMap<mlir::Operation *, std::vector<StackCopy>> stackCopies;
  /// `spmd.write`s, `spmd.accumulate`s and sums (`matmulSummedInPlace`) whose
  /// value is computed in place.
  llvm::DenseSet<mlir::Operation *> inPlace;
  /// Matmuls that add to what is in their place, but in the first call.
  llvm::DenseSet<mlir::Operation *> accumulating;
  /// By `spmd.accumulate`: the kernel whose rows are added to a table in its
  /// place. Neither it nor what is in `absorbed` has a command of its own.
  llvm::DenseMap<mlir::Operation *, spmd::FusedOp> tables;
  /// By the same: what is added up first, where no matmul has done so.
  llvm::DenseMap<mlir::Operation *, mlir::Value> besideTables;
  llvm::DenseSet<mlir::Operation *> absorbed;
  /// Buffers of declared symbols: buffers, inputs, outputs.
  llvm::StringMap<unsigned> symbols;

  /// A tensor that the optimizer keeps.
  struct State {
    StateTensor facts;
    unsigned buffer;
    mlir::RankedTensorType type; ///< of an iteration
    int64_t stride;              ///< bytes
  };
  /// State of a parameter, as buffers that hold all of its iterations. Of a
  /// weight whose state alone is stored in pieces an iteration takes as many
  /// bytes as all pieces, padding included, so that they are gathered in place.
  struct Param {
    mutable spmd::ParamOp op;
    unsigned buffer = 0;
    std::optional<unsigned> master;
    llvm::SmallVector<State> states;
    int64_t stride = 0, masterStride = 0; ///< bytes

    /// True when the update of this rank makes a piece of the weight.
    bool updatesPiece() const {
      return op.getStateAxes() && !op.getWeightAxes();
    }
    /// Where iterations from `start` on begin in a buffer of that stride.
    int64_t offsetOf(int64_t start, int64_t stride) const {
      return (start - static_cast<int64_t>(op.getStart().value_or(0))) * stride;
    }
  };
  /// By declaration, in order: a pattern may have several.
  llvm::MapVector<mlir::Operation *, Param> params;

  /// The parameter that a name means from iteration `start` on.
  const Param &getParam(spmd::ProgramOp program, llvm::StringRef name,
                        int64_t start) const {
    return params.find(program.getParam(name, start))->second;
  }

  unsigned add(Buffer buffer) {
    buffers.push_back(std::move(buffer));
    return buffers.size() - 1;
  }
};

/// Adds the buffers of what a program declares. Fails where a read or an update
/// does not fit the declaration of its parameter.
mlir::LogicalResult declareStorage(spmd::ProgramOp program, StorageMap &map);
/// Where a declared parameter, input or buffer is read.
Storage storageOf(const StorageMap &map, kerf::ParamOp read);
Storage storageOf(const StorageMap &map, spmd::ReadOp read);

/// Decides the place of every value.
mlir::FailureOr<StorageMap> assignStorage(spmd::ProgramOp program, bool forGpu);

} // namespace kerf

#endif // KERF_LIB_MEMORY_STORAGE_H
