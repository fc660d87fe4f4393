//===- OwnKernel.cpp - kernels that ops bring along -----------------------===//

#include "Machine.h"

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Transforms/IPO/Internalize.h"

using namespace kerf;

/// What is wrong with the form of the module, if anything.
static std::string checkForm(const llvm::Module &module,
                             const KernelCode &kernel,
                             const llvm::DataLayout &layout) {
  std::string problem;
  llvm::raw_string_ostream os(problem);
  if (llvm::verifyModule(module, &os))
    return "is no sound LLVM IR: " + llvm::StringRef(problem).rtrim().str();
  if (!module.getDataLayoutStr().empty() && module.getDataLayout() != layout)
    return "is for another machine: its data layout is '" +
           module.getDataLayoutStr() + "', expected '" +
           layout.getStringRepresentation() + "'";
  llvm::LLVMContext &context = module.getContext();
  auto *i64 = llvm::Type::getInt64Ty(context);
  auto *type = llvm::FunctionType::get(
      llvm::Type::getVoidTy(context),
      {llvm::PointerType::getUnqual(context), i64, i64}, /*isVarArg=*/false);
  const llvm::Function *function = module.getFunction(kernel.function);
  if (!function || function->isDeclaration() ||
      function->getFunctionType() != type ||
      function->getCallingConv() != llvm::CallingConv::C ||
      function->hasAvailableExternallyLinkage())
    return "has no function 'void " + kernel.function +
           "(void *const *, int64_t, int64_t)'";
  return problem;
}

/// True for functions of the C library that take and return numbers.
static bool isNumeric(const llvm::Function &function,
                      const llvm::TargetLibraryInfoImpl &library) {
  llvm::LibFunc known;
  return library.getLibFunc(function, known) &&
         function.getReturnType()->isFloatingPointTy() &&
         llvm::none_of(function.args(), [](const llvm::Argument &argument) {
           return argument.getType()->isPointerTy();
         });
}

/// What the module needs from outside, or keeps from call to call.
static std::string checkPurity(const llvm::Module &module) {
  llvm::TargetLibraryInfoImpl library(module.getTargetTriple());
  if (!module.getModuleInlineAsm().empty())
    return "has assembly outside of functions, expected none";
  for (const llvm::Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() &&
        !function.use_empty() && !isNumeric(function, library))
      return "calls '" + function.getName().str() +
             "', expected its own functions and those of the C library that "
             "take and return numbers";
  for (const llvm::GlobalVariable &variable : module.globals()) {
    std::string name = variable.getName().str();
    if (variable.isDeclaration() && !variable.use_empty())
      return "reads '" + name + "', to which 'sizes' gives no value";
    if (!variable.isDeclaration() && !variable.isConstant())
      return "has the variable '" + name +
             "', expected constants alone: units run at the same time";
  }
  return "";
}

/// Gives the module's sizes their values.
static std::string setSizes(llvm::Module &module, const KernelCode &kernel) {
  for (auto &[name, value] : kernel.sizes) {
    llvm::GlobalVariable *variable = module.getGlobalVariable(name);
    if (!variable)
      continue; // that it does not read
    if (!variable->isDeclaration() ||
        !variable->getValueType()->isIntegerTy(64))
      return "defines '" + name + "', expected 'extern const int64_t'";
    variable->setInitializer(
        llvm::ConstantInt::get(variable->getValueType(), value));
    variable->setConstant(true);
    variable->setLinkage(llvm::GlobalValue::InternalLinkage);
  }
  return "";
}

/// Removes what the module says about the machine and the way that it was
/// compiled: the target decides.
static void dropOrigin(llvm::Module &module) {
  llvm::StripDebugInfo(module);
  for (llvm::StringRef name : {"llvm.ident", "llvm.commandline"})
    if (llvm::NamedMDNode *node = module.getNamedMetadata(name))
      node->eraseFromParent();
  for (llvm::Function &function : module) {
    for (llvm::StringRef name : {"target-cpu", "target-features", "tune-cpu",
                                 "min-legal-vector-width", "probe-stack"})
      function.removeFnAttr(name);
    for (auto attribute :
         {llvm::Attribute::OptimizeNone, llvm::Attribute::NoInline,
          llvm::Attribute::StackProtect, llvm::Attribute::StackProtectReq,
          llvm::Attribute::StackProtectStrong})
      function.removeFnAttr(attribute);
  }
}

std::unique_ptr<llvm::Module>
kerf::codegen::readOwnKernel(const KernelCode &kernel,
                             llvm::LLVMContext &context,
                             const llvm::TargetMachine &machine,
                             llvm::StringRef symbol, std::string &error) {
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseAssemblyString(kernel.code, diagnostic, context);
  auto fail = [&](const std::string &what) {
    error = "brings a kernel that " + what;
    return nullptr;
  };
  if (!module)
    return fail("is no LLVM IR: line " +
                std::to_string(diagnostic.getLineNo()) + ": " +
                diagnostic.getMessage().str());
  llvm::DataLayout layout = machine.createDataLayout();
  std::string problem = checkForm(*module, kernel, layout);
  if (problem.empty())
    problem = setSizes(*module, kernel);
  module->setTargetTriple(machine.getTargetTriple());
  module->setDataLayout(layout);
  if (problem.empty())
    problem = checkPurity(*module);
  if (!problem.empty())
    return fail(problem);
  dropOrigin(*module);
  llvm::Function *function = module->getFunction(kernel.function);
  function->setName(symbol);
  // Whatever it was in its own file: the image exports it.
  function->setLinkage(llvm::GlobalValue::ExternalLinkage);
  function->setVisibility(llvm::GlobalValue::DefaultVisibility);
  function->setComdat(nullptr);
  llvm::internalizeModule(*module, [&](const llvm::GlobalValue &value) {
    return value.getName() == symbol;
  });
  return module;
}
