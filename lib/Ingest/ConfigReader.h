//===- ConfigReader.h - Typed fields of a config ----------------*- C++ -*-===//
//
// Reads the fields of one JSON object by type and range. Every problem is a
// diagnostic at the field; reading goes on with a default, so that one run
// reports all wrong fields. `failed()` tells in the end.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_INGEST_CONFIGREADER_H
#define KERF_LIB_INGEST_CONFIGREADER_H

#include "Fields.h"

#include "kerf/Support/Json.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"

#include <limits>
#include <optional>

namespace kerf {

/// Inclusive bounds of an integer field.
struct IntegerRange {
  int64_t min = 1;
  int64_t max = std::numeric_limits<int32_t>::max();
};

/// Bounds of a real field.
struct RealRange {
  double min = 0.0;
  /// Values must be below.
  double end = std::numeric_limits<double>::infinity();
  /// Whether `min` itself is refused.
  bool isMinExcluded = false;
};

class ConfigReader {
public:
  /// Fields of `object`, which must outlive the reader, as does `fields`.
  /// `prefix` stands before names in messages: "rope_scaling.".
  ConfigReader(const json::Value &object, llvm::StringRef fileName,
               mlir::MLIRContext *context, llvm::ArrayRef<Field> fields,
               llvm::StringRef title, llvm::StringRef prefix = "");

  /// Refuses fields that are unknown or Fixed to another value.
  void checkFields();

  /// Whether such a config may have the field.
  bool knows(llvm::StringRef name) const { return findField(fields, name); }
  /// The value of the field under its name or alias, or null when absent.
  const json::Value *find(llvm::StringRef name) const;
  /// As `find`, with null also where the config says `null`.
  const json::Value *findNonNull(llvm::StringRef name) const;

  int64_t integer(llvm::StringRef name, int64_t absent,
                  IntegerRange range = {});
  /// As `integer`; `null` in the config gives nothing.
  std::optional<int64_t> optionalInteger(llvm::StringRef name,
                                         std::optional<int64_t> absent,
                                         IntegerRange range = {});
  double real(llvm::StringRef name, double absent, RealRange range = {});
  bool boolean(llvm::StringRef name, bool absent);
  std::string string(llvm::StringRef name, llvm::StringRef absent);
  /// The entries of an array; none when absent or null.
  llvm::ArrayRef<json::Value> list(llvm::StringRef name);

  /// An error at the field (at the object when absent); marks failure.
  mlir::InFlightDiagnostic error(llvm::StringRef name);
  /// The same about a value; says so where it is the default of an absent
  /// field.
  mlir::InFlightDiagnostic valueError(llvm::StringRef name);
  /// An error at an entry of the field.
  mlir::InFlightDiagnostic errorAt(const json::Value &entry,
                                   llvm::StringRef name,
                                   const llvm::Twine &expected);
  mlir::InFlightDiagnostic warning(llvm::StringRef name);
  /// Where the field's value is, or the object when absent.
  mlir::Location locationOf(llvm::StringRef name) const;
  mlir::Location locationOf(json::Position position) const;
  mlir::MLIRContext *getContext() const { return context; }
  llvm::StringRef getFileName() const { return fileName; }

  /// The value of a field as a message shows it: `12`, `'gelu'`, `an array`.
  static std::string describe(const json::Value &value);
  /// A number as a message shows it, with the fewest digits.
  static std::string describe(double value);

  bool failed() const { return hasFailed; }
  void markFailed() { hasFailed = true; }

private:
  void checkFixed(const json::Member &member, const Field &field);
  void reportUnknown(const json::Member &member);
  /// 'prefix.name' in quotes.
  std::string quoted(llvm::StringRef name) const;
  mlir::InFlightDiagnostic mismatch(llvm::StringRef name,
                                    const llvm::Twine &expected,
                                    const json::Value &found);

  const json::Value &object;
  llvm::StringRef fileName;
  mlir::MLIRContext *context;
  llvm::ArrayRef<Field> fields;
  llvm::StringRef title;
  llvm::StringRef prefix;
  bool hasFailed = false;
};

} // namespace kerf

#endif // KERF_LIB_INGEST_CONFIGREADER_H
