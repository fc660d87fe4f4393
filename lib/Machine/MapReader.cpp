//===- MapReader.cpp - the fields of one map ------------------------------===//

#include "MapReader.h"

#include "kerf/Support/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace kerf;
using namespace kerf::cluster;
using json::quote;
using llvm::StringRef;

static constexpr int64_t kMaxCount = 1000 * 1000 * 1000;
static constexpr size_t kMaxName = 64;
static constexpr size_t kMaxText = 200;

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

std::string kerf::cluster::describeValue(const YamlValue &value) {
  switch (value.kind) {
  case YamlKind::Nothing:
    return "nothing";
  case YamlKind::Scalar:
    return quote(value.text);
  case YamlKind::Map:
    return "a map";
  case YamlKind::List:
    return "a list";
  }
  return "";
}

StringRef kerf::cluster::nearestWord(StringRef word,
                                     llvm::ArrayRef<std::string> names) {
  // A third of the letters wrong is another word; long ones cost time.
  if (word.size() > kMaxName)
    return "";
  unsigned best = std::max<size_t>(2, word.size() / 3) + 1;
  StringRef nearest;
  for (StringRef name : names) {
    unsigned distance = word.edit_distance(name, true, best);
    if (distance < best) {
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

static std::string didYouMean(StringRef word,
                              llvm::ArrayRef<std::string> names) {
  StringRef nearest = nearestWord(word, names);
  return nearest.empty() ? "" : ", did you mean '" + nearest.str() + "'?";
}

static std::string ofField(StringRef field) {
  return "field '" + field.str() + "': ";
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

MapReader::MapReader(const YamlValue &map, std::string what, Problems &problems)
    : map(map), what(std::move(what)), problems(problems) {
  llvm::StringMap<Place> seen;
  for (const YamlMember &member : map.members) {
    auto [first, isNew] = seen.try_emplace(member.key, member.keyPlace);
    if (isNew)
      continue;
    const Place &place = first->second;
    problems.error(member.keyPlace,
                   "field " + quote(member.key) + " is given twice",
                   {"first at " + std::to_string(place.line) + ":" +
                    std::to_string(place.column)});
  }
}

bool MapReader::isKnown(StringRef field) const {
  return llvm::is_contained(known, field);
}

void MapReader::finish() {
  for (const YamlMember &member : map.members) {
    if (isKnown(member.key))
      continue;
    // What is only counted needs no words, whose search takes time.
    if (problems.isFull()) {
      problems.error(member.keyPlace, "");
      continue;
    }
    problems.error(member.keyPlace,
                   "unknown field " + quote(member.key) + " in " + what +
                       didYouMean(member.key, known),
                   {"fields of " + what + ": " + llvm::join(known, ", ")});
  }
}

const YamlMember *MapReader::take(StringRef field, Need need,
                                  StringRef expected) {
  if (!llvm::is_contained(known, field))
    known.push_back(field.str());
  for (const YamlMember &member : map.members)
    if (member.key == field)
      return &member;
  if (need == Need::Required)
    problems.error(map.place, "missing field '" + field.str() + "' in " + what +
                                  ", expected " + expected.str());
  return nullptr;
}

const YamlMember *MapReader::takeMap(StringRef field, Need need) {
  const YamlMember *member = take(field, need, "a map");
  if (!member || member->value.kind == YamlKind::Map)
    return member;
  problems.error(member->value.place, ofField(field) + "found " +
                                          describeValue(member->value) +
                                          ", expected a map");
  return nullptr;
}

const YamlMember *MapReader::takeList(StringRef field, Need need) {
  const YamlMember *member = take(field, need, "a list");
  if (!member || member->value.kind == YamlKind::List)
    return member;
  problems.error(member->value.place, ofField(field) + "found " +
                                          describeValue(member->value) +
                                          ", expected a list");
  return nullptr;
}

const YamlMember *MapReader::takeScalar(StringRef field, Need need,
                                        StringRef expected) {
  const YamlMember *member = take(field, need, expected);
  if (!member || member->value.kind == YamlKind::Scalar)
    return member;
  problems.error(member->value.place, ofField(field) + "found " +
                                          describeValue(member->value) +
                                          ", expected " + expected.str());
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

/// A legal text for the field with the number that was found: "80 GB". Its unit
/// is `near` or, when that is none, the one of the example.
static std::string propose(const NumberRule &rule, StringRef number,
                           StringRef near) {
  StringRef unit =
      near.empty() ? readQuantity(rule.example, rule.quantity).unit : near;
  if (number.empty() || number.size() > 16)
    return "'" + rule.example.str() + "'";
  return "'" + number.str() + " " + unit.str() + "'";
}

/// "a size with its unit, such as '80 GB'".
static std::string expectedText(const NumberRule &rule, StringRef number) {
  if (rule.quantity == Quantity::Number)
    return "a number, such as '" + rule.example.str() + "'";
  return describe(rule.quantity).str() + " with its unit, such as " +
         propose(rule, number, "");
}

/// What is expected in place of an unknown unit. One that is two letters off is
/// taken for what was meant.
static std::string expectedUnit(const NumberRule &rule,
                                const ReadQuantity &read, StringRef near) {
  if (rule.quantity == Quantity::Number)
    return "a number without unit, such as '" + read.number.str() + "'";
  bool isNear = read.unit.size() <= 16 && read.unit.edit_distance(near) <= 2;
  // "1,000 GB": the number is not what was meant.
  bool isWord = llvm::isAlpha(read.unit.front());
  return describe(rule.quantity).str() + ", such as " +
         propose(rule, isWord ? read.number : "", isNear ? near : "");
}

static std::string rangeText(const NumberRule &rule) {
  std::string least = printQuantity(rule.least, rule.quantity);
  std::string most = printQuantity(rule.most, rule.quantity);
  std::string what = describe(rule.quantity).str();
  return rule.leastAllowed ? what + " from " + least + " to " + most
                           : what + " above " + least + ", at most " + most;
}

/// Parts of 1, which are easily taken for percent.
static bool isPart(const NumberRule &rule) {
  return rule.quantity == Quantity::Number && rule.most <= 1;
}

static bool isInRange(double value, const NumberRule &rule) {
  bool isEnough = rule.leastAllowed ? value >= rule.least : value > rule.least;
  return isEnough && value <= rule.most;
}

double MapReader::number(StringRef field, Need need, const NumberRule &rule,
                         double absent) {
  const YamlMember *member = takeScalar(field, need, expectedText(rule, ""));
  if (!member)
    return absent;
  StringRef text = member->value.text;
  ReadQuantity read = readQuantity(text, rule.quantity);
  std::string found = ofField(field) + "found " + quote(text) + ", expected ";
  std::vector<std::string> notes;
  if (read.error == QuantityError::UnknownUnit) {
    std::vector<StringRef> units = unitsNear(rule.quantity, read.unit);
    found += expectedUnit(rule, read, units.empty() ? "" : units.front());
    if (!units.empty())
      notes.push_back("units of " + describe(rule.quantity).str() +
                      ", nearest first: " + llvm::join(units, ", "));
  } else if (read.error == QuantityError::NoNumber ||
             read.error == QuantityError::NoUnit) {
    found += expectedText(rule, read.number);
  } else if (!isInRange(read.value, rule)) {
    found += rangeText(rule);
    if (isPart(rule) && read.value >= 2 && read.value <= 100 &&
        read.value == std::floor(read.value))
      notes.push_back(llvm::formatv("a part of 1: write '{0}' for {1} %",
                                    read.value / 100, text));
  } else {
    return read.value;
  }
  problems.error(member->value.place, found, notes);
  return absent;
}

int64_t kerf::cluster::readCount(const YamlValue &value, StringRef field,
                                 Problems &problems) {
  int64_t count = 0;
  StringRef text = value.text;
  bool isWhole = value.kind == YamlKind::Scalar && !text.empty() &&
                 llvm::all_of(text, llvm::isDigit) &&
                 !text.getAsInteger(10, count);
  if (isWhole && count >= 1 && count <= kMaxCount)
    return count;
  problems.error(value.place, ofField(field) + "found " + describeValue(value) +
                                  ", expected a whole number from 1 to " +
                                  std::to_string(kMaxCount));
  return 0;
}

int64_t MapReader::count(StringRef field, Need need) {
  const YamlMember *member = take(field, need, "a whole number");
  return member ? readCount(member->value, field, problems) : 0;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

std::string MapReader::name(StringRef field, Need need) {
  const YamlMember *member = takeScalar(field, need, "a name");
  if (!member)
    return "";
  StringRef text = member->value.text;
  auto isLegal = [](char c) {
    return llvm::isAlnum(c) || StringRef("._-+").contains(c);
  };
  if (!text.empty() && text.size() <= kMaxName && llvm::all_of(text, isLegal))
    return text.str();
  problems.error(member->value.place,
                 ofField(field) + "found " + quote(text) +
                     ", expected a name of 1 to 64 letters, digits, '.', '_', "
                     "'-' and '+'");
  return "";
}

std::string MapReader::text(StringRef field) {
  const YamlMember *member = takeScalar(field, Need::Optional, "a text");
  if (!member)
    return "";
  StringRef text = member->value.text;
  bool isLegal =
      llvm::all_of(text, [](char c) { return llvm::isPrint(c) || (c & 0x80); });
  if (!text.empty() && text.size() <= kMaxText && isLegal)
    return text.str();
  problems.error(member->value.place,
                 ofField(field) + "found " + quote(text.take_front(kMaxText)) +
                     ", expected a text of 1 to " + std::to_string(kMaxText) +
                     " printable characters, such as 'our own run of May'");
  return "";
}

int MapReader::choice(StringRef field, Need need,
                      llvm::ArrayRef<StringRef> words) {
  std::string expected = "one of " + llvm::join(words, ", ");
  const YamlMember *member = takeScalar(field, need, expected);
  if (!member)
    return -1;
  auto word = llvm::find(words, StringRef(member->value.text));
  if (word != words.end())
    return word - words.begin();
  std::vector<std::string> names(words.begin(), words.end());
  problems.error(member->value.place,
                 ofField(field) + "found " + quote(member->value.text) +
                     ", expected " + expected +
                     didYouMean(member->value.text, names));
  return -1;
}
