package fault

// Codes of CUDA, NVML and peer access.
const (
	CUDANoLibrary    Code = "cuda.no-library"
	CUDATooOld       Code = "cuda.too-old"
	CUDANoDevice     Code = "cuda.no-device"
	CUDAFabric       Code = "cuda.fabric-not-ready"
	CUDAMismatch     Code = "cuda.driver-mismatch"
	CUDAStub         Code = "cuda.stub-library"
	CUDAInit         Code = "cuda.init-failed"
	CUDADevice       Code = "cuda.device-unknown"
	CUDACall         Code = "cuda.call-failed"
	CUDAOneGPU       Code = "cuda.one-gpu"
	CUDAMIG          Code = "cuda.mig"
	CUDASameGPU      Code = "cuda.same-gpu"
	CUDATwoGPUs      Code = "cuda.two-gpus"
	CUDANoPeer       Code = "cuda.no-peer-access"
	CUDANVLinkDown   Code = "cuda.nvlink-down"
	CUDANVLinkPeer   Code = "cuda.nvlink-status"
	CUDAPathUnproved Code = "cuda.path-unproved"
	CUDAIOMMU        Code = "cuda.iommu-translates"
	NVMLUnavailable  Code = "nvml.unavailable"
)

var cudaRows = []Row{
	{CUDANoLibrary, NotReady, "the NVIDIA driver's user library cannot be loaded",
		"libcuda.so.1 belongs to the driver, not to the CUDA toolkit. On a host it comes with the driver package; in a container the NVIDIA runtime mounts it from the host. Where the kernel's driver is loaded and the library is not here, the runtime did not mount it.",
		[]Fix{{Shell, "install the driver; `ldconfig -p | grep libcuda.so.1` shows whether the loader knows it"}, {Container, "start the container with the NVIDIA runtime (--gpus all, or the CDI device) and NVIDIA_DRIVER_CAPABILITIES=compute,utility"}, {Kubernetes, "ask for nvidia.com/gpu, and set runtimeClassName: nvidia where the cluster has that class"}}},
	{CUDATooOld, NotReady, "the installed driver lacks functions that are needed",
		"The functions that are missing are named in the message; all of them are in every driver since CUDA 11.",
		[]Fix{{Shell, "update the NVIDIA driver"}}},
	{CUDANoDevice, NotReady, "the driver library is here and sees no GPU (CUDA_ERROR_NO_DEVICE, 100)",
		"The library loads without a GPU, so its presence proves nothing. Either the kernel module is not loaded, or no device node was given to this container or user, or CUDA_VISIBLE_DEVICES hides every GPU.",
		[]Fix{{Shell, "check CUDA_VISIBLE_DEVICES, `ls -l /dev/nvidia*` and `lsmod | grep nvidia`"}, {Container, "give the container its GPUs: --gpus all"}, {Kubernetes, "ask for nvidia.com/gpu"}}},
	{CUDAFabric, NotReady, "GPUs are present and their NVSwitch fabric is not initialised (CUDA_ERROR_SYSTEM_NOT_READY, 802)",
		"On boards with NVSwitch, CUDA refuses to start until the fabric manager has set up the switches. nvidia-smi lists the GPUs all the while, so this is often taken for a missing driver.",
		[]Fix{{Shell, "`systemctl status nvidia-fabricmanager`: it must run, in the same release as the driver"}, {Shell, "`nvidia-smi -q | grep -A3 Fabric` shows the state of each GPU"}}},
	{CUDAMismatch, NotReady, "the driver's user library and its kernel module are of different releases (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)",
		"The driver was updated on disk and the old module is still loaded, or an image carries a libcuda of its own. /proc/driver/nvidia/version has the module's release, the name of the file behind libcuda.so.1 the library's.",
		[]Fix{{Shell, "reboot, or unload and reload the nvidia modules"}, {Container, "remove libcuda and libnvidia-ml from the image: the runtime mounts the host's"}}},
	{CUDAStub, NotReady, "libcuda.so.1 is the toolkit's stub for linking, not a driver (CUDA_ERROR_STUB_LIBRARY, 34)",
		"The CUDA toolkit ships a libcuda.so under lib64/stubs to link against on machines without a driver. It answers every call with an error.",
		[]Fix{{Shell, "take .../lib64/stubs out of LD_LIBRARY_PATH and of ld.so.conf"}}},
	{CUDAInit, NotReady, "the CUDA driver does not initialise",
		"The driver's own answer is in the message. 999 (unknown) is commonly a GPU that fell off the bus or /dev/nvidia-uvm that cannot be opened; the kernel log has the Xid.",
		[]Fix{{Shell, "`dmesg | grep -i -e nvrm -e xid`; check that /dev/nvidia-uvm exists and can be opened"}}},
	{CUDADevice, Usage, "no visible GPU has that index, UUID or bus id",
		"CUDA counts the visible GPUs from 0, in the order of CUDA_VISIBLE_DEVICES. The message lists them.",
		[]Fix{{Shell, "`hopbench probe` lists the GPUs with their UUIDs"}}},
	{CUDACall, Peer, "the GPU refused an operation or failed in it",
		"The driver's function and its error are in the message. After an error of the 700s the context is lost and every later call reports the same.",
		[]Fix{{Shell, "`dmesg | grep -i xid` names a fault of the hardware"}}},
	{CUDAOneGPU, NotSupported, "one GPU is visible here, and peer access needs two in one process",
		"CUDA peer access joins two GPUs inside one process. A container or pod that was given one GPU cannot see its neighbours, even where NVLink joins them: what NVLink carries between two such containers cannot be measured from inside one of them. That says nothing against the link.",
		[]Fix{{Kubernetes, "ask for two GPUs in one pod (nvidia.com/gpu: 2) for this measurement; between pods measure --transport roce, infiniband or tcp"}, {Container, "start the container with both GPUs (--gpus '\"device=0,1\"')"}, {Shell, "check that CUDA_VISIBLE_DEVICES names two GPUs"}}},
	{CUDAMIG, NotSupported, "a MIG instance has no peer access",
		"A GPU that is cut into instances offers no peer-to-peer access, to other GPUs or between its instances, and a process sees one instance however many it was given.",
		[]Fix{{Kubernetes, "ask for whole GPUs (nvidia.com/gpu), not nvidia.com/mig-*, for this measurement"}, {Shell, "an administrator can turn MIG off: `nvidia-smi -i N -mig 0`"}}},
	{CUDASameGPU, NotSupported, "both buffers are on the same GPU",
		"A copy inside one GPU crosses no link: it is a ceiling, and the transport cuda-copy measures it.",
		[]Fix{{Shell, "name two GPUs: --local-mem cuda:0 --remote-mem cuda:1"}}},
	{CUDATwoGPUs, NotSupported, "the two buffers are on different GPUs",
		"The transport cuda-copy measures the copies of one GPU: inside it, to pinned host memory and from it.",
		[]Fix{{Shell, "use --transport cuda-peer between two GPUs"}}},
	{CUDANoPeer, NotSupported, "the two GPUs have no peer access, and copies between them go through host memory",
		"The driver refuses direct access for GPUs of consumer models, across sockets that cannot forward it, or inside a virtual machine that does not pass it on. A copy still works: the driver stages it through the host, and the row is labelled host-staged. The two directions of a pair are two questions.",
		[]Fix{{Shell, "`nvidia-smi topo -p2p r` shows the driver's reason for each pair"}}},
	{CUDANVLinkDown, NotReady, "a GPU has fewer active NVLinks than others of its model in this host",
		"Links are compared with those of GPUs of the same name here, never with a fixed count: an H100 PCIe has 12 of 18 by design, and a B300 reports more slots than it has links.",
		[]Fix{{Shell, "`nvidia-smi nvlink -s` and `dmesg | grep -i nvlink`; reset the GPU, reseat the bridge"}}},
	{CUDANVLinkPeer, NotReady, "NVLinks are up and the driver reports that NVLink peer access is not",
		"A link's state and the state of the fabric over it are two things: after a failed fabric registration the links are active and carry no peer traffic.",
		[]Fix{{Shell, "`nvidia-smi topo -p2p n` and `nvidia-smi -q | grep -A3 Fabric`; restart nvidia-fabricmanager"}}},
	{CUDAPathUnproved, NotSupported, "peer access works and nothing here can say over which link",
		"Without NVML's list of links a copy between two GPUs may go over NVLink or over PCIe. The row is then labelled cuda-peer and not nvlink.",
		[]Fix{{Container, "give the container NVIDIA_DRIVER_CAPABILITIES=compute,utility, so that libnvidia-ml is mounted"}}},
	{CUDAIOMMU, NotReady, "an IOMMU translates the addresses of GPUs",
		"With translation on, the driver may report peer access, copies may succeed, and the data may be wrong or slow. The state is read from the IOMMU groups: an empty kernel command line does not mean that it is off.",
		[]Fix{{Shell, "boot with iommu=pt (amd_iommu and intel_iommu alike) on bare metal"}, {BIOS, "or turn the IOMMU off, where no virtual machine needs it"}}},
	{NVMLUnavailable, NotReady, "the NVIDIA management library gives no answer",
		"libnvidia-ml.so.1 tells NVLink from PCIe and gives link rates. Measurements work without it; labels and limits that depend on it stay blank.",
		[]Fix{{Container, "set NVIDIA_DRIVER_CAPABILITIES=compute,utility"}, {Shell, "check that `nvidia-smi` works for this user"}}},
}
