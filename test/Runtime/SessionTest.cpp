//===- SessionTest.cpp - running compiled files ---------------------------===//

#include "Forked.h"
#include "Job.h"
#include "Samples.h"

#include "kerf/Runtime/Device.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>

using namespace kerf;
using namespace kerf::test;

namespace {

/// Inputs of all ranks: [ranks * micro-batches * rows, width].
std::vector<float> inputs(uint32_t ranks) {
  std::vector<float> x(ranks * kMicroBatches * kRows * kWidth);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(int(i * 5 % 17) - 8) / 8;
  return x;
}

/// What one step of the training program does to the weights: the two rows of
/// the first half of w[i] grow by the sum over micro-batches and ranks of
/// 2 x w[i].
std::vector<float> stepped(const std::vector<float> &w, uint32_t ranks) {
  std::vector<float> x = inputs(ranks), to = w;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kWidth; ++c)
      for (uint32_t part = 0; part < ranks * kMicroBatches; ++part)
        for (int64_t k = 0; k < kWidth; ++k)
          to[r * kWidth + c] +=
              2 * x[(part * kRows + r) * kWidth + k] * w[k * kWidth + c];
  return to;
}

bool near(const std::vector<float> &a, const std::vector<float> &b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= 1e-5))
      return false;
  return a.size() == b.size();
}

TEST(Session, RunsAStep) {
  Job job(trainingProgram());
  ASSERT_TRUE(job.session) << job.error.message;
  std::string device = kerf_session_describe(job.session);
  EXPECT_NE(device.find("test device"), std::string::npos) << device;
  ASSERT_EQ(kerf_session_initialize(job.session, 7, &job.error), KERF_OK);
  std::vector<float> x = inputs(1);
  ASSERT_EQ(kerf_session_set_input(job.session, 0, x.data(), x.size() * 4,
                                   &job.error),
            KERF_OK);
  std::vector<std::vector<float>> expected;
  for (int64_t i = 0; i < kLayers; ++i)
    expected.push_back(job.read(KERF_TENSOR_PARAM, i));
  for (int step = 0; step < 2; ++step) {
    float before = expected[2][0];
    for (std::vector<float> &w : expected)
      w = stepped(w, 1);
    ASSERT_EQ(kerf_session_run_step(job.session, &job.error), KERF_OK)
        << job.error.message;
    for (int64_t i = 0; i < kLayers; ++i)
      EXPECT_TRUE(near(job.read(KERF_TENSOR_PARAM, i), expected[i])) << i;
    EXPECT_NEAR(job.loss(), expected[2][0] - before, 1e-5);
  }
  EXPECT_EQ(kerf_session_progress(job.session), UINT32_MAX);
}

// The number is 1000 + 100 i + 10 m of the last iteration and micro-batch: the
// command runs in all calls but the first.
TEST(Session, ComputesScalars) {
  Job job(trainingProgram());
  ASSERT_TRUE(job.session) << job.error.message;
  ASSERT_EQ(kerf_session_run_evaluation(job.session, &job.error), KERF_OK);
  EXPECT_EQ(job.loss(), 1000 + 100 * 2 + 10 * 1);
}

TEST(Session, RunsOnTwoRanks) {
  std::string name = jobName();
  auto body = [&](uint32_t rank) -> int {
    kerf_session_options options = Job::plain();
    options.rank = rank;
    options.session_name = name.c_str();
    Job job(trainingProgram(2), options);
    if (!job.session) {
      std::fprintf(stderr, "%s\n", job.error.message);
      return 1;
    }
    int faults = 0;
    faults += kerf_session_initialize(job.session, 7, &job.error) != KERF_OK;
    std::vector<float> x = inputs(2);
    faults +=
        kerf_session_set_input_global(job.session, 0, x.data(), x.size() * 4,
                                      &job.error) != KERF_OK;
    std::vector<float> expected = stepped(job.read(KERF_TENSOR_PARAM, 1), 2);
    faults += kerf_session_run_step(job.session, &job.error) != KERF_OK;
    faults += !near(job.read(KERF_TENSOR_PARAM, 1), expected);
    // Rank r counts r more: scalars know the coordinates.
    faults += kerf_session_run_evaluation(job.session, &job.error) != KERF_OK;
    faults += job.loss() != 1210 + rank;
    int32_t most = rank * 5;
    faults += kerf_session_agree_max(job.session, &most, &job.error) != KERF_OK;
    faults += most != 5;
    faults += kerf_session_barrier(job.session, &job.error) != KERF_OK;
    return faults;
  };
  EXPECT_EQ(runRanks(2, body), std::vector<int>(2, 0));
  EXPECT_FALSE(hasSegment(name));
}

TEST(Session, TellsTheOtherRankOfAFailure) {
  std::string name = jobName();
  auto body = [&](uint32_t rank) -> int {
    kerf_session_options options = Job::plain();
    options.rank = rank;
    options.session_name = name.c_str();
    options.check_nans = rank == 0;
    Job job(trainingProgram(2), options);
    // A rank that is late hears of a failure when it joins, not in its step.
    if (!job.session || kerf_session_barrier(job.session, &job.error)) {
      std::fprintf(stderr, "rank %u did not join: %s\n", rank,
                   job.error.message);
      return 2;
    }
    std::vector<float> x(kMicroBatches * kRows * kWidth, rank ? 1 : NAN);
    kerf_session_set_input(job.session, 0, x.data(), x.size() * 4, &job.error);
    kerf_status status = kerf_session_run_step(job.session, &job.error);
    std::string expected =
        std::string(rank ? "'sum_over_ranks' (all_reduce, "
                           "sample.mlir:sum_over_ranks): rank 0: "
                         : "") +
        "'matmul' (matmul, sample.mlir:matmul): layer 0, micro-batch 0: made "
        "nan at "
        "element 0 of ";
    std::string found = job.error.message;
    if (found.substr(0, expected.size()) == expected &&
        found.find("(operand 2); its inputs reach nan (operand 0), ") !=
            std::string::npos &&
        status == (rank ? KERF_PEER_LOST : KERF_NOT_FINITE))
      return 0;
    std::fprintf(stderr, "rank %u: %s\n", rank, job.error.message);
    return 1;
  };
  EXPECT_EQ(runRanks(2, body), std::vector<int>(2, 0));
}

/// Takes part `part` of x [2, 3, 4]; the output is element [1, 0] of it.
ArtifactData takingProgram(int32_t part) {
  ArtifactData data = emptyProgram();
  data.programs[0].arena_bytes = 192;
  kerf_scalar scalar = {};
  scalar.constant = part;
  data.scalars.push_back(scalar);
  kerf_operand number = {};
  number.kind = KERF_SCALAR;
  number.access = KERF_READ;
  number.dtype = KERF_I32;
  data.inputs.push_back({data.strings.intern("x"), KERF_ROLE_NONE,
                         wholeLayout({2, 3, 4}, KERF_F32), 0, 96});
  data.addScalarOutput("loss", KERF_F32, 128 + 16);
  data.beginFunc("step");
  data.addCommand(KERF_OP_TAKE, 0, data.strings.intern("part"), KERF_NONE,
                  {arenaOperand(0, 96, KERF_F32, KERF_READ),
                   arenaOperand(128, 32, KERF_F32, KERF_WRITE), number},
                  {2, 3, 16});
  data.endFunc();
  data.programs[0].train_calls = 1;
  addCall(data, 0, 0);
  return data;
}

TEST(Session, TakesParts) {
  std::vector<float> x(24);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = i;
  for (int32_t part : {0, 2}) {
    Job job(takingProgram(part));
    ASSERT_TRUE(job.session) << job.error.message;
    kerf_session_set_input(job.session, 0, x.data(), 96, &job.error);
    ASSERT_EQ(kerf_session_run_step(job.session, &job.error), KERF_OK);
    EXPECT_EQ(job.loss(), 12 + 4 * part);
  }
  // Modulo 3: of 4 part 1, of -1 part 2.
  for (auto [part, rest] : {std::pair(4, 1), std::pair(-1, 2)}) {
    ArtifactData data = takingProgram(part);
    data.scalars[0].modulus = 3;
    Job around(data);
    ASSERT_TRUE(around.session) << around.error.message;
    kerf_session_set_input(around.session, 0, x.data(), 96, &around.error);
    ASSERT_EQ(kerf_session_run_step(around.session, &around.error), KERF_OK);
    EXPECT_EQ(around.loss(), 12 + 4 * rest);
  }
  Job job(takingProgram(3));
  EXPECT_EQ(kerf_session_run_step(job.session, &job.error), KERF_INVALID);
  EXPECT_STREQ(job.error.message, "'part' (take): takes part 3 of 3");
}

// The bytes of the parts must be those of the operands.
TEST(Session, RefusesPartsThatDoNotFit) {
  for (auto [attr, value] : {std::pair(0, 3), {1, 4}, {2, 20}, {1, 0}}) {
    ArtifactData data = takingProgram(0);
    data.attrs[attr] = value;
    std::string bytes, error;
    llvm::raw_string_ostream os(bytes);
    EXPECT_TRUE(llvm::failed(writeArtifact(data, os, error)));
    EXPECT_NE(error.find("command 0 (take) of"), std::string::npos) << error;
  }
}

//===----------------------------------------------------------------------===//
// Looking and failing
//===----------------------------------------------------------------------===//

TEST(Session, NamesTheFirstCommandThatWentBad) {
  ArtifactData data = trainingProgram();
  kerf_session_options options = Job::plain();
  options.check_nans = true;
  // Layer 1 of the two commands takes the root of a negative number.
  data.kernels[0].symbol = data.strings.intern("root");
  Job job(data, options);
  std::vector<float> x(kMicroBatches * kRows * kWidth, -1),
      w(kWidth * kWidth, 1);
  kerf_session_set_input(job.session, 0, x.data(), x.size() * 4, &job.error);
  kerf_tensor tensor = {KERF_TENSOR_PARAM, 0, 0, 1};
  kerf_session_write(job.session, &tensor, w.data(), w.size() * 4, &job.error);
  EXPECT_EQ(kerf_session_run_step(job.session, &job.error), KERF_NOT_FINITE);
  std::string told = job.error.message;
  EXPECT_EQ(told.find("'twice' (launch, sample.mlir:twice): layer 1, "
                      "micro-batch 0: made nan at element 0 of "),
            0u)
      << told;
  // What no command wrote has its number; else it is told who did.
  EXPECT_NE(
      told.find("(operand 1); its inputs reach 4 (from 'matmul' of h.1.w)"),
      std::string::npos)
      << told;
  EXPECT_EQ(kerf_session_run_step(job.session, &job.error), KERF_INVALID);
  EXPECT_NE(std::strstr(job.error.message, "the session failed before: 'twice"),
            nullptr);
}

TEST(Session, CountsCommands) {
  kerf_session_options options = Job::plain();
  options.profile = true;
  Job job(trainingProgram(), options);
  kerf_session_run_step(job.session, &job.error);
  kerf_session_run_step(job.session, &job.error);
  uint64_t matmuls = 0, zeros = 0, entries = 0;
  double before = INFINITY;
  kerf_profile_entry entry;
  for (uint32_t i = 0; kerf_session_profile(job.session, i, &entry); ++i) {
    EXPECT_LE(entry.seconds, before);
    before = entry.seconds;
    ++entries;
    if (entry.opcode == KERF_OP_MATMUL)
      matmuls = entry.calls;
    if (entry.opcode == KERF_OP_ZERO)
      zeros = entry.calls;
  }
  EXPECT_EQ(matmuls, 2u * kMicroBatches * kLayers);
  EXPECT_EQ(zeros, 2u);
  EXPECT_EQ(entries, 7u);
  kerf_session_profile_reset(job.session);
  EXPECT_FALSE(kerf_session_profile(job.session, 0, &entry));
}

/// The message with which a session on `data` is refused.
std::string refusal(const ArtifactData &data,
                    kerf_session_options options = Job::plain()) {
  Job job(data, options);
  EXPECT_FALSE(job.session);
  return job.error.message;
}

TEST(Session, RefusesAMachineThatLacksFeatures) {
  ArtifactData data = trainingProgram();
  data.meta.features = data.strings.intern("avx2,sixth-sense");
  EXPECT_EQ(refusal(data),
            "model.kerf: the file is for the processor 'x86-64-v2'; this "
            "machine lacks: sixth-sense; compile with --cpu=native here, or "
            "with an older --cpu");
  EXPECT_EQ(kerf_exit_code(KERF_UNSUPPORTED), 1);
  data = emptyProgram();
  data.meta.target = data.strings.intern("cuda");
  data.meta.cpu = data.strings.intern("sm_90");
  data.meta.features = data.strings.intern("sixth-sense");
  kerf_session_options options = Job::plain();
  options.plugin_path = KERF_TEST_PLUGINS "/gpu";
  EXPECT_EQ(refusal(data, options),
            "model.kerf: the file is for the processor 'sm_90'; this machine "
            "lacks: sixth-sense; compile with the --gpu of this machine's "
            "least capable GPU, or hide that one with CUDA_VISIBLE_DEVICES");
}

TEST(Session, RefusesCommandsThatTheDeviceRefuses) {
  ArtifactData data = trainingProgram();
  data.attrs[data.commands[2].first_attr + 5] = 1000;
  EXPECT_EQ(refusal(data), "model.kerf: command 2, 'matmul' (matmul): the "
                           "test device refuses this");
}

TEST(Session, RefusesMissingKernels) {
  ArtifactData data = trainingProgram();
  data.kernels[0].symbol = data.strings.intern("gone");
  EXPECT_EQ(refusal(data), "model.kerf: the image has no kernel 'gone'");
}

TEST(Session, RefusesTooLargeAnArena) {
  ArtifactData data = trainingProgram();
  data.programs[0].arena_bytes = UINT64_C(1) << 40;
  EXPECT_EQ(refusal(data), "model.kerf: cannot get the arena of 1099511627776 "
                           "bytes: out of memory");
}

TEST(Session, RefusesDevicesThatDoNotFit) {
  kerf_session_options options = Job::plain();
  options.device = "cuda";
  EXPECT_EQ(refusal(trainingProgram(), options),
            "model.kerf: the file is for 'test', not for 'cuda'");
  ArtifactData data = trainingProgram();
  data.meta.target = data.strings.intern("../evil");
  EXPECT_EQ(refusal(data), "model.kerf: '../evil' is no name of a device");
  data.meta.target = data.strings.intern("nowhere");
  std::string message = refusal(data);
  EXPECT_EQ(message.find("model.kerf: no device library "
                         "'libkerf_device_nowhere.so' in "),
            0u)
      << message;
  EXPECT_NE(message.find("set KERF_PLUGIN_PATH to its folder"),
            std::string::npos);
  data.meta.target = data.strings.intern("wrongabi");
  EXPECT_NE(refusal(data).find(
                "has interface " + std::to_string(KERF_DEVICE_ABI + 1) +
                ", this runtime needs " + std::to_string(KERF_DEVICE_ABI)),
            std::string::npos);
}

TEST(Session, RefusesRanksThatDoNotFit) {
  EXPECT_EQ(refusal(trainingProgram(2)),
            "model.kerf: the file is for 2 ranks and RANK is not set: start it "
            "with kerf-run");
  kerf_session_options options = Job::plain();
  options.rank = 2;
  EXPECT_EQ(refusal(trainingProgram(2), options),
            "model.kerf: rank 2 of a file for 2");
  options.rank = 1;
  EXPECT_EQ(refusal(trainingProgram(2), options),
            "model.kerf: the ranks cannot find each other: neither "
            "KERF_SESSION nor MASTER_PORT is set");
  setenv("WORLD_SIZE", "4", 1);
  EXPECT_EQ(refusal(trainingProgram(2), options),
            "model.kerf: the file is for 2 ranks, WORLD_SIZE is 4");
  setenv("WORLD_SIZE", "two", 1);
  EXPECT_EQ(refusal(trainingProgram(2), options),
            "model.kerf: WORLD_SIZE is 'two', expected a number");
  unsetenv("WORLD_SIZE");
}

} // namespace
