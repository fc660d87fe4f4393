/*===- Tuning.h - algorithms that were measured ---------------------------===*\
|*
|* A library may have several algorithms for a command. A device that tunes
|* times them and tells the fastest one of each; given back when a device is
|* created, they are taken instead of what the library puts first. Plain C.
|*
\*===----------------------------------------------------------------------===*/

#ifndef KERF_RUNTIME_TUNING_H
#define KERF_RUNTIME_TUNING_H

#include <stdint.h>

#define KERF_TUNED_MATMUL_BYTES 640u
#define KERF_TUNED_CHOICE_BYTES 128u
#define KERF_TUNED_DATA_BYTES 64u

/* What a machine description and a file of tuned algorithms say of a device. */
typedef struct {
  char name[128];     /* "NVIDIA H100 80GB HBM3" */
  char arch[32];      /* "sm_90" */
  char tuned_on[256]; /* device and library whose algorithms are chosen */
  char driver[64];    /* "13.0" */
  uint32_t devices;   /* that ranks of this machine may take */
} kerf_device_facts;

/* The algorithm of one command, and what was measured of it. */
typedef struct {
  /* What is computed on operands of which sizes, strides and alignments; the
   * device's own words, NUL-terminated. Commands with the same words have the
   * same algorithms. Empty: the command has no choice. */
  char matmul[KERF_TUNED_MATMUL_BYTES];
  /* The algorithm for people, and, where `data` is not found among those that
   * the library offers, to find it: "algorithm 66, tile 20". */
  char choice[KERF_TUNED_CHOICE_BYTES];
  uint8_t data[KERF_TUNED_DATA_BYTES]; /* the library's own */
  int32_t index;                       /* in the library's order, from 0 */
  int32_t choices;                     /* that were timed */
  double seconds;                      /* median */
  double first_seconds; /* of the library's first; 0 where that does not run */
} kerf_tuned;

/* What a file of them says. */
typedef struct {
  const char *tuned_on; /* `kerf_device_facts.tuned_on` of the device */
  const kerf_tuned *entries;
  uint32_t count;
} kerf_tuning;

#endif /* KERF_RUNTIME_TUNING_H */
