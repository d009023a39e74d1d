"""Write what is shown of the recorded studies anew: `python -m tests.snapshots.update`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.snapshots.shown import SHOWN, TEXTS, texts


def main() -> None:
    """Replace all texts."""
    shutil.rmtree(TEXTS, ignore_errors=True)
    for name in SHOWN:
        (TEXTS / name).mkdir(parents=True)
        with tempfile.TemporaryDirectory() as directory:
            for file, text in texts(name, Path(directory)).items():
                (TEXTS / name / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
