//===- StepFile.cpp - steps as JSON ---------------------------------------===//
//
// Each record lists its fields once (`visitFields`); the writer, the reader and
// the reader's list of known fields all follow from that. A field that has its
// default value is not written, and one that is not there keeps it.
//
//===----------------------------------------------------------------------===//

#include "kerf/Step/StepFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <array>
#include <concepts>
#include <limits>
#include <vector>

using namespace kerf;

namespace {

constexpr llvm::StringLiteral kVersionKey = "kerf_step";
constexpr int64_t kVersion = 2;

/// `T` or `const T`.
template <class R, class T>
concept Of = std::same_as<std::remove_const_t<R>, T>;

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

void visitFields(Of<LayerValue> auto &value, auto visit) {
  visit("name", value.name);
  visit("shape", value.shape);
  visit("classes", value.classes);
  visit("element_bytes", value.elementBytes);
  visit("producer", value.producer);
  visit("param", value.param);
  visit("gradient_of", value.gradientOf);
  visit("forward", value.forward);
}

void visitFields(Of<Factor> auto &factor, auto visit) {
  visit("name", factor.name);
  visit("size", factor.size);
  visit("kind", factor.kind);
}

void visitFields(Of<LayerFactor> auto &factor, auto visit) {
  visit("factor", factor.factor);
  visit("index", factor.index);
  visit("granule", factor.granule);
}

void visitFields(Of<FactorVariant> auto &variant, auto visit) {
  visit("name", variant.name);
  visit("factors", variant.factors);
  visit("together", variant.together);
  visit("leaves_sum", variant.leavesSum);
  visit("exchanges", variant.exchanges);
}

void visitFields(Of<FactorMap> auto &map, auto visit) {
  visit("index", map.index);
  visit("from", map.from);
  visit("to", map.to);
  visit("ragged", map.ragged);
}

void visitFields(Of<OpCost> auto &cost, auto visit) {
  visit("matmul_flops", cost.matmulFlops);
  visit("attention_flops", cost.attentionFlops);
  visit("vector_flops", cost.vectorFlops);
  visit("bytes_read", cost.bytesRead);
  visit("bytes_written", cost.bytesWritten);
}

void visitFields(Of<LayerOp> auto &op, auto visit) {
  visit("name", op.name);
  visit("weight", op.weight);
  visit("place", op.place);
  visit("phase", op.phase);
  visit("number", op.number);
  visit("order", op.order);
  visit("forward", op.forward);
  visit("factors", op.factors);
  visit("operands", op.operands);
  visit("results", op.results);
  visit("operand_factors", op.operandFactors);
  visit("result_factors", op.resultFactors);
  visit("linear_operands", op.linearOperands);
  visit("jointly", op.jointly);
  visit("variants", op.variants);
  visit("maps", op.maps);
  visit("type", op.type);
  visit("work", op.work);
  visit("table_bytes", op.tableBytes);
  visit("step_table_bytes", op.stepTableBytes);
  visit("head_size", op.headSize);
  visit("scores", op.scores);
  visit("causal", op.causal);
  visit("drops_scores", op.dropsScores);
  visit("caps_scores", op.capsScores);
  visit("is_packed", op.isPacked);
  visit("window", op.window);
  visit("view", op.view);
  visit("reads_positions", op.readsPositions);
  visit("is_deferred", op.isDeferred);
  visit("own_loops", op.ownLoops);
  visit("alone", op.alone);
  visit("tanh", op.tanh);
}

void visitFields(Of<LayerParam> auto &param, auto visit) {
  visit("name", param.name);
  visit("shape", param.shape);
  visit("elements", param.elements);
  visit("weights", param.weights);
  visit("weight_bytes", param.weightBytes);
  visit("master_bytes", param.masterBytes);
  visit("gradient_bytes", param.gradientBytes);
  visit("state_bytes", param.stateBytes);
  visit("in_pieces", param.inPieces);
  visit("granule", param.granule);
  visit("gram_steps", param.gramSteps);
  visit("trainable", param.trainable);
  visit("expert", param.expert);
  visit("shared", param.shared);
}

void visitFields(Of<LayerKind> auto &kind, auto visit) {
  visit("name", kind.name);
  visit("values", kind.values);
  visit("ops", kind.ops);
  visit("params", kind.params);
  visit("input", kind.input);
  visit("output", kind.output);
  visit("output_gradient", kind.outputGradient);
  visit("input_gradient", kind.inputGradient);
}

void visitFields(Of<LayerRun> auto &run, auto visit) {
  visit("kind", run.kind);
  visit("count", run.count);
  visit("repeat", run.repeat);
  visit("shift", run.shift);
}

/// What a request decides (`moeBuffer`, `plainOrder`) is not of the file.
void visitFields(Of<StepModel> auto &step, auto visit) {
  visit("name", step.name);
  visit("batch", step.batch);
  visit("sequence", step.sequence);
  visit("vocabulary", step.vocabulary);
  visit("type", step.type);
  visit("kinds", step.kinds);
  visit("runs", step.runs);
  visit("keeps_order", step.keepsOrder);
  visit("accumulates", step.accumulates);
  visit("updates_pieces", step.updatesPieces);
  visit("shares_layers", step.sharesLayers);
}

/// Names of the values of an enumeration, in order.
constexpr auto namesOf(IndexClass) {
  return std::array<llvm::StringLiteral, 4>{"other", "batch", "sequence",
                                            "expert"};
}
constexpr auto namesOf(LayerPhase) {
  return std::array<llvm::StringLiteral, 3>{"forward", "input_gradient",
                                            "weight_gradient"};
}
constexpr auto namesOf(FactorKind) {
  return std::array<llvm::StringLiteral, 4>{"parallel", "sum", "max", "whole"};
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

json::Value toJson(bool value) { return json::Value::fromBool(value); }
json::Value toJson(double value) { return json::Value::fromNumber(value); }
json::Value toJson(const std::string &text) {
  return json::Value::fromString(text);
}
template <class T> json::Value toJson(const T &value);

json::Value listToJson(const auto &list) {
  json::Value value = json::Value::makeArray();
  for (const auto &element : list)
    value.array.push_back(toJson(element));
  return value;
}

/// The fields that are not as in `defaults`.
template <class T>
json::Value recordToJson(const T &record, const T &defaults) {
  std::vector<std::string> usual;
  visitFields(defaults, [&](llvm::StringRef, const auto &field) {
    usual.push_back(json::print(toJson(field)));
  });
  json::Value value = json::Value::makeObject();
  size_t next = 0;
  visitFields(record, [&](llvm::StringRef name, const auto &field) {
    json::Value own = toJson(field);
    if (json::print(own) != usual[next++])
      value.set(name, std::move(own));
  });
  return value;
}

template <class T> json::Value toJson(const T &value) {
  if constexpr (std::is_enum_v<T>)
    return json::Value::fromString(namesOf(T())[static_cast<size_t>(value)]);
  else if constexpr (std::is_integral_v<T>)
    return json::Value::fromInteger(static_cast<int64_t>(value));
  else if constexpr (requires { value.begin(); })
    return listToJson(value);
  else
    return recordToJson(value, T{});
}

/// A list with a line for each element; objects of `opened` keys go deeper.
void printLines(llvm::StringRef key, const json::Value &value,
                std::string &text) {
  static constexpr llvm::StringLiteral opened[] = {"kinds", "ops", "params",
                                                   "values"};
  json::PrintOptions line;
  line.indent = 0;
  line.sortKeys = false;
  auto member = [&](const json::Member &own) {
    text += json::print(json::Value::fromString(own.key)) + ": ";
    printLines(own.key, own.value, text);
  };
  if (value.kind == json::Kind::Array && llvm::is_contained(opened, key)) {
    text += "[\n";
    llvm::interleave(
        value.array,
        [&](const json::Value &element) {
          printLines(key == "kinds" ? "kind" : "", element, text);
        },
        [&] { text += ",\n"; });
    text += "]";
  } else if (value.kind == json::Kind::Object &&
             (key == "kind" || key == "step")) {
    text += "{";
    llvm::interleave(value.object, member, [&] { text += ",\n"; });
    text += "}";
  } else {
    text += json::print(value, line);
  }
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

class Reader {
public:
  explicit Reader(json::ErrorHandler onError) : onError(onError) {}

  void fail(const json::Value &at, const llvm::Twine &message) {
    wrong = true;
    onError(at.position, message);
  }
  bool failed() const { return wrong; }

  void read(const json::Value &value, bool &out) {
    if (expect(value, json::Kind::Bool))
      out = value.boolean;
  }
  void read(const json::Value &value, double &out) {
    if (!expect(value, json::Kind::Number))
      return;
    constexpr double most = 1e30; // more than any step has of anything
    if (value.number < 0 || value.number > most)
      fail(value, "expected a number from 0 to 1e30");
    out = value.number;
  }
  void read(const json::Value &value, std::string &out) {
    if (expect(value, json::Kind::String))
      out = value.string;
  }
  template <class T> void read(const json::Value &value, T &out) {
    if constexpr (std::is_enum_v<T>)
      readName(value, out);
    else if constexpr (std::is_integral_v<T>)
      readInteger(value, out);
    else if constexpr (requires { out.begin(); })
      readList(value, out);
    else
      readRecord(value, out);
  }

private:
  bool expect(const json::Value &value, json::Kind kind) {
    if (value.kind != kind)
      fail(value, "expected " + json::describeKind(kind) + ", found " +
                      json::describeKind(value.kind));
    return value.kind == kind;
  }
  template <class T> void readName(const json::Value &value, T &out) {
    if (!expect(value, json::Kind::String))
      return;
    constexpr auto names = namesOf(T());
    const auto *found = llvm::find(names, value.string);
    if (found == names.end())
      fail(value, "expected one of " + llvm::join(names, ", ") + ", found " +
                      json::quote(value.string));
    else
      out = static_cast<T>(found - names.begin());
  }
  template <class T> void readInteger(const json::Value &value, T &out) {
    bool fits = value.kind == json::Kind::Number && value.isInteger &&
                std::in_range<T>(value.integer);
    if (!fits)
      return fail(value, "expected a whole number in range");
    out = static_cast<T>(value.integer);
  }
  template <class T> void readList(const json::Value &value, T &out) {
    if (!expect(value, json::Kind::Array))
      return;
    out.clear();
    for (const json::Value &element : value.array)
      read(element, out.emplace_back());
  }
  template <class T> void readRecord(const json::Value &value, T &out) {
    if (!expect(value, json::Kind::Object))
      return;
    std::vector<std::string> known;
    visitFields(out, [&](llvm::StringRef name, auto &field) {
      known.push_back(name.str());
      if (const json::Value *own = value.find(name))
        read(*own, field);
    });
    for (const json::Member &member : value.object)
      if (!llvm::is_contained(known, member.key) && member.key != kVersionKey)
        fail(member.value, "unknown field " + json::quote(member.key) +
                               ", expected one of " + llvm::join(known, ", "));
  }

  json::ErrorHandler onError;
  bool wrong = false;
};

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Something wrong with a step.
struct StepError {
  int kind = -1;        ///< index; -1: of the step itself
  llvm::StringRef list; ///< of the kind: "values", "ops", "params" or ""
  size_t index = 0;     ///< in that list
  std::string message;
};

template <class T> bool isIndex(T index, size_t size) {
  return index >= T(0) && static_cast<size_t>(index) < size;
}
bool isIndexOrNone(int index, size_t size) {
  return index == -1 || isIndex(index, size);
}
bool areIndices(const auto &list, size_t size) {
  return llvm::all_of(list, [&](auto index) { return isIndex(index, size); });
}

class KindCheck {
public:
  KindCheck(const StepModel &step, int number, std::vector<StepError> &errors)
      : kind(step.kinds[number]), number(number), errors(errors) {}

  void run() {
    for (size_t i = 0; i < kind.values.size(); ++i)
      tell("values", i, wrongIn(kind.values[i]));
    for (size_t i = 0; i < kind.ops.size(); ++i)
      tell("ops", i, wrongIn(kind.ops[i], int(i)));
    for (size_t i = 0; i < kind.params.size(); ++i)
      tell("params", i,
           kind.params[i].granule < 1 ? "its granule is below 1" : "");
    for (int end :
         {kind.input, kind.output, kind.outputGradient, kind.inputGradient})
      if (!isIndexOrNone(end, kind.values.size()))
        tell("", 0, "there is no value " + std::to_string(end));
  }

private:
  void tell(llvm::StringRef list, size_t index, const std::string &wrong) {
    if (!wrong.empty())
      errors.push_back({number, list, index, wrong});
  }
  std::string nameOf(int value) const {
    const std::string &name = kind.values[value].name;
    return name.empty() ? "value " + std::to_string(value) : "'" + name + "'";
  }
  std::string wrongIn(const LayerValue &value) const {
    if (value.classes.size() != value.shape.size())
      return "it has " + std::to_string(value.shape.size()) +
             " dimensions and classes of " +
             std::to_string(value.classes.size());
    if (llvm::any_of(value.shape, [](int64_t size) { return size < 1; }))
      return "a dimension is below 1";
    if (!isIndexOrNone(value.producer, kind.ops.size()))
      return "there is no op " + std::to_string(value.producer);
    for (int param : {value.param, value.gradientOf})
      if (!isIndexOrNone(param, kind.params.size()))
        return "there is no parameter " + std::to_string(param);
    return "";
  }

  /// The dimensions of a tensor are made of factors.
  std::string wrongIn(const LayerOp &op, const std::vector<int> &values,
                      const std::vector<TensorFactors> &tensors) const {
    if (!areIndices(values, kind.values.size()))
      return "it reads or makes a value that is not there";
    if (tensors.size() != values.size())
      return "factors are given of " + std::to_string(tensors.size()) +
             " tensors, it has " + std::to_string(values.size());
    for (auto [value, dims] : llvm::zip(values, tensors)) {
      const LayerValue &own = kind.values[value];
      if (dims.size() != own.shape.size())
        return "factors of " + nameOf(value) + " are of another rank";
      for (auto [factors, size] : llvm::zip(dims, own.shape)) {
        if (!areIndices(factors, op.factors.size()))
          return nameOf(value) + " has a factor that is not there";
        double product = 1;
        for (unsigned f : factors)
          product *= double(op.factors[f].factor.size);
        if (product != double(size))
          return "factors of " + nameOf(value) + " do not make its " +
                 std::to_string(size);
      }
    }
    return "";
  }
  std::string wrongIn(const LayerOp &op, int index) const {
    for (const LayerFactor &factor : op.factors)
      if (factor.factor.size < 1 || factor.granule < 1)
        return "factor '" + factor.factor.name + "' is below 1";
    for (auto [values, tensors] : {std::pair(&op.operands, &op.operandFactors),
                                   std::pair(&op.results, &op.resultFactors)})
      if (std::string wrong = wrongIn(op, *values, *tensors); !wrong.empty())
        return wrong;
    if (op.results.empty())
      return "it makes nothing";
    for (int value : op.results)
      if (kind.values[value].producer != index)
        return nameOf(value) + " says that it is made elsewhere";
    for (int value : op.operands)
      if (kind.values[value].producer >= index)
        return "it reads " + nameOf(value) + " before that is made";
    if (!isIndexOrNone(op.forward, kind.ops.size()))
      return "there is no forward op " + std::to_string(op.forward);
    return wrongWays(op);
  }
  std::string wrongWays(const LayerOp &op) const {
    size_t factors = op.factors.size(), operands = op.operands.size();
    for (const FactorVariant &variant : op.variants)
      if (variant.factors.empty() || !areIndices(variant.factors, factors))
        return "variant '" + variant.name + "' has a factor that is not there";
    for (const FactorMap &map : op.maps)
      if (!isIndex(map.index, operands) || !areIndices(map.from, factors) ||
          !areIndices(map.to, factors) || !isIndexOrNone(map.ragged, factors))
        return "a map has an operand or a factor that is not there";
    if (!areIndices(op.linearOperands, operands))
      return "there is no such linear operand";
    bool isAttention = op.work.attentionFlops > 0;
    if (isAttention &&
        (operands < 3 ||
         llvm::any_of(
             llvm::ArrayRef(op.operands).take_front(3),
             [&](int value) { return kind.values[value].shape.size() != 4; })))
      return "an attention reads queries, keys and values of four dimensions";
    return "";
  }

  const LayerKind &kind;
  int number;
  std::vector<StepError> &errors;
};

} // namespace

/// What is wrong; of each op and value the first thing. Empty: a search may use
/// the step.
static std::vector<StepError> checkStep(const StepModel &step) {
  std::vector<StepError> errors;
  auto tell = [&](const std::string &message) {
    errors.push_back({-1, "", 0, message});
  };
  if (step.batch < 1 || step.sequence < 1 || step.vocabulary < 0)
    tell("batch and sequence of a step are at least 1");
  if (step.kinds.empty() || step.runs.empty())
    tell("a step has layers");
  for (const LayerRun &run : step.runs)
    if (!isIndex(run.kind, step.kinds.size()) || run.count < 1 || run.shift < 0)
      tell("a run is of at least one layer of a kind, shifted by 0 or more, "
           "found " +
           std::to_string(run.count) + " of kind " + std::to_string(run.kind) +
           " with shift " + std::to_string(run.shift));
  for (size_t i = 0; i < step.kinds.size(); ++i)
    KindCheck(step, int(i), errors).run();
  return errors;
}

std::string kerf::printStepFile(const StepModel &step) {
  json::Value value = json::Value::makeObject();
  value.set(kVersionKey, json::Value::fromInteger(kVersion));
  for (json::Member &member : toJson(step).object)
    value.set(member.key, std::move(member.value));
  std::string text;
  printLines("step", value, text);
  return text + "\n";
}

bool kerf::isStepFile(llvm::StringRef text) {
  return text.ltrim().starts_with("{") &&
         text.contains(("\"" + kVersionKey + "\"").str());
}

/// Where the text has what an error is about.
static json::Position placeOf(const json::Value &text, const StepError &error) {
  const json::Value *kinds = error.kind < 0 ? nullptr : text.find("kinds");
  if (!kinds)
    return text.position;
  const json::Value &kind = kinds->array[error.kind];
  const json::Value *list = kind.find(error.list);
  return list ? list->array[error.index].position : kind.position;
}

std::optional<StepModel> kerf::readStepFile(llvm::StringRef text,
                                            json::ErrorHandler onError) {
  constexpr size_t mostErrors = 5; // that a person reads
  size_t told = 0;
  auto tell = [&](json::Position at, const llvm::Twine &message) {
    if (told++ < mostErrors)
      onError(at, message);
  };
  auto value = json::parse(text, tell);
  if (llvm::failed(value))
    return std::nullopt;
  Reader reader(tell);
  const json::Value *version = value->find(kVersionKey);
  if (!version || !version->isInteger || version->integer != kVersion) {
    reader.fail(version ? *version : *value,
                "expected \"" + kVersionKey + "\": " + llvm::Twine(kVersion) +
                    ", as this kerfc writes it");
    return std::nullopt;
  }
  StepModel step;
  reader.read(*value, step);
  if (reader.failed())
    return std::nullopt;
  for (const StepError &error : checkStep(step))
    tell(placeOf(*value, error), error.message);
  return told == 0 ? std::optional(std::move(step)) : std::nullopt;
}
