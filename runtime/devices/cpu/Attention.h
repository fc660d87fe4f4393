//===- Attention.h - what both directions of attention share --------------===//
//
// Blocks of queries times blocks of keys, never all scores at once (Dao et al.
// 2022, "FlashAttention"). Blocks that the mask hides are skipped, blocks that
// it hides in part are computed in the part that shows.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CPU_ATTENTION_H
#define KERF_DEVICES_CPU_ATTENTION_H

#include "../common/AttentionShape.h"
#include "Step.h"
#include "kerf/Artifact/CpuWorkspace.h"

#include <vector>

namespace kerf::cpu {

using kerf::device::HeadStrides;

/// Rows [begin, end) with the positions begin + shift, begin + shift + 1, ...
struct RowRun {
  int64_t begin, end, shift;

  int64_t clamp(int64_t row) const {
    return row < begin ? begin : row > end ? end : row;
  }
};

/// The runs that local rows are made of, of which the first one is row `offset`
/// of `whole`: one, unless they lie in zigzag order over that many ranks.
std::vector<RowRun> runsOf(int64_t rows, int64_t offset, int64_t zigzag,
                           int64_t whole);

/// Which keys of one run a query of another sees by position, in local numbers.
struct Visibility {
  bool causal;
  int64_t window;
  RowRun queries, keys;

  int64_t keyBegin(int64_t query) const {
    return window ? keys.clamp(query + shift() - window + 1) : keys.begin;
  }
  int64_t keyEnd(int64_t query) const {
    return causal ? keys.clamp(query + shift() + 1) : keys.end;
  }
  int64_t queryBegin(int64_t key) const {
    return causal ? queries.clamp(key - shift()) : queries.begin;
  }
  int64_t queryEnd(int64_t key) const {
    return window ? queries.clamp(key - shift() + window) : queries.end;
  }

private:
  int64_t shift() const { return queries.shift - keys.shift; }
};

/// The attributes.
struct AttentionShape : kerf::device::AttentionShape {
  Number number;
};

/// The scalars of a run: seed, step, layer, then offsets of b, h, q, k; null
/// pointers are -1 for the layer and 0 else.
struct AttentionScalars {
  int64_t seed, step, layer, offset[4];
  /// `pointers` has the seven.
  explicit AttentionScalars(void *const *pointers);
  std::vector<RowRun> queryRuns(const AttentionShape &shape) const;
  std::vector<RowRun> keyRuns(const AttentionShape &shape) const;
  Dropout dropout(const AttentionShape &shape) const;
  /// Random index of local (b, h), and of a query and a key by position.
  uint64_t randomIndex(const AttentionShape &shape, int64_t b, int64_t h,
                       int64_t q, int64_t k) const;
};

/// Checks the attributes of either direction; `backward` ones too. False after
/// writing a message.
bool readAttention(Request &request, bool backward, AttentionShape &shape);

/// A matrix of positions [from, ..) of a head by channels.
View headView(const AttentionShape &shape, const void *data,
              const HeadStrides &strides, int64_t b, int64_t from, int64_t h);

/// Divides memory into parts.
class Carver {
public:
  explicit Carver(void *memory) : at(static_cast<char *>(memory)) {}
  float *take(int64_t floats) {
    char *part = at;
    at += floats * 4;
    return reinterpret_cast<float *>(part);
  }

private:
  char *at;
};

} // namespace kerf::cpu

#endif // KERF_DEVICES_CPU_ATTENTION_H
