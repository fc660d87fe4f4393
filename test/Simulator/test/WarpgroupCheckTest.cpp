//===- WarpgroupCheckTest.cpp - what wgmma may not do ---------------------===//

#include "Check.h"
#include "Warpgroups.h"

using namespace kerf::sim;
using namespace kerf::sim::test;

namespace {
const MatmulCase plain{{}, {128, false, 8192, 16, 1024}};
const MatmulCase fromRegisters{
    {}, {128, false, 8192, 16, 1024}, 8, false, true, true};
const std::string matmul = matmulOf(plain);
const std::string ofRegisters = matmulOf(fromRegisters);
const std::string rest = commitLine + waitLine;

Result runBody(const std::string &body, const MatmulCase &one = plain,
               uint32_t threads = 128) {
  return run(kernelOf(one, body), imageOf(one), threads * one.columns / 2, {},
             {threads, 1, 1});
}
void passes(const std::string &body, const MatmulCase &one = plain,
            uint32_t threads = 128) {
  Result result = runBody(body, one, threads);
  check(result.status == Success, body + ": " + result.text);
}
void stops(const std::string &body, const std::string &part,
           const MatmulCase &one = plain, uint32_t threads = 128,
           Status status = LaunchFailed) {
  Result result = runBody(body, one, threads);
  same(int(result.status), int(status), body);
  contains(result.text, part, body);
}
/// The program of `text` after one replacement.
Result runChanged(std::string text, const std::string &from,
                  const std::string &to) {
  size_t at = text.find(from);
  if (check(at != text.npos, "the kernel has '" + from + "'"))
    text.replace(at, from.size(), to);
  return run(text, imageOf(plain), 128 * 4, {}, {128, 1, 1});
}

void testRegisters() {
  stops(matmul + rest, "no wgmma.fence before the first matmul");
  stops(fenceLine + "mov.f32 %f2, 0f00000000;" + matmul + rest,
        "register 2 of the accumulator was written in line ");
  stops(fenceLine + matmul + rest + "mov.f32 %f9, %f1;" + matmul + rest,
        "register 1 of the accumulator was read in line ");
  passes(fenceLine + matmul + rest + "mov.f32 %f9, %f1;" + fenceLine + matmul +
         rest);
  stops(fenceLine + matmul + commitLine + "add.f32 %f9, %f9, %f3;" + waitLine,
        "accumulator read before wgmma.wait_group: register 3 of the wgmma");
  passes(fenceLine + matmul + "@%p1 mov.f32 %f3, %f9;" + rest); // %p1: false
  stops(fenceLine + matmul + "@!%p1 mov.f32 %f3, %f9;" + rest,
        "accumulator written before wgmma.wait_group: register 3");
  // Not committed, or in a group that was not waited for.
  stops(fenceLine + matmul + waitLine + commitLine,
        "accumulator read before wgmma.wait_group");
  stops(fenceLine + matmul + commitLine + "wgmma.wait_group.sync.aligned 1;",
        "accumulator read before wgmma.wait_group");
  stops(fenceLine + matmul + commitLine + "ret;",
        "the kernel ends and the wgmma of line ");
  stops(fenceLine + ofRegisters + "add.u32 %r8, %r8, %r12;" + rest,
        "A in registers read before wgmma.wait_group: register 1",
        fromRegisters);
  stops(fenceLine + ofRegisters + rest + "mov.b32 %r13, %r12;" + ofRegisters +
            rest,
        "register 1 of A was read", fromRegisters);
  // Matmuls of one shape may follow each other, and share A.
  passes(fenceLine + matmul + matmul + commitLine + matmul + commitLine +
         "wgmma.wait_group.sync.aligned 1;" + matmul + rest);
  passes(fenceLine + ofRegisters + ofRegisters + rest + ofRegisters + rest,
         fromRegisters);
}

void testShapes() {
  MatmulCase other = plain;
  other.columns = 16;
  std::string wider = matmulOf(other);
  stops(fenceLine + matmul + wider + rest,
        "in an accumulator of another shape in the wgmma of line ", other);
  stops(fenceLine + matmul + fenceLine + wider + rest,
        "wgmma.wait_group comes first", other);
  stops(fenceLine + matmul + rest + wider + rest,
        "and no wgmma.fence lies between", other);
  passes(fenceLine + matmul + rest + fenceLine + wider + rest, other);
}

void testProxy() {
  std::string text = kernelOf(plain, fenceLine + matmul + rest);
  const std::string fence = "fence.proxy.async.shared::cta;",
                    barrier = "\n  bar.sync 0;";
  contains(runChanged(text, fence, "").text, "fence.proxy.async is missing",
           "no proxy fence");
  contains(runChanged(text, fence, "fence.proxy.async.global;").text,
           "fence.proxy.async is missing", "a fence of global memory");
  contains(runChanged(text, fence + barrier, barrier + fence).text,
           "no barrier lies between its fence.proxy.async and the matmul",
           "the fence behind the barrier");
  check(runChanged(text, fence, "fence.proxy.async;").status == Success,
        "a fence of all memory");
  // The warp's own rows of A need a barrier of the warp, B one of the block.
  auto rewrite = [](const std::string &offset, const std::string &end) {
    return "and.b32 %r15, %r1, 31; shr.u32 %r16, %r1, 5; mul.lo.u32 %r16, "
           "%r16, 2048; mad.lo.u32 %r15, %r15, 16, %r16; cvt.u64.u32 %d9, "
           "%r15; add.u64 %d9, %d9, %d3; ld.shared.v4.b32 {%r3, %r4, %r5, "
           "%r6}, [%d9+" +
           offset + "]; st.shared.v4.b32 [%d9+" + offset +
           "], {%r3, %r4, %r5, %r6};" + end;
  };
  passes(rewrite("0", "fence.proxy.async; bar.warp.sync -1;") + fenceLine +
         matmul + rest);
  stops(rewrite("0", "fence.proxy.async;") + fenceLine + matmul + rest,
        "no barrier lies between its fence.proxy.async");
  stops(rewrite("8192", "fence.proxy.async; bar.warp.sync -1;") + fenceLine +
            matmul + rest,
        "no barrier lies between its fence.proxy.async");
}

void testOverwriting() {
  const std::string copy = "cp.async.ca.shared.global [%d3], [%d1], 16;",
                    store = "bar.sync 0; st.shared.b32 [%d3+8192], %r9;";
  stops(fenceLine + matmul + store + rest,
        "shared byte 8192 is overwritten while the wgmma of line ");
  stops(fenceLine + matmul + commitLine + "bar.sync 0;" + copy + waitLine,
        "shared byte 0 is overwritten while the wgmma of line ");
  passes(fenceLine + matmul + rest + store);
  stops(copy + fenceLine + matmul + rest,
        "which a cp.async writes that was not waited for");
  stops(copy + "cp.async.wait_all; bar.sync 0;" + fenceLine + matmul + rest,
        "fence.proxy.async is missing");
  passes(copy + "cp.async.wait_all; fence.proxy.async; bar.sync 0;" +
         fenceLine + matmul + rest);
  Setting races("KERF_SIM_RACES", "1");
  // The last warp writes B, which the others have read, or its own rows of A.
  const std::string late = "setp.ge.u32 %p2, %r1, 96; @%p2 st.shared.b32 [%d3+";
  stops(fenceLine + matmul + rest + late + "8192], %r9;",
        "is written, another thread read it and no barrier lies between");
  passes(fenceLine + matmul + rest + "bar.sync 0;" + late + "8192], %r9;");
  stops(fenceLine + matmul + commitLine + "bar.sync 0;" + waitLine + late +
            "8192], %r9;",
        "is written, another thread read it and no barrier lies between");
  passes(fenceLine + matmul + rest +
         "setp.eq.u32 %p2, %r1, 100; @%p2 st.shared.b32 [%d3+6144], %r9;");
}

void testPlaces() {
  MatmulCase one = plain;
  one.b.start = sharedBytes - 512; // half of its 8 rows
  std::string text = kernelOf(one, fenceLine + matmul + rest);
  auto gives = [&](uint32_t dynamic, Status status, const std::string &part) {
    Result result =
        run(text, imageOf(plain), 128 * 4, {}, {128, 1, 1}, dynamic);
    same(int(result.status), int(status), part);
    contains(result.text, part, part);
  };
  gives(0, IllegalAddress, "B is at shared address 49");
  gives(1024, LaunchFailed, "which no thread of the block wrote");
  // Variables lie as badly as they may: swizzled rows want all their alignment.
  text = kernelOf(plain, fenceLine + matmul + rest);
  Result right = run(text, imageOf(plain), 128 * 4, {}, {128, 1, 1});
  Result wrong = runChanged(text, ".align 1024", ".align 512");
  check(right.status == Success && wrong.status == Success, "both run");
  check(right.out != wrong.out, "512 bytes are no alignment of the pattern");
}

void testDescriptors() {
  auto changed = [](const std::string &change, const std::string &part) {
    stops(change + fenceLine + matmul + rest, part, plain, 128,
          IllegalInstruction);
  };
  changed("or.b64 %da, %da, 0x4000;", "A: descriptor 0x4000004000014000: bits");
  changed("or.b64 %db, %db, 0x400000000000;", "46-48 and 52-61 must be 0");
  changed("add.u64 %db, %db, 7;", "112 bytes into a swizzled row of 128");
  changed("and.b64 %db, %db, 0x3FFFFFFFFFFFFFFF; or.b64 %db, %db, "
          "0x2000000000000;",
          "base offset 1 has a meaning only with swizzling");
  changed("cvt.u64.u32 %d9, %r1; add.u64 %db, %db, %d9;",
          "the descriptor of B differs from that of another lane");
  changed("and.b32 %r15, %r1, 32; cvt.u64.u32 %d9, %r15; add.u64 %da, %da, "
          "%d9;",
          "another warp of the warpgroup has another descriptor");
}

void testTogether() {
  auto differs = [](const std::string &body, const std::string &part) {
    stops(body, part, plain, 128, IllegalInstruction);
  };
  auto scaled = [](const std::string &condition) {
    std::string text = matmul;
    text.replace(text.find("1, 1, 1"), 1, "%p2");
    return condition + fenceLine + text + rest;
  };
  differs(scaled("setp.lt.u32 %p2, %r1, 16;"), "scale-d differs between lanes");
  differs(scaled("setp.lt.u32 %p2, %r1, 64;"),
          "another warp of the warpgroup has another scale-d");
  passes(scaled("setp.lt.u32 %p2, %r1, 999;"));
  const std::string branch = "setp.lt.u32 %p2, %r1, 64; @%p2 bra A;\n";
  differs(branch + fenceLine + "A:\n" + fenceLine + matmul + rest,
          "another warp of the warpgroup executed the wgmma of line ");
  differs(fenceLine + matmul + rest + branch + commitLine + "A:",
          "wgmma instructions, the first one of the warpgroup 4");
  stops("setp.lt.u32 %p2, %r1, 16; @!%p2 bra A;\n" + fenceLine + "A:",
        "deadlock of lanes");
  stops(fenceLine, "wgmma needs 4 whole warps from a warp that 4 divides",
        plain, 160, IllegalInstruction);
  passes(fenceLine + matmul + rest, plain, 256);
}

void testModules() {
  auto refuses = [](const std::string &from, const std::string &to,
                    const std::string &part) {
    Result result =
        runChanged(kernelOf(plain, fenceLine + matmul + rest), from, to);
    same(int(result.status), int(InvalidPtx), part);
    contains(result.text, part, part);
  };
  refuses("sm_90a", "sm_90", "wgmma needs .target sm_90a");
  refuses("m64n8k16", "m64n12k16", "N = 8, 16 .. 256");
  refuses("m64n8k16", "m64n264k16", "N = 8, 16 .. 256");
  refuses("bf16.bf16", "bf16.f16", ".m64nNk16.f32 with .bf16.bf16");
  refuses("m64n8k16", "m64n16k16", "the accumulator has 8 registers");
  refuses("%f2, %f3}", "%f2, 1}", "the accumulator is of 32-bit registers");
  refuses("1, 1, 1, 0, 0", "2, 1, 1, 0, 0", "scale-d is 0 or 1");
  refuses("1, 1, 1, 0, 0", "1, 0, 1, 0, 0", "imm-scale-a is 1 or -1");
  refuses("1, 1, 1, 0, 0", "1, 1, 1, 0, 2", "imm-trans-b is 0 or 1");
  refuses("1, 1, 1, 0, 0", "1, 1, 1, 0", "another number of operands");
  refuses("aligned 0", "aligned -1", "a constant that is not negative");
  refuses("aligned 0", "aligned %r1", "a constant that is not negative");
  refuses("wgmma.fence.sync.aligned", "wgmma.fence", "with .sync.aligned");
}
} // namespace

void testWarpgroupChecks() {
  testRegisters();
  testShapes();
  testProxy();
  testOverwriting();
  testPlaces();
  testDescriptors();
  testTogether();
  testModules();
}
