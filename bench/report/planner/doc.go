//go:build !(js && wasm)

// Command planner is built for a page: GOOS=js GOARCH=wasm, by `make planner`. Built for anything else it says so and ends.
package main

import "log"

func main() {
	log.Fatal("the planner runs in a report's page: build it with GOOS=js GOARCH=wasm (make planner)")
}
