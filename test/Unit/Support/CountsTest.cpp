#include "kerf/Support/Counts.h"

#include <gtest/gtest.h>

using namespace kerf;

TEST(Counts, ReadsUnits) {
  EXPECT_EQ(readCount("20000000000"), 2e10);
  EXPECT_EQ(readCount("2e12"), 2e12);
  EXPECT_EQ(readCount("1.5T"), 1.5e12);
  EXPECT_EQ(readCount(" 300 B "), 3e11);
  EXPECT_EQ(readCount("20M"), 2e7);
  EXPECT_EQ(readCount("50k"), 5e4);
  EXPECT_EQ(readDuration("90s"), 90.0);
  EXPECT_EQ(readDuration("90 min"), 5400.0);
  EXPECT_EQ(readDuration("1.5h"), 5400.0);
  EXPECT_EQ(readDuration("30d"), 30 * 86400.0);
  EXPECT_EQ(readDuration("2 weeks"), 14 * 86400.0);
  EXPECT_EQ(readDuration("1y"), 365.25 * 86400);
}

TEST(Counts, RefusesOthers) {
  for (const char *text : {"", " ", "B", "1x", "-5", "0", "nan", "inf", "1e999",
                           "1 2", "1T tokens", "--"}) {
    EXPECT_FALSE(readCount(text)) << text;
    EXPECT_FALSE(readDuration(text)) << text;
  }
  EXPECT_FALSE(readDuration("30"));  // of what?
  EXPECT_FALSE(readDuration("30m")); // months or minutes?
  EXPECT_FALSE(readCount("30d"));
}
