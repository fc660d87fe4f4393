//===- StateReader.cpp - loads a checkpoint into any layout ---------------===//

#include "kerf/Train/StateReader.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Train/Checksum.h"
#include "kerf/Train/Files.h"
#include "kerf/Train/Log.h"
#include "kerf/Train/Pieces.h"
#include "kerf/Train/Safetensors.h"
#include "kerf/Train/StateFolder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::runtime;

/// Bytes that are read at a time, or a band of tiles.
static constexpr uint64_t windowBytes = 4 << 20;
/// Files that are open at a time.
static constexpr size_t mostOpen = 64;

namespace {
/// A row of a piece and where a part of it goes.
struct Row {
  uint64_t number;
  char *to;
};

/// Bytes [begin, end) of rows.
struct Columns {
  uint64_t begin, end;
};

/// What two boxes share.
struct Overlap {
  const IndexedPiece *piece;
  std::vector<int64_t> begin, end;
};

/// Reads files of a checkpoint.
class PieceFiles {
public:
  /// `whole` has the index, `folder` the files.
  PieceFiles(const std::string &whole, const std::string &folder,
             const StateIndex &index)
      : whole(whole), folder(folder), index(index) {}
  ~PieceFiles() {
    for (auto [number, descriptor] : descriptors)
      close(descriptor);
  }
  PieceFiles(const PieceFiles &) = delete;

  /// Reads what a rank stores of a tensor as one box.
  bool readBox(const std::string &name, const kerf_box &box, uint64_t width,
               char *to, std::string &error);
  uint64_t bytes() const { return readCount; }

private:
  bool openFile(uint32_t number, std::string &error);
  bool readBytes(uint32_t number, uint64_t offset, void *data, uint64_t bytes,
                 std::string &error);
  bool readSums(const IndexedPiece &piece, const Tiling &tiling,
                std::vector<uint64_t> &sums, std::string &error);
  bool readBands(const IndexedPiece &piece, const Tiling &tiling,
                 uint64_t firstRow, uint64_t rows, Columns columns,
                 const std::vector<uint64_t> &sums, std::vector<char> &data,
                 std::string &error);
  bool readRows(const IndexedPiece &piece, const Tiling &tiling,
                const std::vector<Row> &rows, Columns columns,
                std::string &error);
  bool readOverlap(const Overlap &overlap, const kerf_box &box, uint64_t width,
                   char *to, std::string &error);

  const std::string &whole, &folder;
  const StateIndex &index;
  std::map<uint32_t, int> descriptors; ///< of files that were opened
  uint64_t readCount = 0;
};
} // namespace

static bool isDamaged(const std::string &folder, const std::string &file,
                      const std::string &what, std::string &error) {
  error = quote(joinPath(folder, file)) + " is damaged: " + what;
  return false;
}

//===----------------------------------------------------------------------===//
// Manifest and index
//===----------------------------------------------------------------------===//

static bool readText(const std::string &path, MappedFile &file,
                     std::string_view &text, std::string &error) {
  if (!file.open(path, error))
    return false;
  text = {reinterpret_cast<const char *>(file.data()), file.size()};
  return true;
}

bool StateReader::open(const std::string &path, std::string &error) {
  folder = filesFolder = path;
  MappedFile manifestFile, indexFile;
  std::string_view text;
  std::string reason;
  if (!readText(joinPath(folder, manifestName), manifestFile, text, error))
    return false;
  if (!parseManifest(text, entries, reason))
    return isDamaged(folder, manifestName, reason, error);
  if (!readText(joinPath(folder, indexName), indexFile, text, error))
    return false;
  Checksum sum;
  sum.add(text);
  if (entries["index_bytes"] != std::to_string(text.size()) ||
      entries["index_checksum"] != sum.text())
    return isDamaged(folder, indexName,
                     "its checksum is not that of the manifest", error);
  return parseIndex(text, index, reason) ||
         isDamaged(folder, indexName, reason, error);
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

/// Opens a file when it is needed first; its size must be the index's.
bool PieceFiles::openFile(uint32_t number, std::string &error) {
  if (descriptors.count(number))
    return true;
  if (descriptors.size() >= mostOpen) {
    for (auto [other, descriptor] : descriptors)
      close(descriptor);
    descriptors.clear();
  }
  const IndexedFile &file = index.files[number];
  std::string path = joinPath(folder, file.name);
  int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) {
    error = "cannot open " + quote(path) + ": " + strerror(errno);
    if (errno == ENOENT)
      error += "; a checkpoint is read from a folder that all machines share";
    return false;
  }
  struct stat status{};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<uint64_t>(status.st_size) != file.bytes) {
    close(descriptor);
    return isDamaged(folder, file.name,
                     "it has " + std::to_string(status.st_size) +
                         " bytes, the index says " + std::to_string(file.bytes),
                     error);
  }
  descriptors[number] = descriptor;
  return true;
}

/// `offset` counts from the start of the file's data.
bool PieceFiles::readBytes(uint32_t number, uint64_t offset, void *data,
                           uint64_t bytes, std::string &error) {
  const IndexedFile &file = index.files[number];
  char *to = static_cast<char *>(data);
  uint64_t at = file.data + offset;
  readCount += bytes;
  while (bytes > 0) {
    ssize_t got = pread(descriptors[number], to, bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0) {
      error = "cannot read " + quote(joinPath(folder, file.name)) + ": " +
              (got < 0 ? strerror(errno) : "it ends too early");
      return false;
    }
    to += got;
    at += got;
    bytes -= got;
  }
  return true;
}

bool PieceFiles::readSums(const IndexedPiece &piece, const Tiling &tiling,
                          std::vector<uint64_t> &sums, std::string &error) {
  const IndexedFile &file = index.files[piece.file];
  sums.resize(tiling.tiles());
  uint64_t bytes = sums.size() * sizeof(uint64_t);
  if (!readBytes(piece.file, file.sums + piece.sums * sizeof(uint64_t),
                 sums.data(), bytes, error))
    return false;
  return checksumOf(sums.data(), bytes) == piece.checksum ||
         isDamaged(folder, file.name, "the checksums of its tiles do not agree",
                   error);
}

/// Reads whole tiles of some bands, and checks them. Rows lie in `data` one
/// behind the other.
bool PieceFiles::readBands(const IndexedPiece &piece, const Tiling &tiling,
                           uint64_t firstRow, uint64_t rows, Columns columns,
                           const std::vector<uint64_t> &sums,
                           std::vector<char> &data, std::string &error) {
  uint64_t width = columns.end - columns.begin;
  data.resize(rows * width);
  // Whole rows lie together.
  bool isWhole = width == tiling.rowBytes;
  for (uint64_t r = 0; r < rows; r += isWhole ? rows : 1)
    if (!readBytes(
            piece.file,
            piece.offset + (firstRow + r) * tiling.rowBytes + columns.begin,
            data.data() + r * width, isWhole ? data.size() : width, error))
      return false;
  for (uint64_t r = 0; r < rows; r += tiling.height)
    for (uint64_t at = columns.begin; at < columns.end; at += tiling.width) {
      uint64_t column = at / tiling.width;
      uint64_t number =
          (firstRow + r) / tiling.height * tiling.columns() + column;
      if (tiling.sum(data.data() + r * width + (at - columns.begin),
                     std::min(tiling.height, rows - r), width,
                     column) != sums[number])
        return isDamaged(folder, index.files[piece.file].name,
                         "the checksum of a tile does not agree", error);
    }
  return true;
}

/// Copies the bytes of some rows, of rising numbers.
bool PieceFiles::readRows(const IndexedPiece &piece, const Tiling &tiling,
                          const std::vector<Row> &rows, Columns columns,
                          std::string &error) {
  std::vector<uint64_t> sums;
  if (!openFile(piece.file, error) || !readSums(piece, tiling, sums, error))
    return false;
  Columns tiles = {
      columns.begin / tiling.width * tiling.width,
      std::min((columns.end + tiling.width - 1) / tiling.width * tiling.width,
               tiling.rowBytes)};
  uint64_t width = tiles.end - tiles.begin;
  uint64_t most = std::max(windowBytes / (tiling.height * width), UINT64_C(1));
  std::vector<char> data;
  for (size_t i = 0; i < rows.size();) {
    // Bands that follow each other, as far as rows of them are wanted.
    uint64_t first = rows[i].number / tiling.height, last = first;
    size_t end = i;
    for (; end < rows.size(); ++end) {
      uint64_t band = rows[end].number / tiling.height;
      if (band > last + 1 || band >= first + most)
        break;
      last = band;
    }
    uint64_t firstRow = first * tiling.height;
    uint64_t count =
        std::min((last + 1) * tiling.height, tiling.rows) - firstRow;
    if (!readBands(piece, tiling, firstRow, count, tiles, sums, data, error))
      return false;
    for (; i < end; ++i)
      std::memcpy(rows[i].to,
                  data.data() + (rows[i].number - firstRow) * width +
                      (columns.begin - tiles.begin),
                  columns.end - columns.begin);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Boxes
//===----------------------------------------------------------------------===//

/// False where two boxes share nothing.
static bool intersect(const std::vector<int64_t> &begin,
                      const std::vector<int64_t> &end, const int64_t *low,
                      const int64_t *high, Overlap &overlap) {
  size_t dims = begin.size();
  overlap.begin.resize(dims);
  overlap.end.resize(dims);
  for (size_t d = 0; d < dims; ++d) {
    overlap.begin[d] = std::max(begin[d], low[d]);
    overlap.end[d] = std::min(end[d], high[d]);
    if (overlap.begin[d] >= overlap.end[d])
      return false;
  }
  return true;
}

static int64_t elementsOf(const Overlap &overlap) {
  int64_t count = 1;
  for (size_t d = 0; d < overlap.begin.size(); ++d)
    count *= overlap.end[d] - overlap.begin[d];
  return count;
}

/// The pieces that have elements of a box. False where they do not make it up,
/// each element once.
static bool findOverlaps(const IndexedTensor &tensor, const kerf_box &box,
                         std::vector<Overlap> &overlaps) {
  int64_t left = 1;
  for (size_t d = 0; d < tensor.shape.size(); ++d)
    left *= box.end[d] - box.begin[d];
  for (const IndexedPiece &piece : tensor.pieces) {
    Overlap own;
    own.piece = &piece;
    if (!intersect(piece.begin, piece.end, box.begin, box.end, own))
      continue;
    for (const Overlap &other : overlaps)
      if (Overlap both; intersect(own.begin, own.end, other.begin.data(),
                                  other.end.data(), both))
        return false;
    left -= elementsOf(own);
    overlaps.push_back(std::move(own));
  }
  return left == 0;
}

/// Calls body(index) for each row of an overlap: all dimensions but the last.
template <typename Body>
static void forRows(const Overlap &overlap, Body body) {
  std::vector<int64_t> at = overlap.begin;
  size_t outer = at.empty() ? 0 : at.size() - 1;
  while (true) {
    body(at);
    size_t d = outer;
    while (d > 0 && ++at[d - 1] == overlap.end[d - 1]) {
      at[d - 1] = overlap.begin[d - 1];
      --d;
    }
    if (d == 0)
      return;
  }
}

/// Row by row: the last dimension lies together on both sides.
bool PieceFiles::readOverlap(const Overlap &overlap, const kerf_box &box,
                             uint64_t width, char *to, std::string &error) {
  const IndexedPiece &piece = *overlap.piece;
  size_t dims = overlap.begin.size();
  Columns columns = {0, width};
  if (dims > 0)
    columns = {(overlap.begin[dims - 1] - piece.begin[dims - 1]) * width,
               (overlap.end[dims - 1] - piece.begin[dims - 1]) * width};
  std::vector<Row> rows;
  forRows(overlap, [&](const std::vector<int64_t> &at) {
    int64_t number = 0, stored = box.first;
    for (size_t d = 0; d < dims; ++d) {
      if (d + 1 < dims)
        number =
            number * (piece.end[d] - piece.begin[d]) + at[d] - piece.begin[d];
      stored += (at[d] - box.begin[d]) * box.stride[d];
    }
    rows.push_back({static_cast<uint64_t>(number), to + stored * width});
  });
  return readRows(piece, piece.tiling(width), rows, columns, error);
}

bool PieceFiles::readBox(const std::string &name, const kerf_box &box,
                         uint64_t width, char *to, std::string &error) {
  std::vector<Overlap> overlaps;
  if (!findOverlaps(index.tensors.at(name), box, overlaps))
    return isDamaged(whole, indexName,
                     "the pieces of " + quote(name) + " do not make it up",
                     error);
  for (const Overlap &overlap : overlaps) {
    std::string reason;
    if (readOverlap(overlap, box, width, to, reason))
      continue;
    error = reason + ", in " +
            quote(pieceName(name, overlap.piece->begin, overlap.piece->end));
    return false;
  }
  return true;
}

/// Calls body(tensor, holding) for each tensor that a rank has, until one
/// fails.
template <typename Body>
static bool forHoldings(const kerf_artifact *artifact, uint32_t rank,
                        const std::vector<StateTensor> &tensors,
                        std::string &error, Body body) {
  for (const StateTensor &tensor : tensors) {
    bool has = false;
    kerf_holding holding;
    kerf_error failure;
    if (kerf_tensor_holding(artifact, &tensor.tensor.id, rank, &has, &holding,
                            &failure) != KERF_OK) {
      error = failure.message;
      return false;
    }
    if (has && !body(tensor, holding))
      return false;
  }
  return true;
}

std::vector<bool> StateReader::filesOf(const kerf_artifact *artifact,
                                       uint32_t rank) const {
  std::vector<bool> needed(index.files.size(), false);
  std::string error;
  bool isWhole =
      forHoldings(artifact, rank, listState(artifact), error,
                  [&](const StateTensor &t, const kerf_holding &holding) {
                    auto it = index.tensors.find(t.name);
                    if (it == index.tensors.end())
                      return false;
                    for (const kerf_box &box : boxesOf(artifact, holding, rank,
                                                       0, holding.elements)) {
                      std::vector<Overlap> overlaps;
                      if (!findOverlaps(it->second, box, overlaps))
                        return false;
                      for (const Overlap &overlap : overlaps)
                        needed[overlap.piece->file] = true;
                    }
                    return true;
                  });
  return isWhole ? needed : std::vector<bool>(needed.size(), false);
}

bool StateReader::restore(kerf_session *session, const kerf_artifact *artifact,
                          LoadTimes &times, std::string &error) const {
  double start = now();
  times = {};
  PieceFiles files(folder, filesFolder, index);
  std::vector<StateTensor> tensors = listState(artifact);
  auto find = [this](const std::string &name) -> SavedShape {
    auto it = index.tensors.find(name);
    if (it == index.tensors.end())
      return {};
    return {&it->second.shape, it->second.dtype};
  };
  if (!isOfModel(folder, index.tensors.size(), tensors, find, error))
    return false;
  uint32_t rank = kerf_session_rank(session);
  std::vector<char> bytes;
  auto set = [&](const StateTensor &t, const kerf_holding &holding) {
    auto width = static_cast<uint64_t>(kerf_dtype_bytes(t.tensor.dtype));
    // Padding is zero.
    bytes.assign(kerf_local_bytes(artifact, &holding.layout), 0);
    for (const kerf_box &box :
         boxesOf(artifact, holding, rank, 0, holding.elements))
      if (!files.readBox(t.name, box, width, bytes.data(), error))
        return false;
    times.needed += holding.elements * width;
    kerf_error failure;
    if (kerf_session_write(session, &t.tensor.id, bytes.data(), bytes.size(),
                           &failure) == KERF_OK)
      return true;
    error = failure.message;
    return false;
  };
  if (!forHoldings(artifact, rank, tensors, error, set))
    return false;
  times.read = files.bytes();
  times.seconds = now() - start;
  return true;
}
