"""Applications that come with Holdfast, each with an extra of its own. The engine does not import them."""
