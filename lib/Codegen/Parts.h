//===- Parts.h - how the results of a kernel are computed -----------------===//
//
// A kernel is a list of parts, each with a range of units. Results that are
// computed by one loop nest are one part.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_CODEGEN_PARTS_H
#define KERF_CODEGEN_PARTS_H

#include "Tiles.h"

#include "kerf/Dialect/Exec/Exec.h"

#include "mlir/IR/BuiltinOps.h"

namespace kerf::codegen {

/// Threads of a GPU that run in step.
constexpr int64_t kWarp = 32;

/// Rows of up to this many columns are the work of a GPU's thread.
constexpr int64_t kShortRow = 16;

struct Part {
  enum Kind {
    Flat,       ///< elements in blocks
    Rows,       ///< row by row, with sums and maxima of the row
    TopK,       ///< as rows, then the largest elements
    ScatterAdd, ///< blocks of the table's rows
    Cumsum,     ///< lines along the dimension, in blocks
  };
  Kind kind;
  std::vector<unsigned> results;
  int64_t count;          ///< elements, rows, lines
  int64_t chunk = 1;      ///< of them in a unit
  bool isPartial = false; ///< has partial sums, one per unit
  int64_t units() const {
    return owner == Tiles ? tiling.blocks()
                          : (count + chunk - 1) / chunk * slabs;
  }
  int64_t grain = 1;

  /// On a GPU: who computes a row or line, one after the other (`Block`) or all
  /// of a unit at once; `Warp` is a warp, or `team` threads of one. Of a chunk
  /// of partial sums, warps take turns. With `Columns`, a thread has a vector
  /// of columns and walks down the rows of the chunk; a chunk is split into
  /// slabs of columns, each a unit. With `Sums`, elements are sums over leading
  /// dimensions: a unit has 32 of them, whose addends the block's warps share.
  /// With `Placed`, the block first finds which token each row of a table has,
  /// then its warps take turns with the rows. With `Tiles`, a thread has a
  /// square of elements, and a unit is a block of such.
  enum Owner { Block, Warp, Thread, Columns, Sums, Placed, Tiles };
  Owner owner = Block;
  int64_t team = 32;
  int64_t slabs = 1;
  Tiling tiling = {};
};

/// Whether a thread can keep the sums of so many vectors: 16 numbers, or four
/// vectors.
constexpr bool fitsRegisters(int64_t turns, int64_t lanes) {
  return turns <= 4 || turns * lanes <= 16;
}

/// The parts of a kernel, in order of their units.
std::vector<Part> partsOf(exec::KernelOp kernel);

/// Elements of 16 bytes of the narrowest tensor of numbers, of a GPU's kernel.
int64_t gpuLanesOf(exec::KernelOp kernel);
/// Whether a warp keeps a row of so many columns in registers, in vectors of
/// `lanes`.
bool fitsWarp(int64_t columns, int64_t lanes);
/// Threads of a block that goes down a chunk's rows: such that all have equally
/// many vectors, of the widest kind that can be dealt out so, and about 256. 0
/// if none can.
int64_t threadsOfChunk(int64_t columns, int64_t lanes);
/// Blocks that share a multiprocessor's registers, where a thread has as many
/// as most kernels may have.
int64_t blocksOfProcessor(int64_t threads);

/// How a GPU computes a kernel.
struct GpuParts {
  std::vector<Part> parts;
  int64_t threads = 32;    ///< of a block: a multiple of 32
  int64_t maxLanes = 1;    ///< of a thread's access
  int64_t registers = 128; ///< that a thread may have, at most
  int processors = 132;    ///< multiprocessors of the GPU
};
GpuParts gpuPartsOf(exec::KernelOp kernel, int processors);

/// Runs `body` for each op that `roots` are computed from, once.
void forCone(llvm::ArrayRef<mlir::Value> roots,
             llvm::function_ref<void(mlir::Operation *)> body);

/// Sums and maxima over last dimensions that `root` is computed from, operands
/// before users.
llvm::SmallVector<ReduceOp> rowReducesOf(mlir::Value root);
bool reducesRows(ReduceOp op);
/// Whether the sum is of one element, which a number names:
/// `sum select(iota == number, x, 0)` over the last dimension.
bool picks(ReduceOp op);
/// Whether `sum` is of exp(x - m) over the last dimension, and `max` is m, the
/// maximum of x, in f32.
bool sumsExpBelow(ReduceOp sum, ReduceOp max);
/// Columns, multiples of `multiple`, before which a comparison of the column's
/// number with a constant that `roots` are computed from has one answer.
llvm::SmallVector<int64_t> comparedColumns(llvm::ArrayRef<mlir::Value> roots,
                                           int64_t columns, int64_t multiple);

/// `add(other, scatter_add(...))`, or `scatter_add(...)` alone or reshaped.
struct ScatterRoot {
  ScatterAddOp scatter;
  mlir::Value other; ///< or null
};
std::optional<ScatterRoot> scatterRootOf(mlir::Value value);

/// What the processor says about code.
struct CodeOptions {
  int64_t maxLanes;       ///< elements of a vector, at most
  bool hasBf16 = false;   ///< vectors are rounded to bf16 by an instruction
  int64_t threads = 0;    ///< of a GPU's block; 0 on a CPU
  bool hasFloat8 = false; ///< an instruction rounds to 8-bit floats
};

/// Emits the function `symbol` for a kernel with these parts into `module`,
/// which lives in a context of its own. On failure returns why.
std::optional<std::string> emitKernel(exec::KernelOp kernel,
                                      llvm::ArrayRef<Part> parts,
                                      mlir::ModuleOp module,
                                      llvm::StringRef symbol,
                                      const CodeOptions &options);

} // namespace kerf::codegen

#endif // KERF_CODEGEN_PARTS_H
