package ibverbs_test

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"hopbench/transports/internal/ibverbs"
)

var built = sync.OnceValues(func() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "testdata/fakeverbs")
	dir, err := os.MkdirTemp("", "fakeverbs")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "libibverbs.so.1")
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-Wl,-soname,libibverbs.so.1",
		"-Wl,--version-script="+filepath.Join(source, "fakeverbs.map"), "-o", path, filepath.Join(source, "fakeverbs.c")).CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

func load(t *testing.T) *ibverbs.Library {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatalf("build the double of libibverbs with gcc: %v", err)
	}
	lib, err := ibverbs.Load(path)
	if errors.Is(err, ibverbs.ErrNoHeaders) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

// TestNothingIsLinked reads this very binary: neither libibverbs nor one of its functions is needed to start it.
func TestNothingIsLinked(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libs, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range libs {
		if !strings.HasPrefix(l, "libc.") && !strings.HasPrefix(l, "libpthread.") && !strings.HasPrefix(l, "libdl.") && !strings.HasPrefix(l, "ld-linux") {
			t.Errorf("the program needs %s to start", l)
		}
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "ibv_") {
			t.Errorf("%s is linked", s.Name)
		}
	}
}

// TestWithoutHeaders compiles every C file as on a machine without rdma-core's header.
func TestWithoutHeaders(t *testing.T) {
	files, err := filepath.Glob("*.c")
	if err != nil || len(files) == 0 {
		t.Fatal("no sources", err)
	}
	out, err := exec.Command("gcc", append([]string{"-std=gnu17", "-DHOPBENCH_NO_VERBS", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-z,defs",
		"-o", filepath.Join(t.TempDir(), "absent.so")}, files...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestStatesAreToldApart(t *testing.T) {
	lib := load(t)
	if lib.Double != "fake libibverbs" {
		t.Errorf("the double calls itself %q", lib.Double)
	}
	for _, optional := range []string{"ibv_reg_dmabuf_mr@IBVERBS_1.12", "ibv_reg_mr_iova2@IBVERBS_1.8"} {
		if !strings.Contains(lib.Absent, optional) {
			t.Errorf("%s is missing in the double and not said: %q", optional, lib.Absent)
		}
	}
	t.Setenv("FAKEVERBS_ENOSYS", "1")
	if _, err := lib.Devices(); !errors.Is(err, syscall.ENOSYS) {
		t.Errorf("no kernel stack: %v", err)
	}
	os.Unsetenv("FAKEVERBS_ENOSYS")
	t.Setenv("FAKEVERBS_DEVICES", "0")
	if l, err := lib.Devices(); err != nil || len(l) != 0 {
		t.Errorf("no device: %v, %v", l, err)
	}
	t.Setenv("FAKEVERBS_DEVICES", "1")
	if l, err := lib.Devices(); err != nil || len(l) != 1 || l[0].Name != "fake0" || l[0].NodeType != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := lib.Open("mlx5_9"); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("a device that is not there: %v", err)
	}
}

// rig is two joined groups over the double, with a buffer each.
type rig struct {
	context *ibverbs.Context
	group   [2]*ibverbs.Group
	memory  [2][]byte
	region  [2]*ibverbs.Region
}

func newRig(t *testing.T, bytes int, w ibverbs.Want) *rig {
	t.Helper()
	lib := load(t)
	c, err := lib.Open("fake0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{context: c}
	var pin runtime.Pinner
	t.Cleanup(func() {
		for i := range 2 {
			if err := errors.Join(r.group[i].Close(), r.region[i].Close()); err != nil {
				t.Error(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		pin.Unpin()
	})
	for i := range 2 {
		r.memory[i] = make([]byte, bytes)
		pin.Pin(&r.memory[i][0])
		if r.region[i], err = c.Register(r.address(i), uint64(bytes), ibverbs.RemoteWrite|ibverbs.RemoteRead); err != nil {
			t.Fatal(err)
		}
		if r.group[i], err = c.NewGroup(w); err != nil {
			t.Fatal(err)
		}
		if err := r.group[i].Init(1, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		for q, qpn := range r.group[1-i].QPNs {
			if err := r.group[i].Ready(q, ibverbs.Way{QPN: qpn, Port: 1, MTU: 5}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

func (r *rig) address(i int) uintptr { return uintptr(unsafe.Pointer(&r.memory[i][0])) }

func (r *rig) loop(l ibverbs.Loop, streams []ibverbs.Stream) (ibverbs.Tally, error) {
	if l.SGE == 0 {
		l.SGE = 1
	}
	if l.MaxMessage == 0 {
		l.MaxMessage = 1 << 30
	}
	l.StallNS, l.SpinNS, l.Watched = 5e9, 50e3, true
	target := l
	l.Local, l.Remote = uint64(r.address(0)), uint64(r.address(1))
	target.Local, target.Remote = l.Remote, l.Local
	other := make([]ibverbs.Stream, len(streams))
	for i := range streams {
		other[i] = ibverbs.Stream{Pieces: streams[i].Pieces, Ends: streams[i].Ends}
	}
	var stop atomic.Uint32
	served := make(chan error, 1)
	go func() {
		_, err := r.group[1].Serve(target, other, &stop)
		served <- err
	}()
	tally, err := r.group[0].Initiate(l, streams, nil)
	if err != nil {
		stop.Store(1)
	}
	return tally, errors.Join(err, <-served)
}

func want() ibverbs.Want {
	return ibverbs.Want{Queues: 2, SendWork: 256, RecvWork: 256, SGE: 4, Inline: 220, PostList: 32}
}

func TestLoopsOverEveryShape(t *testing.T) {
	r := newRig(t, 1<<16, want())
	for i := range r.memory[0] {
		r.memory[0][i] = byte(i * 31)
	}
	for _, op := range []ibverbs.Op{ibverbs.Write, ibverbs.Send} {
		for _, notify := range []bool{false, true} {
			for _, depth := range []int{1, 3, 64} {
				for _, batch := range []int{1, 2, 16} {
					for _, every := range []int{1, 5, 64} {
						for _, largest := range []uint64{100, 1 << 20} {
							clear(r.memory[1])
							s := []ibverbs.Stream{
								{Pieces: []ibverbs.Piece{{Local: 0, Remote: 5, Length: 1000}, {Local: 2000, Remote: 1005, Length: 333}, {Local: 3000, Remote: 4000, Length: 1}}, Ends: []uint32{2, 3}, At: make([]int64, 64), Every: 3},
								{Pieces: []ibverbs.Piece{{Local: 9000, Remote: 9000, Length: 8000}}, Ends: []uint32{1}},
							}
							l := ibverbs.Loop{Op: op, Notify: notify, Depth: depth, Batch: batch, SignalEvery: every, MaxMessage: largest, SGE: 1 + depth%2*3, Count: 20, Inline: 220}
							if _, err := r.loop(l, s); err != nil {
								t.Fatalf("op %d notify %v depth %d batch %d every %d largest %d: %v", op, notify, depth, batch, every, largest, err)
							}
							if s[0].Done != 20 || s[1].Done != 20 || s[0].Stamps != 6 {
								t.Fatalf("%d and %d operations, %d stamps", s[0].Done, s[1].Done, s[0].Stamps)
							}
							for _, st := range s {
								for _, p := range st.Pieces {
									if !bytes.Equal(r.memory[0][p.Local:p.Local+p.Length], r.memory[1][p.Remote:p.Remote+p.Length]) {
										t.Fatalf("op %d notify %v depth %d batch %d largest %d: bytes at %d differ", op, notify, depth, batch, largest, p.Remote)
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

// TestLoopsOfSingleMessages goes the short ways of a loop whose operations are one message each, in lists and one at a time.
func TestLoopsOfSingleMessages(t *testing.T) {
	r := newRig(t, 1<<16, want())
	const reply = 1 << 15
	one := func(base uint64) ibverbs.Stream {
		return ibverbs.Stream{Pieces: []ibverbs.Piece{{Local: base, Remote: base + 5, Length: 700}, {Local: base + 1000, Remote: base + 2000, Length: 1}, {Local: base + 3000, Remote: base + 1000, Length: 220}}, Ends: []uint32{1, 2, 3}, At: make([]int64, 64), Every: 3}
	}
	for _, op := range []ibverbs.Op{ibverbs.Write, ibverbs.Read, ibverbs.Send} {
		for _, echo := range []ibverbs.Echo{ibverbs.NoEcho, ibverbs.EchoMark, ibverbs.EchoMessage} {
			if echo != ibverbs.NoEcho && op == ibverbs.Read || echo == ibverbs.EchoMark && op == ibverbs.Send {
				continue
			}
			for _, notify := range []bool{false, true} {
				for _, streams := range []int{1, 2} {
					for _, depth := range []int{1, 3, 64} {
						for _, post := range []struct{ batch, list int }{{1, 0}, {1, 1}, {1, 7}, {2, 0}, {16, 0}} {
							for _, every := range []int{1, 5, 64} {
								if echo != ibverbs.NoEcho && (notify || depth > 1) {
									continue
								}
								for i := range r.memory[0] {
									r.memory[0][i], r.memory[1][i] = byte(i*31), byte(i*17)
								}
								what := fmt.Sprintf("op %d echo %d notify %v streams %d depth %d batch %d list %d every %d", op, echo, notify, streams, depth, post.batch, post.list, every)
								s := []ibverbs.Stream{one(0), one(8000)}[:streams]
								l := ibverbs.Loop{Op: op, Echo: echo, Notify: notify, Depth: depth, Batch: post.batch, PostList: post.list, SignalEvery: every, Count: 20, Inline: 220, Reply: reply}
								tally, err := r.loop(l, s)
								if err != nil {
									t.Fatalf("%s: %v", what, err)
								}
								if post.list == 1 && tally.Posts != uint64(20*streams) {
									t.Fatalf("%s: %d operations in %d posts", what, 20*streams, tally.Posts)
								}
								for _, st := range s {
									if st.Done != 20 || st.Stamps != 6 {
										t.Fatalf("%s: %d operations, %d stamps", what, st.Done, st.Stamps)
									}
									for _, p := range st.Pieces {
										ours, theirs := r.memory[0][p.Local:p.Local+p.Length], r.memory[1][p.Remote:p.Remote+p.Length]
										if !bytes.Equal(ours, theirs) {
											t.Fatalf("%s: bytes at %d differ", what, p.Remote)
										}
										if echo != ibverbs.NoEcho && !bytes.Equal(ours, r.memory[0][reply+p.Local:reply+p.Local+p.Length]) {
											t.Fatalf("%s: the answer at %d differs", what, p.Local)
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

// TestSmallQueuesNeverOverflow sends many times what a send queue holds, where no operation asks for a completion of its own: answers tell.
func TestSmallQueuesNeverOverflow(t *testing.T) {
	w := want()
	w.SendWork, w.PostList = 24, 16
	r := newRig(t, 4096, w)
	for _, l := range []ibverbs.Loop{
		{Op: ibverbs.Write, Notify: true, Depth: 16}, {Op: ibverbs.Write, Notify: true, Depth: 1}, {Op: ibverbs.Send, Notify: true, Depth: 16},
		{Op: ibverbs.Write, Echo: ibverbs.EchoMark, Depth: 1}, {Op: ibverbs.Write, Echo: ibverbs.EchoMessage, Depth: 1}, {Op: ibverbs.Send, Echo: ibverbs.EchoMessage, Depth: 1},
	} {
		l.Count, l.SignalEvery, l.Reply = 300, 4, 2048
		s := []ibverbs.Stream{{Pieces: []ibverbs.Piece{{Length: 64}}, Ends: []uint32{1}}}
		if _, err := r.loop(l, s); err != nil || s[0].Done != 300 {
			t.Errorf("op %d notify %v echo %d depth %d: %d operations, %v", l.Op, l.Notify, l.Echo, l.Depth, s[0].Done, err)
		}
	}
}

// TestWhatIsDueGoesInOnePost counts the calls: over the double everything is due again at once.
func TestWhatIsDueGoesInOnePost(t *testing.T) {
	r := newRig(t, 4096, want())
	for _, c := range []struct{ list, posts int }{{0, 4}, {1, 64}, {6, 12}} {
		s := []ibverbs.Stream{{Pieces: []ibverbs.Piece{{Length: 64}}, Ends: []uint32{1}}}
		tally, err := r.loop(ibverbs.Loop{Op: ibverbs.Write, Depth: 16, PostList: c.list, SignalEvery: 4, Count: 64, Inline: 220}, s)
		if err != nil {
			t.Fatal(err)
		}
		if tally.Messages != 64 || tally.Posts != uint64(c.posts) {
			t.Errorf("at most %d in a post: %d messages in %d posts, want %d", c.list, tally.Messages, tally.Posts, c.posts)
		}
	}
}

func TestLongMessagesAreCutAndCounted(t *testing.T) {
	t.Setenv("FAKEVERBS_NO_COPY", "1")
	r := newRig(t, 4096, want())
	for _, bytes := range []uint64{1 << 31, 1 << 32, 1<<32 + 4096, 3 << 30} {
		s := []ibverbs.Stream{{Pieces: []ibverbs.Piece{{Length: bytes}}, Ends: []uint32{1}}}
		tally, err := r.loop(ibverbs.Loop{Op: ibverbs.Write, Depth: 2, SignalEvery: 1, Count: 3, MaxMessage: 1 << 30}, s)
		if err != nil {
			t.Fatal(err)
		}
		if wants := 3 * ((bytes + 1<<30 - 1) >> 30); s[0].Done != 3 || tally.Messages != wants {
			t.Errorf("%d bytes: %d messages for %d operations, want %d", bytes, tally.Messages, s[0].Done, wants)
		}
	}
}

func TestInlineFallsBackToWhatIsGranted(t *testing.T) {
	t.Setenv("FAKEVERBS_INLINE", "101")
	r := newRig(t, 4096, want())
	if got := r.group[0].Want.Inline; got != 64 {
		t.Errorf("%d bytes inline were granted of 101", got)
	}
}

func TestFailureNamesStatusAndStep(t *testing.T) {
	t.Setenv("FAKEVERBS_FAIL_AT", "40")
	t.Setenv("FAKEVERBS_STATUS", "12")
	r := newRig(t, 4096, want())
	s := []ibverbs.Stream{{Pieces: []ibverbs.Piece{{Length: 64}}, Ends: []uint32{1}}}
	_, err := r.loop(ibverbs.Loop{Op: ibverbs.Write, Depth: 4, SignalEvery: 1, Count: 100}, s)
	var f *ibverbs.Failure
	if !errors.As(err, &f) || f.Step != ibverbs.StepCompletion || f.Status != 12 || f.Vendor != 0x51 || f.Text != "transport retry counter exceeded" || f.QPN == 0 {
		t.Fatalf("%+v", err)
	}
	if s[0].Done == 0 || s[0].Done >= 40 {
		t.Errorf("%d operations were confirmed before the fortieth failed", s[0].Done)
	}
	if _, err := r.group[0].Initiate(ibverbs.Loop{Op: ibverbs.Write, Depth: 1, SGE: 1, MaxMessage: 64, Count: 1}, s, nil); !errors.As(err, &f) || f.Step != ibverbs.StepBroken {
		t.Errorf("a loop after a failed one: %v", err)
	}
}
