#!/bin/sh
# The quickstart: ordinary verbs on the run files beside this script. What is there already is kept:
# delete runs/quickstart-0* to start anew.
# usage: [SEED=0] [RUNS=runs] run.sh [key=value …]   (overrides of the last stage)
set -eu
here=$(dirname "$0")
seed=${SEED:-0}
runs=${RUNS:-runs}
base=$runs/quickstart-$seed
rl=$here/rl.toml sft=$here/sft.toml

if ! command -v chromium-headless-shell >/dev/null && [ -z "${MINTACT_CHROMIUM:-}" ]; then
  echo "quickstart: no browser: the web domain is left out (apt-get install chromium-headless-shell)" >&2
  mkdir -p "$runs"
  for stage in rl sft; do
    sed '/^\[domains\.web\]/,/^$/d' "$here/$stage.toml" >"$runs/quickstart-no-web-$stage.toml"
  done
  rl=$runs/quickstart-no-web-rl.toml sft=$runs/quickstart-no-web-sft.toml
  without_web=1
fi

stage() { # stage NAME MODEL mintact VERB FILE [key=value …]
  name=$1 model=$2
  shift 2
  "$@" --runs "$runs" "name=$name" "seed=$seed" "model.path=$model"
}

started() { # the flag that goes on with a stage which was cut short
  [ ! -d "$base-$1" ] || echo --resume
}

echo "1/4 a tiny Qwen3-VL, aligned" >&2
mintact torch new-model "$base-tiny" --seed "$seed"

if [ ! -d "$base-ground/model" ]; then
  echo "2/4 grounding: supervised, single steps" >&2
  stage "quickstart-$seed-ground" "$base-tiny" mintact sft "$here/ground.toml" $(started ground)
fi
if [ ! -d "$base-sft/model" ]; then
  echo "3/4 episodes: supervised, many steps, from a demonstrator that errs" >&2
  # a missed gate is said and lived with; the table will show it
  stage "quickstart-$seed-sft" "$base-ground/model" mintact sft "$sft" $(started sft) ||
    [ -d "$base-sft/model" ]
fi
echo "4/4 asynchronous RL over the domains" >&2
if [ -d "$base" ]; then
  set -- --resume "$@"
fi
stage "quickstart-$seed" "$base-sft/model" mintact train "$rl" "$@"
[ -z "${without_web:-}" ] || echo "web: not run (no browser)"
