//===- Split.cpp - kernels of one launch each -----------------------------===//
//
// Problem: a kernel's code pulls elements on demand. What many elements need
// (a sum over all rows, a table of sines) would be computed again for each, so
// it must be stored first: by a launch before.
//
// Idea: choose the values to be stored, then give every stored value and result
// the least stage after those of the stored values that it is computed from.
// One kernel per stage; the ops between are computed again where they are
// needed.
//
// Steps: 1. Sums over many rows become sums of chunks of rows, which are added
// up by the next stage. 2. Values are stored until no rule asks for more.
// 3. Stages. 4. Kernels.
//
// Example: the gradient of a gain, `sum over rows of dy normal`, with 2048
// rows: stage 0 gives 64 rows of partial sums (and the input's gradient, which
// needs the same row statistics), stage 1 adds them up.
//
//===----------------------------------------------------------------------===//

#include "kerf/Codegen/Codegen.h"

#include "ChunkSums.h"
#include "Parts.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

namespace {
/// The values to be stored, and questions about what lies between them.
struct Stored {
  llvm::SetVector<Value> values;
  bool forGpu = false;

  /// Calls `visit` for every op that `root` is computed from without stored
  /// values between; not those behind an op for which it returns false.
  void forCone(Value root, llvm::function_ref<bool(Operation *)> visit) const {
    llvm::SmallPtrSet<Operation *, 32> seen;
    llvm::SmallVector<Value> open = {root};
    bool isRoot = true;
    while (!open.empty()) {
      Value value = open.pop_back_val();
      Operation *op = value.getDefiningOp();
      bool isStored = !isRoot && values.contains(value);
      isRoot = false;
      if (!op || isStored || !seen.insert(op).second || !visit(op))
        continue;
      llvm::append_range(open, op->getOperands());
    }
  }
  /// As above, from an operand: nothing is visited if it is stored itself.
  void forOperand(Value operand,
                  llvm::function_ref<bool(Operation *)> visit) const {
    if (!values.contains(operand))
      forCone(operand, visit);
  }
  /// True for a sum of a few addends that a thread of a GPU takes again where
  /// it is needed: `elements` of them are not many more than there are sums.
  bool takesAgain(Operation *sum, int64_t elements) const;
  bool add(Value value) {
    return value.getDefiningOp() && !isConstant(value.getDefiningOp()) &&
           values.insert(value);
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// What is stored
//===----------------------------------------------------------------------===//

static bool isShapeOrCast(Operation *op) {
  return isConversion(op) || isConstant(op) || isa<IotaOp>(op) ||
         isView(op, ViewKind::Rename, ViewKind::Part, ViewKind::Turn,
                ViewKind::Repeat);
}

static bool isExpensive(Operation *op) {
  auto scalar = dyn_cast<ScalarOpInterface>(op);
  return isa<RandomUniformOp>(op) || (scalar && scalar.isExpensive());
}

/// A reduction of several elements.
static bool isSum(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return elementCount(reduce.getX()) > elementCount(reduce.getResult());
  return isCall(op, LibraryCall::Matmul);
}

/// A sum of so few addends that a thread of a GPU takes them all.
static bool isShort(Operation *sum) {
  auto reduce = dyn_cast<ReduceOp>(sum);
  return reduce && elementCount(reduce.getX()) <=
                       kShortRow * elementCount(reduce.getResult());
}

bool Stored::takesAgain(Operation *sum, int64_t elements) const {
  constexpr int64_t mostReaders = kShortRow * kShortRow;
  return forGpu && isShort(sum) &&
         elements <= mostReaders * elementCount(sum->getResult(0));
}

/// The sum over the last dimensions that an op is, or null.
static ReduceOp rowSumOf(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && reducesRows(reduce) ? reduce : ReduceOp();
}

static bool hasSum(const Stored &stored, Value operand) {
  bool found = false;
  stored.forOperand(operand, [&](Operation *op) {
    found |= isSum(op);
    return !found;
  });
  return found;
}

static bool isTrivial(const Stored &stored, Value operand) {
  bool trivial = true;
  stored.forOperand(operand, [&](Operation *op) {
    trivial &= isShapeOrCast(op);
    return trivial;
  });
  return trivial;
}

/// Stores what sums under `root`, `elements` of them, would compute more than
/// once: all but sums of the rows that `root` is made of, and, with
/// `takeAgain`, short ones.
static bool storeInnerSums(Stored &stored, Value root, int64_t rows,
                           bool takeAgain = false) {
  bool changed = false;
  int64_t elements = elementCount(root);
  stored.forOperand(root, [&](Operation *op) {
    if (!isSum(op) || (takeAgain && stored.takesAgain(op, elements)))
      return true;
    int64_t size = elementCount(op->getResult(0));
    if (rowSumOf(op) && size == rows)
      return true;
    // Few elements on the way: those instead of the sum.
    bool storeRoot = elements <= 4 * size;
    changed |= stored.add(storeRoot ? root : op->getResult(0));
    return false;
  });
  return changed;
}

/// Number of rows that a root is computed in. Of a GPU's kernel, which may have
/// short sums of other rows, too: those that are as long as the root's.
static int64_t rowsOfRoot(const Stored &stored, Value root) {
  int64_t rows = 0, own = 0;
  stored.forCone(root, [&](Operation *op) {
    ReduceOp reduce = rowSumOf(op);
    if (!reduce || !isSum(op) ||
        elementCount(root) %
                std::max<int64_t>(elementCount(op->getResult(0)), 1) !=
            0)
      return true;
    rows = std::max(rows, elementCount(op->getResult(0)));
    if (elementCount(reduce.getX()) == elementCount(root))
      own = std::max(own, elementCount(op->getResult(0)));
    return true;
  });
  return stored.forGpu && own ? own : rows;
}

/// True for a table that is cheaper to compute where its rows are looked up
/// than to store: each element is asked for about once, and made of a few.
static bool isCheapTable(const Stored &stored, GatherOp gather) {
  bool isCheap = stored.forGpu && elementCount(gather.getResult()) <=
                                      elementCount(gather.getTable());
  stored.forOperand(gather.getTable(), [&](Operation *op) {
    isCheap &= isShapeOrCast(op) || isa<AddOp, SubOp, MulOp>(op);
    return isCheap;
  });
  return isCheap;
}

/// Rules about the operands of one op.
static bool storeOperands(Stored &stored, Operation *op) {
  bool changed = false;
  auto storeIf = [&](bool condition, Value value) {
    if (condition && !stored.values.contains(value))
      changed |= stored.add(value);
  };
  if (auto scatter = dyn_cast<ScatterAddOp>(op)) {
    storeIf(hasSum(stored, scatter.getX()), scatter.getX());
    storeIf(!isTrivial(stored, scatter.getIndex()), scatter.getIndex());
  } else if (auto cumsum = dyn_cast<CumsumOp>(op)) {
    storeIf(hasSum(stored, cumsum.getX()), cumsum.getX());
  } else if (auto gather = dyn_cast<GatherOp>(op)) {
    storeIf(!isTrivial(stored, gather.getTable()) &&
                !isCheapTable(stored, gather),
            gather.getTable());
    storeIf(hasSum(stored, gather.getIndex()), gather.getIndex());
  } else if (isCall(op, LibraryCall::Matmul)) {
    for (Value operand : op->getOperands())
      storeIf(!isTrivial(stored, operand), operand);
  } else if (auto topK = dyn_cast<TopKOp>(op)) {
    int64_t rows = elementCount(topK.getValues()) / topK.getK();
    changed |= storeInnerSums(stored, topK.getX(), rows);
  } else if (auto partial = dyn_cast<exec::PartialReduceOp>(op)) {
    changed |= storeInnerSums(stored, partial.getX(),
                              typeOf(partial.getResult()).getDimSize(1) == 1
                                  ? -1
                                  : partial.getRowCount());
  } else if (auto reduce = dyn_cast<ReduceOp>(op); reduce && isSum(op)) {
    changed |= storeInnerSums(
        stored, reduce.getX(),
        reducesRows(reduce) ? elementCount(reduce.getResult()) : -1,
        /*takeAgain=*/isShort(reduce));
  } else if (auto view = viewOf(op); view && view->kind == ViewKind::Repeat) {
    Value x = op->getOperand(0), result = op->getResult(0);
    bool keepsLast = !view->dims.empty() &&
                     view->dims.back() == typeOf(result).getRank() - 1;
    bool isLarger =
        elementCount(x) >= 64 && elementCount(result) >= 4 * elementCount(x);
    bool isCostly = false;
    stored.forOperand(x, [&](Operation *op) {
      isCostly |= isExpensive(op);
      return true;
    });
    storeIf(keepsLast && isLarger && isCostly && !hasSum(stored, x), x);
  }
  return changed;
}

/// True for an op of whose results other ops can pull elements.
static bool isPulledFrom(Operation *op) {
  return !isa<ScatterAddOp, CumsumOp, TopKOp, exec::PartialReduceOp>(op);
}

/// Results that no other op can pull elements of.
static bool storeHardResults(Stored &stored, Operation *op) {
  if (isPulledFrom(op) && !isCall(op, LibraryCall::Matmul))
    return false;
  bool changed = false;
  for (Value result : op->getResults())
    for (Operation *user : result.getUsers()) {
      if (isa<exec::YieldOp>(user) || stored.values.contains(result))
        continue;
      // A table that rows are added to is filled with the other addend; its
      // shape does not matter.
      auto root = isa<AddOp>(user) || isView(user, ViewKind::Rename)
                      ? scatterRootOf(user->getResult(0))
                      : std::nullopt;
      bool isRoot = root && result.hasOneUse() && root->scatter == op &&
                    llvm::all_of(user->getUsers(), [](Operation *u) {
                      return isa<exec::YieldOp>(u);
                    });
      if (!isRoot)
        changed |= stored.add(result);
    }
  return changed;
}

/// Sums under a root that do not follow its rows, unless the root has their
/// elements one by one.
static bool storeSumsUnderRoot(Stored &stored, Value root) {
  Operation *op = root.getDefiningOp();
  if (!op || !isPulledFrom(op) || isSum(op))
    return false;
  int64_t rows = rowsOfRoot(stored, root);
  bool changed = false;
  stored.forCone(root, [&](Operation *op) {
    if (!isSum(op) || stored.takesAgain(op, elementCount(root)))
      return true;
    ReduceOp reduce = rowSumOf(op);
    int64_t size = elementCount(op->getResult(0));
    bool isRow = reduce && size == rows;
    if (isRow && (rows > 1 || elementCount(root) <= 1 ||
                  elementCount(reduce.getX()) == elementCount(root)))
      return true;
    if (size != elementCount(root) || isRow)
      changed |= stored.add(op->getResult(0));
    return false;
  });
  return changed;
}

/// Running sums over a few elements, of which other ops read: as sums of what
/// comes before, which need no launch of their own.
static bool expandRunningSums(exec::KernelOp kernel) {
  llvm::SmallVector<CumsumOp> found;
  kernel.walk([&](CumsumOp op) {
    if (typeOf(op.getX()).getDimSize(op.getDim()) <= kShortRow &&
        !llvm::any_of(op->getUsers(), llvm::IsaPred<exec::YieldOp>))
      found.push_back(op);
  });
  for (CumsumOp op : found) {
    OpBuilder builder(op);
    PlainBuilder p{builder, op.getLoc()};
    int64_t at = op.getDim(), rank = typeOf(op.getX()).getRank();
    llvm::SmallVector<int64_t> shape(typeOf(op.getX()).getShape()), dims;
    shape.insert(shape.begin() + at, shape[at]);
    for (int64_t d = 0; d < rank; ++d)
      dims.push_back(d <= at ? d : d + 1);
    Value isBefore =
        p.compare(CompareKind::LT, p.iota(shape, at), p.iota(shape, at + 1));
    Value each = p.select(isBefore, p.broadcast(op.getX(), dims, shape), 0.0);
    op.getResult().replaceAllUsesWith(p.sum(each, {at}));
    op->erase();
  }
  return !found.empty();
}

static Stored chooseStored(exec::KernelOp kernel, bool forGpu) {
  Stored stored;
  stored.forGpu = forGpu;
  bool changed = true;
  while (changed) {
    changed = false;
    for (Operation &op : kernel.getBody().front()) {
      changed |= storeHardResults(stored, &op);
      changed |= storeOperands(stored, &op);
    }
    llvm::SetVector<Value> roots(stored.values);
    for (Value value : kernel.getYield().getValues())
      roots.insert(value);
    for (Value root : roots)
      changed |= storeSumsUnderRoot(stored, root);
  }
  return stored;
}

//===----------------------------------------------------------------------===//
// Stages and kernels
//===----------------------------------------------------------------------===//

namespace {
class Splitter {
public:
  Splitter(exec::KernelOp kernel, Stored stored)
      : kernel(kernel), stored(std::move(stored)) {}
  SplitKernel run();

private:
  unsigned stageOf(Value root);
  void numberValues();
  KernelLaunch build(unsigned stage, llvm::ArrayRef<int64_t> outputs);
  void keepInplace(SplitKernel &result);

  exec::KernelOp kernel;
  Stored stored;
  llvm::DenseMap<Value, unsigned> stages;
  llvm::DenseMap<Value, int64_t> numbers; ///< of stored values and arguments
  std::vector<Value> outputs;             ///< results, then temporaries
};
} // namespace

unsigned Splitter::stageOf(Value root) {
  auto known = stages.find(root);
  if (known != stages.end())
    return known->second;
  unsigned stage = 0;
  llvm::SmallVector<Value> inputs;
  stored.forCone(root, [&](Operation *op) {
    for (Value operand : op->getOperands())
      if (stored.values.contains(operand))
        inputs.push_back(operand);
    return true;
  });
  for (Value input : inputs)
    stage = std::max(stage, stageOf(input) + 1);
  return stages[root] = stage;
}

void Splitter::numberValues() {
  int64_t next = 0;
  for (Value argument : kernel.getBody().getArguments())
    numbers[argument] = next++;
  for (Value value : kernel.getYield().getValues()) {
    outputs.push_back(value);
    if (stored.values.contains(value))
      numbers.try_emplace(value, next);
    ++next;
  }
  for (Value value : stored.values)
    if (numbers.try_emplace(value, next).second) {
      outputs.push_back(value);
      ++next;
    }
}

KernelLaunch Splitter::build(unsigned stage, llvm::ArrayRef<int64_t> results) {
  llvm::SetVector<Value> inputs;
  llvm::SmallPtrSet<Operation *, 32> ops;
  auto need = [&](Value value) {
    if (isa<BlockArgument>(value) || stored.values.contains(value))
      inputs.insert(value);
  };
  llvm::SmallVector<Type> resultTypes;
  for (int64_t result : results) {
    Value root = outputs[result];
    resultTypes.push_back(root.getType());
    if (isa<BlockArgument>(root))
      inputs.insert(root);
    stored.forCone(root, [&](Operation *op) {
      ops.insert(op);
      llvm::for_each(op->getOperands(), need);
      return true;
    });
  }
  llvm::SmallVector<Value> ordered = inputs.takeVector();
  llvm::sort(ordered,
             [&](Value a, Value b) { return numbers[a] < numbers[b]; });
  llvm::SmallVector<Type> inputTypes;
  for (Value input : ordered)
    inputTypes.push_back(input.getType());
  OpBuilder builder(kernel);
  auto part = exec::KernelOp::create(
      builder, kernel.getLoc(),
      (kernel.getSymName() + "." + llvm::Twine(stage)).str(),
      builder.getFunctionType(inputTypes, resultTypes));
  builder.setInsertionPointToEnd(&part.getBody().front());
  IRMapping mapping;
  KernelLaunch launch{part, {}};
  for (auto [input, argument] :
       llvm::zip(ordered, part.getBody().getArguments())) {
    mapping.map(input, argument);
    launch.values.push_back(numbers[input]);
  }
  IRMapping inner = mapping;
  for (Operation &op : kernel.getBody().front()) {
    if (!ops.contains(&op))
      continue;
    Operation *copy = builder.clone(op, inner);
    // An input keeps its name, though its op is here for another result.
    for (auto [result, made] : llvm::zip(op.getResults(), copy->getResults()))
      if (Value input = mapping.lookupOrNull(result))
        inner.map(result, input);
      else
        inner.map(result, made);
  }
  llvm::SmallVector<Value> yields;
  for (int64_t result : results) {
    yields.push_back(inner.lookup(outputs[result]));
    launch.values.push_back(kernel.getArgumentTypes().size() + result);
  }
  exec::YieldOp::create(builder, kernel.getLoc(), yields);
  return launch;
}

/// Keeps pairs whose argument is read by the launch that makes the result, and
/// by none after it.
void Splitter::keepInplace(SplitKernel &result) {
  int64_t argumentCount = kernel.getArgumentTypes().size();
  for (auto [at, launch] : llvm::enumerate(result.launches)) {
    llvm::SmallVector<Attribute> pairs;
    Builder builder(kernel.getContext());
    size_t inputs = launch.kernel.getArgumentTypes().size();
    for (size_t i = inputs; i < launch.values.size(); ++i) {
      int64_t number = launch.values[i] - argumentCount;
      if (number >= static_cast<int64_t>(kernel.getResultTypes().size()))
        continue;
      int64_t argument = kernel.getInplaceArgument(number);
      auto read = llvm::find(llvm::ArrayRef(launch.values).take_front(inputs),
                             argument);
      bool isReadLater =
          llvm::any_of(llvm::drop_begin(result.launches, at + 1),
                       [&](const KernelLaunch &later) {
                         return llvm::is_contained(later.values, argument);
                       });
      if (argument < 0 || isReadLater || read == launch.values.data() + inputs)
        continue;
      int64_t position = read - launch.values.data();
      pairs.push_back(builder.getI64ArrayAttr(
          {static_cast<int64_t>(i - inputs), position}));
    }
    if (!pairs.empty())
      launch.kernel.setInplaceAttr(builder.getArrayAttr(pairs));
  }
}

SplitKernel Splitter::run() {
  numberValues();
  std::map<unsigned, llvm::SmallVector<int64_t>> byStage;
  for (auto [i, value] : llvm::enumerate(outputs))
    byStage[stageOf(value)].push_back(i);
  SplitKernel result;
  for (auto &[stage, results] : byStage)
    result.launches.push_back(build(stage, results));
  for (size_t i = kernel.getResultTypes().size(); i < outputs.size(); ++i)
    result.temporaries.push_back(typeOf(outputs[i]));
  if (kernel.getInplace())
    keepInplace(result);
  kernel.erase();
  return result;
}

SplitKernel kerf::splitKernel(exec::KernelOp kernel, SplitOptions options) {
  bool changed = options.forGpu && expandRunningSums(kernel);
  changed |= chunkSums(kernel, options.forGpu);
  Stored stored = chooseStored(kernel, options.forGpu);
  if (changed || !stored.values.empty())
    return Splitter(kernel, std::move(stored)).run();
  KernelLaunch launch{kernel, {}};
  size_t count =
      kernel.getArgumentTypes().size() + kernel.getResultTypes().size();
  for (size_t i = 0; i < count; ++i)
    launch.values.push_back(i);
  SplitKernel result;
  result.launches.push_back(std::move(launch));
  return result;
}
