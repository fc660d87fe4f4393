//===- Decode.cpp - places of registers, constants and variables ----------===//

#include "Decode.h"

#include <cstring>

using namespace kerf::sim;

Decoder::Decoder(Program &program, const Parsed &module,
                 const Function &function, CommonPlaces &common,
                 std::map<std::string, uint32_t> &begins)
    : program(program), module(module), function(function), common(common),
      begins(begins) {
  for (const Statement &one : function.statements)
    mayCall |= one.parts[0] == "call";
  registerBase = common.registerBytes;
  predicateBase = common.predicates;
  registerEnd = registerBase + function.registerBytes;
  localEnd = common.localBytes;
}

void Decoder::fail(const std::string &text) const {
  int line = statement ? statement->line : 0;
  std::string where = "line " + std::to_string(line);
  if (line > 0 && size_t(line) <= program.lines.size())
    where += " '" + program.lines[line - 1] + "'";
  throw Trap{InvalidPtx, where + ": " + text};
}

bool Decoder::has(std::string_view part) const {
  for (const std::string &known : statement->parts)
    if (known == part)
      return true;
  return false;
}

/// The type that is `fromLast` before the last one, or "".
std::string Decoder::type(size_t fromLast) const {
  for (size_t at = statement->parts.size(); at-- > 1;)
    if (typeBytes(statement->parts[at]) && fromLast-- == 0)
      return statement->parts[at];
  return "";
}

const Operand &Decoder::operand(size_t index) const {
  if (index >= statement->operands.size())
    fail("too few operands");
  return statement->operands[index];
}

uint32_t Decoder::addRegister(bool isDouble) {
  uint32_t slot = registerEnd;
  registerEnd += lanes * (isDouble ? 8 : 4);
  return slot;
}

uint32_t Decoder::constant(uint64_t bits, bool isDouble) {
  auto [found, isNew] = constants.try_emplace({bits, isDouble}, 0);
  if (isNew) {
    found->second = addRegister(isDouble);
    entry.constants.push_back({found->second, isDouble, bits});
  }
  return found->second;
}

static const std::map<std::string, SpecialRegister> &specialNames() {
  using S = SpecialRegister;
  static const std::map<std::string, SpecialRegister> names = {
      {"%tid.x", S::TidX},
      {"%tid.y", S::TidY},
      {"%tid.z", S::TidZ},
      {"%ntid.x", S::NtidX},
      {"%ntid.y", S::NtidY},
      {"%ntid.z", S::NtidZ},
      {"%ctaid.x", S::CtaidX},
      {"%ctaid.y", S::CtaidY},
      {"%ctaid.z", S::CtaidZ},
      {"%nctaid.x", S::NctaidX},
      {"%nctaid.y", S::NctaidY},
      {"%nctaid.z", S::NctaidZ},
      {"%laneid", S::Laneid},
      {"%warpid", S::Warpid},
      {"%lanemask_eq", S::LanemaskEq},
      {"%lanemask_lt", S::LanemaskLt},
      {"%lanemask_le", S::LanemaskLe},
      {"%lanemask_gt", S::LanemaskGt},
      {"%lanemask_ge", S::LanemaskGe},
      {"%smid", S::Smid},
      {"%clock", S::Zero}};
  return names;
}

uint32_t Decoder::special(const std::string &name) {
  auto known = specialNames().find(name);
  if (known == specialNames().end())
    fail("'" + name +
         "' is neither a declared register nor a special one "
         "that is simulated");
  auto [found, isNew] = specials.try_emplace(known->second, 0);
  if (isNew) {
    found->second = addRegister(false);
    entry.specials.push_back({found->second, known->second});
  }
  return found->second;
}

/// Where a source of 64 or at most 32 bits is read.
uint32_t Decoder::value(const Operand &operand, bool isDouble) {
  switch (operand.kind) {
  case Operand::Register:
    if ((operand.width == Width::Double) != isDouble ||
        operand.width == Width::Predicate)
      fail("'" + operand.name + "' has another size than the instruction");
    return registerBase + operand.slot;
  case Operand::Immediate:
    return constant(operand.bits, isDouble);
  case Operand::Special:
    if (isDouble)
      fail("'" + operand.name + "' has 32 bits");
    return special(operand.name);
  case Operand::Name:
    return constant(placeOf(operand.name).offset + operand.offset, isDouble);
  default:
    fail("expected a register or a constant");
  }
}

uint32_t Decoder::result(const Operand &operand, bool isDouble) {
  if (operand.kind == Operand::Sink)
    return addRegister(isDouble);
  if (operand.kind != Operand::Register)
    fail("expected a register for the result");
  return value(operand, isDouble);
}

/// Place of a predicate; bit 31 says "not".
uint32_t Decoder::predicate(const Operand &operand) {
  if (operand.kind == Operand::Immediate)
    return operand.bits ? truePredicate : falsePredicate;
  if (operand.kind != Operand::Register || operand.width != Width::Predicate)
    fail("expected a predicate");
  return (predicateBase + operand.slot) | (operand.negated ? 0x80000000u : 0);
}

Decoder::Place Decoder::placeOf(const std::string &name) {
  Space ofParams = function.isEntry ? Space::Param : Space::Local;
  for (const std::vector<Variable> *variables :
       {&function.params, &function.results})
    for (const Variable &variable : *variables)
      if (variable.name == name)
        return {ofParams,
                function.isEntry ? variable.offset : locals.at(variable.name)};
  for (const Variable &variable : function.variables)
    if (variable.name == name)
      return variable.space == Space::Shared
                 ? Place{Space::Shared, sharedOffset(variable)}
                 : Place{Space::Local, locals.at(name)};
  for (const Variable &variable : module.variables)
    if (variable.name == name)
      return variable.space == Space::Shared
                 ? Place{Space::Shared, sharedOffset(variable)}
                 : Place{Space::Global, program.globals.at(name).first};
  fail("'" + name + "' is not declared");
}

static uint64_t alignTo(uint64_t offset, uint64_t align) {
  return (offset + align - 1) / align * align;
}

/// The next place that has the alignment and, where `isExact`, none beyond it,
/// so that nobody counts by chance on the 1024 bytes of swizzled rows.
static uint64_t nextPlace(uint64_t offset, uint64_t align, bool isExact) {
  offset = alignTo(offset, align);
  bool isBeyond = isExact && align < 1024 && offset % (2 * align) == 0;
  return isBeyond ? offset + align : offset;
}

/// Shared memory is given to the variables that are used, in their order.
uint64_t Decoder::sharedOffset(const Variable &variable) {
  if (auto found = common.shared.find(variable.name);
      found != common.shared.end() && (mayCall || !function.isEntry))
    return found->second;
  auto &known = function.isEntry ? shared : common.shared;
  if (auto found = known.find(variable.name); found != known.end())
    return found->second;
  uint64_t size = function.isEntry ? entry.sharedBytes : common.sharedBytes;
  uint64_t offset = nextPlace(size, variable.align, program.hasMatrices);
  if (variable.external) // behind all others: see assignVariables
    return dynamicOffset;
  known[variable.name] = offset;
  if (function.isEntry)
    entry.sharedBytes = offset + variable.bytes;
  else
    common.sharedBytes = offset + variable.bytes;
  return offset;
}

static void collectNames(const Operand &operand, std::set<std::string> &names) {
  if (operand.kind == Operand::Name)
    names.insert(operand.name);
  for (const Operand &item : operand.items)
    collectNames(item, names);
}

/// Gives locals and parameters of calls their place in each thread's own
/// memory, and shared variables theirs.
void Decoder::assignVariables() {
  auto place = [&](const Variable &variable) {
    locals[variable.name] =
        alignTo(localEnd, std::max<uint64_t>(variable.align, 8));
    localEnd = locals[variable.name] + variable.bytes;
    if (!function.isEntry)
      common.params[function.name + "::" + variable.name] =
          locals[variable.name];
  };
  if (!function.isEntry) {
    for (const Variable &variable : function.params)
      place(variable);
    for (const Variable &variable : function.results)
      place(variable);
  }
  for (const Variable &variable : function.variables)
    if (variable.space == Space::Local)
      place(variable);
  if (function.isEntry && mayCall)
    entry.sharedBytes = common.sharedBytes;
  std::set<std::string> used;
  for (const Statement &one : function.statements)
    for (const Operand &operand : one.operands)
      collectNames(operand, used);
  for (const std::vector<Variable> *variables :
       {&function.variables, &module.variables})
    for (const Variable &variable : *variables)
      if (variable.space == Space::Shared && !variable.external &&
          used.count(variable.name))
        sharedOffset(variable);
  uint64_t dynamicAlign = 16;
  for (const Variable &variable : module.variables)
    if (variable.external && used.count(variable.name))
      dynamicAlign = std::max(dynamicAlign, variable.align);
  dynamicOffset =
      nextPlace(function.isEntry ? entry.sharedBytes : common.sharedBytes,
                dynamicAlign, program.hasMatrices);
  for (const Variable &variable : module.variables)
    if (variable.external && used.count(variable.name)) {
      if (!function.isEntry)
        fail("dynamic shared memory is simulated in kernels only");
      entry.sharedBytes = dynamicOffset;
    }
}

Inst &Decoder::emit(Handler handler) {
  Inst &inst = program.code.emplace_back();
  inst.handler = handler;
  inst.line = statement->line;
  if (statement->guard >= 0)
    inst.guard = predicateBase + statement->guard;
  inst.guardNegated = statement->guardNegated;
  return inst;
}

Inst &Decoder::emitNamed(const std::string &name) {
  Handler handler = findHandler(name);
  if (!handler)
    fail("'" + name + "' is not simulated");
  return emit(handler);
}

void Decoder::decode() {
  if (decodeControl() || decodeMemory() || decodeWarp() || decodeMove())
    return;
  const std::string &op = statement->parts[0];
  if (op == "cvt")
    decodeConvert();
  else if (op == "setp")
    decodeCompare();
  else if (op == "selp")
    decodeSelect();
  else
    decodeArithmetic();
}

void Decoder::run() {
  assignVariables();
  entry.begin = program.code.size();
  begins[function.name] = entry.begin;
  std::vector<uint32_t> starts;
  for (const Statement &one : function.statements) {
    statement = &one;
    starts.push_back(program.code.size());
    decode();
    noteTouches(starts.back());
  }
  starts.push_back(program.code.size());
  static const Statement end = {0, {"ret"}, -1, false, {}};
  statement = &end;
  emit(nullptr).action = Action::Return;
  for (const Fixup &fixup : fixups) {
    auto label = function.labels.find(fixup.label);
    if (label == function.labels.end())
      throw Trap{InvalidPtx, "function '" + function.name + "': no label '" +
                                 fixup.label + "'"};
    uint32_t target = starts[label->second];
    if (fixup.inTable)
      program.places[fixup.place] = target;
    else
      program.code[fixup.place].target = target;
  }
  finishTouches();
  finishKernel();
}

void Decoder::finishKernel() {
  uint32_t predicates = predicateBase + function.predicates;
  if (!function.isEntry) {
    common.registerBytes = registerEnd;
    common.predicates = predicates;
    common.localBytes = alignTo(localEnd, 16);
    for (const Constant &one : entry.constants)
      common.constants.push_back(one);
    for (auto one : entry.specials)
      common.specials.push_back(one);
    return;
  }
  entry.name = function.name;
  entry.hasMatrices = program.hasMatrices && mayCall;
  for (const Statement &one : function.statements)
    entry.hasMatrices |= one.parts[0] == "wgmma";
  entry.params = function.params;
  for (const Variable &param : function.params)
    entry.paramBytes = param.offset + param.bytes;
  memcpy(entry.maxThreads, function.maxThreads, sizeof entry.maxThreads);
  entry.maxRegisters = function.maxRegisters[0];
  memcpy(entry.requiredThreads, function.requiredThreads,
         sizeof entry.requiredThreads);
  entry.localBytes = alignTo(localEnd, 16);
  entry.registerBytes = registerEnd;
  entry.predicates = predicates;
  if (mayCall) {
    entry.constants.insert(entry.constants.end(), common.constants.begin(),
                           common.constants.end());
    entry.specials.insert(entry.specials.end(), common.specials.begin(),
                          common.specials.end());
  }
  program.entries.push_back(std::move(entry));
}
