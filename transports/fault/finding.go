package fault

// Severity is the verdict of one check.
type Severity string

const (
	OK      Severity = "ok"
	Warn    Severity = "warn"
	Fail    Severity = "fail"
	Unknown Severity = "unknown" // could not tell: not root, not readable, not there
)

// Evidence is one thing that was read: where, what was found and what was wanted.
type Evidence struct {
	Source string `json:"source"`         // a path, a call, a variable
	Got    string `json:"got"`            // as read; "absent" where there was nothing
	Want   string `json:"want,omitempty"` // what would be right
}

// Finding is the answer of one check, with its evidence and what to do.
type Finding struct {
	Code     Code       `json:"code"`
	Severity Severity   `json:"severity"`
	Summary  string     `json:"summary"`
	Evidence []Evidence `json:"evidence,omitempty"`
	Fix      []Fix      `json:"fix,omitempty"`
}
