"""The official MD5 sums and sizes of the CIFAR files, and the check of a file against them.

MD5 is what the authors of CIFAR publish. It tells a damaged or foreign file from the official one; what a pickle may
do is limited by `safe_pickle` on top of that.
"""

import hashlib
from pathlib import Path

from pdqat.errors import InputError

CHECKSUMS: dict[str, str] = {
    "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
    "cifar-10-batches-bin/data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "cifar-10-batches-bin/data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "cifar-10-batches-bin/data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "cifar-10-batches-bin/data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "cifar-10-batches-bin/data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "cifar-10-batches-bin/test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    "cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a",
    "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
    "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
    "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
    "cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8",
    "cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85",
    "cifar-100-python/train": "16019d7e3df5f24257cddd939b257f8d",
    "cifar-100-python/test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
}

# The authors publish no sum of these two, only of the archive that holds them.
SIZES: dict[str, int] = {
    "cifar-100-binary/train.bin": 50_000 * 3074,
    "cifar-100-binary/test.bin": 10_000 * 3074,
}


def verify(key: str, content: bytes | memoryview, origin: str) -> None:
    """Raise InputError unless `content` is the official file `key`, by its MD5 sum or else by its size.

    Args:
        key: a key of CHECKSUMS or SIZES.
        content: the bytes to check.
        origin: where they came from, to be named in the error.
    """
    if key in CHECKSUMS:
        _compare(key, hashlib.md5(content, usedforsecurity=False).hexdigest(), origin)
    elif memoryview(content).nbytes != SIZES[key]:
        raise InputError(
            f"{origin} has {memoryview(content).nbytes} bytes but the official {key} has {SIZES[key]}, "
            "so it is truncated or not that file."
        )


def verify_file(key: str, path: Path) -> None:
    """Raise InputError unless the file at `path` has the official MD5 sum of `key`; reads it piece by piece."""
    with path.open("rb") as file:
        _compare(key, hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest(), str(path))


def _compare(key: str, found: str, origin: str) -> None:
    if found != CHECKSUMS[key]:
        raise InputError(
            f"{origin} has the MD5 sum {found} but the official {key} has {CHECKSUMS[key]}, "
            "so it is truncated, changed or not that file."
        )
