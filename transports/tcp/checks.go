package tcp

import "hopbench/transports"

// checks are the doctor's questions about TCP.
func checks() []transports.Check { return nil }
