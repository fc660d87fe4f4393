//===- UpdateFormulas.h - what update rules have in common ------*- C++ -*-===//

#ifndef KERF_LIB_DIALECT_KERF_UPDATEFORMULAS_H
#define KERF_LIB_DIALECT_KERF_UPDATEFORMULAS_H

#include "kerf/Dialect/Kerf/PlainBuilder.h"

namespace kerf {

/// `w (1 - rate decay)`; `rate` is a scalar.
inline mlir::Value decayed(PlainBuilder &p, mlir::Value param, mlir::Value rate,
                           double decay) {
  if (decay == 0)
    return param;
  mlir::Value keep = p.sub(1.0, p.mul(rate, decay));
  return p.mul(param, p.broadcast(keep, {}, typeOf(param).getShape()));
}

/// `decay a + (1 - decay) b`.
inline mlir::Value average(PlainBuilder &p, double decay, mlir::Value a,
                           mlir::Value b) {
  return p.add(p.mul(a, decay), p.mul(b, 1.0 - decay));
}

} // namespace kerf

#endif // KERF_LIB_DIALECT_KERF_UPDATEFORMULAS_H
