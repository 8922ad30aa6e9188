package kvcache

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

//go:embed catalogue.json
var catalogueJSON []byte

// entry is one model of the catalogue: the fields of its public config.json that decide its cache.
type entry struct {
	Name         string          `json:"name"`
	Aliases      []string        `json:"aliases"`
	Source       string          `json:"source"`
	Date         string          `json:"date"`
	ActiveParams *int64          `json:"active_params"`
	ParamsSource string          `json:"active_params_source"`
	Config       json.RawMessage `json:"config"`
	HFQuant      json.RawMessage `json:"hf_quant_config"`
}

func catalogue() ([]entry, error) {
	var entries []entry
	if err := json.Unmarshal(catalogueJSON, &entries); err != nil {
		return nil, fmt.Errorf("catalogue: %w", err)
	}
	return entries, nil
}

// Catalogue lists the names that Load knows, in order, without their aliases.
func Catalogue() []string {
	entries, err := catalogue()
	if err != nil {
		return nil // a test reads it: it cannot be broken in a build
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	slices.Sort(names)
	return names
}

// fromCatalogue finds a model by its name (the part after the owner will do), in any case.
func fromCatalogue(name string, opts LoadOptions) (*Model, error) {
	entries, err := catalogue()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		_, short, _ := strings.Cut(e.Name, "/")
		known := append([]string{e.Name, short}, e.Aliases...)
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			continue
		}
		m, err := Parse(e.Config, nilIfEmpty(e.HFQuant), opts)
		if err != nil {
			return nil, fmt.Errorf("catalogue: %s: %w", e.Name, err)
		}
		m.Name, m.ActiveParams = e.Name, e.ActiveParams
		m.Source = fmt.Sprintf("%s, read %s", e.Source, e.Date)
		return m, nil
	}
	return nil, fmt.Errorf("model %s: %w", show(name), ErrNoModel)
}

// ErrNoModel is Load's error for a name that is neither a file nor in the catalogue.
var ErrNoModel = errors.New("no such file or folder, and no such name in the catalogue")

func nilIfEmpty(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return nil
	}
	return raw
}
