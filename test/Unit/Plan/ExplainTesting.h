//===- ExplainTesting.h - a plan made by hand -----------------------------===//
//
// Two stages of two layers on eight devices: tensor 2, data 2, pipeline 2. All
// times are round numbers, so that every sum can be done on paper.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TEST_UNIT_PLAN_EXPLAINTESTING_H
#define KERF_TEST_UNIT_PLAN_EXPLAINTESTING_H

#include "kerf/Report/Explain.h"

namespace kerf::test {

inline LayerOp makeOp(const char *name, const char *weight,
                      std::vector<LayerFactor> factors,
                      std::vector<TensorFactors> operands,
                      std::vector<TensorFactors> results) {
  LayerOp op;
  op.name = name;
  op.weight = weight;
  op.factors = std::move(factors);
  op.operandFactors = std::move(operands);
  op.resultFactors = std::move(results);
  return op;
}

/// y[b,s,n] = x[b,s,k] w[n,k].
inline LayerOp makeLinear(const char *weight, int64_t n, int64_t k,
                          double flops) {
  LayerOp op =
      makeOp("linear", weight,
             {{{"b", 8, FactorKind::Parallel}, IndexClass::Batch},
              {{"s", 1024, FactorKind::Parallel}, IndexClass::Sequence},
              {{"k", k, FactorKind::Sum}, IndexClass::Other},
              {{"n", n, FactorKind::Parallel}, IndexClass::Other}},
             {{{0}, {1}, {2}}, {{3}, {2}}}, {{{0}, {1}, {3}}});
  op.work.matmulFlops = flops;
  return op;
}

inline LayerOp makeNorm(const char *weight) {
  return makeOp("rms_norm", weight,
                {{{"b", 8, FactorKind::Parallel}, IndexClass::Batch},
                 {{"s", 1024, FactorKind::Parallel}, IndexClass::Sequence},
                 {{"d", 512, FactorKind::Whole}, IndexClass::Other}},
                {{{0}, {1}, {2}}, {{2}}}, {{{0}, {1}, {2}}});
}

/// Heads are g x r; `flops` of the whole op.
inline LayerOp makeAttention(double flops) {
  LayerOp op =
      makeOp("attention", "",
             {{{"b", 8, FactorKind::Parallel}, IndexClass::Batch},
              {{"g", 4, FactorKind::Parallel}, IndexClass::Other},
              {{"r", 2, FactorKind::Parallel}, IndexClass::Other},
              {{"q", 1024, FactorKind::Parallel}, IndexClass::Sequence},
              {{"k", 1024, FactorKind::Whole}, IndexClass::Sequence},
              {{"d", 64, FactorKind::Whole}, IndexClass::Other}},
             {{{0}, {3}, {1, 2}, {5}}, {{0}, {4}, {1}, {5}}},
             {{{0}, {3}, {1, 2}, {5}}});
  op.variants = {{"ring", {3, 4}, true}};
  op.scores = 1e9;
  op.work.attentionFlops = flops;
  return op;
}

inline LayerParam makeParam(const char *name, double elements) {
  LayerParam param;
  param.name = name;
  param.elements = elements;
  param.weightBytes = 2;
  param.masterBytes = 4;
  param.gradientBytes = 4;
  param.stateBytes = 8;
  return param;
}

inline OpOption makeOption(int factor, int passes = -1, int variant = -1) {
  OpOption option;
  option.factor = factor;
  option.passes = passes;
  option.variant = variant;
  return option;
}

/// Backward flops are one op with twice the forward's.
inline LayerOp makeBackward(double matmul, double attention) {
  LayerOp op;
  op.name = "backward";
  op.phase = LayerPhase::InputGradient;
  op.forward = 0;
  op.work.matmulFlops = matmul;
  op.work.attentionFlops = attention;
  return op;
}

/// 4 layers, an embedding and a head; 28e12 flops a step.
inline StepModel makeStep() {
  StepModel step;
  step.name = "toy";
  step.batch = 8;
  step.sequence = 1024;
  step.vocabulary = 32000;
  step.type = "bf16";
  LayerKind embedding, layer, head;
  embedding.name = "embedding";
  embedding.params = {makeParam("embed.weight", 10e6)};
  layer.name = "layer";
  layer.ops = {makeNorm("layers.{i}.norm.weight"),
               makeLinear("layers.{i}.attn.q_proj.weight", 512, 512, 1e12),
               makeAttention(0.5e12),
               makeLinear("layers.{i}.mlp.down_proj.weight", 512, 2048, 0.5e12),
               makeBackward(3e12, 1e12)};
  layer.params = {makeParam("layers.{i}.attn.q_proj.weight", 20e6)};
  head.name = "head";
  head.ops = {makeLinear("lm_head.weight", 32000, 512, 1e12),
              makeBackward(3e12, 0)};
  head.params = {makeParam("lm_head.weight", 10e6)};
  step.kinds = {embedding, layer, head};
  step.runs = {{0, 1, -1}, {1, 4, 0}, {2, 1, -1}};
  return step;
}

inline Machine makeMachine() {
  Machine machine;
  machine.name = "two-boxes";
  machine.device.name = "toy-80g";
  machine.device.memoryBytes = 80.0 * (1 << 30);
  machine.device.memoryBytesPerSec = 1e12;
  machine.device.peak = {{"bf16", 100e12}, {"f32", 10e12}};
  machine.device.efficiency = {0.8, 0.4, 0.85, 0.8, 0.8};
  machine.device.powerWatt = 500;
  machine.tiers.resize(2);
  machine.tiers[0].name = "nvlink";
  machine.tiers[0].size = 4;
  machine.tiers[0].bytesPerSec = 100e9;
  machine.tiers[0].latencySec = 2e-6;
  machine.tiers[1].name = "leaf";
  machine.tiers[1].size = 2;
  machine.tiers[1].bytesPerSec = 25e9;
  machine.tiers[1].latencySec = 5e-6;
  return machine;
}

/// Milliseconds of matmul, attention, rows and tensor traffic.
inline TimeParts makeParts(double matmul, double attention, double rows,
                           double tensor) {
  TimeParts parts;
  parts.matmulSec = 1e-3 * matmul;
  parts.attentionSec = 1e-3 * attention;
  parts.rowSec = 1e-3 * rows;
  parts.commSec[0] = 1e-3 * tensor;
  return parts;
}

/// No traffic is hidden inside layers; half of the data traffic may be.
inline Profile makeProfile() {
  Profile profile;
  profile.accumulateBytes = 0;
  return profile;
}

inline StageMemory makeMemory(double activations) {
  constexpr double gib = 1 << 30;
  return {4 * gib,           8 * gib, 8 * gib, 16 * gib,
          activations * gib, 2 * gib, gib,     3 * gib};
}

/// Forward 30 ms a stage, backward 64 ms; 1 ms of each is a launch gap on stage
/// 0. 1F1B of 4 micro-batches ends after 474 ms; 5 ms of gradients are exposed,
/// the update takes 3 ms, and 2 ms of weights are exposed: 484 ms.
inline PlanPoint makePlan() {
  LayerPoint layer, embedding, head;
  layer.forward = makeParts(10, 2, 1, 1);
  layer.backward = makeParts(20, 5, 3, 2);
  layer.recompute = makeParts(0, 0, 0.5, 0.5); // 31 ms with the backward
  layer.recomputed = "norms";
  layer.denseElements = 10e6;
  embedding.forward = makeParts(0, 0, 1, 0);
  embedding.backward = makeParts(0, 0, 1, 0);
  head.forward = makeParts(2, 0, 0, 0);
  head.backward = makeParts(2, 0, 0, 0);
  embedding.recomputed = head.recomputed = "nothing";
  PlanPoint plan;
  plan.outer.tp = plan.outer.dp = plan.outer.pp = 2;
  plan.outer.order = {MeshAxis::Tensor, MeshAxis::Data, MeshAxis::Pipeline,
                      MeshAxis::Context};
  plan.outer.microBatch = 1;
  plan.outer.microBatches = 4;
  plan.outer.zero = 1;
  plan.outer.shardGroup = 2;
  plan.stages = {{{{{{0, 1, embedding}, {1, 2, layer}}}}, makeMemory(20)},
                 {{{{{1, 2, layer}, {2, 1, head}}}}, makeMemory(12)}};
  plan.work.microBatches = 4;
  plan.work.sendSec = {1e-3, 1e-3};
  plan.work.gradientOverlap = plan.work.weightOverlap = 0.5;
  plan.work.updatedOverlap = 0.5;
  plan.work.stages.resize(2);
  for (StageWork &stage : plan.work.stages) {
    ChunkWork chunk;
    chunk.forwardSec = 30e-3;
    chunk.backwardSec = 64e-3;
    stage.chunks = {chunk};
    stage.gradientSyncSec = 10e-3;
    stage.weightGatherSec = 4e-3;
    stage.updateSec = 3e-3;
  }
  plan.stepSec = simulate(plan.work).totalSec;
  return plan;
}

/// Everything that an explanation borrows from.
struct Example {
  StepModel step = makeStep();
  Machine machine = makeMachine();
  SearchResult result;
  LayerLayout layout;

  Example() {
    result.best = makePlan();
    Certificate &c = result.certificate;
    c.space = 1.2e6;
    c.nodes = 300;
    c.prunedByMemory = 120;
    c.prunedByBound = 60;
    c.illegal = 20;
    c.evaluated = 4000;
    c.tablesSolved = 25;
    c.tablesBounded = 7;
    c.bestSec = c.boundSec = 0.484;
    c.complete = true;
    c.model = "the timeline";
    AxisLayout &tensor = layout.axes[0];
    for (int factor : {1, 3, 1, 2, -1})
      tensor.ops.push_back(makeOption(factor));
  }

  ExplainInput input() {
    ExplainInput input;
    input.step = &step;
    input.machine = &machine;
    input.profile = makeProfile();
    input.result = &result;
    input.layoutOf = [this](int kind, const LayerPoint &) {
      return kind == 1 ? &layout : nullptr;
    };
    return input;
  }
};

} // namespace kerf::test

#endif // KERF_TEST_UNIT_PLAN_EXPLAINTESTING_H
