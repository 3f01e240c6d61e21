#!/bin/sh
# The quickstart: ordinary verbs on the run files beside this script.
set -eu
here=docs/quickstart

mintact torch new-model
mintact sft "$here/sft.toml"
mintact train "$here/rl.toml"
