//===- Status.cpp ---------------------------------------------------------===//

#include "Status.h"

#include <cstdarg>
#include <cstdio>

using namespace kerf::runtime;

kerf_status Status::report(kerf_error *error) const {
  if (error) {
    error->status = code;
    std::snprintf(error->message, sizeof error->message, "%s", message.c_str());
  }
  return code;
}

Status kerf::runtime::failure(kerf_status code, const char *format, ...) {
  char text[KERF_MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return {code, text};
}

int kerf_exit_code(kerf_status status) {
  switch (status) {
  case KERF_OK:
    return 0;
  case KERF_FAILED:
  case KERF_PEER_LOST:
  case KERF_STALLED:
    return 128;
  default:
    return 1;
  }
}
