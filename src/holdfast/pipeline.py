"""Pipelines: what a stage can call while it runs."""

from holdfast.lifecycles.pipeline.handlers import Skip as Skip
from holdfast.lifecycles.pipeline.handlers import attach as attach
from holdfast.lifecycles.pipeline.handlers import keep_settings as keep_settings
from holdfast.lifecycles.pipeline.handlers import problem as problem

output = attach
"""The name of `attach` until now: `holdfast.output` is the output of any task, for a dataset."""
