//===- TuningTest.cpp - files of tuned algorithms -------------------------===//

#include "kerf/Train/Tuning.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace kerf::runtime;

namespace {
TuningFile sample() {
  TuningFile file;
  file.tunedOn = "GPU \"X\", library 1";
  file.driver = "13.0";
  file.date = "2026-01-31";
  for (int n = 0; n < 2; ++n) {
    kerf_tuned &tuned = file.entries.emplace_back();
    tuned = {};
    std::strcpy(tuned.matmul, n ? "bf16 1x2x3x4" : "f32 1x2x3x4; aligned 16");
    std::strcpy(tuned.choice, "algorithm 7, tile 20");
    for (uint8_t &byte : tuned.data)
      byte = static_cast<uint8_t>(0xf0 + n);
    tuned.index = 3 * n;
    tuned.choices = 8;
    tuned.seconds = 1.25e-5;
    tuned.first_seconds = 2.5e-5;
  }
  return file;
}

/// What reading says of the sample's text with `from` replaced by `to`.
std::string refusal(const std::string &from, const std::string &to) {
  std::string text = sample().print(), error;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  TuningFile file;
  return file.parse(text, error) ? "" : error;
}
} // namespace

TEST(Tuning, PrintsWhatItReads) {
  TuningFile written = sample(), read;
  std::string error;
  ASSERT_TRUE(read.parse(written.print(), error)) << error;
  EXPECT_EQ(read.tunedOn, written.tunedOn);
  EXPECT_EQ(read.driver, written.driver);
  EXPECT_EQ(read.date, written.date);
  ASSERT_EQ(read.entries.size(), 2u);
  for (size_t n = 0; n < 2; ++n)
    EXPECT_EQ(
        std::memcmp(&read.entries[n], &written.entries[n], sizeof(kerf_tuned)),
        0);
  EXPECT_NE(written.print().find("\"speedup\": 2.000"), std::string::npos);
  EXPECT_EQ(read.view().count, 2u);
  // Nothing is faster than what did not run.
  written.entries[0].first_seconds = written.entries[1].first_seconds = 0;
  EXPECT_EQ(written.print().find("\"speedup\""), std::string::npos);
  EXPECT_TRUE(read.parse(written.print(), error)) << error;
}

TEST(Tuning, RefusesWhatItWouldNotWrite) {
  EXPECT_EQ(refusal("2026", "2026"), ""); // the unchanged text is fine
  EXPECT_EQ(refusal("kerf tuning 1", "kerf tuning 2"),
            "the file: expected the format 'kerf tuning 1', found 'kerf tuning "
            "2'");
  EXPECT_EQ(refusal("\"driver\"", "\"rider\""),
            "the file: expected \"driver\", a text");
  EXPECT_EQ(refusal("\"matmuls\": [", "\"matmuls\": 3, \"rest\": ["),
            "the file: expected \"matmuls\", a list");
  EXPECT_EQ(refusal("\"index\": 3", "\"index\": -1"),
            "matmul 2: expected a \"index\" from 0 to 1000");
  EXPECT_EQ(refusal("\"seconds\": 1.25e-05", "\"seconds\": -1"),
            "matmul 1: expected seconds as \"seconds\"");
  EXPECT_EQ(refusal("f0f0", "f0g0"),
            "matmul 1: expected a \"data\" of 128 hexadecimal digits");
  EXPECT_EQ(refusal("f32 1x2x3x4; aligned 16", "bf16 1x2x3x4"),
            "matmul 2 is there twice");
  EXPECT_EQ(refusal("algorithm 7, tile 20", std::string(200, 'x')),
            "matmul 1: expected a \"choice\" of 1 to 127 characters");
  EXPECT_NE(refusal("]}", ""), "");
}
