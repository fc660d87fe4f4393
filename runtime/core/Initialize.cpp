//===- Initialize.cpp - initial values of parameters ----------------------===//
//
// Element g of a parameter is a function of (seed, name, g) alone; it is
// computed in f64 as the reference interpreter does and rounded to the type:
// once for a parameter, twice (to the master, then to the parameter) with one.
// Normals that become f32 are computed quickly (Normals.h), and as the
// interpreter does where the error of that leaves open to which f32 they round.
// Threads fill a portion of some elements, which is then copied to the device.
// Padding of pieces is zero.
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include "Normals.h"
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
  case KERF_INIT_NF4:
    return std::floor(256 * uniformAt(stream, index)) - 128;
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
  case KERF_I8:
    return static_cast<int8_t *>(to)[at] =
               x >= -128 && x < 128 ? static_cast<int8_t>(x) : 0;
  default:
    // Out of range would be undefined; no initializer means such a value.
    return static_cast<int32_t *>(to)[at] =
               std::abs(x) < 0x1p31 ? static_cast<int32_t>(x) : 0;
  }
}

//===----------------------------------------------------------------------===//
// Portions
//===----------------------------------------------------------------------===//

namespace {
/// Local elements [begin, end) of one parameter, to be computed by threads.
struct Portion {
  const kerf_param &param;
  const Shard &shard;
  int64_t iteration, seed;
  std::string_view pattern;
  uint32_t rounding;      ///< type of the master, or KERF_NONE
  int64_t begin, end;     ///< of the shard
  char *values, *masters; ///< of element `begin` on; null: not wanted
  std::atomic<int64_t> next;

  void fill(int64_t first, int64_t last) const;
  void fillTensor(uint64_t stream, int64_t at, int64_t to, int64_t count) const;
  void fillNormals(uint64_t stream, int64_t at, int64_t to,
                   int64_t count) const;
  static void *work(void *portion);
};
} // namespace

/// Elements that a thread takes at a time, and of a portion.
static constexpr int64_t kPiece = 1 << 14;
static constexpr int64_t kPortion = 1 << 20;

/// Stream of one checkpoint tensor: each has its own, also inside a stack.
static uint64_t streamOf(const Portion &portion, int64_t expert) {
  std::string name = expandName(portion.pattern, portion.iteration, expert);
  return kerf_random_stream(portion.seed, 0, -1, kerf_hash_name(name.c_str()));
}

void Portion::fill(int64_t first, int64_t last) const {
  const kerf_layout &layout = param.layout;
  int64_t size = 1; // of one checkpoint tensor
  for (uint32_t d = param.flags & KERF_PARAM_STACKED ? 1 : 0; d < layout.rank;
       ++d)
    size *= layout.global[d];
  shard.runs(first, last, [&](int64_t global, int64_t local, int64_t count) {
    while (count > 0) {
      int64_t expert = global / size, at = global % size;
      int64_t here = std::min(count, size - at);
      fillTensor(streamOf(*this, expert), at, local - begin, here);
      global += here;
      local += here;
      count -= here;
    }
  });
}

/// Elements `at` on of one checkpoint tensor, to `to` on of the portion.
void Portion::fillTensor(uint64_t stream, int64_t at, int64_t to,
                         int64_t count) const {
  bool hasMaster = rounding != KERF_NONE;
  if (param.init == KERF_INIT_NORMAL &&
      (hasMaster ? rounding : param.layout.dtype) == KERF_F32)
    return fillNormals(stream, at, to, count);
  for (int64_t i = 0; i < count; ++i) {
    double x = elementAt(param, stream, at + i), rounded;
    if (hasMaster)
      x = masters ? store(x, rounding, masters, to + i)
                  : store(x, rounding, &rounded, 0);
    if (values)
      store(x, param.layout.dtype, values, to + i);
  }
}

/// As fillTensor, of normals that are rounded to f32 first.
void Portion::fillNormals(uint64_t stream, int64_t at, int64_t to,
                          int64_t count) const {
  constexpr int64_t kBlock = 256;
  double near[kBlock];
  double scale = param.init_value, least = std::abs(scale) * kNormalAbsolute;
  for (int64_t i = 0; i < count; ++i) {
    if (i % kBlock == 0)
      nearNormals(stream, at + i, std::min(kBlock, count - i), near);
    double x = scale * near[i % kBlock];
    double error = std::abs(x) * kNormalRelative + least;
    auto value = static_cast<float>(x - error);
    // Also for 0, which has a sign.
    if (value != static_cast<float>(x + error) || value == 0)
      value = static_cast<float>(elementAt(param, stream, at + i));
    if (masters)
      reinterpret_cast<float *>(masters)[to + i] = value;
    if (values)
      store(value, param.layout.dtype, values, to + i);
  }
}

void *Portion::work(void *argument) {
  auto &portion = *static_cast<Portion *>(argument);
  int64_t first;
  while ((first = portion.next.fetch_add(kPiece)) < portion.end)
    portion.fill(first, std::min(first + kPiece, portion.end));
  return nullptr;
}

/// Computes the portion on `workers` threads, this one among them.
static void compute(Portion &portion, int32_t workers) {
  std::vector<pthread_t> threads;
  int64_t pieces = (portion.end - portion.begin + kPiece - 1) / kPiece;
  while (int64_t(threads.size()) + 1 < std::min<int64_t>(workers, pieces)) {
    pthread_t thread;
    // Without another thread the work is done all the same.
    if (pthread_create(&thread, nullptr, Portion::work, &portion) != 0)
      break;
    threads.push_back(thread);
  }
  Portion::work(&portion);
  for (pthread_t thread : threads)
    pthread_join(thread, nullptr);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

namespace {
/// A tensor that is filled: the parameter, its master, or both.
struct Fill {
  kerf_session &session;
  const kerf_param &param;
  uint32_t rounding; ///< as of Portion
  int64_t seed;
  std::vector<char> &values, &masters; ///< room of a portion

  void run(const kerf_layout &layout, int64_t iteration, bool wantsValues,
           bool wantsMasters) const;
};
} // namespace

/// `layout`: of what is filled, with its pieces.
void Fill::run(const kerf_layout &layout, int64_t iteration, bool wantsValues,
               bool wantsMasters) const {
  Shard shard(session.view, layout, session.rank);
  int64_t number = iteration - param.start;
  int64_t size = kerf_dtype_bytes(layout.dtype);
  int64_t masterSize = wantsMasters ? kerf_dtype_bytes(param.master_dtype) : 0;
  int64_t to = param.offset + number * param.stride;
  int64_t masterTo = param.master_offset + number * param.master_stride;
  for (int64_t begin = 0; begin < shard.size(); begin += kPortion) {
    int64_t end = std::min(begin + kPortion, shard.size());
    values.assign(wantsValues ? (end - begin) * size : 0, 0);
    masters.assign((end - begin) * masterSize, 0);
    Portion portion = {param,
                       shard,
                       iteration,
                       seed,
                       session.view.string(param.name),
                       rounding,
                       begin,
                       end,
                       wantsValues ? values.data() : nullptr,
                       wantsMasters ? masters.data() : nullptr,
                       begin};
    compute(portion, session.hostThreads);
    if (wantsValues)
      session.api->copy_in(session.device, session.arena + to + begin * size,
                           values.data(), values.size());
    if (wantsMasters)
      session.api->copy_in(session.device,
                           session.arena + masterTo + begin * masterSize,
                           masters.data(), masters.size());
  }
}

Status kerf_session::initialize(int64_t seed) {
  std::vector<char> values, masters;
  for (uint32_t p = 0; p < artifact.params.size(); ++p) {
    const kerf_param *param = artifact.paramOf(program, p);
    if (!param)
      continue;
    // A copy without a master is rounded as the one that has it.
    Fill fill = {*this, *param, artifact.params[p].master_dtype,
                 seed,  values, masters};
    bool hasMaster = param->master_dtype != KERF_NONE;
    kerf_layout state = kerf::artifact::stateLayout(*param);
    bool isOne = hasMaster && state.pieces == param->layout.pieces;
    for (int64_t i = param->start; i < param->end; ++i) {
      fill.run(param->layout, i, true, isOne);
      if (hasMaster && !isOne)
        fill.run(state, i, false, true);
      for (uint32_t s = 0; s < param->state_count; ++s) {
        const kerf_state &record = view.states[param->first_state + s];
        Shard shard(view, kerf::artifact::stateLayout(*param, record), rank);
        zero(record.offset + (i - param->start) * record.stride,
             shard.size() * kerf_dtype_bytes(record.dtype));
      }
    }
  }
  return {};
}

kerf_status kerf_session_initialize(kerf_session *session, int64_t seed,
                                    kerf_error *error) {
  return session->initialize(seed).report(error);
}
