//===- Mpi.cpp - the wire of MPI ------------------------------------------===//
//
// A lane is a communicator. The library's own collectives are not used: they
// wait without noticing that a rank stopped, and promise no order of sums.
//
//===----------------------------------------------------------------------===//

#include "kerf/Runtime/Wire.h"

#include <mpi.h>

#include <atomic>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include <dlfcn.h>

struct kerf_wire {
  MPI_Comm lanes[KERF_LANE_COUNT];
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Win window = MPI_WIN_NULL;
  std::vector<void *> shared; ///< by rank
};

struct kerf_transfer {
  MPI_Request request;
  bool isReceive;
};

namespace {
/// What is left to do when the process ends.
struct Ending {
  bool inOrder = true, follows = false;
};
Ending ending;
} // namespace

/// Of messages. What MPI promises is less, what there is has more.
static constexpr uint32_t kMaxTag = (1u << 27) - 1;

static kerf_wire_status fail(char *error, size_t bytes, kerf_wire_status status,
                             const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error, bytes, format, arguments);
  va_end(arguments);
  return status;
}

static kerf_wire_status failMpi(char *error, size_t bytes, const char *what,
                                int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return fail(error, bytes, KERF_WIRE_FAILED, "%s: %s", what, text);
}

//===----------------------------------------------------------------------===//
// Start and end
//===----------------------------------------------------------------------===//

static const char *describe() {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  text[strcspn(text, ",\n")] = 0;
  return text;
}

/// When the process ends: in common, so that mpirun finds nothing wrong.
static void end() {
  if (ending.inOrder)
    MPI_Finalize();
  if (!ending.follows)
    return;
  // mpirun reports the status of the process that ends first.
  timespec time = {0, 300'000'000};
  nanosleep(&time, nullptr);
}

static kerf_wire_status start(char *error, size_t bytes) {
  int isStarted = 0;
  MPI_Initialized(&isStarted);
  if (isStarted)
    return KERF_WIRE_OK;
  // MPI loads parts of itself that look for it among the global symbols.
  Dl_info info;
  if (dladdr(reinterpret_cast<void *>(&MPI_Init), &info) && info.dli_fname)
    dlopen(info.dli_fname, RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD);
  int provided = 0;
  if (int code =
          MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided))
    return failMpi(error, bytes, "MPI does not start", code);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::atexit(end);
  return KERF_WIRE_OK;
}

/// Memory that the ranks of this machine share.
static int share(kerf_wire &wire, uint32_t size, uint64_t bytes) {
  wire.shared.assign(size, nullptr);
  int code = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
                                 MPI_INFO_NULL, &wire.machine);
  if (code)
    return code;
  void *own = nullptr;
  code = MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, wire.machine, &own,
                                 &wire.window);
  if (code)
    return code;
  std::memset(own, 0, bytes);
  MPI_Group all, here;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Comm_group(wire.machine, &here);
  for (uint32_t r = 0; r < size; ++r) {
    int rank = r, local = MPI_UNDEFINED;
    MPI_Group_translate_ranks(all, 1, &rank, here, &local);
    MPI_Aint length;
    int unit;
    if (local != MPI_UNDEFINED)
      MPI_Win_shared_query(wire.window, local, &length, &unit, &wire.shared[r]);
  }
  MPI_Group_free(&all);
  MPI_Group_free(&here);
  return MPI_Barrier(wire.machine);
}

static void disconnect(kerf_wire *wire, bool inOrder, bool follows) {
  ending.inOrder &= inOrder;
  ending.follows |= follows;
  if (inOrder) {
    if (wire->window != MPI_WIN_NULL)
      MPI_Win_free(&wire->window);
    if (wire->machine != MPI_COMM_NULL)
      MPI_Comm_free(&wire->machine);
    for (MPI_Comm &lane : wire->lanes)
      MPI_Comm_free(&lane);
  }
  delete wire;
}

static kerf_wire_status connect(uint32_t rank, uint32_t size,
                                uint64_t sharedBytes, kerf_wire **made,
                                char *error, size_t bytes) {
  if (!std::getenv("OMPI_COMM_WORLD_SIZE") && !std::getenv("PMI_SIZE") &&
      !std::getenv("PMIX_RANK"))
    return fail(error, bytes, KERF_WIRE_INVALID,
                "this process was not started by mpirun");
  if (kerf_wire_status status = start(error, bytes))
    return status;
  int ownRank = 0, ownSize = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &ownRank);
  MPI_Comm_size(MPI_COMM_WORLD, &ownSize);
  if (uint32_t(ownRank) != rank || uint32_t(ownSize) != size)
    return fail(error, bytes, KERF_WIRE_INVALID,
                "rank %u of %u is rank %d of %d for MPI", rank, size, ownRank,
                ownSize);
  int *maxTag = nullptr, isKnown = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &maxTag, &isKnown);
  if (!isKnown || uint32_t(*maxTag) < kMaxTag)
    return fail(error, bytes, KERF_WIRE_INVALID, "this MPI has too few tags");
  auto *wire = new kerf_wire;
  for (MPI_Comm &lane : wire->lanes)
    if (int code = MPI_Comm_dup(MPI_COMM_WORLD, &lane))
      return failMpi(error, bytes, "MPI has no communicator", code);
  if (int code = share(*wire, size, sharedBytes))
    return failMpi(error, bytes, "MPI has no shared memory", code);
  *made = wire;
  return KERF_WIRE_OK;
}

static void *sharedOf(kerf_wire *wire, uint32_t rank) {
  return wire->shared[rank];
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

static kerf_wire_status send(kerf_wire *wire, kerf_lane lane, uint32_t to,
                             uint32_t tag, const void *data, uint64_t bytes,
                             kerf_transfer **transfer, char *error,
                             size_t errorBytes) {
  MPI_Request request;
  if (int code = MPI_Isend(data, int(bytes), MPI_BYTE, int(to), int(tag),
                           wire->lanes[lane], &request))
    return failMpi(error, errorBytes, "MPI does not send", code);
  *transfer = new kerf_transfer{request, false};
  return KERF_WIRE_OK;
}

static kerf_wire_status receive(kerf_wire *wire, kerf_lane lane, uint32_t from,
                                uint32_t tag, void *data, uint64_t bytes,
                                kerf_transfer **transfer, char *error,
                                size_t errorBytes) {
  MPI_Request request;
  if (int code =
          MPI_Irecv(data, int(bytes), MPI_BYTE,
                    lane == KERF_LANE_CONTROL ? MPI_ANY_SOURCE : int(from),
                    lane == KERF_LANE_TAG ? int(tag) : MPI_ANY_TAG,
                    wire->lanes[lane], &request))
    return failMpi(error, errorBytes, "MPI does not receive", code);
  *transfer = new kerf_transfer{request, true};
  return KERF_WIRE_OK;
}

static kerf_wire_status test(kerf_wire *, kerf_transfer *transfer, bool *done,
                             kerf_message *message, char *error,
                             size_t errorBytes) {
  int isDone = 0;
  MPI_Status status;
  int code = MPI_Test(&transfer->request, &isDone, &status);
  int kind = MPI_SUCCESS;
  if (code)
    MPI_Error_class(code, &kind);
  if (code && kind != MPI_ERR_TRUNCATE) {
    delete transfer;
    return failMpi(error, errorBytes, "MPI lost a message", code);
  }
  *done = isDone || code;
  if (!*done)
    return KERF_WIRE_OK;
  if (transfer->isReceive) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    *message = {uint32_t(status.MPI_SOURCE), uint32_t(status.MPI_TAG),
                code ? UINT64_MAX : uint64_t(bytes)};
  }
  delete transfer;
  return KERF_WIRE_OK;
}

static void cancel(kerf_wire *, kerf_transfer *transfer) {
  // Cancelling a send is not local, and nobody needs its memory unchanged.
  if (transfer->isReceive)
    MPI_Cancel(&transfer->request);
  int isDone = 0;
  MPI_Test(&transfer->request, &isDone, MPI_STATUS_IGNORE);
  if (!isDone)
    MPI_Request_free(&transfer->request);
  delete transfer;
}

extern "C" __attribute__((visibility("default"))) const kerf_wire_api *
kerf_wire_entry() {
  static const kerf_wire_api api = {KERF_WIRE_ABI, sizeof(kerf_wire_api),
                                    "mpi",         uint64_t(1) << 30,
                                    kMaxTag,       describe,
                                    connect,       disconnect,
                                    sharedOf,      send,
                                    receive,       test,
                                    cancel};
  return &api;
}
