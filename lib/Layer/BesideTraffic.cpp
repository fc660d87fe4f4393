//===- BesideTraffic.cpp - collectives that run beside a layer's ops ------===//

#include "BesideTraffic.h"

#include <algorithm>
#include <tuple>

using namespace kerf;

//===----------------------------------------------------------------------===//
// Routed tokens
//===----------------------------------------------------------------------===//

/// Seconds of a pass' ops beside routed tokens.
static double besideSec(const LayerTerms &terms, const LayerLayout &layout,
                        bool backward, bool withDeferred) {
  double sec = 0;
  for (auto [op, own] : llvm::enumerate(terms.kind.ops))
    if (terms.facts.beside[op] &&
        (own.phase != LayerPhase::Forward) == backward &&
        (withDeferred || !own.isDeferred))
      sec += terms.timeOf(op, layout).seconds;
  return sec;
}

/// Seconds of the backward pass' ops behind the sums that bring gradients home.
static double besideHomeSec(const LayerTerms &terms,
                            const LayerLayout &layout) {
  double sec = 0;
  for (auto [op, own] : llvm::enumerate(terms.kind.ops))
    if (terms.facts.besideHome[op] && own.phase != LayerPhase::Forward)
      sec += terms.timeOf(op, layout).seconds;
  return sec;
}

/// Collectives of the expert axis run beside the expert that all tokens have,
/// for as long as it lasts. Rows that are exchanged one by one are read at once
/// by experts.
static void hideRouted(const LayerTerms &terms, const LayerLayout &layout,
                       const BesideTraffic &traffic, LayerPoint &point) {
  if (!llvm::is_contained(terms.facts.beside, true))
    return;
  auto [forwardSec, backwardSec] = traffic.expertSec;
  double &forward = point.forward.hiddenSec[kInnerExpert],
         &backward = point.backward.hiddenSec[kInnerExpert];
  forward = std::min(forwardSec, besideSec(terms, layout, false, true));
  backward = std::min(backwardSec, besideSec(terms, layout, true, true));
  // What the backward's own ops do not hide runs beside recomputed ones, and
  // these hide what else only deferred ops do.
  auto hiddenBy = [&](bool withDeferred) {
    return std::min(backwardSec, besideSec(terms, layout, true, withDeferred) +
                                     traffic.besideAgainSec);
  };
  double again = hiddenBy(true) - backward;
  point.deferredHiddenSec[kInnerExpert] = hiddenBy(true) - hiddenBy(false);
  double home = std::min(traffic.homeSec, besideHomeSec(terms, layout));
  backward += home;
  point.recompute.hiddenSec[kInnerExpert] =
      again + std::min(traffic.homeSec - home, traffic.homeAgainSec);
}

//===----------------------------------------------------------------------===//
// The backward pass, one op after another
//===----------------------------------------------------------------------===//

namespace {
/// The ops of the backward pass in the order in which programs have them:
/// recomputed ones before the first that needs them.
class BackwardOrder {
public:
  struct Place {
    int op;
    double matmulSec; ///< of matmuls and attention
    bool isDeferred;
  };
  std::vector<Place> places;

  BackwardOrder(const LayerTerms &terms, const LayerLayout &layout)
      : terms(terms), kind(terms.kind), own(layout.axes[kInnerTensor]),
        layout(layout), at(kind.ops.size(), kNowhere),
        madeIn(kind.values.size(), kUnknown) {
    for (auto [op, what] : llvm::enumerate(kind.ops))
      if (what.phase != LayerPhase::Forward)
        place(static_cast<int>(op), /*isAgain=*/false);
  }

  int end() const { return static_cast<int>(places.size()); }

  /// Of the ops between two places; without those that can be deferred.
  double matmulSec(int first, int last, bool withDeferred = true) const {
    double sec = 0;
    for (int i = first; i < last; ++i)
      sec += withDeferred || !places[i].isDeferred ? places[i].matmulSec : 0;
    return sec;
  }

  /// Where an op is, `end()` if it is not.
  int placeOf(int op) const { return at[op] == kNowhere ? end() : at[op]; }

  /// The first place after which a value is there; 0 for what was before.
  int readyAt(int value) {
    if (madeIn[value] != kUnknown)
      return madeIn[value];
    int op = kind.values[value].producer;
    if (op < 0 || at[op] == kNowhere)
      return madeIn[value] = 0;
    int ready = at[op] + 1;
    // Views and sums of matmuls are no kernels.
    if (isNoKernel(op)) {
      ready = 0;
      for (int operand : kind.ops[op].operands)
        ready = std::max(ready, readyAt(operand));
    }
    return madeIn[value] = ready;
  }

  /// Where a value is read first, through views; on the tensor axis in a state,
  /// `kNotKept`: in any.
  int readAt(int value, AxisState state) const {
    int first = end();
    for (auto *readers : {&terms.facts.backwardReaders[value],
                          &terms.facts.forwardReaders[value]})
      for (int reader : *readers)
        if (at[reader] != kNowhere && reads(reader, value, state))
          first = std::min(first, readBy(reader));
    return first;
  }

  /// Where an op reads its operands, or what it shows is read.
  int readBy(int op) const {
    if (!kind.ops[op].view)
      return placeOf(op);
    int first = end();
    for (int result : kind.ops[op].results)
      first = std::min(first, readAt(result, kNotKept));
    return first;
  }

private:
  static constexpr int kNowhere = -1, kUnknown = -1;
  const LayerTerms &terms;
  const LayerKind &kind;
  const AxisLayout &own;
  const LayerLayout &layout;
  std::vector<int> at;     ///< by op: its place
  std::vector<int> madeIn; ///< by value: readyAt

  bool isNoKernel(int op) const {
    return kind.ops[op].view || terms.traffic.ops[op].inMatmul;
  }

  bool reads(int op, int value, AxisState state) const {
    return llvm::any_of(
        llvm::zip(kind.ops[op].operands, own.ops[op].operands), [&](auto pair) {
          auto [operand, read] = pair;
          return operand == value && (state == kNotKept || read == state);
        });
  }

  void place(int op, bool isAgain) {
    for (int value : kind.ops[op].operands) {
      int maker = kind.values[value].producer;
      if (maker >= 0 && kind.values[value].forward &&
          kind.values[value].param < 0 && own.kept[value] == kRecomputed &&
          at[maker] == kNowhere)
        place(maker, /*isAgain=*/true);
    }
    OpTime time = terms.timeOf(op, layout, -1, nullptr, isAgain);
    bool isLong =
        time.kind == WorkKind::Matmul || time.kind == WorkKind::Attention;
    at[op] = end();
    places.push_back(
        {op, isLong ? time.seconds : 0, !isAgain && kind.ops[op].isDeferred});
  }
};

/// A collective of the pass between places: it may start behind `ready`, and
/// stands before `block` until then.
struct Placed {
  const BesideTraffic::Conversion *what;
  int ready, block, read;
};
} // namespace

/// The collectives as they stand in programs: behind what makes their operands,
/// else before what reads them.
static std::vector<Placed>
exchangesOf(BackwardOrder &order,
            llvm::ArrayRef<BesideTraffic::Conversion> all) {
  std::vector<Placed> exchanges;
  for (const BesideTraffic::Conversion &one : all) {
    int ready = order.readyAt(one.value);
    int read = order.readAt(one.value, one.to);
    if (one.reader >= 0)
      read = std::min(read, order.readBy(one.reader));
    read = std::max(read, ready);
    exchanges.push_back({&one, ready, ready > 0 ? ready : read, read});
  }
  auto bySite = [](const Placed &a, const Placed &b) {
    return std::make_tuple(a.block, a.ready == 0, a.what) <
           std::make_tuple(b.block, b.ready == 0, b.what);
  };
  llvm::sort(exchanges, bySite);
  // What was there from the start comes before what makes the operand of a sum
  // that it would end at once.
  for (size_t i = 1; i < exchanges.size(); ++i)
    if (const Placed &sum = exchanges[i - 1];
        sum.ready > 0 && exchanges[i].ready == 0 &&
        order.matmulSec(sum.block, exchanges[i].block) == 0)
      exchanges[i].block = std::max(0, sum.ready - 1);
  llvm::sort(exchanges, bySite);
  return exchanges;
}

bool kerf::mayHide(const LayerTerms &terms, int axis, int value,
                   AxisState from) {
  return terms.isOurs && terms.device.target != BackendTarget::Cpu &&
         axis == kInnerTensor &&
         (from == kPending || terms.kind.values[value].forward);
}

/// As OverlapCollectives.cpp: a collective starts behind what makes its operand
/// and behind the one before, and ends where it is read or the next one starts.
static void hideConversions(const LayerTerms &terms, const LayerLayout &layout,
                            const BesideTraffic &traffic, LayerPoint &point) {
  if (llvm::none_of(traffic.conversions,
                    [](const auto &one) { return one.mayHide; }))
    return;
  BackwardOrder order(terms, layout);
  std::vector<Placed> all = exchangesOf(order, traffic.conversions);
  int border = 0;
  for (auto [index, own] : llvm::enumerate(all)) {
    int start = std::max(own.ready, border), stop = own.read;
    if (index + 1 < all.size())
      stop = std::min(stop, all[index + 1].block);
    border = std::max(start, stop);
    if (!own.what->mayHide)
      continue;
    double sec = own.what->sec,
           hidden = std::min(sec, order.matmulSec(start, stop)),
           always = std::min(sec, order.matmulSec(start, stop, false));
    // What is deferred hides nothing that is recomputed.
    (own.what->isAgain ? point.recompute : point.backward)
        .hiddenSec[kInnerTensor] += own.what->isAgain ? always : hidden;
    if (!own.what->isAgain)
      point.deferredHiddenSec[kInnerTensor] += hidden - always;
  }
}

void kerf::hideTraffic(const LayerTerms &terms, const LayerLayout &layout,
                       const BesideTraffic &traffic, LayerPoint &point) {
  if (!terms.isOurs)
    return;
  hideRouted(terms, layout, traffic, point);
  hideConversions(terms, layout, traffic, point);
}
