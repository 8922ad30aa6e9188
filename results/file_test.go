package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

// full returns a value of the type with every field set, so that a test that goes over a record goes over all of it.
func full(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case t == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
		return v
	case t == reflect.TypeFor[json.RawMessage]():
		v.Set(reflect.ValueOf(json.RawMessage(`{"a":[1,2]}`)))
		return v
	case t == reflect.TypeFor[Extra]():
		return v
	}
	switch t.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(full(t.Elem()))
	case reflect.String:
		v.SetString("text <&> \" \\ \n | é")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(math.MaxInt64)
	case reflect.Float64:
		v.SetFloat(0.1)
	case reflect.Slice:
		v.Set(reflect.Append(v, full(t.Elem()), full(t.Elem())))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(reflect.ValueOf("key"), full(t.Elem()))
	case reflect.Struct:
		for i := range t.NumField() {
			v.Field(i).Set(full(t.Field(i).Type))
		}
	}
	return v
}

func fullHeader() Header {
	h := full(reflect.TypeFor[Header]()).Interface().(Header)
	h.Schema, h.Provenance = Schema, Measured
	return h
}

func fullCell() Cell {
	c := full(reflect.TypeFor[Cell]()).Interface().(Cell)
	c.Status, c.Realm, c.Latency, c.Provenance = StatusOK, RealmSoftware, nil, Measured
	return c
}

func latencyCell() Cell {
	c := full(reflect.TypeFor[Cell]()).Interface().(Cell)
	c.Status, c.Realm, c.Bandwidth, c.Provenance = StatusPartial, RealmSoftware, nil, Measured
	return c
}

// written is a whole file with every key in it.
func written(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	h, c, l, v := fullHeader(), fullCell(), latencyCell(), full(reflect.TypeFor[Interval]()).Interface().(Interval)
	w, err := NewWriter(&out, "test", &h)
	if err != nil {
		t.Fatal(err)
	}
	waived := Cell{Transport: "roce", Label: "roce", Status: StatusWaived, Reason: "no RDMA device", Code: "rdma-none"}
	for _, err := range []error{w.Cell(&c), w.Interval(&v), w.Cell(&l), w.Cell(&waived), w.Close(StateInterrupted, "SIGINT")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestRoundTripOfEveryKey(t *testing.T) {
	file := written(t)
	holdToSchema(t, file)
	runs, err := Read(bytes.NewReader(file), "test")
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	r := runs[0]
	if d := cmp.Diff(fullHeader(), r.Header); d != "" {
		t.Errorf("header: %s", d)
	}
	if d := cmp.Diff(fullCell(), r.Cells[0]); d != "" {
		t.Errorf("cell: %s", d)
	}
	if d := cmp.Diff(latencyCell(), r.Cells[1]); d != "" {
		t.Errorf("cell: %s", d)
	}
	if len(r.Cells) != 3 || len(r.Intervals) != 1 || r.Footer == nil || r.Footer.State != StateInterrupted || r.Footer.Cells != 3 || r.Footer.Reason != "SIGINT" || len(r.Warnings) != 0 {
		t.Errorf("%d cells, %d intervals, footer %+v, warnings %q", len(r.Cells), len(r.Intervals), r.Footer, r.Warnings)
	}
}

// TestNewerKeysAreKept reads records with unknown keys at every depth and writes them again.
func TestNewerKeysAreKept(t *testing.T) {
	for _, line := range []string{
		`{"record":"cell","transport":"tcp","label":"","realm":"","definition":"d","operation":"","direction":"","piece_bytes":0,"total_bytes":0,"descriptors":0,"pattern":"","depth":0,"streams":0,"concurrency":0,"initiator_memory":"","target_memory":"","wait":"","status":"ok","bandwidth":{"bytes_per_second":1,"rounds":[],"a/b":{"c":[{}]}},"counters":{"unit":"bytes","readings":[{"side":"initiator","name":"n","unit":"u","value":1},{"side":"target","name":"n","unit":"u","value":1,"new~":1e400}]},"zebra":"}],{\"","apple":null}`,
		`{"record":"header","schema":"hopbench.results/v1","tool_version":"9","started":"2026-01-02T03:04:05Z","plan":{"unknown":{"to us":1}},"hosts":[{"hostname":"a"},{"hostname":"b","tpus":[1,2]}],"new":{}}`,
		`{"record":"footer","state":"complete","cells":0,"é\n":[[]]}`,
		`{"record":"interval","transport":"t","start_seconds":0,"seconds":1,"bytes":2,"bytes_per_second":2,"new":true}`,
	} {
		var v, again any
		switch kindOf([]byte(line)) {
		case "cell":
			v, again = &Cell{}, &Cell{}
		case "header":
			v, again = &Header{}, &Header{}
		case "footer":
			v, again = &Footer{}, &Footer{}
		case "interval":
			v, again = &Interval{}, &Interval{}
		}
		if err := json.Unmarshal([]byte(line), v); err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := canonical(t, out), canonical(t, []byte(line)); got != want {
			t.Errorf("a round trip lost something:\n%s\n%s", want, got)
		}
		if bytes.ContainsRune(out, '\n') {
			t.Errorf("a record over two lines: %s", out)
		}
		if err := json.Unmarshal(out, again); err != nil || !reflect.DeepEqual(v, again) {
			t.Errorf("the second reading differs: %v\n%+v\n%+v", err, v, again)
		}
	}
}

// canonical is JSON with sorted keys and numbers as they stand.
func canonical(t *testing.T, b []byte) string {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestExtraOfAPartThatIsGone(t *testing.T) {
	var c Cell
	if err := json.Unmarshal([]byte(`{"transport":"t","status":"ok","latency":{"samples":1,"new":2}}`), &c); err != nil {
		t.Fatal(err)
	}
	c.Latency = nil
	out, err := json.Marshal(c)
	if err != nil || bytes.Contains(out, []byte("new")) {
		t.Errorf("%s, %v", out, err)
	}
	c.Extra = Extra{"no pointer": json.RawMessage("1")}
	if _, err := json.Marshal(c); err == nil {
		t.Error("an extra without a place was written")
	}
}

func TestCutAnywhere(t *testing.T) {
	file := written(t)
	first := bytes.IndexByte(file, '\n')
	for n := range file {
		near := bytes.IndexByte(file[max(0, n-3):min(len(file), n+3)], '\n') >= 0
		if !near && n%31 != 0 {
			continue // every place near the end of a line, and many within
		}
		runs, err := Read(bytes.NewReader(file[:n]), "f")
		if n < first { // a header that is not whole
			if err == nil {
				t.Fatalf("%d bytes of a header were read", n)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		whole := bytes.Count(file[:n], []byte("\n"))
		atEnd := n == first || file[n-1] == '\n' || file[n] == '\n'
		cut := len(runs[0].Warnings) > 0 && strings.Contains(runs[0].Warnings[0], fmt.Sprintf("f:%d: the last line is cut short", whole+1))
		if cut == atEnd {
			t.Fatalf("%d bytes: warnings %q", n, runs[0].Warnings)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	head := `{"record":"header","schema":"hopbench.results/v1","tool_version":"1","started":"2026-01-01T00:00:00Z","hosts":[]}` + "\n"
	cell := `{"record":"cell","transport":"tcp","definition":"d","status":"ok","bandwidth":{"bytes_per_second":1,"rounds":[]}}` + "\n"
	foot := `{"record":"footer","state":"complete","cells":1}` + "\n"
	if runs, err := Read(strings.NewReader(head+cell+foot), "f"); err != nil || len(runs) != 1 {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":            {"", "f:1: empty"},
		"blank":            {"\n\n", "f:1: empty"},
		"a space":          {" ", "f:1: empty"},
		"text":             {"iperf 3.17\n", "f:1: not a hopbench result file"},
		"other JSON":       {`{"start":{"version":"iperf 3.16"}}`, "f:1: not a hopbench result file"},
		"a JSON array":     {"[1,2]\n", "f:1: not a hopbench result file"},
		"binary":           {"\x00\x01\x02", "f:1: not a hopbench result file"},
		"a cut header":     {head[:30], "f:1: not a hopbench result file"},
		"a cell first":     {cell, "f:1: not a hopbench result file"},
		"a newer major":    {strings.Replace(head, "/v1", "/v2", 1), `f:1: schema "hopbench.results/v2": this version reads hopbench.results/v1`},
		"an odd schema":    {strings.Replace(head, "hopbench.results/v1", "else", 1), `f:1: schema "else"`},
		"garbage inside":   {head + "oops\n" + cell, "f:2:"},
		"a cut line in it": {head + cell[:40] + "\n" + cell, "f:2:"},
		"no kind":          {head + "{}\n", `f:2: a line without "record"`},
		"a wrong type":     {head + strings.Replace(cell, `"tcp"`, "7", 1), "f:2:"},
		"too large":        {head + strings.Replace(cell, `"bytes_per_second":1`, `"bytes_per_second":1e999`, 1), "f:2:"},
		"negative":         {head + strings.Replace(cell, `"bytes_per_second":1`, `"bytes_per_second":-1`, 1), "f:2: bandwidth.bytes_per_second is negative"},
		"no transport":     {head + strings.Replace(cell, `"transport":"tcp",`, "", 1), "f:2: a cell without transport"},
		"NaN":              {head + strings.Replace(cell, `"bytes_per_second":1`, `"bytes_per_second":NaN`, 1), "f:2:"},
		"behind a footer":  {head + foot + cell, "f:3:"},
		"an endless line":  {head + strings.Repeat("x", maxLine+2), "f:2: a line of more than"},
	} {
		runs, err := Read(strings.NewReader(c.text), "f")
		if err == nil {
			t.Errorf("%s: read as %d runs", name, len(runs))
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		var fe *FileError
		if !errors.As(err, &fe) {
			t.Errorf("%s: %T is not a FileError", name, err)
		}
	}
}

func TestReaderTolerates(t *testing.T) {
	head := `{"record":"header","schema":"hopbench.results/v1.7","tool_version":"1","started":"2026-01-01T00:00:00Z","hosts":null}`
	cell := `{"record":"cell","transport":"tcp","definition":"d","status":"ok","bandwidth":{"bytes_per_second":1,"low":null,"rounds":null},"cpu":null}`
	runs, err := Read(strings.NewReader(head+"\r\n\n  "+cell+"  \n"+`{"record":"aura","x":1}`+"\n"+head+"\n"+`{"record":"footer","state":"complete","cells":7}`), "f")
	if err != nil || len(runs) != 2 || len(runs[0].Cells) != 1 || len(runs[0].Other) != 1 {
		t.Fatalf("%+v, %v", runs, err)
	}
	if len(runs[1].Warnings) != 1 || !strings.Contains(runs[1].Warnings[0], "counts 7 cells, the file has 0") {
		t.Errorf("warnings %q", runs[1].Warnings)
	}
}

func TestReadFiles(t *testing.T) {
	dir := t.TempDir()
	file := written(t)
	for _, name := range []string{"b.jsonl", "a.jsonl", "sub/c.jsonl", "notes.txt"} {
		p := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		os.WriteFile(p, file, 0o644)
	}
	runs, err := ReadFiles(dir, filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "sub", "..", "b.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range runs {
		names = append(names, strings.TrimPrefix(r.File, dir+"/"))
	}
	if got := strings.Join(names, " "); got != "a.jsonl b.jsonl sub/c.jsonl" {
		t.Errorf("files %q", got)
	}
	empty := filepath.Join(dir, "empty")
	os.Mkdir(empty, 0o755)
	os.WriteFile(filepath.Join(dir, "bad.jsonl"), []byte("x"), 0o644)
	for _, paths := range [][]string{{}, {empty}, {filepath.Join(dir, "absent")}, {dir}} {
		if _, err := ReadFiles(paths...); err == nil {
			t.Errorf("%v was read", paths)
		}
	}
	stop := errors.New("stop")
	if err := EachFile([]string{filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.jsonl")}, func([]Run) error { return stop }); err != stop {
		t.Errorf("%v", err)
	}
}

func TestIdentity(t *testing.T) {
	// Every field of the identity comes from the field of the cell that has its key.
	c := fullCell()
	id := reflect.ValueOf(c.Identity())
	cell := reflect.ValueOf(c)
	for i := range id.NumField() {
		name := id.Type().Field(i).Name
		want := reflect.Indirect(cell.FieldByName(name))
		if !reflect.DeepEqual(id.Field(i).Interface(), want.Interface()) || id.Field(i).IsZero() {
			t.Errorf("%s: %v, the cell has %v", name, id.Field(i), want)
		}
		if a, b := keyOf(id.Type().Field(i)), keyOf(fieldOf(t, cell.Type(), name)); a != b {
			t.Errorf("%s is %q in the identity and %q in the cell", name, a, b)
		}
	}
	other := fullCell()
	other.Label, other.Bandwidth.BytesPerSecond = "another", 7
	if c.Identity() != other.Identity() {
		t.Error("a label or a figure is part of the identity")
	}
}

func fieldOf(t *testing.T, s reflect.Type, name string) reflect.StructField {
	f, ok := s.FieldByName(name)
	if !ok {
		t.Fatalf("no field %s", name)
	}
	return f
}

func FuzzRead(f *testing.F) {
	f.Add(written(f))
	f.Add([]byte(`{"record":"header","schema":"hopbench.results/v1","hosts":[{"x":{}}]}` + "\n" + `{"record":"cell","transport":"t","status":"failed","é":[{"\u0061":1}]}`))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		runs, err := Read(bytes.NewReader(b), "f")
		if err != nil {
			if runs != nil {
				t.Fatal("runs beside an error")
			}
			return
		}
		// What was read can be written, and reads the same again.
		for _, r := range runs {
			var out bytes.Buffer
			for _, v := range append([]any{r.Header}, anys(r.Cells)...) {
				line, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				out.Write(append(line, '\n'))
			}
			again, err := Read(&out, "again")
			if err != nil || len(again) != 1 {
				t.Fatalf("%v", err)
			}
			if d := cmp.Diff(r.Cells, again[0].Cells); d != "" {
				t.Fatal(d)
			}
		}
	})
}

func anys(cells []Cell) []any {
	var out []any
	for _, c := range cells {
		out = append(out, c)
	}
	return out
}

// BenchmarkRead is for those who compare thousands of files.
func BenchmarkRead(b *testing.B) {
	c := Cell{Transport: "tcp", Label: "tcp, same host", Realm: "software", Definition: "bandwidth.confirmed", Operation: "write", Direction: "forward", Status: "ok",
		Bandwidth: &Bandwidth{BytesPerSecond: 1e9, Rounds: make([]float64, 16)}, CPU: &CPU{InitiatorSecondsPerGigabyte: ptr(0.5)}, Path: &Path{Initiator: &Side{Device: "lo"}}}
	var out bytes.Buffer
	w, _ := NewWriter(&out, "b", &Header{})
	for range 100 {
		w.Cell(&c)
	}
	w.Close(StateComplete, "")
	b.SetBytes(int64(out.Len()))
	for b.Loop() {
		if _, err := Read(bytes.NewReader(out.Bytes()), "b"); err != nil {
			b.Fatal(err)
		}
	}
}
