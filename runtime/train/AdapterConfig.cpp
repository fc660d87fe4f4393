//===- AdapterConfig.cpp - what saved adapters are ------------------------===//

#include "kerf/Train/AdapterConfig.h"

#include "kerf/Train/Files.h"
#include "kerf/Train/Json.h"
#include "kerf/Train/Text.h"

using namespace kerf::runtime;

/// A member of an adapter's config, in the words of an error.
static std::string describeMember(const JsonValue *value) {
  if (!value)
    return "nothing";
  if (value->kind == JsonValue::Number)
    return format("%.17g", value->number);
  return value->kind == JsonValue::String ? quote(value->string) : "no number";
}

/// Whether a member that changes the formula of adapters does not.
static bool isUnset(const JsonValue *value) {
  return !value || value->kind == JsonValue::Null ||
         (value->kind == JsonValue::Bool && !value->boolean) ||
         (value->kind == JsonValue::Object && value->object.empty());
}

/// Whether saved adapters, whose config is `saved`, mean what those of the
/// model do.
static void compareConfigs(const std::string &path, const JsonValue &saved,
                           const JsonValue &model,
                           std::vector<std::string> &errors) {
  for (const char *key : {"r", "lora_alpha"}) {
    const JsonValue *found = saved.find(key), *own = model.find(key);
    if (!found || !own || found->kind != JsonValue::Number ||
        own->kind != JsonValue::Number || found->number != own->number)
      errors.push_back(quote(path) + ": the model expects " + quote(key) +
                       " of " + describeMember(own) + ", found " +
                       describeMember(found));
  }
  for (const char *key :
       {"use_rslora", "use_dora", "rank_pattern", "alpha_pattern"})
    if (!isUnset(saved.find(key)))
      errors.push_back(quote(path) + ": " + quote(key) +
                       " is set, which the model's adapters cannot follow");
}

bool kerf::runtime::matchAdapterConfig(const std::string &path,
                                       std::string_view model,
                                       std::vector<std::string> &errors) {
  MappedFile text;
  JsonValue saved, own;
  std::string error;
  if (!text.open(path, error))
    errors.push_back(error);
  else if (!parseJson(
               {reinterpret_cast<const char *>(text.data()), text.size()},
               saved, error))
    errors.push_back(quote(path) + ": " + error);
  else if (!parseJson(model, own, error))
    errors.push_back("adapters of the compiled model: " + error);
  else
    compareConfigs(path, saved, own, errors);
  return errors.empty();
}
