// Package foreign reads the output of other benchmarks into this project's records: perftest (text and
// JSON), iperf3 JSON, qperf text, nccl-tests JSON, nvbandwidth JSON and nixlbench text.
//
// Every cell names the tool that measured it (PeerTool) and that tool's own definition of the number, such as
// "perftest.bandwidth.average": a definition is part of a cell's identity, so these figures stand in tables and plots
// beside others and are never mixed up with them. Base units are those of package results: bytes and
// seconds. What a tool printed as "N/A", "nan", "inf" or a zero that it could not measure is absent, with a
// warning; what it could not run is waived or failed, with its reason.
package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"hopbench/results"
	"hopbench/results/unit"
)

// maxInput bounds what one output may hold; the longest real ones are a few MiB.
const maxInput = 256 << 20

// Options are the facts that an output does not carry. The zero value leaves them to what the output shows.
type Options struct {
	Transport   string // "roce", "nvlink" …; empty: from the output
	Realm       string // empty: software where the output shows a software device or one host, else hardware; an iperf3 run that names no connection is refused
	BufferBytes int64  // of nvbandwidth, whose JSON does not name it; 0 leaves the sizes open
}

// File is one output, read.
type File struct {
	Format     string // of Formats
	Tool       string // name and version as far as the output says it
	Started    time.Time
	Hosts      []results.Host
	Cells      []results.Cell
	Incomplete string   // why what is here is not the whole of a run that ended well; empty where it is
	Warnings   []string // about the whole
}

// A Format is one kind of output that can be read.
type Format struct {
	Name        string
	Summary     string
	Definitions []string // what its numbers mean, each id with its words

	detect func([]byte) bool
	parse  func(*reader) error
}

// Formats lists them all.
func Formats() []Format {
	return []Format{perftestJSON, perftestText, iperf3, ncclTests, nvbandwidth, nixlbench, qperf}
}

// reader is one output under way.
type reader struct {
	text []byte
	o    Options
	f    *File
}

// Parse reads one output. format is a name of Formats, or empty to tell it from the content.
func Parse(r io.Reader, format string, o Options) (*File, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxInput {
		return nil, fmt.Errorf("more than %d MiB: not an output of these tools", maxInput>>20)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("empty")
	}
	for _, f := range Formats() {
		if f.Name != format && (format != "" || !f.detect(text)) {
			continue
		}
		in := &reader{text: text, o: o, f: &File{Format: f.Name}}
		if err := f.parse(in); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if len(in.f.Cells) == 0 {
			return nil, fmt.Errorf("%s: no figure in it", f.Name)
		}
		in.finish()
		return in.f, nil
	}
	var names []string
	for _, f := range Formats() {
		names = append(names, f.Name)
	}
	if format != "" {
		return nil, fmt.Errorf("unknown format %q (%s)", format, strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("not recognised as an output of any known tool (%s)", strings.Join(names, ", "))
}

// finish fills what every cell has.
func (in *reader) finish() {
	if in.f.Hosts == nil {
		in.f.Hosts = []results.Host{}
	}
	for i := range in.f.Cells {
		c := &in.f.Cells[i]
		c.PeerTool = in.f.Tool
		if in.o.Transport != "" {
			c.Transport = in.o.Transport
		}
		if in.o.Realm != "" {
			c.Realm = in.o.Realm
		}
		c.Realm = or(c.Realm, results.RealmHardware)
		c.Label = c.Transport + ", by " + in.f.Tool
		c.Status = or(c.Status, results.StatusOK)
		c.Direction = or(c.Direction, "forward")
		c.Pattern = or(c.Pattern, "contiguous")
		c.InitiatorMemory, c.TargetMemory = or(c.InitiatorMemory, "host"), or(c.TargetMemory, "host")
		c.Descriptors, c.Streams, c.Concurrency = max(c.Descriptors, 1), max(c.Streams, 1), max(c.Concurrency, 1)
		c.Depth = max(c.Depth, 1)
		if c.PieceBytes == 0 {
			c.PieceBytes = c.TotalBytes
		}
		if c.Bandwidth == nil && c.Latency == nil && c.MessageRatePerSecond == nil && c.Status == results.StatusOK {
			c.Status, c.Reason = results.StatusFailed, or(strings.Join(c.Warnings, "; "), "no figure in its row")
		}
		if c.Status == results.StatusFailed || c.Status == results.StatusWaived {
			c.Bandwidth, c.Latency, c.MessageRatePerSecond = nil, nil, nil
			c.Reason = or(c.Reason, "no reason given")
		}
	}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func (in *reader) warn(format string, args ...any) {
	in.f.Warnings = append(in.f.Warnings, fmt.Sprintf(format, args...))
}

// incomplete marks the run; the first reason stands.
func (in *reader) incomplete(format string, args ...any) {
	if in.f.Incomplete == "" {
		in.f.Incomplete = fmt.Sprintf(format, args...)
	}
}

func (in *reader) add(c results.Cell) { in.f.Cells = append(in.f.Cells, c) }

// figure reads a number that may stand as a string, and as "N/A", "nan" or "inf". ok is false for anything
// that is no figure above zero: none of these tools can measure a zero.
func figure(s string) (v float64, ok bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 {
		return 0, false
	}
	return v, true
}

// scaled is v*by where that is still a figure.
func scaled(s string, by float64) *float64 {
	v, ok := figure(s)
	if v *= by; !ok || v <= 0 || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// count reads a whole number above zero.
func count(s string) (int64, bool) {
	n, err := strconv.ParseInt(strings.ReplaceAll(strings.TrimSpace(s), ",", ""), 10, 64)
	return n, err == nil && n > 0
}

func (in *reader) bandwidth(c *results.Cell, bytesPerSecond *float64) {
	if bytesPerSecond == nil {
		c.Warnings = append(c.Warnings, "the tool printed no bandwidth above zero")
		return
	}
	c.Bandwidth = &results.Bandwidth{BytesPerSecond: *bytesPerSecond, Rounds: []float64{}}
}

// loose is a JSON value whose number may be written as a string.
type loose string

// UnmarshalJSON takes a number, a string or null.
func (l *loose) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(l))
	}
	if string(b) != "null" {
		*l = loose(b)
	}
	return nil
}

var (
	bareKey   = regexp.MustCompile(`(?m)^(\s*)([A-Za-z_][A-Za-z_0-9]*)(\s*:)`)
	bareText  = regexp.MustCompile(`(?m)(:[ \t]*)([A-Za-z_][^",{}\[\]\n]*?)[ \t]*(,?[ \t]*)$`)
	lastComma = regexp.MustCompile(`,(\s*[}\]])`)
	badNumber = regexp.MustCompile(`(:\s*)-?(?:nan|NaN|inf|Infinity)(\s*[,}\]\n])`)
)

// quoteText puts the bare text of a value into quotes; true, false and null stay.
func quoteText(b []byte) []byte {
	m := bareText.FindSubmatch(b)
	switch string(m[2]) {
	case "true", "false", "null":
		return b
	}
	return fmt.Appendf(nil, "%s%q%s", m[1], m[2], m[3])
}

// decode reads the one JSON value of an output. What these tools are known to get wrong is mended, and said:
// keys and text without quotes, a comma before a brace, nan, and text behind the closing brace.
func (in *reader) decode(into any) error {
	text := in.text
	at := bytes.IndexByte(text, '{')
	if at < 0 {
		return fmt.Errorf("not JSON: it begins with %.40q", bytes.TrimSpace(text))
	}
	if at > 0 {
		if lead := bytes.TrimSpace(text[:at]); len(lead) > 0 && !bytes.Equal(lead, []byte("\xef\xbb\xbf")) {
			in.warn("text before the JSON is left out: %.60q", lead)
		}
		text = text[at:]
	}
	d := json.NewDecoder(bytes.NewReader(text))
	err := d.Decode(into)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		mended := badNumber.ReplaceAll(text, []byte(`${1}null$2`))
		mended = bareKey.ReplaceAll(mended, []byte(`$1"$2"$3`))
		mended = bareText.ReplaceAllFunc(mended, quoteText)
		mended = lastComma.ReplaceAll(mended, []byte(`$1`))
		if !bytes.Equal(mended, text) {
			d = json.NewDecoder(bytes.NewReader(mended))
			if d.Decode(into) == nil {
				in.warn("the JSON was invalid as written (%v); read after mending it", unit.Decoding(err))
				err, text = nil, mended
			}
		}
	}
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("the JSON is cut off: it ends after %d bytes, before its last brace", len(in.text))
		}
		return unit.Decoding(err)
	}
	if rest := bytes.TrimSpace(text[d.InputOffset():]); len(rest) > 0 {
		in.warn("text behind the JSON is left out: %.60q", rest)
	}
	return nil
}
