//===- Artifact.cpp - writing and reading the compiled file ---------------===//

#include "kerf/Artifact/Artifact.h"
#include "kerf/Artifact/Check.h"

#include "llvm/Support/raw_ostream.h"

#include <cassert>
#include <cstring>

using namespace kerf;

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

StringPool::StringPool(llvm::StringRef bytes) : text(bytes.str()) {
  for (size_t at = 0; at < text.size(); at += get(at).size() + 1)
    offsets.try_emplace(get(at), at);
}

uint32_t StringPool::intern(llvm::StringRef string) {
  assert(!string.contains('\0') && "strings end with their first NUL");
  auto [entry, isNew] = offsets.try_emplace(string, text.size());
  if (isNew)
    text.append(string.data(), string.size()).push_back('\0');
  return entry->second;
}

llvm::StringRef StringPool::get(uint32_t offset) const {
  return offset < text.size() ? llvm::StringRef(text.c_str() + offset) : "";
}

uint32_t ArtifactData::addCommand(uint32_t opcode, uint32_t flags,
                                  uint32_t name, uint32_t location,
                                  llvm::ArrayRef<kerf_operand> newOperands,
                                  llvm::ArrayRef<int64_t> newAttrs) {
  kerf_command command = {};
  command.opcode = opcode;
  command.flags = flags;
  command.name = name;
  command.location = location;
  command.first_operand = operands.size();
  command.operand_count = newOperands.size();
  command.first_attr = attrs.size();
  command.attr_count = newAttrs.size();
  operands.insert(operands.end(), newOperands.begin(), newOperands.end());
  attrs.insert(attrs.end(), newAttrs.begin(), newAttrs.end());
  commands.push_back(command);
  return commands.size() - 1;
}

void ArtifactData::addScalarOutput(llvm::StringRef name, uint32_t dtype,
                                   int64_t offset) {
  outputs.push_back(
      {strings.intern(name), dtype, strings.intern(""), 0, offset, 1, 0, 1});
}

uint32_t ArtifactData::beginFunc(llvm::StringRef name) {
  endFunc();
  kerf_func func = {};
  func.name = strings.intern(name);
  func.first_command = commands.size();
  funcs.push_back(func);
  return funcs.size() - 1 - programs.back().first_func;
}

void ArtifactData::endFunc() {
  if (!funcs.empty())
    funcs.back().command_count = commands.size() - funcs.back().first_command;
}

kerf_program &ArtifactData::beginProgram(llvm::StringRef name) {
  kerf_program program = {};
  program.name = strings.intern(name);
  program.first_param = params.size();
  program.first_input = inputs.size();
  program.first_output = outputs.size();
  program.first_buffer = buffers.size();
  program.first_channel = channels.size();
  program.first_func = funcs.size();
  program.first_call = calls.size();
  return programs.emplace_back(program);
}

void ArtifactData::endProgram() {
  kerf_program &program = programs.back();
  program.param_count = params.size() - program.first_param;
  program.input_count = inputs.size() - program.first_input;
  program.output_count = outputs.size() - program.first_output;
  program.buffer_count = buffers.size() - program.first_buffer;
  program.channel_count = channels.size() - program.first_channel;
  program.func_count = funcs.size() - program.first_func;
  program.call_count = calls.size() - program.first_call;
}

kerf_layout kerf::wholeLayout(llvm::ArrayRef<int64_t> shape, uint32_t dtype) {
  assert(shape.size() <= KERF_MAX_RANK && "too many dimensions for a file");
  kerf_layout layout = {};
  layout.rank = shape.size();
  layout.dtype = dtype;
  std::memset(layout.axes, 0xff, sizeof layout.axes);
  for (size_t d = 0; d < shape.size(); ++d)
    layout.global[d] = layout.local[d] = shape[d];
  std::fill_n(layout.blocks, shape.size(), 1u);
  return layout;
}

kerf_operand kerf::arenaOperand(int64_t offset, int64_t bytes, uint32_t dtype,
                                uint32_t access) {
  kerf_operand operand = {};
  operand.kind = KERF_ARENA;
  operand.access = access;
  operand.dtype = dtype;
  operand.offset = offset;
  operand.bytes = bytes;
  operand.copies = 1;
  return operand;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {
/// The file as it grows; its header is written last.
struct Writer {
  std::string file = std::string(sizeof(kerf_header), '\0');
  kerf_header header = {};

  void add(uint32_t kind, const void *data, size_t count, size_t recordBytes) {
    file.resize((file.size() + 7) / 8 * 8, '\0');
    header.sections[kind] = {file.size(), count * recordBytes,
                             static_cast<uint32_t>(recordBytes), 0};
    if (count)
      file.append(static_cast<const char *>(data), count * recordBytes);
  }
  template <typename Record>
  void add(uint32_t kind, const std::vector<Record> &records) {
    add(kind, records.data(), records.size(), sizeof(Record));
  }
  void add(uint32_t kind, const std::string &text) {
    add(kind, text.data(), text.size(), 1);
  }
};
} // namespace

static std::string serialize(const ArtifactData &data) {
  Writer writer;
  writer.add(KERF_SECTION_STRINGS, data.strings.bytes());
  writer.add(KERF_SECTION_META, &data.meta, 1, sizeof data.meta);
  writer.add(KERF_SECTION_AXES, data.axes);
  writer.add(KERF_SECTION_GROUPS, data.groups);
  writer.add(KERF_SECTION_PROGRAMS, data.programs);
  writer.add(KERF_SECTION_CHANNELS, data.channels);
  writer.add(KERF_SECTION_PARAMS, data.params);
  writer.add(KERF_SECTION_STATES, data.states);
  writer.add(KERF_SECTION_INPUTS, data.inputs);
  writer.add(KERF_SECTION_OUTPUTS, data.outputs);
  writer.add(KERF_SECTION_BUFFERS, data.buffers);
  writer.add(KERF_SECTION_FUNCS, data.funcs);
  writer.add(KERF_SECTION_CALLS, data.calls);
  writer.add(KERF_SECTION_COMMANDS, data.commands);
  writer.add(KERF_SECTION_OPERANDS, data.operands);
  writer.add(KERF_SECTION_SCALARS, data.scalars);
  writer.add(KERF_SECTION_ATTRS, data.attrs);
  writer.add(KERF_SECTION_KERNELS, data.kernels);
  writer.add(KERF_SECTION_IMAGE, data.image);
  writer.add(KERF_SECTION_PTX, data.ptx);
  writer.add(KERF_SECTION_PLAN, data.plan);
  writer.add(KERF_SECTION_SAMPLER, data.sampler);
  kerf_header &header = writer.header;
  std::memcpy(header.magic, KERF_MAGIC, sizeof header.magic);
  header.version = KERF_FORMAT_VERSION;
  header.section_count = KERF_SECTION_COUNT;
  header.file_bytes = writer.file.size();
  std::memcpy(writer.file.data(), &header, sizeof header);
  header.checksum =
      artifact::checksumOf(writer.file.data(), writer.file.size());
  std::memcpy(writer.file.data(), &header, sizeof header);
  return std::move(writer.file);
}

llvm::LogicalResult kerf::writeArtifact(const ArtifactData &data,
                                        llvm::raw_ostream &os,
                                        std::string &error) {
  std::string file = serialize(data);
  artifact::View view;
  error = artifact::checkArtifact(file.data(), file.size(), view);
  if (!error.empty())
    return llvm::failure();
  os << file;
  return llvm::success();
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

bool kerf::isArtifact(llvm::StringRef bytes) {
  return bytes.starts_with(llvm::StringRef(KERF_MAGIC, 8));
}

template <typename Record>
static void read(const artifact::Table<Record> &table,
                 std::vector<Record> &records) {
  records.assign(table.begin(), table.end());
}

llvm::LogicalResult kerf::readArtifact(llvm::StringRef bytes,
                                       ArtifactData &data, std::string &error) {
  // The bytes of a caller may lie at any address; records want multiples of 8.
  std::vector<uint64_t> aligned((bytes.size() + 7) / 8);
  if (!bytes.empty())
    std::memcpy(aligned.data(), bytes.data(), bytes.size());
  artifact::View view;
  error = artifact::checkArtifact(aligned.data(), bytes.size(), view);
  if (!error.empty())
    return llvm::failure();
  data = ArtifactData();
  data.strings = StringPool(view.strings);
  data.meta = *view.meta;
  read(view.axes, data.axes);
  read(view.groups, data.groups);
  read(view.programs, data.programs);
  read(view.channels, data.channels);
  read(view.params, data.params);
  read(view.states, data.states);
  read(view.inputs, data.inputs);
  read(view.outputs, data.outputs);
  read(view.buffers, data.buffers);
  read(view.funcs, data.funcs);
  read(view.calls, data.calls);
  read(view.commands, data.commands);
  read(view.operands, data.operands);
  read(view.scalars, data.scalars);
  read(view.attrs, data.attrs);
  read(view.kernels, data.kernels);
  data.image = view.image;
  data.ptx = view.ptx;
  data.plan = view.plan;
  data.sampler = view.sampler;
  return llvm::success();
}
