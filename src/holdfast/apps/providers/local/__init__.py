"""LOCAL: recordings are transcribed and prompts completed on this machine, with no network and no account.

provider.py     the door: it hands out the work in small turns, and keeps each result as soon as it is there
model.py        a model in a process of its own, seen from the worker
serving.py      the same, seen from inside; speech.py and completion.py are such processes
audio.py        recordings as samples; pieces.py cuts them where nobody speaks
chat.py         which requests the completion model takes
weights.py      the weights that come with no dependency, and where they lie
words.py        sample recordings, and how well they were heard

Nothing is imported here: the model's processes come through this file, and are to start fast.
"""
