//===- Models.h - from a row to the planner's model -----------------------===//

#ifndef KERF_TEST_COST_VALIDATION_MODELS_H
#define KERF_TEST_COST_VALIDATION_MODELS_H

#include "Rows.h"

#include "kerf/Step/LayerModel.h"

#include <memory>

namespace kerf::validate {

/// The Hugging Face config of a row's model: gpt2 for plain MLPs, llama for
/// gated ones, mixtral for experts. "" when it has no such config; `why` then
/// says so.
///
/// Vocabularies are padded to a multiple of 128 x tp, as Megatron's scripts do,
/// since tables cut unevenly are not in the search. Positions of any kind
/// (learned, ALiBi) are gpt2's.
std::string configOf(const Row &row, std::string &why);

/// Reads models from configs through import, differentiation and precision
/// (bf16), as the compiler does, each once.
class ModelReader {
public:
  ModelReader();
  ~ModelReader();
  /// The step of a row's model and batch; null when it cannot be made, and
  /// `why` says what is wrong.
  std::shared_ptr<const StepModel> read(const Row &row, std::string &why);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace kerf::validate

#endif // KERF_TEST_COST_VALIDATION_MODELS_H
