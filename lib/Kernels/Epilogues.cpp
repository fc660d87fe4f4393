//===- Epilogues.cpp - products that compute what follows them -----===//
//
// What FuseEpilogues.cpp of the component Fuse does to programs for GPUs, on
// the nodes of a body: gelu and its gradient end the product that makes what
// they read, sums of rows join a product that reads the rows.
//
//===----------------------------------------------------------------------===//

#include "kerf/Kernels/Sketch.h"

#include "kerf/Support/Epilogues.h"

using namespace kerf;
using namespace kerf::program_sketch;

namespace {
class EpilogueFuser {
public:
  EpilogueFuser(Body &body, const LayerKind &kind) : body(body), kind(kind) {}

  void run(bool gelu) {
    for (size_t i = 0; gelu && i < body.nodes.size(); ++i)
      if (body.nodes[i].op && body.nodes[i].op->tanh)
        body.nodes[i].op->name == "gelu" ? fuseGelu(i) : fuseGeluBackward(i);
    for (size_t i = 0; i < body.nodes.size(); ++i)
      if (isRowSum(body.nodes[i]))
        fuseRowSum(i);
    llvm::erase_if(body.nodes, [](const Node &node) { return node.isGone; });
  }

private:
  Body &body;
  const LayerKind &kind;

  double widthOf(int value) const { return kind.values[value].elementBytes; }

  static bool isProduct(const Node &node) {
    const LayerOp *op = node.op;
    return op && op->work.matmulFlops > 0 && op->maps.empty();
  }
  /// True for a product whose operands and result have one type.
  bool hasOneType(const LayerOp &op) const {
    return llvm::all_of(op.operands, [&](int value) {
      return widthOf(value) == widthOf(op.results[0]);
    });
  }

  template <typename Fn> void forReaders(int tensor, Fn fn) const {
    for (size_t i = 0; i < body.nodes.size(); ++i)
      if (!body.nodes[i].isGone &&
          llvm::is_contained(body.nodes[i].reads, tensor))
        fn(i);
  }
  bool isReadByKernel(int tensor, llvm::ArrayRef<size_t> except) const {
    bool isRead = false;
    forReaders(tensor, [&](size_t i) {
      isRead |= body.nodes[i].isKernel && !llvm::is_contained(except, i);
    });
    return isRead;
  }
  size_t readersOf(int tensor) const {
    size_t count = tensor == body.next;
    forReaders(tensor, [&](size_t) { ++count; });
    return count;
  }
  /// The node that makes a tensor; null: it was there before.
  Node *makerOf(int tensor) const {
    for (Node &node : body.nodes)
      if (!node.isGone && llvm::is_contained(node.writes, tensor))
        return &node;
    return nullptr;
  }
  /// True for many products in one: both operands have a dimension of the
  /// result of which this rank has more than one.
  bool hasBatch(const Node &product) const {
    const LayerOp &op = *product.op;
    auto isIn = [](const TensorFactors &dims, unsigned factor) {
      return llvm::any_of(dims, [factor](const DimFactors &dim) {
        return llvm::is_contained(dim, factor);
      });
    };
    const Sizes &shape = body.tensors[product.writes[0]].shape;
    for (auto [size, dim] : llvm::zip(shape, op.resultFactors[0]))
      for (unsigned factor : dim)
        if (size > 1 && isIn(op.operandFactors[0], factor) &&
            isIn(op.operandFactors[1], factor))
          return true;
    return false;
  }
  Node *productOf(int tensor) const {
    Node *maker = makerOf(tensor);
    return maker && isProduct(*maker) && hasOneType(*maker->op) &&
                   !hasBatch(*maker)
               ? maker
               : nullptr;
  }
  bool fits(int tensor) const {
    const Sizes &shape = body.tensors[tensor].shape;
    return !shape.empty() && fitsSecondMatrix(shape.back());
  }

  /// A gelu joins the product that it is of.
  void fuseGelu(size_t at) {
    Node &gelu = body.nodes[at];
    int x = gelu.reads[0];
    Node *product = productOf(x);
    if (!product || isReadByKernel(gelu.writes[0], {}))
      return;
    if (readersOf(x) > 1 || body.tensors[x].bytes == 0) {
      if (!fits(x))
        return;
    } else {
      product->writes.clear();
    }
    product->writes.push_back(gelu.writes[0]);
    gelu.isGone = true;
  }

  /// Of rows: the sums of them, with their casts.
  llvm::SmallVector<size_t, 4> sumsOf(int rows) const {
    llvm::SmallVector<size_t, 4> sums;
    forReaders(rows, [&](size_t i) {
      const Node &node = body.nodes[i];
      bool isSum = isRowSum(node);
      if (node.op && node.op->name == "cast" && readersOf(node.writes[0]) == 1)
        forReaders(node.writes[0],
                   [&](size_t k) { isSum |= isRowSum(body.nodes[k]); });
      if (isSum)
        sums.push_back(i);
    });
    return sums;
  }

  /// The gradient of a gelu joins the product that makes what it multiplies, in
  /// the place of the gelu; sums of its rows, unless cast, join both.
  void fuseGeluBackward(size_t at) {
    Node &backward = body.nodes[at];
    int dx = backward.writes[0], dy = backward.reads[1];
    Node *product = productOf(dy);
    if (!product || product->op->operands.size() > 2 || readersOf(dy) > 1 ||
        !fits(dx))
      return;
    llvm::SmallVector<size_t, 4> sums = sumsOf(dx);
    if (isReadByKernel(dx, sums))
      return;
    llvm::erase(backward.reads, dy);
    backward.reads.append(product->reads);
    backward.op = product->op;
    backward.isKernel = false;
    backward.workspace = product->workspace;
    product->isGone = true;
    for (size_t sum : sums)
      if (isRowSum(body.nodes[sum])) {
        backward.writes.append(body.nodes[sum].writes);
        body.nodes[sum].isGone = true;
        break;
      }
  }

  /// True for a sum over all dimensions but the last.
  bool isRowSum(const Node &node) const {
    const LayerOp *op = node.op;
    if (node.isGone || !op || op->name != "reduce")
      return false;
    const Sizes &rows = body.tensors[node.reads[0]].shape;
    const Sizes &sum = body.tensors[node.writes[0]].shape;
    return rows.size() > 1 && sum.size() == 1 &&
           op->operandFactors[0].back() == op->resultFactors[0].back();
  }

  /// True for a product that adds up over all rows of `value`.
  bool contracts(const LayerOp &op, int tensor, const Node &node) const {
    if (node.reads.size() < 2 || node.reads[0] == node.reads[1] ||
        !llvm::is_contained(node.reads, tensor) || op.operands.size() != 2 ||
        widthOf(op.operands[0]) != widthOf(op.operands[1]))
      return false;
    const TensorFactors &dims = op.operandFactors[node.reads[1] == tensor];
    auto isInResult = [&](const DimFactors &dim) {
      return llvm::is_contained(op.resultFactors[0], dim);
    };
    return dims.size() > 1 && isInResult(dims.back()) &&
           llvm::none_of(llvm::ArrayRef(dims).drop_back(), isInResult);
  }

  void fuseRowSum(size_t at) {
    Node &reduce = body.nodes[at];
    llvm::SmallVector<size_t, 2> sums = {at};
    int rows = reduce.reads[0];
    if (Node *maker = makerOf(rows); maker && maker->op &&
                                     maker->op->name == "cast" &&
                                     readersOf(rows) == 1) {
      sums.push_back(maker - body.nodes.data());
      rows = maker->reads[0];
    }
    Node *maker = makerOf(rows);
    while (maker && maker->op && maker->op->view && !maker->reads.empty())
      maker = makerOf(maker->reads[0]);
    if ((maker && maker->isKernel) || isReadByKernel(rows, sums))
      return;
    double width = widthOf(reduce.op->results[0]);
    for (Node &node : body.nodes) {
      if (node.isGone || !isProduct(node) || !contracts(*node.op, rows, node) ||
          widthOf(node.op->results[0]) != width)
        continue;
      node.writes.append(reduce.writes);
      for (size_t sum : sums)
        body.nodes[sum].isGone = true;
      return;
    }
  }
};
} // namespace

void program_sketch::fuseEpilogues(Body &body, const LayerKind &kind,
                                   bool gelu) {
  EpilogueFuser(body, kind).run(gelu);
}
