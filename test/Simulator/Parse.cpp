//===- Parse.cpp - PTX text to statements ---------------------------------===//

#include "Lexer.h"
#include "Ptx.h"

#include <charconv>

using namespace kerf::sim;

uint32_t kerf::sim::typeBytes(std::string_view type) {
  if (type == "pred")
    return 1;
  if (type.ends_with("x2") && type.size() > 2)
    return 4;
  if (type == "bf16")
    return 2;
  if (type.size() < 2 ||
      std::string_view("bsuf").find(type[0]) == std::string_view::npos)
    return 0;
  int bits = 0;
  auto [end, error] =
      std::from_chars(type.data() + 1, type.data() + type.size(), bits);
  bool isSize =
      bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128;
  return error == std::errc() && end == type.data() + type.size() && isSize
             ? bits / 8
             : 0;
}

namespace {
struct RegisterName {
  Width width;
  uint32_t slot;
};

/// Names that a pair of braces declares. A declaration `%r<9>` is kept as the
/// prefix "%r": its registers get a place when they are used.
struct Scope {
  std::map<std::string, RegisterName> registers;
  std::map<std::string, std::pair<Width, uint32_t>> prefixes;
  std::map<std::string, std::string> renamed; ///< variables
};

class Parser {
public:
  explicit Parser(std::string_view text) : lexer(text) {}
  Parsed parse();

private:
  void parseTopLevel();
  void skipTo(const char *word);
  void parseFunction(bool isEntry);
  std::vector<Variable> parseParams();
  Variable parseVariable(Space space);
  void parseInitializer(Variable &variable, uint32_t elementBytes);
  void parseBody();
  void parseBodyItem();
  void parseDirective(const std::string &word);
  void parseRegisters();
  void declare(const std::string &name, Width width);
  void parseLabel(const std::string &name);
  void parseStatement();
  Operand parseOperand();
  Operand parseList(const char *close, Operand::Kind kind);
  Operand parseName();
  const RegisterName *lookUp(const std::string &name);
  int64_t parseOffset();

  Lexer lexer;
  Parsed module;
  Function *function = nullptr;
  std::vector<Scope> scopes;
};
} // namespace

Parsed Parser::parse() {
  while (lexer.peek().kind != Token::End)
    parseTopLevel();
  if (module.version.empty())
    lexer.fail("'.version'");
  return std::move(module);
}

void Parser::skipTo(const char *word) {
  while (!lexer.accept(word)) {
    if (lexer.peek().kind == Token::End)
      lexer.expect(word);
    lexer.take();
  }
}

void Parser::parseTopLevel() {
  if (lexer.accept(".version")) {
    module.version = lexer.take().text;
  } else if (lexer.accept(".target")) {
    module.target = lexer.name("a target");
    while (lexer.accept(","))
      lexer.take();
  } else if (lexer.accept(".address_size")) {
    if (lexer.number().bits != 64)
      lexer.fail("64-bit addresses");
  } else if (lexer.at(".file")) {
    lexer.skipLine();
  } else if (lexer.accept(".section")) {
    skipTo("}");
  } else {
    bool external = false;
    while (lexer.at(".visible") || lexer.at(".weak") || lexer.at(".extern") ||
           lexer.at(".common"))
      external |= lexer.take().text == ".extern";
    std::string word = lexer.name("a directive");
    if (word == ".entry" || word == ".func")
      return parseFunction(word == ".entry");
    if (word != ".global" && word != ".const" && word != ".shared")
      throw Trap{InvalidPtx, "line " + std::to_string(lexer.peek().line) +
                                 ": unknown directive '" + word + "'"};
    module.variables.push_back(
        parseVariable(word == ".shared" ? Space::Shared : Space::Global));
    module.variables.back().external = external;
    lexer.expect(";");
  }
}

/// [.align N] [.ptr ...] .type name[sizes] [= value]
Variable Parser::parseVariable(Space space) {
  Variable variable;
  variable.space = space;
  uint32_t elementBytes = 0, lanes = 1;
  bool aligned = false;
  while (lexer.peek().text.starts_with(".")) {
    std::string word = lexer.name("a type");
    if (word == ".align") {
      variable.align = lexer.number().bits;
      if (!variable.align || variable.align > 4096 ||
          variable.align & (variable.align - 1))
        lexer.fail("a power of two before it");
      aligned = elementBytes == 0; // after .ptr it is that of the memory
    } else if (word == ".v2" || word == ".v4") {
      lanes = word[2] - '0';
    } else if (word == ".attribute") {
      skipTo(")");
    } else if (uint32_t bytes = typeBytes(std::string_view(word).substr(1))) {
      elementBytes = bytes * lanes;
    } else if (word != ".ptr" && word != ".global" && word != ".shared" &&
               word != ".const" && word != ".local") {
      lexer.fail("a type instead of '" + word + "'");
    }
  }
  if (!elementBytes)
    lexer.fail("a type");
  if (!aligned)
    variable.align = elementBytes;
  variable.name = lexer.name("a variable");
  variable.bytes = elementBytes;
  while (lexer.accept("["))
    if (lexer.accept("]")) {
      variable.bytes = 0;
    } else {
      variable.bytes *= lexer.number().bits;
      if (variable.bytes > 1ull << 32)
        lexer.fail("a smaller size before it");
      lexer.expect("]");
    }
  if (lexer.accept("="))
    parseInitializer(variable, elementBytes / lanes);
  return variable;
}

void Parser::parseInitializer(Variable &variable, uint32_t elementBytes) {
  if (lexer.accept("{")) {
    do
      if (!lexer.at("}"))
        parseInitializer(variable, elementBytes);
    while (lexer.accept(","));
    lexer.expect("}");
    return;
  }
  uint64_t value = 0;
  if (lexer.peek().kind == Token::Word) {
    bool generic = lexer.accept("generic");
    if (generic)
      lexer.expect("(");
    variable.pointers.push_back(
        {variable.initial.size(), lexer.name("a variable")});
    value = parseOffset();
    if (generic)
      lexer.expect(")");
  } else {
    value = lexer.number().bits;
  }
  for (uint32_t byte = 0; byte < elementBytes; ++byte)
    variable.initial.push_back(static_cast<uint8_t>(value >> 8 * byte));
  if (variable.initial.size() > variable.bytes)
    lexer.fail("no more values than '" + variable.name + "' has");
}

std::vector<Variable> Parser::parseParams() {
  std::vector<Variable> params;
  if (!lexer.accept("("))
    return params;
  uint64_t offset = 0;
  while (!lexer.accept(")")) {
    lexer.expect(".param");
    Variable param = parseVariable(Space::Param);
    param.offset = (offset + param.align - 1) / param.align * param.align;
    offset = param.offset + param.bytes;
    params.push_back(std::move(param));
    if (!lexer.at(")"))
      lexer.expect(",");
  }
  return params;
}

void Parser::parseFunction(bool isEntry) {
  Function made;
  made.isEntry = isEntry;
  std::vector<Variable> first = parseParams();
  made.name = lexer.name("a function");
  made.results = std::move(first);
  made.params = parseParams();
  while (!lexer.at("{") && !lexer.at(";")) {
    std::string word = lexer.name("'{'");
    uint32_t *sizes = word == ".maxntid"   ? made.maxThreads
                      : word == ".reqntid" ? made.requiredThreads
                      : word == ".maxnreg" ? made.maxRegisters
                                           : nullptr;
    for (int axis = 0; lexer.peek().kind == Token::Number; ++axis) {
      uint64_t value = lexer.number().bits;
      if (sizes && axis < 3)
        sizes[axis] = value;
      if (!lexer.accept(","))
        break;
    }
    for (int axis = 1; sizes && axis < 3; ++axis)
      sizes[axis] = sizes[axis] ? sizes[axis] : 1;
  }
  // A declaration may come before the definition.
  for (Function &known : module.functions)
    if (known.name == made.name)
      function = &known;
  if (!function)
    function = &module.functions.emplace_back();
  if (!function->isDefined)
    *function = std::move(made);
  if (!lexer.accept(";"))
    parseBody();
  function = nullptr;
}

void Parser::parseBody() {
  function->isDefined = true;
  lexer.expect("{");
  scopes.emplace_back();
  while (!scopes.empty())
    parseBodyItem();
}

void Parser::parseBodyItem() {
  if (lexer.accept("{")) {
    scopes.emplace_back();
    return;
  }
  if (lexer.accept("}")) {
    scopes.pop_back();
    return;
  }
  if (lexer.accept(";"))
    return;
  if (lexer.at("@"))
    return parseStatement();
  if (lexer.peek().kind != Token::Word)
    lexer.fail("an instruction");
  if (lexer.peek().text.starts_with("."))
    return parseDirective(lexer.name("a directive"));
  parseStatement();
}

void Parser::parseDirective(const std::string &word) {
  if (word == ".reg")
    return parseRegisters();
  if (word == ".loc" || word == ".pragma")
    return lexer.skipLine();
  if (word != ".local" && word != ".shared" && word != ".param" &&
      word != ".global" && word != ".const")
    lexer.fail("a declaration instead of '" + word + "'");
  Space space = word == ".shared"                       ? Space::Shared
                : word == ".global" || word == ".const" ? Space::Global
                                                        : Space::Local;
  Variable variable = parseVariable(space);
  // Two scopes may use one name: `param0` of two calls.
  std::string unique = function->name + "::" + variable.name +
                       "::" + std::to_string(function->variables.size());
  scopes.back().renamed[variable.name] = unique;
  variable.name = unique;
  (space == Space::Global ? module.variables : function->variables)
      .push_back(std::move(variable));
  lexer.expect(";");
}

void Parser::parseRegisters() {
  std::string type = lexer.name("a type");
  uint32_t bytes = typeBytes(std::string_view(type).substr(1));
  if (!bytes || bytes > 8)
    lexer.fail("a type of registers instead of '" + type + "'");
  Width width = bytes == 8        ? Width::Double
                : bytes == 4      ? Width::Word
                : type == ".pred" ? Width::Predicate
                                  : Width::Half;
  do {
    std::string name = lexer.name("a register");
    if (lexer.accept("<")) {
      scopes.back().prefixes[name] = {width, uint32_t(lexer.number().bits)};
      lexer.expect(">");
    } else {
      declare(name, width);
    }
  } while (lexer.accept(","));
  lexer.expect(";");
}

void Parser::declare(const std::string &name, Width width) {
  RegisterName &made = scopes.back().registers[name];
  made.width = width;
  if (width == Width::Predicate) {
    made.slot = function->predicates++;
    return;
  }
  made.slot = function->registerBytes;
  function->registerBytes += width == Width::Double ? 32 * 8 : 32 * 4;
}

const RegisterName *Parser::lookUp(const std::string &name) {
  size_t digits = name.find_last_not_of("0123456789") + 1;
  std::string prefix = name.substr(0, digits);
  for (size_t level = scopes.size(); level-- > 0;) {
    auto found = scopes[level].registers.find(name);
    if (found != scopes[level].registers.end())
      return &found->second;
    auto range = scopes[level].prefixes.find(prefix);
    if (digits == name.size() || name.size() - digits > 9 ||
        range == scopes[level].prefixes.end() ||
        std::stoul(name.substr(digits)) >= range->second.second)
      continue;
    std::swap(scopes[level], scopes.back()); // declare where the prefix is
    declare(name, range->second.first);
    std::swap(scopes[level], scopes.back());
    return &scopes[level].registers[name];
  }
  return nullptr;
}

void Parser::parseLabel(const std::string &name) {
  if (lexer.accept(".branchtargets")) {
    do
      function->targets[name].push_back(lexer.name("a label"));
    while (lexer.accept(","));
    lexer.expect(";");
    return;
  }
  if (lexer.at(".callprototype"))
    lexer.fail("a direct call (calls through pointers are not simulated)");
  function->labels[name] = function->statements.size();
}

static std::vector<std::string> splitAtDots(const std::string &mnemonic) {
  std::vector<std::string> parts(1);
  for (char c : mnemonic)
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

void Parser::parseStatement() {
  Statement statement;
  if (lexer.accept("@")) {
    statement.guardNegated = lexer.accept("!");
    std::string name = lexer.name("a predicate");
    const RegisterName *guard = lookUp(name);
    if (!guard || guard->width != Width::Predicate)
      lexer.fail("a declared predicate instead of '" + name + "'");
    statement.guard = guard->slot;
  }
  statement.line = lexer.peek().line;
  std::string mnemonic = lexer.name("an instruction");
  if (lexer.accept(":"))
    return parseLabel(mnemonic);
  statement.parts = splitAtDots(mnemonic);
  if (!lexer.at(";"))
    do
      statement.operands.push_back(parseOperand());
    while (lexer.accept(","));
  lexer.expect(";");
  function->statements.push_back(std::move(statement));
}

int64_t Parser::parseOffset() {
  if (lexer.accept("+"))
    return lexer.number().bits;
  return lexer.at("-") ? lexer.number().bits : 0;
}

Operand Parser::parseList(const char *close, Operand::Kind kind) {
  Operand list;
  list.kind = kind;
  while (!lexer.accept(close)) {
    list.items.push_back(parseOperand());
    if (!lexer.at(close))
      lexer.expect(",");
  }
  return list;
}

Operand Parser::parseName() {
  Operand operand;
  std::string name = lexer.name("an operand");
  if (name == "_")
    return operand;
  if (const RegisterName *known = lookUp(name)) {
    operand.kind = Operand::Register;
    operand.width = known->width;
    operand.slot = known->slot;
    operand.name = name;
    return operand;
  }
  operand.kind = name[0] == '%' ? Operand::Special : Operand::Name;
  for (size_t level = scopes.size(); level-- > 0;)
    if (auto found = scopes[level].renamed.find(name);
        found != scopes[level].renamed.end()) {
      name = found->second;
      break;
    }
  operand.name = name;
  return operand;
}

Operand Parser::parseOperand() {
  Operand operand;
  if (lexer.accept("{"))
    return parseList("}", Operand::Vector);
  if (lexer.accept("("))
    return parseList(")", Operand::List);
  if (lexer.accept("[")) {
    operand.kind = Operand::Address;
    if (lexer.peek().kind == Token::Word)
      operand.items.push_back(parseName());
    else
      operand.offset = lexer.number().bits;
    operand.offset += parseOffset();
    lexer.expect("]");
    return operand;
  }
  if (lexer.accept("!")) {
    operand = parseName();
    operand.negated = true;
    return operand;
  }
  if (lexer.peek().kind == Token::Number || lexer.at("-")) {
    Number number = lexer.number();
    operand.kind = Operand::Immediate;
    operand.bits = number.bits;
    operand.isFloat = number.isFloat;
    return operand;
  }
  operand = parseName();
  if (lexer.accept("|"))
    operand.items.push_back(parseName());
  else if (operand.kind == Operand::Name)
    operand.offset = parseOffset();
  return operand;
}

Parsed kerf::sim::parsePtx(std::string_view text) {
  return Parser(text).parse();
}
