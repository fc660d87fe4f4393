//===- KerfOpBase.td - classes shared by the op files ---------------------===//

#ifndef KERF_OP_BASE_TD
#define KERF_OP_BASE_TD

include "kerf/Dialect/Kerf/KerfAttrs.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// Dimensions have letters in factors and equations: the rank has a limit.
class Kerf_TensorOf<list<Type> allowed> : RankedTensorOf<allowed, [HasStaticShapePred,
    CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() <= 16">,
    CPred<"!::llvm::cast<::mlir::RankedTensorType>($_self).getEncoding()">],
    "plain tensor (static shape, rank <= 16, no encoding)">;
def Kerf_Float : Kerf_TensorOf<[F64, F32, BF16, F16]>;
def Kerf_Int : Kerf_TensorOf<[I32]>;
def Kerf_Bool : Kerf_TensorOf<[I1]>;
def Kerf_Number : Kerf_TensorOf<[F64, F32, BF16, F16, I32]>;
/// i8 and the types of 8-bit floats are stored and moved, and cast for arithmetic.
def Kerf_Tensor : Kerf_TensorOf<[F64, F32, BF16, F16, F8E4M3FN, F8E5M2, I32, I8, I1]>;
/// Factors of matmuls.
def Kerf_MatmulFloat : Kerf_TensorOf<[F64, F32, BF16, F16, F8E4M3FN, F8E5M2]>;

def Kerf_FloatScalar : Type<
    And<[Kerf_Float.predicate, CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 0">]>,
    "scalar float tensor", "::mlir::TensorType">;
def Kerf_F32Scalar : Type<
    And<[Kerf_FloatScalar.predicate, CPred<"::llvm::cast<::mlir::ShapedType>($_self).getElementType().isF32()">]>,
    "tensor<f32>", "::mlir::TensorType">,
    BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getF32Type())">;
def Kerf_I32Scalar : Type<
    And<[Kerf_Int.predicate, CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 0">]>,
    "tensor<i32>", "::mlir::TensorType">,
    BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI32Type())">;
def Kerf_BoolScalar : Type<
    And<[Kerf_Bool.predicate, CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 0">]>,
    "tensor<i1>", "::mlir::TensorType">,
    BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI1Type())">;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

/// Read as signed: sizes and indices that are negative are found as such.
def Kerf_I64Attr : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer">;

class Kerf_AnyOf<Pred condition, string summary> : Attr<condition, summary> {
  let returnType = "::mlir::Attribute";
  let convertFromStorage = "$_self";
}
def Kerf_OptimizerRule : Kerf_AnyOf<
    CPred<"::llvm::isa<::kerf::OptimizerRuleInterface>($_self)">, "optimizer rule">;
def Kerf_RopeScalingKind : Kerf_AnyOf<
    CPred<"(::llvm::isa<::kerf::RopeLlama3Attr, ::kerf::RopeLinearAttr, ::kerf::RopeYarnAttr, ::kerf::RopeTableAttr>($_self))">,
    "rope scaling (#kerf.rope_llama3, #kerf.rope_linear, #kerf.rope_yarn or #kerf.rope_table)">;

//===----------------------------------------------------------------------===//
// Classes
//===----------------------------------------------------------------------===//

class Kerf_Op<string mnemonic, list<Trait> traits = []>
    : Op<Kerf_Dialect, mnemonic, traits>;

def Kerf_Factors : DeclareOpInterfaceMethods<FactorOpInterface>;
def Kerf_Gradient : DeclareOpInterfaceMethods<GradientOpInterface>;
/// The same of an op through which no gradient flows.
def Kerf_NoGradient : DeclareOpInterfaceMethods<GradientOpInterface, ["stopsGradient"]>;
def Kerf_Cost : DeclareOpInterfaceMethods<CostOpInterface, ["getCost"]>;
/// Cost facts of element-wise work: the interface's default.
def Kerf_PointwiseCost : DeclareOpInterfaceMethods<CostOpInterface>;
/// Kerf_Decompose of an op whose kernel has loops of its own.
def Kerf_OwnLoops : DeclareOpInterfaceMethods<DecomposeOpInterface, ["hasOwnLoops"]>;
def Kerf_Decompose : DeclareOpInterfaceMethods<DecomposeOpInterface>;
def Kerf_View : DeclareOpInterfaceMethods<ViewOpInterface>;
def Kerf_AttentionFacts : DeclareOpInterfaceMethods<AttentionOpInterface, ["getAttentionFacts"]>;
def Kerf_Library : DeclareOpInterfaceMethods<LibraryOpInterface>;
def Kerf_RowOrder : DeclareOpInterfaceMethods<RowOrderOpInterface>;
/// Ops that ask something of sizes, that repeat sizes, or both.
def Kerf_Demand : DeclareOpInterfaceMethods<ResizeOpInterface, ["demandSizes"]>;
def Kerf_Resize : DeclareOpInterfaceMethods<ResizeOpInterface, ["resize"]>;
def Kerf_DemandResize : DeclareOpInterfaceMethods<ResizeOpInterface, ["demandSizes", "resize"]>;
/// Kerf_Localize of an op that has offset operands.
def Kerf_Offsets : DeclareOpInterfaceMethods<LocalizeOpInterface, ["getOffsetPlaces"]>;
def Kerf_Localize : DeclareOpInterfaceMethods<LocalizeOpInterface>;
def Kerf_Variant : DeclareOpInterfaceMethods<VariantOpInterface>;
def Kerf_Precision : DeclareOpInterfaceMethods<PrecisionOpInterface>;
def Kerf_Evaluate : DeclareOpInterfaceMethods<EvaluateOpInterface>;
def Kerf_Scalar : DeclareOpInterfaceMethods<ScalarOpInterface>;
/// The same of an op that changes the element type alone.
def Kerf_Conversion : DeclareOpInterfaceMethods<ScalarOpInterface, ["isConversion"]>;
/// The same of an op that says whether it is expensive.
def Kerf_Function : DeclareOpInterfaceMethods<ScalarOpInterface, ["isExpensive"]>;

/// Result types follow from operands and attributes, and are not written.
class Kerf_InferredOp<string mnemonic, list<Trait> traits>
    : Kerf_Op<mnemonic, traits # [Pure, Kerf_Factors, InferTypeOpAdaptor]>;

/// What `attention` and its gradient share.
class Kerf_AttentionBase<string mnemonic, list<Trait> traits = []>
    : Kerf_InferredOp<mnemonic, traits # [AttrSizedOperandSegments, Kerf_AttentionFacts, Kerf_Library, Kerf_Resize, Kerf_RowOrder, Kerf_Cost,
                                        Kerf_Decompose, Kerf_Variant]> {
  dag shared = (ins Kerf_Float:$q, Kerf_Float:$k, Kerf_Float:$v,
    Variadic<Kerf_Int>:$segments, Variadic<Kerf_I32Scalar>:$offsets,
    Optional<Kerf_I32Scalar>:$seed, Optional<Kerf_I32Scalar>:$step,
    Optional<Kerf_I32Scalar>:$layer, UnitAttr:$causal, OptionalAttr<Kerf_I64Attr>:$window,
    OptionalAttr<F64Attr>:$scale, OptionalAttr<F64Attr>:$softcap, OptionalAttr<F64Attr>:$dropout,
    OptionalAttr<StrAttr>:$name, OptionalAttr<DenseI64ArrayAttr>:$global);
}

#endif // KERF_OP_BASE_TD
