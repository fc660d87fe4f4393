//===- Kerf.h - the model language ----------------------------------------===//
//
// Ops and attributes of the `kerf` dialect, and small questions about them that
// several components ask.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DIALECT_KERF_KERF_H
#define KERF_DIALECT_KERF_KERF_H

#include "kerf/Interfaces/Interfaces.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kerf {
class ReturnOp;
class YieldOp;

/// A real attribute parameter; equal when equal to the bit.
struct Real {
  double value = 0;
  Real(double value = 0) : value(value) {}
  operator double() const { return value; }
  bool operator==(Real other) const { return bits() == other.bits(); }
  uint64_t bits() const { return llvm::bit_cast<uint64_t>(value); }
  friend llvm::hash_code hash_value(Real real) {
    return llvm::hash_value(real.bits());
  }
};

/// Reads a finite number (`0.1`, `1.0e-8`, `-3`), for attribute parameters.
mlir::FailureOr<Real> parseReal(mlir::AsmParser &parser);
/// Prints the shortest decimal that reads back to `value`.
void printReal(mlir::AsmPrinter &printer, double value);
} // namespace kerf

#include "kerf/Dialect/Kerf/KerfDialect.h.inc"

#include "kerf/Dialect/Kerf/KerfEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kerf/Dialect/Kerf/KerfAttrs.h.inc"

#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfModelOps.h.inc"
#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfPointwiseOps.h.inc"
#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfTensorOps.h.inc"
#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfNNOps.h.inc"
#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfGradientOps.h.inc"
#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfMoEOps.h.inc"

namespace kerf {

/// Name of the discardable attribute that holds an op's `PhaseAttr`.
inline constexpr llvm::StringLiteral kPhaseAttrName = "kerf.phase";

/// Names of the attributes that hold a model's `PlanAttr` and an op's
/// `AssignAttr`.
inline constexpr llvm::StringLiteral kPlanAttrName = "plan";
inline constexpr llvm::StringLiteral kAssignAttrName = "kerf.assign";
/// The pseudo axis of the micro-batches.
inline constexpr llvm::StringLiteral kMicroAxis = "micro";
/// The axis of a mesh over which what is made of blocks is sharded.
inline constexpr llvm::StringLiteral kTensorAxis = "tp";
/// The axis of a mesh whose ranks hold different layers.
inline constexpr llvm::StringLiteral kPipelineAxis = "pp";

/// Name of a model's attribute with the text of an adapter's config.
inline constexpr llvm::StringLiteral kAdapterAttrName = "adapter";
/// Name of a model's attribute with the text of the config.json that it was
/// imported from.
inline constexpr llvm::StringLiteral kConfigAttrName = "config";
/// Name of a model's attribute with what people call it: the folder of that
/// config, "llama-3-8b"; the symbol is that of its family.
inline constexpr llvm::StringLiteral kTitleAttrName = "title";
/// Name of a model's attribute with the order of its rows, a `ZigzagAttr`.
inline constexpr llvm::StringLiteral kZigzagAttrName = "zigzag";
/// Name of the unit attribute of ops of a reverse repeat that compute a forward
/// value again. Their phase has the number of the forward op.
inline constexpr llvm::StringLiteral kRecomputedAttrName = "kerf.recomputed";
bool isRecomputed(mlir::Operation *op);
void setRecomputed(mlir::Operation *op);
/// True for a value that pure ops make of frozen parameters, and of ops without
/// operands, alone: it is the same in every step. A parameter itself is none.
bool isMadeOfFrozen(mlir::Value value);
/// The parameter that the value is, or the first that it is made of if frozen
/// ones alone make it: what people call it by. Null for other values.
ParamOp findWeight(mlir::Value value);
/// Weights of the model that an element of a parameter stands for: 2 in a byte
/// of codes, none in the scales that are read with them, else 1.
double countWeights(ParamOp param);

/// True if tokens are routed to experts somewhere in `root`.
bool hasExperts(mlir::Operation *root);

/// Sequences whose experts' rows are in one table, inside `root`; 1 without
/// experts.
int64_t sequencesPerTable(mlir::Operation *root);

/// The op's phase, or null before differentiation.
PhaseAttr getPhase(mlir::Operation *op);
void setPhase(mlir::Operation *op, PhaseKind kind, int64_t forwardOp);

/// The first group of the model whose pattern a parameter's name matches, null
/// for none. Braces in patterns are those of names. Fails with an error for a
/// pattern that is none.
mlir::FailureOr<GroupAttr> groupOf(ModelOp model, llvm::StringRef name);

/// The static type of a tensor value, and what it is made of.
inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return typeOf(value).getShape();
}
inline mlir::Type elementOf(mlir::Value value) {
  return typeOf(value).getElementType();
}
/// How many elements a tensor has.
inline int64_t elementCount(mlir::Value value) {
  return typeOf(value).getNumElements();
}

/// `type` with another element type or shape.
mlir::RankedTensorType withElement(mlir::Type type, mlir::Type element);
mlir::RankedTensorType withShape(mlir::Type type,
                                 llvm::ArrayRef<int64_t> shape);

/// The type in which reductions and transcendental functions of `type` are
/// computed: f32 for f16 and bf16, else the type itself.
mlir::RankedTensorType computeType(mlir::Type type);

/// True for tensors of `f8E4M3FN` or `f8E5M2`.
bool isFloat8(mlir::Type type);

/// The relation that `kerf.compare` of this kind tests.
Relation relationOf(CompareKind kind);

/// Number of rows or classes that the elements of an integer input of a model
/// index, or 0 where nothing says it.
int64_t getVocabulary(mlir::BlockArgument input);

/// What people call a value that a model returns, from the op that makes it:
/// "grad norm", "cross entropy", "load balance", else "value".
llvm::StringRef getResultLabel(mlir::Value value);

/// Replaces each `{i}` form of a parameter name by its value in iteration `i`,
/// and, unless `e` is negative, the place of a stack: `{e}` by `e`, `{k,v}` by
/// the name number `e`. `h.{2*i+1}.w` -> `h.7.w`.
std::string expandName(llvm::StringRef pattern, int64_t i, int64_t e = -1);
/// True when the pattern has an `{i}` form.
bool hasIteration(llvm::StringRef pattern);
/// True when the pattern has the place of a stack, `{e}` or `{k,v}`: dimension
/// 0 stacks tensors of a checkpoint.
bool isStacked(llvm::StringRef pattern);

} // namespace kerf

#endif // KERF_DIALECT_KERF_KERF_H
