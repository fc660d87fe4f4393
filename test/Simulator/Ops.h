//===- Ops.h - handlers of instructions by name ---------------------------===//

#ifndef KERF_SIMULATOR_OPS_H
#define KERF_SIMULATOR_OPS_H

#include "Machine.h"

namespace kerf::sim {

/// A handler and the instruction it is of: the mnemonic with the modifiers that
/// choose a meaning and the types ("mul.wide.s32"), without those that are
/// kept in the instruction (rounding, .ftz, .sat).
struct NamedHandler {
  const char *name;
  Handler handler;
};
struct HandlerTable {
  const NamedHandler *handlers;
  size_t count;
};

/// Handlers that vectorize. `Avx2` ones need a processor that has AVX2 and FMA.
HandlerTable integerHandlers();
HandlerTable floatHandlers();
HandlerTable convertHandlers();
HandlerTable integerHandlersAvx2();
HandlerTable floatHandlersAvx2();
HandlerTable convertHandlersAvx2();
/// Loads, stores, atomics.
HandlerTable memoryHandlers();
/// Shuffles, votes, matmuls: what lanes do together.
HandlerTable warpHandlers();

/// wgmma and the fence of its proxy.
HandlerTable warpgroupHandlers();

/// Of `name`, for this processor, or null.
Handler findHandler(const std::string &name);

/// Inst::mode of wgmma.mma_async.
enum MatmulMode : uint8_t {
  OfHalves = 1, ///< f16, else bf16
  TransposedA = 2,
  TransposedB = 4, ///< MN-major
  NegatedA = 8,
  NegatedB = 16
};

/// Inst::mode of conversions.
enum Rounding : uint8_t {
  ToEven,
  ToZero,
  Down,
  Up,
  ToEvenInteger,
  ToZeroInteger,
  DownInteger,
  UpInteger,
  ToAway
};

} // namespace kerf::sim

#endif // KERF_SIMULATOR_OPS_H
