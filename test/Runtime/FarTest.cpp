//===- FarTest.cpp - devices with memory of their own ---------------------===//
//
// The device "test", plain and behind FarDevice.cpp: the same results to the
// bit, however the steps are run. The tests of sessions and stages run on the
// far one, too (runtime-far).
//
//===----------------------------------------------------------------------===//

#include "FarDevice.h"
#include "Forked.h"
#include "Samples.h"

#include "Session.h"
#include "Transport.h"

#include "kerf/Runtime/Device.h"
#include "kerf/Runtime/Runtime.h"

#include "gtest/gtest.h"

#include <cmath>

#include <dlfcn.h>

using namespace kerf;
using namespace kerf::test;

namespace {

const char *const kFar = KERF_TEST_PLUGINS "/far";

/// A function of the far device's library.
template <typename Function> Function farSymbol(const char *name) {
  void *library = dlopen(KERF_TEST_PLUGINS "/far/libkerf_device_test.so",
                         RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(library) << dlerror();
  return reinterpret_cast<Function>(dlsym(library, name));
}
FarCounts farCounts() { return *farSymbol<FarCountsFn>("kerf_far_counts")(); }
const kerf_device_api &farApi() {
  return *farSymbol<kerf_device_entry_fn>(KERF_DEVICE_ENTRY)();
}

/// A session on a file.
struct Job {
  kerf_artifact *artifact = nullptr;
  kerf_session *session = nullptr;
  kerf_error error = {};

  Job(const ArtifactData &data, const kerf_session_options &options) {
    std::string bytes = written(data);
    EXPECT_EQ(kerf_artifact_open_bytes(bytes.data(), bytes.size(), "model.kerf",
                                       &artifact, &error) ||
                  kerf_session_create(artifact, &options, &session, &error),
              0)
        << error.message;
  }
  ~Job() {
    kerf_session_destroy(session);
    kerf_artifact_close(artifact);
  }
  Job(const Job &) = delete;

  static kerf_session_options on(const char *plugins) {
    kerf_session_options options;
    kerf_session_options_init(&options);
    options.plugin_path = plugins;
    options.workers = 1;
    return options;
  }
  /// Sets `x` to numbers that depend on `seed` and runs a step.
  kerf_status step(int seed, size_t elements = kMicroBatches * kRows * kWidth) {
    std::vector<float> x(elements);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = float(int(i * 5 + seed * 7) % 17 - 8) / 64;
    kerf_session_set_input(session, 0, x.data(), x.size() * 4, &error);
    return kerf_session_run_step(session, &error);
  }
  /// The output and all weights.
  std::vector<float> results() {
    double loss = NAN;
    kerf_session_get_output(session, 0, &loss, &error);
    std::vector<float> all(1 + kLayers * kWidth * kWidth);
    all[0] = loss;
    for (int64_t i = 0; i < kLayers; ++i) {
      kerf_tensor tensor = {KERF_TENSOR_PARAM, 0, 0, i};
      EXPECT_EQ(kerf_session_read(session, &tensor,
                                  &all[1 + i * kWidth * kWidth],
                                  kWidth * kWidth * 4, &error),
                KERF_OK);
    }
    return all;
  }
};

/// What `steps` steps of a program give, an evaluation after the third.
std::vector<std::vector<float>> train(const ArtifactData &data,
                                      const kerf_session_options &options,
                                      int steps = 5) {
  Job job(data, options);
  std::vector<std::vector<float>> all;
  kerf_session_initialize(job.session, 7, &job.error);
  for (int n = 0; n < steps; ++n) {
    EXPECT_EQ(job.step(n), KERF_OK) << job.error.message;
    all.push_back(job.results());
    if (n != 2)
      continue;
    EXPECT_EQ(kerf_session_run_evaluation(job.session, &job.error), KERF_OK);
    all.push_back(job.results());
  }
  return all;
}

//===----------------------------------------------------------------------===//
// The device itself
//===----------------------------------------------------------------------===//

// What the tests below rest on: no access of the host goes unnoticed.
TEST(FarDeviceDeathTest, KeepsTheHostOut) {
  const kerf_device_api &api = farApi();
  kerf_device_options options = {};
  options.workers = 1;
  kerf_device *device;
  void *memory;
  ASSERT_FALSE(api.create(&options, &device, nullptr, 0));
  ASSERT_FALSE(api.alloc(device, 64, &memory, nullptr, 0));
  EXPECT_EXIT(std::exit(*static_cast<volatile char *>(memory)),
              testing::KilledBySignal(SIGSEGV), "");
  api.free(device, memory, 64);
  api.destroy(device);
}

TEST(FarDevice, RefusesAddressesOfTheHost) {
  const kerf_device_api &api = farApi();
  kerf_device_options options = {};
  options.workers = 1;
  kerf_device *device;
  ASSERT_FALSE(api.create(&options, &device, nullptr, 0));
  kerf_command command = {};
  command.opcode = KERF_OP_ZERO;
  command.operand_count = command.attr_count = 1;
  kerf_operand operand = arenaOperand(0, 64, KERF_F32, KERF_WRITE);
  int64_t bytes = 64;
  kerf_step_info info = {};
  info.command = &command;
  info.operands = &operand;
  info.attrs = &bytes;
  info.name = "zero";
  kerf_step *step;
  char error[128] = "", host[64];
  ASSERT_FALSE(api.prepare(device, &info, &step, error, sizeof error));
  void *pointer = host;
  EXPECT_TRUE(api.execute(step, &pointer, error, sizeof error));
  EXPECT_STREQ(error, "operand 0 is no address of this device");
  api.destroy_step(step);
  api.destroy(device);
}

//===----------------------------------------------------------------------===//
// Steps and recordings
//===----------------------------------------------------------------------===//

// One by one, then recorded, then replayed with other samples each: the results
// of the plain device to the bit.
TEST(Far, TrainsAsThePlainDevice) {
  ArtifactData data = aloneProgram();
  auto expected = train(data, Job::on(KERF_TEST_PLUGINS));
  FarCounts before = farCounts();
  EXPECT_EQ(train(data, Job::on(kFar)), expected);
  FarCounts after = farCounts();
  EXPECT_EQ(after.recorded - before.recorded, 1u);
  EXPECT_EQ(after.launched - before.launched, 4u);
  // forward zeroes once, then 2 * 3 commands; backward 3; update 5; twice each.
  uint64_t step = 1 + 2 * (6 + 3) + 5, evaluation = 3;
  EXPECT_EQ(after.executed - before.executed, 2 * step + evaluation);
  EXPECT_NE(expected[0], expected[1]);
}

TEST(Far, RecordsNothingWhereItMayNot) {
  ArtifactData data = aloneProgram();
  auto expected = train(data, Job::on(KERF_TEST_PLUGINS));
  FarCounts before = farCounts();
  for (bool kerf_session_options::*option :
       {&kerf_session_options::no_graphs, &kerf_session_options::check_nans,
        &kerf_session_options::profile}) {
    kerf_session_options options = Job::on(kFar);
    options.*option = true;
    EXPECT_EQ(train(data, options), expected);
  }
  setenv("KERF_NO_GRAPH", "1", 1);
  EXPECT_EQ(train(data, Job::on(kFar)), expected);
  unsetenv("KERF_NO_GRAPH");
  // An exchange goes through the host, also that of a single rank.
  expected = train(trainingProgram(), Job::on(KERF_TEST_PLUGINS));
  EXPECT_EQ(train(trainingProgram(), Job::on(kFar)), expected);
  EXPECT_EQ(farCounts().recorded, before.recorded);
}

// A step that is traced runs command by command, in between recorded ones.
TEST(Far, TracesBetweenRecordings) {
  Job job(aloneProgram(), Job::on(kFar));
  kerf_session_initialize(job.session, 7, &job.error);
  for (int n = 0; n < 3; ++n)
    ASSERT_EQ(job.step(n), KERF_OK);
  kerf_trace_event event;
  EXPECT_FALSE(kerf_session_trace_event(job.session, 0, &event));
  ASSERT_EQ(kerf_session_trace(job.session, true, &job.error), KERF_OK);
  uint64_t launched = farCounts().launched, waited = farCounts().waited;
  ASSERT_EQ(job.step(3), KERF_OK);
  EXPECT_EQ(farCounts().launched, launched);
  uint32_t events = 0;
  for (double end = 0; kerf_session_trace_event(job.session, events, &event);
       ++events, end = event.end)
    EXPECT_GE(event.end, end);
  // The device is waited for after each command, and at the end.
  EXPECT_EQ(events, 24u + 5u);
  EXPECT_EQ(farCounts().waited - waited, 24u + 1u);
  kerf_session_trace(job.session, false, &job.error);
  ASSERT_EQ(job.step(4), KERF_OK);
  EXPECT_EQ(farCounts().launched, launched + 1);
}

/// `loss` = 2 x, unless x > 0: then it is x, and the step ends. A second stop
/// reads what the first half made.
ArtifactData stoppingProgram() {
  ArtifactData data = emptyProgram();
  data.programs[0].arena_bytes = 192;
  kerf_operand x = arenaOperand(0, 4, KERF_F32, KERF_READ);
  kerf_operand loss = arenaOperand(64, 4, KERF_F32, KERF_READ | KERF_WRITE);
  uint32_t add = addKernel(data, "add", 1);
  data.inputs.push_back({data.strings.intern("x"), KERF_ROLE_NONE,
                         wholeLayout({1}, KERF_F32), 0, 4});
  data.addScalarOutput("loss", KERF_F32, 64);
  data.beginFunc("step");
  auto command = [&](uint32_t opcode, const char *name,
                     llvm::ArrayRef<kerf_operand> operands,
                     llvm::ArrayRef<int64_t> attrs) {
    data.addCommand(opcode, 0, data.strings.intern(name), KERF_NONE, operands,
                    attrs);
  };
  command(KERF_OP_COPY, "copy", {x, loss}, {4});
  command(KERF_OP_STOP_IF, "x was", {loss}, {});
  command(KERF_OP_LAUNCH, "add", {x, loss}, {add});
  command(KERF_OP_STOP_IF, "the sum was", {loss}, {});
  data.endFunc();
  data.programs[0].train_calls = 1;
  addCall(data, 0, 0);
  return data;
}

// A recording is cut where the host must look at a number; it is looked at in
// every step.
TEST(Far, StopsWhenItShould) {
  for (int stopped : {0, 1, 2, 3}) {
    Job job(stoppingProgram(), Job::on(kFar));
    uint64_t recorded = farCounts().recorded;
    for (int n = 0; n <= stopped; ++n) {
      float x = n == stopped ? 3 : -1 - n;
      kerf_session_set_input(job.session, 0, &x, 4, &job.error);
      kerf_status status = kerf_session_run_step(job.session, &job.error);
      double loss;
      kerf_session_get_output(job.session, 0, &loss, &job.error);
      EXPECT_EQ(status, n == stopped ? KERF_INVALID : KERF_OK);
      EXPECT_EQ(loss, n == stopped ? 3 : 2 * x);
    }
    kerf_session_run_step(job.session, &job.error);
    EXPECT_STREQ(job.error.message, "the session failed before: x was 3.00");
    // Three parts; only the first one of a step that stops while recorded.
    EXPECT_EQ(farCounts().recorded - recorded, stopped == 0   ? 0u
                                               : stopped == 1 ? 1u
                                                              : 3u);
  }
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

// Sums over ranks go through buffers of the host.
TEST(Far, ExchangesThroughTheHost) {
  std::string near = jobName(), far = jobName();
  auto body = [&](uint32_t rank) -> int {
    std::vector<std::vector<float>> results[2];
    for (bool isFar : {false, true}) {
      kerf_session_options options = Job::on(isFar ? kFar : KERF_TEST_PLUGINS);
      options.rank = rank;
      options.session_name = isFar ? far.c_str() : near.c_str();
      results[isFar] = train(trainingProgram(2), options);
    }
    bool isSame = results[0] == results[1] && results[0].size() == 6;
    return isSame && !testing::Test::HasFailure() ? 0 : 1;
  };
  EXPECT_EQ(runRanks(2, body), std::vector<int>(2, 0));
}

// Room for the largest exchange is there before the first step.
TEST(Far, TellsItsMemory) {
  Job job(trainingProgram(), Job::on(kFar));
  kerf_memory memory;
  kerf_session_memory(job.session, &memory);
  uint64_t sum = kLayers * kWidth * kWidth * 4;
  EXPECT_EQ(memory.bounce_buffers, 2 * sum);
  EXPECT_EQ(memory.device_total, UINT64_C(1) << 30);
  EXPECT_EQ(memory.device_total - memory.device_free, memory.arena);
  ASSERT_EQ(job.step(0), KERF_OK);
  kerf_session_memory(job.session, &memory);
  EXPECT_EQ(memory.bounce_buffers, 2 * sum);

  Job plain(trainingProgram(), Job::on(KERF_TEST_PLUGINS));
  kerf_session_memory(plain.session, &memory);
  EXPECT_GT(memory.arena, 0u);
  EXPECT_EQ(memory.bounce_buffers, 0u);
  EXPECT_EQ(memory.device_total, 0u);
}

// Each rank asks for the device of its number on the machine.
TEST(Far, ChoosesTheDevice) {
  setenv("LOCAL_RANK", "3", 1);
  {
    Job job(trainingProgram(), Job::on(kFar));
    EXPECT_STREQ(kerf_session_describe(job.session),
                 "far test device, number 3");
  }
  setenv("LOCAL_RANK", "x", 1);
  kerf_session_options options = Job::on(kFar);
  std::string bytes = written(trainingProgram());
  kerf_artifact *artifact;
  kerf_session *session;
  kerf_error error;
  ASSERT_EQ(kerf_artifact_open_bytes(bytes.data(), bytes.size(), "model.kerf",
                                     &artifact, &error),
            KERF_OK);
  EXPECT_EQ(kerf_session_create(artifact, &options, &session, &error),
            KERF_INVALID);
  EXPECT_STREQ(error.message,
               "model.kerf: LOCAL_RANK is 'x', expected a number");
  unsetenv("LOCAL_RANK");
  kerf_artifact_close(artifact);
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

// What goes wrong in a step is known when the device is waited for; command by
// command, the one is named.
TEST(Far, TellsWhatWentWrong) {
  setenv("KERF_FAR_FAIL", "3", 1);
  for (bool kerf_session_options::*option :
       {&kerf_session_options::no_graphs, &kerf_session_options::check_nans,
        &kerf_session_options::profile}) {
    kerf_session_options options = Job::on(kFar);
    options.*option = true;
    Job job(aloneProgram(), options);
    EXPECT_EQ(job.step(0), KERF_FAILED);
    EXPECT_STREQ(job.error.message,
                 !options.no_graphs
                     ? "'twice' (launch, sample.mlir:twice): step 3 was told "
                       "to fail"
                     : "the device failed in this run: step 3 was told to "
                       "fail; run with --profile to learn in which command");
  }
  unsetenv("KERF_FAR_FAIL");
}

// What a failed copy left on the host is not taken for the result.
TEST(Far, TellsOfFailedCopies) {
  const char *expected = "a copy was told to fail";
  double loss = 0;
  std::vector<float> weight(kWidth * kWidth);
  kerf_tensor tensor = {KERF_TENSOR_PARAM, 0, 0, 0};
  // A failure stays: one session for each.
  auto expectFailure = [&](auto read, bool stops = false) {
    Job job(stops ? stoppingProgram() : aloneProgram(), Job::on(kFar));
    setenv("KERF_FAR_FAIL_COPY", "1", 1);
    EXPECT_EQ(read(job), KERF_FAILED);
    EXPECT_STREQ(job.error.message, expected);
    unsetenv("KERF_FAR_FAIL_COPY");
  };
  expectFailure([&](Job &job) {
    return kerf_session_get_output(job.session, 0, &loss, &job.error);
  });
  expectFailure([&](Job &job) {
    return kerf_session_read(job.session, &tensor, weight.data(),
                             weight.size() * 4, &job.error);
  });
  expectFailure([&](Job &job) {
    return kerf_session_read_global(job.session, &tensor, nullptr, 0,
                                    &job.error);
  });
  auto step = [&](Job &job) {
    return kerf_session_run_step(job.session, &job.error);
  };
  expectFailure(step, /*stops=*/true);
}

/// A transport whose waits fail when they are told to, after recordings that
/// have calls of it were dropped, as of a rank that is lost.
class LostTransport : public runtime::Transport {
public:
  LostTransport(kerf_session &session, std::unique_ptr<Transport> inner)
      : session(session), inner(std::move(inner)) {}
  runtime::Status
  split(const std::vector<uint32_t> &members,
        std::unique_ptr<runtime::Communicator> &group) override {
    return inner->split(members, group);
  }
  runtime::Status open(const runtime::ChannelSpec &spec,
                       std::unique_ptr<runtime::Channel> &channel) override {
    return inner->open(spec, channel);
  }
  void enter(uint32_t command) override { inner->enter(command); }
  bool abort(const char *message) override { return inner->abort(message); }
  bool recordable() const override { return true; }
  runtime::Status drain() override {
    if (drains-- != 0)
      return {};
    session.dropParts();
    return runtime::failure(KERF_PEER_LOST, "rank 1 is gone");
  }
  runtime::Status waitFor(const std::function<bool()> &isDone) override {
    return inner->waitFor(isDone);
  }

  int drains = -1; ///< waits before the one that fails; below 0: none does

private:
  kerf_session &session;
  std::unique_ptr<Transport> inner;
};

// A step waits at both stops and at its end: whichever wait fails, while the
// step is recorded (step 1) or replayed (step 2), no recording is left.
TEST(Far, DropsRecordingsOfALostJob) {
  for (int lost : {1, 2})
    for (int drains : {0, 1, 2}) {
      Job job(stoppingProgram(), Job::on(kFar));
      auto made = std::make_unique<LostTransport>(
          *job.session, std::move(job.session->transport));
      LostTransport &transport = *made;
      job.session->transport = std::move(made);
      uint64_t kept = farCounts().kept;
      for (int n = 0; n <= lost; ++n) {
        EXPECT_EQ(farCounts().kept - kept, n == 2 ? 3u : 0u);
        float x = -1 - n;
        kerf_session_set_input(job.session, 0, &x, 4, &job.error);
        transport.drains = n == lost ? drains : -1;
        EXPECT_EQ(kerf_session_run_step(job.session, &job.error),
                  n == lost ? KERF_PEER_LOST : KERF_OK);
      }
      EXPECT_NE(std::string(job.error.message).find("rank 1 is gone"),
                std::string::npos);
      EXPECT_EQ(farCounts().kept, kept);
    }
}

} // namespace
