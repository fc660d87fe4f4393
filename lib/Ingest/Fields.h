//===- Fields.h - Known fields of configs -----------------------*- C++ -*-===//
//
// Every field that a config of a family may have, and what becomes of it. A
// field that is not here is refused: it may change the computation.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_INGEST_FIELDS_H
#define KERF_LIB_INGEST_FIELDS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace kerf {

enum class FieldUse {
  Used,  ///< read by the importer
  Inert, ///< has no effect on the loss or its gradients
  Fixed, ///< only values that mean what the importer does are accepted
};

struct Field {
  llvm::StringLiteral name;
  FieldUse use;
  /// What it sets, why it is inert, or what another value would change.
  llvm::StringLiteral text;
  /// Fixed: the accepted values as JSON, separated by spaces.
  llvm::StringLiteral accepted = "";
  /// Used: another spelling with the same meaning.
  llvm::StringLiteral alias = "";
};

/// Words of fields that many families have.
inline constexpr llvm::StringLiteral kUnlike =
    "is not read by this family, though it seems to make layers unlike each "
    "other";
inline constexpr llvm::StringLiteral kBias =
    "biases in attention (default false)";
inline constexpr llvm::StringLiteral kNoBias =
    "not read by this family, though it seems to add biases";
inline constexpr llvm::StringLiteral kParallelism =
    "how the published code is distributed";
inline constexpr llvm::StringLiteral kNoAuxLoss =
    "the library has no auxiliary loss of this family";
inline constexpr llvm::StringLiteral kQuotient =
    "(default null: hidden_size / heads)";

struct Family {
  /// The config's `model_type`.
  llvm::StringLiteral name;
  /// The library's class that this importer stands for.
  llvm::StringLiteral modelClass;
  /// Fields besides the common ones.
  llvm::ArrayRef<Field> fields;
  /// Of `rope_scaling` and `rope_parameters`, besides the common ones.
  llvm::ArrayRef<Field> rope = {};
};

/// Those whose layers differ from llama's in form.
llvm::ArrayRef<Family> formFamilies();

/// The same with experts.
llvm::ArrayRef<Family> mixtureFamilies();

/// All families, by name.
llvm::ArrayRef<Family> getFamilies();

/// The family of a `model_type`, or null.
const Family *findFamily(llvm::StringRef name);

/// Fields of the family, then those that all families have.
llvm::SmallVector<Field> allFields(const Family &family);

/// Fields of `rope_scaling` and `rope_parameters`.
llvm::SmallVector<Field> ropeFields(const Family &family);

/// The field of this name or alias, or null.
const Field *findField(llvm::ArrayRef<Field> fields, llvm::StringRef name);

/// The known name or alias with the fewest edits from `name`, or "" when none
/// is close.
llvm::StringRef nearestName(llvm::ArrayRef<Field> fields, llvm::StringRef name);

} // namespace kerf

#endif // KERF_LIB_INGEST_FIELDS_H
