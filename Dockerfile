# The image of Portcullis: one static program, no shell, no root. `make image` needs no container engine; this file is for
# those who build theirs with one. Built for any platform on any platform:
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v1.2.3 -t registry.example.com/portcullis:v1.2.3 .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
# Modules are downloaded again only when they change.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /portcullis ./cmd/portcullis

FROM scratch
COPY tools/image/etc/ /etc/
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /portcullis /portcullis
# "nonroot" by number, which is what runAsNonRoot can check.
USER 65532:65532
ENTRYPOINT ["/portcullis"]
