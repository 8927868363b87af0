"""Whether a C folder computes the same under every compiler, on all test images.

    python benchmarks/c_compilers.py RUN     exports RUN as C, verifies it code by code, then compares compilers

Every code of all test images is compared with the integer reference, as compiled by cc -O3, and what they are taken for
with the simulated model. Every other build (gcc and clang, -O0, -O3, -O3 -march=native, and with
the address and undefined-behaviour sanitizers) then has to give the same 64-bit sums of every image: one of all its
codes, with their layers and places, and its scores. A build is told as soon as it is finished, and its sums are kept in
RUN/c-sums under the hash of what was compiled: a run that was stopped goes on with the next build. The numbers go to
results/c_compilers.json.
"""

import argparse
import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from measure import RESULTS, commit, machine, write

from pdqat.config.trained import Trained
from pdqat.deployment.export import export, verify_file
from pdqat.disk import write_atomically

NAME = "c_compilers"
FLAGS = {
    "-O3": "-O3",
    "-O3 -march=native": "-O3 -march=native",
    "-O0": "-O0",
    "sanitizers": "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all",
    "sanitizers, copies": "-O1 -DMODEL_COPIES=1 -fsanitize=address,undefined -fno-sanitize-recover=all",
}
COMPILERS = ("gcc", "clang")
MAIN = """\
#include <stdio.h>
#include "model.h"
static uint64_t sum;
static void add(uint64_t number) { sum = (sum ^ number) * 1099511628211u; }
void model_observe(int layer, int index, int32_t code)
{
    add((uint64_t)layer << 32 | (uint32_t)index);
    add((uint32_t)code);
}
int main(void)
{
    static model_input_t image[MODEL_INPUT_SIZE];
    static model_score_t scores[MODEL_OUTPUT_SIZE];
    while (fread(image, sizeof image, 1, stdin) == 1) {
        sum = 14695981039346656037u;
        if (model_run(image, scores) != 0)
            return 1;
        for (int index = 0; index < MODEL_OUTPUT_SIZE; index++)
            add((uint32_t)scores[index]);
        printf("%016llx\\n", (unsigned long long)sum);
    }
    return 0;
}
"""


def sums_of(folder: Path, compiler: str, flags: str, images: bytes, scratch: Path) -> str:
    """A line for every image; warnings and what sanitizers find are errors."""
    main, program = scratch / "main.c", scratch / "program"
    main.write_text(MAIN)
    strict = "-std=c99 -Wall -Wextra -Wconversion -Werror -pedantic -DMODEL_OBSERVED"
    command = [compiler, *f"{strict} {flags} -I{folder}".split(), str(folder / "model.c"), str(main)]
    subprocess.run([*command, "-o", str(program)], check=True)
    return subprocess.run([program], input=images, capture_output=True, check=True).stdout.decode()


def digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def version(compiler: str) -> str:
    """The first line that it says of itself."""
    told = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    return told.stdout.splitlines()[0]


def verified(trained: Trained, folder: Path, kept: Path) -> dict[str, Any]:
    """What was found of all images, when the folder as it stands was verified before or else now."""
    model, check = folder / "model.c", trained.loaders.test
    assert check is not None
    images = samples_of(check)
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    is_known = model.exists() and found.get("model") == digest(model.read_bytes())
    if not is_known or found.get("images_by_code") != images:
        net, example = trained.problem.net, trained.example
        print(export(net, folder, example, check=[next(iter(check))], format="c"), flush=True)
        (result,) = verify_file(net, None, folder, example, check, close=images)
        found = {"commit": commit(), "machine": machine(), "model": digest(model.read_bytes())}
        found |= {"images": result.images, "images_by_code": images}
        found |= {"codes": asdict(result.codes), "accuracy": result.accuracy, "passes": result.passes}
        write_atomically(kept, (json.dumps(found, indent=1) + "\n").encode())
    return found


def samples_of(batches: Iterable[Any]) -> int:
    return sum(len(images) for images, _ in batches)


def kept_sums(folder: Path, compiler: str, flags: str, images: bytes, kept: Path) -> str:
    """A build's sums, from before or else now."""
    if not kept.exists():
        with tempfile.TemporaryDirectory() as scratch:
            write_atomically(kept, sums_of(folder, compiler, flags, images, Path(scratch)).encode())
    return kept.read_text()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run folder of the preset deployable")
    run: Path = parser.parse_args().run
    trained = Trained.open_finished(run, purpose="export")
    assert trained.loaders.test is not None
    sums, folder = run / "c-sums", run / "model-c"
    sums.mkdir(exist_ok=True)
    entry = verified(trained, folder, sums / "verified.json")
    batches = [torch.round(images * 255).to(torch.uint8) for images, _ in trained.loaders.test]
    images = torch.cat(batches).numpy().tobytes()
    path = RESULTS / f"{NAME}.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    entry |= {"compilers": {compiler: version(compiler) for compiler in COMPILERS}, "builds": {}}
    expected = ""
    for about, flags in FLAGS.items():
        for compiler in COMPILERS:
            build = f"{compiler} {about}"
            kept = sums / f"{entry['model'][:12]}-{digest(build.encode())[:12]}.txt"
            made = kept_sums(folder, compiler, flags, images, kept)
            expected = expected or made
            different = sum(a != b for a, b in zip(expected.split(), made.split(), strict=True))
            entry["builds"][build] = {"images": made.count("\n"), "different": different}
            entry["builds"][build]["sha256"] = digest(made.encode())
            print(f"{build}: {different} of {made.count(chr(10))} images differ", flush=True)
            write(NAME, {**content, run.name: entry})


if __name__ == "__main__":
    main()
