package table

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hopbench/results"
)

// Pairs is the view of every pair of GPUs: a matrix a size, rows the initiators, columns the targets.
const Pairs View = "pairs"

// everyOther is the memory of the other side in a row that is the sum of one GPU with all others.
const everyOther = "cuda:all"

// pairTables are matrices of the cells between two GPUs: of the way, of bandwidth, of latency. Cells that differ in nothing but their GPUs share one.
func pairTables(items []item) []*Table {
	// A matrix of reasons alone says a page long what the block of what was not run says in a line.
	if len(items) > 0 && !slices.ContainsFunc(items, func(c item) bool { return c.HasFigure() }) {
		return nil
	}
	type key struct {
		results.Identity
		run *results.Run
	}
	layers := map[key][]item{}
	var order []key
	left := 0
	for _, c := range items {
		if gpu(c.InitiatorMemory) == "" || gpu(c.TargetMemory) == "" {
			left++
			continue
		}
		k := key{c.Identity(), c.run}
		k.InitiatorMemory, k.TargetMemory, k.Rail = "", "", ""
		// A pair that has no figure has no way and no realm either, and stands in the matrix of those that have.
		k.InitiatorGPUWay, k.TargetGPUWay, k.Realm = "", "", ""
		if layers[k] == nil {
			order = append(order, k)
		}
		layers[k] = append(layers[k], c)
	}
	var tables []*Table
	for _, run := range runsOf(items) {
		if t := ways(slices.DeleteFunc(slices.Clone(items), func(c item) bool { return c.run != run })); t != nil {
			tables = append(tables, t)
		}
		for _, k := range order {
			if k.run == run {
				tables = append(tables, pairMatrix(layers[k]))
			}
		}
	}
	if left > 0 {
		if len(tables) == 0 {
			tables = append(tables, &Table{Title: "Pairs of GPUs"})
		}
		last := tables[len(tables)-1]
		last.Below = append(last.Below, fmt.Sprintf("left out: %d cells that are not between two GPUs", left))
	}
	return tables
}

func runsOf(items []item) (runs []*results.Run) {
	for _, c := range items {
		if !slices.Contains(runs, c.run) {
			runs = append(runs, c.run)
		}
	}
	return runs
}

// gpu is the number or UUID of a GPU's memory, "" for other memory.
func gpu(memory string) string {
	name, _ := strings.CutPrefix(memory, "cuda:")
	if name == memory {
		return ""
	}
	return name
}

// sides are the GPUs of some cells, in the order of their numbers, and whether one is with all others.
func sides(cells []item) (from, to []string, sums bool) {
	add := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	for _, c := range cells {
		add(&from, c.InitiatorMemory)
		if c.TargetMemory == everyOther {
			sums = true
			continue
		}
		add(&to, c.TargetMemory)
	}
	byNumber := func(a, b string) int {
		x, errX := strconv.Atoi(gpu(a))
		y, errY := strconv.Atoi(gpu(b))
		if errX == nil && errY == nil {
			return cmp.Compare(x, y)
		}
		return strings.Compare(a, b)
	}
	slices.SortFunc(from, byNumber)
	slices.SortFunc(to, byNumber)
	return from, to, sums
}

// way is how a pair's copies go, as its own row says.
func way(c item) string {
	text := c.Label
	if i := strings.IndexByte(text, ','); i > 0 {
		text = text[:i]
	}
	if c.Path != nil && c.Path.Initiator != nil {
		if n := c.Path.Initiator.NVLinks; n != nil {
			text += fmt.Sprintf(" x%d", *n)
		}
		if v := c.Path.Initiator.NVLinkVersion; v != "" {
			text += " (" + v + ")"
		}
	}
	return text
}

// ways is the matrix of the ways, nil where there is one way for all pairs.
func ways(items []item) *Table {
	of := map[[2]string]string{}
	var cells []item
	all := map[string]bool{}
	for _, c := range items {
		if gpu(c.InitiatorMemory) == "" || gpu(c.TargetMemory) == "" || c.TargetMemory == everyOther || !c.HasFigure() {
			continue
		}
		at := [2]string{c.InitiatorMemory, c.TargetMemory}
		if of[at] == "" {
			of[at] = way(c)
			all[of[at]] = true
		}
		cells = append(cells, c)
	}
	if len(all) < 2 {
		return nil
	}
	from, to, _ := sides(cells)
	t := &Table{Title: "Ways between GPUs", Caption: []string{"of the row's GPU to the memory of the column's"}, Columns: []Column{{Head: "GPU"}}}
	for _, b := range to {
		t.Columns = append(t.Columns, Column{Head: b})
	}
	for _, a := range from {
		row := []Cell{{Text: a}}
		for _, b := range to {
			row = append(row, Cell{Text: cmp.Or(of[[2]string{a, b}], "-")})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// pairMatrix is one matrix. Where single flows ran together its last column is their sum.
func pairMatrix(cells []item) *Table {
	fields := fieldsOf(cells)
	main := fields[0]
	first := cells[0]
	title := strings.ToUpper(first.Metric()[:min(1, len(first.Metric()))]) + first.Metric()[min(1, len(first.Metric())):]
	t := &Table{Title: fmt.Sprintf("%s between GPUs, %s, %s of %s", title, main.head, first.Operation, size(first.TotalBytes)), Columns: []Column{{Head: "GPU"}}}
	caption := "the row's GPU writes into the column's"
	if first.Operation == "read" {
		caption = "the row's GPU reads from the column's"
	}
	if first.Direction == "both" {
		caption += ", and the column's into the row's at once"
		if first.Operation == "read" {
			caption = "the row's GPU and the column's read from each other at once"
		}
	}
	if first.Schedule != "" && first.Schedule != "isolated" {
		caption += "; " + first.Schedule + ": the flows of a row at once"
	}
	caption += "; " + first.Definition
	if first.Descriptors > 1 {
		caption += "; " + pieces(shapeOf(first))
	}
	if first.file != "" {
		caption += "; " + first.file
	}
	t.Caption = []string{caption}
	if way := commonWay(cells); way != "" {
		t.Caption = append(t.Caption, "all of them "+way)
	}
	from, to, sums := sides(cells)
	columns := slices.Clone(to)
	if sums {
		columns = append(columns, everyOther)
	}
	for _, b := range columns {
		head := b
		if b == everyOther {
			head = "sum"
		}
		t.Columns = append(t.Columns, Column{Head: head, Align: Decimal})
	}
	at := map[[2]string]item{}
	for _, c := range cells {
		k := [2]string{c.InitiatorMemory, c.TargetMemory}
		if known, ok := at[k]; !ok || !known.HasFigure() {
			at[k] = c
		}
	}
	var low, high item
	for _, a := range from {
		row := []Cell{{Text: a}}
		for _, b := range columns {
			c, there := at[[2]string{a, b}]
			row = append(row, figure(t, c, there, main))
			if !there || b == everyOther || !c.HasFigure() {
				continue
			}
			if v, ok := main.get(c); ok {
				if l, any := value(low, main); !any || v < l {
					low = c
				}
				if h, any := value(high, main); !any || v > h {
					high = c
				}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	shareNotes(t)
	if low.Cell != nil && len(cells) > 2 {
		say := func(c item) string {
			v, _ := value(c, main)
			return fmt.Sprintf("%s (%s to %s)", strings.TrimSpace(main.scale.Format(v)), c.InitiatorMemory, c.TargetMemory)
		}
		t.Below = append(t.Below, fmt.Sprintf("lowest %s, highest %s", say(low), say(high)))
	}
	return t
}

// shareNotes puts the notes that every figure of a matrix has beneath it, and leaves the marks of the others.
func shareNotes(t *Table) {
	figures, marked := 0, make([]int, len(t.Notes)+1)
	for _, row := range t.Rows {
		for _, c := range row[1:] {
			if c.Text == "" || strings.ContainsAny(c.Text[:1], "wfcp-") { // waived, failed, corrupt, partial, none
				continue
			}
			figures++
			for _, m := range c.Marks {
				marked[m]++
			}
		}
	}
	if figures < 2 {
		return
	}
	became := make([]int, len(t.Notes)+1)
	var notes []string
	for m, text := range t.Notes {
		if marked[m+1] == figures {
			t.Below = append(t.Below, "all: "+text)
			continue
		}
		notes = append(notes, text)
		became[m+1] = len(notes)
	}
	t.Notes = notes
	for _, row := range t.Rows {
		for i := range row {
			var marks []int
			for _, m := range row[i].Marks {
				if became[m] > 0 {
					marks = append(marks, became[m])
				}
			}
			row[i].Marks = marks
		}
	}
}

func value(c item, f field) (float64, bool) {
	if c.Cell == nil {
		return 0, false
	}
	return f.get(c)
}

// commonWay is the way of all pairs that have one, "" where they differ.
func commonWay(cells []item) string {
	common := ""
	for _, c := range cells {
		if !c.HasFigure() || c.TargetMemory == everyOther {
			continue
		}
		switch w := way(c); {
		case common == "":
			common = w
		case common != w:
			return ""
		}
	}
	return common
}
