//===- CheckDetail.h - parts of the checker -------------------------------===//

#ifndef KERF_LIB_ARTIFACT_CHECKDETAIL_H
#define KERF_LIB_ARTIFACT_CHECKDETAIL_H

#include "kerf/Artifact/Check.h"

namespace kerf::artifact {

/// Collects the first fault of a file. All checks return false once one is
/// found, so that they can be chained with &&.
class Checker {
public:
  explicit Checker(View &view) : view(view) {}

  /// Sections, metadata, mesh and tables (CheckTables.cpp).
  [[nodiscard]] bool checkTables();
  /// Functions, calls, commands and their operands (CheckProgram.cpp).
  [[nodiscard]] bool checkProgram();

  /// Records "damaged: <text>" and returns false.
  [[nodiscard]] bool damaged(const char *format, ...)
      __attribute__((format(printf, 2, 3)));

  std::string message;

private:
  [[nodiscard]] bool checkString(uint32_t offset, const char *what,
                                 uint32_t index, bool optional = false);
  [[nodiscard]] bool checkRange(int64_t offset, int64_t bytes, int64_t align,
                                const char *what, uint32_t index);
  /// `count` tensors of `bytes`, each `stride` behind the one before.
  [[nodiscard]] bool checkSeries(int64_t offset, int64_t stride, int64_t count,
                                 int64_t bytes, int64_t align, const char *what,
                                 uint32_t index);

  bool checkMeta();
  bool checkMesh();
  bool checkLayout(const kerf_layout &layout, const char *what, uint32_t index);
  bool checkParam(uint32_t index);
  bool checkParamNames(uint32_t index);
  bool checkStates(uint32_t index, int64_t elements, int64_t count);
  bool checkInput(uint32_t index);
  bool checkOutput(uint32_t index);
  bool checkBuffer(uint32_t index);
  bool checkKernel(uint32_t index);

  /// Iterations that a command runs for.
  struct Loop {
    int64_t start = 0, end = 1;
  };
  bool checkFuncs();
  bool checkFunc(uint32_t index);
  bool checkCalls();
  bool checkCall(uint32_t index);
  bool checkLoop(uint32_t index, uint32_t funcEnd, Loop &loop, uint32_t &last);
  bool checkCommand(uint32_t index, const Loop &loop);
  bool checkOperand(uint32_t command, uint32_t number, const Loop &loop);
  bool checkMemory(uint32_t index);
  bool checkTake(uint32_t index);
  bool checkCollective(uint32_t index);
  bool checkDataOperands(uint32_t index, uint32_t count);

  View &view;
};

/// a * b into `product`; false when it overflows.
[[nodiscard]] inline bool multiply(int64_t a, int64_t b, int64_t &product) {
  return !__builtin_mul_overflow(a, b, &product);
}
[[nodiscard]] inline bool add(int64_t a, int64_t b, int64_t &sum) {
  return !__builtin_add_overflow(a, b, &sum);
}

} // namespace kerf::artifact

#endif // KERF_LIB_ARTIFACT_CHECKDETAIL_H
