package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// sized is a reader of Services that have these sizes, and can be read as long as those of a page make no more than most.
func sized(t *testing.T, most int, sizes []int, asked *[]int64) client.Reader {
	return clientOf(t).WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			o := new(client.ListOptions).ApplyOptions(options)
			*asked = append(*asked, o.Limit)
			from, _ := strconv.Atoi(o.Continue)
			to, sum := min(from+int(o.Limit), len(sizes)), 0
			for _, size := range sizes[from:to] {
				sum += size
			}
			if sum > most {
				return fmt.Errorf("reading: %w", &http.MaxBytesError{Limit: int64(most)})
			}
			services := list.(*corev1.ServiceList)
			for i := from; i < to; i++ {
				services.Items = append(services.Items, corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: strconv.Itoa(i)}})
			}
			if to < len(sizes) {
				services.Continue = strconv.Itoa(to)
			}
			return nil
		},
	}).Build()
}

func TestPagesAreSmallerWhereObjectsAreLarge(t *testing.T) {
	const size, small, large = 16, 1, 20
	objects := slices.Concat(slices.Repeat([]int{small}, 40), slices.Repeat([]int{large}, 10), slices.Repeat([]int{small}, 100))
	var asked []int64
	live := sized(t, 100, objects, &asked)
	var read []string
	for page, err := range Pages[corev1.ServiceList](t.Context(), live, size) {
		if err != nil {
			t.Fatal(err)
		}
		for _, service := range page.Items {
			read = append(read, service.Spec.ClusterIP)
		}
	}
	for i := range objects {
		if i >= len(read) || read[i] != strconv.Itoa(i) {
			t.Fatalf("of %d objects, %d are read, in this order: %v", len(objects), len(read), read)
		}
	}
	if least := slices.Min(asked); least < 2 || least > 5 {
		t.Errorf("the smallest page is of %d objects: %v", least, asked)
	}
	if last := asked[len(asked)-1]; last != size {
		t.Errorf("after the large objects, a page is of %d objects: %v", last, asked)
	}
}

func TestAnObjectThatIsTooLargeEndsThePages(t *testing.T) {
	var asked []int64
	var tooLarge *http.MaxBytesError
	pages := 0
	for _, err := range Pages[corev1.ServiceList](t.Context(), sized(t, 100, []int{1, 1000, 1}, &asked), 2) {
		pages++
		if pages == 2 && !errors.As(err, &tooLarge) {
			t.Errorf("the object is read: %v", err)
		}
	}
	if pages != 2 {
		t.Errorf("there are %d pages: %v", pages, asked)
	}
}

func TestAnswersAreLimitedForPagesOnly(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		_, _ = w.Write(make([]byte, n))
	}))
	defer server.Close()
	plain := &http.Client{Transport: LimitAnswers(http.DefaultTransport)}
	for name, tc := range map[string]struct {
		ctx    context.Context
		size   int
		passes bool
	}{
		"small":                  {withLimitedAnswers(t.Context()), 1000, true},
		"as large as it may be":  {withLimitedAnswers(t.Context()), largestAnswer, true},
		"too large":              {withLimitedAnswers(t.Context()), largestAnswer + 1, false},
		"large, and not of ours": {t.Context(), largestAnswer + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(tc.ctx, http.MethodGet, fmt.Sprintf("%s/%d", server.URL, tc.size), http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := plain.Do(request)
			if err != nil {
				if tooLarge := (*http.MaxBytesError)(nil); tc.passes || !errors.As(err, &tooLarge) {
					t.Errorf("it fails: %v", err)
				}
				return
			}
			defer answer.Body.Close()
			if body, err := io.ReadAll(answer.Body); err != nil || len(body) != tc.size || !tc.passes {
				t.Errorf("%d bytes are read, %v", len(body), err)
			}
		})
	}
}
