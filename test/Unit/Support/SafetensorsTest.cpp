//===- SafetensorsTest.cpp - Read and write safetensors files -------------===//

#include "kerf/Support/Safetensors.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace kerf::safetensors;
using llvm::FailureOr;
using llvm::MemoryBuffer;
using llvm::StringRef;
using llvm::Twine;
namespace fs = llvm::sys::fs;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The bytes of a file with the given header and data.
std::string makeFile(const Twine &header, const Twine &data = "") {
  std::string text = header.str();
  char length[8];
  llvm::support::endian::write64le(length, text.size());
  return std::string(length, 8) + text + data.str();
}

FailureOr<File> parseBytes(StringRef bytes, std::string &error) {
  return File::parse(MemoryBuffer::getMemBufferCopy(bytes), error);
}

std::string errorOf(StringRef bytes) {
  std::string error;
  EXPECT_TRUE(failed(parseBytes(bytes, error)));
  return error;
}

/// One tensor 't' of the given fields, over `dataBytes` zeros.
std::string errorOfTensor(StringRef fields, size_t dataBytes) {
  return errorOf(
      makeFile("{\"t\":{" + fields + "}}", std::string(dataBytes, '\0')));
}

class SafetensorsTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(fs::createUniqueDirectory("kerf-safetensors", directory));
    llvm::SmallString<128> target = directory;
    llvm::sys::path::append(target, "t.safetensors");
    path = target.str().str();
  }
  void TearDown() override { fs::remove_directories(directory); }

  bool writeOne(DType dtype, std::vector<double> values) {
    int64_t size = values.size();
    NamedTensor tensor{"t", dtype, {size}, std::move(values)};
    return succeeded(write(path, tensor, {}, error));
  }
  /// The values of the first tensor of the file.
  std::vector<double> readFirst() {
    FailureOr<File> file = File::open(path, error);
    if (failed(file) || file->tensors().empty()) {
      ADD_FAILURE() << error;
      return {};
    }
    FailureOr<std::vector<double>> values =
        file->readAsDouble(file->tensors().front(), error);
    EXPECT_TRUE(succeeded(values)) << error;
    return succeeded(values) ? *values : std::vector<double>();
  }

  llvm::SmallString<128> directory;
  std::string path;
  std::string error;
};

TEST_F(SafetensorsTest, ReadsAFileWrittenByHand) {
  std::string bytes = makeFile(
      "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"b\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[8,12]},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],"
      "\"data_offsets\":[0,8]}}  ",
      StringRef("\0\0\x80\x3f\0\0\0\xc0\x01\0\xff\xff", 12));
  FailureOr<File> file = parseBytes(bytes, error);
  ASSERT_TRUE(succeeded(file)) << error;
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors()[0].name, "a");
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(file->find("c"), nullptr);
  EXPECT_EQ(file->find("__metadata__"), nullptr);

  const TensorInfo *a = file->find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, DType::F32);
  EXPECT_EQ(a->shape, (llvm::SmallVector<int64_t>{2, 1}));
  EXPECT_EQ(a->getNumElements(), 2);
  EXPECT_EQ(*file->readAsDouble(*a, error), (std::vector<double>{1.0, -2.0}));
  const TensorInfo *b = file->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(file->getData(*b), StringRef("\x01\0\xff\xff", 4));
  EXPECT_EQ(*file->readAsDouble(*b, error), (std::vector<double>{1.0, -1.0}));
}

TEST_F(SafetensorsTest, RoundTripsEveryDType) {
  std::vector<NamedTensor> tensors = {
      {"f64", DType::F64, {2}, {0.1, -1e300}},
      {"f32", DType::F32, {2}, {0.5, -0x1p-149}},
      {"f16", DType::F16, {2}, {65504.0, 0x1p-24}},
      {"bf16", DType::BF16, {2}, {-1.0078125, 0x1p127}},
      {"i64", DType::I64, {2}, {-0x1p63, 0x1p53}},
      {"i32", DType::I32, {2}, {-2147483648.0, 2147483647.0}},
      {"i16", DType::I16, {2}, {-32768.0, 32767.0}},
      {"i8", DType::I8, {2}, {-128.0, 127.0}},
      {"u8", DType::U8, {2}, {0.0, 255.0}},
      {"bool", DType::BOOL, {2}, {0.0, 1.0}},
      {"scalar", DType::F32, {}, {3.0}},
      {"empty", DType::F32, {0, 5}, {}},
      {"n\"\n\xc3\xa9", DType::F64, {1, 2, 1}, {infinity, -infinity}},
  };
  Metadata metadata = {{"format", "pt"}, {"note", "a \"b\""}};
  ASSERT_TRUE(succeeded(write(path, tensors, metadata, error))) << error;
  FailureOr<File> file = File::open(path, error);
  ASSERT_TRUE(succeeded(file)) << error;
  EXPECT_EQ(file->metadata(), metadata);
  ASSERT_EQ(file->tensors().size(), tensors.size());
  for (const NamedTensor &tensor : tensors) {
    const TensorInfo *info = file->find(tensor.name);
    ASSERT_NE(info, nullptr) << tensor.name;
    EXPECT_EQ(info->dtype, tensor.dtype) << tensor.name;
    EXPECT_EQ(info->shape, tensor.shape) << tensor.name;
    EXPECT_EQ(info->begin % getDTypeSizeBytes(info->dtype), 0u) << tensor.name;
    EXPECT_EQ(*file->readAsDouble(*info, error), tensor.values) << tensor.name;
  }
}

TEST_F(SafetensorsTest, BytesDoNotDependOnTheOrderOfTheTensors) {
  NamedTensor a{"a", DType::F32, {1}, {1}};
  NamedTensor b{"b", DType::F64, {1}, {2}};
  ASSERT_TRUE(succeeded(write(path, {a, b}, {}, error)));
  auto first = MemoryBuffer::getFile(path, false, false, true);
  ASSERT_TRUE(succeeded(write(path, {b, a}, {}, error)));
  auto second = MemoryBuffer::getFile(path, false, false, true);
  EXPECT_EQ((*first)->getBuffer(), (*second)->getBuffer());
  uint64_t header = llvm::support::endian::read64le((*first)->getBufferStart());
  EXPECT_EQ(header % 8, 0u);
  EXPECT_EQ((*first)->getBufferSize(), 8 + header + 12);
}

TEST_F(SafetensorsTest, ManyValuesRoundTrip) {
  std::vector<double> values;
  for (int i = 0; i < 20000; ++i)
    values.push_back(i - 10000);
  ASSERT_TRUE(writeOne(DType::I16, values)) << error;
  EXPECT_EQ(readFirst(), values);
}

TEST_F(SafetensorsTest, DecodesEveryHalf) {
  std::string data;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    data.push_back(static_cast<char>(bits & 0xff));
    data.push_back(static_cast<char>(bits >> 8));
  }
  for (StringRef dtype : {"F16", "BF16"}) {
    std::string header = ("{\"t\":{\"dtype\":\"" + dtype +
                          "\",\"shape\":[65536],\"data_offsets\":[0,131072]}}")
                             .str();
    FailureOr<File> file = parseBytes(makeFile(header, data), error);
    ASSERT_TRUE(succeeded(file)) << error;
    std::vector<double> values =
        *file->readAsDouble(file->tensors().front(), error);
    const llvm::fltSemantics &semantics =
        dtype == "F16" ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat();
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      double expected =
          llvm::APFloat(semantics, llvm::APInt(16, bits)).convertToDouble();
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(values[bits])) << bits;
        continue;
      }
      EXPECT_EQ(values[bits], expected) << bits;
      EXPECT_EQ(std::signbit(values[bits]), std::signbit(expected)) << bits;
    }
  }
}

TEST_F(SafetensorsTest, RoundsToNearestEvenOnce) {
  // Halfway between two values goes to the even one; a bit more goes up, also
  // where rounding through F32 first would lose that bit.
  double half = 1.0 + 0x1p-8;
  ASSERT_TRUE(writeOne(DType::BF16, {half, half + 0x1p-40, 1 + 3 * 0x1p-8}));
  EXPECT_EQ(readFirst(),
            (std::vector<double>{1.0, 1.0 + 0x1p-7, 1.0 + 0x1p-6}));
  double halfOfF16 = 1.0 + 0x1p-11;
  ASSERT_TRUE(writeOne(DType::F16, {halfOfF16, halfOfF16 + 0x1p-40}));
  EXPECT_EQ(readFirst(), (std::vector<double>{1.0, 1.0 + 0x1p-10}));
}

TEST_F(SafetensorsTest, RefusesValuesTheDTypeCannotHold) {
  ASSERT_TRUE(writeOne(DType::F32, {7.0}));
  struct Case {
    DType dtype;
    double value;
  };
  const Case cases[] = {
      {DType::I8, 128},     {DType::I8, -129},     {DType::U8, -1},
      {DType::U8, 256},     {DType::I16, 32768},   {DType::I32, 0x1p31},
      {DType::I64, 0x1p63}, {DType::BOOL, 2},      {DType::I32, 0.5},
      {DType::I32, NAN},    {DType::F16, 65520.0}, {DType::BF16, 1e39},
      {DType::F32, 1e39},
  };
  for (const Case &bad : cases)
    EXPECT_FALSE(writeOne(bad.dtype, {0, bad.value}))
        << getDTypeName(bad.dtype).str() << " " << bad.value;
  EXPECT_FALSE(writeOne(DType::I8, {0, 1.5}));
  EXPECT_EQ(error, "tensor 't': element 1 is 1.5, which I8 cannot hold");
  EXPECT_EQ(readFirst(), std::vector<double>{7.0});
  EXPECT_TRUE(writeOne(DType::F16, {65519.0, NAN, -infinity}));
}

TEST_F(SafetensorsTest, RefusesBadTensorsToWrite) {
  auto errorOfWrite = [&](llvm::ArrayRef<NamedTensor> tensors) {
    EXPECT_TRUE(failed(write(path, tensors, {}, error)));
    EXPECT_FALSE(fs::exists(path));
    return error;
  };
  NamedTensor good{"a", DType::U8, {1}, {1}};
  EXPECT_EQ(errorOfWrite({good, good}), "two tensors are named 'a'");
  EXPECT_EQ(errorOfWrite({{"__metadata__", DType::U8, {}, {1}}}),
            "tensor '__metadata__': name is reserved");
  EXPECT_EQ(errorOfWrite({{"\xff", DType::U8, {}, {1}}}),
            "name of a tensor is not valid UTF-8");
  EXPECT_EQ(errorOfWrite({{"a", DType::U8, {2, 3}, {1}}}),
            "tensor 'a': expected 6 values for its shape, found 1");
  EXPECT_EQ(errorOfWrite({{"a", DType::U8, {-1}, {}}}),
            "tensor 'a': shape is negative or overflows 64 bits");
  int64_t large = int64_t(1) << 32;
  EXPECT_EQ(errorOfWrite({{"a", DType::U8, {large, large}, {}}}),
            "tensor 'a': shape is negative or overflows 64 bits");
  EXPECT_TRUE(failed(write(path, good, {{"k", "\xff"}}, error)));
  EXPECT_EQ(error, "metadata is not valid UTF-8");
}

TEST_F(SafetensorsTest, ReportsFilesThatCannotBeOpened) {
  EXPECT_TRUE(failed(File::open(path, error)));
  EXPECT_EQ(error, "cannot open: No such file or directory");
  EXPECT_TRUE(failed(File::open(directory, error)));
  EXPECT_EQ(error, "expected a regular file");
  EXPECT_TRUE(failed(File::open("/dev/zero", error)));
  EXPECT_EQ(error, "expected a regular file");
}

TEST_F(SafetensorsTest, RefusesBadHeaderLengths) {
  EXPECT_EQ(errorOf("abc"), "expected 8 bytes of header length, found 3 bytes");
  EXPECT_EQ(errorOf(StringRef("\x03\0\0\0\0\0\0\0{}", 10)),
            "header of 3 bytes goes beyond the file, which has 2 bytes left");
  EXPECT_EQ(errorOf(StringRef("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)),
            "header of 18446744073709551615 bytes is larger than the limit of "
            "100000000");
}

TEST_F(SafetensorsTest, RefusesBadHeaders) {
  EXPECT_EQ(errorOf(makeFile("{\"a\"}")),
            "header 1:5: expected ':' after key 'a', found '}'");
  EXPECT_EQ(errorOf(makeFile("[]")),
            "header 1:1: expected the header to be an object, found an array");
  EXPECT_EQ(errorOf(makeFile("{\"a\":1}")),
            "header 1:6: expected tensor 'a' to be an object, found a number");
  EXPECT_EQ(errorOf(makeFile("{\"__metadata__\":1}")),
            "header 1:17: expected '__metadata__' to be an object, found a "
            "number");
  EXPECT_EQ(errorOf(makeFile("{\"__metadata__\":{\"k\":1}}")),
            "header 1:22: expected metadata 'k' to be a string, found a "
            "number");
  StringRef tensor = "\"t\":{\"dtype\":\"U8\",\"shape\":[0],"
                     "\"data_offsets\":[0,0]}";
  EXPECT_EQ(errorOf(makeFile("{" + tensor + "," + tensor + "}")),
            "header 1:54: duplicate key 't', first written at 1:2");
  EXPECT_EQ(errorOf(makeFile(std::string(100000, '['))),
            "header 1:257: nesting is deeper than 256");
}

TEST_F(SafetensorsTest, RefusesBadFields) {
  EXPECT_EQ(errorOfTensor("", 0), "header 1:6: tensor 't' has no 'dtype'");
  EXPECT_EQ(errorOfTensor("\"dtype\":1", 0),
            "header 1:15: expected 'dtype' of tensor 't' to be a string, found "
            "a number");
  EXPECT_EQ(errorOfTensor("\"x\":1", 0),
            "header 1:7: unknown field 'x' of tensor 't'");
  auto errorOfFields = [](StringRef dtype, StringRef shape, StringRef offsets,
                          size_t dataBytes = 4) {
    std::string fields = ("\"dtype\":\"" + dtype + "\",\n\"shape\":" + shape +
                          ",\n\"data_offsets\":" + offsets)
                             .str();
    return errorOfTensor(fields, dataBytes);
  };
  EXPECT_EQ(errorOfFields("F4", "[1]", "[0,4]"),
            "header 1:15: unknown dtype 'F4' of tensor 't'");
  EXPECT_EQ(errorOfFields("F32", "[-1]", "[0,4]"),
            "header 2:10: expected a non-negative 64-bit integer in 'shape', "
            "found -1");
  EXPECT_EQ(errorOfFields("F32", "[1.0]", "[0,4]"),
            "header 2:10: expected a non-negative 64-bit integer in 'shape', "
            "found 1.0");
  EXPECT_EQ(errorOfFields("F32", "[[]]", "[0,4]"),
            "header 2:10: expected a non-negative 64-bit integer in 'shape', "
            "found an array");
  EXPECT_EQ(errorOfFields("F32", "[4294967296,4294967296]", "[0,4]"),
            "header 2:9: size of tensor 't' overflows 64 bits");
  EXPECT_EQ(errorOfFields("F32", "[2]", "[0,4]"),
            "header 1:6: tensor 't' needs 8 bytes by shape and dtype, "
            "'data_offsets' gives 4");
  EXPECT_EQ(errorOfFields("F32", "[1]", "[0,4,8]"),
            "header 3:16: expected two 'data_offsets' of tensor 't', found 3");
  EXPECT_EQ(errorOfFields("F32", "[1]", "[4,0]"),
            "header 3:16: tensor 't' ends at 0, before its begin at 4");
  EXPECT_EQ(errorOfFields("F32", "[1]", "[4,8]"),
            "tensor 't' ends at byte 8, the data has 4");
  EXPECT_EQ(errorOfFields("F32", "[1]", "[1,5]", 5),
            "tensor 't' begins at byte 1, expected 0 (hole in the data)");
  EXPECT_EQ(errorOfFields("F32", "[1]", "[0,4]", 6),
            "2 bytes after the last tensor, expected none");
}

TEST_F(SafetensorsTest, RefusesOverlap) {
  StringRef tensor = "{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":";
  EXPECT_EQ(
      errorOf(makeFile(
          "{\"a\":" + tensor + "[0,4]},\"b\":" + tensor + "[2,6]}}", "123456")),
      "tensor 'b' begins at byte 2, expected 4 (tensors overlap)");
  EXPECT_EQ(
      errorOf(makeFile(
          "{\"a\":" + tensor + "[0,4]},\"b\":" + tensor + "[0,4]}}", "1234")),
      "tensor 'b' begins at byte 0, expected 4 (tensors overlap)");
}

TEST_F(SafetensorsTest, RefusesValuesNoDoubleHolds) {
  auto errorOfRead = [&](StringRef dtype, StringRef data) {
    std::string header =
        ("{\"t\":{\"dtype\":\"" + dtype +
         "\",\"shape\":[1],\"data_offsets\":[0," + Twine(data.size()) + "]}}")
            .str();
    FailureOr<File> file = parseBytes(makeFile(header, data), error);
    EXPECT_TRUE(succeeded(file)) << error;
    if (succeeded(file))
      EXPECT_TRUE(failed(file->readAsDouble(file->tensors().front(), error)));
    return error;
  };
  EXPECT_EQ(errorOfRead("BOOL", "\x02"),
            "tensor 't': element 0 is byte 2, expected 0 or 1 for BOOL");
  EXPECT_EQ(errorOfRead("I64", StringRef("\x01\0\0\0\0\0\x20\0", 8)),
            "tensor 't': element 0 is 9007199254740993, which a 64-bit float "
            "cannot hold exactly");
  EXPECT_EQ(errorOfRead("I64", "\xff\xff\xff\xff\xff\xff\xff\x7f"),
            "tensor 't': element 0 is 9223372036854775807, which a 64-bit "
            "float cannot hold exactly");
}

/// The bytes of a small good file.
std::string makeSmallFile() {
  return makeFile("{\"__metadata__\":{\"k\":\"v\"},"
                  "\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],"
                  "\"data_offsets\":[0,8]},"
                  "\"b\":{\"dtype\":\"BOOL\",\"shape\":[],"
                  "\"data_offsets\":[8,9]}}",
                  "abcdefgh\x01");
}

TEST_F(SafetensorsTest, RefusesEveryTruncation) {
  std::string bytes = makeSmallFile();
  ASSERT_TRUE(succeeded(parseBytes(bytes, error))) << error;
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(errorOf(StringRef(bytes).take_front(size)).empty()) << size;
}

TEST_F(SafetensorsTest, SurvivesEveryChangedByte) {
  std::string bytes = makeSmallFile();
  int numAccepted = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(byte);
      std::string message;
      FailureOr<File> file = parseBytes(changed, message);
      EXPECT_NE(succeeded(file), !message.empty()) << i << " " << byte;
      if (failed(file))
        continue;
      ++numAccepted;
      for (const TensorInfo &info : file->tensors())
        (void)file->readAsDouble(info, message);
    }
  }
  EXPECT_GT(numAccepted, 9 * 256 - 1);
}

} // namespace
