//===- main.cpp - kerfc ---------------------------------------------------===//
//
// Compiles a model.
//
//===----------------------------------------------------------------------===//

#include "kerf/Pipeline/Mains.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

/// A search makes and frees many tables of some hundred KiB. Given back to the
/// system each time they cost a fifth of it, in page faults.
static void keepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

int main(int argc, char **argv) {
  keepFreedMemory();
  return kerf::compileMain(argc, argv);
}
