//===- Screen.h - tables and text for people ----------------------------===//

#ifndef KERF_SUPPORT_SCREEN_H
#define KERF_SUPPORT_SCREEN_H

#include "kerf/Support/Numbers.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace kerf::report {

/// Widest line of a screen.
constexpr size_t kColumns = 110;

/// With k, M, G, T, P, E before the unit: "1.23 PFLOP/s".
std::string scaled(double number, llvm::StringRef unit);
/// "1 device", "2 devices".
std::string plural(double count, llvm::StringRef word);

/// Shares of a whole in tenths of a percent that add to exactly 1000, by the
/// method of the largest remainder. `parts` are not negative and not all zero.
std::vector<int64_t> tenths(llvm::ArrayRef<double> parts);

/// Rows of cells in columns. The first row may be a heading; columns are as
/// wide as their widest cell and two spaces apart.
struct Table {
  /// One letter per column: 'l' left, 'r' right, 'w' left, in several lines
  /// where a row would be wider than `kColumns`.
  std::string align;
  int indent = 2;
  std::vector<std::vector<std::string>> rows;
  std::string print() const;
};

/// Words of `text` in lines of at most `width`, at least one.
std::vector<std::string> wrap(llvm::StringRef text, size_t width);
/// A paragraph at `indent`, later lines at `hanging`.
std::string paragraph(llvm::StringRef text, size_t indent, size_t hanging);

/// A heading of a part, bold on a terminal.
std::string heading(llvm::StringRef title, llvm::StringRef more, bool color);

/// Text as it may stand between tags of HTML and SVG, and in attributes.
std::string escapeMarkup(llvm::StringRef text);

/// Text from a stranger without control characters.
std::string clean(llvm::StringRef text);

} // namespace kerf::report

#endif // KERF_SUPPORT_SCREEN_H
