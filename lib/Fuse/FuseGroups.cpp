//===- FuseGroups.cpp - which kernels become one --------------------------===//
//
// Which kernels are joined is decided on plain data (kerf/Kernels/Groups.h), as
// the planner decides it, too.
// Steps, per block: write its ops as plain data; find groups; give each group
// the values that are cheaper to recompute than to read; sort the block by
// groups; build one kernel per group.
//
//   n = layer_norm x; a = add n, y; m = linear a: {layer_norm, add} join; the
//   linear is no kernel and ends the group.
//
//===----------------------------------------------------------------------===//

#include "Classify.h"

#include "kerf/Fuse/Passes.h"
#include "kerf/Kernels/Groups.h"

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
/// The ops of a block, as plain data, and their groups.
struct BlockGraph {
  llvm::SmallVector<Operation *> ops;
  llvm::DenseMap<Operation *, unsigned> ids;
  kernels::Graph plain;
  /// Group of each op, the id of its first member, and groups in their order.
  std::vector<int> group, order;

  BlockGraph(Block &block, bool gathers);
  void find(bool turned);
  llvm::SmallVector<unsigned> members(unsigned of) const;

private:
  int tensorOf(Value value);
  void addOp(unsigned id, bool gathers);

  Block &block;
  llvm::DenseMap<Value, int> tensors;
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

/// True for what the end of a block reads.
static bool leaves(Value value, Block &block) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return block.findAncestorOpInBlock(*user) == block.getTerminator();
  });
}

int BlockGraph::tensorOf(Value value) {
  auto [at, isNew] = tensors.insert({value, plain.tensors.size()});
  if (isNew) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    kernels::Tensor tensor;
    if (type)
      tensor.shape.assign(type.getShape().begin(), type.getShape().end());
    tensor.leaves = leaves(value, block);
    plain.tensors.push_back(tensor);
  }
  return at->second;
}

/// What an op reads, and the ops in its regions, and what it makes.
void BlockGraph::addOp(unsigned id, bool gathers) {
  Operation *op = ops[id];
  kernels::Node node;
  auto fused = dyn_cast<spmd::FusedOp>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    bool isTurned = fused && isReadTurned(fused.getBody().front().getArgument(
                                 operand.getOperandNumber()));
    node.reads.push_back({tensorOf(operand.get()), isTurned});
  }
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      if (!maker || maker->getBlock() != &block || maker == op)
        continue;
      int before = ids.lookup(maker);
      if (!llvm::is_contained(node.before, before))
        node.before.push_back(before);
      if (inner != op)
        node.reads.push_back({tensorOf(operand)});
    }
  });
  for (Value result : op->getResults())
    node.writes.push_back(tensorOf(result));
  if (fused) {
    KernelSpace space = spaceOf(fused, gathers);
    node.isKernel = space.kind != KernelKind::Other;
    node.isPointwise = space.kind == KernelKind::Pointwise;
    node.looksUp = space.looksUp;
    node.space.assign(space.shape.begin(), space.shape.end());
  }
  plain.nodes.push_back(std::move(node));
}

BlockGraph::BlockGraph(Block &block, bool gathers) : block(block) {
  for (Operation &op : block.without_terminator()) {
    ids[&op] = ops.size();
    ops.push_back(&op);
  }
  int lastOrdered = -1;
  for (auto [id, op] : llvm::enumerate(ops)) {
    addOp(id, gathers);
    if (!isOrdered(op))
      continue;
    auto &before = plain.nodes.back().before;
    if (lastOrdered >= 0 && !llvm::is_contained(before, lastOrdered))
      before.push_back(lastOrdered);
    lastOrdered = static_cast<int>(id);
  }
}

void BlockGraph::find(bool turned) {
  kernels::Grouping grouping(plain);
  grouping.find(turned);
  group = grouping.groups();
  order = grouping.sorted();
}

llvm::SmallVector<unsigned> BlockGraph::members(unsigned of) const {
  llvm::SmallVector<unsigned> found;
  for (unsigned id = of; id < ops.size(); ++id)
    if (group[id] == static_cast<int>(of))
      found.push_back(id);
  return found;
}

/// True for a kernel that reads something turned.
static bool readsTurned(Operation *kernel) {
  Block &body = cast<spmd::FusedOp>(kernel).getBody().front();
  return llvm::any_of(body.getArguments(), isReadTurned);
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

//===----------------------------------------------------------------------===//
// Values that each kernel makes again
//===----------------------------------------------------------------------===//

/// The one tensor of its result's shape that an elementwise kernel reads, if
/// what else it reads are scalars, and nothing random is drawn; else null.
static Value chainInput(const BlockGraph &graph, unsigned id) {
  auto fused = dyn_cast<spmd::FusedOp>(graph.ops[id]);
  if (!fused || fused->getNumResults() != 1 ||
      !graph.plain.nodes[id].isPointwise || graph.plain.nodes[id].looksUp ||
      readsTurned(fused) ||
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
        readsTurned(user))
      return -1;
    const kernels::Node &own = graph.plain.nodes[id];
    const kernels::Node &reader = graph.plain.nodes[found->second];
    if (!own.isKernel || !reader.isKernel || own.space != reader.space ||
        !kernels::haveOneLoop(own, reader))
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
static void rebuild(const BlockGraph &graph, Block &block) {
  Operation *terminator = block.getTerminator();
  llvm::SmallVector<llvm::SmallVector<Operation *>> groups;
  for (int g : graph.order) {
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
    graph.find(turned);
    return graph;
  }

  void fuseBlock(Block &block) {
    if (gathers)
      absorbTables(block);
    auto kernels = [&] {
      return std::distance(block.op_begin<spmd::FusedOp>(),
                           block.op_end<spmd::FusedOp>());
    };
    [[maybe_unused]] int64_t before = llvm::DebugFlag ? kernels() : 0;
    BlockGraph graph = grouped(block);
    if (ChainRepeater(graph).run()) {
      eraseUnread(block);
      rebuild(grouped(block), block);
    } else {
      rebuild(graph, block);
    }
    LDBG() << "a block of " << before << " kernels has " << kernels();
  }
};
} // namespace
