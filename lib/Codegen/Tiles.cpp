//===- Tiles.cpp - results that read operands across their rows -----------===//

#include "Tiles.h"

#include "Parts.h"

#include <algorithm>
#include <numeric>
#include <set>

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

/// For each dimension of a value, the one of the result that it follows.
using Dims = llvm::SmallVector<int64_t>;
/// It follows none, or several.
static constexpr int64_t kUnknown = -1;

/// What a reshape's operand follows: leading and trailing dimensions that it
/// has in common with the result.
static Dims beforeReshape(llvm::ArrayRef<int64_t> from,
                          llvm::ArrayRef<int64_t> to, const Dims &dims) {
  auto numbersOf = [](llvm::ArrayRef<int64_t> shape) {
    Dims numbers;
    for (auto [i, size] : llvm::enumerate(shape))
      if (size != 1)
        numbers.push_back(i);
    return numbers;
  };
  Dims before(from.size(), kUnknown);
  Dims a = numbersOf(from), b = numbersOf(to);
  size_t common = std::min(a.size(), b.size()), leading = 0;
  while (leading < common && from[a[leading]] == to[b[leading]]) {
    before[a[leading]] = dims[b[leading]];
    ++leading;
  }
  for (size_t k = 1; k <= common - leading; ++k) {
    int64_t i = a[a.size() - k], j = b[b.size() - k];
    if (from[i] != to[j])
      break;
    before[i] = dims[j];
  }
  return before;
}

namespace {
/// Follows a result's dimensions to the arguments.
class Reads {
public:
  explicit Reads(int64_t along) : along(along) {}

  void follow(Value value, const Dims &dims);
  /// All ops are plain, and arguments that are read across their rows have them
  /// along one dimension.
  bool isPlain() const { return onlyPlain; }
  bool fit() const { return onlyPlain && down != kUnknown; }
  bool readsAlong() const { return onlyPlain && down == kUnknown; }

  int64_t down = kUnknown;
  std::set<void *> across; ///< these arguments
  int64_t bits = 0;        ///< of an element of each of them

private:
  void followArgument(Value argument, const Dims &dims);
  bool followView(Operation *op, const Dims &dims);

  int64_t along;
  bool onlyPlain = true;
  std::set<std::pair<void *, std::vector<int64_t>>> seen;
};
} // namespace

void Reads::followArgument(Value argument, const Dims &dims) {
  auto type = typeOf(argument);
  llvm::ArrayRef<int64_t> shape = type.getShape();
  int64_t last = type.getRank() - 1;
  while (last >= 0 && shape[last] == 1)
    --last;
  if (last < 0 || dims[last] == kUnknown || dims[last] == along)
    return;
  bool isAcross = false; // else it is spread along the result's rows
  for (int64_t i = 0; i < last; ++i)
    isAcross |= shape[i] != 1 && (dims[i] == along || dims[i] == kUnknown);
  if (!isAcross)
    return;
  onlyPlain &= down == kUnknown || down == dims[last];
  down = dims[last];
  if (across.insert(argument.getAsOpaquePointer()).second)
    bits += std::max(type.getElementTypeBitWidth(), 8u);
}

bool Reads::followView(Operation *op, const Dims &dims) {
  std::optional<View> view = viewOf(op);
  if (!view)
    return false;
  Value x = op->getOperand(0);
  Dims from;
  switch (view->kind) {
  case ViewKind::Repeat:
    for (int64_t dim : view->dims)
      from.push_back(dims[dim]);
    break;
  case ViewKind::Turn:
    from.resize(dims.size());
    for (auto [to, dim] : llvm::enumerate(view->dims))
      from[dim] = dims[to];
    break;
  case ViewKind::Rename:
    from = beforeReshape(typeOf(x).getShape(),
                         typeOf(op->getResult(0)).getShape(), dims);
    break;
  case ViewKind::Part:
    from = dims;
    break;
  case ViewKind::Pad:
  case ViewKind::Join:
    return false;
  }
  follow(x, from);
  return true;
}

void Reads::follow(Value value, const Dims &dims) {
  if (!seen.insert({value.getAsOpaquePointer(), {dims.begin(), dims.end()}})
           .second)
    return;
  Operation *op = value.getDefiningOp();
  if (!op) {
    followArgument(value, dims);
    return;
  }
  if (isConstant(op) || isa<IotaOp>(op) || followView(op, dims))
    return;
  onlyPlain &= isa<ScalarOpInterface>(op);
  if (onlyPlain)
    for (Value operand : op->getOperands())
      follow(operand, dims);
}

static int64_t productOf(llvm::ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

/// The largest side, a power of two, that divides both dimensions. What is read
/// across rows is in registers for the whole tile: 64 of them at most.
static int64_t sideOf(const Tiling &tiling, int64_t lanes, int64_t bits) {
  constexpr int64_t mostBits = int64_t(64) * 32;
  int64_t side = lanes;
  while (tiling.down % side != 0 || tiling.along % side != 0 ||
         (side > 1 && side * side * bits > mostBits))
    side /= 2;
  return side;
}

/// The last dimension that has more than one element.
static int64_t lastOf(llvm::ArrayRef<int64_t> shape) {
  int64_t last = static_cast<int64_t>(shape.size()) - 1;
  while (last > 0 && shape[last] == 1)
    --last;
  return last;
}

/// How arguments are read where a result is made in its own order.
static Reads readsOf(Value result) {
  llvm::ArrayRef<int64_t> shape = typeOf(result).getShape();
  Dims all(shape.size());
  std::iota(all.begin(), all.end(), 0);
  Reads reads(lastOf(shape));
  reads.follow(result, all);
  return reads;
}

/// Sizes of a tensor but those of 1.
static Dims sizesOf(llvm::ArrayRef<int64_t> shape) {
  Dims sizes;
  llvm::copy_if(shape, std::back_inserter(sizes),
                [](int64_t size) { return size != 1; });
  return sizes;
}

/// True for a result that lies as operands of transposed results do, whose
/// dimension `down` comes last there.
static bool liesStraight(Value result, llvm::ArrayRef<int64_t> turned,
                         int64_t down) {
  Dims sizes = llvm::to_vector(turned);
  std::rotate(sizes.begin() + down, sizes.begin() + down + 1, sizes.end());
  return sizesOf(typeOf(result).getShape()) == sizesOf(sizes);
}

std::optional<Tiling> kerf::codegen::tilingOf(llvm::ArrayRef<Value> results,
                                              int64_t lanes) {
  llvm::SmallVector<Reads> reads = llvm::map_to_vector(results, readsOf);
  // Who reads most arguments across their rows says what a tile holds.
  const Reads *across =
      llvm::max_element(reads, [](const Reads &x, const Reads &y) {
        return x.across.size() < y.across.size();
      });
  if (across == reads.end() || !across->fit())
    return std::nullopt;
  auto shape = typeOf(results[across - reads.begin()]).getShape();
  int64_t along = lastOf(shape), down = across->down;
  // What lies across must be separated from the rows by a dimension.
  if (along < 1 || down < 0 || down >= along)
    return std::nullopt;
  Tiling tiling;
  for (auto [result, own] : llvm::zip(results, reads)) {
    bool isStraight = own.readsAlong() && liesStraight(result, shape, down);
    tiling.isStraight.push_back(isStraight);
    bool isAlike = typeOf(result).getShape() == shape && own.isPlain() &&
                   (own.readsAlong() || own.down == down) &&
                   std::includes(across->across.begin(), across->across.end(),
                                 own.across.begin(), own.across.end());
    if (!isStraight && !isAlike)
      return std::nullopt;
  }
  tiling.outer = productOf(shape.take_front(down));
  tiling.down = shape[down];
  tiling.middle = productOf(shape.slice(down + 1, along - down - 1));
  tiling.along = shape[along];
  tiling.side = sideOf(tiling, lanes, across->bits);
  return tiling.side > 1 ? std::optional(tiling) : std::nullopt;
}

// Of a warp, 8 threads read 128 bytes of an operand's row, and 4 write 32 bytes
// or more of a result's. Where a block has more threads along the result's rows
// than there are tiles, it has more of them down.
void kerf::codegen::dealOut(Tiling &tiling, int64_t threads) {
  constexpr int64_t usual = 8, most = 32;
  int64_t down = 1;
  auto canDouble = [&] { return 2 * down <= tiling.tilesDown(); };
  while (down < usual && canDouble())
    down *= 2;
  while (down < most && canDouble() && threads / down > tiling.tilesAlong())
    down *= 2;
  tiling.threadsDown = down;
  tiling.threadsAlong = threads / down;
}
