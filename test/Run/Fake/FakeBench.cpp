//===- FakeBench.cpp - a machine with planted figures ---------------------===//
//
// kerf_bench_* for kerf-run --calibrate: nothing runs, and every time follows
// from figures that the test knows. One rank alone: matmuls 100 GFLOP/s in f32
// and 400 in bf16, of which m rows have m / (m + 32) and sums over k have
// k / (k + 60), in bf16 k / (k + 120); attention over l keys 40 forward and 30
// backward times l / (l + 90); sums 20 GB/s, copies 24 GB/s, launches 7 us. n
// ranks have together 0.8 of the rate of matmuls and half of the memory's.
// Collectives: 20 us per message, 8 GB/s that all ranks share. Environment:
//   KERF_FAKE_NO_DEVICE=1  there is no device library
//   KERF_FAKE_BUSY=1       two of three times are too long
//   KERF_FAKE_LOST=R       rank R of several fails when it measures
//
//===----------------------------------------------------------------------===//

#include "kerf/Runtime/Runtime.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

struct kerf_bench {
  int32_t rank;
  uint32_t ranks;
};

static kerf_status fail(kerf_error *error, kerf_status status,
                        const char *message) {
  std::snprintf(error->message, sizeof error->message, "%s", message);
  return error->status = status;
}

kerf_status kerf_bench_create(const kerf_session_options *options,
                              uint32_t ranks, kerf_bench **bench,
                              kerf_error *error) {
  *bench = nullptr;
  if (std::getenv("KERF_FAKE_NO_DEVICE"))
    return fail(error, KERF_INVALID, "no device library");
  if (ranks > 1 && !options->session_name)
    return fail(error, KERF_INVALID, "no name of the job");
  *bench = new kerf_bench{options->rank, ranks};
  return KERF_OK;
}
void kerf_bench_destroy(kerf_bench *bench) { delete bench; }
int32_t kerf_bench_workers(const kerf_bench *) { return 2; }
const char *kerf_bench_describe(const kerf_bench *) { return "imitation"; }
bool kerf_bench_facts(const kerf_bench *, kerf_device_facts *) { return false; }
void kerf_bench_memory(const kerf_bench *, kerf_memory *memory) {
  *memory = {};
}

/// Seconds of messages: lib/Cost/Collectives.cpp on one switch.
static double messageSec(double steps, double wholes, double bytes) {
  return steps * 20e-6 + wholes * bytes / 8e9;
}

static double collectiveSec(const kerf_bench_command &c, double n) {
  const int64_t *a = c.attrs;
  double steps = std::fmod(std::log2(n), 1) == 0 ? std::log2(n) : n - 1;
  switch (c.opcode) {
  case KERF_OP_ALL_REDUCE:
    return messageSec(2 * steps, 2 * (n - 1), 4.0 * a[3]);
  case KERF_OP_ALL_GATHER:
    return messageSec(steps, n - 1, 4.0 * a[3] * n);
  case KERF_OP_REDUCE_SCATTER:
    return messageSec(steps, n - 1, 4.0 * a[4] * n);
  case KERF_OP_ALL_TO_ALL:
    return messageSec(n - 1, n - 1, 4.0 * a[5] * n);
  default: // there and back
    return 2 * messageSec(1, n, a[1]);
  }
}

static double secondsOf(const kerf_bench_command &c, double n) {
  const int64_t *a = c.attrs;
  bool isBf16 = a[0] == KERF_BF16;
  double attention = c.opcode < KERF_OP_COPY && c.opcode != KERF_OP_MATMUL
                         ? 2.0 * a[KERF_ATTN_B] * a[KERF_ATTN_H] *
                               a[KERF_ATTN_SQ] * a[KERF_ATTN_SK] *
                               a[KERF_ATTN_D] * (1 + 90.0 / a[KERF_ATTN_SK])
                         : 0;
  switch (c.opcode) {
  case KERF_OP_LAUNCH:
    return c.operand_count == 0 ? 7e-6
                                : 12.0 * a[0] / (n > 1 ? 10e9 / n : 20e9);
  case KERF_OP_MATMUL:
    return 2.0 * (a[4] + 32) * a[5] * (a[6] + (isBf16 ? 120 : 60)) /
           ((isBf16 ? 400e9 : 100e9) * (n > 1 ? 0.8 / n : 1));
  case KERF_OP_ATTENTION:
    return attention / 40e9;
  case KERF_OP_ATTENTION_BACKWARD:
    return 2.5 * attention / 30e9;
  case KERF_OP_COPY:
    return 2.0 * a[0] / 24e9;
  default:
    return collectiveSec(c, n);
  }
}

kerf_status kerf_bench_measure(kerf_bench *bench, const kerf_bench_command *c,
                               double, double *seconds, uint32_t,
                               uint32_t *count, kerf_error *error) {
  const char *lost = std::getenv("KERF_FAKE_LOST");
  if (lost && bench->ranks > 1 && std::to_string(bench->rank) == lost)
    return fail(error, KERF_FAILED, "out of order");
  // One disturbed time: the median does not see it.
  *count = 3;
  seconds[0] = seconds[2] = secondsOf(*c, bench->ranks);
  seconds[1] = 100 * seconds[0];
  if (std::getenv("KERF_FAKE_BUSY"))
    seconds[2] *= 1.3;
  return KERF_OK;
}
