#!/usr/bin/env python3
"""Turns text into a .bin file of tokens for kerf-run, with a Hugging Face tokenizer.

  tokenize.py gpt2 corpus.txt -o corpus.bin
  tokenize.py tokenizer.json part1.txt part2.txt -o corpus.bin --format plain

The tokenizer is a tokenizer.json file, a folder that has one, or a model's name on the
Hugging Face hub. Each input file is one or more documents (--split); behind each stands
the end token, so that `kerf-run --document-end=ID` can keep documents apart.

Formats: `llmc` has llm.c's header (256 int32: magic number, version, number of tokens),
`plain` has none (as nanoGPT's). Tokens take 16 bits where the vocabulary allows, else 32.
"""

import argparse
import array
import os
import sys

END_TOKENS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>")
LLMC_HEADERS = {2: (20240520, 1), 4: (20240801, 7)}
TYPE_CODES = {2: "H", 4: "I"}


class Failure(Exception):
    """A mistake of the user's, told in one line."""


def load_tokenizer(name):
    """(encode: text -> ids, size of the vocabulary, name -> id or None)."""
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


def read_documents(paths, split):
    """The documents of the files, as text."""
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise Failure(f"cannot read '{path}': {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise Failure(f"'{path}' is no UTF-8 text: byte {error.start}") from None
        parts = text.split(split) if split else [text]
        yield from (part for part in parts if part.strip())


def write(path, tokens, width, has_header):
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


def run(options):
    encode, vocabulary, find = load_tokenizer(options.tokenizer)
    end = choose_end(options.end, find)
    width = options.bits // 8 if options.bits else 2 if vocabulary <= 65536 else 4
    if vocabulary > 256**width:
        raise Failure(f"a vocabulary of {vocabulary:,} does not fit {8 * width} bits")
    split = options.split.encode().decode("unicode_escape") if options.split else None
    tokens, characters, documents = array.array(TYPE_CODES[width]), 0, 0
    for text in read_documents(options.inputs, split):
        tokens.extend(encode(text))
        if end is not None:
            tokens.append(end)
        characters += len(text)
        documents += 1
    if not tokens:
        raise Failure("the input has no text")
    count = len(tokens)
    write(options.output, tokens, width, options.format == "llmc")
    print(f"wrote '{options.output}': {count:,} tokens of {8 * width} bits, format {options.format}")
    print(f"{documents:,} documents, {characters:,} characters, {characters / count:.2f} per token")
    print(f"the model needs a vocabulary of at least {vocabulary:,}")
    print(f"documents end with token {end}: kerf-run --document-end={end}" if end is not None
          else "documents are not separated: the tokenizer has no known end token (--end)")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tokenizer", help="tokenizer.json, a folder with one, or a hub name")
    parser.add_argument("inputs", nargs="+", help="text files, UTF-8")
    parser.add_argument("-o", "--output", required=True, help="the .bin file to write")
    parser.add_argument("--format", choices=("llmc", "plain"), default="llmc")
    parser.add_argument("--bits", type=int, choices=(16, 32), help="default: by the vocabulary")
    parser.add_argument("--end", help="token (or id) behind a document, or none")
    parser.add_argument("--split", help=r"text between documents of a file, such as '\n\n\n'")
    try:
        run(parser.parse_args())
    except Failure as failure:
        print(f"tokenize.py: error: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    # This script's name is that of a standard module, which `tokenizers` may import.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    sys.exit(main())
