//===- LayerCost.cpp - what a layout costs, term by term ------------------===//
//
// Adds up a given layout without any tables, so that it judges the solver, and
// tells apart what the solver's single number hides.
//
//===----------------------------------------------------------------------===//

#include "BesideTraffic.h"
#include "LayerGraph.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

using namespace kerf;

TimeParts &TimeParts::operator+=(const TimeParts &other) {
  matmulSec += other.matmulSec;
  attentionSec += other.attentionSec;
  rowSec += other.rowSec;
  groupedSec += other.groupedSec;
  for (int axis = 0; axis < kInnerAxes; ++axis)
    commSec[axis] += other.commSec[axis];
  for (int axis = 0; axis < kInnerAxes; ++axis)
    hiddenSec[axis] += other.hiddenSec[axis];
  return *this;
}

AxisState kerf::keptState(const LayerTerms &terms, const LayerLayout &layout,
                          int value, int axis) {
  AxisState state = layout.axes[axis].kept[value];
  if (state >= 0)
    return state;
  AxisState made = terms.madeState(value, layout.axes[axis]);
  return state == kRecomputed ? made : std::max(made, kReplicated);
}

double kerf::keptBytes(const LayerTerms &terms, const LayerLayout &layout,
                       int value) {
  const LayerValue &facts = terms.kind.values[value];
  double bytes = facts.bytes();
  if (llvm::is_contained(facts.classes, IndexClass::Batch))
    bytes /= double(terms.batchShards());
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (terms.has(axis))
      bytes *= terms.heldShare(keptState(terms, layout, value, axis), axis);
  return bytes;
}

double kerf::gradientExcess(const LayerTerms &terms, int param,
                            const LayerLayout &layout, int axis, double weight,
                            double gradient) {
  int value = terms.facts.gradients[param];
  if (value < 0)
    return 0;
  double rests = weight * terms.paramElements(param, layout, axis,
                                              &AxisLayout::Rest::weight);
  double made = gradient *
                terms.heldBytesOf(value, layout, axis, /*kept=*/false) /
                terms.kind.values[value].elementBytes;
  return terms.kind.params[param].gradientBytes * std::max(0.0, made - rests);
}

double kerf::excessPrice(const LayerQuery &query) {
  return std::max(query.gradientsAsMade ? query.statePrice : 0,
                  leastPrice(query));
}

namespace {

class CostSum {
public:
  CostSum(const LayerTerms &terms, const LayerLayout &layout,
          std::vector<LayerCollective> *account)
      : terms(terms), kind(terms.kind), facts(terms.facts), query(terms.query),
        layout(layout), account(account),
        ranksOnSeveral(terms.has(0) + terms.has(1) + terms.has(2) > 1) {}

  LayerCost sum() {
    addOps();
    for (int axis = 0; axis < kInnerAxes; ++axis)
      if (terms.has(axis))
        addAxis(axis);
    addTogether();
    hideTraffic(terms, layout, beside, point);
    addSaved();
    addParams();
    addWork();
    point.boundaryBytes = boundaryBytes(kind.input, kind.output);
    point.boundaryGradientBytes =
        boundaryBytes(kind.outputGradient, kind.inputGradient);
    point.deferredCopySec = deferredCopySec(terms, point.boundaryGradientBytes);
    double fixed = 0;
    for (const TimeParts *parts :
         {&point.forward, &point.backward, &point.recompute})
      fixed += parts->computeSec() + query.commWeight * parts->linkSec();
    // The solver knows what moves over each axis alone.
    result.objective += fixed + query.commWeight * apartSec;
    return result;
  }

private:
  const LayerTerms &terms;
  const LayerKind &kind;
  const LayerFacts &facts;
  const LayerQuery &query;
  const LayerLayout &layout;
  std::vector<LayerCollective> *account; ///< or null
  const bool ranksOnSeveral;
  LayerCost result;
  LayerPoint &point = result.point;
  BesideTraffic beside;

  /// Why a value is brought into another state, and for which operand.
  enum class Reason { Read, Shown, Kept, MadeAgain, HandedOn };
  /// What an axis asks of a value, for an operand of an op; -1: what its
  /// readers on this axis share. All of one purpose is one conversion, and the
  /// reads of a pass share what they can.
  struct Asked {
    Reason reason;
    bool backward;
    int value, op;
    size_t operand;
    TimeParts *parts;
    AxisMove move;
    AxisState nearer; ///< from which this axis alone gets it
    bool travels;     ///< `beside` may count it
    bool isBackward() const { return backward || reason == Reason::Shown; }
    auto purpose() const {
      return std::make_tuple(reason, backward, value,
                             reason == Reason::Read ? -1 : op,
                             reason == Reason::Read ? 0 : operand);
    }
    auto tie() const {
      return std::make_tuple(purpose(), op, operand, move.axis);
    }
  };
  std::vector<Asked> asked;
  using States = std::array<AxisState, kInnerAxes>;
  /// What tables price it at, less what it takes.
  double apartSec = 0;

  bool isRecomputed(int value) const {
    return layout.axes[kInnerTensor].kept[value] == kRecomputed;
  }
  bool isKept(int value) const {
    return layout.axes[kInnerTensor].kept[value] >= 0;
  }
  bool isMadeAgain(const LayerOp &op) const {
    return op.phase == LayerPhase::Forward &&
           llvm::any_of(op.results, [&](int v) { return isRecomputed(v); });
  }

  /// What is handed on lies as it is given, or as it is made if that is less.
  double boundaryBytes(int in, int out) const {
    double given = in >= 0 ? localBytes(in) : HUGE_VAL;
    double made = out >= 0 ? localBytes(out) : HUGE_VAL;
    return in < 0 && out < 0 ? 0 : std::min(given, made);
  }

  AxisState keptState(int value, int axis) const {
    return kerf::keptState(terms, layout, value, axis);
  }
  double localBytes(int value) const {
    return terms.heldBytesOf(value, layout, -1, /*kept=*/false);
  }
  void addTime(TimeParts &parts, const LayerOp &op, const OpTime &time) {
    if (op.isGrouped())
      parts.groupedSec += time.seconds;
    (time.kind == WorkKind::Matmul      ? parts.matmulSec
     : time.kind == WorkKind::Attention ? parts.attentionSec
                                        : parts.rowSec) += time.seconds;
  }

  void addOps() {
    for (size_t i = 0; i < kind.ops.size(); ++i) {
      const LayerOp &op = kind.ops[i];
      OpTime time = terms.timeOf(i, layout);
      addTime(op.phase == LayerPhase::Forward ? point.forward : point.backward,
              op, time);
      bool launch = terms.traffic.ops[i].launch;
      point.kernels += launch;
      if (op.isDeferred)
        point.weightGradientSec += time.seconds;
      point.workspaceSec += time.workspaceSec;
      point.addingSec += terms.addingSec(i, layout);
      bool isShared = isMaximumOfBatch(op);
      (op.phase == LayerPhase::Forward ? point.forwardMaxima
                                       : point.backwardMaxima) += isShared;
      if (!isMadeAgain(op))
        continue;
      point.backwardMaxima += isShared;
      OpTime again = terms.timeOf(i, layout, -1, nullptr, true);
      addTime(point.recompute, op, again);
      if (facts.besideHome[i])
        beside.homeAgainSec += again.seconds;
      else if (facts.beside[i] || op.isGrouped())
        beside.besideAgainSec += again.seconds;
      point.kernelsAgain += launch;
    }
  }

  //===--------------------------------------------------------------------===//
  // Communication of one axis
  //===--------------------------------------------------------------------===//

  void addAxis(int axis) {
    for (size_t v = 0; v < kind.values.size(); ++v) {
      if (terms.isExternal(v))
        continue;
      addReaders(axis, v, facts.forwardReaders[v], false);
      addReaders(axis, v, facts.backwardReaders[v], true);
      addDeferred(axis, v, facts.backwardReaders[v]);
      if (kind.values[v].gradientOf >= 0)
        addGradient(axis, v);
      if (isKept(v) && layout.axes[axis].kept[v] >= 0)
        addKeeping(axis, v);
    }
    for (size_t i = 0; i < kind.ops.size(); ++i)
      addOp(axis, i);
    addEnd(false, axis, kind.output, layout.axes[axis].input);
    addEnd(true, axis, kind.inputGradient, layout.axes[axis].outputGradient);
  }

  /// Enters a collective into the account.
  void note(int axis, const Exchange &exchange, bool perStep,
            bool whenDeferred = false, unsigned others = 0) {
    if (account)
      account->push_back({static_cast<InnerAxis>(axis), others, exchange.kind,
                          exchange.bytes, terms.secOf(axis, others, exchange),
                          /*pieceSec=*/0, /*ofExperts=*/false, perStep,
                          whenDeferred, exchange.times});
  }

  void note(int axis, AxisState from, AxisState to, const Moving &what,
            bool perStep) {
    if (auto exchange = terms.convertBy(axis, from, to, what))
      note(axis, *exchange, perStep);
    if (auto inner = terms.gatherWithin(from, to, what); inner && account)
      account->push_back({static_cast<InnerAxis>(axis), 0, inner->kind,
                          inner->bytes, terms.secOf(kInnerTensor, *inner),
                          /*pieceSec=*/0, /*ofExperts=*/false, perStep});
  }

  /// Adds what it takes to bring a value into another state; its seconds.
  double addConversion(TimeParts &parts, int axis, int value, AxisState from,
                       AxisState to) {
    note(axis, from, to, terms.movingOf(value, layout, axis), false);
    double sec = convert(axis, value, from, to);
    parts.commSec[axis] += sec;
    return sec;
  }

  TimeParts &partsOf(bool backward) {
    return backward ? point.backward : point.forward;
  }

  /// Takes note of what an axis asks for; adds it at once where no other axis
  /// has ranks.
  void ask(const Asked &one) {
    if (one.move.from == one.move.to)
      return;
    if (ranksOnSeveral && terms.isOurs)
      asked.push_back(one);
    else
      add(one);
  }

  void add(const Asked &one) {
    double sec = addConversion(*one.parts, one.move.axis, one.value, one.nearer,
                               one.move.to);
    travelled(one, one.move.axis, one.nearer, sec);
  }

  /// What another collective does not end at once, as one is under way at a
  /// time: sums brought home, and the gradients of these sent out. Router
  /// scores follow the tokens, and their gradients those of the tokens.
  void travelled(const Asked &own, int axis, AxisState from, double sec) {
    if (own.travels && axis == kInnerExpert &&
        own.backward != (own.move.from == kPending))
      beside.expertSec[own.backward] += sec;
    int maker = kind.values[own.value].producer;
    if (own.travels && axis == kInnerExpert && own.backward &&
        from == kPending && maker >= 0 && facts.bringsHome[maker])
      beside.homeSec += sec;
    if (sec > 0 && own.isBackward())
      beside.conversions.push_back(
          {own.value, own.op,
           own.op < 0 || axis != kInnerTensor ? kNotKept : own.move.to,
           own.parts == &point.recompute, mayHide(terms, axis, own.value, from),
           sec});
  }

  /// What one operand asks of several axes is one conversion in programs.
  void addTogether() {
    llvm::sort(asked, [](const Asked &a, const Asked &b) {
      return a.tie() < b.tie();
    });
    for (size_t first = 0, end; first < asked.size(); first = end) {
      unsigned axes = 0;
      for (end = first;
           end < asked.size() && asked[end].purpose() == asked[first].purpose();
           ++end)
        axes |= unsigned(travelsOver(asked[end])) << asked[end].move.axis;
      llvm::ArrayRef<Asked> own(&asked[first], end - first);
      if (llvm::popcount(axes) > 1)
        addJoint(own);
      else
        for (const Asked &one : own)
          add(one);
    }
  }

  bool travelsOver(const Asked &own) const {
    auto [axis, from, to] = own.move;
    return terms
        .convertBy(axis, from, to, terms.movingOf(own.value, layout, axis))
        .has_value();
  }

  /// As `FunctionWriter::convert`: a reader takes what another one has, or a
  /// part of it, else it exchanges.
  void addJoint(llvm::ArrayRef<Asked> own) {
    llvm::SmallVector<States, 4> needs;
    States from;
    from.fill(kReplicated);
    for (const Asked &one : own) {
      apartSec += convert(one.move.axis, one.value, one.nearer, one.move.to);
      from[one.move.axis] = one.move.from;
    }
    for (size_t first = 0, end; first < own.size(); first = end) {
      States need = from;
      for (end = first; end < own.size() && own[end].op == own[first].op &&
                        own[end].operand == own[first].operand;
           ++end)
        need[own[end].move.axis] = own[end].move.to;
      if (own[first].op >= 0 || own[first].reason != Reason::Read)
        needs.push_back(need);
    }
    // What is whole on more axes first: others are parts of it.
    llvm::sort(needs, [](const States &a, const States &b) {
      auto whole = [](const States &s) { return llvm::count(s, kReplicated); };
      return std::make_pair(-whole(a), a) < std::make_pair(-whole(b), b);
    });
    llvm::SmallVector<States, 4> known = {from};
    for (const States &need : needs) {
      if (llvm::none_of(
              known, [&](const States &have) { return isPartOf(need, have); }))
        exchange(own.front(), from, need);
      known.push_back(need);
    }
  }

  static bool isPartOf(const States &need, const States &have) {
    return llvm::all_of(llvm::zip(need, have), [](auto pair) {
      auto [to, from] = pair;
      return to == from || from == kReplicated;
    });
  }

  void exchange(const Asked &own, const States &from, const States &need) {
    llvm::SmallVector<AxisMove, kInnerAxes> moves;
    for (int axis = 0; axis < kInnerAxes; ++axis)
      if (AxisMove move = {axis, from[axis], need[axis]};
          move.from != move.to && move.from != kReplicated)
        moves.push_back(move);
    for (const JointExchange &joint :
         moveTogether(terms, layout, own.value, moves)) {
      if (account)
        account->push_back({static_cast<InnerAxis>(joint.axis), joint.others,
                            joint.exchange.kind, joint.exchange.bytes,
                            joint.sec});
      own.parts->commSec[joint.axis] += joint.sec;
      travelled(own, joint.axis, from[joint.axis], joint.sec);
      apartSec -= joint.sec;
    }
  }

  /// What is kept is made from the value or from what its readers share.
  void addKeeping(int axis, int value) {
    const AxisLayout &own = layout.axes[axis];
    AxisState from = nearer(axis, value, terms.madeState(value, own),
                            own.sharedForward[value], own.kept[value]);
    ask({Reason::Kept,
         false,
         value,
         -1,
         0,
         &point.forward,
         {axis, from, own.kept[value]},
         from,
         /*travels=*/false});
  }

  /// Of the state in which a value is and the one that its readers share (-1:
  /// none), the one from which it gets into `to` sooner.
  AxisState nearer(int axis, int value, AxisState from, AxisState shared,
                   AxisState to) const {
    return shared >= 0 && convert(axis, value, shared, to) <
                              convert(axis, value, from, to)
               ? shared
               : from;
  }

  double convert(int axis, int value, AxisState from, AxisState to) const {
    return terms.convertSec(axis, from, to,
                            terms.movingOf(value, layout, axis));
  }

  void addReaders(int axis, int value, llvm::ArrayRef<int> readers,
                  bool backward) {
    const AxisLayout &own = layout.axes[axis];
    bool kept =
        backward && kind.values[value].forward && kind.values[value].param < 0;
    AxisState from =
        kept ? keptState(value, axis) : terms.madeState(value, own);
    AxisState shared =
        (backward ? own.sharedBackward : own.sharedForward)[value];
    TimeParts &parts = partsOf(backward);
    if (shared >= 0)
      ask({Reason::Read,
           backward,
           value,
           -1,
           0,
           &parts,
           {axis, from, shared},
           from,
           /*travels=*/true});
    for (int reader : readers)
      for (auto [k, operand] : llvm::enumerate(kind.ops[reader].operands)) {
        if (operand != value)
          continue;
        AxisState to = own.ops[reader].operands[k];
        if (terms.isOurs && facts.convertsAgain[reader])
          ask({Reason::Shown,
               backward,
               value,
               reader,
               k,
               &point.backward,
               {axis, from, to},
               from,
               /*travels=*/false});
        ask({Reason::Read,
             backward,
             value,
             reader,
             k,
             &parts,
             {axis, from, to},
             nearer(axis, value, from, shared, to),
             /*travels=*/true});
      }
  }

  /// The state in which deferred readers get a value. A layer is given
  /// gradients as the next one makes them, where that is smaller.
  AxisState handedState(int axis, int value) const {
    const AxisLayout &own = layout.axes[axis];
    if (kind.values[value].forward && kind.values[value].param < 0)
      return keptState(value, axis);
    AxisState given = terms.madeState(value, own);
    if (value != kind.outputGradient || kind.inputGradient < 0)
      return given;
    AxisState made = terms.madeState(kind.inputGradient, own);
    bool isSmaller = made >= kReplicated &&
                     terms.heldShare(made, axis) < terms.heldShare(given, axis);
    return isSmaller ? made : given;
  }

  /// What deferred readers of a value exchange once more: they run in a
  /// function of their own, to which the value comes as it was made or kept.
  void addDeferred(int axis, int value, llvm::ArrayRef<int> readers) {
    const AxisLayout &own = layout.axes[axis];
    AxisState from = handedState(axis, value);
    std::set<AxisState> others, late;
    for (int reader : readers)
      for (auto [k, operand] : llvm::enumerate(kind.ops[reader].operands))
        if (operand == value)
          (kind.ops[reader].isDeferred ? late : others)
              .insert(own.ops[reader].operands[k]);
    if (others.empty())
      return;
    others.insert(own.sharedBackward[value]);
    for (AxisState to : late)
      if (others.count(to)) {
        if (auto exchange = terms.convertBy(
                axis, from, to, terms.movingOf(value, layout, axis)))
          note(axis, *exchange, false, /*whenDeferred=*/true);
        point.deferredCommSec[axis] += convert(axis, value, from, to);
      }
  }

  /// Own collectives of an op, once more where it is recomputed, as one with
  /// those of other axes; seconds of the op and of its recomputation.
  std::pair<double, double> addVariant(int axis, int index,
                                       const OpOption &option, bool again) {
    unsigned partners = terms.partnersOf(index, option, axis, layout);
    double once = 0, more = 0;
    if (!LayerTerms::isCounted(axis, partners))
      for (const Exchange &own :
           terms.variantBy(index, option, axis, layout, partners)) {
        double sec = terms.secOf(axis, partners, own);
        once += sec;
        note(axis, own, false, false, partners);
        if (!again || own.oncePerPass)
          continue;
        more += sec;
        note(axis, own, false, false, partners);
      }
    if (partners)
      apartSec +=
          (again ? 2 : 1) * terms.variantSec(index, option, axis, layout) -
          once - more;
    return {once, more};
  }

  void addOp(int axis, int index) {
    const LayerOp &op = kind.ops[index];
    const OpOption &option = layout.axes[axis].ops[index];
    bool again = isMadeAgain(op);
    auto [own, more] = addVariant(axis, index, option, again);
    (op.phase == LayerPhase::Forward ? point.forward : point.backward)
        .commSec[axis] += own;
    if (axis == kInnerExpert && op.phase == LayerPhase::Forward &&
        facts.bringsHome[index])
      beside.expertSec[0] += own;
    if (!again)
      return;
    point.recompute.commSec[axis] += more;
    for (auto [k, value] : llvm::enumerate(op.operands))
      if (kind.values[value].param < 0 && !terms.isExternal(value) &&
          !terms.sharesAgain(index, k, layout.axes[axis]) &&
          isFirstAgain(index, value, k, axis))
        ask({Reason::MadeAgain,
             true,
             value,
             index,
             k,
             &point.recompute,
             {axis, keptState(value, axis), option.operands[k]},
             keptState(value, axis),
             /*travels=*/false});
  }

  /// Ops that are recomputed share a conversion of what they read.
  bool isFirstAgain(int index, int value, int operand, int axis) const {
    AxisState wanted = layout.axes[axis].ops[index].operands[operand];
    for (int reader : facts.forwardReaders[value]) {
      if (reader >= index)
        return true;
      if (!isMadeAgain(kind.ops[reader]))
        continue;
      for (auto [k, other] : llvm::enumerate(kind.ops[reader].operands))
        if (other == value &&
            layout.axes[axis].ops[reader].operands[k] == wanted)
          return false;
    }
    return true;
  }

  void addEnd(bool backward, int axis, int value, AxisState boundary) {
    if (value >= 0 && kind.values[value].producer >= 0)
      ask({Reason::HandedOn,
           backward,
           value,
           -1,
           0,
           &partsOf(backward),
           {axis, terms.madeState(value, layout.axes[axis]), boundary},
           terms.madeState(value, layout.axes[axis]),
           /*travels=*/true});
  }

  bool restFree(int axis) const {
    return query.restFree && axis == kInnerTensor;
  }

  void addGradient(int axis, int value) {
    if (axis != kInnerTensor || kind.values[value].producer < 0)
      return;
    int p = kind.values[value].gradientOf;
    const AxisLayout::Rest &rest = layout.axes[axis].params[p];
    double bytes =
        kind.params[p].gradientBytes *
        terms.paramElements(p, layout, axis, &AxisLayout::Rest::weight);
    AxisState made = terms.madeState(value, layout.axes[axis]);
    if (restFree(axis)) {
      note(axis, made, rest.gradient, bytes, false);
      point.backward.commSec[axis] +=
          terms.convertSec(axis, made, rest.gradient, bytes);
      return;
    }
    point.tensorSyncSec += terms.convertSec(axis, made, rest.weight, bytes);
    if (made != kPending || isSplit(rest.weight))
      return note(axis, made, rest.weight, bytes, true);
    double byBytes = bytes * terms.costs[axis].allReduce.beta;
    (isExpert(p) ? point.expertSumSec : point.denseSumSec) += byBytes;
    LayerCollective sum;
    sum.axis = static_cast<InnerAxis>(axis);
    sum.bytes = bytes;
    sum.sec = terms.convertSec(axis, made, rest.weight, bytes);
    sum.pieceSec = byBytes;
    sum.ofExperts = isExpert(p);
    sum.perStep = true;
    if (account && bytes > 0)
      account->push_back(sum);
  }

  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  /// The solver prices each kept value alone; in memory a view shares the bytes
  /// of what it shows.
  void addSaved() {
    double priced = 0;
    for (size_t v = 0; v < kind.values.size(); ++v) {
      if (!isKept(v))
        continue;
      double bytes = keptBytes(terms, layout, v);
      priced += bytes;
      if (bytes > keptBehind(v))
        point.savedBytes += bytes;
    }
    result.objective += std::max(query.keptPrice, leastPrice(query)) * priced;
  }

  /// Kept bytes of what a view shows, through other views; 0 for other values,
  /// and where a part is not kept.
  double keptBehind(int value) const {
    int producer = kind.values[value].producer;
    if (producer < 0 || !kind.ops[producer].view)
      return 0;
    double bytes = 0;
    for (int from : kind.ops[producer].operands) {
      double part =
          isKept(from) ? keptBytes(terms, layout, from) : keptBehind(from);
      if (part == 0)
        return 0;
      bytes += part;
    }
    return bytes;
  }

  /// Whether a parameter counts as experts: expert ranks, if there are any,
  /// hold parts of it. What they all hold whole is one more copy, as dense.
  bool isExpert(int p) const {
    const AxisLayout &axis = layout.axes[kInnerExpert];
    return kind.params[p].expert &&
           (!terms.has(kInnerExpert) || axis.params.empty() ||
            isSplit(axis.params[p].weight));
  }

  /// Whether context ranks make the gradient of a parameter whole: they have
  /// all rows that it is a sum of.
  bool isWholeOverContext(int p) const {
    int value = facts.gradients[p];
    return terms.has(kInnerContext) && value >= 0 &&
           terms.madeState(value, layout.axes[kInnerContext]) != kPending;
  }

  void addParams() {
    double all = 0, trained = 0, weights = 0, trainedWeights = 0;
    double masters = 0, gradients = 0, states = 0;
    for (size_t p = 0; p < kind.params.size(); ++p) {
      const LayerParam &param = kind.params[p];
      double elements =
          terms.paramElements(p, layout, -1, &AxisLayout::Rest::weight);
      (isExpert(p) ? point.expertElements : point.denseElements) += elements;
      if (!param.shared)
        ++(isExpert(p) ? point.expertTensors : point.denseTensors);
      point.sharedElements += param.shared ? elements : 0;
      all += elements;
      weights += elements * param.weightBytes;
      addResting(p);
      if (!param.trainable)
        continue;
      if (!param.shared)
        ++(isExpert(p) ? point.expertTrained : point.denseTrained);
      point.expertsWhole |= isExpert(p) && isWholeOverContext(p);
      trained += elements;
      trainedWeights += elements * param.weightBytes;
      masters += elements * param.masterBytes;
      gradients += elements * param.gradientBytes;
      states += elements * param.stateBytes;
      result.objective += addGramUpdate(terms, layout, p, point, account);
    }
    if (all > 0) {
      point.trainedShare = trained / all;
      point.weightBytes = weights / all;
      if (trained > 0)
        point.trainedWeightBytes = trainedWeights / trained;
      point.masterBytes = masters / all;
      point.gradientBytes = gradients / all;
      point.stateBytes = states / all;
    }
    result.objective +=
        query.commWeight * point.tensorSyncSec / double(query.microBatches);
  }

  void addResting(int p) {
    const LayerParam &param = kind.params[p];
    double price = std::max(query.statePrice, leastPrice(query));
    auto elements = [&](AxisState AxisLayout::Rest::*state) {
      return terms.paramElements(p, layout, -1, state);
    };
    double state = param.masterBytes + param.stateBytes;
    result.objective +=
        price * param.weightBytes * elements(&AxisLayout::Rest::weight);
    if (!param.trainable)
      return;
    result.objective +=
        price * (param.gradientBytes * elements(&AxisLayout::Rest::gradient) +
                 state * elements(&AxisLayout::Rest::optimizer));
    if (!restFree(kInnerTensor)) {
      double excess = gradientExcess(terms, p, layout);
      result.objective += excessPrice(query) * excess;
      (isExpert(p) ? point.expertExcessBytes : point.denseExcessBytes) +=
          excess;
      return;
    }
    const Device &device = terms.device;
    double steps = double(query.microBatches);
    result.objective += terms.context.profile.updateBytes *
                        elements(&AxisLayout::Rest::optimizer) / steps /
                        (device.memoryBytesPerSec * device.efficiency.memory);
    const AxisLayout::Rest &rest = layout.axes[kInnerTensor].params[p];
    double whole =
        terms.paramElements(p, layout, kInnerTensor, &AxisLayout::Rest::weight);
    auto move = [&](AxisState from, AxisState to, double bytes) {
      note(kInnerTensor, from, to, bytes, true);
      point.tensorSyncSec += terms.convertSec(kInnerTensor, from, to, bytes);
    };
    move(rest.gradient, rest.optimizer, param.gradientBytes * whole);
    move(rest.optimizer, rest.weight, param.weightBytes * whole);
  }

  /// The most bytes that live at once in a pass, kept ones aside: forward
  /// values until their last reader, in the backward pass gradients and what is
  /// recomputed (all of it at once, which is never too little).
  void addWork() {
    double again = 0;
    for (size_t v = 0; v < kind.values.size(); ++v)
      if (isRecomputed(v) && !facts.fusedAway(v))
        again += localBytes(v);
    point.workBytes = std::max(peak(false), again + peak(true));
  }

  double peak(bool backward) const {
    std::vector<int> last(kind.values.size(), -1);
    for (size_t i = 0; i < kind.ops.size(); ++i)
      if ((kind.ops[i].phase != LayerPhase::Forward) == backward)
        for (int v : kind.ops[i].operands)
          last[v] = i;
    double live = 0, most = 0;
    for (size_t i = 0; i < kind.ops.size(); ++i) {
      if ((kind.ops[i].phase != LayerPhase::Forward) != backward)
        continue;
      for (int v : kind.ops[i].results)
        if (counts(v))
          live += localBytes(v);
      most = std::max(most, live);
      std::set<int> done(kind.ops[i].operands.begin(),
                         kind.ops[i].operands.end());
      for (int v : kind.ops[i].results)
        done.insert(v);
      for (int v : done)
        if (last[v] <= int(i) && counts(v) && kind.values[v].producer >= 0 &&
            kind.values[v].forward != backward)
          live -= localBytes(v);
    }
    return most;
  }
  bool counts(int v) const {
    return !facts.fusedAway(v) && !isKept(v) && kind.values[v].gradientOf < 0 &&
           !kind.ops[kind.values[v].producer < 0 ? 0 : kind.values[v].producer]
                .view;
  }
};

} // namespace

LayerCost kerf::sumCosts(const LayerTerms &terms, const LayerLayout &layout,
                         std::vector<LayerCollective> *account) {
  return CostSum(terms, layout, account).sum();
}
