package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"hopbench/harness"
	"hopbench/harness/control"
	"hopbench/results/unit"
	"hopbench/transports"
)

// serveFlags is everything that a server is told.
type serveFlags struct {
	env                        *Env
	listen, bind, announce     string
	tokenFile                  string
	maxMemory, maxSize         string
	maxDuration                time.Duration
	once, asJSON, quiet, child bool
	settings                   map[string]*string
}

func newServe(env *Env) *cobra.Command {
	f := &serveFlags{env: env, settings: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Be the other side of a run, for a client on this host or on another",
		Long: `Waits for hopbench run --peer and does its part of each measurement, one client at a time: a second one
is told who is measuring and since when.

It listens on the loopback address unless --listen says otherwise. Both sides hold a token and prove it
to each other without sending it. It is read from --token-file or HOPBENCH_TOKEN; with neither, one is
made: on loopback it is left where only this user's clients find it, elsewhere it is printed once.
A client can open transports and use memory up to the caps below; it cannot name a file or start a
program.

The data of a transport takes its own connections. --bind and --data-address choose their address where
that is another one than the client's control connection reached. An interrupt ends the server with
status 0.`,
		Example: `  hopbench serve
  hopbench serve --listen :18515             on every address of this host
  hopbench serve --listen 192.0.2.7:18515 --token-file token --once
  hopbench run --peer 192.0.2.7:18515        the other side`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:18515", "ADDR:PORT of the control port; :PORT is every address, port 0 lets the kernel choose")
	fs.StringVar(&f.tokenFile, "token-file", "", "file with the token: at least 128 random bits as hexadecimal or base64 text")
	fs.BoolVar(&f.once, "once", false, "end after the first client")
	fs.StringVar(&f.maxMemory, "max-memory", "", "most memory that a client may use (default half of this host's)")
	fs.StringVar(&f.maxSize, "max-size", "", "largest operation (default --max-memory)")
	fs.DurationVar(&f.maxDuration, "max-duration", 10*time.Minute, "longest loop")
	fs.StringVar(&f.bind, "bind", "", "local address of the data connections")
	fs.StringVar(&f.announce, "data-address", "", "address that the client is told to use for data")
	fs.BoolVar(&f.asJSON, "json", false, "say where it listens as one JSON object")
	fs.BoolVar(&f.quiet, "quiet", false, "no lines on clients that come and go")
	fs.BoolVar(&f.child, "child", false, "")
	_ = fs.MarkHidden("child") // the second process of a run: token and address go over inherited pipes
	for _, d := range env.Drivers {
		for _, s := range d.Settings() {
			if f.settings[s.Name] == nil && fs.Lookup(s.Name) == nil {
				f.settings[s.Name] = fs.String(s.Name, s.Default, s.Usage+" ("+d.Name()+")")
			}
		}
	}
	return cmd
}

func (f *serveFlags) run(cmd *cobra.Command) error {
	o, err := f.options(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if f.child {
		return f.runChild(ctx, o)
	}
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return usagef("--listen %s: want ADDR:PORT, or :PORT for every address of this host", f.listen)
	}
	token, err := control.GivenToken(f.tokenFile, f.env.Getenv)
	if err != nil {
		return usagef("%s", tokenError(f.tokenFile, err))
	}
	caution(f.env, token)
	made := !token.Given()
	if made {
		token = control.NewToken()
	}
	l, err := control.Listen(ctx, f.listen)
	if err != nil {
		return usagef("--listen %s: %s", f.listen, listenCause(err))
	}
	defer l.Close()
	addr := l.Addr().String()
	var file string
	if made && control.IsLoopback(addr) {
		path, remove, err := control.StoreToken(addr, token)
		if err == nil {
			defer remove()
			file, made = path, false
		} else {
			fmt.Fprintf(f.env.Stderr, "hopbench: the token cannot be left for this user's clients: %v\n", err)
		}
	}
	server, err := control.NewServer(f.side(o.Limits), token, o)
	if err != nil {
		return err
	}
	if err := f.announceStart(addr, file, token, made, o.Limits); err != nil {
		return err
	}
	return server.Serve(ctx, l)
}

// tokenError names where the token was to come from.
func tokenError(file string, err error) string {
	if file != "" {
		return "--token-file: " + err.Error()
	}
	return err.Error()
}

// caution tells what is to be said about where a token was read.
func caution(env *Env, t control.Token) {
	if text := t.Caution(); text != "" {
		fmt.Fprintf(env.Stderr, "hopbench: warning: %s\n", text)
	}
}

// side makes a fresh side for each client.
func (f *serveFlags) side(l harness.Limits) func() harness.Peer {
	return func() harness.Peer { return harness.NewSide(f.env.Drivers, l) }
}

// options checks the flags.
func (f *serveFlags) options(cmd *cobra.Command) (control.Options, error) {
	tool, _ := toolVersion()
	o := control.Options{ToolVersion: tool, Announce: f.announce, Once: f.once || f.child, Facts: peerFacts, Settings: map[string]map[string]string{}}
	if !f.child { // whoever started this process may use what it may use itself
		o.Limits = harness.Limits{MaxMemory: defaultMemory(), MaxSeconds: f.maxDuration.Seconds()}
		if f.maxDuration < time.Second {
			return o, usagef("--max-duration %v: at least 1s", f.maxDuration)
		}
	}
	for _, c := range []struct {
		flag, value string
		to          *uint64
	}{{"--max-memory", f.maxMemory, &o.Limits.MaxMemory}, {"--max-size", f.maxSize, &o.Limits.MaxSize}} {
		if c.value == "" {
			continue
		}
		n, err := unit.ParseBytes(c.value)
		if err != nil || n < 1 {
			return o, usagef("%s %s: %v", c.flag, c.value, orText(err, "at least one byte"))
		}
		*c.to = uint64(n)
	}
	if o.Limits.MaxSize == 0 {
		o.Limits.MaxSize = o.Limits.MaxMemory
	}
	if f.bind != "" {
		a, err := netip.ParseAddr(f.bind)
		if err != nil {
			return o, usagef("--bind %s: not an IP address", f.bind)
		}
		o.Bind = a
	}
	for _, d := range f.env.Drivers {
		for _, s := range d.Settings() {
			if f.settings[s.Name] == nil || !cmd.Flags().Changed(s.Name) {
				continue
			}
			value := *f.settings[s.Name]
			if err := transports.CheckSettings(d.Settings(), map[string]string{s.Name: value}); err != nil {
				return o, usagef("--%s %s: %v", s.Name, value, err)
			}
			if o.Settings[d.Name()] == nil {
				o.Settings[d.Name()] = map[string]string{}
			}
			o.Settings[d.Name()][s.Name] = value
		}
	}
	if !f.quiet && !f.child { // of a child's standard error only its last words are shown
		var mu sync.Mutex
		o.Log = func(line string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(f.env.Stderr, "hopbench: %s\n", line)
		}
	}
	return o, nil
}

// runChild is the second process of a run on this host.
func (f *serveFlags) runChild(ctx context.Context, o control.Options) error {
	alive, token, announce, err := control.Inherited(ctx)
	if err != nil {
		return usagef("serve --child is for hopbench itself: %v", err)
	}
	l, err := control.Listen(alive, "127.0.0.1:0")
	if err != nil {
		var six error
		if l, six = control.Listen(alive, "[::1]:0"); six != nil {
			return errors.Join(err, six)
		}
	}
	server, err := control.NewServer(f.side(o.Limits), token, o)
	if err != nil {
		return err
	}
	if err := announce(l.Addr()); err != nil {
		return fmt.Errorf("say where the second process listens: %w", err)
	}
	return server.Serve(alive, l)
}

// announceStart says what a client needs to know.
func (f *serveFlags) announceStart(addr, file string, token control.Token, made bool, l harness.Limits) error {
	if f.asJSON {
		said := map[string]any{
			"listen": addr, "max_memory_bytes": l.MaxMemory, "max_size_bytes": l.MaxSize, "max_duration_seconds": l.MaxSeconds,
		}
		if file != "" {
			said["token_file"] = file
		}
		if made {
			said["token"] = token.Text()
		}
		return json.NewEncoder(f.env.Stdout).Encode(said)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "listening on %s (control)\n", addr)
	fmt.Fprintf(&b, "allows a client %s of memory, operations of %s, loops of %g s\n", unit.Bytes(int64(l.MaxMemory)), unit.Bytes(int64(l.MaxSize)), l.MaxSeconds)
	peer := addr
	if a, err := netip.ParseAddrPort(addr); err == nil && a.Addr().IsUnspecified() {
		peer = fmt.Sprintf("HOST:%d", a.Port())
	}
	switch {
	case made:
		fmt.Fprintf(&b, "token %s\n", token.Text())
		fmt.Fprintf(&b, "on the other host: put that token into a file that only you can read (umask 077), and\n  hopbench run --peer %s --token-file FILE\n", peer)
	case file != "":
		fmt.Fprintf(&b, "as this user, on this host:\n  hopbench run --peer %s\n", peer)
	default:
		fmt.Fprintf(&b, "with the same token:\n  hopbench run --peer %s\n", peer)
	}
	_, err := io.WriteString(f.env.Stdout, b.String())
	return err
}

// defaultMemory is half of this host's memory, in whole GiB, or MiB where that is little.
func defaultMemory() uint64 {
	half := uint64(4 << 30)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		half = uint64(info.Totalram) * uint64(info.Unit) / 2
	}
	if half > 4<<30 {
		return half >> 30 << 30
	}
	return max(half>>20<<20, 1<<20)
}

// listenCause is why a port cannot be listened on, without what the flag says already.
func listenCause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

func orText(err error, text string) string {
	if err != nil {
		return err.Error()
	}
	return text
}
