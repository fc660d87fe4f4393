//===- Csv.cpp - comma separated values (RFC 4180) ------------------------===//

#include "Rows.h"

using namespace kerf::validate;

namespace {
class CsvReader {
public:
  CsvReader(llvm::StringRef text, std::string &error)
      : text(text), error(error) {}
  std::vector<CsvRecord> read();

private:
  CsvRecord readRecord();
  std::string readField();
  std::string readQuoted();
  bool atBreak() const { return text[at] == '\n' || text[at] == '\r'; }
  void skipBreak();
  void fail(int where, const char *message) {
    error = std::to_string(where) + ": " + message;
  }

  llvm::StringRef text;
  std::string &error;
  size_t at = 0;
  int line = 1;
};
} // namespace

void CsvReader::skipBreak() {
  if (text.substr(at).starts_with("\r\n"))
    ++at;
  ++at;
  ++line;
}

std::string CsvReader::readQuoted() {
  int first = line;
  std::string field;
  for (++at; at < text.size(); ++at) {
    if (text[at] == '"') {
      if (!text.substr(at + 1).starts_with("\"")) {
        ++at;
        if (at < text.size() && text[at] != ',' && !atBreak())
          fail(line, "expected a comma after a closing quote");
        return field;
      }
      ++at;
    } else if (text[at] == '\n') {
      ++line;
    }
    field += text[at];
  }
  fail(first, "this quote is not closed");
  return field;
}

std::string CsvReader::readField() {
  if (at < text.size() && text[at] == '"')
    return readQuoted();
  size_t begin = at;
  while (at < text.size() && text[at] != ',' && !atBreak())
    ++at;
  return text.slice(begin, at).str();
}

CsvRecord CsvReader::readRecord() {
  CsvRecord record;
  record.line = line;
  while (true) {
    record.fields.push_back(readField());
    if (!error.empty() || at >= text.size() || text[at] != ',')
      return record;
    ++at;
  }
}

std::vector<CsvRecord> CsvReader::read() {
  std::vector<CsvRecord> records;
  text.consume_front("\xEF\xBB\xBF");
  while (at < text.size() && error.empty()) {
    if (atBreak()) {
      skipBreak();
      continue;
    }
    records.push_back(readRecord());
  }
  return records;
}

std::vector<CsvRecord> kerf::validate::parseCsv(llvm::StringRef text,
                                                std::string &error) {
  return CsvReader(text, error).read();
}
