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
{changes}{loading}

| site | heads kept | heads removed |
|---|---|---|
{rows}
{facts}"""
_SHRUNK = """\
The heads are cut out of the weights, so plain `from_pretrained` cannot load it:

```python
from headwise import load_pruned

model = load_pruned("path/or/name")
```"""
_FOLDED = (
    "The mask is folded into the output weights of the attention, so that the model has its usual shape: "
    "`from_pretrained` and other programs load it as any other model."
)


def write_card(
    folder: Path,
    config: Any,
    heads: HeadMap,
    removed: tuple[str, ...],
    languages: tuple[str, ...],
    changes: tuple[str, ...] = (),
    facts: tuple[str, ...] = (),
    folded: bool = False,
) -> None:
    """Write the model card of a pruned model into its folder.

    Args:
        folder: The folder.
        config: The config of the model.
        heads: Its heads; of a folded model, they include the removed ones.
        removed: The removed heads.
        languages: The languages that it was pruned for.
        changes: Sentences about its other weights.
        facts: Sentences about the run that the heads were chosen by: data, gains, commands.
        folded: Whether the heads are still part of the weights.
    """
    removed_by_site = group_players(removed)
    gone = set(removed)
    kept = {site.name: sum(player not in gone for player in site.players) for site in heads.sites}
    rows = "\n".join(
        f"| {name} | {count} | {', '.join(map(str, removed_by_site.get(name, ()))) or 'none'} |"
        for name, count in kept.items()
    )
    base = base_name(config)
    title = f"{base or heads.family.name}, pruned" + (f" for {', '.join(languages)}" if languages else "")
    card = _CARD.format(
        base=f"base_model: {base}\n" if base else "",
        languages="".join(["language:\n", *(f"- {language}\n" for language in languages)]) if languages else "",
        title=title,
        cls=config.architectures[0],
        removed=len(removed),
        total=len(gone | set(heads.players())),
        changes="".join(f"{change}\n" for change in changes),
        loading=_FOLDED if folded else _SHRUNK,
        rows=rows,
        facts="".join(["\n## How it was made\n\n", *(f"- {fact}\n" for fact in facts)]) if facts else "",
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
