#!/bin/sh
# Captures what `hopbench probe` and `hopbench doctor` read of a host into one text archive:
#
#   scripts/capture.sh > host.txtar
#   hopbench doctor --root host.txtar
#
# The archive holds no secret: of the environment only the variables that steer a path, no host name, no MAC address, no serial
# number. Addresses in GID tables are replaced by documentation addresses of the same kind, and of routes only the interfaces are
# told, unless --addresses is given. It is plain text: read it before you send it.
set -u
LC_ALL=C
export LC_ALL

addresses=no
case "${1:-}" in
'') ;;
--addresses) addresses=yes ;;
-h | --help)
	sed -n '2,11s/^# \{0,1\}//p' "$0"
	exit 0
	;;
*)
	echo "capture.sh: usage: capture.sh [--addresses] > host.txtar" >&2
	exit 2
	;;
esac

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT INT TERM
: >"$tmp/files" && : >"$tmp/links" && : >"$tmp/errors" && : >"$tmp/facts"

# errno names the errno of a message of the shell or of cat.
errno() {
	case "$1" in
	*'Invalid argument'*) echo EINVAL ;;
	*'Permission denied'*) echo EACCES ;;
	*'not permitted'*) echo EPERM ;;
	*'No such device or address'*) echo ENXIO ;;
	*'No such device'*) echo ENODEV ;;
	*'No such file'*) echo ENOENT ;;
	*'not supported'*) echo EOPNOTSUPP ;;
	*'busy'*) echo EBUSY ;;
	*) echo EIO ;;
	esac
}

# section writes one file of the archive. A line that looks like a marker of the archive is broken.
section() {
	printf -- '-- %s --\n' "$1"
	sed 's/^-- \(.*\) --$/ -- \1 --/'
}

# take reads attributes, with their refusals: one process for each, since there may be thousands. The shell drops NULs and
# trailing empty lines, and some shells say so.
take() {
	for f in "$@"; do
		[ -f "$f" ] || continue
		if { content=$(cat "$f" 2>"$tmp/message"); } 2>/dev/null; then
			case "$content" in
			'') printf -- '-- %s --\n' "${f#/}" ;;
			*'-- '*' --'*) printf '%s\n' "$content" | section "${f#/}" ;;
			*) printf -- '-- %s --\n%s\n' "${f#/}" "$content" ;;
			esac >>"$tmp/files"
		else
			echo "${f#/} $(errno "$(cat "$tmp/message")")" >>"$tmp/errors"
		fi
	done
}

# link keeps a symbolic link as it is.
link() {
	for l in "$@"; do
		[ -L "$l" ] && echo "${l#/} -> $(readlink "$l")" >>"$tmp/links"
	done
	return 0
}

# real is where a path leads, without links.
real() { readlink -f "$1"; }

# mask replaces the addresses of a GID table: same kind, other numbers. $1 is the index.
mask() {
	awk -v n="$1" -v keep="$addresses" '
	keep == "yes" || /^(0000:){7}0000$/ { print; next }
	/^0000:0000:0000:0000:0000:ffff:/ { printf "0000:0000:0000:0000:0000:ffff:c000:02%02x\n", n % 256; next }
	/^fe80:/ { printf "fe80:0000:0000:0000:0000:0000:0000:%04x\n", n + 1; next }
	/^f[cd]/ { printf "fd00:0000:0000:0000:0000:0000:0000:%04x\n", n + 1; next }
	{ printf "2001:0db8:0000:0000:0000:0000:0000:%04x\n", n + 1 }'
}

node() {
	for d in "$@"; do
		[ -e "$d" ] || continue
		mode=$(stat -c %a "$d" 2>/dev/null)
		# A subshell, since a refused redirection ends some shells; opened, and closed at once.
		if (exec 3<>"$d") 2>"$tmp/message"; then
			echo "open ${d#/} ok 0$mode" >>"$tmp/facts"
		else
			echo "open ${d#/} $(errno "$(cat "$tmp/message")") 0$mode" >>"$tmp/facts"
		fi
	done
}

# The process, the kernel, and from where they are seen.
take /proc/sys/kernel/osrelease /proc/devices
sed -n '/^\(Uid\|Cap[A-Za-z]*\):/p' /proc/self/status | section proc/self/status >>"$tmp/files"
sed -n '1p;/^Max \(locked memory\|open files\)/p' /proc/self/limits | section proc/self/limits >>"$tmp/files"
sed -n 's/^\([a-z0-9_]*\) .*/\1 1 1 - Live 0x0/p' /proc/modules 2>/dev/null | section proc/modules >>"$tmp/files"
for f in /.dockerenv /run/.containerenv; do [ -e "$f" ] && printf '' | section "${f#/}" >>"$tmp/files"; done
for f in /proc/self/cgroup /proc/1/cgroup; do # the words, not the identifiers
	[ -r "$f" ] && grep -o -E 'kubepods|docker|cri-containerd|crio-|libpod|/lxc' "$f" 2>/dev/null | sort -u | section "${f#/}" >>"$tmp/files"
done
if [ -n "${KUBERNETES_SERVICE_HOST:-}" ] || [ -e /var/run/secrets/kubernetes.io/serviceaccount ]; then echo "kubernetes yes" >>"$tmp/facts"; fi
env | grep -E '^(UCX_|NCCL_|MC_|NIXL_|OMPI_MCA_|FI_|NVSHMEM_|IBV_|RDMAV_|MLX5_|MOONCAKE_|CUDA_VISIBLE_DEVICES=|NVIDIA_VISIBLE_DEVICES=|CUDA_DEVICE_ORDER=|GLOO_SOCKET_IFNAME=)' |
	grep -v -i -E '^[^=]*(TOKEN|SECRET|PASS|KEY)' | sort | sed 's/^/env /' >>"$tmp/facts"
release=$(cat /proc/sys/kernel/osrelease 2>/dev/null)
for f in modules.dep modules.builtin; do
	[ -r "/lib/modules/$release/$f" ] && grep -E '(ib_core|ib_uverbs|rdma_|mlx[45]_|irdma|bnxt_re|efa|siw|nvidia|nv_peer_mem|gdrdrv|bonding|/tls)[^/]*\.ko' "/lib/modules/$release/$f" |
		sed 's/:.*/:/' | section "lib/modules/$release/$f" >>"$tmp/files"
done
for m in ib_core ib_uverbs rdma_ucm rdma_rxe siw mlx5_core mlx5_ib nvidia nvidia_uvm nvidia_peermem nv_peer_mem; do
	[ -d "/sys/module/$m" ] && echo present | section "sys/module/$m/present" >>"$tmp/files"
	take "/sys/module/$m/version"
done

# NUMA, PCI, IOMMU.
for n in /sys/devices/system/node/node[0-9]*; do
	[ -d "$n" ] || continue
	take "$n/cpulist" "$n/distance"
	sed -n '/MemTotal/p' "$n/meminfo" 2>/dev/null | section "${n#/}/meminfo" >>"$tmp/files"
done
for d in /sys/bus/pci/devices/*; do
	class=$(cat "$d/class" 2>/dev/null)
	case "$class" in 0x02* | 0x03* | 0x06* | 0x0c06* | 0x12*) ;; *) continue ;; esac
	r=$(real "$d")
	link "$d" "$r/driver" "$r/iommu_group" "$r/physfn"
	[ -L "$r/driver" ] && echo present | section "$(real "$r/driver" | cut -c2-)/present" >>"$tmp/files"
	take "$r/class" "$r/vendor" "$r/device" "$r/numa_node" "$r/current_link_speed" "$r/max_link_speed" "$r/current_link_width" "$r/max_link_width" "$r/resource"
	case "$class" in 0x0604*)
		# The control word of the ACS capability (0x000d) in the list of extended capabilities.
		acs=$(od -An -v -tu1 -w1 "$r/config" 2>/dev/null | awk '
			{ b[NR-1] = $1 }
			END {
				if (NR <= 256) { print "unknown"; exit }
				for (o = 256; o >= 256 && o + 8 <= NR && k < 64; k++) {
					id = b[o] + 256 * b[o+1]
					if (id == 13) { printf "0x%04x\n", b[o+6] + 256 * b[o+7]; exit }
					o = int(b[o+2] / 16) + 16 * b[o+3]
				}
			}')
		[ -n "$acs" ] && echo "acs ${d##*/} $acs" >>"$tmp/facts" ;;
	esac
done
for g in /sys/class/iommu/*; do [ -e "$g" ] && link "$g" && echo present | section "$(real "$g" | cut -c2-)/present" >>"$tmp/files"; done
if [ -d /sys/kernel/iommu_groups ]; then
	if [ -n "$(ls /sys/kernel/iommu_groups)" ]; then take /sys/kernel/iommu_groups/*/type; else echo "iommu-groups none" >>"$tmp/facts"; fi
fi

# Interfaces.
for n in /sys/class/net/*; do
	[ -L "$n" ] || continue
	r=$(real "$n")
	link "$n" "$r/device" "$r/master"
	for l in "$r"/lower_*; do [ -L "$l" ] && link "$l"; done
	take "$r/mtu" "$r/operstate" "$r/type" "$r/carrier" "$r/speed" "$r/dev_port" "$r/bonding/mode" "$r/bonding/slaves" "$r/bonding/active_slave" \
		"$r/qos/trust" "$r/qos/pfc" "$r"/ecn/roce_np/enable/*
	if [ -L "$r/device" ]; then
		dev=$(real "$r/device")
		[ -L "$dev/driver" ] && link "$dev/driver" && echo present | section "$(real "$dev/driver" | cut -c2-)/present" >>"$tmp/files"
		take "$dev/numa_node"
	fi
done
take /proc/sys/net/core/rmem_max /proc/sys/net/core/wmem_max /proc/sys/net/ipv4/tcp_rmem /proc/sys/net/ipv4/tcp_wmem \
	/proc/sys/net/ipv4/tcp_congestion_control /proc/sys/net/ipv4/tcp_mtu_probing /proc/sys/net/ipv4/conf/all/arp_ignore
# Which interfaces have a route at all is no address.
awk 'NR > 1 && $2 == "00000000" && $8 == "00000000" { print "route", $1, "default"; next }
	NR > 1 && $3 == "00000000" { print "route", $1, "connected" }' /proc/net/route 2>/dev/null | sort -u >>"$tmp/facts"
if [ "$addresses" = yes ]; then
	take /proc/net/route
	PATH=$PATH:/usr/sbin:/sbin ip -o addr show 2>/dev/null | awk '($3 == "inet" || $3 == "inet6") && $2 != "lo" { print "addr", $2, $4 }' >>"$tmp/facts"
fi

# RDMA.
if [ -d /sys/class/infiniband ]; then echo "rdma-class yes" >>"$tmp/facts"; fi
for d in /sys/class/infiniband/*; do
	[ -e "$d" ] || continue
	r=$(real "$d")
	link "$d" "$r/device"
	if [ -L "$r/device" ]; then
		dev=$(real "$r/device")
		[ -L "$dev/driver" ] && link "$dev/driver" && echo present | section "$(real "$dev/driver" | cut -c2-)/present" >>"$tmp/files"
		take "$dev/numa_node"
	fi
	take "$r/node_type" "$r/fw_ver" "$r/parent"
	# The description may hold a host's name after the adapter's.
	case "$(cat "$r/node_desc" 2>/dev/null)" in
	rxe*) echo rxe | section "${r#/}/node_desc" >>"$tmp/files" ;;
	'Software iWARP'*) echo 'Software iWARP stack' | section "${r#/}/node_desc" >>"$tmp/files" ;;
	esac
	for p in "$r"/ports/*; do
		take "$p/state" "$p/phys_state" "$p/link_layer" "$p/rate" "$p/lid" "$p/sm_lid" "$p"/pkeys/[0-3]
		# One process for the whole table, of which few slots are in use: an empty or unreadable slot gives no line.
		(cd "$p/gids" 2>/dev/null && grep -H . [0-9]* 2>/dev/null) | grep -v ':0000:0000:0000:0000:0000:0000:0000:0000$' | while IFS= read -r slot; do
			i=${slot%%:*}
			g=$p/gids/$i
			echo "${slot#*:}" | mask "$i" | section "${g#/}" >>"$tmp/files"
			take "$p/gid_attrs/types/$i" "$p/gid_attrs/ndevs/$i"
		done
	done
	take "$r"/tc/*/traffic_class
done
for u in /sys/class/infiniband_verbs/uverbs*; do [ -e "$u" ] && cat "$u/ibdev" 2>/dev/null | section "${u#/}/ibdev" >>"$tmp/files"; done
node /dev/infiniband/*
command -v rdma >/dev/null 2>&1 && rdma system show 2>/dev/null | sed -n 's/.*netns \([a-z]*\).*/rdma-netns \1/p' >>"$tmp/facts"

# Libraries, by name.
for d in /usr/lib/*-linux-gnu /usr/lib64 /usr/lib /usr/local/lib /opt/amazon/efa/lib64; do
	[ -d "$d" ] || continue
	for f in "$d"/libc.so.6 "$d"/libibverbs.so.1 "$d"/libcuda.so.* "$d"/libnvidia-ml.so.* "$d"/libibverbs/*.so; do
		[ -e "$f" ] && printf '' | section "${f#/}" >>"$tmp/files"
	done
done

# GPUs.
take /proc/driver/nvidia/version
for g in /proc/driver/nvidia/gpus/*; do
	[ -r "$g/information" ] && sed -n '/^\(Model\|Bus Location\|Device Minor\):/p' "$g/information" | section "${g#/}/information" >>"$tmp/files"
done
node /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia[0-9]* /dev/nvidia-caps-imex-channels/channel*
if [ -d /proc/driver/nvidia ]; then
	grep -E ' ib_(un)?register_peer_memory_client' /proc/kallsyms 2>/dev/null | sed 's/^[0-9a-f]*/0/' | section proc/kallsyms >>"$tmp/files"
	dmesg 2>/dev/null | grep -E 'peermem.*(disagrees|Unknown symbol)|API mismatch' | sed 's/^\[[^]]*\] *//; s/^/kernel-log /' | sort -u >>"$tmp/facts"
fi
for c in /proc/[0-9]*/comm; do
	case "$(cat "$c" 2>/dev/null)" in nv-fabricmanage*) echo "fabric-manager running" >>"$tmp/facts" ;; esac
done
if command -v hopbench >/dev/null 2>&1; then
	hopbench probe --nvml-json 2>/dev/null | grep -v '"uuid"' | section .hopbench/nvml.json >>"$tmp/files"
fi

echo "A host captured by scripts/capture.sh."
sort -u "$tmp/facts" | section .hopbench/facts
sort -u "$tmp/links" | section .hopbench/links
[ -s "$tmp/errors" ] && sort -u "$tmp/errors" | section .hopbench/errors
cat "$tmp/files"
