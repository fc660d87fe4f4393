#include "kerf/Interfaces/StateTensor.h"

#include <algorithm>

using namespace mlir;
using namespace kerf;

RankedTensorType kerf::stateType(const StateTensor &state,
                                 RankedTensorType updated) {
  llvm::SmallVector<int64_t> shape(updated.getShape());
  if (state.block > 1)
    shape.back() /= state.block;
  if (state.without > 0)
    shape.erase(shape.end() - state.without);
  return RankedTensorType::get(shape, state.element ? state.element
                                                    : updated.getElementType());
}

int64_t kerf::bytesOf(llvm::ArrayRef<StateTensor> states,
                      RankedTensorType updated) {
  int64_t bytes = 0;
  for (const StateTensor &state : states) {
    RankedTensorType type = stateType(state, updated);
    bytes += type.getNumElements() * type.getElementTypeBitWidth() / 8;
  }
  return bytes;
}

int64_t kerf::granuleOf(llvm::ArrayRef<StateTensor> states) {
  int64_t granule = 1;
  for (const StateTensor &state : states)
    granule = std::max(granule, state.block);
  return granule;
}

int64_t kerf::pieceSize(int64_t elements, int64_t ranks, int64_t granule) {
  int64_t count = (elements + granule - 1) / granule;
  return (count + ranks - 1) / ranks * granule;
}
