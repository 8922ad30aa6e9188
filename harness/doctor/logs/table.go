package logs

import (
	"regexp"

	"hopbench/transports/fault"
)

func sig(id, by, pattern, means, do string, causes ...fault.Code) *Signature {
	return &Signature{ID: id, By: by, Pattern: regexp.MustCompile(pattern), Means: means, Causes: causes, Do: do}
}

// withoutDevice are the causes of a line that says no more than that no RDMA device can be used: what can stand in the way on the
// whole of its path, from the kernel to the library, and what else the line's own program adds.
func withoutDevice(more ...fault.Code) []fault.Code {
	return append([]fault.Code{fault.RDMANoNode, fault.RDMANodeRefused, fault.RDMANoLibrary, fault.RDMANoProvider, fault.RDMANoStack, fault.RDMANoDevice}, more...)
}

// table stands from the special to the general: a line belongs to the first that matches.
var table = []*Signature{
	// Devices, nodes and libraries.
	sig("verbs.create-ah", "UCX, libibverbs", `ibv_create_ah(\(.*\))?( .*)? failed: No such device`,
		"A library saw the HCA in /sys, opened it or a path through it, and found that it is not there for this process. It is no bug of the program that stopped after it: what fails next (MPI_Init_thread, say) is a symptom.",
		"in a pod, request the RDMA device; or let the job take a path inside the node that needs no InfiniBand (UCX_TLS=^ib, or NVLink)",
		fault.RDMANoNode, fault.RDMAGIDForeign, fault.RDMANoGID, fault.RDMANetNS, fault.RDMANodeRefused),
	sig("ucx.device-unavailable", "UCX", `network device '[^']+' is not available, please use one or more of`,
		"The device that UCX_NET_DEVICES names is not usable for UCX here: not there, its port not active, or UCX was built or installed without InfiniBand support. The list that follows is what is left.",
		"look in the list for the ports; if there is none of mlx5, the image lacks UCX's ib module or libibverbs", withoutDevice(fault.RDMAPortDown)...),
	sig("ucx.transport-unavailable", "UCX", `transport '[^']+' is not available|no active transports|none of the available transports`,
		"A transport that UCX_TLS asks for cannot be used in this process.", "compare UCX_TLS with `ucx_info -d`", withoutDevice(fault.Steering, fault.RDMAPortDown, fault.GPUNone, fault.GPUDriver, fault.GPULibrary)...),
	sig("ucx.no-reachable", "UCX", `no (active messages|remote registered memory access|auxiliary|am bcopy|put short|wireup|[a-z0-9 ]+) transport to .*: .*(is|no|not|Unsupported|Destination)`,
		"UCX found no transport that both ends have: on one side a device is missing, or the lists of transports do not meet.",
		"run `hopbench doctor` on both ends and compare", withoutDevice(fault.Steering, fault.RDMAPortDown)...),
	sig("verbs.no-driver", "libibverbs", `no userspace device-specific driver found for`,
		"libibverbs sees the device in /sys and has no provider library for its kernel driver.", "install ibverbs-providers", fault.RDMANoProvider),
	sig("verbs.provider-load", "libibverbs", `couldn't load driver '?(lib)?[a-z0-9_]+-rdmav\d+`,
		"A provider that is named in /etc/libibverbs.d cannot be loaded: its library is missing or of another version than libibverbs.",
		"install libibverbs and its providers from one source", fault.RDMANoProvider),
	sig("mooncake.no-rdma", "Mooncake, NIXL, vLLM, SGLang", `(?i)no RDMA devices found, check|RDMA device.*unavailable.*(skip|falling|fallback|switch)|(fall(ing)? ?back|switch(ing)?|downgrad\w+) to (the )?TCP`,
		"The engine found no RDMA device and goes on over TCP: everything works, at the speed of sockets.", "make the engine's protocol explicit, so that it fails instead", withoutDevice(fault.Steering, fault.RDMAPortDown)...),
	sig("verbs.no-devices", "libibverbs, perftest", `(?i)\bNo (IB|RDMA|InfiniBand|verbs) devices? (were |was )?found|Unable to find (the )?(specified )?(ib|InfiniBand)[/a-z]* ?device|No available RNIC|0 HCAs found|No HCA was found`,
		"The program's list of devices is empty, or does not hold the one that was named. With devices in /sys it is the library, the provider or the device nodes.",
		"`ibv_devices` in the same container shows the same list", withoutDevice(fault.RDMANetNS)...),
	sig("verbs.list-enosys", "libibverbs", `Failed to get (IB|RDMA) devices list: Function not implemented`,
		"The kernel has no RDMA stack loaded (ENOSYS); it is not an empty list.", "load the adapter's RDMA module on the host", fault.RDMANoStack, fault.RDMANoDevice),
	sig("verbs.open-refused", "libibverbs, perftest", `(?i)(couldn't|failed to|cannot|unable to) (get context|open( the)? (ib|ibv|rdma|verbs)?[ _]?device).*(Permission denied|Operation not permitted)|/dev/infiniband/uverbs\d+.*(Permission denied|Operation not permitted)`,
		"The device node is there and this process may not open it: its mode, or the device cgroup of the container.", "pass the device instead of mounting /dev", fault.RDMANodeRefused),
	sig("verbs.context", "perftest", `Couldn't get context for the device|Failed to get context for the device`,
		"The device is listed and could not be opened: in a container, its node was not given.", "look at /dev/infiniband", fault.RDMANoNode, fault.RDMANodeRefused),
	sig("rdma.cm-channel", "librdmacm", `(?i)unable to open /dev/infiniband/rdma_cm|rdma_create_event_channel.*(failed|No such|error)|librdmacm: (Fatal|Warning): (no RDMA devices found|unable to (open|get))`,
		"The connection manager's node is missing or refused, or not one of its devices could be opened.", "pass /dev/infiniband/rdma_cm along with the uverbs nodes; modprobe rdma_ucm on the host", withoutDevice()...),
	sig("nccl.ib-disabled", "NCCL", `NET/IB : No device found|NET/Socket : Using|Using network Socket`,
		"NCCL uses sockets: it found no usable InfiniBand or RoCE device, or was told not to look.", "NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,NET says why each device was left out", withoutDevice(fault.Steering, fault.RDMAPortDown, fault.RDMANetNS)...),
	sig("nccl.lib-open", "NCCL", `(Failed to open|cannot open) libibverbs\.so|libibverbs\.so(\.1)?: cannot open shared object file`,
		"libibverbs is not installed in this image.", "add libibverbs1 and ibverbs-providers", fault.RDMANoLibrary),

	// Memory.
	sig("verbs.memlock", "libibverbs, perftest, UCX, MPI", `(?i)(ibv_(reg_mr|create_cq|create_qp|create_srq|exp_reg_mr|alloc_pd)|Couldn't (allocate MR|create (CQ|QP|SRQ))|Unable to create (CQ|QP|MR))[^\n]*(Cannot allocate memory|ENOMEM|errno 12\b)`,
		"The kernel would not pin the memory. Almost always it is the limit on locked memory; queues are pinned too.", "`ulimit -l` inside the same container", fault.RDMAMemlock, fault.RDMAMemlockBound),
	sig("ucx.memlock", "UCX", `Please set max locked memory \(ulimit -l\) to 'unlimited'`,
		"UCX read the limit on locked memory after a failure. On a node where RDMA is not used the line is no problem at all.", "ignore it where no RDMA device is meant to be used", fault.RDMAMemlock, fault.RDMAMemlockBound),
	sig("ompi.registered-memory", "Open MPI", `(?i)local host has limits? on (the amount of )?(registered|locked) memory|unable to allocate registered memory|It appears that your OpenFabrics subsystem is configured to only allow registering part of your physical memory`,
		"MPI could not register what it wanted: the limit on locked memory, or the driver's table of translations.", "`ulimit -l unlimited` for the daemon that starts the ranks", fault.RDMAMemlock, fault.RDMAMemlockBound),
	sig("verbs.reg-efault", "libibverbs, perftest, UCX, NCCL", `(?i)(ibv_reg_mr\w*|reg(ister)?_?(mr|mem\w*|memory)|Couldn't allocate MR)[^\n]*(Bad address|EFAULT|errno[: ]+14\b|error 14\b)`,
		"A device pointer was registered and the kernel could not pin it: there is no peer-memory module, or the memory is of a kind that it cannot pin (VMM, a pool).",
		"use DMA-BUF, or load nvidia-peermem; allocate by cudaMalloc", fault.GDRNoWay, fault.GDRPeerMemMissing, fault.GDRPeerMemBad, fault.GDRBAR1),
	sig("perftest.mr", "perftest", `Couldn't allocate MR`,
		"A buffer could not be registered. With a size that works and a sweep that does not, it is the limit on locked memory.", "`ulimit -l`; with --use_cuda see the GPUDirect codes", fault.RDMAMemlock, fault.RDMAMemlockBound, fault.GDRNoWay),
	sig("verbs.dmabuf-93", "libibverbs, NCCL", `(?i)ibv_reg_dmabuf_mr[^\n]*(Protocol not supported|EPROTONOSUPPORT|errno[: ]+93\b|error 93\b)`,
		"The kernel's RDMA side is older than 5.12 and does not import DMA-BUF, although CUDA exported one.", "newer kernel, or nvidia-peermem", fault.GDRDMABuf, fault.GDRNoWay),
	sig("verbs.dmabuf-95", "libibverbs, NCCL", `(?i)ibv_reg_dmabuf_mr[^\n]*(Operation not supported|EOPNOTSUPP|errno[: ]+95\b|error 95\b)`,
		"The NIC's driver or provider does not import DMA-BUF.", "newer NIC driver, or nvidia-peermem", fault.GDRDMABuf, fault.GDRNoWay),
	sig("verbs.dmabuf-22", "libibverbs", `(?i)ibv_reg_dmabuf_mr[^\n]*(Invalid argument|EINVAL|errno[: ]+22\b)`,
		"The range that was asked for is longer than the DMA-BUF: with expandable segments one export covers one chunk only.", "turn expandable segments off for the pool that holds the cache", fault.GDRDMABuf),
	sig("peermem.insert", "modprobe, kernel", `could not insert '?nvidia[_-]peermem'?: Invalid argument|nvidia_peermem: disagrees about version of symbol|nvidia_peermem: Unknown symbol ib_(un)?register_peer_memory_client`,
		"The module exists and does not match the loaded ib_core.", "rebuild the GPU driver against the installed RDMA stack, or use DMA-BUF", fault.GDRPeerMemBad),
	sig("nccl.no-gdr", "NCCL", `GPU Direct RDMA Disabled|GPUDirect RDMA (is )?(disabled|not (available|supported|enabled))|nv_peer_mem.*not (loaded|found)`,
		"NCCL stages GPU buffers through host memory for this NIC.", "compare with `hopbench probe`: path class, peermem, DMA-BUF", fault.GDRNoWay, fault.GDRPeerMemMissing, fault.PCIDistance),

	// Ports, GIDs, MTU, queue pairs.
	sig("perftest.port-down", "perftest", `Port number \d+ state is (Down|Initialize|Init|Armed)`,
		"The tool took a port that is not ACTIVE; another one may be.", "name an ACTIVE device with -d and -i", fault.RDMAPortDown, fault.RDMANoSM),
	sig("nccl.port-skip", "NCCL, UCX", `(?i)port .*(is|state) (not active|PORT_DOWN|PORT_INIT\w*)`,
		"A port is not in the state ACTIVE.", "look at the cable, and on InfiniBand at the subnet manager", fault.RDMAPortDown, fault.RDMANoSM),
	sig("gid.none", "Mooncake, UCX", `(?i)no suitable GID|failed to (find|select) (a )?(valid |suitable )?GID|GID is NULL, please check your GID index|invalid GID index|all-zero GID`,
		"No entry of the port's GID table was acceptable: the interface has no address, its entries belong to another namespace, or an IPv6-only table met a program that wants IPv4.", "look at the table with `hopbench probe`; name an index on each side", fault.RDMANoGID, fault.RDMAGIDForeign, fault.RDMAGIDLinkLocal),
	sig("gid.read-einval", "NCCL", `(gid_attrs/types/\d+|gid_attrs/ndevs/\d+).*Invalid argument`,
		"A slot of the GID table is empty, which the kernel answers with EINVAL. A program that stops there does not know that tables have holes (pods with macvlan).", "name an index that is in use: NCCL_IB_GID_INDEX", fault.RDMAGIDForeign),
	sig("rtr.enodev", "libibverbs, NCCL", `(?i)(ibv_modify_qp|modify[^\n]*RTR)[^\n]*(No such device|ENODEV|errno 19\b|error 19\b)`,
		"The GID that the queue pair was given is gone, or belongs to an interface of another network namespace. The two pods may need different indices.", "set the index for each side by itself", fault.RDMAGIDForeign, fault.RDMANoGID, fault.RDMANetNS),
	sig("rtr.timeout", "libibverbs, NCCL, Mooncake", `(?i)(ibv_modify_qp|modify[^\n]*RTR)[^\n]*(Connection timed out|ETIMEDOUT|\[110\]|errno 110\b|error 110\b)`,
		"On RoCE the kernel resolves the peer's link address at this step and got no answer: wrong subnet, a link-local GID, a VLAN, a route that is not there.", "compare the subnets of both GIDs; `ip route get` the peer's GID address", fault.RDMAGIDLinkLocal, fault.RDMASameSubnet, fault.PairSubnet),
	sig("rtr.unreachable", "libibverbs", `(?i)(ibv_modify_qp|modify[^\n]*RTR)[^\n]*(Network is unreachable|No route to host|errno (101|113)\b)`,
		"There is no route from the GID's address to the peer's.", "give both interfaces addresses of one subnet, or a route", fault.PairSubnet, fault.RDMAGIDLinkLocal),
	sig("rtr.einval", "libibverbs, perftest", `(?i)(ibv_modify_qp|modify[^\n]*RTR)[^\n]*(Invalid argument|EINVAL|errno 22\b|error 22\b)|Failed to modify QP to RTR|Unable to Connect the HCA's through the link`,
		"The attributes do not fit: first suspect a missing global header (GRH) on RoCE or with GRH_REQUIRED, then the GID index, then a path MTU above the port's.", "name --gid-index; compare the MTUs of both ends", fault.RDMANoGID, fault.RDMAMTUCap, fault.PairMTU),
	sig("wc.retry", "UCX, NCCL, perftest", `(?i)(status[: =]+12\b|Transport retry (count|counter) exceeded|IBV_WC_RETRY_EXC_ERR|(transport|completion|wc|qp|rdma|ibv?|mlx5)\b[^\n]*retry exceeded)`,
		"Packets of a reliable connection got no acknowledgement. ICMP that works proves nothing about RoCE (UDP 4791). Suspects: different GID types or families, MTU, drops without flow control, a wrong path, a peer that ended.", "compare both ends with `hopbench doctor --peer`; then look at the switch's drop counters", fault.PairGIDType, fault.RDMAFlowControl, fault.RDMAGIDLinkLocal, fault.RDMAMTUCap),
	sig("wc.rnr", "UCX, NCCL, perftest", `(?i)(status[: =]+13\b.*(RNR|completion|wc|error)|IBV_WC_RNR_RETRY_EXC_ERR|RNR retry (count|counter) exceeded)`,
		"The peer had no receive posted and the sender was told not to wait.", "post receives before saying ready; rnr_retry 7"),
	sig("wc.local-prot", "UCX, NCCL, perftest", `(?i)(IBV_WC_LOC_PROT_ERR|local protection (error|fault))`,
		"The NIC could not use the local buffer: outside its region, or GPU memory that the platform does not let it reach.", "the same with host memory; then the PCI path of GPU and NIC", fault.PCIDistance, fault.PCIACS, fault.PCIIOMMU),
	sig("wc.remote-access", "UCX, NCCL, perftest", `(?i)(IBV_WC_REM_ACCESS_ERR|remote access error)`,
		"The peer's NIC refused the address, the key or the access right.", "compare region length and rkey on both sides"),
	sig("wc.remote-invalid", "UCX, NCCL, perftest", `(?i)(IBV_WC_REM_INV_REQ_ERR|remote invalid request)`,
		"The peer's NIC could not take the request: a message longer than its buffer, or two ends with different path MTUs.", "exchange the MTU and use the smaller", fault.PairMTU, fault.RDMAMTUCap),
	sig("wc.local-length", "UCX, NCCL, perftest", `(?i)(IBV_WC_LOC_LEN_ERR|local length error)`,
		"A work request was longer than the port's largest message, or than the posted receive.", "split messages at max_msg_sz"),
	sig("wc.flushed", "UCX, NCCL, perftest", `(?i)(IBV_WC_WR_FLUSH_ERR|Work Request Flushed)`,
		"A consequence: the queue pair had already failed. The first other error is the cause.", "look further up"),
	sig("efa.qp", "libibverbs", `(?i)(ibv_create_qp|create qp)[^\n]*(Operation not supported|EOPNOTSUPP|errno 95\b)`,
		"The device does not offer this type of queue pair: EFA has no reliable connections.", "use libfabric's efa provider or TCP", fault.RDMAEFA),
	sig("qp.einval", "libibverbs, perftest", `(?i)(ibv_create_qp|create qp)[^\n]*(Invalid argument|EINVAL|errno 22\b)`,
		"The device cannot give what was asked: inline size, depth or pieces above its limits.", "a smaller inline size (perftest: -I 0)"),
	sig("perftest.qp", "perftest", `Unable to create QP`,
		"One sentence for several causes: locked memory, inline size, a device without reliable connections.", "perftest -I 0; `ulimit -l`; the device's driver", fault.RDMAEFA, fault.RDMAMemlock, fault.RDMAMemlockBound, fault.RDMAIWARP),
	sig("mtu.local-remote", "perftest", `(?i)MTU (mismatch|of (the )?remote|.*active MTU is)`,
		"The path MTU that was asked for is larger than a port's active MTU.", "let the tool take the port's own MTU", fault.RDMAMTUCap, fault.PairMTU),
	sig("subnet.netns", "librdmacm, Kubernetes", `(?i)(rdma_(resolve|bind)_addr|bind addr)[^\n]*(No such device|-19\b)`,
		"The connection manager finds no RDMA device for that address in this namespace.", "`rdma system show`; the pod's second network", fault.RDMANetNS, fault.RDMAGIDForeign),

	// GPUs.
	sig("cuda.802", "CUDA", `(?i)system not yet initialized|CUDA(_| )ERROR(_| )SYSTEM(_| )NOT(_| )READY|(cuInit|CUDA (driver |runtime )?(error|failure|call))[^\n]*\b802\b`,
		"The NVSwitch fabric is not initialised: the fabric manager is missing, of another version, or not finished. It does not mean that there is no GPU.", "`systemctl status nvidia-fabricmanager` on the node", fault.GPUFabric),
	sig("nvml.mismatch", "NVML, nvidia-smi", `(?i)driver/library version mismatch|NVML library version: [0-9.]+|ERROR_LIB_RM_VERSION_MISMATCH|API mismatch: the (client|NVIDIA)`,
		"The loaded kernel module and the user libraries are of different releases.", "reload the module or reboot; restart the container", fault.GPUMismatch),
	sig("nvml.no-driver", "nvidia-smi", `NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver|CUDA driver version is insufficient for CUDA runtime version|ERROR_DRIVER_NOT_LOADED|Driver Not Loaded`,
		"The kernel module is not loaded, or older than the program needs.", "modprobe nvidia, and the kernel log", fault.GPUDriver, fault.GPUMismatch, fault.GPUNone),
	sig("cuda.lib", "CUDA", `libcuda\.so(\.1)?: cannot open shared object file|libnvidia-ml\.so(\.1)?: cannot open shared object file`,
		"The driver's user libraries are not in this container.", "use the nvidia container runtime", fault.GPULibrary, fault.GPUNone),
	sig("cuda.no-device", "CUDA", `(?i)no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice`,
		"CUDA sees no GPU: none was given, or CUDA_VISIBLE_DEVICES hides all.", "`nvidia-smi -L` in the same container", fault.GPUNode, fault.GPUNone, fault.GPUDriver, fault.Steering),
	sig("cuda.peer", "CUDA, NCCL, UCX", `(?i)peer access is not supported between these two devices|CUDA_ERROR_PEER_ACCESS_UNSUPPORTED|P2P is disabled between (connected )?GPUs|cudaErrorPeerAccessUnsupported`,
		"The driver refuses peer access between two GPUs; copies are staged through the host.", "`nvidia-smi topo -p2p r`", fault.GPUPeer, fault.GPUMIG, fault.Steering),
	sig("cuda.ipc", "UCX, NCCL, CUDA", `(?i)(cuIpcOpenMemHandle|cudaIpcOpenMemHandle|cuda_ipc)[^\n]*(invalid|failed|not supported|error)`,
		"A GPU buffer of another process could not be opened: the two processes do not see the same GPUs, or do not share namespaces.", "both GPUs in one container, or hostIPC and hostPID with both visible", fault.GPUContainers, fault.GPUOne),
	sig("cuda.imex", "NCCL, CUDA", `(?i)Cuda failure 800 |(cuMemImportFromShareableHandle|cuMemCreate|fabric handle|imex)[^\n]*(operation not permitted|not permitted|CUDA_ERROR_NOT_PERMITTED|insufficient|\b800\b)`,
		"Fabric handles need an IMEX channel; inside one host nothing needs them.", "nvidia-imex and a channel node; or turn multi-node NVLink off", fault.GPUIMEX),
	sig("cuda.context", "CUDA", `(?i)invalid device context|CUDA_ERROR_INVALID_CONTEXT`,
		"A call came from a thread that has no context of the device: a program's own fault, common where a runtime moves work between threads.", "report it to the program's authors"),
	sig("nccl.acs", "NCCL", `(?i)ACS (is )?enabled|SrcValid\+`,
		"A bridge redirects peer-to-peer traffic to the root.", "clear the bits on each bridge of the path", fault.PCIACS),

	// MPI, sockets and measurement.
	sig("mpi.init", "MPI", `MPI_Init(_thread)? failed|An error occurred in MPI_Init(_thread)?|PML add procs failed|MPIDI_OFI_mpi_init_hook`,
		"MPI gave up at its start. The lines before it name the cause; this one only says that there is one.", "look for the first error above", withoutDevice(fault.RDMAMemlock, fault.Steering)...),
	sig("ompi.no-btl", "Open MPI", `(?i)At least one pair of MPI processes are unable to reach each other|no (BTL|mtl) (components|available)`,
		"Two ranks have no transport in common.", "look at OMPI_MCA_btl and the list of usable transports on both", withoutDevice(fault.Steering, fault.RDMAPortDown)...),
	sig("iperf.buffer", "iperf3", `socket buffer size not set correctly`,
		"The kernel capped the socket buffer that was asked for.", "leave -w away, or raise net.core.{r,w}mem_max", fault.TCPSocketBuffer, fault.TCPBuffers),
	sig("rxe.module", "modprobe", `Module (rdma_rxe|siw|mlx5_ib|ib_uverbs) not found`,
		"The running kernel has no such module: cloud images keep it in linux-modules-extra.", "apt install linux-modules-extra-$(uname -r)", fault.RDMANoStack),
	sig("nic.umem", "kernel", `(?i)ib_umem_get(_peer)?[: ].*(fail|err)|mlx5_core.*(failed to|fw) .*mkey`,
		"The driver could not pin or map the buffer: BAR1 full, or peer memory absent.", "compare the size with BAR1's free part", fault.GDRBAR1, fault.GDRNoWay),
}

// Table returns every signature, in the order in which they are tried.
func Table() []*Signature { return table }
