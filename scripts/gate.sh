#!/usr/bin/env bash
# Runs two builds in turn (A B B A ...) and compares them: a regression gate. See GATE.md.
set -euo pipefail

usage() {
	cat <<'EOF'
gate.sh --base BIN --head BIN --out DIR [flags] -- [arguments of `hopbench run`]

  --base BIN, --head BIN   the two builds; a program, with the arguments of `hopbench run` behind "run"
  --out DIR                new folder for the runs and the comparison
  --rounds N               turns a side, even and at least 8 (16)
  --command CMD            what a turn runs, in place of "BIN run ARGS --out FILE": a shell command in which
                           $BIN is the build, $FILE the result file to write, $SIDE base or head
  --switch CMD             run before every turn with $SIDE set: load that side's kernel module, say
  --tool BIN               hopbench that compares (the base)
  --turn-limit SECONDS     a turn that takes longer is stopped and counts as failed (300)
  --aa                     base against itself: both builds may be the same file
  --noise DIR              runs of an earlier --aa (its folder): the noise floor is learnt from them
  --compare-args "ARGS"    more arguments of `hopbench compare`

Exit status: 0 no regression; 1 a regression, a missing or failed cell, or a comparison that could not have
found one; 2 wrong arguments.
EOF
}

die() { echo "gate.sh: $*" >&2; exit 2; }

base= head= out= rounds=16 command= switch= tool= limit=300 aa= noise= compare_args=
while [ $# -gt 0 ]; do
	case $1 in
	--base | --head | --out | --rounds | --command | --switch | --tool | --turn-limit | --noise | --compare-args)
		[ $# -ge 2 ] || die "$1 needs a value"
		case $1 in
		--base) base=$2 ;; --head) head=$2 ;; --out) out=$2 ;; --rounds) rounds=$2 ;; --command) command=$2 ;;
		--switch) switch=$2 ;; --tool) tool=$2 ;; --turn-limit) limit=$2 ;; --noise) noise=$2 ;; --compare-args) compare_args=$2 ;;
		esac
		shift 2
		;;
	--aa) aa=1; shift ;;
	-h | --help) usage; exit 0 ;;
	--) shift; break ;;
	*) die "unknown argument $1 (--help)" ;;
	esac
done
[ -n "$base" ] && [ -n "$head" ] && [ -n "$out" ] || { usage >&2; exit 2; }
case $rounds in '' | *[!0-9]*) die "--rounds $rounds: a number" ;; esac
# Below 8 interleaved rounds a side no p can pass the correction for 25 cells.
[ "$rounds" -ge 8 ] && [ $((rounds % 2)) -eq 0 ] || die "--rounds $rounds: even, and at least 8"
for b in "$base" "$head"; do
	[ -x "$b" ] || die "$b is no program"
done
if [ -z "$aa" ] && [ -z "$switch" ] && cmp -s "$base" "$head"; then
	die "base and head are the same program: such a gate cannot fail (--aa if that is meant)"
fi
[ ! -e "$out" ] || die "$out exists"
tool=${tool:-$base}
mkdir -p "$out/base" "$out/head"

turn() { # turn SIDE FILE: runs one turn; its failure is a result, and the gate goes on
	local side=$1 file=$2 bin=$head rc=0
	[ "$side" = base ] && bin=$base
	if [ -n "$switch" ]; then
		SIDE=$side BIN=$bin bash -c "$switch" >>"$out/switch.log" 2>&1 || { echo "gate.sh: --switch failed for $side; see $out/switch.log" >&2; exit 1; }
	fi
	if [ -n "$command" ]; then
		SIDE=$side BIN=$bin FILE=$file timeout -k 5 "$limit" bash -c "$command" >>"$out/$side.log" 2>&1 || rc=$?
	else
		timeout -k 5 "$limit" "$bin" run "${args[@]}" --out "$file" >>"$out/$side.log" 2>&1 || rc=$?
	fi
	[ "$rc" -eq 0 ] || echo "gate.sh: $side: exit status $rc in $(basename "$file") (log: $out/$side.log)" >&2
	# A failed cell is in the file, and compare weighs it. A run that did not come to its end may lack cells that no
	# comparison will miss.
	if [ ! -s "$file" ]; then
		echo "gate.sh: $side wrote no result file in $(basename "$file")" >&2
		lost=1
	elif ! tail -n 1 "$file" | grep -q '"state": *"complete"'; then
		echo "gate.sh: $side did not come to its end in $(basename "$file")" >&2
		[ "$side" = base ] || lost=1
	fi
}

args=("$@")
lost=
# One turn of each that is thrown away: page cache, module load, first use.
turn base "$out/warm-base.jsonl"
turn head "$out/warm-head.jsonl"
rm -f "$out"/warm-*.jsonl
lost=
n=0
for _ in $(seq $((rounds / 2))); do # a fixed number, whatever the first turns show
	for side in base head head base; do
		n=$((n + 1))
		turn "$side" "$out/$side/$(printf %04d "$n").jsonl"
	done
done

[ -n "$noise" ] && compare_args="$compare_args --noise $noise/base --noise $noise/head"
status=0
compare() { # shellcheck disable=SC2086 # compare_args are words
	"$tool" compare "$out/base" "$out/head" --metric bandwidth,latency_p50,wire_per_payload \
		--fail-on regression,missing,too_few_samples,not_interleaved $compare_args "$@"
}
compare --format markdown --out "$out/comment.md" || status=$?
compare --json --out "$out/compare.json" || true
compare || true
if [ -n "$lost" ]; then
	echo "gate.sh: runs are missing or cut short: the gate fails" >&2
	status=1
fi
exit "$status"
