#include "Shards.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

Ranks kerf::makeRanks(spmd::ProgramOp program,
                      llvm::function_ref<HostTensor(int64_t)> body) {
  Ranks values(program.getMesh().getRankCount());
  for (int64_t rank : program.getRanks())
    values[rank] = std::make_shared<const HostTensor>(body(rank));
  return values;
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

int64_t Place::coordinate(llvm::StringRef axis) const {
  if (axis == kMicroAxis)
    return micro;
  MeshAttr mesh = program.getMesh();
  return mesh.getCoordinates(rank)[mesh.find(axis)];
}

int64_t Place::index(ArrayAttr axes) const {
  int64_t index = 0;
  for (auto axis : axes.getAsRange<StringAttr>())
    index = index * program.getAxisSize(axis) + coordinate(axis);
  return index;
}

llvm::SmallVector<int64_t> kerf::groupOf(spmd::ProgramOp program, int64_t rank,
                                         ArrayAttr axes) {
  llvm::SmallVector<int64_t> group(program.getAxesSize(axes));
  MeshAttr mesh = program.getMesh();
  auto own = mesh.getCoordinates(rank);
  for (int64_t other = 0; other < mesh.getRankCount(); ++other) {
    auto coordinates = mesh.getCoordinates(other);
    bool member = true;
    for (auto [a, name] : llvm::enumerate(mesh.getNames()))
      member &= coordinates[a] == own[a] || llvm::is_contained(axes, name);
    if (member)
      group[Place{program, other, 0}.index(axes)] = other;
  }
  return group;
}

//===----------------------------------------------------------------------===//
// Parts and pieces
//===----------------------------------------------------------------------===//

/// Elements before and after a dimension.
static std::pair<int64_t, int64_t> around(llvm::ArrayRef<int64_t> shape,
                                          int64_t dim) {
  int64_t outer = 1, inner = 1;
  for (int64_t size : shape.take_front(dim))
    outer *= size;
  for (int64_t size : shape.drop_front(dim + 1))
    inner *= size;
  return {outer, inner};
}

HostTensor kerf::takePart(const HostTensor &whole, int64_t dim, int64_t index,
                          int64_t parts, int64_t blocks) {
  llvm::SmallVector<int64_t> shape(whole.shape());
  shape[dim] /= parts;
  HostTensor part(withShape(whole.type, shape));
  auto [outer, inner] = around(shape, dim);
  int64_t run = shape[dim] / blocks * inner; // elements that lie together
  for (int64_t o = 0; o < outer * blocks; ++o)
    std::copy_n(whole.data.begin() + (o * parts + index) * run, run,
                part.data.begin() + o * run);
  return part;
}

HostTensor kerf::joinParts(llvm::ArrayRef<const HostTensor *> parts,
                           int64_t dim) {
  llvm::SmallVector<int64_t> shape(parts[0]->shape());
  auto [outer, inner] = around(shape, dim);
  int64_t block = shape[dim] * inner;
  shape[dim] *= parts.size();
  HostTensor whole(withShape(parts[0]->type, shape));
  auto to = whole.data.begin();
  for (int64_t o = 0; o < outer; ++o)
    for (const HostTensor *part : parts)
      to = std::copy_n(part->data.begin() + o * block, block, to);
  return whole;
}

/// Elements of a piece that are not padding.
static int64_t filledOf(int64_t size, int64_t index, int64_t wholeSize) {
  return std::clamp<int64_t>(wholeSize - index * size, 0, size);
}

HostTensor kerf::takePiece(const HostTensor &whole, int64_t index,
                           int64_t parts, int64_t granule) {
  int64_t size = pieceSize(whole.size(), parts, granule);
  HostTensor piece(withShape(whole.type, {size}));
  if (int64_t filled = filledOf(size, index, whole.size()))
    std::copy_n(whole.data.begin() + index * size, filled, piece.data.begin());
  return piece;
}

void kerf::putPiece(HostTensor &whole, const HostTensor &piece, int64_t index) {
  if (int64_t filled = filledOf(piece.size(), index, whole.size()))
    std::copy_n(piece.data.begin(), filled,
                whole.data.begin() + index * piece.size());
}

HostTensor kerf::joinPieces(llvm::ArrayRef<const HostTensor *> pieces,
                            llvm::ArrayRef<int64_t> shape) {
  HostTensor whole(withShape(pieces[0]->type, shape));
  for (auto [index, piece] : llvm::enumerate(pieces))
    putPiece(whole, *piece, index);
  return whole;
}

//===----------------------------------------------------------------------===//
// Shards
//===----------------------------------------------------------------------===//

ArrayAttr kerf::dropMicro(ArrayAttr sharded) {
  llvm::SmallVector<Attribute> dims;
  for (auto axes : sharded.getAsRange<ArrayAttr>()) {
    llvm::SmallVector<Attribute> names(axes.begin(), axes.end());
    llvm::erase_if(names, [](Attribute axis) {
      return cast<StringAttr>(axis).getValue() == kMicroAxis;
    });
    dims.push_back(ArrayAttr::get(sharded.getContext(), names));
  }
  return ArrayAttr::get(sharded.getContext(), dims);
}

static int64_t blocksOf(const Rest &rest, int64_t dim) {
  return rest.blocks.empty() ? 1 : rest.blocks[dim];
}

HostTensor kerf::putInOrder(const HostTensor &global, ZigzagAttr zigzag) {
  if (!zigzag)
    return global;
  HostTensor ordered(global.type);
  auto [outer, inner] = around(global.shape(), 1);
  int64_t rows = global.shape()[1];
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t row = 0; row < rows; ++row)
      std::copy_n(global.data.begin() +
                      (o * rows + zigzag.positionOf(row)) * inner,
                  inner, ordered.data.begin() + (o * rows + row) * inner);
  return ordered;
}

HostTensor kerf::takeShard(const HostTensor &global, const Rest &rest,
                           const Place &place) {
  HostTensor shard = global;
  for (auto [d, axes] : llvm::enumerate(rest.sharded.getAsRange<ArrayAttr>())) {
    int64_t parts = place.program.getAxesSize(axes);
    if (parts > 1)
      shard = takePart(shard, d, place.index(axes), parts, blocksOf(rest, d));
  }
  if (!rest.pieces)
    return shard;
  return takePiece(shard, place.index(rest.pieces),
                   place.program.getAxesSize(rest.pieces), rest.granule);
}

/// Copies a shard to its elements of the global tensor.
static void putShard(HostTensor &whole, const HostTensor &shard,
                     const Rest &rest, const Place &place) {
  llvm::ArrayRef<int64_t> shape = shard.shape();
  llvm::SmallVector<int64_t> places;
  for (auto axes : rest.sharded.getAsRange<ArrayAttr>())
    places.push_back(place.index(axes));
  auto strides = stridesOf(whole.shape());
  int64_t local = 0;
  forEachIndex(shape, [&](llvm::ArrayRef<int64_t> index) {
    int64_t global = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      int64_t blocks = blocksOf(rest, d);
      int64_t size = shape[d] / blocks; // of a block's part
      int64_t block = index[d] / size;
      int64_t at = block * (whole.shape()[d] / blocks) + places[d] * size +
                   index[d] % size;
      global += at * strides[d];
    }
    whole.data[global] = shard.data[local++];
  });
}

/// The shard of a rank, put together from pieces where it is stored in them.
static HostTensor shardOf(llvm::ArrayRef<const HostTensor *> shards,
                          const Rest &rest, llvm::ArrayRef<int64_t> globalShape,
                          spmd::ProgramOp program, int64_t rank) {
  if (!rest.pieces)
    return *shards[rank];
  llvm::SmallVector<int64_t> shape(globalShape);
  for (auto [size, axes] :
       llvm::zip_equal(shape, rest.sharded.getAsRange<ArrayAttr>()))
    size /= program.getAxesSize(axes);
  auto pieces =
      llvm::map_to_vector(groupOf(program, rank, rest.pieces),
                          [&](int64_t member) { return shards[member]; });
  return joinPieces(pieces, shape);
}

int64_t kerf::findDifference(const HostTensor &a, const HostTensor &b) {
  for (int64_t i = 0; i < a.size(); ++i)
    if (a.data[i] != b.data[i] &&
        !(std::isnan(a.data[i]) && std::isnan(b.data[i])))
      return i;
  return -1;
}

FailureOr<HostTensor>
kerf::joinShards(llvm::ArrayRef<const HostTensor *> shards, const Rest &rest,
                 llvm::ArrayRef<int64_t> globalShape, spmd::ProgramOp program,
                 std::string &error) {
  auto ranks = program.getRanks();
  HostTensor whole(withShape(shards[ranks.front()]->type, globalShape));
  for (int64_t rank : ranks)
    putShard(whole, shardOf(shards, rest, globalShape, program, rank), rest,
             {program, rank, 0});
  // Each part is the one written last; ranks that hold the same must agree.
  for (int64_t rank : ranks) {
    HostTensor expected = takeShard(whole, rest, {program, rank, 0});
    int64_t at = findDifference(expected, *shards[rank]);
    if (at < 0)
      continue;
    error = "rank " + std::to_string(rank) +
            " holds another value than a rank with the same part, at element " +
            std::to_string(at);
    return failure();
  }
  return whole;
}
