#!/usr/bin/env python3
"""Turns text into a .bin file of tokens for kerf-run, with a Hugging Face tokenizer.

  tokenize.py gpt2 corpus.txt -o corpus.bin
  tokenize.py tokenizer.json part1.txt part2.txt -o corpus.bin --format plain
  tokenize.py tokenizer.json answers.jsonl -o tuning.bin --pack 1024
  tokenize.py gpt2 --encode "Once upon a time"      # tokens:7454,2402,257,640
  tokenize.py gpt2 --decode 7454,2402,257,640

The tokenizer is a tokenizer.json file, a folder that has one, or a model's name on the
Hugging Face hub. Each input file is one or more documents (--split); behind each stands
the end token, so that `kerf-run --document-end=ID` can keep documents apart.

A .jsonl file has a document a line, {"prompt": "...", "answer": "..."}: the loss counts answers
and end tokens alone. Which tokens those are stands beside them, a byte each, in corpus.mask,
which kerf-run reads with corpus.bin.

--pack SEQ puts whole documents into samples of SEQ tokens (`kerf-import --seq=SEQ`), those that
fit best; what is left of a sample is filled with end tokens that the loss does not count. Longer
documents are cut.

--encode prints the tokens of a text as `kerf-run --sample` takes them, --decode the text of tokens
that it printed (- reads them from standard input, whatever stands around the numbers of a sample).

Formats: `llmc` has llm.c's header (256 int32: magic number, version, number of tokens),
`plain` has none (as nanoGPT's). `megatron` writes Megatron-LM's corpus.idx beside corpus.bin, which
says where documents end: kerf-run then keeps them apart without an end token. Tokens take 16 bits
where the vocabulary allows, else 32.
"""

import argparse
import array
import bisect
import json
import os
import re
import struct
import sys

END_TOKENS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>")
LLMC_HEADERS = {2: (20240520, 1), 4: (20240801, 7)}
TYPE_CODES = {2: "H", 4: "I"}
MEGATRON_CODES = {2: 8, 4: 4}


class Failure(Exception):
    """A mistake of the user's, told in one line."""


def open_tokenizer(name):
    """A tokenizer of the library."""
    path = os.path.join(name, "tokenizer.json") if os.path.isdir(name) else name
    try:
        import tokenizers
    except ImportError:
        raise Failure("the Python package 'tokenizers' is missing: pip install tokenizers") from None
    try:
        if os.path.isfile(path):
            tokenizer = tokenizers.Tokenizer.from_file(path)
        elif os.path.isdir(name):
            raise Failure(f"folder '{name}' has no tokenizer.json")
        else:
            tokenizer = tokenizers.Tokenizer.from_pretrained(name)
    except Failure:
        raise
    except Exception as error:  # the package raises plain Exceptions
        raise Failure(f"cannot load the tokenizer '{name}': {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def load_tokenizer(name):
    """(encode: text -> ids, size of the vocabulary, name -> id or None)."""
    tokenizer = open_tokenizer(name)

    def encode(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    return encode, tokenizer.get_vocab_size(with_added_tokens=True), tokenizer.token_to_id


def choose_end(wanted, find):
    """The id that ends a document, or None."""
    if wanted == "none":
        return None
    if wanted is not None:
        token = int(wanted) if wanted.isdigit() else find(wanted)
        if token is None:
            raise Failure(f"the tokenizer has no token '{wanted}' for --end")
        return token
    known = (find(name) for name in END_TOKENS)
    return next((token for token in known if token is not None), None)


def read_text(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Failure(f"cannot read '{path}': {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Failure(f"'{path}' is no UTF-8 text: byte {error.start}") from None


def answers_of(path, text):
    """(prompt, answer) of each line of JSON."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise Failure(f"'{path}', line {number} is no JSON: {error}") from None
        pair = [entry.get(key) for key in ("prompt", "answer")] if isinstance(entry, dict) else [None]
        if not all(isinstance(part, str) for part in pair):
            raise Failure(f"'{path}', line {number}: expected {{\"prompt\": \"...\", \"answer\": \"...\"}}")
        yield pair


def read_documents(paths, split):
    """The documents of the files: (what the loss leaves out, what it counts), as text."""
    for path in paths:
        text = read_text(path)
        if path.endswith(".jsonl"):
            yield from answers_of(path, text)
            continue
        parts = text.split(split) if split else [text]
        yield from (("", part) for part in parts if part.strip())


def tokenized(documents, encode, end):
    """(tokens, which count as targets) of each document."""
    for prompt, answer in documents:
        asked, told = encode(prompt) if prompt else [], encode(answer) + ([] if end is None else [end])
        yield asked + told, [0] * len(asked) + [1] * len(told)


def packed(documents, size, end):
    """Documents put into rows of `size` tokens: each, the longest first, into the row that it leaves the least room in.
    Gives their pieces, and end tokens as one more, row after row."""
    pieces = [(t[i : i + size], m[i : i + size]) for t, m in documents for i in range(0, len(t), size)]
    rows, room = [], []  # room: (tokens left, row), ascending
    for tokens, mask in sorted(pieces, key=lambda piece: -len(piece[0])):
        at = bisect.bisect_left(room, (len(tokens), -1))
        if at == len(room):
            rows.append([])
            left, row = size, len(rows) - 1
        else:
            left, row = room.pop(at)
        rows[row].append((tokens, [0] + mask[1:]))  # no document says what the next begins with
        bisect.insort(room, (left - len(tokens), row))
    for pieces in rows:
        yield from pieces
        left = size - sum(len(tokens) for tokens, _ in pieces)
        if left:
            yield [end] * left, [0] * left


def write(path, tokens, width=1, has_header=False):
    """Writes the file; it appears complete or not at all."""
    temporary = f"{path}.tmp-{os.getpid()}"
    if sys.byteorder == "big":
        tokens.byteswap()
    try:
        with open(temporary, "wb") as file:
            if has_header:
                magic, version = LLMC_HEADERS[width]
                header = array.array("i", [magic, version, len(tokens)] + [0] * 253)
                if sys.byteorder == "big":
                    header.byteswap()
                header.tofile(file)
            tokens.tofile(file)
        os.replace(temporary, path)
    except OSError as error:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise Failure(f"cannot write '{path}': {error.strerror}") from None


def read_numbers(text):
    """The token numbers of a list, or of the lines "  | 1,2,3" of a sample."""
    if text == "-":
        text = sys.stdin.read()
    lines = [line.partition("|")[2] for line in text.splitlines() if line.startswith("  | ")] or [text]
    listed = ",".join(line.strip().strip(",") for line in lines).removeprefix("tokens:")
    if not re.fullmatch(r"[0-9]+(,[0-9]+)*", listed):
        raise Failure("--decode: expected token numbers as 1,2,3")
    return [int(number) for number in listed.split(",")]


def show(options):
    """Prints what --encode or --decode asks for."""
    if options.inputs or options.output:
        raise Failure("--encode and --decode print; they take no files")
    tokenizer = open_tokenizer(options.tokenizer)
    if options.decode is not None:
        print(tokenizer.decode(read_numbers(options.decode), skip_special_tokens=False))
    else:
        ids = tokenizer.encode(options.encode, add_special_tokens=False).ids
        print("tokens:" + ",".join(map(str, ids)))


def beside(path, ending):
    return path.removesuffix(".bin") + ending


def write_index(path, lengths, width):
    """The .idx of Megatron-LM: each document is one sequence."""
    n, starts = len(lengths), [0]
    for length in lengths[:-1]:
        starts.append(starts[-1] + width * length)
    header = struct.pack("<9sQBQQ", b"MMIDIDX", 1, MEGATRON_CODES[width], n, n + 1)
    tables = struct.pack(f"<{n}i{n}q{n + 1}q", *lengths, *starts, *range(n + 1))
    write(path, array.array("B", header + tables))


def run(options):
    encode, vocabulary, find = load_tokenizer(options.tokenizer)
    end = choose_end(options.end, find)
    width = options.bits // 8 if options.bits else 2 if vocabulary <= 65536 else 4
    if vocabulary > 256**width:
        raise Failure(f"a vocabulary of {vocabulary:,} does not fit {8 * width} bits")
    split = options.split.encode().decode("unicode_escape") if options.split else None
    if options.pack and end is None:
        raise Failure("--pack fills samples with end tokens: name one with --end")
    texts = list(read_documents(options.inputs, split))
    rows = tokenized(texts, encode, end)
    tokens, mask, lengths = array.array(TYPE_CODES[width]), array.array("B"), []
    for row, counted in packed(rows, options.pack, end) if options.pack else rows:
        tokens.extend(row)
        mask.extend(counted)
        lengths.append(len(row))
    if not tokens:
        raise Failure("the input has no text")
    if options.pack:  # a sample's last target is the next one's first token
        tokens.append(end)
        mask.append(0)
        lengths.append(1)
    count, characters = len(tokens), sum(len(prompt) + len(answer) for prompt, answer in texts)
    is_indexed = options.format == "megatron"
    masked, index = beside(options.output, ".mask"), beside(options.output, ".idx")
    if all(mask) and os.path.exists(masked):
        raise Failure(f"'{masked}' is of other tokens: remove it, as all of these count")
    if not is_indexed and os.path.exists(index):
        raise Failure(f"'{index}' is of other tokens: remove it, or write it anew with --format=megatron")
    if not all(mask):
        write(masked, mask)
    write(options.output, tokens, width, options.format == "llmc")
    if is_indexed:
        write_index(index, lengths, width)
    print(f"wrote '{options.output}': {count:,} tokens of {8 * width} bits, format {options.format}")
    print(f"{len(texts):,} documents, {characters:,} characters, {characters / count:.2f} per token")
    if not all(mask):
        print(f"wrote '{masked}': the loss counts {sum(mask):,} tokens, {100 * sum(mask) / count:.1f} %")
    if options.pack:
        print(f"{count // options.pack:,} samples of {options.pack:,} tokens: kerf-import --seq={options.pack}")
    print(f"the model needs a vocabulary of at least {vocabulary:,}")
    if is_indexed:
        print(f"documents end where '{index}' says")
    else:
        print(f"documents end with token {end}: kerf-run --document-end={end}" if end is not None
              else "documents are not separated: the tokenizer has no known end token (--end)")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tokenizer", help="tokenizer.json, a folder with one, or a hub name")
    parser.add_argument("inputs", nargs="*", help="text files, UTF-8, or .jsonl of prompts and answers")
    parser.add_argument("-o", "--output", help="the .bin file to write")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--encode", metavar="TEXT", help="print the tokens of a text")
    shown.add_argument("--decode", metavar="NUMBERS", help="print the text of tokens, or of those of standard input (-)")
    parser.add_argument("--format", choices=("llmc", "plain", "megatron"), default="llmc")
    parser.add_argument("--bits", type=int, choices=(16, 32), help="default: by the vocabulary")
    parser.add_argument("--end", help="token (or id) behind a document, or none")
    parser.add_argument("--split", help=r"text between documents of a file, such as '\n\n\n'")
    parser.add_argument("--pack", type=int, metavar="SEQ", help="whole documents in samples of so many tokens")
    try:
        options = parser.parse_args()
        if options.pack is not None and options.pack < 2:
            raise Failure(f"--pack: expected at least 2 tokens, found {options.pack}")
        if options.encode is not None or options.decode is not None:
            show(options)
            return 0
        if not options.inputs or not options.output:
            raise Failure("expected text files to read, and with -o a file to write")
        if options.format == "megatron" and not options.output.endswith(".bin"):
            raise Failure("--format=megatron: expected a name that ends in .bin for --output")
        run(options)
    except Failure as failure:
        print(f"tokenize.py: error: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    # This script's name is that of a standard module, which `tokenizers` may import.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    sys.exit(main())
