//===- SolveExperts.cpp - how a search may bring rows to their experts ----===//
//
// Tokens are gathered where the experts are, or rows are exchanged: pins, the
// room that is asked for and a given plan say which of these a search may try.
//
//===----------------------------------------------------------------------===//

#include "SolveExperts.h"

#include "LayerPlaces.h"
#include "kerf/Sharding/Layout.h"

using namespace mlir;
using namespace kerf;

/// Whether an op of a plan that is given exchanges rows.
static bool exchangesAny(ModelOp model) {
  bool exchanges = false;
  PlanAxes axes(getPlan(model));
  model.getBody().walk([&](FactorOpInterface op) {
    Factors facts = op.getFactors();
    auto assignment = getAssignment(op, facts, axes);
    exchanges |= succeeded(assignment) && exchangesRows(facts, *assignment);
  });
  return exchanges;
}

double kerf::moeBufferOf(ModelOp given, const SolveRequest &request) {
  double room = request.moeBuffer;
  if (room <= 0 && given)
    room = getPlan(given).getMoeBuffer();
  if (room > 0)
    return room;
  bool exchanges =
      request.pins.moe == "all_to_all" || (given && exchangesAny(given));
  return exchanges ? kRoomForAll : 0;
}

/// The only way in which the search that made a plan may have brought rows to
/// their experts: what exchanges them without a bound was pinned to that.
/// Empty: both were possible.
static std::string moeWayOf(ModelOp model) {
  if (getPlan(model).getMoeBuffer() > 0)
    return "";
  PlanAxes axes(getPlan(model));
  bool exchanges = false, routes = false;
  model.getBody().walk([&](FactorOpInterface op) {
    Factors facts = op.getFactors();
    auto assignment = getAssignment(op, facts, axes);
    if (failed(assignment))
      return;
    exchanges |= exchangesRows(facts, *assignment);
    routes |= assignment->routed && llvm::any_of(facts.variants, [](auto &own) {
                return own.exchanges;
              });
  });
  return exchanges && !routes ? "all_to_all" : "";
}

/// Forbids the other way of bringing rows to their experts.
static OptionFilter filterMoe(std::string wanted) {
  if (wanted.empty())
    return {};
  return [=](const LayerOp &op, InnerAxis axis, const OpOption &option) {
    auto exchanges = [](const FactorVariant &variant) {
      return variant.exchanges;
    };
    bool isForbidden =
        wanted == "gather"
            ? option.variant >= 0 && exchanges(op.variants[option.variant])
            : llvm::any_of(op.variants, exchanges) && isRouted(op, option);
    return !isForbidden;
  };
}

/// Whether the plan of a model brings rows to ranks that hold parts of the
/// experts.
static bool shardsExperts(ModelOp model) {
  PlanAxes axes(getPlan(model));
  return model.getBody()
      .walk([&](FactorOpInterface op) {
        Factors facts = op.getFactors();
        auto assignment = getAssignment(op, facts, axes);
        bool isFound =
            succeeded(assignment) &&
            (assignment->routed || exchangesRows(facts, *assignment));
        return isFound ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Ranks that hold all experts are data ranks: `ep` = 1 says so.
static OptionFilter filterWholeExperts(OptionFilter others) {
  return [=](const LayerOp &op, InnerAxis axis, const OpOption &option) {
    return !holdsAllExperts(op, axis, option) &&
           (!others || others(op, axis, option));
  };
}

bool kerf::mayHoldAllExperts(ModelOp given, const Pins &pins) {
  if (given)
    return !shardsExperts(given);
  return llvm::any_of(pins.ep, [](int64_t ep) { return ep > 1; });
}

OptionFilter kerf::expertOptions(ModelOp given, const Pins &pins,
                                 bool holdAll) {
  std::string asked = pins.moe;
  if (given && asked.empty())
    asked = moeWayOf(given);
  OptionFilter options = filterMoe(std::move(asked));
  return holdAll ? options : filterWholeExperts(std::move(options));
}
