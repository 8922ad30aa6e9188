package cudapeer

import (
	"fmt"

	"hopbench/transports"
	"hopbench/transports/topo"
)

// nvlinkRate is what the NVLinks of one GPU model carry together in one direction.
type nvlinkRate struct {
	links          int
	bytesPerSecond float64 // all links, one direction: half of what data sheets print
	source         string
}

// sources of the table below. Data sheets print the sum of both directions; 900 GB/s for an H100 is 450 each way.
const (
	sheetNVLink = "NVIDIA's NVLink page (links per GPU and total by generation), https://www.nvidia.com/en-us/data-center/nvlink/"
	sheetPascal = "Tesla P100 white paper: 4 links of 20 GB/s each way, https://images.nvidia.com/content/pdf/tesla/whitepaper/pascal-architecture-whitepaper.pdf"
	sheetVolta  = "Tesla V100 white paper: 6 links of 25 GB/s each way, https://images.nvidia.com/content/volta-architecture/pdf/volta-architecture-whitepaper.pdf"
	sheetA100   = "A100 data sheet: 600 GB/s both ways, https://www.nvidia.com/en-us/data-center/a100/"
	sheetH100   = "H100 data sheet: SXM 900 GB/s, PCIe and NVL 600 GB/s both ways, https://www.nvidia.com/en-us/data-center/h100/"
	sheetH200   = "H200 data sheet: SXM 900 GB/s, NVL with a 2- or 4-way bridge 900 GB/s both ways, https://www.nvidia.com/en-us/data-center/h200/"
	sheetH800   = "DeepSeek-V3 hardware paper: H800 NVLink is 400 GB/s both ways where H100 is 900, https://arxiv.org/abs/2505.09343"
	sheetH20    = "reported by users of H20 systems: 450 GB/s one way as H100 SXM, https://github.com/deepseek-ai/DeepEP/issues/16"
	sheetGA102  = "GA102 white paper: 4 links of 14.0625 GB/s each way, https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf"
	sheetB200   = "NVIDIA's NVLink page: fifth generation, 18 links, 1,800 GB/s both ways, https://www.nvidia.com/en-us/data-center/nvlink/"
)

// nvlinkRates holds models under the exact name that the driver reports. A name that is not here has no limit: an H800 is not an
// H100, an H200 NVL is not an H200, and a guess would make a utilisation that means nothing.
var nvlinkRates = map[string]nvlinkRate{
	"Tesla P100-SXM2-16GB":    {4, 80e9, sheetPascal},
	"Tesla V100-SXM2-16GB":    {6, 150e9, sheetVolta},
	"Tesla V100-SXM2-32GB":    {6, 150e9, sheetVolta},
	"Tesla V100-SXM3-32GB":    {6, 150e9, sheetVolta},
	"NVIDIA A100-SXM4-40GB":   {12, 300e9, sheetA100},
	"NVIDIA A100-SXM4-80GB":   {12, 300e9, sheetA100},
	"NVIDIA A100-PCIE-40GB":   {12, 300e9, sheetA100},
	"NVIDIA A100 80GB PCIe":   {12, 300e9, sheetA100},
	"NVIDIA A40":              {4, 56.25e9, sheetGA102},
	"NVIDIA RTX A6000":        {4, 56.25e9, sheetGA102},
	"NVIDIA GeForce RTX 3090": {4, 56.25e9, sheetGA102},
	"NVIDIA H100 80GB HBM3":   {18, 450e9, sheetH100},
	"NVIDIA H100 PCIe":        {12, 300e9, sheetH100},
	"NVIDIA H100 NVL":         {12, 300e9, sheetH100},
	"NVIDIA H800":             {8, 200e9, sheetH800},
	"NVIDIA H20":              {18, 450e9, sheetH20},
	"NVIDIA H20-3e":           {18, 450e9, sheetH20},
	"NVIDIA H200":             {18, 450e9, sheetH200},
	"NVIDIA H200 NVL":         {18, 450e9, sheetH200},
	"NVIDIA GH200 480GB":      {18, 450e9, sheetNVLink},
	"NVIDIA B200":             {18, 900e9, sheetB200},
	"NVIDIA GB200":            {18, 900e9, sheetB200},
}

// nvlinkLimit is what the links between a pair can carry one way: their rates as NVML reports them, else their share of the model's rate,
// else nil.
func nvlinkLimit(model string, links []topo.NVLink) *transports.Limit {
	if len(links) == 0 {
		return nil
	}
	sum := 0.0
	for _, l := range links {
		if l.BytesPS == nil || *l.BytesPS <= 0 {
			sum = 0
			break
		}
		sum += *l.BytesPS
	}
	if sum > 0 {
		return &transports.Limit{BytesPerSecond: sum, Source: fmt.Sprintf("NVML: %d active links, signalling rate one way, before packet headers", len(links))}
	}
	r, ok := nvlinkRates[model]
	if !ok || len(links) > r.links {
		return nil
	}
	return &transports.Limit{
		BytesPerSecond: r.bytesPerSecond * float64(len(links)) / float64(r.links),
		Source:         fmt.Sprintf("%d of %d links of %s, one way; %s", len(links), r.links, model, r.source),
	}
}
