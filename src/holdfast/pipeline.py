"""Pipelines: what a stage can call while it runs."""

from holdfast.lifecycles.pipeline.notes import Skip as Skip
from holdfast.lifecycles.pipeline.notes import keep_settings as keep_settings
from holdfast.lifecycles.pipeline.notes import output as output
from holdfast.lifecycles.pipeline.notes import problem as problem
