#include "kerf/Codegen/Codegen.h"
#include "kerf/Codegen/Passes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Base64.h"

namespace kerf {
#define GEN_PASS_DEF_GENERATECODEPASS
#define GEN_PASS_DEF_VERIFYCODEPASS
#include "kerf/Codegen/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Bytes of the image in one op: tools refuse very long lines.
static constexpr size_t kPieceBytes = 96 << 10;

/// Gives the first program the image, in pieces, in place of those that the
/// programs may have.
static void setImage(llvm::ArrayRef<exec::ProgramOp> programs,
                     llvm::StringRef image) {
  for (exec::ProgramOp program : programs)
    for (auto old :
         llvm::make_early_inc_range(program.getBody().getOps<exec::ImageOp>()))
      old.erase();
  exec::ProgramOp first = programs.front();
  OpBuilder builder = OpBuilder::atBlockEnd(&first.getBody().front());
  for (size_t at = 0; at < image.size(); at += kPieceBytes)
    exec::ImageOp::create(builder, first.getLoc(),
                          llvm::encodeBase64(image.substr(at, kPieceBytes)));
}

static void setCode(exec::KernelOp kernel, const CompiledKernel &code) {
  Builder builder(kernel.getContext());
  kernel->setAttr(
      "code",
      builder.getDictionaryAttr(
          {builder.getNamedAttr("symbol", builder.getStringAttr(code.symbol)),
           builder.getNamedAttr("units", builder.getI64IntegerAttr(code.units)),
           builder.getNamedAttr("grain",
                                builder.getI64IntegerAttr(code.grain))}));
}

static LogicalResult generate(ModuleOp module, const CpuTarget &target,
                              unsigned threads) {
  llvm::SmallVector<exec::ProgramOp> programs(module.getOps<exec::ProgramOp>());
  if (programs.empty())
    return success();
  CompileOptions options;
  options.threads = threads;
  FailureOr<CompiledKernels> compiled = compileKernels(module, target, options);
  if (failed(compiled))
    return failure();
  size_t at = 0;
  module.walk([&](exec::KernelOp kernel) {
    setCode(kernel, compiled->kernels[compiled->kernelOf[at++]]);
  });
  Builder builder(module.getContext());
  for (exec::ProgramOp program : programs) {
    program->setAttr("cpu", builder.getStringAttr(target.name));
    program->setAttr(
        "features", builder.getStringAttr(llvm::join(compiled->features, ",")));
  }
  setImage(programs, compiled->image);
  return success();
}

/// True with `code = {symbol = "k0a1b", units = 8, grain = 1}`.
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
    FailureOr<CpuTarget> target = resolveCpu(cpu, error);
    if (failed(target)) {
      getOperation().emitError() << error;
      return signalPassFailure();
    }
    if (failed(generate(getOperation(), *target, threads)))
      signalPassFailure();
  }
};

struct VerifyCode : kerf::impl::VerifyCodePassBase<VerifyCode> {
  void runOnOperation() override {
    if (failed(verifyCode(getOperation())))
      signalPassFailure();
  }
};
} // namespace
