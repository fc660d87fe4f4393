#include "Collectives.h"

#include "Updates.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;

ArrayAttr kerf::getExchangeAxes(Operation &op) {
  if (spmd::isExchange(&op))
    return op.getAttrOfType<ArrayAttr>("axes");
  return {};
}

/// Combines the values of a group in order, rounding after each addition.
static HostTensor combine(llvm::ArrayRef<const HostTensor *> values,
                          ReduceKind kind, bool f64) {
  HostTensor total = *values[0];
  for (const HostTensor *value : values.drop_front()) {
    for (auto [a, b] : llvm::zip_equal(total.data, value->data))
      a = kind == ReduceKind::Sum ? a + b : std::max(a, b);
    roundTensor(total, f64);
  }
  return total;
}

HostTensor kerf::evaluateCollective(Operation &op, const Ranks &operands,
                                    const Place &place, bool f64) {
  auto members = [&](ArrayAttr axes) {
    return llvm::map_to_vector(
        groupOf(place.program, place.rank, axes), [&](int64_t member) {
          return static_cast<const HostTensor *>(operands[member].get());
        });
  };
  auto own = [&](const HostTensor &whole, int64_t dim, ArrayAttr axes) {
    return takePart(whole, dim, place.index(axes),
                    place.program.getAxesSize(axes));
  };
  return llvm::TypeSwitch<Operation *, HostTensor>(&op)
      .Case([&](spmd::AllReduceOp all) {
        return combine(members(all.getAxes()), all.getKind(), f64);
      })
      .Case([&](spmd::AllGatherOp gather) {
        return joinParts(members(gather.getAxes()), gather.getDim());
      })
      .Case([&](spmd::ReduceScatterOp scatter) {
        return own(combine(members(scatter.getAxes()), scatter.getKind(), f64),
                   scatter.getDim(), scatter.getAxes());
      })
      .Case([&](spmd::AllToAllOp exchange) {
        return own(joinParts(members(exchange.getAxes()), exchange.getConcat()),
                   exchange.getSplit(), exchange.getAxes());
      })
      .Case([&](spmd::RotateOp rotate) {
        auto ring = members(rotate.getAxes());
        return *ring[(place.index(rotate.getAxes()) + 1) % ring.size()];
      })
      .Case([&](spmd::SliceOwnOp slice) {
        return own(*operands[place.rank], slice.getDim(), slice.getAxes());
      });
}

HostTensor kerf::evaluateOffset(spmd::OffsetOp offset, const Place &place) {
  HostTensor value(typeOf(offset.getResult()));
  for (auto [axis, stride] : llvm::zip(
           offset.getAxes().getAsRange<StringAttr>(), offset.getStrides()))
    value.data[0] += place.coordinate(axis) * stride;
  value.data[0] += offset.getStart().value_or(0);
  if (std::optional<int64_t> modulo = offset.getModulo()) {
    double rest = std::fmod(value.data[0], *modulo);
    value.data[0] = rest < 0 ? rest + *modulo : rest;
  }
  return value;
}
