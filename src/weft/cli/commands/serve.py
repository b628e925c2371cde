"""`weft serve`: an HTTP server for all tasks of a bundle."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.completion import among
from weft.cli.options import Address, BackendOption, BundleOrExport, Device, EncoderOption, On
from weft.cli.output import print_note
from weft.errors import WeftError
from weft.utils.ray_start import refuse_without_ray


def serve(
    bundle: BundleOrExport,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="address to listen at")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, help="port, up to 65535; 0: any free one")] = 8000,
    precision: Annotated[
        str,
        typer.Option(
            metavar="PRECISION",
            autocompletion=among("float32", "bf16", "int8"),
            help="float32, bf16 or int8; bf16 and int8 (CPU only) are faster, and outputs differ slightly",
        ),
    ] = "float32",
    admin: Annotated[
        bool, typer.Option("--admin", help="let clients add, replace and remove tasks: PUT and DELETE")
    ] = False,
    spare: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="with --admin: spare slots for tasks of each head shape"),
    ] = 4,
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="API keys, one per line; or the environment's WEFT_API_KEYS; /metrics and /openapi.json "
            "need a key then too",
        ),
    ] = None,
    admin_keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="with --admin: keys for changing tasks, one per line; or the environment's WEFT_ADMIN_KEYS",
        ),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="web pages of this origin may send requests, such as https://shop.example; *: of any; may "
            "be repeated",
        ),
    ] = None,
    queue: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="texts that may wait; beyond it requests get status 429; default: 4096"
        ),
    ] = None,
    deadline: Annotated[
        float, typer.Option(metavar="SECONDS", help="a request that waits longer gets status 504")
    ] = 30.0,
    tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="token positions of a batch, padding included; default: 16384 on a GPU, measured on a CPU",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="CPU threads that run the model; default: one per core"),
    ] = None,
    http_processes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="processes that read, tokenize and write; default: 4 on a GPU with 8 cores, else none",
        ),
    ] = None,
    max_body: Annotated[int, typer.Option(metavar="BYTES", min=1, help="longest body of a request")] = 8
    << 20,
    max_texts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="most texts of a request; default: 1024, or that of --queue if it is smaller",
        ),
    ] = None,
    max_characters: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="most characters of one input: a text, a pair together, or a text with its choices together",
        ),
    ] = 100_000,
    log: Annotated[
        str,
        typer.Option(
            metavar="requests|errors|none",
            autocompletion=among("requests", "errors", "none"),
            help="what to log on standard error, one JSON object per line, without texts",
        ),
    ] = "requests",
    log_texts: Annotated[bool, typer.Option("--log-texts", help="log the texts of requests too")] = False,
    page: Annotated[
        bool, typer.Option("--page/--no-page", help="show a web page at / to try the tasks")
    ] = True,
    backend: BackendOption = None,
    encoder: EncoderOption = None,
    device: Device = None,
    on: On = None,
    address: Address = None,
    replicas: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="with --on ray: number of replicas; default: 1")
    ] = None,
    cpus_per_replica: Annotated[
        float | None,
        typer.Option(metavar="N", help="with --on ray: CPU cores of each replica; default: 1"),
    ] = None,
    gpus_per_replica: Annotated[
        float | None, typer.Option(metavar="N", help="with --on ray: GPUs of each replica; default: 0")
    ] = None,
) -> None:
    """Serve all tasks of a model over HTTP.

    One encoder answers every task, and one batch may mix them. POST /v1/predict takes one request or many;
    GET /v1/tasks lists the tasks with an example request each; the page at / lets you try them. Ctrl-C or
    SIGTERM stops the server after the accepted requests were answered. docs/serving.md has the whole API.

    Example: weft serve runs/first

    Example: weft export runs/first --to onnx --out exported && weft serve exported

    Example: weft serve runs/first --host 0.0.0.0 --port 8080 --keys keys.txt

    Example: weft serve runs/first --on ray --replicas 4 --gpus-per-replica 1

    Example: curl localhost:8000/v1/predict -d '{"task": "sentiment", "text": "A fine film."}'
    """
    of_ray = {"--replicas": replicas, "--cpus-per-replica": cpus_per_replica}
    refuse_without_ray(on, {"--address": address, **of_ray, "--gpus-per-replica": gpus_per_replica})
    if port > 65535:
        raise WeftError(f"--port {port}: expected a port from 0 to 65535")
    if admin_keys is not None and not admin:
        raise WeftError(
            f"--admin-keys {admin_keys}: these are keys for changing tasks, and without --admin nobody can "
            "change them; add --admin, or leave --admin-keys out"
        )
    for origin in cors or ():
        _check_origin(origin)
    from weft.serving.http.keys import ADMIN_KEYS, KEYS, read_keys
    from weft.serving.server import serve as run
    from weft.serving.settings import ServeSettings

    queue, max_texts = _sizes(queue, max_texts, ServeSettings.queue, ServeSettings.texts)
    settings = ServeSettings(
        precision=precision,
        device=device,
        encoder=encoder,
        backend=backend,
        threads=threads,
        tokens=tokens,
        queue=queue,
        deadline=deadline,
        body=max_body,
        texts=max_texts,
        characters=max_characters,
        admin=admin,
        spare=spare,
        keys=read_keys("--keys", keys, KEYS),
        admin_keys=read_keys("--admin-keys", admin_keys, ADMIN_KEYS),
        cors=tuple(cors or ()),
        log=log,
        log_texts=log_texts,
        page=page,
    )
    if on is None:
        run(bundle, settings, host, port, print_note, http_processes)
        return
    if http_processes is not None:
        raise WeftError("--http-processes does not go with --on ray; there, --replicas sets how many serve")
    from weft.serving.replicas.on_ray import Replicas, serve_on_ray

    cores = 1.0 if cpus_per_replica is None else cpus_per_replica
    how = Replicas(replicas or 1, address, cores, gpus_per_replica or 0.0)
    serve_on_ray(bundle, settings, how, host, port, print_note)


def _sizes(queue: int | None, most: int | None, usual_queue: int, usual_most: int) -> tuple[int, int]:
    """The values of --queue and --max-texts: a request with more texts than may wait would never be answered.

    Args:
        queue: --queue, if it is given.
        most: --max-texts, if it is given.
        usual_queue: the default of the first.
        usual_most: the default of the second.
    """
    size = usual_queue if queue is None else queue
    if most is not None and most > size:
        default = ", its default" if queue is None else ""
        raise WeftError(
            f"--max-texts {most}: expected at most the texts that may wait, --queue {size}{default}; "
            f"add --queue {most}, or take --max-texts {size}"
        )
    if most is None and size < usual_most:
        print_note(f"a request may have at most {size} texts, because --queue is {size}")
    return size, min(usual_most, size) if most is None else most


def _check_origin(origin: str) -> None:
    """Refuse what no browser sends as `Origin`, and what could therefore never match."""
    host = r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\]"
    if origin == "*" or re.fullmatch(rf"[a-z][a-z0-9+.-]*://({host})(:[0-9]{{1,5}})?", origin):
        port = {"http": ":80", "https": ":443"}.get(origin.partition(":")[0])
        if port is None or not origin.endswith(port) or origin.endswith("]"):
            return
        why = f"browsers leave out {port}, the usual port"
    elif "://" not in origin:
        why = "the scheme is missing"
    else:
        why = "browsers send it in lower case and without a path"
    raise WeftError(
        f"--cors {origin}: expected an origin, scheme://host or scheme://host:port, such as "
        f"https://shop.example, or * for any; {why}"
    )
