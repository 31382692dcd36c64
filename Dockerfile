# The image holds one static binary and the CA certificates: no shell, no package manager, no root.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download && go mod verify
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w' -o /out/mediator ./cmd/mediator

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/mediator /mediator
# Run with a read-only root (--read-only); the only folders that are written are the mounted state and run folders.
USER 65532:65532
ENTRYPOINT ["/mediator"]
CMD ["help"]
