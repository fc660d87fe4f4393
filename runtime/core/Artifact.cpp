//===- Artifact.cpp - opening files ---------------------------------------===//

#include "Artifact.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::artifact;
using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {
struct File {
  int descriptor;
  ~File() {
    if (descriptor >= 0)
      close(descriptor);
  }
};
} // namespace

static Status readAll(int file, char *to, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes;) {
    ssize_t got = read(file, to + at, bytes - at);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return failure(KERF_FAILED, "cannot be read: %s", std::strerror(errno));
    if (got == 0)
      return failure(KERF_INVALID, "truncated: became shorter while it was "
                                   "read");
    at += got;
  }
  return {};
}

static Status readFile(const char *path, kerf_artifact &artifact,
                       uint64_t &size) {
  // A pipe is refused below; opening it must not wait for a writer.
  File file{open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  struct stat info;
  if (file.descriptor < 0 || fstat(file.descriptor, &info) != 0)
    return failure(KERF_INVALID, "cannot be opened: %s", std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    return failure(KERF_INVALID, "is no regular file");
  size = info.st_size;
  // Looked at first, so that a large foreign file is not read in vain.
  char magic[8] = {};
  uint64_t known = std::min<uint64_t>(size, sizeof magic);
  Status status = readAll(file.descriptor, magic, known);
  if (status.failed())
    return status;
  if (std::memcmp(magic, KERF_MAGIC, known) != 0)
    return failure(KERF_INVALID, "not a compiled file of Kerf: kerfc "
                                 "MODEL.mlir -o MODEL.kerf makes one");
  artifact.bytes.resize((size + 7) / 8);
  if (size == 0)
    return {};
  char *to = reinterpret_cast<char *>(artifact.bytes.data());
  std::memcpy(to, magic, known);
  return readAll(file.descriptor, to + known, size - known);
}

/// Checks the bytes and hands the artifact over.
static Status finish(std::unique_ptr<kerf_artifact> made, uint64_t size,
                     kerf_artifact **artifact) {
  std::string message = checkArtifact(made->bytes.data(), size, made->view);
  if (!message.empty())
    return {KERF_INVALID, std::move(message)};
  made->number();
  *artifact = made.release();
  return {};
}

kerf_status kerf_artifact_open(const char *path, kerf_artifact **artifact,
                               kerf_error *error) {
  *artifact = nullptr;
  auto made = std::make_unique<kerf_artifact>();
  made->name = path;
  uint64_t size = 0;
  Status status = readFile(path, *made, size);
  if (!status.failed())
    status = finish(std::move(made), size, artifact);
  if (status.failed())
    status.message = std::string(path) + ": " + status.message;
  return status.report(error);
}

kerf_status kerf_artifact_open_bytes(const void *bytes, uint64_t size,
                                     const char *name, kerf_artifact **artifact,
                                     kerf_error *error) {
  *artifact = nullptr;
  auto made = std::make_unique<kerf_artifact>();
  made->name = name;
  made->bytes.resize((size + 7) / 8);
  if (size != 0)
    std::memcpy(made->bytes.data(), bytes, size);
  Status status = finish(std::move(made), size, artifact);
  if (status.failed())
    status.message = std::string(name) + ": " + status.message;
  return status.report(error);
}

void kerf_artifact_close(kerf_artifact *artifact) { delete artifact; }

//===----------------------------------------------------------------------===//
// Numbers of parameters and inputs
//===----------------------------------------------------------------------===//

void kerf_artifact::number() {
  std::map<std::pair<std::string_view, int64_t>, uint32_t> numbers;
  std::map<std::string_view, uint32_t> inputNumbers;
  for (uint32_t p = 0; p < view.programs.count; ++p) {
    const kerf_program &program = view.programs[p];
    for (uint32_t i = 0; i < program.param_count; ++i) {
      uint32_t record = program.first_param + i;
      const kerf_param &param = view.params[record];
      auto [at, isNew] = numbers.try_emplace(
          {view.string(param.name), param.start}, params.size());
      if (isNew) {
        params.push_back(param);
        paramHolders.push_back({{p, record}});
        continue;
      }
      auto &holders = paramHolders[at->second];
      bool isOwner = isBare(params[at->second]) && !isBare(param);
      holders.insert(isOwner ? holders.begin() : holders.end(), {p, record});
      if (isOwner)
        params[at->second] = param;
    }
    for (uint32_t i = 0; i < program.input_count; ++i) {
      uint32_t record = program.first_input + i;
      const kerf_input &input = view.inputs[record];
      auto [at, isNew] =
          inputNumbers.try_emplace(view.string(input.name), inputs.size());
      if (isNew) {
        inputs.push_back(input);
        inputHolders.emplace_back();
      }
      inputHolders[at->second].push_back({p, record});
    }
  }
}

template <typename Record>
static const Record *recordIn(uint32_t program,
                              const std::vector<kerf_artifact::Holder> &holders,
                              const Table<Record> &records) {
  for (const kerf_artifact::Holder &holder : holders)
    if (holder.program == program)
      return &records[holder.record];
  return nullptr;
}

const kerf_param *kerf_artifact::paramOf(uint32_t program,
                                         uint32_t number) const {
  return recordIn(program, paramHolders[number], view.params);
}

const kerf_input *kerf_artifact::inputOf(uint32_t program,
                                         uint32_t number) const {
  return recordIn(program, inputHolders[number], view.inputs);
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

template <typename Records>
static const auto *give(const Records &table, uint32_t *count) {
  if (count)
    *count = table.end() - table.begin();
  return std::to_address(table.begin());
}

const kerf_meta *kerf_artifact_meta(const kerf_artifact *artifact) {
  return artifact->view.meta;
}
const kerf_axis *kerf_artifact_axes(const kerf_artifact *artifact,
                                    uint32_t *count) {
  return give(artifact->view.axes, count);
}
const kerf_param *kerf_artifact_params(const kerf_artifact *artifact,
                                       uint32_t *count) {
  return give(artifact->params, count);
}
const kerf_state *kerf_artifact_states(const kerf_artifact *artifact,
                                       uint32_t *count) {
  return give(artifact->view.states, count);
}
const kerf_input *kerf_artifact_inputs(const kerf_artifact *artifact,
                                       uint32_t *count) {
  return give(artifact->inputs, count);
}
const kerf_output *kerf_artifact_outputs(const kerf_artifact *artifact,
                                         uint32_t *count) {
  return give(programView(artifact->view, 0).outputs, count);
}
const kerf_command *kerf_artifact_commands(const kerf_artifact *artifact,
                                           uint32_t *count) {
  return give(artifact->view.commands, count);
}
const kerf_program *kerf_artifact_programs(const kerf_artifact *artifact,
                                           uint32_t *count) {
  return give(artifact->view.programs, count);
}

const char *kerf_artifact_string(const kerf_artifact *artifact,
                                 uint32_t offset) {
  return artifact->view.string(offset);
}

const char *kerf_artifact_plan(const kerf_artifact *artifact, uint64_t *bytes) {
  if (bytes)
    *bytes = artifact->view.plan.size();
  return artifact->view.plan.data();
}

const void *kerf_artifact_sampler(const kerf_artifact *artifact,
                                  uint64_t *bytes) {
  if (bytes)
    *bytes = artifact->view.sampler.size();
  return artifact->view.sampler.data();
}

uint64_t kerf_artifact_hash(const kerf_artifact *artifact) {
  return artifact->view.header->checksum;
}

size_t kerf_expand_name(const char *pattern, int64_t iteration, int64_t member,
                        char *buffer, size_t bytes) {
  std::string name = expandName(pattern, iteration, member);
  if (bytes != 0) {
    size_t length = std::min(name.size(), bytes - 1);
    std::memcpy(buffer, name.data(), length);
    buffer[length] = '\0';
  }
  return name.size();
}

uint64_t kerf_local_bytes(const kerf_artifact *artifact,
                          const kerf_layout *layout) {
  int64_t bytes;
  return localBytes(artifact->view, *layout, bytes) ? bytes : 0;
}

uint64_t kerf_global_bytes(const kerf_layout *layout) {
  int64_t bytes;
  return globalBytes(*layout, bytes) ? bytes : 0;
}
