package report_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"hopbench/transports/transporttest/need"
)

// chrome is a real browser, spoken to over its debugging pipe.
type chrome struct {
	t       *testing.T
	to      *os.File
	session string

	mu       sync.Mutex
	next     int
	answers  map[int]chan reply
	console  []string // errors and warnings, and what the policy blocked
	requests []string // everything that was asked for by address
	loaded   chan struct{}
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// newChrome starts a browser that ends with the test. A host without one skips the test with the reason.
func newChrome(t *testing.T) *chrome {
	t.Helper()
	path := need.Browser(t)
	fromUs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, fromIt, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-extensions", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, fromIt}
	log, err := os.CreateTemp(t.TempDir(), "chromium")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fromUs.Close()
	fromIt.Close()
	c := &chrome{t: t, to: to, answers: map[int]chan reply{}, loaded: make(chan struct{}, 16)}
	done := make(chan struct{})
	go c.read(from, done)
	t.Cleanup(func() {
		c.session = ""
		fmt.Fprintf(c.to, `{"id":1000000,"method":"Browser.close"}`+"\x00")
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			cmd.Process.Kill()
		}
		cmd.Wait()
		to.Close()
	})
	var target struct{ TargetID string }
	c.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	c.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		c.call(domain+".enable", nil, nil)
	}
	return c
}

func (c *chrome) read(from *os.File, done chan struct{}) {
	defer close(done)
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		line, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if json.Unmarshal(line[:len(line)-1], &m) != nil {
			continue
		}
		c.mu.Lock()
		switch {
		case m.ID != 0 && c.answers[m.ID] != nil:
			c.answers[m.ID] <- m.reply
		case m.Method == "Page.loadEventFired":
			c.loaded <- struct{}{}
		case m.Method == "Runtime.consoleAPICalled" || m.Method == "Runtime.exceptionThrown" || m.Method == "Log.entryAdded":
			c.console = append(c.console, m.Method+" "+string(m.Params))
		case m.Method == "Network.requestWillBeSent":
			var p struct{ Request struct{ URL string } }
			if json.Unmarshal(m.Params, &p) == nil {
				c.requests = append(c.requests, p.Request.URL)
			}
		}
		c.mu.Unlock()
	}
}

func (c *chrome) call(method string, params any, into any) {
	c.t.Helper()
	c.mu.Lock()
	c.next++
	id, answer := c.next, make(chan reply, 1)
	c.answers[id] = answer
	c.mu.Unlock()
	message := map[string]any{"id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if c.session != "" {
		message["sessionId"] = c.session
	}
	b, err := json.Marshal(message)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.to.Write(append(b, 0)); err != nil {
		c.t.Fatal(err)
	}
	select {
	case r := <-answer:
		if r.Error != nil {
			c.t.Fatalf("%s: %s", method, r.Error.Message)
		}
		if into != nil {
			if err := json.Unmarshal(r.Result, into); err != nil {
				c.t.Fatal(err)
			}
		}
	case <-time.After(2 * time.Minute):
		c.t.Fatalf("%s: the browser does not answer", method)
	}
}

// open goes to a file and waits until it has loaded.
func (c *chrome) open(path string) {
	c.t.Helper()
	c.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	select {
	case <-c.loaded:
	case <-time.After(time.Minute):
		c.t.Fatal("the page does not load")
	}
}

// eval is the value of an expression, promises awaited.
func (c *chrome) eval(expression string, into any) {
	c.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	c.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &out)
	if out.ExceptionDetails != nil {
		c.t.Fatalf("%s: %s", expression, out.ExceptionDetails)
	}
	if into != nil {
		if err := json.Unmarshal(out.Result.Value, into); err != nil {
			c.t.Fatalf("%s: %v: %s", expression, err, out.Result.Value)
		}
	}
}

// wait evaluates until the expression is true.
func (c *chrome) wait(expression string) {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var ok bool
		if c.eval("Boolean("+expression+")", &ok); ok {
			return
		}
		if time.Now().After(end) {
			var text string
			c.eval(`document.body ? document.querySelector("#planner")?.innerText ?? "" : ""`, &text)
			c.t.Fatalf("never true: %s\n%s\n%s", expression, text, strings.Join(c.said(), "\n"))
		}
	}
}

// press presses keys one after the other, as a keyboard would.
func (c *chrome) press(keys ...string) {
	c.t.Helper()
	for _, k := range keys {
		code := map[string]int{"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40}[k]
		text := map[string]string{"Enter": "\r", " ": " "}[k]
		down := map[string]any{"type": "rawKeyDown", "key": k, "code": map[bool]string{true: "Space", false: k}[k == " "], "windowsVirtualKeyCode": code}
		if text != "" {
			down["type"], down["text"] = "keyDown", text
		}
		c.call("Input.dispatchKeyEvent", down, nil)
		c.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": k, "windowsVirtualKeyCode": code}, nil)
	}
}

// look sets the width of the window and the colours that the reader prefers.
func (c *chrome) look(width, height int, scheme string) {
	c.t.Helper()
	c.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	c.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// shot writes a picture of the whole page.
func (c *chrome) shot(path string) {
	c.t.Helper()
	var out struct{ Data string }
	c.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true, "format": "png"}, &out)
	b, err := base64.StdEncoding.DecodeString(out.Data)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chrome) said() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.console...)
}

// left lists the requests for anything but the file itself.
func (c *chrome) left(path string) (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		if r != "file://"+path && !strings.HasPrefix(r, "data:") && r != "about:blank" {
			out = append(out, r)
		}
	}
	return out
}
