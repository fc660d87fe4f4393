/*===- Format.h - the compiled file `model.kerf` --------------------------===*\
|*
|* The only thing that compiler and runtime share. Plain C; little-endian; all
|* records are packed by construction (every field is naturally aligned).
|*
|* A file is a header, then sections. A section is an array of records, a pool
|* of bytes, or text. Nothing in a file is trusted: the loader checks every
|* index, offset and size before use.
|*
|* A program is a list of functions; a function is a list of commands; a
|* schedule is a list of calls. Commands work on operands: addresses in one
|* arena, base + iteration * iter_stride + micro_batch * slot_stride, or small
|* integers that the runtime computes (scalars).
|*
\*===----------------------------------------------------------------------===*/

#ifndef KERF_ARTIFACT_FORMAT_H
#define KERF_ARTIFACT_FORMAT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A text line would be damaged by transfers in text mode; so is this. */
#define KERF_MAGIC "KERF\r\n\x1a\n"
#define KERF_FORMAT_VERSION 12u

#define KERF_MAX_RANK 8      /* dimensions of a parameter or input */
#define KERF_MAX_AXES 8      /* axes of the mesh */
#define KERF_NONE UINT32_MAX /* no string, no record */
#define KERF_ARENA_ALIGN 64  /* bytes; of the arena and of every buffer */

/* elements that pieces keep together */
#define KERF_MAX_GRANULE (1u << 20)

/*===-- Header ------------------------------------------------------------===*/

enum kerf_section_kind {
  KERF_SECTION_STRINGS,  /* NUL-terminated strings; a string is its offset */
  KERF_SECTION_META,     /* one kerf_meta */
  KERF_SECTION_AXES,     /* kerf_axis: the mesh, first axis slowest */
  KERF_SECTION_GROUPS,   /* kerf_group */
  KERF_SECTION_PROGRAMS, /* kerf_program: one per stage of a pipeline */
  KERF_SECTION_CHANNELS, /* kerf_channel */
  KERF_SECTION_PARAMS,   /* kerf_param */
  KERF_SECTION_STATES,   /* kerf_state: optimizer state of the params */
  KERF_SECTION_INPUTS,   /* kerf_input */
  KERF_SECTION_OUTPUTS,  /* kerf_output */
  KERF_SECTION_BUFFERS,  /* kerf_buffer: every placed buffer, for people */
  KERF_SECTION_FUNCS,    /* kerf_func */
  KERF_SECTION_CALLS,    /* kerf_call */
  KERF_SECTION_COMMANDS, /* kerf_command */
  KERF_SECTION_OPERANDS, /* kerf_operand */
  KERF_SECTION_SCALARS,  /* kerf_scalar */
  KERF_SECTION_ATTRS,    /* int64_t */
  KERF_SECTION_KERNELS,  /* kerf_kernel */
  KERF_SECTION_IMAGE,    /* all kernels: ELF; of "cuda" a cubin, or empty */
  KERF_SECTION_PTX,      /* all kernels as PTX text; of "cuda" */
  KERF_SECTION_PLAN,     /* the plan as JSON text */
  KERF_SECTION_SAMPLER,  /* a file like this one that samples, or empty */
  KERF_SECTION_COUNT
};

typedef struct {
  uint64_t offset; /* from the start of the file, a multiple of 8 */
  uint64_t bytes;
  uint32_t record_bytes; /* 1 for pools and text */
  uint32_t reserved;
} kerf_section;

typedef struct {
  char magic[8];
  uint32_t version;
  uint32_t section_count; /* KERF_SECTION_COUNT */
  uint64_t file_bytes;
  /* kerf_checksum of the header with this field zero, then, with the result as
   * `hash`, of the rest. */
  uint64_t checksum;
  kerf_section sections[KERF_SECTION_COUNT];
} kerf_header;

/* FNV-1a over 64-bit words (the tail zero-padded), then a final mix: finds
 * damage, not malice. `hash` is KERF_CHECKSUM_INIT at first. */
#define KERF_CHECKSUM_INIT UINT64_C(0xcbf29ce484222325)

/*===-- Tables ------------------------------------------------------------===*/

enum kerf_dtype {
  KERF_F32,
  KERF_BF16,
  KERF_F16,
  KERF_I32,
  KERF_I1, /* one byte */
  KERF_F64,
  KERF_I8,
  KERF_F8E4M3, /* one byte; 4 bits of exponent, no infinities: f8E4M3FN */
  KERF_F8E5M2, /* one byte; the upper byte of an f16 */
  KERF_DTYPE_COUNT
};

typedef struct {
  uint32_t model;    /* string: name of the model */
  uint32_t compiler; /* string: version that wrote the file */
  uint32_t target;   /* string: "cpu", "cuda" */
  uint32_t cpu;      /* string: "x86-64-v4"; of "cuda" "sm_90" */
  uint32_t features; /* string: what kernels need of it, by comma */
  uint32_t world_size;
  uint32_t micro_batches; /* of a step */
  uint32_t max_workers;   /* threads that workspaces are planned for */
  uint32_t pipeline_axis; /* whose coordinate is the rank's program, or NONE */
  uint32_t adapter;  /* string: adapter_config.json of what is trained, or "" */
  uint32_t config;   /* string: config.json of the model, or "" */
  uint32_t reserved; /* 0 */
  uint64_t input_hash;     /* of model, plan and options */
  double matmul_flops;     /* of one training step over all ranks */
  double model_flops;      /* without recomputation: what MFU counts */
  int64_t tokens_per_step; /* global; 0 if the model has no tokens */
  int64_t sequence_length;
  int64_t vocabulary; /* ids are below this; 0 if unknown */
} kerf_meta;

typedef struct {
  uint32_t name; /* string */
  uint32_t size;
} kerf_axis;

/* Ranks that agree in all axes outside the mask; ordered by coordinates. */
typedef struct {
  uint32_t axes; /* bit a: axis a */
  uint32_t size;
} kerf_group;

/* What the ranks of one stage run. Records of a program lie together in their
 * sections: [first, first + count). A call names a function, and a command a
 * channel, by its place among those of its program. */
typedef struct {
  uint32_t name;  /* string */
  uint32_t slots; /* micro-batches kept at once */
  uint32_t first_param, param_count;
  uint32_t first_input, input_count;
  uint32_t first_output, output_count;
  uint32_t first_buffer, buffer_count;
  uint32_t first_channel, channel_count;
  uint32_t first_func, func_count;
  uint32_t first_call, call_count; /* one training step, then one evaluation */
  uint32_t train_calls;            /* of the training step */
  uint32_t reserved;
  uint64_t arena_bytes;
  uint64_t lower_bound_bytes; /* largest live set */
  uint64_t class_bytes[8];    /* by kerf_buffer_class, largest at one time */
} kerf_program;

/* Messages from the ranks of a stage to those of another that have the same
 * other coordinates, in order. Both ends have a record of it, which say the
 * same. */
typedef struct {
  uint32_t name; /* string */
  uint32_t from, to;
  uint32_t holds; /* messages kept before the sender waits, >= 1 */
  uint64_t bytes; /* of the largest message */
} kerf_channel;

/* As #kerf.init. */
enum kerf_init_kind {
  KERF_INIT_ZEROS,
  KERF_INIT_ONES,
  KERF_INIT_CONSTANT,
  KERF_INIT_NORMAL,
  KERF_INIT_UNIFORM,
  KERF_INIT_NF4,
  KERF_INIT_COUNT
};

/* How a global tensor lies in parts: dimension d is sharded over
 * axes[d][0..], first axis slowest, unused entries 0xff. It is made of
 * blocks[d] equal blocks (1: itself), each of which is sharded: the local
 * dimension has the rank's part of each. With pieces != 0 the local tensor is
 * flattened, padded with zeros to a multiple of the n ranks of the axes in that
 * mask, and split into n pieces; the rank has the one of its place (coordinates
 * in the order of the mesh). With granule > 1 a piece has a multiple of so many
 * elements. With zigzag = n the rows of dimension 1 are put in the order of
 * kerf_zigzag before they are sharded. */
typedef struct {
  uint32_t rank;
  uint32_t dtype;
  int64_t global[KERF_MAX_RANK];
  int64_t local[KERF_MAX_RANK];
  uint8_t axes[KERF_MAX_RANK][4];
  uint32_t blocks[KERF_MAX_RANK];
  uint32_t pieces;  /* bit a: axis a */
  uint32_t zigzag;  /* of inputs; 0: rows lie by position */
  uint32_t granule; /* of pieces; 0 or 1: any number of elements */
  uint32_t reserved;
} kerf_layout;

enum kerf_param_flags {
  KERF_PARAM_FROZEN = 1,
  /* The name has {e} or names in braces, {k,v}: dimension 0 is a stack. */
  KERF_PARAM_STACKED = 2,
};

/* Parameter i of [start, end) is named by the pattern (expandName) and lies at
 * offset + i * stride. Without {i}: start 0, end 1. */
typedef struct {
  uint32_t name; /* string: pattern */
  uint32_t flags;
  uint32_t init;         /* kerf_init_kind */
  uint32_t master_dtype; /* KERF_NONE: the parameter is its own master */
  double init_value;
  int64_t start, end;
  kerf_layout
      layout; /* `pieces` is 0 unless the parameter is stored in pieces */
  uint32_t state_pieces; /* as kerf_layout.pieces: of master and state */
  uint32_t reserved;
  int64_t offset, stride;               /* bytes */
  int64_t master_offset, master_stride; /* bytes; -1 without a master */
  uint32_t first_state, state_count;
} kerf_param;

/* Placed like its parameter, and shaped like the parameter's master; with
 * block > 1 it has one element for so many neighbours of the last dimension,
 * with without = n > 0 it lacks dimension rank - n. */
typedef struct {
  uint32_t name; /* string: "m"; the tensor is "<parameter>.m" */
  uint32_t dtype;
  uint32_t block; /* >= 1 */
  uint32_t without;
  int64_t offset, stride;
} kerf_state;

/* Of inputs. */
enum kerf_role {
  KERF_ROLE_NONE,
  KERF_ROLE_TOKENS,
  KERF_ROLE_TARGETS,
  KERF_ROLE_SEGMENTS,
  KERF_ROLE_POSITIONS,
  KERF_ROLE_SEED,
  KERF_ROLE_STEP,
  KERF_ROLE_LEARNING_RATE,
  KERF_ROLE_LOSS_SCALE,
  KERF_ROLE_COUNT
};

/* The part of a rank: layout.local, all micro-batches one after the other.
 * Micro-batch m is rows [m, m+1) * local[0] / micro_batches of dimension 0. */
typedef struct {
  uint32_t name; /* string */
  uint32_t role; /* kerf_role */
  kerf_layout layout;
  int64_t offset, bytes;
} kerf_input;

/* Every rank has all of it. "expert_load" are the choices of each expert in
 * layers [start, end), whose names `layers` is the pattern of, as a parameter's
 * is: one layer after the other, equally many of each. "expert_rows" are those
 * of them that got a row where a capacity drops some. */
typedef struct {
  uint32_t name; /* string: "loss", "grad_norm", as above, else its number */
  uint32_t dtype;
  uint32_t layers; /* string: "" of others */
  uint32_t reserved;
  int64_t offset;
  int64_t elements;   /* 1: a scalar */
  int64_t start, end; /* 0, 1 of others */
} kerf_output;

enum kerf_buffer_class {
  KERF_CLASS_PARAM,
  KERF_CLASS_MASTER,
  KERF_CLASS_OPTIMIZER,
  KERF_CLASS_GRADIENT,
  KERF_CLASS_ACTIVATION, /* kept from forward to backward */
  KERF_CLASS_TEMPORARY,
  KERF_CLASS_WORKSPACE, /* of library calls */
  KERF_CLASS_INPUT,     /* and outputs */
  KERF_CLASS_COUNT
};

typedef struct {
  uint32_t name; /* string: the value's name or location */
  uint32_t buffer_class;
  int64_t offset, bytes;
  int64_t first, last; /* commands of the unrolled step it lives in; -1: all */
} kerf_buffer;

/*===-- Program -----------------------------------------------------------===*/

typedef struct {
  uint32_t name; /* string */
  uint32_t first_command, command_count;
  uint32_t reserved;
} kerf_func;

enum kerf_call_flags { KERF_CALL_FIRST = 1, KERF_CALL_LAST = 2 };

typedef struct {
  uint32_t func;
  uint32_t micro_batch;
  uint32_t flags; /* first, last call of this function in the step */
  uint32_t reserved;
} kerf_call;

/* Attributes and operands have names, in the enumerations behind these; strides
 * and counts are in elements. Those of collectives begin with
 * kerf_collective_attr. */
enum kerf_opcode {
  KERF_OP_LAUNCH,             /* kerf_launch_attr; the kernel's arguments */
  KERF_OP_MATMUL,             /* kerf_matmul_attr, kerf_matmul_operand */
  KERF_OP_ATTENTION,          /* kerf_attention_attr, kerf_attention_operand */
  KERF_OP_ATTENTION_BACKWARD, /* the same */
  KERF_OP_GROUPED_MATMUL,     /* kerf_grouped_attr, kerf_grouped_operand */
  KERF_OP_COPY,               /* kerf_copy_attr; source destination */
  KERF_OP_ZERO,               /* kerf_copy_attr; destination, set to zero */
  KERF_OP_LOOP,               /* kerf_loop_attr; none */
  KERF_OP_ALL_REDUCE,         /* kerf_all_reduce_attr; source destination, which
                                 may be one */
  KERF_OP_ALL_GATHER,         /* kerf_all_gather_attr; source destination */
  KERF_OP_REDUCE_SCATTER,     /* kerf_reduce_scatter_attr; source destination */
  KERF_OP_ALL_TO_ALL,         /* kerf_all_to_all_attr; source destination */
  KERF_OP_TAKE,               /* kerf_take_attr, kerf_take_operand */
  KERF_OP_ROTATE,             /* kerf_rotate_attr; source destination */
  KERF_OP_SEND,               /* kerf_send_attr; source */
  KERF_OP_RECEIVE,            /* kerf_send_attr; destination */
  KERF_OP_WAIT,               /* kerf_wait_attr; as the collective has them */
  KERF_OP_STOP_IF,            /* none; an f32. Ends the step with an error where
                                 it is above zero: the command's name, followed
                                 by the number */
  KERF_OP_COUNT
};

enum kerf_launch_attr { KERF_LAUNCH_KERNEL, KERF_LAUNCH_ATTR_COUNT };

/* c[batch,m,n] (+)= a[batch,m,k] b[batch,k,n], then the epilogue. Columns of c
 * have stride 1. */
enum kerf_matmul_attr {
  KERF_MATMUL_A_DTYPE,
  KERF_MATMUL_B_DTYPE,
  KERF_MATMUL_C_DTYPE,
  KERF_MATMUL_BATCH,
  KERF_MATMUL_M,
  KERF_MATMUL_N,
  KERF_MATMUL_K,
  KERF_MATMUL_A_BATCH,
  KERF_MATMUL_A_ROW,
  KERF_MATMUL_A_COL,
  KERF_MATMUL_B_BATCH,
  KERF_MATMUL_B_ROW,
  KERF_MATMUL_B_COL,
  KERF_MATMUL_C_BATCH,
  KERF_MATMUL_C_ROW,
  KERF_MATMUL_ACCUMULATE,
  KERF_MATMUL_EPILOGUE,
  KERF_MATMUL_BIAS_DTYPE,
  KERF_MATMUL_ATTR_COUNT,
};

/* Bias, aux and scales are there, or not absent, where the epilogue has them.
 * aux[m,n] is dense and of c's dtype; a scale is one f32, a power of two, and 1
 * where it is absent. */
enum kerf_matmul_operand {
  KERF_MATMUL_A,
  KERF_MATMUL_B,
  KERF_MATMUL_C,
  KERF_MATMUL_WORKSPACE,
  KERF_MATMUL_BIAS,
  KERF_MATMUL_AUX,
  KERF_MATMUL_SCALE_A,
  KERF_MATMUL_SCALE_B,
  KERF_MATMUL_OPERAND_COUNT
};

/* Rows of x, [groups, rows, k], lie expert after expert; sizes[groups, experts]
 * (i32) tells how many belong to each. With a capacity c > 0 the rows of expert
 * e start at e * c, else where those of e-1 end.
 *
 * Kind 0: y[g,r,n] = sum_k x[g,r,k] w[e,n,k] (transposed: w[e,k,n]); rows of no
 * expert become zero. Kind 1, the weight gradient: y[e,n,k] (+)= sum over
 * groups and rows of e of x[g,r,n] w[g,r,k] (transposed: y[e,k,n]); it alone
 * may accumulate. */
enum kerf_grouped_attr {
  KERF_GROUPED_KIND,
  KERF_GROUPED_X_DTYPE,
  KERF_GROUPED_W_DTYPE,
  KERF_GROUPED_Y_DTYPE,
  KERF_GROUPED_GROUPS,
  KERF_GROUPED_ROWS,
  KERF_GROUPED_EXPERTS,
  KERF_GROUPED_N,
  KERF_GROUPED_K,
  KERF_GROUPED_TRANSPOSED,
  KERF_GROUPED_CAPACITY,
  KERF_GROUPED_ACCUMULATE,
  KERF_GROUPED_ATTR_COUNT,
};

enum kerf_grouped_operand {
  KERF_GROUPED_X,
  KERF_GROUPED_W,
  KERF_GROUPED_SIZES,
  KERF_GROUPED_Y,
  KERF_GROUPED_WORKSPACE,
  KERF_GROUPED_OPERAND_COUNT
};

enum kerf_copy_attr { KERF_COPY_BYTES, KERF_COPY_ATTR_COUNT };

/* Runs the next `body` commands for iterations start..end-1, or from the end.
 * Not nested. */
enum kerf_loop_attr {
  KERF_LOOP_START,
  KERF_LOOP_END,
  KERF_LOOP_REVERSE,
  KERF_LOOP_BODY,
  KERF_LOOP_ATTR_COUNT,
};

enum kerf_collective_attr {
  KERF_COLLECTIVE_GROUP,
  KERF_COLLECTIVE_DTYPE,
  KERF_COLLECTIVE_ATTR_COUNT
};

enum kerf_all_reduce_attr {
  KERF_ALL_REDUCE_REDUCTION = KERF_COLLECTIVE_ATTR_COUNT,
  KERF_ALL_REDUCE_ELEMENTS,
  KERF_ALL_REDUCE_ATTR_COUNT,
};

/* [outer, inner] of each of n ranks to [outer, n, inner]. */
enum kerf_all_gather_attr {
  KERF_ALL_GATHER_OUTER = KERF_COLLECTIVE_ATTR_COUNT,
  KERF_ALL_GATHER_INNER,
  KERF_ALL_GATHER_ATTR_COUNT,
};

/* [outer, n, inner] summed over ranks; rank r keeps [outer, inner] at r. */
enum kerf_reduce_scatter_attr {
  KERF_REDUCE_SCATTER_REDUCTION = KERF_COLLECTIVE_ATTR_COUNT,
  KERF_REDUCE_SCATTER_OUTER,
  KERF_REDUCE_SCATTER_INNER,
  KERF_REDUCE_SCATTER_ATTR_COUNT,
};

/* Of n ranks. back 0: the source is [outer, n, middle, inner], its part r of
 * the second dimension goes to rank r; the destination is [outer, middle, n,
 * inner], the third dimension by sender. back 1: from [outer, middle, n, inner]
 * to [outer, n, middle, inner]. */
enum kerf_all_to_all_attr {
  KERF_ALL_TO_ALL_BACK = KERF_COLLECTIVE_ATTR_COUNT,
  KERF_ALL_TO_ALL_OUTER,
  KERF_ALL_TO_ALL_MIDDLE,
  KERF_ALL_TO_ALL_INNER,
  KERF_ALL_TO_ALL_ATTR_COUNT,
};

/* The value of the member after this one, of the first for the last. */
enum kerf_rotate_attr {
  KERF_ROTATE_ELEMENTS = KERF_COLLECTIVE_ATTR_COUNT,
  KERF_ROTATE_ATTR_COUNT,
};

/* [outer, parts, inner] to [outer, inner], the part that the scalar tells;
 * inner in bytes. */
enum kerf_take_attr {
  KERF_TAKE_OUTER,
  KERF_TAKE_PARTS,
  KERF_TAKE_BYTES,
  KERF_TAKE_ATTR_COUNT,
};

enum kerf_take_operand {
  KERF_TAKE_SOURCE,
  KERF_TAKE_DESTINATION,
  KERF_TAKE_PART,
  KERF_TAKE_OPERAND_COUNT
};

enum kerf_send_attr {
  KERF_SEND_CHANNEL,
  KERF_SEND_BYTES,
  KERF_SEND_ATTR_COUNT,
};

/* The collective that stands `back` commands before, in the same loop or
 * outside of any, is done when this one is. */
enum kerf_wait_attr { KERF_WAIT_BACK, KERF_WAIT_ATTR_COUNT };

enum kerf_reduction { KERF_SUM, KERF_MAX };

/* What a matmul does to its result p. gelu is the tanh form. Epilogues with
 * gelu, a written bias or scales have batch 1, those with gelu do not
 * accumulate; a written bias is set, never added to. */
enum kerf_epilogue {
  KERF_EPILOGUE_NONE,          /* c = p */
  KERF_EPILOGUE_BIAS,          /* c = p + bias[n] */
  KERF_EPILOGUE_GELU,          /* c = gelu(p) */
  KERF_EPILOGUE_GELU_BIAS,     /* c = gelu(p + bias[n]) */
  KERF_EPILOGUE_GELU_AUX,      /* aux = p, c = gelu(p) */
  KERF_EPILOGUE_GELU_AUX_BIAS, /* aux = p + bias[n], c = gelu(p + bias[n]) */
  KERF_EPILOGUE_DGELU,         /* c = p gelu'(aux) */
  KERF_EPILOGUE_DGELU_BGRAD,   /* and bias[n] = sum of the rows of c */
  KERF_EPILOGUE_BGRAD_A,       /* c = p, bias[m] = sum over k of a[m,k] */
  KERF_EPILOGUE_BGRAD_B,       /* c = p, bias[n] = sum over k of b[k,n] */
  KERF_EPILOGUE_SCALE,         /* c = p scale_a scale_b */
  KERF_EPILOGUE_COUNT
};

/* Attributes of attention. q is [B,Sq,H,D], k [B,Sk,G,D], v [B,Sk,G,Dv]; a
 * tensor's strides are those of batch, position, head; channels have 1. lse is
 * [B,H,Sq] f32, dense. Doubles are stored by their bits. */
enum kerf_attention_attr {
  KERF_ATTN_DTYPE,
  KERF_ATTN_B,
  KERF_ATTN_H,
  KERF_ATTN_G,
  KERF_ATTN_SQ,
  KERF_ATTN_SK,
  KERF_ATTN_D,
  KERF_ATTN_DV,
  KERF_ATTN_Q_STRIDES,
  KERF_ATTN_K_STRIDES = KERF_ATTN_Q_STRIDES + 3,
  KERF_ATTN_V_STRIDES = KERF_ATTN_K_STRIDES + 3,
  KERF_ATTN_Y_STRIDES = KERF_ATTN_V_STRIDES + 3,
  KERF_ATTN_DY_STRIDES = KERF_ATTN_Y_STRIDES + 3,
  KERF_ATTN_DQ_STRIDES = KERF_ATTN_DY_STRIDES + 3,
  KERF_ATTN_DK_STRIDES = KERF_ATTN_DQ_STRIDES + 3,
  KERF_ATTN_DV_STRIDES = KERF_ATTN_DK_STRIDES + 3,
  KERF_ATTN_CAUSAL = KERF_ATTN_DV_STRIDES + 3,
  KERF_ATTN_WINDOW,    /* 0: none */
  KERF_ATTN_SCALE,     /* double */
  KERF_ATTN_DROPOUT,   /* double, 0: none */
  KERF_ATTN_NAME_HASH, /* kerf_hash_name of the dropout's name */
  KERF_ATTN_GLOBAL,    /* whole [B,H,Sq,Sk] that random indices count in */
  KERF_ATTN_ZIGZAG = KERF_ATTN_GLOBAL + 4, /* ranks of kerf_zigzag, or 0 */
  KERF_ATTN_SOFTCAP, /* double, 0: none; else scores s are cap tanh(s / cap) */
  KERF_ATTN_ATTR_COUNT
};

/* Tensors of attention; those from dy on are of its gradient. */
enum kerf_attention_operand {
  KERF_ATTN_IN_Q,
  KERF_ATTN_IN_K,
  KERF_ATTN_IN_V,
  KERF_ATTN_IN_Y,
  KERF_ATTN_IN_LSE,
  KERF_ATTN_IN_DY,
  KERF_ATTN_IN_DQ,
  KERF_ATTN_IN_DK,
  KERF_ATTN_IN_DV
};

/* Further operands of attention, from `kerf_attention_scalars` on. Segments are
 * there where documents are packed. */
enum kerf_attention_scalar {
  KERF_ATTN_SEED,
  KERF_ATTN_STEP,
  KERF_ATTN_LAYER,
  KERF_ATTN_OFFSET_B,
  KERF_ATTN_OFFSET_H,
  KERF_ATTN_OFFSET_Q,
  KERF_ATTN_OFFSET_K,
  KERF_ATTN_WORKSPACE,
  KERF_ATTN_SEGMENTS_Q,
  KERF_ATTN_SEGMENTS_K
};

/* The operand that is KERF_ATTN_SEED. */
static inline uint32_t kerf_attention_scalars(int backward) {
  return backward ? KERF_ATTN_IN_DV + 1 : KERF_ATTN_IN_LSE + 1;
}

enum kerf_command_flags {
  KERF_IF_FIRST = 1,     /* only in the first call of the function */
  KERF_UNLESS_FIRST = 2, /* only in later ones */
  KERF_IF_LAST = 4,      /* only in the last one */
  KERF_STARTS = 8,       /* a collective: need not be done before its wait */
};

typedef struct {
  uint16_t opcode;
  uint16_t flags;
  uint32_t name;     /* string: what it computes, for traces */
  uint32_t location; /* string: the op, "forward 12", or KERF_NONE */
  uint32_t first_operand, operand_count;
  uint32_t first_attr, attr_count;
} kerf_command;

enum kerf_operand_kind {
  KERF_ARENA,  /* address offset + i * iter_stride
                  + micro_batch % copies * slot_stride */
  KERF_SCALAR, /* pointer to int32_t, value number `offset` of the scalars */
  KERF_ABSENT, /* null */
};

/* Whatever a command may change is KERF_WRITE: a state is copied beside a step
 * until the step comes to a command that writes it. */
enum kerf_access { KERF_READ = 1, KERF_WRITE = 2 };

typedef struct {
  uint8_t kind;
  uint8_t access;
  uint8_t dtype;
  uint8_t reserved;
  uint32_t copies; /* in the arena, slot_stride apart: 1, or as many as there
                      are micro-batches in flight, or of inputs all */
  int64_t offset;  /* bytes */
  int64_t bytes;   /* from the address: all that the command touches */
  int64_t iter_stride, slot_stride; /* bytes */
} kerf_operand;

/* constant + iteration * i + micro * m + sum over axes of axis[a] *
 * coordinate[a], and of that the rest modulo `modulus` where it is positive:
 * the index of a shard, a layer's number, a place further along a ring. */
typedef struct {
  int32_t constant, iteration, micro;
  int32_t axis[KERF_MAX_AXES];
  int32_t modulus; /* 0: none; the rest is not negative */
} kerf_scalar;

/* "cpu": void kernel(void *const *arguments, int64_t begin, int64_t end)
 * computes units [begin, end) of [0, units). Units are independent of each
 * other. "cuda": .entry kernel(.u64 argument, ...) on a grid of [units] blocks
 * of [threads] threads; block u computes unit u. */
typedef struct {
  uint32_t symbol; /* string */
  uint32_t argument_count;
  int64_t units;
  int64_t grain;    /* units that are worth a thread's attention */
  uint64_t hash;    /* of its content */
  uint32_t threads; /* of the block that computes a unit, "cuda"; else 0 */
  uint32_t reserved;
  int64_t untouched; /* bytes of its arguments that it neither reads nor writes:
                        outside slices, rows that it does not look up */
} kerf_kernel;

typedef void (*kerf_kernel_fn)(void *const *arguments, int64_t begin,
                               int64_t end);

/*===-- Functions that both sides compute ---------------------------------===*/

/* Position of a row in zigzag order over n ranks: the part of place r is the
 * chunks r and 2n-1-r of `chunk` positions each (#kerf.zigzag). */
static inline int64_t kerf_zigzag(int64_t n, int64_t chunk, int64_t row) {
  int64_t place = row / chunk / 2, second = row / chunk % 2;
  return (second ? 2 * n - 1 - place : place) * chunk + row % chunk;
}

static inline uint64_t kerf_mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static inline uint64_t kerf_checksum(uint64_t hash, const void *data,
                                     uint64_t bytes) {
  const unsigned char *p = (const unsigned char *)data;
  for (uint64_t i = 0; i < bytes; i += 8) {
    uint64_t word = 0;
    for (uint64_t j = 0; j < 8 && i + j < bytes; ++j)
      word |= (uint64_t)p[i + j] << (8 * j);
    hash = (hash ^ word) * UINT64_C(0x100000001b3);
    hash ^= hash >> 29;
  }
  return kerf_mix(hash);
}

/* Random numbers: those of kerf/Dialect/Kerf/Random.h. */
static inline uint64_t kerf_hash_name(const char *name) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; *name; ++name)
    hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
  return hash;
}

static inline uint64_t kerf_random_stream(int64_t seed, int64_t step,
                                          int64_t layer, uint64_t name_hash) {
  uint64_t key = kerf_mix((uint64_t)seed);
  key = kerf_mix(key ^ (uint64_t)step);
  key = kerf_mix(key ^ (uint64_t)layer);
  return kerf_mix(key ^ name_hash);
}

/* Number `index` of a stream: 24 bits, uniform in [0, 2^24). */
static inline uint32_t kerf_random_bits(uint64_t stream, uint64_t index) {
  return (uint32_t)(kerf_mix(stream ^ kerf_mix(index)) >> 40);
}

static inline int64_t kerf_dtype_bytes(uint32_t dtype) {
  switch (dtype) {
  case KERF_BF16:
  case KERF_F16:
    return 2;
  case KERF_I1:
  case KERF_I8:
  case KERF_F8E4M3:
  case KERF_F8E5M2:
    return 1;
  case KERF_F64:
    return 8;
  default:
    return 4;
  }
}

#ifdef __cplusplus
}
#endif

#endif /* KERF_ARTIFACT_FORMAT_H */
