package kube

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// bookOfGrants shows ReferenceGrants page by page. Each has the namespace of its name.
type bookOfGrants struct {
	client.Reader
	consents []string // the namespaces that they let in
	// read is told of each page that is asked for, and may keep it.
	read func(ctx context.Context, namespace string, page client.ListOptions) error
}

// List implements client.Reader.
func (b bookOfGrants) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	page := client.ListOptions{}
	page.ApplyOptions(options)
	if err := b.read(ctx, page.Namespace, page); err != nil {
		return err
	}
	begin, _ := strconv.Atoi(page.Continue)
	end := min(begin+int(page.Limit), len(b.consents))
	grants := list.(*gatewayv1beta1.ReferenceGrantList)
	for _, from := range b.consents[begin:end] {
		g := gatewayv1beta1.ReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace}}
		g.Spec.From = []gatewayv1.ReferenceGrantFrom{{Group: v1beta1.GroupName, Kind: "StreamIngress", Namespace: gatewayv1.Namespace(from)}}
		g.Spec.To = []gatewayv1.ReferenceGrantTo{{Kind: "Service"}}
		grants.Items = append(grants.Items, g)
	}
	if end < len(b.consents) {
		grants.Continue = strconv.Itoa(end)
	}
	return nil
}

// TestNoGrantOfAKindThatIsGone has a cluster that knows no ReferenceGrants, has them no longer, and doesn't tell.
func TestNoGrantOfAKindThatIsGone(t *testing.T) {
	failed := errors.New("the API server is ill")
	for answer, want := range map[error]error{
		&meta.NoKindMatchError{}: nil, apierrors.NewNotFound(gatewayv1beta1.Resource("referencegrants"), ""): nil, failed: failed,
	} {
		book := bookOfGrants{read: func(context.Context, string, client.ListOptions) error { return answer }}
		granted, err := newGrantLooks().granted(t.Context(), book, "shop", types.NamespacedName{Namespace: "cache", Name: "redis"})
		if granted || !errors.Is(err, want) {
			t.Errorf("%v: granted %t, %v", answer, granted, err)
		}
	}
}

// TestGrantsAreReadAFewAtATime has one consent among many grants, and none.
func TestGrantsAreReadAFewAtATime(t *testing.T) {
	const pages = 5
	for at, want := range map[int]int{0: 1, grantsAtOnce: 2, pages*grantsAtOnce - 1: pages, pages * grantsAtOnce: pages} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			read := 0
			book := bookOfGrants{consents: make([]string, pages*grantsAtOnce), read: func(_ context.Context, _ string, page client.ListOptions) error {
				read++
				if page.Limit != grantsAtOnce {
					t.Errorf("%d grants are asked for at once", page.Limit)
				}
				return nil
			}}
			exists := at < len(book.consents)
			if exists {
				book.consents[at] = "shop"
			}
			granted, err := newGrantLooks().granted(t.Context(), book, "shop", types.NamespacedName{Namespace: "data", Name: "db"})
			if granted != exists || err != nil || read != want {
				t.Errorf("granted: %v, %v, after %d pages; want %v after %d", granted, err, read, exists, want)
			}
		})
	}
}

// TestGrantsAreReadInTurn floods the looks from two namespaces; a third one comes late.
func TestGrantsAreReadInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		reading, looked, next := map[string]int{}, map[string]int{}, make(chan bool)
		count := func(of map[string]int, from string, n int) {
			mu.Lock()
			defer mu.Unlock()
			of[from] += n
		}
		book := bookOfGrants{consents: make([]string, 3*grantsAtOnce), read: func(ctx context.Context, namespace string, _ client.ListOptions) error {
			count(reading, namespace, 1)
			defer count(reading, namespace, -1)
			select {
			case <-next:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		looks := newGrantLooks()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		// Each namespace looks for a Service of a namespace of its name, so that the book knows who reads.
		look := func(from string, times int) {
			for range times {
				go func() {
					_, err := looks.granted(ctx, book, from, types.NamespacedName{Namespace: from, Name: "db"})
					if err == nil {
						count(looked, from, 1)
					} else if !errors.Is(err, context.Canceled) {
						t.Errorf("a look of %s that can't wait any longer ends with: %v", from, err)
					}
				}()
			}
		}
		expect := func(when string, want map[string]int) {
			t.Helper()
			synctest.Wait()
			for _, from := range []string{"flood", "surge", "shop"} {
				if reading[from] != want[from] {
					t.Errorf("%s, %d pages are being read for %s, want %d", when, reading[from], from, want[from])
				}
			}
		}
		look("flood", 10)
		expect("while one namespace floods", map[string]int{"flood": 1})
		look("surge", 10)
		expect("while two flood", map[string]int{"flood": 1, "surge": 1})
		look("shop", 1)
		expect("when a third comes", map[string]int{"flood": 1, "surge": 1})
		for range 2 * 3 { // a page of each of the others for each of its own
			next <- true
			synctest.Wait()
			next <- true
			synctest.Wait()
		}
		if looked["shop"] != 1 {
			t.Error("the third namespace waits for more than a page of each of the others")
		}
		if looked["flood"]+looked["surge"] > 5 {
			t.Errorf("of the others, %d looks went before", looked["flood"]+looked["surge"])
		}
		cancel()
		synctest.Wait()
		if len(looks.askers.keys) > 0 {
			t.Errorf("it still remembers %v", looks.askers.keys)
		}
	})
}
