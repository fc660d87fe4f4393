//===- SketchEpilogues.cpp - matmuls of a layer and what they end in ------===//
//
// Writes a body's nodes as ops of Epilogues.h, and merges what that joins.
//
//===----------------------------------------------------------------------===//

#include "kerf/Kernels/Epilogues.h"
#include "kerf/Kernels/Sketch.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

using namespace kerf;
using namespace kerf::program_sketch;
namespace epilogues = kerf::kernels::epilogues;

namespace {
class GraphWriter {
public:
  GraphWriter(const Body &body, const LayerKind &kind)
      : body(body), kind(kind) {}

  epilogues::Graph write() {
    for (auto [i, tensor] : llvm::enumerate(body.tensors))
      graph.tensors.push_back(
          {0, tensor.shape.empty() ? 0 : tensor.shape.back(),
           static_cast<int>(i) == body.next || tensor.bytes == 0});
    for (const Node &node : body.nodes) {
      graph.ops.push_back({roleOf(node), node.isKernel});
      epilogues::Op &plain = graph.ops.back();
      plain.reads.assign(node.reads.begin(), node.reads.end());
      plain.writes.assign(node.writes.begin(), node.writes.end());
      if (!node.op)
        continue;
      setTypes(node.op->operands, node.reads);
      setTypes(node.op->results, node.writes);
      if (plain.role == epilogues::Role::Matmul)
        setMatmul(node, plain);
    }
    return std::move(graph);
  }

private:
  const Body &body;
  const LayerKind &kind;
  epilogues::Graph graph;

  int typeOf(int value) const {
    return static_cast<int>(8 * kind.values[value].elementBytes); // bits
  }
  void setTypes(llvm::ArrayRef<int> values, llvm::ArrayRef<int> tensors) {
    for (auto [value, tensor] : llvm::zip(values, tensors))
      graph.tensors[tensor].type = typeOf(value);
  }

  /// True for many matmuls in one: both operands have a dimension of the result
  /// of which this rank has more than one.
  bool hasBatch(const Node &node) const {
    const LayerOp &op = *node.op;
    const Sizes &shape = body.tensors[node.writes[0]].shape;
    for (auto [size, dim] : llvm::zip(shape, op.resultFactors[0]))
      for (unsigned factor : dim)
        if (size > 1 && hasFactor(op.operandFactors[0], factor) &&
            hasFactor(op.operandFactors[1], factor))
          return true;
    return false;
  }

  bool isRowSum(const Node &node) const {
    const Sizes &rows = body.tensors[node.reads[0]].shape;
    const Sizes &sum = body.tensors[node.writes[0]].shape;
    return rows.size() > 1 && sum.size() == 1 &&
           node.op->operandFactors[0].back() ==
               node.op->resultFactors[0].back();
  }

  epilogues::Role roleOf(const Node &node) const {
    using epilogues::Role;
    const LayerOp *op = node.op;
    if (!op)
      return Role::Other;
    bool isMatmul = op->work.matmulFlops > 0 && op->maps.empty() &&
                    typeOf(op->operands[0]) > 8 && !hasBatch(node);
    if (isMatmul)
      return Role::Matmul;
    if (op->tanh)
      return op->name == "gelu" ? Role::Gelu : Role::GeluBackward;
    if (op->name == "reduce" && isRowSum(node))
      return Role::RowSum;
    if (op->name == "cast")
      return Role::Cast;
    return op->view && !node.reads.empty() ? Role::View : Role::Other;
  }

  void setMatmul(const Node &node, epilogues::Op &plain) const {
    const LayerOp &op = *node.op;
    plain.columns = columnsOf(node);
    plain.hasOneType = llvm::all_of(op.operands, [&](int value) {
      return typeOf(value) == typeOf(op.results[0]);
    });
    if (op.operands.size() == 2 && node.reads[0] != node.reads[1] &&
        typeOf(op.operands[0]) == typeOf(op.operands[1]))
      for (int operand : {0, 1})
        if (sumsRowsOf(op, operand))
          plain.sumsRowsOf.push_back(node.reads[operand]);
  }

  /// Those of the operand that has the last dimension of the result.
  int64_t columnsOf(const Node &node) const {
    const LayerOp &op = *node.op;
    const Sizes &shape = body.tensors[node.writes[0]].shape;
    const TensorFactors &dims = op.resultFactors[0];
    // What is written is perhaps a part of a tensor of other dimensions.
    if (shape.empty())
      return 0;
    if (dims.size() != shape.size() || dims.back().empty())
      return shape.back();
    bool isSecond = hasFactor(op.operandFactors[1], dims.back().back());
    int64_t columns = 1;
    for (auto [size, dim] : llvm::reverse(llvm::zip_equal(shape, dims))) {
      if (!llvm::all_of(dim, [&](unsigned factor) {
            return hasFactor(op.operandFactors[isSecond], factor);
          }))
        break;
      columns *= size;
    }
    return columns;
  }

  /// True where a matmul adds up over all rows of an operand.
  static bool sumsRowsOf(const LayerOp &op, int operand) {
    const TensorFactors &dims = op.operandFactors[operand];
    auto isInResult = [&](const DimFactors &dim) {
      return llvm::is_contained(op.resultFactors[0], dim);
    };
    return dims.size() > 1 && isInResult(dims.back()) &&
           llvm::none_of(llvm::ArrayRef(dims).drop_back(), isInResult);
  }
};
} // namespace

/// The matmul's node, with what the others read and what they make together.
static Node merge(const Body &body, const epilogues::Epilogue &found) {
  Node all = body.nodes[found.matmul];
  llvm::SmallVector<int, 6> made;
  for (int member : found.members)
    llvm::append_range(made, body.nodes[member].writes);
  for (int member : found.members)
    for (int tensor : body.nodes[member].reads)
      if (!llvm::is_contained(made, tensor) &&
          !llvm::is_contained(all.reads, tensor))
        all.reads.push_back(tensor);
  all.writes.assign(found.results.begin(), found.results.end());
  return all;
}

void program_sketch::fuseEpilogues(Body &body, const LayerKind &kind,
                                   bool gelu) {
  std::vector<bool> isGone(body.nodes.size(), false);
  for (const epilogues::Epilogue &found : epilogues::findEpilogues(
           GraphWriter(body, kind).write(), {gelu, /*sums=*/true})) {
    Node all = merge(body, found);
    for (int member : found.members)
      isGone[member] = member != found.at;
    body.nodes[found.at] = std::move(all);
  }
  std::vector<Node> left;
  for (auto [node, gone] : llvm::zip(body.nodes, isGone))
    if (!gone)
      left.push_back(std::move(node));
  body.nodes = std::move(left);
}
