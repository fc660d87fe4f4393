//===- Pins.h - what a person fixes, as text ------------------------------===//
//
//   tp=8,pp=4,zero=1,recompute=full,schedule=1f1b,v=2,mb=1,m=32
//   order=tp.cp.dp.pp      axes, innermost first
//   layers=11.12.12.11     layers of each stage
//   moe=all_to_all         how rows reach their experts; or gather
//   tp=2..8   tp=2|4   tp!=4      ranges, lists, all but one
//
// Keys: tp cp ep pp dp mb m v zero shard devices schedule recompute order
// layers moe cp_order.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SEARCH_PINS_H
#define KERF_SEARCH_PINS_H

#include "kerf/Search/Search.h"

#include "llvm/ADT/StringRef.h"

#include <vector>

namespace kerf {

/// Reads pins. Every violation is appended to `errors`, with what is legal and
/// the nearest fix; what could be read is in the result all the same.
Pins parsePins(llvm::StringRef text, std::vector<std::string> &errors);

/// The pins as `parsePins` reads them; "" without any.
std::string printPins(const Pins &pins);

/// Whether a number may have a value: `allowed` is its list in `pins`.
bool allows(const Pins &pins, llvm::StringRef key,
            const std::vector<int64_t> &allowed, int64_t value);

/// All pins with one decision left free, in a fixed order.
std::vector<Pins> relaxationsOf(const Pins &pins);

/// What `pins` fix and `relaxed` does not, as text: "tp=8".
std::string differenceOf(const Pins &pins, const Pins &relaxed);

/// Pins that say nothing of the plan that was chosen under them, each with the
/// reason: "cp_order=plain (cp is 1)". `sharesExperts`: ranks of experts hold
/// different ones.
std::vector<std::string> idlePins(const Pins &pins, const OuterChoice &chosen,
                                  bool sharesExperts);

/// "tp", "cp", "dp", "pp".
llvm::StringRef nameOf(MeshAxis axis);

/// All axes that the mesh of a found plan may have: "tp", "cp", "ep", "pp",
/// "dp".
std::vector<llvm::StringRef> axisNames();
/// The keys of all pins, the axes among them.
std::vector<llvm::StringRef> pinKeys();

} // namespace kerf

#endif // KERF_SEARCH_PINS_H
