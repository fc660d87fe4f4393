//===- LayerModel.cpp - a differentiated step as the planner sees it ------===//

#include "kerf/Step/LayerModel.h"

#include <fmt/format.h>

#include <algorithm>

using namespace kerf;

double LayerValue::elements() const {
  double count = 1;
  for (int64_t size : shape)
    count *= static_cast<double>(size);
  return count;
}

double LayerKind::forwardFlops() const {
  double flops = 0;
  for (const LayerOp &op : ops)
    if (op.phase == LayerPhase::Forward)
      flops += op.work.matmuls();
  return flops;
}

double StepModel::parameters() const {
  double count = 0;
  for (const LayerRun &run : runs)
    for (const LayerParam &param : kinds[run.kind].params)
      if (!param.shared)
        count += param.elements * param.weights * double(run.count);
  return count;
}

/// The part of its experts that a token chooses, by their matmuls.
static double activeShare(const LayerKind &kind, double tokens) {
  double flops = 0, experts = 0;
  for (const LayerOp &op : kind.ops)
    if (op.phase == LayerPhase::Forward && op.isGrouped())
      flops += op.work.matmulFlops;
  for (const LayerParam &param : kind.params)
    experts += param.expert ? double(param.elements) : 0;
  return experts > 0 ? std::min(1.0, flops / (2 * tokens) / experts) : 1;
}

double StepModel::activeParameters() const {
  double count = 0;
  for (const LayerRun &run : runs) {
    double share = activeShare(kinds[run.kind], tokens());
    for (const LayerParam &param : kinds[run.kind].params)
      if (!param.shared)
        count += (param.expert ? share : 1) * param.elements * param.weights *
                 double(run.count);
  }
  return count;
}

int64_t StepModel::layers() const {
  int64_t count = 0;
  for (const LayerRun &run : runs)
    if (run.repeat >= 0)
      count += run.count;
  return count;
}

/// Flops of an op that the model asks for. The gradient of attention is four
/// matmuls where attention is two; that kernels make the scores again, a
/// fifth, is recomputation.
static double modelFlopsOf(const LayerKind &kind, const LayerOp &op) {
  bool isGradient = op.phase != LayerPhase::Forward && op.forward >= 0;
  double asked = isGradient ? 2 * kind.ops[op.forward].work.attentionFlops : 0;
  if (asked <= 0)
    return op.work.matmuls();
  return op.work.matmulFlops + std::min(op.work.attentionFlops, asked);
}

double StepModel::stepFlops() const {
  double flops = 0;
  for (const LayerRun &run : runs)
    for (const LayerOp &op : kinds[run.kind].ops)
      flops += modelFlopsOf(kinds[run.kind], op) * double(run.count);
  return flops;
}

static std::string printShape(const LayerValue &value) {
  static constexpr char kMarks[] = {' ', 'b', 's', 'e'};
  std::string text;
  for (size_t d = 0; d < value.shape.size(); ++d) {
    text += (d ? "x" : "") + std::to_string(value.shape[d]);
    char mark = kMarks[static_cast<int>(value.classes[d])];
    if (mark != ' ')
      text += mark;
  }
  return text + fmt::format("*{}", value.elementBytes);
}

static std::string printOp(const LayerKind &kind, const LayerOp &op) {
  static constexpr const char *kPhases[] = {"forward", "input_gradient",
                                            "weight_gradient"};
  std::string text = fmt::format(
      "  {} {} {}", kPhases[static_cast<int>(op.phase)], op.number, op.name);
  for (int operand : op.operands)
    text += fmt::format(" {}[{}]", operand, printShape(kind.values[operand]));
  text += " ->";
  for (int result : op.results)
    text += fmt::format(" {}[{}]", result, printShape(kind.values[result]));
  return text + fmt::format(" flops {:g}\n", op.work.matmuls());
}

std::string kerf::printStep(const StepModel &step) {
  std::string text = fmt::format(
      "step {}: batch {} sequence {} vocabulary {} type {}, {:g} parameters\n",
      step.name, step.batch, step.sequence, step.vocabulary, step.type,
      step.parameters());
  for (const LayerRun &run : step.runs) {
    const LayerKind &kind = step.kinds[run.kind];
    text += fmt::format("{} x {}: input {} output {} output gradient {} input "
                        "gradient {}\n",
                        kind.name, run.count, kind.input, kind.output,
                        kind.outputGradient, kind.inputGradient);
    for (const LayerOp &op : kind.ops)
      text += printOp(kind, op);
    for (const LayerParam &param : kind.params)
      text += fmt::format(
          "  param {} {} elements, {}+{}+{}+{} bytes each{}{}\n", param.name,
          param.elements, param.weightBytes, param.masterBytes,
          param.gradientBytes, param.stateBytes, param.shared ? " shared" : "",
          param.expert ? " expert" : "");
  }
  return text;
}
