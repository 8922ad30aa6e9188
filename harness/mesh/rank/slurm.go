package rank

import (
	"fmt"
	"strconv"
	"strings"
)

// interactiveStep is the step in which salloc runs a shell on the first node where the cluster is set up so
// (slurm/slurm.h: SLURM_INTERACTIVE_STEP is 0xfffffffa).
const interactiveStep = "4294967290"

// slurm: https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
//
// Only srun sets SLURM_STEP_NUM_TASKS. The script of sbatch and the shell of salloc have SLURM_NTASKS as well, and a script also
// SLURM_PROCID=0: it looks like rank 0 of N, alone. A script that a task of srun submits has that task's SLURM_STEP_* besides: srun
// sets both counts to the same, so where they differ nothing is taken.
func slurm(e environment) (*claim, error) {
	const number, size, nodes = "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"
	c := &claim{engine: "Slurm"}
	if step := e.get("SLURM_STEP_ID"); e.get(size) == "" || step == interactiveStep {
		if e.get("SLURM_JOB_ID") == "" {
			return nil, nil
		}
		c.from = e.said("SLURM_JOB_ID", number, "SLURM_NTASKS")
		c.lacks = "this is the script or the shell of an allocation, not a task of srun: start the ranks with srun"
		return c, nil
	}
	if err := e.pair(c, number, size); err != nil {
		return nil, err
	}
	if err := whole(c); err != nil {
		return nil, err
	}
	tasks, err := e.number("SLURM_NTASKS")
	if err != nil {
		return nil, err
	}
	if tasks != nil && *tasks != *c.size {
		return &claim{engine: c.engine, from: e.said(number, size, "SLURM_NTASKS"), lacks: "the two counts differ, as in a script that a task of srun has submitted, or with --preserve-env: start the ranks with srun and without that option"}, nil
	}
	if err := e.slurmLocal(c); err != nil {
		return nil, err
	}
	list := e.get(nodes)
	if list == "" {
		c.firstFrom = nodes + " is not set"
		return c, nil
	}
	hosts, err := ExpandHosts(list)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nodes, err)
	}
	if twice := repeated(hosts); twice != "" {
		return nil, fmt.Errorf("%s=%s has %s twice", nodes, clip(list), twice)
	}
	c.hosts, c.hostOf = hosts, e.slurmHosts(hosts, *c.size)
	// Task 0 is on the first node of the step, whatever the distribution, unless a host file puts the tasks where it likes.
	if strings.Contains(e.get("SLURM_DISTRIBUTION"), "arbitrary") {
		c.firstFrom = "with SLURM_DISTRIBUTION=" + e.get("SLURM_DISTRIBUTION") + " task 0 need not be on the first node"
		return c, nil
	}
	c.first, c.firstFrom = hosts[0], "first of "+nodes+"="+clip(list)
	return c, nil
}

// slurmLocal reads SLURM_LOCALID, and the number of tasks on this node as the length of SLURM_GTIDS, which lists their numbers.
func (e environment) slurmLocal(c *claim) error {
	n, err := e.number("SLURM_LOCALID")
	if err != nil {
		return err
	}
	tasks := e.get("SLURM_GTIDS")
	if n == nil || tasks == "" {
		return nil
	}
	size := strings.Count(tasks, ",") + 1
	if *n >= size || size > *c.size {
		return fmt.Errorf("%s (%s): SLURM_LOCALID=%d does not fit the %d tasks of SLURM_GTIDS=%s", c.engine, c.from, *n, size, clip(tasks))
	}
	c.local, c.localSize = n, &size
	return nil
}

// slurmHosts is the node of each task: how many tasks a node has is told, and how they are dealt out, and the numbers of this node's
// own tasks confirm it: in a heterogeneous step they do not. Without -m the distribution is block (https://slurm.schedmd.com/srun.html#OPT_distribution).
func (e environment) slurmHosts(nodes []string, size int) []string {
	counts := tasksPerNode(e.get("SLURM_STEP_TASKS_PER_NODE"), len(nodes))
	own, err := e.number("SLURM_NODEID")
	if counts == nil || err != nil || own == nil || *own >= len(nodes) {
		return nil
	}
	of := make([]int, 0, size) // the node of each task
	switch method, _, _ := strings.Cut(strings.ReplaceAll(e.get("SLURM_DISTRIBUTION"), ",", ":"), ":"); method {
	case "", "block":
		for node, n := range counts {
			for range min(n, size+1-len(of)) {
				of = append(of, node)
			}
		}
	case "cyclic":
		for round, dealt := 0, true; dealt && len(of) <= size; round++ {
			dealt = false
			for node, n := range counts {
				if n > round {
					of, dealt = append(of, node), true
				}
			}
		}
	}
	if len(of) != size {
		return nil
	}
	var here []string
	hosts := make([]string, size)
	for task, node := range of {
		hosts[task] = nodes[node]
		if node == *own {
			here = append(here, strconv.Itoa(task))
		}
	}
	if strings.Join(here, ",") != e.get("SLURM_GTIDS") {
		return nil
	}
	return hosts
}

// tasksPerNode reads "2(x3),1", which is 2, 2, 2 and 1; nil where it is not of so many nodes.
func tasksPerNode(text string, nodes int) []int {
	var counts []int
	for part := range strings.SplitSeq(text, ",") {
		count, times, many := strings.Cut(part, "(x")
		n, err := strconv.ParseUint(count, 10, 31)
		if err != nil {
			return nil
		}
		repeat := uint64(1)
		if many {
			if repeat, err = strconv.ParseUint(strings.TrimSuffix(times, ")"), 10, 31); err != nil || !strings.HasSuffix(times, ")") {
				return nil
			}
		}
		if repeat > uint64(nodes-len(counts)) {
			return nil
		}
		for range repeat {
			counts = append(counts, int(n))
		}
	}
	if len(counts) != nodes {
		return nil
	}
	return counts
}

// repeated is the first host that a list has twice, or "".
func repeated(hosts []string) string {
	seen := make(map[string]bool, len(hosts))
	for _, h := range hosts {
		if seen[h] {
			return h
		}
		seen[h] = true
	}
	return ""
}
