//===- CheckpointTest.cpp - weights with Hugging Face names ---------------===//

#include "RunTesting.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Train/Checkpoint.h"
#include "kerf/Train/Json.h"
#include "kerf/Train/Numbers.h"
#include "kerf/Train/Safetensors.h"

#include <bit>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::runtime;

namespace {
struct Tensor {
  std::string name;
  std::vector<float> values;
  std::vector<int64_t> shape;
};

SavedTensor saved(const Tensor &tensor, uint32_t dtype = KERF_F32) {
  return {tensor.name, dtype, tensor.shape,
          [tensor, dtype](void *bytes, std::string &) {
            return fromFloats(dtype, tensor.values.data(),
                              static_cast<int64_t>(tensor.values.size()),
                              bytes);
          }};
}

class CheckpointTest : public FolderTest {
protected:
  std::vector<std::string> save(const std::string &to,
                                const std::vector<Tensor> &tensors,
                                uint64_t shardBytes = 1 << 30) {
    std::vector<SavedTensor> list;
    for (const Tensor &tensor : tensors)
      list.push_back(saved(tensor));
    std::vector<std::string> written;
    std::string error;
    EXPECT_TRUE(saveCheckpoint(to, list, shardBytes, written, error)) << error;
    return written;
  }
  /// Errors of matching the checkpoint at `from` with the model, one per line.
  std::string errorsOf(const std::string &from,
                       const std::vector<ModelTensor> &model) {
    Checkpoint checkpoint;
    std::string error;
    EXPECT_TRUE(checkpoint.open(from, error)) << error;
    std::vector<std::string> errors;
    EXPECT_EQ(matchCheckpoint(checkpoint, model, match, errors),
              errors.empty());
    std::string text;
    for (const std::string &line : errors)
      text += line + "\n";
    return text;
  }
  std::string openError(const std::string &from) {
    Checkpoint checkpoint;
    std::string error;
    EXPECT_FALSE(checkpoint.open(from, error));
    return error;
  }
  /// Error of a file with the one tensor 't' of the given fields.
  std::string tensorError(const std::string &fields, size_t dataBytes) {
    return openError(
        put("t.safetensors", safetensorsOf("{\"t\":{" + fields + "}}",
                                           std::string(dataBytes, '\0'))));
  }

  CheckpointMatch match;
};
} // namespace

//===----------------------------------------------------------------------===//
// Numbers and JSON
//===----------------------------------------------------------------------===//

TEST(NumbersTest, HalfTypesRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float half = fromF16(bits), brain = fromBf16(bits);
    if (!std::isnan(half)) {
      ASSERT_EQ(toF16(half), bits);
    }
    if (!std::isnan(brain)) {
      ASSERT_EQ(toBf16(brain), bits);
    }
  }
  EXPECT_TRUE(std::isnan(fromF16(toF16(NAN))));
  EXPECT_TRUE(std::isnan(fromBf16(toBf16(NAN))));
}

TEST(NumbersTest, RoundsToNearestEven) {
  EXPECT_EQ(fromBf16(toBf16(1 + 0x1p-8f)), 1.0f);
  EXPECT_EQ(fromBf16(toBf16(1 + 0x3p-8f)), 1 + 0x2p-7f);
  EXPECT_EQ(fromF16(toF16(1 + 0x1p-11f)), 1.0f);
  EXPECT_EQ(fromF16(toF16(1 + 0x3p-11f)), 1 + 0x2p-10f);
  EXPECT_EQ(fromF16(toF16(65519.9f)), 65504.0f);
  EXPECT_EQ(fromF16(toF16(65520.0f)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(fromF16(toF16(0x1p-25f)), 0.0f);
  EXPECT_EQ(fromF16(toF16(0x1.8p-25f)), 0x1p-24f);
  EXPECT_EQ(fromF16(toF16(-0x1p-14f)), -0x1p-14f);
}

TEST(JsonTest, Reads) {
  JsonValue value;
  std::string error;
  ASSERT_TRUE(parseJson(" {\"a\": [1, -2.5e1, true, null], \"b\\u00e9\": "
                        "\"x\\n\\ud83d\\ude00\"} ",
                        value, error))
      << error;
  EXPECT_EQ(value.find("a")->array[0].integer, 1);
  EXPECT_FALSE(value.find("a")->array[1].isInteger);
  EXPECT_EQ(value.find("a")->array[1].number, -25.0);
  EXPECT_EQ(value.find("b\u00e9")->string, "x\n\U0001F600");
  EXPECT_EQ(value.find("c"), nullptr);
}

TEST(JsonTest, Refuses) {
  auto errorOf = [](const std::string &text) {
    JsonValue value;
    std::string error;
    EXPECT_FALSE(parseJson(text, value, error)) << text;
    return error;
  };
  EXPECT_EQ(errorOf("{\"a\":1,\"a\":2}"), "byte 10: key 'a' is there twice");
  EXPECT_HAS(errorOf(""), "expected a value");
  EXPECT_HAS(errorOf("01"), "expected a value");
  EXPECT_HAS(errorOf("1 2"), "expected the end");
  EXPECT_HAS(errorOf("[1"), "expected ',' or ']'");
  EXPECT_HAS(errorOf("{1}"), "expected a key");
  EXPECT_HAS(errorOf("\"a"), "string without end");
  EXPECT_HAS(errorOf("\"\\x\""), "unknown escape");
  EXPECT_HAS(errorOf("\"\\ud800\""), "surrogate");
  EXPECT_HAS(errorOf(std::string(100000, '[')), "deeper than 64");
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

TEST_F(CheckpointTest, RoundTripsAFile) {
  std::string file = path("w.safetensors");
  save(file, {{"a", {1, 2, 3, 4, 5, 6}, {2, 3}}, {"b", {7}, {}}});
  EXPECT_EQ(entries(), (std::vector<std::string>{"w.safetensors"}));
  EXPECT_EQ(errorsOf(file, {{"a", {2, 3}}, {"b", {}}}), "");
  Checkpoint checkpoint;
  std::string error;
  ASSERT_TRUE(checkpoint.open(file, error));
  float values[6];
  ASSERT_TRUE(readTensor(checkpoint, *checkpoint.find("a"), values, error));
  EXPECT_EQ(values[5], 6.0f);
  SafetensorsFile opened;
  ASSERT_TRUE(opened.open(file, error));
  EXPECT_EQ(opened.metadata().at("format"), "pt");
  EXPECT_EQ((opened.data(opened.tensors()[0]) - opened.dataBegin()) % 8, 0);
}

// A process that is killed while it saves leaves its temporary file: the next
// save removes it, and none that a living process holds, or that is no such
// one.
TEST_F(CheckpointTest, RemovesAbandonedFiles) {
  std::string file = path("w.safetensors"), error;
  for (const char *name : {".tmp-1", ".tmp-12", ".tmp-old", ".bak", "2.tmp-1"})
    ASSERT_TRUE(writeFile(file + name, "x", error)) << error;
  int held = open((file + ".tmp-12").c_str(), O_RDONLY);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  save(file, {{"a", {1}, {1}}});
  EXPECT_EQ(entries(),
            (std::vector<std::string>{
                "w.safetensors", "w.safetensors.bak", "w.safetensors.tmp-12",
                "w.safetensors.tmp-old", "w.safetensors2.tmp-1"}));
  // While it is written, a file is held by itself.
  OutputFile first;
  ASSERT_TRUE(first.open(file, error)) << error;
  int other =
      open((file + ".tmp-" + std::to_string(getpid())).c_str(), O_RDONLY);
  EXPECT_NE(flock(other, LOCK_EX | LOCK_NB), 0);
  ASSERT_TRUE(first.finish(error)) << error;
  EXPECT_NE(flock(other, LOCK_EX | LOCK_NB), 0);
  ASSERT_TRUE(first.publish(error)) << error;
  EXPECT_EQ(flock(other, LOCK_EX | LOCK_NB), 0);
  close(other);
  close(held);
}

TEST_F(CheckpointTest, WritesShardsAndIndex) {
  save(path("dir"), {{"a", {1, 2}, {2}}}, 1 << 20);
  EXPECT_TRUE(fileExists(path("dir/model.safetensors")));
  std::vector<std::string> written =
      save(path("dir"),
           {{"a", {1, 2}, {2}}, {"b", {3, 4}, {2}}, {"c", {5}, {1}}}, 12);
  ASSERT_EQ(written.size(), 3u);
  EXPECT_HAS(written[0], "model-00001-of-00002.safetensors");
  // The single file would be read first.
  EXPECT_FALSE(fileExists(path("dir/model.safetensors")));
  std::vector<ModelTensor> model = {{"a", {2}}, {"b", {2}}, {"c", {1}}};
  EXPECT_EQ(errorsOf(path("dir"), model), "");
  EXPECT_EQ(errorsOf(path("dir/model.safetensors.index.json"), model), "");
  save(path("dir"), {{"a", {1, 2}, {2}}}, 1 << 20);
  EXPECT_FALSE(fileExists(path("dir/model.safetensors.index.json")));
  EXPECT_EQ(errorsOf(path("dir"), {{"a", {2}}}), "");
}

// Who reads all files of a folder finds one model there.
TEST_F(CheckpointTest, RemovesShardsOfEarlierSaves) {
  std::vector<Tensor> tensors = {
      {"a", {1, 2}, {2}}, {"b", {3, 4}, {2}}, {"c", {5}, {1}}};
  save(path("dir"), tensors, 8);
  EXPECT_TRUE(fileExists(path("dir/model-00003-of-00003.safetensors")));
  std::string error;
  std::string own = path("dir/model-9-of-9.safetensors");
  ASSERT_TRUE(writeFile(own, "x", error)) << error;
  save(path("dir"), tensors, 12);
  EXPECT_FALSE(fileExists(path("dir/model-00003-of-00003.safetensors")));
  EXPECT_TRUE(fileExists(path("dir/model-00002-of-00002.safetensors")));
  save(path("dir"), tensors, 1 << 20);
  EXPECT_FALSE(fileExists(path("dir/model-00002-of-00002.safetensors")));
  EXPECT_TRUE(fileExists(path("dir/model.safetensors")));
  EXPECT_TRUE(fileExists(own));
}

// A pipe is written to; where links lead is known.
TEST_F(CheckpointTest, WritesToPipesAndBehindLinks) {
  std::string error, pipe = path("pipe"), real = path("real");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_TRUE(tryFile(pipe, error)) << error; // waits for no reader
  int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(writeFile(pipe, "text", error)) << error;
  char bytes[9] = {};
  EXPECT_EQ(read(reader, bytes, sizeof bytes), 4);
  EXPECT_STREQ(bytes, "text");
  close(reader);
  struct stat status;
  ASSERT_EQ(lstat(pipe.c_str(), &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));
  ASSERT_TRUE(writeFile(real, "old", error)) << error;
  ASSERT_EQ(symlink("real", path("link").c_str()), 0);
  ASSERT_EQ(symlink("link", path("again").c_str()), 0);
  EXPECT_EQ(behindLinks(path("again")), real);
  EXPECT_EQ(behindLinks(real), real);
  ASSERT_EQ(symlink("/none", path("dangling").c_str()), 0);
  EXPECT_EQ(behindLinks(path("dangling")), "/none");
  // In folders that are saved a link is replaced: others own where it leads.
  ASSERT_TRUE(writeFile(path("link"), "new!", error)) << error;
  ASSERT_EQ(lstat(path("link").c_str(), &status), 0);
  EXPECT_TRUE(S_ISREG(status.st_mode));
  ASSERT_EQ(stat(real.c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 3);
}

TEST_F(CheckpointTest, RefusesBadFiles) {
  EXPECT_HAS(openError(path("none")), "No such file");
  EXPECT_HAS(openError(folder), "has neither 'model.safetensors' nor");
  EXPECT_HAS(openError(put("a", "abc")), "truncated: expected 8 bytes");
  EXPECT_HAS(openError(put("a", bytesOf(std::vector<uint64_t>{1000}))),
             "goes beyond the file");
  EXPECT_HAS(openError(put("a", safetensorsOf("{"))), "header byte 1");
  EXPECT_HAS(openError(put("a", safetensorsOf("[]"))), "to be an object");
  EXPECT_HAS(openError(put("a", safetensorsOf("{\"x\":{},\"x\":{}}"))),
             "key 'x' is there twice");
  EXPECT_HAS(openError(put("a", safetensorsOf("{}", "x"))),
             "1 bytes after the last tensor");
  EXPECT_HAS(tensorError("", 0), "tensor 't' has no string 'dtype'");
  EXPECT_HAS(tensorError("\"dtype\":\"F31\"", 0), "unknown dtype 'F31'");
  std::string f32 = "\"dtype\":\"F32\",";
  EXPECT_HAS(tensorError(f32 + "\"shape\":[-1],\"data_offsets\":[0,4]", 4),
             "no 'shape' of non-negative integers");
  EXPECT_HAS(tensorError(f32 + "\"shape\":[1],\"data_offsets\":[4,0]", 4),
             "no 'data_offsets'");
  EXPECT_HAS(tensorError(f32 + "\"shape\":[2],\"data_offsets\":[0,4]", 4),
             "needs 8 bytes by shape and dtype");
  EXPECT_HAS(tensorError(f32 + "\"shape\":[1],\"data_offsets\":[0,4]", 3),
             "truncated: tensor 't' ends at byte 4, the data has 3");
  EXPECT_HAS(tensorError(f32 + "\"shape\":[1],\"data_offsets\":[4,8]", 8),
             "hole in the data");
  EXPECT_HAS(tensorError(f32 + "\"shape\":[4611686018427387904,4],"
                               "\"data_offsets\":[0,0]",
                         0),
             "overflows 64 bits");
}

TEST_F(CheckpointTest, RefusesBadIndexes) {
  save(path("x.safetensors"), {{"a", {1}, {1}}});
  save(path("y.safetensors"), {{"a", {1}, {1}}, {"b", {1}, {1}}});
  auto index = [&](const std::string &text) {
    put("model.safetensors.index.json", text);
    return openError(folder);
  };
  EXPECT_HAS(index("{"), "index.json': byte 1");
  EXPECT_HAS(index("{}"), "expected an object 'weight_map'");
  EXPECT_HAS(index("{\"weight_map\":{\"a\":\"../x\"}}"),
             "expected the name of a file in this folder for tensor 'a'");
  EXPECT_HAS(index("{\"weight_map\":{\"a\":\"z.safetensors\"}}"),
             "z.safetensors': No such file");
  EXPECT_HAS(index("{\"weight_map\":{\"c\":\"x.safetensors\"}}"),
             "tensor 'c' is not in 'x.safetensors'");
  EXPECT_HAS(index("{\"weight_map\":{\"a\":\"x.safetensors\","
                   "\"b\":\"y.safetensors\"}}"),
             "tensor 'a' is in two files");
}

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

TEST_F(CheckpointTest, ClaimsEachTensorOnce) {
  std::string file = path("w.safetensors");
  save(file, {{"m.a", {1, 2}, {2}}, {"m.b", {1, 2}, {2}}});
  EXPECT_EQ(errorsOf(file, {{"m.a", {2}}, {"m.b", {2}}}), "");
  EXPECT_HAS(errorsOf(file, {{"m.a", {2}}, {"m.b", {2}}, {"m.c", {4, 5}}}),
             "tensor 'm.c' of shape [4 x 5] is missing");
  EXPECT_HAS(errorsOf(file, {{"m.a", {2}}}),
             "unexpected tensor 'm.b' of shape [2]");
  EXPECT_HAS(errorsOf(file, {{"m.a", {2}}, {"m.b", {1, 2}}}),
             "tensor 'm.b' has the shape [2], the model expects [1 x 2]");
  EXPECT_HAS(errorsOf(file, {{"m.a", {2}}, {"m.b", {2}}, {"m.a", {2}}}),
             "tensor 'm.a' is claimed by two parameters");
  put("i.safetensors", safetensorsOf("{\"a\":{\"dtype\":\"I32\",\"shape\":[1],"
                                     "\"data_offsets\":[0,4]}}",
                                     "abcd"));
  EXPECT_HAS(errorsOf(path("i.safetensors"), {{"a", {1}}}),
             "tensor 'a' has the dtype 'I32', expected 'F32', 'BF16' or 'F16'");
}

// Of experts that are kept in codes all are codes.
TEST_F(CheckpointTest, TakesCodesWhereAllAreCodes) {
  put("c.safetensors", safetensorsOf("{\"e.0\":{\"dtype\":\"I8\",\"shape\":[4],"
                                     "\"data_offsets\":[0,4]},"
                                     "\"e.1\":{\"dtype\":\"F32\",\"shape\":[4],"
                                     "\"data_offsets\":[4,20]}}",
                                     std::string(20, 'x')));
  EXPECT_EQ(errorsOf(path("c.safetensors"), {{"e.0", {4}, true}, {"e.1", {4}}}),
            "");
  EXPECT_HAS(
      errorsOf(path("c.safetensors"), {{"e.0", {4}, true}, {"e.1", {4}, true}}),
      "tensor 'e.1' has the dtype 'F32', expected 'I8': others of its "
      "parameter are codes");
}

TEST_F(CheckpointTest, AddsTheCommonPrefix) {
  std::string file = path("w.safetensors");
  save(file, {{"a", {1}, {1}}, {"b", {2}, {1}}});
  EXPECT_EQ(errorsOf(file, {{"transformer.a", {1}}, {"transformer.b", {1}}}),
            "");
  ASSERT_EQ(match.notes.size(), 1u);
  EXPECT_HAS(match.notes[0], "lack the prefix 'transformer.'");
  // Not when some would still be missing.
  EXPECT_HAS(errorsOf(file, {{"transformer.a", {1}},
                             {"transformer.b", {1}},
                             {"transformer.c", {1}}}),
             "'transformer.a' of shape [1] is missing");
}

TEST_F(CheckpointTest, AcceptsTiedHeadsAndConstantBuffers) {
  std::vector<ModelTensor> model = {{"wte.weight", {2}}};
  std::string file = path("w.safetensors");
  save(file, {{"wte.weight", {1, 2}, {2}},
              {"lm_head.weight", {1, 2}, {2}},
              {"h.0.attn.bias", {1}, {1}},
              {"h.0.rotary_emb.inv_freq", {1}, {1}}});
  EXPECT_EQ(errorsOf(file, model), "");
  ASSERT_EQ(match.notes.size(), 2u);
  EXPECT_HAS(match.notes[0], "'lm_head.weight' equals 'wte.weight'");
  EXPECT_HAS(match.notes[1], "ignored 2 constant buffers");
  save(file, {{"wte.weight", {1, 2}, {2}}, {"lm_head.weight", {1, 3}, {2}}});
  EXPECT_HAS(errorsOf(file, model), "differs from the embedding");
  save(file, {{"lm_head.weight", {1, 3}, {2}}});
  EXPECT_HAS(errorsOf(file, model),
             "tensor 'wte.weight' of shape [2] is missing");
  EXPECT_HAS(errorsOf(file, model), "unexpected tensor 'lm_head.weight'");
  save(file, {{"wte.weight", {1, 2}, {2}}, {"h.c_attn.bias", {1}, {1}}});
  EXPECT_HAS(errorsOf(file, model), "unexpected tensor 'h.c_attn.bias'");
}

TEST_F(CheckpointTest, NamesTensorsThatAreNotFinite) {
  for (float bad : {NAN, INFINITY}) {
    std::string error;
    float written[] = {1, bad, 3};
    SafetensorsWriter writer;
    writer.declare("a", KERF_F32, {3});
    ASSERT_TRUE(writer.open(path("w.safetensors"), error) &&
                writer.append(written, sizeof written, error) &&
                writer.finish(error) && writer.publish(error))
        << error;
    Checkpoint checkpoint;
    ASSERT_TRUE(checkpoint.open(path("w.safetensors"), error));
    float values[3];
    EXPECT_FALSE(readTensor(checkpoint, *checkpoint.find("a"), values, error));
    EXPECT_HAS(error, "tensor 'a' is not finite: element 1 is");
  }
}

// What is there stays: no file is put in its place.
TEST_F(CheckpointTest, SavesNothingThatIsNotFinite) {
  save(path("w.safetensors"), {{"a", {1, 2, 3}, {3}}});
  for (uint32_t dtype : {KERF_F32, KERF_BF16, KERF_F16})
    for (float bad : {NAN, -INFINITY}) {
      std::vector<std::string> written;
      std::string error;
      EXPECT_FALSE(saveCheckpoint(path("w.safetensors"),
                                  {saved({"a", {1, 2, bad}, {3}}, dtype)}, 1,
                                  written, error));
      EXPECT_HAS(error, "element 2 of 'a' is ");
    }
  Checkpoint checkpoint;
  std::string error;
  ASSERT_TRUE(checkpoint.open(path("w.safetensors"), error));
  float values[3];
  EXPECT_TRUE(readTensor(checkpoint, *checkpoint.find("a"), values, error));
}

TEST_F(CheckpointTest, ConvertsHalfTypes) {
  for (uint32_t dtype : {KERF_BF16, KERF_F16}) {
    std::vector<std::string> written;
    std::string error;
    ASSERT_TRUE(saveCheckpoint(path("w.safetensors"),
                               {saved({"a", {0.5, -2}, {2}}, dtype)}, 1,
                               written, error));
    Checkpoint checkpoint;
    ASSERT_TRUE(checkpoint.open(path("w.safetensors"), error));
    float values[2];
    ASSERT_TRUE(readTensor(checkpoint, *checkpoint.find("a"), values, error));
    EXPECT_EQ(values[0], 0.5f);
    EXPECT_EQ(values[1], -2.0f);
  }
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

TEST_F(CheckpointTest, KeepsTheOldFileWhenTheDiskIsFull) {
  std::string file = path("w.safetensors");
  save(file, {{"a", {1}, {1}}});
  std::string before = get("w.safetensors");
  // A limit on file sizes stands for the full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old, low;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  low = old;
  low.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  std::vector<std::string> written;
  std::string error;
  Tensor large{"a", std::vector<float>(4096), {4096}};
  EXPECT_FALSE(saveCheckpoint(file, {saved(large)}, 1 << 30, written, error));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_HAS(error, "cannot write");
  EXPECT_HAS(error, "w.safetensors'");
  EXPECT_EQ(get("w.safetensors"), before);
  EXPECT_EQ(entries(), (std::vector<std::string>{"w.safetensors"}));
}

TEST_F(CheckpointTest, SaysWhyAFolderCannotBeMade) {
  put("file", "x");
  std::vector<std::string> written;
  std::string error;
  EXPECT_FALSE(saveCheckpoint(path("file/dir"), {}, 1, written, error));
  EXPECT_HAS(error, "cannot make the folder");
}
