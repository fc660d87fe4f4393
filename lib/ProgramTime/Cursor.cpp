//===- Cursor.cpp - the commands of a step in order -----------------------===//

#include "Cursor.h"

using namespace kerf;

/// Does a command with these flags run in this call?
static bool applies(const kerf_command &command, const kerf_call &call) {
  bool isFirst = call.flags & KERF_CALL_FIRST;
  bool isLast = call.flags & KERF_CALL_LAST;
  return !((command.flags & KERF_IF_FIRST && !isFirst) ||
           (command.flags & KERF_UNLESS_FIRST && isFirst) ||
           (command.flags & KERF_IF_LAST && !isLast));
}

void Cursor::enterCall() {
  if (isDone())
    return;
  at = func().first_command;
  end = at + func().command_count;
  turns = 0;
  settle();
}

bool Cursor::repeats() {
  if (turns == 0 || at != bodyEnd)
    return false;
  if (--turns > 0)
    at = bodyBegin;
  return turns > 0;
}

void Cursor::settle() {
  while (true) {
    bool isAgain = repeats();
    if (!isAgain && at == end) {
      ++callNumber;
      return enterCall();
    }
    const kerf_command &command = data.commands[at];
    bool runs = applies(command, call());
    if (command.opcode != KERF_OP_LOOP) {
      if (runs)
        return;
      ++at;
      continue;
    }
    const int64_t *attrs = data.attrs.data() + command.first_attr;
    int64_t count = runs ? attrs[KERF_LOOP_END] - attrs[KERF_LOOP_START] : 0;
    bodyBegin = at + 1;
    bodyEnd = bodyBegin + uint32_t(attrs[KERF_LOOP_BODY]);
    turns = count;
    // An empty body has nothing to repeat.
    if (count <= 0 || bodyBegin == bodyEnd) {
      turns = 0;
      at = bodyEnd;
    } else {
      at = bodyBegin;
    }
  }
}
