//===- LogTest.cpp - schedule, log lines, plot, options -------------------===//

#include "RunTesting.h"

#include "kerf/Train/Json.h"
#include "kerf/Train/Log.h"
#include "kerf/Train/Options.h"
#include "kerf/Train/RunPage.h"
#include "kerf/Train/Schedule.h"
#include "kerf/Train/Text.h"

#include <cmath>
#include <regex>

using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

TEST(ScheduleTest, WarmsUpAndDecays) {
  Schedule schedule{Decay::Cosine, 1.0, 0.1, 10, 110, 0.2};
  EXPECT_DOUBLE_EQ(schedule.at(1), 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(10), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(60), 0.55);
  EXPECT_DOUBLE_EQ(schedule.at(110), 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(1000), 0.1);
  schedule.decay = Decay::Linear;
  EXPECT_DOUBLE_EQ(schedule.at(35), 0.1 + 0.9 * 0.75);
  schedule.decay = Decay::Constant;
  EXPECT_DOUBLE_EQ(schedule.at(5), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(1000), 1.0);
  schedule.decay = Decay::Wsd;
  EXPECT_DOUBLE_EQ(schedule.at(88), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(99), 0.55);
  EXPECT_DOUBLE_EQ(schedule.at(110), 0.1);
}

TEST(ScheduleTest, HasNoSpecialCases) {
  // No warm-up; decay that ends before the warm-up does.
  EXPECT_GT((Schedule{Decay::Cosine, 1.0, 0.0, 0, 100, 0.2}).at(1), 0.99);
  EXPECT_DOUBLE_EQ((Schedule{Decay::Linear, 1.0, 0.5, 10, 5, 0.2}).at(11), 0.5);
}

//===----------------------------------------------------------------------===//
// Log
//===----------------------------------------------------------------------===//

static StepRecord exampleStep() {
  StepRecord record;
  record.step = 12;
  record.steps = 200;
  record.consumedSamples = 96;
  record.elapsedMs = 123.44;
  record.tokensPerSecond = 16591.2;
  record.tflops = 0.51234;
  record.learningRate = 3e-4;
  record.loss = 5.25;
  record.gradNorm = 1.5;
  record.peakMemoryMb = 812.3;
  return record;
}

TEST(LogTest, HasTheFieldsThatPeopleParse) {
  StepRecord record = exampleStep();
  EXPECT_EQ(formatStep(record),
            " iteration       12/     200 | consumed samples:           96"
            " | loss: 5.250000E+00 | grad norm: 1.500 |\n"
            "     elapsed time per iteration (ms): 123.4 | tokens/s/device: "
            "16591.2 | "
            "TFLOP/s/device: 0.5123 |\n"
            "     learning rate: 3.000000E-04 | peak memory (MB): 812.3 |");
  record.mfu = 0.421;
  EXPECT_HAS(formatStep(record), " | MFU: 42.1% |");
  record.loss = NAN;
  record.gradNorm = -NAN;
  EXPECT_HAS(formatStep(record), " | loss: nan | grad norm: nan |\n");
  record.loss = -INFINITY;
  EXPECT_HAS(formatStep(record), " | loss: -inf | ");
  record.gradNorm.reset();
  EXPECT_EQ(formatStep(record).find("grad norm"), std::string::npos);
}

TEST(LogTest, JsonIsExact) {
  StepRecord record = exampleStep();
  record.loss = 1.0 / 3.0;
  JsonValue value;
  std::string error;
  ASSERT_TRUE(parseJson(formatStepJson(record), value, error)) << error;
  EXPECT_EQ(value.find("loss")->number, 1.0 / 3.0);
  EXPECT_EQ(value.find("iteration")->integer, 12);
  EXPECT_EQ(value.find("grad_norm")->number, 1.5);
  EXPECT_EQ(value.find("mfu"), nullptr);
  record.loss = NAN;
  ASSERT_TRUE(parseJson(formatStepJson(record), value, error)) << error;
  EXPECT_EQ(value.find("loss")->kind, JsonValue::Null);
  ASSERT_TRUE(parseJson(formatHeldoutJson({50, 200, 64, 2.5}), value, error));
  EXPECT_EQ(value.find("heldout_loss")->number, 2.5);
}

// Two layers of four experts; the first one's first expert is chosen by all,
// and half of that is dropped.
TEST(LogTest, TellsHowEvenlyExpertsAreLoaded) {
  ExpertLoad even = measureLoad("even", {2, 2, 2, 2}, {});
  EXPECT_EQ(even.most, 1);
  EXPECT_EQ(even.least, 1);
  EXPECT_FALSE(even.dropped);
  ExpertLoad odd = measureLoad("odd", {8, 0, 0, 0}, {4, 0, 0, 0});
  EXPECT_EQ(odd.most, 4);
  EXPECT_EQ(odd.least, 0);
  EXPECT_EQ(odd.dropped, 0.5);
  ExpertLoad none = measureLoad("none", {0, 0}, {0, 0});
  EXPECT_EQ(none.most, 0);
  EXPECT_EQ(none.dropped, 0);

  StepRecord record = exampleStep();
  ExpertLoad all = odd;
  all.dropped = 0.25;
  record.experts = ExpertRecord{{odd, even}, all};
  EXPECT_HAS(formatStep(record),
             " | expert load (max/mean): 4.00 | dropped rows: 25.00% |");
  JsonValue value;
  std::string error;
  ASSERT_TRUE(parseJson(formatStepJson(record), value, error)) << error;
  const JsonValue *load = value.find("expert_load");
  ASSERT_TRUE(load);
  EXPECT_EQ(load->find("max")->number, 4);
  EXPECT_EQ(load->find("dropped")->number, 0.25);
  ASSERT_EQ(load->find("layers")->array.size(), 2u);
  EXPECT_EQ(load->find("layers")->array[1].find("layer")->string, "even");
  EXPECT_EQ(load->find("layers")->array[1].find("dropped"), nullptr);
  std::vector<Scalar> scalars = stepScalars(record);
  auto has = [&](const char *tag, double number) {
    return std::any_of(scalars.begin(), scalars.end(), [&](const Scalar &s) {
      return std::string(s.tag) == tag && s.value == number;
    });
  };
  EXPECT_TRUE(has("train/expert_load_max", 4));
  EXPECT_TRUE(has("train/expert_load_min", 0));
  EXPECT_TRUE(has("train/dropped_rows", 0.25));
}

// Of three ranks the second is waited for; a run of one rank has no such field
// in its line.
TEST(LogTest, TellsWhoWaits) {
  StepRecord record = exampleStep();
  record.waits = summarizeWaits(
      {{0.001, 0.040, 0.003}, {0.002, 0.010, 0.001}, {0, 0.025, 0.002}});
  EXPECT_EQ(formatStep(record).find("wait"), std::string::npos);
  record.ranks = 3;
  EXPECT_HAS(
      formatStep(record),
      " data wait (ms): 0.0-2.0 | exposed communication (ms): "
      "10.0-40.0 |\n     barrier wait (ms): 1.0-3.0 | slowest rank: 1 | ");
  JsonValue value;
  std::string error;
  ASSERT_TRUE(parseJson(formatStepJson(record), value, error)) << error;
  EXPECT_EQ(value.find("slowest_rank")->integer, 1);
  const JsonValue &waits = *value.find("exposed_communication_ms");
  ASSERT_EQ(waits.array.size(), 2u);
  EXPECT_DOUBLE_EQ(waits.array[0].number, 10);
  EXPECT_DOUBLE_EQ(waits.array[1].number, 40);
}

TEST(LogTest, TellsProgress) {
  EXPECT_EQ(formatProgress(5, 10, 2.5, 65, 10),
            "[#####-----] 5/10  loss 2.5000  01:05 left");
  EXPECT_HAS(formatProgress(10, 10, 2.5, 3700, 4), "[####] 10/10");
  EXPECT_EQ(formatDuration(3700), "1:01:40");
}

//===----------------------------------------------------------------------===//
// Plot
//===----------------------------------------------------------------------===//

TEST(PlotTest, TicksAreRound) {
  EXPECT_EQ(niceTicks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(niceTicks(101, 299, 4), (std::vector<double>{150, 200, 250}));
  EXPECT_EQ(niceTicks(3, 3, 4).size(), 1u);
}

/// Checks that elements nest and close; returns the number of elements.
static size_t countElements(const std::string &xml) {
  std::regex tag(
      "<(/?)([a-z]+)((?:\\s+[a-zA-Z0-9:-]+=\"[^\"<>]*\")*)\\s*(/?)>");
  std::vector<std::string> open;
  size_t count = 0, end = 0;
  for (std::sregex_iterator it(xml.begin(), xml.end(), tag), none; it != none;
       ++it) {
    std::string between = xml.substr(end, it->position() - end);
    EXPECT_EQ(between.find_first_of("<>"), std::string::npos) << between;
    end = it->position() + it->length();
    if ((*it)[1].length() == 0)
      ++count;
    if ((*it)[1].length()) {
      EXPECT_FALSE(open.empty());
      if (open.empty())
        return 0;
      EXPECT_EQ(open.back(), (*it)[2].str());
      open.pop_back();
    } else if (!(*it)[4].length()) {
      open.push_back((*it)[2].str());
    }
  }
  EXPECT_TRUE(open.empty());
  return count;
}

TEST(PlotTest, IsWellFormed) {
  LossPlot plot;
  plot.title = "a < b & \"c\"";
  for (int i = 1; i <= 100; ++i)
    plot.train.push_back({double(i), 5.0 / i + 1});
  plot.train.push_back({101, NAN});
  plot.heldout = {{50, 1.5}, {100, 1.2}};
  plot.unigramEntropy = 3.1;
  std::string svg = renderLossPlot(plot);
  EXPECT_GT(countElements(svg), 30u);
  EXPECT_HAS(svg, "a &lt; b &amp; \"c\"");
  EXPECT_HAS(svg, "unigram entropy (3.1000)");
  EXPECT_HAS(svg, "held-out loss (last 1.2000)");
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(RunPageTest, TellsWhatWasForetold) {
  RunPage page;
  EXPECT_EQ(medianStepSec(page), 0);
  EXPECT_HAS(renderRunPage(page), "no step was done");
  page.foretold = readForetold(
      R"({"priced": {"cluster": "a<b", "step_sec": 0.5}, "version": 1})");
  EXPECT_EQ(page.foretold.stepSec, 0.5);
  EXPECT_EQ(readForetold("{}").stepSec, 0);
  EXPECT_EQ(readForetold("no JSON").stepSec, 0);
  page.plot.title = "gpt & co";
  page.tokens = 1000;
  page.ranks = 2;
  // The first step took longest and does not count.
  double msecs[] = {9000, 600, 560, 640};
  for (int i = 0; i < 4; ++i) {
    StepRecord record;
    record.step = i + 1;
    record.elapsedMs = msecs[i];
    record.experts = ExpertRecord{{}, {.layer = "", .most = 1.5 + i}};
    page.note(record, {{0.001, 0.3, 0}, {0.001, 0.1, 0.002}});
    page.plot.train.push_back({double(i + 1), 5.0 - i});
  }
  page.commands = {{"matmul", 3, 40}, {"copy", 1, 2}};
  EXPECT_EQ(medianStepSec(page), 0.6);
  std::string text = renderRunPage(page);
  for (const char *part : {"gpt &amp; co", "600 ms a step",
                           "20 % more (planned: 500 ms on "
                           "&apos;a&lt;b&apos;)",
                           "1,667 tokens/s", "planned (2,000)", "75.0 %",
                           "load of the busiest expert", "even (1.00)"})
    EXPECT_HAS(text, part);
  // The rank that waits least comes first.
  EXPECT_LT(text.find("<span>rank 1</span>"), text.find("<span>rank 0</span>"));
  EXPECT_EQ(text.find("nan"), std::string::npos);
}

TEST(PlotTest, DrawsLittleAndNothing) {
  LossPlot plot;
  EXPECT_GT(countElements(renderLossPlot(plot)), 3u);
  plot.train = {{1, 2.0}};
  std::string svg = renderLossPlot(plot);
  EXPECT_GT(countElements(svg), 3u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

//===----------------------------------------------------------------------===//
// Options and text
//===----------------------------------------------------------------------===//

static std::string optionError(const std::vector<std::string> &arguments) {
  RunOptions options;
  std::string error;
  EXPECT_FALSE(parseOptions(arguments, options, error));
  return error;
}

TEST(OptionsTest, Reads) {
  RunOptions options;
  std::string error;
  ASSERT_TRUE(parseOptions({"m.kerf", "--data=x", "--steps", "7", "--lr=1e-3",
                            "--check-nans", "--document-end=none",
                            "--lr-schedule=wsd", "--heldout=0.1"},
                           options, error))
      << error;
  EXPECT_EQ(options.artifact, "m.kerf");
  ASSERT_EQ(options.data.size(), 1u);
  EXPECT_EQ(options.data[0].path, "x");
  EXPECT_EQ(options.data[0].weight, 0);
  EXPECT_EQ(options.steps, 7);
  EXPECT_EQ(options.learningRate, 1e-3);
  EXPECT_TRUE(options.checkNans);
  EXPECT_EQ(options.documentEnd, -1);
  EXPECT_EQ(options.decay, Decay::Wsd);
  EXPECT_TRUE(options.wantsEvaluation());
  EXPECT_TRUE(parseOptions({"--help"}, options, error));
}

TEST(OptionsTest, Refuses) {
  EXPECT_EQ(optionError({"m", "--step=3"}),
            "unknown option '--step'; did you mean '--steps'?");
  EXPECT_EQ(optionError({"m", "--qqqqqqqqqqqq"}),
            "unknown option '--qqqqqqqqqqqq'; --help lists all");
  EXPECT_EQ(optionError({"m", "--steps=x"}),
            "option '--steps': expected an integer of at least 0, found 'x'");
  EXPECT_EQ(optionError({"m", "--steps"}),
            "option '--steps' needs a value: --steps=N");
  EXPECT_EQ(optionError({"m", "--profile=1"}),
            "option '--profile' takes no value");
  for (const char *steps : {"4..2", "0..3", "2..", "..2", "2-4", "x"})
    EXPECT_HAS(
        optionError({"m", "--trace=t", std::string("--trace-steps=") + steps}),
        "expected steps as 2..4, or one step");
  EXPECT_EQ(optionError({"m", "--trace-steps=2..4"}),
            "'--trace-steps' needs '--trace=FILE'");
  EXPECT_EQ(optionError({"m", "--trace=a", "--log-json=a"}),
            "'--trace' names a file that another option uses: 'a'");
  EXPECT_HAS(optionError({"m", "--lr=-1"}), "that is not negative, found '-1'");
  EXPECT_HAS(optionError({"m", "--lr=nan"}), "found 'nan'");
  EXPECT_HAS(optionError({"m", "--heldout=1"}), "between 0 and 1");
  EXPECT_HAS(optionError({"m", "--data-format=u8"}), "'megatron', found 'u8'");
  EXPECT_HAS(optionError({"m", "--lr-schedule=step"}), "'wsd', found 'step'");
  EXPECT_HAS(optionError({"m", "--document-end=x"}), "a token id or 'none'");
  EXPECT_HAS(optionError({"m", "n"}), "one compiled model, found 'm' and 'n'");
  EXPECT_HAS(optionError({}), "expected a compiled model");
  EXPECT_HAS(optionError({"m", "--init-from=a", "--resume=b"}), "use one");
  EXPECT_HAS(optionError({"m", "--heldout=0.1", "--heldout-data=b"}),
             "use one");
  std::vector<std::string> many(1002, "--data=1:a");
  many[0] = "m";
  EXPECT_EQ(optionError(many),
            "'--data' names 1,001 files, expected at most 1,000");
  EXPECT_EQ(optionError({"m", "--heldout-data=1:a", "--heldout-data=b"}),
            "'--heldout-data' gives a weight to some files and none to 'b': "
            "give one to all, or to none to mix them by size");
  for (const char *option :
       {"save-every", "keep", "keep-every", "save-bandwidth", "max-restarts"})
    EXPECT_EQ(optionError({"m", std::string("--") + option + "=3"}),
              std::string("'--") + option + "' needs '--save-state=DIR'");
  EXPECT_EQ(optionError({"m", "--measure-ms=3"}),
            "'--measure-ms' needs '--calibrate' or '--cluster=FILE' or "
            "'--tune=FILE'");
  EXPECT_EQ(optionError({"m", "--eval-batches=3"}),
            "'--eval-batches' needs '--eval-every=N' or '--heldout=PART' or "
            "'--heldout-data=FILE'");
  EXPECT_EQ(optionError({"m", "--lr-schedule=linear", "--wsd-decay=0.5"}),
            "'--wsd-decay' has no effect with the schedule 'linear': leave it "
            "out, or give --lr-schedule=wsd");
  EXPECT_HAS(optionError({"m", "--wsd-decay=0.5"}), "the schedule 'cosine'");
  for (const char *option : {"decay-steps", "min-lr"})
    EXPECT_EQ(optionError({"m", "--lr-schedule=constant",
                           std::string("--") + option + "=1"}),
              std::string("'--") + option +
                  "' has no effect with the schedule 'constant': leave it out, "
                  "or give --lr-schedule=cosine, linear or wsd");
  // The schedule of a saved state may be another one.
  RunOptions resumed;
  std::string error;
  EXPECT_TRUE(
      parseOptions({"m", "--resume=s", "--wsd-decay=0.5"}, resumed, error))
      << error;
  EXPECT_EQ(optionError({"--calibrate", "--steps=3"}),
            "'--steps' has no effect with '--calibrate', which measures the "
            "machine alone: leave it out");
  EXPECT_EQ(optionError({"m", "--tune=t", "--data=d"}),
            "'--data' has no effect with '--tune', which times matmuls "
            "and ends: leave it out");
  EXPECT_EQ(optionError({"m", "--dry-nccl", "--device=cpu"}),
            "'--device' has no effect with '--dry-nccl', which runs nothing: "
            "leave it out");
}

TEST(OptionsTest, Units) {
  auto parse = [](const std::string &argument, double RunOptions::*member) {
    RunOptions options;
    std::string error;
    EXPECT_TRUE(parseOptions(
        {"m", "--save-state=s", "--save-weights=w", argument}, options, error))
        << error;
    return options.*member;
  };
  EXPECT_EQ(parse("--hang-timeout=30", &RunOptions::hangSec), 30);
  EXPECT_EQ(parse("--hang-timeout=30s", &RunOptions::hangSec), 30);
  EXPECT_EQ(parse("--hang-timeout=5m", &RunOptions::hangSec), 300);
  EXPECT_EQ(parse("--hang-timeout=500ms", &RunOptions::hangSec), 0.5);
  EXPECT_EQ(parse("--hang-timeout=0", &RunOptions::hangSec), 0);
  EXPECT_EQ(parse("--shard-size=512", &RunOptions::shardMegabytes), 512);
  EXPECT_EQ(parse("--shard-size=2GB", &RunOptions::shardMegabytes), 2000);
  EXPECT_EQ(parse("--shard-size=512MiB", &RunOptions::shardMegabytes),
            536.870912);
  EXPECT_EQ(parse("--save-bandwidth=2GB/s", &RunOptions::saveMegabytes), 2000);
  EXPECT_EQ(parse("--save-bandwidth=100", &RunOptions::saveMegabytes), 100);
  RunOptions options;
  std::string error;
  ASSERT_TRUE(
      parseOptions({"m", "--steps=1.5k", "--warmup=2Ki"}, options, error));
  EXPECT_EQ(options.steps, 1500);
  EXPECT_EQ(options.warmupSteps, 2048);
  EXPECT_EQ(optionError({"m", "--hang-timeout=30x"}),
            "option '--hang-timeout': expected a time such as 30s, 5m or 0; a "
            "number alone is in seconds, found '30x'");
  EXPECT_EQ(optionError({"m", "--shard-size=-1GB"}),
            "option '--shard-size': expected a size such as 512MiB or 5GB; a "
            "number alone is in MB, found '-1GB'");
  EXPECT_EQ(optionError({"m", "--save-bandwidth=2GB/min"}),
            "option '--save-bandwidth': expected a rate such as 500MB/s or "
            "2GB/s; a number alone is in MB/s, found '2GB/min'");
  EXPECT_EQ(optionError({"m", "--steps=1.5"}),
            "option '--steps': expected an integer of at least 0, found '1.5'");
}

TEST(OptionsTest, HelpFitsATerminalAndNamesExitCodes) {
  std::string help = helpText();
  EXPECT_HAS(help, "Exit status:");
  EXPECT_HAS(help, ">= 128");
  std::stringstream lines(help);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 80u) << line;
}

TEST(TextTest, Formats) {
  EXPECT_EQ(quote("a\n\xff"), "'a\\x0a\\xff'");
  EXPECT_EQ(jsonQuote("a\"\\\n\xc3\xa9\xff"),
            "\"a\\\"\\\\\\u000a\xc3\xa9\\ufffd\"");
  EXPECT_EQ(withCommas(1234567), "1,234,567");
  EXPECT_EQ(withCommas(-123), "-123");
  EXPECT_EQ(formatBytes(512), "512 B");
  EXPECT_EQ(formatBytes(3 << 19), "1.50 MiB");
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u);
}
