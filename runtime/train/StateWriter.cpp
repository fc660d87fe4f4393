//===- StateWriter.cpp - saves a state beside training --------------------===//

#include "kerf/Train/StateWriter.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Train/Checksum.h"
#include "kerf/Train/Files.h"
#include "kerf/Train/Numbers.h"
#include "kerf/Train/Safetensors.h"
#include "kerf/Train/State.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <system_error>

#include <sys/resource.h>
#include <unistd.h>

using namespace kerf::runtime;

/// Bytes that are gathered and written at a time, and those that are checked at
/// a time, which fit a cache; or a band of tiles.
static constexpr uint64_t chunkBytes = 8 << 20, checkedBytes = 256 << 10;

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// What the thread of a rank works on. It reads all but the last part, which is
/// its result once `isDone`.
struct StateWriter::Job {
  kerf_session *session = nullptr; ///< for its snapshot alone
  RunState state;
  std::string path;       ///< of this rank's file
  bool isInFolder = true; ///< of the checkpoints
  int64_t every = 0;      ///< steps until the next one
  double bytesPerSecond = 0;
  double cores = 0; ///< that it takes at most while training goes on; 0: any
  const std::vector<StateTensor> *tensors = nullptr;
  const std::vector<Share> *shares = nullptr;
  const char *copy = nullptr; ///< the shares, one after the other
  double begunAt = 0;         ///< by `now`
  double beginSec = 0;        ///< that training stood still for
  int64_t polls = 0;          ///< one after each step
  std::atomic<bool> isStopped{false};
  std::atomic<bool> isUrgent{false}; ///< training waits for it
  std::atomic<bool> isLate{false};   ///< half the time to the next save is gone

  std::vector<uint64_t> sums;      ///< of all tiles
  std::vector<uint64_t> checksums; ///< of the pieces
  uint64_t dataStart = 0, fileBytes = 0, sumsStart = 0;
  double copySec = 0, writeSec = 0;
  kerf_status status = KERF_OK; ///< why the copy failed
  std::string error;
  std::atomic<bool> isDone{false};

  void run();

private:
  bool finishCopy();
  bool write();
  Tiling tilingOf(const Piece &piece) const;
  bool writePiece(const Piece &piece, const char *share);
  bool checkPart(const Piece &piece, const char *data, uint64_t bytes);
  bool checkRows(const Piece &piece, const Tiling &tiling, const char *data,
                 uint64_t rows);
  void pace();
  const char *gather(const Piece &piece, const char *share, uint64_t first,
                     uint64_t bytes);

  SafetensorsWriter file;
  std::vector<char> chunk;
  uint64_t written = 0;
  double start = 0;
};

static uint64_t bytesOf(const std::vector<StateTensor> &tensors,
                        const Share &share) {
  return (share.end - share.begin) *
         kerf_dtype_bytes(tensors[share.tensor].tensor.dtype);
}

/// Seconds that this thread computed.
static double threadSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

/// A writing thread takes little of a processor that training wants, too.
static void giveWay() {
  constexpr int niceness = 10;
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
}

void StateWriter::Job::run() {
  try {
    if (finishCopy())
      (void)write();
  } catch (const std::bad_alloc &) {
    error = "out of memory";
  }
  writeSec = now() - start;
  isDone = true;
}

/// Copies beside training what a step has not had to copy itself.
bool StateWriter::Job::finishCopy() {
  kerf_error failure{};
  status = kerf_session_finish_snapshot(session, &failure);
  if (status != KERF_OK)
    error = failure.message;
  start = now();
  copySec = start - begunAt;
  return error.empty();
}

bool StateWriter::Job::write() {
  uint64_t tiles = 0;
  for (const Share &share : *shares)
    for (const Piece &piece : share.pieces) {
      const StateTensor &tensor = (*tensors)[piece.tensor];
      file.declare(pieceName(tensor, piece.box), tensor.tensor.dtype,
                   boxShape(tensor, piece.box));
      tiles += tilingOf(piece).tiles();
    }
  sumsStart = file.dataBytes();
  file.declare(sumsName, "U64", sizeof(uint64_t),
               {static_cast<int64_t>(tiles)});
  sums.clear();
  checksums.clear();
  if (!file.open(path, error))
    return false;
  dataStart = file.dataStart();
  fileBytes = dataStart + file.dataBytes();
  const char *share = copy;
  for (const Share &own : *shares) {
    for (const Piece &piece : own.pieces)
      if (!writePiece(piece, share))
        return false;
    share += bytesOf(*tensors, own);
  }
  return file.append(sums.data(), sums.size() * sizeof(uint64_t), error) &&
         file.finish(error) && file.publish(error);
}

Tiling StateWriter::Job::tilingOf(const Piece &piece) const {
  const StateTensor &tensor = (*tensors)[piece.tensor];
  return {boxShape(tensor, piece.box),
          static_cast<uint64_t>(kerf_dtype_bytes(tensor.tensor.dtype))};
}

/// What is not finite is not saved.
bool StateWriter::Job::checkPart(const Piece &piece, const char *data,
                                 uint64_t bytes) {
  const StateTensor &tensor = (*tensors)[piece.tensor];
  auto width = static_cast<uint64_t>(kerf_dtype_bytes(tensor.tensor.dtype));
  int64_t bad = findNonFinite(tensor.tensor.dtype, data,
                              static_cast<int64_t>(bytes / width));
  if (bad < 0)
    return true;
  std::vector<char> element(data + bad * width, data + (bad + 1) * width);
  return checkFinite(pieceName(tensor, piece.box), tensor.tensor.dtype, element,
                     error);
}

/// Looks at whole rows and sums up their tiles, some bands at a time.
bool StateWriter::Job::checkRows(const Piece &piece, const Tiling &tiling,
                                 const char *data, uint64_t rows) {
  uint64_t step = tiling.height;
  step *= std::max(checkedBytes / (step * tiling.rowBytes), UINT64_C(1));
  for (uint64_t row = 0; row < rows; row += step) {
    uint64_t end = std::min(row + step, rows);
    if (!checkPart(piece, data + row * tiling.rowBytes,
                   (end - row) * tiling.rowBytes))
      return false;
    for (uint64_t r = row; r < end; r += tiling.height)
      for (uint64_t c = 0; c < tiling.columns(); ++c)
        sums.push_back(tiling.sum(data + r * tiling.rowBytes + c * tiling.width,
                                  std::min(tiling.height, end - r),
                                  tiling.rowBytes, c));
  }
  return true;
}

/// Some bands at a time; a piece that does not lie together is gathered.
bool StateWriter::Job::writePiece(const Piece &piece, const char *share) {
  Tiling tiling = tilingOf(piece);
  size_t firstSum = sums.size();
  uint64_t bandBytes = tiling.height * tiling.rowBytes;
  uint64_t step = std::max(chunkBytes / bandBytes, UINT64_C(1)) * tiling.height;
  for (uint64_t row = 0; row < tiling.rows; row += step) {
    uint64_t rows = std::min(step, tiling.rows - row);
    uint64_t bytes = rows * tiling.rowBytes;
    const char *data = gather(piece, share, row * tiling.rowBytes, bytes);
    if (!checkRows(piece, tiling, data, rows))
      return false;
    if (isStopped) {
      error = "the run ended";
      return false;
    }
    if (!file.append(data, bytes, error))
      return false;
    written += bytes;
    pace();
  }
  checksums.push_back(checksumOf(sums.data() + firstSum,
                                 (sums.size() - firstSum) * sizeof(uint64_t)));
  return true;
}

/// Bytes [first, first + bytes) of a piece, row-major.
const char *StateWriter::Job::gather(const Piece &piece, const char *share,
                                     uint64_t first, uint64_t bytes) {
  const StateTensor &tensor = (*tensors)[piece.tensor];
  auto width = static_cast<int64_t>(kerf_dtype_bytes(tensor.tensor.dtype));
  std::vector<int64_t> shape = boxShape(tensor, piece.box);
  const char *from = share + piece.box.first * width;
  // Dimensions that lie together, from the last one on.
  int64_t run = 1;
  size_t outer = shape.size();
  while (outer > 0 &&
         (piece.box.stride[outer - 1] == run || shape[outer - 1] == 1))
    run *= shape[--outer];
  if (outer == 0)
    return from + first;
  chunk.resize(bytes);
  int64_t at = static_cast<int64_t>(first) / width, left = bytes / width;
  for (char *to = chunk.data(); left > 0;) {
    int64_t count = std::min(run - at % run, left), place = at % run;
    int64_t index = at / run;
    for (size_t d = outer; d-- > 0; index /= shape[d])
      place += index % shape[d] * piece.box.stride[d];
    std::memcpy(to, from + place * width, count * width);
    to += count * width;
    at += count;
    left -= count;
  }
  return chunk.data();
}

/// Sleeps where writing is ahead of what it may take. What is small is written
/// at once.
void StateWriter::Job::pace() {
  constexpr double freeSec = 0.02; ///< of a processor
  double due = start;
  if (bytesPerSecond > 0)
    due += static_cast<double>(written) / bytesPerSecond;
  if (cores > 0 && !isLate)
    due = std::max(due, begunAt + (threadSeconds() - freeSec) / cores);
  for (double ahead; (ahead = due - now()) > 0 && !isStopped && !isUrgent;)
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::min(ahead, 0.05)));
}

//===----------------------------------------------------------------------===//
// Start
//===----------------------------------------------------------------------===//

StateWriter::StateWriter(kerf_session *session, const kerf_artifact *artifact,
                         SaveOptions options)
    : session(session), artifact(artifact), options(std::move(options)),
      rank(kerf_session_rank(session)),
      ranks(kerf_artifact_meta(artifact)->world_size),
      tensors(listState(artifact)), shares(sharesOf(artifact, tensors, rank)) {}

void StateWriter::settle() {
  if (aside.joinable())
    aside.join();
}

StateWriter::~StateWriter() {
  isEnding = true;
  if (job) {
    job->isStopped = true;
    kerf_session_drop_snapshot(session);
  }
  for (std::thread *own : {&thread, &aside})
    if (own->joinable())
      own->join();
  if (rank == 0 && isPartial)
    abandonStep(options.folder, job->state.step);
}

bool StateWriter::check(kerf_status code, std::string &error) {
  if (code != KERF_OK)
    error = failure.message;
  return code == KERF_OK;
}

/// Folders of other machines may be seen a moment later.
static bool seesFolder(const std::string &path) {
  constexpr double mostSec = 10;
  for (double end = now() + mostSec; !isFolder(path);) {
    if (now() > end)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// A rank on a machine that does not share the folder.
static std::string notShared(uint32_t rank, const std::string &folder) {
  return "rank " + std::to_string(rank) + " does not see " + quote(folder) +
         ": --save-state needs a folder that all machines share";
}

bool StateWriter::open(std::string &error) {
  if (rank == 0 && (!lock.take(options.folder, error) ||
                    !tryFile(joinPath(options.folder, manifestName), error)))
    return false;
  if (rank == 0)
    tidyFolder(options.folder);
  if (ranks > 1 && !check(kerf_session_barrier(session, &failure), error))
    return false;
  if (rank > 0 && !seesFolder(options.folder)) {
    error = notShared(rank, options.folder);
    return false;
  }
  return reserve(error);
}

/// Memory that is touched first takes the system longer than the copy does.
bool StateWriter::reserve(std::string &error) {
  for (const Share &share : shares)
    copyBytes += bytesOf(tensors, share);
  if (!check(kerf_session_snapshot_memory(session,
                                          std::max<uint64_t>(copyBytes, 1),
                                          options.every > 0, &memory, &failure),
             error))
    return false;
  auto touch = [this] { std::memset(memory, 0, copyBytes); };
  return options.every <= 0 || startThread(aside, touch, error);
}

/// Signals are the main thread's. What finds no memory is left undone.
bool StateWriter::startThread(std::thread &made, std::function<void()> body,
                              std::string &error) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    made = std::thread([own = std::move(body)] {
      giveWay();
      try {
        own();
      } catch (const std::bad_alloc &) {
        return;
      }
    });
  } catch (const std::system_error &problem) {
    error = std::string("cannot start a thread: ") + problem.what();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return made.joinable();
}

/// While this thread computes one that trains does not, and all wait for that
/// one: steps take a tenth to a sixth longer. On a device others train.
double StateWriter::coresToTake() const {
  const kerf_meta *meta = kerf_artifact_meta(artifact);
  bool isOnHost =
      std::string_view("cpu") == kerf_artifact_string(artifact, meta->target);
  return isOnHost ? 0.08 / ranks : 0;
}

bool StateWriter::copy(const RunState &state, const std::string &place,
                       std::string &error) {
  auto fresh = std::make_unique<Job>();
  std::vector<kerf_part> parts;
  for (const Share &share : shares)
    parts.push_back({tensors[share.tensor].tensor.id, share.begin, share.end});
  fresh->begunAt = now();
  if (!check(kerf_session_begin_snapshot(session, parts.data(),
                                         static_cast<uint32_t>(parts.size()),
                                         memory, &failure),
             error))
    return false;
  fresh->session = session;
  fresh->state = state;
  fresh->isInFolder = place.empty();
  fresh->path = fresh->isInFolder
                    ? joinPath(partialFolder(options.folder, state.step),
                               rankFileName(rank))
                    : place;
  fresh->bytesPerSecond = fresh->isInFolder ? options.bytesPerSecond : 0;
  fresh->cores = coresToTake();
  fresh->tensors = &tensors;
  fresh->shares = &shares;
  fresh->copy = static_cast<const char *>(memory);
  job = std::move(fresh);
  return true;
}

bool StateWriter::begin(const RunState &state, std::string &error,
                        const std::string &place, int64_t every) {
  double start = now();
  std::string partial = partialFolder(options.folder, state.step);
  settle();
  bool isInFolder = place.empty();
  if (rank == 0 && isInFolder && !beginStep(options.folder, state.step, error))
    return false;
  if (!copy(state, place, error))
    return false;
  job->every = every > 0 ? every : options.every;
  if (ranks > 1 && !check(kerf_session_barrier(session, &failure), error))
    return false;
  if (isInFolder && !seesFolder(partial)) {
    error = notShared(rank, partial);
    return false;
  }
  job->beginSec = now() - start;
  if (!startThread(thread, [own = job.get()] { own->run(); }, error))
    return false;
  busy = true;
  isPartial = isInFolder;
  return true;
}

//===----------------------------------------------------------------------===//
// End
//===----------------------------------------------------------------------===//

/// Of several ranks that failed, as on a full disk, the first one tells.
bool StateWriter::poll(bool &isWritten, std::string &error) {
  job->isLate = 2 * ++job->polls >= job->every;
  bool isDone = job->isDone;
  bool hasFailed = isDone && !job->error.empty();
  int32_t said = hasFailed ? 2 + static_cast<int32_t>(ranks - rank)
                 : isDone  ? 0
                           : 1;
  int32_t worst = said;
  if (ranks > 1 &&
      !check(kerf_session_agree_max(session, &worst, &failure), error))
    return false;
  isWritten = worst == 0;
  if (worst > 1 && hasFailed && worst == said) {
    error = job->error;
    failure.status = job->status;
  }
  return worst <= 1;
}

/// What each rank tells of its file, as numbers that a double holds.
static void pushHalves(uint64_t value, std::vector<double> &numbers) {
  numbers.push_back(static_cast<double>(value >> 32));
  numbers.push_back(static_cast<double>(value & UINT32_MAX));
}

namespace {
/// Reads them again.
class Halves {
public:
  explicit Halves(const double *next) : next(next) {}
  uint64_t take() {
    auto high = static_cast<uint64_t>(next[0]);
    auto low = static_cast<uint64_t>(next[1]);
    next += 2;
    return high << 32 | low;
  }
  double number() { return *next++; }

private:
  const double *next;
};
} // namespace

bool StateWriter::finish(bool hasWaited, SaveRecord &record,
                         std::string &error) {
  double start = now();
  job->isUrgent = hasWaited;
  if (hasWaited) // helps; what goes wrong the job tells
    (void)kerf_session_finish_snapshot(session, nullptr);
  // Ranks that wait look at each other now and then: a slow disk is no hang,
  // and what goes wrong elsewhere ends it.
  bool isWritten = false;
  for (auto pause = std::chrono::milliseconds(1);; pause *= 2) {
    if (!poll(isWritten, error))
      return false;
    if (isWritten)
      break;
    pause = std::min(pause, std::chrono::milliseconds(50));
    std::this_thread::sleep_for(pause);
  }
  thread.join();
  busy = false;
  double stoodStill = job->beginSec + kerf_session_snapshot_wait(session) +
                      (hasWaited ? now() - start : 0);
  std::vector<double> own = {job->copySec, job->writeSec, stoodStill};
  for (uint64_t value :
       {copyBytes, job->dataStart, job->fileBytes, job->sumsStart})
    pushHalves(value, own);
  for (uint64_t checksum : job->checksums)
    pushHalves(checksum, own);
  auto width = static_cast<int32_t>(own.size());
  if (ranks > 1 &&
      !check(kerf_session_agree_max(session, &width, &failure), error))
    return false;
  own.resize(width);
  std::vector<double> all(own.size() * ranks);
  if (ranks == 1)
    all = own;
  else if (!check(kerf_session_gather(session, own.data(), width, all.data(),
                                      &failure),
                  error))
    return false;
  record = {};
  record.step = job->state.step;
  bytesOfFiles.clear();
  for (uint32_t r = 0; r < ranks; ++r) {
    Halves read(&all[static_cast<size_t>(r) * width]);
    record.copySec = std::max(record.copySec, read.number());
    record.writeSec = std::max(record.writeSec, read.number());
    record.stallSec = std::max(record.stallSec, read.number());
    record.bytes += read.take();
    (void)read.take();
    bytesOfFiles.push_back(read.take());
  }
  if (rank != 0)
    return true;
  // The others wait for this rank in the next step.
  double written = now();
  indexText = renderIndex(indexOf(all, width));
  bool isDone = !job->isInFolder || publish(record, error);
  record.stallSec += now() - written;
  return isDone;
}

StateIndex StateWriter::indexOf(const std::vector<double> &all,
                                uint32_t width) const {
  StateIndex index;
  for (const StateTensor &tensor : tensors) {
    const char *dtype = safetensorsDtype(tensor.tensor.dtype);
    index.tensors[tensor.name] = {dtype ? dtype : "?", tensor.tensor.shape, {}};
  }
  for (uint32_t r = 0; r < ranks; ++r) {
    Halves read(&all[static_cast<size_t>(r) * width + 3]);
    (void)read.take();
    IndexedFile file;
    file.name = rankFileName(r);
    file.data = read.take();
    file.bytes = read.take();
    file.sums = read.take();
    index.files.push_back(file);
    uint64_t offset = 0, sums = 0;
    for (const Share &share : sharesOf(artifact, tensors, r))
      for (const Piece &piece : share.pieces) {
        const StateTensor &tensor = tensors[piece.tensor];
        size_t dims = tensor.tensor.shape.size();
        IndexedPiece &own = index.tensors[tensor.name].pieces.emplace_back();
        own.begin.assign(piece.box.begin, piece.box.begin + dims);
        own.end.assign(piece.box.end, piece.box.end + dims);
        own.file = r;
        own.offset = offset;
        own.bytes = piece.bytes;
        own.sums = sums;
        own.checksum = read.take();
        offset += own.bytes;
        sums += own.tiling(kerf_dtype_bytes(tensor.tensor.dtype)).tiles();
      }
  }
  return index;
}

std::string StateWriter::manifestWith(Metadata added) const {
  Metadata manifest = describeRun(job->state);
  manifest.merge(added);
  manifest["kerf_checkpoint"] = checkpointVersion;
  manifest["model"] =
      kerf_artifact_string(artifact, kerf_artifact_meta(artifact)->model);
  manifest[numberKey] = std::to_string(nextNumber(options.folder));
  manifest["index_bytes"] = std::to_string(indexText.size());
  Checksum sum;
  sum.add(indexText);
  manifest["index_checksum"] = sum.text();
  return renderManifest(manifest);
}

/// Index, then manifest, then the name.
bool StateWriter::publish(SaveRecord &record, std::string &error) {
  std::string partial = partialFolder(options.folder, job->state.step);
  if (!writeFile(joinPath(partial, indexName), indexText, error) ||
      !writeFile(joinPath(partial, manifestName), manifestWith({}), error) ||
      !publishStep(options.folder, job->state.step, record.path, error))
    return false;
  isPartial = false;
  // To remove gigabytes takes a while.
  auto prune = [this] {
    pruneSteps(options.folder, options.keep, options.keepEvery, isEnding);
  };
  std::string why;
  if (!startThread(aside, prune, why))
    prune();
  return true;
}
