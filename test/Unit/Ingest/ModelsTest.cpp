//===- ModelsTest.cpp - What the importer builds --------------------------===//

#include "ImportTesting.h"

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Support/Safetensors.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include "gtest/gtest.h"

#include <map>

using namespace kerf;
using namespace kerf::testing;

namespace {

/// The model of a config that must be accepted without a word.
std::string irOf(llvm::StringRef json,
                 const ImportOptions &options = smallOptions()) {
  Imported run(json, options);
  EXPECT_EQ(run.messages, "") << json.str();
  EXPECT_NE(run.ir, "") << json.str();
  return run.ir;
}

std::string llamaIr(llvm::StringRef more) {
  return irOf(decoderOf("llama", more));
}

std::string gpt2Ir(llvm::StringRef more) {
  return irOf(configOf("gpt2", more));
}

std::string mixtralIr(llvm::StringRef more, ImportOptions options) {
  return irOf(decoderOf("mixtral", more), options);
}

bool contains(llvm::StringRef text, llvm::StringRef part) {
  return text.contains(part);
}

std::string readFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  EXPECT_TRUE(static_cast<bool>(buffer)) << path;
  return buffer ? (*buffer)->getBuffer().str() : "";
}

/// Paths of the folders in a folder of the repository.
std::vector<std::string> foldersIn(llvm::StringRef folder) {
  std::vector<std::string> folders;
  std::error_code error;
  std::string path = (llvm::StringRef(KERF_SOURCE_DIR) + "/" + folder).str();
  for (llvm::sys::fs::directory_iterator it(path, error), end;
       it != end && !error; it.increment(error))
    if (llvm::sys::fs::exists(it->path() + "/config.json")) // not by hand
      folders.push_back(it->path());
  EXPECT_FALSE(error) << path;
  EXPECT_FALSE(folders.empty()) << path;
  return folders;
}

TEST(Spellings, gpt2Aliases) {
  EXPECT_EQ(gpt2Ir(", \"n_embd\": 64, \"n_head\": 4, \"n_layer\": 2, "
                   "\"n_positions\": 32"),
            gpt2Ir(", \"hidden_size\": 64, \"num_attention_heads\": 4, "
                   "\"num_hidden_layers\": 2, \"max_position_embeddings\": "
                   "32"));
  EXPECT_EQ(gpt2Ir(", \"activation_function\": \"gelu_new\""),
            gpt2Ir(", \"activation_function\": \"gelu_pytorch_tanh\""));
  EXPECT_EQ(gpt2Ir(", \"n_inner\": null"), gpt2Ir(", \"n_inner\": 3072"));
}

TEST(Spellings, rope) {
  std::string plain = llamaIr("");
  EXPECT_EQ(plain, llamaIr(", \"rope_theta\": 10000, \"rope_scaling\": null"));
  EXPECT_EQ(plain, llamaIr(", \"rope_parameters\": {\"rope_type\": "
                           "\"default\", \"rope_theta\": 10000.0}"));
  EXPECT_EQ(plain, llamaIr(", \"rope_scaling\": {}, \"rope_parameters\": {}"));
  std::string linear = llamaIr(", \"rope_theta\": 500, \"rope_scaling\": "
                               "{\"type\": \"linear\", \"factor\": 4}");
  EXPECT_NE(plain, linear);
  EXPECT_EQ(linear, llamaIr(", \"rope_theta\": 500.0, \"rope_scaling\": "
                            "{\"rope_type\": \"linear\", \"factor\": 4.0}"));
  EXPECT_EQ(linear, llamaIr(", \"rope_parameters\": {\"rope_type\": "
                            "\"linear\", \"factor\": 4, \"rope_theta\": 500}"));
  // The inner rope_theta counts, as in the library.
  EXPECT_EQ(linear,
            llamaIr(", \"rope_theta\": 7, \"rope_parameters\": {\"rope_type\": "
                    "\"linear\", \"factor\": 4, \"rope_theta\": 500}"));
}

TEST(Spellings, llama3) {
  const std::string factors = "\"factor\": 8, \"low_freq_factor\": 1, "
                              "\"high_freq_factor\": 4";
  std::string older = llamaIr(", \"rope_scaling\": {\"rope_type\": \"llama3\", "
                              "\"original_max_position_embeddings\": 2048, " +
                              factors + "}");
  EXPECT_TRUE(contains(older, "#kerf.rope_llama3<factor = "));
  // The default of original_max_position_embeddings is the config's length.
  EXPECT_EQ(older, llamaIr(", \"rope_parameters\": {\"rope_type\": \"llama3\", "
                           "\"rope_theta\": 10000, " +
                           factors + "}"));
}

TEST(Spellings, yarn) {
  // Heads of 64: with 512 trained positions pair 3 turns 32 times.
  std::string plain = llamaIr(
      ", \"head_dim\": 64, \"rope_theta\": 10000, \"rope_scaling\": {\"type\": "
      "\"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 512}");
  EXPECT_TRUE(contains(plain, "#kerf.rope_yarn<factor = 4.0, low = 3.0, high = "
                              "16.0, magnitude = "));
  // All defaults; 2048 is the length of the config.
  EXPECT_EQ(plain,
            llamaIr(", \"head_dim\": 64, \"rope_parameters\": {\"rope_type\": "
                    "\"yarn\", \"rope_theta\": 10000, \"factor\": null, "
                    "\"original_max_position_embeddings\": 512, \"beta_fast\": "
                    "32, \"beta_slow\": 1.0, \"attention_factor\": null, "
                    "\"mscale\": 0, \"mscale_all_dim\": 2, \"truncate\": "
                    "true}"));
}

TEST(Spellings, qwen) {
  std::string plain = irOf(decoderOf("qwen2", ""));
  EXPECT_EQ(plain, irOf(decoderOf("qwen2", ", \"layer_types\": null, "
                                           "\"head_dim\": 4, \"use_mrope\": "
                                           "false, \"sliding_window\": 2")));
  // The layers of a window begin where layer_types says so, or else the number.
  const std::string window =
      ", \"use_sliding_window\": true, \"sliding_window\": 2";
  EXPECT_EQ(plain, irOf(decoderOf("qwen2", window)));
  std::string last =
      irOf(decoderOf("qwen2", window + ", \"max_window_layers\": 2"));
  EXPECT_NE(plain, last);
  EXPECT_EQ(last, irOf(decoderOf("qwen2", window + ", \"layer_types\": "
                                                   "[\"full_attention\", "
                                                   "\"full_attention\", "
                                                   "\"sliding_attention\"]")));
  EXPECT_EQ(irOf(decoderOf("qwen3_moe", ", \"num_experts\": 16")),
            irOf(decoderOf("qwen3_moe", ", \"num_local_experts\": 16, "
                                        "\"mlp_only_layers\": null, "
                                        "\"max_window_layers\": 1")));
}

TEST(Spellings, decoders) {
  std::string plain = llamaIr("");
  EXPECT_EQ(plain, llamaIr(", \"hidden_act\": \"swish\""));
  EXPECT_EQ(plain, llamaIr(", \"head_dim\": 4"));
  EXPECT_EQ(plain, llamaIr(", \"head_dim\": null, \"pad_token_id\": null"));
  EXPECT_EQ(plain, llamaIr(", \"dtype\": \"bfloat16\", \"use_cache\": false, "
                           "\"pretraining_tp\": 2, \"bos_token_id\": [1, 2]"));
  EXPECT_EQ(irOf(decoderOf("mixtral", ", \"num_experts\": 4")),
            irOf(decoderOf("mixtral", ", \"num_local_experts\": 4")));
  EXPECT_EQ(irOf(configOf("llama", "")),
            irOf(configOf("llama", ", \"num_key_value_heads\": null")));
  EXPECT_EQ(llamaIr(", \"pad_token_id\": -1"),
            llamaIr(", \"pad_token_id\": 31"));
  EXPECT_NE(plain, llamaIr(", \"pad_token_id\": 31"));
}

TEST(Defaults, differBetweenFamilies) {
  std::string mistral = irOf(configOf("mistral", ""));
  EXPECT_TRUE(contains(mistral, "k_proj.weight\" init<normal, 0.02> : "
                                "tensor<1024x4096xf32>"));
  EXPECT_TRUE(contains(mistral, "tensor<14336x4096xf32>"));
  std::string llama = irOf(configOf("llama", ""));
  EXPECT_TRUE(contains(llama, "tensor<11008x4096xf32>"));
  EXPECT_TRUE(contains(llama, "theta 1.000000e+04"));
  std::string mixtral = irOf(configOf("mixtral", ""));
  EXPECT_TRUE(contains(mixtral, "theta 1.000000e+06"));
  ImportOptions longer = smallOptions();
  longer.seq = 8192;
  EXPECT_TRUE(contains(irOf(configOf("mistral", ""), longer), "window 4096"));
  EXPECT_FALSE(
      contains(irOf(configOf("mistral", ", \"sliding_window\": null"), longer),
               "window"));
  EXPECT_FALSE(contains(irOf(configOf("mixtral", ""), longer), "window"));
}

TEST(Models, windowThatHidesNothing) {
  std::string none = irOf(decoderOf("mistral", ", \"sliding_window\": null"));
  EXPECT_EQ(none, irOf(decoderOf("mistral", ", \"sliding_window\": 8")));
  EXPECT_TRUE(contains(irOf(decoderOf("mistral", ", \"sliding_window\": 7")),
                       "causal window 7"));
}

TEST(Models, dropoutAsksForSeedAndStep) {
  std::string with = gpt2Ir("");
  EXPECT_TRUE(contains(with, "seed %seed: tensor<i32>, step %step: "
                             "tensor<i32>"));
  EXPECT_EQ(llvm::StringRef(with).count("kerf.dropout"), 3u);
  EXPECT_TRUE(contains(with, "dropout 1.000000e-01 \"transformer.h.attn."
                             "dropout\" seed %seed step %step layer %i"));
  std::string without = gpt2Ir(", \"attn_pdrop\": 0, \"resid_pdrop\": 0.0, "
                               "\"embd_pdrop\": 0");
  EXPECT_FALSE(contains(without, "seed"));
  EXPECT_FALSE(contains(without, "dropout"));
}

TEST(Models, packed) {
  ImportOptions options = smallOptions();
  options.packed = true;
  for (llvm::StringRef family : {"deepseek_v3", "gpt2", "llama", "mistral",
                                 "mixtral", "qwen2", "qwen3", "qwen3_moe"}) {
    std::string ir = irOf(configOf(family, ""), options);
    EXPECT_TRUE(contains(ir, "segments %segments: tensor<2x8xi32>, positions "
                             "%positions: tensor<2x8xi32>"));
    EXPECT_TRUE(contains(ir, "segments(%segments, %segments"));
    // deepseek_v3 has layers of two kinds.
    int readers = family == "gpt2" ? 1 : family == "deepseek_v3" ? 4 : 2;
    EXPECT_EQ(llvm::StringRef(ir).count("%positions"), 1 + readers) << ir;
  }
}

TEST(Models, auxiliaryLoss) {
  ImportOptions options = smallOptions();
  const std::string on = ", \"output_router_logits\": true";
  std::string none = mixtralIr("", options);
  EXPECT_FALSE(contains(none, "load_balance_loss"));
  std::string library = mixtralIr(on, options);
  EXPECT_TRUE(contains(library, "group 6 : tensor<6x8x8xf32>"));
  options.auxLoss = "global";
  EXPECT_EQ(mixtralIr("", options), library);
  options.auxLoss = "none";
  EXPECT_EQ(mixtralIr(on, options), none);
  options.auxLoss = "layer";
  std::string layer = mixtralIr(on, options);
  EXPECT_EQ(mixtralIr("", options), layer);
  EXPECT_TRUE(contains(layer, "group 1 : tensor<2x8x8xf32>"));
  EXPECT_EQ(mixtralIr(", \"router_aux_loss_coef\": 0", options), none);
}

TEST(Models, capacity) {
  ImportOptions options = smallOptions();
  // 8 tokens x 2 choices / 8 experts = 2 rows when even.
  options.capacityFactor = 1.2;
  EXPECT_TRUE(contains(mixtralIr("", options), "group 1 capacity 3"));
  options.capacityFactor = 1e-9;
  EXPECT_TRUE(contains(mixtralIr("", options), "group 1 capacity 1"));
  options.capacityFactor = 1e300;
  EXPECT_TRUE(contains(mixtralIr("", options), "group 1 capacity 8"));
}

TEST(Models, options) {
  ImportOptions options = smallOptions();
  options.optimizer = "sgd";
  options.clipNorm = 0;
  options.weightDecay = 0;
  options.zLoss = 0.5;
  options.modelName = "mine";
  std::string ir = irOf(decoderOf("llama", ""), options);
  EXPECT_TRUE(contains(ir, "kerf.model @mine("));
  EXPECT_TRUE(contains(ir, "optimizer = #kerf.sgd<momentum = "));
  EXPECT_FALSE(contains(ir, "clip_norm"));
  EXPECT_FALSE(contains(ir, "groups"));
  EXPECT_TRUE(contains(ir, "z_loss 5.000000e-01"));
}

TEST(Models, sizeDoesNotGrowWithDepth) {
  std::string shallow = gpt2Ir(", \"n_layer\": 2");
  std::string deep = gpt2Ir(", \"n_layer\": 1000000");
  EXPECT_EQ(llvm::StringRef(shallow).count('\n'),
            llvm::StringRef(deep).count('\n'));
}

TEST(Models, locationsNameLayersAndFields) {
  Imported run(decoderOf("llama", ",\n\"rms_norm_eps\": 1e-5"));
  bool isFound = false;
  run.module->walk([&](RmsNormOp op) {
    auto name = llvm::dyn_cast<mlir::NameLoc>(op.getLoc());
    ASSERT_TRUE(name);
    auto place = llvm::dyn_cast<mlir::FileLineColLoc>(name.getChildLoc());
    ASSERT_TRUE(place);
    EXPECT_EQ(place.getLine(), 2u);
    EXPECT_EQ(place.getColumn(), 17u);
    isFound |= name.getName() == "model.layers.input_layernorm";
  });
  EXPECT_TRUE(isFound);
}

/// Shape of each checkpoint tensor of a model, by name.
using Shapes = std::map<std::string, std::vector<int64_t>>;

Shapes shapesOf(mlir::ModuleOp module) {
  Shapes shapes;
  module.walk([&](ParamOp param) {
    std::vector<int64_t> shape = typeOf(param.getResult()).getShape().vec();
    auto repeat = param->getParentOfType<RepeatOp>();
    int64_t start = repeat ? repeat.getStart() : 0;
    int64_t end = repeat ? repeat.getEnd() : 1;
    int64_t experts = 1;
    bool isStack = isStacked(param.getName());
    if (isStack) {
      experts = shape.front();
      shape.erase(shape.begin());
    }
    for (int64_t i = start; i < end; ++i)
      for (int64_t e = 0; e < experts; ++e)
        shapes[expandName(param.getName(), i, isStack ? e : -1)] = shape;
  });
  return shapes;
}

/// The parameters are those of the library's checkpoints, and parameters of
/// rank 1 are those without weight decay.
TEST(Reference, parameters) {
  ImportOptions options;
  options.batch = 2;
  options.seq = 12;
  for (const std::string &folder : foldersIn("test/Reference/cases")) {
    // Adapters come with an option; the runs of these cases compare their
    // names.
    if (llvm::sys::fs::exists(folder + "/adapter_config.json"))
      continue;
    Imported run(readFile(folder + "/config.json"), options);
    // One is for sequences that are longer than the config's.
    bool isLonger = llvm::StringRef(folder).ends_with("llama-dynamic");
    EXPECT_EQ(run.messages.empty(), !isLonger) << folder << run.messages;
    ASSERT_TRUE(static_cast<bool>(run.module)) << folder;
    std::string error;
    auto file =
        safetensors::File::open(folder + "/reference.safetensors", error);
    ASSERT_TRUE(succeeded(file)) << error;
    Shapes expected;
    for (const safetensors::TensorInfo &info : file->tensors()) {
      llvm::StringRef name = info.name;
      if (name.consume_front("param."))
        expected[name.str()] = llvm::ArrayRef<int64_t>(info.shape).vec();
    }
    EXPECT_EQ(shapesOf(*run.module), expected) << folder;
  }
}

/// Matches `*` and `?`, as groups do.
bool matches(llvm::StringRef pattern, llvm::StringRef name) {
  if (pattern.empty())
    return name.empty();
  if (pattern.front() == '*')
    return matches(pattern.drop_front(), name) ||
           (!name.empty() && matches(pattern, name.drop_front()));
  return !name.empty() &&
         (pattern.front() == '?' || pattern.front() == name.front()) &&
         matches(pattern.drop_front(), name.drop_front());
}

TEST(Reference, vectorsHaveNoWeightDecay) {
  ImportOptions options;
  options.batch = 2;
  options.seq = 12;
  for (const std::string &folder : foldersIn("test/Reference/cases")) {
    Imported run(readFile(folder + "/config.json"), options);
    ASSERT_TRUE(static_cast<bool>(run.module)) << folder;
    ModelOp model = *run.module->getOps<ModelOp>().begin();
    auto groups = llvm::cast<mlir::ArrayAttr>(model->getAttr("groups"));
    model.walk([&](ParamOp param) {
      bool isVector = typeOf(param.getResult()).getRank() == 1 ||
                      // ernie4_5_moe has it as a row
                      param.getName().ends_with("e_score_correction_bias");
      bool isMatched = llvm::any_of(groups, [&](mlir::Attribute group) {
        return matches(llvm::cast<GroupAttr>(group).getMatch(),
                       param.getName());
      });
      EXPECT_EQ(isVector, isMatched) << folder << " " << param.getName().str();
    });
  }
}

TEST(Examples, importAndReadBack) {
  for (const std::string &folder : foldersIn("examples/models")) {
    Imported run(readFile(folder + "/config.json"));
    EXPECT_FALSE(contains(run.messages, "error")) << folder << run.messages;
    const std::string &ir = run.ir;
    mlir::MLIRContext context;
    context.getOrLoadDialect<KerfDialect>();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(ir, &context);
    ASSERT_TRUE(static_cast<bool>(module)) << folder;
    std::string again;
    llvm::raw_string_ostream os(again);
    module->print(os);
    EXPECT_EQ(ir, again) << folder;
  }
}

} // namespace
