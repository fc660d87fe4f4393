#include "kerf/Sharding/Layout.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Axes and layouts
//===----------------------------------------------------------------------===//

PlanAxes::PlanAxes(PlanAttr plan) {
  for (auto [name, size] :
       llvm::zip(plan.getMesh().getNames(), plan.getMesh().getSizes())) {
    names.push_back(name.str());
    sizes.push_back(size);
  }
  names.push_back(kMicroAxis.str());
  sizes.push_back(plan.getMicroBatches());
  buffer = plan.getMoeBuffer();
}

int64_t PlanAxes::sizeOf(llvm::ArrayRef<unsigned> axes) const {
  int64_t size = 1;
  for (unsigned axis : axes)
    size *= sizes[axis];
  return size;
}

std::optional<unsigned> PlanAxes::find(llvm::StringRef name) const {
  for (auto [index, known] : llvm::enumerate(names))
    if (known == name)
      return index;
  return std::nullopt;
}

int64_t PlanAxes::roomOf(int64_t rows, int64_t ranks) const {
  if (buffer == 0)
    return rows;
  // A product that is whole but for its rounding is not rounded up.
  constexpr double rounding = 1e-9;
  double share = buffer * static_cast<double>(rows) / double(ranks);
  return std::min(rows, static_cast<int64_t>(std::ceil(share - rounding)));
}

std::string PlanAxes::print(llvm::ArrayRef<unsigned> axes) const {
  std::string text = "[";
  for (unsigned axis : axes)
    text += (text.size() > 1 ? ", " : "") + names[axis];
  return text + "]";
}

Layout Layout::whole(int64_t rank) {
  Layout layout;
  layout.dims.resize(rank);
  return layout;
}

bool Layout::isShardedBy(unsigned axis) const {
  return llvm::any_of(dims, [&](const AxisList &axes) {
    return llvm::is_contained(axes, axis);
  });
}

void Layout::setBlocks(unsigned dim, int64_t count) {
  blocks.resize(dims.size(), 1);
  blocks[dim] = count;
  if (llvm::all_of(blocks, [](int64_t n) { return n == 1; }))
    blocks.clear();
}

Layout Layout::reduced() const {
  Layout layout = *this;
  layout.sums.clear();
  layout.maxima.clear();
  return layout;
}

void Layout::forgetParts(unsigned dim) {
  setBlocks(dim, 1);
  if (!isRagged(dim))
    return;
  ragged = -1;
  exchanged = false;
}

Layout Layout::without(unsigned axis) const {
  Layout layout = *this;
  auto drop = [&](AxisList &axes) { llvm::erase(axes, axis); };
  llvm::for_each(layout.dims, drop);
  drop(layout.sums);
  drop(layout.maxima);
  for (auto [d, list] : llvm::enumerate(layout.dims))
    if (list.empty())
      layout.forgetParts(d);
  return layout;
}

std::string kerf::printLayout(const Layout &layout, const PlanAxes &axes) {
  std::string text = "[";
  for (auto [d, dim] : llvm::enumerate(layout.dims)) {
    text += (d ? ", " : "") + axes.print(dim);
    if (layout.blocksOf(d) > 1)
      text += " of " + std::to_string(layout.blocksOf(d)) + " blocks";
    if (layout.isRagged(d))
      text += layout.exchanged ? " exchanged" : " ragged";
  }
  text += "]";
  if (!layout.sums.empty())
    text += " sum " + axes.print(layout.sums);
  if (!layout.maxima.empty())
    text += " max " + axes.print(layout.maxima);
  return text;
}

RankedTensorType kerf::localType(Type global, const Layout &layout,
                                 const PlanAxes &axes) {
  llvm::SmallVector<int64_t> shape(cast<RankedTensorType>(global).getShape());
  for (auto [d, dim] : llvm::enumerate(layout.dims)) {
    if (layout.isRagged(d)) {
      if (layout.exchanged)
        shape[d] = axes.roomOf(shape[d], axes.sizeOf(dim));
      continue;
    }
    assert(shape[d] % axes.sizeOf(dim) == 0 && "checked with the assignment");
    shape[d] /= axes.sizeOf(dim);
  }
  return withShape(global, shape);
}

Layout kerf::sliceLayout(const Layout &stack) {
  Layout layout = stack;
  layout.dims.erase(layout.dims.begin());
  if (!layout.blocks.empty())
    layout.blocks.erase(layout.blocks.begin());
  if (layout.ragged >= 0)
    --layout.ragged;
  return layout;
}

Layout kerf::stackLayout(const Layout &slice) {
  Layout layout = slice;
  layout.dims.insert(layout.dims.begin(), AxisList());
  if (!layout.blocks.empty())
    layout.blocks.insert(layout.blocks.begin(), 1);
  if (layout.ragged >= 0)
    ++layout.ragged;
  return layout;
}

static void insertSorted(AxisList &axes, unsigned axis) {
  auto at = llvm::lower_bound(axes, axis);
  if (at == axes.end() || *at != axis)
    axes.insert(at, axis);
}

//===----------------------------------------------------------------------===//
// Assignments
//===----------------------------------------------------------------------===//

/// Axes by number; those of size 1 split nothing and are left out.
static FailureOr<AxisList> readAxes(Operation *op, llvm::StringRef factor,
                                    llvm::ArrayRef<Attribute> names,
                                    const PlanAxes &axes) {
  AxisList list;
  for (Attribute name : names) {
    auto axis = axes.find(cast<StringAttr>(name).getValue());
    if (!axis)
      return op->emitOpError()
             << "is assigned '" << factor << "' to axis "
             << cast<StringAttr>(name) << ", which the plan's mesh lacks";
    if (axes.sizeOf(*axis) > 1)
      list.push_back(*axis);
  }
  return list;
}

/// True when a factor is split that rows follow to its owners.
static bool splitsOwners(const Factors &facts, const Assignment &assignment) {
  auto isSharded = [&](unsigned f) {
    return facts.factors[f].kind == FactorKind::Whole &&
           !assignment.factors[f].empty();
  };
  return llvm::any_of(facts.maps, [&](const FactorMap &map) {
    return llvm::any_of(map.from, isSharded) || llvm::any_of(map.to, isSharded);
  });
}

FailureOr<Assignment> kerf::getAssignment(Operation *op, const Factors &facts,
                                          const PlanAxes &axes) {
  Assignment assignment;
  assignment.factors.resize(facts.factors.size());
  auto attr = op->getAttrOfType<AssignAttr>(kAssignAttrName);
  if (!attr)
    return assignment;
  for (NamedAttribute entry : attr.getFactors()) {
    llvm::StringRef name = entry.getName();
    auto *factor = llvm::find_if(
        facts.factors, [&](const Factor &f) { return f.name == name; });
    if (factor == facts.factors.end()) {
      std::string known;
      llvm::raw_string_ostream os(known);
      printFactors(os, facts);
      auto diagnostic = op->emitOpError() << "is assigned factor '" << name
                                          << "', which it does not have";
      diagnostic.attachNote() << "its factors are " << known;
      return diagnostic;
    }
    auto list =
        readAxes(op, name, cast<ArrayAttr>(entry.getValue()).getValue(), axes);
    if (failed(list))
      return failure();
    assignment.factors[factor - facts.factors.begin()] = *list;
  }
  llvm::SmallVector<Attribute> pending(attr.getPending().begin(),
                                       attr.getPending().end());
  auto list = readAxes(op, "pending", pending, axes);
  if (failed(list))
    return failure();
  for (unsigned axis : *list)
    insertSorted(assignment.pending, axis);
  assignment.blocks = attr.getBlocks();
  assignment.routed = attr.getRouted() && splitsOwners(facts, assignment);
  for (StringAttr name : attr.getVariants()) {
    auto *variant =
        llvm::find_if(facts.variants, [&](const FactorVariant &known) {
          return known.name == name.getValue();
        });
    if (variant == facts.variants.end())
      return op->emitOpError()
             << "is assigned the variant " << name << ", which it lacks";
    assignment.variants.push_back(variant - facts.variants.begin());
  }
  llvm::sort(assignment.variants);
  return assignment;
}

void kerf::setAssignment(Operation *op, const Factors &facts,
                         const Assignment &assignment, const PlanAxes &axes) {
  MLIRContext *context = op->getContext();
  auto names = [&](llvm::ArrayRef<unsigned> list) {
    return llvm::map_to_vector(list, [&](unsigned axis) {
      return StringAttr::get(context, axes.nameOf(axis));
    });
  };
  NamedAttrList factors;
  for (auto [factor, list] :
       llvm::zip_equal(facts.factors, assignment.factors)) {
    if (list.empty())
      continue;
    auto strings = names(list);
    llvm::SmallVector<Attribute> attrs(strings.begin(), strings.end());
    factors.set(factor.name, ArrayAttr::get(context, attrs));
  }
  auto pending = names(assignment.pending);
  auto variants = llvm::map_to_vector(assignment.variants, [&](unsigned index) {
    return StringAttr::get(context, facts.variants[index].name);
  });
  op->setAttr(kAssignAttrName,
              AssignAttr::get(context, factors.getDictionary(context),
                              llvm::ArrayRef<StringAttr>(pending),
                              llvm::ArrayRef<StringAttr>(variants),
                              assignment.blocks, assignment.routed));
}

bool kerf::sumsSquares(const Factors &facts) {
  return llvm::any_of(facts.variants, [](const FactorVariant &variant) {
    return variant.name == "sum_squares";
  });
}

bool kerf::exchangesRows(const Factors &facts, const Assignment &assignment) {
  return llvm::any_of(assignment.variants,
                      [&](unsigned v) { return facts.variants[v].exchanges; });
}

//===----------------------------------------------------------------------===//
// Layouts of ops
//===----------------------------------------------------------------------===//

/// True for a factor that data relates to another.
static bool isMapped(const Factors &facts, unsigned factor) {
  return llvm::any_of(facts.maps, [&](const FactorMap &map) {
    return llvm::is_contained(map.from, factor) ||
           llvm::is_contained(map.to, factor);
  });
}

/// Checks that all of a map's factors which must otherwise stay whole are split
/// alike; empty when it is fine.
static std::string checkMaps(const Factors &facts,
                             const Assignment &assignment) {
  for (const FactorMap &map : facts.maps) {
    int first = -1;
    for (const auto &list : {map.from, map.to})
      for (unsigned f : list) {
        if (facts.factors[f].kind != FactorKind::Whole)
          continue;
        if (first >= 0 && assignment.factors[f] != assignment.factors[first])
          return "rows go to the owners of '" + facts.factors[f].name +
                 "', so '" + facts.factors[first].name +
                 "' is split by the same axes";
        first = f;
      }
  }
  return "";
}

/// Checks that rows reach their owners in one way; empty when they do.
static std::string checkWay(const Factors &facts,
                            const Assignment &assignment) {
  for (unsigned v : assignment.variants)
    if (facts.variants[v].exchanges && assignment.routed)
      return "rows are exchanged by the variant '" + facts.variants[v].name +
             "' and gathered as 'routed', expected one of the two";
  return "";
}

/// Checks the axes of a factor that is split with communication in the op;
/// empty when they are fine.
static std::string checkGroup(const Factors &facts, unsigned index,
                              const Assignment &assignment,
                              const PlanAxes &axes, bool inOrder) {
  const AxisList &list = assignment.factors[index];
  const std::string &name = facts.factors[index].name;
  if (llvm::is_contained(list, axes.micro()))
    return "factor '" + name +
           "' is split by micro-batches, which are not there "
           "at one time";
  if (inOrder && !llvm::is_sorted(list))
    return "factor '" + name + "' is split over " + axes.print(list) +
           ", expected axes in the order of the mesh";
  return "";
}

/// Checks that the factors of a variant are split as it asks for; empty when
/// they are.
static std::string checkFellows(const Factors &facts,
                                const FactorVariant &variant,
                                const Assignment &assignment) {
  auto axesOf = [&](unsigned f) {
    return llvm::ArrayRef<unsigned>(assignment.factors[f]);
  };
  auto nameOf = [&](unsigned f) { return "'" + facts.factors[f].name + "'"; };
  unsigned first = variant.factors.front();
  for (unsigned other : variant.factors) {
    if (variant.together && axesOf(other) != axesOf(first))
      return "the variant '" + variant.name + "' splits factors " +
             nameOf(first) + " and " + nameOf(other) + " by the same axes";
    size_t moved = axesOf(other).size();
    if (variant.exchanges && (moved > axesOf(first).size() ||
                              axesOf(first).take_back(moved) != axesOf(other)))
      return "the variant '" + variant.name + "' moves rows from parts of " +
             nameOf(first) + " to those of " + nameOf(other) +
             ", whose axes are the last of the former";
  }
  return "";
}

/// Checks that a factor which must stay whole is split by a variant in use, and
/// together with its fellows where that is asked for; empty when it is fine.
static std::string checkWhole(const Factors &facts, unsigned index,
                              const Assignment &assignment,
                              const PlanAxes &axes) {
  if (assignment.routed && isMapped(facts, index)) {
    std::string wrong = checkMaps(facts, assignment);
    return wrong.empty() ? checkGroup(facts, index, assignment, axes, false)
                         : wrong;
  }
  const std::string &name = facts.factors[index].name;
  std::string known;
  for (auto [v, variant] : llvm::enumerate(facts.variants)) {
    if (!llvm::is_contained(variant.factors, index))
      continue;
    known = variant.name;
    if (!llvm::is_contained(assignment.variants, v))
      continue;
    if (std::string wrong = checkFellows(facts, variant, assignment);
        !wrong.empty())
      return wrong;
    return variant.leavesSum
               ? ""
               : checkGroup(facts, index, assignment, axes,
                            /*inOrder=*/variant.together || variant.exchanges);
  }
  if (!known.empty())
    return "factor '" + name + "' can be split by the variant '" + known +
           "' only, which the assignment does not name";
  return "factor '" + name + "' must stay whole";
}

/// Checks the split of one factor; empty when it is fine.
static std::string checkFactor(const Factors &facts, unsigned index,
                               const Assignment &assignment,
                               const PlanAxes &axes) {
  const Factor &factor = facts.factors[index];
  const AxisList &list = assignment.factors[index];
  if (list.empty())
    return "";
  if (factor.kind == FactorKind::Whole && !sumsSquares(facts))
    if (std::string wrong = checkWhole(facts, index, assignment, axes);
        !wrong.empty())
      return wrong;
  int64_t parts = axes.sizeOf(list);
  if (factor.size % parts == 0)
    return "";
  return "factor '" + factor.name + "' of size " + std::to_string(factor.size) +
         " does not divide into " + std::to_string(parts) + " parts over " +
         axes.print(list);
}

/// True for a factor that a variant in use, or a map, splits together with one
/// before it.
static bool followsAnother(const Factors &facts, const Assignment &assignment,
                           unsigned factor) {
  if (assignment.routed && isMapped(facts, factor))
    for (unsigned f = 0; f < factor; ++f)
      if (isMapped(facts, f) &&
          assignment.factors[f] == assignment.factors[factor])
        return true;
  return llvm::any_of(assignment.variants, [&](unsigned v) {
    const FactorVariant &variant = facts.variants[v];
    return (variant.together || variant.exchanges) &&
           variant.factors.front() != factor &&
           llvm::is_contained(variant.factors, factor);
  });
}

/// Checks that no axis is used twice; empty when it is fine.
static std::string checkAxes(const Factors &facts, const Assignment &assignment,
                             const PlanAxes &axes) {
  llvm::SmallVector<unsigned> times(axes.count(), 0);
  auto count = [&](const AxisList &list) {
    for (unsigned axis : list)
      ++times[axis];
  };
  auto twice = [&]() -> std::string {
    for (auto [axis, n] : llvm::enumerate(times))
      if (n > 1)
        return "axis '" + axes.nameOf(axis).str() + "' is used twice";
    return "";
  };
  if (!sumsSquares(facts)) {
    for (auto [f, list] : llvm::enumerate(assignment.factors))
      if (!followsAnother(facts, assignment, f))
        count(list);
    count(assignment.pending);
    return twice();
  }
  for (const TensorFactors &operand : facts.operands) {
    times.assign(axes.count(), 0);
    for (const DimFactors &dim : operand)
      for (unsigned f : dim)
        count(assignment.factors[f]);
    if (std::string error = twice(); !error.empty())
      return error;
  }
  return "";
}

namespace {
/// How the factors of one op are split.
struct FactorSplits {
  const Factors &facts;
  const Assignment &assignment;
  const PlanAxes &axes;
  int inBlocks = -1;                 ///< the factor that is split in blocks
  int64_t outer = 1;                 ///< blocks of that factor itself
  llvm::SmallVector<bool, 6> ragged; ///< parts as long as data says
  bool exchanged = false;            ///< the ragged parts

  std::string findBlocks();
  std::string findRagged(llvm::ArrayRef<Layout> arriving);
  std::string layoutOf(const TensorFactors &dims, Layout &layout) const;
  AxisList axesIn(const TensorFactors &dims, unsigned factor) const;
  std::string split(Layout &layout, unsigned d,
                    const TensorFactors &dims) const;
};
} // namespace

/// Elements of a dimension per element of its `factor`.
static int64_t sizeBefore(const Factors &facts, const DimFactors &dim,
                          unsigned factor) {
  int64_t size = 1;
  for (unsigned f : dim) {
    if (f == factor)
      return size;
    size *= facts.factors[f].size;
  }
  return 1;
}

/// What is made of blocks only the axis `tp` shards. The number of blocks is
/// that of the tensor in which there are most: of a slice of thirds 3, as of
/// what it slices, though its result is no longer made of blocks.
std::string FactorSplits::findBlocks() {
  if (assignment.blocks == 1)
    return "";
  std::optional<unsigned> axis = axes.find(kTensorAxis);
  for (auto [f, list] : llvm::enumerate(assignment.factors))
    if (axis && llvm::is_contained(list, *axis))
      inBlocks = f;
  if (inBlocks < 0)
    return "";
  int64_t most = 1;
  auto count = [&](const TensorFactors &dims) {
    for (const DimFactors &dim : dims)
      most = std::max(most, sizeBefore(facts, dim, inBlocks));
  };
  llvm::for_each(facts.operands, count);
  llvm::for_each(facts.results, count);
  outer = assignment.blocks / most;
  const Factor &factor = facts.factors[inBlocks];
  int64_t parts = outer * axes.sizeOf(assignment.factors[inBlocks]);
  if (assignment.blocks % most != 0 || factor.size % parts != 0)
    return "factor '" + factor.name + "' of size " +
           std::to_string(factor.size) + " does not divide into parts of " +
           std::to_string(assignment.blocks) + " blocks over " +
           axes.print(assignment.factors[inBlocks]);
  if (outer > 1 && facts.readsPositions())
    return "the op reads global indices, which parts of blocks do not have";
  return "";
}

/// Rows are ragged where the op's map says so, and in ops that pass them on.
std::string FactorSplits::findRagged(llvm::ArrayRef<Layout> arriving) {
  ragged.assign(facts.factors.size(), false);
  exchanged = exchangesRows(facts, assignment);
  for (const FactorMap &map : facts.maps)
    if (map.ragged >= 0)
      ragged[map.ragged] = (assignment.routed || exchanged) &&
                           !assignment.factors[map.ragged].empty();
  for (auto [layout, dims] : llvm::zip_equal(arriving, facts.operands)) {
    if (layout.ragged < 0 || dims[layout.ragged].size() != 1)
      continue;
    unsigned f = dims[layout.ragged][0];
    if (isMapped(facts, f) ||
        assignment.factors[f] != layout.dims[layout.ragged])
      continue;
    if (facts.factors[f].kind != FactorKind::Parallel || facts.readsPositions())
      return "factor '" + facts.factors[f].name +
             "' is split by experts, whose rows have no place of their own";
    ragged[f] = true;
    exchanged |= layout.exchanged;
  }
  return "";
}

/// The axes that split a factor in a tensor: what moves rows to another
/// factor's parts splits that one.
AxisList FactorSplits::axesIn(const TensorFactors &dims,
                              unsigned factor) const {
  AxisList list = assignment.factors[factor];
  for (unsigned v : assignment.variants) {
    const FactorVariant &variant = facts.variants[v];
    if (variant.exchanges && !variant.together &&
        factor == variant.factors.front() &&
        hasFactor(dims, variant.factors.back()))
      list.truncate(list.size() -
                    assignment.factors[variant.factors.back()].size());
  }
  return list;
}

/// Shards one dimension by the axes of its factors.
std::string FactorSplits::split(Layout &layout, unsigned d,
                                const TensorFactors &dims) const {
  AxisList &list = layout.dims[d];
  int64_t major = 1; // elements of the part along the factors before
  for (unsigned f : dims[d]) {
    AxisList own = axesIn(dims, f);
    int64_t blocks = int(f) == inBlocks ? outer * major : major;
    bool isWhole = list.empty() && layout.blocksOf(d) == 1;
    if (!own.empty() && blocks != 1 && (int(f) != inBlocks || !isWhole))
      return "factor '" + facts.factors[f].name +
             "' is a minor part of a dimension: its parts are no contiguous "
             "ranges";
    if (!own.empty() && !isWhole && layout.blocksOf(d) != 1)
      return "a dimension that is split in blocks is split once more";
    list.append(own.begin(), own.end());
    if (!own.empty() && blocks != 1)
      layout.setBlocks(d, blocks);
    if (ragged[f] && !own.empty()) {
      layout.ragged = d;
      layout.exchanged = exchanged;
    }
    major *= facts.factors[f].size / axes.sizeOf(own);
  }
  return "";
}

/// Layout of a tensor whose dimensions are made of factors.
std::string FactorSplits::layoutOf(const TensorFactors &dims,
                                   Layout &layout) const {
  layout = Layout::whole(dims.size());
  for (unsigned d = 0; d < dims.size(); ++d)
    if (std::string error = split(layout, d, dims); !error.empty())
      return error;
  return "";
}

/// Lets one pending axis pass through the op; returns what is wrong.
static std::string passPending(const Factors &facts, unsigned axis,
                               llvm::ArrayRef<Layout> arriving,
                               const PlanAxes &axes, OpLayouts &layouts) {
  llvm::SmallVector<unsigned> carriers;
  for (unsigned operand : facts.linearOperands) {
    const Layout &layout = arriving[operand];
    bool fits = llvm::is_contained(layout.sums, axis) || layout.any ||
                (facts.jointly && layout.zero);
    if (fits)
      carriers.push_back(operand);
    if (fits && !facts.jointly)
      break;
  }
  size_t expected = facts.jointly ? facts.linearOperands.size() : 1;
  if (carriers.empty() || carriers.size() != expected)
    return "no sum over '" + axes.nameOf(axis).str() +
           "' arrives at the operands it is linear in; leave '" +
           axes.nameOf(axis).str() +
           "' out of what is pending here, or split what its operand is summed "
           "over by it";
  for (unsigned operand : carriers)
    insertSorted(layouts.operands[operand].sums, axis);
  for (Layout &result : layouts.results)
    insertSorted(result.sums, axis);
  return "";
}

FailureOr<OpLayouts> kerf::layoutsOf(const Factors &facts,
                                     const Assignment &assignment,
                                     llvm::ArrayRef<Layout> arriving,
                                     const PlanAxes &axes, std::string &error) {
  OpLayouts layouts;
  error = checkWay(facts, assignment);
  if (error.empty())
    error = checkAxes(facts, assignment, axes);
  for (unsigned f = 0; error.empty() && f < facts.factors.size(); ++f)
    error = checkFactor(facts, f, assignment, axes);
  FactorSplits splits = {facts, assignment, axes, -1, 1, {}};
  if (error.empty())
    error = splits.findBlocks();
  if (error.empty())
    error = splits.findRagged(arriving);
  auto add = [&](const TensorFactors &dims, llvm::SmallVector<Layout> &to) {
    if (error.empty())
      error = splits.layoutOf(dims, to.emplace_back());
  };
  for (const TensorFactors &dims : facts.operands)
    add(dims, layouts.operands);
  for (const TensorFactors &dims : facts.results)
    add(dims, layouts.results);
  if (!error.empty())
    return failure();
  if (sumsSquares(facts)) // Any parts will do.
    for (auto [need, layout] : llvm::zip_equal(layouts.operands, arriving))
      if (need.dims == layout.dims)
        need.blocks = layout.blocks;
  for (auto [dims, result] : llvm::zip_equal(facts.results, layouts.results))
    for (auto [f, list] : llvm::enumerate(assignment.factors)) {
      FactorKind kind = facts.factors[f].kind;
      // Rows that are gathered from their owners add up, over the axes of the
      // owners that do not shard the result as well.
      if (kind == FactorKind::Whole && assignment.routed && isMapped(facts, f))
        kind = FactorKind::Sum;
      if (hasFactor(dims, f) || kind == FactorKind::Parallel ||
          kind == FactorKind::Whole)
        continue;
      for (unsigned axis : list)
        // Factors of a variant that are split together are one split.
        if (!result.isShardedBy(axis) &&
            !(facts.maxOfMicroBatch && axis == axes.micro()))
          insertSorted(kind == FactorKind::Sum ? result.sums : result.maxima,
                       axis);
    }
  for (unsigned axis : assignment.pending) {
    error = passPending(facts, axis, arriving, axes, layouts);
    if (!error.empty())
      return failure();
  }
  return layouts;
}
