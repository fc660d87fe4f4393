//===- Rows.cpp - looking up by index -------------------------------------===//

#include "Converter.h"
#include "Parts.h"

using namespace kerf;
using namespace mlir;

namespace {

/// A gather as its attributes say it, with the known parts of its indices
/// taken off.
struct Gather {
  Value table, indices;
  Sizes offsetDims, collapsed, tableBatch, indexBatch, indexed, sizes;
  int64_t indexVector = 0;

  /// The dimensions of the table that an index says, and which component.
  struct Component {
    int64_t dim = 0;
    Value index; ///< without the vector's dimension
  };
  llvm::SmallVector<Component> components;

  bool isCollapsed(int64_t dim) const {
    return llvm::is_contained(collapsed, dim);
  }
};

} // namespace

static Gather gatherOf(const Source &s) {
  auto list = [&](llvm::StringRef field) {
    return listIn(s.op, "dimension_numbers", field);
  };
  Gather g = {s.operand(0),
              s.operand(1),
              list("offset_dims"),
              list("collapsed_slice_dims"),
              list("operand_batching_dims"),
              list("start_indices_batching_dims"),
              list("start_index_map"),
              sizesOf(s.op, "slice_sizes"),
              0,
              {}};
  g.indexVector =
      numberIn(s.op, "dimension_numbers", "index_vector_dim").value_or(0);
  return g;
}

/// Indices brought into a table of so many rows, as StableHLO does.
static Value inside(FoldingBuilder &b, Value index, int64_t rows) {
  Value zero = b.splat(shapeOf(index), b.i32(), 0);
  return b.min(b.max(index, zero), b.splat(shapeOf(index), b.i32(), rows - 1));
}

/// Takes indices off that are known: of a slice, or of a dimension that the
/// indices count along. False where parts of more than one row are taken by an
/// index.
static bool takeKnown(FoldingBuilder &b, Gather &g) {
  llvm::SmallVector<Gather::Component> left;
  for (auto [n, dim] : llvm::enumerate(g.indexed)) {
    Value index = componentOf(b, g.indices, g.indexVector, n, g.indexed.size());
    int64_t size = g.sizes[dim], whole = shapeOf(g.table)[dim];
    auto known = FoldingBuilder::splatOf(index);
    if (size == whole)
      continue;
    if (known) {
      Sizes offsets(shapeOf(g.table).size(), 0), sizes(shapeOf(g.table));
      offsets[dim] = std::clamp<int64_t>(*known, 0, whole - size);
      sizes[dim] = size;
      g.table = b.slice(g.table, offsets, sizes);
      continue;
    }
    if (size != 1)
      return false;
    left.push_back({dim, inside(b, index, whole)});
  }
  // What counts along a dimension is a dimension of both.
  for (const Gather::Component &component : left) {
    auto along = [&](int64_t d) {
      return shapeOf(component.index)[d] == shapeOf(g.table)[component.dim] &&
             !llvm::is_contained(g.indexBatch, d) &&
             countsAlong(component.index, d);
    };
    std::optional<int64_t> dim;
    if (left.size() > 1 && g.isCollapsed(component.dim))
      for (int64_t d = 0; d < typeOf(component.index).getRank(); ++d)
        if (!dim && along(d))
          dim = d;
    if (!dim) {
      g.components.push_back(component);
      continue;
    }
    g.tableBatch.push_back(component.dim);
    g.indexBatch.push_back(*dim);
  }
  return true;
}

/// Dimensions of the result that slices of the table have, in the table's
/// order.
static Sizes offsetSources(const Gather &g) {
  Sizes sources;
  for (int64_t d = 0; d < typeOf(g.table).getRank(); ++d)
    if (!g.isCollapsed(d) && !llvm::is_contained(g.tableBatch, d))
      sources.push_back(d);
  return sources;
}

/// `x` has dimensions of indices first, then those of slices; the result has
/// the latter at `offsetDims`.
static Value placed(const Source &s, const Gather &g, Value x,
                    int64_t indexRank) {
  int64_t rank = s.shape().size();
  Sizes perm(rank, -1);
  for (auto [n, dim] : llvm::enumerate(g.offsetDims))
    perm[dim] = indexRank + n;
  int64_t next = 0;
  for (int64_t &d : perm)
    if (d < 0)
      d = next++;
  return s.b.transpose(x, perm);
}

/// The first rows in their order, where the index counts along a dimension of
/// its own: table [N, ...] as [index..., ...]. Null else.
static Value firstRows(FoldingBuilder &b, Value table, Value index) {
  for (auto [d, count] : llvm::enumerate(shapeOf(index))) {
    if (count < 2 || count > shapeOf(table)[0] || !countsAlong(index, d))
      continue;
    Sizes offsets(typeOf(table).getRank(), 0), sizes(shapeOf(table));
    sizes[0] = count;
    Sizes shape(shapeOf(index)), dims = {static_cast<int64_t>(d)};
    for (int64_t size : shapeOf(table).drop_front()) {
      dims.push_back(shape.size());
      shape.push_back(size);
    }
    return b.broadcast(b.slice(table, offsets, sizes), dims, shape);
  }
  return {};
}

/// Rows of one dimension, by the same indices everywhere.
static Value lookUp(const Source &s, const Gather &g) {
  const Gather::Component &component = g.components.front();
  Sizes front = {component.dim}, rest;
  for (int64_t d = 0; d < typeOf(g.table).getRank(); ++d)
    if (d != component.dim)
      front.push_back(d);
  Value table = s.b.transpose(g.table, front);
  Value y;
  FoldingBuilder &b = s.b;
  Sizes shape(shapeOf(component.index));
  llvm::append_range(shape, shapeOf(table).drop_front());
  if ((y = firstRows(b, table, component.index)))
    ;
  else if (typeOf(table).getRank() == 2 &&
           typeOf(table).getElementType().isF32())
    y = EmbeddingOp::create(b.plain.builder, b.plain.loc,
                            b.type(shape, b.f32()), component.index, table,
                            /*offset=*/Value(), /*padding=*/IntegerAttr());
  else
    y = b.plain.gather(table, component.index);
  // Slices have the dimensions that stay, in the table's order.
  Sizes full(shapeOf(component.index));
  for (int64_t d : offsetSources(g))
    full.push_back(d == component.dim ? 1 : shapeOf(g.table)[d]);
  return placed(s, g, b.reshape(y, full), typeOf(component.index).getRank());
}

/// One element of each row, by an index of its own: the sum over the row of
/// what the index chooses.
static Value pick(const Source &s, const Gather &g) {
  FoldingBuilder &b = s.b;
  const Gather::Component &component = g.components.front();
  int64_t rank = typeOf(g.table).getRank();
  int64_t indexRank = typeOf(component.index).getRank();
  if (!g.isCollapsed(component.dim))
    return {};
  for (int64_t d = 0; d < rank; ++d) // others have size 1
    if (d != component.dim && !llvm::is_contained(g.tableBatch, d) &&
        shapeOf(g.table)[d] != 1)
      return {};
  // The table with dimensions of the indices, and its own last.
  int64_t size = shapeOf(g.table)[component.dim];
  Sizes wide(shapeOf(component.index)), dims(rank, indexRank);
  wide.push_back(size);
  for (auto [d, to] : llvm::zip_equal(g.tableBatch, g.indexBatch))
    dims[d] = to;
  Value rows = b.broadcast(g.table, dims, wide);
  Value kept = b.select(b.chosen(component.index, size), rows,
                        b.splat(wide, typeOf(rows).getElementType(), 0));
  return b.sum(kept, {indexRank});
}

/// Rows of several dimensions, as of one that has them all: the number of a
/// row counts through them.
static Value lookUpTogether(const Source &s, const Gather &g) {
  FoldingBuilder &b = s.b;
  Value index = g.components.front().index;
  Sizes places(shapeOf(index)), perm(g.tableBatch), shape = {1};
  Value row = b.splat(places, b.i32(), 0);
  auto count = [&](int64_t dim, Value number) {
    int64_t size = shapeOf(g.table)[dim];
    row = b.add(b.mul(row, b.splat(places, b.i32(), size)), number);
    shape[0] *= size;
  };
  for (auto [dim, place] : llvm::zip_equal(g.tableBatch, g.indexBatch))
    count(dim, b.iota(places, place));
  for (const Gather::Component &component : g.components) {
    perm.push_back(component.dim);
    count(component.dim, component.index);
  }
  Sizes full(places);
  for (int64_t d = 0; d < typeOf(g.table).getRank(); ++d)
    if (!llvm::is_contained(perm, d)) {
      perm.push_back(d);
      shape.push_back(shapeOf(g.table)[d]);
    }
  Value y = b.plain.gather(b.reshape(b.transpose(g.table, perm), shape), row);
  for (int64_t d : offsetSources(g)) {
    bool isRow =
        llvm::any_of(g.components, [&](const auto &c) { return c.dim == d; });
    full.push_back(isRow ? 1 : shapeOf(g.table)[d]);
  }
  return placed(s, g, b.reshape(y, full), places.size());
}

/// True where slices are elements, whatever dimensions of size 1 they have.
static bool takesElements(const Source &s, const Gather &g) {
  return llvm::all_of(g.offsetDims,
                      [&](int64_t d) { return s.shape()[d] == 1; });
}

/// True where the table has one row, but for dimensions of size 1: an element
/// of it is picked.
static bool isOneRow(const Source &s, const Gather &g, int64_t dim) {
  return takesElements(s, g) && typeOf(g.table).getRank() > 1 &&
         typeOf(g.table).getNumElements() == shapeOf(g.table)[dim];
}

static Converted gather(const Source &s) {
  Gather g = gatherOf(s);
  if (!takeKnown(s.b, g))
    return s.refuse("a gather of parts whose places are no known numbers");
  if (g.components.empty() && g.tableBatch.empty()) {
    // A slice, the same for all indices.
    Sizes dims, shape;
    for (int64_t d : offsetSources(g))
      shape.push_back(shapeOf(g.table)[d]);
    return one(
        s.b.broadcast(s.b.reshape(g.table, shape), g.offsetDims, s.shape()));
  }
  if (g.components.size() == 1 && g.tableBatch.empty() &&
      !isOneRow(s, g, g.components.front().dim))
    return one(lookUp(s, g));
  if (g.components.size() == 1 && takesElements(s, g))
    if (Value picked = pick(s, g))
      return one(s.b.reshape(picked, s.shape()));
  if (g.components.empty())
    return s.refuse("a gather of parts by indices of their own");
  return one(lookUpTogether(s, g));
}

static Converted topK(const Source &s) {
  auto k = integerOf(s.op, "k");
  if (!k || !typeOf(s.operand(0)).getElementType().isF32())
    return s.refuse("a choice of the largest among whole numbers");
  auto op = TopKOp::create(s.b.plain.builder, s.b.plain.loc, s.operand(0), *k);
  int64_t last = shapeOf(s.operand(0)).back();
  s.b.setRange(op.getIndices(), {0, last - 1});
  return std::vector<Value>{op.getValues(), op.getIndices()};
}

void kerf::addRows(Conversions &table) {
  table["stablehlo.gather"] = gather;
  table["chlo.top_k"] = topK;
}
