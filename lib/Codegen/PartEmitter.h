//===- PartEmitter.h - loop nests of the parts of a kernel ----------------===//

#ifndef KERF_CODEGEN_PARTEMITTER_H
#define KERF_CODEGEN_PARTEMITTER_H

#include "Emitter.h"
#include "Parts.h"

namespace kerf::codegen {

/// Emits the parts of one kernel.
class PartEmitter {
  using Value = mlir::Value;
  using ValueRange = mlir::ValueRange;

public:
  PartEmitter(Emitter &e, exec::KernelOp kernel)
      : e(e), a(e.arith), values(kernel.getYield().getValues()) {}

  bool emit(const Part &part, int64_t firstUnit, bool isOnly);

private:
  /// Results of a part; partial sums are carried through its loops.
  struct Sums {
    llvm::SmallVector<unsigned> plain, partial;
    llvm::SmallVector<bool> isMax;
    Emitter::Carried initial;
  };
  Sums sumsOf(const Part &part, int64_t lanes);
  /// The sums with elements at a position, where `counts` holds, if given.
  Emitter::Carried addTo(const Sums &sums, const Index &position,
                         ValueRange before, Value counts);
  bool emitFlat(const Part &part);
  bool emitFlatBlock(const Part &part, const Index &unit, int64_t lanes);
  bool emitSums(const Part &part, const Index &unit);
  bool emitFlatThreads(const Part &part, const Index &unit, int64_t lanes);
  /// Where a square begins in results that are transposed and in those that are
  /// not.
  struct Corner {
    Index turned, straight;
  };
  /// A square of elements in vectors of `lanes`.
  bool emitTileIn(const Part &part, const Corner &corner, int64_t lanes);
  bool emitTile(const Part &part, const Corner &corner);
  bool emitTiles(const Part &part, const Index &unit);
  bool emitRows(const Part &part);
  bool emitPartialRows(const Part &part);
  bool emitDown(const Part &part, const Index &unit, int64_t lanes);
  bool emitChunk(const Part &part, const Index &unit, int64_t lanes);
  /// Results but sums that have so many columns, and code for those that have
  /// others.
  llvm::SmallVector<unsigned> alikeOf(const Part &part, int64_t columns);
  bool emitOthers(const Part &part, int64_t columns, const Index &row,
                  const Index &unit);
  bool emitRow(const Part &part, const Index &row, Value isFirst,
               const Index &unit);
  bool emitRowReduces(const Part &part, const Index &row);
  bool emitRowExps(std::vector<Emitter::RowReduce> &first,
                   std::vector<Emitter::RowReduce> &second, int64_t columns);
  bool emitColumns(llvm::ArrayRef<unsigned> results, int64_t columns,
                   const Index &row, Value isFirst, const Index &unit);
  bool emitTopK(const Part &part);
  bool emitTopKRow(TopKOp op, const Part &part, const Index &row);
  bool emitScatter(const Part &part);
  std::optional<Element> emptyRow(const ScatterRoot &root,
                                  const Index &position);
  bool fillRow(const ScatterRoot &root, unsigned result, const Index &row,
               int64_t columns, int64_t lanes);
  bool addToken(const ScatterRoot &root, unsigned result, const Index &token,
                const Index &row, Value isFirst, int64_t lanes);
  bool emitScatterRows(const ScatterRoot &root, unsigned result,
                       const Index &unit, const Part &part, int64_t lanes);
  /// Where no two tokens have one row: see Part::Placed.
  bool emitPlacedRows(const ScatterRoot &root, unsigned result,
                      const Index &unit, const Part &part, int64_t lanes);
  bool emitPlacedRow(const ScatterRoot &root, unsigned result, const Index &row,
                     Value token, int64_t lanes);
  void findTokens(Value index, Value tokenOf, Value first, Value last);
  bool emitCumsum(const Part &part);
  bool emitCumsumLine(unsigned result, int64_t length,
                      llvm::function_ref<Index(const Index &)> positionOf);
  /// Runs `body` for each token, in order, and its row in [first, last).
  bool forOwnTokens(Value index, Value first, Value last,
                    llvm::function_ref<void(const Index &, Value)> body);
  /// Of 32 tokens: the row that the lane's token names, and a bit for each
  /// token whose row is one of the unit's.
  struct Group {
    Value row, mine;
  };
  std::optional<Group> lookAt(Value index, const Index &group, Value first,
                              Value last);
  /// Runs `body` for the numbers below `count` whose bit is set, in order.
  void forBits(Value mask, int64_t count,
               llvm::function_ref<void(const Index &, Value)> body);
  bool forOwnTokensOfWarp(Value index, Value first, Value last,
                          llvm::function_ref<void(const Index &, Value)> body);

  /// Runs `body` for the part's units that the call, or the block, computes.
  void forUnits(const Part &part, llvm::function_ref<void(const Index &)> body);
  /// Runs `body` for the rows or lines of a unit.
  void forRows(const Part &part, const Index &unit,
               llvm::function_ref<void(const Index &)> body);
  /// On a GPU: runs `body` for `perUnit` vectors from `first` on, below
  /// `vectors`; a thread has every `threads`th. `units` of them have all.
  void forTurns(const Index &first, int64_t perUnit, int64_t units,
                int64_t vectors, llvm::function_ref<void(const Index &)> body);
  /// Whether one of `results` has the memory of an argument.
  bool overwrites(llvm::ArrayRef<unsigned> results);
  /// Stores `results` at a position that all of them count the same way.
  bool storeAll(llvm::ArrayRef<unsigned> results, const Index &position);
  Value word(int64_t number) { return a.bits(a.i64(), number); }
  Value smaller(Value x, Value y) {
    return mlir::arith::MinSIOp::create(e.builder, a.loc, x, y);
  }
  /// Widths to try: the largest first.
  llvm::SmallVector<int64_t> widths(int64_t count);

  /// The unit range of the part that is being emitted, and where its units
  /// begin among those of the kernel.
  Value begin, end;
  int64_t firstUnit = 0;
  bool isOnly = true;
  Emitter &e;
  Arith &a;
  mlir::OperandRange values;
};

/// The partial sum that a result is, or null.
exec::PartialReduceOp partialOf(mlir::Value value);
/// What is computed for each element: of a partial sum, its operand.
mlir::Value elementsOf(mlir::Value value);

} // namespace kerf::codegen

#endif // KERF_CODEGEN_PARTEMITTER_H
