//===- Messages.h - do the stages of a pipeline wait for each other? ------===//

#ifndef KERF_LIB_SCHEDULE_MESSAGES_H
#define KERF_LIB_SCHEDULE_MESSAGES_H

#include "kerf/Dialect/Spmd/Pipelines.h"

#include <string>

namespace kerf {

/// Simulates what the stages send, receive and combine in a schedule, with
/// channels that keep so many messages. Succeeds when all come to the end, no
/// message is left, and each is received as it was sent. Else `error` says
/// which stage waits for what, and `at` is the call. Linear in the calls.
mlir::LogicalResult simulateMessages(const StagePrograms &programs,
                                     llvm::StringRef schedule, int64_t capacity,
                                     std::string &error, mlir::Operation *&at);

} // namespace kerf

#endif // KERF_LIB_SCHEDULE_MESSAGES_H
