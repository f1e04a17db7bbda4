"""Tables in datasets: what a task can call to read and write Parquet."""

from holdfast.datasets.tables import Table as Table
from holdfast.datasets.tables import read_table as read_table
from holdfast.datasets.tables import write_table as write_table
