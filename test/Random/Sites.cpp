//===- Sites.cpp - where mistakes can be made -----------------------------===//

#include "Mutate.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

#include <set>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

//===----------------------------------------------------------------------===//
// What training runs
//===----------------------------------------------------------------------===//

static spmd::ProgramOp programOf(Operation *op) {
  return op->getParentOfType<spmd::ProgramOp>();
}

static auto callsOf(spmd::ProgramOp program) {
  return llvm::to_vector(
      program.getSchedule("train").getBody().getOps<spmd::CallOp>());
}

/// Calls of the function that an op is in.
static int64_t countCalls(Operation *op) {
  auto func = op->getParentOfType<spmd::FuncOp>();
  return llvm::count_if(callsOf(programOf(op)), [&](spmd::CallOp call) {
    return call.getCallee() == func.getSymName();
  });
}

/// Functions in the order of their first call.
static llvm::SetVector<Operation *> functionsOf(spmd::ProgramOp program) {
  llvm::SetVector<Operation *> functions;
  for (spmd::CallOp call : callsOf(program))
    functions.insert(SymbolTable::lookupSymbolIn(program, call.getCallee()));
  return functions;
}

static bool isOverStages(Operation *op) {
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  return axes && isa<spmd::AllReduceOp>(op) &&
         llvm::is_contained(axes,
                            StringAttr::get(op->getContext(), kPipelineAxis));
}

/// Collectives over the axis of the pipeline, in order.
static llvm::SmallVector<Operation *> meetingsOf(spmd::ProgramOp program) {
  llvm::SmallVector<Operation *> meetings;
  for (Operation *function : functionsOf(program))
    function->walk([&](Operation *op) {
      if (isOverStages(op))
        meetings.push_back(op);
    });
  return meetings;
}

llvm::SmallVector<Operation *> test::getPartners(Operation *op) {
  if (!isOverStages(op))
    return {op};
  auto own = meetingsOf(programOf(op));
  int64_t number = llvm::find(own, op) - own.begin();
  llvm::SmallVector<Operation *> partners;
  for (auto program :
       op->getParentOfType<ModuleOp>().getOps<spmd::ProgramOp>()) {
    auto meetings = meetingsOf(program);
    if (number < static_cast<int64_t>(meetings.size()))
      partners.push_back(meetings[number]);
  }
  return partners;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

namespace {
/// What passes through a channel in training, in order.
struct Channel {
  std::vector<Operation *> sends, receives;
};
} // namespace

static Channel traceChannel(spmd::SendOp send) {
  Channel channel;
  int64_t from = programOf(send).getStage(), to = send.getTo();
  auto trace = [&](spmd::ProgramOp program, auto matches, auto &list) {
    for (spmd::CallOp call : callsOf(program))
      SymbolTable::lookupSymbolIn(program, call.getCallee())
          ->walk([&](Operation *op) {
            if (matches(op))
              list.push_back(op);
          });
  };
  for (auto program :
       send->getParentOfType<ModuleOp>().getOps<spmd::ProgramOp>()) {
    if (program.getStage() == from)
      trace(
          program,
          [&](Operation *op) {
            auto other = dyn_cast<spmd::SendOp>(op);
            return other && other.getTo() == to &&
                   other.getChannel() == send.getChannel();
          },
          channel.sends);
    if (program.getStage() == to)
      trace(
          program,
          [&](Operation *op) {
            auto other = dyn_cast<spmd::RecvOp>(op);
            return other && other.getFrom() == from &&
                   other.getChannel() == send.getChannel();
          },
          channel.receives);
  }
  return channel;
}

Operation *test::findReceive(Operation *op) {
  auto send = cast<spmd::SendOp>(op);
  Channel channel = traceChannel(send);
  std::set<Operation *> receives, senders;
  for (auto [sent, received] : llvm::zip(channel.sends, channel.receives))
    if (sent == op)
      receives.insert(received);
  if (receives.size() != 1)
    return nullptr;
  for (auto [sent, received] : llvm::zip(channel.sends, channel.receives))
    if (received == *receives.begin())
      senders.insert(sent);
  return senders.size() == 1 ? *receives.begin() : nullptr;
}

//===----------------------------------------------------------------------===//
// Sites
//===----------------------------------------------------------------------===//

namespace {
class Finder {
public:
  std::vector<Site> sites;
  void visit(Operation *op);
  void visitCalls(spmd::ProgramOp program);
  void visitBuffers(spmd::ProgramOp program);

private:
  void add(Mistake mistake, Operation *op, int64_t variant = 0,
           ArrayAttr axes = {}) {
    sites.push_back({mistake, op, variant, axes});
  }
  void visitCollective(Operation *op, ArrayAttr axes);
  void visitGroups(Operation *op, ArrayAttr axes);
};
} // namespace

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

/// Other sets of axes with as many ranks, the pipeline's only instead of
/// itself, and sets of all axes but one of a sum.
void Finder::visitGroups(Operation *op, ArrayAttr axes) {
  spmd::ProgramOp program = programOf(op);
  auto names = program.getMesh().getNames();
  std::set<llvm::StringRef> own;
  for (auto axis : axes.getAsRange<StringAttr>())
    own.insert(axis.getValue());
  for (int64_t bits = 1; bits < int64_t(1) << names.size(); ++bits) {
    llvm::SmallVector<Attribute> list;
    std::set<llvm::StringRef> set;
    for (auto [i, name] : llvm::enumerate(names))
      if (bits >> i & 1) {
        list.push_back(name);
        set.insert(cast<StringAttr>(name).getValue());
      }
    auto other = ArrayAttr::get(op->getContext(), list);
    bool isPart = isa<spmd::AllReduceOp>(op) && set.size() + 1 == own.size() &&
                  std::includes(own.begin(), own.end(), set.begin(), set.end());
    bool isEqual = program.getAxesSize(other) == program.getAxesSize(axes);
    if (set != own && !set.count(kPipelineAxis) && (isPart || isEqual))
      add(Mistake::WrongGroup, op, 0, other);
  }
}

/// Programs that agree do not stop, and values do not tell how near they were.
static bool decidesStopOnly(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    return isa<spmd::StopIfOp>(user);
  });
}

void Finder::visitCollective(Operation *op, ArrayAttr axes) {
  Value result = op->getResult(0);
  if (decidesStopOnly(result))
    return;
  bool isSlice = isa<spmd::SliceOwnOp>(op);
  bool isMicro =
      llvm::is_contained(axes, StringAttr::get(op->getContext(), kMicroAxis));
  if (isMicro || programOf(op).getAxesSize(axes) == 1)
    return;
  if (!isSlice)
    add(Mistake::DropCollective, op);
  visitGroups(op, axes);
  if (isFloat(result) && isa<spmd::AllReduceOp, spmd::ReduceScatterOp>(op))
    for (int64_t variant : {0, 1, 2})
      add(Mistake::WrongFactor, op, variant);
  if (!isa<spmd::AllReduceOp>(op))
    add(Mistake::SwapShards, op);
}

/// Collectives that the norm is made of.
static llvm::SetVector<Operation *> sumsOf(Operation *write) {
  llvm::SetVector<Operation *> seen, sums;
  llvm::SmallVector<Operation *> list{write};
  while (!list.empty()) {
    Operation *op = list.pop_back_val();
    if (!op || !seen.insert(op))
      continue;
    if (isa<spmd::AllReduceOp>(op))
      sums.insert(op);
    if (isa<GlobalNormOp>(op))
      continue; // the gradients
    for (Value operand : op->getOperands())
      list.push_back(operand.getDefiningOp());
  }
  return sums;
}

void Finder::visit(Operation *op) {
  if (auto axes = op->getAttrOfType<ArrayAttr>("axes");
      axes && !isa<spmd::OffsetOp>(op))
    visitCollective(op, axes);
  if (auto accumulate = dyn_cast<spmd::AccumulateOp>(op)) {
    if (isFloat(accumulate.getValue()))
      add(Mistake::WrongFactor, op, 2);
    // What a function that continues another one overwrites is always set.
    bool continues =
        op->getParentOfType<spmd::FuncOp>().getContinues().has_value();
    if (countCalls(op) > 1 || continues)
      add(Mistake::StaleMicro, op, Stale::Overwrite);
  }
  if (auto update = dyn_cast<UpdateOp>(op)) {
    add(Mistake::WrongFactor, op, 2);
    int64_t first = update.getStart().value_or(0);
    spmd::ParamOp param = programOf(op).getParam(update.getName(), first);
    if (param.getStateAxes())
      add(Mistake::SwapShards, op, 0, *param.getStateAxes());
  }
  if (isa<spmd::RecvOp>(op) && countCalls(op) > 1)
    add(Mistake::StaleMicro, op, Stale::ReceiveLate);
  if (auto send = dyn_cast<spmd::SendOp>(op)) {
    if (isFloat(send.getValue()))
      add(Mistake::WrongFactor, op, 2);
    if (findReceive(op))
      add(Mistake::DropMessage, op);
  }
  if (isa<spmd::GatherParamOp>(op))
    add(Mistake::DropGatherParam, op);
  if (auto offset = dyn_cast<spmd::OffsetOp>(op))
    for (auto [i, stride] : llvm::enumerate(offset.getStrides()))
      if (stride)
        add(Mistake::WrongOffset, op, i);
  if (auto write = dyn_cast<spmd::WriteOp>(op);
      write && write.getTarget() == "grad_norm")
    for (Operation *sum : sumsOf(op))
      add(Mistake::NormAlone, sum);
}

void Finder::visitCalls(spmd::ProgramOp program) {
  if (program.getMicroBatches() == 1)
    return;
  for (spmd::CallOp call : callsOf(program)) {
    if (!call.getMicro())
      continue;
    add(Mistake::StaleMicro, call, Stale::CallAnother);
    if (program.getStage() == 0 && call.getCallee() == "forward")
      add(Mistake::StaleMicro, call, Stale::RunAnother);
  }
}

void Finder::visitBuffers(spmd::ProgramOp program) {
  for (auto buffer : program.getBody().getOps<spmd::BufferOp>())
    if (buffer.getKind() == spmd::BufferKind::Slot && program.getSlots() > 1)
      add(Mistake::StaleMicro, buffer, Stale::OneCopy);
}

std::vector<Site> test::findSites(ModuleOp module) {
  Finder finder;
  for (auto program : module.getOps<spmd::ProgramOp>()) {
    finder.visitBuffers(program);
    for (Operation *function : functionsOf(program))
      function->walk([&](Operation *op) { finder.visit(op); });
    finder.visitCalls(program);
  }
  return finder.sites;
}

//===----------------------------------------------------------------------===//
// Mistakes that are none
//===----------------------------------------------------------------------===//

/// One copy of a slot buffer is enough when it is never written between the
/// write and the read of another micro-batch.
static bool neverStale(spmd::BufferOp buffer) {
  spmd::ProgramOp program = programOf(buffer);
  int64_t holds = -1;
  for (spmd::CallOp call : callsOf(program)) {
    bool fine = true;
    SymbolTable::lookupSymbolIn(program, call.getCallee())
        ->walk([&](Operation *op) {
          auto write = dyn_cast<spmd::WriteOp>(op);
          if (write && write.getTarget() == buffer.getSymName())
            holds = call.getMicro().value_or(0);
          auto read = dyn_cast<spmd::ReadOp>(op);
          if (read && read.getSource() == buffer.getSymName())
            fine &= holds == static_cast<int64_t>(call.getMicro().value_or(0));
        });
    if (!fine)
      return false;
  }
  return true;
}

/// The value that the one `spmd.write` to a buffer stores, or null.
static Value storedIn(spmd::ProgramOp program, llvm::StringRef buffer) {
  Value stored;
  int64_t count = 0;
  program->walk([&](spmd::WriteOp write) {
    if (write.getTarget() == buffer) {
      stored = write.getValue();
      ++count;
    }
  });
  return count == 1 ? stored : Value();
}

/// True when a value is the same for all micro-batches: made of parameters and
/// constants, outside repeats.
static bool isSameForAll(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<ParamOp>(op))
    return true;
  bool isPlain = isPure(op) && op->getName().getDialectNamespace() == "kerf";
  return isPlain && !isa<RepeatOp>(op) &&
         llvm::all_of(op->getOperands(), isSameForAll);
}

/// True when all slices of a value along a dimension are equal, whatever the
/// data: copies of one slice, and what is computed from such element by
/// element.
static bool isEqualAlong(Value value, int64_t dim) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto constant = dyn_cast<ConstantOp>(op))
    return cast<DenseElementsAttr>(constant.getValue()).isSplat();
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    auto from = llvm::find(broadcast.getDims(), dim);
    return from == broadcast.getDims().end() ||
           isEqualAlong(broadcast.getX(), from - broadcast.getDims().begin());
  }
  if (auto read = dyn_cast<spmd::ReadOp>(op)) {
    Value stored = storedIn(programOf(op), read.getSource());
    return stored && isEqualAlong(stored, dim);
  }
  if (!isa<NegOp, ExpOp, LogOp, SqrtOp, RsqrtOp, TanhOp, ErfOp, SinOp, CosOp,
           LogisticOp, AddOp, SubOp, MulOp, DivOp, MaxOp, MinOp, CompareOp,
           SelectOp, CastOp>(op))
    return false;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return isEqualAlong(operand, dim);
  });
}

/// True when an op makes each place along a gathered dimension from the same
/// place of the value: sums, also those of other ranks, and weights of tokens.
static bool keepsPlaces(Operation *op, Value value, spmd::AllGatherOp gather) {
  if (auto combine = dyn_cast<CombineOp>(op))
    return combine.getWeights() == value && gather.getDim() < 2;
  if (auto scatter = dyn_cast<spmd::ReduceScatterOp>(op))
    return scatter.getDim() != gather.getDim() &&
           llvm::none_of(scatter.getAxes(), [&](Attribute axis) {
             return llvm::is_contained(gather.getAxes(), axis);
           });
  return isa<AddOp>(op);
}

/// True when what is gathered is cut again, behind zeros and sums, and each
/// rank takes nothing but what it gave.
static bool takesOwn(spmd::AllGatherOp gather) {
  spmd::ProgramOp program = programOf(gather);
  int64_t dim = gather.getDim(), parts = program.getAxesSize(gather.getAxes());
  Value value = gather.getResult();
  int64_t size = cast<RankedTensorType>(value.getType()).getDimSize(dim);
  int64_t low = 0;
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (auto slice = dyn_cast<spmd::SliceOwnOp>(user)) {
      int64_t total =
          cast<RankedTensorType>(slice.getX().getType()).getDimSize(dim);
      bool own = slice.getDim() == dim && slice.getAxes() == gather.getAxes();
      for (int64_t r = 0; r < parts; ++r) {
        int64_t from = std::max(low, r * total / parts);
        int64_t to = std::min(low + size, (r + 1) * total / parts);
        own &= from >= to || (from >= low + r * size / parts &&
                              to <= low + (r + 1) * size / parts);
      }
      return own;
    }
    if (auto pad = dyn_cast<PadOp>(user))
      low += pad.getLow()[dim];
    else if (!keepsPlaces(user, value, gather))
      return false;
    value = user->getResult(0);
  }
  return false;
}

/// Which of the offsets of an op an operand is, or -1.
template <typename OpTy> static int64_t placeOfOffset(OpTy op, OpOperand &use) {
  int64_t first = op.getOffsets().getBeginOperandIndex();
  int64_t at = use.getOperandNumber() - first;
  return at < static_cast<int64_t>(op.getOffsets().size()) ? at : -1;
}

/// Attention without dropout asks for places of queries and keys alone, and
/// that only for its mask; its operands are batch, head, query and key.
template <typename OpTy>
static bool isAskedFor(OpTy attention, OpOperand &use) {
  bool drops =
      attention.getDropout() && attention.getDropout()->convertToDouble() != 0;
  bool masks = attention.getCausal() || attention.getWindow();
  int64_t place = placeOfOffset(attention, use);
  return place < 0 || drops || (masks && place >= 2);
}

/// True when an op's result depends on the offset.
static bool isOffsetUsed(Value offset) {
  return llvm::any_of(offset.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<MulOp, AddOp>(user))
      return isOffsetUsed(user->getResult(0));
    if (auto dropout = dyn_cast<DropoutOp>(user))
      return dropout.getRate().convertToDouble() != 0;
    if (auto attention = dyn_cast<AttentionOp>(user))
      return isAskedFor(attention, use);
    if (auto attention = dyn_cast<AttentionBackwardOp>(user))
      return isAskedFor(attention, use);
    return true;
  });
}

/// The dimension whose parts an op deals with; -1 for none or two.
static int64_t dimOf(Operation *op) {
  if (auto slice = dyn_cast<spmd::SliceOwnOp>(op))
    return slice.getDim();
  if (auto gather = dyn_cast<spmd::AllGatherOp>(op))
    return gather.getDim();
  return -1;
}

std::string test::whyEquivalent(const Site &site) {
  Operation *op = site.op;
  bool swaps = site.mistake == Mistake::SwapShards;
  auto gather = dyn_cast<spmd::AllGatherOp>(op);
  if ((swaps || site.mistake == Mistake::WrongGroup) &&
      isa<spmd::SliceOwnOp>(op) && isEqualAlong(op->getOperand(0), dimOf(op)))
    return "all parts are equal: copies, or computed from copies";
  if (swaps && gather && llvm::all_of(op->getUsers(), [](Operation *user) {
        return isa<GlobalNormOp>(user);
      }))
    return "only a sum of squares reads it, which has no order";
  if (site.mistake == Mistake::DropCollective && gather && takesOwn(gather))
    return "each rank takes only what it gave";
  if (site.mistake == Mistake::StaleMicro && site.variant == Stale::OneCopy &&
      neverStale(cast<spmd::BufferOp>(op)))
    return "each value is read before the next one is written";
  if (site.mistake == Mistake::StaleMicro && site.variant == Stale::OneCopy)
    if (Value stored =
            storedIn(programOf(op), cast<spmd::BufferOp>(op).getSymName());
        stored && isSameForAll(stored))
      return "the value is the same for all micro-batches";
  if (site.mistake == Mistake::WrongOffset && !isOffsetUsed(op->getResult(0)))
    return "no mask or dropout asks for that index";
  return "";
}
