//===- LayerKernels.cpp - what the kernels of a layer read and write ------===//
//
// Problem: the time of row ops is that of their bytes, and which bytes move is
// decided by a later stage, `fuse`: chains become kernels, readers of one
// tensor share one, matmuls of GPUs end in what follows them, and parts are
// computed where they are joined.
// Idea: simulate that stage on the ops of a kind, unsharded, and note for each
// op which of its operands and results move. So times stay functions of an op
// and its option; that kernels come apart where a collective stands between
// their ops is left out. Steps: each pass is a body of nodes as in Sketch.h;
// epilogues; groups; in a group the first reader of a tensor pays for it, and
// only what others read is written. Weight gradients pay last, since they may
// be deferred. Cost: (ops)^2 per pass, once per kind.
//
//   n = rms_norm x; dx = rms_norm_backward x, w, dn; dw =
//   rms_norm_weight_gradient x, dn: in the backward pass one kernel; the first
//   reads x and dn, the second reads neither.
//
//===----------------------------------------------------------------------===//

#include "kerf/Kernels/Sketch.h"
#include "kerf/Layer/LayerTerms.h"

#include "kerf/Support/Gpus.h"

#include <set>

using namespace kerf;
using namespace kerf::program_sketch;

KernelStyle kerf::kernelStyleOf(const Profile &profile, const Device &device) {
  if (!profile.fused)
    return KernelStyle::Chains;
  if (device.target != BackendTarget::Cuda)
    return KernelStyle::Joined;
  return hasGeluMatmuls(device.arch) ? KernelStyle::Gelu : KernelStyle::RowSums;
}

/// A constant or an index: each reader recomputes it.
static bool isSource(const LayerOp &op) { return op.operands.empty(); }

namespace {
class TrafficBuilder {
public:
  TrafficBuilder(const LayerKind &kind, KernelStyle style)
      : kind(kind), style(style), forward(kind.values.size()),
        backward(kind.values.size()) {
    out.ops.resize(kind.ops.size());
    out.inMemory.assign(kind.values.size(), true);
    for (const LayerOp &op : kind.ops)
      for (int value : std::set<int>(op.operands.begin(), op.operands.end()))
        (op.phase == LayerPhase::Forward ? forward : backward)[value] += 1;
  }

  KernelTraffic build() {
    for (size_t i = 0; i < kind.ops.size(); ++i)
      moveAll(i);
    if (style == KernelStyle::Chains) {
      joinChains();
    } else {
      joinPasses();
      makePartsInJoins();
    }
    return std::move(out);
  }

private:
  const LayerKind &kind;
  KernelStyle style;
  KernelTraffic out;
  std::vector<int> forward, backward; ///< ops that read each value

  void moveAll(size_t index) {
    const LayerOp &op = kind.ops[index];
    KernelTraffic::Op &own = out.ops[index];
    own.launch = !op.view;
    own.reads.assign(op.operands.size(), true);
    own.writes.assign(op.results.size(), true);
  }

  //===--------------------------------------------------------------------===//
  // Chains
  //===--------------------------------------------------------------------===//

  /// The only reader of a value in its own pass that other layers do not need,
  /// or null.
  const LayerOp *soleReader(int value) const {
    const LayerValue &facts = kind.values[value];
    if (facts.producer < 0 || value == kind.output ||
        value == kind.inputGradient || facts.gradientOf >= 0 ||
        (facts.forward && backward[value] > 0) ||
        forward[value] + backward[value] != 1)
      return nullptr;
    return &*llvm::find_if(kind.ops, [&](const LayerOp &op) {
      return llvm::is_contained(op.operands, value);
    });
  }

  void joinChains() {
    for (size_t v = 0; v < kind.values.size(); ++v)
      if (const LayerOp *reader = soleReader(v);
          reader && isRowOp(kind.ops[kind.values[v].producer]) &&
          isRowOp(*reader))
        out.inMemory[v] = false;
    for (auto [op, own] : llvm::zip(kind.ops, out.ops)) {
      for (auto [value, moves] : llvm::zip(op.operands, own.reads))
        moves = out.inMemory[value];
      for (auto [value, moves] : llvm::zip(op.results, own.writes))
        moves = out.inMemory[value];
      own.launch &= llvm::any_of(own.writes, [](bool moves) { return moves; });
    }
  }

  //===--------------------------------------------------------------------===//
  // Kernels of programs
  //===--------------------------------------------------------------------===//

  /// A head works in one function; of other kinds the passes are apart.
  void joinPasses() {
    bool isTogether = kind.outputGradient < 0;
    auto isForward = [](const LayerOp &op) {
      return op.phase == LayerPhase::Forward;
    };
    if (isTogether)
      return joinPass([](const LayerOp &) { return true; }, true);
    joinPass(isForward, false);
    joinPass([&](const LayerOp &op) { return !isForward(op); }, true);
  }

  /// True for the scale of a matmul in 8 bits: GPUs multiply by it on the way.
  bool isScale(const LayerOp &op) const {
    const LayerOp *matmul =
        style >= KernelStyle::RowSums ? scaledMatmul(kind, op) : nullptr;
    return matmul && kind.values[matmul->operands[0]].elementBytes == 1;
  }

  template <typename Pred> void joinPass(Pred isIn, bool isLast) {
    Body body;
    for (const LayerValue &value : kind.values)
      body.tensors.push_back(
          {value.bytes(), Sizes(value.shape.begin(), value.shape.end())});
    for (const LayerOp &op : kind.ops)
      if (isIn(op) && !isSource(op) && !isScale(op))
        addNode(body, op);
    addNeeded(body, isLast);
    bool isGpu = style >= KernelStyle::RowSums;
    if (isGpu)
      fuseEpilogues(body, kind, style == KernelStyle::Gelu);
    for (auto [op, own] : llvm::zip(kind.ops, out.ops))
      if (isIn(op))
        forget(op, own);
    note(body, kernelGroups(body, isGpu));
  }

  void addNode(Body &body, const LayerOp &op) const {
    Node &node = body.nodes.emplace_back();
    node.reads.append(op.operands.begin(), op.operands.end());
    node.writes.append(op.results.begin(), op.results.end());
    node.gathers =
        style >= KernelStyle::RowSums && looksUpRows(op, BackendTarget::Cuda);
    node.isKernel = node.gathers || isRowOp(op);
    setOp(node, op);
  }

  /// A last node that reads what is needed behind the pass.
  void addNeeded(Body &body, bool isLast) const {
    Node needed;
    for (size_t v = 0; v < kind.values.size(); ++v) {
      bool isKept = !isLast && kind.values[v].forward && backward[v] > 0;
      if (isKept)
        body.tensors[v].bytes = 0; // It lies in a slot.
      if (isKept || int(v) == kind.output || int(v) == kind.inputGradient ||
          kind.values[v].gradientOf >= 0)
        needed.reads.push_back(v);
    }
    body.nodes.push_back(needed);
  }

  /// Until a node says otherwise an op is in a matmul, or it is a source.
  void forget(const LayerOp &op, KernelTraffic::Op &own) {
    own.reads.assign(op.operands.size(), false);
    own.writes.assign(op.results.size(), false);
    own.launch = false;
    own.inMatmul = !op.view && !isSource(op);
    if (!op.view)
      for (int value : op.results)
        out.inMemory[value] = false;
  }

  void note(const Body &body, const std::vector<int> &groups) {
    std::map<int, std::set<int>> known; // by group: made or read
    for (auto [node, group] : llvm::zip(body.nodes, groups))
      known[group].insert(node.writes.begin(), node.writes.end());
    for (bool isLate : {false, true})
      for (size_t i = 0; i < body.nodes.size(); ++i) {
        const LayerOp *op = body.nodes[i].op;
        if (op && (op->phase == LayerPhase::WeightGradient) == isLate)
          note(body, groups, i, known[groups[i]]);
      }
  }

  void note(const Body &body, const std::vector<int> &groups, size_t at,
            std::set<int> &known) {
    const Node &node = body.nodes[at];
    const LayerOp &op = *node.op;
    KernelTraffic::Op &own = out.ops[node.op - kind.ops.data()];
    own.inMatmul = false;
    own.launch = !op.view && groups[at] == int(at);
    for (auto [value, moves] : llvm::zip(op.operands, own.reads))
      moves = !isMadeBySource(value) && known.insert(value).second;
    double more = 0;
    for (int value : node.writes) {
      if (!node.isKernel || isReadOutside(body, groups, at, value))
        out.inMemory[value] = true;
      auto result = llvm::find(op.results, value) - op.results.begin();
      if (result < int(op.results.size()))
        own.writes[result] = out.inMemory[value];
      else
        more += kind.values[value].bytes();
    }
    for (int value : node.reads)
      if (!llvm::is_contained(op.operands, value) && known.insert(value).second)
        more += kind.values[value].bytes();
    own.epilogue = more / kind.values[op.results[0]].bytes();
  }

  /// What joins parts computes those that nobody else reads.
  void makePartsInJoins() {
    for (auto [op, own] : llvm::zip(kind.ops, out.ops))
      for (int part : partsOf(kind, op)) {
        if (!isMadeInJoin(kind, part))
          continue;
        int producer = kind.values[part].producer;
        KernelTraffic::Op &maker = out.ops[producer];
        auto result = llvm::find(kind.ops[producer].results, part) -
                      kind.ops[producer].results.begin();
        maker.writes[result] = maker.launch = out.inMemory[part] = false;
        for (auto [value, moves] : llvm::zip(op.operands, own.reads))
          moves &= value != part;
      }
  }

  bool isMadeBySource(int value) const {
    int producer = kind.values[value].producer;
    return producer >= 0 && isSource(kind.ops[producer]);
  }

  static bool isReadOutside(const Body &body, const std::vector<int> &groups,
                            size_t at, int value) {
    for (size_t i = 0; i < body.nodes.size(); ++i)
      if (groups[i] != groups[at] &&
          llvm::is_contained(body.nodes[i].reads, value))
        return true;
    return false;
  }
};
} // namespace

KernelTraffic kerf::kernelTrafficOf(const LayerKind &kind, KernelStyle style) {
  return TrafficBuilder(kind, style).build();
}
