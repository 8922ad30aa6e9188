package kvcache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LoadOptions changes how a model is found and read.
type LoadOptions struct {
	Estimate bool // read an architecture that is not known as plain attention, and label the result
}

// Load reads a model: a config.json, a folder that holds one, or a name from the catalogue. An hf_quant_config.json
// beside the config is read too. An error names the file and, where one is at fault, the field (FieldError).
func Load(pathOrName string, opts LoadOptions) (*Model, error) {
	if pathOrName == "" {
		return nil, errors.New("no model given: a config.json, a folder that holds one, or a name from the catalogue")
	}
	info, err := os.Stat(pathOrName)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist) && !strings.HasSuffix(pathOrName, ".json"):
		m, nameErr := fromCatalogue(pathOrName, opts)
		return m, nameErr
	default:
		return nil, fmt.Errorf("model: %w", err)
	}
	path := pathOrName
	if info.IsDir() {
		path = filepath.Join(path, "config.json")
	}
	config, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	quantPath := strings.TrimSuffix(path, "config.json") + "hf_quant_config.json"
	var quant []byte
	if strings.HasSuffix(path, "config.json") && !strings.HasSuffix(path, "hf_quant_config.json") {
		if quant, err = readBounded(quantPath); errors.Is(err, fs.ErrNotExist) {
			quant, err = nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	m, err := Parse(config, quant, opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m.Name = pathOrName
	return m, nil
}

// readBounded reads a file, and of a large one just enough for Parse to refuse it.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return data, nil
}

// Parse reads the bytes of a config.json, and of an hf_quant_config.json where there is one (nil without).
func Parse(config, hfQuant []byte, opts LoadOptions) (*Model, error) {
	fields, err := parseDocument(config)
	if err != nil {
		return nil, err
	}
	top := section{fields: fields}
	var quant *section
	if hfQuant != nil {
		fields, err := parseDocument(hfQuant)
		if err != nil {
			return nil, fmt.Errorf("hf_quant_config.json: %w", err)
		}
		quant = &section{fields: fields}
	}
	r := &reader{top: top, text: top, model: &Model{}}
	for _, key := range textKeys {
		s, ok, err := top.sub(key)
		if err != nil {
			return nil, err
		}
		if ok {
			r.text = s
			break
		}
	}
	f, err := r.family(opts)
	if err != nil {
		return nil, err
	}
	if err := f.read(r, f); err != nil {
		return nil, err
	}
	if err := r.dtypes(quant); err != nil {
		return nil, err
	}
	if err := r.model.check(); err != nil {
		return nil, err
	}
	return r.model, nil
}

// family finds who reads this config; the class of a wrapper is that of the model under it.
func (r *reader) family(opts LoadOptions) (family, error) {
	class, modelType, err := className(r.top)
	if err != nil {
		return family{}, err
	}
	if slices.Contains(wrappers, class) || (class == "" && modelType == "" && r.text.path != "") {
		if class, modelType, err = className(r.text); err != nil {
			return family{}, err
		}
	}
	name, field := class, r.top.at("architectures")
	if name == "" {
		name, field = modelType, r.top.at("model_type")
	}
	r.model.Architecture = name
	if name == "" && !opts.Estimate {
		return family{}, fieldErr("architectures", "missing, and no model_type stands in for it: not a model's config.json?")
	}
	f, ok := familyOf(class, modelType)
	if ok {
		return f, nil
	}
	if !opts.Estimate {
		return family{}, fieldErr(field, "architecture %s is not known, so its cache is not either (an estimate, as plain or latent attention by its fields, can be asked for)", show(name))
	}
	r.model.Estimate = true
	if name == "" {
		r.model.Architecture = "unknown"
	}
	as := "plain attention"
	f = family{read: readAttention}
	if r.text.has("kv_lora_rank") {
		as, f.read = "latent attention", readLatent
	}
	r.assume(fmt.Sprintf("ESTIMATE: architecture %s is not known and is read as %s", show(r.model.Architecture), as))
	return f, nil
}

// dtypes settles what the config itself says of dtypes, and says on what ground.
func (r *reader) dtypes(quant *section) error {
	m := r.model
	var found bool
	var err error
	if m.ModelDType, found, err = modelDType(r.top, r.text); err != nil {
		return err
	}
	kv, from, err := checkpointKVDType(r.top, r.text, quant)
	switch {
	case err != nil:
		return err
	case kv != "":
		m.KVDType = kv
		r.assume(fmt.Sprintf("KV dtype %s by the checkpoint's %s", kv, from))
	case found:
		m.KVDType = m.ModelDType
		r.assume(fmt.Sprintf("KV dtype %s: the model's dtype, as no KV scheme is given (the weights' quantisation does not change it)", m.KVDType))
	default:
		m.KVDType = m.ModelDType
		r.assume("KV dtype bfloat16: the config gives no dtype and no KV scheme")
	}
	return nil
}

// check refuses a model that no layer of which keeps anything.
func (m *Model) check() error {
	for _, l := range m.Layers {
		if l.Kind != None && l.Kind != Shared {
			return nil
		}
	}
	return errors.New("no layer of this model keeps KV or state")
}
