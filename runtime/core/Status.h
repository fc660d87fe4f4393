//===- Status.h - what went wrong, if anything ----------------------------===//

#ifndef KERF_RUNTIME_CORE_STATUS_H
#define KERF_RUNTIME_CORE_STATUS_H

#include "kerf/Runtime/Runtime.h"

#include <string>

namespace kerf::runtime {

/// A status with its message; KERF_OK has none.
struct [[nodiscard]] Status {
  kerf_status code = KERF_OK;
  std::string message;

  bool failed() const { return code != KERF_OK; }

  /// Tells a caller behind the C border. Returns the code.
  kerf_status report(kerf_error *error) const;
};

/// A failure with a message as printf makes it.
Status failure(kerf_status code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

} // namespace kerf::runtime

#endif // KERF_RUNTIME_CORE_STATUS_H
