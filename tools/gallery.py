"""Print the gallery of examples as Markdown: what each file shows, in its first sentence.

The site shows it on the page docs/examples.md.

python tools/gallery.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"
ORDER = (  # by the words that the name of a file has; the first that fits
    ("First steps", ("by_hand", "tune_digits", "ask_and_tell", "continue_training", "several", "gp_sampler")),
    ("Learners that continue from a checkpoint", ("_continue", "cifar10", "digits_network")),
    ("With other libraries", ("sklearn", "optuna", "ray", "hydra", "hpbandster", "mlflow", "tensorboard", "slurm")),
    ("Without Python", (".sh", ".mjs", ".awk", ".toml")),
)


def sentence(path: Path) -> str:
    """Return the first sentence of a file: of its docstring, or of its first comment."""
    text = path.read_text()
    if path.suffix == ".py":
        return re.match(r'"""(.+?)(?:"""|\n\n|  )', text, flags=re.DOTALL)[1].replace("\n", " ").strip()  # type: ignore[index]
    lines = [line for line in text.splitlines() if not line.startswith("#!")]
    return re.sub(r"^(?:#|//)\s*", "", lines[0]).strip()


def gallery() -> str:
    """Return one table for each group of examples."""
    left = sorted(path for path in EXAMPLES.iterdir() if path.is_file() and path.suffix != ".pyc")
    parts = []
    for title, words in ORDER:
        inside = [path for path in left if any(word in path.name for word in words)]
        left = [path for path in left if path not in inside]
        rows = [f"| [{path.name}](../examples/{path.name}) | {sentence(path)} |" for path in inside]
        parts.append("\n".join([f"## {title}\n", "| file | what it shows |", "|---|---|", *rows]) + "\n")
    if left:
        raise ValueError(f"add a group for {[path.name for path in left]}")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(gallery())
