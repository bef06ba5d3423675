package plugin

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/takeover"
	"jeffthecoder.xyz/portcullis/plugin/lint"
)

// What can be imported.
const (
	importStreams  = "streams"
	importPools    = "pools"
	importServices = "services"
)

var importable = []string{importStreams, importPools, importServices}

// importCommand is the command.
type importCommand struct {
	*tool
	only    []string
	all     bool
	options takeover.Options
}

func (t *tool) importCommand() *cobra.Command {
	i := &importCommand{tool: t}
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Write manifests that take over what ingress-nginx, HAProxy and MetalLB serve today, without a gap",
		Long: `Write manifests that take over what ingress-nginx, HAProxy and MetalLB serve today, without a gap, to standard output.

Each entry of a ConfigMap of tcp-services or udp-services becomes a StreamIngress that says the same; with --class, the
StreamIngressClass is made, too. MetalLB's IPAddressPools become AddressPools. Services of type LoadBalancer keep their addresses, and
nothing of them is written: what is to be done for them is said. AddressPools are not to be applied before the controller that gives
addresses today has stopped: apply what --only streams writes first.

What a person has to decide is a comment that begins with TODO; a manifest that has to wait for that is commented out. The rules of
Portcullis, and what is in the cluster, decide what would be refused. It reads the cluster, and changes nothing.

With -n, it looks at the streams that lead to one namespace, and at its Services, and writes no pools. The exit status is 0 if all is
imported, 1 where something is to be decided, and 2 where nothing could be read.`,
		Example: `  # All that there is, to read it
  kubectl portcullis import --class public --proxy-namespace ingress-nginx

  # First the ports of a proxy, with a class for it
  kubectl portcullis import --only streams --class public --proxy-namespace ingress-nginx

  # MetalLB's pools, once its controller has stopped and Portcullis has --default-load-balancer; and what is to be done for Services
  kubectl portcullis import --only pools,services

  # What leads to one namespace
  kubectl portcullis import -n shop`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: i.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&i.options.Class, "class", "", "make a StreamIngressClass of this name for the proxy that has none")
	flags.StringVar(&i.options.ProxyNamespace, "proxy-namespace", "", "look at ConfigMaps of streams in this namespace alone")
	flags.StringSliceVar(&i.only, "only", importable, "what to import: "+strings.Join(importable, ", "))
	flags.BoolVarP(&i.all, "all-namespaces", "A", false, "look at all namespaces, as it does without -n")
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(importable, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("proxy-namespace", t.completing("Namespace"))
	_ = cmd.RegisterFlagCompletionFunc("class", cobra.NoFileCompletions)
	return cmd
}

func (i *importCommand) run(cmd *cobra.Command, _ []string) error {
	log.SetLogger(logr.Discard()) // what the webhooks would log is in their verdicts
	if err := i.readFlags(); err != nil {
		return err
	}
	r, err := i.newReader(false)
	if err != nil {
		return err
	}
	f, c, err := i.readCluster(cmd.Context(), r)
	if err != nil {
		return err
	}
	docs, err := i.documents(cmd.Context(), f, c)
	if err != nil {
		return err
	}
	unread := slices.DeleteFunc(slices.Clone(r.unread), func(u Unread) bool { return u.Why == notInstalled })
	if err := writeDocuments(i.Out, docs, unread); err != nil {
		return err
	}
	tell(i.ErrOut, unread)
	objects, decisions := count(docs)
	line(i.ErrOut, "%s, %s to decide", plural(objects, "manifest"), plural(decisions, "thing"))
	if decisions+len(unread) > 0 {
		return errFindings
	}
	return nil
}

// readFlags reads the flags that can be wrong.
func (i *importCommand) readFlags() error {
	if len(i.only) == 0 {
		return fmt.Errorf("--only is empty: want some of %s", strings.Join(importable, ", "))
	}
	for _, word := range i.only {
		if !slices.Contains(importable, word) {
			return fmt.Errorf("--only %q: want some of %s", word, strings.Join(importable, ", "))
		}
	}
	if name := i.options.Class; name != "" {
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 || len(name) > validation.DNS1123LabelMaxLength {
			return fmt.Errorf("--class %q: %s", name, cmp.Or(strings.Join(errs, ", "), "a class has a name of at most 63 characters"))
		}
	}
	namespace, isGiven, err := i.namespace()
	if isGiven && !i.all {
		i.options.Namespace = namespace
		if slices.Equal(i.only, []string{importPools}) {
			return errors.New("--only pools with -n: pools are for no namespace alone; leave -n out")
		}
	}
	return err
}

func (i *importCommand) asks(what string) bool { return slices.Contains(i.only, what) }

// documents are the manifests, in the order in which they are to be applied, and what there is to say. For what applying them in that order
// would be refused, is among what is to be decided.
func (i *importCommand) documents(ctx context.Context, f *found, c *takeover.Cluster) (docs []takeover.Document, err error) {
	linter, err := i.linter(ctx, f, c)
	if err != nil {
		return nil, err
	}
	var pools []takeover.Document
	if i.asks(importPools) || i.asks(importServices) {
		pools = takeover.PoolsOf(c)
		if err := judge(ctx, linter, c, pools); err != nil {
			return nil, err
		}
	}
	if i.asks(importPools) && i.options.Namespace == "" {
		docs = slices.Clone(pools)
	}
	if i.asks(importStreams) {
		streams := takeover.StreamsOf(c, i.options)
		if err := judge(ctx, linter, c, streams); err != nil {
			return nil, err
		}
		docs = append(docs, streams...)
	}
	slices.SortStableFunc(docs, func(a, b takeover.Document) int { return turnOf(a) - turnOf(b) })
	if i.asks(importServices) {
		docs = append(docs, takeover.ServicesOf(c, i.options, pools))
	}
	return docs, nil
}

// turnOf is when a document comes: classes before what names them.
func turnOf(d takeover.Document) int {
	switch d.Object.(type) {
	case *v1beta1.StreamIngressClass:
		return 1
	case *v1beta1.AddressPool:
		return 2
	case *v1beta1.StreamIngress:
		return 3
	}
	return 0
}

// linter is a Portcullis with what the cluster has.
func (i *importCommand) linter(ctx context.Context, f *found, c *takeover.Cluster) (*lint.Linter, error) {
	options := lint.Options{KnowsNamespaces: c.Knows("Namespace", "")}
	options.Settings.Bind(flag.NewFlagSet("", flag.ContinueOnError))
	linter, err := lint.New(ctx, options)
	if err != nil {
		return nil, err
	}
	for _, cm := range c.ConfigMaps {
		f.objects = append(f.objects, cm)
	}
	err = linter.Add(f.objects...)
	return linter, err
}

// judge applies manifests to a cluster in memory. What is refused there waits for a decision, and warnings are to be thought about.
func judge(ctx context.Context, linter *lint.Linter, c *takeover.Cluster, docs []takeover.Document) error {
	for i := range docs {
		d := &docs[i]
		if d.Object == nil || d.Held {
			continue
		}
		content, err := contentOf(d.Object)
		if err != nil {
			return err
		}
		verdict, err := linter.Apply(ctx, &unstructured.Unstructured{Object: content})
		if err != nil {
			return err
		}
		for _, p := range verdict.Refusals {
			d.Hold("it is refused: %s", strings.TrimPrefix(p.Field+": "+p.Message, ": "))
		}
		if c.Knows("Service", d.Object.GetNamespace()) { // else they may be there
			d.Decisions = append(d.Decisions, verdict.Warnings...)
		}
	}
	return nil
}

// readCluster reads what there is to import, and what decisions depend on. The error says that the cluster can't be read at all.
func (i *importCommand) readCluster(ctx context.Context, r *reader) (*found, *takeover.Cluster, error) {
	f, c := &found{}, &takeover.Cluster{Snapshot: &snapshot.Snapshot{}}
	r.whole = func(obj client.Object) { addFound(f, c, obj) }
	return f, c, r.readAll(ctx, i.kinds(), c.Snapshot)
}

// kinds are those that are read: what decisions on streams and pools depend on, proxies, and MetalLB's pools.
func (i *importCommand) kinds() []string {
	names := []string{"Namespace", "Node", "StreamIngressClass", "AddressPool", "StreamIngress", "Service", "EdgeClaim"}
	if i.asks(importStreams) {
		names = append(names, "Deployment", "DaemonSet")
	}
	if i.asks(importPools) || i.asks(importServices) {
		names = append(names, "IPAddressPool")
	}
	return names
}

// addFound adds an object to what is looked at, and to what decisions depend on.
func addFound(f *found, c *takeover.Cluster, obj client.Object) {
	switch o := obj.(type) {
	case *appsv1.Deployment, *appsv1.DaemonSet:
		addTo(c.Snapshot, o)
		return
	case *unstructured.Unstructured:
		c.MetalLB = append(c.MetalLB, o)
		return
	case *v1beta1.StreamIngress:
		c.Streams = append(c.Streams, o)
	case *v1beta1.AddressPool:
		c.Pools = append(c.Pools, o)
	default:
		addTo(c.Snapshot, o)
	}
	f.objects = append(f.objects, obj)
}

// contentOf is a manifest as it is written.
func contentOf(obj runtime.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	return content, nil
}
