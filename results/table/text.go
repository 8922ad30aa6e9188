package table

import (
	"fmt"
	"io"

	"hopbench/results/page"
)

func (p *Page) text(out io.Writer, columns int) error {
	if columns <= 0 {
		columns = page.Width
	}
	w := page.NewWriter(out)
	for _, h := range p.Head {
		page.Paragraph(w, "", h, columns)
	}
	for _, t := range p.Tables {
		fmt.Fprintln(w)
		if err := t.Text(w, columns); err != nil {
			return err
		}
	}
	if len(p.Waived) > 0 {
		fmt.Fprintln(w, "\nNot run here")
		for _, line := range p.Waived {
			page.Paragraph(w, "  ", line, columns)
		}
	}
	if len(p.Foot) > 0 {
		fmt.Fprintln(w)
		for _, line := range p.Foot {
			page.Paragraph(w, "warning: ", line, columns)
		}
	}
	return w.Err
}
