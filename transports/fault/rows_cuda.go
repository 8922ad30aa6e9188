package fault

// Codes of CUDA, NVML and peer access.
const ()

var cudaRows = []Row{}
