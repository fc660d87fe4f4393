//===- CheckTables.cpp - metadata, mesh and tables ------------------------===//

#include "CheckDetail.h"

#include "kerf/Support/ControlBytes.h"

#include <cmath>
#include <cstring>

using namespace kerf::artifact;

/// Types of parameters, states, inputs and outputs come before this one: 8-bit
/// floats lie between commands only.
static constexpr uint32_t kKeptTypes = KERF_F8E4M3;

bool Checker::checkString(uint32_t offset, const char *what, uint32_t index,
                          bool optional) {
  if (offset < view.strings.size() || (optional && offset == KERF_NONE))
    return true;
  return damaged("%s %u has a string at %u, the pool has %zu bytes", what,
                 index, offset, view.strings.size());
}

bool Checker::checkRange(int64_t offset, int64_t bytes, int64_t align,
                         const char *what, uint32_t index) {
  int64_t arena = program->arena_bytes;
  if (offset < 0 || bytes < 0 || offset > arena || bytes > arena - offset)
    return damaged("%s %u lies at %lld with %lld bytes, the arena has %lld",
                   what, index, (long long)offset, (long long)bytes,
                   (long long)arena);
  if (offset % align != 0)
    return damaged("%s %u lies at %lld, expected a multiple of %lld", what,
                   index, (long long)offset, (long long)align);
  return true;
}

bool Checker::checkSeries(int64_t offset, int64_t stride, int64_t count,
                          int64_t bytes, int64_t align, const char *what,
                          uint32_t index) {
  if (count <= 1)
    return checkRange(offset, bytes, align, what, index);
  // A stride of nothing would let a small file ask for endless work.
  int64_t last;
  if (stride < bytes || stride < 1 || stride % align != 0 ||
      !multiply(stride, count - 1, last) || !add(last, offset, last))
    return damaged("%s %u has a stride of %lld bytes for tensors of %lld", what,
                   index, (long long)stride, (long long)bytes);
  return checkRange(offset, bytes, align, what, index) &&
         checkRange(last, bytes, align, what, index);
}

//===----------------------------------------------------------------------===//
// Metadata and mesh
//===----------------------------------------------------------------------===//

bool Checker::checkMeta() {
  const kerf_meta &meta = *view.meta;
  for (uint32_t string : {meta.model, meta.compiler, meta.target, meta.cpu,
                          meta.features, meta.adapter, meta.config})
    if (!checkString(string, "metadata", 0))
      return false;
  if (meta.reserved != 0)
    return damaged("reserved metadata is %u, expected 0", meta.reserved);
  if (meta.micro_batches == 0 || meta.micro_batches > INT32_MAX)
    return damaged("%u micro-batches", meta.micro_batches);
  if (meta.max_workers == 0 || meta.max_workers > 4096)
    return damaged("workspaces for %u workers, expected 1 to 4096",
                   meta.max_workers);
  if (!std::isfinite(meta.matmul_flops) || !std::isfinite(meta.model_flops) ||
      meta.tokens_per_step < 0 || meta.sequence_length < 0 ||
      meta.vocabulary < 0)
    return damaged("negative or infinite sizes in the metadata");
  return true;
}

bool Checker::checkMesh() {
  if (view.axes.count > KERF_MAX_AXES)
    return damaged("%u axes, at most %d", view.axes.count, KERF_MAX_AXES);
  constexpr int64_t mostRanks = 1 << 24;
  int64_t ranks = 1;
  for (uint32_t a = 0; a < view.axes.count; ++a) {
    const kerf_axis &axis = view.axes[a];
    if (!checkString(axis.name, "axis", a))
      return false;
    if (axis.size == 0 || (ranks *= axis.size) > mostRanks)
      return damaged("axis '%s' has size %u", view.string(axis.name),
                     axis.size);
  }
  if (ranks != view.meta->world_size)
    return damaged("a mesh of %lld ranks for a world of %u", (long long)ranks,
                   view.meta->world_size);
  uint32_t axis = view.meta->pipeline_axis;
  if (axis != KERF_NONE && axis >= view.axes.count)
    return damaged("the pipeline is along axis %u of %u", axis,
                   view.axes.count);
  uint32_t stages = axis == KERF_NONE ? 1 : view.axes[axis].size;
  if (view.programs.count != stages)
    return damaged("%u programs for %u stages", view.programs.count, stages);
  return true;
}

bool Checker::checkGroups() {
  for (uint32_t g = 0; g < view.groups.count; ++g) {
    const kerf_group &group = view.groups[g];
    if (group.axes >> view.axes.count != 0)
      return damaged("group %u has axes %#x of %u", g, group.axes,
                     view.axes.count);
    uint64_t size = 1;
    for (uint32_t a = 0; a < view.axes.count; ++a)
      if (group.axes >> a & 1)
        size *= view.axes[a].size;
    if (group.size != size)
      return damaged("group %u has size %u, its axes have %llu", g, group.size,
                     (unsigned long long)size);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

bool Checker::checkArena(uint32_t index) {
  const kerf_program &own = view.programs[index];
  // Above 2^46 bytes no address space helps; below, sums of offsets are safe.
  constexpr uint64_t largestArena = UINT64_C(1) << 46;
  if (own.arena_bytes == 0 || own.arena_bytes > largestArena ||
      own.arena_bytes % KERF_ARENA_ALIGN != 0)
    return damaged(
        "the arena of program %u has %llu bytes, expected a multiple "
        "of %d",
        index, (unsigned long long)own.arena_bytes, KERF_ARENA_ALIGN);
  if (own.slots == 0 || own.slots > view.meta->micro_batches)
    return damaged("%u micro-batches in %u slots", view.meta->micro_batches,
                   own.slots);
  if (own.train_calls > own.call_count)
    return damaged("a step of %u calls, program %u has %u", own.train_calls,
                   index, own.call_count);
  return checkString(own.name, "program", index);
}

/// Programs follow each other in every section, without a gap.
bool Checker::checkShares() {
  struct Share {
    const char *what;
    uint32_t kerf_program::*first, kerf_program::*count;
    uint32_t all;
  };
  const Share shares[] = {{"parameters", &kerf_program::first_param,
                           &kerf_program::param_count, view.params.count},
                          {"inputs", &kerf_program::first_input,
                           &kerf_program::input_count, view.inputs.count},
                          {"outputs", &kerf_program::first_output,
                           &kerf_program::output_count, view.outputs.count},
                          {"buffers", &kerf_program::first_buffer,
                           &kerf_program::buffer_count, view.buffers.count},
                          {"channels", &kerf_program::first_channel,
                           &kerf_program::channel_count, view.channels.count},
                          {"functions", &kerf_program::first_func,
                           &kerf_program::func_count, view.funcs.count},
                          {"calls", &kerf_program::first_call,
                           &kerf_program::call_count, view.calls.count}};
  for (const Share &share : shares) {
    uint32_t next = 0;
    for (uint32_t p = 0; p < view.programs.count; ++p) {
      const kerf_program &own = view.programs[p];
      if (own.*share.first != next || own.*share.count > share.all - next)
        return damaged("program %u has %u %s from %u on, expected from %u on "
                       "at most %u",
                       p, own.*share.count, share.what, own.*share.first, next,
                       share.all - next);
      next += own.*share.count;
    }
    if (next != share.all)
      return damaged("%u %s, programs have %u", share.all, share.what, next);
  }
  for (uint32_t p = 0; p < view.programs.count; ++p)
    if (!checkArena(p))
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

/// Shards of dimension `d`: the product of its axes, or 0 when they make no
/// sense; `used` collects the axes.
static int64_t shardsAlong(const View &view, const kerf_layout &layout,
                           uint32_t d, uint32_t &used) {
  int64_t parts = 1;
  bool ended = false;
  for (uint8_t axis : layout.axes[d]) {
    if (axis == 0xff) {
      ended = true;
      continue;
    }
    if (ended || axis >= view.axes.count || used >> axis & 1)
      return 0;
    used |= 1u << axis;
    parts *= view.axes[axis].size;
  }
  return parts;
}

bool Checker::checkLayout(const kerf_layout &layout, const char *what,
                          uint32_t index) {
  if (layout.rank > KERF_MAX_RANK || layout.dtype >= kKeptTypes)
    return damaged("%s %u has %u dimensions of type %u", what, index,
                   layout.rank, layout.dtype);
  // Ranks of other stages have no part of it.
  uint32_t pipeline = view.meta->pipeline_axis;
  uint32_t used = pipeline == KERF_NONE ? 0 : 1u << pipeline;
  for (uint32_t d = 0; d < layout.rank; ++d) {
    int64_t parts = shardsAlong(view, layout, d, used), whole;
    if (parts == 0 || layout.local[d] < 0 ||
        !multiply(layout.local[d], parts, whole) || whole != layout.global[d])
      return damaged("dimension %u of %s %u has %lld elements, %lld on a rank "
                     "and %lld parts",
                     d, what, index, (long long)layout.global[d],
                     (long long)layout.local[d], (long long)parts);
    if (layout.blocks[d] == 0 || layout.local[d] % layout.blocks[d] != 0)
      return damaged("dimension %u of %s %u has %lld elements on a rank in %u "
                     "blocks",
                     d, what, index, (long long)layout.local[d],
                     layout.blocks[d]);
  }
  if (layout.granule > KERF_MAX_GRANULE || layout.reserved != 0)
    return damaged("%s %u is in pieces of multiples of %u elements", what,
                   index, layout.granule);
  if (layout.pieces >> view.axes.count != 0 || (layout.pieces & used))
    return damaged("%s %u is in pieces over axes %#x, of which it can have "
                   "%#x",
                   what, index, layout.pieces,
                   ((1u << view.axes.count) - 1) & ~used);
  int64_t parts = 2 * int64_t(layout.zigzag);
  if (parts != 0 && (layout.rank < 2 || layout.global[1] == 0 ||
                     layout.blocks[1] != 1 || layout.global[1] % parts != 0))
    return damaged("%s %u is in zigzag order over %u ranks, which its shape "
                   "cannot be",
                   what, index, layout.zigzag);
  int64_t bytes;
  if (!globalBytes(layout, bytes))
    return damaged("%s %u is too large", what, index);
  return true;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

bool Checker::checkParamNames(uint32_t index) {
  const kerf_param &param = view.params[index];
  if (!checkString(param.name, "parameter", index))
    return false;
  const char *name = view.string(param.name);
  NameHoles holes = holesOf(name);
  bool stacked = param.flags & KERF_PARAM_STACKED;
  constexpr uint32_t known = KERF_PARAM_FROZEN | KERF_PARAM_STACKED;
  if (!*name || !holes.valid || holes.stack != stacked ||
      (stacked && param.layout.rank == 0) ||
      (holes.names > 0 && param.layout.global[0] != holes.names) ||
      (param.flags & ~known))
    return damaged("parameter %u has the name '%s' and flags %u", index, name,
                   param.flags);
  constexpr int64_t mostIterations = 1 << 24;
  if (param.start < 0 || param.end <= param.start ||
      param.end > mostIterations ||
      (!holes.iteration && (param.start != 0 || param.end != 1)))
    return damaged("parameter '%s' has iterations %lld to %lld", name,
                   (long long)param.start, (long long)param.end);
  return true;
}

/// A state in blocks needs a last dimension, and pieces, of whole blocks; one
/// that lacks a dimension is not in pieces.
bool Checker::checkStateShape(uint32_t index, const kerf_param &param) {
  const kerf_state &state = view.states[index];
  const kerf_layout &layout = param.layout;
  bool isWhole = param.state_pieces == 0;
  bool fits = state.block >= 1 && state.without <= layout.rank &&
              (state.without == 0 || (state.block == 1 && isWhole));
  if (fits && state.block > 1) {
    uint32_t last = layout.rank - 1;
    fits = layout.rank > 0 &&
           layout.local[last] / layout.blocks[last] % state.block == 0 &&
           (isWhole || std::max(layout.granule, 1u) % state.block == 0);
  }
  return fits || damaged("state %u has blocks of %u elements and lacks "
                         "dimension %u, counted from the last, which its "
                         "parameter cannot have",
                         index, state.block, state.without);
}

bool Checker::checkStates(uint32_t index, int64_t count) {
  const kerf_param &param = view.params[index];
  if (param.first_state > view.states.count ||
      param.state_count > view.states.count - param.first_state)
    return damaged("parameter %u has states %u and %u more of %u", index,
                   param.first_state, param.state_count, view.states.count);
  for (uint32_t s = param.first_state;
       s < param.first_state + param.state_count; ++s) {
    const kerf_state &state = view.states[s];
    if (!checkString(state.name, "state", s))
      return false;
    if (state.dtype >= kKeptTypes)
      return damaged("state %u has type %u", s, state.dtype);
    int64_t size = kerf_dtype_bytes(state.dtype), bytes;
    if (!checkStateShape(s, param))
      return false;
    if (!localBytes(view, stateLayout(param, state), bytes))
      return damaged("state %u is too large", s);
    if (!checkSeries(state.offset, state.stride, count, bytes, size, "state",
                     s))
      return false;
  }
  return true;
}

bool Checker::checkMaster(uint32_t index, int64_t count) {
  const kerf_param &param = view.params[index];
  bool hasMaster = param.master_dtype != KERF_NONE;
  if (!hasMaster && param.master_offset == -1 && param.master_stride == -1)
    return true;
  if (!hasMaster || param.master_dtype >= kKeptTypes)
    return damaged("parameter %u has a master of type %u at %lld", index,
                   param.master_dtype, (long long)param.master_offset);
  kerf_layout layout = stateLayout(param);
  layout.dtype = param.master_dtype;
  int64_t size = kerf_dtype_bytes(param.master_dtype), bytes;
  if (!localBytes(view, layout, bytes))
    return damaged("the master of parameter %u is too large", index);
  return checkSeries(param.master_offset, param.master_stride, count, bytes,
                     size, "the master of parameter", index);
}

/// A parameter in pieces has its state in the same ones.
bool Checker::checkPieces(uint32_t index) {
  const kerf_param &param = view.params[index];
  if (!checkLayout(stateLayout(param), "the state of parameter", index))
    return false;
  if (param.reserved != 0 || param.layout.zigzag != 0 ||
      (param.layout.pieces != 0 && param.layout.pieces != param.state_pieces))
    return damaged("parameter %u is in pieces over axes %#x, its state over "
                   "%#x",
                   index, param.layout.pieces, param.state_pieces);
  return true;
}

bool Checker::checkParam(uint32_t index) {
  const kerf_param &param = view.params[index];
  if (!checkLayout(param.layout, "parameter", index) || !checkParamNames(index))
    return false;
  if (param.init >= KERF_INIT_COUNT || !std::isfinite(param.init_value) ||
      (param.init == KERF_INIT_NF4) != (param.layout.dtype == KERF_I8))
    return damaged("parameter %u is initialized by kind %u", index, param.init);
  int64_t count = param.end - param.start, bytes;
  return checkPieces(index) && localBytes(view, param.layout, bytes) &&
         checkSeries(param.offset, param.stride, count, bytes,
                     kerf_dtype_bytes(param.layout.dtype), "parameter",
                     index) &&
         checkStates(index, count) && checkMaster(index, count);
}

//===----------------------------------------------------------------------===//
// Inputs, outputs, buffers, kernels
//===----------------------------------------------------------------------===//

bool Checker::checkInput(uint32_t index) {
  const kerf_input &input = view.inputs[index];
  int64_t bytes;
  if (!checkString(input.name, "input", index) ||
      !checkLayout(input.layout, "input", index) ||
      !checkRange(input.offset, input.bytes,
                  kerf_dtype_bytes(input.layout.dtype), "input", index))
    return false;
  if (input.role >= KERF_ROLE_COUNT)
    return damaged("input %u has role %u", index, input.role);
  if (!localBytes(view, input.layout, bytes) || bytes != input.bytes ||
      input.layout.pieces != 0)
    return damaged("input '%s' has %lld bytes, its shape says otherwise",
                   view.string(input.name), (long long)input.bytes);
  bool scalar = input.role >= KERF_ROLE_SEED;
  bool rows = input.role != KERF_ROLE_NONE && !scalar;
  if ((scalar && input.layout.rank != 0) ||
      (rows && (input.layout.rank == 0 ||
                input.layout.local[0] % view.meta->micro_batches != 0)))
    return damaged("input '%s' has a shape that its role '%s' cannot have",
                   view.string(input.name), roleName(input.role));
  return true;
}

bool Checker::checkOutput(uint32_t index) {
  const kerf_output &output = view.outputs[index];
  if (output.dtype >= kKeptTypes)
    return damaged("output %u has type %u", index, output.dtype);
  int64_t size = kerf_dtype_bytes(output.dtype);
  if (output.elements < 1 ||
      uint64_t(output.elements) > program->arena_bytes / uint64_t(size) ||
      output.start < 0 || output.start >= output.end ||
      output.elements % (output.end - output.start) != 0)
    return damaged("output %u has %lld elements for layers %lld to %lld", index,
                   (long long)output.elements, (long long)output.start,
                   (long long)output.end);
  return checkString(output.name, "output", index) &&
         checkString(output.layers, "output", index) &&
         checkRange(output.offset, output.elements * size, size, "output",
                    index);
}

bool Checker::checkBuffer(uint32_t index) {
  const kerf_buffer &buffer = view.buffers[index];
  if (buffer.buffer_class >= KERF_CLASS_COUNT)
    return damaged("buffer %u has class %u", index, buffer.buffer_class);
  if (buffer.first < -1 || buffer.last < -1)
    return damaged("buffer %u lives from %lld to %lld", index,
                   (long long)buffer.first, (long long)buffer.last);
  return checkString(buffer.name, "buffer", index, /*optional=*/true) &&
         checkRange(buffer.offset, buffer.bytes, KERF_ARENA_ALIGN, "buffer",
                    index);
}

/// Kernels of GPUs are PTX, and have blocks of threads.
bool Checker::isCuda() const {
  return std::strcmp(view.string(view.meta->target), "cuda") == 0;
}

bool Checker::checkKernel(uint32_t index) {
  const kerf_kernel &kernel = view.kernels[index];
  if (!checkString(kernel.symbol, "kernel", index))
    return false;
  // Bounded, so that checking all commands takes time linear in the file.
  constexpr uint32_t mostArguments = 4096;
  if (kernel.units < 0 || kernel.grain < 1 ||
      kernel.argument_count > mostArguments)
    return damaged("kernel '%s' has %lld units in grains of %lld and %u "
                   "arguments",
                   view.string(kernel.symbol), (long long)kernel.units,
                   (long long)kernel.grain, kernel.argument_count);
  if (kernel.untouched < 0)
    return damaged("kernel '%s' leaves %lld bytes untouched",
                   view.string(kernel.symbol), (long long)kernel.untouched);
  // What a block of any GPU can have.
  constexpr uint32_t mostThreads = 1024, warp = 32;
  bool isGpu = isCuda();
  if (isGpu ? kernel.threads == 0 || kernel.threads > mostThreads ||
                  kernel.threads % warp != 0
            : kernel.threads != 0)
    return damaged("kernel '%s' has blocks of %u threads",
                   view.string(kernel.symbol), kernel.threads);
  return true;
}

bool Checker::checkTablesOfProgram() {
  const kerf_program &own = *program;
  for (uint32_t i = 0; i < own.param_count; ++i)
    if (!checkParam(own.first_param + i))
      return false;
  for (uint32_t i = 0; i < own.input_count; ++i)
    if (!checkInput(own.first_input + i))
      return false;
  for (uint32_t i = 0; i < own.output_count; ++i)
    if (!checkOutput(own.first_output + i))
      return false;
  for (uint32_t i = 0; i < own.buffer_count; ++i)
    if (!checkBuffer(own.first_buffer + i))
      return false;
  return true;
}

/// What is printed holds nothing that a terminal takes for a command. A NUL
/// ends a string of the pool.
bool Checker::checkText() {
  for (size_t at = 0; at < view.strings.size(); ++at) {
    size_t end = view.strings.find('\0', at);
    std::string_view string = view.strings.substr(at, end - at);
    if (hasControl(string))
      return damaged("string %zu has a control character", at);
    at = end;
  }
  for (auto [text, what] : {std::pair{view.plan, "plan"}, {view.ptx, "PTX"}})
    if (findControl(text, /*lines=*/true) != std::string_view::npos)
      return damaged("the %s has a control character", what);
  return true;
}

bool Checker::checkTables() {
  if (!view.strings.empty() && view.strings.back() != '\0')
    return damaged("the last string does not end");
  if (!checkText())
    return false;
  if (!checkMeta() || !checkMesh() || !checkGroups() || !checkShares())
    return false;
  for (const kerf_program &own : view.programs) {
    program = &own;
    if (!checkTablesOfProgram())
      return false;
  }
  for (uint32_t i = 0; i < view.kernels.count; ++i)
    if (!checkKernel(i))
      return false;
  if (isCuda() ? view.kernels.count != 0 && view.ptx.empty()
               : !view.ptx.empty())
    return damaged("%u kernels and %zu bytes of PTX for '%s'",
                   view.kernels.count, view.ptx.size(),
                   view.string(view.meta->target));
  if (!isCuda() && view.kernels.count != 0 && view.image.empty())
    return damaged("%u kernels without an image", view.kernels.count);
  return true;
}
