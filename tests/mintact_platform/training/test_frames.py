from __future__ import annotations

import pytest

from mintact_platform.errors import TrainerError
from mintact_platform.training import frames
from mintact_platform.training.trainer import RowRef, StepRequest, SupervisedRequest, TrainerSpec


def test_requests_survive_the_wire() -> None:
    rows = (RowRef("é", "p", "g", "web", 0.1, False, {"a": 1.0}, (0.5,)),)
    step = StepRequest(1, rows, 2, 3)
    supervised = SupervisedRequest(1, ("a#0", "a#1"), 1e-3, {"guidance": 0.3})
    spec = TrainerSpec("m", "r", {"betas": [0.9, 0.98]}, {}, 1, 2, 8, 4)
    frame = frames.pack({"id": 1, "step": step, "supervised": supervised, "spec": spec})
    size = frames.HEADER.size
    assert frames.body_length(frame[:size]) == len(frame) - size
    message = frames.unpack(frame[size:])
    assert frames.step_request(message["step"]) == step
    assert frames.supervised_request(message["supervised"]) == supervised
    assert frames.trainer_spec(message["spec"]) == spec


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot send a object"):
        frames.pack({"x": object()})
    with pytest.raises(TrainerError, match="stream is broken"):
        frames.body_length(b"\xff" * 8)
