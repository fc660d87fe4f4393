//===- GpuMachine.cpp - from code to PTX and a cubin ----------------------===//

#include "Machine.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"

#include <mutex>

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

static constexpr unsigned kSharedMemory = 3; ///< its address space

static std::unique_ptr<llvm::TargetMachine>
makeGpuMachine(const GpuTarget &target, std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found)
    return nullptr;
  return std::unique_ptr<llvm::TargetMachine>(found->createTargetMachine(
      triple, target.name, "+ptx" + std::to_string(target.ptx),
      llvm::TargetOptions(), std::nullopt, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
}

/// Tells the assembler the size of blocks and how many registers a thread may
/// have. Left alone it spills some to have more threads at a time, which does
/// not pay: these kernels wait for memory.
static void setBlock(llvm::Module &module, llvm::StringRef symbol,
                     int64_t threads, int64_t registers) {
  llvm::Function *kernel = module.getFunction(symbol);
  kernel->addFnAttr("nvvm.reqntid", std::to_string(threads));
  kernel->addFnAttr("nvvm.maxnreg", std::to_string(registers));
}

/// What is wrong with the shared memory that a block takes; empty if nothing.
static std::string checkShared(const llvm::Module &module) {
  constexpr uint64_t mostBytes = 48 << 10; // of what needs no launch attribute
  uint64_t bytes = 0;
  for (const llvm::GlobalVariable &variable : module.globals())
    if (variable.getAddressSpace() == kSharedMemory)
      bytes += llvm::alignTo(
          module.getDataLayout().getTypeAllocSize(variable.getValueType()),
          variable.getAlign().valueOrOne());
  if (bytes <= mostBytes)
    return "";
  return "takes " + std::to_string(bytes) +
         " bytes of shared memory per block, a GPU has " +
         std::to_string(mostBytes) + ": fuse fewer sums into it";
}

FailureOr<std::string>
kerf::codegen::makePtx(ModuleOp module, const GpuTarget &target,
                       llvm::StringRef symbol, int64_t threads,
                       int64_t registers, llvm::StringRef dumpTo,
                       std::string &error) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = toLLVM(module, context, error);
  std::unique_ptr<llvm::TargetMachine> machine = makeGpuMachine(target, error);
  if (!code || !machine)
    return failure();
  code->setModuleIdentifier("kernel");
  code->setSourceFileName("kernel");
  code->setTargetTriple(machine->getTargetTriple());
  code->setDataLayout(machine->createDataLayout());
  setBlock(*code, symbol, threads, registers);
  optimize(*code, *machine, Author::Kerf);
  error = checkShared(*code);
  if (!error.empty())
    return failure();
  if (!dumpTo.empty())
    dump(*code, dumpTo, symbol);
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream os(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, os, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile)) {
    error = "the target makes no PTX";
    return failure();
  }
  passes.run(*code);
  return std::string(text.begin(), text.end());
}

//===----------------------------------------------------------------------===//
// One module
//===----------------------------------------------------------------------===//

/// The text after the lines that every module begins with.
static llvm::StringRef bodyOf(llvm::StringRef ptx) {
  constexpr llvm::StringLiteral last = ".address_size 64";
  return ptx.substr(ptx.find(last) + last.size()).trim();
}

static llvm::StringRef headerOf(llvm::StringRef ptx) {
  return ptx.substr(0, ptx.find(bodyOf(ptx))).trim();
}

std::string kerf::codegen::joinPtx(llvm::ArrayRef<std::string> modules) {
  std::string all;
  for (llvm::StringRef module : modules) {
    if (all.empty())
      all = headerOf(module).str() + "\n";
    all += "\n" + bodyOf(module).str() + "\n";
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Assembler
//===----------------------------------------------------------------------===//

namespace {
/// A file that is removed in the end.
struct TemporaryFile {
  llvm::SmallString<128> path;
  std::error_code create(llvm::StringRef suffix) {
    return llvm::sys::fs::createTemporaryFile("kerf-kernels", suffix, path);
  }
  ~TemporaryFile() {
    if (!path.empty())
      llvm::sys::fs::remove(path);
  }
  std::string read() const {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().str() : std::string();
  }
};
} // namespace

/// Writes the whole file. A stream with an error that nobody has looked at
/// would end the process.
static std::error_code write(const TemporaryFile &file, llvm::StringRef text) {
  std::error_code code;
  llvm::raw_fd_ostream os(file.path, code);
  if (code)
    return code;
  os << text;
  os.close();
  code = os.error();
  os.clear_error();
  return code;
}

/// What the assembler did wrong; empty if nothing. `reason`: why it did not
/// run.
static std::string complaintOf(llvm::StringRef ptxas, int status,
                               llvm::StringRef reason,
                               const Assembled &result) {
  std::string name = "'" + ptxas.str() + "'";
  llvm::StringRef said =
      llvm::StringRef(result.messages).take_front(2000).rtrim();
  if (status < 0)
    return name +
           " did not run to its end: " + (reason.empty() ? said : reason).str();
  std::string message = name + " ended with status " + std::to_string(status);
  if (status == 0 && !result.cubin.empty())
    return "";
  if (status == 0)
    message += " but made no cubin";
  return said.empty() ? message : message + ": " + said.str();
}

FailureOr<Assembled> kerf::codegen::assemble(llvm::StringRef ptx,
                                             const GpuTarget &target,
                                             std::string &error) {
  TemporaryFile input, output, messages;
  constexpr llvm::StringLiteral place = "; set TMPDIR to a folder with room";
  for (auto [file, suffix] :
       {std::pair{&input, "ptx"}, {&output, "cubin"}, {&messages, "txt"}})
    if (std::error_code code = file->create(suffix)) {
      error = "cannot make a temporary file: " + code.message() + place.str();
      return failure();
    }
  if (std::error_code code = write(input, ptx)) {
    error = "cannot write '" + input.path.str().str() + "': " + code.message() +
            place.str();
    return failure();
  }
  llvm::StringRef arguments[] = {target.ptxas, "-arch",     target.name, "-v",
                                 "-o",         output.path, input.path};
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(),
                                                messages.path, messages.path};
  std::string reason;
  int status = llvm::sys::ExecuteAndWait(target.ptxas, arguments, std::nullopt,
                                         redirects, 0, 0, &reason);
  Assembled result{output.read(), messages.read()};
  error = complaintOf(target.ptxas, status, reason, result);
  if (!error.empty())
    return failure();
  return result;
}
