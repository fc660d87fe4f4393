//===- ExplainTest.cpp - what a plan means, in numbers and words ----------===//

#include "ExplainTesting.h"

#include "kerf/Report/Report.h"

#include "kerf/Support/Json.h"

#include "llvm/ADT/StringExtras.h"

#include "gtest/gtest.h"

#include <cmath>
#include <numeric>
#include <random>

using namespace kerf;
using namespace kerf::test;

namespace {

double sumOf(const TimePart &time) {
  return time.computeSec() + time.exposedSec() + time.coordinationSec();
}

const TrafficRow *trafficOf(const TimePart &time, llvm::StringRef axis) {
  for (const TrafficRow &row : time.traffic)
    if (row.axis == axis)
      return &row;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

// The parts of the hand-made step, worked out on paper (means of two stages, 4
// micro-batches), are found.
TEST(Explain, PartsOfAStepByHand) {
  TimePart time =
      accountTime(makeStep(), makeMachine(), makeProfile(), makePlan());
  EXPECT_NEAR(time.stepSec, 484e-3, 1e-9);
  EXPECT_NEAR(time.matmulSec, 4 * (60e-3 + 64e-3) / 2, 1e-9);
  EXPECT_NEAR(time.attentionSec, 4 * 14e-3, 1e-9);
  EXPECT_NEAR(time.rowSec, 4 * (10e-3 + 8e-3) / 2, 1e-9);
  EXPECT_NEAR(time.recomputeSec, 4 * 1e-3, 1e-9);
  EXPECT_NEAR(time.launchSec, 4 * (2e-3 + 0) / 2, 1e-9);
  EXPECT_NEAR(time.optimizerSec, 3e-3, 1e-9);
  EXPECT_NEAR(time.bubbleSec, 94e-3, 1e-9);
  EXPECT_NEAR(time.imbalanceSec, 0, 1e-9);
  ASSERT_EQ(time.traffic.size(), 3u);
  EXPECT_NEAR(trafficOf(time, "tensor")->totalSec, 4 * 7e-3, 1e-9);
  EXPECT_NEAR(trafficOf(time, "tensor")->exposedSec, 4 * 7e-3, 1e-9);
  EXPECT_EQ(trafficOf(time, "tensor")->tier, "nvlink");
  EXPECT_NEAR(trafficOf(time, "data")->totalSec, 14e-3, 1e-9);
  EXPECT_NEAR(trafficOf(time, "data")->exposedSec, 7e-3, 1e-9);
  EXPECT_NEAR(trafficOf(time, "pipeline")->totalSec, 4e-3, 1e-9);
  EXPECT_NEAR(trafficOf(time, "pipeline")->exposedSec, 4e-3, 1e-9);
  EXPECT_EQ(trafficOf(time, "pipeline")->tier, "leaf");
}

// MFU, HFU and scaling efficiency follow their formulas.
TEST(Explain, RatesByHand) {
  PlanPoint plan = makePlan();
  for (PlacedStage &stage : plan.stages)
    for (PlacedLayers &layers : stage.chunks[0].layers)
      if (layers.kind == 1)
        layers.point.recompute.attentionSec = 1e-3; // half of the forward
  plan.work.stages[0].chunks[0].backwardSec += 2e-3;
  plan.work.stages[1].chunks[0].backwardSec += 2e-3;
  TimePart time = accountTime(makeStep(), makeMachine(), makeProfile(), plan);
  double possible = time.stepSec * 8 * 100e12;
  EXPECT_DOUBLE_EQ(time.peak, 800e12);
  EXPECT_DOUBLE_EQ(time.mfu, 28e12 / possible);
  EXPECT_NEAR(time.recomputedFlops, 4 * 0.5 * 0.5e12, 1e3);
  EXPECT_NEAR(time.hfu, 29e12 / possible, 1e-12);
  EXPECT_NEAR(time.ofIdeal, 28e12 / possible / 0.8, 1e-12);
  EXPECT_NEAR(time.recomputeSec, 4 * 3e-3, 1e-9);
}

// What a step would take without a resource. The network: forward 28 ms and
// backward 59 ms, 5 of each, and the update. The pipeline: own work alone.
TEST(Explain, RoofsByHand) {
  TimePart time =
      accountTime(makeStep(), makeMachine(), makeProfile(), makePlan());
  ASSERT_EQ(time.roofs.size(), 5u);
  EXPECT_EQ(time.roofs.front().name, "compute");
  for (size_t i = 0; i < time.roofs.size(); ++i) {
    EXPECT_LE(time.roofs[i].stepSec, time.stepSec + 1e-12);
    if (i > 0) {
      EXPECT_LE(time.roofs[i - 1].stepSec, time.roofs[i].stepSec);
    }
    if (time.roofs[i].name == "network") {
      EXPECT_NEAR(time.roofs[i].stepSec, 5 * (28e-3 + 59e-3) + 3e-3, 1e-9);
    }
    if (time.roofs[i].name == "pipeline") {
      EXPECT_NEAR(time.roofs[i].stepSec, 386e-3, 1e-9);
    }
  }
  EXPECT_NE(time.next.name, "compute");
  EXPECT_LE(time.next.stepSec, time.roofs.front().stepSec);
}

// A device that the 4 ranks of a box share has one peak and one memory for
// them.
TEST(Explain, SharedDevice) {
  Example example;
  example.machine.device.shared = true;
  Explanation e = explain(example.input());
  EXPECT_DOUBLE_EQ(e.time.peak, 200e12);

  EXPECT_DOUBLE_EQ(e.memory.capacity, 20.0 * (1 << 30));
}

// Of a machine that is filled in part, the devices that exist are told and
// paid.
TEST(Explain, PartlyFilledMachine) {
  Example example;
  example.machine = example.machine.withDevices(9);
  EXPECT_EQ(example.machine.describedDevices(), 12);
  ExplainInput input = example.input();
  input.devices = 9;
  Explanation e = explain(input);
  EXPECT_EQ(e.plan.devices, 9);
  EXPECT_EQ(e.plan.spares, 1);
  EXPECT_NEAR(e.run.deviceHours, 9 * e.run.seconds / 3600, 1e-9);
}

/// A plan whose chunks take at least what their layers add up to.
PlanPoint randomPlan(std::mt19937 &random) {
  auto number = [&](double most) {
    return most * static_cast<double>(random() % 1000) / 1000;
  };
  PlanPoint plan = makePlan();
  int64_t pp = 1 + random() % 4, chunks = 1;
  plan.outer.pp = pp;
  auto &work = plan.work;
  work.schedule = static_cast<ScheduleKind>(random() % 4);
  if (work.schedule == ScheduleKind::Interleaved) {
    pp = plan.outer.pp = std::max<int64_t>(pp, 2);
    chunks = 2;
  }
  work.chunks = chunks;
  work.microBatches = pp * (1 + random() % 3);
  work.sendSec.assign(static_cast<size_t>(pp), 0);
  for (double &sec : work.sendSec)
    sec = number(5e-3);
  work.bubble = 0.9;
  work.constantSec = number(10e-3);
  plan.stages.assign(pp, {});
  work.stages.assign(pp, {});
  for (int64_t i = 0; i < pp; ++i) {
    work.stages[i].gradientSyncSec = number(50e-3);
    work.stages[i].weightGatherSec = number(20e-3);
    work.stages[i].updateSec = number(5e-3);
    for (int64_t c = 0; c < chunks; ++c) {
      PlacedLayers layers{1, static_cast<int64_t>(1 + random() % 4), {}};
      LayerPoint &point = layers.point;
      point.forward = makeParts(number(9), number(3), number(3), number(3));
      point.backward = makeParts(number(18), number(6), number(6), number(6));
      point.recompute = makeParts(number(9), number(3), number(3), number(3));
      plan.stages[i].chunks.push_back({{layers}});
      auto count = static_cast<double>(layers.count);
      ChunkWork chunk;
      chunk.forwardSec = count * (point.forward.computeSec() +
                                  0.7 * point.forward.allCommSec()) +
                         number(2e-3);
      double own =
          point.backward.computeSec() + point.recompute.computeSec() +
          0.7 * (point.backward.allCommSec() + point.recompute.allCommSec());
      chunk.backwardSec = count * own + number(2e-3);
      chunk.weightGradientSec = chunk.backwardSec / 3;
      chunk.forwardGatherSec = number(5e-3);
      chunk.gradientSec = number(5e-3);
      work.stages[i].chunks.push_back(chunk);
    }
  }
  return plan;
}

// Whatever the schedule and the traffic: the parts add to the step, none is
// negative, and nothing vanishes faster than it takes.
TEST(Explain, PartsAddUp) {
  std::mt19937 random(7);
  Profile profile = makeProfile();
  profile.tensorOverlap = 0.3;
  for (int i = 0; i < 300; ++i) {
    PlanPoint plan = randomPlan(random);
    ASSERT_EQ(plan.work.check(), "");
    TimePart time = accountTime(makeStep(), makeMachine(), profile, plan);
    EXPECT_NEAR(sumOf(time), time.stepSec, 1e-9 * time.stepSec);
    EXPECT_DOUBLE_EQ(time.stepSec, simulate(plan.work).totalSec);
    for (double part :
         {time.matmulSec, time.attentionSec, time.rowSec, time.launchSec,
          time.recomputeSec, time.bubbleSec, time.imbalanceSec})
      EXPECT_GE(part, -1e-12);
    for (const TrafficRow &row : time.traffic) {
      EXPECT_GE(row.exposedSec, 0);
      EXPECT_LE(row.exposedSec, row.totalSec + 1e-9) << row.axis;
    }
    for (const Roof &roof : time.roofs)
      EXPECT_LE(roof.stepSec, time.stepSec * (1 + 1e-9)) << roof.name;
  }
}

// Shares that are shown add to exactly 100.0 %, each off by less than a tenth.
TEST(Explain, SharesAddToOneHundred) {
  EXPECT_EQ(report::tenths({1, 1, 1}), (std::vector<int64_t>{334, 333, 333}));
  EXPECT_EQ(report::tenths({0, 5}), (std::vector<int64_t>{0, 1000}));
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> parts;
    for (int j = 0; j < 12; ++j)
      parts.push_back(static_cast<double>(random() % 997));
    double whole = std::accumulate(parts.begin(), parts.end(), 0.0);
    std::vector<int64_t> shares = report::tenths(parts);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), int64_t(0)), 1000);
    for (size_t j = 0; j < parts.size(); ++j)
      EXPECT_LT(
          std::fabs(static_cast<double>(shares[j]) - 1000 * parts[j] / whole),
          1);
  }
}

//===----------------------------------------------------------------------===//
// Run
//===----------------------------------------------------------------------===//

// Tokens, hours and energy of a run without failures: 100 M parameters, 2 B
// tokens in 244,141 steps of half a second on 8 devices.
TEST(Explain, RunByHand) {
  Machine machine = makeMachine();
  machine.price = Price{2, "EUR", 0.5, 1.25};
  RunPart run = planRun(makeStep(), machine, 8, 0.5, 0);
  EXPECT_DOUBLE_EQ(run.tokens, 2e9);
  EXPECT_DOUBLE_EQ(run.tokensPerParameter, 20);
  EXPECT_DOUBLE_EQ(run.steps, 244141);
  EXPECT_DOUBLE_EQ(run.tokensPerSec, 16384);
  EXPECT_DOUBLE_EQ(run.seconds, 122070.5);
  EXPECT_DOUBLE_EQ(run.goodput, 1);
  EXPECT_DOUBLE_EQ(run.failuresPerDay, 0);
  EXPECT_NEAR(run.deviceHours, 8 * 122070.5 / 3600, 1e-6);
  EXPECT_NEAR(run.price, 2 * 8 * 122070.5 / 3600, 1e-6);
  EXPECT_NEAR(run.joules, 122070.5 * 8 * 500 * 1.25, 1);
  EXPECT_NEAR(run.carbonKg, run.joules / 3.6e6 * 0.5, 1e-9);
  EXPECT_NEAR(run.flopsPerJoule, 244141 * 28e12 / run.joules, 1);
  EXPECT_DOUBLE_EQ(planRun(makeStep(), machine, 8, 0.5, 8192).steps, 1);
}

// Who has been judged by published steps has the smallest interval; the widest
// of what applies counts.
TEST(Explain, IntervalsOfTimes) {
  StepModel step = makeStep();
  step.type = "bf16";
  Machine machine = makeMachine();
  machine.device.target = BackendTarget::Cuda;
  Profile profile;
  OuterChoice outer;
  outer.tp = outer.dp = 2;
  auto band = [&] { return errorBandOf(step, machine, profile, outer); };
  EXPECT_EQ(band().more, 0.2); // toy-80g
  machine.device.name = "a100-80g";
  EXPECT_EQ(band().more, 0.07);
  EXPECT_EQ(band().less, 0.07);
  step.type = "fp8";
  EXPECT_EQ(band().more, 0.1);
  outer.dp = 256;
  EXPECT_EQ(band().more, 0.12);
  LayerOp expert;
  expert.name = "grouped_matmul";
  expert.maps.push_back(FactorMap());
  expert.work.matmulFlops = 1;
  step.kinds[0].ops.push_back(expert);
  ASSERT_TRUE(expert.isGrouped());
  EXPECT_EQ(band().more, 0.56);
  EXPECT_EQ(band().less, 0.1);
  machine.device.target = BackendTarget::Cpu;
  EXPECT_EQ(band().more, 0.1);
}

/// What is left of the time between two failures, as a series: of the saves
/// that began after a start those that were whole.
static double keptOf(double interval, double stall, double written, double mtbf,
                     double restart) {
  double kept = 0;
  for (int64_t save = 1; save < 1000000; ++save) {
    double isWhole =
        std::exp(-(double(save) * (interval + stall) + written) / mtbf);
    if (isWhole < 1e-12)
      break;
    kept += interval * isWhole;
  }
  return kept / (mtbf * std::exp(restart / mtbf));
}

// Failures: 8 devices that fail every 8e6 s fail together every 1e6 s; 12 bytes
// of 100 M parameters at 8 x 1 MB/s are written in 150 s, so that there is a
// save every 300 s; it stops training for 1 % of a step of 0.5 s.
TEST(Explain, FailuresByHand) {
  Machine machine = makeMachine();
  machine.reliability = Reliability{8e6, 100, 1e6};
  RunPart run = planRun(makeStep(), machine, 8, 0.5, 0);
  EXPECT_DOUBLE_EQ(run.failuresPerDay, 0.0864);
  EXPECT_DOUBLE_EQ(run.checkpointBytes, 1.2e9);
  EXPECT_DOUBLE_EQ(run.checkpointSec, 150);
  EXPECT_EQ(run.checkpointBound, "writers");
  EXPECT_DOUBLE_EQ(run.checkpointStallSec, 0.005);
  EXPECT_DOUBLE_EQ(run.checkpointIntervalSec, 300);
  EXPECT_NEAR(run.goodput, keptOf(300, 0.005, 150, 1e6, 100), 1e-9);
  EXPECT_NEAR(run.goodput, 0.999583, 1e-6);
  EXPECT_NEAR(run.seconds, 122070.5 / run.goodput, 1e-6);
}

// What bounds a save: writers of 8 MB/s together, the way of two units of four
// devices to storage, storage itself.
TEST(Explain, WhatBoundsASave) {
  Machine machine = makeMachine();
  machine.reliability = Reliability{8e6, 100, 1e6};
  auto save = [&](double unit, double all) {
    machine.storage = Storage{unit, all};
    RunPart run = planRun(makeStep(), machine, 8, 0.5, 0);
    return std::make_pair(run.checkpointBound, run.checkpointSec);
  };
  double units = std::ceil(8 / double(machine.tiers.front().size));
  EXPECT_EQ(save(1e9, 1e9), std::make_pair(std::string("writers"), 150.0));
  EXPECT_EQ(save(4e6 / units, 1e9),
            std::make_pair(std::string("links to storage"), 300.0));
  EXPECT_EQ(save(4e6 / units, 2e6),
            std::make_pair(std::string("storage"), 600.0));
}

// The chosen interval is the best one up to first order: half and twice of it
// make less progress.
TEST(Explain, IntervalIsNearTheBest) {
  Machine machine = makeMachine();
  machine.reliability = Reliability{8e6, 100, 1e9}; // written in no time
  RunPart run = planRun(makeStep(), machine, 8, 0.5, 0);
  auto goodput = [&](double interval) {
    return keptOf(interval, run.checkpointStallSec, run.checkpointSec, 1e6,
                  100);
  };
  EXPECT_NEAR(goodput(run.checkpointIntervalSec), run.goodput, 1e-9);
  EXPECT_GT(run.goodput, goodput(run.checkpointIntervalSec / 2));
  EXPECT_GT(run.goodput, goodput(run.checkpointIntervalSec * 2));
}

// Copies in a neighbour's memory: of 1.2 GB a device has 150 MB, which go to
// its host in 15 s and, between steps, to another machine in 150 s. Writers of
// 1 kB/s would take 42 hours.
TEST(Explain, CopiesInANeighboursMemory) {
  Machine machine = makeMachine();
  machine.tiers[1].bytesPerSec = 2e6;
  machine.tiers[1].oversubscription = 2;
  machine.host = Host{1e12, 10e6};
  machine.reliability = Reliability{8e6, 100, 1e3};
  RunPart run = planRun(makeStep(), machine, 8, 0.5, 0);
  double stall = 150.005, interval = std::sqrt(2 * stall * 1e6);
  EXPECT_DOUBLE_EQ(run.copyStallSec, stall);
  EXPECT_DOUBLE_EQ(run.copyIntervalSec, interval);
  EXPECT_NEAR(run.copyGoodput,
              keptOf(interval, stall, 15 + interval / 4, 1e6, 100), 1e-9);
  EXPECT_GT(run.copyGoodput, run.goodput);
  // Two states of four devices and of their neighbours.
  machine.host->memoryBytes = 2 * 2 * 4 * 150e6;
  EXPECT_EQ(planRun(makeStep(), machine, 8, 0.5, 0).copyGoodput,
            run.copyGoodput);
  machine.host->memoryBytes -= 1;
  EXPECT_EQ(planRun(makeStep(), machine, 8, 0.5, 0).copyGoodput, 0);
  // There is one machine.
  machine.host->memoryBytes = 1e12;
  EXPECT_EQ(planRun(makeStep(), machine, 4, 0.5, 0).copyGoodput, 0);
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

// Cuts of single ops in the field's words.
TEST(Explain, WordsOfCuts) {
  auto words = [](const LayerOp &op, int factor, int variant = -1) {
    return wordsFor(op, makeOption(factor, -1, variant), /*shardsWords=*/false);
  };
  LayerOp up = makeLinear("up", 2048, 512, 1), norm = makeNorm("norm"),
          attention = makeAttention(1), head = makeLinear("h", 32000, 512, 1);
  EXPECT_EQ(words(up, 3), "column-parallel");
  EXPECT_EQ(words(up, 2), "row-parallel");
  EXPECT_EQ(words(up, 1), "sequence-parallel");
  EXPECT_EQ(words(up, 0), "by batch");
  EXPECT_EQ(words(up, -1), "replicated");
  EXPECT_EQ(words(norm, 1), "sequence-parallel");
  EXPECT_EQ(wordsFor(head, makeOption(3), /*shardsWords=*/true),
            "vocabulary-parallel");
  EXPECT_EQ(words(attention, 1), "by heads");
  EXPECT_EQ(words(attention, 3), "context-parallel, keys and values gathered");
  EXPECT_EQ(words(attention, -1, 0),
            "context-parallel, keys and values in a ring");
  EXPECT_EQ(wordsFor(up, makeOption(-1, 0), false), "on partial sums");
  up.factors[3].index = IndexClass::Expert;
  EXPECT_EQ(words(up, 3), "expert-parallel");
}

// Layers tell where their ops lie; weights of equal names get longer ones.
TEST(Explain, LayersInWords) {
  Example example;
  example.step.kinds[1].ops[1].weight = "layers.{i}.attn.c_proj.weight";
  example.step.kinds[1].ops[3].weight = "layers.{i}.mlp.c_proj.weight";
  Explanation e = explain(example.input());
  ASSERT_EQ(e.plan.kinds.size(), 3u);
  EXPECT_TRUE(e.plan.kinds[0].layout.empty());
  std::string text;
  for (const LayoutWords &words : e.plan.kinds[1].layout)
    text += words.axis + ": " + words.words + " " + llvm::join(words.ops, " ") +
            "\n";
  EXPECT_EQ(text, "tensor: sequence-parallel norm\n"
                  "tensor: column-parallel attn.c_proj\n"
                  "tensor: by heads attention\n"
                  "tensor: row-parallel mlp.c_proj\n");
}

// An op that is whole in the forward pass and split in the backward pass says
// so.
TEST(Explain, SplitInTheBackwardPass) {
  Example example;
  example.step.kinds[1].ops[4].factors = {
      {{"n", 512, FactorKind::Parallel}, IndexClass::Other}};
  example.layout.axes[0].ops[0].factor = -1;
  example.layout.axes[0].ops[4].factor = 0;
  Explanation e = explain(example.input());
  EXPECT_EQ(e.plan.kinds[1].layout[0].words,
            "replicated, split in the backward pass");
}

// Where state is stored: levels of ZeRO, whole and in groups.
TEST(Explain, StateInWords) {
  Example example;
  auto state = [&](int64_t dp, int zero, int64_t group) {
    OuterChoice &outer = example.result.best->outer;
    outer.dp = dp;
    outer.zero = zero;
    outer.shardGroup = group;
    return explain(example.input()).plan.state;
  };
  EXPECT_EQ(state(1, 0, 1),
            "weights, gradients and optimizer state in one copy");
  EXPECT_EQ(state(8, 0, 1), "weights, gradients and optimizer state whole on "
                            "each of the 8 data ranks (ZeRO-0)");
  EXPECT_EQ(state(8, 1, 8),
            "ZeRO-1: optimizer state sharded over all 8 data ranks");
  EXPECT_EQ(state(8, 3, 4), "ZeRO-3: weights, gradients and optimizer state "
                            "sharded over 4 of 8 data ranks, in 2 copies");
}

// Stages tell their chunks, and at which points their layers are.
TEST(Explain, StagesInWords) {
  Example example;
  PlacedChunk &first = example.result.best->stages[0].chunks[0];
  first.layers[1].count = 1;
  PlacedLayers layer = first.layers[1];
  layer.point.recomputed = "norms, swiglu";
  std::vector<PlacedChunk> &chunks = example.result.best->stages[0].chunks;
  for (int i = 0; i < 3; ++i)
    chunks.push_back({{layer}});
  StageRow row = explain(example.input()).plan.stages[0];
  EXPECT_EQ(row.layers, "embedding, layer | 3 x [layer]");
  EXPECT_EQ(row.recompute, "1 x norms, 3 x (norms, swiglu)");
}

// Ops of one name that lie differently are counted.
TEST(Explain, OpsOfOneName) {
  Example example;
  LayerKind &kind = example.step.kinds[1];
  for (int i : {0, 3}) {
    kind.ops[i].weight.clear();
    kind.ops[i].name = "rope";
  }
  std::vector<LayoutWords> rows = explain(example.input()).plan.kinds[1].layout;
  EXPECT_EQ(rows[0].ops, std::vector<std::string>{"rope (1 of 2)"});
  EXPECT_EQ(rows[3].ops, std::vector<std::string>{"rope (1 of 2)"});
}

// Ranks of a stage: blocks, wherever the pipeline lies in the order of axes.
TEST(Explain, RanksOfStages) {
  Example example;
  OuterChoice &outer = example.result.best->outer;
  auto ranks = [&] {
    Explanation e = explain(example.input());
    return report::rankWords(e.plan.stages[0].ranks) + " / " +
           report::rankWords(e.plan.stages[1].ranks);
  };
  EXPECT_EQ(ranks(), "0-3 / 4-7");
  outer.order = {MeshAxis::Tensor, MeshAxis::Pipeline, MeshAxis::Data,
                 MeshAxis::Context};
  EXPECT_EQ(ranks(), "0-1, 4-5 (2 of each 4) / 2-3, 6-7 (2 of each 4)");
  outer.order = {MeshAxis::Pipeline, MeshAxis::Tensor, MeshAxis::Data,
                 MeshAxis::Context};
  EXPECT_EQ(ranks(), "0, 2, ... (1 of each 2) / 1, 3, ... (1 of each 2)");
}

// Numbers for people, at the borders of their units.
TEST(Explain, NumbersForPeople) {
  EXPECT_EQ(report::short3(9.996), "10.0");
  EXPECT_EQ(report::short3(0.01234), "0.0123");
  EXPECT_EQ(report::short3(99.96), "100");
  EXPECT_EQ(report::grouped(1234567), "1,234,567");
  EXPECT_EQ(report::grouped(-123456), "-123,456");
  EXPECT_EQ(report::seconds(999.6e-6), "1.00 ms");
  EXPECT_EQ(report::seconds(0.9996), "1.000 s");
  EXPECT_EQ(report::seconds(12.345), "12.35 s");
  EXPECT_EQ(report::duration(36 * 3600), "36.0 h");
  EXPECT_EQ(report::duration(10 * 86400), "10.0 days");
  EXPECT_EQ(report::counted(8.03e9), "8.03 B");
  EXPECT_EQ(report::counted(999.7e6), "1.00 B");
  EXPECT_EQ(report::scaled(989e12, "FLOP/s"), "989 TFLOP/s");
  EXPECT_EQ(report::scaled(12, "B"), "12.0 B");
  EXPECT_EQ(report::gib(80.0 * (1 << 30)), "80.0 GiB");
  EXPECT_EQ(report::gib(3 << 20), "3.0 MiB");
  EXPECT_EQ(report::plural(1, "step"), "1 step");
  EXPECT_EQ(report::plural(2000, "step"), "2,000 steps");
}

//===----------------------------------------------------------------------===//
// Sensitivity
//===----------------------------------------------------------------------===//

/// One rank, four micro-batches of a layer with these milliseconds forward.
PlanPoint planOf(double matmul, double attention, int64_t tp) {
  LayerPoint layer;
  layer.forward = makeParts(matmul, attention, 0, 0);
  PlanPoint plan;
  plan.outer.tp = tp;
  plan.outer.order = {MeshAxis::Tensor, MeshAxis::Data, MeshAxis::Pipeline,
                      MeshAxis::Context};
  plan.outer.microBatches = 4;
  PlacedChunk chunk;
  chunk.layers.push_back({1, 1, layer});
  plan.stages.resize(1);
  plan.stages[0].chunks.push_back(chunk);
  plan.stages[0].memory = makeMemory(tp == 1 ? 20 : 10);
  plan.work.microBatches = 4;
  plan.work.stages.resize(1);
  plan.work.stages[0].chunks.resize(1);
  plan.work.stages[0].chunks[0].forwardSec = 1e-3 * (matmul + attention);
  plan.stepSec = 4e-3 * (matmul + attention);
  return plan;
}

const SensitivityRow *rowOf(const Explanation &explanation,
                            llvm::StringRef name) {
  for (const SensitivityRow &row : explanation.sensitivity.rows)
    if (llvm::StringRef(row.name).starts_with(name))
      return &row;
  return nullptr;
}

// 10 + 4 ms against 13 + 2 ms: the other plan wins where attention takes half
// as long again, at 2/3 of its rate of 0.4. Matmuls would have to vanish.
TEST(Explain, SensitivityByHand) {
  Example example;
  example.result.best = planOf(10, 4, 1);
  example.result.alternatives = {{"tp=2", "slower", planOf(13, 2, 2)}};
  ExplainInput input = example.input();
  EXPECT_TRUE(explain(input).sensitivity.rows.empty());
  input.withSensitivity = true;
  Explanation explanation = explain(input);
  EXPECT_EQ(explanation.sensitivity.plans, 2);
  const SensitivityRow *attention = rowOf(explanation, "attention forward");
  ASSERT_TRUE(attention);
  EXPECT_DOUBLE_EQ(attention->value, 0.4);
  EXPECT_NEAR(attention->from, 0.4 * 2 / 3, 3e-3);
  EXPECT_EQ(attention->below, shortLayout(planOf(13, 2, 2).outer));
  EXPECT_DOUBLE_EQ(attention->to, 0.8);
  EXPECT_EQ(attention->above, "");
  const SensitivityRow *matmul = rowOf(explanation, "matmuls");
  ASSERT_TRUE(matmul);
  EXPECT_DOUBLE_EQ(matmul->from, 0.4);
  EXPECT_EQ(matmul->below + matmul->above, "");
  // 62 of 80 GiB are taken, by the other plan 52.
  const SensitivityRow *free = rowOf(explanation, "memory kept free");
  ASSERT_TRUE(free);
  EXPECT_NEAR(free->to, 18. / 80, 1e-9);
  EXPECT_EQ(free->above, shortLayout(planOf(13, 2, 2).outer));
}

// A challenger's times are those under the moved figure: attention at half of
// its rate takes 4 ms, so 2 as it is.
TEST(Explain, ChallengersAreScaledBack) {
  Example example;
  example.result.best = planOf(10, 4, 1);
  ExplainInput input = example.input();
  input.withSensitivity = input.searchesSensitivity = true;
  Assumption figure{Assumed::AttentionForward, "attention", 0.4, ""};
  input.challengers = {{figure, 0.2, planOf(13, 4, 2)}};
  Explanation explanation = explain(input);
  EXPECT_TRUE(explanation.sensitivity.isSearched);
  const SensitivityRow *attention = rowOf(explanation, "attention forward");
  ASSERT_TRUE(attention);
  EXPECT_NEAR(attention->from, 0.4 * 2 / 3, 3e-3);
}

// The line on the plan that leaves more free, in its three forms.
TEST(Explain, RoomyPlan) {
  Example example;
  ExplainInput input = example.input();
  EXPECT_EQ(report::printRoomy(explain(input).roomy, 1), "");
  input.roomyHeadroom = 0.05;
  EXPECT_EQ(report::printRoomy(explain(input).roomy, 1),
            "\n  with 5 % of the memory free: no plan found\n");
  example.result.roomy = example.result.best;
  EXPECT_EQ(report::printRoomy(explain(input).roomy, 1),
            "\n  with 5 % of the memory free: this plan\n");
  example.result.roomy = planOf(13, 2, 2);
  EXPECT_EQ(
      report::printRoomy(explain(input).roomy, 0.05),
      "\n  with 5 % of the memory free: 60.0 ms (+20.0 %), tp 2 | 4 x 1\n");
}

} // namespace
