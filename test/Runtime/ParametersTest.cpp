//===- ParametersTest.cpp - what parameters start as, and reading them ----===//

#include "Forked.h"
#include "Job.h"

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Interpreter/Interpreter.h"

#include "mlir/IR/Builders.h"

#include <cstring>

using namespace kerf;
using namespace kerf::test;

namespace {

/// A program with one parameter.
ArtifactData paramProgram(const char *name, kerf_layout layout, uint32_t init,
                          uint32_t master, uint32_t ranks = 1) {
  ArtifactData data = emptyProgram(ranks);
  kerf_param param = {};
  param.name = data.strings.intern(name);
  param.init = init;
  param.init_value = 0.02;
  param.layout = layout;
  param.end = llvm::StringRef(name).contains("{i}") ? 2 : 1;
  if (llvm::StringRef(name).contains("{e}"))
    param.flags = KERF_PARAM_STACKED;
  int64_t elements = 1;
  for (uint32_t d = 0; d < layout.rank; ++d)
    elements *= layout.local[d];
  param.stride = elements * 8;
  param.master_dtype = master;
  param.master_offset = master == KERF_NONE ? -1 : elements * 16;
  param.master_stride = master == KERF_NONE ? -1 : elements * 8;
  data.params.push_back(param);
  data.endProgram();
  data.programs[0].arena_bytes = (elements * 32 + 63) / 64 * 64;
  return data;
}

/// The interpreter's value of checkpoint tensors "name", as f32 or narrower.
HostTensor interpreted(mlir::MLIRContext &context, const kerf_layout &layout,
                       uint32_t dtype, InitKind kind, const std::string &name,
                       int64_t seed) {
  mlir::Builder builder(&context);
  mlir::Type type = dtype == KERF_BF16  ? mlir::Type(builder.getBF16Type())
                    : dtype == KERF_F16 ? mlir::Type(builder.getF16Type())
                    : dtype == KERF_F64 ? mlir::Type(builder.getF64Type())
                                        : mlir::Type(builder.getF32Type());
  auto tensor = mlir::RankedTensorType::get(
      llvm::ArrayRef<int64_t>(layout.global, layout.rank), type);
  bool hasValue = kind != InitKind::Zeros && kind != InitKind::Ones;
  auto init = InitAttr::get(&context, kind, Real(hasValue ? 0.02 : 0));
  return initialValue(init, tensor, name, seed, /*f64=*/false);
}

double valueAt(const std::vector<char> &bytes, uint32_t dtype, int64_t i) {
  switch (dtype) {
  case KERF_F32:
    return reinterpret_cast<const float *>(bytes.data())[i];
  case KERF_F64:
    return reinterpret_cast<const double *>(bytes.data())[i];
  case KERF_BF16: {
    uint32_t bits = reinterpret_cast<const uint16_t *>(bytes.data())[i] << 16;
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
  default:
    return reinterpret_cast<const _Float16 *>(bytes.data())[i];
  }
}

struct InitCase {
  const char *name;
  uint32_t dtype, master;
  InitKind kind;
};

/// For the names of cases, which are addresses otherwise.
void PrintTo(const InitCase &test, std::ostream *out) {
  *out << test.name << " of type " << test.dtype << ", kind " << int(test.kind);
}

class Initial : public testing::TestWithParam<InitCase> {};

// Every element of parameter and master is the interpreter's, to the bit; on
// two ranks each has its part, and reading gathers the whole.
TEST_P(Initial, IsTheInterpretersToTheBit) {
  InitCase test = GetParam();
  for (uint32_t ranks : {1, 2}) {
    kerf_layout layout = wholeLayout({4, 300, 70}, test.dtype);
    layout.local[1] /= ranks;
    layout.axes[1][0] = 0;
    std::string job = jobName();
    auto body = [&](uint32_t rank) -> int {
      mlir::MLIRContext context;
      context.loadDialect<KerfDialect>();
      kerf_session_options options = Job::plain();
      options.rank = rank;
      options.workers = 3;
      options.session_name = job.c_str();
      Job run(paramProgram(test.name, layout, uint32_t(test.kind), test.master,
                           ranks),
              options);
      kerf_session_initialize(run.session, 5, &run.error);
      int faults = 0;
      int64_t iterations = llvm::StringRef(test.name).contains("{i}") ? 2 : 1;
      for (int64_t i = 0; i < iterations; ++i) {
        std::string name = expandName(test.name, i);
        bool hasMaster = test.master != KERF_NONE;
        HostTensor full =
            interpreted(context, layout, hasMaster ? test.master : test.dtype,
                        test.kind, name, 5);
        mlir::Type type =
            interpreted(context, layout, test.dtype, InitKind::Zeros, name, 5)
                .type.getElementType();
        for (uint32_t kind = 0; kind <= uint32_t(hasMaster); ++kind) {
          uint32_t dtype = kind ? test.master : test.dtype;
          kerf_tensor tensor = {kind, 0, 0, i};
          std::vector<char> bytes(full.data.size() * kerf_dtype_bytes(dtype));
          faults +=
              kerf_session_read_global(run.session, &tensor, bytes.data(),
                                       bytes.size(), &run.error) != KERF_OK;
          for (size_t e = 0; e < full.data.size(); ++e) {
            double x = full.data[e];
            if (!kind)
              x = roundToType(x, type, false);
            faults += valueAt(bytes, dtype, e) != x;
          }
        }
      }
      if (faults)
        std::fprintf(stderr, "rank %u: %d faults: %s\n", rank, faults,
                     run.error.message);
      return faults != 0;
    };
    EXPECT_EQ(runRanks(ranks, body), std::vector<int>(ranks, 0));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Session, Initial,
    testing::Values(
        InitCase{"w", KERF_F32, KERF_NONE, InitKind::Normal},
        InitCase{"h.{i}.w", KERF_BF16, KERF_F32, InitKind::Normal},
        InitCase{"h.{i}.x.{e}.w", KERF_BF16, KERF_NONE, InitKind::Normal},
        InitCase{"h.{i}.x.{e}.w", KERF_F16, KERF_F32, InitKind::Uniform},
        InitCase{"w", KERF_F64, KERF_NONE, InitKind::Uniform},
        InitCase{"w", KERF_BF16, KERF_F32, InitKind::Constant},
        InitCase{"w", KERF_F32, KERF_NONE, InitKind::Ones},
        InitCase{"w", KERF_F32, KERF_NONE, InitKind::Zeros}));

TEST(Session, WritesAndReadsBack) {
  Job job(trainingProgram());
  ASSERT_TRUE(job.session) << job.error.message;
  kerf_tensor tensor = {KERF_TENSOR_STATE, 0, 0, 2};
  std::vector<float> values(kWidth * kWidth);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i;
  ASSERT_EQ(kerf_session_write_global(job.session, &tensor, values.data(),
                                      values.size() * 4, &job.error),
            KERF_OK);
  EXPECT_EQ(job.read(KERF_TENSOR_STATE, 2), values);
  EXPECT_EQ(job.read(KERF_TENSOR_STATE, 1), std::vector<float>(16));
  ASSERT_EQ(kerf_session_initialize(job.session, 1, &job.error), KERF_OK);
  EXPECT_EQ(job.read(KERF_TENSOR_STATE, 2), std::vector<float>(16));
}

TEST(Session, RefusesTensorsThatDoNotExist) {
  Job job(trainingProgram());
  char data[64];
  auto message = [&](kerf_tensor tensor, uint64_t bytes) {
    EXPECT_EQ(kerf_session_read(job.session, &tensor, data, bytes, &job.error),
              KERF_INVALID);
    return std::string(job.error.message);
  };
  EXPECT_EQ(message({0, 5, 0, 0}, 64), "no parameter 5 of 1");
  EXPECT_EQ(message({0, 0, 0, 3}, 64),
            "'h.{i}.w' has iterations 0 to 2, not 3");
  EXPECT_EQ(message({1, 0, 0, 0}, 64), "'h.{i}.w' has no master");
  EXPECT_EQ(message({2, 0, 1, 0}, 64),
            "'h.{i}.w' has 1 states, not one numbered 1");
  EXPECT_EQ(message({3, 0, 0, 0}, 64), "no kind 3 of tensors");
  EXPECT_EQ(message({0, 0, 0, 0}, 60),
            "60 bytes were given, the tensor has 64");
  double value;
  EXPECT_EQ(kerf_session_get_output(job.session, 1, &value, &job.error),
            KERF_INVALID);
  EXPECT_STREQ(job.error.message, "no output 1 of 1");
  EXPECT_EQ(kerf_session_set_input(job.session, 2, data, 4, &job.error),
            KERF_INVALID);
  EXPECT_STREQ(job.error.message, "no input 2 of 2");
}

// An output may be a tensor: its elements come in their order.
TEST(Session, ReadsOutputsOfSeveralElements) {
  ArtifactData data = trainingProgram();
  data.outputs[0].offset = data.inputs[0].offset;
  data.outputs[0].elements = 16;
  data.outputs[0].end = 2;
  Job job(data);
  float x[16];
  for (int i = 0; i < 16; ++i)
    x[i] = 1.5f * float(i);
  ASSERT_EQ(kerf_session_set_input(job.session, 0, x, sizeof x, &job.error),
            KERF_OK)
      << job.error.message;
  double values[16], one;
  ASSERT_EQ(
      kerf_session_get_output_values(job.session, 0, values, 16, &job.error),
      KERF_OK);
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(values[i], x[i]);
  ASSERT_EQ(kerf_session_get_output(job.session, 0, &one, &job.error), KERF_OK);
  EXPECT_EQ(one, 0);
  EXPECT_EQ(
      kerf_session_get_output_values(job.session, 0, values, 17, &job.error),
      KERF_INVALID);
  EXPECT_STREQ(job.error.message, "the output 'loss' has 16 elements, not 17");
}

TEST(Session, SetsScalarsByRole) {
  ArtifactData data = trainingProgram();
  data.outputs[0].offset = data.inputs[1].offset;
  Job job(data);
  ASSERT_EQ(kerf_session_set_scalar(job.session, KERF_ROLE_LEARNING_RATE, 0.25,
                                    &job.error),
            KERF_OK);
  EXPECT_EQ(job.loss(), 0.25);
  EXPECT_EQ(kerf_session_set_scalar(job.session, KERF_ROLE_STEP, 3, &job.error),
            KERF_OK);
  EXPECT_EQ(
      kerf_session_set_scalar(job.session, KERF_ROLE_TOKENS, 3, &job.error),
      KERF_INVALID);
  EXPECT_STREQ(job.error.message, "inputs of role 1 are no scalars");
  data.inputs[1].role = KERF_ROLE_STEP;
  data.inputs[1].layout.dtype = KERF_I32;
  Job other(data);
  EXPECT_EQ(
      kerf_session_set_scalar(other.session, KERF_ROLE_STEP, 0.5, &other.error),
      KERF_INVALID);
  EXPECT_STREQ(other.error.message,
               "0.5 is no value of the input 'rate' of type i32");
}

} // namespace
