package main

import (
	"strings"

	"jeffthecoder.xyz/portcullis/test/bench/report"
)

// costs tells what profiles have shown, and what was done about it. `make bench BENCH_ARGS='--only=house --profiles=DIR'`
// takes them anew.
func (b *bench) costs() error {
	b.add(report.Section{Title: "What costs most", About: strings.TrimSpace(`
Profiles of the manager and of the API server have shown these costs, and this became of them:

1. **Looking at a class again and again.** In a burst, the manager spent most of its time on computing a whole class anew
   each time that the status of one of its streams was written. Now the status counts only where the spec leaves something
   open, and a look that finds nothing to write is followed by a pause of several times what it took.
2. **Refusals.** A refusal names the nearest free ports, and copied the set of claimed ports several times for that. Now it
   copies it once. A create read the ports of the class's Service one by one; now it asks an index that is made once for
   each version of the Service.
3. **The Service in front of a class.** To change one port of a Service, the API server merges, validates and stores all of
   them. This is not ours to change. So the writes are few, their number does not depend on that of the streams, and the
   last one of a burst does not wait for more. Only a few streams at a time have their status written, so that the API
   server gets to open ports meanwhile. A class without a Service, as for a proxy on the host's network, has none of this.

What is left, of the requests that the API server handles for a new stream: two are the answer to the user, the stream
and its claim; one is its status; and two are events, that it was accepted and that it is programmed. All objects of our
kinds travel as JSON, since the API server offers nothing faster for kinds that are defined by a CRD. "Convergence of
bursts" tells how much each process computed for the largest burst.
`)})
	return nil
}
