"""The OpenAPI document of a server: every path, with one example request per task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.serving.questions.sample_requests import sample_request
from weft.serving.refused import STATUS

if TYPE_CHECKING:
    from weft.serving.settings import ServeSettings
    from weft.tasks.task import Task


def openapi(tasks: Sequence[Task], version: str, settings: ServeSettings) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document.

    Args:
        tasks: the tasks that are served.
        version: the version of weft.
        settings: the limits, and whether keys are needed.
    """
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "weft",
            "version": version,
            "description": "One encoder, many tasks. GET /v1/tasks lists the tasks.",
        },
        "paths": {
            "/v1/predict": {"post": _predict(tasks, settings)},
            "/v1/embed": {"post": _embed(tasks, settings)},
            "/v1/tasks": {
                "get": _plain("List the tasks", "kind, labels, inputs and an example request each")
            },
            "/health/live": {"get": _plain("Whether the process runs", "200, or 503 if loading has failed")},
            "/health/ready": {"get": _plain("Whether requests are answered", "200, else 503")},
            "/metrics": {"get": _plain("Metrics for Prometheus", "text")},
        },
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }
    if settings.admin:
        document["paths"]["/v1/tasks/{name}"] = {"put": _put(), "delete": _delete()}
    if settings.keys:
        document["security"] = [{"key": []}]
    return document


_TEXT = {"type": "string"}
_NAMES = {"type": "array", "items": _TEXT}
_QUESTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "task": {**_TEXT, "description": "the name of a task; optional if there is one task"},
        "tasks": {
            "oneOf": [{"const": "all"}, _NAMES],
            "description": "many tasks on one text, instead of 'task'",
        },
        "text": {"description": "a text, or for tagging a list of words", "oneOf": [_TEXT, _NAMES]},
        "text_a": {**_TEXT, "description": "the first text of a pair"},
        "text_b": {**_TEXT, "description": "the second text of a pair"},
        "choices": {**_NAMES, "description": "what to choose from, or to rank"},
        "texts": {"type": "array", "description": "many inputs: texts, or pairs as lists of two"},
        "id": {"description": "copied to the answer"},
    },
    "additionalProperties": {"description": "the columns of the task's files, by their own names"},
}
_ERROR: dict[str, Any] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"enum": sorted(STATUS)},
                "message": _TEXT,
                "where": {**_TEXT, "description": "the place in the request's body"},
            },
        }
    },
}
_TIMEOUT = {"type": "number", "description": "milliseconds that the request may take"}


def _predict(tasks: Sequence[Task], settings: ServeSettings) -> dict[str, Any]:
    examples: dict[str, Any] = {task.name: {"value": sample_request(task)} for task in tasks}
    if len(tasks) > 1:
        first, second = (sample_request(task) for task in tasks[:2])
        examples["(a mixed batch)"] = {"value": {"requests": [first, second]}}
        examples["(all tasks)"] = {"value": {"tasks": "all", "text": "Anna moved to Oslo in 2019."}}
    many = {"type": "array", "items": _QUESTION, "maxItems": settings.texts}
    body = {
        "oneOf": [
            {**_QUESTION, "properties": {**_QUESTION["properties"], "timeout_ms": _TIMEOUT}},
            {
                "type": "object",
                "required": ["requests"],
                "properties": {"requests": many, "timeout_ms": _TIMEOUT},
            },
        ]
    }
    answers = {
        "type": "object",
        "properties": {
            "bundle": {**_TEXT, "description": "the sha256 of the model that answered"},
            "answers": {"type": "array", "items": {"type": "object"}},
        },
    }
    return _operation("Answer texts for tasks", body, examples, answers)


def _embed(tasks: Sequence[Task], settings: ServeSettings) -> dict[str, Any]:
    body = {
        "type": "object",
        "properties": {
            "text": _TEXT,
            "texts": {"type": "array", "maxItems": settings.texts},
            "task": {**_TEXT, "description": "use this task's adapters; default: the encoder alone"},
            "normalize": {"type": "boolean", "default": False},
            "timeout_ms": _TIMEOUT,
        },
    }
    examples: dict[str, Any] = {"(the encoder alone)": {"value": {"texts": ["It rains."], "normalize": True}}}
    examples |= {task.name: {"value": {"texts": ["It rains."], "task": task.name}} for task in tasks[:1]}
    vectors = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
    answers = {"type": "object", "properties": {"bundle": _TEXT, "embeddings": vectors}}
    return _operation("Embed texts", body, examples, answers)


def _operation(
    summary: str, body: dict[str, Any], examples: dict[str, Any], answers: dict[str, Any]
) -> dict[str, Any]:
    json = "application/json"
    errors = ("400", "401", "403", "404", "408", "413", "415", "422", "429", "500", "503", "504")
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {json: {"schema": body, "examples": examples}}},
        "responses": {
            "200": {"description": "the answers", "content": {json: {"schema": answers}}},
            **_refused(errors),
        },
    }


def _refused(statuses: Sequence[str]) -> dict[str, Any]:
    """The responses of a request that is refused, by status."""
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {status: {"description": "refused", "content": content} for status in statuses}


_ADMIN_ERRORS = ("401", "403", "405", "409", "503")


def _plain(summary: str, result: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": {"description": result}}}


_NAME = {"name": "name", "in": "path", "required": True, "schema": _TEXT}


def _put() -> dict[str, Any]:
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {
        "summary": "Add or replace a task",
        "parameters": [_NAME],
        "requestBody": {
            "required": True,
            "description": "tasks/NAME.safetensors of a bundle",
            "content": content,
        },
        "responses": {
            "200": {"description": "replaced"},
            "201": {"description": "added"},
            **_refused((*_ADMIN_ERRORS, "408", "413", "422")),
        },
        "security": [{"key": []}],
    }


def _delete() -> dict[str, Any]:
    return {
        "summary": "Remove a task",
        "parameters": [_NAME],
        "responses": {"200": {"description": "removed"}, **_refused((*_ADMIN_ERRORS, "404"))},
        "security": [{"key": []}],
    }
