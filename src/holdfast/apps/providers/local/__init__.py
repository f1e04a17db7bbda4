"""LOCAL: recordings are transcribed and prompts completed on this machine, with no network and no account.

provider.py     the provider: it does the work in small shares, and keeps each result as soon as it is there
process.py      a model in a process of its own, from the worker and from inside; speech.py and completion.py have one
audio.py        recordings as samples, cut in the pauses of speech
weights.py      the weights that come with no dependency, and where they lie

Nothing is imported here: the model's processes come through this file, and are to start fast.
"""
