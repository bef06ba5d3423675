package integration

import "testing"

func TestBothProtocolsOnOneNumber(t *testing.T) {
	e := shared(t).newEdge("both")
	e.create(namespace("both-a"), namespace("both-b"))
	tcpStream, udpStream := sti("both-a/dns", of("both"), tcp(53), to("dns", 53)), sti("both-b/dns", of("both"), udp(53), to("dns", 5353))
	e.create(tcpStream, udpStream)
	e.programmed(tcpStream, udpStream)
	e.leads(TCP, 53, "both-a/dns:53")
	e.leads(UDP, 53, "both-b/dns:5353")
	e.heldBy("both", TCP, 53, "StreamIngress both-a/dns")
	e.heldBy("both", UDP, 53, "StreamIngress both-b/dns")

	e.delete(tcpStream)
	e.leads(TCP, 53, "closed")
	e.heldBy("both", TCP, 53, "")
	e.leads(UDP, 53, "both-b/dns:5353")
}
