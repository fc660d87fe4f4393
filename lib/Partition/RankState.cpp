#include "RankState.h"

#include "kerf/Sharding/Layout.h"

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

RankAxes::RankAxes(spmd::ProgramOp program) {
  MeshAttr mesh = program.getMesh();
  for (auto [name, size] : llvm::zip(mesh.getNames(), mesh.getSizes())) {
    if (size == 1)
      continue;
    names.push_back(name.str());
    sizes.push_back(size);
  }
  groups = sequencesPerTable(program) > 1;
  int64_t micros = program.getMicroBatches();
  if (micros == 1)
    return;
  microAxis = names.size();
  names.push_back(kMicroAxis.str());
  sizes.push_back(micros);
}

bool RankAxes::isPipeline(unsigned axis) const {
  return names[axis] == kPipelineAxis;
}

llvm::SmallVector<unsigned, 4> RankAxes::numbersOf(ArrayAttr list) const {
  llvm::SmallVector<unsigned, 4> numbers;
  for (auto name : list.getAsRange<StringAttr>())
    for (unsigned axis = 0; axis < count(); ++axis)
      if (names[axis] == name.getValue())
        numbers.push_back(axis);
  return numbers;
}

//===----------------------------------------------------------------------===//
// Digits
//===----------------------------------------------------------------------===//

IndexDigits kerf::normalized(const IndexDigits &digits) {
  IndexDigits result;
  for (const IndexDigit &digit : digits) {
    if (digit.isLocal() && digit.size == 1)
      continue;
    if (digit.isLocal() && !result.empty() && result.back().isLocal())
      result.back().size *= digit.size;
    else
      result.push_back(digit);
  }
  return result;
}

DimState DimState::local(int64_t size) {
  DimState dim;
  dim.digits = normalized({{size}});
  return dim;
}

DimState DimState::anyOf(int64_t size) {
  DimState dim = local(size);
  dim.uniform = true;
  return dim;
}

bool DimState::isShardedBy(unsigned axis) const {
  return llvm::any_of(
      digits, [&](const IndexDigit &digit) { return digit.axis == int(axis); });
}

int64_t DimState::localSize() const {
  int64_t size = 1;
  for (const IndexDigit &digit : digits)
    if (digit.isLocal())
      size *= digit.size;
  return size;
}

llvm::SmallVector<unsigned, 2> DimState::axes() const {
  llvm::SmallVector<unsigned, 2> list;
  for (const IndexDigit &digit : digits)
    if (!digit.isLocal())
      list.push_back(digit.axis);
  llvm::sort(list);
  return list;
}

DimState DimState::without(unsigned axis) const {
  DimState dim = *this;
  llvm::erase_if(dim.digits,
                 [&](const IndexDigit &d) { return d.axis == int(axis); });
  dim.digits = normalized(dim.digits);
  return dim;
}

void DimState::forget(int64_t size) {
  llvm::erase_if(digits, [](const IndexDigit &d) { return d.isLocal(); });
  opaque = !digits.empty();
  digits.push_back({size});
  digits = normalized(digits);
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

RankState RankState::same(Type type, const RankAxes &axes, bool uniform) {
  RankState state;
  for (int64_t size : cast<RankedTensorType>(type).getShape())
    state.dims.push_back(uniform ? DimState::anyOf(size)
                                 : DimState::local(size));
  state.over.assign(axes.count(), Over::Same);
  state.parts.assign(axes.count(), 0);
  return state;
}

RankState RankState::unknown(Type type, const RankAxes &axes) {
  RankState state = same(type, axes, /*uniform=*/true);
  state.over.assign(axes.count(), Over::Unknown);
  return state;
}

int RankState::shardedDim(unsigned axis) const {
  for (auto [d, dim] : llvm::enumerate(dims))
    if (dim.isShardedBy(axis))
      return d;
  return -1;
}

bool RankState::isUniform() const {
  return llvm::all_of(dims, [](const DimState &dim) { return dim.uniform; });
}

static DimState withoutLoose(DimState dim, llvm::ArrayRef<bool> loose) {
  for (unsigned axis : dim.axes())
    if (loose[axis])
      dim = dim.without(axis);
  return dim;
}

bool kerf::isShardedAlike(const DimState &a, const DimState &b,
                          llvm::ArrayRef<bool> loose) {
  if (a.uniform || b.uniform)
    return true;
  DimState left = withoutLoose(a, loose), right = withoutLoose(b, loose);
  if (left.opaque || right.opaque)
    return left.axes() == right.axes();
  return left.digits == right.digits;
}

bool kerf::isShardedAlike(const RankState &a, const RankState &b,
                          llvm::ArrayRef<bool> loose) {
  bool each =
      a.dims.size() == b.dims.size() &&
      llvm::all_of(llvm::zip(a.dims, b.dims), [&](auto pair) {
        return isShardedAlike(std::get<0>(pair), std::get<1>(pair), loose);
      });
  auto flat = [&](const RankState &state) {
    DimState all;
    for (const DimState &dim : state.dims)
      all.digits.append(dim.digits);
    all.digits = normalized(all.digits);
    return withoutLoose(all, loose).digits;
  };
  return each || flat(a) == flat(b);
}

static bool hasLocal(const DimState &dim) {
  return llvm::any_of(dim.digits,
                      [](const IndexDigit &digit) { return digit.isLocal(); });
}

/// Moves the last axes of a dimension of one element to the front of those
/// after it, or the first axes of a dimension to those of one element before
/// it.
static void moveAxes(const RankState &state, int from, int by, size_t count,
                     std::vector<RankState> &found) {
  if (by > 0 && hasLocal(state.dims[from]))
    return;
  for (int to = from + by; to >= 0 && to < int(state.dims.size()); to += by) {
    if (by < 0 && hasLocal(state.dims[to]))
      return;
    RankState moved = state;
    IndexDigits &source = moved.dims[from].digits;
    IndexDigits &target = moved.dims[to].digits;
    if (by > 0) {
      target.insert(target.begin(), source.end() - count, source.end());
      source.erase(source.end() - count, source.end());
    } else {
      target.append(source.begin(), source.begin() + count);
      source.erase(source.begin(), source.begin() + count);
    }
    moved.dims[from].uniform = moved.dims[to].uniform = false;
    found.push_back(std::move(moved));
    if (hasLocal(state.dims[to]))
      return;
  }
}

std::vector<RankState> kerf::otherPlaces(const RankState &state) {
  std::vector<RankState> found;
  auto isAxis = [](const IndexDigit &digit) { return !digit.isLocal(); };
  for (auto [d, dim] : llvm::enumerate(state.dims)) {
    const IndexDigits &digits = dim.digits;
    size_t first = llvm::find_if_not(digits, isAxis) - digits.begin();
    size_t last = llvm::find_if_not(llvm::reverse(digits), isAxis) -
                  llvm::reverse(digits).begin();
    for (size_t count = 1; !dim.opaque && count <= first; ++count)
      moveAxes(state, d, -1, count, found);
    for (size_t count = 1; !dim.opaque && count <= last; ++count)
      moveAxes(state, d, 1, count, found);
  }
  return found;
}

//===----------------------------------------------------------------------===//
// Changes of a sharding
//===----------------------------------------------------------------------===//

LogicalResult kerf::gatherDim(DimState &dim, llvm::ArrayRef<unsigned> axes,
                              const RankAxes &all) {
  IndexDigits digits;
  size_t next = 0;
  bool afterLocal = false, ordered = true, shifted = false;
  for (IndexDigit digit : dim.digits) {
    bool gathered = !digit.isLocal() && llvm::is_contained(axes, digit.axis);
    if (gathered) {
      ordered &=
          next < axes.size() && int(axes[next]) == digit.axis && !afterLocal;
      shifted |= digit.shift != 0;
      ++next;
      digit = {digit.size};
    } else {
      afterLocal |= digit.isLocal();
    }
    digits.push_back(digit);
  }
  if (shifted || (!dim.opaque && !ordered))
    return failure();
  dim.digits = normalized(digits);
  if (dim.axes().empty())
    dim.opaque = false;
  return success();
}

void kerf::sliceDim(DimState &dim, llvm::ArrayRef<unsigned> axes,
                    const RankAxes &all) {
  int64_t parts = 1;
  IndexDigits own;
  for (unsigned axis : axes) {
    own.push_back({all.sizeOf(axis), int(axis)});
    parts *= all.sizeOf(axis);
  }
  int64_t size = dim.localSize() / parts;
  auto *first = llvm::find_if(
      dim.digits, [](const IndexDigit &digit) { return digit.isLocal(); });
  bool fits =
      !dim.opaque && first != dim.digits.end() && first->size % parts == 0;
  if (!fits) {
    dim.digits.append(own);
    dim.forget(size);
    return;
  }
  first->size /= parts;
  dim.digits.insert(first, own.begin(), own.end());
  dim.digits = normalized(dim.digits);
}

/// Takes digits of so many local elements from the front; none where a digit
/// would have to be broken.
static std::optional<IndexDigits> takeFront(IndexDigits &rest, int64_t size,
                                            bool axesFirst) {
  IndexDigits taken;
  while (!rest.empty() && (size > 1 || (axesFirst && taken.empty()) ||
                           (axesFirst && !taken.back().isLocal()))) {
    IndexDigit &front = rest.front();
    if (!front.isLocal()) {
      taken.push_back(front);
      rest.erase(rest.begin());
      continue;
    }
    if (size == 1)
      break;
    if (front.size <= size) {
      if (size % front.size != 0)
        return std::nullopt;
      size /= front.size;
      taken.push_back(front);
      rest.erase(rest.begin());
      continue;
    }
    if (front.size % size != 0)
      return std::nullopt;
    taken.push_back({size});
    front.size /= size;
    size = 1;
  }
  return taken;
}

/// All axes lie somewhere in the first dimension.
static llvm::SmallVector<DimState, 4> forgetAll(const IndexDigits &all,
                                                llvm::ArrayRef<int64_t> sizes) {
  llvm::SmallVector<DimState, 4> dims;
  for (int64_t size : sizes)
    dims.push_back(DimState::local(size));
  dims.front().digits = all;
  dims.front().forget(sizes.front());
  return dims;
}

llvm::SmallVector<DimState, 4> kerf::regroup(llvm::ArrayRef<DimState> from,
                                             llvm::ArrayRef<int64_t> sizes,
                                             bool axesFirst) {
  IndexDigits all;
  bool opaque = false, uniform = true;
  bool hasUniform =
      llvm::any_of(from, [](const DimState &d) { return d.uniform; });
  for (const DimState &dim : from) {
    all.append(dim.digits);
    opaque |= dim.opaque;
    uniform &= dim.uniform ||
               (hasUniform && dim.axes().empty() && dim.localSize() == 1);
  }
  all = normalized(all);
  llvm::SmallVector<DimState, 4> dims;
  if (uniform) {
    for (int64_t size : sizes)
      dims.push_back(DimState::anyOf(size));
    return dims;
  }
  if (opaque)
    return forgetAll(all, sizes);
  IndexDigits rest = all;
  for (int64_t size : sizes.drop_back()) {
    std::optional<IndexDigits> taken = takeFront(rest, size, axesFirst);
    if (!taken)
      return forgetAll(all, sizes);
    dims.emplace_back().digits = normalized(*taken);
  }
  dims.emplace_back().digits = normalized(rest);
  return dims;
}

llvm::SmallVector<DimState, 4> kerf::declaredDims(spmd::ParamOp param,
                                                  const RankAxes &axes) {
  llvm::SmallVector<DimState, 4> dims;
  for (auto [d, size] : llvm::enumerate(param.getShardType().getShape())) {
    int64_t blocks = param.getBlocks() ? (*param.getBlocks())[d] : 1;
    IndexDigits digits = {{blocks}};
    for (unsigned axis : axes.numbersOf(cast<ArrayAttr>(param.getSharded()[d])))
      digits.push_back({axes.sizeOf(axis), int(axis)});
    digits.push_back({size / blocks});
    dims.emplace_back().digits = normalized(digits);
  }
  return dims;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

std::string kerf::describeOver(const RankState &state, unsigned axis) {
  switch (state.over[axis]) {
  case Over::Same:
    break;
  case Over::Sum:
    return "a sum that is still to be made";
  case Over::Max:
    return "a maximum that is still to be made";
  case Over::Norm:
    return "the norm of a part";
  case Over::Ring:
    return "made of some parts of the ring";
  case Over::Own:
    return "each rank's own";
  case Over::Unknown:
    return "not followed";
  }
  if (int dim = state.shardedDim(axis); dim >= 0)
    return "split along dimension " + std::to_string(dim);
  return "the same on all ranks";
}

std::string kerf::printDim(const DimState &dim, const RankAxes &axes) {
  if (dim.uniform)
    return "[any]";
  std::string text;
  for (const IndexDigit &digit : dim.digits) {
    text += "[";
    text += digit.isLocal() ? std::to_string(digit.size)
                            : axes.nameOf(digit.axis).str();
    if (digit.shift)
      text += " + " + std::to_string(digit.shift);
    text += "]";
  }
  return text.empty() ? "[1]" : text;
}
