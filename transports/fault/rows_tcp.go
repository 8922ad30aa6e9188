package fault

// Codes of the TCP transport.
const (
	TCPDataUnreachable Code = "tcp.data-unreachable"
	TCPDataRefused     Code = "tcp.data-refused"
	TCPNonce           Code = "tcp.nonce"
	TCPProtocol        Code = "tcp.protocol"
	TCPReset           Code = "tcp.reset"
	TCPBind            Code = "tcp.bind"
	TCPUnavailable     Code = "tcp.unavailable"
	TCPSocketBuffer    Code = "tcp.socket-buffer"
	TCPBounds          Code = "tcp.bounds"
	TCPVirtualDevice   Code = "tcp.virtual-device"
	TCPSameHost        Code = "tcp.same-host"
)

var tcpRows = []Row{
	{TCPDataUnreachable, Peer, "the data connection could not be made although the control channel works",
		"Control and data use separate addresses and ports. A firewall, a NetworkPolicy or a route that drops the data port looks like this: the control channel answers and the data connection times out.",
		[]Fix{{Shell, "ask `hopbench doctor --peer HOST:PORT`, which sends data of two sizes over it in seconds"}, {Shell, "open the data port that the message names, or choose it with --data-port and the address with --data-address on the server"}, {Kubernetes, "let the NetworkPolicy pass the data port, or name the pod's other network with --data-address"}}},
	{TCPDataRefused, Peer, "the peer refused the data connection",
		"Nobody listens at the data address that the peer announced: it has ended, or a translator stands between the two hosts.",
		[]Fix{{Shell, "announce a reachable address with --data-address on the server"}}},
	{TCPNonce, Peer, "a data connection opened with the wrong nonce",
		"Each data connection proves with a one-time number from the control channel that it belongs to this run. Another program connected to the data port, or a run left over from before.",
		[]Fix{{Shell, "run again; look for what else connects to that port"}}},
	{TCPProtocol, Peer, "the data connection carried a frame that makes no sense", "The frame is named in the message. Bytes were lost or something else speaks there.", nil},
	{TCPReset, Peer, "the data connection broke", "The peer's process ended, or a device on the way reset the connection.",
		[]Fix{{Shell, "look at the peer's own output"}}},
	{TCPBind, Usage, "the local address cannot be bound", "The address is not one of this host's, or the port is taken.",
		[]Fix{{Shell, "`ip -brief address` lists the addresses"}}},
	{TCPUnavailable, NotReady, "TCP sockets cannot be made here", "A sandbox forbids it, or the kernel has no TCP.",
		[]Fix{{Shell, "check the sandbox's rules (seccomp, the network namespace)"}}},
	{TCPSocketBuffer, NotReady, "the kernel gave a smaller socket buffer than was asked for",
		"net.core.wmem_max and rmem_max cap what a program may set. Left alone the kernel tunes buffers by itself, commonly to more than the cap.",
		[]Fix{{Shell, "leave --sndbuf and --rcvbuf away, or raise net.core.wmem_max and net.core.rmem_max"}}},
	{TCPBounds, Peer, "a frame named memory outside the registered region", "Every offset and length from the wire is checked against the region; the operation was refused and the connection closed.", nil},
	{TCPVirtualDevice, NotSupported, "the data goes over a virtual device", "veth, loopback and bridges have no line rate: a utilisation figure would mean nothing and stays blank.", nil},
	{TCPSameHost, NotSupported, "both ends are on this host", "The traffic loops inside the kernel and never reaches a network card, whatever address was named.", nil},
}
