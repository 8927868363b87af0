"""Give a reader inputs that atheris makes of whole files, with an eye on the lines of ours that each reaches.

    python -m fuzz.guided READER INPUTS FOLDER

Whatever the reader raises but an InputError ends this with its traceback and a code above 0; the input is kept.
"""

import contextlib
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["pdqat"]):
    from fuzz.readers import reader
    from pdqat.errors import InputError

SEED = 24
LONGEST = 1 << 16
"""Bytes of an input."""


def main(name: str, inputs: int, folder: Path) -> None:
    """Never returns: atheris ends the process."""
    chosen = reader(name, folder)
    seen = 0

    def give(content: bytes) -> None:
        nonlocal seen
        seen += 1
        if seen == inputs:
            print(f"{inputs} inputs", flush=True)
        with contextlib.suppress(InputError):
            chosen.read(content)

    corpus, words = folder / "corpus", folder / "words"
    corpus.mkdir()
    for number, sample in enumerate(chosen.samples):
        (corpus / str(number)).write_bytes(sample)
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in chosen.words if 0 < len(word) <= 64))
    options = [f"-runs={inputs}", f"-seed={SEED}", f"-max_len={LONGEST}", f"-dict={words}", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={folder}/", str(corpus)], give)
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
