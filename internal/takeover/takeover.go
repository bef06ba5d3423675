// Package takeover makes the manifests by which Portcullis takes over what others have opened in a cluster: entries of the ConfigMaps of
// proxies become StreamIngresses that say exactly the same, and MetalLB's pools AddressPools that have every address which a Service has.
// What Portcullis can't say, or what only a person can decide, is put into words beside them.
//
// It knows no cluster: what was read goes in, documents come out.
package takeover

import (
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// Cluster is what was read.
type Cluster struct {
	*snapshot.Snapshot
	Streams []*v1beta1.StreamIngress
	Pools   []*v1beta1.AddressPool
	// MetalLB are its IPAddressPools.
	MetalLB []*unstructured.Unstructured
}

// Options say what is asked for.
type Options struct {
	// Class is the StreamIngressClass to make for the proxy that has none, empty for none.
	Class string
	// ProxyNamespace is the namespace whose ConfigMaps are looked at, empty for all.
	ProxyNamespace string
	// Namespace is the one to which streams lead, and whose Services are looked at; empty for all.
	Namespace string
}

// Document is a manifest with what there is to say of it, or words alone.
type Document struct {
	// Object is the manifest, nil for words alone.
	Object Object
	// Notes are worth knowing, and Decisions are for a person to make.
	Notes, Decisions []string
	// Held says that the manifest is not to be applied before that.
	Held bool
}

// Object is one of the API.
type Object interface {
	runtime.Object
	metav1.Object
}

// Hold has the manifest wait for a decision.
func (d *Document) Hold(format string, args ...any) {
	d.Held = true
	d.decide(format, args...)
}

func (d *Document) decide(format string, args ...any) {
	d.Decisions = append(d.Decisions, fmt.Sprintf(format, args...))
}

func (d *Document) note(format string, args ...any) {
	d.Notes = append(d.Notes, fmt.Sprintf(format, args...))
}

// typeOf is the type of a kind of ours.
func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: kind}
}

// quoted is a text that somebody else has written, as far as that can be read in one line.
func quoted(text string) string { return fmt.Sprintf("%.120q", text) }

// texts are addresses, separated by commas.
func texts(ips []netip.Addr) (text string) {
	for i, ip := range ips {
		if i > 0 {
			text += ","
		}
		text += ip.String()
	}
	return text
}
