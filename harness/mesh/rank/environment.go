package rank

import (
	"fmt"
	"strconv"
	"strings"
)

// environment reads variables. One that is empty is one that is not set.
type environment struct{ get func(string) string }

// number reads a count or an index: nil where it is not set.
func (e environment) number(name string) (*int, error) {
	text := e.get(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("%s=%s is not a number from 0 up", name, clip(text))
	}
	i := int(n)
	return &i, nil
}

// pair reads number and size into a claim. Where exactly one of them is set, lacks says so.
func (e environment) pair(c *claim, number, size string) error {
	var err error
	if c.number, err = e.number(number); err != nil {
		return err
	}
	if c.size, err = e.number(size); err != nil {
		return err
	}
	c.from = e.said(number, size)
	switch {
	case c.number == nil && c.size != nil:
		c.lacks = number + " is not set"
	case c.number != nil && c.size == nil:
		c.lacks = size + " is not set"
	}
	return nil
}

// said lists the variables that are set, with their values.
func (e environment) said(names ...string) string {
	var said []string
	for _, name := range names {
		if v := e.get(name); v != "" {
			said = append(said, name+"="+clip(v))
		}
	}
	return strings.Join(said, ", ")
}

// whole is the error for an engine whose own variables are there in part: nobody sets them by hand, so something has taken one away,
// and another engine's answer would be that of another level.
func whole(c *claim) error {
	if c.complete() {
		return nil
	}
	return fmt.Errorf("%s (%s): %s", c.engine, c.from, c.lacks)
}

// clip keeps a variable's value to one line of a message.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "..."
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.TrimSpace(s) != s {
		return strconv.Quote(s)
	}
	return s
}
