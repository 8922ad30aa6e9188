//go:build !planner

package report

//go:generate make -C ../.. planner

// Built is the planner of this build; nil where it was built without one (the tag planner).
func Built() *Planner { return nil }
