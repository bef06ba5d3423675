// Package board draws a dashboard of Grafana with values that Prometheus had, as a picture for the docs.
package board

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"
)

// Panel is one panel of a dashboard, a row of panels included, as Grafana's JSON has it.
type Panel struct {
	Title       string `json:"title"`
	Type        string `json:"type"` // row, stat, timeseries
	GridPos     Grid   `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit       string `json:"unit"`
			Thresholds struct {
				Steps []Step `json:"steps"`
			} `json:"thresholds"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []Target `json:"targets"`
	// Series are the values to draw, which the JSON does not have.
	Series []Series `json:"-"`
}

// Grid says where a panel is, in columns of which there are 24, and in rows.
type Grid struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

// Step is the color of values from one on; of the first step, of all values.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Target is a query, and what its series are called.
type Target struct {
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
}

// Series is a curve. Between two points that are further from each other than the time between scrapes there is nothing.
type Series struct {
	Name   string
	Points []Point
}

// Point is a value, so long after the beginning.
type Point struct {
	At    time.Duration
	Value float64
}

// Read gives the panels of a dashboard, in its order.
func Read(dashboard []byte) ([]Panel, error) {
	var board struct {
		Panels []Panel `json:"panels"`
	}
	err := json.Unmarshal(dashboard, &board)
	return board.Panels, err
}

var label = regexp.MustCompile(`{{(\w+)}}`)

// Name is what the legend calls a series with labels. Of a label that it does not have, there is nothing.
func (t Target) Name(labels map[string]string) string {
	return strings.TrimSpace(label.ReplaceAllStringFunc(t.LegendFormat, func(found string) string {
		return labels[strings.Trim(found, "{}")]
	}))
}
