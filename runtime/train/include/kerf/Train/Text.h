//===- Text.h - numbers, names and sizes for people -------------*- C++ -*-===//

#ifndef KERF_TRAIN_TEXT_H
#define KERF_TRAIN_TEXT_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::runtime {

/// `text` in single quotes; bytes that are no printable ASCII as \xNN.
std::string quote(std::string_view text);
/// `text` as a JSON string with its double quotes. Bytes that are no valid
/// UTF-8 become U+FFFD.
std::string jsonQuote(std::string_view text);
/// Bytes of the UTF-8 sequence at the start of a text that is not empty; 0 if
/// there is none.
size_t utf8Length(std::string_view text);
/// Whether more bytes could make such a sequence of the whole text.
bool mayBeginUtf8(std::string_view text);
/// As printf.
[[gnu::format(printf, 1, 2)]] std::string format(const char *pattern, ...);
/// 1234567 as "1,234,567".
std::string withCommas(int64_t value);
/// Bytes as "1.5 MiB", with three significant digits or more.
std::string formatBytes(uint64_t bytes);
/// Seconds as "1:02:03" or "02:03".
std::string formatDuration(double seconds);
/// "2026-01-31", of this machine's clock and zone.
std::string today();
/// "2026-01-31T12:34:56Z".
std::string utcNow();
/// A shape as "[2 x 3]".
std::string formatShape(const std::vector<int64_t> &shape);

/// Reads the whole of `text` as a decimal integer or a number; false if it is
/// none, or does not fit.
[[nodiscard]] bool parseInteger(std::string_view text, int64_t &value);
[[nodiscard]] bool parseReal(std::string_view text, double &value);

bool endsWith(std::string_view text, std::string_view suffix);

/// What is wrong, behind a colon: the one error, or a line for each of the
/// first eight.
std::string listErrors(const std::vector<std::string> &errors);

/// Edits (insert, delete, replace one character) that turn `a` into `b`
/// (Wagner and Fischer 1974).
size_t editDistance(std::string_view a, std::string_view b);
/// The candidate nearest to `word`; empty if none is within a third of its
/// length (at least two edits).
std::string nearest(std::string_view word,
                    const std::vector<std::string> &candidates);

} // namespace kerf::runtime

#endif // KERF_TRAIN_TEXT_H
