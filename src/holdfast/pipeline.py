"""Pipelines: what a stage can call while it runs."""

from holdfast.lifecycles.pipeline.handlers import Skip as Skip
from holdfast.lifecycles.pipeline.handlers import keep_settings as keep_settings
from holdfast.lifecycles.pipeline.handlers import output as output
from holdfast.lifecycles.pipeline.handlers import problem as problem
