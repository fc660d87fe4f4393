//===- random.cpp - random small models, four ways ------------------------===//
//
//   kerf-random COUNT SEED
//
// Draws COUNT small models (seeds SEED, SEED+1, ...) and checks of each:
//   - gradients against central differences of the loss (f64, within 1e-6);
//   - the training step against that of the same model with its repeats
//     unrolled before differentiation (within 1e-9);
//   - the training step against itself with its repeats split and its weight
//     gradients in repeats of their own (within 1e-11);
//   - the step printed and parsed again (the same text).
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Differentiate/Passes.h"
#include "kerf/Interpreter/Interpreter.h"
#include "kerf/Pipeline/GradientCheck.h"
#include "kerf/Pipeline/Stages.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

namespace {
/// Writes a random model as text. A layer is a chain of blocks, each a map of
/// the hidden state h of type `hidden`.
class ModelWriter {
public:
  explicit ModelWriter(uint64_t seed) : random(seed) {}

  std::string write();

private:
  int64_t pick(int64_t count) { return random() % count; }
  bool flip() { return pick(2) == 0; }
  std::string fresh() { return "%v" + std::to_string(next++); }

  std::string tensor(std::initializer_list<int64_t> shape);
  /// Appends `%v = text` and returns `%v`.
  std::string emit(const std::string &text);
  std::string param(const std::string &name, const std::string &type);
  std::string weight(int64_t outputs, int64_t inputs);
  std::string linear(const std::string &x, int64_t inputs, int64_t outputs);
  std::string norm(const std::string &h);
  std::string mlp(const std::string &h);
  std::string attention(const std::string &h);
  std::string experts(const std::string &h);
  std::string shared(const std::string &h);
  std::string outside(const std::string &h);
  std::string sliced(const std::string &h);
  std::string block(const std::string &h);
  std::string repeat(const std::string &x, int64_t start, int64_t end);

  std::mt19937_64 random;
  std::string body;
  int64_t next = 0, params = 0;
  int64_t b = 2, s = 3, d = 4, vocabulary = 7;
  std::string hidden;
  std::string prefix; ///< of parameter names in the present repeat
  std::string outer;  ///< a value from outside that repeats may read
  std::string slice;  ///< slice argument of the present repeat, or empty
};
} // namespace

std::string ModelWriter::tensor(std::initializer_list<int64_t> shape) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + "f32>";
}

std::string ModelWriter::emit(const std::string &text) {
  std::string name = fresh();
  body += "  " + name + " = " + text + "\n";
  return name;
}

/// The type is part of the name: two repeats may read one pattern.
std::string ModelWriter::param(const std::string &name,
                               const std::string &type) {
  return emit("kerf.param \"" + name + "." + type.substr(7, type.size() - 8) +
              "\" init<normal, 0.5> : " + type);
}

std::string ModelWriter::weight(int64_t outputs, int64_t inputs) {
  std::string name = prefix + "w" + std::to_string(params++);
  return param(name, tensor({outputs, inputs}));
}

std::string ModelWriter::linear(const std::string &x, int64_t inputs,
                                int64_t outputs) {
  std::string w = weight(outputs, inputs);
  std::string types = tensor({b, s, inputs}) + ", " + tensor({outputs, inputs});
  if (flip())
    return emit("kerf.linear " + x + ", " + w + " : " + types);
  std::string bias =
      param(prefix + "b" + std::to_string(params++), tensor({outputs}));
  return emit("kerf.linear " + x + ", " + w + " bias " + bias + " : " + types +
              ", " + tensor({outputs}));
}

std::string ModelWriter::norm(const std::string &h) {
  std::string g = param(prefix + "g" + std::to_string(params++), tensor({d}));
  std::string op = flip() ? "kerf.rms_norm " : "kerf.layer_norm ";
  return emit(op + h + ", " + g + " eps 1.0e-2 : " + hidden + ", " +
              tensor({d}));
}

std::string ModelWriter::mlp(const std::string &h) {
  static const char *activations[] = {"kerf.gelu tanh ", "kerf.gelu exact ",
                                      "kerf.silu ",      "kerf.squared_relu ",
                                      "kerf.tanh ",      "kerf.softmax "};
  int64_t wide = 3 + pick(3);
  std::string type = tensor({b, s, wide});
  std::string up = linear(h, d, wide);
  std::string a;
  if (flip())
    a = emit("kerf.swiglu " + linear(h, d, wide) + ", " + up + " : " + type);
  else
    a = emit(activations[pick(6)] + up + " : " + type);
  return linear(a, wide, d);
}

std::string ModelWriter::attention(const std::string &h) {
  int64_t groups = 1 + pick(2), heads = groups * (1 + pick(2)), width = 2;
  auto project = [&](int64_t count) {
    std::string flat = linear(h, d, count * width);
    std::string x =
        emit("kerf.reshape " + flat + " : " + tensor({b, s, count * width}) +
             " -> " + tensor({b, s, count, width}));
    return x;
  };
  std::string q = project(heads), k = project(groups), v = project(groups);
  std::string qType = tensor({b, s, heads, width});
  std::string kType = tensor({b, s, groups, width});
  if (flip()) {
    q = emit("kerf.rope " + q + " theta 10.0 : " + qType);
    k = emit("kerf.rope " + k + " theta 10.0 : " + kType);
  }
  std::string mask = flip() ? " causal" : "";
  if (!mask.empty() && flip())
    mask += " window 2";
  std::string y = emit("kerf.attention " + q + ", " + k + ", " + v + mask +
                       " : " + qType + ", " + kType + ", " + kType);
  y = emit("kerf.reshape " + y + " : " + qType + " -> " +
           tensor({b, s, heads * width}));
  return linear(y, heads * width, d);
}

std::string ModelWriter::experts(const std::string &h) {
  int64_t count = 3, k = 1 + pick(2), wide = 3, group = 1 + pick(b);
  if (b % group != 0)
    group = 1;
  bool capped = flip();
  int64_t rows = capped ? count * 3 : group * s * k;
  std::string capacity = capped ? " capacity 3" : "";
  std::string choices = "tensor<" + std::to_string(b) + "x" +
                        std::to_string(s) + "x" + std::to_string(k) + "x";
  std::string sizes = "tensor<" + std::to_string(b / group) + "x3xi32>";
  std::string logits = linear(h, d, count);
  std::string w = fresh(), e = fresh(), slots = fresh(), n = fresh();
  body += "  " + w + ", " + e + " = kerf.route " + logits + " k " +
          std::to_string(k) + (flip() ? " renormalize" : "") + " : " +
          tensor({b, s, count}) + "\n";
  body += "  " + slots + ", " + n + " = kerf.assign_slots " + e +
          " count 3 group " + std::to_string(group) + capacity + " : " +
          choices + "i32>\n";
  std::string table = tensor({b / group, rows, d});
  std::string wideTable = tensor({b / group, rows, wide});
  std::string x = emit("kerf.dispatch " + h + ", " + slots + " : " + hidden +
                       ", " + choices + "i32> -> " + table);
  std::string name = prefix + "experts.{e}.w" + std::to_string(params++);
  std::string up = param(name, tensor({count, wide, d}));
  std::string down = param(name + "d", tensor({count, d, wide}));
  x = emit("kerf.grouped_matmul " + x + ", " + up + ", " + n + capacity +
           " : " + table + ", " + tensor({count, wide, d}) + ", " + sizes);
  x = emit("kerf.silu " + x + " : " + wideTable);
  x = emit("kerf.grouped_matmul " + x + ", " + down + ", " + n + capacity +
           " : " + wideTable + ", " + tensor({count, d, wide}) + ", " + sizes);
  return emit("kerf.combine " + x + ", " + slots + " weights " + w + " : " +
              choices + "f32> : " + table + ", " + choices + "i32>");
}

/// A parameter that all iterations share.
std::string ModelWriter::shared(const std::string &h) {
  std::string w = param("shared", tensor({d, d}));
  return emit("kerf.linear " + h + ", " + w + " : " + hidden + ", " +
              tensor({d, d}));
}

/// A value computed outside the repeat.
std::string ModelWriter::outside(const std::string &h) {
  return emit("kerf.mul " + h + ", " + outer + " : " + hidden);
}

/// The slice of a stacked parameter.
std::string ModelWriter::sliced(const std::string &h) {
  if (slice.empty())
    return outside(h);
  return emit("kerf.mul " + h + ", " + slice + " : " + hidden);
}

std::string ModelWriter::block(const std::string &h) {
  std::string n = flip() ? norm(h) : h, y;
  switch (pick(7)) {
  case 0:
  case 1:
    y = mlp(n);
    break;
  case 2:
  case 3:
    y = attention(n);
    break;
  case 4:
    y = experts(n);
    break;
  case 5:
    y = flip() ? shared(n) : outside(n);
    break;
  default:
    y = sliced(n);
  }
  return emit("kerf.add " + h + ", " + y + " : " + hidden);
}

std::string ModelWriter::repeat(const std::string &x, int64_t start,
                                int64_t end) {
  std::string count = std::to_string(end - start);
  bool hasSlices = flip(), stacks = flip();
  std::string stackType = "tensor<" + count + "x" + hidden.substr(7);
  std::string slices;
  if (hasSlices) {
    std::string stack = param("stack" + std::to_string(start), stackType);
    slice = "%slice" + std::to_string(start);
    slices = " slices(" + slice + " = " + stack + " : " + stackType + ")";
  }
  std::string carried = fresh(), saved = body;
  body.clear();
  prefix = "h" + std::to_string(flip() ? 0 : start) + ".{i}.";
  params = 0;
  std::string y = carried;
  if (hasSlices) // A trainable stack must reach the loss.
    y = emit("kerf.add " + y + ", " + sliced(y) + " : " + hidden);
  for (int64_t n = 1 + pick(2); n > 0; --n)
    y = block(y);
  std::string inside = body;
  body = saved;
  std::string result = fresh(), stack = fresh();
  body += "  " + result + (stacks ? ", " + stack : "") + " = kerf.repeat " +
          (flip() ? "" : "reverse ") + "%i = " + std::to_string(start) +
          " to " + std::to_string(end) + " (" + carried + " = " + x + " : " +
          hidden + ")" + slices + " {\n" + inside + "    kerf.yield " + y +
          (stacks ? " stack(" + y + ") : " + hidden + ", " + hidden
                  : " : " + hidden) +
          "\n  }\n";
  prefix.clear();
  slice.clear();
  if (!stacks)
    return result;
  std::string sum =
      emit("kerf.reduce sum " + stack + " dims [0] : " + stackType);
  return emit("kerf.add " + result + ", " + sum + " : " + hidden);
}

std::string ModelWriter::write() {
  b = 1 + pick(2);
  hidden = tensor({b, s, d});
  std::string ids =
      "tensor<" + std::to_string(b) + "x" + std::to_string(s) + "xi32>";
  std::string table = tensor({vocabulary, d});
  std::string wte = param("wte", table);
  std::string x =
      emit("kerf.embedding %tokens, " + wte + " : " + ids + ", " + table);
  outer = emit("kerf.tanh " + param("outer", hidden) + " : " + hidden);
  int64_t layers = 2 + pick(2);
  x = repeat(x, 0, layers);
  if (flip())
    x = repeat(x, layers, layers + 2);
  params = 100;
  x = norm(x);
  std::string head = flip() ? wte : weight(vocabulary, d);
  std::string logits =
      emit("kerf.linear " + x + ", " + head + " : " + hidden + ", " + table);
  std::string n = emit("kerf.count_valid %targets : " + ids);
  std::string loss =
      emit("kerf.cross_entropy " + logits + ", %targets normalizer " + n +
           " z_loss 1.0e-2 : " + tensor({b, s, vocabulary}) + ", " + ids);
  // Whatever the blocks left out still reaches the loss.
  std::string rest =
      emit("kerf.reduce sum " + outer + " dims [0, 1, 2] : " + hidden);
  loss = emit("kerf.add " + loss + ", " + rest + " : tensor<f32>");
  return "kerf.model @random(tokens %tokens: " + ids +
         ", targets %targets: " + ids +
         ") attributes {optimizer = #kerf.adamw<weight_decay = 0.1>, "
         "clip_norm = 1.0} {\n" +
         body + "  kerf.return " + loss + " : tensor<f32>\n}\n";
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static ModelOp modelOf(ModuleOp module) {
  return *module.getOps<ModelOp>().begin();
}

static LogicalResult runPasses(ModuleOp module, llvm::StringRef pipeline) {
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  if (failed(parsePassPipeline(pipeline, pm)))
    return failure();
  return pm.run(module);
}

/// Two steps of training.
static FailureOr<TrainingState> train(ModuleOp module) {
  ModelOp model = modelOf(module);
  Interpreter interpreter(model, {/*f64=*/true, /*seed=*/1});
  TrainingState state;
  for (int64_t step = 1; step <= 2; ++step)
    if (failed(interpreter.run(makeInputs(model, 1, step, 0.01), state)))
      return failure();
  return state;
}

/// Largest difference of two states' gradients and parameters, over 1 or the
/// largest value; infinite when their names differ.
static double difference(const TrainingState &a, const TrainingState &b) {
  double worst = 0;
  auto compare = [&](const TrainingState::Tensors &x,
                     const TrainingState::Tensors &y) {
    if (x.size() != y.size())
      worst = INFINITY;
    for (const auto &[name, tensor] : x) {
      auto other = y.find(name);
      if (other == y.end()) {
        worst = INFINITY;
        continue;
      }
      for (auto [p, q] : llvm::zip(tensor.data, other->second.data)) {
        double d = std::abs(p - q) / std::max(1.0, std::abs(q));
        worst = std::isnan(d) ? INFINITY : std::max(worst, d);
      }
    }
  };
  compare(a.gradients, b.gradients);
  compare(a.params, b.params);
  return worst;
}

static std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  return text;
}

/// An empty string, or what is wrong with the model.
static std::string checkModel(const std::string &text, MLIRContext &context) {
  auto parse = [&](const std::string &source) {
    return parseSourceString<ModuleOp>(source, &context);
  };
  auto model = parse(text);
  if (!model || failed(runPasses(*model, "kerf-verify-ingest")))
    return "it is not valid";
  auto errors = checkGradients(modelOf(*model), 1, 3);
  if (failed(errors))
    return "its gradient cannot be built";
  for (const auto &[name, error] : *errors)
    if (!(error <= 1e-6))
      return "gradient of " + name + " differs from central differences by " +
             std::to_string(error);

  auto step = parse(text), unrolled = parse(text);
  if (failed(
          runPasses(*step, "kerf-differentiate,kerf-verify-differentiated")) ||
      failed(runPasses(*unrolled, "kerf-unroll-repeat,kerf-differentiate")))
    return "it cannot be differentiated";
  auto again = parse(print(*step));
  if (!again || print(*again) != print(*step))
    return "its step does not read back";
  auto split = parse(print(*step));
  if (failed(runPasses(*split, "kerf-split-repeat{at=1,3},"
                               "kerf-split-weight-gradient,"
                               "kerf-split-repeat{at=2},"
                               "kerf-verify-differentiated")))
    return "its repeats cannot be split";
  auto expected = train(*step), flat = train(*unrolled), parts = train(*split);
  if (failed(expected) || failed(flat) || failed(parts))
    return "its step does not run";
  if (double d = difference(*flat, *expected); !(d <= 1e-9))
    return "unrolled, it differs by " + std::to_string(d);
  if (double d = difference(*parts, *expected); !(d <= 1e-11))
    return "split, it differs by " + std::to_string(d);
  return "";
}

int main(int argc, char **argv) {
  int64_t count = argc > 1 ? std::atoll(argv[1]) : 20;
  int64_t seed = argc > 2 ? std::atoll(argv[2]) : 1;
  registerPasses();
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  int64_t wrong = 0;
  for (int64_t i = seed; i < seed + count; ++i) {
    std::string text = ModelWriter(i).write();
    std::string problem = checkModel(text, context);
    if (problem.empty())
      continue;
    ++wrong;
    llvm::errs() << "seed " << i << ": " << problem << "\n" << text;
  }
  llvm::outs() << count - wrong << " passed, " << wrong << " failed\n";
  return wrong != 0;
}
