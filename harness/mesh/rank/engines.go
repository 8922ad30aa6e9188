package rank

import (
	"fmt"
	"net"
)

// engines in the order in which the innermost is taken: torchrun is started by any of the others, an MPI launcher inside a Slurm
// allocation or a pod, srun inside a pod. Plain RANK and WORLD_SIZE come after these: operators set them for a pod, in which an engine
// may start ranks of its own, and scripts copy them from an engine, which then says the same.
var engines = []func(environment) (*claim, error){torchrun, openMPI, hydra, slurm, pmix, torchVariables, job}

// torchrun: https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
//
// MASTER_PORT is left alone: where TORCHELASTIC_USE_AGENT_STORE is True, torchrun's agent listens on it itself
// (torch/distributed/rendezvous.py: the worker of rank 0 then starts no store), and the port belongs to torch in any case.
func torchrun(e environment) (*claim, error) {
	if e.get("TORCHELASTIC_RUN_ID") == "" {
		return nil, nil
	}
	c := &claim{engine: "torchrun"}
	if err := e.pair(c, "RANK", "WORLD_SIZE"); err != nil {
		return nil, err
	}
	if c.number == nil && c.size == nil {
		c.from, c.lacks = e.said("TORCHELASTIC_RUN_ID"), "neither RANK nor WORLD_SIZE is set"
	}
	if err := whole(c); err != nil {
		return nil, err
	}
	return c, e.local(c, "LOCAL_RANK", "LOCAL_WORLD_SIZE")
}

// openMPI: https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html
//
// No variable tells where rank 0 is. Two look like it and are not: OMPI_MCA_orte_hnp_uri (4.x) is the address of mpirun, which may run
// on a login node, and PMIX_SERVER_URI* is that of the daemon on this rank's own host.
func openMPI(e environment) (*claim, error) {
	c := &claim{engine: "Open MPI"}
	if err := e.pair(c, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"); err != nil {
		return nil, err
	}
	if c.number == nil && c.size == nil {
		return nil, nil
	}
	if err := whole(c); err != nil {
		return nil, err
	}
	return c, e.local(c, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
}

// hydra is the launcher of MPICH and of Intel MPI (mpiexec.hydra): PMI_RANK and PMI_SIZE are those of the PMI-1 interface, and
// MPI_LOCALRANKID and MPI_LOCALNRANKS are Hydra's own (https://github.com/pmodels/mpich, src/pm/hydra/proxy). Slurm's pmi2 plugin sets
// the first two as well (https://slurm.schedmd.com/mpi_guide.html); what is in a Slurm step and has none of the others is Slurm's.
func hydra(e environment) (*claim, error) {
	const local, localSize = "MPI_LOCALRANKID", "MPI_LOCALNRANKS"
	if e.get(local) == "" && e.get(localSize) == "" && e.get("SLURM_STEP_NUM_TASKS") != "" {
		return nil, nil
	}
	c := &claim{engine: "MPICH"}
	if err := e.pair(c, "PMI_RANK", "PMI_SIZE"); err != nil {
		return nil, err
	}
	if c.number == nil && c.size == nil {
		return nil, nil
	}
	if err := whole(c); err != nil {
		return nil, err
	}
	return c, e.local(c, local, localSize)
}

// pmix is a PMIx server of which no more is known: it tells each process its number and no size (https://pmix.github.io, PMIX_RANK).
func pmix(e environment) (*claim, error) {
	c := &claim{engine: "PMIx", lacks: "PMIx's variables tell no size: give --size or " + SizeVariable}
	var err error
	if c.number, err = e.number("PMIX_RANK"); c.number == nil {
		return nil, err
	}
	c.from = e.said("PMIX_RANK")
	return c, nil
}

// torchVariables are RANK, WORLD_SIZE and MASTER_ADDR without torchrun: the "env://" convention of torch.distributed
// (https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization), as Kubernetes operators and scripts set
// them. Nothing listens on MASTER_PORT before rank 0 does, so it is ours to listen on.
func torchVariables(e environment) (*claim, error) {
	if e.get("TORCHELASTIC_RUN_ID") != "" {
		return nil, nil
	}
	c := &claim{engine: "RANK and WORLD_SIZE"}
	if err := e.pair(c, "RANK", "WORLD_SIZE"); err != nil {
		return nil, err
	}
	if c.number == nil && c.size == nil {
		return nil, nil
	}
	if addr, port := e.get("MASTER_ADDR"), e.get("MASTER_PORT"); addr != "" && port != "" {
		c.first, c.firstFrom = net.JoinHostPort(addr, port), "MASTER_ADDR, MASTER_PORT"
	}
	return c, e.local(c, "LOCAL_RANK", "LOCAL_WORLD_SIZE")
}

// job is an indexed Kubernetes Job: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode. A pod is told its
// index alone. How many pods there are, and the name that the headless service gives to pod 0, are in the manifest as HOPBENCH_SIZE
// and HOPBENCH_FIRST (https://kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication/).
func job(e environment) (*claim, error) {
	c := &claim{engine: "Kubernetes Job", lacks: "a pod is told its index and not the size: set " + SizeVariable + " to the Job's completions, or give --size"}
	var err error
	if c.number, err = e.number("JOB_COMPLETION_INDEX"); c.number == nil {
		return nil, err
	}
	c.from = e.said("JOB_COMPLETION_INDEX")
	c.firstFrom = "a Job's pods are told no name of pod 0 (with a headless service and the pods' subdomain it is JOB-0.SERVICE)"
	zero, one := 0, 1 // what a pod sees of its node is its own
	c.local, c.localSize = &zero, &one
	return c, nil
}

// local reads the rank within the host, where both variables are set.
func (e environment) local(c *claim, number, size string) error {
	n, err := e.number(number)
	if err != nil {
		return err
	}
	s, err := e.number(size)
	if err != nil {
		return err
	}
	if n == nil || s == nil {
		return nil
	}
	if *s < 1 || *n >= *s || c.size != nil && *s > *c.size {
		return fmt.Errorf("%s (%s): local rank %d of %d does not fit (%s)", c.engine, c.from, *n, *s, e.said(number, size))
	}
	c.local, c.localSize = n, s
	return nil
}
