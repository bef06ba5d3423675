package pods

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestSweepDeletesEveryPage has the API server list a few PodToIPs at a time.
func TestSweepDeletesEveryPage(t *testing.T) {
	const all, onePage = 25, 10
	stored := make([]client.Object, all)
	for i := range stored {
		p := &v1beta1.PodToIP{}
		p.Namespace, p.Name, p.UID = "shop", fmt.Sprintf("web-%02d", i), "u"
		stored[i] = p
	}
	c := accesstest.Cluster(t, stored...).Build()
	lists := 0
	live := interceptor.NewClient(c, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			lists++
			from, _ := strconv.Atoi(new(client.ListOptions).ApplyOptions(options).Continue)
			to := min(from+onePage, all)
			page := list.(*v1beta1.PodToIPList)
			for _, obj := range stored[from:to] {
				page.Items = append(page.Items, *obj.(*v1beta1.PodToIP))
			}
			if to < all {
				page.Continue = strconv.Itoa(to)
			}
			return nil
		},
	})
	if deleted, err := (sweeper{live: live, writer: c}).sweep(t.Context()); deleted != all || err != nil || lists != 3 {
		t.Errorf("%d are deleted, of %d pages, %v", deleted, lists, err)
	}
	var left v1beta1.PodToIPList
	if err := c.List(t.Context(), &left); err != nil || len(left.Items) > 0 {
		t.Errorf("%d are left, %v", len(left.Items), err)
	}
}

func TestSweepWithoutTheKind(t *testing.T) {
	c := accesstest.Cluster(t).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: v1beta1.GroupName, Kind: "PodToIP"}}
		},
	}).Build()
	if deleted, err := (sweeper{live: c, writer: c}).sweep(t.Context()); deleted != 0 || err != nil {
		t.Errorf("%d are deleted, %v", deleted, err)
	}
}
