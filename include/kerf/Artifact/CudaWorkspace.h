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

/* Bytes of the workspace of KERF_OP_ATTENTION: sums live in registers. */
static inline int64_t kerf_cuda_attention_workspace(const int64_t *attrs) {
  (void)attrs;
  return 0;
}

/* Bytes of the workspace of KERF_OP_ATTENTION_BACKWARD: sum(dy * y) of each
 * row, f32 [B,H,Sq]. */
static inline int64_t
kerf_cuda_attention_backward_workspace(const int64_t *attrs) {
  return kerf_cuda_round(4 * attrs[KERF_ATTN_B] * attrs[KERF_ATTN_H] *
                         attrs[KERF_ATTN_SQ]);
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
