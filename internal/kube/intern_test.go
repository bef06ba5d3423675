package kube

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// TestStringsStayInterned: the objects of a cache come over days, and a garbage collection lies between most of them.
func TestStringsStayInterned(t *testing.T) {
	first, second := strings.Clone("a namespace of many"), strings.Clone("a namespace of many")
	intern(&first)
	runtime.GC()
	runtime.GC()
	intern(&second)
	if first != second || unsafe.StringData(first) != unsafe.StringData(second) {
		t.Errorf("%q and %q take memory twice", first, second)
	}
}

func TestInternerKeepsWhatIsUsed(t *testing.T) {
	var c interner
	const kept = "TCP"
	used := c.canonical(kept)
	for i := range 5 * maxInterned {
		c.canonical(strconv.Itoa(i))
		if i%maxInterned == 0 && unsafe.StringData(c.canonical(strings.Clone(kept))) != unsafe.StringData(used) {
			t.Fatalf("after %d others it is another copy", i)
		}
	}
	if n := len(c.recent) + len(c.past); n > 2*maxInterned {
		t.Errorf("%d strings are kept", n)
	}
	if c.recent["0"] != "" || c.past["0"] != "" {
		t.Error("what nobody uses any longer is kept")
	}
}
