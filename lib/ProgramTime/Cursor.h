//===- Cursor.h - the commands of a step in order -------------------------===//

#ifndef KERF_LIB_PROGRAMTIME_CURSOR_H
#define KERF_LIB_PROGRAMTIME_CURSOR_H

#include "kerf/Artifact/Artifact.h"

namespace kerf {

/// Walks the commands of one program's training step as
/// `runtime/core/Execute.cpp` runs them: calls in order, bodies of loops once
/// per iteration, commands that a call leaves out skipped.
class Cursor {
public:
  Cursor(const ArtifactData &data, const kerf_program &program)
      : data(data), program(program) {
    enterCall();
  }

  bool isDone() const { return callNumber == program.train_calls; }
  const kerf_call &call() const {
    return data.calls[program.first_call + callNumber];
  }
  const kerf_func &func() const {
    return data.funcs[program.first_func + call().func];
  }
  /// The command to run, by its number in the file. Not when `isDone`.
  uint32_t command() const { return at; }
  /// Goes on behind `command()`.
  void next() {
    ++at;
    settle();
  }

private:
  /// Goes to the first command of the call, or of the next one that has any.
  void enterCall();
  /// Moves from `at` to the next command that runs.
  void settle();
  /// Ends an iteration at the end of a loop's body.
  bool repeats();

  const ArtifactData &data;
  const kerf_program &program;
  uint32_t callNumber = 0;
  uint32_t at = 0, end = 0;
  uint32_t bodyBegin = 0, bodyEnd = 0; ///< of the loop that `at` is in
  int64_t turns = 0;                   ///< iterations left, this one included
};

} // namespace kerf

#endif // KERF_LIB_PROGRAMTIME_CURSOR_H
