#include "Shards.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

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
                          int64_t parts) {
  llvm::SmallVector<int64_t> shape(whole.shape());
  shape[dim] /= parts;
  HostTensor part(withShape(whole.type, shape));
  auto [outer, inner] = around(shape, dim);
  int64_t block = shape[dim] * inner;
  for (int64_t o = 0; o < outer; ++o)
    std::copy_n(whole.data.begin() + (o * parts + index) * block, block,
                part.data.begin() + o * block);
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

ArrayAttr kerf::dropMicro(ArrayAttr cut) {
  llvm::SmallVector<Attribute> dims;
  for (auto axes : cut.getAsRange<ArrayAttr>()) {
    llvm::SmallVector<Attribute> names(axes.begin(), axes.end());
    llvm::erase_if(names, [](Attribute axis) {
      return cast<StringAttr>(axis).getValue() == kMicroAxis;
    });
    dims.push_back(ArrayAttr::get(cut.getContext(), names));
  }
  return ArrayAttr::get(cut.getContext(), dims);
}

HostTensor kerf::takeShard(const HostTensor &global, ArrayAttr cut,
                           const Place &place) {
  HostTensor shard = global;
  for (auto [d, axes] : llvm::enumerate(cut.getAsRange<ArrayAttr>())) {
    int64_t parts = place.program.getAxesSize(axes);
    if (parts > 1)
      shard = takePart(shard, d, place.index(axes), parts);
  }
  return shard;
}

/// First element in which two tensors differ, or -1.
static int64_t findDifference(const HostTensor &a, const HostTensor &b) {
  for (int64_t i = 0; i < a.size(); ++i)
    if (a.data[i] != b.data[i] &&
        !(std::isnan(a.data[i]) && std::isnan(b.data[i])))
      return i;
  return -1;
}

FailureOr<HostTensor>
kerf::joinShards(llvm::ArrayRef<const HostTensor *> shards, ArrayAttr cut,
                 llvm::ArrayRef<int64_t> globalShape, spmd::ProgramOp program,
                 std::string &error) {
  HostTensor whole(withShape(shards[0]->type, globalShape));
  // The rank that an element came from first; others must agree.
  for (auto [rank, shard] : llvm::enumerate(shards)) {
    Place place{program, static_cast<int64_t>(rank), 0};
    llvm::SmallVector<int64_t> first;
    for (auto [d, axes] : llvm::enumerate(cut.getAsRange<ArrayAttr>()))
      first.push_back(place.index(axes) * shard->shape()[d]);
    auto strides = stridesOf(globalShape);
    int64_t local = 0;
    forEachIndex(shard->shape(), [&](llvm::ArrayRef<int64_t> index) {
      int64_t global = 0;
      for (size_t d = 0; d < index.size(); ++d)
        global += (first[d] + index[d]) * strides[d];
      whole.data[global] = shard->data[local++];
    });
  }
  for (auto [rank, shard] : llvm::enumerate(shards)) {
    Place place{program, static_cast<int64_t>(rank), 0};
    int64_t at = findDifference(takeShard(whole, cut, place), *shard);
    if (at < 0)
      continue;
    error = "rank " + std::to_string(rank) +
            " holds another value than a rank with the same part, at element " +
            std::to_string(at);
    return failure();
  }
  return whole;
}
