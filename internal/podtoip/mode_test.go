package podtoip

import "testing"

func TestModeSet(t *testing.T) {
	for value, want := range map[string]Mode{"off": Off, "labelled": Labeled, "all": All} { //nolint:misspell // the flag is spelled so
		var m Mode
		if err := m.Set(value); err != nil || m != want || m.String() != value {
			t.Errorf("Set(%q) = %v, mode %q", value, err, m)
		}
	}
	for _, value := range []string{"", "All", "labeled", "none"} {
		m := Labeled
		if err := m.Set(value); err == nil || m != Labeled {
			t.Errorf("Set(%q) = %v, mode %q; want an error and no change", value, err, m)
		}
	}
}

func TestModeCovers(t *testing.T) {
	const label = "nginx-stream.jeffthecoder.xyz/pod-to-ip"
	for name, c := range map[string]struct {
		labels map[string]string
		want   map[Mode]bool
	}{
		"labeled":            {map[string]string{label: "enabled", "team": "a"}, map[Mode]bool{All: true, Labeled: true}},
		"no label":           {map[string]string{"team": "a"}, map[Mode]bool{All: true}},
		"a namespace unseen": {nil, map[Mode]bool{All: true}},
		"another value":      {map[string]string{label: "true"}, map[Mode]bool{All: true}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []Mode{Off, Labeled, All} {
				if got := mode.Covers(c.labels); got != c.want[mode] {
					t.Errorf("%s covers it: %v, want %v", mode, got, c.want[mode])
				}
			}
		})
	}
}
