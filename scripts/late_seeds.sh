#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a test program in late mode once for each of the seeds 0 to COUNT - 1: scripts/late_seeds.sh COUNT PROGRAM
# Stops at the first seed that fails, shows its output and the line that repeats it.
set -euo pipefail

count=$1
program=$2
export FANOUT_SIM_MODE=late FANOUT_SIM_POISON=1 FANOUT_SIM_PROTECT=1 FANOUT_SIM_RACES=${FANOUT_SIM_RACES-1}
for ((seed = 0; seed < count; ++seed)); do
  if ! output=$(FANOUT_SIM_SEED=$seed "$program" '~[eager]~[.]' 2>&1); then
    echo "$output"
    echo "again: FANOUT_SIM_MODE=late FANOUT_SIM_POISON=1 FANOUT_SIM_PROTECT=1 FANOUT_SIM_RACES=$FANOUT_SIM_RACES FANOUT_SIM_SEED=$seed $program '~[eager]~[.]'"
    exit 1
  fi
done
echo "$count seeds passed"
