//===- CpuSessionTest.cpp - sessions on the cpu device --------------------===//

#include "Samples.h"

#include "kerf/Runtime/Runtime.h"

#include "gtest/gtest.h"

using namespace kerf;
using namespace kerf::test;

namespace {

/// The output of one step, and the message if something failed.
struct Result {
  double output = 0;
  std::string message;
};

Result runStep(const ArtifactData &data, int32_t workers,
               const std::vector<int32_t> &sizes) {
  std::string bytes = written(data);
  kerf_artifact *artifact;
  kerf_session *session = nullptr;
  kerf_error error = {};
  kerf_session_options options;
  kerf_session_options_init(&options);
  options.workers = workers;
  options.check_nans = true;
  Result result;
  if (!kerf_artifact_open_bytes(bytes.data(), bytes.size(), "model.kerf",
                                &artifact, &error) &&
      !kerf_session_create(artifact, &options, &session, &error)) {
    EXPECT_EQ(kerf_session_workers(session), workers);
    std::vector<float> a(24), b(30), q(80, 0.5f);
    for (size_t i = 0; i < a.size(); ++i)
      a[i] = i;
    for (size_t i = 0; i < b.size(); ++i)
      b[i] = 30.0f - i;
    kerf_session_set_input(session, 0, a.data(), a.size() * 4, &error);
    kerf_session_set_input(session, 1, b.data(), b.size() * 4, &error);
    kerf_session_set_input(session, 2, q.data(), q.size() * 4, &error);
    kerf_session_set_input(session, 3, sizes.data(), sizes.size() * 4, &error);
    if (!kerf_session_run_step(session, &error))
      kerf_session_get_output(session, 0, &result.output, &error);
  }
  result.message = error.message;
  kerf_session_destroy(session);
  kerf_artifact_close(artifact);
  return result;
}

// The last element of twice the matmul: 2 * sum over k of a[3,k] b[k,4].
TEST(CpuSession, RunsAStep) {
  double expected = 0;
  for (int k = 0; k < 6; ++k)
    expected += 2 * (18 + k) * (30.0 - (k * 5 + 4));
  for (int32_t workers : {1, 2}) {
    Result result = runStep(cpuProgram(), workers, {1, 2, 3, 0, 6, 0});
    EXPECT_EQ(result.message, "");
    EXPECT_EQ(result.output, expected);
  }
}

// Sizes of experts are known at run time only.
TEST(CpuSession, NamesACommandThatFails) {
  Result result = runStep(cpuProgram(), 1, {1, 2, 300, 0, 6, 0});
  EXPECT_EQ(result.message.find("'experts' (grouped_matmul): "), 0u)
      << result.message;
}

TEST(CpuSession, RefusesWhatTheDeviceRefuses) {
  ArtifactData data = cpuProgram();
  data.attrs[data.commands[2].first_attr + 4] = 5;
  EXPECT_EQ(runStep(data, 1, {})
                .message.find("model.kerf: command 2, 'matmul' (matmul): "),
            0u);
}

TEST(CpuSession, RefusesProcessorsItDoesNotKnow) {
  ArtifactData data = cpuProgram();
  data.meta.features = data.strings.intern("sse2,no-such-feature");
  std::string message = runStep(data, 1, {}).message;
  EXPECT_NE(message.find("this machine lacks: no-such-feature"),
            std::string::npos)
      << message;
}

} // namespace
