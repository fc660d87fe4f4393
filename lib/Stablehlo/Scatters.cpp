//===- Scatters.cpp - parts that are added or put by index ----------------===//
//
// What indices say is known where it can be: a part whose place is known is
// sliced, changed and put back; a dimension along which indices count is one of
// a batch. One choice in each row of a batch is a sum of what is chosen; other
// rows go through scatter_add.
//
//===----------------------------------------------------------------------===//

#include "Converter.h"
#include "Parts.h"

using namespace kerf;
using namespace mlir;

/// Whole numbers that f32 has.

namespace {

/// A dimension of the target whose place an index says.
struct Component {
  int64_t dim = 0;
  Value index; ///< of the shape of `places`
};

/// A scatter as its attributes say it, then what is left of it.
struct Scatter {
  Value target;
  Value updates; ///< [places..., windows...], a window per dimension
  Sizes places;  ///< sizes of what is updated one by one
  Sizes starts;  ///< of the part of the target that is updated
  Sizes batch;   ///< of each dimension: its dimension of `places`, or -1
  std::vector<Component> components;
  bool isSum = false, isUnique = false, isOutside = false;

  int64_t rank() const { return typeOf(target).getRank(); }
  /// The size of a window along a dimension of the target.
  int64_t window(int64_t dim) const {
    return shapeOf(updates)[places.size() + dim];
  }
  /// The dimensions of `places` that are none of a batch.
  Sizes freePlaces() const {
    Sizes free;
    for (int64_t d : dimRange(0, places.size()))
      if (!llvm::is_contained(batch, d))
        free.push_back(d);
    return free;
  }
  int64_t countOf(llvm::ArrayRef<int64_t> dims) const {
    int64_t count = 1;
    for (int64_t d : dims)
      count *= places[d];
    return count;
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// What the attributes say
//===----------------------------------------------------------------------===//

/// Whether updates are added (true) or put (false); none for other functions.
static std::optional<bool> addsOrPuts(Operation *op) {
  if (combiner(op) == "add")
    return true;
  if (op->getNumRegions() != 1 || !op->getRegion(0).hasOneBlock())
    return std::nullopt;
  Block &body = op->getRegion(0).front();
  Operation &last = body.back();
  bool isPut = body.getNumArguments() == 2 && last.getNumOperands() == 1 &&
               last.getOperand(0) == body.getArgument(1);
  return isPut ? std::optional(false) : std::nullopt;
}

static bool isRising(llvm::ArrayRef<int64_t> dims) {
  return std::adjacent_find(dims.begin(), dims.end(),
                            std::greater_equal<int64_t>()) == dims.end();
}

/// Fills the shapes in; false where they do not fit each other.
static bool readShapes(const Source &s, Scatter &t, int64_t vectorDim) {
  auto list = [&](llvm::StringRef field) {
    return listIn(s.op, "scatter_dimension_numbers", field);
  };
  Sizes windows = list("update_window_dims");
  Sizes inserted = list("inserted_window_dims");
  Sizes batch = list("input_batching_dims");
  Sizes batchPlaces = list("scatter_indices_batching_dims");
  t.target = s.operand(0);
  t.places = Sizes(shapeOf(s.operand(1)));
  if (vectorDim < static_cast<int64_t>(t.places.size()))
    t.places.erase(t.places.begin() + vectorDim);
  t.batch.assign(t.rank(), -1);
  t.starts.assign(t.rank(), 0);
  if (batch.size() != batchPlaces.size() || !areDims(s.operand(2), windows) ||
      !areDims(t.target, inserted) || !areDims(t.target, batch) ||
      !areDims(s.operand(1), batchPlaces))
    return false;
  if (llvm::is_contained(batchPlaces, vectorDim) || !isRising(windows))
    return false;
  for (auto [dim, place] : llvm::zip_equal(batch, batchPlaces))
    t.batch[dim] = place - (place > vectorDim);
  Sizes perm, shape(t.places);
  for (int64_t d = 0; d < typeOf(s.operand(2)).getRank(); ++d)
    if (!llvm::is_contained(windows, d))
      perm.push_back(d);
  bool fits = perm.size() == t.places.size();
  llvm::append_range(perm, windows);
  size_t next = 0;
  for (int64_t d = 0; d < t.rank(); ++d) {
    bool isOne = llvm::is_contained(inserted, d) || t.batch[d] >= 0;
    fits &= isOne || next < windows.size();
    if (fits)
      shape.push_back(isOne ? 1 : shapeOf(s.operand(2))[windows[next++]]);
  }
  if (!fits || next != windows.size())
    return false;
  t.updates = s.b.reshape(s.b.transpose(s.operand(2), perm), shape);
  for (int64_t d = 0; d < t.rank(); ++d)
    fits &= t.batch[d] < 0 ? t.window(d) <= shapeOf(t.target)[d]
                           : t.places[t.batch[d]] == shapeOf(t.target)[d];
  return fits && shapeOf(t.updates).take_front(t.places.size()) ==
                     llvm::ArrayRef(t.places);
}

/// Takes the places off that are known, and finds the dimensions along which
/// indices count. The reason where that is not possible, else empty.
static std::string readIndices(const Source &s, Scatter &t, int64_t vectorDim) {
  Sizes indexed =
      listIn(s.op, "scatter_dimension_numbers", "scatter_dims_to_operand_dims");
  llvm::ArrayRef<int64_t> shape = shapeOf(s.operand(1));
  int64_t count =
      vectorDim == static_cast<int64_t>(shape.size()) ? 1 : shape[vectorDim];
  if (!areDims(t.target, indexed) ||
      count != static_cast<int64_t>(indexed.size()))
    return "a scatter without its dimensions";
  for (auto [n, dim] : llvm::enumerate(indexed)) {
    Value index = componentOf(s.b, s.operand(1), vectorDim, n, indexed.size());
    int64_t size = shapeOf(t.target)[dim];
    if (auto known = FoldingBuilder::splatOf(index)) {
      t.starts[dim] = static_cast<int64_t>(*known);
      t.isOutside |= *known < 0 || *known + t.window(dim) > size;
    } else if (t.window(dim) != 1) {
      return "a scatter of parts whose places are no known numbers";
    } else {
      t.components.push_back({dim, index});
    }
  }
  llvm::erase_if(t.components, [&](const Component &component) {
    for (int64_t d : t.freePlaces())
      if (t.places[d] == shapeOf(t.target)[component.dim] &&
          countsAlong(component.index, d)) {
        t.batch[component.dim] = d;
        return true;
      }
    return false;
  });
  return {};
}

/// The part of the target that is updated.
static Value regionOf(FoldingBuilder &b, const Scatter &t) {
  Sizes sizes(shapeOf(t.target));
  for (int64_t d = 0; d < t.rank(); ++d) {
    bool isIndexed = llvm::any_of(
        t.components, [&](const Component &c) { return c.dim == d; });
    if (t.batch[d] < 0 && !isIndexed)
      sizes[d] = t.window(d);
  }
  return b.slice(t.target, t.starts, sizes);
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

/// True where no two indices are equal: all that a choice of the largest found.
static bool areDistinct(const Scatter &t) {
  Sizes free = t.freePlaces();
  if (t.isUnique || t.countOf(free) == 1)
    return true;
  return llvm::any_of(t.components, [&](const Component &component) {
    Value index = component.index;
    while (auto reshape = index.getDefiningOp<ReshapeOp>())
      index = reshape.getX();
    auto largest = index.getDefiningOp<TopKOp>();
    return largest && index == largest.getIndices() &&
           free.back() == static_cast<int64_t>(t.places.size()) - 1 &&
           t.countOf(free) == static_cast<int64_t>(largest.getK());
  });
}

/// Sums of updates and how many there are, of the shape of the region: the
/// region with them. Of several that are put into one place, which JAX leaves
/// open, the mean is.
static Value joined(FoldingBuilder &b, const Scatter &t, Value region,
                    Value sums, llvm::function_ref<Value()> counts) {
  if (t.isSum)
    return b.add(region, sums);
  auto before = FoldingBuilder::splatOf(region);
  bool isDistinct = areDistinct(t);
  if (isDistinct && before == 0.0)
    return sums;
  Value count = counts();
  auto all = [&](double number) {
    return b.splat(shapeOf(count), b.f32(), number);
  };
  Value put = sums;
  if (auto number = FoldingBuilder::splatOf(t.updates))
    put = all(*number);
  else if (!isDistinct)
    put = b.div(sums, b.max(count, all(1)));
  return b.select(b.compare(CompareKind::GT, count, all(0)), put, region);
}

/// Every place is known: updates as the region lies.
static Value putAll(FoldingBuilder &b, const Scatter &t, Value region) {
  if (auto number = FoldingBuilder::splatOf(t.updates); number && !t.isSum)
    return b.splat(shapeOf(region), typeOf(region).getElementType(), *number);
  Sizes free = t.freePlaces();
  // What is left of `places`, in their order.
  Sizes perm, left, shape;
  for (int64_t d : dimRange(0, t.places.size()))
    if (!llvm::is_contained(free, d)) {
      left.push_back(d);
      shape.push_back(t.places[d]);
    }
  llvm::append_range(shape, shapeOf(t.updates).drop_front(t.places.size()));
  Value whole = t.countOf(free) == 1 ? b.reshape(t.updates, shape)
                                     : b.sum(t.updates, free);
  int64_t first = left.size();
  for (int64_t d = 0; d < t.rank(); ++d)
    perm.push_back(t.batch[d] < 0
                       ? first + d
                       : llvm::find(left, t.batch[d]) - left.begin());
  for (int64_t d = 0; d < t.rank(); ++d)
    if (t.batch[d] >= 0)
      perm.push_back(first + d); // of size 1
  whole = b.reshape(b.transpose(whole, perm), shapeOf(region));
  return t.isSum ? b.add(region, whole) : whole;
}

/// The dimensions of a batch, in the target and in `places`.
static std::pair<Sizes, Sizes> batchOf(const Scatter &t) {
  std::pair<Sizes, Sizes> batch;
  for (int64_t d = 0; d < t.rank(); ++d)
    if (t.batch[d] >= 0) {
      batch.first.push_back(d);
      batch.second.push_back(t.batch[d]);
    }
  return batch;
}

/// `y` has the elements of `region` with its dimensions in the order `perm`:
/// the same in the order of the region.
static Value turnedBack(FoldingBuilder &b, Value y, Value region,
                        llvm::ArrayRef<int64_t> perm) {
  Sizes back(perm.size()), shape;
  for (auto [to, from] : llvm::enumerate(perm)) {
    back[from] = to;
    shape.push_back(shapeOf(region)[from]);
  }
  return b.transpose(b.reshape(y, shape), back);
}

/// Elements of rows, each row by indices of its own.
static Value putChosen(FoldingBuilder &b, const Scatter &t, Value region) {
  auto [rows, places] = batchOf(t);
  const Component &component = t.components.front();
  Sizes perm(rows), shape, byPlace(places);
  perm.push_back(component.dim);
  for (int64_t d = 0; d < t.rank(); ++d)
    if (!llvm::is_contained(perm, d))
      perm.push_back(d); // of size 1
  for (int64_t d : rows)
    shape.push_back(shapeOf(region)[d]);
  int64_t size = shapeOf(region)[component.dim], last = shape.size();
  Sizes listed(shape);
  shape.push_back(size);
  Value before = b.reshape(b.transpose(region, perm), shape);
  llvm::append_range(byPlace, t.freePlaces());
  listed.push_back(t.countOf(t.freePlaces()));
  Value named =
      b.chosen(b.reshape(b.transpose(component.index, byPlace), listed), size);
  Sizes wide(shapeOf(named));
  Value updates =
      b.reshape(b.transpose(b.reshape(t.updates, t.places), byPlace), listed);
  Value kept =
      b.select(named, b.broadcast(updates, dimRange(0, last + 1), wide),
               b.splat(wide, b.f32(), 0));
  Value after = joined(b, t, before, b.sum(kept, {last}),
                       [&] { return b.sum(b.cast(named, b.f32()), {last}); });
  return turnedBack(b, after, region, perm);
}

/// The row of each update, where all that indices say is one dimension;
/// negative where an index is outside.
static Value rowOf(FoldingBuilder &b, const Scatter &t, Value region,
                   llvm::ArrayRef<int64_t> dims) {
  auto all = [&](double number) { return b.splat(t.places, b.i32(), number); };
  Value row = all(0), isInside = b.truth(t.places, true);
  for (int64_t dim : dims) {
    int64_t size = shapeOf(region)[dim];
    Value index;
    for (const Component &component : t.components)
      if (component.dim == dim)
        index = component.index;
    if (!index)
      index = b.iota(t.places, t.batch[dim]);
    isInside = b.both(isInside, b.compare(CompareKind::GE, index, all(0)));
    isInside = b.both(isInside, b.compare(CompareKind::LT, index, all(size)));
    row = b.add(b.mul(row, all(size)), index);
  }
  return b.select(isInside, row, all(-1));
}

/// Rows of one table, by one index.
static Value putRows(FoldingBuilder &b, const Scatter &t, Value region) {
  Sizes perm = batchOf(t).first;
  for (const Component &component : t.components)
    perm.push_back(component.dim);
  Sizes dims(perm), shape = {1};
  for (int64_t d : dims)
    shape[0] *= shapeOf(region)[d];
  for (int64_t d = 0; d < t.rank(); ++d)
    if (!llvm::is_contained(dims, d)) {
      perm.push_back(d);
      shape.push_back(shapeOf(region)[d]);
    }
  Value before = b.reshape(b.transpose(region, perm), shape);
  Value row = rowOf(b, t, region, dims);
  Sizes listed(t.places);
  llvm::append_range(listed, llvm::ArrayRef(shape).drop_front());
  Value sums = b.plain.scatterAdd(b.reshape(t.updates, listed), row, shape[0]);
  Value after = joined(b, t, before, sums, [&] {
    Value ones = b.splat(t.places, b.f32(), 1);
    Value count = b.plain.scatterAdd(ones, row, shape[0]);
    return b.broadcast(count, {0}, shape);
  });
  return turnedBack(b, after, region, perm);
}

/// True where a window has one element and a batch has rows.
static bool choosesElements(const Scatter &t) {
  auto isOne = [&](int64_t d) { return t.window(d) == 1; };
  return t.components.size() == 1 && !batchOf(t).first.empty() &&
         llvm::all_of(dimRange(0, t.rank()), isOne);
}

static Converted scatter(const Source &s) {
  auto isSum = addsOrPuts(s.op);
  if (s.operands.size() != 3 || !isSum)
    return s.refuse("a scatter by another function than a sum or a "
                    "replacement");
  Scatter t;
  t.isSum = *isSum;
  auto isUnique = s.op->getAttrOfType<BoolAttr>("unique_indices");
  t.isUnique = isUnique && isUnique.getValue();
  int64_t vectorDim =
      numberIn(s.op, "scatter_dimension_numbers", "index_vector_dim")
          .value_or(0);
  if (vectorDim > typeOf(s.operand(1)).getRank() ||
      !readShapes(s, t, vectorDim))
    return s.refuse("a scatter without its dimensions");
  if (std::string reason = readIndices(s, t, vectorDim); !reason.empty())
    return s.refuse(reason);
  if (t.isOutside) // such updates are left out
    return one(t.target);
  FoldingBuilder &b = s.b;
  Value region = regionOf(b, t);
  if (t.components.empty()) {
    if (!t.isSum && t.countOf(t.freePlaces()) > 1 &&
        !FoldingBuilder::splatOf(t.updates))
      return s.refuse("several updates of one place");
    return one(replacePart(b, t.target, putAll(b, t, region), t.starts));
  }
  // Of several that are put, the mean is made of their sum.
  bool isAlone = !t.isSum && areDistinct(t);
  int64_t updates = isAlone ? 1 : typeOf(t.updates).getNumElements();
  Type element = s.element();
  if (!b.isExact(t.updates, updates) || !b.isExact(region, 1))
    return s.refuse("a scatter of whole numbers that may be above 2^24");
  Value before = b.cast(region, b.f32());
  t.updates = b.cast(t.updates, b.f32());
  Value after =
      choosesElements(t) ? putChosen(b, t, before) : putRows(b, t, before);
  if (element.isInteger(1))
    after =
        b.compare(CompareKind::NE, after, b.splat(shapeOf(after), b.f32(), 0));
  return one(replacePart(b, t.target, b.cast(after, element), t.starts));
}

void kerf::addScatters(Conversions &table) {
  table["stablehlo.scatter"] = scatter;
}
