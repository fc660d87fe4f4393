//===- Groups.cpp - which kernels become one ------------------------------===//
//
// Problem: kernels of one op each read and write every value through memory.
// Idea: join kernels whose loops are the same, producers with readers and
// readers of one tensor with each other, when no other node stands between.
// Steps: visit kernels in order and try to join each with the groups it reads
// from, the nearest first; then with groups that read what it reads; then each
// copy of a tensor with its turned copy. A join is legal while the graph of
// groups stays acyclic.
// Cost: (nodes)^2 tests; ancestors of a group are one set of bits.
//
//===----------------------------------------------------------------------===//

#include "kerf/Kernels/Groups.h"

#include "llvm/ADT/STLExtras.h"

#include <functional>
#include <numeric>
#include <set>

using namespace kerf;
using namespace kerf::kernels;

static bool readsTurned(const Node &node) {
  return llvm::any_of(node.reads,
                      [](const Node::Read &read) { return read.isTurned; });
}

bool kernels::haveOneLoop(const Node &a, const Node &b) {
  auto isStraight = [](const Node &node) {
    return !readsTurned(node) && !node.looksUp;
  };
  return (a.isPointwise && b.isPointwise) || (isStraight(a) && isStraight(b));
}

Grouping::Grouping(const Graph &graph)
    : graph(graph), readers(graph.tensors.size()), group(graph.nodes.size()) {
  std::iota(group.begin(), group.end(), 0);
  for (auto [i, node] : llvm::enumerate(graph.nodes)) {
    llvm::BitVector &all = ancestors.emplace_back(graph.nodes.size());
    for (int maker : node.before) {
      all.set(maker);
      all |= ancestors[maker];
    }
    for (const Node::Read &read : node.reads)
      if (!llvm::is_contained(readers[read.tensor], static_cast<int>(i)))
        readers[read.tensor].push_back(static_cast<int>(i));
    spaces.push_back(node.space);
    members.push_back({static_cast<int>(i)});
  }
}

/// True if `from` comes before `to` by a way over other groups.
bool Grouping::reaches(int from, int to) const {
  if (!ancestors[to].test(from))
    return false;
  for (int member : members[to])
    for (int maker : graph.nodes[member].before)
      if (int next = group[maker];
          next != from && next != to && ancestors[next].test(from))
        return true;
  return false;
}

/// True if all that one node reads of the other is whole or one per row, and
/// not turned: sums over rows are complete only when all rows are done.
bool Grouping::flows(int maker, int reader) const {
  const Shape &space = spaces[maker];
  const auto &made = graph.nodes[maker].writes;
  return llvm::all_of(graph.nodes[reader].reads, [&](const Node::Read &read) {
    const Shape &shape = graph.tensors[read.tensor].shape;
    return !llvm::is_contained(made, read.tensor) ||
           (!read.isTurned &&
            (shape == space ||
             (!space.empty() &&
              llvm::ArrayRef(space).drop_back() == llvm::ArrayRef(shape))));
  });
}

/// True if both read one tensor as large as their space.
bool Grouping::sharesInput(int a, int b) const {
  const Node &x = graph.nodes[a], &y = graph.nodes[b];
  return x.isKernel && y.isKernel &&
         llvm::any_of(x.reads, [&](const Node::Read &read) {
           return graph.tensors[read.tensor].shape == spaces[a] &&
                  llvm::any_of(y.reads, [&](const Node::Read &other) {
                    return other.tensor == read.tensor;
                  });
         });
}

/// Whether the tensors that two groups, as one, read from outside or make for
/// it are few enough.
bool Grouping::fitsOperands(int a, int b) const {
  llvm::SmallVector<int, 16> both(members[a].begin(), members[a].end());
  both.append(members[b]);
  size_t all = 0;
  for (int member : both)
    all += graph.nodes[member].reads.size() + graph.nodes[member].writes.size();
  if (all <= kMostOperands)
    return true;
  auto isInside = [&](int node) {
    return group[node] == a || group[node] == b;
  };
  std::set<int> made, reads;
  size_t results = 0;
  for (int member : both)
    for (int tensor : graph.nodes[member].writes) {
      made.insert(tensor);
      results += graph.tensors[tensor].leaves ||
                 !llvm::all_of(readers[tensor], isInside);
    }
  for (int member : both)
    for (const Node::Read &read : graph.nodes[member].reads)
      if (!made.count(read.tensor))
        reads.insert(read.tensor);
  return reads.size() + results <= kMostOperands;
}

bool Grouping::canJoin(int a, int b) const {
  for (int x : members[a])
    for (int y : members[b])
      if (!graph.nodes[x].isKernel || !graph.nodes[y].isKernel ||
          spaces[x] != spaces[y] ||
          !haveOneLoop(graph.nodes[x], graph.nodes[y]) || !flows(x, y) ||
          !flows(y, x))
        return false;
  return !reaches(a, b) && !reaches(b, a) && fitsOperands(a, b);
}

void Grouping::tryJoin(int a, int b) {
  if (group[a] != group[b] && canJoin(group[a], group[b]))
    join(group[a], group[b]);
}

void Grouping::join(int a, int b) {
  int first = std::min(a, b), second = std::max(a, b);
  for (int member : members[second])
    group[member] = first;
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

void Grouping::absorb(int maker, int reader) {
  spaces[maker] = spaces[reader];
  join(group[maker], group[reader]);
}

/// The tensor that the members of a group read from outside, if what else they
/// read are scalars and all are elementwise; else -1.
int Grouping::copiedBy(int of) const {
  int copied = -1;
  for (int member : members[of]) {
    const Node &node = graph.nodes[member];
    if (!node.isKernel || !node.isPointwise || node.looksUp)
      return -1;
    for (const Node::Read &read : node.reads) {
      bool isOwn = llvm::any_of(members[of], [&](int maker) {
        return llvm::is_contained(graph.nodes[maker].writes, read.tensor);
      });
      if (isOwn || graph.tensors[read.tensor].shape.empty())
        continue;
      if (copied >= 0 && copied != read.tensor)
        return -1;
      copied = read.tensor;
    }
  }
  return copied;
}

bool Grouping::turnsCopy(int of) const {
  return llvm::any_of(members[of], [&](int member) {
    return readsTurned(graph.nodes[member]);
  });
}

/// Joins a kernel that makes a turned copy of a tensor with one that copies it,
/// rounded or scaled: a square of it is read once and written twice.
void Grouping::joinTurned(int turned) {
  int tensor = copiedBy(turned);
  if (tensor < 0 || !turnsCopy(turned))
    return;
  for (int reader : readers[tensor]) {
    int other = group[reader];
    if (other == turned || copiedBy(other) != tensor || turnsCopy(other) ||
        spaces[other] != graph.tensors[tensor].shape ||
        reaches(turned, other) || reaches(other, turned))
      continue;
    return join(turned, other);
  }
}

void Grouping::find(bool turned) {
  int count = static_cast<int>(graph.nodes.size());
  for (int i = 0; i < count; ++i)
    for (int maker : llvm::reverse(graph.nodes[i].before))
      tryJoin(maker, i);
  for (int i = 0; i < count; ++i)
    for (int other = 0; other < i; ++other)
      if (sharesInput(other, i))
        tryJoin(other, i);
  for (int i = 0; turned && i < count; ++i)
    if (group[i] == i)
      joinTurned(i);
}

std::vector<int> Grouping::sorted() const {
  std::vector<int> order;
  std::set<int> done;
  std::function<void(int)> visit = [&](int of) {
    if (!done.insert(of).second)
      return;
    for (int member : members[of])
      for (int maker : graph.nodes[member].before)
        visit(group[maker]);
    order.push_back(of);
  };
  for (int of : group)
    visit(of);
  return order;
}
