//===- Training.cpp - compiled training and the interpreter ---------------===//

#include "Training.h"

#include "kerf/Dialect/Kerf/Metrics.h"
#include "kerf/Partition/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kerf;
using namespace kerf::test;
using mlir::ModuleOp;

[[noreturn]] static void stop(const std::string &message) {
  std::fprintf(stderr, "error: %s\n", message.c_str());
  std::fflush(stderr);
  std::_Exit(1);
}

static void check(kerf_status status, const kerf_error &error) {
  if (status != KERF_OK)
    stop(error.message);
}

/// The inputs of a step; both sides take the same.
static std::vector<HostTensor> inputsOf(ModelOp model, int64_t step,
                                        const TrainingOptions &options) {
  std::vector<HostTensor> inputs = makeInputs(model, 0, step, options.rate);
  if (auto targets = model.getInput("targets"))
    for (auto [i, value] : llvm::enumerate(inputs[targets.getArgNumber()].data))
      if (int64_t((i * 37 + step * 11) % 100) < options.ignored)
        value = -100;
  return inputs;
}

/// The model, which also returns what its experts count.
static mlir::OwningOpRef<ModuleOp> withExperts(ModelOp model) {
  mlir::OwningOpRef<ModuleOp> module(ModuleOp::create(model.getLoc()));
  module->push_back(model->clone());
  auto pm = mlir::PassManager::on<ModuleOp>(model.getContext());
  pm.addPass(createInsertExpertLoadsPass());
  if (failed(pm.run(*module)))
    stop("the experts cannot be counted");
  return module;
}

/// Enters the layers [start, end) of an output.
static void addLayers(std::map<std::string, std::vector<double>> &experts,
                      llvm::StringRef kind, llvm::StringRef layers,
                      int64_t start, int64_t end,
                      const std::vector<double> &values) {
  size_t each = values.size() / (end - start);
  for (int64_t i = start; i < end; ++i) {
    auto begin = values.begin() + (i - start) * each;
    experts[(kind + " " + expandName(layers, i)).str()] = {begin, begin + each};
  }
}

TrainingResult kerf::test::interpret(ModelOp original,
                                     const TrainingOptions &options) {
  TrainingResult result;
  TrainingState state;
  mlir::OwningOpRef<ModuleOp> counting = withExperts(original);
  ModelOp model = *counting->getOps<ModelOp>().begin();
  Interpreter interpreter(model, {options.f64});
  for (int64_t step = 1; step <= options.steps; ++step) {
    auto values = interpreter.run(inputsOf(model, step, options), state);
    if (failed(values))
      stop("the interpreter failed");
    std::vector<double> &outputs = result.outputs.emplace_back();
    auto &experts = result.experts.emplace_back();
    for (auto [i, value] : llvm::enumerate(*values)) {
      std::string name = model.getReturn().getOutputName(i);
      if (auto metric = parseLayerMetric(name))
        addLayers(experts, metric->kind, metric->layers, metric->start,
                  metric->end, value.data);
      else
        outputs.push_back(value.data[0]);
    }
    if (step > 1)
      continue;
    for (auto &[name, tensor] : state.optimizer)
      result.states[name] = tensor.data;
    for (auto &[name, tensor] : state.params)
      result.params[name] = tensor.data;
    for (auto &[name, tensor] : state.masters)
      result.params[name] = tensor.data;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// The artifact
//===----------------------------------------------------------------------===//

namespace {
/// One rank.
struct Rank {
  const kerf_artifact *artifact;
  ModelOp model;
  const TrainingOptions &options;
  kerf_session *session = nullptr;
  kerf_error error = {};

  TrainingResult run(int rank, const std::string &name);
  void setInputs(int64_t step);
  std::vector<double> read(const kerf_tensor &tensor);
  void readOutputs(TrainingResult &result);
  void readTensors(TrainingTensors &tensors);
};
} // namespace

static double readNumber(const char *data, uint32_t dtype, int64_t i) {
  if (dtype == KERF_F32)
    return reinterpret_cast<const float *>(data)[i];
  if (dtype == KERF_F64)
    return reinterpret_cast<const double *>(data)[i];
  if (dtype == KERF_I8)
    return reinterpret_cast<const int8_t *>(data)[i];
  if (dtype == KERF_F16)
    return reinterpret_cast<const _Float16 *>(data)[i];
  uint32_t bits = uint32_t(reinterpret_cast<const uint16_t *>(data)[i]) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static const char *const kRoleNames[KERF_ROLE_COUNT] = {
    "",     "tokens", "targets",       "segments",  "positions",
    "seed", "step",   "learning_rate", "loss_scale"};

/// Hands the inputs of a step over, by role.
void Rank::setInputs(int64_t step) {
  uint32_t count = 0;
  const kerf_input *inputs = kerf_artifact_inputs(artifact, &count);
  std::vector<HostTensor> values = inputsOf(model, step, options);
  for (uint32_t i = 0; i < count; ++i) {
    if (inputs[i].role == KERF_ROLE_LOSS_SCALE) {
      // The step that is compared with need not scale.
      check(
          kerf_session_set_scalar(session, KERF_ROLE_LOSS_SCALE, 1024, &error),
          error);
      continue;
    }
    auto input = model.getInput(kRoleNames[inputs[i].role]);
    if (!input)
      stop("the model has no input of the artifact's role");
    const HostTensor &value = values[input.getArgNumber()];
    std::vector<char> bytes(4 * value.data.size());
    for (size_t j = 0; j < value.data.size(); ++j) {
      if (inputs[i].layout.dtype == KERF_I32)
        reinterpret_cast<int32_t *>(bytes.data())[j] = int32_t(value.data[j]);
      else
        reinterpret_cast<float *>(bytes.data())[j] = float(value.data[j]);
    }
    check(kerf_session_set_input_global(session, i, bytes.data(), bytes.size(),
                                        &error),
          error);
  }
}

std::vector<double> Rank::read(const kerf_tensor &tensor) {
  kerf_layout layout;
  check(kerf_tensor_layout(artifact, &tensor, &layout, &error), error);
  std::vector<char> bytes(kerf_global_bytes(&layout));
  check(kerf_session_read_global(session, &tensor, bytes.data(), bytes.size(),
                                 &error),
        error);
  std::vector<double> values(bytes.size() / kerf_dtype_bytes(layout.dtype));
  for (size_t j = 0; j < values.size(); ++j)
    values[j] = readNumber(bytes.data(), layout.dtype, j);
  return values;
}

/// Reads what the step returned.
void Rank::readOutputs(TrainingResult &result) {
  uint32_t count = 0;
  const kerf_output *table = kerf_artifact_outputs(artifact, &count);
  std::vector<double> &outputs = result.outputs.emplace_back();
  auto &experts = result.experts.emplace_back();
  for (uint32_t i = 0; i < count; ++i) {
    std::vector<double> values(table[i].elements);
    check(kerf_session_get_output_values(session, i, values.data(),
                                         values.size(), &error),
          error);
    llvm::StringRef layers = kerf_artifact_string(artifact, table[i].layers);
    if (layers.empty())
      outputs.push_back(values[0]);
    else
      addLayers(experts, kerf_artifact_string(artifact, table[i].name), layers,
                table[i].start, table[i].end, values);
  }
}

/// Reads all parameters, or their masters, and the optimizer state, whole.
void Rank::readTensors(TrainingTensors &tensors) {
  uint32_t count = 0, stateCount = 0;
  const kerf_param *params = kerf_artifact_params(artifact, &count);
  const kerf_state *states = kerf_artifact_states(artifact, &stateCount);
  for (uint32_t p = 0; p < count; ++p)
    for (int64_t i = params[p].start; i < params[p].end; ++i) {
      char name[512];
      kerf_expand_name(kerf_artifact_string(artifact, params[p].name), i, -1,
                       name, sizeof name);
      bool hasMaster = params[p].master_dtype != KERF_NONE;
      uint32_t kind = hasMaster ? KERF_TENSOR_MASTER : KERF_TENSOR_PARAM;
      tensors.params[name] = read({kind, p, 0, i});
      for (uint32_t s = 0; s < params[p].state_count; ++s) {
        const char *state = kerf_artifact_string(
            artifact, states[params[p].first_state + s].name);
        tensors.states[std::string(name) + "." + state] =
            read({KERF_TENSOR_STATE, p, s, i});
      }
    }
}

TrainingResult Rank::run(int rank, const std::string &name) {
  TrainingResult result;
  kerf_session_options sessionOptions;
  kerf_session_options_init(&sessionOptions);
  sessionOptions.rank = rank;
  sessionOptions.workers = options.threads;
  sessionOptions.session_name = name.c_str();
  check(kerf_session_create(artifact, &sessionOptions, &session, &error),
        error);
  check(kerf_session_initialize(session, 0, &error), error);
  if (options.ends)
    readTensors(result.initial);
  for (int64_t step = 1; step <= options.steps; ++step) {
    setInputs(step);
    check(kerf_session_run_step(session, &error), error);
    readOutputs(result);
    if (step == 1)
      readTensors(result);
  }
  if (options.ends)
    readTensors(result.last);
  kerf_session_destroy(session);
  return result;
}

//===----------------------------------------------------------------------===//
// Results between processes
//===----------------------------------------------------------------------===//

namespace {
/// Writes a result to a file, or reads it (`reads`) from one.
struct Passing {
  std::FILE *file;
  bool reads;

  void bytes(void *data, size_t count) {
    size_t done = reads ? std::fread(data, 1, count, file)
                        : std::fwrite(data, 1, count, file);
    if (done != count)
      stop("a rank's result is cut off");
  }
  void pass(double &value) { bytes(&value, sizeof value); }
  void pass(char &value) { bytes(&value, 1); }
  /// Of vectors and strings.
  template <typename List> void pass(List &list) {
    uint64_t size = list.size();
    bytes(&size, sizeof size);
    list.resize(size);
    for (auto &element : list)
      pass(element);
  }
  template <typename Value> void pass(std::map<std::string, Value> &map) {
    std::vector<std::string> keys;
    for (auto &[key, value] : map)
      keys.push_back(key);
    pass(keys);
    for (const std::string &key : keys)
      pass(map[key]);
  }
  void pass(TrainingTensors &tensors) {
    pass(tensors.states);
    pass(tensors.params);
  }
  void passAll(TrainingResult &result) {
    pass(static_cast<TrainingTensors &>(result));
    pass(result.outputs);
    pass(result.experts);
    pass(result.initial);
    pass(result.last);
  }
};
} // namespace

TrainingResult kerf::test::execute(const std::string &path, ModelOp model,
                                   const TrainingOptions &options) {
  kerf_error error;
  kerf_artifact *artifact = nullptr;
  check(kerf_artifact_open(path.c_str(), &artifact, &error), error);
  std::string name = "training" + std::to_string(getpid());
  std::FILE *file = std::tmpfile();
  if (!file)
    stop("cannot make a temporary file");
  std::vector<pid_t> ranks;
  for (uint32_t r = 0; r < kerf_artifact_meta(artifact)->world_size; ++r) {
    pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      TrainingResult made = Rank{artifact, model, options}.run(int(r), name);
      if (r == 0)
        Passing{file, /*reads=*/false}.passAll(made);
      std::fflush(file);
      std::_Exit(0);
    }
    ranks.push_back(child);
  }
  for (pid_t child : ranks) {
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
      std::_Exit(1); // it told why
    if (status != 0)
      stop("a rank ended with status " + std::to_string(status));
  }
  TrainingResult result;
  std::rewind(file);
  Passing{file, /*reads=*/true}.passAll(result);
  std::fclose(file);
  kerf_artifact_close(artifact);
  return result;
}

//===----------------------------------------------------------------------===//
// Comparing
//===----------------------------------------------------------------------===//

static double errorOf(const std::vector<double> &found,
                      const std::vector<double> &expected, double least) {
  if (found.size() != expected.size())
    return HUGE_VAL;
  double worst = 0, largest = least;
  for (size_t i = 0; i < expected.size(); ++i) {
    double error = std::abs(found[i] - expected[i]);
    worst = std::max(worst, std::isnan(error) ? HUGE_VAL : error);
    largest = std::max(largest, std::abs(expected[i]));
  }
  return worst / largest;
}

/// What follows the last point of a name: the name of the optimizer state.
static std::string kindOf(const std::string &name) {
  size_t at = name.rfind('.');
  return at == std::string::npos ? "" : name.substr(at);
}

/// The largest element of all states of one name.
static std::map<std::string, double>
largestByKind(const std::map<std::string, std::vector<double>> &tensors) {
  std::map<std::string, double> largest;
  for (auto &[name, values] : tensors)
    for (double value : values) {
      double &most = largest[kindOf(name)];
      most = std::max(most, std::abs(value));
    }
  return largest;
}

static std::vector<double>
countsOf(const std::map<std::string, std::vector<double>> &tensors,
         const std::string &name) {
  auto known = tensors.find(name);
  return known == tensors.end() ? std::vector<double>() : known->second;
}

TrainingErrors kerf::test::compare(const TrainingResult &found,
                                   const TrainingResult &expected,
                                   const std::string &skipped) {
  TrainingErrors errors;
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    const std::vector<double> &a = found.outputs[i], &b = expected.outputs[i];
    if (a.size() != b.size())
      errors.metrics = HUGE_VAL;
    for (size_t j = 0; j < std::min(a.size(), b.size()); ++j) {
      double &error = j == 0 ? errors.loss : errors.metrics;
      error = std::max(error, errorOf({a[j]}, {b[j]}, 1));
    }
    for (auto &[name, values] : expected.experts[i])
      errors.experts = std::max(
          errors.experts, errorOf(countsOf(found.experts[i], name), values, 1));
  }
  double worst = -1;
  auto isSkipped = [&](llvm::StringRef state) {
    return !skipped.empty() && state.rsplit('.').first.ends_with(skipped);
  };
  auto compareTensors = [&](auto &tensors, auto &others, double &error) {
    std::map<std::string, double> largest = largestByKind(others);
    for (auto &[name, values] : others) {
      if (&others == &expected.states && isSkipped(name))
        continue;
      auto at = tensors.find(name);
      double least = 1e-3 * largest[kindOf(name)] + 1e-30;
      double here =
          at == tensors.end() ? HUGE_VAL : errorOf(at->second, values, least);
      error = std::max(error, here);
      if (here <= worst)
        continue;
      worst = here;
      errors.worst = name;
    }
  };
  compareTensors(found.states, expected.states, errors.states);
  compareTensors(found.params, expected.params, errors.params);
  return errors;
}

std::string TrainingErrors::describe() const {
  char text[512];
  std::snprintf(text, sizeof text,
                "loss %.1e, metrics %.1e, counts of experts %.1e, "
                "optimizer states %.1e, parameters %.1e (%s)",
                loss, metrics, experts, states, params, worst.c_str());
  return text;
}
