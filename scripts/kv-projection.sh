#!/bin/bash
# Holds KV-shaped transfers over TCP on this host against their projection from a sweep of sizes and counts of pieces.
# The two runs take turns, TRIALS times, so that a drift of the machine falls on both; each trial is projected by itself
# and the median of the ratios is printed. Nothing passes or fails here: on a shared machine a ratio is no gate.
#
#   scripts/kv-projection.sh [FOLDER]     result files go there; a folder that has some is refused
#
# HOPBENCH  program (default bin/hopbench)
# TRIALS    sweeps and KV runs in turn (default 5: a cell of one request may fall into a time when the path loses)
# ROUNDS    rounds of each cell (default 5)
# MODELS    names from the catalogue (default "qwen3-8b deepseek-v3")
# ISL       prompt tokens (default 4096)
# AT_ONCE   requests at once (default 1,8)
# SIZES     sizes of the sweep's pieces (default 16KiB,32KiB); the models' pieces lie between
# PIECES    counts of pieces of the sweep (default "2048 20480")
set -euo pipefail
cd "$(dirname "$0")/.."
hopbench=${HOPBENCH:-bin/hopbench}
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
if compgen -G "$folder/*.jsonl" >/dev/null; then
	echo "$0: $folder already has result files" >&2
	exit 2
fi
echo "result files: $folder"
common=(--transport "${TRANSPORT:-tcp}" --op write,read --metric bandwidth --notify --scattered --rounds "${ROUNDS:-5}" --concurrency "${AT_ONCE:-1,8}")
for trial in $(seq "${TRIALS:-5}"); do
	for pieces in ${PIECES:-2048 20480}; do
		"$hopbench" run "${common[@]}" --sizes "${SIZES:-16KiB,32KiB}" --pieces "$pieces" --append --out "$folder/sweep-$trial.jsonl" >/dev/null
	done
	for model in ${MODELS:-qwen3-8b deepseek-v3}; do
		"$hopbench" run "${common[@]}" --kv "$model" --isl "${ISL:-4096}" --append --out "$folder/kv-$trial.jsonl" >/dev/null
	done
	"$hopbench" kv --measured "$folder/kv-$trial.jsonl" --sweep "$folder/sweep-$trial.jsonl" || true
done
args=()
for trial in $(seq "${TRIALS:-5}"); do
	args+=(--measured "$folder/kv-$trial.jsonl" --sweep "$folder/sweep-$trial.jsonl")
done
echo "all trials"
"$hopbench" kv "${args[@]}"
echo "the fastest rounds of all trials"
"$hopbench" kv "${args[@]}" --fastest
