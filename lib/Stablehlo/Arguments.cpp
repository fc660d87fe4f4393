#include "Arguments.h"

#include "Converter.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace kerf;
using namespace mlir;

/// The part before the next `.`, `[` or end; what names may not have becomes
/// `_`.
static std::string plainWord(llvm::StringRef word) {
  std::string text = word.str();
  for (char &c : text)
    if (c == '/')
      c = '.';
    else if (!llvm::isAlnum(c) && c != '_' && c != '-' && c != '.')
      c = '_';
  return text;
}

std::vector<std::string> kerf::partsOf(llvm::StringRef name) {
  std::vector<std::string> parts;
  while (!name.empty()) {
    if (name.consume_front("[")) {
      llvm::StringRef key = name.take_until([](char c) { return c == ']'; });
      name = name.drop_front(std::min(name.size(), key.size() + 1));
      parts.push_back(plainWord(key.trim("'\"")));
      continue;
    }
    name.consume_front(".");
    llvm::StringRef word =
        name.take_until([](char c) { return c == '.' || c == '['; });
    if (word.empty())
      break;
    parts.push_back(plainWord(word));
    name = name.drop_front(word.size());
  }
  return parts;
}

/// The name that JAX gave an argument; empty without one.
static std::string nameOf(BlockArgument argument) {
  std::string found;
  argument.getLoc()->walk([&](Location part) {
    auto name = dyn_cast<NameLoc>(part);
    if (!name)
      return WalkResult::advance();
    found = name.getName().str();
    return WalkResult::interrupt();
  });
  return found;
}

static void readAttributes(DictionaryAttr attributes, Argument &argument) {
  if (auto name = attributes.getAs<StringAttr>("kerf.name")) {
    argument.path = name.str();
    argument.isNamed = true;
  }
  if (auto init = attributes.getAs<StringAttr>("kerf.init"))
    argument.init = init.str();
  argument.isFrozen = attributes.contains("kerf.frozen");
}

static FailureOr<std::vector<Argument>> readArguments(Operation *main) {
  auto attributes = main->getAttrOfType<ArrayAttr>("arg_attrs");
  std::vector<Argument> arguments;
  for (BlockArgument value : main->getRegion(0).getArguments()) {
    std::vector<std::string> parts = partsOf(nameOf(value));
    if (parts.empty()) {
      InFlightDiagnostic error = emitError(value.getLoc())
                                 << "argument " << value.getArgNumber()
                                 << " of the function has no name";
      error.attachNote() << "print it with its locations: "
                         << howToPrintStablehlo();
      return failure();
    }
    Argument argument;
    argument.value = value;
    if (!modelType(value.getType()) && !value.use_empty()) {
      emitError(value.getParentRegion()->getParentOp()->getParentOp()->getLoc())
          << "argument '" << nameOf(value) << "' " << value.getType()
          << " has no shape of known sizes, or no numbers";
      return failure();
    }
    argument.root = parts.front();
    argument.path = llvm::join(llvm::drop_begin(parts), ".");
    if (attributes && value.getArgNumber() < attributes.size())
      readAttributes(cast<DictionaryAttr>(attributes[value.getArgNumber()]),
                     argument);
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

static bool isFloat(const Argument &argument) {
  auto tensor = dyn_cast<RankedTensorType>(argument.value.getType());
  return tensor && isa<FloatType>(tensor.getElementType());
}

/// Leaves of NNX end in `.value`, all of them.
static void dropCommonEnd(std::vector<Argument> &arguments) {
  auto isParameter = [](const Argument &a) { return a.isParameter; };
  bool isCommon = llvm::all_of(arguments, [&](const Argument &a) {
    return !isParameter(a) || llvm::StringRef(a.path).ends_with(".value");
  });
  for (Argument &a : arguments)
    if (isCommon && a.isParameter)
      a.path = llvm::StringRef(a.path).drop_back(6).str();
}

/// The arguments whose leaves are parameters.
static std::vector<std::string> rootsOf(llvm::ArrayRef<Argument> arguments,
                                        const StablehloOptions &options) {
  if (!options.params.empty() || arguments.empty())
    return options.params;
  return {arguments.front().root};
}

/// Parameters are the leaves of one argument, or of those that are asked for;
/// with several their own names stay in front.
static LogicalResult markParameters(std::vector<Argument> &arguments,
                                    const StablehloOptions &options,
                                    Location loc) {
  std::vector<std::string> roots = rootsOf(arguments, options);
  for (const std::string &root : roots)
    if (llvm::none_of(arguments,
                      [&](const Argument &a) { return a.root == root; }))
      return emitError(loc)
             << "--params: the function has no argument '" << root << "'";
  for (Argument &a : arguments) {
    a.isParameter = llvm::is_contained(roots, a.root) && isFloat(a);
    if (a.isParameter && a.path.empty())
      a.path = a.root;
    else if (a.isParameter && !a.isNamed && roots.size() > 1)
      a.path = a.root + "." + a.path;
  }
  dropCommonEnd(arguments);
  std::set<std::string> names;
  for (const Argument &a : arguments)
    if (a.isParameter && !names.insert(a.path).second)
      return emitError(loc) << "two parameters are named '" << a.path << "'";
  return success();
}

static std::string wholeName(const Argument &argument) {
  return argument.path.empty() ? argument.root
                               : argument.root + "." + argument.path;
}

/// The role that a name says; empty for none.
static llvm::StringRef roleByName(llvm::StringRef name) {
  std::string lower = name.lower();
  llvm::StringRef text = lower;
  if (text.contains("target") || text.contains("label"))
    return "targets";
  if (text.contains("segment"))
    return "segments";
  if (text.contains("position"))
    return "positions";
  if (text.contains("token") || text.contains("input"))
    return "tokens";
  return "";
}

/// Roles by `--inputs`: NAME=ROLE.
static LogicalResult rolesAsAsked(llvm::ArrayRef<Argument *> inputs,
                                  const StablehloOptions &options,
                                  Location loc) {
  for (const std::string &entry : options.inputs) {
    auto [name, role] = llvm::StringRef(entry).split('=');
    static const llvm::StringLiteral roles[] = {"tokens", "targets", "segments",
                                                "positions"};
    if (!llvm::is_contained(roles, role))
      return emitError(loc) << "--inputs: expected NAME=tokens, targets, "
                               "segments or positions, found '"
                            << entry << "'";
    auto *it = llvm::find_if(inputs, [&](const Argument *a) {
      return wholeName(*a) == name || a->path == name;
    });
    if (it == inputs.end())
      return emitError(loc) << "--inputs: the function has no argument of "
                               "integers '"
                            << name << "'";
    bool isTaken = !(*it)->role.empty() ||
                   llvm::any_of(inputs, [&, role = role](const Argument *a) {
                     return a->role == role;
                   });
    if (isTaken)
      return emitError(loc)
             << "--inputs: '" << entry << "' gives an argument or a role twice";
    (*it)->role = role.str();
  }
  return success();
}

/// Roles by names; by order where no name says one and there are two at most.
static void rolesByName(llvm::ArrayRef<Argument *> inputs) {
  llvm::StringMap<int> seen;
  for (Argument *a : inputs) {
    llvm::StringRef role = roleByName(a->path.empty() ? a->root : a->path);
    if (!role.empty() && ++seen[role] == 1)
      a->role = role.str();
  }
  if (!seen.empty() || inputs.size() > 2)
    return;
  static const llvm::StringLiteral order[] = {"tokens", "targets"};
  for (auto [a, role] : llvm::zip(inputs, order))
    a->role = role.str();
}

static LogicalResult findInputs(std::vector<Argument> &arguments,
                                const StablehloOptions &options, Location loc) {
  llvm::SmallVector<Argument *> inputs;
  std::vector<std::string> roots = rootsOf(arguments, options);
  for (Argument &a : arguments) {
    if (a.isParameter || a.value.use_empty())
      continue;
    if (llvm::is_contained(roots, a.root) && !isFloat(a))
      return emitError(loc) << "'" << wholeName(a) << "' " << a.value.getType()
                            << " is among the parameters and no float: make it "
                               "a constant of the function, or an input";
    auto type = modelType(a.value.getType());
    if (!type || !type.getElementType().isInteger(32)) {
      InFlightDiagnostic error = emitError(loc);
      error << "argument '" << wholeName(a) << "' " << a.value.getType()
            << " is neither a parameter nor numbers of tokens";
      error.attachNote() << "the leaves of the first argument are parameters; "
                            "--params=NAME,... names others";
      return failure();
    }
    inputs.push_back(&a);
  }
  if (options.inputs.empty())
    rolesByName(inputs);
  else if (failed(rolesAsAsked(inputs, options, loc)))
    return failure();
  for (const Argument *a : inputs)
    if (a->role.empty())
      return emitError(loc)
             << "argument '" << wholeName(*a)
             << "' has no role: --inputs=NAME=ROLE,... says what "
                "each is (tokens, targets, segments, positions)";
  return success();
}

FailureOr<std::vector<Argument>>
kerf::findArguments(Operation *main, const StablehloOptions &options) {
  auto arguments = readArguments(main);
  Location loc = main->getParentOp()->getLoc();
  if (failed(arguments) || failed(markParameters(*arguments, options, loc)) ||
      failed(findInputs(*arguments, options, loc)))
    return failure();
  return arguments;
}
