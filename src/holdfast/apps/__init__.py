"""Applications that come with Holdfast, each with an extra of its own. The engine does not import them."""

from holdfast.engine.store.commands import Store
from holdfast.lifecycles.analysis.store import Analyses


async def offer_bundled(store: Store) -> None:
    """Define what every server offers by itself: the tool profile-my-data, unless an application has defined it.

    `POST /tasks` accepts it from then on; an application runs it with `hf.tool(PROFILE_MY_DATA)`.
    """
    from holdfast.apps.agents import PROFILE_MY_DATA

    await Analyses.over(store).define_tool(PROFILE_MY_DATA.published(), unless_known=True)
