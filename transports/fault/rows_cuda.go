package fault

// Codes of the CUDA driver library and of copies between GPUs. What a host lacks for them is in rows_gpu_host.go.
const (
	CUDABuiltWithout Code = "cuda.built-without"
	CUDATooOld       Code = "cuda.too-old"
	CUDAStub         Code = "cuda.stub-library"
	CUDAInit         Code = "cuda.init-failed"
	CUDAHidden       Code = "cuda.hidden"
	CUDADevice       Code = "cuda.device-unknown"
	CUDACall         Code = "cuda.call-failed"
	CUDASameGPU      Code = "cuda.same-gpu"
	CUDATwoGPUs      Code = "cuda.two-gpus"
)

var cudaRows = []Row{
	{CUDABuiltWithout, NotSupported, "this program was built without CUDA", "Without cgo the program still builds and measures memory copies and TCP; the bindings of foreign libraries are not in it.",
		[]Fix{{Shell, "build with a C compiler and CGO_ENABLED=1; no CUDA toolkit is needed"}}},
	{CUDATooOld, NotReady, "the installed driver lacks functions that are needed",
		"The functions that are missing are named in the message; all of them are in every driver since CUDA 11.",
		[]Fix{{Shell, "update the NVIDIA driver"}}},
	{CUDAStub, NotReady, "libcuda.so.1 is the toolkit's stub for linking, not a driver (CUDA_ERROR_STUB_LIBRARY, 34)",
		"The CUDA toolkit ships a libcuda.so under lib64/stubs to link against on machines without a driver. It answers every call with an error.",
		[]Fix{{Shell, "take .../lib64/stubs out of LD_LIBRARY_PATH and of ld.so.conf"}}},
	{CUDAInit, NotReady, "the CUDA driver does not initialise",
		"The driver's own answer is in the message. 999 (unknown) is commonly a GPU that fell off the bus or /dev/nvidia-uvm that cannot be opened; the kernel log has the Xid.",
		[]Fix{{Shell, "`dmesg | grep -i -e nvrm -e xid`; check that /dev/nvidia-uvm exists and can be opened"}}},
	{CUDAHidden, NotReady, "CUDA_VISIBLE_DEVICES hides every GPU from this process",
		"The variable names the GPUs that CUDA shows, by index or UUID. An empty one hides all; an entry that names no GPU hides itself and all that follow. Schedulers set it.",
		[]Fix{{Shell, "unset CUDA_VISIBLE_DEVICES, or name GPUs that `hopbench probe` lists"}}},
	{CUDADevice, Usage, "no visible GPU has that index, UUID or bus id",
		"CUDA counts the visible GPUs from 0, in the order of CUDA_VISIBLE_DEVICES. The message lists them.",
		[]Fix{{Shell, "`hopbench probe` lists the GPUs with their UUIDs"}}},
	{CUDACall, Peer, "the GPU refused an operation or failed in it",
		"The driver's function and its error are in the message. After an error of the 700s the context is lost and every later call reports the same.",
		[]Fix{{Shell, "`dmesg | grep -i xid` names a fault of the hardware"}}},
	{CUDASameGPU, NotSupported, "both buffers are on the same GPU",
		"A copy inside one GPU crosses no link: it is a ceiling, and the transport cuda-copy measures it.",
		[]Fix{{Shell, "name two GPUs: --local-mem cuda:0 --remote-mem cuda:1"}}},
	{CUDATwoGPUs, NotSupported, "the two buffers are on different GPUs",
		"The transport cuda-copy measures the copies of one GPU: inside it, to pinned host memory and from it.",
		[]Fix{{Shell, "use --transport cuda-peer between two GPUs"}}},
}
