//===- CheckDetail.h - parts of the checker -------------------------------===//

#ifndef KERF_LIB_ARTIFACT_CHECKDETAIL_H
#define KERF_LIB_ARTIFACT_CHECKDETAIL_H

#include "kerf/Artifact/Check.h"

#include <vector>

namespace kerf::artifact {

/// Collects the first fault of a file. All checks return false once one is
/// found, so that they can be chained with &&.
class Checker {
public:
  explicit Checker(View &view) : view(view) {}

  /// Metadata, mesh and tables (CheckTables.cpp). First of all it is checked
  /// how programs share the records.
  [[nodiscard]] bool checkTables();
  /// What programs must agree on: channels, and parameters, inputs and outputs
  /// that several have (CheckStages.cpp).
  [[nodiscard]] bool checkStages();
  /// Functions, calls, commands and their operands (CheckProgram.cpp).
  [[nodiscard]] bool checkPrograms();

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

  bool checkText();
  bool checkMeta();
  bool checkMesh();
  bool checkGroups();
  bool checkShares();
  bool checkArena(uint32_t index);
  bool checkTablesOfProgram();
  bool checkLayout(const kerf_layout &layout, const char *what, uint32_t index);
  bool checkParam(uint32_t index);
  bool checkParamNames(uint32_t index);
  bool checkPieces(uint32_t index);
  bool checkStateShape(uint32_t index, const kerf_param &param);
  bool checkStates(uint32_t index, int64_t count);
  bool checkMaster(uint32_t index, int64_t count);
  bool checkInput(uint32_t index);
  bool checkOutput(uint32_t index);
  bool checkBuffer(uint32_t index);
  bool isCuda() const;
  bool checkKernel(uint32_t index);

  bool checkChannel(uint32_t index);
  bool checkChannelEnds(uint32_t number, uint32_t index);
  bool checkCommonParams();
  bool checkCopies(uint32_t a, uint32_t b);
  bool checkCommonInputs();
  bool checkCommonOutputs(uint32_t number);

  /// Iterations that a command runs for.
  struct Loop {
    int64_t start = 0, end = 1;
  };
  bool checkFuncs();
  bool checkFunc(uint32_t index);
  bool checkWait(uint32_t index, uint32_t first,
                 std::vector<uint32_t> &started);
  bool checkCalls();
  bool checkCall(uint32_t index);
  bool checkCallFlags(uint32_t begin, uint32_t end);
  bool checkLoop(uint32_t index, uint32_t funcEnd, Loop &loop, uint32_t &last);
  bool checkCommand(uint32_t index, const Loop &loop);
  bool checkOperand(uint32_t command, uint32_t number, const Loop &loop);
  bool checkMemory(uint32_t index);
  bool checkTake(uint32_t index);
  bool checkStopIf(uint32_t index);
  bool checkCollective(uint32_t index);
  bool checkMessage(uint32_t index);
  bool checkDataOperands(uint32_t index, uint32_t count);

  View &view;
  /// Whose records are being checked. Indices count in the whole file.
  const kerf_program *program = nullptr;
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
