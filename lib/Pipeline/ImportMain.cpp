//===- ImportMain.cpp - kerf-import ---------------------------------------===//

#include "ImportGraph.h"

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Ingest/Import.h"
#include "kerf/Pipeline/Mains.h"
#include "kerf/Pipeline/Stages.h"
#include "kerf/Raise/Passes.h"
#include "kerf/Support/Counts.h"
#include "kerf/Support/Input.h"
#include "kerf/Support/Json.h"
#include "kerf/Support/Log.h"
#include "kerf/Support/Output.h"
#include "kerf/Support/Quantities.h"
#include "kerf/Support/Version.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace kerf;
namespace cl = llvm::cl;

static std::string overview() {
  return R"(prints the kerf.model of a Hugging Face config.json, of a graph that kerf.export
of the Python package wrote, or of a loss function that JAX lowered

The loss and gradients of a config's model are those of the transformers library
5.23 in training mode. Families:
)" + listFamilies() +
         R"(.
In a graph, layers are recognized in plain ops and layers that repeat become
loops.

Exit status: 0 when the model was written; 1 when an option, the config or a
file is wrong, and nothing was written; 128 or more when the program was killed.
)";
}

namespace {
/// The command line. Options live here, not in globals: the library holds the
/// main functions of several tools.
struct CommandLine {
  ImportOptions values;
  cl::OptionCategory category{"Import options"};
  cl::opt<std::string> input{cl::Positional,
                             cl::desc("<config.json, a folder with one, a "
                                      "graph.mlir, a model.stablehlo.mlir, or "
                                      "- for standard input>"),
                             cl::cat(category)};
  std::string aboutLog = describeLogOption();
  cl::list<std::string> log{"log", cl::CommaSeparated, cl::desc(aboutLog),
                            cl::value_desc("names"), cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("Write to this file (default: -)"),
                              cl::value_desc("file"), cl::init("-"),
                              cl::cat(category)};
  cl::opt<std::string> batch{
      "batch", cl::desc("Sequences in the global batch (required)"),
      cl::value_desc("number"), cl::cat(category)};
  cl::opt<std::string> seq{
      "seq",
      cl::desc("Tokens in a sequence (required): 8192, or 8Ki; 8k is 8000"),
      cl::value_desc("number"), cl::cat(category)};
  cl::opt<std::string, true> optimizer{
      "optimizer",
      cl::desc(
          "adafactor, adamw (default), adamw_8bit (state in 8 bits), lion, "
          "muon (of matrices; adamw of embeddings, output layer and vectors) "
          "or sgd"),
      cl::location(values.optimizer), cl::init("adamw"), cl::cat(category)};
  cl::opt<double, true> weightDecay{
      "weight-decay", cl::desc("Of parameters of rank >= 2 (default 0.1)"),
      cl::location(values.weightDecay), cl::init(0.1), cl::cat(category)};
  cl::opt<double, true> beta1{
      "beta1", cl::desc("Of adamw and lion (default 0.9)"),
      cl::location(values.beta1), cl::init(0.9), cl::cat(category)};
  cl::opt<double> beta2{
      "beta2", cl::desc("Of adamw (default 0.95) and lion (default 0.99)"),
      cl::cat(category)};
  cl::opt<double, true> eps{"eps", cl::desc("Of adamw (default 1e-8)"),
                            cl::location(values.eps), cl::init(1e-8),
                            cl::cat(category)};
  cl::opt<double> momentum{
      "momentum", cl::desc("Of sgd (default 0.9) and muon (default 0.95)"),
      cl::cat(category)};
  cl::opt<std::string, true> muonRate{
      "muon-rate",
      cl::desc("Of muon, the factor on the rate of a matrix: match_rms_adamw "
               "(default: 0.2 sqrt(max(rows, columns)), so that rates and "
               "decays of adamw fit) or original (sqrt(max(1, rows / "
               "columns)), for rates about 10 times as large)"),
      cl::location(values.muonRate), cl::init("match_rms_adamw"),
      cl::cat(category)};
  cl::opt<int64_t, true> stateBlock{
      "state-block",
      cl::desc(
          "Of adamw_8bit: neighbours of a parameter's last dimension that "
          "are rounded together (default 256); a plan splits parameters into "
          "whole blocks"),
      cl::location(values.stateBlock), cl::init(256), cl::cat(category)};
  cl::opt<double, true> clipNorm{
      "clip-norm",
      cl::desc("Largest global norm of the gradient, 0 for none (default 1)"),
      cl::location(values.clipNorm), cl::init(1.0), cl::cat(category)};
  cl::list<std::string> groups{
      "group",
      cl::desc("Parameters with a rate (a factor on --lr of kerf-run), a "
               "weight decay or an optimizer of their own, such as "
               "embed*:lr=0.1, *.bias:lr=2,weight-decay=0 or "
               "*.mlp.*:optimizer=muon; the first that matches counts"),
      cl::value_desc("pattern:lr=...,weight-decay=...,optimizer=..."),
      cl::cat(category)};
  cl::opt<double, true> zLoss{
      "z-loss", cl::desc("Factor on the squared log-sum-exp (default 0)"),
      cl::location(values.zLoss), cl::init(0.0), cl::cat(category)};
  cl::opt<std::string, true> auxLoss{
      "aux-loss",
      cl::desc("Load-balance loss of experts: config (default: global if "
               "output_router_logits), none, layer, global (of a batch that is "
               "one micro-batch)"),
      cl::location(values.auxLoss), cl::init("config"), cl::cat(category)};
  cl::opt<double> capacityFactor{
      "capacity-factor",
      cl::desc("Drop choices beyond this multiple of an expert's even share "
               "of a sequence (default: drop none)"),
      cl::cat(category)};
  cl::opt<double, true> routerBiasRate{
      "router-bias-rate",
      cl::desc(
          "What a step changes the bias of a router by, to balance experts "
          "(deepseek_v3; default 0.001, 0 for none)"),
      cl::location(values.routerBiasRate), cl::init(0.001), cl::cat(category)};
  cl::opt<int64_t> loraRank{
      "lora-rank",
      cl::desc("Train low-rank adapters of linear layers alone, and freeze all "
               "else (default: train all)"),
      cl::cat(category)};
  cl::opt<double> loraAlpha{
      "lora-alpha",
      cl::desc("Adapters are multiplied by this over their rank (default 8)"),
      cl::init(8), cl::cat(category)};
  cl::list<std::string> loraTargets{
      "lora-targets", cl::CommaSeparated,
      cl::desc("Modules that get an adapter, such as q_proj,v_proj (default: "
               "all-linear, which leaves out routers and the output layer)"),
      cl::value_desc("names"), cl::cat(category)};
  cl::opt<double> loraDropout{"lora-dropout",
                              cl::desc("Before adapters (default 0)"),
                              cl::init(0), cl::cat(category)};
  cl::opt<std::string, true> quantizeBase{
      "quantize-base",
      cl::desc("Keep frozen weights of linear layers and experts in 4-bit "
               "codes: nf4 (default: none)"),
      cl::location(values.quantizeBase), cl::init("none"), cl::cat(category)};
  cl::opt<bool, true> packed{
      "packed",
      cl::desc("Sequences hold several documents: add inputs for segments and "
               "positions"),
      cl::location(values.packed), cl::cat(category)};
  cl::opt<bool> fuseProjections{
      "fuse-projections",
      cl::desc("One matmul of linear layers that read one value, such as gate "
               "and up, or key and value; names and checkpoints stay"),
      cl::cat(category)};
  cl::opt<std::string, true> modelName{
      "name", cl::desc("Name of the model (default: the family)"),
      cl::location(values.modelName), cl::cat(category)};
  cl::opt<bool> plain{"plain",
                      cl::desc("Leave the plain ops of a graph as they are"),
                      cl::cat(category)};
  cl::opt<bool> flat{"flat",
                     cl::desc("Leave a graph's layers that repeat written out"),
                     cl::cat(category)};
  cl::opt<bool> debug{
      "debug",
      cl::desc("Say which layers of a graph were not recognized, and why"),
      cl::cat(category)};
  cl::list<std::string> inputs{
      "inputs", cl::CommaSeparated,
      cl::desc("Of a JAX function: which argument is which input, such as "
               "batch.x=tokens,batch.y=targets (default: by names, else the "
               "first of integers is tokens, the second targets)"),
      cl::value_desc("name=role"), cl::cat(category)};
  cl::list<std::string> params{
      "params", cl::CommaSeparated,
      cl::desc("Of a JAX function: arguments whose leaves are the parameters "
               "(default: the first)"),
      cl::value_desc("names"), cl::cat(category)};
  cl::opt<std::string> listFields{
      "list-fields",
      cl::desc("Print what becomes of each field of a family's configs"),
      cl::value_desc("family"), cl::cat(category)};
  cl::opt<bool> locations{"locations",
                          cl::desc("Print where each op comes from"),
                          cl::cat(category)};
};
} // namespace

static int failImport(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "kerf-import") << message << '\n';
  return 1;
}

static int write(llvm::StringRef path,
                 llvm::function_ref<void(llvm::raw_ostream &)> writer) {
  std::string error;
  if (failed(writeFileAtomically(path, writer, error)))
    return failImport("cannot write '" + path + "': " + error);
  return 0;
}

/// Reads a size; one in thousands is told, as powers of two are often meant.
static int readSize(const cl::opt<std::string> &option, int64_t &value) {
  llvm::StringRef text = option.getValue();
  std::optional<int64_t> number = readWhole(text);
  if (!number)
    return failImport("expected '" + option.ArgStr +
                      "' as a whole number such as 512 or 8Ki (8192), found '" +
                      text + "'");
  value = *number;
  llvm::StringRef digits = text.rtrim("kK");
  std::optional<int64_t> binary = readWhole((digits + "Ki").str());
  if (digits != text && binary)
    llvm::WithColor::note(llvm::errs(), "kerf-import")
        << "--" << option.ArgStr << "=" << text << " is " << groupDigits(value)
        << "; " << digits << "Ki is " << groupDigits(*binary) << '\n';
  return 0;
}

/// Problems of options have no place in a file.
static mlir::LogicalResult printWithoutLocation(mlir::Diagnostic &diagnostic) {
  if (!llvm::isa<mlir::UnknownLoc>(diagnostic.getLocation()))
    return mlir::failure();
  failImport(diagnostic.str());
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    llvm::WithColor::note(llvm::errs(), "kerf-import") << note.str() << '\n';
  return mlir::success();
}

/// The file, or that of the folder.
static std::string configOf(llvm::StringRef path) {
  llvm::SmallString<128> file(path);
  if (llvm::sys::fs::is_directory(path))
    llvm::sys::path::append(file, "config.json");
  return file.str().str();
}

/// Keeps the text of the config with the model, on one line.
static void keepConfig(mlir::ModuleOp module, llvm::StringRef text) {
  auto root = json::parse(text, [](json::Position, const llvm::Twine &) {});
  if (failed(root)) // The importer has read it.
    return;
  auto attribute = mlir::StringAttr::get(module.getContext(),
                                         json::print(*root, {/*indent=*/0}));
  for (ModelOp model : module.getOps<ModelOp>())
    model->setAttr(kConfigAttrName, attribute);
}

/// What people call a model: the folder of its config.json, or the name of
/// another file; "" where it comes from standard input.
static std::string titleOf(llvm::StringRef path) {
  if (path == "-")
    return "";
  llvm::SmallString<128> whole(path);
  if (llvm::sys::fs::make_absolute(whole))
    return "";
  llvm::sys::path::remove_dots(whole, /*remove_dot_dot=*/true);
  llvm::StringRef stem = llvm::sys::path::stem(whole);
  return stem != "config"
             ? stem.str()
             : llvm::sys::path::filename(llvm::sys::path::parent_path(whole))
                   .str();
}

/// Names models, unless --name did.
static void setTitle(mlir::ModuleOp module, const std::string &title) {
  if (!title.empty())
    for (ModelOp model : module.getOps<ModelOp>())
      model->setAttr(kTitleAttrName,
                     mlir::StringAttr::get(module.getContext(), title));
}

//===----------------------------------------------------------------------===//
// Options that nothing asks for
//===----------------------------------------------------------------------===//

/// Whether a parameter of a model may have one of these rules.
template <typename... Rules> static bool hasRule(ModelOp model) {
  if (llvm::isa_and_present<Rules...>(model->getAttr("optimizer")))
    return true;
  auto groups = model->getAttrOfType<mlir::ArrayAttr>("groups");
  return groups &&
         llvm::any_of(groups.getAsRange<GroupAttr>(), [](GroupAttr group) {
           return llvm::isa_and_present<Rules...>(group.getRule());
         });
}

static bool routesTokens(ModelOp model) { return hasExperts(model); }

/// True if a weight is those of several layers.
static bool hasFusedProjections(ModelOp model) {
  return model.getBody()
      .walk([](ParamOp param) {
        bool isFused = param.getName().contains(',');
        return isFused ? mlir::WalkResult::interrupt()
                       : mlir::WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether a model has what an option is of; and, where it has not, whether the
/// value says just that.
static constexpr struct {
  llvm::StringLiteral option;
  bool (*isUsed)(ModelOp);
  llvm::StringLiteral why;
  bool (*isHarmless)(const ImportOptions &) = nullptr;
} kUses[] = {
    {"beta1", hasRule<AdamWAttr, AdamW8bitAttr, LionAttr>,
     "no parameter has adamw, adamw_8bit or lion"},
    {"beta2", hasRule<AdamWAttr, AdamW8bitAttr, LionAttr>,
     "no parameter has adamw, adamw_8bit or lion"},
    {"eps", hasRule<AdamWAttr, AdamW8bitAttr>,
     "no parameter has adamw or adamw_8bit"},
    {"momentum", hasRule<SGDAttr, MuonAttr>, "no parameter has sgd or muon"},
    {"muon-rate", hasRule<MuonAttr>, "no parameter has muon"},
    {"state-block", hasRule<AdamW8bitAttr>, "no parameter has adamw_8bit"},
    {"capacity-factor", routesTokens, "the model has no experts"},
    {"aux-loss", routesTokens, "the model has no experts",
     [](const ImportOptions &options) {
       return options.auxLoss == "none" || options.auxLoss == "config";
     }},
    {"router-bias-rate", hasRule<BalanceAttr>,
     "no router of the model has a bias that balances experts",
     [](const ImportOptions &options) { return options.routerBiasRate == 0; }},
    {"fuse-projections", hasFusedProjections,
     "no two linear layers read one value by trained weights of one shape, or "
     "the model has adapters"},
};

/// Refuses options that change nothing: somebody expects another training.
static int checkUse(mlir::ModuleOp module, const ImportOptions &options) {
  for (const auto &[name, isUsed, why, isHarmless] : kUses) {
    bool isGiven =
        cl::getRegisteredOptions().lookup(name)->getNumOccurrences() > 0;
    if (isGiven && llvm::none_of(module.getOps<ModelOp>(), isUsed) &&
        !(isHarmless && isHarmless(options)))
      return failImport("'--" + name + "' has no effect: " + why +
                        "; leave it out");
  }
  return 0;
}

/// Rewrites the model as options ask for; fails where one of them has no
/// effect.
static int finish(mlir::ModuleOp module, const CommandLine &options) {
  if (options.fuseProjections) {
    mlir::PassManager pm(module.getContext());
    pm.addPass(createFuseProjectionsPass());
    if (failed(pm.run(module)))
      return 1;
  }
  return checkUse(module, options.values);
}

/// Options of configs, which a graph has in itself; a function of JAX has no
/// optimizer.
static int checkGraphOptions(CommandLine &options, bool isFunction) {
  static constexpr llvm::StringLiteral common[] = {
      "o",    "log",   "name",      "plain",
      "flat", "debug", "locations", "fuse-projections"};
  static constexpr llvm::StringLiteral optimizers[] = {
      "optimizer", "weight-decay", "beta1",       "beta2",     "eps",
      "momentum",  "muon-rate",    "state-block", "clip-norm", "group"};
  for (auto &[name, option] : cl::getRegisteredOptions()) {
    if (!option->getNumOccurrences() || llvm::is_contained(common, name) ||
        !llvm::is_contained(option->Categories, &options.category))
      continue;
    if (name == "inputs" || name == "params") {
      if (!isFunction)
        return failImport("--" + name + " is for functions of JAX");
      continue;
    }
    if (!isFunction || !llvm::is_contained(optimizers, name))
      return failImport("--" + name +
                        " is for configs: a graph says it itself");
  }
  return 0;
}

static int runGraph(CommandLine &options,
                    std::unique_ptr<llvm::MemoryBuffer> buffer,
                    llvm::StringRef path) {
  if (int bad = checkGraphOptions(options, isStablehlo(buffer->getBuffer())))
    return bad;
  GraphOptions graph;
  graph.raises = !options.plain;
  graph.rolls = !options.flat;
  graph.explains = options.debug;
  graph.stablehlo.inputs.assign(options.inputs.begin(), options.inputs.end());
  graph.stablehlo.params.assign(options.params.begin(), options.params.end());
  graph.optimizer = options.values;
  return importGraph(std::move(buffer), graph, [&](mlir::ModuleOp module) {
    if (int bad = finish(module, options))
      return bad;
    const std::string &name = options.values.modelName;
    for (ModelOp model : module.getOps<ModelOp>())
      if (!name.empty())
        model.setSymName(name);
    setTitle(module, name.empty() ? titleOf(path) : "");
    mlir::OpPrintingFlags flags;
    flags.enableDebugInfo(); // lines of the user's source
    return write(options.output, [&](llvm::raw_ostream &os) {
      module->print(os, flags);
      os << '\n';
    });
  });
}

static int runImport(CommandLine &options) {
  std::string path = configOf(options.input.getValue());
  auto buffer = readFileOrStdin(path);
  if (!buffer)
    return failImport("cannot read '" + path +
                      "': " + toString(buffer.takeError()));
  std::string name = path == "-" ? "<stdin>" : path;
  llvm::StringRef text = (*buffer)->getBuffer();
  if (isGraph(path, text))
    return runGraph(options, std::move(*buffer), path);
  if (options.plain || options.flat || options.debug)
    return failImport("--plain, --flat and --debug are for graphs");
  if (!options.inputs.empty() || !options.params.empty())
    return failImport("--inputs and --params are for functions of JAX");
  for (const cl::Option *option :
       {static_cast<const cl::Option *>(&options.batch),
        static_cast<const cl::Option *>(&options.seq)})
    if (!option->getNumOccurrences())
      return failImport("expected --" + option->ArgStr + ", see --help");
  if (readSize(options.batch, options.values.batch) ||
      readSize(options.seq, options.values.seq))
    return 1;
  if (auto longLine = findLongLine(text)) {
    llvm::errs() << name << ':' << *longLine << '\n';
    return 1;
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(text, name),
                             llvm::SMLoc());
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::SourceMgrDiagnosticHandler handler(sources, &context);
  mlir::ScopedDiagnosticHandler optionHandler(&context, printWithoutLocation);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      importConfig(text, name, options.values, &context);
  if (!module)
    return 1;
  if (int bad = finish(*module, options))
    return bad;
  keepConfig(*module, text);
  setTitle(*module, options.values.modelName.empty() ? titleOf(path) : "");
  mlir::OpPrintingFlags flags;
  flags.enableDebugInfo(options.locations);
  return write(options.output, [&](llvm::raw_ostream &os) {
    module->print(os, flags);
    os << '\n';
  });
}

static int listFields(const CommandLine &options) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (!printFields(options.listFields, os))
    return failImport("unknown family '" + llvm::Twine(options.listFields) +
                      "', expected one of " + listFamilies());
  return write(options.output,
               [&](llvm::raw_ostream &stream) { stream << text; });
}

/// Options of adapters mean something with a rank alone.
static int readLora(CommandLine &options) {
  if (options.loraRank.getNumOccurrences()) {
    LoraOptions &lora = options.values.lora.emplace();
    lora.rank = options.loraRank;
    lora.alpha = options.loraAlpha;
    lora.dropout = options.loraDropout;
    if (options.loraTargets.getNumOccurrences())
      lora.targets.assign(options.loraTargets.begin(),
                          options.loraTargets.end());
    return 0;
  }
  const std::pair<llvm::StringRef, int> others[] = {
      {"lora-alpha", options.loraAlpha.getNumOccurrences()},
      {"lora-targets", options.loraTargets.getNumOccurrences()},
      {"lora-dropout", options.loraDropout.getNumOccurrences()}};
  for (auto [name, count] : others)
    if (count)
      return failImport("expected --lora-rank with --" + name);
  return 0;
}

int kerf::importMain(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  showOwnVersion();
  CommandLine options;
  cl::HideUnrelatedOptions(options.category);
  cl::ParseCommandLineOptions(argc, argv, overview());
  std::string unknown;
  if (!enableLogs(options.log, unknown))
    return failImport(unknown);
  if (options.listFields.getNumOccurrences())
    return listFields(options);
  if (!options.input.getNumOccurrences())
    return failImport("expected the path of a config or a graph, see --help");
  options.values.groups.assign(options.groups.begin(), options.groups.end());
  if (options.beta2.getNumOccurrences())
    options.values.beta2 = options.beta2.getValue();
  if (options.momentum.getNumOccurrences())
    options.values.momentum = options.momentum.getValue();
  if (options.capacityFactor.getNumOccurrences())
    options.values.capacityFactor = options.capacityFactor.getValue();
  if (int bad = readLora(options))
    return bad;
  return runImport(options);
}
