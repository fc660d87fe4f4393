//===- RowsTest.cpp - reading measurements --------------------------------===//

#include "../Rows.h"
#include "../Sample.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

using namespace kerf::validate;

static const char *const kHeader =
    "source,table_or_url,model_name,n_layers,hidden,n_heads,n_kv_heads,"
    "ffn_hidden,ffn_kind,vocab,seq_len,experts,top_k,device,n_devices,"
    "devices_per_node,intra_node_bw_GBps,inter_node_bw_GBps_per_gpu,precision,"
    "tp,pp,dp,cp,ep,sp,zero_stage,schedule,virtual_stages,micro_batch,"
    "global_batch,recompute,flash_attention,measured_step_time_s,"
    "measured_tokens_per_s_per_gpu,measured_tflops_per_gpu,measured_mfu,"
    "measured_memory_GB,flops_formula_used,notes,status,complete,phase\n";

static Row rowOf(const std::string &line) {
  bool isOther = false;
  std::vector<std::string> errors;
  std::vector<Row> rows = parseRows(kHeader + line, "a/x.csv", isOther, errors);
  EXPECT_TRUE(errors.empty()) << llvm::join(errors, "\n");
  return rows.empty() ? Row() : rows.front();
}

static std::string errorOf(const std::string &text) {
  bool isOther = false;
  std::vector<std::string> errors;
  parseRows(text, "a/x.csv", isOther, errors);
  return llvm::join(errors, "; ");
}

static const char *const kRow =
    "\"A \"\"b\"\", "
    "c\",t,GPT,24,2304,24,24,9216,gelu,51200,2048,,,A100,32,8,,25,"
    "fp16,1,1,32,1,1,false,0,,,16,512,full,false,,,137,,,96*B*s*L*h^2,"
    "\"two\nlines\",ok,2,pretrain\n";

// Quotes hold commas, doubled quotes and line breaks; empty fields are absent.
TEST(RowsTest, fields) {
  Row row = rowOf(kRow);
  EXPECT_EQ(row.source, "A \"b\", c");
  EXPECT_EQ(row.notes, "two\nlines");
  EXPECT_EQ(row.place(), "x.csv:2");
  EXPECT_EQ(row.hidden, 2304);
  EXPECT_FALSE(row.intraNode.has_value());
  EXPECT_EQ(row.interNode, 25.0);
  EXPECT_EQ(row.sequenceParallel, false);
  EXPECT_EQ(microBatchesOf(row), 1);
}

// The first line of Megatron's 2021 table: 137 TFLOP/s of 32 devices are 3.53 s
// by the paper's formula.
TEST(RowsTest, stepTimeFromFlops) {
  EXPECT_NEAR(*measuredStepSec(rowOf(kRow), 312e12), 3.528, 0.001);
}

// 8-bit matmuls by any name of their scales.
TEST(RowsTest, float8) {
  Row row = rowOf(kRow);
  for (const char *name : {"fp8", "fp8-cs", "fp8 (blockwise/mx)"}) {
    row.precision = name;
    EXPECT_TRUE(isFloat8(row)) << name;
  }
  row.precision = "bf16";
  EXPECT_FALSE(isFloat8(row));
}

// Of 128 experts a token meets 8; latent attention's sizes are not stated.
TEST(RowsTest, activeParameters) {
  Row row = rowOf(kRow);
  row.formula = "6*P_active_matmul + 6*L*n_heads*head_dim*s per token";
  double dense = *flopsOfFormula(row);
  row.experts = 128;
  row.topK = 1;
  EXPECT_EQ(*flopsOfFormula(row), dense);
  row.topK = 8;
  EXPECT_GT(*flopsOfFormula(row), 4 * dense);
  EXPECT_LT(*flopsOfFormula(row), 8 * dense);
  row.notes = "MLA attention (q_lora 1536)";
  EXPECT_FALSE(flopsOfFormula(row).has_value());
}

// Errors name file, line, column and what was found.
TEST(RowsTest, errors) {
  std::string text = kRow;
  text.replace(text.find("2304"), 4, "many");
  EXPECT_EQ(errorOf(kHeader + text), "a/x.csv:2: expected a number of at least "
                                     "0 in column 'hidden', found 'many'");
  EXPECT_EQ(errorOf(std::string(kHeader) + "\na,b\n"),
            "a/x.csv:3: expected 42 fields as in the header, found 2");
  EXPECT_EQ(errorOf(std::string(kHeader) + "\"a"),
            "a/x.csv:2: this quote is not closed");
  EXPECT_EQ(errorOf(""), "a/x.csv:1: expected a header, found nothing");
  std::string header = kHeader;
  header.replace(header.find("hidden"), 6, "width");
  EXPECT_EQ(errorOf(header), "a/x.csv:1: missing column 'hidden'");
  header = kHeader;
  EXPECT_EQ(errorOf(header + std::string(kRow).replace(
                                 std::string(kRow).find(",24,"), 4, ",2.5,")),
            "a/x.csv:2: expected a whole number in column 'n_layers', found "
            "'2.5'");
}

// A file with another header is something else, not an error.
TEST(RowsTest, otherFiles) {
  bool isOther = false;
  std::vector<std::string> errors;
  EXPECT_TRUE(parseRows("name,peak\na,1\n", "d.csv", isOther, errors).empty());
  EXPECT_TRUE(isOther);
  EXPECT_TRUE(errors.empty());
}

// On a line of points the ends come first, then the middle of the widest gap.
TEST(SampleTest, pointsOnALine) {
  std::vector<std::vector<double>> points = {{0}, {1}, {2}, {3}, {4}, {10}};
  EXPECT_EQ(farthestPoints(points, 1), (std::vector<size_t>{5}));
  EXPECT_EQ(farthestPoints(points, 2), (std::vector<size_t>{0, 5}));
  EXPECT_EQ(farthestPoints(points, 3), (std::vector<size_t>{0, 4, 5}));
}

// Equal points are taken once, whatever the number asked for.
TEST(SampleTest, equalPoints) {
  std::vector<std::vector<double>> points = {{1, 2}, {1, 2}, {3, 2}, {3, 2}};
  EXPECT_EQ(farthestPoints(points, 4).size(), 2u);
  EXPECT_TRUE(farthestPoints({}, 3).empty());
}
