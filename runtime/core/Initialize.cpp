//===- Initialize.cpp - initial values of parameters ----------------------===//
//
// Element g of a parameter is a function of (seed, name, g) alone; it is
// computed in f64 as the reference interpreter does and rounded to the type:
// once for a parameter, twice (to the master, then to the parameter) with one.
// Threads fill a stage of some elements, which is then copied to the device.
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include "Numbers.h"
#include "Shard.h"

#include <cmath>
#include <cstring>

#include <pthread.h>

using namespace kerf::artifact;
using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

static double uniformAt(uint64_t stream, uint64_t index) {
  return kerf_random_bits(stream, index) * 0x1.0p-24;
}

/// Standard normal (Box and Muller 1958).
static double normalAt(uint64_t stream, uint64_t index) {
  constexpr double twoPi = 6.283185307179586;
  // In (0, 1]: the logarithm is finite.
  double u = 1.0 - uniformAt(stream, 2 * index);
  double v = uniformAt(stream, 2 * index + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(twoPi * v);
}

static double elementAt(const kerf_param &param, uint64_t stream,
                        uint64_t index) {
  switch (param.init) {
  case KERF_INIT_ONES:
    return 1;
  case KERF_INIT_CONSTANT:
    return param.init_value;
  case KERF_INIT_NORMAL:
    return param.init_value * normalAt(stream, index);
  case KERF_INIT_UNIFORM:
    return param.init_value * (2 * uniformAt(stream, index) - 1);
  default:
    return 0;
  }
}

/// Rounds `x` to a type, stores it as element `at`, and gives it back.
static double store(double x, uint32_t dtype, void *to, int64_t at) {
  switch (dtype) {
  case KERF_F32:
    return static_cast<float *>(to)[at] = static_cast<float>(x);
  case KERF_F64:
    return static_cast<double *>(to)[at] = x;
  case KERF_BF16:
    return fromBf16(static_cast<uint16_t *>(to)[at] = toBf16(x));
  case KERF_F16:
    return fromF16(static_cast<uint16_t *>(to)[at] = toF16(x));
  case KERF_I1:
    return static_cast<uint8_t *>(to)[at] = x != 0;
  default:
    // Out of range would be undefined; no initializer means such a value.
    return static_cast<int32_t *>(to)[at] =
               std::abs(x) < 0x1p31 ? static_cast<int32_t>(x) : 0;
  }
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

namespace {
/// Local elements [begin, end) of one parameter, to be computed by threads.
struct Stage {
  const kerf_param &param;
  const Shard &shard;
  int64_t iteration, seed;
  std::string_view pattern;
  int64_t begin, end;
  char *values, *masters; ///< of element `begin` on; null without masters
  std::atomic<int64_t> next;

  void fill(int64_t first, int64_t last) const;
  static void *work(void *stage);
};
} // namespace

/// Elements that a thread takes at a time, and of a stage.
static constexpr int64_t kPiece = 1 << 14;
static constexpr int64_t kStage = 1 << 20;

/// Stream of one checkpoint tensor: each has its own, also inside a stack.
static uint64_t streamOf(const Stage &stage, int64_t expert) {
  std::string name = expandName(stage.pattern, stage.iteration, expert);
  return kerf_random_stream(stage.seed, 0, -1, kerf_hash_name(name.c_str()));
}

void Stage::fill(int64_t first, int64_t last) const {
  const kerf_layout &layout = param.layout;
  int64_t size = 1; // of one checkpoint tensor
  for (uint32_t d = param.flags & KERF_PARAM_STACKED ? 1 : 0; d < layout.rank;
       ++d)
    size *= layout.global[d];
  shard.runs(first, last, [&](int64_t global, int64_t local, int64_t count) {
    while (count > 0) {
      int64_t expert = global / size, at = global % size;
      int64_t here = std::min(count, size - at);
      uint64_t stream = streamOf(*this, expert);
      for (int64_t i = 0; i < here; ++i) {
        double x = elementAt(param, stream, at + i);
        if (masters)
          x = store(x, param.master_dtype, masters, local + i - begin);
        store(x, layout.dtype, values, local + i - begin);
      }
      global += here;
      local += here;
      count -= here;
    }
  });
}

void *Stage::work(void *argument) {
  auto &stage = *static_cast<Stage *>(argument);
  int64_t first;
  while ((first = stage.next.fetch_add(kPiece)) < stage.end)
    stage.fill(first, std::min(first + kPiece, stage.end));
  return nullptr;
}

/// Computes the stage on `workers` threads, this one among them.
static void computeStage(Stage &stage, int32_t workers) {
  std::vector<pthread_t> threads;
  int64_t pieces = (stage.end - stage.begin + kPiece - 1) / kPiece;
  while (int64_t(threads.size()) + 1 < std::min<int64_t>(workers, pieces)) {
    pthread_t thread;
    // Without another thread the work is done all the same.
    if (pthread_create(&thread, nullptr, Stage::work, &stage) != 0)
      break;
    threads.push_back(thread);
  }
  Stage::work(&stage);
  for (pthread_t thread : threads)
    pthread_join(thread, nullptr);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// Sets `bytes` of device memory to zero.
static void zero(kerf_session &session, char *to, int64_t bytes) {
  static const char zeros[1 << 16] = {};
  for (int64_t at = 0; at < bytes; at += sizeof zeros)
    session.api->copy_in(session.device, to + at, zeros,
                         std::min<int64_t>(sizeof zeros, bytes - at));
}

static void initializeParam(kerf_session &session, const kerf_param &param,
                            int64_t iteration, int64_t seed,
                            std::vector<char> &values,
                            std::vector<char> &masters) {
  Shard shard(session.view, param.layout, session.rank);
  int64_t number = iteration - param.start;
  bool hasMaster = param.master_dtype != KERF_NONE;
  int64_t size = kerf_dtype_bytes(param.layout.dtype);
  int64_t masterSize = hasMaster ? kerf_dtype_bytes(param.master_dtype) : 0;
  int64_t most = std::min(kStage, shard.size());
  values.resize(most * size);
  masters.resize(most * masterSize);
  char *to = session.arena + param.offset + number * param.stride;
  char *masterTo = session.arena;
  if (hasMaster)
    masterTo += param.master_offset + number * param.master_stride;
  for (int64_t begin = 0; begin < shard.size(); begin += kStage) {
    int64_t end = std::min(begin + kStage, shard.size());
    Stage stage = {param,
                   shard,
                   iteration,
                   seed,
                   session.view.string(param.name),
                   begin,
                   end,
                   values.data(),
                   hasMaster ? masters.data() : nullptr,
                   begin};
    computeStage(stage, session.api->workers(session.device));
    session.api->copy_in(session.device, to + begin * size, values.data(),
                         (end - begin) * size);
    if (hasMaster)
      session.api->copy_in(session.device, masterTo + begin * masterSize,
                           masters.data(), (end - begin) * masterSize);
  }
  for (uint32_t s = 0; s < param.state_count; ++s) {
    const kerf_state &state = session.view.states[param.first_state + s];
    zero(session, session.arena + state.offset + number * state.stride,
         shard.size() * kerf_dtype_bytes(state.dtype));
  }
}

Status kerf_session::initialize(int64_t seed) {
  std::vector<char> values, masters;
  for (const kerf_param &param : view.params)
    for (int64_t i = param.start; i < param.end; ++i)
      initializeParam(*this, param, i, seed, values, masters);
  return {};
}

kerf_status kerf_session_initialize(kerf_session *session, int64_t seed,
                                    kerf_error *error) {
  return session->initialize(seed).report(error);
}
