//===- Json.h - read the JSON of checkpoints --------------------*- C++ -*-===//
//
// RFC 8259, strictly; a repeated key is an error. Integers keep 64 bits.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_JSON_H
#define KERF_TRAIN_JSON_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::runtime {

struct JsonMember;

struct JsonValue {
  enum Kind { Null, Bool, Number, String, Array, Object };

  Kind kind = Null;
  bool boolean = false;
  /// The number; `isInteger` if it is written as one that fits `integer`.
  double number = 0;
  int64_t integer = 0;
  bool isInteger = false;
  std::string string;
  std::vector<JsonValue> array;
  /// In the order of the text.
  std::vector<JsonMember> object;

  /// The member `key`, or null (also if this is no object).
  const JsonValue *find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

/// Reads `text`; on failure `error` is one line with the byte's position.
/// Nesting beyond 64 levels is refused.
[[nodiscard]] bool parseJson(std::string_view text, JsonValue &value,
                             std::string &error);

} // namespace kerf::runtime

#endif // KERF_TRAIN_JSON_H
