//===- EventsTest.cpp - records for TensorBoard ---------------------------===//

#include "RunTesting.h"

#include "kerf/Train/EventFile.h"
#include "kerf/Train/Log.h"

#include <cmath>

using namespace kerf::runtime;

namespace {
using EventsTest = FolderTest;
} // namespace

// The values that RFC 3720 gives in B.4, and the one of the CRC catalogue.
TEST(ChecksumTest, IsCastagnolis) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending;
  for (char c = 0; c < 32; ++c)
    ascending += c;
  EXPECT_EQ(crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

// A record, byte by byte: worked out by hand from the two formats.
TEST_F(EventsTest, WritesTheDocumentedBytes) {
  std::string error;
  {
    EventFile file;
    ASSERT_TRUE(file.open(path("made/here"), 3, error)) << error;
    ASSERT_TRUE(file.write(300, {{"a/b", 1.5}}, error)) << error;
  }
  std::vector<std::string> names = listFolder(path("made/here"));
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names[0].substr(0, 20), "events.out.tfevents.");
  std::string bytes = get("made/here/" + names[0]);
  // Two records of 9 + 2 bytes of time and step, and 15 or 4 more.
  ASSERT_EQ(bytes.size(), (16 + 26) + (16 + 15) + (16 + 26));
  EXPECT_EQ(bytes.substr(0, 8), bytesOf<uint64_t>({26}));
  EXPECT_EQ(bytes.substr(12 + 9, 17), std::string("\x10\0\x1a\x0d"
                                                  "brain.Event:2",
                                                  17));
  EXPECT_EQ(bytes.substr(42 + 12 + 9, 6), "\x10\x03\x3a\x02\x08\x01");
  std::string last = bytes.substr(42 + 31);
  EXPECT_EQ(last.substr(12, 1), "\x09");
  EXPECT_EQ(last.substr(12 + 9, 17),
            std::string("\x10\xac\x02\x2a\x0c\x0a\x0a\x0a\x03"
                        "a/b"
                        "\x15\0\0\xc0\x3f",
                        17));
  // The sum of the length 26, masked.
  uint32_t sum = crc32c(bytes.substr(0, 8));
  uint32_t masked = (sum >> 15 | sum << 17) + 0xa282ead8u;
  EXPECT_EQ(bytes.substr(8, 4), bytesOf<uint32_t>({masked}));
}

// Two runs that begin in one second have files of their own.
TEST_F(EventsTest, NeverWritesIntoAnotherFile) {
  std::string error;
  EventFile one, two;
  ASSERT_TRUE(one.open(folder, 0, error)) << error;
  ASSERT_TRUE(two.open(folder, 0, error)) << error;
  EXPECT_EQ(entries().size(), 2u);
  put("file", "");
  EventFile three;
  EXPECT_FALSE(three.open(path("file"), 0, error));
  EXPECT_HAS(error, "cannot make the folder '" + path("file") + "'");
}

TEST(ScalarsTest, AreThoseOfTheLog) {
  StepRecord record;
  record.loss = 2.5;
  record.learningRate = 1e-3;
  record.tokensPerSecond = 100;
  record.ranks = 4;
  std::vector<Scalar> scalars = stepScalars(record);
  ASSERT_EQ(scalars.size(), 3u);
  EXPECT_STREQ(scalars[0].tag, "train/loss");
  EXPECT_EQ(scalars[0].value, 2.5);
  EXPECT_STREQ(scalars[2].tag, "train/tokens_per_second");
  EXPECT_EQ(scalars[2].value, 400);
  record.gradNorm = 0.5;
  EXPECT_STREQ(stepScalars(record)[3].tag, "train/grad_norm");
  EXPECT_STREQ(heldoutScalars({50, 200, 64, 2.5})[0].tag, "eval/loss");
}
