"""The run file: TOML plus `key=value` overrides, checked as a whole, defaults from the paper."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from mintact_platform.errors import ConfigurationError, near_match, shown
from mintact_platform.overrides import apply_overrides
from mintact_platform.registry.numbers import plain_numbers
from mintact_platform.registry.settings import (
    DomainName,
    Requirement,
    Seconds,
    Temperature,
    TemperatureOrGreedy,
)


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False
    )

    _numbers = plain_numbers


class Plugin(_Section):
    """A plugin chosen by name and configured by parameters; in the file a bare name will do."""

    name: str
    params: dict[str, Any] = Field(default_factory=dict)


def _plugin(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


Beta = Annotated[float, Field(ge=0, lt=1)]

PluginChoice = Annotated[Plugin, BeforeValidator(_plugin)]


class JudgePlugin(Plugin):
    """A judge and how much may be asked of it; in the file a bare name will do."""

    concurrency: int = Field(default=8, gt=0)
    """Judgements at a time."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    """Attempts a minute; None sets no limit."""
    retries: int = Field(default=1, ge=0)
    """Attempts after a failed one."""
    cache: bool = False
    """Keep verdicts in the run's `cache/judgements` and ask nothing twice."""


JudgeChoice = Annotated[JudgePlugin, BeforeValidator(_plugin)]


class ModelSection(_Section):
    """The policy to start from."""

    path: str = ""
    """Directory in Hugging Face layout: config.json, model.safetensors, tokenizer.json."""
    chat: str = "qwen3-vl"
    """Registered chat format."""
    image_area: int = Field(default=921_600, gt=0)
    """Area cap of an image in pixels (paper: 0.92 Mpx for multi-step)."""


class DomainSection(_Section):
    """One domain of the mixture."""

    environment: str
    """Registered environment."""
    params: dict[str, Any] = Field(default_factory=dict)
    """The environment's parameters."""
    tasks: str
    """`<task set>:<split>`."""
    task_params: dict[str, Any] = Field(default_factory=dict)
    """The task set's parameters."""
    action_space: PluginChoice | None = None
    """Registered action space; None takes the environment's own."""
    judge: JudgeChoice = JudgePlugin(name="state")
    """Registered judge."""
    quota: int = Field(default=16, ge=0, le=10**6)
    """Groups of this domain in a batch."""
    max_turns: int = Field(default=30, gt=0)
    """Turns a rollout may take (paper: 30 for UI, 100 for tools)."""
    instances: int = Field(default=4, gt=0, le=10**5)
    """Environment instances started here."""
    servers: list[str] = Field(default_factory=list)
    """Environment servers to use; empty starts one here."""
    python: str | None = None
    """Interpreter of the workers; None is this one."""
    image_format: Literal["png", "jpeg"] = "png"
    """Encoding of screenshots."""
    transport: Literal["auto", "stream", "http"] = "auto"
    """How calls travel to the servers; `auto` prefers the stream."""
    spares: int = Field(default=0, ge=0)
    """Instances kept booted beyond those in use, on a server started here."""
    bearer_env: str | None = None
    """Environment variable that holds the bearer token of `servers`."""


class RolloutSection(_Section):
    """How trajectories are generated."""

    engine: str = "embedded"
    params: dict[str, Any] = Field(default_factory=dict)
    group_size: int = Field(default=8, gt=1, le=10**5)
    """N, rollouts of one task."""
    active: int = Field(default=32, gt=0, le=10**6)
    """Concurrent rollouts."""
    temperature: Temperature = 1.0
    max_new_tokens: int = Field(default=128, gt=0)
    max_context: int = Field(default=4096, gt=0)
    """Tokens of a conversation; an engine that speaks messages has its endpoint's limit instead."""
    retries: int = Field(default=1, ge=0)
    """Times a failed rollout is run again."""
    min_live: int = Field(default=2, ge=2)
    """A group with fewer live rollouts is dropped."""
    max_error_turns: int = Field(default=3, gt=0)
    """Unusable responses after which a rollout ends as agent_error."""
    deterministic: bool = False
    tools_in: Literal["system", "message"] = "system"
    image_transport: Literal["auto", "path", "inline"] = "auto"
    max_gap: float = Field(default=1e-2, gt=0)
    """Largest trainer/engine log-probability difference the pre-flight accepts."""
    internal_failures: int = Field(default=20, gt=0)
    """The run stops after so many internal failures in a row."""


class ScheduleSection(_Section):
    """Queue, quotas, flow control."""

    mode: Literal["async", "synchronous"] = "async"
    mixture: PluginChoice = Plugin(name="fixed")
    flow_control: PluginChoice = Plugin(name="quota_normalised")
    fill: Literal["quotas", "fifo"] = "quotas"
    """`fifo` fills batches in order of acceptance, whatever the domain: for comparison."""
    capacity_batches: int = Field(default=2, gt=0)
    eviction: Literal["surplus", "oldest"] = "surplus"
    fallback_after: Seconds = 120.0
    """Seconds without a full batch after which quotas are relaxed."""
    max_staleness: int = Field(default=2, ge=0)
    """η, in weight versions."""
    on_stale: Literal["evict", "train"] = "evict"


class SyncSection(_Section):
    """Weight synchronisation."""

    every: int = Field(default=4, gt=0)
    """K, trainer steps between pushes."""
    mode: Literal["drain", "abort_resume", "retract", "in_place"] = "drain"
    """What becomes of requests that run while weights move; others than `drain` (paper) need an
    engine that declares them."""


class TrainerSection(_Section):
    """The trainer plugin and its optimiser."""

    name: str = "torch"
    params: dict[str, Any] = Field(default_factory=dict)
    lr: float = Field(default=1e-6, gt=0)
    betas: tuple[Beta, Beta] = (0.9, 0.98)
    weight_decay: float = Field(default=0.0, ge=0)
    grad_clip: float = Field(default=1.0, gt=0)
    warmup: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises linearly."""
    steps: int = Field(default=200, gt=0)
    updates: int = Field(default=1, gt=0)
    """Optimiser updates a batch is split into, by whole groups."""
    micro_batch_tokens: int = Field(default=8192, gt=0)
    checkpoint_every: Literal["push"] | Annotated[int, Field(gt=0)] = "push"
    checkpoints_kept: int = Field(default=2, gt=0)


class SftSection(_Section):
    """Supervised fine-tuning (`mintact sft`)."""

    steps: int = Field(default=320, gt=0)
    lr: float = Field(default=3e-3, gt=0)
    final_lr_share: float = Field(default=0.1, ge=0, le=1)
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    warmup: int = Field(default=10, ge=0)
    batch: int = Field(default=32, gt=0)
    """Rows of a step."""
    data: list[dict[str, Any]] = Field(default_factory=list)
    """`{ name, params, share }`: registered demonstrations and their share of each batch."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the trainer's supervised step, e.g. `guidance`."""
    action_spaces: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Parameters of the action spaces whose prompts are rendered; a domain's own come first."""
    gate: float | None = Field(default=None, ge=0, le=1)
    """Greedy success that every domain must reach; None trains `steps` and stops."""
    gate_episodes: int = Field(default=32, gt=0)
    gate_steps: int = Field(default=60, gt=0)
    """Further steps when the gate is missed."""
    gate_rounds: int = Field(default=4, ge=0)
    """How often further steps are given."""
    checkpoint_every: int = Field(default=50, gt=0)
    """Steps from one checkpoint to the next; `--resume` goes on from the newest."""


class ObjectiveSection(_Section):
    """The loss."""

    preset: str = "mintact"
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the objective function."""
    advantage: PluginChoice | None = None
    correction: PluginChoice | None = None
    normaliser: PluginChoice | None = None
    objective: PluginChoice | None = None
    """These four replace a part of the preset."""
    terms: tuple[PluginChoice, ...] | None = None
    """Objectives added to the loss without the correction: KL penalties, an entropy bonus."""
    prox: Literal["deployed", "current", "behaviour"] = "deployed"
    length_cap: int = Field(default=2048, gt=0)
    """L_cap of the normaliser."""
    segments: Literal["longest", "all"] = "longest"


class EvaluationSection(_Section):
    """Held-out success during a run."""

    split: Literal["train", "validation", "test"] = "test"
    episodes: int = Field(default=0, ge=0, le=10**6)
    """Held-out tasks a domain, before the first step and after the last; 0 for none."""
    every: int = Field(default=0, ge=0)
    """Also every so many steps, where weights are pushed, with `progress_episodes`; 0: never."""
    progress_episodes: int = Field(default=32, gt=0)
    stop_at: float | None = Field(default=None, ge=0, le=1)
    """The run ends early once the mean over the domains reached this in two checks in a row."""
    temperature: TemperatureOrGreedy | None = None
    """None takes the rollout's; 0 is greedy."""


class Deadlines(_Section):
    """Seconds a phase may take."""

    create: Seconds = 120.0
    reset: Seconds = 60.0
    step: Seconds = 30.0
    evaluate: Seconds = 60.0
    close: Seconds = 10.0
    generate: Seconds = 120.0
    judge: Seconds = 120.0
    train: Seconds = 3600.0
    push: Seconds = 600.0
    start: Seconds = 300.0


class RunConfig(_Section):
    """A whole run. Quotas and batch sizes count groups, durations are seconds."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    seed: int = Field(default=0, ge=0, lt=2**31)
    preset: Literal["default", "paper"] = "default"
    """`paper` restores the paper's literal choices where ours differ."""
    required_plugins: tuple[Requirement, ...] = ()
    """Distributions that must be installed, as pip takes them: `mintact-env-desktop>=0.2`."""
    model: ModelSection = ModelSection()
    domains: dict[DomainName, DomainSection] = Field(default_factory=dict)
    rollout: RolloutSection = RolloutSection()
    schedule: ScheduleSection = ScheduleSection()
    sync: SyncSection = SyncSection()
    trainer: TrainerSection = TrainerSection()
    sft: SftSection = SftSection()
    objective: ObjectiveSection = ObjectiveSection()
    evaluation: EvaluationSection = EvaluationSection()
    deadlines: Deadlines = Deadlines()

    @model_validator(mode="before")
    @classmethod
    def _paper(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("preset") == "paper":
            schedule = {"eviction": "oldest", **values.get("schedule", {})}
            return {**values, "schedule": schedule}
        return values

    @model_validator(mode="after")
    def _whole(self) -> RunConfig:
        if self.rollout.min_live > self.rollout.group_size:
            raise ValueError("rollout.min_live is larger than rollout.group_size")
        if self.domains and not self.batch_groups:
            raise ValueError("all domains have quota 0; give one of domains.*.quota a number")
        return self

    @property
    def quotas(self) -> dict[str, int]:
        """q_d in groups; Σ q_d is the batch size B."""
        return {name: domain.quota for name, domain in self.domains.items()}

    @property
    def batch_groups(self) -> int:
        """B, groups of a batch."""
        return sum(self.quotas.values())


def load(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a run file and apply `key=value` overrides.

    Args:
        path: a TOML file.
        overrides: `schedule.fallback_after=30`; the value is read as TOML, else as a string.

    Raises:
        ConfigurationError: missing file, broken TOML, unknown key, wrong type.
    """
    return parse(read(path, overrides), where=str(path))


def read(path: Path, overrides: Sequence[str] = (), *, what: str = "run file") -> dict[str, Any]:
    """Read a TOML file and apply `key=value` overrides; nothing is checked yet.

    Raises:
        ConfigurationError: missing file, broken TOML, an override that does not fit.
    """
    try:
        values = tomllib.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise ConfigurationError(f"no such {what}", where=str(path)) from None
    except (ValueError, RecursionError) as error:  # also of endless numbers and nests
        raise ConfigurationError(f"not valid TOML: {error}", where=str(path)) from None
    except OSError as error:
        raise ConfigurationError(f"cannot be read: {error.strerror}", where=str(path)) from None
    apply_overrides(values, overrides)
    return values


def parse(values: Mapping[str, Any], *, where: str = "run file") -> RunConfig:
    """Check merged values.

    Raises:
        ConfigurationError: one line for the first mistake, with the near match for a key.
    """
    try:
        return RunConfig.model_validate(dict(values))
    except ValidationError as error:
        raise first_mistake(error, where) from None


def dump(config: RunConfig) -> str:
    """The merged configuration as TOML, keys without a value left out."""
    return _toml(config.model_dump(mode="json", exclude_none=True))


def first_mistake(
    error: ValidationError, where: str, model: type[BaseModel] | None = None
) -> ConfigurationError:
    """One line for the first mistake, with the near match for a key; of a run file by default."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] != "extra_forbidden":
        if first["type"] == "value_error":
            what = first["msg"].removeprefix("Value error, ")
            said = not place or what.startswith(str(first["loc"][0]))
            return ConfigurationError(what if said else f"{place}: {what}", where=where)
        message = first["msg"][0].lower() + first["msg"][1:]
        got = "" if first["type"] == "missing" else f", got {shown(first['input'])}"
        return ConfigurationError(f"{place}: {message}{got}", where=where)
    known = _known_keys(model or RunConfig, first["loc"][:-1])
    return ConfigurationError(
        f"unknown key {place!r}", where=where, next=near_match(str(first["loc"][-1]), known)
    )


def _known_keys(model: Any, parents: tuple[int | str, ...]) -> list[str]:
    for part in parents:
        if isinstance(model, dict):
            model = model["*"]
            continue
        field = getattr(model, "model_fields", {}).get(str(part))
        annotation = getattr(field, "annotation", None)
        of_dict = get_args(annotation)[1:]
        if of_dict and hasattr(of_dict[0], "model_fields"):
            model = {"*": of_dict[0]}
        else:
            model = annotation if hasattr(annotation, "model_fields") else Plugin
    return list(getattr(model, "model_fields", {}))


def _toml(values: Mapping[str, Any], prefix: str = "") -> str:
    lines, tables = [], []
    for key, value in values.items():
        if isinstance(value, Mapping):
            tables.append(f"\n[{prefix}{_key(key)}]\n{_toml(value, f'{prefix}{_key(key)}.')}")
        else:
            lines.append(f"{_key(key)} = {_value(value)}")
    return "\n".join(lines) + ("\n" if lines else "") + "".join(tables)


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
