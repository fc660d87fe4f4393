//===- Exchange.cpp - collectives of commands -----------------------------===//

#include "Transport.h"

using namespace kerf::runtime;

Exchange kerf::runtime::exchangeOf(uint32_t opcode, const int64_t *attrs,
                                   const void *source, void *destination) {
  Exchange exchange{opcode, source, destination,
                    uint32_t(attrs[KERF_COLLECTIVE_DTYPE])};
  switch (opcode) {
  case KERF_OP_ALL_REDUCE:
    exchange.reduction = attrs[KERF_ALL_REDUCE_REDUCTION];
    exchange.inner = attrs[KERF_ALL_REDUCE_ELEMENTS];
    break;
  case KERF_OP_ALL_GATHER:
    exchange.outer = attrs[KERF_ALL_GATHER_OUTER];
    exchange.inner = attrs[KERF_ALL_GATHER_INNER];
    break;
  case KERF_OP_REDUCE_SCATTER:
    exchange.reduction = attrs[KERF_REDUCE_SCATTER_REDUCTION];
    exchange.outer = attrs[KERF_REDUCE_SCATTER_OUTER];
    exchange.inner = attrs[KERF_REDUCE_SCATTER_INNER];
    break;
  case KERF_OP_ALL_TO_ALL:
    exchange.back = attrs[KERF_ALL_TO_ALL_BACK];
    exchange.outer = attrs[KERF_ALL_TO_ALL_OUTER];
    exchange.middle = attrs[KERF_ALL_TO_ALL_MIDDLE];
    exchange.inner = attrs[KERF_ALL_TO_ALL_INNER];
    break;
  case KERF_OP_ROTATE:
    exchange.inner = attrs[KERF_ROTATE_ELEMENTS];
    break;
  }
  return exchange;
}
