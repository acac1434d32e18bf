"""What a step was made from, in short: a step is left out on `--resume` only while all of it is the same."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from mangrove import __version__
from mangrove.pipelines.output import MARKER, write_json
from mangrove.pipelines.run.document import Job, Pipeline, Step

STATE = ".run"


def of_place(place: str) -> str:
    """A directory or an object store's URL by names, sizes and times of its files; a file by its bytes."""
    from pyarrow import fs

    if "://" not in place:
        path = Path(place)
        if path.is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest()
        found = sorted(each for each in path.rglob("*") if each.is_file())
        rows = [(str(each.relative_to(path)), each.stat().st_size, each.stat().st_mtime_ns) for each in found]
    else:
        system, root = fs.FileSystem.from_uri(place)
        listed = system.get_file_info(fs.FileSelector(root, recursive=True))
        rows = sorted((each.path, each.size or 0, each.mtime_ns or 0) for each in listed if each.is_file)
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def of_step(pipeline: Pipeline, step: Step, job: Job) -> str | None:
    """Job, options and inputs. None: it reads what has none (a catalog's table), so it always runs."""
    values = pipeline.arguments(step, job)
    if job.input and job.input not in values:
        return None
    inputs = {}
    for option in {job.input, *job.paths} & values.keys() - step.uses.keys():
        inputs[option] = of_place(str(values[option]))
    made = {name: of_place(str(pipeline.output_of(name))) for name in step.after}
    text = json.dumps([__version__, step.job, values, inputs, made], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def is_current(pipeline: Pipeline, step: Step, job: Job) -> bool:
    """Whether the step's output is whole, as it was written, and from the same inputs."""
    output = pipeline.output_of(step.name)
    try:
        state: Any = json.loads(_state(pipeline, step).read_bytes())
    except (OSError, ValueError):
        return False
    if not isinstance(state, dict) or not (output / MARKER).is_file():
        return False
    own = of_step(pipeline, step, job)
    return own is not None and state.get("made_from") == own and state.get("output") == of_place(str(output))


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
