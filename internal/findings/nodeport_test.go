package findings

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// onNodes are Services that have so many ports of the nodes from 30000 on, each of TCP and UDP.
func onNodes(n int) snapshot.Snapshot {
	s := snapshot.Snapshot{NodePorts: snapshot.Range{From: 30000, To: 30019}}
	for i := range n {
		port := tcp(80, 80)
		port.NodePort = int32(30000 + i)
		udp := port
		udp.Protocol = corev1.ProtocolUDP
		s.Services = append(s.Services, service(fmt.Sprintf("team-%d/svc-%d", i%2, i), 0, port, udp))
	}
	return s
}

var nodePortRows = map[string]row{
	"ports of the nodes that are left": {in: onNodes(17)},
	"few ports of the nodes": {
		in:   onNodes(19),
		want: []string{"NodePortsNearEnd 30000-30019: Namespace team-0 and Namespace team-1"},
		says: "19 of 20 ports are in use, 1 are left; most are of team-0 (10) and team-1 (9)",
	},
	"ports outside of the range": {
		in: snapshot.Snapshot{NodePorts: snapshot.Range{From: 1, To: 2}, Services: onNodes(10).Services},
	},
}
