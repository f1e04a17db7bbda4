"""The agents that come with Holdfast: what each reads, what it writes, what it costs."""
