//===- ContextStep.cpp - attention of context ranks by cuDNN --------------===//
//
// What a rank's queries see is known when the file is loaded: pieces
// (ContextPieces.h), each a plan of cuDNN. Before them keys and values that lie
// in the zigzag order are copied by position; behind them gradients of these
// copies are added into place, or rows that no piece writes are set.
//
//===----------------------------------------------------------------------===//

#include "../kernels/BesideArguments.h"
#include "../kernels/Code.h"
#include "ContextPieces.h"
#include "CudnnStep.h"
#include "kerf/Artifact/CudaWorkspace.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

using namespace kerf::cuda;
using kerf::device::attentionScalars;
using kerf::device::AttentionShape;
using kerf::device::HeadStrides;

namespace {
/// A kernel beside cuDNN's.
struct Beside {
  enum Kind { Order, Blank, Unseen } kind;
  CUfunction function;
  Grid grid;
  uint32_t operand; ///< the tensor
  /// Of Order: bytes from the aligned workspace on; -1: none.
  int64_t sorted[2] = {-1, -1};
  OrderArguments order = {};
  BlankArguments blank = {};
  UnseenArguments unseen = {};
};

struct ContextStep : kerf_step {
  using kerf_step::kerf_step;
  uint32_t workspace = 0; ///< operand
  int64_t deltaBytes = 0;
  std::vector<Beside> before, behind;
  std::vector<StepPointer> pieces;

  kerf_device_status execute(void *const *pointers, char *error,
                             size_t errorBytes) override;

private:
  kerf_device_status run(Beside beside, void *const *pointers, char *error,
                         size_t errorBytes);
};

/// Makes the step of a command.
struct Maker {
  const FusedRequest &fused;
  const AttentionShape &shape;
  const ContextPieces &pieces;
  ContextStep &step;
  FusedCopies copies[2] = {}; ///< of each piece
  int64_t copied = 0;         ///< bytes of all copies

  bool make(std::string &why);

private:
  void placeCopies();
  bool hasRoom() const;
  FusedView viewOf(const ContextPiece &piece, const FusedCopies &at) const;
  int64_t sortedRows() const;
  WordTensor wordsOf(const HeadStrides &strides, bool isOfKeys,
                     int64_t width) const;
  bool add(std::vector<Beside> &list, const char *kernel, Beside beside,
           int64_t threads);
  bool addSort(uint32_t operand, const HeadStrides &strides, int64_t width,
               int64_t at);
  bool addSum(uint32_t operand, const HeadStrides &strides, int64_t width,
              int64_t FusedCopies::*at);
  bool addBlank(uint32_t operand, const HeadStrides &strides, bool isOfKeys,
                int64_t width, int64_t first, int64_t count);
  bool addUnseen(int64_t first, int64_t count);
  bool addBlanks(uint32_t operand, const HeadStrides &strides, bool isOfKeys,
                 int64_t width);
  bool addBeside();
  /// Rows that no piece writes: before it and behind it.
  std::array<std::pair<int64_t, int64_t>, 2> unwritten(bool isOfKeys) const;
};
} // namespace

//===----------------------------------------------------------------------===//
// Views of pieces
//===----------------------------------------------------------------------===//

/// Positions that some query sees.
int64_t Maker::sortedRows() const {
  int64_t rows = 0;
  for (const ContextPiece &piece : pieces.list)
    rows = std::max(rows, piece.keys);
  return rows;
}

/// As kerf_cuda_attention_copied counts them. The first piece is that of the
/// earlier chunk of queries.
void Maker::placeCopies() {
  const int64_t *attrs = fused.request.attrs();
  auto all = kerf_cuda_attention_sorted(attrs, shape.sk);
  auto half = kerf_cuda_attention_sorted(attrs, shape.sk / 2);
  int64_t at = all.keys + all.values;
  for (int n = 0; n < 2; ++n) {
    copies[n] = {0, all.keys, at, at + (n ? all.keys : half.keys)};
    if (fused.backward)
      at += n ? all.keys + all.values : half.keys + half.values;
  }
  copied = at;
}

/// The command's workspace was planned for copies.
bool Maker::hasRoom() const {
  const Request &r = fused.request;
  return kerf_cuda_attention_is_sorted(r.attrs()) &&
         !r.absent(step.workspace) &&
         static_cast<int64_t>(r.info.operands[step.workspace].bytes) >=
             step.deltaBytes + KERF_CUDA_ATTENTION_ALIGN + copied;
}

static HeadStrides denseStrides(int64_t rows, int64_t heads, int64_t width) {
  return {rows * heads * width, heads * width, width};
}

FusedView Maker::viewOf(const ContextPiece &piece,
                        const FusedCopies &at) const {
  FusedView view;
  view.shape = shape;
  view.shape.zigzag = 0;
  view.shape.sq = piece.queries;
  view.shape.sk = piece.keys;
  view.shape.causal = piece.causal;
  view.shape.window = piece.window;
  view.bottomRight = piece.causal && piece.queries != piece.keys;
  view.query = piece.query;
  view.key = piece.key;
  if (!pieces.sorted)
    return view;
  view.isCopied = true;
  view.copies = at;
  view.skipped = copied;
  view.shape.k = denseStrides(sortedRows(), shape.g, shape.d);
  view.shape.v = denseStrides(sortedRows(), shape.g, shape.dv);
  view.shape.dk = denseStrides(piece.keys, shape.g, shape.d);
  view.shape.dvs = denseStrides(piece.keys, shape.g, shape.dv);
  return view;
}

//===----------------------------------------------------------------------===//
// Kernels beside them
//===----------------------------------------------------------------------===//

/// All rows, in words.
WordTensor Maker::wordsOf(const HeadStrides &strides, bool isOfKeys,
                          int64_t width) const {
  int64_t unit = besideWord / shape.bytes();
  return {nullptr,
          strides.batch / unit,
          strides.position / unit,
          strides.head / unit,
          static_cast<int32_t>(shape.b),
          static_cast<int32_t>(isOfKeys ? shape.sk : shape.sq),
          static_cast<int32_t>(isOfKeys ? shape.g : shape.h),
          static_cast<int32_t>(width / unit)};
}

bool Maker::add(std::vector<Beside> &list, const char *kernel, Beside beside,
                int64_t threads) {
  int64_t blocks = (threads + besideThreads - 1) / besideThreads;
  if (blocks > INT32_MAX)
    return false;
  beside.function = fused.request.ownKernel(kerf_ptx_beside, kernel);
  beside.grid.x = static_cast<unsigned>(blocks);
  beside.grid.threads = besideThreads;
  list.push_back(beside);
  return beside.function;
}

bool Maker::addSort(uint32_t operand, const HeadStrides &strides, int64_t width,
                    int64_t at) {
  Beside beside{Beside::Order, nullptr, {}, operand, {at, -1}};
  WordTensor words = wordsOf(strides, true, width);
  beside.order = {words, shape.zigzag, shape.sq / 2, {}, {}};
  beside.order.rows[0] = static_cast<int32_t>(sortedRows());
  return add(step.before, "beside_sort", beside,
             shape.b * sortedRows() * words.heads * words.words);
}

bool Maker::addSum(uint32_t operand, const HeadStrides &strides, int64_t width,
                   int64_t FusedCopies::*at) {
  Beside beside{Beside::Order, nullptr, {}, operand, {}};
  WordTensor words = wordsOf(strides, true, width);
  beside.order = {words, shape.zigzag, shape.sq / 2, {}, {}};
  // The later chunk of queries sees all that the earlier one sees.
  for (int n = 0; n < 2; ++n) {
    beside.sorted[n] = copies[1 - n].*at;
    beside.order.rows[n] = static_cast<int32_t>(pieces.list[1 - n].keys);
  }
  return add(step.behind,
             shape.dtype == KERF_BF16 ? "beside_add_bf16" : "beside_add_f16",
             beside, shape.b * shape.sk * words.heads * words.words);
}

bool Maker::addBlank(uint32_t operand, const HeadStrides &strides,
                     bool isOfKeys, int64_t width, int64_t first,
                     int64_t count) {
  if (count == 0)
    return true;
  Beside beside{Beside::Blank, nullptr, {}, operand, {}};
  WordTensor words = wordsOf(strides, isOfKeys, width);
  words.rows = static_cast<int32_t>(count);
  beside.blank = {words, static_cast<int32_t>(first)};
  return add(step.behind, "beside_blank", beside,
             shape.b * count * words.heads * words.words);
}

bool Maker::addUnseen(int64_t first, int64_t count) {
  if (count == 0 || fused.request.absent(KERF_ATTN_IN_LSE))
    return true;
  Beside beside{Beside::Unseen, nullptr, {}, 4, {}};
  beside.unseen = {nullptr, shape.b * shape.h, static_cast<int32_t>(shape.sq),
                   static_cast<int32_t>(first), static_cast<int32_t>(count)};
  return add(step.behind, "beside_unseen", beside, shape.b * shape.h * count);
}

std::array<std::pair<int64_t, int64_t>, 2>
Maker::unwritten(bool isOfKeys) const {
  int64_t all = isOfKeys ? shape.sk : shape.sq, first = all, end = 0;
  for (const ContextPiece &piece : pieces.list) {
    int64_t at = isOfKeys ? piece.key : piece.query;
    first = std::min(first, at);
    end = std::max(end, at + (isOfKeys ? piece.keys : piece.queries));
  }
  if (pieces.list.empty())
    return {{{0, all}, {all, 0}}};
  return {{{0, first}, {end, all - end}}};
}

bool Maker::addBlanks(uint32_t operand, const HeadStrides &strides,
                      bool isOfKeys, int64_t width) {
  for (auto [first, count] : unwritten(isOfKeys))
    if (!addBlank(operand, strides, isOfKeys, width, first, count))
      return false;
  return true;
}

bool Maker::addBeside() {
  const AttentionShape &s = shape;
  if (pieces.sorted)
    return addSort(1, s.k, s.d, copies[0].k) &&
           addSort(2, s.v, s.dv, copies[0].v) &&
           (!fused.backward || (addSum(7, s.dk, s.d, &FusedCopies::dk) &&
                                addSum(8, s.dvs, s.dv, &FusedCopies::dv)));
  if (fused.backward)
    return addBlanks(6, s.dq, false, s.d) && addBlanks(7, s.dk, true, s.d) &&
           addBlanks(8, s.dvs, true, s.dv);
  for (auto [first, count] : unwritten(false))
    if (!addUnseen(first, count))
      return false;
  return addBlanks(3, s.y, false, s.dv);
}

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

bool Maker::make(std::string &why) {
  Request &r = fused.request;
  step.workspace = attentionWorkspace(fused.backward);
  if (fused.backward)
    step.deltaBytes = kerf_cuda_attention_delta(r.attrs());
  if (pieces.sorted) {
    placeCopies();
    if (!hasRoom()) {
      why = "no room for keys by position";
      return false;
    }
  }
  for (size_t n = 0; n < pieces.list.size(); ++n) {
    StepPointer piece = fuseView(fused, viewOf(pieces.list[n], copies[n]), why);
    if (!piece)
      return false;
    step.pieces.push_back(std::move(piece));
  }
  if (addBeside())
    return true;
  why = r.refusal.empty() ? "its own kernels do not load" : r.refusal;
  return false;
}

StepPointer kerf::cuda::fuseContext(const FusedRequest &fused,
                                    const AttentionShape &shape,
                                    std::string &why) {
  Request &r = fused.request;
  uint32_t scalars = attentionScalars(fused.backward);
  int64_t offsetQ = r.fixed(scalars + KERF_ATTN_OFFSET_Q),
          offsetK = r.fixed(scalars + KERF_ATTN_OFFSET_K);
  if (offsetQ == KERF_NOT_FIXED || offsetK == KERF_NOT_FIXED) {
    why = "a mask that changes from call to call";
    return nullptr;
  }
  if (!fused.isWide) { // what is copied is so in words
    why = "rows that are not whole 16 bytes";
    return nullptr;
  }
  ContextPieces pieces = contextPieces(shape, offsetQ, offsetK);
  why = pieces.refusal;
  if (!why.empty())
    return nullptr;
  auto step = std::make_unique<ContextStep>(r.device, r.name());
  Maker maker{fused, shape, pieces, *step};
  return maker.make(why) ? std::move(step) : nullptr;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

kerf_device_status ContextStep::run(Beside beside, void *const *pointers,
                                    char *error, size_t errorBytes) {
  void *tensor = pointers[beside.operand];
  beside.order.tensor.data = beside.blank.tensor.data = tensor;
  beside.unseen.lse = static_cast<float *>(tensor);
  if (beside.kind == Beside::Order) {
    char *scratch =
        static_cast<char *>(workspaceAt(pointers[workspace], deltaBytes));
    for (int n = 0; n < 2; ++n)
      if (beside.sorted[n] >= 0)
        beside.order.sorted[n] = scratch + beside.sorted[n];
  }
  void *arguments[] = {beside.kind == Beside::Order   ? (void *)&beside.order
                       : beside.kind == Beside::Blank ? (void *)&beside.blank
                                                      : (void *)&beside.unseen};
  return launch(*this, beside.function, beside.grid, arguments, error,
                errorBytes);
}

kerf_device_status ContextStep::execute(void *const *pointers, char *error,
                                        size_t errorBytes) {
  for (const Beside &kernel : before)
    if (auto status = run(kernel, pointers, error, errorBytes))
      return status;
  for (const StepPointer &piece : pieces)
    if (auto status = piece->execute(pointers, error, errorBytes))
      return status;
  for (const Beside &kernel : behind)
    if (auto status = run(kernel, pointers, error, errorBytes))
      return status;
  return KERF_DEVICE_OK;
}
