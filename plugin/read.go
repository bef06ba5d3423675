package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// Unread is something that could not be read.
type Unread struct {
	// What is a kind, or a ConfigMap, and Why the reason: forbidden, not installed, read of one namespace alone, or what the API server says.
	What string `json:"what"`
	Why  string `json:"why"`
}

// String is one line.
func (u Unread) String() string { return fmt.Sprintf("could not read %s: %s", u.What, u.Why) }

const (
	forbidden    = "forbidden"
	notInstalled = "not installed"
)

// reader reads a cluster, once.
type reader struct {
	cluster
	// namespace is the only one that is read if limited, and otherwise what is read where not all may be.
	namespace string
	limited   bool
	// whole takes the objects as they are; where it is nil, the snapshot does, without what no finding is made of.
	whole    func(client.Object)
	progress *progress

	unread []Unread
	isRead bool // something that findings are about
	// failed is the first of what failed for another reason than that it is forbidden, nil for none.
	failed error
}

// carriers are the kinds that findings are about, beside ConfigMaps. Who can read others alone has seen nothing.
var carriers = []string{"Service", "Ingress", "Gateway"}

// isOver says whether an error ends all reading: there is no connection, or nobody knows the user there. Others are about what was asked
// for, such as a kind of which the webhook that converts it is down.
func isOver(err error) bool {
	var lost *url.Error
	isEnded := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	return isEnded || errors.As(err, &lost) || apierrors.IsUnauthorized(err)
}

// fail notes what could not be read for another reason than that it is forbidden. It returns an error where that ends all reading.
func (r *reader) fail(what string, err error) error {
	failed := fmt.Errorf("reading %s: %w", what, err)
	if isOver(err) {
		return failed
	}
	r.failed = cmp.Or(r.failed, failed)
	r.note(Unread{what, clean(err.Error())})
	return nil
}

// errNothing says that there is nothing that may be read.
var errNothing = errors.New("nothing could be read that could be wrong: " +
	"ask for the right to list Services and Ingresses, of a namespace (-n) at least")

// newReader is a reader that tells of its progress.
func (t *tool) newReader(limited bool) (*reader, error) {
	namespace, _, err := t.namespace()
	if err != nil {
		return nil, err
	}
	c, err := t.open(t)
	if err != nil {
		return nil, err
	}
	return &reader{cluster: c, namespace: namespace, limited: limited, progress: newProgress(t.ErrOut, clock.RealClock{})}, nil
}

// ofFindings are the kinds that findings are made of, and ofDoors those that only doors are, in the order in which they are read. What says
// which ConfigMaps to read comes before these.
var (
	ofFindings = []string{
		"Namespace", "Service", "Node", "Deployment", "DaemonSet", "Ingress", "IngressClass", "Gateway", "ListenerSet",
		"TCPRoute", "UDPRoute", "TLSRoute", "HTTPRoute", "GRPCRoute", "StreamIngressClass", "HostPolicy",
	}
	ofDoors = []string{"EndpointSlice", "EdgeClaim"}
)

// read reads all that findings are made of, and doors if asked to. The error says that the cluster can't be read at all.
func (r *reader) read(ctx context.Context, forDoors bool) (*snapshot.Snapshot, error) {
	s, names := &snapshot.Snapshot{NodePorts: snapshot.DefaultNodePorts}, ofFindings
	if forDoors {
		names = slices.Concat(ofFindings, ofDoors)
	}
	return s, r.readAll(ctx, names, s)
}

// readAll reads kinds, and the ConfigMaps of streams.
func (r *reader) readAll(ctx context.Context, names []string, s *snapshot.Snapshot) error {
	defer r.progress.end()
	if err := r.readKinds(ctx, names, s); err != nil {
		return err
	}
	if err := r.readConfigMaps(ctx, s); err != nil {
		return err
	}
	if !r.isRead {
		return cmp.Or(r.failed, errNothing)
	}
	return nil
}

// readKinds reads kinds one after the other.
func (r *reader) readKinds(ctx context.Context, names []string, s *snapshot.Snapshot) error {
	for _, name := range names {
		if err := r.readKind(ctx, kindOf(name), s); err != nil {
			return err
		}
	}
	return nil
}

// readKind reads a kind: of all namespaces, else of the one that the user is in.
func (r *reader) readKind(ctx context.Context, k *kind, s *snapshot.Snapshot) error {
	namespace := ""
	if r.limited && !k.isCluster {
		namespace = r.namespace
	}
	namespace, err := r.widely(k, namespace, func(namespace string) error { return r.eachServed(ctx, k, namespace, s) })
	switch {
	case err == nil:
		r.isRead = r.isRead || slices.Contains(carriers, k.name)
		s.MarkRead(k.name, namespace)
	case apierrors.IsForbidden(err):
		r.note(Unread{k.plural, forbidden})
	case apierrors.IsNotFound(err):
		r.note(Unread{k.plural, notInstalled})
		if !isBuiltIn(k.version.Group) { // else older clusters have them in another version
			s.MarkRead(k.name, namespace) // there are none
		}
	default:
		return r.fail(k.plural, err)
	}
	return nil
}

// widely reads a kind of a namespace, or, where all may not be read, of the one that the user is in, which is noted. It returns of which
// one it was.
func (r *reader) widely(k *kind, namespace string, read func(namespace string) error) (string, error) {
	err := read(namespace)
	if !apierrors.IsForbidden(err) || namespace != "" || k.isCluster {
		return namespace, err
	}
	if err = read(r.namespace); err == nil {
		r.note(Unread{k.plural, fmt.Sprintf("%s in all namespaces; those of namespace %s were read", forbidden, r.namespace)})
	}
	return r.namespace, err
}

// eachServed reads a kind in the newest version in which it is served.
func (r *reader) eachServed(ctx context.Context, k *kind, namespace string, s *snapshot.Snapshot) error {
	err := r.each(ctx, k, namespace, s)
	for _, version := range k.older {
		if !apierrors.IsNotFound(err) {
			break
		}
		older := k.in(version)
		err = r.each(ctx, &older, namespace, s)
	}
	return err
}

func (r *reader) each(ctx context.Context, k *kind, namespace string, s *snapshot.Snapshot) error {
	r.progress.begin(k.plural)
	return r.Each(ctx, k, namespace, "", func(obj runtime.Object) {
		o, is := obj.(client.Object)
		switch {
		case is && r.whole != nil:
			r.whole(o)
		case is:
			slim(o)
			addTo(s, o)
		}
		r.progress.count()
	})
}

// readConfigMaps reads the ConfigMaps of streams: those that somebody names, and those that have the usual names.
func (r *reader) readConfigMaps(ctx context.Context, s *snapshot.Snapshot) error {
	found := map[types.NamespacedName]*corev1.ConfigMap{}
	if err := r.readUsual(ctx, s, found); err != nil {
		return err
	}
	for _, key := range s.Streams() {
		if found[key] != nil {
			continue
		}
		cm, err := r.ConfigMap(ctx, key)
		switch {
		case err == nil:
			found[key] = cm
			r.isRead = true
		case apierrors.IsForbidden(err):
			s.MarkUnread(key)
			r.unread = append(r.unread, Unread{"ConfigMap " + key.String(), forbidden})
		case !apierrors.IsNotFound(err):
			s.MarkUnread(key)
			if err := r.fail("ConfigMap "+key.String(), err); err != nil {
				return err
			}
		}
	}
	for _, cm := range found {
		if r.whole == nil {
			slim(cm)
		}
		s.ConfigMaps = append(s.ConfigMaps, cm)
	}
	slices.SortFunc(s.ConfigMaps, func(a, b *corev1.ConfigMap) int {
		return strings.Compare(snapshot.Key(a).String(), snapshot.Key(b).String())
	})
	return nil
}

// readUsual reads the ConfigMaps of the usual names, of the namespace of the user where not all may be read.
func (r *reader) readUsual(ctx context.Context, s *snapshot.Snapshot, found map[types.NamespacedName]*corev1.ConfigMap) error {
	k, in, isRead := kindOf("ConfigMap"), "", true
	if r.limited {
		in = r.namespace
	}
	for _, name := range []string{"tcp-services", "udp-services"} {
		r.progress.begin(k.plural)
		of, err := r.widely(k, in, func(namespace string) error {
			return r.Each(ctx, k, namespace, "metadata.name="+name, func(obj runtime.Object) {
				if cm, is := obj.(*corev1.ConfigMap); is {
					found[snapshot.Key(cm)] = cm
				}
			})
		})
		switch {
		case err == nil:
			in, r.isRead = of, true
		case apierrors.IsForbidden(err):
			isRead = false
			r.unread = append(r.unread, Unread{k.plural + " named " + name, forbidden})
		default:
			isRead = false
			if err := r.fail(k.plural+" named "+name, err); err != nil {
				return err
			}
		}
	}
	if isRead {
		s.MarkRead(k.name, in)
	}
	return nil
}

// tell says what could not be read, what has one reason in one line.
func tell(w io.Writer, unread []Unread) {
	var order []string
	by := map[string][]string{}
	for _, u := range unread {
		if by[u.Why] == nil {
			order = append(order, u.Why)
		}
		by[u.Why] = append(by[u.Why], u.What)
	}
	for _, why := range order {
		what := strings.Join(by[why], ", ")
		if why == notInstalled {
			line(w, "%s: %s", why, what)
			continue
		}
		line(w, "%s", Unread{what, why})
	}
}
