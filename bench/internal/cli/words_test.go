package cli

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hopbench/harness/control"
	"hopbench/results"
	"hopbench/transports"
	"hopbench/transports/loopback"
	"hopbench/transports/tcp"
)

// goWords are what a program says to its programmer: they tell a user nothing.
var goWords = regexp.MustCompile(`%!|<nil>|\bnil\b|context (deadline exceeded|canceled)|\bEOF\b|invalid character|unexpected end of JSON|strconv\.|invalid syntax|value out of range|` +
	`json: (cannot|invalid|unsupported|unknown)|yaml: (line|unmarshal|did|control)|unmarshal|route ip|(dial|listen|read|write|accept) tcp|lookup \S+( on \S+)?: |Go (struct|value)|map\[|0xc[0-9a-f]{6,}|runtime error|goroutine|panic|rpc error|time: (missing|unknown|invalid)|parsing time|cannot parse|ParseAddr|\*?errors\.|&\{|\bfield \S+ of type\b|type harness\.`)

// worldOf is a world for commands that fail.
func worldOf(t *testing.T, vars map[string]string, stdin string) (*Env, *lockedBuffer, *lockedBuffer) {
	t.Helper()
	out, errs := &lockedBuffer{}, &lockedBuffer{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return &Env{
		Stdout: out, Stderr: errs, Stdin: strings.NewReader(stdin), Drivers: []transports.Driver{loopback.New(), tcp.New()}, Now: time.Now,
		Getenv: func(k string) string { return vars[k] }, Context: ctx,
	}, out, errs
}

// answering is the address of a server that does something with each connection.
func answering(t *testing.T, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); do(c) }()
		}
	}()
	return l.Addr().String()
}

// TestMessagesSpeakToUsers runs commands that fail and holds what they say to a user's language.
func TestMessagesSpeakToUsers(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const header = `{"record":"header","schema":"hopbench.results/v1","tool_version":"1","started":"2026-01-01T00:00:00Z","hosts":[]}` + "\n"
	files := []string{
		write("empty", ""), write("blank", "\n\n"), write("text", "hello\n"), write("brace", "{"), write("cut", header+`{"record":"cell","transp`),
		write("comma", `{"a":1,}`), write("number", "7"), write("list", "[1,2]"), write("null", "null"), write("binary", "\x00\x01\xff\xfe{"), write("nan", header+`{"record":"cell","depth":NaN}`+"\n"),
		write("kind", header+`{"record":"cell","transport":"tcp","depth":"x"}`+"\n"+header), write("kinds", header+`{"record":"cell","transport":["tcp"],"bandwidth":7}`+"\n"+header),
		write("date", strings.Replace(header, "2026-01-01T00:00:00Z", "yesterday", 1)), write("host", strings.Replace(header, `"hosts":[]`, `"hosts":{}`, 1)),
		write("future", strings.Replace(header, "/v1", "/v9", 1)), write("object", `{"a":{"b":[1,{"c":null}]}}`), filepath.Join(dir, "absent"), dir,
	}
	plans := []string{
		write("p1.yaml", "depth: x\n"), write("p2.yaml", "sizes_bytes: 7\n"), write("p3.yaml", "no_such: 1\n"), write("p4.yaml", "transports: {a: 1}\n"), write("p5.yaml", ":\n - ["),
		write("p6.yaml", "# nothing\n"), write("p7.yaml", "- 1\n"), write("p8.yaml", "duration_seconds: [1]\nstreams: 1.5\nwait: {}\n"), write("p9.yaml", "depth: 99999999999999999999\n"), write("p10.yaml", "depth: -1\nstreams: -2\n"),
	}
	token := write("token", control.NewToken().Text()+"\n")
	short := write("short", "abcdef\n")
	loose := write("loose", control.NewToken().Text()+"\n")
	if err := os.Chmod(loose, 0o644); err != nil {
		t.Fatal(err)
	}
	closes := answering(t, func(net.Conn) {})
	silent := answering(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	speaks := answering(t, func(c net.Conn) { c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) })
	nobody := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}()
	var commands [][]string
	add := func(args ...string) { commands = append(commands, args) }
	for _, value := range []string{"x", "-1", "1.5", "99999999999999999999999", "", "1e999", "ten", "0x", "NaN"} {
		for _, flag := range []string{
			"--sizes", "--pieces", "--concurrency", "--depth", "--streams", "--batch", "--wait", "--rate", "--buffers", "--pool", "--duration", "--round", "--warmup", "--rounds", "--iterations", "--seed",
			"--mem", "--local-mem", "--huge-pages", "--numa-node", "--phase-timeout", "--stall-timeout", "--interval", "--isl", "--tp", "--block-size", "--kv-merge", "--latency-max", "--op", "--metric", "--direction",
			"--transport", "--bind", "--sndbuf", "--zerocopy", "--data-port", "--remote", "--scattered=" + value,
		} {
			if name, _, ok := strings.Cut(flag, "="); ok {
				add("run", "--dry-run", name+"="+value)
				continue
			}
			add("run", "--dry-run", flag, value)
		}
		add("serve", "--max-duration", value)
		add("serve", "--max-memory", value)
		add("serve", "--listen", value)
		add("compare", "--alpha", value, files[0], files[0])
		add("compare", "--min-effect", value, files[0], files[0])
		add("compare", "--fail-below", "bandwidth="+value, files[0], files[0])
		add("kv", "qwen3-8b", "--isl", value)
		add("kv", "qwen3-8b", "--isl", "100", "--prefill", "tp="+value)
		add("kv", "qwen3-8b", "--isl", "100", "--nic-rate", value)
		add("ttft", "qwen3-8b", "--reference", "--isl", value)
		add("ttft", "qwen3-8b", "--isl", "1000", "--link", "x="+value)
		add("ttft", "qwen3-8b", "--isl", "1000", "--reference", "--limit", value)
		add("table", "--width", value, files[0])
		add("doctor", "--explain", value)
	}
	for _, f := range files {
		add("table", f)
		add("plot", "--out", filepath.Join(dir, "f.svg"), "--force", f)
		add("compare", f, f)
		add("export", f)
		add("report", "--out", "-", f)
		add("import", f)
		add("import", "--format", "iperf3", f)
		add("import", "--format", "nvbandwidth", f)
		add("run", "--plan", f)
		add("run", "--dry-run", "--kv", f, "--isl", "100")
		add("kv", f, "--isl", "100")
		add("kv", "--engine-args", f, "--isl", "100")
		add("ttft", "qwen3-8b", "--isl", "1000", "--results", f)
		add("ttft", f, "--isl", "1000", "--reference")
		add("ttft", "qwen3-8b", "--reference", "--trace", f)
		add("ttft", "qwen3-8b", "--isl", "1000", "--reference", "--prefill-table", f)
		add("plot", "--kind", "ttft", "--out", filepath.Join(dir, "f.svg"), "--force", f)
		add("plot", "--kind", "topology", "--out", filepath.Join(dir, "f.svg"), "--force", f)
		add("doctor", "--root", f)
		add("probe", "--root", f)
		add("serve", "--token-file", f)
	}
	for _, p := range plans {
		add("run", "--dry-run", "--plan", p)
	}
	add("doctor", "--log", filepath.Join(dir, "absent"))
	add("run", "--flag")
	add("run", "--sizes")
	add("nothing")
	for _, peer := range []string{closes, speaks, nobody, "127.0.0.1:99999", "127.0.0.1", ":", "[::1:5"} {
		add("run", "--transport", "tcp", "--sizes", "64", "--peer", peer, "--token-file", token)
		add("doctor", "--peer", peer, "--token-file", token)
	}
	if !testing.Short() {
		add("run", "--transport", "tcp", "--sizes", "64", "--peer", silent, "--token-file", token) // takes the limit of the greeting
	}
	add("run", "--transport", "tcp", "--sizes", "64", "--peer", "no-such-host.invalid:1", "--token-file", token)
	add("run", "--transport", "tcp", "--peer", nobody, "--token-file", short)
	add("run", "--transport", "tcp", "--peer", nobody, "--token-file", loose)
	add("run", "--transport", "tcp", "--peer", nobody)
	add("run", "--transport", "tcp", "--sizes", "64") // nothing can be started here
	add("run", "--transport", "loopback", "--sizes", "64", "--rounds", "2", "--round", "1ms", "--out", "/dev/full", "--append")
	add("run", "--transport", "loopback", "--sizes", "64", "--out", filepath.Join(dir, "no", "folder"))
	add("run", "--transport", "tcp", "--sizes", "64", "--device", "no-such-device")
	failed := 0
	for _, args := range commands {
		env, out, errs := worldOf(t, nil, "")
		if args[0] == "serve" {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // what would serve in spite of its flags ends
			defer cancel()
			env.Context = ctx
		}
		code := Run(env, args)
		if code != 0 {
			failed++
		}
		said := errs.String()
		if code == 1 || code == 3 { // the reasons of rows stand in the tables
			said += out.String()
		}
		for _, known := range append(plans, files...) { // names of files are the user's
			said = strings.ReplaceAll(said, known, "FILE")
		}
		if bad := goWords.FindString(said); bad != "" {
			t.Errorf("hopbench %s\n says %q in: %s", strings.Join(args, " "), bad, said)
		}
		if code == 2 && strings.Count(said, "\n") != 1 && !strings.Contains(said, "run without footer") && !strings.Contains(said, "says more") {
			t.Errorf("hopbench %s\n a usage error is not one line: %q", strings.Join(args, " "), said)
		}
	}
	t.Logf("%d of %d commands failed", failed, len(commands))
	if failed < len(commands)*2/3 {
		t.Errorf("only %d of %d commands failed: the test has lost its subject", failed, len(commands))
	}
}

// The header says how the run was started, and holds no token.
func TestHeaderHoldsTheCommandLine(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	secret := control.NewToken().Text()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env, _, errs := worldOf(t, map[string]string{control.TokenVariable: secret}, "")
	path := filepath.Join(t.TempDir(), "run.jsonl")
	args := []string{"run", "--transport", "loopback", "--op", "write", "--metric", "bandwidth", "--sizes", "64", "--rounds", "2", "--round", "20ms", "--token-file", file, "--out", path}
	if code := Run(env, args); code != 0 {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	runs, err := results.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(runs[0].Header.Command, " "), "hopbench "+strings.Join(args, " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), secret) {
		t.Error("the result file holds the token")
	}
}

// hostile is text that would turn a terminal's line around, colour it, set its title or clear it.
const hostile = "evil\u202egpj\u2066\u200f\x1b[2J\x1b]0;x\x07\u009b31m\rrow\x00\x7f"

// TestHostileTextStaysText prints result files, configs and logs whose every text is hostile, by everything that prints.
func TestHostileTextStaysText(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "hostile.jsonl")
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	evil := string(quoted)
	var b strings.Builder
	b.WriteString(`{"record":"header","schema":"hopbench.results/v1","tool_version":` + evil + `,"started":"2026-01-01T00:00:00Z","command":[` + evil + `],"hosts":[{"hostname":` + evil + `,"kernel":` + evil + `,"cpu_model":` + evil + `,"os":` + evil + `}]}` + "\n")
	cell := func(more string) {
		b.WriteString(`{"record":"cell","transport":"tcp","label":` + evil + `,"realm":"software","operation":"write","direction":"forward","piece_bytes":65536,"total_bytes":65536,"descriptors":1,"pattern":"contiguous",` +
			`"depth":16,"streams":1,"concurrency":1,"initiator_memory":"host","target_memory":"host","wait":` + evil + `,"rail":` + evil + `,"initiator_host":` + evil + `,"peer_tool":` + evil + `,"warnings":[` + evil + `],` + more + "}\n")
	}
	bandwidth := `"definition":"bandwidth.confirmed","status":"ok","bandwidth":{"bytes_per_second":2e9,"low":1.9e9,"high":2.1e9,"rounds":[1.9e9,2e9,2.1e9]},` +
		`"settings":{"request":` + evil + `},"path":{"initiator":{"device":` + evil + `,"evidence":[` + evil + `]},"target":{"device":` + evil + `}},"limit":{"bytes_per_second":3e9,"source":` + evil + `}`
	cell(bandwidth)
	cell(`"definition":` + evil + `,"status":"failed","reason":` + evil + `,"code":` + evil)
	cell(`"definition":"bandwidth.confirmed","status":"waived","reason":` + evil)
	b.WriteString(`{"record":"footer","state":"failed","reason":` + evil + `,"cells":3}` + "\n")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config.json")
	model := `{"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","torch_dtype":"bfloat16","num_hidden_layers":4,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":64,"hidden_size":512,"vocab_size":1000,"intermediate_size":1024,"_name_or_path":` + evil + `}`
	if err := os.WriteFile(config, []byte(model), 0o600); err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(dir, "config2.json")
	if err := os.WriteFile(odd, []byte(strings.Replace(model, `"bfloat16"`, evil, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	log := "node1: NCCL WARN Call to ibv_reg_mr failed " + hostile + "\n[0] ucx ibv_reg_mr(address=0x1, length=4096) failed: Cannot allocate memory " + hostile + "\n"
	host := filepath.Join(dir, "host.txtar")
	if err := os.WriteFile(host, []byte("-- proc/sys/kernel/osrelease --\n6.1 "+hostile+"\n-- sys/class/net/lo/operstate --\n"+hostile+"\n-- sys/class/net/eth0/operstate --\nup\n-- sys/class/net/eth0/address --\n"+hostile+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var commands [][]string
	add := func(args ...string) { commands = append(commands, args) }
	for _, format := range []string{"text", "markdown", "csv", "json"} {
		add("table", "--format", format, "--details", path)
	}
	add("table", "--view", "perftest", path)
	for _, format := range []string{"text", "markdown", "json"} {
		add("compare", "--format", format, path, path)
	}
	for _, format := range []string{"gobench", "csv", "openmetrics"} {
		add("export", "--format", format, path)
	}
	add("report", "--format", "markdown", path)
	add("report", "--out", "-", path)
	add("ttft", config, "--isl", "1000", "--results", path, "--extrapolate")
	add("ttft", config, "--isl", "1000", "--results", path, "--json", "--extrapolate")
	add("ttft", config, "--isl", "1000", "--link", hostile+"=1GB/s")
	add("kv", config, "--isl", "100")
	add("kv", odd, "--isl", "100")
	add("kv", "--isl", "100", hostile)
	add("doctor", "--log", "-")
	add("doctor", "--log", "-", "--json")
	add("doctor", "--all", "--root", host)
	add("probe", "--root", host)
	add("probe", "--matrix", "--root", host)
	add("run", "--plan", path)
	add("run", "--transport", hostile)
	add("run", "--"+hostile)
	add(hostile)
	add("table", filepath.Join(dir, hostile[:12]))
	for _, args := range commands {
		env, out, errs := worldOf(t, nil, log)
		code := Run(env, args)
		for _, s := range []string{out.String(), errs.String()} {
			for _, line := range strings.Split(s, "\n") {
				if at := strings.IndexFunc(line, func(r rune) bool {
					return r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u2066' || r == '\u200f'
				}); at >= 0 {
					t.Errorf("hopbench %q (status %d) lets %q through in: %q", args, code, line[at:min(at+8, len(line))], line)
					break
				}
			}
		}
	}
	// What was written to a file is looked at on a terminal too.
	for _, format := range []string{"gobench", "csv", "openmetrics"} {
		env, _, errs := worldOf(t, nil, "")
		file := filepath.Join(dir, "out."+format)
		if code := Run(env, []string{"export", "--format", format, "-o", file, path}); code != 0 {
			t.Errorf("%s: exit status %d: %s", format, code, errs)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(string(text), "\u202e\x1b\u009b\x07") {
			t.Errorf("%s: the file holds what a terminal obeys", format)
		}
	}
}

// A character that is written in two parts comes whole.
func TestPlainWriterKeepsCharactersWhole(t *testing.T) {
	var b strings.Builder
	w := &plainWriter{w: &b}
	for _, c := range []byte("µs \u202e 日本\n") {
		if n, err := w.Write([]byte{c}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := b.String(), "µs \\u202e 日本\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
