// Begins an episode when the page is ready: no clock, no START cover, one seed.
if (window === window.top) {
  addEventListener("load", () => setTimeout(function begin() {
    if (!WOB_TASK_READY || !core.cover_div) return setTimeout(begin, 20);
    core.EPISODE_MAX_TIME = 2 ** 31 - 1;
    core.countdownTimer = () => {};
    core.hideDisplay();
    Math.seedrandom(SEED);
    core.startEpisodeReal();
  }));
}
