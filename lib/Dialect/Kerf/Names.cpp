#include "kerf/Dialect/Kerf/Names.h"

#include "kerf/Support/ControlBytes.h"
#include "kerf/Support/Json.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace kerf;

static LogicalResult verifyStrings(Operation *op) {
  for (NamedAttribute attribute : op->getAttrDictionary()) {
    if (attribute.getName() == "plan_json")
      continue;
    StringAttr wrong;
    attribute.getValue().walk([&](StringAttr string) {
      if (!wrong && hasControl(string.getValue()))
        wrong = string;
    });
    if (wrong)
      return op->emitOpError() << "has " << json::quote(wrong.getValue())
                               << " as '" << attribute.getName().getValue()
                               << "', expected no control characters";
  }
  return success();
}

LogicalResult kerf::verifyNames(Operation *root) {
  return failure(
      root->walk([](Operation *op) { return WalkResult(verifyStrings(op)); })
          .wasInterrupted());
}
