/*===- CpuWorkspace.h - scratch memory of the cpu device's operations -----===*\
|*
|* The compiler places workspaces in the arena; the cpu device divides them.
|* Both compute sizes by these functions, so that they agree to the byte. Plain
|* C, functions of the attributes (Format.h) alone. Sizes must have been
|* checked: each count in [0, 2^40), products of tensors below 2^60.
|*
\*===----------------------------------------------------------------------===*/

#ifndef KERF_ARTIFACT_CPUWORKSPACE_H
#define KERF_ARTIFACT_CPUWORKSPACE_H

#include "kerf/Artifact/Format.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline int64_t kerf_cpu_min(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t kerf_cpu_max(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static inline int64_t kerf_cpu_parts(int64_t a, int64_t part) {
  return (a + part - 1) / part;
}
static inline int64_t kerf_cpu_round(int64_t a, int64_t multiple) {
  return kerf_cpu_parts(a, multiple) * multiple;
}

/*===-- Matmuls ---------------------------------------------------===*/

/* How a matmul c[m,n] = a[m,k] b[k,n] is split. Depends on the problem only,
 * so that results do not depend on the number of workers. For each part of
 * `depth` of k and `span` of n: b is packed by all workers; then tiles
 * [rows, columns] of c are handed out, each of which packs its part of a by
 * `step`s of k. */
typedef struct {
  int64_t rows, columns;   /* of a tile */
  int64_t span;            /* columns of b that are packed at once */
  int64_t depth;           /* rows of b that are packed at once */
  int64_t step, half_step; /* columns of a that are packed at once, of 4 and
                              of 2 bytes */
  int64_t together; /* matmuls whose b is packed at once: else parts of b */
  /* Bytes: packed b and sums in f32 of all workers; packed a, sums and (small
   * batched matmuls) packed b of each. */
  int64_t shared_b, shared_sums, own_a, own_sums, own_b;
  int64_t own_blocks; /* of own_sums, at its end: sums of blocks of a panel */
} kerf_cpu_matmul;

#define KERF_CPU_TILE_ROWS 224
#define KERF_CPU_TILE_COLUMNS 768
#define KERF_CPU_STEP 1024
#define KERF_CPU_GROUP 128 /* columns of c that are written at once */
#define KERF_CPU_DEPTH 4096
#define KERF_CPU_PACKED_ELEMENTS (INT64_C(4) << 20)
#define KERF_CPU_SMALL_ELEMENTS (INT64_C(1) << 18)
#define KERF_CPU_TILES 16 /* tiles wanted at least, for the workers */

/* `rounded`: c is not f32, so that sums need a place of their own. `small`: one
 * worker packs all of b for itself. `tiles`: as many are wanted at least. */
static inline kerf_cpu_matmul kerf_cpu_split_matmul(int64_t m, int64_t n,
                                                    int64_t k, int rounded,
                                                    int small, int64_t tiles) {
  kerf_cpu_matmul p;
  int64_t across = kerf_cpu_max(kerf_cpu_parts(n, KERF_CPU_TILE_COLUMNS), 1);
  int64_t down = kerf_cpu_max(kerf_cpu_parts(m, KERF_CPU_TILE_ROWS), 1);
  if (across * down < tiles)
    down = kerf_cpu_max(down, kerf_cpu_min(kerf_cpu_parts(tiles, across),
                                           kerf_cpu_parts(m, 64)));
  if (across * down < tiles)
    across = kerf_cpu_max(across, kerf_cpu_min(kerf_cpu_parts(tiles, down),
                                               kerf_cpu_parts(n, 128)));
  p.rows = kerf_cpu_round(kerf_cpu_max(kerf_cpu_parts(m, down), 1), 32);
  p.columns = kerf_cpu_round(kerf_cpu_max(kerf_cpu_parts(n, across), 1), 32);
  p.depth =
      kerf_cpu_min(kerf_cpu_round(kerf_cpu_max(k, 1), 32), KERF_CPU_DEPTH);
  p.step = kerf_cpu_min(p.depth, KERF_CPU_STEP);
  p.half_step = kerf_cpu_min(p.depth, KERF_CPU_TILE_ROWS * KERF_CPU_STEP * 2 /
                                          p.rows / 32 * 32);
  int64_t fit = KERF_CPU_PACKED_ELEMENTS / p.depth / p.columns * p.columns;
  p.span = kerf_cpu_min(kerf_cpu_max(fit, p.columns),
                        kerf_cpu_round(kerf_cpu_max(n, 1), p.columns));
  p.shared_b = small ? 0 : p.span * p.depth * 4;
  p.shared_sums = rounded && k > p.depth ? kerf_cpu_round(m * n * 4, 64) : 0;
  p.own_a = (p.rows + 14) * kerf_cpu_max(p.step * 4, p.half_step * 2);
  /* Sums of a whole tile, or of a group of columns, which are not needed beside
   * those of blocks: of each block of rows, two at least. */
  p.own_blocks = kerf_cpu_max(p.rows, 64) * 4 * 32;
  p.own_sums =
      rounded && k <= p.depth && k > p.step
          ? p.rows * 4 * kerf_cpu_max(p.columns, KERF_CPU_GROUP) + p.own_blocks
          : p.rows * 4 * KERF_CPU_GROUP;
  p.own_b = small ? p.span * p.depth * 4 : 0;
  p.together = 1;
  return p;
}

/* `batched`: many matmuls; small ones are computed by one worker each. */
static inline kerf_cpu_matmul kerf_cpu_plan_matmul(int64_t m, int64_t n,
                                                   int64_t k, int rounded,
                                                   int batched) {
  int small =
      batched && k <= KERF_CPU_STEP &&
      kerf_cpu_round(k, 32) * kerf_cpu_round(n, 32) <= KERF_CPU_SMALL_ELEMENTS;
  return kerf_cpu_split_matmul(m, n, k, rounded, small,
                               small ? 1 : KERF_CPU_TILES);
}

static inline int64_t kerf_cpu_matmul_bytes(const kerf_cpu_matmul *p,
                                            int64_t workers) {
  return p->shared_b + p->shared_sums +
         workers * (p->own_a + p->own_sums + p->own_b);
}

/* Bytes of the workspace of KERF_OP_MATMUL. */
static inline int64_t kerf_cpu_matmul_workspace(const int64_t *attrs,
                                                int64_t workers) {
  kerf_cpu_matmul p = kerf_cpu_plan_matmul(
      attrs[KERF_MATMUL_M], attrs[KERF_MATMUL_N], attrs[KERF_MATMUL_K],
      attrs[KERF_MATMUL_C_DTYPE] != KERF_F32, attrs[KERF_MATMUL_BATCH] > 1);
  return kerf_cpu_matmul_bytes(&p, workers);
}

/* y[rows of an expert] = x w[expert]: the matmul of one expert that owns all
 * rows, or as many experts together as have their weights packed at once. */
static inline kerf_cpu_matmul kerf_cpu_plan_experts(const int64_t *attrs) {
  int64_t rows = attrs[KERF_GROUPED_GROUPS] * attrs[KERF_GROUPED_ROWS],
          n = attrs[KERF_GROUPED_N], k = attrs[KERF_GROUPED_K];
  int rounded = attrs[KERF_GROUPED_Y_DTYPE] != KERF_F32;
  int64_t packed =
      kerf_cpu_max(kerf_cpu_round(n, 32) * kerf_cpu_round(k, 32), 1);
  int64_t together = k > KERF_CPU_DEPTH
                         ? 1
                         : kerf_cpu_min(attrs[KERF_GROUPED_EXPERTS],
                                        KERF_CPU_PACKED_ELEMENTS / packed);
  if (together < 2)
    return kerf_cpu_plan_matmul(rows, n, k, rounded, 0);
  kerf_cpu_matmul p = kerf_cpu_split_matmul(
      rows, n, k, rounded, 0, kerf_cpu_parts(KERF_CPU_TILES, together));
  p.together = together;
  p.shared_b = together * packed * 4;
  return p;
}

/* y[expert] = sum over its rows of x^T w: one expert that owns all rows of a
 * group, or all experts together. */
static inline kerf_cpu_matmul
kerf_cpu_plan_expert_gradients(const int64_t *attrs) {
  int64_t groups = attrs[KERF_GROUPED_GROUPS], rows = attrs[KERF_GROUPED_ROWS],
          experts = attrs[KERF_GROUPED_EXPERTS];
  int turned = attrs[KERF_GROUPED_TRANSPOSED] != 0;
  int64_t m = attrs[turned ? KERF_GROUPED_K : KERF_GROUPED_N],
          n = attrs[turned ? KERF_GROUPED_N : KERF_GROUPED_K];
  int rounded = attrs[KERF_GROUPED_Y_DTYPE] != KERF_F32;
  /* Rows of each group of an expert are padded to whole blocks of 32. */
  int64_t parts = groups * (experts + rows / KERF_CPU_DEPTH);
  int64_t packed = (groups * rows + 32 * parts) * kerf_cpu_round(n, 32);
  kerf_cpu_matmul p;
  if (experts > 1 && !rounded && packed <= KERF_CPU_PACKED_ELEMENTS) {
    p = kerf_cpu_split_matmul(m, n, groups * rows, 0, 0,
                              kerf_cpu_parts(KERF_CPU_TILES, experts));
    p.together = experts;
    p.shared_b = packed * 4;
    return p;
  }
  p = kerf_cpu_plan_matmul(m, n, rows, 0, 0);
  /* Sums of several groups: always in the shared place. */
  p.shared_sums = rounded ? kerf_cpu_round(m * n * 4, 64) : 0;
  return p;
}

/* The matmuls of KERF_OP_GROUPED_MATMUL's attributes. */
static inline kerf_cpu_matmul kerf_cpu_plan_grouped(const int64_t *attrs) {
  return attrs[KERF_GROUPED_KIND] == 0 ? kerf_cpu_plan_experts(attrs)
                                       : kerf_cpu_plan_expert_gradients(attrs);
}

/* Bytes of the workspace of KERF_OP_GROUPED_MATMUL. */
static inline int64_t kerf_cpu_grouped_workspace(const int64_t *attrs,
                                                 int64_t workers) {
  kerf_cpu_matmul p = kerf_cpu_plan_grouped(attrs);
  return kerf_cpu_matmul_bytes(&p, workers);
}

/*===-- Attention ---------------------------------------------------------===*/

#define KERF_CPU_QUERIES 128 /* of a block, forward */
#define KERF_CPU_KEYS 256    /* of a block, forward */
#define KERF_CPU_SQUARE 128  /* queries and keys of a block, backward */

/* Bytes of the workspace of KERF_OP_ATTENTION. */
static inline int64_t kerf_cpu_attention_workspace(const int64_t *attrs,
                                                   int64_t workers) {
  int64_t d = kerf_cpu_round(attrs[KERF_ATTN_D], 32);
  int64_t dv = kerf_cpu_round(attrs[KERF_ATTN_DV], 32);
  const int64_t queries = KERF_CPU_QUERIES + 16, keys = KERF_CPU_KEYS;
  /* q, k, v packed; scores, packed; sums; segments of keys. */
  return workers * 4 *
         (queries * d + keys * (d + dv) + 2 * queries * keys + queries * dv +
          keys);
}

/* Queries in blocks of the backward pass: with an order (`zigzag` of `whole`
 * rows) blocks end where a run of positions does, at most one per chunk. */
static inline int64_t kerf_cpu_backward_queries(int64_t queries, int64_t zigzag,
                                                int64_t whole) {
  int64_t padded = kerf_cpu_round(queries, KERF_CPU_SQUARE);
  if (zigzag < 1 || whole < 2 * zigzag)
    return padded;
  return padded + (queries / (whole / (2 * zigzag)) + 2) * KERF_CPU_SQUARE;
}

/* Bytes of the workspace of KERF_OP_ATTENTION_BACKWARD. */
static inline int64_t
kerf_cpu_attention_backward_workspace(const int64_t *attrs, int64_t workers) {
  const int64_t block = KERF_CPU_SQUARE, strips = block + 16;
  int64_t d = kerf_cpu_round(attrs[KERF_ATTN_D], 32);
  int64_t dv = kerf_cpu_round(attrs[KERF_ATTN_DV], 32);
  int64_t queries =
      kerf_cpu_backward_queries(attrs[KERF_ATTN_SQ], attrs[KERF_ATTN_ZIGZAG],
                                attrs[KERF_ATTN_GLOBAL + 2]);
  int64_t keys = attrs[KERF_ATTN_H] > attrs[KERF_ATTN_G]
                     ? kerf_cpu_round(attrs[KERF_ATTN_SK], block)
                     : block;
  /* Of a head: dq; q and dy packed twice; lse, delta, segments. */
  int64_t head = queries * (d + 2 * (d + dv) + 3);
  /* Of a key head: dk, dv. Of a key block: k twice and v packed. */
  int64_t group = keys * (d + dv) + strips * (d + dv) + (d + 16) * block;
  /* Of a block: s and dp, packed; ds packed again. */
  int64_t square = 2 * block * block + 2 * strips * block + block * block;
  return workers * 4 * (head + group + square);
}

/* Bytes of the workspace of any opcode; 0 for those without. */
static inline int64_t kerf_cpu_workspace(uint32_t opcode, const int64_t *attrs,
                                         int64_t workers) {
  switch (opcode) {
  case KERF_OP_MATMUL:
    return kerf_cpu_matmul_workspace(attrs, workers);
  case KERF_OP_ATTENTION:
    return kerf_cpu_attention_workspace(attrs, workers);
  case KERF_OP_ATTENTION_BACKWARD:
    return kerf_cpu_attention_backward_workspace(attrs, workers);
  case KERF_OP_GROUPED_MATMUL:
    return kerf_cpu_grouped_workspace(attrs, workers);
  default:
    return 0;
  }
}

#ifdef __cplusplus
}
#endif

#endif /* KERF_ARTIFACT_CPUWORKSPACE_H */
