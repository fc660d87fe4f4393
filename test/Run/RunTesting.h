//===- RunTesting.h - files for the tests of kerf-run -----------*- C++ -*-===//

#ifndef KERF_TEST_RUN_RUNTESTING_H
#define KERF_TEST_RUN_RUNTESTING_H

#include "kerf/Train/Files.h"

#include "gtest/gtest.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

/// A test with an empty folder of its own.
class FolderTest : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "kerf-run-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string path(const std::string &name) const {
    return folder + "/" + name;
  }
  std::string put(const std::string &name, const std::string &bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::string get(const std::string &name) const {
    std::ifstream file(path(name), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::vector<std::string> entries() const {
    std::vector<std::string> names = kerf::runtime::listFolder(folder);
    std::erase_if(names, [](const std::string &name) {
      return name == "." || name == "..";
    });
    return names;
  }

  std::string folder;
};

/// The little-endian bytes of the values.
template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return std::string(reinterpret_cast<const char *>(values.data()),
                     values.size() * sizeof(T));
}

/// A safetensors file of a header and data.
inline std::string safetensorsOf(const std::string &header,
                                 const std::string &data = "") {
  return bytesOf(std::vector<uint64_t>{header.size()}) + header + data;
}

/// Expects `text` to contain `part`.
#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

#endif // KERF_TEST_RUN_RUNTESTING_H
