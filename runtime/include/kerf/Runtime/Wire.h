/*===- Wire.h - what a transport library offers the runtime ---------------===*\
|*
|* A wire carries messages between the ranks of a job. It is a shared object,
|* `libkerf_wire_<name>.so`, that exports `kerf_wire_entry`; the runtime opens
|* it with dlopen and checks `abi_version`. Collectives, sums in a fixed order
|* and channels are made of messages by the runtime: a wire knows no more than
|* to start a transfer and to tell when it is done. Plain C; nothing throws or
|* ends the process through this border, and nothing waits but `connect`.
|*
|* Functions that return kerf_wire_status write a message (lower case, no full
|* stop, NUL-terminated, truncated to fit) into `error` unless they return
|* KERF_WIRE_OK. A wire is used by one thread.
|*
\*===----------------------------------------------------------------------===*/

#ifndef KERF_RUNTIME_WIRE_H
#define KERF_RUNTIME_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KERF_WIRE_ABI 1u
#define KERF_WIRE_ENTRY "kerf_wire_entry"

typedef enum {
  KERF_WIRE_OK,
  KERF_WIRE_INVALID, /* started in a way that cannot work */
  KERF_WIRE_FAILED,  /* the library said no */
  KERF_WIRE_LOST     /* a rank is gone; the message names it */
} kerf_wire_status;

typedef struct kerf_wire kerf_wire;         /* a rank's connection to all */
typedef struct kerf_transfer kerf_transfer; /* a message under way */

/* Messages of different lanes do not meet. */
typedef enum {
  KERF_LANE_ORDER,   /* from each rank in order, whatever the tag */
  KERF_LANE_TAG,     /* from each rank in order of those with one tag */
  KERF_LANE_CONTROL, /* from any rank, any tag */
  KERF_LANE_COUNT
} kerf_lane;

/* A message that arrived. */
typedef struct {
  uint32_t from, tag;
  uint64_t bytes; /* UINT64_MAX: more than there was room for; it is lost */
} kerf_message;

typedef struct {
  uint32_t abi_version;  /* KERF_WIRE_ABI */
  uint32_t struct_bytes; /* sizeof(kerf_wire_api) */
  const char *name;      /* "mpi" */
  uint64_t max_bytes;    /* of one message */
  uint32_t max_tag;

  /* One line for people: which library. Needs no wire. */
  const char *(*describe)(void);
  /* Meets all `size` ranks. Each gets `shared_bytes` of zero memory that other
   * ranks may see. One wire at a time. */
  kerf_wire_status (*connect)(uint32_t rank, uint32_t size,
                              uint64_t shared_bytes, kerf_wire **wire,
                              char *error, size_t error_bytes);
  /* `in_order`: all ranks do this now, so the library may end its work in
   * common. `follows`: this process ends because another one failed and should
   * be seen to end after that one. Transfers that are left are given up. */
  void (*disconnect)(kerf_wire *wire, bool in_order, bool follows);
  /* The shared memory of a rank, or null where it cannot be seen from here. */
  void *(*shared)(kerf_wire *wire, uint32_t rank);

  /* Starts a transfer; the data stay the caller's and untouched until it is
   * done. `receive` takes `from` in all lanes but KERF_LANE_CONTROL, and `tag`
   * in KERF_LANE_TAG only. */
  kerf_wire_status (*send)(kerf_wire *wire, kerf_lane lane, uint32_t to,
                           uint32_t tag, const void *data, uint64_t bytes,
                           kerf_transfer **transfer, char *error,
                           size_t error_bytes);
  kerf_wire_status (*receive)(kerf_wire *wire, kerf_lane lane, uint32_t from,
                              uint32_t tag, void *data, uint64_t bytes,
                              kerf_transfer **transfer, char *error,
                              size_t error_bytes);
  /* Is it done? Then the transfer is gone, and a message that was received is
   * told. Moves all transfers along. */
  kerf_wire_status (*test)(kerf_wire *wire, kerf_transfer *transfer, bool *done,
                           kerf_message *message, char *error,
                           size_t error_bytes);
  /* Gives a transfer up; where possible its memory is not written any more. */
  void (*cancel)(kerf_wire *wire, kerf_transfer *transfer);
} kerf_wire_api;

/* The only symbol that a transport library exports. */
typedef const kerf_wire_api *(*kerf_wire_entry_fn)(void);
const kerf_wire_api *kerf_wire_entry(void);

#ifdef __cplusplus
}
#endif

#endif /* KERF_RUNTIME_WIRE_H */
