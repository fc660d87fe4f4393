/*===- Runtime.h - runs a compiled file: the C interface ------------------===*\
|*
|* An artifact is an opened and checked `model.kerf`. A session is one rank of
|* a training job: a device, an arena, and every command prepared on it.
|*
|*     kerf_error error;
|*     kerf_artifact *artifact;
|*     kerf_session *session;
|*     kerf_session_options options;
|*     kerf_session_options_init(&options);
|*     if (kerf_artifact_open("model.kerf", &artifact, &error) ||
|*         kerf_session_create(artifact, &options, &session, &error) ||
|*         kerf_session_initialize(session, 0, &error))
|*       return fail(error.message);
|*     for (step = 1; step <= steps; ++step) {
|*       kerf_session_set_input(session, tokens, data, bytes, &error) ...
|*       kerf_session_run_step(session, &error);
|*       kerf_session_get_output(session, 0, &loss, &error);
|*     }
|*     kerf_session_destroy(session);
|*     kerf_artifact_close(artifact);
|*
|* Functions that can fail return a kerf_status and, unless it is KERF_OK, fill
|* `error` (which may be null) with one line: lower case, no full stop. Nothing
|* throws through this border and nothing is printed. Objects have no global
|* state; one object is used by one thread at a time, unless noted.
|*
\*===----------------------------------------------------------------------===*/

#ifndef KERF_RUNTIME_RUNTIME_H
#define KERF_RUNTIME_RUNTIME_H

#include "kerf/Artifact/Format.h"
#include "kerf/Runtime/Tuning.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define KERF_API __attribute__((visibility("default")))
#else
#define KERF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*===-- Status ------------------------------------------------------------===*/

typedef enum {
  KERF_OK,
  KERF_INVALID,     /* an argument, file or setting is wrong */
  KERF_UNSUPPORTED, /* meaningful, but not on this machine */
  KERF_NO_MEMORY,   /* the system has not enough of it */
  KERF_FAILED,      /* the system or a library said no */
  KERF_NOT_FINITE,  /* check_nans found a value that is no number */
  KERF_PEER_LOST,   /* another rank died, left or stopped the job */
  KERF_STALLED      /* nothing moved for `stall_timeout_sec` */
} kerf_status;

#define KERF_MESSAGE_BYTES 1024

typedef struct {
  kerf_status status;
  char message[KERF_MESSAGE_BYTES]; /* NUL-terminated, truncated to fit */
} kerf_error;

/* Exit status of a program that ends with `status`: 0; 1 when the same run
 * would fail again (input, configuration, numbers); 128 for faults of the
 * machine, which are worth a retry. */
KERF_API int kerf_exit_code(kerf_status status);

/*===-- Artifact ----------------------------------------------------------===*/

typedef struct kerf_artifact kerf_artifact;

/* Maps and checks a file: after this every table entry, index, offset and size
 * in it is known to be consistent. Messages start with the path:
 * "model.kerf: truncated: ...", "damaged: ...", "written by format 2, ...". */
KERF_API kerf_status kerf_artifact_open(const char *path,
                                        kerf_artifact **artifact,
                                        kerf_error *error);
/* The same from memory, which is copied. `name` stands in messages. */
KERF_API kerf_status kerf_artifact_open_bytes(const void *bytes, uint64_t size,
                                              const char *name,
                                              kerf_artifact **artifact,
                                              kerf_error *error);
/* Sessions on it must be gone. Null is fine. */
KERF_API void kerf_artifact_close(kerf_artifact *artifact);

/* Tables; they live as long as the artifact. Stages of a pipeline are programs.
 * Parameters and inputs are numbered over all of them, each once, alike on all
 * ranks; a record is that of one stage that has it. Outputs are on all. */
KERF_API const kerf_meta *kerf_artifact_meta(const kerf_artifact *artifact);
KERF_API const kerf_axis *kerf_artifact_axes(const kerf_artifact *artifact,
                                             uint32_t *count);
KERF_API const kerf_program *
kerf_artifact_programs(const kerf_artifact *artifact, uint32_t *count);
KERF_API const kerf_param *kerf_artifact_params(const kerf_artifact *artifact,
                                                uint32_t *count);
KERF_API const kerf_state *kerf_artifact_states(const kerf_artifact *artifact,
                                                uint32_t *count);
KERF_API const kerf_input *kerf_artifact_inputs(const kerf_artifact *artifact,
                                                uint32_t *count);
KERF_API const kerf_output *kerf_artifact_outputs(const kerf_artifact *artifact,
                                                  uint32_t *count);
KERF_API const kerf_command *
kerf_artifact_commands(const kerf_artifact *artifact, uint32_t *count);

/* The string at `offset` of the pool; "" for KERF_NONE and for offsets that
 * are out of range. */
KERF_API const char *kerf_artifact_string(const kerf_artifact *artifact,
                                          uint32_t offset);
/* The plan as JSON, not NUL-terminated. */
KERF_API const char *kerf_artifact_plan(const kerf_artifact *artifact,
                                        uint64_t *bytes);
/* The bytes of a compiled file of one rank on the host's CPU that chooses the
 * token behind others (kerf/Sampler/Sampler.h says what its inputs mean); none
 * in most files. They are checked, too. */
KERF_API const void *kerf_artifact_sampler(const kerf_artifact *artifact,
                                           uint64_t *bytes);
/* Hash of the whole file: equal files, equal hashes. */
KERF_API uint64_t kerf_artifact_hash(const kerf_artifact *artifact);

/* Name of a parameter from its pattern: {i}, {a*i+b} become numbers. Where
 * `member` >= 0 so does {e}, and {k,v} becomes the name of that number; both
 * stay otherwise. Writes at most `bytes` with the NUL and returns the length
 * without it, as snprintf. */
KERF_API size_t kerf_expand_name(const char *pattern, int64_t iteration,
                                 int64_t member, char *buffer, size_t bytes);

/* Bytes that a rank has of a tensor, with the padding of a piece, and bytes of
 * the global tensor. */
KERF_API uint64_t kerf_local_bytes(const kerf_artifact *artifact,
                                   const kerf_layout *layout);
KERF_API uint64_t kerf_global_bytes(const kerf_layout *layout);

/*===-- Session -----------------------------------------------------------===*/

typedef struct kerf_session kerf_session;

typedef struct {
  int32_t rank;       /* -1: RANK of the environment, else 0. Of a file for one
                         rank 0 says that WORLD_SIZE is that of others */
  int32_t workers;    /* threads that compute; 0: as many as allowed */
  const char *device; /* null: the artifact's target */
  /* Folders of device libraries, by colon, searched before all others; null:
   * KERF_PLUGIN_PATH, <exe>/../lib/kerf, <exe>/../lib, beside this library. */
  const char *plugin_path;
  /* Name that the ranks of one job share and no other job on the machine has;
   * null: KERF_SESSION, else MASTER_PORT of the environment. */
  const char *session_name;
  /* How ranks talk: "shm", within a machine, or a transport library
   * (kerf/Runtime/Wire.h), "mpi"; null: mpi in processes that mpirun started,
   * else shm. */
  const char *transport;
  double connect_timeout_sec; /* wait for the other ranks; 0: 60 */
  /* Fail when a rank waits within a run and nothing moves in the whole job for
   * so long; 0: 60, negative: never. */
  double stall_timeout_sec;
  bool check_nans; /* look at everything that a command wrote; slow */
  /* Measure the time of every command; where steps are enqueued, the device
   * takes the times, or is waited for after each. */
  bool profile;
  /* Do not let the device record the training step; else a device that can,
   * records the second one and replays it from then on. Also KERF_NO_GRAPH=1;
   * not with check_nans, profile and while runs are traced. */
  bool no_graphs;
  /* Algorithms to take; null: those that libraries put first. A device that has
   * none to choose from refuses them, as does another one than they are of. */
  const kerf_tuning *tuning;
} kerf_session_options;

KERF_API void kerf_session_options_init(kerf_session_options *options);

/* Opens the device, checks the machine against the artifact, meets the other
 * ranks, allocates the arena (exactly kerf_program.arena_bytes, zero) and
 * prepares all commands of the rank's stage. WORLD_SIZE, where set, must be the
 * artifact's. `artifact` must outlive the session. */
KERF_API kerf_status kerf_session_create(const kerf_artifact *artifact,
                                         const kerf_session_options *options,
                                         kerf_session **session,
                                         kerf_error *error);
/* Tells the other ranks that this one leaves. Null is fine. */
KERF_API void kerf_session_destroy(kerf_session *session);

KERF_API uint32_t kerf_session_rank(const kerf_session *session);
KERF_API int32_t kerf_session_workers(const kerf_session *session);
/* The device in one line, for people. */
KERF_API const char *kerf_session_describe(const kerf_session *session);

/* Bytes of this rank. */
typedef struct {
  uint64_t arena;          /* on the device, as the file says */
  uint64_t bounce_buffers; /* on the host, for exchanges of device memory */
  /* Of the whole device, as its driver reports them now; 0: the device has no
   * memory of its own. */
  uint64_t device_free, device_total;
  /* Free once the device was opened, before anything of the file was there. */
  uint64_t device_free_at_start;
} kerf_memory;

KERF_API void kerf_session_memory(const kerf_session *session,
                                  kerf_memory *memory);

/* Gives parameters and masters their initial values for `seed`, the ones of
 * the reference interpreter to the bit, and sets optimizer state to zero. The
 * values do not depend on the layout. */
KERF_API kerf_status kerf_session_initialize(kerf_session *session,
                                             int64_t seed, kerf_error *error);

/* Sets an input for the next steps; nothing happens on ranks whose stage does
 * not have it. `data` is this rank's part, of the bytes that its stage's record
 * says. */
KERF_API kerf_status kerf_session_set_input(kerf_session *session,
                                            uint32_t input, const void *data,
                                            uint64_t bytes, kerf_error *error);
/* As above from the global tensor, of which this rank's part is taken. */
KERF_API kerf_status kerf_session_set_input_global(kerf_session *session,
                                                   uint32_t input,
                                                   const void *data,
                                                   uint64_t bytes,
                                                   kerf_error *error);
/* Sets `marks` of the rows, along the first dimension, of which this rank's
 * part of an input has an element to 1, and leaves others as they are; nothing
 * on ranks whose stage does not have the input. `rows`: as many as the input
 * has.
 */
KERF_API kerf_status kerf_session_input_rows(const kerf_session *session,
                                             uint32_t input, uint8_t *marks,
                                             uint64_t rows, kerf_error *error);
/* Sets every scalar input of a role (kerf_role: seed, step, learning rate, loss
 * scale), converted to its type; no input of the role is no error. */
KERF_API kerf_status kerf_session_set_scalar(kerf_session *session,
                                             uint32_t role, double value,
                                             kerf_error *error);

/* Runs the calls of one training step, or of one evaluation. After a failure
 * the arena is undefined; other ranks are told and fail with KERF_PEER_LOST. */
KERF_API kerf_status kerf_session_run_step(kerf_session *session,
                                           kerf_error *error);
KERF_API kerf_status kerf_session_run_evaluation(kerf_session *session,
                                                 kerf_error *error);

/* The first `count` elements of an output after a run, as doubles. */
KERF_API kerf_status kerf_session_get_output_values(kerf_session *session,
                                                    uint32_t output,
                                                    double *values,
                                                    uint64_t count,
                                                    kerf_error *error);

/* The value of an output after a run, as a double; the first of several. */
KERF_API kerf_status kerf_session_get_output(kerf_session *session,
                                             uint32_t output, double *value,
                                             kerf_error *error);

/*===-- Parameters and optimizer state ------------------------------------===*/

typedef enum {
  KERF_TENSOR_PARAM,
  KERF_TENSOR_MASTER, /* of parameters that have one */
  KERF_TENSOR_STATE   /* optimizer state */
} kerf_tensor_kind;

typedef struct {
  uint32_t kind;     /* kerf_tensor_kind */
  uint32_t param;    /* number, as of kerf_artifact_params */
  uint32_t state;    /* 0 .. state_count - 1 of the parameter, else 0 */
  int64_t iteration; /* start .. end - 1 of the parameter */
} kerf_tensor;

/* The layout of `tensor`, with its own dtype. */
KERF_API kerf_status kerf_tensor_layout(const kerf_artifact *artifact,
                                        const kerf_tensor *tensor,
                                        kerf_layout *layout, kerf_error *error);

/* Copies this rank's shard, row-major, or its piece of it, as it is stored:
 * kerf_local_bytes(artifact, layout) bytes. Fails on ranks whose stage does not
 * have the tensor. */
KERF_API kerf_status kerf_session_read(kerf_session *session,
                                       const kerf_tensor *tensor, void *data,
                                       uint64_t bytes, kerf_error *error);
KERF_API kerf_status kerf_session_write(kerf_session *session,
                                        const kerf_tensor *tensor,
                                        const void *data, uint64_t bytes,
                                        kerf_error *error);
/* Copies the global tensor, kerf_global_bytes(layout) bytes. Writing is local
 * and changes nothing on ranks that have no part of it; reading is collective:
 * all ranks call it in the same order, and `data` may be null on those that do
 * not want the result. */
KERF_API kerf_status kerf_session_read_global(kerf_session *session,
                                              const kerf_tensor *tensor,
                                              void *data, uint64_t bytes,
                                              kerf_error *error);
KERF_API kerf_status kerf_session_write_global(kerf_session *session,
                                               const kerf_tensor *tensor,
                                               const void *data, uint64_t bytes,
                                               kerf_error *error);

/*===-- Parts of tensors --------------------------------------------------===*/

/* Elements of a tensor that a rank stores, as a box of the global tensor: of
 * dimension d the indices [begin[d], end[d]). The one at `begin` is element
 * `first` of what the rank stores, and `stride[d]` elements lie from one index
 * of dimension d to the next; of the last dimension that is 1. */
typedef struct {
  int64_t begin[KERF_MAX_RANK], end[KERF_MAX_RANK];
  int64_t stride[KERF_MAX_RANK];
  int64_t first;
} kerf_box;

/* How a rank stores a tensor. */
typedef struct {
  kerf_layout layout; /* with the tensor's own dtype */
  int64_t elements;   /* stored, without the padding behind them */
  int64_t row;        /* of them lie together in the last dimension */
  /* The rank is number `copy` of `copies` ranks that store the same elements,
   * those of other stages apart. */
  uint32_t copy, copies;
  bool is_home; /* the stage is the one that read_global reads */
} kerf_holding;

/* Sets `holding` of a rank that has the tensor; otherwise sets `has` to false.
 */
KERF_API kerf_status kerf_tensor_holding(const kerf_artifact *artifact,
                                         const kerf_tensor *tensor,
                                         uint32_t rank, bool *has,
                                         kerf_holding *holding,
                                         kerf_error *error);
/* The stored elements [begin, end) as disjoint boxes: returns how many there
 * are, and writes at most `capacity` of them. */
KERF_API uint32_t kerf_holding_boxes(const kerf_artifact *artifact,
                                     const kerf_holding *holding, uint32_t rank,
                                     int64_t begin, int64_t end,
                                     kerf_box *boxes, uint32_t capacity);

/*===-- Snapshots ---------------------------------------------------------===*/

/* The stored elements [begin, end) of a tensor that this rank has. */
typedef struct {
  kerf_tensor tensor;
  int64_t begin, end;
} kerf_part;

/* `bytes` of the host's memory for snapshots: the session's, until it is
 * destroyed; asked for once. `beside`: a device should copy to it beside its
 * steps; taken from the start, not when it is touched. */
KERF_API kerf_status kerf_session_snapshot_memory(kerf_session *session,
                                                  uint64_t bytes, bool beside,
                                                  void **memory,
                                                  kerf_error *error);
/* Copies parts as they are now to that memory, one after the other, in the
 * given order. It returns at once where the copy can be made beside the next
 * training step, which waits before it writes what is not copied; otherwise
 * when the copy is there. Until it is finished, tensors may be written by steps
 * only, and no other snapshot be begun. */
KERF_API kerf_status kerf_session_begin_snapshot(kerf_session *session,
                                                 const kerf_part *parts,
                                                 uint32_t count, void *memory,
                                                 kerf_error *error);
/* Returns when the copy is there: on a CPU the calling threads make it. May be
 * called by another thread while this one runs steps, and several times. Fails
 * when it was dropped. */
KERF_API kerf_status kerf_session_finish_snapshot(kerf_session *session,
                                                  kerf_error *error);
/* Nobody wants the copy any more. */
KERF_API void kerf_session_drop_snapshot(kerf_session *session);
/* Seconds that steps waited for the snapshot that was begun last: on a device
 * that waits by itself they are not known, and 0. */
KERF_API double kerf_session_snapshot_wait(const kerf_session *session);

/*===-- Job ---------------------------------------------------------------===*/

/* Collective: waits for all ranks. */
KERF_API kerf_status kerf_session_barrier(kerf_session *session,
                                          kerf_error *error);
/* Collective: the maximum of `value` over all ranks, e.g. "was told to stop".
 */
KERF_API kerf_status kerf_session_agree_max(kerf_session *session,
                                            int32_t *value, kerf_error *error);
/* Collective: `count` numbers of each rank, one rank after the other, in `all`.
 */
KERF_API kerf_status kerf_session_gather(kerf_session *session,
                                         const double *values, uint32_t count,
                                         double *all, kerf_error *error);
/* Sends `bytes` of the host's memory to another rank, which receives as many at
 * the same time: between steps. Ranks that do several of these do them in one
 * order of all. */
KERF_API kerf_status kerf_session_send(kerf_session *session, uint32_t rank,
                                       const void *data, uint64_t bytes,
                                       kerf_error *error);
KERF_API kerf_status kerf_session_receive(kerf_session *session, uint32_t rank,
                                          void *data, uint64_t bytes,
                                          kerf_error *error);
/* Collective: what must be added to CLOCK_MONOTONIC of this rank to get that of
 * rank 0, and how wrong this can be. Both are 0 on the machine of rank 0, whose
 * processes share the clock. */
KERF_API kerf_status kerf_session_clock_offset(kerf_session *session,
                                               double *offset_sec,
                                               double *error_sec,
                                               kerf_error *error);
/* Makes all other ranks fail with `message` in their next wait. */
KERF_API void kerf_session_abort(kerf_session *session, const char *message);
/* Removes what a killed job named `session_name` left in shared memory; for
 * launchers. Null: the name that the environment gives, as in the options. */
KERF_API void kerf_session_cleanup(const char *session_name);

/*===-- Looking at a machine ----------------------------------------------===*/

/* One line for people on the device `name`; null: the one that `artifact` is
 * for. The artifact may be null, too: then nothing is asked of the device.
 * Fails as a session would: no library, no driver, or the processor lacks
 * something. Of `memory`, which may be null, what the device's driver reports
 * is set. `plugin_path` as in the options. */
KERF_API kerf_status kerf_probe_device(const char *name,
                                       const kerf_artifact *artifact,
                                       const char *plugin_path,
                                       kerf_memory *memory, char *text,
                                       size_t text_bytes, kerf_error *error);
/* What there is of devices of this kind and of the libraries that they need,
 * for people: lines "name\tvalue\n"; "" where the device tells nothing. */
KERF_API kerf_status kerf_examine_device(const char *name,
                                         const char *plugin_path, char *text,
                                         size_t text_bytes, kerf_error *error);
/* The same on a transport. */
KERF_API kerf_status kerf_probe_transport(const char *name,
                                          const char *plugin_path, char *text,
                                          size_t text_bytes, kerf_error *error);
/* Shared memory that the transport shm takes for a whole job. */
KERF_API uint64_t kerf_shared_memory_bytes(const kerf_artifact *artifact);

/*===-- Looking at a job
 * ---------------------------------------------------===*/

/* Takes a line without its end. */
typedef void (*kerf_line_fn)(void *user, const char *line);

/* Runs one training step and one evaluation of every rank of the job, without
 * GPUs, memory or other processes, on an NCCL that only writes down what it is
 * asked for: a line for each communicator and each call of the ranks (of `rank`
 * alone unless it is negative), and a last one with what was checked. `print`
 * may be null. Fails when calls of members of a communicator do not fit
 * together, and when the job would hang; the message names the calls. */
KERF_API kerf_status kerf_dry_nccl(const kerf_artifact *artifact, int32_t rank,
                                   kerf_line_fn print, void *user,
                                   kerf_error *error);

/*===-- Tuning ------------------------------------------------------------===*/

typedef void (*kerf_tuned_fn)(void *user, const kerf_tuned *tuned);

/* Times the algorithms that the device's library has for each matmul of the
 * file, equal ones once, for about `budget_sec` each, and gives `take` the
 * fastest. No matmul is begun when `limit_sec` have passed: it is given with 0
 * `choices`. One process does it for all stages, without other ranks, in device
 * memory of the size of an arena. Of `options` device and plugin_path count.
 * Sets `facts`. */
KERF_API kerf_status kerf_tune(const kerf_artifact *artifact,
                               const kerf_session_options *options,
                               double budget_sec, double limit_sec,
                               kerf_tuned_fn take, void *user,
                               kerf_device_facts *facts, kerf_error *error);

/*===-- Measuring a machine -----------------------------------------------===*/

/* One rank that times commands: a device and, of several ranks, a transport. */
typedef struct kerf_bench kerf_bench;

/* Of `options` these count: rank (not -1), workers (0: all cores), device
 * (null: "cpu"), plugin_path, transport, connect_timeout_sec and, with several
 * ranks, session_name (not null). Meets the other ranks. */
KERF_API kerf_status kerf_bench_create(const kerf_session_options *options,
                                       uint32_t ranks, kerf_bench **bench,
                                       kerf_error *error);
/* Null is fine. */
KERF_API void kerf_bench_destroy(kerf_bench *bench);
KERF_API int32_t kerf_bench_workers(const kerf_bench *bench);
/* The device in one line, for people. */
KERF_API const char *kerf_bench_describe(const kerf_bench *bench);
/* False where the device has none to tell: one of the host. */
KERF_API bool kerf_bench_facts(const kerf_bench *bench,
                               kerf_device_facts *facts);
/* What the device's driver reports; 0: it has no memory of its own. */
KERF_API void kerf_bench_memory(const kerf_bench *bench, kerf_memory *memory);

/* A command as in a file, with buffers of its own. Groups are all ranks.
 * Besides those of devices: KERF_OP_ALL_REDUCE .. ALL_TO_ALL; KERF_OP_SEND, a
 * message from rank 0 to 1 and back; and as KERF_OP_LAUNCH two built-in kernels
 * with the attributes of kerf_bench_attr: without operands one that does
 * nothing, with three the sum of two vectors of f32, a unit per element. */
enum kerf_bench_attr { KERF_BENCH_UNITS, KERF_BENCH_GRAIN };

typedef struct {
  uint32_t opcode; /* kerf_opcode */
  uint32_t attr_count, operand_count;
  uint32_t dtype;   /* KERF_F32 or KERF_BF16, with which buffers are filled */
  uint32_t repeat;  /* a time is the mean of so many runs in a row, >= 1. A
                     * device that can record runs is asked for more of them
                     * where they are short, as a graph */
  bool is_enqueued; /* ... is not: each run is enqueued by the host */
  const int64_t *attrs;
  const uint64_t *operand_bytes; /* 0: absent */
} kerf_bench_command;

/* Collective. Times one run after another, a first one left out, until they
 * took `budget_sec` or `capacity` (>= 3) times are there, but at least 3. Ranks
 * start together; a time is that of the slowest, the same on all. */
KERF_API kerf_status kerf_bench_measure(kerf_bench *bench,
                                        const kerf_bench_command *command,
                                        double budget_sec, double *seconds,
                                        uint32_t capacity, uint32_t *count,
                                        kerf_error *error);

/*===-- Looking at a run --------------------------------------------------===*/

/* Index of the command that runs now, or UINT32_MAX between runs. Any thread
 * and signal handlers may ask: a hang can be named. */
KERF_API uint32_t kerf_session_progress(const kerf_session *session);

typedef struct {
  const char *name; /* lives as long as the artifact */
  uint32_t opcode;  /* kerf_opcode */
  uint64_t calls;
  double seconds;
} kerf_profile_entry;

/* Entry `index` of the time per command since the session was made or reset,
 * commands of one name and opcode together, the slowest first; false behind
 * the last one. Needs the option `profile`. */
KERF_API bool kerf_session_profile(kerf_session *session, uint32_t index,
                                   kerf_profile_entry *entry);
KERF_API void kerf_session_profile_reset(kerf_session *session);

/* Seconds that this rank spent with others since the session was made. */
typedef struct {
  double collectives; /* in collectives of runs */
  double messages;    /* in sends and receives of runs */
  double barriers;    /* in barrier, agree_max and gather */
} kerf_waits;

KERF_API kerf_waits kerf_session_waits(const kerf_session *session);

/* Records the following runs, or stops that. Memory for one run is allocated
 * here; recording a command is two looks at the clock and 40 bytes. Where steps
 * are enqueued, the device takes the times of what runs on it (of CUDA: events
 * around each command), and commands of several streams may overlap; one that
 * cannot is waited for after each command. Of a send over NCCL the times are
 * those of the copy after which the steps go on: the message is sent from that
 * copy, in a stream of its own, and is not shown. A send through memory of the
 * host ends when the channel has the message, also where the receiver does not
 * have it yet. */
KERF_API kerf_status kerf_session_trace(kerf_session *session, bool is_on,
                                        kerf_error *error);

/* A command that ran, or a call as a whole. Strings live as long as the
 * artifact. */
typedef struct {
  uint32_t opcode;      /* kerf_opcode; KERF_OP_COUNT: the call */
  uint32_t micro_batch; /* of the call */
  uint32_t peer;        /* rank at the other end of a message, else KERF_NONE */
  uint32_t axes;        /* of a collective, as kerf_group.axes, else 0 */
  const char *name;     /* of the command or function */
  const char *kind;     /* of the opcode: "matmul"; "call" */
  const char *function; /* that was called */
  const char *location; /* the op: "forward 12"; "" if it is not known */
  const char *channel;  /* of a message, else "" */
  int64_t iteration;    /* of its loop, -1 outside of loops */
  /* What it touches; of a collective the larger of source and destination, of a
   * message its size; of a call 0. */
  uint64_t bytes;
  double start, end; /* seconds of CLOCK_MONOTONIC */
  bool on_device;    /* the device took these times itself */
} kerf_trace_event;

/* Event `index` of the last recorded run, in order of their ends; false behind
 * the last one. A run that failed has events up to the command that did. */
KERF_API bool kerf_session_trace_event(const kerf_session *session,
                                       uint32_t index, kerf_trace_event *event);

#ifdef __cplusplus
}
#endif

#endif /* KERF_RUNTIME_RUNTIME_H */
