#!/usr/bin/env bash
# Runs everything that the GPUs of this machine can show. A built hopbench is enough: no Go, no CUDA toolkit.
set -uo pipefail

usage() {
	cat <<'TEXT'
gpu.sh [--hopbench BIN] [--out DIR] [--quick]

  --hopbench BIN   the program (./hopbench, else the one on PATH)
  --out DIR        new folder for result files and logs (gpu-HOST-DATE)
  --quick          small sizes and few rounds: to see that it works, not to publish

With one GPU: what the host has, the copies of the GPU (beside the same copies timed by another program, where python3 or
nvbandwidth is here), TCP between two processes over loopback from device memory to device memory with the phases of
its staging, the export of device memory as a DMA-BUF descriptor, and peer access refused with its reason.
With two GPUs or more: every ordered pair as well, one way and both ways, and each GPU with all others at once.

Exit status: 0 all was shown; 1 a step failed, the last lines say which; 2 wrong arguments.
TEXT
}

die() { echo "gpu.sh: $*" >&2; exit 2; }

here=$(cd "$(dirname "$0")" && pwd)
bin= out= quick=
while [ $# -gt 0 ]; do
	case $1 in
	--hopbench | --out)
		[ $# -ge 2 ] || die "$1 needs a value"
		case $1 in --hopbench) bin=$2 ;; --out) out=$2 ;; esac
		shift 2
		;;
	--quick) quick=1; shift ;;
	-h | --help) usage; exit 0 ;;
	*) die "there is no flag $1" ;;
	esac
done
[ -n "$bin" ] || { [ -x ./hopbench ] && bin=./hopbench; } || bin=$(command -v hopbench) || die "no hopbench: name it with --hopbench"
"$bin" --version >/dev/null || die "$bin does not start"
[ -n "$out" ] || out=gpu-$(hostname -s)-$(date +%F)
mkdir "$out" || die "$out: give a new folder with --out"

sizes=64KiB,1MiB,16MiB,256MiB large=256MiB staged=1MiB,64MiB,512MiB rounds=12
[ -n "$quick" ] && sizes=64KiB,4MiB large=4MiB staged=64MiB rounds=3
bytes=$((${large%MiB} << 20))

failed=() shown=()
note() { printf '\n== %s\n' "$*"; }
ok() { echo "   $*"; shown+=("$*"); }
bad() { echo "   FAILED: $*"; failed+=("$*"); }

# A result file is judged by itself: its last record says complete, and no cell of it failed.
whole() { tail -n 1 "$1" 2>/dev/null | grep -q '"state":"complete"' && ! grep -q '"status":"failed"' "$1"; }

# measure NAME ARGUMENTS... runs hopbench into $out/NAME.jsonl.
measure() {
	local name=$1
	shift
	"$bin" run "$@" --rounds "$rounds" --out "$out/$name.jsonl" >"$out/$name.txt" 2>"$out/$name.log"
	local status=$?
	if whole "$out/$name.jsonl"; then
		[ $status -eq 0 ] || grep -m1 'realm double' "$out/$name.log" | sed "s/^hopbench: :* */   /"
		return 0
	fi
	sed 's/^/   /' "$out/$name.log" | head -5
	return 1
}

# rate NAME OPERATION BYTES prints the bandwidth of one cell in bytes a second.
rate() {
	grep '"record":"cell"' "$out/$1.jsonl" | grep "\"operation\":\"$2\"" | grep "\"total_bytes\":$3," |
		sed -n 's/.*"bandwidth":{"bytes_per_second":\([0-9.e+]*\).*/\1/p' | head -1
}

# beside WHAT OURS THEIRS PROGRAM prints two figures of one copy and their ratio.
beside() {
	[ -n "$2" ] && [ -n "$3" ] || { bad "$1: no figure to compare with $4"; return; }
	local line
	line=$(awk -v w="$1" -v a="$2" -v b="$3" -v p="$4" 'BEGIN { printf "%s: hopbench %.2f GB/s, %s %.2f GB/s, ratio %.3f", w, a/1e9, p, b/1e9, a/b; exit !(a/b > 0.9 && a/b < 1.1) }') &&
		ok "$line" || bad "$line: more than 10 % apart"
}

note "what this host has"
{ command -v nvidia-smi >/dev/null && nvidia-smi -q && nvidia-smi topo -m && nvidia-smi nvlink -s; } >"$out/nvidia-smi.txt" 2>&1
"$bin" doctor >"$out/doctor.txt" 2>&1
"$bin" doctor --json >"$out/doctor.json" 2>"$out/doctor.log"
[ -s "$out/doctor.json" ] && ok "doctor.txt, doctor.json" || bad "doctor: $(head -1 "$out/doctor.log")"
if "$bin" --help 2>&1 | grep -q '^  probe '; then
	"$bin" probe >"$out/probe.txt" 2>&1 && "$bin" probe --json >"$out/probe.json" 2>>"$out/probe.txt" && ok "probe.txt, probe.json" || bad "probe: $(tail -1 "$out/probe.txt")"
fi

note "copies of one GPU"
copies=1
measure copy-pinned --transport cuda-copy --local-mem cuda:0 --remote-mem pinned --op write,read --metric bandwidth,latency --sizes "$sizes" || { bad "copies to and from pinned memory"; copies=; }
measure copy-local --transport cuda-copy --local-mem cuda:0 --remote-mem cuda:0 --op write --metric bandwidth --sizes "$sizes" || { bad "copies within the GPU"; copies=; }
if [ -n "$copies" ]; then
	up=$(rate copy-pinned read "$bytes") down=$(rate copy-pinned write "$bytes") local_=$(rate copy-local write "$bytes")
	if command -v python3 >/dev/null; then
		if python3 "$here/gpu_copies.py" --bytes "$bytes" --device 0 >"$out/gpu_copies.json" 2>"$out/gpu_copies.log"; then
			theirs() { sed -n "s/.*\"$1\": \([0-9.e+]*\).*/\1/p" "$out/gpu_copies.json"; }
			beside "device to host" "$down" "$(theirs device_to_host)" gpu_copies.py
			beside "host to device" "$up" "$(theirs host_to_device)" gpu_copies.py
			beside "within the device" "$local_" "$(theirs device_to_device)" gpu_copies.py
		else
			bad "gpu_copies.py: $(tail -1 "$out/gpu_copies.log")"
		fi
	else
		echo "   no python3 here: the copies stand without a second measurement, unless nvbandwidth is here"
	fi
	if command -v nvbandwidth >/dev/null; then
		nvbandwidth -j -t host_to_device_memcpy_ce device_to_host_memcpy_ce device_local_copy >"$out/nvbandwidth.json" 2>"$out/nvbandwidth.log" &&
			"$bin" import "$out/nvbandwidth.json" --out "$out/nvbandwidth.jsonl" >>"$out/nvbandwidth.log" 2>&1 &&
			ok "nvbandwidth's own figures are in nvbandwidth.jsonl" || bad "nvbandwidth: $(tail -1 "$out/nvbandwidth.log")"
	fi
fi

note "device memory as a DMA-BUF descriptor"
export_=$(sed -n 's/.*\(DMA-BUF export of its memory: [^"]*\)".*/\1/p' "$out/copy-pinned.jsonl" 2>/dev/null | head -1)
case $export_ in
*granted*) ok "$export_" ;;
*refused*) ok "$export_" && echo "   (the proprietary kernel modules refuse it; the open ones grant it)" ;;
*) bad "no word of the export in copy-pinned.jsonl" ;;
esac

note "TCP from device memory to device memory, two processes over loopback"
if measure tcp-staged --transport tcp --local-mem cuda:0 --remote-mem cuda:0 --op write --metric bandwidth --sizes "$staged" && grep -q '"phases_seconds"' "$out/tcp-staged.jsonl"; then
	ok "phases: $(grep -o '"phases_seconds":{[^}]*}' "$out/tcp-staged.jsonl" | tail -1)"
else
	bad "staged TCP, or its phases"
fi

note "peer access"
n=0 # GPUs that this process sees: those whose memory can be allocated
while [ $n -lt 16 ]; do
	"$bin" run --transport cuda-copy --local-mem cuda:$n --remote-mem pinned --sizes 64 --op write --metric bandwidth --rounds 1 --out "$out/.try" --force >/dev/null 2>&1
	whole "$out/.try" && ! grep -q '"status":"waived"' "$out/.try" || break
	n=$((n + 1))
done
rm -f "$out/.try"
echo "   $n visible"
if [ $n -lt 2 ]; then
	"$bin" run --transport cuda-peer --local-mem cuda:0 --remote-mem cuda:1 >"$out/peer.txt" 2>"$out/peer.log"
	status=$?
	if [ $status -eq 3 ] && grep -q -e 'peer access joins two' -e 'MIG instance' "$out/peer.log"; then
		ok "refused with status 3: $(head -1 "$out/peer.log" | sed 's/^hopbench: //')"
	else
		bad "$n GPU, and cuda-peer ended with status $status: $(head -1 "$out/peer.log")"
	fi
elif measure pairs --gpus all --pairs all,one-to-all --op write,read --metric bandwidth,latency --direction forward,both --sizes "64,$large"; then
	sed 's/^/   /' "$out/pairs.txt" # the matrices
	# pair FROM TO OPERATION SCHEDULE prints the bandwidth of one way in bytes a second.
	pair() {
		grep "\"initiator_memory\":\"$1\",\"target_memory\":\"$2\"" "$out/pairs.jsonl" | grep "\"operation\":\"$3\"" | grep "\"schedule\":\"$4\"" |
			grep '"direction":"forward"' | grep "\"total_bytes\":$bytes," | sed -n 's/.*"bandwidth":{"bytes_per_second":\([0-9.e+]*\).*/\1/p' | head -1
	}
	label() { grep "\"initiator_memory\":\"$1\",\"target_memory\":\"$2\"" "$out/pairs.jsonl" | sed -n 's/.*"label":"\([^"]*\)".*/\1/p' | head -1; }
	for ((i = 0; i < n; i++)); do
		for ((j = 0; j < n; j++)); do
			[ $i -eq $j ] && continue
			w=$(pair cuda:$i cuda:$j write isolated) r=$(pair cuda:$i cuda:$j read isolated)
			[ -n "$w" ] && [ -n "$r" ] || { bad "pair $i to $j: no figure in pairs.jsonl"; continue; }
			ok "$i to $j, $(label cuda:$i cuda:$j): write $(awk "BEGIN { printf \"%.1f\", $w/1e9 }") GB/s, read $(awk "BEGIN { printf \"%.1f\", $r/1e9 }") GB/s"
		done
		all=$(pair cuda:$i cuda:all write one-to-all)
		[ -n "$all" ] && ok "$i to all the others at once: $(awk "BEGIN { printf \"%.1f\", $all/1e9 }") GB/s in sum" || bad "$i to all: no sum in pairs.jsonl"
	done
	if command -v python3 >/dev/null; then
		if python3 "$here/gpu_copies.py" --bytes "$bytes" --device 0 --peer 1 >"$out/gpu_copies_peer.json" 2>"$out/gpu_copies_peer.log"; then
			beside "0 to 1" "$(pair cuda:0 cuda:1 write isolated)" "$(sed -n 's/.*"peer": \([0-9.e+]*\).*/\1/p' "$out/gpu_copies_peer.json")" gpu_copies.py
		else
			bad "gpu_copies.py --peer 1: $(tail -1 "$out/gpu_copies_peer.log")"
		fi
	fi
else
	bad "pairs of GPUs"
fi

printf '\n%d shown, %d failed; all of it is in %s\n' "${#shown[@]}" "${#failed[@]}" "$out"
for f in ${failed[@]+"${failed[@]}"}; do echo "failed: $f"; done
[ ${#failed[@]} -eq 0 ]
