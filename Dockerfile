# The image of the operator: three static programs, no shell, an unprivileged user. Build arguments: VERSION, such as v0.1.0.
#
# The builder runs on the machine's own platform and cross-compiles, so that images for other platforms need no emulation.
ARG GO_VERSION=1.26
FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS builder
ARG TARGETOS
ARG TARGETARCH
ARG VERSION
WORKDIR /src

# Modules first: this layer stays as long as the dependencies do.
COPY go.mod go.sum ./
RUN go mod download

COPY main.go ./
COPY api/ api/
COPY config/ config/
COPY controllers/ controllers/
COPY internal/ internal/
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath \
    -ldflags "-s -w -X github.com/kruise-operator/kruise-operator/internal/platform/version.release=${VERSION}" \
    -o /kruise-operator . && \
    CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath \
    -ldflags "-s -w -X github.com/kruise-operator/kruise-operator/internal/platform/version.release=${VERSION}" \
    -o /kruise-daemon ./internal/cmd/daemon && \
    CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath \
    -ldflags "-s -w -X github.com/kruise-operator/kruise-operator/internal/platform/version.release=${VERSION}" \
    -o /kruise-preflight ./internal/cmd/preflight

# Nothing but the manager, the node daemon and the checks before a takeover: they are static and need no files but certificates, which are mounted.
FROM scratch
LABEL org.opencontainers.image.title="kruise-operator" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=builder /kruise-operator /kruise-daemon /kruise-preflight /
# By number: there is no /etc/passwd, and runAsNonRoot is checked before the image is looked into.
USER 65532:65532
ENTRYPOINT ["/kruise-operator"]
