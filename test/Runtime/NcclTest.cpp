//===- NcclTest.cpp - plans and checks of calls of NCCL -------------------===//

// Compared with ours where they are installed.
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#define KERF_HAVE_NCCL_H
#endif

#include "nccl/Calls.h"
#include "nccl/NcclTransport.h"
#include "nccl/Splits.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>

using namespace kerf::runtime;
using namespace kerf::runtime::nccl;

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

TEST(NcclChoice, IsMadeByDeviceAndEnvironment) {
  unsetenv("KERF_TRANSPORT");
  unsetenv("OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(chooseTransport(nullptr, "cpu"), "shm");
  EXPECT_EQ(chooseTransport(nullptr, "cuda"), "nccl");
  EXPECT_EQ(chooseTransport("tcp", "cuda"), "tcp");
  setenv("KERF_TRANSPORT", "shm", 1);
  EXPECT_EQ(chooseTransport(nullptr, "cuda"), "shm");
  EXPECT_EQ(chooseTransport("tcp", "cuda"), "tcp");
  unsetenv("KERF_TRANSPORT");
}

//===----------------------------------------------------------------------===//
// Splits
//===----------------------------------------------------------------------===//

static Named name(const std::vector<uint32_t> &members, uint32_t rank,
                  uint64_t use = 0) {
  auto place = std::find(members.begin(), members.end(), rank);
  return {members[0], uint32_t(members.size()),
          uint32_t(place - members.begin()), 0, keyOf(members, use)};
}

/// What each rank names: groups of which it is a member, in this order.
static std::vector<NamedList>
namedBy(uint32_t ranks, const std::vector<std::vector<uint32_t>> &groups) {
  std::vector<NamedList> named(ranks);
  for (const auto &group : groups)
    for (uint32_t rank : group)
      named[rank].push_back(name(group, rank));
  return named;
}

/// "0 0 - -, ..." : the colors of all ranks, split by split.
static std::string colorsOf(const SplitPlan &plan) {
  std::string text;
  for (size_t split = 0; split < plan[0].size(); ++split) {
    text += split == 0 ? "" : ", ";
    for (const auto &own : plan)
      text +=
          own[split].color == kNoColor ? "-" : std::to_string(own[split].color);
  }
  return text;
}

static std::string planOf(uint32_t ranks,
                          const std::vector<std::vector<uint32_t>> &groups) {
  SplitPlan plan;
  Status status = planSplits(namedBy(ranks, groups), plan);
  return status.failed() ? status.message : colorsOf(plan);
}

// Groups of one axis, which share no rank, are made together.
TEST(NcclSplits, GroupsOfAnAxisAreOneSplit) {
  EXPECT_EQ(planOf(4, {{0, 1}, {2, 3}, {0, 2}, {1, 3}}), "0022, 0101");
  EXPECT_EQ(planOf(2, {}), "");
}

// All ranks take part in every split, also those that get nothing.
TEST(NcclSplits, RanksWithoutAGroupTakePart) {
  EXPECT_EQ(planOf(4, {{1, 3}}), "-1-1");
  EXPECT_EQ(planOf(4, {{0, 1}, {1, 2}, {2, 3}}), "0022, -11-");
}

// The place in a group is the key, whatever the numbers of the ranks.
TEST(NcclSplits, KeysAreThePlaces) {
  SplitPlan plan;
  ASSERT_FALSE(planSplits(namedBy(3, {{2, 0, 1}}), plan).failed());
  EXPECT_EQ(plan[2][0].key, 0);
  EXPECT_EQ(plan[0][0].key, 1);
  EXPECT_EQ(plan[1][0].key, 2);
}

// Ranks may name channels in different orders.
TEST(NcclSplits, OrderOfNamesIsFree) {
  std::vector<uint32_t> pair = {0, 1};
  std::vector<NamedList> named(2);
  named[0] = {name(pair, 0, 7), name(pair, 0, 8)};
  named[1] = {name(pair, 1, 8), name(pair, 1, 7)};
  SplitPlan plan;
  ASSERT_FALSE(planSplits(named, plan).failed());
  ASSERT_EQ(plan[0].size(), 2u);
  for (size_t split = 0; split < 2; ++split)
    EXPECT_EQ(named[0][plan[0][split].named].key,
              named[1][plan[1][split].named].key);
}

// A group that not all of its members know is refused.
TEST(NcclSplits, MissingMembersAreNamed) {
  auto named = namedBy(3, {{0, 1, 2}});
  named[1].clear();
  SplitPlan plan;
  EXPECT_EQ(planSplits(named, plan).message,
            "ranks disagree: a group of 3 ranks that begins with rank 0 is "
            "known to 2 of them, rank 0 among them");
  named = namedBy(2, {{0, 1}});
  named[1][0].place = 0;
  EXPECT_EQ(planSplits(named, plan).message,
            "ranks disagree: two are member 0 of a group of 2 ranks, one is "
            "rank 1");
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

namespace {
/// A job that is written by hand: one list per rank.
struct Script {
  Job job;
  std::vector<std::vector<Call>> lists;
  uint32_t group = 0;

  explicit Script(uint32_t ranks) : lists(ranks) {
    job.ranks.resize(ranks);
    job.nameCommand = [](uint32_t, uint32_t command) {
      return "c" + std::to_string(command);
    };
  }
  void comm(const std::vector<uint32_t> &members) {
    for (uint32_t place = 0; place < members.size(); ++place)
      job.ranks[members[place]].comms.push_back(
          {uint32_t(job.members.size()), place});
    job.members.push_back(members);
  }
  Call &add(uint32_t rank, CallKind kind, uint32_t comm, uint64_t count,
            uint32_t stream = 1) {
    Call call{kind};
    call.type = kFloat32;
    call.comm = comm;
    call.count = count;
    call.stream = stream;
    call.group = ++group;
    call.command = uint32_t(lists[rank].size());
    return lists[rank].emplace_back(call);
  }
  void send(uint32_t rank, uint32_t comm, uint64_t count, uint32_t stream = 1,
            uint32_t distance = 1) {
    add(rank, CallKind::Send, comm, count, stream).distance = distance;
  }
  void receive(uint32_t rank, uint32_t comm, uint64_t count,
               uint32_t stream = 1, uint32_t distance = 1) {
    add(rank, CallKind::Receive, comm, count, stream).distance = distance;
  }
  /// "" or what is wrong.
  std::string check() {
    job.lists.clear();
    for (uint32_t rank = 0; rank < lists.size(); ++rank)
      job.ranks[rank].list = job.add(lists[rank]);
    Counts counts;
    return checkCalls(job, counts).message;
  }
};
} // namespace

// Equal lists are kept once; what fits together passes.
TEST(NcclCalls, EqualRanksShareAList) {
  Script script(2);
  script.comm({0, 1});
  for (uint32_t rank : {0, 1}) {
    script.group = 0;
    script.add(rank, CallKind::AllReduce, 0, 8);
    script.add(rank, CallKind::AllGather, 0, 4);
  }
  EXPECT_EQ(script.check(), "");
  EXPECT_EQ(script.job.lists.size(), 1u);
}

// Other sizes, types, kinds and reductions are found.
TEST(NcclCalls, MembersMustCallTheSame) {
  auto checkWith = [](auto change) {
    Script script(2);
    script.comm({0, 1});
    script.add(0, CallKind::AllReduce, 0, 8);
    change(script.add(1, CallKind::AllReduce, 0, 8));
    return script.check();
  };
  EXPECT_EQ(checkWith([](Call &) {}), "");
  EXPECT_EQ(checkWith([](Call &call) { call.count = 9; }),
            "ranks disagree on communicator 0: rank 0 in c0: ncclAllReduce sum "
            "f32 x 8, but rank 1 in c0: ncclAllReduce sum f32 x 9");
  EXPECT_NE(checkWith([](Call &call) { call.type = kBfloat16; }), "");
  EXPECT_NE(checkWith([](Call &call) { call.reduction = kMax; }), "");
  EXPECT_NE(checkWith([](Call &call) { call.kind = CallKind::AllGather; }), "");
}

// A member that calls less often is named.
TEST(NcclCalls, MissingCallsHang) {
  Script script(3);
  script.comm({0, 1, 2});
  for (uint32_t rank : {0, 1, 2})
    script.add(rank, CallKind::AllReduce, 0, 8);
  for (uint32_t rank : {0, 2})
    script.add(rank, CallKind::AllReduce, 0, 8);
  EXPECT_EQ(script.check(),
            "the job hangs: rank 0 in c1: ncclAllReduce sum f32 x 8, rank 1 "
            "does not come; rank 2 in c1: ncclAllReduce sum f32 x 8, rank 1 "
            "does not come");
}

// Messages are paired in order, and their sizes compared.
TEST(NcclCalls, MessagesFindTheirReceivers) {
  Script script(2);
  script.comm({0, 1});
  for (uint64_t count : {4, 5}) {
    script.send(0, 0, count);
    script.receive(1, 0, count);
  }
  EXPECT_EQ(script.check(), "");
  script.lists[1][1].count = 6;
  EXPECT_EQ(script.check(),
            "ranks disagree on communicator 0: rank 0 in c1: ncclSend f32 x 5, "
            "but rank 1 in c1: ncclRecv f32 x 6");
  script.lists[1].pop_back();
  EXPECT_EQ(script.check(),
            "the job hangs: rank 0 in c1: ncclSend f32 x 5 to rank 1");
}

// Two that send first to each other hang, unless the calls are a group or on
// two streams.
TEST(NcclCalls, CrossedSendsHang) {
  for (bool isGroup : {false, true})
    for (uint32_t stream : {1, 2}) {
      Script script(2);
      script.comm({0, 1});
      for (uint32_t rank : {0, 1}) {
        script.send(rank, 0, 4);
        if (isGroup)
          --script.group;
        script.receive(rank, 0, 4, isGroup ? 1 : stream);
      }
      bool hangs = !isGroup && stream == 1;
      EXPECT_EQ(script.check().empty(), !hangs) << script.check();
    }
}

// Two groups that two ranks enter in different orders hang.
TEST(NcclCalls, OrderOfCommunicatorsCounts) {
  Script script(2);
  script.comm({0, 1});
  script.comm({1, 0});
  for (uint32_t rank : {0, 1})
    for (uint32_t n : {0, 1})
      script.add(rank, CallKind::AllReduce, rank == 0 ? n : 1 - n, 8);
  EXPECT_NE(script.check().find("the job hangs: "), std::string::npos);
  // On streams of their own they pass.
  for (uint32_t rank : {0, 1})
    for (Call &call : script.lists[rank])
      call.stream = 1 + call.comm;
  EXPECT_EQ(script.check(), "");
}

// A stream waits for an event as it was when the wait was enqueued, and the
// host for a stream.
TEST(NcclCalls, EventsAndTheHostOrderCalls) {
  auto checkWith = [](bool waits, bool drains) {
    // Rank 0 sends on stream 2, and may not begin the all-reduce before.
    Script script(2);
    script.comm({0, 1});
    script.comm({0, 1});
    script.send(0, 0, 4, 2);
    if (waits) {
      script.add(0, CallKind::Record, 0, 1, 2);
      script.add(0, CallKind::Wait, 0, 1, 1);
    }
    if (drains)
      script.add(0, CallKind::Drain, 0, 0, 2);
    script.add(0, CallKind::AllReduce, 1, 8);
    script.add(1, CallKind::AllReduce, 1, 8);
    script.receive(1, 0, 4);
    return script.check();
  };
  EXPECT_EQ(checkWith(false, false), "");
  EXPECT_NE(checkWith(true, false), "");
  EXPECT_NE(checkWith(false, true), "");
}

// The example of the header.
TEST(NcclCalls, ACircleOfThreeHangs) {
  Script script(3);
  script.comm({0, 1});
  script.comm({0, 2});
  script.comm({2, 1});
  script.send(0, 0, 4);
  script.send(0, 1, 4);
  script.receive(1, 1, 4); // from C
  script.receive(1, 0, 4); // from A
  script.receive(2, 0, 4);
  script.send(2, 1, 4);
  std::string message = script.check();
  EXPECT_NE(message.find("rank 0 in c0: ncclSend f32 x 4 to rank 1"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("rank 1 in c0: ncclRecv f32 x 4 from rank 2"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("rank 2 in c0: ncclRecv f32 x 4 from rank 0"),
            std::string::npos)
      << message;
}

// A group of calls on two communicators is none of ours.
TEST(NcclCalls, GroupsAreOnOneCommunicator) {
  Script script(2);
  script.comm({0, 1});
  script.comm({0, 1});
  for (uint32_t rank : {0, 1}) {
    script.add(rank, CallKind::AllReduce, 0, 8);
    --script.group;
    script.add(rank, CallKind::AllReduce, 1, 8);
  }
  EXPECT_EQ(script.check(), "call 1: a group of calls works on two "
                            "communicators or streams");
}

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

#ifdef KERF_HAVE_NCCL_H
// Our declarations are NVIDIA's.
static_assert(sizeof(ncclUniqueId) == sizeof(UniqueId));
static_assert(offsetof(ncclConfig_t, blocking) == offsetof(Config, blocking));
static_assert(offsetof(ncclConfig_t, netName) == offsetof(Config, netName));
static_assert(offsetof(ncclConfig_t, splitShare) ==
              offsetof(Config, splitShare));
static_assert(int(ncclSystemError) == kSystemError &&
              int(ncclInvalidUsage) == kInvalidUsage &&
              int(ncclRemoteError) == kRemoteError &&
              int(ncclInProgress) == kInProgress);
static_assert(int(ncclUint8) == kUint8 && int(ncclInt32) == kInt32 &&
              int(ncclFloat16) == kFloat16 && int(ncclFloat32) == kFloat32 &&
              int(ncclFloat64) == kFloat64 && int(ncclBfloat16) == kBfloat16);
static_assert(int(ncclSum) == kSum && int(ncclMax) == kMax &&
              NCCL_SPLIT_NOCOLOR == kNoColor);
#endif

// NVIDIA's library, where it is installed, tells its version and makes ids
// without a GPU.
TEST(NcclLibrary, TakesOurDeclarations) {
  std::string text;
  Status status = describeNccl(text);
  if (status.failed())
    GTEST_SKIP() << status.message;
  EXPECT_EQ(text.find("NCCL 2."), 0u) << text;
  size_t at = text.find('('), end = text.rfind(')');
  ASSERT_NE(at, std::string::npos);
  void *library = dlopen(text.substr(at + 1, end - at - 1).c_str(),
                         RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  ASSERT_NE(library, nullptr) << dlerror();
  auto getId =
      reinterpret_cast<int (*)(UniqueId *)>(dlsym(library, "ncclGetUniqueId"));
  ASSERT_NE(getId, nullptr);
  // Beyond the id nothing is written.
  struct {
    UniqueId id, guard;
  } a, b;
  std::memset(&a, 0x5a, sizeof a);
  std::memset(&b, 0x5a, sizeof b);
  ASSERT_EQ(getId(&a.id), kSuccess);
  ASSERT_EQ(getId(&b.id), kSuccess);
  EXPECT_NE(std::memcmp(&a.id, &b.id, sizeof a.id), 0);
  EXPECT_EQ(std::memcmp(&a.guard, &b.guard, sizeof a.guard), 0);
}

// Without a device, or with one of the host, the transport says what it is for.
TEST(NcclLibrary, NeedsAGpu) {
  std::unique_ptr<Transport> transport;
  Rendezvous rendezvous;
  Status status = connectNccl(rendezvous, nullptr, transport);
  EXPECT_EQ(status.code, KERF_INVALID);
  EXPECT_EQ(status.message, "transport 'nccl' moves memory of GPUs, and this "
                            "job runs on 'the host': use shm, tcp or mpi");
  kerf_device_api api = {};
  api.abi_version = KERF_DEVICE_ABI;
  api.struct_bytes = sizeof api;
  api.name = "cpu";
  api.flags = KERF_DEVICE_HOST_MEMORY;
  rendezvous.api = &api;
  status = connectNccl(rendezvous, nullptr, transport);
  EXPECT_NE(status.message.find("runs on 'cpu'"), std::string::npos);
}
