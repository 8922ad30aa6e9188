package fault

// Codes of what a host lacks between GPUs, and of two hosts that do not fit together.
const (
	GPUNone        Code = "gpu.none"
	GPUDriver      Code = "gpu.driver-not-loaded"
	GPUMismatch    Code = "gpu.version-mismatch"
	GPUNode        Code = "gpu.no-node"
	GPULibrary     Code = "gpu.no-library"
	GPUOne         Code = "gpu.only-one"
	GPUMIG         Code = "gpu.mig"
	GPUFabric      Code = "gpu.fabric"
	GPULinkDown    Code = "gpu.nvlink-down"
	GPUNoNVLink    Code = "gpu.no-nvlink"
	GPUPeer        Code = "gpu.no-peer-access"
	GPUIMEX        Code = "gpu.imex"
	GPUContainers  Code = "gpu.container"
	GPUUnknown     Code = "gpu.links-unknown"
	TCPNoInterface Code = "tcp.no-interface"
	TCPBuffers     Code = "tcp.buffer-limits"
	TCPAllVirtual  Code = "tcp.only-virtual"
	TCPNoRoute     Code = "tcp.no-route"
	TCPSpeed       Code = "tcp.device-speed"
	PairVersion    Code = "pair.version"
	PairLinkLayer  Code = "pair.link-layer"
	PairGIDType    Code = "pair.gid-type"
	PairGIDFamily  Code = "pair.gid-family"
	PairMTU        Code = "pair.mtu"
	PairSubnet     Code = "pair.subnet"
	PairData       Code = "pair.data-address"
	PairSoftware   Code = "pair.software"
	PairBlackHole  Code = "pair.mtu-black-hole"
)

var gpuHostRows = []Row{
	{GPUNone, NotSupported, "there is no NVIDIA GPU here",
		"Neither the PCI bus nor the driver shows one. In a container the bus shows the host's GPUs and the device nodes show what was given.",
		[]Fix{{Kubernetes, "resources.limits: nvidia.com/gpu"}, {Container, "--gpus all, with nvidia-container-toolkit on the host"}}},
	{GPUDriver, NotReady, "a GPU is on the bus and its driver is not loaded",
		"The function is there, /proc/driver/nvidia is not: the kernel module is missing or did not bind.",
		[]Fix{{Shell, "install the driver and `modprobe nvidia`; the kernel log says why where it refuses"}}},
	{GPUMismatch, NotReady, "the GPU library and the kernel module have different versions",
		"After an update of the host the old module stays loaded, or an image carries its own libcuda: NVML answers \"Driver/library version mismatch\". Both versions stand in the evidence.",
		[]Fix{{Shell, "reload the module (`rmmod` and `modprobe nvidia`) or reboot"}, {Container, "restart the container so that the runtime mounts the host's libraries; put no libcuda into the image"}}},
	{GPUNode, NotReady, "the driver knows the GPU and its device node is not here",
		"In a container /proc and /sys show more than /dev: a GPU without /dev/nvidiaN was not given to it.",
		[]Fix{{Kubernetes, "resources.limits: nvidia.com/gpu with the number that is needed"}, {Container, "--gpus with the wanted devices"}}},
	{GPULibrary, NotReady, "the GPU driver's user libraries are not here",
		"libcuda.so.1 belongs to the driver and is mounted into a container by the runtime.",
		[]Fix{{Container, "use the nvidia runtime (nvidia-container-toolkit); NVIDIA_DRIVER_CAPABILITIES must hold compute"}, {Kubernetes, "runtimeClassName: nvidia, where the cluster has one"}}},
	{GPUOne, NotSupported, "only one GPU is visible in this process",
		"Peer access is measured inside one process that sees both GPUs. With one GPU a container, NVLink may exist and cannot be tested this way, whatever the containers share.",
		[]Fix{{Kubernetes, "give one container at least two GPUs: nvidia.com/gpu: 2"}, {Shell, "widen CUDA_VISIBLE_DEVICES"}}},
	{GPUMIG, NotSupported, "the GPU is in MIG mode, which has no peer access",
		"A MIG slice is alone: a process sees one of them, and neither NVLink nor PCIe peer copies exist for it.",
		[]Fix{{Shell, "`nvidia-smi -i N -mig 0` on the host, with nothing running"}}},
	{GPUFabric, NotReady, "the NVSwitch fabric is not initialised",
		"On HGX boards nvidia-smi lists the GPUs while CUDA answers error 802, \"system not yet initialized\": the fabric manager is not running, has another version than the driver, or has not finished. It does not mean that there is no GPU.",
		[]Fix{{Shell, "`systemctl status nvidia-fabricmanager`; its version must equal the driver's"}, {Kubernetes, "the fabric manager runs on the node or in the operator's driver pod: look there"}}},
	{GPULinkDown, NotReady, "NVLinks of this GPU are inactive where its peers have them active",
		"How many links a GPU has depends on model and board: 12 of 18 is by design on a bridged H100. A GPU with fewer than its twins in the same host is a fault.",
		[]Fix{{Shell, "`nvidia-smi nvlink -s`, and the kernel log for Xid 74; reset or reboot, then the vendor"}}},
	{GPUNoNVLink, NotSupported, "there is no NVLink between the GPUs: copies use PCIe",
		"The driver reports no active link. Peer copies go over PCIe, or through host memory where the platform does not let them, and are labelled so.", nil},
	{GPUPeer, NotSupported, "the driver refuses peer access between these GPUs",
		"Consumer GPUs, chipsets that do not route peer traffic, and virtual GPUs: a copy still works and is staged through host memory by the driver.",
		[]Fix{{Shell, "`nvidia-smi topo -p2p r` shows the same answer"}}},
	{GPUIMEX, NotReady, "IMEX channels are not usable, which matters only for NVLink between hosts",
		"Fabric handles between hosts need the device class nvidia-caps-imex-channels and a channel node that can be opened; else \"operation not permitted\". Inside one host nothing needs it.",
		[]Fix{{Shell, "start nvidia-imex and create a channel (nvidia-modprobe, or NVreg_CreateImexChannel0=1)"}, {Kubernetes, "a ComputeDomain of the GPU DRA driver gives the pod a channel"}}},
	{GPUContainers, NotReady, "between containers, NVLink needs what a pod does not give by itself",
		"CUDA IPC opens a peer's memory only where both processes see both GPUs and share IPC and PID namespaces. Between two pods of one GPU each it does not work; the path is RDMA or TCP even on one host.",
		[]Fix{{Kubernetes, "put both workers into one container that requests both GPUs, or into one pod with hostIPC and hostPID and both GPUs visible in each container"}}},
	{GPUUnknown, NotReady, "the state of the GPU's links cannot be told here",
		"Links and peer status come from NVML. Without it there is no verdict, which is not the same as no link.",
		[]Fix{{Container, "NVIDIA_DRIVER_CAPABILITIES must hold utility for NVML"}}},
	{TCPNoInterface, NotReady, "no interface but loopback is up",
		"TCP works on this host alone.", []Fix{{Shell, "`ip -brief link`; bring the interface up"}, {Kubernetes, "the pod has no network of its own: look at the CNI's events"}}},
	{TCPBuffers, NotReady, "the kernel's most for TCP buffers is below what a fast path needs",
		"The window grows to the third figure of tcp_rmem and tcp_wmem. A path of 100 Gb/s and 100 us holds 1.25 MB in flight, a longer one more; below it one connection cannot fill the link.",
		[]Fix{{Shell, "sysctl -w net.ipv4.tcp_rmem='4096 131072 67108864' net.ipv4.tcp_wmem='4096 65536 67108864'"}, {Kubernetes, "a pod's securityContext.sysctls, where the node allows them, or more --streams"}}},
	{TCPAllVirtual, NotSupported, "every interface is virtual",
		"veth, bridges and a hypervisor's devices have no line rate: utilisation stays blank, and the real NIC is not seen from here.", nil},
	{TCPNoRoute, NotReady, "no interface that is up has an address or a route",
		"The links are there and nobody gave them an address: a peer's address answers \"Network is unreachable\". TCP works on this host alone.",
		[]Fix{{Shell, "`ip addr` and `ip route`; give the interface an address, or look at what should have (DHCP, the CNI)"}, {Kubernetes, "the pod's second network has no address: look at its NetworkAttachmentDefinition's ipam"}}},
	{TCPSpeed, NotReady, "a hardware interface does not tell its line rate",
		"The file speed answers -1 or nothing: some drivers do not tell, and a virtual function often does not. The utilisation column stays blank rather than wrong.",
		[]Fix{{Shell, "compare with `ethtool IFACE` on the host that owns the physical function"}}},
	{PairVersion, Peer, "the two sides run different releases", "Figures of two releases are not of one method.", []Fix{{Shell, "install the same release on both"}}},
	{PairLinkLayer, Peer, "the two sides have no link layer in common", "An InfiniBand port and a RoCE port do not talk to each other.", []Fix{{Fabric, "connect ports of one kind"}}},
	{PairGIDType, Peer, "the chosen GIDs have different RoCE versions",
		"A v1 and a v2 end do not hear each other: the first data ends with status 12, retry exceeded.",
		[]Fix{{Shell, "choose entries of one type with --gid-index, each side its own index"}}},
	{PairGIDFamily, Peer, "the chosen GIDs are of different address families",
		"An IPv4 and an IPv6 GID need a route that is not there.", []Fix{{Shell, "give both ends an address of one family, or choose entries with --gid-index on each side"}}},
	{PairMTU, Peer, "the two sides have different MTUs",
		"The smaller path MTU must be used by both: a tool that lets each side take its own connects and fails at the first large message.",
		[]Fix{{Shell, "set the same MTU on both interfaces"}, {Fabric, "and on the switch ports between"}}},
	{PairSubnet, Peer, "the two ends stand in different subnets",
		"Rails are often subnets of their own that do not route to each other: then only NICs of one rail can talk, and a queue pair between two rails times out (110).",
		[]Fix{{Shell, "name a device of the same rail on both sides with --device"}, {Fabric, "or route between the rails"}}},
	{PairData, Peer, "the data address of the peer cannot be reached from here",
		"Control may use one network and data another: a pod's RDMA address is often not routable for TCP, and a management address is the wrong way for data.",
		[]Fix{{Shell, "name the data address with --data-address on the peer"}}},
	{PairBlackHole, Peer, "small packets pass between the two sides and large ones are lost",
		"Some hop has a smaller MTU than the ends and drops what is larger without a word: a tunnel or overlay, a switch port without jumbo frames, a firewall that drops ICMP. The connection comes about, small messages pass, and the first large one stalls until it times out (TCP), or ends with status 12, retry exceeded (RDMA).",
		[]Fix{{Shell, "find the size that passes: `ping -M do -s 8972 PEER` for an MTU of 9000, 1472 for 1500; then set that MTU on both ends"}, {Fabric, "allow the ends' MTU on each switch port, tunnel and router between"}, {Kubernetes, "the pod's MTU must leave room for the overlay's headers: look at the CNI's mtu"}, {Shell, "for TCP alone: sysctl net.ipv4.tcp_mtu_probing=1 finds the smaller size by itself"}}},
	{PairSoftware, Peer, "one side is a software device and the other is hardware",
		"It may work, and says nothing about the hardware.", []Fix{{Shell, "choose like devices with --device"}}},
}
