//===- Check.cpp - header and sections ------------------------------------===//

#include "CheckDetail.h"

#include <algorithm>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>

using namespace kerf::artifact;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the file is read as it lies in memory");

namespace {
/// What a section is called and is made of.
struct SectionKind {
  const char *name;
  uint32_t recordBytes;
};
} // namespace

static const SectionKind kSections[KERF_SECTION_COUNT] = {
    {"strings", 1},
    {"meta", sizeof(kerf_meta)},
    {"axes", sizeof(kerf_axis)},
    {"groups", sizeof(kerf_group)},
    {"programs", sizeof(kerf_program)},
    {"channels", sizeof(kerf_channel)},
    {"params", sizeof(kerf_param)},
    {"states", sizeof(kerf_state)},
    {"inputs", sizeof(kerf_input)},
    {"outputs", sizeof(kerf_output)},
    {"buffers", sizeof(kerf_buffer)},
    {"funcs", sizeof(kerf_func)},
    {"calls", sizeof(kerf_call)},
    {"commands", sizeof(kerf_command)},
    {"operands", sizeof(kerf_operand)},
    {"scalars", sizeof(kerf_scalar)},
    {"attrs", sizeof(int64_t)},
    {"kernels", sizeof(kerf_kernel)},
    {"image", 1},
    {"ptx", 1},
    {"plan", 1},
    {"sampler", 1},
};

static std::string formatted(const char *format, va_list arguments) {
  char text[512];
  std::vsnprintf(text, sizeof text, format, arguments);
  // Names in a damaged file may hold anything; a message is one line of text.
  for (char *c = text; *c; ++c)
    if (static_cast<unsigned char>(*c) < 0x20 || *c == 0x7f)
      *c = '?';
  return text;
}

__attribute__((format(printf, 1, 2))) static std::string
line(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formatted(format, arguments);
  va_end(arguments);
  return text;
}

bool Checker::damaged(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  message = "damaged: " + formatted(format, arguments);
  va_end(arguments);
  return false;
}

uint64_t kerf::artifact::checksumOf(const void *bytes, uint64_t size) {
  kerf_header header;
  std::memcpy(&header, bytes, sizeof header);
  header.checksum = 0;
  uint64_t hash = kerf_checksum(KERF_CHECKSUM_INIT, &header, sizeof header);
  return kerf_checksum(hash, static_cast<const char *>(bytes) + sizeof header,
                       size - sizeof header);
}

/// Is this a whole file of this version?
static std::string checkHeader(const char *bytes, uint64_t size) {
  if (size == 0)
    return "truncated: the file is empty";
  if (std::memcmp(bytes, KERF_MAGIC, std::min<uint64_t>(size, 8)) != 0)
    return "not a compiled file of Kerf: kerfc MODEL.mlir -o MODEL.kerf makes "
           "one";
  constexpr uint64_t prefix = offsetof(kerf_header, sections);
  if (size < prefix)
    return line("truncated: %llu bytes, a header alone has %llu",
                (unsigned long long)size,
                (unsigned long long)sizeof(kerf_header));
  kerf_header header;
  std::memcpy(&header, bytes, prefix);
  if (header.version != KERF_FORMAT_VERSION)
    return line("written by format %u, this program reads format %u: compile "
                "the model again",
                header.version, KERF_FORMAT_VERSION);
  if (size < header.file_bytes || size < sizeof header)
    return line("truncated: %llu bytes, %llu were written",
                (unsigned long long)size,
                (unsigned long long)header.file_bytes);
  if (size > header.file_bytes)
    return line("damaged: %llu bytes, %llu were written",
                (unsigned long long)size,
                (unsigned long long)header.file_bytes);
  if (checksumOf(bytes, size) != header.checksum)
    return "damaged: the checksum differs";
  if (header.section_count != KERF_SECTION_COUNT)
    return line("damaged: %u sections, expected %u", header.section_count,
                KERF_SECTION_COUNT);
  return "";
}

/// Sections lie one behind the other and hold whole records.
static std::string checkSections(const kerf_header &header, uint64_t size) {
  uint64_t at = sizeof header;
  for (uint32_t kind = 0; kind < KERF_SECTION_COUNT; ++kind) {
    const kerf_section &section = header.sections[kind];
    const auto &[name, recordBytes] = kSections[kind];
    if (section.offset % 8 != 0 || section.offset < at ||
        section.offset > size || section.bytes > size - section.offset)
      return line("damaged: section '%s' lies at %llu with %llu bytes, the "
                  "file has %llu",
                  name, (unsigned long long)section.offset,
                  (unsigned long long)section.bytes, (unsigned long long)size);
    if (section.record_bytes != recordBytes || section.reserved != 0 ||
        section.bytes % recordBytes != 0 ||
        section.bytes / recordBytes >= KERF_NONE)
      return line("damaged: section '%s' has records of %u bytes, expected %u",
                  name, section.record_bytes, recordBytes);
    at = section.offset + section.bytes;
  }
  return "";
}

template <typename Record>
static void fill(Table<Record> &table, const char *bytes, uint32_t kind) {
  const kerf_section &section =
      reinterpret_cast<const kerf_header *>(bytes)->sections[kind];
  table.data = reinterpret_cast<const Record *>(bytes + section.offset);
  table.count = section.bytes / sizeof(Record);
}

static std::string_view textOf(const char *bytes, uint32_t kind) {
  const kerf_section &section =
      reinterpret_cast<const kerf_header *>(bytes)->sections[kind];
  return {bytes + section.offset, section.bytes};
}

static void fillView(const char *bytes, View &view) {
  view.header = reinterpret_cast<const kerf_header *>(bytes);
  view.strings = textOf(bytes, KERF_SECTION_STRINGS);
  view.image = textOf(bytes, KERF_SECTION_IMAGE);
  view.ptx = textOf(bytes, KERF_SECTION_PTX);
  view.plan = textOf(bytes, KERF_SECTION_PLAN);
  view.sampler = textOf(bytes, KERF_SECTION_SAMPLER);
  fill(view.axes, bytes, KERF_SECTION_AXES);
  fill(view.groups, bytes, KERF_SECTION_GROUPS);
  fill(view.programs, bytes, KERF_SECTION_PROGRAMS);
  fill(view.channels, bytes, KERF_SECTION_CHANNELS);
  fill(view.params, bytes, KERF_SECTION_PARAMS);
  fill(view.states, bytes, KERF_SECTION_STATES);
  fill(view.inputs, bytes, KERF_SECTION_INPUTS);
  fill(view.outputs, bytes, KERF_SECTION_OUTPUTS);
  fill(view.buffers, bytes, KERF_SECTION_BUFFERS);
  fill(view.funcs, bytes, KERF_SECTION_FUNCS);
  fill(view.calls, bytes, KERF_SECTION_CALLS);
  fill(view.commands, bytes, KERF_SECTION_COMMANDS);
  fill(view.operands, bytes, KERF_SECTION_OPERANDS);
  fill(view.scalars, bytes, KERF_SECTION_SCALARS);
  fill(view.attrs, bytes, KERF_SECTION_ATTRS);
  fill(view.kernels, bytes, KERF_SECTION_KERNELS);
}

/// Checks a file, without what is in its sampler.
static std::string checkFile(const char *bytes, uint64_t size, View &view) {
  std::string message = checkHeader(bytes, size);
  if (!message.empty())
    return message;
  kerf_header header;
  std::memcpy(&header, bytes, sizeof header);
  message = checkSections(header, size);
  if (!message.empty())
    return message;
  fillView(bytes, view);
  Table<kerf_meta> meta;
  fill(meta, bytes, KERF_SECTION_META);
  if (meta.count != 1)
    return line("damaged: %u records of metadata, expected 1", meta.count);
  view.meta = meta.data;
  Checker checker(view);
  if (checker.checkTables() && checker.checkStages() && checker.checkPrograms())
    return "";
  return checker.message;
}

/// A sampler is a sound file of one rank on a CPU, without another sampler.
static std::string checkSampler(std::string_view bytes) {
  View view;
  std::string message = checkFile(bytes.data(), bytes.size(), view);
  if (!message.empty())
    return "damaged: its sampler is " + message;
  const kerf_program *program = view.programs.data;
  if (!view.sampler.empty() || view.meta->world_size != 1 ||
      std::strcmp(view.string(view.meta->target), "cpu") != 0 ||
      program->call_count == program->train_calls)
    return "damaged: its sampler is no evaluation on one CPU rank";
  return "";
}

std::string kerf::artifact::checkArtifact(const void *data, uint64_t size,
                                          View &view) {
  std::string message = checkFile(static_cast<const char *>(data), size, view);
  return message.empty() && !view.sampler.empty() ? checkSampler(view.sampler)
                                                  : message;
}

View kerf::artifact::programView(const View &file, uint32_t number) {
  const kerf_program &program = file.programs[number];
  View view = file;
  view.program = &program;
  view.params = file.params.slice(program.first_param, program.param_count);
  view.inputs = file.inputs.slice(program.first_input, program.input_count);
  view.outputs = file.outputs.slice(program.first_output, program.output_count);
  view.buffers = file.buffers.slice(program.first_buffer, program.buffer_count);
  view.channels =
      file.channels.slice(program.first_channel, program.channel_count);
  view.funcs = file.funcs.slice(program.first_func, program.func_count);
  view.calls = file.calls.slice(program.first_call, program.call_count);
  return view;
}

//===----------------------------------------------------------------------===//
// Layouts and ranks
//===----------------------------------------------------------------------===//

static bool bytesOf(const kerf_layout &layout, const int64_t *sizes,
                    int64_t &bytes) {
  bytes = kerf_dtype_bytes(layout.dtype);
  for (uint32_t d = 0; d < layout.rank; ++d)
    if (!multiply(bytes, sizes[d], bytes))
      return false;
  return true;
}

int64_t kerf::artifact::pieceElements(const View &view,
                                      const kerf_layout &layout,
                                      int64_t elements) {
  if (layout.pieces == 0)
    return elements;
  int64_t granule = std::max<int64_t>(layout.granule, 1), count = granule;
  for (uint32_t a = 0; a < view.axes.count; ++a)
    if (layout.pieces >> a & 1)
      count *= view.axes[a].size;
  return (elements / count + (elements % count != 0)) * granule;
}

kerf_layout kerf::artifact::stateLayout(const kerf_param &param) {
  kerf_layout layout = param.layout;
  layout.pieces = param.state_pieces;
  return layout;
}

kerf_layout kerf::artifact::stateLayout(const kerf_param &param,
                                        const kerf_state &state) {
  kerf_layout layout = stateLayout(param);
  layout.dtype = state.dtype;
  if (state.block > 1) {
    layout.global[layout.rank - 1] /= state.block;
    layout.local[layout.rank - 1] /= state.block;
    layout.granule /= state.block;
  }
  if (state.without == 0)
    return layout;
  for (uint32_t d = layout.rank-- - state.without; d < layout.rank; ++d) {
    layout.global[d] = layout.global[d + 1];
    layout.local[d] = layout.local[d + 1];
    layout.blocks[d] = layout.blocks[d + 1];
    std::copy_n(layout.axes[d + 1], 4, layout.axes[d]);
  }
  return layout;
}

bool kerf::artifact::localBytes(const View &view, const kerf_layout &layout,
                                int64_t &bytes) {
  if (!bytesOf(layout, layout.local, bytes))
    return false;
  int64_t size = kerf_dtype_bytes(layout.dtype);
  return multiply(pieceElements(view, layout, bytes / size), size, bytes);
}

bool kerf::artifact::globalBytes(const kerf_layout &layout, int64_t &bytes) {
  return bytesOf(layout, layout.global, bytes);
}

void kerf::artifact::coordinatesOf(const View &view, uint32_t rank,
                                   uint32_t coordinates[KERF_MAX_AXES]) {
  std::fill_n(coordinates, KERF_MAX_AXES, 0u);
  for (uint32_t a = view.axes.count; a-- > 0; rank /= view.axes[a].size)
    coordinates[a] = rank % view.axes[a].size;
}

uint32_t kerf::artifact::rankAt(const View &view,
                                const uint32_t coordinates[KERF_MAX_AXES]) {
  uint32_t rank = 0;
  for (uint32_t a = 0; a < view.axes.count; ++a)
    rank = rank * view.axes[a].size + coordinates[a];
  return rank;
}

uint32_t kerf::artifact::programOf(const View &view, uint32_t rank) {
  uint32_t coordinates[KERF_MAX_AXES];
  coordinatesOf(view, rank, coordinates);
  uint32_t axis = view.meta->pipeline_axis;
  return axis == KERF_NONE ? 0 : coordinates[axis];
}

uint32_t kerf::artifact::rankOfProgram(const View &view, uint32_t rank,
                                       uint32_t program) {
  uint32_t coordinates[KERF_MAX_AXES];
  coordinatesOf(view, rank, coordinates);
  if (view.meta->pipeline_axis != KERF_NONE)
    coordinates[view.meta->pipeline_axis] = program;
  return rankAt(view, coordinates);
}

int64_t kerf::artifact::partOf(const View &view, const kerf_layout &layout,
                               uint32_t d,
                               const uint32_t coordinates[KERF_MAX_AXES]) {
  int64_t part = 0;
  for (uint8_t axis : layout.axes[d])
    if (axis != 0xff)
      part = part * view.axes[axis].size + coordinates[axis];
  return part;
}

uint32_t kerf::artifact::groupMember(const View &view, const kerf_group &group,
                                     uint32_t rank, uint32_t n) {
  uint32_t coordinates[KERF_MAX_AXES];
  coordinatesOf(view, rank, coordinates);
  for (uint32_t a = view.axes.count; a-- > 0;)
    if (group.axes >> a & 1) {
      coordinates[a] = n % view.axes[a].size;
      n /= view.axes[a].size;
    }
  return rankAt(view, coordinates);
}
