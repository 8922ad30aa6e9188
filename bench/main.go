package main

import (
	"os"

	"hopbench/bench/internal/cli"
	"hopbench/transports/all"
)

func main() {
	os.Exit(cli.Run(cli.System(all.Drivers()), os.Args[1:]))
}
