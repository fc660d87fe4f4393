//===- factors.cpp - what the factors of ops claim, tested by meaning -----===//
//
//   kerf-factors MODEL.mlir...
//
// Unrolls, differentiates and runs each model. For every op on the way and
// every factor of it that may be cut: cuts the factor in two uneven parts, runs
// the op on the parts of its operands (made local by `localize`) and puts the
// results together as the factor's kind says: parts side by side, sums, maxima,
// or equal copies. That must be the whole result, in f64 within 1e-9. Linear
// operands are tested with sums. Prints the number of checks by kind of op.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Dialect/Kerf/Random.h"
#include "kerf/Differentiate/Passes.h"
#include "kerf/Interpreter/Interpreter.h"
#include "kerf/Pipeline/Stages.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace kerf;

using Tensors = std::vector<HostTensor>;

namespace {
/// One part [begin, end) of a factor.
struct Part {
  unsigned factor;
  int64_t begin, end;
};
} // namespace

//===----------------------------------------------------------------------===//
// Parts of tensors
//===----------------------------------------------------------------------===//

/// Global indices along a dimension whose digit of the cut factor is in `part`.
static llvm::SmallVector<int64_t>
indicesOf(const Factors &facts, const DimFactors &dim, const Part &part) {
  int64_t size = 1, minor = 1;
  bool found = false;
  for (unsigned f : llvm::reverse(dim)) {
    found |= f == part.factor;
    if (!found)
      minor *= facts.factors[f].size;
    size *= facts.factors[f].size;
  }
  llvm::SmallVector<int64_t> indices;
  int64_t own = facts.factors[part.factor].size;
  for (int64_t i = 0; i < size; ++i) {
    int64_t digit = i / minor % own;
    if (!found || (digit >= part.begin && digit < part.end))
      indices.push_back(i);
  }
  return indices;
}

/// Per dimension, the global indices of a part.
static llvm::SmallVector<llvm::SmallVector<int64_t>>
boxOf(const Factors &facts, const TensorFactors &dims, const Part &part) {
  return llvm::map_to_vector(
      dims, [&](const DimFactors &dim) { return indicesOf(facts, dim, part); });
}

static RankedTensorType partType(const Factors &facts,
                                 const TensorFactors &dims, const Part &part,
                                 Type type) {
  llvm::SmallVector<int64_t> shape;
  for (auto &indices : boxOf(facts, dims, part))
    shape.push_back(indices.size());
  return withShape(type, shape);
}

/// Calls `body(position in the part, position in the whole)`.
static void forEachPair(const Factors &facts, const TensorFactors &dims,
                        const Part &part, llvm::ArrayRef<int64_t> whole,
                        llvm::function_ref<void(int64_t, int64_t)> body) {
  auto box = boxOf(facts, dims, part);
  llvm::SmallVector<int64_t> shape;
  for (auto &indices : box)
    shape.push_back(indices.size());
  auto strides = stridesOf(whole);
  int64_t local = 0;
  forEachIndex(shape, [&](llvm::ArrayRef<int64_t> index) {
    int64_t global = 0;
    for (size_t d = 0; d < index.size(); ++d)
      global += box[d][index[d]] * strides[d];
    body(local++, global);
  });
}

static HostTensor takePart(const Factors &facts, const TensorFactors &dims,
                           const Part &part, const HostTensor &whole) {
  HostTensor taken(partType(facts, dims, part, whole.type));
  forEachPair(facts, dims, part, whole.shape(),
              [&](int64_t l, int64_t g) { taken.data[l] = whole.data[g]; });
  return taken;
}

//===----------------------------------------------------------------------===//
// Running single ops
//===----------------------------------------------------------------------===//

/// Runs a copy of `op`, changed by `change`, on operands of any local types.
static FailureOr<Tensors>
runOp(Operation *op, llvm::ArrayRef<HostTensor> operands,
      llvm::function_ref<void(OpBuilder &, Operation *)> change) {
  OpBuilder builder(op->getContext());
  OwningOpRef<ModuleOp> module = ModuleOp::create(op->getLoc());
  builder.setInsertionPointToStart(module->getBody());
  llvm::SmallVector<Attribute> roles(operands.size(),
                                     builder.getStringAttr(""));
  auto model =
      ModelOp::create(builder, op->getLoc(), "op", builder.getArrayAttr(roles));
  Block &body = model.getBody().emplaceBlock();
  for (const HostTensor &operand : operands)
    body.addArgument(operand.type, op->getLoc());
  builder.setInsertionPointToEnd(&body);
  Operation *copy = op->clone();
  builder.insert(copy);
  copy->setOperands(body.getArguments());
  builder.setInsertionPoint(copy);
  change(builder, copy);
  builder.setInsertionPointToEnd(&body);
  ReturnOp::create(builder, op->getLoc(), copy->getResults());
  if (failed(mlir::verify(copy)))
    return failure();
  TrainingState state;
  return Interpreter(model, {/*f64=*/true, 0}).run(operands, state);
}

/// Runs `op` on one part of a factor.
static FailureOr<Tensors> runPart(Operation *op, const Factors &facts,
                                  const Part &part, const Tensors &operands) {
  Tensors local;
  for (auto [dims, operand] : llvm::zip(facts.operands, operands))
    local.push_back(takePart(facts, dims, part, operand));
  return runOp(op, local, [&](OpBuilder &builder, Operation *copy) {
    PlainBuilder p{builder, copy->getLoc()};
    for (auto [dims, result] : llvm::zip(facts.results, copy->getResults()))
      result.setType(partType(facts, dims, part, result.getType()));
    llvm::SmallVector<FactorShard> shards;
    auto scalar = RankedTensorType::get({}, builder.getI32Type());
    for (auto [f, factor] : llvm::enumerate(facts.factors)) {
      bool cut = f == part.factor;
      shards.push_back({factor.size, cut ? part.end - part.begin : factor.size,
                        cut ? p.constant(scalar, part.begin) : Value()});
    }
    if (auto localize = dyn_cast<LocalizeOpInterface>(copy))
      localize.localize(builder, shards);
  });
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static bool isClose(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(b)) ||
         (std::isnan(a) && std::isnan(b));
}

static bool areClose(const HostTensor &a, const HostTensor &b) {
  return llvm::all_of(llvm::zip_equal(a.data, b.data), [](auto pair) {
    return isClose(std::get<0>(pair), std::get<1>(pair));
  });
}

/// Puts results of two parts together and compares with the whole.
static bool checkResult(const Factors &facts, const TensorFactors &dims,
                        llvm::ArrayRef<Part> parts,
                        llvm::ArrayRef<const HostTensor *> pieces,
                        const HostTensor &whole) {
  unsigned factor = parts[0].factor;
  if (!hasFactor(dims, factor) &&
      facts.factors[factor].kind == FactorKind::Parallel)
    return areClose(*pieces[0], whole) && areClose(*pieces[1], whole);
  HostTensor joined(whole.type);
  bool isMax = facts.factors[factor].kind == FactorKind::Max;
  if (isMax)
    std::fill(joined.data.begin(), joined.data.end(), -INFINITY);
  for (auto [part, piece] : llvm::zip(parts, pieces))
    forEachPair(facts, dims, part, whole.shape(), [&](int64_t l, int64_t g) {
      joined.data[g] = isMax ? std::max(joined.data[g], piece->data[l])
                             : joined.data[g] + piece->data[l];
    });
  return areClose(joined, whole);
}

static bool checkFactor(Operation *op, const Factors &facts, unsigned factor,
                        const Tensors &operands, const Tensors &results) {
  int64_t size = facts.factors[factor].size, cut = (size + 1) / 2;
  Part parts[] = {{factor, 0, cut}, {factor, cut, size}};
  auto first = runPart(op, facts, parts[0], operands);
  auto second = runPart(op, facts, parts[1], operands);
  if (failed(first) || failed(second))
    return false;
  for (size_t r = 0; r < results.size(); ++r)
    if (!checkResult(facts, facts.results[r], parts,
                     {&(*first)[r], &(*second)[r]}, results[r]))
      return false;
  return true;
}

/// op(a + b) = op(a) + op(b) in one group of operands, the others fixed.
static bool checkLinear(Operation *op, llvm::ArrayRef<unsigned> group,
                        const Tensors &operands, const Tensors &results) {
  Tensors a = operands, b = operands;
  for (unsigned operand : group)
    for (int64_t i = 0; i < operands[operand].size(); ++i) {
      double share = uniformAt(operand, i) * 2 - 1;
      a[operand].data[i] = share;
      b[operand].data[i] -= share;
    }
  auto keep = [](OpBuilder &, Operation *) {};
  auto first = runOp(op, a, keep), second = runOp(op, b, keep);
  if (failed(first) || failed(second))
    return false;
  for (size_t r = 0; r < results.size(); ++r)
    for (int64_t i = 0; i < results[r].size(); ++i)
      if (!isClose((*first)[r].data[i] + (*second)[r].data[i],
                   results[r].data[i]))
        return false;
  return true;
}

namespace {
/// Number of checks by op name, and of failures.
struct Tally {
  std::map<std::string, int64_t> factors, linear;
  int64_t failures = 0;
};
} // namespace

static void checkOp(FactorOpInterface op, const Tensors &operands,
                    const Tensors &results, Tally &tally) {
  Factors facts = op.getFactors();
  std::string name = op->getName().getStringRef().str();
  for (auto [f, factor] : llvm::enumerate(facts.factors)) {
    if (factor.kind == FactorKind::Whole || factor.size < 2)
      continue;
    ++tally.factors[name];
    if (checkFactor(op, facts, f, operands, results))
      continue;
    ++tally.failures;
    op->emitError() << "factor " << factor.name
                    << " does not mean what it claims";
  }
  llvm::SmallVector<llvm::SmallVector<unsigned>> groups;
  if (facts.jointly)
    groups.emplace_back(facts.linearOperands.begin(),
                        facts.linearOperands.end());
  else
    for (unsigned operand : facts.linearOperands)
      groups.push_back({operand});
  for (llvm::ArrayRef<unsigned> group : groups) {
    // Sums of integers with fractions would be rounded.
    if (!isa<FloatType>(operands[group[0]].type.getElementType()))
      continue;
    ++tally.linear[name];
    if (checkLinear(op, group, operands, results))
      continue;
    ++tally.failures;
    op->emitError("is not linear where it claims to be");
  }
}

/// Runs a flat model op by op and checks each.
static LogicalResult checkModel(ModelOp model, Tally &tally) {
  llvm::DenseMap<Value, HostTensor> env;
  auto inputs = makeInputs(model, 3, 1, 0.01);
  for (auto [arg, input] : llvm::zip(model.getBody().getArguments(), inputs))
    env[arg] = input;
  for (Operation &op : model.getBody().front().without_terminator()) {
    if (auto param = dyn_cast<ParamOp>(op)) {
      env[param.getResult()] = initialValue(
          param.getInit(), typeOf(param.getResult()), param.getName(), 3, true);
      continue;
    }
    if (isa<UpdateOp>(op))
      continue;
    Tensors operands;
    for (Value operand : op.getOperands())
      operands.push_back(env[operand]);
    auto results = runOp(&op, operands, [](OpBuilder &, Operation *) {});
    if (failed(results))
      return failure();
    for (auto [value, tensor] : llvm::zip(op.getResults(), *results))
      env[value] = tensor;
    checkOp(cast<FactorOpInterface>(op), operands, *results, tally);
  }
  return success();
}

/// Checks the high-level ops, then the plain ops they decompose into.
static LogicalResult checkFile(llvm::StringRef path, MLIRContext &context,
                               Tally &tally) {
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  auto module = readModule(path, sources, context);
  if (!module)
    return failure();
  for (llvm::StringRef passes :
       {"kerf-unroll-repeat,kerf-differentiate", "kerf-decompose,cse"}) {
    auto pm = PassManager::on<ModuleOp>(&context);
    if (failed(parsePassPipeline(passes, pm)) || failed(pm.run(*module)))
      return failure();
    for (ModelOp model : module->getOps<ModelOp>())
      if (failed(checkModel(model, tally)))
        return failure();
  }
  return success();
}

int main(int argc, char **argv) {
  registerPasses();
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  Tally tally;
  for (int i = 1; i < argc; ++i)
    if (failed(checkFile(argv[i], context, tally)))
      return 1;
  for (const auto &[name, count] : tally.factors)
    llvm::outs() << llvm::left_justify(name, 34) << count << " factors, "
                 << tally.linear[name] << " linear\n";
  llvm::outs() << tally.failures << " failed\n";
  return tally.failures != 0 || tally.factors.empty();
}
