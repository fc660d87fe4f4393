//===- Control.cpp - loops, branches, and what is left to refuse ----------===//
//
// Loops and branches whose conditions are known numbers are written out; layers
// that repeat become loops again afterwards (`kerf-roll`), where parameters are
// those of one iteration and values are sharded as their readers are.
//
//===----------------------------------------------------------------------===//

#include "Converter.h"

using namespace kerf;
using namespace mlir;

static constexpr int64_t kMostIterations = 1 << 16;

/// A scan, with its number of iterations known.
static Converted loop(const Source &s) {
  for (Region &region : s.op->getRegions())
    if (!region.hasOneBlock() || region.front().empty() ||
        region.front().getNumArguments() != s.operands.size())
      return s.refuse("a loop without its regions");
  if (s.op->getNumRegions() != 2)
    return s.refuse("a loop without its regions");
  Block &condition = s.op->getRegion(0).front();
  Block &body = s.op->getRegion(1).front();
  std::vector<Value> carried = s.operands;
  for (int64_t i = 0; i <= kMostIterations; ++i) {
    Converted goesOn = s.converter.convert(condition, carried);
    if (failed(goesOn))
      return failure();
    if (goesOn->empty())
      return s.refuse("a loop without a condition");
    auto known = FoldingBuilder::splatOf(goesOn->front());
    if (!known)
      return s.refuse("a loop whose number of iterations depends on values");
    if (*known == 0)
      return carried;
    Converted next = s.converter.convert(body, carried);
    if (failed(next))
      return failure();
    if (next->size() != carried.size())
      return s.refuse("a loop that hands other values on than it takes");
    carried = std::move(*next);
  }
  return s.refuse("a loop of more than " + llvm::Twine(kMostIterations) +
                  " iterations");
}

/// `case` and `if`: the branch of a known number.
static Converted branch(const Source &s) {
  auto known = FoldingBuilder::splatOf(s.operand(0));
  if (!known)
    return s.refuse("a branch that depends on values: use jnp.where");
  bool isIf = s.op->getName().getStringRef() == "stablehlo.if";
  auto index = static_cast<int64_t>(isIf ? *known == 0 : *known);
  int64_t last = s.op->getNumRegions() - 1;
  if (index < 0 || index > last)
    index = last;
  return s.converter.convert(s.op->getRegion(index).front(), {});
}

/// Notes for XLA's own partitioner.
static bool isNote(llvm::StringRef target) {
  static const llvm::StringLiteral notes[] = {
      "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape",
      "annotate_device_placement"};
  return llvm::is_contained(notes, target);
}

static Converted customCall(const Source &s) {
  auto target = s.op->getAttrOfType<StringAttr>("call_target_name");
  llvm::StringRef name = target ? target.getValue() : "";
  if (isNote(name) && s.operands.size() == s.op->getNumResults())
    return std::vector<Value>(s.operands);
  if (name == "kerf.stop_gradient" && s.operands.size() == 1)
    return one(s.b.stopGradient(s.operand(0)));
  return s.refuse("a call of '" + name +
                  "', a kernel outside of the text: "
                  "lower the function for CPUs, without kernels of its own");
}

static Converted random(const Source &s) {
  return s.refuse("random numbers are drawn by Kerf: lower the function "
                  "without dropout");
}

void kerf::addControl(Conversions &table) {
  table["stablehlo.while"] = loop;
  table["stablehlo.case"] = branch;
  table["stablehlo.if"] = branch;
  table["stablehlo.custom_call"] = customCall;
  for (const char *name :
       {"stablehlo.rng", "stablehlo.rng_bit_generator", "stablehlo.shift_left",
        "stablehlo.shift_right_logical"})
    table[name] = random;
}
