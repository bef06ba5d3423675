package main

// object is a piece of Grafana's JSON.
type object = map[string]any

const (
	// width of a dashboard, in Grafana's columns.
	width = 24
	// schema is the version of Grafana's format that is written, that of Grafana 10; later ones read it.
	schema = 38
)

// The sizes of panels, in columns and lines.
const (
	numberWidth, numberHeight = 4, 4
	curveWidth, curveHeight   = 8, 8
)

// source is the data source that is chosen at the top of the dashboard.
var source = object{"type": "prometheus", "uid": "${datasource}"}

// grafana is a dashboard.
func grafana(uid, title string, rows []row) object {
	var panels []object
	y := 0
	for _, r := range rows {
		panels = append(panels, object{
			"id": len(panels) + 1, "type": "row", "title": r.title, "collapsed": false, "panels": []object{}, "gridPos": position(0, y, width, 1),
		})
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			w, h := p.size()
			if x+w > width {
				x, y = 0, y+height
			}
			panels = append(panels, p.json(len(panels)+1, position(x, y, w, h)))
			x, height = x+w, h
		}
		y += height
	}
	return object{
		"uid": uid, "title": title, "tags": []string{"kubernetes", uid}, "schemaVersion": schema, "editable": true, "graphTooltip": 1,
		"refresh": "30s", "time": object{"from": "now-3h", "to": "now"}, "timezone": "browser", "annotations": object{"list": []object{}},
		"templating": object{"list": []object{{
			"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": object{}, "hide": 0,
		}}},
		"panels": panels,
	}
}

func position(x, y, w, h int) object { return object{"x": x, "y": y, "w": w, "h": h} }

func (p panel) size() (w, h int) {
	if p.number {
		return numberWidth, numberHeight
	}
	return curveWidth, curveHeight
}

// json is a panel as Grafana writes it.
func (p panel) json(id int, at object) object {
	targets := make([]object, 0, len(p.queries))
	for i, q := range p.queries {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend,
			"instant": p.number, "range": !p.number,
		})
	}
	result := object{
		"id": id, "title": p.title, "description": p.about, "datasource": source, "gridPos": at, "targets": targets,
		"fieldConfig": object{"defaults": p.defaults(), "overrides": []object{}},
	}
	if p.number {
		result["type"] = "stat"
		result["options"] = object{"colorMode": "value", "graphMode": "none", "reduceOptions": object{"calcs": []string{"lastNotNull"}}}
		return result
	}
	result["type"] = "timeseries"
	result["options"] = object{
		"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true}, "tooltip": object{"mode": "multi", "sort": "desc"},
	}
	return result
}

// defaults say how values look.
func (p panel) defaults() object {
	good, bad := "green", "red"
	if p.below {
		good, bad = bad, good
	}
	steps := []object{{"color": good, "value": nil}}
	if p.bad != 0 {
		steps = append(steps, object{"color": bad, "value": p.bad})
	}
	defaults := object{
		"unit": p.unit, "min": 0, "color": object{"mode": "palette-classic"}, "thresholds": object{"mode": "absolute", "steps": steps},
	}
	if p.number {
		defaults["color"] = object{"mode": "thresholds"}
		defaults["decimals"] = 0
		return defaults
	}
	line := "off"
	if p.bad != 0 {
		line = "dashed"
	}
	defaults["custom"] = object{"lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "thresholdsStyle": object{"mode": line}}
	return defaults
}
