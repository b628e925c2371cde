"""weft's `predict` as a model of LitServe; its worker process imports this module."""

from __future__ import annotations

import os
from typing import Any

import litserve as ls

import weft


class Api(ls.LitAPI):
    """Answers a batch of requests by one call of `predict`."""

    def setup(self, device: Any) -> None:
        """Load the bundle."""
        self.model = weft.load(os.environ["BENCH_BUNDLE"], device=os.environ["BENCH_DEVICE"])

    def decode_request(self, request):  # a type here would be read as one of FastAPI
        """Return (task, text) of each text; one request holds one text or several."""
        asked = request.get("requests", [request])
        return [
            (one["task"], one["text"] if "text" in one else (one["text_a"], one["text_b"])) for one in asked
        ]

    def predict(self, batch: Any) -> Any:
        """Answer all texts of a batch together."""
        answers = iter(self.model.predict([text for texts in batch for text in texts]))
        return [[next(answers) for _ in texts] for texts in batch]

    def encode_response(self, output: Any) -> dict[str, Any]:
        """The answers of one request."""
        return {"answers": output}


def run(bundle: str, port: int, device: str) -> None:
    """Serve until the process is stopped."""
    os.environ |= {"BENCH_BUNDLE": bundle, "BENCH_DEVICE": device}
    api = Api(max_batch_size=32, batch_timeout=0.005, api_path="/v1/predict")
    server = ls.LitServer(api, accelerator="cpu" if device == "cpu" else "auto", workers_per_device=1)
    server.run(port=port, generate_client_file=False, log_level="critical", host="127.0.0.1")
