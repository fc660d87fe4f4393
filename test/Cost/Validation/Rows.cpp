//===- Rows.cpp - from CSV files to rows ----------------------------------===//

#include "Rows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <cmath>
#include <set>

using namespace kerf::validate;

std::string Row::place() const { return file + ":" + std::to_string(line); }

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

namespace {
/// A column and the field of `Row` that takes it; all pointers null: required,
/// not used.
struct Column {
  llvm::StringLiteral name;
  std::string Row::*text = nullptr;
  std::optional<int64_t> Row::*integer = nullptr;
  std::optional<double> Row::*real = nullptr;
  std::optional<bool> Row::*flag = nullptr;
};
} // namespace

static Column textColumn(llvm::StringLiteral name, std::string Row::*field) {
  return {name, field};
}
static Column integerColumn(llvm::StringLiteral name,
                            std::optional<int64_t> Row::*field) {
  return {name, nullptr, field};
}
static Column realColumn(llvm::StringLiteral name,
                         std::optional<double> Row::*field) {
  return {name, nullptr, nullptr, field};
}
static Column flagColumn(llvm::StringLiteral name,
                         std::optional<bool> Row::*field) {
  return {name, nullptr, nullptr, nullptr, field};
}

static const Column kColumns[] = {
    textColumn("source", &Row::source),
    textColumn("table_or_url", &Row::table),
    textColumn("model_name", &Row::modelName),
    integerColumn("n_layers", &Row::layers),
    integerColumn("hidden", &Row::hidden),
    integerColumn("n_heads", &Row::heads),
    integerColumn("n_kv_heads", &Row::kvHeads),
    integerColumn("ffn_hidden", &Row::ffn),
    textColumn("ffn_kind", &Row::ffnKind),
    integerColumn("vocab", &Row::vocab),
    integerColumn("seq_len", &Row::sequence),
    integerColumn("experts", &Row::experts),
    integerColumn("top_k", &Row::topK),
    textColumn("device", &Row::device),
    integerColumn("n_devices", &Row::devices),
    integerColumn("devices_per_node", &Row::devicesPerNode),
    realColumn("intra_node_bw_GBps", &Row::intraNode),
    realColumn("inter_node_bw_GBps_per_gpu", &Row::interNode),
    textColumn("precision", &Row::precision),
    integerColumn("tp", &Row::tp),
    integerColumn("pp", &Row::pp),
    integerColumn("dp", &Row::dp),
    integerColumn("cp", &Row::cp),
    integerColumn("ep", &Row::ep),
    flagColumn("sp", &Row::sequenceParallel),
    integerColumn("zero_stage", &Row::zero),
    textColumn("schedule", &Row::schedule),
    integerColumn("virtual_stages", &Row::chunks),
    integerColumn("micro_batch", &Row::microBatch),
    integerColumn("global_batch", &Row::globalBatch),
    textColumn("recompute", &Row::recompute),
    flagColumn("flash_attention", &Row::flash),
    realColumn("measured_step_time_s", &Row::stepSec),
    realColumn("measured_tokens_per_s_per_gpu", &Row::tokensPerSec),
    realColumn("measured_tflops_per_gpu", &Row::teraflops),
    realColumn("measured_mfu", &Row::mfu),
    realColumn("measured_memory_GB", &Row::memoryGb),
    textColumn("flops_formula_used", &Row::formula),
    textColumn("notes", &Row::notes),
    textColumn("status", &Row::status),
    integerColumn("complete", &Row::complete),
    textColumn("phase", &Row::phase),
};

/// What is wrong with `text` as the value of `column`, "" if nothing is.
static std::string setField(Row &row, const Column &column,
                            llvm::StringRef text) {
  text = text.trim();
  auto wrong = [&](llvm::StringRef expected) {
    return ("expected " + expected + " in column '" + column.name +
            "', found '" + text.take_front(40) + "'")
        .str();
  };
  if (column.text) {
    row.*column.text = text.str();
    return "";
  }
  if (text.empty())
    return "";
  if (column.flag) {
    if (text != "true" && text != "false")
      return wrong("true or false");
    row.*column.flag = text == "true";
    return "";
  }
  double value = 0;
  // getAsDouble returns true on failure.
  if (text.getAsDouble(value) || !std::isfinite(value) || value < 0)
    return wrong("a number of at least 0");
  if (column.real) {
    row.*column.real = value;
    return "";
  }
  if (value != std::floor(value) || value > 1e15)
    return wrong("a whole number");
  row.*column.integer = static_cast<int64_t>(value);
  return "";
}

/// Position of each of `kColumns` in the header; empty when it has another kind
/// or lacks a column.
static std::vector<size_t> placeColumns(const CsvRecord &header,
                                        llvm::StringRef path, bool &isOther,
                                        std::vector<std::string> &errors) {
  std::vector<size_t> places;
  std::vector<std::string> missing;
  for (const Column &column : kColumns) {
    auto place = llvm::find(header.fields, column.name.str());
    if (place == header.fields.end())
      missing.push_back("'" + column.name.str() + "'");
    else
      places.push_back(place - header.fields.begin());
  }
  isOther = missing.size() * 2 > std::size(kColumns);
  if (missing.empty())
    return places;
  if (!isOther)
    errors.push_back((path + ":" + llvm::Twine(header.line) +
                      ": missing column " + llvm::join(missing, ", "))
                         .str());
  return {};
}

std::vector<Row> kerf::validate::parseRows(llvm::StringRef text,
                                           llvm::StringRef path, bool &isOther,
                                           std::vector<std::string> &errors) {
  std::vector<Row> rows;
  std::string error;
  isOther = false;
  std::vector<CsvRecord> records = parseCsv(text, error);
  if (!error.empty()) {
    errors.push_back((path + ":" + error).str());
    return rows;
  }
  if (records.empty()) {
    errors.push_back((path + ":1: expected a header, found nothing").str());
    return rows;
  }
  std::vector<size_t> places =
      placeColumns(records.front(), path, isOther, errors);
  if (places.empty())
    return rows;
  for (const CsvRecord &record : llvm::drop_begin(records)) {
    auto report = [&](const llvm::Twine &message) {
      errors.push_back(
          (path + ":" + llvm::Twine(record.line) + ": " + message).str());
    };
    if (record.fields.size() != records.front().fields.size()) {
      report("expected " + llvm::Twine(records.front().fields.size()) +
             " fields as in the header, found " +
             llvm::Twine(record.fields.size()));
      continue;
    }
    Row row;
    row.file = llvm::sys::path::filename(path).str();
    row.line = record.line;
    for (auto [column, place] : llvm::zip(kColumns, places)) {
      std::string wrong = setField(row, column, record.fields[place]);
      if (!wrong.empty())
        report(wrong);
    }
    int64_t others =
        row.tp.value_or(0) * row.pp.value_or(0) * row.cp.value_or(1);
    if (!row.dp && row.devices && others > 0 && *row.devices % others == 0)
      row.dp = *row.devices / others;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> kerf::validate::readRows(llvm::StringRef folder,
                                          std::vector<std::string> &skipped,
                                          std::vector<std::string> &errors) {
  std::error_code error;
  std::set<std::string> paths;
  for (llvm::sys::fs::directory_iterator entry(folder, error), end;
       !error && entry != end; entry.increment(error))
    if (llvm::sys::path::extension(entry->path()) == ".csv")
      paths.insert(entry->path());
  std::vector<Row> rows;
  if (error) {
    errors.push_back(
        ("cannot read folder '" + folder + "': " + error.message()).str());
    return rows;
  }
  for (const std::string &path : paths) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer) {
      errors.push_back(path + ":1: " + buffer.getError().message());
      continue;
    }
    bool isOther = false;
    llvm::append_range(
        rows, parseRows((*buffer)->getBuffer(), path, isOther, errors));
    if (isOther)
      skipped.push_back(llvm::sys::path::filename(path).str());
  }
  if (rows.empty() && errors.empty())
    errors.push_back(("folder '" + folder + "' holds no measurements").str());
  return rows;
}

//===----------------------------------------------------------------------===//
// Measurements
//===----------------------------------------------------------------------===//

bool kerf::validate::isFloat8(const Row &row) {
  return llvm::StringRef(row.precision).starts_with("fp8");
}

bool kerf::validate::hasLatents(const Row &row) {
  return llvm::StringRef(row.notes).contains("MLA");
}

double kerf::validate::parametersOf(const Row &row) {
  double h = row.hidden.value_or(0), v = row.vocab.value_or(0);
  double heads = row.heads.value_or(1);
  double kv = row.kvHeads.value_or(row.heads.value_or(1));
  bool isGated = llvm::StringRef(row.ffnKind).contains("glu");
  double mlp = (isGated ? 3 : 2) * h * row.ffn.value_or(0);
  double attention = h * h * (2 + 2 * kv / heads);
  return v * h +
         row.layers.value_or(0) * (attention + mlp * row.experts.value_or(1));
}

/// Per step: attention's matmuls of scores, forward once, nothing masked.
static double scoreFlops(const Row &row) {
  double tokens = double(*row.globalBatch) * *row.sequence;
  return 4 * tokens * *row.layers * *row.hidden * *row.sequence;
}

std::optional<double> kerf::validate::flopsOfFormula(const Row &row) {
  if (!row.layers || !row.hidden || !row.vocab || !row.sequence ||
      !row.globalBatch)
    return std::nullopt;
  llvm::StringRef formula = row.formula;
  double l = *row.layers, h = *row.hidden, s = *row.sequence;
  double tokens = double(*row.globalBatch) * s;
  if (formula.contains("96"))
    return 96 * tokens * l * h * h *
           (1 + s / (6 * h) + *row.vocab / (16 * l * h));
  if (formula.contains("72"))
    return 72 * tokens * l * h * h *
           (1 + s / (6 * h) + *row.vocab / (12 * l * h));
  // Of the experts those that a token meets, of the scores those below the
  // diagonal. Latent attention has other sizes than these columns say.
  if (formula.contains("P_active")) {
    if (hasLatents(row))
      return std::nullopt;
    Row met = row;
    met.experts = row.experts ? row.topK.value_or(1) : 1;
    return 6 * tokens * parametersOf(met) + 1.5 * scoreFlops(row);
  }
  if (formula.contains("6*") || formula.contains("Korthikanti")) {
    double head = row.vocab.value_or(0) * h;
    return 6 * tokens * (parametersOf(row) - *row.vocab * h + head) +
           3 * scoreFlops(row);
  }
  return std::nullopt;
}

std::optional<double> kerf::validate::measuredStepSec(const Row &row,
                                                      double peak) {
  if (row.stepSec && *row.stepSec > 0)
    return row.stepSec;
  double devices = row.devices.value_or(0);
  if (row.tokensPerSec && *row.tokensPerSec > 0 && devices > 0 &&
      row.globalBatch && row.sequence)
    return double(*row.globalBatch) * *row.sequence /
           (*row.tokensPerSec * devices);
  std::optional<double> flops = flopsOfFormula(row);
  double rate = row.teraflops.value_or(0) * 1e12;
  if (rate == 0)
    rate = row.mfu.value_or(0) * peak;
  if (flops && rate > 0 && devices > 0)
    return *flops / (rate * devices);
  return std::nullopt;
}

int64_t kerf::validate::microBatchesOf(const Row &row) {
  int64_t perRound = row.microBatch.value_or(0) * row.dp.value_or(0);
  if (perRound <= 0 || row.globalBatch.value_or(0) % perRound != 0)
    return 0;
  return *row.globalBatch / perRound;
}
