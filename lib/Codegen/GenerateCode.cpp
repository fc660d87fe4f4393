#include "kerf/Codegen/Codegen.h"
#include "kerf/Codegen/Passes.h"

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

/// Gives the program the image, in pieces, in place of the one it may have.
static void setImage(exec::ProgramOp program, llvm::StringRef image) {
  for (auto old :
       llvm::make_early_inc_range(program.getBody().getOps<exec::ImageOp>()))
    old.erase();
  OpBuilder builder = OpBuilder::atBlockEnd(&program.getBody().front());
  for (size_t at = 0; at < image.size(); at += kPieceBytes)
    exec::ImageOp::create(builder, program.getLoc(),
                          llvm::encodeBase64(image.substr(at, kPieceBytes)));
}

static LogicalResult generate(exec::ProgramOp program, const CpuTarget &target,
                              unsigned threads) {
  CompileOptions options;
  options.threads = threads;
  FailureOr<CompiledKernels> compiled =
      compileKernels(program, target, options);
  if (failed(compiled))
    return failure();
  OpBuilder builder(program.getContext());
  size_t at = 0;
  program.walk([&](exec::KernelOp kernel) {
    const CompiledKernel &code = compiled->kernels[compiled->kernelOf[at++]];
    kernel->setAttr(
        "code",
        builder.getDictionaryAttr(
            {builder.getNamedAttr("symbol", builder.getStringAttr(code.symbol)),
             builder.getNamedAttr("units",
                                  builder.getI64IntegerAttr(code.units)),
             builder.getNamedAttr("grain",
                                  builder.getI64IntegerAttr(code.grain))}));
  });
  program->setAttr("cpu", builder.getStringAttr(target.name));
  std::string features;
  for (const std::string &feature : compiled->features)
    features += (features.empty() ? "" : ",") + feature;
  program->setAttr("features", builder.getStringAttr(features));
  setImage(program, compiled->image);
  return success();
}

/// True with `code = {symbol = "k0a1b", units = 8, grain = 1}`.
static bool hasCode(exec::KernelOp kernel) {
  auto code = kernel->getAttrOfType<DictionaryAttr>("code");
  return code && code.getAs<StringAttr>("symbol") &&
         code.getAs<IntegerAttr>("units") && code.getAs<IntegerAttr>("grain");
}

static LogicalResult verifyCode(exec::ProgramOp program) {
  auto refuse = [](Operation *op, llvm::StringRef what) {
    op->emitOpError(what).attachNote() << "run 'kerf-generate-code' first";
    return failure();
  };
  auto kernels = program.getBody().getOps<exec::KernelOp>();
  for (exec::KernelOp kernel : kernels)
    if (!hasCode(kernel))
      return refuse(kernel, "has no machine code");
  if (!kernels.empty() && program.getBody().getOps<exec::ImageOp>().empty())
    return refuse(program, "has no 'exec.image'");
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
    for (auto program : getOperation().getOps<exec::ProgramOp>())
      if (failed(generate(program, *target, threads)))
        return signalPassFailure();
  }
};

struct VerifyCode : kerf::impl::VerifyCodePassBase<VerifyCode> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<exec::ProgramOp>())
      if (failed(verifyCode(program)))
        return signalPassFailure();
  }
};
} // namespace
