"""Create links to our packages for type checkers, which cannot follow the import hook of an editable install.

`.typing/stuntbroker/<room>` links to each package, next to links to the files of the package `stuntbroker`; `mypy_path` in
pyproject.toml points there. Run it as `python tests/house/typing_links.py`, or call `make_links`.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def make_links(root: Path = ROOT) -> Path:
    """Create, update or remove links as needed; return their folder."""
    folder = root / ".typing" / "stuntbroker"
    folder.mkdir(parents=True, exist_ok=True)
    front_door = root / "stuntbroker"
    targets = {path.name: path for path in front_door.iterdir() if path.suffix in (".py", ".typed")}
    targets |= {p.parent.name: p.parent for p in root.glob("*/__init__.py") if p.parent != front_door}
    for link in folder.iterdir():
        if link.name not in targets and link.is_symlink():
            link.unlink()
    for name, path in targets.items():
        link, target = folder / name, Path("..", "..") / path.relative_to(root)
        if not link.is_symlink() or link.readlink() != target:
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    return folder


if __name__ == "__main__":
    print(make_links())  # noqa: T201
