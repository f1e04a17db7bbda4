"""Document ingestion: the steps that come with it, and what your own are run with."""

from holdfast.lifecycles.ingest.documents import Documents as Documents
from holdfast.lifecycles.ingest.documents import Part as Part
from holdfast.lifecycles.ingest.documents import Raw as Raw
from holdfast.lifecycles.ingest.documents import Text as Text
from holdfast.lifecycles.ingest.envelope import Envelope as Envelope
from holdfast.lifecycles.ingest.envelope import result_from_exception as result_from_exception
from holdfast.lifecycles.ingest.running import run_parallel_steps as run_parallel_steps
from holdfast.lifecycles.ingest.running import run_step as run_step
from holdfast.lifecycles.ingest.running import skip_step as skip_step
