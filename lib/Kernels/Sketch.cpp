//===- Sketch.cpp - nodes, tensors and when they live ---------------------===//

#include "kerf/Kernels/Sketch.h"
#include "kerf/Support/UnitRows.h"

#include "llvm/ADT/BitVector.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

using namespace kerf;
using namespace kerf::program_sketch;

double program_sketch::roundedBytes(double bytes) {
  constexpr double kLine = 64; // of a cache; the alignment of buffers
  return std::ceil(bytes / kLine) * kLine;
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
/// The nodes of a body and who must come before whom.
class Joiner {
public:
  explicit Joiner(const Body &body) : body(body) {
    size_t count = body.nodes.size();
    groups.resize(count);
    std::iota(groups.begin(), groups.end(), 0);
    readers.resize(body.tensors.size());
    std::vector<int> makers(body.tensors.size(), -1);
    for (size_t i = 0; i < count; ++i) {
      std::vector<int> &before = earlier.emplace_back();
      llvm::BitVector &all = ancestors.emplace_back(count);
      for (int tensor : body.nodes[i].reads) {
        readers[tensor].push_back(static_cast<int>(i));
        int maker = makers[tensor];
        if (maker < 0 || llvm::is_contained(before, maker))
          continue;
        before.push_back(maker);
        all.set(maker);
        all |= ancestors[maker];
      }
      for (int tensor : body.nodes[i].writes)
        makers[tensor] = i;
      spaces.push_back(spaceOf(body.nodes[i]));
      members.push_back({static_cast<int>(i)});
    }
  }

  /// Puts the nodes into groups; those that copy a tensor beside those that
  /// make turned copies of it, where `turned` says so.
  void find(bool turned) {
    for (size_t i = 0; i < body.nodes.size(); ++i)
      if (body.nodes[i].gathers)
        absorbTable(i);
    for (size_t i = 0; i < body.nodes.size(); ++i)
      for (int maker : llvm::reverse(earlier[i]))
        tryJoin(maker, i);
    for (size_t i = 0; i < body.nodes.size(); ++i)
      for (size_t other = 0; other < i; ++other)
        if (shareInput(other, i))
          tryJoin(other, i);
    for (size_t i = 0; turned && i < body.nodes.size(); ++i)
      if (int tensor = copiedBy(i); tensor >= 0 && turnsCopy(i))
        for (int reader : readers[tensor])
          if (joinTurned(i, groups[reader], tensor))
            break;
  }

  /// One node per group, in an order that respects who reads whom.
  std::vector<Node> joined() const {
    std::vector<Node> nodes;
    std::set<int> done;
    std::function<void(int)> visit = [&](int group) {
      if (!done.insert(group).second)
        return;
      for (int member : members[group])
        for (int maker : earlier[member])
          visit(groups[maker]);
      nodes.push_back(merge(members[group]));
    };
    for (size_t i = 0; i < groups.size(); ++i)
      visit(groups[i]);
    return nodes;
  }

  /// Of each node: the first of its group.
  const std::vector<int> &groupsOfNodes() const { return groups; }

private:
  const Body &body;
  std::vector<std::vector<int>> earlier; ///< nodes that a node reads from
  std::vector<llvm::SmallVector<int, 4>> readers; ///< of each tensor
  std::vector<int> groups;   ///< of each node: its first member
  std::vector<Sizes> spaces; ///< empty: joins nothing
  /// By group: its nodes in their order, and the groups that come before it.
  std::vector<llvm::SmallVector<int, 4>> members;
  std::vector<llvm::BitVector> ancestors;

  /// Whole, rows, columns or a scalar.
  template <typename Dims>
  static bool fitsIn(const Dims &own, const Dims &space) {
    llvm::ArrayRef all(space);
    return own.empty() || own == space ||
           (!all.empty() && (all.drop_back() == llvm::ArrayRef(own) ||
                             all.take_back() == llvm::ArrayRef(own)));
  }

  /// True for a kernel that reads its operand turned.
  static bool isTurned(const Node &node) {
    return node.op && node.op->name == "transpose";
  }

  /// True where elements do not mix: no rows are needed whole.
  static bool isPointwise(const Node &node) {
    return !node.op ||
           llvm::all_of(node.op->factors, [](const LayerFactor &own) {
             return own.factor.kind == FactorKind::Parallel;
           });
  }

  /// A tensor that a node reads or writes.
  struct Use {
    const Sizes *shape;
    const TensorFactors *factors; ///< null: an epilogue brought it
    double elements;
  };

  llvm::SmallVector<Use, 8> usesOf(const Node &node) const {
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

  /// Sizes alone may agree by chance: of as many sequences as tokens, a sum
  /// over sequences is as large as one over channels.
  static bool fits(const Use &own, const Use &largest) {
    return fitsIn(*own.shape, *largest.shape) &&
           (!own.factors || !largest.factors ||
            fitsIn(*own.factors, *largest.factors));
  }

  /// The largest tensor of a kernel, if the others are whole, rows, columns or
  /// scalars; of one that reads turned, what it makes.
  Sizes spaceOf(const Node &node) const {
    if (!node.isKernel || (node.op && node.op->ownLoops))
      return {};
    if (isTurned(node) || node.gathers)
      return body.tensors[node.writes[0]].shape;
    if (node.op && node.op->name == "unit" &&
        body.tensors[node.reads[0]].shape.back() < kLeastUnitRow)
      return {};
    llvm::SmallVector<Use, 8> uses = usesOf(node);
    const Use *largest =
        llvm::max_element(uses, [](const Use &x, const Use &y) {
          return x.elements < y.elements;
        });
    if (largest == uses.end() || !llvm::all_of(uses, [&](const Use &own) {
          return fits(own, *largest);
        }))
      return {};
    return *largest->shape;
  }

  /// True if `from` comes before `to` by a way over other groups.
  bool reaches(int from, int to) const {
    if (!ancestors[to].test(from))
      return false;
    for (int member : members[to])
      for (int maker : earlier[member])
        if (int next = groups[maker];
            next != from && next != to && ancestors[next].test(from))
          return true;
    return false;
  }

  /// Makes one group of two, the first of which has the first member.
  void join(int first, int second) {
    for (int member : members[second])
      groups[member] = first;
    members[first].append(members[second]);
    llvm::sort(members[first]);
    members[second].clear();
    ancestors[first] |= ancestors[second];
    ancestors[first].reset(first);
    ancestors[first].reset(second);
    for (llvm::BitVector &all : ancestors)
      if (all.test(first) || all.test(second)) {
        all |= ancestors[first];
        all.set(first);
        all.reset(second);
      }
  }

  /// The tensor that all members of a group read from outside, if what else
  /// they read are scalars and all are elementwise kernels; else -1.
  int copiedBy(int group) const {
    int copied = -1;
    for (int member : members[group]) {
      const Node &node = body.nodes[member];
      if (!node.isKernel || !isPointwise(node) || node.gathers ||
          (node.op && node.op->ownLoops))
        return -1;
      for (int tensor : node.reads) {
        bool isOwn = llvm::any_of(members[group], [&](int maker) {
          return llvm::is_contained(body.nodes[maker].writes, tensor);
        });
        if (isOwn || body.tensors[tensor].shape.empty())
          continue;
        if (copied >= 0 && copied != tensor)
          return -1;
        copied = tensor;
      }
    }
    return copied;
  }

  bool turnsCopy(int group) const {
    return llvm::any_of(members[group], [&](int member) {
      return isTurned(body.nodes[member]);
    });
  }

  bool joinTurned(int turned, int other, int tensor) {
    if (other == turned || copiedBy(other) != tensor || turnsCopy(other) ||
        spaces[other] != body.tensors[tensor].shape)
      return false;
    int first = std::min(turned, other), second = std::max(turned, other);
    if (reaches(first, second) || reaches(second, first))
      return false;
    join(first, second);
    spaces[first].clear();
    return true;
  }

  /// True if all that one node reads of the other is whole or one per row, and
  /// not turned.
  bool flows(int maker, int reader) const {
    const Sizes &space = spaces[maker];
    return llvm::all_of(body.nodes[reader].reads, [&](int tensor) {
      const Sizes &shape = body.tensors[tensor].shape;
      return !llvm::is_contained(body.nodes[maker].writes, tensor) ||
             (!isTurned(body.nodes[reader]) &&
              (shape == space ||
               llvm::ArrayRef(space).drop_back() == llvm::ArrayRef(shape)));
    });
  }

  /// True if the loops of two nodes with one space can be one: rows and columns
  /// are of what is read straight, and not of rows that are looked up.
  bool haveOneLoop(int a, int b) const {
    const Node &x = body.nodes[a], &y = body.nodes[b];
    auto isElementwise = [](const Node &node) {
      return node.gathers || isPointwise(node);
    };
    return (!isTurned(x) && !isTurned(y) && !x.gathers && !y.gathers) ||
           (isElementwise(x) && isElementwise(y));
  }

  /// A sum whose rows only node `at` looks up joins it.
  void absorbTable(int at) {
    int table = body.nodes[at].reads[0];
    for (int maker : earlier[at]) {
      const Node &node = body.nodes[maker];
      if (!node.isKernel || !node.op || node.op->name != "add" ||
          node.writes.size() != 1 || node.writes[0] != table ||
          readers[table].size() != 1)
        continue;
      spaces[maker] = spaces[at];
      join(maker, at);
      return;
    }
  }

  void tryJoin(int a, int b) {
    int first = std::min(groups[a], groups[b]),
        second = std::max(groups[a], groups[b]);
    // All members of a group have one space.
    if (first == second || spaces[first].empty() ||
        spaces[first] != spaces[second])
      return;
    for (int x : members[first])
      for (int y : members[second])
        if (!haveOneLoop(x, y) || !flows(x, y) || !flows(y, x))
          return;
    if (reaches(first, second) || reaches(second, first))
      return;
    join(first, second);
  }

  bool shareInput(int a, int b) const {
    return !spaces[a].empty() &&
           llvm::any_of(body.nodes[a].reads, [&](int tensor) {
             return body.tensors[tensor].shape == spaces[a] &&
                    llvm::is_contained(body.nodes[b].reads, tensor);
           });
  }

  /// What only members touch is never written down.
  Node merge(llvm::ArrayRef<int> own) const {
    Node all = body.nodes[own.front()];
    if (own.size() == 1)
      return all;
    int group = groups[own.front()];
    llvm::SmallVector<int, 16> made;
    all.reads.clear();
    all.writes.clear();
    for (int member : own)
      for (int tensor : body.nodes[member].writes) {
        made.push_back(tensor);
        bool isRead = llvm::any_of(
            readers[tensor], [&](int node) { return groups[node] != group; });
        if (isRead || tensor == body.next)
          all.writes.push_back(tensor);
      }
    for (int member : own)
      for (int tensor : body.nodes[member].reads)
        if (!llvm::is_contained(made, tensor))
          all.reads.push_back(tensor);
    return all;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Stores: what reads a tensor and makes none.
static bool isStore(const Node &node) {
  return node.writes.empty() && !node.isCollective;
}

/// The place behind the last node that makes what a collective reads; 0: none
/// does.
static size_t afterMaker(llvm::ArrayRef<Node> nodes, size_t at) {
  for (size_t i = at; i > 0; --i)
    for (int tensor : nodes[at].reads)
      if (llvm::is_contained(nodes[i - 1].writes, tensor))
        return i;
  return 0;
}

static void move(std::vector<Node> &nodes, size_t from, size_t to) {
  std::rotate(nodes.begin() + to, nodes.begin() + from,
              nodes.begin() + from + 1);
}

/// Waits before the first reader or the next collective; stores come after the
/// wait. Returns what the next collective may not come before.
static size_t waitLate(std::vector<Node> &nodes, size_t at) {
  Node collective = nodes[at];
  std::vector<Node> between, stores;
  bool computes = false;
  size_t stop = at + 1;
  for (; stop < nodes.size() && !nodes[stop].isCollective; ++stop) {
    bool reads = llvm::any_of(nodes[stop].reads, [&](int tensor) {
      return llvm::is_contained(collective.writes, tensor);
    });
    if (reads && !isStore(nodes[stop]))
      break;
    (reads ? stores : between).push_back(nodes[stop]);
    computes |= !reads;
  }
  if (!computes)
    return at + 1;
  Node wait;
  wait.reads = collective.reads;
  wait.reads.append(collective.writes);
  between.push_back(wait);
  llvm::append_range(between, stores);
  nodes.erase(nodes.begin() + at + 1, nodes.begin() + stop);
  nodes.insert(nodes.begin() + at + 1, between.begin(), between.end());
  return at + between.size() - stores.size() + 1;
}

void program_sketch::overlapCollectives(Body &body) {
  std::vector<Node> &nodes = body.nodes;
  // What is there from the start keeps its place: nobody needs it yet.
  for (size_t i = 0; i < nodes.size(); ++i)
    if (size_t maker = afterMaker(nodes, i); nodes[i].isCollective && maker > 0)
      move(nodes, i, maker);
  size_t border = 0;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].isCollective) {
      size_t start = std::max(border, afterMaker(nodes, i));
      move(nodes, i, start);
      border = waitLate(nodes, start);
      i = border - 1;
    }
}

void program_sketch::joinKernels(Body &body, bool turned) {
  Joiner joiner(body);
  joiner.find(turned);
  body.nodes = joiner.joined();
}

std::vector<int> program_sketch::kernelGroups(const Body &body, bool turned) {
  Joiner joiner(body);
  joiner.find(turned);
  return joiner.groupsOfNodes();
}
