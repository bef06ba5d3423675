package main

// recordings are all pictures.
var recordings = []recording{
	{
		name:    "plugin",
		title:   "kubectl portcullis audit lists what is in conflict in a cluster, and kubectl portcullis who says who has one path of it.",
		columns: 150,
		play:    withoutPortcullis,
		commands: []command{
			{text: "kubectl portcullis audit", status: 1},
			{text: "kubectl portcullis who shop.example.com/api"},
		},
	},
	{
		name:    "session",
		title:   "A team is given TCP port 5432, another one is told who has it and which are free, and is given one that it does not choose.",
		columns: 120,
		play:    withPortcullis,
		commands: []command{
			{text: `kubectl apply -n shop -f - <<EOF
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: postgres}
spec: {listen: 5432, upstream: {service: postgres, port: 5432}}
EOF`},
			{text: `kubectl apply -n blog -f - <<EOF
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: db}
spec: {listen: 5432, upstream: {service: db, port: 5432}}
EOF`, status: 1},
			{text: `kubectl apply -n blog -f - <<EOF
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: db}
spec: {upstream: {service: db, port: 5432}}
EOF`},
			{text: "kubectl wait -A --for=condition=Programmed streamingresses --all"},
			{text: "kubectl get streamingresses -A"},
		},
	},
}
