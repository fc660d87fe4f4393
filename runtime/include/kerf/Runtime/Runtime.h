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
  KERF_PEER_LOST    /* another rank died, left or stopped the job */
} kerf_status;

#define KERF_MESSAGE_BYTES 1024

typedef struct {
  kerf_status status;
  char message[KERF_MESSAGE_BYTES]; /* NUL-terminated, cut to fit */
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

/* Tables; they live as long as the artifact. */
KERF_API const kerf_meta *kerf_artifact_meta(const kerf_artifact *artifact);
KERF_API const kerf_axis *kerf_artifact_axes(const kerf_artifact *artifact,
                                             uint32_t *count);
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
KERF_API const kerf_call *kerf_artifact_calls(const kerf_artifact *artifact,
                                              uint32_t *count);

/* The string at `offset` of the pool; "" for KERF_NONE and for offsets that
 * are out of range. */
KERF_API const char *kerf_artifact_string(const kerf_artifact *artifact,
                                          uint32_t offset);
/* The plan as JSON, not NUL-terminated. */
KERF_API const char *kerf_artifact_plan(const kerf_artifact *artifact,
                                        uint64_t *bytes);
/* Hash of the whole file: equal files, equal hashes. */
KERF_API uint64_t kerf_artifact_hash(const kerf_artifact *artifact);

/* Name of a parameter from its pattern: {i}, {a*i+b} become numbers; {e} does
 * where `expert` >= 0 and stays otherwise. Writes at most `bytes` with the NUL
 * and returns the length without it, as snprintf. */
KERF_API size_t kerf_expand_name(const char *pattern, int64_t iteration,
                                 int64_t expert, char *buffer, size_t bytes);

/* First global index of the shard of `rank` in each dimension of `layout`. */
KERF_API void kerf_shard_start(const kerf_artifact *artifact,
                               const kerf_layout *layout, uint32_t rank,
                               int64_t start[KERF_MAX_RANK]);
/* Bytes of a shard, and of the global tensor. */
KERF_API uint64_t kerf_local_bytes(const kerf_layout *layout);
KERF_API uint64_t kerf_global_bytes(const kerf_layout *layout);

/*===-- Session -----------------------------------------------------------===*/

typedef struct kerf_session kerf_session;

typedef struct {
  int32_t rank;       /* -1: RANK of the environment, else 0 */
  int32_t workers;    /* threads that compute; 0: as many as allowed */
  const char *device; /* null: the artifact's target */
  /* Folders of device libraries, by colon, searched before all others; null:
   * KERF_PLUGIN_PATH, <exe>/../lib/kerf, <exe>/../lib, beside this library. */
  const char *plugin_path;
  /* Name that the ranks of one job share and no other job on the machine has;
   * null: KERF_SESSION, else MASTER_PORT of the environment. */
  const char *session_name;
  double connect_timeout_sec; /* wait for the other ranks; 0: 60 */
  bool check_nans; /* look at everything that a command wrote; slow */
  bool profile;    /* measure the time of every command */
} kerf_session_options;

KERF_API void kerf_session_options_init(kerf_session_options *options);

/* Opens the device, checks the machine against the artifact, meets the other
 * ranks, allocates the arena (exactly meta.arena_bytes, zero) and prepares all
 * commands. WORLD_SIZE, where set, must be the artifact's. `artifact` must
 * outlive the session. */
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

/* Gives parameters and masters their initial values for `seed`, the ones of
 * the reference interpreter to the bit, and sets optimizer state to zero. The
 * values do not depend on the layout. */
KERF_API kerf_status kerf_session_initialize(kerf_session *session,
                                             int64_t seed, kerf_error *error);

/* Sets an input for the next steps. `data` is this rank's part, of
 * kerf_local_bytes(&input.layout) bytes. */
KERF_API kerf_status kerf_session_set_input(kerf_session *session,
                                            uint32_t input, const void *data,
                                            uint64_t bytes, kerf_error *error);
/* As above from the global tensor, of which this rank's part is taken. */
KERF_API kerf_status kerf_session_set_input_global(kerf_session *session,
                                                   uint32_t input,
                                                   const void *data,
                                                   uint64_t bytes,
                                                   kerf_error *error);
/* Sets every scalar input of a role (kerf_role: seed, step, learning rate),
 * converted to its type; no input of the role is no error. */
KERF_API kerf_status kerf_session_set_scalar(kerf_session *session,
                                             uint32_t role, double value,
                                             kerf_error *error);

/* Runs the calls of one training step, or of one evaluation. After a failure
 * the arena is undefined; other ranks are told and fail with KERF_PEER_LOST. */
KERF_API kerf_status kerf_session_run_step(kerf_session *session,
                                           kerf_error *error);
KERF_API kerf_status kerf_session_run_evaluation(kerf_session *session,
                                                 kerf_error *error);

/* The value of an output after a run, as a double. */
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
  uint32_t param;    /* index of the parameter table */
  uint32_t state;    /* 0 .. state_count - 1 of the parameter, else 0 */
  int64_t iteration; /* start .. end - 1 of the parameter */
} kerf_tensor;

/* The layout of `tensor`, with its own dtype. */
KERF_API kerf_status kerf_tensor_layout(const kerf_artifact *artifact,
                                        const kerf_tensor *tensor,
                                        kerf_layout *layout, kerf_error *error);

/* Copies this rank's shard, row-major, kerf_local_bytes(layout) bytes. */
KERF_API kerf_status kerf_session_read(kerf_session *session,
                                       const kerf_tensor *tensor, void *data,
                                       uint64_t bytes, kerf_error *error);
KERF_API kerf_status kerf_session_write(kerf_session *session,
                                        const kerf_tensor *tensor,
                                        const void *data, uint64_t bytes,
                                        kerf_error *error);
/* Copies the global tensor, kerf_global_bytes(layout) bytes. Writing is local;
 * reading is collective: all ranks call it in the same order, and `data` may
 * be null on those that do not want the result. */
KERF_API kerf_status kerf_session_read_global(kerf_session *session,
                                              const kerf_tensor *tensor,
                                              void *data, uint64_t bytes,
                                              kerf_error *error);
KERF_API kerf_status kerf_session_write_global(kerf_session *session,
                                               const kerf_tensor *tensor,
                                               const void *data, uint64_t bytes,
                                               kerf_error *error);

/*===-- Job ---------------------------------------------------------------===*/

/* Collective: waits for all ranks. */
KERF_API kerf_status kerf_session_barrier(kerf_session *session,
                                          kerf_error *error);
/* Collective: the maximum of `value` over all ranks, e.g. "was told to stop".
 */
KERF_API kerf_status kerf_session_agree_max(kerf_session *session,
                                            int32_t *value, kerf_error *error);
/* Makes all other ranks fail with `message` in their next wait. */
KERF_API void kerf_session_abort(kerf_session *session, const char *message);
/* Removes what a killed job named `session_name` left in shared memory; for
 * launchers. Null: the name that the environment gives, as in the options. */
KERF_API void kerf_session_cleanup(const char *session_name);

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

#ifdef __cplusplus
}
#endif

#endif /* KERF_RUNTIME_RUNTIME_H */
