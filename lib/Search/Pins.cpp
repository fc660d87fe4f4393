//===- Pins.cpp - what a person fixes, as text ----------------------------===//

#include "kerf/Search/Pins.h"
#include "kerf/Support/Schedules.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <map>

using namespace kerf;

namespace {
/// A key whose value is a number.
struct NumberKey {
  llvm::StringLiteral name;
  std::vector<int64_t> Pins::*list;
  int64_t least, most;
  bool isAxis = false;
};
constexpr int64_t kMany = int64_t(1) << 20;
const NumberKey kNumbers[] = {{"tp", &Pins::tp, 1, kMany, true},
                              {"cp", &Pins::cp, 1, kMany, true},
                              {"ep", &Pins::ep, 1, kMany, true},
                              {"pp", &Pins::pp, 1, kMany, true},
                              {"dp", &Pins::dp, 1, kMany, true},
                              {"mb", &Pins::microBatch, 1, kMany},
                              {"m", &Pins::microBatches, 1, kMany},
                              {"v", &Pins::chunks, 1, kMany},
                              {"defer", &Pins::defer, 0, kMany},
                              {"zero", &Pins::zero, 0, 3},
                              {"shard", &Pins::shardGroup, 1, kMany},
                              {"devices", &Pins::devices, 1, kMany}};
constexpr llvm::StringLiteral kOthers[] = {"schedule", "recompute", "order",
                                           "layers",   "moe",       "cp_order"};
constexpr llvm::StringLiteral kCpOrders[] = {"zigzag", "plain"};
constexpr llvm::StringLiteral kMoe[] = {"gather", "all_to_all"};
constexpr llvm::StringLiteral kAxes[] = {"tp", "cp", "dp", "pp"};
constexpr llvm::StringLiteral kRecompute[] = {"none", "selective", "full"};
/// More values than this in a range are a mistake.
constexpr int64_t kLongestRange = 4096;

class Parser {
public:
  explicit Parser(std::vector<std::string> &errors) : errors(errors) {}
  Pins parse(llvm::StringRef text);

private:
  std::vector<std::string> &errors;
  Pins pins;
  std::map<std::string, std::string> given; ///< item of each key

  void error(const llvm::Twine &message) { errors.push_back(message.str()); }
  void item(llvm::StringRef text);
  void number(const NumberKey &key, llvm::StringRef value, bool forbid);
  bool single(const NumberKey &key, llvm::StringRef text, int64_t &number);
  void schedule(llvm::StringRef value);
  void recompute(llvm::StringRef value);
  void moe(llvm::StringRef value);
  void cpOrder(llvm::StringRef value);
  void order(llvm::StringRef value);
  void layers(llvm::StringRef value);
};
} // namespace

llvm::StringRef kerf::nameOf(MeshAxis axis) {
  return kAxes[static_cast<size_t>(axis)];
}

std::vector<llvm::StringRef> kerf::axisNames() {
  std::vector<llvm::StringRef> names;
  for (const NumberKey &key : kNumbers)
    if (key.isAxis)
      names.push_back(key.name);
  return names;
}

static std::vector<llvm::StringRef> numberKeys() {
  std::vector<llvm::StringRef> names;
  for (const NumberKey &key : kNumbers)
    names.push_back(key.name);
  return names;
}

std::vector<llvm::StringRef> kerf::pinKeys() {
  std::vector<llvm::StringRef> names(std::begin(kOthers), std::end(kOthers));
  llvm::append_range(names, numberKeys());
  return names;
}

/// The name nearest to `text`, by edits.
static llvm::StringRef nearest(llvm::StringRef text,
                               llvm::ArrayRef<llvm::StringRef> names) {
  return *llvm::min_element(names, [&](llvm::StringRef a, llvm::StringRef b) {
    return text.edit_distance(a) < text.edit_distance(b);
  });
}

static llvm::SmallVector<llvm::StringRef>
refsOf(llvm::ArrayRef<llvm::StringLiteral> names) {
  return {names.begin(), names.end()};
}

/// "expected a, b or c; the nearest is 'b'".
static std::string expected(llvm::StringRef found,
                            llvm::ArrayRef<llvm::StringRef> names) {
  return "expected one of " + llvm::join(names, ", ") + "; the nearest is '" +
         nearest(found, names).str() + "'";
}

bool Parser::single(const NumberKey &key, llvm::StringRef text,
                    int64_t &number) {
  if (text.getAsInteger(10, number)) {
    error("pin '" + key.name + "': expected a number, found '" + text + "'");
    return false;
  }
  if (number >= key.least && number <= key.most)
    return true;
  error("pin '" + key.name + "': found " + llvm::Twine(number) + ", expected " +
        llvm::Twine(key.least) + " to " + llvm::Twine(key.most) +
        "; the nearest is " +
        llvm::Twine(std::clamp(number, key.least, key.most)));
  return false;
}

void Parser::number(const NumberKey &key, llvm::StringRef value, bool forbid) {
  llvm::SmallVector<llvm::StringRef> parts;
  value.split(parts, '|');
  for (llvm::StringRef part : parts) {
    auto [low, high] = part.split("..");
    int64_t first = 0, last = 0;
    if (!single(key, low.trim(), first))
      continue;
    last = first;
    if (part.contains("..") && !single(key, high.trim(), last))
      continue;
    if (last < first || last - first >= kLongestRange) {
      error("pin '" + key.name + "': range '" + part + "' " +
            (last < first
                 ? "is empty; the nearest is '" + high.trim() + ".." +
                       low.trim() + "'"
                 : "has more than " + llvm::Twine(kLongestRange) + " values"));
      continue;
    }
    for (int64_t number = first; number <= last; ++number)
      if (forbid)
        pins.forbidden.push_back({key.name.str(), number});
      else
        (pins.*key.list).push_back(number);
  }
}

void Parser::schedule(llvm::StringRef value) {
  auto names = llvm::map_to_vector(kSchedules, [](const ScheduleFacts &own) {
    return llvm::StringRef(own.name);
  });
  llvm::SmallVector<llvm::StringRef> parts;
  value.split(parts, '|');
  for (llvm::StringRef part : parts)
    if (auto kind = scheduleNamed(part.trim()))
      pins.schedules.push_back(*kind);
    else
      error("pin 'schedule': found '" + part.trim() + "', " +
            expected(part.trim(), names));
}

void Parser::recompute(llvm::StringRef value) {
  if (llvm::is_contained(kRecompute, value))
    pins.recompute = value.str();
  else
    error("pin 'recompute': found '" + value + "', " +
          expected(value, refsOf(kRecompute)));
}

void Parser::moe(llvm::StringRef value) {
  if (llvm::is_contained(kMoe, value))
    pins.moe = value.str();
  else
    error("pin 'moe': found '" + value + "', " + expected(value, refsOf(kMoe)));
}

void Parser::cpOrder(llvm::StringRef value) {
  if (llvm::is_contained(kCpOrders, value))
    pins.cpOrder = value.str();
  else
    error("pin 'cp_order': found '" + value + "', " +
          expected(value, refsOf(kCpOrders)));
}

void Parser::order(llvm::StringRef value) {
  llvm::SmallVector<llvm::StringRef> parts;
  value.split(parts, '.');
  std::vector<MeshAxis> order;
  for (llvm::StringRef part : parts) {
    auto found = llvm::find(kAxes, part.trim());
    if (found == std::end(kAxes)) {
      error("pin 'order': found '" + part + "', " +
            expected(part, refsOf(kAxes)));
      return;
    }
    auto axis = static_cast<MeshAxis>(found - std::begin(kAxes));
    if (llvm::is_contained(order, axis)) {
      error("pin 'order': '" + part + "' stands twice");
      return;
    }
    order.push_back(axis);
  }
  // Axes that are left out come last.
  for (MeshAxis axis : {MeshAxis::Tensor, MeshAxis::Context, MeshAxis::Data,
                        MeshAxis::Pipeline})
    if (!llvm::is_contained(order, axis))
      order.push_back(axis);
  pins.order = order;
}

void Parser::layers(llvm::StringRef value) {
  llvm::SmallVector<llvm::StringRef> parts;
  value.split(parts, '.');
  pins.stageLayers.clear();
  const NumberKey count = {"layers", nullptr, 1, kMany};
  for (llvm::StringRef part : parts) {
    int64_t number = 0;
    if (single(count, part.trim(), number))
      pins.stageLayers.push_back(number);
  }
}

/// How one of several values is asked for, where a key takes that.
static std::string choiceHint(llvm::StringRef key) {
  bool takesSeveral =
      key == "schedule" || llvm::is_contained(numberKeys(), key);
  return takesSeveral ? "; a choice is written '" + key.str() + "=A|B'" : "";
}

void Parser::item(llvm::StringRef text) {
  size_t equals = text.find('=');
  if (equals == llvm::StringRef::npos)
    return error("pin '" + text + "': expected 'key=value' such as 'tp=8'");
  bool forbid = text.take_front(equals).ends_with("!");
  llvm::StringRef key = text.take_front(equals).rtrim("!").trim();
  llvm::StringRef value = text.drop_front(equals + 1).trim();
  auto [before, isNew] = given.try_emplace(key.str(), text.str());
  if (!forbid && !isNew && before->second != text)
    return error("pin '" + key + "' is given twice: '" + before->second +
                 "' and '" + text + "'" + choiceHint(key));
  for (const NumberKey &known : kNumbers)
    if (known.name == key)
      return number(known, value, forbid);
  if (forbid && llvm::is_contained(kOthers, key))
    return error("pin '" + key + "': only numbers can be forbidden by '!='");
  if (key == "schedule")
    return schedule(value);
  if (key == "recompute")
    return recompute(value);
  if (key == "order")
    return order(value);
  if (key == "layers")
    return layers(value);
  if (key == "moe")
    return moe(value);
  if (key == "cp_order")
    return cpOrder(value);
  error("unknown pin '" + key + "', " + expected(key, pinKeys()));
}

Pins Parser::parse(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> items;
  text.split(items, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef one : items)
    if (!one.trim().empty())
      item(one.trim());
  return std::move(pins);
}

Pins kerf::parsePins(llvm::StringRef text, std::vector<std::string> &errors) {
  return Parser(errors).parse(text);
}

bool kerf::allows(const Pins &pins, llvm::StringRef key,
                  const std::vector<int64_t> &allowed, int64_t value) {
  return (allowed.empty() || llvm::is_contained(allowed, value)) &&
         llvm::none_of(pins.forbidden, [&](const auto &pair) {
           return pair.second == value && pair.first == key;
         });
}

/// Each pin as text, in a fixed order.
static std::vector<std::string> itemsOf(const Pins &pins) {
  std::vector<std::string> items;
  auto joined = [](const auto &list, llvm::StringRef separator, auto text) {
    std::string all;
    for (const auto &value : list)
      all += (all.empty() ? "" : separator.str()) + text(value);
    return all;
  };
  auto digits = [](int64_t value) { return std::to_string(value); };
  for (const NumberKey &key : kNumbers)
    if (!(pins.*key.list).empty())
      items.push_back(key.name.str() + "=" +
                      joined(pins.*key.list, "|", digits));
  for (const auto &[key, value] : pins.forbidden)
    items.push_back(key + "!=" + digits(value));
  if (!pins.schedules.empty())
    items.push_back("schedule=" +
                    joined(pins.schedules, "|", [](ScheduleKind kind) {
                      return nameOf(kind).str();
                    }));
  if (!pins.recompute.empty())
    items.push_back("recompute=" + pins.recompute);
  if (!pins.order.empty())
    items.push_back("order=" + joined(pins.order, ".", [](MeshAxis axis) {
                      return nameOf(axis).str();
                    }));
  if (!pins.moe.empty())
    items.push_back("moe=" + pins.moe);
  if (!pins.cpOrder.empty())
    items.push_back("cp_order=" + pins.cpOrder);
  if (!pins.stageLayers.empty())
    items.push_back("layers=" + joined(pins.stageLayers, ".", digits));
  return items;
}

std::string kerf::printPins(const Pins &pins) {
  return llvm::join(itemsOf(pins), ",");
}

std::vector<std::string> kerf::idlePins(const Pins &pins,
                                        const OuterChoice &chosen,
                                        bool sharesExperts) {
  auto axes =
      llvm::count_if(std::initializer_list<int64_t>{chosen.tp, chosen.cp,
                                                    chosen.dp, chosen.pp},
                     [](int64_t ranks) { return ranks > 1; });
  // Where a key says nothing of a plan, and why.
  const struct {
    llvm::StringLiteral key;
    bool isIdle;
    llvm::StringLiteral why;
  } rules[] = {
      {"ep", !sharesExperts && chosen.ep > 1, "no experts are split over them"},
      {"moe", !sharesExperts, "no experts are split over ranks"},
      {"cp_order", chosen.cp == 1, "cp is 1"},
      {"schedule", chosen.pp == 1, "pp is 1"},
      {"v", chosen.pp == 1, "pp is 1"},
      {"layers", chosen.pp == 1, "pp is 1"},
      {"order", axes < 2, "no two axes have more than one rank"},
      {"defer", !splitsWeightGradient(chosen.schedule),
       "the schedule is not zb-h1"},
      {"zero", chosen.zero > 0 && chosen.dp * chosen.cp == 1,
       "there are no data ranks to split state over"},
      {"shard", chosen.zero == 0, "zero is 0"}};
  std::vector<std::string> found;
  for (const std::string &item : itemsOf(pins))
    for (const auto &rule : rules)
      if (rule.isIdle &&
          llvm::StringRef(item).split('=').first.rtrim('!') == rule.key)
        found.push_back(item + " (" + rule.why.str() + ")");
  return found;
}

std::vector<Pins> kerf::relaxationsOf(const Pins &pins) {
  std::vector<Pins> all;
  auto relax = [&](auto change) {
    Pins relaxed = pins;
    change(relaxed);
    if (printPins(relaxed) != printPins(pins))
      all.push_back(std::move(relaxed));
  };
  for (const NumberKey &key : kNumbers)
    if (!llvm::is_contained(pins.targetKeys, key.name))
      relax([&](Pins &relaxed) { (relaxed.*key.list).clear(); });
  for (size_t i = 0; i < pins.forbidden.size(); ++i)
    relax([&](Pins &relaxed) {
      relaxed.forbidden.erase(relaxed.forbidden.begin() +
                              static_cast<int64_t>(i));
    });
  if (!llvm::is_contained(pins.targetKeys, "schedule"))
    relax([](Pins &relaxed) { relaxed.schedules.clear(); });
  relax([](Pins &relaxed) { relaxed.recompute.clear(); });
  relax([](Pins &relaxed) { relaxed.order.clear(); });
  relax([](Pins &relaxed) { relaxed.stageLayers.clear(); });
  return all;
}

std::string kerf::differenceOf(const Pins &pins, const Pins &relaxed) {
  std::vector<std::string> left = itemsOf(relaxed), gone;
  for (std::string &item : itemsOf(pins))
    if (!llvm::is_contained(left, item))
      gone.push_back(std::move(item));
  return llvm::join(gone, ",");
}
