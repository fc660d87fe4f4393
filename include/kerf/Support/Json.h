//===- Json.h - Strict JSON with positions ----------------------*- C++ -*-===//
//
// A small JSON reader and writer (RFC 8259). The reader keeps the position of
// every value and of every key, so that a later check ("n_head must divide
// n_embd") can point at the field it refuses. The writer is deterministic:
// equal values give equal bytes.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SUPPORT_JSON_H
#define KERF_SUPPORT_JSON_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/LogicalResult.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::json {

/// A place in the text. Lines and columns start at 1; columns count bytes, as
/// LLVM diagnostics do. A byte order mark is not counted. 0:0 means that the
/// value was made by the program and was not read from a text.
struct Position {
  int line = 0;
  int column = 0;
};

enum class Kind { Null, Bool, Number, String, Array, Object };

/// The name of `kind` for messages: "null", "a boolean", "a number", "a
/// string", "an array", "an object".
llvm::StringRef describeKind(Kind kind);

/// `text` from a stranger as it may stand in a message: in single quotes, at
/// most 80 bytes and then "...", unprintable bytes as "\\0A".
std::string quote(llvm::StringRef text);

struct Member;

/// One JSON value; only the fields of its `kind` have a meaning.
struct Value {
  Kind kind = Kind::Null;
  /// Kind::Bool.
  bool boolean = false;
  /// Kind::Number: true when the number is written without fraction and
  /// exponent and fits in 64 bits. `integer` is then exact, whereas `number`
  /// is the nearest double.
  bool isInteger = false;
  /// Kind::Number, finite.
  double number = 0.0;
  /// Kind::Number with `isInteger`.
  int64_t integer = 0;
  /// Kind::String, valid UTF-8 with escapes resolved; may hold NUL.
  std::string string;
  /// Kind::Array.
  std::vector<Value> array;
  /// Kind::Object, in the order of the text, keys are unique.
  std::vector<Member> object;
  /// The first character of the value.
  Position position;

  static Value fromBool(bool value);
  static Value fromInteger(int64_t value);
  /// `value` must be finite: JSON has no other numbers.
  static Value fromNumber(double value);
  /// `value` must be valid UTF-8.
  static Value fromString(llvm::StringRef value);
  static Value makeArray();
  static Value makeObject();

  /// The value of `key` in an object, or null when there is none or when this
  /// is no object. Linear in the number of members. The pointer is valid until
  /// the object changes.
  const Value *find(llvm::StringRef key) const;
  /// The member of `key` (its value and the position of the key), as `find`.
  const Member *findMember(llvm::StringRef key) const;
  /// Gives `key` of this object the value `value`, replacing an earlier one,
  /// and returns the stored value. This must be an object.
  Value &set(llvm::StringRef key, Value value);
};

/// One `"key": value` of an object.
struct Member {
  std::string key;
  Value value;
  Position keyPosition;
};

/// Bounds on what `parse` accepts, so that hostile text costs time linear in
/// its size and bounded memory.
struct ParseLimits {
  /// Arrays and objects inside each other. `parse` recurses this deep.
  int maxDepth = 256;
  /// Values in total; each takes about 150 bytes.
  int64_t maxValues = int64_t(1) << 22;
};

using ErrorHandler =
    llvm::function_ref<void(Position position, const llvm::Twine &message)>;

/// Reads the one JSON value that `text` holds. A UTF-8 byte order mark is
/// skipped. On failure `onError` was called exactly once, with the place and
/// the message. Refused: everything that RFC 8259 does not allow (comments,
/// trailing commas, NaN, Infinity, text after the value, invalid UTF-8, lone
/// surrogates), duplicate keys, numbers outside the range of double, and what
/// exceeds `limits`.
[[nodiscard]] llvm::FailureOr<Value> parse(llvm::StringRef text,
                                           ErrorHandler onError,
                                           const ParseLimits &limits = {});

struct PrintOptions {
  /// Spaces per level; 0 prints everything on one line without spaces.
  int indent = 2;
  /// Print members by ascending key (bytewise) instead of in stored order.
  bool sortKeys = true;
};

/// Prints `value`; no newline at the end. Integers print exactly, other
/// numbers with the fewest digits that read back as the same double and always
/// with a '.' or an exponent, so that `parse(print(v))` keeps `isInteger`.
/// Strings and numbers must be as the factories above demand.
std::string print(const Value &value, const PrintOptions &options = {});

} // namespace kerf::json

#endif // KERF_SUPPORT_JSON_H
