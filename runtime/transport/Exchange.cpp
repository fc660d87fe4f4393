//===- Exchange.cpp - collectives of commands -----------------------------===//

#include "Transport.h"

using namespace kerf::runtime;

Exchange kerf::runtime::exchangeOf(uint32_t opcode, const int64_t *attrs,
                                   const void *source, void *destination) {
  Exchange exchange{opcode, source, destination, uint32_t(attrs[1])};
  switch (opcode) {
  case KERF_OP_ALL_REDUCE:
    exchange.reduction = attrs[2];
    exchange.inner = attrs[3];
    break;
  case KERF_OP_ALL_GATHER:
    exchange.outer = attrs[2];
    exchange.inner = attrs[3];
    break;
  case KERF_OP_REDUCE_SCATTER:
    exchange.reduction = attrs[2];
    exchange.outer = attrs[3];
    exchange.inner = attrs[4];
    break;
  case KERF_OP_ALL_TO_ALL:
    exchange.back = attrs[2];
    exchange.outer = attrs[3];
    exchange.middle = attrs[4];
    exchange.inner = attrs[5];
    break;
  case KERF_OP_ROTATE:
    exchange.inner = attrs[2];
    break;
  }
  return exchange;
}
