"""The lines of uvicorn and asyncio in the server's log: one JSON object each, as all others."""

from __future__ import annotations

import json
import logging
import traceback
from typing import Any


class JsonLines(logging.Formatter):
    """Writes a record of `logging` with the fields of `weft.serving.request_log.log`; its event is `http`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "time": round(record.created, 3),
            "event": "http",
            "level": record.levelname.lower(),
            "message": record.getMessage().strip(),
        }
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            line["error"] = f"{type(error).__name__}: {error}"
            line["traceback"] = "".join(traceback.format_exception(error))
        return json.dumps(line, default=str)


LOG_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": JsonLines}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}
    },
    "loggers": {
        "uvicorn": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        "asyncio": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
    },
}
"""For `logging.config.dictConfig`, and so for `uvicorn.Config(log_config=…)`."""
