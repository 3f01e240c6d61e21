"""Trainers that a test can hold up, or that die; apart from the others, since they load torch."""

import os
import resource
import time

from mintact_plugin_torch.trainer import TorchTrainer


class SlowStep(TorchTrainer):
    """Gives a test time to kill the scheduler during the step that the environment names."""

    def step(self, request):
        if str(request.step) == os.environ.get("SLOW_STEP"):
            time.sleep(600)
        return super().step(request)


class DyingTrainer(TorchTrainer):
    """Dies once over step 2, after the step was recorded."""

    def step(self, request):
        marker = os.path.join(self.spec.run_directory, "died")
        if request.step == 2 and not os.path.exists(marker):
            open(marker, "w").close()
            os._exit(9)
        return super().step(request)


class DiesBetweenUpdates(TorchTrainer):
    """Dies once in the middle of step 2, when the first of its updates has moved the weights."""

    def start(self, spec):
        super().start(spec)
        optimise = self.optimiser.step

        def step(*arguments):
            norm = optimise(*arguments)
            marker = os.path.join(self.spec.run_directory, "died")
            if self.last_step == 1 and not os.path.exists(marker):
                open(marker, "w").close()
                os._exit(9)
            return norm

        self.optimiser.step = step


class FullDisk(TorchTrainer):
    """From step 2 on its checkpoints do not fit, as long as the environment says so."""

    def save(self, path, *, step):
        if step < 2 or "FULL_DISK" not in os.environ:
            return super().save(path, step=step)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, limits[1]))
        try:
            return super().save(path, step=step)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
