//===- Models.cpp - from a row to the planner's model ---------------------===//

#include "Models.h"

#include "kerf/Ingest/Import.h"
#include "kerf/Pipeline/Stages.h"
#include "kerf/Step/ReadStep.h"
#include "kerf/Support/Json.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

using namespace kerf;
using namespace kerf::validate;

/// Rows whose source says that embedding and head share their table.
static bool isTied(const Row &row) {
  llvm::StringRef notes = row.notes;
  if (notes.contains_insensitive("untied"))
    return false;
  return notes.contains_insensitive("tied emb") ||
         !llvm::StringRef(row.ffnKind).contains("glu");
}

static int64_t paddedVocabulary(const Row &row) {
  int64_t unit = 128 * row.tp.value_or(1), vocabulary = *row.vocab;
  if (vocabulary % row.tp.value_or(1) == 0)
    return vocabulary;
  return (vocabulary + unit - 1) / unit * unit;
}

static json::Value gpt2Config(const Row &row) {
  json::Value config = json::Value::makeObject();
  auto integer = [&](llvm::StringRef key, int64_t value) {
    config.set(key, json::Value::fromInteger(value));
  };
  config.set("model_type", json::Value::fromString("gpt2"));
  config.set("activation_function",
             json::Value::fromString(
                 row.ffnKind == "squared_relu" ? "relu2" : "gelu_new"));
  integer("n_embd", *row.hidden);
  integer("n_head", *row.heads);
  integer("n_layer", *row.layers);
  integer("n_inner", *row.ffn);
  integer("n_positions", *row.sequence);
  integer("vocab_size", paddedVocabulary(row));
  config.set("tie_word_embeddings", json::Value::fromBool(isTied(row)));
  // Megatron's runs drop; MPT and models with flash attention do not.
  double dropout = row.flash.value_or(false) ? 0.0 : 0.1;
  for (llvm::StringRef key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
    config.set(key, json::Value::fromNumber(dropout));
  return config;
}

/// The number behind a word of the notes, as in "head_dim 128".
static std::optional<int64_t> notedNumber(const Row &row,
                                          llvm::StringRef word) {
  auto [before, after] = llvm::StringRef(row.notes).split(word);
  int64_t number = 0;
  if (after.ltrim().consumeInteger(10, number))
    return std::nullopt;
  return number;
}

static json::Value decoderConfig(const Row &row, llvm::StringRef family) {
  json::Value config = json::Value::makeObject();
  auto integer = [&](llvm::StringRef key, int64_t value) {
    config.set(key, json::Value::fromInteger(value));
  };
  config.set("model_type", json::Value::fromString(family));
  integer("hidden_size", *row.hidden);
  integer("num_attention_heads", *row.heads);
  integer("num_key_value_heads", row.kvHeads.value_or(*row.heads));
  integer("num_hidden_layers", *row.layers);
  integer("intermediate_size", *row.ffn);
  integer("max_position_embeddings", *row.sequence);
  integer("vocab_size", paddedVocabulary(row));
  config.set("tie_word_embeddings", json::Value::fromBool(isTied(row)));
  if (std::optional<int64_t> size = notedNumber(row, "head_dim "))
    integer("head_dim", *size);
  if (family == "mixtral") {
    integer("num_local_experts", *row.experts);
    integer("num_experts_per_tok", row.topK.value_or(2));
    config.set("sliding_window", json::Value());
  }
  return config;
}

/// Latent attention, shared experts and dense first layers. Sizes of heads are
/// those that DeepSeek published (arXiv 2412.19437, section 4.2).
static json::Value latentConfig(const Row &row) {
  json::Value config = decoderConfig(row, "deepseek_v3");
  auto integer = [&](llvm::StringRef key, int64_t value) {
    config.set(key, json::Value::fromInteger(value));
  };
  integer("intermediate_size",
          notedNumber(row, "dense ffn ").value_or(*row.ffn));
  integer("moe_intermediate_size", *row.ffn);
  integer("first_k_dense_replace", notedNumber(row, "first ").value_or(0));
  integer("n_routed_experts", *row.experts);
  integer("num_experts_per_tok", row.topK.value_or(2));
  integer("n_shared_experts", 1);
  integer("n_group", 1);
  integer("topk_group", 1);
  integer("q_lora_rank", notedNumber(row, "q_lora ").value_or(1536));
  integer("kv_lora_rank", notedNumber(row, "kv_lora ").value_or(512));
  integer("qk_nope_head_dim", 128);
  integer("qk_rope_head_dim", 64);
  integer("v_head_dim", 128);
  config.set("scoring_func", json::Value::fromString("sigmoid"));
  config.set("topk_method", json::Value::fromString("noaux_tc"));
  config.set("norm_topk_prob", json::Value::fromBool(true));
  config.set("routed_scaling_factor", json::Value::fromNumber(2.5));
  return config;
}

std::string kerf::validate::configOf(const Row &row, std::string &why) {
  if (!row.layers || !row.hidden || !row.heads || !row.ffn || !row.vocab ||
      !row.sequence || !row.globalBatch) {
    why = "sizes of the model are not stated";
    return "";
  }
  bool isGated = llvm::StringRef(row.ffnKind).contains("glu");
  bool isGrouped = row.kvHeads && *row.kvHeads != *row.heads;
  bool isMixture = row.experts.value_or(0) > 1;
  if (!isGated && (isGrouped || isMixture)) {
    why = "no importer for plain MLPs with grouped keys or experts";
    return "";
  }
  json::Value config = isMixture && hasLatents(row) ? latentConfig(row)
                       : isMixture ? decoderConfig(row, "mixtral")
                       : isGated   ? decoderConfig(row, "llama")
                                   : gpt2Config(row);
  return json::print(config);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

struct ModelReader::State {
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  struct Entry {
    std::shared_ptr<const StepModel> step;
    std::string why;
  };
  std::map<std::string, Entry> known;

  Entry make(const std::string &config, const Row &row);
};

ModelReader::ModelReader() : state(std::make_unique<State>()) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  state->context.appendDialectRegistry(registry);
}
ModelReader::~ModelReader() = default;

/// Matmuls with a bias whose sum is cut leave a sum, to which the bias is
/// added later, as in Megatron.
static void addBiasesAfterSums(StepModel &step) {
  for (LayerKind &kind : step.kinds)
    for (LayerOp &op : kind.ops)
      for (const FactorVariant &variant : op.variants)
        if (variant.name == "bias_after_sum") {
          op.factors[variant.factors.front()].factor.kind = FactorKind::Sum;
          op.variants.clear();
          break;
        }
}

ModelReader::State::Entry ModelReader::State::make(const std::string &config,
                                                   const Row &row) {
  Entry entry;
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error &&
            entry.why.empty())
          entry.why = diagnostic.str();
        return mlir::success();
      });
  ImportOptions options;
  options.batch = *row.globalBatch;
  options.seq = *row.sequence;
  mlir::OwningOpRef<mlir::ModuleOp> module =
      importConfig(config, row.place(), options, &context);
  if (!module)
    return entry;
  mlir::PassManager passes(&context);
  StageOptions stages;
  stages.precision = "bf16";
  for (Stage stage : {Stage::Ingest, Stage::Differentiate, Stage::Precision})
    addStage(passes, stage, stages);
  if (failed(passes.run(*module)))
    return entry;
  mlir::FailureOr<StepModel> step =
      readStep(*module->getOps<ModelOp>().begin());
  if (failed(step))
    return entry;
  addBiasesAfterSums(*step);
  entry.step = std::make_shared<StepModel>(std::move(*step));
  return entry;
}

std::shared_ptr<const StepModel> ModelReader::read(const Row &row,
                                                   std::string &why) {
  std::string config = configOf(row, why);
  if (config.empty())
    return nullptr;
  std::string key = config + " " + std::to_string(*row.globalBatch);
  auto [place, isNew] = state->known.try_emplace(key);
  if (isNew)
    place->second = state->make(config, row);
  why = place->second.why;
  return place->second.step;
}
