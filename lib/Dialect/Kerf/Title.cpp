#include "kerf/Dialect/Kerf/Title.h"

using namespace mlir;

llvm::StringRef kerf::titleOf(ModelOp model) {
  auto title = model->getAttrOfType<StringAttr>(kTitleAttrName);
  return title ? title.getValue() : model.getSymName();
}
