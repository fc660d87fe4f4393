//===- Cudnn.cpp - the stand-in for cuDNN's backend API -------------------===//
//
// Descriptors keep what they are given and are checked when they are
// finalized; a graph's plan computes it in f64 (Graph.h). Three engines: one
// wants more workspace than there is, one is not deterministic, the last one
// does. Variables: KERF_SIM_CUDNN_VERSION (91900); KERF_SIM_CUDNN=refuse: no
// engine takes any graph.
//
//===----------------------------------------------------------------------===//

#include "../driver/Bridge.h"
#include "Graph.h"
#include "Memory.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

using namespace kerf::cuda;
using namespace kerf::sim;

#define KERF_SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace {
struct Value {
  int type;
  int64_t count;
  std::vector<uint8_t> bytes;
};

/// A descriptor; what it was finalized to lies in the second half.
struct Descriptor {
  int type;
  bool isFinal = false;
  std::map<int, Value> values;

  GraphTensor tensor;
  GraphOperation operation;
  std::shared_ptr<const GraphProgram> program;
  int64_t engine = 0;

  template <class T> T number(int name, T otherwise) const {
    auto at = values.find(name);
    if (at == values.end() || at->second.bytes.size() < sizeof(T))
      return otherwise;
    T result;
    memcpy(&result, at->second.bytes.data(), sizeof result);
    return result;
  }
  const Descriptor *descriptor(int name) const {
    return number<const Descriptor *>(name, nullptr);
  }
  template <class T> std::vector<T> list(int name) const {
    auto at = values.find(name);
    if (at == values.end())
      return {};
    std::vector<T> result(at->second.bytes.size() / sizeof(T));
    memcpy(result.data(), at->second.bytes.data(), result.size() * sizeof(T));
    return result;
  }
};
} // namespace

struct kerf::cuda::cudnnContext {
  CUstream stream = nullptr;
};

static thread_local std::string lastError;

static cudnnStatus_t refuse(const std::string &why,
                            cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM) {
  lastError = why;
  const char *log = getenv("KERF_SIM_LOG");
  if (log && *log == '1')
    fprintf(stderr, "kerf-sim: cuDNN: %s\n", why.c_str());
  return status;
}

static Descriptor *of(cudnnBackendDescriptor_t descriptor) {
  return static_cast<Descriptor *>(descriptor);
}

// ---- The library ------------------------------------------------------------

KERF_SIM_EXPORT size_t cudnnGetVersion() {
  const char *version = getenv("KERF_SIM_CUDNN_VERSION");
  return version && *version ? strtoul(version, nullptr, 10) : 91900;
}
KERF_SIM_EXPORT const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                : "CUDNN_STATUS_BAD_PARAM";
}
KERF_SIM_EXPORT void cudnnGetLastErrorString(char *message, size_t bytes) {
  snprintf(message, bytes, "%s", lastError.c_str());
}
KERF_SIM_EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  // As a real one, which needs a context: an empty piece of work tells.
  if (bridgeEnqueue(nullptr, [] {}) != Success)
    return refuse("there is no context");
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
KERF_SIM_EXPORT cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
KERF_SIM_EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle,
                                             CUstream stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

// ---- Descriptors ------------------------------------------------------------

KERF_SIM_EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(
    cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor) {
  auto made = std::make_unique<Descriptor>();
  made->type = type;
  *descriptor = made.release();
  return CUDNN_STATUS_SUCCESS;
}
KERF_SIM_EXPORT cudnnStatus_t
cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

static int64_t bytesOfAttribute(int type) {
  switch (type) {
  case CUDNN_TYPE_BOOLEAN:
  case CUDNN_TYPE_CHAR:
    return 1;
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    return 8;
  default:
    return 4;
  }
}

KERF_SIM_EXPORT cudnnStatus_t cudnnBackendSetAttribute(
    cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t count, const void *values) {
  Descriptor *d = of(descriptor);
  if (!d || d->isFinal || count < 1 || !values)
    return refuse(
        "an attribute of nothing, of what is final, or without value");
  auto *bytes = static_cast<const uint8_t *>(values);
  d->values[name] = {
      type, count, {bytes, bytes + count * bytesOfAttribute(type)}};
  for (Descriptor *part : type == CUDNN_TYPE_BACKEND_DESCRIPTOR
                              ? d->list<Descriptor *>(name)
                              : std::vector<Descriptor *>())
    if (!part || !part->isFinal)
      return refuse("a descriptor that is not final");
  return CUDNN_STATUS_SUCCESS;
}

// ---- Finalizing -------------------------------------------------------------

static std::string finishTensor(Descriptor &d) {
  auto shape = d.list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  auto strides = d.list<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  if (shape.size() != 4 || strides.size() != 4)
    return "expected four dimensions";
  GraphTensor &t = d.tensor;
  std::copy(shape.begin(), shape.end(), t.shape.begin());
  std::copy(strides.begin(), strides.end(), t.strides.begin());
  t.id = d.number<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
  t.alignment = d.number<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0);
  t.type = static_cast<cudnnDataType_t>(
      d.number<int>(CUDNN_ATTR_TENSOR_DATA_TYPE, -1));
  t.isInner = d.number<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false);
  t.isValue = d.number<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false);
  return t.check();
}

/// Names of an operation's attributes; -1: it has none.
namespace {
struct OperationNames {
  int type, kind, x, b, t, y, mode, precision;
};
} // namespace
static constexpr OperationNames operationNames[] = {
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
     CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
     CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
     CUDNN_ATTR_OPERATION_MATMUL_BDESC, -1, CUDNN_ATTR_OPERATION_MATMUL_CDESC,
     -1, CUDNN_ATTR_MATMUL_COMP_TYPE},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
     -1, -1, CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
     CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_ATTR_REDUCTION_COMP_TYPE},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, -1,
     CUDNN_ATTR_OPERATION_RESHAPE_XDESC, -1, -1,
     CUDNN_ATTR_OPERATION_RESHAPE_YDESC, -1, -1},
};

static std::string finishOperation(Descriptor &d, size_t index) {
  const OperationNames &names = operationNames[index];
  GraphOperation &o = d.operation;
  o.kind = static_cast<GraphKind>(index);
  const Descriptor *kind = d.descriptor(names.kind);
  if (names.kind >= 0 && (!kind || kind->number<int>(names.precision, -1) < 0))
    return "an operation without a kind, or a kind without a type";
  if (names.mode >= 0)
    o.mode = kind->number<int>(names.mode, -1);
  if (kind)
    o.axis = kind->number<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1);
  GraphTensor *const tensors[] = {&o.x, &o.b, &o.t, &o.y};
  const int at[] = {names.x, names.b, names.t, names.y};
  for (int i = 0; i < 4; ++i)
    if (const Descriptor *tensor = d.descriptor(at[i])) {
      if (tensor->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        return "an operand that is no tensor";
      *tensors[i] = tensor->tensor;
    }
  return o.check();
}

static std::string finishGraph(Descriptor &d) {
  std::vector<GraphOperation> operations;
  for (Descriptor *part : d.list<Descriptor *>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
    operations.push_back(part->operation);
  auto program = std::make_shared<GraphProgram>();
  std::string why = program->take(std::move(operations));
  d.program = program;
  return why;
}

static std::string finish(Descriptor &d) {
  for (size_t i = 0; i < std::size(operationNames); ++i)
    if (d.type == operationNames[i].type)
      return finishOperation(d, i);
  switch (d.type) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    return finishTensor(d);
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    return finishGraph(d);
  case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: {
    auto *graph = d.descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    d.program = graph ? graph->program : nullptr;
    return d.program ? "" : "heuristics without a graph";
  }
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
    auto *config = d.descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (!config || !d.number<void *>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, nullptr))
      return "a plan without a configuration or a handle";
    d.program = config->program;
    d.engine = config->engine;
    return "";
  }
  default:
    return "";
  }
}

KERF_SIM_EXPORT cudnnStatus_t
cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor *d = of(descriptor);
  std::string why = finish(*d);
  if (!why.empty())
    return refuse(why);
  d->isFinal = true;
  return CUDNN_STATUS_SUCCESS;
}

// ---- Engines ----------------------------------------------------------------

static int64_t workspaceOf(const Descriptor &d) {
  return d.engine == 0 ? int64_t{1} << 40 : d.program->workspaceBytes();
}

static cudnnStatus_t listEngines(const Descriptor &d, int64_t asked,
                                 int64_t *count, void *values) {
  const char *mode = getenv("KERF_SIM_CUDNN");
  *count = mode && !strcmp(mode, "refuse") ? 0 : std::min<int64_t>(asked, 3);
  for (int64_t i = 0; i < *count; ++i) {
    auto *config = static_cast<Descriptor **>(values)[i];
    config->program = d.program;
    config->engine = i;
    config->isFinal = true;
  }
  return CUDNN_STATUS_SUCCESS;
}

KERF_SIM_EXPORT cudnnStatus_t cudnnBackendGetAttribute(
    const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t, int64_t asked, int64_t *count, void *values) {
  const Descriptor &d = *of(descriptor);
  *count = 1;
  switch (name) {
  case CUDNN_ATTR_ENGINEHEUR_RESULTS:
    return listEngines(d, asked, count, values);
  case CUDNN_ATTR_ENGINECFG_ENGINE:
    (*static_cast<Descriptor **>(values))->engine = d.engine;
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
    *static_cast<int64_t *>(values) = d.engine;
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
    *count = d.engine == 1;
    *static_cast<int *>(values) = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    *static_cast<int64_t *>(values) = workspaceOf(d);
    return CUDNN_STATUS_SUCCESS;
  default:
    return refuse("attribute " + std::to_string(name) + " is not simulated");
  }
}

// ---- Running ----------------------------------------------------------------

namespace {
/// What an execution reads and writes; `memory` of values is a copy.
struct Execution {
  std::shared_ptr<const GraphProgram> program;
  std::map<int64_t, uint64_t> addresses;
  std::map<int64_t, int32_t> values;
  uint64_t workspace;
  int64_t workspaceBytes;

  std::string check() const;
  void run() const;
};
} // namespace

/// "" or why these addresses cannot be taken.
std::string Execution::check() const {
  for (auto &[id, tensor] : program->tensors) {
    if (tensor.isInner == bool(addresses.count(id)))
      return "tensor " + std::to_string(id) + " has no address, or must not";
    if (tensor.isGiven() && addresses.at(id) % tensor.alignment)
      return "tensor " + std::to_string(id) + " is not aligned to the " +
             std::to_string(tensor.alignment) + " bytes that were promised";
  }
  if (workspaceBytes && (!workspace || workspace % 256))
    return "the workspace is null or not aligned to 256 bytes";
  return "";
}

void Execution::run() const {
  std::map<int64_t, uint8_t *> memory;
  std::map<int64_t, int32_t> copies = values;
  for (auto &[id, tensor] : program->tensors) {
    if (tensor.isInner)
      continue;
    uint8_t *host = tensor.isValue
                        ? reinterpret_cast<uint8_t *>(&copies[id])
                        : bridgeHost(addresses.at(id), extentOf(tensor));
    if (!host)
      throw Trap{IllegalAddress, "cuDNN: tensor " + std::to_string(id) +
                                     " is not inside of one allocation"};
    memory[id] = host;
  }
  uint8_t *scratch =
      workspaceBytes ? bridgeHost(workspace, workspaceBytes) : nullptr;
  if (workspaceBytes && !scratch)
    throw Trap{IllegalAddress, "cuDNN: the workspace is too small"};
  if (scratch)
    memset(scratch, 0xFF, workspaceBytes); // NaN
  program->run(memory);
}

KERF_SIM_EXPORT cudnnStatus_t
cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                    cudnnBackendDescriptor_t pack) {
  const Descriptor &p = *of(plan), &given = *of(pack);
  if (!handle || !p.isFinal || !given.isFinal || !p.program)
    return refuse("a plan or addresses that are not final");
  auto ids = given.list<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto pointers = given.list<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids.size() != pointers.size())
    return refuse("as many ids as addresses are expected");
  Execution run{p.program, {}, {}, 0, workspaceOf(p)};
  run.workspace = given.number<uint64_t>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 0);
  for (size_t i = 0; i < ids.size(); ++i) {
    auto tensor = p.program->tensors.find(ids[i]);
    if (tensor == p.program->tensors.end() ||
        !run.addresses.emplace(ids[i], uint64_t(pointers[i])).second)
      return refuse("tensor " + std::to_string(ids[i]) +
                    " is not in the graph, or is there twice");
    if (tensor->second.isValue)
      memcpy(&run.values[ids[i]], pointers[i], 4);
  }
  std::string why = run.check();
  if (!why.empty())
    return refuse(why);
  return bridgeEnqueue(handle->stream, [run] { run.run(); }) == Success
             ? CUDNN_STATUS_SUCCESS
             : refuse("the stream takes no work");
}
