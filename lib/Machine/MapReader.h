//===- MapReader.h - the fields of one map --------------------------------===//

#ifndef KERF_LIB_MACHINE_MAPREADER_H
#define KERF_LIB_MACHINE_MAPREADER_H

#include "Units.h"
#include "YamlTree.h"

#include "llvm/ADT/ArrayRef.h"

#include <limits>

namespace kerf::cluster {

enum class Need { Required, Optional };

/// What a field that holds a number may be.
struct NumberRule {
  Quantity quantity = Quantity::Number;
  llvm::StringRef example; ///< legal text, "80 GB"; its unit is proposed
  double least = 0;
  bool leastAllowed = false; ///< `least` itself
  double most = std::numeric_limits<double>::max();
};

/// Takes the fields of one map one after the other and tells what is wrong with
/// them. A getter of a field that is missing or wrong returns a neutral value
/// (0, empty), after telling it unless the field is optional and absent.
class MapReader {
public:
  /// `what` names the map in messages: "'device'", "the description". Repeated
  /// fields are told here; the first of them counts.
  MapReader(const YamlValue &map, std::string what, Problems &problems);

  /// The member, or null; for fields that need more than the getters below.
  const YamlMember *take(llvm::StringRef field, Need need,
                         llvm::StringRef expected);
  /// As `take`, and of this kind.
  const YamlMember *takeMap(llvm::StringRef field, Need need);
  const YamlMember *takeList(llvm::StringRef field, Need need);

  double number(llvm::StringRef field, Need need, const NumberRule &rule,
                double absent = 0);
  /// A whole number from 1 to 1,000,000,000.
  int64_t count(llvm::StringRef field, Need need);
  /// 1 to 64 letters, digits and '.', '_', '-', '+'.
  std::string name(llvm::StringRef field, Need need);
  /// At most 200 printable characters; optional, "" where it is missing.
  std::string text(llvm::StringRef field);
  /// Whether the map has the field, which is not taken by asking.
  bool has(llvm::StringRef field) const { return map.get(field); }
  /// One of `words`; its index, or -1.
  int choice(llvm::StringRef field, Need need,
             llvm::ArrayRef<llvm::StringRef> words);

  /// To be called when all fields are taken: tells those that are left over.
  void finish();

private:
  const YamlMember *takeScalar(llvm::StringRef field, Need need,
                               llvm::StringRef expected);
  bool isKnown(llvm::StringRef field) const;

  const YamlValue &map;
  std::string what;
  Problems &problems;
  std::vector<std::string> known;
};

/// `value` in a message: "'80'", "a map", "a list", "nothing".
std::string describeValue(const YamlValue &value);
/// Reads `value` as a whole number from 1 to 1,000,000,000, else tells it of
/// `field` and returns 0.
int64_t readCount(const YamlValue &value, llvm::StringRef field,
                  Problems &problems);
/// That of `names` which `word` was probably meant to be, or "".
llvm::StringRef nearestWord(llvm::StringRef word,
                            llvm::ArrayRef<std::string> names);

} // namespace kerf::cluster

#endif // KERF_LIB_MACHINE_MAPREADER_H
