//===- Attention.cpp - checks of attention --------------------------------===//

#include "Attention.h"

using namespace kerf::cpu;

static int64_t scalarAt(void *pointer, int64_t otherwise) {
  return pointer ? *static_cast<const int32_t *>(pointer) : otherwise;
}

AttentionScalars::AttentionScalars(void *const *pointers)
    : seed(scalarAt(pointers[KERF_ATTN_SEED], 0)),
      step(scalarAt(pointers[KERF_ATTN_STEP], 0)),
      layer(scalarAt(pointers[KERF_ATTN_LAYER], -1)) {
  for (int i = 0; i < 4; ++i)
    offset[i] = scalarAt(pointers[KERF_ATTN_OFFSET_B + i], 0);
}

std::vector<RowRun> kerf::cpu::runsOf(int64_t rows, int64_t offset,
                                      int64_t zigzag, int64_t whole) {
  if (zigzag == 0)
    return {{0, rows, offset}};
  std::vector<RowRun> runs;
  int64_t chunk = whole / (2 * zigzag);
  for (int64_t row = 0; row < rows;) {
    int64_t end = kerf_cpu_min(rows, row + chunk - (row + offset) % chunk);
    int64_t shift = kerf_zigzag(zigzag, chunk, row + offset) - row;
    if (!runs.empty() && runs.back().shift == shift)
      runs.back().end = end;
    else
      runs.push_back({row, end, shift});
    row = end;
  }
  return runs;
}

std::vector<RowRun>
AttentionScalars::queryRuns(const AttentionShape &shape) const {
  return runsOf(shape.sq, offset[2], shape.zigzag, shape.global[2]);
}

std::vector<RowRun>
AttentionScalars::keyRuns(const AttentionShape &shape) const {
  return runsOf(shape.sk, offset[3], shape.zigzag, shape.global[3]);
}

Dropout AttentionScalars::dropout(const AttentionShape &shape) const {
  if (shape.dropout == 0)
    return {0, 0, 1.0f};
  return {kerf_random_stream(seed, step, layer, shape.nameHash),
          kerf::device::dropoutThreshold(shape.dropout),
          static_cast<float>(1.0 / (1.0 - shape.dropout))};
}

uint64_t AttentionScalars::randomIndex(const AttentionShape &shape, int64_t b,
                                       int64_t h, int64_t q, int64_t k) const {
  const int64_t whole[] = {b + offset[0], h + offset[1], q, k};
  uint64_t index = 0;
  for (int i = 0; i < 4; ++i)
    index = index * static_cast<uint64_t>(shape.global[i]) +
            static_cast<uint64_t>(whole[i]);
  return index;
}

View kerf::cpu::headView(const AttentionShape &shape, const void *data,
                         const HeadStrides &strides, int64_t b, int64_t from,
                         int64_t h) {
  return {static_cast<const char *>(data) +
              strides.at(b, from, h) * shape.bytes(),
          strides.position, 1, shape.number};
}

bool kerf::cpu::readAttention(Request &r, bool backward, AttentionShape &s) {
  if (!kerf::device::readAttention(r, backward, s))
    return false;
  s.number = numberOf(s.dtype);
  return r.hasWorkspace(kerf::device::attentionScalars(backward) +
                        KERF_ATTN_WORKSPACE);
}
