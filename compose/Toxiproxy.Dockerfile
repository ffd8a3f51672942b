# The Toxiproxy server, built as netsim/server.py builds it.
FROM golang:1.24-bookworm AS build
RUN go install github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0
FROM debian:bookworm-slim
COPY --from=build /go/bin/server /usr/local/bin/toxiproxy-server
ENTRYPOINT ["toxiproxy-server"]
