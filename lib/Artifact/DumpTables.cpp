//===- DumpTables.cpp - memory, kernels and parameters as text ------------===//

#include "kerf/Artifact/Check.h"
#include "kerf/Artifact/Dump.h"
#include "kerf/Support/Counts.h"

#include "llvm/ADT/DenseSet.h"
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

static void printMemory(llvm::raw_ostream &os, const ArtifactData &data,
                        const kerf_program &program) {
  os << "arena: " << program.arena_bytes << " bytes ("
     << readableBytes(program.arena_bytes) << ")\n"
     << "lower bound (largest live set): " << program.lower_bound_bytes
     << " bytes";
  if (program.lower_bound_bytes)
    os << llvm::format("; placed / bound = %.3f",
                       double(program.arena_bytes) / program.lower_bound_bytes);
  os << "\n\nlargest at one time, by class:\n";
  for (uint32_t c = 0; c < KERF_CLASS_COUNT; ++c)
    os << llvm::formatv("  {0,-20}{1,16} bytes {2,12}\n",
                        artifact::bufferClassName(c), program.class_bytes[c],
                        readableBytes(program.class_bytes[c]));
  std::vector<const kerf_buffer *> buffers;
  for (uint32_t b = 0; b < program.buffer_count; ++b)
    buffers.push_back(&data.buffers[program.first_buffer + b]);
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

void kerf::dumpMemory(const ArtifactData &data, llvm::raw_ostream &os) {
  for (auto [stage, program] : llvm::enumerate(data.programs)) {
    if (data.programs.size() > 1)
      os << (stage ? "\n" : "") << "stage " << stage << " '"
         << data.strings.get(program.name) << "'\n";
    printMemory(os, data, program);
  }
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void kerf::dumpPtx(const ArtifactData &data, llvm::raw_ostream &os) {
  os << data.ptx;
}

void kerf::dumpKernels(const ArtifactData &data, llvm::raw_ostream &os) {
  std::vector<uint32_t> launches(data.kernels.size());
  for (const kerf_command &command : data.commands)
    if (command.opcode == KERF_OP_LAUNCH)
      ++launches[data.attrs[command.first_attr + KERF_LAUNCH_KERNEL]];
  llvm::StringRef processor = data.strings.get(data.meta.cpu);
  bool isGpu = !data.ptx.empty();
  os << data.kernels.size() << " kernels in ";
  if (isGpu)
    os << data.ptx.size() << " bytes of PTX and a cubin of "
       << data.image.size() << " bytes for " << processor << '\n';
  else
    os << "an image of " << data.image.size() << " bytes for " << processor
       << " (" << data.strings.get(data.meta.features) << ")\n";
  os << "   commands        "
     << (isGpu ? "blocks    threads" : "units      grain")
     << " arguments  content           name\n";
  for (auto [kernel, count] : llvm::zip(data.kernels, launches))
    os << llvm::formatv(
        "{0,11} {1,12} {2,10} {3,9}  {4}  {5}\n", count, kernel.units,
        isGpu ? int64_t(kernel.threads) : kernel.grain, kernel.argument_count,
        llvm::format_hex_no_prefix(kernel.hash, 16),
        data.strings.get(kernel.symbol));
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// ` in pieces over data`, the axes of the mask.
static void printPieces(llvm::raw_ostream &os, const ArtifactData &data,
                        uint32_t pieces) {
  os << " in pieces over";
  for (auto [a, axis] : llvm::enumerate(data.axes))
    if (pieces >> a & 1)
      os << ' ' << data.strings.get(axis.name);
}

/// `[2304 = 3 x 768 / data, 768]`.
static void printShape(llvm::raw_ostream &os, const ArtifactData &data,
                       const kerf_layout &layout) {
  os << '[';
  for (uint32_t d = 0; d < layout.rank; ++d) {
    os << (d ? ", " : "") << layout.global[d];
    if (layout.blocks[d] != 1)
      os << " = " << layout.blocks[d] << " x "
         << layout.global[d] / layout.blocks[d];
    if (layout.zigzag != 0 && d == 1)
      os << " in zigzag over " << layout.zigzag;
    for (uint8_t axis : layout.axes[d])
      if (axis != 0xff)
        os << " / " << data.strings.get(data.axes[axis].name);
  }
  os << "] " << dtypeName(layout.dtype);
}

static void printInit(llvm::raw_ostream &os, const kerf_param &param) {
  const char *const names[KERF_INIT_COUNT] = {"zeros",  "ones",    "constant",
                                              "normal", "uniform", "nf4"};
  os << ' ' << names[param.init];
  if (param.init >= KERF_INIT_CONSTANT && param.init != KERF_INIT_NF4)
    os << ' ' << llvm::format("%g", param.init_value);
}

static int64_t elementsOf(const kerf_param &param) {
  int64_t elements = param.end - param.start;
  for (uint32_t d = 0; d < param.layout.rank; ++d)
    elements *= param.layout.global[d];
  return elements;
}

static void printParam(llvm::raw_ostream &os, const ArtifactData &data,
                       const kerf_param &param) {
  os << data.strings.get(param.name) << ": ";
  if (artifact::holesOf(data.strings.get(param.name)).iteration) {
    os << "i = " << param.start;
    if (param.end - param.start > 1)
      os << " .. " << param.end - 1;
    os << " of ";
  }
  printShape(os, data, param.layout);
  printInit(os, param);
  if (param.flags & KERF_PARAM_FROZEN)
    os << " frozen";
  if (param.layout.pieces)
    printPieces(os, data, param.layout.pieces);
  os << " at " << param.offset;
  if (param.end - param.start > 1)
    os << " + " << param.stride << " i";
  if (param.state_pieces && !param.layout.pieces) {
    os << ", state";
    printPieces(os, data, param.state_pieces);
  }
  if (param.master_dtype != KERF_NONE)
    os << ", master " << dtypeName(param.master_dtype) << " at "
       << param.master_offset;
  for (uint32_t s = 0; s < param.state_count; ++s) {
    const kerf_state &state = data.states[param.first_state + s];
    os << ", " << data.strings.get(state.name) << ' ' << dtypeName(state.dtype);
    if (state.block > 1)
      os << " per " << state.block;
    if (state.without > 0)
      os << " without dimension " << param.layout.rank - state.without;
    os << " at " << state.offset;
  }
  os << '\n';
}

void kerf::dumpParams(const ArtifactData &data, llvm::raw_ostream &os) {
  int64_t total = 0, trained = 0;
  // Tied weights may be on two stages.
  llvm::DenseSet<std::pair<llvm::StringRef, int64_t>> counted;
  for (auto [stage, program] : llvm::enumerate(data.programs)) {
    if (data.programs.size() > 1)
      os << "stage " << stage << " '" << data.strings.get(program.name)
         << "'\n";
    for (uint32_t p = 0; p < program.param_count; ++p) {
      const kerf_param &param = data.params[program.first_param + p];
      printParam(os, data, param);
      if (!counted.insert({data.strings.get(param.name), param.start}).second)
        continue;
      total += elementsOf(param);
      trained += param.flags & KERF_PARAM_FROZEN ? 0 : elementsOf(param);
    }
  }
  os << countOf(total, "parameter");
  if (trained != total)
    os << ", " << groupDigits(trained) << " trained";
  os << '\n';
}

void kerf::dumpPlan(const ArtifactData &data, llvm::raw_ostream &os) {
  os << data.plan;
  if (!llvm::StringRef(data.plan).ends_with("\n"))
    os << '\n';
}
