//===- ReportTest.cpp - the screen, its JSON, and two plans beside --------===//

#include "ExplainTesting.h"

#include "kerf/Report/Report.h"
#include "kerf/Support/Json.h"

#include "llvm/ADT/StringExtras.h"

#include "gtest/gtest.h"

using namespace kerf;
using namespace kerf::test;

namespace {

/// The example with everything that a screen can have.
Explanation explainAll() {
  static Example example;
  example.machine.tiers[1].size = 3;
  example.machine.price = Price{2.5, "USD", 0.4, 1.2};
  example.machine.reliability = Reliability{50000 * 3600.0, 180, 2e9};
  // 8 ms more per micro-batch and stage: 32 ms a step, and 8 ms of bubble.
  PlanPoint slower = makePlan();
  slower.outer.tp = 4;
  slower.outer.dp = 1;
  for (size_t i : {0, 1}) {
    slower.work.stages[i].chunks[0].backwardSec += 8e-3;
    for (PlacedLayers &layers : slower.stages[i].chunks[0].layers)
      if (layers.kind == 1)
        layers.point.recompute.matmulSec = 4e-3;
  }
  example.result.alternatives = {{"pp=1", "needs 91.2 GiB on stage 0", {}},
                                 {"tp=4", "8.3 % slower", slower}};
  ExplainInput input = example.input();
  input.excluded = {{"zero=3", "the cpu target cannot gather weights yet"}};
  return explain(input);
}

void expectNarrow(const std::string &text) {
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n');
  for (llvm::StringRef line : lines) {
    EXPECT_LE(line.size(), 110u) << line.str();
    EXPECT_EQ(line, line.rtrim()) << "trailing spaces";
  }
}

json::Value parsed(const std::string &text) {
  auto value = json::parse(text, [](json::Position, const llvm::Twine &what) {
    ADD_FAILURE() << what.str();
  });
  return succeeded(value) ? *value : json::Value();
}

// Copies have a line where they gain something.
TEST(Report, Copies) {
  Example example;
  example.machine.reliability = Reliability{1e8, 180, 1e5};
  std::string text = printText(explain(example.input()));
  EXPECT_NE(text.find("\n  copies    with --peer-copies=1 every "),
            std::string::npos)
      << text;
  example.machine.reliability->checkpointBytesPerSec = 2e9;
  EXPECT_EQ(printText(explain(example.input())).find("  copies "),
            std::string::npos);
}

// The whole screen of the hand-made plan.
TEST(Report, Screen) {
  EXPECT_EQ(printText(explainAll()),
            R"(toy on two-boxes: 12 x toy-80g, bf16
100 M parameters; a step has 8 sequences of 1,024 tokens, 8,192 together

  step 484 ms (387 ms to 581 ms)   16.9 k tokens/s   MFU 7.2 %   memory 62.0 GiB of 80.0 GiB on stage 0

PLAN  tp 2 dp 2 pp 2 | 4 x 1 | 1f1b | zero 1

  4 micro-batches of 1 sequence per data rank, schedule 1f1b
  ZeRO-1: optimizer state sharded over all 2 data ranks
  4 devices of 12 without work (spares)

  axis      size  stride  over    carries
  tensor       2       1  nvlink  activations inside layers
  data         2       2  nvlink  gradients
  pipeline     2       4  leaf    activations between stages

  stage  ranks  layers                recomputed in the backward pass
  0      0-3    embedding, 2 x layer  norms
  1      4-7    2 x layer, head       norms

  layer (x 4)  tensor  sequence-parallel  norm
                       column-parallel    q_proj
                       by heads           attention
                       row-parallel       down_proj

MEMORY  GiB on each stage's most loaded rank, of 80.0 GiB

  stage  weights  masters  gradients  optimizer  activations  temporary  buffers  reserved  total  headroom
  0          4.0      8.0        8.0       16.0         20.0        2.0      1.0       3.0   62.0      18.0
  1          4.0      8.0        8.0       16.0         12.0        2.0      1.0       3.0   54.0      26.0

TIME  one step, mean over stages

  compute                  351 ms   72.5 %
    matmul                 248 ms   51.3 %  #####################
    attention             56.0 ms   11.6 %  #####
    memory-bound kernels  36.0 ms    7.4 %  ###
    launch gaps           4.00 ms    0.8 %
    recomputation         4.00 ms    0.8 %
    optimizer             3.00 ms    0.6 %
  communication, exposed  39.0 ms    8.1 %
    tensor, nvlink        28.0 ms    5.8 %  ##                     28.0 ms on the links, none hidden
    data, nvlink          7.00 ms    1.5 %  #                      14.0 ms on the links, 7.00 ms hidden
    pipeline, leaf        4.00 ms    0.8 %                         4.00 ms on the links, none hidden
  coordination            94.0 ms   19.4 %
    pipeline bubble       94.0 ms   19.4 %  ########
  one step                 484 ms  100.0 %

  MFU 7.2 %                   28.0 TFLOP / (484 ms x 800 TFLOP/s), the peak of all ranks in bf16
  HFU 7.2 %                   no matmuls are recomputed
  of an ideal step 9.0 %      against ranks that reach the device's best rate of matmuls and never wait
  computing 72.5 %            of the time; at most 0.983 bytes sent per 1,000 flops
  binding                     compute (matmuls and attention); were it free, a step would take 106 ms
  next                        memory bandwidth; without both, 52.0 ms
  closed form 484 ms          as long as the step

ALTERNATIVES  the fastest plan found with another value of a choice

  tp=4  524 ms  +8.3 %  tp 4 pp 2 | 4 x 1 | 1f1b | zero 1: +32.0 ms recomputation, +8.00 ms bubble

  pp=1  needs 91.2 GiB on stage 0

RUN

  tokens    2.00 B, 20.0 per parameter (compute-optimal: about 20), 244,141 steps
  time      32.8 h (26.3 h to 39.4 h) at 16.9 k tokens/s; 394 device-hours
  energy    236 kWh at 8.03 GFLOP/J; 94.5 kg CO2
  price     985 (788 to 1,182) USD, at 2.50 a device-hour (the cluster's price)
  failures  one in 174 days; 1.20 GB written in 50.0 ms (bound by writers) every 6.35 min, goodput 100.00 %

TRUST

  error         projection: Kerf was not measured on such devices; the step may be off by about 20 % (assumed:
                none of the published steps was on such a device)
  assumed       matmuls, of peak: 80 % (cluster file)
                attention forward, of peak: 40 % (cluster file)
                attention backward, of peak: 34 % (cluster file)
                memory, of bandwidth: 80 % (cluster file)
                links, of bandwidth: 80 % (cluster file)
                hidden, inside layers: 0 % (assumed for runtime 'kerf')
                hidden, of gradients: 50 % (assumed for runtime 'kerf')
                hidden, of weights: 50 % (assumed for runtime 'kerf')
                memory kept free: 0 % (cluster file)
                runtime 'kerf'; matmuls of all shapes reach the same rate
                experts evenly loaded; every sequence full
  not modelled  stragglers and jitter, other jobs on the network, thermal throttling, input pipeline,
                fragmentation of memory
  search        1.20 M outer choices in 300 candidates; 120 pruned by memory, 60 by bound, 20 not legal; 4,000
                layouts evaluated, 25 layer tables solved, 7 only bounded
                proven: on the timeline this plan takes 484 ms, and no other of the space takes less
                the model: the timeline
  not searched  zero=3: the cpu target cannot gather weights yet
  programs      none are made for 'toy-80g'; --emit=plan writes this plan, --emit=verify tries it on virtual
                ranks, and --plan compiles it for CPUs (--target=cpu) or other GPUs (--gpu=sm_80, sm_86,
                sm_89, sm_90, sm_100, sm_103 or sm_120)
)");
}

// More room that costs next to nothing is no doubt about the plan.
TEST(Report, CheapRoomIsNoDoubt) {
  Explanation e = explainAll();
  e.sensitivity.rows = {
      {"memory kept free", 0.03, 0, 0.031, "", "tp 8", /*isChoice=*/true}};
  e.roomy = {0.05, e.time.stepSec * 1.005, "tp 8", false};
  EXPECT_EQ(printShort(e).find("kept free"), std::string::npos);
  e.roomy.stepSec = e.time.stepSec * 1.05;
  EXPECT_NE(printShort(e).find("kept free"), std::string::npos);
}

/// A text as one line.
std::string flat(const std::string &text) {
  std::string line;
  for (char c : text)
    if (c != ' ' && c != '\n')
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  return line;
}

// Sixteen interleaved stages with long layouts stay within 110 columns, and
// equal stages share a line of the memory table.
TEST(Report, WideScreen) {
  Explanation e = explainAll();
  e.plan.stages.assign(16, e.plan.stages[0]);
  for (StageRow &row : e.plan.stages) {
    row.ranks = {0, 128, 2048, 8};
    row.layers = "2 x layer | 2 x layer | 2 x layer | 2 x layer";
    row.recompute = "3 x norms, swiglu and everything else, 5 x nothing";
  }
  e.plan.kinds[1].layout[0].ops.assign(20, "input_layernorm");
  e.memory.stages.assign(16, makeMemory(20));
  e.plan.stages[5].recompute = "nothing";
  e.memory.stages[3] = makeMemory(19);
  e.trust.certificate.leftOut = 12;
  e.trust.certificate.complete = false;
  e.trust.certificate.boundSec = 0.44;
  std::string text = printText(e);
  expectNarrow(text);
  EXPECT_NE(text.find("\n  0-2 "), std::string::npos);
  EXPECT_NE(text.find("\n  4-15 "), std::string::npos);
  EXPECT_NE(text.find("\n  6-15   0-1279, 2048-3327, "), std::string::npos);
  EXPECT_NE(flat(text).find("; 12 left"), std::string::npos);
  EXPECT_NE(text.find("9.1 % could"), std::string::npos);
}

// Of many alternatives, the fastest with every key are shown, equal plans in
// one row; those that were not evaluated share a row per key.
TEST(Report, ManyAlternatives) {
  std::vector<AlternativeRow> rows;
  for (int i = 1; i <= 20; ++i)
    rows.push_back({"v=" + std::to_string(i), "+1 s bubble", 1.0 + i,
                    "layout " + std::to_string(i)});
  rows.push_back({"pp=2", "+1 s bubble", 2.0, "layout 1"});
  rows.push_back({"zero=3", "+9 s traffic", 99, "last"});
  for (int i : {4, 8, 16, 32, 64, 128})
    rows.push_back({"tp=" + std::to_string(i),
                    "open: 5.0 % faster at most (lower bound " +
                        std::to_string(i) + " s); --prove looks further",
                    0, "", double(i)});
  for (int i : {3, 4, 5, 6, 8})
    rows.push_back({"pp=" + std::to_string(i),
                    "at least " + std::to_string(i) +
                        " % slower: lower bound 2 s of compute",
                    0, "", 2 + double(i)});
  rows.push_back({"cp=2", "no faster: lower bound 1 s of compute", 0, "", 1});
  rows.push_back({"tp=3", "not legal: 3 does not divide 8", 0, ""});
  std::string text = report::printAlternatives(rows, 1, false);
  expectNarrow(text);
  llvm::StringRef shown = text;
  EXPECT_TRUE(shown.contains("  v=1, pp=2 "));
  EXPECT_TRUE(shown.contains("  v=3 "));
  EXPECT_FALSE(shown.contains("  v=4 "));
  EXPECT_TRUE(shown.contains("  zero=3 "));
  EXPECT_TRUE(
      shown.contains("  tp=4,8,16,32,64,128  open: 5.0 % faster at most "
                     "(lower bound 4 s); --prove looks further\n"));
  EXPECT_TRUE(shown.contains("  pp=3-6,8             each at least 3 % slower: "
                             "lower bound 2 s of compute\n"));
  EXPECT_TRUE(
      shown.contains("  cp=2                 no faster: lower bound 1 s "
                     "of compute\n"));
  EXPECT_TRUE(shown.contains("  tp=3                 not legal"));
}

// Headings are bold on a terminal, and the rest is the same.
TEST(Report, Color) {
  std::string plain = printText(explainAll()),
              color = printText(explainAll(), true);
  EXPECT_EQ(llvm::StringRef(plain).count('\033'), 0u);
  EXPECT_NE(color.find("\033[1mMEMORY\033[0m"), std::string::npos);
  std::string stripped;
  for (llvm::StringRef rest = color; !rest.empty();) {
    if (!rest.consume_front("\033[1m") && !rest.consume_front("\033[0m")) {
      stripped += rest.front();
      rest = rest.drop_front();
    }
  }
  EXPECT_EQ(stripped, plain);
}

// When nothing fits, the screen is an error with notes.
TEST(Report, Refusal) {
  Example example;
  example.result.best.reset();
  example.result.infeasible.reasons = {
      "stage 0 needs 93.1 GiB per device, 'toy-80g' has 80.0 GiB",
      "largest part is activations (41.2 GiB)"};
  example.result.infeasible.reliefs = {
      "recompute all saves 18.4 GiB for 3.1 % time", "16 devices"};
  Explanation e = explain(example.input());
  EXPECT_FALSE(e.feasible);
  EXPECT_EQ(printText(e),
            "error: no plan of 'toy' fits 8 devices of 'two-boxes': stage 0 "
            "needs 93.1 GiB per device, 'toy-80g' has 80.0 GiB\n"
            "note: largest part is activations (41.2 GiB)\n"
            "note: cheapest relief: recompute all saves 18.4 GiB for 3.1 % "
            "time\n"
            "note: or: 16 devices\n");
  json::Value value = parsed(printJson(e));
  EXPECT_FALSE(value.find("feasible")->boolean);
  EXPECT_EQ(value.find("reasons")->array.size(), 2u);
  EXPECT_EQ(value.find("plan"), nullptr);
}

// JSON has the numbers of the explanation, and its times add up.
TEST(Report, Json) {
  Explanation e = explainAll();
  json::Value value = parsed(printJson(e));
  EXPECT_EQ(value.find("version")->integer, 2);
  const json::Value *time = value.find("time");
  double sum = 0;
  for (const char *group : {"compute_sec", "coordination_sec"})
    for (const json::Member &member : time->find(group)->object)
      sum += member.value.number;
  for (const json::Value &row : time->find("communication")->array) {
    sum += row.find("exposed_sec")->number;
    EXPECT_NEAR(row.find("total_sec")->number,
                row.find("hidden_sec")->number +
                    row.find("exposed_sec")->number,
                1e-12);
  }
  EXPECT_NEAR(time->find("step_sec")->number, sum, 1e-12);
  EXPECT_DOUBLE_EQ(time->find("step_sec")->number, e.time.stepSec);
  const json::Value *plan = value.find("plan");
  EXPECT_EQ(plan->find("devices")->integer, 12);
  EXPECT_EQ(plan->find("choice")->find("tp")->integer, 2);
  const auto &stages = value.find("memory")->find("stages_bytes")->array;
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].find("total")->integer, int64_t(62) << 30);
  EXPECT_EQ(stages[1].find("headroom")->integer, int64_t(26) << 30);
  EXPECT_EQ(value.find("alternatives")->array.size(), 2u);
  EXPECT_EQ(value.find("run")->find("currency")->string, "USD");
}

// A plan and itself: no decision differs, no quantity has a delta.
TEST(Report, DifferenceOfEqualPlans) {
  Explanation e = explainAll();
  PlanDifference same = difference(e, e);
  EXPECT_TRUE(same.decisions.empty());
  for (const auto *rows : {&same.time, &same.memory, &same.rates})
    for (const QuantityRow &row : *rows)
      EXPECT_EQ(row.a, row.b) << row.what;
  std::string text = printText(same, "a", "b");
  EXPECT_NE(text.find("the same decisions"), std::string::npos);
  EXPECT_EQ(text.find("+"), std::string::npos);
}

// What differs, with its deltas: the parts of the time add to that of the step.
TEST(Report, DifferenceOfTwoPlans) {
  Explanation a = explainAll();
  Example other;
  PlanPoint &plan = *other.result.best;
  plan.outer.microBatches = 8;
  plan.outer.zero = 0;
  plan.work.microBatches = 8;
  plan.stages[0].memory.activations /= 2;
  Explanation b = explain(other.input());
  PlanDifference result = difference(a, b);
  std::string decisions;
  for (const DecisionRow &row : result.decisions)
    decisions += row.what + ": " + row.a + " -> " + row.b + "\n";
  EXPECT_EQ(decisions,
            "devices: 12 -> 8\n"
            "micro-batches: 4 -> 8\n"
            "state: ZeRO-1: optimizer state sharded over all 2 data ranks -> "
            "weights, gradients and optimizer state whole on each of the 2 "
            "data ranks (ZeRO-0)\n");
  double parts = 0;
  for (size_t i = 1; i < result.time.size(); ++i)
    parts += result.time[i].b - result.time[i].a;
  EXPECT_NEAR(parts, result.time[0].b - result.time[0].a, 1e-9);
  // Of B the other stage is the tightest.
  EXPECT_NEAR(result.memory[0].b - result.memory[0].a, -8.0 * (1 << 30), 1);
  std::string text = printText(result, "a.json", "b.json");
  expectNarrow(text);
  EXPECT_NE(text.find("activations  20.0 GiB  12.0 GiB  -8.0 GiB  -40.0 %"),
            std::string::npos)
      << text;
  EXPECT_EQ(parsed(printJson(result)).find("decisions")->array.size(), 3u);
}

} // namespace

// What is said of other layouts is what the certificate says, no more.
TEST(Report, OptimumIsNotOverstated) {
  Certificate c;
  c.space = 100;
  c.bestSec = 2;
  c.boundSec = 1;
  std::string open = report::optimumWords(c);
  EXPECT_NE(open.find("1.000 s: at most 50.0 % could be won"),
            std::string::npos)
      << open;
  c.allLayouts = false;
  EXPECT_NE(report::optimumWords(c).find("not strict"), std::string::npos);
  c.allLayouts = true;
  c.isMixed = true;
  EXPECT_NE(report::optimumWords(c).find("not strict"), std::string::npos);
  c.boundSec = 0;
  EXPECT_NE(report::optimumWords(c).find("not known"), std::string::npos);
  c.isMixed = false;
  c.complete = true;
  EXPECT_EQ(report::optimumWords(c).rfind("proven", 0), 0u);
  c.space = 1;
  EXPECT_EQ(report::optimumWords(c).find("proven"), std::string::npos);
}
