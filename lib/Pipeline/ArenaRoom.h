//===- ArenaRoom.h - whether programs fit their devices -------------------===//

#ifndef KERF_LIB_PIPELINE_ARENAROOM_H
#define KERF_LIB_PIPELINE_ARENAROOM_H

#include "kerf/Dialect/Exec/Exec.h"
#include "kerf/Search/Search.h"
#include "kerf/Sharding/Layout.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <string>
#include <vector>

namespace kerf {

/// What the devices of a plan have room for. Arenas are placed long after the
/// plan was made; its estimate knows no option that makes programs larger.
class ArenaRoom {
public:
  ArenaRoom(const Machine &machine, const PlanPoint &plan);

  /// Notes what a planned model makes, as `check` tells it. Partition erases
  /// the model.
  mlir::LogicalResult note(ModelOp model);
  /// Fails with an error that tells the largest buffers where the arena of a
  /// program, and what a process takes besides, exceed its device.
  mlir::LogicalResult check(mlir::ModuleOp module) const;

private:
  /// A value of the planned model on one rank, and the op that makes it.
  struct Made {
    std::string op; ///< "kerf.linear"
    mlir::Location loc;
    std::string unsharded; ///< "dp (4), micro (2)": axes that leave it whole
    int64_t bytes = 0;
  };
  std::string device;
  double capacityBytes;
  std::vector<double> reservedBytes; ///< by stage
  llvm::DenseMap<mlir::Location, std::vector<Made>> made;

  void note(mlir::OpResult result, const PlannedModel &plan);
  mlir::LogicalResult check(exec::ProgramOp program) const;
  const Made *find(exec::BufferOp buffer,
                   const llvm::DenseSet<mlir::Location> &told) const;
  void tellLargest(exec::ProgramOp program,
                   mlir::InFlightDiagnostic &diagnostic) const;
};

} // namespace kerf

#endif // KERF_LIB_PIPELINE_ARENAROOM_H
