//===- DecodeOps.cpp - mnemonics to handlers ------------------------------===//

#include "Decode.h"

using namespace kerf::sim;

static bool isDouble(const std::string &type) { return typeBytes(type) == 8; }

// ---- Control ----------------------------------------------------------------

bool Decoder::decodeControl() {
  const std::string &op = statement->parts[0];
  if (op == "bra" || op == "brx") {
    decodeBranch();
  } else if (op == "ret") {
    emit(nullptr).action = Action::Return;
  } else if (op == "exit") {
    emit(nullptr).action = Action::Exit;
  } else if (op == "call") {
    decodeCall();
  } else if (op == "bar" || op == "barrier") {
    decodeBarrier(has("warp"));
  } else if (op == "trap") {
    emitNamed("stop");
  } else if (op == "fence" && has("proxy") && has("async")) {
    emitNamed(has("global") ? "nothing" : "fence.proxy.async");
  } else if (op == "membar" || op == "fence" || op == "prefetch" ||
             op == "prefetchu" || op == "nanosleep" || op == "griddepcontrol" ||
             op == "discard" || op == "applypriority") {
    emitNamed("nothing"); // memory is in order here
  } else {
    return false;
  }
  return true;
}

void Decoder::decodeBranch() {
  Inst &inst = emit(nullptr);
  size_t at = program.code.size() - 1;
  if (statement->parts[0] == "bra") {
    inst.action = Action::Branch;
    fixups.push_back({at, operand(0).name, false});
    return;
  }
  inst.action = Action::BranchTable;
  inst.a = value(operand(0), false);
  auto targets = function.targets.find(operand(1).name);
  if (targets == function.targets.end())
    fail("no .branchtargets '" + operand(1).name + "'");
  inst.target = program.places.size();
  inst.list = targets->second.size();
  for (const std::string &label : targets->second) {
    fixups.push_back({program.places.size(), label, true});
    program.places.push_back(0);
  }
}

void Decoder::decodeBarrier(bool ofWarp) {
  if (ofWarp) {
    uint32_t members = value(operand(0), false);
    Inst &inst = emit(nullptr);
    inst.action = Action::WarpBarrier;
    inst.list = members;
    return;
  }
  bool waits = has("sync"), isCounted = statement->operands.size() > 1;
  if (!waits && !has("arrive"))
    fail("of barriers, only .sync and .arrive are simulated");
  if (!waits && !isCounted)
    fail(".arrive tells how many threads the barrier is for");
  if (isCounted && operand(1).kind != Operand::Immediate)
    fail("barriers are simulated for a constant number of threads only");
  if (isCounted && operand(1).bits % lanes)
    fail("a barrier is one of whole warps");
  if (operand(0).kind == Operand::Immediate && operand(0).bits > 15)
    fail("a block has barriers 0..15");
  uint32_t number = value(operand(0), false);
  Inst &inst = emit(nullptr);
  inst.action = Action::BlockBarrier;
  inst.a = number;
  inst.mode = waits;
  inst.offset = isCounted ? operand(1).bits : 0;
}

/// Copies a parameter between the caller's place and that of `callee`.
void Decoder::copyParameter(const std::string &callee, const Variable &variable,
                            const std::string &own, bool isResult) {
  uint32_t there = common.params.at(callee + "::" + variable.name);
  uint32_t here = placeOf(own).offset;
  Inst &inst = emitNamed("copy.local");
  inst.to = isResult ? here : there;
  inst.a = isResult ? there : here;
  inst.b = variable.bytes;
}

void Decoder::decodeCall() {
  const std::vector<Operand> &operands = statement->operands;
  size_t at = 0;
  static const std::vector<Operand> none;
  const std::vector<Operand> *results = &none, *args = &none;
  if (at < operands.size() && operands[at].kind == Operand::List)
    results = &operands[at++].items;
  std::string name = operand(at++).name;
  if (at < operands.size() && operands[at].kind == Operand::List)
    args = &operands[at].items;
  if (name == "__assertfail") {
    emitNamed("stop").mode = 1;
    return;
  }
  auto begin = begins.find(name);
  const Function *callee = nullptr;
  for (const Function &one : module.functions)
    if (one.name == name)
      callee = &one;
  if (!callee || begin == begins.end())
    fail("calls '" + name +
         "', which is not defined before (recursion and "
         "calls through pointers are not simulated)");
  if (args->size() != callee->params.size() ||
      results->size() != callee->results.size())
    fail("other parameters than '" + name + "' has");
  for (size_t index = 0; index < args->size(); ++index)
    copyParameter(name, callee->params[index], (*args)[index].name, false);
  Inst &inst = emit(nullptr);
  inst.action = Action::Call;
  inst.target = begin->second;
  for (size_t index = 0; index < results->size(); ++index)
    copyParameter(name, callee->results[index], (*results)[index].name, true);
}

// ---- Moves ------------------------------------------------------------------

bool Decoder::decodeMove() {
  if (statement->parts[0] != "mov")
    return false;
  std::string of = type();
  const Operand &to = operand(0), &from = operand(1);
  bool isPack = from.kind == Operand::Vector;
  if (!isPack && to.kind != Operand::Vector)
    return false; // like any instruction
  const std::vector<Operand> &parts = isPack ? from.items : to.items;
  bool wide = isDouble(of);
  if (parts.empty() || typeBytes(of) % parts.size())
    fail("the move is not simulated");
  std::string shape = std::to_string(parts.size()) + "x" +
                      std::to_string(typeBytes(of) * 8 / parts.size());
  std::vector<uint32_t> places;
  for (const Operand &part : parts)
    places.push_back(part.kind == Operand::Sink ? UINT32_MAX
                                                : value(part, false));
  uint32_t whole = isPack ? result(to, wide) : value(from, wide);
  Inst &inst = emitNamed((isPack ? "pack." : "unpack.") + shape);
  (isPack ? inst.to : inst.a) = whole;
  inst.target = program.places.size();
  program.places.insert(program.places.end(), places.begin(), places.end());
  return true;
}

// ---- Arithmetic -------------------------------------------------------------

void Decoder::setModifiers(Inst &inst) {
  inst.flush = has("ftz");
  inst.saturate = has("sat");
}

void Decoder::decodeConvert() {
  static const std::pair<const char *, Rounding> roundings[] = {
      {"rn", ToEven},         {"rz", ToZero},
      {"rm", Down},           {"rp", Up},
      {"rna", ToAway},        {"rni", ToEvenInteger},
      {"rzi", ToZeroInteger}, {"rmi", DownInteger},
      {"rpi", UpInteger}};
  std::string from = type(0), to = type(1);
  uint32_t a = 0, b = UINT32_MAX;
  const Operand &source = operand(1);
  bool isWider = source.kind == Operand::Register &&
                 source.width == Width::Double && !isDouble(from);
  if (isWider) { // the low part of a wider register
    uint32_t part = addRegister(false), whole = value(source, true);
    Inst &inst = emitNamed("cvt.u32.u64");
    inst.to = part;
    inst.a = whole;
    a = part;
  } else {
    a = value(source, isDouble(from));
  }
  if (to.ends_with("x2"))
    b = value(operand(2), false);
  uint32_t place = result(operand(0), isDouble(to));
  Inst &inst = emitNamed("cvt." + to + "." + from);
  setModifiers(inst);
  inst.to = place;
  inst.a = a;
  inst.b = b;
  inst.list = has("relu");
  for (auto [name, mode] : roundings)
    if (has(name))
      inst.mode = mode;
}

void Decoder::decodeCompare() {
  std::string of = type();
  const Operand &first = operand(0);
  uint32_t a = value(operand(1), isDouble(of));
  uint32_t b = value(operand(2), isDouble(of));
  Inst &inst = emitNamed("setp." + statement->parts[1] + "." + of);
  setModifiers(inst);
  inst.to = first.kind == Operand::Sink ? UINT32_MAX : predicate(first);
  inst.a = a;
  inst.b = b;
  if (inst.to == UINT32_MAX)
    fail("setp without a first result");
  if (!first.items.empty() && first.items[0].kind != Operand::Sink)
    inst.d = predicate(first.items[0]);
  if (statement->operands.size() > 3) {
    inst.c = predicate(operand(3));
    inst.mode = has("and") ? 1 : has("or") ? 2 : 3;
  }
}

void Decoder::decodeSelect() {
  bool wide = isDouble(type());
  uint32_t to = result(operand(0), wide), a = value(operand(1), wide);
  uint32_t b = value(operand(2), wide), c = predicate(operand(3));
  Inst &inst = emitNamed("selp." + type());
  inst.to = to;
  inst.a = a;
  inst.b = b;
  inst.c = c;
}

/// Is operand `index` (0: the result) of 64 bits?
static bool operandIsDouble(const std::string &op, bool isWideProduct,
                            size_t index, bool typeIsDouble) {
  if (isWideProduct)
    return (index == 0 || index == 3) && !typeIsDouble;
  if (op == "shl" || op == "shr")
    return typeIsDouble && index < 2;
  if (op == "bfe")
    return typeIsDouble && index < 2;
  if (op == "bfi")
    return typeIsDouble && index < 3;
  if (op == "popc" || op == "clz" || op == "bfind")
    return typeIsDouble && index == 1;
  return typeIsDouble;
}

/// With the result.
static size_t operandCount(const std::string &op) {
  static const std::set<std::string> one = {
      "mov", "neg", "abs",  "not",  "sqrt", "rsqrt", "rcp",   "ex2",  "lg2",
      "sin", "cos", "tanh", "popc", "clz",  "brev",  "bfind", "testp"};
  static const std::set<std::string> three = {"fma",  "mad", "bfe",
                                              "prmt", "shf", "lop3"};
  return one.count(op) ? 2 : three.count(op) ? 4 : op == "bfi" ? 5 : 3;
}

void Decoder::decodeArithmetic() {
  static const std::set<std::string> chosen = {"lo", "hi",  "wide",   "l",
                                               "r",  "NaN", "finite", "relu"};
  static const std::set<std::string> ignored = {
      "rn", "approx", "full", "ftz", "sat", "wrap", "clamp", "noftz"};
  const std::string &op = statement->parts[0];
  std::string name = op, of = type();
  for (size_t at = 1; at < statement->parts.size(); ++at) {
    const std::string &part = statement->parts[at];
    if (chosen.count(part))
      name += "." + part;
    else if (part != of && !ignored.count(part))
      fail("'." + part + "' of '" + op + "' is not simulated");
  }
  if (of.empty())
    fail("'" + op + "' is not simulated");
  if (!findHandler(name + "." + of))
    fail("'" + name + "." + of + "' is not simulated");
  size_t count = operandCount(op);
  if (statement->operands.size() != count + (op == "lop3"))
    fail("another number of operands than '" + op + "' has");
  uint32_t places[5] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX,
                        UINT32_MAX};
  bool isWide = has("wide") && typeBytes(of) == 4;
  for (size_t at = 0; at < count; ++at) {
    bool wide = operandIsDouble(op, isWide, at, isDouble(of));
    bool isPredicate = of == "pred" || (op == "testp" && at == 0);
    places[at] = isPredicate ? predicate(operand(at))
                 : at        ? value(operand(at), wide)
                             : result(operand(at), wide);
  }
  Inst &inst = emitNamed(name + "." + of);
  setModifiers(inst);
  inst.mode = has("wrap");
  if (op == "lop3")
    inst.offset = operand(4).bits;
  inst.to = places[0];
  inst.a = places[1];
  inst.b = places[2];
  inst.c = places[3];
  inst.d = places[4];
}
