//===- OutputTest.cpp - Write files whole or not at all -------------------===//

#include "kerf/Support/Output.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

#include <csignal>
#include <cstdio>
#include <sys/resource.h>
#include <unistd.h>

using kerf::writeFileAtomically;
using llvm::raw_ostream;
using llvm::StringRef;
namespace fs = llvm::sys::fs;

namespace {

std::string readFile(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : "<no file>";
}

class OutputTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(fs::createUniqueDirectory("kerf-output", directory));
    llvm::SmallString<128> target = directory;
    llvm::sys::path::append(target, "out.txt");
    path = target.str().str();
  }
  void TearDown() override { fs::remove_directories(directory); }

  bool write(StringRef text) { return writeTo(path, text); }
  bool writeTo(StringRef file, StringRef text) {
    error.clear();
    return succeeded(
        writeFileAtomically(file, [&](raw_ostream &os) { os << text; }, error));
  }
  int countFiles() const {
    int count = 0;
    std::error_code code;
    for (fs::directory_iterator it(directory, code), end; it != end && !code;
         it.increment(code))
      ++count;
    return count;
  }

  llvm::SmallString<128> directory;
  std::string path;
  std::string error;
};

TEST_F(OutputTest, CreatesAndReplaces) {
  EXPECT_TRUE(write("one"));
  EXPECT_EQ(readFile(path), "one");
  EXPECT_TRUE(write("two, longer"));
  EXPECT_EQ(readFile(path), "two, longer");
  EXPECT_EQ(countFiles(), 1);
}

TEST_F(OutputTest, OldFileStandsUntilTheNewOneIsWhole) {
  ASSERT_TRUE(write("old"));
  auto writer = [&](raw_ostream &os) {
    os << "new";
    os.flush();
    EXPECT_EQ(readFile(path), "old");
    EXPECT_EQ(countFiles(), 2);
  };
  EXPECT_TRUE(succeeded(writeFileAtomically(path, writer, error)));
  EXPECT_EQ(readFile(path), "new");
}

TEST_F(OutputTest, ReportsAMissingDirectory) {
  EXPECT_FALSE(writeTo(path + "/missing/out", "x"));
  EXPECT_FALSE(writeTo((directory + "/missing/out").str(), "x"));
  EXPECT_EQ(error, ("there is no folder '" + directory + "/missing'").str());
  EXPECT_EQ(kerf::checkFolderOf((directory + "/missing/out").str()), error);
  EXPECT_EQ(kerf::checkFolderOf((directory + "/out").str()), "");
  EXPECT_EQ(kerf::checkFolderOf("out"), "");
  EXPECT_EQ(kerf::checkFolderOf("-"), "");
}

TEST_F(OutputTest, RefusesADirectory) {
  EXPECT_FALSE(writeTo(directory, "x"));
  EXPECT_EQ(error, "cannot write: Is a directory");
}

TEST_F(OutputTest, FollowsSymbolicLinksAndKeepsPermissions) {
  ASSERT_TRUE(write("old"));
  ASSERT_FALSE(fs::setPermissions(path, fs::owner_read | fs::owner_write));
  std::string link = path + ".link";
  ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
  EXPECT_TRUE(writeTo(link, "new"));
  EXPECT_EQ(readFile(path), "new");
  EXPECT_TRUE(fs::is_symlink_file(link));
  llvm::ErrorOr<fs::perms> permissions = fs::getPermissions(path);
  ASSERT_TRUE(static_cast<bool>(permissions));
  EXPECT_EQ(*permissions, fs::owner_read | fs::owner_write);
}

TEST_F(OutputTest, WritesToDevicesDirectly) {
  EXPECT_TRUE(writeTo("/dev/null", "x"));
  fs::file_status status;
  ASSERT_FALSE(fs::status("/dev/null", status));
  EXPECT_EQ(status.type(), fs::file_type::character_file);
}

TEST_F(OutputTest, ReportsAFullDevice) {
  if (!fs::exists("/dev/full"))
    GTEST_SKIP() << "no /dev/full";
  EXPECT_FALSE(writeTo("/dev/full", "x"));
  EXPECT_EQ(error, "cannot write: No space left on device");
}

TEST_F(OutputTest, WritesToStandardOutput) {
  testing::internal::CaptureStdout();
  bool written = writeTo("-", "to stdout");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "to stdout");
  EXPECT_TRUE(written);
  EXPECT_EQ(countFiles(), 0);
}

using OutputDeathTest = OutputTest;

/// A file size limit stands for a full disk.
TEST_F(OutputDeathTest, KeepsTheOldFileWhenTheDiskIsFull) {
  ASSERT_TRUE(write("old"));
  auto writeTooMuch = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    bool failed = !write(std::string(100000, 'x'));
    std::fprintf(stderr, "%s\n", error.c_str());
    std::_Exit(failed && countFiles() == 1 ? 3 : 4);
  };
  EXPECT_EXIT(writeTooMuch(), testing::ExitedWithCode(3),
              "cannot write: File too large");
  EXPECT_EQ(readFile(path), "old");
}

TEST_F(OutputDeathTest, RemovesTheTemporaryFileOnInterrupt) {
  ASSERT_TRUE(write("old"));
  auto interrupt = [&] {
    (void)writeFileAtomically(
        path,
        [&](raw_ostream &os) {
          os << "new";
          os.flush();
          std::fprintf(stderr, "%d files\n", countFiles());
          std::raise(SIGINT);
        },
        error);
  };
  EXPECT_EXIT(interrupt(), testing::KilledBySignal(SIGINT), "2 files");
  EXPECT_EQ(readFile(path), "old");
  EXPECT_EQ(countFiles(), 1);
}

} // namespace
