package plots

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Format is a kind of file.
type Format string

// The formats. SVG keeps text as text, with fall-back fonts; PNG has 200 dots an inch; PDF has its font inside, titles in normal weight, and replaces
// what its encoding lacks (µ becomes u).
const (
	SVG Format = "svg"
	PNG Format = "png"
	PDF Format = "pdf"
)

// Formats lists the formats.
func Formats() []Format { return []Format{SVG, PNG, PDF} }

const (
	dotsPerInch = 200
	// mostDots bounds an image: a figure of very many panels gets fewer dots an inch.
	mostDots = 12000
)

// FormatOf is the format that the name of a file asks for by its extension.
func FormatOf(name string) (Format, error) {
	ext := strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
	for _, f := range Formats() {
		if ext == string(f) {
			return f, nil
		}
	}
	return "", fmt.Errorf("%s: a figure's file ends in .svg, .png or .pdf", name)
}

// Write draws the figure. The same figure gives the same bytes.
func (f *Figure) Write(w io.Writer, format Format) error {
	g := f.layout()
	var out bytes.Buffer
	switch format {
	case SVG:
		c := vgsvg.New(f.width, g.total)
		f.draw(c, g, false)
		if _, err := c.WriteTo(&out); err != nil {
			return fmt.Errorf("svg: %w", err)
		}
		return f.writeSVG(w, out.Bytes())
	case PNG:
		dots := min(dotsPerInch, int(mostDots*72/float64(max(f.width, g.total))))
		c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(f.width, g.total), vgimg.UseDPI(max(dots, 10)))}
		f.draw(c, g, false)
		if _, err := c.WriteTo(&out); err != nil {
			return fmt.Errorf("png: %w", err)
		}
	case PDF:
		steadyPDF()
		c := vgpdf.New(f.width, g.total)
		f.draw(c, g, true)
		if _, err := c.WriteTo(&out); err != nil {
			return fmt.Errorf("pdf: %w", err)
		}
	default:
		return fmt.Errorf("format %q: there are svg, png, pdf", format)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// steadyPDF makes the back end's library write its catalogues in order and without the time of drawing, which is no part of a figure.
var steadyPDF = sync.OnceFunc(func() {
	never := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	fpdf.SetDefaultCatalogSort(true)
	fpdf.SetDefaultCreationDate(never)
	fpdf.SetDefaultModificationDate(never)
})

// writeSVG makes the back end's file fit for pages: it scales with its frame, names fall-back fonts, and says what it is to
// those who cannot see it.
func (f *Figure) writeSVG(w io.Writer, b []byte) error {
	start := bytes.Index(b, []byte("<svg "))
	if start < 0 {
		return fmt.Errorf("svg: the back end wrote none")
	}
	b = b[start:] // the prologue goes, so that the file can stand inside a page
	b = bytes.ReplaceAll(b, []byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
	b = bytes.ReplaceAll(b, []byte(`xml:space="preserve"`), nil)
	end := bytes.IndexByte(b, '>')
	var head bytes.Buffer
	head.Write(b[:end])
	head.WriteString(` role="img">` + "\n<title>")
	if err := xml.EscapeText(&head, []byte(f.Title)); err != nil {
		return fmt.Errorf("svg: %w", err)
	}
	head.WriteString("</title>\n<desc>")
	if err := xml.EscapeText(&head, []byte(strings.Join(slices.Concat([]string{f.Subtitle}, f.Caption, f.notes), "\n"))); err != nil {
		return fmt.Errorf("svg: %w", err)
	}
	head.WriteString("</desc>")
	head.Write(b[end+1:])
	_, err := w.Write(head.Bytes())
	return err
}
