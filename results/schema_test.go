package results

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "write the golden files again")

// A schema in the order in which a reader wants it.
type schemaNode struct {
	Draft       string                 `json:"$schema,omitempty"`
	ID          string                 `json:"$id,omitempty"`
	Title       string                 `json:"title,omitempty"`
	Description string                 `json:"description,omitempty"`
	Ref         string                 `json:"$ref,omitempty"`
	Type        any                    `json:"type,omitempty"`
	Const       any                    `json:"const,omitempty"`
	Enum        []string               `json:"enum,omitempty"`
	Format      string                 `json:"format,omitempty"`
	Minimum     *int                   `json:"minimum,omitempty"`
	Pattern     string                 `json:"pattern,omitempty"`
	Required    []string               `json:"required,omitempty"`
	Properties  map[string]*schemaNode `json:"properties,omitempty"`
	Items       *schemaNode            `json:"items,omitempty"`
	Additional  *schemaNode            `json:"additionalProperties,omitempty"`
	OneOf       []*schemaNode          `json:"oneOf,omitempty"`
	AnyOf       []*schemaNode          `json:"anyOf,omitempty"`
	AllOf       []*schemaNode          `json:"allOf,omitempty"`
	Not         *schemaNode            `json:"not,omitempty"`
	If          *schemaNode            `json:"if,omitempty"`
	Then        *schemaNode            `json:"then,omitempty"`
	Defs        map[string]*schemaNode `json:"$defs,omitempty"`
}

// makeSchema derives the schema from the types, and its descriptions from their comments.
func makeSchema(t *testing.T) []byte {
	t.Helper()
	comments := map[string]string{}
	file, err := parser.ParseFile(token.NewFileSet(), "record.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		d, ok := n.(*ast.GenDecl)
		if !ok {
			return true
		}
		for _, s := range d.Specs {
			ts, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			comments[ts.Name.Name] = strings.Join(strings.Fields(d.Doc.Text()), " ")
			if st, ok := ts.Type.(*ast.StructType); ok {
				for _, f := range st.Fields.List {
					for _, name := range f.Names {
						comments[ts.Name.Name+"."+name.Name] = strings.TrimSpace(f.Comment.Text())
					}
				}
			}
		}
		return true
	})
	zero := 0
	defs := map[string]*schemaNode{}
	var of func(t reflect.Type) *schemaNode
	of = func(t reflect.Type) *schemaNode {
		switch {
		case t == reflect.TypeFor[time.Time]():
			return &schemaNode{Type: "string", Format: "date-time"}
		case t == reflect.TypeFor[json.RawMessage]():
			return &schemaNode{}
		}
		switch t.Kind() {
		case reflect.Pointer:
			n := of(t.Elem())
			if n.Ref != "" {
				return &schemaNode{AnyOf: []*schemaNode{n, {Type: "null"}}}
			}
			n.Type = []string{n.Type.(string), "null"}
			return n
		case reflect.String:
			return &schemaNode{Type: "string"}
		case reflect.Bool:
			return &schemaNode{Type: "boolean"}
		case reflect.Int, reflect.Int64:
			return &schemaNode{Type: "integer", Minimum: &zero}
		case reflect.Float64:
			return &schemaNode{Type: "number", Minimum: &zero}
		case reflect.Slice:
			return &schemaNode{Type: "array", Items: of(t.Elem())}
		case reflect.Map:
			return &schemaNode{Type: "object", Additional: of(t.Elem())}
		case reflect.Struct:
			name := t.Name()
			if defs[name] == nil {
				n := &schemaNode{Type: "object", Description: comments[name], Properties: map[string]*schemaNode{}}
				defs[name] = n
				for i := range t.NumField() {
					f := t.Field(i)
					key := keyOf(f)
					if key == "" {
						continue
					}
					p := of(f.Type)
					if p.Ref == "" {
						p.Description = comments[name+"."+f.Name]
					}
					n.Properties[key] = p
					if !strings.Contains(f.Tag.Get("json"), ",omitempty") {
						n.Required = append(n.Required, key)
					}
				}
			}
			return &schemaNode{Ref: "#/$defs/" + name}
		}
		panic("no schema for " + t.String())
	}
	root := &schemaNode{
		Draft: "https://json-schema.org/draft/2020-12/schema",
		Title: "hopbench.results/v1", Description: "One line of a hopbench result file. Units are bytes and seconds; what is not known is absent or null. " +
			"More keys, and records of other kinds, may stand in a file of a newer minor version.",
	}
	kinds := []string{"header", "cell", "interval", "footer"}
	for i, v := range []any{Header{}, Cell{}, Interval{}, Footer{}} {
		ref := of(reflect.TypeOf(v))
		def := defs[reflect.TypeOf(v).Name()]
		def.Properties["record"] = &schemaNode{Const: kinds[i]}
		def.Required = append([]string{"record"}, def.Required...)
		root.OneOf = append(root.OneOf, ref)
	}
	root.OneOf = append(root.OneOf, &schemaNode{Description: "a record of a newer kind", Type: "object", Required: []string{"record"},
		Properties: map[string]*schemaNode{"record": {Type: "string", Not: &schemaNode{Enum: kinds}}}})

	defs["Header"].Properties["schema"].Pattern = `^hopbench\.results/v1(\.[0-9]+)?$`
	cell := defs["Cell"]
	cell.Properties["status"].Enum = []string{StatusOK, StatusWaived, StatusFailed, StatusPartial}
	cell.Properties["realm"].Enum = []string{"", RealmHardware, RealmSoftware, RealmEmulated, RealmDouble}
	cell.Properties["provenance"].Enum = []string{"", Measured, FromSource, Projected}
	defs["Footer"].Properties["state"].Enum = []string{StateComplete, StateInterrupted, StateFailed}
	has := func(key string) *schemaNode { return &schemaNode{Required: []string{key}} }
	status := func(s ...string) *schemaNode {
		return &schemaNode{Properties: map[string]*schemaNode{"status": {Enum: s}}}
	}
	figures := []*schemaNode{has("bandwidth"), has("latency"), has("message_rate_per_second")}
	cell.AllOf = []*schemaNode{
		{Description: "one definition a cell", Not: &schemaNode{Required: []string{"bandwidth", "latency"}}},
		{Description: "what did not run has a reason and no figure", If: status(StatusWaived, StatusFailed), Then: &schemaNode{Required: []string{"reason"}, Not: &schemaNode{AnyOf: figures}}},
		{Description: "what ran has a figure", If: status(StatusOK), Then: &schemaNode{AnyOf: figures}},
	}
	root.Defs = defs
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSchemaIsMadeFromTheTypes(t *testing.T) {
	want := makeSchema(t)
	if *update {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if SchemaJSON() != string(want) {
		t.Error("schema.json is not what the types say: go test ./results -run Schema -update")
	}
}

// compiled is the schema that the other tests hold written files to.
func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(SchemaJSON()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// holdToSchema checks every line of a result file.
func holdToSchema(t testing.TB, file []byte) {
	t.Helper()
	s := compiled(t)
	if len(file) == 0 || file[len(file)-1] != '\n' {
		t.Fatal("the file does not end in a whole line")
	}
	for i, line := range bytes.Split(bytes.TrimSuffix(file, []byte("\n")), []byte("\n")) {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("line %d: %v\n%s", i+1, err, line)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	s := compiled(t)
	ok := strings.ReplaceAll(`{"record":"cell","transport":"tcp","label":"tcp","realm":"software","definition":"bandwidth.confirmed","operation":"write","direction":"forward","piece_bytes":1,"total_bytes":1,
		"descriptors":1,"pattern":"contiguous","depth":1,"streams":1,"concurrency":1,"initiator_memory":"host","target_memory":"host","wait":"spin","status":"ok",
		"bandwidth":{"bytes_per_second":1,"rounds":[1]},"a_newer_key":[1]}`, "\n\t\t", "")
	validate := func(text string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(v)
	}
	if err := validate(ok); err != nil {
		t.Fatal(err)
	}
	if err := validate(`{"record":"tomorrow","x":1}`); err != nil {
		t.Errorf("a record of a newer kind: %v", err)
	}
	for name, change := range map[string][2]string{
		"a figure beside a failure": {`"status":"ok"`, `"status":"failed","reason":"x"`}, "a failure without reason": {`"status":"ok","bandwidth":{"bytes_per_second":1,"rounds":[1]}`, `"status":"failed"`},
		"a negative rate": {`"bytes_per_second":1`, `"bytes_per_second":-1`}, "a number as text": {`"bytes_per_second":1`, `"bytes_per_second":"1"`}, "another realm": {"software", "dream"},
		"another status": {`"ok"`, `"fine"`}, "no transport": {`"transport":"tcp",`, ``}, "both definitions": {`"a_newer_key":[1]`, `"latency":{"samples":1,"rounds_p50_seconds":[1]}`},
		"no figure": {`"bandwidth":{"bytes_per_second":1,"rounds":[1]},`, ``}, "half a byte": {`"piece_bytes":1`, `"piece_bytes":1.5`},
	} {
		text := strings.Replace(ok, change[0], change[1], 1)
		if text == ok {
			t.Fatalf("%s: the case changes nothing", name)
		}
		if validate(text) == nil {
			t.Errorf("%s is valid", name)
		}
	}
	for _, text := range []string{`{}`, `[]`, `{"record":"header","schema":"hopbench.results/v2","tool_version":"1","started":"2026-01-01T00:00:00Z","hosts":[]}`,
		`{"record":"header","schema":"hopbench.results/v1","tool_version":"1","started":"yesterday","hosts":[]}`, `{"record":"footer","state":"fine","cells":1}`} {
		if validate(text) == nil {
			t.Errorf("%s is valid", text)
		}
	}
}
