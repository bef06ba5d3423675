package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// streamReader answers the questions of the rules for streams.
type streamReader interface {
	Get(ctx context.Context, key types.NamespacedName) (*v1beta1.StreamIngress, error)
	IsOutside(ctx context.Context, service types.NamespacedName) (bool, error)
	ClusterDomain() string
	Unclaimed(ports *stream.PortSet, class string, protocol v1beta1.Protocol)
	To(ctx context.Context, service types.NamespacedName) ([]v1beta1.StreamIngress, error)
	At(ctx context.Context, protocol v1beta1.Protocol, port int32) ([]v1beta1.StreamIngress, error)
}

// targetReader answers what is asked of the objects that classes write to.
type targetReader interface {
	Foreign(ctx context.Context, class *v1beta1.StreamIngressClass, port stream.PortKey) (f stream.Foreign, ok bool, err error)
	EntriesOf(ctx context.Context, class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol) (stream.Current, error)
}

// Class is a class by name, nil for none.
func (f *Facts) Class(name string) *v1beta1.StreamIngressClass {
	return f.classes.of(f, name, f.from.Class)
}

// Classes are all classes, by name.
func (f *Facts) Classes() []v1beta1.StreamIngressClass { return once(f, f.from.Classes) }

// Stream is a StreamIngress, nil for none.
func (f *Facts) Stream(key types.NamespacedName) *v1beta1.StreamIngress {
	return once(f, func(ctx context.Context) (*v1beta1.StreamIngress, error) { return f.ask.streams.Get(ctx, key) })
}

// IsOutside says whether a Service is the one of a stream that leads out of the cluster, made by Portcullis or yet to be made.
func (f *Facts) IsOutside(service types.NamespacedName) bool {
	return once(f, func(ctx context.Context) (bool, error) { return f.ask.streams.IsOutside(ctx, service) })
}

// ClusterDomain is the domain of the names of the cluster's own Services.
func (f *Facts) ClusterDomain() string { return f.ask.streams.ClusterDomain() }

// Granted says whether a ReferenceGrant in the Service's namespace lets StreamIngresses of a namespace point to it.
func (f *Facts) Granted(from string, service types.NamespacedName) bool {
	return once(f, func(ctx context.Context) (bool, error) { return f.from.Granted(ctx, from, service) })
}

// Foreign is what is at a port on the class's proxy that was not made by Portcullis, ok is false for nothing.
func (f *Facts) Foreign(class *v1beta1.StreamIngressClass, port stream.PortKey) (_ stream.Foreign, ok bool) {
	found := once(f, func(ctx context.Context) (stream.Foreign, error) {
		var found stream.Foreign
		var err error
		found, ok, err = f.ask.targets.Foreign(ctx, class, port)
		return found, err
	})
	return found, ok && f.err == nil
}

// Unclaimed takes the ports of a class that have a claim out of a set.
func (f *Facts) Unclaimed(ports *stream.PortSet, class string, protocol v1beta1.Protocol) {
	f.ask.streams.Unclaimed(ports, class, protocol)
}

// Entries are what is in the ConfigMap of a class for a protocol, nothing where there is none.
func (f *Facts) Entries(class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol) stream.Current {
	return once(f, func(ctx context.Context) (stream.Current, error) {
		return f.ask.targets.EntriesOf(ctx, class, protocol)
	})
}

// StreamsTo are the streams whose upstream is a Service.
func (f *Facts) StreamsTo(service types.NamespacedName) []v1beta1.StreamIngress {
	return once(f, func(ctx context.Context) ([]v1beta1.StreamIngress, error) { return f.ask.streams.To(ctx, service) })
}

// StreamsAt are the streams of any class that ask for a port or have been given it.
func (f *Facts) StreamsAt(protocol v1beta1.Protocol, port int32) []v1beta1.StreamIngress {
	return once(f, func(ctx context.Context) ([]v1beta1.StreamIngress, error) {
		return f.ask.streams.At(ctx, protocol, port)
	})
}

var _ stream.RestoreFacts = &Facts{}
