//===- SourcesTest.cpp - datasets with an index, and several sources ------===//

#include "RunTesting.h"

#include "kerf/Train/Feeder.h"
#include "kerf/Train/MegatronIndex.h"
#include "kerf/Train/Permutation.h"
#include "kerf/Train/Sources.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Datasets of Megatron-LM
//===----------------------------------------------------------------------===//

namespace {
/// The parts of an index; what is not set is as the tokens demand.
struct IndexParts {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  uint64_t version = 1;
  uint8_t type = 8;
  std::vector<int32_t> lengths = {3, 0, 2};
  std::vector<int64_t> pointers = {0, 6, 6};
  std::vector<int64_t> documents = {0, 1, 3};

  std::string bytes() const {
    return magic + bytesOf<uint64_t>({version}) + bytesOf<uint8_t>({type}) +
           bytesOf<uint64_t>({lengths.size(), documents.size()}) +
           bytesOf(lengths) + bytesOf(pointers) + bytesOf(documents);
  }
};

class MegatronTest : public FolderTest {
protected:
  const std::string tokens = bytesOf<uint16_t>({7, 8, 9, 1, 65535});

  /// What is said about a dataset of these two files; empty if it is read.
  std::string errorOf(const std::string &index, const std::string &data,
                      int64_t vocabulary = 65536) {
    put("d.idx", index);
    if (get("d.bin") != data)
      put("d.bin", data);
    TokenFile file;
    std::string error;
    return file.open(path("d.bin"), DataFormat::Auto, vocabulary, error)
               ? ""
               : error;
  }
  /// The same, where the index differs in one way.
  template <typename Change> std::string errorWith(Change change) {
    IndexParts parts;
    change(parts);
    return errorOf(parts.bytes(), tokens);
  }
  /// Random documents, some of them empty, that end with token 0.
  void putDocuments(int64_t seed) const {
    std::vector<uint16_t> all;
    IndexParts parts{.lengths = {}, .pointers = {}, .documents = {0}};
    for (int64_t d = 0; d < 60; ++d) {
      int64_t length = (d * 7919 + seed * 104729) % 13; // 0: an empty one
      parts.pointers.push_back(static_cast<int64_t>(2 * all.size()));
      parts.lengths.push_back(static_cast<int32_t>(length));
      parts.documents.push_back(d + 1);
      for (int64_t i = 0; i < length; ++i)
        all.push_back(
            static_cast<uint16_t>(i + 1 < length ? 1 + (i + d) % 9 : 0));
    }
    put("d.idx", parts.bytes());
    put("d.bin", bytesOf(all));
  }
};
} // namespace

// All three names mean the dataset; a text of the common name comes first.
TEST_F(MegatronTest, IsFoundByEachOfItsNames) {
  put("d.idx", IndexParts().bytes());
  put("d.bin", tokens);
  std::string error;
  for (const char *name : {"d", "d.bin", "d.idx"}) {
    TokenFile file;
    ASSERT_TRUE(file.open(path(name), DataFormat::Auto, 65536, error)) << error;
    EXPECT_EQ(file.format(), DataFormat::Megatron);
    EXPECT_EQ(file.path(), path("d.bin"));
    EXPECT_EQ(file.size(), 5);
    EXPECT_EQ(file.documents(), 2);
    EXPECT_EQ(file.at(4), 65535);
    ASSERT_TRUE(file.open(path(name), DataFormat::Megatron, 65536, error));
  }
  put("d", "text");
  TokenFile file;
  ASSERT_TRUE(file.open(path("d"), DataFormat::Auto, 256, error)) << error;
  EXPECT_EQ(file.format(), DataFormat::Bytes);
  ASSERT_TRUE(file.open(path("d.bin"), DataFormat::U16, 256, error));
  EXPECT_EQ(file.documents(), -1);
}

// Sequences [3, 0, 2] and [0] and [] and [4] make documents; two are empty.
TEST_F(MegatronTest, KnowsWhereDocumentsBegin) {
  IndexParts parts;
  parts.lengths = {3, 0, 2, 0, 4};
  parts.pointers = {0, 6, 6, 10, 10};
  parts.documents = {0, 3, 4, 4, 5};
  put("d.idx", parts.bytes());
  put("d.bin", bytesOf<uint16_t>({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  TokenFile file;
  std::string error;
  ASSERT_TRUE(file.open(path("d"), DataFormat::Auto, 256, error)) << error;
  EXPECT_EQ(file.documents(), 4);
  for (int64_t token = 0; token < 9; ++token)
    EXPECT_EQ(file.nextDocument(token), token < 5 ? 5 : 9) << token;

  // Samples of 3 tokens: the border lies in the second one, behind its second
  // token, and the last sample's document is cut.
  SampleRange range(file, 0, 9, 3, -1, /*byIndex=*/true);
  ASSERT_EQ(range.samples(), 2);
  Batch batch(2, 3);
  for (int64_t i = 0; i < 2; ++i)
    ASSERT_TRUE(range.fill(i, batch, i, error)) << error;
  EXPECT_EQ(batch.segments, (std::vector<int32_t>{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(batch.positions, (std::vector<int32_t>{0, 1, 2, 0, 1, 0}));
  EXPECT_EQ(batch.targets,
            (std::vector<int32_t>{2, 3, 4, 5, ignoredTarget, 7}));

  // A border between two samples: the target that belongs to the next document
  // is left out, and the next sample begins a document.
  SampleRange behind(file, 2, 9, 3, -1, /*byIndex=*/true);
  for (int64_t i = 0; i < 2; ++i)
    ASSERT_TRUE(behind.fill(i, batch, i, error)) << error;
  EXPECT_EQ(batch.segments, (std::vector<int32_t>{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.targets,
            (std::vector<int32_t>{4, 5, ignoredTarget, 7, 8, 9}));
}

// Where every document has its end token, the index and the token say the same
// of every sample, of all sizes, of whole files and held-out parts.
TEST_F(MegatronTest, SaysWhatEndTokensSay) {
  for (int64_t seed = 0; seed < 3; ++seed) {
    putDocuments(seed);
    TokenFile file;
    std::string error;
    ASSERT_TRUE(file.open(path("d"), DataFormat::Auto, 256, error)) << error;
    for (int64_t sequence : {1, 2, 5, 17, 64})
      for (int64_t begin : {0, 1, 150}) {
        SampleRange byToken(file, begin, file.size(), sequence, 0);
        SampleRange byIndex(file, begin, file.size(), sequence, -1, true);
        ASSERT_GT(byToken.samples(), 0);
        Batch a(1, sequence), b(1, sequence);
        for (int64_t i = 0; i < byToken.samples(); ++i) {
          ASSERT_TRUE(byToken.fill(i, a, 0, error));
          ASSERT_TRUE(byIndex.fill(i, b, 0, error));
          EXPECT_EQ(a.segments, b.segments);
          EXPECT_EQ(a.positions, b.positions);
          EXPECT_EQ(a.targets, b.targets);
        }
      }
  }
}

// Other documents of the same tokens are other data where they matter.
TEST_F(MegatronTest, FingerprintsItsDocuments) {
  auto openSmall = [&](Sources &sources, std::optional<int64_t> end) {
    SourceOptions options;
    options.training = {{path("d.bin"), 0}};
    options.vocabulary = 65536;
    options.sequence = 2;
    options.documentEnd = end;
    int64_t documentEnd = 0;
    std::string error;
    return openSources(options, sources, documentEnd, error);
  };
  put("d.bin", tokens);
  uint64_t hashes[2][2];
  for (int i = 0; i < 2; ++i) {
    IndexParts parts;
    parts.documents = {0, i ? 3 : 1, 3};
    put("d.idx", parts.bytes());
    Sources byIndex, byToken;
    ASSERT_TRUE(openSmall(byIndex, std::nullopt));
    ASSERT_TRUE(openSmall(byToken, 8));
    EXPECT_TRUE(byIndex.training.ranges[0].isByIndex());
    EXPECT_FALSE(byToken.training.ranges[0].isByIndex());
    hashes[i][0] = byIndex.fingerprint();
    hashes[i][1] = byToken.fingerprint();
  }
  EXPECT_NE(hashes[0][0], hashes[1][0]);
  EXPECT_EQ(hashes[0][1], hashes[1][1]);
}

template <typename T>
static void expectTokens(MegatronTest &, TokenFile &file) {
  ASSERT_EQ(file.size(), 3);
  EXPECT_EQ(file.width(), static_cast<int>(sizeof(T)));
  EXPECT_EQ(file.at(0), 3);
  EXPECT_EQ(file.at(2), 100);
}

TEST_F(MegatronTest, ReadsEveryTypeOfToken) {
  IndexParts parts;
  parts.lengths = {3};
  parts.pointers = {0};
  parts.documents = {0, 1};
  auto read = [&](uint8_t type, auto example) {
    using T = decltype(example);
    parts.type = type;
    TokenFile file;
    std::string error;
    ASSERT_EQ(errorOf(parts.bytes(), bytesOf<T>({3, 4, 100})), "");
    ASSERT_TRUE(file.open(path("d"), DataFormat::Auto, 128, error));
    expectTokens<T>(*this, file);
  };
  read(1, uint8_t());
  read(2, int8_t());
  read(3, int16_t());
  read(4, int32_t());
  read(5, int64_t());
  read(8, uint16_t());
}

// Ids below zero and beyond 32 bits are refused like those beyond the
// vocabulary, also where the model names none.
TEST_F(MegatronTest, RefusesIdsThatAreNone) {
  IndexParts parts;
  parts.lengths = {2};
  parts.pointers = {0};
  parts.documents = {0, 1};
  std::string error;
  auto scan = [&](uint8_t type, const std::string &bytes, int64_t vocabulary) {
    parts.type = type;
    EXPECT_EQ(errorOf(parts.bytes(), bytes, vocabulary), "");
    TokenFile file;
    EXPECT_TRUE(file.open(path("d"), DataFormat::Auto, vocabulary, error));
    std::vector<int64_t> counts;
    EXPECT_FALSE(file.scan(0, 2, &counts, error));
    return error;
  };
  EXPECT_HAS(scan(4, bytesOf<int32_t>({1, -2}), 100),
             "token 1 has the id -2, the model's vocabulary ends at 99 "
             "(read as megatron");
  EXPECT_HAS(scan(3, bytesOf<int16_t>({-1, 2}), 0),
             "token 0 has the id -1, expected 0 to 2,147,483,647");
  EXPECT_HAS(scan(5, bytesOf<int64_t>({1, INT64_C(1) << 32}), 0),
             "token 1 has the id 4,294,967,296, expected");
  EXPECT_HAS(scan(8, bytesOf<uint16_t>({1, 100}), 100), "has the id 100");
}

TEST_F(MegatronTest, SaysWhichFileIsMissing) {
  std::string error;
  TokenFile file;
  put("d.idx", IndexParts().bytes());
  EXPECT_FALSE(file.open(path("d"), DataFormat::Auto, 65536, error));
  EXPECT_HAS(error, "cannot open '" + path("d.bin") + "': No such file");
  EXPECT_HAS(error, "a Megatron-LM dataset is");
  EXPECT_FALSE(file.open(path("x"), DataFormat::Megatron, 65536, error));
  EXPECT_HAS(error, "cannot open '" + path("x.idx") + "'");
  EXPECT_FALSE(file.open(path("x.idx"), DataFormat::Auto, 65536, error));
  EXPECT_HAS(error, "cannot open '" + path("x.idx") + "'");
  EXPECT_FALSE(file.open(path("x"), DataFormat::Auto, 65536, error));
  EXPECT_EQ(error,
            "cannot open '" + path("x") + "': No such file or directory");
}

// Each number of the index is looked at, and the message names the one.
TEST_F(MegatronTest, RefusesWhatIsNotWhole) {
  using P = IndexParts;
  EXPECT_EQ(errorWith([](P &) {}), "");
  EXPECT_HAS(errorWith([](P &p) { p.magic = "MMIDIDX1x"; }),
             "d.idx' is no index of a Megatron-LM dataset: expected it to "
             "begin with 'MMIDIDX'; --data-format=u16 and others read");
  EXPECT_HAS(errorWith([](P &p) { p.magic = std::string("TNTIDX\0\0\0", 9); }),
             "of the 'lazy' or 'cached' kind");
  EXPECT_HAS(errorWith([](P &p) { p.version = 2; }),
             "has version 2 of Megatron-LM's index format, expected 1");
  EXPECT_HAS(errorWith([](P &p) { p.type = 7; }),
             "tokens that are floating-point numbers (type 7)");
  EXPECT_HAS(errorWith([](P &p) { p.type = 9; }), "tokens of type 9");
  EXPECT_HAS(errorWith([](P &p) { p.type = 0; }), "tokens of type 0");
  EXPECT_HAS(errorWith([](P &p) { p.type = 1; }),
             "sequence 1 begins at byte 6 of");
  EXPECT_HAS(errorWith([](P &p) { p.type = 4; }),
             "needs at least 12 bytes, found 10");
  EXPECT_HAS(errorWith([](P &p) { p.lengths[1] = -1; }),
             "sequence 1 has -1 tokens");
  EXPECT_HAS(errorWith([](P &p) { p.lengths[2] = 3; }),
             "needs at least 12 bytes, found 10");
  EXPECT_HAS(errorWith([](P &p) { p.lengths[2] = INT32_MAX; }),
             "d.bin' is truncated or damaged: its index");
  EXPECT_HAS(errorWith([](P &p) { p.lengths[2] = 1; }),
             "needs 8 bytes, found 10");
  EXPECT_HAS(errorWith([](P &p) { p.pointers[0] = 2; }),
             "sequence 0 begins at byte 2 of");
  EXPECT_HAS(errorWith([](P &p) { p.pointers[2] = -6; }),
             "sequence 2 begins at byte -6 of");
  EXPECT_HAS(errorWith([](P &p) { p.documents = {1, 1, 3}; }),
             "document 0 begins with sequence 1, expected 0");
  EXPECT_HAS(errorWith([](P &p) { p.documents = {0, 2, 1, 3}; }),
             "document 2 begins with sequence 1, expected 2 to 3");
  EXPECT_HAS(errorWith([](P &p) { p.documents = {0, 4}; }),
             "document 1 begins with sequence 4, expected 0 to 3");
  EXPECT_HAS(errorWith([](P &p) { p.documents = {0, 2}; }),
             "its documents end at sequence 2, expected 3");
  EXPECT_HAS(errorWith([](P &p) { p.documents = {}; }), "no document entries");
  EXPECT_HAS(errorOf(IndexParts().bytes() + std::string(3, '\0'), tokens),
             "multimodal");
  EXPECT_HAS(errorOf(IndexParts().bytes() + "x", tokens),
             "and 61 bytes follow, expected 60");
  P none;
  none.lengths = {};
  none.pointers = {};
  none.documents = {0};
  EXPECT_HAS(errorOf(none.bytes(), ""), "d.bin' is empty");
}

// Counts whose tables would be larger than any file.
TEST_F(MegatronTest, RefusesCountsThatOverflow) {
  std::string good = IndexParts().bytes();
  for (uint64_t count :
       {UINT64_MAX, UINT64_MAX / 12 + 1, UINT64_C(1) << 61, UINT64_C(1) << 32})
    for (size_t at : {18, 26}) {
      std::string bad = good;
      bad.replace(at, 8, bytesOf<uint64_t>({count}));
      EXPECT_HAS(errorOf(bad, tokens), "is truncated or damaged: its header");
    }
}

// Every truncation is refused. So is every flipped bit, unless what it makes is
// another dataset of the same tokens: their sign, or how many sequences are a
// document.
TEST_F(MegatronTest, NoDamageChangesTheTokens) {
  std::string good = IndexParts().bytes();
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_NE(errorOf(good.substr(0, length), tokens), "") << length;
  for (size_t length = 0; length < tokens.size(); ++length)
    EXPECT_NE(errorOf(good, tokens.substr(0, length)), "") << length;
  size_t documents = good.size() - 3 * sizeof(int64_t), accepted = 0;
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    if (!errorOf(bad, tokens).empty())
      continue;
    ++accepted;
    EXPECT_GE(bit / 8, documents) << bit;
  }
  // The middle entry, 1, may become 0 and 3.
  EXPECT_EQ(accepted, 2u);
}

//===----------------------------------------------------------------------===//
// Order of several sources
//===----------------------------------------------------------------------===//

static std::vector<size_t> firstSources(std::vector<int64_t> weights,
                                        int64_t seed, int64_t count) {
  Interleave order(std::move(weights), seed);
  std::vector<size_t> result;
  for (int64_t number = 0; number < count; ++number)
    result.push_back(order.at(number).source);
  return result;
}

// At every prefix each source is nearer to its share than Tijdeman's bound,
// 1 - 1 / (2k - 2); in integers, so that nothing is rounded.
TEST(InterleaveTest, NoSourceIsAWholeSequenceOff) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    int64_t k = 2 + static_cast<int64_t>(random() % 7);
    int64_t largest = round % 3 == 0   ? 3
                      : round % 3 == 1 ? 1000
                                       : 1'000'000'007;
    std::vector<int64_t> weights(k), counts(k);
    for (int64_t &weight : weights)
      weight = 1 + static_cast<int64_t>(random() % largest);
    int64_t sum = std::accumulate(weights.begin(), weights.end(), INT64_C(0));
    Interleave order(weights, round);
    for (int64_t n = 1; n <= 400; ++n) {
      SourcePlace place = order.at(n - 1);
      ASSERT_EQ(place.index, counts[place.source]++);
      for (int64_t i = 0; i < k; ++i) {
        int64_t off = std::abs(weights[i] * n - counts[i] * sum);
        ASSERT_LE(off * (2 * k - 2), sum * (2 * k - 3)) << n << " " << k;
      }
    }
  }
}

// Whoever asks for a number gets the same answer, whatever was asked before.
TEST(InterleaveTest, DependsOnTheNumberOnly) {
  std::vector<int64_t> weights = {70, 20, 33};
  Interleave forth(weights, 5);
  std::vector<SourcePlace> places;
  for (int64_t number = 0; number < 400; ++number)
    places.push_back(forth.at(number));
  Interleave any(weights, 5);
  for (int64_t number : {399, 0, 17, 16, 250, 250, 123, 122, 246, 398}) {
    SourcePlace place = any.at(number);
    EXPECT_EQ(place.source, places[number].source) << number;
    EXPECT_EQ(place.index, places[number].index) << number;
  }
  // Far on, the counts are those of whole periods and the rest.
  SourcePlace far = any.at(INT64_C(123) * 1'000'000'000 + 17);
  EXPECT_EQ(far.source, places[17].source);
  EXPECT_EQ(far.index,
            places[17].index + weights[far.source] * INT64_C(1'000'000'000));
}

// The example of the header; the seed decides among equals; factors do not
// matter.
TEST(InterleaveTest, TakesTurns) {
  std::set<std::vector<size_t>> seen;
  for (int64_t seed = 0; seed < 20; ++seed) {
    std::vector<size_t> four = firstSources({2, 1, 1}, seed, 4);
    seen.insert(four);
    EXPECT_EQ(firstSources({600, 300, 300}, seed, 4), four);
    std::vector<size_t> eight = firstSources({2, 1, 1}, seed, 8);
    EXPECT_TRUE(std::equal(four.begin(), four.end(), eight.begin() + 4));
  }
  EXPECT_EQ(seen, (std::set<std::vector<size_t>>{
                      {0, 1, 0, 2}, {0, 1, 2, 0}, {0, 2, 0, 1}, {0, 2, 1, 0}}));
  EXPECT_EQ(firstSources({5}, 1, 3), (std::vector<size_t>{0, 0, 0}));
}

// As many as are allowed, with the largest weights: nothing overflows.
TEST(InterleaveTest, BearsItsBounds) {
  std::vector<int64_t> weights(maxSources, maxSourceWeight);
  weights.back() = maxSourceWeight - 1;
  std::vector<size_t> first = firstSources(weights, 1, maxSources);
  EXPECT_EQ(std::set<size_t>(first.begin(), first.end()).size(), maxSources);
}

//===----------------------------------------------------------------------===//
// Mixtures
//===----------------------------------------------------------------------===//

TEST(SourceOptionTest, HasAWeightBeforeItsColon) {
  SourceOption source;
  auto read = [&](const char *text) { return parseSource(text, source); };
  ASSERT_TRUE(read("a.bin"));
  EXPECT_EQ(source.path, "a.bin");
  EXPECT_EQ(source.weight, 0);
  ASSERT_TRUE(read("0.7:a.bin"));
  EXPECT_EQ(source.path, "a.bin");
  EXPECT_EQ(source.weight, 700'000);
  ASSERT_TRUE(read("2:3:a"));
  EXPECT_EQ(source.path, "3:a");
  EXPECT_EQ(source.weight, 2'000'000);
  ASSERT_TRUE(read("./2:a"));
  EXPECT_EQ(source.path, "./2:a");
  EXPECT_EQ(source.weight, 0);
  for (const char *text : {"", "2:", "0:a", "-1:a", "1e-7:a", "1e7:a"})
    EXPECT_FALSE(read(text)) << text;
}

namespace {
class MixtureTest : public FolderTest {
protected:
  /// Opens files of so many bytes, the i-th of the letter 'a' + i, for windows
  /// of four.
  void open(const std::vector<int64_t> &sizes,
            const std::vector<int64_t> &weights, Sources &sources,
            std::optional<double> heldout = {}) {
    SourceOptions options;
    options.vocabulary = 256;
    options.sequence = 4;
    options.heldoutPart = heldout;
    for (size_t i = 0; i < sizes.size(); ++i) {
      char letter = static_cast<char>('a' + i);
      options.training.push_back(
          {put(std::string(1, letter), std::string(sizes[i], letter)),
           weights.empty() ? 0 : weights[i]});
    }
    int64_t documentEnd = -2;
    std::string error;
    ASSERT_TRUE(openSources(options, sources, documentEnd, error)) << error;
    EXPECT_EQ(documentEnd, 0);
  }
};
} // namespace

// Without weights files are mixed by size: after one epoch of all together,
// every sample of every file was shown once.
TEST_F(MixtureTest, BySizeMakesCommonEpochs) {
  Sources sources;
  open({4 * 30 + 1, 4 * 12 + 1, 4 * 3 + 1}, {}, sources);
  const Mixture &mixture = sources.training;
  ASSERT_EQ(mixture.samples(), 45);
  EXPECT_DOUBLE_EQ(mixture.share(1), 12 / 45.0);
  Interleave order(mixture.weights, 7);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::pair<size_t, int64_t>> shown;
    for (int64_t i = 0; i < 45; ++i) {
      SourcePlace place = order.at(45 * epoch + i);
      shown.insert(
          {place.source,
           shuffledSample(mixture.ranges[place.source].samples(), 7,
                          place.index, static_cast<int64_t>(place.source))});
    }
    EXPECT_EQ(shown.size(), 45u);
  }
}

// Batches are the same whether a thread has made them ahead or not, and rows
// that are kept are where they are without the others.
TEST_F(MixtureTest, FeederMakesTheSameBatches) {
  Sources sources;
  open({4 * 30 + 1, 4 * 12 + 1, 4 * 3 + 1}, {}, sources);
  constexpr int64_t rows = 5;
  auto rowsFrom = [&](int64_t first) {
    Feeder alone(sources.training, 7, rows, 4);
    std::string error;
    const Batch *batch = alone.next(first, /*isLast=*/true, error);
    return batch ? batch->tokens : std::vector<int32_t>();
  };
  Feeder whole(sources.training, 7, rows, 4),
      part(sources.training, 7, rows, 4);
  part.keepRows({0, 1, 0, 0, 1});
  // In turn, then from another place, as a run that goes on.
  for (int64_t first : {0, 5, 10, 15, 100, 105, 5}) {
    std::string error;
    const Batch *all = whole.next(first, first == 105, error);
    const Batch *some = part.next(first, first == 105, error);
    ASSERT_TRUE(all && some) << error;
    std::vector<int32_t> expected = rowsFrom(first);
    EXPECT_EQ(all->tokens, expected) << first;
    for (int64_t row : {1, 4})
      for (int64_t i = 4 * row; i < 4 * row + 4; ++i)
        EXPECT_EQ(some->tokens[i], expected[i]) << first;
    EXPECT_EQ(some->tokens[0], 0); // nobody made it
  }
}

// What cannot be read is told when its batch is asked for, not before.
TEST_F(MixtureTest, FeederTellsOfBadTokensInTime) {
  SourceOptions options;
  options.vocabulary = 9;
  options.sequence = 4;
  std::vector<uint16_t> tokens(17, 3);
  tokens.insert(tokens.end(), 4, 12);
  options.training.push_back({put("t.bin", bytesOf(tokens)), 0});
  Sources sources;
  int64_t documentEnd = -2;
  std::string error;
  ASSERT_TRUE(openSources(options, sources, documentEnd, error)) << error;
  Feeder feeder(sources.training, 0, 1, 4);
  int64_t bad = -1;
  for (int64_t i = 0; i < 5 && bad < 0; ++i)
    if (!feeder.next(i, false, error))
      bad = i;
  EXPECT_GE(bad, 0);
  EXPECT_FALSE(error.empty());
}

// Files of one length are not shuffled alike; the first one as if it were the
// only one.
TEST_F(MixtureTest, EachSourceHasItsOwnPermutation) {
  auto epoch = [](int64_t source) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < 50; ++i)
      places.push_back(shuffledSample(50, 3, i, source));
    return places;
  };
  EXPECT_NE(epoch(0), epoch(1));
  EXPECT_NE(epoch(1), epoch(2));
  for (int64_t i = 0; i < 50; ++i)
    EXPECT_EQ(epoch(0)[i], shuffledSample(50, 3, i));
}

// The entropy is that of the mixture, not of the files' tokens together.
TEST_F(MixtureTest, EntropyIsThatOfTheMixture) {
  Sources sources;
  open({1000, 50}, {1, 3}, sources);
  double entropy = 0;
  std::string error;
  ASSERT_TRUE(scanSources(sources, entropy, error)) << error;
  EXPECT_NEAR(entropy, -0.25 * std::log(0.25) - 0.75 * std::log(0.75), 1e-12);
}

// Each file keeps its own last part. The evaluation takes them by weight and
// ends before a sample would come again.
TEST_F(MixtureTest, HeldoutIsAPartOfEach) {
  Sources sources;
  open({410, 205}, {1, 1}, sources, 0.2);
  const Mixture &heldout = *sources.heldout;
  ASSERT_EQ(heldout.ranges.size(), 2u);
  EXPECT_EQ(heldout.ranges[0].tokens(), 82);
  EXPECT_EQ(heldout.ranges[1].tokens(), 41);
  EXPECT_EQ(sources.training.ranges[1].tokens(), 164);
  // 20 and 10 samples, half and half.
  EXPECT_EQ(countWithoutRepeat(heldout, 0, 1000), 20);
  EXPECT_EQ(countWithoutRepeat(heldout, 0, 7), 7);
}

TEST_F(MixtureTest, FingerprintTellsMixturesApart) {
  auto fingerprint = [&](const std::vector<int64_t> &weights) {
    Sources sources;
    open({100, 100}, weights, sources);
    return sources.fingerprint();
  };
  EXPECT_EQ(fingerprint({1, 2}), fingerprint({1, 2}));
  EXPECT_NE(fingerprint({1, 2}), fingerprint({2, 1}));
  Sources one;
  open({100}, {5}, one);
  EXPECT_EQ(one.fingerprint(), one.files[0].fingerprint());
}
