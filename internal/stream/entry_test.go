package stream

import (
	"strings"
	"testing"
)

func TestParseEntry(t *testing.T) {
	for name, tc := range map[string]struct {
		in, canonical string
		want          Entry
	}{
		"a port by number":              {"shop/postgres:5432", "", Entry{Namespace: "shop", Service: "postgres", Port: "5432"}},
		"a port by name":                {"shop/postgres:sql", "", Entry{Namespace: "shop", Service: "postgres", Port: "sql"}},
		"the first and the last port":   {"a/b:65535", "", Entry{Namespace: "a", Service: "b", Port: "65535"}},
		"accepting PROXY":               {"a/b:1:PROXY", "", Entry{Namespace: "a", Service: "b", Port: "1", Accept: true}},
		"accepting and sending PROXY":   {"a/b:1:PROXY:PROXY", "", Entry{Namespace: "a", Service: "b", Port: "1", Accept: true, Send: true}},
		"sending PROXY only":            {"a/b:1::PROXY", "", Entry{Namespace: "a", Service: "b", Port: "1", Send: true}},
		"PROXY in lower case":           {"a/b:1:proxy:Proxy", "a/b:1:PROXY:PROXY", Entry{Namespace: "a", Service: "b", Port: "1", Accept: true, Send: true}},
		"empty marks":                   {"a/b:1::", "a/b:1", Entry{Namespace: "a", Service: "b", Port: "1"}},
		"one empty mark":                {"a/b:1:", "a/b:1", Entry{Namespace: "a", Service: "b", Port: "1"}},
		"accepting, with an empty mark": {"a/b:1:PROXY:", "a/b:1:PROXY", Entry{Namespace: "a", Service: "b", Port: "1", Accept: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseEntry(tc.in)
			if err != nil || got != tc.want {
				t.Fatalf("got %+v, %v, want %+v", got, err, tc.want)
			}
			canonical := tc.canonical
			if canonical == "" {
				canonical = tc.in
			}
			if got.String() != canonical {
				t.Errorf("String() = %q, want %q", got, canonical)
			}
		})
	}
}

func TestParseEntrySaysWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"nothing":                        {"", `"" is not namespace/service:port[:PROXY[:PROXY]]`},
		"no port":                        {"a/b", `"a/b" is not namespace/service:port[:PROXY[:PROXY]]`},
		"too many parts":                 {"a/b:1:PROXY:PROXY:PROXY", `"a/b:1:PROXY:PROXY:PROXY" is not namespace/service:port[:PROXY[:PROXY]]`},
		"no namespace":                   {"b:1", `"b:1" names no namespace before the service`},
		"an empty namespace":             {"/b:1", `"" is not the name of a namespace`},
		"a namespace in upper case":      {"A/b:1", `"A" is not the name of a namespace`},
		"an empty Service":               {"a/:1", `"" is not the name of a Service`},
		"a Service with a dot":           {"a/b.c:1", `"b.c" is not the name of a Service`},
		"a Service with a slash":         {"a/b/c:1", `"b/c" is not the name of a Service`},
		"an empty port":                  {"a/b:", `"" is neither a port number nor the name of a port`},
		"port 0":                         {"a/b:0", `"0" is neither a port number nor the name of a port`},
		"a port with a leading zero":     {"a/b:080", `"080" is neither a port number nor the name of a port`},
		"a port that is too high":        {"a/b:65536", `"65536" is neither a port number nor the name of a port`},
		"a port name that is too long":   {"a/b:sixteen-letters-", `"sixteen-letters-" is neither a port number nor the name of a port`},
		"another word than PROXY":        {"a/b:1:TLS", `"TLS" is not PROXY`},
		"another word in second place":   {"a/b:1:PROXY:TLS", `"TLS" is not PROXY`},
		"a blank before":                 {" a/b:1", `" a" is not the name of a namespace`},
		"a newline behind":               {"a/b:1\n", `"1\n" is neither a port number nor the name of a port`},
		"an end of the nginx statement":  {"a/b:1;", `"1;" is neither a port number nor the name of a port`},
		"a PROXY with a long s or a dot": {"a/b:1:PROXY\u0323", "\"PROXY\u0323\" is not PROXY"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseEntry(tc.in)
			if err == nil || got != (Entry{}) {
				t.Fatalf("got %+v, %v", got, err)
			}
			if err.Error() != tc.want {
				t.Errorf("it says %s, want %s", err, tc.want)
			}
		})
	}
}

func TestParseKey(t *testing.T) {
	for in, want := range map[string]int32{
		"1": 1, "80": 80, "65535": 65535,
		"": 0, "0": 0, "00": 0, "080": 0, "65536": 0, "-1": 0, "+80": 0, " 80": 0, "80 ": 0, "http": 0, "8_0": 0, "0x50": 0, "4294967376": 0, "٨٠": 0,
	} {
		got, ok := ParseKey(in)
		if got != want || ok != (want != 0) {
			t.Errorf("ParseKey(%q) = %d, %v, want %d", in, got, ok, want)
		}
	}
}

// poison are characters that could end a word, a statement or a block in the configuration of a proxy.
const poison = " \t\r\n\v\f;{}$\"'`\\#()<>|&%*?[]!~^=,@"

func FuzzParseEntry(f *testing.F) {
	for _, value := range []string{
		"", ":", "/:", "a/b:1", "shop/postgres:5432", "a/b:http", "a/b:1:PROXY", "a/b:1::PROXY", "a/b:1:PROXY:PROXY", "a/b:1:proxy:", "a/b:1::",
		"a/b:1;", "a/b:1\nerror_log /x debug;", "a/b:${x}", "a/b:1:PROXY;:", "a/b:-1", "a/b:65536", "a/b:\x00", "a/b:1:\u017fROXY", "../b:1",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		e, err := ParseEntry(value)
		if err != nil {
			if e != (Entry{}) {
				t.Fatalf("ParseEntry(%q) = %+v beside %v", value, e, err)
			}
			return
		}
		for _, text := range []string{value, e.String()} {
			if i := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(poison, r) }); i >= 0 {
				t.Errorf("%q was accepted with %q in it", text, text[i:])
			}
		}
		if back, err := ParseEntry(e.String()); err != nil || back != e {
			t.Errorf("%q is %+v, its text %q is %+v, %v", value, e, e.String(), back, err)
		}
		if len(e.String()) > len(value)+1 {
			t.Errorf("%q grew to %q", value, e.String())
		}
	})
}

func FuzzParseKey(f *testing.F) {
	for _, key := range []string{"", "0", "1", "80", "080", "65535", "65536", "+1", "-1", "http", "1e3", " 1", "99999999999999999999"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		port, ok := ParseKey(key)
		switch {
		case ok && (port < 1 || port > maxPort || Key(port) != key):
			t.Errorf("ParseKey(%q) = %d, whose key is %q", key, port, Key(port))
		case !ok && port != 0:
			t.Errorf("ParseKey(%q) = %d, and not ok", key, port)
		}
	})
}
