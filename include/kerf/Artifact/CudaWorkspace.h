/*===- CudaWorkspace.h - scratch memory of the cuda device's operations ---===*\
|*
|* The compiler places workspaces in the arena; the cuda device cuts them up.
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

/*===-- Matrix products ---------------------------------------------------===*/

/* What cuBLASLt may use for parts of sums; NVIDIA advises it for sm_90. */
#define KERF_CUDA_MATMUL_BYTES (INT64_C(32) << 20)
/* cuBLASLt wants its workspace aligned to so many bytes, more than the arena
 * offers: the device takes the next such address. */
#define KERF_CUDA_MATMUL_ALIGN 256
#define KERF_CUDA_MATMUL_SLACK (KERF_CUDA_MATMUL_ALIGN - KERF_ARENA_ALIGN)
/* Products with fewer multiplications never share a sum between blocks. */
#define KERF_CUDA_MATMUL_SMALL (INT64_C(1) << 24)

/* Bytes of the workspace of KERF_OP_MATMUL: a limit for the choice of the
 * algorithm. */
static inline int64_t kerf_cuda_matmul_workspace(const int64_t *attrs) {
  int64_t work = 1;
  for (int i = 3; i <= 6; ++i) { /* batch m n k */
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

/* Tiles that the rows of a group are cut into, at most. With a capacity every
 * expert's place has tiles of its own, and so has what lies behind. */
static inline int64_t kerf_cuda_grouped_tiles(const int64_t *attrs) {
  return attrs[5] / KERF_CUDA_GROUPED_ROWS + attrs[6] + 1;
}

/* Bytes of the workspace of KERF_OP_GROUPED_MATMUL: kind 0 the tiles of each
 * group, kind 1 the first row of each expert of each group, as int32. */
static inline int64_t kerf_cuda_grouped_workspace(const int64_t *attrs) {
  if (attrs[0] == 0)
    return kerf_cuda_round(attrs[4] * kerf_cuda_grouped_tiles(attrs) *
                           (int64_t)sizeof(kerf_cuda_grouped_tile));
  return kerf_cuda_round(attrs[4] * attrs[6] * 4);
}

/*===-- Attention ---------------------------------------------------------===*/

/* cuDNN takes the gradient of attention in parts: some batch rows with some of
 * their key heads, so that what it keeps of a part stays below a bound. In an
 * order of sums that never changes it keeps gradients of scores, 16 bits each,
 * and those of keys and values for each query head. Small parts do not fill a
 * GPU: on an H200 sixteen took 1.4 to 1.8 times as long as one to four. So a
 * part may have 2,304 tiles of 128 queries, 576 KiB for each query of a
 * sequence, within two bounds. */
#define KERF_CUDA_ATTENTION_QUERY_BYTES (INT64_C(576) << 10)
#define KERF_CUDA_ATTENTION_LEAST_BYTES (INT64_C(576) << 20)
#define KERF_CUDA_ATTENTION_MOST_BYTES (INT64_C(2304) << 20)
/* Its workspace has this alignment and so many bytes besides. */
#define KERF_CUDA_ATTENTION_ALIGN 256
#define KERF_CUDA_ATTENTION_EXTRA 1024
/* Positions are rounded up to tiles. */
#define KERF_CUDA_ATTENTION_TILE 128

/* Batch rows and key heads of a part, divisors of all; bytes 0: not in parts
 * by cuDNN. */
typedef struct {
  int64_t rows, groups, bytes;
} kerf_cuda_attention_part;

/* May cuDNN be asked, by the attributes: 16 bits, whole 16 bytes, neither
 * dropout nor the zigzag order? */
static inline int kerf_cuda_attention_is_fused(const int64_t *attrs) {
  int64_t d = attrs[KERF_ATTN_D], dv = attrs[KERF_ATTN_DV];
  return (attrs[KERF_ATTN_DTYPE] == KERF_BF16 ||
          attrs[KERF_ATTN_DTYPE] == KERF_F16) &&
         d % 8 == 0 && dv % 8 == 0 && d <= 256 && dv <= 256 &&
         attrs[KERF_ATTN_DROPOUT] == 0 && attrs[KERF_ATTN_ZIGZAG] == 0;
}

/* The largest divisor of `count` that is at most `most`, which is positive. */
static inline int64_t kerf_cuda_divisor(int64_t count, int64_t most) {
  int64_t part = count < most ? count : most;
  while (count % part != 0)
    --part;
  return part;
}

/* How the gradient is cut into parts of `most` bytes at most. */
static inline kerf_cuda_attention_part
kerf_cuda_attention_parts(const int64_t *attrs, int64_t most) {
  const int64_t tile = KERF_CUDA_ATTENTION_TILE;
  kerf_cuda_attention_part part = {0, 0, 0};
  int64_t b = attrs[KERF_ATTN_B], g = attrs[KERF_ATTN_G];
  int64_t sk = attrs[KERF_ATTN_SK];
  int64_t queries = (attrs[KERF_ATTN_SQ] + tile - 1) / tile * tile;
  int64_t keys = (sk + tile - 1) / tile * tile, heads, unit, units;
  most -= KERF_CUDA_ATTENTION_EXTRA;
  if (!kerf_cuda_attention_is_fused(attrs) || b < 1 || g < 1 || queries < 1 ||
      keys < 1 || keys > most / queries)
    return part;
  heads = attrs[KERF_ATTN_H] / g;
  if (heads < 1 || heads > most)
    return part;
  unit = 2 * queries * keys; /* bytes of a query head */
  if (heads > 1)
    unit += 2 * sk * (attrs[KERF_ATTN_D] + attrs[KERF_ATTN_DV]);
  if (unit > most / heads)
    return part;
  units = most / (unit * heads);
  part.groups = kerf_cuda_divisor(g, units);
  part.rows = part.groups < g ? 1 : kerf_cuda_divisor(b, units / g);
  part.bytes = part.rows * part.groups * heads * unit;
  part.bytes += KERF_CUDA_ATTENTION_EXTRA;
  return part;
}

/* The parts that the compiler makes room for. */
static inline kerf_cuda_attention_part
kerf_cuda_attention_planned(const int64_t *attrs) {
  int64_t queries = attrs[KERF_ATTN_SQ];
  int64_t most = KERF_CUDA_ATTENTION_MOST_BYTES;
  if (queries < most / KERF_CUDA_ATTENTION_QUERY_BYTES)
    most = queries * KERF_CUDA_ATTENTION_QUERY_BYTES;
  if (most < KERF_CUDA_ATTENTION_LEAST_BYTES)
    most = KERF_CUDA_ATTENTION_LEAST_BYTES;
  return kerf_cuda_attention_parts(attrs, most);
}

/* Bytes of the workspace of KERF_OP_ATTENTION: a few of cuDNN, which own
 * kernels do without. */
static inline int64_t kerf_cuda_attention_workspace(const int64_t *attrs) {
  return kerf_cuda_attention_is_fused(attrs)
             ? KERF_CUDA_ATTENTION_EXTRA + KERF_CUDA_ATTENTION_ALIGN
             : 0;
}

/* Bytes of sum(dy * y) of each row, f32 [B,H,Sq]: at the beginning of the
 * workspace of KERF_OP_ATTENTION_BACKWARD, all that own kernels need of it. */
static inline int64_t kerf_cuda_attention_delta(const int64_t *attrs) {
  return kerf_cuda_round(4 * attrs[KERF_ATTN_B] * attrs[KERF_ATTN_H] *
                         attrs[KERF_ATTN_SQ]);
}

/* Bytes of the workspace of KERF_OP_ATTENTION_BACKWARD: delta, then what cuDNN
 * may use for a part. */
static inline int64_t
kerf_cuda_attention_backward_workspace(const int64_t *attrs) {
  int64_t bytes = kerf_cuda_attention_planned(attrs).bytes;
  if (bytes > 0)
    bytes += KERF_CUDA_ATTENTION_ALIGN;
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
