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
|* cut to fit) into `error`, which may be null when `error_bytes` is 0.
|*
|* A device is used by one thread at a time. It has no hidden threads but its
|* pool, which lives from `create` to `destroy`.
|*
\*===----------------------------------------------------------------------===*/

#ifndef KERF_RUNTIME_DEVICE_H
#define KERF_RUNTIME_DEVICE_H

#include "kerf/Artifact/Format.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KERF_DEVICE_ABI 1u
#define KERF_DEVICE_ENTRY "kerf_device_entry"

typedef enum {
  KERF_DEVICE_OK,
  KERF_DEVICE_INVALID,     /* an argument or attribute makes no sense */
  KERF_DEVICE_UNSUPPORTED, /* meaningful, but not on this device */
  KERF_DEVICE_NO_MEMORY,
  KERF_DEVICE_FAILED /* the system or a library said no */
} kerf_device_status;

typedef struct kerf_device kerf_device; /* a pool of workers */
typedef struct kerf_image kerf_image;   /* a loaded set of kernels */
typedef struct kerf_step kerf_step;     /* a prepared command */

typedef struct {
  /* Threads that compute, the calling one included; 0: as many as the process
   * may use at most (its CPU affinity), never more than `max_workers`. */
  int32_t workers;
  /* Workers that workspaces were planned for (kerf_meta.max_workers); more are
   * refused. 0: unlimited. */
  int32_t max_workers;
} kerf_device_options;

/* A command with everything that its step needs. Pointers are read during
 * `prepare` only. */
typedef struct {
  const kerf_command *command;
  const kerf_operand *operands; /* command->operand_count */
  const int64_t *attrs;         /* command->attr_count */
  const char *name;             /* for messages */
  kerf_kernel_fn function;      /* of KERF_OP_LAUNCH, else null */
  int64_t units, grain;         /* of KERF_OP_LAUNCH */
  /* Arguments the kernel expects; must equal the operands. */
  uint32_t argument_count;
} kerf_step_info;

typedef struct {
  uint32_t abi_version;  /* KERF_DEVICE_ABI */
  uint32_t struct_bytes; /* sizeof(kerf_device_api) */
  const char *name;      /* "cpu" */

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
  /* Between host and device memory; done on return. */
  void (*copy_in)(kerf_device *device, void *memory, const void *host,
                  uint64_t bytes);
  void (*copy_out)(kerf_device *device, void *host, const void *memory,
                   uint64_t bytes);

  /* Loads an ELF shared object from memory (it is copied). It is code: only
   * that of an artifact the user trusts may be loaded. */
  kerf_device_status (*load_image)(kerf_device *device, const void *bytes,
                                   uint64_t size, kerf_image **image,
                                   char *error, size_t error_bytes);
  /* The kernel `symbol`, or null. */
  kerf_kernel_fn (*find_kernel)(kerf_image *image, const char *symbol);
  /* Null is fine. */
  void (*unload_image)(kerf_image *image);

  /* Checks a command (nothing in it is trusted: dtypes, sizes, strides and
   * bytes of every operand) and makes its step. Knows KERF_OP_LAUNCH .. ZERO;
   * loops and collectives are the runtime's and KERF_DEVICE_UNSUPPORTED. */
  kerf_device_status (*prepare)(kerf_device *device, const kerf_step_info *info,
                                kerf_step **step, char *error,
                                size_t error_bytes);
  /* Runs a step on one pointer per operand (null for KERF_ABSENT); done on
   * return. The same bits for any number of workers. Fails only on what is
   * known at run time alone (sizes of experts beyond their rows). */
  kerf_device_status (*execute)(kerf_step *step, void *const *pointers,
                                char *error, size_t error_bytes);
  /* Null is fine. */
  void (*destroy_step)(kerf_step *step);
} kerf_device_api;

/* The only symbol that a device library exports. */
typedef const kerf_device_api *(*kerf_device_entry_fn)(void);
const kerf_device_api *kerf_device_entry(void);

#ifdef __cplusplus
}
#endif

#endif /* KERF_RUNTIME_DEVICE_H */
