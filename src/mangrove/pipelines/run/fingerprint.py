"""What a step was made from, in short: a step is left out on `--resume` only while all of it is the same."""

from __future__ import annotations

import hashlib
import json
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from mangrove import __version__
from mangrove.errors import InputError
from mangrove.pipelines.output import MARKER, write_json
from mangrove.pipelines.run.document import Job, Pipeline, Step

STATE = ".run"

Row = tuple[str, int, int]


def of_place(place: str) -> str | None:
    """A directory or an object store's URL by names, sizes and times of its files; a file by its bytes.

    None: it cannot be looked at.
    """
    from pyarrow import ArrowException

    try:
        rows = _listed(place) if "://" in place else _found(Path(place))
    except (OSError, ArrowException, InputError):
        return None
    return rows if isinstance(rows, str) else hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _listed(url: str) -> list[Row]:
    from pyarrow import fs

    from mangrove.lake.files import open_filesystem

    system, root = open_filesystem(url)
    listed = system.get_file_info(fs.FileSelector(root, recursive=True))
    return sorted((each.path, each.size or 0, each.mtime_ns or 0) for each in listed if each.is_file)


def _found(path: Path) -> list[Row] | str:
    """Files below a directory, those that vanish meanwhile left out; of a file, a digest."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    rows = []
    for each in sorted(path.rglob("*")):
        with suppress(FileNotFoundError):
            told = each.stat()
            if stat.S_ISREG(told.st_mode):
                rows.append((str(each.relative_to(path)), told.st_size, told.st_mtime_ns))
    return rows


def of_step(pipeline: Pipeline, step: Step, job: Job) -> str | None:
    """Job, options and inputs. None: one of them has none (a catalog's table), so it always runs."""
    values = pipeline.arguments(step, job)
    if job.input and job.input not in values:
        return None
    inputs = {}
    for option in {job.input, *job.paths} & values.keys() - step.uses.keys():
        inputs[option] = of_place(str(values[option]))
    made = {name: of_place(str(pipeline.output_of(name))) for name in step.after}
    if None in inputs.values() or None in made.values():
        return None
    text = json.dumps([__version__, step.job, values, inputs, made], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def is_current(pipeline: Pipeline, step: Step, job: Job) -> bool:
    """Whether the step's output is whole, as it was written, and from the same inputs."""
    output = pipeline.output_of(step.name)
    try:
        state: Any = json.loads(_state(pipeline, step).read_bytes())
        there = (output / MARKER).is_file()
    except (OSError, ValueError):
        return False
    if not isinstance(state, dict) or not there:
        return False
    own, written = of_step(pipeline, step, job), of_place(str(output))
    if own is None or written is None:
        return False
    return bool(state.get("made_from") == own and state.get("output") == written)


def remember(pipeline: Pipeline, step: Step, made_from: str | None) -> None:
    """Note that the step's output is there, from this."""
    path = _state(pipeline, step)
    path.parent.mkdir(parents=True, exist_ok=True)
    output = of_place(str(pipeline.output_of(step.name)))
    temporary = path.with_suffix(".new")
    write_json(temporary, {"made_from": made_from, "output": output})
    temporary.replace(path)


def forget(pipeline: Pipeline, step: Step) -> None:
    """Before it is made anew: whoever stops us in between leaves nothing that looks finished."""
    _state(pipeline, step).unlink(missing_ok=True)


def _state(pipeline: Pipeline, step: Step) -> Path:
    return pipeline.output / STATE / f"{step.name}.json"
