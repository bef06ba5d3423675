package refusal

import "testing"

func TestShareExceeded(t *testing.T) {
	for name, tc := range map[string]struct {
		in   Share
		want bool
	}{
		"no limit":                                  {Share{All: 1000, Wanted: 1, Added: 1}, false},
		"the last":                                  {Share{Limit: 3, All: 2, Wanted: 1, Added: 1}, false},
		"one more":                                  {Share{Limit: 3, All: 3, Wanted: 1, Added: 1}, true},
		"several, of which the last is one more":    {Share{Limit: 3, All: 1, Wanted: 3, Added: 3}, true},
		"nothing new, with less than there is":      {Share{Limit: 3, All: 9, Own: 5, Wanted: 4}, false},
		"one for one":                               {Share{Limit: 3, All: 3, Own: 1, Wanted: 1, Added: 1}, false},
		"one for one, of more than the limit":       {Share{Limit: 3, All: 9, Own: 4, Wanted: 4, Added: 1}, false},
		"one for none, of more than the limit":      {Share{Limit: 3, All: 9, Own: 4, Wanted: 5, Added: 1}, true},
		"two for one":                               {Share{Limit: 3, All: 3, Own: 1, Wanted: 2, Added: 2}, true},
		"one for two, and there is room":            {Share{Limit: 3, All: 3, Own: 2, Wanted: 1, Added: 1}, false},
		"one for one, and what it left is held yet": {Share{Limit: 3, All: 4, Own: 2, Wanted: 1, Added: 1}, true},
		"the same, and there is room":               {Share{Limit: 9, All: 4, Own: 2, Wanted: 1, Added: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.in.Exceeded(); got != tc.want {
				t.Errorf("%+v: %v", tc.in, got)
			}
		})
	}
}
