package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hopbench/harness"
	"hopbench/harness/control"
	"hopbench/harness/doctor"
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// A run over rails measures each pair of devices alone and then all of them at once.
const (
	// railsAuto stands in a plan's device where the rails are to be found: each GPU with its nearest device.
	railsAuto = "rails:auto"
	railAlone = "isolated"
	railsAll  = "together"
	railSum   = "all"
)

// railFlags is the flag of a run over rails; a list in --device is the other way to ask for one.
type railFlags struct {
	rails string
}

func (f *railFlags) define(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.rails, "rails", "", "auto: measure several RDMA devices, each alone and then all at once: each GPU with its nearest device on both hosts (--mem cuda: "+
		"in that GPU's memory), without GPUs every usable one. A list in --device does the same with the devices named; then --op is write, --metric bandwidth, "+
		"--sizes 1MiB and --direction forward,both unless given")
}

// rail is one pair of devices.
type rail struct {
	name                      string
	local, remote             string
	localMemory, remoteMemory string // empty: the plan's
}

// railRun is a run over rails: what was asked for, and the rails once they are known.
type railRun struct {
	auto          bool
	local, remote []string
	rails         []rail            // of the transport at hand
	found         map[string][]rail // of each
}

// settle says whether a run is over rails, refuses what does not go together, and fits the plan: a transport that the devices are of, and
// what rails are compared by where nothing else was asked for. It gives nil for a run that is not.
func (f *railFlags) settle(cmd *cobra.Command, drivers []transports.Driver, p *harness.Plan, c *selection) (*railRun, error) {
	if f.rails != "" && f.rails != "auto" {
		return nil, usagef("--rails %s: want auto, or a list in --device", f.rails)
	}
	auto := f.rails == "auto" || p.Device == railsAuto
	if !auto && !strings.Contains(p.Device+p.RemoteDevice, ",") {
		return nil, nil
	}
	given := cmd.Flags().Changed
	for _, name := range []string{"gpus", "forever", "bind", "data-address"} {
		if given(name) {
			return nil, usagef("--%s goes with one path, not with rails", name)
		}
	}
	r := &railRun{auto: auto}
	if auto {
		if f.rails == "auto" && (given("device") || given("remote-device")) {
			return nil, usagef("--rails auto finds the devices: leave --device and --remote-device out, or name them all there")
		}
		p.Device, p.RemoteDevice = railsAuto, ""
	} else if err := r.lists(p); err != nil {
		return nil, err
	}
	if !given("plan") {
		if !given("op") {
			p.Operations = []transports.Op{transports.Write}
		}
		if !given("metric") {
			p.Metrics = []harness.Metric{harness.Bandwidth}
		}
		if !given("sizes") && len(p.Requests) == 0 {
			p.Sizes = []uint64{1 << 20}
		}
		if !given("direction") {
			p.Directions = []harness.Direction{harness.Forward, harness.Both}
		}
	}
	return r, r.chooseTransports(cmd.Context(), drivers, p, c)
}

// lists reads the two lists of devices: as many on both sides, each once.
func (r *railRun) lists(p *harness.Plan) error {
	read := func(flag, text string) (out []string, err error) {
		for _, name := range strings.Split(text, ",") {
			name = strings.TrimSpace(name)
			switch {
			case name == "":
				return nil, usagef("--%s %s: an empty name", flag, text)
			case slices.Contains(out, name):
				return nil, usagef("--%s: %s is named twice, and a rail is a device of its own", flag, name)
			}
			out = append(out, name)
		}
		return out, nil
	}
	var err error
	if p.Device == "" {
		return usagef("--remote-device %s: name as many of this side's with --device", p.RemoteDevice)
	}
	if r.local, err = read("device", p.Device); err != nil {
		return err
	}
	if p.RemoteDevice == "" {
		r.remote = r.local // alike hosts name their devices alike
		return nil
	}
	if r.remote, err = read("remote-device", p.RemoteDevice); err != nil {
		return err
	}
	if len(r.local) != len(r.remote) {
		return usagef("--device names %d devices and --remote-device %d: a rail has one on each side", len(r.local), len(r.remote))
	}
	return nil
}

// chooseTransports narrows what was not chosen by name to what the devices can carry, and refuses devices that are not there.
func (r *railRun) chooseTransports(ctx context.Context, drivers []transports.Driver, p *harness.Plan, c *selection) error {
	h, err := topo.Read("/", topo.Options{})
	if err != nil {
		return err
	}
	var fits func(string) bool
	if r.auto {
		links := map[string]string{"infiniband": "InfiniBand", "roce": "Ethernet"}
		fits = func(name string) bool { return links[name] != "" && len(rdmaport.Rails(h, links[name])) > 0 }
		for _, name := range p.Transports {
			if c.named && links[name] == "" {
				return usagef("--rails auto: %s has no RDMA devices; name its interfaces with --device", name)
			}
		}
	} else {
		kind, err := kindOf(h, r.local)
		if err != nil {
			return err
		}
		fits = func(name string) bool { return name == kind }
	}
	if c.named {
		return nil
	}
	var able []string
	var refused []error
	for _, d := range drivers {
		if !fits(d.Name()) {
			continue
		}
		if err := d.Probe(ctx); err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", d.Name(), err))
			continue
		}
		able = append(able, d.Name())
	}
	if len(able) == 0 {
		if len(refused) == 0 {
			refused = append(refused, errors.New("--rails auto: no RDMA device is usable here; `hopbench doctor --transport roce,infiniband` says why"))
		}
		return exitError{3, refused[0]}
	}
	c.named, c.all, p.Transports = true, false, able
	return nil
}

// kindOf is the transport that devices of this host belong to. Those that it does not have are named, with those that it has.
func kindOf(h *topo.Host, names []string) (string, error) {
	kind := ""
	for _, name := range names {
		device, _, _ := strings.Cut(name, ":")
		this := ""
		if _, err := net.InterfaceByName(name); err == nil {
			this = "tcp"
		}
		if d := h.Device(device); d != nil {
			this = "roce"
			if len(d.Ports) > 0 && d.Ports[0].LinkLayer == "InfiniBand" {
				this = "infiniband"
			}
		}
		switch {
		case this == "":
			var all []string
			for _, d := range h.RDMA.Devices {
				all = append(all, d.Name)
			}
			for _, n := range h.Net {
				all = append(all, n.Name)
			}
			return "", usagef("--device: there is no %s%s (there are %s)", name, nearest(device, all), strings.Join(all, ", "))
		case kind != "" && this != kind:
			return "", usagef("--device: %s is for %s and %s for %s: the rails of a run are of one kind", names[0], kind, name, this)
		}
		kind = this
	}
	return kind, nil
}

// resolve finds the rails of one transport, on this side and on the peer's.
func (r *railRun) resolve(ctx context.Context, transport string, p harness.Plan, s *harness.Session) error {
	r.rails = nil
	if !r.auto {
		for i := range r.local {
			r.rails = append(r.rails, rail{name: pairName(r.local[i], r.remote[i]), local: r.local[i], remote: r.remote[i]})
		}
		return nil
	}
	link := map[string]string{"infiniband": "InfiniBand", "roce": "Ethernet"}[transport]
	h, err := topo.Read("/", topo.Options{})
	if err != nil {
		return err
	}
	mine := rdmaport.Rails(h, link)
	theirs := mine
	if s != nil && s.OtherHost {
		told, err := control.Facts(ctx, s.Remote)
		if err != nil {
			return fmt.Errorf("--rails auto: the peer does not tell its devices, so name them with --device and --remote-device: %w", err)
		}
		side, err := doctor.DecodeSide(told.Facts)
		if err != nil {
			return &fault.Error{Code: fault.PeerRefused, Op: "read the peer's rails", Err: err}
		}
		theirs = slices.DeleteFunc(side.Rails, func(o rdmaport.Rail) bool { return o.LinkLayer != link })
	}
	if len(mine) == 0 {
		return exitError{3, fmt.Errorf("--rails auto: no device of this host is usable for %s; `hopbench doctor --transport %s` says why", transport, transport)}
	}
	if len(mine) != len(theirs) {
		return usagef("--rails auto: this host has %d rails of %s and the peer %d: name those to pair with --device and --remote-device", len(mine), transport, len(theirs))
	}
	for i := range mine {
		one := rail{name: pairName(mine[i].Device, theirs[i].Device), local: mine[i].Device, remote: theirs[i].Device}
		// Several GPUs may share a device: then the GPU tells the rails apart.
		shared := func(o rdmaport.Rail) bool { return o.Device == mine[i].Device }
		if slices.IndexFunc(mine, shared) != i || slices.ContainsFunc(mine[i+1:], shared) {
			one.name += " for GPU " + mine[i].GPU
		}
		one.localMemory = ownGPU(p.LocalMemory, mine[i], i)
		one.remoteMemory = ownGPU(p.RemoteMemory, theirs[i], i)
		r.rails = append(r.rails, one)
	}
	return nil
}

// ownGPU is the memory of a rail's own GPU where "cuda" was asked for without saying which.
func ownGPU(memory string, r rdmaport.Rail, index int) string {
	switch {
	case memory != string(mem.CUDA) || r.GPU == "":
		return ""
	case r.UUID != "":
		return memory + ":" + r.UUID
	}
	return fmt.Sprintf("%s:%d", memory, index)
}

func pairName(local, remote string) string {
	if local == remote {
		return local
	}
	return local + " to " + remote
}

// prepare finds the rails of every transport before anything is measured or written.
func (r *railRun) prepare(ctx context.Context, p harness.Plan, s *harness.Session) error {
	r.found = map[string][]rail{}
	for _, name := range p.Transports {
		if err := r.resolve(ctx, name, p, s); err != nil {
			return err
		}
		r.found[name] = r.rails
	}
	return nil
}

// run measures the rails of each transport: each alone, then all at once with their sum.
func (r *railRun) run(ctx context.Context, p harness.Plan, s *harness.Session, sink harness.Sink) error {
	for _, name := range p.Transports {
		one := p
		one.Transports, one.Device, one.RemoteDevice = []string{name}, "", ""
		r.rails = r.found[name]
		flows, steps := r.plan(s)
		if err := harness.RunFlows(ctx, one, flows, steps, sink); err != nil {
			return err
		}
	}
	return nil
}

// plan is the rails as flows, and the steps over them.
func (r *railRun) plan(s *harness.Session) ([]harness.Flow, []harness.Step) {
	var flows []harness.Flow
	var steps []harness.Step
	var all []int
	for i, one := range r.rails {
		flows = append(flows, harness.Flow{
			Rail: one.name, Initiator: s.Local, Target: s.Remote, OtherHost: s.OtherHost, InitiatorDevice: one.local, TargetDevice: one.remote,
			InitiatorMemory: one.localMemory, TargetMemory: one.remoteMemory,
		})
		steps = append(steps, harness.Step{Schedule: railAlone, Flows: []int{i}})
		all = append(all, i)
	}
	return flows, append(steps, harness.Step{Schedule: railsAll, Flows: all, Aggregate: railSum})
}

// words are the rails as a dry run shows them.
func (r *railRun) words(ctx context.Context, p harness.Plan) []string {
	var out []string
	for _, name := range p.Transports {
		if err := r.resolve(ctx, name, p, nil); err != nil {
			out = append(out, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		var names []string
		for _, one := range r.rails {
			text := one.name
			if one.localMemory != "" {
				text += " with " + one.localMemory
			}
			names = append(names, text)
		}
		out = append(out, fmt.Sprintf("%s, %d rails: %s; each alone, then all at once", name, len(r.rails), strings.Join(names, "; ")))
	}
	return out
}

// cells is how many rows a run over rails gives.
func (r *railRun) cells(p harness.Plan) int {
	total := 0
	for _, name := range p.Transports {
		one := p
		one.Transports = []string{name}
		sums := one
		sums.Metrics = slices.DeleteFunc(slices.Clone(p.Metrics), func(m harness.Metric) bool { return m != harness.Bandwidth })
		total += 2*len(r.rails)*one.Cells() + sums.Cells()
	}
	return total
}

// settingOf is what the header says of the rails.
func (r *railRun) settingOf() string {
	if r.auto {
		return "each GPU with its nearest device"
	}
	return "as named"
}
