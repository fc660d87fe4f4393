#include "kerf/Interfaces/View.h"

#include "kerf/Interfaces/Interfaces.h"

using namespace mlir;
using namespace kerf;

std::optional<View> kerf::viewOf(Operation *op) {
  auto view = dyn_cast_or_null<ViewOpInterface>(op);
  return view ? std::optional(view.getView()) : std::nullopt;
}

bool kerf::isView(Operation *op, unsigned kinds) {
  std::optional<View> view = viewOf(op);
  return view && (static_cast<unsigned>(view->kind) & kinds);
}

Value kerf::withoutRenames(Value value) {
  while (isView(value, ViewKind::Rename))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}
