//===- DecodeMemory.cpp - accesses and what lanes do together -------------===//

#include "Decode.h"

using namespace kerf::sim;

static bool isDouble(const std::string &type) { return typeBytes(type) == 8; }

// ---- Memory -----------------------------------------------------------------

bool Decoder::decodeMemory() {
  const std::string &op = statement->parts[0];
  if (op == "ld" || op == "ldu")
    decodeAccess(false);
  else if (op == "st")
    decodeAccess(true);
  else if (op == "atom" || op == "red")
    decodeAtomic();
  else if (op == "cvta" || op == "isspacep")
    decodeAddressConversion();
  else if (op == "cp")
    decodeCopyAsync();
  else
    return false;
  return true;
}

static Space spaceOf(const std::vector<std::string> &parts) {
  for (const std::string &part : parts) {
    std::string space = part.substr(0, part.find("::"));
    if (space == "global" || space == "const")
      return Space::Global;
    if (space == "shared")
      return Space::Shared;
    if (space == "local")
      return Space::Local;
    if (space == "param")
      return Space::Param;
  }
  return Space::Generic;
}

/// The operand's address; a name fixes the space of parameters.
void Decoder::setAddress(Inst &inst, const Operand &operand) {
  if (operand.kind != Operand::Address)
    fail("expected an address");
  inst.offset = operand.offset;
  if (inst.space == Space::Param && !function.isEntry)
    inst.space = Space::Local;
  if (operand.items.empty())
    return;
  const Operand &base = operand.items[0];
  if (base.kind == Operand::Register) {
    inst.wideAddress = base.width == Width::Double;
    inst.a = value(base, inst.wideAddress);
    return;
  }
  Place place = placeOf(base.name);
  inst.offset += place.offset + base.offset;
  if (inst.space == Space::Param)
    inst.space = place.space;
  else if (inst.space == Space::Generic && place.space != Space::Global)
    fail("a generic access by the name of '" + base.name + "'");
}

void Decoder::decodeAccess(bool isStore) {
  std::string of = type();
  uint32_t bytes = typeBytes(of);
  const Operand &values = operand(isStore ? 1 : 0);
  const Operand &address = operand(isStore ? 0 : 1);
  std::vector<Operand> single = {values};
  const std::vector<Operand> &items =
      values.kind == Operand::Vector ? values.items : single;
  bool wide = bytes == 8;
  for (const Operand &item : items)
    wide |= item.kind == Operand::Register && item.width == Width::Double;
  std::string name = isStore ? "st." + std::to_string(bytes * 8)
                             : std::string("ld.") +
                                   (of[0] == 's' && bytes < 8 ? "s" : "u") +
                                   std::to_string(bytes * 8);
  Handler handler = findHandler(name + (wide ? ".64" : ".32"));
  size_t count = has("v2") ? 2 : has("v4") ? 4 : has("v8") ? 8 : 1;
  if (!handler || count != items.size())
    fail("the access is not simulated");
  std::vector<uint32_t> places;
  for (const Operand &item : items)
    places.push_back(isStore                      ? value(item, wide)
                     : item.kind == Operand::Sink ? UINT32_MAX
                                                  : result(item, wide));
  Inst inst = emit(handler);
  inst.bytes = bytes * count;
  inst.count = count;
  inst.space = spaceOf(statement->parts);
  setAddress(inst, address);
  inst.to = places[0];
  inst.list = program.places.size();
  if (count > 1)
    program.places.insert(program.places.end(), places.begin(), places.end());
  program.code.back() = inst;
}

void Decoder::decodeAtomic() {
  static const char *const operations[] = {"add", "min",  "max", "and", "or",
                                           "xor", "exch", "cas", "inc", "dec"};
  std::string name = "atom", of = type();
  for (const char *operation : operations)
    if (has(operation))
      name += std::string(".") + operation;
  bool isRed = statement->parts[0] == "red", wide = isDouble(of);
  size_t first = isRed ? 0 : 1;
  uint32_t b = value(operand(first + 1), wide);
  uint32_t c = has("cas") ? value(operand(first + 2), wide) : UINT32_MAX;
  uint32_t to = isRed ? UINT32_MAX : result(operand(0), wide);
  emitNamed(name + "." + of);
  Inst inst = program.code.back();
  inst.bytes = typeBytes(of);
  inst.space = spaceOf(statement->parts);
  inst.to = to;
  inst.b = b;
  inst.c = c;
  setAddress(inst, operand(first));
  program.code.back() = inst;
}

void Decoder::decodeAddressConversion() {
  bool isTest = statement->parts[0] == "isspacep";
  Space space = spaceOf(statement->parts);
  if (space == Space::Param)
    fail("generic addresses of parameters are not simulated");
  uint32_t a = value(operand(1), true);
  uint32_t to = isTest ? predicate(operand(0)) : result(operand(0), true);
  Inst &inst = emitNamed(statement->parts[0]);
  inst.space = space;
  inst.mode = has("to");
  inst.to = to;
  inst.a = a;
}

void Decoder::decodeCopyAsync() {
  if (!has("async") || has("bulk") || has("mbarrier"))
    fail("of cp, only cp.async with groups is simulated");
  if (has("commit_group")) {
    emitNamed("cp.async.commit_group");
    return;
  }
  if (has("wait_group") || has("wait_all")) {
    int64_t left = has("wait_all") ? -1 : int64_t(operand(0).bits);
    emitNamed("cp.async.wait_group").offset = left;
    return;
  }
  uint32_t valid =
      statement->operands.size() > 3 ? value(operand(3), false) : UINT32_MAX;
  emitNamed("cp.async");
  Inst inst = program.code.back();
  inst.bytes = operand(2).bits;
  if (inst.bytes != 4 && inst.bytes != 8 && inst.bytes != 16)
    fail("cp.async copies 4, 8 or 16 bytes");
  inst.space = Space::Shared;
  inst.b = valid;
  setAddress(inst, operand(0));
  program.code.back() = inst;
  emitNamed("nothing");
  Inst source = program.code.back();
  source.bytes = inst.bytes;
  source.space = Space::Global;
  setAddress(source, operand(1));
  program.code.back() = source;
}

// ---- Lanes together ---------------------------------------------------------

bool Decoder::decodeWarp() {
  const std::string &op = statement->parts[0];
  if (op == "shfl") {
    decodeShuffle();
  } else if (op == "vote") {
    decodeVote();
  } else if (op == "mma" || op == "ldmatrix" || op == "stmatrix") {
    decodeMatrix();
  } else if (op == "wgmma") {
    decodeWarpgroup();
  } else if (op == "activemask") {
    uint32_t to = result(operand(0), false);
    emitNamed("activemask.b32").to = to;
  } else if (op == "redux") {
    uint32_t to = result(operand(0), false), a = value(operand(1), false);
    uint32_t members = value(operand(2), false);
    Inst &inst = emitNamed("redux." + statement->parts[2] + "." + type());
    inst.action = Action::Collective;
    inst.to = to;
    inst.a = a;
    inst.list = members;
  } else {
    return false;
  }
  return true;
}

void Decoder::decodeShuffle() {
  if (statement->parts.size() != 4 || statement->parts[1] != "sync")
    fail("of shuffles, shfl.sync.MODE.b32 is simulated");
  const Operand &first = operand(0);
  uint32_t to = result(first, false), a = value(operand(1), false);
  uint32_t b = value(operand(2), false), c = value(operand(3), false);
  uint32_t members = value(operand(4), false);
  Inst &inst = emitNamed("shfl." + statement->parts[2] + ".b32");
  inst.action = Action::Collective;
  inst.to = to;
  inst.a = a;
  inst.b = b;
  inst.c = c;
  inst.list = members;
  if (!first.items.empty())
    inst.d = predicate(first.items[0]);
}

void Decoder::decodeVote() {
  if (statement->parts.size() != 4 || statement->parts[1] != "sync")
    fail("of votes, vote.sync.MODE is simulated");
  uint32_t to =
      type() == "pred" ? predicate(operand(0)) : result(operand(0), false);
  uint32_t members = value(operand(2), false);
  Inst &inst = emitNamed("vote." + statement->parts[2] + "." + type());
  inst.action = Action::Collective;
  inst.to = to;
  inst.a = predicate(operand(1));
  inst.list = members;
}

/// Places of 32-bit registers, at `inst.target`.
void Decoder::list(Inst &inst, const std::vector<const Operand *> &operands) {
  inst.target = program.places.size();
  for (const Operand *one : operands) {
    std::vector<Operand> single = {*one};
    for (const Operand &item :
         one->kind == Operand::Vector ? one->items : single)
      program.places.push_back(value(item, false));
  }
}

void Decoder::decodeMatrix() {
  bool isMatmul = statement->parts[0] == "mma";
  bool isLoad = statement->parts[0] == "ldmatrix";
  std::string name = statement->parts[0];
  if (isMatmul)
    name = "mma." + statement->parts[3] + "." + type(3) + "." + type(2) + "." +
           type(1) + "." + type(0);
  if (isMatmul && (!has("row") || !has("col")))
    fail("of mma, .row.col is simulated");
  emitNamed(name);
  Inst inst = program.code.back();
  inst.action = Action::Collective;
  inst.list = UINT32_MAX;
  if (!isMatmul) {
    inst.count = has("x4") ? 4 : has("x2") ? 2 : 1;
    inst.mode = has("trans");
    inst.bytes = 16;
    inst.space = Space::Shared;
    list(inst, {&operand(isLoad ? 0 : 1)});
    setAddress(inst, operand(isLoad ? 1 : 0));
  } else {
    list(inst, {&operand(0), &operand(1), &operand(2), &operand(3)});
  }
  program.code.back() = inst;
}
