//===- OpsWarpgroup.cpp - matmuls of warpgroups ---------------------------===//
//
// Each warp of a warpgroup computes its own 16 of the 64 rows: rows 16 w to
// 16 w + 15 for the warp whose index modulo 4 is w. Thread t of it holds, in
// register i of the accumulator, row t / 4 + 8 (i / 2 % 2) and column
// 8 (i / 4) + 2 (t % 4) + i % 2. A in registers lies as in mma.m16n8k16.
//
//===----------------------------------------------------------------------===//

#include "AsyncProxy.h"
#include "Lanes.h"
#include "MatrixProduct.h"
#include "Race.h"
#include "SharedMatrix.h"
#include "Warpgroup.h"

namespace {
/// Pieces of a matrix that one warp reads.
struct Part {
  SharedMatrix matrix;
  bool isMnMajor;
  U32 firstLine, lines, firstPiece, pieces;

  /// Calls `body(offset, line, piece)`, both from 0.
  template <class F> void forPieces(F body) const {
    for (U32 line = 0; line < lines; ++line)
      for (U32 piece = 0; piece < pieces; ++piece)
        body(matrix.piece(firstLine + line, firstPiece + piece), line, piece);
  }
};

U32 columnsOf(const Inst &inst) { return inst.count * 8; }

Part partOfA(const Warp &warp, const PendingMatmul &matmul) {
  bool isMnMajor = matmul.inst->mode & TransposedA;
  U32 own = warp.index % warpsOfGroup;
  SharedMatrix matrix(matmul.a, isMnMajor);
  return isMnMajor ? Part{matrix, true, 0, productDepth, own * warpRows / 8, 2}
                   : Part{matrix, false, own * warpRows, warpRows, 0, 2};
}
Part partOfB(const PendingMatmul &matmul) {
  bool isMnMajor = matmul.inst->mode & TransposedB;
  U32 columns = columnsOf(*matmul.inst);
  SharedMatrix matrix(matmul.b, isMnMajor);
  return isMnMajor ? Part{matrix, true, 0, productDepth, 0, columns / 8}
                   : Part{matrix, false, 0, columns, 0, 2};
}
bool hasRegisters(const Inst &inst) { return inst.a == UINT32_MAX; }

/// The accumulator's, then those of A.
U32 registerCount(const Inst &inst) {
  return columnsOf(inst) / 2 + (hasRegisters(inst) ? 4 : 0);
}
U32 placeOf(const Warp &warp, const Inst &inst, U32 index) {
  return warp.program->places[inst.target + index];
}
MatrixRegister &stateOf(Warp &warp, U32 place) {
  return warp.matrices->registers[place / (lanes * 4)];
}

// ---- What the warps of a warpgroup do alike ---------------------------------

void requireWarpgroup(const Warp &warp) {
  const Block &block = *warp.block;
  U32 end = (warp.index / warpsOfGroup + 1) * warpsOfGroup * lanes;
  if (end > block.threadCount)
    trap(warp, 0, IllegalInstruction,
         "wgmma needs 4 whole warps from a warp that 4 divides; the block "
         "has " +
             std::to_string(block.threadCount) + " threads");
}

/// Compares with what the first warp did at the same point.
void follow(Warp &warp, const WarpgroupLog::Event &event) {
  requireWarpgroup(warp);
  Block &block = *warp.block;
  WarpgroupLog &log = block.warpgroups[warp.index / warpsOfGroup];
  U64 at = warp.matrices->executed++ - log.first;
  if (at == log.events.size()) {
    log.events.push_back(event);
    return;
  }
  const WarpgroupLog::Event &other = log.events[at];
  if (other.inst != event.inst)
    trap(warp, 0, IllegalInstruction,
         "another warp of the warpgroup executed the wgmma of line " +
             std::to_string(other.inst->line) + " instead");
  if (other.a != event.a || other.b != event.b)
    trap(warp, 0, IllegalInstruction,
         "another warp of the warpgroup has another descriptor");
  if (other.accumulates != event.accumulates)
    trap(warp, 0, IllegalInstruction,
         "another warp of the warpgroup has another scale-d");
  U64 least = UINT64_MAX;
  U32 first = warp.index / warpsOfGroup * warpsOfGroup;
  for (U32 index = first; index < first + warpsOfGroup; ++index)
    least = std::min(least, block.warps[index]->matrices->executed);
  for (; log.first < least; ++log.first)
    log.events.pop_front();
}

// ---- Registers --------------------------------------------------------------

std::string ofLine(const MatrixRegister &state) {
  return " of line " + std::to_string(state.line);
}

[[noreturn]] void notFenced(const Warp &warp, const MatrixRegister &state,
                            const std::string &which) {
  bool isRead = state.use == MatrixRegister::Read;
  trap(warp, 0, LaunchFailed,
       which + " was " + (isRead ? "read" : "written") + " in line " +
           std::to_string(state.line) + " and no wgmma.fence lies between");
}

/// Matmuls may follow each other without a fence only on accumulators of one
/// shape. A that nobody writes may also be read by several.
bool mayFollow(const MatrixRegister &state, const MatrixRegister &next) {
  return state.use == MatrixRegister::Fenced ||
         (state.use == next.use && state.index == next.index &&
          state.columns == next.columns) ||
         (state.use == next.use && next.use == MatrixRegister::Operand);
}

void useRegister(Warp &warp, const Inst &inst, U32 place, MatrixRegister next) {
  MatrixRegister &state = stateOf(warp, place);
  if (!mayFollow(state, next)) {
    bool isA = next.use == MatrixRegister::Operand;
    std::string which = "register " + std::to_string(next.index) +
                        (isA ? " of A" : " of the accumulator");
    if (state.use == MatrixRegister::Read ||
        state.use == MatrixRegister::Written)
      notFenced(warp, state, which);
    bool wasA = state.use == MatrixRegister::Operand;
    trap(warp, 0, LaunchFailed,
         which +
             (wasA  ? " is in A of the wgmma"
              : isA ? " is in the accumulator of the wgmma"
                    : " is in an accumulator of another shape in the "
                      "wgmma") +
             ofLine(state) +
             (state.pending ? ": wgmma.wait_group comes first"
                            : " and no wgmma.fence lies between"));
  }
  next.line = inst.line;
  next.pending = state.pending + 1;
  state = next;
}

void useRegisters(Warp &warp, const Inst &inst) {
  U32 count = columnsOf(inst) / 2;
  for (U32 index = 0; index < registerCount(inst); ++index) {
    MatrixRegister next;
    next.use =
        index < count ? MatrixRegister::Accumulator : MatrixRegister::Operand;
    next.index = index < count ? index : index - count;
    next.columns = columnsOf(inst);
    useRegister(warp, inst, placeOf(warp, inst, index), next);
  }
}

// ---- Issue ------------------------------------------------------------------

/// The value of a 64-bit register that all lanes must agree on.
U64 descriptorOf(const Warp &warp, U32 place, U32 parts, const char *name) {
  const U64 *values = slot<U64>(warp, place);
  for (int lane = 1; lane < lanes; ++lane)
    if (values[lane] != values[0])
      trap(warp, lane, IllegalInstruction,
           std::string("the descriptor of ") + name +
               " differs from that of another lane");
  std::string problem = descriptorProblem(values[0], parts);
  if (!problem.empty())
    trap(warp, 0, IllegalInstruction, std::string(name) + ": " + problem);
  return values[0];
}

bool scaleOf(const Warp &warp, const Inst &inst) {
  U32 value = warp.predicates[inst.c & 0x7FFFFFFF];
  if (value != 0 && value != ~0u)
    trap(warp, 0, IllegalInstruction, "scale-d differs between lanes");
  return (value != 0) != (inst.c >> 31 != 0);
}

void beginPiece(Warp &warp, const Inst &inst, const char *name, U64 offset) {
  Block &block = *warp.block;
  U64 size = block.shared.size();
  if (offset + pieceBytes > size)
    trap(warp, 0, IllegalAddress,
         std::string(name) + " is at shared address " + std::to_string(offset) +
             " of " + std::to_string(size));
  for (U64 at = offset; at < offset + pieceBytes; ++at)
    if (!block.sharedWritten[at])
      trap(warp, 0, LaunchFailed,
           std::string(name) + " is at shared address " + std::to_string(at) +
               ", which no thread of the block wrote");
  block.proxy->beginRead(warp, offset, inst.line);
}

void issue(Warp &warp, const Inst &inst) {
  bool isMnMajorA = inst.mode & TransposedA,
       isMnMajorB = inst.mode & TransposedB;
  WarpMatrices &matrices = *warp.matrices;
  PendingMatmul matmul{&inst, 0, 0, scaleOf(warp, inst), matrices.groups};
  if (!hasRegisters(inst))
    matmul.a = descriptorOf(warp, inst.a, isMnMajorA ? 8 : 2, "A");
  matmul.b = descriptorOf(warp, inst.b, isMnMajorB ? inst.count : 2, "B");
  follow(warp, {&inst, matmul.a, matmul.b, matmul.accumulates});
  if (!matrices.isFenced)
    trap(warp, 0, LaunchFailed, "no wgmma.fence before the first matmul");
  useRegisters(warp, inst);
  auto begin = [&](const Part &part, const char *name) {
    part.forPieces(
        [&](U64 offset, U32, U32) { beginPiece(warp, inst, name, offset); });
  };
  if (!hasRegisters(inst))
    begin(partOfA(warp, matmul), "A");
  begin(partOfB(matmul), "B");
  matrices.pending.push_back(matmul);
}

// ---- Completion -------------------------------------------------------------

/// Eight numbers of a piece, which nobody needs to read again.
template <class T> void takePiece(Warp &warp, U64 offset, float (&values)[8]) {
  Block &block = *warp.block;
  T numbers[8];
  memcpy(numbers, block.shared.data() + offset, sizeof numbers);
  for (int at = 0; at < 8; ++at)
    values[at] = numbers[at];
  block.proxy->endRead(offset);
  if (block.races)
    block.races->matmul(warp, offset);
}

/// Rows of A, from shared memory.
template <class T>
void takeA(Warp &warp, const Part &part, float (&a)[warpRows][productDepth]) {
  part.forPieces([&](U64 offset, U32 line, U32 piece) {
    float values[8];
    takePiece<T>(warp, offset, values);
    for (U32 at = 0; at < 8; ++at)
      (part.isMnMajor ? a[piece * 8 + at][line] : a[line][piece * 8 + at]) =
          values[at];
  });
}
/// The same, from registers.
template <class T>
void takeRegisters(Warp &warp, const Inst &inst,
                   float (&a)[warpRows][productDepth]) {
  for (U32 index = 0; index < 4; ++index) {
    U32 place = placeOf(warp, inst, columnsOf(inst) / 2 + index);
    const U32 *bits = slot<U32>(warp, place);
    for (U32 lane = 0; lane < lanes; ++lane)
      for (U32 half = 0; half < 2; ++half)
        a[lane / 4 + index % 2 * 8][lane % 4 * 2 + half + index / 2 * 8] =
            T{U16(bits[lane] >> 16 * half)};
  }
}
/// b[k][n].
template <class T>
void takeB(Warp &warp, const Part &part, U32 columns, float *b) {
  part.forPieces([&](U64 offset, U32 line, U32 piece) {
    float values[8];
    takePiece<T>(warp, offset, values);
    for (U32 at = 0; at < 8; ++at)
      b[part.isMnMajor ? line * columns + piece * 8 + at
                       : (piece * 8 + at) * columns + line] = values[at];
  });
}

void putAccumulator(Warp &warp, const PendingMatmul &matmul,
                    const double *sums) {
  const Inst &inst = *matmul.inst;
  U32 columns = columnsOf(inst);
  bool isNegated = !(inst.mode & NegatedA) != !(inst.mode & NegatedB);
  for (U32 index = 0; index < columns / 2; ++index) {
    U32 *to =
        reinterpret_cast<U32 *>(warp.registers + placeOf(warp, inst, index));
    for (U32 lane = 0; lane < lanes; ++lane) {
      U32 row = lane / 4 + index / 2 % 2 * 8;
      U32 column = index / 4 * 8 + lane % 4 * 2 + index % 2;
      double sum = sums[row * columns + column];
      sum = isNegated ? -sum : sum;
      if (matmul.accumulates)
        sum += cast<float>(to[lane]);
      to[lane] = cast<U32>(static_cast<float>(sum));
    }
  }
}

template <class T> void complete(Warp &warp, const PendingMatmul &matmul) {
  const Inst &inst = *matmul.inst;
  float a[warpRows][productDepth], b[productDepth * 256];
  double sums[warpRows * 256];
  if (hasRegisters(inst))
    takeRegisters<T>(warp, inst, a);
  else
    takeA<T>(warp, partOfA(warp, matmul), a);
  takeB<T>(warp, partOfB(matmul), columnsOf(inst), b);
  multiplyRows(a, b, columnsOf(inst), sums);
  putAccumulator(warp, matmul, sums);
  for (U32 index = 0; index < registerCount(inst); ++index)
    --stateOf(warp, placeOf(warp, inst, index)).pending;
}

/// All but the last `offset` groups are done then, in their order.
void wait(Warp &warp, const Inst &inst) {
  follow(warp, {&inst, 0, 0, false});
  WarpMatrices &matrices = *warp.matrices;
  while (!matrices.pending.empty() &&
         matrices.pending.front().group + inst.offset < matrices.groups) {
    const PendingMatmul &matmul = matrices.pending.front();
    warp.block->current = matmul.inst; // faults are told of the matmul
    if (matmul.inst->mode & OfHalves)
      complete<F16>(warp, matmul);
    else
      complete<BF16>(warp, matmul);
    matrices.pending.pop_front();
  }
  warp.block->current = &inst;
}

void commit(Warp &warp, const Inst &inst) {
  follow(warp, {&inst, 0, 0, false});
  ++warp.matrices->groups;
}

void fence(Warp &warp, const Inst &inst) {
  follow(warp, {&inst, 0, 0, false});
  warp.matrices->isFenced = true;
  for (MatrixRegister &state : warp.matrices->registers)
    if (!state.pending)
      state.use = MatrixRegister::Fenced;
}

void fenceProxy(Warp &warp, const Inst &) {
  if (warp.block->proxy)
    warp.block->proxy->fence(warp);
}
} // namespace

void WarpMatrices::start() {
  registers.assign(registers.size(), {});
  pending.clear();
  groups = 0;
  isFenced = false;
  executed = 0;
}

void kerf::sim::touchRegisters(Warp &warp, uint32_t at) {
  const Program &program = *warp.program;
  for (U32 n = program.touchBegins[at]; n < program.touchBegins[at + 1]; ++n) {
    const Touch &touch = program.touches[n];
    MatrixRegister &state = stateOf(warp, touch.place);
    if (state.pending) {
      bool isOperand = state.use == MatrixRegister::Operand;
      trap(warp, __builtin_ctz(warp.mask), LaunchFailed,
           std::string(isOperand ? "A in registers" : "accumulator") +
               (touch.isWrite ? " written" : " read") +
               " before wgmma.wait_group: register " +
               std::to_string(state.index) + " of the wgmma" + ofLine(state));
    }
    state.use = touch.isWrite ? MatrixRegister::Written : MatrixRegister::Read;
    state.line = program.code[at].line;
  }
}

void kerf::sim::endWarp(Warp &warp) {
  const std::deque<PendingMatmul> &pending = warp.matrices->pending;
  if (!pending.empty())
    trap(warp, 0, LaunchFailed,
         "the kernel ends and the wgmma of line " +
             std::to_string(pending.front().inst->line) +
             " was not waited for");
}

void kerf::sim::endWarpgroups(Block &block) {
  block.current = nullptr;
  for (auto &warp : block.warps) {
    const Warp &first = *block.warps[warp->index / warpsOfGroup * warpsOfGroup];
    U64 own = warp->matrices->executed, other = first.matrices->executed;
    if (own != other)
      trap(*warp, 0, IllegalInstruction,
           "the warp has executed " + std::to_string(own) +
               " wgmma instructions, the first one of the warpgroup " +
               std::to_string(other));
  }
}

static const NamedHandler table[] = {
    {"wgmma.mma_async", issue},        {"wgmma.fence", fence},
    {"wgmma.commit_group", commit},    {"wgmma.wait_group", wait},
    {"fence.proxy.async", fenceProxy},
};

HandlerTable kerf::sim::warpgroupHandlers() {
  return {table, sizeof table / sizeof *table};
}
