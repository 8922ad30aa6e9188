package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"hopbench/transports/topo"
	"hopbench/transports/topo/tree"
)

func newProbe(env *Env) *cobra.Command {
	var (
		root, svg                   string
		asJSON, matrix, nvml, force bool
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
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			var forms []string
			for _, name := range []string{"matrix", "json", "nvml-json"} {
				if cmd.Flags().Changed(name) {
					forms = append(forms, "--"+name)
				}
			}
			if len(forms) > 1 {
				return usagef("probe: %s: choose one", strings.Join(forms, " and "))
			}
			h, err := readHost(root, 0)
			if err != nil {
				return usagef("probe: %v", err)
			}
			if cmd.Flags().Changed("svg") {
				if err := writeSVG(svg, force, tree.GraphOf(h)); err != nil {
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
					About probed        `json:"about"`
				}{h, tree.Pairs(h), tree.GraphOf(h), probedBy(env, h)})
			case matrix && len(h.GPUs) == 0:
				_, err := fmt.Fprintln(env.Stdout, "no GPU is seen here: the matrix of GPUs and NICs has no row")
				return err
			case matrix && len(h.NICs()) == 0:
				_, err := fmt.Fprintln(env.Stdout, "no NIC is seen on the PCI bus here: the matrix of GPUs and NICs has no column")
				return err
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
	f.BoolVar(&force, "force", false, "replace the file of --svg")
	f.BoolVar(&matrix, "matrix", false, "the matrix of GPUs and NICs alone")
	f.BoolVar(&asJSON, "json", false, "write every fact as JSON")
	f.BoolVar(&nvml, "nvml-json", false, "write NVML's answers alone, for scripts/capture.sh")
	return cmd
}

// writeSVG draws the whole picture before it touches the file.
func writeSVG(name string, force bool, g tree.Graph) error {
	var b bytes.Buffer
	if err := g.WriteSVG(&b); err != nil {
		return fmt.Errorf("probe: draw the topology: %w", err)
	}
	return writeNew(name, "--svg", force, b.Bytes())
}
