package kube

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// TestStringsAreSharedForLong: the objects of a cache come over days, and a garbage collection lies between most of them.
func TestStringsAreSharedForLong(t *testing.T) {
	first, second := strings.Clone("a namespace of many"), strings.Clone("a namespace of many")
	share(&first)
	runtime.GC()
	runtime.GC()
	share(&second)
	if first != second || unsafe.StringData(first) != unsafe.StringData(second) {
		t.Errorf("%q and %q take memory twice", first, second)
	}
}

func TestWhatIsOfUseStaysShared(t *testing.T) {
	var c copies
	const kept = "TCP"
	used := c.one(kept)
	for i := range 5 * maxCopies {
		c.one(strconv.Itoa(i))
		if i%maxCopies == 0 && unsafe.StringData(c.one(strings.Clone(kept))) != unsafe.StringData(used) {
			t.Fatalf("after %d others it is another copy", i)
		}
	}
	if n := len(c.recent) + len(c.past); n > 2*maxCopies {
		t.Errorf("%d strings are kept", n)
	}
	if c.recent["0"] != "" || c.past["0"] != "" {
		t.Error("what nobody uses any longer is kept")
	}
}
