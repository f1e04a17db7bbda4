"""Batches: what a provider of yours is made of."""

from holdfast.providers.door import CannotCancel as CannotCancel
from holdfast.providers.door import CannotTell as CannotTell
from holdfast.providers.door import Ended as Ended
from holdfast.providers.door import Input as Input
from holdfast.providers.door import Job as Job
from holdfast.providers.door import Provider as Provider
from holdfast.providers.door import Result as Result
from holdfast.providers.door import Running as Running
from holdfast.providers.door import Usage as Usage
