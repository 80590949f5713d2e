"""Logs as what other tools read: JSON lines, Parquet, a Hugging Face dataset folder, a Minari dataset.

Heavy libraries are imported when a format that needs them is asked for; `pip install 'errand[export]'` brings them.
"""

from recorder.export.rows import ExportError, Rows

__all__ = ["ExportError", "Rows"]
