package cli

import (
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"hopbench/transports/topo"
	"hopbench/transports/topo/tree"
)

func newProbe(env *Env) *cobra.Command {
	var (
		root, svg            string
		asJSON, matrix, nvml bool
	)
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "What this host has: GPUs, NICs, RDMA devices, and how far apart they are",
		Long: `probe shows the GPUs, NICs and RDMA devices of this host, or of a captured one, as the PCI tree on
which they hang, and for each GPU and NIC the class of the path between them:

  SELF  one device          PHB   two root ports of one root complex
  PIX   below one switch    NODE  two root complexes of one NUMA node
  PXB   several switches    SYS   across NUMA nodes

with the narrowest hop between. What is not known is blank.`,
		Example: `  hopbench probe
  hopbench probe --matrix
  hopbench probe --root host.txtar --svg topology.svg
  hopbench probe --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := readHost(root)
			if err != nil {
				return usagef("probe: %v", err)
			}
			if svg != "" {
				if err := writeFile(svg, func(w io.Writer) error { return tree.GraphOf(h).WriteSVG(w) }); err != nil {
					return err
				}
			}
			switch {
			case nvml:
				return writeJSON(env.Stdout, tree.NVMLOf(h))
			case asJSON:
				return writeJSON(env.Stdout, struct {
					*topo.Host
					Pairs []tree.GPUNIC `json:"pairs"`
					Graph tree.Graph    `json:"graph"`
				}{h, tree.Pairs(h), tree.GraphOf(h)})
			case matrix:
				return tree.WriteMatrix(env.Stdout, h)
			}
			if err := tree.Write(env.Stdout, h); err != nil {
				return err
			}
			return tree.WriteMatrix(env.Stdout, h)
		},
	}
	f := cmd.Flags()
	f.StringVar(&root, "root", "/", "read a captured host: a `DIR` with sys, proc and dev, or an archive of scripts/capture.sh")
	f.StringVar(&svg, "svg", "", "also draw the topology into `FILE`")
	f.BoolVar(&matrix, "matrix", false, "the matrix of GPUs and NICs alone")
	f.BoolVar(&asJSON, "json", false, "write every fact as JSON")
	f.BoolVar(&nvml, "nvml-json", false, "write NVML's answers alone, for scripts/capture.sh")
	return cmd
}

// writeFile writes a file whole: an error leaves no half of one under its name.
func writeFile(name string, fill func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".hopbench-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := fill(f); err != nil {
		f.Close()
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
