//===- SnapshotTest.cpp - copies of the state beside a step ---------------===//
//
// Whatever copies and whenever: a snapshot is the state as it was when it was
// begun, to the bit. On a device of the host, on one that copies by itself
// (FarDevice.cpp, which reads as late as it may), and on one that cannot.
//
//===----------------------------------------------------------------------===//

#include "Samples.h"

#include "Session.h"
#include "Snapshot.h"

#include "kerf/Runtime/Runtime.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <thread>

using namespace kerf;
using namespace kerf::runtime;
using namespace kerf::test;

namespace {

const char *const kFar = KERF_TEST_PLUGINS "/far";
constexpr int64_t kWeight = kWidth * kWidth;

struct Job {
  kerf_artifact *artifact = nullptr;
  kerf_session *session = nullptr;
  kerf_error error = {};

  explicit Job(const char *plugins) {
    std::string bytes = written(aloneProgram());
    kerf_session_options options;
    kerf_session_options_init(&options);
    options.plugin_path = plugins;
    options.workers = 1;
    must(kerf_artifact_open_bytes(bytes.data(), bytes.size(), "model.kerf",
                                  &artifact, &error));
    must(kerf_session_create(artifact, &options, &session, &error));
    must(kerf_session_initialize(session, 7, &error));
  }
  ~Job() {
    kerf_session_destroy(session);
    kerf_artifact_close(artifact);
  }
  Job(const Job &) = delete;

  void must(kerf_status status) { ASSERT_EQ(status, KERF_OK) << error.message; }
  void step() {
    std::vector<float> x(kMicroBatches * kRows * kWidth, 0.25f);
    must(kerf_session_set_input(session, 0, x.data(), x.size() * 4, &error));
    must(kerf_session_run_step(session, &error));
  }
  std::vector<float> weights() {
    std::vector<float> all(kLayers * kWeight);
    for (int64_t i = 0; i < kLayers; ++i) {
      kerf_tensor tensor = {KERF_TENSOR_PARAM, 0, 0, i};
      must(kerf_session_read(session, &tensor, &all[i * kWeight], kWeight * 4,
                             &error));
    }
    return all;
  }
  float *memory(bool beside) {
    void *made = nullptr;
    must(kerf_session_snapshot_memory(session, kLayers * kWeight * 4, beside,
                                      &made, &error));
    return static_cast<float *>(made);
  }
  /// All weights, the first one in two parts.
  void begin(float *to) {
    kerf_part parts[] = {{{KERF_TENSOR_PARAM, 0, 0, 0}, 0, 5},
                         {{KERF_TENSOR_PARAM, 0, 0, 0}, 5, kWeight},
                         {{KERF_TENSOR_PARAM, 0, 0, 1}, 0, kWeight},
                         {{KERF_TENSOR_PARAM, 0, 0, 2}, 0, kWeight}};
    must(kerf_session_begin_snapshot(session, parts, 4, to, &error));
  }
  void finish() { must(kerf_session_finish_snapshot(session, &error)); }
};

std::vector<float> floats(const float *from) {
  return {from, from + kLayers * kWeight};
}

/// Plug-ins, whether the memory is for copies beside, and whether it can be.
struct Kind {
  const char *plugins;
  bool beside, hasMemory;
};

class SnapshotTest : public testing::TestWithParam<Kind> {
protected:
  void SetUp() override {
    if (!GetParam().hasMemory)
      setenv("KERF_FAR_NO_HOST_MEMORY", "1", 1);
  }
  void TearDown() override { unsetenv("KERF_FAR_NO_HOST_MEMORY"); }
};

// The step copies what it is about to write; nobody else does.
TEST_P(SnapshotTest, IsTheStateBeforeTheStep) {
  Job job(GetParam().plugins);
  float *to = job.memory(GetParam().beside);
  // The first step runs by itself, the second is recorded, others replayed.
  for (int n = 0; n < 4; ++n) {
    std::vector<float> before = job.weights();
    job.begin(to);
    job.step();
    job.finish();
    EXPECT_EQ(floats(to), before) << "in step " << n;
    EXPECT_NE(job.weights(), before);
    job.step();
    EXPECT_EQ(floats(to), before) << "after step " << n;
  }
}

TEST_P(SnapshotTest, IsFinishedByAnotherThread) {
  Job job(GetParam().plugins);
  float *to = job.memory(GetParam().beside);
  for (int n = 0; n < 20; ++n) {
    std::vector<float> before = job.weights();
    job.begin(to);
    kerf_status status = KERF_FAILED;
    std::thread other([&] {
      kerf_error own = {};
      status = kerf_session_finish_snapshot(job.session, &own);
    });
    job.step();
    other.join();
    EXPECT_EQ(status, KERF_OK);
    EXPECT_EQ(floats(to), before) << "in step " << n;
  }
}

TEST_P(SnapshotTest, NeedsNoStep) {
  Job job(GetParam().plugins);
  float *to = job.memory(GetParam().beside);
  job.begin(to);
  job.finish();
  job.finish();
  EXPECT_EQ(floats(to), job.weights());
}

// A snapshot changes nothing of the training.
TEST_P(SnapshotTest, LeavesTheStepAlone) {
  Job plain(GetParam().plugins), job(GetParam().plugins);
  float *to = job.memory(GetParam().beside);
  for (int n = 0; n < 5; ++n) {
    if (n % 2)
      job.begin(to);
    plain.step();
    job.step();
    EXPECT_EQ(job.weights(), plain.weights());
  }
}

INSTANTIATE_TEST_SUITE_P(All, SnapshotTest,
                         testing::Values(Kind{KERF_TEST_PLUGINS, true, true},
                                         Kind{KERF_TEST_PLUGINS, false, true},
                                         Kind{kFar, true, true},
                                         Kind{kFar, false, true},
                                         Kind{kFar, true, false}));

TEST(Snapshot, IsGivenUp) {
  Job job(KERF_TEST_PLUGINS);
  job.begin(job.memory(true));
  kerf_session_drop_snapshot(job.session);
  EXPECT_EQ(kerf_session_finish_snapshot(job.session, &job.error), KERF_FAILED);
  EXPECT_STREQ(job.error.message, "the copy of the state was given up");
  job.step();
}

TEST(Snapshot, RefusesPartsThatAreNotThere) {
  Job job(KERF_TEST_PLUGINS);
  float *to = job.memory(false);
  kerf_part part = {{KERF_TENSOR_PARAM, 0, 0, 0}, 0, kWeight + 1};
  EXPECT_EQ(kerf_session_begin_snapshot(job.session, &part, 1, to, &job.error),
            KERF_INVALID);
  EXPECT_STREQ(job.error.message, "elements 0 to 17 of 16 were asked for");
  part.tensor.iteration = kLayers;
  EXPECT_EQ(kerf_session_begin_snapshot(job.session, &part, 1, to, &job.error),
            KERF_INVALID);
}

// What a step writes first is copied first; it waits for no more than it
// writes.
TEST(Snapshot, KnowsWhatIsDue) {
  Job job(KERF_TEST_PLUGINS);
  const artifact::View &view = job.session->view;
  WriteOrder order(view);
  const kerf_param &param = view.params[view.program->first_param];
  char memory[64];
  int64_t behind = view.program->arena_bytes; // nothing writes there
  Snapshot snapshot(order,
                    {{behind, 4, memory}, {param.offset, 8, memory + 4}});
  ASSERT_EQ(snapshot.all().size(), 2u);
  uint32_t due = snapshot.all()[0].due;
  EXPECT_EQ(snapshot.all()[0].to, memory + 4);
  EXPECT_EQ(snapshot.all()[1].due, KERF_NONE);
  // The command that adds to the weights, in the loop of the update.
  uint32_t writer = 0;
  while (order.placeOf(writer) != due)
    ++writer;
  const kerf_func &update = view.funcs[view.calls[4].func];
  EXPECT_GE(writer, update.first_command);
  EXPECT_LT(writer, update.first_command + update.command_count);
  EXPECT_FALSE(snapshot.isDue(due - 1));
  EXPECT_TRUE(snapshot.isDue(due));
  EXPECT_FALSE(snapshot.isDue(KERF_NONE)); // of an evaluation
  snapshot.passed(due);
  EXPECT_FALSE(snapshot.isDue(due + 1));
}

} // namespace
