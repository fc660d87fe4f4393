"""Compares Kerf's declarations of NVIDIA's libraries with NVIDIA's own.

  vendor_headers.py SOURCE [--cxx COMPILER] [--nm NM] [--keep PREFIX] [FOLDER ...]

SOURCE is the root of Kerf's sources. A FOLDER has an `include` and a `lib`, or is a `site-packages` with wheels of
NVIDIA; several are compared one by one. Without any: $CUDA_HOME, /usr/local/cuda*, and the wheels of $VIRTUAL_ENV.
Not looked at: headers that a distribution's packages put into /usr/include, and any of a CUDA before 12.0.

Nothing is listed here twice: what to compare is read from the headers of runtime/devices/cuda, from the transport
nccl and from test/Simulator. Of each FOLDER

- every number and the fields of every structure are compared, and the type of every function, down to what its
  pointers point to, by a C++ file that the compiler only checks;
- every function that is looked up by name must be exported by the library.

Exit status: 0: all that was compared agrees, 1: something differs or cannot be read (it is named), 77: no header
could be compared.
"""

import argparse
import collections
import glob
import os
import re
import subprocess
import sys

SKIPPED = 77
OLDEST = 12000  # CUDA_VERSION of the first that is supported

# ---- Reading our declarations ---------------------------------------------------------------------------------

# namespace: of ours; macro: X-macro of functions -> their result where the macro does not name it
Part = collections.namedtuple("Part", "title header library namespace file macros")
PARTS = [
    Part("driver", "cuda.h", "libcuda.so", "kerf::cuda", "runtime/devices/cuda/Driver.h",
         {"KERF_CUDA_DRIVER": "CUresult"}),
    Part("cuBLASLt", "cublasLt.h", "libcublasLt.so.*", "kerf::cuda", "runtime/devices/cuda/CublasLt.h",
         {"KERF_CUDA_CUBLASLT": None}),
    Part("cuDNN", "cudnn.h", "libcudnn.so.*", "kerf::cuda", "runtime/devices/cuda/Cudnn.h",
         {"KERF_CUDA_CUDNN": None}),
    Part("NCCL", "nccl.h", "libnccl.so.*", "kerf::runtime::nccl", "runtime/transport/nccl/Nccl.h",
         {"KERF_NCCL": None}),
]
# The driver as the transport nccl calls it, with `int` for its enumerations.
TRANSPORT = ("runtime/transport/nccl/Open.cpp", "KERF_NCCL_GPU", "int")
STAND_INS = {"driver": "test/Simulator/driver/Api.h", "cuBLASLt": "test/Simulator/blas/Api.h"}
# Where more may be declared, or looked up by name alone.
SEARCHED = ["runtime", "test/Codegen"]

# Ours that has another name there.
TYPES = {"CUDA_MEMCPY2D": "CUDA_MEMCPY2D_v2", "Result": "ncclResult_t", "DataType": "ncclDataType_t",
         "Reduction": "ncclRedOp_t", "UniqueId": "ncclUniqueId", "Config": "ncclConfig_t",
         "cublasLtMatmulDescOpaque": "cublasLtMatmulDescOpaque_t",
         "cublasLtMatrixLayoutOpaque": "cublasLtMatrixLayoutOpaque_t",
         "cublasLtMatmulPreferenceOpaque": "cublasLtMatmulPreferenceOpaque_t"}
# None: one of ours that fills a gap of theirs.
FIELDS = {"UniqueId": {"bytes": "internal"}, "Config": {"minCtas": "minCTAs", "maxCtas": "maxCTAs", "unused": None}}
NUMBERS = {"kNoColor": "NCCL_SPLIT_NOCOLOR"}
# Structures of our own.
OURS = {"Driver", "CublasLt", "Cudnn", "Entry", "Pitched"}
# Grows from version to version; its first field tells which one it is.
GROWING = {"Config"}
# What a version must be to have a number, by a part of its name.
LATER = {"DEVICEPROP": "CUDNN_VERSION >= 90800"}
# The room for all of a kind; that of a newer version suffices.
BOUNDS = {"CUDNN_NUMERICAL_NOTE_TYPE_COUNT"}

Function = collections.namedtuple("Function", "name result arguments")


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def enums_of(text):
    """Their names and the names of their numbers."""
    found = re.findall(r"\benum (\w+) : int \{(.*?)\}", text, flags=re.S)
    return {name: re.findall(r"\b([A-Za-z_]\w*)\s*=", body) for name, body in found}


def constants_of(text):
    """Numbers outside of enumerations: those with a name of NVIDIA's, or of ours for one."""
    return re.findall(r"^constexpr (?:unsigned|int) ((?:CU|k)\w+) =", text, flags=re.M)


def structs_of(text):
    """The names of the fields of each structure, in order."""
    structs = {}
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, flags=re.S | re.M):
        if name in OURS:
            continue
        fields = []
        for declaration in body.split(";"):
            for part in declaration.split(","):
                names = re.findall(r"\w+", re.sub(r"=.*|\[\w+\]", "", part, flags=re.S))
                fields += names[-1:]
        structs[name] = fields
    return structs


def handles_of(text):
    """Types of which only pointers are known: (structure, pointer type)."""
    return re.findall(r"^typedef struct (\w+) \*(\w+);", text, flags=re.M)


def split_arguments(text):
    """What the commas outside of brackets divide."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [" ".join(part.split()) for part in parts + [text[start:]]]


def functions_of(text, macro, result):
    """The functions that an X-macro lists."""
    body = re.search(rf"#define {macro}\(X\)((?:[^\n]*\\\n)*[^\n]*)", text).group(1).replace("\\\n", " ")
    functions, at = [], body.find("X(")
    while at >= 0:
        depth, end = 1, at + 2
        while depth:
            depth += (body[end] == "(") - (body[end] == ")")
            end += 1
        parts = split_arguments(body[at + 2:end - 1])
        name = next(part for part in parts if re.fullmatch(r"(cu|nccl)[A-Z]\w*|(cublasLt|cudnn)[A-Z]\w*", part))
        own = [part for part in parts[:-1] if part != name]
        given = own[1] if parts[1] == name and len(own) > 1 else own[0]
        functions.append(Function(name, result or given, parts[-1]))
        at = body.find("X(", end)
    return functions


def numbers_of_stand_in(text):
    """The numbers that a stand-in's header defines: (name, value)."""
    return re.findall(r"^#define ((?:CU|CUBLAS|CUBLASLT|CUDA)_\w+) (\d+|\([\d |]+\))$", text, flags=re.M)


# ---- The C++ file ---------------------------------------------------------------------------------------------

# What it means that two types are alike: the same down to the names of structures and enumerations.
ALIKE = r"""
template <class Ours, class Theirs> constexpr bool named = std::is_same_v<Ours, Theirs>;
template <class Ours, class Theirs> struct Alike {
  static constexpr bool number = std::is_arithmetic_v<Ours> && std::is_arithmetic_v<Theirs> &&
      std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs> &&
      std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
  static constexpr bool plain = std::is_same_v<Ours, int> && std::is_enum_v<Theirs>;
  static constexpr bool sized() {
    if constexpr (number || plain) return sizeof(Ours) == sizeof(Theirs);
    return false;
  }
  static constexpr bool value = named<Ours, Theirs> || sized();
};
template <class Ours, class Theirs> struct Alike<Ours *, Theirs *> : Alike<Ours, Theirs> {};
template <class Ours, class Theirs> struct Alike<const Ours, const Theirs> : Alike<Ours, Theirs> {};
template <class Ours, class Theirs, size_t n> struct Alike<Ours[n], Theirs[n]> : Alike<Ours, Theirs> {};
template <class Ours, class Theirs> struct SameFunction : std::false_type {};
template <class R, class... P, class S, class... Q> requires(sizeof...(P) == sizeof...(Q))
struct SameFunction<R(P...), S(Q...)>
    : std::bool_constant<Alike<R, S>::value && (Alike<P, Q>::value && ...)> {};
"""


class Check:
    """Collects the C++ text that compares one part, and counts what it has."""

    def __init__(self, source, part):
        self.part, self.lines, self.counts, self.symbols = part, [], collections.Counter(), []
        self.before = []  # what is said before NVIDIA's names are known: some are macros
        text, transport = (without_comments(read(source, file)) for file in (part.file, TRANSPORT[0]))
        self.add_names(text)
        self.add_numbers(text)
        self.add_structs(text)
        for macro, result in part.macros.items():
            holder = transport if part.title == "NCCL" else text
            self.add_functions(functions_of(holder, macro, result), part.namespace)
        if part.title == "driver":
            self.add_functions(functions_of(transport, *TRANSPORT[1:]), "kerf::runtime::nccl")
        if part.title in STAND_INS:
            self.add_stand_in(read(source, STAND_INS[part.title]))

    def expect(self, kind, condition, what):
        self.counts[kind] += 1
        self.lines.append(f'static_assert({condition}, "{self.part.title}: {what}");')

    def own(self, name):
        return f"{self.part.namespace}::{name}"

    def add_names(self, text):
        pairs = [(name, TYPES.get(name, name)) for name in [*enums_of(text), *structs_of(text)]]
        pairs += [(name, TYPES.get(name, name)) for name, _ in handles_of(text)]
        for ours, theirs in pairs:
            self.lines.append(f"template <> constexpr bool named<{self.own(ours)}, ::{theirs}> = true;")

    def add_numbers(self, text):
        scoped = [name for names in enums_of(text).values() for name in names] + constants_of(text)
        for name in scoped:
            theirs = NUMBERS.get(name, "nccl" + name[1:] if name[0] == "k" else name)
            relation = ">=" if name in BOUNDS else "=="
            since = next((LATER[part] for part in LATER if part in name), None)
            self.lines += [f"#if {since}"] if since else []
            self.before.append(f"constexpr long long our_{name} = {self.own(name)};")
            self.expect("numbers", f"our_{name} {relation} (long long)({theirs})", name)
            self.lines += ["#endif"] if since else []

    def add_structs(self, text):
        for name, fields in structs_of(text).items():
            ours, theirs = self.own(name), "::" + TYPES.get(name, name)
            size = "<=" if name in GROWING else "=="
            self.expect("structures", f"sizeof({ours}) {size} sizeof({theirs})", f"size of {name}")
            for field in fields:
                other = FIELDS.get(name, {}).get(field, field)
                if not other:
                    continue
                self.expect("fields", f"offsetof({ours}, {field}) == offsetof({theirs}, {other}) && "
                            f"Alike<decltype({ours}::{field}), decltype({theirs}::{other})>::value",
                            f"{name}.{field}")
            if name in GROWING:
                self.add_defaults(name, fields)

    def add_defaults(self, name, fields):
        """Fields that we leave undefined must say so as NVIDIA's initializer does."""
        self.lines.append(f"constexpr {self.own(name)} ourDefault{{}};")
        self.lines.append(f"constexpr ::{TYPES[name]} theirDefault = NCCL_CONFIG_INITIALIZER;")
        for field in set(fields) - {"size", "version", "blocking"}:
            other = FIELDS[name].get(field, field)
            theirs = f"theirDefault.{other}" if other else "NCCL_CONFIG_UNDEF_INT"
            self.expect("numbers", f"ourDefault.{field} == {theirs}", f"default of {name}.{field}")

    def add_functions(self, functions, namespace):
        for function in functions:
            self.symbols.append(function.name)
            own = f"Our{self.counts['functions']}_{function.name}"
            self.lines.append(f"namespace {namespace} {{ using {own} = {function.result}{function.arguments}; }}")
            self.expect("functions", f"SameFunction<{namespace}::{own}, decltype(::{function.name})>::value",
                        f"parameters of {function.name}")

    def add_stand_in(self, text):
        for name, value in numbers_of_stand_in(text):
            self.expect("stand-in's", f"(long long)({name}) == {value}", f"{name} of the stand-in")


def read(source, file):
    with open(os.path.join(source, file)) as opened:
        return opened.read()


# ---- Comparing ------------------------------------------------------------------------------------------------


class Folder:
    """NVIDIA's headers and libraries in one place."""

    def __init__(self, path):
        self.path = path
        places = [path, *glob.glob(f"{path}/nvidia/*")]
        self.includes = [place for place in (f"{p}/include" for p in places) if os.path.isdir(place)]
        self.libraries = [f"{p}/{lib}" for p in places for lib in ("lib64", "lib", "lib64/stubs", "lib/stubs")]

    def header(self, name):
        found = [f"{place}/{name}" for place in self.includes if os.path.isfile(f"{place}/{name}")]
        return found[0] if found else None

    def cuda_version(self):
        """What its cuda.h defines as CUDA_VERSION, None without one."""
        header = self.header("cuda.h")
        if not header:
            return None
        with open(header, errors="replace") as opened:
            found = re.search(r"^\s*#\s*define\s+CUDA_VERSION\s+(\d+)", opened.read(), flags=re.M)
        return int(found.group(1)) if found else None

    def library(self, pattern):
        found = [file for place in self.libraries for file in sorted(glob.glob(f"{place}/{pattern}"))]
        return found[0] if found else None


def default_folders():
    folders = [os.environ.get("CUDA_HOME", ""), *sorted(glob.glob("/usr/local/cuda*"))]
    if environment := os.environ.get("VIRTUAL_ENV"):
        folders += glob.glob(f"{environment}/lib/python3*/site-packages")
    distinct = {os.path.realpath(folder): folder for folder in folders if folder}
    return [folder for folder in map(Folder, distinct.values()) if any(folder.header(part.header) for part in PARTS)]


def source_of(check):
    # Ours first: structures that are only named are then those of our namespaces.
    lines = [f'#include "{os.path.basename(part.file)}"' for part in PARTS]
    lines += check.before
    # Functions by the names that are exported.
    lines += ["#define __CUDA_API_VERSION_INTERNAL", f"#include <{check.part.header}>"]
    lines += ["#include <cstddef>", "#include <type_traits>", ALIKE]
    if check.part.title != "driver":
        lines += ["struct CUstream_st;",
                  "template <> constexpr bool named<kerf::cuda::CUstream_st, ::CUstream_st> = true;"]
    return "\n".join(lines + check.lines) + "\n"


def compile_check(options, folder, check):
    """The compiler's complaints about one part, [] when all agrees, None when it cannot be compared."""
    text = source_of(check)
    if options.keep:
        with open(f"{options.keep}{check.part.title}.cpp", "w") as kept:
            kept.write(text)
    ours = ["runtime/devices/cuda", "runtime/transport/nccl", "runtime/core", "runtime/include", "include"]
    command = [options.cxx, "-std=c++20", "-fsyntax-only", "-w", "-x", "c++", "-"]
    for place in ours:
        command.append(f"-I{options.source}/{place}")
    for place in folder.includes:
        command += ["-isystem", place]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if "error:" in line]
    # Wheels that are only for running lack headers that others of them include.
    incomplete = [line for line in complaints if re.search("file not found|No such file", line)
                  and line.startswith(tuple(folder.includes))]
    if incomplete:
        print(f"  {check.part.title}: numbers and types are not compared: {incomplete[0]}")
        return None
    return complaints if done.returncode == 0 or complaints else [done.stderr.strip() or "the compiler failed"]


def texts_of(source):
    """The C++ files that may declare something of NVIDIA: (file, text without comments)."""
    for folder in SEARCHED:
        for path in sorted(glob.glob(f"{source}/{folder}/**/*.*", recursive=True)):
            file = os.path.relpath(path, source)
            if file.endswith((".h", ".cpp")):
                yield file, without_comments(read(source, file))


def exported(nm, library):
    done = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0] for line in done.stdout.splitlines() if line}


def looked_up(source):
    """Names of functions that are found by dlsym without an X-macro."""
    pattern = r'(?:dlsym|find)\([^;"]*"((?:cu|nccl)[A-Z]\w*|(?:cublasLt|cudnn)[A-Z]\w*)"'
    return {name for _, text in texts_of(source) for name in re.findall(pattern, text)}


def forgotten(source):
    """X-macros of NVIDIA's functions that nothing here knows of."""
    known = {macro for part in PARTS for macro in part.macros} | {TRANSPORT[1]}
    for file, text in texts_of(source):
        for macro, body in re.findall(r"#define (KERF_\w+)\(X\)((?:[^\n]*\\\n)*[^\n]*)", text):
            if macro not in known and re.search(r"\b((cu|nccl)[A-Z]|cublasLt[A-Z]|cudnn[A-Z])\w*,", body):
                yield f"{file}: {macro} has functions of NVIDIA; name it in PARTS of {os.path.basename(__file__)}"


def missing_symbols(options, folder, check):
    """(what is wrong with the library, how many symbols were looked for, the library)."""
    library = folder.library(check.part.library)
    if not library:
        return [], 0, None
    try:
        there = exported(options.nm, library)
    except (OSError, subprocess.CalledProcessError) as error:
        return [f"cannot read {library}: {getattr(error, 'stderr', None) or error}"], 0, library
    prefix = {"driver": "cu[A-Z]", "cuBLASLt": "cublasLt", "cuDNN": "cudnn", "NCCL": "nccl"}[check.part.title]
    names = set(check.symbols) | {name for name in looked_up(options.source) if re.match(prefix, name)}
    return [f"{library} has no function {name}" for name in sorted(names - there)], len(names), library


def compare(options, folder):
    """Prints what was compared with one folder, and what differs.

    True when all that was compared agrees, None when no part's numbers and types were."""
    print(f"{folder.path}:")
    if (version := folder.cuda_version()) and version < OLDEST:
        print(f"  skipped: CUDA_VERSION {version}, expected at least {OLDEST}")
        return None
    checks = [Check(options.source, part) for part in PARTS if folder.header(part.header)]
    if not checks:
        print("  no header of NVIDIA is here")
    problems, compared = [], False
    for check in checks:
        complaints = compile_check(options, folder, check)
        compared |= complaints is not None
        problems += complaints or []
        problems += [f"no {kind} of {check.part.title} were read from our headers: is their style another one?"
                     for kind in ("numbers", "functions") if not check.counts[kind]]
        wrong, count, library = missing_symbols(options, folder, check)
        problems += wrong
        counts = check.counts if complaints is not None else {}
        counted = ", ".join(f"{number} {kind}" for kind, number in counts.items()) or "no types"
        where = f"{count} symbols of {os.path.basename(library)}" if library else "no library here"
        print(f"  {check.part.title}: {counted}; {where}")
    for problem in problems:
        print(f"  {problem}", file=sys.stderr)
    return False if problems else compared or None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source")
    parser.add_argument("folders", nargs="*", type=Folder)
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--keep", metavar="PREFIX", help="write the C++ files there, too: PREFIX<part>.cpp")
    options = parser.parse_intermixed_args()
    folders = options.folders or default_folders()
    if not folders:
        print("no header of NVIDIA is here: nothing was compared")
        return SKIPPED
    problems = list(forgotten(options.source))
    for problem in problems:
        print(problem, file=sys.stderr)
    results = [compare(options, folder) for folder in folders]
    if problems or False in results:
        return 1
    if True in results:
        return 0
    print("nothing was compared")
    return SKIPPED


if __name__ == "__main__":
    sys.exit(main())
