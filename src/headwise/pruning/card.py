"""The README of a pruned model: metadata for the hub, the removed heads, how to load it."""

from pathlib import Path
from typing import Any

from headwise.heads import HeadMap
from headwise.masks import group_players

#: Maximum length of a name on the hub.
_LONGEST = 96
_CARD = """\
---
library_name: headwise
{base}{languages}tags:
- headwise
- pruned
---

# {title}

`{cls}` with {removed} of {total} attention heads removed by [headwise](https://pypi.org/project/headwise/).
{changes}The heads are cut out of the weights, so plain `from_pretrained` cannot load it:

```python
from headwise import load_pruned

model = load_pruned("{folder}")
```

| site | heads kept | heads removed |
|---|---|---|
{rows}
"""


def write_card(
    folder: Path,
    config: Any,
    heads: HeadMap,
    removed: tuple[str, ...],
    languages: tuple[str, ...],
    changes: tuple[str, ...] = (),
) -> None:
    """Write the model card of a shrunk model into its folder; `changes` are sentences about its other weights."""
    removed_by_site = group_players(removed)
    rows = "\n".join(
        f"| {site.name} | {len(site.heads)} | {', '.join(map(str, removed_by_site.get(site.name, ()))) or 'none'} |"
        for site in heads.sites
    )
    base = base_name(config)
    title = f"{base or heads.family.name}, pruned" + (f" for {', '.join(languages)}" if languages else "")
    card = _CARD.format(
        base=f"base_model: {base}\n" if base else "",
        languages="".join(["language:\n", *(f"- {language}\n" for language in languages)]) if languages else "",
        title=title,
        cls=config.architectures[0],
        removed=len(removed),
        total=len(removed) + len(heads.players()),
        changes="".join(f"{change}\n" for change in changes),
        folder="path/or/name",
        rows=rows,
    )
    (folder / "README.md").write_text(card, encoding="utf-8")


def base_name(config: Any) -> str:
    """The hub name of the model that a model was loaded from; empty if it was loaded from a folder."""
    name = str(getattr(config, "name_or_path", "") or "")
    return name if is_hub_name(name) else ""


def is_hub_name(name: str) -> bool:
    """Whether a name can be a model on the hub rather than a local path."""
    if not name.isascii() or not 0 < len(name) <= _LONGEST:
        return False
    return name.count("/") <= 1 and not name.startswith((".", "/", "~")) and not Path(name).exists()
