#include "ArenaRoom.h"

#include "kerf/Report/Report.h"

using namespace mlir;
using namespace kerf;

ArenaRoom::ArenaRoom(const Machine &machine, const PlanPoint &plan)
    : device(machine.device.name),
      capacityBytes(machine.perRank().device.memoryBytes) {
  for (const PlacedStage &stage : plan.stages)
    reservedBytes.push_back(stage.memory.reserved);
}

/// Axes that do not shard a value.
static std::string unshardedAxes(const Layout &layout, const PlanAxes &axes) {
  std::string text;
  for (unsigned axis = 0; axis < axes.count(); ++axis)
    if (axes.sizeOf(axis) > 1 && axes.nameOf(axis) != kPipelineAxis &&
        !layout.isShardedBy(axis))
      text += (text.empty() ? "" : ", ") + axes.nameOf(axis).str() + " (" +
              std::to_string(axes.sizeOf(axis)) + ")";
  return text;
}

/// What a stack of a repeat is made of: the value that each iteration yields.
static Value originOf(OpResult result) {
  auto repeat = dyn_cast<RepeatOp>(result.getOwner());
  size_t inits = repeat ? repeat.getInits().size() : 0;
  return repeat && result.getResultNumber() >= inits
             ? repeat.getYield().getStacked()[result.getResultNumber() - inits]
             : Value(result);
}

void ArenaRoom::note(OpResult result, const PlannedModel &plan) {
  auto known = plan.values.find(result);
  if (known == plan.values.end())
    return;
  auto type = localType(result.getType(), known->second, plan.axes);
  Operation *maker = originOf(result).getDefiningOp();
  Operation *op = maker ? maker : result.getOwner();
  int64_t bytes = type.getNumElements() *
                  llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  made[result.getLoc()].push_back(
      {op->getName().getStringRef().str(), op->getLoc(),
       unshardedAxes(known->second, plan.axes), bytes});
}

LogicalResult ArenaRoom::note(ModelOp model) {
  FailureOr<PlannedModel> plan = planModel(model);
  if (failed(plan))
    return failure();
  model.getBody().walk([&](Operation *op) {
    for (OpResult result : op->getResults())
      note(result, *plan);
  });
  return success();
}

/// The value that a buffer has room for, of those that are not told yet; null
/// where there is none.
const ArenaRoom::Made *
ArenaRoom::find(exec::BufferOp buffer,
                const llvm::DenseSet<Location> &told) const {
  auto known = made.find(buffer.getLoc());
  const Made *best = nullptr;
  if (known == made.end())
    return best;
  for (const Made &one : known->second)
    if (one.bytes <= static_cast<int64_t>(buffer.getBytes()) &&
        (!best || one.bytes > best->bytes) && !told.contains(one.loc))
      best = &one;
  return best;
}

/// Notes the largest buffers of a program, one per place in the source.
void ArenaRoom::tellLargest(exec::ProgramOp program,
                            InFlightDiagnostic &diagnostic) const {
  constexpr size_t kMostNotes = 5;
  auto buffers = llvm::to_vector(program.getBody().getOps<exec::BufferOp>());
  std::vector<std::pair<int64_t, size_t>> order;
  for (auto [i, buffer] : llvm::enumerate(buffers))
    order.push_back({-static_cast<int64_t>(buffer.getBytes()), i});
  llvm::sort(order);
  llvm::DenseSet<Location> told;
  for (auto [bytes, index] : order) {
    exec::BufferOp buffer = buffers[index];
    bool isWorkspace = buffer.getLoc() == program.getLoc();
    const Made *value = isWorkspace ? nullptr : find(buffer, told);
    Location loc = value ? value->loc : buffer.getLoc();
    if (told.size() == kMostNotes || !told.insert(loc).second)
      continue;
    auto &note = diagnostic.attachNote(loc);
    if (value)
      note << "'" << value->op << "'";
    else
      note << "buffer '" << buffer.getName() << "'";
    note << " takes " << report::gib(static_cast<double>(-bytes));
    if (value && !value->unsharded.empty())
      note << ", not split by " << value->unsharded;
  }
}

LogicalResult ArenaRoom::check(exec::ProgramOp program) const {
  auto stage = program->getAttrOfType<IntegerAttr>("stage");
  double reserve = reservedBytes[stage ? stage.getInt() : 0];
  auto arena = static_cast<double>(program.getArena());
  if (arena + reserve <= capacityBytes)
    return success();
  auto diagnostic = program.emitError()
                    << "program '" << program.getSymName() << "' needs "
                    << report::gib(arena + reserve) << " per device (arena "
                    << report::gib(arena) << ", reserve "
                    << report::gib(reserve) << "), '" << device << "' has "
                    << report::gib(capacityBytes);
  tellLargest(program, diagnostic);
  diagnostic.attachNote() << "let more axes split these in the plan, or "
                             "recompute more (--pin=recompute=full)";
  return diagnostic;
}

LogicalResult ArenaRoom::check(ModuleOp module) const {
  for (auto program : module.getOps<exec::ProgramOp>())
    if (failed(check(program)))
      return failure();
  return success();
}
