#include "kerf/Dialect/Spmd/Spmd.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf::spmd;

#include "kerf/Dialect/Spmd/SpmdDialect.cpp.inc"

#include "kerf/Dialect/Spmd/SpmdEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "kerf/Dialect/Spmd/SpmdAttrs.cpp.inc"

void SpmdDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kerf/Dialect/Spmd/SpmdAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "kerf/Dialect/Spmd/SpmdProgramOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "kerf/Dialect/Spmd/SpmdRankOps.cpp.inc"
      >();
}
