/*===- Device.h - what a device library offers the runtime ----------------===*\
|*
|* A device is a shared object that exports `kerf_device_entry`. The runtime
|* opens it with dlopen, checks `abi_version`, creates one device per rank, and
|* turns every command of the artifact into a step once (`prepare`), so that
|* the executor is a loop over `execute`. Plain C; nothing throws or aborts
|* through this border.
|*
|* Functions that can fail return kerf_device_status and, unless it is
|* KERF_DEVICE_OK, write a message (lower case, no full stop, NUL-terminated,
|* truncated to fit) into `error`, which may be null when `error_bytes` is 0.
|*
|* A device is used by one thread at a time, but for `await_copies`. It has no
|* hidden threads but its pool, which lives from `create` to `destroy`.
|*
\*===----------------------------------------------------------------------===*/

#ifndef KERF_RUNTIME_DEVICE_H
#define KERF_RUNTIME_DEVICE_H

#include "kerf/Artifact/Format.h"
#include "kerf/Runtime/Tuning.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KERF_DEVICE_ABI 5u
#define KERF_DEVICE_ENTRY "kerf_device_entry"
#define KERF_DEVICE_STREAMS 4u
#define KERF_NOT_FIXED INT64_MIN /* of kerf_step_info.fixed */
/* Of the built-in kernels: elements of a unit, threads of a block. */
#define KERF_BUILTIN_ELEMENTS 4096
#define KERF_BUILTIN_THREADS 256u

typedef enum {
  KERF_DEVICE_OK,
  KERF_DEVICE_INVALID,     /* an argument or attribute makes no sense */
  KERF_DEVICE_UNSUPPORTED, /* meaningful, but not on this device */
  KERF_DEVICE_NO_MEMORY,
  KERF_DEVICE_FAILED /* the system or a library said no */
} kerf_device_status;

typedef struct kerf_device kerf_device;     /* a pool of workers */
typedef struct kerf_image kerf_image;       /* a loaded set of kernels */
typedef struct kerf_function kerf_function; /* a kernel of an image */
typedef struct kerf_step kerf_step;         /* a prepared command */
typedef struct kerf_graph kerf_graph;       /* steps that were recorded */

enum kerf_device_flags {
  /* The host reads and writes device memory itself, and a step is done when
   * `execute` returns. Without it, steps are enqueued: see `synchronize`. */
  KERF_DEVICE_HOST_MEMORY = 1,
  KERF_DEVICE_GRAPHS = 2, /* can record steps: `begin_graph` */
};

typedef struct {
  /* Threads that compute, the calling one included; 0: as many as the process
   * may use at most (its CPU affinity), never more than `max_workers`. */
  int32_t workers;
  /* Workers that workspaces were planned for (kerf_meta.max_workers); more are
   * refused. 0: unlimited. */
  int32_t max_workers;
  /* Number of this rank among those of the machine: takes the device of that
   * number, modulo how many there are. */
  uint32_t local_rank;
  /* Algorithms to take; null: the library's first ones. Those of another device
   * or library are refused. Read during `create` only. */
  const kerf_tuning *tuning;
  /* 1: steps are prepared for `tune`. */
  uint32_t tunes;
} kerf_device_options;

/* Kernels of a device's own for measurements, for KERF_OP_LAUNCH with
 * KERF_BUILTIN_THREADS threads. */
enum kerf_builtin {
  KERF_BUILTIN_NOTHING, /* one argument, which it leaves alone */
  KERF_BUILTIN_SUM,     /* x, y and their sum, f32; a unit has
                         * KERF_BUILTIN_ELEMENTS of them */
};

/* A command with everything that its step needs. Pointers are read during
 * `prepare` only. */
typedef struct {
  const kerf_command *command;
  const kerf_operand *operands; /* command->operand_count */
  const int64_t *attrs;         /* command->attr_count */
  /* One per operand: the value of a KERF_SCALAR that is the same in all calls
   * on this rank, else KERF_NOT_FIXED. Null: none is known. */
  const int64_t *fixed;
  const char *name;        /* for messages */
  kerf_function *function; /* of KERF_OP_LAUNCH, else null */
  int64_t units, grain;    /* of KERF_OP_LAUNCH */
  uint32_t threads;        /* of KERF_OP_LAUNCH; per block, 0 on a CPU */
  /* Arguments the kernel expects; must equal the operands. */
  uint32_t argument_count;
} kerf_step_info;

typedef struct {
  uint32_t abi_version;  /* KERF_DEVICE_ABI */
  uint32_t struct_bytes; /* sizeof(kerf_device_api) */
  const char *name;      /* "cpu" */
  uint32_t flags;        /* kerf_device_flags */
  uint32_t reserved;

  /* Starts the workers. The device is the caller's, to `destroy`. */
  kerf_device_status (*create)(const kerf_device_options *options,
                               kerf_device **device, char *error,
                               size_t error_bytes);
  /* Joins the workers. Steps and images must be gone. Null is fine. */
  void (*destroy)(kerf_device *device);

  /* One line for people: processor, instruction sets in use, workers. Lives as
   * long as the device. */
  const char *(*describe)(const kerf_device *device);
  /* Number of workers. */
  int32_t (*workers)(const kerf_device *device);
  /* Writes those of the comma-separated `features` (LLVM's names, "avx512f",
   * a leading '+' allowed, and the levels "x86-64-v2".."x86-64-v4") that this
   * machine lacks to `missing`, by comma. Returns their number. Names that the
   * device does not know count as missing. Needs no device. */
  int32_t (*check_features)(const char *features, char *missing,
                            size_t missing_bytes);

  /* `bytes` > 0 of memory, aligned to KERF_ARENA_ALIGN at least, zero-filled,
   * huge pages advised. */
  kerf_device_status (*alloc)(kerf_device *device, uint64_t bytes,
                              void **memory, char *error, size_t error_bytes);
  /* `bytes` as in `alloc`. Null is fine. */
  void (*free)(kerf_device *device, void *memory, uint64_t bytes);
  /* Between host and device memory, after all steps so far; done on return. */
  void (*copy_in)(kerf_device *device, void *memory, const void *host,
                  uint64_t bytes);
  void (*copy_out)(kerf_device *device, void *host, const void *memory,
                   uint64_t bytes);

  /* Loads the code of all kernels from memory (it is copied): the image section
   * of a file (ELF shared object; a cubin, perhaps empty), and its PTX text
   * (`ptx_bytes` 0: none), of which a GPU takes what fits it. It is code: only
   * that of an artifact the user trusts may be loaded. */
  kerf_device_status (*load_image)(kerf_device *device, const void *bytes,
                                   uint64_t size, const char *ptx,
                                   uint64_t ptx_bytes, kerf_image **image,
                                   char *error, size_t error_bytes);
  /* The kernel `symbol`, or null. */
  kerf_function *(*find_kernel)(kerf_image *image, const char *symbol);
  /* Null is fine. */
  void (*unload_image)(kerf_image *image);

  /* Checks a command (nothing in it is trusted: dtypes, sizes, strides and
   * bytes of every operand) and makes its step. Knows KERF_OP_LAUNCH .. ZERO,
   * and without KERF_DEVICE_HOST_MEMORY KERF_OP_TAKE (whose third pointer is
   * the host's); loops and collectives are the runtime's and
   * KERF_DEVICE_UNSUPPORTED. */
  kerf_device_status (*prepare)(kerf_device *device, const kerf_step_info *info,
                                kerf_step **step, char *error,
                                size_t error_bytes);
  /* Runs a step on one pointer per operand (null for KERF_ABSENT), or enqueues
   * it. Pointers to scalars (KERF_SCALAR) are the host's with
   * KERF_DEVICE_HOST_MEMORY, else from `scalar`. The same bits for any number
   * of workers. Fails only on what is known at run time alone (sizes of experts
   * beyond their rows). */
  kerf_device_status (*execute)(kerf_step *step, void *const *pointers,
                                char *error, size_t error_bytes);
  /* Null is fine. */
  void (*destroy_step)(kerf_step *step);

  /*===-- Null with KERF_DEVICE_HOST_MEMORY -------------------------------===*/

  /* The address of an int32 in device memory that holds `value` as long as the
   * device lives; one per value. Not while a graph is recorded, unless it was
   * asked for before. */
  kerf_device_status (*scalar)(kerf_device *device, int32_t value,
                               const void **address, char *error,
                               size_t error_bytes);
  /* Waits for everything that was enqueued, and fails with what went wrong in
   * it. After a failure the device is good for `destroy` alone. */
  kerf_device_status (*synchronize)(kerf_device *device, char *error,
                                    size_t error_bytes);

  /* Streams: 0 is that of steps; 1 .. KERF_DEVICE_STREAMS - 1 are for
   * exchanges. The CUstream of a number. */
  void *(*stream)(kerf_device *device, uint32_t number);
  /* What is enqueued on stream `after` from now on waits for what is on stream
   * `before` so far. */
  kerf_device_status (*order)(kerf_device *device, uint32_t before,
                              uint32_t after, char *error, size_t error_bytes);

  /* With KERF_DEVICE_GRAPHS. What is enqueued between begin and end, on stream
   * 0 and on streams ordered after it and back, is recorded and not run. `end`
   * ends the recording also when it fails; `graph` may be null to drop it. */
  kerf_device_status (*begin_graph)(kerf_device *device, char *error,
                                    size_t error_bytes);
  kerf_device_status (*end_graph)(kerf_device *device, kerf_graph **graph,
                                  char *error, size_t error_bytes);
  /* Enqueues the recorded steps on stream 0. */
  kerf_device_status (*launch_graph)(kerf_device *device, kerf_graph *graph,
                                     char *error, size_t error_bytes);
  /* Null is fine. Before the steps, images and communicators in it. */
  void (*destroy_graph)(kerf_graph *graph);

  /* Device memory of the machine as the driver reports it. */
  kerf_device_status (*memory_info)(kerf_device *device, uint64_t *free_bytes,
                                    uint64_t *total_bytes, char *error,
                                    size_t error_bytes);

  /*===-- Null where the device does not offer it -------------------------===*/

  /* The first four together. Times of the device's own clock. Makes room for
   * `count` of them; drops those that were there. 0 gives the room back. */
  kerf_device_status (*reserve_times)(kerf_device *device, uint32_t count,
                                      char *error, size_t error_bytes);
  /* Waits as `synchronize` does and compares the device's clock with
   * CLOCK_MONOTONIC; before the times of a run. */
  kerf_device_status (*start_times)(kerf_device *device, char *error,
                                    size_t error_bytes);
  /* The moment at which stream `stream` gets here becomes time `index`. Not
   * while a graph is recorded. */
  kerf_device_status (*note_time)(kerf_device *device, uint32_t stream,
                                  uint32_t index, char *error,
                                  size_t error_bytes);
  /* Time `index`, noted since `start_times` and done (`synchronize`), in
   * seconds of CLOCK_MONOTONIC; differences are the device's. */
  kerf_device_status (*read_time)(kerf_device *device, uint32_t index,
                                  double *seconds, char *error,
                                  size_t error_bytes);

  /* These five together. Memory of the host that the device copies to by
   * itself; to be given back before the device is destroyed. */
  kerf_device_status (*alloc_host)(kerf_device *device, uint64_t bytes,
                                   void **memory, char *error,
                                   size_t error_bytes);
  void (*free_host)(kerf_device *device, void *memory);
  /* Enqueues a copy to such memory after all steps so far, and beside those
   * that follow. */
  kerf_device_status (*copy_beside)(kerf_device *device, void *host,
                                    const void *memory, uint64_t bytes,
                                    char *error, size_t error_bytes);
  /* Steps that are enqueued from now on run after these copies. Not while a
   * graph is recorded. */
  kerf_device_status (*join_copies)(kerf_device *device, char *error,
                                    size_t error_bytes);
  /* Waits for these copies. Another thread may call it at any time, with a
   * message of its own. */
  kerf_device_status (*await_copies)(kerf_device *device, char *error,
                                     size_t error_bytes);

  void (*facts)(const kerf_device *device, kerf_device_facts *facts);
  /* A kernel of `kerf_builtin`; lives as long as the device. */
  kerf_device_status (*builtin_kernel)(kerf_device *device, uint32_t builtin,
                                       kerf_function **function, char *error,
                                       size_t error_bytes);
  /* Of a step of a device that `tunes`: fills in `tuned->matmul`, and with
   * `pointers` times the library's algorithms on them, which overwrites
   * operands, for about `budget_sec`. The step takes the fastest from then on.
   */
  kerf_device_status (*tune)(kerf_step *step, void *const *pointers,
                             double budget_sec, kerf_tuned *tuned, char *error,
                             size_t error_bytes);
  /* What there is of devices and libraries, for people: lines "name\tvalue\n".
   * Needs no device and never fails. */
  void (*examine)(char *text, size_t text_bytes);
} kerf_device_api;

/* The only symbol that a device library exports. */
typedef const kerf_device_api *(*kerf_device_entry_fn)(void);
const kerf_device_api *kerf_device_entry(void);

#ifdef __cplusplus
}
#endif

#endif /* KERF_RUNTIME_DEVICE_H */
