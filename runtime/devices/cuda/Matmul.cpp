//===- Matmul.cpp - matmuls by cuBLASLt -----------------------------------===//
//
// cuBLASLt counts matrices by columns. A matmul c = a b of matrices by rows
// is therefore given to it as c^T = b^T a^T: the memory of a row-major matrix
// is that of its transpose by columns. So its first operand is our b, its
// second our a, and a bias along the columns of c lies along its rows, as its
// epilogue wants it.
//
// Example: m=2 n=3 k=4, all dense by rows. cuBLASLt sees "A" = b^T, 3 x 4 with
// leading dimension 3, "B" = a^T, 4 x 2 with 4, "D" = c^T, 3 x 2 with 3, and
// transposes none of them.
//
//===----------------------------------------------------------------------===//

#include "Matmul.h"
#include "../common/MatmulAttrs.h"
#include "Float8.h"
#include "kerf/Artifact/CudaWorkspace.h"

#include <algorithm>
#include <cstdio>

using namespace kerf::cuda;
using namespace kerf::device::matmul;

namespace {
struct Matmul : kerf_step {
  using kerf_step::kerf_step;
  ~Matmul() override;
  kerf_device_status execute(void *const *pointers, char *error,
                             size_t errorBytes) override;

  cublasLtMatmulDesc_t desc = nullptr;
  /// Without the epilogue, which own kernels do instead if it `leaves` that;
  /// null where there is no choice.
  cublasLtMatmulDesc_t plain = nullptr;
  bool leaves = false;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  size_t workspaceBytes = 0; ///< that the algorithm uses
  Tunable choices;
  Tunable *tunable() override { return &choices; }
  bool accumulate = false, wide = false;    ///< wide: sums in f64
  bool givesBias = false, givesAux = false; ///< to cuBLASLt
  bool givesScaleA = false, givesScaleB = false;
  OwnEpilogue own; ///< what it does not do
};

/// How the memory of a matrix [rows, columns] looks by columns: as its
/// transpose [columns, rows], or as itself, each with a leading dimension.
struct View {
  bool itself = false;
  int64_t leading = 0;
};
} // namespace

Matmul::~Matmul() {
  CublasLt &blas = device.blas;
  for (cublasLtMatrixLayout_t layout : {a, b, c})
    if (layout)
      blas.layoutDestroy(layout);
  for (cublasLtMatmulDesc_t made : {desc, plain})
    if (made)
      blas.descDestroy(made);
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// The first address of the workspace that cuBLASLt takes.
static void *alignedWorkspace(void *workspace) {
  CUdeviceptr most = KERF_CUDA_MATMUL_ALIGN - 1;
  return reinterpret_cast<void *>((address(workspace) + most) & ~most);
}

kerf_device_status Matmul::execute(void *const *pointers, char *error,
                                   size_t errorBytes) {
  CublasLt &blas = device.blas;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  auto give = [&](bool isGiven, cublasLtMatmulDescAttributes_t attribute,
                  uint32_t operand) {
    if (isGiven && status == CUBLAS_STATUS_SUCCESS)
      status =
          blas.descSet(desc, attribute, &pointers[operand], sizeof(void *));
  };
  give(givesBias && !leaves, CUBLASLT_MATMUL_DESC_BIAS_POINTER, Bias);
  give(givesAux, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, Aux);
  give(givesScaleA, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, ScaleA);
  give(givesScaleB, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, ScaleB);
  float one = 1, beta = accumulate;
  double wideOne = 1, wideBeta = accumulate;
  if (status == CUBLAS_STATUS_SUCCESS)
    status = blas.matmul(
        blas.handle, leaves ? plain : desc,
        wide ? static_cast<void *>(&wideOne) : &one, pointers[B], b,
        pointers[A], a, wide ? static_cast<void *>(&wideBeta) : &beta,
        pointers[C], c, pointers[C], c, &algorithm,
        workspaceBytes ? alignedWorkspace(pointers[Workspace]) : nullptr,
        workspaceBytes, device.streams[0]);
  if (status == CUBLAS_STATUS_SUCCESS) {
    kerf_device_status done = enqueued(*this, CUDA_SUCCESS, error, errorBytes);
    bool isWhole = own.isEmpty() || (plain && !leaves);
    return done || isWhole ? done : own.run(*this, pointers, error, errorBytes);
  }
  say(error, errorBytes, "command '%s': cuBLASLt: %s", name.c_str(),
      blas.text(status).c_str());
  return KERF_DEVICE_FAILED;
}

//===----------------------------------------------------------------------===//
// Types and layouts
//===----------------------------------------------------------------------===//

static cudaDataType_t typeOf(int64_t dtype) {
  switch (dtype) {
  case KERF_BF16:
    return CUDA_R_16BF;
  case KERF_F16:
    return CUDA_R_16F;
  case KERF_F64:
    return CUDA_R_64F;
  case KERF_F8E4M3:
  case KERF_F8E5M2:
    return float8TypeOf(dtype);
  default:
    return CUDA_R_32F;
  }
}

/// A matrix [rows, columns] with these strides. A matrix of one row or one
/// column has no stride there: any will do. False after writing a message.
static bool viewOf(Request &r, const char *what, int64_t rows, int64_t columns,
                   int64_t row, int64_t column, View &view) {
  if ((column == 1 || columns == 1) && (rows == 1 || row >= columns)) {
    view = {false, rows == 1 ? columns : row};
    return true;
  }
  if ((row == 1 || rows == 1) && (columns == 1 || column >= rows)) {
    view = {true, columns == 1 ? rows : column};
    return true;
  }
  return r.fail("found strides %lld and %lld of %s, [%lld, %lld]; cuBLASLt "
                "needs 1 as one of them and rows or columns that do not "
                "overlap: copy %s first",
                (long long)row, (long long)column, what, (long long)rows,
                (long long)columns, what);
}

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

namespace {
/// Makes the descriptions of a matmul, until one call fails.
class Preparation {
public:
  Preparation(Request &request, Matmul &step)
      : r(request), step(step), blas(request.device.blas),
        parts(epilogueParts(request.attr(Epilogue))) {}

  bool run();

private:
  bool call(cublasStatus_t status, const char *what) {
    return status == CUBLAS_STATUS_SUCCESS ||
           r.fail("cuBLASLt cannot %s: %s", what, blas.text(status).c_str());
  }
  bool hasLibrary();
  bool makeLayout(cublasLtMatrixLayout_t &layout, int64_t dtype, int64_t rows,
                  int64_t columns, int64_t leading, int64_t batchStride);
  bool makeLayouts();
  bool makeDesc();
  bool setEpilogue(cublasLtEpilogue_t epilogue);
  bool isAuxAligned() const;
  const char *declined();
  bool addLeaving();
  bool chooseEpilogue();
  bool chooseAlgorithm();
  bool setPreference(cublasLtMatmulPreference_t preference);
  bool takeFirst(const cublasLtMatmulHeuristicResult_t *results, int count);
  bool refuse(const char *why);
  void tell(size_t workspaceBytes) const;
  template <typename Value>
  bool setDesc(cublasLtMatmulDescAttributes_t attribute, Value value) {
    return call(blas.descSet(step.desc, attribute, &value, sizeof value),
                "describe a matmul");
  }

  Request &r;
  Matmul &step;
  CublasLt &blas;
  EpilogueParts parts;
  View a, b;
};
} // namespace

bool Preparation::hasLibrary() {
  if (!blas.library.failure.empty())
    return r.fail(
        "no cuBLASLt: %s; install it of CUDA %s, or set KERF_CUDA_PATH "
        "to its folder (see docs/cuda.md)",
        blas.library.failure.c_str(),
        r.device.driver.version >= 13000 ? "12 or 13" : "12");
  return blas.handle || call(blas.create(&blas.handle), "start");
}

bool Preparation::makeLayout(cublasLtMatrixLayout_t &layout, int64_t dtype,
                             int64_t rows, int64_t columns, int64_t leading,
                             int64_t batchStride) {
  const char *what = "describe a matrix";
  if (!call(blas.layoutCreate(&layout, typeOf(dtype), rows, columns, leading),
            what))
    return false;
  int32_t batch = static_cast<int32_t>(r.attr(Batch));
  if (batch == 1)
    return true;
  return call(blas.layoutSet(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                             sizeof batch),
              what) &&
         call(blas.layoutSet(layout,
                             CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                             &batchStride, sizeof batchStride),
              what);
}

bool Preparation::makeLayouts() {
  int64_t m = r.attr(M), n = r.attr(N), k = r.attr(K);
  return makeLayout(step.a, r.attr(ADtype), a.itself ? m : k, a.itself ? k : m,
                    a.leading, r.attr(ABatch)) &&
         makeLayout(step.b, r.attr(BDtype), b.itself ? k : n, b.itself ? n : k,
                    b.leading, r.attr(BBatch)) &&
         makeLayout(step.c, r.attr(CDtype), n, m, m > 1 ? r.attr(CRow) : n,
                    r.attr(CBatch));
}

bool Preparation::makeDesc() {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  if (step.wide)
    compute = CUBLAS_COMPUTE_64F;
  else if (r.device.tf32 && r.attr(ADtype) == KERF_F32)
    compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  if (!call(blas.descCreate(&step.desc, compute,
                            step.wide ? CUDA_R_64F : CUDA_R_32F),
            "describe a matmul"))
    return false;
  // c^T = b^T a^T: memory that already is the transpose is taken as it lies.
  if (!setDesc(CUBLASLT_MATMUL_DESC_TRANSA,
               b.itself ? CUBLAS_OP_T : CUBLAS_OP_N) ||
      !setDesc(CUBLASLT_MATMUL_DESC_TRANSB,
               a.itself ? CUBLAS_OP_T : CUBLAS_OP_N))
    return false;
  return true;
}

uint32_t kerf::cuda::alignmentOf(const kerf_operand &operand) {
  uint64_t bits = static_cast<uint64_t>(operand.offset) |
                  static_cast<uint64_t>(operand.iter_stride) |
                  static_cast<uint64_t>(operand.slot_stride);
  uint64_t most = 256; // what the allocation has, and cuBLASLt asks for
  return static_cast<uint32_t>(std::min(most, bits ? bits & -bits : most));
}

/// Takes an epilogue of cuBLASLt's. It asks for addresses before it chooses an
/// algorithm, which it never follows, to see how they are aligned: it is shown
/// one that is aligned no better than those to come.
bool Preparation::setEpilogue(cublasLtEpilogue_t epilogue) {
  const kerf_operand *operands = r.info.operands;
  auto addressLike = [&](uint32_t operand) {
    return reinterpret_cast<void *>(uintptr_t(alignmentOf(operands[operand])));
  };
  step.givesBias = epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
                   (parts.readsBias || parts.writesBias);
  step.givesAux = epilogue == parts.library && parts.hasAux;
  step.givesScaleA = parts.isScaled && !r.absent(ScaleA);
  step.givesScaleB = parts.isScaled && !r.absent(ScaleB);
  step.choices.epilogue = epilogue;
  return setDesc(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue) &&
         (!step.givesBias ||
          (setDesc(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                   typeOf(r.attr(BiasDtype))) &&
           setDesc(CUBLASLT_MATMUL_DESC_BIAS_POINTER, addressLike(Bias)))) &&
         (!step.givesAux ||
          (setDesc(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, r.attr(N)) &&
           setDesc(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                   addressLike(Aux)))) &&
         (!step.givesScaleA ||
          setDesc(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, addressLike(ScaleA))) &&
         (!step.givesScaleB ||
          setDesc(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, addressLike(ScaleB)));
}

/// True where aux lies as cuBLASLt wants it: rows of whole 8 elements, at whole
/// 16 bytes.
bool Preparation::isAuxAligned() const {
  return !parts.hasAux ||
         (r.attr(N) % 8 == 0 && alignmentOf(r.info.operands[Aux]) % 16 == 0);
}

/// Why cuBLASLt is not asked for the epilogue; null: it is.
const char *Preparation::declined() {
  if (!isAuxAligned())
    return "takes no aux that lies as that of";
  // It offers algorithms all the same, which fail when they run: seen
  // with 13.1.
  if (parts.writesBias && parts.hasAux && workspaceOf(r) == 0)
    return "needs a workspace for";
  if (!parts.isRowSum())
    return nullptr;
  bool sumsOwn = r.attr(Epilogue) == KERF_EPILOGUE_BGRAD_B;
  if (sumsOwn ? b.itself : !a.itself)
    return "sums no factor that lies like that of";
  if (r.device.ownBgrad)
    return "is not asked (KERF_CUDA_OWN_BGRAD) for";
  step.choices.left = findLeaving(r, parts.library, workspaceOf(r));
  return step.choices.left ? "was tuned to be slower with" : nullptr;
}

/// Where the device tunes, the matmul alone with own kernels behind it is a
/// candidate, too: for sums of rows cuBLASLt's may be older and slower ones.
bool Preparation::addLeaving() {
  if (!r.device.tuning.tunes || !parts.isRowSum())
    return true;
  Tunable whole = step.choices;
  cublasLtMatmulAlgo_t algorithm = step.algorithm;
  size_t workspaceBytes = step.workspaceBytes;
  std::swap(step.desc, step.plain);
  bool isFound = makeDesc() && setEpilogue(CUBLASLT_EPILOGUE_DEFAULT) &&
                 chooseAlgorithm() && step.own.prepare(r, false);
  std::swap(step.desc, step.plain);
  whole.leavingFrom = whole.candidates.size();
  if (isFound)
    for (const auto &candidate : step.choices.candidates)
      whole.candidates.push_back(candidate);
  whole.leaves = &step.leaves;
  step.choices = std::move(whole);
  step.algorithm = algorithm;
  step.workspaceBytes = workspaceBytes;
  step.givesBias = true;
  return true;
}

/// An algorithm with the whole epilogue, or one with the bias, or the matmul
/// alone; own kernels do the rest.
bool Preparation::chooseEpilogue() {
  const char *why = declined();
  if (!why && setEpilogue(parts.library) && chooseAlgorithm())
    return addLeaving();
  if (parts.library == CUBLASLT_EPILOGUE_DEFAULT)
    return false;
  bool isBiasDone = parts.readsBias && parts.isGelu &&
                    setEpilogue(CUBLASLT_EPILOGUE_BIAS) && chooseAlgorithm();
  if (!isBiasDone &&
      !(setEpilogue(CUBLASLT_EPILOGUE_DEFAULT) && chooseAlgorithm()))
    return false;
  if (r.device.log)
    std::fprintf(stderr,
                 "kerf: cuda: '%s': cuBLASLt %s epilogue %lld; own kernels do "
                 "it\n",
                 r.name(), why ? why : "has no algorithm with",
                 (long long)r.attr(Epilogue));
  return step.own.prepare(r, isBiasDone);
}

/// Bytes that are left however far `execute` must go to an aligned address: the
/// choice must not depend on where the arena lies.
size_t kerf::cuda::workspaceOf(const Request &r) {
  if (r.absent(Workspace))
    return 0;
  const kerf_operand &workspace = r.info.operands[Workspace];
  bool fits = workspace.bytes > KERF_CUDA_MATMUL_SLACK &&
              alignmentOf(workspace) >= KERF_ARENA_ALIGN;
  return fits ? workspace.bytes - KERF_CUDA_MATMUL_SLACK : 0;
}

bool Preparation::setPreference(cublasLtMatmulPreference_t preference) {
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return call(blas.preferenceSet(preference, attribute, &value, sizeof value),
                "take limits");
  };
  // Parts of a sum are never kept in 16 bits.
  uint32_t schemes = kerf_dtype_bytes(r.attr(CDtype)) == 2
                         ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                         : CUBLASLT_REDUCTION_SCHEME_MASK;
  const kerf_operand *operands = r.info.operands;
  return set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
             uint64_t(workspaceOf(r))) &&
         set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes) &&
         set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
             alignmentOf(operands[B])) &&
         set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
             alignmentOf(operands[A])) &&
         set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
             alignmentOf(operands[C])) &&
         set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
             alignmentOf(operands[C]));
}

bool Preparation::refuse(const char *why) {
  return r.fail(
      "cuBLASLt has no way to multiply %s [%lld, %lld, %lld] by "
      "[%lld, %lld, %lld] into %s%s in %zu bytes of workspace: %s",
      dtypeText(r.attr(ADtype)), (long long)r.attr(Batch), (long long)r.attr(M),
      (long long)r.attr(K), (long long)r.attr(Batch), (long long)r.attr(K),
      (long long)r.attr(N), dtypeText(r.attr(CDtype)),
      r.attr(Epilogue) ? " with an epilogue" : "", workspaceOf(r), why);
}

/// Tells the choice on stderr, for people who compare runs.
void Preparation::tell(size_t workspaceBytes) const {
  auto config = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
    int32_t value = -1;
    size_t written = 0;
    blas.algorithmGet(&step.algorithm, attribute, &value, sizeof value,
                      &written);
    return value;
  };
  std::fprintf(stderr,
               "kerf: cuda: '%s': %s %lldx%lldx%lldx%lld: algorithm %d, tile "
               "%d, stages %d, split %d, reduction %d, workspace %zu of %zu\n",
               r.name(), dtypeText(r.attr(ADtype)), (long long)r.attr(Batch),
               (long long)r.attr(M), (long long)r.attr(N), (long long)r.attr(K),
               config(CUBLASLT_ALGO_CONFIG_ID),
               config(CUBLASLT_ALGO_CONFIG_TILE_ID),
               config(CUBLASLT_ALGO_CONFIG_STAGES_ID),
               config(CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
               config(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME), workspaceBytes,
               workspaceOf(r));
}

bool Preparation::takeFirst(const cublasLtMatmulHeuristicResult_t *results,
                            int count) {
  for (int n = 0; n < count; ++n) {
    if (results[n].state != CUBLAS_STATUS_SUCCESS ||
        results[n].workspaceSize > workspaceOf(r))
      continue;
    step.algorithm = results[n].algo;
    step.workspaceBytes = results[n].workspaceSize;
    if (r.device.log)
      tell(step.workspaceBytes);
    return true;
  }
  return refuse("none of its algorithms fits");
}

/// The algorithm of a tuning file, else the first of cuBLASLt's list, in its
/// order, that fits the workspace: the same on every run with the same GPU and
/// library.
bool Preparation::chooseAlgorithm() {
  cublasLtMatmulPreference_t preference = nullptr;
  if (!call(blas.preferenceCreate(&preference), "take limits"))
    return false;
  bool chosen = setPreference(preference);
  if (chosen) {
    cublasLtMatmulHeuristicResult_t results[Tuning::mostCandidates] = {};
    int count = 0;
    cublasStatus_t status = blas.heuristic(
        blas.handle, step.desc, step.b, step.a, step.c, step.c, preference,
        r.device.tuning.candidates(), results, &count);
    step.choices.algorithm = &step.algorithm;
    step.choices.workspaceBytes = &step.workspaceBytes;
    chosen =
        status == CUBLAS_STATUS_SUCCESS
            ? chooseTuned(r, workspaceOf(r), results, count, step.choices) &&
                  takeFirst(results, count)
            : refuse(blas.text(status).c_str());
  }
  blas.preferenceDestroy(preference);
  return chosen;
}

bool Preparation::run() {
  step.wide = r.attr(ADtype) == KERF_F64;
  step.accumulate = r.attr(Accumulate);
  return viewOf(r, "a", r.attr(M), r.attr(K), r.attr(ARow), r.attr(ACol), a) &&
         viewOf(r, "b", r.attr(K), r.attr(N), r.attr(BRow), r.attr(BCol), b) &&
         hasLibrary() && makeLayouts() && makeDesc() && chooseEpilogue();
}

StepPointer kerf::cuda::prepareMatmul(Request &r) {
  if (!checkMatmul(r))
    return nullptr;
  auto step = std::make_unique<Matmul>(r.device, r.info.name);
  if (!Preparation(r, *step).run())
    return nullptr;
  return step;
}
