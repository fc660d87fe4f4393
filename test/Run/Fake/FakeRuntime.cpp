//===- FakeRuntime.cpp - the C interface of the runtime, imitated ---------===//
//
// A model of two tables behind kerf/Runtime/Runtime.h, so that what kerf-run
// does around the steps is tested without a compiler and in milliseconds:
// logits[u] = w[t][u] + b[u], cross-entropy, gradient descent with momentum.
//
// "fake.kerf" is one rank, "fake2.kerf" two that do not talk to each other,
// "experts.kerf" counts experts, "noeval.kerf" has no evaluation, "half.kerf"
// takes a loss scale; other paths do not exist. Environment:
//   KERF_FAKE_NAN=N     the loss of step N is no number
//   KERF_FAKE_DIE=R:N   rank R kills itself in step N
//   KERF_FAKE_SLEEP=MS  a step takes this long
//   KERF_FAKE_OVERFLOW=X  gradients overflow with a loss scale above X
//
//===----------------------------------------------------------------------===//

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/Numbers.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using namespace kerf::runtime;

namespace {
constexpr int64_t kVocab = 256, kRows = 4, kSequence = 16, kExperts = 3;

const char *const kStrings[] = {"fake",
                                "0.1.0",
                                "cpu",
                                "any",
                                "loss",
                                "grad_norm",
                                "transformer.w.weight",
                                "transformer.h.{i}.x.{e}.bias",
                                "m",
                                "tokens",
                                "targets",
                                "segments",
                                "positions",
                                "",
                                "expert_load",
                                "expert_rows",
                                "h.{i}.mlp"};
} // namespace

struct kerf_artifact {
  kerf_meta meta{};
  std::vector<kerf_param> params;
  std::vector<kerf_state> states;
  std::vector<kerf_input> inputs;
  std::vector<kerf_output> outputs;
  kerf_program program{};
};

struct kerf_session {
  const kerf_artifact *artifact;
  uint32_t rank;
  double rate = 0, step = 0, scale = 0, loss = 0, norm = 0;
  std::vector<int32_t> inputs[4];
  /// w (rounded to bf16), its f32 master, its momentum; b of two layers.
  std::vector<float> w, master, momentum, b[2];
  std::vector<char> snapshot;
};

static kerf_status fail(kerf_error *error, kerf_status code,
                        const std::string &message) {
  if (error) {
    error->status = code;
    std::snprintf(error->message, sizeof error->message, "%s", message.c_str());
  }
  return code;
}

static kerf_layout layoutOf(uint32_t dtype, std::vector<int64_t> shape) {
  kerf_layout layout{};
  layout.rank = shape.size();
  layout.dtype = dtype;
  for (size_t i = 0; i < shape.size(); ++i)
    layout.global[i] = layout.local[i] = shape[i];
  std::memset(layout.axes, 0xff, sizeof layout.axes);
  return layout;
}

//===----------------------------------------------------------------------===//
// Artifact
//===----------------------------------------------------------------------===//

kerf_status kerf_artifact_open(const char *path, kerf_artifact **result,
                               kerf_error *error) {
  std::string name = path;
  if (name != "fake.kerf" && name != "fake2.kerf" && name != "noeval.kerf" &&
      name != "half.kerf" && name != "experts.kerf")
    return fail(error, KERF_INVALID, name + ": cannot open: not there");
  auto *artifact = new kerf_artifact;
  kerf_meta &meta = artifact->meta;
  meta.model = 0;
  meta.compiler = 1;
  meta.target = 2;
  meta.cpu = 3;
  meta.world_size = name == "fake2.kerf" ? 2 : 1;
  meta.micro_batches = 1;
  meta.pipeline_axis = KERF_NONE;
  meta.max_workers = 8;
  meta.matmul_flops = meta.model_flops = 1e9;
  meta.vocabulary = kVocab;
  artifact->program.slots = artifact->program.train_calls = 1;
  artifact->program.call_count = name == "noeval.kerf" ? 1 : 2;
  kerf_param w{}, b{};
  w.name = 6;
  w.master_dtype = KERF_F32;
  w.end = 1;
  w.layout = layoutOf(KERF_BF16, {kVocab, kVocab});
  w.state_count = 1;
  b.name = 7;
  b.flags = KERF_PARAM_STACKED;
  b.master_dtype = KERF_NONE;
  b.end = 2;
  b.layout = layoutOf(KERF_F32, {kExperts, kVocab});
  b.first_state = 1;
  artifact->params = {w, b};
  artifact->states = {{8, KERF_F32, 1, 0, 0, 0}};
  for (uint32_t i = 0; i < 4; ++i)
    artifact->inputs.push_back({9 + i, KERF_ROLE_TOKENS + i,
                                layoutOf(KERF_I32, {kRows, kSequence}), 0,
                                kRows * kSequence * 4});
  if (name == "half.kerf")
    artifact->inputs.push_back(
        {4, KERF_ROLE_LOSS_SCALE, layoutOf(KERF_F32, {}), 0, 4});
  artifact->outputs = {{4, KERF_F32, 13, 0, 0, 1, 0, 1},
                       {5, KERF_F32, 13, 0, 0, 1, 0, 1}};
  if (name == "experts.kerf")
    for (uint32_t count : {14, 15})
      artifact->outputs.push_back({count, KERF_F32, 16, 0, 0, 8, 2, 4});
  *result = artifact;
  return KERF_OK;
}

void kerf_artifact_close(kerf_artifact *artifact) { delete artifact; }
const kerf_meta *kerf_artifact_meta(const kerf_artifact *a) { return &a->meta; }

template <typename T>
static const T *table(const std::vector<T> &records, uint32_t *count) {
  *count = records.size();
  return records.data();
}
const kerf_param *kerf_artifact_params(const kerf_artifact *a, uint32_t *n) {
  return table(a->params, n);
}
const kerf_state *kerf_artifact_states(const kerf_artifact *a, uint32_t *n) {
  return table(a->states, n);
}
const kerf_input *kerf_artifact_inputs(const kerf_artifact *a, uint32_t *n) {
  return table(a->inputs, n);
}
const kerf_output *kerf_artifact_outputs(const kerf_artifact *a, uint32_t *n) {
  return table(a->outputs, n);
}
const kerf_program *kerf_artifact_programs(const kerf_artifact *a,
                                           uint32_t *n) {
  *n = 1;
  return &a->program;
}
const kerf_axis *kerf_artifact_axes(const kerf_artifact *, uint32_t *n) {
  *n = 0;
  return nullptr;
}
const char *kerf_artifact_string(const kerf_artifact *, uint32_t offset) {
  return offset < std::size(kStrings) ? kStrings[offset] : "";
}

size_t kerf_expand_name(const char *pattern, int64_t iteration, int64_t expert,
                        char *buffer, size_t bytes) {
  std::string name = pattern;
  auto put = [&](const char *hole, int64_t value) {
    size_t at = name.find(hole);
    if (at != std::string::npos)
      name.replace(at, 3, std::to_string(value));
  };
  put("{i}", iteration);
  if (expert >= 0)
    put("{e}", expert);
  std::snprintf(buffer, bytes, "%s", name.c_str());
  return name.size();
}

uint64_t kerf_global_bytes(const kerf_layout *layout) {
  uint64_t bytes = kerf_dtype_bytes(layout->dtype);
  for (uint32_t d = 0; d < layout->rank; ++d)
    bytes *= layout->global[d];
  return bytes;
}

kerf_status kerf_tensor_layout(const kerf_artifact *artifact,
                               const kerf_tensor *tensor, kerf_layout *layout,
                               kerf_error *) {
  *layout = artifact->params[tensor->param].layout;
  if (tensor->kind != KERF_TENSOR_PARAM)
    layout->dtype = KERF_F32;
  return KERF_OK;
}

//===----------------------------------------------------------------------===//
// Session
//===----------------------------------------------------------------------===//

void kerf_session_options_init(kerf_session_options *options) {
  *options = {};
  options->rank = -1;
}

kerf_status kerf_session_create(const kerf_artifact *artifact,
                                const kerf_session_options *options,
                                kerf_session **session, kerf_error *error) {
  if (options->device)
    return fail(error, KERF_INVALID,
                std::string("no device '") + options->device + "'");
  const char *rank = std::getenv("RANK");
  *session = new kerf_session{
      artifact, rank ? static_cast<uint32_t>(std::atoi(rank)) : 0};
  return KERF_OK;
}
void kerf_session_destroy(kerf_session *session) { delete session; }
uint32_t kerf_session_rank(const kerf_session *s) { return s->rank; }
const char *kerf_session_describe(const kerf_session *) { return "imitation"; }

static void roundMaster(kerf_session *s) {
  for (size_t i = 0; i < s->w.size(); ++i)
    s->w[i] = fromBf16(toBf16(s->master[i]));
}

kerf_status kerf_session_initialize(kerf_session *s, int64_t seed,
                                    kerf_error *) {
  uint64_t stream = kerf_random_stream(seed, 0, -1, 0);
  s->master.resize(kVocab * kVocab);
  for (size_t i = 0; i < s->master.size(); ++i)
    s->master[i] = static_cast<float>(kerf_random_bits(stream, i)) * 0x1p-26f;
  s->w.resize(s->master.size());
  s->momentum.assign(s->master.size(), 0);
  for (auto &b : s->b)
    b.assign(kExperts * kVocab, 0);
  roundMaster(s);
  return KERF_OK;
}

kerf_status kerf_session_set_input_global(kerf_session *s, uint32_t input,
                                          const void *data, uint64_t bytes,
                                          kerf_error *error) {
  if (bytes != kRows * kSequence * 4)
    return fail(error, KERF_INVALID, "input of another size");
  const auto *values = static_cast<const int32_t *>(data);
  s->inputs[input].assign(values, values + kRows * kSequence);
  return KERF_OK;
}

kerf_status kerf_session_input_rows(const kerf_session *, uint32_t,
                                    uint8_t *marks, uint64_t rows,
                                    kerf_error *) {
  std::fill_n(marks, rows, uint8_t(1));
  return KERF_OK;
}

kerf_status kerf_session_set_scalar(kerf_session *s, uint32_t role,
                                    double value, kerf_error *) {
  if (role == KERF_ROLE_LEARNING_RATE)
    s->rate = value;
  if (role == KERF_ROLE_STEP)
    s->step = value;
  if (role == KERF_ROLE_LOSS_SCALE)
    s->scale = value;
  return KERF_OK;
}

/// Probabilities of the token behind `token`.
static std::array<double, kVocab> predict(const kerf_session &s,
                                          int32_t token) {
  std::array<double, kVocab> p;
  double sum = 0;
  for (int64_t u = 0; u < kVocab; ++u)
    sum += p[u] = std::exp(s.w[token * kVocab + u] + s.b[0][u]);
  for (double &x : p)
    x /= sum;
  return p;
}

/// The mean loss; `gradient` of w, if given, is added to.
static double forward(const kerf_session &s, std::vector<float> *gradient) {
  double sum = 0;
  int64_t count = 0;
  for (size_t i = 0; i < s.inputs[0].size(); ++i) {
    int32_t token = s.inputs[0][i], target = s.inputs[1][i];
    if (target < 0)
      continue;
    std::array<double, kVocab> p = predict(s, token);
    sum -= std::log(p[target]);
    ++count;
    for (int64_t u = 0; gradient && u < kVocab; ++u)
      (*gradient)[token * kVocab + u] +=
          static_cast<float>(p[u] - (u == target));
  }
  return count ? sum / static_cast<double>(count) : 0;
}

static const char *setting(const char *name) {
  const char *text = std::getenv(name);
  return text ? text : "";
}

kerf_status kerf_session_run_step(kerf_session *s, kerf_error *) {
  // Goes on sleeping after a signal.
  std::this_thread::sleep_for(
      std::chrono::milliseconds(std::atoi(setting("KERF_FAKE_SLEEP"))));
  std::string now = std::to_string(static_cast<int>(s->step));
  if (setting("KERF_FAKE_DIE") == std::to_string(s->rank) + ":" + now)
    raise(SIGKILL);
  std::vector<float> gradient(s->w.size());
  s->loss = forward(*s, &gradient);
  if (setting("KERF_FAKE_NAN") == now)
    s->loss = NAN;
  const char *most = std::getenv("KERF_FAKE_OVERFLOW");
  if (most && s->scale > std::atof(most)) {
    s->norm = INFINITY;
    return KERF_OK;
  }
  double square = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    square += gradient[i] * gradient[i];
    s->momentum[i] = 0.9f * s->momentum[i] + gradient[i];
    s->master[i] -= static_cast<float>(s->rate) * s->momentum[i];
  }
  s->norm = std::sqrt(square);
  roundMaster(s);
  return KERF_OK;
}

kerf_status kerf_session_run_evaluation(kerf_session *s, kerf_error *) {
  s->loss = forward(*s, nullptr);
  return KERF_OK;
}

kerf_status kerf_session_get_output(kerf_session *s, uint32_t output,
                                    double *value, kerf_error *error) {
  return kerf_session_get_output_values(s, output, value, 1, error);
}

/// Layers 2 and 3 of four experts, of which the first has all choices of layer
/// 2 and loses half of them in the second step.
kerf_status kerf_session_get_output_values(kerf_session *s, uint32_t output,
                                           double *values, uint64_t count,
                                           kerf_error *) {
  double rows = s->step == 2 ? 4 : 8;
  double load[] = {8, 0, 0, 0, 1, 2, 2, 3},
         kept[] = {rows, 0, 0, 0, 1, 2, 2, 3};
  double scalar = output == 0 ? s->loss : s->norm;
  std::copy_n(output == 2 ? load : output == 3 ? kept : &scalar, count, values);
  return KERF_OK;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static std::vector<float> &find(kerf_session *s, const kerf_tensor &tensor) {
  if (tensor.param == 1)
    return s->b[tensor.iteration];
  return tensor.kind == KERF_TENSOR_PARAM    ? s->w
         : tensor.kind == KERF_TENSOR_MASTER ? s->master
                                             : s->momentum;
}

kerf_status kerf_session_read_global(kerf_session *s, const kerf_tensor *tensor,
                                     void *data, uint64_t, kerf_error *) {
  kerf_layout layout;
  kerf_tensor_layout(s->artifact, tensor, &layout, nullptr);
  std::vector<float> &values = find(s, *tensor);
  if (data)
    (void)fromFloats(layout.dtype, values.data(), values.size(), data);
  return KERF_OK;
}

kerf_status kerf_session_write_global(kerf_session *s,
                                      const kerf_tensor *tensor,
                                      const void *data, uint64_t bytes,
                                      kerf_error *) {
  kerf_layout layout;
  kerf_tensor_layout(s->artifact, tensor, &layout, nullptr);
  std::vector<float> &values = find(s, *tensor);
  values.resize(bytes / kerf_dtype_bytes(layout.dtype));
  (void)toFloats(layout.dtype, data, values.size(), values.data());
  return KERF_OK;
}

/// Every rank has all of a tensor.
kerf_status kerf_tensor_holding(const kerf_artifact *artifact,
                                const kerf_tensor *tensor, uint32_t rank,
                                bool *has, kerf_holding *holding,
                                kerf_error *error) {
  *has = true;
  *holding = {};
  kerf_tensor_layout(artifact, tensor, &holding->layout, error);
  holding->elements = 1;
  for (uint32_t d = 0; d < holding->layout.rank; ++d)
    holding->elements *= holding->layout.global[d];
  holding->row = holding->layout.global[holding->layout.rank - 1];
  holding->copy = rank;
  holding->copies = artifact->meta.world_size;
  holding->is_home = true;
  return KERF_OK;
}

uint64_t kerf_local_bytes(const kerf_artifact *, const kerf_layout *layout) {
  return kerf_global_bytes(layout);
}

/// Whole rows.
uint32_t kerf_holding_boxes(const kerf_artifact *, const kerf_holding *holding,
                            uint32_t, int64_t begin, int64_t end,
                            kerf_box *boxes, uint32_t capacity) {
  kerf_box box{};
  box.begin[0] = begin / holding->row;
  box.end[0] = end / holding->row;
  box.end[1] = box.stride[0] = holding->row;
  box.stride[1] = 1;
  box.first = begin;
  if (capacity > 0)
    boxes[0] = box;
  return 1;
}

kerf_status kerf_session_snapshot_memory(kerf_session *s, uint64_t bytes, bool,
                                         void **memory, kerf_error *) {
  s->snapshot.resize(bytes);
  *memory = s->snapshot.data();
  return KERF_OK;
}
kerf_status kerf_session_begin_snapshot(kerf_session *s, const kerf_part *parts,
                                        uint32_t count, void *memory,
                                        kerf_error *) {
  char *to = static_cast<char *>(memory);
  for (uint32_t n = 0; n < count; ++n) {
    const kerf_part &part = parts[n];
    kerf_layout layout;
    kerf_tensor_layout(s->artifact, &part.tensor, &layout, nullptr);
    (void)fromFloats(layout.dtype, find(s, part.tensor).data() + part.begin,
                     part.end - part.begin, to);
    to += (part.end - part.begin) * kerf_dtype_bytes(layout.dtype);
  }
  return KERF_OK;
}
kerf_status kerf_session_finish_snapshot(kerf_session *, kerf_error *) {
  return KERF_OK;
}
void kerf_session_drop_snapshot(kerf_session *) {}
double kerf_session_snapshot_wait(const kerf_session *) { return 0; }

kerf_status kerf_session_write(kerf_session *s, const kerf_tensor *tensor,
                               const void *data, uint64_t bytes,
                               kerf_error *error) {
  return kerf_session_write_global(s, tensor, data, bytes, error);
}

//===----------------------------------------------------------------------===//
// Job
//===----------------------------------------------------------------------===//

kerf_status kerf_session_barrier(kerf_session *, kerf_error *) {
  return KERF_OK;
}
kerf_status kerf_session_agree_max(kerf_session *, int32_t *, kerf_error *) {
  return KERF_OK;
}
/// The imitated ranks do not talk: each takes the others to be like itself.
kerf_status kerf_session_gather(kerf_session *s, const double *values,
                                uint32_t count, double *all, kerf_error *) {
  for (uint32_t r = 0; r < s->artifact->meta.world_size; ++r)
    std::copy(values, values + count, all + r * count);
  return KERF_OK;
}
kerf_status kerf_session_send(kerf_session *, uint32_t, const void *, uint64_t,
                              kerf_error *) {
  return KERF_OK;
}
kerf_status kerf_session_receive(kerf_session *, uint32_t, void *, uint64_t,
                                 kerf_error *) {
  return KERF_OK;
}
kerf_status kerf_session_clock_offset(kerf_session *, double *offset,
                                      double *wrong, kerf_error *) {
  *offset = *wrong = 0;
  return KERF_OK;
}
void kerf_session_abort(kerf_session *, const char *) {}
void kerf_session_cleanup(const char *) {}

//===----------------------------------------------------------------------===//
// Machine
//===----------------------------------------------------------------------===//

kerf_status kerf_probe_device(const char *name, const kerf_artifact *,
                              const char *, kerf_memory *memory, char *text,
                              size_t bytes, kerf_error *error) {
  *memory = {};
  std::snprintf(text, bytes, "imitation");
  if (std::strcmp(name, "cuda") != 0)
    return KERF_OK;
  std::snprintf(error->message, sizeof error->message, "no driver");
  return error->status = KERF_FAILED;
}
// The imitated model has no sampler.
const void *kerf_artifact_sampler(const kerf_artifact *, uint64_t *bytes) {
  *bytes = 0;
  return nullptr;
}
kerf_status kerf_artifact_open_bytes(const void *, uint64_t, const char *name,
                                     kerf_artifact **artifact,
                                     kerf_error *error) {
  *artifact = nullptr;
  return fail(error, KERF_INVALID, std::string(name) + ": not there");
}

const char *kerf_artifact_plan(const kerf_artifact *, uint64_t *bytes) {
  *bytes = 2;
  return "{}";
}
kerf_status kerf_examine_device(const char *, const char *, char *text,
                                size_t bytes, kerf_error *) {
  std::snprintf(text, bytes, "part\tof the imitation\n");
  return KERF_OK;
}
kerf_status kerf_tune(const kerf_artifact *, const kerf_session_options *,
                      double, double, kerf_tuned_fn, void *,
                      kerf_device_facts *, kerf_error *error) {
  std::snprintf(error->message, sizeof error->message, "nothing to tune");
  return error->status = KERF_UNSUPPORTED;
}
void kerf_session_memory(const kerf_session *, kerf_memory *memory) {
  *memory = {};
}
kerf_status kerf_probe_transport(const char *name, const char *, char *text,
                                 size_t bytes, kerf_error *error) {
  std::snprintf(text, bytes, "imitation");
  if (std::strcmp(name, "mpi") != 0)
    return KERF_OK;
  std::snprintf(error->message, sizeof error->message, "no library");
  return error->status = KERF_INVALID;
}
kerf_status kerf_dry_nccl(const kerf_artifact *, int32_t, kerf_line_fn print,
                          void *user, kerf_error *) {
  print(user, "imitation");
  return KERF_OK;
}
uint64_t kerf_shared_memory_bytes(const kerf_artifact *) {
  return std::atoll(setting("KERF_FAKE_SHARED_GB")) * 1'000'000'000;
}

bool kerf_session_profile(kerf_session *, uint32_t index,
                          kerf_profile_entry *entry) {
  *entry = {"imitation", 0, 1, 0.5};
  return index == 0;
}
kerf_waits kerf_session_waits(const kerf_session *s) { return {s->step, 0, 0}; }
kerf_status kerf_session_trace(kerf_session *, bool, kerf_error *) {
  return KERF_OK;
}
/// One call per run.
bool kerf_session_trace_event(const kerf_session *s, uint32_t index,
                              kerf_trace_event *event) {
  *event = {KERF_OP_COUNT, 0,  KERF_NONE, 0,  "forward", "call",
            "forward",     "", "",        -1, 0,         s->step,
            s->step + 1};
  return index == 0;
}
int kerf_exit_code(kerf_status status) {
  return status == KERF_OK ? 0 : status >= KERF_PEER_LOST ? 128 : 1;
}
