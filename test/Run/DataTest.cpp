//===- DataTest.cpp - token files, windows, shuffle -----------------------===//

#include "RunTesting.h"

#include "kerf/Train/Batch.h"
#include "kerf/Train/Permutation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

using namespace kerf::runtime;

namespace {
class DataTest : public FolderTest {
protected:
  std::string errorOf(const std::string &file, int64_t vocabulary,
                      DataFormat format = DataFormat::Auto) {
    TokenFile tokens;
    std::string error;
    EXPECT_FALSE(tokens.open(file, format, vocabulary, error)) << file;
    return error;
  }
  TokenFile open(const std::string &file, int64_t vocabulary,
                 DataFormat format = DataFormat::Auto) {
    TokenFile tokens;
    std::string error;
    EXPECT_TRUE(tokens.open(file, format, vocabulary, error)) << error;
    return tokens;
  }
  std::string llmc(int32_t magic, int32_t version, int32_t count) {
    std::vector<int32_t> header(256);
    header[0] = magic;
    header[1] = version;
    header[2] = count;
    return bytesOf(header);
  }
};
} // namespace

TEST_F(DataTest, ReadsEveryFormat) {
  TokenFile bytes = open(put("a.txt", "Ab\xff"), 256);
  EXPECT_EQ(bytes.format(), DataFormat::Bytes);
  EXPECT_EQ(bytes.size(), 3);
  EXPECT_EQ(bytes.at(2), 255);

  std::string narrow = bytesOf(std::vector<uint16_t>{1, 50256, 7});
  TokenFile u16 = open(put("a.bin", narrow), 50257);
  EXPECT_EQ(u16.format(), DataFormat::U16);
  EXPECT_EQ(u16.size(), 3);
  EXPECT_EQ(u16.at(1), 50256);

  std::string wide = bytesOf(std::vector<uint32_t>{1, 128255});
  TokenFile u32 = open(put("b.bin", wide), 128256);
  EXPECT_EQ(u32.format(), DataFormat::U32);
  EXPECT_EQ(u32.at(1), 128255);
  EXPECT_EQ(open(path("b.bin"), 1000, DataFormat::U16).size(), 4);

  TokenFile gpt2 = open(put("c.bin", llmc(20240520, 1, 3) + narrow), 50257);
  EXPECT_EQ(gpt2.format(), DataFormat::LlmC);
  EXPECT_EQ(gpt2.size(), 3);
  EXPECT_EQ(gpt2.at(2), 7);
  TokenFile llama = open(put("d.bin", llmc(20240801, 7, 2) + wide), 128256);
  EXPECT_EQ(llama.width(), 4);
  EXPECT_EQ(llama.at(1), 128255);
}

TEST_F(DataTest, RefusesBadFiles) {
  EXPECT_HAS(errorOf(path("none.txt"), 256), "cannot open");
  EXPECT_HAS(errorOf(path("none.txt"), 256), "No such file or directory");
  EXPECT_HAS(errorOf(folder, 256), "expected a regular file, found a folder");
  EXPECT_HAS(errorOf(put("empty.txt", ""), 256), "empty.txt' is empty");
  EXPECT_HAS(errorOf(put("odd.bin", "abc"), 256),
             "is truncated: 3 bytes are no whole number of 16-bit tokens");
  EXPECT_HAS(errorOf(put("odd32.bin", "abcdef"), 100000),
             "no whole number of 32-bit tokens");
  EXPECT_HAS(errorOf(put("l.bin", llmc(20240520, 1, 5) + "abcd"), 100),
             "its header declares 5 tokens of 2 bytes, and 4 bytes follow");
  EXPECT_HAS(errorOf(put("v.bin", llmc(20240520, 3, 0)), 100),
             "has version 3 of llm.c's format, expected 1");
  EXPECT_HAS(errorOf(put("n.bin", llmc(1, 1, 0)), 100, DataFormat::LlmC),
             "has no llm.c header");
  EXPECT_HAS(errorOf(put("s.bin", "ab"), 100, DataFormat::LlmC),
             "llm.c's header has 1024 bytes, found 2");
}

TEST_F(DataTest, RefusesBytesForOtherVocabularies) {
  std::string file = put("a.txt", "abc");
  EXPECT_HAS(errorOf(file, 128256), "examples/tokenize.py");
  EXPECT_HAS(errorOf(file, 128256), "vocabulary of 128,256");
  EXPECT_HAS(errorOf(file, 255), "vocabulary of at least 256");
  EXPECT_HAS(errorOf(file, 255, DataFormat::Bytes), "at least 256");
  EXPECT_EQ(open(file, 512).size(), 3);
  EXPECT_EQ(open(file, 50257, DataFormat::Bytes).size(), 3);
}

TEST_F(DataTest, NamesTheIdBeyondTheVocabulary) {
  TokenFile tokens =
      open(put("a.bin", bytesOf(std::vector<uint16_t>{1, 2, 99, 100})), 100);
  std::string error;
  EXPECT_TRUE(tokens.scan(0, 3, nullptr, error));
  EXPECT_FALSE(tokens.scan(0, 4, nullptr, error));
  EXPECT_HAS(error,
             "token 3 has the id 100, the model's vocabulary ends at 99");
  Batch batch(1, 3);
  EXPECT_FALSE(SampleRange(tokens, 0, 4, 3, -1).fill(0, batch, 0, error));
}

TEST_F(DataTest, CountsForTheEntropy) {
  TokenFile tokens = open(put("a.txt", "aabb"), 256);
  std::vector<int64_t> counts;
  std::string error;
  ASSERT_TRUE(tokens.scan(0, 4, &counts, error));
  EXPECT_EQ(counts['a'], 2);
  EXPECT_DOUBLE_EQ(unigramEntropy({0, 0.5, 0.5}), std::log(2.0));
  EXPECT_EQ(unigramEntropy({}), 0.0);
}

TEST_F(DataTest, FingerprintTellsFilesApart) {
  uint64_t a = open(put("a.txt", "some text"), 256).fingerprint();
  EXPECT_EQ(a, open(put("b.txt", "some text"), 256).fingerprint());
  EXPECT_NE(a, open(put("c.txt", "same text"), 256).fingerprint());
  EXPECT_NE(a, open(put("d.txt", "some text\n"), 256).fingerprint());
}

TEST_F(DataTest, CutsWindows) {
  TokenFile tokens = open(put("a.txt", "abcdefgh"), 256);
  SampleRange range(tokens, 1, 8, 3, -1);
  // Seven tokens: windows bcd|e and efg|h.
  ASSERT_EQ(range.samples(), 2);
  Batch batch(2, 3);
  std::string error;
  ASSERT_TRUE(range.fill(1, batch, 0, error));
  ASSERT_TRUE(range.fill(0, batch, 1, error));
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{'e', 'f', 'g', 'b', 'c', 'd'}));
  EXPECT_EQ(batch.targets,
            (std::vector<int32_t>{'f', 'g', 'h', 'c', 'd', 'e'}));
  EXPECT_EQ(batch.positions, (std::vector<int32_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(batch.validTargets(), 6);
  EXPECT_EQ(SampleRange(tokens, 0, 3, 3, -1).samples(), 0);
  EXPECT_EQ(SampleRange(tokens, 0, 4, 3, -1).samples(), 1);
  SampleRange::fillIgnored(batch, 1);
  EXPECT_EQ(batch.validTargets(), 3);
}

TEST_F(DataTest, SeparatesDocuments) {
  TokenFile tokens = open(put("a.txt", "ab.c.def"), 256);
  SampleRange range(tokens, 0, 8, 7, '.');
  Batch batch(1, 7);
  std::string error;
  ASSERT_TRUE(range.fill(0, batch, 0, error));
  EXPECT_EQ(batch.segments, (std::vector<int32_t>{0, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(batch.positions, (std::vector<int32_t>{0, 1, 2, 0, 1, 0, 1}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{'b', '.', ignoredTarget, '.',
                                                 ignoredTarget, 'e', 'f'}));
}

TEST_F(DataTest, MaskLeavesOutTargets) {
  std::string path = put("a.txt", "abcdefgh");
  put("a.txt.mask", std::string("\1\1\0\0\1\1\0\1", 8));
  TokenFile tokens = open(path, 256);
  EXPECT_HAS(tokens.maskPath(), "a.txt.mask");
  Batch batch(1, 7);
  std::string error;
  ASSERT_TRUE(SampleRange(tokens, 0, 8, 7, -1).fill(0, batch, 0, error));
  EXPECT_EQ(batch.tokens,
            (std::vector<int32_t>{'a', 'b', 'c', 'd', 'e', 'f', 'g'}));
  EXPECT_EQ(batch.targets,
            (std::vector<int32_t>{'b', ignoredTarget, ignoredTarget, 'e', 'f',
                                  ignoredTarget, 'h'}));
  // Other masks are other data.
  uint64_t before = tokens.fingerprint();
  put("a.txt.mask", std::string(8, '\1'));
  EXPECT_NE(open(path, 256).fingerprint(), before);
}

TEST_F(DataTest, MaskMustFit) {
  std::string path = put("a.txt", "abcd"), error;
  put("a.txt.mask", std::string(3, '\1'));
  TokenFile tokens;
  EXPECT_FALSE(tokens.open(path, DataFormat::Auto, 256, error));
  EXPECT_HAS(error, "a.txt.mask' has 3 bytes, expected one for each of the 4 "
                    "tokens of");
  put("a.txt.mask", std::string("\1\0\0\0", 4)); // what comes before it?
  EXPECT_FALSE(tokens.open(path, DataFormat::Auto, 256, error));
  EXPECT_HAS(error, "a.txt.mask' makes no token of");
  put("a.txt.mask", std::string("\1\1\7\1", 4));
  ASSERT_TRUE(tokens.open(path, DataFormat::Auto, 256, error)) << error;
  EXPECT_FALSE(tokens.scan(0, 4, nullptr, error));
  EXPECT_HAS(error, "byte 2 is 7, expected 1 for a target and 0 for none");
}

TEST(PermutationTest, IsOne) {
  for (int64_t size : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097})
    for (uint64_t key : {0u, 1u, 12345u}) {
      std::vector<bool> seen(size);
      Permutation permutation(size, key);
      for (int64_t i = 0; i < size; ++i) {
        int64_t to = permutation.at(i);
        ASSERT_TRUE(to >= 0 && to < size);
        ASSERT_FALSE(seen[to]) << size;
        seen[to] = true;
      }
    }
  int64_t large = INT64_C(1) << 40;
  EXPECT_LT(Permutation(large, 7).at(large - 1), large);
}

TEST(PermutationTest, Shuffles) {
  // The mean distance of a random permutation is n / 3.
  constexpr int64_t size = 3000;
  Permutation permutation(size, 42);
  double sum = 0;
  int64_t fixed = 0, neighbours = 0;
  for (int64_t i = 0; i < size; ++i) {
    sum += static_cast<double>(std::abs(permutation.at(i) - i));
    fixed += permutation.at(i) == i;
    neighbours += i > 0 && permutation.at(i) == permutation.at(i - 1) + 1;
  }
  EXPECT_NEAR(sum / size, size / 3.0, size / 30.0);
  EXPECT_LT(fixed, 10);
  EXPECT_LT(neighbours, 10);
}

TEST(PermutationTest, DependsOnSeedAndEpochOnly) {
  constexpr int64_t size = 100;
  auto epoch = [](int64_t seed, int64_t number) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < size; ++i)
      order.push_back(shuffledSample(size, seed, number * size + i));
    return order;
  };
  EXPECT_EQ(epoch(1, 0), epoch(1, 0));
  EXPECT_NE(epoch(1, 0), epoch(2, 0));
  EXPECT_NE(epoch(1, 0), epoch(1, 1));
  std::vector<int64_t> order = epoch(3, 5);
  std::sort(order.begin(), order.end());
  std::vector<int64_t> all(size);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order, all);
}
