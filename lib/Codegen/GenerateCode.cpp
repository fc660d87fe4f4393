#include "kerf/Codegen/Codegen.h"
#include "kerf/Codegen/Passes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "codegen"

namespace kerf {
#define GEN_PASS_DEF_GENERATECODEPASS
#define GEN_PASS_DEF_VERIFYCODEPASS
#include "kerf/Codegen/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Bytes of the image in one op: tools refuse very long lines.
static constexpr size_t kPieceBytes = 96 << 10;

static void addPieces(exec::ProgramOp program, llvm::StringRef bytes,
                      bool isPtx) {
  OpBuilder builder = OpBuilder::atBlockEnd(&program.getBody().front());
  for (size_t at = 0; at < bytes.size(); at += kPieceBytes)
    exec::ImageOp::create(builder, program.getLoc(),
                          llvm::encodeBase64(bytes.substr(at, kPieceBytes)),
                          isPtx);
}

/// Gives the first program the code, in pieces, in place of what the programs
/// may have.
static void setImages(llvm::ArrayRef<exec::ProgramOp> programs,
                      const CompiledKernels &compiled) {
  for (exec::ProgramOp program : programs)
    for (auto old :
         llvm::make_early_inc_range(program.getBody().getOps<exec::ImageOp>()))
      old.erase();
  addPieces(programs.front(), compiled.image, /*isPtx=*/false);
  addPieces(programs.front(), compiled.ptx, /*isPtx=*/true);
}

static void setCode(exec::KernelOp kernel, const CompiledKernel &code) {
  Builder builder(kernel.getContext());
  NamedAttrList attributes;
  attributes.append("symbol", builder.getStringAttr(code.symbol));
  attributes.append("units", builder.getI64IntegerAttr(code.units));
  attributes.append("grain", builder.getI64IntegerAttr(code.grain));
  if (code.threads)
    attributes.append("threads", builder.getI64IntegerAttr(code.threads));
  kernel->setAttr("code", attributes.getDictionary(kernel.getContext()));
}

/// Says what a kernel of a GPU takes.
static void remarkUsage(exec::KernelOp kernel, const CompiledKernel &code) {
  int64_t bytes = 0;
  auto add = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    unsigned bits = tensor.getElementTypeBitWidth();
    bytes += tensor.getNumElements() * ((bits + 7) / 8);
  };
  llvm::for_each(kernel.getArgumentTypes(), add);
  llvm::for_each(kernel.getResultTypes(), add);
  kernel->emitRemark() << code.symbol << ": " << code.units << " blocks of "
                       << code.threads << " threads, " << code.registers
                       << " registers, " << code.spilledBytes
                       << " bytes spilled, " << code.sharedBytes
                       << " bytes shared, moves " << bytes << " bytes at least";
}

/// Compiles for `target`, which the programs then name as `kind` and features.
template <typename Target>
static LogicalResult generate(ModuleOp module, const Target &target,
                              llvm::StringRef kind, unsigned threads,
                              bool reports) {
  llvm::SmallVector<exec::ProgramOp> programs(module.getOps<exec::ProgramOp>());
  if (programs.empty())
    return success();
  for (exec::ProgramOp program : programs) {
    auto placed = program->getAttrOfType<StringAttr>("target");
    if (placed && placed.getValue() != kind)
      return program.emitOpError()
             << "was placed in memory for target '" << placed.getValue()
             << "', kernels are compiled for '" << kind << "'";
  }
  CompileOptions options;
  options.threads = threads;
  FailureOr<CompiledKernels> compiled = compileKernels(module, target, options);
  if (failed(compiled))
    return failure();
  size_t at = 0;
  module.walk([&](exec::KernelOp kernel) {
    const CompiledKernel &code = compiled->kernels[compiled->kernelOf[at++]];
    setCode(kernel, code);
    if (reports && code.threads > 0)
      remarkUsage(kernel, code);
  });
  Builder builder(module.getContext());
  for (exec::ProgramOp program : programs) {
    program->setAttr("target", builder.getStringAttr(kind));
    program->setAttr("cpu", builder.getStringAttr(target.name));
    program->setAttr(
        "features", builder.getStringAttr(llvm::join(compiled->features, ",")));
  }
  setImages(programs, *compiled);
  LDBG() << "kernels compiled for " << target.name;
  return success();
}

/// True with `code = {symbol = "k0a1b", units = 8, grain = 1}`; of a GPU with
/// `threads`, too.
static bool hasCode(exec::KernelOp kernel) {
  auto code = kernel->getAttrOfType<DictionaryAttr>("code");
  return code && code.getAs<StringAttr>("symbol") &&
         code.getAs<IntegerAttr>("units") && code.getAs<IntegerAttr>("grain");
}

static bool hasImage(exec::ProgramOp program) {
  return !program.getBody().getOps<exec::ImageOp>().empty();
}

static LogicalResult verifyCode(ModuleOp module) {
  auto refuse = [](Operation *op, llvm::StringRef what) {
    op->emitOpError(what).attachNote() << "run 'kerf-generate-code' first";
    return failure();
  };
  llvm::SmallVector<exec::ProgramOp> programs(module.getOps<exec::ProgramOp>());
  bool needsImage = false;
  for (auto [i, program] : llvm::enumerate(programs)) {
    for (auto kernel : program.getBody().getOps<exec::KernelOp>()) {
      needsImage = true;
      if (!hasCode(kernel))
        return refuse(kernel, "has no machine code");
    }
    if (i > 0 && hasImage(program))
      return refuse(program, "has an 'exec.image', expected one in the first "
                             "program alone");
  }
  if (needsImage && !hasImage(programs.front()))
    return refuse(programs.front(), "has no 'exec.image'");
  return success();
}

namespace {
struct GenerateCode : kerf::impl::GenerateCodePassBase<GenerateCode> {
  using GenerateCodePassBase::GenerateCodePassBase;

  void runOnOperation() override {
    std::string error;
    LogicalResult result = failure();
    if (target == "cuda")
      result = generateFor(resolveGpu(gpu, error));
    else if (target == "cpu")
      result = generateFor(resolveCpu(cpu, error));
    else
      error = "unknown target '" + target + "', expected 'cpu' or 'cuda'";
    if (!error.empty())
      getOperation().emitError() << error;
    if (failed(result))
      signalPassFailure();
  }

  template <typename Target>
  LogicalResult generateFor(FailureOr<Target> resolved) {
    if (failed(resolved))
      return failure();
    return generate(getOperation(), *resolved, target, threads, report);
  }
};

struct VerifyCode : kerf::impl::VerifyCodePassBase<VerifyCode> {
  void runOnOperation() override {
    if (failed(verifyCode(getOperation())))
      signalPassFailure();
  }
};
} // namespace
