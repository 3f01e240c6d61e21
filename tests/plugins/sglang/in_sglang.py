"""Run by SGLang's own interpreter: makes SGLang's own values of request bodies, or says why not.

Its server ignores fields that it does not know; its classes do not.
"""

import json
import sys

from sglang.srt.managers import io_struct
from sglang.srt.sampling.sampling_params import SamplingParams

CLASSES = {
    "/abort_request": "AbortReq",
    "/begin_weight_update": "BeginWeightUpdateReqInput",
    "/continue_generation": "ContinueGenerationReqInput",
    "/end_weight_update": "EndWeightUpdateReqInput",
    "/generate": "GenerateReqInput",
    "/pause_generation": "PauseGenerationReqInput",
    "/update_weights_from_disk": "UpdateWeightFromDiskReqInput",
    "/update_weights_from_tensor": "UpdateWeightsFromTensorReqInput",
}

faults = []
for route, body in json.load(sys.stdin):
    if route not in CLASSES:
        faults.append(f"{route}: no class is known for it")
        continue
    kind = getattr(io_struct, CLASSES[route])
    try:
        value = kind(**body)
        if route == "/generate":
            value.normalize_batch_and_arguments()
            sampling = SamplingParams(**body["sampling_params"])
            sampling.normalize(None)
            sampling.verify(151936)
        elif route == "/pause_generation" and repr(body["mode"]) not in str(
            kind.__annotations__["mode"]
        ):
            faults.append(f"{route}: {body['mode']!r} is no mode")
    except Exception as error:
        faults.append(f"{route}: {type(error).__name__}: {error}")
print(json.dumps(faults))
