//===- ExplainDetail.h - parts of an explanation --------------------------===//

#ifndef KERF_REPORT_EXPLAINDETAIL_H
#define KERF_REPORT_EXPLAINDETAIL_H

#include "kerf/Report/Explain.h"

#include <map>
#include <set>

namespace kerf::explain_detail {

/// Ranks of an axis; of the others it has one group per combination.
Group groupOf(const OuterChoice &outer, MeshAxis axis);
Group groupOf(const OuterChoice &outer, InnerAxis axis);
/// Data and context ranks together, which see different tokens.
Group dataGroup(const OuterChoice &outer);
/// "tensor", "context", "data", "pipeline", "expert".
const char *axisName(MeshAxis axis);
const char *axisName(InnerAxis axis);

/// `accountTime` without the roofs.
TimePart accountParts(const StepModel &step, const Machine &machine,
                      const Profile &profile, const PlanPoint &plan);

/// The fastest first; what does not run last, in the order it was found. `best`
/// is the time of the plan that they lost against.
std::vector<AlternativeRow> describeAlternatives(const ExplainInput &input,
                                                 const TimePart &best);

/// Devices of the machine: as asked for, or as described.
int64_t devicesOf(const ExplainInput &input);

/// Figures that the times of an explanation rest on.
std::vector<Assumption> assumptionsOf(const ExplainInput &input);

/// The values to which a figure is moved: the least and the most.
std::pair<double, double> rangeOf(const Assumption &figure);
/// Seconds of a plan with a figure moved to `value`.
double movedSec(const ExplainInput &input, const PlanPoint &plan,
                const Assumption &figure, double value);

/// Short names of the weights of a kind, by pattern.
std::map<std::string, std::string> shortNames(const LayerKind &kind);
/// Ops of a kind that only scale operands and results of matmuls in 8 bits.
std::set<int> scalingOps(const LayerKind &kind);
/// Which forward matmuls of a kind are in fp8, where the step is; `isOutside`:
/// the kind is no repeated layer.
std::vector<PrecisionWords> precisionOf(const StepModel &step, int kind,
                                        bool isOutside);
/// The largest buffers of a plan, of each kind of layer at its first point.
std::vector<BufferRow> describeBuffers(const ExplainInput &input,
                                       const PlanPoint &plan);

PlanPart describePlan(const ExplainInput &input, const PlanPoint &plan);
SensitivityPart describeSensitivity(const ExplainInput &input,
                                    const PlanPoint &plan);
RoomyPlan describeRoomy(const ExplainInput &input, const PlanPoint &plan);
TrustPart describeTrust(const ExplainInput &input, const PlanPoint &plan);

} // namespace kerf::explain_detail

#endif // KERF_REPORT_EXPLAINDETAIL_H
