//===- CudnnPlan.cpp - how cuDNN runs a graph -----------------------------===//
//
// cuDNN lists configurations of its engines for a graph, best first. The first
// that builds, fits the workspace and does not say that its sums change from
// run to run is taken: the same on every run with the same GPU and library.
//
//===----------------------------------------------------------------------===//

#include "CudnnGraph.h"

using namespace kerf::cuda;

namespace kerf::cuda {
/// The search for a plan.
struct CudnnChoice {
  Cudnn &cudnn;
  CudnnGraph &graph;
  int64_t workspaceBytes;
  bool anyOrder;
  const CudnnDescriptor *gpu;
  std::string refusal; ///< of the first configuration that does not do

  std::shared_ptr<CudnnPlan> run();

private:
  std::shared_ptr<CudnnPlan> tryMode(const CudnnDescriptor &operations,
                                     cudnnBackendHeurMode_t mode);
  std::shared_ptr<CudnnPlan> tryConfig(const CudnnDescriptor &config);
  bool readEngine(const CudnnDescriptor &config, int64_t &index);
  std::shared_ptr<CudnnPlan> refuse(const std::string &why) {
    if (refusal.empty())
      refusal = why;
    return nullptr;
  }
};
} // namespace kerf::cuda

/// Reads one number of a descriptor.
static bool readNumber(Cudnn &cudnn, const CudnnDescriptor &from,
                       cudnnBackendAttributeName_t name, int64_t &value) {
  int64_t count = 0;
  return cudnn.getAttribute(from.raw(), name, CUDNN_TYPE_INT64, 1, &count,
                            &value) == CUDNN_STATUS_SUCCESS &&
         count == 1;
}

/// False where the engine's sums may change from run to run.
bool CudnnChoice::readEngine(const CudnnDescriptor &config, int64_t &index) {
  CudnnDescriptor engine(cudnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.raw();
  int64_t count = 0;
  if (cudnn.getAttribute(config.raw(), CUDNN_ATTR_ENGINECFG_ENGINE,
                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw) ||
      !readNumber(cudnn, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, index)) {
    refuse("an engine that is not described");
    return false;
  }
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  count = 0;
  if (cudnn.getAttribute(engine.raw(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                         CUDNN_TYPE_NUMERICAL_NOTE,
                         CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) ||
      count > CUDNN_NUMERICAL_NOTE_TYPE_COUNT) {
    refuse("engine " + std::to_string(index) +
           " does not tell whether it is deterministic");
    return false;
  }
  for (int64_t i = 0; i < count && !anyOrder; ++i)
    if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) {
      refuse("engine " + std::to_string(index) + " is not deterministic");
      return false;
    }
  return true;
}

std::shared_ptr<CudnnPlan>
CudnnChoice::tryConfig(const CudnnDescriptor &config) {
  int64_t engine = -1, bytes = 0;
  if (!readEngine(config, engine))
    return nullptr;
  CudnnDescriptor plan(cudnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (gpu)
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *gpu);
  else
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
             &cudnn.handle);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config).finalize();
  if (!plan.failure.empty())
    return refuse("engine " + std::to_string(engine) + ": " + plan.failure);
  if (!readNumber(cudnn, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, bytes))
    return refuse("a plan without a size");
  if (bytes > workspaceBytes)
    return refuse("engine " + std::to_string(engine) + " needs " +
                  std::to_string(bytes) + " bytes of workspace, there are " +
                  std::to_string(workspaceBytes));
  std::shared_ptr<CudnnPlan> made(
      new CudnnPlan(cudnn, std::move(plan), graph.constants));
  made->engine = engine;
  made->workspaceBytes = bytes;
  return made;
}

std::shared_ptr<CudnnPlan>
CudnnChoice::tryMode(const CudnnDescriptor &operations,
                     cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristics(cudnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (gpu)
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *gpu);
  heuristics.finalize();
  if (!heuristics.failure.empty())
    return refuse(heuristics.failure);
  constexpr int64_t most = 8;
  std::vector<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < most; ++i) {
    configs.emplace_back(cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configs.back().raw());
  }
  int64_t count = 0;
  if (cudnn.getAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                         CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count,
                         raw.data()))
    return refuse("it lists no engines");
  for (int64_t i = 0; i < count && i < most; ++i)
    if (auto plan = tryConfig(configs[i]))
      return plan;
  return nullptr;
}

std::shared_ptr<CudnnPlan> CudnnChoice::run() {
  if (!graph.failure.empty())
    return refuse(graph.failure);
  std::vector<cudnnBackendDescriptor_t> list;
  for (const CudnnDescriptor &operation : graph.operations)
    list.push_back(operation.raw());
  CudnnDescriptor operations(cudnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  operations.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                 static_cast<int64_t>(list.size()), list.data());
  if (!gpu)
    operations.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                   &cudnn.handle);
  operations.finalize();
  if (!operations.failure.empty())
    return refuse(operations.failure);
  for (auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    if (auto plan = tryMode(operations, mode))
      return plan;
  return refuse("it has no engine for this graph");
}

std::shared_ptr<CudnnPlan> CudnnPlan::make(Cudnn &cudnn, CudnnGraph &graph,
                                           int64_t workspaceBytes,
                                           bool anyOrder, std::string &refusal,
                                           const CudnnDescriptor *gpu) {
  CudnnChoice choice{cudnn, graph, workspaceBytes, anyOrder, gpu, {}};
  auto plan = choice.run();
  if (!plan)
    refusal = choice.refusal;
  return plan;
}

cudnnStatus_t CudnnPlan::execute(CUstream stream, std::vector<int64_t> ids,
                                 std::vector<void *> addresses,
                                 void *workspace) {
  for (CudnnConstant &constant : constants) {
    ids.push_back(constant.id);
    addresses.push_back(&constant.real);
  }
  CudnnDescriptor pack(cudnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  auto count = static_cast<int64_t>(ids.size());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count,
           ids.data())
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
           addresses.data())
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
           &workspace)
      .finalize();
  if (!pack.failure.empty())
    return CUDNN_STATUS_BAD_PARAM;
  if (cudnnStatus_t status = cudnn.setStream(cudnn.handle, stream))
    return status;
  return cudnn.execute(cudnn.handle, plan.raw(), pack.raw());
}
