//===- DecodeWarpgroup.cpp - wgmma and what its registers meet ------------===//

#include "Decode.h"

#include <charconv>

using namespace kerf::sim;

/// N of "m64nNk16", or 0.
static uint32_t columnsOf(const std::string &shape) {
  if (!shape.starts_with("m64n") || !shape.ends_with("k16"))
    return 0;
  uint32_t columns = 0;
  const char *end = shape.data() + shape.size() - 3;
  auto [stop, error] = std::from_chars(shape.data() + 4, end, columns);
  bool isShape = error == std::errc() && stop == end && columns % 8 == 0 &&
                 columns >= 8 && columns <= 256;
  return isShape ? columns : 0;
}

/// An operand that is one of two constants; true for `second`.
bool Decoder::choice(size_t index, const char *name, int64_t first,
                     int64_t second) {
  const Operand &found = operand(index);
  int64_t value = static_cast<int64_t>(found.bits);
  if (found.kind != Operand::Immediate || (value != first && value != second))
    fail(std::string(name) + " is " + std::to_string(first) + " or " +
         std::to_string(second));
  return value == second;
}

/// Appends the registers of a fragment of `count`.
void Decoder::fragment(const Operand &vector, const char *name, size_t count) {
  if (vector.kind != Operand::Vector || vector.items.size() != count)
    fail(std::string(name) + " has " + std::to_string(count) +
         " registers for this shape, not " +
         std::to_string(vector.items.size()));
  for (const Operand &item : vector.items) {
    if (item.kind != Operand::Register || item.width != Width::Word)
      fail(std::string(name) + " is of 32-bit registers");
    program.places.push_back(value(item, false));
    matrixPlaces.insert(program.places.back());
  }
}

void Decoder::decodeMatmul() {
  const std::vector<std::string> &parts = statement->parts;
  uint32_t columns = parts.size() == 8 ? columnsOf(parts[4]) : 0;
  bool isHalf = columns && parts[7] == "f16";
  if (!columns || parts[2] != "sync" || parts[3] != "aligned" ||
      parts[5] != "f32" || parts[6] != parts[7] ||
      (!isHalf && parts[7] != "bf16"))
    fail("of wgmma.mma_async, .sync.aligned.m64nNk16.f32 with .bf16.bf16 or "
         ".f16.f16 is simulated, N = 8, 16 .. 256");
  bool hasRegisters = operand(1).kind == Operand::Vector;
  if (statement->operands.size() != (hasRegisters ? 7 : 8))
    fail("another number of operands than 'wgmma.mma_async' has");
  Inst inst = emitNamed("wgmma.mma_async");
  inst.count = columns / 8;
  inst.target = program.places.size();
  fragment(operand(0), "the accumulator", columns / 2);
  if (hasRegisters)
    fragment(operand(1), "A", 4);
  else
    inst.a = value(operand(1), true);
  inst.b = value(operand(2), true);
  const Operand &scale = operand(3);
  if (scale.kind == Operand::Immediate)
    choice(3, "scale-d", 0, 1);
  inst.c = predicate(scale);
  inst.mode = (isHalf ? OfHalves : 0) |
              (choice(4, "imm-scale-a", 1, -1) ? NegatedA : 0) |
              (choice(5, "imm-scale-b", 1, -1) ? NegatedB : 0);
  if (!hasRegisters)
    inst.mode |= choice(6, "imm-trans-a", 0, 1) ? TransposedA : 0;
  size_t last = hasRegisters ? 6 : 7;
  inst.mode |= choice(last, "imm-trans-b", 0, 1) ? TransposedB : 0;
  inst.action = Action::Collective;
  inst.list = UINT32_MAX;
  program.code.back() = inst;
}

void Decoder::decodeWarpgroup() {
  const std::vector<std::string> &parts = statement->parts;
  if (module.target != "sm_90a")
    fail("wgmma needs .target sm_90a");
  if (parts.size() > 1 && parts[1] == "mma_async")
    return decodeMatmul();
  if (parts.size() != 4 || parts[2] != "sync" || parts[3] != "aligned")
    fail("of wgmma, fence, commit_group, wait_group and mma_async with "
         ".sync.aligned are simulated");
  bool isWait = parts[1] == "wait_group";
  if (statement->operands.size() != isWait)
    fail("another number of operands than 'wgmma." + parts[1] + "' has");
  if (isWait && (operand(0).kind != Operand::Immediate ||
                 static_cast<int64_t>(operand(0).bits) < 0))
    fail("wgmma.wait_group wants a constant that is not negative");
  Inst &inst = emitNamed("wgmma." + parts[1]);
  inst.action = Action::Collective;
  inst.list = UINT32_MAX;
  if (isWait)
    inst.offset = operand(0).bits;
}

/// Registers of a statement other than wgmma, which may be those of a matmul.
void Decoder::noteTouches(uint32_t at) {
  if (!program.hasMatrices || statement->parts[0] == "wgmma" ||
      at == program.code.size())
    return;
  for (size_t index = 0; index < statement->operands.size(); ++index) {
    const Operand &one = statement->operands[index];
    std::vector<Operand> single = {one};
    for (const Operand &item : one.items.empty() ? single : one.items)
      noteTouch(at, item, index == 0 && one.kind != Operand::Address);
    if (!one.items.empty()) // p of "p|q"
      noteTouch(at, one, index == 0);
  }
}

void Decoder::noteTouch(uint32_t at, const Operand &item, bool isWrite) {
  if (item.kind == Operand::Register && item.width == Width::Word)
    touched.push_back({at, {registerBase + item.slot, isWrite}});
}

/// Keeps the touches of registers that wgmma has, in the program.
void Decoder::finishTouches() {
  if (!program.hasMatrices)
    return;
  for (const auto &[at, touch] : touched) {
    if (!matrixPlaces.count(touch.place))
      continue;
    program.touchBegins.resize(at + 1, program.touches.size());
    program.touches.push_back(touch);
  }
  program.touchBegins.resize(program.code.size() + 1, program.touches.size());
}
