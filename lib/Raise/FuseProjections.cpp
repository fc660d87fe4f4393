//===- FuseProjections.cpp - one matmul of layers that read one value -----===//
//
// Problem: gate and up, or query, key and value, are matmuls of one input, each
// with a weight of its own: the gradient of the input is a sum of two or three
// tensors, and matmuls of few columns fill no GPU.
// Idea: their weights as a stack. A parameter's name can hold those of several
// tensors of a checkpoint, so nothing outside the model changes.
// Steps, per block: group linear layers by what they read and by the shape of
// their weights; where names differ in one word, make one parameter of them,
// one matmul, and slices of its result.
//
//   g = linear x, "gate.weight"; u = linear x, "up.weight":
//   y = einsum "bsk,pnk->bspn" x, "{gate,up}.weight"; g = y[..,0,:]; u =
//   y[..,1,:]
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Raise/Passes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace kerf;
using namespace mlir;

namespace kerf {
#define GEN_PASS_DEF_FUSEPROJECTIONSPASS
#include "kerf/Raise/Passes.h.inc"
} // namespace kerf

namespace {
/// A linear layer whose weight may be part of a stack.
struct Projection {
  LinearOp op;
  ParamOp weight;
};

/// What the names of a stack have in common, and what is each one's own.
struct JoinedName {
  llvm::StringRef before, after;
  llvm::SmallVector<llvm::StringRef, 3> words;

  std::string text() const {
    return (before + "{" + llvm::join(words, ",") + "}" + after).str();
  }
};
} // namespace

/// The names that a parameter means, one of each iteration.
static std::vector<std::string> namesOf(ParamOp param) {
  std::vector<std::string> names;
  auto repeat = param->getParentOfType<RepeatOp>();
  bool isEach = repeat && param.isPerIteration();
  int64_t start = isEach ? repeat.getStart() : 0;
  int64_t end = isEach ? repeat.getEnd() : 1;
  for (int64_t i = start; i < end; ++i)
    names.push_back(expandName(param.getName(), i));
  return names;
}

/// How often each name is read in a model.
static llvm::StringMap<int> countReads(ModelOp model) {
  llvm::StringMap<int> reads;
  model.walk([&](ParamOp param) {
    for (const std::string &name : namesOf(param))
      ++reads[name];
  });
  return reads;
}

static std::optional<Projection>
projectionOf(LinearOp op, const llvm::StringMap<int> &reads) {
  auto weight = op.getWeight().getDefiningOp<ParamOp>();
  bool isOwn = weight && weight->hasOneUse() &&
               weight->getBlock() == op->getBlock() &&
               llvm::all_of(namesOf(weight), [&](const std::string &name) {
                 return reads.lookup(name) == 1;
               });
  if (!isOwn || op.getTransposed() || weight.getFrozen() ||
      isStacked(weight.getName()))
    return std::nullopt;
  return Projection{op, weight};
}

/// True for weights that may be one parameter: only their names differ.
static bool areAlike(Projection a, Projection b) {
  return a.op.getX() == b.op.getX() &&
         a.weight.getResult().getType() == b.weight.getResult().getType() &&
         a.weight.getInit() == b.weight.getInit() &&
         a.weight.getMaster() == b.weight.getMaster();
}

/// What both begin with, in whole words.
static llvm::StringRef commonStart(llvm::StringRef a, llvm::StringRef b) {
  auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  llvm::StringRef common = a.take_front(end - a.begin());
  return common.take_front(common.find_last_of("._") +
                           1); // none: npos + 1 is 0
}

/// What both end with, in whole words.
static llvm::StringRef commonEnd(llvm::StringRef a, llvm::StringRef b) {
  size_t size = 0;
  while (size < std::min(a.size(), b.size()) &&
         a[a.size() - 1 - size] == b[b.size() - 1 - size])
    ++size;
  llvm::StringRef common = a.take_back(size);
  return common.substr(std::min(common.find_first_of("._"), size));
}

/// The name of all, or none where they do not differ in one word.
static std::optional<JoinedName> joinNames(llvm::ArrayRef<Projection> layers) {
  auto nameOf = [](ParamOp weight) { return weight.getName(); };
  llvm::StringRef first = nameOf(layers[0].weight);
  JoinedName joined{first, first, {}};
  for (Projection layer : layers.drop_front()) {
    joined.before = commonStart(joined.before, nameOf(layer.weight));
    joined.after = commonEnd(joined.after, nameOf(layer.weight));
  }
  for (Projection layer : layers) {
    llvm::StringRef word = nameOf(layer.weight);
    if (!word.consume_front(joined.before) ||
        !word.consume_back(joined.after) || word.empty() ||
        word.find_first_of("{},.") != llvm::StringRef::npos)
      return std::nullopt;
    joined.words.push_back(word);
  }
  return joined;
}

/// True where one group of the optimizer, or none, is of all names.
static bool shareGroup(ModelOp model, llvm::ArrayRef<Projection> layers,
                       llvm::StringRef joined) {
  FailureOr<GroupAttr> group = groupOf(model, joined);
  return succeeded(group) && llvm::all_of(layers, [&](Projection layer) {
           FailureOr<GroupAttr> own = groupOf(model, layer.weight.getName());
           return succeeded(own) && *own == *group;
         });
}

/// "abck,pnk->abcpn" for a value of four dimensions.
static std::string equationOf(int64_t rank) {
  std::string rows;
  for (int64_t d = 0; d + 1 < rank; ++d)
    rows += static_cast<char>('a' + d);
  return rows + "k,pnk->" + rows + "pn";
}

/// The parameter of all weights.
static Value stackWeights(OpBuilder &builder, llvm::ArrayRef<Projection> layers,
                          llvm::StringRef name) {
  ParamOp first = layers[0].weight;
  auto type = typeOf(first.getResult());
  llvm::SmallVector<int64_t> shape = {std::ssize(layers)};
  llvm::append_range(shape, type.getShape());
  auto stack = cast<ParamOp>(builder.clone(*first));
  stack.setName(name);
  stack.getResult().setType(withShape(type, shape));
  return stack.getResult();
}

/// Part `n` of the joint result, plus the layer's own bias.
static Value partOf(PlainBuilder p, Value all, int64_t n, LinearOp layer) {
  llvm::SmallVector<int64_t> sizes(typeOf(all).getShape());
  llvm::SmallVector<int64_t> offsets(sizes.size(), 0);
  size_t stack = sizes.size() - 2;
  offsets[stack] = n;
  sizes[stack] = 1;
  auto type = typeOf(layer.getResult());
  Value part = p.reshape(p.slice(all, offsets, sizes), type.getShape());
  if (!layer.getBias())
    return part;
  return p.add(part, p.broadcast(layer.getBias(), {type.getRank() - 1},
                                 type.getShape()));
}

static void join(llvm::ArrayRef<Projection> layers, llvm::StringRef name) {
  LinearOp first = layers[0].op;
  OpBuilder builder(first);
  PlainBuilder p{builder, first.getLoc()};
  Value all = p.einsum(equationOf(typeOf(first.getX()).getRank()), first.getX(),
                       stackWeights(builder, layers, name));
  for (auto [n, layer] : llvm::enumerate(layers)) {
    LinearOp op = layer.op;
    builder.setInsertionPoint(op);
    PlainBuilder own{builder, op.getLoc()};
    op.getResult().replaceAllUsesWith(
        partOf(own, all, static_cast<int64_t>(n), op));
    op.erase();
    ParamOp(layer.weight).erase();
  }
}

/// True if a layer can join those of a group.
static bool fits(std::vector<Projection> group, Projection layer) {
  group.push_back(layer);
  return areAlike(group[0], layer) && joinNames(group);
}

/// Layers of a block that can be one matmul, in order.
static std::vector<std::vector<Projection>>
groupLayers(Block &block, const llvm::StringMap<int> &reads) {
  std::vector<std::vector<Projection>> groups;
  for (auto op : block.getOps<LinearOp>()) {
    std::optional<Projection> layer = projectionOf(op, reads);
    if (!layer)
      continue;
    auto known =
        llvm::find_if(groups, [&](auto &group) { return fits(group, *layer); });
    (known == groups.end() ? groups.emplace_back() : *known).push_back(*layer);
  }
  return groups;
}

static void fuseProjections(ModelOp model) {
  if (model->hasAttr("adapter"))
    return;
  llvm::StringMap<int> reads = countReads(model);
  llvm::SmallVector<Block *> blocks = {&model.getBody().front()};
  model.walk(
      [&](RepeatOp repeat) { blocks.push_back(&repeat.getBody().front()); });
  for (Block *block : blocks)
    for (llvm::ArrayRef<Projection> layers : groupLayers(*block, reads)) {
      if (layers.size() == 1)
        continue;
      std::string name = joinNames(layers)->text();
      if (shareGroup(model, layers, name))
        join(layers, name);
    }
}

namespace {
struct FuseProjections : kerf::impl::FuseProjectionsPassBase<FuseProjections> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>())
      fuseProjections(model);
  }
};
} // namespace
