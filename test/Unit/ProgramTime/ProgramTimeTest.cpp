// Programs of a few commands whose step can be timed by hand: a device moves 1
// GB/s, and so does each link, without latency.

#include "kerf/ProgramTime/ProgramTime.h"

#include "gtest/gtest.h"

using namespace kerf;

static constexpr int64_t MB = 1000000;

static Machine machineOf(BackendTarget target, int64_t ranks) {
  Machine machine;
  machine.name = "by-hand";
  machine.device.memoryBytesPerSec = 1e9;
  machine.device.efficiency.memory = machine.device.efficiency.network = 1;
  machine.device.peak["f32"] = 1e12;
  machine.device.efficiency.matmul = 1;
  machine.device.target = target;
  machine.device.arch = target == BackendTarget::Cuda ? "sm_90" : "";
  Tier tier;
  tier.name = "node";
  tier.size = ranks;
  tier.bytesPerSec = 1e9;
  machine.tiers = {tier};
  return machine;
}

namespace {
/// A file that grows command by command.
struct Program {
  ArtifactData data;

  /// `stages` x `replicas` ranks on the axes "pp" and "dp"; group 0 is of dp,
  /// group 1 of pp.
  Program(uint32_t stages, uint32_t replicas) {
    data.meta.world_size = stages * replicas;
    data.meta.micro_batches = 1;
    data.meta.pipeline_axis = 0;
    data.meta.model = data.strings.intern("hand");
    data.meta.target = data.strings.intern("cuda");
    data.meta.cpu = data.strings.intern("sm_90");
    data.axes = {{data.strings.intern("pp"), stages},
                 {data.strings.intern("dp"), replicas}};
    data.groups = {{2, replicas}, {1, stages}};
  }

  void begin(llvm::StringRef func) {
    data.beginProgram("stage");
    data.beginFunc(func);
  }
  /// Ends a stage that calls its one function `calls` times.
  void end(uint32_t calls = 1) {
    data.endFunc();
    for (uint32_t c = 0; c < calls; ++c)
      data.calls.push_back({0, c,
                            (c == 0 ? uint32_t(KERF_CALL_FIRST) : 0) |
                                (c + 1 == calls ? uint32_t(KERF_CALL_LAST) : 0),
                            0});
    data.endProgram();
    data.programs.back().train_calls = calls;
  }
  void channel(uint32_t from, uint32_t to, uint32_t holds) {
    data.channels.push_back(
        {data.strings.intern("forward"), from, to, holds, 100 * MB});
  }

  void add(uint32_t opcode, llvm::ArrayRef<int64_t> attrs, uint32_t flags = 0,
           llvm::ArrayRef<kerf_operand> operands = {}) {
    data.addCommand(opcode, flags, data.strings.intern("command"), KERF_NONE,
                    operands, attrs);
  }
  /// Launches a kernel that leaves so many bytes of its operands alone.
  void launch(llvm::ArrayRef<kerf_operand> operands, uint32_t flags = 0,
              int64_t untouched = 0) {
    kerf_kernel &kernel = data.kernels.emplace_back();
    kernel.argument_count = operands.size();
    kernel.untouched = untouched;
    add(KERF_OP_LAUNCH, {int64_t(data.kernels.size()) - 1}, flags, operands);
  }
  /// A kernel that writes `bytes`.
  void kernel(int64_t bytes, uint32_t flags = 0) {
    launch({arenaOperand(0, bytes, KERF_F32, KERF_WRITE)}, flags);
  }
  void allReduce(int64_t group, int64_t bytes, uint32_t flags = 0) {
    add(KERF_OP_ALL_REDUCE, {group, KERF_F32, KERF_SUM, bytes / 4}, flags);
  }

  ProgramTime time(BackendTarget target = BackendTarget::Cuda,
                   double launchSec = 0) const {
    Machine machine = machineOf(target, data.meta.world_size);
    machine.device.launchSec = launchSec;
    std::string error;
    auto time = timeProgram(data, machine, {}, /*keepEvents=*/true, error);
    EXPECT_EQ(error, "");
    return time.value_or(ProgramTime());
  }
};
} // namespace

static constexpr double kExact = 1e-12;

/// The parts of every stage add up to the step.
static void expectWhole(const ProgramTime &time) {
  for (const StageTime &stage : time.stages) {
    EXPECT_NEAR(stage.computeSec() + stage.launchSec + stage.exposedSec() +
                    stage.messageSec() + stage.sendSec + stage.idleSec,
                time.stepSec, kExact);
    // Kernels by name are all kernels, those that take most first.
    double sec = 0;
    int64_t calls = 0;
    for (const KernelTime &row : stage.kernelTimes) {
      sec += row.sec;
      calls += row.calls;
      EXPECT_GE(stage.kernelTimes.front().sec, row.sec);
    }
    EXPECT_NEAR(sec, stage.computeSec(), kExact);
    EXPECT_EQ(calls, stage.kernels);
  }
}

// An all-reduce of 300 MB over two ranks takes 0.3 s. Beside a kernel of 0.2 s
// its wait takes the other 0.1 s.
TEST(ProgramTimeTest, StartedCollectiveHidesBehindAKernel) {
  Program program(1, 2);
  program.begin("backward");
  program.kernel(100 * MB);
  program.allReduce(0, 300 * MB, KERF_STARTS);
  program.kernel(200 * MB);
  program.add(KERF_OP_WAIT, {2});
  program.kernel(50 * MB);
  program.end();
  ProgramTime time = program.time();
  EXPECT_NEAR(time.stepSec, 0.1 + 0.3 + 0.05, kExact);
  const CollectiveTime &row = time.stages[0].collectives.at(0);
  EXPECT_EQ(row.axes, "dp");
  EXPECT_EQ(row.bytes, 300.0 * MB);
  EXPECT_NEAR(row.sec, 0.3, kExact);
  EXPECT_NEAR(row.exposedSec, 0.1, kExact);
  expectWhole(time);
}

// Not started, all of it is exposed.
TEST(ProgramTimeTest, OtherCollectivesStopKernels) {
  Program program(1, 2);
  program.begin("backward");
  program.allReduce(0, 300 * MB);
  program.kernel(200 * MB);
  program.end();
  EXPECT_NEAR(program.time().stepSec, 0.5, kExact);
}

// One exchange is under way: the second one ends the first.
TEST(ProgramTimeTest, NextExchangeEndsTheStartedOne) {
  Program program(1, 2);
  program.begin("backward");
  program.allReduce(0, 300 * MB, KERF_STARTS);
  program.kernel(100 * MB);
  program.allReduce(0, 100 * MB, KERF_STARTS);
  program.kernel(100 * MB);
  program.add(KERF_OP_WAIT, {4});
  program.add(KERF_OP_WAIT, {3});
  program.end();
  EXPECT_NEAR(program.time().stepSec, 0.3 + 0.1, kExact);
}

// The sender copies 100 MB (0.2 s, read and written) and goes on. The receiver
// is ready at 0.05 s, waits until 0.3 s and gets it in 0.1 s.
TEST(ProgramTimeTest, MessageBetweenTwoStages) {
  Program program(2, 1);
  program.begin("forward");
  program.channel(0, 1, 1);
  program.kernel(100 * MB);
  program.add(KERF_OP_SEND, {0, 100 * MB});
  program.kernel(500 * MB);
  program.end();
  program.begin("forward");
  program.channel(0, 1, 1);
  program.kernel(50 * MB);
  program.add(KERF_OP_RECEIVE, {0, 100 * MB});
  program.kernel(100 * MB);
  program.end();
  ProgramTime time = program.time();
  EXPECT_NEAR(time.stepSec, 0.8, kExact);
  EXPECT_NEAR(time.stages[0].sendSec, 0.2, kExact);
  EXPECT_NEAR(time.stages[1].messageSec(), 0.1, kExact);
  EXPECT_NEAR(time.stages[1].idleSec, 0.25 + 0.3, kExact);
  EXPECT_EQ(time.critical, 0u);
  expectWhole(time);
}

// A channel holds one message: the second copy waits until the receiver, which
// is busy for 1 s, has taken the first.
TEST(ProgramTimeTest, SenderWaitsForItsBuffers) {
  for (uint32_t holds : {1, 2}) {
    Program program(2, 1);
    program.begin("forward");
    program.channel(0, 1, holds);
    program.add(KERF_OP_SEND, {0, 100 * MB});
    program.add(KERF_OP_SEND, {0, 100 * MB});
    program.end();
    program.begin("forward");
    program.channel(0, 1, holds);
    program.kernel(1000 * MB);
    program.add(KERF_OP_RECEIVE, {0, 100 * MB});
    program.add(KERF_OP_RECEIVE, {0, 100 * MB});
    program.end();
    ProgramTime time = program.time();
    // 1 s, a message, in the first case the copy, a message, its copy.
    EXPECT_NEAR(time.stepSec, holds == 1 ? 1.6 : 1.4, kExact);
    EXPECT_NEAR(time.stages[0].idleSec, holds == 1 ? 1.2 : 1.0, kExact);
    expectWhole(time);
  }
}

// The second message of 0.1 s comes beside the kernel of 0.5 s, and is copied
// (0.2 s); not beside it where the host reads a number between them.
TEST(ProgramTimeTest, MessagesThatAreExpected) {
  for (bool stops : {false, true}) {
    Program program(2, 1);
    program.begin("forward");
    program.channel(0, 1, 2);
    program.add(KERF_OP_SEND, {0, 100 * MB});
    program.add(KERF_OP_SEND, {0, 100 * MB});
    program.end();
    program.begin("forward");
    program.channel(0, 1, 2);
    program.add(KERF_OP_RECEIVE, {0, 100 * MB});
    program.kernel(500 * MB);
    if (stops)
      program.add(KERF_OP_STOP_IF, {});
    program.add(KERF_OP_RECEIVE, {0, 100 * MB});
    program.end();
    ProgramTime time = program.time();
    EXPECT_NEAR(time.stepSec, 0.2 + 0.1 + 0.5 + (stops ? 0.1 : 0.2), kExact);
    EXPECT_NEAR(time.stages[1].messageSec(), stops ? 0.2 : 0.1, kExact);
    EXPECT_NEAR(time.stages[1].messages[0].sec, 0.2, kExact);
    expectWhole(time);
  }
}

// The middle one of three stages sends both neighbours two messages of 1 s,
// each copied in 0.2 s before. The four leave one after the other from 0.2 s
// on; the last one comes beside nothing and is copied from its buffer.
TEST(ProgramTimeTest, MessagesOfARankShareItsLink) {
  Program program(3, 1);
  for (uint32_t stage : {0u, 1u, 2u}) {
    program.begin("forward");
    if (stage == 1) {
      program.channel(1, 0, 2);
      program.channel(1, 2, 2);
      for (int64_t round = 0; round < 2; ++round) {
        program.add(KERF_OP_SEND, {0, 100 * MB});
        program.add(KERF_OP_SEND, {1, 100 * MB});
      }
    } else {
      program.channel(1, stage, 2);
      program.add(KERF_OP_RECEIVE, {0, 100 * MB});
      program.add(KERF_OP_RECEIVE, {0, 100 * MB});
    }
    program.end();
  }
  Machine machine = machineOf(BackendTarget::Cuda, 3);
  machine.tiers[0].bytesPerSec = 0.1e9;
  std::string error;
  auto time = timeProgram(program.data, machine, {}, false, error);
  ASSERT_TRUE(time);
  EXPECT_NEAR(time->stepSec, 0.2 + 4 * 1.0 + 0.2, kExact);
  expectWhole(*time);
}

// Stages meet when the last one comes, started or not.
TEST(ProgramTimeTest, CollectiveOverStages) {
  for (uint32_t flags : {0u, uint32_t(KERF_STARTS)}) {
    Program program(2, 1);
    for (int64_t before : {100, 300}) {
      program.begin("update");
      program.kernel(before * MB);
      program.allReduce(1, 200 * MB, flags);
      program.kernel(100 * MB);
      program.end();
    }
    ProgramTime time = program.time();
    EXPECT_NEAR(time.stepSec, flags ? 0.5 : 0.6, kExact);
    EXPECT_NEAR(time.stages[1].exposedSec(), flags ? 0.1 : 0.2, kExact);
    expectWhole(time);
  }
}

// A body runs once per iteration, commands of the first call in that alone.
TEST(ProgramTimeTest, LoopsAndFlags) {
  Program program(1, 1);
  program.begin("forward");
  program.kernel(100 * MB, KERF_IF_FIRST);
  program.add(KERF_OP_LOOP, {0, 3, 0, 2});
  program.kernel(10 * MB, KERF_UNLESS_FIRST);
  program.kernel(20 * MB);
  program.kernel(1 * MB, KERF_IF_LAST);
  program.end(/*calls=*/2);
  ProgramTime time = program.time();
  EXPECT_NEAR(time.stepSec, 0.1 + 0.06 + 0.09 + 0.001, kExact);
  EXPECT_EQ(time.stages[0].kernels, 1 + 3 + 6 + 1);
  EXPECT_EQ(time.stages[0].kernelTimes.front().func, "forward");
  expectWhole(time);
}

// A GPU's host launches ahead of kernels: ten kernels of 1 ms behind one of 10
// ms are launched by then, at 1.5 ms each. A CPU starts one when the one before
// is done.
TEST(ProgramTimeTest, LaunchesHideBehindKernels) {
  Program program(1, 1);
  program.begin("forward");
  program.kernel(10 * MB);
  for (int n = 0; n < 4; ++n)
    program.kernel(MB);
  program.end();
  ProgramTime gpu = program.time(BackendTarget::Cuda, 1.5e-3);
  EXPECT_NEAR(gpu.stepSec, 1.5e-3 + 10e-3 + 4 * 1e-3, kExact);
  ProgramTime cpu = program.time(BackendTarget::Cpu, 1.5e-3);
  EXPECT_NEAR(cpu.stepSec, 10e-3 + 4 * 1.5e-3, kExact);
  expectWhole(gpu);
  expectWhole(cpu);
}

// What two operands share moves once, and what is read and written twice.
TEST(ProgramTimeTest, SharedRangesMoveOnce) {
  Program program(1, 1);
  program.begin("forward");
  uint32_t both = KERF_READ | KERF_WRITE;
  program.launch({arenaOperand(0, 100 * MB, KERF_F32, KERF_READ),
                  arenaOperand(50 * MB, 100 * MB, KERF_F32, KERF_READ),
                  arenaOperand(200 * MB, 10 * MB, KERF_F32, both)});
  program.end();
  EXPECT_NEAR(program.time().stepSec, 0.15 + 0.02, kExact);
}

// Of what is sliced or looked up the rest does not move.
TEST(ProgramTimeTest, UntouchedBytesDoNotMove) {
  Program program(1, 1);
  program.begin("forward");
  program.launch({arenaOperand(0, 90 * MB, KERF_F32, KERF_READ),
                  arenaOperand(100 * MB, 30 * MB, KERF_F32, KERF_WRITE)},
                 0, /*untouched=*/60 * MB);
  program.end();
  EXPECT_NEAR(program.time().stepSec, 0.06, kExact);
}

// Four stages of two ranks on nodes of four: only the message from stage 1 to
// stage 2 leaves a node.
TEST(ProgramTimeTest, MessagesCrossTheTierBetweenTheirEnds) {
  Program program(4, 2);
  for (uint32_t stage = 0; stage < 4; ++stage) {
    program.begin("forward");
    if (stage > 0)
      program.channel(stage - 1, stage, 1);
    if (stage < 3)
      program.channel(stage, stage + 1, 1);
    if (stage > 0)
      program.add(KERF_OP_RECEIVE, {0, 100 * MB});
    if (stage < 3)
      program.add(KERF_OP_SEND, {stage > 0, 100 * MB});
    program.end();
  }
  Machine machine = machineOf(BackendTarget::Cuda, 4);
  Tier leaf = machine.tiers[0];
  leaf.name = "leaf";
  leaf.size = 2;
  leaf.bytesPerSec = 0.1e9;
  machine.tiers.push_back(leaf);
  std::string error;
  auto time = timeProgram(program.data, machine, {}, false, error);
  ASSERT_TRUE(time);
  EXPECT_NEAR(time->stages[1].messageSec(), 0.1, kExact);
  EXPECT_NEAR(time->stages[2].messageSec(), 1.0, kExact);
  EXPECT_NEAR(time->stages[3].messageSec(), 0.1, kExact);
}

// Stages that wait for each other are named.
TEST(ProgramTimeTest, WaitsForEver) {
  Program program(2, 1);
  for (uint32_t stage = 0; stage < 2; ++stage) {
    program.begin("forward");
    program.channel(1, 0, 1);
    program.add(stage == 0 ? KERF_OP_RECEIVE : KERF_OP_COPY,
                {stage == 0 ? 0 : MB, MB});
    program.end();
  }
  Machine machine = machineOf(BackendTarget::Cuda, 2);
  std::string error;
  EXPECT_FALSE(timeProgram(program.data, machine, {}, false, error));
  EXPECT_EQ(error, "stage 0 waits for ever in 'command' (receive)");
}

TEST(ProgramTimeTest, ClustersThatDoNotSuit) {
  Program program(1, 2);
  EXPECT_EQ(checkCluster(program.data, machineOf(BackendTarget::Cuda, 1)), "");
  EXPECT_EQ(checkCluster(program.data, machineOf(BackendTarget::Cpu, 2)),
            "compiled for cuda sm_90, and cluster 'by-hand' has devices for "
            "cpu; compile it with --cluster of this one");
  EXPECT_EQ(checkCluster(program.data, machineOf(BackendTarget::None, 2)),
            "compiled for cuda sm_90, and cluster 'by-hand' has no backend; "
            "take the cluster that it was compiled for");
  Machine alone = machineOf(BackendTarget::Cuda, 2);
  alone.tiers.clear();
  EXPECT_EQ(checkCluster(program.data, alone),
            "compiled for 2 ranks, and cluster 'by-hand' describes 1 device "
            "without a network; give it tiers, or compile with --devices=1");
}

// Calls, messages and data traffic are drawn under the names of predictions.
TEST(ProgramTimeTest, EventsOfTheTimeline) {
  Program program(1, 2);
  program.begin("backward_1_last");
  program.kernel(100 * MB);
  program.allReduce(0, 300 * MB, KERF_STARTS);
  program.kernel(100 * MB);
  program.add(KERF_OP_WAIT, {2});
  program.end();
  ProgramTime time = program.time();
  ASSERT_EQ(time.timeline.events.size(), 2u);
  const Event &call = time.timeline.events[0];
  EXPECT_EQ(call.kind, EventKind::Backward);
  EXPECT_EQ(call.chunk, 1);
  EXPECT_NEAR(call.endSec, 0.4, kExact);
  const Event &sync = time.timeline.events[1];
  EXPECT_EQ(sync.kind, EventKind::GradientSync);
  EXPECT_EQ(sync.engine, Engine::DataLink);
  EXPECT_NEAR(sync.startSec, 0.1, kExact);
}
