"""Imports go down the house, never up."""

import ast
from pathlib import Path

import headwise

#: From the ground floor up: a module may import from its own room and from those before it.
FLOORS = [
    "errors", "support", "files", "outputs", "draws", "runs", "stats", "pooling", "hard_concrete",
    "architectures", "heads", "activations", "masks", "soft_masks", "means", "scores",
    "gates", "attention", "propagation", "pruning", "data", "models", "tasks", "games", "engine", "methods",
    "scoring", "tuning", "roles", "language_results", "api", "report", "studies", "explorer", "cli", "__main__",
]  # fmt: skip
PACKAGE = Path(headwise.__file__).parent


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {name.split(".")[1] for name in names if name.startswith("headwise.")}


def test_every_module_imports_only_from_below() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path == PACKAGE / "__init__.py":
            continue
        own = room(path)
        above = imported_rooms(path) - set(FLOORS[: FLOORS.index(own) + 1])
        assert not above, f"{path.relative_to(PACKAGE)} ({own}) imports from {sorted(above)}, which are above it"


def test_every_room_has_its_floor() -> None:
    rooms = {room(path) for path in PACKAGE.rglob("*.py")} - {"__init__"}
    assert rooms == set(FLOORS)
