package fault

// Codes of what a host lacks for RDMA. The doctor finds them before a run, and a failed run names them.
const (
	RDMANoStack       Code = "verbs.no-kernel-stack"
	RDMANoDevice      Code = "verbs.no-device"
	RDMANoLibrary     Code = "verbs.no-library"
	RDMALibraryTwice  Code = "verbs.library-copies"
	RDMANoProvider    Code = "verbs.no-provider"
	RDMANoNode        Code = "verbs.no-node"
	RDMANodeRefused   Code = "verbs.node-refused"
	RDMALinkLayer     Code = "verbs.link-layer"
	RDMAPortDown      Code = "verbs.port-down"
	RDMANoSM          Code = "verbs.no-subnet-manager"
	RDMAPKeyLimited   Code = "verbs.pkey-limited"
	RDMANoGID         Code = "verbs.no-gid"
	RDMAGIDForeign    Code = "verbs.gid-foreign"
	RDMAGIDLinkLocal  Code = "verbs.gid-link-local"
	RDMAGIDStale      Code = "verbs.gid-stale"
	RDMARoCEv1        Code = "verbs.roce-v1"
	RDMAMTUCap        Code = "verbs.mtu-cap"
	RDMANetNS         Code = "verbs.netns-exclusive"
	RDMABond          Code = "verbs.bond"
	RDMAMemlock       Code = "verbs.memlock"
	RDMAMemlockBound  Code = "verbs.memlock-bounding"
	RDMAIWARP         Code = "verbs.iwarp"
	RDMAEFA           Code = "verbs.efa"
	RDMASoftware      Code = "verbs.software"
	RDMANodeType      Code = "verbs.node-type"
	RDMASameSubnet    Code = "verbs.same-subnet"
	RDMAFlowControl   Code = "verbs.flow-control"
	RDMAUnreadable    Code = "verbs.unreadable"
	RDMACounters      Code = "verbs.rate-unknown"
	GDRNoWay          Code = "gpudirect.no-way"
	GDRPeerMemMissing Code = "gpudirect.peermem-not-loaded"
	GDRPeerMemBad     Code = "gpudirect.peermem-mismatch"
	GDRDMABuf         Code = "gpudirect.dmabuf"
	GDRBAR1           Code = "gpudirect.bar1"
	PCIDistance       Code = "pci.distance"
	PCIWidth          Code = "pci.width"
	PCISpeed          Code = "pci.speed"
	PCIUpstream       Code = "pci.upstream"
	PCIACS            Code = "pci.acs"
	PCIIOMMU          Code = "pci.iommu"
	Steering          Code = "env.steering"
)

// podDevice is the advice that every missing device node in a pod leads to.
const podDevice = "request the RDMA device plugin's resource under resources.limits (the name is the cluster's: `kubectl describe node` lists it, often rdma/hca_shared_devices_a or nvidia.com/..., one for each GPU's NIC), or choose a path that needs no HCA: NVLink in one pod, or TCP"

var rdmaHostRows = []Row{
	{RDMANoStack, NotReady, "the kernel has no RDMA stack loaded",
		"/sys/class/infiniband does not exist, so ib_core is not loaded; libibverbs answers ENOSYS (\"Function not implemented\"). This is not the same as a stack without a device.",
		[]Fix{{Shell, "load the adapter's driver (modprobe mlx5_ib, irdma, bnxt_re), or `modprobe rdma_rxe` and `rdma link add rxe0 type rxe netdev IFACE` for a software device"},
			{Container, "modules are the host's: load them there, not in the image"},
			{Kubernetes, "run on a node with RDMA hardware: a nodeSelector on the label of the network operator, or " + podDevice}}},
	{RDMANoDevice, NotReady, "the RDMA stack is loaded and has no device",
		"/sys/class/infiniband is there and empty. The adapter is absent, its RDMA driver is not bound, or the devices belong to another network namespace (exclusive mode).",
		[]Fix{{Shell, "`lspci | grep -i -E 'mellanox|infiniband|ethernet'` and the kernel log tell whether an adapter is there; load its _ib or _re module"},
			{Kubernetes, podDevice}}},
	{RDMANoLibrary, NotReady, "libibverbs.so.1 is not installed here",
		"The kernel side may be whole: what is missing is the userspace library, most often in a container image. Programs say \"No IB devices found\" or quietly use sockets.",
		[]Fix{{Shell, "install libibverbs1 and ibverbs-providers (Debian, Ubuntu), rdma-core (Red Hat family)"}, {Container, "add the two packages to the image; a mounted device does not bring them"}}},
	{RDMALibraryTwice, NotReady, "several copies of libibverbs are installed",
		"A vendor's stack beside the distribution's, or a wheel that brings its own: two programs of one host may load different copies, with different providers, and one of them then sees no device. `hopbench run` names the copy that it loaded in each row's path.",
		[]Fix{{Shell, "`ldconfig -p | grep libibverbs` and `cat /proc/PID/maps` show which is loaded; keep one, beside its own providers"}, {Container, "install rdma-core from one source only"}}},
	{RDMANoProvider, NotReady, "libibverbs has no provider for the device's driver",
		"libibverbs alone drives no device: each kernel driver needs its provider library. Without it the device list is empty or says \"no userspace device-specific driver found\" although /sys shows the device.",
		[]Fix{{Shell, "install ibverbs-providers, or the vendor's package that holds it"}, {Container, "add it to the image, of a version that knows the kernel's driver"}}},
	{RDMANoNode, NotReady, "the device is seen but cannot be opened from here: no device node",
		"/sys/class/infiniband shows every device of the host, in a container too; what may be used is decided by /dev/infiniband/uverbsN. A device whose node is not there can be listed and not opened, and a library that opens it fails with \"No such device\". That others are visible is normal.",
		[]Fix{{Container, "pass the node: --device=/dev/infiniband/uverbsN and --device=/dev/infiniband/rdma_cm"},
			{Kubernetes, podDevice},
			{Shell, "on a host without the node: `modprobe ib_uverbs`"}}},
	{RDMANodeRefused, NotReady, "the device node is there and opening it is refused",
		"EACCES is the node's mode and owner; EPERM with a mode that would allow it is the device cgroup of the container, which refuses whatever was not passed as a device (a bind mount of /dev does not help).",
		[]Fix{{Shell, "EACCES: `ls -l /dev/infiniband`; mode 0666 is usual, by udev rule or group rdma"}, {Container, "EPERM: pass it by --device, not by a volume"}, {Kubernetes, podDevice}}},
	{RDMALinkLayer, NotSupported, "no port speaks this link layer",
		"One verbs driver serves two networks: InfiniBand with a subnet manager, and RoCE over Ethernet. The port's own link_layer decides which.",
		[]Fix{{Shell, "use the transport that the ports do speak; dual-protocol adapters are switched with mlxconfig LINK_TYPE_P1 and a reboot"}}},
	{RDMAPortDown, NotReady, "the port is not up",
		"A port carries data in the state ACTIVE only. DOWN with phys_state Polling or Disabled is the cable, the switch port or an interface that is administratively down.",
		[]Fix{{Shell, "RoCE: `ip link set IFACE up`; look at phys_state"}, {Fabric, "check cable, transceiver and the switch port's state and speed"}, {Shell, "choose an ACTIVE port with --device and --port"}}},
	{RDMANoSM, NotReady, "the InfiniBand port waits for a subnet manager",
		"The link is up and the port stays in INIT: nobody gave it a LID. Without a subnet manager no packet passes, although the cable is well.",
		[]Fix{{Fabric, "start a subnet manager: on a managed switch, or opensm on one host"}, {Shell, "`sminfo` and `ibstat` show whether one answers; look at the switch's SM log for this port"}}},
	{RDMAPKeyLimited, NotReady, "the port is only a limited member of its partition",
		"A P_Key without its top bit (0x7fff) talks to full members only: two limited members start and then do not exchange data.",
		[]Fix{{Fabric, "make the port a full member in the subnet manager's partitions.conf"}}},
	{RDMANoGID, NotReady, "the port has no GID that can be used",
		"RoCE addresses a peer by a GID that stems from an IP address of the port's interface. An empty table means: no interface here, or one without an address.",
		[]Fix{{Shell, "give the port's interface an address and bring it up"}, {Kubernetes, "attach the pod's second network (SR-IOV or macvlan by a NetworkAttachmentDefinition) so that an interface with an address is in the pod"}}},
	{RDMAGIDForeign, NotReady, "the GIDs belong to interfaces of another network namespace",
		"The table lists the entries of every namespace in shared mode. An entry whose interface is not here cannot be used: the connection ends with \"No such device\" or in a time-out.",
		[]Fix{{Kubernetes, "attach the pod's own interface of that NIC (macvlan or SR-IOV), or hostNetwork: true"}, {Container, "--network=host"}, {Shell, "--gid-index with an entry whose interface is here"}}},
	{RDMAGIDLinkLocal, NotReady, "the only GIDs are link-local",
		"A link-local address (fe80::) reaches neighbours of one segment and no further, and vanishes with the interface. The queue pair then times out on its way to RTR.",
		[]Fix{{Shell, "give the interface an IPv4 address, or a global or unique-local IPv6 one"}}},
	{RDMAGIDStale, NotReady, "the GID's address is not on its interface",
		"Entries of the GID table follow the addresses of an interface, and an address that has gone may leave its entry behind. A peer that is told such a GID sends to an address that nobody answers for: the queue pair times out on its way to RTR, or ends with status 12.",
		[]Fix{{Shell, "`ip addr show dev IFACE`; set the interface down and up again, or name an entry whose address is there with --gid-index"}}},
	{RDMARoCEv1, NotReady, "only RoCE v1 is offered",
		"RoCE v1 frames are not routed and need the same type on both sides. A peer that chose v2 does not answer.",
		[]Fix{{Shell, "set the default RoCE mode to v2 where the driver lets it (cma_roce_mode), or give the interface an IP address"}, {Fabric, "keep both ends in one Ethernet segment"}}},
	{RDMAMTUCap, NotReady, "the interface's MTU keeps the RoCE path MTU small",
		"RoCE packets fit into the Ethernet frame: MTU 1500 leaves a path MTU of 1024, 4200 or more leaves 4096. It works, with more packets for the same bytes, and both ends use the smaller of the two.",
		[]Fix{{Shell, "`ip link set IFACE mtu 9000` on both ends"}, {Fabric, "allow jumbo frames on the switch ports between"}}},
	{RDMANetNS, NotReady, "RDMA devices belong to one network namespace each here",
		"In exclusive mode a device is usable only in the namespace that owns it; a shared device plugin cannot work, and the connection manager answers with -19.",
		[]Fix{{Shell, "`rdma system set netns shared` on the host, before any namespace uses a device; or move the device: `rdma dev set DEV netns NAME`"}, {Kubernetes, "use SR-IOV with the rdma CNI plugin, which moves the device into the pod"}}},
	{RDMABond, NotSupported, "the device is a bond: one queue pair uses one leg",
		"The rate of a LAG device may be that of one leg or of all. A single connection is hashed to one of them, so half of the rate is what one queue pair can give, and no fault.",
		[]Fix{{Shell, "use --streams 2 or more to fill both legs"}}},
	{RDMAMemlock, NotReady, "the limit on locked memory is too small for the buffers",
		"Registration pins memory, and queues are pinned too: with 64 KiB even a completion queue may fail with ENOMEM (\"Cannot allocate memory\"). Small sizes work and the sweep fails later. The limit does not count for a process whose CAP_IPC_LOCK is effective.",
		[]Fix{{Shell, "`ulimit -l unlimited`; for good in /etc/security/limits.d (memlock), or LimitMEMLOCK=infinity in the service's unit"},
			{Container, "--ulimit memlock=-1, or LimitMEMLOCK=infinity in the unit of containerd or docker"},
			{Kubernetes, "securityContext.capabilities.add: [\"IPC_LOCK\"] with the container running as root; there is no ulimit field in a pod spec"}}},
	{RDMAMemlockBound, NotReady, "CAP_IPC_LOCK was granted and is not effective for this user",
		"A capability that a runtime adds reaches only the bounding set of a process that does not run as root: the limit on locked memory counts as if nothing had been granted.",
		[]Fix{{Container, "set LimitMEMLOCK=infinity in containerd's unit: it reaches every user"},
			{Kubernetes, "runAsUser: 0 for this container, or keep the user and raise the node runtime's LimitMEMLOCK"},
			{Shell, "or `setcap cap_ipc_lock+ep` on the program's file in the image"}}},
	{RDMAIWARP, NotSupported, "the device is iWARP, which connects only through the connection manager",
		"iWARP (siw, cxgb4, irdma in that mode) is RDMA over TCP: there is no out-of-band exchange of queue pair numbers, which this transport uses. A modify to RTR would fail for a reason that looks like something else.",
		[]Fix{{Shell, "irdma: load with roce_ena=1 to get RoCE; siw: use rdma_rxe instead"}}},
	{RDMAEFA, NotSupported, "the device is an EFA, which has no reliable connection queue pairs",
		"EFA offers UD and SRD. Creating a reliable connection answers EOPNOTSUPP; it is neither permission nor firmware.",
		[]Fix{{Shell, "use the tcp transport between these hosts; libfabric's efa provider is the way for programs that can"}}},
	{RDMASoftware, NotSupported, "the device is software: its rate says nothing",
		"rxe and siw work in the kernel over an ordinary interface. The rate in /sys is a made-up figure, and results are marked software and never compared with hardware.", nil},
	{RDMANodeType, NotSupported, "the entry is no channel adapter",
		"Switch ports and unspecified nodes stand in the same folder as adapters and cannot carry a queue pair.", nil},
	{RDMASameSubnet, NotReady, "several RoCE interfaces stand in one subnet",
		"With several interfaces in one subnet and default ARP settings, any of them answers for any address: replies leave by another port than the one that was asked, and queue pairs time out.",
		[]Fix{{Shell, "sysctl net.ipv4.conf.all.arp_ignore=1 arp_announce=2, or a subnet for each rail"}, {Fabric, "one subnet a rail"}}},
	{RDMAFlowControl, NotReady, "RoCE runs without a lossless class",
		"Without PFC or ECN on the path, congestion drops RoCE packets, and a reliable connection that loses packets is slow or ends with status 12 (retry exceeded). Both ends and each switch between must agree on trust mode and priority.",
		[]Fix{{Shell, "`mlnx_qos -i IFACE --trust dscp --pfc 0,0,0,1,0,0,0,0`, or `dcb pfc set dev IFACE prio-pfc 3:on`"}, {Fabric, "enable PFC or ECN for the same priority on the switch ports"}}},
	{RDMAUnreadable, NotReady, "an attribute of the device cannot be read",
		"One unreadable attribute hides only itself; the verdict on what depends on it is \"cannot tell\".",
		[]Fix{{Shell, "read the named file by hand; a firmware or driver that answers with an error is worth its vendor's attention"}}},
	{RDMACounters, NotReady, "the port's rate is not known",
		"The file is empty without a cable, and old kernels report codes that they do not know as 10 Gb/sec. The utilisation column stays blank rather than wrong.",
		[]Fix{{Shell, "compare with `ibv_devinfo -v` (active_speed, active_width) and with ethtool"}}},
	{GDRNoWay, NotReady, "no GPUDirect way is there: GPU buffers go through host memory",
		"A NIC reaches GPU memory either by DMA-BUF (kernel 5.12 or later, open GPU kernel modules, a NIC driver that imports it) or by nvidia-peermem. With neither, registering a device pointer fails with EFAULT (\"Bad address\").",
		[]Fix{{Shell, "use the open flavour of the GPU kernel modules for DMA-BUF, or `modprobe nvidia-peermem`"}, {Container, "both are the host's: nothing in the image changes them"}}},
	{GDRPeerMemMissing, NotReady, "nvidia-peermem is on disk and not loaded",
		"The module ties the RDMA stack to the GPU driver. Where DMA-BUF works it is not needed.",
		[]Fix{{Shell, "`modprobe nvidia-peermem` on the host"}, {Kubernetes, "the GPU operator's driver.rdma.enabled=true loads it on the node"}}},
	{GDRPeerMemBad, NotReady, "nvidia-peermem does not match the loaded RDMA stack or GPU driver",
		"The module was built against another ib_core (the distribution's against the vendor's stack) or belongs to another driver version: inserting it answers \"Invalid argument\" and the kernel log says that it disagrees about a symbol's version. Installing it again does not help.",
		[]Fix{{Shell, "rebuild the GPU driver after the RDMA stack was installed, or use DMA-BUF with the open kernel modules"}}},
	{GDRDMABuf, NotSupported, "DMA-BUF export of GPU memory is not offered here",
		"It needs kernel 5.12 or later on the RDMA side (EPROTONOSUPPORT, 93, says that it is older), a NIC driver that imports it (EOPNOTSUPP, 95), and the open flavour of the GPU kernel modules.",
		[]Fix{{Shell, "install the open kernel modules, or load nvidia-peermem"}}},
	{GDRBAR1, NotReady, "the GPU's BAR1 is smaller than its buffers may be",
		"NICs reach GPU memory through the BAR1 aperture where there is no other way. On small apertures (256 MiB) a large registration fails although small ones work.",
		[]Fix{{BIOS, "enable Above 4G Decoding and Resizable BAR"}, {Shell, "keep the sum of the registered GPU buffers below BAR1 (`nvidia-smi -q -d MEMORY`)"}}},
	{PCIDistance, NotReady, "the GPU and the NIC are far apart",
		"Between NUMA nodes or root ports, peer-to-peer traffic crosses the processor's fabric: it is slower, and on some platforms fails with status 4 (local protection).",
		[]Fix{{Shell, "use the NIC nearest to the GPU: --device, as `hopbench probe` lists it"}, {Kubernetes, "topology manager policy single-numa-node, and one NIC for each GPU"}}},
	{PCIWidth, NotReady, "a PCI link uses fewer lanes than it could",
		"A link speed falls while a device is idle, but lanes do not come back under load: a device at x8 of x16 has half of its bandwidth. Some slots are wired so by design.",
		[]Fix{{BIOS, "check the slot's bifurcation"}, {Shell, "reseat the card; compare with the same slot of a like host"}}},
	{PCISpeed, NotReady, "the link's speed was read while the device was idle",
		"A GPU lowers its link to 2.5 GT/s when nothing runs. The most that the link can do is what counts; look again under load before you call it slow.",
		[]Fix{{Shell, "read current_link_speed while a copy runs"}}},
	{PCIUpstream, NotReady, "a bridge above the device carries less than the device",
		"A device has its full link to the bridge, and the bridge's own link towards the processor is of an older generation or has fewer lanes: the slot, riser or switch sets the limit. What several devices share is divided further.",
		[]Fix{{Shell, "`hopbench probe` names the narrowest hop of each path; put the card into a slot of the processor's own"}, {BIOS, "check the slot's generation and bifurcation"}}},
	{PCIACS, NotReady, "ACS sends peer-to-peer traffic up to the root",
		"With the redirect bits of Access Control Services set on a bridge, GPU and NIC below one switch talk through the root complex: slower by half or more, and wrong data on some platforms. The BIOS setting does not always reach every bridge.",
		[]Fix{{Shell, "clear the control bits on each bridge of the path as root (setpci -s BDF ECAP_ACS+6.w=0000), at each boot"}, {BIOS, "turn ACS off"}}},
	{PCIIOMMU, NotReady, "the IOMMU translates device addresses",
		"Translation makes peer-to-peer accesses go up to the root, and between GPUs copies may then succeed and carry wrong data. An empty kernel command line does not mean off: the type of the IOMMU groups says what is.",
		[]Fix{{Shell, "boot with iommu=pt (groups of type identity)"}, {BIOS, "turn VT-d or AMD-Vi off where no virtual machine needs it"}}},
	{Steering, NotReady, "a variable in the environment steers which path is taken",
		"Libraries of this field obey variables that a platform or an old script may have set for another purpose: a transport list that leaves out InfiniBand makes everything quietly use TCP.",
		[]Fix{{Shell, "unset it, or set it on purpose and note it with the result"}, {Kubernetes, "look for it under env and envFrom of the pod, and in what the platform injects"}}},
}
