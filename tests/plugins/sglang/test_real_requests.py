"""What we send is what SGLang's own classes read.

`pytest -m real_sglang tests/plugins/sglang/test_real_requests.py`; see test_real_sglang.py.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from mintact_plugin_sglang.engine import SGLangEngine

from mintact_platform.models.protocol import ImageFile, WeightsRef

pytestmark = [pytest.mark.real_sglang, pytest.mark.timeout(900)]


async def test_what_we_send_is_what_sglang_reads(
    sglang_python, stand_in, spec, running, ask, models, tmp_path
):
    image = ImageFile(tmp_path / "one.png", "digest")
    worker = stand_in()
    here = {"mode": "attach", "worker_urls": [worker.url], "python": sys.executable}
    for transfer in ("disk", "tensor"):
        async with running(
            SGLangEngine(**here, transfer=transfer), spec(WeightsRef(models[0], 1))
        ) as engine:
            await engine.generate(replace(ask(), images=(image,)))
            await engine.generate(replace(ask(), sampling=replace(ask().sampling, temperature=0)))
            for version, mode in enumerate(("abort", "retract", "in_place"), start=2):
                await engine.update(WeightsRef(models[1], version), mode=mode)
            await engine._fleet.servers.abort("r")
    questions = ("/server_info", "/model_info", "/flush_cache", "/v1/loads")
    calls = [(route, body) for route, body in worker.calls if route not in questions]
    assert {"/generate", "/update_weights_from_tensor"} <= {route for route, _ in calls}
    script = Path(__file__).with_name("in_sglang.py")
    done = await asyncio.to_thread(
        subprocess.run,
        [sglang_python, str(script)],
        input=json.dumps(calls),
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []
