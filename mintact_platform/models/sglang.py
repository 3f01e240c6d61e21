"""SGLang's `/generate` as values: the body of a request, and what its reply means."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mintact_platform.errors import ModelServerError
from mintact_platform.models.protocol import GenerateRequest, Generation, Sampling


def generate_body(request: GenerateRequest, images: Sequence[str]) -> dict[str, Any]:
    """The JSON body of a generation.

    Args:
        request: what is asked.
        images: a path or base64 data for each of its images.
    """
    body: dict[str, Any] = {
        "rid": request.rid,
        "input_ids": request.ids.tolist(),
        "sampling_params": sampling_params(request.sampling),
        "return_logprob": True,
        "logprob_start_len": -1,
        "stream": False,
    }
    if images:
        body["image_data"] = list(images)
    return body


def sampling_params(sampling: Sampling) -> dict[str, Any]:
    """Sampling parameters under which log-probabilities mean what the trainer recomputes."""
    parameters: dict[str, Any] = {
        "temperature": sampling.temperature,
        "max_new_tokens": sampling.max_new_tokens,
        "stop_token_ids": list(sampling.stop_token_ids),
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "skip_special_tokens": False,
        "no_stop_trim": True,
    }
    if sampling.seed is not None:
        parameters["sampling_seed"] = sampling.seed
    return parameters


def parse_generation(content: bytes, rid: str) -> Generation:
    """Read a reply of `/generate`.

    Raises:
        ModelServerError: `void` when it is no JSON of the expected shape, or when ids and
            log-probabilities do not belong to each other; `aborted` when the request was ended
            before it gave a token.
    """
    try:
        reply = json.loads(content)
        meta = reply["meta_info"]
        generation = _generation(reply["output_ids"], meta)
        reason = meta["finish_reason"]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ModelServerError(
            f"reply cannot be read: {error!r}", kind="void", where=f"generate {rid}"
        ) from None
    if generation.finish == "abort" and not len(generation.ids):
        raise ModelServerError(
            f"request was aborted: {reason.get('message', '')}",
            kind="aborted",
            where=f"generate {rid}",
            next="ask again",
        )
    return generation


def failure_text(content: bytes) -> str:
    """What an error reply says, on one short line."""
    text = content[:2000].decode(errors="replace")
    try:
        reply = json.loads(content)
    except ValueError:
        return " ".join(text.split())[:200]
    for key in ("error", "message", "detail"):
        value = reply.get(key) if isinstance(reply, dict) else None
        if isinstance(value, dict):
            value = value.get("message")
        if value:
            return " ".join(str(value).split())[:200]
    return " ".join(text.split())[:200]


def version_number(version: Any) -> int:
    """A server's weight version as a number; -1 for weights it was not given by us."""
    try:
        return int(version)
    except (TypeError, ValueError):
        return -1


def _generation(output_ids: Sequence[int], meta: Mapping[str, Any]) -> Generation:
    pairs = meta["output_token_logprobs"]
    if [pair[1] for pair in pairs] != list(output_ids):
        raise ValueError(
            f"{len(output_ids)} ids and {len(pairs)} log-probabilities do not belong together"
        )
    logprobs = np.array([pair[0] for pair in pairs], dtype=np.float32)
    if not np.isfinite(logprobs).all():
        raise ValueError("a log-probability is not finite")
    finish = meta["finish_reason"]["type"]
    if finish not in ("stop", "length", "abort"):
        raise ValueError(f"unknown finish reason {finish!r}")
    return Generation(
        ids=np.array(output_ids, dtype=np.int32),
        logprobs=logprobs,
        versions=_versions(len(output_ids), meta),
        finish=finish,
        prompt_tokens=int(meta["prompt_tokens"]),
        cached_tokens=int(meta.get("cached_tokens") or 0),
    )


def _versions(tokens: int, meta: Mapping[str, Any]) -> npt.NDArray[np.int32]:
    """Weight version of each token: a span holds from its start to the next one's."""
    versions = np.full(tokens, version_number(meta.get("weight_version")), dtype=np.int32)
    spans = sorted(meta.get("weight_versions") or (), key=lambda span: span["start"])
    for span in spans:
        start = int(span["start"]) - int(spans[0]["start"])
        versions[start:] = version_number(span["version"])
    return versions
