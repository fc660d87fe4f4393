"""The laws. Each asks for plans that belong together and yields Checks."""

import dataclasses
import itertools

import description as desc

EXACT = 1e-6  # of times and bytes that are the same but for rounding
SAVED = 1e-3  # of a plan that went through a file
SMALL_SPACE = 5000  # outer choices that `--prove` must be able to prove,
FEW_SPLITS = 3000  # each of which cuts its layers into stages in no more ways
MORE = (  # what a better machine has: kind, fields, factor
    ("more memory", ("memory",), 1.25),
    ("more memory bandwidth", ("memory_bandwidth",), 1.5),
    ("more rate", ("peak",), 1.5),
    ("more bandwidth", ("bandwidth",), 1.5),
    ("less latency", ("latency",), 0.5),
    ("less launch time", ("launch",), 0.5),
    ("less reserve", desc.RESERVES, 0.5),
)
PINNED = ("tp", "cp", "ep", "pp", "dp", "zero", "schedule", "v", "defer", "mb")


@dataclasses.dataclass
class Check:
    """One comparison: `excess` is the part by which the law is broken, 0 or less where it holds."""

    kind: str
    excess: float
    cases: list  # with the command lines that show it
    more: str = "--explain-json=-"  # options of the last command
    said: str = ""


def beyond(slow, fast, fast_gap=0.0):
    """By which part the plan that must not be slower is, beyond what its certificate leaves open."""
    return slow / max(fast * (1 + fast_gap), 1e-300) - 1 - EXACT


def differs(a, b, most=EXACT):
    return abs(a - b) / max(abs(a), abs(b), 1e-300) - most


def seconds(*answers):
    return ", ".join("refused" if answer is None else f"{answer.sec:.6g} s" for answer in answers)


def within_limits(ask, case, plan, _draw):
    found = plan.explained["time"]
    yield Check("memory within capacity", plan.bytes / plan.capacity - 1 - EXACT, [case], said=f"{plan.bytes:.0f} B of {plan.capacity:.0f} B")
    least = found["model_flops"] / found["peak_flops_per_sec"]
    yield Check("no faster than the peak", beyond(least, plan.sec), [case], said=f"{seconds(plan)}, peak {least:.6g} s")
    bound = plan.proof["bound_sec"]
    yield Check("no faster than the bound", beyond(bound, plan.sec), [case], said=f"{seconds(plan)}, bound {bound:.6g} s")
    for row in plan.explained["alternatives"]:
        if "step_sec" in row:
            yield Check("alternatives no faster", beyond(plan.sec, row["step_sec"]), [case], said=f"{row['what']}: {row['layout']}")


def never_slower(ask, case, plan, draw):
    """More of anything."""
    better = [(kind, case.but(cluster=case.cluster.changed(desc.scaled, fields, factor))) for kind, fields, factor in MORE]
    if "shared: true" not in case.cluster.text:  # else they are parts of one computer
        better += [("more devices", case.but(devices=case.devices + draw.choice((1, 2, case.devices))))]
    for kind, other in draw.sample(better, 3):
        if other.cluster.text == case.cluster.text and other.devices == case.devices:
            continue  # nothing to change, as a launch time of 0 s
        more = ask(other)
        excess = beyond(more.sec, plan.sec, more.gap) if more else float("inf")
        yield Check(kind, excess, [case, other], said=seconds(plan, more))


def scales(ask, case, plan, _draw):
    """All rates twice, all times half."""
    cluster = case.cluster.changed(desc.scaled, ("bandwidth", "memory_bandwidth", "peak"), 2)
    other = case.but(cluster=cluster.changed(desc.scaled, desc.LATENCIES, 0.5))
    fast = ask(other)
    yield Check("half the time", differs(2 * fast.sec, plan.sec) if fast else float("inf"), [case, other], said=seconds(plan, fast))


def grows_with_batch(ask, case, plan, _draw):
    if any(key in ("m", "schedule") for key, _ in case.pins) or case.batch % (4 * case.devices):
        return
    other = case.but(batch=2 * case.batch)
    twice = ask(other)
    if not twice:
        return
    yield Check("t(B) <= t(2B)", beyond(plan.sec, twice.sec, plan.gap), [case, other], said=seconds(plan, twice))
    yield Check("t(2B) <= 2 t(B)", beyond(twice.sec, 2 * plan.sec, twice.gap), [case, other], said=seconds(plan, twice))


def same_when_pinned(ask, case, plan, _draw):
    known = dict(case.pins)
    other = case.but(pins=tuple((known | dict(plan.pins())).items()))
    same = ask(other)
    excess = max(differs(same.sec, plan.sec), differs(same.bytes, plan.bytes)) if same else float("inf")
    said = seconds(plan, same) + (f"; {plan.bytes:.0f}, {same.bytes:.0f} B" if same else "")
    yield Check("own values pinned", excess, [case, other], said=said)
    saved = ask.saved(case)
    excess = max(differs(saved.sec, plan.sec, SAVED), differs(saved.bytes, plan.bytes, SAVED)) if saved else float("inf")
    said = f"{seconds(plan, saved)}; {plan.bytes:.0f}, {saved.bytes:.0f} B" if saved else ask.reason()
    yield Check("saved and loaded", excess, [case], "--emit=plan -o plan.json, and again with --plan=plan.json", said)


def without_buffer(case):
    return tuple(option for option in case.options if not option.startswith("--moe-buffer"))


def relaxes(ask, case, plan, draw):
    """One pin less: one of the case's own, or of the plan's; and an option that offers more layouts."""
    if case.options != without_buffer(case):
        fewer = case.but(options=without_buffer(case))
        tight = ask(fewer)
        if tight:
            yield Check("rows may be exchanged", beyond(plan.sec, tight.sec, plan.gap), [fewer, case], said=seconds(tight, plan))
    own = case.pins or tuple(draw.sample(plan.pins(), 2))
    pinned = case.but(pins=own)
    tight = ask(pinned)
    if not tight:
        return
    left = draw.choice(own)
    other = case.but(pins=tuple(pin for pin in own if pin != left))
    loose = ask(other)
    excess = beyond(loose.sec, tight.sec, loose.gap) if loose else float("inf")
    yield Check("one pin less", excess, [pinned, other], said=f"without {left[0]}: {seconds(tight, loose)}")


def means_the_same(ask, case, plan, draw):
    same = {
        "other units": case.cluster.changed(desc.in_other_units),
        "other order": case.cluster.changed(desc.in_other_order),
        "other names": case.cluster.changed(desc.with_other_names),
        "unused tier": case.cluster.changed(desc.with_outer_tier, case.devices),
    }
    for kind in draw.sample(list(same), 2):
        other = case.but(cluster=same[kind])
        answer = ask(other)
        excess = max(differs(answer.sec, plan.sec), differs(answer.bytes, plan.bytes)) if answer else float("inf")
        yield Check(kind, excess, [case, other], said=seconds(plan, answer))


def proves(ask, case, plan, _draw):
    other = case.but(options=(*case.options, "--prove"))
    proven = ask(other)
    if not proven:
        yield Check("--prove no worse", float("inf"), [case, other], said="refused")
        return
    yield Check("--prove no worse", beyond(proven.sec, plan.sec), [case, other], said=seconds(plan, proven))
    bounds = plan.proof["bound_sec"], proven.proof["bound_sec"]
    yield Check("--prove bound no lower", beyond(*bounds), [case, other], said=f"bounds {bounds[0]:.6g} s, {bounds[1]:.6g} s")
    if proven.proof["space"] <= SMALL_SPACE and proven.proof["splits"] <= FEW_SPLITS and not proven.proof["by_mean_bytes"]:
        said = f"space {proven.proof['space']:.0f}, gap {100 * proven.gap:.3g} %"
        yield Check("--prove proves", 0.0 if proven.proof["complete"] else max(proven.gap, EXACT), [other], said=said)


def divisors(number):
    return [n for n in range(1, number + 1) if number % n == 0]


def schedules(pp):
    """Names, chunks per stage, and micro-batches whose weight gradients wait at most."""
    if pp == 1:
        return [("1f1b", 1, None)]
    simple = [("gpipe", 1, None), ("1f1b", 1, None), *(("zb-h1", 1, defer) for defer in range(pp))]
    return [*simple, *(("interleaved", v, None) for v in (2, 3, 4))]


def pin_sets(case, has_experts):
    """Every combination of pins that the devices and the case's own pins allow."""
    for tp, cp, pp in itertools.product(divisors(case.devices), repeat=3):
        if case.devices % (tp * cp * pp):
            continue
        dp = case.devices // (tp * cp * pp)
        parts = [ep for ep in divisors(dp) if ep == 1 or has_experts], range(4 if dp * cp > 1 else 1)
        for ep, zero, schedule, mb in itertools.product(*parts, schedules(pp), divisors(case.batch // dp)):
            pins = dict(zip(PINNED, (tp, cp, ep, pp, dp, zero, *schedule, mb)))
            pins = {key: value for key, value in pins.items() if value is not None}
            if pins | dict(case.pins) == dict(case.pins) | pins:
                yield tuple((pins | dict(case.pins)).items())


def none_is_faster(ask, case, plan, sets):
    """No plan whose pins are given is faster than the one that is found."""
    for pins in sets:
        other = case.but(pins=pins)
        pinned = ask(other)
        if pinned:
            yield Check("pinned plan", beyond(plan.sec, pinned.sec, plan.gap), [case, other], said=seconds(plan, pinned))


LAWS = {
    1: ("memory fits; no faster than peak and bound; alternatives are slower", within_limits),
    2: ("more devices, memory, bandwidth, rate, or less latency, launch time, reserve: never slower", never_slower),
    3: ("all rates twice, all times half: half the time", scales),
    4: ("t(B) <= t(2B) <= 2 t(B)", grows_with_batch),
    5: ("the plan's own values pinned, or the plan saved and loaded: the same", same_when_pinned),
    6: ("one pin less, or more layouts offered: never slower", relaxes),
    7: ("an unused outer tier, other names, units, order of fields: the same", means_the_same),
    8: ("--prove: never worse, and a small space (5,000 outer choices, each with 3,000 splits into stages) is proven", proves),
    9: ("no pinned plan is faster", none_is_faster),
}
