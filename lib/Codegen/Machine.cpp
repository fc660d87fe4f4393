//===- Machine.cpp - from code to an object file --------------------------===//

#include "Machine.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

std::unique_ptr<MLIRContext> kerf::codegen::makeCodeContext() {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect,
                  LLVM::LLVMDialect, scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  auto context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

static LogicalResult lowerToLLVMDialect(ModuleOp module) {
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  pm.enableVerifier(false);
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  return pm.run(module);
}

static std::unique_ptr<llvm::TargetMachine>
makeTargetMachine(const CpuTarget &target, std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found)
    return nullptr;
  std::string features;
  for (const std::string &feature : target.features)
    features += (features.empty() ? "+" : ",+") + feature;
  // The features alone decide what is used; the CPU's name only tunes.
  return std::unique_ptr<llvm::TargetMachine>(found->createTargetMachine(
      triple, "x86-64", features, llvm::TargetOptions(), llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

void kerf::codegen::optimize(llvm::Module &module, llvm::TargetMachine &machine,
                             Author author) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  bool isPlain = author == Author::User;
  bool isGpu = machine.getTargetTriple().isNVPTX();
  tuning.LoopVectorization = isPlain;
  tuning.SLPVectorization = isPlain;
  tuning.LoopUnrolling = isPlain || isGpu; // many loads at once hide latency
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder
      .buildPerModuleDefaultPipeline(isPlain || isGpu
                                         ? llvm::OptimizationLevel::O3
                                         : llvm::OptimizationLevel::O1)
      .run(module, modules);
}

static void setAttributes(llvm::Module &module, const CpuTarget &target) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("tune-cpu", target.name);
    function.addFnAttr("prefer-vector-width",
                       std::to_string(target.vectorBytes * 8));
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

void kerf::codegen::dump(llvm::Module &module, llvm::StringRef folder,
                         llvm::StringRef name) {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, name + ".ll");
  std::error_code code;
  llvm::raw_fd_ostream os(path, code);
  if (!code)
    module.print(os, nullptr);
}

static FailureOr<llvm::SmallVector<char, 0>>
emitObject(llvm::Module &code, llvm::TargetMachine &machine, Author author,
           const CpuTarget &target, llvm::StringRef name,
           llvm::StringRef dumpTo, std::string &error) {
  code.setModuleIdentifier("kernel");
  code.setSourceFileName("kernel");
  code.setTargetTriple(machine.getTargetTriple());
  code.setDataLayout(machine.createDataLayout());
  setAttributes(code, target);
  optimize(code, machine, author);
  if (!dumpTo.empty())
    dump(code, dumpTo, name);
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream os(object);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, os, nullptr,
                                  llvm::CodeGenFileType::ObjectFile)) {
    error = "the target makes no object files";
    return failure();
  }
  passes.run(code);
  return object;
}

std::unique_ptr<llvm::Module> kerf::codegen::toLLVM(ModuleOp module,
                                                    llvm::LLVMContext &context,
                                                    std::string &error) {
  if (failed(lowerToLLVMDialect(module))) {
    error = "lowering to LLVM failed";
    return nullptr;
  }
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(module, context);
  if (!code)
    error = "translation to LLVM IR failed";
  return code;
}

FailureOr<llvm::SmallVector<char, 0>>
kerf::codegen::makeObject(ModuleOp module, const CpuTarget &target,
                          llvm::StringRef name, llvm::StringRef dumpTo,
                          std::string &error) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = toLLVM(module, context, error);
  std::unique_ptr<llvm::TargetMachine> machine =
      makeTargetMachine(target, error);
  if (!code || !machine)
    return failure();
  return emitObject(*code, *machine, Author::Kerf, target, name, dumpTo, error);
}

FailureOr<llvm::SmallVector<char, 0>>
kerf::codegen::makeOwnObject(const KernelCode &kernel, const CpuTarget &target,
                             llvm::StringRef symbol, llvm::StringRef dumpTo,
                             std::string &error) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine =
      makeTargetMachine(target, error);
  if (!machine)
    return failure();
  std::unique_ptr<llvm::Module> code =
      readOwnKernel(kernel, context, *machine, symbol, error);
  if (!code)
    return failure();
  return emitObject(*code, *machine, Author::User, target, symbol, dumpTo,
                    error);
}
