#include "CommandBuilder.h"

#include "kerf/Artifact/Workspace.h"

using namespace mlir;
using namespace kerf;

int64_t CommandBuilder::workspaceBytes(exec::Opcode opcode,
                                       llvm::ArrayRef<int64_t> values) const {
  return kerf_workspace(options.target, static_cast<uint32_t>(opcode),
                        values.data(), options.workers);
}

/// A matmul that sums over micro-batches sets its result in the first and adds
/// to it in the others; `accumulate` is the place of the attribute that says
/// which.
void CommandBuilder::addMatmulCommand(exec::Opcode opcode, Operation *op,
                                      llvm::SmallVector<int64_t> values,
                                      llvm::ArrayRef<PlannedOperand> operands,
                                      unsigned accumulate) {
  llvm::StringRef name = exec::stringifyOpcode(opcode);
  bool accumulates = map.accumulating.contains(op);
  if (!accumulates || !continues) {
    PlannedCommand &first = add(opcode, op, name, values);
    first.operands.assign(operands.begin(), operands.end());
    first.when = accumulates ? KERF_IF_FIRST : 0;
  }
  if (!accumulates)
    return;
  values[accumulate] = 1;
  PlannedCommand &later = add(opcode, op, name, values);
  later.operands.assign(operands.begin(), operands.end());
  later.when = continues ? 0 : KERF_UNLESS_FIRST;
}

/// What a command matmul does beside the multiplication. Values that it has not
/// are null.
struct CommandBuilder::Epilogue {
  kerf_epilogue kind = KERF_EPILOGUE_NONE;
  Value bias, biasGradient; ///< one of them, the operand `bias`
  Value aux, auxResult;     ///< one of them, the operand `aux`
  llvm::SmallVector<Value, 2> scales;
};

/// Adds the command of `op`: the matmul of `operands`, then the epilogue.
LogicalResult CommandBuilder::addMatmul(Operation *op, Operation *matmul,
                                        llvm::ArrayRef<Value> operands,
                                        const Epilogue &epilogue) {
  llvm::SmallVector<Strides> strides;
  for (Value value : operands)
    strides.push_back(stridesOf(value));
  Value result = op->getResult(0);
  auto form = getMatmulForm(matmul, strides, stridesOf(result));
  if (!form)
    return op->emitOpError("is no strided matmul where its operands lie");
  Value a = operands[form->a.operand], b = operands[form->b.operand];
  Value bias = epilogue.bias ? epilogue.bias : epilogue.biasGradient;
  llvm::SmallVector<int64_t> values = {dtypeOf(a.getType()),
                                       dtypeOf(b.getType()),
                                       dtypeOf(result.getType()),
                                       form->batch,
                                       form->m,
                                       form->n,
                                       form->k,
                                       form->a.batch,
                                       form->a.row,
                                       form->a.column,
                                       form->b.batch,
                                       form->b.row,
                                       form->b.column,
                                       form->c.batch,
                                       form->c.row,
                                       /*accumulate=*/0,
                                       epilogue.kind,
                                       bias ? dtypeOf(bias.getType()) : 0};
  int64_t bytes = workspaceBytes(exec::Opcode::Matmul, values);
  llvm::SmallVector<PlannedOperand> planned = {
      operand(a, KERF_READ), operand(b, KERF_READ), operand(result, KERF_WRITE),
      workspace(bytes, "matmul")};
  bool hasAux = epilogue.aux || epilogue.auxResult;
  if (bias)
    planned.push_back(operand(bias, epilogue.bias ? KERF_READ : KERF_WRITE));
  else if (hasAux || !epilogue.scales.empty())
    planned.push_back(absent());
  if (hasAux)
    planned.push_back(epilogue.aux ? operand(epilogue.aux, KERF_READ)
                                   : operand(epilogue.auxResult, KERF_WRITE));
  else if (!epilogue.scales.empty())
    planned.push_back(absent());
  for (Value scale : epilogue.scales)
    planned.push_back(operand(scale, KERF_READ));
  addMatmulCommand(exec::Opcode::Matmul, op, values, planned,
                   /*accumulate=*/15);
  return success();
}

LogicalResult CommandBuilder::buildMatmul(Operation *op) {
  Epilogue epilogue;
  if (op->getNumOperands() > 2) {
    epilogue.kind = KERF_EPILOGUE_BIAS;
    epilogue.bias = op->getOperand(2);
  }
  return addMatmul(op, op, llvm::to_vector(op->getOperands()), epilogue);
}

/// The epilogue of a gelu behind a matmul.
static kerf_epilogue geluOf(bool hasBias, bool hasAux) {
  if (hasAux)
    return hasBias ? KERF_EPILOGUE_GELU_AUX_BIAS : KERF_EPILOGUE_GELU_AUX;
  return hasBias ? KERF_EPILOGUE_GELU_BIAS : KERF_EPILOGUE_GELU;
}

/// Matmuls with gelu or sums of rows, and scales of 8-bit floats alone, are
/// for target cuda; the CPU has matmuls of wider floats with scales.
static bool isOfTarget(const spmd::MatmulParts &parts, uint32_t target) {
  bool isNarrow = isFloat8(parts.matmul->getOperand(0).getType());
  if (target == KERF_TARGET_CUDA)
    return !parts.scaled || isNarrow;
  return parts.scaled && !isNarrow;
}

LogicalResult CommandBuilder::buildFusedMatmul(spmd::FusedMatmulOp op) {
  spmd::MatmulParts parts = op.getParts();
  if (!isOfTarget(parts, options.target))
    return op.emitOpError()
           << "is not for target " << kerf_target_name(options.target)
           << "; run the stage fuse for this target";
  // What the body calls an argument is an operand of the op.
  auto outside = [&](Value value) {
    return op.getInputs()[cast<BlockArgument>(value).getArgNumber()];
  };
  llvm::SmallVector<Value> operands =
      llvm::map_to_vector(parts.matmul->getOperands(), outside);
  Epilogue epilogue;
  Value second = op->getNumResults() > 1 ? op->getResult(1) : Value();
  if (parts.scaled) {
    epilogue.kind = KERF_EPILOGUE_SCALE;
    epilogue.scales = llvm::map_to_vector<2>(parts.scales, outside);
  } else if (parts.gelu) {
    if (operands.size() > 2)
      epilogue.bias = operands[2];
    epilogue.auxResult = second;
    epilogue.kind = geluOf(bool(epilogue.bias), bool(second));
  } else if (parts.geluBackward) {
    epilogue.aux = outside(parts.geluBackward.getX());
    epilogue.biasGradient = second;
    epilogue.kind = second ? KERF_EPILOGUE_DGELU_BGRAD : KERF_EPILOGUE_DGELU;
  } else {
    epilogue.biasGradient = second;
    auto form = getMatmulForm(parts.matmul);
    epilogue.kind = form && form->a.operand == *parts.summedOperand
                        ? KERF_EPILOGUE_BGRAD_A
                        : KERF_EPILOGUE_BGRAD_B;
  }
  return addMatmul(op, parts.matmul, operands, epilogue);
}

/// Strides of batch, position and head; the channels of all tensors of an
/// attention are adjacent.
static void setStrides(llvm::SmallVectorImpl<int64_t> &values, unsigned at,
                       const Strides &strides) {
  for (unsigned d = 0; d < 3; ++d)
    values[at + d] = strides[d];
}

/// Attributes that an attention and its gradient share.
template <typename Op>
static void setAttentionValues(Op op, llvm::SmallVectorImpl<int64_t> &values) {
  auto q = typeOf(op.getQ()), k = typeOf(op.getK()), v = typeOf(op.getV());
  values[KERF_ATTN_DTYPE] = dtypeOf(q);
  values[KERF_ATTN_B] = q.getDimSize(0);
  values[KERF_ATTN_SQ] = q.getDimSize(1);
  values[KERF_ATTN_H] = q.getDimSize(2);
  values[KERF_ATTN_D] = q.getDimSize(3);
  values[KERF_ATTN_SK] = k.getDimSize(1);
  values[KERF_ATTN_G] = k.getDimSize(2);
  values[KERF_ATTN_DV] = v.getDimSize(3);
  values[KERF_ATTN_CAUSAL] = op.getCausal();
  values[KERF_ATTN_WINDOW] = op.getWindow().value_or(0);
  double scale = op.getScale() ? op.getScale()->convertToDouble()
                               : 1.0 / std::sqrt(double(q.getDimSize(3)));
  values[KERF_ATTN_SCALE] = llvm::bit_cast<int64_t>(scale);
  double dropout = op.getDropout() ? op.getDropout()->convertToDouble() : 0.0;
  values[KERF_ATTN_DROPOUT] = llvm::bit_cast<int64_t>(dropout);
  double cap = op.getSoftcap() ? op.getSoftcap()->convertToDouble() : 0.0;
  values[KERF_ATTN_SOFTCAP] = llvm::bit_cast<int64_t>(cap);
  std::string name = op.getName() ? op.getName()->str() : "";
  values[KERF_ATTN_NAME_HASH] =
      static_cast<int64_t>(kerf_hash_name(name.c_str()));
  int64_t whole[] = {q.getDimSize(0), q.getDimSize(2), q.getDimSize(1),
                     k.getDimSize(1)};
  for (unsigned d = 0; d < 4; ++d)
    values[KERF_ATTN_GLOBAL + d] =
        op.getGlobal() ? (*op.getGlobal())[d] : whole[d];
  values[KERF_ATTN_ZIGZAG] = op.getZigzag() ? op.getZigzag()->getRanks() : 0;
}

/// An offset of no axes: that of a dimension that is not sharded.
static bool isZero(Value offset) {
  auto op = offset.getDefiningOp<spmd::OffsetOp>();
  return op && op.getAxes().empty() && op.getStart().value_or(0) == 0;
}

LogicalResult CommandBuilder::buildAttention(Operation *op) {
  llvm::SmallVector<int64_t> values(KERF_ATTN_ATTR_COUNT, 0);
  llvm::SmallVector<PlannedOperand> operands;
  auto common = [&](auto attention) {
    setAttentionValues(attention, values);
    setStrides(values, KERF_ATTN_Q_STRIDES, stridesOf(attention.getQ()));
    setStrides(values, KERF_ATTN_K_STRIDES, stridesOf(attention.getK()));
    setStrides(values, KERF_ATTN_V_STRIDES, stridesOf(attention.getV()));
    for (Value value : {attention.getQ(), attention.getK(), attention.getV()})
      operands.push_back(operand(value, KERF_READ));
  };
  auto attentionBytes = [&](exec::Opcode opcode, auto attention) {
    return attention.getSegments().empty()
               ? workspaceBytes(opcode, values)
               : kerf_documents_workspace(options.target,
                                          static_cast<uint32_t>(opcode),
                                          values.data(), options.workers);
  };
  auto rest = [&](auto attention, int64_t bytes) {
    operands.push_back(optional(attention.getSeed()));
    operands.push_back(optional(attention.getStep()));
    operands.push_back(optional(attention.getLayer()));
    for (unsigned i = 0; i < 4; ++i)
      operands.push_back(attention.getOffsets().empty() ||
                                 isZero(attention.getOffsets()[i])
                             ? absent()
                             : scalar(attention.getOffsets()[i]));
    operands.push_back(workspace(bytes, "attention"));
    for (Value segments : attention.getSegments())
      operands.push_back(operand(segments, KERF_READ));
  };
  if (auto forward = dyn_cast<AttentionOp>(op)) {
    common(forward);
    Value y = forward.getResult();
    setStrides(values, KERF_ATTN_Y_STRIDES, stridesOf(y));
    operands.push_back(operand(y, KERF_WRITE));
    operands.push_back(forward.getLse()
                           ? operand(forward.getLogSumExp(), KERF_WRITE)
                           : absent());
    rest(forward, attentionBytes(exec::Opcode::Attention, forward));
    add(exec::Opcode::Attention, op, "attention", values).operands = operands;
    return success();
  }
  auto backward = cast<AttentionBackwardOp>(op);
  common(backward);
  setStrides(values, KERF_ATTN_Y_STRIDES, stridesOf(backward.getY()));
  setStrides(values, KERF_ATTN_DY_STRIDES, stridesOf(backward.getDy()));
  for (Value value :
       {backward.getY(), backward.getLogSumExp(), backward.getDy()})
    operands.push_back(operand(value, KERF_READ));
  unsigned at[] = {KERF_ATTN_DQ_STRIDES, KERF_ATTN_DK_STRIDES,
                   KERF_ATTN_DV_STRIDES};
  for (auto [result, first] : llvm::zip(backward->getResults(), at)) {
    setStrides(values, first, stridesOf(result));
    operands.push_back(operand(result, KERF_WRITE));
  }
  rest(backward, attentionBytes(exec::Opcode::AttentionBackward, backward));
  add(exec::Opcode::AttentionBackward, op, "attention_backward", values)
      .operands = operands;
  return success();
}

LogicalResult CommandBuilder::buildGroupedMatmul(Operation *op) {
  bool isGradient = isCall(op, LibraryCall::GroupedGradient);
  Value x = op->getOperand(0), w = op->getOperand(1), sizes = op->getOperand(2);
  Value y = op->getResult(0);
  auto rows = typeOf(x);
  // Of the weight or its gradient, [experts, n, k].
  auto weight = isGradient ? typeOf(y) : typeOf(w);
  auto capacity = op->getAttrOfType<IntegerAttr>("capacity");
  bool isTransposed = op->hasAttr("transposed");
  llvm::SmallVector<int64_t> values = {isGradient ? 1 : 0,
                                       dtypeOf(x.getType()),
                                       dtypeOf(w.getType()),
                                       dtypeOf(y.getType()),
                                       rows.getDimSize(0),
                                       rows.getDimSize(1),
                                       weight.getDimSize(0),
                                       weight.getDimSize(isTransposed ? 2 : 1),
                                       weight.getDimSize(isTransposed ? 1 : 2),
                                       isTransposed,
                                       capacity ? capacity.getInt() : 0,
                                       /*accumulate=*/0};
  int64_t bytes = workspaceBytes(exec::Opcode::GroupedMatmul, values);
  llvm::SmallVector<PlannedOperand> operands = {
      operand(x, KERF_READ), operand(w, KERF_READ), operand(sizes, KERF_READ),
      operand(y, KERF_WRITE), workspace(bytes, "grouped_matmul")};
  addMatmulCommand(exec::Opcode::GroupedMatmul, op, values, operands,
                   /*accumulate=*/11);
  return success();
}
