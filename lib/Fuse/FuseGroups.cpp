//===- FuseGroups.cpp - which kernels become one --------------------------===//
//
// Problem: kernels of one op each read and write every value through memory.
// Idea: join kernels whose loops are the same, producers with readers and
// readers of one tensor with each other, when no other op stands between.
// Steps, per block: build the graph of ops; visit kernels in order and try to
// join each with the groups it reads from, then with groups that read what it
// reads; then each copy of a tensor with its turned copy; a join is legal when
// the graph of groups stays acyclic; sort the block by groups; build one kernel
// per group.
// Cost: (kernels)^2 searches of the graph of a block, some hundred ops.
//
//   n = layer_norm x; a = add n, y; m = linear a: {layer_norm, add} join; the
//   linear is no kernel and ends the group.
//
//===----------------------------------------------------------------------===//

#include "Classify.h"

#include "kerf/Fuse/Passes.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "fuse"

namespace kerf {
#define GEN_PASS_DEF_FUSEGROUPSPASS
#include "kerf/Fuse/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
/// Pointers that a kernel may take: more are slow to pass and rare.
constexpr size_t kMaxArguments = 40;

/// The ops of a block and who must come before whom.
struct BlockGraph {
  llvm::SmallVector<Operation *> ops;
  llvm::DenseMap<Operation *, unsigned> ids;
  llvm::SmallVector<llvm::SetVector<unsigned>> preds;
  /// Group of each op, the id of its first member.
  llvm::SmallVector<unsigned> group;
  llvm::SmallVector<KernelSpace> spaces;

  BlockGraph(Block &block, bool gathers);
  /// The op of this block that makes a value, or -1.
  int64_t producer(Value value, Block &block) const;
  llvm::SmallVector<unsigned> members(unsigned of) const;
  /// True if something outside both groups lies on a way from one to the other.
  bool joinMakesCycle(unsigned a, unsigned b) const;
  bool isReachable(unsigned from, unsigned to, bool skipDirect) const;
  bool canJoin(unsigned a, unsigned b) const;
  void join(unsigned a, unsigned b);
  /// Groups in an order that respects all edges, earliest first op first.
  llvm::SmallVector<unsigned> sortedGroups() const;
};
} // namespace

/// True for ops that keep their order: those with an effect, messages among
/// them, and collectives of several stages, whose programs are fused one by
/// one.
static bool isOrdered(Operation *op) {
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  bool joinsStages =
      axes && op->getNumOperands() > 0 &&
      llvm::is_contained(axes.getAsValueRange<StringAttr>(), kPipelineAxis);
  return joinsStages || !isMemoryEffectFree(op);
}

/// What `kerf.combine` became, perhaps with what it absorbed.
static bool isCombine(Operation *op) {
  auto kind = op->getAttrOfType<StringAttr>(kKindAttrName);
  return isa<spmd::FusedOp>(op) && kind &&
         (kind.getValue() == "combine" ||
          kind.getValue().ends_with("+combine"));
}

/// The loops of a kernel. Rows that are looked up are summed where the result
/// is made: as if they lay there.
static KernelSpace spaceOf(spmd::FusedOp fused, bool gathers) {
  if (!gathers || !isCombine(fused))
    return getKernelSpace(fused);
  auto shape = typeOf(fused->getResult(0)).getShape();
  return {KernelKind::Pointwise, llvm::to_vector(shape), /*looksUp=*/true};
}

BlockGraph::BlockGraph(Block &block, bool gathers) {
  for (Operation &op : block.without_terminator()) {
    ids[&op] = ops.size();
    ops.push_back(&op);
  }
  preds.resize(ops.size());
  spaces.resize(ops.size());
  int64_t lastOrdered = -1;
  for (auto [id, op] : llvm::enumerate(ops)) {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (int64_t p = producer(operand, block); p >= 0 && p != int64_t(id))
          preds[id].insert(p);
    });
    if (isOrdered(op)) {
      if (lastOrdered >= 0)
        preds[id].insert(lastOrdered);
      lastOrdered = id;
    }
    if (auto fused = dyn_cast<spmd::FusedOp>(op))
      spaces[id] = spaceOf(fused, gathers);
    group.push_back(id);
  }
}

int64_t BlockGraph::producer(Value value, Block &block) const {
  Operation *def = value.getDefiningOp();
  if (!def || def->getBlock() != &block)
    return -1;
  return ids.lookup(def);
}

llvm::SmallVector<unsigned> BlockGraph::members(unsigned of) const {
  llvm::SmallVector<unsigned> found;
  for (unsigned id = of; id < ops.size(); ++id)
    if (group[id] == of)
      found.push_back(id);
  return found;
}

bool BlockGraph::isReachable(unsigned from, unsigned to,
                             bool skipDirect) const {
  // Backwards from `to` over groups.
  llvm::SmallVector<unsigned> stack;
  llvm::DenseSet<unsigned> seen;
  auto push = [&](unsigned g, bool first) {
    for (unsigned member : members(g))
      for (unsigned p : preds[member]) {
        unsigned next = group[p];
        if (next == g || (first && skipDirect && next == from))
          continue;
        if (seen.insert(next).second)
          stack.push_back(next);
      }
  };
  push(to, true);
  while (!stack.empty()) {
    unsigned g = stack.pop_back_val();
    if (g == from)
      return true;
    push(g, false);
  }
  return false;
}

bool BlockGraph::joinMakesCycle(unsigned a, unsigned b) const {
  return isReachable(a, b, true) || isReachable(b, a, true);
}

/// True for a kernel that reads something turned.
static bool readsTurned(Operation *kernel) {
  Block &body = cast<spmd::FusedOp>(kernel).getBody().front();
  return llvm::any_of(body.getArguments(), isReadTurned);
}

/// True if what `reader` reads of `maker` is whole or one value per row, and
/// not turned: sums over rows are complete only when all rows are done.
static bool isRowFlow(Operation *maker, Operation *reader,
                      llvm::ArrayRef<int64_t> space) {
  Block &body = cast<spmd::FusedOp>(reader).getBody().front();
  return llvm::all_of(reader->getOpOperands(), [&](OpOperand &operand) {
    if (operand.get().getDefiningOp() != maker)
      return true;
    llvm::ArrayRef<int64_t> shape = typeOf(operand.get()).getShape();
    return !isReadTurned(body.getArgument(operand.getOperandNumber())) &&
           (shape == space || (!space.empty() && shape == space.drop_back()));
  });
}

/// True if the loops of two kernels can be one: rows and columns are of what is
/// read straight.
static bool haveOneSpace(Operation *x, const KernelSpace &ofX, Operation *y,
                         const KernelSpace &ofY) {
  bool isPointwise =
      ofX.kind == KernelKind::Pointwise && ofY.kind == KernelKind::Pointwise;
  return ofX.kind != KernelKind::Other && ofY.kind != KernelKind::Other &&
         ofX.shape == ofY.shape &&
         (isPointwise ||
          (!readsTurned(x) && !readsTurned(y) && !ofX.looksUp && !ofY.looksUp));
}

/// Values that the members read from outside and make for the outside.
static void findBorder(llvm::ArrayRef<Operation *> members,
                       llvm::SetVector<Value> &reads,
                       llvm::SetVector<Value> &results) {
  llvm::DenseSet<Operation *> inside(members.begin(), members.end());
  for (Operation *op : members) {
    for (Value operand : op->getOperands())
      if (!inside.contains(operand.getDefiningOp()))
        reads.insert(operand);
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !inside.contains(user); }))
        results.insert(result);
  }
}

bool BlockGraph::canJoin(unsigned a, unsigned b) const {
  llvm::SmallVector<unsigned> ofA = members(a), ofB = members(b);
  llvm::SmallVector<Operation *> both;
  for (unsigned id : llvm::concat<unsigned>(ofA, ofB))
    both.push_back(ops[id]);
  if (!llvm::all_of(both, llvm::IsaPred<spmd::FusedOp>))
    return false;
  for (unsigned x : ofA)
    for (unsigned y : ofB)
      if (!haveOneSpace(ops[x], spaces[x], ops[y], spaces[y]) ||
          !isRowFlow(ops[x], ops[y], spaces[x].shape) ||
          !isRowFlow(ops[y], ops[x], spaces[x].shape))
        return false;
  llvm::SetVector<Value> reads, results;
  findBorder(both, reads, results);
  return reads.size() + results.size() <= kMaxArguments &&
         !joinMakesCycle(a, b);
}

void BlockGraph::join(unsigned a, unsigned b) {
  unsigned first = std::min(a, b), second = std::max(a, b);
  for (unsigned &g : group)
    if (g == second)
      g = first;
}

llvm::SmallVector<unsigned> BlockGraph::sortedGroups() const {
  llvm::SmallVector<unsigned> order;
  llvm::DenseSet<unsigned> done;
  std::function<void(unsigned)> visit = [&](unsigned g) {
    if (!done.insert(g).second)
      return;
    for (unsigned member : members(g))
      for (unsigned p : preds[member])
        if (group[p] != g)
          visit(group[p]);
    order.push_back(g);
  };
  for (unsigned id = 0; id < ops.size(); ++id)
    visit(group[id]);
  return order;
}

//===----------------------------------------------------------------------===//
// Deciding
//===----------------------------------------------------------------------===//

static void joinProducers(BlockGraph &graph, unsigned id) {
  // The last producers first: they are the nearest.
  for (unsigned p : llvm::reverse(graph.preds[id].getArrayRef()))
    if (graph.group[p] != graph.group[id] &&
        graph.canJoin(graph.group[p], graph.group[id]))
      graph.join(graph.group[p], graph.group[id]);
}

/// True if both read one tensor as large as their space.
static bool shareInput(const BlockGraph &graph, unsigned a, unsigned b) {
  for (Value x : graph.ops[a]->getOperands())
    if (typeOf(x).getShape() ==
            llvm::ArrayRef<int64_t>(graph.spaces[a].shape) &&
        llvm::is_contained(graph.ops[b]->getOperands(), x))
      return true;
  return false;
}

static void joinSiblings(BlockGraph &graph, unsigned id) {
  for (unsigned other = 0; other < id; ++other)
    if (isa<spmd::FusedOp>(graph.ops[other]) &&
        graph.group[other] != graph.group[id] && shareInput(graph, other, id) &&
        graph.canJoin(graph.group[other], graph.group[id]))
      graph.join(graph.group[other], graph.group[id]);
}

/// The tensor that the members of a group read from outside, if what else they
/// read are scalars and all are elementwise; else null.
static Value copiedBy(const BlockGraph &graph, unsigned group) {
  Value copied;
  for (unsigned id : graph.members(group)) {
    Operation *op = graph.ops[id];
    if (!isa<spmd::FusedOp>(op) ||
        graph.spaces[id].kind != KernelKind::Pointwise ||
        graph.spaces[id].looksUp)
      return {};
    for (Value x : op->getOperands()) {
      auto maker = graph.ids.find(x.getDefiningOp());
      bool isInner =
          maker != graph.ids.end() && graph.group[maker->second] == group;
      if (isInner || typeOf(x).getRank() == 0)
        continue;
      if (copied && copied != x)
        return {};
      copied = x;
    }
  }
  return copied;
}

static bool turnsCopy(const BlockGraph &graph, unsigned group) {
  return llvm::any_of(graph.members(group),
                      [&](unsigned id) { return readsTurned(graph.ops[id]); });
}

/// Joins a kernel that copies a tensor, rounded or scaled, with one that makes
/// a turned copy of it: a square of it is read once and written twice.
static void joinTurned(BlockGraph &graph, unsigned turned) {
  Value x = copiedBy(graph, turned);
  if (!x || !turnsCopy(graph, turned))
    return;
  for (Operation *user : x.getUsers()) {
    auto found = graph.ids.find(user);
    if (found == graph.ids.end() || graph.group[found->second] == turned)
      continue;
    unsigned other = graph.group[found->second];
    if (copiedBy(graph, other) == x && !turnsCopy(graph, other) &&
        graph.spaces[other].shape == typeOf(x).getShape() &&
        !graph.joinMakesCycle(turned, other)) {
      graph.join(turned, other);
      return;
    }
  }
}

//===----------------------------------------------------------------------===//
// Values that each kernel makes again
//===----------------------------------------------------------------------===//

/// The one tensor of its result's shape that an elementwise kernel reads, if
/// what else it reads are scalars, and nothing random is drawn; else null.
static Value chainInput(const BlockGraph &graph, unsigned id) {
  auto fused = dyn_cast<spmd::FusedOp>(graph.ops[id]);
  if (!fused || fused->getNumResults() != 1 ||
      graph.spaces[id].kind != KernelKind::Pointwise ||
      graph.spaces[id].looksUp || readsTurned(fused) ||
      !fused.getBody().front().getOps<RandomUniformOp>().empty())
    return {};
  Value input;
  for (Value x : fused->getOperands()) {
    if (typeOf(x).getRank() == 0)
      continue;
    bool isLarge =
        typeOf(x).getShape() == typeOf(fused->getResult(0)).getShape();
    if (!isLarge || (input && input != x))
      return {};
    input = x;
  }
  return input;
}

static unsigned bitsOf(Value value) {
  return typeOf(value).getElementTypeBitWidth();
}

/// True for a kernel whose readers may as well compute its result: what they
/// read for it lies in memory anyway, or is narrower.
static bool isMadeAgain(const BlockGraph &graph, unsigned id) {
  Value input = chainInput(graph, id);
  if (!input || bitsOf(input) > bitsOf(graph.ops[id]->getResult(0)))
    return false;
  auto maker = graph.ids.find(input.getDefiningOp());
  return bitsOf(input) < bitsOf(graph.ops[id]->getResult(0)) ||
         maker == graph.ids.end() ||
         graph.group[maker->second] != graph.group[id] ||
         isMadeAgain(graph, maker->second);
}

namespace {
/// Gives each kernel that would read a value from memory the chain that makes
/// it: a collective stands between kernels that read the same scaled logits.
class ChainRepeater {
public:
  ChainRepeater(BlockGraph &graph) : graph(graph) {}

  /// True if something was repeated: the groups are those of another block.
  bool run() {
    bool changed = false;
    for (unsigned id = graph.ops.size(); id-- > 0;)
      changed |= isMadeAgain(graph, id) && repeat(id);
    return changed;
  }

private:
  BlockGraph &graph;
  llvm::DenseMap<Operation *, unsigned> groupOfCopy;

  /// The group of a kernel over the loops of kernel `id`, or -1.
  int64_t groupOf(Operation *user, unsigned id) const {
    if (auto copy = groupOfCopy.find(user); copy != groupOfCopy.end())
      return copy->second;
    auto found = graph.ids.find(user);
    if (found == graph.ids.end() || !isa<spmd::FusedOp>(user) ||
        readsTurned(user) ||
        !haveOneSpace(graph.ops[id], graph.spaces[id], user,
                      graph.spaces[found->second]))
      return -1;
    return graph.group[found->second];
  }

  bool repeat(unsigned id) {
    Operation *op = graph.ops[id];
    llvm::MapVector<int64_t, llvm::SmallVector<Operation *>> readers;
    for (Operation *user : op->getUsers())
      readers[groupOf(user, id)].push_back(user);
    if (readers.count(-1))
      return false;
    readers.remove_if(
        [&](auto &entry) { return entry.first == graph.group[id]; });
    for (auto &[group, users] : readers)
      copyFor(op, group, users);
    return !readers.empty();
  }

  void copyFor(Operation *op, unsigned group,
               llvm::ArrayRef<Operation *> users) {
    Operation *first = users.front();
    for (Operation *user : users)
      if (user->isBeforeInBlock(first))
        first = user;
    Operation *copy = OpBuilder(first).clone(*op);
    for (Operation *user : users)
      user->replaceUsesOfWith(op->getResult(0), copy->getResult(0));
    groupOfCopy[copy] = group;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

/// What the members compute, each kind once: "layer_norm+add".
static std::string kindOf(llvm::ArrayRef<Operation *> members) {
  llvm::SetVector<llvm::StringRef> kinds;
  for (Operation *op : members)
    if (auto kind = op->getAttrOfType<StringAttr>(kKindAttrName))
      kinds.insert(kind.getValue());
  return llvm::join(kinds, "+");
}

/// Replaces the members by one kernel at the place of the first.
static Operation *buildGroup(llvm::ArrayRef<Operation *> members,
                             Operation *before) {
  llvm::SetVector<Value> reads, results;
  findBorder(members, reads, results);
  OpBuilder builder(before);
  llvm::SmallVector<Location> locations;
  for (Operation *op : members)
    locations.push_back(op->getLoc());
  Location loc = FusedLoc::get(before->getContext(), locations);
  auto fused = spmd::FusedOp::create(
      builder, loc, ValueRange(results.getArrayRef()).getTypes(),
      reads.getArrayRef());
  if (PhaseAttr phase = getPhase(members.back()))
    fused->setAttr(kPhaseAttrName, phase);
  fused->setAttr(kKindAttrName, builder.getStringAttr(kindOf(members)));
  Block &body = fused.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value read : reads)
    mapping.map(read, body.addArgument(read.getType(), read.getLoc()));
  builder.setInsertionPointToStart(&body);
  for (Operation *op : members) {
    Block &inner = cast<spmd::FusedOp>(op).getBody().front();
    for (auto [argument, operand] :
         llvm::zip(inner.getArguments(), op->getOperands()))
      mapping.map(argument, mapping.lookup(operand));
    for (Operation &plain : inner.without_terminator())
      builder.clone(plain, mapping);
    for (auto [result, value] :
         llvm::zip(op->getResults(), inner.getTerminator()->getOperands()))
      mapping.map(result, mapping.lookup(value));
  }
  llvm::SmallVector<Value> yields;
  for (Value result : results)
    yields.push_back(mapping.lookup(result));
  spmd::YieldOp::create(builder, loc, yields);
  for (auto [old, made] :
       llvm::zip(llvm::SmallVector<Value>(results.begin(), results.end()),
                 fused.getResults()))
    old.replaceAllUsesWith(made);
  return fused;
}

/// Puts the ops of the block in the order of the groups and builds them.
static void rebuild(BlockGraph &graph, Block &block) {
  Operation *terminator = block.getTerminator();
  llvm::SmallVector<llvm::SmallVector<Operation *>> groups;
  for (unsigned g : graph.sortedGroups()) {
    llvm::SmallVector<Operation *> members;
    for (unsigned id : graph.members(g))
      members.push_back(graph.ops[id]);
    for (Operation *op : members)
      op->moveBefore(terminator);
    groups.push_back(members);
  }
  IRRewriter rewriter(block.getParentOp()->getContext());
  for (llvm::ArrayRef<Operation *> members : groups) {
    if (members.size() < 2)
      continue;
    Operation *fused = buildGroup(members, members.front());
    for (Operation *op : llvm::reverse(members))
      op->erase();
    DominanceInfo dominance(fused);
    eliminateCommonSubExpressions(rewriter, dominance, fused);
  }
}

//===----------------------------------------------------------------------===//
// Tables of rows that are looked up
//===----------------------------------------------------------------------===//

/// The operand whose rows a combination looks up, or null.
static OpOperand *tableOf(spmd::FusedOp combine) {
  OpOperand *table = nullptr;
  combine.getBody().front().walk([&](GatherOp gather) {
    Value from = gather.getTable();
    while (isView(from, ViewKind::Rename) || isConversion(from.getDefiningOp()))
      from = from.getDefiningOp()->getOperand(0);
    if (auto argument = dyn_cast<BlockArgument>(from))
      table = &combine->getOpOperand(argument.getArgNumber());
  });
  return table;
}

/// True for sums and differences of whole tensors: each element is looked up
/// once, so that it may as well be made then.
static bool isPlainSum(spmd::FusedOp fused) {
  auto shape = typeOf(fused->getResult(0)).getShape();
  return fused->getNumResults() == 1 &&
         llvm::all_of(fused->getOperandTypes(),
                      [&](Type type) {
                        return cast<RankedTensorType>(type).getShape() == shape;
                      }) &&
         llvm::all_of(fused.getBody().front().without_terminator(),
                      [](Operation &op) {
                        return isConversion(&op) || isa<AddOp, SubOp>(op);
                      });
}

/// The kernel that makes a table for one reader; what only renames its elements
/// goes into the kernel.
static spmd::FusedOp makerOf(OpOperand &table) {
  Value value = table.get();
  Operation *renamed =
      isView(value, ViewKind::Rename) ? value.getDefiningOp() : nullptr;
  Value made = renamed ? renamed->getOperand(0) : value;
  auto maker = made.getDefiningOp<spmd::FusedOp>();
  if (!maker || maker->getBlock() != table.getOwner()->getBlock() ||
      !value.hasOneUse() || !made.hasOneUse() || !isPlainSum(maker))
    return {};
  if (!renamed)
    return maker;
  Operation *yield = maker.getBody().front().getTerminator();
  OpBuilder inside(yield);
  yield->setOperand(0,
                    ReshapeOp::create(inside, renamed->getLoc(),
                                      value.getType(), yield->getOperand(0)));
  made.setType(cast<RankedTensorType>(value.getType()));
  value.replaceAllUsesWith(made);
  renamed->erase();
  return maker;
}

/// Puts a sum that is made for a combination alone into it.
static void absorbTable(spmd::FusedOp combine) {
  OpOperand *table = tableOf(combine);
  spmd::FusedOp maker = table ? makerOf(*table) : spmd::FusedOp();
  if (!maker)
    return;
  buildGroup({maker, combine}, combine);
  combine->erase();
  maker->erase();
}

static void absorbTables(Block &block) {
  llvm::SmallVector<spmd::FusedOp> found;
  for (auto fused : block.getOps<spmd::FusedOp>())
    if (isCombine(fused))
      found.push_back(fused);
  for (spmd::FusedOp combine : found)
    absorbTable(combine);
}

namespace {
struct FuseGroups : kerf::impl::FuseGroupsPassBase<FuseGroups> {
  using FuseGroupsPassBase::FuseGroupsPassBase;

  void runOnOperation() override {
    for (Block *block : kernelBlocks(getOperation()))
      fuseBlock(*block);
  }

  BlockGraph grouped(Block &block) {
    BlockGraph graph(block, gathers);
    for (unsigned id = 0; id < graph.ops.size(); ++id)
      if (isa<spmd::FusedOp>(graph.ops[id]))
        joinProducers(graph, id);
    for (unsigned id = 0; id < graph.ops.size(); ++id)
      if (isa<spmd::FusedOp>(graph.ops[id]))
        joinSiblings(graph, id);
    for (unsigned id = 0; turned && id < graph.ops.size(); ++id)
      if (graph.group[id] == id)
        joinTurned(graph, id);
    return graph;
  }

  void fuseBlock(Block &block) {
    if (gathers)
      absorbTables(block);
    BlockGraph graph = grouped(block);
    if (ChainRepeater(graph).run()) {
      eraseUnread(block);
      graph = grouped(block);
    }
    auto kernels = [&] {
      return std::distance(block.op_begin<spmd::FusedOp>(),
                           block.op_end<spmd::FusedOp>());
    };
    [[maybe_unused]] int64_t before = llvm::DebugFlag ? kernels() : 0;
    rebuild(graph, block);
    LDBG() << "a block of " << before << " kernels has " << kernels();
  }
};
} // namespace
