#include "ConfigReader.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

ConfigReader::ConfigReader(const json::Value &object, llvm::StringRef fileName,
                           MLIRContext *context, llvm::ArrayRef<Field> fields,
                           llvm::StringRef title, llvm::StringRef prefix)
    : object(object), fileName(fileName), context(context), fields(fields),
      title(title), prefix(prefix) {}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

Location ConfigReader::locationOf(json::Position position) const {
  return FileLineColLoc::get(context, fileName, position.line, position.column);
}

Location ConfigReader::locationOf(llvm::StringRef name) const {
  const json::Value *value = find(name);
  return locationOf(value ? value->position : object.position);
}

InFlightDiagnostic ConfigReader::error(llvm::StringRef name) {
  hasFailed = true;
  return emitError(locationOf(name));
}

InFlightDiagnostic ConfigReader::valueError(llvm::StringRef name) {
  InFlightDiagnostic diagnostic = error(name);
  if (!find(name))
    diagnostic.attachNote()
        << "field " << quoted(name) << " is not given, its default counts";
  return diagnostic;
}

InFlightDiagnostic ConfigReader::errorAt(const json::Value &entry,
                                         llvm::StringRef name,
                                         const llvm::Twine &expected) {
  hasFailed = true;
  return emitError(locationOf(entry.position))
         << "field " << quoted(name) << ": expected " << expected << ", found "
         << describe(entry);
}

InFlightDiagnostic ConfigReader::warning(llvm::StringRef name) {
  return emitWarning(locationOf(name));
}

std::string ConfigReader::quoted(llvm::StringRef name) const {
  return "'" + (prefix + name).str() + "'";
}

std::string ConfigReader::describe(const json::Value &value) {
  switch (value.kind) {
  case json::Kind::Null:
  case json::Kind::Bool:
  case json::Kind::Number:
    return json::print(value);
  case json::Kind::String:
    return json::quote(value.string);
  case json::Kind::Array:
  case json::Kind::Object:
    break;
  }
  return json::describeKind(value.kind).str();
}

std::string ConfigReader::describe(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  return json::print(json::Value::fromNumber(value));
}

InFlightDiagnostic ConfigReader::mismatch(llvm::StringRef name,
                                          const llvm::Twine &expected,
                                          const json::Value &found) {
  return error(name) << "field " << quoted(name) << ": expected " << expected
                     << ", found " << describe(found);
}

//===----------------------------------------------------------------------===//
// Known fields
//===----------------------------------------------------------------------===//

/// Whether `value` is the one that the JSON text `literal` denotes.
static bool isLiteral(const json::Value &value, llvm::StringRef literal) {
  double number;
  if (value.kind == json::Kind::Number)
    return llvm::to_float(literal, number) && value.number == number;
  json::PrintOptions oneLine;
  oneLine.indent = 0;
  return json::print(value, oneLine) == literal;
}

void ConfigReader::checkFixed(const json::Member &member, const Field &field) {
  llvm::SmallVector<llvm::StringRef> accepted;
  field.accepted.split(accepted, ' ');
  for (llvm::StringRef literal : accepted)
    if (isLiteral(member.value, literal))
      return;
  InFlightDiagnostic diagnostic = error(field.name);
  diagnostic << "unsupported field " << quoted(field.name) << ": expected "
             << llvm::join(accepted, " or ") << ", found "
             << describe(member.value);
  diagnostic.attachNote() << "the field " << field.text;
}

void ConfigReader::reportUnknown(const json::Member &member) {
  hasFailed = true;
  InFlightDiagnostic diagnostic = emitError(locationOf(member.keyPosition));
  diagnostic << "unknown field " << json::quote((prefix + member.key).str())
             << " of a " << title;
  llvm::StringRef nearest = nearestName(fields, member.key);
  if (!nearest.empty())
    diagnostic.attachNote() << "did you mean '" << prefix << nearest << "'?";
  else
    diagnostic.attachNote() << "remove it if it does not change the "
                               "computation";
}

void ConfigReader::checkFields() {
  for (const json::Member &member : object.object) {
    const Field *field = findField(fields, member.key);
    if (!field) {
      reportUnknown(member);
      continue;
    }
    if (field->use == FieldUse::Fixed)
      checkFixed(member, *field);
    const json::Value *other =
        member.key == field->alias ? object.find(field->name) : nullptr;
    if (!other || json::print(*other) == json::print(member.value))
      continue;
    hasFailed = true;
    InFlightDiagnostic diagnostic =
        emitError(locationOf(member.value.position));
    diagnostic << "field " << quoted(field->alias) << " contradicts field "
               << quoted(field->name);
    diagnostic.attachNote(locationOf(other->position)) << "given here";
  }
}

const json::Value *ConfigReader::find(llvm::StringRef name) const {
  if (const json::Value *value = object.find(name))
    return value;
  const Field *field = findField(fields, name);
  return field && !field->alias.empty() ? object.find(field->alias) : nullptr;
}

const json::Value *ConfigReader::findNonNull(llvm::StringRef name) const {
  const json::Value *value = find(name);
  return value && value->kind != json::Kind::Null ? value : nullptr;
}

//===----------------------------------------------------------------------===//
// Types and ranges
//===----------------------------------------------------------------------===//

int64_t ConfigReader::integer(llvm::StringRef name, int64_t absent,
                              IntegerRange range) {
  const json::Value *value = find(name);
  if (!value)
    return absent;
  if (value->kind == json::Kind::Number && value->isInteger &&
      value->integer >= range.min && value->integer <= range.max)
    return value->integer;
  mismatch(name,
           "an integer from " + llvm::Twine(range.min) + " to " +
               llvm::Twine(range.max),
           *value);
  return absent;
}

std::optional<int64_t> ConfigReader::optionalInteger(
    llvm::StringRef name, std::optional<int64_t> absent, IntegerRange range) {
  const json::Value *value = find(name);
  if (!value)
    return absent;
  if (value->kind == json::Kind::Null)
    return std::nullopt;
  return integer(name, absent.value_or(range.min), range);
}

static std::string describeRange(RealRange range) {
  std::string text = range.isMinExcluded ? "a number > " : "a number >= ";
  text += ConfigReader::describe(range.min);
  if (std::isfinite(range.end))
    text += " and < " + ConfigReader::describe(range.end);
  return text;
}

double ConfigReader::real(llvm::StringRef name, double absent,
                          RealRange range) {
  const json::Value *value = find(name);
  if (!value)
    return absent;
  if (value->kind == json::Kind::Number && value->number < range.end &&
      (range.isMinExcluded ? value->number > range.min
                           : value->number >= range.min))
    return value->number;
  mismatch(name, describeRange(range), *value);
  return absent;
}

bool ConfigReader::boolean(llvm::StringRef name, bool absent) {
  const json::Value *value = find(name);
  if (!value)
    return absent;
  if (value->kind == json::Kind::Bool)
    return value->boolean;
  mismatch(name, "true or false", *value);
  return absent;
}

std::string ConfigReader::string(llvm::StringRef name, llvm::StringRef absent) {
  const json::Value *value = find(name);
  if (!value)
    return absent.str();
  if (value->kind == json::Kind::String)
    return value->string;
  mismatch(name, "a string", *value);
  return absent.str();
}

llvm::ArrayRef<json::Value> ConfigReader::list(llvm::StringRef name) {
  const json::Value *value = findNonNull(name);
  if (!value)
    return {};
  if (value->kind == json::Kind::Array)
    return value->array;
  mismatch(name, "an array or null", *value);
  return {};
}
