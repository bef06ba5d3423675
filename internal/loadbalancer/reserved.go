package loadbalancer

import (
	"fmt"
	"strconv"
	"strings"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// PortRanges are ports of the nodes that no Service gets. It can be the value of a flag.
type PortRanges []v1beta1.PortRange

// DefaultReserved are the ports that nodes need for themselves: ssh, etcd, the API server, the kubelet and its companions,
// and the default range of node ports.
func DefaultReserved() PortRanges {
	return PortRanges{{From: 22}, {From: 2379, To: 2380}, {From: 6443}, {From: 10248, To: 10259}, {From: 30000, To: 32767}}
}

// String is the ranges as Set reads them.
func (r *PortRanges) String() string {
	parts := make([]string, 0, len(*r))
	for _, one := range *r {
		part := strconv.Itoa(int(one.From))
		if one.To > one.From {
			part += "-" + strconv.Itoa(int(one.To))
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}

// Set reads ranges such as 22,30000-32767. The empty string is none.
func (r *PortRanges) Set(text string) error {
	*r = nil
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		one := v1beta1.PortRange{From: portNumber(from)}
		if isRange {
			one.To = portNumber(to)
		}
		if one.From == 0 || isRange && one.To < one.From {
			return fmt.Errorf("%q is neither a port nor a range of ports, such as 22 or 30000-32767", part)
		}
		*r = append(*r, one)
	}
	return nil
}

// portNumber is 0 for what is no port.
func portNumber(text string) int32 {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return int32(n)
}

// Has says whether a port is in one of the ranges.
func (r PortRanges) Has(port int32) bool {
	for _, one := range r {
		if port >= one.From && port <= max(one.From, one.To) {
			return true
		}
	}
	return false
}
