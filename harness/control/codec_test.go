package control

import (
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"hopbench/harness"
	"hopbench/harness/control/controlpb"
	"hopbench/results"
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

// fill gives every field of a struct a value of its own that is not zero, so that a field that the wire forgets is found.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[netip.Addr]() {
			v.Set(reflect.ValueOf(netip.AddrFrom4([4]byte{192, 0, 2, byte(*n)})))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("word" + string(rune('a'+*n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n%900 + 1))
	case reflect.Uint64:
		v.SetUint(uint64(*n%900 + 1))
	case reflect.Uint8:
		v.SetUint(uint64(*n % 256))
	case reflect.Float64:
		v.SetFloat(float64(*n) / 8)
	default:
		panic("no value for " + v.Type().String())
	}
}

func filled[T any]() T {
	var v T
	n := 0
	fill(reflect.ValueOf(&v).Elem(), &n)
	return v
}

// wire sends a message through its encoding.
func wire[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Every field of the harness's structs crosses the wire. A field that is added there and forgotten here turns this red.
func TestEveryFieldCrossesTheWire(t *testing.T) {
	same := func(t *testing.T, want, got any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
			t.Errorf("sent and received differ:\n%s", d)
		}
	}
	t.Run("open", func(t *testing.T) {
		r := filled[harness.OpenRequest]()
		r.Memory.Kind, r.Wait, r.Endpoints = mem.CUDA, transports.Spin, 2
		got, err := decodeOpen(wire(t, encodeOpen(r)))
		same(t, r, got, err)
	})
	t.Run("opened", func(t *testing.T) {
		o := filled[harness.Opened]()
		got, err := decodeOpened(wire(t, encodeOpened(o)))
		same(t, o, got, err)
	})
	t.Run("connect", func(t *testing.T) {
		r := filled[harness.ConnectRequest]()
		got, err := decodeConnect(wire(t, encodeConnect(9, r)))
		same(t, r, got, err)
	})
	t.Run("path", func(t *testing.T) {
		p := filled[transports.Path]()
		var d decoder
		got := d.path(wire(t, encodePath(p)))
		same(t, p, got, d.err)
	})
	t.Run("work", func(t *testing.T) {
		w := filled[harness.Work]()
		w.Endpoint, w.Op, w.Wait = 1, transports.Read, transports.Block
		got, err := decodeWork(wire(t, encodeWork(w)))
		same(t, w, got, err)
	})
	t.Run("span", func(t *testing.T) {
		s := filled[harness.Span]()
		got, err := decodeSpan(wire(t, encodeSpan(s)))
		same(t, s, got, err)
	})
	t.Run("outcome", func(t *testing.T) {
		o := filled[harness.Outcome]()
		got, err := decodeOutcome(wire(t, encodeOutcome(o)))
		same(t, o, got, err)
	})
	t.Run("host", func(t *testing.T) {
		h := filled[results.Host]()
		got, err := decodeHost(wire(t, encodeHost(h)))
		same(t, h, got, err)
	})
	t.Run("prepared and connected", func(t *testing.T) {
		// These two are put together in calls.go and lane.go: a new field must be carried there.
		if n := reflect.TypeFor[harness.Prepared]().NumField(); n != 3 {
			t.Errorf("harness.Prepared has %d fields; 3 are carried", n)
		}
		if n := reflect.TypeFor[harness.Connected]().NumField(); n != 2 {
			t.Errorf("harness.Connected has %d fields; 2 are carried", n)
		}
	})
	t.Run("absent stays absent", func(t *testing.T) {
		var d decoder
		same(t, transports.Path{}, d.path(wire(t, encodePath(transports.Path{}))), d.err)
		got, err := decodeHost(wire(t, encodeHost(results.Host{})))
		same(t, results.Host{}, got, err)
	})
}

func TestRequestsThatAreRefused(t *testing.T) {
	refused := func(t *testing.T, err error, part string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v; want something about %q", err, part)
		}
	}
	for name, c := range map[string]struct {
		change func(*controlpb.OpenRequest)
		part   string
	}{
		"path in the driver":     {func(m *controlpb.OpenRequest) { m.Driver = "../../bin/sh" }, "driver"},
		"path in the device":     {func(m *controlpb.OpenRequest) { m.Device = "/dev/mem" }, "device"},
		"way out of a folder":    {func(m *controlpb.OpenRequest) { m.Device = "mlx5_0..x" }, "two dots"},
		"path in a setting":      {func(m *controlpb.OpenRequest) { m.Settings = map[string]string{"library": "/tmp/evil.so"} }, "library"},
		"NUL in a setting":       {func(m *controlpb.OpenRequest) { m.Settings = map[string]string{"x": "a\x00b"} }, "setting"},
		"path in memory":         {func(m *controlpb.OpenRequest) { m.Memory.HugePages = "/dev/hugepages/x" }, "huge pages"},
		"unknown memory":         {func(m *controlpb.OpenRequest) { m.Memory.Kind = "file" }, "memory of kind"},
		"name to bind":           {func(m *controlpb.OpenRequest) { m.Bind = "example.org" }, "bind"},
		"shell in the announced": {func(m *controlpb.OpenRequest) { m.Announce = "$(reboot)" }, "announce"},
		"no endpoint":            {func(m *controlpb.OpenRequest) { m.Endpoints = 0 }, "endpoints"},
		"many streams":           {func(m *controlpb.OpenRequest) { m.Streams = 1 << 40 }, "streams"},
		"negative depth":         {func(m *controlpb.OpenRequest) { m.Depth = -1 }, "depth"},
		"many pieces":            {func(m *controlpb.OpenRequest) { m.Pieces = math.MaxInt64 }, "pieces"},
		"endless stall":          {func(m *controlpb.OpenRequest) { m.StallSeconds = math.Inf(1) }, "stall"},
		"no number":              {func(m *controlpb.OpenRequest) { m.StallSeconds = math.NaN() }, "stall"},
		"no such node":           {func(m *controlpb.OpenRequest) { m.Memory.NumaNode = proto.Int64(-3) }, "NUMA"},
		"unknown wait":           {func(m *controlpb.OpenRequest) { m.Wait = "for godot" }, "wait"},
		"long name":              {func(m *controlpb.OpenRequest) { m.Driver = strings.Repeat("x", 1<<16) }, "65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			m := encodeOpen(open(true))
			c.change(m)
			_, err := decodeOpen(m)
			refused(t, err, c.part)
		})
	}
	for name, c := range map[string]struct {
		change func(*controlpb.Work)
		part   string
	}{
		"unknown operation": {func(m *controlpb.Work) { m.Op = "exec" }, "operation"},
		"no shape":          {func(m *controlpb.Work) { m.Shape = nil }, "streams"},
		"no groups":         {func(m *controlpb.Work) { m.Shape.Groups = nil }, "0 groups"},
		"many groups":       {func(m *controlpb.Work) { m.Shape.Groups = make([]*controlpb.Group, 5000) }, "5000 groups"},
		"overflowing size":  {func(m *controlpb.Work) { m.Shape.Groups[0].Bytes = math.MaxUint64 }, "group of"},
		"overflowing count": {func(m *controlpb.Work) { m.Shape.Groups[0].Count = math.MaxInt64 }, "pieces"},
		"many slots":        {func(m *controlpb.Work) { m.Shape.Slots = 1 << 50 }, "slots"},
		"too many in all": {func(m *controlpb.Work) {
			m.Shape.Slots, m.Shape.Streams, m.Shape.Groups[0].Count = 1<<20, 1024, 1<<24
		}, "too many"},
		"far base":      {func(m *controlpb.Work) { m.Shape.Base = math.MaxUint64 }, "begins at"},
		"endpoint":      {func(m *controlpb.Work) { m.Endpoint = 2 }, "endpoint"},
		"negative rate": {func(m *controlpb.Work) { m.Rate = -1 }, "rate"},
	} {
		t.Run(name, func(t *testing.T) {
			m := encodeWork(work(true))
			c.change(m)
			_, err := decodeWork(m)
			refused(t, err, c.part)
		})
	}
	_, err := decodeSpan(&controlpb.Span{Seconds: math.NaN()})
	refused(t, err, "seconds")
	_, err = decodeSpan(&controlpb.Span{Stamps: 1 << 40})
	refused(t, err, "stamps")
	_, err = decodeConnect(&controlpb.ConnectRequest{Addresses: [][]byte{make([]byte, maxAddress+1)}})
	refused(t, err, "address")
	_, err = decodeConnect(&controlpb.ConnectRequest{Addresses: make([][]byte, 3)})
	refused(t, err, "addresses")
}

func TestRepliesAreMadeHarmless(t *testing.T) {
	p := transports.Path{Device: "eth0\x1b]0;x\x07", Evidence: []string{"a\nb\xff", strings.Repeat("é", maxLine)}, Realm: transports.Software}
	var d decoder
	got := d.path(wire(t, encodePath(p)))
	if d.err != nil {
		t.Fatal(d.err)
	}
	for _, s := range append(got.Evidence, got.Device) {
		if !plain(s) || len(s) > maxLine {
			t.Errorf("%.40q of %d bytes", s, len(s))
		}
	}
	for _, o := range []*controlpb.Outcome{{Seconds: math.NaN()}, {Seconds: -1}, {Stamps: []float64{math.Inf(1)}}, {LatencySeconds: []float64{math.NaN()}}, {Usage: &controlpb.Usage{UserSeconds: math.Inf(-1)}}} {
		if _, err := decodeOutcome(o); err == nil {
			t.Errorf("%v was taken", o)
		}
	}
}

// fuzzMessage feeds a decoder whatever parses as its message. What it takes must be within the bounds that it promises.
func fuzzMessage[M proto.Message](f *testing.F, seed M, check func(*testing.T, M)) {
	b, err := proto.Marshal(seed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := seed.ProtoReflect().New().Interface().(M)
		if proto.Unmarshal(b, m) == nil {
			check(t, m)
		}
	})
}

func FuzzOpenRequest(f *testing.F) {
	seed := filled[harness.OpenRequest]()
	seed.Memory.Kind, seed.Wait, seed.Endpoints = mem.CUDA, transports.Spin, 2
	fuzzMessage(f, encodeOpen(seed), func(t *testing.T, m *controlpb.OpenRequest) {
		r, err := decodeOpen(m)
		if err != nil {
			return
		}
		for _, s := range []string{r.Driver, r.Device, r.Announce, r.Memory.Device, r.Memory.HugePages} {
			if strings.ContainsAny(s, "/\x00\n") || len(s) > maxWord {
				t.Errorf("word %q", s)
			}
		}
		if room(r) < r.Memory.Bytes {
			t.Errorf("a lane of %d bytes costs %d", r.Memory.Bytes, room(r))
		}
		if again, err := decodeOpen(encodeOpen(r)); err != nil || !reflect.DeepEqual(r, again) && r.StallSeconds == r.StallSeconds {
			t.Errorf("%+v became %+v, %v", r, again, err)
		}
	})
}

func FuzzWork(f *testing.F) {
	seed := work(true)
	fuzzMessage(f, encodeWork(seed), func(t *testing.T, m *controlpb.Work) {
		w, err := decodeWork(m)
		if err != nil {
			return
		}
		if err := w.Shape.Check(); err != nil {
			t.Error(err)
		}
		if w.Shape.Footprint() < w.Shape.Bytes() {
			t.Errorf("a shape of %d bytes leaves a footprint of %d", w.Shape.Bytes(), w.Shape.Footprint())
		}
		if n := uint64(w.Shape.Streams) * uint64(w.Shape.Slots) * uint64(w.Shape.Pieces()); listRoom(w.Shape)/listBytes < n {
			t.Errorf("%d descriptors cost %d", n, listRoom(w.Shape))
		}
	})
}

func FuzzConnectRequest(f *testing.F) {
	fuzzMessage(f, encodeConnect(1, filled[harness.ConnectRequest]()), func(t *testing.T, m *controlpb.ConnectRequest) {
		r, err := decodeConnect(m)
		if err == nil && len(r.Addresses) > 2 {
			t.Errorf("%d addresses", len(r.Addresses))
		}
	})
}

func FuzzSpan(f *testing.F) {
	fuzzMessage(f, encodeSpan(filled[harness.Span]()), func(t *testing.T, m *controlpb.Span) {
		s, err := decodeSpan(m)
		if err == nil && (s.Stamps < 0 || s.Stamps > maxStamps || !(s.Seconds >= 0 && s.Seconds <= maxSpan)) {
			t.Errorf("%+v", s)
		}
	})
}

func FuzzReplies(f *testing.F) {
	// One of the replies, by its first byte.
	add := func(kind byte, m proto.Message) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append([]byte{kind}, b...))
	}
	add(0, encodeOpened(filled[harness.Opened]()))
	add(1, encodePath(filled[transports.Path]()))
	add(2, encodeOutcome(filled[harness.Outcome]()))
	add(3, encodeHost(filled[results.Host]()))
	add(4, &controlpb.Fault{Code: string(fault.PeerBusy), Op: "x", Cause: "y"})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		parse := func(m proto.Message) bool { return proto.Unmarshal(b[1:], m) == nil }
		switch b[0] % 5 {
		case 0:
			if m := new(controlpb.Opened); parse(m) {
				decodeOpened(m)
			}
		case 1:
			if m := new(controlpb.Path); parse(m) {
				var d decoder
				if p := d.path(m); d.err == nil && !plain(p.Device) {
					t.Errorf("device %q", p.Device)
				}
			}
		case 2:
			if m := new(controlpb.Outcome); parse(m) {
				o, err := decodeOutcome(m)
				if err == nil && (math.IsNaN(o.Seconds) || o.Seconds < 0) {
					t.Errorf("%g seconds", o.Seconds)
				}
			}
		case 3:
			if m := new(controlpb.Host); parse(m) {
				if h, err := decodeHost(m); err == nil && !plain(h.Hostname) {
					t.Errorf("host %q", h.Hostname)
				}
			}
		case 4:
			m := new(controlpb.Fault)
			if !parse(m) {
				return
			}
			e := fromStatus("peer", "op", statusOf(t, m))
			if e == nil {
				return
			}
			if _, known := fault.Lookup(e.Code); !known || !plain(e.Error()) {
				t.Errorf("%q of code %q", e.Error(), e.Code)
			}
		}
	})
}

const time60 = 60 * time.Second

// statusOf is a gRPC status with a fault as its detail, as a server of ill will could send it.
func statusOf(t *testing.T, m *controlpb.Fault) error {
	s, err := status.New(codes.Aborted, "x").WithDetails(m)
	if err != nil {
		t.Skip("no status holds such a detail")
	}
	return s.Err()
}
