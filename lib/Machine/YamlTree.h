//===- YamlTree.h - YAML as values with positions -------------------------===//
//
// What a description needs of YAML: maps, lists and scalars, each with the
// place where it begins. LLVM's reader is a stream that is walked once and
// gives no lines; this tree can be asked in any order.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_MACHINE_YAMLTREE_H
#define KERF_LIB_MACHINE_YAMLTREE_H

#include "kerf/Machine/Machine.h"

#include <optional>
#include <string>
#include <vector>

namespace kerf::cluster {

/// A place in the text, from 1; columns count bytes.
struct Place {
  int line = 1;
  int column = 1;
};

enum class YamlKind { Nothing, Scalar, Map, List };

struct YamlMember;

/// One value; only the fields of its `kind` have a meaning.
struct YamlValue {
  YamlKind kind = YamlKind::Nothing;
  /// Of its first character: '{' of a map in braces, else the first key; '[' or
  /// '-' of a list; of nothing the key, or the list, that lacks a value.
  Place place;
  std::string text;                ///< Scalar, quotes and escapes resolved
  std::vector<YamlMember> members; ///< Map, as written; keys may repeat
  std::vector<YamlValue> items;    ///< List

  /// The value of the first `key` of a map, or null.
  const YamlValue *get(llvm::StringRef key) const;
};

struct YamlMember {
  std::string key;
  Place keyPlace;
  YamlValue value;
};

/// Collects what is wrong with a description.
class Problems {
public:
  explicit Problems(std::vector<MachineDiagnostic> &diagnostics)
      : diagnostics(diagnostics), first(diagnostics.size()) {}

  void error(Place place, std::string message,
             std::vector<std::string> notes = {});
  void warning(Place place, std::string message);
  bool hasErrors() const { return errors > 0; }
  /// More problems than anyone reads: the rest is only counted.
  bool isFull() const;
  /// Puts the problems in the order of the text and drops those after the 64th.
  void finish();

private:
  std::vector<MachineDiagnostic> &diagnostics;
  size_t first;
  size_t errors = 0;
  size_t dropped = 0;

  void add(MachineDiagnostic diagnostic);
};

/// Reads the one document that `text` holds. Returns nothing after telling an
/// error: size above 1 MB, a NUL byte, a syntax error, nesting above 256, a key
/// that is no scalar, anchors, aliases, tags, blocks of text, a second
/// document.
std::optional<YamlValue> readYaml(llvm::StringRef text, Problems &problems);

} // namespace kerf::cluster

#endif // KERF_LIB_MACHINE_YAMLTREE_H
