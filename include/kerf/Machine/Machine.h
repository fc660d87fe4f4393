//===- Machine.h - the described cluster ----------------------------------===//
//
// Plain data, read from `cluster.yaml` (docs/rationale/Machine.md has the
// format). SI units without prefixes: bytes, bytes per second, seconds, flops
// per second, watts. Bandwidths are per device and per direction.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_MACHINE_MACHINE_H
#define KERF_MACHINE_MACHINE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// What compiled programs of a device look like. `None`: plans, no artifact.
enum class BackendTarget { None, Cpu, Cuda };

/// What kernels of one number type reach, where it was measured.
struct TypeEfficiency {
  double attention = 0;         ///< as in `Efficiency`; 0: as stated there
  double attentionBackward = 0; ///< the same
  /// Start of a row of attention: it takes as long as if it saw so many keys
  /// more.
  double attentionKeys = 0;
  /// Part of the device's best matmul rate by rows of the result, ascending,
  /// in (0, 1]; between them the logarithms are interpolated. The last part is
  /// the largest, and more rows never take less time. Empty: 1.
  std::vector<std::pair<int64_t, double>> rows;
  /// Start of a matmul's sums: they take as long as if they were this much
  /// longer.
  double depth = 0;

  friend bool operator==(const TypeEfficiency &,
                         const TypeEfficiency &) = default;
};

/// What part of a device's peaks kernels reach. Each default has its source in
/// lib/Machine/Defaults.cpp; a measured machine states its own.
struct Efficiency {
  double matmul = 0; ///< best large matmul / peak, in (0, 1]
  double attention =
      0; ///< fused attention forward, head size 128 / peak, (0, 1]
  /// Fused attention backward: rate / rate of the forward, in (0, 2].
  double attentionBackward = 0;
  double memory = 0;  ///< streaming kernels / memory bandwidth, in (0, 1]
  double network = 0; ///< large collectives inside a tier / bandwidth, (0, 1]
  std::map<std::string, TypeEfficiency> types = {}; ///< by number type
  /// Best large grouped matmul (of routed tokens, by expert) / peak; 0: as
  /// `matmul`.
  double groupedMatmul = 0;
  /// As `TypeEfficiency::rows`, of number types that have none.
  std::vector<std::pair<int64_t, double>> rows = {};
  /// As `TypeEfficiency::depth`, of number types that have no figures; none: 64
  /// on GPUs (`shapeEfficiency`), else 0.
  std::optional<double> depth = {};
  /// As `TypeEfficiency::attentionKeys`, of number types that have no figures.
  double attentionKeys = 0;
  /// Where a part comes from, by the name of its field: "matmul". A part that
  /// is missing here is one that was stated without a source.
  std::map<std::string, std::string> sources = {};

  friend bool operator==(const Efficiency &, const Efficiency &) = default;
};

/// Shares of traffic that computing hides, in [0, 1]; none: as the runtime's
/// profile says.
struct HiddenTraffic {
  std::optional<double> layers;    ///< of collectives inside layers
  std::optional<double> gradients; ///< of sums of gradients, at most
  std::optional<double> weights;   ///< of gathers of weights, at most
  std::map<std::string, std::string> sources; ///< as of `Efficiency`

  friend bool operator==(const HiddenTraffic &,
                         const HiddenTraffic &) = default;
};

/// Part of a device's memory that plans leave free where a description says
/// nothing.
constexpr double kDefaultHeadroom = 0.03;

struct Device {
  std::string name;
  double memoryBytes = 0; ///< physical
  /// Memory of a rank that is never its arena's: context, libraries. Where
  /// these are stated apart, their sum; else connections are in it.
  double reservedBytes = 0;
  double contextBytes = 0, libraryBytes = 0; ///< parts of it; 0: not apart
  /// Of buffers by which a rank exchanges with a neighbour of a communicator.
  double connectionBytes = 0;
  double memoryBytesPerSec = 0;
  /// Dense flop/s by number type: "bf16", "f16", "tf32", "f32", "fp8", "f64".
  /// At least one; a type that is missing is one without fast matmuls.
  std::map<std::string, double> peak;
  Efficiency efficiency;
  double launchSec = 0; ///< of one kernel when launches are not hidden; 0: none
  double powerWatt = 0; ///< 0: not stated
  BackendTarget target = BackendTarget::None;
  std::string arch; ///< "sm_90"; empty unless the target is `Cuda`
  /// Streaming multiprocessors; 0: those of the usual part of `arch`.
  int64_t processors = 0;
  HiddenTraffic hidden;
  double headroom = 0; ///< part of the memory that a plan leaves free, [0, 0.5]
  std::string headroomSource; ///< "" where it was stated without one
  /// The ranks of one unit of the innermost tier share what is stated once: one
  /// computer with CPU ranks. See `Machine::perRank`.
  bool shared = false;

  friend bool operator==(const Device &, const Device &) = default;
};

/// A switch, or a torus of the tier's units.
enum class TierKind { Switch, Torus };

/// One level of the network, connecting `size` units of the tier below.
struct Tier {
  std::string name;
  TierKind kind = TierKind::Switch;
  int64_t size = 1;
  /// Of a torus, else empty; the product is `size`. Units are numbered along
  /// the first dimension first.
  llvm::SmallVector<int64_t, 3> dims;
  /// Per device and direction; of a torus all links of the device together.
  double bytesPerSec = 0;
  double latencySec = 0; ///< of one message, or of one step of a ring
  /// >= 1: bandwidth of the devices below a unit / bandwidth that leaves the
  /// unit.
  double oversubscription = 1;

  friend bool operator==(const Tier &, const Tier &) = default;
};

/// The memory of the computers, in which copies of saved states may rest.
struct Host {
  double memoryBytes = 0; ///< of one unit of the innermost tier, all computers
  double bytesPerSec = 0; ///< device to host, per device and direction

  friend bool operator==(const Host &, const Host &) = default;
};

/// How often devices fail and what a failure costs.
struct Reliability {
  double deviceMtbfSec = 0; ///< mean time between failures of one device
  double restartSec = 0;    ///< from a failure to the first step after it
  double checkpointBytesPerSec = 0; ///< what a device's writer reaches

  friend bool operator==(const Reliability &, const Reliability &) = default;
};

/// Where states are saved.
struct Storage {
  /// What one unit of the innermost tier and all of them together can write.
  double unitBytesPerSec = 0, bytesPerSec = 0;

  friend bool operator==(const Storage &, const Storage &) = default;
};

/// What running costs.
struct Price {
  double deviceHour = 0;     ///< of one device, in `currency`
  std::string currency;      ///< "USD"
  double carbonKgPerKwh = 0; ///< 0: not stated
  double pue = 1;            ///< power usage effectiveness, >= 1
  bool isGiven = false; ///< `deviceHour` is another one than the description's

  friend bool operator==(const Price &, const Price &) = default;
};

/// What replaces the device's and the innermost tier's figures where at least
/// so many ranks share a computer: they run on fewer cores each, or take turns.
struct SharedFigures {
  int64_t ranks = 1;
  double memoryBytesPerSec = 0;
  std::map<std::string, double> peak;
  Efficiency efficiency;
  double bytesPerSec = 0, latencySec = 0; ///< of the tier; 0: as stated there

  friend bool operator==(const SharedFigures &,
                         const SharedFigures &) = default;
};

/// A described cluster. Tiers are innermost first.
struct Machine {
  std::string name;
  Device device;
  std::vector<Tier> tiers;
  /// By ranks, ascending; empty unless `device.shared`.
  std::vector<SharedFigures> sharedBy;
  std::optional<Host> host;
  std::optional<Reliability> reliability;
  std::optional<Storage> storage;
  std::optional<Price> price;

  /// Devices that the tiers describe: the product of their sizes.
  int64_t describedDevices() const;
  /// Devices below one unit of `tier`, itself included: the product of the
  /// sizes of the tiers 0..tier.
  int64_t devicesWithin(size_t tier) const;
  /// This machine with `count` >= 1 devices: tiers fill from the inside, and
  /// the outermost one grows to ceil(count / devices below it). The last unit
  /// may be partly filled, so `describedDevices()` is the smallest number of
  /// whole units that holds `count`. A torus that is not full gets the
  /// dimensions `torusDims` of its new size. Without tiers a machine stays one
  /// device. The figures of `sharedBy` that suit the innermost tier's new size
  /// take their places.
  Machine withDevices(int64_t count) const;
  /// `count` >= 1 devices of which each innermost unit has `perUnit`, at least
  /// 1 and at most its size: the others of a unit are spares. 0 is
  /// `withDevices`. The machine has tiers.
  Machine withDevicesSpread(int64_t count, int64_t perUnit) const;
  /// This machine as one of its ranks sees it. Unless `device.shared` it is
  /// this machine. Else memory, reserve, memory bandwidth, peaks, power, price
  /// and the bandwidths of host and innermost tier, all stated for one
  /// computer, are divided by the ranks that share them (the size of the
  /// innermost tier; call `withDevices` first). In the result `shared` is false
  /// and `sharedBy` empty.
  Machine perRank() const;

  friend bool operator==(const Machine &, const Machine &) = default;
};

/// Devices that a program may use, and the machine that these are.
struct Placement {
  Machine machine;
  int64_t devices = 0; ///< used: the last unit may be partly filled
  int64_t perUnit = 0; ///< used of each innermost unit; 0: units are filled
};

/// Ways to use up to `count` >= 1 devices of a description, at least three
/// quarters of them: `withDevices(count)`, which is first; whole innermost
/// units alone; as many devices of each as a power of two allows, the rest
/// being spares; of a torus a power of two, and as many as make its longest
/// dimension shortest. Each shape once. Where devices
/// share a computer there is the first alone.
std::vector<Placement> placementsOf(const Machine &described, int64_t count);

/// `count` >= 1 units as a torus of `dims` >= 1 dimensions, as near to a cube
/// as the divisors of `count` allow: smallest largest dimension, then the
/// smallest second one, and so on; descending. 64 -> 4 4 4, 48 -> 4 4 3, 7 -> 7
/// 1 1.
llvm::SmallVector<int64_t, 3> torusDims(int64_t count, size_t dims);

/// An error or a warning at a position of the description. Lines and columns
/// start at 1; columns count bytes.
struct MachineDiagnostic {
  bool isError = true;
  int line = 0;
  int column = 0;
  std::string message;
  std::vector<std::string> notes;
};

/// Reads a description. All problems found are appended to `diagnostics` by
/// position; without a value at least one of them is an error, with one none
/// is. Refused unread: more than 1 MB, a NUL byte, nesting above 256; after a
/// YAML syntax error nothing else is checked. At most 64 problems are told.
[[nodiscard]] std::optional<Machine>
readMachine(llvm::StringRef yaml, std::vector<MachineDiagnostic> &diagnostics);

/// The description of a machine as YAML: `readMachine` gives an equal machine
/// again, every number to the last bit. `machine` must be one that it gave, or
/// one derived by `withDevices`.
std::string printMachine(const Machine &machine);

//===----------------------------------------------------------------------===//
// Groups of ranks
//===----------------------------------------------------------------------===//

/// Ranks `base + i * stride`, i < size, that communicate. Ranks are numbered
/// along the tiers, so the innermost axis of a mesh has stride 1. All groups of
/// the same shape communicate at the same time.
struct Group {
  int64_t size = 1;
  int64_t stride = 1;
  auto operator<=>(const Group &) const = default;
};

/// What a group has of one tier that it crosses.
///
/// Unlike members make a collective as slow as the worst of them, so a group
/// whose members lie unevenly in the units (12 ranks on nodes of 8, or a stride
/// that does not divide a node) is taken as split into the largest equal parts
/// that never straddle a unit. Hence `membersIn` of a tier divides that of the
/// next, and the product of `fanOut` over the tiers is the size of the group.
struct GroupTier {
  size_t tier = 0;    ///< index in `Machine::tiers`
  int64_t fanOut = 1; ///< parts, each inside one unit of the tier below; >= 2
  int64_t membersIn = 1; ///< members of the group in one such part
  /// What one member may send over this tier while all groups of the shape use
  /// it: its device's bandwidth / oversubscription, and of a torus the share of
  /// the dimensions that the group extends along. A part as a whole has
  /// `membersIn` times that.
  double bytesPerSec = 0;
  double latencySec = 0; ///< of one message
  /// Messages that follow one another when a ring over the parts is walked
  /// once: fanOut - 1, on a torus the sum of (extent - 1) over its dimensions.
  int64_t ringSteps = 1;
};

/// The tiers that a group crosses, innermost first; those with one part are
/// left out. Empty for one rank, and on a machine without tiers.
std::vector<GroupTier> tiersOf(const Machine &machine, Group group);

/// Name of the outermost tier that the group crosses; "" where `tiersOf` is
/// empty.
llvm::StringRef outermostTier(const Machine &machine, Group group);

/// Of the borders between the stages of a pipeline, the outermost tier that a
/// message crosses (index in `Machine::tiers`), whatever the ranks' other
/// coordinates: the worst pair counts. `pipeline` has the stages as members;
/// `devices`, a multiple of its size x stride, are used. Entry b: from stage b
/// to b + 1; the last one: between the last stage and the first. Empty for one
/// stage, and on a machine without tiers.
std::vector<size_t> tiersOfBorders(const Machine &machine, Group pipeline,
                                   int64_t devices);

} // namespace kerf

#endif // KERF_MACHINE_MACHINE_H
