//go:build js && wasm

// Command planner is the TTFT planner of a report's page: package plan, callable from the page. It answers hopbenchPlan(ask), where ask
// is JSON of a plan.Ask, with JSON of {"answer": ...} or {"error": "..."}. The cells of the report come first, by
// hopbenchCells(json, files).
package main

import (
	"encoding/json"
	"syscall/js"

	"hopbench/bench/report/plan"
	"hopbench/results"
)

func main() {
	var cells []results.Cell
	var files []string
	js.Global().Set("hopbenchCells", js.FuncOf(func(_ js.Value, args []js.Value) any {
		var in struct {
			Cells []results.Cell `json:"cells"`
			Files []string       `json:"files"`
		}
		if err := json.Unmarshal([]byte(args[0].String()), &in); err != nil {
			return err.Error()
		}
		cells, files = in.Cells, in.Files
		return ""
	}))
	js.Global().Set("hopbenchPlan", js.FuncOf(func(_ js.Value, args []js.Value) any {
		var ask plan.Ask
		out := map[string]any{}
		if err := json.Unmarshal([]byte(args[0].String()), &ask); err != nil {
			out["error"] = err.Error()
		} else if answer, err := plan.Of(ask, cells, files...); err != nil {
			out["error"] = err.Error()
		} else {
			out["answer"] = answer
		}
		b, err := json.Marshal(out)
		if err != nil {
			b, _ = json.Marshal(map[string]string{"error": err.Error()}) // a string always encodes
		}
		return string(b)
	}))
	select {}
}
