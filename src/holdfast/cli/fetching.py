"""A generation of a dataset as files in a folder: all of one version, whatever is published meanwhile."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.dataset import read_dataset

if TYPE_CHECKING:
    from holdfast.cli.calling import Server


async def fetch_generation(
    server: "Server", name: str, version: int | None, folder: Path
) -> tuple[dict[str, Any], list[str]]:
    """The generation, and the files that were written. What is but an address elsewhere stays there."""
    found = await read_dataset(server, name, version, most=None)
    places = {one["number"]: place_for(one["key"] or one["name"], one["number"]) for one in found["items"]}
    saved: list[str] = []
    for one in found["items"]:
        if one["rows"] is not None:
            path = folder / f"{places[one['number']]}.jsonl"
            path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in one["rows"]))
            saved.append(str(path))
    after: int | None = 0
    while after is not None and any((one["uri"] or "").startswith("object:") for one in found["items"]):
        asked = f"/datasets/{found['dataset_id']}/downloads?version={found['version']}&after={after}"
        page = await server.ask("GET", asked)
        for link in page["downloads"]:
            suffix = "".join(Path(link["name"]).suffixes[-1:])
            path = folder / f"{places[link['number']].removesuffix(suffix)}{suffix}"
            async with server.fetch(link["url"]) as pieces:
                with path.open("wb") as file:
                    async for piece in pieces:
                        file.write(piece)
            saved.append(str(path))
        after = page["next"]
    listed = {**{name: found[name] for name in ("name", "version", "schema", "published_at")}, "items": found["items"]}
    for one in listed["items"]:
        one.pop("rows")
    (folder / "dataset.json").write_text(json.dumps(listed, indent=2, ensure_ascii=False) + "\n")
    return found, saved


def place_for(key: str, number: int) -> str:
    """A name for a file, of whatever people call it: its place in the list, and what of the key can be a name."""
    named = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in key)[-100:].lstrip(".-")
    return f"{number:04d}-{named or 'file'}"
