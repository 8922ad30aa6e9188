#!/usr/bin/env bash
# The matrix of links between the hosts of an MPI launcher: one rank of hopbench mesh a process. No MPI library is needed, only the
# launcher: Open MPI's mpirun, or mpiexec.hydra of MPICH or Intel MPI.
#
#   scripts/mpi/mesh.sh [OPTIONS OF THE LAUNCHER] [-- OPTIONS OF HOPBENCH MESH]
#   scripts/mpi/mesh.sh -n 4                                                four ranks on this host
#   scripts/mpi/mesh.sh -n 4 --oversubscribe --allow-run-as-root            Open MPI: on fewer cores than ranks; as root, as in a container
#   scripts/mpi/mesh.sh --hostfile hosts --map-by ppr:1:node                Open MPI: one rank a host
#   scripts/mpi/mesh.sh --hostfile hosts --map-by ppr:8:node -- --transport infiniband
#   MPIRUN=mpiexec.hydra scripts/mpi/mesh.sh -f hosts -n 8 -ppn 1           MPICH, Intel MPI: one rank a host
#
# HOPBENCH names the command where it is neither in bin/ of this folder's project nor on the PATH of the hosts.
#
# No MPI tells a rank where rank 0 is. The launcher is run once with the same options to ask rank 0 for its host name; HOPBENCH_FIRST
# says another HOST or HOST:PORT, as where that name is not the one to measure from.
#
# The ranks prove a token to each other: HOPBENCH_TOKEN_FILE names a file of mode 0600 that each host has, HOPBENCH_TOKEN holds one, and
# without either one is made for this run. The launcher hands it on in the environment, never as an argument, which every user of a
# host could read.
set -euo pipefail

launcher=${MPIRUN:-mpirun} options=()
case ${1:-} in -h|--help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; esac
while [[ $# -gt 0 && $1 != -- ]]; do
  options+=("$1")
  shift
done
[[ $# = 0 ]] || shift

command -v "$launcher" >/dev/null || { echo "mesh.sh: there is no $launcher (MPIRUN names another)" >&2; exit 2; }
version=$("$launcher" --version 2>&1 || true)
case $version in
  *"Open MPI"*|*OpenRTE*)
    options+=(--bind-to none) # hopbench places its threads beside the device that it measures
    pass=(-x) ;; # a variable is handed on by name
  *HYDRA*|*"Intel(R) MPI"*)
    pass=() ;; # all of them are handed on
  *) echo "mesh.sh: $launcher is neither Open MPI's mpirun nor mpiexec.hydra" >&2; exit 2 ;;
esac

hopbench=${HOPBENCH:-}
if [[ -z $hopbench ]]; then
  hopbench=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../../bin/hopbench
  if [[ -x $hopbench ]]; then hopbench=$(realpath "$hopbench"); else hopbench=hopbench; fi
fi

if [[ -z ${HOPBENCH_FIRST:-} ]]; then
  # Nothing where all ranks are on one host: they know that themselves, and use its loopback address.
  # shellcheck disable=SC2016
  ask='if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}" = 0 ] && [ "${OMPI_COMM_WORLD_LOCAL_SIZE:-${MPI_LOCALNRANKS:-}}" != "${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-}}" ]; then echo "hopbench-first $(hostname)"; fi'
  said=$("$launcher" "${options[@]}" sh -c "$ask") || { echo "mesh.sh: $launcher ${options[*]} does not start" >&2; exit 1; }
  HOPBENCH_FIRST=$(sed -n 's/^.*hopbench-first //p' <<<"$said")
fi
token=()
if [[ -n ${HOPBENCH_TOKEN_FILE:-} ]]; then
  token=(--token-file "$HOPBENCH_TOKEN_FILE")
elif [[ -z ${HOPBENCH_TOKEN:-} ]]; then
  HOPBENCH_TOKEN=$(od -An -N32 -v -tx1 /dev/urandom | tr -d ' \n')
fi
for name in HOPBENCH_FIRST HOPBENCH_TOKEN; do
  if [[ -n ${!name:-} ]]; then
    export "${name?}"
    [[ ${#pass[@]} = 0 ]] || options+=("${pass[@]}" "$name")
  fi
done
# Launchers end all ranks when one has failed. Rank 0 names a rank that fails and goes on, so only its status is the launcher's concern.
# shellcheck disable=SC2016
rank='if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}" = 0 ]; then exec "$@"; fi; "$@" || :'
exec "$launcher" "${options[@]}" sh -c "$rank" rank "$hopbench" mesh "${token[@]}" "$@"
