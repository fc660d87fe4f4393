//===- Emitter.h - elements of values on demand ---------------------------===//
//
// Code of a kernel is pulled: whoever needs elements of a value asks for them
// at an index, and the ops that make the value ask for the elements of their
// operands in turn. A request is for one element, or for a vector of
// consecutive ones: then indices have a lane coefficient.
//
// Code is placed as far out as its indices allow: what depends on a row alone
// stands in the loop over rows, what depends on nothing at the function's
// start. Every scope remembers what was computed in it.
//
// On a GPU, a unit is a block of threads that run the same code. Each scope has
// a team: the threads that are in it together with equal values. A loop over
// vectors is shared among them; inside, each thread is a team of its own.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_CODEGEN_EMITTER_H
#define KERF_CODEGEN_EMITTER_H

#include "Arith.h"
#include "Index.h"
#include "Parts.h"

#include "kerf/Dialect/Exec/Exec.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <map>

namespace kerf::codegen {

/// One element, or one per lane. Without `isVector` all lanes have it.
struct Element {
  mlir::Value value;
  bool isVector = false;
};

/// Threads of a block that run a scope together.
struct Team {
  int64_t size = 1;
  Index rank; ///< of a thread among them
};

/// What compares floats, and integers, as `kerf.compare` does.
std::pair<mlir::arith::CmpFPredicate, mlir::arith::CmpIPredicate>
predicatesOf(Relation relation);

class Emitter {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;

  /// Starts a function in `module`, which lives in a context of its own.
  Emitter(exec::KernelOp kernel, mlir::ModuleOp module, llvm::StringRef symbol,
          const CodeOptions &options);

  //===--- Elements -------------------------------------------------------===//

  /// Elements of `tensor` at an index; none if lanes do not fit its layout.
  std::optional<Element> pull(Value tensor, llvm::ArrayRef<Index> at);
  /// As `pull`, at a row-major position.
  std::optional<Element> pullAt(Value tensor, const Index &position);
  /// Writes a result's elements at a position, whose lanes are consecutive.
  void store(unsigned result, const Index &position, Element element);
  /// Reads them back, as numbers to compute with.
  Element load(unsigned result, const Index &position);

  //===--- Scopes and loops -----------------------------------------------===//

  /// Runs `body` for i in [begin, end); `range` holds all values of i.
  void loop(Value begin, Value end, Range range,
            llvm::function_ref<void(const Index &)> body);
  /// As `loop`, with values carried from iteration to iteration. Returns their
  /// last values; none if `body` returned fewer, and then nothing was emitted.
  using Carried = llvm::SmallVector<Value>;
  std::optional<Carried>
  reduceLoop(Value begin, Value end, Range range, llvm::ArrayRef<Value> initial,
             llvm::function_ref<Carried(const Index &, mlir::ValueRange)> body);
  /// As `reduceLoop`; the threads of the team take turns. Each has values of
  /// its own.
  std::optional<Carried>
  sharedLoop(Value begin, Value end, Range range, llvm::ArrayRef<Value> initial,
             llvm::function_ref<Carried(const Index &, mlir::ValueRange)> body);
  /// As `reduceLoop` for every `step`th i, with a team of its own.
  std::optional<Carried>
  stepLoop(Value begin, Value end, int64_t step, Range range, Team team,
           llvm::ArrayRef<Value> initial,
           llvm::function_ref<Carried(const Index &, mlir::ValueRange)> body);
  /// Runs `body` if `condition`.
  void when(Value condition, llvm::function_ref<void()> body);
  /// As `when`; nothing that `body` reads is read outside of it.
  void guarded(Value condition, llvm::function_ref<void()> body);

  /// Runs `body` over positions [0, count) in vectors of `lanes`, the last one
  /// masked. Loops are split at `splits`, ascending positions at which the ops
  /// take their elements from somewhere else. Values are carried as in
  /// `reduceLoop`. On a GPU the team shares the work, and there is none if a
  /// vector would not be full.
  std::optional<Carried>
  forVectors(int64_t count, int64_t lanes, llvm::ArrayRef<int64_t> splits,
             llvm::ArrayRef<Value> initial,
             llvm::function_ref<Carried(const Index &, mlir::ValueRange)> body);
  /// Where to split a loop over a row's columns, because comparisons with
  /// constants have one answer on each side. Rows in registers stay whole.
  llvm::SmallVector<int64_t> splitsOf(llvm::ArrayRef<Value> roots,
                                      int64_t columns, int64_t width);
  /// Runs `body` in a lane context.
  void withLanes(int64_t lanes, int64_t active,
                 llvm::function_ref<void()> body);

  /// Sums or maxima that are taken over the last dimensions of their operands,
  /// all of one length, in one loop; each at its own index. Remembers them.
  struct RowReduce {
    ReduceOp op;
    Indices at;
  };
  bool reduceRows(llvm::ArrayRef<RowReduce> reduces);
  /// On a GPU: the maximum of each row and the sum of exponentials below it
  /// (see `sumsExpBelow`), in one loop over a row that is read from memory.
  /// `picked`: sums that `picks` holds for, which are read before.
  bool reduceExps(const RowReduce &max, const RowReduce &sum,
                  llvm::ArrayRef<RowReduce> picked);

  /// A number that is known at run time only, as an index. `differs` as in
  /// `IndexSpace::Variable`.
  Index opaque(Value number, Range range, bool differs = false);
  /// The number of an index without lanes, as i64.
  Value materialize(const Index &index);

  //===--- Threads of a GPU -----------------------------------------------===//

  bool isGpu() const { return threads > 0; }
  /// The team of the current scope; of one thread on a CPU.
  Team &team() { return scopes.back().team; }
  /// Sums or maxima over the team's threads, in a fixed order; all threads know
  /// them. For numbers without lanes.
  Carried combine(llvm::ArrayRef<Value> values, llvm::ArrayRef<bool> isMax);
  /// The sum of the values of the block's threads before this one, and of all.
  std::pair<Value, Value> scan(Value value);
  /// Sums or maxima over the warps of a block: of each lane's vector, which has
  /// numbers [lane * width, (lane + 1) * width). `take` gets each number and
  /// its total, in one thread.
  void combineVectors(Value vector, bool isMax,
                      llvm::function_ref<void(const Index &, Value)> take);
  /// As `combine`, of threads with the same number in all warps of the block.
  Value combineOverWarps(Value value, bool isMax);
  /// `count` bits that each warp of the block has for itself, all clear.
  Value clearBits(int64_t count);
  /// Sets the bit `number`, the same in all threads of the warp, which run this
  /// together. Whether it was clear.
  Value setBit(Value bits, Value number);
  Value isClear(Value bits, Value number);
  /// `count` i32 that all threads of the block have together, undefined.
  Value sharedWords(int64_t count);
  /// One of them; other threads' are there after `synchronize`.
  void storeWord(Value words, Value number, Value word);
  Value loadWord(Value words, Value number);
  /// At the start of a turn of the current loop over rows, asks memory for what
  /// the turn `step` rows on reads, as far as it is before `end`: the same rows
  /// of arguments that this turn's reads are of, those since `before`.
  void prefetchRows(const Index &row, int64_t step, Value end, int64_t columns,
                    size_t before);
  /// Waits for the team: what its threads did to memory before comes first.
  void synchronize();
  /// The value of the thread that differs in the bits `distance`, of a warp.
  Value exchange(Value value, int64_t distance);
  /// Bit l of an i32 is the condition of thread l of the warp.
  Value ballot(Value condition);
  /// The i32 of the thread `lane` of the warp.
  Value broadcast(Value value, Value lane);

  //===--- State ----------------------------------------------------------===//

  mlir::OpBuilder builder;
  Arith arith;
  IndexSpace space;
  exec::KernelOp kernel;
  Value begin, end; ///< units; on a GPU `begin` alone
  int64_t maxLanes;
  int64_t threads = 0; ///< of a GPU's block
  Index thread;        ///< of the block
  /// Who shares the addends of sums over leading dimensions: the warps, or each
  /// thread does its own.
  Team addends;
  mlir::LLVM::LLVMFuncOp function;
  /// Elements that a thread looks at in each of an operand's rows, one request
  /// after the other (see Part::Tiles). They are read together.
  int64_t tileSide = 1;

  /// Lanes of the current context; 1 outside of vectors.
  int64_t lanes = 1;
  /// An op that no request can be passed through, for the error.
  mlir::Operation *obstacle = nullptr;

  /// Reads of arguments and writes of results, by which `inplace` is checked.
  struct Access {
    int64_t number; ///< of the argument or result
    Index position;
    int64_t part;
    int64_t activeLanes;
    bool isFinal; ///< in a loop that writes
    size_t order; ///< grows along the code
  };
  std::vector<Access> reads, writes;
  int64_t part = 0;
  bool isFinal = false;

  /// What `tryEmit` undoes: everything emitted after it.
  bool tryEmit(llvm::function_ref<bool()> body);

  unsigned depth() const { return scopes.size() - 1; }
  /// The number that a tensor of this element type is computed with.
  Type typeOfNumbers(Type element);
  /// Whether the threads of a team look at different elements.
  bool differs(llvm::ArrayRef<Index> at) const;
  /// The value in all lanes of the context.
  Value vectorOf(Element element);
  /// Which lanes are not masked off.
  Value mask();
  /// Whether each thread of the team has its vectors of a row in registers.
  bool isUnrolled(int64_t vectors);
  /// Neutral element of a reduction.
  Value neutral(Type type, bool isMax);
  /// Takes a tensor of the kernel's context into this one's types.
  Type translated(Type element);

private:
  struct Scope {
    mlir::Block *block;
    mlir::Operation *before; ///< code goes before it; null: to the end
    std::map<std::vector<int64_t>, Element> known;
    std::map<unsigned, Value> variables; ///< by number
    std::map<std::vector<int64_t>, Value> sums;
    std::map<std::vector<int64_t>, std::pair<Index, Value>> rows;
    /// Pieces of operands' rows that a tile reads.
    std::map<std::vector<int64_t>, llvm::SmallVector<Value>> pieces;
    Team team;
    bool isRepeated = false; ///< in a loop
  };
  /// Runs `body` as if the scopes inside of `depth` were not open.
  void hoisted(unsigned depth, llvm::function_ref<void()> body);

  void setInsertionPoint(unsigned depth);
  unsigned depthOf(llvm::ArrayRef<Index> at) const;
  Value variable(unsigned number);
  void enter(mlir::Block *block);
  void leave();

  std::optional<Element> emit(Value tensor, llvm::ArrayRef<Index> at);
  std::optional<Element> emitArgument(int64_t argument, Type element,
                                      const Index &position);
  std::optional<Element> loadFrom(Value pointer, Type element,
                                  const Index &position);
  /// A comparison with a constant that has one answer for all of an index.
  std::optional<Element> emitKnownCompare(CompareOp op,
                                          llvm::ArrayRef<Index> at);
  std::optional<Element> emitPointwise(mlir::Operation *op,
                                       llvm::ArrayRef<Index> at);
  std::optional<Element> emitConstant(mlir::Operation *op, Type element,
                                      llvm::ArrayRef<Index> at);
  Value positionOf(ZigzagAttr zigzag, Value row);
  std::optional<Element> emitIota(IotaOp op, llvm::ArrayRef<Index> at);
  std::optional<Element> emitRandom(RandomUniformOp op,
                                    llvm::ArrayRef<Index> at);
  std::optional<Element> emitView(ViewOpInterface op, llvm::ArrayRef<Index> at);
  std::optional<Element> emitPad(mlir::Value x, llvm::ArrayRef<int64_t> lows,
                                 llvm::ArrayRef<Index> at);
  std::optional<Element> emitJoin(mlir::Operation *op, int64_t dim,
                                  llvm::ArrayRef<Index> at);
  std::optional<Element> emitGather(GatherOp op, llvm::ArrayRef<Index> at);
  std::optional<Element> emitReduce(ReduceOp op, llvm::ArrayRef<Index> at);
  std::optional<Element> emitEinsum(EinsumOp op, llvm::ArrayRef<Index> at);
  /// Runs `body` where the rows are known, by the team that shares them.
  bool atRows(llvm::ArrayRef<RowReduce> reduces,
              llvm::function_ref<bool()> body);
  /// As `tryEmit`, in the widest vectors that `body` takes.
  bool inWidths(int64_t count, llvm::function_ref<bool(int64_t)> body);
  bool tryReduceExps(const RowReduce &max, const RowReduce &sum, int64_t lanes);
  bool tryReduceRows(llvm::ArrayRef<RowReduce> reduces, int64_t lanes);
  /// Of sums that pick an element (see `picks`): reads it, without a loop.
  bool pickRows(llvm::ArrayRef<RowReduce> reduces);
  Value emitPick(const RowReduce &reduce);
  /// Remembers a sum or maximum.
  void setTotal(const RowReduce &reduce, Value total);

  /// Whether an index lies in [0, size), and an index that always does.
  struct Clamped {
    Index index;
    Value inside; ///< i1, or null: then `isInside` tells
    bool isInside = true;
  };
  std::optional<Clamped> clamp(const Index &index, int64_t size);
  /// The row of a table that an index tensor names, and whether it has it.
  std::optional<std::pair<Index, Value>> rowOf(GatherOp op,
                                               llvm::ArrayRef<Index> at);
  /// Numbers of an index, in lanes if it has any.
  Element numbers(const Index &index);

  void startCpu(llvm::StringRef symbol);
  void startGpu(llvm::StringRef symbol);
  /// Of the loop of the current scope, with what its body reads.
  void unroll(mlir::scf::ForOp loop, llvm::ArrayRef<Access> all);
  Value callIntrinsic(llvm::StringRef name, Type type,
                      mlir::ValueRange operands);
  void synchronizeWarp();
  /// The word that has a bit, and the bit in it.
  std::pair<Value, Value> bitOf(Value bits, Value number);
  void combineWarps(Carried &values, llvm::ArrayRef<bool> isMax, int64_t warps);
  void combineLanes(Carried &values, llvm::ArrayRef<bool> isMax, int64_t lanes);
  mlir::LLVM::GlobalOp sharedArray(Type element, int64_t count);
  /// Bytes that divide the address of a position.
  unsigned alignmentOf(Value pointer, Type storage, const Index &position);
  Value loadOne(Value pointer, Value address, Type type, unsigned align);
  /// A vector of elements that are `step` apart.
  Value loadLanes(Value pointer, Value address, Type storage, int64_t step,
                  unsigned align);
  /// A vector across the rows of an argument, whose pieces in the tile are read
  /// once; null if they are not whole vectors of memory.
  Value loadAcross(Value pointer, Type storage, const Index &position);
  /// The pieces that begin at the lanes of `first`.
  llvm::ArrayRef<Value> loadPieces(Value pointer, Type storage,
                                   const Index &first);
  /// Asks memory for the team's lines of a row of an argument.
  void prefetchLine(int64_t argument, Value row, int64_t columns,
                    const Index &line);
  /// A store of what the whole team knows.
  void storeOnce(unsigned result, const Index &position, Element element);

  Value pointerTo(Value base, Type storage, const Index &position);
  Type storageOf(Type element); ///< in memory
  Element fromStorage(Value value, Type element, bool isVector);
  Value toStorage(Value value, Type element);
  mlir::LLVM::GlobalOp tableOf(mlir::Operation *op, Type element);

  std::vector<Scope> scopes;
  unsigned leastDepth = 0; ///< of scopes where elements are read
  unsigned laneDepth = 0;  ///< of the scope that the lanes belong to
  int64_t laneContext = 0;
  int64_t laneContexts = 0;
  std::vector<Value> pointers;     ///< arguments, then results
  llvm::DenseSet<Value> constants; ///< pointers to what no thread writes
  unsigned sharedArrays = 0;
  std::map<std::pair<const void *, int64_t>, mlir::LLVM::GlobalOp> warpSums;
  std::map<std::pair<mlir::Operation *, const void *>, mlir::LLVM::GlobalOp>
      tables;
  mlir::ModuleOp module;
};

} // namespace kerf::codegen

#endif // KERF_CODEGEN_EMITTER_H
