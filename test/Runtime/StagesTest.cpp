//===- StagesTest.cpp - pipelines, pieces and blocks ----------------------===//

#include "Forked.h"
#include "Plugins.h"
#include "StageSamples.h"

#include "kerf/Artifact/Check.h"
#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/State.h"
#include "kerf/Train/StateWriter.h"

#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <cstring>
#include <filesystem>
#include <map>

using namespace kerf;
using namespace kerf::test;

namespace {

/// One rank of a job. `faults` counts what went wrong, and says so.
struct Rank {
  kerf_artifact *artifact = nullptr;
  kerf_session *session = nullptr;
  kerf_error error = {};
  int faults = 0;

  Rank(const ArtifactData &data, const std::string &job = "",
       uint32_t rank = 0) {
    std::string bytes = written(data);
    kerf_session_options options;
    kerf_session_options_init(&options);
    options.plugin_path = testPlugins();
    options.rank = rank;
    options.workers = 1;
    options.session_name = job.c_str();
    expect(!kerf_artifact_open_bytes(bytes.data(), bytes.size(), "model.kerf",
                                     &artifact, &error) &&
               !kerf_session_create(artifact, &options, &session, &error),
           "no session");
  }
  ~Rank() {
    kerf_session_destroy(session);
    kerf_artifact_close(artifact);
  }
  Rank(const Rank &) = delete;

  void expect(bool isTrue, const std::string &what) {
    if (isTrue)
      return;
    ++faults;
    std::fprintf(stderr, "%s: %s\n", what.c_str(), error.message);
  }

  const kerf_param *params(uint32_t &count) {
    return kerf_artifact_params(artifact, &count);
  }
  /// The number of the parameter that has `name`, and its iteration.
  kerf_tensor find(const std::string &name, uint32_t kind) {
    uint32_t count;
    const kerf_param *table = params(count);
    for (uint32_t p = 0; p < count; ++p)
      for (int64_t i = table[p].start; i < table[p].end; ++i)
        if (artifact::expandName(kerf_artifact_string(artifact, table[p].name),
                                 i) == name)
          return {kind, p, 0, i};
    expect(false, "no " + name);
    return {kind, count, 0, 0};
  }
  std::vector<char> global(const std::string &name, uint32_t kind) {
    kerf_tensor tensor = find(name, kind);
    kerf_layout layout = {};
    expect(!kerf_tensor_layout(artifact, &tensor, &layout, &error), name);
    std::vector<char> bytes(kerf_global_bytes(&layout));
    expect(!kerf_session_read_global(session, &tensor, bytes.data(),
                                     bytes.size(), &error),
           name);
    return bytes;
  }
  void setGlobal(const std::string &name, uint32_t kind,
                 const std::vector<char> &bytes) {
    kerf_tensor tensor = find(name, kind);
    expect(!kerf_session_write_global(session, &tensor, bytes.data(),
                                      bytes.size(), &error),
           name);
  }
  /// What this rank stores of a tensor.
  std::vector<char> stored(const std::string &name, uint32_t kind) {
    kerf_tensor tensor = find(name, kind);
    kerf_layout layout = {};
    expect(!kerf_tensor_layout(artifact, &tensor, &layout, &error), name);
    std::vector<char> bytes(kerf_local_bytes(artifact, &layout));
    expect(!kerf_session_read(session, &tensor, bytes.data(), bytes.size(),
                              &error),
           name);
    return bytes;
  }
  double output(uint32_t number) {
    double value = -1;
    expect(!kerf_session_get_output(session, number, &value, &error), "output");
    return value;
  }
  void initialize(int64_t seed) {
    expect(!kerf_session_initialize(session, seed, &error), "initialize");
  }
};

/// Runs body(job of a rank, its number) on all ranks of the pipeline.
template <typename Body> void onPipeline(uint32_t dataRanks, Body body) {
  std::string job = jobName();
  auto run = [&](uint32_t number) -> int {
    Rank rank(pipelineProgram(dataRanks), job, number);
    if (rank.session)
      body(rank, number);
    return rank.faults;
  };
  EXPECT_EQ(runRanks(2 * dataRanks, run), std::vector<int>(2 * dataRanks, 0));
  EXPECT_FALSE(hasSegment(job));
}

using Tensors = std::map<std::pair<std::string, uint32_t>, std::vector<char>>;

/// All tensors of the samples by name and kind.
std::vector<std::pair<std::string, uint32_t>> allTensors() {
  std::vector<std::pair<std::string, uint32_t>> all = {
      {"tied", KERF_TENSOR_PARAM},
      {"tied", KERF_TENSOR_MASTER},
      {"tied", KERF_TENSOR_STATE},
      {"qkv", KERF_TENSOR_PARAM}};
  for (std::string layer : {"h.0.w", "h.1.w", "h.2.w", "h.3.w"})
    for (uint32_t kind :
         {KERF_TENSOR_PARAM, KERF_TENSOR_MASTER, KERF_TENSOR_STATE})
      all.push_back({layer, kind});
  for (std::string layer : {"z.0", "z.1", "b"})
    for (uint32_t kind : {KERF_TENSOR_PARAM, KERF_TENSOR_MASTER})
      all.push_back({layer, kind});
  return all;
}

Tensors readAll(Rank &rank) {
  Tensors tensors;
  for (const auto &key : allTensors())
    tensors[key] = rank.global(key.first, key.second);
  return tensors;
}

/// The initial values on one rank.
Tensors initialValues(int64_t seed) {
  Rank whole(wholeProgram());
  whole.initialize(seed);
  Tensors tensors = readAll(whole);
  EXPECT_EQ(whole.faults, 0);
  return tensors;
}

std::vector<float> floatsOf(const std::vector<char> &bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Values that tell tensors and elements apart, as bytes of any type.
Tensors otherValues() {
  Tensors tensors = initialValues(1);
  char next = 1;
  for (auto &[key, bytes] : tensors)
    for (char &byte : bytes)
      byte = next++ & 0x3f;
  return tensors;
}

std::vector<float> inputs(uint32_t dataRanks) {
  std::vector<float> x(2 * dataRanks * kPart);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(i * 5 % 17) / 8;
  return x;
}

void setInputs(Rank &rank, uint32_t dataRanks) {
  std::vector<float> x = inputs(dataRanks);
  rank.expect(!kerf_session_set_input_global(rank.session, 0, x.data(),
                                             x.size() * 4, &rank.error),
              "input");
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

// Messages go forward and back in order, through channels that hold one; sums
// join both stages.
TEST(Stages, RunAPipeline) {
  for (uint32_t dataRanks : {1, 2, 3})
    onPipeline(dataRanks, [&](Rank &rank, uint32_t) {
      setInputs(rank, dataRanks);
      std::vector<float> x = inputs(dataRanks);
      double sum = 0;
      for (size_t row = 0; row < x.size(); row += kPart)
        sum += 2 * x[row];
      for (int step = 0; step < 3; ++step) {
        rank.expect(!kerf_session_run_step(rank.session, &rank.error), "step");
        rank.expect(rank.output(0) == sum && rank.output(1) == 2 * sum,
                    "outputs");
      }
    });
}

TEST(Stages, RotateAlongARing) {
  for (uint32_t dataRanks : {1, 2, 3})
    onPipeline(dataRanks, [&](Rank &rank, uint32_t number) {
      setInputs(rank, dataRanks);
      rank.expect(!kerf_session_run_evaluation(rank.session, &rank.error),
                  "evaluation");
      uint32_t next = (number % dataRanks + 1) % dataRanks;
      rank.expect(rank.output(0) == inputs(dataRanks)[next * 2 * kPart],
                  "output");
    });
}

/// Kinds of the commands that were recorded, in order, and whether each began
/// when the one before had ended.
static std::string recordedKinds(kerf_session *session) {
  std::string kinds;
  double last = 0;
  kerf_trace_event event;
  for (uint32_t i = 0; kerf_session_trace_event(session, i, &event); ++i) {
    if (event.opcode == KERF_OP_COUNT)
      continue;
    kinds += (event.start < last ? "/" : " ") + std::string(event.kind);
    last = event.end;
  }
  return kinds;
}

// What was started and must end before a message is booked as a collective, not
// as time of the message.
TEST(Stages, BookWhatAMessageWaitsFor) {
  onPipeline(2, [&](Rank &rank, uint32_t number) {
    setInputs(rank, 2);
    rank.expect(!kerf_session_trace(rank.session, true, &rank.error), "trace");
    rank.expect(!kerf_session_run_evaluation(rank.session, &rank.error),
                "evaluation");
    rank.expect(recordedKinds(rank.session) ==
                    (number < 2 ? " rotate zero rotate send wait copy"
                                : " receive copy"),
                recordedKinds(rank.session).c_str());
  });
}

// An update works on pieces; what is gathered from them is the layer.
TEST(Stages, UpdateInPieces) {
  Tensors expected = initialValues(3), values = otherValues();
  for (std::string layer : {"h.0.w", "h.1.w", "h.2.w", "h.3.w"}) {
    std::vector<float> w = floatsOf(expected[{layer, KERF_TENSOR_PARAM}]);
    std::vector<float> m = floatsOf(values[{layer, KERF_TENSOR_STATE}]);
    for (size_t i = 0; i < w.size(); ++i)
      w[i] += m[i];
    std::memcpy(expected[{layer, KERF_TENSOR_PARAM}].data(), w.data(), 60);
  }
  for (uint32_t dataRanks : {1, 2, 3, 4})
    onPipeline(dataRanks, [&](Rank &rank, uint32_t) {
      setInputs(rank, dataRanks);
      rank.initialize(3);
      for (std::string layer : {"h.0.w", "h.1.w", "h.2.w", "h.3.w"})
        rank.setGlobal(layer, KERF_TENSOR_STATE,
                       values[{layer, KERF_TENSOR_STATE}]);
      rank.expect(!kerf_session_run_step(rank.session, &rank.error), "step");
      for (std::string layer : {"h.0.w", "h.1.w", "h.2.w", "h.3.w"})
        for (uint32_t kind : {KERF_TENSOR_PARAM, KERF_TENSOR_MASTER})
          rank.expect(rank.global(layer, kind) ==
                          expected[{layer, KERF_TENSOR_PARAM}],
                      layer);
    });
}

TEST(Stages, TellEachOtherOfFailures) {
  std::string job = jobName();
  auto body = [&](uint32_t number) -> int {
    Rank rank(pipelineProgram(1), job, number);
    // The second stage waits for a message of a rank that has gone.
    if (number == 0)
      return 0;
    kerf_status status = kerf_session_run_step(rank.session, &rank.error);
    std::string message = rank.error.message;
    rank.expect(status == KERF_PEER_LOST, "status");
    rank.expect(message.find("'receive' (receive): ") == 0, "message");
    return rank.faults;
  };
  EXPECT_EQ(runRanks(2, body), std::vector<int>(2, 0));
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

// To the bit: pieces, thirds, stages and the rounding of a copy without master.
TEST(Stages, StartFromTheSameValuesInAnyLayout) {
  Tensors expected = initialValues(7);
  EXPECT_NE(expected, initialValues(8));
  for (uint32_t dataRanks : {1, 2, 3, 4})
    onPipeline(dataRanks, [&](Rank &rank, uint32_t) {
      rank.initialize(7);
      for (const auto &[key, bytes] : readAll(rank))
        rank.expect(bytes == expected[key], key.first);
    });
}

TEST(Stages, ReadWhatWasWritten) {
  Tensors expected = otherValues();
  for (uint32_t dataRanks : {2, 3})
    onPipeline(dataRanks, [&](Rank &rank, uint32_t) {
      rank.initialize(7);
      for (const auto &[key, bytes] : expected)
        rank.setGlobal(key.first, key.second, bytes);
      for (const auto &[key, bytes] : readAll(rank))
        rank.expect(bytes == expected[key], key.first);
    });
}

// Piece r of 15 elements on two ranks: the second one ends with padding, which
// is zero whatever was there before. Thirds: a part of each.
TEST(Stages, StorePiecesAndThirds) {
  Tensors values = otherValues();
  onPipeline(2, [&](Rank &rank, uint32_t number) {
    uint32_t stage = number / 2, place = number % 2;
    std::vector<float> dirt(8, 5);
    std::string layer = stage == 0 ? "h.2.w" : "h.3.w";
    kerf_tensor tensor = rank.find(layer, KERF_TENSOR_MASTER);
    for (bool initializes : {false, true}) {
      rank.expect(!kerf_session_write(rank.session, &tensor, dirt.data(), 32,
                                      &rank.error),
                  "write");
      if (initializes)
        rank.initialize(1);
      else
        rank.setGlobal(layer, KERF_TENSOR_MASTER,
                       values[{layer, KERF_TENSOR_MASTER}]);
      std::vector<float> all = floatsOf(rank.global(layer, KERF_TENSOR_MASTER));
      all.push_back(0);
      std::vector<float> own(all.begin() + 8 * place,
                             all.begin() + 8 * place + 8);
      rank.expect(floatsOf(rank.stored(layer, KERF_TENSOR_MASTER)) == own,
                  "piece");
    }
    std::vector<float> qkv = floatsOf(rank.global("qkv", KERF_TENSOR_PARAM));
    if (stage != 0)
      return;
    std::vector<float> own;
    for (size_t third = 0; third < 3; ++third)
      own.insert(own.end(), qkv.begin() + third * 24 + place * 12,
                 qkv.begin() + third * 24 + place * 12 + 12);
    rank.expect(floatsOf(rank.stored("qkv", KERF_TENSOR_PARAM)) == own,
                "thirds");
  });
}

// Both stages have the tied weight; its state is where it is updated. With this
// seed some element is another one when it is rounded once, not by way of f32.
TEST(Stages, KeepTiedWeightsAlike) {
  Tensors values = otherValues();
  const auto &tied = values[{"tied", KERF_TENSOR_PARAM}];
  onPipeline(2, [&](Rank &rank, uint32_t number) {
    rank.initialize(4);
    rank.expect(rank.stored("tied", KERF_TENSOR_PARAM) ==
                    rank.global("tied", KERF_TENSOR_PARAM),
                "initial values");
    rank.setGlobal("tied", KERF_TENSOR_PARAM, tied);
    rank.expect(rank.stored("tied", KERF_TENSOR_PARAM) == tied, "tied");
    kerf_tensor state = rank.find("tied", KERF_TENSOR_STATE);
    std::vector<char> own(256 * 256 * 4);
    bool isThere = !kerf_session_read(rank.session, &state, own.data(),
                                      own.size(), &rank.error);
    rank.expect(isThere == (number >= 2), "state");
    if (!isThere)
      rank.expect(std::string(rank.error.message) ==
                      "'tied' is on another stage",
                  "message");
  });
}

// The ranks of a stage that has an input share its rows, two each; the others
// need none.
TEST(Stages, RowsOfInputs) {
  for (uint32_t dataRanks : {1, 2})
    onPipeline(dataRanks, [&](Rank &rank, uint32_t number) {
      uint64_t rows = 2 * dataRanks;
      std::vector<uint8_t> marks(rows, 0);
      auto ask = [&](uint32_t input, uint64_t count) {
        return kerf_session_input_rows(rank.session, input, marks.data(), count,
                                       &rank.error);
      };
      rank.expect(ask(0, rows) == KERF_OK, "rows");
      std::vector<uint8_t> expected(rows, 0);
      if (number < dataRanks) // of the first stage
        std::fill_n(expected.begin() + 2 * number, 2, 1);
      rank.expect(marks == expected, "which rows");
      rank.expect(ask(0, rows + 1) == KERF_INVALID, "a row too many");
      rank.expect(ask(1, rows) == KERF_INVALID, "no such input");
    });
}

// All ranks count the same parameters, each once, and the same inputs.
TEST(Stages, NumberParametersOverAllStages) {
  onPipeline(2, [&](Rank &rank, uint32_t) {
    uint32_t count, inputs;
    const kerf_param *params = rank.params(count);
    std::string names;
    for (uint32_t p = 0; p < count; ++p)
      names +=
          std::string(kerf_artifact_string(rank.artifact, params[p].name)) +
          "@" + std::to_string(params[p].start) + " ";
    rank.expect(names == "tied@0 h.{i}.w@0 h.{i}.w@2 qkv@0 h.{i}.w@1 h.{i}.w@3 "
                         "z.{i}@0 b@0 ",
                names);
    rank.expect(params[0].state_count == 1, "the tied weight's state");
    (void)kerf_artifact_inputs(rank.artifact, &inputs);
    rank.expect(inputs == 1, "inputs");
    // It is there on all ranks, of all sizes but the wrong ones.
    float x[3];
    rank.expect(kerf_session_set_input_global(rank.session, 0, x, sizeof x,
                                              &rank.error) == KERF_INVALID,
                "input");
  });
}

//===----------------------------------------------------------------------===//
// Saved states
//===----------------------------------------------------------------------===//

/// A folder that goes away.
struct Folder {
  std::string path;
  Folder() : path(testing::TempDir() + "stages-XXXXXX") {
    EXPECT_NE(mkdtemp(path.data()), nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

// What a pipeline saves, one rank and other pipelines load, to the bit.
TEST(Stages, SaveForAnyLayout) {
  Folder folder;
  Tensors expected = otherValues();
  onPipeline(2, [&](Rank &rank, uint32_t) {
    for (const auto &[key, bytes] : expected)
      rank.setGlobal(key.first, key.second, bytes);
    runtime::RunState state;
    std::string error;
    state.step = 5;
    state.consumedSamples = 40;
    runtime::SaveOptions options;
    options.folder = folder.path;
    runtime::StateWriter writer(rank.session, rank.artifact, options);
    runtime::SaveRecord record;
    rank.expect(writer.open(error) && writer.begin(state, error) &&
                    writer.finish(/*hasWaited=*/true, record, error),
                error);
    // No rank may leave while the first one writes.
    kerf_session_barrier(rank.session, nullptr);
  });
  auto load = [&](Rank &rank) {
    runtime::SavedState saved;
    std::string error;
    runtime::LoadTimes times;
    rank.expect(saved.open(folder.path, error) &&
                    saved.restore(rank.session, rank.artifact, times, error),
                error);
    rank.expect(saved.state().step == 5, "step");
    for (const auto &[key, bytes] : readAll(rank))
      rank.expect(bytes == expected[key], key.first);
  };
  for (uint32_t dataRanks : {1, 3})
    onPipeline(dataRanks, [&](Rank &rank, uint32_t) { load(rank); });
  Rank whole(wholeProgram());
  load(whole);
  EXPECT_EQ(whole.faults, 0);
}

//===----------------------------------------------------------------------===//
// Wrong content
//===----------------------------------------------------------------------===//

struct Fault {
  const char *message;
  void (*make)(ArtifactData &);
};

/// Else tests would be named by addresses, which change.
void PrintTo(const Fault &fault, std::ostream *os) { *os << fault.message; }

class StageFaults : public testing::TestWithParam<Fault> {};

// The pipeline with one mistake is refused with a message that says which.
TEST_P(StageFaults, IsRefused) {
  ArtifactData data = pipelineProgram(2);
  GetParam().make(data);
  std::string bytes, error;
  llvm::raw_string_ostream os(bytes);
  EXPECT_TRUE(llvm::failed(writeArtifact(data, os, error)));
  EXPECT_NE(error.find(GetParam().message), std::string::npos) << error;
}

/// The first command of an opcode.
kerf_command &commandOf(ArtifactData &data, uint32_t opcode) {
  for (kerf_command &command : data.commands)
    if (command.opcode == opcode)
      return command;
  std::abort();
}
int64_t &attrOf(ArtifactData &data, uint32_t opcode, uint32_t number) {
  return data.attrs[commandOf(data, opcode).first_attr + number];
}

// Parameters are tied, h.0, h.2, qkv; h.1, h.3, tied, z, b.
const Fault kStageFaults[] = {
    {"along axis 2 of 2", [](auto &d) { d.meta.pipeline_axis = 2; }},
    {"2 programs for 1 stages",
     [](auto &d) { d.meta.pipeline_axis = KERF_NONE; }},
    {"0 programs for 2 stages", [](auto &d) { d.programs.clear(); }},
    {"program 1 has a string", [](auto &d) { d.programs[1].name = 1 << 30; }},
    {"program 1 has 5 parameters from 3 on, expected from 4 on at most 5",
     [](auto &d) { d.programs[1].first_param = 3; }},
    {"program 1 has 6 parameters from 4 on, expected from 4 on at most 5",
     [](auto &d) { d.programs[1].param_count = 6; }},
    {"9 parameters, programs have 7",
     [](auto &d) { d.programs[1].param_count = 3; }},
    {"program 1 has 0 inputs from 1 on, expected from 0 on",
     [](auto &d) { d.programs[0].input_count = 0; }},
    {"outputs from 2 on", [](auto &d) { d.programs[1].output_count = 9; }},
    {"program 0 has 1 buffers",
     [](auto &d) { d.programs[0].buffer_count = 1; }},
    {"4 channels, programs have 3",
     [](auto &d) { d.programs[1].channel_count = 1; }},
    {"functions from 5 on", [](auto &d) { d.programs[1].func_count = 7; }},
    {"calls from 8 on, expected from 7 on",
     [](auto &d) { d.programs[1].first_call = 8; }},
    {"the arena of program 1 has 1 bytes",
     [](auto &d) { d.programs[1].arena_bytes = 1; }},
    {"2 micro-batches in 3 slots", [](auto &d) { d.programs[1].slots = 3; }},
    {"a step of 6 calls, program 1 has 5",
     [](auto &d) { d.programs[1].train_calls = 6; }},
    // A function of the file that is none of the program.
    {"call 7 is of function 4", [](auto &d) { d.calls[7].func = 4; }},
    // In the arena of the first program, not in the second one's.
    {"lies at", [](auto &d) { d.programs[1].arena_bytes = 64; }},

    {"channel 0 has a string", [](auto &d) { d.channels[0].name = 1 << 30; }},
    {"channel 0 of program 0 is from 0 to 2 of 2",
     [](auto &d) { d.channels[0].to = 2; }},
    {"channel 0 of program 0 is from 0 to 0",
     [](auto &d) { d.channels[0].to = 0; }},
    {"channel 'forward' holds 0 messages",
     [](auto &d) { d.channels[0].holds = 0; }},
    {"channel 'forward' holds 2 messages of 9223372036854775807 bytes",
     [](auto &d) {
       d.channels[0].holds = 2;
       d.channels[0].bytes = INT64_MAX;
     }},
    {"1 messages of 16 bytes at one end and 2 of 16 at the other",
     [](auto &d) { d.channels[2].holds = 2; }},
    {"1 messages of 16 bytes at one end and 1 of 32 at the other",
     [](auto &d) { d.channels[2].bytes = 32; }},
    {"program 1 has channel 'forward' from 0 to 1 0 times",
     [](auto &d) { d.channels[2].name = d.strings.intern("x"); }},
    {"program 0 has channel 'forward' from 0 to 1 2 times",
     [](auto &d) { d.channels[1] = d.channels[0]; }},
    {"(send) is of channel 2 of 2",
     [](auto &d) { attrOf(d, KERF_OP_SEND, 0) = 2; }},
    {"(send) is of program 0, channel 'backward' has program 1 there",
     [](auto &d) { attrOf(d, KERF_OP_SEND, 0) = 1; }},
    {"(receive) is of program 0, channel 'forward' has program 1 there",
     [](auto &d) { attrOf(d, KERF_OP_RECEIVE, 0) = 0; }},
    {"(send) moves -1 bytes", [](auto &d) { attrOf(d, KERF_OP_SEND, 1) = -1; }},
    {"(send) moves 17 bytes, its operand has 16",
     [](auto &d) { attrOf(d, KERF_OP_SEND, 1) = 17; }},
    {"(send) moves 16 bytes, its operand has 16 and channel 'forward' 8",
     [](auto &d) { d.channels[0].bytes = d.channels[2].bytes = 8; }},
    {"(send) is not in the arena",
     [](auto &d) {
       d.operands[commandOf(d, KERF_OP_SEND).first_operand].kind = KERF_ABSENT;
     }},
    {"input 0 is in zigzag order over 3 ranks",
     [](auto &d) { d.inputs[0].layout.zigzag = 3; }},
    {"input 0 is in zigzag order over 1 ranks",
     [](auto &d) {
       d.inputs[0].layout.zigzag = 1;
       d.inputs[0].layout.blocks[1] = 2;
     }},
    {"(stop_if) reads 4 bytes of i32, expected an f32",
     [](auto &d) {
       d.operands[commandOf(d, KERF_OP_STOP_IF).first_operand].dtype = KERF_I32;
     }},
    {"(stop_if) reads 3 bytes of f32, expected an f32",
     [](auto &d) {
       d.operands[commandOf(d, KERF_OP_STOP_IF).first_operand].bytes = 3;
     }},
    {"(stop_if) is not in the arena",
     [](auto &d) {
       d.operands[commandOf(d, KERF_OP_STOP_IF).first_operand].kind =
           KERF_ABSENT;
     }},
    {"which starts nothing in its turn",
     [](auto &d) { attrOf(d, KERF_OP_WAIT, 0) = 0; }},
    {"which starts nothing in its turn",
     [](auto &d) { attrOf(d, KERF_OP_WAIT, 0) = 2; }},
    {"which starts nothing in its turn",
     [](auto &d) { commandOf(d, KERF_OP_ROTATE).flags = 0; }},
    {"has other operands or flags",
     [](auto &d) { commandOf(d, KERF_OP_WAIT).flags = KERF_IF_FIRST; }},
    {"has other operands or flags",
     [](auto &d) {
       d.operands[commandOf(d, KERF_OP_WAIT).first_operand].bytes -= 4;
     }},
    {"starts what no command of its turn waits for",
     [](auto &d) { commandOf(d, KERF_OP_WAIT).opcode = KERF_OP_COPY; }},
    {"has opcode 14 and flags 8",
     [](auto &d) { commandOf(d, KERF_OP_SEND).flags = KERF_STARTS; }},
    {"(rotate) is in group 2 of 2",
     [](auto &d) { attrOf(d, KERF_OP_ROTATE, 0) = 2; }},
    {"(rotate) does not fit its operands",
     [](auto &d) { attrOf(d, KERF_OP_ROTATE, 2) = 5; }},
    {"(rotate) does not fit its operands",
     [](auto &d) { attrOf(d, KERF_OP_ROTATE, 2) = -1; }},

    {"dimension 0 of parameter 3 has 18 elements on a rank in 0 blocks",
     [](auto &d) { d.params[3].layout.blocks[0] = 0; }},
    {"dimension 0 of parameter 3 has 18 elements on a rank in 4 blocks",
     [](auto &d) { d.params[3].layout.blocks[0] = 4; }},
    {"dimension 0 of parameter 3",
     [](auto &d) { d.params[3].layout.axes[0][0] = 0; }},
    {"the state of parameter 1 is in pieces over axes 0x4, of which it can "
     "have 0x2",
     [](auto &d) { d.params[1].state_pieces = 4; }},
    {"the state of parameter 1 is in pieces over axes 0x1",
     [](auto &d) { d.params[1].state_pieces = 1; }},
    {"the state of parameter 3 is in pieces over axes 0x2, of which it can "
     "have 0",
     [](auto &d) { d.params[3].state_pieces = 2; }},
    {"state 0 has blocks of 5 elements",
     [](auto &d) { d.states[0].block = 5; }},
    {"parameter 7 is in pieces over axes 0x4",
     [](auto &d) { d.params[7].layout.pieces = 4; }},
    {"parameter 7 is in pieces over axes 0x2, its state over 0",
     [](auto &d) { d.params[7].state_pieces = 0; }},
    // A whole shard where there is room for a piece.
    {"the master of parameter 7 has a stride of 44 bytes for tensors of 84",
     [](auto &d) { d.params[7].layout.pieces = d.params[7].state_pieces = 0; }},
    {"input 0 is in pieces over axes 0x2, of which it can have 0",
     [](auto &d) { d.inputs[0].layout.pieces = 2; }},

    {"program 1 has 'h.{i}.w' twice", [](auto &d) { d.params[5].start = 1; }},
    {"parameters 2 and 5 are both 'h.{i}.w' and differ",
     [](auto &d) { d.params[5].start = 2; }},
    {"parameters 0 and 6 are both 'tied' and differ",
     [](auto &d) { d.params[6].init_value = 0.25; }},
    {"parameters 0 and 6 are both 'tied' and differ",
     [](auto &d) { d.params[6].layout = wholeLayout({2, 8}, KERF_F32); }},
    {"parameters 0 and 6 are both 'tied' and differ",
     [](auto &d) {
       d.params[0].master_dtype = KERF_I1;
       d.params[0].master_offset = 0;
     }},
    {"inputs 0 and 1 are both 'x' and differ",
     [](auto &d) {
       d.inputs.push_back(d.inputs[0]);
       d.inputs[1].role = KERF_ROLE_TOKENS;
       d.inputs[1].offset = 0;
       d.endProgram();
     }},
    {"program 1 has 1 outputs, program 0 has 2",
     [](auto &d) {
       d.outputs.pop_back();
       d.endProgram();
     }},
    {"output 1 of program 1 is 'loss', of program 0 'back'",
     [](auto &d) { d.outputs[3].name = d.outputs[2].name; }},
    {"output 1 of program 1 is not of the layers that it is of in program 0",
     [](auto &d) {
       d.outputs[3].start = 1;
       d.outputs[3].end = 2;
     }},
};

INSTANTIATE_TEST_SUITE_P(Stages, StageFaults, testing::ValuesIn(kStageFaults));

} // namespace
