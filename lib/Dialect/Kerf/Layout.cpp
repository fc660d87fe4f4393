#include "kerf/Dialect/Kerf/Layout.h"

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

bool Layout::isCutBy(unsigned axis) const {
  return llvm::any_of(dims, [&](const AxisList &axes) {
    return llvm::is_contained(axes, axis);
  });
}

Layout Layout::reduced() const {
  Layout layout = *this;
  layout.sums.clear();
  layout.maxima.clear();
  return layout;
}

Layout Layout::without(unsigned axis) const {
  Layout layout = *this;
  auto drop = [&](AxisList &axes) { llvm::erase(axes, axis); };
  llvm::for_each(layout.dims, drop);
  drop(layout.sums);
  drop(layout.maxima);
  return layout;
}

std::string kerf::printLayout(const Layout &layout, const PlanAxes &axes) {
  std::string text = "[";
  for (auto [d, dim] : llvm::enumerate(layout.dims))
    text += (d ? ", " : "") + axes.print(dim);
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
  for (auto [size, dim] : llvm::zip_equal(shape, layout.dims)) {
    assert(size % axes.sizeOf(dim) == 0 && "checked with the assignment");
    size /= axes.sizeOf(dim);
  }
  return withShape(global, shape);
}

Layout kerf::sliceLayout(const Layout &stack) {
  Layout layout = stack;
  layout.dims.erase(layout.dims.begin());
  return layout;
}

Layout kerf::stackLayout(const Layout &slice) {
  Layout layout = slice;
  layout.dims.insert(layout.dims.begin(), AxisList());
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

/// Axes by number; those of size 1 cut nothing and are left out.
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
  assignment.routed = attr.getRouted();
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

//===----------------------------------------------------------------------===//
// Layouts of ops
//===----------------------------------------------------------------------===//

static bool hasFactor(const TensorFactors &dims, unsigned factor) {
  return llvm::any_of(dims, [&](const DimFactors &dim) {
    return llvm::is_contained(dim, factor);
  });
}

/// True for a factor that data relates to another.
static bool isMapped(const Factors &facts, unsigned factor) {
  return llvm::any_of(facts.maps, [&](const FactorMap &map) {
    return llvm::is_contained(map.from, factor) ||
           llvm::is_contained(map.to, factor);
  });
}

/// Checks that a factor which must stay whole is cut by a variant in use, and
/// together with its fellows where that is asked for; empty when it is fine.
static std::string checkWhole(const Factors &facts, unsigned index,
                              const Assignment &assignment) {
  if (assignment.routed && isMapped(facts, index))
    return "";
  const std::string &name = facts.factors[index].name;
  std::string known;
  for (auto [v, variant] : llvm::enumerate(facts.variants)) {
    if (!llvm::is_contained(variant.factors, index))
      continue;
    known = variant.name;
    if (!llvm::is_contained(assignment.variants, v))
      continue;
    for (unsigned other : variant.factors)
      if (variant.together &&
          assignment.factors[other] != assignment.factors[index])
        return "the variant '" + variant.name + "' cuts factors '" + name +
               "' and '" + facts.factors[other].name + "' by the same axes";
    return "";
  }
  if (!known.empty())
    return "factor '" + name + "' can be cut by the variant '" + known +
           "' only, which the assignment does not name";
  return "factor '" + name + "' must stay whole";
}

/// Checks the cut of one factor; empty when it is fine.
static std::string checkFactor(const Factors &facts, unsigned index,
                               const Assignment &assignment,
                               const PlanAxes &axes) {
  const Factor &factor = facts.factors[index];
  const AxisList &list = assignment.factors[index];
  if (list.empty())
    return "";
  if (factor.kind == FactorKind::Whole && !sumsSquares(facts))
    if (std::string wrong = checkWhole(facts, index, assignment);
        !wrong.empty())
      return wrong;
  int64_t parts = axes.sizeOf(list);
  if (factor.size % parts == 0)
    return "";
  return "factor '" + factor.name + "' of size " + std::to_string(factor.size) +
         " does not divide into " + std::to_string(parts) + " parts over " +
         axes.print(list);
}

/// True for a factor that a variant in use, or a map, cuts together with one
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
    return variant.together && variant.factors.front() != factor &&
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

/// Layout of a tensor whose dimensions are made of factors.
static std::string layoutOf(const Factors &facts, const TensorFactors &dims,
                            const Assignment &assignment, const PlanAxes &axes,
                            Layout &layout) {
  layout = Layout::whole(dims.size());
  for (auto [list, dim] : llvm::zip_equal(layout.dims, dims)) {
    int64_t major = 1; // elements of the part along the factors before
    for (unsigned f : dim) {
      const AxisList &own = assignment.factors[f];
      if (!own.empty() && major != 1 && assignment.blocks == 1)
        return "factor '" + facts.factors[f].name +
               "' is a minor part of a dimension: its parts are no contiguous "
               "ranges";
      list.append(own.begin(), own.end());
      major *= facts.factors[f].size / axes.sizeOf(own);
    }
  }
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
           "' arrives at the operands it is linear in";
  for (unsigned operand : carriers)
    insertSorted(layouts.operands[operand].sums, axis);
  for (Layout &result : layouts.results)
    insertSorted(result.sums, axis);
  return "";
}

/// True when a tensor has a factor of a map that is cut.
static bool hasMapped(const Factors &facts, const TensorFactors &dims,
                      const Assignment &assignment) {
  for (auto [f, list] : llvm::enumerate(assignment.factors))
    if (!list.empty() && isMapped(facts, f) && hasFactor(dims, f))
      return true;
  return false;
}

FailureOr<OpLayouts> kerf::layoutsOf(const Factors &facts,
                                     const Assignment &assignment,
                                     llvm::ArrayRef<Layout> arriving,
                                     const PlanAxes &axes, std::string &error) {
  OpLayouts layouts;
  error = checkAxes(facts, assignment, axes);
  for (unsigned f = 0; error.empty() && f < facts.factors.size(); ++f)
    error = checkFactor(facts, f, assignment, axes);
  auto add = [&](const TensorFactors &dims, llvm::SmallVector<Layout> &to) {
    if (error.empty())
      error = layoutOf(facts, dims, assignment, axes, to.emplace_back());
  };
  for (const TensorFactors &dims : facts.operands)
    add(dims, layouts.operands);
  for (const TensorFactors &dims : facts.results)
    add(dims, layouts.results);
  if (!error.empty())
    return failure();
  for (auto [dims, result] : llvm::zip_equal(facts.results, layouts.results))
    for (auto [f, list] : llvm::enumerate(assignment.factors)) {
      FactorKind kind = facts.factors[f].kind;
      // Rows that are gathered from their owners add up.
      if (kind == FactorKind::Whole && assignment.routed &&
          isMapped(facts, f) && !hasMapped(facts, dims, assignment))
        kind = FactorKind::Sum;
      if (hasFactor(dims, f) || kind == FactorKind::Parallel ||
          kind == FactorKind::Whole)
        continue;
      for (unsigned axis : list)
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

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

namespace {
/// Builds the steps of one conversion.
class Converting {
public:
  Converting(const Layout &from, const Layout &to, const PlanAxes &axes,
             std::string &error)
      : current(from), to(to), axes(axes), error(error) {}

  FailureOr<llvm::SmallVector<ConversionStep>> run() {
    if (current.any)
      return steps;
    if (!reduce(current.sums, to.sums, ReduceKind::Sum) ||
        !reduce(current.maxima, to.maxima, ReduceKind::Max))
      return failure();
    exchange();
    if (!gather())
      return failure();
    for (size_t d = 0; d < to.dims.size(); ++d) {
      llvm::ArrayRef<unsigned> rest(to.dims[d]);
      rest = rest.drop_front(current.dims[d].size());
      if (!rest.empty())
        step({ConversionStep::SliceOwn, AxisList(rest), int64_t(d)});
    }
    return steps;
  }

private:
  void step(ConversionStep next) {
    current = applyStep(current, next);
    steps.push_back(next);
  }

  /// The dimension of `to` that is cut by `axis` next after the present cuts,
  /// or -1.
  int64_t nextDim(unsigned axis) {
    for (auto [d, list] : llvm::enumerate(to.dims)) {
      llvm::ArrayRef<unsigned> have(current.dims[d]), want(list);
      if (have.size() < want.size() && want.take_front(have.size()) == have &&
          want[have.size()] == axis)
        return d;
    }
    return -1;
  }

  bool reduce(const AxisList &have, const AxisList &want, ReduceKind kind) {
    AxisList rest;
    for (unsigned axis : have)
      if (!llvm::is_contained(want, axis))
        rest.push_back(axis);
    for (unsigned axis : want)
      if (!llvm::is_contained(have, axis) &&
          !(current.zero && kind == ReduceKind::Sum)) {
        error = "a whole value is needed as a pending sum over '" +
                axes.nameOf(axis).str() + "'";
        return false;
      }
    if (llvm::is_contained(rest, axes.micro())) {
      error = "a sum over all micro-batches is needed within one of them";
      return false;
    }
    for (size_t i = 0; i < rest.size();) {
      int64_t dim = nextDim(rest[i]);
      if (dim < 0) {
        ++i;
        continue;
      }
      step({ConversionStep::ReduceScatter, {rest[i]}, dim, 0, kind});
      rest.erase(rest.begin() + i);
      i = 0; // Another axis may come next now.
    }
    if (!rest.empty())
      step({ConversionStep::AllReduce, rest, 0, 0, kind});
    return true;
  }

  /// Axes at the front of both cuts of a dimension.
  size_t common(size_t d) {
    size_t n = 0;
    while (n < current.dims[d].size() && n < to.dims[d].size() &&
           current.dims[d][n] == to.dims[d][n])
      ++n;
    return n;
  }

  /// Moves cuts from dimension to dimension.
  void exchange() {
    for (size_t d = 0; d < to.dims.size(); ++d)
      while (current.dims[d].size() > common(d)) {
        unsigned axis = current.dims[d].back();
        int64_t split = axis == axes.micro() ? -1 : nextDim(axis);
        if (split < 0 || split == int64_t(d))
          break;
        step({ConversionStep::AllToAll, {axis}, split, int64_t(d)});
      }
  }

  bool gather() {
    for (size_t d = 0; d < to.dims.size(); ++d) {
      llvm::ArrayRef<unsigned> rest(current.dims[d]);
      rest = rest.drop_front(common(d));
      if (rest.empty())
        continue;
      if (llvm::is_contained(rest, axes.micro())) {
        error = "a value that is cut by micro-batches is needed whole";
        return false;
      }
      // Groups count their ranks in the order of the mesh: parts that lie in
      // another order are gathered axis by axis, the fastest first.
      AxisList axesToGather(rest);
      if (llvm::is_sorted(axesToGather))
        step({ConversionStep::AllGather, axesToGather, int64_t(d)});
      else
        for (unsigned axis : llvm::reverse(axesToGather))
          step({ConversionStep::AllGather, {axis}, int64_t(d)});
    }
    return true;
  }

  Layout current;
  const Layout &to;
  const PlanAxes &axes;
  std::string &error;
  llvm::SmallVector<ConversionStep> steps;
};
} // namespace

FailureOr<llvm::SmallVector<ConversionStep>>
kerf::planConversion(const Layout &from, const Layout &to, const PlanAxes &axes,
                     std::string &error) {
  return Converting(from, to, axes, error).run();
}

Layout kerf::applyStep(const Layout &layout, const ConversionStep &step) {
  Layout after = layout;
  AxisList &pending =
      step.reduce == ReduceKind::Sum ? after.sums : after.maxima;
  auto append = [&](AxisList &list) {
    list.append(step.axes.begin(), step.axes.end());
  };
  auto drop = [&](AxisList &list) {
    llvm::erase_if(list, [&](unsigned axis) {
      return llvm::is_contained(step.axes, axis);
    });
  };
  switch (step.kind) {
  case ConversionStep::AllReduce:
    drop(pending);
    break;
  case ConversionStep::ReduceScatter:
    drop(pending);
    append(after.dims[step.dim]);
    break;
  case ConversionStep::AllGather:
    drop(after.dims[step.dim]);
    break;
  case ConversionStep::AllToAll:
    drop(after.dims[step.concat]);
    append(after.dims[step.dim]);
    break;
  case ConversionStep::SliceOwn:
    append(after.dims[step.dim]);
    break;
  }
  return after;
}

static double sizeBytes(Type global, const Layout &layout,
                        const PlanAxes &axes) {
  auto type = cast<RankedTensorType>(global);
  double bytes = std::max(1u, type.getElementTypeBitWidth() / 8);
  for (auto [size, dim] : llvm::zip_equal(type.getShape(), layout.dims))
    bytes *= static_cast<double>(size) / axes.sizeOf(dim);
  return bytes;
}

double kerf::bytesOf(llvm::ArrayRef<ConversionStep> steps, Layout from,
                     Type global, const PlanAxes &axes) {
  double bytes = 0;
  for (const ConversionStep &step : steps) {
    Layout after = applyStep(from, step);
    double n = axes.sizeOf(step.axes);
    double before = sizeBytes(global, from, axes);
    switch (step.kind) {
    case ConversionStep::AllReduce:
      bytes += 2 * (n - 1) / n * before;
      break;
    case ConversionStep::ReduceScatter:
    case ConversionStep::AllToAll:
      bytes += (n - 1) / n * before;
      break;
    case ConversionStep::AllGather:
      bytes += (n - 1) / n * sizeBytes(global, after, axes);
      break;
    case ConversionStep::SliceOwn:
      break;
    }
    from = after;
  }
  return bytes;
}
