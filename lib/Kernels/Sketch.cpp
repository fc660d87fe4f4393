//===- Sketch.cpp - nodes, tensors and when they live ---------------------===//

#include "kerf/Kernels/Sketch.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Kernels/Groups.h"
#include "kerf/Kernels/Overlap.h"
#include "kerf/Support/UnitRows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

using namespace kerf;
using namespace kerf::program_sketch;
namespace overlap = kerf::kernels::overlap;

double program_sketch::roundedBytes(double bytes) {
  return std::ceil(bytes / KERF_ARENA_ALIGN) * KERF_ARENA_ALIGN;
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

Levels &Levels::operator+=(const Levels &other) {
  for (auto [own, more] : llvm::zip(bytes, other.bytes))
    own += more;
  return *this;
}

Levels &Levels::operator-=(const Levels &other) {
  for (auto [own, less] : llvm::zip(bytes, other.bytes))
    own -= less;
  return *this;
}

double Levels::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

namespace {
/// From a node to another.
struct Span {
  int64_t first = INT64_MAX, last = -1;
};
} // namespace

/// The nodes at which each tensor of a body is needed.
static std::vector<Span> spansOf(const Body &body) {
  std::vector<Span> spans(body.tensors.size());
  for (auto [now, node] : llvm::enumerate(body.nodes))
    for (llvm::ArrayRef<int> all :
         {llvm::ArrayRef<int>(node.reads), llvm::ArrayRef<int>(node.writes)})
      for (int tensor : all) {
        spans[tensor].first = std::min<int64_t>(spans[tensor].first, now);
        spans[tensor].last = now;
      }
  if (body.next >= 0 && spans[body.next].last >= 0)
    spans[body.next].last = int64_t(body.nodes.size()) - 1;
  return spans;
}

Lives program_sketch::livesOf(const Body &body) {
  Lives lives;
  lives.exchanged = body.exchanged;
  // What comes at a node, and what goes after it.
  std::vector<Levels> come(body.nodes.size()), go(body.nodes.size());
  for (auto [tensor, span] : llvm::zip(body.tensors, spansOf(body))) {
    if (span.last < 0 || tensor.bytes <= 0)
      continue;
    double bytes = roundedBytes(tensor.bytes);
    come[span.first][tensor.held] += bytes;
    if (tensor.lasts == Lasts::Body)
      go[span.last][tensor.held] += bytes;
    else
      lives.left[static_cast<size_t>(tensor.lasts)][tensor.held] += bytes;
  }
  Levels live;
  for (auto [now, node] : llvm::enumerate(body.nodes)) {
    live += come[now];
    Levels busy = live;
    busy[Held::Temporaries] += roundedBytes(node.workspace);
    if (busy.total() > lives.peak.total())
      lives.peak = busy;
    live -= go[now];
  }
  return lives;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

namespace {
/// A tensor that a node reads or writes.
struct Use {
  const Sizes *shape;
  const TensorFactors *factors; ///< null: an epilogue brought it
  double elements;
};
} // namespace

/// Whole, rows, columns or a scalar.
template <typename Dims>
static bool fitsIn(const Dims &own, const Dims &space) {
  llvm::ArrayRef all(space);
  return own.empty() || own == space ||
         (!all.empty() && (all.drop_back() == llvm::ArrayRef(own) ||
                           all.take_back() == llvm::ArrayRef(own)));
}

/// Sizes alone may agree by chance: of as many sequences as tokens, a sum over
/// sequences is as large as one over channels.
static bool fits(const Use &own, const Use &largest) {
  return fitsIn(*own.shape, *largest.shape) &&
         (!own.factors || !largest.factors ||
          fitsIn(*own.factors, *largest.factors));
}

/// True for a kernel that reads its operand turned.
static bool isTurned(const Node &node) {
  return node.op && node.op->name == "transpose";
}

/// True where elements do not mix: no rows are needed whole.
static bool isPointwise(const Node &node) {
  return !node.op || llvm::all_of(node.op->factors, [](const LayerFactor &own) {
    return own.factor.kind == FactorKind::Parallel;
  });
}

static llvm::SmallVector<Use, 8> usesOf(const Body &body, const Node &node) {
  llvm::SmallVector<Use, 8> uses;
  for (auto [tensors, factors] :
       {std::make_pair(llvm::ArrayRef(node.reads),
                       llvm::ArrayRef(node.readFactors)),
        std::make_pair(llvm::ArrayRef(node.writes),
                       llvm::ArrayRef(node.writeFactors))})
    for (auto [k, tensor] : llvm::enumerate(tensors)) {
      const Sizes &shape = body.tensors[tensor].shape;
      double elements = 1;
      for (int64_t size : shape)
        elements *= double(size);
      uses.push_back(
          {&shape, k < factors.size() ? factors[k] : nullptr, elements});
    }
  return uses;
}

/// The largest tensor of a kernel, if the others are whole, rows, columns or
/// scalars; of one that reads turned, what it makes. Nothing: it joins none.
static std::optional<Sizes> spaceOf(const Body &body, const Node &node) {
  if (!node.isKernel || (node.op && node.op->ownLoops))
    return std::nullopt;
  if (isTurned(node) || node.gathers)
    return body.tensors[node.writes[0]].shape;
  if (node.op && node.op->name == "unit" &&
      body.tensors[node.reads[0]].shape.back() < kLeastUnitRow)
    return std::nullopt;
  llvm::SmallVector<Use, 8> uses = usesOf(body, node);
  const Use *largest = llvm::max_element(
      uses, [](const Use &x, const Use &y) { return x.elements < y.elements; });
  if (largest == uses.end() ||
      !llvm::all_of(uses, [&](const Use &own) { return fits(own, *largest); }))
    return std::nullopt;
  return *largest->shape;
}

/// A body as data that knows no layers.
static kernels::Graph plainOf(const Body &body) {
  kernels::Graph graph;
  for (auto [i, tensor] : llvm::enumerate(body.tensors))
    graph.tensors.push_back({tensor.shape, static_cast<int>(i) == body.next});
  std::vector<int> makers(body.tensors.size(), -1);
  for (auto [i, node] : llvm::enumerate(body.nodes)) {
    kernels::Node &plain = graph.nodes.emplace_back();
    for (int tensor : node.reads) {
      plain.reads.push_back({tensor, isTurned(node)});
      int maker = makers[tensor];
      if (maker >= 0 && !llvm::is_contained(plain.before, maker))
        plain.before.push_back(maker);
    }
    for (int tensor : node.writes)
      makers[tensor] = static_cast<int>(i);
    plain.writes.assign(node.writes.begin(), node.writes.end());
    std::optional<Sizes> space = spaceOf(body, node);
    plain.isKernel = space.has_value();
    plain.space = space.value_or(Sizes());
    plain.isPointwise = node.gathers || isPointwise(node);
    plain.looksUp = node.gathers;
  }
  return graph;
}

/// The nodes that read each tensor of a body.
static std::vector<llvm::SmallVector<int, 4>> readersOf(const Body &body) {
  std::vector<llvm::SmallVector<int, 4>> readers(body.tensors.size());
  for (auto [i, node] : llvm::enumerate(body.nodes))
    for (int tensor : node.reads)
      readers[tensor].push_back(static_cast<int>(i));
  return readers;
}

namespace {
/// Joins the kernels of a body.
struct Joiner {
  const Body &body;
  kernels::Graph graph;
  kernels::Grouping grouping;
  std::vector<llvm::SmallVector<int, 4>> readers; ///< of each tensor

  Joiner(const Body &body, bool turned)
      : body(body), graph(plainOf(body)), grouping(graph),
        readers(readersOf(body)) {
    for (size_t i = 0; i < body.nodes.size(); ++i)
      if (body.nodes[i].gathers)
        absorbTable(static_cast<int>(i));
    grouping.find(turned);
  }

  void absorbTable(int at);
  Node merge(llvm::ArrayRef<int> members) const;
};
} // namespace

/// A sum whose rows only node `at` looks up joins it.
void Joiner::absorbTable(int at) {
  int table = body.nodes[at].reads[0];
  for (int maker : graph.nodes[at].before) {
    const Node &node = body.nodes[maker];
    if (!node.isKernel || !node.op || node.op->name != "add" ||
        node.writes.size() != 1 || node.writes[0] != table ||
        readers[table].size() != 1)
      continue;
    grouping.absorb(maker, at);
    return;
  }
}

/// What only members touch is never written down.
Node Joiner::merge(llvm::ArrayRef<int> members) const {
  Node all = body.nodes[members.front()];
  if (members.size() == 1)
    return all;
  const std::vector<int> &groups = grouping.groups();
  int group = groups[members.front()];
  llvm::SmallVector<int, 16> made;
  all.reads.clear();
  all.writes.clear();
  for (int member : members)
    for (int tensor : body.nodes[member].writes) {
      made.push_back(tensor);
      bool isRead = llvm::any_of(
          readers[tensor], [&](int node) { return groups[node] != group; });
      if (isRead || tensor == body.next)
        all.writes.push_back(tensor);
    }
  for (int member : members)
    for (int tensor : body.nodes[member].reads)
      if (!llvm::is_contained(made, tensor))
        all.reads.push_back(tensor);
  return all;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

static overlap::Role roleOf(const Node &node) {
  if (node.isCollective)
    return overlap::Role::Collective;
  return node.writes.empty() ? overlap::Role::Store : overlap::Role::Computes;
}

/// What a collective reads and writes lives until it is waited for.
static Node waitFor(const Node &collective) {
  Node wait;
  wait.reads = collective.reads;
  wait.reads.append(collective.writes);
  return wait;
}

/// A body as data that knows no layers. Several nodes may write parts of one
/// tensor: each part is a tensor there, and readers read all that are made.
static std::vector<overlap::Op> opsOf(const Body &body) {
  std::vector<overlap::Op> plain;
  std::vector<llvm::SmallVector<int, 2>> parts(body.tensors.size());
  int count = 0;
  for (const Node &node : body.nodes) {
    overlap::Op &op = plain.emplace_back();
    op.role = roleOf(node);
    op.scatters = node.scatters;
    for (int tensor : node.reads) {
      if (parts[tensor].empty())
        parts[tensor].push_back(count++);
      op.reads.append(parts[tensor]);
    }
    for (int tensor : node.writes) {
      op.writes.push_back(count);
      parts[tensor].push_back(count++);
    }
  }
  return plain;
}

void program_sketch::overlapCollectives(Body &body) {
  std::vector<Node> nodes;
  for (auto [at, waits] : overlap::overlapCollectives(opsOf(body)))
    nodes.push_back(waits ? waitFor(body.nodes[at]) : body.nodes[at]);
  body.nodes = std::move(nodes);
}

void program_sketch::joinKernels(Body &body, bool turned) {
  Joiner joiner(body, turned);
  std::vector<Node> nodes;
  for (int group : joiner.grouping.sorted())
    nodes.push_back(joiner.merge(joiner.grouping.membersOf(group)));
  body.nodes = std::move(nodes);
}

std::vector<int> program_sketch::kernelGroups(const Body &body, bool turned) {
  return Joiner(body, turned).grouping.groups();
}
