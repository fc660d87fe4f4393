//===- kerf-sim-ptx.cpp - runs one kernel of a PTX file without a GPU -----===//

#include "Buffers.h"
#include "Machine.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

using namespace kerf::sim;

static const char usage[] =
    R"(usage: kerf-sim-ptx FILE.ptx                          list its kernels
       kerf-sim-ptx FILE.ptx KERNEL [OPTION...] ARG... run one

  --grid X[,Y[,Z]]    blocks (1)
  --block X[,Y[,Z]]   threads of a block (.reqntid or .maxntid, else 32)
  --shared BYTES      of dynamic shared memory (0)
  --show N            elements to print of each buffer that changed (8)
  --out I=FILE        write argument I (from 0) to a file
  --stats             count instructions, bytes, sectors, bank conflicts

  ARG: TYPE=VALUE                 a value
       TYPE:COUNT[=CONTENT]       memory; CONTENT is zero, iota, random[:SEED],
                                  file:PATH or V,V,... (repeated); else 0xFF
  TYPE: f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64

KERF_SIM_RACES=1 looks for races, KERF_SIM_ORDER=reverse runs blocks backwards.
)";

namespace {
struct Options {
  std::string file, kernel;
  Extent grid, block{0, 1, 1};
  uint32_t shared = 0;
  uint64_t show = 8;
  bool statistics = false;
  std::vector<std::pair<size_t, std::string>> outputs;
  std::vector<Argument> arguments;
};
} // namespace

static Extent parseExtent(const std::string &text) {
  Extent extent;
  if (sscanf(text.c_str(), "%u,%u,%u", &extent.x, &extent.y, &extent.z) < 1)
    throw "'" + text + "' is no X[,Y[,Z]]";
  return extent;
}

static Options parseOptions(int argc, char **argv) {
  Options options;
  for (int at = 1; at < argc; ++at) {
    std::string word = argv[at];
    auto next = [&]() -> std::string {
      if (at + 1 == argc)
        throw "'" + word + "' needs a value";
      return argv[++at];
    };
    if (word == "--grid") {
      options.grid = parseExtent(next());
    } else if (word == "--block") {
      options.block = parseExtent(next());
    } else if (word == "--shared") {
      options.shared = std::stoul(next());
    } else if (word == "--show") {
      options.show = std::stoull(next());
    } else if (word == "--stats") {
      options.statistics = true;
    } else if (word == "--out") {
      std::string value = next();
      size_t equals = value.find('=');
      if (equals == std::string::npos)
        throw std::string("'--out' needs NUMBER=FILE");
      options.outputs.push_back({std::stoul(value), value.substr(equals + 1)});
    } else if (word.starts_with("--")) {
      throw "unknown option '" + word + "'";
    } else if (options.file.empty()) {
      options.file = word;
    } else if (options.kernel.empty()) {
      options.kernel = word;
    } else {
      options.arguments.push_back(parseArgument(word));
    }
  }
  return options;
}

static void listKernels(const Program &program) {
  for (const Entry &entry : program.entries) {
    printf("%s: %zu arguments (%u bytes), %u bytes shared, %u local",
           entry.name.c_str(), entry.params.size(), entry.paramBytes,
           entry.sharedBytes, entry.localBytes);
    if (entry.maxThreads[0])
      printf(", at most %u threads",
             entry.maxThreads[0] * entry.maxThreads[1] * entry.maxThreads[2]);
    printf("\n");
  }
}

static std::vector<uint8_t> packArguments(const Entry &entry,
                                          const Options &options) {
  if (entry.params.size() != options.arguments.size())
    throw "'" + entry.name + "' has " + std::to_string(entry.params.size()) +
        " arguments, not " + std::to_string(options.arguments.size());
  std::vector<uint8_t> params(entry.paramBytes);
  for (size_t index = 0; index < entry.params.size(); ++index) {
    const Variable &param = entry.params[index];
    const Argument &argument = options.arguments[index];
    const void *data = argument.bytes.data();
    uint64_t bytes = argument.bytes.size();
    if (argument.count) {
      data = &argument.address;
      bytes = sizeof argument.address;
    }
    if (bytes != param.bytes)
      throw "argument " + std::to_string(index) + " has " +
          std::to_string(bytes) + " bytes, '" + param.name + "' has " +
          std::to_string(param.bytes);
    memcpy(params.data() + param.offset, data, bytes);
  }
  return params;
}

static void showResults(const Options &options) {
  for (size_t index = 0; index < options.arguments.size(); ++index) {
    const Argument &argument = options.arguments[index];
    if (!argument.count)
      continue;
    const uint8_t *host =
        memory().host(argument.address, argument.bytes.size());
    std::vector<uint8_t> now(host, host + argument.bytes.size());
    for (const auto &[which, path] : options.outputs)
      if (which == index)
        std::ofstream(path, std::ios::binary)
            .write(reinterpret_cast<const char *>(now.data()), now.size());
    if (now == argument.bytes)
      continue;
    printf("argument %zu:", index);
    for (uint64_t at = 0; at < std::min(options.show, argument.count); ++at)
      printf(" %s", printElement(argument, now, at).c_str());
    printf(options.show < argument.count ? " ...\n" : "\n");
  }
}

static void showStatistics(const Statistics &statistics, double seconds) {
  auto count = [](uint64_t value) { return (unsigned long long)value; };
  printf("instructions: %llu of warps, %llu of threads (%.1f million/s)\n",
         count(statistics.warpInstructions),
         count(statistics.threadInstructions),
         statistics.threadInstructions / seconds / 1e6);
  printf("global loads: %llu bytes asked for, %llu in sectors\n",
         count(statistics.globalLoadBytes),
         count(statistics.globalLoadSectors * 32));
  printf("global stores: %llu bytes asked for, %llu in sectors\n",
         count(statistics.globalStoreBytes),
         count(statistics.globalStoreSectors * 32));
  printf("shared memory: %llu turns, %llu without bank conflicts\n",
         count(statistics.sharedTurns), count(statistics.sharedAccesses));
  printf("barriers: %llu\n", count(statistics.barriers));
}

static int run(const Options &options) {
  std::ifstream file(options.file, std::ios::binary);
  if (!file)
    throw "cannot open '" + options.file + "'";
  std::string text(std::istreambuf_iterator<char>(file), {});
  std::unique_ptr<Program> program = loadPtx(text);
  if (options.kernel.empty()) {
    listKernels(*program);
    return 0;
  }
  const Entry *entry = program->find(options.kernel);
  if (!entry)
    throw "no kernel '" + options.kernel + "' in '" + options.file + "'";
  Extent block = options.block;
  if (!block.x)
    for (const uint32_t *size : {entry->requiredThreads, entry->maxThreads})
      if (size[0] && !block.x)
        block = {size[0], size[1], size[2]};
  if (!block.x)
    block.x = lanes;
  std::vector<uint8_t> params = packArguments(*entry, options);
  auto start = std::chrono::steady_clock::now();
  Statistics statistics = launch(*program, *entry, options.grid, block,
                                 options.shared, params, options.statistics);
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  showResults(options);
  if (options.statistics)
    showStatistics(statistics, seconds.count());
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "--help") == 0) {
    fputs(usage, argc < 2 ? stderr : stdout);
    return argc < 2 ? 2 : 0;
  }
  try {
    return run(parseOptions(argc, argv));
  } catch (const Trap &trap) {
    fprintf(stderr, "kerf-sim-ptx: error: %s\n", trap.text.c_str());
    return 1;
  } catch (const std::string &text) {
    fprintf(stderr, "kerf-sim-ptx: error: %s\n", text.c_str());
    return 2;
  } catch (const std::exception &error) {
    fprintf(stderr, "kerf-sim-ptx: error: bad number (%s)\n", error.what());
    return 2;
  }
}
