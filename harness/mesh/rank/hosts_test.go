package rank

import (
	"strings"
	"testing"
)

func TestExpandHosts(t *testing.T) {
	for list, want := range map[string]string{
		"node1":                      "node1",
		"node[1-3]":                  "node1 node2 node3",
		"node[01-03,07],gpu5":        "node01 node02 node03 node07 gpu5",
		"node[8-11]":                 "node8 node9 node10 node11",
		"node[08-11]":                "node08 node09 node10 node11",
		"node[098-101]":              "node098 node099 node100 node101",
		"node[5]":                    "node5",
		"rack[0-1]node[1-2]":         "rack0node1 rack0node2 rack1node1 rack1node2",
		"a[1-2]-ib.cluster.local":    "a1-ib.cluster.local a2-ib.cluster.local",
		"[1-2]":                      "1 2",
		"b,a,b":                      "b a b",
		"node[2,1]":                  "node2 node1",
		"gpu[0000000000000000001]":   "",
		"":                           "",
		",":                          "",
		"a,":                         "",
		"a,,b":                       "",
		"node[":                      "",
		"node]":                      "",
		"node[1":                     "",
		"node[[1]]":                  "",
		"node[]":                     "",
		"node[1,]":                   "",
		"node[-2]":                   "",
		"node[1-]":                   "",
		"node[1-2-3]":                "",
		"node[3-1]":                  "",
		"node[1-003]":                "",
		"node[001-3]":                "",
		"node[0-12:4]":               "",
		"node[a-c]":                  "",
		"node[+1]":                   "",
		"node 1":                     "",
		"node1\n":                    "",
		"http://a":                   "",
		"node[0-65536]":              "",
		"a[0-300]b[0-300]":           "",
		"a[0-65535],b":               "",
		"(null)":                     "",
		strings.Repeat("a", 254):     "",
		strings.Repeat("[1]", 254):   "",
		"a[0-99999999999999999999]":  "",
		"a[0-999999999999999999],b1": "",
	} {
		got, err := ExpandHosts(list)
		if (err == nil) != (want != "") || strings.Join(got, " ") != want {
			t.Errorf("%.40q: %v, %v; want %q", list, got, err, want)
		}
	}
	all, err := ExpandHosts("a[0-65535]")
	if err != nil || len(all) != 65536 || all[65535] != "a65535" {
		t.Errorf("%d names, %v", len(all), err)
	}
}

// FuzzExpandHosts: what is expanded stays expanded, is bounded, and has no character that a host name has not.
func FuzzExpandHosts(f *testing.F) {
	for _, s := range []string{"node[01-03,07],gpu5", "rack[0-1]node[1-2]", "a,,b", "x[9-", "a[0-65535]", "a[1]b[2]c[3-4]d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		hosts, err := ExpandHosts(s)
		if err != nil {
			if hosts != nil {
				t.Errorf("%d hosts beside %v", len(hosts), err)
			}
			return
		}
		if len(hosts) == 0 || len(hosts) > maxHosts {
			t.Fatalf("%d hosts", len(hosts))
		}
		again, err := ExpandHosts(strings.Join(hosts, ","))
		if err != nil || len(again) != len(hosts) {
			t.Fatalf("%q expands to %d hosts, and these to %d: %v", s, len(hosts), len(again), err)
		}
		for i := range hosts {
			if hosts[i] == "" || hosts[i] != again[i] || hostText(hosts[i]) != nil {
				t.Fatalf("host %q of %q", hosts[i], s)
			}
		}
	})
}
