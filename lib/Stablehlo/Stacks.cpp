#include "Stacks.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include <map>
#include <set>

using namespace kerf;
using namespace mlir;

/// The slice [1, ...] that `user` takes of a stack; none for other reads.
static std::optional<int64_t> sliceOf(Operation *user, Value stack) {
  auto slice = dyn_cast<SliceOp>(user);
  if (!slice)
    return std::nullopt;
  llvm::ArrayRef<int64_t> shape = typeOf(stack).getShape();
  if (slice.getSizes().front() != 1 ||
      slice.getSizes().drop_front() != shape.drop_front())
    return std::nullopt;
  return slice.getOffsets().front();
}

static bool isStack(ParamOp param) {
  Value value = param.getResult();
  if (typeOf(value).getRank() < 1 || typeOf(value).getDimSize(0) < 2 ||
      value.use_empty())
    return false;
  std::set<int64_t> read;
  for (Operation *user : value.getUsers()) {
    auto number = sliceOf(user, value);
    if (!number)
      return false;
    read.insert(*number);
  }
  // A parameter of which a part alone is read stays whole.
  return static_cast<int64_t>(read.size()) == typeOf(value).getDimSize(0);
}

/// What all names begin with, up to a dot.
static std::string commonStart(llvm::ArrayRef<ParamOp> params) {
  llvm::StringRef start = params.front()->getAttrOfType<StringAttr>("name");
  for (ParamOp param : params) {
    llvm::StringRef name = param.getName();
    while (!name.starts_with(start))
      start = start.drop_back();
  }
  size_t dot = start.rfind('.');
  return dot == llvm::StringRef::npos ? "" : start.take_front(dot + 1).str();
}

static void split(ParamOp param, llvm::StringRef start) {
  OpBuilder builder(param);
  RankedTensorType type = typeOf(param.getResult());
  auto part = RankedTensorType::get(type.getShape().drop_front(),
                                    type.getElementType());
  std::map<int64_t, Value> parts;
  llvm::StringRef rest = param.getName().drop_front(start.size());
  for (int64_t i = 0; i < type.getDimSize(0); ++i) {
    auto copy = cast<ParamOp>(builder.clone(*param));
    copy.setName((start + llvm::Twine(i) + "." + rest).str());
    copy.getResult().setType(part);
    parts[i] = copy.getResult();
  }
  for (Operation *user : llvm::make_early_inc_range(param->getUsers())) {
    OpBuilder at(user);
    PlainBuilder plain{at, user->getLoc()};
    Value whole = plain.reshape(parts[*sliceOf(user, param.getResult())],
                                typeOf(user->getResult(0)).getShape());
    user->getResult(0).replaceAllUsesWith(whole);
    user->erase();
  }
  param.erase();
}

void kerf::splitStacks(ModelOp model) {
  std::map<int64_t, llvm::SmallVector<ParamOp>> bySize;
  for (ParamOp param : model.getBody().getOps<ParamOp>())
    if (isStack(param))
      bySize[typeOf(param.getResult()).getDimSize(0)].push_back(param);
  for (auto &[size, params] : bySize) {
    std::string start = commonStart(params);
    for (ParamOp param : params)
      split(param, start);
  }
}
