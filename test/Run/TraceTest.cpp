//===- TraceTest.cpp - what calls are named in a trace --------------------===//

#include "RunTesting.h"

#include "kerf/Train/Trace.h"

using namespace kerf::runtime;

/// The words of the predicted timeline, also where the last micro-batch has a
/// function of its own; other functions keep their names.
TEST(TraceTest, NamesCallsAsPredicted) {
  struct Case {
    const char *function, *kind;
    int64_t chunk;
    bool hasMicroBatch;
  };
  for (const Case &known : {Case{"forward", "forward", 0, true},
                            Case{"backward_2", "backward", 2, true},
                            Case{"backward_last", "backward", 0, true},
                            Case{"backward_1_last", "backward", 1, true},
                            Case{"weights_last", "weight gradient", 0, true},
                            Case{"evaluate_1", "evaluate", 1, true},
                            Case{"update", "update", 0, false},
                            Case{"finish_last", "finish_last", 0, false},
                            Case{"backward_x", "backward_x", 0, false}}) {
    CallKind call = kindOfFunction(known.function);
    EXPECT_EQ(call.kind, known.kind) << known.function;
    EXPECT_EQ(call.chunk, known.chunk) << known.function;
    EXPECT_EQ(call.hasMicroBatch, known.hasMicroBatch) << known.function;
  }
}
