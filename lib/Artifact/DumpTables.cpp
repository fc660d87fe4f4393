//===- DumpTables.cpp - memory, kernels and parameters as text ------------===//

#include "kerf/Artifact/Check.h"
#include "kerf/Artifact/Dump.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <tuple>

using namespace kerf;
using artifact::dtypeName;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// "12.3 MiB".
static std::string readableBytes(double bytes) {
  const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit)
    bytes /= 1024;
  return llvm::formatv(unit ? "{0:f1} {1}" : "{0:f0} {1}", bytes, units[unit]);
}

static void printLife(llvm::raw_ostream &os, const kerf_buffer &buffer) {
  if (buffer.first < 0)
    os << "always";
  else
    os << buffer.first << " .. " << buffer.last;
}

void kerf::dumpMemory(const ArtifactData &data, llvm::raw_ostream &os) {
  const kerf_meta &meta = data.meta;
  os << "arena: " << meta.arena_bytes << " bytes ("
     << readableBytes(meta.arena_bytes) << ")\n"
     << "lower bound (largest live set): " << meta.lower_bound_bytes
     << " bytes";
  if (meta.lower_bound_bytes)
    os << llvm::format("; placed / bound = %.3f",
                       double(meta.arena_bytes) / meta.lower_bound_bytes);
  os << "\n\nlargest at one time, by class:\n";
  for (uint32_t c = 0; c < KERF_CLASS_COUNT; ++c)
    os << llvm::formatv("  {0,-20}{1,16} bytes {2,12}\n",
                        artifact::bufferClassName(c), meta.class_bytes[c],
                        readableBytes(meta.class_bytes[c]));
  std::vector<const kerf_buffer *> buffers;
  for (const kerf_buffer &buffer : data.buffers)
    buffers.push_back(&buffer);
  llvm::sort(buffers, [](const kerf_buffer *a, const kerf_buffer *b) {
    if (a->bytes != b->bytes)
      return a->bytes > b->bytes;
    return std::tie(a->offset, a->first, a) < std::tie(b->offset, b->first, b);
  });
  os << '\n' << buffers.size() << " buffers, bytes in the arena:\n";
  for (const kerf_buffer *buffer : buffers) {
    os << llvm::formatv("  {0,14} [{1}, {2}) {3}, ", buffer->bytes,
                        buffer->offset, buffer->offset + buffer->bytes,
                        artifact::bufferClassName(buffer->buffer_class));
    printLife(os, *buffer);
    os << "  " << data.strings.get(buffer->name) << '\n';
  }
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void kerf::dumpKernels(const ArtifactData &data, llvm::raw_ostream &os) {
  std::vector<uint32_t> launches(data.kernels.size());
  for (const kerf_command &command : data.commands)
    if (command.opcode == KERF_OP_LAUNCH)
      ++launches[data.attrs[command.first_attr]];
  os << data.kernels.size() << " kernels in an image of " << data.image.size()
     << " bytes for " << data.strings.get(data.meta.cpu) << " ("
     << data.strings.get(data.meta.features) << ")\n"
     << "   commands        units      grain arguments  content           "
        "name\n";
  for (auto [kernel, count] : llvm::zip(data.kernels, launches))
    os << llvm::formatv("{0,11} {1,12} {2,10} {3,9}  {4}  {5}\n", count,
                        kernel.units, kernel.grain, kernel.argument_count,
                        llvm::format_hex_no_prefix(kernel.hash, 16),
                        data.strings.get(kernel.symbol));
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// `[2304 / data, 768]`.
static void printShape(llvm::raw_ostream &os, const ArtifactData &data,
                       const kerf_layout &layout) {
  os << '[';
  for (uint32_t d = 0; d < layout.rank; ++d) {
    os << (d ? ", " : "") << layout.global[d];
    for (uint8_t axis : layout.cuts[d])
      if (axis != 0xff)
        os << " / " << data.strings.get(data.axes[axis].name);
  }
  os << "] " << dtypeName(layout.dtype);
}

static void printInit(llvm::raw_ostream &os, const kerf_param &param) {
  const char *const names[] = {"zeros", "ones", "constant", "normal",
                               "uniform"};
  os << ' ' << names[param.init];
  if (param.init >= KERF_INIT_CONSTANT)
    os << ' ' << llvm::format("%g", param.init_value);
}

static int64_t elementsOf(const kerf_param &param) {
  int64_t elements = param.end - param.start;
  for (uint32_t d = 0; d < param.layout.rank; ++d)
    elements *= param.layout.global[d];
  return elements;
}

void kerf::dumpParams(const ArtifactData &data, llvm::raw_ostream &os) {
  int64_t total = 0, trained = 0;
  for (const kerf_param &param : data.params) {
    total += elementsOf(param);
    trained += param.flags & KERF_PARAM_FROZEN ? 0 : elementsOf(param);
    os << data.strings.get(param.name) << ": ";
    if (param.end - param.start != 1 || param.start != 0)
      os << "i = " << param.start << " .. " << param.end - 1 << " of ";
    printShape(os, data, param.layout);
    printInit(os, param);
    if (param.flags & KERF_PARAM_FROZEN)
      os << " frozen";
    os << " at " << param.offset;
    if (param.end - param.start > 1)
      os << " + " << param.stride << " i";
    if (param.master_dtype != KERF_NONE)
      os << ", master " << dtypeName(param.master_dtype) << " at "
         << param.master_offset;
    for (uint32_t s = 0; s < param.state_count; ++s) {
      const kerf_state &state = data.states[param.first_state + s];
      os << ", " << data.strings.get(state.name) << ' '
         << dtypeName(state.dtype) << " at " << state.offset;
    }
    os << '\n';
  }
  os << total << " parameters";
  if (trained != total)
    os << ", " << trained << " trained";
  os << '\n';
}

void kerf::dumpPlan(const ArtifactData &data, llvm::raw_ostream &os) {
  os << data.plan;
  if (!llvm::StringRef(data.plan).ends_with("\n"))
    os << '\n';
}
