//===- fuzz-main.cpp - kerf-runtime-fuzz: damaged files -------------------===//
//
// kerf-runtime-fuzz FILE [--seconds N] [--rounds N] [--seed N] [--plugins DIR]
//
// A file that is cut at any length, or has a byte of its header flipped, must
// be refused. A file with some fields changed and the checksum made right again
// must be refused or run, and never crash: the program is built with
// sanitizers. Kernels are code, so what is handed to generated ones is not
// changed: a changed file is then prepared, not run. The test device checks its
// kernels' operands, so that its files run whatever was changed. Files of
// several ranks are not run; where a session would look in them, and where the
// parts of parameters lie, is looked at for all ranks.
//
//===----------------------------------------------------------------------===//

#include "Shard.h"

#include "kerf/Artifact/Check.h"
#include "kerf/Runtime/Runtime.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using namespace kerf::artifact;

namespace {

struct Options {
  const char *file = nullptr, *plugins = nullptr;
  long rounds = 2000, seconds = 0;
  uint64_t seed = 1;
};

struct Counts {
  long refused = 0, unprepared = 0, prepared = 0, ran = 0, looked = 0;
};

class Fuzzer {
public:
  Fuzzer(std::string bytes, const Options &options)
      : good(std::move(bytes)), options(options), state(options.seed) {}

  /// False when a file was accepted that must not be.
  bool refusesDamage();
  void mutate();
  Counts counts;

private:
  bool opens(const std::string &bytes);
  void tryFile(const std::string &bytes);
  void run(kerf_session *session, const View &view);
  void look(const kerf_artifact *artifact, const View &view);
  bool keepsKernels(const View &changed);
  void changeField(std::string &bytes);
  uint64_t random(uint64_t below) {
    state = kerf_mix(state);
    return below ? state % below : 0;
  }

  std::string good;
  View original;
  std::vector<uint64_t> aligned;
  Options options;
  uint64_t state;

public:
  bool open();
  bool hasManyRanks() const { return original.meta->world_size > 1; }
};

} // namespace

bool Fuzzer::open() {
  aligned.resize((good.size() + 7) / 8);
  std::memcpy(aligned.data(), good.data(), good.size());
  std::string message = checkArtifact(aligned.data(), good.size(), original);
  if (!message.empty())
    std::fprintf(stderr, "%s: %s\n", options.file, message.c_str());
  return message.empty();
}

bool Fuzzer::opens(const std::string &bytes) {
  // A buffer of exactly this size: the sanitizer sees a read behind its end.
  std::vector<char> exact(bytes.begin(), bytes.end());
  kerf_artifact *artifact;
  kerf_error error;
  if (kerf_artifact_open_bytes(exact.data(), exact.size(), "fuzz", &artifact,
                               &error))
    return false;
  kerf_artifact_close(artifact);
  return true;
}

bool Fuzzer::refusesDamage() {
  // Long files are cut at some lengths only, but around the header at all.
  uint64_t step = 1;
  for (uint64_t length = 0; length < good.size(); length += step) {
    step = length < 2 * sizeof(kerf_header) ? 1 : 1 + good.size() / 4096;
    if (opens(good.substr(0, length))) {
      std::fprintf(stderr, "opened %llu bytes\n", (unsigned long long)length);
      return false;
    }
  }
  for (uint64_t at = 0; at < sizeof(kerf_header); ++at)
    for (int bit = 0; bit < 9; ++bit) {
      std::string flipped = good;
      flipped[at] ^= bit < 8 ? 1 << bit : 0xff;
      if (opens(flipped)) {
        std::fprintf(stderr, "opened with byte %llu flipped\n",
                     (unsigned long long)at);
        return false;
      }
    }
  return true;
}

/// Puts something likely to hurt at a field of a section.
void Fuzzer::changeField(std::string &bytes) {
  kerf_header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  uint64_t begin = offsetof(kerf_header, sections), end = sizeof header;
  uint64_t kind = random(KERF_SECTION_COUNT + 1);
  if (kind != KERF_SECTION_COUNT) {
    const kerf_section &section = original.header->sections[kind];
    if (kind == KERF_SECTION_IMAGE || section.bytes == 0)
      return;
    begin = section.offset;
    end = begin + section.bytes;
  }
  uint64_t width = UINT64_C(1) << random(4);
  uint64_t at = begin + random((end - begin + width - 1) / width) * width;
  uint64_t value = 0;
  width = std::min(width, end - at);
  std::memcpy(&value, bytes.data() + at, width);
  switch (random(7)) {
  case 0:
    value = 0;
    break;
  case 1:
    value += random(2) ? 1 : -1;
    break;
  case 2:
    value = ~UINT64_C(0) >> random(64);
    break;
  case 3:
    value = UINT64_C(1) << random(64);
    break;
  case 4:
    value += (random(2) ? 1 : -1) * (UINT64_C(1) << random(20));
    break;
  case 5:
    value = random(64);
    break;
  default:
    value = kerf_mix(state);
  }
  std::memcpy(bytes.data() + at, &value, width);
}

/// Do launches get what the original's got? Only then may generated code run.
bool Fuzzer::keepsKernels(const View &changed) {
  auto same = [](const auto *a, const auto *b, uint64_t count) {
    return count == 0 || std::memcmp(a, b, count * sizeof *a) == 0;
  };
  if (changed.programs.count != 1 ||
      changed.programs[0].arena_bytes != original.programs[0].arena_bytes ||
      changed.kernels.count != original.kernels.count ||
      !same(changed.kernels.data, original.kernels.data,
            original.kernels.count) ||
      changed.scalars.count != original.scalars.count ||
      !same(changed.scalars.data, original.scalars.data,
            original.scalars.count) ||
      changed.commands.count != original.commands.count)
    return false;
  for (uint32_t c = 0; c < changed.commands.count; ++c) {
    const kerf_command &a = changed.commands[c], &b = original.commands[c];
    if (a.opcode != KERF_OP_LAUNCH)
      continue;
    if (a.operand_count != b.operand_count || b.opcode != KERF_OP_LAUNCH ||
        !same(changed.operands.data + a.first_operand,
              original.operands.data + b.first_operand, a.operand_count) ||
        changed.attrs[a.first_attr] != original.attrs[b.first_attr])
      return false;
  }
  return true;
}

/// Commands of the step and the evaluation, loops unrolled.
static uint64_t workOf(const View &view) {
  uint64_t work = 0;
  for (const kerf_call &call : view.calls) {
    const kerf_func &func = view.funcs[call.func];
    for (uint32_t c = 0; c < func.command_count; ++c) {
      const kerf_command &command = view.commands[func.first_command + c];
      if (command.opcode == KERF_OP_LOOP) {
        const int64_t *attrs = view.attrs.data + command.first_attr;
        work += (attrs[1] - attrs[0]) * attrs[3];
      }
      ++work;
    }
  }
  return work;
}

void Fuzzer::run(kerf_session *session, const View &view) {
  kerf_error error;
  kerf_session_initialize(session, 3, &error);
  for (uint32_t i = 0; i < view.inputs.count; ++i) {
    std::vector<char> zeros(view.inputs[i].bytes);
    kerf_session_set_input(session, i, zeros.data(), zeros.size(), &error);
  }
  kerf_session_run_step(session, &error);
  kerf_session_run_evaluation(session, &error);
  double value;
  for (uint32_t o = 0; o < view.outputs.count; ++o)
    kerf_session_get_output(session, o, &value, &error);
  for (uint32_t p = 0; p < view.params.count; ++p) {
    kerf_tensor tensor = {KERF_TENSOR_PARAM, p, 0, view.params[p].end - 1};
    std::vector<char> data(kerf_global_bytes(&view.params[p].layout));
    kerf_session_read_global(session, &tensor, data.data(), data.size(),
                             &error);
    kerf_session_write_global(session, &tensor, data.data(), data.size(),
                              &error);
  }
  ++counts.ran;
}

/// What must hold behind the checker.
static void require(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "accepted a file with %s\n", what);
  std::abort();
}

/// Do the parts of a tensor that a rank has lie in the whole one?
static void lookAtShard(const View &view, const kerf_layout &layout,
                        uint32_t rank) {
  kerf::runtime::Shard shard(view, layout, rank);
  int64_t global = 0, local = 0;
  constexpr int64_t most = 1 << 12;
  require(globalBytes(layout, global) && localBytes(view, layout, local),
          "a tensor without a size");
  int64_t size = kerf_dtype_bytes(layout.dtype), next = 0;
  require(shard.size() * size == local, "a part of another size");
  shard.runs(0, std::min(most, shard.size()),
             [&](int64_t from, int64_t to, int64_t count) {
               require(from >= 0 && count > 0 && from + count <= global / size,
                       "a part behind the tensor");
               require(to == next && to + count <= shard.size(),
                       "parts that are not in order");
               next += count;
             });
}

/// Looks at all that a session of `rank` would index.
static void lookAtRank(const View &file, uint32_t rank) {
  View view = programView(file, programOf(file, rank));
  uint32_t world = file.meta->world_size;
  for (const kerf_channel &channel : view.channels)
    require(rankOfProgram(file, rank, channel.from) < world &&
                rankOfProgram(file, rank, channel.to) < world,
            "a channel to nobody");
  for (const kerf_group &group : view.groups)
    require(groupMember(file, group, rank, group.size - 1) < world,
            "a group of nobody");
  for (const kerf_call &call : view.calls)
    require(call.func < view.funcs.count, "a call of nothing");
  for (const kerf_func &func : view.funcs)
    for (uint32_t n = 0; n < func.command_count; ++n) {
      const kerf_command &command = view.commands[func.first_command + n];
      if (command.opcode == KERF_OP_SEND || command.opcode == KERF_OP_RECEIVE)
        require(view.attrs[command.first_attr] < view.channels.count,
                "a message without a channel");
    }
  for (const kerf_input &input : view.inputs)
    lookAtShard(view, input.layout, rank);
  for (const kerf_param &param : view.params) {
    kerf_layout state = param.layout;
    state.pieces = param.state_pieces;
    lookAtShard(view, param.layout, rank);
    lookAtShard(view, state, rank);
  }
}

void Fuzzer::look(const kerf_artifact *artifact, const View &view) {
  constexpr uint32_t mostRanks = 16;
  for (uint32_t r = 0; r < std::min(mostRanks, view.meta->world_size); ++r)
    lookAtRank(view, r);
  uint32_t count;
  const kerf_param *params = kerf_artifact_params(artifact, &count);
  for (uint32_t p = 0; p < count; ++p) {
    kerf_tensor tensor = {KERF_TENSOR_PARAM, p, 0, params[p].start};
    kerf_layout layout;
    require(!kerf_tensor_layout(artifact, &tensor, &layout, nullptr),
            "a number without a parameter");
  }
  ++counts.looked;
}

void Fuzzer::tryFile(const std::string &bytes) {
  kerf_artifact *artifact;
  kerf_error error;
  if (kerf_artifact_open_bytes(bytes.data(), bytes.size(), "fuzz", &artifact,
                               &error)) {
    ++counts.refused;
    return;
  }
  std::vector<uint64_t> copy((bytes.size() + 7) / 8);
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  View view;
  std::string message = checkArtifact(copy.data(), bytes.size(), view);
  look(artifact, view);
  kerf_session_options sessionOptions;
  kerf_session_options_init(&sessionOptions);
  sessionOptions.plugin_path = options.plugins;
  sessionOptions.workers = 1;
  sessionOptions.check_nans = random(2);
  sessionOptions.profile = random(2);
  kerf_session *session = nullptr;
  constexpr uint64_t mostBytes = UINT64_C(1) << 28;
  if (view.programs[0].arena_bytes > mostBytes ||
      kerf_session_create(artifact, &sessionOptions, &session, &error)) {
    ++counts.unprepared;
  } else {
    bool isTest = std::strcmp(view.string(view.meta->target), "test") == 0;
    constexpr uint64_t mostWork = 20000;
    ++counts.prepared;
    if (workOf(view) <= std::max(mostWork, workOf(original)) &&
        (isTest || keepsKernels(view)))
      run(session, view);
  }
  kerf_session_destroy(session);
  kerf_artifact_close(artifact);
}

void Fuzzer::mutate() {
  std::string bytes = good;
  for (uint64_t changes = 1 + random(3); changes > 0; --changes)
    changeField(bytes);
  uint64_t checksum = checksumOf(bytes.data(), bytes.size());
  std::memcpy(bytes.data() + offsetof(kerf_header, checksum), &checksum,
              sizeof checksum);
  tryFile(bytes);
}

static bool parse(int argc, char **argv, Options &options) {
  for (int a = 1; a < argc; ++a) {
    std::string name = argv[a];
    if (name[0] != '-') {
      options.file = argv[a];
      continue;
    }
    if (++a == argc)
      return false;
    if (name == "--seconds")
      options.seconds = std::atol(argv[a]);
    else if (name == "--rounds")
      options.rounds = std::atol(argv[a]);
    else if (name == "--seed")
      options.seed = std::atol(argv[a]);
    else if (name == "--plugins")
      options.plugins = argv[a];
    else
      return false;
  }
  return options.file;
}

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: kerf-runtime-fuzz FILE [--seconds N] "
                         "[--rounds N] [--seed N] [--plugins DIR]\n");
    return 1;
  }
  std::ifstream stream(options.file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  Fuzzer fuzzer(bytes, options);
  if (!fuzzer.open() || !fuzzer.refusesDamage())
    return 1;
  time_t end = std::time(nullptr) + options.seconds;
  long rounds = 0;
  for (; options.seconds ? std::time(nullptr) < end : rounds < options.rounds;
       ++rounds)
    fuzzer.mutate();
  const Counts &counts = fuzzer.counts;
  std::printf("%ld files: %ld refused, %ld looked at, of them %ld not prepared "
              "and %ld prepared, of which %ld ran\n",
              rounds, counts.refused, counts.looked, counts.unprepared,
              counts.prepared, counts.ran);
  // Otherwise the changes are not where they could hurt.
  bool reachesAll = counts.refused && counts.unprepared &&
                    (counts.ran || fuzzer.hasManyRanks());
  if (!reachesAll)
    std::fprintf(stderr, "the changes do not reach all parts\n");
  return !reachesAll;
}
