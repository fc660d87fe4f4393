//===- Groups.h - which kernels become one, as plain data -----------------===//
//
// The one description of how kernels are joined. The stage `fuse` gives it the
// ops of a block, the planner those of a layer; both do what it says.
//
// Kernels are joined where their loops are the same: producers with readers,
// then readers of one tensor, then copies of a tensor with turned ones, as long
// as nothing stands between.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_KERNELS_GROUPS_H
#define KERF_KERNELS_GROUPS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace kerf::kernels {

using Shape = llvm::SmallVector<int64_t, 4>;

struct Tensor {
  Shape shape;
  bool leaves = false; ///< somebody who is no node reads it, too
};

/// A kernel, or something that none joins: a library call, a collective.
struct Node {
  struct Read {
    int tensor;
    bool isTurned = false; ///< read transposed
  };
  llvm::SmallVector<Read, 6> reads;
  llvm::SmallVector<int, 6> writes;
  llvm::SmallVector<int, 6>
      before;               ///< nodes that must come first, nearest last
  bool isKernel = false;    ///< that may join others
  bool isPointwise = false; ///< no element needs a whole row
  /// It looks up rows and sums them: it joins others as what it makes.
  bool looksUp = false;
  Shape space; ///< of the loops: the shape of the largest tensor
};

/// Nodes in an order in which they could run.
struct Graph {
  std::vector<Node> nodes;
  std::vector<Tensor> tensors;
};

/// Pointers that a kernel takes at most: more are slow to pass and rare.
constexpr size_t kMostOperands = 40;

/// True if the loops of two kernels can be one: rows and columns are of what is
/// read straight, and not of rows that are looked up.
bool haveOneLoop(const Node &a, const Node &b);

/// The nodes of a graph in groups, each of which is one kernel, or one node.
class Grouping {
public:
  explicit Grouping(const Graph &graph);

  /// Joins a kernel with the only one that reads what it makes, which asks for
  /// its elements one by one.
  void absorb(int maker, int reader);
  /// Joins all that can be joined; with `turned` also copies of a tensor with
  /// transposed ones.
  void find(bool turned);

  /// Of each node: the first node of its group.
  const std::vector<int> &groups() const { return group; }
  llvm::ArrayRef<int> membersOf(int first) const { return members[first]; }
  /// Each group by its first node, in an order that respects who comes first.
  std::vector<int> sorted() const;

private:
  bool reaches(int from, int to) const;
  bool flows(int maker, int reader) const;
  bool sharesInput(int a, int b) const;
  bool fitsOperands(int a, int b) const;
  bool canJoin(int a, int b) const;
  void tryJoin(int a, int b);
  void join(int a, int b);
  int copiedBy(int of) const;
  bool turnsCopy(int of) const;
  void joinTurned(int turned);

  const Graph &graph;
  std::vector<Shape> spaces; ///< of each node, as what it joined has it
  std::vector<llvm::SmallVector<int, 4>> readers; ///< of each tensor
  std::vector<int> group;
  /// By group: its nodes in their order, and the groups that come before it.
  std::vector<llvm::SmallVector<int, 4>> members;
  std::vector<llvm::BitVector> ancestors;
};

} // namespace kerf::kernels

#endif // KERF_KERNELS_GROUPS_H
