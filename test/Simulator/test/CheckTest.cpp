//===- CheckTest.cpp - every check fires ----------------------------------===//

#include "Check.h"
#include "Kernels.h"

using namespace kerf::sim;
using namespace kerf::sim::test;

/// `body` must end with `status` and a text that has `part`.
static void stops(const std::string &body, Status status,
                  const std::string &part, Extent threads = {64, 1, 1},
                  Extent grid = {}) {
  Result result = run(kernel(body), {1, 2, 3}, 128, grid, threads);
  same(int(result.status), int(status), body);
  contains(result.text, part, body);
}

/// `body` must run to its end.
static void passes(const std::string &body, Extent threads = {64, 1, 1}) {
  Result result = run(kernel(body), {1, 2, 3}, 128, {}, threads);
  check(result.status == Success, body + ": " + result.text);
}

static const char *const shared = ".shared .align 4 .b8 s[256]; mov.b64 %d1, s;"
                                  "mad.wide.u32 %d2, %t, 4, %d1;";

static void testAddresses() {
  stops("st.global.b32 [%o+512], %t;", IllegalAddress,
        "0 bytes past the end of an allocation of 512 bytes");
  stops("st.global.b32 [%o+512], %t;", IllegalAddress,
        "kernel 'k', block (0,0,0), thread (0,0,0), line ");
  stops("st.global.b32 [%o+512], %t;", IllegalAddress,
        "'st.global.b32 [%o+512], %t;'");
  stops("setp.eq.u32 %p1, %t, 40; @%p1 st.global.b32 [%o+512], %t;",
        IllegalAddress, "thread (40,0,0)");
  stops("mov.b64 %d1, 4096; ld.global.b32 %r1, [%d1];", IllegalAddress,
        "a host pointer?");
  stops("ld.global.b32 %r1, [%out+2];", MisalignedAddress, "not aligned");
  stops("ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%out+8];", MisalignedAddress,
        "accesses 16 bytes");
  stops(std::string(shared) + "st.shared.b32 [%d2+256], %t;", IllegalAddress,
        "shared address 256 of 256");
  stops(".local .align 4 .b8 l[8]; mov.b64 %d1, l; ld.local.b32 %r1, [%d1+16];",
        IllegalAddress, "local address 16");
  stops(std::string(shared) + "ld.shared.b32 %r1, [%d2];", LaunchFailed,
        "no thread of the block wrote");
  passes("setp.eq.u32 %p1, %t, 99; @%p1 st.global.b32 [%o+512], %t;");
}

static void testBarriers() {
  stops("setp.lt.u32 %p1, %t, 32; @%p1 bra E; bar.sync 0; E:", LaunchFailed,
        "barrier divergence: 32 threads wait at barriers, 0 for lanes of their "
        "warp, 32 have ended");
  stops("setp.lt.u32 %p1, %t, 8; @%p1 bra A; bar.sync 0; bra E;"
        "A: bar.sync 0; E:",
        LaunchFailed, "lanes of the warp are at another barrier");
  stops("setp.lt.u32 %p1, %t, 8; @%p1 ret;"
        "shfl.sync.bfly.b32 %r1, %t, 1, 31, -1;",
        IllegalInstruction, "lanes that have ended");
  stops("shfl.sync.bfly.b32 %r1, %t, 1, 31, 0xFFFF;", IllegalInstruction,
        "not in the mask");
  stops("setp.lt.u32 %p1, %t, 16; @!%p1 bra E;"
        "shfl.sync.idx.b32 %r1, %t, 20, 31, 0xFFFF; E:",
        IllegalInstruction, "lane 20, which does not take part");
  stops("setp.lt.u32 %p1, %t, 8; @%p1 bra A; bar.sync 0; bra E;"
        "A: shfl.sync.bfly.b32 %r1, %t, 1, 31, -1; bar.sync 0; E:",
        LaunchFailed, "deadlock of lanes");
  passes("setp.lt.u32 %p1, %t, 32; @%p1 bra A; bar.sync 0; bra E;"
         "A: bar.sync 0; E:"); // by whole warps, that is allowed
  stops("and.b32 %r1, %t, 16; setp.eq.u32 %p1, %r1, 0; @%p1 bra A;"
        "bar.sync 1, 32; bra E; A: bar.sync 2, 32; E:",
        LaunchFailed, "other lanes of the warp are not there");
  stops("brkpt;", InvalidPtx, "'brkpt' is not simulated");
  stops("trap;", LaunchFailed, "stops itself");
  Setting limit("KERF_SIM_LIMIT", "1000");
  stops("L: bra L;", LaunchTimeout, "has run 1000 instructions");
}

/// The first warp does `first`, all others `rest`.
static std::string parted(const std::string &first, const std::string &rest) {
  return "setp.lt.u32 %p1, %t, 32; @!%p1 bra R;" + first + "bra E; R:" + rest +
         "E:";
}

/// Barriers of a part of the block, at which some only arrive.
static void testArrivals() {
  passes("bar.sync 3, 32;");
  passes("add.u32 %r1, %t, 0; shr.u32 %r1, %r1, 5; barrier.sync %r1, 32;");
  passes(parted("bar.arrive 1, 64;", "bar.sync 1, 64;"));
  passes(parted("bar.arrive 1, 64; bar.sync 2, 64; bar.arrive 1, 64;"
                "bar.sync 2, 64;",
                "bar.sync 1, 64; bar.arrive 2, 64; barrier.cta.sync 1, 64;"
                "barrier.cta.arrive 2, 64;"));
  // Complete by those who do not wait, and used again at once.
  passes(parted("bar.arrive 1, 32; bar.arrive 1, 32;", ""));
  Result result = run(kernel(parted("bar.arrive 1, 96;", "bar.sync 1, 96;")),
                      {}, 128, {}, {96, 1, 1});
  same(result.statistics.barriers, uint64_t(1), "one barrier of three warps");

  stops(parted("", "bar.sync 1, 64;"), LaunchFailed,
        "32 threads wait at barriers");
  stops(parted("bar.arrive 2, 64;", "bar.sync 1, 64;"), LaunchFailed,
        "32 threads wait at barriers");
  stops(parted("bar.arrive 1, 64;", ""), LaunchFailed,
        "the block ends and 32 of 64 threads have arrived at barrier 1");
  stops(parted("bar.arrive 1, 96; bar.arrive 1, 96;", ""), LaunchFailed,
        "barrier 1: the warp has arrived there before");
  stops(parted("bar.arrive 1, 64; bar.sync 1, 64;", ""), LaunchFailed,
        "barrier 1: the warp has arrived there before");
  stops(parted("bar.arrive 1, 64;", "bar.sync 1, 96;"), LaunchFailed,
        "barrier 1 is one of 96 threads here and of 64 elsewhere");
  stops("setp.lt.u32 %p1, %t, 8; @%p1 bar.arrive 1, 64;", LaunchFailed,
        "a part of the warp arrives without waiting");
  stops("bar.sync %t, 32;", IllegalInstruction, "name other barriers");
  stops("mov.u32 %r1, 16; bar.sync %r1, 32;", IllegalInstruction,
        "barriers 0..15");
  stops("bar.arrive 1;", InvalidPtx, "how many threads");
  stops("bar.sync 1, 40;", InvalidPtx, "whole warps");
  stops("bar.sync 1, %t;", InvalidPtx, "a constant number of threads");
}

/// An arrival orders what was done before it, for those who wait alone.
static void testArrivalRaces() {
  Setting races("KERF_SIM_RACES", "1");
  std::string write = std::string(shared) + "st.shared.b32 [%d2], %t;";
  std::string read = "ld.shared.b32 %r2, [s];", over = "st.shared.b32 [s], 9;";
  std::string begin = std::string(shared) + "mov.b64 %d4, s;";
  for (const char *order : {"", "reverse"}) {
    Setting setting("KERF_SIM_ORDER", order);
    auto ordered = [&](const std::string &first, const std::string &rest) {
      passes(begin + parted(first, rest));
    };
    auto races = [&](const std::string &first, const std::string &rest,
                     Extent threads = {64, 1, 1}) {
      stops(begin + parted(first, rest), LaunchFailed,
            "no barrier lies between", threads);
    };
    std::string arrive = "bar.arrive 1, 64;", wait = "bar.sync 1, 64;";
    std::string put = "setp.eq.u32 %p2, %t, 0; @%p2 st.shared.b32 [s], 5;";
    std::string putOther = "setp.eq.u32 %p2, %t, 32; @%p2 " + over;
    // Writes, then reads.
    ordered(put + arrive, wait + read);
    races(arrive + put + "bar.sync 2, 64;",
          wait + putOther + "bar.arrive 2, 64;");
    // Reads, then writes.
    ordered(put + "bar.warp.sync -1;" + read + arrive, wait + putOther);
    races(put + "bar.warp.sync -1;" + arrive + read + "bar.sync 2, 64;",
          wait + putOther + "bar.arrive 2, 64;");
    // Who only arrives learns nothing.
    races(arrive + put + "bar.sync 2, 64;",
          putOther + wait + "bar.arrive 2, 64;");
    // Knowledge is passed on by the second of three warps, but not past it.
    std::string second = "setp.lt.u32 %p3, %t, 64; @!%p3 bra T;";
    std::string third = "setp.eq.u32 %p2, %t, 64; @%p2 " + over;
    passes(begin + parted(put + arrive, second + wait +
                                            "bar.arrive 2, 64;"
                                            "bra E; T: bar.sync 2, 64;" +
                                            third),
           {96, 1, 1});
    races(put + arrive,
          second + "bar.arrive 2, 64;" + wait + "bra E; T: bar.sync 2, 64;" +
              third,
          {96, 1, 1});
    // A barrier of others orders nothing.
    races(put, second + "bar.sync 1, 64; bra E; T: bar.sync 1, 64;" + third,
          {96, 1, 1});
    // Many warps have read: each is waited for.
    std::string readers = put + "bar.sync 3, 96;" + read;
    passes(begin + parted(readers + "bar.arrive 1, 96;",
                          "bar.sync 3, 96;" + second + read +
                              "bar.arrive 1, 96; bra E; T: bar.sync 1, 96;" +
                              third),
           {96, 1, 1});
    races(readers,
          "bar.sync 3, 96;" + second + read +
              "bar.arrive 1, 64; bra E; T: bar.sync 1, 64;" + third,
          {96, 1, 1});
  }
}

static void testRaces() {
  std::string write = std::string(shared) + "st.shared.b32 [%d2], %t;";
  std::string readOther = "xor.b32 %r1, %t, 32; mad.wide.u32 %d3, %r1, 4, %d1;"
                          "ld.shared.b32 %r2, [%d3];";
  std::string readNear = "xor.b32 %r1, %t, 1; mad.wide.u32 %d3, %r1, 4, %d1;"
                         "ld.shared.b32 %r2, [%d3];";
  passes(write + readNear); // without the check
  Setting races("KERF_SIM_RACES", "1");
  stops(write + readNear, LaunchFailed, "wrote it and no barrier lies between");
  passes(write + "bar.warp.sync -1;" + readNear);
  passes(write + "bar.sync 0;" + readOther);
  stops(write + "bar.sync 0; setp.ge.u32 %p1, %t, 32; @%p1 bra W;" + readOther +
            "bra E; W: st.shared.b32 [%d2], 9; E:",
        LaunchFailed, "another thread read it");
  stops(std::string(shared) + "st.shared.b32 [s], %t;", LaunchFailed,
        "is written, thread 0 wrote it");
  passes(std::string(shared) + "mov.b32 %r1, 5; st.shared.b32 [s], %r1;");
  // ldmatrix of what other lanes wrote, and stmatrix over what they read.
  std::string row = ".shared .align 16 .b8 m[256]; mov.b64 %d3, m;"
                    "mad.wide.u32 %d4, %t, 4, %d3; and.b32 %r1, %t, 7;"
                    "mad.wide.u32 %d5, %r1, 16, %d3;"
                    "st.shared.b32 [%d4], %t;";
  std::string load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%d5];";
  stops(row + load, LaunchFailed, "is read, thread ", {64, 1, 1});
  passes(row + "bar.sync 0;" + load);
  stops(row + "bar.sync 0;" + load +
            "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%d5], {%t};",
        LaunchFailed, "no barrier lies between");
  // cp.async may write from its issue until its group has been waited for.
  std::string copy = "bar.sync 0; cp.async.ca.shared.global [%d2], [%in], 4;";
  stops(write + "bar.sync 0;" + readOther + copy.substr(11), LaunchFailed,
        "wrote it and no barrier lies between");
  passes(write + "bar.sync 0;" + readOther + copy + "cp.async.wait_all;");
  stops(write + copy + "bar.sync 0; cp.async.wait_all;" + readOther,
        LaunchFailed, "another thread read it and no barrier lies between");
  passes(write + copy + "cp.async.wait_all; bar.sync 0;" + readOther);
  stops("add.u32 %r1, %b, 0; st.global.b32 [%out], %r1;", LaunchFailed,
        "block 0 wrote", {32, 1, 1}, {2, 1, 1});
  stops("setp.eq.u32 %p1, %b, 0; @%p1 st.global.b32 [%out], 7;"
        "@!%p1 ld.global.b32 %r1, [%out];",
        LaunchFailed, "which is read", {32, 1, 1}, {2, 1, 1});
  // A row in global memory that a warp sums up and overwrites: lane 0 writes
  // what others have read. Shuffles order nothing.
  std::string exchange = "ld.global.b32 %r1, [%out];"
                         "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;";
  std::string overwrite =
      "setp.eq.u32 %p1, %t, 0; @%p1 st.global.b32 [%out], 7;";
  stops(exchange + overwrite, LaunchFailed,
        "is written, another thread read it and no barrier lies between");
  passes(exchange + "bar.warp.sync -1;" + overwrite, {32, 1, 1});
  stops(exchange + "bar.warp.sync -1;" + overwrite, LaunchFailed,
        "no barrier lies between", {64, 1, 1});
  passes(exchange + "bar.sync 0;" + overwrite);
  Setting order("KERF_SIM_ORDER", "reverse");
  stops("setp.eq.u32 %p1, %b, 1; @%p1 st.global.b32 [%out], 7;"
        "@!%p1 ld.global.b32 %r1, [%out];",
        LaunchFailed, "which is read", {32, 1, 1}, {2, 1, 1});
}

static void testPoison() {
  // What nobody wrote is NaN: 0xFFFFFFFF.
  Result result = run(kernel(".local .align 4 .b8 l[8]; ld.local.b32 %r1, [l];"
                             "ld.global.b32 %r2, [%o]; and.b32 %r1, %r1, %r2;"
                             "st.global.b32 [%out+4], %r1;"),
                      {}, 32);
  same(result.out[1], 0xFFFFFFFFu, "fresh memory is poisoned");
}

static void testLaunches() {
  auto launchGives = [](const std::string &directives, Extent grid,
                        Extent threads, uint32_t bytes, Status status,
                        const std::string &part) {
    Result result =
        run(kernel("", "", directives), {}, 1, grid, threads, bytes);
    same(int(result.status), int(status), part);
    contains(result.text, part, part);
  };
  launchGives("", {}, {1025, 1, 1}, 0, InvalidValue, "1..1024 threads");
  launchGives("", {1, 65536, 1}, {}, 0, InvalidValue, "blocks");
  launchGives("", {}, {}, 300000, LaunchOutOfResources, "shared memory");
  launchGives(".maxntid 32, 1, 1", {}, {64, 1, 1}, 0, LaunchOutOfResources,
              ".maxntid");
  launchGives(".reqntid 64", {}, {32, 1, 1}, 0, LaunchOutOfResources,
              ".reqntid");
}

static void testParser() {
  auto refuses = [](const std::string &ptx, const std::string &part) {
    try {
      loadPtx(ptx);
      check(false, part + ": loaded");
    } catch (const Trap &trap) {
      contains(trap.text, part, part);
      same(int(trap.status), int(InvalidPtx), part);
    }
  };
  refuses("hello", "unknown directive 'hello'");
  refuses("", "expected '.version'");
  refuses(".version 8.0\n.address_size 32", "64-bit addresses");
  refuses(kernel("add.s32 %r1, %r2;"), "another number of operands");
  refuses(kernel("add.s32 %r1, %d2, %r3;"), "another size");
  refuses(kernel("add.s32 %r1, %r2, %r99;"), "neither a declared register");
  refuses(kernel("frob.b32 %r1, %r2;"), "'frob.b32' is not simulated");
  refuses(kernel("add.rz.f32 %r1, %r2, %r3;"), "'.rz' of 'add'");
  refuses(kernel("bra NOWHERE;"), "no label 'NOWHERE'");
  refuses(kernel("ld.global.b32 %r1, [nothing];"), "'nothing' is not declared");
  refuses(kernel("call g;"), "calls 'g'");
  refuses(kernel("@%q bra A; A:"), "a declared predicate");
  refuses(".version 8.0\n.section x {", "expected '}'");
  refuses(".version 8.0\n.global .align 3 .b8 x;", "a power of two");
  refuses(kernel("mov.b32 %r1, %r99999999999999999999;"), "declared register");
  refuses(kernel("{ mov.b32 %r1, %r2;"), "expected an instruction");
  refuses(kernel("mov.b32 %r1, ;"), "expected an operand");
}

void testWarpgroupChecks(); // WarpgroupCheckTest.cpp

int main() {
  testAddresses();
  testBarriers();
  testArrivals();
  testRaces();
  testArrivalRaces();
  testPoison();
  testLaunches();
  testParser();
  testWarpgroupChecks();
  return finish("checks");
}
