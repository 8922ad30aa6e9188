package kvcache

import "errors"

var errNotBuilt = errors.New("kvcache: not built yet")

// LoadOptions changes how a model is found and read.
type LoadOptions struct {
	Estimate bool // read an architecture that is not known as plain attention, and label the result
}

// Load reads the model at path, or of that name in the catalogue.
func Load(pathOrName string, opts LoadOptions) (*Model, error) { return nil, errNotBuilt }
