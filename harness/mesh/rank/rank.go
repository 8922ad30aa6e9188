// Package rank says which of N processes this one is: its number, how many there are, and where the first of them is reached. The
// answer comes from the environment that the engine which started the processes leaves to each (Slurm, Open MPI, MPICH's Hydra, an
// indexed Kubernetes Job, torchrun), or from flags; nothing is sent and nothing but the environment is read.
//
// Several engines may be in one environment: mpirun runs inside a Slurm allocation, torchrun inside a Job. The innermost one that
// says both number and size is taken, in the order of engines below; what others say differently is told in Rank.Source.
package rank

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Variables of hopbench's own, for what an engine does not tell its processes.
const (
	// SizeVariable holds the number of ranks: a pod of a Job knows its index and not how many there are.
	SizeVariable = "HOPBENCH_SIZE"
	// FirstVariable holds the address of rank 0, HOST or HOST:PORT: no MPI tells it.
	FirstVariable = "HOPBENCH_FIRST"
)

// maxSize bounds the number of ranks, so that a damaged variable is an error and not an allocation.
const maxSize = 1 << 20

// loopback is where rank 0 is reached by ranks of its own host.
const loopback = "127.0.0.1"

// Rank is the place of this process among all.
type Rank struct {
	// Number is from 0 to Size-1.
	Number, Size int
	// LocalNumber counts the ranks of one host from 0, and LocalSize is how many the host has. LocalSize is 0 where that is not known;
	// LocalNumber is then 0 as well.
	LocalNumber, LocalSize int
	// First is where rank 0 is reached: a host name or an address, with ":PORT" only where a port was given. Address adds one.
	First string
	// Hosts are the names of all hosts in the engine's own order, which need not be that of the ranks; nil where they are not known.
	Hosts []string
	// HostOf is the host of each rank, by its number; nil where the engine does not tell enough to know.
	HostOf []string
	// Source says in words what the answer was read from, and what was passed over.
	Source string
}

// Address is First with a port: the given one, unless First has its own.
func (r Rank) Address(port int) string {
	host, own, _ := splitFirst(r.First) // Find has checked it
	if own != "" {
		return net.JoinHostPort(host, own)
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// Overrides are what flags say; nil and "" are flags that were not given. Number and Size together replace what the engine says; one
// of them alone completes it, and may not contradict it.
type Overrides struct {
	Number, Size           *int   // --rank, --size
	LocalNumber, LocalSize *int   // --local-rank, --local-size
	First                  string // --first HOST[:PORT]
}

// claim is what the variables of one engine say.
type claim struct {
	engine       string
	number, size *int
	from         string // the variables that were read, with their values
	local        *int
	localSize    *int
	first        string // "": the engine does not tell
	firstFrom    string // where first was read from; or why it is not told, where that can be said
	hosts        []string
	hostOf       []string
	notes        []string
	lacks        string // what is missing, and what to do
}

func (c *claim) complete() bool { return c.number != nil && c.size != nil }

// Find reads the rank of this process from the environment and the flags. An error names the variables with their values, and the
// flag or variable that would help.
func Find(getenv func(string) string, o Overrides) (Rank, error) {
	r, err := find(environment{getenv}, o)
	if err != nil {
		return Rank{}, fmt.Errorf("find this process's rank: %w", err)
	}
	return r, nil
}

func find(e environment, o Overrides) (Rank, error) {
	size, sizeName := o.Size, "--size"
	if size == nil {
		var err error
		if size, err = e.number(SizeVariable); err != nil {
			return Rank{}, err
		}
		sizeName = SizeVariable
	}
	chosen, notes, err := choose(e, o.Number, size, sizeName)
	if err != nil {
		return Rank{}, err
	}
	r := Rank{Number: *chosen.number, Size: *chosen.size, Hosts: chosen.hosts, HostOf: chosen.hostOf}
	if r.Size < 1 || r.Size > maxSize {
		return Rank{}, fmt.Errorf("%s: a size of %d is not from 1 to %d", chosen.from, r.Size, maxSize)
	}
	if r.Number < 0 || r.Number >= r.Size {
		return Rank{}, fmt.Errorf("%s: rank %d is not below the size %d", chosen.from, r.Number, r.Size)
	}
	if err := place(&r, chosen, o); err != nil {
		return Rank{}, err
	}
	from, err := first(&r, e, chosen, o)
	if err != nil {
		return Rank{}, err
	}
	said := append([]string{fmt.Sprintf("%s (%s)", chosen.engine, chosen.from), from}, append(chosen.notes, notes...)...)
	r.Source = strings.Join(said, "; ")
	return r, nil
}

// choose takes the flags, or the innermost engine that is complete, and says what differs from it.
func choose(e environment, number, size *int, sizeName string) (*claim, []string, error) {
	var chosen *claim
	if number != nil && size != nil {
		chosen = &claim{engine: "flags", number: number, size: size, from: fmt.Sprintf("--rank %d, %s %d", *number, sizeName, *size)}
	}
	var notes []string
	var partial []*claim
	for _, read := range engines {
		c, err := read(e)
		if err != nil {
			if chosen == nil {
				return nil, nil, err
			}
			notes = append(notes, "not used: "+err.Error())
			continue
		}
		if c == nil {
			continue
		}
		fill(c, number, size, sizeName)
		switch {
		case !c.complete():
			partial = append(partial, c)
		case chosen == nil:
			chosen = c
		case *c.number != *chosen.number || *c.size != *chosen.size:
			notes = append(notes, fmt.Sprintf("not used: %s, which says rank %d of %d (%s)", c.engine, *c.number, *c.size, c.from))
		case chosen.engine == "flags":
			borrow(chosen, c)
		}
	}
	if chosen == nil {
		return nil, nil, none(partial, number, size, sizeName)
	}
	for _, c := range partial {
		if c.number == nil || *c.number != *chosen.number {
			notes = append(notes, "not used: "+c.engine+" ("+c.from+")")
		}
	}
	for _, k := range []struct {
		name       string
		want, have *int
	}{{"--rank", number, chosen.number}, {sizeName, size, chosen.size}} {
		if k.want != nil && *k.want != *k.have {
			return nil, nil, fmt.Errorf("%s is %d, but %s says %d (%s): give both --rank and --size to go by them alone", k.name, *k.want, chosen.engine, *k.have, chosen.from)
		}
	}
	return chosen, notes, nil
}

// fill completes a claim by the flag or variable for what its engine does not tell.
func fill(c *claim, number, size *int, sizeName string) {
	if c.number == nil && number != nil && c.size != nil {
		c.number, c.from = number, fmt.Sprintf("--rank %d, %s", *number, c.from)
	}
	if c.size == nil && size != nil && c.number != nil {
		c.size, c.from = size, fmt.Sprintf("%s, %s %d", c.from, sizeName, *size)
	}
}

// borrow gives flags that agree with an engine what only the engine knows.
func borrow(flags, c *claim) {
	flags.local, flags.localSize, flags.first, flags.firstFrom = c.local, c.localSize, c.first, c.firstFrom
	flags.hosts, flags.hostOf = c.hosts, c.hostOf
	flags.notes = append(flags.notes, c.engine+" says the same")
}

// none is the error where no engine says both number and size.
func none(partial []*claim, number, size *int, sizeName string) error {
	var lacks []string
	for _, c := range partial {
		lacks = append(lacks, fmt.Sprintf("%s (%s): %s", c.engine, c.from, c.lacks))
	}
	switch {
	case len(lacks) > 0:
		return errors.New(strings.Join(lacks, "; "))
	case number != nil:
		return fmt.Errorf("--rank %d is given, and no size: give --size", *number)
	case size != nil:
		return fmt.Errorf("%s %d is given, and no engine has numbered this process: give --rank", sizeName, *size)
	}
	return errors.New("the environment has no variables of Slurm, Open MPI, MPICH, torchrun or an indexed Kubernetes Job: start one process a rank with srun, mpirun or a Job, or give --rank, --size and --first")
}

// place sets the rank within its host.
func place(r *Rank, c *claim, o Overrides) error {
	local, size := c.local, c.localSize
	if o.LocalNumber != nil {
		local = o.LocalNumber
	}
	if o.LocalSize != nil {
		size = o.LocalSize
	}
	if size == nil {
		if o.LocalNumber != nil {
			return fmt.Errorf("--local-rank %d is given, and %s does not say how many ranks this host has: give --local-size", *local, c.engine)
		}
		return nil
	}
	if local == nil {
		return fmt.Errorf("--local-size %d is given, and %s does not say which of them this one is: give --local-rank", *size, c.engine)
	}
	if *size < 1 || *size > r.Size || *local < 0 || *local >= *size {
		return fmt.Errorf("%s: local rank %d of %d on this host does not fit rank %d of %d", c.engine, *local, *size, r.Number, r.Size)
	}
	r.LocalNumber, r.LocalSize = *local, *size
	return nil
}

// first sets the address of rank 0 and says where it is from: a flag, our variable, the engine, the variable that torchrun and others
// share, or this host where no other has ranks.
func first(r *Rank, e environment, c *claim, o Overrides) (string, error) {
	name, value := "--first", o.First
	if value == "" {
		name, value = FirstVariable, e.get(FirstVariable)
	}
	if value != "" {
		if _, _, err := splitFirst(value); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		r.First = value
		return fmt.Sprintf("rank 0 at %s (%s)", value, name), nil
	}
	switch {
	case r.Size == 1:
		r.First = loopback
		return "the only rank, on loopback", nil
	case r.LocalSize == r.Size || len(c.hosts) == 1:
		r.First = loopback
		return fmt.Sprintf("rank 0 on loopback, since all %d ranks are on this host", r.Size), nil
	case c.first != "":
		if _, _, err := splitFirst(c.first); err != nil {
			return "", fmt.Errorf("%s: %w", c.firstFrom, err)
		}
		r.First = c.first
		return fmt.Sprintf("rank 0 at %s (%s)", c.first, c.firstFrom), nil
	}
	if addr := e.get("MASTER_ADDR"); addr != "" {
		if _, port, err := splitFirst(addr); err != nil || port != "" {
			return "", fmt.Errorf("MASTER_ADDR=%q is not a host", addr)
		}
		r.First = addr
		return fmt.Sprintf("rank 0 at %s (MASTER_ADDR)", addr), nil
	}
	why := c.firstFrom
	if why == "" {
		why = c.engine + " does not tell it"
	}
	return "", fmt.Errorf("where rank 0 is reached is not known: %s, and not all %d ranks are on this host: give --first HOST[:PORT], or %s in the environment of every rank", why, r.Size, FirstVariable)
}

// splitFirst takes HOST, HOST:PORT, an IPv6 address, or [IPv6]:PORT apart; port is "" where there is none.
func splitFirst(s string) (host, port string, err error) {
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		bare = s[1 : len(s)-1]
	}
	if a, err := netip.ParseAddr(bare); err == nil {
		return a.String(), "", nil
	}
	host = s
	if strings.Contains(s, ":") {
		if host, port, err = net.SplitHostPort(s); err != nil {
			return "", "", fmt.Errorf("%q is not HOST or HOST:PORT", s)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", "", fmt.Errorf("%q: port %q is not from 1 to 65535", s, port)
		}
	}
	if host == "" || len(host) > 253 || strings.ContainsAny(host, " \t\r\n/,@[]") {
		return "", "", fmt.Errorf("%q is not HOST or HOST:PORT", s)
	}
	return host, port, nil
}
