"""The command line, the report and the dashboard show what they have shown.

If a change of these texts is meant, write them anew with `python -m tests.snapshots.update`, and read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.snapshots.shown import SHOWN, TEXTS, texts, visible


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_of_a_study_has_not_changed(name: str, tmp_path: Path) -> None:
    stored = {path.name: path.read_text(encoding="utf-8") for path in (TEXTS / name).iterdir()}
    found = texts(name, tmp_path)
    assert found.keys() == stored.keys()
    for file, text in found.items():
        assert text == stored[file], file


def test_the_visible_text_of_a_page_has_no_tags_and_no_scripts() -> None:
    page = "<head><title>t</title></head><p>a <b>b</b>\n c</p><table><tr><th>x<td>1</table><script>s()</script>"
    assert visible(page) == "a b c\nx | 1"
