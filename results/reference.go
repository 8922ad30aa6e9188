package results

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

// Reference is what the field says of a kind of link. It stands beside measured rows, marked as a reference,
// with its source; it is no measurement of this project.
type Reference struct {
	Transport          string   `json:"transport"` // the transport that it is to be read beside
	Label              string   `json:"label"`
	LowBytesPerSecond  float64  `json:"low_bytes_per_second"`
	HighBytesPerSecond float64  `json:"high_bytes_per_second"`
	LatencySeconds     *float64 `json:"latency_seconds,omitempty"` // nil where the source gives no figure
	GPUDirect          string   `json:"gpu_direct"`                // in the source's sense
	Note               string   `json:"note,omitempty"`            // what a reader must know to use it
	Source             string   `json:"source"`
	URL                string   `json:"url"`
}

//go:embed references.json
var referencesJSON []byte

// References are the reference rows of the field, fastest first.
func References() ([]Reference, error) {
	var list []Reference
	if err := json.Unmarshal(referencesJSON, &list); err != nil {
		return nil, fmt.Errorf("references.json: %w", err)
	}
	return list, nil
}
