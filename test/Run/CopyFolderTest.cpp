//===- CopyFolderTest.cpp - states on disk and in memory ------------------===//

#include "RunTesting.h"

#include "kerf/Train/Files.h"
#include "kerf/Train/StateFolder.h"
#include "kerf/Train/StateIndex.h"
#include "kerf/Train/job/MemoryFolder.h"

#include <cstdlib>
#include <filesystem>

using namespace kerf::runtime;

namespace {
class CopyFolderTest : public FolderTest {
protected:
  void save(const std::string &name, const std::string &number) {
    std::filesystem::create_directories(path(name));
    put(name + "/manifest.json", renderManifest({{"save", number}}));
  }
  void copy(int64_t step, const std::string &number) {
    std::string error;
    ASSERT_TRUE(publishCopy(path("."), step, renderManifest({{"save", number}}),
                            "{}", error))
        << error;
  }
  int64_t newest() { return newestState(path("."))->step; }
};
} // namespace

// Saves are numbered, and a copy has the number that the next save will have.
TEST_F(CopyFolderTest, TheNewestOfDiskAndMemory) {
  EXPECT_FALSE(newestState(path(".")));
  save("step-10", "3");
  EXPECT_EQ(newest(), 10);
  copy(12, "4");
  copy(14, "4");
  EXPECT_TRUE(isCopyFolder(newestState(path("."))->path));
  EXPECT_EQ(newest(), 14);
  save("step-20", "4");
  EXPECT_EQ(newest(), 20);
  // Of one step the one in memory is read faster.
  copy(20, "4");
  EXPECT_TRUE(isCopyFolder(newestState(path("."))->path));
  // A run that began again is newer than one that came further.
  save("step-2", "5");
  EXPECT_EQ(newest(), 2);
  // Saves do not count copies, and do not remove them.
  EXPECT_EQ(nextNumber(path(".")), 6);
  tidyFolder(path("."));
  EXPECT_EQ(listCopies(path(".")).size(), 3u);
  forgetCopies(path("."), pathOfCopy(path("."), 14));
  ASSERT_EQ(listCopies(path(".")).size(), 1u);
  EXPECT_EQ(listCopies(path(".")).front().step, 14);
  forgetCopies(path("."));
  EXPECT_TRUE(listCopies(path(".")).empty());
  EXPECT_EQ(listSteps(path(".")).size(), 3u);
}

// A run that would remove what a lost one has in memory is refused.
TEST_F(CopyFolderTest, CopiesOfAnotherRunAreNotRemoved) {
  copy(7, "1");
  EXPECT_NE(refuseStates(path(".")).find("up to step 7"), std::string::npos);
}

// Only files that a copy has are removed, of runs with the same folder.
TEST_F(CopyFolderTest, FilesOfOthersStay) {
  setenv("KERF_COPY_FOLDER", path(".").c_str(), 1);
  setenv("KERF_MACHINE", "a", 1);
  std::string error, ours = memoryFolder("01"), theirs = memoryFolder("02");
  ASSERT_TRUE(makeMemory(ours, path("mine"), error)) << error;
  ASSERT_TRUE(makeMemory(theirs, path("other"), error)) << error;
  for (int64_t step : {1, 2}) {
    ASSERT_TRUE(makeFolder(stepOfMemory(ours, step), error)) << error;
    ASSERT_TRUE(writeFile(joinPath(stepOfMemory(ours, step), rankFileName(3)),
                          "x", error));
  }
  EXPECT_EQ(bytesIn(ours), 2u);
  EXPECT_FALSE(hasRoom(UINT64_C(1) << 60, 0, error));
  EXPECT_TRUE(hasRoom(UINT64_C(1) << 60, UINT64_C(1) << 60, error)) << error;
  keepOnly(ours, 2);
  EXPECT_FALSE(isFolder(stepOfMemory(ours, 1)));
  EXPECT_TRUE(fileExists(joinPath(stepOfMemory(ours, 2), rankFileName(3))));
  ASSERT_TRUE(writeFile(joinPath(stepOfMemory(ours, 2), "notes"), "x", error));
  tidyMemory(path("mine"), "");
  EXPECT_FALSE(fileExists(joinPath(stepOfMemory(ours, 2), rankFileName(3))));
  EXPECT_TRUE(fileExists(joinPath(stepOfMemory(ours, 2), "notes")));
  EXPECT_TRUE(isFolder(theirs));
  tidyMemory(path("other"), "02");
  EXPECT_TRUE(isFolder(theirs));
  tidyMemory(path("other"), "");
  EXPECT_FALSE(isFolder(theirs));
  EXPECT_FALSE(hasRoom(UINT64_MAX, 0, error));
  unsetenv("KERF_COPY_FOLDER");
  unsetenv("KERF_MACHINE");
}
