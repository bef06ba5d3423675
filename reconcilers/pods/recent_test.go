package pods

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"jeffthecoder.xyz/portcullis/internal/podtoip"
)

func TestRecentChanges(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	r := newRecentChanges(clock)
	web, db := types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "db"}
	remove, other := podtoip.Change{Delete: "a"}, podtoip.Change{Delete: "b"}
	step := func(what string, key types.NamespacedName, seen string, change podtoip.Change, want time.Duration) {
		t.Helper()
		if got := r.begin(key, seen, change); got != want {
			t.Errorf("%s: wait %s, want %s", what, got, want)
		}
	}
	step("a first change", web, "1", remove, 0)
	clock.SetTime(time.Unix(3, 0))
	step("the same one, before the cache shows it", web, "1", remove, 7*time.Second)
	step("the same one of another name", db, "1", remove, 0)
	step("another one", web, "1", other, 0)
	step("that one again", web, "1", other, cacheTimeout)
	step("that one, after news in the cache", web, "2", other, 0)
	r.forget(web)
	step("that one, after it failed", web, "2", other, 0)
	step("nothing to do", web, "", podtoip.Change{}, 0)
	step("a change that is needed anew", web, "2", other, 0)
	clock.SetTime(time.Unix(13, 0))
	step("the same one, when the cache never showed it", web, "2", other, 0)
	r.forget(web)
	r.forget(db)
	if len(r.made) > 0 {
		t.Errorf("it still remembers %v", r.made)
	}
}
