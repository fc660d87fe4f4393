//===- LayoutsTest.cpp - what rows say about how they ran -----------------===//

#include "../Layouts.h"
#include "../Machines.h"
#include "../Predict.h"
#include "../RuntimeCosts.h"

#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::validate;

static Row rowOn(int64_t devices, int64_t tp, int64_t pp, int64_t dp) {
  Row row;
  row.devices = devices;
  row.tp = tp;
  row.pp = pp;
  row.dp = dp;
  row.heads = 64;
  row.layers = 70;
  row.hidden = 1;
  row.microBatch = 2;
  row.globalBatch = 2048;
  row.recompute = "full";
  row.status = "ok";
  row.phase = "pretrain";
  return row;
}

// BLOOM's 70 layers, embedding and head on 12 stages: 72 / 12 = 6 each, so the
// first and the last stage have 5 layers.
TEST(LayoutsTest, endsCountAsLayers) {
  Row row = rowOn(384, 4, 12, 8);
  row.notes = "embedding counted as a layer in PP partition";
  EXPECT_EQ(stageLayersOf(row),
            (std::vector<int64_t>{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5}));
}

// Without a rule the first stages take what is left over; no pipeline, no
// split.
TEST(LayoutsTest, evenStages) {
  Row row = rowOn(384, 4, 12, 8);
  std::vector<int64_t> layers = stageLayersOf(row);
  EXPECT_EQ(layers.front(), 6);
  EXPECT_EQ(layers[9], 6);
  EXPECT_EQ(layers[10], 5);
  EXPECT_TRUE(stageLayersOf(rowOn(8, 8, 1, 1)).empty());
}

// nanotron: 4 layers of cost 4 (h 1, no MLP) and a head of 8 (vocabulary 8) are
// 24; each of 2 stages has 12, so the first one takes three layers.
TEST(LayoutsTest, stagesBalancedByCost) {
  Row row = rowOn(2, 1, 2, 1);
  row.source = "nanotron";
  row.layers = 4;
  row.ffn = 0;
  row.vocab = 8;
  EXPECT_EQ(stageLayersOf(row), (std::vector<int64_t>{3, 1}));
}

// Everything outside layers is pinned, state over all data ranks.
TEST(LayoutsTest, pins) {
  Row row = rowOn(384, 4, 12, 8);
  row.zero = 1;
  std::string why;
  std::optional<Pins> pins = pinsOf(row, why);
  ASSERT_TRUE(pins.has_value()) << why;
  EXPECT_EQ(pins->microBatches, std::vector<int64_t>{128});
  EXPECT_EQ(pins->zero, std::vector<int64_t>{1});
  EXPECT_EQ(pins->shardGroup, std::vector<int64_t>{8});
  EXPECT_EQ(pins->chunks, std::vector<int64_t>{1});
}

static std::string whyNot(const Row &row) {
  std::string why;
  EXPECT_FALSE(pinsOf(row, why).has_value());
  return why;
}

// Rows that say too little or contradict themselves are left out with a reason.
TEST(LayoutsTest, rowsWithoutPins) {
  EXPECT_EQ(whyNot(rowOn(384, 4, 12, 9)),
            "degrees do not multiply to the devices");
  Row row = rowOn(384, 4, 12, 8);
  row.globalBatch = 2047;
  EXPECT_EQ(whyNot(row), "the batch does not divide into micro-batches");
  row.globalBatch.reset();
  EXPECT_EQ(whyNot(row), "batch or micro-batch not stated");
  row = rowOn(384, 4, 12, 8);
  row.recompute = "";
  EXPECT_EQ(whyNot(row), "recomputation not stated");
  row = rowOn(96 * 12, 96, 12, 1);
  EXPECT_EQ(whyNot(row), "the tensor axis does not divide the heads");
}

/// A matmul with factors b (batch), s (sequence), n and k.
static LayerOp matmulOf(const char *weight) {
  LayerOp op;
  op.name = "linear";
  op.weight = weight;
  op.work.matmulFlops = 1;
  for (auto [name, kind, index] :
       {std::tuple("b", FactorKind::Parallel, IndexClass::Batch),
        std::tuple("s", FactorKind::Parallel, IndexClass::Sequence),
        std::tuple("n", FactorKind::Parallel, IndexClass::Other),
        std::tuple("k", FactorKind::Sum, IndexClass::Other)})
    op.factors.push_back({{name, 8, kind}, index});
  return op;
}

/// Names of the factors by which a filter lets the tensor axis cut an op; "-"
/// for none.
static std::string allowedCuts(const OptionFilter &filter, const LayerOp &op) {
  std::string names;
  for (int factor = -1; factor < static_cast<int>(op.factors.size());
       ++factor) {
    OpOption option;
    option.factor = factor;
    if (filter(op, InnerAxis::Tensor, option))
      names += factor < 0 ? "-" : op.factors[factor].factor.name;
  }
  return names;
}

// Columns before, rows after; norms whole, or by the sequence.
TEST(LayoutsTest, megatronsCuts) {
  OptionFilter plain = megatronFilter(false), parallel = megatronFilter(true);
  LayerOp up = matmulOf("model.layers.{i}.mlp.up_proj.weight");
  LayerOp down = matmulOf("transformer.h.{i}.mlp.c_proj.weight");
  EXPECT_EQ(allowedCuts(plain, up), "n");
  EXPECT_EQ(allowedCuts(parallel, up), "n");
  EXPECT_EQ(allowedCuts(plain, down), "k");
  LayerOp norm = matmulOf("model.norm.weight");
  norm.name = "rms_norm";
  norm.work.matmulFlops = 0;
  EXPECT_EQ(allowedCuts(plain, norm), "-");
  EXPECT_EQ(allowedCuts(parallel, norm), "s");
}

// Words of a device's name decide, so H20 is not H200 and 40 is not 400.
TEST(MachinesTest, deviceNames) {
  auto nameOf = [](const char *device) {
    Row row;
    row.device = device;
    return deviceName(row);
  };
  EXPECT_EQ(nameOf("NVIDIA A100-SXM4-40GB"), "a100 40");
  EXPECT_EQ(nameOf("A100-80GB SXM"), "a100");
  EXPECT_EQ(nameOf("H100-96GB HBM2e 500W (Grand Teton)"), "h100 96");
  EXPECT_EQ(nameOf("H200-141GB SXM"), "h200");
  EXPECT_EQ(nameOf("H20"), "h20");
  EXPECT_EQ(nameOf("GB200 (NVL72)"), "gb200");
  EXPECT_EQ(nameOf("Z1"), "");
}

// The runtime is the one that the source names; else state and attention
// decide.
TEST(PredictTest, runtimes) {
  Row row;
  row.source = "BigScience BLOOM (github)";
  EXPECT_EQ(sourceName(row), "BigScience BLOOM");
  EXPECT_EQ(runtimeOf(row), "megatron-deepspeed");
  row.source = "Somebody";
  row.zero = 3;
  EXPECT_EQ(runtimeOf(row), "fsdp");
  row.zero = 1;
  row.flash = false;
  EXPECT_EQ(runtimeOf(row), "megatron");
}

// Fine-tuning is another workload; a pipeline on EFA is known for its slow
// mode.
TEST(PredictTest, anomalies) {
  Row row = rowOn(16, 1, 2, 8);
  EXPECT_EQ(anomalyOf(row), "");
  row.source = "nanotron";
  EXPECT_EQ(anomalyOf(row), "pipeline across EFA nodes (slow mode)");
  row.phase = "lora";
  EXPECT_EQ(anomalyOf(row), "phase 'lora'");
}

// A tensor axis adds the launches of its collectives; nanotron's matmuls on it
// take twice the launches of whole ones.
TEST(PredictTest, launchesOfATensorAxis) {
  Profile base;
  base.leastForwardSec = 1e-3;
  base.leastBackwardSec = 2e-3;
  Row whole = rowOn(8, 1, 1, 8), cut = rowOn(8, 2, 1, 4);
  EXPECT_EQ(profileOf(whole, base).leastForwardSec, 1e-3);
  EXPECT_DOUBLE_EQ(profileOf(cut, base).leastForwardSec, 1.104e-3);
  EXPECT_DOUBLE_EQ(profileOf(cut, base).leastBackwardSec, 2.104e-3);
  base.name = "nanotron";
  EXPECT_EQ(profileOf(whole, base).leastForwardSec, 0.5e-3);
  EXPECT_EQ(profileOf(cut, base).leastForwardSec, 1e-3);
}

// "Selective" means another thing in each runtime.
TEST(RuntimeCostsTest, whatIsMadeAgain) {
  Row row;
  row.recompute = "none";
  EXPECT_EQ(againOf(row), Again::Nothing);
  row.recompute = "full";
  EXPECT_EQ(againOf(row), Again::All);
  row.recompute = "selective";
  EXPECT_EQ(againOf(row), Again::Attention);
  row.notes = "AC \"selective op\" (torchtitan policies)";
  EXPECT_EQ(againOf(row), Again::EveryOther);
  row.notes = "AC \"selective layer\" (torchtitan policies)";
  EXPECT_EQ(againOf(row), Again::HalfLayers);
}
