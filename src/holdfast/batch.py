"""Batches: what a provider of yours is made of."""

from holdfast.lifecycles.batch.provider import CannotCancel as CannotCancel
from holdfast.lifecycles.batch.provider import CannotTell as CannotTell
from holdfast.lifecycles.batch.provider import Ended as Ended
from holdfast.lifecycles.batch.provider import Input as Input
from holdfast.lifecycles.batch.provider import Job as Job
from holdfast.lifecycles.batch.provider import Provider as Provider
from holdfast.lifecycles.batch.provider import Result as Result
from holdfast.lifecycles.batch.provider import Running as Running
from holdfast.lifecycles.batch.provider import Usage as Usage
