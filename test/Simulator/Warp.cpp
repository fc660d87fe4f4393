//===- Warp.cpp - lanes that run together ---------------------------------===//

#include "Machine.h"

using namespace kerf::sim;

/// Calls `body(lane)` for the lanes of a mask.
template <class F> static void forLanes(uint32_t mask, F body) {
  for (; mask; mask &= mask - 1)
    body(__builtin_ctz(mask));
}

uint32_t Warp::guardMask(const Inst &inst) const {
  if (inst.guard < 0)
    return ~0u;
  uint32_t value = predicates[inst.guard];
  return inst.guardNegated ? ~value : value;
}

void Warp::put(uint32_t which, uint32_t where) {
  forLanes(which, [&](int lane) { place[lane] = where; });
}

bool Warp::run() {
  bool moved = false;
  for (; select(); moved = true)
    step();
  return moved;
}

/// Chooses the lanes at the lowest place that can go on. Lanes that wait for
/// others there join them.
bool Warp::select() {
  uint32_t ready = live & ~atBarrier & ~waiting;
  if (!ready)
    return false;
  at = next = UINT32_MAX;
  forLanes(ready, [&](int lane) { at = std::min(at, place[lane]); });
  active = 0;
  forLanes(live & ~atBarrier, [&](int lane) {
    if (place[lane] == at)
      active |= 1u << lane;
    else if (place[lane] > at && ready >> lane & 1)
      next = std::min(next, place[lane]);
  });
  waiting &= ~active;
  return true;
}

/// Runs the chosen lanes until they part or reach others.
void Warp::step() {
  const Inst *code = program->code.data();
  uint64_t executed = 0;
  uint64_t left = block->instructionLimit - block->statistics.warpInstructions;
  bool together = true;
  while (together && at < next) {
    const Inst &inst = code[at];
    block->current = &inst;
    if (++executed > left)
      trap(*this, __builtin_ctz(active), LaunchTimeout,
           "the block has run " + std::to_string(block->instructionLimit) +
               " instructions of warps (KERF_SIM_LIMIT)");
    mask = inst.guard < 0 ? active : active & guardMask(inst);
    if (matrices && mask)
      touchRegisters(*this, at);
    if (inst.action != Action::Plain) {
      together = control(inst);
      continue;
    }
    if (mask)
      inst.handler(*this, inst);
    ++at;
  }
  block->statistics.warpInstructions += executed;
  block->statistics.threadInstructions +=
      executed * __builtin_popcount(active); // guards count as executed
  if (together)
    put(active, at);
}

/// True if the chosen lanes are still together, at `at`; otherwise their places
/// are stored.
bool Warp::control(const Inst &inst) {
  switch (inst.action) {
  case Action::Plain:
    break;
  case Action::Collective:
  case Action::WarpBarrier:
    return collect(inst);
  case Action::Branch:
    return branch(inst, mask);
  case Action::BranchTable:
    return branchTable(inst);
  case Action::Call:
    forLanes(mask, [&](int lane) { returns[lane].push_back(at + 1); });
    return branch(inst, mask);
  case Action::Return:
  case Action::Exit:
    return finish(inst);
  case Action::BlockBarrier:
    return arrive(inst);
  }
  return true;
}

bool Warp::branch(const Inst &inst, uint32_t taken) {
  if (taken == active || !taken) {
    at = taken ? inst.target : at + 1;
    return true;
  }
  put(active & ~taken, at + 1);
  put(taken, inst.target);
  return false;
}

bool Warp::branchTable(const Inst &inst) {
  const auto *index = reinterpret_cast<const uint32_t *>(registers + inst.a);
  put(active & ~mask, at + 1);
  forLanes(mask, [&](int lane) {
    if (index[lane] >= inst.list)
      trap(*this, lane, IllegalInstruction,
           "brx.idx has " + std::to_string(inst.list) +
               " targets, not number " + std::to_string(index[lane]));
    place[lane] = program->places[inst.target + index[lane]];
  });
  return false;
}

bool Warp::finish(const Inst &inst) {
  put(active & ~mask, at + 1);
  forLanes(mask, [&](int lane) {
    if (inst.action == Action::Exit || returns[lane].empty()) {
      live &= ~(1u << lane);
      return;
    }
    place[lane] = returns[lane].back();
    returns[lane].pop_back();
  });
  if (!live && matrices)
    endWarp(*this);
  return false;
}

/// Runs the handler for each set of lanes that `want` it together and are all
/// there. Returns the lanes that it ran for.
uint32_t Warp::collectReady(const Inst &inst, uint32_t want) {
  const auto *members =
      inst.list == UINT32_MAX
          ? nullptr
          : reinterpret_cast<const uint32_t *>(registers + inst.list);
  uint32_t done = 0;
  for (uint32_t left = want; left;) {
    int first = __builtin_ctz(left);
    uint32_t named = members ? members[first] : ~0u, group = 0;
    forLanes(left, [&](int lane) {
      if (!members || members[lane] == named)
        group |= 1u << lane;
    });
    left &= ~group;
    if (group & ~named)
      trap(*this, __builtin_ctz(group & ~named), IllegalInstruction,
           "the lane is not in the mask of lanes that it names");
    if (named & ~live)
      trap(*this, first, IllegalInstruction,
           "waits for lanes that have ended or do not exist");
    if (group != named)
      continue;
    mask = group;
    if (inst.handler)
      inst.handler(*this, inst);
    done |= group;
  }
  return done;
}

bool Warp::collect(const Inst &inst) {
  // Lanes that came by a branch back find those that wait here already.
  uint32_t here = 0;
  forLanes(waiting, [&](int lane) { here |= (place[lane] == at) << lane; });
  waiting &= ~here;
  active |= here;
  uint32_t want = mask | here;
  uint32_t done = collectReady(inst, want);
  if (inst.action == Action::WarpBarrier && done)
    ++epoch;
  if (done == want) {
    ++at;
    return true;
  }
  uint32_t stay = want & ~done;
  put(active & ~stay, at + 1);
  put(stay, at);
  waiting |= stay;
  return false;
}

/// The number of a barrier of the block, on which the lanes agree.
int Warp::barrierNumber(const Inst &inst) const {
  const auto *numbers = reinterpret_cast<const uint32_t *>(registers + inst.a);
  uint32_t number = numbers[__builtin_ctz(mask)];
  forLanes(mask, [&](int lane) {
    if (numbers[lane] != number)
      trap(*this, lane, IllegalInstruction,
           "lanes of the warp name other barriers");
  });
  if (number >= std::size(block->barriers))
    trap(*this, __builtin_ctz(mask), IllegalInstruction,
         "a block has barriers 0..15");
  return number;
}

bool Warp::arrive(const Inst &inst) {
  bool waits = inst.mode;
  put(active & ~mask, at + 1);
  put(mask, waits ? at : at + 1);
  if (!mask)
    return false;
  int number = barrierNumber(inst);
  block->arrive(*this, mask, number);
  if (waits) {
    atBarrier |= mask;
    forLanes(mask, [&](int lane) { barrier[lane] = number; });
  }
  return false;
}
