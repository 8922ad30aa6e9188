//go:build planner

package report

import _ "embed"

// Both are made by `make planner`: they are not in the repository, so the tag that asks for them is set by who made them.

//go:generate make -C ../.. planner

//go:embed built/planner.wasm.gz
var builtWasm []byte

//go:embed built/wasm_exec.js
var builtExec []byte

// Built is the planner of this build; nil where it was built without one (the tag planner).
func Built() *Planner { return &Planner{Wasm: builtWasm, Exec: builtExec} }
