//===- LoaderTest.cpp - files that are refused, and why -------------------===//

#include "Samples.h"

#include "kerf/Artifact/Check.h"
#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Runtime/Runtime.h"

#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <cstring>
#include <fstream>

using namespace kerf;
using namespace kerf::test;

namespace {

/// The message for a file's bytes, "" when it opens.
std::string openMessage(const std::string &bytes) {
  kerf_artifact *artifact;
  kerf_error error;
  if (kerf_artifact_open_bytes(bytes.data(), bytes.size(), "model.kerf",
                               &artifact, &error))
    return error.message;
  kerf_artifact_close(artifact);
  return "";
}

std::string sample() { return written(trainingProgram()); }

/// Puts a right checksum into the header.
void fixChecksum(std::string &bytes) {
  uint64_t checksum = artifact::checksumOf(bytes.data(), bytes.size());
  std::memcpy(bytes.data() + offsetof(kerf_header, checksum), &checksum,
              sizeof checksum);
}

TEST(Loader, OpensWhatTheCompilerWrites) {
  EXPECT_EQ(openMessage(sample()), "");
}

TEST(Loader, WritesTheSameBytesTwice) { EXPECT_EQ(sample(), sample()); }

TEST(Loader, ReadsBackWhatWasWritten) {
  ArtifactData data;
  std::string error, bytes = sample();
  ASSERT_TRUE(llvm::succeeded(readArtifact(bytes, data, error))) << error;
  EXPECT_EQ(written(data), bytes);
  EXPECT_EQ(data.strings.get(data.params[0].name), "h.{i}.w");
  EXPECT_EQ(data.strings.intern("h.{i}.w"), data.params[0].name);
}

TEST(Loader, RefusesForeignFiles) {
  EXPECT_EQ(openMessage("module {}\n"),
            "model.kerf: not a compiled file of Kerf: kerfc MODEL.mlir -o "
            "MODEL.kerf makes one");
  EXPECT_EQ(openMessage(""), "model.kerf: truncated: the file is empty");
  std::string future = sample();
  future[8] = KERF_FORMAT_VERSION + 1;
  EXPECT_EQ(openMessage(future), "model.kerf: written by format " +
                                     std::to_string(KERF_FORMAT_VERSION + 1) +
                                     ", this program reads format " +
                                     std::to_string(KERF_FORMAT_VERSION) +
                                     ": compile the model again");
}

TEST(Loader, RefusesEveryLength) {
  std::string bytes = sample();
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_NE(openMessage(bytes.substr(0, length))
                  .find(length < 8 && length ? "" : "truncated"),
              std::string::npos)
        << length;
  EXPECT_NE(openMessage(bytes + "x").find("damaged"), std::string::npos);
}

TEST(Loader, RefusesEveryFlippedByteOfTheHeader) {
  std::string bytes = sample();
  for (size_t at = 0; at < sizeof(kerf_header); ++at) {
    std::string flipped = bytes;
    flipped[at] = ~flipped[at];
    EXPECT_NE(openMessage(flipped), "") << at;
  }
}

TEST(Loader, RefusesAFlippedByteAnywhere) {
  std::string bytes = sample();
  for (size_t at = sizeof(kerf_header); at < bytes.size(); at += 7) {
    std::string flipped = bytes;
    flipped[at] ^= 1;
    EXPECT_EQ(openMessage(flipped), "model.kerf: damaged: the checksum differs")
        << at;
  }
}

TEST(Loader, RefusesSectionsThatLieElsewhere) {
  std::string bytes = sample();
  auto &header = *reinterpret_cast<kerf_header *>(bytes.data());
  for (uint64_t value : {UINT64_C(0), UINT64_C(4), ~UINT64_C(0) - 7,
                         uint64_t(bytes.size() + 8)}) {
    std::string moved = bytes;
    reinterpret_cast<kerf_header *>(moved.data())
        ->sections[KERF_SECTION_COMMANDS]
        .offset = value;
    fixChecksum(moved);
    EXPECT_NE(openMessage(moved).find("section 'commands'"), std::string::npos)
        << value;
  }
  header.sections[KERF_SECTION_COMMANDS].bytes += 1;
  fixChecksum(bytes);
  EXPECT_NE(openMessage(bytes).find("section 'commands'"), std::string::npos);
}

/// A file of one evaluation, as samplers are.
ArtifactData evaluationProgram() {
  ArtifactData data = trainingProgram();
  data.programs.front().train_calls = 0;
  data.meta.target = data.strings.intern("cpu");
  return data;
}

/// The message for a file with `sampler` in it.
std::string messageWithSampler(const std::string &sampler) {
  ArtifactData data = trainingProgram();
  data.sampler = sampler;
  std::string bytes, error;
  llvm::raw_string_ostream os(bytes);
  return llvm::succeeded(writeArtifact(data, os, error)) ? openMessage(bytes)
                                                         : error;
}

TEST(Loader, ChecksTheFileWithin) {
  std::string inner = written(evaluationProgram());
  EXPECT_EQ(messageWithSampler(inner), "");
  EXPECT_EQ(messageWithSampler(sample()),
            "damaged: its sampler is no evaluation on one CPU rank");
  EXPECT_EQ(messageWithSampler("x"),
            "damaged: its sampler is not a compiled file of Kerf: kerfc "
            "MODEL.mlir -o MODEL.kerf makes one");
  for (size_t length = 1; length < inner.size(); length += 5)
    EXPECT_NE(messageWithSampler(inner.substr(0, length)), "") << length;
  // One in another is no sampler, and is not looked into.
  ArtifactData nested = evaluationProgram();
  nested.sampler = inner;
  EXPECT_EQ(messageWithSampler(written(nested)),
            "damaged: its sampler is no evaluation on one CPU rank");
}

TEST(Loader, GivesTheFileWithin) {
  ArtifactData data = trainingProgram();
  data.sampler = written(evaluationProgram());
  std::string bytes = written(data);
  kerf_artifact *artifact;
  ASSERT_EQ(kerf_artifact_open_bytes(bytes.data(), bytes.size(), "model.kerf",
                                     &artifact, nullptr),
            KERF_OK);
  uint64_t size = 0;
  const void *within = kerf_artifact_sampler(artifact, &size);
  EXPECT_EQ(std::string(static_cast<const char *>(within), size), data.sampler);
  kerf_artifact_close(artifact);
}

TEST(Loader, RefusesNamesThatATerminalObeys) {
  for (llvm::StringRef name : {"h.{i}\x1bw", "h.{i}\nw", "h.{i}\x7fw",
                               "h.{i\xc2\x9bw", "h.{\xc2\x80.w"}) {
    std::string bytes = sample();
    bytes.replace(bytes.find("h.{i}.w"), name.size(), name.str());
    fixChecksum(bytes);
    EXPECT_NE(openMessage(bytes).find(" has a control character"),
              std::string::npos)
        << name.str();
  }
  std::string bytes = sample();
  bytes.replace(bytes.find("h.{i}.w"), 7, "h.\xc3\xa9i.w");
  fixChecksum(bytes);
  EXPECT_EQ(openMessage(bytes).find(" has a control character"),
            std::string::npos);
}

TEST(Loader, NamesFilesThatCannotBeRead) {
  kerf_artifact *artifact;
  kerf_error error;
  EXPECT_EQ(kerf_artifact_open("no/such.kerf", &artifact, &error),
            KERF_INVALID);
  EXPECT_STREQ(error.message,
               "no/such.kerf: cannot be opened: No such file or directory");
  EXPECT_EQ(artifact, nullptr);
  EXPECT_EQ(kerf_artifact_open("/", &artifact, &error), KERF_INVALID);
  EXPECT_STREQ(error.message, "/: is no regular file");
  EXPECT_EQ(kerf_exit_code(KERF_INVALID), 1);
}

TEST(Loader, OpensAFile) {
  std::string path = testing::TempDir() + "loader-test.kerf";
  std::ofstream(path, std::ios::binary) << sample();
  kerf_artifact *artifact;
  kerf_error error;
  ASSERT_EQ(kerf_artifact_open(path.c_str(), &artifact, &error), KERF_OK)
      << error.message;
  uint32_t count;
  const kerf_param *params = kerf_artifact_params(artifact, &count);
  EXPECT_EQ(count, 1u);
  EXPECT_STREQ(kerf_artifact_string(artifact, params[0].name), "h.{i}.w");
  EXPECT_STREQ(kerf_artifact_string(artifact, KERF_NONE), "");
  kerf_artifact_close(artifact);
  std::remove(path.c_str());
}

TEST(Loader, ExpandsNamesAsTheCompilerDoes) {
  for (const char *pattern :
       {"h.{i}.w", "l.{2*i+1}.x.{e}.y", "{i+3}", "plain", "bad.{j}", "{", "{}",
        "{i}{e}{i}", "{0*i}", "{9999999*i}", "{-1*i}", "a}b",
        "l.{i}.{a,b,c,d,ee}_w", "{a,b}", "{a,}", "{,}", "{e,e}", "{a,b}{e}"})
    for (int64_t e : {-1, 4})
      EXPECT_EQ(artifact::expandName(pattern, 5, e), expandName(pattern, 5, e))
          << pattern;
  char name[8];
  EXPECT_EQ(kerf_expand_name("layer.{i}.w", 12, -1, name, sizeof name), 10u);
  EXPECT_STREQ(name, "layer.1");
}

//===----------------------------------------------------------------------===//
// Wrong content
//===----------------------------------------------------------------------===//

struct Fault {
  const char *message;
  void (*make)(ArtifactData &);
};

/// For the names of cases, which are addresses otherwise.
void PrintTo(const Fault &fault, std::ostream *out) { *out << fault.message; }

class Faults : public testing::TestWithParam<Fault> {};

// The training program with one mistake is refused with a message that says
// which, by the compiler before it writes and by the runtime before it runs.
TEST_P(Faults, IsRefused) {
  ArtifactData data = trainingProgram();
  GetParam().make(data);
  std::string bytes, error;
  llvm::raw_string_ostream os(bytes);
  EXPECT_TRUE(llvm::failed(writeArtifact(data, os, error)));
  EXPECT_NE(error.find(GetParam().message), std::string::npos) << error;
  EXPECT_EQ(bytes, "");
}

const Fault kFaults[] = {
    {"the arena of program 0 has 65 bytes",
     [](auto &d) { d.programs[0].arena_bytes = 65; }},
    {"the arena of program 0 has 0 bytes",
     [](auto &d) { d.programs[0].arena_bytes = 0; }},
    {"2 micro-batches in 3 slots", [](auto &d) { d.programs[0].slots = 3; }},
    {"workspaces for 0 workers", [](auto &d) { d.meta.max_workers = 0; }},
    {"a step of 99 calls", [](auto &d) { d.programs[0].train_calls = 99; }},
    {"infinite sizes", [](auto &d) { d.meta.model_flops = __builtin_inf(); }},
    {"metadata 0 has a string at", [](auto &d) { d.meta.cpu = 1u << 30; }},
    {"axis 'data' has size 0", [](auto &d) { d.axes[0].size = 0; }},
    {"a mesh of 3 ranks for a world of 1", [](auto &d) { d.axes[0].size = 3; }},
    {"9 axes", [](auto &d) { d.axes.resize(9, d.axes[0]); }},
    {"group 0 has axes 0x2", [](auto &d) { d.groups[0].axes = 2; }},
    {"group 0 has size 5", [](auto &d) { d.groups[0].size = 5; }},
    {"parameter 0 has the name 'h.{j}.w'",
     [](auto &d) { d.params[0].name = d.strings.intern("h.{j}.w"); }},
    {"parameter 0 has the name 'h.{i}.w' and flags 2",
     [](auto &d) { d.params[0].flags = KERF_PARAM_STACKED; }},
    {"'h.{i}.w' has iterations 3 to 3", [](auto &d) { d.params[0].start = 3; }},
    {"has a stride of 60 bytes for tensors of 64",
     [](auto &d) { d.params[0].stride = 60; }},
    {"has a stride of", [](auto &d) { d.params[0].stride = INT64_MAX - 3; }},
    {"parameter 0 lies at -64", [](auto &d) { d.params[0].offset = -64; }},
    {"parameter 0 lies at 2, expected a multiple of 4",
     [](auto &d) { d.params[0].offset = 2; }},
    {"parameter 0 has states 0 and 2 more of 1",
     [](auto &d) { d.params[0].state_count = 2; }},
    {"parameter 0 is initialized by kind 9",
     [](auto &d) { d.params[0].init = 9; }},
    {"parameter 0 has a master of type 4294967295",
     [](auto &d) { d.params[0].master_offset = 0; }},
    {"the master of parameter",
     [](auto &d) {
       d.params[0].master_dtype = KERF_F64;
       d.params[0].master_offset = d.programs[0].arena_bytes - 8;
       d.params[0].master_stride = 128;
     }},
    {"dimension 0 of parameter 0 has 5 elements",
     [](auto &d) { d.params[0].layout.global[0] = 5; }},
    {"dimension 1 of parameter 0",
     [](auto &d) { d.params[0].layout.axes[1][0] = 3; }},
    {"parameter 0 has 9 dimensions",
     [](auto &d) { d.params[0].layout.rank = 9; }},
    {"parameter 0 is too large",
     [](auto &d) {
       kerf_layout &layout = d.params[0].layout;
       layout.global[0] = layout.local[0] = INT64_MAX / 4;
     }},
    {"state 0 has type 77", [](auto &d) { d.states[0].dtype = 77; }},
    {"state 0 has blocks of 3 elements and lacks dimension 0",
     [](auto &d) { d.states[0].block = 3; }},
    {"state 0 has blocks of 0 elements",
     [](auto &d) { d.states[0].block = 0; }},
    {"state 0 has blocks of 1 elements and lacks dimension 3",
     [](auto &d) { d.states[0].without = 3; }},
    {"is in pieces of multiples of 2097152 elements",
     [](auto &d) { d.params[0].layout.granule = 1 << 21; }},
    {"input 'x' has 32 bytes", [](auto &d) { d.inputs[0].bytes = 32; }},
    {"input 'x' has a shape that its role 'step'",
     [](auto &d) { d.inputs[0].role = KERF_ROLE_STEP; }},
    {"input 0 has role 50", [](auto &d) { d.inputs[0].role = 50; }},
    {"output 0 lies at", [](auto &d) { d.outputs[0].offset = 1 << 30; }},
    {"output 0 has 0 elements for layers 0 to 1",
     [](auto &d) { d.outputs[0].elements = 0; }},
    {"output 0 has 9223372036854775807 elements",
     [](auto &d) { d.outputs[0].elements = INT64_MAX; }},
    {"output 0 has 1 elements for layers 0 to 2",
     [](auto &d) { d.outputs[0].end = 2; }},
    {"output 0 has 1 elements for layers 1 to 1",
     [](auto &d) { d.outputs[0].start = 1; }},
    {"output 0 has 1 elements for layers -1 to 0",
     [](auto &d) {
       d.outputs[0].start = -1;
       d.outputs[0].end = 0;
     }},
    {"buffer 0 has class 8", [](auto &d) { d.buffers[0].buffer_class = 8; }},
    {"buffer 0 lives from -2", [](auto &d) { d.buffers[0].first = -2; }},
    {"kernel 'twice' has -1 units", [](auto &d) { d.kernels[0].units = -1; }},
    {"kernels without an image", [](auto &d) { d.image.clear(); }},
    {"function 1 starts at command 3",
     [](auto &d) { d.funcs[1].first_command = 3; }},
    {"13 commands, functions have 12",
     [](auto &d) { d.commands.push_back(d.commands[0]); }},
    {"function 0 has what it must not",
     [](auto &d) { d.funcs[0].reserved = 1; }},
    {"call 0 is of function 4", [](auto &d) { d.calls[0].func = 4; }},
    {"call 0 is of function 0, micro-batch 0",
     [](auto &d) { d.calls[0].reserved = 1; }},
    {"call 1 has flags 0, expected 2", [](auto &d) { d.calls[1].flags = 0; }},
    {"command 0 has opcode 77", [](auto &d) { d.commands[0].opcode = 77; }},
    {"command 0 has opcode 6 and flags 64",
     [](auto &d) { d.commands[0].flags = 64; }},
    {"command 0 (zero) has 0 operands, expected 1",
     [](auto &d) { d.commands[0].operand_count = 0; }},
    {"command 0 (zero) has 2 attributes, expected 1",
     [](auto &d) { d.commands[0].attr_count = 2; }},
    {"operands or attributes behind the last",
     [](auto &d) { d.commands[0].first_attr = 1 << 20; }},
    {"command 0 moves 193 bytes", [](auto &d) { d.attrs[0] = 193; }},
    {"command 1 loops from 0 to -1", [](auto &d) { d.attrs[2] = -1; }},
    {"command 1 loops over 3 commands, its function has 2 more",
     [](auto &d) { d.attrs[4] = 3; }},
    {"command 2 is a loop in a loop",
     [](auto &d) { d.commands[2] = d.commands[1]; }},
    {"command 3 launches kernel 3 of 3",
     [](auto &d) { d.attrs[d.commands[3].first_attr] = 3; }},
    {"operand 0 of command 3 has kind 9",
     [](auto &d) { d.operands[d.commands[3].first_operand].kind = 9; }},
    {"operand 1 of command 3 has access 0",
     [](auto &d) { d.operands[d.commands[3].first_operand + 1].access = 0; }},
    {"operand 0 of command 0 has access 1", // which zeroes it
     [](auto &d) {
       d.operands[d.commands[0].first_operand].access = KERF_READ;
     }},
    {"operand 1 of command 3 has 0 copies for 2 micro-batches",
     [](auto &d) { d.operands[d.commands[3].first_operand + 1].copies = 0; }},
    {"operand 1 of command 3 has 3 copies for 2 micro-batches",
     [](auto &d) { d.operands[d.commands[3].first_operand + 1].copies = 3; }},
    {"operand 1 of command 3 has strides of 2",
     [](auto &d) {
       d.operands[d.commands[3].first_operand + 1].iter_stride = 2;
     }},
    {"operand 1 of command 3 lies nowhere",
     [](auto &d) {
       d.operands[d.commands[3].first_operand + 1].iter_stride = INT64_MAX - 3;
     }},
    {"operand 6 lies at", // in the last iteration only
     [](auto &d) {
       d.operands[d.commands[3].first_operand + 1].iter_stride = 512;
     }},
    {"operand 6 lies at", // in the last slot only
     [](auto &d) {
       kerf_operand &operand = d.operands[d.commands[3].first_operand + 1];
       operand.copies = 2;
       operand.slot_stride = 1 << 12;
     }},
    {"(matmul) has 9 operands, expected 4 to 8",
     [](auto &d) { d.commands[2].operand_count = 9; }},
    {"(matmul) has 3 operands, expected 4 to 8",
     [](auto &d) { d.commands[2].operand_count = 3; }},
    {"is scalar 1 of 1", [](auto &d) { d.operands.end()[-2].offset = 1; }},
    {"is a scalar modulo -1", [](auto &d) { d.scalars[0].modulus = -1; }},
    {"(all_reduce) is in group 1 of 1",
     [](auto &d) { d.attrs[d.commands[6].first_attr] = 1; }},
    {"(all_reduce) has type 4",
     [](auto &d) { d.attrs[d.commands[6].first_attr + 1] = KERF_I1; }},
    {"(all_reduce) has reduction 2",
     [](auto &d) { d.attrs[d.commands[6].first_attr + 2] = 2; }},
    {"(all_reduce) does not fit its operands",
     [](auto &d) { d.attrs[d.commands[6].first_attr + 3] = 49; }},
    {"(all_reduce) does not fit its operands",
     [](auto &d) { d.attrs[d.commands[6].first_attr + 3] = INT64_MAX; }},
    {"(all_reduce) is not in the arena",
     [](auto &d) {
       d.operands[d.commands[6].first_operand].kind = KERF_ABSENT;
     }},
};

INSTANTIATE_TEST_SUITE_P(Loader, Faults, testing::ValuesIn(kFaults));

} // namespace
