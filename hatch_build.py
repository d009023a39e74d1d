"""Metadata of the distribution that depends on the project's address, which stands once, in pyproject.toml.

Relative links of the README do not work on the page of a package index, so they become links into the repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)\s]+)\)")


def absolute(text: str, address: str, version: str) -> str:
    """Return a page of the repository with absolute links: pictures to their files, the rest to their pages."""

    def link(match: re.Match[str]) -> str:
        kind = "raw" if match[1] else "blob"
        return f"{match[1]}[{_LINK.sub(link, match[2])}]({address}/{kind}/v{version}/{match[3]})"

    return _LINK.sub(link, text)


class ProjectMetadata(MetadataHookInterface):
    """Fills in `readme` and `urls` from the address under [tool.hatch.metadata.hooks.custom]."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the fields that pyproject.toml declares as dynamic."""
        address = self.config["address"].rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, address, metadata["version"]) if address else text,
        }
        metadata["urls"] = {
            name: address + path
            for name, path in {
                "Source": "",
                "Documentation": "/tree/main/docs",
                "Changelog": "/blob/main/CHANGELOG.md",
                "Issues": "/issues",
            }.items()
            if address
        }
