"""Completions at OpenAI, for workers that are to be killed: whoever takes over looks at once, not after a minute."""

from datetime import timedelta

from holdfast import Holdfast
from holdfast.apps.providers.openai import OpenAI

provider = OpenAI()
provider.inputs_per_job = 2
provider.listed_within = timedelta(milliseconds=200)
provider.poll_every = timedelta(milliseconds=100)
hf = Holdfast()
complete = hf.batch("completion", provider)
