//===- ControlBytes.h - what a terminal takes for commands ----------------===//
//
// Names of models and of compiled files are printed. What is none to print is
// refused where they are read; the runtime, which has no LLVM, does it, too.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SUPPORT_CONTROLBYTES_H
#define KERF_SUPPORT_CONTROLBYTES_H

#include <string_view>

namespace kerf {

/// Place of the first control character of UTF-8 (below a space, DEL, 0x80 to
/// 0x9f); npos without one. Ends of lines and tabs are none in `lines`.
inline size_t findControl(std::string_view text, bool lines = false) {
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    bool isLayout = c == '\n' || c == '\r' || c == '\t';
    if ((c < 0x20 && !(lines && isLayout)) || c == 0x7f)
      return i;
    auto next =
        static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (c == 0xc2 && next >= 0x80 && next < 0xa0)
      return i;
  }
  return std::string_view::npos;
}

inline bool hasControl(std::string_view text) {
  return findControl(text) != std::string_view::npos;
}

} // namespace kerf

#endif // KERF_SUPPORT_CONTROLBYTES_H
