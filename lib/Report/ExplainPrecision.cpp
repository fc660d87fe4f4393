//===- ExplainPrecision.cpp - which matmuls of a step are in 8 bits -------===//
//
// Problem: say of each matmul whether it multiplies 8-bit floats and, if not,
// why; and tell the model's own ops from those that only scale operands.
//
// Idea: an operand x of such a matmul is cast(x * broadcast(1 / unit(x))), its
// result is multiplied by the units of both
// (lib/Precision/QuantizeMatmuls.cpp). From the matmul these chains are
// followed backward to `unit`, and forward to the product with the units.
//
//   z = einsum(cast(x * f), cast(w * g)), y = z * broadcast(u * v):
//   both casts and the three products belong to the matmul, and so do the ops
//   that make f, g, u and v.
//
// Cost: one visit per op and operand.
//
//===----------------------------------------------------------------------===//

#include "kerf/Report/ExplainDetail.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace kerf;
using namespace kerf::explain_detail;

static bool isIn8Bits(const LayerOp &op) { return op.type == "fp8"; }

/// Adds what makes a factor of a scale: scalars, down to the units.
static void addFactor(const LayerKind &kind, int value, std::set<int> &ops) {
  static const llvm::StringSet<> names = {
      "broadcast", "cast", "constant", "div", "mul", "power_of_two", "unit"};
  int maker = kind.values[value].producer;
  if (maker < 0 || !names.contains(kind.ops[maker].name) ||
      !ops.insert(maker).second || kind.ops[maker].name == "unit")
    return;
  for (int operand : kind.ops[maker].operands)
    addFactor(kind, operand, ops);
}

/// Adds the cast and the product that bring an operand into 8 bits.
static void addOperand(const LayerKind &kind, int value, std::set<int> &ops) {
  int cast = kind.values[value].producer;
  if (cast < 0 || kind.ops[cast].name != "cast" || !ops.insert(cast).second)
    return;
  int scaled = kind.values[kind.ops[cast].operands[0]].producer;
  if (scaled < 0 || kind.ops[scaled].name != "mul")
    return;
  ops.insert(scaled);
  addFactor(kind, kind.ops[scaled].operands.back(), ops);
}

std::set<int> explain_detail::scalingOps(const LayerKind &kind) {
  std::set<int> ops, results;
  for (const LayerOp &op : kind.ops) {
    if (!isIn8Bits(op))
      continue;
    for (int operand : op.operands)
      addOperand(kind, operand, ops);
    results.insert(op.results.begin(), op.results.end());
  }
  for (auto [i, op] : llvm::enumerate(kind.ops))
    if (op.name == "mul" && op.operands.size() == 2 &&
        results.count(op.operands[0])) {
      ops.insert(static_cast<int>(i));
      addFactor(kind, op.operands[1], ops);
    }
  return ops;
}

/// Why a matmul or attention is not in 8 bits.
static const char *whyWide(const LayerOp &op, bool isOutside) {
  constexpr int64_t multiple = 16; // of all sizes: what tensor cores take
  if (op.scores > 0)
    return "attention is never in fp8";
  if (op.isGrouped())
    return "matmuls of experts are never in fp8";
  if (isOutside)
    return "only matmuls of repeated layers are in fp8";
  for (const LayerFactor &factor : op.factors)
    if (factor.factor.size % multiple != 0)
      return "fp8 needs sizes that 16 divides";
  return op.name == "einsum" ? "only linear layers are in fp8, no routers" : "";
}

std::vector<PrecisionWords>
explain_detail::precisionOf(const StepModel &step, int number, bool isOutside) {
  std::vector<PrecisionWords> rows;
  if (step.type != "fp8")
    return rows;
  const LayerKind &kind = step.kinds[number];
  std::map<std::string, std::string> names = shortNames(kind);
  for (const LayerOp &op : kind.ops) {
    bool multiplies = op.work.matmulFlops > 0 || op.scores > 0;
    if (op.phase != LayerPhase::Forward || !multiplies)
      continue;
    const char *why = isIn8Bits(op) ? "" : whyWide(op, isOutside);
    auto row = llvm::find_if(rows, [&](const PrecisionWords &known) {
      return known.type == op.type && known.why == why;
    });
    if (row == rows.end())
      row = rows.insert(row, {op.type, {}, why});
    row->ops.push_back(op.weight.empty() ? op.name : names[op.weight]);
  }
  return rows;
}
