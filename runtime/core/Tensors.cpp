//===- Tensors.cpp - inputs, outputs, parameters and state ----------------===//

#include "Session.h"

#include "Numbers.h"
#include "Shard.h"

#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

using namespace kerf::artifact;
using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Shards and global tensors
//===----------------------------------------------------------------------===//

/// Elements of a global tensor that are under way at a time.
static constexpr int64_t kPartElements = 1 << 18;

void kerf_session::zero(int64_t offset, int64_t bytes) {
  static const char zeros[1 << 20] = {};
  for (int64_t at = 0; at < bytes; at += sizeof zeros)
    api->copy_in(device, arena + offset + at, zeros,
                 std::min<int64_t>(sizeof zeros, bytes - at));
}

void kerf_session::writeGlobal(const kerf_layout &layout, int64_t offset,
                               const void *data) {
  Shard shard(view, layout, rank);
  int64_t size = kerf_dtype_bytes(layout.dtype);
  // In parts, gathered on the host: a device may take as long for a short run
  // of elements as for all of them.
  std::vector<char> own(std::min(kPartElements, shard.size()) * size);
  for (int64_t begin = 0; begin < shard.size(); begin += kPartElements) {
    int64_t end = std::min(begin + kPartElements, shard.size());
    std::fill(own.begin(), own.end(), 0); // padding
    shard.runs(begin, end, [&](int64_t global, int64_t local, int64_t count) {
      std::memcpy(own.data() + (local - begin) * size,
                  static_cast<const char *>(data) + global * size,
                  count * size);
    });
    api->copy_in(device, arena + offset + begin * size, own.data(),
                 (end - begin) * size);
  }
}

/// Which one of the ranks that have the same elements this is, and how many
/// they are; ranks of other stages do not count.
static std::pair<uint32_t, uint32_t>
copyOf(const View &view, const kerf_layout &layout, uint32_t rank) {
  uint32_t used = layout.pieces;
  if (view.meta->pipeline_axis != KERF_NONE)
    used |= 1u << view.meta->pipeline_axis;
  for (uint32_t d = 0; d < layout.rank; ++d)
    for (uint8_t axis : layout.axes[d])
      if (axis != 0xff)
        used |= 1u << axis;
  uint32_t coordinates[KERF_MAX_AXES], copy = 0, copies = 1;
  coordinatesOf(view, rank, coordinates);
  for (uint32_t a = 0; a < view.axes.count; ++a)
    if (!(used >> a & 1)) {
      copy = copy * view.axes[a].size + coordinates[a];
      copies *= view.axes[a].size;
    }
  return {copy, copies};
}

Status kerf_session::readGlobal(const kerf_layout &layout, uint32_t owner,
                                int64_t offset, void *data) {
  int64_t size = kerf_dtype_bytes(layout.dtype);
  int64_t elements = Shard(view, layout, rank).size();
  std::vector<uint32_t> sources;
  for (uint32_t r = 0; r < world->size(); ++r)
    if (programOf(view, r) == owner && copyOf(view, layout, r).first == 0)
      sources.push_back(r);
  // In parts, so that little is held beside the result.
  int64_t most = std::min(kPartElements, elements);
  std::vector<char> own(most * size), all(most * size * world->size());
  for (int64_t begin = 0; begin < elements; begin += kPartElements) {
    int64_t end = std::min(begin + kPartElements, elements);
    int64_t bytes = (end - begin) * size;
    Status status;
    if (program == owner)
      status = fetch(own.data(), arena + offset + begin * size, bytes);
    if (status.failed()) {
      transport->abort(status.message.c_str()); // the others wait for it
      return status;
    }
    // Bytes are copied, whatever they mean.
    status = world->allGather(own.data(), all.data(), KERF_I1, 1, bytes);
    if (status.failed())
      return status;
    if (!data)
      continue;
    for (uint32_t r : sources)
      Shard(view, layout, r)
          .runs(begin, end, [&](int64_t global, int64_t local, int64_t count) {
            std::memcpy(static_cast<char *>(data) + global * size,
                        all.data() + r * bytes + (local - begin) * size,
                        count * size);
          });
  }
  return {};
}

/// Does the tensor exist?
static Status checkTensor(const kerf_artifact &artifact,
                          const kerf_tensor &tensor) {
  if (tensor.param >= artifact.params.size())
    return failure(KERF_INVALID, "no parameter %u of %zu", tensor.param,
                   artifact.params.size());
  const kerf_param &param = artifact.params[tensor.param];
  const char *name = artifact.view.string(param.name);
  if (tensor.iteration < param.start || tensor.iteration >= param.end)
    return failure(KERF_INVALID, "'%s' has iterations %lld to %lld, not %lld",
                   name, (long long)param.start, (long long)param.end - 1,
                   (long long)tensor.iteration);
  if (tensor.kind > KERF_TENSOR_STATE)
    return failure(KERF_INVALID, "no kind %u of tensors", tensor.kind);
  if (tensor.kind == KERF_TENSOR_MASTER && param.master_dtype == KERF_NONE)
    return failure(KERF_INVALID, "'%s' has no master", name);
  if (tensor.kind == KERF_TENSOR_STATE && tensor.state >= param.state_count)
    return failure(KERF_INVALID, "'%s' has %u states, not one numbered %u",
                   name, param.state_count, tensor.state);
  return {};
}

namespace {
/// A tensor as the ranks of one program have it.
struct Place {
  kerf_layout layout; ///< with its own type and pieces
  int64_t offset;
};
} // namespace

/// Where a tensor that exists lies by a record of its parameter. A bare record
/// has the parameter only.
static Place placeOf(const kerf_artifact &artifact, const kerf_tensor &tensor,
                     const kerf_param &param) {
  int64_t number = tensor.iteration - param.start;
  if (tensor.kind == KERF_TENSOR_PARAM)
    return {param.layout, param.offset + number * param.stride};
  if (tensor.kind == KERF_TENSOR_MASTER) {
    kerf_layout layout = kerf::artifact::stateLayout(param);
    layout.dtype = param.master_dtype;
    return {layout, param.master_offset + number * param.master_stride};
  }
  const kerf_state &state =
      artifact.view.states[param.first_state + tensor.state];
  return {kerf::artifact::stateLayout(param, state),
          state.offset + number * state.stride};
}

/// The record by which a stage has a tensor that exists, or null.
static const kerf_param *recordOf(const kerf_artifact &artifact,
                                  uint32_t program, const kerf_tensor &tensor) {
  const kerf_param *param = artifact.paramOf(program, tensor.param);
  bool has = param && (tensor.kind == KERF_TENSOR_PARAM || !isBare(*param));
  return has ? param : nullptr;
}

static const kerf_param *ownRecord(const kerf_session &session,
                                   const kerf_tensor &tensor) {
  return recordOf(session.artifact, session.program, tensor);
}

/// `given` bytes for a tensor that has `expected`.
static Status checkBytes(uint64_t given, uint64_t expected) {
  if (given == expected)
    return {};
  return failure(KERF_INVALID, "%llu bytes were given, the tensor has %llu",
                 (unsigned long long)given, (unsigned long long)expected);
}

//===----------------------------------------------------------------------===//
// C border: parameters and state
//===----------------------------------------------------------------------===//

kerf_status kerf_tensor_layout(const kerf_artifact *artifact,
                               const kerf_tensor *tensor, kerf_layout *layout,
                               kerf_error *error) {
  Status status = checkTensor(*artifact, *tensor);
  if (!status.failed())
    *layout =
        placeOf(*artifact, *tensor, artifact->params[tensor->param]).layout;
  return status.report(error);
}

/// The tensor's part on this rank, of `bytes` bytes.
static Status findOwn(const kerf_session &session, const kerf_tensor &tensor,
                      uint64_t bytes, int64_t &offset) {
  Status status = checkTensor(session.artifact, tensor);
  if (status.failed())
    return status;
  const kerf_param *param = ownRecord(session, tensor);
  if (!param)
    return failure(
        KERF_INVALID, "'%s' is on another stage",
        session.view.string(session.artifact.params[tensor.param].name));
  Place place = placeOf(session.artifact, tensor, *param);
  offset = place.offset;
  return checkBytes(bytes, kerf_local_bytes(&session.artifact, &place.layout));
}

kerf_status kerf_session_read(kerf_session *session, const kerf_tensor *tensor,
                              void *data, uint64_t bytes, kerf_error *error) {
  int64_t offset;
  Status status = findOwn(*session, *tensor, bytes, offset);
  if (!status.failed())
    status = session->fetch(data, session->arena + offset, bytes);
  return status.report(error);
}

kerf_status kerf_session_write(kerf_session *session, const kerf_tensor *tensor,
                               const void *data, uint64_t bytes,
                               kerf_error *error) {
  int64_t offset;
  Status status = findOwn(*session, *tensor, bytes, offset);
  if (!status.failed())
    session->api->copy_in(session->device, session->arena + offset, data,
                          bytes);
  return status.report(error);
}

kerf_status kerf_session_read_global(kerf_session *session,
                                     const kerf_tensor *tensor, void *data,
                                     uint64_t bytes, kerf_error *error) {
  const kerf_artifact &artifact = session->artifact;
  Status status = checkTensor(artifact, *tensor);
  if (status.failed())
    return status.report(error);
  Place place = placeOf(artifact, *tensor, artifact.params[tensor->param]);
  if (data)
    status = checkBytes(bytes, kerf_global_bytes(&place.layout));
  if (!status.failed())
    status = session->readGlobal(
        place.layout, artifact.paramHolders[tensor->param].front().program,
        place.offset, data);
  return status.report(error);
}

kerf_status kerf_session_write_global(kerf_session *session,
                                      const kerf_tensor *tensor,
                                      const void *data, uint64_t bytes,
                                      kerf_error *error) {
  const kerf_artifact &artifact = session->artifact;
  Status status = checkTensor(artifact, *tensor);
  if (status.failed())
    return status.report(error);
  kerf_layout layout =
      placeOf(artifact, *tensor, artifact.params[tensor->param]).layout;
  status = checkBytes(bytes, kerf_global_bytes(&layout));
  const kerf_param *own = ownRecord(*session, *tensor);
  if (!status.failed() && own) {
    Place place = placeOf(artifact, *tensor, *own);
    session->writeGlobal(place.layout, place.offset, data);
  }
  return status.report(error);
}

//===----------------------------------------------------------------------===//
// C border: parts of tensors
//===----------------------------------------------------------------------===//

kerf_status kerf_tensor_holding(const kerf_artifact *artifact,
                                const kerf_tensor *tensor, uint32_t rank,
                                bool *has, kerf_holding *holding,
                                kerf_error *error) {
  *has = false;
  Status status = checkTensor(*artifact, *tensor);
  if (status.failed())
    return status.report(error);
  const View &view = artifact->view;
  if (rank >= view.meta->world_size)
    return failure(KERF_INVALID, "no rank %u of %u", rank,
                   view.meta->world_size)
        .report(error);
  uint32_t program = programOf(view, rank);
  const kerf_param *param = recordOf(*artifact, program, *tensor);
  if (!param)
    return status.report(error);
  *has = true;
  holding->layout = placeOf(*artifact, *tensor, *param).layout;
  Shard shard(view, holding->layout, rank);
  holding->elements = shard.filled();
  holding->row = shard.row();
  std::tie(holding->copy, holding->copies) =
      copyOf(view, holding->layout, rank);
  holding->is_home =
      artifact->paramHolders[tensor->param].front().program == program;
  return status.report(error);
}

uint32_t kerf_holding_boxes(const kerf_artifact *artifact,
                            const kerf_holding *holding, uint32_t rank,
                            int64_t begin, int64_t end, kerf_box *boxes,
                            uint32_t capacity) {
  std::vector<kerf_box> found =
      Shard(artifact->view, holding->layout, rank).boxes(begin, end);
  std::copy_n(found.begin(), std::min<size_t>(found.size(), capacity), boxes);
  return static_cast<uint32_t>(found.size());
}

/// Where a part lies in the arena, with its bytes.
static Status findPart(const kerf_session &session, const kerf_part &part,
                       Snapshot::Part &found) {
  Status status = checkTensor(session.artifact, part.tensor);
  if (status.failed())
    return status;
  const kerf_param *param = ownRecord(session, part.tensor);
  if (!param)
    return failure(KERF_INVALID, "the tensor is on another stage");
  Place place = placeOf(session.artifact, part.tensor, *param);
  int64_t size = kerf_dtype_bytes(place.layout.dtype);
  int64_t stored = Shard(session.view, place.layout, session.rank).size();
  if (part.begin < 0 || part.begin > part.end || part.end > stored)
    return failure(KERF_INVALID, "elements %lld to %lld of %lld were asked for",
                   (long long)part.begin, (long long)part.end,
                   (long long)stored);
  found.offset = place.offset + part.begin * size;
  found.bytes = (part.end - part.begin) * size;
  return {};
}

kerf_status kerf_session_begin_snapshot(kerf_session *session,
                                        const kerf_part *parts, uint32_t count,
                                        void *memory, kerf_error *error) {
  std::vector<Snapshot::Part> found(count);
  char *to = static_cast<char *>(memory);
  for (uint32_t n = 0; n < count; ++n) {
    Status status = findPart(*session, parts[n], found[n]);
    if (status.failed())
      return status.report(error);
    found[n].to = to;
    to += found[n].bytes;
  }
  return session->beginSnapshot(std::move(found)).report(error);
}

//===----------------------------------------------------------------------===//
// C border: inputs and outputs
//===----------------------------------------------------------------------===//

static Status checkInput(const kerf_session &session, uint32_t input) {
  size_t count = session.artifact.inputs.size();
  if (input < count)
    return {};
  return failure(KERF_INVALID, "no input %u of %zu", input, count);
}

kerf_status kerf_session_set_input(kerf_session *session, uint32_t input,
                                   const void *data, uint64_t bytes,
                                   kerf_error *error) {
  Status status = checkInput(*session, input);
  if (status.failed())
    return status.report(error);
  const kerf_input *record = session->artifact.inputOf(session->program, input);
  if (!record)
    return status.report(error);
  status = checkBytes(bytes, record->bytes);
  if (!status.failed())
    session->api->copy_in(session->device, session->arena + record->offset,
                          data, bytes);
  return status.report(error);
}

kerf_status kerf_session_set_input_global(kerf_session *session, uint32_t input,
                                          const void *data, uint64_t bytes,
                                          kerf_error *error) {
  Status status = checkInput(*session, input);
  if (status.failed())
    return status.report(error);
  status = checkBytes(
      bytes, kerf_global_bytes(&session->artifact.inputs[input].layout));
  const kerf_input *record = session->artifact.inputOf(session->program, input);
  if (!status.failed() && record)
    session->writeGlobal(record->layout, record->offset, data);
  return status.report(error);
}

kerf_status kerf_session_input_rows(const kerf_session *session, uint32_t input,
                                    uint8_t *marks, uint64_t rows,
                                    kerf_error *error) {
  Status status = checkInput(*session, input);
  if (status.failed())
    return status.report(error);
  const kerf_layout &layout = session->artifact.inputs[input].layout;
  if (layout.rank == 0 || rows != static_cast<uint64_t>(layout.global[0]))
    return failure(KERF_INVALID, "input %u has not %llu rows", input,
                   static_cast<unsigned long long>(rows))
        .report(error);
  const kerf_input *record = session->artifact.inputOf(session->program, input);
  if (!record)
    return status.report(error);
  int64_t inRow = 1;
  for (uint32_t d = 1; d < layout.rank; ++d)
    inRow *= layout.global[d];
  Shard shard(session->view, record->layout, session->rank);
  shard.runs(0, shard.size(), [&](int64_t global, int64_t, int64_t count) {
    for (int64_t row = global / inRow; row <= (global + count - 1) / inRow;
         ++row)
      marks[row] = 1;
  });
  return status.report(error);
}

/// `value` as bytes of a type; false when the type cannot hold it.
static bool convert(double value, uint32_t dtype, char bytes[8]) {
  auto put = [&](auto x) {
    std::memcpy(bytes, &x, sizeof x);
    return true;
  };
  switch (dtype) {
  case KERF_F32:
    return put(static_cast<float>(value));
  case KERF_F64:
    return put(value);
  case KERF_BF16:
    return put(toBf16(value));
  case KERF_F16:
    return put(toF16(value));
  case KERF_I32:
    return value >= INT32_MIN && value <= INT32_MAX &&
           value == std::floor(value) && put(static_cast<int32_t>(value));
  case KERF_I8:
    return value >= INT8_MIN && value <= INT8_MAX &&
           value == std::floor(value) && put(static_cast<int8_t>(value));
  default:
    return false;
  }
}

kerf_status kerf_session_set_scalar(kerf_session *session, uint32_t role,
                                    double value, kerf_error *error) {
  if (role < KERF_ROLE_SEED || role >= KERF_ROLE_COUNT)
    return failure(KERF_INVALID, "inputs of role %u are no scalars", role)
        .report(error);
  for (const kerf_input &input : session->view.inputs) {
    if (input.role != role)
      continue;
    char bytes[8];
    if (!convert(value, input.layout.dtype, bytes))
      return failure(KERF_INVALID,
                     "%g is no value of the input '%s' of type "
                     "%s",
                     value, session->view.string(input.name),
                     dtypeName(input.layout.dtype))
          .report(error);
    session->api->copy_in(session->device, session->arena + input.offset, bytes,
                          input.bytes);
  }
  return Status().report(error);
}

/// An element of a type that inputs and outputs have.
static double readElement(const char *bytes, uint32_t dtype) {
  auto get = [&](auto x) {
    std::memcpy(&x, bytes, sizeof x);
    return x;
  };
  switch (dtype) {
  case KERF_F32:
    return get(0.0f);
  case KERF_F64:
    return get(0.0);
  case KERF_BF16:
    return fromBf16(get(uint16_t(0)));
  case KERF_F16:
    return fromF16(get(uint16_t(0)));
  case KERF_I32:
    return get(int32_t(0));
  case KERF_I8:
    return get(int8_t(0));
  default:
    return get(uint8_t(0));
  }
}

kerf_status kerf_session_get_output_values(kerf_session *session,
                                           uint32_t output, double *values,
                                           uint64_t count, kerf_error *error) {
  if (output >= session->view.outputs.count)
    return failure(KERF_INVALID, "no output %u of %u", output,
                   session->view.outputs.count)
        .report(error);
  const kerf_output &record = session->view.outputs[output];
  if (count > static_cast<uint64_t>(record.elements))
    return failure(KERF_INVALID, "the output '%s' has %lld elements, not %llu",
                   session->view.string(record.name),
                   static_cast<long long>(record.elements),
                   static_cast<unsigned long long>(count))
        .report(error);
  auto size = static_cast<uint64_t>(kerf_dtype_bytes(record.dtype));
  std::vector<char> bytes(count * size);
  Status status = session->fetch(bytes.data(), session->arena + record.offset,
                                 bytes.size());
  if (status.failed())
    return status.report(error);
  for (uint64_t i = 0; i < count; ++i)
    values[i] = readElement(bytes.data() + i * size, record.dtype);
  return Status().report(error);
}

kerf_status kerf_session_get_output(kerf_session *session, uint32_t output,
                                    double *value, kerf_error *error) {
  return kerf_session_get_output_values(session, output, value, 1, error);
}
