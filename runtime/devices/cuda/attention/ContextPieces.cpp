//===- ContextPieces.cpp - causal attention of a part of a sequence -------===//
//
// A library attends rows that lie one after the other. What a context rank's
// queries see is split into such runs, known when the file is loaded:
//
// - A contiguous part of queries over all keys sees those up to its own end.
// - In the zigzag order over n ranks rank r has chunks r and 2n-1-r. Over all
//   keys, by position, chunk i sees the first i + 1 chunks.
// - In a ring a rank has the keys of rank s: all queries see the first chunk of
//   an earlier rank, the second chunk of queries sees all of a later one, and
//   its own keys are in order.
//
//===----------------------------------------------------------------------===//

#include "ContextPieces.h"

using namespace kerf::cuda;
using kerf::device::AttentionShape;

static ContextPieces refuse(const char *why) { return {false, {}, why}; }

/// The first query lies `t` positions behind the first key.
static ContextPieces inOrder(const AttentionShape &s, int64_t t) {
  bool isHidden = s.window && t - (s.sk - 1) >= s.window;
  if (t + s.sq <= 0 || isHidden)
    return {};
  if (t >= s.sk - 1) {
    if (s.window && t + s.sq > s.window)
      return refuse("a window that ends between a rank's queries and keys");
    return {false, {{0, s.sq, 0, s.sk, false, 0}}, ""};
  }
  if (t < 0 || t + s.sq > s.sk)
    return refuse("queries that begin before their keys or end behind them");
  return {false, {{0, s.sq, 0, t + s.sq, true, s.window}}, ""};
}

static ContextPieces overAllKeys(const AttentionShape &s, int64_t rank,
                                 int64_t chunk) {
  int64_t last = 2 * s.zigzag - rank;
  return {true,
          {{0, chunk, 0, (rank + 1) * chunk, true, s.window},
           {chunk, chunk, 0, last * chunk, true, s.window}},
          ""};
}

static ContextPieces inRing(const AttentionShape &s, int64_t rank,
                            int64_t other) {
  if (s.window)
    return refuse("a window over a ring of ranks");
  int64_t chunk = s.sq / 2;
  if (other == rank)
    return {false, {{0, s.sq, 0, s.sk, true, 0}}, ""};
  if (other < rank)
    return {false, {{0, s.sq, 0, chunk, false, 0}}, ""};
  return {false, {{chunk, chunk, 0, s.sk, false, 0}}, ""};
}

ContextPieces kerf::cuda::contextPieces(const AttentionShape &s,
                                        int64_t offsetQ, int64_t offsetK) {
  if (s.segments)
    return refuse("packed documents on a part of a sequence");
  if (s.zigzag <= 1)
    return inOrder(s, offsetQ - offsetK);
  int64_t chunk = s.global[2] / (2 * s.zigzag), part = 2 * chunk;
  if (s.sq != part || offsetQ < 0 || offsetQ % part != 0 ||
      offsetQ >= s.global[2])
    return refuse("queries that are not a rank's part of the zigzag order");
  if (s.sk == s.global[3] && offsetK == 0)
    return overAllKeys(s, offsetQ / part, chunk);
  if (s.sk != part || offsetK < 0 || offsetK % part != 0 ||
      offsetK >= s.global[3])
    return refuse("keys that are neither all nor a rank's part");
  return inRing(s, offsetQ / part, offsetK / part);
}
