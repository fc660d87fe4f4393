//===- EmitParts.cpp - loop nests of the parts of a kernel ----------------===//

#include "PartEmitter.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

exec::PartialReduceOp kerf::codegen::partialOf(Value value) {
  return value.getDefiningOp<exec::PartialReduceOp>();
}

Value kerf::codegen::elementsOf(Value value) {
  auto partial = partialOf(value);
  return partial ? partial.getX() : value;
}

llvm::SmallVector<int64_t> PartEmitter::widths(int64_t count) {
  int64_t width = 1;
  while (width < e.maxLanes && width < count)
    width *= 2;
  llvm::SmallVector<int64_t> all;
  for (; width >= 1; width /= 2)
    all.push_back(width);
  return all;
}

bool PartEmitter::overwrites(llvm::ArrayRef<unsigned> results) {
  return llvm::any_of(results, [&](unsigned result) {
    return e.kernel.getInplaceArgument(result) >= 0;
  });
}

bool PartEmitter::storeAll(llvm::ArrayRef<unsigned> results,
                           const Index &position) {
  llvm::SmallVector<Element> elements;
  for (unsigned result : results) {
    auto element = e.pullAt(values[result], position);
    if (!element)
      return false;
    elements.push_back(*element);
  }
  // All reads come before all writes: buffers may be shared.
  if (e.team().size > 1 && !e.space.differs(position) && overwrites(results))
    e.synchronize(); // All threads have read what one of them writes.
  for (auto [result, element] : llvm::zip(results, elements))
    e.store(result, position, element);
  return true;
}

void PartEmitter::forUnits(const Part &part,
                           llvm::function_ref<void(const Index &)> body) {
  kerf::codegen::Range range = {0, part.units() - 1};
  if (!e.isGpu()) {
    e.loop(begin, end, range, body);
    return;
  }
  if (isOnly) {
    body(e.opaque(e.begin, range));
    return;
  }
  Value unit = a.sub(e.begin, word(firstUnit));
  // Numbers below `firstUnit` are large without their sign.
  Value isMine = arith::CmpIOp::create(
      e.builder, a.loc, arith::CmpIPredicate::ult, unit, word(part.units()));
  e.guarded(isMine, [&] { body(e.opaque(unit, range)); });
}

void PartEmitter::forTurns(const Index &first, int64_t perUnit, int64_t units,
                           int64_t vectors,
                           llvm::function_ref<void(const Index &)> body) {
  for (int64_t turn = 0; turn < perUnit && turn < vectors; turn += e.threads) {
    Index v = first + e.thread + Index(turn);
    if (vectors == units * perUnit) {
      body(v);
      continue;
    }
    Value number = e.materialize(v);
    Value exists = arith::CmpIOp::create(
        e.builder, a.loc, arith::CmpIPredicate::slt, number, word(vectors));
    e.guarded(exists, [&] {
      e.team() = Team();
      body(e.opaque(number, {0, vectors - 1}));
    });
  }
}

void PartEmitter::forRows(const Part &part, const Index &unit,
                          llvm::function_ref<void(const Index &)> body) {
  kerf::codegen::Range range = {0, part.count - 1};
  if (part.chunk == 1 && part.owner == Part::Block) {
    body(unit);
    return;
  }
  Value first = e.materialize(unit * part.chunk);
  if (part.owner == Part::Block) {
    Value last = smaller(a.add(first, word(part.chunk)), word(part.count));
    e.loop(first, last, range, body);
    return;
  }
  Value thread = e.materialize(e.thread);
  Team team;
  Value number = thread;
  if (part.owner == Part::Warp) {
    auto split = *e.space.divide(e.thread, part.team);
    team = {part.team, split.remainder};
    number = e.materialize(split.quotient);
  }
  Value row = a.add(first, number);
  Value exists = arith::CmpIOp::create(
      e.builder, a.loc, arith::CmpIPredicate::slt, row, word(part.count));
  e.guarded(exists, [&] {
    e.team() = team;
    body(e.opaque(row, range));
  });
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

bool PartEmitter::emit(const Part &part, int64_t first, bool isAlone) {
  firstUnit = first;
  isOnly = isAlone;
  begin = e.begin;
  end = e.end;
  if (!isOnly && !e.isGpu()) {
    Value low = word(firstUnit), high = word(firstUnit + part.units());
    begin = a.sub(a.max(begin, low), low);
    end = a.sub(smaller(end, high), low);
  }
  switch (part.kind) {
  case Part::Flat:
    return emitFlat(part);
  case Part::Rows:
    return emitRows(part);
  case Part::TopK:
    return emitTopK(part);
  case Part::ScatterAdd:
    return emitScatter(part);
  case Part::Cumsum:
    return emitCumsum(part);
  }
  llvm_unreachable("covered switch");
}

/// The row that an element of a result with `columns` in each is in.
static std::optional<Index> rowOf(Emitter &e, const Emitter::Access &access,
                                  int64_t columns) {
  e.space.activeLanes = access.activeLanes;
  auto division = e.space.divide(access.position, columns);
  if (!division)
    return std::nullopt;
  return division->quotient;
}

/// Whether the read comes before the write of its element: in the same
/// iteration, or in an earlier loop over the same row.
static bool isReadFirst(Emitter &e, const Part &part, unsigned result,
                        const Emitter::Access &read) {
  bool isSame = false;
  for (const Emitter::Access &write : e.writes)
    if (write.number == result && write.position == read.position &&
        write.activeLanes == read.activeLanes) {
      if (write.order < read.order)
        return false;
      isSame = true;
    }
  if (isSame)
    return true;
  if (read.isFinal || part.kind != Part::Rows)
    return false;
  int64_t columns =
      typeOf(e.kernel.getYield().getValues()[result]).getNumElements() /
      part.count;
  std::optional<Index> row = rowOf(e, read, columns);
  return row && llvm::any_of(e.writes, [&](const Emitter::Access &write) {
           return write.number == result && write.order > read.order &&
                  rowOf(e, write, columns) == row;
         });
}

/// Whether every read of an argument that a result overwrites comes before the
/// write of its element.
static bool overwritesSafely(Emitter &e, llvm::ArrayRef<Part> parts,
                             unsigned result, int64_t argument) {
  int64_t part = -1;
  for (auto [i, candidate] : llvm::enumerate(parts))
    if (llvm::is_contained(candidate.results, result))
      part = i;
  return llvm::all_of(e.reads, [&](const Emitter::Access &read) {
    return read.number != argument ||
           (read.part == part && isReadFirst(e, parts[part], result, read));
  });
}

std::optional<std::string>
kerf::codegen::emitKernel(exec::KernelOp kernel, llvm::ArrayRef<Part> parts,
                          ModuleOp module, llvm::StringRef symbol,
                          const CodeOptions &options) {
  Emitter e(kernel, module, symbol, options);
  PartEmitter emitter(e, kernel);
  int64_t unit = 0;
  for (auto [i, part] : llvm::enumerate(parts)) {
    e.part = i;
    if (!emitter.emit(part, unit, parts.size() == 1)) {
      std::string message = "cannot be computed by one launch: split it first";
      if (e.obstacle)
        message += "; the result of '" +
                   e.obstacle->getName().getStringRef().str() +
                   "' is needed by another op";
      return message;
    }
    unit += part.units();
  }
  LLVM::ReturnOp::create(e.builder, e.arith.loc, ValueRange());
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i) {
    int64_t argument = kernel.getInplaceArgument(i);
    if (argument >= 0 && !overwritesSafely(e, parts, i, argument))
      return "result " + std::to_string(i) + " cannot overwrite argument " +
             std::to_string(argument) +
             ": other elements of it are read after the write";
  }
  return std::nullopt;
}
