"""Two durable tasks. What a crash interrupts is taken up again; what is done is not done twice."""

from holdfast import Holdfast, progress, step

hf = Holdfast()  # the database of HOLDFAST_URL, else an embedded Postgres in ./.holdfast


@hf.task(retries=5)
def greet(name: str) -> str:
    return f"Hello, {name}!"


@hf.task(retries=3)
async def count_words(text: str) -> dict[str, int]:
    words = await step("split", split, text)  # kept by its name: an attempt after a crash goes on behind it
    progress(1, 2, note="counting")
    return await step("counted", count, words)


def split(text: str) -> list[str]:
    return text.lower().split()


def count(words: list[str]) -> dict[str, int]:
    return {word: words.count(word) for word in sorted(set(words))}
