"""The steps of a pipeline, and how each is executed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from holdfast.engine.claims import Claiming, PathLike, Paths
from holdfast.engine.executors import RunOn, check_executor
from holdfast.engine.people.questions import FAIL, Inquiry
from holdfast.engine.people.schema import schema_of
from holdfast.engine.policy import StepPolicy
from holdfast.engine.retry import Retry
from holdfast.engine.timers import Sleep
from holdfast.pipeline.problems import shown
from holdfast.pipeline.registry import Registry, ServiceRegistry

MAX_ID: Final = 100
MAX_SECONDS: Final = 1e9  # thirty years
ENDS: Final = ("end", "end_with_success", "end_with_failure")
_ID: Final = re.compile(r"\w[\w-]*")
_RESERVED: Final = (*ENDS, "parameters", "pipeline_input", "steps")
_RETRY: Final = {  # what documents call it, and we
    "attempts": "attempts", "max_attempts": "attempts",
    "backoff": "backoff", "initial_delay": "backoff",
    "longest": "longest", "max_delay": "longest",
    "jitter": "jitter",
}  # fmt: skip


class SettingError(ValueError):
    """A setting of a step that can't be: which, and why."""

    def __init__(self, key: str, words: object) -> None:
        super().__init__(key, words)
        self.key = key
        self.words = words

    def __str__(self) -> str:
        return f"{self.key} {self.words}"


class Step:
    """One unit of work. Subclass it and write `run`, sync or async.

    `run(data)` is given the step's `inputs`, rendered, or else what the step before it returned,
    or else the pipeline's input; what it returns is the step's output, and must be storable. A
    sync one runs on a thread. It finds its `config` and the pipeline's `services` on itself.

    - `retry`: how often it may be tried in all, or a `Retry`.
    - `timeout`: seconds that an attempt may take.
    - `run_on`: the executor that a sync one runs on instead; `inline=True` calls it right on the
      event loop.
    - `fallback(data, error)`: gives the output where all attempts failed; a subclass may have it
      as a method instead.
    - `continue_on_error`: a failure becomes the output: a dict with `step_error`.
    - `outputs` are the files that it writes, `reads` those that it reads, `evidence` whatever else
      is claimed about the world when it is finished: functions of its output will do, too. It
      fails if they are not there or not so; a resume runs it again if they are not any more.
    - `checkpoint=False`: not saved by itself; a crash repeats it, from the last step that was.
    """

    services: ServiceRegistry

    def __init__(
        self,
        id: str,  # noqa: A002 - the word definitions use
        config: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        description: str = "",
        inputs: Any = None,
        retry: int | Retry | Mapping[str, Any] | None = None,
        timeout: float | None = None,
        continue_on_error: bool | None = None,
        fallback: Callable[[Any, Any], Any] | None = None,
        checkpoint: bool | None = None,
        run_on: RunOn | None = None,
        inline: bool = False,
        outputs: Paths = (),
        reads: PathLike | Iterable[PathLike] = (),
        evidence: Any = (),
    ) -> None:
        self.id = _checked_id(id)
        self.name = id if name is None else name
        self.description = description
        self.config = dict(_mapping("config", config))
        handling = _mapping("config", self.config.get("error_handling"))
        if continue_on_error is None:
            continue_on_error = handling.get("continue_on_error", False)
        if checkpoint is None:
            checkpoint = self.config.get("checkpoint", True)
        flags = {"continue_on_error": continue_on_error, "checkpoint": checkpoint, "inline": inline}
        for key, flag in flags.items():
            if not isinstance(flag, bool):
                raise SettingError(key, f"must be true or false, not {shown(flag)}")
        if fallback is not None and not callable(fallback):
            raise SettingError("fallback", f"must be a function, not {shown(fallback)}")
        self.inputs = inputs
        self.continue_on_error = bool(continue_on_error)
        self.checkpoint = bool(checkpoint)
        self._fallback = fallback
        self._retry = _retry(handling.get("retry") if retry is None else retry)
        try:
            self.policy = StepPolicy(
                retry=self._retry,
                timeout=_number("timeout", timeout),
                executor=check_executor("step", run_on),
                inline=inline,
                marked=self.checkpoint,
                claims=Claiming().and_also(outputs, reads, evidence).or_none(),
            )
        except ValueError as error:
            raise SettingError("timeout", str(error).removeprefix("timeout ")) from None

    def run(self, data: Any) -> Any:
        """Do the work; returns the step's output."""
        raise NotImplementedError(f"{type(self).__name__} must define run(self, data)")

    @property
    def call(self) -> Callable[[Any], Any]:
        """What is executed."""
        return self.run

    @property
    def on_failure(self) -> Callable[[Any, Any], Any] | None:
        """What gives the output when all attempts failed, if anything."""
        method: Callable[[Any, Any], Any] | None = getattr(self, "fallback", None)
        return self._fallback or method

    def to_dict(self, registry: Registry) -> dict[str, Any]:
        """The step as a definition has it. Raises `ValueError` for what has no name there."""
        definition: dict[str, Any] = {
            "id": self.id,
            "name": None if self.name == self.id else self.name,
            "description": self.description or None,
            **self._kind(registry),
            "config": self.config or None,
            "inputs": self.inputs,
            "retry": self._retry
            and {key: getattr(self._retry, key) for key in dict.fromkeys(_RETRY.values())},
            "timeout": self.policy.timeout,
            "inline": self.policy.inline or None,
            "continue_on_error": self.continue_on_error or None,
            "fallback": self._fallback and registry.name_of(self._fallback),
            "checkpoint": None if self.checkpoint else False,
            **_paths_in(self.policy.claims),
        }
        return {key: value for key, value in definition.items() if value is not None}

    def _kind(self, registry: Registry) -> dict[str, Any]:
        return {"class": registry.name_of(type(self))}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r}>"


class FunctionStep(Step):
    """A step that is a function of its data."""

    def __init__(self, id: str, function: Callable[[Any], Any], **settings: Any) -> None:  # noqa: A002
        super().__init__(id, **settings)
        self._function = function

    @property
    def call(self) -> Callable[[Any], Any]:
        """The function itself."""
        return self._function

    def _kind(self, registry: Registry) -> dict[str, Any]:
        return {"function": registry.name_of(self._function)}


class HumanInputStep(Step):
    """A step that a person takes: the run pauses until the question is answered.

    The answer is the step's output. `schema` is the JSON Schema of the answer, or a type;
    `choices` narrow it down. Only `assignees` may answer; without them anyone may. When the
    `deadline` passes (a timedelta or seconds from asking, or a datetime), `default` is the answer,
    or the step fails. People see the `prompt` and what `show` renders to, and nothing else.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - the word definitions use
        prompt: str = "",
        schema: Any = None,
        *,
        choices: Sequence[Any] | None = None,
        assignees: Sequence[str] | None = None,
        deadline: timedelta | float | datetime | None = None,
        default: Any = FAIL,
        show: Any = None,
        **settings: Any,
    ) -> None:
        super().__init__(id, **settings)
        for key in ("retry", "timeout", "inputs"):
            if settings.get(key) is not None:
                raise SettingError(key, "means nothing for a step that a person takes")
        if isinstance(schema, str | int | float | list | tuple):
            raise SettingError("schema", f"must be a JSON Schema or a type, not {shown(schema)}")
        kind = (
            {} if schema is None else schema if isinstance(schema, Mapping) else schema_of(schema)
        )
        self.show = show
        try:
            self.inquiry = Inquiry(
                prompt,
                kind,
                None if choices is None else tuple(_list("choices", choices)),
                assignees,
                deadline,
                default,
            )
        except SettingError:
            raise
        except (TypeError, ValueError, ArithmeticError) as error:
            raise SettingError("", str(error)) from None

    def _kind(self, registry: Registry) -> dict[str, Any]:
        asked = self.inquiry
        if isinstance(asked.deadline, datetime):
            raise ValueError(f"step {self.id!r}: a deadline at a fixed time is for one run only")
        schema = dict(asked.schema)
        if asked.choices is not None:
            schema.pop("enum", None)
        within = asked.deadline
        return {
            "type": "human_input",
            "prompt": asked.prompt,
            "schema": schema or None,
            "choices": None if asked.choices is None else list(asked.choices),
            "assignees": None if asked.assignees is None else list(asked.assignees),
            "deadline": within.total_seconds() if isinstance(within, timedelta) else within,
            **({} if asked.default is FAIL else {"default": asked.default}),
            "show": self.show,
        }


class SleepStep(Step):
    """A step that waits, also if the process ends meanwhile: `SleepStep("cool_down", hours=2)`.

    Takes a timedelta or seconds, `days`, `hours`, `minutes` and `seconds`, or a moment `until`,
    which may be text such as "2026-12-24T18:00"; without an offset it is local time. Its output is
    what it was given. A worker leaves the run meanwhile, and continues it when it is due.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - the word definitions use
        duration: timedelta | float | None = None,
        *,
        until: datetime | str | None = None,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        **settings: Any,
    ) -> None:
        super().__init__(id, **settings)
        for key in ("retry", "timeout"):
            if settings.get(key) is not None:
                raise SettingError(key, "means nothing for a step that waits")
        parts = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
        self._parts = {key: _number(key, value) or 0 for key, value in parts.items() if value}
        self._until = until
        try:
            moment = datetime.fromisoformat(until) if isinstance(until, str) else until
            total = timedelta(**self._parts) if self._parts else duration
            if self._parts and duration is not None:
                raise TypeError("takes one duration, or days, hours, minutes and seconds")
            self._sleep = Sleep(total, until=moment, passes_on=True)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise SettingError("", str(error)) from None

    @property
    def call(self) -> Callable[[Any], Any]:
        """What waits."""
        return self._sleep

    def _kind(self, registry: Registry) -> dict[str, Any]:
        if isinstance(self._until, datetime):
            moment: str | None = self._until.isoformat()
        else:
            moment = self._until
        if moment is not None:
            return {"type": "sleep", "until": moment}
        return {"type": "sleep", **(self._parts or {"seconds": self._sleep.seconds})}


def _paths_in(claims: Claiming | None) -> dict[str, list[str]]:
    """The files of a step, as a definition has them. Raises `ValueError` for values that are not data."""
    if claims is None:
        return {}
    if claims.evidence or any(callable(path) for path in (*claims.outputs, *claims.reads)):
        raise ValueError("evidence, and paths that a function gives, can't be exported")
    files = {"outputs": claims.outputs, "reads": claims.reads}
    return {key: [os.fspath(path) for path in paths] for key, paths in files.items() if paths}


def _checked_id(given: object) -> str:
    if not isinstance(given, str) or not _ID.fullmatch(given) or len(given) > MAX_ID:
        raise SettingError(
            "id",
            f"must be letters, digits, '_' and '-', at most {MAX_ID}, not {shown(given)}",
        )
    if given in _RESERVED:
        raise SettingError("id", f"can't be {given!r}, which means something else in definitions")
    return given


def _retry(given: object) -> Retry | None:
    if given is None or isinstance(given, Retry):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        settings: dict[str, Any] = {"attempts": given}
    elif isinstance(given, Mapping):
        unknown = [key for key in given if key not in _RETRY]
        if unknown:
            raise SettingError(
                "retry", f"has no {shown(unknown[0])}; known are {', '.join(_RETRY)}"
            )
        settings = {_RETRY[key]: value for key, value in given.items()}
        if isinstance(settings.get("jitter"), bool):
            settings["jitter"] = 0.1 if settings["jitter"] else 0.0
    else:
        raise SettingError(
            "retry", f"must be a number of attempts or a mapping, not {shown(given)}"
        )
    for key, value in settings.items():
        kind = int if key == "attempts" else (int, float)
        if not isinstance(value, kind) or isinstance(value, bool) or value > MAX_SECONDS:
            what = "a number of at most a billion"
            raise SettingError("retry", f"{key} must be {what}, not {shown(value)}")
    try:
        return Retry(**settings)
    except ValueError as error:
        raise SettingError("retry", str(error)) from None


def _mapping(key: str, given: object) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise SettingError(key, f"must be a mapping, not {shown(given)}")
    return given


def _list(key: str, given: object) -> Sequence[Any]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise SettingError(key, f"must be a list, not {shown(given)}")
    return given


def _number(key: str, given: object) -> float | None:
    if given is None:
        return None
    if isinstance(given, int | float) and not isinstance(given, bool) and given <= MAX_SECONDS:
        return given
    what = "a number of seconds, at most a billion"
    raise SettingError(key, f"must be {what}, not {shown(given)}")
