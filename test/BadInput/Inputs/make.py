"""Prints an input that is too large to keep: make.py KIND [COUNT]."""

import sys

DEEP = 100_000


def alias_chain(sigil, wrap, width, count):
    """Definitions that each use the one before `width` times."""
    lines = [f"{sigil}a0 = {wrap('f32')}"]
    for i in range(1, count):
        lines.append(f"{sigil}a{i} = " + wrap(", ".join([f"{sigil}a{i - 1}"] * width)))
    lines.append(f"module attributes {{x.y = {sigil}a{count - 1}}} {{}}\n")
    return "\n".join(lines)


def model(body, loss):
    return ("kerf.model @m() attributes {optimizer = #kerf.sgd<>} {\n"
            '  %w = kerf.param "w" init<ones> : tensor<f32>\n'
            f"{body}  kerf.return {loss} : tensor<f32>\n}}\n")


def chain(op, count):
    """Each op reads the one before."""
    lines = [f"  %a0 = kerf.{op % {'x': '%w'}} : tensor<f32>\n"]
    lines += [f"  %a{i} = kerf.{op % {'x': f'%a{i - 1}'}} : tensor<f32>\n" for i in range(1, count)]
    return model("".join(lines), f"%a{count - 1}")


KINDS = {
    # One line of 100 MB.
    "long-json": lambda: '{"model_type": "' + "x" * 100_000_000 + '"}',
    "long-ir": lambda: "// " + "x" * 100_000_000,
    # Brackets of every kind, 100,000 deep.
    "deep-arrays": lambda: "[" * DEEP + "]" * DEEP,
    "deep-objects": lambda: '{"a":\n' * DEEP + "1" + "}" * DEEP,
    "deep-field": lambda: '{"model_type": "gpt2", "n_embd": ' + "[" * DEEP + "]" * DEEP + "}",
    "deep-round": lambda: "(" * DEEP + ")" * DEEP,
    "deep-square": lambda: "module attributes {a = " + "[" * DEEP + "]" * DEEP + "} {}",
    "deep-curly": lambda: "module {" * DEEP + "}" * DEEP,
    "deep-angle": lambda: "module attributes {a = " + "tuple<" * DEEP + ">" * DEEP + "} {}",
    # Depth and size that aliases and signs make without brackets.
    "deep-alias": lambda: alias_chain("#", "[{}]".format, 1, DEEP),
    "deep-type-alias": lambda: alias_chain("!", "tuple<{}>".format, 1, DEEP),
    "wide-alias": lambda: alias_chain("#", "[{}]".format, 2, 64),
    "deep-minus": lambda: "module attributes {a = affine_map<(d0) -> (" + "-" * DEEP + "d0)>} {}",
    "high-rank": lambda: "module attributes {a = tensor<" + "1x" * DEEP + "f32>} {}",
    # Models whose graph is deep, or has 2^100 paths.
    "deep-model": lambda: chain("neg %(x)s", DEEP),
    "wide-model": lambda: chain("add %(x)s, %(x)s", 100),
    # Bytes that are no text.
    "nul-json": lambda: '{"model_type": "gpt2"\0}',
    "nul-ir": lambda: "module {\n  \0\n}\n",
    "bytecode": lambda: b"ML\xefR\x0dMLIR\0",
    "not-utf8": lambda: b'{"model_type": "\xff\xfe"}',
}


def main():
    text = KINDS[sys.argv[1]]()
    sys.stdout.buffer.write(text if isinstance(text, bytes) else text.encode())


if __name__ == "__main__":
    main()
