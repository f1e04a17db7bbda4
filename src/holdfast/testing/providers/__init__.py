"""Fake servers of providers: they answer as the vendors do, and go wrong when a test asks for it."""

from holdfast.testing.providers.faults import Fault as Fault
from holdfast.testing.providers.faults import Faults as Faults
from holdfast.testing.providers.faults import Seen as Seen
from holdfast.testing.providers.faults import change as change
from holdfast.testing.providers.faults import delay as delay
from holdfast.testing.providers.faults import drip as drip
from holdfast.testing.providers.faults import dropped as dropped
from holdfast.testing.providers.faults import gzipped as gzipped
from holdfast.testing.providers.faults import html as html
from holdfast.testing.providers.faults import lost_answer as lost_answer
from holdfast.testing.providers.faults import rewrite as rewrite
from holdfast.testing.providers.faults import status as status
from holdfast.testing.providers.faults import truncated as truncated
from holdfast.testing.providers.openai import OpenAIStandIn as OpenAIStandIn
from holdfast.testing.providers.openai import Script as Script
from holdfast.testing.providers.serving import Forward as Forward
from holdfast.testing.providers.serving import Server as Server
from holdfast.testing.providers.serving import ServerProcess as ServerProcess
