"""`python -m holdfast.testing.providers openai --folder F --port P`: a stand-in as a process; prints its address."""

import argparse
from pathlib import Path

from holdfast.testing.providers.faults import Faults
from holdfast.testing.providers.openai import OpenAIStandIn
from holdfast.testing.providers.serving import listen, make_server

STAND_INS = {"openai": OpenAIStandIn}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.providers", description=__doc__)
    parser.add_argument("name", choices=sorted(STAND_INS))
    parser.add_argument("--folder", type=Path, required=True, help="where it keeps everything; may be used again")
    parser.add_argument("--port", type=int, default=0, help="of loopback; 0 for any that is free")
    options = parser.parse_args()
    app = STAND_INS[options.name](options.folder)
    listener = listen(options.port)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)  # noqa: T201 - its parent reads this
    make_server(Faults(app, ledger=options.folder / "requests.jsonl")).run([listener])


if __name__ == "__main__":
    main()
