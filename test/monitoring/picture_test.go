package monitoring

import (
	"encoding/xml"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPictureShowsTheDashboard holds that the picture in the docs has the rows and panels that the dashboard has, and values in nearly all.
func TestPictureShowsTheDashboard(t *testing.T) {
	var svg struct {
		Title string `xml:"title"`
		Text  []struct {
			Class string `xml:"class,attr"`
			Text  string `xml:",chardata"`
		} `xml:"text"`
	}
	if err := xml.Unmarshal(read(t, "docs", "pictures", "dashboard.svg"), &svg); err != nil || svg.Title == "" {
		t.Fatalf("title %q, %v", svg.Title, err)
	}
	var want, got []string
	for _, p := range panels(t) {
		want = append(want, p.Title)
	}
	empty := 0
	for _, text := range svg.Text {
		switch text.Class {
		case "row", "title":
			got = append(got, text.Text)
		case "none":
			empty++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || empty > 3 {
		t.Errorf("run make dashboard: %d panels without values, and (-want +got):\n%s", empty, diff)
	}
}
