#include "kerf/Dialect/Kerf/Chunks.h"
#include "kerf/Dialect/Kerf/Constants.h"
#include "kerf/Dialect/Kerf/Float8.h"
#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Support/Nearest.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cstring>
#include <numeric>

using namespace mlir;
using namespace kerf;

#include "kerf/Dialect/Kerf/KerfDialect.cpp.inc"

#include "kerf/Dialect/Kerf/KerfEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "kerf/Dialect/Kerf/KerfAttrs.cpp.inc"

void KerfDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kerf/Dialect/Kerf/KerfAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "kerf/Dialect/Kerf/KerfModelOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "kerf/Dialect/Kerf/KerfPointwiseOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "kerf/Dialect/Kerf/KerfTensorOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "kerf/Dialect/Kerf/KerfNNOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "kerf/Dialect/Kerf/KerfGradientOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "kerf/Dialect/Kerf/KerfMoEOps.cpp.inc"
      >();
}

std::optional<Dialect::ParseOpHook>
KerfDialect::getParseOperationHook(StringRef name) const {
  if (auto hook = Dialect::getParseOperationHook(name))
    return hook;
  return [](OpAsmParser &parser, OperationState &state) -> ParseResult {
    StringRef unknown = state.name.getStringRef();
    SmallVector<StringRef> known;
    for (RegisteredOperationName op :
         state.getContext()->getRegisteredOperationsByDialect("kerf"))
      known.push_back(op.getStringRef());
    InFlightDiagnostic error = parser.emitError(parser.getNameLoc())
                               << "'" << unknown << "' is no op of the dialect";
    StringRef nearest = nearestWord(known, unknown);
    if (!nearest.empty())
      error.attachNote() << "did you mean '" << nearest << "'?";
    error.attachNote() << "docs/reference/kerf-dialect.md lists all ops";
    return error;
  };
}

LogicalResult KerfDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  if (attr.getName() == kAssignAttrName && isa<AssignAttr>(attr.getValue()))
    return success();
  if (attr.getName() == kAssignAttrName)
    return op->emitOpError("expected 'kerf.assign' to be a #kerf.assign");
  if (attr.getName() == kRecomputedAttrName && isa<UnitAttr>(attr.getValue()))
    return success();
  if (attr.getName() == kRecomputedAttrName)
    return op->emitOpError("expected 'kerf.recomputed' to be a unit attribute");
  if (attr.getName() == kChunkAttrName) {
    auto chunk = dyn_cast<IntegerAttr>(attr.getValue());
    if (isa<RepeatOp>(op) && chunk && chunk.getInt() >= 0)
      return success();
    return op->emitOpError("expected 'kerf.chunk' to be the number of a chunk, "
                           "on a repeat");
  }
  if (attr.getName() == kRecomputeAttrName) {
    if (isa<RepeatOp>(op) && isa<DenseI64ArrayAttr>(attr.getValue()))
      return success();
    return op->emitOpError("expected 'kerf.recompute' to be numbers of forward "
                           "ops, on a repeat");
  }
  if (attr.getName() != kPhaseAttrName)
    return op->emitOpError()
           << "has unknown attribute '" << attr.getName().getValue()
           << "', expected 'kerf.phase', 'kerf.assign', "
              "'kerf.recomputed', 'kerf.chunk', 'kerf.recompute' or none";
  if (!isa<PhaseAttr>(attr.getValue()))
    return op->emitOpError("expected 'kerf.phase' to be a #kerf.phase");
  return success();
}

//===----------------------------------------------------------------------===//
// Phases and types
//===----------------------------------------------------------------------===//

PhaseAttr kerf::getPhase(Operation *op) {
  return op->getAttrOfType<PhaseAttr>(kPhaseAttrName);
}

void kerf::setPhase(Operation *op, PhaseKind kind, int64_t forwardOp) {
  op->setAttr(kPhaseAttrName,
              PhaseAttr::get(op->getContext(), kind, forwardOp));
}

bool kerf::isRecomputed(Operation *op) {
  return op->hasAttr(kRecomputedAttrName);
}

void kerf::setRecomputed(Operation *op) {
  op->setAttr(kRecomputedAttrName, UnitAttr::get(op->getContext()));
}

/// True when nothing but frozen parameters and constants reach the value;
/// `readsParam` is set when one of the former does.
static bool isFixed(Value value, bool &readsParam) {
  llvm::SmallVector<Value> open{value};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || !isPure(op) || op->getNumRegions() > 0)
      return false;
    if (!seen.insert(op).second)
      continue;
    auto param = dyn_cast<ParamOp>(op);
    if (param && !param.getFrozen())
      return false;
    readsParam |= param != nullptr;
    llvm::append_range(open, op->getOperands());
  }
  return true;
}

Value kerf::unquantized(Value value, llvm::SmallVectorImpl<int64_t> *perm) {
  auto cast = value.getDefiningOp<CastOp>();
  if (cast && isFloat8(cast.getX().getType()))
    cast = cast.getX().getDefiningOp<CastOp>();
  if (!cast || !isFloat8(cast.getResult().getType()))
    return value;
  auto scaled = cast.getX().getDefiningOp<MulOp>();
  Value x = scaled ? scaled.getLhs() : cast.getX();
  auto transpose = x.getDefiningOp<TransposeOp>();
  if (transpose && perm)
    perm->assign(transpose.getPerm().begin(), transpose.getPerm().end());
  return transpose ? transpose.getX() : x;
}

ParamOp kerf::findWeight(Value value) {
  value = unquantized(value);
  while (isMadeOfFrozen(value))
    for (Value operand : value.getDefiningOp()->getOperands())
      if (operand.getDefiningOp<ParamOp>() || isMadeOfFrozen(operand)) {
        value = operand;
        break;
      }
  return value.getDefiningOp<ParamOp>();
}

bool kerf::hasExperts(Operation *root) {
  return root->walk([](AssignSlotsOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

int64_t kerf::sequencesPerTable(Operation *root) {
  int64_t sequences = 1;
  root->walk([&](AssignSlotsOp op) {
    sequences = std::lcm(sequences, static_cast<int64_t>(op.getGroup()));
  });
  return sequences;
}

double kerf::countWeights(ParamOp param) {
  auto isCodes = [](ParamOp other) {
    return other && other.getInit().getKind() == InitKind::Nf4;
  };
  if (isCodes(param))
    return 2;
  for (Operation *user : param->getUsers())
    for (Value operand : user->getOperands())
      if (isCodes(operand.getDefiningOp<ParamOp>()))
        return 0;
  return 1;
}

bool kerf::isMadeOfFrozen(Value value) {
  bool readsParam = false;
  return !value.getDefiningOp<ParamOp>() && isFixed(value, readsParam) &&
         readsParam;
}

bool kerf::isMadeOfConstants(Value value) {
  bool readsParam = false;
  return isFixed(value, readsParam) && !readsParam;
}

RankedTensorType kerf::withElement(Type type, Type element) {
  return RankedTensorType::get(cast<RankedTensorType>(type).getShape(),
                               element);
}

RankedTensorType kerf::withShape(Type type, llvm::ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape,
                               cast<RankedTensorType>(type).getElementType());
}

bool kerf::isFloat8(Type type) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(getElementTypeOrSelf(type));
}

RankedTensorType kerf::computeType(Type type) {
  Type element = cast<RankedTensorType>(type).getElementType();
  if (element.isF16() || element.isBF16())
    return withElement(type, Float32Type::get(type.getContext()));
  return cast<RankedTensorType>(type);
}

//===----------------------------------------------------------------------===//
// Inputs and results of models
//===----------------------------------------------------------------------===//

/// How many different numbers an equality tells apart: those of an iota that
/// the value is compared with; 0: it is no such.
static int64_t countOfClasses(CompareOp compare, Value value) {
  Value other = compare.getLhs() == value ? compare.getRhs() : compare.getLhs();
  while (Operation *op = other.getDefiningOp()) {
    if (auto iota = dyn_cast<IotaOp>(op))
      return typeOf(iota.getResult()).getDimSize(iota.getDim());
    if (!isa<BroadcastOp, ReshapeOp, TransposeOp>(op))
      return 0;
    other = op->getOperand(0);
  }
  return 0;
}

/// Calls `limit` with what ops say of the numbers of `value`, a view of an
/// input or a choice of it.
static void visitLimits(Value value, llvm::function_ref<void(int64_t)> limit) {
  for (Operation *user : value.getUsers()) {
    if (auto embedding = dyn_cast<EmbeddingOp>(user);
        embedding && embedding.getIds() == value)
      limit(typeOf(embedding.getTable()).getDimSize(0));
    else if (auto loss = dyn_cast<CrossEntropyOp>(user))
      limit(typeOf(loss.getLogits()).getShape().back());
    else if (auto compare = dyn_cast<CompareOp>(user);
             compare && compare.getKind() == CompareKind::EQ)
      limit(countOfClasses(compare, value));
    else if (isa<BroadcastOp, ReshapeOp, TransposeOp, SelectOp>(user))
      visitLimits(user->getResult(0), limit);
  }
}

int64_t kerf::getVocabulary(BlockArgument input) {
  int64_t size = 0;
  visitLimits(input, [&](int64_t bound) {
    if (bound > 0)
      size = size == 0 ? bound : std::min(size, bound);
  });
  return size;
}

llvm::StringRef kerf::getResultLabel(Value value) {
  Operation *op = value.getDefiningOp();
  // With a scaled loss the norm is divided by the scale.
  auto unscale = dyn_cast_or_null<DivOp>(op);
  if (isa_and_nonnull<GlobalNormOp>(unscale ? unscale.getLhs().getDefiningOp()
                                            : op))
    return "grad norm";
  if (isa_and_nonnull<CrossEntropyOp>(op))
    return "cross entropy";
  if (isa_and_nonnull<LoadBalanceLossOp>(op))
    return "load balance";
  return "value";
}

//===----------------------------------------------------------------------===//
// Parameter names
//===----------------------------------------------------------------------===//

namespace {
/// `{a*i+b}`, `{e}` or `{k,v}` found in a parameter name.
struct NameHole {
  size_t begin, end; ///< of the text with its braces
  bool isStack;
  int64_t scale = 1, offset = 0;
  llvm::SmallVector<llvm::StringRef> names; ///< of a stack; empty: numbers
};
} // namespace

/// Parses the text between braces: `i`, `2*i`, `i+1`, `2*i+1`, `e` or `k,v`.
static bool parseHole(llvm::StringRef text, NameHole &hole) {
  if (text.contains(','))
    text.split(hole.names, ',');
  hole.isStack = text == "e" || !hole.names.empty();
  if (hole.isStack)
    return !llvm::is_contained(hole.names, "");
  auto [before, after] = text.split('i');
  if (before.size() + after.size() + 1 != text.size())
    return false;
  if (!before.empty() &&
      (!before.consume_back("*") || before.getAsInteger(10, hole.scale)))
    return false;
  if (!after.empty() &&
      (!after.consume_front("+") || after.getAsInteger(10, hole.offset)))
    return false;
  constexpr int64_t limit = 1 << 20;
  return hole.scale > 0 && hole.scale < limit && hole.offset >= 0 &&
         hole.offset < limit;
}

static bool findHoles(llvm::StringRef pattern,
                      llvm::SmallVectorImpl<NameHole> &holes) {
  size_t at = 0;
  while (true) {
    size_t open = pattern.find_first_of("{}", at);
    if (open == llvm::StringRef::npos)
      return true;
    size_t close = pattern.find_first_of("{}", open + 1);
    if (pattern[open] != '{' || close == llvm::StringRef::npos ||
        pattern[close] != '}')
      return false;
    NameHole hole{open, close + 1, false, 1, 0, {}};
    if (!parseHole(pattern.slice(open + 1, close), hole))
      return false;
    holes.push_back(hole);
    at = close + 1;
  }
}

std::string kerf::expandName(llvm::StringRef pattern, int64_t i, int64_t e) {
  llvm::SmallVector<NameHole> holes;
  if (!findHoles(pattern, holes))
    return pattern.str();
  std::string name;
  size_t at = 0;
  for (const NameHole &hole : holes) {
    name += pattern.slice(at, hole.begin);
    if (!hole.isStack)
      name += std::to_string(hole.scale * i + hole.offset);
    else if (e < 0 || (!hole.names.empty() && e >= std::ssize(hole.names)))
      name += pattern.slice(hole.begin, hole.end);
    else
      name += hole.names.empty() ? std::to_string(e) : hole.names[e].str();
    at = hole.end;
  }
  return name + pattern.substr(at).str();
}

static int64_t countHoles(llvm::StringRef pattern, bool stack) {
  llvm::SmallVector<NameHole> holes;
  findHoles(pattern, holes);
  return llvm::count_if(
      holes, [&](const NameHole &hole) { return hole.isStack == stack; });
}

bool kerf::hasIteration(llvm::StringRef pattern) {
  return countHoles(pattern, /*stack=*/false) > 0;
}

bool kerf::isStacked(llvm::StringRef pattern) {
  return countHoles(pattern, /*stack=*/true) > 0;
}

LogicalResult ParamOp::verify() {
  llvm::SmallVector<NameHole> holes;
  // param_c1
  if (getName().empty())
    return emitOpError("expected a parameter name");
  if (!findHoles(getName(), holes) || countHoles(getName(), true) > 1)
    return emitOpError() << "name \"" << getName()
                         << "\" expected braces only as {i}, {a*i+b} and at "
                            "most one {e} or {name,name}";
  // param_c2
  if (hasIteration(getName()) && !(*this)->getParentOfType<RepeatOp>())
    return emitOpError() << "name \"" << getName()
                         << "\" uses {i} outside a 'kerf.repeat'";
  // param_c3
  RankedTensorType type = typeOf(getResult());
  if (isStacked(getName()) && type.getRank() == 0)
    return emitOpError("a stack expected rank >= 1, found a scalar");
  bool isWhole = (*this)->getParentOfType<ModelOp>() != nullptr;
  for (const NameHole &hole : holes)
    if (isWhole && !hole.names.empty() &&
        type.getDimSize(0) != std::ssize(hole.names))
      return emitOpError() << "name \"" << getName() << "\" has "
                           << hole.names.size()
                           << " names in braces, which expected a dimension 0 "
                              "of that size, found "
                           << type.getDimSize(0);
  std::optional<Type> master = getMaster();
  if (master && !master->isF64() && !master->isF32() && !master->isBF16() &&
      !master->isF16()) // param_c4
    return emitOpError() << "expected a master of f64, f32, bf16 or f16, found "
                         << *master;
  bool isCodes = typeOf(getResult()).getElementType().isInteger(8);
  bool isNf4 = getInit().getKind() == InitKind::Nf4;
  if (isCodes != isNf4 || (isCodes && (!getFrozen() || master))) // param_c5
    return emitOpError() << "of " << getResult().getType()
                         << ": i8 and init<nf4> stand together, frozen and "
                            "without a master";
  return success();
}

bool ParamOp::isPerIteration() { return hasIteration(getName()); }

Factors ParamOp::getFactors() {
  return pointwiseFactors(*this, Positions::Ignored);
}
