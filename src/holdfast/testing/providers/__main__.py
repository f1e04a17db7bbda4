"""`python -m holdfast.testing.providers openai --folder F --port P`: a stand-in as a process; prints its address."""

import argparse
from importlib import import_module
from pathlib import Path

from holdfast.testing.providers.faults import Faults
from holdfast.testing.providers.serving import Started, listen

STAND_INS = {"openai": "holdfast.testing.providers.openai:OpenAIStandIn"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.providers", description=__doc__)
    parser.add_argument("name", choices=sorted(STAND_INS))
    parser.add_argument("--folder", type=Path, required=True, help="where it keeps everything; may be used again")
    parser.add_argument("--port", type=int, default=0, help="of loopback; 0 for any that is free")
    options = parser.parse_args()
    module, _, name = STAND_INS[options.name].partition(":")
    app = getattr(import_module(module), name)(options.folder)
    listener = listen(options.port)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)  # noqa: T201 - its parent reads this
    Started(Faults(app, ledger=options.folder / "requests.jsonl")).run([listener])


if __name__ == "__main__":
    main()
