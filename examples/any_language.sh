#!/usr/bin/env bash
# Tune a program from bash: ask for a trial, run it, tell its loss. Start this script as often as you have cores.
# Usage: any_language.sh study.toml [options of bohb ask, such as --max-trials 30]
set -euo pipefail
study=$1
shift

value() { sed -E "s/.*\"$1\": \"?([^,\"}]*).*/\1/" <<<"$trial"; } # one value of the JSON line that bohb ask printed

while trial=$(bohb ask "$study" --lease 1h --wait 1h "$@"); do
    number=$(value number) attempt=$(value attempt)
    # Your program: it trains with lr = "$(value lr)" for "$(value budget)" epochs, and prints a loss.
    if loss=$(awk -v lr="$(value lr)" -v epochs="$(value budget)" \
        'BEGIN { print (log(lr) + 4) ^ 2 + 1 / epochs }'); then
        bohb tell "$study" "$number" "$loss" --attempt "$attempt"
    else
        bohb tell "$study" "$number" --failed "exit code $?" --attempt "$attempt"
    fi
done
bohb best "$study"
