//===- ReadMachine.cpp - the described cluster from YAML ------------------===//
//
// One function per map of the format. All go on after an error with a neutral
// value, so that one run tells everything that is wrong; the machine that comes
// out then is thrown away.
//
//===----------------------------------------------------------------------===//

#include "Defaults.h"
#include "MapReader.h"
#include "ReadAssumptions.h"

#include "kerf/Support/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace kerf;
using namespace kerf::cluster;
using json::quote;
using llvm::StringRef;

/// Devices that a description may have; products of sizes stay far from 2^63.
static constexpr int64_t kMaxDevices = 1000 * 1000 * 1000;
/// Chip, board, node, rack, hall and site; a seventh is a mistake.
static constexpr size_t kMaxTiers = 6;
/// Dimensions of a torus; those built have 2, 3, 5 (Fugaku: 6).
static constexpr size_t kMaxDims = 6;

// Upper ends of ranges are far above what exists: they catch wrong prefixes.
static constexpr NumberRule kMemory = {Quantity::Bytes, "80 GB", 0, false,
                                       1e18};
static constexpr NumberRule kReserved = {Quantity::Bytes, "3 GB", 0, true,
                                         1e18};
static constexpr NumberRule kHostMemory = {Quantity::Bytes, "2 TB", 0, false,
                                           1e18};
static constexpr NumberRule kBandwidth = {Quantity::BytesPerSec, "450 GB/s", 0,
                                          false, 1e18};
static constexpr NumberRule kPeak = {Quantity::FlopPerSec, "989 TFLOP/s", 0,
                                     false, 1e21};
static constexpr NumberRule kLatency = {Quantity::Seconds, "5 us", 0, false, 1};
static constexpr NumberRule kLaunch = {Quantity::Seconds, "4 us", 0, true, 1};
static constexpr NumberRule kRestart = {Quantity::Seconds, "180 s", 0, true,
                                        1e6};
static constexpr NumberRule kMtbf = {Quantity::Seconds, "50000 h", 0, false,
                                     3.6e12};
static constexpr NumberRule kPower = {Quantity::Watts, "700 W", 0, false, 1e6};
static constexpr NumberRule kOversubscription = {Quantity::Number, "2", 1, true,
                                                 1000};
static constexpr NumberRule kPrice = {Quantity::Number, "2.5", 0, true, 1e6};
static constexpr NumberRule kPue = {Quantity::Number, "1.2", 1, true, 10};
static constexpr NumberRule kCarbon = {Quantity::KgPerKwh, "0.4 kg/kWh", 0,
                                       true, 100};

//===----------------------------------------------------------------------===//
// Device
//===----------------------------------------------------------------------===//

/// What is left out keeps the value that it has.
static void readPeak(MapReader &map, Need need,
                     std::map<std::string, double> &result,
                     Problems &problems) {
  const YamlMember *member = map.takeMap("peak", need);
  if (!member)
    return;
  MapReader peak(member->value, "'peak'", problems);
  for (StringRef type : kTypes)
    if (double value = peak.number(type, Need::Optional, kPeak); value > 0)
      result[type.str()] = value;
  if (member->value.members.empty())
    problems.error(
        member->value.place,
        "'peak' is empty, expected at least one number type, such as "
        "'bf16: 989 TFLOP/s'");
  peak.finish();
}

/// "sm_90", "sm_100a".
static bool isCudaArch(StringRef text) {
  if (!text.consume_front("sm_"))
    return false;
  StringRef number = text.take_while(llvm::isDigit);
  StringRef suffix = text.drop_front(number.size());
  return (number.size() == 2 || number.size() == 3) &&
         (suffix.empty() || suffix == "a" || suffix == "f");
}

static void readArch(const YamlValue &backend, const std::string &arch,
                     Device &result, Problems &problems) {
  const YamlValue *place = backend.get("arch");
  if (result.target == BackendTarget::Cuda && !place)
    problems.error(backend.place, "missing field 'arch' in 'backend', expected "
                                  "an architecture, such as 'sm_90'");
  else if (result.target == BackendTarget::Cpu && place)
    problems.error(place->place,
                   "field 'arch': target 'cpu' has none, it is that of the "
                   "computer that compiles");
  else if (!arch.empty() && !isCudaArch(arch))
    problems.error(place->place,
                   "field 'arch': found " + quote(arch) +
                       ", expected an architecture, such as 'sm_90'");
  result.arch = arch;
}

static void readBackend(MapReader &device, Device &result, Problems &problems) {
  const YamlMember *member =
      device.take("backend", Need::Optional, "a map, or none");
  if (!member || member->value.text == "none")
    return;
  if (member->value.kind != YamlKind::Map) {
    problems.error(member->value.place, "field 'backend': found " +
                                            describeValue(member->value) +
                                            ", expected a map, or none");
    return;
  }
  MapReader map(member->value, "'backend'", problems);
  int target = map.choice("target", Need::Required, {"cuda", "cpu"});
  std::string arch = map.name("arch", Need::Optional);
  if (target == 0)
    result.processors = map.count("processors", Need::Optional);
  map.finish();
  if (target < 0)
    return;
  result.target = target == 0 ? BackendTarget::Cuda : BackendTarget::Cpu;
  readArch(member->value, arch, result, problems);
}

/// One number, or parts; false when it is left out.
static bool readReserved(MapReader &device, Device &result,
                         Problems &problems) {
  const YamlMember *member =
      device.take("reserved", Need::Optional, "bytes, or a map");
  if (!member)
    return false;
  if (member->value.kind != YamlKind::Map) {
    result.reservedBytes = device.number("reserved", Need::Optional, kReserved);
    return true;
  }
  MapReader map(member->value, "'reserved'", problems);
  result.contextBytes = map.number("context", Need::Required, kReserved);
  result.libraryBytes = map.number("libraries", Need::Optional, kReserved);
  result.connectionBytes = map.number("connection", Need::Optional, kReserved);
  result.reservedBytes = result.contextBytes + result.libraryBytes;
  map.finish();
  return true;
}

static void readDevice(MapReader &machine, Device &result, Problems &problems) {
  const YamlMember *member = machine.takeMap("device", Need::Required);
  if (!member)
    return;
  MapReader map(member->value, "'device'", problems);
  result.name = map.name("name", Need::Required);
  result.memoryBytes = map.number("memory", Need::Required, kMemory);
  bool isStated = readReserved(map, result, problems);
  result.memoryBytesPerSec =
      map.number("memory_bandwidth", Need::Required, kBandwidth);
  readPeak(map, Need::Required, result.peak, problems);
  readBackend(map, result, problems);
  if (!isStated)
    setDefaultReserve(result);
  result.efficiency = defaultEfficiency(result);
  readEfficiency(map, result.efficiency, problems);
  setDefaultMatmuls(result);
  readHidden(map, result.hidden, problems);
  readHeadroom(map, result, problems);
  result.launchSec = map.number("launch", Need::Optional, kLaunch);
  result.powerWatt = map.number("power", Need::Optional, kPower);
  result.shared = map.choice("shared", Need::Optional, {"false", "true"}) == 1;
  map.finish();
  if (isStated && result.memoryBytes > 0 &&
      result.reservedBytes >= result.memoryBytes)
    problems.error(member->value.get("reserved")->place,
                   "field 'reserved': " +
                       printQuantity(result.reservedBytes, Quantity::Bytes) +
                       " leave nothing of the memory of " +
                       printQuantity(result.memoryBytes, Quantity::Bytes));
}

//===----------------------------------------------------------------------===//
// Tiers
//===----------------------------------------------------------------------===//

static void readDims(const YamlMember &member, Tier &tier, Problems &problems) {
  const std::vector<YamlValue> &items = member.value.items;
  if (items.empty() || items.size() > kMaxDims) {
    problems.error(member.value.place, "field 'dims': found " +
                                           std::to_string(items.size()) +
                                           " dimensions, expected 1 to " +
                                           std::to_string(kMaxDims));
    return;
  }
  // Floating: the product of six counts may exceed 64 bits.
  double product = 1;
  for (const YamlValue &item : items) {
    tier.dims.push_back(readCount(item, "dims", problems));
    product *= tier.dims.back();
  }
  if (product > 0 && tier.size > 0 && product != tier.size)
    problems.error(member.value.place,
                   "field 'dims': their product is " +
                       printQuantity(product, Quantity::Number) +
                       ", expected 'size', which is " +
                       std::to_string(tier.size));
}

static Tier readTier(const YamlValue &node, const std::string &what,
                     Problems &problems) {
  Tier tier;
  MapReader map(node, what, problems);
  tier.name = map.name("name", Need::Required);
  tier.size = map.count("size", Need::Required);
  tier.bytesPerSec = map.number("bandwidth", Need::Required, kBandwidth);
  tier.latencySec = map.number("latency", Need::Required, kLatency);
  tier.oversubscription =
      map.number("oversubscription", Need::Optional, kOversubscription, 1);
  bool isTorus = map.choice("kind", Need::Optional, {"switch", "torus"}) == 1;
  tier.kind = isTorus ? TierKind::Torus : TierKind::Switch;
  const YamlMember *dims =
      map.takeList("dims", isTorus ? Need::Required : Need::Optional);
  if (dims && isTorus)
    readDims(*dims, tier, problems);
  else if (dims)
    problems.error(dims->keyPlace,
                   "field 'dims' is of a tier with 'kind: torus'");
  map.finish();
  return tier;
}

/// Checks what concerns several tiers: names, and the number of devices.
static void checkTiers(const Machine &machine, const YamlMember &member,
                       Problems &problems) {
  llvm::StringSet<> names;
  double devices = 1;
  for (const auto &[tier, node] :
       llvm::zip(machine.tiers, member.value.items)) {
    devices *= std::max<int64_t>(tier.size, 1);
    if (!tier.name.empty() && !names.insert(tier.name).second)
      problems.error(node.get("name")->place,
                     "two tiers have the name '" + tier.name + "'");
  }
  if (devices > kMaxDevices)
    problems.error(
        member.value.place,
        "the tiers describe " + printQuantity(devices, Quantity::Number) +
            " devices, expected at most " + std::to_string(kMaxDevices));
}

static void readTiers(MapReader &map, Machine &result, Problems &problems) {
  const YamlMember *member = map.takeList("tiers", Need::Optional);
  if (!member)
    return;
  const std::vector<YamlValue> &items = member->value.items;
  if (items.size() > kMaxTiers) {
    problems.error(items[kMaxTiers].place,
                   "found " + std::to_string(items.size()) +
                       " tiers, expected at most " + std::to_string(kMaxTiers));
    return;
  }
  for (const auto &[index, item] : llvm::enumerate(items)) {
    std::string what = "'tiers[" + std::to_string(index) + "]'";
    if (item.kind != YamlKind::Map) {
      problems.error(item.place, what + ": found " + describeValue(item) +
                                     ", expected a map");
      result.tiers.emplace_back();
      continue;
    }
    result.tiers.push_back(readTier(item, what, problems));
  }
  checkTiers(result, *member, problems);
}

//===----------------------------------------------------------------------===//
// Ranks that share a computer
//===----------------------------------------------------------------------===//

/// What one rank reaches.
static SharedFigures figuresOf(const Device &device) {
  SharedFigures result;
  result.memoryBytesPerSec = device.memoryBytesPerSec;
  result.peak = device.peak;
  result.efficiency = device.efficiency;
  return result;
}

/// What is left out keeps the value that fewer ranks have.
static SharedFigures readFigures(const YamlValue &node, const std::string &what,
                                 SharedFigures result, Problems &problems) {
  MapReader map(node, what, problems);
  result.ranks = map.count("ranks", Need::Required);
  result.memoryBytesPerSec = map.number("memory_bandwidth", Need::Optional,
                                        kBandwidth, result.memoryBytesPerSec);
  readPeak(map, Need::Optional, result.peak, problems);
  readEfficiency(map, result.efficiency, problems);
  result.bytesPerSec =
      map.number("bandwidth", Need::Optional, kBandwidth, result.bytesPerSec);
  result.latencySec =
      map.number("latency", Need::Optional, kLatency, result.latencySec);
  map.finish();
  return result;
}

static void readSharedBy(MapReader &map, Machine &result, Problems &problems) {
  const YamlMember *member = map.takeList("by_ranks", Need::Optional);
  if (!member)
    return;
  const std::vector<YamlValue> &items = member->value.items;
  if (!result.device.shared)
    problems.error(member->keyPlace,
                   "field 'by_ranks' is of a device with 'shared: true'");
  if (items.size() > kMaxPoints) {
    problems.error(items[kMaxPoints].place,
                   "found figures of " + std::to_string(items.size()) +
                       " numbers of ranks, expected at most " +
                       std::to_string(kMaxPoints));
    return;
  }
  // With what is stated of the device a smaller number finds its figures again.
  result.sharedBy.push_back(figuresOf(result.device));
  for (const auto &[index, item] : llvm::enumerate(items)) {
    std::string what = "'by_ranks[" + std::to_string(index) + "]'";
    if (item.kind != YamlKind::Map) {
      problems.error(item.place, what + ": found " + describeValue(item) +
                                     ", expected a map");
      continue;
    }
    SharedFigures figures =
        readFigures(item, what, result.sharedBy.back(), problems);
    if (index == 0 && figures.ranks == 1)
      result.sharedBy.clear();
    else if (figures.ranks > 0 && figures.ranks <= result.sharedBy.back().ranks)
      problems.error(item.get("ranks")->place,
                     "field 'ranks': expected more than " +
                         std::to_string(result.sharedBy.back().ranks) +
                         " of the figures before");
    result.sharedBy.push_back(std::move(figures));
  }
}

//===----------------------------------------------------------------------===//
// Around the devices
//===----------------------------------------------------------------------===//

static void readHost(MapReader &machine, Machine &result, Problems &problems) {
  const YamlMember *member = machine.takeMap("host", Need::Optional);
  if (!member)
    return;
  MapReader map(member->value, "'host'", problems);
  Host &host = result.host.emplace();
  host.memoryBytes = map.number("memory", Need::Required, kHostMemory);
  host.bytesPerSec = map.number("bandwidth", Need::Required, kBandwidth);
  map.finish();
}

static void readReliability(MapReader &machine, Machine &result,
                            Problems &problems) {
  const YamlMember *member = machine.takeMap("reliability", Need::Optional);
  if (!member)
    return;
  MapReader map(member->value, "'reliability'", problems);
  Reliability &reliability = result.reliability.emplace();
  reliability.deviceMtbfSec = map.number("device_mtbf", Need::Required, kMtbf);
  reliability.restartSec = map.number("restart", Need::Required, kRestart);
  reliability.checkpointBytesPerSec =
      map.number("checkpoint_bandwidth", Need::Required, kBandwidth);
  map.finish();
}

static void readStorage(MapReader &machine, Machine &result,
                        Problems &problems) {
  const YamlMember *member = machine.takeMap("storage", Need::Optional);
  if (!member)
    return;
  MapReader map(member->value, "'storage'", problems);
  Storage &storage = result.storage.emplace();
  storage.unitBytesPerSec =
      map.number("unit_bandwidth", Need::Required, kBandwidth);
  storage.bytesPerSec = map.number("bandwidth", Need::Required, kBandwidth);
  map.finish();
}

static void readPrice(MapReader &machine, Machine &result, Problems &problems) {
  const YamlMember *member = machine.takeMap("price", Need::Optional);
  if (!member)
    return;
  MapReader map(member->value, "'price'", problems);
  Price &price = result.price.emplace();
  price.deviceHour = map.number("device_hour", Need::Required, kPrice);
  price.currency = map.name("currency", Need::Required);
  price.carbonKgPerKwh = map.number("carbon", Need::Optional, kCarbon);
  price.pue = map.number("pue", Need::Optional, kPue, 1);
  map.finish();
}

static Machine readRoot(const YamlValue &root, Problems &problems) {
  Machine result;
  MapReader map(root, "the description", problems);
  result.name = map.name("name", Need::Required);
  readDevice(map, result.device, problems);
  readTiers(map, result, problems);
  readSharedBy(map, result, problems);
  readHost(map, result, problems);
  readReliability(map, result, problems);
  readStorage(map, result, problems);
  readPrice(map, result, problems);
  map.finish();
  return result;
}

std::optional<Machine>
kerf::readMachine(StringRef yaml, std::vector<MachineDiagnostic> &diagnostics) {
  Problems problems(diagnostics);
  std::optional<YamlValue> root = readYaml(yaml, problems);
  std::optional<Machine> machine;
  if (root && root->kind == YamlKind::Map)
    machine = readRoot(*root, problems);
  else if (root)
    problems.error(root->place, "found " + describeValue(*root) +
                                    ", expected a map with the fields 'name' "
                                    "and 'device'");
  if (machine)
    warnAboutDatasheets(*machine, *root, problems);
  if (problems.hasErrors())
    machine.reset();
  problems.finish();
  return machine;
}
