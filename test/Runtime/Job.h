//===- Job.h - a file and a session on it, for tests ----------------------===//

#ifndef KERF_TEST_RUNTIME_JOB_H
#define KERF_TEST_RUNTIME_JOB_H

#include "Plugins.h"
#include "Samples.h"

#include "kerf/Runtime/Runtime.h"

#include "gtest/gtest.h"

#include <cmath>
#include <string>
#include <vector>

namespace kerf::test {

/// An opened file and a session on it; `message` is why there is none.
struct Job {
  kerf_artifact *artifact = nullptr;
  kerf_session *session = nullptr;
  kerf_error error = {};

  explicit Job(const ArtifactData &data, kerf_session_options options) {
    std::string bytes = written(data);
    if (!kerf_artifact_open_bytes(bytes.data(), bytes.size(), "model.kerf",
                                  &artifact, &error))
      kerf_session_create(artifact, &options, &session, &error);
  }
  explicit Job(const ArtifactData &data) : Job(data, plain()) {}
  ~Job() {
    kerf_session_destroy(session);
    kerf_artifact_close(artifact);
  }
  Job(const Job &) = delete;

  static kerf_session_options plain() {
    kerf_session_options options;
    kerf_session_options_init(&options);
    options.plugin_path = testPlugins();
    return options;
  }
  std::vector<float> read(uint32_t kind, int64_t iteration) {
    kerf_tensor tensor = {kind, 0, 0, iteration};
    std::vector<float> values(kWidth * kWidth);
    EXPECT_EQ(kerf_session_read(session, &tensor, values.data(),
                                values.size() * 4, &error),
              KERF_OK)
        << error.message;
    return values;
  }
  double loss() {
    double value = NAN;
    EXPECT_EQ(kerf_session_get_output(session, 0, &value, &error), KERF_OK);
    return value;
  }
};

} // namespace kerf::test

#endif // KERF_TEST_RUNTIME_JOB_H
