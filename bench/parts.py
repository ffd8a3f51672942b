"""A file of figures whose parts are measured one at a time: a new one takes the place of the one of its name."""

from __future__ import annotations

from pathlib import Path

_MARK = "\n## "


def put_part(file: Path, title: str, name: str, text: str) -> None:
    """Write the part, and leave the others, in the order of their names."""
    parts = file.read_text().split(_MARK)[1:] if file.exists() else []
    kept = {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts}
    kept[name] = text.strip()
    file.write_text(f"# {title}\n" + "".join(f"{_MARK}{each}\n\n{kept[each]}\n" for each in sorted(kept)))
