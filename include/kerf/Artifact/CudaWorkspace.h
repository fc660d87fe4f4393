/*===- CudaWorkspace.h - scratch memory of the cuda device's operations ---===*\
|*
|* The compiler places workspaces in the arena; the cuda device divides them.
|* Both compute sizes by these functions, so that they agree to the byte. Plain
|* C, functions of the attributes (Format.h) alone: not of the GPU, so that an
|* artifact fits every GPU that can run it. Bytes, multiples of
|* KERF_ARENA_ALIGN; 0 where none is needed (the operand may be absent then).
|* Sizes must have been checked: each count in [0, 2^40), products of tensors
|* below 2^60.
|*
\*===----------------------------------------------------------------------===*/

#ifndef KERF_ARTIFACT_CUDAWORKSPACE_H
#define KERF_ARTIFACT_CUDAWORKSPACE_H

#include "kerf/Artifact/Format.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline int64_t kerf_cuda_round(int64_t bytes) {
  return (bytes + KERF_ARENA_ALIGN - 1) / KERF_ARENA_ALIGN * KERF_ARENA_ALIGN;
}

/*===-- Matmuls ---------------------------------------------------===*/

/* What cuBLASLt may use for parts of sums; NVIDIA advises it for sm_90. */
#define KERF_CUDA_MATMUL_BYTES (INT64_C(32) << 20)
/* cuBLASLt wants its workspace aligned to so many bytes, more than the arena
 * offers: the device takes the next such address. */
#define KERF_CUDA_MATMUL_ALIGN 256
#define KERF_CUDA_MATMUL_SLACK (KERF_CUDA_MATMUL_ALIGN - KERF_ARENA_ALIGN)
/* Matmuls with fewer multiplications never share a sum between blocks. */
#define KERF_CUDA_MATMUL_SMALL (INT64_C(1) << 24)

/* Bytes of the workspace of KERF_OP_MATMUL: a limit for the choice of the
 * algorithm. */
static inline int64_t kerf_cuda_matmul_workspace(const int64_t *attrs) {
  int64_t work = 1;
  for (int i = KERF_MATMUL_BATCH; i <= KERF_MATMUL_K; ++i) {
    if (attrs[i] == 0)
      return 0;
    if (work > KERF_CUDA_MATMUL_SMALL / attrs[i])
      return KERF_CUDA_MATMUL_BYTES + KERF_CUDA_MATMUL_ALIGN;
    work *= attrs[i];
  }
  return 0;
}

/* A part of the rows of a group that one expert has, or that none has. */
typedef struct {
  int32_t expert; /* -1: none */
  int32_t row;    /* the first one, in the group */
  int32_t used;   /* rows of the expert; the rest become zero */
  int32_t rows;   /* 0: nothing to do */
} kerf_cuda_grouped_tile;

#define KERF_CUDA_GROUPED_ROWS 128 /* of a tile, at most */

/* Tiles that the rows of a group are split into, at most. With a capacity
 * every expert's place has tiles of its own, and so has what lies behind. */
static inline int64_t kerf_cuda_grouped_tiles(const int64_t *attrs) {
  return attrs[KERF_GROUPED_ROWS] / KERF_CUDA_GROUPED_ROWS +
         attrs[KERF_GROUPED_EXPERTS] + 1;
}

/* Bytes of the workspace of KERF_OP_GROUPED_MATMUL: kind 0 the tiles of each
 * group, kind 1 the first row of each expert of each group, as int32. */
static inline int64_t kerf_cuda_grouped_workspace(const int64_t *attrs) {
  if (attrs[KERF_GROUPED_KIND] == 0)
    return kerf_cuda_round(attrs[KERF_GROUPED_GROUPS] *
                           kerf_cuda_grouped_tiles(attrs) *
                           (int64_t)sizeof(kerf_cuda_grouped_tile));
  return kerf_cuda_round(attrs[KERF_GROUPED_GROUPS] *
                         attrs[KERF_GROUPED_EXPERTS] * 4);
}

/*===-- Attention ---------------------------------------------------------===*/

/* cuDNN takes the gradient of attention in parts: some batch rows with some of
 * their key heads, so that what it keeps of a part stays below a bound. In an
 * order of sums that never changes it keeps gradients of scores, 16 bits each,
 * and those of keys and values for each query head. Small parts do not fill a
 * GPU: on an H200 sixteen took 1.4 to 1.8 times as long as one to four. So a
 * part may have 2,304 tiles of 128 queries, 576 KiB for each key of a
 * sequence, within two bounds. */
#define KERF_CUDA_ATTENTION_KEY_BYTES (INT64_C(576) << 10)
#define KERF_CUDA_ATTENTION_LEAST_BYTES (INT64_C(576) << 20)
#define KERF_CUDA_ATTENTION_MOST_BYTES (INT64_C(2304) << 20)
/* Its workspace has this alignment and so many bytes besides. */
#define KERF_CUDA_ATTENTION_ALIGN 256
#define KERF_CUDA_ATTENTION_EXTRA 1024
/* Positions are rounded up to tiles. */
#define KERF_CUDA_ATTENTION_TILE 128
/* Tiles that fill a GPU. */
#define KERF_CUDA_ATTENTION_FULL 128

/* Batch rows and key heads of a part, and query heads of each of its key heads,
 * divisors of all; bytes 0: not in parts by cuDNN. Where a part has not all
 * query heads of its one key head, gradients of keys and values of the parts
 * are added up in f32: `sums` bytes of these and of a part's own. */
typedef struct {
  int64_t rows, groups, heads, bytes, sums;
} kerf_cuda_attention_part;

/* May cuDNN be asked, by the attributes: 16 bits, whole 16 bytes, no dropout,
 * scores as they are? */
static inline int kerf_cuda_attention_is_fused(const int64_t *attrs) {
  int64_t d = attrs[KERF_ATTN_D], dv = attrs[KERF_ATTN_DV];
  return (attrs[KERF_ATTN_DTYPE] == KERF_BF16 ||
          attrs[KERF_ATTN_DTYPE] == KERF_F16) &&
         d % 8 == 0 && dv % 8 == 0 && d <= 256 && dv <= 256 &&
         attrs[KERF_ATTN_DROPOUT] == 0 && attrs[KERF_ATTN_SOFTCAP] == 0;
}

/* Has a rank's part in the zigzag order all keys? Its two chunks of queries
 * then each see the first of them by position, so cuDNN is given copies of
 * keys and values in that order, and asked for one chunk after the other. */
static inline int kerf_cuda_attention_is_sorted(const int64_t *attrs) {
  int64_t ranks = attrs[KERF_ATTN_ZIGZAG], whole = attrs[KERF_ATTN_GLOBAL + 2];
  return ranks > 1 && attrs[KERF_ATTN_CAUSAL] &&
         kerf_cuda_attention_is_fused(attrs) && attrs[KERF_ATTN_SK] == whole &&
         attrs[KERF_ATTN_SQ] == whole / ranks;
}

/* Of keys and values of a rank, or their gradients, in such an order: bytes of
 * the first `rows` positions, each tensor dense and aligned. */
typedef struct {
  int64_t keys, values;
} kerf_cuda_attention_copies;

static inline kerf_cuda_attention_copies
kerf_cuda_attention_sorted(const int64_t *attrs, int64_t rows) {
  int64_t heads = 2 * attrs[KERF_ATTN_B] * rows * attrs[KERF_ATTN_G];
  const int64_t unit = KERF_CUDA_ATTENTION_ALIGN;
  kerf_cuda_attention_copies bytes;
  bytes.keys = (heads * attrs[KERF_ATTN_D] + unit - 1) / unit * unit;
  bytes.values = (heads * attrs[KERF_ATTN_DV] + unit - 1) / unit * unit;
  return bytes;
}

/* Bytes of all such copies: keys and values; their gradients of the later chunk
 * of queries, which may see all keys, and of the earlier one, which sees half
 * of them at most. */
static inline int64_t kerf_cuda_attention_copied(const int64_t *attrs,
                                                 int backward) {
  kerf_cuda_attention_copies all, half;
  if (!kerf_cuda_attention_is_sorted(attrs))
    return 0;
  all = kerf_cuda_attention_sorted(attrs, attrs[KERF_ATTN_SK]);
  half = kerf_cuda_attention_sorted(attrs, attrs[KERF_ATTN_SK] / 2);
  return backward ? 2 * (all.keys + all.values) + half.keys + half.values
                  : all.keys + all.values;
}

/* The largest divisor of `count` that is at most `most`, which is positive. */
static inline int64_t kerf_cuda_divisor(int64_t count, int64_t most) {
  int64_t part = count < most ? count : most;
  while (count % part != 0)
    --part;
  return part;
}

/* Of the key head that parts have in common, in f32 and in 16 bits: what is
 * added up, and what a part adds; keys, then values. */
typedef struct {
  int64_t keys, values, part_keys, part_values, end; /* where each begins */
} kerf_cuda_attention_shared;

static inline kerf_cuda_attention_shared
kerf_cuda_attention_sums(const int64_t *attrs) {
  const int64_t unit = KERF_CUDA_ATTENTION_ALIGN, rows = attrs[KERF_ATTN_SK];
  int64_t keys = (2 * rows * attrs[KERF_ATTN_D] + unit - 1) / unit * unit;
  int64_t values = (2 * rows * attrs[KERF_ATTN_DV] + unit - 1) / unit * unit;
  kerf_cuda_attention_shared at;
  at.keys = 0;
  at.values = 2 * keys;
  at.part_keys = at.values + 2 * values;
  at.part_values = at.part_keys + keys;
  at.end = at.part_values + values;
  return at;
}

/* How the gradient is split into parts of `most` bytes at most. */
static inline kerf_cuda_attention_part
kerf_cuda_attention_parts(const int64_t *attrs, int64_t most) {
  const int64_t tile = KERF_CUDA_ATTENTION_TILE;
  kerf_cuda_attention_part part = {0, 0, 0, 0, 0};
  int64_t b = attrs[KERF_ATTN_B], g = attrs[KERF_ATTN_G];
  int64_t sk = attrs[KERF_ATTN_SK];
  int64_t chunks = kerf_cuda_attention_is_sorted(attrs) ? 2 : 1;
  int64_t rows = attrs[KERF_ATTN_SQ] / chunks;
  int64_t queries = (rows + tile - 1) / tile * tile;
  int64_t keys = (sk + tile - 1) / tile * tile, heads, score, own, unit, units;
  most -= KERF_CUDA_ATTENTION_EXTRA;
  if (!kerf_cuda_attention_is_fused(attrs) || b < 1 || g < 1 || queries < 1 ||
      keys < 1 || keys > most / queries)
    return part;
  heads = attrs[KERF_ATTN_H] / g;
  if (heads < 1 || heads > most)
    return part;
  /* Bytes of a query head: its scores and, beside others, its own gradients of
   * keys and values. */
  score = 2 * queries * keys;
  own = 2 * sk * (attrs[KERF_ATTN_D] + attrs[KERF_ATTN_DV]);
  unit = score + (heads > 1 ? own : 0);
  if (unit <= most / heads) {
    units = most / (unit * heads);
    part.groups = kerf_cuda_divisor(g, units);
    part.rows = part.groups < g ? 1 : kerf_cuda_divisor(b, units / g);
    part.heads = heads;
  } else {
    int64_t sums = kerf_cuda_attention_sums(attrs).end;
    if (score > most - sums)
      return part;
    part.rows = part.groups = part.heads = 1;
    part.sums = sums;
    if (unit <= (most - sums) / 2)
      part.heads = kerf_cuda_divisor(heads, (most - sums) / unit);
    unit = part.heads > 1 ? unit : score;
  }
  part.bytes = part.rows * part.groups * part.heads * unit + part.sums;
  part.bytes += KERF_CUDA_ATTENTION_EXTRA;
  return part;
}

/* The parts that the compiler makes room for. Where query heads of a key head
 * are apart and few queries of theirs fill no GPU (of a context rank: 4,096
 * with 131,072 keys are 32 tiles for each head), twice as much; where one query
 * head alone is more, four times as much. */
static inline kerf_cuda_attention_part
kerf_cuda_attention_planned(const int64_t *attrs) {
  int64_t keys = attrs[KERF_ATTN_SK], rows = attrs[KERF_ATTN_SQ];
  int64_t most = KERF_CUDA_ATTENTION_MOST_BYTES;
  kerf_cuda_attention_part part;
  if (keys < most / KERF_CUDA_ATTENTION_KEY_BYTES)
    most = keys * KERF_CUDA_ATTENTION_KEY_BYTES;
  if (most < KERF_CUDA_ATTENTION_LEAST_BYTES)
    most = KERF_CUDA_ATTENTION_LEAST_BYTES;
  part = kerf_cuda_attention_parts(attrs, most);
  if (kerf_cuda_attention_is_sorted(attrs))
    rows /= 2;
  if (part.bytes == 0 ||
      (part.sums > 0 &&
       part.heads * rows < KERF_CUDA_ATTENTION_TILE * KERF_CUDA_ATTENTION_FULL))
    part = kerf_cuda_attention_parts(attrs, 2 * most);
  if (part.bytes == 0)
    part = kerf_cuda_attention_parts(attrs, 4 * most);
  return part;
}

/* Do own kernels compute it because of what it is (CudnnStep.cpp,
 * ContextPieces.cpp)? `packed`: within documents; `part`: queries or keys are a
 * part of a sequence. */
static inline int kerf_cuda_attention_is_own_kind(const int64_t *attrs,
                                                  int backward, int packed,
                                                  int part) {
  int64_t ranks = attrs[KERF_ATTN_ZIGZAG], sq = attrs[KERF_ATTN_SQ];
  int is_zigzag = attrs[KERF_ATTN_CAUSAL] && ranks > 1;
  int is_ring = is_zigzag && !kerf_cuda_attention_is_sorted(attrs);
  return !kerf_cuda_attention_is_fused(attrs) ||
         (packed && (backward || part)) ||
         (is_ring && (attrs[KERF_ATTN_WINDOW] || attrs[KERF_ATTN_SK] != sq ||
                      sq != attrs[KERF_ATTN_GLOBAL + 2] / ranks));
}

/* The same, or because gradients of one query head are more than the workspace
 * may have. */
static inline int kerf_cuda_attention_is_own(const int64_t *attrs, int backward,
                                             int packed, int part) {
  return kerf_cuda_attention_is_own_kind(attrs, backward, packed, part) ||
         (backward && kerf_cuda_attention_planned(attrs).bytes == 0);
}

/* Bytes of the workspace of KERF_OP_ATTENTION: copies, and a few of cuDNN,
 * which own kernels do without. */
static inline int64_t kerf_cuda_attention_workspace(const int64_t *attrs) {
  return kerf_cuda_attention_is_fused(attrs)
             ? KERF_CUDA_ATTENTION_EXTRA + KERF_CUDA_ATTENTION_ALIGN +
                   kerf_cuda_attention_copied(attrs, /*backward=*/0)
             : 0;
}

/* The same over packed documents, of which no part of a sequence is cuDNN's. */
static inline int64_t
kerf_cuda_attention_documents_workspace(const int64_t *attrs) {
  return kerf_cuda_attention_workspace(attrs) -
         kerf_cuda_attention_copied(attrs, /*backward=*/0);
}

/* Bytes of sum(dy * y) of each row, f32 [B,H,Sq]: at the beginning of the
 * workspace of KERF_OP_ATTENTION_BACKWARD, all that own kernels need of it. */
static inline int64_t kerf_cuda_attention_delta(const int64_t *attrs) {
  return kerf_cuda_round(4 * attrs[KERF_ATTN_B] * attrs[KERF_ATTN_H] *
                         attrs[KERF_ATTN_SQ]);
}

/* Bytes of the workspace of KERF_OP_ATTENTION_BACKWARD: delta, then copies and
 * what cuDNN may use for a part. */
static inline int64_t
kerf_cuda_attention_backward_workspace(const int64_t *attrs) {
  int64_t bytes = kerf_cuda_attention_planned(attrs).bytes;
  if (bytes > 0)
    bytes += KERF_CUDA_ATTENTION_ALIGN +
             kerf_cuda_attention_copied(attrs, /*backward=*/1);
  return kerf_cuda_round(kerf_cuda_attention_delta(attrs) + bytes);
}

/* Bytes of the workspace of any opcode; 0 for those without. */
static inline int64_t kerf_cuda_workspace(uint32_t opcode,
                                          const int64_t *attrs) {
  switch (opcode) {
  case KERF_OP_MATMUL:
    return kerf_cuda_matmul_workspace(attrs);
  case KERF_OP_ATTENTION:
    return kerf_cuda_attention_workspace(attrs);
  case KERF_OP_ATTENTION_BACKWARD:
    return kerf_cuda_attention_backward_workspace(attrs);
  case KERF_OP_GROUPED_MATMUL:
    return kerf_cuda_grouped_workspace(attrs);
  default:
    return 0;
  }
}

#ifdef __cplusplus
}
#endif

#endif /* KERF_ARTIFACT_CUDAWORKSPACE_H */
