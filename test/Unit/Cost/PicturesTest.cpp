#include "kerf/Cost/Timeline.h"
#include "kerf/Support/Json.h"

#include "gtest/gtest.h"

#include <set>

using namespace kerf;

/// Four stages with every kind of event.
static StepWork example(int64_t microBatches) {
  StepWork step;
  step.schedule = ScheduleKind::ZeroBubble;
  step.microBatches = microBatches;
  step.sendSec.assign(4, 1e-4);
  StageWork stage;
  stage.chunks.resize(1);
  stage.chunks[0].forwardSec = 1e-3;
  stage.chunks[0].backwardSec = 2e-3;
  stage.chunks[0].weightGradientSec = 1e-3;
  stage.chunks[0].forwardGatherSec = 5e-4;
  stage.gradientSyncSec = stage.weightGatherSec = 3e-3;
  stage.updateSec = 1e-3;
  step.stages.assign(4, stage);
  return step;
}

static size_t count(llvm::StringRef text, llvm::StringRef what) {
  return text.count(what);
}

// A trace is JSON with every event in microseconds, on the process of its stage
// and the thread of its engine.
TEST(PicturesTest, Trace) {
  Timeline timeline = simulate(example(6), true);
  auto value = json::parse(traceOf(timeline),
                           [](json::Position at, const llvm::Twine &message) {
                             ADD_FAILURE() << at.line << ": " << message.str();
                           });
  ASSERT_TRUE(llvm::succeeded(value));
  size_t names = 0, events = 0;
  double longest = 0;
  for (const json::Value &entry : value->find("traceEvents")->array) {
    if (entry.find("ph")->string == "M") {
      ++names;
      continue;
    }
    const Event &event = timeline.events[events++];
    EXPECT_EQ(entry.find("pid")->integer, event.stage);
    EXPECT_EQ(entry.find("tid")->integer, int(event.engine));
    EXPECT_NEAR(entry.find("ts")->number, event.startSec * 1e6, 1e-3);
    longest =
        std::max(longest, entry.find("ts")->number + entry.find("dur")->number);
    if (event.microBatch >= 0)
      EXPECT_EQ(entry.find("args")->find("micro_batch")->integer,
                event.microBatch);
  }
  EXPECT_EQ(names, 4u * 4);
  EXPECT_EQ(events, timeline.events.size());
  EXPECT_NEAR(longest, timeline.totalSec * 1e6, 1e-2);
}

// A small schedule has a box with a tool tip per task, numbers of
// micro-batches, and one row per stage.
TEST(PicturesTest, SmallSchedule) {
  Timeline timeline = simulate(example(6), true);
  std::string svg = svgOf(timeline, "gpt <tiny> & co", "6 & more");
  EXPECT_NE(svg.find(">6 &amp; more<"), std::string::npos);
  EXPECT_EQ(count(svg, "<svg"), 1u);
  EXPECT_EQ(count(svg, "</svg>"), 1u);
  EXPECT_EQ(count(svg, "<g"), count(svg, "</g>"));
  EXPECT_NE(svg.find("gpt &lt;tiny&gt; &amp; co"), std::string::npos);
  EXPECT_EQ(count(svg, "<title>forward "), 4u * 6);
  EXPECT_EQ(count(svg, "<title>backward "), 4u * 6);
  EXPECT_EQ(count(svg, "<title>weight gradient "), 4u * 6);
  EXPECT_EQ(count(svg, "<title>update"), 4u);
  EXPECT_EQ(count(svg, ">5</text>"), 3u * 4 + 1); // and a tick of the axis
  for (const char *stage : {"stage 0<", "stage 3<"})
    EXPECT_EQ(count(svg, stage), 1u);
}

// Thousands of tasks are merged: no numbers, and a text of bounded size.
TEST(PicturesTest, LargeSchedule) {
  StepWork step = example(512);
  step.stages.resize(16, step.stages[0]);
  step.sendSec.assign(16, 1e-4);
  Timeline timeline = simulate(step, true);
  EXPECT_GT(timeline.events.size(), 30000u);
  std::string svg = svgOf(timeline, "large", "");
  EXPECT_EQ(count(svg, "<title>forward "), 0u);
  EXPECT_GT(count(svg, "<path fill="), 16u * 2);
  EXPECT_LT(svg.size(), 1000000u);
}

// Nothing to draw is no reason to fail.
TEST(PicturesTest, NoEvents) {
  std::string svg = svgOf(simulate(example(2)), "empty", "");
  EXPECT_EQ(count(svg, "</svg>"), 1u);
  EXPECT_EQ(count(svg, "nan"), 0u);
  EXPECT_EQ(count(svg, "inf"), 0u);
}
