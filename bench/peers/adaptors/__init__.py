"""One module per peer, run in the peer's own environment: `python -m bench.peers.adaptors.NAME COMMAND ...`."""
