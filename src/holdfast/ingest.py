"""Document ingestion: the steps that come with it, and what your own are run with."""

from holdfast.apps.documents.ingestion import Documents as Documents
from holdfast.apps.documents.ingestion import Part as Part
from holdfast.apps.documents.ingestion import Raw as Raw
from holdfast.apps.documents.ingestion import Text as Text
from holdfast.lifecycles.ingest.handlers import Envelope as Envelope
from holdfast.lifecycles.ingest.handlers import result_from_exception as result_from_exception
from holdfast.lifecycles.ingest.handlers import run_parallel_steps as run_parallel_steps
from holdfast.lifecycles.ingest.handlers import run_step as run_step
from holdfast.lifecycles.ingest.handlers import skip_step as skip_step
