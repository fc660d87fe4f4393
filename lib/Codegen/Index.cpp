#include "Index.h"

#include "llvm/ADT/STLExtras.h"

#include <cassert>
#include <numeric>

using namespace kerf::codegen;

void Index::appendKey(std::vector<int64_t> &key) const {
  key.push_back(terms.size());
  for (const Term &term : terms) {
    key.push_back(term.variable);
    key.push_back(term.coefficient);
  }
  key.push_back(constant);
  key.push_back(lane);
}

static void addTerm(Index &index, Index::Term term) {
  auto *at = llvm::lower_bound(index.terms, term,
                               [](const Index::Term &a, const Index::Term &b) {
                                 return a.variable < b.variable;
                               });
  if (at == index.terms.end() || at->variable != term.variable) {
    index.terms.insert(at, term);
    return;
  }
  at->coefficient += term.coefficient;
  if (at->coefficient == 0)
    index.terms.erase(at);
}

Index kerf::codegen::operator+(const Index &a, const Index &b) {
  Index sum = a;
  for (const Index::Term &term : b.terms)
    addTerm(sum, term);
  sum.constant += b.constant;
  sum.lane += b.lane;
  return sum;
}

Index kerf::codegen::operator*(const Index &a, int64_t factor) {
  if (factor == 0)
    return Index();
  Index product = a;
  for (Index::Term &term : product.terms)
    term.coefficient *= factor;
  product.constant *= factor;
  product.lane *= factor;
  return product;
}

/// `a / by` where `by` divides all numbers of `a`.
static Index exactQuotient(const Index &a, int64_t by) {
  Index quotient = a;
  for (Index::Term &term : quotient.terms)
    term.coefficient /= by;
  quotient.constant /= by;
  quotient.lane /= by;
  return quotient;
}

Index IndexSpace::addVariable(Range range, unsigned depth, bool differs) {
  if (range.low == range.high)
    return Index(range.low);
  Index index;
  index.terms.push_back({static_cast<unsigned>(variables.size()), 1});
  variables.push_back({Kind::Loop, range, depth, Index(), 1, differs});
  return index;
}

unsigned IndexSpace::partOf(Kind kind, const Index &of, int64_t by,
                            Range range) {
  std::vector<int64_t> key = {static_cast<int64_t>(kind), by};
  of.appendKey(key);
  auto [at, isNew] = parts.try_emplace(key, variables.size());
  if (isNew)
    variables.push_back({kind, range, depthOf(of), of, by, differs(of)});
  return at->second;
}

Range IndexSpace::rangeOf(const Index &index) const {
  Range range = {index.constant, index.constant};
  auto add = [&](int64_t factor, Range part) {
    range.low += factor * (factor > 0 ? part.low : part.high);
    range.high += factor * (factor > 0 ? part.high : part.low);
  };
  for (const Index::Term &term : index.terms)
    add(term.coefficient, variables[term.variable].range);
  add(index.lane, {0, activeLanes - 1});
  return range;
}

unsigned IndexSpace::depthOf(const Index &index) const {
  unsigned depth = 0;
  for (const Index::Term &term : index.terms)
    depth = std::max(depth, variables[term.variable].depth);
  return depth;
}

bool IndexSpace::differs(const Index &index) const {
  return llvm::any_of(index.terms, [&](const Index::Term &term) {
    return variables[term.variable].differs;
  });
}

int64_t IndexSpace::alignmentOf(const Index &index, int64_t limit) const {
  int64_t common = std::gcd(limit, index.constant);
  for (const Index::Term &term : index.terms)
    common = std::gcd(common, term.coefficient);
  return common & -common;
}

/// Floor of a / b, b > 0.
static int64_t floorQuotient(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

std::optional<IndexSpace::Stepped> IndexSpace::stepped(const Index &index,
                                                       int64_t of) const {
  llvm::SmallVector<Index::Term> terms(index.terms.begin(), index.terms.end());
  llvm::sort(terms, [](const Index::Term &a, const Index::Term &b) {
    int64_t sizeA = std::abs(a.coefficient), sizeB = std::abs(b.coefficient);
    return sizeA != sizeB ? sizeA > sizeB : a.variable < b.variable;
  });
  for (size_t count = terms.size() + 1; count-- > 0;) {
    int64_t step = of;
    Stepped result;
    for (size_t i = 0; i < count; ++i)
      step = std::gcd(step, terms[i].coefficient);
    if (step <= 0)
      continue;
    result.step = step;
    for (size_t i = 0; i < count; ++i)
      addTerm(result.base, {terms[i].variable, terms[i].coefficient / step});
    for (size_t i = count; i < terms.size(); ++i)
      addTerm(result.rest, terms[i]);
    result.base.constant = floorQuotient(index.constant, step);
    result.rest.constant = index.constant - result.base.constant * step;
    result.rest.lane = index.lane;
    Range rest = rangeOf(result.rest);
    if (rest.low >= 0 && rest.high < step)
      return result;
  }
  return std::nullopt;
}

std::optional<IndexSpace::Division> IndexSpace::divide(const Index &index,
                                                       int64_t by) {
  assert(by > 0 && "positive divisor");
  if (by == 1)
    return Division{index, Index()};
  Range range = rangeOf(index);
  if (range.low >= 0 && range.high < by)
    return Division{Index(), index};
  // What `by` divides is in the quotient alone.
  Index exact, other;
  for (const Index::Term &term : index.terms)
    addTerm(term.coefficient % by == 0 ? exact : other, term);
  exact.constant = floorQuotient(index.constant, by) * by;
  other.constant = index.constant - exact.constant;
  (index.lane % by == 0 ? exact : other).lane = index.lane;
  exact = exactQuotient(exact, by);
  Range otherRange = rangeOf(other);
  if (otherRange.low >= 0 && otherRange.high < by)
    return Division{joined(exact), other};
  auto parts = stepped(other, by);
  if (!parts)
    return std::nullopt;
  int64_t count = by / parts->step;
  Range base = rangeOf(parts->base);
  if (base.low < 0)
    return std::nullopt;
  if (count == 1)
    return Division{joined(exact + parts->base), parts->rest};
  if (base.high < count)
    return Division{joined(exact), other};
  Index quotient, remainder;
  quotient.terms.push_back({partOf(Kind::Quotient, parts->base, count,
                                   {base.low / count, base.high / count}),
                            1});
  remainder.terms.push_back(
      {partOf(Kind::Remainder, parts->base, count, {0, count - 1}), 1});
  return Division{joined(exact + quotient),
                  joined(remainder * parts->step + parts->rest)};
}

Index IndexSpace::joined(Index form) const {
  bool changed = true;
  while (changed) {
    changed = false;
    for (const Index::Term &term : form.terms) {
      const Variable &variable = variables[term.variable];
      if (variable.kind != Kind::Quotient ||
          term.coefficient % variable.by != 0)
        continue;
      int64_t factor = term.coefficient / variable.by;
      const auto *match = llvm::find_if(form.terms, [&](const auto &other) {
        const Variable &part = variables[other.variable];
        return part.kind == Kind::Remainder && part.by == variable.by &&
               part.of == variable.of && other.coefficient == factor;
      });
      if (match == form.terms.end())
        continue;
      Index whole = variable.of * factor;
      Index::Term quotient = term, remainder = *match;
      addTerm(form, {quotient.variable, -quotient.coefficient});
      addTerm(form, {remainder.variable, -remainder.coefficient});
      form = form + whole;
      changed = true;
      break;
    }
  }
  return form;
}

Index IndexSpace::linearize(llvm::ArrayRef<Index> indices,
                            llvm::ArrayRef<int64_t> shape) const {
  Index sum;
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1)
      sum = sum + indices[d] * stride;
    stride *= shape[d];
  }
  return joined(sum);
}

std::optional<Indices> IndexSpace::delinearize(const Index &index,
                                               llvm::ArrayRef<int64_t> shape) {
  Indices indices(shape.size());
  Index rest = index;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1)
      continue;
    bool isFirst = llvm::all_of(shape.take_front(d),
                                [](int64_t size) { return size == 1; });
    if (isFirst) {
      indices[d] = rest;
      break;
    }
    auto division = divide(rest, shape[d]);
    if (!division)
      return std::nullopt;
    indices[d] = division->remainder;
    rest = division->quotient;
  }
  return indices;
}
