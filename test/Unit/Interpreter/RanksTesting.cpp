#include "RanksTesting.h"

using namespace mlir;
using namespace kerf;

static HostTensor tensorOf(Type type, const std::vector<double> &values) {
  HostTensor tensor(cast<RankedTensorType>(type));
  EXPECT_EQ(tensor.data.size(), values.size());
  tensor.data = values;
  return tensor;
}

static std::optional<Values> runPrograms(ModuleOp module, const Values &inputs,
                                         const InterpreterOptions &options,
                                         TrainingState &state,
                                         llvm::StringRef schedule) {
  auto programs = getPipelines(module).front();
  std::vector<HostTensor> tensors;
  for (spmd::InputOp input : getInputs(programs))
    tensors.push_back(
        tensorOf(input.getGlobal(), inputs.at(input.getSymName().str())));
  auto outputs =
      SpmdInterpreter(programs, options).run(tensors, state, schedule);
  if (failed(outputs))
    return std::nullopt;
  Values values;
  for (auto [output, value] : llvm::zip_equal(getOutputs(programs), *outputs))
    if (value.type)
      values[spmd::OutputOp(output).getSymName().str()] = value.data;
  return values;
}

std::optional<Values> RanksTest::run(const std::string &text,
                                     const Values &inputs,
                                     llvm::StringRef schedule) {
  messages.clear();
  context.printOpOnDiagnostic(false);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    for (Diagnostic &note : diagnostic.getNotes())
      messages += "note: " + note.str() + "\n";
    return success();
  });
  auto module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module) << messages;
  if (!module)
    return std::nullopt;
  return runPrograms(*module, inputs, options, state, schedule);
}

std::string RanksTest::failureOf(const std::string &text,
                                 const Values &inputs) {
  EXPECT_FALSE(run(text, inputs).has_value());
  return messages;
}

void RanksTest::setParam(const std::string &name, llvm::ArrayRef<int64_t> shape,
                         std::vector<double> values) {
  auto type = RankedTensorType::get(shape, Float32Type::get(&context));
  state.params[name] = tensorOf(type, values);
}

std::string kerf::replaced(std::string text, llvm::StringRef from,
                           llvm::StringRef to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from.str();
  EXPECT_EQ(text.find(from, at + 1), std::string::npos) << from.str();
  return text.replace(at, from.size(), to);
}

Values kerf::valuesOf(const TrainingState::Tensors &tensors) {
  Values values;
  for (const auto &[name, tensor] : tensors)
    values[name] = tensor.data;
  return values;
}
